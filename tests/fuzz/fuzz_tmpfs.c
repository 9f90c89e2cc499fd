/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the content of a tmpfs file under any sequence of operations, with failing
 *allocations among them, against a plain array. Eight bytes are one operation.
 *
 *	make m=fuzz fuzz-build && build/fuzz/fuzz/fuzz_tmpfs tests/fuzz/corpus/tmpfs
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lx_fcntl.h"
#include "vfs/tmpfs.h"
#include "vfs/tmpfs_pages.h"

#define BYTES_MAX ((size_t)1 << 19)
#define OPS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct vfs_ctx g_ctx;
static uint8_t g_byte[2 * BYTES_MAX]; /* beyond g_size: zero */
static uint8_t g_buf[2 * BYTES_MAX];
static size_t g_size;

static ssize_t io(struct file *f, bool write, size_t size, int64_t off)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, g_buf, size);
	return write ? vfs_write(&g_ctx, f, &u, &off) : vfs_read(&g_ctx, f, &u, &off);
}

static void check(struct file *f)
{
	BUG_ON(io(f, false, sizeof(g_buf), 0) != (ssize_t)g_size);
	BUG_ON(memcmp(g_buf, g_byte, g_size) != 0);
}

static void set_size(size_t size)
{
	if (size < g_size)
		memset(g_byte + size, 0, g_size - size);
	g_size = size;
}

/* What a fallocate that went well means. */
static void model_fallocate(int mode, size_t off, size_t len)
{
	size_t end = MIN(off + len, g_size);

	switch (mode) {
	case 0:
		g_size = MAX(g_size, off + len);
		break;
	case LX_FALLOC_FL_ZERO_RANGE:
		g_size = MAX(g_size, off + len);
		memset(g_byte + off, 0, len);
		break;
	case LX_FALLOC_FL_PUNCH_HOLE | LX_FALLOC_FL_KEEP_SIZE:
	case LX_FALLOC_FL_ZERO_RANGE | LX_FALLOC_FL_KEEP_SIZE:
		if (off < end)
			memset(g_byte + off, 0, end - off);
		break;
	case LX_FALLOC_FL_COLLAPSE_RANGE:
		memmove(g_byte + off, g_byte + off + len, g_size - off - len);
		set_size(g_size - len);
		break;
	case LX_FALLOC_FL_INSERT_RANGE:
		memmove(g_byte + off + len, g_byte + off, g_size - off);
		memset(g_byte + off, 0, len);
		g_size += len;
		break;
	default:
		break;
	}
}

static void map_page(struct file *f, size_t off, uint8_t value)
{
	struct file_map m = {.offset = page_down(off),
			     .size = 4096,
			     .prot = LX_PROT_READ | LX_PROT_WRITE,
			     .shared = true};

	if (f->ops->mmap(f, &m) < 0 || off >= g_size)
		return;
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m.host_fd,
			  (off_t)m.host_offset);

	BUG_ON(p == MAP_FAILED);
	BUG_ON(p[off & 4095] != g_byte[off]);
	p[off & 4095] = g_byte[off] = value;
	if (g_size - page_down(off) < 4096)
		p[4095] = value; /* beyond the end */
	munmap(p, 4096);
}

static void step(struct file *f, const uint8_t op[8])
{
	static const int modes[] = {0,
				    LX_FALLOC_FL_KEEP_SIZE,
				    LX_FALLOC_FL_ZERO_RANGE,
				    LX_FALLOC_FL_ZERO_RANGE | LX_FALLOC_FL_KEEP_SIZE,
				    LX_FALLOC_FL_PUNCH_HOLE | LX_FALLOC_FL_KEEP_SIZE,
				    LX_FALLOC_FL_COLLAPSE_RANGE,
				    LX_FALLOC_FL_INSERT_RANGE};
	size_t off = (size_t)(op[1] | op[2] << 8 | (op[3] & 7) << 16);
	size_t len = 1 + (size_t)(op[4] | op[5] << 8 | (op[6] & 1) << 16);
	int mode = modes[op[3] / 8 % ARRAY_SIZE(modes)], r;
	ssize_t n;

	if (op[0] & 0x10)
		fail_set(FAIL_ALLOC, 1 + op[7] % 8);
	switch (op[0] & 3) {
	case 0:
		memset(g_buf, op[7] | 1, len);
		n = io(f, true, len, (int64_t)off);
		fail_set(FAIL_ALLOC, 0);
		BUG_ON(n < 0 && n != -ENOMEM && n != -ENOSPC);
		if (n > 0) {
			memset(g_byte + off, op[7] | 1, (size_t)n);
			g_size = MAX(g_size, off + (size_t)n);
		}
		break;
	case 1:
		r = vfs_ftruncate(&g_ctx, f, (int64_t)off);
		fail_set(FAIL_ALLOC, 0);
		BUG_ON(r < 0 && r != -ENOMEM);
		if (r == 0)
			set_size(off);
		break;
	case 2:
		if (mode == LX_FALLOC_FL_COLLAPSE_RANGE || mode == LX_FALLOC_FL_INSERT_RANGE) {
			off = page_down(off);
			len = page_up(len);
		}
		if (g_size + len > BYTES_MAX)
			mode = LX_FALLOC_FL_PUNCH_HOLE | LX_FALLOC_FL_KEEP_SIZE;
		r = vfs_fallocate(&g_ctx, f, mode, (int64_t)off, (int64_t)len);
		fail_set(FAIL_ALLOC, 0);
		BUG_ON(r < 0 && r != -ENOMEM && r != -ENOSPC && r != -EINVAL);
		if (r == 0)
			model_fallocate(mode, off, len);
		break;
	default:
		map_page(f, off, op[7]);
		fail_set(FAIL_ALLOC, 0);
		break;
	}
	check(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool started;
	struct tmpfs_opts o = {.size = (uint64_t)1 << 19, .mode = 0755};
	struct open_how how = {.flags = LX_O_RDWR | LX_O_CREAT, .mode = 0600};
	struct super *s;
	struct file *f;

	if (!started) {
		BUG_ON(clock_start(CLOCK_KIND_HOST, 0) != 0);
		vfs_init();
		started = true;
	}
	memset(g_byte, 0, sizeof(g_byte));
	g_size = 0;
	BUG_ON(tmpfs_new(&o, &s) != 0);
	struct mount_ns *ns = mount_ns_new(s, 0);

	BUG_ON(!ns);
	struct path root = {ns->root, ns->root->root};

	super_put(s);
	g_ctx = (struct vfs_ctx){.cred = cred_new(0, 0, LX_CAP_ALL),
				 .fs = fs_new(&root, &root, 0),
				 .ns = ns,
				 .fsize_limit = UINT64_MAX};
	BUG_ON(!g_ctx.cred || !g_ctx.fs);
	BUG_ON(vfs_open(&g_ctx, NULL, "/f", &how, &f) != 0);
	for (size_t i = 0; i + 8 <= size && i < OPS_MAX * (size_t)8; i += 8)
		step(f, data + i);
	file_put(f);
	fs_put(g_ctx.fs);
	mount_ns_put(ns);
	cred_put(g_ctx.cred);
	BUG_ON(tmpfs_pages_in_use() != 0);
	return 0;
}
