/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting host calls. See base/hostcall.h.
 */
#include <string.h>
#include "base/hostcall.h"
#include "base/lock.h"
#include "base/queue.h"

/* Used: by the assembly of host_count(), which the optimiser of the whole does not see. */
__attribute__((used)) _Thread_local uint64_t t_host_counts[HOST_TAGS];

/* A thread whose counters others may have to look at. */
struct host_thread {
	LIST_ENTRY(host_thread) link;
	uint64_t *counts;
	bool entered;
};

bool g_host_accounting;
bool g_host_locked;

static _Thread_local struct host_thread t_host_thread;
static struct mutex g_threads_lock = MUTEX_INIT(RANK_LEAF);
static LIST_HEAD(, host_thread) g_threads = LIST_HEAD_INITIALIZER(g_threads); /* [g_threads_lock] */
static _Atomic uint64_t g_table[HOST_ACCOUNTS][HOST_TAGS];

static const char *const g_calls[HOST_TAGS] = {
#define HOST_TAG(tag, call, who, rule, purpose) [HOST_##tag] = #call,
#define HOST_LIBC(call, who, class, purpose)
#include "base/hostcall.def"
};

static const char *const g_names[HOST_TAGS] = {
#define HOST_TAG(tag, call, who, rule, purpose) [HOST_##tag] = #tag,
#define HOST_LIBC(call, who, class, purpose)
#include "base/hostcall.def"
};

const char *host_tag_name(enum host_tag tag)
{
	return g_names[tag];
}

const char *host_tag_call(enum host_tag tag)
{
	return g_calls[tag];
}

/* Not inlined: see host_count(). */
static OWN_TLS uint64_t *own_counts(void)
{
	__asm__ volatile("" ::: "memory");
	return t_host_counts;
}

static OWN_TLS struct host_thread *own_thread(void)
{
	__asm__ volatile("" ::: "memory");
	return &t_host_thread;
}

/* The owner counts on while somebody else looks, at the end: then a call too few is told. */
static unsigned move_counts(uint64_t *counts, unsigned account)
{
	unsigned n = 0;

	for (unsigned i = 0; i < HOST_TAGS; i++) {
		const uint64_t c = __atomic_load_n(&counts[i], __ATOMIC_RELAXED);

		if (likely(c == 0))
			continue;
		__atomic_store_n(&counts[i], 0, __ATOMIC_RELAXED);
		atomic_fetch_add_explicit(&g_table[account][i], c, memory_order_relaxed);
		n += (unsigned)c;
	}
	return n;
}

void host_counts_keep(uint64_t kept[HOST_TAGS])
{
	memcpy(kept, own_counts(), sizeof(t_host_counts));
}

void host_counts_put_back(const uint64_t kept[HOST_TAGS])
{
	memcpy(own_counts(), kept, sizeof(t_host_counts));
}

unsigned host_settle(unsigned account)
{
	return move_counts(own_counts(), account < HOST_ACCOUNTS ? account : HOST_FOR_NOBODY);
}

void host_thread_enter(void)
{
	struct host_thread *t = own_thread();

	if (!g_host_accounting)
		return;
	t->counts = own_counts();
	t->entered = true;
	mutex_lock(&g_threads_lock);
	LIST_INSERT_HEAD(&g_threads, t, link);
	mutex_unlock(&g_threads_lock);
}

void host_thread_leave(void)
{
	struct host_thread *t = own_thread();

	if (!t->entered)
		return;
	mutex_lock(&g_threads_lock);
	LIST_REMOVE(t, link);
	mutex_unlock(&g_threads_lock);
	t->entered = false;
	(void)host_settle(HOST_FOR_NOBODY);
}

void host_accounting_start(void)
{
	uint64_t *counts = own_counts();

	for (unsigned i = 0; i < HOST_TAGS; i++)
		counts[i] = 0;
	g_host_accounting = true;
	host_thread_enter();
}

void host_accounting_collect(void)
{
	struct host_thread *t;

	mutex_lock(&g_threads_lock);
	LIST_FOREACH (t, &g_threads, link)
		(void)move_counts(t->counts, HOST_FOR_NOBODY);
	mutex_unlock(&g_threads_lock);
}

uint64_t host_accounted(unsigned account, enum host_tag tag)
{
	return atomic_load_explicit(&g_table[account][tag], memory_order_relaxed);
}

static uint64_t all_accounts(enum host_tag tag)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < HOST_ACCOUNTS; i++)
		n += host_accounted(i, tag);
	return n;
}

static uint64_t g_marked[HOST_TAGS];

void host_accounting_mark(void)
{
	host_accounting_collect();
	for (enum host_tag tag = 0; tag < HOST_TAGS; tag++)
		g_marked[tag] = all_accounts(tag);
}

uint64_t host_accounted_since(enum host_tag tag)
{
	return all_accounts(tag) - g_marked[tag];
}
