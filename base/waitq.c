/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wait queues. See base/waitq.h.
 *
 * Theory of operation: a list under a lock, exclusive entries at its tail. A woken entry stays
 * queued until its owner takes it out, so a fiber that loops on its condition misses nothing. An
 * entry's q is written by its owner only, who therefore may read it without the lock.
 */
#include "base/err.h"
#include "base/fiber_internal.h"
#include "base/waitq.h"

void waitq_init(struct waitq *q)
{
	mutex_init(&q->lock, RANK_WAITQ);
	TAILQ_INIT(&q->waiters);
}

void waitq_fini(struct waitq *q)
{
	BUG_ON(!TAILQ_EMPTY(&q->waiters));
	mutex_fini(&q->lock);
}

static bool waiter_wake_fiber(struct waiter *w, uint32_t events)
{
	(void)events;
	/* An exclusive entry takes one wake-up; the next one is for the next in line. */
	bool first = !atomic_exchange(&w->fired, true);

	fiber_wake(w->fiber);
	return first;
}

void waiter_init_fiber(struct waiter *w, uint32_t mask)
{
	*w = (struct waiter){.fn = waiter_wake_fiber, .fiber = fiber_current(), .mask = mask};
}

void waiter_init_fn(struct waiter *w, bool (*fn)(struct waiter *, uint32_t), uint32_t mask)
{
	*w = (struct waiter){.fn = fn, .mask = mask};
}

void waiter_rearm(struct waiter *w)
{
	atomic_store(&w->fired, false);
}

bool waiter_fired(const struct waiter *w)
{
	return atomic_load(&w->fired);
}

static void waitq_insert(struct waitq *q, struct waiter *w)
{
	mutex_lock(&q->lock);
	BUG_ON(w->q);
	w->q = q;
	/* Exclusive ones queue up; of the others the latest is woken first, as in Linux, where
	 * epoll's order of ready files shows it. */
	if (w->exclusive)
		TAILQ_INSERT_TAIL(&q->waiters, w, link);
	else
		TAILQ_INSERT_HEAD(&q->waiters, w, link);
	mutex_unlock(&q->lock);
}

void waitq_add(struct waitq *q, struct waiter *w)
{
	w->exclusive = false;
	waitq_insert(q, w);
}

void waitq_add_exclusive(struct waitq *q, struct waiter *w)
{
	w->exclusive = true;
	waitq_insert(q, w);
}

void waitq_del(struct waiter *w)
{
	struct waitq *q = w->q;

	if (!q)
		return;
	mutex_lock(&q->lock);
	TAILQ_REMOVE(&q->waiters, w, link);
	w->q = NULL;
	mutex_unlock(&q->lock);
}

static bool waitq_wake_some(struct waitq *q, uint32_t events, bool all)
{
	bool taken = false, any = false;
	struct waiter *w;

	mutex_lock(&q->lock);
	TAILQ_FOREACH (w, &q->waiters, link) {
		if (events && w->mask && !(events & w->mask))
			continue;
		if (w->exclusive && taken && !all)
			continue;
		if (w->fn(w, events)) {
			any = true;
			taken |= w->exclusive;
		}
	}
	mutex_unlock(&q->lock);
	return any;
}

bool waitq_wake(struct waitq *q, uint32_t events)
{
	return waitq_wake_some(q, events, false);
}

void waitq_wake_all(struct waitq *q, uint32_t events)
{
	(void)waitq_wake_some(q, events, true);
}

bool waitq_has_waiters(struct waitq *q)
{
	bool any;

	mutex_lock(&q->lock);
	any = !TAILQ_EMPTY(&q->waiters);
	mutex_unlock(&q->lock);
	return any;
}
