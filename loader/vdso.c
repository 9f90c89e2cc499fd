/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vDSO's image and the clock page, ready to be mapped.
 *
 * Theory of operation: the image is written once into a file in memory, whose host descriptor every
 * program maps; the clock page is the clock's own. Both live as long as the sandbox.
 *
 * Locking: vdso_init is called once, before the first program; after it all is constant.
 */
#include "loader/vdso.h"
#include "base/clock.h"
#include "vfs/host_calls.h"
#include "vfs/memfd.h"

#include <errno.h>

extern const char g_vdso_image[], g_vdso_image_end[];

static struct {
	struct file *file;
	struct file_map map;
	uint64_t size;
	uint64_t vvar_key;
	bool ready;
} g_vdso;

/* The image into @f. */
static int write_image(struct file *f, size_t size)
{
	struct vfs_ctx c = {.cred = f->cred, .fsize_limit = UINT64_MAX};
	struct uio_seg seg;
	struct uio u;
	int64_t off = 0;

	uio_init_kernel(&u, &seg, (void *)(uintptr_t)g_vdso_image, size);
	return vfs_write(&c, f, &u, &off) == (ssize_t)size ? 0 : -EIO;
}

int vdso_init(void)
{
	size_t size = (size_t)(g_vdso_image_end - g_vdso_image);
	struct file *f;
	int r;

	if (clock_params_fd() < 0)
		return -ENODEV;
	r = shmem_new(page_up(size), "[vdso]", &f);
	if (r)
		return r;
	r = write_image(f, size);
	g_vdso.map = (struct file_map){
		.size = page_up(size), .prot = LX_PROT_READ | LX_PROT_EXEC, .host_fd = -1};
	g_vdso.map.max_prot = LX_PROT_READ | LX_PROT_WRITE | LX_PROT_EXEC;
	if (r == 0)
		r = f->ops->mmap(f, &g_vdso.map);
	if (r) {
		file_put(f);
		return r;
	}
	g_vdso.file = f;
	g_vdso.size = page_up(size);
	g_vdso.vvar_key = host_map_key_new();
	g_vdso.ready = true;
	return 0;
}

bool vdso_available(void)
{
	return g_vdso.ready;
}

uint64_t vdso_text_size(void)
{
	return g_vdso.size;
}

uint64_t vdso_vvar_size(void)
{
	return MOAT_PAGE_SIZE;
}

int vdso_text_fd(void)
{
	return g_vdso.map.host_fd;
}

int vdso_vvar_fd(void)
{
	return clock_params_fd();
}

uint64_t vdso_text_key(void)
{
	return g_vdso.map.key;
}

uint64_t vdso_vvar_key(void)
{
	return g_vdso.vvar_key;
}
