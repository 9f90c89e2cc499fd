/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interval timers: ITIMER_REAL on the monotonic clock, ITIMER_VIRTUAL and ITIMER_PROF on CPU time;
 * alarm(2); and the CPU time limit.
 *
 * Theory of operation: CPU time has no event of its own. A CPU timer arms a monotonic timer for the
 * earliest moment at which its threads together can have used what is left, and looks again then;
 * so it costs nothing while the process sleeps but a look now and then, and is never early. Who of
 * the threads is told goes by what each has used (tgroup_busy_locked).
 *
 * Locking: all of a group's timers are guarded by tasklist. Callbacks run on the timer thread.
 *
 * References: setitimer(2), alarm(2), getrlimit(2) RLIMIT_CPU.
 */
#include "sentry/guest_time.h"
#include "sentry/process.h"
#include "sentry/summary.h"
#include "sentry/syscall.h"

#include <errno.h>

#define ITIMER_REAL_ 0
#define ITIMER_VIRTUAL_ 1
#define ITIMER_PROF_ 2
/* How soon at the earliest a CPU timer looks again. */
#define CPU_LOOK_NS (4 * NSEC_PER_MSEC)

struct cpu_timer {
	uint64_t next_ns; /* of the CPU clock; 0: off */
	uint64_t interval_ns;
};

struct cpu_timers {
	struct tgroup *tg;
	struct timer look;
	struct cpu_timer virt, prof;
	uint64_t limit_next_ns;       /* the next SIGXCPU; 0: no limit */
	uint64_t seen_ns, seen_at_ns; /* the CPU time at the last look, and when that was */
};

static uint64_t skip_periods(uint64_t next, uint64_t interval, uint64_t now)
{
	if (next + interval > now)
		return deadline_after(next, interval);
	return next + ((now - next) / interval + 1) * interval;
}

static void real_fired(struct timer *tm)
{
	struct tgroup *tg = container_of(tm, struct tgroup, itimer_real);
	struct lx_siginfo info;

	mutex_lock(&g_kernel.tasklist);
	uint64_t now = clock_mono_ns();

	if (tg->itimer_next_ns && now >= tg->itimer_next_ns) {
		siginfo_kernel(&info, LX_SIGALRM);
		(void)signal_send_group_locked(tg, &info);
		if (tg->itimer_real_interval_ns) {
			tg->itimer_next_ns =
				skip_periods(tg->itimer_next_ns, tg->itimer_real_interval_ns, now);
			timer_arm(tm, tg->itimer_next_ns);
		} else {
			tg->itimer_next_ns = 0;
		}
	}
	mutex_unlock(&g_kernel.tasklist);
}

void itimer_init(struct tgroup *tg)
{
	timer_init(&tg->itimer_real, real_fired);
}

/* Under tasklist: the group's CPU time. */
static void cpu_now_locked(struct tgroup *tg, uint64_t *user, uint64_t *all)
	REQUIRES(g_kernel.tasklist)
{
	struct rusage_sum s;

	tgroup_rusage_locked(tg, &s);
	*user = s.user_ns;
	*all = s.user_ns + s.sys_ns;
}

/* Fires what is due on one CPU timer, and tells @who; returns how much CPU time is left until it is
 * due again. */
static uint64_t run_cpu_timer(struct cpu_timers *c, struct cpu_timer *k, uint64_t now, int sig,
			      struct task *who) REQUIRES(g_kernel.tasklist)
{
	struct lx_siginfo info;

	if (!k->next_ns)
		return UINT64_MAX;
	if (now >= k->next_ns) {
		siginfo_kernel(&info, sig);
		(void)signal_send_group_to_locked(c->tg, who, &info);
		k->next_ns = k->interval_ns ? skip_periods(k->next_ns, k->interval_ns, now) : 0;
	}
	return k->next_ns ? k->next_ns - now : UINT64_MAX;
}

static uint64_t run_cpu_limit(struct cpu_timers *c, uint64_t now, struct task *who)
	REQUIRES(g_kernel.tasklist)
{
	struct lx_rlimit64 lim;
	struct lx_siginfo info;

	mutex_lock(&c->tg->rlim_lock);
	lim = c->tg->rlim[LX_RLIMIT_CPU];
	mutex_unlock(&c->tg->rlim_lock);
	if (!c->limit_next_ns)
		return UINT64_MAX;
	if (lim.max != LX_RLIM_INFINITY && now / NSEC_PER_SEC >= lim.max) {
		siginfo_kernel(&info, LX_SIGKILL);
		(void)signal_send_group_locked(c->tg, &info);
		summary_cpu_limit(lim.max);
		c->limit_next_ns = 0;
		return UINT64_MAX;
	}
	if (now >= c->limit_next_ns) {
		siginfo_kernel(&info, LX_SIGXCPU);
		(void)signal_send_group_to_locked(c->tg, who, &info);
		c->limit_next_ns =
			(now / NSEC_PER_SEC + 1) * NSEC_PER_SEC; /* once a second from then on */
	}
	return c->limit_next_ns - now;
}

static bool is_due(uint64_t next_ns, uint64_t now)
{
	return next_ns && now >= next_ns;
}

static void cpu_look_locked(struct cpu_timers *c) REQUIRES(g_kernel.tasklist)
{
	struct task *who = NULL;
	uint64_t user, all, left;

	cpu_now_locked(c->tg, &user, &all);
	/* Of who is dead already the host tells nothing. */
	if (all >= c->seen_ns) {
		c->seen_ns = all;
		c->seen_at_ns = clock_mono_ns();
	}
	if (is_due(c->virt.next_ns, user) || is_due(c->prof.next_ns, all) ||
	    is_due(c->limit_next_ns, all))
		who = tgroup_busy_locked(c->tg);
	left = run_cpu_timer(c, &c->virt, user, LX_SIGVTALRM, who);
	left = MIN(left, run_cpu_timer(c, &c->prof, all, LX_SIGPROF, who));
	left = MIN(left, run_cpu_limit(c, all, who));
	if (left != UINT64_MAX && c->tg->live)
		timer_arm(&c->look,
			  clock_mono_ns() + MAX(left / MAX(c->tg->live, 1u), CPU_LOOK_NS));
}

static void cpu_look(struct timer *tm)
{
	struct cpu_timers *c = container_of(tm, struct cpu_timers, look);

	mutex_lock(&g_kernel.tasklist);
	if (c->tg->live)
		cpu_look_locked(c);
	mutex_unlock(&g_kernel.tasklist);
}

static struct cpu_timers *cpu_timers_new(struct tgroup *tg)
{
	struct cpu_timers *c = mem_zalloc(sizeof(*c));

	if (!c)
		return NULL;
	c->tg = tg;
	timer_init(&c->look, cpu_look);
	return c;
}

/* The group's, which are *@fresh (then that is taken) if it has none. NULL: there are none to
 * take, or the group has ended. */
static struct cpu_timers *cpu_timers_locked(struct tgroup *tg, struct cpu_timers **fresh)
	REQUIRES(g_kernel.tasklist)
{
	if (!tg->cpu_timers && !tg->timers_ended) {
		tg->cpu_timers = *fresh;
		*fresh = NULL;
	}
	return tg->cpu_timers;
}

/* When the first SIGXCPU is due; 0: never. */
static uint64_t limit_first_ns(struct tgroup *tg)
{
	const uint64_t soft = rlimit_get(tg, LX_RLIMIT_CPU);

	return soft >= UINT64_MAX / NSEC_PER_SEC ? 0 : MAX(soft * NSEC_PER_SEC, UINT64_C(1));
}

int cpu_limit_inherit(struct tgroup *tg)
{
	const uint64_t first_ns = limit_first_ns(tg);

	if (!first_ns)
		return 0;
	tg->cpu_timers = cpu_timers_new(tg);
	if (!tg->cpu_timers)
		return -ENOMEM;
	tg->cpu_timers->limit_next_ns = first_ns;
	return 0;
}

void cpu_limit_of_host(struct tgroup *tg)
{
	struct cpu_timers *c;
	uint64_t hard, most;

	if (!g_kernel.host_limits_cpu)
		return;
	mutex_lock(&tg->rlim_lock);
	hard = tg->rlim[LX_RLIMIT_CPU].max;
	mutex_unlock(&tg->rlim_lock);
	mutex_lock(&g_kernel.tasklist);
	c = tg->cpu_timers;
	/* What it has used the host tells no more: what it can have used. */
	most = c ? c->seen_ns + (clock_mono_ns() - c->seen_at_ns) * MAX(tg->live, 1u) : 0;
	mutex_unlock(&g_kernel.tasklist);
	/* It counts ticks, which can be a fifth more. */
	if (hard != LX_RLIM_INFINITY && most / (NSEC_PER_SEC / 4 * 3) >= hard)
		summary_cpu_limit(hard);
}

void cpu_limit_begin_locked(struct tgroup *tg)
{
	if (tg->cpu_timers)
		cpu_look_locked(tg->cpu_timers);
}

int cpu_limit_changed(struct tgroup *tg)
{
	const uint64_t first_ns = limit_first_ns(tg);
	const bool none = first_ns == 0;
	struct cpu_timers *fresh = none ? NULL : cpu_timers_new(tg), *c;
	int r = 0;

	/* The caller may be another process, and this one end just now. */
	mutex_lock(&g_kernel.tasklist);
	c = cpu_timers_locked(tg, &fresh);
	if (c) {
		c->limit_next_ns = first_ns;
		cpu_look_locked(c);
	} else if (!none && !tg->timers_ended) {
		r = -ENOMEM;
	}
	mutex_unlock(&g_kernel.tasklist);
	mem_free(fresh);
	return r;
}

void cpu_timers_exit(struct tgroup *tg)
{
	struct cpu_timers *c;

	(void)timer_cancel(&tg->itimer_real);
	mutex_lock(&g_kernel.tasklist);
	c = tg->cpu_timers;
	tg->cpu_timers = NULL;
	tg->timers_ended = true;
	tg->itimer_next_ns = 0;
	if (c) {
		c->virt.next_ns = c->prof.next_ns = c->limit_next_ns = 0;
	}
	mutex_unlock(&g_kernel.tasklist);
	timer_cancel_sync(&tg->itimer_real);
	if (c) {
		timer_cancel_sync(&c->look);
		mem_free(c);
	}
}

static void itimer_read_locked(struct tgroup *tg, int which, uint64_t *left, uint64_t *interval)
	REQUIRES(g_kernel.tasklist)
{
	struct cpu_timers *c = tg->cpu_timers;
	uint64_t user, all;

	*left = *interval = 0;
	if (which == ITIMER_REAL_) {
		uint64_t now = clock_mono_ns();

		*interval = tg->itimer_real_interval_ns;
		if (tg->itimer_next_ns)
			*left = tg->itimer_next_ns > now ? tg->itimer_next_ns - now : 1;
		return;
	}
	if (!c)
		return;
	cpu_now_locked(tg, &user, &all);
	const struct cpu_timer *k = which == ITIMER_VIRTUAL_ ? &c->virt : &c->prof;
	uint64_t now = which == ITIMER_VIRTUAL_ ? user : all;

	*interval = k->interval_ns;
	if (k->next_ns)
		*left = k->next_ns > now ? k->next_ns - now : 1;
}

static void itimer_write_locked(struct tgroup *tg, int which, uint64_t left, uint64_t interval)
	REQUIRES(g_kernel.tasklist)
{
	struct cpu_timers *c = tg->cpu_timers;
	uint64_t user, all;

	if (which == ITIMER_REAL_) {
		tg->itimer_real_interval_ns = left ? interval : 0;
		tg->itimer_next_ns = left ? deadline_after(clock_mono_ns(), left) : 0;
		if (left)
			timer_arm(&tg->itimer_real, tg->itimer_next_ns);
		else
			(void)timer_cancel(&tg->itimer_real);
		return;
	}
	cpu_now_locked(tg, &user, &all);
	(void)tgroup_busy_locked(tg); /* what ran before does not count */
	struct cpu_timer *k = which == ITIMER_VIRTUAL_ ? &c->virt : &c->prof;

	k->interval_ns = interval;
	k->next_ns = left ? deadline_after(which == ITIMER_VIRTUAL_ ? user : all, left) : 0;
	cpu_look_locked(c);
}

/* Linux's granularity is the microsecond: what is left never reads as 0 while the timer runs. */
static struct lx_timeval left_timeval(uint64_t ns)
{
	return ns_to_timeval(ns ? MAX(ns, NSEC_PER_USEC) : 0);
}

long sys_getitimer(struct task *t, int which, gaddr_t value)
{
	struct lx_itimerval v;
	uint64_t left, interval;

	if (which < ITIMER_REAL_ || which > ITIMER_PROF_)
		return -EINVAL;
	mutex_lock(&g_kernel.tasklist);
	itimer_read_locked(t->tg, which, &left, &interval);
	mutex_unlock(&g_kernel.tasklist);
	v.it_value = left_timeval(left);
	v.it_interval = ns_to_timeval(interval);
	return copy_out(t, value, &v, sizeof(v));
}

static bool timeval_ok(const struct lx_timeval *tv)
{
	return tv->tv_sec >= 0 && tv->tv_usec >= 0 && tv->tv_usec < 1000000;
}

static uint64_t timeval_ns(const struct lx_timeval *tv)
{
	return seconds_to_ns(tv->tv_sec, tv->tv_usec * (int64_t)NSEC_PER_USEC);
}

long sys_setitimer(struct task *t, int which, gaddr_t value, gaddr_t ovalue)
{
	struct lx_itimerval v = {0}, o;
	struct cpu_timers *fresh = NULL;
	uint64_t left, interval;
	int r = 0;

	if (value.a) {
		if (copy_in(t, &v, value, sizeof(v)))
			return -EFAULT;
		if (!timeval_ok(&v.it_value) || !timeval_ok(&v.it_interval))
			return -EINVAL;
	}
	if (which < ITIMER_REAL_ || which > ITIMER_PROF_)
		return -EINVAL;
	if (which != ITIMER_REAL_)
		fresh = cpu_timers_new(t->tg);
	mutex_lock(&g_kernel.tasklist);
	if (which != ITIMER_REAL_ && !cpu_timers_locked(t->tg, &fresh))
		r = -ENOMEM;
	if (r == 0) {
		itimer_read_locked(t->tg, which, &left, &interval);
		itimer_write_locked(t->tg, which, timeval_ns(&v.it_value),
				    timeval_ns(&v.it_interval));
	}
	mutex_unlock(&g_kernel.tasklist);
	mem_free(fresh);
	if (r || !ovalue.a)
		return r;
	o.it_value = left_timeval(left);
	o.it_interval = ns_to_timeval(interval);
	return copy_out(t, ovalue, &o, sizeof(o));
}

long sys_alarm(struct task *t, unsigned seconds)
{
	uint64_t left, interval;

	mutex_lock(&g_kernel.tasklist);
	itimer_read_locked(t->tg, ITIMER_REAL_, &left, &interval);
	itimer_write_locked(t->tg, ITIMER_REAL_, (uint64_t)seconds * NSEC_PER_SEC, 0);
	mutex_unlock(&g_kernel.tasklist);
	/* Rounded to the nearest second, but never down to 0 while it runs. */
	if (!left)
		return 0;
	return (long)MAX((left + NSEC_PER_SEC / 2) / NSEC_PER_SEC, 1ull);
}
