/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pseudo terminals: a terminal (the slave, struct tty) whose hardware is an open file (the master).
 */
#ifndef MOAT_VFS_PTY_H
#define MOAT_VFS_PTY_H

#include "vfs/tty.h"

/* What the master holds of output that was not read. */
#define PTY_OUTPUT_MAX 20480u
/* The most that one read of the master gives. */
#define PTY_READ_MAX 4095u

struct devpts;

/* Opens a new pty's master as @f, which is a ptmx node's file: sets f->ops and f->priv. @fs: the
 * instance that the slave's node stands in. -ENOSPC, -ENOMEM. */
int pty_open_master(struct vfs_ctx *c, struct super *fs, struct file *f) MUST_USE;

/* ---- vfs/devpts.c ---- */

bool devpts_is(const struct super *s);
/* The instance that belongs to an open ptmx node: its own file system, or the "pts" beside it. A
 * path at its root, with references. -ENOENT, -ENODEV. */
int devpts_of_ptmx(struct vfs_ctx *c, struct file *f, struct path *root) MUST_USE;
/* A number and a node for @t; the node holds a reference to it. *node: a reference. -ENOSPC. */
int devpts_add(struct vfs_ctx *c, struct super *fs, struct tty *t, uint32_t *index,
	       struct inode **node) MUST_USE;
/* The node goes away; the number stays taken until devpts_release. */
void devpts_remove(struct super *fs, uint32_t index);
void devpts_release(struct super *fs, uint32_t index);
/* The terminal of a slave's node; borrowed; NULL if the node is of another file system. */
struct tty *devpts_tty(const struct inode *i);
extern const struct fs_type g_devpts_type;

#endif
