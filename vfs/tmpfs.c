/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tmpfs: instances, options, inodes and their attributes.
 *
 * Theory of operation: a name in a directory (struct tdirent) holds a reference to its inode, so
 * files live without being in the dentry cache; the super's shutdown drops the names. An inode
 * charges one inode to its instance, each further hard link one more, pages of content one page
 * each.
 *
 * Deviations from Linux: no huge pages, no quotas, no swap; mpol=, huge=, noswap, inode32 and
 * inode64 are accepted and mean nothing.
 *
 * References: tmpfs(5).
 */
#include "vfs/tmpfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vfs/memfd.h"
#include "vfs/overlay_list.h"
#include "vfs/shown.h"
#include "vfs/tmpfs_node.h"
#include "base/hostcall.h"

static _Atomic uint64_t g_memory; /* 0: not asked yet */

void tmpfs_set_memory(uint64_t bytes)
{
	atomic_store_explicit(&g_memory, bytes, memory_order_relaxed);
}

static uint64_t memory_size(void)
{
	uint64_t m = atomic_load_explicit(&g_memory, memory_order_relaxed);

	if (!m) {
		long pages = HOST(sysinfo_memory, sysconf(_SC_PHYS_PAGES));

		m = pages > 0 ? (uint64_t)pages * MOAT_PAGE_SIZE : (uint64_t)1 << 30;
		tmpfs_set_memory(m);
	}
	return m;
}

uint64_t tmpfs_pages_max(void)
{
	return MIN(memory_size() / 2, meter_limit(METER_file_bytes)) / MOAT_PAGE_SIZE;
}

/* ---- mount options ---- */

/* "123k" in bytes; with @percent also "50%" of the memory. */
static bool parse_size(const char *s, bool percent, uint64_t *out)
{
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	unsigned long long v = strtoull(s, &end, 0);
	unsigned shift = 0;

	if (errno)
		return false;
	if (percent && *end == '%') {
		if (end[1] || v > 1000000)
			return false;
		*out = memory_size() / 100 * v;
		return true;
	}
	static const char units[] = "kmgtpe";
	const char *unit = *end ? strchr(units, *end | 0x20) : NULL;

	if (unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
	}
	if (*end || (v << shift) >> shift != v)
		return false;
	*out = v << shift;
	return true;
}

static bool parse_u32(const char *s, int base, uint32_t max, uint32_t *out)
{
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	unsigned long long v = strtoull(s, &end, base);

	if (errno || *end || v > max)
		return false;
	*out = (uint32_t)v;
	return true;
}

static bool parse_one(const char *key, const char *value, struct tmpfs_opts *o)
{
	static const char *const ignored[] = {"huge", "mpol", "noswap", "inode32", "inode64"};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		if (strcmp(key, ignored[i]) == 0)
			return true;
	if (!value)
		return false;
	if (strcmp(key, "mode") == 0) {
		if (!parse_u32(value, 8, UINT32_MAX, &o->mode))
			return false;
		o->mode &= 07777;
		return true;
	}
	if (strcmp(key, "uid") == 0)
		return parse_u32(value, 0, UINT32_MAX - 1, &o->uid);
	if (strcmp(key, "gid") == 0)
		return parse_u32(value, 0, UINT32_MAX - 1, &o->gid);
	if (strcmp(key, "size") == 0) {
		if (!parse_size(value, true, &v))
			return false;
		o->size = v ? page_up(MIN(v, TMPFS_MAX_SIZE)) : UINT64_MAX; /* 0 is no limit */
		return true;
	}
	if (strcmp(key, "nr_blocks") == 0) {
		if (!parse_size(value, false, &v) || v > TMPFS_MAX_SIZE / MOAT_PAGE_SIZE)
			return false;
		o->size = v ? v * MOAT_PAGE_SIZE : UINT64_MAX;
		return true;
	}
	if (strcmp(key, "nr_inodes") == 0) {
		if (!parse_size(value, false, &v))
			return false;
		o->nr_inodes = v ? v : UINT64_MAX;
		return true;
	}
	return false;
}

int tmpfs_parse_opts(const char *data, struct tmpfs_opts *o)
{
	char *copy = mem_strdup(data ? data : ""), *save = NULL;
	bool ok = true;

	if (!copy)
		return -ENOMEM;
	for (char *w = strtok_r(copy, ",", &save); w && ok; w = strtok_r(NULL, ",", &save)) {
		char *value = strchr(w, '=');

		if (value)
			*value++ = '\0';
		ok = parse_one(w, value, o);
	}
	mem_free(copy);
	return ok ? 0 : -EINVAL;
}

size_t tmpfs_show_options(struct super *s, char *buf, size_t size)
{
	const struct tmpfs_sb *sb = s->priv;
	size_t n = 0;

#define SHOW(...)                                                     \
	do {                                                          \
		int sh_r_ = snprintf(buf + n, size - n, __VA_ARGS__); \
		if (sh_r_ < 0 || (size_t)sh_r_ >= size - n)           \
			return n;                                     \
		n += (size_t)sh_r_;                                   \
	} while (0)
	if (sb->opts.size && sb->opts.size != UINT64_MAX)
		SHOW(",size=%lluk", (unsigned long long)sb->opts.size / 1024);
	if (sb->opts.nr_inodes && sb->opts.nr_inodes != UINT64_MAX)
		SHOW(",nr_inodes=%llu", (unsigned long long)sb->opts.nr_inodes);
	if (sb->lower)
		return n;
	if (sb->opts.mode != 01777)
		SHOW(",mode=%03o", sb->opts.mode);
	if (sb->opts.uid)
		SHOW(",uid=%u", sb->opts.uid);
	if (sb->opts.gid)
		SHOW(",gid=%u", sb->opts.gid);
#undef SHOW
	return n;
}

/* ---- instances ---- */

int tmpfs_super_new(const struct fs_type *type, const struct super_ops *ops,
		    const struct tmpfs_opts *o, struct super **out)
{
	struct tmpfs_sb *sb = mem_zalloc(sizeof(*sb));
	struct super *s = sb ? super_new(type, ops) : NULL;

	if (!s) {
		mem_free(sb);
		return -ENOMEM;
	}
	sb->super = s;
	sb->opts = *o;
	sb->max_pages = o->size == UINT64_MAX
				? UINT64_MAX
				: (o->size ? page_up(o->size) >> PAGE_SHIFT : tmpfs_pages_max());
	sb->max_inodes = o->nr_inodes ? o->nr_inodes : tmpfs_pages_max();
	mutex_init(&sb->lock, RANK_MISC);
	htable_init(&sb->by_lower);
	s->priv = sb;
	s->magic = TMPFS_MAGIC;
	s->blocksize = (uint32_t)MOAT_PAGE_SIZE;
	*out = s;
	return 0;
}

void tmpfs_super_free(struct super *s)
{
	struct tmpfs_sb *sb = s->priv;

	super_put(sb->lower);
	htable_fini(&sb->by_lower);
	mutex_fini(&sb->lock);
	mem_free(sb);
}

void tmpfs_shutdown(struct super *s)
{
	struct tmpfs_sb *sb = s->priv;
	struct tnode *chain = NULL, *t;

	if (sb->lower)
		overlay_unpin_all(sb, &chain);
	if (s->root)
		tdir_drop_all(tnode_of(s->root->inode), &chain);
	/* A loop, not a recursion: guests make deep trees. */
	while ((t = chain)) {
		chain = t->next;
		if (LX_S_ISDIR(inode_mode(t->inode)))
			tdir_drop_all(t, &chain);
		inode_put(t->inode);
	}
}

int tmpfs_statfs(struct super *s, struct kstatfs *out)
{
	struct tmpfs_sb *sb = s->priv;
	uint64_t used = atomic_load(&sb->used_pages), inodes = atomic_load(&sb->used_inodes);

	*out = (struct kstatfs){.type = s->magic,
				.bsize = MOAT_PAGE_SIZE,
				.frsize = MOAT_PAGE_SIZE,
				.namelen = LX_NAME_MAX};
	if (sb->max_pages != UINT64_MAX) {
		out->blocks = sb->max_pages;
		out->bfree = used < sb->max_pages ? sb->max_pages - used : 0;
		out->bavail = out->bfree = MIN(out->bfree, tmpfs_pages_left());
	}
	if (sb->max_inodes != UINT64_MAX) {
		out->files = sb->max_inodes;
		out->ffree = inodes < sb->max_inodes ? sb->max_inodes - inodes : 0;
	}
	return 0;
}

static const struct super_ops g_tmpfs_super_ops = {
	.shutdown = tmpfs_shutdown,
	.free = tmpfs_super_free,
	.statfs = tmpfs_statfs,
	.inode_free = tmpfs_inode_free,
	.show_options = tmpfs_show_options,
};

int tmpfs_new(const struct tmpfs_opts *o, struct super **out)
{
	struct super *s;
	struct inode *root;
	int r = tmpfs_super_new(&g_tmpfs_type, &g_tmpfs_super_ops, o, &s);

	if (r < 0)
		return r;
	r = tmpfs_inode_new(s, LX_S_IFDIR | (o->mode & 07777), 0, true, &root);
	if (r == 0) {
		root->uid = o->uid;
		root->gid = o->gid;
		s->root = dentry_new_root(s, root);
		r = s->root ? 0 : -ENOMEM;
	}
	if (r < 0) {
		super_put(s);
		return r;
	}
	snprintf(s->source, sizeof(s->source), "tmpfs");
	*out = s;
	return 0;
}

static int tmpfs_mount(const struct fs_type *type, struct vfs_ctx *c, const char *source,
		       const char *data, unsigned flags, struct super **out)
{
	struct tmpfs_opts o = TMPFS_OPTS_DEFAULT;
	int r;

	(void)type;
	if (c) {
		o.uid = c->cred->fsuid;
		o.gid = c->cred->fsgid;
	}
	r = tmpfs_parse_opts(data, &o);
	if (r == 0)
		r = tmpfs_new(&o, out);
	if (r < 0)
		return r;
	if (source && *source)
		snprintf((*out)->source, sizeof((*out)->source), "%s", source);
	if (flags & MOUNT_RDONLY)
		(*out)->flags |= SUPER_RDONLY;
	return 0;
}

const struct fs_type g_tmpfs_type = {
	.name = "tmpfs",
	.mount = tmpfs_mount,
	.user_mountable = true,
	.nodev = true,
};

/* ---- inodes ---- */

bool tmpfs_is(const struct inode *i)
{
	return i->super->ops && i->super->ops->inode_free == tmpfs_inode_free;
}

bool tmpfs_charge_inode(struct tmpfs_sb *sb)
{
	if (atomic_fetch_add(&sb->used_inodes, 1) < sb->max_inodes &&
	    meter_charge(METER_file_inodes, 1))
		return true;
	atomic_fetch_sub(&sb->used_inodes, 1);
	return false;
}

void tmpfs_uncharge_inode(struct tmpfs_sb *sb)
{
	atomic_fetch_sub(&sb->used_inodes, 1);
	meter_uncharge(METER_file_inodes, 1);
}

int tmpfs_inode_new(struct super *s, uint32_t mode, uint64_t rdev, bool charge, struct inode **out)
{
	struct tmpfs_sb *sb = s->priv;
	struct tnode *t;
	struct inode *i;

	if (charge && !tmpfs_charge_inode(sb))
		return -ENOSPC;
	t = mem_zalloc(sizeof(*t));
	i = t ? inode_new(s, mode) : NULL;
	if (!i) {
		mem_free(t);
		if (charge)
			tmpfs_uncharge_inode(sb);
		return -ENOMEM;
	}
	t->charged = charge;
	t->inode = i;
	t->sb = sb;
	t->has_data = t->has_xattrs = true;
	atomic_init(&t->seals, LX_F_SEAL_SEAL);
	i->priv = t;
	i->rdev = rdev;
	if (!g_vfs_set_up)
		i->iflags |= INODE_SETUP;
	switch (mode & LX_S_IFMT) {
	case LX_S_IFDIR:
		tdir_init(&t->dir);
		i->ops = &g_tmpfs_dir_iops;
		i->fops = &g_tmpfs_dir_fops;
		i->nlink = 2;
		i->size = 2 * TMPFS_DIRENT_SIZE;
		break;
	case LX_S_IFREG:
		tmpfs_data_init(&t->data, sb);
		i->ops = &g_tmpfs_file_iops;
		i->fops = &g_tmpfs_file_fops;
		break;
	case LX_S_IFLNK:
		i->ops = &g_tmpfs_link_iops;
		break;
	default:
		i->ops = &g_tmpfs_special_iops;
		break;
	}
	*out = i;
	return 0;
}

int tmpfs_inode_new_in(struct vfs_ctx *c, struct inode *dir, uint32_t mode, uint64_t rdev,
		       struct inode **out)
{
	int r = tmpfs_inode_new(dir->super, mode, rdev, true, out);

	if (r == 0 && c)
		inode_init_owner(c, *out, dir, mode);
	return r;
}

void tmpfs_inode_free(struct inode *i)
{
	struct tnode *t = tnode_of(i);

	if (!t)
		return; /* inode_new succeeded, what came after did not */
	if (t->lower)
		overlay_forget(t);
	overlay_list_forget(t);
	switch (inode_mode(i) & LX_S_IFMT) {
	case LX_S_IFDIR:
		tdir_fini(&t->dir);
		break;
	case LX_S_IFREG:
		tmpfs_data_fini(&t->data);
		break;
	case LX_S_IFLNK:
		mem_free(t->target);
		break;
	default:
		break;
	}
	tmpfs_xattrs_free(t);
	if (t->charged)
		tmpfs_uncharge_inode(t->sb);
	inode_put(t->lower);
	mem_free(t);
}

void tmpfs_sync_size(struct inode *i)
{
	struct tmpfs_data *d = &tnode_of(i)->data;

	mutex_lock(&i->meta);
	i->size = d->size;
	i->blocks = d->charged * (MOAT_PAGE_SIZE / 512);
	mutex_unlock(&i->meta);
}

int tmpfs_getattr(struct inode *i, struct kstat *out)
{
	struct tnode *t = tnode_of(i);

	if (LX_S_ISREG(inode_mode(i))) {
		frwlock_read_lock(&t->data.lock);

		bool may_grow = tmpfs_data_may_grow(&t->data);

		frwlock_read_unlock(&t->data.lock);
		if (may_grow) {
			frwlock_write_lock(&t->data.lock);
			tmpfs_data_recharge(&t->data);
			tmpfs_sync_size(i);
			frwlock_write_unlock(&t->data.lock);
		}
	}
	inode_attr(i, out);
	return 0;
}

static int set_size(struct inode *i, uint64_t size)
{
	struct tnode *t = tnode_of(i);
	struct tmpfs_data *d = &t->data;
	int r = tmpfs_seal_check_resize(t, i->size, size);

	if (r < 0)
		return r;
	if (size > TMPFS_MAX_SIZE)
		return -EFBIG;
	if (t->lower) {
		r = overlay_copy_up(i, size);
		if (r < 0)
			return r;
	}
	bool differs = i->size != size;

	frwlock_write_lock(&d->lock);
	inode_changes(i);
	r = tmpfs_data_truncate(d, size);
	tmpfs_sync_size(i);
	frwlock_write_unlock(&d->lock);
	if (r == 0 && differs)
		inode_touch(i, false, true, true);
	return r;
}

int tmpfs_setattr(struct vfs_ctx *c, struct inode *i, const struct iattr *attr)
{
	struct tnode *t = tnode_of(i);
	struct iattr rest = *attr;

	(void)c;
	if ((attr->valid & ATTR_MODE) && (atomic_load(&t->seals) & LX_F_SEAL_EXEC) &&
	    ((attr->mode ^ inode_mode(i)) & 0111))
		return -EPERM;
	if ((attr->valid & ATTR_SIZE) && LX_S_ISREG(inode_mode(i))) {
		int r = set_size(i, attr->size);

		if (r < 0)
			return r;
	}
	rest.valid &= ~ATTR_SIZE;
	if (t->lower) {
		t->changed = true;
		overlay_pin(i);
	}
	inode_apply_attr(i, &rest);
	return 0;
}

static ssize_t link_readlink(struct inode *i, char *buf, size_t size)
{
	struct tnode *t = tnode_of(i);

	if (!t->target)
		return t->lower->ops->readlink(t->lower, buf, size);
	size_t n = MIN(size, (size_t)i->size);

	memcpy(buf, t->target, n);
	return (ssize_t)n;
}

const struct inode_ops g_tmpfs_link_iops = {
	.readlink = link_readlink,
	TMPFS_ATTR_OPS,
};

const struct inode_ops g_tmpfs_special_iops = {
	TMPFS_ATTR_OPS,
};
