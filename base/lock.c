/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks. See base/lock.h.
 *
 * Theory of operation: struct mutex is a pthread mutex; a debug build also keeps the list of
 * mutexes that the host thread holds, for the checks of rank and of "none is held at a fiber
 * switch". The fiber locks are a few fields under such a mutex and a FIFO of waiters. The one who
 * unlocks hands the lock over to the first in line, so nobody overtakes and nobody starves.
 *
 * A waiter lives on its fiber's stack. It is granted the lock, and woken, under the inner mutex,
 * and it looks for the grant under the inner mutex: so when it goes on (and perhaps ends, or frees
 * the lock), the granter is done with it.
 */
#include <errno.h>
#include "base/err.h"
#include "base/fiber_internal.h"
#include "base/hostcall.h"
#include "base/lock.h"

/* --- Debug checks --- */

#ifdef MOAT_DEBUG
#define HELD_MAX 32
/* The mutexes that this thread holds. A fiber holds none when it is switched, so this need not
 * move. */
static _Thread_local struct {
	unsigned count;
	const struct mutex *m[HELD_MAX];
} t_held;

static void held_check_rank(const struct mutex *m)
{
	for (unsigned i = 0; i < t_held.count; i++) {
		if (t_held.m[i] == m)
			panic("mutex of rank %u locked twice", m->rank);
		if (m->rank && t_held.m[i]->rank >= m->rank)
			panic("mutex of rank %u locked under one of rank %u", m->rank,
			      t_held.m[i]->rank);
	}
}

static void held_add(const struct mutex *m)
{
	BUG_ON(t_held.count == HELD_MAX);
	t_held.m[t_held.count++] = m;
}

static void held_remove(const struct mutex *m)
{
	for (unsigned i = t_held.count; i-- > 0;) {
		if (t_held.m[i] != m)
			continue;
		t_held.m[i] = t_held.m[--t_held.count];
		return;
	}
	panic("mutex of rank %u unlocked by a thread that does not hold it", m->rank);
}

void lock_check_none_held(void)
{
	if (t_held.count)
		panic("fiber switched with %u mutexes held, one of rank %u", t_held.count,
		      t_held.m[0]->rank);
}
#else
static inline void held_check_rank(const struct mutex *m)
{
	(void)m;
}
static inline void held_add(const struct mutex *m)
{
	(void)m;
}
static inline void held_remove(const struct mutex *m)
{
	(void)m;
}
#endif

/* --- struct mutex --- */

void mutex_init(struct mutex *m, enum lock_rank rank)
{
	int r = pthread_mutex_init(&m->m, NULL);

	BUG_ON(r != 0);
	m->rank = (uint8_t)rank;
}

void mutex_fini(struct mutex *m)
{
	int r = pthread_mutex_destroy(&m->m);

	BUG_ON(r != 0); /* EBUSY: freed while it is held */
}

void mutex_lock(struct mutex *m) NO_TSA
{
	held_check_rank(m);
	/* So that waiting for it is counted, and only that. */
	if (unlikely(pthread_mutex_trylock(&m->m) != 0))
		HOST(futex_lock, pthread_mutex_lock(&m->m));
	held_add(m);
}

bool mutex_trylock(struct mutex *m) NO_TSA
{
	/* No check of the rank: it does not wait, so it cannot deadlock. */
	if (pthread_mutex_trylock(&m->m) != 0)
		return false;
	held_add(m);
	return true;
}

void mutex_unlock(struct mutex *m) NO_TSA
{
	held_remove(m);
	pthread_mutex_unlock(&m->m);
}

void mutex_lock_pair(struct mutex *a, struct mutex *b) NO_TSA
{
	struct mutex *first = (uintptr_t)a < (uintptr_t)b ? a : b;
	struct mutex *second = first == a ? b : a;

	mutex_lock(first);
	if (a == b)
		return;
	/* The same rank is all right here, since everybody goes by address. */
	BUG_ON(first->rank != second->rank);
	pthread_mutex_lock(&second->m);
	held_add(second);
}

void mutex_unlock_pair(struct mutex *a, struct mutex *b) NO_TSA
{
	mutex_unlock(a);
	if (a != b)
		mutex_unlock(b);
}

/* --- Fiber locks --- */

struct fwaiter {
	TAILQ_ENTRY(fwaiter) link;
	struct fiber *fiber;
	bool write;
	bool granted; /* [the inner mutex] */
};

/* Sleeps until the lock was handed to @w, which is queued already. Called, and returns, with the
 * inner mutex held. */
static void fwaiter_sleep(struct fwaiter *w, struct mutex *inner) REQUIRES(*inner)
{
	while (!w->granted) {
		mutex_unlock(inner);

		int unused = fiber_wait(DEADLINE_NONE, WAIT_UNINTR);

		(void)unused;
		mutex_lock(inner);
	}
}

static void fwaiter_grant(struct fwaiter_list *list, struct fwaiter *w)
{
	TAILQ_REMOVE(list, w, link);
	w->granted = true;
	fiber_wake(w->fiber);
}

void fmutex_init(struct fmutex *m)
{
	mutex_init(&m->lock, RANK_FLOCK);
	m->owner = NULL;
	TAILQ_INIT(&m->waiters);
}

void fmutex_fini(struct fmutex *m)
{
	BUG_ON(m->owner || !TAILQ_EMPTY(&m->waiters));
	mutex_fini(&m->lock);
}

void fmutex_lock(struct fmutex *m) NO_TSA
{
	struct fiber *self = fiber_current();

	/* Even if it is free: that it did not sleep this time is luck. */
	lock_check_none_held();
	mutex_lock(&m->lock);
	if (!m->owner) {
		m->owner = self;
	} else {
		BUG_ON(m->owner == self);

		struct fwaiter w = {.fiber = self};

		TAILQ_INSERT_TAIL(&m->waiters, &w, link);
		fwaiter_sleep(&w, &m->lock);
	}
	mutex_unlock(&m->lock);
}

bool fmutex_trylock(struct fmutex *m) NO_TSA
{
	bool ok;

	mutex_lock(&m->lock);
	ok = !m->owner;
	if (ok)
		m->owner = fiber_current();
	mutex_unlock(&m->lock);
	return ok;
}

void fmutex_unlock(struct fmutex *m) NO_TSA
{
	mutex_lock(&m->lock);
	BUG_ON(m->owner != fiber_current());

	struct fwaiter *w = TAILQ_FIRST(&m->waiters);

	if (w) {
		m->owner = w->fiber;
		fwaiter_grant(&m->waiters, w);
	} else {
		m->owner = NULL;
	}
	mutex_unlock(&m->lock);
}

bool fmutex_held(struct fmutex *m)
{
	bool held;

	mutex_lock(&m->lock);
	held = m->owner == fiber_current();
	mutex_unlock(&m->lock);
	return held;
}

void frwlock_init(struct frwlock *l)
{
	mutex_init(&l->lock, RANK_FLOCK);
	l->readers = 0;
	l->writers_waiting = 0;
	TAILQ_INIT(&l->waiters);
}

void frwlock_fini(struct frwlock *l)
{
	BUG_ON(l->readers != 0 || !TAILQ_EMPTY(&l->waiters));
	mutex_fini(&l->lock);
}

/* Hands the lock to the first in line, if he can have it now, and if he reads to the readers that
 * stand right behind him. */
static void frwlock_grant(struct frwlock *l) REQUIRES(l->lock)
{
	struct fwaiter *w;

	while ((w = TAILQ_FIRST(&l->waiters)) != NULL) {
		if (w->write) {
			if (l->readers != 0)
				return;
			l->readers = -1;
			l->writers_waiting--;
			fwaiter_grant(&l->waiters, w);
			return;
		}
		if (l->readers < 0)
			return;
		l->readers++;
		fwaiter_grant(&l->waiters, w);
	}
}

static void frwlock_enqueue(struct frwlock *l, bool write) REQUIRES(l->lock)
{
	struct fwaiter w = {.fiber = fiber_current(), .write = write};

	TAILQ_INSERT_TAIL(&l->waiters, &w, link);
	fwaiter_sleep(&w, &l->lock);
}

void frwlock_read_lock(struct frwlock *l) NO_TSA
{
	lock_check_none_held();
	mutex_lock(&l->lock);
	/* With anyone in line there is a writer in line or at work: behind him. */
	if (l->readers >= 0 && TAILQ_EMPTY(&l->waiters))
		l->readers++;
	else
		frwlock_enqueue(l, false);
	mutex_unlock(&l->lock);
}

void frwlock_read_unlock(struct frwlock *l) NO_TSA
{
	mutex_lock(&l->lock);
	BUG_ON(l->readers <= 0);
	l->readers--;
	frwlock_grant(l);
	mutex_unlock(&l->lock);
}

void frwlock_write_lock(struct frwlock *l) NO_TSA
{
	lock_check_none_held();
	mutex_lock(&l->lock);
	if (l->readers == 0 && TAILQ_EMPTY(&l->waiters)) {
		l->readers = -1;
	} else {
		l->writers_waiting++;
		frwlock_enqueue(l, true);
	}
	mutex_unlock(&l->lock);
}

void frwlock_write_unlock(struct frwlock *l) NO_TSA
{
	mutex_lock(&l->lock);
	BUG_ON(l->readers != -1);
	l->readers = 0;
	frwlock_grant(l);
	mutex_unlock(&l->lock);
}
