/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every system call that moat's own processes make of the host goes through HOST(tag, call).
 *
 * Theory of operation: a tag is a row of base/hostcall.def, which says what the call may be given
 * and what it is for. Three things come from it: the counter that HOST() bumps, the tables of
 * docs/SECURITY.md, and the check (tests/host_calls.py) that no call is made without a tag, that
 * a tag names the call that is made, and that no tag is unused.
 *
 * Counting costs one increment of a word of the host thread's own, always. Somebody who wants to
 * know what the calls were for switches accounting on (`moat run --stats`): then the words are
 * moved, at each switch of fibers and wherever the account changes, to a table by account. So an
 * account follows its fiber, whatever else its worker does meanwhile; see fiber_account().
 *
 * What the C library does behind our back (the memory it asks for, its locks) is not counted, but
 * it is listed: the HOST_LIBC rows.
 */
#ifndef MOAT_BASE_HOSTCALL_H
#define MOAT_BASE_HOSTCALL_H

#include "base/types.h"

enum host_tag {
#define HOST_TAG(tag, call, who, rule, purpose) HOST_##tag,
#define HOST_LIBC(call, who, class, purpose)
#include "base/hostcall.def"
	HOST_TAGS
};

/* For HOST() and hostcall.c alone. */
extern _Thread_local uint64_t t_host_counts[HOST_TAGS];

/* In assembly, because the address of a thread's own word must not be kept across a switch of
 * fibers, which may go on on another thread. */
static inline void host_count(enum host_tag tag)
{
	__asm__ volatile("incq %%fs:t_host_counts@tpoff(%0)" : : "r"((uint64_t)tag * 8) : "cc");
}

#define HOST(tag, call) (host_count(HOST_##tag), (call))

/* --- Accounts --- */

enum host_account {
	HOST_FOR_NOBODY,  /* threads that are no workers; what comes before and after the guest */
	HOST_FOR_WORKERS, /* workers between two fibers: sleeping, looking for events */
	HOST_FOR_FIBERS,  /* fibers that said nothing else */
	HOST_FOR_OWNER,   /* the first of those whose meaning is the owner's: fiber_account() */
	HOST_ACCOUNTS = 520,
};

/* Read-only but for host_accounting_start(). */
extern bool g_host_accounting;

/* Once, before other threads are started; the calling thread's calls count from here. */
void host_accounting_start(void);
/* What the calling thread has counted since the last time goes to @account. How many calls. */
unsigned host_settle(unsigned account);
/* What is left in the counters of all threads goes to HOST_FOR_NOBODY. */
void host_accounting_collect(void);
uint64_t host_accounted(unsigned account, enum host_tag tag);
/* What was counted so far is set-up; and what a tag's count is since, in all accounts. */
void host_accounting_mark(void);
uint64_t host_accounted_since(enum host_tag tag);
/* "futex"; the name of the system call, which several tags may share. */
const char *host_tag_call(enum host_tag tag);

/* Set by the sentry's lock-down (platform/sentry_filter.h): from then on only the RUN rows' calls.
 */
extern bool g_host_locked;

/* "futex_worker". */
const char *host_tag_name(enum host_tag tag);

/* Around a vfork, whose child counts its calls in the caller's memory: what the calling thread has
 * counted is kept; and put back, and what was counted since forgotten. */
void host_counts_keep(uint64_t kept[HOST_TAGS]);
void host_counts_put_back(const uint64_t kept[HOST_TAGS]);

/* Around the life of a host thread, in it. */
void host_thread_enter(void);
void host_thread_leave(void);

#endif
