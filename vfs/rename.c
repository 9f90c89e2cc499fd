/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rename(2), renameat2(2).
 *
 * Locking: super->rename_lock if the directories differ, so that who is above whom stands still;
 * then both directories, an ancestor first, unrelated ones by address; then the files themselves,
 * directories before others, by address.
 *
 * References: rename(2).
 */
#include <errno.h>
#include "vfs/dcache.h"
#include "vfs/fsnotify.h"
#include "vfs/inode.h"
#include "vfs/inotify.h"
#include "vfs/mount.h"
#include "vfs/names.h"

struct rename {
	struct vfs_ctx *c;
	unsigned flags;
	struct path from_dir, to_dir; /* references */
	struct walk_last from_last, to_last;
	struct dentry *from, *to; /* references */
	/* The child of one directory on the way to the other, if one is below the other. Borrowed.
	 */
	struct dentry *trap;
};

static bool is_dir(const struct dentry *d)
{
	const struct inode *i = dentry_inode(d);

	return i && LX_S_ISDIR(inode_mode(i));
}

static void lock_dirs(struct rename *rn) NO_TSA
{
	struct dentry *a = rn->from_dir.dentry, *b = rn->to_dir.dentry;

	rn->trap = NULL;
	if (a == b) {
		fmutex_lock(&a->inode->lock);
		return;
	}
	fmutex_lock(&a->super->rename_lock);
	mutex_lock(&g_dcache_lock);

	struct dentry *below_b = dentry_child_towards_locked(a, b);
	struct dentry *below_a = below_b ? NULL : dentry_child_towards_locked(b, a);

	mutex_unlock(&g_dcache_lock);
	rn->trap = below_b ? below_b : below_a;

	bool b_first = below_b || (!below_a && (uintptr_t)b->inode < (uintptr_t)a->inode);

	fmutex_lock(b_first ? &b->inode->lock : &a->inode->lock);
	if (a->inode != b->inode)
		fmutex_lock(b_first ? &a->inode->lock : &b->inode->lock);
}

static void unlock_dirs(struct rename *rn) NO_TSA
{
	struct dentry *a = rn->from_dir.dentry, *b = rn->to_dir.dentry;

	fmutex_unlock(&a->inode->lock);
	if (a == b)
		return;
	if (a->inode != b->inode)
		fmutex_unlock(&b->inode->lock);
	fmutex_unlock(&a->super->rename_lock);
}

/* The two files, of which the second may be NULL. */
static void lock_files(struct inode *a, struct inode *b) NO_TSA
{
	if (!b || a == b) {
		fmutex_lock(&a->lock);
		return;
	}

	bool a_dir = LX_S_ISDIR(inode_mode(a)), b_dir = LX_S_ISDIR(inode_mode(b));
	bool a_first = a_dir != b_dir ? a_dir : (uintptr_t)a < (uintptr_t)b;

	fmutex_lock(a_first ? &a->lock : &b->lock);
	fmutex_lock(a_first ? &b->lock : &a->lock);
}

static void unlock_files(struct inode *a, struct inode *b) NO_TSA
{
	fmutex_unlock(&a->lock);
	if (b && b != a)
		fmutex_unlock(&b->lock);
}

/* The checks of Linux's do_renameat2, with both names looked up. */
static int check_names(struct rename *rn)
{
	bool exchange = rn->flags & LX_RENAME_EXCHANGE;

	if (!dentry_inode(rn->from))
		return -ENOENT;
	if ((rn->flags & LX_RENAME_NOREPLACE) && dentry_inode(rn->to))
		return -EEXIST;
	if (exchange) {
		if (!dentry_inode(rn->to))
			return -ENOENT;
		if (!is_dir(rn->to) && rn->to_last.trailing_slash)
			return -ENOTDIR;
	}
	if (!is_dir(rn->from)) {
		if (rn->from_last.trailing_slash || (!exchange && rn->to_last.trailing_slash))
			return -ENOTDIR;
	}
	/* A directory into itself; a name over one of the directories that hold it. */
	if (rn->from == rn->trap)
		return -EINVAL;
	if (rn->to == rn->trap && rn->trap)
		return exchange ? -EINVAL : -ENOTEMPTY;
	return 0;
}

/* The checks of Linux's vfs_rename. */
static int check_permissions(struct rename *rn)
{
	struct vfs_ctx *c = rn->c;
	struct inode *from_dir = dentry_inode(rn->from_dir.dentry),
		     *to_dir = dentry_inode(rn->to_dir.dentry);
	bool exchange = rn->flags & LX_RENAME_EXCHANGE;
	bool from_is_dir = is_dir(rn->from);
	int r = may_delete(c, from_dir, rn->from, from_is_dir);

	if (r)
		return r;
	if (dentry_inode(rn->to))
		r = may_delete(c, to_dir, rn->to, exchange ? is_dir(rn->to) : from_is_dir);
	else
		r = may_create_in(c, to_dir);
	if (r)
		return r;
	if (!from_dir->ops->rename)
		return -EPERM;
	/* To get another "..", a directory must be writable itself. */
	if (from_dir != to_dir) {
		if (from_is_dir)
			r = inode_permission(c, dentry_inode(rn->from), MAY_WRITE);
		if (r == 0 && exchange && is_dir(rn->to))
			r = inode_permission(c, dentry_inode(rn->to), MAY_WRITE);
	}
	return r;
}

/* Renames; everything is locked and checked. */
static int commit(struct rename *rn)
{
	struct inode *from_dir = dentry_inode(rn->from_dir.dentry),
		     *to_dir = dentry_inode(rn->to_dir.dentry);
	struct inode *i = dentry_inode(rn->from), *victim = dentry_inode(rn->to);
	bool exchange = rn->flags & LX_RENAME_EXCHANGE;
	struct dentry_move_room room;
	uint32_t cookie = inotify_cookie(), back = exchange ? inotify_cookie() : 0;
	int r = dentry_move_prepare(&room, rn->from, rn->to);

	if (r)
		return r;
	r = from_dir->ops->rename(from_dir, rn->from->name, rn->from->name_len, i, to_dir,
				  rn->to->name, rn->to->name_len, victim, rn->flags);
	if (r) {
		dentry_move_cancel(&room);
		return r;
	}
	fsnotify(rn->from, LX_IN_MOVED_FROM, cookie);
	if (exchange)
		fsnotify(rn->to, LX_IN_MOVED_FROM, back);
	if (victim && !exchange)
		victim_gone(rn->to);
	dentry_move(&room, rn->from, rn->to, exchange);
	fsnotify(rn->from, LX_IN_MOVED_TO, cookie);
	if (victim && !exchange)
		fsnotify_inode(victim, LX_IN_ATTRIB); /* its count of links */
	fsnotify_inode(i, LX_IN_MOVE_SELF);
	if (exchange) {
		fsnotify(rn->to, LX_IN_MOVED_TO, back);
		fsnotify_inode(victim, LX_IN_MOVE_SELF);
	}
	return 0;
}

static int rename_locked(struct rename *rn)
{
	struct inode *i, *victim;
	int r;

	r = dentry_lookup_locked(rn->from_dir.dentry, rn->from_last.name, rn->from_last.len,
				 &rn->from);
	if (r) {
		rn->from = NULL;
		return r;
	}
	r = dentry_lookup_locked(rn->to_dir.dentry, rn->to_last.name, rn->to_last.len, &rn->to);
	if (r) {
		rn->to = NULL;
		return r;
	}
	r = check_names(rn);
	if (r)
		return r;
	i = dentry_inode(rn->from);
	victim = dentry_inode(rn->to);
	if (i == victim)
		return 0; /* two names of one file: POSIX wants nothing done */
	/* On a host's tree that changes under us one directory may show under two names. Whoever is
	 * locked already must not be locked again. */
	if (i == dentry_inode(rn->from_dir.dentry) || i == dentry_inode(rn->to_dir.dentry))
		return -EINVAL;
	if (victim && (victim == dentry_inode(rn->from_dir.dentry) ||
		       victim == dentry_inode(rn->to_dir.dentry)))
		return -ENOTEMPTY;
	r = check_permissions(rn);
	if (r)
		return r;
	lock_files(i, victim);
	if (dentry_is_mountpoint(rn->from) || dentry_is_mountpoint(rn->to))
		r = -EBUSY;
	else
		r = commit(rn);
	unlock_files(i, victim);
	return r;
}

static int rename_paths(struct rename *rn)
{
	int r;

	if (rn->from_dir.mnt != rn->to_dir.mnt)
		return -EXDEV;
	if (rn->from_last.type != LAST_NORM)
		return -EBUSY;
	if (rn->to_last.type != LAST_NORM)
		return (rn->flags & LX_RENAME_NOREPLACE) ? -EEXIST : -EBUSY;
	r = path_want_write(&rn->from_dir, VFS_USE_NAMES);
	if (r == 0)
		r = path_want_write(&rn->to_dir, VFS_USE_NAMES);
	if (r)
		return r;
	revalidate_name(rn->from_dir.dentry, rn->from_last.name, rn->from_last.len);
	revalidate_name(rn->to_dir.dentry, rn->to_last.name, rn->to_last.len);
	lock_dirs(rn);
	r = rename_locked(rn);
	unlock_dirs(rn);
	if (r == 0)
		vfs_used(&(struct path){rn->to_dir.mnt, rn->from}, VFS_USE_MADE);
	dentry_put(rn->from);
	dentry_put(rn->to);
	return r;
}

int vfs_rename(struct vfs_ctx *c, const struct path *old_start, const char *old_name,
	       const struct path *new_start, const char *new_name, unsigned flags)
{
	struct rename rn = {.c = c, .flags = flags};
	int r;

	if (flags & ~(LX_RENAME_NOREPLACE | LX_RENAME_EXCHANGE | LX_RENAME_WHITEOUT))
		return -EINVAL;
	if ((flags & (LX_RENAME_NOREPLACE | LX_RENAME_WHITEOUT)) && (flags & LX_RENAME_EXCHANGE))
		return -EINVAL;
	r = path_lookup_parent(c, old_start, old_name, 0, &rn.from_dir, &rn.from_last);
	if (r)
		return r;
	r = path_lookup_parent(c, new_start, new_name, 0, &rn.to_dir, &rn.to_last);
	if (r == 0) {
		r = rename_paths(&rn);
		path_put(&rn.to_dir);
	}
	path_put(&rn.from_dir);
	return r;
}
