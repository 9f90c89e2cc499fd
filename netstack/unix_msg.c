/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_UNIX: sending and receiving. See netstack/unix.h.
 *
 * Theory of operation: data is copied from the sender's memory into a message with no lock held,
 * then the message goes into the receiver's queue. A receiver holds iolock, so that the first
 * message stays while its data is copied out without rq_lock; senders only append: behind it, or to
 * the end of the last one's data.
 *
 * Accounts: a message charges its sender for its size and a flat overhead until it is freed. A
 * sender with SO_SNDBUF or more under way waits until three quarters of it are consumed, so that
 * both sides work in batches.
 *
 * References: unix(7), send(2), recv(2).
 */
#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "base/meter.h"
#include "netstack/unix.h"

/* What a message costs beside its data. */
#define OVERHEAD ((size_t)512)
#define CHUNK_MAX ((size_t)32768)
/* Writes up to this are joined, via a buffer on the stack; a message made for one has room for
 * more. */
#define SMALL ((size_t)512)
#define SMALL_ROOM ((size_t)2048)
#define SO_TIMESTAMP_CMSG LX_SO_TIMESTAMP
#define SO_TIMESTAMPNS_CMSG LX_SO_TIMESTAMPNS

/* ---- messages ---- */

static struct unix_msg *msg_new(struct unix_sock *from, size_t room)
{
	struct unix_msg *m;

	if (!meter_charge(METER_buffers, sizeof(*m) + room))
		return NULL;
	m = mem_realloc(NULL, sizeof(*m) + room);
	if (!m) {
		meter_uncharge(METER_buffers, sizeof(*m) + room);
		return NULL;
	}
	memset(m, 0, sizeof(*m));
	m->room = room;
	m->from = from;
	socket_get(from->s);
	m->charge = OVERHEAD;
	return m;
}

/* The sender has @n less under way. */
static void uncharge(struct unix_sock *from, uint64_t n)
{
	uint64_t quarter = atomic_load(&from->s->sndbuf) / 4;
	uint64_t old = atomic_fetch_sub(&from->charged, n);

	if (old > quarter && old - n <= quarter)
		waitq_wake(&from->s->wq, UNIX_OUT);
}

/* Frees one that was never charged for. */
static void msg_discard(struct unix_msg *m)
{
	if (m->files)
		unix_drop_files(m->files);
	unix_addr_put(m->addr);
	socket_put(m->from->s);
	meter_uncharge(METER_buffers, sizeof(*m) + m->room);
	mem_free(m);
}

void unix_msg_free(struct unix_msg *m)
{
	uncharge(m->from, m->charge);
	msg_discard(m);
}

static void enqueue_locked(struct unix_sock *to, struct unix_msg *m) REQUIRES(to->rq_lock)
{
	TAILQ_INSERT_TAIL(&to->rq, m, link);
	to->rq_bytes += m->size;
	atomic_fetch_add(&to->rq_count, 1);
	atomic_fetch_add(&m->from->charged, m->charge);
}

static void dequeue_locked(struct unix_sock *u, struct unix_msg *m) REQUIRES(u->rq_lock)
{
	TAILQ_REMOVE(&u->rq, m, link);
	u->rq_bytes -= m->size - m->off;
	atomic_fetch_sub(&u->rq_count, 1);
}

bool unix_queue_drop(struct unix_sock *u)
{
	struct unix_queue q = TAILQ_HEAD_INITIALIZER(q);
	struct unix_msg *m;
	bool any;

	/* A reader may be copying from the first one. */
	fmutex_lock(&u->iolock);
	mutex_lock(&u->rq_lock);
	TAILQ_CONCAT(&q, &u->rq, link);
	u->rq_bytes = 0;
	atomic_store(&u->rq_count, 0);
	mutex_unlock(&u->rq_lock);
	fmutex_unlock(&u->iolock);
	any = !TAILQ_EMPTY(&q);
	while ((m = TAILQ_FIRST(&q)) != NULL) {
		TAILQ_REMOVE(&q, m, link);
		unix_msg_free(m);
	}
	return any;
}

/* ---- waiting ---- */

struct patience {
	bool nonblock;
	uint64_t timeo, deadline;
};

static struct patience patience_of(_Atomic uint64_t *timeo, const struct sock_msg *m)
{
	struct patience p = {.nonblock = m->flags & LX_MSG_DONTWAIT, .timeo = atomic_load(timeo)};

	p.deadline = sock_deadline(p.timeo, p.nonblock);
	return p;
}

/* What a wait that ended with @r means for the caller; 0: go on. */
static int patience_result(const struct patience *p, int r)
{
	if (r == -ETIMEDOUT)
		return -EAGAIN;
	if (r == -ERESTARTSYS)
		return sock_interrupted(p->timeo);
	return r;
}

static bool has_room(struct unix_sock *u)
{
	return atomic_load(&u->charged) < atomic_load(&u->s->sndbuf);
}

static bool send_may_go_on(struct unix_sock *u)
{
	return has_room(u) || atomic_load(&u->s->err) || (atomic_load(&u->shut) & UNIX_SHUT_SEND);
}

/* Waits until the sender may have another message under way. */
static int wait_room(struct unix_sock *u, const struct patience *p)
{
	for (;;) {
		int r = sock_error(u->s);

		if (r)
			return r;
		if (atomic_load(&u->shut) & UNIX_SHUT_SEND)
			return -EPIPE;
		if (has_room(u))
			return 0;
		if (p->nonblock)
			return -EAGAIN;
		r = wait_event_mask(&u->s->wq, UNIX_OUT | LX_POLLERR | LX_POLLHUP,
				    send_may_go_on(u), p->deadline, WAIT_INTR);
		if (r)
			return patience_result(p, r);
	}
}

static bool recv_may_go_on(struct unix_sock *u)
{
	return unix_queue_length(u) > 0 || atomic_load(&u->s->err) ||
	       (atomic_load(&u->shut) & UNIX_SHUT_RECV);
}

static int wait_data(struct unix_sock *u, const struct patience *p)
{
	int r = wait_event_exclusive(&u->s->wq, UNIX_IN | LX_POLLERR | LX_POLLHUP,
				     recv_may_go_on(u), p->deadline, WAIT_INTR);

	return patience_result(p, r);
}

static void wake_reader(struct unix_sock *to)
{
	waitq_wake(&to->s->wq, UNIX_IN);
}

/* ---- streams: sending ---- */

static bool same_cred(const struct lx_ucred *a, const struct lx_ucred *b)
{
	return a->pid == b->pid && a->uid == b->uid && a->gid == b->gid;
}

static bool closed_to_us(struct unix_sock *to)
{
	return atomic_load(&to->dead) || (atomic_load(&to->shut) & UNIX_SHUT_RECV);
}

/* Joins a small write to the last message. 1: done; 0: there is none that it fits; -EPIPE. */
static int append_small(struct unix_sock *u, struct unix_sock *to, const void *data, size_t n,
			const struct lx_ucred *cred)
{
	struct unix_msg *last;
	int r = 0;

	mutex_lock(&to->rq_lock);
	last = TAILQ_LAST(&to->rq, unix_queue);
	if (closed_to_us(to)) {
		r = -EPIPE;
	} else if (last && last->from == u && !last->files && last->room - last->size >= n &&
		   same_cred(&last->cred, cred)) {
		memcpy(last->data + last->size, data, n);
		last->size += n;
		last->charge += n;
		to->rq_bytes += n;
		atomic_fetch_add(&u->charged, n);
		r = 1;
	}
	mutex_unlock(&to->rq_lock);
	return r;
}

/* Sends @n bytes of the user's as one message. Takes scm's files on success. */
static int send_chunk(struct unix_sock *u, struct unix_sock *to, struct uio *io, size_t n,
		      struct scm *scm)
{
	struct unix_msg *m;
	char small[SMALL];
	int r;

	if (n <= SMALL) {
		if (uio_get(io, small, n) != (ssize_t)n)
			return -EFAULT;
		r = scm->files ? 0 : append_small(u, to, small, n, &scm->cred);
		if (r)
			return r < 0 ? r : 0;
	}
	m = msg_new(u, n <= SMALL ? SMALL_ROOM : n);
	if (!m)
		return -ENOBUFS;
	if (n <= SMALL) {
		memcpy(m->data, small, n);
	} else if (uio_get(io, m->data, n) != (ssize_t)n) {
		msg_discard(m);
		return -EFAULT;
	}
	m->size = n;
	m->charge += n;
	m->cred = scm->cred;
	mutex_lock(&to->rq_lock);
	r = closed_to_us(to) ? -EPIPE : 0;
	if (r == 0) {
		m->files = scm->files;
		scm->files = NULL;
		enqueue_locked(to, m);
	}
	mutex_unlock(&to->rq_lock);
	if (r)
		msg_discard(m);
	return r;
}

static ssize_t send_stream(struct unix_sock *u, struct sock_msg *m, struct scm *scm)
{
	struct patience p = patience_of(&u->s->sndtimeo, m);
	struct unix_sock *to = atomic_load(&u->peer);
	ssize_t sent = 0;
	int r = 0;

	if (m->addr.size)
		return to ? -EISCONN : -EOPNOTSUPP;
	if (!to)
		return -ENOTCONN;
	if (atomic_load(&u->shut) & UNIX_SHUT_SEND)
		return -EPIPE;
	while (m->uio->resid > 0) {
		/* Not more than half of the buffer at once, so that both ends have something to do.
		 */
		size_t half = atomic_load(&u->s->sndbuf) / 2 - 64;
		size_t n = (size_t)MIN(m->uio->resid, (uint64_t)MIN(half, CHUNK_MAX));

		r = wait_room(u, &p);
		if (r == 0)
			r = send_chunk(u, to, m->uio, n, scm);
		if (r)
			break;
		sent += (ssize_t)n;
		wake_reader(to);
	}
	return sent ? sent : r;
}

/* ---- datagrams and seqpackets: sending ---- */

static bool queue_is_full(struct unix_sock *u, struct unix_sock *to)
{
	return to != u && atomic_load(&to->peer) != u && unix_queue_length(to) > UNIX_QUEUE_MAX;
}

/* Is it time for one who waits for room in @to's queue to look again? */
static bool queue_may_take(struct unix_sock *u, struct unix_sock *to)
{
	return !queue_is_full(u, to) || closed_to_us(to);
}

/* 0: sent. 1: the queue is full. */
static int deliver(struct unix_sock *u, struct unix_sock *to, struct unix_msg *m)
{
	uint32_t flags = atomic_load(&to->s->flags);
	int r;

	mutex_lock(&g_unix);
	if (!unix_is_connection(u) && !unix_may_send_locked(u, to)) {
		r = -EPERM;
	} else if (atomic_load(&to->dead)) {
		r = unix_is_connection(u) ? -EPIPE : -ECONNREFUSED;
	} else if (queue_is_full(u, to)) {
		r = 1;
	} else {
		if (!m->addr)
			m->addr = unix_addr_get(u->addr);
		if (flags & (SKF_TIMESTAMP | SKF_TIMESTAMPNS))
			m->time_ns = (int64_t)clock_real_ns();
		mutex_lock(&to->rq_lock);
		r = closed_to_us(to) ? -EPIPE : 0;
		if (r == 0)
			enqueue_locked(to, m);
		mutex_unlock(&to->rq_lock);
	}
	mutex_unlock(&g_unix);
	return r;
}

/* Delivers @m, waiting for room. On failure it stays the caller's. */
static int deliver_waiting(struct unix_sock *u, struct unix_sock *to, struct unix_msg *m,
			   const struct patience *p)
{
	for (;;) {
		int r = deliver(u, to, m);

		if (r <= 0)
			return r;
		if (p->nonblock)
			return -EAGAIN;
		r = wait_event_exclusive(&to->peer_wait, UNIX_OUT, queue_may_take(u, to),
					 p->deadline, WAIT_INTR);
		if (r)
			return patience_result(p, r);
	}
}

static int find_receiver(struct vfs_ctx *c, struct unix_sock *u, struct sock_msg *m,
			 struct unix_sock **out)
{
	int r;

	if (unix_is_connection(u) || !m->addr.size) {
		*out = unix_get_peer(u);
		return *out ? 0 : -ENOTCONN;
	}
	r = unix_check_addr(m->addr.bytes, m->addr.size);
	return r ? r : unix_find(c, m->addr.bytes, m->addr.size, u->s->type, out);
}

static ssize_t send_packet(struct vfs_ctx *c, struct unix_sock *u, struct sock_msg *m,
			   struct scm *scm)
{
	struct patience p = patience_of(&u->s->sndtimeo, m);
	size_t size = (size_t)m->uio->resid;
	struct unix_sock *to = NULL;
	struct unix_msg *msg = NULL;
	bool connected = unix_is_connection(u) || !m->addr.size;
	int r;

	if (m->addr.size && !unix_is_connection(u)) {
		r = unix_check_addr(m->addr.bytes, m->addr.size);
		if (r)
			return r;
	} else if (!atomic_load(&u->peer)) {
		return -ENOTCONN;
	}
	if ((atomic_load(&u->s->flags) & SKF_PASSCRED) && !u->addr) {
		r = unix_autobind(u);
		if (r)
			return r;
	}
	if (size > atomic_load(&u->s->sndbuf) - 32)
		return -EMSGSIZE;
	r = wait_room(u, &p);
	if (r)
		return r;
	msg = msg_new(u, size);
	if (!msg)
		return -ENOBUFS;
	if (size && uio_get(m->uio, msg->data, size) != (ssize_t)size) {
		r = -EFAULT;
		goto out;
	}
	msg->size = size;
	msg->charge += size;
	msg->cred = scm->cred;
	r = find_receiver(c, u, m, &to);
	if (r)
		goto out;
	msg->files = scm->files;
	r = deliver_waiting(u, to, msg, &p);
	if (r) {
		msg->files = NULL;
		if (r == -ECONNREFUSED && connected)
			unix_disconnect(u, to);
		goto out;
	}
	scm->files = NULL;
	msg = NULL;
	wake_reader(to);
out:
	if (msg)
		msg_discard(msg);
	if (to)
		socket_put(to->s);
	return r ? r : (ssize_t)size;
}

ssize_t unix_sendmsg(struct vfs_ctx *c, struct socket *s, struct sock_msg *m)
{
	struct unix_sock *u = unix_of(s);
	struct scm scm;
	ssize_t r = scm_parse(c, m, &scm);

	if (r)
		return r;
	if (m->flags & LX_MSG_OOB)
		r = -EOPNOTSUPP;
	else if (s->type == LX_SOCK_STREAM)
		r = send_stream(u, m, &scm);
	else
		r = send_packet(c, u, m, &scm);
	scm_fini(&scm);
	return r;
}

/* ---- receiving: what comes with the data ---- */

static void tell_cred(struct unix_sock *u, struct sock_msg *m, const struct lx_ucred *cred)
{
	if (atomic_load(&u->s->flags) & SKF_PASSCRED)
		sock_put_cmsg(m, LX_SOL_SOCKET, LX_SCM_CREDENTIALS, cred, sizeof(*cred));
}

/* Gives @fp, which is out of its message, to the caller of recvmsg. */
static void tell_files(struct sock_msg *m, struct scm_files *fp)
{
	if (!m->has_control) {
		m->out_flags |= LX_MSG_CTRUNC;
		unix_drop_files(fp);
		return;
	}
	m->files = mem_dup(fp->file, fp->count * sizeof(fp->file[0]));
	if (!m->files) {
		m->out_flags |= LX_MSG_CTRUNC;
		unix_drop_files(fp);
		return;
	}
	unix_uncount_files(fp);
	m->file_count = fp->count;
	mem_free(fp);
}

static void tell_time(struct unix_sock *u, struct sock_msg *m, int64_t ns)
{
	uint32_t flags = atomic_load(&u->s->flags);

	if (!ns)
		return;
	if (flags & SKF_TIMESTAMP) {
		struct lx_timeval tv = {.tv_sec = ns / (int64_t)NSEC_PER_SEC,
					.tv_usec = ns % (int64_t)NSEC_PER_SEC / 1000};

		sock_put_cmsg(m, LX_SOL_SOCKET, SO_TIMESTAMP_CMSG, &tv, sizeof(tv));
	} else if (flags & SKF_TIMESTAMPNS) {
		struct lx_timespec ts = {.tv_sec = ns / (int64_t)NSEC_PER_SEC,
					 .tv_nsec = ns % (int64_t)NSEC_PER_SEC};

		sock_put_cmsg(m, LX_SOL_SOCKET, SO_TIMESTAMPNS_CMSG, &ts, sizeof(ts));
	}
}

static void tell_addr(struct sock_msg *m, const struct unix_addr *a)
{
	m->addr.size = 0;
	if (!a)
		return;
	m->addr.size = a->size;
	memcpy(m->addr.bytes, &a->un, a->size);
}

/* ---- streams: receiving ---- */

/* One receive in progress. */
struct reading {
	struct sock_msg *m;
	bool peek;
	bool has_cred; /* cred is of what was read so far */
	struct lx_ucred cred;
	struct scm_files *files;
	struct unix_msg *at; /* peek: the last message that was looked at */
	ssize_t copied;
};

enum step { STEP_AGAIN, STEP_EMPTY, STEP_STOP, STEP_FAULT };

/* Takes out, or copies, what the next message has for us. iolock held. */
static enum step read_message(struct unix_sock *u, struct reading *rd)
{
	bool passcred = atomic_load(&u->s->flags) & SKF_PASSCRED, done = false;
	struct scm_files *fp = NULL;
	struct unix_msg *m;
	size_t n, off, avail;
	ssize_t r;

	mutex_lock(&u->rq_lock);
	m = rd->at ? TAILQ_NEXT(rd->at, link) : TAILQ_FIRST(&u->rq);
	off = m ? m->off : 0;
	avail = m ? m->size - m->off : 0;
	mutex_unlock(&u->rq_lock);
	if (!m)
		return STEP_EMPTY;
	/* Bytes of different writers are not mixed for one who wants to know whose they are. */
	if (passcred && rd->has_cred && !same_cred(&rd->cred, &m->cred))
		return STEP_STOP;
	rd->cred = m->cred;
	rd->has_cred = true;
	n = (size_t)MIN((uint64_t)avail, rd->m->uio->resid);
	r = uio_put(rd->m->uio, m->data + off, n);
	/* What could not be copied in whole stays, as in Linux. */
	if (r != (ssize_t)n)
		return STEP_FAULT;
	rd->copied += r;
	if (rd->peek) {
		mutex_lock(&u->rq_lock);
		fp = m->files;
		mutex_unlock(&u->rq_lock);
		if (fp)
			rd->files = unix_dup_files(fp);
		rd->at = m;
	} else {
		mutex_lock(&u->rq_lock);
		fp = rd->files = m->files;
		m->files = NULL;
		m->off += (size_t)r;
		u->rq_bytes -= (size_t)r;
		done = m->off == m->size;
		if (done)
			dequeue_locked(u, m);
		mutex_unlock(&u->rq_lock);
		if (done)
			unix_msg_free(m);
		else if ((size_t)r == avail)
			done = true; /* more was joined meanwhile */
	}
	/* Files are the end of what one receive gives. */
	if (fp || rd->m->uio->resid == 0)
		return STEP_STOP;
	return rd->peek || done ? STEP_AGAIN : STEP_STOP;
}

static int read_stream_locked(struct unix_sock *u, struct reading *rd, ssize_t target,
			      const struct patience *p) NO_TSA
{
	for (;;) {
		int r;

		switch (read_message(u, rd)) {
		case STEP_AGAIN:
			continue;
		case STEP_STOP:
			return 0;
		case STEP_FAULT:
			return -EFAULT;
		case STEP_EMPTY:
			break;
		}
		if (rd->copied >= target)
			return 0;
		r = sock_error(u->s);
		if (r)
			return r;
		if (unix_queue_length(u) > 0 && !rd->at)
			continue;
		if (atomic_load(&u->shut) & UNIX_SHUT_RECV)
			return 0;
		if (p->nonblock)
			return -EAGAIN;
		fmutex_unlock(&u->iolock);
		r = wait_data(u, p);
		fmutex_lock(&u->iolock);
		/* Others may have read meanwhile what we looked at: from the start. */
		if (rd->peek && rd->copied > 0)
			return 0;
		rd->at = NULL;
		if (r)
			return r;
	}
}

static ssize_t recv_stream(struct unix_sock *u, struct sock_msg *m)
{
	struct patience p = patience_of(&u->s->rcvtimeo, m);
	struct reading rd = {.m = m, .peek = m->flags & LX_MSG_PEEK};
	struct sock_addr from;
	bool connected, more;
	ssize_t target;
	int r;

	mutex_lock(&g_unix);
	connected = u->state == UNIX_CONNECTED;
	mutex_unlock(&g_unix);
	if (!connected)
		return -EINVAL;
	if (m->flags & LX_MSG_OOB)
		return -EOPNOTSUPP;
	target = (ssize_t)m->uio->resid;
	if (!(m->flags & LX_MSG_WAITALL))
		target = MIN(target, (ssize_t)atomic_load(&u->s->rcvlowat));
	fmutex_lock(&u->iolock);
	r = read_stream_locked(u, &rd, target, &p);
	more = unix_queue_length(u) > 0;
	fmutex_unlock(&u->iolock);
	if (more)
		wake_reader(u); /* the wake-up was for one; there is something left for the next */
	if (rd.has_cred) {
		tell_cred(u, m, &rd.cred);
		if (u->s->ops->getname(u->s, true, &from) == 0 && from.size > sizeof(uint16_t))
			m->addr = from;
	}
	if (rd.files)
		tell_files(m, rd.files);
	return rd.copied ? rd.copied : r;
}

/* ---- datagrams and seqpackets: receiving ---- */

/* The first message, for good or (peek) for a look; iolock is held if there is one. */
static int get_packet(struct unix_sock *u, bool peek, const struct patience *p,
		      struct unix_msg **out) NO_TSA
{
	for (;;) {
		struct unix_msg *m;
		int r = sock_error(u->s);

		if (r)
			return r;
		fmutex_lock(&u->iolock);
		mutex_lock(&u->rq_lock);
		m = TAILQ_FIRST(&u->rq);
		if (m && !peek)
			dequeue_locked(u, m);
		mutex_unlock(&u->rq_lock);
		if (m) {
			*out = m;
			return 0;
		}
		fmutex_unlock(&u->iolock);
		*out = NULL;
		if (p->nonblock) {
			bool end = atomic_load(&u->shut) & UNIX_SHUT_RECV;

			return end && unix_is_connection(u) ? 0 : -EAGAIN;
		}
		if (atomic_load(&u->shut) & UNIX_SHUT_RECV)
			return 0;
		r = wait_data(u, p);
		if (r)
			return r;
	}
}

static ssize_t recv_packet(struct unix_sock *u, struct sock_msg *m) NO_TSA
{
	struct patience p = patience_of(&u->s->rcvtimeo, m);
	bool peek = m->flags & LX_MSG_PEEK, connected;
	struct scm_files *fp = NULL;
	struct unix_msg *msg;
	ssize_t r, size;
	size_t n;

	mutex_lock(&g_unix);
	connected = u->state == UNIX_CONNECTED;
	mutex_unlock(&g_unix);
	if (unix_is_connection(u) && !connected)
		return -ENOTCONN;
	if (m->flags & LX_MSG_OOB)
		return -EOPNOTSUPP;
	r = get_packet(u, peek, &p, &msg);
	if (r || !msg)
		return r;
	size = (ssize_t)(msg->size - msg->off);
	n = (size_t)MIN((uint64_t)size, m->uio->resid);
	if ((ssize_t)n < size)
		m->out_flags |= LX_MSG_TRUNC;
	r = n ? uio_put(m->uio, msg->data + msg->off, n) : 0;
	if (r != (ssize_t)n) {
		r = -EFAULT;
	} else {
		tell_addr(m, msg->addr);
		tell_cred(u, m, &msg->cred);
		tell_time(u, m, msg->time_ns);
		fp = msg->files && peek ? unix_dup_files(msg->files) : msg->files;
		if (!peek)
			msg->files = NULL;
		r = (m->flags & LX_MSG_TRUNC) ? size : (ssize_t)n;
	}
	fmutex_unlock(&u->iolock);
	if (!peek) {
		waitq_wake(&u->peer_wait, UNIX_OUT);
		unix_msg_free(msg);
	}
	if (unix_queue_length(u) > 0)
		wake_reader(u);
	if (fp)
		tell_files(m, fp);
	return r;
}

ssize_t unix_recvmsg(struct vfs_ctx *c, struct socket *s, struct sock_msg *m)
{
	struct unix_sock *u = unix_of(s);

	(void)c;
	return s->type == LX_SOCK_STREAM ? recv_stream(u, m) : recv_packet(u, m);
}
