/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes: stat, chmod, chown, utimes, truncate.
 *
 * Theory of operation: vfs_setattr makes all checks under inode->lock, completes the request
 * (times, bits that a change takes away), and hands it to the file system, which applies it, by
 * inode_apply_attr if it has nothing better.
 *
 * The order of checks is Linux's, since programs and test suites look at which errno comes first.
 *
 * References: chmod(2), chown(2), utimensat(2), truncate(2), inode(7).
 */
#include <errno.h>
#include "base/clock.h"
#include "vfs/dcache.h"
#include "vfs/fsnotify.h"
#include "vfs/inode.h"
#include "vfs/mount.h"
#include "vfs/shown.h"

/* Linux's MAX_LFS_FILESIZE. */
#define FILE_SIZE_MAX ((uint64_t)INT64_MAX)

/* ---- reading ---- */

void inode_attr(struct inode *i, struct kstat *out)
{
	mutex_lock(&i->meta);
	*out = (struct kstat){
		.dev = i->super->dev,
		.ino = i->ino,
		.rdev = i->rdev,
		.size = i->size,
		.blocks = i->blocks,
		.mode = i->mode,
		.nlink = i->nlink,
		.uid = i->uid,
		.gid = i->gid,
		.blksize = i->super->blocksize,
		.atime = i->atime,
		.mtime = i->mtime,
		.ctime = i->ctime,
		.btime = i->btime,
		.attributes_mask =
			LX_STATX_ATTR_APPEND | LX_STATX_ATTR_IMMUTABLE | LX_STATX_ATTR_MOUNT_ROOT,
	};
	if (i->iflags & INODE_APPEND)
		out->attributes |= LX_STATX_ATTR_APPEND;
	if (i->iflags & INODE_IMMUTABLE)
		out->attributes |= LX_STATX_ATTR_IMMUTABLE;
	mutex_unlock(&i->meta);
}

uint64_t inode_size(struct inode *i)
{
	uint64_t size;

	mutex_lock(&i->meta);
	size = i->size;
	mutex_unlock(&i->meta);
	return size;
}

int inode_getattr(struct inode *i, struct kstat *out)
{
	if (i->ops->getattr)
		return i->ops->getattr(i, out);
	inode_attr(i, out);
	return 0;
}

int vfs_getattr(const struct path *p, struct kstat *out)
{
	int r = inode_getattr(dentry_inode(p->dentry), out);

	if (r)
		return r;
	if (p->mnt) {
		out->mnt_id = (uint64_t)p->mnt->id;
		if (p->dentry == p->mnt->root)
			out->attributes |= LX_STATX_ATTR_MOUNT_ROOT;
	}
	return 0;
}

/* Time before 1970 has a negative second and a positive rest. */
static struct lx_timespec timespec_from_ns(int64_t ns)
{
	struct lx_timespec t = {.tv_sec = ns / (int64_t)NSEC_PER_SEC,
				.tv_nsec = ns % (int64_t)NSEC_PER_SEC};

	if (t.tv_nsec < 0) {
		t.tv_sec--;
		t.tv_nsec += (int64_t)NSEC_PER_SEC;
	}
	return t;
}

void kstat_to_lx(const struct kstat *k, struct lx_stat *out)
{
	*out = (struct lx_stat){
		.st_dev = k->dev,
		.st_ino = k->ino,
		.st_nlink = k->nlink,
		.st_mode = k->mode,
		.st_uid = k->uid,
		.st_gid = k->gid,
		.st_rdev = k->rdev,
		.st_size = (int64_t)k->size,
		.st_blksize = k->blksize,
		.st_blocks = (int64_t)k->blocks,
		.st_atim = timespec_from_ns(k->atime),
		.st_mtim = timespec_from_ns(k->mtime),
		.st_ctim = timespec_from_ns(k->ctime),
	};
}

/* ---- changing ---- */

void inode_apply_attr(struct inode *i, const struct iattr *attr)
{
	mutex_lock(&i->meta);
	inode_changes(i);
	if (attr->valid & ATTR_MODE)
		__atomic_store_n(&i->mode, (i->mode & LX_S_IFMT) | (attr->mode & 07777),
				 __ATOMIC_RELAXED);
	if (attr->valid & ATTR_UID)
		__atomic_store_n(&i->uid, attr->uid, __ATOMIC_RELAXED);
	if (attr->valid & ATTR_GID)
		__atomic_store_n(&i->gid, attr->gid, __ATOMIC_RELAXED);
	if (attr->valid & ATTR_SIZE)
		i->size = attr->size;
	if (attr->valid & ATTR_ATIME)
		i->atime = attr->atime;
	if (attr->valid & ATTR_MTIME)
		i->mtime = attr->mtime;
	if (attr->valid & ATTR_CTIME)
		i->ctime = attr->ctime;
	mutex_unlock(&i->meta);
}

int inode_do_setattr(struct vfs_ctx *c, struct inode *i, const struct iattr *attr)
{
	if (i->ops->setattr)
		return i->ops->setattr(c, i, attr);
	/* Content is the file system's business alone. */
	if (attr->valid & ATTR_SIZE)
		return -EINVAL;
	inode_apply_attr(i, attr);
	return 0;
}

/* What a change of owner or of content by @c takes from the mode, as Linux's setattr_should_drop_*.
 */
static uint32_t drop_bits(struct vfs_ctx *c, const struct inode_attrs *a)
{
	uint32_t drop = a->mode & LX_S_ISUID;

	if ((a->mode & LX_S_ISGID) && ((a->mode & 0010) || !cred_group_or_fsetid(c->cred, a->gid)))
		drop |= LX_S_ISGID;
	return drop;
}

/* May @c make the owner and group that @attr says? */
static int check_owner(struct vfs_ctx *c, const struct inode_attrs *a, const struct iattr *attr)
{
	const struct cred *cr = c->cred;

	if ((attr->valid & ATTR_UID) && !(cr->fsuid == a->uid && attr->uid == a->uid) &&
	    !cred_capable(cr, LX_CAP_CHOWN))
		return -EPERM;
	if ((attr->valid & ATTR_GID) &&
	    !(cr->fsuid == a->uid && (attr->gid == a->gid || cred_in_group(cr, attr->gid))) &&
	    !cred_capable(cr, LX_CAP_CHOWN))
		return -EPERM;
	return 0;
}

/* The checks of Linux's notify_change and setattr_prepare on @attr, which is completed on the way.
 * @force: what clears the set-id bits is not the caller's wish. */
static int prepare(struct vfs_ctx *c, struct inode *i, struct iattr *attr, bool chown)
{
	struct inode_attrs a;
	bool owner = inode_owner_or_capable(c, i);
	bool times_set = (attr->valid & (ATTR_ATIME | ATTR_MTIME)) &&
			 !(attr->valid & (ATTR_TOUCH | ATTR_SIZE));
	bool force = false;
	int r;

	inode_attrs_now(i, &a);
	if (((attr->valid & (ATTR_MODE | ATTR_UID | ATTR_GID)) || times_set) &&
	    (a.iflags & (INODE_IMMUTABLE | INODE_APPEND)))
		return -EPERM;
	if (attr->valid & ATTR_TOUCH) {
		if (a.iflags & INODE_IMMUTABLE)
			return -EPERM;
		if (!owner) {
			r = inode_permission(c, i, MAY_WRITE);
			if (r)
				return r;
		}
	}
	if ((attr->valid & ATTR_MODE) && LX_S_ISLNK(a.mode))
		return -EOPNOTSUPP;
	if ((attr->valid & ATTR_SIZE) && attr->size > MIN(c->fsize_limit, FILE_SIZE_MAX)) {
		struct kstat st;

		/* Others of the host may have changed it. */
		r = inode_getattr(i, &st);
		if (r)
			return r;
		if (attr->size > st.size)
			return -EFBIG;
	}
	if ((chown && !LX_S_ISDIR(a.mode)) || (attr->valid & (ATTR_SIZE | ATTR_KILL_PRIV))) {
		uint32_t drop = LX_S_ISREG(a.mode) || chown ? drop_bits(c, &a) : 0;

		/* A write by one who may set the bits does not clear them; a change of owner does.
		 */
		if (!chown && cred_capable(c->cred, LX_CAP_FSETID))
			drop = 0;
		if (drop && !(attr->valid & ATTR_MODE)) {
			attr->valid |= ATTR_MODE;
			attr->mode = a.mode & ~drop & 07777;
			force = !chown;
		}
	}
	r = check_owner(c, &a, attr);
	if (r)
		return r;
	if ((attr->valid & ATTR_MODE) && !force) {
		if (!owner)
			return -EPERM;
		if (!cred_group_or_fsetid(c->cred, (attr->valid & ATTR_GID) ? attr->gid : a.gid))
			attr->mode &= ~(uint32_t)LX_S_ISGID;
	}
	if (times_set && !owner)
		return -EPERM;
	return 0;
}

static void set_times(struct iattr *attr)
{
	int64_t now = (int64_t)clock_stamp_ns();

	if (attr->valid & ATTR_TOUCH) {
		attr->valid |= ATTR_ATIME | ATTR_MTIME;
		attr->atime = attr->mtime = now;
	}
	/* To the same size too, as Linux 6.x does on tmpfs. */
	if ((attr->valid & ATTR_SIZE) && !(attr->valid & ATTR_MTIME)) {
		attr->valid |= ATTR_MTIME;
		attr->mtime = now;
	}
	attr->valid |= ATTR_CTIME;
	attr->ctime = now;
}

static uint32_t notify_mask(unsigned valid)
{
	uint32_t mask = 0;

	if (valid & (ATTR_UID | ATTR_GID | ATTR_MODE))
		mask |= LX_IN_ATTRIB;
	if (valid & ATTR_SIZE)
		mask |= LX_IN_MODIFY;
	if ((valid & (ATTR_ATIME | ATTR_MTIME)) == (ATTR_ATIME | ATTR_MTIME))
		mask |= LX_IN_ATTRIB;
	else if (valid & ATTR_ATIME)
		mask |= LX_IN_ACCESS;
	else if ((valid & ATTR_MTIME) && !(valid & ATTR_SIZE))
		mask |= LX_IN_MODIFY;
	return mask;
}

static int change_locked(struct vfs_ctx *c, struct inode *i, struct iattr *attr, bool chown)
{
	int r = prepare(c, i, attr, chown);

	if (r)
		return r;
	set_times(attr);
	return inode_do_setattr(c, i, attr);
}

static int change(struct vfs_ctx *c, const struct path *p, const struct iattr *request, bool chown)
{
	struct inode *i = dentry_inode(p->dentry);
	struct iattr attr = *request;
	int r;

	fmutex_lock(&i->lock);
	r = change_locked(c, i, &attr, chown);
	fmutex_unlock(&i->lock);
	if (r == 0) {
		uint32_t mask = notify_mask(attr.valid);

		if (mask)
			fsnotify(p->dentry, mask, 0);
	}
	return r;
}

/* What truncate(2) checks before the inode is locked, with write access counted on success. */
static int truncate_check(struct vfs_ctx *c, const struct path *p, bool by_file)
{
	struct inode *i = dentry_inode(p->dentry);
	uint32_t mode = inode_mode(i);
	bool append = __atomic_load_n(&i->iflags, __ATOMIC_RELAXED) & INODE_APPEND;
	int r;

	if (by_file) {
		if (!LX_S_ISREG(mode))
			return -EINVAL;
		return append ? -EPERM : inode_get_write(i);
	}
	if (LX_S_ISDIR(mode))
		return -EISDIR;
	if (!LX_S_ISREG(mode))
		return -EINVAL;
	r = path_want_write(p, VFS_USE_WRITE);
	if (r)
		return r;
	r = inode_permission(c, i, MAY_WRITE);
	if (r)
		return r;
	if (append)
		return -EPERM;
	return inode_get_write(i);
}

int vfs_setattr(struct vfs_ctx *c, const struct path *p, const struct iattr *attr)
{
	struct inode *i = dentry_inode(p->dentry);
	int r;

	if (attr->valid & ATTR_SIZE) {
		r = truncate_check(c, p, attr->valid & ATTR_FILE);
		if (r)
			return r;
		r = change(c, p, attr, false);
		inode_put_write(i);
		return r;
	}
	r = path_want_write(p, VFS_USE_WRITE);
	if (r)
		return r;
	return change(c, p, attr, attr->valid & (ATTR_UID | ATTR_GID));
}

int vfs_chown(struct vfs_ctx *c, const struct path *p, uint32_t uid, uint32_t gid)
{
	struct iattr attr = {.valid = ATTR_CTIME, .uid = uid, .gid = gid};
	int r = path_want_write(p, VFS_USE_WRITE);

	if (r)
		return r;
	if (uid != UINT32_MAX)
		attr.valid |= ATTR_UID;
	if (gid != UINT32_MAX)
		attr.valid |= ATTR_GID;
	return change(c, p, &attr, true);
}

int inode_truncate_open(struct vfs_ctx *c, struct inode *i)
{
	struct iattr attr = {.valid = ATTR_SIZE | ATTR_FILE | ATTR_MTIME, .size = 0};
	int r;

	attr.mtime = (int64_t)clock_stamp_ns();
	fmutex_lock(&i->lock);
	r = change_locked(c, i, &attr, false);
	fmutex_unlock(&i->lock);
	return r;
}
