/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dentry cache: names that were looked up, and names that are known not to exist.
 *
 * Theory of operation: one hash table over all file systems, keyed by XXH3 of (parent, name), so
 * that a cached path component costs a hash and a compare. Each dentry holds its parent; so a
 * dentry that nobody uses (count 0) is a leaf, and only leaves stand on the list of unused ones,
 * the least recently used first. Over DCACHE_UNUSED_MAX the oldest are freed.
 *
 * A dentry leaves the cache ("unhashed") when its file is removed, or found gone; whoever holds it
 * keeps it, and the last put frees it. A positive dentry keeps its inode until it is freed: a
 * removal does not turn it negative, a later lookup of the name makes a new one.
 *
 * Freeing a dentry puts its parent, which may be the parent's last reference, and so on up: all
 * walks here are loops, since a guest can make trees as deep as its memory allows.
 *
 * Locking: g_dcache_lock guards names, the tree, the table and the list. A count goes from 1 to 0
 * and from 0 to 1 under the lock only; between other values without it. Inodes are put after the
 * lock is released, since that may sleep.
 */
#include <errno.h>
#include <string.h>
#include "base/err.h"
#include "vfs/dcache.h"
#include "vfs/fsnotify.h"
#include "vfs/shown.h"

/* Names shorter than this stand in the dentry itself. */
#define NAME_INLINE 40
/* How many unused ones go at once when there are too many. */
#define PRUNE_BATCH 32u
#define REF_HUGE UINT32_C(0x80000000)

struct dentry_mem {
	struct dentry d;
	char inline_name[NAME_INLINE];
};

TAILQ_HEAD(dentry_list, dentry);

struct mutex g_dcache_lock = MUTEX_INIT(RANK_DCACHE);
static struct htable g_names;                                          /* [g_dcache_lock] */
static struct dentry_list g_unused = TAILQ_HEAD_INITIALIZER(g_unused); /* [g_dcache_lock] */
static size_t g_unused_count;                                          /* [g_dcache_lock] */
static _Atomic size_t g_total;
static _Atomic uint64_t g_rename_sequence;

void dcache_init(void)
{
	/* All state is initialised statically; the table grows on first use. */
}

/* ---- names and the table ---- */

static char *inline_name(struct dentry *d)
{
	return container_of(d, struct dentry_mem, d)->inline_name;
}

static uint64_t name_hash(const struct dentry *parent, const char *name, size_t len)
{
	return hash_bytes(name, len, (uint64_t)(uintptr_t)parent);
}

struct name_key {
	const struct dentry *parent;
	const char *name;
	size_t len;
};

static bool name_equal(const void *entry, const void *key)
{
	const struct dentry *d = entry;
	const struct name_key *k = key;

	return d->parent == k->parent && d->name_len == k->len &&
	       memcmp(d->name, k->name, k->len) == 0;
}

struct dentry *dcache_peek_locked(const struct dentry *dir, const char *name, size_t len)
{
	struct name_key key = {dir, name, len};

	return htable_find(&g_names, name_hash(dir, name, len), name_equal, &key);
}

/* True if it is in the table now. Without memory it is not, and a later lookup asks the file system
 * again. */
static bool hash_locked(struct dentry *d) REQUIRES(g_dcache_lock)
{
	d->hash = name_hash(d->parent, d->name, d->name_len);
	d->hashed = htable_insert(&g_names, d->hash, d) == 0;
	return d->hashed;
}

static void unhash_locked(struct dentry *d) REQUIRES(g_dcache_lock)
{
	if (!d->hashed)
		return;

	bool was_in = htable_remove(&g_names, d->hash, d);

	BUG_ON(!was_in);
	d->hashed = false;
}

/* A dentry with one reference, below @parent (which it references) or with NULL a root; not in the
 * table. */
static struct dentry *dentry_alloc(struct super *s, struct dentry *parent, const char *name,
				   size_t len)
{
	struct dentry_mem *m = mem_zalloc(sizeof(*m));

	if (!m)
		return NULL;

	struct dentry *d = &m->d;

	d->name = m->inline_name;
	if (len >= NAME_INLINE) {
		d->name = mem_strndup(name, len);
		if (!d->name) {
			mem_free(m);
			return NULL;
		}
	} else {
		memcpy(d->name, name, len);
	}
	d->name_len = (uint32_t)len;
	ref_init(&d->ref);
	d->super = s;
	LIST_INIT(&d->children);
	d->parent = d;
	if (parent) {
		d->parent = dentry_get(parent);
		mutex_lock(&g_dcache_lock);
		LIST_INSERT_HEAD(&parent->children, d, sibling);
		mutex_unlock(&g_dcache_lock);
	}
	atomic_fetch_add_explicit(&g_total, 1, memory_order_relaxed);
	return d;
}

/* ---- references ---- */

struct dentry *dentry_get(struct dentry *d)
{
	ref_get(&d->ref);
	return d;
}

void dentry_get_locked(struct dentry *d)
{
	if (ref_read(&d->ref) != 0) {
		ref_get(&d->ref);
		return;
	}
	TAILQ_REMOVE(&g_unused, d, lru);
	g_unused_count--;
	atomic_store_explicit(&d->ref.count, 1, memory_order_relaxed);
}

/* False if this would be the last one. */
static bool put_unless_last(struct ref *r)
{
	uint32_t old = atomic_load_explicit(&r->count, memory_order_relaxed);

	while (old > 1) {
		if (unlikely(old >= REF_HUGE))
			return true;
		if (atomic_compare_exchange_weak_explicit(
			    &r->count, &old, old - 1, memory_order_release, memory_order_relaxed))
			return true;
	}
	return false;
}

/* Takes one unreferenced dentry, on no list, out of the tree and onto @dead. Returns its parent,
 * whose reference the caller now has, or NULL. */
static struct dentry *kill_locked(struct dentry *d, struct dentry_list *dead)
	REQUIRES(g_dcache_lock)
{
	struct dentry *parent = d->parent;

	unhash_locked(d);
	TAILQ_INSERT_TAIL(dead, d, lru);
	if (parent == d)
		return NULL;
	LIST_REMOVE(d, sibling);
	return parent;
}

/* Drops a reference to @d, and up the tree what that frees. */
static void put_locked(struct dentry *d, struct dentry_list *dead) REQUIRES(g_dcache_lock)
{
	while (d) {
		if (put_unless_last(&d->ref))
			return;

		bool last = ref_put(&d->ref);

		BUG_ON(!last);
		if (d->hashed && !(d->super->flags & SUPER_UNCACHED)) {
			TAILQ_INSERT_TAIL(&g_unused, d, lru);
			g_unused_count++;
			return;
		}
		d = kill_locked(d, dead);
	}
}

/* Frees one that is on the list of unused ones. */
static void kill_unused_locked(struct dentry *d, struct dentry_list *dead) REQUIRES(g_dcache_lock)
{
	TAILQ_REMOVE(&g_unused, d, lru);
	g_unused_count--;
	put_locked(kill_locked(d, dead), dead);
}

/* No lock held. */
static void free_dead(struct dentry_list *dead)
{
	struct dentry *d;

	while ((d = TAILQ_FIRST(dead)) != NULL) {
		struct inode *i = d->inode;

		TAILQ_REMOVE(dead, d, lru);
		if (d->name != inline_name(d))
			mem_free(d->name);
		mem_free(container_of(d, struct dentry_mem, d));
		atomic_fetch_sub_explicit(&g_total, 1, memory_order_relaxed);
		if (!i)
			continue;
		if (__atomic_load_n(&i->nlink, __ATOMIC_RELAXED) == 0)
			fsnotify_inode(i, LX_IN_DELETE_SELF);
		inode_put(i);
	}
}

void dentry_put(struct dentry *d)
{
	struct dentry_list dead = TAILQ_HEAD_INITIALIZER(dead);

	if (!d || put_unless_last(&d->ref))
		return;
	mutex_lock(&g_dcache_lock);
	put_locked(d, &dead);
	if (unlikely(g_unused_count > DCACHE_UNUSED_MAX)) {
		for (unsigned i = 0; i < PRUNE_BATCH; i++)
			kill_unused_locked(TAILQ_FIRST(&g_unused), &dead);
	}
	mutex_unlock(&g_dcache_lock);
	free_dead(&dead);
}

struct dentry *dentry_get_parent(struct dentry *d)
{
	mutex_lock(&g_dcache_lock);

	struct dentry *p = dentry_get(d->parent);

	mutex_unlock(&g_dcache_lock);
	return p;
}

size_t dentry_copy_name(struct dentry *d, char *buf, size_t size)
{
	if (size == 0)
		return 0;
	mutex_lock(&g_dcache_lock);

	size_t len = MIN((size_t)d->name_len, size - 1);

	memcpy(buf, d->name, len);
	mutex_unlock(&g_dcache_lock);
	buf[len] = '\0';
	return len;
}

/* ---- making and finding ---- */

struct dentry *dentry_new_root(struct super *s, struct inode *root)
{
	struct dentry *d = dentry_alloc(s, NULL, "/", 1);

	if (!d) {
		inode_put(root);
		return NULL;
	}
	d->inode = root;
	return d;
}

struct dentry *dentry_new_anon(struct inode *i, const char *name)
{
	struct dentry *d = dentry_alloc(i->super, NULL, name, strlen(name));

	if (!d) {
		inode_put(i);
		return NULL;
	}
	d->inode = i;
	return d;
}

struct dentry *dentry_new_unnamed(struct dentry *dir, struct inode *i)
{
	char name[32] = "#";
	char digits[24];
	size_t n = 0, len = 1;
	uint64_t v = i->ino;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10) != 0);
	while (n > 0)
		name[len++] = digits[--n];

	struct dentry *d = dentry_alloc(dir->super, dir, name, len);

	if (!d) {
		inode_put(i);
		return NULL;
	}
	__atomic_store_n(&d->inode, i, __ATOMIC_RELEASE);
	return d;
}

struct dentry *dcache_find_locked(const struct dentry *dir, const char *name, size_t len)
{
	struct dentry *d = dcache_peek_locked(dir, name, len);

	if (d)
		dentry_get_locked(d);
	return d;
}

struct dentry *dcache_find(struct dentry *dir, const char *name, size_t len)
{
	mutex_lock(&g_dcache_lock);

	struct dentry *d = dcache_find_locked(dir, name, len);

	mutex_unlock(&g_dcache_lock);
	return d;
}

int dentry_lookup_locked(struct dentry *dir, const char *name, size_t len, struct dentry **out)
{
	struct inode *di = dentry_inode(dir);

	if (len > LX_NAME_MAX)
		return -ENAMETOOLONG;

	struct dentry *d = dcache_find(dir, name, len);

	if (d) {
		*out = d;
		return 0;
	}
	if (!di->ops->lookup)
		return -ENOTDIR;
	if (__atomic_load_n(&di->iflags, __ATOMIC_RELAXED) & INODE_DEAD)
		return -ENOENT;
	d = dentry_alloc(dir->super, dir, name, len);
	if (!d)
		return -ENOMEM;

	struct inode *found = NULL;
	int r = di->ops->lookup(di, name, len, &found);

	/* What the host calls stale is, for a guest, a name that is not there. */
	if (r == -ESTALE)
		r = -ENOENT;
	if (r != 0 && (r != -ENOENT || (dir->super->flags & SUPER_HARD_ENOENT))) {
		dentry_put(d);
		return r;
	}
	mutex_lock(&g_dcache_lock);
	__atomic_store_n(&d->inode, r == 0 ? found : NULL, __ATOMIC_RELEASE);

	bool cached = true;

	if (r == 0 || !(dir->super->flags & SUPER_NOCACHE_NEG))
		cached = hash_locked(d);
	mutex_unlock(&g_dcache_lock);
	if (!cached) {
		/* A name outside of the cache would be a second one beside it. */
		dentry_put(d);
		return -ENOMEM;
	}
	*out = d;
	return 0;
}

int dentry_lookup(struct dentry *dir, const char *name, size_t len, struct dentry **out)
{
	struct super *s = dir->super;
	struct dentry *d;

	if (len > LX_NAME_MAX)
		return -ENAMETOOLONG;
	while ((d = dcache_find(dir, name, len)) != NULL) {
		if (!(s->flags & SUPER_REVALIDATE) || !s->ops->revalidate ||
		    s->ops->revalidate(d) ||
		    atomic_load_explicit(&d->mounts, memory_order_relaxed) > 0) {
			*out = d;
			return 0;
		}
		dentry_drop(d);
		dentry_put(d);
	}

	struct inode *di = dentry_inode(dir);

	fmutex_lock(&di->lock);

	int r = dentry_lookup_locked(dir, name, len, out);

	fmutex_unlock(&di->lock);
	return r;
}

void dentry_instantiate(struct dentry *d, struct inode *i)
{
	mutex_lock(&g_dcache_lock);
	BUG_ON(d->inode);
	__atomic_store_n(&d->inode, i, __ATOMIC_RELEASE);
	if (!d->hashed) {
		bool cached = hash_locked(d);

		(void)cached; /* no memory: the next lookup makes another one */
	}
	mutex_unlock(&g_dcache_lock);
}

/* ---- removing and shrinking ---- */

/* Kills what nobody uses below @top, depth first. */
static void shrink_below_locked(struct dentry *top, struct dentry_list *dead)
	REQUIRES(g_dcache_lock)
{
	struct dentry *at = LIST_FIRST(&top->children);

	while (at) {
		struct dentry *child = LIST_FIRST(&at->children);

		if (child) {
			at = child;
			continue;
		}
		/* A leaf, or a directory whose leaves are all in use or gone: on to the next, or
		 * up. Going up comes to a directory again, now seen from below. */
		for (;;) {
			struct dentry *next = LIST_NEXT(at, sibling);
			struct dentry *parent = at->parent;

			if (ref_read(&at->ref) == 0) {
				TAILQ_REMOVE(&g_unused, at, lru);
				g_unused_count--;
				parent = kill_locked(at, dead);
				/* @parent must not be freed by this: @top is held, and a directory
				 * between is looked at when we get there. */
				if (!put_unless_last(&parent->ref)) {
					bool last = ref_put(&parent->ref);

					BUG_ON(!last || parent == top);
					TAILQ_INSERT_TAIL(&g_unused, parent, lru);
					g_unused_count++;
				}
			}
			if (next) {
				at = next;
				break;
			}
			if (parent == top) {
				at = NULL;
				break;
			}
			at = parent;
		}
	}
}

void dcache_shrink_below(struct dentry *d)
{
	struct dentry_list dead = TAILQ_HEAD_INITIALIZER(dead);

	mutex_lock(&g_dcache_lock);
	shrink_below_locked(d, &dead);
	mutex_unlock(&g_dcache_lock);
	free_dead(&dead);
}

void dentry_drop(struct dentry *d)
{
	struct dentry_list dead = TAILQ_HEAD_INITIALIZER(dead);

	mutex_lock(&g_dcache_lock);
	unhash_locked(d);
	shrink_below_locked(d, &dead);
	mutex_unlock(&g_dcache_lock);
	free_dead(&dead);
}

void dentry_delete(struct dentry *d)
{
	dentry_drop(d);
}

void dcache_shrink(size_t keep)
{
	bool more = true;

	while (more) {
		struct dentry_list dead = TAILQ_HEAD_INITIALIZER(dead);

		mutex_lock(&g_dcache_lock);
		for (unsigned i = 0; i < PRUNE_BATCH && g_unused_count > keep; i++)
			kill_unused_locked(TAILQ_FIRST(&g_unused), &dead);
		more = g_unused_count > keep;
		mutex_unlock(&g_dcache_lock);
		free_dead(&dead);
	}
}

void dcache_shrink_super(struct super *s)
{
	struct dentry_list dead = TAILQ_HEAD_INITIALIZER(dead);
	struct dentry *d, *prev = NULL;

	mutex_lock(&g_dcache_lock);
	/* Parents that become unused go to the end of the list, so one pass meets them too. */
	while ((d = prev ? TAILQ_NEXT(prev, lru) : TAILQ_FIRST(&g_unused)) != NULL) {
		if (d->super == s)
			kill_unused_locked(d, &dead);
		else
			prev = d;
	}
	mutex_unlock(&g_dcache_lock);
	free_dead(&dead);
}

void dcache_get_stats(struct dcache_stats *out)
{
	out->total = atomic_load_explicit(&g_total, memory_order_relaxed);
	mutex_lock(&g_dcache_lock);
	out->unused = g_unused_count;
	mutex_unlock(&g_dcache_lock);
}

/* ---- renames ---- */

int dentry_move_prepare(struct dentry_move_room *room, struct dentry *from, struct dentry *to)
{
	/* The directories are locked, so the names stand still. */
	room->name[0] = room->name[1] = NULL;
	if (to->name_len >= NAME_INLINE) {
		room->name[0] = mem_strndup(to->name, to->name_len);
		if (!room->name[0])
			return -ENOMEM;
	}
	if (from->name_len >= NAME_INLINE) {
		room->name[1] = mem_strndup(from->name, from->name_len);
		if (!room->name[1]) {
			dentry_move_cancel(room);
			return -ENOMEM;
		}
	}
	return 0;
}

void dentry_move_cancel(struct dentry_move_room *room)
{
	mem_free(room->name[0]);
	mem_free(room->name[1]);
	room->name[0] = room->name[1] = NULL;
}

/* @heap: a copy on the heap that the dentry takes, or NULL if the name fits inside. */
static void set_name_locked(struct dentry *d, char *heap, const char *name, uint32_t len)
	REQUIRES(g_dcache_lock)
{
	char *old = d->name;

	if (heap) {
		d->name = heap;
	} else {
		d->name = inline_name(d);
		memcpy(d->name, name, len);
		d->name[len] = '\0';
	}
	d->name_len = len;
	if (old != inline_name(d))
		mem_free(old);
}

void dentry_move(struct dentry_move_room *room, struct dentry *from, struct dentry *to,
		 bool exchange)
{
	struct dentry_list dead = TAILQ_HEAD_INITIALIZER(dead);
	struct inode *i = dentry_inode(from);
	char small[NAME_INLINE];

	mutex_lock(&g_dcache_lock);

	struct dentry *from_parent = from->parent, *to_parent = to->parent;
	uint32_t from_len = from->name_len;

	/* Other watches may see them from now on. */
	if (i)
		inode_changes(i);
	if (exchange && dentry_inode(to))
		inode_changes(dentry_inode(to));
	unhash_locked(from);
	unhash_locked(to);
	if (from_len < NAME_INLINE)
		memcpy(small, from->name, from_len);
	set_name_locked(from, room->name[0], to->name, to->name_len);
	if (from_parent != to_parent) {
		LIST_REMOVE(from, sibling);
		LIST_INSERT_HEAD(&to_parent->children, from, sibling);
		from->parent = to_parent;
		ref_get(&to_parent->ref);
	}
	if (exchange) {
		set_name_locked(to, room->name[1], small, from_len);
		room->name[1] = NULL;
		if (from_parent != to_parent) {
			LIST_REMOVE(to, sibling);
			LIST_INSERT_HEAD(&from_parent->children, to, sibling);
			to->parent = from_parent;
			ref_get(&from_parent->ref);
		}
	}
	/* The table had room for as many entries a moment ago: this does not fail for want of
	 * memory. */
	bool cached = hash_locked(from) && (!exchange || hash_locked(to));

	(void)cached;
	if (from_parent != to_parent) {
		put_locked(from_parent, &dead);
		if (exchange)
			put_locked(to_parent, &dead);
	}
	if ((i && LX_S_ISDIR(i->mode)) || exchange)
		atomic_fetch_add(&g_rename_sequence, 1);
	mutex_unlock(&g_dcache_lock);
	mem_free(room->name[1]);
	free_dead(&dead);
}

uint64_t dcache_rename_sequence(void)
{
	return atomic_load(&g_rename_sequence);
}

/* ---- the tree ---- */

bool dentry_is_below_locked(const struct dentry *d, const struct dentry *top)
{
	while (d != top) {
		if (d->parent == d)
			return false;
		d = d->parent;
	}
	return true;
}

bool dentry_is_below(const struct dentry *d, const struct dentry *top)
{
	mutex_lock(&g_dcache_lock);

	bool below = dentry_is_below_locked(d, top);

	mutex_unlock(&g_dcache_lock);
	return below;
}

struct dentry *dentry_child_towards_locked(struct dentry *d, const struct dentry *top)
{
	while (d->parent != top) {
		if (d->parent == d)
			return NULL;
		d = d->parent;
	}
	return d == top ? NULL : d;
}
