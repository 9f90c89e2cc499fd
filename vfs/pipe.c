/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes and FIFOs. The ring is described in vfs/pipe_ring.h.
 *
 * Theory of operation: readers and writers wait as exclusive waiters, so a wake-up reaches one of
 * them; who leaves something over (a reader data, a writer room) wakes the next. A reader wakes
 * writers only if the pipe was full, a writer wakes readers only if it was empty, or if someone
 * polls the pipe: edge-triggered epoll expects an event for each write.
 *
 * A pipe belongs to its inode and lives while files have it open (pipe->files). An open of a FIFO
 * waits until the other side's count of opens has changed: so it also sees an end that was opened
 * and closed again.
 *
 * Locking: inode->lock (for inode->fifo and pipe->files), pipe->lock, wait queues; the first two
 * are not held together.
 *
 * References: pipe(7), fifo(7), pipe(2), fcntl(2).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/err.h"
#include "base/lx_fcntl.h"
#include "base/meter.h"
#include "vfs/pipe_ring.h"

#define SLOT_SIZE ((uint32_t)MOAT_PAGE_SIZE)
#define DEFAULT_SLOTS (PIPE_DEFAULT_SIZE / SLOT_SIZE)
#define READ_EVENTS (LX_POLLIN | LX_POLLRDNORM)
#define WRITE_EVENTS (LX_POLLOUT | LX_POLLWRNORM)

static const struct file_ops g_pipe_ops;

/* ---- the ring ---- */

static uint32_t slot_index(const struct pipe *p, uint32_t at)
{
	return (at + p->rotate) & (atomic_load_explicit(&p->slot_count, memory_order_relaxed) - 1);
}

static char *slot_page(const struct pipe *p, uint32_t index)
{
	return p->mem + (size_t)index * SLOT_SIZE;
}

/* Tries to put a small write beside the data in the last slot: all of it, or none, as in Linux. */
static ssize_t fill_last_slot(struct pipe *p, struct uio *u, size_t n) REQUIRES(p->lock)
{
	uint32_t i = slot_index(p, atomic_load(&p->head) - 1);
	struct pipe_slot *s = &p->slots[i];
	ssize_t r;

	if (s->packet || (size_t)s->off + s->len + n > SLOT_SIZE)
		return 0;
	r = uio_get(u, slot_page(p, i) + s->off + s->len, n);
	if (r > 0 && (size_t)r < n)
		return -EFAULT;
	if (r > 0)
		s->len = (uint16_t)(s->len + r);
	return r;
}

static char *ring_new(uint32_t count)
{
	const size_t size = (size_t)count * SLOT_SIZE;
	char *mem;

	if (!meter_charge(METER_buffers, size))
		return NULL;
	/* Not zeroed: nothing is read that was not written. */
	mem = mem_realloc(NULL, size);
	if (!mem)
		meter_uncharge(METER_buffers, size);
	return mem;
}

static void ring_free(char *mem, uint32_t count)
{
	if (mem)
		meter_uncharge(METER_buffers, (size_t)count * SLOT_SIZE);
	mem_free(mem);
}

ssize_t pipe_fill_locked(struct pipe *p, struct uio *u, enum pipe_fill how)
{
	const bool packet = how == PIPE_FILL_PACKETS;
	uint32_t count = atomic_load(&p->slot_count);
	size_t done = 0;

	if (!p->mem) {
		p->mem = ring_new(count);
		if (!p->mem)
			return -ENOMEM;
	}
	while (u->resid > 0 && !pipe_is_full(p)) {
		uint32_t head = atomic_load(&p->head), tail = atomic_load(&p->tail);
		uint32_t first = slot_index(p, head);
		/* Free slots in one piece. */
		uint32_t run = MIN(count - (head - tail), count - first);
		size_t room = packet ? SLOT_SIZE : (size_t)run * SLOT_SIZE;
		size_t n = MIN((uint64_t)room, u->resid);
		ssize_t r = uio_get(u, slot_page(p, first), n);

		if (r < 0)
			return done ? (ssize_t)done : r;
		if (r == 0)
			break;
		/* As in Linux, a slot that could not be filled because of a fault is none. */
		if ((size_t)r < n && how != PIPE_FILL_BYTES) {
			r -= r % (ssize_t)SLOT_SIZE;
			if (r == 0)
				return done ? (ssize_t)done : -EFAULT;
		}
		for (size_t left = (size_t)r; left > 0; first++, head++) {
			uint32_t part = (uint32_t)MIN(left, (size_t)SLOT_SIZE);

			p->slots[first] =
				(struct pipe_slot){.len = (uint16_t)part, .packet = packet};
			left -= part;
		}
		atomic_store(&p->head, head);
		done += (size_t)r;
		if ((size_t)r < n)
			break;
	}
	return (ssize_t)done;
}

/* Gives up the first slot. An empty ring starts anew, in the pages that are warm. */
static void drop_slot(struct pipe *p) REQUIRES(p->lock)
{
	uint32_t tail = atomic_load(&p->tail) + 1;

	atomic_store(&p->tail, tail);
	if (tail == atomic_load(&p->head))
		p->rotate = -tail;
}

/* The bytes from the first slot on that lie in one piece, at most @max. */
static size_t run_of_data(struct pipe *p, uint32_t at, size_t max) REQUIRES(p->lock)
{
	uint32_t head = atomic_load(&p->head), count = atomic_load(&p->slot_count);
	uint32_t i = slot_index(p, at);
	const struct pipe_slot *s = &p->slots[i];
	size_t n = s->len;

	while (n < max && !s->packet && s->off + s->len == SLOT_SIZE && at + 1 != head &&
	       i + 1 < count && p->slots[i + 1].off == 0 && !p->slots[i + 1].packet) {
		at++;
		s = &p->slots[++i];
		n += s->len;
	}
	return MIN(n, max);
}

void pipe_consume_locked(struct pipe *p, size_t count)
{
	while (count > 0) {
		struct pipe_slot *s = &p->slots[slot_index(p, atomic_load(&p->tail))];
		size_t n = MIN(count, (size_t)s->len);

		s->off = (uint16_t)(s->off + n);
		s->len = (uint16_t)(s->len - n);
		count -= n;
		if (s->len == 0)
			drop_slot(p);
	}
}

/* Of the first @copied bytes, those of slots that were copied in whole. */
static size_t whole_slots(struct pipe *p, size_t copied) REQUIRES(p->lock)
{
	size_t n = 0;

	for (uint32_t at = atomic_load(&p->tail);; at++) {
		size_t len = p->slots[slot_index(p, at)].len;

		if (n + len > copied)
			return n;
		n += len;
	}
}

ssize_t pipe_drain_locked(struct pipe *p, struct uio *u)
{
	size_t done = 0;

	while (u->resid > 0 && !pipe_is_empty(p)) {
		uint32_t tail = atomic_load(&p->tail), i = slot_index(p, tail);
		struct pipe_slot *s = &p->slots[i];
		bool packet = s->packet;
		size_t n = run_of_data(p, tail, (size_t)MIN(u->resid, (uint64_t)SIZE_MAX));
		ssize_t r = uio_put(u, slot_page(p, i) + s->off, n);

		/* As in Linux, a slot stays whole if a fault came while it was copied. */
		if (r >= 0 && (size_t)r < n) {
			size_t whole = packet ? 0 : whole_slots(p, (size_t)r);

			pipe_consume_locked(p, whole);
			done += whole;
			r = -EFAULT;
		}
		if (r < 0)
			return done ? (ssize_t)done : r;
		done += (size_t)r;
		if (packet) {
			/* What did not fit is lost. */
			drop_slot(p);
			break;
		}
		pipe_consume_locked(p, (size_t)r);
	}
	return (ssize_t)done;
}

size_t pipe_peek_locked(struct pipe *p, size_t count, struct uio_seg *segs, unsigned max,
			unsigned *segs_used)
{
	uint32_t at = atomic_load(&p->tail), head = atomic_load(&p->head);
	size_t done = 0;
	unsigned used = 0;

	while (at != head && done < count && used < max) {
		uint32_t i = slot_index(p, at);
		size_t n = MIN((size_t)p->slots[i].len, count - done);

		segs[used++] = (struct uio_seg){
			.base = (uint64_t)(uintptr_t)(slot_page(p, i) + p->slots[i].off),
			.size = n};
		done += n;
		at++;
	}
	*segs_used = used;
	return done;
}

size_t pipe_bytes_locked(struct pipe *p)
{
	uint32_t head = atomic_load(&p->head);
	size_t n = 0;

	for (uint32_t at = atomic_load(&p->tail); at != head; at++)
		n += p->slots[slot_index(p, at)].len;
	return n;
}

/* ---- waiting ---- */

void pipe_wake_readers(struct pipe *p)
{
	waitq_wake(&p->rd, READ_EVENTS);
}

void pipe_wake_writers(struct pipe *p)
{
	waitq_wake(&p->wr, WRITE_EVENTS);
}

static bool can_read(const struct pipe *p)
{
	return !pipe_is_empty(p) || atomic_load(&p->writers) == 0;
}

static bool can_write(const struct pipe *p)
{
	return !pipe_is_full(p) || atomic_load(&p->readers) == 0;
}

int pipe_wait_data(struct pipe *p, bool nonblock)
{
	if (can_read(p))
		return 0;
	if (nonblock)
		return -EAGAIN;
	return wait_event_exclusive(&p->rd, READ_EVENTS, can_read(p), DEADLINE_NONE, WAIT_INTR);
}

int pipe_wait_room(struct pipe *p, bool nonblock)
{
	if (can_write(p))
		return 0;
	if (nonblock)
		return -EAGAIN;
	return wait_event_exclusive(&p->wr, WRITE_EVENTS, can_write(p), DEADLINE_NONE, WAIT_INTR);
}

static bool nonblocking(const struct file *f)
{
	return atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_NONBLOCK;
}

/* Only FIFOs have times that anyone can see change. */
static void touch(struct file *f, bool read)
{
	if (f->inode->super == anon_super())
		return;
	if (read)
		file_accessed(f);
	else
		inode_touch(f->inode, false, true, true);
}

/* ---- reading and writing ---- */

struct pipe *pipe_of_file(const struct file *f)
{
	return f->ops == &g_pipe_ops ? f->inode->fifo : NULL;
}

bool file_is_pipe(const struct file *f)
{
	return f->ops == &g_pipe_ops;
}

static ssize_t pipe_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct pipe *p = f->inode->fifo;
	bool was_full, waited = false;
	ssize_t r;

	(void)pos;
	if (u->resid == 0)
		return 0;
	for (;;) {
		fmutex_lock(&p->lock);
		was_full = pipe_is_full(p);
		r = pipe_drain_locked(p, u);
		if (r != 0 || atomic_load(&p->writers) == 0)
			break;
		fmutex_unlock(&p->lock);

		int err = pipe_wait_data(p, nonblocking(f));

		if (err)
			return err;
		waited = true;
	}

	bool wake_writer = was_full && !pipe_is_full(p);
	/* A wake-up was spent on us, and there is more. */
	bool wake_next = waited && !pipe_is_empty(p);

	fmutex_unlock(&p->lock);
	if (wake_writer)
		pipe_wake_writers(p);
	if (wake_next)
		pipe_wake_readers(p);
	if (r > 0)
		touch(f, true);
	return r;
}

static ssize_t pipe_write(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *pos)
{
	struct pipe *p = f->inode->fifo;
	bool packet = atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_DIRECT;
	bool wake_reader = false, waited = false;
	ssize_t done = 0, r;

	(void)c;
	(void)pos;
	if (u->resid == 0)
		return 0;
	fmutex_lock(&p->lock);
	if (atomic_load(&p->readers) == 0) {
		fmutex_unlock(&p->lock);
		return -EPIPE;
	}

	/* As in Linux, the odd part of a write may go beside what is there; the rest takes whole
	 * slots. */
	size_t odd = (size_t)(u->resid % SLOT_SIZE);

	if (odd && !packet && !pipe_is_empty(p)) {
		r = fill_last_slot(p, u, odd);
		if (r < 0) {
			fmutex_unlock(&p->lock);
			return r;
		}
		done = r;
	}
	for (;;) {
		bool was_empty = pipe_is_empty(p);

		if (atomic_load(&p->readers) == 0) {
			if (done == 0)
				done = -EPIPE;
			break;
		}

		r = pipe_fill_locked(p, u, packet ? PIPE_FILL_PACKETS : PIPE_FILL_SLOTS);
		if (r > 0) {
			done += r;
			wake_reader |= was_empty;
		}
		if (r < 0) {
			if (done == 0)
				done = r;
			break;
		}
		if (u->resid == 0)
			break;
		/* Stopped short of the room there was: a fault in the user's memory. */
		if (!pipe_is_full(p))
			break;
		if (nonblocking(f)) {
			if (done == 0)
				done = -EAGAIN;
			break;
		}
		fmutex_unlock(&p->lock);
		if (wake_reader) {
			pipe_wake_readers(p);
			wake_reader = false;
		}

		int err = pipe_wait_room(p, false);

		if (err) {
			if (done == 0)
				done = err;
			goto out;
		}
		waited = true;
		fmutex_lock(&p->lock);
	}

	bool wake_next = waited && !pipe_is_full(p);

	fmutex_unlock(&p->lock);
	if (wake_next)
		pipe_wake_writers(p);
out:
	if (done > 0 && (wake_reader || atomic_load(&p->polled)))
		pipe_wake_readers(p);
	if (done > 0)
		touch(f, false);
	return done;
}

static uint32_t pipe_poll(struct file *f, struct poll_table *pt)
{
	struct pipe *p = f->inode->fifo;
	uint32_t ev = 0;

	if (pt && pt->queue)
		atomic_store(&p->polled, true);
	if (f->fmode & FMODE_READ)
		poll_wait(pt, &p->rd);
	if (f->fmode & FMODE_WRITE)
		poll_wait(pt, &p->wr);
	if (f->fmode & FMODE_READ) {
		if (!pipe_is_empty(p))
			ev |= READ_EVENTS;
		/* A FIFO that was opened while nobody wrote has not lost a writer yet. */
		if (atomic_load(&p->writers) == 0 &&
		    (uint32_t)(uintptr_t)f->priv != atomic_load(&p->writer_opens))
			ev |= LX_POLLHUP;
	}
	if (f->fmode & FMODE_WRITE) {
		if (!pipe_is_full(p))
			ev |= WRITE_EVENTS;
		if (atomic_load(&p->readers) == 0)
			ev |= LX_POLLERR;
	}
	return ev;
}

static long pipe_ioctl(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg,
		       const struct umem *um)
{
	struct pipe *p = f->inode->fifo;
	int32_t n;

	(void)c;
	if (cmd != LX_FIONREAD)
		return -ENOTTY;
	fmutex_lock(&p->lock);
	n = (int32_t)pipe_bytes_locked(p);
	fmutex_unlock(&p->lock);
	return umem_copy_out(um, GADDR(arg), &n, sizeof(n));
}

/* ---- life ---- */

static void pipe_free(struct pipe *p)
{
	if (!p)
		return;
	waitq_fini(&p->rd);
	waitq_fini(&p->wr);
	waitq_fini(&p->opens);
	fmutex_fini(&p->lock);
	ring_free(p->mem, atomic_load(&p->slot_count));
	mem_free(p->slots);
	mem_free(p);
}

static struct pipe *pipe_new(void)
{
	struct pipe *p = mem_zalloc(sizeof(*p));

	if (!p)
		return NULL;
	p->slots = mem_calloc(DEFAULT_SLOTS, sizeof(*p->slots));
	if (!p->slots) {
		mem_free(p);
		return NULL;
	}
	atomic_init(&p->slot_count, DEFAULT_SLOTS);
	fmutex_init(&p->lock);
	waitq_init(&p->rd);
	waitq_init(&p->wr);
	waitq_init(&p->opens);
	return p;
}

/* The inode's pipe, made if there is none, counted once more. NULL: no memory. */
static struct pipe *pipe_attach(struct inode *i)
{
	struct pipe *p;

	fmutex_lock(&i->lock);
	if (!i->fifo)
		i->fifo = pipe_new();
	p = i->fifo;
	if (p)
		p->files++;
	fmutex_unlock(&i->lock);
	return p;
}

static void pipe_detach(struct inode *i)
{
	struct pipe *dead = NULL;

	fmutex_lock(&i->lock);
	if (--i->fifo->files == 0) {
		dead = i->fifo;
		i->fifo = NULL;
	}
	fmutex_unlock(&i->lock);
	pipe_free(dead);
}

void pipe_inode_free(struct inode *i)
{
	/* Files hold the inode, and the last of them frees the pipe. */
	BUG_ON(i->fifo);
}

static void add_end(struct pipe *p, unsigned fmode) REQUIRES(p->lock)
{
	if (fmode & FMODE_READ) {
		atomic_fetch_add(&p->reader_opens, 1);
		atomic_fetch_add(&p->readers, 1);
	}
	if (fmode & FMODE_WRITE) {
		atomic_fetch_add(&p->writer_opens, 1);
		atomic_fetch_add(&p->writers, 1);
	}
}

/* Takes an end away and tells the other side. */
static void remove_end(struct pipe *p, unsigned fmode)
{
	bool one_side;

	fmutex_lock(&p->lock);
	if (fmode & FMODE_READ)
		atomic_fetch_sub(&p->readers, 1);
	if (fmode & FMODE_WRITE)
		atomic_fetch_sub(&p->writers, 1);
	one_side = (atomic_load(&p->readers) == 0) != (atomic_load(&p->writers) == 0);
	fmutex_unlock(&p->lock);
	if (one_side) {
		waitq_wake_all(&p->rd, READ_EVENTS | LX_POLLERR | LX_POLLHUP);
		waitq_wake_all(&p->wr, WRITE_EVENTS | LX_POLLERR | LX_POLLHUP);
	}
}

static void pipe_release(struct file *f)
{
	remove_end(f->inode->fifo, f->fmode);
	pipe_detach(f->inode);
}

static const struct file_ops g_pipe_ops = {
	.read = pipe_read,
	.write = pipe_write,
	.poll = pipe_poll,
	.ioctl = pipe_ioctl,
	.release = pipe_release,
	.stream = true,
};

/* Waits until the other side was opened since @seen. */
static int wait_other_side(struct pipe *p, _Atomic uint32_t *opens, uint32_t seen)
{
	return wait_event(&p->opens, atomic_load(opens) != seen, DEADLINE_NONE, WAIT_INTR);
}

int fifo_open(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	unsigned fmode = f->fmode & (FMODE_READ | FMODE_WRITE);
	bool anonymous = i->super == anon_super();
	bool nonblock = nonblocking(f);
	_Atomic uint32_t *wait_for = NULL;
	uintptr_t no_hangup = UINTPTR_MAX;
	uint32_t seen = 0;
	struct pipe *p;
	int r = 0;

	(void)c;
	if (!fmode)
		return -EINVAL;
	p = pipe_attach(i);
	if (!p)
		return -ENOMEM;
	fmutex_lock(&p->lock);
	if (fmode == FMODE_WRITE && !anonymous && nonblock && atomic_load(&p->readers) == 0) {
		fmutex_unlock(&p->lock);
		pipe_detach(i);
		return -ENXIO;
	}
	add_end(p, fmode);
	if (!anonymous && fmode == FMODE_READ && atomic_load(&p->writers) == 0) {
		seen = atomic_load(&p->writer_opens);
		if (nonblock)
			no_hangup = seen;
		else
			wait_for = &p->writer_opens;
	} else if (!anonymous && fmode == FMODE_WRITE && atomic_load(&p->readers) == 0) {
		seen = atomic_load(&p->reader_opens);
		wait_for = &p->reader_opens;
	}
	fmutex_unlock(&p->lock);
	waitq_wake_all(&p->opens, 0);
	if (wait_for)
		r = wait_other_side(p, wait_for, seen);
	if (r) {
		remove_end(p, fmode);
		pipe_detach(i);
		return r;
	}
	f->priv = (void *)no_hangup;
	f->ops = &g_pipe_ops;
	return 0;
}

int pipe_create(struct vfs_ctx *c, uint32_t flags, struct file **rd, struct file **wr)
{
	uint32_t keep = flags & (LX_O_NONBLOCK | LX_O_DIRECT);
	struct inode *i;
	char name[32];
	int r;

	if (flags & ~(uint32_t)(LX_O_NONBLOCK | LX_O_DIRECT | LX_O_CLOEXEC))
		return -EINVAL;
	i = inode_new(anon_super(), LX_S_IFIFO | 0600);
	if (!i)
		return -ENFILE;
	i->uid = c->cred->fsuid;
	i->gid = c->cred->fsgid;
	snprintf(name, sizeof(name), "pipe:[%lu]", (unsigned long)i->ino);
	/* No operations until the pipe is there: a failure must not release what was not opened. */
	*rd = file_new_anon(c, i, name, NULL, FMODE_READ, LX_O_RDONLY | keep, NULL);
	if (!*rd)
		return -ENFILE;
	*wr = file_new(c, &(*rd)->path, NULL, FMODE_WRITE, LX_O_WRONLY | keep);
	r = *wr ? fifo_open(c, i, *rd) : -ENFILE;
	if (r == 0)
		r = fifo_open(c, i, *wr);
	if (r) {
		file_put(*rd);
		if (*wr)
			file_put(*wr);
	}
	return r;
}

/* ---- size ---- */

long pipe_get_size(struct file *f)
{
	struct pipe *p = pipe_of_file(f);

	return p ? (long)atomic_load(&p->slot_count) * SLOT_SIZE : -EBADF;
}

/* Moves what is there into a ring of @count slots. */
static int resize_locked(struct pipe *p, uint32_t count) REQUIRES(p->lock)
{
	uint32_t used = atomic_load(&p->head) - atomic_load(&p->tail);
	struct pipe_slot *slots;
	char *mem = NULL;

	if (count < used)
		return -EBUSY;
	slots = mem_calloc(count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	if (used) {
		mem = ring_new(count);
		if (!mem) {
			mem_free(slots);
			return -EPERM; /* as beyond pipe-user-pages-hard */
		}
	}
	for (uint32_t n = 0; n < used; n++) {
		uint32_t i = slot_index(p, atomic_load(&p->tail) + n);

		slots[n] = p->slots[i];
		memcpy(mem + (size_t)n * SLOT_SIZE + slots[n].off, slot_page(p, i) + slots[n].off,
		       slots[n].len);
	}
	mem_free(p->slots);
	ring_free(p->mem, atomic_load(&p->slot_count));
	p->slots = slots;
	p->mem = mem;
	p->rotate = -atomic_load(&p->tail);
	atomic_store(&p->slot_count, count);
	return 0;
}

long pipe_set_size(struct vfs_ctx *c, struct file *f, uint64_t size)
{
	struct pipe *p = pipe_of_file(f);
	uint32_t count = 1;
	bool room;
	int r;

	if (!p)
		return -EBADF;
	if (size > (UINT64_C(1) << 31))
		return -EINVAL;
	while ((uint64_t)count * SLOT_SIZE < size)
		count *= 2;
	fmutex_lock(&p->lock);
	if (count > atomic_load(&p->slot_count) && (uint64_t)count * SLOT_SIZE > PIPE_MAX_SIZE &&
	    !cred_capable(c->cred, LX_CAP_SYS_RESOURCE)) {
		r = -EPERM;
	} else {
		r = resize_locked(p, count);
	}
	room = !pipe_is_full(p);
	fmutex_unlock(&p->lock);
	if (r)
		return r;
	if (room)
		pipe_wake_writers(p);
	return (long)count * SLOT_SIZE;
}
