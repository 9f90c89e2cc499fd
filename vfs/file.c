/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open file descriptions: making, reference counts, and what happens when the last reference goes.
 *
 * Theory of operation: the memory of a struct file is never given back to the allocator, only to a
 * list of free ones. So a pointer read from a descriptor table without a lock always points to a
 * struct file, perhaps a dead or a reborn one, whose count can be tried (ref_get_unless_zero)
 * before the table is looked at again: see fd_get in vfs/fdtable.c. Therefore nothing may write
 * f->ref of a free file but the store that brings it to life, and that is the last step of
 * file_new.
 *
 * Locking: g_free_lock guards the list of free files.
 */
#include <errno.h>
#include <string.h>
#include "base/err.h"
#include "base/meter.h"
#include "base/sanitizer.h"
#include "vfs/epoll.h"
#include "vfs/fasync.h"
#include "vfs/flock.h"
#include "vfs/fsnotify.h"
#include "vfs/vfs.h"

static struct mutex g_free_lock = MUTEX_INIT(RANK_LEAF);
static struct file *g_free_files;    /* linked by ->priv. [g_free_lock] */
static struct san_kept g_files_kept; /* [g_free_lock] */

/* What nobody may touch of a free file: all but ->ref. */
#define BODY offsetof(struct file, path)
#define BODY_SIZE (sizeof(struct file) - BODY)

static void file_free_memory(struct file *f)
{
	mutex_lock(&g_free_lock);
	san_hide((char *)f + BODY, BODY_SIZE);
	f = san_keep(&g_files_kept, f);
	if (f) {
		san_show(&f->priv, sizeof(f->priv));
		f->priv = g_free_files;
		g_free_files = f;
	}
	mutex_unlock(&g_free_lock);
}

static struct file *file_alloc(void)
{
	struct file *f;

	mutex_lock(&g_free_lock);
	f = g_free_files;
	if (f) {
		san_show((char *)f + BODY, BODY_SIZE);
		g_free_files = f->priv;
	}
	mutex_unlock(&g_free_lock);
	if (f) {
		if (!fail_now(FAIL_ALLOC))
			return f;
		file_free_memory(f);
		return NULL;
	}
	f = mem_zalloc(sizeof(*f));
	if (f) {
		fmutex_init(&f->pos_lock);
		mutex_init(&f->lock, RANK_FILE);
	}
	return f;
}

static void file_free(struct file *f)
{
	file_free_memory(f);
	meter_uncharge(METER_open_files, 1);
}

static bool file_counts_as_writer(const struct file *f)
{
	return (f->fmode & FMODE_WRITE) && !(f->fmode & (FMODE_NOWRITECOUNT | FMODE_PATH)) &&
	       LX_S_ISREG(f->inode->mode);
}

struct file *file_new(struct vfs_ctx *c, const struct path *p, const struct file_ops *ops,
		      unsigned fmode, uint32_t flags)
{
	struct file *f;

	if (!meter_charge(METER_open_files, 1))
		return NULL;
	f = file_alloc();
	if (!f) {
		meter_uncharge(METER_open_files, 1);
		return NULL;
	}
	f->inode = p->dentry->inode;
	f->fmode = fmode;
	if (file_counts_as_writer(f) && inode_get_write(f->inode) != 0) {
		file_free(f);
		return NULL;
	}
	f->path = *p;
	path_get(p);
	f->ops = ops;
	atomic_store_explicit(&f->flags, flags, memory_order_relaxed);
	f->pos = 0;
	f->cred = cred_get(c->cred);
	f->priv = NULL;
	f->own = (struct fown){.type = -1};
	f->epoll_items = NULL;
	f->fasync_state = NULL;
	f->fasync_fd = -1;
	atomic_store_explicit(&f->fasync, 0, memory_order_relaxed);
	atomic_store_explicit(&f->ref.count, 1, memory_order_release);
	return f;
}

struct file *file_get(struct file *f)
{
	ref_get(&f->ref);
	return f;
}

static void file_release(struct file *f)
{
	struct path p = f->path;
	struct cred *cred = f->cred;

	if (!(f->fmode & FMODE_PATH)) {
		fsnotify(p.dentry,
			 (f->fmode & FMODE_WRITE) ? LX_IN_CLOSE_WRITE : LX_IN_CLOSE_NOWRITE, 0);
		epoll_forget_file(f);
		locks_release_file(f);
		fasync_release(f);
		if (f->ops && f->ops->release)
			f->ops->release(f);
		if (file_counts_as_writer(f))
			inode_put_write(f->inode);
	}
	file_free(f);
	cred_put(cred);
	path_put(&p);
}

void file_put(struct file *f)
{
	if (ref_put(&f->ref))
		file_release(f);
}
