/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of meters. See base/meter.h.
 */
#include "base/meter.h"

#include <stdio.h>

struct meter_state g_meters[METER_COUNT] = {
	[0 ... METER_COUNT - 1] = {.limit = METER_NO_LIMIT},
};
void (*g_meter_on_refusal)(enum meter m);
_Atomic uint64_t g_memory_mapped;
void (*g_memory_look)(void);

void memory_mapped(uint64_t n, bool more)
{
	atomic_fetch_add_explicit(&g_memory_mapped, n, memory_order_relaxed);
	if (more && memory_might_exceed(0) && g_memory_look)
		g_memory_look();
}

static const struct {
	const char *name, *what;
	enum meter_unit unit;
} g_kinds[METER_COUNT] = {
#define X(n, u, w) [METER_##n] = {.name = #n, .what = (w), .unit = METER_UNIT_##u},
	METERS(X)
#undef X
};

void meters_start(const uint64_t limits[METER_COUNT])
{
	for (unsigned m = 0; m < METER_COUNT; m++)
		g_meters[m].limit = limits[m];
}

const char *meter_name(enum meter m)
{
	return g_kinds[m].name;
}

const char *meter_what(enum meter m)
{
	return g_kinds[m].what;
}

enum meter_unit meter_unit_of(enum meter m)
{
	return g_kinds[m].unit;
}

void meter_text(enum meter m, uint64_t v, char out[METER_TEXT_SIZE])
{
	static const char *const sizes[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	unsigned i = 0;

	switch (g_kinds[m].unit) {
	case METER_UNIT_BYTES:
		for (; v >= 1024 && v % 1024 == 0 && i + 1 < ARRAY_SIZE(sizes); i++)
			v /= 1024;
		snprintf(out, METER_TEXT_SIZE, "%llu %s", (unsigned long long)v, sizes[i]);
		break;
	case METER_UNIT_TIME:
		snprintf(out, METER_TEXT_SIZE, "%g s", (double)v / 1e9);
		break;
	case METER_UNIT_PERCENT:
		snprintf(out, METER_TEXT_SIZE, "%llu%%", (unsigned long long)v);
		break;
	default:
		snprintf(out, METER_TEXT_SIZE, "%llu", (unsigned long long)v);
		break;
	}
}

const char *meter_placeholder(enum meter m)
{
	static const char *const texts[] = {[METER_UNIT_COUNT] = "N",
					    [METER_UNIT_BYTES] = "SIZE",
					    [METER_UNIT_TIME] = "TIME",
					    [METER_UNIT_PERCENT] = "SHARE"};

	return texts[g_kinds[m].unit];
}

void meter_raise_peak(enum meter m, uint64_t now)
{
	uint64_t peak = atomic_load_explicit(&g_meters[m].peak, memory_order_relaxed);

	while (now > peak &&
	       !atomic_compare_exchange_weak_explicit(&g_meters[m].peak, &peak, now,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

void meter_refuse(enum meter m)
{
	atomic_fetch_add_explicit(&g_meters[m].refused, 1, memory_order_relaxed);
	if (g_meter_on_refusal)
		g_meter_on_refusal(m);
}

void meter_over(enum meter m, uint64_t n)
{
	meter_uncharge(m, n);
	meter_refuse(m);
}
