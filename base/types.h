/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types, attributes and small macros that every layer uses.
 */
#ifndef MOAT_BASE_TYPES_H
#define MOAT_BASE_TYPES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A guest virtual address. A struct of its own, so that nobody dereferences it by mistake. */
typedef struct {
	uint64_t a;
} gaddr_t;

#define GADDR(x) ((gaddr_t){(uint64_t)(x)})

#define PAGE_SHIFT 12
#define MOAT_PAGE_SIZE ((uint64_t)4096)
#define PAGE_MASK_DOWN (~(MOAT_PAGE_SIZE - 1))
#define page_down(x) ((uint64_t)(x)&PAGE_MASK_DOWN)
#define page_up(x) (((uint64_t)(x) + MOAT_PAGE_SIZE - 1) & PAGE_MASK_DOWN)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Each argument is evaluated once. The names are new in each use, so that uses may be nested. */
#define PICK_NAME2_(name, n) name##n##_
#define PICK_NAME_(name, n) PICK_NAME2_(name, n)
#define PICK_(a, op, b, n)                                                                   \
	__extension__({                                                                      \
		__typeof__(a) PICK_NAME_(pick_a_, n) = (a);                                  \
		__typeof__(b) PICK_NAME_(pick_b_, n) = (b);                                  \
		PICK_NAME_(pick_a_, n)                                                       \
		op PICK_NAME_(pick_b_, n) ? PICK_NAME_(pick_a_, n) : PICK_NAME_(pick_b_, n); \
	})
#ifdef __cppcheck__
/* It loses its way in statement expressions. */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#else
#define MIN(a, b) PICK_(a, <, b, __COUNTER__)
#define MAX(a, b) PICK_(a, >, b, __COUNTER__)
#endif

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define NORETURN __attribute__((noreturn))
/* A function whose thread-local variables are looked for anew in each call: see base/fiber.c. */
#define OWN_TLS __attribute__((noinline))
/* Seldom called: kept out of its callers, so that they may be inlined. */
#define COLD __attribute__((noinline, cold))
/* These pointer arguments (from 1) are never NULL. For callers from elsewhere, too: the compiler
 * believes it. */
#define NONNULL(...) __attribute__((nonnull(__VA_ARGS__)))
#define PURE __attribute__((pure))
#define UNUSED __attribute__((unused))

/* Clang's thread-safety attributes; empty elsewhere. */
#if defined(__clang__)
#define TSA(x) __attribute__((x))
#else
#define TSA(x)
#endif
#define CAPABILITY(name) TSA(capability(name))
#define REQUIRES(...) TSA(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) TSA(acquire_capability(__VA_ARGS__))
#define RELEASE(...) TSA(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) TSA(try_acquire_capability(__VA_ARGS__))
#define EXCLUDES(...) TSA(locks_excluded(__VA_ARGS__))
#define NO_TSA TSA(no_thread_safety_analysis)

/* Internal return codes, never shown to a guest (see Linux's include/linux/errno.h for the
 * meaning of the restart family). A handler that was interrupted by a signal returns one of
 * these; sentry/signal_deliver.c alone turns it into EINTR or into a restart. */
#define ERESTARTSYS 512           /* restart if SA_RESTART, else EINTR */
#define ERESTARTNOINTR 513        /* always restart */
#define ERESTARTNOHAND 514        /* restart if no handler runs, else EINTR */
#define ERESTART_RESTARTBLOCK 516 /* restart through restart_syscall(2), else EINTR */

/* Copies @size bytes that somebody else may change meanwhile: what is in @dst is what was read,
 * once. (After a plain memcpy, and all the more where functions are inlined across files, the
 * compiler may take a value from @src again instead of keeping it.) */
static inline void copy_once(void *dst, const void *src, size_t size)
{
	__builtin_memcpy(dst, src, size);
	__asm__ volatile("" ::: "memory");
}

#endif
