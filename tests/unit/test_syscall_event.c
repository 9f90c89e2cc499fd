/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Syscalls that wait and those that pass descriptors: poll, select, epoll, signalfd, pipes'
 * signals, sockets' control messages, and how they end when a signal comes. Also: every allocation
 * of a call made to fail in turn.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "base/lx_fcntl.h"
#include "base/lx_sock.h"
#include "base/lx_time.h"
#include "tests/unit/kernel_env.h"
#include "vfs/epoll.h"

#define A GUEST_DATA
#define B (GUEST_DATA + 0x1000)
#define C (GUEST_DATA + 0x3000)
#define D (GUEST_DATA + 0x5000)
#define E (GUEST_DATA + 0x7000)
#define HANDLER ((uint64_t)0x410000) /* where a signal handler is registered */

#define RUN(name) GUEST_TEST(syscall_event, name)

struct pollfd_ {
	int32_t fd;
	uint16_t events, revents;
};

static unsigned revents(struct mock_thread *mt, unsigned i)
{
	struct pollfd_ p;

	mock_load(mt, &p, C + i * sizeof(p), sizeof(p));
	return p.revents;
}

static int g_handled; /* signals that the handler saw; read by the guest only */

static int handler(struct mock_thread *mt UNUSED, void *arg UNUSED)
{
	g_handled++;
	return 0;
}

static void catch_signal(struct mock_thread *mt, int sig, uint64_t flags)
{
	const struct lx_sigaction sa = {
		.handler = HANDLER, .flags = flags | LX_SA_RESTORER, .restorer = MOCK_RESTORER};

	mock_register(HANDLER, handler, NULL);
	IS(SYS(mt, rt_sigaction, sig, put_mem(mt, E, &sa, sizeof(sa)), 0, 8), 0);
}

/* SIGALRM in @ms from now. */
static void alarm_in(struct mock_thread *mt, unsigned ms)
{
	const struct lx_itimerval it = {.it_value = {0, ms * 1000}};

	IS(SYS(mt, setitimer, 0, put_mem(mt, E, &it, sizeof(it)), 0), 0);
}

RUN(polling)
{
	const struct pollfd_ p[4] = {
		{0, LX_POLLIN, 9}, {1, LX_POLLOUT, 9}, {-5, LX_POLLIN, 9}, {77, LX_POLLIN, 9}};
	struct lx_timespec ts = {0, 0};

	IS(SYS(mt, pipe, C), 0);
	put_mem(mt, C, p, sizeof(p));
	IS(SYS(mt, poll, C, 1, 0), 0);
	IS(revents(mt, 0), 0);
	IS(SYS(mt, poll, C, 3, -1), 1);
	IS(revents(mt, 1), LX_POLLOUT);
	IS(revents(mt, 2), 0);
	IS(SYS(mt, poll, C, 4, -1), 2);
	IS(revents(mt, 3), LX_POLLNVAL);
	IS(SYS(mt, poll, C, 1, 20), 0);
	IS(SYS(mt, poll, GUEST_BAD, 1, 0), -EFAULT);
	IS(SYS(mt, poll, GUEST_BAD, 0, 0), 0);
	IS(SYS(mt, poll, C, 100000000, 0), -EINVAL);
	IS(SYS(mt, ppoll, C, 1, put_mem(mt, D, &ts, 16), 0, 0), 0);
	ts.tv_nsec = 5000000;
	IS(SYS(mt, ppoll, C, 1, put_mem(mt, D, &ts, 16), 0, 0), 0);
	IS(get_u64(mt, D) + get_u64(mt, D + 8), 0); /* nothing is left */
	ts.tv_sec = 100;
	IS(SYS(mt, ppoll, C, 2, put_mem(mt, D, &ts, 16), 0, 0), 1);
	IS(get_u64(mt, D), 100 - (get_u64(mt, D + 8) > 5000000));
	ts.tv_nsec = 1000000000;
	IS(SYS(mt, ppoll, C, 2, put_mem(mt, D, &ts, 16), 0, 0), -EINVAL);
	IS(SYS(mt, ppoll, C, 1, 0, D, 4), -EINVAL);
	IS(SYS(mt, ppoll, C, 1, 0, GUEST_BAD, 8), -EFAULT);
	return 0;
}

RUN(selecting)
{
	struct lx_timeval tv = {0, 0};

	IS(SYS(mt, pipe, C), 0);
	put_mem(mt, A, &(uint64_t){3}, 8);
	put_mem(mt, B, &(uint64_t){3}, 8);
	IS(SYS(mt, select, 2, A, B, 0, put_mem(mt, D, &tv, 16)), 1);
	IS(get_u64(mt, A), 0);
	IS(get_u64(mt, B), 2);
	IS(SYS(mt, select, -1, A, B, 0, D), -EINVAL);
	put_mem(mt, A, &(uint64_t){8}, 8);
	IS(SYS(mt, select, 4, A, 0, 0, D), -EBADF);
	IS(SYS(mt, select, 4, GUEST_BAD, 0, 0, D), -EFAULT);
	IS(SYS(mt, select, 3, A, 0, 0, D), 0); /* the bit is beyond nfds */
	IS(get_u64(mt, A), 0);
	tv.tv_usec = 2000;
	IS(SYS(mt, select, 0, 0, 0, 0, put_mem(mt, D, &tv, 16)), 0);
	tv.tv_usec = -1;
	IS(SYS(mt, select, 0, 0, 0, 0, put_mem(mt, D, &tv, 16)), -EINVAL);
	tv = (struct lx_timeval){0, 1500000}; /* more than a second of microseconds is allowed */
	put_mem(mt, B, &(uint64_t){2}, 8);
	IS(SYS(mt, select, 2, 0, B, 0, put_mem(mt, D, &tv, 16)), 1);
	IS(get_u64(mt, D), 1);
	/* A hung-up pipe is readable, but nothing for the exception set: that waits. */
	IS(SYS(mt, close, 1), 0);
	put_mem(mt, A, &(uint64_t){1}, 8);
	tv = (struct lx_timeval){0, 20000};
	IS(SYS(mt, select, 1, 0, 0, A, put_mem(mt, D, &tv, 16)), 0);
	put_mem(mt, A, &(uint64_t){1}, 8);
	IS(SYS(mt, select, 1, A, 0, 0, 0), 1);
	IS(SYS(mt, pselect6, 1, 0, 0, 0, 0, put_mem(mt, D, &(uint64_t[2]){C, 4}, 16)), -EINVAL);
	return 0;
}

RUN(interrupted)
{
	struct lx_timespec ts = {50, 0};
	uint64_t none = 0;

	IS(SYS(mt, pipe, C), 0);
	catch_signal(mt, LX_SIGALRM, LX_SA_RESTART);
	/* poll ends whatever the handler's flags say; so do select and epoll_wait. */
	put_mem(mt, C, &(struct pollfd_){0, LX_POLLIN, 0}, 8);
	alarm_in(mt, 20);
	IS(SYS(mt, poll, C, 1, -1), -EINTR);
	alarm_in(mt, 20);
	IS(SYS(mt, ppoll, C, 1, put_mem(mt, D, &ts, 16), 0, 0), -EINTR);
	cr_expect_leq(get_u64(mt, D), 49);
	alarm_in(mt, 20);
	put_mem(mt, A, &(uint64_t){1}, 8);
	IS(SYS(mt, select, 1, A, 0, 0, 0), -EINTR);
	long ep = SYS(mt, epoll_create1, 0);
	alarm_in(mt, 20);
	IS(SYS(mt, epoll_wait, ep, B, 1, -1), -EINTR);
	cr_expect_eq(g_handled, 4);
	/* A blocked signal ends it only under a mask that lets it through, and the old mask comes
	 * back. */
	put_mem(mt, B, &(uint64_t){sigbit(LX_SIGALRM)}, 8);
	IS(SYS(mt, rt_sigprocmask, 0, B, 0, 8), 0);
	alarm_in(mt, 10);
	IS(SYS(mt, poll, C, 1, 40), 0);
	cr_expect_eq(g_handled, 4);
	IS(SYS(mt, ppoll, C, 1, 0, put_mem(mt, D, &none, 8), 8), -EINTR);
	cr_expect_eq(g_handled, 5);
	IS(SYS(mt, rt_sigprocmask, 0, 0, D, 8), 0);
	IS(get_u64(mt, D), sigbit(LX_SIGALRM));
	alarm_in(mt, 10);
	IS(SYS(mt, epoll_pwait, ep, B, 1, -1, put_mem(mt, D, &none, 8), 8), -EINTR);
	IS(SYS(mt, epoll_pwait, ep, B, 1, 0, D, 8), 0);
	IS(SYS(mt, rt_sigprocmask, 0, 0, D, 8), 0);
	IS(get_u64(mt, D), sigbit(LX_SIGALRM));
	return 0;
}

RUN(epoll)
{
	struct lx_epoll_event ev = {LX_POLLIN, 0x1234};
	long ep = SYS(mt, epoll_create1, LX_O_CLOEXEC);

	IS(SYS(mt, epoll_create, 0), -EINVAL);
	IS(SYS(mt, epoll_create1, 1), -EINVAL);
	IS(SYS(mt, pipe, C), 0);
	put_mem(mt, C, &ev, sizeof(ev));
	IS(SYS(mt, epoll_ctl, ep, 1, 1, GUEST_BAD), -EFAULT);
	IS(SYS(mt, epoll_ctl, 99, 1, 1, C), -EBADF);
	IS(SYS(mt, epoll_ctl, ep, 1, 99, C), -EBADF);
	IS(SYS(mt, epoll_ctl, ep, 1, ep, C), -EINVAL);
	IS(SYS(mt, epoll_ctl, ep, 2, 1, GUEST_BAD), -ENOENT); /* DEL reads no event */
	IS(SYS(mt, epoll_ctl, ep, 1, 1, C), 0);
	IS(SYS(mt, epoll_ctl, ep, 1, 1, C), -EEXIST);
	IS(SYS(mt, epoll_wait, 99, D, 0, 0), -EBADF);
	IS(SYS(mt, epoll_wait, ep, D, 0, 0), -EINVAL);
	IS(SYS(mt, epoll_wait, ep, (uint64_t)-4096, 1, 0), -EFAULT);
	IS(SYS(mt, epoll_wait, 1, D, 1, 0), -EINVAL);
	IS(SYS(mt, write, 2, C, 1), 1);
	IS(SYS(mt, epoll_wait, ep, D, 8, -1), 1);
	IS(get_u32(mt, D), LX_POLLIN);
	IS(get_u64(mt, D + 4), 0x1234);
	IS(SYS(mt, epoll_pwait2, ep, D, 8, put_mem(mt, E, &(struct lx_timespec){0, 0}, 16), 0, 0),
	   1);
	IS(SYS(mt, epoll_wait, ep, GUEST_BAD, 8, -1), -EFAULT);
	return 0;
}

RUN(signals_by_descriptor)
{
	uint64_t set = sigbit(LX_SIGUSR1) | sigbit(LX_SIGUSR2) | sigbit(LX_SIGKILL);
	struct lx_siginfo info = {.si_signo = LX_SIGUSR1, .si_code = LX_SI_QUEUE};
	struct lx_epoll_event ev = {LX_POLLIN, 7};
	long fd, ep, pid = SYS(mt, getpid);

	put_mem(mt, A, &set, 8);
	IS(SYS(mt, rt_sigprocmask, 0, A, 0, 8), 0);
	IS(SYS(mt, signalfd4, -1, A, 4, 0), -EINVAL);
	IS(SYS(mt, signalfd4, -1, GUEST_BAD, 8, 1), -EFAULT);
	IS(SYS(mt, signalfd4, -1, A, 8, 1), -EINVAL);
	IS(SYS(mt, signalfd4, 99, A, 8, 0), -EBADF);
	fd = SYS(mt, signalfd4, -1, A, 8, LX_O_NONBLOCK | LX_O_CLOEXEC);
	IS(SYS(mt, fcntl, fd, LX_F_GETFD), 1);
	IS(SYS(mt, read, fd, B, 128), -EAGAIN);
	IS(SYS(mt, read, fd, B, 127), -EINVAL);
	IS(SYS(mt, write, fd, B, 8), -EINVAL);
	ep = SYS(mt, epoll_create1, 0);
	IS(SYS(mt, epoll_ctl, ep, 1, fd, put_mem(mt, C, &ev, sizeof(ev))), 0);
	IS(SYS(mt, epoll_wait, ep, D, 8, 0), 0);
	info.u.rt.pid = (int32_t)pid;
	info.u.rt.value.sival_int = 4711;
	IS(SYS(mt, rt_sigqueueinfo, pid, LX_SIGUSR1, put_mem(mt, C, &info, sizeof(info))), 0);
	IS(SYS(mt, kill, pid, LX_SIGUSR2), 0);
	IS(SYS(mt, epoll_wait, ep, D, 8, -1), 1);
	put_mem(mt, C, &(struct pollfd_){(int)fd, LX_POLLIN, 0}, 8);
	IS(SYS(mt, poll, C, 1, 0), 1);
	IS(SYS(mt, read, fd, B, 1000), 256); /* both */
	IS(get_u32(mt, B), LX_SIGUSR1);
	IS(get_u32(mt, B + 44), 4711); /* ssi_int */
	IS(get_u32(mt, B + 128), LX_SIGUSR2);
	IS(get_u32(mt, B + 128 + 12), pid);
	IS(SYS(mt, epoll_wait, ep, D, 8, 0), 0);
	/* A new mask: this one no more takes SIGUSR1. */
	set = sigbit(LX_SIGUSR2);
	IS(SYS(mt, signalfd4, fd, put_mem(mt, A, &set, 8), 8, 0), fd);
	IS(SYS(mt, kill, pid, LX_SIGUSR1), 0);
	IS(SYS(mt, read, fd, B, 128), -EAGAIN);
	IS(SYS(mt, signalfd, ep, A, 8), -EINVAL);
	/* Blocking, until a timer's signal comes. */
	set = sigbit(LX_SIGALRM);
	put_mem(mt, A, &set, 8);
	IS(SYS(mt, rt_sigprocmask, 0, A, 0, 8), 0);
	fd = SYS(mt, signalfd, -1, A, 8);
	alarm_in(mt, 10);
	IS(SYS(mt, read, fd, B, 128), 128);
	IS(get_u32(mt, B), LX_SIGALRM);
	IS(SYS(mt, lseek, fd, 5, 0), 0);
	return 0;
}

RUN(signals_of_writes)
{
	struct lx_rlimit64 lim = {10, 10};
	long fd;

	catch_signal(mt, LX_SIGPIPE, 0);
	catch_signal(mt, LX_SIGXFSZ, 0);
	IS(SYS(mt, pipe, C), 0);
	IS(SYS(mt, close, 0), 0);
	IS(SYS(mt, write, 1, C, 1), -EPIPE);
	cr_expect_eq(g_handled, 1);
	IS(SYS(mt, socketpair, LX_AF_UNIX, LX_SOCK_STREAM, 0, C), 0);
	IS(SYS(mt, close, 0), 0);
	IS(SYS(mt, sendto, 2, C, 1, LX_MSG_NOSIGNAL, 0, 0), -EPIPE);
	cr_expect_eq(g_handled, 1);
	IS(SYS(mt, sendto, 2, C, 1, 0, 0, 0), -EPIPE);
	cr_expect_eq(g_handled, 2);
	fd = SYS(mt, open, put_str(mt, A, "/tmp/f"), LX_O_CREAT | LX_O_RDWR, 0600);
	IS(SYS(mt, setrlimit, LX_RLIMIT_FSIZE, put_mem(mt, C, &lim, sizeof(lim))), 0);
	IS(SYS(mt, write, fd, B, 20), 10);
	cr_expect_eq(g_handled, 2);
	IS(SYS(mt, write, fd, B, 20), -EFBIG);
	cr_expect_eq(g_handled, 3);
	IS(SYS(mt, ftruncate, fd, 11), -EFBIG);
	IS(SYS(mt, truncate, A, 11), -EFBIG);
	IS(SYS(mt, fallocate, fd, 0, 0, 11), -EFBIG);
	cr_expect_eq(g_handled, 6);
	IS(SYS(mt, truncate, A, 9), 0);
	cr_expect_eq(g_handled, 6);
	return 0;
}

/* A message header at @at with one buffer and a control buffer. */
static uint64_t put_msg(struct mock_thread *mt, uint64_t at, uint64_t control, uint64_t size)
{
	const struct lx_iovec v = {B, 8};
	const struct lx_msghdr h = {.msg_iov = at + 64,
				    .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = size};

	put_mem(mt, at + 64, &v, sizeof(v));
	return put_mem(mt, at, &h, sizeof(h));
}

RUN(passing_descriptors)
{
	struct {
		struct lx_cmsghdr h;
		int32_t fd[3];
	} m = {{LX_CMSG_LEN(12), LX_SOL_SOCKET, LX_SCM_RIGHTS}, {2, 2, 3}};
	const uint64_t flags_at = C + offsetof(struct lx_msghdr, msg_flags);
	const uint64_t len_at = C + offsetof(struct lx_msghdr, msg_controllen);

	IS(SYS(mt, socketpair, LX_AF_UNIX, LX_SOCK_STREAM, 0, C), 0);
	make_file(mt, "/tmp/f", "content");
	IS(SYS(mt, open, put_str(mt, A, "/tmp/f"), LX_O_RDONLY), 2);
	IS(SYS(mt, dup, 2), 3);
	put_mem(mt, D, &m, sizeof(m));
	/* All three, close-on-exec. */
	IS(SYS(mt, sendmsg, 0, put_msg(mt, C, D, sizeof(m)), 0), 8);
	IS(SYS(mt, recvmsg, 1, put_msg(mt, C, E, 64), LX_MSG_CMSG_CLOEXEC), 8);
	IS(get_u64(mt, len_at), 32);
	IS(get_u64(mt, E), LX_CMSG_LEN(12));
	IS(get_u32(mt, E + 16), 4);
	IS(get_u32(mt, E + 24), 6);
	IS(get_u32(mt, flags_at) & LX_MSG_CTRUNC, 0);
	IS(SYS(mt, fcntl, 5, LX_F_GETFD), 1);
	IS(SYS(mt, read, 6, A, 100), 7);
	IS(SYS(mt, close_range, 4, ~0u, 0), 0);
	/* Room for one: the others are gone for good. */
	IS(SYS(mt, sendmsg, 0, put_msg(mt, C, D, sizeof(m)), 0), 8);
	IS(SYS(mt, recvmsg, 1, put_msg(mt, C, E, 20), 0), 8);
	IS(get_u64(mt, E), LX_CMSG_LEN(4));
	IS(get_u32(mt, flags_at) & LX_MSG_CTRUNC, LX_MSG_CTRUNC);
	IS(SYS(mt, fcntl, 4, LX_F_GETFD), 0);
	IS(SYS(mt, fcntl, 5, LX_F_GETFD), -EBADF);
	IS(SYS(mt, close, 4), 0);
	/* No room at all, by recvmsg and by read. */
	IS(SYS(mt, sendmsg, 0, put_msg(mt, C, D, sizeof(m)), 0), 8);
	IS(SYS(mt, recvmsg, 1, put_msg(mt, C, 0, 0), 0), 8);
	IS(get_u32(mt, flags_at) & LX_MSG_CTRUNC, LX_MSG_CTRUNC);
	IS(SYS(mt, sendmsg, 0, put_msg(mt, C, D, sizeof(m)), 0), 8);
	IS(SYS(mt, read, 1, A, 8), 8);
	IS(SYS(mt, fcntl, 4, LX_F_GETFD), -EBADF);
	/* A control buffer that cannot be written: nothing is installed. */
	IS(SYS(mt, sendmsg, 0, put_msg(mt, C, D, sizeof(m)), 0), 8);
	IS(SYS(mt, recvmsg, 1, put_msg(mt, C, GUEST_BAD, 64), 0), 8);
	IS(SYS(mt, fcntl, 4, LX_F_GETFD), -EBADF);
	/* What may not be sent. */
	m.fd[1] = 99;
	put_mem(mt, D, &m, sizeof(m));
	IS(SYS(mt, sendmsg, 0, put_msg(mt, C, D, sizeof(m)), 0), -EBADF);
	IS(SYS(mt, sendmsg, 0, put_msg(mt, C, GUEST_BAD, sizeof(m)), 0), -EFAULT);
	IS(SYS(mt, sendmsg, 0, put_msg(mt, C, D, 1 << 20), 0), -ENOBUFS);
	IS(SYS(mt, sendmsg, 0, GUEST_BAD, 0), -EFAULT);
	IS(SYS(mt, sendmsg, 2, C, 0), -ENOTSOCK);
	IS(SYS(mt, sendmsg, 0, C, 0x80000000u), -EINVAL);
	return 0;
}

RUN(sockets)
{
	const struct lx_sockaddr_un un = {LX_AF_UNIX, "/tmp/s"};
	struct {
		struct lx_mmsghdr m[2];
		struct lx_iovec v;
	} mm = {0};
	long srv, cl;

	srv = SYS(mt, socket, LX_AF_UNIX, LX_SOCK_STREAM | LX_SOCK_NONBLOCK, 0);
	put_mem(mt, A, &un, sizeof(un));
	IS(SYS(mt, bind, srv, A, -1), -EINVAL);
	IS(SYS(mt, bind, srv, A, 129), -EINVAL);
	IS(SYS(mt, bind, 99, A, -1), -EBADF);
	IS(SYS(mt, bind, srv, GUEST_BAD, 9), -EFAULT);
	IS(SYS(mt, bind, srv, A, 9), 0);
	IS(SYS(mt, listen, srv, 5), 0);
	IS(SYS(mt, accept4, srv, 0, 0, 1), -EINVAL);
	IS(SYS(mt, accept, srv, 0, 0), -EAGAIN);
	cl = SYS(mt, socket, LX_AF_UNIX, LX_SOCK_STREAM, 0);
	IS(SYS(mt, connect, cl, A, 9), 0);
	put_mem(mt, D, &(uint32_t){4}, 4);
	IS(SYS(mt, accept4, srv, B, D, LX_SOCK_CLOEXEC), 2);
	IS(get_u32(mt, D), 2); /* an unnamed peer */
	IS(SYS(mt, fcntl, 2, LX_F_GETFD), 1);
	put_mem(mt, D, &(uint32_t){4}, 4);
	IS(SYS(mt, getpeername, cl, B, D), 0);
	IS(get_u32(mt, D), 9); /* the whole length, though only 4 bytes fit */
	IS(SYS(mt, getsockname, cl, B, put_mem(mt, D, &(int32_t){-1}, 4)), -EINVAL);
	IS(SYS(mt, getsockname, cl, B, GUEST_BAD), -EFAULT);
	IS(SYS(mt, setsockopt, cl, 1, 2, A, -1), -EINVAL);
	IS(SYS(mt, getsockopt, cl, 1, LX_SO_TYPE, B, put_mem(mt, D, &(uint32_t){4}, 4)), 0);
	IS(get_u32(mt, B), LX_SOCK_STREAM);
	IS(SYS(mt, getsockopt, cl, 1, LX_SO_TYPE, B, put_mem(mt, D, &(int32_t){-1}, 4)), -EINVAL);
	/* Several messages. */
	mm.v = (struct lx_iovec){B, 3};
	for (int i = 0; i < 2; i++) {
		mm.m[i].msg_hdr.msg_iov = C + offsetof(__typeof__(mm), v);
		mm.m[i].msg_hdr.msg_iovlen = 1;
	}
	put_mem(mt, C, &mm, sizeof(mm));
	IS(SYS(mt, sendmmsg, cl, C, 2, 0), 2);
	IS(get_u32(mt, C + 64 + 56), 3);
	IS(SYS(mt, recvmmsg, 2, C, 2, LX_MSG_WAITFORONE, 0), 2);
	IS(SYS(mt, recvmmsg, 2, C, 2, LX_MSG_DONTWAIT, 0), -EAGAIN);
	IS(SYS(mt, sendmmsg, cl, GUEST_BAD, 2, 0), -EFAULT);
	IS(SYS(mt, sendmmsg, cl, C, 0, 0), 0);
	IS(SYS(mt, shutdown, cl, 5), -EINVAL);
	IS(SYS(mt, shutdown, cl, LX_SHUT_WR), 0);
	IS(SYS(mt, recvfrom, 2, B, 10, 0, 0, 0), 0);
	return 0;
}

/* One round of calls; what they return does not matter here. */
static void use_everything(struct mock_thread *mt)
{
	struct {
		struct lx_cmsghdr h;
		int32_t fd;
	} m = {{LX_CMSG_LEN(4), LX_SOL_SOCKET, LX_SCM_RIGHTS}, 0};
	struct lx_epoll_event ev = {LX_POLLIN, 1};
	long fd;

	put_str(mt, A, "/tmp/f");
	fd = SYS(mt, open, A, LX_O_CREAT | LX_O_RDWR, 0600);
	SYS(mt, write, fd, B, 100);
	SYS(mt, readv, fd, put_mem(mt, C, &(struct lx_iovec){B, 10}, 16), 1);
	SYS(mt, stat, A, C);
	SYS(mt, access, A, 4);
	SYS(mt, setxattr, A, put_str(mt, D, "user.x"), B, 5, 0);
	SYS(mt, getxattr, A, D, C, 100);
	SYS(mt, listxattr, A, C, 100);
	SYS(mt, link, A, put_str(mt, D, "/tmp/g"));
	SYS(mt, rename, A, put_str(mt, C, "/tmp/h"));
	SYS(mt, symlink, A, put_str(mt, C, "/tmp/s"));
	SYS(mt, readlink, C, E, 100);
	SYS(mt, mkdir, put_str(mt, C, "/tmp/d"), 0700);
	fd = SYS(mt, open, put_str(mt, C, "/tmp"), LX_O_DIRECTORY);
	SYS(mt, getdents64, fd, E, 1000);
	SYS(mt, getcwd, C, 100);
	SYS(mt, dup3, fd, 9, 0);
	SYS(mt, pipe, C);
	SYS(mt, poll, put_mem(mt, C, &(struct pollfd_){3, 1, 0}, 8), 1, 0);
	SYS(mt, select, 3, put_mem(mt, C, &(uint64_t){1}, 8), 0, 0,
	    put_mem(mt, D, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16));
	SYS(mt, memfd_create, put_str(mt, D, "m"), 0);
	SYS(mt, eventfd2, 1, 0);
	SYS(mt, timerfd_create, 1, 0);
	SYS(mt, inotify_init1, 0);
	fd = SYS(mt, epoll_create1, 0);
	put_mem(mt, C, &ev, sizeof(ev));
	SYS(mt, epoll_ctl, fd, 1,
	    SYS_(mt, NR_signalfd4, -1, put_mem(mt, D, &(uint64_t){1}, 8), 8, 0, 0, 0), C);
	SYS(mt, epoll_wait, fd, E, 4, 0);
	fd = SYS(mt, socketpair, LX_AF_UNIX, LX_SOCK_STREAM, 0, C) == 0 ? (long)get_u32(mt, C) : 99;
	put_mem(mt, D, &m, sizeof(m));
	SYS(mt, sendmsg, fd, put_msg(mt, C, D, sizeof(m)), LX_MSG_DONTWAIT);
	SYS(mt, recvmsg, fd + 1, put_msg(mt, C, E, 64), LX_MSG_DONTWAIT);
	SYS(mt, fcntl, 0, LX_F_SETLK, put_mem(mt, C, &(struct lx_flock){.l_type = 1}, 32));
	/* And all away again. */
	SYS(mt, close_range, 0, ~0u, 0);
	SYS(mt, unlink, put_str(mt, C, "/tmp/g"));
	SYS(mt, unlink, put_str(mt, C, "/tmp/h"));
	SYS(mt, unlink, put_str(mt, C, "/tmp/s"));
	SYS(mt, rmdir, put_str(mt, C, "/tmp/d"));
	SYS(mt, unlink, put_str(mt, C, "/tmp/f"));
}

/* The n-th allocation fails, then the n-th copy: no call may do worse than return an error.
 * Afterwards all works. */
RUN(failing_steps)
{
	/* The pages are there: a store of the guest's must not be what fails. */
	for (uint64_t at = A; at < E + 0x2000; at += 0x1000)
		put_mem(mt, at, "x", 1);
	for (int kind = 0; kind < 2; kind++) {
		for (unsigned n = 1; n < 400; n++) {
			fail_set(kind ? FAIL_COPY : FAIL_ALLOC, n);
			use_everything(mt);
		}
		fail_set(kind ? FAIL_COPY : FAIL_ALLOC, 0);
	}
	IS(SYS(mt, open, put_str(mt, A, "/tmp/last"), LX_O_CREAT | LX_O_RDWR, 0600), 0);
	IS(SYS(mt, write, 0, A, 4), 4);
	IS(SYS(mt, pipe, C), 0);
	IS(get_u32(mt, C), 1);
	return 0;
}
