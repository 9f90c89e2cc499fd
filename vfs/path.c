/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a path: for getcwd, /proc, and mount tables.
 *
 * Theory of operation: from the place up to the root, across mounts, writing from the end of the
 * buffer backwards; all under g_dcache_lock, so that the names belong together.
 */
#include <errno.h>
#include <string.h>
#include "vfs/dcache.h"

#define UNREACHABLE "(unreachable)"
#define DELETED " (deleted)"

static bool prepend(char *buf, size_t *pos, const char *s, size_t len)
{
	if (len > *pos)
		return false;
	*pos -= len;
	memcpy(buf + *pos, s, len);
	return true;
}

static bool is_unlinked_locked(const struct dentry *d) REQUIRES(g_dcache_lock)
{
	return !d->hashed && d->parent != d;
}

bool path_unlinked(const struct path *p)
{
	mutex_lock(&g_dcache_lock);

	bool gone = is_unlinked_locked(p->dentry);

	mutex_unlock(&g_dcache_lock);
	return gone;
}

/* A pipe or its like: a root of its own that is not "/". */
static bool is_anon_locked(const struct dentry *d) REQUIRES(g_dcache_lock)
{
	return d->parent == d && !(d->name_len == 1 && d->name[0] == '/');
}

/* The text at the buffer's end, from *pos on. */
static int text_locked(const struct path *p, const struct path *root, char *buf, size_t *pos,
		       bool *reachable) REQUIRES(g_dcache_lock)
{
	const struct dentry *d = p->dentry;
	const struct mount *m = p->mnt;
	size_t start = *pos;

	*reachable = true;
	if (is_anon_locked(d))
		return prepend(buf, pos, d->name, d->name_len) ? 0 : -ENAMETOOLONG;
	while (!root || d != root->dentry || m != root->mnt) {
		if (m && d == m->root) {
			if (!m->parent) {
				*reachable = !root && m->ns;
				break;
			}
			d = m->mountpoint;
			m = m->parent;
			continue;
		}
		if (d->parent == d) {
			*reachable = !root && !m;
			break;
		}
		if (!prepend(buf, pos, d->name, d->name_len) || !prepend(buf, pos, "/", 1))
			return -ENAMETOOLONG;
		d = d->parent;
	}
	if (*pos == start && !prepend(buf, pos, "/", 1))
		return -ENAMETOOLONG;
	return 0;
}

/* Moves the text to the front and ends it. */
static ssize_t finish(char *buf, size_t size, size_t pos)
{
	size_t len = size - 1 - pos;

	memmove(buf, buf + pos, len);
	buf[len] = '\0';
	return (ssize_t)len;
}

ssize_t path_text(const struct path *p, const struct path *root, char *buf, size_t size)
{
	size_t pos = size - 1;
	bool reachable = true;
	int r = 0;

	if (size == 0)
		return -ENAMETOOLONG;
	mutex_lock(&g_dcache_lock);
	if (is_unlinked_locked(p->dentry) && !prepend(buf, &pos, DELETED, sizeof(DELETED) - 1))
		r = -ENAMETOOLONG;
	if (r == 0)
		r = text_locked(p, root, buf, &pos, &reachable);
	mutex_unlock(&g_dcache_lock);
	if (r == 0 && !reachable && !prepend(buf, &pos, UNREACHABLE, sizeof(UNREACHABLE) - 1))
		r = -ENAMETOOLONG;
	return r ? r : finish(buf, size, pos);
}

ssize_t path_text_raw(const struct path *p, const struct path *root, char *buf, size_t size,
		      bool *reachable)
{
	size_t pos = size - 1;
	int r;

	*reachable = false;
	if (size == 0)
		return -ENAMETOOLONG;
	mutex_lock(&g_dcache_lock);
	if (is_unlinked_locked(p->dentry))
		r = -ENOENT;
	else
		r = text_locked(p, root, buf, &pos, reachable);
	mutex_unlock(&g_dcache_lock);
	return r ? r : finish(buf, size, pos);
}
