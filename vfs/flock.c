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
 * Files of the host have their locks on the host, too: vfs/flock_outside.c. Of those all that
 * changes one takes its turn, and the host is asked in between.
 *
 * Locking: one mutex, g_locks (RANK_MISC), for all of it: detection needs a view over all inodes,
 * and what is done under it is short and does not allocate.
 *
 * References: fcntl(2), flock(2), proc_locks(5).
 */
#include <errno.h>
#include "base/err.h"
#include "base/meter.h"
#include "vfs/flock_internal.h"

#define DEADLOCK_STEPS 10u
/* Of all files that have outside_locks together. Each is memory of the host's kernel, which looks
 * through a file's list at each call; and to unlock what another guest holds every other byte of
 * takes as many calls. */
#define OUTSIDE_MAX 4096u

struct blocked {
	const struct lock *want;
	struct file_locks *locks;
	TAILQ_ENTRY(blocked) link;
};

static struct mutex g_locks = MUTEX_INIT(RANK_MISC);
static TAILQ_HEAD(, file_locks) g_all = TAILQ_HEAD_INITIALIZER(g_all);      /* [g_locks] */
static TAILQ_HEAD(, blocked) g_blocked = TAILQ_HEAD_INITIALIZER(g_blocked); /* [g_locks] */
static uint64_t g_outside; /* locks of inodes that have outside_locks. [g_locks] */

/* ---- what an inode has ---- */

static struct file_locks *locks_of(struct inode *i)
{
	return __atomic_load_n(&i->locks, __ATOMIC_ACQUIRE);
}

static void locks_free(struct file_locks *l)
{
	fmutex_fini(&l->turn);
	waitq_fini(&l->wq);
	mem_free(l);
}

static const struct outside_locks *outside_of(const struct inode *i)
{
	const struct outside_locks *o = i->ops->outside;

	return o && o->used(i) ? o : NULL;
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
	fresh->outside = outside_of(i);
	fmutex_init(&fresh->turn);
	fresh->held.flock = LX_F_UNLCK;
	mutex_lock(&g_locks);
	l = i->locks;
	if (!l) {
		l = fresh;
		fresh = NULL;
		TAILQ_INSERT_TAIL(&g_all, l, all);
		__atomic_store_n(&i->locks, l, __ATOMIC_RELEASE);
	}
	mutex_unlock(&g_locks);
	if (fresh)
		locks_free(fresh);
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
	locks_free(l);
	i->locks = NULL;
}

static void turn_begin(struct file_locks *l) NO_TSA
{
	if (l->outside)
		fmutex_lock(&l->turn);
}

static void turn_end(struct file_locks *l) NO_TSA
{
	if (l->outside)
		fmutex_unlock(&l->turn);
}

/* Something may be free that was not. */
static void wake_waiters(struct file_locks *l)
{
	atomic_fetch_add(&l->changes, 1);
	waitq_wake_all(&l->wq, 0);
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

static bool charge_locked(const struct file_locks *l, unsigned n) REQUIRES(g_locks)
{
	if (n == 0)
		return true;
	if ((l->outside && g_outside + n > OUTSIDE_MAX) || !meter_charge(METER_locks, n))
		return false;
	if (l->outside)
		g_outside += n;
	return true;
}

static void uncharge_locked(const struct file_locks *l, unsigned n) REQUIRES(g_locks)
{
	meter_uncharge(METER_locks, n);
	if (l->outside)
		g_outside -= n;
}

/* One that was in a list of @l, and so was charged for. */
static void lock_free_locked(const struct file_locks *l, struct lock *at) REQUIRES(g_locks)
{
	mem_free(at);
	uncharge_locked(l, 1);
}

/* ---- record locks ---- */

/* How many of its spare ones apply_locked will use. */
static unsigned needs_locked(const struct file_locks *l, const struct lock *want) REQUIRES(g_locks)
{
	unsigned n = want->type != LX_F_UNLCK;
	const struct lock *at;

	TAILQ_FOREACH (at, &l->records, link) {
		if (same_owner(at, want) && at->type != want->type && at->start < want->start &&
		    at->end > want->end) {
			n++;
			break;
		}
	}
	return n;
}

/* Sets, changes or removes the range @want in what its owner has, which does not conflict with
 * others. @spare: two locks to use; what is used is set to NULL. True: the owner had something of
 * another type there. */
static bool apply_locked(struct file_locks *l, const struct lock *want, struct lock *spare[2])
	REQUIRES(g_locks)
{
	struct lock merged = *want, *at, *next, *right = NULL, *fresh;
	bool cut = false;

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
			lock_free_locked(l, at);
			continue;
		}
		if (at->end < want->start || at->start > want->end)
			continue;
		cut = true;
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
			lock_free_locked(l, at);
		}
	}
	if (want->type == LX_F_UNLCK)
		return cut;
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
	return cut;
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

/* One attempt, in the turn. *inside: it is another guest's lock that is in the way. */
static int try_record(struct file_locks *l, const struct lock *want, struct lock *spare[2],
		      bool *inside)
{
	unsigned needs = 0;
	bool cut = false;
	int r;

	mutex_lock(&g_locks);
	*inside = find_conflict_locked(l, want) != NULL;
	r = *inside ? -EAGAIN : 0;
	if (r == 0) {
		needs = needs_locked(l, want);
		if (!charge_locked(l, needs))
			r = -ENOLCK;
	}
	if (r == 0 && !l->outside)
		(void)apply_locked(l, want, spare);
	mutex_unlock(&g_locks);
	if (r || !l->outside)
		return r;
	if (want->type != LX_F_UNLCK)
		r = outside_take(l, want);
	mutex_lock(&g_locks);
	if (r == 0)
		cut = apply_locked(l, want, spare);
	else
		uncharge_locked(l, needs);
	mutex_unlock(&g_locks);
	if (want->type == LX_F_UNLCK && cut)
		outside_trim(l, want->start, want->end);
	return r;
}

static int set_record(struct inode *i, const struct lock *want, bool wait)
{
	struct lock *spare[2] = {NULL, NULL};
	struct file_locks *l;
	uint64_t delay_ns = 0;
	bool inside;
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
		const unsigned seen = atomic_load(&l->changes);

		turn_begin(l);
		r = try_record(l, want, spare, &inside);
		turn_end(l);
		if (r != -EAGAIN || !wait)
			break;
		r = inside ? wait_for(l, want) : outside_wait(l, seen, &delay_ns);
		if (r)
			break;
	}
	/* Even a new lock can make room: it may replace a stronger one. */
	if (r == 0)
		wake_waiters(l);
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
		base = vfs_pos(f);
		break;
	case LX_SEEK_END:
		base = (int64_t)size_of(f);
		break;
	default:
		return -EINVAL;
	}
	if (base < 0)
		return (int)base;
	if (fl->l_start > INT64_MAX - base)
		return -EOVERFLOW;
	out->start = base + fl->l_start;
	if (out->start < 0)
		return -EINVAL;
	if (fl->l_len > 0) {
		if (fl->l_len - 1 > INT64_MAX - out->start)
			return -EOVERFLOW;
		out->end = out->start + (fl->l_len - 1);
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
	/* Where nobody here has one, somebody outside may. */
	l = outside_of(f->inode) ? locks_make(f->inode) : locks_of(f->inode);
	fl->l_type = LX_F_UNLCK;
	if (!l)
		return outside_of(f->inode) ? -ENOLCK : 0;
	turn_begin(l);
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
	if (!at && l->outside && want.type != LX_F_UNLCK)
		r = outside_test(l, &want, fl);
	turn_end(l);
	return r;
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

/* Takes away what @owner has of @kind. True: there was something, within *range. */
static bool drop_owner_locked(struct file_locks *l, int kind, const void *owner, struct lock *range)
	REQUIRES(g_locks)
{
	struct lock_list *list = kind == LOCK_INFO_FLOCK ? &l->flocks : &l->records;
	struct lock *at, *next;
	bool any = false;

	range->start = END_OF_FILE;
	range->end = 0;
	TAILQ_FOREACH_SAFE (at, list, link, next) {
		if (at->kind != kind || at->owner != owner)
			continue;
		range->start = MIN(range->start, at->start);
		range->end = MAX(range->end, at->end);
		TAILQ_REMOVE(list, at, link);
		lock_free_locked(l, at);
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

static void insert_flock_locked(struct file_locks *l, const struct lock *want, struct lock **fresh)
	REQUIRES(g_locks)
{
	**fresh = *want;
	TAILQ_INSERT_TAIL(&l->flocks, *fresh, link);
	*fresh = NULL;
}

/* What a lock has cost to try. */
struct flock_try {
	bool inside;  /* it is another guest's lock that is in the way */
	bool dropped; /* the old lock is gone */
};

/* One attempt, in the turn. Uses *fresh, and sets it to NULL then. */
static int try_flock(struct file_locks *l, const struct lock *want, struct lock **fresh,
		     struct flock_try *t)
{
	struct lock *old, unused;
	int r = 0;

	mutex_lock(&g_locks);
	old = flock_of_locked(l, want->owner);
	if (old && old->type == want->type) {
		mutex_unlock(&g_locks);
		return 0;
	}
	/* A change of kind is no step from one to the other: the old lock goes first, and may be
	 * lost. */
	t->dropped = drop_owner_locked(l, LOCK_INFO_FLOCK, want->owner, &unused);
	t->inside = find_conflict_locked(l, want) != NULL;
	if (t->inside)
		r = -EWOULDBLOCK;
	else if (!charge_locked(l, 1))
		r = -ENOLCK;
	if (r == 0 && !l->outside)
		insert_flock_locked(l, want, fresh);
	mutex_unlock(&g_locks);
	if (!l->outside)
		return r;
	if (r == 0) {
		r = outside_flock(l, want->type);
		mutex_lock(&g_locks);
		if (r == 0)
			insert_flock_locked(l, want, fresh);
		else
			uncharge_locked(l, 1);
		mutex_unlock(&g_locks);
	}
	if (r)
		outside_flock_settle(l);
	return r;
}

static int set_flock(struct file *f, const struct lock *want, bool wait)
{
	struct lock *fresh = mem_zalloc(sizeof(*fresh));
	struct file_locks *l = locks_make(f->inode);
	uint64_t delay_ns = 0;
	int r;

	if (!l || !fresh) {
		mem_free(fresh);
		return -ENOLCK;
	}
	for (;;) {
		const unsigned seen = atomic_load(&l->changes);
		struct flock_try t = {0};

		turn_begin(l);
		r = try_flock(l, want, &fresh, &t);
		turn_end(l);
		if (t.dropped)
			wake_waiters(l);
		if (r != -EWOULDBLOCK || !wait)
			break;
		r = t.inside ? wait_for(l, want) : outside_wait(l, seen, &delay_ns);
		if (r)
			break;
	}
	mem_free(fresh);
	return r;
}

static void release_owner(struct inode *i, int kind, const void *owner)
{
	struct file_locks *l = locks_of(i);
	struct lock range;
	bool any;

	if (likely(!l))
		return;
	turn_begin(l);
	mutex_lock(&g_locks);
	any = drop_owner_locked(l, kind, owner, &range);
	mutex_unlock(&g_locks);
	/* What the host did not let go of is tried again with each close. */
	if (l->outside && kind == LOCK_INFO_FLOCK)
		outside_flock_settle(l);
	else if (l->outside && (any || l->held.stale))
		outside_trim(l, range.start, range.end);
	turn_end(l);
	if (any)
		wake_waiters(l);
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
