/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving data between files inside the kernel.
 *
 * Theory of operation: no pages change hands; data goes through a kernel buffer, or from the ring
 * of a pipe straight into a file's write. A file's input is read without any lock of the pipe held
 * (it may block), for at most the room that the pipe had a moment ago; should another writer have
 * taken that room meanwhile, the rest waits for room even if the call shall not block, as it is
 * read already. Going out of a pipe, the pipe's lock is held while the file takes the data, so that
 * only what it took is consumed, and in order.
 *
 * Only files that carry data take part: regular files, devices, sockets and pipes. Descriptors with
 * records of their own (eventfd, epoll, …) have no type in their mode, and give EINVAL as in Linux.
 *
 * Locking: pipe->lock, then what the file's write takes (pos_lock, inode->lock, a socket's). Two
 * pipes: the lower address first.
 *
 * References: splice(2), tee(2), vmsplice(2), sendfile(2), copy_file_range(2).
 */
#include <errno.h>
#include "base/lx_fcntl.h"
#include "vfs/hostfd.h"
#include "vfs/inode.h"
#include "vfs/pipe_ring.h"
#include "vfs/splice.h"

#define CHUNK ((size_t)65536)
#define SEGS_MAX 32u
#define SPLICE_KNOWN (LX_SPLICE_F_MOVE | LX_SPLICE_F_NONBLOCK | LX_SPLICE_F_MORE | LX_SPLICE_F_GIFT)

static bool carries_data(const struct file *f)
{
	switch (inode_mode(f->inode) & LX_S_IFMT) {
	case LX_S_IFREG:
	case LX_S_IFBLK:
	case LX_S_IFCHR:
	case LX_S_IFSOCK:
	case LX_S_IFIFO:
		return true;
	default:
		/* A pipe, socket or device of the host's has no type. */
		return hostfd_is(f);
	}
}

static bool is_nonblocking(const struct file *f)
{
	return atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_NONBLOCK;
}

static bool is_append(const struct file *f)
{
	return atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_APPEND;
}

/* May @count bytes from @pos on be asked for at all (in Linux: rw_verify_area)? */
static int check_area(const struct file *f, int64_t pos, uint64_t count)
{
	if (count > INT64_MAX)
		return -EINVAL;
	return !f->ops->stream && (pos < 0 || pos > INT64_MAX - (int64_t)count) ? -EINVAL : 0;
}

static ssize_t read_piece(struct vfs_ctx *c, struct file *in, void *buf, size_t size, int64_t *pos)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, buf, size);
	return vfs_read(c, in, &u, pos);
}

/* Copies from @in at *in_pos to @out, at *out_pos or its own offset; advances both by what was
 * written. */
static ssize_t copy_data(struct vfs_ctx *c, struct file *out, int64_t *out_pos, struct file *in,
			 int64_t *in_pos, size_t count)
{
	char *buf = mem_realloc(NULL, MIN(count, CHUNK));
	ssize_t done = 0, r = 0;

	if (!buf)
		return -ENOMEM;
	while (count > 0) {
		int64_t pos = *in_pos;
		struct uio_seg seg;
		struct uio u;
		ssize_t n = read_piece(c, in, buf, MIN(count, CHUNK), &pos);

		if (n <= 0) {
			r = n;
			break;
		}
		uio_init_kernel(&u, &seg, buf, (size_t)n);
		r = vfs_write(c, out, &u, out_pos);
		if (r <= 0)
			break;
		*in_pos += r;
		done += r;
		count -= (size_t)r;
		if (r < n)
			break;
		if (count > 0 && g_vfs_hooks->interrupted && g_vfs_hooks->interrupted()) {
			r = -ERESTARTSYS;
			break;
		}
	}
	mem_free(buf);
	return done ? done : r;
}

ssize_t vfs_sendfile(struct vfs_ctx *c, struct file *out, int64_t *out_off, struct file *in,
		     int64_t *in_off, size_t count)
{
	int64_t pos;
	ssize_t r;

	if (!(in->fmode & FMODE_READ))
		return -EBADF;
	if (in_off && in->ops->stream)
		return -ESPIPE;
	pos = in_off ? *in_off : vfs_pos(in);
	r = check_area(in, pos, count);
	if (r)
		return r;
	if (!(out->fmode & FMODE_WRITE))
		return -EBADF;
	if (in->ops->stream || !in->ops->read || !carries_data(in))
		return -EINVAL;
	if (!out->ops->write || !carries_data(out) || is_append(out))
		return -EINVAL;
	if (count == 0)
		return 0;
	r = copy_data(c, out, out_off, in, &pos, MIN(count, UIO_MAX_COUNT));
	if (r > 0) {
		if (in_off)
			*in_off = pos;
		else
			vfs_pos_set(in, pos);
	}
	return r;
}

/* ---- copy_file_range ---- */

/* Of files of one file system. A standard file has an inode for each descriptor by which it came.
 */
static bool is_same(const struct file *a, const struct file *b)
{
	return a->inode == b->inode || (a->ops->offset_shared && a->inode->ino == b->inode->ino);
}

static int copy_range_check(struct vfs_ctx *c, struct file *in, int64_t in_pos, struct file *out,
			    int64_t out_pos, uint64_t *count)
{
	uint32_t in_mode = inode_mode(in->inode), out_mode = inode_mode(out->inode);
	struct kstat st;
	uint64_t n = *count;
	int r;

	if (LX_S_ISDIR(in_mode) || LX_S_ISDIR(out_mode))
		return -EISDIR;
	if (!LX_S_ISREG(in_mode) || !LX_S_ISREG(out_mode))
		return -EINVAL;
	if (!(in->fmode & FMODE_READ) || !(out->fmode & FMODE_WRITE) || is_append(out))
		return -EBADF;
	if (in->inode->super != out->inode->super)
		return -EXDEV;
	if (__atomic_load_n(&out->inode->iflags, __ATOMIC_RELAXED) & INODE_IMMUTABLE)
		return -EPERM;
	/* Offsets below 0 are looked at last, as in Linux. */
	if ((uint64_t)in_pos + n < (uint64_t)in_pos || (uint64_t)out_pos + n < (uint64_t)out_pos)
		return -EOVERFLOW;
	r = inode_getattr(in->inode, &st);
	if (r)
		return r;
	n = in_pos >= (int64_t)st.size ? 0 : MIN(n, st.size - (uint64_t)in_pos);
	if (out_pos >= (int64_t)MIN(c->fsize_limit, (uint64_t)INT64_MAX))
		return -EFBIG;
	n = MIN(n, MIN(c->fsize_limit, (uint64_t)INT64_MAX) - (uint64_t)out_pos);
	if (is_same(in, out) && out_pos + (int64_t)n > in_pos && out_pos < in_pos + (int64_t)n)
		return -EINVAL;
	*count = n;
	r = check_area(in, in_pos, n);
	return r ? r : check_area(out, out_pos, n);
}

ssize_t vfs_copy_file_range(struct vfs_ctx *c, struct file *in, int64_t *in_off, struct file *out,
			    int64_t *out_off, size_t count, unsigned flags)
{
	int64_t in_pos, out_pos;
	uint64_t n = count;
	ssize_t r;

	if (flags)
		return -EINVAL;
	in_pos = in_off ? *in_off : vfs_pos(in);
	out_pos = out_off ? *out_off : vfs_pos(out);
	r = copy_range_check(c, in, in_pos, out, out_pos, &n);
	if (r)
		return r;
	if (n == 0)
		return 0;
	r = copy_data(c, out, &out_pos, in, &in_pos, (size_t)MIN(n, UIO_MAX_COUNT));
	if (r > 0) {
		if (in_off)
			*in_off = in_pos;
		else
			vfs_pos_set(in, in_pos);
		if (out_off)
			*out_off = out_pos;
		else
			vfs_pos_set(out, out_pos);
	}
	return r;
}

/* ---- splice ---- */

/* Puts all of @buf into the pipe, waiting for room. Bytes that went in, or -errno if none did. */
static ssize_t pipe_push(struct pipe *p, void *buf, size_t size)
{
	struct uio_seg seg;
	struct uio u;
	ssize_t done = 0, r = 0;

	uio_init_kernel(&u, &seg, buf, size);
	while (u.resid > 0) {
		fmutex_lock(&p->lock);
		r = atomic_load(&p->readers) == 0 ? -EPIPE
						  : pipe_fill_locked(p, &u, PIPE_FILL_SLOTS);
		fmutex_unlock(&p->lock);
		if (r < 0)
			break;
		if (r > 0) {
			done += r;
			pipe_wake_readers(p);
			continue;
		}
		r = pipe_wait_room(p, false);
		if (r)
			break;
	}
	return done ? done : r;
}

static size_t pipe_room(struct pipe *p)
{
	uint32_t used = atomic_load(&p->head) - atomic_load(&p->tail);
	uint32_t count = atomic_load(&p->slot_count);

	return used < count ? (size_t)(count - used) * MOAT_PAGE_SIZE : 0;
}

static ssize_t splice_to_pipe(struct vfs_ctx *c, struct file *in, int64_t *in_off, struct pipe *p,
			      size_t count, bool nonblock)
{
	size_t room;
	ssize_t n, r;
	char *buf;

	do {
		r = pipe_wait_room(p, nonblock);
		if (r)
			return r;
		if (atomic_load(&p->readers) == 0)
			return -EPIPE;
		room = pipe_room(p);
	} while (room == 0);
	if (nonblock && hostfd_is(in) && !(vfs_poll(in, NULL) & (LX_POLLIN | LX_POLLHUP)))
		return -EAGAIN;
	count = MIN(MIN(count, room), CHUNK);
	buf = mem_realloc(NULL, count);
	if (!buf)
		return -ENOMEM;
	n = read_piece(c, in, buf, count, in_off);
	r = n > 0 ? pipe_push(p, buf, (size_t)n) : n;
	mem_free(buf);
	if (n > 0 && r < n && !in->ops->stream) {
		/* What did not go in was not read. */
		int64_t back = n - MAX(r, (ssize_t)0);

		if (in_off)
			*in_off -= back;
		else
			vfs_pos_set(in, vfs_pos(in) - back);
	}
	return r;
}

static ssize_t splice_from_pipe(struct vfs_ctx *c, struct pipe *p, struct file *out,
				int64_t *out_off, size_t count, bool nonblock)
{
	ssize_t done = 0, r = 0;
	bool was_full;

	for (;;) {
		fmutex_lock(&p->lock);
		if (!pipe_is_empty(p) || atomic_load(&p->writers) == 0)
			break;
		fmutex_unlock(&p->lock);
		r = pipe_wait_data(p, nonblock);
		if (r)
			return r;
	}
	was_full = pipe_is_full(p);
	while (count > 0 && !pipe_is_empty(p)) {
		struct uio_seg segs[SEGS_MAX];
		struct uio u;
		unsigned used;
		size_t n = pipe_peek_locked(p, count, segs, SEGS_MAX, &used);

		uio_init(&u, NULL, NULL, segs, used, n);
		r = vfs_write(c, out, &u, out_off);
		if (r <= 0)
			break;
		pipe_consume_locked(p, (size_t)r);
		done += r;
		count -= (size_t)r;
		if ((size_t)r < n)
			break;
	}

	bool room = was_full && !pipe_is_full(p), more = !pipe_is_empty(p);

	fmutex_unlock(&p->lock);
	if (room)
		pipe_wake_writers(p);
	if (more)
		pipe_wake_readers(p);
	return done ? done : r;
}

static void lock_two(struct pipe *a, struct pipe *b) NO_TSA
{
	fmutex_lock((uintptr_t)a < (uintptr_t)b ? &a->lock : &b->lock);
	fmutex_lock((uintptr_t)a < (uintptr_t)b ? &b->lock : &a->lock);
}

static void unlock_two(struct pipe *a, struct pipe *b) NO_TSA
{
	fmutex_unlock(&a->lock);
	fmutex_unlock(&b->lock);
}

/* From pipe to pipe; the data stays in @ip too if !@consume (tee). */
static ssize_t pipe_to_pipe(struct pipe *ip, struct pipe *op, size_t count, bool nonblock,
			    bool consume) NO_TSA
{
	ssize_t done = 0, r = 0;
	bool was_full;

	for (;;) {
		r = pipe_wait_data(ip, nonblock);
		if (r == 0)
			r = pipe_wait_room(op, nonblock);
		if (r)
			return r;
		lock_two(ip, op);
		if (atomic_load(&op->readers) == 0) {
			unlock_two(ip, op);
			return -EPIPE;
		}
		if (pipe_is_empty(ip) ? atomic_load(&ip->writers) == 0 : !pipe_is_full(op))
			break;
		unlock_two(ip, op);
	}
	was_full = pipe_is_full(ip);

	size_t skip = 0;

	while (count > 0 && !pipe_is_full(op) && !pipe_is_empty(ip)) {
		struct uio_seg segs[SEGS_MAX];
		struct uio u;
		unsigned used;
		size_t n = pipe_peek_locked(ip, skip + count, segs, SEGS_MAX, &used);

		if (n <= skip)
			break;
		uio_init(&u, NULL, NULL, segs, used, n);
		uio_skip(&u, skip);
		r = pipe_fill_locked(op, &u, PIPE_FILL_SLOTS);
		if (r <= 0)
			break;
		done += r;
		count -= (size_t)r;
		if (consume)
			pipe_consume_locked(ip, (size_t)r);
		else
			skip += (size_t)r;
	}

	bool room = was_full && !pipe_is_full(ip), more = !pipe_is_empty(ip);

	unlock_two(ip, op);
	if (done > 0)
		pipe_wake_readers(op);
	if (room)
		pipe_wake_writers(ip);
	if (more)
		pipe_wake_readers(ip);
	return done ? done : r;
}

ssize_t vfs_splice(struct vfs_ctx *c, struct file *in, int64_t *in_off, struct file *out,
		   int64_t *out_off, size_t count, unsigned flags)
{
	bool nonblock = flags & LX_SPLICE_F_NONBLOCK;
	struct pipe *ip, *op;

	if (count == 0)
		return 0;
	if (flags & ~SPLICE_KNOWN)
		return -EINVAL;
	if (!in || !out)
		return -EBADF;
	ip = pipe_of_file(in);
	op = pipe_of_file(out);
	if ((ip && in_off) || (op && out_off))
		return -ESPIPE;
	if (!(in->fmode & FMODE_READ) || !(out->fmode & FMODE_WRITE))
		return -EBADF;
	const size_t most = MIN(count, UIO_MAX_COUNT);

	if (ip && op) {
		if (ip == op)
			return -EINVAL;
		return pipe_to_pipe(ip, op, most,
				    nonblock || is_nonblocking(in) || is_nonblocking(out), true);
	}
	if (ip) {
		if (out_off && out->ops->stream)
			return -EINVAL;
		if (is_append(out) || !out->ops->write || !carries_data(out) ||
		    check_area(out, out_off ? *out_off : vfs_pos(out), count))
			return -EINVAL;
		return splice_from_pipe(c, ip, out, out_off, most, nonblock || is_nonblocking(in));
	}
	if (op) {
		if (in_off && in->ops->stream)
			return -EINVAL;
		if (!in->ops->read || !carries_data(in) ||
		    check_area(in, in_off ? *in_off : vfs_pos(in), count))
			return -EINVAL;
		return splice_to_pipe(c, in, in_off, op, most, nonblock || is_nonblocking(out));
	}
	return -EINVAL;
}

ssize_t vfs_tee(struct vfs_ctx *c, struct file *in, struct file *out, size_t count, unsigned flags)
{
	bool nonblock = flags & LX_SPLICE_F_NONBLOCK;
	struct pipe *ip, *op;

	(void)c;
	if (flags & ~SPLICE_KNOWN)
		return -EINVAL;
	if (count == 0)
		return 0;
	if (!in || !out)
		return -EBADF;
	if (!(in->fmode & FMODE_READ) || !(out->fmode & FMODE_WRITE))
		return -EBADF;
	ip = pipe_of_file(in);
	op = pipe_of_file(out);
	if (!ip || !op || ip == op)
		return -EINVAL;
	if (count > UIO_MAX_COUNT)
		count = UIO_MAX_COUNT;
	return pipe_to_pipe(ip, op, count, nonblock || is_nonblocking(in) || is_nonblocking(out),
			    false);
}

static ssize_t vmsplice_in(struct pipe *p, struct uio *u, bool nonblock)
{
	ssize_t r;

	do {
		r = pipe_wait_room(p, nonblock);
		if (r)
			return r;
		fmutex_lock(&p->lock);
		r = atomic_load(&p->readers) == 0 ? -EPIPE
						  : pipe_fill_locked(p, u, PIPE_FILL_BYTES);
		fmutex_unlock(&p->lock);
	} while (r == 0);
	if (r > 0)
		pipe_wake_readers(p);
	return r;
}

static ssize_t vmsplice_out(struct pipe *p, struct uio *u, bool nonblock)
{
	bool was_full, end;
	ssize_t r;

	for (;;) {
		fmutex_lock(&p->lock);
		was_full = pipe_is_full(p);
		r = pipe_drain_locked(p, u);
		end = r != 0 || atomic_load(&p->writers) == 0;
		was_full = was_full && !pipe_is_full(p);
		fmutex_unlock(&p->lock);
		if (end)
			break;

		int err = pipe_wait_data(p, nonblock);

		if (err)
			return err;
	}
	if (was_full)
		pipe_wake_writers(p);
	if (!pipe_is_empty(p))
		pipe_wake_readers(p);
	return r;
}

ssize_t vfs_vmsplice(struct vfs_ctx *c, struct file *f, struct uio *u, unsigned flags)
{
	bool nonblock = flags & LX_SPLICE_F_NONBLOCK;
	struct pipe *p;

	(void)c;
	if (flags & ~SPLICE_KNOWN)
		return -EINVAL;
	if (!f || !(f->fmode & (FMODE_READ | FMODE_WRITE)))
		return -EBADF;
	p = pipe_of_file(f);
	if (!p)
		return -EBADF;
	if (u->resid == 0)
		return 0;
	return (f->fmode & FMODE_WRITE) ? vmsplice_in(p, u, nonblock)
					: vmsplice_out(p, u, nonblock);
}
