/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root, cwd and umask of tasks.
 *
 * Locking: fs->lock for the paths; references are taken under it and put after it, since a put may
 * sleep. All structs stand on one list, under g_list_lock, which is outside of fs->lock: pivot_root
 * changes the root of everybody.
 */
#include "vfs/vfs.h"

static struct mutex g_list_lock = MUTEX_INIT(RANK_TASKLIST + 1);
static LIST_HEAD(, fs_struct) g_all = LIST_HEAD_INITIALIZER(g_all); /* [g_list_lock] */

struct fs_struct *fs_new(const struct path *root, const struct path *cwd, uint32_t umask)
{
	struct fs_struct *fs = mem_zalloc(sizeof(*fs));

	if (!fs)
		return NULL;
	ref_init(&fs->ref);
	mutex_init(&fs->lock, RANK_FDTABLE);
	path_get(root);
	path_get(cwd);
	fs->root = *root;
	fs->cwd = *cwd;
	fs->umask = umask & 0777;
	mutex_lock(&g_list_lock);
	LIST_INSERT_HEAD(&g_all, fs, link);
	mutex_unlock(&g_list_lock);
	return fs;
}

struct fs_struct *fs_dup(struct fs_struct *fs)
{
	struct path root, cwd;

	mutex_lock(&fs->lock);
	root = fs->root;
	cwd = fs->cwd;
	path_get(&root);
	path_get(&cwd);

	uint32_t umask = fs->umask;

	mutex_unlock(&fs->lock);

	struct fs_struct *n = fs_new(&root, &cwd, umask);

	path_put(&root);
	path_put(&cwd);
	return n;
}

struct fs_struct *fs_get(struct fs_struct *fs)
{
	ref_get(&fs->ref);
	return fs;
}

void fs_put(struct fs_struct *fs)
{
	if (!fs || !ref_put(&fs->ref))
		return;
	mutex_lock(&g_list_lock);
	LIST_REMOVE(fs, link);
	mutex_unlock(&g_list_lock);
	path_put(&fs->root);
	path_put(&fs->cwd);
	mutex_fini(&fs->lock);
	mem_free(fs);
}

void fs_get_root(struct fs_struct *fs, struct path *out)
{
	mutex_lock(&fs->lock);
	*out = fs->root;
	path_get(out);
	mutex_unlock(&fs->lock);
}

void fs_get_cwd(struct fs_struct *fs, struct path *out)
{
	mutex_lock(&fs->lock);
	*out = fs->cwd;
	path_get(out);
	mutex_unlock(&fs->lock);
}

static void set_path(struct fs_struct *fs, struct path *slot, const struct path *p)
{
	struct path old;

	path_get(p);
	mutex_lock(&fs->lock);
	old = *slot;
	*slot = *p;
	mutex_unlock(&fs->lock);
	path_put(&old);
}

void fs_set_root(struct fs_struct *fs, const struct path *p)
{
	set_path(fs, &fs->root, p);
}

void fs_set_cwd(struct fs_struct *fs, const struct path *p)
{
	set_path(fs, &fs->cwd, p);
}

uint32_t fs_get_umask(struct fs_struct *fs)
{
	mutex_lock(&fs->lock);

	uint32_t umask = fs->umask;

	mutex_unlock(&fs->lock);
	return umask;
}

uint32_t fs_set_umask(struct fs_struct *fs, uint32_t umask)
{
	mutex_lock(&fs->lock);

	uint32_t old = fs->umask;

	fs->umask = umask & 0777;
	mutex_unlock(&fs->lock);
	return old;
}

void fs_replace_all(const struct path *from, const struct path *to)
{
	struct fs_struct *fs;
	unsigned puts = 0;

	mutex_lock(&g_list_lock);
	LIST_FOREACH (fs, &g_all, link) {
		mutex_lock(&fs->lock);
		if (path_equal(&fs->root, from)) {
			path_get(to);
			fs->root = *to;
			puts++;
		}
		if (path_equal(&fs->cwd, from)) {
			path_get(to);
			fs->cwd = *to;
			puts++;
		}
		mutex_unlock(&fs->lock);
	}
	mutex_unlock(&g_list_lock);
	while (puts-- > 0)
		path_put(from);
}
