/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dentry cache, for the VFS's own files and for file systems that change names behind it.
 */
#ifndef MOAT_VFS_DCACHE_H
#define MOAT_VFS_DCACHE_H

#include "vfs/vfs.h"

/* Names and mounts: dentry->parent, ->name, ->hashed, the tree of mounts. Never held over a host
 * call. */
extern struct mutex g_dcache_lock;

/* At most this many unused dentries are kept. */
#define DCACHE_UNUSED_MAX 50000u

void dcache_init(void);

/* The inode, or NULL; for dentries that are perhaps becoming positive at this moment. Borrowed. */
static inline struct inode *dentry_inode(const struct dentry *d)
{
	return __atomic_load_n(&d->inode, __ATOMIC_ACQUIRE);
}

/* The parent, itself at a root. A reference. */
struct dentry *dentry_get_parent(struct dentry *d);
/* The name as it is now, NUL-terminated, cut at the buffer's end; its length. */
size_t dentry_copy_name(struct dentry *d, char *buf, size_t size);
/* The cached child in O(1), a reference, or NULL. No file system is asked. */
struct dentry *dcache_find(struct dentry *dir, const char *name, size_t len);
struct dentry *dcache_find_locked(const struct dentry *dir, const char *name, size_t len)
	REQUIRES(g_dcache_lock);
/* The same with the reference count untouched: valid while the lock is held. */
struct dentry *dcache_peek_locked(const struct dentry *dir, const char *name, size_t len)
	REQUIRES(g_dcache_lock);
void dentry_get_locked(struct dentry *d) REQUIRES(g_dcache_lock);

/* A negative dentry, referenced, from dentry_lookup_locked becomes the name of @i (takes the
 * reference). The directory's lock is held. */
void dentry_instantiate(struct dentry *d, struct inode *i);
/* An unhashed dentry below @dir for a file without a name (O_TMPFILE); takes the inode reference,
 * even if it fails (NULL: no memory). */
struct dentry *dentry_new_unnamed(struct dentry *dir, struct inode *i) MUST_USE;
/* The file of this name is removed: it leaves the cache, those who hold it keep the inode. */
void dentry_delete(struct dentry *d);

/* The room that a rename needs, so that dentry_move cannot fail. */
struct dentry_move_room {
	char *name[2];
};
int dentry_move_prepare(struct dentry_move_room *room, struct dentry *from,
			struct dentry *to) MUST_USE;
/* @from takes the place of @to, which leaves the cache; with @exchange they change places. Frees
 * @room. */
void dentry_move(struct dentry_move_room *room, struct dentry *from, struct dentry *to,
		 bool exchange);
void dentry_move_cancel(struct dentry_move_room *room);

/* @d is @top or below it in the same tree of dentries. */
bool dentry_is_below(const struct dentry *d, const struct dentry *top);
bool dentry_is_below_locked(const struct dentry *d, const struct dentry *top)
	REQUIRES(g_dcache_lock);
/* The child of @top on the way to @d; NULL if @d is not strictly below it. Borrowed. */
struct dentry *dentry_child_towards_locked(struct dentry *d, const struct dentry *top)
	REQUIRES(g_dcache_lock);
/* Changes with each rename of a directory: for walks that must not escape. */
uint64_t dcache_rename_sequence(void);

/* The file system is going: forgets all unused dentries of it. */
void dcache_shrink_super(struct super *s);
/* Forgets the unused dentries below @d. */
void dcache_shrink_below(struct dentry *d);

struct dcache_stats {
	size_t total, unused;
};
void dcache_get_stats(struct dcache_stats *out);

#endif
