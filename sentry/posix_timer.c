/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX timers: timer_create(2) and its family.
 *
 * Theory of operation: a timer has one signal entry of its own, which is pending at most once. When
 * the timer expires it queues the entry and stops; when the guest takes the signal, what expired
 * meanwhile is counted as overrun and the timer is armed for its next period. So a timer with a
 * tiny period costs no more than its signals are taken. The signal of a periodic timer that is
 * ignored is *held*: the timer stands, and when the signal is ignored no more it is queued, and
 * counts as ever (as in Linux since 6.13). CPU-time timers look again when the time can have passed
 * at the earliest (see itimer.c). Timers without signals are never armed: who asks counts.
 *
 * Deviations: a signal that is ignored by default is held, too, and heard when it gets a handler;
 * in Linux such a timer stands until it is set anew. What is pending when its timer is set or
 * deleted is pending no more; in Linux sigpending still shows it, though nobody gets it.
 *
 * Locking: tasklist guards all; callbacks run on the timer thread. A timer that is being deleted is
 * taken off the table first, then its callback is waited for, without locks.
 */
#include "sentry/answers.h"
#include "sentry/guest_time.h"
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <string.h>
#include "base/meter.h"

#define SIGEV_SIGNAL_ 0
#define SIGEV_NONE_ 1
#define SIGEV_THREAD_ 2
#define SIGEV_THREAD_ID_ 4

#define TIMERS_MAX 4096
#define CPU_LOOK_NS (4 * NSEC_PER_MSEC)
#define OVERRUN_MAX INT32_MAX

struct lx_sigevent {
	union lx_sigval value;
	int32_t signo, notify;
	int32_t tid;
	int32_t pad[11];
};
_Static_assert(sizeof(struct lx_sigevent) == 64, "struct sigevent");

struct ptimer {
	int id;
	int clockid;
	int notify;
	struct tgroup *tg;   /* borrowed: the group outlives its timers */
	struct task *target; /* SIGEV_THREAD_ID: a reference */
	struct task *owner;  /* whose CPU clock: a reference; NULL otherwise */
	struct timer timer;
	struct sigqueue sq;
	bool known;        /* its maker is through: others may find it */
	bool queued, held; /* one of them at most; then it is not armed */
	uint64_t next_ns;  /* on the timer's own clock (monotonic for wall clocks); 0: off */
	uint64_t interval_ns;
	int64_t overrun, last_overrun;
};

struct posix_timers {
	struct ptimer *slot[TIMERS_MAX];
	int next_id;
};

static bool is_cpu(const struct ptimer *p)
{
	return guest_clock_is_cpu(p->clockid);
}

static uint64_t now_of(struct ptimer *p) REQUIRES(g_kernel.tasklist)
{
	struct rusage_sum s = {0};

	if (!is_cpu(p))
		return clock_mono_ns();
	if (p->owner)
		task_cpu_locked(p->owner, &s);
	else
		tgroup_rusage_locked(p->tg, &s);
	return s.user_ns + s.sys_ns;
}

static void arm(struct ptimer *p, uint64_t now) REQUIRES(g_kernel.tasklist)
{
	if (!p->next_ns || p->notify == SIGEV_NONE_) {
		(void)timer_cancel(&p->timer);
	} else if (is_cpu(p)) {
		uint64_t left = p->next_ns > now ? p->next_ns - now : 0;

		left /= p->owner ? 1 : MAX(p->tg->live, 1u);
		timer_arm(&p->timer, clock_mono_ns() + MAX(left, CPU_LOOK_NS));
	} else {
		timer_arm(&p->timer, p->next_ns);
	}
}

/* Moves to the next period after @now; returns how many expirations that skips beyond the first. */
static int64_t advance(struct ptimer *p, uint64_t now)
{
	uint64_t n;

	if (!p->interval_ns) {
		p->next_ns = 0;
		return 0;
	}
	p->next_ns = deadline_in_phase(now, now - p->next_ns, p->interval_ns, &n);
	return (int64_t)MIN(n, (uint64_t)OVERRUN_MAX);
}

/* Nobody is to see the signal. */
static void hold_locked(struct ptimer *p) REQUIRES(g_kernel.tasklist)
{
	p->queued = false;
	p->held = p->interval_ns != 0;
	if (p->held)
		__atomic_store_n(&p->tg->timers_held,
				 p->tg->timers_held | sigbit(p->sq.info.si_signo),
				 __ATOMIC_RELAXED);
}

/* The guest takes the signal (or it is dropped). */
static void signal_taken(struct sigqueue *q, bool dropped) REQUIRES(g_kernel.tasklist)
{
	struct ptimer *p = container_of(q, struct ptimer, sq);
	uint64_t now;

	if (dropped) {
		hold_locked(p);
		return;
	}
	now = now_of(p);
	p->queued = false;
	/* What expired while it was pending, the first of those included. */
	if (p->next_ns && p->next_ns <= now)
		p->overrun += advance(p, now) + 1;
	p->last_overrun = MIN(p->overrun, (int64_t)OVERRUN_MAX);
	q->info.u.timer.overrun = (int32_t)p->last_overrun;
	p->overrun = 0;
	arm(p, now);
}

/* Queues the timer's signal; one that is ignored is held. */
static void queue_locked(struct ptimer *p) REQUIRES(g_kernel.tasklist)
{
	struct task *who = p->owner;

	if (is_cpu(p) && !p->owner && !p->target)
		who = tgroup_busy_locked(p->tg);
	p->held = false;
	p->queued = signal_queue_prealloc_locked(p->tg, p->target, who, &p->sq);
	if (p->queued)
		return;
	hold_locked(p);
	if (p->held)
		answers_mark_held_locked(p->tg, p->sq.info.si_signo);
}

void posix_timers_heard_locked(struct tgroup *tg, int sig)
{
	struct posix_timers *ts = tg->timers;

	__atomic_store_n(&tg->timers_held, tg->timers_held & ~sigbit(sig), __ATOMIC_RELAXED);
	for (int i = 0; ts && i < TIMERS_MAX; i++)
		if (ts->slot[i] && ts->slot[i]->held && ts->slot[i]->sq.info.si_signo == sig)
			queue_locked(ts->slot[i]);
}

static void expired_locked(struct ptimer *p) REQUIRES(g_kernel.tasklist)
{
	uint64_t now = now_of(p);

	if (!p->next_ns)
		return;
	if (p->next_ns > now) {
		arm(p, now);
		return;
	}
	if (p->queued || p->held)
		return; /* signal_taken counts */
	/* This expiration is the one that the signal stands for: the period goes on from the next.
	 */
	p->next_ns = p->interval_ns ? deadline_after(p->next_ns, p->interval_ns) : 0;
	queue_locked(p);
}

static void ptimer_fired(struct timer *tm)
{
	struct ptimer *p = container_of(tm, struct ptimer, timer);

	mutex_lock(&g_kernel.tasklist);
	expired_locked(p);
	mutex_unlock(&g_kernel.tasklist);
}

/* Nothing of it is to come. */
static void stop_locked(struct ptimer *p) REQUIRES(g_kernel.tasklist)
{
	p->next_ns = 0;
	if (p->queued)
		signal_unqueue_prealloc_locked(p->tg, p->target, &p->sq);
	p->queued = p->held = false;
}

static struct ptimer *find_locked(struct task *t, int id) REQUIRES(g_kernel.tasklist)
{
	struct posix_timers *ts = t->tg->timers;
	struct ptimer *p = ts && id >= 0 && id < TIMERS_MAX ? ts->slot[id] : NULL;

	return p && p->known ? p : NULL;
}

/* Takes @p off its group; free it with ptimer_free after tasklist is dropped. */
static void unhook_locked(struct ptimer *p) REQUIRES(g_kernel.tasklist)
{
	p->tg->timers->slot[p->id] = NULL;
	stop_locked(p);
}

static void ptimer_free(struct ptimer *p)
{
	timer_cancel_sync(&p->timer);
	task_put(p->target);
	task_put(p->owner);
	mem_free(p);
	meter_uncharge(METER_timers, 1);
}

void posix_timers_exec(struct tgroup *tg)
{
	struct posix_timers *ts = tg->timers;

	if (!ts)
		return;
	for (int i = 0; i < TIMERS_MAX; i++) {
		struct ptimer *p;

		mutex_lock(&g_kernel.tasklist);
		p = ts->slot[i];
		if (p)
			unhook_locked(p);
		mutex_unlock(&g_kernel.tasklist);
		if (p)
			ptimer_free(p);
	}
	mutex_lock(&g_kernel.tasklist);
	tg->timers = NULL;
	__atomic_store_n(&tg->timers_held, 0, __ATOMIC_RELAXED);
	mutex_unlock(&g_kernel.tasklist);
	mem_free(ts);
}

void tgroup_timers_exit(struct tgroup *tg)
{
	cpu_timers_exit(tg);
	posix_timers_exec(tg);
}

static int check_event(struct task *t, const struct lx_sigevent *ev, struct task **target)
{
	*target = NULL;
	switch (ev->notify) {
	case SIGEV_NONE_:
		return 0;
	case SIGEV_SIGNAL_:
	case SIGEV_THREAD_:
		break;
	case SIGEV_THREAD_ID_:
		*target = task_find(ev->tid);
		if (!*target || (*target)->tg != t->tg) {
			task_put(*target);
			return -EINVAL;
		}
		break;
	default:
		return -EINVAL;
	}
	if (ev->signo <= 0 || ev->signo > LX_NSIG) {
		task_put(*target);
		return -EINVAL;
	}
	return 0;
}

static int check_clock(struct task *t, int clockid)
{
	uint64_t ns;
	int r;

	/* They exist, but there is no hardware to wake up: timer_create(2). */
	if (clockid == LX_CLOCK_REALTIME_ALARM || clockid == LX_CLOCK_BOOTTIME_ALARM)
		return -EOPNOTSUPP;
	r = guest_clock_read(t, clockid, &ns);
	if (r)
		return r;
	if (clockid == LX_CLOCK_MONOTONIC_RAW || clockid == LX_CLOCK_REALTIME_COARSE ||
	    clockid == LX_CLOCK_MONOTONIC_COARSE)
		return -EOPNOTSUPP;
	return 0;
}

/* A free slot, ids being given out in turn. */
static int hook_locked(struct posix_timers *ts, struct ptimer *p)
{
	for (int n = 0; n < TIMERS_MAX; n++) {
		int id = (ts->next_id + n) % TIMERS_MAX;

		if (ts->slot[id])
			continue;
		ts->next_id = (id + 1) % TIMERS_MAX;
		p->id = id;
		ts->slot[id] = p;
		return 0;
	}
	return -EAGAIN;
}

long sys_timer_create(struct task *t, int clockid, gaddr_t sevp, gaddr_t timerid)
{
	struct lx_sigevent ev = {.notify = SIGEV_SIGNAL_, .signo = LX_SIGALRM};
	struct posix_timers *fresh = NULL;
	struct task *target;
	struct ptimer *p;
	int r;

	if (sevp.a && copy_in(t, &ev, sevp, sizeof(ev)))
		return -EFAULT;
	r = check_clock(t, clockid);
	if (r)
		return r;
	r = check_event(t, &ev, &target);
	if (r)
		return r;
	if (!meter_charge(METER_timers, 1)) {
		task_put(target);
		return -EAGAIN;
	}
	p = mem_zalloc(sizeof(*p));
	if (!t->tg->timers)
		fresh = mem_zalloc(sizeof(*fresh));
	if (!p) {
		meter_uncharge(METER_timers, 1);
		task_put(target);
		mem_free(fresh);
		return -ENOMEM;
	}
	p->clockid = clockid;
	p->notify = ev.notify;
	p->tg = t->tg;
	p->target = target;
	if (clockid == LX_CLOCK_THREAD_CPUTIME_ID || (clockid < 0 && (clockid & 4)))
		p->owner = task_get(t);
	timer_init(&p->timer, ptimer_fired);
	p->sq.preallocated = true;
	p->sq.taken = signal_taken;
	p->sq.info.si_signo = ev.signo;
	p->sq.info.si_code = LX_SI_TIMER;
	p->sq.info.u.timer.value = ev.value;

	mutex_lock(&g_kernel.tasklist);
	struct posix_timers *ts = t->tg->timers;

	if (!ts) {
		ts = t->tg->timers = fresh;
		fresh = NULL;
	}
	r = ts ? hook_locked(ts, p) : -ENOMEM;
	if (r == 0) {
		p->sq.info.u.timer.tid = p->id;
		if (!sevp.a)
			p->sq.info.u.timer.value.sival_int = p->id;
	}
	mutex_unlock(&g_kernel.tasklist);
	mem_free(fresh);
	if (r == 0) {
		/* Another thread may guess the number, but nobody finds it yet. */
		if (copy_out(t, timerid, &p->id, sizeof(p->id)))
			r = -EFAULT;
		mutex_lock(&g_kernel.tasklist);
		p->known = r == 0;
		if (r)
			unhook_locked(p);
		mutex_unlock(&g_kernel.tasklist);
	}
	if (r)
		ptimer_free(p);
	return r;
}

static void read_locked(struct ptimer *p, struct lx_itimerspec *out) REQUIRES(g_kernel.tasklist)
{
	uint64_t now = now_of(p), left = 0;

	if (p->next_ns) {
		if (p->next_ns <= now && p->interval_ns &&
		    (p->queued || p->held || p->notify == SIGEV_NONE_))
			left = p->interval_ns - (now - p->next_ns) % p->interval_ns;
		else
			left = p->next_ns > now ? p->next_ns - now : 1;
		if (p->notify == SIGEV_NONE_ && !p->interval_ns && p->next_ns <= now)
			left = 0;
	}
	out->it_value = ns_to_timespec(left);
	out->it_interval = ns_to_timespec(p->interval_ns);
}

long sys_timer_gettime(struct task *t, int id, gaddr_t value)
{
	struct lx_itimerspec v;
	struct ptimer *p;

	mutex_lock(&g_kernel.tasklist);
	p = find_locked(t, id);
	if (p)
		read_locked(p, &v);
	mutex_unlock(&g_kernel.tasklist);
	return p ? copy_out(t, value, &v, sizeof(v)) : -EINVAL;
}

/* Starts a wall or monotonic clock's timer, which is off. A first time that is past expires here;
 * what should have expired since then counts as overrun. */
static void start_wall(struct ptimer *p, uint64_t value, bool absolute) REQUIRES(g_kernel.tasklist)
{
	uint64_t there = 0, now = 0, more = 0;

	(void)!guest_clock_with_mono(p->clockid, &there, &now);
	if (!absolute || value > there) {
		p->next_ns = deadline_after(now, absolute ? value - there : value);
		arm(p, now);
		return;
	}
	if (p->interval_ns)
		p->next_ns = deadline_in_phase(now, there - value, p->interval_ns, &more);
	if (p->notify == SIGEV_NONE_)
		return;
	p->overrun = (int64_t)MIN(more, (uint64_t)OVERRUN_MAX);
	queue_locked(p);
}

/* Starts @p anew, or leaves it off for a @value of 0. */
static void start_locked(struct ptimer *p, uint64_t value, uint64_t interval, bool absolute)
	REQUIRES(g_kernel.tasklist)
{
	uint64_t now = now_of(p);

	stop_locked(p);
	p->overrun = p->last_overrun = 0;
	p->interval_ns = value ? interval : 0;
	(void)timer_cancel(&p->timer);
	if (value && !is_cpu(p)) {
		start_wall(p, value, absolute);
	} else if (value) {
		p->next_ns = absolute ? value : deadline_after(now, value);
		arm(p, now);
	}
}

long sys_timer_settime(struct task *t, int id, int flags, gaddr_t new_value, gaddr_t old_value)
{
	struct lx_itimerspec v, old;
	uint64_t value, interval;
	struct ptimer *p;

	if (!new_value.a)
		return -EINVAL;
	if (copy_in(t, &v, new_value, sizeof(v)))
		return -EFAULT;
	if (!timespec_to_ns(&v.it_value, &value) || !timespec_to_ns(&v.it_interval, &interval))
		return -EINVAL;
	mutex_lock(&g_kernel.tasklist);
	p = find_locked(t, id);
	if (!p) {
		mutex_unlock(&g_kernel.tasklist);
		return -EINVAL;
	}
	read_locked(p, &old);
	start_locked(p, value, interval, flags & LX_TIMER_ABSTIME);
	mutex_unlock(&g_kernel.tasklist);
	if (old_value.a && copy_out(t, old_value, &old, sizeof(old)))
		return -EFAULT;
	return 0;
}

long sys_timer_getoverrun(struct task *t, int id)
{
	struct ptimer *p;
	long r = -EINVAL;

	mutex_lock(&g_kernel.tasklist);
	p = find_locked(t, id);
	if (p)
		r = p->last_overrun;
	mutex_unlock(&g_kernel.tasklist);
	return r;
}

long sys_timer_delete(struct task *t, int id)
{
	struct ptimer *p;

	mutex_lock(&g_kernel.tasklist);
	p = find_locked(t, id);
	if (p)
		unhook_locked(p);
	mutex_unlock(&g_kernel.tasklist);
	if (!p)
		return -EINVAL;
	ptimer_free(p);
	return 0;
}
