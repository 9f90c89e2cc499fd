/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time by a struct clock_params, as guests read it: freestanding, without data of its own, for
 * the vDSO and for the stub, which both show the guest a page with one. The protocol: base/clock.h.
 */
#ifndef MOAT_BASE_CLOCK_READ_H
#define MOAT_BASE_CLOCK_READ_H

#include "base/clock.h"
#include "base/lx_time.h"

/* A writer that was stopped in the middle must not make readers spin for long. */
#define CLOCK_READ_TRIES 1000

static inline uint64_t clock_read_counter(void)
{
	uint32_t lo, hi;

	/* Not before the loads that precede it. */
	__asm__ volatile("lfence\n\trdtsc" : "=a"(lo), "=d"(hi)::"memory");
	return (uint64_t)hi << 32 | lo;
}

/* False: ask the sentry. */
static inline bool clock_params_read(const struct clock_params *p, int clock, uint64_t *ns)
{
	for (int i = 0; i < CLOCK_READ_TRIES; i++) {
		const uint32_t seq = atomic_load_explicit(&p->seq, memory_order_acquire);
		uint64_t base, mono, to_real, to_boot, max, delta;
		uint32_t mult, shift, valid;

		if (seq & 1) {
			__builtin_ia32_pause();
			continue;
		}
		valid = __atomic_load_n(&p->valid, __ATOMIC_ACQUIRE);
		/* Where time is not the host's, reading the counter may be a fault. */
		if (!valid)
			return false;
		base = __atomic_load_n(&p->base_tsc, __ATOMIC_ACQUIRE);
		mono = __atomic_load_n(&p->base_mono_ns, __ATOMIC_ACQUIRE);
		to_real = __atomic_load_n(&p->mono_to_real_ns, __ATOMIC_ACQUIRE);
		to_boot = __atomic_load_n(&p->mono_to_boot_ns, __ATOMIC_ACQUIRE);
		mult = __atomic_load_n(&p->mult, __ATOMIC_ACQUIRE);
		shift = __atomic_load_n(&p->shift, __ATOMIC_ACQUIRE);
		max = __atomic_load_n(&p->max_delta, __ATOMIC_ACQUIRE);
		delta = clock_read_counter() - base;
		if (atomic_load_explicit(&p->seq, memory_order_acquire) != seq)
			continue;
		if (delta > max)
			return false;
		mono += (delta * mult) >> shift;
		switch (clock) {
		case LX_CLOCK_REALTIME:
		case LX_CLOCK_REALTIME_COARSE:
			*ns = mono + to_real;
			return true;
		case LX_CLOCK_MONOTONIC:
		case LX_CLOCK_MONOTONIC_COARSE:
		case LX_CLOCK_MONOTONIC_RAW:
			*ns = mono;
			return true;
		case LX_CLOCK_BOOTTIME:
			*ns = mono + to_boot;
			return true;
		default:
			return false;
		}
	}
	return false;
}

#endif
