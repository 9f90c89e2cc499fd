/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of tmpfs, shared by tmpfs*.c, memfd.c and overlay.c; nobody else includes it.
 *
 * An overlay is a tmpfs whose inodes may have a *lower* inode: what they have not got themselves
 * (children, content, xattrs) comes from there. See overlay.c.
 *
 * Lock order (outer first): inode->lock, tmpfs_data.lock, then the short ones: sb->lock,
 * inode->meta. Directory entries are guarded by the directory's inode->lock.
 */
#ifndef MOAT_VFS_TMPFS_NODE_H
#define MOAT_VFS_TMPFS_NODE_H

#include "base/meter.h"
#include "vfs/inode.h"
#include "vfs/tmpfs.h"
#include "vfs/tmpfs_pages.h"

#define TMPFS_MAGIC 0x01021994u
#define OVERLAY_MAGIC 0x794c7630u
#define TMPFS_MAX_SIZE ((uint64_t)INT64_MAX & PAGE_MASK_DOWN)
#define TMPFS_DIRENT_SIZE                                                      \
	20u /* what an entry adds to the st_size of its directory, as in Linux \
	     */

struct tmpfs_sb {
	struct super *super;
	_Atomic uint64_t used_pages, used_inodes;
	uint64_t max_pages, max_inodes; /* UINT64_MAX: no limit */
	struct tmpfs_opts opts;         /* for /proc/mounts */
	struct mutex lock;              /* RANK_MISC */
	/* overlay only */
	struct super *lower;    /* a reference; NULL: a plain tmpfs */
	struct htable by_lower; /* tnodes by their lower inode. [lock] */
};

/* All or nothing: within the instance's limit and that of all together. */
bool tmpfs_charge(struct tmpfs_sb *sb, uint64_t pages) MUST_USE;
/* For pages that are there already, whatever the limits say. */
void tmpfs_charge_found(struct tmpfs_sb *sb, uint64_t pages);
/* Of all together: half of the sandbox's memory. */
uint64_t tmpfs_pages_left(void);
uint64_t tmpfs_pages_max(void);
void tmpfs_uncharge(struct tmpfs_sb *sb, uint64_t pages);

/* One inode, or one more name of one. */
bool tmpfs_charge_inode(struct tmpfs_sb *sb) MUST_USE;
void tmpfs_uncharge_inode(struct tmpfs_sb *sb);

/* ---- contents (tmpfs_data.c, tmpfs_memfd.c) ---- */

/*
 * The bytes of a regular file: a tree of heap pages at first, or a host memfd with a window on it
 * once someone maps it or it is big. Bytes beyond size read as zero whenever size grows.
 */
struct tmpfs_data {
	struct frwlock lock;
	struct tmpfs_sb *sb;
	uint64_t size; /* [lock]; inode->size follows it under the same lock */
	struct page_tree tree;
	int memfd;       /* -1: pages are in the tree */
	bool mapped;     /* the memfd was given to mmap: others write to it, its size is exact */
	bool holes;      /* memfd: there may be some */
	uint8_t *window; /* of the first window_size bytes of the memfd; NULL: none yet */
	uint64_t window_size;
	uint64_t host_size; /* of the memfd, whole pages; >= page_up(size) */
	uint64_t key;       /* of file_map; 0: never mapped */
	/* memfd: of what its readers may map instead of having it copied; 0: they may not */
	uint64_t view_id;
	uint64_t reckoned;               /* what its readers could make there unasked, bytes */
	_Atomic unsigned giving;         /* readers who are about to; the memfd stays */
	_Atomic uint64_t copied;         /* to readers who could have mapped it, bytes */
	uint64_t charged;                /* pages */
	TAILQ_ENTRY(tmpfs_data) exposed; /* [tmpfs_memfd.c] */
	bool listed;
};

void tmpfs_data_init(struct tmpfs_data *d, struct tmpfs_sb *sb);
void tmpfs_data_fini(struct tmpfs_data *d);
/* Frees the content; the lock stays. */
void tmpfs_data_drop(struct tmpfs_data *d);
/* @d, which is empty, takes the content of @from, which was on the stack and never locked. */
void tmpfs_data_take(struct tmpfs_data *d, const struct tmpfs_data *from);
/* All of these want d->lock held: for reading (read, seek), else for writing. */
ssize_t tmpfs_data_read(struct tmpfs_data *d, struct uio *u, uint64_t pos);
/* Bytes taken, -ENOSPC, -EFAULT, -ENOMEM. Grows size. */
ssize_t tmpfs_data_write(struct tmpfs_data *d, struct uio *u, uint64_t pos);
int tmpfs_data_truncate(struct tmpfs_data *d, uint64_t size) MUST_USE;
int64_t tmpfs_data_seek(struct tmpfs_data *d, int64_t off, int whence);
#define TMPFS_FALLOC_KEEP_SIZE 1
#define TMPFS_FALLOC_PUNCH_HOLE 2
#define TMPFS_FALLOC_COLLAPSE 8
#define TMPFS_FALLOC_ZERO 16
#define TMPFS_FALLOC_INSERT 32
int tmpfs_data_fallocate(struct tmpfs_data *d, int mode, uint64_t off, uint64_t len) MUST_USE;
/* Moves the content to a memfd, if it is not in one. -ENFILE, -ENOMEM. */
int tmpfs_data_promote(struct tmpfs_data *d) MUST_USE;
/* An empty content becomes @size bytes of holes in a memfd. */
int tmpfs_data_init_memfd(struct tmpfs_data *d, uint64_t size) MUST_USE;
int tmpfs_data_map(struct tmpfs_data *d, struct file_map *m) MUST_USE;
/* The part of the content that has [pos, pos + size), if readers may map it: then d->giving is
 * raised. */
bool tmpfs_data_view(struct tmpfs_data *d, uint64_t pos, uint64_t size,
		     struct uio_file *file) MUST_USE;
/* The same for who has mapped it already: what there is of that part. */
bool tmpfs_data_show(const struct tmpfs_data *d, uint64_t pos, struct file_view *out) MUST_USE;
/* Takes note that readers who could have mapped it had @size bytes copied. True: _offer it. */
bool tmpfs_data_note_copy(struct tmpfs_data *d, uint64_t size) MUST_USE;
/* Readers may map the content from now on, if that can be done. */
void tmpfs_data_offer(struct tmpfs_data *d);
/* Can guests make pages by touching a mapping? */
static inline bool tmpfs_data_may_grow(const struct tmpfs_data *d)
{
	return d->mapped || (d->view_id && d->holes);
}
/* Finds and charges the pages that guests made by touching a mapping. */
void tmpfs_data_recharge(struct tmpfs_data *d);

/* Of tmpfs_memfd.c, for tmpfs_data.c. */
ssize_t tmpfs_memfd_read(struct tmpfs_data *d, struct uio *u, uint64_t pos, uint64_t len);
ssize_t tmpfs_memfd_write(struct tmpfs_data *d, struct uio *u, uint64_t pos);
int tmpfs_memfd_truncate(struct tmpfs_data *d, uint64_t size) MUST_USE;
int tmpfs_memfd_fallocate(struct tmpfs_data *d, int mode, uint64_t off, uint64_t len) MUST_USE;
int64_t tmpfs_memfd_seek(struct tmpfs_data *d, int64_t off, int whence);
void tmpfs_memfd_fini(struct tmpfs_data *d); /* the charge stays the caller's */
void tmpfs_memfd_recharge(struct tmpfs_data *d);
bool tmpfs_memfd_room(void); /* may a file be promoted for its size alone? */
#define TMPFS_BIG_PAGES 64u  /* files with more pages move to a memfd: long copies in one piece */

/* ---- directories (tmpfs_dir.c) ---- */

struct tdirent {
	RB_ENTRY(tdirent) link; /* by cookie */
	uint64_t cookie;        /* position in readdir; only grows within a directory */
	uint64_t hash;
	struct inode *inode; /* a reference; NULL: see white */
	bool white;          /* overlay: hides a name of the lower directory */
	uint16_t len;
	char name[];
};
RB_HEAD(tdir_tree, tdirent);

struct tdir {
	struct htable names;
	struct tdir_tree order;
	uint64_t next_cookie;
	uint64_t live; /* entries with an inode */
};

/* ---- extended attributes (tmpfs_xattr.c) ---- */

struct txattr {
	SLIST_ENTRY(txattr) link;
	char *name;
	uint32_t size;
	uint8_t value[];
};
SLIST_HEAD(txattr_list, txattr);

struct tnode {
	struct inode *inode; /* borrowed: the one that owns this */
	struct tmpfs_sb *sb;
	union {
		struct tmpfs_data data; /* regular files */
		struct tdir dir;        /* directories */
		char *target;           /* symlinks; NULL: the lower's */
	};
	struct txattr_list xattrs; /* [meta] */
	uint32_t xattr_bytes;      /* [meta] */
	bool charged;            /* counts in sb->used_inodes. [sb->lock for those with a lower] */
	bool has_data;           /* regular: the content is data's, not lower's. [data.lock] */
	bool has_xattrs;         /* xattrs are ours, not lower's. [inode->lock] */
	bool pinned;             /* overlay: sb->by_lower holds a reference. [sb->lock] */
	bool changed;            /* overlay: attributes differ from lower's. [inode->lock] */
	struct inode *lower;     /* a reference; NULL: none */
	struct lower_list *list; /* of the lower's names, a reference. [vfs/overlay_list.c] */
	struct tnode *next;      /* while shutting down: chained, with a reference */
	bool chained;
	/* memfd.c */
	_Atomic uint32_t seals;
	_Atomic int32_t map_writers; /* shared mappings that may write; < 0: sealed against them */
};

static inline struct tnode *tnode_of(const struct inode *i)
{
	return i->priv;
}
bool tmpfs_is(const struct inode *i); /* a tmpfs or overlay inode, memfds too */

/* A fresh inode with one reference; owner root until set. @charge: it counts as an inode, -ENOSPC
 * if there may be no more. @mode with type. -ENOMEM. */
int tmpfs_inode_new(struct super *s, uint32_t mode, uint64_t rdev, bool charge,
		    struct inode **out) MUST_USE;
/* As above, for a file that @c makes in @dir: owner, setgid rules. */
int tmpfs_inode_new_in(struct vfs_ctx *c, struct inode *dir, uint32_t mode, uint64_t rdev,
		       struct inode **out) MUST_USE;
/* A super without root. */
int tmpfs_super_new(const struct fs_type *type, const struct super_ops *ops,
		    const struct tmpfs_opts *o, struct super **out) MUST_USE;
/* Sets size and blocks of the inode from its data. d->lock held. */
void tmpfs_sync_size(struct inode *i);
int tmpfs_setattr(struct vfs_ctx *c, struct inode *i, const struct iattr *attr);
int tmpfs_getattr(struct inode *i, struct kstat *out);
void tmpfs_shutdown(struct super *s);
void tmpfs_super_free(struct super *s);
void tmpfs_inode_free(struct inode *i);
int tmpfs_statfs(struct super *s, struct kstatfs *out);
size_t tmpfs_show_options(struct super *s, char *buf, size_t size);

extern const struct inode_ops g_tmpfs_dir_iops, g_tmpfs_file_iops, g_tmpfs_link_iops,
	g_tmpfs_special_iops;
extern const struct file_ops g_tmpfs_dir_fops, g_tmpfs_file_fops;

void tdir_init(struct tdir *t);
void tdir_fini(struct tdir *t); /* no live entries */
/* Takes all names out of a directory; the inodes that are directories themselves are chained to
 * *chain. */
void tdir_drop_all(struct tnode *dir, struct tnode **chain);
/* The entry, or NULL. Whiteouts too. */
struct tdirent *tdir_find(struct tdir *t, const char *name, size_t len);
/* The first entry with a cookie of at least @cookie. */
struct tdirent *tdir_from(struct tdir *t, uint64_t cookie);
struct tdirent *tdir_next(struct tdir *t, struct tdirent *e);
bool tdir_emit_dots(struct file *f, struct dir_ctx *ctx);
int tdir_emit_entries(struct file *f, struct dir_ctx *ctx);

ssize_t tmpfs_getxattr(struct inode *i, const char *name, void *buf, size_t size);
int tmpfs_setxattr(struct inode *i, const char *name, const void *value, size_t size, int flags);
ssize_t tmpfs_listxattr(struct inode *i, char *buf, size_t size);
/* What all kinds of inodes here have. */
#define TMPFS_ATTR_OPS                                                                  \
	.getattr = tmpfs_getattr, .setattr = tmpfs_setattr, .getxattr = tmpfs_getxattr, \
	.setxattr = tmpfs_setxattr, .listxattr = tmpfs_listxattr
void tmpfs_xattrs_free(struct tnode *t);

/* Seals, in tmpfs's own write paths: 0 or -EPERM. */
int tmpfs_seal_check_resize(const struct tnode *t, uint64_t old_size, uint64_t new_size) MUST_USE;
int tmpfs_seal_check_write(const struct tnode *t) MUST_USE;

/* ---- what tmpfs asks of overlay.c, only for inodes with a lower ---- */

/* The overlay's inode for a lower name. -ENOENT. */
int overlay_lower_lookup(struct inode *dir, const char *name, size_t len,
			 struct inode **out) MUST_USE;
/* Does the lower directory have the name? 1, 0, -errno. */
int overlay_lower_has(struct inode *dir, const char *name, size_t len) MUST_USE;
/* Is nothing visible left in a directory with a lower? 1, 0, -errno. */
int overlay_dir_empty(struct inode *dir) MUST_USE;
/* @i differs from its lower from now on: keep it in memory. Cannot fail. */
void overlay_pin(struct inode *i);
void overlay_unpin(struct inode *i);
/* Makes the content ours, cut to @size (UINT64_MAX: all). inode->lock held. */
int overlay_copy_up(struct inode *i, uint64_t size) MUST_USE;
/* Makes the xattrs ours. inode->lock held. */
int overlay_copy_up_xattrs(struct inode *i) MUST_USE;
int overlay_iterate(struct file *f, struct dir_ctx *ctx);
void overlay_dir_release(struct file *f);
void overlay_forget(struct tnode *t); /* the inode is being freed */
/* Shutting down: the references of all pinned inodes move to the chain. */
void overlay_unpin_all(struct tmpfs_sb *sb, struct tnode **chain);

#endif
