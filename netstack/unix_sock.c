/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_UNIX sockets: life, connections, readiness, options. See netstack/unix.h.
 *
 * References: unix(7), connect(2), listen(2), accept(2), shutdown(2).
 */
#include <errno.h>
#include <string.h>
#include "base/err.h"
#include "netstack/unix.h"

/* Before the wait queues it wakes, after everything else. */
#define RANK_PEER_WAIT 75

struct mutex g_unix = MUTEX_INIT(RANK_SOCKET);

static const struct sock_ops g_unix_ops;

/* ---- making ---- */

/* Room came in the peer's queue: those who poll us want to know. Under the peer's peer_wait.lock.
 */
static bool relay_wake(struct waiter *w, uint32_t events)
{
	struct unix_sock *u = container_of(w, struct unix_sock, relay);

	(void)events;
	waitq_wake(&u->s->wq, UNIX_OUT);
	return false;
}

static int unix_attach(struct socket *s)
{
	struct unix_sock *u = mem_zalloc(sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->s = s;
	TAILQ_INIT(&u->embryos);
	TAILQ_INIT(&u->rq);
	fmutex_init(&u->iolock);
	mutex_init(&u->rq_lock, (enum lock_rank)(RANK_SOCKET + 1));
	waitq_init(&u->peer_wait);
	mutex_fini(&u->peer_wait.lock);
	mutex_init(&u->peer_wait.lock, (enum lock_rank)RANK_PEER_WAIT);
	waiter_init_fn(&u->relay, relay_wake, 0);
	u->backlog = UNIX_QUEUE_MAX;
	u->peer_cred = (struct lx_ucred){.uid = UINT32_MAX, .gid = UINT32_MAX};
	s->priv = u;
	s->ops = &g_unix_ops;
	return 0;
}

static int unix_create(struct vfs_ctx *c, struct socket *s, int type, int protocol)
{
	(void)c;
	if (protocol && protocol != LX_AF_UNIX)
		return -EPROTONOSUPPORT;
	switch (type) {
	case LX_SOCK_RAW:
		s->type = LX_SOCK_DGRAM;
		break;
	case LX_SOCK_STREAM:
	case LX_SOCK_DGRAM:
	case LX_SOCK_SEQPACKET:
		break;
	default:
		return -ESOCKTNOSUPPORT;
	}
	/* Linux shows 0 whatever was asked. */
	s->protocol = 0;
	return unix_attach(s);
}

static void unix_destroy(struct socket *s)
{
	struct unix_sock *u = unix_of(s);

	BUG_ON(!TAILQ_EMPTY(&u->rq) || !TAILQ_EMPTY(&u->embryos));
	unix_addr_put(u->addr);
	if (u->peer_groups && ref_put(&u->peer_groups->ref))
		mem_free(u->peer_groups);
	waitq_fini(&u->peer_wait);
	fmutex_fini(&u->iolock);
	mutex_fini(&u->rq_lock);
	mem_free(u);
}

struct lx_ucred unix_own_cred(const struct vfs_ctx *c)
{
	return (struct lx_ucred){.pid = c->tgid, .uid = c->cred->uid, .gid = c->cred->gid};
}

/* Who we are, for the other side's SO_PEERCRED: effective ids, unlike in messages. */
static void set_peer_cred_locked(struct unix_sock *u, const struct vfs_ctx *c) REQUIRES(g_unix)
{
	struct cred_groups *g = c->cred->groups;

	u->peer_cred =
		(struct lx_ucred){.pid = c->tgid, .uid = c->cred->euid, .gid = c->cred->egid};
	/* A second listen: the groups of the first stay, as they could only be freed without the
	 * lock. */
	if (g && !u->peer_groups) {
		ref_get(&g->ref);
		u->peer_groups = g;
	}
}

static void copy_peer_cred_locked(struct unix_sock *to, const struct unix_sock *from)
	REQUIRES(g_unix)
{
	to->peer_cred = from->peer_cred;
	if (from->peer_groups && !to->peer_groups) {
		ref_get(&from->peer_groups->ref);
		to->peer_groups = from->peer_groups;
	}
}

/* ---- peers ---- */

struct unix_sock *unix_get_peer(struct unix_sock *u)
{
	struct unix_sock *p;

	mutex_lock(&g_unix);
	p = atomic_load(&u->peer);
	if (p)
		socket_get(p->s);
	mutex_unlock(&g_unix);
	return p;
}

bool unix_may_send_locked(const struct unix_sock *u, const struct unix_sock *to)
{
	const struct unix_sock *p = atomic_load(&to->peer);

	return !p || p == u;
}

static int unix_pair(struct vfs_ctx *c, struct socket *a, struct socket *b)
{
	struct unix_sock *ua = unix_of(a), *ub = unix_of(b);

	mutex_lock(&g_unix);
	socket_get(a);
	socket_get(b);
	atomic_store(&ua->peer, ub);
	atomic_store(&ub->peer, ua);
	set_peer_cred_locked(ua, c);
	set_peer_cred_locked(ub, c);
	ua->state = ub->state = UNIX_CONNECTED;
	mutex_unlock(&g_unix);
	return 0;
}

/* What two datagram sockets were to each other is over: what is in the queue came from another
 * association. */
static void after_disconnect(struct unix_sock *u, struct unix_sock *old)
{
	bool tell = false;

	if (unix_queue_drop(u)) {
		mutex_lock(&g_unix);
		tell = atomic_load(&old->peer) == u && !atomic_load(&old->dead);
		mutex_unlock(&g_unix);
		waitq_wake_all(&u->peer_wait, UNIX_OUT);
	}
	if (tell) {
		atomic_store(&old->s->err, ECONNRESET);
		waitq_wake_all(&old->s->wq, LX_POLLERR | UNIX_OUT | UNIX_IN);
	}
	socket_put(old->s);
}

void unix_disconnect(struct unix_sock *u, struct unix_sock *peer)
{
	bool ours;

	mutex_lock(&g_unix);
	ours = atomic_load(&u->peer) == peer;
	if (ours) {
		waitq_del(&u->relay);
		atomic_store(&u->peer, NULL);
		u->state = UNIX_CLOSE;
	}
	mutex_unlock(&g_unix);
	if (ours)
		after_disconnect(u, peer);
}

/* Whose peers are to see its credentials has a name. */
static int autobind_for_cred(struct unix_sock *u)
{
	return (atomic_load(&u->s->flags) & SKF_PASSCRED) && !u->addr ? unix_autobind(u) : 0;
}

static int connect_dgram(struct vfs_ctx *c, struct unix_sock *u, const void *addr, size_t size)
{
	struct unix_sock *other = NULL, *old;
	uint16_t family;
	int r;

	if (size < sizeof(family))
		return -EINVAL;
	memcpy(&family, addr, sizeof(family));
	if (family != LX_AF_UNSPEC) {
		r = unix_check_addr(addr, size);
		if (r)
			return r;
		r = autobind_for_cred(u);
		if (r)
			return r;
		r = unix_find(c, addr, size, u->s->type, &other);
		if (r)
			return r;
	}
	mutex_lock(&g_unix);
	if (other && atomic_load(&other->dead)) {
		r = -ECONNREFUSED;
	} else if (other && !unix_may_send_locked(u, other)) {
		r = -EPERM;
	} else {
		r = 0;
	}
	if (r) {
		mutex_unlock(&g_unix);
		socket_put(other->s);
		return r;
	}
	old = atomic_load(&u->peer);
	if (old != other)
		waitq_del(&u->relay);
	atomic_store(&u->peer, other);
	u->state = other ? UNIX_CONNECTED : UNIX_CLOSE;
	if (other)
		copy_peer_cred_locked(u, other);
	mutex_unlock(&g_unix);
	if (old && old == other)
		socket_put(old->s);
	else if (old)
		after_disconnect(u, old);
	return 0;
}

/* ---- streams: connect, listen, accept ---- */

static bool backlog_full_locked(const struct unix_sock *l) REQUIRES(g_unix)
{
	return l->embryo_count > l->backlog;
}

static bool refuses_locked(const struct unix_sock *l) REQUIRES(g_unix)
{
	return atomic_load(&l->dead) || l->state != UNIX_LISTEN ||
	       (atomic_load(&l->shut) & UNIX_SHUT_RECV);
}

/* Is it time for one who waits to connect to look again? */
static bool connect_may_go_on(const struct unix_sock *l)
{
	bool r;

	mutex_lock(&g_unix);
	r = refuses_locked(l) || !backlog_full_locked(l);
	mutex_unlock(&g_unix);
	return r;
}

/* Puts @n, the other end of @u, into the list of @l. 1: the list is full. */
static int join_locked(struct vfs_ctx *c, struct unix_sock *u, struct unix_sock *l,
		       struct unix_sock *n) REQUIRES(g_unix)
{
	if (u->state == UNIX_CONNECTED)
		return -EISCONN;
	if (u->state != UNIX_CLOSE)
		return -EINVAL;
	if (refuses_locked(l))
		return -ECONNREFUSED;
	if (backlog_full_locked(l))
		return 1;
	atomic_store(&n->peer, u);
	socket_get(u->s);
	n->state = UNIX_CONNECTED;
	n->addr = unix_addr_get(l->addr);
	n->is_embryo = true;
	set_peer_cred_locked(n, c);
	copy_peer_cred_locked(u, l);
	socket_get(n->s);
	u->state = UNIX_CONNECTED;
	atomic_store(&u->peer, n);
	/* The list takes the reference that made it. */
	TAILQ_INSERT_TAIL(&l->embryos, n, embryo);
	l->embryo_count++;
	return 0;
}

static int connect_stream(struct vfs_ctx *c, struct unix_sock *u, const void *addr, size_t size,
			  bool nonblock)
{
	uint64_t timeo = atomic_load(&u->s->sndtimeo), deadline = sock_deadline(timeo, nonblock);
	struct unix_sock *l = NULL;
	struct socket *n;
	int r = unix_check_addr(addr, size);

	if (r)
		return r;
	r = autobind_for_cred(u);
	if (r)
		return r;
	n = sock_alloc(&g_unix_family, u->s->type, 0);
	if (!n)
		return -ENOMEM;
	r = unix_attach(n);
	if (r)
		goto out;
	for (;;) {
		r = unix_find(c, addr, size, u->s->type, &l);
		if (r)
			break;
		mutex_lock(&g_unix);
		r = join_locked(c, u, l, unix_of(n));
		mutex_unlock(&g_unix);
		if (r == 0)
			n = NULL;
		if (r <= 0)
			break;
		r = nonblock ? -EAGAIN
			     : wait_event_exclusive(&l->peer_wait, UNIX_OUT, connect_may_go_on(l),
						    deadline, WAIT_INTR);
		if (r == -ETIMEDOUT)
			r = -EAGAIN;
		if (r == -ERESTARTSYS)
			r = sock_interrupted(timeo);
		if (r)
			break;
		socket_put(l->s);
		l = NULL;
	}
	if (r == 0) {
		waitq_wake(&l->s->wq, UNIX_IN);
		/* We became writable. */
		waitq_wake(&u->s->wq, UNIX_OUT);
	}
	if (l)
		socket_put(l->s);
out:
	if (n)
		sock_discard(n);
	return r;
}

static int unix_connect(struct vfs_ctx *c, struct socket *s, const void *addr, size_t size,
			bool nonblock)
{
	struct unix_sock *u = unix_of(s);

	return unix_is_connection(u) ? connect_stream(c, u, addr, size, nonblock)
				     : connect_dgram(c, u, addr, size);
}

static int unix_listen(struct vfs_ctx *c, struct socket *s, int backlog)
{
	struct unix_sock *u = unix_of(s);
	int r = 0;

	if (!unix_is_connection(u))
		return -EOPNOTSUPP;
	mutex_lock(&g_unix);
	if (!u->addr || (u->state != UNIX_CLOSE && u->state != UNIX_LISTEN)) {
		r = -EINVAL;
	} else {
		u->backlog = (unsigned)backlog;
		u->state = UNIX_LISTEN;
		set_peer_cred_locked(u, c);
		atomic_fetch_or(&s->flags, SKF_ACCEPTCONN);
	}
	mutex_unlock(&g_unix);
	if (r == 0)
		waitq_wake_all(&u->peer_wait, UNIX_OUT);
	return r;
}

static bool accept_may_go_on(struct unix_sock *u)
{
	bool r;

	mutex_lock(&g_unix);
	r = u->embryo_count > 0 || (atomic_load(&u->shut) & UNIX_SHUT_RECV);
	mutex_unlock(&g_unix);
	return r;
}

static int unix_accept(struct vfs_ctx *c, struct socket *s, bool nonblock, struct socket **out)
{
	uint64_t timeo = atomic_load(&s->rcvtimeo), deadline = sock_deadline(timeo, nonblock);
	struct unix_sock *u = unix_of(s), *n;
	int r;

	(void)c;
	if (!unix_is_connection(u))
		return -EOPNOTSUPP;
	for (;;) {
		mutex_lock(&g_unix);
		r = u->state == UNIX_LISTEN ? 0 : -EINVAL;
		n = r == 0 ? TAILQ_FIRST(&u->embryos) : NULL;
		if (n) {
			TAILQ_REMOVE(&u->embryos, n, embryo);
			u->embryo_count--;
			n->is_embryo = false;
		} else if (atomic_load(&u->shut) & UNIX_SHUT_RECV) {
			r = -EINVAL;
		}
		mutex_unlock(&g_unix);
		if (n || r)
			break;
		if (nonblock)
			return -EAGAIN;
		r = wait_event_exclusive(&s->wq, UNIX_IN, accept_may_go_on(u), deadline, WAIT_INTR);
		if (r == -ETIMEDOUT)
			return -EAGAIN;
		if (r)
			return sock_interrupted(timeo);
	}
	if (!n)
		return r;
	waitq_wake(&u->peer_wait, UNIX_OUT);
	atomic_fetch_or(&n->s->flags,
			atomic_load(&s->flags) & (SKF_PASSCRED | SKF_PASSPIDFD | SKF_PASSSEC));
	*out = n->s;
	return 0;
}

static int unix_getname(struct socket *s, bool peer, struct sock_addr *out)
{
	struct unix_sock *u = unix_of(s), *of;
	uint16_t family = LX_AF_UNIX;
	int r = 0;

	mutex_lock(&g_unix);
	of = peer ? atomic_load(&u->peer) : u;
	if (!of) {
		r = -ENOTCONN;
	} else if (of->addr) {
		out->size = of->addr->size;
		memcpy(out->bytes, &of->addr->un, of->addr->size);
	} else {
		out->size = sizeof(family);
		memcpy(out->bytes, &family, sizeof(family));
	}
	mutex_unlock(&g_unix);
	return r;
}

/* ---- ends ---- */

static int unix_shutdown(struct socket *s, int how)
{
	struct unix_sock *u = unix_of(s), *p;
	uint32_t mode = (uint32_t)how + 1, theirs = 0;

	if (mode & UNIX_SHUT_RECV)
		theirs |= UNIX_SHUT_SEND;
	if (mode & UNIX_SHUT_SEND)
		theirs |= UNIX_SHUT_RECV;
	p = unix_is_connection(u) ? unix_get_peer(u) : NULL;
	/* Under rq_lock, so that no message gets in after it. */
	mutex_lock(&u->rq_lock);
	atomic_fetch_or(&u->shut, mode);
	mutex_unlock(&u->rq_lock);
	waitq_wake_all(&s->wq, UNIX_END);
	waitq_wake_all(&u->peer_wait, UNIX_OUT);
	if (p) {
		mutex_lock(&p->rq_lock);
		atomic_fetch_or(&p->shut, theirs);
		mutex_unlock(&p->rq_lock);
		waitq_wake_all(&p->s->wq, UNIX_END);
		socket_put(p->s);
	}
	return 0;
}

static void release_path(struct unix_sock *u)
{
	struct inode *i;

	if (!u->path.dentry)
		return;
	i = u->path.dentry->inode;
	mutex_lock(&i->meta);
	if (i->sock == u)
		i->sock = NULL;
	mutex_unlock(&i->meta);
	path_put(&u->path);
	u->path = (struct path){0};
}

static void unix_release(struct socket *s)
{
	struct unix_sock *u = unix_of(s), *p, *e;
	struct unix_list embryos = TAILQ_HEAD_INITIALIZER(embryos);
	bool embryo, lost;

	mutex_lock(&g_unix);
	atomic_store(&u->dead, true);
	unix_unname_locked(u);
	u->state = UNIX_CLOSE;
	embryo = u->is_embryo;
	waitq_del(&u->relay);
	p = atomic_exchange(&u->peer, NULL);
	TAILQ_CONCAT(&embryos, &u->embryos, embryo);
	u->embryo_count = 0;
	mutex_unlock(&g_unix);
	release_path(u);
	atomic_fetch_or(&u->shut, UNIX_SHUT_BOTH);
	lost = unix_queue_drop(u);
	if (p && unix_is_connection(u)) {
		/* Data that was never read, or a connection never accepted, is a loss to be told.
		 */
		if (lost || embryo)
			atomic_store(&p->s->err, ECONNRESET);
		mutex_lock(&p->rq_lock);
		atomic_fetch_or(&p->shut, UNIX_SHUT_BOTH);
		mutex_unlock(&p->rq_lock);
		waitq_wake_all(&p->s->wq, UNIX_END);
	}
	if (p)
		socket_put(p->s);
	while ((e = TAILQ_FIRST(&embryos)) != NULL) {
		TAILQ_REMOVE(&embryos, e, embryo);
		sock_discard(e->s);
	}
	waitq_wake_all(&u->peer_wait, UNIX_OUT);
	unix_collect();
}

/* ---- readiness ---- */

bool unix_writable(struct unix_sock *u)
{
	return atomic_load(&u->charged) * 4 <= atomic_load(&u->s->sndbuf);
}

/* Is a datagram socket held up by its peer's full queue? If so, its room will wake our pollers. */
static bool peer_is_full(struct unix_sock *u)
{
	struct unix_sock *p;
	bool full = false;

	mutex_lock(&g_unix);
	p = atomic_load(&u->peer);
	if (p && atomic_load(&p->peer) != u && unix_queue_length(p) > UNIX_QUEUE_MAX) {
		if (!u->relay.q)
			waitq_add(&p->peer_wait, &u->relay);
		/* The entry hangs; room that came before it was hung up is seen here. */
		full = unix_queue_length(p) > UNIX_QUEUE_MAX && !atomic_load(&p->dead);
	}
	mutex_unlock(&g_unix);
	return full;
}

static uint32_t unix_poll(struct socket *s, struct poll_table *pt)
{
	struct unix_sock *u = unix_of(s);
	uint32_t ev = 0, shut;
	enum unix_state state;
	bool waiting;

	poll_wait(pt, &s->wq);
	mutex_lock(&g_unix);
	state = u->state;
	waiting = u->embryo_count > 0;
	mutex_unlock(&g_unix);
	shut = atomic_load(&u->shut);
	if (atomic_load(&s->err))
		ev |= LX_POLLERR;
	if (shut == UNIX_SHUT_BOTH)
		ev |= LX_POLLHUP;
	if (shut & UNIX_SHUT_RECV)
		ev |= LX_POLLRDHUP | UNIX_IN;
	if (waiting || unix_queue_length(u) > 0)
		ev |= UNIX_IN;
	if (unix_is_connection(u) && state == UNIX_CLOSE)
		ev |= LX_POLLHUP;
	if (state != UNIX_LISTEN && unix_writable(u) && (unix_is_connection(u) || !peer_is_full(u)))
		ev |= UNIX_OUT;
	return ev;
}

static long unix_ioctl(struct vfs_ctx *c, struct socket *s, unsigned cmd, uint64_t arg,
		       const struct umem *um)
{
	struct unix_sock *u = unix_of(s);
	struct unix_msg *m;
	bool listening;
	int32_t n;

	(void)c;
	switch (cmd) {
	case LX_SIOCINQ:
		mutex_lock(&g_unix);
		listening = u->state == UNIX_LISTEN;
		mutex_unlock(&g_unix);
		if (listening)
			return -EINVAL;
		mutex_lock(&u->rq_lock);
		m = TAILQ_FIRST(&u->rq);
		if (s->type == LX_SOCK_DGRAM)
			n = m ? (int32_t)(m->size - m->off) : 0;
		else
			n = (int32_t)u->rq_bytes;
		mutex_unlock(&u->rq_lock);
		break;
	case LX_SIOCOUTQ:
		n = (int32_t)atomic_load(&u->charged);
		break;
	case LX_SIOCATMARK:
		n = 0;
		break;
	default:
		return -ENOTTY;
	}
	return umem_copy_out(um, GADDR(arg), &n, sizeof(n));
}

/* ---- options ---- */

static int get_peer_groups(struct unix_sock *u, void *val, size_t *size)
{
	struct cred_groups *g;
	size_t need;
	int r = 0;

	mutex_lock(&g_unix);
	g = u->peer_groups;
	if (g)
		ref_get(&g->ref);
	mutex_unlock(&g_unix);
	if (!g)
		return -ENODATA;
	need = g->count * sizeof(uint32_t);
	if (*size < need)
		r = -ERANGE;
	else
		memcpy(val, g->gid, need);
	*size = need;
	if (ref_put(&g->ref))
		mem_free(g);
	return r;
}

static int unix_getsockopt(struct vfs_ctx *c, struct socket *s, int level, int name, void *val,
			   size_t *size)
{
	struct unix_sock *u = unix_of(s);
	struct sock_addr a;
	struct lx_ucred cred;
	int r;

	(void)c;
	if (level != LX_SOL_SOCKET)
		return -EOPNOTSUPP;
	switch (name) {
	case LX_SO_PEERCRED:
		mutex_lock(&g_unix);
		cred = u->peer_cred;
		mutex_unlock(&g_unix);
		*size = MIN(*size, sizeof(cred));
		memcpy(val, &cred, *size);
		return 0;
	case LX_SO_PEERGROUPS:
		return get_peer_groups(u, val, size);
	case LX_SO_PEERNAME:
		r = unix_getname(s, true, &a);
		if (r)
			return -ENOTCONN;
		if (a.size < *size)
			return -EINVAL;
		memcpy(val, a.bytes, *size);
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int unix_setsockopt(struct vfs_ctx *c, struct socket *s, int level, int name,
			   const void *val, size_t size)
{
	(void)c;
	(void)s;
	(void)name;
	(void)val;
	(void)size;
	return level == LX_SOL_SOCKET ? -ENOPROTOOPT : -EOPNOTSUPP;
}

static const struct sock_ops g_unix_ops = {
	.bind = unix_bind,
	.connect = unix_connect,
	.listen = unix_listen,
	.accept = unix_accept,
	.getname = unix_getname,
	.shutdown = unix_shutdown,
	.sendmsg = unix_sendmsg,
	.recvmsg = unix_recvmsg,
	.setsockopt = unix_setsockopt,
	.getsockopt = unix_getsockopt,
	.ioctl = unix_ioctl,
	.poll = unix_poll,
	.release = unix_release,
	.destroy = unix_destroy,
};

static const char *unix_name(int type)
{
	return type == LX_SOCK_STREAM ? "UNIX-STREAM" : "UNIX";
}

const struct sock_family g_unix_family = {
	.family = LX_AF_UNIX,
	.create = unix_create,
	.name = unix_name,
	.pair = unix_pair,
};
