/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open(2), openat2(2): from a path and flags to an open file description.
 *
 * Theory of operation: a walk to the parent; then the last component is looked up or, under the
 * directory's lock, created; a symlink there puts the walk back to its middle. What is found is
 * checked (may_open), opened (open_inode: regular files and directories by their file system,
 * devices by vfs/chrdev.c, FIFOs by vfs/pipe.c), and truncated at last.
 *
 * The order of checks is that of Linux's path_openat, do_open and may_open.
 *
 * References: open(2), openat2(2), path_resolution(7).
 */
#include <errno.h>
#include "vfs/chrdev.h"
#include "vfs/dcache.h"
#include "vfs/fsnotify.h"
#include "vfs/inode.h"
#include "vfs/mount.h"
#include "vfs/namei.h"
#include "vfs/names.h"
#include "vfs/pipe.h"

/* Flags that do their work at open and are not kept. */
#define OPEN_ONLY (LX_O_CREAT | LX_O_EXCL | LX_O_NOCTTY | LX_O_TRUNC | LX_O_CLOEXEC)
#define OPATH_FLAGS (LX_O_DIRECTORY | LX_O_NOFOLLOW | LX_O_PATH | LX_O_CLOEXEC)

struct opening {
	struct vfs_ctx *c;
	uint32_t flags;
	uint32_t mode; /* for creation, umask not applied */
	unsigned may;  /* MAY_* that the flags ask for */
	bool created;
	/* Made before a file is created, so that the creation is not in vain. Or NULL. */
	struct file *spare;
};

static const struct file_ops g_no_ops;

/* ---- opening what is found ---- */

static unsigned fmode_of(uint32_t flags)
{
	switch (flags & LX_O_ACCMODE) {
	case LX_O_RDONLY:
		return FMODE_READ;
	case LX_O_WRONLY:
		return FMODE_WRITE;
	case LX_O_RDWR:
		return FMODE_READ | FMODE_WRITE;
	default:
		return 0; /* 3: for ioctl alone, checked as for both */
	}
}

static unsigned may_of(uint32_t flags)
{
	static const unsigned by_mode[4] = {MAY_READ, MAY_WRITE, MAY_READ | MAY_WRITE,
					    MAY_READ | MAY_WRITE};
	unsigned may = by_mode[flags & LX_O_ACCMODE];

	if (flags & LX_O_TRUNC)
		may |= MAY_WRITE;
	return may;
}

/* May the file be opened so? *truncate is cleared for what has no length. */
static int may_open(struct vfs_ctx *c, const struct path *p, unsigned may, uint32_t flags,
		    bool *truncate)
{
	struct inode *i = dentry_inode(p->dentry);
	uint32_t iflags = __atomic_load_n(&i->iflags, __ATOMIC_RELAXED);
	unsigned mf = p->mnt ? mount_flags(p->mnt) : 0;
	int r;

	switch (inode_mode(i) & LX_S_IFMT) {
	case LX_S_IFLNK:
		return -ELOOP;
	case LX_S_IFDIR:
		if (may & MAY_WRITE)
			return -EISDIR;
		if (may & MAY_EXEC)
			return -EACCES;
		break;
	case LX_S_IFBLK:
	case LX_S_IFCHR:
		if (mf & MOUNT_NODEV) {
			vfs_denied(VFS_DENIED_NO_DEVICE, p->mnt);
			return -EACCES;
		}
		__attribute__((fallthrough));
	case LX_S_IFIFO:
	case LX_S_IFSOCK:
		if (may & MAY_EXEC)
			return -EACCES;
		*truncate = false;
		break;
	case LX_S_IFREG:
		if ((may & MAY_EXEC) && (mf & MOUNT_NOEXEC)) {
			vfs_denied(VFS_DENIED_NO_EXEC, p->mnt);
			return -EACCES;
		}
		break;
	default:
		break;
	}
	r = inode_permission(c, i, may);
	if (r)
		return r;
	if (iflags & INODE_APPEND) {
		if ((flags & LX_O_ACCMODE) != LX_O_RDONLY && !(flags & LX_O_APPEND))
			return -EPERM;
		if (flags & LX_O_TRUNC)
			return -EPERM;
	}
	if ((flags & LX_O_NOATIME) && !inode_owner_or_capable(c, i))
		return -EPERM;
	return 0;
}

/* Write access for the life of the description: the mount, and nobody runs it. */
static int get_write_access(const struct path *p, unsigned fmode)
{
	struct inode *i = dentry_inode(p->dentry);
	uint32_t mode = inode_mode(i);

	if (!(fmode & FMODE_WRITE) || !(LX_S_ISREG(mode) || LX_S_ISDIR(mode)))
		return 0;

	int r = LX_S_ISREG(mode) ? inode_get_write(i) : 0;

	if (r)
		return r;
	r = path_want_write(p, VFS_USE_WRITE);
	if (r && LX_S_ISREG(mode))
		inode_put_write(i);
	return r;
}

static int open_by_type(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	switch (inode_mode(i) & LX_S_IFMT) {
	case LX_S_IFCHR:
	case LX_S_IFBLK:
		return chrdev_open(c, i, f);
	case LX_S_IFIFO:
		return fifo_open(c, i, f);
	case LX_S_IFSOCK:
		return -ENXIO;
	default:
		f->ops = i->fops;
		if (i->ops->open) {
			int r = i->ops->open(c, i, f);

			if (r)
				return r;
		}
		return f->ops ? 0 : -ENXIO;
	}
}

/* The description for @p: a new one, or *spare, which stands on another path yet. */
static struct file *file_for(struct vfs_ctx *c, const struct path *p, uint32_t flags,
			     unsigned fmode, struct file **spare)
{
	struct file *f = *spare;

	/* A terminal's open still asks for O_NOCTTY; open_inode takes it away. */
	flags &= ~(uint32_t)OPEN_ONLY | LX_O_NOCTTY;
	if (!f)
		return file_new(c, p, &g_no_ops, fmode, flags);
	*spare = NULL;

	struct path old = f->path;

	path_get(p);
	f->path = *p;
	f->inode = dentry_inode(p->dentry);
	f->fmode = fmode;
	atomic_store_explicit(&f->flags, flags, memory_order_relaxed);
	path_put(&old);
	return f;
}

/* Makes the description. Checks are done. */
static int open_inode(struct vfs_ctx *c, const struct path *p, uint32_t flags, unsigned fmode,
		      struct file **spare, struct file **out)
{
	struct inode *i = dentry_inode(p->dentry);
	bool counted = (fmode & FMODE_WRITE) && LX_S_ISREG(inode_mode(i));
	struct file *f;
	int r = get_write_access(p, fmode);

	if (r)
		return r;
	f = file_for(c, p, flags, fmode | FMODE_NOWRITECOUNT, spare);
	if (!f) {
		if (counted)
			inode_put_write(i);
		return file_new_error();
	}
	r = open_by_type(c, i, f);
	if (r) {
		/* It was never open: no close event, nothing to release. */
		f->ops = &g_no_ops;
		f->fmode = FMODE_PATH;
		file_put(f);
		if (counted)
			inode_put_write(i);
		return r;
	}
	if (flags & LX_O_NOCTTY)
		atomic_fetch_and(&f->flags, ~(uint32_t)LX_O_NOCTTY);
	if (counted)
		f->fmode &= ~FMODE_NOWRITECOUNT; /* the count is the description's now */
	*out = f;
	return 0;
}

static int open_opath(struct vfs_ctx *c, const struct path *p, uint32_t flags, struct file **out)
{
	struct file *f = file_new(c, p, &g_no_ops, FMODE_PATH | FMODE_NOWRITECOUNT,
				  flags & OPATH_FLAGS & ~(uint32_t)LX_O_CLOEXEC);

	if (!f)
		return file_new_error();
	*out = f;
	return 0;
}

static void told_open(const struct path *p, struct file *f)
{
	vfs_used(p, (f->fmode & FMODE_EXEC   ? VFS_USE_EXEC | VFS_USE_READ
		     : f->fmode & FMODE_READ ? VFS_USE_READ
					     : 0) |
			    (f->fmode & FMODE_WRITE ? VFS_USE_WRITE : 0) |
			    (f->fmode & FMODE_CREATED ? VFS_USE_MADE : 0));
	if (unlikely(g_vfs_hooks->opened != NULL))
		g_vfs_hooks->opened(f);
	fsnotify(p->dentry, LX_IN_OPEN, 0);
}

/* Checks and opens what the walk has led to. */
static int open_found(struct opening *o, const struct path *p, bool must_be_dir, struct file **out)
{
	struct vfs_ctx *c = o->c;
	struct inode *i = dentry_inode(p->dentry);
	bool is_dir = LX_S_ISDIR(inode_mode(i));
	uint32_t flags = o->flags;
	unsigned may = o->may;
	bool truncate = false;
	int r;

	if (flags & LX_O_CREAT) {
		if ((flags & LX_O_EXCL) && !o->created)
			return -EEXIST;
		if (is_dir)
			return -EISDIR;
	}
	if (must_be_dir && !is_dir)
		return -ENOTDIR;
	if (o->created) {
		/* Whoever made the file may have it as asked, whatever its mode says. */
		flags &= ~(uint32_t)LX_O_TRUNC;
		may = 0;
	} else if ((flags & LX_O_TRUNC) && LX_S_ISREG(inode_mode(i))) {
		r = path_want_write(p, VFS_USE_WRITE);
		if (r)
			return r;
		truncate = true;
	}
	r = may_open(c, p, may, flags, &truncate);
	if (r)
		return r;
	r = open_inode(c, p, flags, fmode_of(flags) | (o->created ? FMODE_CREATED : 0), &o->spare,
		       out);
	if (r)
		return r;
	if (truncate) {
		r = inode_get_write(i);
		if (r == 0) {
			r = inode_truncate_open(c, i);
			inode_put_write(i);
		}
		if (r) {
			file_put(*out);
			*out = NULL;
			return r;
		}
		fsnotify(p->dentry, LX_IN_MODIFY, 0);
	}
	told_open(p, *out);
	return 0;
}

/* ---- creating ---- */

/* The last component is not there; the directory is locked. */
static int create_last(struct opening *o, struct walk *w, struct dentry *d)
{
	struct inode *dir = dentry_inode(w->path.dentry), *i;
	int r = path_want_write(&w->path, VFS_USE_NAMES);

	/* Who writes to /dev/null says O_CREAT, too. */
	if (unlikely(w->path.dentry->super->flags & SUPER_DEVICES))
		walk_missed(w, d);
	if (r == 0)
		r = may_create_in(o->c, dir);
	if (r)
		return r;
	if (!dir->ops->create)
		return -EACCES;

	uint32_t mode =
		mode_for_new(o->c, dir, LX_S_IFREG | (o->mode & 07777), fs_get_umask(o->c->fs));

	o->spare = file_new(o->c, &w->path, &g_no_ops, FMODE_PATH | FMODE_NOWRITECOUNT, 0);
	if (!o->spare)
		return file_new_error();
	r = dir->ops->create(o->c, dir, d->name, d->name_len, mode & 07777, &i);
	if (r)
		return r;
	dentry_instantiate(d, i);
	o->created = true;
	fsnotify(d, LX_IN_CREATE, 0);
	return 0;
}

/* Looks the last component up, and creates it if it is not there. *out: a reference. */
static int lookup_or_create(struct opening *o, struct walk *w, struct dentry **out)
{
	struct dentry *dir = w->path.dentry;
	struct inode *di = dentry_inode(dir);
	int r;

	/* Mostly the file is there: then no lock. A negative entry must be looked at under it. */
	if (!(o->flags & LX_O_EXCL)) {
		r = walk_last_lookup(w, out);
		if (r || dentry_inode(*out))
			return r;
		dentry_put(*out);
	} else {
		revalidate_name(dir, w->last, w->last_len);
	}
	fmutex_lock(&di->lock);
	r = dentry_lookup_locked(dir, w->last, w->last_len, out);
	if (r == 0 && !dentry_inode(*out)) {
		r = create_last(o, w, *out);
		if (r)
			dentry_put(*out);
	}
	fmutex_unlock(&di->lock);
	return r;
}

/* ---- the walk ---- */

static int open_walk(struct opening *o, struct walk *w, struct file **out)
{
	int r;

	do {
		/* A last component that is to be created is for lookup_or_create. */
		r = walk_parent(w, !(o->flags & LX_O_CREAT));
		if (r)
			return r;
		if (w->last_type != LAST_NORM) {
			r = walk_last_dots(w);
			break;
		}
		if (w->last_slash) {
			if (o->flags & LX_O_CREAT)
				return -EISDIR;
			w->flags |= WALK_FOLLOW | WALK_DIRECTORY;
		}

		struct dentry *d;

		r = (o->flags & LX_O_CREAT) ? lookup_or_create(o, w, &d) : walk_last_lookup(w, &d);
		if (r)
			return r;
		r = walk_last_step(w, d);
	} while (r == 1);
	if (r == 0)
		r = walk_complete(w);
	if (r == 0)
		r = open_found(o, &w->path, w->flags & WALK_DIRECTORY, out);
	return r;
}

static int open_tmpfile(struct opening *o, const struct path *dir, struct file **out)
{
	struct vfs_ctx *c = o->c;
	struct inode *di = dentry_inode(dir->dentry), *i;
	struct path p = {.mnt = dir->mnt};
	uint32_t mode;
	int r = path_want_write(dir, VFS_USE_NAMES);

	if (r)
		return r;
	fmutex_lock(&di->lock);
	r = inode_permission(c, di, MAY_WRITE | MAY_EXEC);
	if (r == 0 && !di->ops->tmpfile)
		r = -EOPNOTSUPP;
	if (r == 0) {
		mode = mode_for_new(c, di, LX_S_IFREG | (o->mode & 07777), fs_get_umask(c->fs));
		r = di->ops->tmpfile(c, di, mode & 07777, &i);
	}
	fmutex_unlock(&di->lock);
	if (r)
		return r;
	if (!(o->flags & LX_O_EXCL)) {
		mutex_lock(&i->meta);
		i->iflags |= INODE_LINKABLE;
		mutex_unlock(&i->meta);
	}
	p.dentry = dentry_new_unnamed(dir->dentry, i);
	if (!p.dentry)
		return -ENOMEM;
	r = open_inode(c, &p, o->flags, fmode_of(o->flags), &o->spare, out);
	if (r == 0)
		told_open(&p, *out);
	dentry_put(p.dentry);
	return r;
}

/* Linux's build_open_flags: what fits together. */
static int check_flags(uint32_t *flags, unsigned walk)
{
	uint32_t f = *flags;

	if (f & LX_O_PATH) {
		*flags = f & OPATH_FLAGS;
		return 0;
	}
	if (f & LX_O_TMPFILE_BIT) {
		if ((f & (LX_O_TMPFILE | LX_O_CREAT)) != LX_O_TMPFILE)
			return -EINVAL;
		if (!(may_of(f & LX_O_ACCMODE) & MAY_WRITE))
			return -EINVAL;
	}
	if ((f & (LX_O_DIRECTORY | LX_O_CREAT)) == (LX_O_DIRECTORY | LX_O_CREAT))
		return -EINVAL;
	if ((walk & WALK_CACHED) && (f & (LX_O_TRUNC | LX_O_CREAT | LX_O_TMPFILE_BIT)))
		return -EAGAIN;
	return 0;
}

int vfs_open(struct vfs_ctx *c, const struct path *start, const char *name,
	     const struct open_how *how, struct file **out)
{
	struct opening o = {.c = c, .flags = how->flags, .mode = how->mode};
	unsigned walk = how->walk;
	int r = check_flags(&o.flags, walk);

	if (r)
		return r;
	o.may = may_of(o.flags);
	if ((o.flags & (LX_O_CREAT | LX_O_EXCL)) != (LX_O_CREAT | LX_O_EXCL) &&
	    !(o.flags & LX_O_NOFOLLOW))
		walk |= WALK_FOLLOW;
	if (o.flags & LX_O_DIRECTORY)
		walk |= WALK_DIRECTORY;
	if (o.flags & (LX_O_PATH | LX_O_TMPFILE_BIT)) {
		struct path p;

		r = path_lookup(c, start, name, walk, &p);
		if (r)
			return r;
		r = (o.flags & LX_O_PATH) ? open_opath(c, &p, o.flags, out)
					  : open_tmpfile(&o, &p, out);
		path_put(&p);
		return r;
	}

	struct walk w;

	r = walk_init(&w, c, start, name, walk);
	if (r == 0)
		r = open_walk(&o, &w, out);
	if (o.spare)
		file_put(o.spare);
	walk_fini(&w);
	return r;
}

int vfs_open_path(struct vfs_ctx *c, const struct path *p, uint32_t flags, struct file **out)
{
	struct opening o = {.c = c, .flags = flags & ~(uint32_t)(LX_O_CREAT | LX_O_EXCL)};
	int r;

	if (flags & LX_O_TMPFILE_BIT)
		return -EINVAL;
	r = check_flags(&o.flags, 0);
	if (r)
		return r;
	if (o.flags & LX_O_PATH)
		return open_opath(c, p, o.flags, out);
	o.may = may_of(o.flags);
	return open_found(&o, p, o.flags & LX_O_DIRECTORY, out);
}

int vfs_open_exec(struct vfs_ctx *c, const struct path *p, struct file **out)
{
	struct inode *i = dentry_inode(p->dentry);
	struct file *spare = NULL;
	bool truncate = false;
	int r = may_open(c, p, MAY_EXEC, LX_O_RDONLY, &truncate);

	if (r)
		return r;
	if (!LX_S_ISREG(inode_mode(i)))
		return -EACCES;
	r = open_inode(c, p, LX_O_RDONLY | LX_O_LARGEFILE, FMODE_READ | FMODE_EXEC, &spare, out);
	if (r == 0)
		told_open(p, *out);
	return r;
}
