/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tmpfs directories: entries, and the operations that change them.
 *
 * Theory of operation: entries stand in a hash table by name and in a tree by *cookie*, a number
 * that only grows within a directory. The cookie is the position that readdir gives out, so a scan
 * goes on where it was whatever comes and goes meanwhile: what is new comes at the end, what is
 * gone is skipped.
 *
 * An operation first takes the *slots* it will need (the entry of a name, made empty if there is
 * none), looks all up that may fail, and then commits. An empty slot is never seen by others: it
 * lives only under the directory's lock, and goes if the operation fails.
 *
 * In an overlay a directory with a lower shows the lower's names too, but those for which it has an
 * entry. Removing a lower name leaves a *white* entry, which hides it. A directory whose lower is
 * NULL hides nothing and shows nothing of below: that is what is called opaque elsewhere. See
 * overlay.c.
 *
 * Locking: inode->lock of the directories and of victims, held by the caller (vfs.h).
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/lx_fcntl.h"
#include "vfs/dcache.h"
#include "vfs/tmpfs_node.h"

/* ---- entries ---- */

static int cmp_cookie(const struct tdirent *a, const struct tdirent *b)
{
	return a->cookie < b->cookie ? -1 : a->cookie > b->cookie;
}

RB_GENERATE_INTERNAL(tdir_tree, tdirent, link, cmp_cookie, UNUSED static)

/* Positions 0 and 1 are "." and "..". In an overlay the lower's names come next (overlay.c), far
 * below this. */
#define FIRST_COOKIE ((uint64_t)1 << 40)

void tdir_init(struct tdir *t)
{
	htable_init(&t->names);
	RB_INIT(&t->order);
	t->next_cookie = FIRST_COOKIE;
}

struct name_key {
	const char *name;
	size_t len;
};

static bool name_eq(const void *entry, const void *key)
{
	const struct tdirent *e = entry;
	const struct name_key *k = key;

	return e->len == k->len && memcmp(e->name, k->name, k->len) == 0;
}

struct tdirent *tdir_find(struct tdir *t, const char *name, size_t len)
{
	struct name_key k = {name, len};

	return htable_find(&t->names, hash_bytes(name, len, 0), name_eq, &k);
}

struct tdirent *tdir_from(struct tdir *t, uint64_t cookie)
{
	struct tdirent key = {.cookie = cookie};

	return tdir_tree_RB_NFIND(&t->order, &key);
}

struct tdirent *tdir_next(struct tdir *t, struct tdirent *e)
{
	(void)t;
	return tdir_tree_RB_NEXT(e);
}

static void entry_free(struct tdir *t, struct tdirent *e)
{
	htable_remove(&t->names, e->hash, e);
	tdir_tree_RB_REMOVE(&t->order, e);
	mem_free(e);
}

void tdir_fini(struct tdir *t)
{
	struct tdirent *e;

	BUG_ON(t->live != 0);
	while ((e = RB_ROOT(&t->order)))
		entry_free(t, e);
	htable_fini(&t->names);
}

void tdir_drop_all(struct tnode *dir, struct tnode **chain)
{
	struct tdir *t = &dir->dir;
	struct tdirent *e;

	while ((e = RB_ROOT(&t->order))) {
		struct inode *i = e->inode;

		entry_free(t, e);
		if (!i)
			continue;
		t->live--;
		struct tnode *child = tnode_of(i);

		if (LX_S_ISDIR(inode_mode(i)) && !child->chained) {
			child->chained = true;
			child->next = *chain;
			*chain = child;
		} else {
			inode_put(i);
		}
	}
}

/* The entry of a name, an empty one if there was none. */
static int slot_get(struct inode *dir, const char *name, size_t len, struct tdirent **out)
{
	struct tdir *t = &tnode_of(dir)->dir;
	struct tdirent *e = tdir_find(t, name, len);

	if (!e) {
		e = mem_zalloc(sizeof(*e) + len);
		if (!e)
			return -ENOMEM;
		e->hash = hash_bytes(name, len, 0);
		e->len = (uint16_t)len;
		memcpy(e->name, name, len);
		if (htable_insert(&t->names, e->hash, e) < 0) {
			mem_free(e);
			return -ENOMEM;
		}
		e->cookie = t->next_cookie++;
		tdir_tree_RB_INSERT(&t->order, e);
	}
	*out = e;
	return 0;
}

/* Gives back a slot that was not used. */
static void slot_undo(struct inode *dir, struct tdirent *e)
{
	if (e && !e->inode && !e->white)
		entry_free(&tnode_of(dir)->dir, e);
}

/* The slot names @i from now on; takes the reference. */
static void slot_set(struct inode *dir, struct tdirent *e, struct inode *i)
{
	struct tdir *t = &tnode_of(dir)->dir;

	if (!e->inode)
		t->live++;
	e->inode = i;
	e->white = false;
}

/* The slot names nothing from now on; the reference of what it named is the caller's. */
static void slot_clear(struct inode *dir, struct tdirent *e, bool white)
{
	struct tdir *t = &tnode_of(dir)->dir;

	if (e->inode)
		t->live--;
	e->inode = NULL;
	e->white = white;
	if (!white)
		entry_free(t, e);
}

/* ---- what changes besides ---- */

/* @dir was written to: times, size (as Linux counts it), subdirectories. */
static void dir_changed(struct inode *dir, int entries, int subdirs)
{
	mutex_lock(&dir->meta);
	if (!tnode_of(dir)->lower)
		dir->size += (uint64_t)((int64_t)entries * (int64_t)TMPFS_DIRENT_SIZE);
	/* File systems that do not count subdirectories say 1. */
	if (dir->nlink >= 2)
		__atomic_store_n(&dir->nlink, dir->nlink + (uint32_t)subdirs, __ATOMIC_RELAXED);
	mutex_unlock(&dir->meta);
	inode_touch(dir, false, true, true);
	if (tnode_of(dir)->lower)
		overlay_pin(dir);
}

/* One name of @i is gone. @was_entry: it was one of ours, which held a reference. */
static void name_gone(struct inode *i, bool was_entry)
{
	struct tnode *t = tnode_of(i);
	bool dir = LX_S_ISDIR(inode_mode(i));
	uint32_t left;

	mutex_lock(&i->meta);
	left = dir || !i->nlink ? 0 : i->nlink - 1;
	__atomic_store_n(&i->nlink, left, __ATOMIC_RELAXED);
	if (dir)
		__atomic_store_n(&i->iflags, i->iflags | INODE_DEAD, __ATOMIC_RELAXED);
	mutex_unlock(&i->meta);
	inode_touch(i, false, false, true);
	if (t->lower) {
		/* Other names of a lower file are found by way of the pin. */
		if (left)
			overlay_pin(i);
		else
			overlay_unpin(i);
	} else if (left) {
		tmpfs_uncharge_inode(t->sb);
	}
	if (was_entry)
		inode_put(i); /* the caller has one of its own */
}

/* Must removing @name leave a white entry? 1, 0, -errno. */
static int white_needed(struct inode *dir, const char *name, size_t len)
{
	return tnode_of(dir)->lower ? overlay_lower_has(dir, name, len) : 0;
}

/* 0 if @dir may be removed, -ENOTEMPTY, -errno. */
static int check_empty(struct inode *dir)
{
	if (tnode_of(dir)->dir.live)
		return -ENOTEMPTY;
	if (!tnode_of(dir)->lower)
		return 0;
	int r = overlay_dir_empty(dir);

	return r < 0 ? r : r ? 0 : -ENOTEMPTY;
}

static bool is_dead(const struct inode *dir)
{
	return __atomic_load_n(&dir->iflags, __ATOMIC_RELAXED) & INODE_DEAD;
}

/* ---- operations ---- */

static int dir_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	struct tnode *t = tnode_of(dir);
	struct tdirent *e = tdir_find(&t->dir, name, len);

	if (e) {
		if (!e->inode)
			return -ENOENT;
		*out = inode_get(e->inode);
		return 0;
	}
	return t->lower ? overlay_lower_lookup(dir, name, len, out) : -ENOENT;
}

/* Makes a file of any type; @target for symlinks. */
static int make(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len, uint32_t mode,
		uint64_t rdev, const char *target, struct inode **out)
{
	struct tdirent *e;
	struct inode *i;
	int r;

	if (is_dead(dir))
		return -ENOENT;
	r = slot_get(dir, name, len, &e);
	if (r < 0)
		return r;
	if (e->inode)
		return -EEXIST;
	r = tmpfs_inode_new_in(c, dir, mode, rdev, &i);
	if (r < 0)
		goto undo;
	if (target) {
		size_t size = strlen(target);

		tnode_of(i)->target = mem_dup(target, size + 1);
		if (!tnode_of(i)->target) {
			inode_put(i);
			r = -ENOMEM;
			goto undo;
		}
		i->size = size;
	}
	slot_set(dir, e, i);
	dir_changed(dir, 1, LX_S_ISDIR(mode) ? 1 : 0);
	*out = inode_get(i);
	return 0;
undo:
	slot_undo(dir, e);
	return r;
}

static int dir_create(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		      uint32_t mode, struct inode **out)
{
	return make(c, dir, name, len, LX_S_IFREG | (mode & 07777), 0, NULL, out);
}

static int dir_mkdir(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		     uint32_t mode, struct inode **out)
{
	return make(c, dir, name, len, LX_S_IFDIR | (mode & 07777), 0, NULL, out);
}

static int dir_mknod(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		     uint32_t mode, uint64_t rdev, struct inode **out)
{
	return make(c, dir, name, len, mode, rdev, NULL, out);
}

static int dir_symlink(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		       const char *target, struct inode **out)
{
	return make(c, dir, name, len, LX_S_IFLNK | 0777, 0, target, out);
}

static int dir_tmpfile(struct vfs_ctx *c, struct inode *dir, uint32_t mode, struct inode **out)
{
	int r = tmpfs_inode_new_in(c, dir, LX_S_IFREG | (mode & 07777), 0, out);

	if (r == 0)
		(*out)->nlink = 0;
	return r;
}

static int dir_link(struct inode *dir, const char *name, size_t len, struct inode *target)
{
	struct tnode *t = tnode_of(target);
	struct tdirent *e;
	int r;

	if (is_dead(dir))
		return -ENOENT;
	/* Each name costs memory: all but the first count as inodes. */
	bool charge = !t->lower && target->nlink > 0;

	if (charge && !tmpfs_charge_inode(t->sb))
		return -ENOSPC;
	r = slot_get(dir, name, len, &e);
	if (r < 0 || e->inode) {
		if (charge)
			tmpfs_uncharge_inode(t->sb);
		return r < 0 ? r : -EEXIST;
	}
	slot_set(dir, e, inode_get(target));
	mutex_lock(&target->meta);
	__atomic_store_n(&target->nlink, target->nlink + 1, __ATOMIC_RELAXED);
	mutex_unlock(&target->meta);
	inode_touch(target, false, false, true);
	if (t->lower) {
		t->changed = true;
		overlay_pin(target);
	}
	dir_changed(dir, 1, 0);
	return 0;
}

static int remove_name(struct inode *dir, const char *name, size_t len, struct inode *victim)
{
	struct tdirent *e = tdir_find(&tnode_of(dir)->dir, name, len);
	bool was_entry = e && e->inode;
	int white = white_needed(dir, name, len);

	if (white < 0)
		return white;
	if (!e) {
		if (!white)
			return -ENOENT;
		int r = slot_get(dir, name, len, &e);

		if (r < 0)
			return r;
	}
	slot_clear(dir, e, white);
	dir_changed(dir, -1, LX_S_ISDIR(inode_mode(victim)) ? -1 : 0);
	name_gone(victim, was_entry);
	return 0;
}

static int dir_unlink(struct inode *dir, const char *name, size_t len, struct inode *victim)
{
	return remove_name(dir, name, len, victim);
}

static int dir_rmdir(struct inode *dir, const char *name, size_t len, struct inode *victim)
{
	int r = check_empty(victim);

	return r < 0 ? r : remove_name(dir, name, len, victim);
}

static int exchange(struct inode *old_dir, struct tdirent *from, struct inode *inode,
		    struct inode *new_dir, struct tdirent *to, struct inode *other)
{
	int dirs =
		(LX_S_ISDIR(inode_mode(other)) ? 1 : 0) - (LX_S_ISDIR(inode_mode(inode)) ? 1 : 0);

	/* A lower name had no entry, so no reference was held for it. */
	if (!from->inode)
		inode_get(inode);
	if (!to->inode)
		inode_get(other);
	slot_set(old_dir, from, other);
	slot_set(new_dir, to, inode);
	if (old_dir == new_dir)
		dirs = 0;
	dir_changed(old_dir, 0, dirs);
	dir_changed(new_dir, 0, -dirs);
	inode_touch(inode, false, false, true);
	inode_touch(other, false, false, true);
	return 0;
}

static int dir_rename(struct inode *old_dir, const char *old_name, size_t old_len,
		      struct inode *inode, struct inode *new_dir, const char *new_name,
		      size_t new_len, struct inode *victim, unsigned flags)
{
	struct tdirent *from = NULL, *to = NULL;
	struct inode *whiteout = NULL;
	int r, white = 0;
	int subdir = LX_S_ISDIR(inode_mode(inode)) ? 1 : 0;

	if (is_dead(new_dir))
		return -ENOENT;
	if (victim && LX_S_ISDIR(inode_mode(victim)) && !(flags & LX_RENAME_EXCHANGE)) {
		r = check_empty(victim);
		if (r < 0)
			return r;
	}
	r = slot_get(old_dir, old_name, old_len, &from);
	if (r == 0)
		r = slot_get(new_dir, new_name, new_len, &to);
	if (r == 0 && (flags & LX_RENAME_EXCHANGE))
		return exchange(old_dir, from, inode, new_dir, to, victim);
	if (r == 0) {
		white = white_needed(old_dir, old_name, old_len);
		r = MIN(white, 0);
	}
	if (r == 0 && (flags & LX_RENAME_WHITEOUT)) {
		r = tmpfs_inode_new(old_dir->super, LX_S_IFCHR, 0, true, &whiteout);
		if (r == 0) {
			whiteout->uid = old_dir->uid;
			whiteout->gid = old_dir->gid;
		}
	}
	if (r < 0) {
		slot_undo(old_dir, from);
		slot_undo(new_dir, to);
		return r;
	}

	bool victim_was_entry = to->inode != NULL;

	if (!from->inode)
		inode_get(inode);
	slot_set(new_dir, to, inode);
	if (whiteout) {
		slot_set(old_dir, from, whiteout);
		/* The name stays, with another file. */
		dir_changed(old_dir, 0, -subdir);
	} else {
		slot_clear(old_dir, from, white);
		dir_changed(old_dir, -1, -subdir);
	}
	dir_changed(new_dir, victim ? 0 : 1,
		    subdir - (victim && LX_S_ISDIR(inode_mode(victim)) ? 1 : 0));
	if (victim)
		name_gone(victim, victim_was_entry);
	inode_touch(inode, false, false, true);
	return 0;
}

/* ---- reading ---- */

static uint64_t parent_ino(struct file *f)
{
	struct dentry *p = dentry_get_parent(f->path.dentry);
	uint64_t ino = p->inode->ino;

	dentry_put(p);
	return ino;
}

/* "." and "..", if the position is there. False: the consumer is full. */
bool tdir_emit_dots(struct file *f, struct dir_ctx *ctx)
{
	if (f->pos == 0) {
		if (!ctx->emit(ctx, ".", 1, f->inode->ino, LX_DT_DIR, 1))
			return false;
		f->pos = 1;
	}
	if (f->pos == 1) {
		if (!ctx->emit(ctx, "..", 2, parent_ino(f), LX_DT_DIR, 2))
			return false;
		f->pos = 2;
	}
	return true;
}

/* Entries with an inode, from the position on. */
int tdir_emit_entries(struct file *f, struct dir_ctx *ctx)
{
	struct tdir *t = &tnode_of(f->inode)->dir;

	for (struct tdirent *e = tdir_from(t, (uint64_t)f->pos); e; e = tdir_next(t, e)) {
		int64_t next = (int64_t)e->cookie + 1;

		if (!e->inode)
			continue;
		if (!ctx->emit(ctx, e->name, e->len, e->inode->ino,
			       (inode_mode(e->inode) & LX_S_IFMT) >> 12, next))
			return 0;
		f->pos = next;
	}
	return 0;
}

static int dir_iterate(struct file *f, struct dir_ctx *ctx)
{
	if (!tdir_emit_dots(f, ctx))
		return 0;
	if (tnode_of(f->inode)->lower)
		return overlay_iterate(f, ctx);
	return tdir_emit_entries(f, ctx);
}

static void dir_release(struct file *f)
{
	if (f->priv)
		overlay_dir_release(f);
}

static int no_fsync(struct file *f, bool data_only)
{
	(void)f;
	(void)data_only;
	return 0;
}

const struct file_ops g_tmpfs_dir_fops = {
	.iterate = dir_iterate,
	.lseek = file_lseek_endless,
	.release = dir_release,
	.fsync = no_fsync,
};

const struct inode_ops g_tmpfs_dir_iops = {
	.lookup = dir_lookup,
	.create = dir_create,
	.mkdir = dir_mkdir,
	.mknod = dir_mknod,
	.symlink = dir_symlink,
	.link = dir_link,
	.unlink = dir_unlink,
	.rmdir = dir_rmdir,
	.rename = dir_rename,
	.tmpfile = dir_tmpfile,
	TMPFS_ATTR_OPS,
};
