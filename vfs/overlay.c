/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlay: a tmpfs on top of a read-only host tree.
 *
 * Theory of operation: one inode per file, not one per layer. An overlay's inode is a tmpfs inode
 * (tmpfs_node.h) that may have a *lower*, an inode of an immutable hostfs, and shows the lower's
 * children, content, target and xattrs as long as it has none of its own. "Copy-up" fills the same
 * inode: whoever has it open or cached sees the change, and its number does not change.
 *
 * Finding: a name is first looked for among the directory's own entries (tmpfs_dir.c), which may
 * also say that it is gone (white); then in the lower directory. What is found there becomes an
 * inode by way of a table, sb->by_lower, so that hard links of the lower, and a file that was
 * changed and then forgotten by the dentry cache, lead to the same inode. An inode that differs
 * from its lower is *pinned*: the table holds a reference, until its last name is gone. Parents
 * need no copies: a changed file is found through its lower.
 *
 * Renaming moves the inode, with its lower: a directory's children come along without a copy.
 * Opaque is a directory without a lower.
 *
 * Reading a directory with a lower: first the lower's names, less those for which the directory has
 * an entry, then the directory's own. The lower never changes and its order stays, so a name's
 * position is its index; own entries have cookies far above.
 *
 * Deviations from Linux's overlayfs, all towards a plain file system: an open read-only file sees
 * later writes (but a mapping of it made before the first write does not), hard links stay
 * together, directories can be renamed, st_dev and st_ino are those of one file system. FIFOs and
 * device nodes of the lower are those of the sandbox.
 *
 * Locking: inode->lock of the overlay's inode, then of the lower's. sb->lock guards the table and
 * tnode.pinned.
 */
#include "vfs/overlay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "vfs/hostfs.h"
#include "vfs/overlay_list.h"
#include "vfs/shown.h"
#include "vfs/tmpfs_node.h"

/* Numbers of new files; those of lower files are the host's, below this on any file system with
 * 32-bit or dense numbers. */
#define FIRST_NEW_INO ((uint64_t)1 << 48)

static uint64_t lower_hash(const struct inode *lower)
{
	return hash_u64((uint64_t)(uintptr_t)lower);
}

/* ---- from the lower to the overlay ---- */

static bool lower_eq(const void *entry, const void *key)
{
	const struct tnode *t = entry;

	return t->lower == key && ref_read(&t->inode->ref) > 0;
}

/* An inode that shows @lower (a reference, taken on success). */
static int wrap(struct tmpfs_sb *sb, struct inode *lower, struct inode **out)
{
	struct inode *i;
	struct tnode *t;
	int r;

	/* Does not count as an inode while nothing is written. */
	r = tmpfs_inode_new(sb->super, lower->mode, lower->rdev, false, &i);
	if (r < 0)
		return r;
	t = tnode_of(i);
	t->lower = lower;
	t->has_data = !LX_S_ISREG(lower->mode);
	t->has_xattrs = false;
	mutex_lock(&lower->meta);
	i->ino = lower->ino;
	i->mode = lower->mode;
	i->uid = lower->uid;
	i->gid = lower->gid;
	i->nlink = lower->nlink;
	i->size = lower->size;
	i->blocks = lower->blocks;
	i->atime = lower->atime;
	i->mtime = lower->mtime;
	i->ctime = lower->ctime;
	i->btime = lower->btime;
	mutex_unlock(&lower->meta);
	*out = i;
	return 0;
}

/* The overlay's inode for @lower, a reference that is taken in any case. */
static int inode_for(struct tmpfs_sb *sb, struct inode *lower, struct inode **out)
{
	struct inode *fresh = NULL, *found = NULL;
	int r = 0;

	for (;;) {
		mutex_lock(&sb->lock);
		struct tnode *t = htable_find(&sb->by_lower, lower_hash(lower), lower_eq, lower);

		if (t && ref_get_unless_zero(&t->inode->ref)) {
			found = t->inode;
		} else if (fresh) {
			r = htable_insert(&sb->by_lower, lower_hash(lower), tnode_of(fresh));
			if (r == 0) {
				found = fresh;
				fresh = NULL;
			}
		}
		mutex_unlock(&sb->lock);
		if (found || r < 0)
			break;
		r = wrap(sb, lower, &fresh);
		if (r < 0)
			break;
		inode_get(lower); /* ours to give back below; the wrapper has its own */
	}
	if (fresh)
		inode_put(fresh);
	inode_put(lower);
	*out = found;
	return r;
}

void overlay_forget(struct tnode *t)
{
	struct tmpfs_sb *sb = t->sb;

	mutex_lock(&sb->lock);
	htable_remove(&sb->by_lower, lower_hash(t->lower), t);
	mutex_unlock(&sb->lock);
}

void overlay_pin(struct inode *i)
{
	struct tnode *t = tnode_of(i);

	mutex_lock(&t->sb->lock);
	/* One that has no name left is not to be found again. */
	if (!t->pinned && __atomic_load_n(&i->nlink, __ATOMIC_RELAXED) > 0) {
		t->pinned = true;
		inode_get(i);
		if (!t->charged) {
			atomic_fetch_add(&t->sb->used_inodes, 1);
			meter_charge_found(METER_file_inodes, 1);
		}
		t->charged = true;
	}
	mutex_unlock(&t->sb->lock);
}

void overlay_unpin(struct inode *i)
{
	struct tnode *t = tnode_of(i);
	bool was;

	mutex_lock(&t->sb->lock);
	was = t->pinned;
	t->pinned = false;
	mutex_unlock(&t->sb->lock);
	if (was)
		inode_put(i);
}

void overlay_unpin_all(struct tmpfs_sb *sb, struct tnode **chain)
{
	size_t pos = 0;
	struct tnode *t;

	mutex_lock(&sb->lock);
	while ((t = htable_next(&sb->by_lower, &pos))) {
		if (!t->pinned)
			continue;
		t->pinned = false;
		t->chained = true;
		t->next = *chain;
		*chain = t;
	}
	mutex_unlock(&sb->lock);
}

static int lower_find(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	struct inode *lower = tnode_of(dir)->lower;
	int r;

	fmutex_lock(&lower->lock);
	r = lower->ops->lookup(lower, name, len, out);
	fmutex_unlock(&lower->lock);
	return r;
}

int overlay_lower_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	struct inode *lower;
	int r = lower_find(dir, name, len, &lower);

	return r < 0 ? r : inode_for(tnode_of(dir)->sb, lower, out);
}

int overlay_lower_has(struct inode *dir, const char *name, size_t len)
{
	struct inode *lower;
	int r = lower_find(dir, name, len, &lower);

	if (r == 0)
		inode_put(lower);
	return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

/* ---- copy-up ---- */

#define COPY_PIECE ((size_t)64 << 10)

/* Copies @size bytes of the lower into @d, which nobody else sees yet; holes stay holes where the
 * host tells them. */
static int copy_data(struct inode *lower, struct tmpfs_data *d, uint64_t size)
{
	char *buf = mem_realloc(NULL, COPY_PIECE);
	uint64_t at = 0;
	int r = buf ? 0 : -ENOMEM;

	while (r == 0 && at < size) {
		int64_t data = hostfs_content_seek(lower, (int64_t)at, 3 /* SEEK_DATA */);
		struct uio_seg seg;
		struct uio u;

		if (data == -ENXIO)
			break;
		if (data > (int64_t)at)
			at = (uint64_t)data;
		if (at >= size)
			break;
		ssize_t n = hostfs_content_read_kernel(lower, buf, MIN(COPY_PIECE, size - at),
						       (int64_t)at);

		if (n == 0)
			break; /* shorter than it says */
		if (n > 0) {
			uio_init_kernel(&u, &seg, buf, (size_t)n);
			ssize_t put = tmpfs_data_write(d, &u, at);

			if (put != n)
				n = put < 0 ? put : -ENOSPC;
		}
		if (n < 0)
			r = (int)n;
		else
			at += (uint64_t)n;
	}
	mem_free(buf);
	return r;
}

int overlay_copy_up(struct inode *i, uint64_t size)
{
	struct tnode *t = tnode_of(i);
	struct tmpfs_data copy = {.memfd = -1, .sb = t->sb}, *d = &t->data;
	int r;

	if (!LX_S_ISREG(inode_mode(i)) || t->has_data)
		return 0;
	size = MIN(size, i->size);
	/* Aside first: whoever reads meanwhile reads the lower. */
	r = copy_data(t->lower, &copy, size);
	if (r == 0 && copy.size < size)
		r = tmpfs_data_truncate(&copy, size);
	if (r < 0) {
		tmpfs_data_drop(&copy);
		return r;
	}
	frwlock_write_lock(&d->lock);
	inode_changes(i);
	tmpfs_data_take(d, &copy);
	t->has_data = true;
	tmpfs_sync_size(i);
	frwlock_write_unlock(&d->lock);
	overlay_pin(i);
	return 0;
}

int overlay_copy_up_xattrs(struct inode *i)
{
	struct tnode *t = tnode_of(i);
	struct inode *lower = t->lower;
	char *names = NULL, *value = NULL;
	ssize_t n = lower->ops->listxattr ? lower->ops->listxattr(lower, NULL, 0) : 0;
	int r = 0;

	if (n > 0) {
		names = mem_zalloc((size_t)n);
		value = mem_zalloc(65536);
		n = names && value ? lower->ops->listxattr(lower, names, (size_t)n) : -ENOMEM;
	}
	r = (int)MIN(n, 0);
	t->has_xattrs = true; /* so that setting goes to the list */
	for (ssize_t at = 0; r == 0 && at < n;) {
		ssize_t size = lower->ops->getxattr(lower, names + at, value, 65536);

		if (size < 0)
			r = (int)size;
		else
			r = tmpfs_setxattr(i, names + at, value, (size_t)size, 0);
		at += (ssize_t)strlen(names + at) + 1;
	}
	if (r < 0) {
		mutex_lock(&i->meta);
		tmpfs_xattrs_free(t);
		t->xattr_bytes = 0;
		mutex_unlock(&i->meta);
		t->has_xattrs = false;
	} else {
		t->changed = true;
		overlay_pin(i);
	}
	mem_free(names);
	mem_free(value);
	return r;
}

/* ---- reading directories ---- */

void overlay_dir_release(struct file *f)
{
	overlay_list_put(f->priv);
}

/* Positions: "." and ".." are 0 and 1, then the lower's names from 2 on, then our cookies. */
int overlay_iterate(struct file *f, struct dir_ctx *ctx)
{
	struct inode *dir = f->inode;
	struct tdir *own = &tnode_of(dir)->dir;
	struct lower_list *l = f->priv;
	struct tdirent *first = tdir_from(own, 0);
	int r;

	if (!l) {
		r = overlay_list_get(dir, &l);
		if (r < 0)
			return r;
		f->priv = l;
	}
	for (uint64_t n = (uint64_t)f->pos - 2; n < l->count; n++) {
		const struct lower_name *e = &l->entry[n];
		const char *name = l->text + e->name;

		if (first && tdir_find(own, name, e->len)) {
			f->pos = (int64_t)n + 3;
			continue;
		}
		if (!ctx->emit(ctx, name, e->len, e->ino, e->dtype, (int64_t)n + 3))
			return 0;
		f->pos = (int64_t)n + 3;
	}
	return tdir_emit_entries(f, ctx);
}

struct empty_check {
	struct tdir *own;
	bool found;
};

static int empty_step(void *arg, const char *name, size_t len, uint64_t ino, unsigned dtype)
{
	struct empty_check *c = arg;

	(void)ino;
	(void)dtype;
	if (tdir_find(c->own, name, len))
		return 0;
	c->found = true;
	return 1;
}

int overlay_dir_empty(struct inode *dir)
{
	struct empty_check c = {.own = &tnode_of(dir)->dir};
	int r;

	if (c.own->live)
		return 0;
	r = hostfs_list(tnode_of(dir)->lower, empty_step, &c);
	return r < 0 ? r : !c.found;
}

/* ---- instances ---- */

static const struct super_ops g_overlay_super_ops = {
	.shutdown = tmpfs_shutdown,
	.free = tmpfs_super_free,
	.statfs = tmpfs_statfs,
	.inode_free = tmpfs_inode_free,
	.show_options = tmpfs_show_options,
};

const struct fs_type g_overlay_type = {.name = "overlay", .nodev = true};

int overlay_new(struct super *lower, const struct tmpfs_opts *o, struct super **out)
{
	struct super *s;
	struct tmpfs_sb *sb;
	struct inode *root;
	int r;

	if (!hostfs_is(lower) || (lower->flags & SUPER_REVALIDATE))
		return -EINVAL;
	r = tmpfs_super_new(&g_overlay_type, &g_overlay_super_ops, o, &s);
	if (r < 0)
		return r;
	sb = s->priv;
	sb->lower = super_get(lower);
	s->magic = OVERLAY_MAGIC;
	atomic_store(&s->next_ino, FIRST_NEW_INO);
	snprintf(s->source, sizeof(s->source), "overlay");
	r = inode_for(sb, inode_get(lower->root->inode), &root);
	if (r == 0) {
		overlay_pin(root);
		s->root = dentry_new_root(s, root);
		r = s->root ? 0 : -ENOMEM;
	}
	if (r < 0) {
		super_put(s);
		return r;
	}
	*out = s;
	return 0;
}
