/* SPDX-License-Identifier: Apache-2.0 */
/*
 * O_ASYNC: signal-driven I/O on any file that can be polled.
 *
 * Theory of operation: an armed file hangs entries of its own on the wait queues that its poll
 * names, as epoll does. A wake-up records the events and arms a timer that is due at once, since
 * the queue's lock is held and sending a signal takes locks that come before it; the timer's
 * callback, which holds none, calls the hook. So no file type needs to know of O_ASYNC.
 *
 * Locking: file->lock guards file->fasync_state. The state is made and freed outside of it.
 *
 * References: fcntl(2), F_SETFL O_ASYNC, F_SETOWN, F_SETSIG.
 */
#include <errno.h>
#include "base/clock.h"
#include "base/lx_fcntl.h"
#include "vfs/fasync.h"

/* Files have at most two queues (a pipe opened for both ways); a little more for the future. */
#define QUEUES_MAX 4u
#define ALL_EVENTS (LX_POLLIN | LX_POLLOUT | LX_POLLPRI | LX_POLLERR | LX_POLLHUP)

struct fasync;
struct fasync_entry {
	struct waiter w;
	struct fasync *owner;
};

struct fasync {
	struct poll_table pt;
	struct file *file; /* borrowed: the file frees us */
	struct timer timer;
	_Atomic uint32_t events; /* not yet told */
	unsigned count;
	struct fasync_entry entry[QUEUES_MAX];
};

static void fasync_tell(struct timer *t)
{
	static const uint32_t bands[] = {
		LX_POLLERR,
		LX_POLLHUP,
		LX_POLLPRI | LX_POLLRDBAND,
		LX_POLLIN | LX_POLLRDNORM,
		LX_POLLOUT | LX_POLLWRNORM | LX_POLLWRBAND,
	};
	struct fasync *a = container_of(t, struct fasync, timer);
	uint32_t ev = atomic_exchange(&a->events, 0);

	if (!g_vfs_hooks->send_sigio)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(bands); i++) {
		if (ev & bands[i]) {
			g_vfs_hooks->send_sigio(a->file, bands[i]);
			return;
		}
	}
}

static bool fasync_wake(struct waiter *w, uint32_t events)
{
	struct fasync *a = container_of(w, struct fasync_entry, w)->owner;

	atomic_fetch_or(&a->events, events ? events : LX_POLLIN);
	timer_arm(&a->timer, clock_mono_ns());
	return false;
}

static void fasync_queue(struct poll_table *pt, struct waitq *q)
{
	struct fasync *a = container_of(pt, struct fasync, pt);
	struct fasync_entry *e;

	if (a->count == QUEUES_MAX)
		return;
	e = &a->entry[a->count++];
	e->owner = a;
	waiter_init_fn(&e->w, fasync_wake, ALL_EVENTS);
	waitq_add(q, &e->w);
}

static void fasync_free(struct fasync *a)
{
	if (!a)
		return;
	for (unsigned i = 0; i < a->count; i++)
		waitq_del(&a->entry[i].w);
	timer_cancel_sync(&a->timer);
	mem_free(a);
}

/* Puts @a in place of what is there, which is returned. */
static struct fasync *fasync_swap(struct file *f, struct fasync *a)
{
	struct fasync *old;

	mutex_lock(&f->lock);
	old = f->fasync_state;
	f->fasync_state = a;
	atomic_store(&f->fasync, a != NULL);
	if (a)
		atomic_fetch_or(&f->flags, LX_O_ASYNC);
	else
		atomic_fetch_and(&f->flags, ~(uint32_t)LX_O_ASYNC);
	mutex_unlock(&f->lock);
	return old;
}

int fasync_set(struct file *f, bool on)
{
	struct fasync *a = NULL;

	if (on == (atomic_load(&f->fasync) != 0))
		return 0;
	if (on) {
		a = mem_zalloc(sizeof(*a));
		if (!a)
			return -ENOMEM;
		a->file = f;
		a->pt.queue = fasync_queue;
		a->pt.events = ALL_EVENTS;
		timer_init(&a->timer, fasync_tell);
		/* Events from here on count, so that none between is lost. */
		(void)vfs_poll(f, &a->pt);
	}
	fasync_free(fasync_swap(f, a));
	return 0;
}

void fasync_release(struct file *f)
{
	if (atomic_load(&f->fasync))
		fasync_free(fasync_swap(f, NULL));
}
