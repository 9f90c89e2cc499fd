/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs: a directory tree of the host, below one directory descriptor that was granted.
 *
 * Every host lookup is one component, below a directory descriptor, and never follows a symlink;
 * nothing above the granted directory can be named. Device nodes, sockets and FIFOs of the host are
 * shown, never opened. Mount with MOUNT_NOSUID | MOUNT_NODEV.
 *
 * The process must run with umask 0 for modes of created files to be exact, and ignore SIGPIPE.
 */
#ifndef MOAT_VFS_HOSTFS_H
#define MOAT_VFS_HOSTFS_H

#include "vfs/vfs.h"

/* @count ids of the host from @host on appear as @guest … */
struct hostfs_idmap {
	uint32_t host, guest, count;
	bool shown_only; /* nothing can be given to them */
};
#define HOSTFS_IDMAPS 4

struct hostfs_opts {
	bool writable;
	/* Nobody changes the tree while we run: names and attributes are cached for good. Only
	 * without writable. Needed for the lower of an overlay. */
	bool immutable;
	/* Show what other file systems are mounted on below the directory; else a mount point is an
	 * empty, read-only directory. Pseudo file systems (proc, sysfs, cgroup, …) are never shown.
	 */
	bool cross_mounts;
	/* Have the host report what changes, where it is asked for that again and again
	 * (vfs/host_watch.h). Only where nothing is mounted or unmounted below meanwhile. */
	bool watch;
	/* Show content only as far as everybody on the host may read it: a file without o+r and a
	 * directory without o+rx give EACCES, even to the guest's root. For trees that nobody
	 * granted by name. */
	bool public_only;
	/* Ids of the host that are not in the maps show as 65534; a chown to a guest id that is not
	 * in them, or only shown, is -EPERM. No entry (uid_map[0].count == 0): ids are shown as
	 * they are. */
	struct hostfs_idmap uid_map[HOSTFS_IDMAPS], gid_map[HOSTFS_IDMAPS];
	/* The directory itself and what lies in it on the same file system (symlinks) was made for
	 * the instance: it shows as root's. */
	bool root_is_made;
	/* The only names that exist in the root directory; ends with NULL. NULL: all. Copied. */
	const char *const *only;
	/* For /proc/mounts; copied; may be NULL. */
	const char *source;
};

/* Is a file system of this type (struct statfs) an interface to the host's processes or kernel?
 * None of it is ever shown, neither granted (hostfs_new: -EPERM) nor mounted below what is. */
bool hostfs_is_pseudo_magic(uint64_t type);
/* An instance on @dir_fd (O_PATH or O_RDONLY, a directory; borrowed: duplicated). *out: one
 * reference. */
int hostfs_new(int dir_fd, const struct hostfs_opts *o, struct super **out) MUST_USE;

/* The most descriptors that all instances keep open for directories, and for contents of files that
 * nobody has open. At start; defaults 2000 and 1000. */
void hostfs_set_limits(unsigned dirs, unsigned files);

/* A directory or file of the host. */
struct hostfs_id {
	uint64_t dev, ino; /* as lx_makedev() makes them of statx's */
};

/* By ino, then dev: the order that hostfs_hide() wants. */
int hostfs_id_compare(const struct hostfs_id *a, const struct hostfs_id *b);

/* A name that no guest finds, sees or makes. */
struct hostfs_hidden {
	struct hostfs_id dir;
	const char *name;
};

/* What no instance shows: @names; @files, whatever their names; and @pins, the directories above
 * (all ->dir of @names among them), cannot be renamed or removed by guests. @files and @pins are
 * sorted. Once, before guests run; the tables are borrowed for good. */
void hostfs_hide(const struct hostfs_hidden *names, unsigned name_count,
		 const struct hostfs_id *files, unsigned file_count, const struct hostfs_id *pins,
		 unsigned pin_count);

/* Is @name in the directory @dir (of any file system) hidden by that? */
bool hostfs_hides(const struct inode *dir, const char *name, size_t len);
/* Which of @names hides @name in @dir; -1: none. */
int hostfs_hidden_index(const struct inode *dir, const char *name);

extern const struct fs_type g_hostfs_type; /* not mountable by guests */

/* Windows on contents that there are now, over all instances: for tests. */
unsigned hostfs_windows(void);

/* ---- for overlays: the content of a regular file of an immutable instance, without a struct file
 * ---- */

bool hostfs_is(const struct super *s);
/* Makes the content readable until _put: opens it, holds the descriptor. */
int hostfs_content_get(struct inode *i) MUST_USE;
void hostfs_content_put(struct inode *i);
ssize_t hostfs_content_read(struct inode *i, struct uio *u, int64_t pos); /* short at the end */
/* See file_ops.view; @i is another file's lower. */
bool hostfs_content_show(struct inode *i, int64_t pos, struct file_view *out) MUST_USE;
ssize_t hostfs_content_read_kernel(struct inode *i, void *buf, size_t size, int64_t pos);
int hostfs_content_map(struct inode *i,
		       struct file_map *m) MUST_USE; /* as file_ops->mmap; read-only */
int64_t hostfs_content_seek(struct inode *i, int64_t off, int whence); /* SEEK_DATA, SEEK_HOLE */
/* Calls @emit for each entry but "." and "..", in the host's order, which stays the same. 0,
 * -errno, or what
 * @emit returned other than 0. */
int hostfs_list(struct inode *dir,
		int (*emit)(void *arg, const char *name, size_t len, uint64_t ino, unsigned dtype),
		void *arg);
/* The name under which @i was last found, and its directory's inode (both borrowed under no lock,
 * so only for immutable trees). False at the root. */
bool hostfs_parent(struct inode *i, struct inode **dir, const char **name);

#endif
