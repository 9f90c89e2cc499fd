/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The injected clock, and timers on it.
 *
 * All time that the kernel or a guest sees comes from here. Monotonic time is nanoseconds since an
 * unspecified start (the host's CLOCK_MONOTONIC by default); real time is nanoseconds since 1970.
 * The guest's vDSO uses the same TSC parameters as clock_mono_ns() (see clock_params), so that a
 * reading by syscall and one by the vDSO never go backwards against each other.
 *
 * Timers fire on a host thread of their own (the timer thread); callbacks are short, take short
 * locks only, and may wake fibers and arm timers.
 */
#ifndef MOAT_BASE_CLOCK_H
#define MOAT_BASE_CLOCK_H

#include "base/lock.h"
#include "base/types.h"

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull

/* Times that programs give, neither of them negative, @nsec below a second: as Linux (KTIME_MAX)
 * has it all that is beyond 2262 is INT64_MAX ns. */
static inline uint64_t seconds_to_ns(int64_t sec, int64_t nsec)
{
	if (sec >= INT64_MAX / (int64_t)NSEC_PER_SEC)
		return INT64_MAX;
	return (uint64_t)sec * NSEC_PER_SEC + (uint64_t)nsec;
}

/* @left_ns after @ns, both at most INT64_MAX; and so is that. */
static inline uint64_t deadline_after(uint64_t ns, uint64_t left_ns)
{
	return MIN(ns + left_ns, (uint64_t)INT64_MAX);
}

/* When a timer that should have expired @late_ns before @now, and then each @period_ns (at most
 * INT64_MAX), expires after @now; and in *@more, how often it should have in between. It is told
 * how late it is, as the time itself may be before the monotonic clock's zero. */
static inline uint64_t deadline_in_phase(uint64_t now, uint64_t late_ns, uint64_t period_ns,
					 uint64_t *more)
{
	*more = late_ns / period_ns;
	return deadline_after(now, period_ns - late_ns % period_ns);
}

enum clock_kind {
	CLOCK_KIND_HOST,
	CLOCK_KIND_OFFSET,
	CLOCK_KIND_FIXED,
	CLOCK_KIND_VIRTUAL,
	CLOCK_KIND_MANUAL
};

/* Asks the host what it measures time with, as long as its files can be seen. */
void clock_look(void);
/* Starts the clock and the timer thread. @real_offset_ns: for KIND_OFFSET added to real time; for
 * FIXED, VIRTUAL and MANUAL the real time at start. */
int clock_start(enum clock_kind kind, int64_t real_offset_ns) MUST_USE;
/* As it, without the thread: timers fire while the calling thread, and no other, is in
 * clock_wait().
 */
int clock_start_served(enum clock_kind kind, int64_t real_offset_ns) MUST_USE;
/* Until @done says so. It is asked without locks, and again after each clock_tell(). */
void clock_wait(bool (*done)(void *arg), void *arg);
void clock_tell(void);
void clock_stop(void);
enum clock_kind clock_get_kind(void);
/* KIND_MANUAL (tests): moves time forward and runs the timers that came due. */
void clock_advance(uint64_t ns);

uint64_t clock_mono_ns(void);
uint64_t clock_real_ns(void);
/* Real time for the times of files: maybe of up to 4 ms ago, as Linux takes that of its last tick
 * (ktime_get_coarse_real_ts64). */
uint64_t clock_stamp_ns(void);
uint64_t clock_boot_ns(void);

/* How to compute mono and real time from the TSC, here and in the vDSO (the layout is shared with
 * loader/vdso). A reader
 *   1. reads seq; odd: try again;
 *   2. reads the rest, then the counter (lfence; rdtsc, or rdtscp);
 *   3. reads seq again; changed: from the start;
 *   4. makes the syscall if !valid, or if delta = tsc - base_tsc (unsigned) is above max_delta: the
 *      parameters are made anew only after max_delta has run out, from what a reader could have
 *      seen at most, and that alone keeps time from going backwards;
 *   5. mono = base_mono_ns + ((delta * mult) >> shift), which fits into 64 bits. */
struct clock_params {
	_Atomic uint32_t seq;
	uint32_t valid;
	uint64_t base_tsc;
	uint64_t base_mono_ns;
	uint64_t mono_to_real_ns; /* real = mono + this, modulo 2^64 */
	uint64_t mono_to_boot_ns;
	uint32_t mult;
	uint32_t shift;
	uint64_t max_delta;
};
_Static_assert(sizeof(struct clock_params) == 56, "shared with the vDSO");
const struct clock_params *clock_get_params(void);
/* A host descriptor (memfd) of one page that begins with the struct; borrowed. -1: none. For
 * mapping it read-only into guests. */
int clock_params_fd(void);

struct timer {
	uint64_t deadline_ns; /* monotonic. [the timer lock] */
	uint64_t seq;         /* of arming. [the timer lock] */
	void (*fn)(struct timer *t);
	uint32_t slot; /* heap index + 1; 0: not armed. [the timer lock] */
};

void timer_init(struct timer *t, void (*fn)(struct timer *));
/* (Re-)arms for the absolute monotonic time; never fails (the heap grows; no memory is a panic). */
void timer_arm(struct timer *t, uint64_t deadline_ns);
/* Disarms. True if it was armed. The callback may still be running. */
bool timer_cancel(struct timer *t);
/* Disarms and waits until the callback does not run. Not from the callback; no lock held that fn
 * takes. */
void timer_cancel_sync(struct timer *t);

#endif
