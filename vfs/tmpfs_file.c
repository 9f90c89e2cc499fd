/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open regular files of tmpfs and of overlays.
 *
 * Theory of operation: an overlay's file reads from its lower until it has data of its own, which
 * it gets when it is opened for writing or truncated (overlay_copy_up); from then on every open
 * file sees the new content. A file opened for reading before that holds the lower's content open
 * (f->priv), since it may have mappings of it.
 *
 * Locking: writers take inode->lock, then data.lock; readers only the latter, shared.
 */
#include <errno.h>

#include "base/lx_fcntl.h"
#include "vfs/hostfs.h"
#include "vfs/memfd.h"
#include "vfs/shown.h"
#include "vfs/tmpfs_node.h"

_Static_assert(TMPFS_FALLOC_KEEP_SIZE == LX_FALLOC_FL_KEEP_SIZE, "the guest's own values");
_Static_assert(TMPFS_FALLOC_PUNCH_HOLE == LX_FALLOC_FL_PUNCH_HOLE, "the guest's own values");
_Static_assert(TMPFS_FALLOC_COLLAPSE == LX_FALLOC_FL_COLLAPSE_RANGE, "the guest's own values");
_Static_assert(TMPFS_FALLOC_ZERO == LX_FALLOC_FL_ZERO_RANGE, "the guest's own values");
_Static_assert(TMPFS_FALLOC_INSERT == LX_FALLOC_FL_INSERT_RANGE, "the guest's own values");

/* f->priv of one that holds the lower's content open. */
static char g_holds_lower;

static int file_open(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	struct tnode *t = tnode_of(i);
	int r = 0;

	(void)c;
	f->ops = &g_tmpfs_file_fops;
	if (!t->lower)
		return 0;
	frwlock_read_lock(&t->data.lock);
	if (!t->has_data) {
		r = hostfs_content_get(t->lower);
		if (r == 0)
			f->priv = &g_holds_lower;
	}
	frwlock_read_unlock(&t->data.lock);
	return r;
}

/* The content becomes our own before it changes or may be changed. inode->lock held. */
static int own_data(struct tnode *t)
{
	return t->has_data ? 0 : overlay_copy_up(t->inode, UINT64_MAX);
}

static void file_release(struct file *f)
{
	if (f->priv == &g_holds_lower)
		hostfs_content_put(tnode_of(f->inode)->lower);
}

/* How much of what @u wants its reader may have by a mapping of @part of his own; then d->giving is
 * raised. 0: copy. Under t->data.lock. */
static uint64_t part_for(struct tnode *t, const struct uio *u, uint64_t pos, struct uio_file *part)
{
	const uint64_t left = t->has_data && pos < t->data.size ? t->data.size - pos : 0;
	const uint64_t size = MIN(u->resid, left);

	return size && tmpfs_data_view(&t->data, pos, size, part) ? size : 0;
}

/* By that: bytes, or 0. */
static ssize_t give(struct tmpfs_data *d, struct uio *u, uint64_t size, const struct uio_file *part,
		    uint64_t pos)
{
	const uint64_t resid = u->resid;

	u->resid = size;
	if (!uio_may_give(u) || !uio_give(u, part, pos)) {
		u->resid = resid;
		size = 0;
	}
	atomic_fetch_sub(&d->giving, 1);
	return (ssize_t)size;
}

static ssize_t file_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct tnode *t = tnode_of(f->inode);
	const bool may_give = uio_may_give(u);
	struct uio_file part;
	bool offer = false;
	uint64_t size;
	ssize_t r;

	frwlock_read_lock(&t->data.lock);
	size = may_give ? part_for(t, u, (uint64_t)*pos, &part) : 0;
	if (size) {
		/* The mapping is made without the lock. */
		frwlock_read_unlock(&t->data.lock);
		r = give(&t->data, u, size, &part, (uint64_t)*pos);
		if (r > 0) {
			*pos += r;
			return r;
		}
		frwlock_read_lock(&t->data.lock);
	}
	if (t->has_data) {
		r = tmpfs_data_read(&t->data, u, (uint64_t)*pos);
		offer = may_give && r > 0 &&
			tmpfs_data_note_copy(&t->data, MAX((uint64_t)r, UIO_GIVE_FLOOR));
	} else {
		r = hostfs_content_read(t->lower, u, *pos);
	}
	frwlock_read_unlock(&t->data.lock);
	if (r > 0)
		*pos += r;
	if (unlikely(offer)) {
		frwlock_write_lock(&t->data.lock);
		tmpfs_data_offer(&t->data);
		frwlock_write_unlock(&t->data.lock);
	}
	return r;
}

static bool file_view(struct file *f, int64_t pos, struct file_view *out)
{
	struct tnode *t = tnode_of(f->inode);
	bool has;

	frwlock_read_lock(&t->data.lock);
	has = t->has_data ? tmpfs_data_show(&t->data, (uint64_t)pos, out)
			  : hostfs_content_show(t->lower, pos, out);
	frwlock_read_unlock(&t->data.lock);
	return has;
}

/* What a write of @len at @pos may do under F_SEAL_GROW: page by page, as far as the size reaches.
 */
static uint64_t sealed_length(const struct tnode *t, uint64_t pos, uint64_t len, uint64_t size)
{
	if (!(atomic_load(&t->seals) & LX_F_SEAL_GROW) || pos + len <= size)
		return len;
	if (!(size & (MOAT_PAGE_SIZE - 1)))
		return pos < size ? size - pos : 0;
	return pos < page_down(size) ? page_down(size) - pos : 0;
}

static ssize_t file_write(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *pos)
{
	struct inode *i = f->inode;
	struct tnode *t = tnode_of(i);
	struct tmpfs_data *d = &t->data;
	ssize_t r;

	fmutex_lock(&i->lock);
	if (atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_APPEND)
		*pos = (int64_t)i->size;
	if (c && c->fsize_limit != UINT64_MAX) {
		r = -EFBIG;
		if ((uint64_t)*pos >= c->fsize_limit)
			goto out;
		u->resid = MIN(u->resid, c->fsize_limit - (uint64_t)*pos);
	}
	r = tmpfs_seal_check_write(t);
	if (r < 0)
		goto out;
	u->resid = sealed_length(t, (uint64_t)*pos, u->resid, i->size);
	r = u->resid ? own_data(t) : -EPERM;
	if (r < 0)
		goto out;
	frwlock_write_lock(&d->lock);
	inode_changes(i);
	r = tmpfs_data_write(d, u, (uint64_t)*pos);
	tmpfs_sync_size(i);
	frwlock_write_unlock(&d->lock);
	if (r > 0)
		*pos += r;
out:
	fmutex_unlock(&i->lock);
	return r;
}

static int64_t file_lseek(struct file *f, int64_t off, int whence)
{
	struct tnode *t = tnode_of(f->inode);
	int64_t r;

	if (whence == LX_SEEK_SET || whence == LX_SEEK_CUR)
		return file_lseek_endless(f, off, whence);
	frwlock_read_lock(&t->data.lock);
	if (whence == LX_SEEK_DATA || whence == LX_SEEK_HOLE)
		r = t->has_data ? tmpfs_data_seek(&t->data, off, whence)
				: hostfs_content_seek(t->lower, off, whence);
	else
		r = file_lseek_generic(f, off, whence, t->has_data ? t->data.size : f->inode->size);
	frwlock_read_unlock(&t->data.lock);
	return r;
}

static int file_mmap(struct file *f, struct file_map *m)
{
	struct tnode *t = tnode_of(f->inode);
	uint32_t seals = atomic_load(&t->seals);
	int r;

	m->anon = false;
	m->max_prot = LX_PROT_READ | LX_PROT_WRITE | LX_PROT_EXEC;
	if (m->shared) {
		if (!(f->fmode & FMODE_WRITE))
			m->max_prot &= ~LX_PROT_WRITE;
		if (seals & (LX_F_SEAL_WRITE | LX_F_SEAL_FUTURE_WRITE)) {
			if (m->prot & LX_PROT_WRITE)
				return -EPERM;
			m->max_prot &= ~LX_PROT_WRITE;
		}
	}
	if (t->lower && (f->fmode & FMODE_WRITE)) {
		fmutex_lock(&f->inode->lock);
		r = own_data(t);
		fmutex_unlock(&f->inode->lock);
		if (r < 0)
			return r;
	}
	frwlock_write_lock(&t->data.lock);
	r = t->has_data ? tmpfs_data_map(&t->data, m) : hostfs_content_map(t->lower, m);
	frwlock_write_unlock(&t->data.lock);
	return r;
}

static int file_fallocate(struct vfs_ctx *c, struct file *f, int mode, int64_t off, int64_t size)
{
	struct inode *i = f->inode;
	struct tnode *t = tnode_of(i);
	struct tmpfs_data *d = &t->data;
	uint64_t end = (uint64_t)off + (uint64_t)size;
	int r = 0;

	fmutex_lock(&i->lock);
	if (mode & LX_FALLOC_FL_PUNCH_HOLE)
		r = tmpfs_seal_check_write(t);
	else if (mode & (LX_FALLOC_FL_ZERO_RANGE | LX_FALLOC_FL_COLLAPSE_RANGE |
			 LX_FALLOC_FL_INSERT_RANGE))
		r = atomic_load(&t->seals) & ~LX_F_SEAL_SEAL ? -EPERM : 0;
	else if (!(mode & LX_FALLOC_FL_KEEP_SIZE) && end > i->size)
		r = tmpfs_seal_check_resize(t, i->size, end);
	if (r == 0)
		r = own_data(t);
	if (r == 0 && c)
		r = inode_kill_priv(c, i);
	if (r == 0) {
		frwlock_write_lock(&d->lock);
		inode_changes(i);
		r = tmpfs_data_fallocate(d, mode & ~LX_FALLOC_FL_UNSHARE_RANGE, (uint64_t)off,
					 (uint64_t)size);
		tmpfs_sync_size(i);
		frwlock_write_unlock(&d->lock);
	}
	if (r == 0)
		inode_touch(i, false, true, true);
	fmutex_unlock(&i->lock);
	return r;
}

static int file_fsync(struct file *f, bool data_only)
{
	(void)f;
	(void)data_only;
	return 0;
}

const struct file_ops g_tmpfs_file_fops = {
	.read = file_read,
	.write = file_write,
	.lseek = file_lseek,
	.mmap = file_mmap,
	.view = file_view,
	.fsync = file_fsync,
	.fallocate = file_fallocate,
	.release = file_release,
};

const struct inode_ops g_tmpfs_file_iops = {
	.open = file_open,
	TMPFS_ATTR_OPS,
};
