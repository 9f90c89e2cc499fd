/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: open and what makes, removes, renames and reads names; working directory and root. Also
 * how a path argument gets into the kernel.
 */
#include <errno.h>
#include <string.h>
#include "sentry/answers.h"
#include "sentry/file_args.h"
#include "vfs/mount.h"

/* ---- path arguments ---- */

int at_path_get(struct task *t, int dirfd, gaddr_t path, enum at_empty empty, struct at_path *out)
{
	int r;

	out->name = NULL;
	out->dir = NULL;
	if (!path.a && empty == AT_EMPTY_NULL) {
		out->near[0] = '\0';
		out->name = out->near;
	} else {
		r = copy_in_path_near(t, path, out->near, &out->name);
		if (r < 0)
			return r;
	}
	if (out->name[0] == '\0' && empty == AT_EMPTY_NO)
		return -ENOENT;
	if (out->name[0] == '/' || dirfd == LX_AT_FDCWD)
		return 0;
	out->dir = fd_get(t->files, dirfd);
	return out->dir ? 0 : -EBADF;
}

void at_path_put(struct at_path *p)
{
	if (p->name != p->near)
		mem_free(p->name);
	if (p->dir)
		file_put(p->dir);
	p->name = NULL;
	p->dir = NULL;
}

int at_path_lookup(struct task *t, int dirfd, gaddr_t path, enum at_empty empty, unsigned walk,
		   struct path *out)
{
	struct at_path p;
	int r = at_path_get(t, dirfd, path, empty, &p);

	if (r == 0)
		r = path_lookup(&t->vctx, at_path_start(&p), p.name,
				walk | (empty == AT_EMPTY_NO ? 0 : WALK_EMPTY), out);
	at_path_put(&p);
	return r;
}

int copy_in_struct(struct task *t, void *dst, size_t known, gaddr_t src, uint64_t size)
{
	char rest[64];

	memset(dst, 0, known);
	for (uint64_t off = known; off < size; off += sizeof(rest)) {
		size_t n = MIN(sizeof(rest), (size_t)(size - off));

		if (copy_in(t, rest, GADDR(src.a + off), n) < 0)
			return -EFAULT;
		for (size_t i = 0; i < n; i++)
			if (rest[i])
				return -E2BIG;
	}
	return copy_in(t, dst, src, MIN(known, (size_t)size));
}

/* ---- open ---- */

#define LX_O_KNOWN                                                                            \
	(LX_O_ACCMODE | LX_O_CREAT | LX_O_EXCL | LX_O_NOCTTY | LX_O_TRUNC | LX_O_APPEND |     \
	 LX_O_NONBLOCK | LX_O_SYNC | LX_O_DSYNC | LX_O_ASYNC | LX_O_DIRECT | LX_O_LARGEFILE | \
	 LX_O_DIRECTORY | LX_O_NOFOLLOW | LX_O_NOATIME | LX_O_CLOEXEC | LX_O_PATH |           \
	 LX_O_TMPFILE_BIT)
#define LX_O_PATH_KNOWN (LX_O_DIRECTORY | LX_O_NOFOLLOW | LX_O_PATH | LX_O_CLOEXEC)

#define LX_RESOLVE_NO_XDEV 1u
#define LX_RESOLVE_NO_MAGICLINKS 2u
#define LX_RESOLVE_NO_SYMLINKS 4u
#define LX_RESOLVE_BENEATH 8u
#define LX_RESOLVE_IN_ROOT 16u
#define LX_RESOLVE_CACHED 32u
#define LX_RESOLVE_KNOWN 63u

struct lx_open_how {
	uint64_t flags, mode, resolve;
};

static bool makes_file(uint64_t flags)
{
	return flags & (LX_O_CREAT | LX_O_TMPFILE_BIT);
}

/* Linux's build_open_flags: what is refused before the path is looked at. */
static int check_open_how(struct lx_open_how *how)
{
	uint64_t flags = how->flags;

	if (flags & ~(uint64_t)LX_O_KNOWN)
		return -EINVAL;
	if (how->resolve & ~(uint64_t)LX_RESOLVE_KNOWN)
		return -EINVAL;
	if ((how->resolve & LX_RESOLVE_BENEATH) && (how->resolve & LX_RESOLVE_IN_ROOT))
		return -EINVAL;
	if (makes_file(flags)) {
		if (how->mode & ~(uint64_t)07777)
			return -EINVAL;
	} else if (how->mode) {
		return -EINVAL;
	}
	if ((flags & (LX_O_DIRECTORY | LX_O_CREAT)) == (LX_O_DIRECTORY | LX_O_CREAT))
		return -EINVAL;
	if (flags & LX_O_TMPFILE_BIT) {
		if (!(flags & LX_O_DIRECTORY))
			return -EINVAL;
		if ((flags & LX_O_ACCMODE) == LX_O_RDONLY)
			return -EINVAL;
	}
	if ((flags & LX_O_PATH) && (flags & ~(uint64_t)LX_O_PATH_KNOWN))
		return -EINVAL;
	if ((how->resolve & LX_RESOLVE_CACHED) &&
	    (flags & (LX_O_TRUNC | LX_O_CREAT | LX_O_TMPFILE_BIT)))
		return -EAGAIN;
	return 0;
}

static unsigned walk_of_resolve(uint64_t resolve)
{
	unsigned w = 0;

	if (resolve & LX_RESOLVE_NO_XDEV)
		w |= WALK_NO_XDEV;
	if (resolve & LX_RESOLVE_NO_MAGICLINKS)
		w |= WALK_NO_MAGICLINKS;
	if (resolve & LX_RESOLVE_NO_SYMLINKS)
		w |= WALK_NO_SYMLINKS;
	if (resolve & LX_RESOLVE_BENEATH)
		w |= WALK_BENEATH;
	if (resolve & LX_RESOLVE_IN_ROOT)
		w |= WALK_IN_ROOT;
	if (resolve & LX_RESOLVE_CACHED)
		w |= WALK_CACHED;
	return w;
}

static long do_openat(struct task *t, int dirfd, gaddr_t filename, struct lx_open_how *how)
{
	struct at_path p;
	struct open_how o;
	struct file *f;
	long r = check_open_how(how);
	int fd;

	if (r < 0)
		return r;
	o.flags = (uint32_t)how->flags;
	o.mode = (uint32_t)how->mode;
	o.walk = walk_of_resolve(how->resolve);
	/* The descriptor comes before the directory's, but after the name. */
	r = at_path_get(t, dirfd, filename, AT_EMPTY_NO, &p);
	/* A walk that takes the directory for its root needs it for an absolute path too. */
	if (r == 0 && !p.dir && dirfd != LX_AT_FDCWD && (o.walk & (WALK_IN_ROOT | WALK_BENEATH))) {
		p.dir = fd_get(t->files, dirfd);
		if (!p.dir)
			r = -EBADF;
	}
	if (r == 0 || r == -EBADF) {
		fd = fd_reserve(t->files, o.flags & LX_O_CLOEXEC ? FD_CLOEXEC_FLAG : 0, 0,
				task_nofile(t));
		if (fd < 0) {
			r = fd;
		} else {
			if (r == 0)
				r = vfs_open(&t->vctx, at_path_start(&p), p.name, &o, &f);
			if (r < 0) {
				fd_unreserve(t->files, fd);
			} else {
				fd_fill(t->files, fd, f);
				r = fd;
			}
		}
	}
	at_path_put(&p);
	return r;
}

/* open(2) ignores what openat2(2) refuses. */
static long open_lenient(struct task *t, int dirfd, gaddr_t filename, int flags, uint32_t mode)
{
	struct lx_open_how how = {.flags = (uint32_t)flags & LX_O_KNOWN, .mode = mode & 07777};

	if (how.flags & LX_O_PATH)
		how.flags &= LX_O_PATH_KNOWN;
	else
		how.flags |= LX_O_LARGEFILE;
	if (!makes_file(how.flags))
		how.mode = 0;
	return do_openat(t, dirfd, filename, &how);
}

long sys_open(struct task *t, gaddr_t filename, int flags, uint32_t mode)
{
	return open_lenient(t, LX_AT_FDCWD, filename, flags, mode);
}

long sys_openat(struct task *t, int dirfd, gaddr_t filename, int flags, uint32_t mode)
{
	return open_lenient(t, dirfd, filename, flags, mode);
}

long sys_creat(struct task *t, gaddr_t pathname, uint32_t mode)
{
	return open_lenient(t, LX_AT_FDCWD, pathname, LX_O_CREAT | LX_O_WRONLY | LX_O_TRUNC, mode);
}

long sys_openat2(struct task *t, int dirfd, gaddr_t filename, gaddr_t how, uint64_t usize)
{
	struct lx_open_how h;
	int r;

	if (usize < sizeof(h))
		return -EINVAL;
	if (usize > MOAT_PAGE_SIZE)
		return -E2BIG;
	r = copy_in_struct(t, &h, sizeof(h), how, usize);
	if (r < 0)
		return r;
	if (!(h.flags & LX_O_PATH))
		h.flags |= LX_O_LARGEFILE;
	return do_openat(t, dirfd, filename, &h);
}

/* ---- making and removing names ---- */

static long do_mkdir(struct task *t, int dirfd, gaddr_t pathname, uint32_t mode)
{
	struct at_path p;
	long r = at_path_get(t, dirfd, pathname, AT_EMPTY_NO, &p);

	if (r == 0)
		r = vfs_mkdir(&t->vctx, at_path_start(&p), p.name, mode & 01777);
	at_path_put(&p);
	return r;
}

long sys_mkdir(struct task *t, gaddr_t pathname, uint32_t mode)
{
	return do_mkdir(t, LX_AT_FDCWD, pathname, mode);
}

long sys_mkdirat(struct task *t, int dirfd, gaddr_t pathname, uint32_t mode)
{
	return do_mkdir(t, dirfd, pathname, mode);
}

/* A device number as mknod(2) passes it: 12 bits of major in the middle of 20 of minor. */
static uint64_t decode_dev(uint32_t dev)
{
	return lx_makedev((dev & 0xfff00) >> 8, (dev & 0xff) | ((dev >> 12) & 0xfff00));
}

static long do_mknod(struct task *t, int dirfd, gaddr_t filename, uint32_t mode, uint32_t dev)
{
	struct at_path p;
	long r = mknod_type(&mode);

	if (r)
		return r;
	r = at_path_get(t, dirfd, filename, AT_EMPTY_NO, &p);
	if (r == 0)
		r = vfs_mknod(&t->vctx, at_path_start(&p), p.name, mode, decode_dev(dev));
	at_path_put(&p);
	return r;
}

long sys_mknod(struct task *t, gaddr_t filename, uint32_t mode, uint32_t dev)
{
	return do_mknod(t, LX_AT_FDCWD, filename, mode, dev);
}

long sys_mknodat(struct task *t, int dirfd, gaddr_t filename, uint32_t mode, uint32_t dev)
{
	return do_mknod(t, dirfd, filename, mode, dev);
}

static long do_unlink(struct task *t, int dirfd, gaddr_t pathname, bool dir)
{
	struct at_path p;
	long r = at_path_get(t, dirfd, pathname, AT_EMPTY_NO, &p);

	if (r == 0)
		r = dir ? vfs_rmdir(&t->vctx, at_path_start(&p), p.name)
			: vfs_unlink(&t->vctx, at_path_start(&p), p.name);
	at_path_put(&p);
	return r;
}

long sys_unlink(struct task *t, gaddr_t pathname)
{
	return do_unlink(t, LX_AT_FDCWD, pathname, false);
}

long sys_rmdir(struct task *t, gaddr_t pathname)
{
	return do_unlink(t, LX_AT_FDCWD, pathname, true);
}

long sys_unlinkat(struct task *t, int dirfd, gaddr_t pathname, int flag)
{
	if (flag & ~LX_AT_REMOVEDIR)
		return -EINVAL;
	return do_unlink(t, dirfd, pathname, flag);
}

static long do_symlink(struct task *t, gaddr_t target, int newdirfd, gaddr_t linkpath)
{
	struct at_path p;
	char *text = NULL;
	long r;

	r = copy_in_path(t, target, &text);
	if (r < 0)
		return r;
	if (text[0] == '\0') {
		mem_free(text);
		return -ENOENT;
	}
	r = at_path_get(t, newdirfd, linkpath, AT_EMPTY_NO, &p);
	if (r == 0)
		r = vfs_symlink(&t->vctx, text, at_path_start(&p), p.name);
	at_path_put(&p);
	mem_free(text);
	return r;
}

long sys_symlink(struct task *t, gaddr_t target, gaddr_t linkpath)
{
	return do_symlink(t, target, LX_AT_FDCWD, linkpath);
}

long sys_symlinkat(struct task *t, gaddr_t target, int newdirfd, gaddr_t linkpath)
{
	return do_symlink(t, target, newdirfd, linkpath);
}

static long do_link(struct task *t, int olddirfd, gaddr_t oldname, int newdirfd, gaddr_t newname,
		    int flags)
{
	struct at_path from, to = {0};
	long r;

	if (flags & ~(LX_AT_SYMLINK_FOLLOW | LX_AT_EMPTY_PATH))
		return -EINVAL;
	r = at_path_get(t, olddirfd, oldname, flags & LX_AT_EMPTY_PATH ? AT_EMPTY_OK : AT_EMPTY_NO,
			&from);
	if (r == 0)
		r = at_path_get(t, newdirfd, newname, AT_EMPTY_NO, &to);
	if (r == 0)
		r = vfs_link(&t->vctx, at_path_start(&from), from.name, at_path_start(&to), to.name,
			     (unsigned)flags);
	at_path_put(&from);
	at_path_put(&to);
	return r;
}

long sys_link(struct task *t, gaddr_t oldname, gaddr_t newname)
{
	return do_link(t, LX_AT_FDCWD, oldname, LX_AT_FDCWD, newname, 0);
}

long sys_linkat(struct task *t, int olddirfd, gaddr_t oldname, int newdirfd, gaddr_t newname,
		int flags)
{
	return do_link(t, olddirfd, oldname, newdirfd, newname, flags);
}

static long do_rename(struct task *t, int olddirfd, gaddr_t oldname, int newdirfd, gaddr_t newname,
		      unsigned flags)
{
	struct at_path from, to = {0};
	long r;

	if (flags & ~(LX_RENAME_NOREPLACE | LX_RENAME_EXCHANGE | LX_RENAME_WHITEOUT))
		return -EINVAL;
	if ((flags & LX_RENAME_EXCHANGE) && (flags & (LX_RENAME_NOREPLACE | LX_RENAME_WHITEOUT)))
		return -EINVAL;
	r = at_path_get(t, olddirfd, oldname, AT_EMPTY_NO, &from);
	if (r == 0)
		r = at_path_get(t, newdirfd, newname, AT_EMPTY_NO, &to);
	if (r == 0)
		r = vfs_rename(&t->vctx, at_path_start(&from), from.name, at_path_start(&to),
			       to.name, flags);
	at_path_put(&from);
	at_path_put(&to);
	return r;
}

long sys_rename(struct task *t, gaddr_t oldname, gaddr_t newname)
{
	return do_rename(t, LX_AT_FDCWD, oldname, LX_AT_FDCWD, newname, 0);
}

long sys_renameat(struct task *t, int olddirfd, gaddr_t oldname, int newdirfd, gaddr_t newname)
{
	return do_rename(t, olddirfd, oldname, newdirfd, newname, 0);
}

long sys_renameat2(struct task *t, int olddirfd, gaddr_t oldname, int newdirfd, gaddr_t newname,
		   unsigned flags)
{
	return do_rename(t, olddirfd, oldname, newdirfd, newname, flags);
}

static long do_readlink(struct task *t, int dirfd, gaddr_t path, gaddr_t buf, int bufsiz)
{
	struct at_path ap;
	struct path p;
	char *text;
	long r;

	if (bufsiz <= 0)
		return -EINVAL;
	r = at_path_get(t, dirfd, path, AT_EMPTY_OK, &ap);
	if (r == 0)
		r = path_lookup(&t->vctx, at_path_start(&ap), ap.name, WALK_EMPTY, &p);
	if (r < 0) {
		at_path_put(&ap);
		return r;
	}
	text = mem_zalloc(LX_PATH_MAX);
	if (!text) {
		r = -ENOMEM;
	} else if (!LX_S_ISLNK(p.dentry->inode->mode)) {
		/* An empty name is for an O_PATH descriptor of a link. */
		r = ap.name[0] ? -EINVAL : -ENOENT;
	} else {
		r = vfs_readlink(&t->vctx, &p, text, MIN((size_t)bufsiz, (size_t)LX_PATH_MAX));
		if (r > 0 && copy_out(t, buf, text, (size_t)r) < 0)
			r = -EFAULT;
	}
	mem_free(text);
	path_put(&p);
	at_path_put(&ap);
	return r;
}

long sys_readlink(struct task *t, gaddr_t path, gaddr_t buf, int bufsiz)
{
	return do_readlink(t, LX_AT_FDCWD, path, buf, bufsiz);
}

long sys_readlinkat(struct task *t, int dirfd, gaddr_t pathname, gaddr_t buf, int bufsiz)
{
	return do_readlink(t, dirfd, pathname, buf, bufsiz);
}

/* ---- working directory, root, umask ---- */

long sys_getcwd(struct task *t, gaddr_t buf, uint64_t size)
{
	static const char mark[] = "(unreachable)";
	struct path cwd, root;
	bool reachable = true;
	char *text = mem_zalloc(LX_PATH_MAX + sizeof(mark));
	char *at;
	ssize_t n;

	if (!text)
		return -ENOMEM;
	at = text + sizeof(mark) - 1;
	fs_get_cwd(t->vctx.fs, &cwd);
	fs_get_root(t->vctx.fs, &root);
	n = path_text_raw(&cwd, &root, at, LX_PATH_MAX, &reachable);
	vfs_used(&cwd, VFS_USE_LOOK);
	path_put(&root);
	path_put(&cwd);
	if (n >= 0) {
		if (!reachable) {
			at = memcpy(text, mark, sizeof(mark) - 1);
			n += (ssize_t)sizeof(mark) - 1;
		}
		n++; /* the result counts the NUL */
		if ((uint64_t)n > size)
			n = -ERANGE;
		else if (copy_out(t, buf, at, (size_t)n) < 0)
			n = -EFAULT;
	}
	mem_free(text);
	return n;
}

static long with_directory(struct task *t, gaddr_t path,
			   int (*fn)(struct vfs_ctx *c, const struct path *p))
{
	struct path p;
	long r =
		at_path_lookup(t, LX_AT_FDCWD, path, AT_EMPTY_NO, WALK_FOLLOW | WALK_DIRECTORY, &p);

	if (r < 0)
		return r;
	r = fn(&t->vctx, &p);
	path_put(&p);
	return r;
}

long sys_chdir(struct task *t, gaddr_t path)
{
	return with_directory(t, path, vfs_chdir);
}

long sys_fchdir(struct task *t, int fd)
{
	struct file *f = fd_get(t->files, fd);
	long r;

	if (!f)
		return -EBADF;
	r = LX_S_ISDIR(f->inode->mode) ? vfs_chdir(&t->vctx, &f->path) : -ENOTDIR;
	file_put(f);
	return r;
}

long sys_chroot(struct task *t, gaddr_t path)
{
	return with_directory(t, path, vfs_chroot);
}

long sys_umask(struct task *t, uint32_t mask)
{
	const uint32_t old = fs_set_umask(t->vctx.fs, mask & 0777);

	if (old != (mask & 0777))
		answers_stale();
	return old;
}
