/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/fiber.h, base/lock.h and base/waitq.h: what fibers promise. The races are in tests/race.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fiber.h"
#include "base/lock.h"
#include "base/waitq.h"

static void begin(unsigned workers, enum clock_kind kind)
{
	cr_assert_eq(clock_start(kind, 0), 0);
	cr_assert_eq(workers_start(workers, NULL), 0);
}

static void end(void)
{
	workers_stop();
	cr_assert_eq(fibers_running(), 0);
	clock_stop();
}

static void go(void (*fn)(void *), void *arg, struct worker *home)
{
	struct fiber *f = fiber_new(fn, arg, home, "test");

	cr_assert_not_null(f);
	fiber_start(f);
}

/* --- Running --- */

static _Atomic unsigned g_count;

static void count_one(void *arg)
{
	(void)arg;
	g_count++;
}

Test(fiber, many)
{
	begin(3, CLOCK_KIND_MANUAL);
	for (unsigned i = 0; i < 3000; i++)
		go(count_one, NULL, NULL);
	end();
	cr_assert_eq(g_count, 3000);
}

Test(fiber, workers_start_again)
{
	for (unsigned i = 0; i < 3; i++) {
		begin(2, CLOCK_KIND_HOST);
		go(count_one, NULL, NULL);
		end();
	}
	cr_assert_eq(g_count, 3);
}

Test(fiber, no_memory)
{
	begin(1, CLOCK_KIND_MANUAL);
	fail_set(FAIL_ALLOC, 1);
	cr_assert_null(fiber_new(count_one, NULL, NULL, "x"));

	struct fiber *f = fiber_new(count_one, NULL, NULL, "never");

	cr_assert_str_eq(fiber_name(f), "never");
	fiber_discard(f);
	end();
	cr_assert_eq(g_count, 0);
}

static unsigned g_later_done, g_other_done;

static void later_work(void)
{
	g_later_done++;
}

static void other_work(void)
{
	g_other_done++;
}

static void put_work_off(void *arg)
{
	(void)arg;
	worker_later(later_work);
	worker_later(later_work);
	cr_assert_eq(g_later_done, 0);
	worker_later(other_work);
	cr_assert_eq(g_other_done, 1, "there is room for one kind");
	worker_do_later();
	worker_do_later();
	cr_assert_eq(g_later_done, 1);
	worker_later(later_work);
	fiber_yield();
	cr_assert_eq(g_later_done, 2);
	worker_later(later_work);
}

Test(fiber, work_that_nobody_waits_for)
{
	worker_later(later_work);
	cr_assert_eq(g_later_done, 1, "off the workers");
	worker_do_later();
	g_later_done = 0;
	begin(1, CLOCK_KIND_MANUAL);
	go(put_work_off, NULL, NULL);
	end();
	cr_assert_eq(g_later_done, 3);
}

static unsigned g_trace[8], g_traced;

static void trace_thrice(void *arg)
{
	for (unsigned i = 0; i < 2; i++) {
		g_trace[g_traced++] = (unsigned)(uintptr_t)arg;
		fiber_yield();
	}
}

static void start_three(void *arg)
{
	(void)arg;
	for (uintptr_t i = 0; i < 3; i++)
		go(trace_thrice, (void *)i, worker_self());
}

Test(fiber, fifo)
{
	static const unsigned want[] = {0, 1, 2, 0, 1, 2};

	begin(2, CLOCK_KIND_MANUAL);
	go(start_three, NULL, worker_at(1));
	end();
	cr_assert_eq(g_traced, 6);
	cr_assert_arr_eq(g_trace, want, sizeof(want));
}

static void wander(void *arg)
{
	(void)arg;
	cr_assert_eq(fiber_data(fiber_self()), &g_count);
	for (unsigned i = 0; i < 100; i++) {
		struct worker *w = worker_at(i * 7 % worker_count());

		fiber_migrate(w);
		cr_assert_eq(worker_self(), w);
		cr_assert_eq(fiber_home(fiber_self()), w);
		cr_assert_eq(worker_index(w), i * 7 % worker_count());
	}
	g_count++;
}

Test(fiber, migrate)
{
	begin(3, CLOCK_KIND_MANUAL);
	for (unsigned i = 0; i < 10; i++) {
		struct fiber *f = fiber_new(wander, NULL, NULL, "wander");

		fiber_set_data(f, &g_count);
		fiber_start(f);
	}
	cr_assert_null(fiber_self());
	cr_assert_null(worker_self());
	end();
	cr_assert_eq(g_count, 10);
}

/* Each fiber has its own rounding mode; the switch must keep them apart. */
static void round_its_way(void *arg)
{
	int mode = (int)(uintptr_t)arg;

	cr_assert_eq(fegetround(), FE_TONEAREST, "a new fiber has the default");
	fesetround(mode);
	for (unsigned i = 0; i < 10; i++) {
		fiber_yield();
		cr_assert_eq(fegetround(), mode);
	}
}

Test(fiber, float_control_words)
{
	begin(1, CLOCK_KIND_MANUAL);
	go(round_its_way, (void *)(uintptr_t)FE_UPWARD, NULL);
	go(round_its_way, (void *)(uintptr_t)FE_DOWNWARD, NULL);
	end();
}

static void use_stack(void *arg)
{
	/* Most of the 64 KiB. */
	volatile char buf[48 * 1024];

	(void)arg;
	for (size_t i = 0; i < sizeof(buf); i += 512)
		buf[i] = (char)i;
	fiber_yield();
	for (size_t i = 0; i < sizeof(buf); i += 512)
		cr_assert(buf[i] == (char)i);
	g_count++;
}

Test(fiber, stack_size)
{
	begin(2, CLOCK_KIND_MANUAL);
	for (unsigned i = 0; i < 20; i++)
		go(use_stack, NULL, NULL);
	end();
	cr_assert_eq(g_count, 20);
}

/* --- Sleeping and waking --- */

static struct fiber *g_fiber;
static _Atomic bool g_ready;

static void wait_rules(void *arg)
{
	struct fiber *self = fiber_self();
	uint64_t now = clock_mono_ns();

	(void)arg;
	cr_assert_eq(fiber_wait(now, WAIT_UNINTR), -ETIMEDOUT, "a deadline in the past");
	fiber_wake(self);
	fiber_wake(self);
	cr_assert_eq(fiber_wait(0, WAIT_INTR), 0, "the token comes before the deadline");
	cr_assert_eq(fiber_wait(0, WAIT_INTR), -ETIMEDOUT, "there is one token only");

	fiber_interrupt(self);
	cr_assert(fiber_interrupted(self));
	cr_assert_eq(fiber_wait(DEADLINE_NONE, WAIT_INTR), 0);
	cr_assert_eq(fiber_wait(DEADLINE_NONE, WAIT_INTR), -ERESTARTSYS);
	cr_assert_eq(fiber_wait(0, WAIT_INTR), -ERESTARTSYS, "interrupt comes before deadline");
	cr_assert_eq(fiber_wait(0, WAIT_KILL), -ETIMEDOUT, "no kill");
	cr_assert_eq(fiber_wait(0, WAIT_UNINTR), -ETIMEDOUT);
	cr_assert_eq(fiber_sleep_until(now + 1000, WAIT_INTR), -ERESTARTSYS);
	fiber_clear_interrupt(self);
	cr_assert_eq(fiber_wait(0, WAIT_INTR), -ETIMEDOUT);

	fiber_kill(self);
	cr_assert(fiber_killed(self) && !fiber_interrupted(self));
	cr_assert_eq(fiber_wait(0, WAIT_UNINTR), 0);
	cr_assert_eq(fiber_wait(DEADLINE_NONE, WAIT_KILL), -ERESTARTSYS);
	cr_assert_eq(fiber_wait(DEADLINE_NONE, WAIT_INTR), -ERESTARTSYS);
	cr_assert_eq(fiber_wait(0, WAIT_UNINTR), -ETIMEDOUT);
	g_count++;
}

Test(fiber, wait_rules)
{
	begin(1, CLOCK_KIND_MANUAL);
	go(wait_rules, NULL, NULL);
	end();
	cr_assert_eq(g_count, 1);
}

static void sleep_an_hour(void *arg)
{
	(void)arg;

	uint64_t start = clock_mono_ns();

	g_ready = true;
	cr_assert_eq(fiber_sleep_until(start + 3600 * NSEC_PER_SEC, WAIT_UNINTR), 0);
	cr_assert_eq(clock_mono_ns(), start + 3600 * NSEC_PER_SEC);
	g_count++;
}

/* With the manual clock nothing moves but by us. */
static void until_all_asleep(void)
{
	while (!g_ready || fibers_running() != 0)
		sched_yield();
}

Test(fiber, deadline)
{
	begin(2, CLOCK_KIND_MANUAL);
	go(sleep_an_hour, NULL, NULL);
	until_all_asleep();
	clock_advance(3600 * NSEC_PER_SEC - 1);
	cr_assert_eq(fibers_running(), 0);
	cr_assert_eq(g_count, 0);
	clock_advance(1);
	end();
	cr_assert_eq(g_count, 1);
}

/* Waits with deadlines far and near in turn: the timer stays armed from older waits, and must
 * neither end a wait early nor miss one. */
static void mixed_deadlines(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 300; i++) {
		uint64_t now = clock_mono_ns();
		uint64_t deadline = now + (i % 3 ? NSEC_PER_SEC * 3600 : 100 * NSEC_PER_USEC);

		if (i % 3) {
			fiber_wake(fiber_self());
			cr_assert_eq(fiber_wait(deadline, WAIT_UNINTR), 0);
		} else {
			cr_assert_eq(fiber_wait(deadline, WAIT_UNINTR), -ETIMEDOUT);
			cr_assert_geq(clock_mono_ns(), deadline);
		}
	}
	g_count++;
}

Test(fiber, mixed_deadlines)
{
	begin(2, CLOCK_KIND_HOST);
	for (unsigned i = 0; i < 8; i++)
		go(mixed_deadlines, NULL, NULL);
	end();
	cr_assert_eq(g_count, 8);
}

Test(fiber, deadline_off_the_workers)
{
	cr_assert_eq(clock_start(CLOCK_KIND_HOST, 0), 0);

	uint64_t deadline = clock_mono_ns() + NSEC_PER_MSEC;

	cr_assert_eq(fiber_sleep_until(deadline, WAIT_UNINTR), 0);
	cr_assert_geq(clock_mono_ns(), deadline);
	clock_stop();
}

/* --- Blocking calls --- */

static long add_one(void *arg)
{
	cr_assert_null(worker_self());
	return (long)(intptr_t)arg + 1;
}

static void call_blocking(void *arg)
{
	for (long i = 0; i < 50; i++)
		cr_assert_eq(blocking_call(add_one, (void *)i), i + 1);
	(void)arg;
	g_count++;
}

static int g_pipe[2];

static long read_pipe(void *arg)
{
	char c;

	(void)arg;
	return read(g_pipe[0], &c, 1);
}

static void block_on_pipe(void *arg)
{
	(void)arg;
	cr_assert_eq(blocking_call(read_pipe, NULL), 1);
	g_count++;
}

static void feed_pipe(void *arg)
{
	(void)arg;
	cr_assert_eq(write(g_pipe[1], "abcdefgh", 8), 8);
}

Test(blocking, results)
{
	begin(2, CLOCK_KIND_MANUAL);
	for (unsigned i = 0; i < 10; i++)
		go(call_blocking, NULL, NULL);
	end();
	cr_assert_eq(g_count, 10);
	cr_assert_eq(blocking_call(add_one, (void *)1L), 2, "off a fiber too");
}

static long where_am_i(void *arg)
{
	(void)arg;
	return worker_self() != NULL;
}

/* Longer than any call that is brief, whatever the machine does meanwhile. */
static long long_call(void *arg)
{
	const uint64_t begin = __builtin_ia32_rdtsc();

	while (__builtin_ia32_rdtsc() - begin < UINT64_C(20000000))
		continue;
	return where_am_i(arg);
}

static long brief_on(bool worker)
{
	/* A preemption makes a call long: then it takes a few more. */
	for (unsigned i = 0; i < 100000; i++)
		if (blocking_call_brief(where_am_i, NULL) == worker)
			return 1;
	return 0;
}

static void yields_once(void *arg)
{
	(void)arg;
	g_count++;
}

static void call_brief(void *arg)
{
	(void)arg;
	cr_assert_eq(blocking_call_brief(where_am_i, NULL), 0, "the first is measured");
	cr_assert(brief_on(true));
	cr_assert_geq(blocking_call_brief(long_call, NULL), 0);
	cr_assert_eq(blocking_call_brief(where_am_i, NULL), 0, "they may be long now");
	cr_assert(brief_on(true));
	/* Somebody is ready to run: the worker is not for waiting. */
	go(yields_once, NULL, worker_self());
	cr_assert_eq(blocking_call_brief(where_am_i, NULL), 0);
}

Test(blocking, brief_ones_stay_on_the_worker)
{
	begin(1, CLOCK_KIND_MANUAL);
	go(call_brief, NULL, NULL);
	end();
	cr_assert_eq(blocking_call_brief(where_am_i, NULL), 0, "off a fiber too");
}

Test(blocking, leaves_the_worker_free)
{
	cr_assert_eq(pipe(g_pipe), 0);
	begin(1, CLOCK_KIND_MANUAL);
	/* More than are kept; the one worker must still come to run the last fiber. */
	for (unsigned i = 0; i < 8; i++)
		go(block_on_pipe, NULL, NULL);
	go(feed_pipe, NULL, NULL);
	end();
	cr_assert_eq(g_count, 8);
}

/* --- Wait queues --- */

static struct waitq g_q;
static _Atomic int g_items;

static bool take_item(void)
{
	int n = atomic_load(&g_items);

	while (n > 0) {
		if (atomic_compare_exchange_weak(&g_items, &n, n - 1))
			return true;
	}
	return false;
}

static void consume(void *arg)
{
	int r;

	if (arg)
		r = wait_event_exclusive(&g_q, 4, take_item(), DEADLINE_NONE, WAIT_INTR);
	else
		r = wait_event_mask(&g_q, 4, take_item(), DEADLINE_NONE, WAIT_INTR);
	cr_assert_eq(r, 0);
	g_count++;
}

static void until_asleep(void)
{
	while (fibers_running() != 0)
		sched_yield();
}

Test(waitq, events_and_masks)
{
	begin(2, CLOCK_KIND_MANUAL);
	waitq_init(&g_q);
	for (unsigned i = 0; i < 4; i++)
		go(consume, NULL, NULL);
	until_asleep();
	cr_assert(waitq_has_waiters(&g_q));
	g_items = 4;
	waitq_wake(&g_q, 2);
	cr_assert_eq(fibers_running(), 0, "a wrong event wakes nobody");
	waitq_wake(&g_q, 6);
	end();
	cr_assert_eq(g_count, 4);
	cr_assert(!waitq_has_waiters(&g_q));
	waitq_fini(&g_q);
}

Test(waitq, exclusive)
{
	begin(2, CLOCK_KIND_MANUAL);
	waitq_init(&g_q);
	for (unsigned i = 0; i < 4; i++)
		go(consume, (void *)1, NULL);
	until_asleep();
	for (unsigned i = 1; i <= 2; i++) {
		g_items = 100;
		waitq_wake(&g_q, 0);
		until_asleep();
		cr_assert_eq(g_count, i, "one for each wake-up");
	}
	g_items = 1;
	/* Two wake-ups in a row are for two fibers. One finds nothing, and sleeps on. */
	waitq_wake(&g_q, 0);
	waitq_wake(&g_q, 0);
	until_asleep();
	cr_assert_eq(g_count, 3);
	g_items = 1;
	waitq_wake_all(&g_q, 4);
	end();
	cr_assert_eq(g_count, 4);
	waitq_fini(&g_q);
}

/* Takes an item; the next one comes, with its wake-up, before who found this one has left. */
static bool item_before_another(void)
{
	static bool once;

	if (!take_item())
		return false;
	if (!once) {
		once = true;
		g_items = 1;
		waitq_wake(&g_q, 0);
	}
	return true;
}

static void consume_before_another(void *arg)
{
	(void)arg;
	cr_assert_eq(wait_event_exclusive(&g_q, 0, item_before_another(), DEADLINE_NONE, WAIT_INTR),
		     0);
	g_count++;
}

Test(waitq, one_wake_up_for_each)
{
	begin(2, CLOCK_KIND_MANUAL);
	waitq_init(&g_q);
	for (unsigned i = 0; i < 2; i++)
		go(consume_before_another, NULL, NULL);
	until_asleep();
	g_items = 1;
	waitq_wake(&g_q, 0);
	until_asleep();
	cr_assert_eq(g_count, 2);
	end();
	waitq_fini(&g_q);
}

/* Never takes an item. One comes, with its wake-up, when this waiter has looked for the last time.
 */
static bool item_comes_too_late(void)
{
	static unsigned looks;

	if (fiber_interrupted(fiber_self()) && ++looks == 2) {
		g_items = 1;
		waitq_wake(&g_q, 0);
	}
	return false;
}

static void give_up(void *arg)
{
	(void)arg;
	g_fiber = fiber_self();
	g_ready = true;
	cr_assert_eq(wait_event_exclusive(&g_q, 0, item_comes_too_late(), DEADLINE_NONE, WAIT_INTR),
		     -ERESTARTSYS);
}

Test(waitq, a_wake_up_is_passed_on)
{
	begin(1, CLOCK_KIND_MANUAL);
	waitq_init(&g_q);
	go(give_up, NULL, NULL);
	until_all_asleep();
	go(consume, (void *)1, NULL);
	until_asleep();
	fiber_interrupt(g_fiber);
	end();
	cr_assert_eq(g_count, 1);
	waitq_fini(&g_q);
}

static void time_out(void *arg)
{
	(void)arg;
	g_ready = true;
	cr_assert_eq(wait_event(&g_q, false, clock_mono_ns() + 5, WAIT_INTR), -ETIMEDOUT);
	g_count++;
}

Test(waitq, timeout)
{
	begin(1, CLOCK_KIND_MANUAL);
	waitq_init(&g_q);
	go(time_out, NULL, NULL);
	until_all_asleep();
	clock_advance(5);
	end();
	cr_assert_eq(g_count, 1);
	waitq_fini(&g_q);
}

static uint32_t g_events;

static bool note_events(struct waiter *w, uint32_t events)
{
	(void)w;
	g_events |= events;
	return true;
}

Test(waitq, callbacks)
{
	struct waiter w;

	waitq_init(&g_q);
	waiter_init_fn(&w, note_events, 5);
	waitq_del(&w);
	waitq_add(&g_q, &w);
	waitq_wake(&g_q, 2);
	cr_assert_eq(g_events, 0);
	waitq_wake(&g_q, 1);
	waitq_wake_all(&g_q, 12);
	cr_assert_eq(g_events, 13);
	waitq_del(&w);
	waitq_del(&w);
	waitq_wake(&g_q, 16);
	cr_assert_eq(g_events, 13);
	waitq_fini(&g_q);
}

/* --- Fiber locks --- */

static struct fmutex g_mutex;
static struct frwlock g_rwlock;

static void lock_in_turn(void *arg)
{
	fmutex_lock(&g_mutex);
	g_trace[g_traced++] = (unsigned)(uintptr_t)arg;
	fiber_yield();
	fmutex_unlock(&g_mutex);
	/* Not before all who stood in line. */
	fmutex_lock(&g_mutex);
	g_count += g_traced == 4;
	fmutex_unlock(&g_mutex);
}

Test(fmutex, fair)
{
	static const unsigned want[] = {0, 1, 2, 3};

	fmutex_init(&g_mutex);
	fmutex_lock(&g_mutex);
	cr_assert(fmutex_held(&g_mutex));
	cr_assert(!fmutex_trylock(&g_mutex));
	begin(1, CLOCK_KIND_MANUAL);
	for (uintptr_t i = 0; i < 4; i++)
		go(lock_in_turn, (void *)i, NULL);
	until_asleep();
	cr_assert_eq(g_traced, 0);
	fmutex_unlock(&g_mutex);
	end();
	cr_assert_arr_eq(g_trace, want, sizeof(want));
	cr_assert_eq(g_count, 4);
	fmutex_fini(&g_mutex);
}

static void read_once(void *arg)
{
	frwlock_read_lock(&g_rwlock);
	g_trace[g_traced++] = (unsigned)(uintptr_t)arg;
	/* Stays in until the other one is in as well. */
	g_count++;
	while (g_count % 2)
		fiber_yield();
	frwlock_read_unlock(&g_rwlock);
}

static void write_once(void *arg)
{
	frwlock_write_lock(&g_rwlock);
	g_trace[g_traced++] = (unsigned)(uintptr_t)arg;
	fiber_yield();
	frwlock_write_unlock(&g_rwlock);
}

Test(frwlock, fair)
{
	static const unsigned want[] = {0, 1, 2, 3, 4};

	frwlock_init(&g_rwlock);
	frwlock_read_lock(&g_rwlock);
	begin(1, CLOCK_KIND_MANUAL);
	/* A writer holds off the readers behind him, though a reader is in. */
	go(write_once, (void *)0, NULL);
	go(read_once, (void *)1, NULL);
	go(read_once, (void *)2, NULL);
	go(write_once, (void *)3, NULL);
	go(write_once, (void *)4, NULL);
	until_asleep();
	cr_assert_eq(g_traced, 0);
	frwlock_read_unlock(&g_rwlock);
	end();
	cr_assert_eq(g_traced, 5);
	cr_assert_arr_eq(g_trace, want, sizeof(want));
	frwlock_fini(&g_rwlock);
}

/* --- Checks of debug builds --- */

#ifdef MOAT_DEBUG
static struct mutex g_low = MUTEX_INIT(RANK_FILE), g_high = MUTEX_INIT(RANK_SOCKET);
static struct mutex g_any = MUTEX_INIT(RANK_NONE);

Test(lock, wrong_order_panics, .signal = SIGABRT)
{
	mutex_lock(&g_high);
	mutex_lock(&g_low);
}

Test(lock, twice_panics, .signal = SIGABRT)
{
	mutex_lock(&g_any);
	mutex_lock(&g_any);
}

Test(lock, foreign_unlock_panics, .signal = SIGABRT)
{
	mutex_unlock(&g_any);
}

static void switch_with_lock(void *arg)
{
	(void)arg;
	mutex_lock(&g_low);
	fiber_yield();
}

Test(lock, switch_with_lock_panics, .signal = SIGABRT)
{
	begin(1, CLOCK_KIND_MANUAL);
	go(switch_with_lock, NULL, NULL);
	workers_stop();
}

Test(lock, right_order)
{
	struct mutex a = MUTEX_INIT(RANK_FILE), b = MUTEX_INIT(RANK_FILE);

	mutex_lock(&g_low);
	mutex_lock(&g_high);
	mutex_lock(&g_any);
	mutex_unlock(&g_low);
	mutex_unlock(&g_any);
	mutex_unlock(&g_high);
	mutex_lock(&g_high);
	cr_assert(mutex_trylock(&g_low), "cannot deadlock");
	mutex_unlock(&g_high);
	mutex_unlock(&g_low);
	mutex_lock_pair(&a, &b);
	mutex_unlock_pair(&b, &a);
	mutex_lock_pair(&b, &a);
	mutex_unlock_pair(&b, &a);
	mutex_lock_pair(&a, &a);
	mutex_unlock_pair(&a, &a);
}
#endif
