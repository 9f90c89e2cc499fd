/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the trap stub that run on guest threads share.
 */
#ifndef MOAT_PLATFORM_STUB_TRAP_GUEST_H
#define MOAT_PLATFORM_STUB_TRAP_GUEST_H

#include <stdatomic.h>
#include "platform/stub_trap/layout.h"

enum {
	TS_NR_MMAP = 9,
	TS_NR_MPROTECT = 10,
	TS_NR_MUNMAP = 11,
	TS_NR_SIGRETURN = 15,
	TS_NR_PREAD64 = 17,
	TS_NR_CLONE = 56,
	TS_NR_EXIT = 60,
	TS_NR_ARCH_PRCTL = 158,
	TS_NR_FUTEX = 202,
};
/* Private: what the guest's own futexes are slept on by. */
enum { TS_FUTEX_WAIT_PRIVATE = 128, TS_FUTEX_WAKE_PRIVATE = 129 };
enum { TS_ARCH_SET_GS = 0x1001, TS_ARCH_SET_FS = 0x1002 };

/* Without a dynamic linker nothing goes by way of a table. */
#pragma GCC visibility push(hidden)

static inline long ts_call(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	register uint64_t r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("call ts_call_insn"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}

/* Private anonymous memory, readable and writable, over what is there. */
static inline long ts_map(uint64_t addr, uint64_t size)
{
	register uint64_t flags __asm__("r10") = 0x32; /* MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED */
	register uint64_t fd __asm__("r8") = UINT64_MAX;
	register uint64_t offset __asm__("r9") = 0;
	long ret;

	__asm__ volatile("call ts_call_insn"
			 : "=a"(ret)
			 : "0"((long)TS_NR_MMAP), "D"(addr), "S"(size), "d"(3L), "r"(flags),
			   "r"(fd), "r"(offset)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline struct ts_fast *ts_fast_of(struct ts_area *a)
{
	return (struct ts_fast *)((char *)a + TS_A_FAST);
}

/* 0 where reading the counter is a fault (g_pf_trap_tsc): then nobody spins. */
static inline uint64_t ts_cycles(void)
{
	uint32_t lo, hi;

	if (__builtin_expect(((const struct ts_shared *)TS_SHARED)->no_counter != 0, 0))
		return 0;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

/* For `moat run --profile-calls`. */
static inline void ts_stamp(uint64_t *stamp)
{
	if (__builtin_expect(((const struct ts_shared *)TS_SHARED)->stamps != 0, 0))
		*stamp = ts_cycles();
}

static inline int ts_bases_are_free(void)
{
	return ((const struct ts_shared *)TS_SHARED)->bases != 0;
}

static inline uint64_t ts_gs(void)
{
	uint64_t base;

	__asm__ volatile("rdgsbase %0" : "=r"(base));
	return base;
}

/* Notes in the area what the guest may have changed without a call. */
static inline void ts_note_bases(struct ts_area *a)
{
	if (!ts_bases_are_free())
		return;
	__asm__ volatile("rdfsbase %0" : "=r"(a->fs_now));
	a->gs_now = ts_gs();
}

/* Posts the request that is in the area. */
void ts_post(struct ts_area *a, uint32_t kind);
/* Waits for the reply and does what it says, until it says to go on. */
enum { TS_SLEEP, TS_SPIN, TS_SPIN_BRIEFLY, TS_SPIN_LONG };
void ts_serve(struct ts_area *a, int patience);
/* Is @nr a call in which the agent has a part, or that is there to wait? */
int ts_is_slow(int32_t nr);

/* entry.S; see there. */
int ts_copy(void *to, const void *from, uint64_t size);
int ts_zero(void *to, uint64_t size);
int ts_store_two(void *to, uint64_t first, uint64_t second);
int ts_copy_str(void *to, const void *from, uint32_t size);
int ts_touch(void *addr);
int ts_xsave(void *to, uint32_t features);
void ts_xinit(uint32_t features);

/* fast_entry.S, fast.c */
extern const char ts_fast_entry[];
extern const char ts_fast_enter[];
extern const char ts_fast_slow[];
extern const char ts_fast_leave[];
extern const char ts_fast_leave_end[];
long ts_direct_wait(void *addr, uint32_t op, uint32_t val, struct ts_area *a);
extern const char ts_direct_end[];
extern const char ts_direct_abort[];
void ts_fast_call(struct ts_area *a);
/* answer.c: answers the call that is in @fast, if it can. */
int ts_answer(struct ts_area *a, struct ts_fast *fast);
/* The same for the call of the SIGSYS frame @f. */
int ts_answer_signal(struct ts_area *a, struct ts_frame *f);
/* Posts a signal frame with the state of the fast call, as if it were @kind. */
void ts_fast_frame(struct ts_area *a, uint32_t kind) __attribute__((noreturn));
/* Makes @f, the frame that TS_NR_FRAME has raised, or that an interrupt has on the way out, say
 * that the fast call is done. */
void ts_fast_to_frame(struct ts_area *a, struct ts_frame *f);

#pragma GCC visibility pop

#endif
