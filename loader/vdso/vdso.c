/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of the vDSO. Runs in the guest, freestanding: no libc, no data of its own, no
 * relocations.
 *
 * Theory of operation: the page below the image holds struct clock_params, which the sentry
 * rewrites now and then under a sequence count (see base/clock.h for the protocol). Whatever cannot
 * be answered from it goes to the real system call. A caller's bad pointer faults in the caller, as
 * with Linux's vDSO.
 *
 * References: vdso(7), clock_gettime(2).
 */
#include <immintrin.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/lx.h"

#define EXPORT __attribute__((visibility("default")))

#define CLOCK_REALTIME_ 0
#define CLOCK_MONOTONIC_ 1
#define CLOCK_MONOTONIC_RAW_ 4
#define CLOCK_REALTIME_COARSE_ 5
#define CLOCK_MONOTONIC_COARSE_ 6
#define CLOCK_BOOTTIME_ 7

#define NR_gettimeofday_ 96
#define NR_time_ 201
#define NR_clock_gettime_ 228
#define NR_clock_getres_ 229
#define NR_getcpu_ 309

/* A writer that was stopped in the middle must not make readers spin for long. */
#define TRIES_MAX 1000

/* Placed by vdso.lds, one page below the image. */
extern const struct clock_params vvar_clock __attribute__((visibility("hidden")));

struct lx_timezone {
	int minuteswest, dsttime;
};

int __vdso_clock_gettime(int clock, struct lx_timespec *ts);
int __vdso_clock_getres(int clock, struct lx_timespec *res);
int __vdso_gettimeofday(struct lx_timeval *tv, struct lx_timezone *tz);
int64_t __vdso_time(int64_t *t);
int __vdso_getcpu(unsigned *cpu, unsigned *node, void *unused);

static long syscall3(long nr, long a, long b, long c)
{
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "0"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return r;
}

static uint64_t counter(void)
{
	/* Not before the loads that precede it. */
	_mm_lfence();
	return __builtin_ia32_rdtsc();
}

/* Monotonic time, and what must be added to it for @clock. False: ask the sentry. */
static bool read_clock(int clock, uint64_t *ns)
{
	const struct clock_params *p = &vvar_clock;

	for (int i = 0; i < TRIES_MAX; i++) {
		uint32_t seq = atomic_load_explicit(&p->seq, memory_order_acquire);
		uint64_t base, mono, to_real, to_boot, max, delta;
		uint32_t mult, shift, valid;

		if (seq & 1) {
			_mm_pause();
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
		delta = counter() - base;
		if (atomic_load_explicit(&p->seq, memory_order_acquire) != seq)
			continue;
		if (delta > max)
			return false;
		mono += (delta * mult) >> shift;
		switch (clock) {
		case CLOCK_REALTIME_:
		case CLOCK_REALTIME_COARSE_:
			*ns = mono + to_real;
			return true;
		case CLOCK_MONOTONIC_:
		case CLOCK_MONOTONIC_COARSE_:
		case CLOCK_MONOTONIC_RAW_:
			*ns = mono;
			return true;
		case CLOCK_BOOTTIME_:
			*ns = mono + to_boot;
			return true;
		default:
			return false;
		}
	}
	return false;
}

EXPORT int __vdso_clock_gettime(int clock, struct lx_timespec *ts)
{
	uint64_t ns;

	if (!read_clock(clock, &ns))
		return (int)syscall3(NR_clock_gettime_, clock, (long)ts, 0);
	ts->tv_sec = (int64_t)(ns / NSEC_PER_SEC);
	ts->tv_nsec = (int64_t)(ns % NSEC_PER_SEC);
	return 0;
}

EXPORT int __vdso_clock_getres(int clock, struct lx_timespec *res)
{
	if (clock != CLOCK_REALTIME_ && clock != CLOCK_MONOTONIC_ &&
	    clock != CLOCK_MONOTONIC_RAW_ && clock != CLOCK_BOOTTIME_)
		return (int)syscall3(NR_clock_getres_, clock, (long)res, 0);
	if (res) {
		res->tv_sec = 0;
		res->tv_nsec = 1;
	}
	return 0;
}

EXPORT int __vdso_gettimeofday(struct lx_timeval *tv, struct lx_timezone *tz)
{
	uint64_t ns;

	if (tv) {
		if (!read_clock(CLOCK_REALTIME_, &ns))
			return (int)syscall3(NR_gettimeofday_, (long)tv, (long)tz, 0);
		tv->tv_sec = (int64_t)(ns / NSEC_PER_SEC);
		tv->tv_usec = (int64_t)(ns % NSEC_PER_SEC / NSEC_PER_USEC);
	}
	if (tz)
		tz->minuteswest = tz->dsttime = 0;
	return 0;
}

EXPORT int64_t __vdso_time(int64_t *t)
{
	uint64_t ns;
	int64_t s;

	if (!read_clock(CLOCK_REALTIME_, &ns))
		return syscall3(NR_time_, (long)t, 0, 0);
	s = (int64_t)(ns / NSEC_PER_SEC);
	if (t)
		*t = s;
	return s;
}

/* The processor that the host runs us on means nothing to the guest: the sentry knows how many
 * there are. */
EXPORT int __vdso_getcpu(unsigned *cpu, unsigned *node, void *unused)
{
	return (int)syscall3(NR_getcpu_, (long)cpu, (long)node, (long)unused);
}
