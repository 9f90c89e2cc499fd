/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files without a name: the pseudo file system of pipes, sockets, eventfds and their like.
 *
 * Theory of operation: one super and one mount of it that is in no name space, made on first use
 * and kept for good. Objects that have an identity of their own (pipes, sockets) bring an inode;
 * all others share one inode without a type, as Linux' anon_inode does.
 */
#include <errno.h>
#include <pthread.h>
#include "base/err.h"
#include "vfs/vfs.h"

#define ANON_INODE_FS_MAGIC 0x09041934u

static struct super *g_anon_super;
static struct mount *g_anon_mount;
static struct inode *g_anon_inode;
static pthread_once_t g_anon_once = PTHREAD_ONCE_INIT;

/* A nameless file cannot be opened again through /proc/PID/fd. */
static int anon_open(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	(void)c;
	(void)i;
	(void)f;
	return -ENXIO;
}

static const struct inode_ops g_anon_inode_ops = {.open = anon_open};
static const struct file_ops g_anon_no_ops = {.stream = true};

static int anon_statfs(struct super *s, struct kstatfs *out)
{
	*out = (struct kstatfs){.type = s->magic,
				.bsize = MOAT_PAGE_SIZE,
				.frsize = MOAT_PAGE_SIZE,
				.namelen = 255};
	return 0;
}

static const struct super_ops g_anon_super_ops = {.statfs = anon_statfs};
static const struct fs_type g_anon_fs_type = {.name = "anon_inodefs", .nodev = true};

static void anon_init(void)
{
	struct super *s = super_new(&g_anon_fs_type, &g_anon_super_ops);
	struct inode *i = s ? inode_new(s, 0600) : NULL;
	struct mount *m = i ? mem_zalloc(sizeof(*m)) : NULL;

	if (!m)
		panic("no memory for the anonymous file system");
	s->magic = ANON_INODE_FS_MAGIC;
	s->blocksize = (uint32_t)MOAT_PAGE_SIZE;
	i->ops = &g_anon_inode_ops;
	i->fops = &g_anon_no_ops;
	/* One reference is never given back, so mount_put never sees the end of it. */
	ref_init(&m->ref);
	m->super = super_get(s);
	m->flags = MOUNT_NOATIME;
	g_anon_super = s;
	g_anon_inode = i;
	g_anon_mount = m;
}

struct super *anon_super(void)
{
	pthread_once(&g_anon_once, anon_init);
	return g_anon_super;
}

int anon_path(struct inode *i, const char *name, struct path *out)
{
	pthread_once(&g_anon_once, anon_init);
	out->dentry = dentry_new_anon(i, name);
	if (!out->dentry)
		return -ENOMEM;
	out->mnt = mount_get(g_anon_mount);
	return 0;
}

struct file *file_new_anon(struct vfs_ctx *c, struct inode *inode, const char *name,
			   const struct file_ops *ops, unsigned fmode, uint32_t flags, void *priv)
{
	struct path p;
	struct file *f;

	pthread_once(&g_anon_once, anon_init);
	if (!inode)
		inode = inode_get(g_anon_inode);
	if (anon_path(inode, name, &p))
		return NULL;
	f = file_new(c, &p, ops, fmode, flags);
	path_put(&p);
	if (f)
		f->priv = priv;
	return f;
}
