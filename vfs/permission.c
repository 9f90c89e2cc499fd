/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what with an inode: mode bits, groups, and the capabilities that stand above them.
 *
 * References: path_resolution(7) "Permissions", capabilities(7), access(2).
 */
#include <errno.h>
#include "vfs/inode.h"
#include "vfs/mount.h"

int generic_permission(struct vfs_ctx *c, struct inode *i, unsigned mask)
{
	const struct cred *cr = c->cred;
	struct inode_attrs a;
	uint32_t mode;

	inode_attrs_now(i, &a);
	mode = a.mode;
	if (cr->fsuid == a.uid)
		mode >>= 6;
	else if (cred_in_group(cr, a.gid))
		mode >>= 3;
	mask &= MAY_READ | MAY_WRITE | MAY_EXEC;
	if ((mask & ~mode) == 0)
		return 0;
	if (LX_S_ISDIR(a.mode)) {
		if (!(mask & MAY_WRITE) && cred_capable(cr, LX_CAP_DAC_READ_SEARCH))
			return 0;
		return cred_capable(cr, LX_CAP_DAC_OVERRIDE) ? 0 : -EACCES;
	}
	if (mask == MAY_READ && cred_capable(cr, LX_CAP_DAC_READ_SEARCH))
		return 0;
	/* To run a file, somebody must be allowed to. */
	if ((!(mask & MAY_EXEC) || (a.mode & 0111)) && cred_capable(cr, LX_CAP_DAC_OVERRIDE))
		return 0;
	return -EACCES;
}

int inode_permission(struct vfs_ctx *c, struct inode *i, unsigned mask)
{
	if (mask & MAY_WRITE) {
		uint32_t mode = inode_mode(i);

		if ((super_flags(i->super) & SUPER_RDONLY) &&
		    (LX_S_ISREG(mode) || LX_S_ISDIR(mode) || LX_S_ISLNK(mode))) {
			vfs_denied(VFS_DENIED_READ_ONLY, NULL);
			return -EROFS;
		}
		if (__atomic_load_n(&i->iflags, __ATOMIC_RELAXED) & INODE_IMMUTABLE)
			return -EPERM;
	}
	return i->ops->permission ? i->ops->permission(c, i, mask) : generic_permission(c, i, mask);
}

int vfs_access(struct vfs_ctx *c, const struct path *p, unsigned mask)
{
	struct inode *i = dentry_inode_of(p);
	uint32_t mode = inode_mode(i);
	int r;

	if ((mask & MAY_EXEC) && LX_S_ISREG(mode) && p->mnt &&
	    (mount_flags(p->mnt) & MOUNT_NOEXEC)) {
		vfs_denied(VFS_DENIED_NO_EXEC, p->mnt);
		return -EACCES;
	}
	r = inode_permission(c, i, mask);
	if (r == 0 && (mask & MAY_EXEC) && LX_S_ISREG(mode))
		vfs_used(p, VFS_USE_EXEC);
	if (r || !(mask & MAY_WRITE))
		return r;
	/* What is written through a device node, a FIFO or a socket does not end up on the mount.
	 */
	if (LX_S_ISCHR(mode) || LX_S_ISBLK(mode) || LX_S_ISFIFO(mode) || LX_S_ISSOCK(mode))
		return 0;
	return path_want_write(p, VFS_USE_WRITE);
}
