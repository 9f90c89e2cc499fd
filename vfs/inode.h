/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the VFS's own files: what namei, open and attr share about inodes and supers.
 */
#ifndef MOAT_VFS_INODE_H
#define MOAT_VFS_INODE_H

#include "vfs/vfs.h"

/* Flags may change by a remount. */
static inline unsigned super_flags(const struct super *s)
{
	return __atomic_load_n(&s->flags, __ATOMIC_RELAXED);
}

static inline unsigned mount_flags(const struct mount *m)
{
	return __atomic_load_n(&m->flags, __ATOMIC_RELAXED);
}

/* The type bits never change; for the rest it is a snapshot. */
static inline uint32_t inode_mode(const struct inode *i)
{
	return __atomic_load_n(&i->mode, __ATOMIC_RELAXED);
}

static inline struct inode *dentry_inode_of(const struct path *p)
{
	return __atomic_load_n(&p->dentry->inode, __ATOMIC_ACQUIRE);
}

#define LX_STATX_ATTR_IMMUTABLE 0x10u
#define LX_STATX_ATTR_APPEND 0x20u
#define LX_STATX_ATTR_MOUNT_ROOT 0x2000u

/* A consistent snapshot of what permission checks look at. */
struct inode_attrs {
	uint32_t mode, uid, gid, iflags, nlink;
};
void inode_attrs_now(struct inode *i, struct inode_attrs *out);

/* An inode of @s is gone. */
void super_put_inode(struct super *s);

bool cred_group_or_fsetid(const struct cred *cr, uint32_t gid);
/* The mode of a new file in @dir: umask, and what a setgid directory gives and takes. */
uint32_t mode_for_new(struct vfs_ctx *c, struct inode *dir, uint32_t mode, uint32_t umask);
/* Hands @attr to the file system; no checks. inode->lock held. */
int inode_do_setattr(struct vfs_ctx *c, struct inode *i, const struct iattr *attr) MUST_USE;
/* truncate for open's O_TRUNC: permission was checked, write access is counted. */
int inode_truncate_open(struct vfs_ctx *c, struct inode *i) MUST_USE;

#endif
