/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: one fiber at a time, handing over at points that repeat. See base/fiber.h.
 *
 * Theory of operation: with one worker, fibers already run one at a time; but while a fiber waits
 * for the host (guest code that a platform runs, a host call on a helper thread) others run, and in
 * which order the host's answers come is chance. So a fiber keeps its turn over such waits
 * (fiber_turn_keep), and gives it up only where it waits for another fiber, for time, or for input
 * of the host's, gives way, or ends. All wake-ups of fibers then come from the one that has the
 * turn, or from timers, which the worker runs itself: when nobody has the turn or wants it, and in
 * fiber_turn_step(). The order in which fibers become ready repeats, and so does the rest.
 *
 * What does not repeat is when the host does something of its own accord: input arrives, a signal
 * is passed on.
 *
 * Turns end after a number of steps, so that who waits for another's doing by asking again and
 * again lets it do it. Guest code that waits without a step (a loop on memory) would wait for ever:
 * a thread looks at the host's clock and, seldom, has such a turn ended (overdue). That is the
 * price of progress: such a run need not repeat. The same look ends waits for the host whose
 * deadline is over, by the host's clock, since virtual time stands still meanwhile.
 *
 * Locking: g_turn.lock (leaf) for the watching thread's sleep; all else is the worker's, or atomic.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include "base/clock_internal.h"
#include "base/err.h"
#include "base/fiber_internal.h"
#include "base/hash.h"
#include "base/hostcall.h"
#include "base/thread.h"

/* Steps in a turn: at most, and without a seed. */
#define STEPS_MAX 64u
#define STEPS_PLAIN 32u

bool g_fiber_turns;

static struct {
	struct fiber_turns cfg;
	uint64_t random;
	struct worker *worker;
	void (*kick)(struct worker *);

	struct fiber *owner; /* has the turn */
	unsigned left;       /* steps until its end */
	bool overdue;        /* it ends with the next step */
	unsigned ticks;      /* of the watch, without a step */
	uint64_t ticks_at;   /* the step since which they count */

	_Atomic bool owned;     /* there is an owner */
	_Atomic uint64_t steps; /* that were made, and turns that were given */
	_Atomic unsigned stops;
	_Atomic bool alarm; /* the watch wants the worker to look */

	struct mutex lock;
	struct cond cond;
	pthread_t watch;
	bool end; /* [lock] */
	_Atomic bool watch_sleeps;
} g_turn = {.lock = MUTEX_INIT(RANK_LEAF)};

void fiber_turns_start(const struct fiber_turns *turns)
{
	g_fiber_turns = turns != NULL;
	if (!turns)
		return;
	g_turn.cfg = *turns;
	g_turn.random = turns->seed;
	g_turn.owner = NULL;
	g_turn.overdue = false;
	atomic_store(&g_turn.owned, false);
	atomic_store(&g_turn.stops, 0);
	atomic_store(&g_turn.alarm, false);
}

/* --- The watch --- */

static void *watch_main(void *arg)
{
	uint64_t last = 0;

	(void)arg;
	mutex_lock(&g_turn.lock);
	while (!g_turn.end) {
		uint64_t steps = atomic_load(&g_turn.steps);

		if (!atomic_load(&g_turn.owned)) {
			/* Who becomes the owner looks at this after that. */
			atomic_store(&g_turn.watch_sleeps, true);
			if (!atomic_load(&g_turn.owned))
				cond_wait(&g_turn.cond, &g_turn.lock);
			atomic_store(&g_turn.watch_sleeps, false);
			continue;
		}
		if (steps == last) {
			atomic_store(&g_turn.alarm, true);
			mutex_unlock(&g_turn.lock);
			g_turn.kick(g_turn.worker);
			mutex_lock(&g_turn.lock);
		}
		last = steps;
		if (!g_turn.end)
			(void)cond_wait_until(&g_turn.cond, &g_turn.lock,
					      host_clock_ns(CLOCK_MONOTONIC) + TURN_TICK_NS);
	}
	mutex_unlock(&g_turn.lock);
	return NULL;
}

static void watch_wake(void)
{
	mutex_lock(&g_turn.lock);
	cond_tell(&g_turn.cond, &g_turn.lock);
	mutex_unlock(&g_turn.lock);
}

int turns_begin(struct worker *w, void (*kick)(struct worker *))
{
	g_turn.worker = w;
	g_turn.kick = kick;
	mutex_lock(&g_turn.lock);
	g_turn.end = false;
	mutex_unlock(&g_turn.lock);
	return thread_start(&g_turn.watch, watch_main, NULL, "moat-turns");
}

void turns_end(void)
{
	mutex_lock(&g_turn.lock);
	g_turn.end = true;
	cond_tell(&g_turn.cond, &g_turn.lock);
	mutex_unlock(&g_turn.lock);
	pthread_join(g_turn.watch, NULL);
}

/* The owner has made no step for a tick. */
static void look(bool others)
{
	struct fiber *f = g_turn.owner;
	const uint64_t steps = atomic_load_explicit(&g_turn.steps, memory_order_relaxed);

	if (!f || !f->turn_kept)
		return;
	if (atomic_load(&f->host_deadline_ns) <= host_clock_ns(CLOCK_MONOTONIC))
		fiber_time_out(f);
	if (g_turn.ticks_at != steps) {
		g_turn.ticks_at = steps;
		g_turn.ticks = 0;
	}
	g_turn.ticks++;
	/* With nobody to hand over to it may take all the time that it wants. */
	if (!g_turn.overdue && g_turn.cfg.overdue && f->data && (others || timers_armed()))
		g_turn.overdue = g_turn.cfg.overdue(f->data, g_turn.ticks, others);
}

/* --- Turns --- */

static unsigned turn_length(void)
{
	return g_turn.cfg.seeded ? (unsigned)(random_next(&g_turn.random) % STEPS_MAX) + 1
				 : STEPS_PLAIN;
}

static struct fiber *choose(struct fiber_list *ready)
{
	struct fiber *f = STAILQ_FIRST(ready);
	unsigned count = 0, nth;

	if (!g_turn.cfg.seeded || !f || !STAILQ_NEXT(f, link))
		return f;
	STAILQ_FOREACH (f, ready, link)
		count++;
	nth = (unsigned)(random_next(&g_turn.random) % count);
	STAILQ_FOREACH (f, ready, link) {
		if (nth-- == 0)
			break;
	}
	return f;
}

struct fiber *turn_pick(struct fiber_list *ready)
{
	struct fiber *f;

	if (atomic_load(&g_turn.stops) != 0)
		return NULL;
	if (g_turn.owner) {
		STAILQ_FOREACH (f, ready, link) {
			if (f == g_turn.owner)
				break;
		}
	} else {
		f = choose(ready);
	}
	if (!f)
		return NULL;
	STAILQ_REMOVE(ready, f, fiber, link);
	if (g_turn.owner != f) {
		g_turn.owner = f;
		g_turn.left = turn_length();
		g_turn.overdue = false;
		atomic_fetch_add_explicit(&g_turn.steps, 1, memory_order_relaxed);
		atomic_store(&g_turn.owned, true);
		if (unlikely(atomic_load(&g_turn.watch_sleeps)))
			watch_wake();
	}
	return f;
}

bool turn_idle(struct fiber_list *ready)
{
	if (unlikely(atomic_exchange(&g_turn.alarm, false)))
		look(!STAILQ_EMPTY(ready));
	if (!STAILQ_EMPTY(ready))
		return !g_turn.owner && atomic_load(&g_turn.stops) == 0;
	return !g_turn.owner && atomic_load(&g_turn.stops) == 0 && clock_run_next();
}

void turn_give(struct fiber *f)
{
	if (g_turn.owner != f || f->turn_kept)
		return;
	g_turn.owner = NULL;
	atomic_store(&g_turn.owned, false);
}

void fiber_turn_step(void)
{
	const bool overdue = g_turn.overdue;

	BUG_ON(!fiber_self());
	atomic_fetch_add_explicit(&g_turn.steps, 1, memory_order_relaxed);
	clock_step(overdue && !worker_has_ready() ? TURN_OVERDUE_NS : TURN_STEP_NS);
	if (--g_turn.left != 0 && !overdue)
		return;
	g_turn.left = turn_length();
	g_turn.overdue = false;
	if (worker_has_ready())
		fiber_yield();
}

void fiber_turn_interrupted(void)
{
	if (g_turn.overdue)
		fiber_turn_step();
}

void fiber_turn_keep_on(void)
{
	struct fiber *f = fiber_self();

	if (f)
		f->turn_kept++;
}

void fiber_turn_unkeep_on(void)
{
	struct fiber *f = fiber_self();

	if (f) {
		BUG_ON(f->turn_kept == 0);
		f->turn_kept--;
	}
}

void fiber_turns_stop(void)
{
	atomic_fetch_add(&g_turn.stops, 1);
}

void fiber_turns_resume(void)
{
	if (atomic_fetch_sub(&g_turn.stops, 1) == 1)
		g_turn.kick(g_turn.worker);
}
