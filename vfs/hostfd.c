/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfd: files on inherited host descriptors. See hostfd.h.
 *
 * Theory of operation: the descriptor is a duplicate, so its description is shared with whoever
 * gave it to us, and we must not make it non-blocking. A stream is tried without waiting
 * (RWF_NOWAIT, MSG_DONTWAIT); where the host cannot do that (terminals) poll says whether it is
 * ready, and the call is made on a helper thread, for another process may take the data first. When
 * nothing is ready the fiber sleeps on a wait queue that the poll thread wakes.
 *
 * A regular file is read and written at the description's own offset, since a shell that starts
 * several programs with one output file relies on that; one that was opened anew, through
 * /proc/self/fd, has an offset of its own.
 *
 * The host's /dev/null is our own: nobody can tell.
 *
 * The inode has no type for streams, so that opening it again does not lead to a FIFO or a device
 * of the sandbox; stat shows the truth. It owns the descriptor.
 *
 * The host stops nobody of ours who reads from a terminal that another process group has. We are
 * told when that is so (hostfd_tty_behind), and send the signal.
 *
 * Deviations from Linux: a terminal of the host is nobody's controlling terminal: TIOCGPGRP and its
 * kin are ENOTTY; who writes to it or sets it from behind is not stopped. O_NONBLOCK set by the
 * guest stays the guest's, and so does O_APPEND: one that the descriptor came with cannot be taken
 * off, and none is seen by the caller. TIOCSTI and TIOCSWINSZ are EPERM.
 *
 * Locking: h->lock, short, for what a faulting read has left.
 */
#include "vfs/hostfd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hostpoll.h"
#include "base/lx_fcntl.h"
#include "vfs/host_calls.h"
#include "vfs/memdev.h"
#include "vfs/room.h"
#include "vfs/tty.h"
#include "vfs/write_meter.h"
#include "base/meter.h"

enum hostfd_kind { KIND_REG, KIND_PIPE, KIND_SOCK, KIND_TTY, KIND_NULL, KIND_OTHER };

struct hostfd {
	TAILQ_ENTRY(hostfd) link; /* [g_all_lock] */
	int fd;
	enum hostfd_kind kind;
	int host_flags; /* F_GETFL when it came */
	bool watched;
	bool controls;          /* the terminal that moat was started from */
	_Atomic bool no_nowait; /* the host cannot try without waiting */
	struct hostwatch watch;
	struct waitq wq;
	_Atomic uint64_t map_key;
	struct hostfs_id id;
	uint64_t shown_ino;
	struct room_end room; /* KIND_REG, of the description's own offset */
	/* Bytes that were read from a stream and that the guest's buffer did not take. */
	struct mutex lock;
	char *left;               /* [lock] */
	size_t left_at;           /* [lock] */
	_Atomic size_t left_size; /* from left_at on; changed under lock */
};

#define PIECE ((size_t)64 << 10)
/* What may be written to a stream that is ready and only knows waiting calls. */
#define WAIT_PIECE ((size_t)4096)

/* Those there are. */
static struct mutex g_all_lock = MUTEX_INIT(RANK_LEAF);
static TAILQ_HEAD(, hostfd) g_all = TAILQ_HEAD_INITIALIZER(g_all); /* [g_all_lock] */

static struct hostfd *hostfd_of(const struct file *f)
{
	return f->inode->priv;
}

static void watch_event(struct hostwatch *w, uint32_t events)
{
	struct hostfd *h = container_of(w, struct hostfd, watch);

	host_news();
	waitq_wake(&h->wq, events);
}

/* ---- waiting ---- */

static uint32_t ready(struct hostfd *h, uint32_t events)
{
	if ((events & LX_POLLIN) && atomic_load(&h->left_size))
		return LX_POLLIN;
	return h->watched ? host_poll(h->fd, events) : events;
}

/* 0: try again. -EAGAIN, -ERESTARTSYS. */
static int wait_ready(struct file *f, struct hostfd *h, uint32_t events)
{
	if (atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_NONBLOCK)
		return -EAGAIN;

	/* Input of the host's comes when it comes, and others go on meanwhile; but how fast output
	 * is taken is not the guest's affair. */
	const bool output = g_fiber_turns && (events & LX_POLLOUT);

	if (output)
		fiber_turn_keep();

	int r = wait_event(&h->wq, ready(h, events) != 0, DEADLINE_NONE, WAIT_INTR);

	if (output)
		fiber_turn_unkeep();
	return r;
}

static uint32_t hostfd_poll(struct file *f, struct poll_table *pt)
{
	struct hostfd *h = hostfd_of(f);
	uint32_t all =
		LX_POLLIN | LX_POLLPRI | LX_POLLOUT | LX_POLLRDNORM | LX_POLLWRNORM | LX_POLLRDHUP;

	poll_wait(pt, &h->wq);
	if (!h->watched)
		return LX_POLLIN | LX_POLLOUT | LX_POLLRDNORM | LX_POLLWRNORM;
	return host_poll(h->fd, all) | (atomic_load(&h->left_size) ? LX_POLLIN | LX_POLLRDNORM : 0);
}

/* ---- streams ---- */

static _Atomic bool g_tty_behind;

void hostfd_tty_behind(bool is)
{
	atomic_store(&g_tty_behind, is);
}

/* May it be read now? The host stops nobody of ours, and would give an error. */
static int check_place(const struct hostfd *h)
{
	return h->controls && atomic_load(&g_tty_behind) ? g_tty_hooks->check_behind(LX_SIGTTIN)
							 : 0;
}

/* One attempt. -EAGAIN: nothing there. */
static ssize_t try_read(struct hostfd *h, void *buf, size_t size)
{
	if (!atomic_load_explicit(&h->no_nowait, memory_order_relaxed)) {
		ssize_t r = host_read_nowait(h->fd, buf, size, h->kind == KIND_SOCK);

		if (r != -EOPNOTSUPP && r != -ESPIPE)
			return r;
		atomic_store_explicit(&h->no_nowait, true, memory_order_relaxed);
	}
	if (!ready(h, LX_POLLIN))
		return -EAGAIN;
	return host_read_wait(h->fd, buf, size);
}

static ssize_t try_write(struct hostfd *h, const void *buf, size_t size)
{
	if (!atomic_load_explicit(&h->no_nowait, memory_order_relaxed)) {
		ssize_t r = host_write_nowait(h->fd, buf, size, h->kind == KIND_SOCK);

		if (r != -EOPNOTSUPP && r != -ESPIPE)
			return r;
		atomic_store_explicit(&h->no_nowait, true, memory_order_relaxed);
	}
	if (!ready(h, LX_POLLOUT))
		return -EAGAIN;
	return host_write_wait(h->fd, buf, MIN(size, WAIT_PIECE));
}

/* What is left from the last read comes first. */
static size_t take_left(struct hostfd *h, char *buf, size_t size)
{
	size_t n;
	char *done = NULL;

	if (!atomic_load(&h->left_size))
		return 0;
	mutex_lock(&h->lock);
	n = MIN(size, atomic_load(&h->left_size));
	if (n) {
		memcpy(buf, h->left + h->left_at, n);
		h->left_at += n;
		if (atomic_fetch_sub(&h->left_size, n) == n) {
			done = h->left;
			h->left = NULL;
		}
	}
	mutex_unlock(&h->lock);
	mem_free(done);
	return n;
}

/* A fault in the guest's buffer: what was not taken is still to be read, as from a pipe of ours.
 * Before what others may have left meanwhile. */
static void keep_left(struct hostfd *h, const char *buf, size_t size)
{
	char *old = NULL, *all;
	size_t more;

	mutex_lock(&h->lock);
	more = atomic_load(&h->left_size);
	all = mem_realloc(NULL, size + more);
	if (all) {
		memcpy(all, buf, size);
		if (more)
			memcpy(all + size, h->left + h->left_at, more);
		old = h->left;
		h->left = all;
		h->left_at = 0;
		atomic_store(&h->left_size, size + more);
	}
	mutex_unlock(&h->lock);
	mem_free(old);
	waitq_wake(&h->wq, LX_POLLIN);
}

static ssize_t stream_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct hostfd *h = hostfd_of(f);
	size_t size = MIN(u->resid, PIECE);
	char *buf = mem_realloc(NULL, size ? size : 1);
	ssize_t r;

	(void)pos;
	if (!buf)
		return -ENOMEM;
	r = (ssize_t)take_left(h, buf, size);
	while (!r) {
		r = check_place(h);
		if (r == 0)
			r = try_read(h, buf, size);
		if (r != -EAGAIN)
			break;
		r = wait_ready(f, h, LX_POLLIN);
	}
	if (r > 0) {
		ssize_t put = uio_put(u, buf, (size_t)r);

		if (put < r)
			keep_left(h, buf + MAX(put, 0), (size_t)(r - MAX(put, 0)));
		r = put;
	}
	mem_free(buf);
	return r;
}

static ssize_t stream_write(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *pos)
{
	struct hostfd *h = hostfd_of(f);
	size_t size = MIN(u->resid, PIECE);
	char *buf = mem_realloc(NULL, size ? size : 1);
	ssize_t done = 0, r = 0;

	(void)c;
	(void)pos;
	if (!buf)
		return -ENOMEM;
	do {
		struct uio before = *u;
		ssize_t got = uio_get(u, buf, MIN(u->resid, size));

		r = got;
		if (got < 0)
			break;
		r = try_write(h, buf, (size_t)got);
		if (r < got) {
			*u = before;
			uio_skip(u, r > 0 ? (size_t)r : 0);
		}
		if (r == -EAGAIN) {
			int w = wait_ready(f, h, LX_POLLOUT);

			if (w < 0) {
				r = w;
				break;
			}
			continue;
		}
		if (r < 0)
			break;
		done += r;
	} while (u->resid);
	mem_free(buf);
	return done ? done : r;
}

/* ---- regular files ---- */

static ssize_t reg_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct hostfd *h = hostfd_of(f);
	bool shared = pos == &f->pos && !f->priv;
	size_t size = MIN(u->resid, PIECE);
	char *buf = mem_realloc(NULL, size ? size : 1);
	ssize_t done = 0;

	if (!buf)
		return -ENOMEM;
	while (u->resid) {
		size_t want = MIN(u->resid, size);
		ssize_t n, put;

		if (shared) {
			n = host_read_nowait(h->fd, buf, want, false);
			if (n == -EAGAIN || n == -EOPNOTSUPP)
				n = host_read_wait(h->fd, buf, want);
		} else {
			n = host_pread(h->fd, buf, want, *pos, UINT64_MAX, &h->no_nowait);
		}
		put = n > 0 ? uio_put(u, buf, (size_t)n) : n;
		if (shared && n > 0 &&
		    put < n) /* a fault: what was not taken is still to be read */
			(void)host_lseek(h->fd, MAX(put, (ssize_t)0) - n, SEEK_CUR);
		if (put < 0 && !done)
			done = put;
		if (put <= 0)
			break;
		done += put;
		*pos += put;
		if (put < n || (size_t)n < want)
			break;
	}
	mem_free(buf);
	return done;
}

/*
 * RLIMIT_FSIZE, at the place where the host is going to write: the caller held it against f->pos,
 * which does not know of what others have written by the same description.
 */
static int keep_size_limit(const struct vfs_ctx *c, struct hostfd *h, struct uio *u, bool append)
{
	struct host_stat st;
	int64_t at;

	if (!c || c->fsize_limit == UINT64_MAX)
		return 0;
	if (append) {
		int r = host_stat_fd(h->fd, &st);

		at = r < 0 ? r : (int64_t)st.size;
	} else {
		at = host_lseek(h->fd, 0, SEEK_CUR);
	}
	if (at < 0)
		return (int)at;
	if ((uint64_t)at >= c->fsize_limit)
		return -EFBIG;
	u->resid = MIN(u->resid, c->fsize_limit - (uint64_t)at);
	return 0;
}

static ssize_t reg_write(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *pos)
{
	struct hostfd *h = hostfd_of(f);
	bool shared = pos == &f->pos && !f->priv;
	bool append =
		((uint32_t)h->host_flags | atomic_load_explicit(&f->flags, memory_order_relaxed)) &
		LX_O_APPEND;
	int r = shared ? keep_size_limit(c, h, u, append) : 0;

	if (r < 0)
		return r;

	size_t size = MIN(u->resid, PIECE);
	char *buf = mem_realloc(NULL, size ? size : 1);
	struct room_end unknown = {.doubts = UINT64_MAX};
	ssize_t done = 0;

	if (!buf)
		return -ENOMEM;
	while (u->resid) {
		size_t want = MIN(u->resid, size);
		ssize_t got, put;

		if (!meter_charge(METER_write_bytes, want)) {
			done = done ? done : -EDQUOT;
			break;
		}
		got = put = uio_get(u, buf, want);

		if (got > 0)
			put = append   ? room_append(&h->id, &h->room, h->fd, buf, (size_t)got,
						     shared)
			      : shared ? room_write(&h->id, &h->room, h->fd, buf, (size_t)got)
				       : room_pwrite(&h->id, &unknown, h->fd, buf, (size_t)got,
						     *pos);
		write_uncharge(want, put);
		if (put < 0 && !done)
			done = put;
		if (put <= 0)
			break;
		done += put;
		*pos += put;
		if (put < got)
			break;
	}
	mem_free(buf);
	return done;
}

static int64_t reg_lseek(struct file *f, int64_t off, int whence)
{
	struct hostfd *h = hostfd_of(f);
	struct host_stat st;

	if (!f->priv)
		return room_seek(&h->id, h->fd, off, whence);
	int r = host_stat_fd(h->fd, &st);

	return r < 0 ? r : file_lseek_generic(f, off, whence, st.size);
}

static int reg_mmap(struct file *f, struct file_map *m)
{
	struct hostfd *h = hostfd_of(f);
	uint64_t key = atomic_load(&h->map_key);

	if (!(f->fmode & FMODE_READ))
		return -EACCES;
	if (!key) {
		uint64_t none = 0;

		key = host_map_key_new();
		if (!atomic_compare_exchange_strong(&h->map_key, &none, key))
			key = none;
	}
	/* Somebody of the host may write to it, for good: such files are few. Private mappings need
	 * not show it. */
	static _Atomic bool mapped;

	if (m->shared && !atomic_exchange(&mapped, true))
		host_sight_mapped(1);
	m->anon = false;
	m->host_fd = h->fd;
	m->host_offset = m->offset;
	m->key = key;
	m->max_prot = LX_PROT_READ | LX_PROT_WRITE | LX_PROT_EXEC;
	if (m->shared && !(f->fmode & FMODE_WRITE))
		m->max_prot &= ~LX_PROT_WRITE;
	else if (m->shared)
		return room_map(&h->id, h->fd);
	return 0;
}

static int reg_fsync(struct file *f, bool data_only)
{
	return host_fsync_wait(hostfd_of(f)->fd, data_only);
}

static int reg_fallocate(struct vfs_ctx *c, struct file *f, int mode, int64_t off, int64_t size)
{
	struct hostfd *h = hostfd_of(f);

	(void)c;
	return room_fallocate(&h->id, h->fd, mode, off, size);
}

/* ---- ioctl ---- */

/* What of the host's terminal a guest may ask and set. */
static const struct allowed_ioctl {
	unsigned cmd;
	uint8_t in, out; /* bytes of the argument; both 0: it is a number */
	bool wait;       /* may wait until output has drained */
	bool any_stream;
} g_ioctls[] = {
	{0x5401, 0, 36, false, false},     /* TCGETS */
	{0x5402, 36, 0, false, false},     /* TCSETS */
	{0x5403, 36, 0, true, false},      /* TCSETSW */
	{0x5404, 36, 0, true, false},      /* TCSETSF */
	{0x802c542a, 0, 44, false, false}, /* TCGETS2 */
	{0x402c542b, 44, 0, false, false}, /* TCSETS2 */
	{0x402c542c, 44, 0, true, false},  /* TCSETSW2 */
	{0x402c542d, 44, 0, true, false},  /* TCSETSF2 */
	{0x5409, 0, 0, true, false},       /* TCSBRK */
	{0x540a, 0, 0, false, false},      /* TCXONC */
	{0x540b, 0, 0, false, false},      /* TCFLSH */
	{0x5411, 0, 4, false, true},       /* TIOCOUTQ */
	{0x5413, 0, 8, false, false},      /* TIOCGWINSZ */
	{0x541b, 0, 4, false, true},       /* FIONREAD */
};

#define LX_TIOCSTI 0x5412u
#define LX_TIOCSWINSZ 0x5414u

static long hostfd_ioctl(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg,
			 const struct umem *um)
{
	struct hostfd *h = hostfd_of(f);
	char buf[64] = {0};
	int r;

	(void)c;
	for (size_t i = 0; i < ARRAY_SIZE(g_ioctls); i++) {
		const struct allowed_ioctl *a = &g_ioctls[i];

		if (a->cmd != cmd || (h->kind != KIND_TTY && !a->any_stream))
			continue;
		void *p = a->in || a->out ? (void *)buf : (void *)(uintptr_t)(uint32_t)arg;

		if (a->in) {
			r = umem_copy_in(um, buf, GADDR(arg), a->in);
			if (r < 0)
				return r;
		}
		r = a->wait ? host_ioctl_wait(h->fd, cmd, p) : host_ioctl(h->fd, cmd, p);
		if (r >= 0 && a->out)
			r = umem_copy_out(um, GADDR(arg), buf, a->out);
		return r;
	}
	if (h->kind == KIND_TTY && (cmd == LX_TIOCSTI || cmd == LX_TIOCSWINSZ))
		return -EPERM;
	return -ENOTTY;
}

static int hostfd_host_fd(struct file *f)
{
	return hostfd_of(f)->fd;
}

static const struct file_ops g_stream_fops = {
	.read = stream_read,
	.write = stream_write,
	.poll = hostfd_poll,
	.ioctl = hostfd_ioctl,
	.host_fd = hostfd_host_fd,
	.stream = true,
};

static const struct file_ops g_reg_fops = {
	.read = reg_read,
	.write = reg_write,
	.lseek = reg_lseek,
	.mmap = reg_mmap,
	.fsync = reg_fsync,
	.fallocate = reg_fallocate,
	.host_fd = hostfd_host_fd,
	.offset_shared = true,
};

/* ---- inodes ---- */

static int hostfd_getattr(struct inode *i, struct kstat *out)
{
	struct hostfd *h = i->priv;
	struct host_stat st;
	int r = host_stat_fd(h->fd, &st);

	if (r < 0)
		return r;
	mutex_lock(&i->meta);
	*out = (struct kstat){.dev = i->super->dev,
			      .ino = i->ino,
			      .rdev = st.rdev,
			      .size = st.size,
			      .blocks = st.blocks,
			      .mode = st.mode,
			      .nlink = 1,
			      .uid = i->uid,
			      .gid = i->gid,
			      .blksize = st.blksize,
			      .atime = st.atime,
			      .mtime = st.mtime,
			      .ctime = st.ctime,
			      .btime = i->btime};
	mutex_unlock(&i->meta);
	return 0;
}

static int hostfd_setattr(struct vfs_ctx *c, struct inode *i, const struct iattr *attr)
{
	struct hostfd *h = i->priv;

	(void)c;
	if ((attr->valid & (ATTR_UID | ATTR_GID | ATTR_MODE)) && h->kind == KIND_REG)
		return -EPERM;
	if (!(attr->valid & ATTR_SIZE))
		return 0; /* a pipe's or terminal's attributes interest nobody but its owner */
	if (h->kind != KIND_REG)
		return -EINVAL;
	return room_truncate(&h->id, NULL, h->fd, attr->size);
}

/* Through /proc/self/fd or /dev/stdin: the same object, no more access than it came with. */
static int hostfd_open(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	struct hostfd *h = i->priv;
	int acc = h->host_flags & O_ACCMODE;

	(void)c;
	if (h->kind != KIND_NULL && (((f->fmode & FMODE_READ) && acc == O_WRONLY) ||
				     ((f->fmode & FMODE_WRITE) && acc == O_RDONLY)))
		return -EACCES;
	f->ops = i->fops;
	if (h->kind == KIND_REG)
		f->priv = h; /* an offset of its own */
	return 0;
}

static const struct inode_ops g_hostfd_iops = {
	.getattr = hostfd_getattr,
	.setattr = hostfd_setattr,
	.open = hostfd_open,
};

static void hostfd_inode_free(struct inode *i)
{
	struct hostfd *h = i->priv;

	if (!h)
		return;
	if (h->watched)
		hostwatch_del(&h->watch);
	waitq_fini(&h->wq);
	mutex_fini(&h->lock);
	mutex_lock(&g_all_lock);
	TAILQ_REMOVE(&g_all, h, link);
	mutex_unlock(&g_all_lock);
	mem_free(h->left);
	host_map_key_gone(atomic_load(&h->map_key));
	host_close(h->fd);
	mem_free(h);
}

static const struct super_ops g_hostfd_super_ops = {.inode_free = hostfd_inode_free};
static const struct fs_type g_hostfd_type = {.name = "hostfd", .nodev = true};
static struct super *g_hostfd_super;
static pthread_once_t g_hostfd_once = PTHREAD_ONCE_INIT;

static void hostfd_init(void)
{
	g_hostfd_super = super_new(&g_hostfd_type, &g_hostfd_super_ops);
	if (!g_hostfd_super)
		panic("no memory for the file system of host descriptors");
	room_start();
}

static bool is_null(const struct host_stat *st)
{
	return LX_S_ISCHR(st->mode) && st->rdev == lx_makedev(1, 3);
}

static enum hostfd_kind kind_of(int fd, const struct host_stat *st)
{
	const uint32_t mode = st->mode;
	char termios[64];

	if (LX_S_ISREG(mode))
		return KIND_REG;
	if (LX_S_ISFIFO(mode))
		return KIND_PIPE;
	if (LX_S_ISSOCK(mode))
		return KIND_SOCK;
	if (is_null(st))
		return KIND_NULL;
	return LX_S_ISCHR(mode) && host_ioctl(fd, 0x5401, termios) == 0 ? KIND_TTY : KIND_OTHER;
}

static void make_name(const struct hostfd *h, const struct host_stat *st, uint64_t ino, char *buf,
		      size_t size)
{
	unsigned long long n = ino;

	if (is_null(st))
		snprintf(buf, size, "/dev/null");
	else
		snprintf(buf, size, "%s:[%llu]",
			 h->kind == KIND_PIPE   ? "pipe"
			 : h->kind == KIND_SOCK ? "socket"
						: "host",
			 n);
}

/* Adds @h of @i to all. One file of the host has one number, by however many descriptors it came:
 * cat sees by that that it would read what it writes. */
static void join(struct inode *i, struct hostfd *h)
{
	struct hostfd *o;

	mutex_lock(&g_all_lock);
	TAILQ_FOREACH (o, &g_all, link) {
		if (hostfs_id_compare(&o->id, &h->id) == 0) {
			i->ino = o->shown_ino;
			break;
		}
	}
	h->shown_ino = i->ino;
	TAILQ_INSERT_TAIL(&g_all, h, link);
	mutex_unlock(&g_all_lock);
}

int hostfd_new(struct vfs_ctx *c, int fd, const char *name, struct file **out)
{
	struct hostfd *h;
	struct host_stat st;
	struct inode *i;
	char made[64];
	int own = host_dup(fd), flags, r;

	if (own < 0)
		return own;
	pthread_once(&g_hostfd_once, hostfd_init);
	flags = host_get_flags(own);
	r = flags < 0 ? flags : host_stat_fd(own, &st);
	if (r == 0 && LX_S_ISDIR(st.mode))
		r = -EISDIR;
	if (r == 0 && (LX_S_ISBLK(st.mode) || (flags & O_PATH)))
		r = -EACCES;
	h = r == 0 ? mem_zalloc(sizeof(*h)) : NULL;
	i = h ? inode_new(g_hostfd_super, LX_S_ISREG(st.mode) ? LX_S_IFREG | 0666 : 0666) : NULL;
	if (!i) {
		mem_free(h);
		host_close(own);
		return r < 0 ? r : -ENOMEM;
	}
	h->fd = own;
	h->id = (struct hostfs_id){st.dev, st.ino};
	h->kind = kind_of(own, &st);
	h->controls = h->kind == KIND_TTY && host_ioctl(own, LX_TIOCGPGRP, &(int){0}) == 0;
	h->host_flags = flags;
	waitq_init(&h->wq);
	mutex_init(&h->lock, RANK_MISC);
	i->priv = h;
	join(i, h);
	i->ops = &g_hostfd_iops;
	i->fops = h->kind == KIND_REG    ? &g_reg_fops
		  : h->kind == KIND_NULL ? &g_memdev_null
					 : &g_stream_fops;
	i->uid = c->cred->fsuid;
	i->gid = c->cred->fsgid;
	i->size = st.size;
	h->watch = (struct hostwatch){.fd = own, .fn = watch_event};
	if (h->kind != KIND_REG && h->kind != KIND_NULL) {
		r = hostwatch_add(&h->watch, LX_POLLIN | LX_POLLPRI | LX_POLLOUT | LX_POLLRDHUP);
		h->watched = r == 0;
		if (r < 0 && r != -EPERM) {
			inode_put(i);
			return r;
		}
	}
	if (!name) {
		make_name(h, &st, i->ino, made, sizeof(made));
		name = made;
	}

	unsigned fmode = (flags & O_ACCMODE) == O_WRONLY   ? FMODE_WRITE
			 : (flags & O_ACCMODE) == O_RDONLY ? FMODE_READ
							   : FMODE_READ | FMODE_WRITE;

	/* The host's O_* of x86-64 are the guest's. */
	*out = file_new_anon(c, i, name, i->fops, fmode,
			     (uint32_t)flags &
				     (LX_O_ACCMODE | LX_O_APPEND | LX_O_NONBLOCK | LX_O_LARGEFILE),
			     NULL);
	return *out ? 0 : file_new_error();
}

bool hostfd_is(const struct file *f)
{
	return f->inode->super->ops == &g_hostfd_super_ops;
}

int hostfd_get_fd(const struct file *f)
{
	return hostfd_is(f) ? hostfd_of(f)->fd : -1;
}
