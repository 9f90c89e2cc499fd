/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets: from the guest's structures to netstack/socket.h and back.
 *
 * SCM_RIGHTS become descriptors here, in the order of Linux: as many as fit into the control buffer
 * and below RLIMIT_NOFILE, each number written before the file can be used under it, the rest
 * dropped with MSG_CTRUNC.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include "base/lx_sock.h"
#include "netstack/socket.h"
#include "sentry/file_args.h"

/* net.core.optmem_max bounds what is sent; what is received never needs more. */
#define CONTROL_MAX ((size_t)65536)
#define OPTVAL_MAX ((size_t)65536)
#define LX_UIO_MAXIOV 1024u
#define LX_MSG_CMSG_COMPAT 0x80000000u

/* ---- addresses ---- */

static int addr_in(struct task *t, gaddr_t addr, int size, struct sock_addr *out)
{
	out->size = 0;
	if (size < 0 || (unsigned)size > LX_SOCKADDR_MAX)
		return -EINVAL;
	if (size > 0 && copy_in(t, out->bytes, addr, (size_t)size) < 0)
		return -EFAULT;
	out->size = (uint32_t)size;
	return 0;
}

/* Value-result: cut to the room, the length told in full. */
static int addr_out(struct task *t, const struct sock_addr *a, gaddr_t addr, gaddr_t addrlen)
{
	int32_t room, size = (int32_t)a->size;

	if (copy_in(t, &room, addrlen, sizeof(room)) < 0)
		return -EFAULT;
	if (room < 0)
		return -EINVAL;
	if (copy_out(t, addr, a->bytes, (size_t)MIN(room, size)) < 0)
		return -EFAULT;
	return copy_out(t, addrlen, &size, sizeof(size));
}

/* ---- making sockets ---- */

long sys_socket(struct task *t, int domain, int type, int protocol)
{
	struct file *f;
	int r = sock_create(&t->vctx, domain, type, protocol, &f);

	return r < 0 ? r : task_install_file(t, f, type & LX_SOCK_CLOEXEC);
}

/* Linux picks the numbers and writes them before it makes the sockets, so that nothing has to be
 * undone in a family: a bad pointer comes before a bad family, and after an error the numbers are
 * there. */
long sys_socketpair(struct task *t, int domain, int type, int protocol, gaddr_t sv)
{
	unsigned fdflags = type & LX_SOCK_CLOEXEC ? FD_CLOEXEC_FLAG : 0;
	uint64_t limit = task_nofile(t);
	struct file *f[2] = {NULL};
	int32_t fd[2];
	long r;

	if (type & ~(LX_SOCK_TYPE_MASK | LX_SOCK_CLOEXEC | LX_SOCK_NONBLOCK))
		return -EINVAL;
	fd[0] = fd_reserve(t->files, fdflags, 0, limit);
	if (fd[0] < 0)
		return fd[0];
	fd[1] = fd_reserve(t->files, fdflags, 0, limit);
	if (fd[1] < 0) {
		fd_unreserve(t->files, fd[0]);
		return fd[1];
	}
	r = copy_out(t, sv, fd, sizeof(fd));
	if (r == 0)
		r = sock_create_pair(&t->vctx, domain, type, protocol, f);
	for (int i = 0; i < 2; i++) {
		if (r < 0)
			fd_unreserve(t->files, fd[i]);
		else
			fd_fill(t->files, fd[i], f[i]);
	}
	return r;
}

static long do_accept(struct task *t, int fd, gaddr_t addr, gaddr_t addrlen, int flags)
{
	struct sock_addr peer = {0};
	struct file *f, *conn;
	unsigned fdflags = flags & LX_SOCK_CLOEXEC ? FD_CLOEXEC_FLAG : 0;
	int newfd;
	long r;

	f = fd_get_nopath(t->files, fd);
	if (!f)
		return -EBADF;
	if (flags & ~(LX_SOCK_NONBLOCK | LX_SOCK_CLOEXEC)) {
		file_put(f);
		return -EINVAL;
	}
	if (!sock_of_file(f)) {
		file_put(f);
		return -ENOTSOCK;
	}
	newfd = fd_reserve(t->files, fdflags, 0, task_nofile(t));
	if (newfd < 0) {
		file_put(f);
		return newfd;
	}
	r = sock_accept(&t->vctx, f, flags, &conn, addr.a ? &peer : NULL);
	if (r >= 0 && addr.a) {
		r = addr_out(t, &peer, addr, addrlen);
		if (r < 0)
			file_put(conn);
	}
	if (r < 0) {
		fd_unreserve(t->files, newfd);
	} else {
		fd_fill(t->files, newfd, conn);
		r = newfd;
	}
	file_put(f);
	return r;
}

long sys_accept(struct task *t, int fd, gaddr_t addr, gaddr_t addrlen)
{
	return do_accept(t, fd, addr, addrlen, 0);
}

long sys_accept4(struct task *t, int fd, gaddr_t addr, gaddr_t addrlen, int flags)
{
	return do_accept(t, fd, addr, addrlen, flags);
}

/* ---- the rest of a socket's life ---- */

/* The socket file of a descriptor: -EBADF, -ENOTSOCK. *out: a reference. */
static int sock_get(struct task *t, int fd, struct file **out)
{
	struct file *f = fd_get_nopath(t->files, fd);

	if (!f)
		return -EBADF;
	if (!sock_of_file(f)) {
		file_put(f);
		return -ENOTSOCK;
	}
	*out = f;
	return 0;
}

long sys_bind(struct task *t, int fd, gaddr_t addr, int addrlen)
{
	struct sock_addr a;
	struct file *f;
	long r = sock_get(t, fd, &f);

	if (r < 0)
		return r;
	r = addr_in(t, addr, addrlen, &a);
	if (r == 0)
		r = sock_bind(&t->vctx, f, a.bytes, a.size);
	file_put(f);
	return r;
}

long sys_connect(struct task *t, int fd, gaddr_t addr, int addrlen)
{
	struct sock_addr a;
	struct file *f;
	long r = sock_get(t, fd, &f);

	if (r < 0)
		return r;
	r = addr_in(t, addr, addrlen, &a);
	if (r == 0)
		r = sock_connect(&t->vctx, f, a.bytes, a.size);
	file_put(f);
	return r;
}

long sys_listen(struct task *t, int fd, int backlog)
{
	struct file *f;
	long r = sock_get(t, fd, &f);

	if (r < 0)
		return r;
	r = sock_listen(&t->vctx, f, backlog);
	file_put(f);
	return r;
}

long sys_shutdown(struct task *t, int fd, int how)
{
	struct file *f;
	long r = sock_get(t, fd, &f);

	if (r < 0)
		return r;
	r = sock_shutdown(&t->vctx, f, how);
	file_put(f);
	return r;
}

static long do_getname(struct task *t, int fd, gaddr_t addr, gaddr_t addrlen, bool peer)
{
	struct sock_addr a = {0};
	struct file *f;
	long r = sock_get(t, fd, &f);

	if (r < 0)
		return r;
	r = sock_getname(&t->vctx, f, peer, &a);
	if (r >= 0)
		r = addr_out(t, &a, addr, addrlen);
	file_put(f);
	return r;
}

long sys_getsockname(struct task *t, int fd, gaddr_t addr, gaddr_t addrlen)
{
	return do_getname(t, fd, addr, addrlen, false);
}

long sys_getpeername(struct task *t, int fd, gaddr_t addr, gaddr_t addrlen)
{
	return do_getname(t, fd, addr, addrlen, true);
}

/* ---- options ---- */

long sys_setsockopt(struct task *t, int fd, int level, int optname, gaddr_t optval, int optlen)
{
	struct file *f;
	void *val = NULL;
	size_t size;
	long r;

	r = sock_get(t, fd, &f);
	if (r < 0)
		return r;
	if (optlen < 0) {
		file_put(f);
		return -EINVAL;
	}
	size = MIN((size_t)optlen, OPTVAL_MAX);
	val = mem_zalloc(size ? size : 1);
	if (!val)
		r = -ENOMEM;
	else if (copy_in(t, val, optval, size) < 0)
		r = -EFAULT;
	else
		r = sock_setsockopt(&t->vctx, f, level, optname, val, size);
	mem_free(val);
	file_put(f);
	return r;
}

long sys_getsockopt(struct task *t, int fd, int level, int optname, gaddr_t optval, gaddr_t optlen)
{
	struct file *f;
	void *val = NULL;
	size_t size;
	int32_t len;
	long r = sock_get(t, fd, &f);

	if (r < 0)
		return r;
	if (copy_in(t, &len, optlen, sizeof(len)) < 0) {
		r = -EFAULT;
	} else if (len < 0) {
		r = -EINVAL;
	} else {
		size = MIN((size_t)len, OPTVAL_MAX);
		val = mem_zalloc(size ? size : 1);
		r = val ? sock_getsockopt(&t->vctx, f, level, optname, val, &size) : -ENOMEM;
		if (r >= 0) {
			len = (int32_t)size;
			if (copy_out(t, optval, val, size) < 0 ||
			    copy_out(t, optlen, &len, sizeof(len)) < 0)
				r = -EFAULT;
		}
	}
	mem_free(val);
	file_put(f);
	return r;
}

/* ---- sending ---- */

static int msg_sock_get(struct task *t, int fd, unsigned flags, struct file **out)
{
	return flags & LX_MSG_CMSG_COMPAT ? -EINVAL : sock_get(t, fd, out);
}

/* What the @i-th message of an array came to: its struct mmsghdr's msg_len. */
static int put_msg_len(struct task *t, gaddr_t mmsg, unsigned i, long bytes)
{
	const uint32_t len = (uint32_t)bytes;

	return copy_out(t,
			GADDR(mmsg.a + i * sizeof(struct lx_mmsghdr) +
			      offsetof(struct lx_mmsghdr, msg_len)),
			&len, sizeof(len));
}

/* What is not an option of a call: the flag of MSG_DONTWAIT comes with O_NONBLOCK. */
static long send_msg(struct task *t, struct file *f, struct sock_msg *m)
{
	long r;

	m->flags &= ~LX_MSG_CMSG_COMPAT;
	r = sock_sendmsg(&t->vctx, f, m);
	if (r > 0)
		t->write_bytes += (uint64_t)r;
	if (r == -EPIPE && (m->flags & LX_MSG_NOSIGNAL))
		return r;
	return task_write_signals(t, f, r);
}

long sys_sendto(struct task *t, int fd, gaddr_t buf, uint64_t len, unsigned flags, gaddr_t addr,
		int addrlen)
{
	struct user_iov v;
	struct uio u;
	struct sock_msg m = {.uio = &u, .flags = flags};
	struct file *f;
	long r = uio_from_buf(t, &u, &v, buf, MIN(len, (uint64_t)INT_MAX));

	if (r < 0)
		return r;
	r = sock_get(t, fd, &f);
	if (r == 0) {
		if (addr.a)
			r = addr_in(t, addr, addrlen, &m.addr);
		if (r == 0)
			r = send_msg(t, f, &m);
		file_put(f);
	}
	user_iov_free(&v);
	return r;
}

/* One message by its header in the guest. */
static long send_one(struct task *t, struct file *f, gaddr_t msg, unsigned flags)
{
	struct lx_msghdr h;
	struct user_iov v;
	struct uio u;
	struct sock_msg m = {.uio = &u, .flags = flags};
	long r;

	if (copy_in(t, &h, msg, sizeof(h)) < 0)
		return -EFAULT;
	if (!h.msg_name)
		h.msg_namelen = 0;
	if (h.msg_namelen < 0)
		return -EINVAL;
	r = addr_in(t, GADDR(h.msg_name), MIN(h.msg_namelen, LX_SOCKADDR_MAX), &m.addr);
	if (r < 0)
		return r;
	if (h.msg_iovlen > LX_UIO_MAXIOV)
		return -EMSGSIZE;
	r = uio_from_iovec(t, &u, &v, GADDR(h.msg_iov), h.msg_iovlen);
	if (r < 0)
		return r;
	if (h.msg_controllen > CONTROL_MAX) {
		r = -ENOBUFS;
	} else if (h.msg_controllen) {
		task_refresh_limits(t);
		m.control_size = (size_t)h.msg_controllen;
		m.control = mem_zalloc(m.control_size);
		if (!m.control)
			r = -ENOMEM;
		else
			r = copy_in(t, m.control, GADDR(h.msg_control), m.control_size);
	}
	if (r >= 0)
		r = send_msg(t, f, &m);
	mem_free(m.control);
	user_iov_free(&v);
	return r;
}

long sys_sendmsg(struct task *t, int fd, gaddr_t msg, unsigned flags)
{
	struct file *f;
	long r = msg_sock_get(t, fd, flags, &f);

	if (r < 0)
		return r;
	r = send_one(t, f, msg, flags);
	file_put(f);
	return r;
}

long sys_sendmmsg(struct task *t, int fd, gaddr_t mmsg, unsigned vlen, unsigned flags)
{
	struct file *f;
	unsigned done = 0;
	long r = msg_sock_get(t, fd, flags, &f);

	if (r < 0)
		return r;
	vlen = MIN(vlen, LX_UIO_MAXIOV);
	for (; done < vlen; done++) {
		r = send_one(t, f, GADDR(mmsg.a + done * sizeof(struct lx_mmsghdr)), flags);
		if (r >= 0)
			r = put_msg_len(t, mmsg, done, r);
		if (r < 0)
			break;
	}
	file_put(f);
	/* An error is told only if nothing was sent: else it will come again. */
	return done > 0 ? (long)done : (vlen ? r : 0);
}

/* ---- receiving ---- */

long sys_recvfrom(struct task *t, int fd, gaddr_t buf, uint64_t len, unsigned flags, gaddr_t addr,
		  gaddr_t addrlen)
{
	struct user_iov v;
	struct uio u;
	struct sock_msg m = {.uio = &u, .flags = flags};
	struct file *f;
	long r = uio_from_buf(t, &u, &v, buf, MIN(len, (uint64_t)INT_MAX));
	int err;

	if (r < 0)
		return r;
	r = sock_get(t, fd, &f);
	if (r == 0) {
		r = sock_recvmsg(&t->vctx, f, &m);
		if (r >= 0 && addr.a) {
			err = addr_out(t, &m.addr, addr, addrlen);
			if (err < 0)
				r = err;
		}
		if (r > 0)
			t->read_bytes += (uint64_t)r;
		sock_msg_fini(&m);
		file_put(f);
	}
	user_iov_free(&v);
	return r;
}

/* Writes an SCM_RIGHTS message behind the @used bytes of the control buffer at @control; the bytes
 * it took. */
static uint64_t install_rights(struct task *t, struct sock_msg *m, gaddr_t control, size_t used,
			       size_t size)
{
	unsigned fdflags = m->flags & LX_MSG_CMSG_CLOEXEC ? FD_CLOEXEC_FLAG : 0;
	unsigned room = sock_rights_room(size > used ? size - used : 0), n = 0;
	struct lx_cmsghdr head = {.cmsg_level = LX_SOL_SOCKET, .cmsg_type = LX_SCM_RIGHTS};
	uint64_t at = control.a + used;

	for (; n < m->file_count && n < room; n++) {
		int32_t fd = fd_reserve(t->files, fdflags, 0, task_nofile(t));

		if (fd < 0)
			break;
		if (copy_out(t, GADDR(at + LX_CMSG_LEN(n * sizeof(fd))), &fd, sizeof(fd)) < 0) {
			fd_unreserve(t->files, fd);
			break;
		}
		fd_fill(t->files, fd, file_get(m->files[n]));
	}
	if (n < m->file_count)
		m->out_flags |= LX_MSG_CTRUNC;
	if (n == 0)
		return 0;
	head.cmsg_len = LX_CMSG_LEN(n * sizeof(int32_t));
	/* The guest took its own buffer away meanwhile: it has the descriptors all the same. */
	if (copy_out(t, GADDR(at), &head, sizeof(head)) < 0)
		return 0;
	return MIN(LX_CMSG_SPACE(n * sizeof(int32_t)), size - used);
}

/* What is received goes to the guest's header @msg. @bytes: received. */
static long recv_finish(struct task *t, struct sock_msg *m, const struct lx_msghdr *h, gaddr_t msg,
			size_t room, long bytes)
{
	uint64_t controllen = 0;
	int32_t namelen = (int32_t)m->addr.size;

	if (h->msg_name) {
		if (copy_out(t, GADDR(h->msg_name), m->addr.bytes,
			     (size_t)MIN(h->msg_namelen, namelen)) < 0)
			return -EFAULT;
		if (copy_out(t, GADDR(msg.a + offsetof(struct lx_msghdr, msg_namelen)), &namelen,
			     sizeof(namelen)) < 0)
			return -EFAULT;
	}
	if (m->control_used) {
		if (copy_out(t, GADDR(h->msg_control), m->control, m->control_used) < 0)
			return -EFAULT;
		controllen = m->control_used;
	}
	if (m->file_count)
		controllen += install_rights(t, m, GADDR(h->msg_control), m->control_used, room);
	if (copy_out(t, GADDR(msg.a + offsetof(struct lx_msghdr, msg_flags)), &m->out_flags,
		     sizeof(m->out_flags)) < 0)
		return -EFAULT;
	if (copy_out(t, GADDR(msg.a + offsetof(struct lx_msghdr, msg_controllen)), &controllen,
		     sizeof(controllen)) < 0)
		return -EFAULT;
	return bytes;
}

static long recv_one(struct task *t, struct file *f, gaddr_t msg, unsigned flags)
{
	struct lx_msghdr h;
	struct user_iov v;
	struct uio u;
	struct sock_msg m = {.uio = &u, .flags = flags};
	size_t room;
	long r;

	if (copy_in(t, &h, msg, sizeof(h)) < 0)
		return -EFAULT;
	if (h.msg_namelen < 0)
		return -EINVAL;
	if (h.msg_iovlen > LX_UIO_MAXIOV)
		return -EMSGSIZE;
	r = uio_from_iovec(t, &u, &v, GADDR(h.msg_iov), h.msg_iovlen);
	if (r < 0)
		return r;
	room = h.msg_control ? (size_t)MIN(h.msg_controllen, (uint64_t)CONTROL_MAX) : 0;
	m.has_control = room > 0;
	m.control_size = room;
	if (room) {
		m.control = mem_zalloc(room);
		if (!m.control)
			r = -ENOMEM;
	}
	if (r >= 0)
		r = sock_recvmsg(&t->vctx, f, &m);
	if (r >= 0) {
		if (r > 0)
			t->read_bytes += (uint64_t)r;
		r = recv_finish(t, &m, &h, msg, room, r);
	}
	sock_msg_fini(&m);
	mem_free(m.control);
	user_iov_free(&v);
	return r;
}

long sys_recvmsg(struct task *t, int fd, gaddr_t msg, unsigned flags)
{
	struct file *f;
	long r = msg_sock_get(t, fd, flags, &f);

	if (r < 0)
		return r;
	r = recv_one(t, f, msg, flags);
	file_put(f);
	return r;
}

static long recv_many(struct task *t, struct file *f, gaddr_t mmsg, unsigned vlen, unsigned flags,
		      uint64_t deadline)
{
	unsigned done = 0;
	long r = 0;

	for (; done < vlen; done++) {
		r = recv_one(t, f, GADDR(mmsg.a + done * sizeof(struct lx_mmsghdr)),
			     flags & ~LX_MSG_WAITFORONE);
		if (r >= 0)
			r = put_msg_len(t, mmsg, done, r);
		if (r < 0)
			break;
		if (flags & LX_MSG_WAITFORONE)
			flags |= LX_MSG_DONTWAIT;
		/* The timeout is looked at between messages only, as in Linux. */
		if (deadline != DEADLINE_NONE && clock_mono_ns() >= deadline) {
			done++;
			break;
		}
	}
	return done > 0 ? (long)done : r;
}

long sys_recvmmsg(struct task *t, int fd, gaddr_t mmsg, unsigned vlen, unsigned flags,
		  gaddr_t timeout)
{
	uint64_t deadline;
	struct file *f;
	long r;

	if (flags & LX_MSG_CMSG_COMPAT)
		return -EINVAL;
	r = copy_in_timeout(t, timeout, &deadline);
	if (r < 0)
		return r;
	r = sock_get(t, fd, &f);
	if (r < 0)
		return r;
	r = recv_many(t, f, mmsg, MIN(vlen, LX_UIO_MAXIOV), flags, deadline);
	file_put(f);
	if (r > 0 && timeout.a) {
		const struct lx_timespec ts = deadline_remaining(deadline);

		if (copy_out(t, timeout, &ts, sizeof(ts)) < 0)
			r = -EFAULT;
	}
	return r;
}
