/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netstack: sockets and AF_UNIX.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/fiber.h"
#include "netstack/socket.h"
#include "netstack/unix.h" /* UNIX_QUEUE_MAX */
#include "tests/unit/vfs_file_env.h"
#include "vfs/epoll.h"
#include "vfs/eventfd.h"
#include "vfs/pipe.h"
#include "vfs/splice.h"

TestSuite(unix_socket);

static void up(struct fenv *e)
{
	fenv_up(e);
	netstack_init();
}

static struct file *sock(struct fenv *e, int type)
{
	struct file *f = NULL;
	int r = sock_create(e->c, LX_AF_UNIX, type, 0, &f);

	cr_assert_eq(r, 0, "socket: %d", r);
	return f;
}

static void make_pair(struct fenv *e, int type, struct file *p[2])
{
	int r = sock_create_pair(e->c, LX_AF_UNIX, type, 0, p);

	cr_assert_eq(r, 0, "socketpair: %d", r);
}

static void put_both(struct file *p[2])
{
	file_put(p[0]);
	file_put(p[1]);
}

/* An address of @name; '@' in front means abstract. Its size. */
static size_t addr(struct lx_sockaddr_un *a, const char *name)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = LX_AF_UNIX;
	memcpy(a->sun_path, name, strlen(name));
	if (name[0] == '@') {
		a->sun_path[0] = '\0';
		return 2 + strlen(name);
	}
	return 2 + strlen(name) + 1;
}

static int do_bind(struct fenv *e, struct file *f, const char *name)
{
	struct lx_sockaddr_un a;
	size_t n = addr(&a, name);

	return sock_bind(e->c, f, &a, n);
}

static int do_connect(struct fenv *e, struct file *f, const char *name)
{
	struct lx_sockaddr_un a;
	size_t n = addr(&a, name);

	return sock_connect(e->c, f, &a, n);
}

static struct file *listener(struct fenv *e, int type, const char *name, int backlog)
{
	struct file *f = sock(e, type);

	cr_assert_eq(do_bind(e, f, name), 0);
	cr_assert_eq(sock_listen(e->c, f, backlog), 0);
	return f;
}

static ssize_t send_to(struct fenv *e, struct file *f, const void *buf, size_t size,
		       const char *name, unsigned flags)
{
	struct sock_msg m = {.flags = flags};
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, (void *)(uintptr_t)buf, size);
	m.uio = &u;
	if (name)
		m.addr.size = (uint32_t)addr((struct lx_sockaddr_un *)m.addr.bytes, name);
	return sock_sendmsg(e->c, f, &m);
}

static ssize_t recv_from(struct fenv *e, struct file *f, void *buf, size_t size, unsigned flags,
			 struct sock_msg *m)
{
	struct sock_msg local;
	struct uio_seg seg;
	struct uio u;
	ssize_t r;

	if (!m) {
		m = &local;
		memset(m, 0, sizeof(*m));
	}
	uio_init_kernel(&u, &seg, buf, size);
	m->uio = &u;
	m->flags = flags;
	r = sock_recvmsg(e->c, f, m);
	m->uio = NULL;
	if (m == &local)
		sock_msg_fini(m);
	return r;
}

static int get_int(struct fenv *e, struct file *f, int name)
{
	int32_t v = -77;
	size_t n = sizeof(v);
	int r = sock_getsockopt(e->c, f, LX_SOL_SOCKET, name, &v, &n);

	return r ? r : v;
}

static int set_int(struct fenv *e, struct file *f, int name, int32_t v)
{
	return sock_setsockopt(e->c, f, LX_SOL_SOCKET, name, &v, sizeof(v));
}

/* Sends one byte with the files. */
static ssize_t send_files(struct fenv *e, struct file *via, struct file *const *files,
			  unsigned count)
{
	struct {
		struct lx_cmsghdr h;
		int32_t fd[LX_SCM_MAX_FD + 1];
	} c = {.h = {LX_CMSG_LEN(count * 4), LX_SOL_SOCKET, LX_SCM_RIGHTS}};
	struct sock_msg m = {.control = &c, .control_size = sizeof(c.h) + count * 4};
	struct uio_seg seg;
	struct uio u;
	ssize_t r;

	for (unsigned i = 0; i < count; i++) {
		c.fd[i] = fd_install(e->table, file_get(files[i]), 0, 0, 1024);
		cr_assert_geq(c.fd[i], 0);
	}
	uio_init_kernel(&u, &seg, (char[]){"f"}, 1);
	m.uio = &u;
	r = sock_sendmsg(e->c, via, &m);
	for (unsigned i = 0; i < count; i++)
		cr_expect_eq(fd_close(e->c, e->table, c.fd[i]), 0);
	return r;
}

Test(unix_socket, making)
{
	struct file *f, *p[2];
	struct fenv e;

	up(&e);
	cr_expect_eq(sock_create(e.c, LX_AF_INET6 + 30, LX_SOCK_STREAM, 0, &f), -EAFNOSUPPORT);
	cr_expect_eq(sock_create(e.c, LX_AF_PACKET, LX_SOCK_STREAM, 0, &f), -EAFNOSUPPORT);
	cr_expect_eq(sock_create(e.c, -1, LX_SOCK_STREAM, 0, &f), -EAFNOSUPPORT);
	cr_expect_eq(sock_create(e.c, 99, LX_SOCK_STREAM, 0, &f), -EAFNOSUPPORT);
	cr_expect_eq(sock_create(e.c, LX_AF_UNIX, 11, 0, &f), -EINVAL);
	cr_expect_eq(sock_create(e.c, LX_AF_UNIX, LX_SOCK_STREAM | 0x100, 0, &f), -EINVAL);
	cr_expect_eq(sock_create(e.c, LX_AF_UNIX, LX_SOCK_RDM, 0, &f), -ESOCKTNOSUPPORT);
	cr_expect_eq(sock_create(e.c, LX_AF_UNIX, LX_SOCK_STREAM, 6, &f), -EPROTONOSUPPORT);
	cr_assert_eq(sock_create(e.c, LX_AF_UNIX, LX_SOCK_RAW | LX_SOCK_NONBLOCK, 0, &f), 0);
	cr_expect_eq(get_int(&e, f, LX_SO_TYPE), LX_SOCK_DGRAM);
	cr_expect_eq(get_int(&e, f, LX_SO_DOMAIN), LX_AF_UNIX);
	cr_expect_eq(get_int(&e, f, LX_SO_PROTOCOL), 0);
	cr_expect_eq(recv_from(&e, f, (char[1]){0}, 1, 0, NULL), -EAGAIN);
	cr_expect_eq(sock_listen(e.c, f, 1), -EOPNOTSUPP);
	file_put(f);
	cr_assert_eq(pipe_create(e.c, 0, &p[0], &p[1]), 0);
	cr_expect_eq(sock_listen(e.c, p[0], 1), -ENOTSOCK);
	put_both(p);
	fenv_down(&e);
}

Test(unix_socket, options)
{
	struct lx_timeval tv = {.tv_usec = 1000000};
	struct lx_linger lg = {1, 7};
	struct lx_ucred cred;
	struct file *p[2], *s;
	struct fenv e;
	size_t n;

	up(&e);
	make_pair(&e, LX_SOCK_STREAM, p);
	s = sock(&e, LX_SOCK_STREAM);
	cr_expect_eq(get_int(&e, p[0], LX_SO_SNDBUF), 212992);
	cr_expect_eq(set_int(&e, p[0], LX_SO_SNDBUF, 1), 0);
	cr_expect_eq(get_int(&e, p[0], LX_SO_SNDBUF), 4608);
	cr_expect_eq(set_int(&e, p[0], LX_SO_RCVBUF, 1 << 30), 0);
	cr_expect_eq(get_int(&e, p[0], LX_SO_RCVBUF), 425984);
	cr_expect_eq(set_int(&e, p[0], LX_SO_TYPE, 1), -ENOPROTOOPT);
	cr_expect_eq(set_int(&e, p[0], 999, 1), -ENOPROTOOPT);
	cr_expect_eq(get_int(&e, p[0], 999), -ENOPROTOOPT);
	cr_expect_eq(sock_setsockopt(e.c, p[0], LX_SOL_SOCKET, LX_SO_PASSCRED, &tv, 3), -EINVAL);
	cr_expect_eq(sock_setsockopt(e.c, p[0], 6, 1, &tv, 4), -EOPNOTSUPP);
	cr_expect_eq(sock_setsockopt(e.c, p[0], LX_SOL_SOCKET, LX_SO_RCVTIMEO, &tv, sizeof(tv)),
		     -EDOM);
	cr_expect_eq(sock_setsockopt(e.c, p[0], LX_SOL_SOCKET, LX_SO_RCVTIMEO, &tv, 8), -EINVAL);
	tv = (struct lx_timeval){3, 500};
	cr_expect_eq(sock_setsockopt(e.c, p[0], LX_SOL_SOCKET, LX_SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	memset(&tv, 0, sizeof(tv));
	n = sizeof(tv);
	cr_expect_eq(sock_getsockopt(e.c, p[0], LX_SOL_SOCKET, LX_SO_RCVTIMEO, &tv, &n), 0);
	cr_expect(tv.tv_sec == 3 && tv.tv_usec == 4000, "in whole ticks");
	cr_expect_eq(sock_setsockopt(e.c, p[0], LX_SOL_SOCKET, LX_SO_LINGER, &lg, sizeof(lg)), 0);
	n = sizeof(cred);
	cr_expect_eq(sock_getsockopt(e.c, p[0], LX_SOL_SOCKET, LX_SO_PEERCRED, &cred, &n), 0);
	cr_expect(cred.pid == 100 && cred.uid == 0 && cred.gid == 0);
	n = sizeof(cred);
	cr_expect_eq(sock_getsockopt(e.c, s, LX_SOL_SOCKET, LX_SO_PEERCRED, &cred, &n), 0);
	cr_expect(cred.pid == 0 && cred.uid == UINT32_MAX);
	cr_expect_eq(set_int(&e, p[0], LX_SO_SNDBUFFORCE, 1 << 20), 0);
	cr_expect_eq(get_int(&e, p[0], LX_SO_SNDBUF), 2 << 20);
	cr_expect_eq(get_int(&e, p[0], LX_SO_ACCEPTCONN), 0);
	put_both(p);
	file_put(s);
	fenv_down(&e);
}

Test(unix_socket, stream_pair)
{
	struct umem um = {0};
	struct file *p[2];
	struct fenv e;
	char b[64];
	int32_t n;

	up(&e);
	make_pair(&e, LX_SOCK_STREAM | LX_SOCK_NONBLOCK, p);
	cr_expect_eq(fenv_poll(p[0]), LX_POLLOUT | LX_POLLWRNORM | LX_POLLWRBAND);
	cr_expect_eq(fenv_write(&e, p[0], "hello", 5), 5);
	cr_expect_eq(fenv_write(&e, p[0], " world", 6), 6);
	cr_expect_eq(p[1]->ops->ioctl(e.c, p[1], LX_SIOCINQ, (uint64_t)(uintptr_t)&n, &um), 0);
	cr_expect_eq(n, 11);
	cr_expect_eq(recv_from(&e, p[1], b, 64, LX_MSG_PEEK, NULL), 11);
	cr_expect_eq(fenv_read(&e, p[1], b, 3), 3);
	cr_expect_eq(fenv_read(&e, p[1], b + 3, 60), 8);
	cr_expect(memcmp(b, "hello world", 11) == 0);
	cr_expect_eq(fenv_read(&e, p[1], b, 1), -EAGAIN);
	cr_expect_eq(p[0]->ops->ioctl(e.c, p[0], LX_SIOCOUTQ, (uint64_t)(uintptr_t)&n, &um), 0);
	cr_expect_eq(n, 0);
	cr_expect_eq(send_to(&e, p[0], "x", 1, "/x", 0), -EISCONN);
	cr_expect_eq(send_to(&e, p[0], "x", 1, NULL, LX_MSG_OOB), -EOPNOTSUPP);
	cr_expect_eq(recv_from(&e, p[0], b, 1, LX_MSG_OOB, NULL), -EOPNOTSUPP);

	cr_expect_eq(sock_shutdown(e.c, p[0], 3), -EINVAL);
	cr_expect_eq(sock_shutdown(e.c, p[0], LX_SHUT_WR), 0);
	cr_expect_eq(fenv_write(&e, p[0], "x", 1), -EPIPE);
	cr_expect_eq(fenv_read(&e, p[1], b, 1), 0);
	cr_expect_eq(fenv_poll(p[1]) & (LX_POLLRDHUP | LX_POLLIN | LX_POLLHUP),
		     LX_POLLRDHUP | LX_POLLIN);
	cr_expect_eq(fenv_write(&e, p[1], "back", 4), 4);
	file_put(p[1]);
	cr_expect_eq(fenv_read(&e, p[0], b, 64), 4);
	cr_expect_eq(fenv_read(&e, p[0], b, 64), 0);
	cr_expect(fenv_poll(p[0]) & LX_POLLHUP);
	file_put(p[0]);

	/* Unread data at the close is a reset for the other side, once. */
	make_pair(&e, LX_SOCK_STREAM | LX_SOCK_NONBLOCK, p);
	cr_expect_eq(fenv_write(&e, p[0], "lost", 4), 4);
	file_put(p[1]);
	cr_expect(fenv_poll(p[0]) & LX_POLLERR);
	cr_expect_eq(fenv_read(&e, p[0], b, 1), -ECONNRESET);
	cr_expect_eq(fenv_read(&e, p[0], b, 1), 0);
	cr_expect_eq(fenv_write(&e, p[0], "x", 1), -EPIPE);
	file_put(p[0]);
	fenv_down(&e);
}

struct job {
	struct fenv *e;
	struct file *f;
	char *buf;
	size_t size;
	unsigned flags;
	ssize_t result;
};

static void recv_job(void *arg)
{
	struct job *j = arg;

	j->result = recv_from(j->e, j->f, j->buf, j->size, j->flags, NULL);
}

static void send_job(void *arg)
{
	struct job *j = arg;

	j->result = send_to(j->e, j->f, j->buf, j->size, NULL, j->flags);
}

Test(unix_socket, stream_flow)
{
	const size_t size = 2000003;
	char *in = malloc(size), *out = calloc(1, size);
	struct file *p[2];
	struct fenv e;
	struct job s = {&e, NULL, in, size, 0, -1}, r = {&e, NULL, out, size, LX_MSG_WAITALL, -1};

	for (size_t i = 0; i < size; i++)
		in[i] = (char)(i * 13 + i / 257);
	up(&e);
	cr_assert_eq(workers_start(2, NULL), 0);
	make_pair(&e, LX_SOCK_STREAM, p);
	s.f = p[0];
	r.f = p[1];
	fenv_go(send_job, &s);
	fenv_settle();
	cr_expect_eq(s.result, -1, "held up by its buffer");
	cr_expect_eq(fenv_poll(p[0]) & LX_POLLOUT, 0u);
	fenv_go(recv_job, &r);
	workers_stop();
	cr_expect_eq(s.result, (ssize_t)size);
	cr_expect_eq(r.result, (ssize_t)size);
	cr_expect(memcmp(in, out, size) == 0);
	cr_expect(fenv_poll(p[0]) & LX_POLLOUT);
	put_both(p);
	free(in);
	free(out);
	fenv_down(&e);
}

Test(unix_socket, waits)
{
	struct lx_timeval tv = {0, 20000};
	struct file *p[2], *d[2];
	struct fenv e;
	char b[8];
	struct job r = {&e, NULL, b, 8, 0, -1};
	struct fiber *fb;

	up(&e);
	cr_assert_eq(workers_start(1, NULL), 0);
	make_pair(&e, LX_SOCK_STREAM, p);
	make_pair(&e, LX_SOCK_DGRAM, d);
	r.f = p[0];
	fb = fenv_go(recv_job, &r);
	fenv_settle();
	fiber_interrupt(fb);
	fenv_settle();
	cr_expect_eq(r.result, -ERESTARTSYS);
	cr_expect_eq(sock_setsockopt(e.c, p[0], LX_SOL_SOCKET, LX_SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	cr_expect_eq(sock_setsockopt(e.c, d[0], LX_SOL_SOCKET, LX_SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	cr_expect_eq(fenv_read(&e, p[0], b, 8), -EAGAIN);
	cr_expect_eq(fenv_read(&e, d[0], b, 8), -EAGAIN);
	tv = (struct lx_timeval){10, 0};
	cr_expect_eq(sock_setsockopt(e.c, p[0], LX_SOL_SOCKET, LX_SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	fb = fenv_go(recv_job, &r);
	fenv_settle();
	fiber_interrupt(fb);
	fenv_settle();
	cr_expect_eq(r.result, -EINTR, "a timeout is not restartable");
	fenv_go(recv_job, &r);
	fenv_settle();
	file_put(p[1]);
	workers_stop();
	cr_expect_eq(r.result, 0);
	file_put(p[0]);
	put_both(d);
	fenv_down(&e);
}

Test(unix_socket, connecting)
{
	struct file *l, *c, *c2, *a, *d;
	struct sock_addr name = {0};
	struct fenv e;
	char b[8];

	up(&e);
	l = sock(&e, LX_SOCK_STREAM | LX_SOCK_NONBLOCK);
	c = sock(&e, LX_SOCK_STREAM | LX_SOCK_NONBLOCK);
	cr_expect_eq(sock_listen(e.c, l, 0), -EINVAL, "no name");
	cr_expect_eq(sock_accept(e.c, l, 0, &a, NULL), -EINVAL);
	cr_expect_eq(do_connect(&e, c, "/s"), -ENOENT);
	cr_expect_eq(do_bind(&e, l, "/s"), 0);
	cr_expect_eq(do_bind(&e, l, "/t"), -EINVAL);
	cr_expect_eq(do_bind(&e, c, "/s"), -EADDRINUSE);
	cr_expect_eq(do_bind(&e, c, "/no/s"), -ENOENT);
	cr_expect_eq(sock_bind(e.c, c, (char[3]){1, 0, 'x'}, 2), 0, "autobind");
	cr_expect_eq(sock_bind(e.c, c, (char[3]){2, 0, 'x'}, 3), -EINVAL);
	cr_expect_eq(sock_bind(e.c, c, (char[120]){1, 0, 'x'}, 111), -EINVAL);
	cr_expect_eq(do_connect(&e, c, "/s"), -ECONNREFUSED, "does not listen");
	cr_expect_eq(sock_listen(e.c, l, 0), 0);
	cr_expect_eq(get_int(&e, l, LX_SO_ACCEPTCONN), 1);
	cr_expect_eq(sock_accept(e.c, l, 0, &a, NULL), -EAGAIN);
	d = sock(&e, LX_SOCK_DGRAM);
	cr_expect_eq(do_connect(&e, d, "/s"), -EPROTOTYPE);
	file_put(d);
	d = fenv_open(&e, "/file", LX_O_RDWR | LX_O_CREAT);
	cr_expect_eq(do_connect(&e, c, "/file"), -ECONNREFUSED);
	file_put(d);
	cr_expect_eq(sock_getname(e.c, c, true, &name), -ENOTCONN);
	cr_expect_eq(fenv_write(&e, c, "x", 1), -ENOTCONN);
	cr_expect_eq(fenv_read(&e, c, b, 1), -EINVAL);
	cr_expect_eq(fenv_poll(c) & LX_POLLHUP, LX_POLLHUP);

	cr_expect_eq(do_connect(&e, c, "/s"), 0);
	cr_expect_eq(do_connect(&e, c, "/s"), -EISCONN);
	cr_expect(fenv_poll(l) & LX_POLLIN);
	c2 = sock(&e, LX_SOCK_STREAM | LX_SOCK_NONBLOCK);
	cr_expect_eq(do_connect(&e, c2, "/s"), -EAGAIN, "a backlog of 0 takes one");
	cr_expect_eq(fenv_write(&e, c, "early", 5), 5);
	cr_expect_eq(sock_accept(e.c, l, 0x10, &a, &name), -EINVAL);
	cr_expect_eq(sock_accept(e.c, l, LX_SOCK_NONBLOCK, &a, &name), 0);
	cr_expect_eq(name.size, 8u);
	cr_expect_eq(fenv_read(&e, a, b, 8), 5);
	cr_expect_eq(fenv_read(&e, a, b, 8), -EAGAIN);
	cr_expect_eq(sock_getname(e.c, a, false, &name), 0);
	cr_expect_str_eq((char *)name.bytes + 2, "/s");
	cr_expect_eq(sock_getname(e.c, c, true, &name), 0);
	cr_expect_eq(name.size, 5u);
	cr_expect_eq(do_connect(&e, c2, "/s"), 0);
	file_put(l);
	cr_expect_eq(fenv_read(&e, c2, b, 1), -ECONNRESET, "its listener went");
	d = sock(&e, LX_SOCK_STREAM);
	cr_expect_eq(do_connect(&e, d, "/s"), -ECONNREFUSED);
	file_put(d);
	file_put(c);
	cr_expect_eq(fenv_read(&e, a, b, 1), 0);
	file_put(a);
	file_put(c2);
	cr_expect_eq(vfs_unlink(e.c, NULL, "/s"), 0);
	fenv_down(&e);
}

struct conn_job {
	struct fenv *e;
	struct file *f, *conn;
	int result;
};

static void accept_job(void *arg)
{
	struct conn_job *j = arg;

	j->result = sock_accept(j->e->c, j->f, 0, &j->conn, NULL);
}

static void connect_job(void *arg)
{
	struct conn_job *j = arg;

	j->result = do_connect(j->e, j->f, "@name");
}

Test(unix_socket, blocking_connections)
{
	struct conn_job a = {.result = 1}, c[3] = {{.result = 1}, {.result = 1}, {.result = 1}};
	struct file *l;
	struct fenv e;

	up(&e);
	cr_assert_eq(workers_start(2, NULL), 0);
	l = listener(&e, LX_SOCK_SEQPACKET, "@name", 0);
	a.e = &e;
	a.f = l;
	fenv_go(accept_job, &a);
	fenv_settle();
	cr_expect_eq(a.result, 1);
	for (unsigned i = 0; i < 3; i++) {
		c[i].e = &e;
		c[i].f = sock(&e, LX_SOCK_SEQPACKET);
		fenv_go(connect_job, &c[i]);
		fenv_settle();
	}
	cr_expect_eq(a.result, 0);
	cr_expect_eq(c[0].result, 0);
	cr_expect_eq(c[1].result, 0);
	cr_expect_eq(c[2].result, 1, "no room");
	file_put(a.conn);
	cr_expect_eq(sock_accept(e.c, l, 0, &a.conn, NULL), 0);
	fenv_settle();
	cr_expect_eq(c[2].result, 0);
	file_put(a.conn);
	cr_expect_eq(sock_shutdown(e.c, l, LX_SHUT_RD), 0);
	cr_expect_eq(sock_accept(e.c, l, 0, &a.conn, NULL), 0, "those who came before");
	file_put(a.conn);
	cr_expect_eq(sock_accept(e.c, l, 0, &a.conn, NULL), -EINVAL);
	file_put(l);
	for (unsigned i = 0; i < 3; i++)
		file_put(c[i].f);
	workers_stop();
	fenv_down(&e);
}

Test(unix_socket, datagrams)
{
	struct file *a, *b, *c, *p[2];
	struct sock_msg m = {0};
	struct fenv e;
	char buf[64];

	up(&e);
	a = sock(&e, LX_SOCK_DGRAM | LX_SOCK_NONBLOCK);
	b = sock(&e, LX_SOCK_DGRAM | LX_SOCK_NONBLOCK);
	c = sock(&e, LX_SOCK_DGRAM | LX_SOCK_NONBLOCK);
	cr_expect_eq(do_bind(&e, a, "@a"), 0);
	cr_expect_eq(do_bind(&e, b, "/b"), 0);
	cr_expect_eq(fenv_write(&e, a, "x", 1), -ENOTCONN);
	cr_expect_eq(send_to(&e, a, "hello", 5, "/b", 0), 5);
	cr_expect_eq(send_to(&e, a, "", 0, "/b", 0), 0);
	cr_expect_eq(send_to(&e, a, "x", 1, "@nobody", 0), -ECONNREFUSED);
	cr_expect_eq(recv_from(&e, b, buf, 3, LX_MSG_PEEK, &m), 3);
	cr_expect_eq(m.out_flags, LX_MSG_TRUNC);
	memset(&m, 0, sizeof(m));
	cr_expect_eq(recv_from(&e, b, buf, 3, LX_MSG_TRUNC, &m), 5);
	cr_expect_eq(m.addr.size, 4u);
	cr_expect(memcmp(m.addr.bytes, "\1\0\0a", 4) == 0);
	cr_expect_eq(recv_from(&e, b, buf, 3, 0, NULL), 0, "an empty one");
	cr_expect_eq(recv_from(&e, b, buf, 3, 0, NULL), -EAGAIN);

	/* Who is connected takes from its peer only. */
	cr_expect_eq(do_connect(&e, b, "@a"), 0);
	cr_expect_eq(send_to(&e, c, "x", 1, "/b", 0), -EPERM);
	cr_expect_eq(do_connect(&e, c, "/b"), -EPERM);
	cr_expect_eq(fenv_write(&e, b, "to a", 4), 4);
	cr_expect_eq(fenv_read(&e, a, buf, 64), 4);
	cr_expect_eq(sock_connect(e.c, b, (char[2]){0, 0}, 2), 0, "AF_UNSPEC");
	cr_expect_eq(fenv_write(&e, b, "x", 1), -ENOTCONN);

	/* A full queue. */
	cr_expect_eq(do_connect(&e, c, "/b"), 0);
	for (unsigned i = 0; i <= UNIX_QUEUE_MAX; i++)
		cr_assert_eq(fenv_write(&e, i % 4 ? a : c, "y", 1), i % 4 ? -ENOTCONN : 1);
	for (unsigned i = 0; fenv_write(&e, c, "y", 1) == 1; i++)
		cr_assert_lt(i, 2000u);
	cr_expect_eq(fenv_write(&e, c, "y", 1), -EAGAIN);
	cr_expect_eq(fenv_poll(c) & LX_POLLOUT, 0u);
	while (fenv_read(&e, b, buf, 64) == 1)
		;
	cr_expect(fenv_poll(c) & LX_POLLOUT);
	file_put(b);
	cr_expect_eq(fenv_write(&e, c, "y", 1), -ECONNREFUSED);
	cr_expect_eq(fenv_write(&e, c, "y", 1), -ENOTCONN);
	file_put(a);
	file_put(c);

	make_pair(&e, LX_SOCK_DGRAM | LX_SOCK_NONBLOCK, p);
	memset(&m, 0, sizeof(m));
	char *big = calloc(1, 300000);

	cr_expect_eq(fenv_write(&e, p[0], big, 300000), -EMSGSIZE);
	free(big);
	cr_expect_eq(fenv_write(&e, p[0], "ab", 2), 2);
	cr_expect_eq(sock_shutdown(e.c, p[1], LX_SHUT_RD), 0);
	cr_expect_eq(fenv_write(&e, p[0], "ab", 2), -EPIPE);
	cr_expect_eq(fenv_read(&e, p[1], buf, 64), 2);
	put_both(p);
	fenv_down(&e);
}

Test(unix_socket, seqpackets)
{
	struct file *p[2], *s;
	struct sock_msg m = {0};
	struct fenv e;
	char b[8];

	up(&e);
	make_pair(&e, LX_SOCK_SEQPACKET | LX_SOCK_NONBLOCK, p);
	s = sock(&e, LX_SOCK_SEQPACKET);
	cr_expect_eq(fenv_read(&e, s, b, 1), -ENOTCONN);
	cr_expect_eq(fenv_write(&e, s, b, 1), -ENOTCONN);
	cr_expect_eq(fenv_write(&e, p[0], "one", 3), 3);
	cr_expect_eq(fenv_write(&e, p[0], "two", 3), 3);
	cr_expect_eq(recv_from(&e, p[1], b, 2, 0, &m), 2);
	cr_expect_eq(m.out_flags, LX_MSG_TRUNC);
	cr_expect_eq(fenv_read(&e, p[1], b, 8), 3);
	file_put(p[0]);
	cr_expect_eq(fenv_read(&e, p[1], b, 8), 0);
	cr_expect_eq(fenv_write(&e, p[1], b, 1), -EPIPE);
	file_put(p[1]);
	file_put(s);
	fenv_down(&e);
}

Test(unix_socket, credentials)
{
	struct {
		struct lx_cmsghdr h;
		struct lx_ucred u;
	} c = {.h = {LX_CMSG_LEN(sizeof(struct lx_ucred)), LX_SOL_SOCKET, LX_SCM_CREDENTIALS}};
	struct sock_msg m = {0};
	struct file *p[2];
	struct uio_seg seg;
	struct uio u;
	struct fenv e;
	char b[8], ctl[64];

	up(&e);
	make_pair(&e, LX_SOCK_STREAM | LX_SOCK_NONBLOCK, p);
	cr_expect_eq(set_int(&e, p[1], LX_SO_PASSCRED, 1), 0);
	cr_expect_eq(fenv_write(&e, p[0], "x", 1), 1);
	m = (struct sock_msg){.control = ctl, .control_size = sizeof(ctl), .has_control = true};
	cr_expect_eq(recv_from(&e, p[1], b, 8, 0, &m), 1);
	cr_expect_eq(m.control_used, LX_CMSG_SPACE(sizeof(struct lx_ucred)));
	memcpy(&c.u, ctl + sizeof(c.h), sizeof(c.u));
	cr_expect(c.u.pid == 100 && c.u.uid == 0);

	/* Two who write are two receives. */
	cr_expect_eq(fenv_write(&e, p[0], "x", 1), 1);
	uio_init_kernel(&u, &seg, b, 1);
	cr_expect_eq(vfs_write(e.user, p[0], &u, NULL), 1);
	cr_expect_eq(fenv_read(&e, p[1], b, 8), 1);
	cr_expect_eq(fenv_read(&e, p[1], b, 8), 1);

	/* Lies need capabilities. */
	c.u = (struct lx_ucred){.pid = 77, .uid = 0, .gid = 0};
	uio_init_kernel(&u, &seg, b, 1);
	m = (struct sock_msg){.uio = &u, .control = &c, .control_size = sizeof(c)};
	cr_expect_eq(sock_sendmsg(e.user, p[0], &m), -EPERM);
	cr_expect_eq(sock_sendmsg(e.c, p[0], &m), 1);
	c.h.cmsg_len--;
	cr_expect_eq(sock_sendmsg(e.c, p[0], &m), -EINVAL);
	c.h.cmsg_len = 200;
	cr_expect_eq(sock_sendmsg(e.c, p[0], &m), -EINVAL);

	/* Too little room. */
	m = (struct sock_msg){.control = ctl, .control_size = 20, .has_control = true};
	cr_expect_eq(recv_from(&e, p[1], b, 8, 0, &m), 1);
	cr_expect_eq(m.out_flags, LX_MSG_CTRUNC);
	cr_expect_eq(m.control_used, 20u);
	put_both(p);
	fenv_down(&e);
}

Test(unix_socket, rights)
{
	struct sock_msg m = {.has_control = true};
	struct file *p[2], *ev, *got;
	struct fenv e;
	char b[8];

	up(&e);
	make_pair(&e, LX_SOCK_STREAM | LX_SOCK_NONBLOCK, p);
	cr_assert_eq(eventfd_create(e.c, 0, 0, &ev), 0);
	cr_expect_eq(fenv_write(&e, p[0], "ab", 2), 2);
	cr_expect_eq(send_files(&e, p[0], (struct file *[]){ev, p[0]}, 2), 1);
	cr_expect_eq(fenv_write(&e, p[0], "cd", 2), 2);
	cr_expect_eq(recv_from(&e, p[1], b, 8, LX_MSG_PEEK, &m), 3, "ends with the files");
	cr_assert_eq(m.file_count, 2u);
	cr_expect_eq(m.files[0], ev);
	sock_msg_fini(&m);
	cr_expect_eq(recv_from(&e, p[1], b, 8, LX_MSG_CMSG_CLOEXEC, &m), 3);
	cr_assert_eq(m.file_count, 2u);
	cr_expect_eq(m.out_flags & LX_MSG_CMSG_CLOEXEC, LX_MSG_CMSG_CLOEXEC);
	got = file_get(m.files[0]);
	sock_msg_fini(&m);
	cr_expect_eq(eventfd_signal(got, 1), 0);
	file_put(got);
	cr_expect_eq(fenv_read(&e, p[1], b, 8), 2);

	/* Nobody takes them: gone with the message, or with the socket. */
	cr_expect_eq(send_files(&e, p[0], &ev, 1), 1);
	memset(&m, 0, sizeof(m));
	cr_expect_eq(recv_from(&e, p[1], b, 8, 0, &m), 1);
	cr_expect_eq(m.out_flags, LX_MSG_CTRUNC);
	cr_expect_eq(send_files(&e, p[0], &ev, 1), 1);
	put_both(p);
	cr_expect_eq(ref_read(&ev->ref), 1u);
	file_put(ev);
	fenv_down(&e);
}

Test(unix_socket, rights_errors)
{
	struct {
		struct lx_cmsghdr h;
		int32_t fd[300];
	} c = {.h = {LX_CMSG_LEN(4), LX_SOL_SOCKET, LX_SCM_RIGHTS}, .fd = {99}};
	struct sock_msg m = {.control = &c, .control_size = LX_CMSG_LEN(4)};
	struct file *p[2], *ev;
	struct uio_seg seg;
	struct uio u;
	struct fenv e;

	up(&e);
	make_pair(&e, LX_SOCK_DGRAM | LX_SOCK_NONBLOCK, p);
	cr_assert_eq(eventfd_create(e.c, 0, 0, &ev), 0);
	uio_init_kernel(&u, &seg, (char[1]){0}, 1);
	m.uio = &u;
	cr_expect_eq(sock_sendmsg(e.c, p[0], &m), -EBADF);
	c.h.cmsg_len = LX_CMSG_LEN(4 * 254);
	m.control_size = sizeof(c);
	cr_expect_eq(sock_sendmsg(e.c, p[0], &m), -EINVAL);
	e.user->nofile_limit = 2;
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(send_files(&e, p[0], &ev, 1), 1);
	c.h.cmsg_len = LX_CMSG_LEN(4);
	m.control_size = LX_CMSG_LEN(4);
	cr_assert_eq(fd_install(e.table, file_get(ev), 0, 0, 64), 0);
	c.fd[0] = 0;
	cr_expect_eq(sock_sendmsg(e.user, p[0], &m), -ETOOMANYREFS);
	cr_expect_eq(fd_close(e.c, e.table, 0), 0);
	put_both(p);
	cr_expect_eq(ref_read(&ev->ref), 1u);
	file_put(ev);
	fenv_down(&e);
}

/* A collection comes with the end of any socket, not with the last descriptor of one that is in
 * flight. */
static void end_some_socket(struct fenv *e)
{
	file_put(sock(e, LX_SOCK_DGRAM));
}

/* Circles of descriptors in flight. */
Test(unix_socket, collection)
{
	struct file *p[2], *q[2], *ev, *l, *c, *last;
	struct fenv e;

	up(&e);
	cr_assert_eq(eventfd_create(e.c, 0, 0, &ev), 0);

	/* A socket in its own peer's queue, with something else that tells us when it goes. */
	make_pair(&e, LX_SOCK_STREAM, p);
	cr_expect_eq(send_files(&e, p[0], (struct file *[]){p[1], ev}, 2), 1);
	put_both(p);
	end_some_socket(&e);
	cr_expect_eq(ref_read(&ev->ref), 1u, "collected");

	/* Two pairs in each other's queues; held from outside at first. */
	make_pair(&e, LX_SOCK_STREAM, p);
	make_pair(&e, LX_SOCK_STREAM, q);
	cr_expect_eq(send_files(&e, p[0], (struct file *[]){q[1], ev}, 2), 1);
	cr_expect_eq(send_files(&e, q[0], (struct file *[]){p[1], ev}, 2), 1);
	file_put(p[0]);
	file_put(p[1]);
	file_put(q[0]);
	end_some_socket(&e);
	cr_expect_eq(ref_read(&ev->ref), 3u, "q[1] still has a way in");
	file_put(q[1]);
	end_some_socket(&e);
	cr_expect_eq(ref_read(&ev->ref), 1u);

	/* A listener that travels in the queue of a connection it has not accepted. */
	l = listener(&e, LX_SOCK_STREAM, "@l", 5);
	c = sock(&e, LX_SOCK_STREAM);
	cr_assert_eq(do_connect(&e, c, "@l"), 0);
	cr_expect_eq(send_files(&e, c, (struct file *[]){l, ev}, 2), 1);
	file_put(l);
	end_some_socket(&e);
	cr_expect_eq(ref_read(&ev->ref), 1u, "collected though the client lives");
	file_put(c);

	/* Many circles and no end of anything: a send collects now and then. */
	for (unsigned i = 0; i < 2000; i++) {
		make_pair(&e, LX_SOCK_STREAM, p);
		cr_assert_eq(send_files(&e, p[0], (struct file *[]){p[0], p[1], ev}, 3), 1);
		put_both(p);
		cr_assert_lt(ref_read(&ev->ref), 1000u);
	}
	end_some_socket(&e);
	cr_expect_eq(ref_read(&ev->ref), 1u);

	/* A long chain: no deep recursion. */
	make_pair(&e, LX_SOCK_DGRAM, p);
	last = p[0];
	cr_expect_eq(send_files(&e, p[1], &ev, 1), 1);
	file_put(p[1]);
	for (unsigned i = 0; i < 5000; i++) {
		make_pair(&e, LX_SOCK_DGRAM, q);
		cr_assert_eq(send_files(&e, q[1], &last, 1), 1);
		file_put(last);
		file_put(q[1]);
		last = q[0];
	}
	cr_expect_eq(ref_read(&ev->ref), 2u);
	file_put(last);
	cr_expect_eq(ref_read(&ev->ref), 1u);
	file_put(ev);
	fenv_down(&e);
}

Test(unix_socket, epoll_and_splice)
{
	struct lx_epoll_event ev = {.events = LX_POLLIN | LX_POLLRDHUP | LX_EPOLLET}, out[4];
	struct file *p[2], *ep, *f, *pp[2];
	struct uio_seg seg;
	struct uio u;
	struct fenv e;
	char b[16];

	up(&e);
	make_pair(&e, LX_SOCK_STREAM | LX_SOCK_NONBLOCK, p);
	cr_assert_eq(epoll_create_file(e.c, 0, &ep), 0);
	cr_expect_eq(epoll_ctl_file(e.c, ep, LX_EPOLL_CTL_ADD, 1, p[1], &ev), 0);
	uio_init_kernel(&u, &seg, out, sizeof(out));
	cr_expect_eq(epoll_wait_file(ep, &u, 4, 0), 0);
	f = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	cr_expect_eq(fenv_write(&e, f, "content", 7), 7);
	cr_expect_eq(vfs_lseek(f, 0, LX_SEEK_SET), 0);
	cr_expect_eq(vfs_sendfile(e.c, p[0], NULL, f, NULL, 100), 7);
	uio_init_kernel(&u, &seg, out, sizeof(out));
	cr_expect_eq(epoll_wait_file(ep, &u, 4, 0), 1);
	cr_expect_eq(out[0].events, LX_POLLIN);
	cr_assert_eq(pipe_create(e.c, LX_O_NONBLOCK, &pp[0], &pp[1]), 0);
	cr_expect_eq(vfs_splice(e.c, p[1], NULL, pp[1], NULL, 100, 0), 7);
	cr_expect_eq(vfs_splice(e.c, p[1], NULL, pp[1], NULL, 100, 0), -EAGAIN);
	cr_expect_eq(vfs_splice(e.c, pp[0], NULL, p[1], NULL, 100, 0), 7);
	cr_expect_eq(fenv_read(&e, p[0], b, 16), 7);
	file_put(p[0]);
	uio_init_kernel(&u, &seg, out, sizeof(out));
	cr_expect_eq(epoll_wait_file(ep, &u, 4, 0), 1);
	cr_expect_eq(out[0].events, LX_POLLIN | LX_POLLRDHUP | LX_POLLHUP);
	file_put(p[1]);
	file_put(ep);
	file_put(f);
	put_both(pp);
	fenv_down(&e);
}

Test(unix_socket, names_go_with_their_sockets)
{
	struct file *a, *b;
	struct fenv e;

	up(&e);
	a = sock(&e, LX_SOCK_DGRAM);
	b = sock(&e, LX_SOCK_DGRAM);
	cr_expect_eq(do_bind(&e, a, "@same"), 0);
	cr_expect_eq(do_bind(&e, b, "@same"), -EADDRINUSE);
	file_put(a);
	cr_expect_eq(do_bind(&e, b, "@same"), 0);
	a = sock(&e, LX_SOCK_STREAM);
	cr_expect_eq(do_bind(&e, a, "@same"), 0, "of another type");
	file_put(a);
	file_put(b);
	a = sock(&e, LX_SOCK_DGRAM);
	b = sock(&e, LX_SOCK_DGRAM);
	cr_expect_eq(do_bind(&e, a, "/p"), 0);
	file_put(a);
	cr_expect_eq(do_connect(&e, b, "/p"), -ECONNREFUSED);
	a = sock(&e, LX_SOCK_DGRAM);
	cr_expect_eq(do_bind(&e, a, "/p"), -EADDRINUSE, "the name stays");
	cr_expect_eq(vfs_unlink(e.c, NULL, "/p"), 0);
	cr_expect_eq(do_bind(&e, a, "/p"), 0);
	file_put(a);
	file_put(b);
	fenv_down(&e);
}

/* The n-th allocation fails, for all n: no crash, no leak (ASan looks), and the next try works. */
static int one_session(struct fenv *e)
{
	struct lx_epoll_event ev = {.events = LX_POLLIN};
	struct file *l = NULL, *c = NULL, *a = NULL, *ep = NULL, *d[2] = {NULL, NULL};
	struct sock_msg m = {.has_control = true};
	char b[8];
	int r = sock_create(e->c, LX_AF_UNIX, LX_SOCK_STREAM | LX_SOCK_NONBLOCK, 0, &l);

	if (r == 0)
		r = do_bind(e, l, "@fail");
	if (r == 0)
		r = sock_listen(e->c, l, 1);
	if (r == 0)
		r = sock_create(e->c, LX_AF_UNIX, LX_SOCK_STREAM | LX_SOCK_NONBLOCK, 0, &c);
	if (r == 0)
		r = do_connect(e, c, "@fail");
	if (r == 0)
		r = sock_accept(e->c, l, 0, &a, NULL);
	if (r == 0)
		r = epoll_create_file(e->c, 0, &ep);
	if (r == 0)
		r = epoll_ctl_file(e->c, ep, LX_EPOLL_CTL_ADD, 1, a, &ev);
	if (r == 0) {
		r = sock_create_pair(e->c, LX_AF_UNIX, LX_SOCK_DGRAM, 0, d);
		/* What a failed call left there is no reference. */
		if (r)
			d[0] = NULL;
	}
	if (r == 0) {
		ssize_t n = send_files(e, c, &d[0], 1);

		r = n < 0 ? (int)n : 0;
	}
	if (r == 0) {
		ssize_t n = recv_from(e, a, b, 8, 0, &m);

		r = n < 0 ? (int)n : 0;
		/* Without memory for them the files are dropped, and the receiver is told. */
		if (r == 0 && !m.file_count)
			r = (m.out_flags & LX_MSG_CTRUNC) ? -ENOMEM : -EPROTO;
		sock_msg_fini(&m);
	}
	if (d[0])
		put_both(d);
	if (ep)
		file_put(ep);
	if (a)
		file_put(a);
	if (c)
		file_put(c);
	if (l)
		file_put(l);
	return r;
}

Test(unix_socket, allocation_failures)
{
	struct fenv e;
	unsigned n;
	int r = -1;

	up(&e);
	/* The descriptor table must have its room before: fd_install is the test's own. */
	cr_expect_eq(one_session(&e), 0);
	for (n = 1; r != 0 && n < 200; n++) {
		fail_set(FAIL_ALLOC, n);
		r = one_session(&e);
		fail_set(FAIL_ALLOC, 0);
		cr_expect(r == 0 || r == -ENOMEM || r == -ENFILE || r == -ENOBUFS, "%u: %d", n, r);
		cr_expect_eq(one_session(&e), 0, "after failure %u", n);
	}
	cr_expect_gt(n, 10u);
	fenv_down(&e);
}
