/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlay: what a run changed. For `moat diff` and `--save`.
 *
 * Theory of operation: a changed file is either named by one of our own entries (tmpfs_dir.c), or
 * it is a pinned inode that is found through its lower, in which case no directory above it knows.
 * So first the lower directories above all pinned inodes are marked, and then the tree is walked
 * from the root, into directories that have entries or are marked, and into all of what is new.
 *
 * A list of directories to do, not a recursion: guests make deep trees.
 *
 * Locking: inode->lock of one directory at a time, while its names are collected. The lower tree's
 * names are read without a lock, so nobody else may use the overlay meanwhile.
 */
#include <errno.h>
#include <string.h>

#include "vfs/hostfs.h"
#include "vfs/overlay.h"
#include "vfs/tmpfs_node.h"

/* A directory to be walked. */
struct todo {
	SLIST_ENTRY(todo) link;
	struct inode *dir; /* a reference */
	bool all;          /* all that is in it is new */
	char path[];
};
SLIST_HEAD(todo_list, todo);

/* A name in the directory at hand. */
struct found {
	STAILQ_ENTRY(found) link;
	struct inode *inode; /* a reference; NULL: deleted */
	bool own;            /* by an entry of ours */
	char name[];
};
STAILQ_HEAD(found_list, found);

struct walk_changes {
	struct tmpfs_sb *sb;
	struct htable marked; /* lower directories with something changed below */
	struct todo_list todo;
	struct found_list found;
	struct inode *dir; /* the one at hand */
	bool all;
	int (*fn)(void *arg, const struct overlay_change *ch);
	void *arg;
};

static uint64_t mark_hash(const struct inode *lower)
{
	return hash_u64((uint64_t)(uintptr_t)lower);
}

static bool same_pointer(const void *entry, const void *key)
{
	return entry == key;
}

static bool is_marked(const struct walk_changes *w, const struct inode *lower)
{
	return htable_find(&w->marked, mark_hash(lower), same_pointer, lower) != NULL;
}

static int mark_above(struct walk_changes *w, struct inode *lower)
{
	struct inode *dir;
	const char *name;

	while (hostfs_parent(lower, &dir, &name) && !is_marked(w, dir)) {
		int r = htable_insert(&w->marked, mark_hash(dir), dir);

		if (r < 0)
			return r;
		lower = dir;
	}
	return 0;
}

static int mark_all(struct walk_changes *w)
{
	size_t pos = 0;
	struct tnode *t;
	int r = 0;

	mutex_lock(&w->sb->lock);
	while (r == 0 && (t = htable_next(&w->sb->by_lower, &pos)))
		if (t->pinned)
			r = mark_above(w, t->lower);
	mutex_unlock(&w->sb->lock);
	return r;
}

static int found_add(struct walk_changes *w, const char *name, size_t len, struct inode *i,
		     bool own)
{
	struct found *f = mem_zalloc(sizeof(*f) + len + 1);

	if (!f) {
		if (i)
			inode_put(i);
		return -ENOMEM;
	}
	memcpy(f->name, name, len);
	f->inode = i;
	f->own = own;
	STAILQ_INSERT_TAIL(&w->found, f, link);
	return 0;
}

static int lower_name(void *arg, const char *name, size_t len, uint64_t ino, unsigned dtype)
{
	struct walk_changes *w = arg;
	struct inode *i;

	(void)ino;
	(void)dtype;
	if (tdir_find(&tnode_of(w->dir)->dir, name, len))
		return 0;
	int r = overlay_lower_lookup(w->dir, name, len, &i);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (w->all || tnode_of(i)->pinned || is_marked(w, tnode_of(i)->lower))
		return found_add(w, name, len, i, false);
	inode_put(i);
	return 0;
}

/* The names in w->dir that may have changed. */
static int collect(struct walk_changes *w)
{
	struct tnode *t = tnode_of(w->dir);
	int r = 0;

	fmutex_lock(&w->dir->lock);
	for (struct tdirent *e = tdir_from(&t->dir, 0); e && r == 0; e = tdir_next(&t->dir, e))
		r = found_add(w, e->name, e->len, e->inode ? inode_get(e->inode) : NULL, true);
	if (r == 0 && t->lower && (w->all || is_marked(w, t->lower)))
		r = hostfs_list(t->lower, lower_name, w);
	fmutex_unlock(&w->dir->lock);
	return r;
}

/* What happened to the name? False: nothing that is to be told. */
static bool judge(struct walk_changes *w, const struct found *f, struct overlay_change *ch,
		  bool *all, int *err)
{
	struct tnode *t = f->inode ? tnode_of(f->inode) : NULL;
	bool is_lower = !f->own; /* still the file that the lower has under this name */

	*all = w->all;
	*err = 0;
	ch->inode = f->inode;
	ch->content_changed = false;
	if (!t) {
		ch->kind = OVERLAY_DELETED;
		return !w->all;
	}
	if (w->all) {
		ch->kind = OVERLAY_ADDED;
		ch->content_changed = LX_S_ISREG(inode_mode(f->inode));
		return true;
	}
	if (f->own && tnode_of(w->dir)->lower) {
		struct inode *low = NULL, *lower_dir = tnode_of(w->dir)->lower;

		fmutex_lock(&lower_dir->lock);
		int r = lower_dir->ops->lookup(lower_dir, f->name, strlen(f->name), &low);

		fmutex_unlock(&lower_dir->lock);
		if (r < 0 && r != -ENOENT) {
			*err = r;
			return false;
		}
		ch->kind = low ? OVERLAY_REPLACED : OVERLAY_ADDED;
		is_lower = low && low == t->lower; /* renamed away and back */
		if (low)
			inode_put(low);
	} else if (f->own) {
		ch->kind = OVERLAY_ADDED;
	}
	if (!is_lower) {
		*all = true;
		ch->content_changed = LX_S_ISREG(inode_mode(f->inode));
		return true;
	}
	ch->kind = OVERLAY_MODIFIED;
	ch->content_changed = LX_S_ISREG(inode_mode(f->inode)) && t->has_data;
	return ch->content_changed || t->changed || t->has_xattrs;
}

static int visit(struct walk_changes *w, const struct todo *d, const struct found *f)
{
	size_t dir_len = strlen(d->path), len = strlen(f->name);
	struct todo *sub = mem_zalloc(sizeof(*sub) + dir_len + len + 2);
	struct overlay_change ch;
	bool all;
	int r;

	if (!sub)
		return -ENOMEM;
	memcpy(sub->path, d->path, dir_len);
	sub->path[dir_len] = '/';
	memcpy(sub->path + dir_len + 1, f->name, len);
	ch.path = sub->path;
	if (judge(w, f, &ch, &all, &r))
		r = w->fn(w->arg, &ch);
	if (r == 0 && f->inode && LX_S_ISDIR(inode_mode(f->inode))) {
		sub->dir = inode_get(f->inode);
		sub->all = all;
		SLIST_INSERT_HEAD(&w->todo, sub, link);
		return 0;
	}
	mem_free(sub);
	return r;
}

int overlay_changes(struct super *s, int (*fn)(void *arg, const struct overlay_change *ch),
		    void *arg)
{
	struct walk_changes w = {.sb = s->priv, .fn = fn, .arg = arg};
	struct todo *d = mem_zalloc(sizeof(*d) + 1);
	struct found *f;
	int r;

	htable_init(&w.marked);
	SLIST_INIT(&w.todo);
	STAILQ_INIT(&w.found);
	r = d ? mark_all(&w) : -ENOMEM;
	if (d) {
		d->dir = inode_get(s->root->inode);
		d->all = !w.sb->lower;
		SLIST_INSERT_HEAD(&w.todo, d, link);
	}
	while ((d = SLIST_FIRST(&w.todo))) {
		SLIST_REMOVE_HEAD(&w.todo, link);
		w.dir = d->dir;
		w.all = d->all;
		if (r == 0)
			r = collect(&w);
		while ((f = STAILQ_FIRST(&w.found))) {
			STAILQ_REMOVE_HEAD(&w.found, link);
			if (r == 0)
				r = visit(&w, d, f);
			if (f->inode)
				inode_put(f->inode);
			mem_free(f);
		}
		inode_put(d->dir);
		mem_free(d);
	}
	htable_fini(&w.marked);
	return r;
}

ssize_t overlay_read(struct inode *i, void *buf, size_t size, int64_t pos)
{
	struct tnode *t = tnode_of(i);
	struct uio_seg seg;
	struct uio u;
	ssize_t r;

	if (!LX_S_ISREG(inode_mode(i)))
		return -EINVAL;
	frwlock_read_lock(&t->data.lock);
	if (t->has_data) {
		uio_init_kernel(&u, &seg, buf, size);
		r = tmpfs_data_read(&t->data, &u, (uint64_t)pos);
	} else {
		r = hostfs_content_read_kernel(t->lower, buf, size, pos);
	}
	frwlock_read_unlock(&t->data.lock);
	return r;
}
