/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Meters: limits hold to the unit, refusals leave nothing charged, and threads lose no count.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include "base/meter.h"

static unsigned g_told;
static enum meter g_told_of;

static void told(enum meter m)
{
	g_told++;
	g_told_of = m;
}

static void limits_of(uint64_t each)
{
	uint64_t limits[METER_COUNT];

	for (unsigned m = 0; m < METER_COUNT; m++)
		limits[m] = each;
	meters_start(limits);
}

Test(base_meter, without_limits_everything_is_counted_and_nothing_refused)
{
	cr_assert(meter_charge(METER_timers, UINT64_C(1) << 60));
	cr_assert_eq(meter_current(METER_timers), UINT64_C(1) << 60);
	meter_uncharge(METER_timers, UINT64_C(1) << 60);
	cr_assert_eq(meter_current(METER_timers), 0);
	cr_assert_eq(g_meters[METER_timers].peak, UINT64_C(1) << 60);
}

Test(base_meter, the_limit_is_reached_and_not_passed)
{
	limits_of(10);
	g_meter_on_refusal = told;
	cr_assert(meter_charge(METER_buffers, 7));
	cr_assert(!meter_charge(METER_buffers, 4));
	cr_assert_eq(g_told, 1);
	cr_assert_eq(g_told_of, METER_buffers);
	cr_assert_eq(meter_current(METER_buffers), 7);
	cr_assert(meter_charge(METER_buffers, 3));
	cr_assert(!meter_charge(METER_buffers, 1));
	cr_assert_eq(g_meters[METER_buffers].refused, 2);
	cr_assert_eq(g_meters[METER_buffers].peak, 10);
	/* What is there already counts, whatever the limit. */
	meter_charge_found(METER_buffers, 5);
	cr_assert_eq(meter_current(METER_buffers), 15);
	cr_assert(!meter_charge(METER_buffers, 0));
	meter_uncharge(METER_buffers, 15);
	cr_assert(meter_charge(METER_buffers, 10));
	cr_assert_eq(g_meters[METER_locks].refused, 0);
}

Test(base_meter, each_has_a_name_and_a_unit)
{
	for (unsigned m = 0; m < METER_COUNT; m++) {
		cr_assert(meter_name((enum meter)m)[0]);
		cr_assert(meter_what((enum meter)m)[0]);
	}
	cr_assert_eq(meter_unit_of(METER_cpu_time), METER_UNIT_TIME);
	cr_assert_eq(meter_unit_of(METER_memory), METER_UNIT_BYTES);
}

#define ROUNDS 20000u

static void *charger(void *arg)
{
	uint64_t *held = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		if (meter_charge(METER_signals, 3))
			*held += 3;
		if (*held >= 3 && i % 3 == 0) {
			meter_uncharge(METER_signals, 3);
			*held -= 3;
		}
	}
	return NULL;
}

Test(base_meter, threads_lose_no_count)
{
	pthread_t t[4];
	uint64_t held[4] = {0}, sum = 0;

	limits_of(100);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, charger, &held[i]), 0);
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		sum += held[i];
	}
	cr_assert_eq(meter_current(METER_signals), sum);
	cr_assert(sum <= 100);
	cr_assert_leq(g_meters[METER_signals].peak, 100);
}
