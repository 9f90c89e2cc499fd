/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fibers, fiber locks, wait queues and timers know of each other. Private to base/.
 */
#ifndef MOAT_BASE_FIBER_INTERNAL_H
#define MOAT_BASE_FIBER_INTERNAL_H

#include "base/clock.h"
#include "base/fiber.h"
#include "base/queue.h"
#include "base/types.h"

/* Bits of fiber.state. */
enum {
	FIBER_TOKEN = 1,   /* woken, and has not seen it */
	FIBER_TIMEOUT = 2, /* the deadline timer fired: look at the clock */
	FIBER_ASLEEP = 4,  /* in no run queue; whoever clears this bit puts it into one */
	FIBER_INTR = 8,
	FIBER_KILL = 16,
};

struct fiber {
	_Atomic uint32_t state;
	bool is_thread;  /* stands for a host thread off the workers */
	bool timer_used; /* [the fiber] */

	void *sp; /* saved while it does not run */
	void (*fn)(void *);
	void *arg;
	void *data, *local;
	void *stack; /* lowest usable byte */
	size_t stack_size;
	_Atomic(struct worker *) home;
	/* In one of two lists: the home's inbox (next_inbox), then its run queue. */
	struct fiber *next_inbox;
	STAILQ_ENTRY(fiber) link;

	/* Deadlines; see "Deadlines" in fiber.c. */
	struct timer timer;
	_Atomic uint64_t wait_deadline; /* of the wait now going on; DEADLINE_NONE */
	_Atomic uint64_t armed;         /* the timer fires at this time or earlier; DEADLINE_NONE */

	uint64_t moment; /* fiber_moment() */

	unsigned turn_kept;                /* fiber_turn_keep() minus unkeep. [the fiber] */
	_Atomic uint64_t host_deadline_ns; /* of a wait while it is kept; DEADLINE_NONE */

	/* Who pays for its host calls; see fiber_account(). [the fiber; its worker] */
	unsigned account;
	struct fiber_span span;

	void *asan_fake_stack;
	void *tsan_fiber;
	char name[16];
};

STAILQ_HEAD(fiber_list, fiber);

/* fiber_turn.c; all but the first two on the worker's thread. */
int turns_begin(struct worker *w, void (*kick)(struct worker *)) MUST_USE;
void turns_end(void);
/* Takes the fiber that runs next out of @ready, and gives it the turn. NULL: nobody may. */
struct fiber *turn_pick(struct fiber_list *ready);
/* Nobody can run. True: look again. */
bool turn_idle(struct fiber_list *ready);
/* @f waits, gives way or ends: unless it keeps it, others may have the turn. */
void turn_give(struct fiber *f);
/* Makes it ready because of a deadline. */
void fiber_time_out(struct fiber *f);
/* Are others of this worker ready? */
bool worker_has_ready(void);
/* Would nobody miss the calling fiber's worker, if it waited for the host? Worth a guess only. */
bool worker_is_quiet(void);

/* The fiber that runs, or the stand-in for this host thread. Never NULL. */
struct fiber *fiber_current(void);

/* Debug builds panic if this host thread holds a short mutex. */
#ifdef MOAT_DEBUG
void lock_check_none_held(void);
#else
static inline void lock_check_none_held(void)
{
}
#endif

/* The last running fiber went to sleep: virtual time may advance. */
void clock_all_asleep(void);
/* As timer_arm, but an earlier deadline that is armed already stays. */
void timer_arm_earlier(struct timer *t, uint64_t deadline_ns);

/* Ends the helper threads of blocking_call. */
void blocking_stop(void);

#endif
