/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of file locks, shared by flock.c and flock_outside.c; nobody else includes it.
 *
 * Locks that stand outside too: where an inode has outside_locks (vfs/flock.h), what its guests
 * hold together, the *union*, is also held on the host, by one description for the record locks and
 * one for flock. The lists here stay what decides between guests; the host is asked afterwards,
 * before the lists change, and let go of after they have. All that changes the lists of such an
 * inode does so in its turn (file_locks.turn), a lock of fibers, so they may be read there without
 * g_locks.
 *
 * Lock order: turn, then g_locks; inside of turn nothing sleeps but for the host.
 */
#ifndef MOAT_VFS_FLOCK_INTERNAL_H
#define MOAT_VFS_FLOCK_INTERNAL_H

#include "vfs/flock.h"

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
	_Atomic unsigned changes; /* how often wq was woken */
	TAILQ_ENTRY(file_locks) all;
	const struct outside_locks *outside; /* NULL: they are the sandbox's own */
	struct fmutex turn;
	/* What the host was told. [turn] */
	struct {
		bool records[2]; /* there may be some, by the description that is open */
		bool writing;    /* for writing: the one that is used */
		bool stale;      /* more than the union: it did not let go */
		int flock;       /* LX_F_*, */
		bool flock_writing;
	} held;
};

/* All with l->turn held, for inodes that have outside_locks. */

/* Takes @want (not LX_F_UNLCK), which conflicts with no guest's. -EAGAIN: with somebody's outside;
 * -ENOLCK, or what the host says; then nothing has changed. */
int outside_take(struct file_locks *l, const struct lock *want) MUST_USE;
/* Lets go of what no guest holds of @start … @end any more. */
void outside_trim(struct file_locks *l, int64_t start, int64_t end);
/* If no other guest's lock is in the way of *fl, which asks as @want does: is one outside? Then *fl
 * tells of it, else it stays. */
int outside_test(struct file_locks *l, const struct lock *want, struct lx_flock *fl) MUST_USE;
/* The union of flock becomes @type. As with the host's flock: if it fails (-EAGAIN: somebody has it
 * outside) what was held may be lost, and outside_flock_settle is due. */
int outside_flock(struct file_locks *l, int type) MUST_USE;
/* Lets go of it if no guest has one any more. */
void outside_flock_settle(struct file_locks *l);
/* Waits a while, for somebody outside to let go or for a change inside since l->changes was @seen.
 * *delay_ns: how long the last time, 0 at first. 0: try again; -ERESTARTSYS. Not in the turn. */
int outside_wait(struct file_locks *l, unsigned seen, uint64_t *delay_ns)
	EXCLUDES(l->turn) MUST_USE;

#endif
