/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of the tests of open files. See vfs_file_env.h.
 */
#include <criterion/criterion.h>
#include <unistd.h>
#include "base/err.h"
#include "base/fiber.h"
#include "tests/unit/vfs_file_env.h"

void fenv_up(struct fenv *e)
{
	env_up(&e->env);
	e->table = fdtable_new();
	BUG_ON(!e->table);
	e->c = &e->env.ctx[ROOT];
	e->c->files = e->table;
	e->c->tgid = e->c->tid = 100;
	e->plain = cred_new(USER_ID, USER_ID, 0);
	BUG_ON(!e->plain);
	e->user_ctx = *e->c;
	e->user_ctx.cred = e->plain;
	e->user = &e->user_ctx;
}

void fenv_down(struct fenv *e)
{
	fdtable_put(e->table, e->c);
	cred_put(e->plain);
	env_down(&e->env);
}

int fenv_try_open(struct vfs_ctx *c, const char *path, uint32_t flags, struct file **out)
{
	struct open_how how = {.flags = flags, .mode = 0666};

	return vfs_open(c, NULL, path, &how, out);
}

struct file *fenv_open(struct fenv *e, const char *path, uint32_t flags)
{
	struct file *f = NULL;
	int r = fenv_try_open(e->c, path, flags, &f);

	cr_assert_eq(r, 0, "open %s: %d", path, r);
	return f;
}

ssize_t fenv_write(struct fenv *e, struct file *f, const void *buf, size_t size)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, (void *)(uintptr_t)buf, size);
	return vfs_write(e->c, f, &u, NULL);
}

ssize_t fenv_read(struct fenv *e, struct file *f, void *buf, size_t size)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, buf, size);
	return vfs_read(e->c, f, &u, NULL);
}

ssize_t fenv_pwrite(struct fenv *e, struct file *f, const void *buf, size_t size, int64_t off)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, (void *)(uintptr_t)buf, size);
	return vfs_write(e->c, f, &u, &off);
}

ssize_t fenv_pread(struct fenv *e, struct file *f, void *buf, size_t size, int64_t off)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, buf, size);
	return vfs_read(e->c, f, &u, &off);
}

void fenv_nonblock(struct file *f)
{
	atomic_fetch_or(&f->flags, LX_O_NONBLOCK);
}

uint32_t fenv_poll(struct file *f)
{
	return vfs_poll(f, NULL);
}

struct fiber *fenv_go(void (*fn)(void *), void *arg)
{
	struct fiber *f = fiber_new(fn, arg, NULL, "test");

	cr_assert_not_null(f);
	fiber_start(f);
	return f;
}

void fenv_settle(void)
{
	unsigned quiet = 0;

	/* A fiber that was woken by another host thread counts at once; still, look more than once.
	 */
	while (quiet < 3) {
		usleep(1000);
		quiet = fibers_running() == 0 ? quiet + 1 : 0;
	}
}
