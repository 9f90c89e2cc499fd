/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clock.c, clock_tsc.c and timer.c know of each other. Private to base/.
 */
#ifndef MOAT_BASE_CLOCK_INTERNAL_H
#define MOAT_BASE_CLOCK_INTERNAL_H

#include <time.h>
#include "base/clock.h"

/* Times of the host, from the same moment. */
struct host_times {
	uint64_t mono_ns;
	uint64_t mono_to_real_ns;
	uint64_t mono_to_boot_ns;
};

/* Whether this host's clock is the TSC and may be read that way; then tsc_read() works. Takes the
 * first sample for the calibration. @real_offset_ns is added to real time in @p. @p is all zeros,
 * and stays where it is. */
bool tsc_start(struct clock_params *p, int64_t real_offset_ns);
/* The host's times by the shared parameters, which are renewed when they have run out. */
void tsc_read(struct host_times *t);
/* The same, but maybe of up to 4 ms ago, if now would cost a sample: in the first moments, when all
 * readings do. */
void tsc_read_coarse(struct host_times *t);
/* The same from the host's clocks, without the offset. */
void host_read(struct host_times *t);
uint64_t host_clock_ns(clockid_t id);

/* Timers. Virtual and manual time are moved by whoever runs the timers. */
int timers_start(bool thread, bool served) MUST_USE;
void timers_stop(void);
/* Runs what is due, in order, moving the time along by clock_set_now(); up to @until_ns. */
void timers_run_until(uint64_t until_ns);
/* Runs the timers that are due next, unless that is after @end_ns. Were there any? */
bool timers_run_next(uint64_t end_ns);
bool timers_armed(void);
/* VIRTUAL, with turns: time passes; on to the next timer. See timers_run_next. */
void clock_step(uint64_t ns);
bool clock_run_next(void);
/* Wakes the timer thread to look again. */
void timers_poke(void);
/* MANUAL, VIRTUAL: the time is now @now_ns, if that is later. */
void clock_set_now(uint64_t now_ns);

#endif
