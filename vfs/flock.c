/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advisory locks.
 *
 * Theory of operation: an inode that was ever locked has a struct file_locks with two lists: of
 * record locks (POSIX and OFD together, as they conflict with each other) and of flock locks.
 * Record locks of one owner are kept disjoint and sorted by start, those of the same kind joined
 * when they touch. An owner is the descriptor table for POSIX locks, the open file for the others.
 *
 * Who must wait stands in g_blocked and sleeps on the inode's queue; each release wakes all of
 * them, and each tries again. Deadlocks among POSIX locks are found by following from the owner
 * that stands in our way to the request it waits with, to the owner in that one's way, and so on;
 * as Linux does, for a few steps.
 *
 * Locking: one mutex, g_locks (RANK_MISC), for all of it: detection needs a view over all inodes,
 * and what is done under it is short and does not allocate.
 *
 * References: fcntl(2), flock(2), proc_locks(5).
 */
#include <errno.h>
#include "base/err.h"
#include "base/meter.h"
#include "vfs/flock.h"

#define DEADLOCK_STEPS 10u
#define END_OF_FILE INT64_MAX

struct lock {
	TAILQ_ENTRY(lock) link;
	int kind; /* LOCK_INFO_* */
	int type; /* LX_F_RDLCK, LX_F_WRLCK; in requests LX_F_UNLCK too */
	const void *owner;
	int32_t pid;
	int64_t start, end; /* inclusive */
};

TAILQ_HEAD(lock_list, lock);

struct file_locks {
	struct inode *inode; /* borrowed: it has us */
	struct lock_list records, flocks;
	struct waitq wq;
	TAILQ_ENTRY(file_locks) all;
};

struct blocked {
	const struct lock *want;
	struct file_locks *locks;
	TAILQ_ENTRY(blocked) link;
};

static struct mutex g_locks = MUTEX_INIT(RANK_MISC);
static TAILQ_HEAD(, file_locks) g_all = TAILQ_HEAD_INITIALIZER(g_all);      /* [g_locks] */
static TAILQ_HEAD(, blocked) g_blocked = TAILQ_HEAD_INITIALIZER(g_blocked); /* [g_locks] */

/* ---- what an inode has ---- */

static struct file_locks *locks_of(struct inode *i)
{
	return __atomic_load_n(&i->locks, __ATOMIC_ACQUIRE);
}

/* The inode's locks, made if there are none. NULL: no memory. */
static struct file_locks *locks_make(struct inode *i)
{
	struct file_locks *l = locks_of(i), *fresh;

	if (l)
		return l;
	fresh = mem_zalloc(sizeof(*fresh));
	if (!fresh)
		return NULL;
	fresh->inode = i;
	TAILQ_INIT(&fresh->records);
	TAILQ_INIT(&fresh->flocks);
	waitq_init(&fresh->wq);
	mutex_lock(&g_locks);
	l = i->locks;
	if (!l) {
		l = fresh;
		fresh = NULL;
		TAILQ_INSERT_TAIL(&g_all, l, all);
		__atomic_store_n(&i->locks, l, __ATOMIC_RELEASE);
	}
	mutex_unlock(&g_locks);
	if (fresh) {
		waitq_fini(&fresh->wq);
		mem_free(fresh);
	}
	return l;
}

void locks_inode_free(struct inode *i)
{
	struct file_locks *l = i->locks;

	if (!l)
		return;
	/* A lock belongs to an open file of this inode. */
	BUG_ON(!TAILQ_EMPTY(&l->records) || !TAILQ_EMPTY(&l->flocks));
	mutex_lock(&g_locks);
	TAILQ_REMOVE(&g_all, l, all);
	mutex_unlock(&g_locks);
	waitq_fini(&l->wq);
	mem_free(l);
	i->locks = NULL;
}

/* ---- conflicts ---- */

static bool same_owner(const struct lock *a, const struct lock *b)
{
	return a->kind == b->kind && a->owner == b->owner;
}

static struct lock *find_conflict_locked(struct file_locks *l, const struct lock *want)
	REQUIRES(g_locks)
{
	struct lock_list *list = want->kind == LOCK_INFO_FLOCK ? &l->flocks : &l->records;
	struct lock *at;

	if (want->type == LX_F_UNLCK)
		return NULL;
	TAILQ_FOREACH (at, list, link) {
		if (same_owner(at, want) || at->end < want->start || at->start > want->end)
			continue;
		if (at->type == LX_F_WRLCK || want->type == LX_F_WRLCK)
			return at;
	}
	return NULL;
}

/* Would waiting for the owner of @in_the_way close a circle? */
static bool deadlocks_locked(const struct lock *want, const struct lock *in_the_way)
	REQUIRES(g_locks)
{
	for (unsigned step = 0; in_the_way && step < DEADLOCK_STEPS; step++) {
		const struct blocked *b;

		if (in_the_way->kind != LOCK_INFO_POSIX)
			return false;
		if (same_owner(in_the_way, want))
			return true;
		TAILQ_FOREACH (b, &g_blocked, link) {
			if (same_owner(b->want, in_the_way))
				break;
		}
		if (!b)
			return false;
		in_the_way = find_conflict_locked(b->locks, b->want);
	}
	return false;
}

/* One that was in a list, and so was charged for. */
static void lock_free(struct lock *l)
{
	mem_free(l);
	meter_uncharge(METER_locks, 1);
}

/* ---- record locks ---- */

/* Charges for what apply_locked will use of its spare ones. */
static bool charge_locked(const struct file_locks *l, const struct lock *want) REQUIRES(g_locks)
{
	uint64_t n = want->type != LX_F_UNLCK;
	const struct lock *at;

	TAILQ_FOREACH (at, &l->records, link) {
		if (same_owner(at, want) && at->type != want->type && at->start < want->start &&
		    at->end > want->end) {
			n++;
			break;
		}
	}
	return n == 0 || meter_charge(METER_locks, n);
}

/* Sets, changes or removes the range @want in what its owner has, which does not conflict with
 * others. @spare: two locks to use; what is used is set to NULL. */
static void apply_locked(struct file_locks *l, const struct lock *want, struct lock *spare[2])
	REQUIRES(g_locks)
{
	struct lock merged = *want, *at, *next, *right = NULL, *fresh;

	TAILQ_FOREACH_SAFE (at, &l->records, link, next) {
		if (!same_owner(at, want))
			continue;
		if (at->type == want->type) {
			/* Touching counts too; mind the ends of the number range. */
			if ((at->end != END_OF_FILE && at->end + 1 < merged.start) ||
			    (merged.end != END_OF_FILE && merged.end + 1 < at->start))
				continue;
			merged.start = MIN(merged.start, at->start);
			merged.end = MAX(merged.end, at->end);
			TAILQ_REMOVE(&l->records, at, link);
			lock_free(at);
			continue;
		}
		if (at->end < want->start || at->start > want->end)
			continue;
		if (at->start < want->start && at->end > want->end) {
			right = spare[0];
			spare[0] = NULL;
			*right = *at;
			right->start = want->end + 1;
			TAILQ_INSERT_AFTER(&l->records, at, right, link);
			at->end = want->start - 1;
			break;
		}
		if (at->start < want->start) {
			at->end = want->start - 1;
		} else if (at->end > want->end) {
			at->start = want->end + 1;
		} else {
			TAILQ_REMOVE(&l->records, at, link);
			lock_free(at);
		}
	}
	if (want->type == LX_F_UNLCK)
		return;
	fresh = spare[1];
	spare[1] = NULL;
	*fresh = merged;
	/* Behind the owner's lower ones, so that those of one owner stay sorted. */
	TAILQ_FOREACH (at, &l->records, link) {
		if (same_owner(at, fresh) && at->start > fresh->start)
			break;
	}
	if (at)
		TAILQ_INSERT_BEFORE(at, fresh, link);
	else
		TAILQ_INSERT_TAIL(&l->records, fresh, link);
}

/* Is there nothing more to wait for? Either nothing is in the way, or what is there now (it need
 * not be what was there when the wait began) waits for us: then @b leaves the list of the blocked
 * at once, so that one of a circle is told and no more. */
static bool wait_is_over(struct blocked *b, bool *dead)
{
	const struct lock *in_the_way;

	mutex_lock(&g_locks);
	in_the_way = find_conflict_locked(b->locks, b->want);
	*dead = b->want->kind == LOCK_INFO_POSIX && in_the_way &&
		deadlocks_locked(b->want, in_the_way);
	if (*dead)
		TAILQ_REMOVE(&g_blocked, b, link);
	mutex_unlock(&g_locks);
	return !in_the_way || *dead;
}

/* Waits until @want does not conflict; -EDEADLK if that would be for ever. Another may be quicker
 * then. */
static int wait_for(struct file_locks *l, const struct lock *want)
{
	struct blocked b = {.want = want, .locks = l};
	bool dead = false;
	int r;

	mutex_lock(&g_locks);
	TAILQ_INSERT_TAIL(&g_blocked, &b, link);
	mutex_unlock(&g_locks);
	r = wait_event(&l->wq, dead || wait_is_over(&b, &dead), DEADLINE_NONE, WAIT_INTR);
	if (dead)
		return -EDEADLK;
	mutex_lock(&g_locks);
	TAILQ_REMOVE(&g_blocked, &b, link);
	mutex_unlock(&g_locks);
	return r;
}

static int set_record(struct inode *i, const struct lock *want, bool wait)
{
	struct lock *spare[2] = {NULL, NULL};
	struct file_locks *l;
	int r;

	if (want->type == LX_F_UNLCK && !locks_of(i))
		return 0;
	l = locks_make(i);
	spare[0] = mem_zalloc(sizeof(*spare[0]));
	spare[1] = mem_zalloc(sizeof(*spare[1]));
	if (!l || !spare[0] || !spare[1]) {
		r = -ENOLCK;
		goto out;
	}
	for (;;) {
		mutex_lock(&g_locks);
		r = find_conflict_locked(l, want) ? -EAGAIN : 0;
		if (r == 0 && !charge_locked(l, want))
			r = -ENOLCK;
		if (r == 0)
			apply_locked(l, want, spare);
		mutex_unlock(&g_locks);
		if (r != -EAGAIN || !wait)
			break;
		r = wait_for(l, want);
		if (r)
			break;
	}
	/* Even a new lock can make room: it may replace a stronger one. */
	if (r == 0)
		waitq_wake_all(&l->wq, 0);
out:
	mem_free(spare[0]);
	mem_free(spare[1]);
	return r;
}

static uint64_t size_of(struct file *f)
{
	struct kstat st;

	return inode_getattr(f->inode, &st) == 0 ? st.size : 0;
}

/* The range of @fl, as fcntl(2) defines it. */
static int range_of(struct file *f, const struct lx_flock *fl, struct lock *out)
{
	int64_t base;

	switch (fl->l_whence) {
	case LX_SEEK_SET:
		base = 0;
		break;
	case LX_SEEK_CUR:
		fmutex_lock(&f->pos_lock);
		base = f->pos;
		fmutex_unlock(&f->pos_lock);
		break;
	case LX_SEEK_END:
		base = (int64_t)size_of(f);
		break;
	default:
		return -EINVAL;
	}
	if (fl->l_start > INT64_MAX - base)
		return -EOVERFLOW;
	out->start = base + fl->l_start;
	if (out->start < 0)
		return -EINVAL;
	if (fl->l_len > 0) {
		if (fl->l_len - 1 > INT64_MAX - out->start)
			return -EOVERFLOW;
		out->end = out->start + fl->l_len - 1;
	} else if (fl->l_len < 0) {
		if (out->start + fl->l_len < 0)
			return -EINVAL;
		out->end = out->start - 1;
		out->start += fl->l_len;
	} else {
		out->end = END_OF_FILE;
	}
	return 0;
}

static void set_owner(struct vfs_ctx *c, struct file *f, bool ofd, struct lock *out)
{
	out->kind = ofd ? LOCK_INFO_OFD : LOCK_INFO_POSIX;
	out->owner = ofd ? (const void *)f : (const void *)c->files;
	out->pid = ofd ? -1 : c->tgid;
}

int lock_get(struct vfs_ctx *c, struct file *f, int cmd, struct lx_flock *fl)
{
	bool ofd = cmd == LX_F_OFD_GETLK;
	struct lock want = {.type = fl->l_type}, *at = NULL;
	struct file_locks *l;
	int r;

	if (fl->l_type != LX_F_RDLCK && fl->l_type != LX_F_WRLCK &&
	    !(ofd && fl->l_type == LX_F_UNLCK))
		return -EINVAL;
	r = range_of(f, fl, &want);
	if (r)
		return r;
	if (ofd && fl->l_pid != 0)
		return -EINVAL;
	set_owner(c, f, ofd, &want);
	l = locks_of(f->inode);
	fl->l_type = LX_F_UNLCK;
	if (!l)
		return 0;
	mutex_lock(&g_locks);
	if (want.type == LX_F_UNLCK) {
		/* Which of its own locks are there? */
		TAILQ_FOREACH (at, &l->records, link) {
			if (same_owner(at, &want) && at->end >= want.start && at->start <= want.end)
				break;
		}
	} else {
		at = find_conflict_locked(l, &want);
	}
	if (at) {
		fl->l_type = (int16_t)at->type;
		fl->l_whence = LX_SEEK_SET;
		fl->l_start = at->start;
		fl->l_len = at->end == END_OF_FILE ? 0 : at->end - at->start + 1;
		fl->l_pid = at->pid;
	}
	mutex_unlock(&g_locks);
	return 0;
}

int lock_set(struct vfs_ctx *c, struct file *f, int cmd, const struct lx_flock *fl)
{
	bool ofd = cmd == LX_F_OFD_SETLK || cmd == LX_F_OFD_SETLKW;
	bool wait = cmd == LX_F_SETLKW || cmd == LX_F_OFD_SETLKW;
	struct lock want = {.type = fl->l_type};
	int r;

	r = range_of(f, fl, &want);
	if (r)
		return r;
	switch (fl->l_type) {
	case LX_F_RDLCK:
		if (!(f->fmode & FMODE_READ))
			return -EBADF;
		break;
	case LX_F_WRLCK:
		if (!(f->fmode & FMODE_WRITE))
			return -EBADF;
		break;
	case LX_F_UNLCK:
		break;
	default:
		return -EINVAL;
	}
	if (ofd && fl->l_pid != 0)
		return -EINVAL;
	set_owner(c, f, ofd, &want);
	return set_record(f->inode, &want, wait);
}

/* ---- flock ---- */

/* Takes away what @owner has in @list. True: there was something. */
static bool drop_owner_locked(struct lock_list *list, int kind, const void *owner) REQUIRES(g_locks)
{
	struct lock *at, *next;
	bool any = false;

	TAILQ_FOREACH_SAFE (at, list, link, next) {
		if (at->kind != kind || at->owner != owner)
			continue;
		TAILQ_REMOVE(list, at, link);
		lock_free(at);
		any = true;
	}
	return any;
}

static struct lock *flock_of_locked(struct file_locks *l, const struct file *f) REQUIRES(g_locks)
{
	struct lock *at;

	TAILQ_FOREACH (at, &l->flocks, link) {
		if (at->owner == f)
			return at;
	}
	return NULL;
}

static int set_flock(struct file *f, const struct lock *want, bool wait)
{
	struct lock *fresh = mem_zalloc(sizeof(*fresh)), *old;
	struct file_locks *l = locks_make(f->inode);
	bool dropped = false;
	int r;

	if (!l || !fresh) {
		mem_free(fresh);
		return -ENOLCK;
	}
	for (;;) {
		mutex_lock(&g_locks);
		old = flock_of_locked(l, f);
		if (old && old->type == want->type) {
			r = 0;
		} else {
			/* A change of kind is no step from one to the other: the old lock goes
			 * first, and may be lost. */
			dropped |= drop_owner_locked(&l->flocks, LOCK_INFO_FLOCK, f);
			r = find_conflict_locked(l, want) ? -EWOULDBLOCK : 0;
			if (r == 0 && !meter_charge(METER_locks, 1))
				r = -ENOLCK;
			if (r == 0) {
				*fresh = *want;
				TAILQ_INSERT_TAIL(&l->flocks, fresh, link);
				fresh = NULL;
			}
		}
		mutex_unlock(&g_locks);
		if (dropped) {
			waitq_wake_all(&l->wq, 0);
			dropped = false;
		}
		if (r != -EWOULDBLOCK || !wait)
			break;
		r = wait_for(l, want);
		if (r)
			break;
	}
	mem_free(fresh);
	return r;
}

static void release_owner(struct inode *i, int kind, const void *owner)
{
	struct file_locks *l = locks_of(i);
	bool any;

	if (likely(!l))
		return;
	mutex_lock(&g_locks);
	any = drop_owner_locked(kind == LOCK_INFO_FLOCK ? &l->flocks : &l->records, kind, owner);
	mutex_unlock(&g_locks);
	if (any)
		waitq_wake_all(&l->wq, 0);
}

int flock_apply(struct vfs_ctx *c, struct file *f, unsigned op)
{
	struct lock want = {
		.kind = LOCK_INFO_FLOCK, .owner = f, .pid = c->tgid, .end = END_OF_FILE};

	/* Once a wish of Samba's; Linux accepts and ignores it. */
	if (op & LX_LOCK_MAND)
		return 0;
	switch (op & ~(unsigned)LX_LOCK_NB) {
	case LX_LOCK_SH:
		want.type = LX_F_RDLCK;
		break;
	case LX_LOCK_EX:
		want.type = LX_F_WRLCK;
		break;
	case LX_LOCK_UN:
		release_owner(f->inode, LOCK_INFO_FLOCK, f);
		return 0;
	default:
		return -EINVAL;
	}
	if (!(f->fmode & (FMODE_READ | FMODE_WRITE)))
		return -EBADF;
	return set_flock(f, &want, !(op & LX_LOCK_NB));
}

/* ---- leases ---- */

int lease_set(struct file *f, int type)
{
	if (!LX_S_ISREG(f->inode->mode) ||
	    (type != LX_F_RDLCK && type != LX_F_WRLCK && type != LX_F_UNLCK))
		return -EINVAL;
	/* As if somebody always had it open in a way that forbids it: what programs are prepared
	 * for. */
	return -EAGAIN;
}

int lease_get(struct file *f)
{
	(void)f;
	return LX_F_UNLCK;
}

/* ---- ends, and the list ---- */

void locks_close_posix(struct file *f, const struct fdtable *owner)
{
	release_owner(f->inode, LOCK_INFO_POSIX, owner);
}

void locks_release_file(struct file *f)
{
	release_owner(f->inode, LOCK_INFO_OFD, f);
	release_owner(f->inode, LOCK_INFO_FLOCK, f);
}

static void info_of(const struct file_locks *l, const struct lock *at, bool blocked,
		    struct lock_info *out)
{
	*out = (struct lock_info){
		.kind = at->kind,
		.write = at->type == LX_F_WRLCK,
		.blocked = blocked,
		.pid = at->pid,
		.dev = l->inode->super->dev,
		.ino = l->inode->ino,
		.start = at->start,
		.end = at->end,
	};
}

size_t locks_list(struct lock_info *out, size_t max)
{
	struct file_locks *l;
	size_t n = 0;

	mutex_lock(&g_locks);
	TAILQ_FOREACH (l, &g_all, all) {
		struct lock_list *lists[2] = {&l->records, &l->flocks};

		for (unsigned k = 0; k < 2; k++) {
			struct lock *at;
			struct blocked *b;

			TAILQ_FOREACH (at, lists[k], link) {
				if (n < max)
					info_of(l, at, false, &out[n]);
				n++;
				TAILQ_FOREACH (b, &g_blocked, link) {
					if (b->locks != l || find_conflict_locked(l, b->want) != at)
						continue;
					if (n < max)
						info_of(l, b->want, true, &out[n]);
					n++;
				}
			}
		}
	}
	mutex_unlock(&g_locks);
	return n;
}
