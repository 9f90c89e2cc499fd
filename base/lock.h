/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks.
 *
 * struct mutex: a short lock, for host threads. Never held over a fiber switch (fiber_wait checks
 *   that in debug builds), never over a host call that may block.
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

#include <pthread.h>
#include "base/queue.h"
#include "base/types.h"

enum lock_rank {
	RANK_NONE = 0,
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

struct CAPABILITY("mutex") mutex {
	pthread_mutex_t m;
	uint8_t rank;
};

#define MUTEX_INIT(r)                                       \
	{                                                   \
		.m = PTHREAD_MUTEX_INITIALIZER, .rank = (r) \
	}
void mutex_init(struct mutex *m, enum lock_rank rank);
void mutex_fini(struct mutex *m);
void mutex_lock(struct mutex *m) ACQUIRE(*m);
bool mutex_trylock(struct mutex *m) TRY_ACQUIRE(true, *m);
void mutex_unlock(struct mutex *m) RELEASE(*m);
/* Two of the same rank, in the order of their addresses; they may be the same one. */
void mutex_lock_pair(struct mutex *a, struct mutex *b) ACQUIRE(*a, *b);
void mutex_unlock_pair(struct mutex *a, struct mutex *b) RELEASE(*a, *b);

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
