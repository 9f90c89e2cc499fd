/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device numbers. See vfs/chrdev.h.
 *
 * Locking: none: the table is filled at start and read afterwards.
 */
#include <errno.h>
#include "vfs/chrdev.h"
#include "vfs/inode.h"

#define CHRDEVS_MAX 64u

static struct {
	uint32_t major, minor;
	const struct chrdev *dev;
} g_chrdevs[CHRDEVS_MAX];
static unsigned g_chrdev_count;

int chrdev_register(uint32_t major, uint32_t minor, const struct chrdev *dev)
{
	for (unsigned i = 0; i < g_chrdev_count; i++) {
		if (g_chrdevs[i].major == major && g_chrdevs[i].minor == minor)
			return g_chrdevs[i].dev == dev ? 0 : -EBUSY;
	}
	if (g_chrdev_count == CHRDEVS_MAX)
		return -ENOSPC;
	g_chrdevs[g_chrdev_count].major = major;
	g_chrdevs[g_chrdev_count].minor = minor;
	g_chrdevs[g_chrdev_count].dev = dev;
	g_chrdev_count++;
	return 0;
}

void chrdev_forget(uint32_t major, uint32_t minor)
{
	for (unsigned i = 0; i < g_chrdev_count; i++) {
		if (g_chrdevs[i].major != major || g_chrdevs[i].minor != minor)
			continue;
		g_chrdevs[i] = g_chrdevs[--g_chrdev_count];
		return;
	}
}

const struct chrdev *chrdev_find(uint64_t rdev)
{
	uint32_t major = lx_dev_major(rdev), minor = lx_dev_minor(rdev);
	const struct chrdev *any = NULL;

	for (unsigned i = 0; i < g_chrdev_count; i++) {
		if (g_chrdevs[i].major != major)
			continue;
		if (g_chrdevs[i].minor == minor)
			return g_chrdevs[i].dev;
		if (g_chrdevs[i].minor == CHRDEV_MINOR_ANY)
			any = g_chrdevs[i].dev;
	}
	return any;
}

bool chrdev_at(unsigned i, uint32_t *major, const struct chrdev **dev)
{
	if (i >= g_chrdev_count)
		return false;
	*major = g_chrdevs[i].major;
	*dev = g_chrdevs[i].dev;
	return true;
}

int chrdev_open(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	const struct chrdev *dev = LX_S_ISCHR(inode_mode(i)) ? chrdev_find(i->rdev) : NULL;

	if (!dev) {
		vfs_denied(VFS_DENIED_NO_DEVICE, f->path.mnt);
		return -ENXIO;
	}
	if (dev->fops)
		f->ops = dev->fops;
	return dev->open ? dev->open(c, i, f) : 0;
}
