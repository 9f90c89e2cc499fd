/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks. See base/lock.h.
 *
 * Theory of operation: struct mutex is one futex word: free, held, or held and waited for. Who
 * finds it held looks again for about a microsecond, since it is mostly given back by then, and a
 * sleep and a wake-up cost many. Then it says that somebody waits, and sleeps. Who was woken takes
 * the lock as waited for, since it cannot know whether others sleep: that costs a wake-up too many
 * at times, and never one too few. Whoever comes by may take it first: nobody hands it over. A
 * debug build also keeps the list of mutexes that the host thread holds, for the checks of rank and
 * of "none is held at a fiber switch".
 *
 * struct cond is a futex that counts how often somebody was told. Who waits reads the count under
 * the mutex, and sleeps only if it is still the same: so it cannot miss what was told since, which
 * also happens under the mutex. (But if it was told 2^32 times between two instructions of its
 * own.)
 *
 * The fiber locks are a few fields under such a mutex and a FIFO of waiters. The one who
 * unlocks hands the lock over to the first in line, so nobody overtakes and nobody starves.
 *
 * A waiter lives on its fiber's stack. It is granted the lock, and woken, under the inner mutex,
 * and it looks for the grant under the inner mutex: so when it goes on (and perhaps ends, or frees
 * the lock), the granter is done with it.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
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

void mutex_check_rank(const struct mutex *m)
{
	for (unsigned i = 0; i < t_held.count; i++) {
		if (t_held.m[i] == m)
			panic("mutex of rank %u locked twice", m->rank);
		if (m->rank && t_held.m[i]->rank >= m->rank)
			panic("mutex of rank %u locked under one of rank %u", m->rank,
			      t_held.m[i]->rank);
	}
}

void mutex_note_held(const struct mutex *m)
{
	BUG_ON(t_held.count == HELD_MAX);
	t_held.m[t_held.count++] = m;
}

void mutex_note_free(const struct mutex *m)
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
#endif

/* --- struct mutex --- */

/* Looks before it sleeps: about a microsecond. */
#define SPINS 24

void mutex_init(struct mutex *m, enum lock_rank rank)
{
	atomic_init(&m->state, MUTEX_FREE);
	m->rank = (uint8_t)rank;
}

void mutex_fini(struct mutex *m)
{
	BUG_ON(atomic_load_explicit(&m->state, memory_order_relaxed) != MUTEX_FREE);
}

/* The futex calls may be made between a host call and the look at its errno: they leave it alone.
 * That they fail (the word has changed, a signal) is like being woken for nothing. */

static void lock_sleep(_Atomic uint32_t *word, uint32_t value)
{
	const int error = errno;

	HOST(futex_lock, syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0));
	errno = error;
}

void mutex_lock_slow(struct mutex *m)
{
	for (unsigned i = 0; i < SPINS; i++) {
		const uint32_t s = atomic_load_explicit(&m->state, memory_order_relaxed);

		if (s == MUTEX_WAITED)
			break; /* others have looked for long enough */
		if (s == MUTEX_FREE && mutex_take(m))
			return;
		__builtin_ia32_pause();
	}
	while (atomic_exchange_explicit(&m->state, MUTEX_WAITED, memory_order_acquire) !=
	       MUTEX_FREE)
		lock_sleep(&m->state, MUTEX_WAITED);
}

/* Somebody else may have taken it by now, and even freed it: a futex that nobody sleeps on, or that
 * is no memory any more, is no harm to wake. */
void mutex_wake(struct mutex *m)
{
	const int error = errno;

	HOST(futex_lock, syscall(SYS_futex, &m->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
	errno = error;
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
	if (unlikely(!mutex_take(second)))
		mutex_lock_slow(second);
	mutex_note_held(second);
}

void mutex_unlock_pair(struct mutex *a, struct mutex *b) NO_TSA
{
	mutex_unlock(a);
	if (a != b)
		mutex_unlock(b);
}

/* --- struct cond --- */

/* False: the time is over. */
static bool cond_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns)
{
	const struct timespec until = {.tv_sec = (time_t)(deadline_ns / NSEC_PER_SEC),
				       .tv_nsec = (long)(deadline_ns % NSEC_PER_SEC)};
	const int error = errno;

	bool in_time;

	in_time = HOST(futex_cond, syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value,
					   deadline_ns == DEADLINE_NONE ? NULL : &until, NULL,
					   FUTEX_BITSET_MATCH_ANY)) == 0 ||
		  errno != ETIMEDOUT;
	errno = error;
	return in_time;
}

bool cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ns) NO_TSA
{
	const uint32_t seq = atomic_load_explicit(&c->seq, memory_order_relaxed);
	bool in_time;

	c->waiters++;
	mutex_unlock(m);
	in_time = cond_sleep(&c->seq, seq, deadline_ns);
	mutex_lock(m);
	c->waiters--;
	return in_time;
}

void cond_wait(struct cond *c, struct mutex *m)
{
	(void)cond_wait_until(c, m, DEADLINE_NONE);
}

static void cond_wake(struct cond *c, struct mutex *m, int count)
{
	const int error = errno;

	BUG_ON(atomic_load_explicit(&m->state, memory_order_relaxed) == MUTEX_FREE);
	/* One who was told already, but does not have the mutex yet, counts too. */
	if (c->waiters == 0)
		return;
	atomic_fetch_add_explicit(&c->seq, 1, memory_order_relaxed);
	HOST(futex_cond, syscall(SYS_futex, &c->seq, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0));
	errno = error;
}

void cond_tell(struct cond *c, struct mutex *m)
{
	cond_wake(c, m, 1);
}

void cond_tell_all(struct cond *c, struct mutex *m)
{
	cond_wake(c, m, INT_MAX);
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

/* In fmutex.owner, beside a pointer: the list is not empty. Set and cleared under the inner mutex.
 * While it is set the lock is handed on, never free, so that nobody passes those who wait. */
#define LOCK_WAITED ((uintptr_t)1)

void fmutex_init(struct fmutex *m)
{
	atomic_init(&m->owner, 0);
	mutex_init(&m->lock, RANK_FLOCK);
	TAILQ_INIT(&m->waiters);
}

void fmutex_fini(struct fmutex *m)
{
	BUG_ON(atomic_load(&m->owner) != 0 || !TAILQ_EMPTY(&m->waiters));
	mutex_fini(&m->lock);
}

static bool fmutex_take(struct fmutex *m, struct fiber *self)
{
	uintptr_t free = 0;

	return atomic_compare_exchange_strong_explicit(&m->owner, &free, (uintptr_t)self,
						       memory_order_acquire, memory_order_relaxed);
}

static void fmutex_lock_slow(struct fmutex *m, struct fiber *self)
{
	struct fwaiter w = {.fiber = self};
	uintptr_t o;

	mutex_lock(&m->lock);
	for (;;) {
		if (fmutex_take(m, self))
			break;
		o = atomic_load_explicit(&m->owner, memory_order_relaxed);
		BUG_ON((o & ~LOCK_WAITED) == (uintptr_t)self);
		/* Given back meanwhile: again. */
		if (o == 0 || (!(o & LOCK_WAITED) &&
			       !atomic_compare_exchange_strong(&m->owner, &o, o | LOCK_WAITED)))
			continue;
		TAILQ_INSERT_TAIL(&m->waiters, &w, link);
		fwaiter_sleep(&w, &m->lock);
		break;
	}
	mutex_unlock(&m->lock);
}

void fmutex_lock(struct fmutex *m) NO_TSA
{
	struct fiber *self = fiber_current();

	/* Even if it is free: that it did not sleep this time is luck. */
	lock_check_none_held();
	if (unlikely(!fmutex_take(m, self)))
		fmutex_lock_slow(m, self);
}

bool fmutex_trylock(struct fmutex *m) NO_TSA
{
	return fmutex_take(m, fiber_current());
}

static void fmutex_unlock_slow(struct fmutex *m)
{
	struct fwaiter *w;
	uintptr_t next;

	mutex_lock(&m->lock);
	w = TAILQ_FIRST(&m->waiters);
	BUG_ON(atomic_load_explicit(&m->owner, memory_order_relaxed) !=
		       ((uintptr_t)fiber_current() | LOCK_WAITED) ||
	       !w);
	next = (uintptr_t)w->fiber | (TAILQ_NEXT(w, link) ? LOCK_WAITED : 0);
	atomic_store_explicit(&m->owner, next, memory_order_release);
	fwaiter_grant(&m->waiters, w);
	mutex_unlock(&m->lock);
}

void fmutex_unlock(struct fmutex *m) NO_TSA
{
	uintptr_t self = (uintptr_t)fiber_current();

	if (unlikely(!atomic_compare_exchange_strong_explicit(
		    &m->owner, &self, 0, memory_order_release, memory_order_relaxed)))
		fmutex_unlock_slow(m);
}

bool fmutex_held(struct fmutex *m)
{
	return (atomic_load_explicit(&m->owner, memory_order_relaxed) & ~LOCK_WAITED) ==
	       (uintptr_t)fiber_current();
}

/* In frwlock.state: a writer has it; the list is not empty. The second is set and cleared under the
 * inner mutex; while it is set, who takes the lock and the last who gives it back go there. */
#define FRW_WRITER UINT32_C(0x80000000)
#define FRW_WAITED UINT32_C(0x40000000)
#define FRW_READERS (FRW_WAITED - 1)

void frwlock_init(struct frwlock *l)
{
	atomic_init(&l->state, 0);
	mutex_init(&l->lock, RANK_FLOCK);
	TAILQ_INIT(&l->waiters);
}

void frwlock_fini(struct frwlock *l)
{
	BUG_ON(atomic_load(&l->state) != 0 || !TAILQ_EMPTY(&l->waiters));
	mutex_fini(&l->lock);
}

/* Takes the lock if nobody is in the way or waits. */
static bool frwlock_take(struct frwlock *l, bool write)
{
	uint32_t s = atomic_load_explicit(&l->state, memory_order_relaxed);

	do {
		if (write ? s != 0 : (s & (FRW_WRITER | FRW_WAITED)) != 0)
			return false;
		BUG_ON((s & FRW_READERS) == FRW_READERS);
	} while (!atomic_compare_exchange_weak_explicit(&l->state, &s, write ? FRW_WRITER : s + 1,
							memory_order_acquire,
							memory_order_relaxed));
	return true;
}

static void frwlock_lock_slow(struct frwlock *l, bool write)
{
	struct fwaiter w = {.fiber = fiber_current(), .write = write};
	uint32_t s;

	mutex_lock(&l->lock);
	for (;;) {
		if (frwlock_take(l, write))
			break;
		s = atomic_load_explicit(&l->state, memory_order_relaxed);
		/* Given back meanwhile: again. */
		if (s == 0 || (!(s & FRW_WAITED) &&
			       ((!write && !(s & FRW_WRITER)) ||
				!atomic_compare_exchange_strong(&l->state, &s, s | FRW_WAITED))))
			continue;
		TAILQ_INSERT_TAIL(&l->waiters, &w, link);
		fwaiter_sleep(&w, &l->lock);
		break;
	}
	mutex_unlock(&l->lock);
}

/* Hands the lock, which nobody holds but which has FRW_WAITED, to the first in line, and if he
 * reads to the readers that stand right behind him. Nobody else changes the state meanwhile. */
static void frwlock_grant(struct frwlock *l) REQUIRES(l->lock)
{
	struct fwaiter *w = TAILQ_FIRST(&l->waiters), *end = w;
	uint32_t s = w->write ? FRW_WRITER : 0;

	do {
		s += !end->write;
		end = TAILQ_NEXT(end, link);
	} while (end && !w->write && !end->write);
	/* Before the first of them goes on, and perhaps gives it back. */
	atomic_store_explicit(&l->state, s | (end ? FRW_WAITED : 0), memory_order_release);
	while ((w = TAILQ_FIRST(&l->waiters)) != end)
		fwaiter_grant(&l->waiters, w);
}

void frwlock_read_lock(struct frwlock *l) NO_TSA
{
	lock_check_none_held();
	if (unlikely(!frwlock_take(l, false)))
		frwlock_lock_slow(l, false);
}

void frwlock_write_lock(struct frwlock *l) NO_TSA
{
	lock_check_none_held();
	if (unlikely(!frwlock_take(l, true)))
		frwlock_lock_slow(l, true);
}

/* The last reader, or the writer, gives it to those who wait. */
static void frwlock_unlock_slow(struct frwlock *l)
{
	mutex_lock(&l->lock);
	/* Acquire: what earlier readers have read comes before what the next writer writes. */
	BUG_ON(!(atomic_load_explicit(&l->state, memory_order_acquire) & FRW_WAITED) ||
	       TAILQ_EMPTY(&l->waiters));
	frwlock_grant(l);
	mutex_unlock(&l->lock);
}

void frwlock_read_unlock(struct frwlock *l) NO_TSA
{
	uint32_t s = atomic_load_explicit(&l->state, memory_order_relaxed);

	do {
		BUG_ON((s & FRW_READERS) == 0 || (s & FRW_WRITER));
		if (unlikely(s == (FRW_WAITED | 1))) {
			/* Nobody else may change it now. */
			frwlock_unlock_slow(l);
			return;
		}
	} while (!atomic_compare_exchange_weak_explicit(&l->state, &s, s - 1, memory_order_release,
							memory_order_relaxed));
}

void frwlock_write_unlock(struct frwlock *l) NO_TSA
{
	uint32_t s = FRW_WRITER;

	if (likely(atomic_compare_exchange_strong_explicit(&l->state, &s, 0, memory_order_release,
							   memory_order_relaxed)))
		return;
	BUG_ON(s != (FRW_WRITER | FRW_WAITED));
	frwlock_unlock_slow(l);
}
