/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets, the part that all families share: the table of families, the file, the calls. See
 * netstack/socket.h.
 *
 * Theory of operation: the file holds one reference to its struct socket. When the file goes, the
 * family's release ends the socket's life for the outside; the struct stays until those who still
 * point at it (a peer, data under way) have let go, and then the family's destroy frees what hangs
 * on it.
 *
 * Locking: none of its own; options are atomics.
 *
 * References: socket(2), socket(7), and the manual pages of the calls.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/lx_fcntl.h"
#include "base/lx_time.h"
#include "netstack/socket.h"
#include "netstack/unix.h"
#include "vfs/xattr.h"

#define BUF_DEFAULT 212992u

static const struct sock_family *g_families[LX_AF_MAX]; /* written at start only */
static _Atomic uint64_t g_cookie;
static const struct file_ops g_sock_fops;

void sock_family_register(const struct sock_family *f)
{
	BUG_ON(f->family <= 0 || f->family >= LX_AF_MAX);
	g_families[f->family] = f;
}

void netstack_init(void)
{
	sock_family_register(&g_unix_family);
}

/* ---- life ---- */

struct socket *sock_alloc(const struct sock_family *fam, int type, int protocol)
{
	struct socket *s = mem_zalloc(sizeof(*s));

	if (!s)
		return NULL;
	ref_init(&s->ref);
	s->family = fam;
	s->type = type;
	s->protocol = protocol;
	waitq_init(&s->wq);
	atomic_init(&s->sndbuf, BUF_DEFAULT);
	atomic_init(&s->rcvbuf, BUF_DEFAULT);
	atomic_init(&s->rcvlowat, 1);
	atomic_init(&s->peek_off, -1);
	s->cookie = atomic_fetch_add(&g_cookie, 1) + 1;
	return s;
}

struct socket *socket_get(struct socket *s)
{
	ref_get(&s->ref);
	return s;
}

void socket_put(struct socket *s)
{
	if (!ref_put(&s->ref))
		return;
	if (s->ops)
		s->ops->destroy(s);
	waitq_fini(&s->wq);
	mem_free(s);
}

void sock_discard(struct socket *s)
{
	if (s->ops)
		s->ops->release(s);
	socket_put(s);
}

/* The one attribute that sockets have. */
static ssize_t sock_getxattr(struct inode *i, const char *name, void *buf, size_t size)
{
	const char *value = i->priv;
	const size_t n = strlen(value) + 1;

	if (strcmp(name, XATTR_SOCKPROTONAME) != 0)
		return -EOPNOTSUPP;
	if (size > 0 && size < n)
		return -ERANGE;
	if (size > 0)
		memcpy(buf, value, n);
	return (ssize_t)n;
}

static ssize_t sock_listxattr(struct inode *i UNUSED, char *buf, size_t size)
{
	if (size > 0 && size < sizeof(XATTR_SOCKPROTONAME))
		return -ERANGE;
	if (size > 0)
		memcpy(buf, XATTR_SOCKPROTONAME, sizeof(XATTR_SOCKPROTONAME));
	return sizeof(XATTR_SOCKPROTONAME);
}

static const struct inode_ops g_sock_inode_ops = {
	.getxattr = sock_getxattr,
	.listxattr = sock_listxattr,
};

int sock_make_file(struct vfs_ctx *c, struct socket *s, uint32_t flags, struct file **out)
{
	struct inode *i = inode_new(anon_super(), LX_S_IFSOCK | 0777);
	char name[32];

	if (!i)
		return -ENOMEM;
	i->uid = c->cred->fsuid;
	i->gid = c->cred->fsgid;
	i->ops = &g_sock_inode_ops;
	i->priv = (void *)(uintptr_t)s->family->name(s->type);
	snprintf(name, sizeof(name), "socket:[%lu]", (unsigned long)i->ino);
	*out = file_new_anon(c, i, name, &g_sock_fops, FMODE_READ | FMODE_WRITE,
			     LX_O_RDWR | (flags & LX_O_NONBLOCK), s);
	if (!*out)
		return -ENFILE;
	s->file = *out;
	return 0;
}

struct socket *sock_of_file(const struct file *f)
{
	return f->ops == &g_sock_fops ? f->priv : NULL;
}

/* ---- for families ---- */

int sock_error(struct socket *s)
{
	/* Mostly there is none: no write to the line then. */
	if (atomic_load_explicit(&s->err, memory_order_relaxed) == 0)
		return 0;
	return -atomic_exchange(&s->err, 0);
}

uint64_t sock_deadline(uint64_t timeo, bool nonblock)
{
	uint64_t now;

	if (nonblock || timeo == SOCK_TIMEO_NOW)
		return 0;
	if (timeo == 0)
		return DEADLINE_NONE;
	now = clock_mono_ns();
	return timeo > (DEADLINE_NONE - now) / LX_TICK_NS ? DEADLINE_NONE
							  : now + timeo * LX_TICK_NS;
}

int sock_interrupted(uint64_t timeo)
{
	return timeo ? -EINTR : -ERESTARTSYS;
}

void sock_put_cmsg(struct sock_msg *m, int level, int type, const void *data, size_t size)
{
	size_t room = m->has_control ? m->control_size - m->control_used : 0;
	struct lx_cmsghdr h = {.cmsg_level = level, .cmsg_type = type};
	char *at = (char *)m->control + m->control_used;

	if (room < sizeof(h)) {
		m->out_flags |= LX_MSG_CTRUNC;
		return;
	}
	h.cmsg_len = LX_CMSG_LEN(size);
	if (h.cmsg_len > room) {
		m->out_flags |= LX_MSG_CTRUNC;
		h.cmsg_len = room;
		size = room - sizeof(h);
	}
	memcpy(at, &h, sizeof(h));
	memcpy(at + sizeof(h), data, size);
	/* The padding is the guest's to see: not what was there before. */
	size_t space = MIN((size_t)LX_CMSG_SPACE(size), room);

	memset(at + h.cmsg_len, 0, space - (size_t)h.cmsg_len);
	m->control_used += space;
}

void sock_msg_fini(struct sock_msg *m)
{
	for (unsigned i = 0; i < m->file_count; i++)
		file_put(m->files[i]);
	mem_free(m->files);
	m->files = NULL;
	m->file_count = 0;
}

unsigned sock_rights_room(size_t room)
{
	if (room <= sizeof(struct lx_cmsghdr))
		return 0;
	return (unsigned)MIN((room - sizeof(struct lx_cmsghdr)) / sizeof(int32_t),
			     (size_t)LX_SCM_MAX_FD);
}

/* ---- making ---- */

static int sock_make(struct vfs_ctx *c, int family, int type, int protocol, struct socket **out)
{
	const struct sock_family *fam;
	struct socket *s;
	int r;

	if (family < 0 || family >= LX_AF_MAX)
		return -EAFNOSUPPORT;
	if (type < 0 || type >= LX_SOCK_MAX)
		return -EINVAL;
	fam = g_families[family];
	if (!fam)
		return -EAFNOSUPPORT;
	s = sock_alloc(fam, type, protocol);
	if (!s)
		return -ENOMEM;
	r = fam->create(c, s, type, protocol);
	if (r) {
		socket_put(s);
		return r;
	}
	*out = s;
	return 0;
}

static int check_type_flags(int type)
{
	return (type & ~(LX_SOCK_TYPE_MASK | LX_SOCK_NONBLOCK | LX_SOCK_CLOEXEC)) ? -EINVAL : 0;
}

int sock_create(struct vfs_ctx *c, int family, int type, int protocol, struct file **out)
{
	struct socket *s;
	int r = check_type_flags(type);

	if (r)
		return r;
	r = sock_make(c, family, type & LX_SOCK_TYPE_MASK, protocol, &s);
	if (r)
		return r;
	r = sock_make_file(c, s, (uint32_t)type, out);
	if (r)
		sock_discard(s);
	return r;
}

int sock_create_pair(struct vfs_ctx *c, int family, int type, int protocol, struct file *out[2])
{
	struct socket *s[2];
	int r = check_type_flags(type);

	if (r)
		return r;
	r = sock_make(c, family, type & LX_SOCK_TYPE_MASK, protocol, &s[0]);
	if (r)
		return r;
	r = sock_make(c, family, type & LX_SOCK_TYPE_MASK, protocol, &s[1]);
	if (r) {
		sock_discard(s[0]);
		return r;
	}
	r = s[0]->family->pair ? s[0]->family->pair(c, s[0], s[1]) : -EOPNOTSUPP;
	if (r == 0)
		r = sock_make_file(c, s[0], (uint32_t)type, &out[0]);
	if (r) {
		sock_discard(s[0]);
		sock_discard(s[1]);
		return r;
	}
	r = sock_make_file(c, s[1], (uint32_t)type, &out[1]);
	if (r) {
		file_put(out[0]);
		sock_discard(s[1]);
	}
	return r;
}

/* ---- the calls ---- */

static bool is_nonblocking(const struct file *f)
{
	return atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_NONBLOCK;
}

int sock_bind(struct vfs_ctx *c, struct file *f, const void *addr, size_t size)
{
	struct socket *s = sock_of_file(f);

	if (!s)
		return -ENOTSOCK;
	if (size > LX_SOCKADDR_MAX)
		return -EINVAL;
	return s->ops->bind ? s->ops->bind(c, s, addr, size) : -EOPNOTSUPP;
}

int sock_connect(struct vfs_ctx *c, struct file *f, const void *addr, size_t size)
{
	struct socket *s = sock_of_file(f);

	if (!s)
		return -ENOTSOCK;
	if (size > LX_SOCKADDR_MAX)
		return -EINVAL;
	return s->ops->connect ? s->ops->connect(c, s, addr, size, is_nonblocking(f)) : -EOPNOTSUPP;
}

int sock_listen(struct vfs_ctx *c, struct file *f, int backlog)
{
	struct socket *s = sock_of_file(f);

	if (!s)
		return -ENOTSOCK;
	if ((unsigned)backlog > LX_SOMAXCONN)
		backlog = LX_SOMAXCONN;
	return s->ops->listen ? s->ops->listen(c, s, backlog) : -EOPNOTSUPP;
}

int sock_accept(struct vfs_ctx *c, struct file *f, int flags, struct file **out,
		struct sock_addr *peer)
{
	struct socket *s = sock_of_file(f), *n;
	int r;

	if (flags & ~(LX_SOCK_CLOEXEC | LX_SOCK_NONBLOCK))
		return -EINVAL;
	if (!s)
		return -ENOTSOCK;
	if (!s->ops->accept)
		return -EOPNOTSUPP;
	r = s->ops->accept(c, s, is_nonblocking(f), &n);
	if (r)
		return r;
	if (peer) {
		peer->size = 0;
		/* One that hung up already has no name any more; Linux gives ECONNABORTED. */
		if (n->ops->getname && n->ops->getname(n, true, peer) != 0) {
			sock_discard(n);
			return -ECONNABORTED;
		}
	}
	r = sock_make_file(c, n, (uint32_t)flags, out);
	if (r)
		sock_discard(n);
	return r;
}

int sock_getname(struct vfs_ctx *c, struct file *f, bool peer, struct sock_addr *out)
{
	struct socket *s = sock_of_file(f);

	(void)c;
	if (!s)
		return -ENOTSOCK;
	return s->ops->getname ? s->ops->getname(s, peer, out) : -EOPNOTSUPP;
}

int sock_shutdown(struct vfs_ctx *c, struct file *f, int how)
{
	struct socket *s = sock_of_file(f);

	(void)c;
	if (!s)
		return -ENOTSOCK;
	if (how < LX_SHUT_RD || how > LX_SHUT_RDWR)
		return -EINVAL;
	return s->ops->shutdown ? s->ops->shutdown(s, how) : -EOPNOTSUPP;
}

static void msg_begin(const struct file *f, struct sock_msg *m)
{
	if (is_nonblocking(f))
		m->flags |= LX_MSG_DONTWAIT;
	if (m->uio->resid > UIO_MAX_COUNT)
		m->uio->resid = UIO_MAX_COUNT;
}

ssize_t sock_sendmsg(struct vfs_ctx *c, struct file *f, struct sock_msg *m)
{
	struct socket *s = sock_of_file(f);

	if (!s)
		return -ENOTSOCK;
	msg_begin(f, m);
	return s->ops->sendmsg ? s->ops->sendmsg(c, s, m) : -EOPNOTSUPP;
}

ssize_t sock_recvmsg(struct vfs_ctx *c, struct file *f, struct sock_msg *m)
{
	struct socket *s = sock_of_file(f);

	if (!s)
		return -ENOTSOCK;
	msg_begin(f, m);
	m->out_flags |= m->flags & LX_MSG_CMSG_CLOEXEC;
	return s->ops->recvmsg ? s->ops->recvmsg(c, s, m) : -EOPNOTSUPP;
}

int sock_setsockopt(struct vfs_ctx *c, struct file *f, int level, int name, const void *val,
		    size_t size)
{
	struct socket *s = sock_of_file(f);
	int r = -ENOPROTOOPT;

	if (!s)
		return -ENOTSOCK;
	if (level == LX_SOL_SOCKET)
		r = sock_set_common(c, s, name, val, size);
	else if (!s->ops->setsockopt)
		return -EOPNOTSUPP;
	if (r == -ENOPROTOOPT && s->ops->setsockopt)
		r = s->ops->setsockopt(c, s, level, name, val, size);
	return r;
}

int sock_getsockopt(struct vfs_ctx *c, struct file *f, int level, int name, void *val, size_t *size)
{
	struct socket *s = sock_of_file(f);
	int r = -ENOPROTOOPT;

	if (!s)
		return -ENOTSOCK;
	if (level == LX_SOL_SOCKET)
		r = sock_get_common(s, name, val, size);
	else if (!s->ops->getsockopt)
		return -EOPNOTSUPP;
	if (r == -ENOPROTOOPT && s->ops->getsockopt)
		r = s->ops->getsockopt(c, s, level, name, val, size);
	return r;
}

/* ---- the file ---- */

static ssize_t sock_file_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct sock_msg m = {.uio = u};
	ssize_t r;

	(void)pos;
	if (u->resid == 0)
		return 0;
	r = sock_recvmsg(g_vfs_hooks->current_ctx(), f, &m);
	sock_msg_fini(&m);
	return r;
}

static ssize_t sock_file_write(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *pos)
{
	struct sock_msg m = {.uio = u};

	(void)pos;
	if (sock_of_file(f)->type == LX_SOCK_SEQPACKET)
		m.flags |= LX_MSG_EOR;
	return sock_sendmsg(c, f, &m);
}

static uint32_t sock_file_poll(struct file *f, struct poll_table *pt)
{
	struct socket *s = f->priv;

	return s->ops->poll(s, pt);
}

static int set_owner(struct file *f, uint64_t arg, const struct umem *um)
{
	struct vfs_ctx *c = g_vfs_hooks->current_ctx();
	int32_t pid;
	int r = umem_copy_in(um, &pid, GADDR(arg), sizeof(pid));

	if (r)
		return r;
	if (pid == INT32_MIN)
		return -EINVAL;
	mutex_lock(&f->lock);
	f->own.type = pid < 0 ? 2 : 1;
	f->own.pid = pid < 0 ? -pid : pid;
	if (c) {
		f->own.uid = c->cred->uid;
		f->own.euid = c->cred->euid;
	}
	mutex_unlock(&f->lock);
	return 0;
}

static long sock_file_ioctl(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg,
			    const struct umem *um)
{
	struct socket *s = f->priv;
	int32_t n;

	switch (cmd) {
	case LX_FIOSETOWN:
	case LX_SIOCSPGRP:
		return set_owner(f, arg, um);
	case LX_FIOGETOWN:
	case LX_SIOCGPGRP:
		mutex_lock(&f->lock);
		n = f->own.type == 2 ? -f->own.pid : f->own.pid;
		mutex_unlock(&f->lock);
		return umem_copy_out(um, GADDR(arg), &n, sizeof(n));
	default:
		return s->ops->ioctl ? s->ops->ioctl(c, s, cmd, arg, um) : -ENOTTY;
	}
}

static void sock_file_release(struct file *f)
{
	struct socket *s = f->priv;

	s->ops->release(s);
	s->file = NULL;
	socket_put(s);
}

static const struct file_ops g_sock_fops = {
	.read = sock_file_read,
	.write = sock_file_write,
	.poll = sock_file_poll,
	.ioctl = sock_file_ioctl,
	.release = sock_file_release,
	.stream = true,
};
