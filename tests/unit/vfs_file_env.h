/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of open files share: the environment of vfs_names_env.h with a descriptor table,
 * short ways to read and write, and fibers that block while the test's own thread looks on.
 */
#ifndef MOAT_TESTS_VFS_FILE_ENV_H
#define MOAT_TESTS_VFS_FILE_ENV_H

#include "base/lx_fcntl.h"
#include "tests/unit/vfs_names_env.h"
#include "vfs/vfs.h"

struct fenv {
	struct env env;
	struct vfs_ctx *c;    /* root's, with a descriptor table */
	struct vfs_ctx *user; /* without capabilities, the same table */
	struct fdtable *table;
	struct cred *plain;
	struct vfs_ctx user_ctx;
};

void fenv_up(struct fenv *e);
void fenv_down(struct fenv *e);

/* Opens from the root; fails the test if it cannot. */
struct file *fenv_open(struct fenv *e, const char *path, uint32_t flags);
int fenv_try_open(struct vfs_ctx *c, const char *path, uint32_t flags, struct file **out);
ssize_t fenv_write(struct fenv *e, struct file *f, const void *buf, size_t size);
ssize_t fenv_read(struct fenv *e, struct file *f, void *buf, size_t size);
ssize_t fenv_pwrite(struct fenv *e, struct file *f, const void *buf, size_t size, int64_t off);
ssize_t fenv_pread(struct fenv *e, struct file *f, void *buf, size_t size, int64_t off);
void fenv_nonblock(struct file *f);
/* poll(2) bits now. */
uint32_t fenv_poll(struct file *f);

/* Runs fn(arg) in a fiber. */
struct fiber *fenv_go(void (*fn)(void *), void *arg);
/* Waits until all fibers wait or have ended. */
void fenv_settle(void);

#endif
