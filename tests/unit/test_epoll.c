/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfs/epoll.c, vfs/eventfd.c, vfs/timerfd.c, vfs/fasync.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fiber.h"
#include "tests/unit/vfs_file_env.h"
#include "vfs/epoll.h"
#include "vfs/eventfd.h"
#include "vfs/fasync.h"
#include "vfs/pipe.h"
#include "vfs/timerfd.h"

TestSuite(epoll);

static struct file *new_epoll(struct fenv *e)
{
	struct file *f = NULL;

	cr_assert_eq(epoll_create_file(e->c, 0, &f), 0);
	return f;
}

static struct file *new_event(struct fenv *e, uint32_t n)
{
	struct file *f = NULL;

	cr_assert_eq(eventfd_create(e->c, n, LX_EFD_NONBLOCK, &f), 0);
	return f;
}

static int ctl(struct fenv *e, struct file *ep, int op, int fd, struct file *f, uint32_t events)
{
	struct lx_epoll_event ev = {.events = events, .data = (uint64_t)fd};

	return epoll_ctl_file(e->c, ep, op, fd, f, &ev);
}

static int wait_ns(struct file *ep, struct lx_epoll_event *ev, int max, uint64_t deadline)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, ev, (size_t)max * sizeof(*ev));
	return epoll_wait_file(ep, &u, max, deadline);
}

static int now(struct file *ep, struct lx_epoll_event *ev, int max)
{
	return wait_ns(ep, ev, max, 0);
}

static uint64_t take(struct fenv *e, struct file *f)
{
	uint64_t n = 0;

	return fenv_read(e, f, &n, sizeof(n)) == 8 ? n : 0;
}

Test(epoll, control_errors)
{
	struct file *ep, *ev, *reg;
	struct fenv e;

	fenv_up(&e);
	cr_expect_eq(epoll_create_file(e.c, 1, &ep), -EINVAL);
	ep = new_epoll(&e);
	ev = new_event(&e, 0);
	reg = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 3, reg, LX_POLLIN), -EPERM);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 3, ep, LX_POLLIN), -EINVAL);
	cr_expect_eq(ctl(&e, ev, LX_EPOLL_CTL_ADD, 3, ep, LX_POLLIN), -EINVAL);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_MOD, 3, ev, LX_POLLIN), -ENOENT);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_DEL, 3, ev, LX_POLLIN), -ENOENT);
	cr_expect_eq(ctl(&e, ep, 77, 3, ev, LX_POLLIN), -EINVAL);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 3, ev, LX_POLLIN), 0);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 3, ev, LX_POLLIN), -EEXIST);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 4, ev, LX_POLLIN), 0, "a dup is another one");
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_MOD, 3, ev, LX_POLLIN | LX_EPOLLEXCLUSIVE), -EINVAL);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_DEL, 3, ev, 0), 0);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 3, ev, LX_EPOLLEXCLUSIVE | LX_EPOLLONESHOT),
		     -EINVAL);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 3, ev, LX_EPOLLEXCLUSIVE | LX_POLLIN), 0);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_MOD, 3, ev, LX_POLLIN), -EINVAL);

	struct lx_epoll_event out[1];

	cr_expect_eq(wait_ns(ep, out, 0, 0), -EINVAL);
	cr_expect_eq(wait_ns(ep, out, -1, 0), -EINVAL);
	cr_expect_eq(wait_ns(ev, out, 1, 0), -EINVAL);
	file_put(ep);
	file_put(ev);
	file_put(reg);
	fenv_down(&e);
}

Test(epoll, level_edge_oneshot)
{
	struct lx_epoll_event out[8];
	struct file *ep, *a, *b, *c;
	struct fenv e;

	fenv_up(&e);
	ep = new_epoll(&e);
	a = new_event(&e, 0);
	b = new_event(&e, 0);
	c = new_event(&e, 0);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 1, a, LX_POLLIN), 0);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 2, b, LX_POLLIN | LX_EPOLLET), 0);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 3, c, LX_POLLIN | LX_EPOLLONESHOT), 0);
	cr_expect_eq(now(ep, out, 8), 0);
	cr_expect_eq(fenv_poll(ep), 0u);
	eventfd_signal(a, 1);
	eventfd_signal(b, 1);
	eventfd_signal(c, 1);
	cr_expect_eq(fenv_poll(ep), LX_POLLIN | LX_POLLRDNORM);
	cr_expect_eq(now(ep, out, 8), 3);
	cr_expect_eq(now(ep, out, 8), 1, "only the level-triggered one is told again");
	cr_expect_eq(out[0].data, 1u);
	cr_expect_eq(out[0].events, LX_POLLIN);
	eventfd_signal(b, 1);
	eventfd_signal(c, 1);
	cr_expect_eq(now(ep, out, 8), 2, "one edge per wake-up; a one-shot is spent");
	cr_expect_eq(take(&e, a), 1u);
	cr_expect_eq(now(ep, out, 8), 0);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_MOD, 3, c, LX_POLLIN | LX_EPOLLONESHOT), 0);
	cr_expect_eq(now(ep, out, 8), 1, "armed again, and ready at once");
	cr_expect_eq(out[0].data, 3u);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_MOD, 2, b, LX_POLLIN | LX_POLLOUT | LX_EPOLLET), 0);
	cr_expect_eq(now(ep, out, 8), 1);
	cr_expect_eq(out[0].events, LX_POLLIN | LX_POLLOUT);
	file_put(a);
	file_put(b);
	file_put(c);
	file_put(ep);
	fenv_down(&e);
}

Test(epoll, max_and_turns)
{
	struct lx_epoll_event out[64];
	struct file *ep, *f[50];
	unsigned seen[50] = {0};
	struct fenv e;

	fenv_up(&e);
	ep = new_epoll(&e);
	for (int i = 0; i < 50; i++) {
		f[i] = new_event(&e, 1);
		cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, i, f[i], LX_POLLIN), 0);
	}
	for (unsigned round = 0; round < 10; round++) {
		cr_assert_eq(now(ep, out, 10), 10);
		for (unsigned i = 0; i < 10; i++)
			seen[out[i].data]++;
	}
	for (unsigned i = 0; i < 50; i++)
		cr_expect_eq(seen[i], 2, "each has its turn");
	cr_expect_eq(now(ep, out, 64), 50);
	for (int i = 0; i < 50; i += 2)
		file_put(f[i]);
	cr_expect_eq(now(ep, out, 64), 25, "closed files are gone");
	file_put(ep);
	for (int i = 1; i < 50; i += 2)
		file_put(f[i]);
	fenv_down(&e);
}

Test(epoll, faults_lose_nothing)
{
	struct file *ep, *a, *b;
	struct lx_epoll_event out[8];
	struct uio_seg seg;
	struct uio u;
	struct fenv e;

	fenv_up(&e);
	ep = new_epoll(&e);
	a = new_event(&e, 1);
	b = new_event(&e, 1);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 1, a, LX_POLLIN | LX_EPOLLET), 0);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 2, b, LX_POLLIN | LX_EPOLLONESHOT), 0);
	/* Room for one event, though two may come: as if the rest were unmapped. */
	uio_init_kernel(&u, &seg, out, sizeof(out[0]));
	cr_expect_eq(epoll_wait_file(ep, &u, 8, 0), 1);
	uio_init_kernel(&u, &seg, out, 0);
	cr_expect_eq(epoll_wait_file(ep, &u, 8, 0), -EFAULT);
	cr_expect_eq(now(ep, out, 8), 1);
	cr_expect_eq(now(ep, out, 8), 0);
	file_put(a);
	file_put(b);
	file_put(ep);
	fenv_down(&e);
}

Test(epoll, nesting)
{
	struct lx_epoll_event out[4];
	struct file *ep[7], *ev;
	struct fenv e;

	fenv_up(&e);
	for (unsigned i = 0; i < 7; i++)
		ep[i] = new_epoll(&e);
	ev = new_event(&e, 0);
	cr_expect_eq(ctl(&e, ep[0], LX_EPOLL_CTL_ADD, 9, ev, LX_POLLIN), 0);
	for (int i = 1; i < 5; i++)
		cr_expect_eq(ctl(&e, ep[i], LX_EPOLL_CTL_ADD, i, ep[i - 1], LX_POLLIN), 0);
	cr_expect_eq(ctl(&e, ep[5], LX_EPOLL_CTL_ADD, 1, ep[4], LX_POLLIN), -ELOOP, "too long");
	cr_expect_eq(ctl(&e, ep[0], LX_EPOLL_CTL_ADD, 1, ep[4], LX_POLLIN), -ELOOP, "a loop");
	cr_expect_eq(ctl(&e, ep[0], LX_EPOLL_CTL_ADD, 1, ep[5], LX_POLLIN), -ELOOP,
		     "too long below");
	cr_expect_eq(ctl(&e, ep[5], LX_EPOLL_CTL_ADD, 1, ep[3], LX_POLLIN), 0, "beside");
	cr_expect_eq(ctl(&e, ep[5], LX_EPOLL_CTL_ADD, 1, ep[6], LX_EPOLLEXCLUSIVE), -EINVAL);
	cr_expect_eq(now(ep[4], out, 4), 0);
	eventfd_signal(ev, 1);
	cr_expect_eq(now(ep[4], out, 4), 1);
	cr_expect_eq(out[0].data, 4u);
	cr_expect_eq(take(&e, ev), 1u);
	cr_expect_eq(now(ep[4], out, 4), 0, "what was ready below is not any more");
	cr_expect_eq(ctl(&e, ep[3], LX_EPOLL_CTL_DEL, 3, ep[2], 0), 0);
	cr_expect_eq(ctl(&e, ep[0], LX_EPOLL_CTL_ADD, 1, ep[4], LX_POLLIN), 0, "no loop now");
	file_put(ev);
	for (unsigned i = 0; i < 7; i++)
		file_put(ep[i]);
	fenv_down(&e);
}

struct wait_job {
	struct file *ep;
	uint64_t deadline;
	int result;
	struct lx_epoll_event out[4];
};

static void wait_job(void *arg)
{
	struct wait_job *j = arg;

	j->result = wait_ns(j->ep, j->out, 4, j->deadline);
}

Test(epoll, waiters)
{
	struct wait_job j[2] = {{.result = -1, .deadline = DEADLINE_NONE},
				{.result = -1, .deadline = DEADLINE_NONE}};
	struct file *ep, *ev;
	struct fiber *fb;
	struct fenv e;

	fenv_up(&e);
	cr_assert_eq(workers_start(2, NULL), 0);
	ep = new_epoll(&e);
	ev = new_event(&e, 0);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 1, ev, LX_POLLIN | LX_EPOLLET), 0);
	j[0].ep = j[1].ep = ep;
	fenv_go(wait_job, &j[0]);
	fenv_go(wait_job, &j[1]);
	fenv_settle();
	eventfd_signal(ev, 1);
	fenv_settle();
	cr_expect_eq((j[0].result == 1) + (j[1].result == 1), 1, "an edge goes to one");
	eventfd_signal(ev, 1);
	fenv_settle();
	cr_expect_eq(j[0].result + j[1].result, 2);

	j[0].result = -1;
	j[0].deadline = clock_mono_ns() + 20 * NSEC_PER_MSEC;
	fenv_go(wait_job, &j[0]);
	j[1].result = -1;
	fb = fenv_go(wait_job, &j[1]);
	fenv_settle();
	fiber_interrupt(fb);
	workers_stop();
	cr_expect_eq(j[0].result, 0);
	cr_expect_eq(j[1].result, -EINTR);
	file_put(ev);
	file_put(ep);
	fenv_down(&e);
}

Test(epoll, exclusive)
{
	struct wait_job j[3];
	struct file *ev;
	struct fenv e;
	int woken;

	fenv_up(&e);
	cr_assert_eq(workers_start(2, NULL), 0);
	ev = new_event(&e, 0);
	for (int i = 0; i < 3; i++) {
		j[i] = (struct wait_job){
			.ep = new_epoll(&e), .result = -1, .deadline = DEADLINE_NONE};
		cr_expect_eq(
			ctl(&e, j[i].ep, LX_EPOLL_CTL_ADD, 1, ev, LX_POLLIN | LX_EPOLLEXCLUSIVE),
			0);
		fenv_go(wait_job, &j[i]);
	}
	fenv_settle();
	eventfd_signal(ev, 1);
	fenv_settle();
	woken = (j[0].result == 1) + (j[1].result == 1) + (j[2].result == 1);
	cr_expect_eq(woken, 1, "%d instances were woken", woken);
	eventfd_signal(ev, 1);
	eventfd_signal(ev, 1);
	workers_stop();
	for (int i = 0; i < 3; i++)
		file_put(j[i].ep);
	file_put(ev);
	fenv_down(&e);
}

Test(epoll, pipe_edges)
{
	struct lx_epoll_event out[4];
	struct file *ep, *p[2];
	struct fenv e;
	char b[8];

	fenv_up(&e);
	ep = new_epoll(&e);
	cr_assert_eq(pipe_create(e.c, LX_O_NONBLOCK, &p[0], &p[1]), 0);
	cr_expect_eq(ctl(&e, ep, LX_EPOLL_CTL_ADD, 1, p[0], LX_POLLIN | LX_EPOLLET), 0);
	cr_expect_eq(fenv_write(&e, p[1], "a", 1), 1);
	cr_expect_eq(now(ep, out, 4), 1);
	cr_expect_eq(now(ep, out, 4), 0);
	cr_expect_eq(fenv_write(&e, p[1], "b", 1), 1);
	cr_expect_eq(now(ep, out, 4), 1, "each write is an edge");
	cr_expect_eq(fenv_read(&e, p[0], b, 8), 2);
	file_put(p[1]);
	cr_expect_eq(now(ep, out, 4), 1);
	cr_expect_eq(out[0].events, LX_POLLHUP);
	file_put(p[0]);
	cr_expect_eq(now(ep, out, 4), 0);
	cr_expect_null(epoll_find_target(ep, 1, 0));
	file_put(ep);
	fenv_down(&e);
}

/* ---- eventfd ---- */

struct rw_job {
	struct fenv *e;
	struct file *f;
	uint64_t v;
	ssize_t result;
};

static void read_job(void *arg)
{
	struct rw_job *j = arg;

	j->result = fenv_read(j->e, j->f, &j->v, 8);
}

static void write_job(void *arg)
{
	struct rw_job *j = arg;

	j->result = fenv_write(j->e, j->f, &j->v, 8);
}

Test(epoll, eventfd)
{
	struct file *f, *s;
	struct fenv e;
	uint64_t v = 5;

	fenv_up(&e);
	cr_assert_eq(workers_start(1, NULL), 0);
	cr_expect_eq(eventfd_create(e.c, 0, 2, &f), -EINVAL);
	cr_assert_eq(eventfd_create(e.c, 3, 0, &f), 0);
	cr_assert_eq(eventfd_create(e.c, 2, LX_EFD_SEMAPHORE | LX_EFD_NONBLOCK, &s), 0);
	cr_expect_eq(fenv_write(&e, f, &v, 8), 8);
	cr_expect_eq(fenv_read(&e, f, &v, 7), -EINVAL);
	cr_expect_eq(fenv_write(&e, f, &v, 7), -EINVAL);
	cr_expect_eq(fenv_read(&e, f, &v, 8), 8);
	cr_expect_eq(v, 8u);
	cr_expect_eq(take(&e, s), 1u);
	cr_expect_eq(take(&e, s), 1u);
	cr_expect_eq(fenv_read(&e, s, &v, 8), -EAGAIN);
	v = UINT64_MAX;
	cr_expect_eq(fenv_write(&e, f, &v, 8), -EINVAL);
	v = UINT64_MAX - 1;
	cr_expect_eq(fenv_write(&e, f, &v, 8), 8);
	cr_expect_eq(fenv_poll(f), LX_POLLIN);
	v = 1;
	cr_expect_eq(fenv_write(&e, s, &v, 8), 8);
	cr_expect_eq(fenv_poll(s), LX_POLLIN | LX_POLLOUT);

	struct rw_job w = {&e, f, 7, -1}, r = {&e, f, 0, -1};

	fenv_go(write_job, &w);
	fenv_settle();
	cr_expect_eq(w.result, -1, "full: waits");
	cr_expect_eq(take(&e, f), UINT64_MAX - 1);
	fenv_settle();
	cr_expect_eq(w.result, 8);
	cr_expect_eq(take(&e, f), 7u);
	fenv_go(read_job, &r);
	fenv_settle();
	cr_expect_eq(r.result, -1);
	eventfd_signal(f, 4);
	workers_stop();
	cr_expect_eq(r.v, 4u);
	file_put(f);
	file_put(s);
	fenv_down(&e);
}

/* ---- timerfd ---- */

static struct lx_itimerspec spec_ms(int64_t value, int64_t interval)
{
	return (struct lx_itimerspec){
		.it_value = {value / 1000, value % 1000 * 1000000},
		.it_interval = {interval / 1000, interval % 1000 * 1000000},
	};
}

Test(epoll, timerfd)
{
	struct lx_itimerspec s, old;
	struct file *f, *ev, *p;
	struct fenv e;
	uint64_t n;

	fenv_up(&e);
	cr_expect_eq(timerfd_create_file(e.c, LX_CLOCK_PROCESS_CPUTIME_ID, 0, &f), -EINVAL);
	cr_expect_eq(timerfd_create_file(e.c, LX_CLOCK_MONOTONIC, 1, &f), -EINVAL);
	cr_expect_eq(timerfd_create_file(e.user, LX_CLOCK_BOOTTIME_ALARM, 0, &f), -EPERM);
	cr_assert_eq(timerfd_create_file(e.c, LX_CLOCK_BOOTTIME_ALARM, 0, &p), 0);
	cr_assert_eq(timerfd_create_file(e.c, LX_CLOCK_MONOTONIC, LX_TFD_NONBLOCK, &f), 0);
	ev = new_event(&e, 0);
	s = spec_ms(1, 0);
	cr_expect_eq(timerfd_settime_file(ev, 0, &s, NULL), -EINVAL);
	cr_expect_eq(timerfd_settime_file(f, 8, &s, NULL), -EINVAL);
	s.it_value.tv_nsec = 1000000000;
	cr_expect_eq(timerfd_settime_file(f, 0, &s, NULL), -EINVAL);
	cr_expect_eq(fenv_read(&e, f, &n, 8), -EAGAIN);
	cr_expect_eq(fenv_write(&e, f, &n, 8), -EINVAL);
	s = spec_ms(1000000, 5000);
	cr_expect_eq(timerfd_settime_file(f, 0, &s, NULL), 0);
	cr_expect_eq(timerfd_gettime_file(f, &old), 0);
	cr_expect(old.it_value.tv_sec > 900 && old.it_value.tv_sec < 1000 &&
		  old.it_interval.tv_sec == 5);
	s = spec_ms(10, 10);
	cr_expect_eq(timerfd_settime_file(f, 0, &s, &old), 0);
	cr_expect(old.it_value.tv_sec > 900 && old.it_value.tv_sec < 1000);

	struct pollreq r = {.file = f, .events = LX_POLLIN};

	cr_expect_eq(vfs_poll_many(&r, 1, DEADLINE_NONE), 1);
	usleep(45000);
	cr_expect_eq(fenv_read(&e, f, &n, 4), -EINVAL);
	cr_expect_eq(fenv_read(&e, f, &n, 8), 8);
	cr_expect_geq(n, 4u);
	cr_expect_eq(vfs_poll_many(&r, 1, DEADLINE_NONE), 1, "the period goes on");
	/* None that could end between two reads. */
	s = spec_ms(1, 3600000);
	cr_expect_eq(timerfd_settime_file(f, 0, &s, NULL), 0);
	cr_expect_eq(vfs_poll_many(&r, 1, DEADLINE_NONE), 1);
	cr_expect_eq(fenv_read(&e, f, &n, 8), 8);
	cr_expect_eq(n, 1u);
	cr_expect_eq(fenv_read(&e, f, &n, 8), -EAGAIN);
	s = spec_ms(0, 7);
	cr_expect_eq(timerfd_settime_file(f, 0, &s, NULL), 0);
	cr_expect_eq(fenv_poll(f), 0u, "disarmed, and forgotten");

	/* Absolute, in the past, on another clock. */
	s = spec_ms(1000, 0);
	cr_expect_eq(timerfd_settime_file(p, LX_TFD_TIMER_ABSTIME, &s, NULL), 0);
	cr_expect_eq(fenv_read(&e, p, &n, 8), 8);
	cr_expect_eq(n, 1u);
	/* With a period the next keep in step with the first, 1 s after the clock's zero. */
	s = spec_ms(1000, 1000000000000);
	cr_expect_eq(timerfd_settime_file(p, LX_TFD_TIMER_ABSTIME, &s, NULL), 0);
	n = clock_boot_ns();
	cr_expect_eq(timerfd_gettime_file(p, &old), 0);
	n = seconds_to_ns(old.it_value.tv_sec, old.it_value.tv_nsec) + n;
	cr_expect(n > 1000000000 * NSEC_PER_SEC && n < 1000000100 * NSEC_PER_SEC);
	cr_expect_eq(fenv_read(&e, p, &n, 8), 8);
	cr_expect_eq(n, 1u);
	file_put(f);
	file_put(p);
	file_put(ev);
	fenv_down(&e);
}

/* ---- O_ASYNC ---- */

static _Atomic unsigned g_sigio;
static _Atomic uint32_t g_band;

static void count_sigio(struct file *f, uint32_t band)
{
	(void)f;
	atomic_store(&g_band, band);
	atomic_fetch_add(&g_sigio, 1);
}

static void wait_sigio(unsigned n)
{
	for (unsigned i = 0; i < 60000 && atomic_load(&g_sigio) < n; i++)
		usleep(1000);
}

Test(epoll, fasync)
{
	static struct vfs_hooks hooks;
	struct file *p[2];
	struct fenv e;

	fenv_up(&e);
	hooks = *g_vfs_hooks;
	hooks.send_sigio = count_sigio;
	g_vfs_hooks = &hooks;
	cr_assert_eq(pipe_create(e.c, LX_O_NONBLOCK, &p[0], &p[1]), 0);
	cr_expect_eq(fasync_set(p[0], true), 0);
	cr_expect(atomic_load(&p[0]->flags) & LX_O_ASYNC);
	cr_expect_eq(fenv_write(&e, p[1], "x", 1), 1);
	wait_sigio(1);
	cr_expect_eq(atomic_load(&g_sigio), 1u);
	cr_expect_eq(atomic_load(&g_band), LX_POLLIN | LX_POLLRDNORM);
	cr_expect_eq(fasync_set(p[0], false), 0);
	cr_expect_eq(fenv_write(&e, p[1], "x", 1), 1);
	usleep(20000);
	cr_expect_eq(atomic_load(&g_sigio), 1u);
	cr_expect_eq(fasync_set(p[0], true), 0);
	file_put(p[0]);
	file_put(p[1]);
	fenv_down(&e);
}
