/* SPDX-License-Identifier: Apache-2.0 */

/* AF_UNIX: stream, datagram, seqpacket; names; SCM_RIGHTS and SCM_CREDENTIALS; peek, shutdown,
 * errors. */
#include "guest.h"
#include <sys/socket.h>
#include <sys/un.h>

static socklen_t named(struct sockaddr_un *un, const char *path)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	if (path[0] == '@') {
		memcpy(un->sun_path + 1, path + 1, strlen(path) - 1);
		return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	}
	strcpy(un->sun_path, path);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
}

static long do_bind(int fd, const char *path)
{
	struct sockaddr_un un;
	socklen_t n = named(&un, path);
	return bind(fd, (struct sockaddr *)&un, n);
}

static long do_connect(int fd, const char *path)
{
	struct sockaddr_un un;
	socklen_t n = named(&un, path);
	return connect(fd, (struct sockaddr *)&un, n);
}

static void print_name(const char *what, int fd, int peer)
{
	struct sockaddr_un un;
	socklen_t n = sizeof(un);
	int r;

	memset(&un, 'x', sizeof(un));
	r = peer ? getpeername(fd, (struct sockaddr *)&un, &n)
		 : getsockname(fd, (struct sockaddr *)&un, &n);
	if (r)
		printf("%s: %s\n", what, guest_errno(errno));
	else if (n <= sizeof(sa_family_t))
		printf("%s: unnamed, length %u\n", what, n);
	else
		printf("%s: '%s%.*s', length %u\n", what, un.sun_path[0] ? "" : "@",
		       (int)(n - 2 - !un.sun_path[0]), un.sun_path + !un.sun_path[0], n);
}

static int option(int fd, int name)
{
	int v = -1;
	socklen_t n = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, name, &v, &n) ? -errno : v;
}

static void creation(void)
{
	int s, pair[2];

	P("creation");
	V(socket(AF_UNIX, 77, 0));
	V(socket(AF_UNIX, SOCK_STREAM, 77));
	V(socket(999, SOCK_STREAM, 0));
	V(socket(AF_UNIX, SOCK_RAW, 0) >= 0);
	V(socket(AF_UNIX, SOCK_STREAM | 0x100, 0));
	V(socketpair(AF_UNIX, SOCK_STREAM, 0, (int *)8));
	OK(s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	V(fcntl(s, F_GETFD));
	V(option(s, SO_TYPE));
	V(option(s, SO_DOMAIN));
	V(option(s, SO_PROTOCOL));
	V(option(s, SO_ERROR));
	V(option(s, SO_ACCEPTCONN));
	V(option(s, 9999));
	V(getsockopt(s, 77, 1, &(int){0}, &(socklen_t){4}));
	V(read(s, pair, 1));
	V(write(s, pair, 1));
	V(listen(s, 1));
	V(accept(s, NULL, NULL));
	V(shutdown(s, SHUT_RD));
	V(lseek(s, 0, SEEK_SET));
	print_name("name", s, 0);
	print_name("peer", s, 1);
}

static void streams(void)
{
	int l, c, a, c2;
	char text[64];
	struct stat st;
	struct sockaddr_un un;
	socklen_t n;

	P("stream");
	l = socket(AF_UNIX, SOCK_STREAM, 0);
	c = socket(AF_UNIX, SOCK_STREAM, 0);
	V(do_connect(c, "sock"));
	guest_file("plain", "");
	V(do_connect(c, "plain"));
	V(do_bind(l, "plain"));
	V(do_bind(l, "no/dir"));
	V(do_bind(l, "sock"));
	V(do_bind(l, "again"));
	V(stat("sock", &st));
	printf("%o\n", st.st_mode);
	print_name("bound", l, 0);
	V(do_connect(c, "sock"));
	V(listen(l, 1));
	V(option(l, SO_ACCEPTCONN));
	V(do_connect(c, "sock"));
	V(do_connect(c, "sock"));
	V(write(c, "early", 5));
	n = sizeof(un);
	OK(a = accept4(l, (struct sockaddr *)&un, &n, SOCK_CLOEXEC | SOCK_NONBLOCK));
	printf("peer address length %u\n", n);
	V(fcntl(a, F_GETFL) & O_NONBLOCK);
	print_name("accepted", a, 0);
	print_name("client's peer", c, 1);
	V(recv(a, text, 3, MSG_PEEK));
	V(recv(a, text, 64, 0));
	V(recv(a, text, 64, 0));
	V(send(a, "abcdef", 6, 0));
	V(send(a, "gh", 2, 0));
	V(recv(c, text, 4, MSG_WAITALL));
	V(recv(c, text, 64, 0));
	V(send(c, "x", 1, MSG_OOB) == 1 || errno == EOPNOTSUPP);
	V(shutdown(c, SHUT_WR));
	V(send(c, "x", 1, MSG_NOSIGNAL));
	while (recv(a, text, 64, 0) > 0)
		;
	V(recv(a, text, 64, 0));
	V(send(a, "still", 5, 0));
	V(recv(c, text, 64, 0));
	V(shutdown(c, 77));
	close(c);
	V(send(a, "x", 1, MSG_NOSIGNAL));
	V(recv(a, text, 64, 0));
	close(a);
	/* Data unread at close resets. */
	c = socket(AF_UNIX, SOCK_STREAM, 0);
	do_connect(c, "sock");
	a = accept(l, NULL, NULL);
	V(write(c, "unread", 6));
	close(a);
	V(option(c, SO_ERROR));
	V(recv(c, text, 64, 0));
	V(recv(c, text, 64, 0));
	close(c);
	/* The backlog of 1 holds two. */
	fcntl(l, F_SETFL, O_NONBLOCK);
	V(accept(l, NULL, NULL));
	for (int i = 0; i < 3; i++) {
		c2 = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		printf("connect %d: %s\n", i, do_connect(c2, "sock") ? guest_errno(errno) : "ok");
	}
	V(unlink("sock"));
	c = socket(AF_UNIX, SOCK_STREAM, 0);
	V(do_connect(c, "sock"));
	close(l);
	V(do_bind(c, "@moat-test-abstract"));
	print_name("abstract", c, 0);
	V(listen(c, 5));
	c2 = socket(AF_UNIX, SOCK_STREAM, 0);
	V(do_connect(c2, "@moat-test-abstract"));
	print_name("abstract peer", c2, 1);
	l = socket(AF_UNIX, SOCK_STREAM, 0);
	V(do_bind(l, "@moat-test-abstract"));
	V(do_connect(l, "@moat-test-none"));
	un.sun_family = AF_UNIX;
	V(bind(l, (struct sockaddr *)&un, sizeof(sa_family_t)));
	n = sizeof(un);
	getsockname(l, (struct sockaddr *)&un, &n);
	printf("autobind length %u\n", n);
	un.sun_family = 77;
	V(connect(l, (struct sockaddr *)&un, sizeof(un)));
	V(connect(l, (struct sockaddr *)&un, 1));
	V(connect(l, (struct sockaddr *)&un, 1000));
	V(connect(0, (struct sockaddr *)&un, sizeof(un)));
	V(connect(999, (struct sockaddr *)&un, sizeof(un)));
	struct ucred cred;

	n = sizeof(cred);
	V(getsockopt(c2, SOL_SOCKET, SO_PEERCRED, &cred, &n));
	T(cred.pid == getpid() && cred.uid == getuid() && cred.gid == getgid());
}

static void datagrams(void)
{
	int a, b, c, pair[2];
	char text[64];
	struct sockaddr_un un;
	socklen_t n = sizeof(un);
	struct iovec v = {text, 3};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

	P("datagram");
	a = socket(AF_UNIX, SOCK_DGRAM, 0);
	b = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	V(do_bind(b, "dg"));
	V(send(a, "x", 1, 0));
	V(do_connect(a, "dg"));
	V(send(a, "first", 5, 0));
	V(send(a, "", 0, 0));
	V(send(a, "third", 5, 0));
	V(ioctl(b, FIONREAD, &c));
	printf("FIONREAD %d\n", c);
	V(recvmsg(b, &m, MSG_TRUNC));
	printf("flags %#x\n", (unsigned)m.msg_flags);
	V(recvfrom(b, text, 64, 0, (struct sockaddr *)&un, &n));
	printf("from length %u\n", n);
	V(recv(b, text, 64, 0));
	V(recv(b, text, 64, 0));
	V(do_bind(a, "dg-a"));
	V(send(a, "named", 5, 0));
	n = sizeof(un);
	V(recvfrom(b, text, 64, 0, (struct sockaddr *)&un, &n));
	printf("from %s\n", un.sun_path);
	V(sendto(b, "back", 4, 0, (struct sockaddr *)&un, n));
	V(recv(a, text, 64, 0));
	/* A connected datagram socket hears only its peer. */
	c = socket(AF_UNIX, SOCK_DGRAM, 0);
	n = named(&un, "dg-a");
	V(sendto(c, "stranger", 8, 0, (struct sockaddr *)&un, n));
	V(listen(c, 1));
	V(accept(c, NULL, NULL));
	close(b);
	V(send(a, "x", 1, 0));
	V(send(a, "x", 1, 0));
	un.sun_family = AF_UNSPEC;
	V(connect(a, (struct sockaddr *)&un, sizeof(un)));
	V(send(a, "x", 1, 0));
	V(do_connect(a, "dg"));
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	V(do_connect(s, "dg-a"));
	P("seqpacket");
	V(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	V(send(pair[0], "one", 3, 0));
	V(send(pair[0], "twotwo", 6, 0));
	V(recv(pair[1], text, 64, 0));
	V(recv(pair[1], text, 2, MSG_PEEK | MSG_TRUNC));
	V(recv(pair[1], text, 2, 0));
	V(recv(pair[1], text, 64, MSG_DONTWAIT));
	V(send(pair[0], "", 0, 0));
	close(pair[0]);
	V(recv(pair[1], text, 64, 0));
	V(recv(pair[1], text, 64, 0));
	V(send(pair[1], "x", 1, MSG_NOSIGNAL));
	struct mmsghdr mm[3];
	struct iovec mv[3] = {{(void *)(uintptr_t) "a", 1},
			      {(void *)(uintptr_t) "bb", 2},
			      {(void *)(uintptr_t) "ccc", 3}};

	V(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	memset(mm, 0, sizeof(mm));
	for (int i = 0; i < 3; i++) {
		mm[i].msg_hdr.msg_iov = &mv[i];
		mm[i].msg_hdr.msg_iovlen = 1;
	}
	V(sendmmsg(pair[0], mm, 3, 0));
	printf("%u %u %u\n", mm[0].msg_len, mm[1].msg_len, mm[2].msg_len);
	for (int i = 0; i < 3; i++)
		mv[i] = (struct iovec){text + 8 * i, 8};
	V(recvmmsg(pair[1], mm, 3, MSG_DONTWAIT, NULL));
	printf("%u %u %u\n", mm[0].msg_len, mm[1].msg_len, mm[2].msg_len);
	V(recvmmsg(pair[1], mm, 3, MSG_DONTWAIT, NULL));
	char *big = calloc(1, 1 << 20);
	V(send(pair[0], big, 1 << 20, MSG_DONTWAIT));
	int count = 0;
	while (send(pair[0], "x", 1, MSG_DONTWAIT) == 1)
		count++;
	printf("a full queue: %s, %s\n", guest_errno(errno), count > 5 ? "several" : "few");
}

static void rights(void)
{
	int pair[2], file, pipes[2], got[4];
	char control[256] __attribute__((aligned(8))), c = 'r', text[16];
	struct iovec v = {&c, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control};
	struct cmsghdr *h = (struct cmsghdr *)control;
	struct ucred cred;
	pid_t pid;

	P("SCM_RIGHTS");
	V(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	V(pipe(pipes));
	file = open("plain", O_RDWR);
	V(write(file, "0123456789", 10));
	m.msg_controllen = CMSG_SPACE(2 * sizeof(int));
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(2 * sizeof(int));
	((int *)CMSG_DATA(h))[0] = file;
	((int *)CMSG_DATA(h))[1] = pipes[1];
	V(sendmsg(pair[0], &m, 0));
	V(lseek(file, 4, SEEK_SET));
	memset(control, 0, sizeof(control));
	m.msg_controllen = sizeof(control);
	V(recvmsg(pair[1], &m, MSG_CMSG_CLOEXEC));
	printf("flags %#x controllen %zu type %d len %zu\n", (unsigned)m.msg_flags,
	       m.msg_controllen, h->cmsg_type, (size_t)h->cmsg_len);
	memcpy(got, CMSG_DATA(h), 2 * sizeof(int));
	V(lseek(got[0], 0, SEEK_CUR));
	V(fcntl(got[0], F_GETFD));
	V(write(got[1], "p", 1));
	V(read(pipes[0], text, 1));
	/* Without room they are dropped and closed. */
	((int *)CMSG_DATA(h))[0] = pipes[1];
	h->cmsg_len = CMSG_LEN(sizeof(int));
	m.msg_controllen = CMSG_SPACE(sizeof(int));
	V(sendmsg(pair[0], &m, 0));
	V(close(pipes[1]));
	V(close(got[1]));
	m.msg_controllen = 0;
	V(recvmsg(pair[1], &m, 0));
	printf("flags %#x\n", (unsigned)m.msg_flags);
	V(read(pipes[0], text, 1));
	/* Descriptors in flight die with the socket. */
	V(pipe(pipes));
	((int *)CMSG_DATA(h))[0] = pipes[1];
	m.msg_controllen = CMSG_SPACE(sizeof(int));
	V(sendmsg(pair[0], &m, 0));
	close(pipes[1]);
	close(pair[0]);
	close(pair[1]);
	V(read(pipes[0], text, 1));
	/* A socket sent through itself. */
	V(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	((int *)CMSG_DATA(h))[0] = pair[1];
	V(sendmsg(pair[0], &m, 0));
	V(sendmsg(pair[0], &m, 0));
	V(recvmsg(pair[1], &m, 0));
	memcpy(got, CMSG_DATA(h), sizeof(int));
	m.msg_controllen = CMSG_SPACE(sizeof(int));
	V(read(got[0], text, 5));
	((int *)CMSG_DATA(h))[0] = 999;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	V(sendmsg(pair[0], &m, 0));
	h->cmsg_len = 3;
	V(sendmsg(pair[0], &m, 0));
	h->cmsg_len = CMSG_LEN(sizeof(int));
	h->cmsg_type = 99;
	V(sendmsg(pair[0], &m, 0));
	h->cmsg_level = 77;
	V(sendmsg(pair[0], &m, 0));
	while (recv(pair[1], text, 16, MSG_DONTWAIT) > 0)
		;
	/* A byte stream stops at a message that carries descriptors. */
	V(send(pair[0], "before", 6, 0));
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	((int *)CMSG_DATA(h))[0] = file;
	V(sendmsg(pair[0], &m, 0));
	V(send(pair[0], "after", 5, 0));
	V(recv(pair[1], text, 16, 0));
	V(recv(pair[1], text, 16, 0));
	P("SCM_CREDENTIALS");
	V(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	V(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)));
	V(option(pair[1], SO_PASSCRED));
	pid = guest_fork();
	if (!pid) {
		if (write(pair[0], "x", 1) != 1)
			_exit(1);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	m.msg_controllen = sizeof(control);
	V(recvmsg(pair[1], &m, 0));
	memcpy(&cred, CMSG_DATA(h), sizeof(cred));
	printf("type %d len %zu pid %s uid %u\n", h->cmsg_type, (size_t)h->cmsg_len,
	       cred.pid == pid ? "child's" : "other", cred.uid);
	cred = (struct ucred){.pid = getpid(), .uid = getuid(), .gid = getgid()};
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_CREDENTIALS;
	h->cmsg_len = CMSG_LEN(sizeof(cred));
	memcpy(CMSG_DATA(h), &cred, sizeof(cred));
	m.msg_controllen = CMSG_SPACE(sizeof(cred));
	V(sendmsg(pair[0], &m, 0));
	pid = guest_fork();
	if (!pid) {
		V(syscall(SYS_setresuid, 1000, 1000, 1000));
		V(sendmsg(pair[0], &m, 0));
		cred.uid = 1000;
		cred.pid = getppid();
		memcpy(CMSG_DATA(h), &cred, sizeof(cred));
		V(sendmsg(pair[0], &m, 0));
		cred.pid = getpid();
		memcpy(CMSG_DATA(h), &cred, sizeof(cred));
		V(sendmsg(pair[0], &m, 0));
		_exit(0);
	}
	guest_wait("sender as another user", pid);
}

/* Of SO_RCVTIMEO and SO_SNDTIMEO ticks are kept, begun ones as whole ones. */
static void timeouts_kept(void)
{
	static const struct timeval ask[] = {
		{0, 0},        {0, 1},        {0, 4000},      {0, 4001},
		{0, 10000},    {1, 1},        {0, 999999},    {0, 1000000},
		{0, -1},       {-1, 0},       {-5, 5},        {-1, 1000000},
		{1L << 40, 1}, {1L << 54, 0}, {INT64_MAX, 0}, {INT64_MAX, 999999},
	};
	struct timeval tick, kept;
	struct timespec res;
	int pair[2];

	P("time-outs in ticks");
	V(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	V(clock_getres(CLOCK_MONOTONIC_COARSE, &res));
	tick = (struct timeval){0, res.tv_nsec / 1000};
	for (unsigned i = 0; i < sizeof(ask) / sizeof(*ask); i++) {
		int opt = i & 1 ? SO_SNDTIMEO : SO_RCVTIMEO;
		socklen_t size = sizeof(kept);
		long rest;

		printf("%ld s %ld us\n", (long)ask[i].tv_sec, (long)ask[i].tv_usec);
		V(setsockopt(pair[0], SOL_SOCKET, opt, &ask[i], sizeof(ask[i])));
		V(getsockopt(pair[0], SOL_SOCKET, opt, &kept, &size));
		rest = kept.tv_usec % tick.tv_usec;
		printf("%ld s, %s, %s\n", (long)kept.tv_sec,
		       kept.tv_usec == 0 ? "0"
		       : kept.tv_usec >= ask[i].tv_usec &&
				       kept.tv_usec < ask[i].tv_usec + tick.tv_usec
			       ? "rounded up"
			       : "something else",
		       rest ? "not in ticks" : "in ticks");
	}
	/* Less than no time is no time, not for ever. */
	V(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){-1, 0}, sizeof(tick)));
	V(recv(pair[0], &res, 1, 0));
	close(pair[0]);
	close(pair[1]);
}

static void misc(void)
{
	int pair[2];
	struct timeval tv = {0, 30000};
	char text[16];
	int64_t t0;

	P("time-outs, buffers");
	V(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	V(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	t0 = guest_now_ms();
	V(recv(pair[0], text, 1, 0));
	T(guest_now_ms() - t0 >= 29);
	V(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	char *big = calloc(1, 4 << 20);
	long n = send(pair[0], big, 4 << 20, 0);
	printf("a send that times out: %s\n", n > 0 && n < 4 << 20 ? "partial"
					      : n < 0              ? guest_errno(errno)
								   : "all");
	V(send(pair[0], big, 1, 0));
	V(send(pair[0], big, 1, MSG_DONTWAIT));
	V(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){10000}, sizeof(int)));
	V(option(pair[0], SO_SNDBUF));
	V(setsockopt(pair[0], SOL_SOCKET, SO_RCVBUF, &(int){1}, sizeof(int)));
	V(option(pair[0], SO_RCVBUF));
	V(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){1}, 1));
	V(option(pair[0], SO_REUSEADDR));
	V(setsockopt(pair[0], SOL_SOCKET, SO_KEEPALIVE, &(int){1}, 4));
	V(option(pair[0], SO_KEEPALIVE));
	close(pair[0]);
	signal(SIGPIPE, SIG_IGN);
	while (recv(pair[1], big, 4 << 20, 0) > 0)
		;
	V(send(pair[1], "x", 1, 0));
	signal(SIGPIPE, SIG_DFL);
	pid_t pid = guest_fork();
	if (!pid) {
		V(send(pair[1], "x", 1, 0));
		_exit(0);
	}
	guest_wait("sender", pid);
	V(setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &(struct { int a, b; }){1, 0}, 8));
}

/* The one extended attribute that a socket has. */
static void attributes(void)
{
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_RAW};
	char buf[64], link[64];

	P("attributes");
	for (unsigned i = 0; i < GUEST_COUNT(types); i++) {
		int s = socket(AF_UNIX, types[i], 0);

		memset(buf, 0, sizeof(buf));
		V(fgetxattr(s, "system.sockprotoname", buf, sizeof(buf)));
		puts(buf);
		V(fgetxattr(s, "system.sockprotoname", buf, 4));
		V(fgetxattr(s, "system.sockprotoname", NULL, 0));
		memset(buf, 0, sizeof(buf));
		V(flistxattr(s, buf, sizeof(buf)));
		puts(buf);
		V(flistxattr(s, buf, 4));
		V(flistxattr(s, NULL, 0));
		snprintf(link, sizeof(link), "/proc/self/fd/%d", s);
		V(getxattr(link, "system.sockprotoname", buf, sizeof(buf)));
		V(lgetxattr(link, "system.sockprotoname", buf, sizeof(buf)));
		V(fsetxattr(s, "system.sockprotoname", "x", 1, 0));
		V(fremovexattr(s, "system.sockprotoname"));
		V(fgetxattr(s, "system.sockprotonam", buf, sizeof(buf)));
		V(fgetxattr(s, "trusted.x", buf, sizeof(buf)));
		V(fgetxattr(s, "user.x", buf, sizeof(buf)));
		close(s);
	}
	V(mknod("node", S_IFSOCK | 0600, 0));
	V(getxattr("node", "system.sockprotoname", buf, sizeof(buf)));
}

int main(void)
{
	guest_begin();
	creation();
	attributes();
	streams();
	datagrams();
	rights();
	timeouts_kept();
	misc();
	return 0;
}
