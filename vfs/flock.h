/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advisory locks: flock(2), POSIX record locks and open-file-description locks (fcntl(2)).
 *
 * Those of a regular file that is granted of the host are locks on the host, too: programs there
 * and other sandboxes see and obey them, and they theirs. All others, and those of directories, are
 * the sandbox's own.
 *
 * There are no mandatory locks. Leases are never given: F_SETLEASE is -EAGAIN, as if the file
 * were open elsewhere.
 */
#ifndef MOAT_VFS_FLOCK_H
#define MOAT_VFS_FLOCK_H

#include "base/lx_fcntl.h"
#include "vfs/vfs.h"

/* flock(2), @op as given. -EWOULDBLOCK, -EINVAL, -EBADF, -ERESTARTSYS, -ENOLCK (no memory, or too
 * many), or what the host says. */
int flock_apply(struct vfs_ctx *c, struct file *f, unsigned op) MUST_USE;

/* fcntl's F_GETLK and F_OFD_GETLK: @fl is read and overwritten. */
int lock_get(struct vfs_ctx *c, struct file *f, int cmd, struct lx_flock *fl) MUST_USE;
/* fcntl's F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW. -EAGAIN, -EDEADLK, -EBADF, -EINVAL,
 * -EOVERFLOW, -ERESTARTSYS, -ENOLCK, or what the host says. The caller checks afterwards that the
 * descriptor still names @f and unlocks if not. */
int lock_set(struct vfs_ctx *c, struct file *f, int cmd, const struct lx_flock *fl) MUST_USE;

/* F_SETLEASE and F_GETLEASE. */
int lease_set(struct file *f, int type) MUST_USE;
int lease_get(struct file *f);

/* A descriptor of @f in table @owner was closed: that table's POSIX locks on the inode go. For
 * fd_close. */
void locks_close_posix(struct file *f, const struct fdtable *owner);
/* The last reference of @f went: its flock and OFD locks go. For file_put. */
void locks_release_file(struct file *f);
/* The inode dies: frees inode->locks. For inode_put. */
void locks_inode_free(struct inode *i);

/* What a file system does whose files' locks stand outside of the sandbox as well
 * (inode_ops.outside). Of each file it has up to two open descriptions: one that is open for
 * reading only, one that is open for @writing; either stays as long as a guest has the file open.
 * One call at a time for an inode; no short lock is held. Types are LX_F_*; @end is inclusive,
 * INT64_MAX: the end of the file. Nothing waits for another's lock: -EAGAIN. */
struct outside_locks {
	bool (*used)(const struct inode *i); /* always the same answer */
	/* Is there such a description, and may it hold a record lock of @type? */
	bool (*can)(struct inode *i, bool writing, int type);
	/* Sets what that description holds of a range. */
	int (*record)(struct inode *i, bool writing, int type, int64_t start, int64_t end);
	/* F_OFD_GETLK of that description; l_pid is the host's number. */
	int (*test)(struct inode *i, bool writing, struct lx_flock *fl);
	/* Sets its flock, LX_F_WRLCK being an exclusive one. */
	int (*flock)(struct inode *i, bool writing, int type);
};

struct lock_info {
	enum { LOCK_INFO_POSIX, LOCK_INFO_OFD, LOCK_INFO_FLOCK } kind;
	bool write;
	bool blocked; /* a waiter: shown after the lock it waits for, as "->" */
	int32_t pid;  /* -1 for OFD locks */
	uint64_t dev, ino;
	int64_t start, end; /* inclusive; INT64_MAX: to the end of file */
};
/* The locks of the sandbox in the order of making, for /proc/locks. Copies at most @max; the number
 * there are. */
size_t locks_list(struct lock_info *out, size_t max);

#endif
