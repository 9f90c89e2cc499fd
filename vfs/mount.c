/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts: the tree of file systems that a name space is.
 *
 * Theory of operation: a mount puts a dentry (the root of a super, or with a bind mount any other)
 * in front of a dentry of another mount. (parent mount, dentry) leads to at most one mount, by a
 * hash table; a second mount on the same place goes on the root of the first. dentry->mounts counts
 * mounts on a dentry, so that a walk looks into the table only where there is one.
 *
 * An attached mount is referenced once by the tree, and references its parent and its mount point.
 * Detaching undoes that; a mount that is still in use somewhere lives on by itself.
 *
 * Locking: g_dcache_lock guards the tree. What is put is collected under the lock and put after it.
 *
 * Deviations from Linux: propagation is always private. A name space's first mount has no parent
 * and may be pivoted away from. umount of the caller's root mount is EBUSY instead of a remount to
 * read-only.
 */
#include <errno.h>
#include <string.h>
#include "base/err.h"
#include "vfs/dcache.h"
#include "vfs/inode.h"
#include "vfs/mount.h"
#include "vfs/pseudofs.h"
#include "vfs/shown.h"

/* As Linux's fs.mount-max. */
#define MOUNTS_MAX 100000u

/* All mounts but the anonymous one are made here, with this around them. */
struct mount_mem {
	struct mount m;
	LIST_HEAD(, mount_mem) children; /* [g_dcache_lock] */
	LIST_ENTRY(mount_mem) sibling;   /* in the parent's children. [g_dcache_lock] */
	/* What detaching has to put. */
	struct mount *old_parent;
	struct dentry *old_mountpoint;
	struct mount_mem *copy; /* during a recursive bind: what was made of it. [g_dcache_lock] */
};

TAILQ_HEAD(mount_list, mount);

static struct htable g_mounts; /* by parent and mount point. [g_dcache_lock] */
static unsigned g_mount_count; /* attached ones. [g_dcache_lock] */
static _Atomic int g_next_id = 21;
static _Atomic uint64_t g_sequence;

static struct mount_mem *mem_of(struct mount *m)
{
	return container_of(m, struct mount_mem, m);
}

uint64_t mount_sequence(void)
{
	return atomic_load(&g_sequence);
}

/* ---- life ---- */

/* Takes its own references. */
static struct mount *mount_new(struct super *s, struct dentry *root, unsigned flags,
			       const char *source)
{
	struct mount_mem *mm = mem_zalloc(sizeof(*mm));

	if (!mm)
		return NULL;

	struct mount *m = &mm->m;

	ref_init(&m->ref);
	m->super = super_get(s);
	m->root = dentry_get(root);
	m->flags = flags;
	m->id = atomic_fetch_add(&g_next_id, 1);
	strncpy(m->source, source ? source : "none", sizeof(m->source) - 1);
	LIST_INIT(&mm->children);
	return m;
}

struct mount *mount_get(struct mount *m)
{
	ref_get(&m->ref);
	return m;
}

void mount_put_quiet(struct mount *m)
{
	if (!m || !ref_put(&m->ref))
		return;
	dentry_put(m->root);
	super_put(m->super);
	mem_free(mem_of(m));
}

void mount_put(struct mount *m)
{
	if (m && unlikely(atomic_load_explicit(&m->expire_mark, memory_order_relaxed)))
		atomic_store_explicit(&m->expire_mark, false, memory_order_relaxed);
	mount_put_quiet(m);
}

void path_get(const struct path *p)
{
	if (p->mnt)
		mount_get(p->mnt);
	if (p->dentry)
		dentry_get(p->dentry);
}

void path_put(const struct path *p)
{
	struct mount *m = p->mnt;

	/* The super goes with the mount, so the dentry first. */
	dentry_put(p->dentry);
	mount_put(m);
}

bool path_equal(const struct path *a, const struct path *b)
{
	return a->mnt == b->mnt && a->dentry == b->dentry;
}

int mount_want_write(const struct mount *m)
{
	if (!m)
		return 0;
	if ((mount_flags(m) & MOUNT_RDONLY) || (super_flags(m->super) & SUPER_RDONLY)) {
		vfs_denied(VFS_DENIED_READ_ONLY, m);
		return -EROFS;
	}
	return 0;
}

int path_want_write(const struct path *p, unsigned how)
{
	const int r = mount_want_write(p->mnt);

	if (r == 0)
		vfs_used(p, how);
	return r;
}

/* ---- the tree ---- */

struct mount_key {
	const struct mount *parent;
	const struct dentry *mountpoint;
};

static uint64_t mount_hash(const struct mount *parent, const struct dentry *mountpoint)
{
	return hash_u64((uint64_t)(uintptr_t)parent * 31 + (uint64_t)(uintptr_t)mountpoint);
}

static bool mount_equal(const void *entry, const void *key)
{
	const struct mount *m = entry;
	const struct mount_key *k = key;

	return m->parent == k->parent && m->mountpoint == k->mountpoint;
}

struct mount *mount_on_locked(const struct mount *m, const struct dentry *d)
{
	struct mount_key key = {m, d};

	if (atomic_load_explicit(&d->mounts, memory_order_relaxed) == 0)
		return NULL;
	return htable_find(&g_mounts, mount_hash(m, d), mount_equal, &key);
}

bool dentry_is_mountpoint(const struct dentry *d)
{
	return atomic_load_explicit(&d->mounts, memory_order_relaxed) != 0;
}

/* The place that @where leads to now: on top of what is mounted there. Borrowed. */
static struct path topmost_locked(const struct path *where) REQUIRES(g_dcache_lock)
{
	struct path p = *where;
	struct mount *m;

	while ((m = mount_on_locked(p.mnt, p.dentry)) != NULL) {
		p.mnt = m;
		p.dentry = m->root;
	}
	return p;
}

/* Links @m below @at; -ENOMEM leaves nothing. The tree's own reference is the caller's, who gives
 * it. */
static int link_locked(struct mount *m, const struct path *at) REQUIRES(g_dcache_lock)
{
	m->parent = at->mnt;
	m->mountpoint = at->dentry;
	if (htable_insert(&g_mounts, mount_hash(at->mnt, at->dentry), m) != 0) {
		m->parent = NULL;
		m->mountpoint = NULL;
		return -ENOMEM;
	}
	mount_get(at->mnt);
	dentry_get_locked(at->dentry);
	atomic_fetch_add(&at->dentry->mounts, 1);
	LIST_INSERT_HEAD(&mem_of(at->mnt)->children, mem_of(m), sibling);
	atomic_fetch_add(&g_sequence, 1);
	return 0;
}

/* The opposite; the references go to old_parent and old_mountpoint. */
static void unlink_locked(struct mount *m) REQUIRES(g_dcache_lock)
{
	struct mount_mem *mm = mem_of(m);

	if (!m->parent)
		return;

	bool was_in = htable_remove(&g_mounts, mount_hash(m->parent, m->mountpoint), m);

	BUG_ON(!was_in);
	LIST_REMOVE(mm, sibling);
	atomic_fetch_sub(&m->mountpoint->mounts, 1);
	mm->old_parent = m->parent;
	mm->old_mountpoint = m->mountpoint;
	m->parent = NULL;
	m->mountpoint = NULL;
	atomic_fetch_add(&g_sequence, 1);
}

static void enlist_locked(struct mount_ns *ns, struct mount *m) REQUIRES(g_dcache_lock)
{
	m->ns = ns;
	TAILQ_INSERT_TAIL(&ns->mounts, m, link);
	g_mount_count++;
}

static void detach_locked(struct mount *m, struct mount_list *dead) REQUIRES(g_dcache_lock)
{
	unlink_locked(m);
	TAILQ_REMOVE(&m->ns->mounts, m, link);
	m->ns = NULL;
	g_mount_count--;
	TAILQ_INSERT_TAIL(dead, m, link);
}

/* After the lock: gives back what detached mounts held, and the tree's references to them. */
static void put_dead(struct mount_list *dead)
{
	struct mount *m;

	while ((m = TAILQ_FIRST(dead)) != NULL) {
		struct mount_mem *mm = mem_of(m);

		TAILQ_REMOVE(dead, m, link);
		mount_put_quiet(mm->old_parent);
		dentry_put(mm->old_mountpoint);
		mm->old_parent = NULL;
		mm->old_mountpoint = NULL;
		mount_put_quiet(m);
	}
}

/* Pre-order walk of the mounts below @top: the one after @m, NULL at the end. */
static struct mount_mem *next_below_locked(struct mount_mem *mm, const struct mount_mem *top)
	REQUIRES(g_dcache_lock)
{
	struct mount_mem *next = LIST_FIRST(&mm->children);

	if (next)
		return next;
	while (mm != top) {
		next = LIST_NEXT(mm, sibling);
		if (next)
			return next;
		mm = mem_of(mm->m.parent);
	}
	return NULL;
}

/* Detaches @top and all below it, each from each. */
static void detach_tree_locked(struct mount *top, struct mount_list *dead) REQUIRES(g_dcache_lock)
{
	struct mount_mem *t = mem_of(top);

	for (;;) {
		struct mount_mem *leaf = t;

		while (!LIST_EMPTY(&leaf->children))
			leaf = LIST_FIRST(&leaf->children);
		detach_locked(&leaf->m, dead);
		if (leaf == t)
			return;
	}
}

static bool is_dir(const struct dentry *d)
{
	const struct inode *i = dentry_inode(d);

	return i && LX_S_ISDIR(inode_mode(i));
}

/* Whether something may be mounted at @at. */
static int check_place_locked(const struct mount_ns *ns, const struct path *at)
	REQUIRES(g_dcache_lock)
{
	struct inode *i = dentry_inode(at->dentry);

	if (at->mnt->ns != ns)
		return -EINVAL;
	if (!i || (__atomic_load_n(&i->iflags, __ATOMIC_RELAXED) & INODE_DEAD))
		return -ENOENT;
	if (!at->dentry->hashed && at->dentry->parent != at->dentry)
		return -ENOENT;
	return 0;
}

/* ---- name spaces ---- */

struct mount_ns *mount_ns_new(struct super *rootfs, unsigned flags)
{
	struct mount_ns *ns = mem_zalloc(sizeof(*ns));

	if (!ns)
		return NULL;
	ref_init(&ns->ref);
	TAILQ_INIT(&ns->mounts);

	struct mount *m = mount_new(rootfs, rootfs->root, flags,
				    rootfs->source[0] ? rootfs->source : rootfs->type->name);

	if (!m) {
		mem_free(ns);
		return NULL;
	}
	mutex_lock(&g_dcache_lock);
	ns->root = m;
	enlist_locked(ns, m);
	mutex_unlock(&g_dcache_lock);
	return ns;
}

struct mount_ns *mount_ns_get(struct mount_ns *ns)
{
	ref_get(&ns->ref);
	return ns;
}

void mount_ns_put(struct mount_ns *ns)
{
	struct mount_list dead = TAILQ_HEAD_INITIALIZER(dead);

	if (!ns || !ref_put(&ns->ref))
		return;
	mutex_lock(&g_dcache_lock);
	if (ns->root)
		detach_tree_locked(ns->root, &dead);
	ns->root = NULL;
	mutex_unlock(&g_dcache_lock);
	put_dead(&dead);
	mem_free(ns);
}

/* ---- attach, detach ---- */

int mount_attach(struct mount_ns *ns, const struct path *where, struct super *s,
		 struct dentry *root, unsigned flags, const char *source, struct mount **out)
{
	struct mount *m = mount_new(s, root ? root : s->root, flags, source);

	if (!m)
		return -ENOMEM;
	mutex_lock(&g_dcache_lock);

	struct path at = topmost_locked(where);
	int r = check_place_locked(ns, &at);

	if (r == 0 && is_dir(m->root) != is_dir(at.dentry))
		r = -ENOTDIR;
	if (r == 0 && g_mount_count >= MOUNTS_MAX)
		r = -ENOSPC;
	if (r == 0)
		r = link_locked(m, &at);
	if (r == 0) {
		enlist_locked(ns, m);
		if (out)
			*out = mount_get(m);
	}
	mutex_unlock(&g_dcache_lock);
	/* The reference is the tree's now. */
	if (r)
		mount_put(m);
	return r;
}

int mount_detach(struct mount_ns *ns, const struct path *where, unsigned umount_flags)
{
	struct mount_list dead = TAILQ_HEAD_INITIALIZER(dead);
	struct mount *m = where->mnt;
	int r = 0;

	mutex_lock(&g_dcache_lock);
	if (where->dentry != m->root || m->ns != ns ||
	    ((umount_flags & LX_MNT_EXPIRE) && (umount_flags & (LX_MNT_FORCE | LX_MNT_DETACH))))
		r = -EINVAL;
	else if (m == ns->root)
		r = (umount_flags & LX_MNT_DETACH) ? -EINVAL : -EBUSY;
	/* The tree's reference and the caller's. */
	else if (!(umount_flags & LX_MNT_DETACH) &&
		 (!LIST_EMPTY(&mem_of(m)->children) || ref_read(&m->ref) > 2))
		r = -EBUSY;
	else if ((umount_flags & LX_MNT_EXPIRE) && !atomic_exchange(&m->expire_mark, true))
		r = -EAGAIN;
	if (r == 0)
		detach_tree_locked(m, &dead);
	mutex_unlock(&g_dcache_lock);
	put_dead(&dead);
	return r;
}

void mount_detach_below(struct dentry *d)
{
	struct mount_list dead = TAILQ_HEAD_INITIALIZER(dead);
	size_t pos = 0;
	struct mount *m;

	if (!dentry_is_mountpoint(d))
		return;
	mutex_lock(&g_dcache_lock);
	while (dentry_is_mountpoint(d) && (m = htable_next(&g_mounts, &pos)) != NULL) {
		if (m->mountpoint != d)
			continue;
		detach_tree_locked(m, &dead);
		pos = 0; /* the table has changed */
	}
	mutex_unlock(&g_dcache_lock);
	put_dead(&dead);
}

/* ---- bind, move, remount ---- */

/* The copy of @mm, linked to the copy of its parent; @top is the first one, which has no place yet.
 */
static int copy_one_locked(struct mount_ns *ns, struct mount_mem *mm, const struct mount_mem *top,
			   struct dentry *root) REQUIRES(g_dcache_lock)
{
	const struct mount *m = &mm->m;

	if (g_mount_count >= MOUNTS_MAX)
		return -ENOSPC;

	struct mount *n = mount_new(m->super, root, mount_flags(m), m->source);

	if (!n)
		return -ENOMEM;
	if (mm != top) {
		struct path at = {&mem_of(m->parent)->copy->m, m->mountpoint};

		if (link_locked(n, &at) != 0) {
			/* It is all but empty: the root has other references, so has the super. */
			mount_put_quiet(n);
			return -ENOMEM;
		}
	}
	enlist_locked(ns, n);
	mm->copy = mem_of(n);
	return 0;
}

int mount_bind(struct mount_ns *ns, const struct path *from, const struct path *where,
	       bool recursive)
{
	struct mount_list dead = TAILQ_HEAD_INITIALIZER(dead);
	struct mount_mem *top = mem_of(from->mnt);

	mutex_lock(&g_dcache_lock);

	struct path at = topmost_locked(where);
	int r = check_place_locked(ns, &at);

	if (r == 0 && from->mnt->ns != ns)
		r = -EINVAL;
	if (r == 0 && is_dir(from->dentry) != is_dir(at.dentry))
		r = -ENOTDIR;
	if (r)
		goto out;
	r = copy_one_locked(ns, top, top, from->dentry);
	if (r)
		goto out;

	struct mount *first = &top->copy->m;
	struct mount_mem *mm = recursive ? next_below_locked(top, top) : NULL;

	while (mm && r == 0) {
		/* What is mounted on @top outside of the bound directory stays out, with all below
		 * it. */
		if (mm->m.parent == from->mnt &&
		    !dentry_is_below_locked(mm->m.mountpoint, from->dentry)) {
			struct mount_mem *next = NULL, *up = mm;

			while (up != top && !(next = LIST_NEXT(up, sibling)))
				up = mem_of(up->m.parent);
			mm = next;
			continue;
		}
		r = copy_one_locked(ns, mm, top, mm->m.root);
		mm = next_below_locked(mm, top);
	}
	/* Only now, so that the copies are not found and copied themselves. */
	if (r == 0)
		r = link_locked(first, &at);
	if (r)
		detach_tree_locked(first, &dead);
out:
	mutex_unlock(&g_dcache_lock);
	put_dead(&dead);
	return r;
}

int mount_remount(struct mount_ns *ns, const struct path *where, unsigned flags, bool with_super)
{
	struct mount *m = where->mnt;
	struct super *s = m->super;
	bool changed = false;
	int r = 0;

	mutex_lock(&g_dcache_lock);
	if (where->dentry != m->root || m->ns != ns) {
		r = -EINVAL;
	} else if (with_super && (flags & MOUNT_RDONLY) && !(super_flags(s) & SUPER_RDONLY) &&
		   atomic_load(&s->writers) > 0) {
		r = -EBUSY;
	} else if (with_super && !(flags & MOUNT_RDONLY) &&
		   (super_flags(s) & (SUPER_RDONLY | SUPER_REMOUNTED_RO)) == SUPER_RDONLY) {
		r = -EROFS; /* read-only by nature, not by a remount */
	} else {
		__atomic_store_n(&m->flags, flags, __ATOMIC_RELAXED);
		changed = true;
		if (with_super && (flags & MOUNT_RDONLY) && !(super_flags(s) & SUPER_RDONLY))
			__atomic_fetch_or(&s->flags, SUPER_RDONLY | SUPER_REMOUNTED_RO,
					  __ATOMIC_RELAXED);
		else if (with_super && !(flags & MOUNT_RDONLY))
			__atomic_fetch_and(&s->flags, ~(SUPER_RDONLY | SUPER_REMOUNTED_RO),
					   __ATOMIC_RELAXED);
	}
	mutex_unlock(&g_dcache_lock);
	if (changed)
		shown_end_all();
	return r;
}

int mount_move(struct mount_ns *ns, const struct path *from, const struct path *where)
{
	struct mount *m = from->mnt;
	struct mount *old_parent = NULL;
	struct dentry *old_mountpoint = NULL;

	mutex_lock(&g_dcache_lock);

	struct path at = topmost_locked(where);
	int r = check_place_locked(ns, &at);

	if (r == 0 && (from->dentry != m->root || m->ns != ns || !m->parent))
		r = -EINVAL;
	if (r == 0 && is_dir(m->root) != is_dir(at.dentry))
		r = -EINVAL;
	for (const struct mount *up = at.mnt; r == 0 && up; up = up->parent) {
		if (up == m)
			r = -ELOOP;
	}
	if (r == 0) {
		struct path back = {m->parent, m->mountpoint};

		unlink_locked(m);
		old_parent = mem_of(m)->old_parent;
		old_mountpoint = mem_of(m)->old_mountpoint;
		mem_of(m)->old_parent = NULL;
		mem_of(m)->old_mountpoint = NULL;
		r = link_locked(m, &at);
		/* A table from which one entry was taken has room for one. */
		if (r && link_locked(m, &back) != 0)
			panic("no memory to move a mount");
	}
	mutex_unlock(&g_dcache_lock);
	mount_put(old_parent);
	dentry_put(old_mountpoint);
	return r;
}

/* ---- pivot_root ---- */

static bool path_is_under_locked(const struct path *p, const struct path *top)
	REQUIRES(g_dcache_lock)
{
	const struct mount *m = p->mnt;
	const struct dentry *d = p->dentry;

	while (m != top->mnt) {
		if (!m->parent)
			return false;
		d = m->mountpoint;
		m = m->parent;
	}
	return dentry_is_below_locked(d, top->dentry);
}

bool path_is_under(const struct path *p, const struct path *top)
{
	mutex_lock(&g_dcache_lock);

	bool under = path_is_under_locked(p, top);

	mutex_unlock(&g_dcache_lock);
	return under;
}

/* In Linux's order of checks. */
static int pivot_check_locked(const struct mount_ns *ns, const struct path *root,
			      const struct path *new_root, const struct path *put_old)
	REQUIRES(g_dcache_lock)
{
	if (root->mnt->ns != ns || new_root->mnt->ns != ns || put_old->mnt->ns != ns)
		return -EINVAL;
	if (check_place_locked(ns, new_root) != 0 || check_place_locked(ns, put_old) != 0)
		return -ENOENT;
	if (new_root->mnt == root->mnt || put_old->mnt == root->mnt)
		return -EBUSY;
	if (root->dentry != root->mnt->root)
		return -EINVAL;
	if (new_root->dentry != new_root->mnt->root || !new_root->mnt->parent)
		return -EINVAL;
	if (!path_is_under_locked(put_old, new_root) || !path_is_under_locked(new_root, root))
		return -EINVAL;
	return 0;
}

int mount_pivot_from(struct mount_ns *ns, const struct path *root, const struct path *new_root,
		     const struct path *put_old)
{
	struct mount *put_mounts[2] = {NULL, NULL};
	struct dentry *put_dentries[2] = {NULL, NULL};

	mutex_lock(&g_dcache_lock);

	struct path old_at = topmost_locked(put_old);
	int r = pivot_check_locked(ns, root, new_root, &old_at);

	if (r == 0) {
		struct mount *moving[2] = {new_root->mnt, root->mnt};
		struct path root_at = {root->mnt->parent, root->mnt->mountpoint};

		for (unsigned i = 0; i < 2; i++) {
			struct mount_mem *mm = mem_of(moving[i]);

			unlink_locked(moving[i]);
			put_mounts[i] = mm->old_parent;
			put_dentries[i] = mm->old_mountpoint;
			mm->old_parent = NULL;
			mm->old_mountpoint = NULL;
		}
		/* As many entries as were taken out: the table has room. If the root had no place
		 * (it was the name space's), one less out than in, but then one less in, too. */
		if (link_locked(root->mnt, &old_at) != 0)
			panic("no memory to pivot the root");
		if (ns->root == root->mnt)
			ns->root = new_root->mnt;
		else if (link_locked(new_root->mnt, &root_at) != 0)
			panic("no memory to pivot the root");
	}
	mutex_unlock(&g_dcache_lock);
	for (unsigned i = 0; i < 2; i++) {
		mount_put(put_mounts[i]);
		dentry_put(put_dentries[i]);
	}
	if (r == 0)
		fs_replace_all(root, new_root);
	return r;
}

static void mount_ns_root_bare(struct mount_ns *ns, struct path *out)
{
	mutex_lock(&g_dcache_lock);
	out->mnt = ns->root;
	out->dentry = out->mnt->root;
	path_get(out);
	mutex_unlock(&g_dcache_lock);
}

void mount_ns_root(struct mount_ns *ns, struct path *out)
{
	mount_ns_root_bare(ns, out);
	while (mount_follow_down(out))
		;
}

int mount_pivot(struct mount_ns *ns, const struct path *new_root, const struct path *put_old)
{
	struct path root;

	mount_ns_root_bare(ns, &root);

	int r = mount_pivot_from(ns, &root, new_root, put_old);

	path_put(&root);
	return r;
}

/* ---- crossing ---- */

bool mount_follow_down(struct path *p)
{
	if (!dentry_is_mountpoint(p->dentry))
		return false;

	struct path old = *p;

	mutex_lock(&g_dcache_lock);

	struct path at = topmost_locked(p);
	bool moved = at.mnt != p->mnt;

	if (moved) {
		path_get(&at);
		*p = at;
	}
	mutex_unlock(&g_dcache_lock);
	if (moved)
		path_put(&old);
	return moved;
}

bool mount_follow_up(struct path *p, const struct path *root)
{
	struct path at = *p, old = *p;
	bool moved = false;

	mutex_lock(&g_dcache_lock);
	while (at.dentry == at.mnt->root && at.mnt->parent && !path_equal(&at, root)) {
		at.dentry = at.mnt->mountpoint;
		at.mnt = at.mnt->parent;
		moved = true;
	}
	/* Stopped at a root: then there is nothing above that may be seen. */
	if (at.dentry == at.mnt->root || path_equal(&at, root))
		moved = false;
	if (moved) {
		path_get(&at);
		*p = at;
	}
	mutex_unlock(&g_dcache_lock);
	if (moved)
		path_put(&old);
	return moved;
}

/* ---- listing ---- */

/* All mounts of @ns with references, in an array from the heap; NULL: none, or no memory. */
static struct mount **snapshot(struct mount_ns *ns, size_t *count)
{
	struct mount **all = NULL;
	struct mount *m;
	size_t n = 0;

	*count = 0;
	mutex_lock(&g_dcache_lock);
	TAILQ_FOREACH (m, &ns->mounts, link)
		n++;
	all = mem_calloc(n, sizeof(struct mount *));
	if (all) {
		TAILQ_FOREACH (m, &ns->mounts, link)
			all[(*count)++] = mount_get(m);
	}
	mutex_unlock(&g_dcache_lock);
	return all;
}

int mount_foreach(struct mount_ns *ns, int (*fn)(struct mount *m, void *arg), void *arg)
{
	size_t count;
	struct mount **all = snapshot(ns, &count);
	int r = 0;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			r = fn(all[i], arg);
		mount_put_quiet(all[i]);
	}
	mem_free(all);
	return r;
}

/* Blanks and backslashes would break the line into other fields. */
static void append_escaped(struct textbuf *out, const char *s, size_t len, const char *also)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char ch = (unsigned char)s[i];

		if (ch == ' ' || ch == '\t' || ch == '\n' || ch == '\\' || (ch && strchr(also, ch)))
			text_printf(out, "\\%03o", ch);
		else
			text_append(out, &s[i], 1);
	}
}

static void append_mount_opts(struct textbuf *out, unsigned flags)
{
	if (flags & MOUNT_NOSUID)
		text_printf(out, ",nosuid");
	if (flags & MOUNT_NODEV)
		text_printf(out, ",nodev");
	if (flags & MOUNT_NOEXEC)
		text_printf(out, ",noexec");
	text_printf(out, "%s", (flags & MOUNT_NOATIME) ? ",noatime" : ",relatime");
}

static void append_super_opts(struct textbuf *out, struct super *s)
{
	char buf[512];

	if (!s->ops || !s->ops->show_options)
		return;

	size_t n = s->ops->show_options(s, buf, sizeof(buf));

	text_append(out, buf, MIN(n, sizeof(buf)));
}

struct show {
	const struct path *root;
	struct textbuf *out;
	char *buf; /* LX_PATH_MAX */
	bool info;
};

static void show_mountinfo(struct show *s, struct mount *m, const char *where, size_t len)
{
	struct textbuf *out = s->out;
	int parent_id = m->id;

	mutex_lock(&g_dcache_lock);
	if (m->parent)
		parent_id = m->parent->id;
	mutex_unlock(&g_dcache_lock);
	text_printf(out, "%d %d %u:%u ", m->id, parent_id, (unsigned)((m->super->dev >> 8) & 0xfff),
		    (unsigned)((m->super->dev & 0xff) | ((m->super->dev >> 12) & 0xffffff00u)));

	/* The mounted directory, as a path in its file system. Its tree has no mount above. */
	struct path top = {NULL, m->root};
	char *name = mem_zalloc(LX_PATH_MAX);
	ssize_t n = name ? path_text(&top, NULL, name, LX_PATH_MAX) : -ENOMEM;

	if (n > 0)
		append_escaped(out, name, (size_t)n, "");
	else
		text_append(out, "/", 1);
	mem_free(name);
	text_append(out, " ", 1);
	append_escaped(out, where, len, "");
	text_printf(out, " %s", (mount_flags(m) & MOUNT_RDONLY) ? "ro" : "rw");
	append_mount_opts(out, mount_flags(m));
	text_printf(out, " - %s ", m->super->type->name);
	append_escaped(out, m->source, strlen(m->source), "");
	text_printf(out, " %s", (super_flags(m->super) & SUPER_RDONLY) ? "ro" : "rw");
	append_super_opts(out, m->super);
	text_append(out, "\n", 1);
}

static void show_mounts(struct show *s, struct mount *m, const char *where, size_t len)
{
	struct textbuf *out = s->out;

	append_escaped(out, m->source, strlen(m->source), "#");
	text_append(out, " ", 1);
	append_escaped(out, where, len, "");
	text_printf(out, " %s %s", m->super->type->name, mount_want_write(m) ? "ro" : "rw");
	append_mount_opts(out, mount_flags(m));
	append_super_opts(out, m->super);
	text_printf(out, " 0 0\n");
}

static int show_one(struct mount *m, void *arg)
{
	struct show *s = arg;
	struct path at = {m, m->root};
	bool reachable = false;
	ssize_t n = path_text_raw(&at, s->root, s->buf, LX_PATH_MAX, &reachable);

	if (n <= 0 || !reachable)
		return 0;
	if (s->info)
		show_mountinfo(s, m, s->buf, (size_t)n);
	else
		show_mounts(s, m, s->buf, (size_t)n);
	return 0;
}

static void show_all(struct mount_ns *ns, const struct path *root, struct textbuf *out, bool info)
{
	struct show s = {.root = root, .out = out, .buf = mem_zalloc(LX_PATH_MAX), .info = info};

	if (!s.buf || mount_foreach(ns, show_one, &s) != 0)
		out->failed = true;
	mem_free(s.buf);
}

void mount_show_mounts(struct mount_ns *ns, const struct path *root, struct textbuf *out)
{
	show_all(ns, root, out, false);
}

void mount_show_mountinfo(struct mount_ns *ns, const struct path *root, struct textbuf *out)
{
	show_all(ns, root, out, true);
}
