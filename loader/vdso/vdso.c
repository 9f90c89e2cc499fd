/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of the vDSO. Runs in the guest, freestanding: no libc, no data of its own, no
 * relocations.
 *
 * Theory of operation: the page below the image holds struct clock_params, which the sentry
 * rewrites now and then under a sequence count (base/clock_read.h reads it). Whatever cannot
 * be answered from it goes to the real system call. A caller's bad pointer faults in the caller, as
 * with Linux's vDSO.
 *
 * References: vdso(7), clock_gettime(2).
 */
#include <stddef.h>

#include "base/clock_read.h"
#include "base/lx.h"

#define EXPORT __attribute__((visibility("default")))

#define NR_gettimeofday_ 96
#define NR_time_ 201
#define NR_clock_gettime_ 228
#define NR_clock_getres_ 229
#define NR_getcpu_ 309

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

EXPORT int __vdso_clock_gettime(int clock, struct lx_timespec *ts)
{
	uint64_t ns;

	if (!clock_params_read(&vvar_clock, clock, &ns))
		return (int)syscall3(NR_clock_gettime_, clock, (long)ts, 0);
	ts->tv_sec = (int64_t)(ns / NSEC_PER_SEC);
	ts->tv_nsec = (int64_t)(ns % NSEC_PER_SEC);
	return 0;
}

EXPORT int __vdso_clock_getres(int clock, struct lx_timespec *res)
{
	if (clock != LX_CLOCK_REALTIME && clock != LX_CLOCK_MONOTONIC &&
	    clock != LX_CLOCK_MONOTONIC_RAW && clock != LX_CLOCK_BOOTTIME)
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
		if (!clock_params_read(&vvar_clock, LX_CLOCK_REALTIME, &ns))
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

	if (!clock_params_read(&vvar_clock, LX_CLOCK_REALTIME, &ns))
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
