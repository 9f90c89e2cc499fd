/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the VFS asks of the sentry (struct vfs_hooks), answered from tasks.
 */
#ifndef MOAT_SENTRY_VFS_GLUE_H
#define MOAT_SENTRY_VFS_GLUE_H

/* Once, after vfs_init(). */
void vfs_glue_init(void);

#endif
