/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Robust futexes: when a thread ends, those that it holds are marked and handed on.
 *
 * Theory of operation: the thread's list lies in its own memory and is whatever the guest made of
 * it: circular, endless, or pointing anywhere. It is walked at most ROBUST_MAX entries far, each
 * read by a copy that may fail, and a word is changed only if it bears the dead thread's tid.
 *
 * References: get_robust_list(2), futex(2).
 */
#include "sentry/futex.h"

#include <errno.h>

#define ROBUST_MAX 2048

struct lx_robust_head {
	uint64_t next;
	int64_t offset;   /* from an entry to its futex */
	uint64_t pending; /* being locked or unlocked */
};
_Static_assert(sizeof(struct lx_robust_head) == 24, "struct robust_list_head");

/* The lowest bit of a pointer says that the futex inherits priorities. */
static uint64_t entry_addr(uint64_t p)
{
	return p & ~(uint64_t)1;
}

/* The owner of the futex at @addr died. False: stop the walk. */
static bool handle_death(struct task *t, uint64_t addr, bool pi, bool pending)
{
	uint32_t word, seen, want;

	if (addr % sizeof(word))
		return false;
	if (copy_in(t, &word, GADDR(addr), sizeof(word)))
		return false;
	/* It died between unlocking and waking. */
	if (pending && !pi && word == 0) {
		(void)futex_wake(t, GADDR(addr), 1, true);
		return true;
	}
	for (;;) {
		if ((word & FUTEX_WORD_TID) != (uint32_t)t->tid)
			return true;
		want = (word & FUTEX_WORD_WAITERS) | FUTEX_WORD_OWNER_DIED;
		if (futex_atomic(t, GADDR(addr), ATOMIC_CMPXCHG, want, word, &seen))
			return false;
		if (seen == word)
			break;
		word = seen;
	}
	/* Waiters of a PI futex are told by futex_exit_pi(). */
	if (!pi && (word & FUTEX_WORD_WAITERS))
		(void)futex_wake(t, GADDR(addr), 1, true);
	return true;
}

static void walk(struct task *t, const struct lx_robust_head *head)
{
	uint64_t entry = head->next, next;

	for (unsigned i = 0; i < ROBUST_MAX && entry_addr(entry) != t->robust_list.a; i++) {
		/* Read it before the futex may be freed by whom we wake. */
		bool ok = copy_in(t, &next, GADDR(entry_addr(entry)), sizeof(next)) == 0;

		if (entry_addr(entry) != entry_addr(head->pending) &&
		    !handle_death(t, entry_addr(entry) + (uint64_t)head->offset, entry & 1, false))
			return;
		if (!ok)
			return;
		entry = next;
	}
}

void futex_exit_robust(struct task *t)
{
	struct lx_robust_head head;

	if (t->robust_list.a && copy_in(t, &head, t->robust_list, sizeof(head)) == 0) {
		walk(t, &head);
		if (entry_addr(head.pending))
			(void)handle_death(t, entry_addr(head.pending) + (uint64_t)head.offset,
					   head.pending & 1, true);
	}
	futex_exit_pi(t);
}
