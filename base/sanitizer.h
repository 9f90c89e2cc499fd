/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sanitizer this is built with: MOAT_ASAN and MOAT_TSAN are 1 or 0, so that `if` serves; and
 * what those who keep freed memory for themselves tell ASan, which sees malloc only.
 *
 * A pool hides what it is given back (san_hide), keeps the last pieces from being given out again
 * (san_keep), and shows what it gives out or back to the host (san_show). So a stale pointer is
 * reported, and does not lead to what is in its place by then. Without ASan all of it is nothing.
 */
#ifndef MOAT_BASE_SANITIZER_H
#define MOAT_BASE_SANITIZER_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define MOAT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOAT_ASAN 1
#endif
#endif
#ifndef MOAT_ASAN
#define MOAT_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define MOAT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MOAT_TSAN 1
#endif
#endif
#ifndef MOAT_TSAN
#define MOAT_TSAN 0
#endif

#if MOAT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>

#define SAN_KEEP 512u
#else
#define SAN_KEEP 1u
#endif

/* Of a function that may look at what is hidden: its comment says why. */
#define SAN_ANY_MEMORY __attribute__((no_sanitize("address")))

/* What a pool was given back last. Zeroed at first; guarded by the pool's lock. */
struct san_kept {
	void *piece[SAN_KEEP];
	unsigned next;
};

/* Looks for leaks, as at the end, and does not return if there are some: for who ends otherwise. */
static inline void san_leaks(void)
{
#if MOAT_ASAN
	__lsan_do_leak_check();
#endif
}

/* @size bytes may be touched (again). */
static inline void san_show(void *p, size_t size)
{
#if MOAT_ASAN
	__asan_unpoison_memory_region(p, size);
#else
	(void)p;
	(void)size;
#endif
}

/* Nobody may touch these @size bytes from here on. */
static inline void san_hide(void *p, size_t size)
{
#if MOAT_ASAN
	__asan_poison_memory_region(p, size);
#else
	(void)p;
	(void)size;
#endif
}

/* Takes @p, which was freed, NULL to empty @k; a piece that the pool may have back, or NULL. */
static inline void *san_keep(struct san_kept *k, void *p)
{
#if MOAT_ASAN
	for (unsigned i = 0; i < SAN_KEEP; i++) {
		void *oldest = k->piece[k->next];

		k->piece[k->next] = p;
		k->next = (k->next + 1) % SAN_KEEP;
		if (p || oldest)
			return oldest;
	}
	return NULL;
#else
	(void)k;
	return p;
#endif
}

#endif
