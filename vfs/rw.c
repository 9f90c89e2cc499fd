/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading, writing and seeking through open files: what is the same for all file systems.
 *
 * Theory of operation: the checks stand in Linux's order (offset, stream, mode, operation), then
 * the offset is fixed, then the file's operation does the work, then times and watchers are told.
 * The description's own offset is used under f->pos_lock for regular files and directories only, as
 * in Linux: a read of a terminal must not hold off a write to it.
 *
 * Locking: f->pos_lock, then whatever the operation takes. vfs_iterate takes inode->lock too.
 *
 * References: read(2), write(2), pread(2), lseek(2), fallocate(2), ftruncate(2), mount(8) relatime.
 */
#include <errno.h>
#include "base/clock.h"
#include "base/lx_fcntl.h"
#include "vfs/fsnotify.h"
#include "vfs/inode.h"
#include "vfs/vfs.h"

#define RELATIME_NS ((int64_t)(24 * 3600 * NSEC_PER_SEC))
#define FALLOC_KNOWN                                                                      \
	(LX_FALLOC_FL_KEEP_SIZE | LX_FALLOC_FL_PUNCH_HOLE | LX_FALLOC_FL_COLLAPSE_RANGE | \
	 LX_FALLOC_FL_ZERO_RANGE | LX_FALLOC_FL_INSERT_RANGE | LX_FALLOC_FL_UNSHARE_RANGE)

/* Does the description's own offset need its lock? */
static bool pos_is_shared(const struct file *f)
{
	uint32_t mode = inode_mode(f->inode);

	return !f->ops->stream && (LX_S_ISREG(mode) || LX_S_ISDIR(mode));
}

/* Are times of access kept where @f is? */
static bool keeps_access(const struct file *f)
{
	return !(mount_flags(f->path.mnt) & (MOUNT_NOATIME | MOUNT_RDONLY)) &&
	       !(super_flags(f->inode->super) & (SUPER_NOATIME | SUPER_RDONLY));
}

void file_accessed(struct file *f)
{
	struct inode *i = f->inode;
	int64_t now;

	if (atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_NOATIME)
		return;
	if (!keeps_access(f))
		return;
	now = (int64_t)clock_stamp_ns();
	mutex_lock(&i->meta);
	if (i->atime <= i->mtime || i->atime <= i->ctime || now - i->atime >= RELATIME_NS)
		i->atime = now;
	mutex_unlock(&i->meta);
}

bool file_access_known(struct file *f, uint64_t *until)
{
	struct inode *i = f->inode;
	int64_t now, age;
	bool later;

	*until = UINT64_MAX;
	if (!keeps_access(f))
		return true;
	now = (int64_t)clock_stamp_ns();
	mutex_lock(&i->meta);
	later = i->atime > i->mtime && i->atime > i->ctime;
	age = i->atime < now ? now - i->atime : 0;
	mutex_unlock(&i->meta);
	if (!later || age >= RELATIME_NS)
		return false;
	*until = deadline_after(clock_mono_ns(), (uint64_t)(RELATIME_NS - age));
	return true;
}

/* The size as the file system knows it, which for a file of the host may be more than the inode
 * does. */
static uint64_t file_size_now(struct inode *i)
{
	struct kstat st;

	if (i->ops && i->ops->getattr && i->ops->getattr(i, &st) == 0)
		return st.size;
	return inode_size(i);
}

ssize_t vfs_read(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *off)
{
	ssize_t r;

	(void)c;
	if (off) {
		if (*off < 0)
			return -EINVAL;
		if (f->ops->stream)
			return -ESPIPE;
	}
	if (!(f->fmode & FMODE_READ))
		return -EBADF;
	if (!f->ops->read)
		return LX_S_ISDIR(inode_mode(f->inode)) ? -EISDIR : -EINVAL;
	if (u->resid > UIO_MAX_COUNT)
		u->resid = UIO_MAX_COUNT;
	if (off && (uint64_t)*off + u->resid > INT64_MAX)
		return -EINVAL;

	bool regular = LX_S_ISREG(inode_mode(f->inode));

	if (off || !pos_is_shared(f)) {
		r = f->ops->read(f, u, off ? off : &f->pos);
	} else {
		fmutex_lock(&f->pos_lock);
		r = f->ops->read(f, u, &f->pos);
		fmutex_unlock(&f->pos_lock);
	}
	if (r >= 0 && regular)
		file_accessed(f);
	if (r > 0)
		fsnotify(f->path.dentry, LX_IN_ACCESS, 0);
	return r;
}

/* A regular file's write at *pos: limits, set-id bits, the write, times. */
static ssize_t write_regular(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *pos)
{
	struct inode *i = f->inode;
	uint32_t flags = atomic_load_explicit(&f->flags, memory_order_relaxed);
	ssize_t r;

	if (u->resid == 0 && !f->ops->sees_empty)
		return 0;
	if (flags & LX_O_APPEND)
		*pos = (int64_t)file_size_now(i);
	if ((uint64_t)*pos + u->resid > INT64_MAX) {
		if (*pos == INT64_MAX)
			return -EFBIG;
		u->resid = (uint64_t)(INT64_MAX - *pos);
	}
	if (c && c->fsize_limit != UINT64_MAX) {
		if ((uint64_t)*pos >= c->fsize_limit)
			return -EFBIG;
		u->resid = MIN(u->resid, c->fsize_limit - (uint64_t)*pos);
	}
	if (c && unlikely(inode_needs_kill_priv(c, i))) {
		fmutex_lock(&i->lock);
		r = inode_kill_priv(c, i);
		fmutex_unlock(&i->lock);
		if (r < 0)
			return r;
	}
	r = f->ops->write(c, f, u, pos);
	if (r > 0) {
		inode_touch(i, false, true, true);
		if (unlikely(flags & LX_O_DSYNC)) {
			int err = vfs_fsync(f, (flags & LX_O_SYNC) != LX_O_SYNC);

			/* A file system without fsync has nothing to wait for. */
			if (err && err != -EINVAL)
				r = err;
		}
	}
	return r;
}

ssize_t vfs_write(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *off)
{
	ssize_t r;

	if (off) {
		if (*off < 0)
			return -EINVAL;
		if (f->ops->stream)
			return -ESPIPE;
	}
	if (!(f->fmode & FMODE_WRITE))
		return -EBADF;
	if (!f->ops->write)
		return -EINVAL;
	if (u->resid > UIO_MAX_COUNT)
		u->resid = UIO_MAX_COUNT;
	if (off && (uint64_t)*off + u->resid > INT64_MAX)
		return -EINVAL;

	bool regular = LX_S_ISREG(inode_mode(f->inode));

	if (!off && pos_is_shared(f)) {
		fmutex_lock(&f->pos_lock);
		r = regular ? write_regular(c, f, u, &f->pos) : f->ops->write(c, f, u, &f->pos);
		fmutex_unlock(&f->pos_lock);
	} else if (regular && !f->ops->stream) {
		r = write_regular(c, f, u, off ? off : &f->pos);
	} else {
		r = f->ops->write(c, f, u, off ? off : &f->pos);
	}
	if (r > 0)
		fsnotify(f->path.dentry, LX_IN_MODIFY, 0);
	return r;
}

ssize_t vfs_read_kernel(struct file *f, void *buf, size_t size, int64_t off)
{
	size_t done = 0;

	if (!f->ops->read)
		return -EINVAL;
	while (done < size) {
		struct uio_seg seg;
		struct uio u;
		int64_t pos = off + (int64_t)done;

		uio_init_kernel(&u, &seg, (char *)buf + done, size - done);

		ssize_t r = f->ops->read(f, &u, &pos);

		if (r < 0)
			return done ? (ssize_t)done : r;
		if (r == 0)
			break;
		done += (size_t)r;
	}
	return (ssize_t)done;
}

int64_t file_lseek_generic(const struct file *f, int64_t off, int whence, uint64_t size)
{
	int64_t pos;

	switch (whence) {
	case LX_SEEK_SET:
		pos = off;
		break;
	case LX_SEEK_CUR:
		if (off == 0)
			return f->pos;
		if (__builtin_add_overflow(f->pos, off, &pos))
			return -EINVAL;
		break;
	case LX_SEEK_END:
		if (__builtin_add_overflow((int64_t)size, off, &pos))
			return -EINVAL;
		break;
	case LX_SEEK_DATA:
	case LX_SEEK_HOLE:
		/* One piece of data, and the hole that every file ends with. */
		if ((uint64_t)off >= size)
			return -ENXIO;
		pos = whence == LX_SEEK_DATA ? off : (int64_t)size;
		break;
	default:
		return -EINVAL;
	}
	return pos < 0 ? -EINVAL : pos;
}

int64_t file_lseek_endless(struct file *f, int64_t off, int whence)
{
	if (whence != LX_SEEK_SET && whence != LX_SEEK_CUR)
		return -EINVAL;
	return file_lseek_generic(f, off, whence, 0);
}

int64_t file_lseek_nowhere(struct file *f UNUSED, int64_t off UNUSED, int whence UNUSED)
{
	return 0;
}

int64_t vfs_lseek(struct file *f, int64_t off, int whence)
{
	int64_t r;

	if (whence < 0 || whence > LX_SEEK_HOLE)
		return -EINVAL;
	if (f->ops->stream && !f->ops->lseek)
		return -ESPIPE;
	fmutex_lock(&f->pos_lock);
	r = f->ops->lseek ? f->ops->lseek(f, off, whence)
			  : file_lseek_generic(f, off, whence, file_size_now(f->inode));
	if (r >= 0)
		f->pos = r;
	fmutex_unlock(&f->pos_lock);
	return r;
}

int64_t vfs_pos(struct file *f)
{
	int64_t pos;

	fmutex_lock(&f->pos_lock);
	pos = f->ops->offset_shared ? f->ops->lseek(f, 0, LX_SEEK_CUR) : f->pos;
	fmutex_unlock(&f->pos_lock);
	return pos;
}

void vfs_pos_set(struct file *f, int64_t pos)
{
	fmutex_lock(&f->pos_lock);
	if (f->ops->offset_shared)
		pos = f->ops->lseek(f, pos, LX_SEEK_SET);
	if (pos >= 0)
		f->pos = pos;
	fmutex_unlock(&f->pos_lock);
}

int vfs_iterate(struct file *f, struct dir_ctx *ctx)
{
	struct inode *i = f->inode;
	int r;

	if (!f->ops->iterate)
		return -ENOTDIR;
	fmutex_lock(&f->pos_lock);
	fmutex_lock(&i->lock);
	if (__atomic_load_n(&i->iflags, __ATOMIC_RELAXED) & INODE_DEAD)
		r = -ENOENT;
	else
		r = f->ops->iterate(f, ctx);
	if (r == 0)
		file_accessed(f);
	fmutex_unlock(&i->lock);
	fmutex_unlock(&f->pos_lock);
	if (r == 0)
		fsnotify(f->path.dentry, LX_IN_ACCESS, 0);
	return r;
}

/* Which combinations of modes mean something. */
static int fallocate_check_mode(int mode)
{
	int others = mode & ~LX_FALLOC_FL_KEEP_SIZE;

	if (mode & ~FALLOC_KNOWN)
		return -EOPNOTSUPP;
	if ((mode & LX_FALLOC_FL_PUNCH_HOLE) && (mode & LX_FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if ((mode & LX_FALLOC_FL_PUNCH_HOLE) && !(mode & LX_FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	if ((mode & LX_FALLOC_FL_COLLAPSE_RANGE) && mode != LX_FALLOC_FL_COLLAPSE_RANGE)
		return -EINVAL;
	if ((mode & LX_FALLOC_FL_INSERT_RANGE) && mode != LX_FALLOC_FL_INSERT_RANGE)
		return -EINVAL;
	if ((mode & LX_FALLOC_FL_UNSHARE_RANGE) && others != LX_FALLOC_FL_UNSHARE_RANGE)
		return -EINVAL;
	return 0;
}

int vfs_fallocate(struct vfs_ctx *c, struct file *f, int mode, int64_t off, int64_t size)
{
	struct inode *i = f->inode;
	uint32_t type = inode_mode(i) & LX_S_IFMT, iflags;
	int64_t end;
	int r;

	if (off < 0 || size <= 0)
		return -EINVAL;
	r = fallocate_check_mode(mode);
	if (r)
		return r;
	if (!(f->fmode & FMODE_WRITE))
		return -EBADF;
	iflags = __atomic_load_n(&i->iflags, __ATOMIC_RELAXED);
	if ((iflags & INODE_APPEND) && (mode & ~LX_FALLOC_FL_KEEP_SIZE))
		return -EPERM;
	if (iflags & INODE_IMMUTABLE)
		return -EPERM;
	if (type == LX_S_IFIFO)
		return -ESPIPE;
	if (type == LX_S_IFDIR)
		return -EISDIR;
	if (type != LX_S_IFREG && type != LX_S_IFBLK)
		return -ENODEV;
	if (__builtin_add_overflow(off, size, &end))
		return -EFBIG;
	if (!f->ops->fallocate)
		return -EOPNOTSUPP;
	if (!(mode & (LX_FALLOC_FL_KEEP_SIZE | LX_FALLOC_FL_COLLAPSE_RANGE)) && c &&
	    (uint64_t)end > c->fsize_limit && (uint64_t)end > file_size_now(i))
		return -EFBIG;
	r = f->ops->fallocate(c, f, mode, off, size);
	if (r == 0)
		fsnotify(f->path.dentry, LX_IN_MODIFY, 0);
	return r;
}

int vfs_fsync(struct file *f, bool data_only)
{
	return f->ops->fsync ? f->ops->fsync(f, data_only) : -EINVAL;
}

int vfs_ftruncate(struct vfs_ctx *c, struct file *f, int64_t size)
{
	struct iattr attr = {.valid = ATTR_SIZE | ATTR_FILE, .size = (uint64_t)size};
	struct inode *i = f->inode;

	if (size < 0)
		return -EINVAL;
	if (!LX_S_ISREG(inode_mode(i)) || !(f->fmode & FMODE_WRITE))
		return -EINVAL;
	if (__atomic_load_n(&i->iflags, __ATOMIC_RELAXED) & INODE_APPEND)
		return -EPERM;
	if ((uint64_t)size > c->fsize_limit && (uint64_t)size > file_size_now(i))
		return -EFBIG;
	return vfs_setattr(c, &f->path, &attr);
}
