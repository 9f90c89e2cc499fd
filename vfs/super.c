/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supers: instances of file systems; and the list of file system types.
 *
 * Theory of operation: super->ref counts those who can reach the instance from outside. With the
 * last of them go the names in the cache and, by ops->shutdown, the names that the file system
 * keeps in memory; each freed inode drops super->inodes, whose last frees the super itself.
 */
#include <errno.h>
#include <string.h>
#include "base/err.h"
#include "vfs/dcache.h"
#include "vfs/inode.h"
#include "vfs/inotify.h"

#define FS_TYPES_MAX 32u

static const struct fs_type *g_fs_types[FS_TYPES_MAX]; /* written at start only */
static unsigned g_fs_type_count;
/* Minor numbers of anonymous devices; 0 is never one. */
static _Atomic uint32_t g_next_minor = 20;

void fs_type_register(const struct fs_type *t)
{
	/* A unit test may bring the VFS up more than once. */
	for (unsigned i = 0; i < g_fs_type_count; i++) {
		if (g_fs_types[i] == t)
			return;
	}
	BUG_ON(g_fs_type_count == FS_TYPES_MAX);
	g_fs_types[g_fs_type_count++] = t;
}

const struct fs_type *fs_type_find(const char *name)
{
	for (unsigned i = 0; i < g_fs_type_count; i++) {
		if (strcmp(g_fs_types[i]->name, name) == 0)
			return g_fs_types[i];
	}
	return NULL;
}

const struct fs_type *fs_type_at(unsigned i)
{
	return i < g_fs_type_count ? g_fs_types[i] : NULL;
}

struct super *super_new(const struct fs_type *type, const struct super_ops *ops)
{
	struct super *s = mem_zalloc(sizeof(*s));

	if (!s)
		return NULL;
	ref_init(&s->ref);
	ref_init(&s->inodes);
	s->type = type;
	s->ops = ops;
	s->dev = lx_makedev(0, atomic_fetch_add_explicit(&g_next_minor, 1, memory_order_relaxed));
	s->blocksize = (uint32_t)MOAT_PAGE_SIZE;
	fmutex_init(&s->rename_lock);
	atomic_init(&s->next_ino, 1);
	return s;
}

struct super *super_get(struct super *s)
{
	ref_get(&s->ref);
	return s;
}

void super_put_inode(struct super *s)
{
	if (!ref_put(&s->inodes))
		return;
	if (s->ops && s->ops->free)
		s->ops->free(s);
	fmutex_fini(&s->rename_lock);
	mem_free(s);
}

void super_put(struct super *s)
{
	if (!s || !ref_put(&s->ref))
		return;
	inotify_super_gone(s);
	if (s->ops && s->ops->shutdown)
		s->ops->shutdown(s);
	dcache_shrink_super(s);
	dentry_put(s->root);
	s->root = NULL;
	super_put_inode(s);
}

/* statfs(2)'s f_flags. */
#define ST_RDONLY 0x0001u
#define ST_NOSUID 0x0002u
#define ST_NODEV 0x0004u
#define ST_NOEXEC 0x0008u
#define ST_VALID 0x0020u
#define ST_NOATIME 0x0400u
#define ST_RELATIME 0x1000u

int vfs_statfs(const struct path *p, struct kstatfs *out)
{
	struct super *s = p->dentry->super;

	*out = (struct kstatfs){.type = s->magic, .bsize = s->blocksize, .namelen = LX_NAME_MAX};
	if (s->ops && s->ops->statfs) {
		int r = s->ops->statfs(s, out);

		if (r)
			return r;
	}
	if (out->frsize == 0)
		out->frsize = out->bsize;

	unsigned mf = p->mnt ? mount_flags(p->mnt) : 0;

	out->flags = ST_VALID | ((mf & MOUNT_NOATIME) ? ST_NOATIME : ST_RELATIME);
	if ((mf & MOUNT_RDONLY) || (super_flags(s) & SUPER_RDONLY))
		out->flags |= ST_RDONLY;
	if (mf & MOUNT_NOSUID)
		out->flags |= ST_NOSUID;
	if (mf & MOUNT_NODEV)
		out->flags |= ST_NODEV;
	if (mf & MOUNT_NOEXEC)
		out->flags |= ST_NOEXEC;
	return 0;
}
