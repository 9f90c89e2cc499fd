/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /dev/null, zero, full, random and urandom. Source: null(4), full(4), random(4).
 *
 * Writes to random and urandom are read and dropped: the guest's entropy must not reach the host's
 * pool. Both answer from the host's CSPRNG (base/hash.h) and never block.
 */
#include "vfs/memdev.h"

#include "vfs/chrdev.h"

#include "base/err.h"

#include <errno.h>

static ssize_t null_read(struct file *f UNUSED, struct uio *u UNUSED, int64_t *pos UNUSED)
{
	return 0;
}

static ssize_t sink_write(struct vfs_ctx *c UNUSED, struct file *f UNUSED, struct uio *u,
			  int64_t *pos UNUSED)
{
	uint64_t n = u->resid;

	uio_skip(u, n);
	return (ssize_t)n;
}

static ssize_t zero_read(struct file *f UNUSED, struct uio *u, int64_t *pos UNUSED)
{
	ssize_t n = 0;

	while (u->resid) {
		ssize_t r = uio_put_zero(u, MIN(u->resid, (uint64_t)1 << 20));

		if (r <= 0)
			return n ? n : r;
		n += r;
		if (g_vfs_hooks->interrupted())
			break;
	}
	return n;
}

static ssize_t full_write(struct vfs_ctx *c UNUSED, struct file *f UNUSED, struct uio *u UNUSED,
			  int64_t *pos UNUSED)
{
	return -ENOSPC;
}

static ssize_t random_read(struct file *f UNUSED, struct uio *u, int64_t *pos UNUSED)
{
	unsigned char buf[1024];
	ssize_t n = 0;

	while (u->resid) {
		size_t want = MIN(u->resid, (uint64_t)sizeof(buf));
		ssize_t r;

		guest_random_bytes(GUEST_RANDOM_DATA, buf, want);
		r = uio_put(u, buf, want);
		if (r <= 0)
			return n ? n : r;
		n += r;
		if (n >= 256 && g_vfs_hooks->interrupted())
			break;
	}
	__builtin_memset(buf, 0, sizeof(buf));
	return n;
}

/* Random bytes that are written must be readable memory, as Linux says. */
static ssize_t random_write(struct vfs_ctx *c UNUSED, struct file *f UNUSED, struct uio *u,
			    int64_t *pos UNUSED)
{
	unsigned char buf[4096];
	ssize_t n = 0;

	while (u->resid) {
		ssize_t r = uio_get(u, buf, MIN(u->resid, (uint64_t)sizeof(buf)));

		if (r <= 0)
			return n ? n : r;
		n += r;
	}
	return n;
}

static int64_t dev_lseek(struct file *f, int64_t off UNUSED, int whence UNUSED)
{
	f->pos = 0;
	return 0;
}

#define RNDGETENTCNT 0x80045200u
#define RND_ENTROPY_BITS 256

static long random_ioctl(struct vfs_ctx *c UNUSED, struct file *f UNUSED, unsigned cmd,
			 uint64_t arg, const struct umem *um)
{
	int bits = RND_ENTROPY_BITS;

	if (cmd == RNDGETENTCNT)
		return umem_copy_out(um, GADDR(arg), &bits, sizeof(bits));
	return -EINVAL;
}

static int zero_mmap(struct file *f UNUSED, struct file_map *m)
{
	m->anon = true;
	m->max_prot = LX_PROT_READ | LX_PROT_WRITE | LX_PROT_EXEC;
	return 0;
}

const struct file_ops g_memdev_null = {.read = null_read, .write = sink_write, .lseek = dev_lseek};
static const struct file_ops g_zero_ops = {
	.read = zero_read, .write = sink_write, .lseek = dev_lseek, .mmap = zero_mmap};
static const struct file_ops g_full_ops = {
	.read = zero_read, .write = full_write, .lseek = dev_lseek};
static const struct file_ops g_random_ops = {
	.read = random_read, .write = random_write, .lseek = dev_lseek, .ioctl = random_ioctl};

static const struct {
	uint32_t minor;
	struct chrdev dev;
} g_devs[] = {
	{3, {.name = "null", .fops = &g_memdev_null}},
	{5, {.name = "zero", .fops = &g_zero_ops}},
	{7, {.name = "full", .fops = &g_full_ops}},
	{8, {.name = "random", .fops = &g_random_ops}},
	{9, {.name = "urandom", .fops = &g_random_ops}},
};

void memdev_register(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_devs); i++) {
		int r = chrdev_register(1, g_devs[i].minor, &g_devs[i].dev);

		BUG_ON(r);
	}
}
