/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/fiber_turn.c: with turns, what fibers do and when repeats; waits for the host keep the turn.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fiber.h"
#include "base/waitq.h"

#define REAL_START (1000000000 * (int64_t)NSEC_PER_SEC)

static char g_log[4096];
static unsigned g_used;

static void begin(const struct fiber_turns *turns)
{
	fiber_turns_start(turns);
	cr_assert_eq(clock_start(CLOCK_KIND_VIRTUAL, REAL_START), 0);
	cr_assert_eq(workers_start(1, NULL), 0);
	memset(g_log, 0, sizeof(g_log));
	g_used = 0;
	/* Until all stand in line. */
	fiber_turns_stop();
}

static void end(void)
{
	fiber_turns_resume();
	workers_stop();
	clock_stop();
	fiber_turns_start(NULL);
}

static void note(char c)
{
	g_log[g_used++] = c;
}

static void go(void (*fn)(void *), uintptr_t arg)
{
	struct fiber *f = fiber_new(fn, (void *)arg, NULL, "test");

	cr_assert_not_null(f);
	fiber_start(f);
}

static long slow(void *arg)
{
	usleep(100 * (unsigned)(uintptr_t)arg);
	return 0;
}

static void player(void *arg)
{
	const unsigned me = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 100; i++) {
		fiber_turn_step();
		note((char)('a' + me));
		if (i % 13 == me)
			(void)fiber_sleep_until(clock_mono_ns() + me * NSEC_PER_MSEC, WAIT_UNINTR);
		/* The host's answers come in whatever order. */
		if (i % 11 == me)
			(void)blocking_call(slow, (void *)(uintptr_t)(9 - me));
	}
}

static void play(const struct fiber_turns *turns, char *log)
{
	begin(turns);
	for (uintptr_t i = 0; i < 6; i++)
		go(player, i);
	end();
	cr_assert_eq(g_used, 600);
	memcpy(log, g_log, sizeof(g_log));
}

Test(turns, repeat)
{
	static char first[4096], second[4096];
	struct fiber_turns turns = {.seeded = true, .seed = 7};

	play(&turns, first);
	play(&turns, second);
	cr_assert_str_eq(first, second);
	turns.seed = 8;
	play(&turns, second);
	cr_assert_str_neq(first, second, "another seed, another order");
	turns.seeded = false;
	play(&turns, first);
	play(&turns, second);
	cr_assert_str_eq(first, second, "in order");
}

static void keeper(void *arg)
{
	const uint64_t before = clock_mono_ns();

	note('k');
	cr_assert_eq(blocking_call(slow, arg), 0);
	cr_assert_eq(clock_mono_ns(), before, "time stands");
	note('K');
}

static void other(void *arg)
{
	(void)arg;
	note('o');
}

static void late(void *arg)
{
	(void)arg;
	(void)fiber_sleep_until(clock_mono_ns() + 1, WAIT_UNINTR);
	note('l');
}

Test(turns, kept_over_waits_for_the_host)
{
	begin(&(struct fiber_turns){0});
	go(late, 0);
	go(keeper, 100);
	go(other, 0);
	end();
	cr_assert_str_eq(g_log, "kKol");
}

static void sleeper(void *arg)
{
	(void)fiber_sleep_until(UINT64_C(5000) * NSEC_PER_SEC, WAIT_UNINTR);
	note((char)('a' + (uintptr_t)arg));
}

/* Those who wait for the same moment wake in the order in which they went to sleep. */
Test(turns, same_deadline_in_order)
{
	begin(&(struct fiber_turns){0});
	for (uintptr_t i = 0; i < 20; i++)
		go(sleeper, i);
	end();
	cr_assert_str_eq(g_log, "abcdefghijklmnopqrst");
	cr_assert_eq(g_used, 20);
}

static void steps(void *arg)
{
	const uint64_t before = clock_mono_ns();

	for (unsigned i = 0; i < 1000; i++)
		fiber_turn_step();
	*(uint64_t *)arg = clock_mono_ns() - before;
}

Test(turns, steps_cost_time)
{
	uint64_t cost = 0;

	begin(&(struct fiber_turns){0});
	go(steps, (uintptr_t)&cost);
	end();
	cr_assert_eq(cost, 1000 * TURN_STEP_NS);
}

/* What nobody can live to see does not end: time would run over. */
Test(turns, the_end_of_time)
{
	static struct timer t;

	begin(&(struct fiber_turns){0});
	timer_init(&t, NULL);
	timer_arm(&t, INT64_MAX);
	go(sleeper, 0);
	end();
	cr_assert_str_eq(g_log, "a");
	cr_assert(clock_mono_ns() < INT64_MAX);
}

static struct fiber *g_stuck;
static _Atomic bool g_let_go;

static bool overdue(void *data, unsigned ticks, bool others)
{
	cr_assert_eq(data, &g_stuck);
	cr_assert(ticks > 0);
	cr_assert(others);
	atomic_store(&g_let_go, true);
	fiber_wake(g_stuck);
	return true;
}

/* As guest code that waits in memory for another thread. */
static void stuck(void *arg)
{
	(void)arg;
	g_stuck = fiber_self();
	fiber_set_data(g_stuck, &g_stuck);
	note('s');
	fiber_turn_keep();
	while (!atomic_load(&g_let_go))
		(void)fiber_wait(DEADLINE_NONE, WAIT_UNINTR);
	fiber_turn_unkeep();
	fiber_turn_interrupted();
	note('S');
}

Test(turns, overdue)
{
	begin(&(struct fiber_turns){.overdue = overdue});
	go(stuck, 0);
	go(other, 0);
	end();
	cr_assert_str_eq(g_log, "soS");
}

static void patient(void *arg)
{
	const uint64_t before = clock_mono_ns();

	(void)arg;
	fiber_turn_keep();
	cr_assert_eq(fiber_wait(before + NSEC_PER_MSEC, WAIT_UNINTR), -ETIMEDOUT);
	cr_assert_eq(clock_mono_ns(), before);
	fiber_turn_unkeep();
	note('p');
}

Test(turns, deadlines_of_the_host)
{
	begin(&(struct fiber_turns){0});
	go(patient, 0);
	go(other, 0);
	end();
	cr_assert_str_eq(g_log, "po");
}
