/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers. See base/clock.h.
 *
 * Theory of operation: a binary heap by deadline under one lock, and a thread that sleeps until the
 * earliest. A callback runs without the lock; g_firing names its timer meanwhile, and is all that
 * is touched afterwards, so a callback may free its timer. Only one thread runs callbacks at a
 * time: the timer thread, or with manual time whoever calls clock_advance().
 *
 * The thread sleeps by the host's monotonic clock. The injected one may differ by some nanoseconds,
 * so it looks again when it wakes. With virtual time it does not sleep for a time at all: it waits
 * until no fiber runs, and then moves time to the earliest deadline. With turns (fiber_turn.c)
 * there is no such thread: the worker does that, at points that repeat. With clock_start_served()
 * it is whoever waits in clock_wait(): the main thread has nothing else to do while the guest runs,
 * and a thread more would cost each start and each end.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include "base/clock_internal.h"
#include "base/err.h"
#include "base/fiber_internal.h"
#include "base/hostcall.h"
#include "base/thread.h"

static struct mutex g_timer_lock = MUTEX_INIT(RANK_TIMER);
static struct cond g_timer_cond; /* the thread has something to look at */
static struct cond g_done_cond;  /* a callback ended */
static struct cond g_told_cond;  /* clock_tell(), for who waits without firing timers */
/* All [g_timer_lock]. */
static struct timer **g_heap;
static size_t g_count, g_capacity;
static uint64_t g_seq;
static struct timer *g_firing;
static pthread_t g_firing_thread;
static bool g_running_due; /* somebody is in timers_run_due */
static uint64_t g_sleeping_until;
static bool g_accept, g_stop;
static uint64_t g_told; /* clock_tell() was called so often */
static bool g_have_thread;
static bool g_served; /* by clock_wait() */
static pthread_t g_thread;

/* --- The heap --- */

static void heap_put(size_t i, struct timer *t)
{
	g_heap[i] = t;
	t->slot = (uint32_t)i + 1;
}

/* Of timers that are due at the same time the one that was armed first comes first. */
static bool before(const struct timer *a, const struct timer *b)
{
	return a->deadline_ns < b->deadline_ns ||
	       (a->deadline_ns == b->deadline_ns && a->seq < b->seq);
}

static void heap_up(size_t i)
{
	struct timer *t = g_heap[i];

	while (i > 0 && before(t, g_heap[(i - 1) / 2])) {
		heap_put(i, g_heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(i, t);
}

static void heap_down(size_t i)
{
	struct timer *t = g_heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= g_count)
			break;
		if (child + 1 < g_count && before(g_heap[child + 1], g_heap[child]))
			child++;
		if (!before(g_heap[child], t))
			break;
		heap_put(i, g_heap[child]);
		i = child;
	}
	heap_put(i, t);
}

static void heap_remove(struct timer *t)
{
	size_t i = t->slot - 1;
	struct timer *last = g_heap[--g_count];

	t->slot = 0;
	if (last == t)
		return;
	heap_put(i, last);
	heap_up(i);
	heap_down(last->slot - 1);
}

static void heap_insert(struct timer *t)
{
	if (g_count == g_capacity) {
		/* Not mem_realloc: its failure would be a panic. */
		size_t capacity = g_capacity ? g_capacity * 2 : 64;
		struct timer **heap = realloc(g_heap, capacity * sizeof(struct timer *));

		if (!heap)
			panic("no memory for a timer");
		g_heap = heap;
		g_capacity = capacity;
	}
	g_heap[g_count] = t;
	heap_up(g_count++);
}

/* --- Arming --- */

void timer_init(struct timer *t, void (*fn)(struct timer *))
{
	*t = (struct timer){.fn = fn};
}

static void timer_arm_locked(struct timer *t, uint64_t deadline_ns) REQUIRES(g_timer_lock)
{
	if (!g_accept)
		panic("a timer was armed without a clock: clock_start() comes first");
	if (t->slot) {
		bool earlier = deadline_ns < t->deadline_ns;

		t->seq = ++g_seq;
		t->deadline_ns = deadline_ns;
		if (earlier)
			heap_up(t->slot - 1);
		else
			heap_down(t->slot - 1);
	} else {
		t->seq = ++g_seq;
		t->deadline_ns = deadline_ns;
		heap_insert(t);
	}
	if (g_heap[0] == t && deadline_ns < g_sleeping_until)
		cond_tell(&g_timer_cond, &g_timer_lock);
}

void timer_arm(struct timer *t, uint64_t deadline_ns)
{
	mutex_lock(&g_timer_lock);
	timer_arm_locked(t, deadline_ns);
	mutex_unlock(&g_timer_lock);
}

void timer_arm_earlier(struct timer *t, uint64_t deadline_ns)
{
	mutex_lock(&g_timer_lock);
	if (!t->slot || deadline_ns < t->deadline_ns)
		timer_arm_locked(t, deadline_ns);
	mutex_unlock(&g_timer_lock);
}

static bool timer_disarm_locked(struct timer *t) REQUIRES(g_timer_lock)
{
	if (!t->slot)
		return false;
	heap_remove(t);
	return true;
}

bool timer_cancel(struct timer *t)
{
	bool was;

	mutex_lock(&g_timer_lock);
	was = timer_disarm_locked(t);
	mutex_unlock(&g_timer_lock);
	return was;
}

void timer_cancel_sync(struct timer *t)
{
	mutex_lock(&g_timer_lock);
	timer_disarm_locked(t);
	while (g_firing == t) {
		BUG_ON(pthread_equal(g_firing_thread, pthread_self()));
		cond_wait(&g_done_cond, &g_timer_lock);
		/* The callback may have armed it again. */
		timer_disarm_locked(t);
	}
	mutex_unlock(&g_timer_lock);
}

/* --- Firing --- */

/* Runs, in order, what is due at @until_ns. Time moves along with the deadlines, if it is ours. */
static void timers_run_due(uint64_t until_ns) REQUIRES(g_timer_lock)
{
	while (g_running_due)
		cond_wait(&g_done_cond, &g_timer_lock);
	g_running_due = true;
	while (g_count > 0 && g_heap[0]->deadline_ns <= until_ns) {
		struct timer *t = g_heap[0];
		void (*fn)(struct timer *) = t->fn;

		clock_set_now(t->deadline_ns);
		heap_remove(t);
		g_firing = t;
		g_firing_thread = pthread_self();
		mutex_unlock(&g_timer_lock);
		fn(t);
		mutex_lock(&g_timer_lock);
		g_firing = NULL;
		cond_tell_all(&g_done_cond, &g_timer_lock);
	}
	g_running_due = false;
	cond_tell_all(&g_done_cond, &g_timer_lock);
}

void timers_run_until(uint64_t until_ns)
{
	mutex_lock(&g_timer_lock);
	timers_run_due(until_ns);
	clock_set_now(until_ns);
	mutex_unlock(&g_timer_lock);
}

bool timers_run_next(uint64_t end_ns)
{
	bool any;

	mutex_lock(&g_timer_lock);
	any = g_count > 0 && g_heap[0]->deadline_ns <= end_ns;
	if (any)
		timers_run_due(g_heap[0]->deadline_ns);
	mutex_unlock(&g_timer_lock);
	return any;
}

bool timers_armed(void)
{
	bool any;

	mutex_lock(&g_timer_lock);
	any = g_count > 0;
	mutex_unlock(&g_timer_lock);
	return any;
}

void timers_poke(void)
{
	mutex_lock(&g_timer_lock);
	cond_tell(&g_timer_cond, &g_timer_lock);
	mutex_unlock(&g_timer_lock);
}

static void timer_sleep(uint64_t deadline_ns) REQUIRES(g_timer_lock)
{
	uint64_t until = DEADLINE_NONE;

	if (deadline_ns != DEADLINE_NONE) {
		const uint64_t now = host_clock_ns(CLOCK_MONOTONIC);
		const uint64_t left = deadline_ns - MIN(deadline_ns, clock_mono_ns());

		/* A sum past the end of time is as good as never. */
		if (left <= DEADLINE_NONE - now)
			until = now + left;
	}
	g_sleeping_until = deadline_ns;
	(void)cond_wait_until(&g_timer_cond, &g_timer_lock, until);
	g_sleeping_until = 0;
}

/* Fires what is due, or sleeps, until a timer is due, one was armed, or timers_poke(). */
static void timers_step(void) REQUIRES(g_timer_lock)
{
	const bool virtual_time = clock_get_kind() == CLOCK_KIND_VIRTUAL;
	const uint64_t first = g_count > 0 ? g_heap[0]->deadline_ns : DEADLINE_NONE;

	if (first == DEADLINE_NONE)
		timer_sleep(DEADLINE_NONE);
	else if (first <= clock_mono_ns() || (virtual_time && fibers_running() == 0))
		timers_run_due(virtual_time ? first : clock_mono_ns());
	else
		timer_sleep(virtual_time ? DEADLINE_NONE : first);
}

static void *timer_main(void *arg UNUSED)
{
	mutex_lock(&g_timer_lock);
	while (!g_stop)
		timers_step();
	mutex_unlock(&g_timer_lock);
	return NULL;
}

void clock_wait(bool (*done)(void *), void *arg)
{
	for (;;) {
		uint64_t seen;

		mutex_lock(&g_timer_lock);
		seen = g_told;
		mutex_unlock(&g_timer_lock);
		if (done(arg))
			return;
		mutex_lock(&g_timer_lock);
		while (g_told == seen) {
			if (g_served)
				timers_step();
			else
				cond_wait(&g_told_cond, &g_timer_lock);
		}
		mutex_unlock(&g_timer_lock);
	}
}

void clock_tell(void)
{
	mutex_lock(&g_timer_lock);
	g_told++;
	cond_tell(g_served ? &g_timer_cond : &g_told_cond, &g_timer_lock);
	mutex_unlock(&g_timer_lock);
}

int timers_start(bool thread, bool served)
{
	int r = 0;

	mutex_lock(&g_timer_lock);
	g_accept = true;
	g_stop = false;
	g_served = thread && served;
	mutex_unlock(&g_timer_lock);
	/* The guest's timers are to be as exact as on the host; its slack is the guest's affair. A
	 * thread of its own inherits it: by the time that it runs, it may not ask for it any more.
	 */
	if (thread)
		HOST(prctl_slack, prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0));
	if (thread && !served) {
		r = thread_start(&g_thread, timer_main, NULL, "moat-timer");
		HOST(prctl_slack, prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0));
	}
	g_have_thread = thread && !served && r == 0;
	return r;
}

void timers_stop(void)
{
	mutex_lock(&g_timer_lock);
	g_stop = true;
	g_accept = false;
	cond_tell(&g_timer_cond, &g_timer_lock);
	mutex_unlock(&g_timer_lock);
	if (g_have_thread)
		pthread_join(g_thread, NULL);

	mutex_lock(&g_timer_lock);
	/* Their owners may cancel them later, or never. */
	while (g_count > 0)
		g_heap[--g_count]->slot = 0;
	free(g_heap);
	g_heap = NULL;
	g_capacity = 0;
	mutex_unlock(&g_timer_lock);
}
