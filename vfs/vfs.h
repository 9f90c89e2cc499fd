/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual file system: name space, mounts, dentries, inodes, open files.
 *
 * Theory of operation: as in Linux. A *super* is one instance of a file system; an *inode* a file;
 * a *dentry* a name in the cache (with inode NULL: known not to exist); a *mount* puts the root
 * dentry of a super at a dentry of another mount; a *path* is a mount and a dentry; a *file* is an
 * open file description. Path walk is our own, a component at a time (vfs/namei.c); file systems
 * implement struct inode_ops and struct file_ops. The VFS knows nothing of tasks and platforms: who
 * asks comes in a struct vfs_ctx, user memory through struct uio and struct umem, what it needs of
 * tasks through struct vfs_hooks.
 *
 * Lock order (outer first):
 *   - super->rename_lock (fmutex; only renames of directories between parents)
 *   - inode->lock (fmutex) of directories, parent before child; of two unrelated ones, the lower
 *     address first
 *   - inode->lock of a file
 *   - file->pos_lock is taken before inode->lock
 *   - short locks: g_dcache_lock (RANK_DCACHE), inode->meta (RANK_INODE), wait queues
 *
 * An overlay's inode lock is outside that of its upper and lower inodes.
 *
 * Invariants: a dentry with a reference has a referenced parent; an inode lives as long as a dentry
 * or a file refers to it; fields of struct inode marked [meta] are read and written under
 * inode->meta, and changed only with inode->lock held as well.
 */
#ifndef MOAT_VFS_VFS_H
#define MOAT_VFS_VFS_H

#include <errno.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/lx.h"
#include "base/meter.h"
#include "base/queue.h"
#include "base/types.h"
#include "base/uio.h"
#include "base/waitq.h"
#include "vfs/cred.h"

struct super;
struct inode;
struct dentry;
struct mount;
struct mount_ns;
struct file;
struct poll_table;
struct kstat;
struct iattr;
struct dir_ctx;
struct file_map;
struct file_view;
struct pipe;
struct file_locks;    /* vfs/flock.c: POSIX, OFD and flock locks of an inode */
struct outside_locks; /* vfs/flock.h */
struct inode_watch;   /* vfs/inotify.c */

struct walk; /* vfs/namei.h */

struct path {
	struct mount *mnt;
	struct dentry *dentry;
};

/* User memory, for handlers below the sentry (ioctl). */
struct umem {
	const struct uio_ops *ops; /* NULL: kernel pointers */
	void *ctx;
};
/* 0 or -EFAULT, all or nothing as far as the caller is told. */
int umem_copy_in(const struct umem *m, void *dst, gaddr_t src, size_t size) MUST_USE;
int umem_copy_out(const struct umem *m, gaddr_t dst, const void *src, size_t size) MUST_USE;

/* root, cwd and umask of one or more tasks (CLONE_FS). */
struct fs_struct {
	struct ref ref;
	struct mutex lock;          /* RANK_FDTABLE */
	struct path root, cwd;      /* [lock]; own references */
	uint32_t umask;             /* [lock] */
	LIST_ENTRY(fs_struct) link; /* all of them, for pivot_root. [vfs/fs_struct.c] */
};
struct fs_struct *fs_new(const struct path *root, const struct path *cwd, uint32_t umask) MUST_USE;
struct fs_struct *fs_dup(struct fs_struct *fs) MUST_USE;
struct fs_struct *fs_get(struct fs_struct *fs);
void fs_put(struct fs_struct *fs);
void fs_get_root(struct fs_struct *fs, struct path *out); /* with references */
void fs_get_cwd(struct fs_struct *fs, struct path *out);
void fs_set_root(struct fs_struct *fs, const struct path *p); /* takes its own references */
void fs_set_cwd(struct fs_struct *fs, const struct path *p);
uint32_t fs_get_umask(struct fs_struct *fs);
uint32_t fs_set_umask(struct fs_struct *fs, uint32_t umask); /* the old one */
/* Every root and cwd that is @from becomes @to (pivot_root). */
void fs_replace_all(const struct path *from, const struct path *to);

/* Who asks. Lives on the caller's stack or in its task; borrowed by every call. */
struct vfs_ctx {
	struct cred *cred;     /* borrowed */
	struct fs_struct *fs;  /* borrowed */
	struct mount_ns *ns;   /* borrowed */
	uint64_t fsize_limit;  /* RLIMIT_FSIZE; UINT64_MAX: none */
	int32_t tgid, tid;     /* owner of POSIX locks; 0 in the kernel */
	struct fdtable *files; /* POSIX lock owner identity; may be NULL */
	/* RLIMIT_NOFILE, for descriptors in flight (ETOOMANYREFS); 0: none */
	uint64_t nofile_limit;
};

/* ---- file systems ---- */

struct fs_type {
	const char *name;
	/* Makes an instance from mount(2)'s data. -errno. The root dentry has one reference. */
	int (*mount)(const struct fs_type *type, struct vfs_ctx *c, const char *source,
		     const char *data, unsigned flags, struct super **out);
	bool user_mountable; /* a guest may mount it */
	bool nodev;          /* for /proc/filesystems */
};
/* At start only. */
void fs_type_register(const struct fs_type *t);
const struct fs_type *fs_type_find(const char *name);
const struct fs_type *fs_type_at(unsigned i); /* NULL at the end */

#define SUPER_RDONLY 1u /* the file system itself cannot be written */
/* names may change behind our back: ask ops->revalidate on each walk */
#define SUPER_REVALIDATE 2u
#define SUPER_NOCACHE_NEG 4u /* do not cache negative dentries */
#define SUPER_NOATIME 8u
#define SUPER_DEVICES 64u /* /dev of the sandbox */
/* a name that is not there is an error even to who would create it (procfs) */
#define SUPER_HARD_ENOENT 256u
/* SUPER_RDONLY is a remount's doing, so a remount may undo it */
#define SUPER_REMOUNTED_RO 32u
/* do not keep unused dentries: objects behind them go away (procfs) */
#define SUPER_UNCACHED 16u

struct kstatfs {
	uint64_t type, bsize, blocks, bfree, bavail, files, ffree, namelen, frsize, flags;
};

struct super_ops {
	/* The last mount or other holder is gone (super->ref fell to 0), so nobody can reach a file
	 * any more: let go of the inodes that names in memory hold. The root dentry is put by the
	 * caller afterwards. May be NULL. */
	void (*shutdown)(struct super *s);
	/* ... and then the last inode (super->inodes fell to 0): free ->priv. */
	void (*free)(struct super *s);
	int (*statfs)(struct super *s, struct kstatfs *out);
	/* The inode's last reference is gone: free ->priv and give back what it held. May be NULL.
	 */
	void (*inode_free)(struct inode *i);
	/* With SUPER_REVALIDATE: false if the dentry is stale; called under no lock. */
	bool (*revalidate)(struct dentry *d);
	/* The same for what is known without asking: false if that is not known. g_dcache_lock is
	 * held: sleeps not, makes no host call. May be NULL. */
	bool (*holds)(const struct dentry *d);
	int (*sync)(struct super *s);
	/* For /proc/mounts: appends ",opt=…" */
	size_t (*show_options)(struct super *s, char *buf, size_t size);
};

/* Two counts, since the names of an in-memory file system hold inodes and every inode needs its
 * super: @ref counts who can reach it from outside (mounts, so open files too; the maker), @inodes
 * the inodes and one for all of @ref. */
struct super {
	struct ref ref;
	struct ref inodes;
	const struct fs_type *type;
	const struct super_ops *ops;
	uint64_t dev; /* st_dev, in lx_makedev form */
	unsigned flags;
	uint64_t magic;
	uint32_t blocksize;
	struct dentry *root; /* a reference */
	struct fmutex rename_lock;
	void *priv;
	char source[256];
	_Atomic uint64_t next_ino;
	/* files open for writing: a remount to read-only is refused */
	_Atomic int32_t writers;
};
/* An instance with a fresh anonymous device number, one reference, and no root yet: the maker sets
 * ->root by dentry_new_root. super_put of one without a root is right too. */
struct super *super_new(const struct fs_type *type, const struct super_ops *ops) MUST_USE;
struct super *super_get(struct super *s);
void super_put(struct super *s);

struct inode_ops {
	/* Directory operations; @dir->lock is held by the caller for all of them. Names are not
	 * NUL-terminated in @name: use @len. -ENOENT from lookup makes a negative dentry. The out
	 * inode comes with a reference. */
	int (*lookup)(struct inode *dir, const char *name, size_t len, struct inode **out);
	int (*create)(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		      uint32_t mode, struct inode **out);
	int (*mkdir)(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		     uint32_t mode, struct inode **out);
	int (*mknod)(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		     uint32_t mode, uint64_t rdev, struct inode **out);
	int (*symlink)(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		       const char *target, struct inode **out);
	int (*link)(struct inode *dir, const char *name, size_t len, struct inode *target);
	int (*unlink)(struct inode *dir, const char *name, size_t len, struct inode *victim);
	int (*rmdir)(struct inode *dir, const char *name, size_t len, struct inode *victim);
	/* Both directories locked (and the victims of the rename). @flags: LX_RENAME_*. @new_victim
	 * may be NULL. */
	int (*rename)(struct inode *old_dir, const char *old_name, size_t old_len,
		      struct inode *inode, struct inode *new_dir, const char *new_name,
		      size_t new_len, struct inode *new_victim, unsigned flags);
	/* An unnamed file of this directory's file system (O_TMPFILE). */
	int (*tmpfile)(struct vfs_ctx *c, struct inode *dir, uint32_t mode, struct inode **out);

	/* Symlinks: the target into buf (not NUL-terminated), its length. No lock held. */
	ssize_t (*readlink)(struct inode *i, char *buf, size_t size);
	/* A link that leads to an object, not to a text (/proc/PID/fd/N, /proc/PID/root): fills
	 * *out with references. NULL: an ordinary symlink. Walks with RESOLVE_NO_MAGICLINKS refuse
	 * it. */
	int (*get_link)(struct vfs_ctx *c, struct inode *i, struct path *out);

	/* All inodes. NULL: the generic one. */
	int (*permission)(struct vfs_ctx *c, struct inode *i, unsigned mask); /* MAY_* */
	int (*getattr)(struct inode *i,
		       struct kstat *out); /* fills all of *out; NULL: inode_attr() */
	/* inode->lock held; checks are done; applies what attr->valid says (size too). */
	int (*setattr)(struct vfs_ctx *c, struct inode *i, const struct iattr *attr);
	/* Extended attributes, whole names ("user.x"). size 0 asks for the size. NULL ops:
	 * -EOPNOTSUPP. inode->lock held for set and remove. LX_XATTR_CREATE|REPLACE in flags. value
	 * NULL: remove. */
	ssize_t (*getxattr)(struct inode *i, const char *name, void *buf, size_t size);
	int (*setxattr)(struct inode *i, const char *name, const void *value, size_t size,
			int flags);
	ssize_t (*listxattr)(struct inode *i, char *buf, size_t size);
	/* Called by open after the permission checks, before the file is visible: may set f->ops,
	 * f->priv, f->pos; -errno refuses. NULL: f->ops = inode->fops. */
	int (*open)(struct vfs_ctx *c, struct inode *i, struct file *f);
	/* Where file locks are to stand besides. NULL: nowhere. */
	const struct outside_locks *outside;
};

#define MAY_EXEC 1u
#define MAY_WRITE 2u
#define MAY_READ 4u

#define LX_RENAME_NOREPLACE 1u
#define LX_RENAME_EXCHANGE 2u
#define LX_RENAME_WHITEOUT 4u
#define LX_XATTR_CREATE 1
#define LX_XATTR_REPLACE 2

#define INODE_IMMUTABLE 1u
#define INODE_APPEND 2u
#define INODE_DEAD 4u     /* a removed directory: nothing may be created in it */
#define INODE_LINKABLE 8u /* O_TMPFILE without O_EXCL: may be linked although nlink is 0 */
#define INODE_SETUP 16u   /* made before the first guest ran */

struct inode {
	struct ref ref;
	struct super *super; /* counted in super->inodes */
	uint64_t ino;
	const struct inode_ops *ops;
	const struct file_ops *fops;
	uint32_t mode;     /* [meta] type bits never change */
	uint32_t uid, gid; /* [meta] */
	uint32_t nlink;    /* [meta] */
	uint32_t iflags;   /* [meta] INODE_* */
	uint64_t rdev;
	uint64_t size;                      /* [meta] */
	uint64_t blocks;                    /* [meta] 512-byte units */
	int64_t atime, mtime, ctime, btime; /* [meta] ns since 1970 */
	struct fmutex lock;                 /* i_rwsem's role */
	struct mutex meta;                  /* RANK_INODE */
	void *priv;                         /* of the file system */
	struct pipe *fifo;                  /* FIFOs: while open. [lock] */
	void *sock;                         /* bound AF_UNIX socket (netstack). [meta] */
	struct file_locks *locks;           /* [meta] made on first use; freed with the inode */
	struct inode_watch *watches;        /* [meta] inotify */
	_Atomic int32_t writers; /* > 0: open for writing; < 0: being executed (ETXTBSY) */
	_Atomic unsigned shown;  /* to guests, who read it unasked. vfs/shown.c */
};
/* ino from next_ino, times now, nlink 1 */
struct inode *inode_new(struct super *s, uint32_t mode) MUST_USE;
/* One whose file system says its number and times itself: these are 0. With @extra bytes of zeros,
 * at ->priv, which go with it. */
struct inode *inode_new_with(struct super *s, uint32_t mode, size_t extra) MUST_USE;
/* Owner, group and mode of a new file in @dir: fsuid, fsgid or the group of a setgid directory.
 * @dir NULL: none. Before the inode is visible. */
void inode_init_owner(struct vfs_ctx *c, struct inode *i, struct inode *dir, uint32_t mode);
/* True if a write by @c must clear setuid or setgid bits; inode_kill_priv does that, inode->lock
 * held. */
bool inode_needs_kill_priv(struct vfs_ctx *c, struct inode *i);
int inode_kill_priv(struct vfs_ctx *c, struct inode *i) MUST_USE;
/* @c owns the inode or has CAP_FOWNER. */
bool inode_owner_or_capable(struct vfs_ctx *c, struct inode *i);
struct inode *inode_get(struct inode *i);
void inode_put(struct inode *i);
void inode_touch(struct inode *i, bool a, bool m, bool c); /* sets times to now; takes meta */
/* ETXTBSY bookkeeping. */
int inode_get_write(struct inode *i) MUST_USE;
void inode_put_write(struct inode *i);
int inode_deny_write(struct inode *i) MUST_USE;
void inode_allow_write(struct inode *i);

struct dentry {
	struct ref ref;
	struct super *super;   /* borrowed: the tree holds it */
	struct dentry *parent; /* itself at a root. [g_dcache_lock]; a reference */
	/* NULL: negative. [g_dcache_lock]; a reference; once set only cleared by removal */
	struct inode *inode;
	char *name; /* NUL-terminated. [g_dcache_lock]: rename changes it */
	uint32_t name_len;
	uint64_t hash;
	bool hashed;                /* reachable by lookup. [g_dcache_lock] */
	_Atomic uint32_t mounts;    /* mounts on this dentry, any name space */
	TAILQ_ENTRY(dentry) lru;    /* when ref is 0 (cached only) */
	LIST_ENTRY(dentry) sibling; /* [g_dcache_lock] */
	LIST_HEAD(, dentry) children;
	void *priv; /* of the file system */
};
/* takes the inode reference, also if it fails */
struct dentry *dentry_new_root(struct super *s, struct inode *root) MUST_USE;
/* An unhashed dentry for an anonymous object (pipes, sockets, memfd): shown as @name in
 * /proc/PID/fd. */
/* takes the inode reference, also if it fails */
struct dentry *dentry_new_anon(struct inode *i, const char *name) MUST_USE;
struct dentry *dentry_get(struct dentry *d);
void dentry_put(struct dentry *d);
/* Looks @name up below @dir (a directory, positive); the cache first, then the file system, which
 * takes dir->lock. *out has a reference and may be negative. */
int dentry_lookup(struct dentry *dir, const char *name, size_t len, struct dentry **out) MUST_USE;
int dentry_lookup_locked(struct dentry *dir, const char *name, size_t len,
			 struct dentry **out) MUST_USE;
/* Removes the name from the cache (the file went away behind it). */
void dentry_drop(struct dentry *d);
/* Frees unused dentries until at most @keep remain. */
void dcache_shrink(size_t keep);

#define MOUNT_RDONLY 1u
#define MOUNT_NOSUID 2u
#define MOUNT_NODEV 4u
#define MOUNT_NOEXEC 8u
#define MOUNT_NOATIME 16u

struct mount {
	struct ref ref;
	struct super *super;       /* a reference */
	struct dentry *root;       /* a reference */
	struct mount *parent;      /* NULL: the name space's root. [g_dcache_lock] */
	struct dentry *mountpoint; /* in parent; a reference. [g_dcache_lock] */
	unsigned flags;            /* MOUNT_* */
	int id;
	struct mount_ns *ns;      /* NULL once unmounted */
	TAILQ_ENTRY(mount) link;  /* in ns->mounts, in order of mounting */
	char source[256];         /* for /proc/mounts */
	_Atomic bool expire_mark; /* MNT_EXPIRE was asked for and nobody came by since */
};

struct mount_ns {
	struct ref ref;
	struct mount *root; /* [g_dcache_lock] */
	TAILQ_HEAD(, mount) mounts;
};

struct mount_ns *mount_ns_new(struct super *rootfs, unsigned flags) MUST_USE;
struct mount_ns *mount_ns_get(struct mount_ns *ns);
void mount_ns_put(struct mount_ns *ns);
/* Attaches @s (root @root, NULL: its own root) at @where. *out may be NULL. */
int mount_attach(struct mount_ns *ns, const struct path *where, struct super *s,
		 struct dentry *root, unsigned flags, const char *source,
		 struct mount **out) MUST_USE;
int mount_detach(struct mount_ns *ns, const struct path *where, unsigned umount_flags) MUST_USE;
int mount_pivot(struct mount_ns *ns, const struct path *new_root,
		const struct path *put_old) MUST_USE;
struct mount *mount_get(struct mount *m);
void mount_put(struct mount *m);

void path_get(const struct path *p);
void path_put(const struct path *p);
bool path_equal(const struct path *a, const struct path *b);
/* The path's text as seen from @root, "(unreachable)" prefixed if it is not below it, " (deleted)"
 * if unlinked. Returns its length or -ENAMETOOLONG. */
ssize_t path_text(const struct path *p, const struct path *root, char *buf, size_t size);
/* As path_text without the marks; -ENOENT if @p is unlinked. *reachable: it is below @root. For
 * getcwd. */
ssize_t path_text_raw(const struct path *p, const struct path *root, char *buf, size_t size,
		      bool *reachable);
bool path_unlinked(const struct path *p);

/* ---- path walk (vfs/namei.c); path_resolution(7), openat2(2) ---- */

#define WALK_FOLLOW 1u    /* follow a symlink in the last component */
#define WALK_DIRECTORY 2u /* the result must be a directory */
#define WALK_EMPTY 4u     /* "" means the start itself (AT_EMPTY_PATH) */
#define WALK_NO_XDEV 8u
#define WALK_NO_MAGICLINKS 16u
#define WALK_NO_SYMLINKS 32u
#define WALK_BENEATH 64u
#define WALK_IN_ROOT 128u
#define WALK_CACHED 256u

/* @start NULL: the cwd. An absolute path starts at the root. *out has references. */
int path_lookup(struct vfs_ctx *c, const struct path *start, const char *name, unsigned flags,
		struct path *out) MUST_USE;

enum last_type { LAST_NORM, LAST_DOT, LAST_DOTDOT, LAST_ROOT };
struct walk_last {
	const char *name; /* into the caller's string or @buf */
	size_t len;
	enum last_type type;
	bool trailing_slash;
	char buf[LX_NAME_MAX + 1];
};
/* Walks to the parent; the last component is in *last, unwalked. */
int path_lookup_parent(struct vfs_ctx *c, const struct path *start, const char *name,
		       unsigned flags, struct path *parent, struct walk_last *last) MUST_USE;

struct open_how {
	uint32_t flags; /* LX_O_* */
	uint32_t mode;  /* for creation; umask not applied yet */
	unsigned walk;  /* WALK_* from RESOLVE_* */
};
/* open(2) in full. *out: a reference. */
int vfs_open(struct vfs_ctx *c, const struct path *start, const char *name,
	     const struct open_how *how, struct file **out) MUST_USE;
/* Opens what @p names, with permission checks (open by /proc/self/fd, O_PATH reopen, execve). */
int vfs_open_path(struct vfs_ctx *c, const struct path *p, uint32_t flags,
		  struct file **out) MUST_USE;
/* Opens a program: a regular file with execute permission (read permission is not needed), no
 * noexec mount; else -EACCES. FMODE_READ|FMODE_EXEC. inode_deny_write is the caller's. */
int vfs_open_exec(struct vfs_ctx *c, const struct path *p, struct file **out) MUST_USE;
int vfs_mkdir(struct vfs_ctx *c, const struct path *start, const char *name,
	      uint32_t mode) MUST_USE;
/* Of mknod(2): no type is a regular file's. -EPERM: a directory's; -EINVAL: none that it makes. */
int mknod_type(uint32_t *mode) MUST_USE;
int vfs_mknod(struct vfs_ctx *c, const struct path *start, const char *name, uint32_t mode,
	      uint64_t rdev) MUST_USE;
/* As vfs_mknod for a socket; @sock goes into inode->sock under the lock before the name is seen. */
int vfs_mksock(struct vfs_ctx *c, const char *name, uint32_t mode, void *sock,
	       struct path *out) MUST_USE;
int vfs_symlink(struct vfs_ctx *c, const char *target, const struct path *start,
		const char *name) MUST_USE;
int vfs_link(struct vfs_ctx *c, const struct path *old_start, const char *old_name,
	     const struct path *new_start, const char *new_name, unsigned at_flags) MUST_USE;
int vfs_unlink(struct vfs_ctx *c, const struct path *start, const char *name) MUST_USE;
int vfs_rmdir(struct vfs_ctx *c, const struct path *start, const char *name) MUST_USE;
int vfs_rename(struct vfs_ctx *c, const struct path *old_start, const char *old_name,
	       const struct path *new_start, const char *new_name, unsigned flags) MUST_USE;
ssize_t vfs_readlink(struct vfs_ctx *c, const struct path *p, char *buf, size_t size) MUST_USE;

/* Attributes. */
struct kstat {
	uint64_t dev, ino, rdev, size, blocks;
	uint32_t mode, nlink, uid, gid, blksize;
	int64_t atime, mtime, ctime, btime;           /* ns */
	uint64_t attributes, attributes_mask, mnt_id; /* statx */
};
int vfs_getattr(const struct path *p, struct kstat *out) MUST_USE;
int inode_getattr(struct inode *i, struct kstat *out) MUST_USE;
/* What the inode itself says, for getattr implementations that have brought it up to date. */
void inode_attr(struct inode *i, struct kstat *out);
/* Its size, in bytes. Takes inode->meta. */
uint64_t inode_size(struct inode *i);
void kstat_to_lx(const struct kstat *k, struct lx_stat *out);

#define ATTR_MODE 1u
#define ATTR_UID 2u
#define ATTR_GID 4u
#define ATTR_SIZE 8u
#define ATTR_ATIME 16u
#define ATTR_MTIME 32u
#define ATTR_CTIME 64u
#define ATTR_TOUCH 128u     /* utimes(NULL): needs only write permission */
#define ATTR_FILE 256u      /* by an open file: no size permission check */
#define ATTR_KILL_PRIV 512u /* clear setuid/setgid as a write does */
struct iattr {
	unsigned valid;
	uint32_t mode, uid, gid;
	uint64_t size;
	int64_t atime, mtime, ctime;
};
/* chmod, chown, truncate, utimes with all permission checks and side effects. Takes inode->lock. */
int vfs_setattr(struct vfs_ctx *c, const struct path *p, const struct iattr *attr) MUST_USE;
/* chown(2): (uint32_t)-1 leaves one alone. Clears setuid, setgid as Linux does, even for -1, -1. */
int vfs_chown(struct vfs_ctx *c, const struct path *p, uint32_t uid, uint32_t gid) MUST_USE;
/* access(2) with c->cred as the identity: inode_permission, read-only and noexec mounts. */
int vfs_access(struct vfs_ctx *c, const struct path *p, unsigned mask) MUST_USE;
int vfs_statfs(const struct path *p, struct kstatfs *out) MUST_USE;
int inode_permission(struct vfs_ctx *c, struct inode *i, unsigned mask) MUST_USE;
int generic_permission(struct vfs_ctx *c, struct inode *i, unsigned mask) MUST_USE;
/* Sets the fields that @attr says, under meta; for setattr implementations. */
void inode_apply_attr(struct inode *i, const struct iattr *attr);
int mount_want_write(const struct mount *m) MUST_USE; /* 0 or -EROFS */
/* The same for a change of @p, which is VFS_USE_WRITE or VFS_USE_NAMES. */
int path_want_write(const struct path *p, unsigned how) MUST_USE;

ssize_t vfs_getxattr(struct vfs_ctx *c, const struct path *p, const char *name, void *buf,
		     size_t size);
int vfs_setxattr(struct vfs_ctx *c, const struct path *p, const char *name, const void *value,
		 size_t size, int flags) MUST_USE;
ssize_t vfs_listxattr(struct vfs_ctx *c, const struct path *p, char *buf, size_t size);
int vfs_removexattr(struct vfs_ctx *c, const struct path *p, const char *name) MUST_USE;

/* ---- open files ---- */

/* readdir's consumer: returns false when full (the entry is not taken). @next_off: the position
 * after it. */
struct dir_ctx {
	bool (*emit)(struct dir_ctx *ctx, const char *name, size_t len, uint64_t ino,
		     unsigned dtype, int64_t next_off);
};

/* What a file gives to mmap. The host descriptor is borrowed and lives as long as the struct file
 * that gave it: a mapping holds a reference to its file. */
struct file_map {
	uint64_t offset, size; /* in: the wanted range (size may pass the end of the file) */
	uint32_t prot;         /* in */
	bool shared;           /* in */
	bool anon;             /* out: map anonymous memory instead (/dev/zero) */
	/* out: the pages are memory, which METER_memory has as long as the file exists: a private
	 * mapping that is over must really be gone, too */
	bool counted;
	int host_fd;          /* out */
	uint64_t host_offset; /* out */
	/* out: platform file_key; unique per host_fd over the sandbox's life; 0: none */
	uint64_t key;
	/* out: what mprotect may ever give (shared: no WRITE if opened read-only) */
	uint32_t max_prot;
};

struct file_ops {
	/* *pos is the offset to use and advance (streams ignore it); @pos is &f->pos itself if and
	 * only if the description's own offset is meant. Bytes or -errno. Blocking and O_NONBLOCK
	 * are the file's business (f->flags). No lock held but, for regular files and directories
	 * through the description's offset, f->pos_lock. vfs_write sets *pos to the size for
	 * O_APPEND, but only a regular file's own write can make that atomic: with LX_O_APPEND in
	 * f->flags it takes *pos anew from the size under its lock. */
	ssize_t (*read)(struct file *f, struct uio *u, int64_t *pos);
	ssize_t (*write)(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *pos);
	/* The new offset, which vfs_lseek stores into f->pos, or -errno. f->pos_lock held. NULL:
	 * file_lseek_generic by the inode's size. */
	int64_t (*lseek)(struct file *f, int64_t off, int whence);
	/* From f->pos; advances f->pos. f->pos_lock and inode->lock held. */
	int (*iterate)(struct file *f, struct dir_ctx *ctx);
	uint32_t (*poll)(struct file *f, struct poll_table *pt); /* NULL: always IN|OUT */
	long (*ioctl)(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg,
		      const struct umem *um);
	int (*mmap)(struct file *f, struct file_map *m); /* NULL: -ENODEV */
	/* What may be mapped of a regular file to be read at @pos, all of *out but the mark; with
	 * inode_changes() before that changes. False: nothing. NULL: never. */
	bool (*view)(struct file *f, int64_t pos, struct file_view *out);
	int (*fsync)(struct file *f, bool data_only);
	int (*fallocate)(struct vfs_ctx *c, struct file *f, int mode, int64_t off, int64_t size);
	/* A descriptor was closed (each close, not only the last): flush. */
	void (*flush)(struct vfs_ctx *c, struct file *f);
	void (*release)(struct file *f); /* the last reference went */
	/* F_SETFL: may refuse; NULL: accepted */
	int (*set_flags)(struct file *f, uint32_t flags);
	/* Text for /proc/PID/fdinfo beyond pos, flags, mnt_id. */
	size_t (*show_fdinfo)(struct file *f, char *buf, size_t size);
	/* no offset: pread gives -ESPIPE, and so does lseek unless there is one */
	bool stream;
	/* a regular file whose write is called with nothing to write, too */
	bool sees_empty;
	/* others of the host move the offset, too: lseek knows it, and f->pos does not */
	bool offset_shared;
	/* A host descriptor that read and write go straight to (pass-through stdio), -1: none. */
	int (*host_fd)(struct file *f);
};

#define FMODE_READ 1u
#define FMODE_WRITE 2u
#define FMODE_PATH 4u /* O_PATH */
#define FMODE_EXEC 8u
#define FMODE_NOWRITECOUNT 16u
#define FMODE_CREATED 32u /* this open made the file (F_CREATED_QUERY) */

struct fown {
	int type; /* F_OWNER_*: 0 tid, 1 pid, 2 pgrp; -1 none */
	int32_t pid;
	int sig; /* F_SETSIG */
	uint32_t uid, euid;
};

struct file {
	struct ref ref;
	/* references; always set (anonymous files have a pseudo mount) */
	struct path path;
	struct inode *inode; /* borrowed from path.dentry */
	const struct file_ops *ops;
	unsigned fmode;         /* FMODE_* */
	_Atomic uint32_t flags; /* LX_O_* that F_GETFL shows */
	struct fmutex pos_lock;
	int64_t pos;       /* [pos_lock] */
	struct cred *cred; /* of the opener; a reference */
	void *priv;
	struct mutex lock;  /* RANK_FILE: fown, epoll list */
	struct fown own;    /* [lock] */
	void *epoll_items;  /* [lock] vfs/epoll.c */
	_Atomic int fasync; /* O_ASYNC armed */
	void *fasync_state; /* [lock] vfs/fasync.c */
	/* [lock] the descriptor that armed O_ASYNC, for si_fd: set by its caller */
	int fasync_fd;
};
/* A file on @p with @ops; takes its own references; write counting per fmode. NULL: no memory; also
 * if inode_get_write refuses, so an opener for writing calls that itself before (and
 * inode_put_write after). */
struct file *file_new(struct vfs_ctx *c, const struct path *p, const struct file_ops *ops,
		      unsigned fmode, uint32_t flags) MUST_USE;
/* A file on an anonymous inode named e.g. "anon_inode:[eventfd]" or "pipe:[N]" ("%s:[ino]" made by
 * the caller).
 * @inode NULL: the shared anon inode. Takes the inode reference. */
struct file *file_new_anon(struct vfs_ctx *c, struct inode *inode, const char *name,
			   const struct file_ops *ops, unsigned fmode, uint32_t flags,
			   void *priv) MUST_USE;
/* Where such an inode is, in the mount that is in no name space, with references. Takes the inode
 * reference. -ENOMEM. */
int anon_path(struct inode *i, const char *name, struct path *out) MUST_USE;
/* After file_new or file_new_anon gave NULL: -ENFILE if there are as many as there may be, else
 * -ENOMEM. */
static inline int file_new_error(void)
{
	return meter_current(METER_open_files) >= meter_limit(METER_open_files) ? -ENFILE : -ENOMEM;
}
struct super *anon_super(void); /* the pseudo file system of anonymous inodes; borrowed */
struct file *file_get(struct file *f);
void file_put(struct file *f); /* may sleep: only from fibers, no short lock held */

/* read, write through the description: mode checks, offsets, O_APPEND, limits (RLIMIT_FSIZE:
 * -EFBIG), times, inotify. -EPIPE is returned plain; the syscall layer sends SIGPIPE. off NULL: use
 * and advance f->pos. */
ssize_t vfs_read(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *off);
ssize_t vfs_write(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *off);
/* Kernel-internal read at an offset; short at the end. */
ssize_t vfs_read_kernel(struct file *f, void *buf, size_t size, int64_t off);
int64_t vfs_lseek(struct file *f, int64_t off, int whence);
/* The offset of @f, or -errno: f->pos, if nobody outside moves it too. */
int64_t vfs_pos(struct file *f);
/* Sets it, where a call that read and wrote by offsets of its own has come to. */
void vfs_pos_set(struct file *f, int64_t pos);
/* An lseek for eventfd and its like: there is nowhere to go, and no error. */
int64_t file_lseek_nowhere(struct file *f, int64_t off, int whence);
/* An lseek for what has no end that is known: a directory, a text that is made when it is read. */
int64_t file_lseek_endless(struct file *f, int64_t off, int whence);
/* For ops->lseek: @whence LX_SEEK_* in a file of @size without holes. */
int64_t file_lseek_generic(const struct file *f, int64_t off, int whence, uint64_t size);
/* The file was read: atime, by the rules of relatime and noatime. */
void file_accessed(struct file *f);
/* Would file_accessed() change nothing until *until (monotonic; UINT64_MAX: ever), unless the
 * inode's times do, or the flags of where it is? */
bool file_access_known(struct file *f, uint64_t *until) MUST_USE;
/* takes the locks, -ENOENT for a dead directory */
int vfs_iterate(struct file *f, struct dir_ctx *ctx);
int vfs_fallocate(struct vfs_ctx *c, struct file *f, int mode, int64_t off, int64_t size) MUST_USE;
int vfs_fsync(struct file *f, bool data_only) MUST_USE;
int vfs_ftruncate(struct vfs_ctx *c, struct file *f, int64_t size) MUST_USE;
ssize_t vfs_sendfile(struct vfs_ctx *c, struct file *out, int64_t *out_off, struct file *in,
		     int64_t *in_off, size_t count);

/* ---- polling ---- */

/* A poll handler calls poll_wait for each wait queue whose wake-up may change its answer, then
 * returns its current events. */
struct poll_table {
	void (*queue)(struct poll_table *pt, struct waitq *q); /* NULL: only ask */
	uint32_t events;                                       /* of interest */
};
static inline void poll_wait(struct poll_table *pt, struct waitq *q)
{
	if (pt && pt->queue)
		pt->queue(pt, q);
}
uint32_t vfs_poll(struct file *f, struct poll_table *pt);

struct pollreq {
	struct file *file; /* NULL: skipped */
	uint32_t events;   /* asked */
	uint32_t revents;  /* out */
	bool exact;        /* POLLERR and POLLHUP only if asked for (select) */
};
/* Waits until one of @reqs is ready: the number ready, 0 at the deadline, -ERESTARTSYS. */
int vfs_poll_many(struct pollreq *reqs, unsigned count, uint64_t deadline_ns);

/* ---- descriptor tables ---- */

#define FD_CLOEXEC_FLAG 1u
struct fdtable;
struct fdtable *fdtable_new(void) MUST_USE;
/* fork: same files, close-on-exec kept */
struct fdtable *fdtable_dup(struct fdtable *t) MUST_USE;
struct fdtable *fdtable_get(struct fdtable *t);
void fdtable_put(struct fdtable *t, struct vfs_ctx *c);
bool fdtable_shared(struct fdtable *t);
/* The lowest free descriptor >= @min and < @limit gets @f (takes the reference on success). fd,
 * -EMFILE. */
int fd_install(struct fdtable *t, struct file *f, unsigned fdflags, int min,
	       uint64_t limit) MUST_USE;
/* Reserves without a file; fd_fill or fd_unreserve must follow. */
int fd_reserve(struct fdtable *t, unsigned fdflags, int min, uint64_t limit) MUST_USE;
void fd_fill(struct fdtable *t, int fd, struct file *f); /* takes the reference */
void fd_unreserve(struct fdtable *t, int fd);
/* a reference, or NULL; O_PATH files too */
struct file *fd_get(struct fdtable *t, int fd) MUST_USE;
struct file *fd_get_nopath(struct fdtable *t, int fd) MUST_USE; /* NULL for O_PATH files */
bool fd_is(struct fdtable *t, int fd, const struct file *f); /* now, as those who change it see */
int fd_close(struct vfs_ctx *c, struct fdtable *t, int fd) MUST_USE;
int fd_close_range(struct vfs_ctx *c, struct fdtable *t, unsigned first, unsigned last,
		   bool cloexec_only_mark);
int fd_dup_to(struct vfs_ctx *c, struct fdtable *t, int oldfd, int newfd, unsigned fdflags,
	      uint64_t limit) MUST_USE;
int fd_get_flags(struct fdtable *t, int fd);
int fd_set_flags(struct fdtable *t, int fd, unsigned fdflags);
void fdtable_close_on_exec(struct vfs_ctx *c, struct fdtable *t);
/* Iteration for /proc: the lowest open fd >= @from, or -1; *f has a reference. */
int fd_next(struct fdtable *t, int from, struct file **f);
unsigned fdtable_capacity(struct fdtable *t); /* FDSize of /proc/PID/status */

/* ---- what the VFS asks of the sentry ---- */

/* Why the sandbox, and not the permissions of its files, refuses something. */
enum vfs_denial {
	VFS_DENIED_READ_ONLY, /* the mount or its file system */
	VFS_DENIED_NO_EXEC,   /* the mount */
	VFS_DENIED_NO_DEVICE, /* the mount, or there is no such device */
	VFS_DENIED_PRIVATE,   /* not everybody of the host may read it (hostfs_opts.public_only) */
};

struct vfs_hooks {
	/* SIGIO and friends: signal f->own.sig (0: SIGIO) with poll bits @band to f->own. No lock
	 * held. */
	void (*send_sigio)(struct file *f, uint32_t band);
	/* Is a signal or kill pending for the calling fiber? For long loops: lets others run now
	 * and then, so no short lock may be held. */
	bool (*interrupted)(void);
	/* The context of the calling task; NULL outside of one. */
	struct vfs_ctx *(*current_ctx)(void);
	/* User memory of the calling task. */
	void (*current_umem)(struct umem *out);
	/* The calling task's call will fail because of @why; @m: the mount that decides, or NULL.
	 * Any lock may be held. NULL: nobody wants to know. */
	void (*denied)(enum vfs_denial why, struct mount *m);
	/* @f has been opened, by name. As above. */
	void (*opened)(struct file *f);
	/* The name @d was made, is about to be removed, or was renamed: LX_IN_CREATE, DELETE,
	 * MOVED_FROM, MOVED_TO. Fibers' locks may be held, no short one. As above. */
	void (*changed)(struct dentry *d, uint32_t mask, uint32_t cookie);
	/* @p is used in a way of VFS_USE_*. Fibers' locks may be held, no short one. Called only
	 * with g_vfs_learning. */
	void (*used)(const struct path *p, unsigned how);
	/* A walk does not find @d, which the host might have: the directory shows only a part of
	 * the host's, or none (vfs/missed.c); @hidden: a rule hides the name. The same @key, the
	 * same path: walk_missed_text(). Fibers' locks may be held, no short one. NULL: nobody
	 * wants to know. */
	void (*missed)(const struct walk *w, struct dentry *d, uint64_t key, bool hidden);
};
extern const struct vfs_hooks *g_vfs_hooks; /* never NULL: a default with no tasks */

/* Does anybody want to know what is used? Constant once the first guest runs. */
extern bool g_vfs_learning;
/* The name space is built: what is made from here on is the guest's. */
extern bool g_vfs_set_up;

enum {
	VFS_USE_LOOK = 1,  /* it was found by its name */
	VFS_USE_READ = 2,  /* a file was opened for reading, a directory for listing */
	VFS_USE_WRITE = 4, /* contents or attributes may change */
	VFS_USE_NAMES = 8, /* names in the directory may change */
	VFS_USE_EXEC = 16, /* executed, or mapped executable */
	VFS_USE_MADE = 32, /* the name was not there before */
};

static inline void vfs_used(const struct path *p, unsigned how)
{
	if (unlikely(g_vfs_learning))
		g_vfs_hooks->used(p, how);
}

static inline void vfs_denied(enum vfs_denial why, const struct mount *m)
{
	if (unlikely(g_vfs_hooks->denied != NULL))
		g_vfs_hooks->denied(why, (struct mount *)(uintptr_t)m);
}

/* Told before a host descriptor that was given out with file_map.key @key is closed; the sentry
 * passes it on to the platform's forget_file. NULL: nobody asks. Set once at start. Called from any
 * fiber, no short lock held. */
extern void (*g_vfs_file_gone)(uint64_t key);

void vfs_init(void);

#endif
