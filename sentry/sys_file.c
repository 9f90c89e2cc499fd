/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing through descriptors: read, write and their relatives, seeking, directories,
 * syncing, and moving data inside the kernel.
 *
 * Deviations from Linux: of the per-call flags (preadv2) RWF_NOWAIT is a look at readiness before
 * the call, RWF_APPEND is not atomic against other appenders; RWF_NOAPPEND, RWF_ATOMIC and
 * RWF_DONTCACHE are EOPNOTSUPP. Read-ahead and cache advice are checked and then ignored: the cache
 * is the host's.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include "base/lx_fcntl.h"
#include "sentry/answers.h"
#include "sentry/file_args.h"
#include "vfs/inode.h"
#include "vfs/pipe.h"
#include "vfs/shown.h"
#include "vfs/splice.h"

/* ---- read and write ---- */

static long do_read(struct task *t, struct file *f, struct uio *u, int64_t *pos)
{
	long r = vfs_read(&t->vctx, f, u, pos);

	t->read_calls++;
	if (r > 0)
		t->read_bytes += (uint64_t)r;
	return r;
}

static long do_write(struct task *t, struct file *f, struct uio *u, int64_t *pos)
{
	long r;

	task_refresh_limits(t);
	r = vfs_write(&t->vctx, f, u, pos);
	t->write_calls++;
	if (r > 0)
		t->write_bytes += (uint64_t)r;
	return task_write_signals(t, f, r);
}

static int may_move(const struct file *f, const int64_t *pos, bool write)
{
	if (pos && f->ops->stream)
		return -ESPIPE;
	return f->fmode & (write ? FMODE_WRITE : FMODE_READ) ? 0 : -EBADF;
}

/* One buffer. @pos NULL: the description's offset. */
static long rw_buf(struct task *t, int fd, gaddr_t buf, uint64_t count, int64_t *pos, bool write)
{
	struct file *f = fd_get_nopath(t->files, fd);
	struct user_iov v;
	struct uio u;
	long r;

	if (!f)
		return -EBADF;
	r = may_move(f, pos, write);
	if (r == 0) {
		r = uio_from_buf(t, &u, &v, buf, count);
		if (r >= 0) {
			const int64_t at = pos ? *pos : -1;

			u.again = pos && shown_on();
			r = write ? do_write(t, f, &u, pos) : do_read(t, f, &u, pos);
			user_iov_free(&v);
			if (pos && !write && r > 0)
				answers_read(t, fd, f, at);
		}
	}
	file_put(f);
	return r;
}

long sys_read(struct task *t, int fd, gaddr_t buf, uint64_t count)
{
	return rw_buf(t, fd, buf, count, NULL, false);
}

long sys_write(struct task *t, int fd, gaddr_t buf, uint64_t count)
{
	return rw_buf(t, fd, buf, count, NULL, true);
}

long sys_pread64(struct task *t, int fd, gaddr_t buf, uint64_t count, int64_t pos)
{
	if (pos < 0)
		return -EINVAL;
	return rw_buf(t, fd, buf, count, &pos, false);
}

long sys_pwrite64(struct task *t, int fd, gaddr_t buf, uint64_t count, int64_t pos)
{
	if (pos < 0)
		return -EINVAL;
	return rw_buf(t, fd, buf, count, &pos, true);
}

long file_read_flags(struct task *t, struct file *f, struct uio *u, int64_t *pos, int flags)
{
	if (flags & ~RWF_READ_OK)
		return -EOPNOTSUPP;
	if ((flags & LX_RWF_NOWAIT) && !(vfs_poll(f, NULL) & (LX_POLLIN | LX_POLLHUP | LX_POLLERR)))
		return -EAGAIN;
	return do_read(t, f, u, pos);
}

long file_write_flags(struct task *t, struct file *f, struct uio *u, int64_t *pos, int flags)
{
	struct kstat st;
	int64_t end;
	long r, err;

	if (flags & ~RWF_WRITE_OK)
		return -EOPNOTSUPP;
	if ((flags & LX_RWF_NOWAIT) && !(vfs_poll(f, NULL) & (LX_POLLOUT | LX_POLLERR)))
		return -EAGAIN;
	if ((flags & LX_RWF_APPEND) && LX_S_ISREG(f->inode->mode)) {
		r = vfs_getattr(&f->path, &st);
		if (r < 0)
			return r;
		end = (int64_t)st.size;
		r = do_write(t, f, u, &end);
		/* As with O_APPEND, the description's offset moves if it is in use. */
		if (!pos && r > 0)
			(void)vfs_lseek(f, end, LX_SEEK_SET);
	} else {
		r = do_write(t, f, u, pos);
	}
	if (r > 0 && (flags & (LX_RWF_DSYNC | LX_RWF_SYNC))) {
		err = vfs_fsync(f, !(flags & LX_RWF_SYNC));
		if (err < 0 && err != -EINVAL)
			r = err;
	}
	return r;
}

/* A vector of buffers. @pos NULL: the description's offset. */
static long rw_vec(struct task *t, int fd, gaddr_t vec, uint64_t vlen, int64_t *pos, int flags,
		   bool write)
{
	struct file *f = fd_get_nopath(t->files, fd);
	struct user_iov v;
	struct uio u;
	long r;

	if (!f)
		return -EBADF;
	r = may_move(f, pos, write);
	if (r == 0 && !(write ? f->ops->write != NULL : f->ops->read != NULL) &&
	    !LX_S_ISDIR(inode_mode(f->inode)))
		r = -EINVAL;
	if (r == 0) {
		r = uio_from_iovec(t, &u, &v, vec, vlen);
		if (r >= 0) {
			/* No bytes is no operation, whatever the file is. */
			if (u.resid == 0)
				r = 0;
			else if (write)
				r = file_write_flags(t, f, &u, pos, flags);
			else
				r = file_read_flags(t, f, &u, pos, flags);
			user_iov_free(&v);
		}
	}
	file_put(f);
	return r;
}

long sys_readv(struct task *t, int fd, gaddr_t vec, uint64_t vlen)
{
	return rw_vec(t, fd, vec, vlen, NULL, 0, false);
}

long sys_writev(struct task *t, int fd, gaddr_t vec, uint64_t vlen)
{
	return rw_vec(t, fd, vec, vlen, NULL, 0, true);
}

/* The high half of the offset is for 32-bit kernels: here the low word has all of it. */
long sys_preadv(struct task *t, int fd, gaddr_t vec, uint64_t vlen, int64_t pos_l,
		uint64_t pos_h UNUSED)
{
	return pos_l < 0 ? -EINVAL : rw_vec(t, fd, vec, vlen, &pos_l, 0, false);
}

long sys_pwritev(struct task *t, int fd, gaddr_t vec, uint64_t vlen, int64_t pos_l,
		 uint64_t pos_h UNUSED)
{
	return pos_l < 0 ? -EINVAL : rw_vec(t, fd, vec, vlen, &pos_l, 0, true);
}

long sys_preadv2(struct task *t, int fd, gaddr_t vec, uint64_t vlen, int64_t pos_l,
		 uint64_t pos_h UNUSED, int flags)
{
	if (pos_l < -1)
		return -EINVAL;
	return rw_vec(t, fd, vec, vlen, pos_l == -1 ? NULL : &pos_l, flags, false);
}

long sys_pwritev2(struct task *t, int fd, gaddr_t vec, uint64_t vlen, int64_t pos_l,
		  uint64_t pos_h UNUSED, int flags)
{
	if (pos_l < -1)
		return -EINVAL;
	return rw_vec(t, fd, vec, vlen, pos_l == -1 ? NULL : &pos_l, flags, true);
}

long sys_lseek(struct task *t, int fd, int64_t offset, int whence)
{
	struct file *f = fd_get_nopath(t->files, fd);
	long r;

	if (!f)
		return -EBADF;
	r = vfs_lseek(f, offset, whence);
	file_put(f);
	return r;
}

/* ---- directories ---- */

/* The most that one call returns; more is got by the next. */
#define DIRENTS_MAX ((size_t)65536)

/* What struct linux_dirent64 begins with; the name follows at offset 19. */
struct lx_dirent64 {
	uint64_t d_ino;
	int64_t d_off;
	uint16_t d_reclen;
	uint8_t d_type;
	char d_name[];
} __attribute__((packed));

/* The old form: the type is the record's last byte. */
struct lx_dirent {
	uint64_t d_ino;
	int64_t d_off;
	uint16_t d_reclen;
	char d_name[];
} __attribute__((packed));

struct dirent_buf {
	struct dir_ctx ctx;
	char *data;
	size_t used, size;
	bool old, too_small;
};

static bool dirent_emit(struct dir_ctx *ctx, const char *name, size_t len, uint64_t ino,
			unsigned dtype, int64_t next_off)
{
	struct dirent_buf *b = container_of(ctx, struct dirent_buf, ctx);
	size_t head =
		b->old ? offsetof(struct lx_dirent, d_name) : offsetof(struct lx_dirent64, d_name);
	size_t need = (head + len + (b->old ? 2 : 1) + 7) & ~(size_t)7;
	char *at = b->data + b->used;

	if (need > b->size - b->used) {
		b->too_small = b->used == 0;
		return false;
	}
	memset(at + need - 8, 0, 8);
	if (b->old) {
		struct lx_dirent d = {ino, next_off, (uint16_t)need};
		memcpy(at, &d, head);
		at[need - 1] = (char)dtype;
	} else {
		struct lx_dirent64 d = {ino, next_off, (uint16_t)need, (uint8_t)dtype};
		memcpy(at, &d, head);
	}
	memcpy(at + head, name, len);
	at[head + len] = '\0';
	b->used += need;
	return true;
}

static long do_getdents(struct task *t, int fd, gaddr_t dirp, unsigned count, bool old)
{
	struct file *f = fd_get_nopath(t->files, fd);
	struct dirent_buf b = {
		.ctx.emit = dirent_emit, .size = MIN((size_t)count, DIRENTS_MAX), .old = old};
	int64_t before;
	long r;

	if (!f)
		return -EBADF;
	if (!f->ops->iterate) {
		file_put(f);
		return -ENOTDIR;
	}
	/* The file system fills memory of ours, so that no fault of the guest happens under its
	 * locks. Not zeroed: dirent_emit writes each byte of an entry. */
	b.data = mem_realloc(NULL, b.size);
	if (!b.data) {
		file_put(f);
		return -ENOMEM;
	}
	before = vfs_lseek(f, 0, LX_SEEK_CUR);
	r = vfs_iterate(f, &b.ctx);
	if (b.used > 0) {
		r = (long)b.used;
		if (copy_out(t, dirp, b.data, b.used) < 0) {
			if (before >= 0)
				(void)vfs_lseek(f, before, LX_SEEK_SET);
			r = -EFAULT;
		}
	} else if (r >= 0 && b.too_small) {
		r = -EINVAL;
	}
	mem_free(b.data);
	file_put(f);
	return r;
}

long sys_getdents(struct task *t, int fd, gaddr_t dirp, unsigned count)
{
	return do_getdents(t, fd, dirp, count, true);
}

long sys_getdents64(struct task *t, int fd, gaddr_t dirp, unsigned count)
{
	return do_getdents(t, fd, dirp, count, false);
}

/* ---- size ---- */

long sys_ftruncate(struct task *t, int fd, int64_t length)
{
	struct file *f;
	long r;

	if (length < 0)
		return -EINVAL;
	f = fd_get_nopath(t->files, fd);
	if (!f)
		return -EBADF;
	task_refresh_limits(t);
	r = task_write_signals(t, f, vfs_ftruncate(&t->vctx, f, length));
	file_put(f);
	return r;
}

long sys_fallocate(struct task *t, int fd, int mode, int64_t offset, int64_t len)
{
	struct file *f = fd_get_nopath(t->files, fd);
	long r;

	if (!f)
		return -EBADF;
	task_refresh_limits(t);
	r = task_write_signals(t, f, vfs_fallocate(&t->vctx, f, mode, offset, len));
	file_put(f);
	return r;
}

/* ---- to the disk, and hints ---- */

static long do_fsync(struct task *t, int fd, bool data_only)
{
	struct file *f = fd_get_nopath(t->files, fd);
	long r;

	if (!f)
		return -EBADF;
	r = vfs_fsync(f, data_only);
	file_put(f);
	return r;
}

long sys_fsync(struct task *t, int fd)
{
	return do_fsync(t, fd, false);
}

long sys_fdatasync(struct task *t, int fd)
{
	return do_fsync(t, fd, true);
}

long sys_syncfs(struct task *t, int fd)
{
	struct file *f = fd_get_nopath(t->files, fd);
	struct super *s;
	long r = 0;

	if (!f)
		return -EBADF;
	s = f->inode->super;
	if (s->ops && s->ops->sync)
		r = s->ops->sync(s);
	file_put(f);
	return r;
}

#define LX_SYNC_FILE_RANGE_KNOWN 7u

long sys_sync_file_range(struct task *t, int fd, int64_t offset, int64_t nbytes, unsigned flags)
{
	struct file *f = fd_get_nopath(t->files, fd);
	uint32_t type;
	int64_t end;
	long r = 0;

	if (!f)
		return -EBADF;
	type = f->inode->mode & LX_S_IFMT;
	if ((flags & ~LX_SYNC_FILE_RANGE_KNOWN) || offset < 0 || nbytes < 0 ||
	    __builtin_add_overflow(offset, nbytes, &end))
		r = -EINVAL;
	else if (type != LX_S_IFREG && type != LX_S_IFBLK && type != LX_S_IFDIR &&
		 type != LX_S_IFLNK)
		r = -ESPIPE;
	else if (flags)
		r = vfs_fsync(f, true);
	file_put(f);
	return r == -EROFS ? 0 : r;
}

long sys_fadvise64(struct task *t, int fd, int64_t offset UNUSED, uint64_t len, int advice)
{
	struct file *f = fd_get_nopath(t->files, fd);
	long r = 0;

	if (!f)
		return -EBADF;
	if (LX_S_ISFIFO(f->inode->mode))
		r = -ESPIPE;
	else if ((int64_t)len < 0 || advice < 0 || advice > 5)
		r = -EINVAL;
	file_put(f);
	return r;
}

long sys_readahead(struct task *t, int fd, int64_t offset UNUSED, uint64_t count UNUSED)
{
	struct file *f = fd_get_nopath(t->files, fd);
	uint32_t type;
	long r = 0;

	if (!f)
		return -EBADF;
	type = f->inode->mode & LX_S_IFMT;
	if (!(f->fmode & FMODE_READ))
		r = -EBADF;
	else if (type != LX_S_IFREG && type != LX_S_IFBLK)
		r = -EINVAL;
	file_put(f);
	return r;
}

/* ---- moving data inside the kernel ---- */

/* Both files of a call. 0 with two references, or -EBADF. */
static int two_files(struct task *t, int in_fd, int out_fd, struct file **in, struct file **out)
{
	*in = fd_get_nopath(t->files, in_fd);
	if (!*in)
		return -EBADF;
	*out = fd_get_nopath(t->files, out_fd);
	if (!*out) {
		file_put(*in);
		return -EBADF;
	}
	return 0;
}

/* An optional offset behind a pointer. */
static int off_in_opt(struct task *t, gaddr_t p, int64_t *off, int64_t **ptr)
{
	*ptr = NULL;
	if (!p.a)
		return 0;
	if (copy_in(t, off, p, sizeof(*off)) < 0)
		return -EFAULT;
	*ptr = off;
	return 0;
}

static long off_out_opt(struct task *t, gaddr_t p, const int64_t *ptr, long ret)
{
	if (ptr && ret >= 0 && copy_out(t, p, ptr, sizeof(*ptr)) < 0)
		return -EFAULT;
	return ret;
}

long sys_sendfile(struct task *t, int out_fd, int in_fd, gaddr_t offset, uint64_t count)
{
	struct file *in, *out;
	int64_t off, *poff;
	long r;

	r = off_in_opt(t, offset, &off, &poff);
	if (r < 0)
		return r;
	r = two_files(t, in_fd, out_fd, &in, &out);
	if (r < 0)
		return r;
	task_refresh_limits(t);
	r = task_write_signals(t, out, vfs_sendfile(&t->vctx, out, NULL, in, poff, count));
	/* Linux writes the offset back even if it has not moved, and after an error too. */
	if (poff && copy_out(t, offset, poff, sizeof(*poff)) < 0)
		r = -EFAULT;
	file_put(in);
	file_put(out);
	return r;
}

#define LX_SPLICE_F_KNOWN \
	(LX_SPLICE_F_MOVE | LX_SPLICE_F_NONBLOCK | LX_SPLICE_F_MORE | LX_SPLICE_F_GIFT)

long sys_splice(struct task *t, int fd_in, gaddr_t off_in, int fd_out, gaddr_t off_out,
		uint64_t len, unsigned flags)
{
	int64_t in_off, out_off, *pin = NULL, *pout = NULL;
	struct file *in, *out;
	long r;

	if (len == 0)
		return 0;
	if (flags & ~LX_SPLICE_F_KNOWN)
		return -EINVAL;
	r = two_files(t, fd_in, fd_out, &in, &out);
	if (r < 0)
		return r;
	task_refresh_limits(t);
	if ((off_in.a && file_is_pipe(in)) || (off_out.a && file_is_pipe(out)))
		r = -ESPIPE;
	if (r == 0)
		r = off_in_opt(t, off_out, &out_off, &pout);
	if (r == 0)
		r = off_in_opt(t, off_in, &in_off, &pin);
	if (r == 0)
		r = task_write_signals(t, out,
				       vfs_splice(&t->vctx, in, pin, out, pout, len, flags));
	r = off_out_opt(t, off_out, pout, r);
	r = off_out_opt(t, off_in, pin, r);
	file_put(in);
	file_put(out);
	return r;
}

long sys_tee(struct task *t, int fd_in, int fd_out, uint64_t len, unsigned flags)
{
	struct file *in, *out;
	long r;

	if (flags & ~LX_SPLICE_F_KNOWN)
		return -EINVAL;
	if (len == 0)
		return 0;
	r = two_files(t, fd_in, fd_out, &in, &out);
	if (r < 0)
		return r;
	r = task_write_signals(t, out, vfs_tee(&t->vctx, in, out, MIN(len, UIO_MAX_COUNT), flags));
	file_put(in);
	file_put(out);
	return r;
}

long sys_vmsplice(struct task *t, int fd, gaddr_t iov, uint64_t nr_segs, unsigned flags)
{
	struct file *f;
	struct user_iov v;
	struct uio u;
	long r;

	if (flags & ~LX_SPLICE_F_KNOWN)
		return -EINVAL;
	f = fd_get_nopath(t->files, fd);
	if (!f)
		return -EBADF;
	if (!(f->fmode & (FMODE_READ | FMODE_WRITE))) {
		r = -EBADF;
	} else {
		r = uio_from_iovec(t, &u, &v, iov, nr_segs);
		if (r >= 0) {
			r = u.resid ? vfs_vmsplice(&t->vctx, f, &u, flags) : 0;
			r = task_write_signals(t, f, r);
			user_iov_free(&v);
		}
	}
	file_put(f);
	return r;
}

long sys_copy_file_range(struct task *t, int fd_in, gaddr_t off_in, int fd_out, gaddr_t off_out,
			 uint64_t len, unsigned flags)
{
	int64_t in_off, out_off, *pin = NULL, *pout = NULL;
	struct file *in, *out;
	long r;

	r = two_files(t, fd_in, fd_out, &in, &out);
	if (r < 0)
		return r;
	task_refresh_limits(t);
	r = off_in_opt(t, off_in, &in_off, &pin);
	if (r == 0)
		r = off_in_opt(t, off_out, &out_off, &pout);
	if (r == 0 && flags != 0)
		r = -EINVAL;
	if (r == 0)
		r = task_write_signals(
			t, out, vfs_copy_file_range(&t->vctx, in, pin, out, pout, len, flags));
	r = off_out_opt(t, off_in, pin, r);
	r = off_out_opt(t, off_out, pout, r);
	file_put(in);
	file_put(out);
	return r;
}
