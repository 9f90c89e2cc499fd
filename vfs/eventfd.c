/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eventfd: a counter in a descriptor.
 *
 * Locking: lock (RANK_MISC) guards the count; user memory is copied without it. Waiters are woken
 * after it is released.
 *
 * References: eventfd(2).
 */
#include <errno.h>
#include <stdio.h>
#include "vfs/eventfd.h"

#define READ_EVENTS (LX_POLLIN | LX_POLLRDNORM)
#define WRITE_EVENTS (LX_POLLOUT | LX_POLLWRNORM)
/* The count never gets here by a write: it is what a full one would wrap at. */
#define COUNT_MAX UINT64_MAX

struct eventfd {
	struct mutex lock;
	uint64_t count; /* [lock] */
	bool semaphore;
	unsigned id;
	struct waitq wq;
};

static _Atomic unsigned g_next_id;

static bool nonblocking(const struct file *f)
{
	return atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_NONBLOCK;
}

static uint64_t count_now(struct eventfd *e)
{
	uint64_t n;

	mutex_lock(&e->lock);
	n = e->count;
	mutex_unlock(&e->lock);
	return n;
}

/* Takes what a read takes; 0: nothing there. */
static uint64_t take(struct eventfd *e)
{
	uint64_t n;

	mutex_lock(&e->lock);
	n = e->semaphore && e->count ? 1 : e->count;
	e->count -= n;
	mutex_unlock(&e->lock);
	return n;
}

static bool add(struct eventfd *e, uint64_t n)
{
	bool fits;

	mutex_lock(&e->lock);
	fits = COUNT_MAX - e->count > n;
	if (fits)
		e->count += n;
	mutex_unlock(&e->lock);
	return fits;
}

static ssize_t eventfd_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct eventfd *e = f->priv;
	uint64_t n;
	ssize_t r;

	(void)pos;
	if (u->resid < sizeof(n))
		return -EINVAL;
	while ((n = take(e)) == 0) {
		if (nonblocking(f))
			return -EAGAIN;

		int err = wait_event_exclusive(&e->wq, READ_EVENTS, count_now(e) != 0,
					       DEADLINE_NONE, WAIT_INTR);

		if (err)
			return err;
	}
	waitq_wake(&e->wq, WRITE_EVENTS);
	/* Another reader's wake-up may have come to us. */
	if (count_now(e) != 0)
		waitq_wake(&e->wq, READ_EVENTS);
	r = uio_put(u, &n, sizeof(n));
	return r == (ssize_t)sizeof(n) ? r : -EFAULT;
}

/* One value, of one buffer. */
static ssize_t write_one(struct file *f, struct uio *u)
{
	struct eventfd *e = f->priv;
	uint64_t n;

	if (uio_get(u, &n, sizeof(n)) != (ssize_t)sizeof(n))
		return -EFAULT;
	if (n == COUNT_MAX)
		return -EINVAL;
	while (!add(e, n)) {
		if (nonblocking(f))
			return -EAGAIN;

		int err =
			wait_event(&e->wq, COUNT_MAX - count_now(e) > n, DEADLINE_NONE, WAIT_INTR);

		if (err)
			return err;
	}
	waitq_wake(&e->wq, READ_EVENTS);
	return sizeof(n);
}

/* Each buffer of writev is a write of its own, and one of exactly 8 bytes (Linux 6.9). */
static ssize_t eventfd_write(struct vfs_ctx *c UNUSED, struct file *f, struct uio *u,
			     int64_t *pos UNUSED)
{
	ssize_t done = 0;

	do {
		ssize_t r = -EINVAL;

		if (u->count > 0 && u->resid >= sizeof(uint64_t) &&
		    u->segs->size - u->seg_off == sizeof(uint64_t))
			r = write_one(f, u);
		if (r < 0)
			return done ? done : r;
		done += r;
		u->segs++;
		u->count--;
		u->seg_off = 0;
	} while (u->resid > 0);
	return done;
}

static uint32_t eventfd_poll(struct file *f, struct poll_table *pt)
{
	struct eventfd *e = f->priv;
	uint32_t ev = 0;
	uint64_t n;

	poll_wait(pt, &e->wq);
	n = count_now(e);
	if (n > 0)
		ev |= LX_POLLIN;
	if (n == COUNT_MAX)
		ev |= LX_POLLERR;
	if (COUNT_MAX - 1 > n)
		ev |= LX_POLLOUT;
	return ev;
}

static void eventfd_release(struct file *f)
{
	struct eventfd *e = f->priv;

	waitq_wake_all(&e->wq, LX_POLLHUP);
	waitq_fini(&e->wq);
	mutex_fini(&e->lock);
	mem_free(e);
}

static size_t eventfd_show_fdinfo(struct file *f, char *buf, size_t size)
{
	struct eventfd *e = f->priv;
	int n = snprintf(buf, size, "eventfd-count: %16lx\neventfd-id: %u\neventfd-semaphore: %d\n",
			 (unsigned long)count_now(e), e->id, e->semaphore);

	return n < 0 ? 0 : MIN((size_t)n, size);
}

static const struct file_ops g_eventfd_ops = {
	.read = eventfd_read,
	.write = eventfd_write,
	.poll = eventfd_poll,
	.release = eventfd_release,
	.show_fdinfo = eventfd_show_fdinfo,
	.lseek = file_lseek_nowhere,
	.stream = true,
};

int eventfd_create(struct vfs_ctx *c, uint32_t count, unsigned flags, struct file **out)
{
	struct eventfd *e;

	if (flags & ~(LX_EFD_SEMAPHORE | LX_EFD_CLOEXEC | LX_EFD_NONBLOCK))
		return -EINVAL;
	e = mem_zalloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	mutex_init(&e->lock, RANK_MISC);
	waitq_init(&e->wq);
	e->count = count;
	e->semaphore = flags & LX_EFD_SEMAPHORE;
	e->id = atomic_fetch_add(&g_next_id, 1);
	*out = file_new_anon(c, NULL, "anon_inode:[eventfd]", &g_eventfd_ops,
			     FMODE_READ | FMODE_WRITE, LX_O_RDWR | (flags & LX_EFD_NONBLOCK), e);
	if (*out)
		return 0;
	waitq_fini(&e->wq);
	mutex_fini(&e->lock);
	mem_free(e);
	return file_new_error();
}

bool file_is_eventfd(const struct file *f)
{
	return f->ops == &g_eventfd_ops;
}

int eventfd_signal(struct file *f, uint64_t n)
{
	struct eventfd *e = f->priv;

	if (!file_is_eventfd(f))
		return -EINVAL;
	mutex_lock(&e->lock);
	e->count = COUNT_MAX - e->count < n ? COUNT_MAX : e->count + n;
	mutex_unlock(&e->lock);
	waitq_wake(&e->wq, READ_EVENTS);
	return 0;
}
