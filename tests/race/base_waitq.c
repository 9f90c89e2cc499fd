/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producers and consumers on one wait queue, with exclusive waiters that are interrupted at any
 * moment and have deadlines: every item is consumed, so no wake-up may get lost with a waiter that
 * leaves.
 */
#include "base/clock.h"
#include "base/fiber.h"
#include "base/thread.h"
#include "base/waitq.h"
#include "tests/race/race.h"

#define CONSUMERS 8

static struct waitq g_q;
static struct mutex g_lock = MUTEX_INIT(RANK_PIPE);
static unsigned g_items; /* [g_lock] */
static bool g_closed;    /* [g_lock] */
static unsigned g_want;
static _Atomic unsigned g_taken;
static struct fiber *g_fibers[CONSUMERS]; /* NULL: gone. [g_lock] */
static _Atomic bool g_done;

/* 1: took one; 0: there is none; -1: no more to come. */
static int take(void)
{
	int r = 0;

	mutex_lock(&g_lock);
	if (g_items > 0) {
		g_items--;
		r = 1;
	} else if (g_closed) {
		r = -1;
	}
	mutex_unlock(&g_lock);
	return r;
}

static void consumer(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	int got = 0;

	while (got >= 0) {
		uint64_t deadline = me % 2 ? DEADLINE_NONE : clock_mono_ns() + 50 * NSEC_PER_USEC;
		int r = wait_event_exclusive(&g_q, 1, (got = take()) != 0, deadline, WAIT_INTR);

		race_check(r == 0 || r == -ERESTARTSYS || (r == -ETIMEDOUT && me % 2 == 0));
		race_check((r == 0) == (got != 0));
		if (r == -ERESTARTSYS)
			fiber_clear_interrupt(fiber_self());
		if (got > 0)
			atomic_fetch_add(&g_taken, 1);
	}
	mutex_lock(&g_lock);
	g_fibers[me] = NULL;
	mutex_unlock(&g_lock);
}

static void producer(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < g_want; i++) {
		mutex_lock(&g_lock);
		g_items++;
		mutex_unlock(&g_lock);
		waitq_wake(&g_q, 1);
		if (i % 8 == 0)
			fiber_yield();
		/* Now and then all must have been taken: a lost wake-up would show only here. */
		while (i % 64 == 0 && atomic_load(&g_taken) <= i)
			fiber_yield();
	}
	mutex_lock(&g_lock);
	g_closed = true;
	mutex_unlock(&g_lock);
	waitq_wake_all(&g_q, 0);
}

static void *interrupter(void *arg)
{
	(void)arg;
	for (unsigned i = 0; !atomic_load(&g_done); i++) {
		mutex_lock(&g_lock);
		if (g_fibers[i % CONSUMERS])
			fiber_interrupt(g_fibers[i % CONSUMERS]);
		mutex_unlock(&g_lock);
		sched_yield();
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;
	struct fiber *p;

	g_want = race_rounds(20000);
	waitq_init(&g_q);
	race_check(clock_start(CLOCK_KIND_HOST, 0) == 0);
	race_check(workers_start(3, NULL) == 0);
	for (uintptr_t i = 0; i < CONSUMERS; i++) {
		g_fibers[i] = fiber_new(consumer, (void *)i, NULL, "consumer");
		race_check(g_fibers[i]);
	}
	p = fiber_new(producer, NULL, NULL, "producer");
	race_check(p);
	for (unsigned i = 0; i < CONSUMERS; i++)
		fiber_start(g_fibers[i]);
	fiber_start(p);
	race_check(thread_start(&thread, interrupter, NULL, "interrupter") == 0);
	workers_stop();
	atomic_store(&g_done, true);
	pthread_join(thread, NULL);
	race_check(atomic_load(&g_taken) == g_want);
	waitq_fini(&g_q);
	clock_stop();
	return 0;
}
