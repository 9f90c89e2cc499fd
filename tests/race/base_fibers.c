/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers that start, wake each other, wait with deadlines, migrate and end, on several workers,
 * while host threads wake them too. A lost wake-up is a hang; a fiber on two threads is a data
 * race.
 */
#include "base/clock.h"
#include "base/fiber.h"
#include "base/lock.h"
#include "base/thread.h"
#include "tests/race/race.h"

#define WORKERS 4

/* --- A token goes round in a ring: each hop is one wake-up --- */

#define RING 16

static struct fiber *g_ring[RING];
static _Atomic unsigned g_turn;
static unsigned g_hops;
static unsigned g_unguarded; /* only whoever has the turn touches it: TSan checks that */

static void ring_member(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	bool last = false;

	while (!last) {
		unsigned turn;

		while ((turn = atomic_load(&g_turn)) % RING != me)
			(void)fiber_wait(DEADLINE_NONE, WAIT_UNINTR);
		g_unguarded++;
		if (turn % 7 == 0)
			fiber_migrate(worker_at(turn / 7 % WORKERS));
		last = turn + RING > g_hops;
		atomic_store(&g_turn, turn + 1);
		/* The next one waits for its turn, so it has not ended; unless it was the last
		 * round. */
		if (turn + 1 <= g_hops)
			fiber_wake(g_ring[(me + 1) % RING]);
	}
}

static void ring(void)
{
	g_hops = race_rounds(40000);
	for (unsigned i = 0; i < RING; i++) {
		g_ring[i] = fiber_new(ring_member, (void *)(uintptr_t)i, NULL, "ring");
		race_check(g_ring[i]);
	}
	for (unsigned i = 0; i < RING; i++)
		fiber_start(g_ring[i]);
	workers_stop();
	race_check(g_unguarded > g_hops - RING);
	race_check(workers_start(WORKERS, NULL) == 0);
}

/* --- Sleepers with deadlines, woken by threads or by time, whichever is first --- */

#define SLEEPERS 12

static struct sleeper {
	struct mutex lock;
	struct fiber *fiber; /* NULL: gone. [lock] */
	unsigned rounds;
} g_sleepers[SLEEPERS];
static _Atomic unsigned g_left;

static void sleep_often(void *arg)
{
	struct sleeper *s = arg;
	unsigned timeouts = 0, wakes = 0;

	/* Until both have been seen: who is first is chance. */
	for (unsigned i = 0; i < s->rounds || timeouts == 0 || wakes == 0; i++) {
		uint64_t deadline = clock_mono_ns() + (i % 5) * 20 * NSEC_PER_USEC;
		int r = fiber_wait(i % 5 == 4 ? DEADLINE_NONE : deadline, WAIT_INTR);

		race_check(r == 0 || r == -ETIMEDOUT || r == -ERESTARTSYS);
		if (r == -ERESTARTSYS)
			fiber_clear_interrupt(fiber_self());
		if (r == -ETIMEDOUT) {
			race_check(clock_mono_ns() >= deadline);
			timeouts++;
		}
		wakes += r == 0;
		if (i % 16 == 0)
			fiber_migrate(worker_at(i / 16 % WORKERS));
	}
	mutex_lock(&s->lock);
	s->fiber = NULL;
	mutex_unlock(&s->lock);
	atomic_fetch_sub(&g_left, 1);
}

static void *wake_often(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;

	while (atomic_load(&g_left) > 0) {
		struct sleeper *s = &g_sleepers[i++ % SLEEPERS];

		mutex_lock(&s->lock);
		if (s->fiber) {
			if (i / SLEEPERS % 3)
				fiber_wake(s->fiber);
			else
				fiber_interrupt(s->fiber);
		}
		mutex_unlock(&s->lock);
		if (i % SLEEPERS == 0)
			sched_yield();
	}
	return NULL;
}

static void sleepers(void)
{
	pthread_t threads[2];

	atomic_store(&g_left, SLEEPERS);
	for (unsigned i = 0; i < SLEEPERS; i++) {
		struct sleeper *s = &g_sleepers[i];

		mutex_init(&s->lock, RANK_MISC);
		s->rounds = race_rounds(2000);
		s->fiber = fiber_new(sleep_often, s, NULL, "sleeper");
		race_check(s->fiber);
	}
	for (unsigned i = 0; i < SLEEPERS; i++)
		fiber_start(g_sleepers[i].fiber);
	for (unsigned i = 0; i < 2; i++)
		race_check(thread_start(&threads[i], wake_often, (void *)(uintptr_t)(i * 5),
					"waker") == 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* --- Families: fibers that start fibers, and blocking calls --- */

static _Atomic unsigned g_ended;

static long nothing(void *arg)
{
	return (long)(intptr_t)arg;
}

static void family(void *arg)
{
	uintptr_t depth = (uintptr_t)arg;

	for (unsigned i = 0; i < 2 && depth > 0; i++) {
		struct fiber *f = fiber_new(family, (void *)(depth - 1), NULL, "family");

		race_check(f);
		fiber_start(f);
	}
	if (depth % 3 == 0)
		race_check(blocking_call(nothing, (void *)depth) == (long)depth);
	atomic_fetch_add(&g_ended, 1);
}

static void families(void)
{
	uintptr_t depth = MOAT_TSAN ? 7 : 11;
	struct fiber *f = fiber_new(family, (void *)depth, NULL, "root");

	race_check(f);
	fiber_start(f);
	workers_stop();
	race_check(atomic_load(&g_ended) == (1u << (depth + 1)) - 1);
	race_check(fibers_running() == 0);
}

/* --- A thread that goes through the workers while they begin and end, as a platform's do --- */

static _Atomic bool g_seen_enough;

static void *looker(void *arg)
{
	unsigned seen = 0;

	while (!atomic_load(&g_seen_enough)) {
		for (unsigned i = 0; i < worker_count(); i++)
			seen += worker_index(worker_at(i)) == i;
	}
	*(unsigned *)arg = seen;
	return NULL;
}

static void ends(void)
{
	unsigned seen = 0;
	pthread_t thread;

	race_check(pthread_create(&thread, NULL, looker, &seen) == 0);
	for (unsigned i = 0; i < race_rounds(2000); i++) {
		race_check(workers_start(WORKERS, NULL) == 0);
		workers_stop();
	}
	atomic_store(&g_seen_enough, true);
	race_check(pthread_join(thread, NULL) == 0);
	race_check(seen != 0);
}

int main(void)
{
	race_check(clock_start(CLOCK_KIND_HOST, 0) == 0);
	race_check(workers_start(WORKERS, NULL) == 0);
	ring();
	sleepers();
	families();
	ends();
	clock_stop();
	return 0;
}
