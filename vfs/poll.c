/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for many files at once: poll(2), select(2), and what else asks files for readiness.
 *
 * Theory of operation: first all are just asked; in a busy program one is ready. Else the next pass
 * asks each file with a table that hangs an entry of ours on each of its wait queues, until one
 * answers ready; then we sleep and ask again, without hanging up anything more. As the entry hangs
 * before the file's state is read, no wake-up is lost. Up to INLINE_WAITERS entries live on the
 * stack, so that the usual poll allocates nothing.
 *
 * References: poll(2).
 */
#include <errno.h>
#include "vfs/vfs.h"

#define INLINE_WAITERS 64u
#define BLOCK_WAITERS 256u
#define DEFAULT_EVENTS (LX_POLLIN | LX_POLLOUT | LX_POLLRDNORM | LX_POLLWRNORM)
#define ALWAYS_EVENTS (LX_POLLERR | LX_POLLHUP)

struct waiter_block {
	struct waiter_block *next;
	unsigned count;
	struct waiter w[BLOCK_WAITERS];
};

struct poll_set {
	struct poll_table pt; /* first: container of the callback's argument */
	unsigned count;       /* used of w */
	bool failed;          /* no memory for an entry */
	struct waiter_block *blocks;
	struct waiter w[INLINE_WAITERS];
};

uint32_t vfs_poll(struct file *f, struct poll_table *pt)
{
	if (unlikely(!f->ops->poll))
		return DEFAULT_EVENTS;
	return f->ops->poll(f, pt);
}

static struct waiter *poll_set_waiter(struct poll_set *s)
{
	if (likely(s->count < INLINE_WAITERS))
		return &s->w[s->count++];
	if (!s->blocks || s->blocks->count == BLOCK_WAITERS) {
		struct waiter_block *b = mem_realloc(NULL, sizeof(*b));

		if (!b) {
			s->failed = true;
			return NULL;
		}
		b->count = 0;
		b->next = s->blocks;
		s->blocks = b;
	}
	return &s->blocks->w[s->blocks->count++];
}

static void poll_set_queue(struct poll_table *pt, struct waitq *q)
{
	struct poll_set *s = container_of(pt, struct poll_set, pt);
	struct waiter *w = poll_set_waiter(s);

	if (!w)
		return;
	waiter_init_fiber(w, pt->events);
	waitq_add(q, w);
}

static void poll_set_fini(struct poll_set *s)
{
	struct waiter_block *b;

	for (unsigned i = 0; i < s->count; i++)
		waitq_del(&s->w[i]);
	while ((b = s->blocks) != NULL) {
		for (unsigned i = 0; i < b->count; i++)
			waitq_del(&b->w[i]);
		s->blocks = b->next;
		mem_free(b);
	}
}

/* One pass over all. @s NULL: only ask. */
static int poll_pass(struct pollreq *reqs, unsigned count, struct poll_set *s)
{
	int ready = 0;

	for (unsigned i = 0; i < count; i++) {
		struct pollreq *r = &reqs[i];

		r->revents = 0;
		if (!r->file)
			continue;

		uint32_t wanted = r->events | (r->exact ? 0 : ALWAYS_EVENTS);
		struct poll_table *pt = s && !s->failed ? &s->pt : NULL;

		if (pt) {
			pt->events = wanted;
			/* With one ready there will be no sleep, so no more entries are needed. */
			if (ready)
				pt->queue = NULL;
		}
		r->revents = vfs_poll(r->file, pt) & wanted;
		if (r->revents)
			ready++;
	}
	return ready;
}

int vfs_poll_many(struct pollreq *reqs, unsigned count, uint64_t deadline_ns)
{
	struct poll_set s;
	int ready, r;

	/* Without a wait there is nothing to hang up. */
	ready = poll_pass(reqs, count, NULL);
	if (ready != 0 || deadline_ns == 0)
		return ready;
	s.pt.queue = poll_set_queue;
	s.count = 0;
	s.failed = false;
	s.blocks = NULL;
	ready = poll_pass(reqs, count, &s);
	while (ready == 0) {
		if (s.failed) {
			ready = -ENOMEM;
			break;
		}
		r = fiber_wait(deadline_ns, WAIT_INTR);
		ready = poll_pass(reqs, count, NULL);
		if (ready == 0 && r != 0) {
			ready = r == -ETIMEDOUT ? 0 : r;
			break;
		}
	}
	poll_set_fini(&s);
	return ready;
}
