/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path walk: path_resolution(7), and the restrictions of openat2(2).
 *
 * Theory of operation: a walk is a place (mount and dentry, referenced) and what is left to walk. A
 * symlink's text becomes the current frame, and the rest of the string in which it stood waits on a
 * stack; only a rest that has components left waits, so the last component of all is the one met
 * with an empty stack. At most 40 links are followed, so the stack is bounded, and nothing here
 * recurses.
 *
 * Components that are in the cache are walked by walk_fast: under one hold of g_dcache_lock, with
 * no reference taken on the way. It stops in front of whatever it cannot decide (a name that is not
 * cached, a link, "..", a file system that must be asked, a permission that it cannot grant), and
 * the slow way gives the answer, errors among them.
 *
 * Scoped walks (BENEATH, IN_ROOT) use the start as their root. A rename or a mount at the same time
 * could carry the place out of it; so a ".." after such a change fails with EAGAIN, and the end is
 * checked once more.
 *
 * Deviations from Linux: no automounts, no protected_symlinks.
 *
 * References: path_resolution(7), symlink(7), openat2(2).
 */
#include <errno.h>
#include <string.h>
#include "vfs/dcache.h"
#include "vfs/inode.h"
#include "vfs/mount.h"
#include "vfs/namei.h"

#define WALK_SCOPED (WALK_BENEATH | WALK_IN_ROOT)

static void replace_path(struct path *slot, const struct path *with)
{
	struct path old = *slot;

	*slot = *with;
	path_put(&old);
}

static void need_root(struct walk *w)
{
	if (!w->root.mnt)
		fs_get_root(w->c->fs, &w->root);
}

static bool dentry_is_dir(const struct dentry *d)
{
	const struct inode *i = dentry_inode(d);

	return i && LX_S_ISDIR(inode_mode(i));
}

/* ---- start and end ---- */

int walk_init(struct walk *w, struct vfs_ctx *c, const struct path *start, const char *name,
	      unsigned flags)
{
	size_t len = strnlen(name, LX_PATH_MAX);

	w->c = c;
	w->flags = flags;
	w->path = (struct path){NULL, NULL};
	w->root = (struct path){NULL, NULL};
	w->links = 0;
	w->depth = 0;
	w->cur = (struct walk_frame){NULL, name};
	w->last = NULL;
	w->last_len = 0;
	w->last_type = LAST_ROOT;
	w->last_slash = false;
	if (len == LX_PATH_MAX)
		return -ENAMETOOLONG;
	if (len == 0 && !(flags & WALK_EMPTY))
		return -ENOENT;
	if (flags & WALK_SCOPED) {
		w->rename_seq = dcache_rename_sequence();
		w->mount_seq = mount_sequence();
	}
	if (name[0] == '/' && !(flags & WALK_IN_ROOT)) {
		if (flags & WALK_BENEATH)
			return -EXDEV;
		need_root(w);
		w->path = w->root;
		path_get(&w->path);
		return 0;
	}
	if (start) {
		if (len > 0 && !dentry_is_dir(start->dentry))
			return -ENOTDIR;
		w->path = *start;
		path_get(&w->path);
	} else {
		fs_get_cwd(c->fs, &w->path);
	}
	if (flags & WALK_SCOPED) {
		w->root = w->path;
		path_get(&w->root);
	}
	return 0;
}

void walk_fini(struct walk *w)
{
	mem_free(w->cur.buf);
	while (w->depth > 0)
		mem_free(w->stack[--w->depth].buf);
	path_put(&w->path);
	path_put(&w->root);
}

int walk_complete(struct walk *w)
{
	if ((w->flags & WALK_SCOPED) && !path_is_under(&w->path, &w->root))
		return -EXDEV;
	vfs_used(&w->path, VFS_USE_LOOK);
	return 0;
}

/* ---- one step ---- */

static int step_dotdot(struct walk *w)
{
	struct path *p = &w->path;
	bool at_root;

	need_root(w);
	at_root = path_equal(p, &w->root);
	if (!at_root && p->dentry == p->mnt->root) {
		at_root = !mount_follow_up(p, &w->root);
		if (!at_root && (w->flags & WALK_NO_XDEV))
			return -EXDEV;
	}
	if (at_root) {
		if (w->flags & WALK_BENEATH)
			return -EXDEV;
	} else {
		struct dentry *parent = dentry_get_parent(p->dentry);

		/* The directory was moved out of what this bind mount shows. */
		if (p->mnt->root != p->mnt->super->root && !dentry_is_below(parent, p->mnt->root)) {
			dentry_put(parent);
			return -ENOENT;
		}
		dentry_put(p->dentry);
		p->dentry = parent;
	}
	if (mount_follow_down(p) && (w->flags & WALK_NO_XDEV))
		return -EXDEV;
	if ((w->flags & WALK_SCOPED) &&
	    (w->rename_seq != dcache_rename_sequence() || w->mount_seq != mount_sequence()))
		return -EAGAIN;
	return 0;
}

static int lookup(struct walk *w, const char *name, size_t len, struct dentry **out)
{
	struct dentry *dir = w->path.dentry;

	if (len > LX_NAME_MAX)
		return -ENAMETOOLONG;
	if (w->flags & WALK_CACHED) {
		/* Asking whether the name still holds may wait for the host. */
		if (super_flags(dir->super) & SUPER_REVALIDATE)
			return -EAGAIN;
		*out = dcache_find(dir, name, len);
		return *out ? 0 : -EAGAIN;
	}
	return dentry_lookup(dir, name, len, out);
}

/* Makes @text (owned, or NULL: nothing) what is walked next, then what is left now. */
static void push_text(struct walk *w, char *text)
{
	const char *rest = w->cur.rest;

	while (*rest == '/')
		rest++;
	w->cur.rest = rest;
	if (!text)
		return;
	if (*rest)
		w->stack[w->depth++] = w->cur;
	else
		mem_free(w->cur.buf);
	w->cur = (struct walk_frame){text, text};
}

static int follow_magic(struct walk *w, struct inode *i)
{
	struct path to;

	if (w->flags & WALK_NO_MAGICLINKS)
		return -ELOOP;

	int r = i->ops->get_link(w->c, i, &to);

	if (r)
		return r;
	if (((w->flags & WALK_NO_XDEV) && to.mnt != w->path.mnt) || (w->flags & WALK_SCOPED)) {
		path_put(&to);
		return -EXDEV;
	}
	replace_path(&w->path, &to);
	push_text(w, NULL);
	return 0;
}

/* Follows the symlink @i, which stands in the directory w->path. */
static int follow_link(struct walk *w, struct inode *i)
{
	if (w->links++ >= LX_SYMLOOP_MAX || (w->flags & WALK_NO_SYMLINKS))
		return -ELOOP;
	if (i->ops->get_link)
		return follow_magic(w, i);
	if (!i->ops->readlink)
		return -EINVAL;

	char *text = mem_zalloc(LX_PATH_MAX);

	if (!text)
		return -ENOMEM;

	ssize_t n = i->ops->readlink(i, text, LX_PATH_MAX);
	int r = 0;

	if (n < 0)
		r = (int)n;
	else if (n == 0)
		r = -ENOENT;
	else if (n >= LX_PATH_MAX)
		r = -ENAMETOOLONG;
	if (r == 0 && text[0] == '/') {
		need_root(w);
		/* Linux counts every jump to the root as leaving the mount. */
		if (w->flags & (WALK_BENEATH | WALK_NO_XDEV)) {
			r = -EXDEV;
		} else {
			path_get(&w->root);
			replace_path(&w->path, &w->root);
		}
	}
	if (r) {
		mem_free(text);
		return r;
	}
	text[n] = '\0';
	push_text(w, text);
	return 0;
}

/* Steps from w->path to its child @d (takes the reference): 0, or 1 if a link was followed instead.
 */
static int step_into(struct walk *w, struct dentry *d, bool follow)
{
	struct inode *i = dentry_inode(d);
	int r;

	if (!i) {
		walk_missed(w, d);
		dentry_put(d);
		return -ENOENT;
	}
	if (LX_S_ISLNK(inode_mode(i)) && follow) {
		vfs_used(&(struct path){w->path.mnt, d}, VFS_USE_LOOK);
		r = follow_link(w, i);
		dentry_put(d);
		return r ? r : 1;
	}
	dentry_put(w->path.dentry);
	w->path.dentry = d;
	if (mount_follow_down(&w->path) && (w->flags & WALK_NO_XDEV))
		return -EXDEV;
	return 0;
}

/* ---- many steps ---- */

static const char *skip_slashes(const char *s)
{
	while (*s == '/')
		s++;
	return s;
}

static size_t component_length(const char *s)
{
	size_t n = 0;

	while (s[n] && s[n] != '/')
		n++;
	return n;
}

static enum last_type component_type(const char *s, size_t len)
{
	if (len == 1 && s[0] == '.')
		return LAST_DOT;
	if (len == 2 && s[0] == '.' && s[1] == '.')
		return LAST_DOTDOT;
	return LAST_NORM;
}

/* Search permission that needs no thought: true if granted, false if somebody else must decide. */
static bool may_search_fast(const struct cred *cr, const struct inode *i)
{
	uint32_t mode = inode_mode(i);

	if (i->ops->permission)
		return false;
	if ((mode & 0111) == 0111)
		return true;
	if (cr->fsuid == __atomic_load_n(&i->uid, __ATOMIC_RELAXED))
		return mode & 0100;
	if (cred_in_group(cr, __atomic_load_n(&i->gid, __ATOMIC_RELAXED)))
		return mode & 0010;
	return mode & 0001;
}

/* Is the name what it was, for all that is known? */
static bool name_holds(const struct dentry *d)
{
	const struct super *s = d->super;

	return !(super_flags(s) & SUPER_REVALIDATE) || (s->ops->holds && s->ops->holds(d));
}

/* Goes over cached components of @s, which begins with one; returns what is left. */
static const char *walk_fast(struct walk *w, const char *s, bool whole)
{
	struct path at = w->path;

	mutex_lock(&g_dcache_lock);
	while (*s) {
		const struct inode *dir = at.dentry->inode;
		size_t len = component_length(s);
		const char *end = s + len, *next = skip_slashes(end);
		bool last = !*next && w->depth == 0;

		/* The last one with a slash behind it may be a link that is to be followed. */
		if (last && (!whole || *end == '/'))
			break;
		if (!LX_S_ISDIR(inode_mode(dir)) || !may_search_fast(w->c->cred, dir) ||
		    component_type(s, len) != LAST_NORM)
			break;

		struct path to = {at.mnt, dcache_peek_locked(at.dentry, s, len)};
		struct mount *m;

		if (!to.dentry || !to.dentry->inode || !name_holds(to.dentry))
			break;
		while ((m = mount_on_locked(to.mnt, to.dentry)) != NULL) {
			to.mnt = m;
			to.dentry = m->root;
		}
		if (to.mnt != at.mnt && (w->flags & WALK_NO_XDEV))
			break;

		uint32_t mode = inode_mode(to.dentry->inode);

		if (LX_S_ISLNK(mode) || (!last && !LX_S_ISDIR(mode)))
			break;
		at = to;
		s = next;
	}

	struct path old = w->path;

	if (at.dentry != old.dentry)
		dentry_get_locked(at.dentry);
	if (at.mnt != old.mnt)
		mount_get(at.mnt);
	w->path = at;
	mutex_unlock(&g_dcache_lock);
	if (at.dentry != old.dentry)
		dentry_put(old.dentry);
	if (at.mnt != old.mnt)
		mount_put(old.mnt);
	return s;
}

int walk_parent(struct walk *w, bool whole)
{
	for (;;) {
		const char *s = skip_slashes(w->cur.rest);

		if (*s)
			s = walk_fast(w, s, whole);
		if (!*s) {
			if (w->depth > 0) {
				mem_free(w->cur.buf);
				w->cur = w->stack[--w->depth];
				continue;
			}
			w->cur.rest = s;
			w->last = s;
			w->last_len = 0;
			w->last_type = LAST_ROOT;
			w->last_slash = false;
			return 0;
		}

		struct inode *dir = dentry_inode(w->path.dentry);

		if (!dir || !LX_S_ISDIR(inode_mode(dir)))
			return -ENOTDIR;

		int r = inode_permission(w->c, dir, MAY_EXEC);

		if (r)
			return r;

		size_t len = component_length(s);
		const char *end = s + len, *next = skip_slashes(end);
		enum last_type type = component_type(s, len);

		w->cur.rest = next;
		if (!*next && w->depth == 0) {
			w->last = s;
			w->last_len = len;
			w->last_type = type;
			w->last_slash = *end == '/';
			return 0;
		}
		if (type == LAST_DOT)
			continue;
		if (type == LAST_DOTDOT) {
			r = step_dotdot(w);
		} else {
			struct dentry *d;

			r = lookup(w, s, len, &d);
			if (r == 0)
				r = step_into(w, d, true);
		}
		if (r < 0)
			return r;
		/* After a link the next turn finds out whether it has led to a directory. */
		if (r == 0 && !dentry_is_dir(w->path.dentry))
			return -ENOTDIR;
	}
}

int walk_last_dots(struct walk *w)
{
	return w->last_type == LAST_DOTDOT ? step_dotdot(w) : 0;
}

int walk_last_lookup(struct walk *w, struct dentry **out)
{
	return lookup(w, w->last, w->last_len, out);
}

int walk_last_step(struct walk *w, struct dentry *d)
{
	return step_into(w, d, w->flags & WALK_FOLLOW);
}

/* ---- whole walks ---- */

int path_lookup(struct vfs_ctx *c, const struct path *start, const char *name, unsigned flags,
		struct path *out)
{
	struct walk w;
	int r = walk_init(&w, c, start, name, flags);

	while (r == 0) {
		r = walk_parent(&w, true);
		if (r)
			break;
		if (w.last_type != LAST_NORM) {
			r = walk_last_dots(&w);
			break;
		}
		if (w.last_slash)
			w.flags |= WALK_FOLLOW | WALK_DIRECTORY;

		struct dentry *d;

		r = walk_last_lookup(&w, &d);
		if (r)
			break;
		r = walk_last_step(&w, d);
		if (r <= 0)
			break;
		r = 0;
	}
	if (r == 0)
		r = walk_complete(&w);
	if (r == 0 && (w.flags & WALK_DIRECTORY) && !dentry_is_dir(w.path.dentry))
		r = -ENOTDIR;
	if (r == 0) {
		*out = w.path;
		w.path = (struct path){NULL, NULL};
	}
	walk_fini(&w);
	return r;
}

int path_lookup_parent(struct vfs_ctx *c, const struct path *start, const char *name,
		       unsigned flags, struct path *parent, struct walk_last *last)
{
	struct walk w;
	int r = walk_init(&w, c, start, name, flags);

	if (r == 0)
		r = walk_parent(&w, false);
	/* Links are followed only in the middle, so what is last stands in the caller's string. */
	if (r == 0) {
		last->name = w.last;
		last->len = w.last_len;
		last->type = w.last_type;
		last->trailing_slash = w.last_slash;
		*parent = w.path;
		w.path = (struct path){NULL, NULL};
	}
	walk_fini(&w);
	return r;
}
