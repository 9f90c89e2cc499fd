/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between names.c, rename.c and open.c: changing a directory.
 */
#ifndef MOAT_VFS_NAMES_H
#define MOAT_VFS_NAMES_H

#include "vfs/vfs.h"

/* Before a directory is locked to change the entry @name: what is cached of it and no longer holds
 * is dropped. */
void revalidate_name(struct dentry *dir, const char *name, size_t len);
/* May @c make a name in @dir, whose lock is held? */
int may_create_in(struct vfs_ctx *c, struct inode *dir) MUST_USE;
/* May @c remove @victim, a positive dentry, from @dir, whose lock is held? @is_dir: by rmdir. */
int may_delete(struct vfs_ctx *c, struct inode *dir, struct dentry *victim, bool is_dir) MUST_USE;
/* The file system has removed @d: takes it out of the cache. The locks of both inodes are held. */
void victim_gone(struct dentry *d);

#endif
