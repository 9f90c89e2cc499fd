/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futexes: wait, wake, requeue.
 *
 * See sentry/futex.h for the theory and the locks.
 */
#include "sentry/futex.h"

#include <errno.h>
#include <string.h>

#include "vfs/hostfs.h"

#define BUCKETS 1024u /* a power of two */

struct futex_bucket {
	struct mutex lock;
	TAILQ_HEAD(, futex_waiter) waiters; /* [lock] */
	uint64_t tickets;                   /* [lock] given out so far */
};

/* Most are never used by a short run: so nothing is written to them before somebody takes one. */
static struct futex_bucket g_buckets[BUCKETS] = {
	[0 ... BUCKETS - 1] = {.lock = MUTEX_INIT(RANK_FUTEX)},
};

static void bucket_made_locked(struct futex_bucket *b) REQUIRES(b->lock)
{
	if (unlikely(!b->waiters.tqh_last))
		TAILQ_INIT(&b->waiters);
}

static void bucket_lock(struct futex_bucket *b) ACQUIRE(b->lock)
{
	mutex_lock(&b->lock);
	bucket_made_locked(b);
}

/* ---- keys ---- */

bool futex_key_equal(const struct futex_key *a, const struct futex_key *b)
{
	return a->object == b->object && a->offset == b->offset && a->kind == b->kind;
}

struct futex_bucket *futex_bucket_of(const struct futex_key *key)
{
	return &g_buckets[hash_bytes(key, sizeof(*key), 0) % BUCKETS];
}

/* A file's pages and, where they were written before that was forbidden, copies of them: which of
 * them a page is only the host can tell. */
static bool maybe_copied(const struct vma *v)
{
	return v->file && !(v->flags & VMA_SHARED) && !(v->prot & LX_PROT_WRITE);
}

/* Can nobody but the host's want of memory keep the guest from reading @addr in @v? Then there is
 * no need to try. */
static bool surely_there(const struct vma *v, uint64_t addr)
{
	struct inode *i = v->file ? v->file->inode : NULL;
	bool within;

	if (!(v->prot & (LX_PROT_READ | LX_PROT_WRITE | LX_PROT_EXEC)))
		return false;
	if (!i)
		return true;
	if (maybe_copied(v))
		return false;
	/* The host's files may be shorter than we know. */
	if (hostfs_is(i->super))
		return false;
	mutex_lock(&i->meta);
	within = v->offset + (addr - v->start) < page_up(i->size);
	mutex_unlock(&i->meta);
	return within;
}

/* Is the word at @addr, which is there, in a page of @v's file? 0: no, but of private memory that
 * may be written; -EFAULT: of private memory that may not. What is nobody else's and never changes
 * is no futex, says Linux. */
static int of_file(struct mm *mm, const struct vma *v, uint64_t addr) REQUIRES(mm->lock)
{
	uint8_t page;

	if (v->flags & VMA_SHARED)
		return v->file != NULL;
	if (v->prot & LX_PROT_WRITE)
		return 0;
	if (!maybe_copied(v) || g_pf->resident(mm->as, page_down(addr), 1, &page) ||
	    !(page & PF_PAGE_FILE))
		return -EFAULT;
	return 1;
}

int futex_get_key(struct task *t, gaddr_t addr, bool shared, enum futex_use use,
		  struct futex_key *key, struct inode **inode)
{
	struct mm *mm = t->mm;
	bool tried = false;
	struct vma *v;
	uint32_t word;
	int r;

	*inode = NULL;
	if (addr.a % sizeof(uint32_t))
		return -EINVAL;
	if (!mm || !user_range_ok(addr.a, sizeof(uint32_t)))
		return -EFAULT;
	*key = (struct futex_key){.object = (uintptr_t)mm, .offset = addr.a, .kind = FUTEX_PRIVATE};
	if (!shared)
		return 0;
	key->kind = FUTEX_MM_SHARED;
	for (;;) {
		fmutex_lock(&mm->lock);
		v = mm_find(mm, addr.a);
		if (v && v->start <= addr.a && (tried || surely_there(v, addr.a)))
			break;
		fmutex_unlock(&mm->lock);
		/* The page must be there, as Linux takes hold of it to find out what is mapped. */
		if (tried || copy_in(t, &word, addr, sizeof(word)))
			return -EFAULT;
		tried = true;
	}
	r = use == FUTEX_WRITES && !(v->prot & LX_PROT_WRITE) ? -EFAULT : of_file(mm, v, addr.a);
	if (r > 0) {
		*inode = inode_get(v->file->inode);
		key->object = (uintptr_t)*inode;
		key->offset = v->offset + (addr.a - v->start);
		key->kind = FUTEX_FILE;
	}
	fmutex_unlock(&mm->lock);
	return MIN(r, 0);
}

static void put_inode(struct inode *i)
{
	if (i)
		inode_put(i);
}

/* ---- queueing ---- */

/* Private waiters are counted where the platform may look, so that a wake without any is over at
 * once (tier 0): before they read the word, and until they are out of the queue. */
static void count_waiter(const struct futex_key *key, int change)
{
	_Atomic uint32_t *counts;

	if (key->kind != FUTEX_PRIVATE || !g_pf->futex_counts)
		return;
	counts = g_pf->futex_counts(((const struct mm *)(uintptr_t)key->object)->as);
	if (counts)
		atomic_fetch_add(&counts[pf_futex_index(key->offset)], (uint32_t)change);
}

void futex_waiter_init(struct futex_waiter *w, const struct futex_key *key, struct inode *inode)
{
	memset(w, 0, sizeof(*w));
	w->key = *key;
	w->inode = inode;
	w->fiber = fiber_self();
	w->bitset = FUTEX_ANY;
}

void futex_queue(struct futex_waiter *w)
{
	struct futex_bucket *b = futex_bucket_of(&w->key);

	bucket_lock(b);
	w->ticket = b->tickets++;
	TAILQ_INSERT_TAIL(&b->waiters, w, link);
	count_waiter(&w->key, 1);
	atomic_store_explicit(&w->bucket, b, memory_order_relaxed);
	mutex_unlock(&b->lock);
}

bool futex_woken(const struct futex_waiter *w)
{
	return !atomic_load_explicit(&w->bucket, memory_order_acquire);
}

bool futex_unqueue(struct futex_waiter *w)
{
	for (;;) {
		struct futex_bucket *b = atomic_load_explicit(&w->bucket, memory_order_acquire);
		bool was_queued = b;

		if (!b)
			b = w->woken_by; /* wait until the waker is done with us */
		bucket_lock(b);
		if (was_queued) {
			if (atomic_load_explicit(&w->bucket, memory_order_relaxed) != b) {
				/* Woken or moved meanwhile. */
				mutex_unlock(&b->lock);
				continue;
			}
			TAILQ_REMOVE(&b->waiters, w, link);
			count_waiter(&w->key, -1);
			atomic_store_explicit(&w->bucket, NULL, memory_order_relaxed);
		}
		mutex_unlock(&b->lock);
		return was_queued;
	}
}

static void wake_locked(struct futex_bucket *b, struct futex_waiter *w) REQUIRES(b->lock)
{
	TAILQ_REMOVE(&b->waiters, w, link);
	count_waiter(&w->key, -1);
	w->woken_by = b;
	atomic_store_explicit(&w->bucket, NULL, memory_order_release);
	fiber_wake(w->fiber);
}

void futex_each_pi(const struct futex_key *key, bool (*fn)(struct futex_waiter *w, void *arg),
		   void *arg)
{
	struct futex_bucket *b = futex_bucket_of(key);
	struct futex_waiter *w, *next;

	bucket_lock(b);
	TAILQ_FOREACH_SAFE (w, &b->waiters, link, next) {
		if (w->pi && futex_key_equal(&w->key, key) && !fn(w, arg))
			break;
	}
	mutex_unlock(&b->lock);
}

void futex_grant(struct futex_waiter *w) NO_TSA
{
	wake_locked(atomic_load_explicit(&w->bucket, memory_order_relaxed), w);
}

/* Wakes up to @count waiters of @key (at least one, as Linux does) that came before @ticket. The
 * number, or -EINVAL if one of them waits for a priority-inheritance lock. */
static long wake_key(const struct futex_key *key, int count, uint32_t bitset, uint64_t ticket)
{
	struct futex_bucket *b = futex_bucket_of(key);
	struct futex_waiter *w, *next;
	long woken = 0;

	bucket_lock(b);
	TAILQ_FOREACH_SAFE (w, &b->waiters, link, next) {
		if (!futex_key_equal(&w->key, key) || w->ticket >= ticket)
			continue;
		if (w->pi) {
			woken = -EINVAL;
			break;
		}
		if (!(w->bitset & bitset))
			continue;
		wake_locked(b, w);
		if (++woken >= count)
			break;
	}
	mutex_unlock(&b->lock);
	return woken;
}

static uint64_t take_ticket(const struct futex_key *key)
{
	struct futex_bucket *b = futex_bucket_of(key);
	uint64_t n;

	bucket_lock(b);
	n = b->tickets;
	mutex_unlock(&b->lock);
	return n;
}

/* ---- operations ---- */

/* Private waiters of which only the platform knows. */
static long wake_direct(struct task *t, gaddr_t addr, int count)
{
	if (count <= 0 || !g_pf->futex_wake_direct || !t->pt)
		return 0;
	return g_pf->futex_wake_direct(t->pt, addr, count);
}

/* Wakes up to @count waiters of @key, which is of @addr, of both kinds: see wake_key. Who is first
 * takes turns: else a waiter of ours that always comes back would leave the other kind nothing. */
static long wake_both(struct task *t, const struct futex_key *key, gaddr_t addr, int count,
		      uint32_t bitset, uint64_t ticket)
{
	const bool private = key->kind == FUTEX_PRIVATE;
	long direct = 0, own;

	count = MAX(count, 1);
	if (private && (++t->futex_turn & 1)) {
		direct = wake_direct(t, addr, count);
		if (direct >= count)
			return direct;
	}
	own = wake_key(key, count - (int)direct, bitset, ticket);
	if (own < 0)
		return own;
	if (private && !(t->futex_turn & 1))
		direct = wake_direct(t, addr, count - (int)own);
	return own + direct;
}

long futex_wake_bits(struct task *t, gaddr_t addr, bool shared, int count, uint32_t bitset)
{
	struct futex_key key;
	struct inode *inode;
	long r;

	if (!bitset)
		return -EINVAL;
	r = futex_get_key(t, addr, shared, FUTEX_READS, &key, &inode);
	if (r)
		return r;
	r = wake_both(t, &key, addr, count, bitset, UINT64_MAX);
	put_inode(inode);
	return r;
}

int futex_wake(struct task *t, gaddr_t addr, int count, bool shared)
{
	return (int)futex_wake_bits(t, addr, shared, count, FUTEX_ANY);
}

/* Sleeps until one of @w[0 … @count) is woken. 0, -ETIMEDOUT, -ERESTARTSYS. */
static int sleep_on(struct futex_waiter *w, unsigned count, uint64_t deadline_ns)
{
	for (;;) {
		int r;

		for (unsigned i = 0; i < count; i++)
			if (futex_woken(&w[i]))
				return 0;
		r = fiber_wait(deadline_ns, WAIT_INTR);
		if (r)
			return r;
	}
}

long futex_wait_op(struct task *t, gaddr_t addr, bool shared, uint32_t val, uint64_t deadline_ns,
		   uint32_t bitset)
{
	struct futex_waiter w;
	struct futex_key key;
	struct inode *inode;
	uint32_t now;
	int r;

	if (!bitset)
		return -EINVAL;
	r = futex_get_key(t, addr, shared, FUTEX_READS, &key, &inode);
	if (r)
		return r;
	futex_waiter_init(&w, &key, inode);
	w.bitset = bitset;
	futex_queue(&w);
	r = copy_in(t, &now, addr, sizeof(now));
	if (r == 0 && now != val)
		r = -EAGAIN;
	if (r == 0)
		r = sleep_on(&w, 1, deadline_ns);
	/* Once woken we succeeded, whatever else happened: the wake must not be lost. */
	if (!futex_unqueue(&w))
		r = 0;
	put_inode(w.inode); /* a requeue may have changed it */
	return r;
}

long futex_wait_many(struct task *t, const struct futex_wait_item *items, unsigned count,
		     uint64_t deadline_ns)
{
	struct futex_waiter *w = mem_calloc(count, sizeof(*w));
	unsigned queued = 0;
	long r = 0, woken = -1;

	if (!w)
		return -ENOMEM;
	for (; queued < count && r == 0; queued++) {
		struct futex_key key;
		struct inode *inode;

		r = futex_get_key(t, items[queued].addr, items[queued].shared, FUTEX_READS, &key,
				  &inode);
		if (r)
			break;
		futex_waiter_init(&w[queued], &key, inode);
		futex_queue(&w[queued]);
	}
	for (unsigned i = 0; i < count && r == 0; i++) {
		uint32_t now;

		r = copy_in(t, &now, items[i].addr, sizeof(now));
		if (r == 0 && now != items[i].val)
			r = -EAGAIN;
	}
	if (r == 0)
		r = sleep_on(w, count, deadline_ns);
	for (unsigned i = 0; i < queued; i++) {
		if (!futex_unqueue(&w[i]))
			woken = i;
		put_inode(w[i].inode);
	}
	mem_free(w);
	return woken >= 0 ? woken : r;
}

struct requeue {
	struct futex_key from, to;
	struct inode *to_inode;
	int wake, requeue;
	uint64_t ticket;
	long done;
	struct inode *drop[32]; /* references to give back once the locks are */
	unsigned dropped;
	bool more;
};

/* Moves @w from @b to the other bucket. Its inode reference is exchanged. */
static void requeue_one(struct requeue *q, struct futex_bucket *b, struct futex_bucket *b2,
			struct futex_waiter *w) NO_TSA
{
	TAILQ_REMOVE(&b->waiters, w, link);
	/* Nobody may find neither. */
	count_waiter(&q->to, 1);
	count_waiter(&w->key, -1);
	w->key = q->to;
	if (w->inode)
		q->drop[q->dropped++] = w->inode;
	w->inode = q->to_inode ? inode_get(q->to_inode) : NULL;
	w->ticket = b2->tickets++;
	TAILQ_INSERT_TAIL(&b2->waiters, w, link);
	atomic_store_explicit(&w->bucket, b2, memory_order_release);
}

/* One round under the locks; q->more: there is another to do. */
static void requeue_round(struct requeue *q)
{
	struct futex_bucket *b = futex_bucket_of(&q->from), *b2 = futex_bucket_of(&q->to);
	struct futex_waiter *w, *next;

	q->dropped = 0;
	q->more = false;
	mutex_lock_pair(&b->lock, &b2->lock);
	bucket_made_locked(b);
	bucket_made_locked(b2);
	TAILQ_FOREACH_SAFE (w, &b->waiters, link, next) {
		if (q->done - q->wake >= q->requeue)
			break;
		if (!futex_key_equal(&w->key, &q->from) || w->ticket >= q->ticket)
			continue;
		if (w->pi) {
			q->done = -EINVAL;
			break;
		}
		if (q->dropped == ARRAY_SIZE(q->drop)) {
			q->more = true;
			break;
		}
		if (++q->done <= q->wake)
			wake_locked(b, w);
		else
			requeue_one(q, b, b2, w);
	}
	mutex_unlock_pair(&b->lock, &b2->lock);
	for (unsigned i = 0; i < q->dropped; i++)
		inode_put(q->drop[i]);
}

long futex_requeue_op(struct task *t, gaddr_t addr, bool shared, gaddr_t addr2, bool shared2,
		      int wake, int requeue, const uint32_t *cmp)
{
	struct requeue q = {.wake = wake, .requeue = requeue, .more = true};
	struct inode *inode;
	uint32_t now;
	long r;

	if (wake < 0 || requeue < 0)
		return -EINVAL;
	r = futex_get_key(t, addr, shared, FUTEX_READS, &q.from, &inode);
	if (r)
		return r;
	r = futex_get_key(t, addr2, shared2, FUTEX_READS, &q.to, &q.to_inode);
	if (r) {
		put_inode(inode);
		return r;
	}
	q.ticket = take_ticket(&q.from);
	if (cmp) {
		r = copy_in(t, &now, addr, sizeof(now));
		if (r == 0 && now != *cmp)
			r = -EAGAIN;
	}
	/* A waiter that is moved gets a new ticket, so that one that stays in its bucket is not met
	 * twice. */
	while (r == 0 && q.more && q.done >= 0)
		requeue_round(&q);
	put_inode(inode);
	put_inode(q.to_inode);
	if (r)
		return r;
	/* They cannot be moved; they look again, and wait where they should. */
	if (q.done >= 0 && !shared)
		q.done += wake_direct(t, addr,
				      (int)MIN((long)wake + requeue - q.done, (long)INT32_MAX));
	return q.done;
}

/* ---- FUTEX_WAKE_OP ---- */

static int32_t sign12(uint32_t v)
{
	return (int32_t)(v << 20) >> 20;
}

/* Does the old value pass the comparison in @op? 1, 0, -ENOSYS. */
static int compare(uint32_t op, uint32_t old_word)
{
	int32_t old = (int32_t)old_word, arg = sign12(op & 0xfff);

	switch ((op >> 24) & 0xf) {
	case 0:
		return old == arg;
	case 1:
		return old != arg;
	case 2:
		return old < arg;
	case 3:
		return old <= arg;
	case 4:
		return old > arg;
	case 5:
		return old >= arg;
	default:
		return -ENOSYS;
	}
}

static int atomic_op(struct task *t, gaddr_t addr, uint32_t op, uint32_t *old)
{
	static const enum atomic_op ops[] = {ATOMIC_XCHG, ATOMIC_ADD, ATOMIC_OR, ATOMIC_ANDN,
					     ATOMIC_XOR};
	uint32_t which = (op >> 28) & 7, arg = (uint32_t)sign12((op >> 12) & 0xfff);

	if (op & 0x80000000u)
		arg = 1u << (arg & 31);
	if (which >= ARRAY_SIZE(ops))
		return -ENOSYS;
	return futex_atomic(t, addr, ops[which], arg, 0, old);
}

long futex_wake_op(struct task *t, gaddr_t addr, bool shared, gaddr_t addr2, int wake, int wake2,
		   uint32_t op)
{
	struct futex_key key, key2;
	struct inode *inode, *inode2 = NULL;
	uint64_t ticket, ticket2;
	uint32_t old;
	long r, r2;
	int pass;

	r = futex_get_key(t, addr, shared, FUTEX_READS, &key, &inode);
	if (r)
		return r;
	r = futex_get_key(t, addr2, shared, FUTEX_WRITES, &key2, &inode2);
	if (r)
		goto out;
	ticket = take_ticket(&key);
	ticket2 = take_ticket(&key2);
	r = atomic_op(t, addr2, op, &old);
	if (r)
		goto out;
	pass = compare(op, old);
	if (pass < 0) {
		r = pass;
		goto out;
	}
	r = wake_both(t, &key, addr, wake, FUTEX_ANY, ticket);
	if (r >= 0 && pass) {
		r2 = wake_both(t, &key2, addr2, wake2, FUTEX_ANY, ticket2);
		r = r2 < 0 ? r2 : r + r2;
	}
out:
	put_inode(inode);
	put_inode(inode2);
	return r;
}

int futex_atomic(struct task *t, gaddr_t addr, enum atomic_op op, uint32_t arg, uint32_t cmp,
		 uint32_t *old)
{
	uint64_t tried = 0;

	if (addr.a >= PF_GUEST_LIMIT)
		return -EFAULT;
	for (;;) {
		int r = g_pf->atomic32(t->pt, addr, op, arg, cmp, old);

		if (r != -EFAULT || !mm_grow_for_copy(t, addr.a, &tried))
			return r;
	}
}
