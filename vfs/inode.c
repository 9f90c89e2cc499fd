/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inodes: life, times, the count of writers, the owner of new files.
 *
 * Theory of operation: an inode belongs to its file system, which makes it at lookup or creation
 * and may keep references of its own (a tmpfs's names do). Each inode counts in super->inodes, so
 * the super outlives it.
 *
 * The count of writers is Linux's i_writecount: positive, so many open for writing; negative, so
 * many running it as a program. Each side is refused while the other is there (ETXTBSY).
 */
#include <errno.h>
#include "base/clock.h"
#include "base/err.h"
#include "vfs/dcache.h"
#include "vfs/flock.h"
#include "vfs/inotify.h"
#include "vfs/inode.h"
#include "vfs/pipe.h"
#include "vfs/shown.h"

/* Until its file system says otherwise an inode has no operations, but never NULL for them. */
static const struct inode_ops g_no_inode_ops;
static const struct file_ops g_no_file_ops;

struct inode *inode_new_with(struct super *s, uint32_t mode, size_t extra)
{
	struct inode *i = mem_zalloc(sizeof(*i) + extra);

	if (!i)
		return NULL;
	ref_init(&i->ref);
	ref_get(&s->inodes);
	i->super = s;
	i->mode = mode;
	i->ops = &g_no_inode_ops;
	i->fops = &g_no_file_ops;
	i->nlink = 1;
	i->priv = extra ? i + 1 : NULL;
	fmutex_init(&i->lock);
	mutex_init(&i->meta, RANK_INODE);
	return i;
}

struct inode *inode_new(struct super *s, uint32_t mode)
{
	struct inode *i = inode_new_with(s, mode, 0);

	if (!i)
		return NULL;
	i->ino = atomic_fetch_add_explicit(&s->next_ino, 1, memory_order_relaxed);
	i->atime = i->mtime = i->ctime = i->btime = (int64_t)clock_stamp_ns();
	return i;
}

struct inode *inode_get(struct inode *i)
{
	ref_get(&i->ref);
	return i;
}

void inode_put(struct inode *i)
{
	if (!i || !ref_put(&i->ref))
		return;

	struct super *s = i->super;

	inotify_inode_free(i);
	locks_inode_free(i);
	pipe_inode_free(i);
	if (s->ops && s->ops->inode_free)
		s->ops->inode_free(i);
	fmutex_fini(&i->lock);
	mutex_fini(&i->meta);
	mem_free(i);
	super_put_inode(s);
}

void inode_touch(struct inode *i, bool a, bool m, bool c)
{
	int64_t now = (int64_t)clock_stamp_ns();

	mutex_lock(&i->meta);
	inode_changes(i);
	if (a && !(super_flags(i->super) & SUPER_NOATIME))
		i->atime = now;
	if (m)
		i->mtime = now;
	if (c)
		i->ctime = now;
	mutex_unlock(&i->meta);
}

/* ---- writers against runners ---- */

int inode_get_write(struct inode *i)
{
	int32_t n = atomic_load_explicit(&i->writers, memory_order_relaxed);

	do {
		if (n < 0)
			return -ETXTBSY;
	} while (!atomic_compare_exchange_weak_explicit(
		&i->writers, &n, n + 1, memory_order_acquire, memory_order_relaxed));
	atomic_fetch_add_explicit(&i->super->writers, 1, memory_order_relaxed);
	return 0;
}

void inode_put_write(struct inode *i)
{
	int32_t old = atomic_fetch_sub_explicit(&i->writers, 1, memory_order_release);

	BUG_ON(old <= 0);
	atomic_fetch_sub_explicit(&i->super->writers, 1, memory_order_relaxed);
}

int inode_deny_write(struct inode *i)
{
	int32_t n = atomic_load_explicit(&i->writers, memory_order_relaxed);

	do {
		if (n > 0)
			return -ETXTBSY;
	} while (!atomic_compare_exchange_weak_explicit(
		&i->writers, &n, n - 1, memory_order_acquire, memory_order_relaxed));
	return 0;
}

void inode_allow_write(struct inode *i)
{
	int32_t old = atomic_fetch_add_explicit(&i->writers, 1, memory_order_release);

	BUG_ON(old >= 0);
}

/* ---- owners ---- */

void inode_attrs_now(struct inode *i, struct inode_attrs *out)
{
	mutex_lock(&i->meta);
	*out = (struct inode_attrs){.mode = i->mode,
				    .uid = i->uid,
				    .gid = i->gid,
				    .iflags = i->iflags,
				    .nlink = i->nlink};
	mutex_unlock(&i->meta);
}

bool inode_owner_or_capable(struct vfs_ctx *c, struct inode *i)
{
	return c->cred->fsuid == __atomic_load_n(&i->uid, __ATOMIC_RELAXED) ||
	       cred_capable(c->cred, LX_CAP_FOWNER);
}

bool cred_group_or_fsetid(const struct cred *cr, uint32_t gid)
{
	return cred_in_group(cr, gid) || cred_capable(cr, LX_CAP_FSETID);
}

uint32_t mode_for_new(struct vfs_ctx *c, struct inode *dir, uint32_t mode, uint32_t umask)
{
	struct inode_attrs a;

	inode_attrs_now(dir, &a);
	mode &= ~umask;
	if (!(a.mode & LX_S_ISGID))
		return mode;
	if (LX_S_ISDIR(mode))
		return mode | LX_S_ISGID;
	/* A program with the directory's group's rights is for members of the group to make. */
	if ((mode & (LX_S_ISGID | 0010)) == (LX_S_ISGID | 0010) &&
	    !cred_group_or_fsetid(c->cred, a.gid))
		mode &= ~(uint32_t)LX_S_ISGID;
	return mode;
}

void inode_init_owner(struct vfs_ctx *c, struct inode *i, struct inode *dir, uint32_t mode)
{
	uint32_t gid = c->cred->fsgid;

	if (dir) {
		struct inode_attrs a;

		inode_attrs_now(dir, &a);
		if (a.mode & LX_S_ISGID) {
			gid = a.gid;
			if (LX_S_ISDIR(mode))
				mode |= LX_S_ISGID;
		}
	}
	mutex_lock(&i->meta);
	i->uid = c->cred->fsuid;
	i->gid = gid;
	i->mode = mode;
	mutex_unlock(&i->meta);
}

/* ---- setuid and setgid bits ---- */

/* What a change of content takes from @mode. */
static uint32_t priv_bits(uint32_t mode)
{
	uint32_t kill = mode & LX_S_ISUID;

	/* Without group execution setgid does not mean what it says. */
	if ((mode & (LX_S_ISGID | 0010)) == (LX_S_ISGID | 0010))
		kill |= LX_S_ISGID;
	return kill;
}

bool inode_needs_kill_priv(struct vfs_ctx *c, struct inode *i)
{
	uint32_t mode = __atomic_load_n(&i->mode, __ATOMIC_RELAXED);

	if (!LX_S_ISREG(mode) || !(mode & (LX_S_ISUID | LX_S_ISGID)))
		return false;

	uint32_t kill = priv_bits(mode);

	if ((mode & LX_S_ISGID) &&
	    !cred_group_or_fsetid(c->cred, __atomic_load_n(&i->gid, __ATOMIC_RELAXED)))
		kill |= LX_S_ISGID;
	return kill && !cred_capable(c->cred, LX_CAP_FSETID);
}

int inode_kill_priv(struct vfs_ctx *c, struct inode *i)
{
	struct inode_attrs a;

	if (!inode_needs_kill_priv(c, i))
		return 0;
	inode_attrs_now(i, &a);

	uint32_t kill = priv_bits(a.mode);

	if (!cred_group_or_fsetid(c->cred, a.gid))
		kill |= LX_S_ISGID;

	struct iattr attr = {.valid = ATTR_MODE | ATTR_CTIME,
			     .mode = a.mode & ~kill & ~(uint32_t)LX_S_IFMT,
			     .ctime = (int64_t)clock_stamp_ns()};

	return inode_do_setattr(c, i, &attr);
}
