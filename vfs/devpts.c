/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devpts: the file system with the nodes of pseudo terminals.
 *
 * Theory of operation: each mount is an instance of its own (Linux since 4.7; the option
 * newinstance means nothing). A slot per number says whether it is taken and which node stands for
 * it; the node is gone when the master is closed, the number when the slave is closed too. The
 * lowest free number is given out. Nodes are held by their ptys, the ptmx node by the instance.
 *
 * Locking: devpts->lock (RANK_MISC), a leaf: it may be taken under a terminal's lock.
 *
 * References: Linux's Documentation/filesystems/devpts.rst, pts(4).
 */
#include "vfs/dcache.h"
#include "vfs/inode.h"
#include "vfs/pty.h"

#include "base/err.h"
#include "base/lx_fcntl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVPTS_MAGIC 0x1cd1u
#define INO_ROOT 1
#define INO_PTMX 2
#define INO_FIRST 3
#define PTYS_MAX 4096u /* of the sandbox: /proc/sys/kernel/pty/max */
#define INSTANCE_MAX (1u << 20)

struct slot {
	bool taken;
	struct inode *node; /* borrowed from the pty; NULL: gone */
};

struct devpts {
	struct mutex lock;
	struct slot *slots; /* [lock] */
	uint32_t size;      /* of slots. [lock] */
	struct inode *ptmx; /* a reference */
	/* Options; never change. */
	uint32_t mode, ptmx_mode, uid, gid, max;
	bool set_uid, set_gid;
};

static _Atomic uint32_t g_ptys;

static struct devpts *devpts_of(const struct super *s)
{
	return s->priv;
}

/* ---- names ---- */

/* Of a canonical decimal number; UINT32_MAX if it is none. */
static uint32_t parse_index(const char *name, size_t len)
{
	uint32_t v = 0;

	if (len == 0 || len > 7 || (len > 1 && name[0] == '0'))
		return UINT32_MAX;
	for (size_t i = 0; i < len; i++) {
		if (name[i] < '0' || name[i] > '9')
			return UINT32_MAX;
		v = v * 10 + (uint32_t)(name[i] - '0');
	}
	return v;
}

static int devpts_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	struct devpts *d = devpts_of(dir->super);
	uint32_t index;

	if (len == 4 && memcmp(name, "ptmx", 4) == 0) {
		*out = inode_get(d->ptmx);
		return 0;
	}
	index = parse_index(name, len);
	*out = NULL;
	mutex_lock(&d->lock);
	if (index < d->size && d->slots[index].node)
		*out = inode_get(d->slots[index].node);
	mutex_unlock(&d->lock);
	return *out ? 0 : -ENOENT;
}

/* Positions: 0 ".", 1 "..", 2 "ptmx", then 3 + number. */
static bool emit_fixed(struct file *f, struct dir_ctx *ctx)
{
	static const struct {
		const char *name;
		uint64_t ino;
		unsigned type;
	} fixed[] = {{".", INO_ROOT, LX_DT_DIR},
		     {"..", INO_ROOT, LX_DT_DIR},
		     {"ptmx", INO_PTMX, LX_DT_CHR}};

	while (f->pos < 3) {
		unsigned i = (unsigned)f->pos;

		if (!ctx->emit(ctx, fixed[i].name, strlen(fixed[i].name), fixed[i].ino,
			       fixed[i].type, f->pos + 1))
			return false;
		f->pos++;
	}
	return true;
}

static int devpts_iterate(struct file *f, struct dir_ctx *ctx)
{
	struct devpts *d = devpts_of(f->inode->super);

	if (!emit_fixed(f, ctx))
		return 0;
	for (;;) {
		uint32_t index = (uint32_t)(f->pos - 3);
		char name[16];
		int n;

		mutex_lock(&d->lock);
		while (index < d->size && !d->slots[index].node)
			index++;

		bool end = index >= d->size;

		mutex_unlock(&d->lock);
		if (end)
			return 0;
		n = snprintf(name, sizeof(name), "%u", index);
		if (!ctx->emit(ctx, name, (size_t)n, INO_FIRST + index, LX_DT_CHR,
			       (int64_t)index + 4))
			return 0;
		f->pos = (int64_t)index + 4;
	}
}

static int devpts_setattr(struct vfs_ctx *c UNUSED, struct inode *i, const struct iattr *attr)
{
	inode_apply_attr(i, attr);
	return 0;
}

static const struct inode_ops g_dir_iops = {.lookup = devpts_lookup, .setattr = devpts_setattr};
static const struct file_ops g_dir_fops = {.iterate = devpts_iterate, .lseek = file_lseek_endless};
static const struct inode_ops g_node_iops = {.setattr = devpts_setattr};

/* ---- numbers and nodes ---- */

static int grow_locked(struct devpts *d)
{
	uint32_t size = MIN(MAX(d->size * 2, 16u), d->max);
	struct slot *s;

	if (size <= d->size)
		return -ENOSPC;
	s = mem_realloc(d->slots, size * sizeof(*s));
	if (!s)
		return -ENOMEM;
	memset(s + d->size, 0, (size - d->size) * sizeof(*s));
	d->slots = s;
	d->size = size;
	return 0;
}

static int take_number(struct devpts *d, uint32_t *out)
{
	uint32_t i = 0;
	int r = 0;

	if (atomic_fetch_add(&g_ptys, 1) >= PTYS_MAX) {
		atomic_fetch_sub(&g_ptys, 1);
		return -ENOSPC;
	}
	mutex_lock(&d->lock);
	while (i < d->size && d->slots[i].taken)
		i++;
	if (i == d->size)
		r = grow_locked(d);
	if (r == 0)
		d->slots[i].taken = true;
	mutex_unlock(&d->lock);
	if (r)
		atomic_fetch_sub(&g_ptys, 1);
	*out = i;
	return r;
}

void devpts_release(struct super *fs, uint32_t index)
{
	struct devpts *d = devpts_of(fs);

	mutex_lock(&d->lock);
	d->slots[index].taken = false;
	mutex_unlock(&d->lock);
	atomic_fetch_sub(&g_ptys, 1);
}

int devpts_add(struct vfs_ctx *c, struct super *fs, struct tty *t, uint32_t *index,
	       struct inode **node)
{
	struct devpts *d = devpts_of(fs);
	int r = take_number(d, index);
	struct inode *i;

	if (r)
		return r;
	i = inode_new(fs, LX_S_IFCHR | d->mode);
	if (!i) {
		devpts_release(fs, *index);
		return -ENOMEM;
	}
	i->ino = INO_FIRST + *index;
	i->rdev = lx_makedev(136, *index);
	i->ops = &g_node_iops;
	i->uid = d->set_uid ? d->uid : c->cred->fsuid;
	i->gid = d->set_gid ? d->gid : c->cred->fsgid;
	i->priv = tty_get(t);
	mutex_lock(&d->lock);
	d->slots[*index].node = i;
	mutex_unlock(&d->lock);
	*node = i;
	return 0;
}

void devpts_remove(struct super *fs, uint32_t index)
{
	struct devpts *d = devpts_of(fs);
	struct dentry *name;
	struct inode *node;
	char text[16];
	int n = snprintf(text, sizeof(text), "%u", index);

	mutex_lock(&d->lock);
	node = d->slots[index].node;
	d->slots[index].node = NULL;
	mutex_unlock(&d->lock);
	if (node) {
		mutex_lock(&node->meta);
		__atomic_store_n(&node->nlink, 0, __ATOMIC_RELAXED);
		mutex_unlock(&node->meta);
	}
	name = dcache_find(fs->root, text, (size_t)n);
	if (name) {
		dentry_drop(name);
		dentry_put(name);
	}
}

bool devpts_is(const struct super *s)
{
	return s->type == &g_devpts_type;
}

struct tty *devpts_tty(const struct inode *i)
{
	return devpts_is(i->super) ? i->priv : NULL;
}

/* A node that is mounted on a file: where it is mounted. */
static void leave_file_mounts(struct path *p)
{
	for (;;) {
		struct path up = {0};

		mutex_lock(&g_dcache_lock);
		if (p->mnt->root == p->dentry && p->mnt->parent) {
			up.mnt = mount_get(p->mnt->parent);
			up.dentry = dentry_get(p->mnt->mountpoint);
		}
		mutex_unlock(&g_dcache_lock);
		if (!up.mnt)
			return;
		path_put(p);
		*p = up;
	}
}

int devpts_of_ptmx(struct vfs_ctx *c, struct file *f, struct path *root)
{
	struct super *own = devpts_is(f->inode->super) ? f->inode->super : NULL;
	struct path p = f->path, found;
	int r;

	path_get(&p);
	leave_file_mounts(&p);
	if (!own || p.mnt->super != own) {
		struct dentry *dir = dentry_get_parent(p.dentry);

		dentry_put(p.dentry);
		p.dentry = dir;
		r = path_lookup(c, &p, "pts", WALK_FOLLOW | WALK_DIRECTORY, &found);
		path_put(&p);
		if (r && !own)
			return r;
		if (r || !devpts_is(found.mnt->super) || (own && found.mnt->super != own)) {
			if (r == 0)
				path_put(&found);
			if (!own)
				return -ENODEV;
			/* Its own file system is known at least, if not by which way. */
			found = (struct path){.mnt = mount_get(f->path.mnt),
					      .dentry = dentry_get(own->root)};
		}
		p = found;
	}
	root->mnt = p.mnt;
	root->dentry = dentry_get(p.mnt->super->root);
	dentry_put(p.dentry);
	return 0;
}

/* ---- instances ---- */

static int parse_number(const char *text, int base, uint32_t max, uint32_t *out)
{
	char *end;
	unsigned long v;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	v = strtoul(text, &end, base);
	if (*end || errno || v > max)
		return -EINVAL;
	*out = (uint32_t)v;
	return 0;
}

static int parse_option(struct devpts *d, const char *o)
{
	int r;

	if (strcmp(o, "newinstance") == 0)
		return 0;
	if (strncmp(o, "mode=", 5) == 0) {
		r = parse_number(o + 5, 8, UINT32_MAX, &d->mode);
		d->mode &= 07777;
		return r;
	}
	if (strncmp(o, "ptmxmode=", 9) == 0) {
		r = parse_number(o + 9, 8, UINT32_MAX, &d->ptmx_mode);
		d->ptmx_mode &= 07777;
		return r;
	}
	if (strncmp(o, "uid=", 4) == 0) {
		d->set_uid = true;
		return parse_number(o + 4, 10, UINT32_MAX - 1, &d->uid);
	}
	if (strncmp(o, "gid=", 4) == 0) {
		d->set_gid = true;
		return parse_number(o + 4, 10, UINT32_MAX - 1, &d->gid);
	}
	if (strncmp(o, "max=", 4) == 0)
		return parse_number(o + 4, 10, INSTANCE_MAX, &d->max);
	return -EINVAL;
}

static int parse_options(struct devpts *d, const char *data)
{
	char *copy, *save = NULL;
	int r = 0;

	if (!data)
		return 0;
	copy = mem_strdup(data);
	if (!copy)
		return -ENOMEM;
	for (char *o = strtok_r(copy, ",", &save); o && r == 0; o = strtok_r(NULL, ",", &save))
		r = parse_option(d, o);
	mem_free(copy);
	return r;
}

static void devpts_shutdown(struct super *s)
{
	struct devpts *d = devpts_of(s);
	struct inode *ptmx = d->ptmx;

	d->ptmx = NULL;
	if (ptmx)
		inode_put(ptmx);
}

static void devpts_free(struct super *s)
{
	struct devpts *d = devpts_of(s);

	mem_free(d->slots);
	mutex_fini(&d->lock);
	mem_free(d);
}

static void devpts_inode_free(struct inode *i)
{
	tty_put(i->priv);
}

static int devpts_statfs(struct super *s, struct kstatfs *out)
{
	*out = (struct kstatfs){.type = s->magic,
				.bsize = MOAT_PAGE_SIZE,
				.frsize = MOAT_PAGE_SIZE,
				.namelen = LX_NAME_MAX};
	return 0;
}

static size_t devpts_show_options(struct super *s, char *buf, size_t size)
{
	const struct devpts *d = devpts_of(s);
	size_t n = 0;

#define ADD(...) (n += (size_t)snprintf(buf + MIN(n, size), size - MIN(n, size), __VA_ARGS__))
	if (d->set_uid)
		ADD(",uid=%u", d->uid);
	if (d->set_gid)
		ADD(",gid=%u", d->gid);
	ADD(",mode=%03o,ptmxmode=%03o", d->mode, d->ptmx_mode);
	if (d->max < INSTANCE_MAX)
		ADD(",max=%u", d->max);
#undef ADD
	return MIN(n, size);
}

static const struct super_ops g_devpts_super_ops = {
	.shutdown = devpts_shutdown,
	.free = devpts_free,
	.inode_free = devpts_inode_free,
	.statfs = devpts_statfs,
	.show_options = devpts_show_options,
};

static int devpts_fill(struct vfs_ctx *c, struct super *s)
{
	struct devpts *d = devpts_of(s);
	struct inode *root = inode_new(s, LX_S_IFDIR | 0755);

	if (!root)
		return -ENOMEM;
	root->ino = INO_ROOT;
	root->ops = &g_dir_iops;
	root->fops = &g_dir_fops;
	root->nlink = 2;
	s->root = dentry_new_root(s, root);
	if (!s->root)
		return -ENOMEM;
	d->ptmx = inode_new(s, LX_S_IFCHR | d->ptmx_mode);
	if (!d->ptmx)
		return -ENOMEM;
	d->ptmx->ino = INO_PTMX;
	d->ptmx->rdev = lx_makedev(5, 2);
	d->ptmx->ops = &g_node_iops;
	d->ptmx->uid = c->cred->uid;
	d->ptmx->gid = c->cred->gid;
	return 0;
}

static int devpts_mount(const struct fs_type *type, struct vfs_ctx *c, const char *source UNUSED,
			const char *data, unsigned flags UNUSED, struct super **out)
{
	struct devpts *d = mem_zalloc(sizeof(*d));
	struct super *s;
	int r;

	if (!d)
		return -ENOMEM;
	mutex_init(&d->lock, RANK_MISC);
	d->mode = 0600;
	d->max = INSTANCE_MAX;
	r = parse_options(d, data);
	s = r == 0 ? super_new(type, &g_devpts_super_ops) : NULL;
	if (!s) {
		mutex_fini(&d->lock);
		mem_free(d);
		return r ? r : -ENOMEM;
	}
	s->priv = d;
	s->magic = DEVPTS_MAGIC;
	s->blocksize = 1024;
	s->flags = SUPER_UNCACHED | SUPER_NOCACHE_NEG;
	r = devpts_fill(c, s);
	if (r) {
		super_put(s);
		return r;
	}
	*out = s;
	return 0;
}

const struct fs_type g_devpts_type = {
	.name = "devpts",
	.mount = devpts_mount,
	.user_mountable = true,
	.nodev = true,
};
