/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device numbers and who serves them: what open(2) does with a character or block device node, on
 * whatever file system the node stands.
 */
#ifndef MOAT_VFS_CHRDEV_H
#define MOAT_VFS_CHRDEV_H

#include "vfs/vfs.h"

struct chrdev {
	const char *name; /* for /proc/devices */
	/* Called by open after the checks, with @f not yet visible and f->ops already == fops: may
	 * set f->ops, f->priv; -errno refuses. NULL: nothing to do. */
	int (*open)(struct vfs_ctx *c, struct inode *i, struct file *f);
	const struct file_ops *fops; /* may be NULL if open sets f->ops */
};

#define CHRDEV_MINOR_ANY UINT32_MAX

/* Registers @dev (kept, not copied) for one character device number, or with CHRDEV_MINOR_ANY for
 * all minors of @major that have no registration of their own. At start only. -EBUSY if taken,
 * -ENOSPC. */
int chrdev_register(uint32_t major, uint32_t minor, const struct chrdev *dev) MUST_USE;
/* Nobody opens this device, whatever node stands for it. At start, after all are registered. */
void chrdev_forget(uint32_t major, uint32_t minor);
/* The device of an st_rdev, or NULL. */
const struct chrdev *chrdev_find(uint64_t rdev);
/* Iteration for /proc/devices: false at the end. */
bool chrdev_at(unsigned i, uint32_t *major, const struct chrdev **dev);
/* Serves the open of @i, a character or block device: -ENXIO if nobody does. */
int chrdev_open(struct vfs_ctx *c, struct inode *i, struct file *f) MUST_USE;

static inline uint32_t lx_dev_major(uint64_t dev)
{
	return (uint32_t)((dev >> 8) & 0xfffu) | (uint32_t)((dev >> 32) & ~0xfffu);
}

static inline uint32_t lx_dev_minor(uint64_t dev)
{
	return (uint32_t)(dev & 0xffu) | (uint32_t)((dev >> 12) & ~0xffu);
}

#endif
