/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended attributes: by path, by link, by descriptor, and relative to a descriptor. See xattr(7).
 */
#include <errno.h>
#include "sentry/file_args.h"
#include "vfs/xattr.h"

#define LX_XATTR_AT_KNOWN (unsigned)(LX_AT_SYMLINK_NOFOLLOW | LX_AT_EMPTY_PATH)

struct lx_xattr_args {
	uint64_t value;
	uint32_t size, flags;
};

/* What a call works on: a path (references) or an open file. */
struct xattr_target {
	struct path path;
	struct file *file;
};

/* Never the guest's: the file is @dirfd itself, and there is no path. */
#define BY_FD 0x80000000u

static int target_get(struct task *t, int dirfd, gaddr_t path, unsigned flags,
		      struct xattr_target *out)
{
	enum at_empty empty = flags & LX_AT_EMPTY_PATH ? AT_EMPTY_NULL : AT_EMPTY_NO;

	*out = (struct xattr_target){0};
	if (flags & BY_FD) {
		out->file = fd_get_nopath(t->files, dirfd);
		if (!out->file)
			return -EBADF;
		out->path = out->file->path;
		return 0;
	}
	return at_path_lookup(t, dirfd, path, empty,
			      flags & LX_AT_SYMLINK_NOFOLLOW ? 0 : WALK_FOLLOW, &out->path);
}

static void target_put(struct xattr_target *x)
{
	if (x->file)
		file_put(x->file);
	else
		path_put(&x->path);
}

static int copy_in_name(struct task *t, gaddr_t src, char name[LX_XATTR_NAME_MAX + 1])
{
	ssize_t n = copy_in_str(t, name, src, LX_XATTR_NAME_MAX + 1);

	if (n == -ENAMETOOLONG || n == 0)
		return -ERANGE;
	return n < 0 ? (int)n : 0;
}

/* ---- set ---- */

/* Everything that is checked and copied before the path is looked at. */
struct xattr_set {
	char name[LX_XATTR_NAME_MAX + 1];
	void *value; /* mem_free */
	uint64_t size;
	int flags;
};

static int set_prepare(struct task *t, gaddr_t name, gaddr_t value, uint64_t size, int flags,
		       struct xattr_set *x)
{
	int r;

	x->value = NULL;
	x->size = size;
	x->flags = flags;
	if (flags & ~(LX_XATTR_CREATE | LX_XATTR_REPLACE))
		return -EINVAL;
	r = copy_in_name(t, name, x->name);
	if (r < 0)
		return r;
	if (size > LX_XATTR_SIZE_MAX)
		return -E2BIG;
	/* An empty value is not the same as none. */
	x->value = mem_zalloc(size ? size : 1);
	if (!x->value)
		return -ENOMEM;
	return copy_in(t, x->value, value, size);
}

static long set_at(struct task *t, int dirfd, gaddr_t path, unsigned at_flags, gaddr_t name,
		   gaddr_t value, uint64_t size, int flags)
{
	struct xattr_target target;
	struct xattr_set x;
	long r = set_prepare(t, name, value, size, flags, &x);

	if (r == 0)
		r = target_get(t, dirfd, path, at_flags, &target);
	if (r == 0) {
		r = vfs_setxattr(&t->vctx, &target.path, x.name, x.value, x.size, x.flags);
		target_put(&target);
	}
	mem_free(x.value);
	return r;
}

long sys_setxattr(struct task *t, gaddr_t path, gaddr_t name, gaddr_t value, uint64_t size,
		  int flags)
{
	return set_at(t, LX_AT_FDCWD, path, 0, name, value, size, flags);
}

long sys_lsetxattr(struct task *t, gaddr_t path, gaddr_t name, gaddr_t value, uint64_t size,
		   int flags)
{
	return set_at(t, LX_AT_FDCWD, path, LX_AT_SYMLINK_NOFOLLOW, name, value, size, flags);
}

long sys_fsetxattr(struct task *t, int fd, gaddr_t name, gaddr_t value, uint64_t size, int flags)
{
	return set_at(t, fd, GADDR(0), BY_FD, name, value, size, flags);
}

/* ---- get ---- */

/* The value of @name, or with NULL the list of names, into the guest's @out of @size bytes. */
static long read_out(struct task *t, const struct xattr_target *target, const char *name,
		     gaddr_t out, uint64_t size)
{
	void *buf = NULL;
	ssize_t n;

	/* That of the list of names is the same. */
	size = MIN(size, (uint64_t)LX_XATTR_SIZE_MAX);
	if (size > 0) {
		buf = mem_zalloc(size);
		if (!buf)
			return -ENOMEM;
	}
	n = name ? vfs_getxattr(&t->vctx, &target->path, name, buf, size)
		 : vfs_listxattr(&t->vctx, &target->path, buf, size);
	if (n > 0 && size > 0 && copy_out(t, out, buf, (size_t)n) < 0)
		n = -EFAULT;
	/* The file system has one that no buffer could hold. */
	if (n == -ERANGE && size >= LX_XATTR_SIZE_MAX)
		n = -E2BIG;
	mem_free(buf);
	return n;
}

static long get_at(struct task *t, int dirfd, gaddr_t path, unsigned at_flags, gaddr_t name,
		   gaddr_t value, uint64_t size)
{
	char kname[LX_XATTR_NAME_MAX + 1];
	struct xattr_target target;
	long r = copy_in_name(t, name, kname);

	if (r == 0)
		r = target_get(t, dirfd, path, at_flags, &target);
	if (r < 0)
		return r;
	r = read_out(t, &target, kname, value, size);
	target_put(&target);
	return r;
}

long sys_getxattr(struct task *t, gaddr_t path, gaddr_t name, gaddr_t value, uint64_t size)
{
	return get_at(t, LX_AT_FDCWD, path, 0, name, value, size);
}

long sys_lgetxattr(struct task *t, gaddr_t path, gaddr_t name, gaddr_t value, uint64_t size)
{
	return get_at(t, LX_AT_FDCWD, path, LX_AT_SYMLINK_NOFOLLOW, name, value, size);
}

long sys_fgetxattr(struct task *t, int fd, gaddr_t name, gaddr_t value, uint64_t size)
{
	return get_at(t, fd, GADDR(0), BY_FD, name, value, size);
}

/* ---- list ---- */

static long list_at(struct task *t, int dirfd, gaddr_t path, unsigned at_flags, gaddr_t list,
		    uint64_t size)
{
	struct xattr_target target;
	long r = target_get(t, dirfd, path, at_flags, &target);

	if (r < 0)
		return r;
	r = read_out(t, &target, NULL, list, size);
	target_put(&target);
	return r;
}

long sys_listxattr(struct task *t, gaddr_t path, gaddr_t list, uint64_t size)
{
	return list_at(t, LX_AT_FDCWD, path, 0, list, size);
}

long sys_llistxattr(struct task *t, gaddr_t path, gaddr_t list, uint64_t size)
{
	return list_at(t, LX_AT_FDCWD, path, LX_AT_SYMLINK_NOFOLLOW, list, size);
}

long sys_flistxattr(struct task *t, int fd, gaddr_t list, uint64_t size)
{
	return list_at(t, fd, GADDR(0), BY_FD, list, size);
}

/* ---- remove ---- */

static long remove_at(struct task *t, int dirfd, gaddr_t path, unsigned at_flags, gaddr_t name)
{
	char kname[LX_XATTR_NAME_MAX + 1];
	struct xattr_target target;
	long r = copy_in_name(t, name, kname);

	if (r == 0)
		r = target_get(t, dirfd, path, at_flags, &target);
	if (r < 0)
		return r;
	r = vfs_removexattr(&t->vctx, &target.path, kname);
	target_put(&target);
	return r;
}

long sys_removexattr(struct task *t, gaddr_t path, gaddr_t name)
{
	return remove_at(t, LX_AT_FDCWD, path, 0, name);
}

long sys_lremovexattr(struct task *t, gaddr_t path, gaddr_t name)
{
	return remove_at(t, LX_AT_FDCWD, path, LX_AT_SYMLINK_NOFOLLOW, name);
}

long sys_fremovexattr(struct task *t, int fd, gaddr_t name)
{
	return remove_at(t, fd, GADDR(0), BY_FD, name);
}

/* ---- the *at forms ---- */

static int copy_in_args(struct task *t, gaddr_t uargs, uint64_t usize, struct lx_xattr_args *a)
{
	if (usize < sizeof(*a))
		return -EINVAL;
	if (usize > MOAT_PAGE_SIZE)
		return -E2BIG;
	return copy_in_struct(t, a, sizeof(*a), uargs, usize);
}

long sys_setxattrat(struct task *t, int dirfd, gaddr_t pathname, unsigned at_flags, gaddr_t name,
		    gaddr_t uargs, uint64_t usize)
{
	struct lx_xattr_args a;
	int r = copy_in_args(t, uargs, usize, &a);

	if (r < 0)
		return r;
	if (at_flags & ~LX_XATTR_AT_KNOWN)
		return -EINVAL;
	return set_at(t, dirfd, pathname, at_flags, name, GADDR(a.value), a.size, (int)a.flags);
}

long sys_getxattrat(struct task *t, int dirfd, gaddr_t pathname, unsigned at_flags, gaddr_t name,
		    gaddr_t uargs, uint64_t usize)
{
	struct lx_xattr_args a;
	int r = copy_in_args(t, uargs, usize, &a);

	if (r < 0)
		return r;
	if (a.flags != 0 || (at_flags & ~LX_XATTR_AT_KNOWN))
		return -EINVAL;
	return get_at(t, dirfd, pathname, at_flags, name, GADDR(a.value), a.size);
}

long sys_listxattrat(struct task *t, int dirfd, gaddr_t pathname, unsigned at_flags, gaddr_t list,
		     uint64_t size)
{
	if (at_flags & ~LX_XATTR_AT_KNOWN)
		return -EINVAL;
	return list_at(t, dirfd, pathname, at_flags, list, size);
}

long sys_removexattrat(struct task *t, int dirfd, gaddr_t pathname, unsigned at_flags, gaddr_t name)
{
	if (at_flags & ~LX_XATTR_AT_KNOWN)
		return -EINVAL;
	return remove_at(t, dirfd, pathname, at_flags, name);
}
