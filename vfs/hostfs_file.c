/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs: contents of regular files.
 *
 * Theory of operation: reads and writes go through a buffer, piece by piece: pread or pwrite on the
 * host, then the copy to or from user memory. What is in the host's page cache is read at once, the
 * rest on a helper thread (host_pread). Files that are read again and again have windows
 * (hostfs_window.c), and then no host call is made.
 *
 * Mappings map the host descriptor itself: of the read descriptor, or the write descriptor where
 * the mapping is shared and the file was opened for writing.
 *
 * Locking: writers hold inode->lock; readers hold nothing, the host orders them.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/lx_fcntl.h"
#include "vfs/hostfs_node.h"
#include "vfs/room.h"
#include "vfs/shown.h"
#include "vfs/write_meter.h"

#define PIECE ((size_t)64 << 10)
#define PIECE_ON_STACK ((size_t)4 << 10)

/* f->priv: which descriptors the open file holds, and whether it was mapped shared. */
enum { HOLDS_READ = 1, HOLDS_WRITE = 2, HOLDS_MAP = 4 };

static int file_open(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	struct hnode *h = hnode_of(i);
	uintptr_t holds = 0;
	int fd;

	(void)c;
	f->ops = &g_hostfs_file_fops;
	if (f->fmode & FMODE_WRITE) {
		if (!h->sb->opts.writable)
			return -EROFS;
		fd = hostfs_drop_set_id(i);
		if (fd == 0)
			fd = hnode_file_get(h, true);
		if (fd < 0)
			return fd;
		holds |= HOLDS_WRITE;
	}
	if (f->fmode & (FMODE_READ | FMODE_EXEC)) {
		fd = hnode_file_get(h, false);
		if (fd < 0) {
			if (holds)
				hnode_file_put(h);
			return fd;
		}
		holds |= HOLDS_READ;
	}
	f->priv = (void *)holds;
	return 0;
}

static void file_release(struct file *f)
{
	uintptr_t holds = (uintptr_t)f->priv;

	if (holds & HOLDS_MAP)
		host_sight_mapped(-1);
	if (holds & HOLDS_WRITE)
		hnode_file_put(hnode_of(f->inode));
	if (holds & HOLDS_READ)
		hnode_file_put(hnode_of(f->inode));
}

/* A piece of the content, by way of a window or of *fd, which is opened if it is -1. */
static ssize_t read_piece(struct hnode *h, int *fd, void *buf, size_t size, int64_t pos)
{
	size_t got = hnode_window_read(h, buf, size, pos);
	ssize_t n;

	if (got == size)
		return (ssize_t)got;
	if (*fd < 0) {
		*fd = hnode_file_get(h, false);
		if (*fd < 0)
			return got ? (ssize_t)got : *fd;
	}
	n = host_pread(*fd, (char *)buf + got, size - got, pos + (int64_t)got,
		       hostfs_known_end(h->inode), &h->no_nowait);
	if (n < 0)
		return got ? (ssize_t)got : n;
	hnode_window_offer(h, *fd, size - got, pos + (int64_t)got);
	return (ssize_t)got + n;
}

int hostfs_content_get(struct inode *i)
{
	int fd = hnode_file_get(hnode_of(i), false);

	return MIN(fd, 0);
}

void hostfs_content_put(struct inode *i)
{
	hnode_file_put(hnode_of(i));
}

/* Will a read from @pos on end within a small piece? Nobody need be right: there are more pieces.
 */
static bool ends_soon(struct inode *i, int64_t pos)
{
	const uint64_t end = hostfs_known_end(i);

	return end != UINT64_MAX && (int64_t)end - pos < (int64_t)PIECE_ON_STACK;
}

/* A piece of @want bytes has moved @n, or -errno. False: it was the last. */
static bool piece_moved(struct uio *u, ssize_t n, size_t want, ssize_t *done)
{
	if (n < 0 && !*done)
		*done = n;
	if (n <= 0)
		return false;
	uio_skip(u, (size_t)n);
	*done += n;
	return (size_t)n == want;
}

/* Into the kernel's own memory. */
static ssize_t read_direct(struct hnode *h, struct uio *u, int64_t pos)
{
	ssize_t done = 0;
	int fd = -1;
	size_t want;
	char *to;

	while ((to = uio_kernel_piece(u, &want)) != NULL) {
		want = MIN(want, PIECE);
		if (!piece_moved(u, read_piece(h, &fd, to, want, pos + done), want, &done))
			break;
	}
	if (fd >= 0)
		hnode_file_put(h);
	return done;
}

ssize_t hostfs_content_read(struct inode *i, struct uio *u, int64_t pos)
{
	struct hnode *h = hnode_of(i);
	char small[PIECE_ON_STACK], *big = NULL, *buf = small;
	size_t size = sizeof(small);
	ssize_t done = hnode_window_give(h, u, pos);
	int fd = -1;

	if (!u->ops)
		return read_direct(h, u, pos);
	if (u->resid > sizeof(small) && !ends_soon(i, pos)) {
		size = MIN(u->resid, PIECE);
		buf = big = mem_realloc(NULL, size);
		if (!big)
			return -ENOMEM;
	}
	while (u->resid) {
		size_t want = MIN(u->resid, size);
		ssize_t n = read_piece(h, &fd, buf, want, pos + done);
		ssize_t put = n > 0 ? uio_put(u, buf, (size_t)n) : n;

		if (put < 0 && !done)
			done = put;
		if (put <= 0)
			break;
		done += put;
		if (put < n || (size_t)n < want)
			break;
	}
	mem_free(big);
	if (fd >= 0)
		hnode_file_put(h);
	return done;
}

ssize_t hostfs_content_read_kernel(struct inode *i, void *buf, size_t size, int64_t pos)
{
	size_t done = 0;
	ssize_t n = 1;
	int fd = hnode_file_get(hnode_of(i), false);

	if (fd < 0)
		return fd;
	while (done < size && n > 0) {
		n = host_pread(fd, (char *)buf + done, size - done, pos + (int64_t)done,
			       hostfs_known_end(i), &hnode_of(i)->no_nowait);
		if (n > 0)
			done += (size_t)n;
	}
	hnode_file_put(hnode_of(i));
	return n < 0 && !done ? n : (ssize_t)done;
}

int64_t hostfs_content_seek(struct inode *i, int64_t off, int whence)
{
	int fd = hnode_file_get(hnode_of(i), false);

	if (fd < 0)
		return fd;
	int64_t r = off < 0 ? -ENXIO : host_lseek(fd, off, whence);

	hnode_file_put(hnode_of(i));
	return r;
}

/* The caller keeps the content open (hostfs_content_get) as long as the mapping is there. */
int hostfs_content_map(struct inode *i, struct file_map *m)
{
	struct hnode *h = hnode_of(i);
	int fd = hnode_file_get(h, false);

	if (fd < 0)
		return fd;
	m->host_fd = fd;
	m->host_offset = m->offset;
	m->key = hnode_map_key(h, fd);
	hnode_file_put(h);
	return 0;
}

static ssize_t file_read(struct file *f, struct uio *u, int64_t *pos)
{
	ssize_t r = hostfs_content_read(f->inode, u, *pos);

	if (r > 0)
		*pos += r;
	return r;
}

bool hostfs_content_show(struct inode *i, int64_t pos, struct file_view *out)
{
	shown_lower(i);
	return hnode_window_show(hnode_of(i), pos, out);
}

static bool file_view(struct file *f, int64_t pos, struct file_view *out)
{
	return hnode_window_show(hnode_of(f->inode), pos, out);
}

/* [inode->lock] */
static ssize_t put_piece(struct hnode *h, int fd, const void *buf, size_t size, int64_t pos,
			 bool append)
{
	const struct hostfs_id id = hnode_id(h);

	return append ? room_append(&id, &h->end, fd, buf, size, false)
		      : room_pwrite(&id, &h->end, fd, buf, size, pos);
}

/* Out of the kernel's own memory. */
static ssize_t write_direct(struct hnode *h, int fd, struct uio *u, int64_t pos, bool append)
{
	ssize_t done = 0;
	const char *from;
	size_t want;

	while ((from = uio_kernel_piece(u, &want)) != NULL) {
		want = MIN(want, PIECE);
		if (!piece_moved(u, put_piece(h, fd, from, want, pos + done, append), want, &done))
			break;
	}
	return done;
}

static ssize_t write_fd(struct hnode *h, int fd, struct uio *u, int64_t pos, bool append)
{
	char small[PIECE_ON_STACK], *big = NULL, *buf = small;
	size_t size = sizeof(small);
	ssize_t done = 0;

	if (!u->ops)
		return write_direct(h, fd, u, pos, append);
	if (u->resid > sizeof(small)) {
		size = MIN(u->resid, PIECE);
		buf = big = mem_realloc(NULL, size);
		if (!big)
			return -ENOMEM;
	}
	while (u->resid) {
		size_t want = MIN(u->resid, size);
		ssize_t got = uio_get(u, buf, want);
		ssize_t put = got;

		if (got > 0)
			put = put_piece(h, fd, buf, (size_t)got, pos + done, append);
		if (put < 0 && !done)
			done = put;
		if (put <= 0)
			break;
		done += put;
		if (put < got || (size_t)got < want)
			break;
	}
	mem_free(big);
	return done;
}

static ssize_t file_write(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *pos)
{
	struct inode *i = f->inode;
	struct hnode *h = hnode_of(i);
	bool append = atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_APPEND;
	struct host_stat st;
	ssize_t r = hostfs_drop_set_id(i); /* they may have come since it was opened */
	int fd = r < 0 ? (int)r : hnode_file_get(h, true);

	if (fd < 0)
		return fd;
	fmutex_lock(&i->lock);
	if (append) {
		r = host_stat_fd(fd, &st);
		if (r < 0)
			goto out;
		*pos = (int64_t)st.size;
	}
	if (c && c->fsize_limit != UINT64_MAX) {
		r = -EFBIG;
		if ((uint64_t)*pos >= c->fsize_limit)
			goto out;
		u->resid = MIN(u->resid, c->fsize_limit - (uint64_t)*pos);
	}
	r = write_charge(u);
	if (r)
		goto out;
	const uint64_t charged = u->resid;

	r = write_fd(h, fd, u, *pos, append);
	write_uncharge(charged, r);
	if (r > 0) {
		*pos += r;
		/* Others may have appended in between. */
		if (append && host_stat_fd(fd, &st) == 0)
			*pos = MAX(*pos, (int64_t)st.size);
		mutex_lock(&i->meta);
		if ((uint64_t)*pos > i->size)
			i->size = (uint64_t)*pos;
		mutex_unlock(&i->meta);
	}
	hostfs_forget(i);
out:
	fmutex_unlock(&i->lock);
	hnode_file_put(h);
	return r;
}

static int64_t file_lseek(struct file *f, int64_t off, int whence)
{
	struct kstat st;
	int r;

	if (whence == LX_SEEK_DATA || whence == LX_SEEK_HOLE)
		return hostfs_content_seek(f->inode, off, whence);
	r = whence == LX_SEEK_END ? hostfs_getattr(f->inode, &st) : 0;
	if (r < 0)
		return r;
	return file_lseek_generic(f, off, whence, whence == LX_SEEK_END ? st.size : 0);
}

static int file_mmap(struct file *f, struct file_map *m)
{
	struct hnode *h = hnode_of(f->inode);
	bool write = m->shared && (f->fmode & FMODE_WRITE);
	const uintptr_t map = HOLDS_MAP;

	/* Mappings hold the open file: a guest may read there what the host writes. Not so private
	 * ones, of which nobody is promised that they show it: programs and libraries. */
	if (m->shared && !h->sb->opts.immutable &&
	    !(__atomic_fetch_or((uintptr_t *)&f->priv, map, __ATOMIC_RELAXED) & map))
		host_sight_mapped(1);
	m->anon = false;
	m->max_prot = LX_PROT_READ | LX_PROT_WRITE | LX_PROT_EXEC;
	if (m->shared && !write)
		m->max_prot &= ~LX_PROT_WRITE;
	if (!write)
		return hostfs_content_map(f->inode, m);
	int fd = hostfs_drop_set_id(f->inode);

	if (fd == 0)
		fd = hnode_file_get(h, true);
	if (fd < 0)
		return fd;
	/* As a write() would have the host do. */
	(void)!host_removexattr(fd, "security.capability");
	hnode_file_put(h); /* the open file holds it */
	if (!h->w_readable)
		return -EACCES;

	const struct hostfs_id id = hnode_id(h);
	const int r = room_map(&id, fd);

	if (r < 0)
		return r;
	m->host_fd = fd;
	m->host_offset = m->offset;
	m->key = hnode_map_key(h, fd);
	return 0;
}

static int file_fsync(struct file *f, bool data_only)
{
	struct hnode *h = hnode_of(f->inode);

	if (!h->sb->opts.writable)
		return 0;
	int fd = hnode_file_get(h, f->fmode & FMODE_WRITE);

	if (fd < 0)
		return fd;
	int r = host_fsync_wait(fd, data_only);

	hnode_file_put(h);
	return r;
}

static int file_fallocate(struct vfs_ctx *c, struct file *f, int mode, int64_t off, int64_t size)
{
	struct inode *i = f->inode;
	struct hnode *h = hnode_of(i);
	const struct hostfs_id id = hnode_id(h);
	int r = hostfs_drop_set_id(i), fd = r < 0 ? r : hnode_file_get(h, true);

	(void)c;
	if (fd < 0)
		return fd;
	fmutex_lock(&i->lock);
	r = room_fallocate(&id, fd, mode, off, size);
	fmutex_unlock(&i->lock);
	hnode_file_put(h);
	hostfs_refresh(i);
	return r;
}

const struct file_ops g_hostfs_file_fops = {
	.read = file_read,
	.write = file_write,
	.lseek = file_lseek,
	.mmap = file_mmap,
	.view = file_view,
	.fsync = file_fsync,
	.fallocate = file_fallocate,
	.release = file_release,
};

const struct inode_ops g_hostfs_file_iops = {
	.open = file_open,
	.outside = &g_hostfs_locks,
	HOSTFS_ATTR_OPS,
};
