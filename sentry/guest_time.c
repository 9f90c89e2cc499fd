/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks as the guest names them.
 *
 * Theory of operation: the wall and monotonic clocks are base/clock.h's; TAI is wall time (no leap
 * seconds are known); coarse clocks are the fine ones. CPU clocks sum what the platform charges to
 * threads. A negative id names the clock of a process or thread: ~pid << 3, bit 2 for a thread, and
 * 2 (scheduler time) in the low bits, or 0 and 1 (profiling, virtual): clock_getcpuclockid(3).
 */
#include "sentry/guest_time.h"

#include "sentry/process.h"

#include <errno.h>

bool timespec_to_ns(const struct lx_timespec *ts, uint64_t *ns)
{
	if (ts->tv_sec < 0 || ts->tv_nsec < 0 || ts->tv_nsec >= (int64_t)NSEC_PER_SEC)
		return false;
	*ns = seconds_to_ns(ts->tv_sec, ts->tv_nsec);
	return true;
}

struct lx_timespec ns_to_timespec(uint64_t ns)
{
	return (struct lx_timespec){(int64_t)(ns / NSEC_PER_SEC), (int64_t)(ns % NSEC_PER_SEC)};
}

struct lx_timeval ns_to_timeval(uint64_t ns)
{
	return (struct lx_timeval){(int64_t)(ns / NSEC_PER_SEC),
				   (int64_t)(ns % NSEC_PER_SEC / NSEC_PER_USEC)};
}

bool guest_clock_is_cpu(int clockid)
{
	return clockid < 0 || clockid == LX_CLOCK_PROCESS_CPUTIME_ID ||
	       clockid == LX_CLOCK_THREAD_CPUTIME_ID;
}

static uint64_t pick_cpu_time(int type, uint64_t user, uint64_t sys)
{
	return type == 1 ? user : user + sys; /* CPUCLOCK_VIRT is user time only */
}

static int group_cpu(struct tgroup *tg, int type, uint64_t *ns, unsigned *parallel)
{
	struct rusage_sum s;

	tgroup_rusage(tg, &s);
	*ns = pick_cpu_time(type, s.user_ns, s.sys_ns);
	*parallel = MAX(tg->live, 1u);
	return 0;
}

static int thread_cpu(struct task *t, int type, uint64_t *ns, unsigned *parallel)
{
	uint64_t user, sys;

	task_times(t, &user, &sys);
	*ns = pick_cpu_time(type, user, sys);
	*parallel = 1;
	return 0;
}

int guest_cpu_clock(struct task *t, int clockid, uint64_t *ns, unsigned *parallel)
{
	int32_t pid = ~(clockid >> 3);
	int type = clockid & 3, r;

	if (clockid == LX_CLOCK_PROCESS_CPUTIME_ID)
		return group_cpu(t->tg, 2, ns, parallel);
	if (clockid == LX_CLOCK_THREAD_CPUTIME_ID)
		return thread_cpu(t, 2, ns, parallel);
	if (clockid >= 0 || type == 3)
		return -EINVAL;
	if (clockid & 4) {
		struct task *o;

		if (pid == 0)
			return thread_cpu(t, type, ns, parallel);
		o = task_find(pid);
		if (!o)
			return -EINVAL;
		r = o->tg == t->tg ? thread_cpu(o, type, ns, parallel) : -EINVAL;
		task_put(o);
		return r;
	}
	if (pid == 0)
		return group_cpu(t->tg, type, ns, parallel);
	struct tgroup *tg = tgroup_find(pid);

	if (!tg)
		return -EINVAL;
	r = group_cpu(tg, type, ns, parallel);
	tgroup_put(tg);
	return r;
}

int guest_clock_read(struct task *t, int clockid, uint64_t *ns)
{
	unsigned parallel;

	switch (clockid) {
	case LX_CLOCK_REALTIME:
	case LX_CLOCK_REALTIME_COARSE:
	case LX_CLOCK_TAI:
		*ns = clock_real_ns();
		return 0;
	case LX_CLOCK_MONOTONIC:
	case LX_CLOCK_MONOTONIC_RAW:
	case LX_CLOCK_MONOTONIC_COARSE:
		*ns = clock_mono_ns();
		return 0;
	case LX_CLOCK_BOOTTIME:
		*ns = clock_boot_ns();
		return 0;
	default:
		return guest_cpu_clock(t, clockid, ns, &parallel);
	}
}

int guest_clock_with_mono(int clockid, uint64_t *ns, uint64_t *mono)
{
	/* The monotonic one last: a deadline that is made of the two must not come too early. */
	switch (clockid) {
	case LX_CLOCK_REALTIME:
	case LX_CLOCK_TAI:
		*ns = clock_real_ns();
		*mono = clock_mono_ns();
		return 0;
	case LX_CLOCK_MONOTONIC:
		*ns = *mono = clock_mono_ns();
		return 0;
	case LX_CLOCK_BOOTTIME:
		*ns = clock_boot_ns();
		*mono = clock_mono_ns();
		return 0;
	default:
		return -EINVAL;
	}
}

int guest_clock_deadline(int clockid, bool absolute, uint64_t ns, uint64_t *deadline)
{
	uint64_t mono, now;

	if (guest_clock_with_mono(clockid, &now, &mono))
		return -EINVAL;
	if (absolute)
		ns = ns > now ? ns - now : 0;
	if (__builtin_add_overflow(mono, ns, deadline))
		*deadline = DEADLINE_NONE;
	return 0;
}
