/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks.
 *
 * struct mutex: a short lock, for host threads. Never held over a fiber switch (fiber_wait checks
 *   that in debug builds), never over a host call that may block. Neither fair nor recursive.
 * struct cond: what host threads wait for under a mutex. Fibers have wait queues instead.
 * struct fmutex: a long lock, for fibers. The waiter's fiber sleeps, not its worker. Not
 * interruptible, FIFO, not recursive. The one who locked it unlocks it. A host thread off the
 * workers may use it too (start-up, tests); that thread then sleeps. struct frwlock: the same with
 * readers and one writer; a waiting writer holds off new readers.
 *
 * Lock order: each folder's main header lists its own; between layers, long before short, and
 * sentry before vfs/netstack before platform before base. Ranks are checked in debug builds (m=dbg,
 * asan, tsan): a mutex may be taken only if its rank is greater than that of every mutex the thread
 * holds already; rank 0 is unchecked.
 */
#ifndef MOAT_BASE_LOCK_H
#define MOAT_BASE_LOCK_H

#include "base/queue.h"
#include "base/types.h"

enum lock_rank {
	RANK_NONE = 0,
	RANK_WATCH = 5,     /* sentry/meter_watch.c: what all processes use */
	RANK_TASKLIST = 10, /* g_kernel.tasklist: process tree, groups, sessions, signals */
	RANK_FUTEX = 15,
	RANK_FDTABLE = 20,
	RANK_FILE = 25,   /* small state of one open file */
	RANK_DCACHE = 30, /* names: dentries and mounts of a name space */
	RANK_INODE = 35,
	RANK_SOCKET = 40,
	RANK_PIPE = 45,
	RANK_EPOLL = 50,
	RANK_TTY = 55,
	RANK_MISC = 70,  /* leaf locks of one module */
	RANK_WAITQ = 80, /* a wait queue's lock: wake callbacks run under it */
	RANK_READY = 85, /* epoll's ready list, taken from wake callbacks */
	RANK_SIGHAND = 88,
	RANK_TIMER = 90,
	RANK_FLOCK = 92, /* inside fmutex and frwlock */
	RANK_SCHED = 95, /* run queues */
	RANK_LEAF = 100,
};

/* Free, or held with nobody waiting, it is taken and given back by one atomic operation. */
struct CAPABILITY("mutex") mutex {
	_Atomic uint32_t state; /* MUTEX_*; a futex */
	uint8_t rank;
};

#define MUTEX_FREE 0u
#define MUTEX_HELD 1u
#define MUTEX_WAITED 2u /* held, and somebody may sleep until it is given back */

#define MUTEX_INIT(r)       \
	{                   \
		.rank = (r) \
	}

#ifdef MOAT_DEBUG
void mutex_check_rank(const struct mutex *m);
void mutex_note_held(const struct mutex *m);
void mutex_note_free(const struct mutex *m);
#else
static inline void mutex_check_rank(const struct mutex *m)
{
	(void)m;
}
static inline void mutex_note_held(const struct mutex *m)
{
	(void)m;
}
static inline void mutex_note_free(const struct mutex *m)
{
	(void)m;
}
#endif

/* For the functions below alone. */
COLD void mutex_lock_slow(struct mutex *m);
COLD void mutex_wake(struct mutex *m);

static inline bool mutex_take(struct mutex *m)
{
	uint32_t free = MUTEX_FREE;

	return atomic_compare_exchange_strong_explicit(&m->state, &free, MUTEX_HELD,
						       memory_order_acquire, memory_order_relaxed);
}

void mutex_init(struct mutex *m, enum lock_rank rank);
void mutex_fini(struct mutex *m);

static inline void mutex_lock(struct mutex *m) ACQUIRE(*m) NO_TSA
{
	mutex_check_rank(m);
	if (unlikely(!mutex_take(m)))
		mutex_lock_slow(m);
	mutex_note_held(m);
}

static inline bool mutex_trylock(struct mutex *m) TRY_ACQUIRE(true, *m) NO_TSA
{
	/* No check of the rank: it does not wait, so it cannot deadlock. */
	if (!mutex_take(m))
		return false;
	mutex_note_held(m);
	return true;
}

static inline void mutex_unlock(struct mutex *m) RELEASE(*m) NO_TSA
{
	mutex_note_free(m);
	if (unlikely(atomic_exchange_explicit(&m->state, MUTEX_FREE, memory_order_release) ==
		     MUTEX_WAITED))
		mutex_wake(m);
}

/* Two of the same rank, in the order of their addresses; they may be the same one. */
void mutex_lock_pair(struct mutex *a, struct mutex *b) ACQUIRE(*a, *b);
void mutex_unlock_pair(struct mutex *a, struct mutex *b) RELEASE(*a, *b);

/* All zero is one that nobody waits for. All its users hold the same mutex. */
struct cond {
	_Atomic uint32_t seq; /* a futex: told so often */
	unsigned waiters;     /* [the mutex] */
};

/* Gives the mutex back, sleeps until it is told, and takes the mutex again. It may go on without
 * having been told: the caller looks whether what it waits for is there. */
void cond_wait(struct cond *c, struct mutex *m) REQUIRES(*m);
/* The same, at most until the host's monotonic clock says @deadline_ns (DEADLINE_NONE: for ever).
 * False: it does. */
bool cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ns) REQUIRES(*m);
/* Lets one, or all, of those who wait go on. */
void cond_tell(struct cond *c, struct mutex *m) REQUIRES(*m);
void cond_tell_all(struct cond *c, struct mutex *m) REQUIRES(*m);

struct fiber;
struct fwaiter;
TAILQ_HEAD(fwaiter_list, fwaiter);

/* Free, or held with nobody waiting, either lock is one word that is taken and given back by one
 * atomic operation; the mutex is for those who must wait, and for who wakes them. */
struct CAPABILITY("fmutex") fmutex {
	_Atomic uintptr_t owner; /* 0, or the fiber; LOCK_WAITED if somebody waits */
	struct mutex lock;       /* guards the list */
	struct fwaiter_list waiters;
};

void fmutex_init(struct fmutex *m);
void fmutex_fini(struct fmutex *m);
void fmutex_lock(struct fmutex *m) ACQUIRE(*m);
bool fmutex_trylock(struct fmutex *m) TRY_ACQUIRE(true, *m);
void fmutex_unlock(struct fmutex *m) RELEASE(*m);
/* Whether the caller holds it: for assertions. */
bool fmutex_held(struct fmutex *m);

struct CAPABILITY("frwlock") frwlock {
	_Atomic uint32_t state; /* readers, or FRW_WRITER; FRW_WAITED if somebody waits */
	struct mutex lock;      /* guards the list */
	struct fwaiter_list waiters;
};

void frwlock_init(struct frwlock *l);
void frwlock_fini(struct frwlock *l);
void frwlock_read_lock(struct frwlock *l) TSA(acquire_shared_capability(*l));
void frwlock_read_unlock(struct frwlock *l) TSA(release_shared_capability(*l));
void frwlock_write_lock(struct frwlock *l) ACQUIRE(*l);
void frwlock_write_unlock(struct frwlock *l) RELEASE(*l);

#endif
