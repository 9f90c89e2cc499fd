/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of user buffers that data is copied to or from: how read and write handlers reach guest
 * memory without knowing of platforms. Kernel buffers can stand in (kernel-internal reads, tests).
 *
 * The cursor advances with each copy. A copy that faults midway copies what it could: functions
 * return the number of bytes moved, or -EFAULT if none was.
 */
#ifndef MOAT_BASE_UIO_H
#define MOAT_BASE_UIO_H

#include "base/types.h"

/* The most bytes one read or write moves (Linux's MAX_RW_COUNT). */
#define UIO_MAX_COUNT ((uint64_t)0x7ffff000)

struct uio_seg {
	uint64_t base; /* a guest address, or a host pointer for kernel buffers */
	uint64_t size;
};

struct uio;

/* A part of a host file which whoever reads it may be shown by a mapping of his own instead of by a
 * copy. */
struct uio_file {
	uint64_t id; /* of this part of this file; never of another; not 0 */
	int host_fd;
	uint64_t start, size; /* start: a multiple of the page. The file may be shorter */
};

/* Copies between memory of @ctx and @buf. Returns bytes moved (maybe short at a fault), or -EFAULT.
 */
struct uio_ops {
	ssize_t (*copy_out)(void *ctx, uint64_t base, const void *buf, size_t size);
	ssize_t (*copy_in)(void *ctx, uint64_t base, void *buf, size_t size);
	/* NULL, or: the @size bytes of @file from its offset @pos on, or zeros if @file is NULL,
	 * shall be at @base when the user goes on. False: they are to be copied. */
	bool (*give)(void *ctx, uint64_t base, const struct uio_file *file, uint64_t pos,
		     size_t size);
};

struct uio {
	const struct uio_ops *ops; /* NULL: kernel buffers */
	void *ctx;
	const struct uio_seg *segs;
	unsigned count;   /* segments left, including the current */
	uint64_t seg_off; /* into the current segment */
	uint64_t resid;   /* bytes left in all */
	bool again;       /* what is given once need not be asked for again */
};

/* Over one kernel buffer. @seg is the caller's storage, lives as long as the uio. */
void uio_init_kernel(struct uio *u, struct uio_seg *seg, void *buf, size_t size);
void uio_init(struct uio *u, const struct uio_ops *ops, void *ctx, const struct uio_seg *segs,
	      unsigned count, uint64_t total);
/* Data to the user (a read): from @buf. Bytes moved, short at a fault or at the end; -EFAULT if a
 * fault came first. */
ssize_t uio_put(struct uio *u, const void *buf, size_t size) MUST_USE;
ssize_t uio_put_zero(struct uio *u, size_t size) MUST_USE;
/* Below this a copy is as good, unless u->again. Where reads are counted, one counts as so much at
 * least. */
#define UIO_GIVE_MIN ((size_t)1 << 10)
#define UIO_GIVE_FLOOR ((size_t)2 << 10)

/* Is it worth looking for a file to give from? */
static inline bool uio_may_give(const struct uio *u)
{
	return u->ops && u->ops->give && u->resid >= (u->again ? 1 : UIO_GIVE_MIN);
}

/* The same with all that is wanted, from @file (NULL: zeros) at @pos on, without a copy;
 * uio_may_give() has said yes. False: nothing was done. */
bool uio_give(struct uio *u, const struct uio_file *file, uint64_t pos) MUST_USE;
/* Data from the user (a write): into @buf. */
ssize_t uio_get(struct uio *u, void *buf, size_t size) MUST_USE;
/* As uio_get, without moving the cursor. */
ssize_t uio_peek(const struct uio *u, void *buf, size_t size) MUST_USE;
/* Where the next bytes lie, *@size of them, if in the kernel's own memory, so that they need no
 * copy of their own; uio_skip() those that were used. NULL: elsewhere, or there are none. */
void *uio_kernel_piece(struct uio *u, size_t *size) MUST_USE;
/* Moves the cursor forward without a copy. */
void uio_skip(struct uio *u, size_t size);
/* Back to a state that was saved by copying the struct. */
void uio_rewind(struct uio *u, const struct uio *saved);

#endif
