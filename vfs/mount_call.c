/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount(2), umount2(2), pivot_root(2), chroot(2), chdir(2): what these calls check, and in which
 * order.
 *
 * Deviations from Linux: file systems on block devices do not exist (ENODEV); flags that a mount
 * cannot keep (sync, mand, dirsync, nodiratime, strictatime, nosymfollow) are accepted and not
 * shown.
 *
 * References: mount(2), umount(2), pivot_root(2), chroot(2), chdir(2).
 */
#include <errno.h>
#include <string.h>
#include "vfs/dcache.h"
#include "vfs/inode.h"
#include "vfs/mount.h"

#define MS_PROPAGATION (LX_MS_SHARED | LX_MS_PRIVATE | LX_MS_SLAVE | LX_MS_UNBINDABLE)

static bool may_mount(struct vfs_ctx *c)
{
	return cred_capable(c->cred, LX_CAP_SYS_ADMIN);
}

static unsigned mount_flags_of(uint64_t ms)
{
	unsigned f = 0;

	if (ms & LX_MS_RDONLY)
		f |= MOUNT_RDONLY;
	if (ms & LX_MS_NOSUID)
		f |= MOUNT_NOSUID;
	if (ms & LX_MS_NODEV)
		f |= MOUNT_NODEV;
	if (ms & LX_MS_NOEXEC)
		f |= MOUNT_NOEXEC;
	if (ms & LX_MS_NOATIME)
		f |= MOUNT_NOATIME;
	return f;
}

static int do_bind(struct vfs_ctx *c, const char *source, const struct path *where, bool recursive)
{
	struct path from;
	int r;

	if (!source || !source[0])
		return -EINVAL;
	r = path_lookup(c, NULL, source, WALK_FOLLOW, &from);
	if (r)
		return r;
	r = mount_bind(c->ns, &from, where, recursive);
	path_put(&from);
	return r;
}

static int do_move(struct vfs_ctx *c, const char *source, const struct path *where)
{
	struct path from;
	int r;

	if (!source || !source[0])
		return -EINVAL;
	r = path_lookup(c, NULL, source, WALK_FOLLOW, &from);
	if (r)
		return r;
	r = mount_move(c->ns, &from, where);
	path_put(&from);
	return r;
}

/* The kinds of propagation exclude each other, and go with no other flag. */
static int do_propagation(struct vfs_ctx *c, const struct path *where, uint64_t ms)
{
	uint64_t type = ms & ~(LX_MS_REC | LX_MS_SILENT);

	if (where->dentry != where->mnt->root || where->mnt->ns != c->ns)
		return -EINVAL;
	if ((type & ~MS_PROPAGATION) || (type & (type - 1)))
		return -EINVAL;
	return 0;
}

static int do_new(struct vfs_ctx *c, const char *source, const struct path *where, const char *type,
		  uint64_t ms, const char *data)
{
	const struct fs_type *t;
	struct super *s;
	int r;

	if (!type)
		return -EINVAL;
	t = fs_type_find(type);
	if (!t || !t->mount)
		return -ENODEV;
	if (!t->user_mountable)
		return -EPERM;
	r = t->mount(t, c, source, data, mount_flags_of(ms), &s);
	if (r)
		return r;
	/* A second time on the same place is most likely a mistake. */
	if (where->mnt->super == s && where->dentry == where->mnt->root)
		r = -EBUSY;
	else
		r = mount_attach(c->ns, where, s, NULL, mount_flags_of(ms), source, NULL);
	super_put(s);
	return r;
}

int vfs_mount(struct vfs_ctx *c, const char *source, const char *target, const char *type,
	      uint64_t ms, const char *data)
{
	struct path where;
	int r;

	if ((ms & LX_MS_MGC_MSK) == LX_MS_MGC_VAL)
		ms &= ~LX_MS_MGC_MSK;
	r = path_lookup(c, NULL, target, WALK_FOLLOW, &where);
	if (r)
		return r;
	if (ms & LX_MS_NOUSER)
		r = -EINVAL;
	else if (!may_mount(c))
		r = -EPERM;
	else if (ms & LX_MS_REMOUNT)
		r = mount_remount(c->ns, &where, mount_flags_of(ms), !(ms & LX_MS_BIND));
	else if (ms & LX_MS_BIND)
		r = do_bind(c, source, &where, ms & LX_MS_REC);
	else if (ms & MS_PROPAGATION)
		r = do_propagation(c, &where, ms);
	else if (ms & LX_MS_MOVE)
		r = do_move(c, source, &where);
	else
		r = do_new(c, source, &where, type, ms, data);
	path_put(&where);
	return r;
}

int vfs_umount(struct vfs_ctx *c, const char *target, unsigned flags)
{
	struct path where;
	int r;

	if (flags & ~(LX_MNT_FORCE | LX_MNT_DETACH | LX_MNT_EXPIRE | LX_UMOUNT_NOFOLLOW))
		return -EINVAL;
	r = path_lookup(c, NULL, target, (flags & LX_UMOUNT_NOFOLLOW) ? 0 : WALK_FOLLOW, &where);
	if (r)
		return r;
	/* "." does not see what was mounted on it since; umount must. */
	mount_follow_down(&where);
	r = may_mount(c) ? mount_detach(c->ns, &where, flags) : -EPERM;

	/* Our own use must not take away the mark that MNT_EXPIRE has just made. */
	dentry_put(where.dentry);
	mount_put_quiet(where.mnt);
	return r;
}

int vfs_pivot_root(struct vfs_ctx *c, const char *new_root, const char *put_old)
{
	struct path root, to, old;
	int r;

	if (!may_mount(c))
		return -EPERM;
	r = path_lookup(c, NULL, new_root, WALK_FOLLOW | WALK_DIRECTORY, &to);
	if (r)
		return r;
	r = path_lookup(c, NULL, put_old, WALK_FOLLOW | WALK_DIRECTORY, &old);
	if (r == 0) {
		fs_get_root(c->fs, &root);
		r = mount_pivot_from(c->ns, &root, &to, &old);
		path_put(&root);
		path_put(&old);
	}
	path_put(&to);
	return r;
}

static int may_enter(struct vfs_ctx *c, const struct path *p)
{
	struct inode *i = dentry_inode(p->dentry);

	return LX_S_ISDIR(inode_mode(i)) ? inode_permission(c, i, MAY_EXEC) : -ENOTDIR;
}

int vfs_chdir(struct vfs_ctx *c, const struct path *p)
{
	int r = may_enter(c, p);

	if (r == 0)
		fs_set_cwd(c->fs, p);
	return r;
}

int vfs_chroot(struct vfs_ctx *c, const struct path *p)
{
	int r = may_enter(c, p);

	if (r)
		return r;
	if (!cred_capable(c->cred, LX_CAP_SYS_CHROOT))
		return -EPERM;
	fs_set_root(c->fs, p);
	return 0;
}
