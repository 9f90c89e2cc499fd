/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and removing names: mkdir, mknod, symlink, link, unlink, rmdir; readlink.
 *
 * Theory of operation: each walks to the parent, locks it, looks the last component up under the
 * lock, makes all checks in Linux's order, and asks the file system; when that has succeeded
 * nothing can fail any more.
 *
 * References: mkdir(2), mknod(2), symlink(2), link(2), unlink(2), rmdir(2).
 */
#include <errno.h>
#include <string.h>
#include "vfs/dcache.h"
#include "vfs/fsnotify.h"
#include "vfs/inode.h"
#include "vfs/mount.h"
#include "vfs/names.h"

void revalidate_name(struct dentry *dir, const char *name, size_t len)
{
	struct dentry *d;

	if (!(super_flags(dir->super) & SUPER_REVALIDATE))
		return;
	if (dentry_lookup(dir, name, len, &d) == 0)
		dentry_put(d);
}

int may_create_in(struct vfs_ctx *c, struct inode *dir)
{
	if (__atomic_load_n(&dir->iflags, __ATOMIC_RELAXED) & INODE_DEAD)
		return -ENOENT;
	return inode_permission(c, dir, MAY_WRITE | MAY_EXEC);
}

int may_delete(struct vfs_ctx *c, struct inode *dir, struct dentry *victim, bool is_dir)
{
	struct inode *i = dentry_inode(victim);
	struct inode_attrs d, v;
	int r = inode_permission(c, dir, MAY_WRITE | MAY_EXEC);

	if (r)
		return r;
	inode_attrs_now(dir, &d);
	inode_attrs_now(i, &v);
	if (d.iflags & INODE_APPEND)
		return -EPERM;
	if ((d.mode & LX_S_ISVTX) && c->cred->fsuid != v.uid && c->cred->fsuid != d.uid &&
	    !cred_capable(c->cred, LX_CAP_FOWNER))
		return -EPERM;
	if (v.iflags & (INODE_APPEND | INODE_IMMUTABLE))
		return -EPERM;
	if (is_dir) {
		if (!LX_S_ISDIR(v.mode))
			return -ENOTDIR;
		if (victim->parent == victim)
			return -EBUSY;
	} else if (LX_S_ISDIR(v.mode)) {
		return -EISDIR;
	}
	return (d.iflags & INODE_DEAD) ? -ENOENT : 0;
}

/* ---- making ---- */

/* Where a name is about to be made: the parent locked, a negative dentry. */
struct place {
	struct path parent;
	struct dentry *d;
	struct inode *dir;
};

static void place_end(struct place *p) NO_TSA
{
	fmutex_unlock(&p->dir->lock);
	dentry_put(p->d);
	path_put(&p->parent);
}

/* 0, and place_end must follow; or -errno. */
static int place_begin(struct vfs_ctx *c, const struct path *start, const char *name, bool want_dir,
		       struct place *p) NO_TSA
{
	struct walk_last last;
	int r = path_lookup_parent(c, start, name, 0, &p->parent, &last);

	if (r)
		return r;
	if (last.type != LAST_NORM) {
		path_put(&p->parent);
		return -EEXIST;
	}
	p->dir = dentry_inode(p->parent.dentry);
	p->d = NULL;
	revalidate_name(p->parent.dentry, last.name, last.len);
	fmutex_lock(&p->dir->lock);
	r = dentry_lookup_locked(p->parent.dentry, last.name, last.len, &p->d);
	if (r)
		p->d = NULL;
	else if (dentry_inode(p->d))
		r = -EEXIST;
	else if (last.trailing_slash && !want_dir)
		r = -ENOENT;
	else
		r = path_want_write(&p->parent, VFS_USE_NAMES);
	if (r)
		place_end(p);
	return r;
}

/* The new file @i (a reference, taken) gets its name. */
static void place_fill(struct place *p, struct inode *i)
{
	dentry_instantiate(p->d, i);
	fsnotify(p->d, LX_IN_CREATE, 0);
}

int vfs_mkdir(struct vfs_ctx *c, const struct path *start, const char *name, uint32_t mode)
{
	struct place p;
	struct inode *i;
	int r = place_begin(c, start, name, true, &p);

	if (r)
		return r;
	r = may_create_in(c, p.dir);
	if (r == 0 && !p.dir->ops->mkdir)
		r = -EPERM;
	if (r == 0) {
		mode = mode_for_new(c, p.dir, LX_S_IFDIR | (mode & (0777 | LX_S_ISVTX)),
				    fs_get_umask(c->fs));
		r = p.dir->ops->mkdir(c, p.dir, p.d->name, p.d->name_len, mode & 07777, &i);
	}
	if (r == 0)
		place_fill(&p, i);
	place_end(&p);
	return r;
}

/* The part of mknod behind the parent's lock. */
static int make_node(struct vfs_ctx *c, struct place *p, uint32_t mode, uint64_t rdev,
		     struct inode **out)
{
	const struct inode_ops *ops = p->dir->ops;
	int r = may_create_in(c, p->dir);

	if (r)
		return r;
	mode = mode_for_new(c, p->dir, mode, fs_get_umask(c->fs));
	if (LX_S_ISREG(mode))
		return ops->create ? ops->create(c, p->dir, p->d->name, p->d->name_len,
						 mode & 07777, out)
				   : -EACCES;
	/* The whiteout of overlays, device 0:0, is nobody's device. */
	if ((LX_S_ISCHR(mode) || LX_S_ISBLK(mode)) && !(LX_S_ISCHR(mode) && rdev == 0) &&
	    !cred_capable(c->cred, LX_CAP_MKNOD))
		return -EPERM;
	if (!ops->mknod)
		return -EPERM;
	return ops->mknod(c, p->dir, p->d->name, p->d->name_len, mode, rdev, out);
}

int mknod_type(uint32_t *mode)
{
	switch (*mode & LX_S_IFMT) {
	case 0:
		*mode |= LX_S_IFREG;
		return 0;
	case LX_S_IFREG:
	case LX_S_IFCHR:
	case LX_S_IFBLK:
	case LX_S_IFIFO:
	case LX_S_IFSOCK:
		return 0;
	case LX_S_IFDIR:
		return -EPERM;
	default:
		return -EINVAL;
	}
}

int vfs_mknod(struct vfs_ctx *c, const struct path *start, const char *name, uint32_t mode,
	      uint64_t rdev)
{
	struct place p;
	struct inode *i;
	int r = mknod_type(&mode);

	if (r)
		return r;
	r = place_begin(c, start, name, false, &p);
	if (r)
		return r;
	r = make_node(c, &p, mode & (LX_S_IFMT | 07777),
		      LX_S_ISCHR(mode) || LX_S_ISBLK(mode) ? rdev : 0, &i);
	if (r == 0)
		place_fill(&p, i);
	place_end(&p);
	return r;
}

int vfs_mksock(struct vfs_ctx *c, const char *name, uint32_t mode, void *sock, struct path *out)
{
	struct place p;
	struct inode *i;
	int r = place_begin(c, NULL, name, false, &p);

	if (r)
		return r;
	r = make_node(c, &p, LX_S_IFSOCK | (mode & 07777), 0, &i);
	if (r == 0) {
		mutex_lock(&i->meta);
		i->sock = sock;
		mutex_unlock(&i->meta);
		place_fill(&p, i);
		out->mnt = mount_get(p.parent.mnt);
		out->dentry = dentry_get(p.d);
	}
	place_end(&p);
	return r;
}

int vfs_symlink(struct vfs_ctx *c, const char *target, const struct path *start, const char *name)
{
	struct place p;
	struct inode *i;
	int r;

	if (!target[0])
		return -ENOENT;
	if (strnlen(target, LX_PATH_MAX) == LX_PATH_MAX)
		return -ENAMETOOLONG;
	r = place_begin(c, start, name, false, &p);
	if (r)
		return r;
	r = may_create_in(c, p.dir);
	if (r == 0 && !p.dir->ops->symlink)
		r = -EPERM;
	if (r == 0)
		r = p.dir->ops->symlink(c, p.dir, p.d->name, p.d->name_len, target, &i);
	if (r == 0)
		place_fill(&p, i);
	place_end(&p);
	return r;
}

static int link_locked(struct vfs_ctx *c, struct place *p, const struct path *old)
{
	struct inode *i = dentry_inode(old->dentry);
	struct inode_attrs a;
	int r;

	if (old->mnt != p->parent.mnt)
		return -EXDEV;
	r = may_create_in(c, p->dir);
	if (r)
		return r;
	if (i->super != p->dir->super)
		return -EXDEV;
	inode_attrs_now(i, &a);
	if (a.iflags & (INODE_APPEND | INODE_IMMUTABLE))
		return -EPERM;
	if (!p->dir->ops->link || LX_S_ISDIR(a.mode))
		return -EPERM;
	fmutex_lock(&i->lock);
	inode_attrs_now(i, &a);
	if (a.nlink == 0 && !(a.iflags & INODE_LINKABLE)) {
		r = -ENOENT;
	} else if (a.nlink == UINT32_MAX) {
		r = -EMLINK;
	} else {
		r = p->dir->ops->link(p->dir, p->d->name, p->d->name_len, i);
		if (r == 0 && (a.iflags & INODE_LINKABLE)) {
			mutex_lock(&i->meta);
			i->iflags &= ~INODE_LINKABLE;
			mutex_unlock(&i->meta);
		}
	}
	fmutex_unlock(&i->lock);
	return r;
}

int vfs_link(struct vfs_ctx *c, const struct path *old_start, const char *old_name,
	     const struct path *new_start, const char *new_name, unsigned at_flags)
{
	unsigned walk = 0;
	struct path old;
	struct place p;
	int r;

	if (at_flags & ~(unsigned)(LX_AT_SYMLINK_FOLLOW | LX_AT_EMPTY_PATH))
		return -EINVAL;
	if (at_flags & LX_AT_EMPTY_PATH) {
		/* A descriptor may have come from one who was allowed to pass it on, not to name
		 * it. */
		if (!old_name[0] && !cred_capable(c->cred, LX_CAP_DAC_READ_SEARCH))
			return -ENOENT;
		walk |= WALK_EMPTY;
	}
	if (at_flags & LX_AT_SYMLINK_FOLLOW)
		walk |= WALK_FOLLOW;
	r = path_lookup(c, old_start, old_name, walk, &old);
	if (r)
		return r;
	r = place_begin(c, new_start, new_name, false, &p);
	if (r) {
		path_put(&old);
		return r;
	}
	r = link_locked(c, &p, &old);
	if (r == 0) {
		struct inode *i = inode_get(dentry_inode(old.dentry));

		fsnotify_inode(i, LX_IN_ATTRIB);
		place_fill(&p, i);
	}
	place_end(&p);
	path_put(&old);
	return r;
}

/* ---- removing ---- */

static void mark_dead(struct inode *i)
{
	mutex_lock(&i->meta);
	__atomic_store_n(&i->iflags, i->iflags | INODE_DEAD, __ATOMIC_RELAXED);
	mutex_unlock(&i->meta);
}

void victim_gone(struct dentry *d)
{
	struct inode *i = dentry_inode(d);

	if (LX_S_ISDIR(inode_mode(i)))
		mark_dead(i);
	dentry_delete(d);
	mount_detach_below(d);
}

/* In Linux's order: who watches the file itself hears of its end before who watches its directory,
 * but if somebody else holds it still: then only when that ends (vfs/dcache.c). */
static void tell_removed(struct dentry *d, struct inode *i, bool is_dir)
{
	if (!is_dir)
		fsnotify_inode(i, LX_IN_ATTRIB); /* its count of links */
	if (__atomic_load_n(&i->nlink, __ATOMIC_RELAXED) == 0 && ref_read(&d->ref) == 1)
		fsnotify_inode(i, LX_IN_DELETE_SELF);
	fsnotify(d, LX_IN_DELETE, 0);
}

/* Both of unlink and rmdir behind the parent's lock. */
static int remove_locked(struct vfs_ctx *c, struct inode *dir, struct dentry *d, bool is_dir)
{
	struct inode *i = dentry_inode(d);
	int r = may_delete(c, dir, d, is_dir);

	if (r)
		return r;
	if (is_dir ? !dir->ops->rmdir : !dir->ops->unlink)
		return -EPERM;
	if (i == dir)
		return -EBUSY; /* a host's tree that changed under us: it is locked already */
	fmutex_lock(&i->lock);
	if (dentry_is_mountpoint(d))
		r = -EBUSY;
	else if (is_dir)
		r = dir->ops->rmdir(dir, d->name, d->name_len, i);
	else
		r = dir->ops->unlink(dir, d->name, d->name_len, i);
	if (r == 0)
		victim_gone(d);
	fmutex_unlock(&i->lock);
	if (r == 0)
		tell_removed(d, i, is_dir);
	return r;
}

static int remove_name(struct vfs_ctx *c, const struct path *start, const char *name, bool is_dir)
{
	struct walk_last last;
	struct path parent;
	struct dentry *d = NULL;
	int r = path_lookup_parent(c, start, name, 0, &parent, &last);

	if (r)
		return r;
	if (last.type != LAST_NORM) {
		r = -EISDIR;
		if (is_dir)
			r = last.type == LAST_DOT      ? -EINVAL
			    : last.type == LAST_DOTDOT ? -ENOTEMPTY
						       : -EBUSY;
		path_put(&parent);
		return r;
	}
	r = path_want_write(&parent, VFS_USE_NAMES);
	if (r) {
		path_put(&parent);
		return r;
	}

	struct inode *dir = dentry_inode(parent.dentry);

	revalidate_name(parent.dentry, last.name, last.len);
	fmutex_lock(&dir->lock);
	r = dentry_lookup_locked(parent.dentry, last.name, last.len, &d);
	if (r)
		d = NULL;
	else if (!dentry_inode(d))
		r = -ENOENT;
	else if (!is_dir && last.trailing_slash)
		r = LX_S_ISDIR(inode_mode(dentry_inode(d))) ? -EISDIR : -ENOTDIR;
	else
		r = remove_locked(c, dir, d, is_dir);
	fmutex_unlock(&dir->lock);
	dentry_put(d);
	path_put(&parent);
	return r;
}

int vfs_unlink(struct vfs_ctx *c, const struct path *start, const char *name)
{
	return remove_name(c, start, name, false);
}

int vfs_rmdir(struct vfs_ctx *c, const struct path *start, const char *name)
{
	return remove_name(c, start, name, true);
}

/* ---- readlink ---- */

ssize_t vfs_readlink(struct vfs_ctx *c, const struct path *p, char *buf, size_t size)
{
	struct inode *i = dentry_inode(p->dentry);
	struct path to, root;

	if (!LX_S_ISLNK(inode_mode(i)))
		return -EINVAL;
	if (i->ops->readlink)
		return i->ops->readlink(i, buf, size);
	if (!i->ops->get_link)
		return -EINVAL;

	/* A magic link without a text: the text is where it leads to. */
	int r = i->ops->get_link(c, i, &to);

	if (r)
		return r;

	char *text = mem_zalloc(LX_PATH_MAX);
	ssize_t n = -ENOMEM;

	if (text) {
		fs_get_root(c->fs, &root);
		n = path_text(&to, &root, text, LX_PATH_MAX);
		path_put(&root);
	}
	if (n > 0) {
		n = (ssize_t)MIN((size_t)n, size);
		memcpy(buf, text, (size_t)n);
	}
	mem_free(text);
	path_put(&to);
	return n;
}
