/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing the VFS up, and its defaults without a sentry.
 */
#include "base/fault.h"
#include "vfs/dcache.h"
#include "vfs/sysfs.h"
#include "vfs/tmpfs.h"
#include "vfs/tty.h"

static bool no_task_interrupted(void)
{
	return false;
}

static void no_task_sigio(struct file *f, uint32_t band)
{
	(void)f;
	(void)band;
}

static struct vfs_ctx *no_task_ctx(void)
{
	return NULL;
}

static void no_task_umem(struct umem *out)
{
	*out = (struct umem){NULL, NULL};
}

static const struct vfs_hooks g_no_tasks = {
	.send_sigio = no_task_sigio,
	.interrupted = no_task_interrupted,
	.current_ctx = no_task_ctx,
	.current_umem = no_task_umem,
};

const struct vfs_hooks *g_vfs_hooks = &g_no_tasks;
bool g_vfs_learning;

void vfs_init(void)
{
	fault_init();
	dcache_init();
	fs_type_register(&g_tmpfs_type);
	fs_type_register(&g_sysfs_type);
	tty_register();
	/* Now, while a lack of memory may still end it all. */
	(void)anon_super();
}
