/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futexes: what sentry/futex*.c and sentry/sys_futex.c share.
 *
 * Theory of operation: a futex is a key: memory and address, or file and offset for shared
 * mappings. Waiters with the same key stand in one bucket of a hash table, in order of arrival.
 * Guest memory cannot be read under the bucket's short lock, so a waiter first queues itself, then
 * reads the word, and leaves again if it is not what it expected: a waker that changed the word
 * before is seen by the read, one that comes later sees the waiter. Operations that compare a word
 * before they wake or requeue (CMP_REQUEUE, WAKE_OP) take a ticket from the bucket before they
 * read, and leave waiters alone that came after it.
 *
 * Locking: bucket->lock (RANK_FUTEX), two in the order of their addresses. A waiter leaves its
 * stack frame only after it has held the lock of the bucket that woke it, so wakers may touch it
 * while they hold that lock. Priority-inheritance futexes are serialised by a long lock per hash
 * besides: see sentry/futex_pi.c.
 *
 * References: futex(2), set_robust_list(2), the robust-futex ABI as described in
 * get_robust_list(2).
 */
#ifndef MOAT_SENTRY_FUTEX_H
#define MOAT_SENTRY_FUTEX_H

#include "sentry/mm_ops.h"

#define FUTEX_ANY 0xffffffffu

#define FUTEX_WORD_WAITERS 0x80000000u
#define FUTEX_WORD_OWNER_DIED 0x40000000u
#define FUTEX_WORD_TID 0x3fffffffu

enum futex_kind {
	FUTEX_PRIVATE,   /* the caller said so: memory and address */
	FUTEX_MM_SHARED, /* it did not, but the memory is private */
	FUTEX_FILE,      /* inode and offset: of a page that is the file's */
};

struct futex_key {
	uint64_t object, offset; /* a struct mm * or struct inode * */
	uint64_t kind;
};

struct futex_bucket;

struct futex_waiter {
	TAILQ_ENTRY(futex_waiter) link;        /* [bucket->lock] */
	_Atomic(struct futex_bucket *) bucket; /* NULL once woken or gone */
	struct futex_bucket *woken_by;         /* set before bucket becomes NULL */
	struct futex_key key;                  /* [bucket->lock] */
	struct inode *inode;                   /* a reference that keeps a FUTEX_FILE key unique */
	struct fiber *fiber;
	uint32_t bitset;
	uint64_t ticket;
	/* Priority inheritance; sentry/futex_pi.c. */
	bool pi;
	int32_t tid, owner_tid;
};

/* What an operation does with the word. */
enum futex_use { FUTEX_READS, FUTEX_WRITES };

/* The key of @addr in @t's memory. -EINVAL (alignment), -EFAULT: also if @shared and the word may
 * not be used so. *inode: a reference for FUTEX_FILE, else NULL. */
int futex_get_key(struct task *t, gaddr_t addr, bool shared, enum futex_use use,
		  struct futex_key *key, struct inode **inode) MUST_USE;

/* All of these return what the system call does. @deadline_ns: monotonic. */
long futex_wait_op(struct task *t, gaddr_t addr, bool shared, uint32_t val, uint64_t deadline_ns,
		   uint32_t bitset);
long futex_wake_bits(struct task *t, gaddr_t addr, bool shared, int count, uint32_t bitset);
/* @cmp: NULL, or the value that the word at @addr must have. */
long futex_requeue_op(struct task *t, gaddr_t addr, bool shared, gaddr_t addr2, bool shared2,
		      int wake, int requeue, const uint32_t *cmp);
long futex_wake_op(struct task *t, gaddr_t addr, bool shared, gaddr_t addr2, int wake, int wake2,
		   uint32_t op);

/* An atomic operation on a word of @t's memory that the caller's key check found sound; stacks
 * grow. */
int futex_atomic(struct task *t, gaddr_t addr, enum atomic_op op, uint32_t arg, uint32_t cmp,
		 uint32_t *old) MUST_USE;

struct futex_wait_item {
	gaddr_t addr;
	uint32_t val;
	bool shared;
};
/* Waits on all of them: the index of one that was woken. */
long futex_wait_many(struct task *t, const struct futex_wait_item *items, unsigned count,
		     uint64_t deadline_ns);

long futex_lock_pi(struct task *t, gaddr_t addr, bool shared, uint64_t deadline_ns, bool try_only);
long futex_unlock_pi(struct task *t, gaddr_t addr, bool shared);
/* @t ends: waiters on what it owns look again. */
void futex_exit_pi(struct task *t);

/* ---- for futex_pi.c ---- */
void futex_waiter_init(struct futex_waiter *w, const struct futex_key *key, struct inode *inode);
void futex_queue(struct futex_waiter *w);
/* Takes @w out. False: it had been woken. After it nobody touches @w any more. */
bool futex_unqueue(struct futex_waiter *w);
bool futex_woken(const struct futex_waiter *w);
struct futex_bucket *futex_bucket_of(const struct futex_key *key);
/* Calls fn on each queued PI waiter of @key, in order, under the bucket's lock, while it returns
 * true. */
void futex_each_pi(const struct futex_key *key, bool (*fn)(struct futex_waiter *w, void *arg),
		   void *arg);
/* Wakes @w; the bucket's lock is held: only from futex_each_pi. */
void futex_grant(struct futex_waiter *w);
bool futex_key_equal(const struct futex_key *a, const struct futex_key *b);

#endif
