/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timerfd: a timer in a descriptor.
 *
 * Theory of operation: everything is kept in monotonic time; a deadline on another clock is
 * converted when it is set, as those clocks differ from it by constants here (nobody can set the
 * sandbox's clocks, which is also why TFD_TIMER_CANCEL_ON_SET never cancels anything). The number
 * of expirations is computed from the deadline when someone looks: the host timer only wakes
 * waiters, and is armed for the next expiration.
 *
 * Locking: lock (RANK_MISC) guards the settings; taken by the timer's callback too. timer_arm is
 * called under it.
 *
 * References: timerfd_create(2).
 */
#include <errno.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/meter.h"
#include "vfs/timerfd.h"

#define READ_EVENTS (LX_POLLIN | LX_POLLRDNORM)

struct timerfd {
	struct mutex lock;
	struct timer timer;
	struct waitq wq;
	int clockid;
	int settime_flags;    /* [lock] for fdinfo */
	uint64_t next_ns;     /* [lock] the next expiration, monotonic; 0: disarmed */
	uint64_t interval_ns; /* [lock] 0: once */
	uint64_t ticks;       /* [lock] expirations not yet read, up to what was counted */
};

static const struct file_ops g_timerfd_ops;

static uint64_t clock_of(int clockid)
{
	switch (clockid) {
	case LX_CLOCK_REALTIME:
	case LX_CLOCK_REALTIME_ALARM:
		return clock_real_ns();
	case LX_CLOCK_BOOTTIME:
	case LX_CLOCK_BOOTTIME_ALARM:
		return clock_boot_ns();
	default:
		return clock_mono_ns();
	}
}

/* Counts an expiration of @late ns before now, and those since, and moves next_ns on. */
static void expire_locked(struct timerfd *t, uint64_t now, uint64_t late) REQUIRES(t->lock)
{
	uint64_t more = 0;

	t->next_ns = t->interval_ns ? deadline_in_phase(now, late, t->interval_ns, &more) : 0;
	t->ticks += more + 1;
}

/* Counts the expirations up to now. */
static void count_up_locked(struct timerfd *t, uint64_t now) REQUIRES(t->lock)
{
	if (t->next_ns && t->next_ns <= now)
		expire_locked(t, now, now - t->next_ns);
}

static void timerfd_fire(struct timer *timer)
{
	struct timerfd *t = container_of(timer, struct timerfd, timer);
	bool due;

	mutex_lock(&t->lock);
	count_up_locked(t, clock_mono_ns());
	due = t->ticks > 0;
	/* A periodic timer is armed again when somebody has read: who does not look is not woken,
	 * and the expirations meanwhile are counted from the clock. Too early (re-armed meanwhile):
	 * again. */
	if (!due && t->next_ns)
		timer_arm(&t->timer, t->next_ns);
	mutex_unlock(&t->lock);
	if (due)
		waitq_wake(&t->wq, READ_EVENTS);
}

static uint64_t take_ticks(struct timerfd *t)
{
	uint64_t n;

	mutex_lock(&t->lock);
	count_up_locked(t, clock_mono_ns());
	n = t->ticks;
	t->ticks = 0;
	if (n && t->next_ns)
		timer_arm(&t->timer, t->next_ns);
	mutex_unlock(&t->lock);
	return n;
}

static bool is_due(struct timerfd *t)
{
	bool due;

	mutex_lock(&t->lock);
	count_up_locked(t, clock_mono_ns());
	due = t->ticks > 0;
	mutex_unlock(&t->lock);
	return due;
}

static ssize_t timerfd_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct timerfd *t = f->priv;
	uint64_t n;
	ssize_t r;

	(void)pos;
	if (u->resid < sizeof(n))
		return -EINVAL;
	while ((n = take_ticks(t)) == 0) {
		if (atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_NONBLOCK)
			return -EAGAIN;

		int err = wait_event(&t->wq, is_due(t), DEADLINE_NONE, WAIT_INTR);

		if (err)
			return err;
	}
	r = uio_put(u, &n, sizeof(n));
	return r == (ssize_t)sizeof(n) ? r : -EFAULT;
}

static uint32_t timerfd_poll(struct file *f, struct poll_table *pt)
{
	struct timerfd *t = f->priv;

	poll_wait(pt, &t->wq);
	return is_due(t) ? LX_POLLIN : 0;
}

static void timerfd_free(struct timerfd *t)
{
	timer_cancel_sync(&t->timer);
	waitq_fini(&t->wq);
	mutex_fini(&t->lock);
	mem_free(t);
	meter_uncharge(METER_timers, 1);
}

static void timerfd_release(struct file *f)
{
	timerfd_free(f->priv);
}

static struct lx_timespec to_timespec(uint64_t ns)
{
	return (struct lx_timespec){.tv_sec = (int64_t)(ns / NSEC_PER_SEC),
				    .tv_nsec = (int64_t)(ns % NSEC_PER_SEC)};
}

static void get_locked(struct timerfd *t, struct lx_itimerspec *out) REQUIRES(t->lock)
{
	uint64_t now = clock_mono_ns();

	count_up_locked(t, now);
	out->it_interval = to_timespec(t->interval_ns);
	out->it_value = to_timespec(t->next_ns > now ? t->next_ns - now : 0);
	if (t->next_ns)
		timer_arm(&t->timer, t->next_ns);
}

static size_t timerfd_show_fdinfo(struct file *f, char *buf, size_t size)
{
	struct timerfd *t = f->priv;
	struct lx_itimerspec s;
	uint64_t ticks;
	int flags, n;

	mutex_lock(&t->lock);
	get_locked(t, &s);
	ticks = t->ticks;
	flags = t->settime_flags;
	mutex_unlock(&t->lock);
	n = snprintf(buf, size,
		     "clockid: %d\nticks: %lu\nsettime flags: 0%o\nit_value: (%ld, %ld)\n"
		     "it_interval: (%ld, %ld)\n",
		     t->clockid, (unsigned long)ticks, (unsigned)flags, (long)s.it_value.tv_sec,
		     (long)s.it_value.tv_nsec, (long)s.it_interval.tv_sec,
		     (long)s.it_interval.tv_nsec);
	return n < 0 ? 0 : MIN((size_t)n, size);
}

static const struct file_ops g_timerfd_ops = {
	.read = timerfd_read,
	.poll = timerfd_poll,
	.release = timerfd_release,
	.show_fdinfo = timerfd_show_fdinfo,
	.lseek = file_lseek_nowhere,
	.stream = true,
};

int timerfd_create_file(struct vfs_ctx *c, int clockid, unsigned flags, struct file **out)
{
	struct timerfd *t;

	if (flags & ~(unsigned)(LX_TFD_CLOEXEC | LX_TFD_NONBLOCK))
		return -EINVAL;
	switch (clockid) {
	case LX_CLOCK_REALTIME:
	case LX_CLOCK_MONOTONIC:
	case LX_CLOCK_BOOTTIME:
		break;
	case LX_CLOCK_REALTIME_ALARM:
	case LX_CLOCK_BOOTTIME_ALARM:
		if (!cred_capable(c->cred, LX_CAP_WAKE_ALARM))
			return -EPERM;
		break;
	default:
		return -EINVAL;
	}
	if (!meter_charge(METER_timers, 1))
		return -ENOMEM;
	t = mem_zalloc(sizeof(*t));
	if (!t) {
		meter_uncharge(METER_timers, 1);
		return -ENOMEM;
	}
	mutex_init(&t->lock, RANK_MISC);
	waitq_init(&t->wq);
	timer_init(&t->timer, timerfd_fire);
	t->clockid = clockid;
	*out = file_new_anon(c, NULL, "anon_inode:[timerfd]", &g_timerfd_ops,
			     FMODE_READ | FMODE_WRITE, LX_O_RDWR | (flags & LX_TFD_NONBLOCK), t);
	if (*out)
		return 0;
	timerfd_free(t);
	return file_new_error();
}

static bool timespec_valid(const struct lx_timespec *ts)
{
	return ts->tv_sec >= 0 && (uint64_t)ts->tv_nsec < NSEC_PER_SEC;
}

/* Saturates at what a signed count of nanoseconds holds: some 292 years. */
static uint64_t to_ns(const struct lx_timespec *ts)
{
	return seconds_to_ns(ts->tv_sec, ts->tv_nsec);
}

/* Starts for a non-zero it_value. A first time that is past is counted at once, with all that
 * followed it. */
static void start_locked(struct timerfd *t, uint64_t value, bool absolute) REQUIRES(t->lock)
{
	uint64_t there = absolute ? clock_of(t->clockid) : 0;
	uint64_t now = there && t->clockid == LX_CLOCK_MONOTONIC ? there : clock_mono_ns();

	if (value > there)
		t->next_ns = deadline_after(now, value - there);
	else
		expire_locked(t, now, there - value);
	/* The callback wakes who waits for it already. */
	timer_arm(&t->timer, t->ticks ? now : t->next_ns);
}

int timerfd_settime_file(struct file *f, int flags, const struct lx_itimerspec *value,
			 struct lx_itimerspec *old)
{
	struct timerfd *t = f->priv;
	uint64_t v;

	if ((flags & ~(LX_TFD_TIMER_ABSTIME | LX_TFD_TIMER_CANCEL_ON_SET)) ||
	    !timespec_valid(&value->it_value) || !timespec_valid(&value->it_interval))
		return -EINVAL;
	if (f->ops != &g_timerfd_ops)
		return -EINVAL;
	v = to_ns(&value->it_value);
	mutex_lock(&t->lock);
	if (old)
		get_locked(t, old);
	t->settime_flags = flags;
	t->ticks = 0;
	t->interval_ns = to_ns(&value->it_interval);
	t->next_ns = 0;
	if (v)
		start_locked(t, v, flags & LX_TFD_TIMER_ABSTIME);
	else
		timer_cancel(&t->timer);
	mutex_unlock(&t->lock);
	return 0;
}

int timerfd_gettime_file(struct file *f, struct lx_itimerspec *cur)
{
	struct timerfd *t = f->priv;

	if (f->ops != &g_timerfd_ops)
		return -EINVAL;
	mutex_lock(&t->lock);
	get_locked(t, cur);
	mutex_unlock(&t->lock);
	return 0;
}
