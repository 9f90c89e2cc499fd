/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX message queues, and the file system "mqueue" in which they have their names.
 *
 * Theory of operation: one instance for the sandbox; each queue is an inode of it, each mq
 * descriptor an open file. Messages are kept in order of priority, first in first out within one.
 * Senders sleep while the queue is full, receivers while it is empty.
 *
 * Locking: mqueue->lock (RANK_MISC) guards a queue; the directory is guarded by its inode->lock.
 * Signals are sent after mqueue->lock was released.
 *
 * Deviations from Linux: SIGEV_THREAD (which libcs build on a netlink socket) is refused with
 * -EINVAL.
 *
 * References: mq_overview(7), mq_open(3), mq_send(3), mq_receive(3), mq_notify(3), mq_getattr(3).
 */
#include "sentry/guest_time.h"
#include "sentry/mqueue.h"
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/meter.h"

#define MQUEUE_MAGIC 0x19800202u
#define MQ_PRIO_MAX 32768u
#define DFLT_MSGMAX 10
#define DFLT_MSGSIZE 8192
#define HARD_MSGMAX 65536
#define HARD_MSGSIZE (16 << 20)
#define LIMIT_MSGMAX 10
#define LIMIT_MSGSIZE 8192
#define QUEUES_MAX 256

#define SIGEV_SIGNAL_ 0
#define SIGEV_NONE_ 1
#define SIGEV_THREAD_ 2

struct lx_mq_attr {
	int64_t flags, maxmsg, msgsize, curmsgs, pad[4];
};
_Static_assert(sizeof(struct lx_mq_attr) == 64, "struct mq_attr");

struct lx_sigevent_mq {
	union lx_sigval value;
	int32_t signo, notify;
	int32_t pad[12];
};
_Static_assert(sizeof(struct lx_sigevent_mq) == 64, "struct sigevent");

struct mq_msg {
	TAILQ_ENTRY(mq_msg) link;
	unsigned prio;
	size_t size;
	uint8_t data[];
};

struct mqueue {
	struct mutex lock;
	int64_t maxmsg, msgsize, curmsgs; /* [lock] */
	uint64_t bytes;                   /* [lock] */
	TAILQ_HEAD(, mq_msg) msgs;        /* [lock] */
	unsigned receivers;               /* [lock] asleep: they come before a notification */
	struct waitq wait;
	/* Who is to be told of the next message. [lock] */
	struct pid *notify_pid; /* NULL: nobody; a reference */
	int notify_how, notify_sig;
	union lx_sigval notify_value;
	uint32_t notify_uid;
};

/* The one directory. */
struct mq_entry {
	TAILQ_ENTRY(mq_entry) link;
	uint64_t seq; /* grows; the readdir position */
	struct inode *inode;
	size_t len;
	char name[LX_NAME_MAX + 1];
};
static TAILQ_HEAD(, mq_entry) g_entries =
	TAILQ_HEAD_INITIALIZER(g_entries); /* [the root's inode->lock] */
static unsigned g_queues;
static uint64_t g_seq = 2;
static struct super *g_mq_super;
static struct mount_ns *g_mq_ns; /* in which mq_open looks names up */

/* ---- inodes ---- */

static struct mqueue *mqueue_of(const struct file *f)
{
	return f->inode->priv;
}

static struct mq_msg *msg_new(uint64_t size)
{
	struct mq_msg *m = meter_zalloc(METER_buffers, sizeof(*m) + size);

	if (m)
		m->size = size;
	return m;
}

static void msg_free(struct mq_msg *m)
{
	meter_free(METER_buffers, m, sizeof(*m) + m->size);
}

static void mqueue_free(struct inode *i)
{
	struct mqueue *q = i->priv;
	struct mq_msg *m;

	if (!q)
		return;
	while ((m = TAILQ_FIRST(&q->msgs))) {
		TAILQ_REMOVE(&q->msgs, m, link);
		msg_free(m);
	}
	pid_put(q->notify_pid);
	waitq_fini(&q->wait);
	mutex_fini(&q->lock);
	mem_free(q);
	i->priv = NULL;
}

static struct mq_entry *entry_find(const char *name, size_t len)
{
	struct mq_entry *e;

	TAILQ_FOREACH (e, &g_entries, link) {
		if (e->len == len && memcmp(e->name, name, len) == 0)
			return e;
	}
	return NULL;
}

static int mq_lookup(struct inode *dir UNUSED, const char *name, size_t len, struct inode **out)
{
	struct mq_entry *e = entry_find(name, len);

	if (!e)
		return -ENOENT;
	*out = inode_get(e->inode);
	return 0;
}

static const struct inode_ops g_queue_iops;
static const struct file_ops g_queue_fops;

static int mq_create(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		     uint32_t mode, struct inode **out)
{
	struct mq_entry *e;
	struct mqueue *q;
	struct inode *i;

	if (g_queues >= QUEUES_MAX && !cred_capable(c->cred, LX_CAP_SYS_RESOURCE))
		return -ENOSPC;
	e = mem_zalloc(sizeof(*e));
	q = mem_zalloc(sizeof(*q));
	i = e && q ? inode_new(dir->super, LX_S_IFREG | (mode & 07777)) : NULL;
	if (!i) {
		mem_free(e);
		mem_free(q);
		return -ENOMEM;
	}
	mutex_init(&q->lock, RANK_MISC);
	waitq_init(&q->wait);
	TAILQ_INIT(&q->msgs);
	q->maxmsg = DFLT_MSGMAX;
	q->msgsize = DFLT_MSGSIZE;
	i->priv = q;
	i->ops = &g_queue_iops;
	i->fops = &g_queue_fops;
	i->uid = c->cred->fsuid;
	i->gid = c->cred->fsgid;
	i->size = 80;
	e->inode = inode_get(i);
	e->seq = g_seq++;
	e->len = len;
	memcpy(e->name, name, len);
	TAILQ_INSERT_TAIL(&g_entries, e, link);
	g_queues++;
	*out = i;
	return 0;
}

static int mq_unlink_entry(struct inode *dir, const char *name, size_t len, struct inode *victim)
{
	struct mq_entry *e = entry_find(name, len);

	if (!e)
		return -ENOENT;
	TAILQ_REMOVE(&g_entries, e, link);
	g_queues--;
	mutex_lock(&victim->meta);
	victim->nlink = 0;
	mutex_unlock(&victim->meta);
	inode_touch(dir, false, true, true);
	inode_put(e->inode);
	mem_free(e);
	return 0;
}

static int mq_setattr(struct vfs_ctx *c UNUSED, struct inode *i, const struct iattr *attr)
{
	struct iattr a = *attr;

	a.valid &= ~ATTR_SIZE;
	inode_apply_attr(i, &a);
	return 0;
}

static int mq_iterate(struct file *f, struct dir_ctx *ctx)
{
	struct mq_entry *e;

	if (f->pos == 0) {
		if (!ctx->emit(ctx, ".", 1, f->inode->ino, LX_DT_DIR, 1))
			return 0;
		f->pos = 1;
	}
	if (f->pos == 1) {
		if (!ctx->emit(ctx, "..", 2, f->inode->ino, LX_DT_DIR, 2))
			return 0;
		f->pos = 2;
	}
	TAILQ_FOREACH (e, &g_entries, link) {
		if ((int64_t)e->seq < f->pos)
			continue;
		if (!ctx->emit(ctx, e->name, e->len, e->inode->ino, LX_DT_REG, (int64_t)e->seq + 1))
			return 0;
		f->pos = (int64_t)e->seq + 1;
	}
	return 0;
}

static const struct inode_ops g_dir_iops = {
	.lookup = mq_lookup, .create = mq_create, .unlink = mq_unlink_entry, .setattr = mq_setattr};
static const struct file_ops g_dir_fops = {.iterate = mq_iterate};
static const struct inode_ops g_queue_iops = {.setattr = mq_setattr};
static const struct super_ops g_mq_super_ops = {.inode_free = mqueue_free};

/* ---- open files ---- */

/* The state of a queue as text. */
static ssize_t mq_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct mqueue *q = mqueue_of(f);
	char text[96];
	int n;
	ssize_t r;

	mutex_lock(&q->lock);
	n = snprintf(text, sizeof(text), "QSIZE:%-10lu NOTIFY:%-5d SIGNO:%-5d NOTIFY_PID:%-6d\n",
		     q->bytes, q->notify_pid ? q->notify_how : 0,
		     q->notify_pid && q->notify_how == SIGEV_SIGNAL_ ? q->notify_sig : 0,
		     q->notify_pid ? q->notify_pid->nr : 0);
	mutex_unlock(&q->lock);
	if (*pos >= n)
		return 0;
	r = uio_put(u, text + *pos, MIN((uint64_t)(n - *pos), u->resid));
	if (r > 0)
		*pos += r;
	return r;
}

static uint32_t mq_poll(struct file *f, struct poll_table *pt)
{
	struct mqueue *q = mqueue_of(f);
	uint32_t ev = 0;

	poll_wait(pt, &q->wait);
	mutex_lock(&q->lock);
	if (q->curmsgs)
		ev |= LX_POLLIN | LX_POLLRDNORM;
	if (q->curmsgs < q->maxmsg)
		ev |= LX_POLLOUT | LX_POLLWRNORM;
	mutex_unlock(&q->lock);
	return ev;
}

static void drop_notify_locked(struct mqueue *q)
{
	pid_put(q->notify_pid);
	q->notify_pid = NULL;
}

/* A close by the process that waits for a notification ends that. */
static void mq_flush(struct vfs_ctx *c, struct file *f)
{
	struct mqueue *q = mqueue_of(f);

	mutex_lock(&q->lock);
	if (q->notify_pid && c && q->notify_pid->nr == c->tgid)
		drop_notify_locked(q);
	mutex_unlock(&q->lock);
}

static const struct file_ops g_queue_fops = {.read = mq_read, .poll = mq_poll, .flush = mq_flush};

/* ---- the instance ---- */

static int mq_mount(const struct fs_type *type UNUSED, struct vfs_ctx *c UNUSED,
		    const char *source UNUSED, const char *data UNUSED, unsigned flags UNUSED,
		    struct super **out)
{
	*out = super_get(g_mq_super);
	return 0;
}

static const struct fs_type g_mqueue_type = {
	.name = "mqueue", .mount = mq_mount, .user_mountable = true, .nodev = true};

int mqueue_start(void)
{
	struct super *s = super_new(&g_mqueue_type, &g_mq_super_ops);
	struct inode *root;

	if (!s)
		return -ENOMEM;
	s->magic = MQUEUE_MAGIC;
	s->blocksize = MOAT_PAGE_SIZE;
	root = inode_new(s, LX_S_IFDIR | 01777);
	if (!root)
		return -ENOMEM;
	root->nlink = 2;
	root->ops = &g_dir_iops;
	root->fops = &g_dir_fops;
	s->root = dentry_new_root(s, root);
	g_mq_super = s;
	g_mq_ns = s->root ? mount_ns_new(s, 0) : NULL;
	if (!g_mq_ns)
		return -ENOMEM;
	fs_type_register(&g_mqueue_type);
	return 0;
}

/* ---- mq_open, mq_unlink ---- */

static bool attr_ok(struct task *t, const struct lx_mq_attr *a)
{
	bool priv = cred_capable(t->vctx.cred, LX_CAP_SYS_RESOURCE);

	if (a->maxmsg <= 0 || a->msgsize <= 0)
		return false;
	return a->maxmsg <= (priv ? HARD_MSGMAX : LIMIT_MSGMAX) &&
	       a->msgsize <= (priv ? HARD_MSGSIZE : LIMIT_MSGSIZE);
}

static int copy_in_name(struct task *t, gaddr_t uname, char name[LX_NAME_MAX + 2])
{
	ssize_t n = copy_in_str(t, name, uname, LX_NAME_MAX + 2);

	if (n < 0)
		return (int)n;
	if (n == 0)
		return -ENOENT;
	if (n > LX_NAME_MAX)
		return -ENAMETOOLONG;
	if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -EACCES;
	return 0;
}

/* Where names are looked up. False: the sandbox was set up without queues. */
static bool mq_root(struct path *out)
{
	if (!g_mq_ns)
		return false;
	*out = (struct path){.mnt = g_mq_ns->root, .dentry = g_mq_ns->root->root};
	return true;
}

long sys_mq_open(struct task *t, gaddr_t uname, int oflag, uint32_t mode, gaddr_t uattr)
{
	struct path start;
	struct open_how how = {.flags = (uint32_t)oflag &
					(LX_O_ACCMODE | LX_O_CREAT | LX_O_EXCL | LX_O_NONBLOCK),
			       .mode = mode & 07777,
			       .walk = 0};
	char name[LX_NAME_MAX + 2];
	struct lx_mq_attr a;
	bool bad = false;
	struct file *f;
	int r;

	if (!mq_root(&start))
		return -ENOSYS;
	if (uattr.a && copy_in(t, &a, uattr, sizeof(a)))
		return -EFAULT;
	r = copy_in_name(t, uname, name);
	if (r)
		return r;
	if ((oflag & LX_O_ACCMODE) == LX_O_ACCMODE)
		return -EINVAL;
	/* Attributes matter only if the queue is made. */
	if ((oflag & LX_O_CREAT) && uattr.a && !attr_ok(t, &a)) {
		bad = true;
		how.flags &= ~(uint32_t)(LX_O_CREAT | LX_O_EXCL);
	}
	r = vfs_open(&t->vctx, &start, name, &how, &f);
	if (bad && r == -ENOENT)
		return -EINVAL;
	if (r)
		return r;
	if (bad && (oflag & LX_O_EXCL)) {
		file_put(f);
		return -EEXIST;
	}
	if ((f->fmode & FMODE_CREATED) && uattr.a) {
		struct mqueue *q = mqueue_of(f);

		mutex_lock(&q->lock);
		q->maxmsg = a.maxmsg;
		q->msgsize = a.msgsize;
		mutex_unlock(&q->lock);
	}
	r = fd_install(t->files, f, FD_CLOEXEC_FLAG, 0, rlimit_get(t->tg, LX_RLIMIT_NOFILE));
	if (r < 0)
		file_put(f);
	return r;
}

long sys_mq_unlink(struct task *t, gaddr_t uname)
{
	struct path start;
	char name[LX_NAME_MAX + 2];
	int r;

	if (!mq_root(&start))
		return -ENOSYS;
	r = copy_in_name(t, uname, name);
	return r ? r : vfs_unlink(&t->vctx, &start, name);
}

/* ---- messages ---- */

/* The queue behind a descriptor: a reference to the file, or NULL with *r. */
static struct file *mq_get(struct task *t, int fd, unsigned fmode, int *r)
{
	struct file *f = fd_get_nopath(t->files, fd);

	*r = -EBADF;
	if (f && (f->inode->ops != &g_queue_iops || (fmode && !(f->fmode & fmode)))) {
		file_put(f);
		return NULL;
	}
	return f;
}

static int read_timeout(struct task *t, gaddr_t uts, uint64_t *deadline)
{
	struct lx_timespec ts;
	uint64_t ns;

	*deadline = DEADLINE_NONE;
	if (!uts.a)
		return 0;
	if (copy_in(t, &ts, uts, sizeof(ts)))
		return -EFAULT;
	if (!timespec_to_ns(&ts, &ns))
		return -EINVAL;
	return guest_clock_deadline(LX_CLOCK_REALTIME, true, ns, deadline);
}

/* Tells who asked, once; @q->lock was held and is released. */
static void notify_and_unlock(struct task *t, struct mqueue *q) RELEASE(q->lock)
{
	struct lx_siginfo info;
	struct pid *p = q->notify_pid;
	int how = q->notify_how;

	siginfo_user(&info, q->notify_sig, LX_SI_MESGQ, t);
	info.u.rt.value = q->notify_value;
	q->notify_pid = NULL;
	mutex_unlock(&q->lock);
	if (p && how == SIGEV_SIGNAL_) {
		mutex_lock(&g_kernel.tasklist);
		if (p->tg)
			(void)signal_send_group_locked(p->tg, &info);
		mutex_unlock(&g_kernel.tasklist);
	}
	pid_put(p);
}

static void insert_msg(struct mqueue *q, struct mq_msg *m) REQUIRES(q->lock)
{
	struct mq_msg *o;

	TAILQ_FOREACH (o, &q->msgs, link) {
		if (o->prio < m->prio)
			break;
	}
	if (o)
		TAILQ_INSERT_BEFORE(o, m, link);
	else
		TAILQ_INSERT_TAIL(&q->msgs, m, link);
	q->curmsgs++;
	q->bytes += m->size;
}

static bool has_room(struct mqueue *q)
{
	bool room;

	mutex_lock(&q->lock);
	room = q->curmsgs < q->maxmsg;
	mutex_unlock(&q->lock);
	return room;
}

static bool has_msg(struct mqueue *q)
{
	bool msg;

	mutex_lock(&q->lock);
	msg = q->curmsgs > 0;
	mutex_unlock(&q->lock);
	return msg;
}

static int send_msg(struct task *t, struct file *f, struct mq_msg *m, uint64_t deadline)
{
	struct mqueue *q = mqueue_of(f);

	for (;;) {
		int r;

		mutex_lock(&q->lock);
		if (q->curmsgs < q->maxmsg)
			break;
		mutex_unlock(&q->lock);
		if (atomic_load(&f->flags) & LX_O_NONBLOCK)
			return -EAGAIN;
		r = wait_event(&q->wait, has_room(q), deadline, WAIT_INTR);
		if (r)
			return r;
	}
	bool first = q->curmsgs == 0 && !q->receivers;

	insert_msg(q, m);
	if (first && q->notify_pid)
		notify_and_unlock(t, q);
	else
		mutex_unlock(&q->lock);
	waitq_wake_all(&q->wait, LX_POLLIN);
	return 0;
}

long sys_mq_timedsend(struct task *t, int mqdes, gaddr_t msg_ptr, uint64_t msg_len, unsigned prio,
		      gaddr_t uts)
{
	struct mq_msg *m = NULL;
	uint64_t deadline;
	struct file *f;
	int r;

	if (prio >= MQ_PRIO_MAX)
		return -EINVAL;
	r = read_timeout(t, uts, &deadline);
	if (r)
		return r;
	f = mq_get(t, mqdes, FMODE_WRITE, &r);
	if (!f)
		return r;
	r = -EMSGSIZE;
	if (msg_len > (uint64_t)mqueue_of(f)->msgsize)
		goto out;
	m = msg_new(msg_len);
	r = -ENOMEM;
	if (!m)
		goto out;
	m->prio = prio;
	r = -EFAULT;
	if (copy_in(t, m->data, msg_ptr, msg_len) == 0)
		r = send_msg(t, f, m, deadline);
	if (r)
		msg_free(m);
out:
	file_put(f);
	return r;
}

static int receive_msg(struct file *f, uint64_t deadline, struct mq_msg **out)
{
	struct mqueue *q = mqueue_of(f);

	for (;;) {
		int r;

		mutex_lock(&q->lock);
		*out = TAILQ_FIRST(&q->msgs);
		if (*out)
			break;
		if (atomic_load(&f->flags) & LX_O_NONBLOCK) {
			mutex_unlock(&q->lock);
			return -EAGAIN;
		}
		q->receivers++;
		mutex_unlock(&q->lock);
		r = wait_event(&q->wait, has_msg(q), deadline, WAIT_INTR);
		mutex_lock(&q->lock);
		q->receivers--;
		mutex_unlock(&q->lock);
		if (r)
			return r;
	}
	TAILQ_REMOVE(&q->msgs, *out, link);
	q->curmsgs--;
	q->bytes -= (*out)->size;
	mutex_unlock(&q->lock);
	waitq_wake_all(&q->wait, LX_POLLOUT);
	return 0;
}

long sys_mq_timedreceive(struct task *t, int mqdes, gaddr_t msg_ptr, uint64_t msg_len,
			 gaddr_t msg_prio, gaddr_t uts)
{
	struct mq_msg *m;
	uint64_t deadline;
	struct file *f;
	int r = read_timeout(t, uts, &deadline);
	long n;

	if (r)
		return r;
	f = mq_get(t, mqdes, FMODE_READ, &r);
	if (!f)
		return r;
	if (msg_len < (uint64_t)mqueue_of(f)->msgsize) {
		file_put(f);
		return -EMSGSIZE;
	}
	r = receive_msg(f, deadline, &m);
	file_put(f);
	if (r)
		return r;
	n = (long)m->size;
	if ((msg_prio.a && copy_out(t, msg_prio, &m->prio, sizeof(m->prio))) ||
	    copy_out(t, msg_ptr, m->data, m->size))
		n = -EFAULT;
	msg_free(m);
	return n;
}

long sys_mq_notify(struct task *t, int mqdes, gaddr_t sevp)
{
	struct lx_sigevent_mq ev;
	struct mqueue *q;
	struct file *f;
	int r;

	if (sevp.a) {
		if (copy_in(t, &ev, sevp, sizeof(ev)))
			return -EFAULT;
		if (ev.notify != SIGEV_NONE_ && ev.notify != SIGEV_SIGNAL_)
			return -EINVAL;
		if (ev.notify == SIGEV_SIGNAL_ && (ev.signo <= 0 || ev.signo > LX_NSIG))
			return -EINVAL;
	}
	f = mq_get(t, mqdes, 0, &r);
	if (!f)
		return r;
	q = mqueue_of(f);
	mutex_lock(&q->lock);
	r = 0;
	if (!sevp.a) {
		if (q->notify_pid == t->tg->pid)
			drop_notify_locked(q);
	} else if (q->notify_pid) {
		r = -EBUSY;
	} else {
		q->notify_pid = pid_get(t->tg->pid);
		q->notify_how = ev.notify;
		q->notify_sig = ev.signo;
		q->notify_value = ev.value;
		q->notify_uid = t->vctx.cred->uid;
	}
	mutex_unlock(&q->lock);
	file_put(f);
	return r;
}

long sys_mq_getsetattr(struct task *t, int mqdes, gaddr_t newattr, gaddr_t oldattr)
{
	struct lx_mq_attr n, old = {0};
	struct mqueue *q;
	struct file *f;
	uint32_t flags;
	int r;

	if (newattr.a) {
		if (copy_in(t, &n, newattr, sizeof(n)))
			return -EFAULT;
		if (n.flags & ~(int64_t)LX_O_NONBLOCK)
			return -EINVAL;
	}
	f = mq_get(t, mqdes, 0, &r);
	if (!f)
		return r;
	q = mqueue_of(f);
	mutex_lock(&q->lock);
	old.maxmsg = q->maxmsg;
	old.msgsize = q->msgsize;
	old.curmsgs = q->curmsgs;
	mutex_unlock(&q->lock);
	flags = atomic_load(&f->flags);
	old.flags = flags & LX_O_NONBLOCK;
	if (newattr.a)
		atomic_store(&f->flags, (flags & ~(uint32_t)LX_O_NONBLOCK) | (uint32_t)n.flags);
	file_put(f);
	if (oldattr.a && copy_out(t, oldattr, &old, sizeof(old)))
		return -EFAULT;
	return 0;
}
