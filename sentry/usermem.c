/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to and from guest memory.
 *
 * Theory of operation: a copy goes straight to the platform, which moves what it can up to the
 * first page that the guest itself could not touch. If a copy stops short just below a stack, the
 * stack is grown as a fault of the guest would have grown it, and the copy goes on. Ranges that
 * cannot be guest memory are refused here, before the platform sees them: the stub lives above
 * PF_GUEST_LIMIT.
 *
 * Locking: none; growing takes mm->lock, so no copy may be made by a caller that holds it (the
 * _nofault forms in sentry/mm_ops.h are for those).
 */
#include "sentry/mm_ops.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define LX_IOV_MAX 1024u

struct lx_iovec {
	uint64_t base;
	uint64_t size;
};
_Static_assert(sizeof(struct lx_iovec) == 16, "struct iovec");

/* Linux's access_ok: below the end of user addresses. */
bool user_range_ok(uint64_t addr, uint64_t size)
{
	return size <= LX_TASK_SIZE && addr <= LX_TASK_SIZE - size;
}

/* Cuts @size so that the range stays below the stub; the rest reads as unmapped. */
static size_t clip(uint64_t addr, size_t size)
{
	if (addr >= PF_GUEST_LIMIT)
		return 0;
	return MIN(size, PF_GUEST_LIMIT - addr);
}

ssize_t copy_in_mm(struct mm *mm, void *dst, gaddr_t src, size_t size)
{
	size_t n = clip(src.a, size);

	if (size == 0)
		return 0;
	if (n == 0)
		return -EFAULT;
	return g_pf->copy_in(mm->as, dst, src, n);
}

ssize_t copy_out_mm(struct mm *mm, gaddr_t dst, const void *src, size_t size)
{
	size_t n = clip(dst.a, size);

	if (size == 0)
		return 0;
	if (n == 0)
		return -EFAULT;
	return g_pf->copy_out(mm->as, dst, src, n);
}

ssize_t copy_in_partial(struct task *t, void *dst, gaddr_t src, size_t size)
{
	uint64_t tried = 0;
	size_t done = 0;

	if (size == 0)
		return 0;
	if (!t->mm || !user_range_ok(src.a, size))
		return -EFAULT;
	for (;;) {
		ssize_t n = copy_in_mm(t->mm, (char *)dst + done, GADDR(src.a + done), size - done);

		if (n > 0)
			done += (size_t)n;
		if (done == size)
			return (ssize_t)done;
		if (!mm_grow_for_copy(t, src.a + done, &tried))
			return done ? (ssize_t)done : -EFAULT;
	}
}

ssize_t copy_out_partial(struct task *t, gaddr_t dst, const void *src, size_t size)
{
	uint64_t tried = 0;
	size_t done = 0;

	if (size == 0)
		return 0;
	if (!t->mm || !user_range_ok(dst.a, size))
		return -EFAULT;
	for (;;) {
		ssize_t n = copy_out_mm(t->mm, GADDR(dst.a + done), (const char *)src + done,
					size - done);

		if (n > 0)
			done += (size_t)n;
		if (done == size)
			return (ssize_t)done;
		if (!mm_grow_for_copy(t, dst.a + done, &tried))
			return done ? (ssize_t)done : -EFAULT;
	}
}

int copy_in(struct task *t, void *dst, gaddr_t src, size_t size)
{
	return copy_in_partial(t, dst, src, size) == (ssize_t)size ? 0 : -EFAULT;
}

int copy_out(struct task *t, gaddr_t dst, const void *src, size_t size)
{
	return copy_out_partial(t, dst, src, size) == (ssize_t)size ? 0 : -EFAULT;
}

/* Most strings are short: do not move a page for each. */
#define STR_FIRST ((size_t)256)
_Static_assert(STR_FIRST < PATH_NEAR, "copy_in_path_near reads so much into it");

/* The string whose first @done bytes are in @dst, without a NUL. */
static ssize_t copy_in_str_from(struct task *t, char *dst, gaddr_t src, size_t size, size_t done)
{
	while (done < size) {
		uint64_t at = src.a + done;
		size_t chunk = MIN(size - done, (size_t)(MOAT_PAGE_SIZE - at % MOAT_PAGE_SIZE));
		const char *nul;

		if (done == 0)
			chunk = MIN(chunk, STR_FIRST);
		if (copy_in_partial(t, dst + done, GADDR(at), chunk) != (ssize_t)chunk)
			return -EFAULT;
		nul = memchr(dst + done, 0, chunk);
		if (nul)
			return nul - dst;
		done += chunk;
	}
	return -ENAMETOOLONG;
}

/* Its length if it came with the call, else -1. */
static ssize_t carried_str(struct task *t, char *dst, gaddr_t src, size_t size)
{
	return g_pf->carried_str ? g_pf->carried_str(t->mm->as, dst, src, size) : -1;
}

ssize_t copy_in_str(struct task *t, char *dst, gaddr_t src, size_t size)
{
	ssize_t n = carried_str(t, dst, src, size);

	if (n >= 0)
		return n;
	return copy_in_str_from(t, dst, src, size, 0);
}

int copy_in_path_near(struct task *t, gaddr_t src, char near[PATH_NEAR], char **out)
{
	size_t chunk = MIN(STR_FIRST, (size_t)(MOAT_PAGE_SIZE - src.a % MOAT_PAGE_SIZE));
	char *buf;
	ssize_t n;

	*out = near;
	if (carried_str(t, near, src, PATH_NEAR) >= 0)
		return 0;
	if (copy_in_partial(t, near, src, chunk) != (ssize_t)chunk)
		return -EFAULT;
	if (memchr(near, 0, chunk))
		return 0;
	buf = mem_realloc(NULL, LX_PATH_MAX);
	if (!buf)
		return -ENOMEM;
	memcpy(buf, near, chunk);
	n = copy_in_str_from(t, buf, src, LX_PATH_MAX, chunk);
	if (n < 0) {
		mem_free(buf);
		return (int)n;
	}
	*out = buf;
	return 0;
}

int copy_in_path(struct task *t, gaddr_t src, char **out)
{
	char near[PATH_NEAR], *text;
	int r = copy_in_path_near(t, src, near, &text);

	if (r < 0)
		return r;
	/* No more memory than the path needs: large blocks are dear. */
	*out = text == near ? mem_strdup(near) : text;
	return *out ? 0 : -ENOMEM;
}

/* ---- user buffers of read and write ---- */

static ssize_t uio_user_out(void *ctx, uint64_t base, const void *buf, size_t size)
{
	return copy_out_partial(ctx, GADDR(base), buf, size);
}

static ssize_t uio_user_in(void *ctx, uint64_t base, void *buf, size_t size)
{
	return copy_in_partial(ctx, buf, GADDR(base), size);
}

static bool uio_user_give(void *ctx, uint64_t base, const struct uio_file *file, uint64_t pos,
			  size_t size)
{
	struct task *t = ctx;

	return t->mm && user_range_ok(base, size) &&
	       (size <= PF_GIVE_SURE || mm_may_write(t->mm, base, size)) &&
	       g_pf->give(t->mm->as, GADDR(base), file, pos, size);
}

static const struct uio_ops user_ops = {.copy_out = uio_user_out, .copy_in = uio_user_in};
static const struct uio_ops giving_ops = {
	.copy_out = uio_user_out, .copy_in = uio_user_in, .give = uio_user_give};

static const struct uio_ops *ops(void)
{
	return g_pf->give ? &giving_ops : &user_ops;
}

int uio_from_buf(struct task *t, struct uio *u, struct user_iov *v, gaddr_t buf, uint64_t size)
{
	v->segs = v->fast;
	/* A negative size is a range that wraps: EFAULT, as Linux's access_ok says before anybody
	 * looks at the sign. */
	if (!user_range_ok(buf.a, size))
		return -EFAULT;
	size = MIN(size, UIO_MAX_COUNT);
	v->fast[0] = (struct uio_seg){.base = buf.a, .size = size};
	uio_init(u, ops(), t, v->segs, 1, size);
	return 0;
}

/* Checks the vector and cuts it at UIO_MAX_COUNT bytes, as Linux does. The sum, or -errno. */
static int64_t check_iovec(struct uio_seg *segs, uint64_t count)
{
	uint64_t total = 0;

	/* Linux looks for negative sizes in all of them before it looks at an address. */
	for (uint64_t i = 0; i < count; i++)
		if ((int64_t)segs[i].size < 0)
			return -EINVAL;
	for (uint64_t i = 0; i < count; i++) {
		if (!user_range_ok(segs[i].base, segs[i].size))
			return -EFAULT;
		segs[i].size = MIN(segs[i].size, UIO_MAX_COUNT - total);
		total += segs[i].size;
	}
	return (int64_t)total;
}

int uio_from_iovec(struct task *t, struct uio *u, struct user_iov *v, gaddr_t iov, uint64_t count)
{
	int64_t total;

	v->segs = v->fast;
	if (count > LX_IOV_MAX)
		return -EINVAL;
	if (count > ARRAY_SIZE(v->fast)) {
		v->segs = mem_calloc(count, sizeof(v->segs[0]));
		if (!v->segs) {
			v->segs = v->fast;
			return -ENOMEM;
		}
	}
	/* struct uio_seg has the layout of struct iovec, so the vector is read in place. */
	_Static_assert(sizeof(struct uio_seg) == sizeof(struct lx_iovec) &&
			       offsetof(struct uio_seg, size) == offsetof(struct lx_iovec, size),
		       "uio_seg mirrors iovec");
	total = copy_in(t, v->segs, iov, count * sizeof(struct lx_iovec));
	if (total == 0)
		total = check_iovec(v->segs, count);
	if (total < 0) {
		user_iov_free(v);
		return (int)total;
	}
	uio_init(u, ops(), t, v->segs, (unsigned)count, (uint64_t)total);
	return 0;
}

void user_iov_free(struct user_iov *v)
{
	if (v->segs != v->fast)
		mem_free(v->segs);
	v->segs = v->fast;
}

void task_umem(struct task *t, struct umem *out)
{
	out->ops = &user_ops;
	out->ctx = t;
}
