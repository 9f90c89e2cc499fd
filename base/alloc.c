/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation that can be made to fail in tests, and saturating reference counts. See base/alloc.h.
 *
 * Theory of operation: a countdown per kind of step, 0 when off. MOAT_FAIL=alloc:n,host:n,copy:n in
 * the environment sets it before main(); the step that takes a countdown from 1 to 0 fails. A test
 * runs the same thing with n = 1, 2, 3 … until nothing fails any more.
 *
 * All of the sentry's heap is metered here (sentry_memory), so that nothing that a guest can make
 * the sentry allocate is without a bound, even if no other meter counts it.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/err.h"
#include "base/meter.h"

/* --- The fault injector --- */

static _Atomic unsigned g_fail_after[3];

void fail_set(enum fail_kind kind, unsigned n)
{
	atomic_store(&g_fail_after[kind], n);
}

bool fail_now(enum fail_kind kind)
{
	unsigned n = atomic_load_explicit(&g_fail_after[kind], memory_order_relaxed);

	if (likely(n == 0))
		return false;
	while (n != 0) {
		if (atomic_compare_exchange_weak(&g_fail_after[kind], &n, n - 1))
			return n == 1;
	}
	return false;
}

/* Before all other constructors, which may use it. */
static __attribute__((constructor(101))) void fail_from_environment(void)
{
	static const char *const names[] = {"alloc:", "host:", "copy:"};
	const char *s = getenv("MOAT_FAIL");

	while (s && *s) {
		unsigned kind = 0;

		while (kind < ARRAY_SIZE(names) &&
		       strncmp(s, names[kind], strlen(names[kind])) != 0)
			kind++;
		if (kind == ARRAY_SIZE(names)) {
			log_warn("MOAT_FAIL=%s: must be alloc:N, host:N or copy:N", s);
			return;
		}

		char *end;
		unsigned long n = strtoul(s + strlen(names[kind]), &end, 10);

		fail_set((enum fail_kind)kind, (unsigned)n);
		s = *end == ',' ? end + 1 : NULL;
	}
}

/* --- Memory --- */

/* What a thread took or gave since it last told the meter. A meter in steps costs nothing that can
 * be measured, and is off by a step for each thread. */
#define STEP ((int64_t)64 << 10)

static __thread int64_t t_untold;

static OWN_TLS void account(int64_t n)
{
	t_untold += n;
	n = t_untold;
	if (likely(n < STEP && n > -STEP))
		return;
	t_untold = 0;
	if (n >= 0)
		meter_charge_found(METER_sentry_memory, (uint64_t)n);
	else
		meter_uncharge(METER_sentry_memory, (uint64_t)-n);
}

/* May there be @size bytes more? The first words of defence are the meters of what guests make;
 * this one is for all that they do not count. */
static bool may_take(size_t size)
{
	if (unlikely(fail_now(FAIL_ALLOC)))
		return false;
	const uint64_t limit = meter_limit(METER_sentry_memory);

	if (likely(limit == METER_NO_LIMIT))
		return true;
	const uint64_t used = meter_current(METER_sentry_memory);

	/* An account that other threads have not paid into yet may be below zero. */
	if (likely((int64_t)used < 0 || (used <= limit && size <= limit - used)))
		return true;
	meter_refuse(METER_sentry_memory);
	return false;
}

static void *taken(void *p)
{
	if (likely(p))
		account((int64_t)malloc_usable_size(p));
	return p;
}

static void given_back(void *p)
{
	account(-(int64_t)malloc_usable_size(p));
}

void *mem_zalloc(size_t size)
{
	if (unlikely(!may_take(size)))
		return NULL;
	/* One byte for size 0: NULL always means failure. */
	return taken(calloc(1, size ? size : 1));
}

void *mem_calloc(size_t count, size_t size)
{
	size_t total;

	/* Not left to calloc: ASan takes an overflow there for a bug. */
	if (__builtin_mul_overflow(count, size, &total))
		total = SIZE_MAX;
	if (unlikely(!may_take(total)) || total == SIZE_MAX)
		return NULL;
	return taken(calloc(1, total ? total : 1));
}

void *mem_calloc_sure(size_t count, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(count, size, &total))
		return NULL;
	return taken(calloc(1, total ? total : 1));
}

void *mem_realloc(void *p, size_t size)
{
	if (unlikely(!may_take(size)))
		return NULL;
	const size_t old = malloc_usable_size(p);
	void *q = realloc(p, size ? size : 1);

	if (q)
		account((int64_t)malloc_usable_size(q) - (int64_t)old);
	return q;
}

void *mem_pages(size_t size)
{
	if (size > SIZE_MAX - MOAT_PAGE_SIZE || unlikely(!may_take(size)))
		return NULL;

	size_t whole = size ? page_up(size) : MOAT_PAGE_SIZE;
	void *p = aligned_alloc(MOAT_PAGE_SIZE, whole);

	if (p)
		memset(p, 0, whole);
	return taken(p);
}

void *mem_dup(const void *p, size_t size)
{
	if (unlikely(!may_take(size)))
		return NULL;

	void *q = malloc(size ? size : 1);

	if (q && size)
		memcpy(q, p, size);
	return taken(q);
}

char *mem_strndup(const char *s, size_t size)
{
	if (unlikely(!may_take(size)))
		return NULL;
	return taken(strndup(s, size));
}

char *mem_strdup(const char *s)
{
	return mem_dup(s, strlen(s) + 1);
}

void mem_free(void *p)
{
	if (!p)
		return;
	given_back(p);
	free(p);
}

/* --- Reference counts --- */

/* From here up a count is stuck: the object is never freed. The upper half of the range, so that no
 * number of threads between their addition and their check can wrap around. */
#define REF_SATURATED UINT32_C(0x80000000)
#define REF_STUCK UINT32_C(0xc0000000)

void ref_init(struct ref *r)
{
	atomic_init(&r->count, 1);
}

void ref_get(struct ref *r)
{
	/* Relaxed: the caller has a reference already, and so sees the object. */
	uint32_t old = atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);

	if (unlikely(old == 0))
		panic("reference to an object that is being freed");
	if (unlikely(old >= REF_SATURATED))
		atomic_store_explicit(&r->count, REF_STUCK, memory_order_relaxed);
}

bool ref_get_unless_zero(struct ref *r)
{
	uint32_t old = atomic_load_explicit(&r->count, memory_order_relaxed);

	do {
		if (old == 0)
			return false;
		if (unlikely(old >= REF_SATURATED))
			return true;
	} while (!atomic_compare_exchange_weak_explicit(
		&r->count, &old, old + 1, memory_order_acquire, memory_order_relaxed));
	return true;
}

bool ref_put(struct ref *r)
{
	/* Release: what this holder wrote is seen by whoever frees. Acquire: for when that is us.
	 */
	uint32_t old = atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel);

	if (unlikely(old == 0))
		panic("reference put twice");
	if (unlikely(old >= REF_SATURATED)) {
		atomic_store_explicit(&r->count, REF_STUCK, memory_order_relaxed);
		return false;
	}
	return old == 1;
}

uint32_t ref_read(const struct ref *r)
{
	return atomic_load_explicit(&r->count, memory_order_relaxed);
}
