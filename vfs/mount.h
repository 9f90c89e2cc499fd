/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts beyond what vfs/vfs.h says: bind, move, remount, listing, and the system calls' whole
 * logic.
 *
 * Propagation is always private: MS_SHARED, MS_SLAVE and MS_UNBINDABLE are accepted and do nothing.
 */
#ifndef MOAT_VFS_MOUNT_H
#define MOAT_VFS_MOUNT_H

#include "vfs/vfs.h"

struct textbuf;

#define LX_MS_RDONLY 1ul
#define LX_MS_NOSUID 2ul
#define LX_MS_NODEV 4ul
#define LX_MS_NOEXEC 8ul
#define LX_MS_SYNCHRONOUS 16ul
#define LX_MS_REMOUNT 32ul
#define LX_MS_MANDLOCK 64ul
#define LX_MS_DIRSYNC 128ul
#define LX_MS_NOSYMFOLLOW 256ul
#define LX_MS_NOATIME 1024ul
#define LX_MS_NODIRATIME 2048ul
#define LX_MS_BIND 4096ul
#define LX_MS_MOVE 8192ul
#define LX_MS_REC 16384ul
#define LX_MS_SILENT 32768ul
#define LX_MS_UNBINDABLE (1ul << 17)
#define LX_MS_PRIVATE (1ul << 18)
#define LX_MS_SLAVE (1ul << 19)
#define LX_MS_SHARED (1ul << 20)
#define LX_MS_RELATIME (1ul << 21)
#define LX_MS_STRICTATIME (1ul << 24)
#define LX_MS_NOUSER (1ul << 31)
#define LX_MS_MGC_VAL 0xc0ed0000ul
#define LX_MS_MGC_MSK 0xffff0000ul

#define LX_MNT_FORCE 1u
#define LX_MNT_DETACH 2u
#define LX_MNT_EXPIRE 4u
#define LX_UMOUNT_NOFOLLOW 8u

/* Attaches what @from names, with all mounts below it if @recursive, at @where. */
int mount_bind(struct mount_ns *ns, const struct path *from, const struct path *where,
	       bool recursive) MUST_USE;
/* New MOUNT_* flags for the mount whose root @where is; with @with_super its file system's
 * read-only state follows, -EBUSY if files are open for writing. */
int mount_remount(struct mount_ns *ns, const struct path *where, unsigned flags,
		  bool with_super) MUST_USE;
/* Moves the mount whose root @from is to @where. */
int mount_move(struct mount_ns *ns, const struct path *from, const struct path *where) MUST_USE;
/* pivot_root(2) with @root as the caller's root; all tasks whose root or cwd is the old root get
 * the new. */
int mount_pivot_from(struct mount_ns *ns, const struct path *root, const struct path *new_root,
		     const struct path *put_old) MUST_USE;

/* Calls @fn for each mount in order of mounting, with a reference held and no lock, until it
 * returns non-zero, which is returned. */
int mount_foreach(struct mount_ns *ns, int (*fn)(struct mount *m, void *arg), void *arg);
/* Appends the mounts that can be reached from @root in the format of /proc/PID/mounts, mountinfo.
 */
void mount_show_mounts(struct mount_ns *ns, const struct path *root, struct textbuf *out);
void mount_show_mountinfo(struct mount_ns *ns, const struct path *root, struct textbuf *out);

/* mount(2), umount2(2), pivot_root(2), with all checks. @type, @source and @data may be NULL. */
int vfs_mount(struct vfs_ctx *c, const char *source, const char *target, const char *type,
	      uint64_t ms_flags, const char *data) MUST_USE;
int vfs_umount(struct vfs_ctx *c, const char *target, unsigned flags) MUST_USE;
int vfs_pivot_root(struct vfs_ctx *c, const char *new_root, const char *put_old) MUST_USE;
/* chroot(2), chdir(2) on a path already walked to: permission checks, then the change. */
int vfs_chroot(struct vfs_ctx *c, const struct path *p) MUST_USE;
int vfs_chdir(struct vfs_ctx *c, const struct path *p) MUST_USE;

/* What "/" is in @ns, with references. */
void mount_ns_root(struct mount_ns *ns, struct path *out);

/* ---- between the VFS's own files ---- */

/* As mount_put, but does not count as a use for MNT_EXPIRE. */
void mount_put_quiet(struct mount *m);

/* If something is mounted on @p, moves @p to the root of the topmost. References are exchanged.
 * True: moved. */
bool mount_follow_down(struct path *p);
/* The mount on (@m, @d), borrowed; NULL: none. */
struct mount *mount_on_locked(const struct mount *m, const struct dentry *d);
/* From a mount's root one level up (never above @root, a path): true and *p exchanged, with
 * references. */
bool mount_follow_up(struct path *p, const struct path *root);
/* Something is mounted on @d, in any name space. */
bool dentry_is_mountpoint(const struct dentry *d);
/* Changes when any mount comes or goes: for walks that must not escape. */
uint64_t mount_sequence(void);
/* @p is @top or below it, across mounts. */
bool path_is_under(const struct path *p, const struct path *top);
/* What was mounted below a removed directory is detached. */
void mount_detach_below(struct dentry *d);

#endif
