/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For race tests of open files: fibers that are counted until the last has ended, and reads and
 * writes of a file by what they all share, the program's one VFS context.
 */
#ifndef MOAT_TESTS_VFS_FIBERS_H
#define MOAT_TESTS_VFS_FIBERS_H

#include <unistd.h>
#include "base/fiber.h"
#include "tests/race/race.h"
#include "vfs/vfs.h"

static struct vfs_ctx g_ctx;
static _Atomic unsigned g_left;

/* @fn ends with done(). */
static inline void go(void (*fn)(void *), void *arg)
{
	struct fiber *f = fiber_new(fn, arg, NULL, "race");

	race_check(f != NULL);
	atomic_fetch_add(&g_left, 1);
	fiber_start(f);
}

static inline void done(void)
{
	atomic_fetch_sub(&g_left, 1);
}

/* Until all fibers have ended; two minutes without that are a lost wake-up. */
static inline void wait_all(const char *what)
{
	for (unsigned i = 0; atomic_load(&g_left) > 0; i++) {
		usleep(1000);
		if (i > 120000) {
			fprintf(stderr, "%s: %u fibers sleep\n", what, atomic_load(&g_left));
			_Exit(1);
		}
	}
}

static inline ssize_t put(struct file *f, const void *buf, size_t size)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, (void *)(uintptr_t)buf, size);
	return vfs_write(&g_ctx, f, &u, NULL);
}

static inline ssize_t get(struct file *f, void *buf, size_t size)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, buf, size);
	return vfs_read(&g_ctx, f, &u, NULL);
}

#endif
