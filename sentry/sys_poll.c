/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for descriptors: poll, select, epoll.
 *
 * Restarts, as in Linux: poll goes on by restart_syscall(2) with its deadline; ppoll, select and
 * pselect6 restart only if no handler ran, with what is left of the timeout written back;
 * epoll_wait never restarts. Calls that take a signal mask keep it until the signal that ended them
 * is delivered.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include "sentry/file_args.h"
#include "vfs/epoll.h"

#define LX_STICKY_TIMEOUTS 0x4000000u

struct lx_pollfd {
	int32_t fd;
	int16_t events, revents;
};
_Static_assert(sizeof(struct lx_pollfd) == ST_SIZE_pollfd, "pollfd");

/* ---- times ---- */

int timeout_to_deadline(const struct lx_timespec *ts, uint64_t *deadline_ns)
{
	uint64_t ns, now;

	if (ts->tv_sec < 0 || ts->tv_nsec < 0 || ts->tv_nsec >= (int64_t)NSEC_PER_SEC)
		return -EINVAL;
	if (ts->tv_sec == 0 && ts->tv_nsec == 0) {
		*deadline_ns = 0;
		return 0;
	}
	now = clock_mono_ns();
	/* A wait of centuries is a wait for good, but one whose rest can still be told. */
	if (__builtin_mul_overflow((uint64_t)ts->tv_sec, NSEC_PER_SEC, &ns) ||
	    __builtin_add_overflow(ns, (uint64_t)ts->tv_nsec, &ns) ||
	    __builtin_add_overflow(ns, now, &ns) || ns >= DEADLINE_NONE)
		ns = DEADLINE_NONE - 1;
	*deadline_ns = ns;
	return 0;
}

struct lx_timespec deadline_remaining(uint64_t deadline_ns)
{
	uint64_t now = clock_mono_ns(), left = deadline_ns > now ? deadline_ns - now : 0;

	return (struct lx_timespec){(int64_t)(left / NSEC_PER_SEC), (int64_t)(left % NSEC_PER_SEC)};
}

int copy_in_timeout(struct task *t, gaddr_t timeout, uint64_t *deadline_ns)
{
	struct lx_timespec ts;

	*deadline_ns = DEADLINE_NONE;
	if (!timeout.a)
		return 0;
	return copy_in(t, &ts, timeout, sizeof(ts)) < 0 ? -EFAULT
							: timeout_to_deadline(&ts, deadline_ns);
}

int take_temp_mask(struct task *t, gaddr_t set, uint64_t size)
{
	lx_sigset_t mask;
	int r;

	if (!set.a)
		return 0;
	r = copy_in_sigset(t, set, size, &mask);
	if (r == 0)
		signal_set_temp_mask(t, mask);
	return r;
}

/* In milliseconds; negative: for good. */
static uint64_t deadline_of_ms(int timeout)
{
	if (timeout < 0)
		return DEADLINE_NONE;
	if (timeout == 0)
		return 0;
	return clock_mono_ns() + (uint64_t)timeout * NSEC_PER_MSEC;
}

int copy_in_sigset(struct task *t, gaddr_t set, uint64_t size, lx_sigset_t *out)
{
	if (size != sizeof(*out))
		return -EINVAL;
	return copy_in(t, out, set, sizeof(*out));
}

/* What ends ppoll, select and pselect6. @timeout: where the rest goes, as a timespec or (@timeval)
 * a timeval; 0: nowhere. */
static long finish(struct task *t, long ret, bool masked, gaddr_t timeout, bool timeval,
		   uint64_t deadline)
{
	struct lx_timespec left;

	if (masked && ret != -ERESTARTNOHAND)
		signal_restore_temp_mask(t);
	if (!timeout.a)
		return ret;
	/* A caller whose timeout cannot be updated cannot be restarted. */
	if (!(t->personality & LX_STICKY_TIMEOUTS)) {
		if (deadline == 0)
			return ret;
		left = deadline_remaining(deadline);
		if (timeval)
			left.tv_nsec /= 1000;
		if (copy_out(t, timeout, &left, sizeof(left)) == 0)
			return ret;
	}
	return ret == -ERESTARTNOHAND ? -EINTR : ret;
}

/* ---- poll ---- */

/* The requests for descriptors of the guest; what is not open is ready with POLLNVAL. */
struct poll_set_req {
	struct lx_pollfd *fds;
	struct pollreq *reqs;
	unsigned count, bad;
};

static void poll_req_fini(struct poll_set_req *p)
{
	for (unsigned i = 0; p->reqs && i < p->count; i++)
		if (p->reqs[i].file)
			file_put(p->reqs[i].file);
	mem_free(p->reqs);
	mem_free(p->fds);
}

static int poll_req_init(struct task *t, gaddr_t fds, unsigned nfds, struct poll_set_req *p)
{
	*p = (struct poll_set_req){0};
	if (nfds > task_nofile(t))
		return -EINVAL;
	p->fds = mem_calloc(nfds ? nfds : 1, sizeof(*p->fds));
	if (!p->fds)
		return -ENOMEM;
	if (copy_in(t, p->fds, fds, nfds * sizeof(*p->fds)) < 0)
		return -EFAULT;
	p->reqs = mem_calloc(nfds ? nfds : 1, sizeof(*p->reqs));
	if (!p->reqs)
		return -ENOMEM;
	p->count = nfds;
	for (unsigned i = 0; i < nfds; i++) {
		struct lx_pollfd *fd = &p->fds[i];

		if (fd->fd < 0)
			continue;
		p->reqs[i].events = (uint16_t)fd->events;
		p->reqs[i].file = fd_get_nopath(t->files, fd->fd);
		p->bad += !p->reqs[i].file;
	}
	return 0;
}

/* Only revents is written: the rest is the guest's, and another thread may have changed it. Each
 * write is a copy of its own, and dear, so that only what differs from what the guest has there is
 * written; but one word of each page, which Linux would not leave alone if it may not be written.
 */
static int poll_copy_out(struct task *t, gaddr_t fds, const struct poll_set_req *p)
{
	uint64_t page = 0;

	for (unsigned i = 0; i < p->count; i++) {
		const struct lx_pollfd *fd = &p->fds[i];
		uint64_t at = fds.a + i * sizeof(*fd) + offsetof(struct lx_pollfd, revents);
		int16_t revents = 0;

		if (p->reqs[i].file)
			revents = (int16_t)p->reqs[i].revents;
		else if (fd->fd >= 0)
			revents = (int16_t)LX_POLLNVAL;
		if (revents == fd->revents && page == at / MOAT_PAGE_SIZE + 1)
			continue;
		if (copy_out(t, GADDR(at), &revents, sizeof(revents)) < 0)
			return -EFAULT;
		page = (at + sizeof(revents) - 1) / MOAT_PAGE_SIZE + 1;
	}
	return 0;
}

/* The number of ready descriptors, -ERESTARTSYS, or an errno. */
static long do_poll(struct task *t, gaddr_t fds, unsigned nfds, uint64_t deadline)
{
	struct poll_set_req p;
	long r = poll_req_init(t, fds, nfds, &p);
	long ready;

	if (r == 0) {
		ready = vfs_poll_many(p.reqs, p.count, p.bad ? 0 : deadline);
		r = ready < 0 ? ready : ready + (long)p.bad;
	}
	if (r >= 0 && poll_copy_out(t, fds, &p) < 0)
		r = -EFAULT;
	poll_req_fini(&p);
	return r;
}

static long poll_restart(struct task *t)
{
	struct restart_block *rb = &t->restart;
	long r = do_poll(t, GADDR(rb->arg0), (unsigned)rb->arg1, rb->deadline_ns);

	if (r == -ERESTARTSYS) {
		rb->fn = poll_restart;
		r = -ERESTART_RESTARTBLOCK;
	}
	return r;
}

long sys_poll(struct task *t, gaddr_t fds, unsigned nfds, int timeout)
{
	uint64_t deadline = deadline_of_ms(timeout);
	long r = do_poll(t, fds, nfds, deadline);

	if (r == -ERESTARTSYS) {
		t->restart = (struct restart_block){
			.fn = poll_restart, .deadline_ns = deadline, .arg0 = fds.a, .arg1 = nfds};
		r = -ERESTART_RESTARTBLOCK;
	}
	return r;
}

long sys_ppoll(struct task *t, gaddr_t fds, unsigned nfds, gaddr_t timeout, gaddr_t sigmask,
	       uint64_t sigsetsize)
{
	uint64_t deadline;
	long r = copy_in_timeout(t, timeout, &deadline);

	if (r == 0)
		r = take_temp_mask(t, sigmask, sigsetsize);
	if (r < 0)
		return r;
	r = do_poll(t, fds, nfds, deadline);
	return finish(t, r == -ERESTARTSYS ? -ERESTARTNOHAND : r, sigmask.a, timeout, false,
		      deadline);
}

/* ---- select ---- */

#define SELECT_IN \
	(LX_POLLRDNORM | LX_POLLRDBAND | LX_POLLIN | LX_POLLHUP | LX_POLLERR | LX_POLLNVAL)
#define SELECT_OUT (LX_POLLWRBAND | LX_POLLWRNORM | LX_POLLOUT | LX_POLLERR | LX_POLLNVAL)
#define SELECT_EX (LX_POLLPRI | LX_POLLNVAL)

static const uint32_t g_select_events[3] = {SELECT_IN, SELECT_OUT, SELECT_EX};

/* Three sets of @words 64-bit words each, one after the other. */
struct fdsets {
	uint64_t *in, *out;
	unsigned words, count;
	struct pollreq *reqs;
	int *fds; /* of each request */
};

static bool set_has(const uint64_t *sets, unsigned words, unsigned which, unsigned fd)
{
	return sets[which * words + fd / 64] >> (fd % 64) & 1;
}

static void fdsets_fini(struct fdsets *s)
{
	for (unsigned i = 0; i < s->count; i++)
		file_put(s->reqs[i].file);
	mem_free(s->reqs);
	mem_free(s->fds);
	mem_free(s->in);
	mem_free(s->out);
}

static int fdsets_init(struct task *t, int nfds, const gaddr_t user[3], struct fdsets *s)
{
	unsigned members = 0;

	*s = (struct fdsets){0};
	if (nfds < 0)
		return -EINVAL;
	nfds = (int)MIN((unsigned)nfds, fdtable_capacity(t->files));
	s->words = ((unsigned)nfds + 63) / 64;
	s->in = mem_calloc(3 * s->words + 1, sizeof(uint64_t));
	s->out = mem_calloc(3 * s->words + 1, sizeof(uint64_t));
	if (!s->in || !s->out)
		return -ENOMEM;
	for (unsigned which = 0; which < 3; which++)
		if (user[which].a && copy_in(t, s->in + which * s->words, user[which],
					     s->words * sizeof(uint64_t)) < 0)
			return -EFAULT;
	for (unsigned fd = 0; fd < (unsigned)nfds; fd++)
		members += set_has(s->in, s->words, 0, fd) || set_has(s->in, s->words, 1, fd) ||
			   set_has(s->in, s->words, 2, fd);
	s->reqs = mem_calloc(members + 1, sizeof(*s->reqs));
	s->fds = mem_calloc(members + 1, sizeof(*s->fds));
	if (!s->reqs || !s->fds)
		return -ENOMEM;
	for (unsigned fd = 0; fd < (unsigned)nfds; fd++) {
		uint32_t events = 0;

		for (unsigned which = 0; which < 3; which++)
			if (set_has(s->in, s->words, which, fd))
				events |= g_select_events[which];
		if (!events)
			continue;
		s->reqs[s->count].file = fd_get_nopath(t->files, (int)fd);
		if (!s->reqs[s->count].file)
			return -EBADF;
		s->reqs[s->count].events = events;
		s->reqs[s->count].exact = true;
		s->fds[s->count++] = (int)fd;
	}
	return 0;
}

/* Fills the result sets; the number of bits in them. */
static long fdsets_collect(struct fdsets *s)
{
	long bits = 0;

	for (unsigned i = 0; i < s->count; i++) {
		unsigned fd = (unsigned)s->fds[i];

		for (unsigned which = 0; which < 3; which++) {
			if (!set_has(s->in, s->words, which, fd) ||
			    !(s->reqs[i].revents & g_select_events[which]))
				continue;
			s->out[which * s->words + fd / 64] |= (uint64_t)1 << (fd % 64);
			bits++;
		}
	}
	return bits;
}

static long do_select(struct task *t, int nfds, const gaddr_t user[3], uint64_t deadline)
{
	struct fdsets s;
	long r = fdsets_init(t, nfds, user, &s);

	if (r == 0)
		r = vfs_poll_many(s.reqs, s.count, deadline);
	if (r > 0)
		r = fdsets_collect(&s);
	for (unsigned which = 0; r >= 0 && which < 3; which++)
		if (user[which].a && copy_out(t, user[which], s.out + which * s.words,
					      s.words * sizeof(uint64_t)) < 0)
			r = -EFAULT;
	fdsets_fini(&s);
	return r == -ERESTARTSYS ? -ERESTARTNOHAND : r;
}

long sys_select(struct task *t, int nfds, gaddr_t readfds, gaddr_t writefds, gaddr_t exceptfds,
		gaddr_t timeout)
{
	const gaddr_t user[3] = {readfds, writefds, exceptfds};
	uint64_t deadline = DEADLINE_NONE;
	struct lx_timespec ts;
	struct lx_timeval tv;
	int r;

	if (timeout.a) {
		if (copy_in(t, &tv, timeout, sizeof(tv)) < 0)
			return -EFAULT;
		ts.tv_nsec = tv.tv_usec % 1000000 * 1000;
		if (__builtin_add_overflow(tv.tv_sec, tv.tv_usec / 1000000, &ts.tv_sec))
			return -EINVAL;
		r = timeout_to_deadline(&ts, &deadline);
		if (r < 0)
			return r;
	}
	return finish(t, do_select(t, nfds, user, deadline), false, timeout, true, deadline);
}

long sys_pselect6(struct task *t, int nfds, gaddr_t readfds, gaddr_t writefds, gaddr_t exceptfds,
		  gaddr_t timeout, gaddr_t sigmask)
{
	const gaddr_t user[3] = {readfds, writefds, exceptfds};
	struct lx_sigset_arg arg = {0};
	uint64_t deadline;
	int r;

	if (sigmask.a && copy_in(t, &arg, sigmask, sizeof(arg)) < 0)
		return -EFAULT;
	r = copy_in_timeout(t, timeout, &deadline);
	if (r == 0)
		r = take_temp_mask(t, GADDR(arg.set), arg.size);
	if (r < 0)
		return r;
	return finish(t, do_select(t, nfds, user, deadline), arg.set, timeout, false, deadline);
}

/* ---- epoll ---- */

long sys_epoll_create(struct task *t, int size)
{
	if (size <= 0)
		return -EINVAL;
	return sys_epoll_create1(t, 0);
}

long sys_epoll_create1(struct task *t, int flags)
{
	struct file *f;
	int r = epoll_create_file(&t->vctx, (unsigned)flags, &f);

	return r < 0 ? r : task_install_file(t, f, flags & LX_EPOLL_CLOEXEC);
}

long sys_epoll_ctl(struct task *t, int epfd, int op, int fd, gaddr_t event)
{
	struct lx_epoll_event ev;
	struct file *ep, *target;
	long r;

	if (op != LX_EPOLL_CTL_DEL && copy_in(t, &ev, event, sizeof(ev)) < 0)
		return -EFAULT;
	ep = fd_get_nopath(t->files, epfd);
	if (!ep)
		return -EBADF;
	target = fd_get_nopath(t->files, fd);
	if (!target) {
		file_put(ep);
		return -EBADF;
	}
	r = epoll_ctl_file(&t->vctx, ep, op, fd, target, op == LX_EPOLL_CTL_DEL ? NULL : &ev);
	file_put(target);
	file_put(ep);
	return r;
}

static long do_epoll_wait(struct task *t, int epfd, gaddr_t events, int maxevents,
			  uint64_t deadline)
{
	struct user_iov v;
	struct file *ep;
	struct uio u;
	long r;

	ep = fd_get_nopath(t->files, epfd);
	if (!ep)
		return -EBADF;
	if (maxevents <= 0 || maxevents > LX_EP_MAX_EVENTS) {
		r = -EINVAL;
	} else {
		r = uio_from_buf(t, &u, &v, events,
				 (uint64_t)maxevents * sizeof(struct lx_epoll_event));
		if (r >= 0) {
			r = epoll_wait_file(ep, &u, maxevents, deadline);
			user_iov_free(&v);
		}
	}
	file_put(ep);
	return r;
}

static long epoll_pwait(struct task *t, int epfd, gaddr_t events, int maxevents, uint64_t deadline,
			gaddr_t sigmask, uint64_t sigsetsize)
{
	long r = take_temp_mask(t, sigmask, sigsetsize);

	if (r < 0)
		return r;
	r = do_epoll_wait(t, epfd, events, maxevents, deadline);
	if (sigmask.a && r != -EINTR)
		signal_restore_temp_mask(t);
	return r;
}

long sys_epoll_wait(struct task *t, int epfd, gaddr_t events, int maxevents, int timeout)
{
	return do_epoll_wait(t, epfd, events, maxevents, deadline_of_ms(timeout));
}

long sys_epoll_pwait(struct task *t, int epfd, gaddr_t events, int maxevents, int timeout,
		     gaddr_t sigmask, uint64_t sigsetsize)
{
	return epoll_pwait(t, epfd, events, maxevents, deadline_of_ms(timeout), sigmask,
			   sigsetsize);
}

long sys_epoll_pwait2(struct task *t, int epfd, gaddr_t events, int maxevents, gaddr_t timeout,
		      gaddr_t sigmask, uint64_t sigsetsize)
{
	uint64_t deadline;
	int r = copy_in_timeout(t, timeout, &deadline);

	if (r < 0)
		return r;
	return epoll_pwait(t, epfd, events, maxevents, deadline, sigmask, sigsetsize);
}
