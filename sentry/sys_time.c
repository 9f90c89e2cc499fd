/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading clocks and sleeping. The guest's clock cannot be set: it has no CAP_SYS_TIME.
 */
#include "base/lx_time.h"
#include "sentry/guest_time.h"
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <string.h>

#define USER_HZ_NS (NSEC_PER_SEC / 100)

long sys_clock_gettime(struct task *t, int clockid, gaddr_t tp)
{
	struct lx_timespec ts;
	uint64_t ns;
	int r = guest_clock_read(t, clockid, &ns);

	if (r)
		return r;
	ts = ns_to_timespec(ns);
	return copy_out(t, tp, &ts, sizeof(ts));
}

long sys_clock_getres(struct task *t, int clockid, gaddr_t res)
{
	bool coarse = clockid == LX_CLOCK_REALTIME_COARSE || clockid == LX_CLOCK_MONOTONIC_COARSE;
	struct lx_timespec ts = {0, coarse ? (int64_t)LX_TICK_NS : 1};
	uint64_t ns;
	int r = guest_clock_read(t, clockid, &ns);

	if (r)
		return r;
	return res.a ? copy_out(t, res, &ts, sizeof(ts)) : 0;
}

long sys_clock_settime(struct task *t, int clockid, gaddr_t tp)
{
	struct lx_timespec ts;
	uint64_t ns;

	if (clockid != LX_CLOCK_REALTIME)
		return -EINVAL;
	if (copy_in(t, &ts, tp, sizeof(ts)))
		return -EFAULT;
	if (!timespec_to_ns(&ts, &ns))
		return -EINVAL;
	return -EPERM;
}

long sys_gettimeofday(struct task *t, gaddr_t tv, gaddr_t tz)
{
	if (tv.a) {
		struct lx_timeval v = ns_to_timeval(clock_real_ns());

		if (copy_out(t, tv, &v, sizeof(v)))
			return -EFAULT;
	}
	if (tz.a) {
		int32_t zone[2] = {0, 0};

		if (copy_out(t, tz, zone, sizeof(zone)))
			return -EFAULT;
	}
	return 0;
}

long sys_settimeofday(struct task *t, gaddr_t tv, gaddr_t tz)
{
	struct lx_timeval v;
	int32_t zone[2];

	if (tv.a) {
		if (copy_in(t, &v, tv, sizeof(v)))
			return -EFAULT;
		if (v.tv_usec < 0 || v.tv_usec > 1000000 || v.tv_sec < 0)
			return -EINVAL;
	}
	if (tz.a && copy_in(t, zone, tz, sizeof(zone)))
		return -EFAULT;
	return -EPERM;
}

long sys_time(struct task *t, gaddr_t tloc)
{
	int64_t s = (int64_t)(clock_real_ns() / NSEC_PER_SEC);

	if (tloc.a && copy_out(t, tloc, &s, sizeof(s)))
		return -EFAULT;
	return s;
}

struct lx_tms {
	int64_t utime, stime, cutime, cstime;
};

long sys_times(struct task *t, gaddr_t buf)
{
	struct rusage_sum s;
	struct lx_tms tms;

	if (buf.a) {
		tgroup_rusage(t->tg, &s);
		tms.utime = (int64_t)(s.user_ns / USER_HZ_NS);
		tms.stime = (int64_t)(s.sys_ns / USER_HZ_NS);
		mutex_lock(&g_kernel.tasklist);
		tms.cutime = (int64_t)(t->tg->reaped.user_ns / USER_HZ_NS);
		tms.cstime = (int64_t)(t->tg->reaped.sys_ns / USER_HZ_NS);
		mutex_unlock(&g_kernel.tasklist);
		if (copy_out(t, buf, &tms, sizeof(tms)))
			return -EFAULT;
	}
	return (long)(clock_boot_ns() / USER_HZ_NS);
}

long sys_getrusage(struct task *t, int who, gaddr_t usage)
{
	struct rusage_sum s = {0};
	struct pf_mem_stats ms = {0};
	struct lx_rusage ru;

	switch (who) {
	case 0: /* RUSAGE_SELF */
		tgroup_rusage(t->tg, &s);
		break;
	case -1: /* RUSAGE_CHILDREN */
		mutex_lock(&g_kernel.tasklist);
		s = t->tg->reaped;
		mutex_unlock(&g_kernel.tasklist);
		break;
	case 1: /* RUSAGE_THREAD */
		task_times(t, &s.user_ns, &s.sys_ns);
		break;
	default:
		return -EINVAL;
	}
	if (who != -1) {
		g_pf->mem_stats(t->mm->as, &ms);
		s.max_rss_kb = ms.peak_rss_bytes / 1024;
	}
	rusage_to_lx(&s, &ru);
	return copy_out(t, usage, &ru, sizeof(ru));
}

/* Writes what is left to @rem and asks for a restart at the same deadline. */
static long sleep_interrupted(struct task *t, uint64_t deadline, gaddr_t rem,
			      long (*again)(struct task *))
{
	uint64_t now = clock_mono_ns();
	struct lx_timespec left;

	if (rem.a) {
		left = ns_to_timespec(deadline > now ? deadline - now : 0);
		if (copy_out(t, rem, &left, sizeof(left)))
			return -EFAULT;
	}
	t->restart.fn = again;
	t->restart.deadline_ns = deadline;
	t->restart.arg0 = rem.a;
	return -ERESTART_RESTARTBLOCK;
}

static long sleep_again(struct task *t)
{
	uint64_t deadline = t->restart.deadline_ns;
	gaddr_t rem = GADDR(t->restart.arg0);

	if (fiber_sleep_until(deadline, WAIT_INTR) == 0)
		return 0;
	return sleep_interrupted(t, deadline, rem, sleep_again);
}

long sys_nanosleep(struct task *t, gaddr_t req, gaddr_t rem)
{
	struct lx_timespec ts;
	uint64_t ns, deadline;

	if (copy_in(t, &ts, req, sizeof(ts)))
		return -EFAULT;
	if (!timespec_to_ns(&ts, &ns))
		return -EINVAL;
	(void)!guest_clock_deadline(LX_CLOCK_MONOTONIC, false, ns, &deadline);
	if (fiber_sleep_until(deadline, WAIT_INTR) == 0)
		return 0;
	return sleep_interrupted(t, deadline, rem, sleep_again);
}

/* A process sleeps on CPU time that its other threads use: look again when it can have passed at
 * the earliest. */
static long cpu_sleep(struct task *t, int clockid, bool absolute, uint64_t ns, gaddr_t rem)
{
	uint64_t now, target;
	unsigned parallel;
	int r = guest_cpu_clock(t, clockid, &now, &parallel);

	if (r)
		return r;
	target = absolute ? ns : now + ns;
	while (now < target) {
		uint64_t step = MAX((target - now) / parallel, NSEC_PER_MSEC);

		if (fiber_sleep_until(clock_mono_ns() + step, WAIT_INTR)) {
			struct lx_timespec left = ns_to_timespec(target - now);

			if (absolute)
				return -ERESTARTNOHAND;
			if (rem.a && copy_out(t, rem, &left, sizeof(left)))
				return -EFAULT;
			return -EINTR;
		}
		r = guest_cpu_clock(t, clockid, &now, &parallel);
		if (r)
			return r;
	}
	return 0;
}

long sys_clock_nanosleep(struct task *t, int clockid, int flags, gaddr_t req, gaddr_t rem)
{
	bool absolute = flags & LX_TIMER_ABSTIME;
	struct lx_timespec ts;
	uint64_t ns, deadline, now;
	int r;

	switch (clockid) {
	case LX_CLOCK_MONOTONIC_RAW:
	case LX_CLOCK_REALTIME_COARSE:
	case LX_CLOCK_MONOTONIC_COARSE:
	case LX_CLOCK_THREAD_CPUTIME_ID: /* it would wait for itself; libcs turn this into EINVAL */
		return -EOPNOTSUPP;
	default:
		break;
	}
	r = guest_clock_read(t, clockid, &now);
	if (r)
		return r;
	if (copy_in(t, &ts, req, sizeof(ts)))
		return -EFAULT;
	if (!timespec_to_ns(&ts, &ns))
		return -EINVAL;
	if (guest_clock_is_cpu(clockid))
		return cpu_sleep(t, clockid, absolute, ns, rem);
	r = guest_clock_deadline(clockid, absolute, ns, &deadline);
	if (r)
		return r;
	if (fiber_sleep_until(deadline, WAIT_INTR) == 0)
		return 0;
	if (absolute)
		return -ERESTARTNOHAND;
	return sleep_interrupted(t, deadline, rem, sleep_again);
}

/* adjtimex(2): reading works; every change needs CAP_SYS_TIME. */
struct lx_timex {
	uint32_t modes, pad0;
	int64_t offset, freq, maxerror, esterror;
	int32_t status, pad1;
	int64_t constant, precision, tolerance;
	struct lx_timeval time;
	int64_t tick, ppsfreq, jitter;
	int32_t shift, pad2;
	int64_t stabil, jitcnt, calcnt, errcnt, stbcnt;
	int32_t tai, pad3[11];
};
_Static_assert(sizeof(struct lx_timex) == 208, "struct timex");

#define STA_UNSYNC_ 0x40
#define TIME_ERROR_ 5

static long do_adjtime(struct task *t, gaddr_t buf)
{
	struct lx_timex x;

	if (copy_in(t, &x, buf, sizeof(x)))
		return -EFAULT;
	if (x.modes & 0x8000) {
		/* adjtime(3)'s forms: a read-only query is allowed. */
		if (!(x.modes & 0x2000) || (x.modes & ~0xa001u))
			return x.modes == 0x8001 ? -EPERM : -EINVAL;
	} else if (x.modes) {
		return -EPERM;
	}
	memset(&x, 0, sizeof(x));
	x.status = STA_UNSYNC_;
	x.maxerror = 16000000;
	x.esterror = 16000000;
	x.precision = 1;
	x.tolerance = 32768000;
	x.tick = 10000;
	x.constant = 2;
	x.time = ns_to_timeval(clock_real_ns());
	if (copy_out(t, buf, &x, sizeof(x)))
		return -EFAULT;
	return TIME_ERROR_; /* the clock is not synchronised, as far as the guest can know */
}

long sys_adjtimex(struct task *t, gaddr_t buf)
{
	return do_adjtime(t, buf);
}

long sys_clock_adjtime(struct task *t, int clockid, gaddr_t tx)
{
	uint64_t ns;

	if (clockid != LX_CLOCK_REALTIME)
		return guest_clock_read(t, clockid, &ns) ? -EINVAL : -EOPNOTSUPP;
	return do_adjtime(t, tx);
}
