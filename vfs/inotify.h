/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inotify(7). Events come in through vfs/fsnotify.h.
 */
#ifndef MOAT_VFS_INOTIFY_H
#define MOAT_VFS_INOTIFY_H

#include "base/lx_inotify.h"
#include "vfs/vfs.h"

/* Defaults of /proc/sys/fs/inotify. */
#define INOTIFY_MAX_QUEUED_EVENTS 16384u
#define INOTIFY_MAX_USER_INSTANCES 128u
#define INOTIFY_MAX_USER_WATCHES 65536u

/* inotify_init1(2): LX_IN_NONBLOCK, LX_IN_CLOEXEC (the caller's to act on), else -EINVAL. -EMFILE
 * at the limit of instances. *out: a reference. */
int inotify_create(struct vfs_ctx *c, unsigned flags, struct file **out) MUST_USE;
/* inotify_add_watch(2): a watch descriptor or -errno. @f NULL gives -EBADF at the place where Linux
 * does, after the check of @mask. @path is a kernel copy, looked up from the cwd. */
int inotify_add_watch_path(struct vfs_ctx *c, struct file *f, const char *path,
			   uint32_t mask) MUST_USE;
/* inotify_rm_watch(2). -EINVAL if @f is no inotify file or knows no @wd. */
int inotify_rm_watch_file(struct file *f, int wd) MUST_USE;

/* May somebody be told of what happens to the file of @d? A later watch is told of by
 * shown_end_all(). */
bool inotify_sees(struct dentry *d);
/* The inode dies: IN_IGNORED for and removal of all its watches. For inode_put (a watch holds no
 * reference to an inode that is being freed; see vfs/inotify.c). */
void inotify_inode_free(struct inode *i);
/* The file system of @s is unmounted: IN_UNMOUNT, IN_IGNORED. */
void inotify_super_gone(struct super *s);
/* A fresh cookie that joins IN_MOVED_FROM and IN_MOVED_TO. Never 0. */
uint32_t inotify_cookie(void);

#endif
