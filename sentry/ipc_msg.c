/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System V message queues.
 *
 * Theory of operation: a queue is a list of messages. Senders sleep while it is full, receivers
 * while nothing in it fits; both look again whenever the queue changed.
 *
 * Locking: g_msg.lock guards all. A queue that is removed is unlinked at once and freed when its
 * last sleeper has seen that.
 *
 * References: msgget(2), msgop(2), msgctl(2), svipc(7).
 */
#include "sentry/ipc.h"
#include "sentry/syscall.h"
#include "vfs/pseudofs.h"

#include <errno.h>
#include <string.h>
#include "base/meter.h"

#define MSG_STAT_ 11
#define MSG_INFO_ 12
#define MSG_STAT_ANY_ 13
#define MSG_NOERROR_ 010000
#define MSG_EXCEPT_ 020000
#define MSG_COPY_ 040000
#define IPC_NOWAIT_ 04000

#define MSGMNI 32000
#define MSGMAX 8192
#define MSGMNB 16384

struct msg {
	TAILQ_ENTRY(msg) link;
	int64_t type;
	size_t size;
	uint8_t text[];
};

struct msg_queue {
	struct ipc_perm perm; /* first: the table holds pointers to it */
	struct ref ref;       /* the table and every sleeper */
	bool removed;
	uint64_t bytes, count, max_bytes;
	int64_t stime, rtime, ctime; /* seconds */
	int32_t lspid, lrpid;
	uint64_t changes;
	struct waitq wait;
	TAILQ_HEAD(, msg) msgs;
};

static struct ipc_ids g_msg = IPC_IDS_INIT(MSGMNI);
static uint64_t g_msg_bytes, g_msg_count; /* in all queues. [g_msg.lock] */

struct lx_msqid_ds {
	struct lx_ipc_perm perm;
	int64_t stime, rtime, ctime;
	uint64_t cbytes, qnum, qbytes;
	int32_t lspid, lrpid;
	uint64_t unused[2];
};
_Static_assert(sizeof(struct lx_msqid_ds) == 120, "struct msqid64_ds");

struct lx_msginfo {
	int32_t pool, map, max, mnb, mni, ssz, tql;
	uint16_t seg, pad;
};

static int64_t now_seconds(void)
{
	return (int64_t)(clock_real_ns() / NSEC_PER_SEC);
}

static struct msg_queue *queue_of(struct ipc_perm *p)
{
	return (struct msg_queue *)p;
}

static struct msg *msg_new(uint64_t size)
{
	struct msg *m = meter_zalloc(METER_buffers, sizeof(*m) + size);

	if (m)
		m->size = size;
	return m;
}

static void msg_free(struct msg *m)
{
	meter_free(METER_buffers, m, sizeof(*m) + m->size);
}

static void queue_put(struct msg_queue *q)
{
	struct msg *m;

	if (!ref_put(&q->ref))
		return;
	while ((m = TAILQ_FIRST(&q->msgs))) {
		TAILQ_REMOVE(&q->msgs, m, link);
		msg_free(m);
	}
	waitq_fini(&q->wait);
	mem_free(q);
}

static void queue_changed(struct msg_queue *q)
{
	q->changes++;
	waitq_wake_all(&q->wait, 0);
}

static bool queue_moved_on(struct msg_queue *q, uint64_t seen)
{
	bool moved;

	mutex_lock(&g_msg.lock);
	moved = q->changes != seen || q->removed;
	mutex_unlock(&g_msg.lock);
	return moved;
}

/* Sleeps until @q changed. g_msg.lock is held at entry and return. */
static int queue_sleep(struct msg_queue *q) REQUIRES(g_msg.lock)
{
	uint64_t seen = q->changes;
	int r;

	mutex_unlock(&g_msg.lock);
	r = wait_event(&q->wait, queue_moved_on(q, seen), DEADLINE_NONE, WAIT_INTR);
	mutex_lock(&g_msg.lock);
	if (q->removed)
		return -EIDRM;
	return r ? -EINTR : 0;
}

long sys_msgget(struct task *t, int key, int flags)
{
	struct ipc_perm *p = NULL;
	struct msg_queue *q = mem_zalloc(sizeof(*q));
	long r;

	if (!q)
		return -ENOMEM;
	ref_init(&q->ref);
	waitq_init(&q->wait);
	TAILQ_INIT(&q->msgs);
	q->perm.key = key;
	q->perm.mode = (uint32_t)flags & 0777;
	q->max_bytes = MSGMNB;
	q->ctime = now_seconds();
	mutex_lock(&g_msg.lock);
	if (key != LX_IPC_PRIVATE)
		p = ipc_find_key_locked(&g_msg, key);
	if (p) {
		if ((flags & LX_IPC_CREAT) && (flags & LX_IPC_EXCL))
			r = -EEXIST;
		else
			r = ipc_check(t, p, (uint32_t)flags & 0777);
		r = r ? r : p->id;
	} else if (key != LX_IPC_PRIVATE && !(flags & LX_IPC_CREAT)) {
		r = -ENOENT;
	} else {
		r = ipc_add_locked(&g_msg, &q->perm, t);
		if (r >= 0)
			q = NULL;
	}
	mutex_unlock(&g_msg.lock);
	if (q)
		queue_put(q);
	return r;
}

/* Finds the queue and takes a reference; g_msg.lock is held. */
static int queue_open(struct task *t, int msqid, uint32_t mode, struct msg_queue **out)
	REQUIRES(g_msg.lock)
{
	struct ipc_perm *p;
	int r = ipc_find_locked(&g_msg, msqid, &p);

	if (r == 0)
		r = ipc_check(t, p, mode);
	if (r)
		return r;
	*out = queue_of(p);
	ref_get(&(*out)->ref);
	return 0;
}

static int send_locked(struct task *t, struct msg_queue *q, struct msg *m, int flags)
	REQUIRES(g_msg.lock)
{
	int r;

	while (q->bytes + m->size > q->max_bytes || q->count + 1 > q->max_bytes) {
		if (flags & IPC_NOWAIT_)
			return -EAGAIN;
		r = queue_sleep(q);
		if (r)
			return r;
		r = ipc_check(t, &q->perm, 0222);
		if (r)
			return r;
	}
	TAILQ_INSERT_TAIL(&q->msgs, m, link);
	q->bytes += m->size;
	q->count++;
	g_msg_bytes += m->size;
	g_msg_count++;
	q->lspid = t->tg->tgid;
	q->stime = now_seconds();
	queue_changed(q);
	return 0;
}

long sys_msgsnd(struct task *t, int msqid, gaddr_t msgp, uint64_t msgsz, int flags)
{
	struct msg_queue *q;
	struct msg *m;
	int64_t type;
	int r;

	if (copy_in(t, &type, msgp, sizeof(type)))
		return -EFAULT;
	if (msgsz > MSGMAX || msqid < 0 || type < 1)
		return -EINVAL;
	m = msg_new(msgsz);
	if (!m)
		return -ENOMEM;
	m->type = type;
	if (copy_in(t, m->text, GADDR(msgp.a + sizeof(type)), msgsz)) {
		msg_free(m);
		return -EFAULT;
	}
	mutex_lock(&g_msg.lock);
	r = queue_open(t, msqid, 0222, &q);
	if (r == 0) {
		r = send_locked(t, q, m, flags);
		mutex_unlock(&g_msg.lock);
		queue_put(q);
	} else {
		mutex_unlock(&g_msg.lock);
	}
	if (r)
		msg_free(m);
	return r;
}

/* The message that msgrcv's @type means, or NULL. */
static struct msg *find_msg(struct msg_queue *q, int64_t type, int flags)
{
	struct msg *m, *best = NULL;
	uint64_t want = type < 0 ? 0 - (uint64_t)type : (uint64_t)type;
	int64_t n = 0;

	TAILQ_FOREACH (m, &q->msgs, link) {
		if (flags & MSG_COPY_) {
			if (n++ == type)
				return m;
		} else if (type == 0) {
			return m;
		} else if (type > 0) {
			if ((m->type == type) != !!(flags & MSG_EXCEPT_))
				return m;
		} else if ((uint64_t)m->type <= want && (!best || m->type < best->type)) {
			best = m;
		}
	}
	return best;
}

static struct msg *msg_copy(const struct msg *m)
{
	struct msg *n = msg_new(m->size);

	if (n) {
		n->type = m->type;
		memcpy(n->text, m->text, m->size);
	}
	return n;
}

static int receive_locked(struct task *t, struct msg_queue *q, uint64_t room, int64_t type,
			  int flags, struct msg **out) REQUIRES(g_msg.lock)
{
	struct msg *m;

	for (;;) {
		int r;

		m = find_msg(q, type, flags);
		if (m)
			break;
		if (flags & IPC_NOWAIT_)
			return -ENOMSG;
		r = queue_sleep(q);
		if (r)
			return r;
		r = ipc_check(t, &q->perm, 0444);
		if (r)
			return r;
	}
	if (m->size > room && !(flags & MSG_NOERROR_))
		return -E2BIG;
	if (flags & MSG_COPY_) {
		*out = msg_copy(m);
		return *out ? 0 : -ENOMEM;
	}
	TAILQ_REMOVE(&q->msgs, m, link);
	q->bytes -= m->size;
	q->count--;
	g_msg_bytes -= m->size;
	g_msg_count--;
	q->lrpid = t->tg->tgid;
	q->rtime = now_seconds();
	queue_changed(q);
	*out = m;
	return 0;
}

long sys_msgrcv(struct task *t, int msqid, gaddr_t msgp, uint64_t msgsz, int64_t msgtyp, int flags)
{
	struct msg_queue *q;
	struct msg *m = NULL;
	long r;

	if (msqid < 0 || (int64_t)msgsz < 0)
		return -EINVAL;
	if ((flags & MSG_COPY_) && ((flags & MSG_EXCEPT_) || !(flags & IPC_NOWAIT_)))
		return -EINVAL;
	mutex_lock(&g_msg.lock);
	r = queue_open(t, msqid, 0444, &q);
	if (r == 0) {
		r = receive_locked(t, q, msgsz, msgtyp, flags, &m);
		mutex_unlock(&g_msg.lock);
		queue_put(q);
	} else {
		mutex_unlock(&g_msg.lock);
	}
	if (r)
		return r;
	size_t n = MIN(m->size, msgsz);

	if (copy_out(t, msgp, &m->type, sizeof(m->type)) ||
	    copy_out(t, GADDR(msgp.a + sizeof(m->type)), m->text, n))
		r = -EFAULT;
	else
		r = (long)n;
	msg_free(m);
	return r;
}

/* ---- msgctl ---- */

static long ctl_stat(struct task *t, int msqid, int cmd, gaddr_t buf)
{
	struct lx_msqid_ds d = {0};
	struct msg_queue *q;
	struct ipc_perm *p;
	long r = 0;

	mutex_lock(&g_msg.lock);
	if (cmd == LX_IPC_STAT) {
		r = ipc_find_locked(&g_msg, msqid, &p);
	} else {
		p = ipc_at_locked(&g_msg, (unsigned)msqid & ((1u << IPC_INDEX_BITS) - 1));
		r = p ? p->id : -EINVAL;
	}
	if (r >= 0 && cmd != MSG_STAT_ANY_) {
		int err = ipc_check(t, p, 0444);

		r = err ? err : r;
	}
	if (r >= 0) {
		q = queue_of(p);
		ipc_perm_to_lx(p, &d.perm);
		d.stime = q->stime;
		d.rtime = q->rtime;
		d.ctime = q->ctime;
		d.cbytes = q->bytes;
		d.qnum = q->count;
		d.qbytes = q->max_bytes;
		d.lspid = q->lspid;
		d.lrpid = q->lrpid;
	}
	mutex_unlock(&g_msg.lock);
	if (r >= 0 && copy_out(t, buf, &d, sizeof(d)))
		return -EFAULT;
	return r;
}

static long ctl_info(struct task *t, int cmd, gaddr_t buf)
{
	struct lx_msginfo i = {.pool = MSGMNI * MSGMNB / 1024,
			       .map = MSGMNB,
			       .max = MSGMAX,
			       .mnb = MSGMNB,
			       .mni = MSGMNI,
			       .ssz = 16,
			       .tql = MSGMNB,
			       .seg = 0xffff};
	int highest;

	mutex_lock(&g_msg.lock);
	if (cmd == MSG_INFO_) {
		i.pool = (int32_t)g_msg.used;
		i.map = (int32_t)g_msg_count;
		i.tql = (int32_t)g_msg_bytes;
	}
	highest = ipc_highest_locked(&g_msg);
	mutex_unlock(&g_msg.lock);
	if (copy_out(t, buf, &i, sizeof(i)))
		return -EFAULT;
	return MAX(highest, 0);
}

static int set_locked(struct task *t, struct msg_queue *q, const struct lx_msqid_ds *d)
	REQUIRES(g_msg.lock)
{
	int r;

	if (d->qbytes > MSGMNB && !cred_capable(t->vctx.cred, LX_CAP_SYS_RESOURCE))
		return -EPERM;
	r = ipc_perm_set(&q->perm, &d->perm);
	if (r)
		return r;
	q->max_bytes = d->qbytes;
	q->ctime = now_seconds();
	queue_changed(q); /* there may be room now, or no right any more */
	return 0;
}

static long ctl_change(struct task *t, int msqid, int cmd, gaddr_t buf)
{
	struct msg_queue *gone = NULL;
	struct lx_msqid_ds d;
	struct ipc_perm *p;
	int r;

	if (cmd == LX_IPC_SET && copy_in(t, &d, buf, sizeof(d)))
		return -EFAULT;
	mutex_lock(&g_msg.lock);
	r = ipc_find_locked(&g_msg, msqid, &p);
	if (r == 0)
		r = ipc_check_owner(t, p);
	if (r == 0 && cmd == LX_IPC_SET) {
		r = set_locked(t, queue_of(p), &d);
	} else if (r == 0) {
		gone = queue_of(p);
		ipc_remove_locked(&g_msg, p);
		g_msg_bytes -= gone->bytes;
		g_msg_count -= gone->count;
		gone->removed = true;
		queue_changed(gone);
	}
	mutex_unlock(&g_msg.lock);
	if (gone)
		queue_put(gone);
	return r;
}

long sys_msgctl(struct task *t, int msqid, int cmd, gaddr_t buf)
{
	if (msqid < 0 || cmd < 0)
		return -EINVAL;
	switch (cmd) {
	case LX_IPC_INFO:
	case MSG_INFO_:
		return ctl_info(t, cmd, buf);
	case LX_IPC_STAT:
	case MSG_STAT_:
	case MSG_STAT_ANY_:
		return ctl_stat(t, msqid, cmd, buf);
	case LX_IPC_SET:
	case LX_IPC_RMID:
		return ctl_change(t, msqid, cmd, buf);
	default:
		return -EINVAL;
	}
}

void ipc_msg_show(struct textbuf *out)
{
	text_printf(out, "       key      msqid perms      cbytes       qnum lspid lrpid   uid   "
			 "gid  cuid  cgid      stime      "
			 "rtime      ctime\n");
	mutex_lock(&g_msg.lock);
	for (int i = 0; i <= ipc_highest_locked(&g_msg); i++) {
		struct ipc_perm *p = ipc_at_locked(&g_msg, (unsigned)i);
		struct msg_queue *q = p ? queue_of(p) : NULL;

		if (!q)
			continue;
		text_printf(
			out,
			"%10d %10d  %4o  %10lu %10lu %5d %5d %5u %5u %5u %5u %10lu %10lu %10lu\n",
			p->key, p->id, p->mode & 0777, q->bytes, q->count, q->lspid, q->lrpid,
			p->uid, p->gid, p->cuid, p->cgid, q->stime, q->rtime, q->ctime);
	}
	mutex_unlock(&g_msg.lock);
}
