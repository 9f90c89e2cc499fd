/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that a walk does not find and that the host might have.
 *
 * Theory of operation: a directory of the guest's shows a part of one of the host's, or stands in
 * the place of one: a root with only some of its names, a directory with hidden ones, one that
 * set-up has made (INODE_SETUP). A name that is not found there is told to whoever wants to know
 * (vfs_hooks.missed). Whether the host has it is not asked here: the guest must not learn it, not
 * even by the time that it takes.
 */
#include "vfs/dcache.h"
#include "vfs/hostfs_node.h"
#include "vfs/inode.h"
#include "vfs/namei.h"
#include "vfs/tmpfs_node.h"

#include <string.h>

bool g_vfs_set_up;

enum miss { MISS_NONE, MISS_NOT_SHOWN, MISS_HIDDEN };

/* Does a directory of the host's keep @name back? @h: an inode of hostfs. */
static enum miss kept_back(const struct inode *h, const char *name, size_t len)
{
	if (likely(hostfs_name_allowed(h, name, len)))
		return MISS_NONE;
	return hostfs_hides(h, name, len) ? MISS_HIDDEN : MISS_NOT_SHOWN;
}

static enum miss classify(const struct inode *dir, const char *name, size_t len)
{
	const struct inode *lower;

	if (hostfs_is(dir->super))
		return kept_back(dir, name, len);
	if (!tmpfs_is(dir))
		return MISS_NONE;
	lower = tnode_of(dir)->lower;
	if (lower)
		return kept_back(lower, name, len);
	return __atomic_load_n(&dir->iflags, __ATOMIC_RELAXED) & INODE_SETUP ? MISS_NOT_SHOWN
									     : MISS_NONE;
}

void walk_missed(const struct walk *w, struct dentry *d)
{
	const struct inode *dir = dentry_inode(w->path.dentry);
	char name[LX_NAME_MAX + 1];
	enum miss miss;
	uint64_t key;
	size_t len;

	if (!g_vfs_hooks->missed || !dir)
		return;
	len = dentry_copy_name(d, name, sizeof(name));
	miss = classify(dir, name, len);
	if (likely(miss == MISS_NONE))
		return;
	key = hash_bytes(name, len, (uint64_t)(uintptr_t)dir);
	key = hash_bytes(w->cur.rest, strlen(w->cur.rest), key);
	for (unsigned i = w->depth; i-- > 0;)
		key = hash_bytes(w->stack[i].rest, strlen(w->stack[i].rest), key);
	g_vfs_hooks->missed(w, d, key, miss == MISS_HIDDEN);
}

/* Appends /@s; false: it does not fit. */
static bool append(char *buf, size_t size, size_t *used, const char *s)
{
	size_t n;

	while (*s == '/')
		s++;
	n = strlen(s);
	if (n == 0)
		return true;
	if (*used && buf[*used - 1] == '/')
		--*used;
	if (*used + n + 2 > size)
		return false;
	buf[(*used)++] = '/';
	memcpy(buf + *used, s, n + 1);
	*used += n;
	return true;
}

bool walk_missed_text(const struct walk *w, struct dentry *d, char *buf, size_t size)
{
	char name[LX_NAME_MAX + 1];
	size_t used;

	if (path_text(&w->path, NULL, buf, size) < 0 || buf[0] != '/')
		return false;
	used = strlen(buf);
	dentry_copy_name(d, name, sizeof(name));
	if (!append(buf, size, &used, name) || !append(buf, size, &used, w->cur.rest))
		return false;
	for (unsigned i = w->depth; i-- > 0;) {
		if (!append(buf, size, &used, w->stack[i].rest))
			return false;
	}
	return true;
}
