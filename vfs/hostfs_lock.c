/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs: the locks of regular files, as the host holds them for the sandbox (vfs/flock_outside.c).
 *
 * Theory of operation: record locks are open-file-description locks of the host's, which need
 * nothing but the descriptor and go with it, whatever ends the sandbox. They stand on the
 * descriptors that the contents are read and written by: those are there already, also of a file
 * that has no name any more, and one who only reads holds none that could write. Since each is let
 * go of by a call, it is no matter who else still maps a file by that description.
 *
 * Of an immutable tree (the lower half of an overlay) nothing is locked on the host: nobody granted
 * it by name, and what a guest changes there is its own.
 */
#include "base/lx_fcntl.h"
#include "vfs/flock.h"
#include "vfs/hostfs_node.h"

static bool locks_used(const struct inode *i)
{
	return !hnode_of(i)->sb->opts.immutable;
}

static bool locks_can(struct inode *i, bool writing, int type)
{
	return hnode_lock_fd(hnode_of(i), writing, type) >= 0;
}

static int locks_record(struct inode *i, bool writing, int type, int64_t start, int64_t end)
{
	const int fd = hnode_lock_fd(hnode_of(i), writing, type);

	return fd < 0 ? fd : host_record_lock(fd, type, start, end);
}

static int locks_test(struct inode *i, bool writing, struct lx_flock *fl)
{
	const int fd = hnode_lock_fd(hnode_of(i), writing, LX_F_UNLCK);

	return fd < 0 ? fd : host_record_test(fd, fl);
}

static int locks_flock(struct inode *i, bool writing, int type)
{
	const int fd = hnode_lock_fd(hnode_of(i), writing, LX_F_UNLCK);

	return fd < 0 ? fd : host_flock(fd, type);
}

const struct outside_locks g_hostfs_locks = {
	.used = locks_used,
	.can = locks_can,
	.record = locks_record,
	.test = locks_test,
	.flock = locks_flock,
};
