/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priority-inheritance futexes, without priorities: FUTEX_LOCK_PI, UNLOCK_PI, TRYLOCK_PI.
 *
 * Theory of operation: the word holds the owner's tid; who cannot get it by an atomic operation in
 * user space comes here. The kernel's part is the list of waiters and the hand-over: an unlock
 * writes the first waiter's tid into the word, so nobody can barge in. All that changes a word or
 * the list of its waiters happens under a long lock chosen by the key's hash, since the word can
 * only be changed by the platform, which may sleep. A waiter knows the owner; when a task ends,
 * those that wait for it are made to look again, and the first of them takes the lock with
 * OWNER_DIED.
 *
 * Deviations from Linux: no boosting (the host schedules); deadlock is only found where a thread
 * waits for itself.
 *
 * Locking: pi_lock (long), then bucket->lock; g_pi.lock guards the list of all PI waiters, a leaf
 * under no other.
 *
 * References: futex(2) "Priority-inheritance futexes".
 */
#include "sentry/futex.h"

#include <errno.h>

#define PI_LOCKS 64u

static struct fmutex g_pi_locks[PI_LOCKS];
static _Atomic uint32_t g_pi_waiters;

/* Waiters of all keys, for the end of a task. */
struct pi_entry {
	LIST_ENTRY(pi_entry) link;
	struct futex_waiter w;
	_Atomic bool look; /* the owner ended: try again */
};
static struct {
	struct mutex lock;
	LIST_HEAD(, pi_entry) all;
} g_pi = {.lock = MUTEX_INIT(RANK_FUTEX)};

__attribute__((constructor)) static void pi_init(void)
{
	for (unsigned i = 0; i < PI_LOCKS; i++)
		fmutex_init(&g_pi_locks[i]);
}

static struct fmutex *pi_lock_of(const struct futex_key *key)
{
	return &g_pi_locks[hash_bytes(key, sizeof(*key), 1) % PI_LOCKS];
}

static bool task_is_gone(int32_t tid)
{
	struct task *o = task_find(tid);
	bool gone = !o || o->exit_started;

	if (o)
		task_put(o);
	return gone;
}

/* The first waiter of a key. */
static bool note_first(struct futex_waiter *w, void *arg)
{
	*(struct futex_waiter **)arg = w;
	return false;
}

/* Only for comparison, or to use under the key's pi lock: then it stays. */
static struct futex_waiter *first_waiter(const struct futex_key *key)
{
	struct futex_waiter *w = NULL;

	futex_each_pi(key, note_first, &w);
	return w;
}

static bool set_owner(struct futex_waiter *w, void *arg)
{
	w->owner_tid = *(int32_t *)arg;
	return true;
}

/* One attempt, under the key's pi lock. 1: the word is ours; 0: *owner has it and knows of a
 * waiter; -errno. @self: our entry, if queued. As on Linux a word that is another's says so to its
 * owner before anything is said of him, even if we only tried. */
static int try_lock(struct task *t, gaddr_t addr, const struct futex_key *key,
		    const struct futex_waiter *self, bool try_only, int32_t *owner)
{
	uint32_t word, seen, want;
	int r = copy_in(t, &word, addr, sizeof(word));

	while (r == 0) {
		struct futex_waiter *first = first_waiter(key);
		int32_t tid = (int32_t)(word & FUTEX_WORD_TID);
		bool dead = tid && self && tid == self->owner_tid && task_is_gone(tid);

		if (tid == t->tid)
			return -EDEADLK;
		if ((tid == 0 || dead) && (!first || first == self)) {
			/* Free, or left to its first waiter by one who died. */
			want = (uint32_t)t->tid | (word & FUTEX_WORD_OWNER_DIED);
			if (dead)
				want |= FUTEX_WORD_OWNER_DIED;
			if (first)
				want |= FUTEX_WORD_WAITERS;
		} else {
			want = word | FUTEX_WORD_WAITERS;
		}
		r = futex_atomic(t, addr, ATOMIC_CMPXCHG, want, word, &seen);
		if (r)
			break;
		if (seen == word) {
			*owner = tid;
			if ((want & FUTEX_WORD_TID) == (uint32_t)t->tid)
				return 1;
			if (tid && !dead && task_is_gone(tid))
				return -ESRCH;
			return try_only ? -EAGAIN : 0;
		}
		word = seen;
	}
	return r;
}

static void list_add(struct pi_entry *e)
{
	mutex_lock(&g_pi.lock);
	LIST_INSERT_HEAD(&g_pi.all, e, link);
	mutex_unlock(&g_pi.lock);
	atomic_fetch_add(&g_pi_waiters, 1);
}

static void list_del(struct pi_entry *e)
{
	mutex_lock(&g_pi.lock);
	LIST_REMOVE(e, link);
	mutex_unlock(&g_pi.lock);
	atomic_fetch_sub(&g_pi_waiters, 1);
}

/* Queued: sleeps until the lock is granted, the owner ended, or the wait does. 1: we have it. */
static int wait_for_grant(struct task *t, gaddr_t addr, struct pi_entry *e, uint64_t deadline_ns)
{
	struct fmutex *lock = pi_lock_of(&e->w.key);
	int32_t owner;

	for (;;) {
		int r, wait = 0;

		while (!futex_woken(&e->w) && !atomic_load(&e->look) && wait == 0)
			wait = fiber_wait(deadline_ns, WAIT_INTR);
		fmutex_lock(lock);
		atomic_store(&e->look, false);
		if (futex_woken(&e->w)) {
			r = 1;
		} else {
			r = try_lock(t, addr, &e->w.key, &e->w, false, &owner);
			if (r == 0)
				e->w.owner_tid = owner;
			if (r == 1) {
				/* The others wait for us now. */
				owner = t->tid;
				futex_each_pi(&e->w.key, set_owner, &owner);
			}
			if (r == 0 && wait)
				r = wait == -ERESTARTSYS ? -ERESTARTNOINTR : wait;
		}
		if (r)
			(void)futex_unqueue(&e->w);
		fmutex_unlock(lock);
		if (r)
			return r;
	}
}

long futex_lock_pi(struct task *t, gaddr_t addr, bool shared, uint64_t deadline_ns, bool try_only)
{
	struct pi_entry e = {0};
	struct futex_key key;
	struct fmutex *lock;
	struct inode *inode;
	int32_t owner;
	int r;

	r = futex_get_key(t, addr, shared, FUTEX_WRITES, &key, &inode);
	if (r)
		return r;
	lock = pi_lock_of(&key);
	fmutex_lock(lock);
	r = try_lock(t, addr, &key, NULL, try_only, &owner);
	if (r == 0) {
		futex_waiter_init(&e.w, &key, inode);
		e.w.pi = true;
		e.w.tid = t->tid;
		e.w.owner_tid = owner;
		list_add(&e);
		futex_queue(&e.w);
		/* The owner may have ended just before we were on the list. */
		if (owner && task_is_gone(owner))
			atomic_store(&e.look, true);
	}
	fmutex_unlock(lock);
	if (r == 0) {
		r = wait_for_grant(t, addr, &e, deadline_ns);
		list_del(&e);
	}
	if (inode)
		inode_put(inode);
	return r == 1 ? 0 : r;
}

/* Gives the word to @next, or frees it. 0 or -errno. */
static int hand_over(struct task *t, gaddr_t addr, struct futex_waiter *next)
{
	uint32_t word, seen, want = 0;
	int r = copy_in(t, &word, addr, sizeof(word));

	if (next)
		want = (uint32_t)next->tid | FUTEX_WORD_WAITERS;
	while (r == 0) {
		if ((word & FUTEX_WORD_TID) != (uint32_t)t->tid)
			return -EPERM;
		r = futex_atomic(t, addr, ATOMIC_CMPXCHG, want, word, &seen);
		if (r == 0 && seen == word)
			return 0;
		word = seen;
	}
	return r;
}

static bool grant_one(struct futex_waiter *w, void *arg)
{
	if (w != arg)
		return true;
	futex_grant(w);
	return false;
}

long futex_unlock_pi(struct task *t, gaddr_t addr, bool shared)
{
	struct futex_waiter *next;
	struct futex_key key;
	struct fmutex *lock;
	struct inode *inode;
	uint32_t word;
	int32_t tid;
	int r;

	/* Who does not own it is told so before anything is said of the address. */
	if (addr.a % sizeof(word) == 0 && copy_in(t, &word, addr, sizeof(word)))
		return -EFAULT;
	if (addr.a % sizeof(word) == 0 && (word & FUTEX_WORD_TID) != (uint32_t)t->tid)
		return -EPERM;
	r = futex_get_key(t, addr, shared, FUTEX_WRITES, &key, &inode);
	if (r)
		return r;
	lock = pi_lock_of(&key);
	fmutex_lock(lock);
	next = first_waiter(&key);
	r = hand_over(t, addr, next);
	if (r == 0 && next) {
		tid = next->tid;
		futex_each_pi(&key, set_owner, &tid);
		futex_each_pi(&key, grant_one, next);
	}
	fmutex_unlock(lock);
	if (inode)
		inode_put(inode);
	return r;
}

void futex_exit_pi(struct task *t)
{
	struct pi_entry *e;

	if (atomic_load(&g_pi_waiters) == 0)
		return;
	mutex_lock(&g_pi.lock);
	LIST_FOREACH (e, &g_pi.all, link) {
		if (e->w.owner_tid == t->tid) {
			atomic_store(&e->look, true);
			fiber_wake(e->w.fiber);
		}
	}
	mutex_unlock(&g_pi.lock);
}
