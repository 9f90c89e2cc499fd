/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs: what exists on the host, is below a granted directory, and is not there for any guest.
 *
 * Theory of operation: a hidden thing is known by the directory in which it stands and its name
 * there, and, if there is such a file, by the file itself, so that another hard link or another
 * grant of the same tree does not show it. Directories and files are told by device and inode
 * number, never by a path. The name is not found, not listed, and cannot be made. The directories
 * above are pinned: a guest that moved one away could make the name anew in another that takes its
 * place.
 *
 * Locking: none; set once before guests run. The tables are the caller's, and sorted.
 */
#include <string.h>
#include "vfs/hostfs_node.h"

static struct {
	const struct hostfs_hidden *names;
	const struct hostfs_id *files, *pins;
	unsigned name_count, file_count, pin_count;
} g_hidden;

void hostfs_hide(const struct hostfs_hidden *names, unsigned name_count,
		 const struct hostfs_id *files, unsigned file_count, const struct hostfs_id *pins,
		 unsigned pin_count)
{
	g_hidden.names = names;
	g_hidden.name_count = name_count;
	g_hidden.files = files;
	g_hidden.file_count = file_count;
	g_hidden.pins = pins;
	g_hidden.pin_count = pin_count;
}

int hostfs_id_compare(const struct hostfs_id *a, const struct hostfs_id *b)
{
	if (a->ino != b->ino)
		return a->ino < b->ino ? -1 : 1;
	return a->dev != b->dev ? (a->dev < b->dev ? -1 : 1) : 0;
}

static bool id_in(const struct hostfs_id *ids, unsigned count, uint64_t dev, uint64_t ino)
{
	const struct hostfs_id key = {dev, ino};
	unsigned low = 0, high = count;

	while (low < high) {
		const unsigned mid = (low + high) / 2;
		const int c = hostfs_id_compare(&ids[mid], &key);

		if (c == 0)
			return true;
		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}

bool hostfs_is_hidden_file(uint64_t dev, uint64_t ino)
{
	return g_hidden.file_count && id_in(g_hidden.files, g_hidden.file_count, dev, ino);
}

bool hostfs_is_pinned(uint64_t dev, uint64_t ino)
{
	return g_hidden.pin_count && id_in(g_hidden.pins, g_hidden.pin_count, dev, ino);
}

static int hidden_index(uint64_t dev, uint64_t ino, const char *name, size_t len)
{
	/* Who stands above a hidden name is pinned. */
	if (!hostfs_is_pinned(dev, ino))
		return -1;
	for (unsigned i = 0; i < g_hidden.name_count; i++) {
		const struct hostfs_hidden *h = &g_hidden.names[i];

		if (h->dir.ino == ino && h->dir.dev == dev && strlen(h->name) == len &&
		    memcmp(h->name, name, len) == 0)
			return (int)i;
	}
	return -1;
}

bool hostfs_is_hidden_name(uint64_t dev, uint64_t ino, const char *name, size_t len)
{
	return hidden_index(dev, ino, name, len) >= 0;
}

int hostfs_hidden_index(const struct inode *dir, const char *name)
{
	return hostfs_is(dir->super)
		       ? hidden_index(hnode_of(dir)->dev, hnode_of(dir)->ino, name, strlen(name))
		       : -1;
}

bool hostfs_hides(const struct inode *dir, const char *name, size_t len)
{
	const struct hnode *h;

	if (dir->super->type != &g_hostfs_type)
		return false;
	h = hnode_of(dir);
	return hostfs_is_hidden_name(h->dev, h->ino, name, len);
}
