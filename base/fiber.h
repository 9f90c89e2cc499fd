/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers on worker threads.
 *
 * Theory of operation: a fiber is a kernel stack and saved registers. It belongs to one worker (its
 * *home*) and runs only there; the home may be changed while it is not running or by itself. A
 * worker runs its ready fibers in FIFO order; with none left it calls the idle hook, which for the
 * ptrace platform is "wait for a tracee", else "sleep until kicked".
 *
 * Sleeping is by token. Every fiber has one wake token. fiber_wake() sets it and makes the fiber
 * ready if it sleeps; fiber_wait() consumes it or sleeps until it is set. So the pattern "publish
 * myself on a queue; test the condition; fiber_wait(); test again" loses no wake-up, and a spurious
 * return is always possible: callers loop on their condition. base/waitq.h packages this pattern.
 *
 * Interrupts: fiber_interrupt() sets a sticky flag (that a signal is pending, say) and wakes; a
 * wait with WAIT_INTR returns -ERESTARTSYS while the flag is set. The owner clears it. Killable
 * waits (WAIT_KILL) react only to fiber_kill()'s flag.
 *
 * Off the workers (start-up, tests, other host threads) fiber_wait and everything on top of it
 * (wait queues, fiber locks) work as well: the host thread sleeps. Not in a worker's own hooks.
 *
 * A deadline needs a clock: clock_start() comes first. Who wakes a fiber must know that it exists
 * still: a lock that the fiber takes before it ends does that (the wait queue's, say).
 *
 * Locking: fiber_wake, fiber_interrupt may be called from any host thread with any lock below
 * RANK_SCHED held.
 */
#ifndef MOAT_BASE_FIBER_H
#define MOAT_BASE_FIBER_H

#include "base/types.h"

struct fiber;
struct worker;

#define DEADLINE_NONE UINT64_MAX

enum wait_flags {
	WAIT_UNINTR = 0,
	WAIT_INTR = 1, /* returns -ERESTARTSYS on fiber_interrupt() or fiber_kill() */
	WAIT_KILL = 2, /* returns -ERESTARTSYS on fiber_kill() only */
};

/* What a worker does with nothing to run. All called on the worker's own thread but kick. */
struct worker_ops {
	/* Once, before the first fiber. @index: 0 … count-1. */
	void (*start)(struct worker *w, unsigned index);
	/* Blocks until an event of the platform was handled or kick() was called. Returns at once
	 * if a kick came since the last idle. */
	void (*idle)(struct worker *w);
	/* Between fibers, every now and then, with fibers still ready: handle events, do not block.
	 * May be NULL. */
	void (*poll)(struct worker *w);
	/* From any thread: make idle() of @w return. */
	void (*kick)(struct worker *w);
	/* Might nothing of the platform's need @w before its current fiber has gone on? May be
	 * NULL: something might. */
	bool (*quiet)(struct worker *w);
};

#define WORKERS_MAX 64
/* Starts @count workers (>= 1). @ops NULL: the built-in idle (a futex). 0 or -errno. */
int workers_start(unsigned count, const struct worker_ops *ops) MUST_USE;
/* Waits until no fiber is left, then ends and frees the workers. Not from a fiber. */
void workers_stop(void);
/* From any thread. Whom these tell of stays where it is when workers_stop() has ended it: to kick
 * it then does nothing, and its data are the platform's to free. */
unsigned worker_count(void);
struct worker *worker_at(unsigned index);
unsigned worker_index(const struct worker *w);
struct worker *worker_self(void); /* NULL off the workers */
/* Has the calling fiber's worker other fibers to run? */
bool worker_wanted(void);
void **worker_data(struct worker *w); /* one pointer for the platform */
/* Work that nobody waits for, soon, on this worker: when the platform has answered whom the calling
 * fiber serves, or the fiber leaves its stack. At once off the workers, if other work waits
 * already, and where host calls are charged to who causes them. It must not sleep. */
void worker_later(void (*work)(void));
/* Now is a good time for it. No lock is held. */
void worker_do_later(void);

/* Creates a fiber that runs fn(arg) on @home (NULL: the least loaded worker) and frees itself when
 * fn returns. Not yet ready: fiber_start does that. NULL: no memory. */
struct fiber *fiber_new(void (*fn)(void *), void *arg, struct worker *home,
			const char *name) MUST_USE;
void fiber_start(struct fiber *f);
/* Frees a fiber that was never started. */
void fiber_discard(struct fiber *f);
struct fiber *fiber_self(void); /* NULL off the fibers */
/* The *moment* is a number for the time since the fiber last slept, or began to serve another call:
 * what was found out in a moment still holds in it, for all that its caller can tell. Numbers are
 * not used twice; 0, off the fibers, is none. */
uint64_t fiber_moment(void);
void fiber_moment_begin(void);
/* A pointer of the owner's (the task). */
void fiber_set_data(struct fiber *f, void *data);
void *fiber_data(const struct fiber *f);
/* Another one, of the platform's: what its fiber runs. */
void fiber_set_local(struct fiber *f, void *local);
void *fiber_local(const struct fiber *f);
const char *fiber_name(const struct fiber *f);
struct worker *fiber_home(const struct fiber *f);
/* Moves the calling fiber to @to; returns running there. */
void fiber_migrate(struct worker *to);

/* Sleeps until woken, interrupted as @flags say, or @deadline_ns of the monotonic injected clock
 * (DEADLINE_NONE: never). 0 woken (maybe spuriously), -ETIMEDOUT, -ERESTARTSYS. A pending token is
 * consumed first, then interrupt, then deadline are looked at. */
int fiber_wait(uint64_t deadline_ns, enum wait_flags flags);
void fiber_wake(struct fiber *f);
/* Gives the worker to other ready fibers. */
void fiber_yield(void);
/* Sleeps on until @deadline_ns whoever wakes it: 0, or -ERESTARTSYS if interrupted. */
int fiber_sleep_until(uint64_t deadline_ns, enum wait_flags flags);

void fiber_interrupt(struct fiber *f);
void fiber_clear_interrupt(struct fiber *f);
bool fiber_interrupted(const struct fiber *f);
void fiber_kill(struct fiber *f);
bool fiber_killed(const struct fiber *f);

/* Runs fn(arg) on a helper host thread while the fiber sleeps (uninterruptible); returns its
 * result. For host calls that may block for long (fsync, read of a slow disk). Off a fiber: runs it
 * directly. */
long blocking_call(long (*fn)(void *), void *arg);
/* As blocking_call, for calls that take about as long as the one before: while they are brief and
 * nobody else needs the worker, it waits for the host itself, which spares two wake-ups. */
long blocking_call_brief(long (*fn)(void *), void *arg);

/* What the calling fiber has cost since its last fiber_account(). */
struct fiber_span {
	unsigned host_calls; /* that it made */
	bool parked;         /* it slept */
	bool worker_slept;   /* its worker slept on the host, and woke up to run it */
};

/* The host calls that the calling fiber makes from here on are for @account (base/hostcall.h), on
 * whatever worker or helper thread. Returns what was until now. Only while accounting is on. */
struct fiber_span fiber_account(unsigned account);

/*
 * Turns: for runs that repeat (see base/fiber_turn.c). Then one fiber at a time has the turn, from
 * when it is run until it waits for another's doing, gives way or ends; what it waits for of the
 * host (a platform that runs guest code, a host call) is part of its turn. With virtual time, time
 * moves on when nobody has the turn or wants it, and a little with each step.
 */
struct fiber_turns {
	bool seeded; /* who comes next, and how long a turn is, follow from the seed; else in order
		      */
	uint64_t seed;
	/* The fiber with this data (fiber_set_data) has the turn and makes no step; @ticks of
	 * TURN_TICK_NS of the host's time so far. On the worker's thread. True: it was told to make
	 * one, which then ends its turn. */
	bool (*overdue)(void *data, unsigned ticks, bool others);
};
#define TURN_TICK_NS (250 * NSEC_PER_MSEC)
/* What a step costs, in virtual time. */
#define TURN_STEP_NS (1 * NSEC_PER_USEC)
/* What an overdue turn costs if nobody waits for its end but timers. */
#define TURN_OVERDUE_NS (10 * NSEC_PER_SEC)
/* Before clock_start() and workers_start(1, …). NULL: without turns again (tests). */
void fiber_turns_start(const struct fiber_turns *turns);
extern bool g_fiber_turns;
/* The calling fiber has made a step: its turn may end, virtual time passes. No lock held. */
void fiber_turn_step(void);
/* It was interrupted, maybe because its turn is overdue: then it ends. */
void fiber_turn_interrupted(void);
/* In between, the calling fiber waits for the host. Nests. */
void fiber_turn_keep_on(void);
void fiber_turn_unkeep_on(void);
static inline void fiber_turn_keep(void)
{
	if (__builtin_expect(g_fiber_turns, 0))
		fiber_turn_keep_on();
}
static inline void fiber_turn_unkeep(void)
{
	if (__builtin_expect(g_fiber_turns, 0))
		fiber_turn_unkeep_on();
}
/* In between nobody is given the turn. Any thread. */
void fiber_turns_stop(void);
void fiber_turns_resume(void);

/* How many fibers are not waiting, plus the activities below: for tests and virtual time, which
 * advances while this is 0. */
unsigned fibers_running(void);
/* Something is at work though its fiber waits: guest code that a platform runs, a host call on its
 * way. Virtual time stands still between the two calls. Counted; any thread. */
void fiber_activity_begin(void);
void fiber_activity_end(void);

#endif
