/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended attributes: which names exist, and who may read and change them.
 *
 * Theory of operation: the file system stores names and values; this file says which names there
 * are at all (user., trusted., security., of sockets one in system.; POSIX ACLs are not supported),
 * makes the checks of Linux's xattr_permission, and keeps the limits.
 *
 * References: xattr(7), setxattr(2), getxattr(2), listxattr(2), capabilities(7).
 */
#include <errno.h>
#include <string.h>
#include "vfs/dcache.h"
#include "vfs/fsnotify.h"
#include "vfs/inode.h"
#include "vfs/xattr.h"

static bool has_prefix(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

static int check_name(const char *name)
{
	size_t len = strnlen(name, LX_XATTR_NAME_MAX + 1);

	return len == 0 || len > LX_XATTR_NAME_MAX ? -ERANGE : 0;
}

/* Linux's xattr_permission. */
static int may_touch(struct vfs_ctx *c, struct inode *i, const char *name, unsigned mask)
{
	struct inode_attrs a;

	inode_attrs_now(i, &a);
	if ((mask & MAY_WRITE) && (a.iflags & (INODE_IMMUTABLE | INODE_APPEND)))
		return -EPERM;
	/* These decide for themselves. */
	if (has_prefix(name, "security.") || has_prefix(name, "system."))
		return 0;
	if (has_prefix(name, "trusted.")) {
		if (!cred_capable(c->cred, LX_CAP_SYS_ADMIN))
			return (mask & MAY_WRITE) ? -EPERM : -ENODATA;
		return 0;
	}
	if (has_prefix(name, "user.")) {
		if (!LX_S_ISREG(a.mode) && !LX_S_ISDIR(a.mode))
			return (mask & MAY_WRITE) ? -EPERM : -ENODATA;
		if (LX_S_ISDIR(a.mode) && (a.mode & LX_S_ISVTX) && (mask & MAY_WRITE) &&
		    !inode_owner_or_capable(c, i))
			return -EPERM;
	}
	return inode_permission(c, i, mask);
}

/* Is it the attribute of an open socket? */
static bool is_of_socket(const struct inode *i, const char *name)
{
	return strcmp(name, XATTR_SOCKPROTONAME) == 0 && i->super == anon_super();
}

/* Is there such a name space, and a name in it? */
static int check_space(const char *name)
{
	static const char *const spaces[] = {"user.", "trusted.", "security."};

	for (size_t k = 0; k < ARRAY_SIZE(spaces); k++) {
		if (has_prefix(name, spaces[k]))
			return name[strlen(spaces[k])] ? 0 : -EINVAL;
	}
	return -EOPNOTSUPP;
}

/* What the security modules of Linux ask for even without one. */
static int may_set_security(struct vfs_ctx *c, const char *name)
{
	if (!has_prefix(name, "security."))
		return 0;
	if (strcmp(name, "security.capability") == 0)
		return cred_capable(c->cred, LX_CAP_SETFCAP) ? 0 : -EPERM;
	return cred_capable(c->cred, LX_CAP_SYS_ADMIN) ? 0 : -EPERM;
}

ssize_t vfs_getxattr(struct vfs_ctx *c, const struct path *p, const char *name, void *buf,
		     size_t size)
{
	struct inode *i = dentry_inode(p->dentry);
	int r = check_name(name);

	if (r == 0)
		r = may_touch(c, i, name, MAY_READ);
	if (r == 0 && !is_of_socket(i, name))
		r = check_space(name);
	if (r)
		return r;
	if (!i->ops->getxattr)
		return -EOPNOTSUPP;

	bool cut = size > LX_XATTR_SIZE_MAX;
	ssize_t n = i->ops->getxattr(i, name, buf, cut ? LX_XATTR_SIZE_MAX : size);

	/* Even the largest buffer would not do. */
	if (n == -ERANGE && size >= LX_XATTR_SIZE_MAX)
		return -E2BIG;
	return n;
}

static int set_or_remove(struct vfs_ctx *c, const struct path *p, const char *name,
			 const void *value, size_t size, int flags)
{
	struct inode *i = dentry_inode(p->dentry);
	int r = path_want_write(p, VFS_USE_WRITE);

	if (r)
		return r;
	fmutex_lock(&i->lock);
	r = may_touch(c, i, name, MAY_WRITE);
	if (r == 0)
		r = may_set_security(c, name);
	if (r == 0)
		r = check_space(name);
	if (r == 0 && !i->ops->setxattr)
		r = -EOPNOTSUPP;
	if (r == 0)
		r = i->ops->setxattr(i, name, value, size, flags);
	fmutex_unlock(&i->lock);
	if (r == 0)
		fsnotify(p->dentry, LX_IN_ATTRIB, 0);
	return r;
}

int vfs_setxattr(struct vfs_ctx *c, const struct path *p, const char *name, const void *value,
		 size_t size, int flags)
{
	int r;

	if (flags & ~(LX_XATTR_CREATE | LX_XATTR_REPLACE))
		return -EINVAL;
	r = check_name(name);
	if (r)
		return r;
	if (size > LX_XATTR_SIZE_MAX)
		return -E2BIG;
	/* A value of no bytes is a value; only NULL removes. */
	return set_or_remove(c, p, name, value ? value : "", size, flags);
}

int vfs_removexattr(struct vfs_ctx *c, const struct path *p, const char *name)
{
	int r = check_name(name);

	return r ? r : set_or_remove(c, p, name, NULL, 0, 0);
}

/* Drops from a list of @size bytes what @c may not know of; the new size. */
static size_t filter(struct vfs_ctx *c, char *list, size_t size)
{
	bool all = cred_capable(c->cred, LX_CAP_SYS_ADMIN);
	size_t in = 0, out = 0;

	while (in < size) {
		size_t len = strnlen(list + in, size - in) + 1;

		if (len > size - in)
			break;
		if (all || !has_prefix(list + in, "trusted.")) {
			memmove(list + out, list + in, len);
			out += len;
		}
		in += len;
	}
	return out;
}

ssize_t vfs_listxattr(struct vfs_ctx *c, const struct path *p, char *buf, size_t size)
{
	struct inode *i = dentry_inode(p->dentry);
	char *list;
	ssize_t n;

	if (!i->ops->listxattr)
		return 0;
	/* The size that the caller must have depends on what is filtered: so always the whole list.
	 */
	list = mem_zalloc(LX_XATTR_LIST_MAX);
	if (!list)
		return -ENOMEM;
	n = i->ops->listxattr(i, list, LX_XATTR_LIST_MAX);
	if (n > 0) {
		n = (ssize_t)filter(c, list, (size_t)n);
		if (size > 0 && (size_t)n > size)
			n = -ERANGE;
		else if (size > 0)
			memcpy(buf, list, (size_t)n);
	} else if (n == -ERANGE) {
		n = -E2BIG;
	}
	mem_free(list);
	return n;
}
