/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest ABI of clocks and timers.
 *
 * Source: clock_gettime(2), timer_settime(2), getitimer(2).
 */
#ifndef MOAT_BASE_LX_TIME_H
#define MOAT_BASE_LX_TIME_H

#include "base/lx.h"

#define LX_CLOCK_REALTIME 0
#define LX_CLOCK_MONOTONIC 1
#define LX_CLOCK_PROCESS_CPUTIME_ID 2
#define LX_CLOCK_THREAD_CPUTIME_ID 3
#define LX_CLOCK_MONOTONIC_RAW 4
#define LX_CLOCK_REALTIME_COARSE 5
#define LX_CLOCK_MONOTONIC_COARSE 6
#define LX_CLOCK_BOOTTIME 7
#define LX_CLOCK_REALTIME_ALARM 8
#define LX_CLOCK_BOOTTIME_ALARM 9
#define LX_CLOCK_TAI 11

#define LX_TIMER_ABSTIME 1

/* The tick of coarse clocks and of socket timeouts, with which distributions build Linux. */
#define LX_TICK_NS ((uint64_t)4 * NSEC_PER_MSEC)

struct lx_itimerspec {
	struct lx_timespec it_interval;
	struct lx_timespec it_value;
};

struct lx_itimerval {
	struct lx_timeval it_interval;
	struct lx_timeval it_value;
};

#endif
