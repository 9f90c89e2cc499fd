/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wait queues: who waits for an event on an object, fibers and callbacks (epoll) alike.
 *
 * An entry is woken by calling its fn under the queue's lock; for a fiber that is fiber_wake.
 * Events are poll bits (LX_POLLIN …) or 0 for "whatever you wait for". An entry with a mask is
 * skipped when events != 0 and (events & mask) == 0. Of the exclusive entries one is woken per
 * waitq_wake(): the first whose fn returns true. A fiber's entry returns true once, until it is
 * armed again, so two wake-ups in a row reach two fibers.
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
	struct waitq *q; /* NULL: not queued. [q->lock] */
	/* Returns true if it took the wake-up (counts for exclusive ones). Runs under q->lock. */
	bool (*fn)(struct waiter *w, uint32_t events);
	struct fiber *fiber; /* for waiters of fibers */
	uint32_t mask;       /* 0: all events */
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

void waitq_add(struct waitq *q, struct waiter *w);           /* at the head */
void waitq_add_exclusive(struct waitq *q, struct waiter *w); /* at the tail */
/* Idempotent; after it returns, fn does not run any more. */
void waitq_del(struct waiter *w);

/* Wakes every entry that matches @events; of exclusive ones only the first that takes it. True: an
 * entry took it, so it was not waking already. */
bool waitq_wake(struct waitq *q, uint32_t events);
/* Wakes all, exclusive ones too. */
void waitq_wake_all(struct waitq *q, uint32_t events);
bool waitq_has_waiters(struct waitq *q);

/* For loops of one's own with an exclusive entry: an entry counts as woken (and wakes no more for
 * exclusive purposes) until it is armed again. Arm it if it was fired before the condition was
 * looked at in vain: armed sooner, who is about to leave with what woke him would take the next
 * wake-up, too, and nobody else would get it. Who gives up waiting while fired passes the wake-up
 * on: waitq_wake() after waitq_del(). */
void waiter_rearm(struct waiter *w);
bool waiter_fired(const struct waiter *w);

/* Sleeps on @q until @cond is true. Evaluates to 0, -ERESTARTSYS or -ETIMEDOUT. @cond is evaluated
 * without the queue's lock, many times; it may lock and unlock short locks. */
#define wait_event(q, cond, deadline_ns, flags) wait_event_(q, 0, cond, deadline_ns, flags, false)
/* As it, woken only by events that match @mask. */
#define wait_event_mask(q, mask, cond, deadline_ns, flags) \
	wait_event_(q, mask, cond, deadline_ns, flags, false)
/* As it, for conditions that one waiter uses up (a byte to read): each wake-up is for one of those
 * who wait so, and is passed on if this one gives up. */
#define wait_event_exclusive(q, mask, cond, deadline_ns, flags) \
	wait_event_(q, mask, cond, deadline_ns, flags, true)

#define wait_event_(q_, mask_, cond_, deadline_, flags_, exclusive_)            \
	__extension__({                                                         \
		int we_r_ = 0;                                                  \
		if (!(cond_)) {                                                 \
			struct waitq *we_q_ = (q_);                             \
			struct waiter we_w_;                                    \
			bool we_fired_ = false;                                 \
			waiter_init_fiber(&we_w_, (mask_));                     \
			if (exclusive_)                                         \
				waitq_add_exclusive(we_q_, &we_w_);             \
			else                                                    \
				waitq_add(we_q_, &we_w_);                       \
			while (!(cond_)) {                                      \
				if ((exclusive_) && we_fired_)                  \
					waiter_rearm(&we_w_);                   \
				we_r_ = fiber_wait((deadline_), (flags_));      \
				if (we_r_ != 0) {                               \
					if (cond_)                              \
						we_r_ = 0;                      \
					break;                                  \
				}                                               \
				we_fired_ = waiter_fired(&we_w_);               \
			}                                                       \
			waitq_del(&we_w_);                                      \
			if ((exclusive_) && we_r_ != 0 && waiter_fired(&we_w_)) \
				waitq_wake(we_q_, (mask_));                     \
		}                                                               \
		we_r_;                                                          \
	})

#endif
