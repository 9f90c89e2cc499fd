/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/clock.h: kinds of clocks, and timers with the manual one. What follows the host's clock is
 * tested for order, and by readings of the host before and after it, which may be any time apart.
 */
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <time.h>
#include "base/clock.h"
#include "base/fiber.h"

#define REAL_START (1000000000 * (int64_t)NSEC_PER_SEC)
/* What half of the readings must keep: the error of the samples. */
#define SLACK_NS (20 * NSEC_PER_USEC)
/* What all must keep: the host's clock discipline may change its rate while a line is in use. */
#define SLACK_MAX_NS (10 * NSEC_PER_MSEC)

static uint64_t host_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void start(enum clock_kind kind, int64_t real)
{
	cr_assert_eq(clock_start(kind, real), 0);
}

/* How far @now is outside of the two. */
static uint64_t outside(uint64_t before, uint64_t now, uint64_t after)
{
	return now < before ? before - now : now > after ? now - after : 0;
}

/* Reads of the clock and of the host, in turn: never backwards, and near to it. */
static void follow_host(uint64_t for_ns, int64_t real_offset)
{
	const uint64_t offset = (uint64_t)real_offset;
	uint64_t end = host_ns(CLOCK_MONOTONIC) + for_ns;
	uint64_t last = 0;
	unsigned near = 0, reads = 0;

	do {
		uint64_t before = host_ns(CLOCK_MONOTONIC);
		uint64_t now = clock_mono_ns();
		uint64_t off = outside(before, now, host_ns(CLOCK_MONOTONIC));

		cr_assert_geq(now, last, "%lu ns backwards", last - now);
		last = now;

		before = host_ns(CLOCK_REALTIME) + offset;
		now = clock_real_ns();
		off = MAX(off, outside(before, now, host_ns(CLOCK_REALTIME) + offset));

		before = host_ns(CLOCK_BOOTTIME);
		now = clock_boot_ns();
		off = MAX(off, outside(before, now, host_ns(CLOCK_BOOTTIME)));

		cr_assert_leq(off, SLACK_MAX_NS, "%lu ns off", off);
		near += off <= SLACK_NS;
		reads++;
	} while (last < end);
	cr_assert_geq(near, reads / 2, "only %u of %u readings were near the host's", near, reads);
}

Test(clock, follows_host)
{
	start(CLOCK_KIND_HOST, 0);
	/* Over the first lines of the calibration, and two renewals of a whole one. */
	follow_host(2500 * NSEC_PER_MSEC, 0);
	clock_stop();
}

Test(clock, offset)
{
	start(CLOCK_KIND_OFFSET, -5 * (int64_t)NSEC_PER_SEC);
	follow_host(100 * NSEC_PER_MSEC, -5 * (int64_t)NSEC_PER_SEC);
	clock_stop();
}

Test(clock, late_reader)
{
	start(CLOCK_KIND_HOST, 0);
	follow_host(30 * NSEC_PER_MSEC, 0);
	/* The parameters run out meanwhile. */
	clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = 1, .tv_nsec = 500000000},
			NULL);
	follow_host(30 * NSEC_PER_MSEC, 0);
	clock_stop();
}

/* What a vDSO does with the page, as the header says. */
Test(clock, shared_page)
{
	start(CLOCK_KIND_HOST, 0);
	follow_host(30 * NSEC_PER_MSEC, 0);

	int fd = clock_params_fd();

	cr_assert_geq(fd, 0);
	cr_assert_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED,
		     "nobody else may write to it");

	struct clock_params *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	cr_assert_neq(p, MAP_FAILED);
	cr_assert_neq(mprotect(p, 4096, PROT_READ | PROT_WRITE), 0);

	uint64_t before = clock_mono_ns();

	if (p->valid) {
		cr_assert_eq(p->seq % 2, 0);

		uint64_t delta = __builtin_ia32_rdtsc() - p->base_tsc;
		uint64_t now = p->base_mono_ns + ((delta * p->mult) >> p->shift);
		uint64_t after = clock_mono_ns();

		/* Not a bound on time: if it took too long the parameters do not hold any more. */
		if (delta <= p->max_delta)
			cr_assert(before <= now && now <= after);
	}
	munmap(p, 4096);
	clock_stop();
}

Test(clock, fixed)
{
	start(CLOCK_KIND_FIXED, REAL_START);

	uint64_t mono = clock_mono_ns();

	cr_assert_eq(clock_real_ns(), (uint64_t)REAL_START);
	while (clock_mono_ns() < mono + 2 * NSEC_PER_MSEC)
		;
	cr_assert_eq(clock_real_ns(), (uint64_t)REAL_START);
	cr_assert_eq(clock_get_params()->valid, 0);
	clock_stop();
}

/* --- Timers, by the manual clock --- */

struct recorder {
	struct timer t;
	unsigned fired;
	uint64_t at;
	uint64_t period;
	struct recorder *cancels;
};

static void record(struct timer *t)
{
	struct recorder *r = container_of(t, struct recorder, t);

	r->fired++;
	r->at = clock_mono_ns();
	if (r->period)
		timer_arm(t, t->deadline_ns + r->period);
	if (r->cancels)
		timer_cancel(&r->cancels->t);
}

Test(timer, manual)
{
	struct recorder a = {0}, b = {0}, c = {.period = 10};

	start(CLOCK_KIND_MANUAL, REAL_START);

	uint64_t t0 = clock_mono_ns();

	cr_assert_eq(clock_real_ns(), (uint64_t)REAL_START);
	timer_init(&a.t, record);
	timer_init(&b.t, record);
	timer_init(&c.t, record);
	timer_arm(&a.t, t0 + 100);
	timer_arm(&b.t, t0 + 50);
	timer_arm(&c.t, t0 + 10);
	clock_advance(49);
	cr_assert(a.fired == 0 && b.fired == 0 && c.fired == 4);
	cr_assert_eq(c.at, t0 + 40, "a callback sees the time it was due");
	clock_advance(1);
	cr_assert(b.fired == 1 && b.at == t0 + 50);
	timer_arm(&a.t, t0 + 60);
	cr_assert(timer_cancel(&c.t));
	cr_assert(!timer_cancel(&c.t));
	clock_advance(1000);
	cr_assert(a.fired == 1 && a.at == t0 + 60 && b.fired == 1 && c.fired == 5);
	cr_assert_eq(clock_mono_ns(), t0 + 1050);
	cr_assert_eq(clock_real_ns(), (uint64_t)REAL_START + 1050);
	clock_stop();
}

Test(timer, past_and_cancel_from_callback)
{
	struct recorder a = {0}, b = {0};

	start(CLOCK_KIND_MANUAL, 0);
	timer_init(&a.t, record);
	timer_init(&b.t, record);
	a.cancels = &b;
	timer_arm(&a.t, 0);
	timer_arm(&b.t, 1);
	clock_advance(0);
	cr_assert(a.fired == 1 && b.fired == 0);
	clock_stop();
}

static unsigned g_order;
static uint64_t g_last;

static void in_order(struct timer *t)
{
	g_order++;
	cr_assert_geq(t->deadline_ns, g_last);
	g_last = t->deadline_ns;
}

Test(timer, heap_order)
{
	enum { N = 1000 };
	static struct timer timers[N];
	uint64_t seed = 7;
	unsigned armed = 0;

	start(CLOCK_KIND_MANUAL, 0);
	for (unsigned i = 0; i < N; i++)
		timer_init(&timers[i], in_order);
	for (unsigned step = 0; step < 20000; step++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;

		struct timer *t = &timers[(seed >> 33) % N];

		if (seed >> 62)
			timer_arm(t, clock_mono_ns() + (seed >> 40));
		else
			timer_cancel(t);
	}
	for (unsigned i = 0; i < N; i++)
		armed += timers[i].slot != 0;
	clock_advance(UINT64_C(1) << 40);
	cr_assert_eq(g_order, armed);
	clock_stop();
}

/* --- Virtual time --- */

static uint64_t g_woke_at[3];

static void sleeper(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;

	for (unsigned n = 0; n < 10; n++)
		(void)fiber_sleep_until(clock_mono_ns() + (i + 1) * NSEC_PER_SEC * 3600,
					WAIT_UNINTR);
	g_woke_at[i] = clock_mono_ns();
}

Test(clock, virtual)
{
	start(CLOCK_KIND_VIRTUAL, REAL_START);
	cr_assert_eq(workers_start(2, NULL), 0);

	uint64_t t0 = clock_mono_ns();
	struct fiber *f[3];

	/* 30 hours in no time. */
	for (uintptr_t i = 0; i < 3; i++)
		f[i] = fiber_new(sleeper, (void *)i, NULL, "sleeper");
	fiber_activity_begin();
	for (unsigned i = 0; i < 3; i++)
		fiber_start(f[i]);
	cr_assert_eq(clock_mono_ns(), t0, "time stands while something is at work");
	fiber_activity_end();
	workers_stop();
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(g_woke_at[i] - t0, 36000 * NSEC_PER_SEC * (i + 1));
	cr_assert_eq(clock_real_ns(), (uint64_t)REAL_START + 108000 * NSEC_PER_SEC);
	clock_stop();
}

Test(clock, periods_of_a_late_timer)
{
	const uint64_t most = INT64_MAX;
	const struct {
		uint64_t now, late, period, next, more;
	} rows[] = {
		{100, 0, 10, 110, 0},
		{100, 9, 10, 101, 0},
		{100, 10, 10, 110, 1},
		/* Before the clock's zero. */
		{100, 10500, 1000, 600, 10},
		{100, most, 1, 101, most},
		{100, most, most, most, 1},
		{100, most - 1, most, 101, 0},
		{100, UINT64_MAX, 1, 101, UINT64_MAX},
		{100, UINT64_MAX, most, most, 2},
		{most, 5, most, most, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t more;

		cr_expect_eq(deadline_in_phase(rows[i].now, rows[i].late, rows[i].period, &more),
			     rows[i].next, "row %zu", i);
		cr_expect_eq(more, rows[i].more, "row %zu", i);
	}
}
