/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended attributes of tmpfs: a list per inode.
 *
 * Who may see and set which name is the VFS's to check; here only the name spaces user., trusted.
 * and security. exist, so POSIX ACLs are EOPNOTSUPP. An overlay's inode shows its lower's
 * attributes until one is changed.
 *
 * Locking: inode->lock for changes; the list itself under inode->meta, since reading takes no lock.
 */
#include <errno.h>
#include <string.h>

#include "vfs/tmpfs_node.h"

/* An inode's names and values together. They cost memory that nothing else limits. */
#define XATTR_BYTES_MAX ((size_t)128 << 10)

static bool known_space(const char *name)
{
	static const char *const spaces[] = {"user.", "trusted.", "security."};

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
		size_t n = strlen(spaces[i]);

		if (strncmp(name, spaces[i], n) == 0)
			return name[n] != '\0';
	}
	return false;
}

static struct txattr *find(struct tnode *t, const char *name)
{
	struct txattr *x;

	SLIST_FOREACH (x, &t->xattrs, link)
		if (strcmp(x->name, name) == 0)
			return x;
	return NULL;
}

static void xattr_free(struct txattr *x)
{
	if (x)
		mem_free(x->name);
	mem_free(x);
}

void tmpfs_xattrs_free(struct tnode *t)
{
	struct txattr *x;

	while ((x = SLIST_FIRST(&t->xattrs))) {
		SLIST_REMOVE_HEAD(&t->xattrs, link);
		xattr_free(x);
	}
}

ssize_t tmpfs_getxattr(struct inode *i, const char *name, void *buf, size_t size)
{
	struct tnode *t = tnode_of(i);
	ssize_t r = -ENODATA;

	if (!known_space(name))
		return -EOPNOTSUPP;
	if (!t->has_xattrs)
		return t->lower->ops->getxattr ? t->lower->ops->getxattr(t->lower, name, buf, size)
					       : -ENODATA;
	mutex_lock(&i->meta);
	const struct txattr *x = find(t, name);

	if (x) {
		r = (ssize_t)x->size;
		if (size && size < x->size)
			r = -ERANGE;
		else if (size)
			memcpy(buf, x->value, x->size);
	}
	mutex_unlock(&i->meta);
	return r;
}

int tmpfs_setxattr(struct inode *i, const char *name, const void *value, size_t size, int flags)
{
	struct tnode *t = tnode_of(i);
	struct txattr *x = NULL;
	size_t cost = strlen(name) + size;
	int r = 0;

	if (!known_space(name))
		return -EOPNOTSUPP;
	if (!t->has_xattrs) {
		r = overlay_copy_up_xattrs(i);
		if (r < 0)
			return r;
	}
	if (value) {
		x = mem_zalloc(sizeof(*x) + size);
		if (x)
			x->name = mem_strdup(name);
		if (!x || !x->name) {
			xattr_free(x);
			return -ENOMEM;
		}
		x->size = (uint32_t)size;
		memcpy(x->value, value, size);
	}
	mutex_lock(&i->meta);
	struct txattr *old = find(t, name);
	size_t old_cost = old ? strlen(name) + old->size : 0;

	if (old && (flags & LX_XATTR_CREATE) && value)
		r = -EEXIST;
	else if (!old && (!value || (flags & LX_XATTR_REPLACE)))
		r = -ENODATA;
	else if (value && t->xattr_bytes - old_cost + cost > XATTR_BYTES_MAX)
		r = -ENOSPC;
	if (r == 0) {
		if (old)
			SLIST_REMOVE(&t->xattrs, old, txattr, link);
		if (x)
			SLIST_INSERT_HEAD(&t->xattrs, x, link);
		t->xattr_bytes = (uint32_t)(t->xattr_bytes - old_cost + (value ? cost : 0));
	}
	mutex_unlock(&i->meta);
	xattr_free(r == 0 ? old : x);
	if (r == 0)
		inode_touch(i, false, false, true);
	return r;
}

ssize_t tmpfs_listxattr(struct inode *i, char *buf, size_t size)
{
	struct tnode *t = tnode_of(i);
	const struct txattr *x;
	size_t n = 0;

	if (!t->has_xattrs)
		return t->lower->ops->listxattr ? t->lower->ops->listxattr(t->lower, buf, size) : 0;
	mutex_lock(&i->meta);
	SLIST_FOREACH (x, &t->xattrs, link) {
		size_t len = strlen(x->name) + 1;

		if (size && n + len <= size)
			memcpy(buf + n, x->name, len);
		n += len;
	}
	mutex_unlock(&i->meta);
	return size && n > size ? -ERANGE : (ssize_t)n;
}
