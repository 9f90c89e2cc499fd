/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cursor over user buffers. See base/uio.h.
 */
#include <errno.h>
#include <string.h>
#include "base/uio.h"

void uio_init_kernel(struct uio *u, struct uio_seg *seg, void *buf, size_t size)
{
	*seg = (struct uio_seg){.base = (uint64_t)(uintptr_t)buf, .size = size};
	*u = (struct uio){.segs = seg, .count = 1, .resid = size};
}

void uio_init(struct uio *u, const struct uio_ops *ops, void *ctx, const struct uio_seg *segs,
	      unsigned count, uint64_t total)
{
	*u = (struct uio){.ops = ops, .ctx = ctx, .segs = segs, .count = count, .resid = total};
}

/* The next contiguous piece, at most @size bytes; 0 at the end. Steps over used-up segments. */
static size_t uio_piece(struct uio *u, size_t size, uint64_t *base)
{
	while (u->count > 0 && u->seg_off == u->segs->size) {
		u->segs++;
		u->count--;
		u->seg_off = 0;
	}
	if (u->count == 0)
		return 0;
	*base = u->segs->base + u->seg_off;
	return MIN(MIN((uint64_t)size, u->segs->size - u->seg_off), u->resid);
}

static void uio_advance(struct uio *u, size_t n)
{
	u->seg_off += n;
	u->resid -= n;
}

enum uio_dir { UIO_OUT, UIO_IN };

static ssize_t uio_move_piece(const struct uio *u, enum uio_dir dir, uint64_t base, void *buf,
			      size_t n)
{
	if (!u->ops) {
		void *user = (void *)(uintptr_t)base;

		if (dir == UIO_OUT)
			memcpy(user, buf, n);
		else
			memcpy(buf, user, n);
		return (ssize_t)n;
	}
	return dir == UIO_OUT ? u->ops->copy_out(u->ctx, base, buf, n)
			      : u->ops->copy_in(u->ctx, base, buf, n);
}

static ssize_t uio_move(struct uio *u, enum uio_dir dir, char *buf, size_t size)
{
	size_t done = 0;

	while (done < size) {
		uint64_t base;
		size_t n = uio_piece(u, size - done, &base);

		if (n == 0)
			break;

		ssize_t r = uio_move_piece(u, dir, base, buf + done, n);

		if (r > 0) {
			uio_advance(u, (size_t)r);
			done += (size_t)r;
		}
		if (r < (ssize_t)n)
			return done ? (ssize_t)done : -EFAULT;
	}
	return (ssize_t)done;
}

ssize_t uio_put(struct uio *u, const void *buf, size_t size)
{
	/* UIO_OUT only reads the buffer. */
	return uio_move(u, UIO_OUT, (char *)(uintptr_t)buf, size);
}

bool uio_give(struct uio *u, const struct uio_file *file, uint64_t pos)
{
	const size_t size = u->resid;
	uint64_t base;

	if (uio_piece(u, size, &base) != size || !u->ops->give(u->ctx, base, file, pos, size))
		return false;
	uio_advance(u, size);
	return true;
}

ssize_t uio_put_zero(struct uio *u, size_t size)
{
	/* Not const, so that it is no part of the program's file. Each piece has its price. */
	static char zeros[64 << 10];
	size_t done = 0;

	if (size == u->resid && uio_may_give(u) && uio_give(u, NULL, 0))
		return (ssize_t)size;
	while (done < size) {
		size_t want = MIN(size - done, sizeof(zeros));
		ssize_t r = uio_put(u, zeros, want);

		if (r < 0)
			return done ? (ssize_t)done : r;
		done += (size_t)r;
		if ((size_t)r < want)
			break;
	}
	return (ssize_t)done;
}

ssize_t uio_get(struct uio *u, void *buf, size_t size)
{
	return uio_move(u, UIO_IN, buf, size);
}

void *uio_kernel_piece(struct uio *u, size_t *size)
{
	uint64_t base;

	if (u->ops)
		return NULL;
	*size = uio_piece(u, u->resid, &base);
	return *size ? (void *)(uintptr_t)base : NULL;
}

ssize_t uio_peek(const struct uio *u, void *buf, size_t size)
{
	struct uio copy = *u;

	return uio_get(&copy, buf, size);
}

void uio_skip(struct uio *u, size_t size)
{
	while (size > 0) {
		uint64_t base;
		size_t n = uio_piece(u, size, &base);

		if (n == 0)
			break;
		uio_advance(u, n);
		size -= n;
	}
}

void uio_rewind(struct uio *u, const struct uio *saved)
{
	*u = *saved;
}
