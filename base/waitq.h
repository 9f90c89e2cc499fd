/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wait queues: who waits for an event on an object, fibers and callbacks (epoll) alike.
 *
 * An entry is woken by calling its fn under the queue's lock; for a fiber that is fiber_wake. Events are
 * poll bits (LX_POLLIN …) or 0 for "whatever you wait for". An entry with a mask is skipped when
 * events != 0 and (events & mask) == 0.
 * Exclusive entries are woken at most one (the first whose fn returns true) per waitq_wake_one().
 *
 * Locking: the queue's own lock, rank RANK_WAITQ; fn may take only locks of higher rank.
 */
#ifndef MOAT_BASE_WAITQ_H
#define MOAT_BASE_WAITQ_H

#include <errno.h>
#include "base/fiber.h"
#include "base/lock.h"
#include "base/queue.h"

struct waitq;

struct waiter {
	TAILQ_ENTRY(waiter) link;
	struct waitq *q;	  /* NULL: not queued. [q->lock] */
	/* Returns true if it took the wake-up (counts for exclusive ones). Runs under q->lock. */
	bool (*fn)(struct waiter *w, uint32_t events);
	struct fiber *fiber;	  /* for waiters of fibers */
	uint32_t mask;		  /* 0: all events */
	bool exclusive;
	_Atomic bool fired;
};

struct waitq {
	struct mutex lock;
	TAILQ_HEAD(, waiter) waiters;
};

void waitq_init(struct waitq *q);
/* Nobody may wait any longer: panics if so. */
void waitq_fini(struct waitq *q);

/* An entry that wakes the calling fiber. */
void waiter_init_fiber(struct waiter *w, uint32_t mask);
/* An entry that calls @fn. */
void waiter_init_fn(struct waiter *w, bool (*fn)(struct waiter *, uint32_t), uint32_t mask);

void waitq_add(struct waitq *q, struct waiter *w);
void waitq_add_exclusive(struct waitq *q, struct waiter *w); /* at the tail */
/* Idempotent; after it returns, fn does not run any more. */
void waitq_del(struct waiter *w);

/* Wakes every entry that matches @events; of exclusive ones only the first that takes it. */
void waitq_wake(struct waitq *q, uint32_t events);
/* Wakes all, exclusive ones too. */
void waitq_wake_all(struct waitq *q, uint32_t events);
bool waitq_has_waiters(struct waitq *q);

/* Sleeps on @q until @cond is true. Evaluates to 0, -ERESTARTSYS or -ETIMEDOUT. @cond is evaluated
 * without the queue's lock, many times; it may lock and unlock short locks. */
#define wait_event(q, cond, deadline_ns, flags) wait_event_mask_(q, 0, cond, deadline_ns, flags)

#define wait_event_mask_(q_, mask_, cond_, deadline_, flags_)                                      \
	({                                                                                         \
		int we_r_ = 0;                                                                     \
		if (!(cond_)) {                                                                    \
			struct waiter we_w_;                                                       \
			waiter_init_fiber(&we_w_, mask_);                                          \
			waitq_add((q_), &we_w_);                                                   \
			while (!(cond_)) {                                                         \
				we_r_ = fiber_wait((deadline_), (flags_));                         \
				if (we_r_ != 0) {                                                  \
					if (cond_)                                                 \
						we_r_ = 0;                                         \
					break;                                                     \
				}                                                                  \
			}                                                                          \
			waitq_del(&we_w_);                                                         \
		}                                                                                  \
		we_r_;                                                                             \
	})

#endif
