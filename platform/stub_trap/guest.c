/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What guest threads run in the stub: the signal handler, which asks the sentry and goes back.
 *
 * Theory of operation: whatever stops guest code (a syscall by the filter's SIGSYS, a fault, the
 * sentry's interrupt) is a signal on the thread's alternate stack, which is the upper part of its
 * area. The host has written all registers and the vector state into the frame there; the sentry
 * reads and changes them in place, so the handler only says where the frame is, waits, and lets the
 * host restore it.
 *
 * While the handler runs all signals are blocked but SIGSEGV and SIGBUS, which atomic operations on
 * guest memory may raise; so an interrupt that comes between request and reply is delivered after
 * the return to guest code, and asks once more.
 *
 * Nothing here is trusted by the sentry, and nothing here trusts the area: another guest thread may
 * write it, and deceives its own process.
 */
#include <stdatomic.h>
#include "platform/stub_trap/layout.h"

enum { NR_RT_SIGRETURN = 15, NR_EXIT = 60, NR_ARCH_PRCTL = 158, NR_FUTEX = 202 };
enum { SIGSYS_ = 31 };
enum { FUTEX_WAIT_ = 0, FUTEX_WAKE_ = 1 };
enum { ARCH_SET_GS_ = 0x1001, ARCH_SET_FS_ = 0x1002 };

/* The frame's only readers in the stub are the few fields below. */
void ts_on_signal(int sig, void *si, void *uc) __attribute__((noreturn));
void ts_thread_main(struct ts_area *a) __attribute__((noreturn));

static long call4(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	register uint64_t r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("call ts_call_insn"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}

static void sigreturn(struct ts_frame *f) __attribute__((noreturn));
static void sigreturn(struct ts_frame *f)
{
	__asm__ volatile("movq %0, %%rsp\n\tjmp ts_call_insn"
			 :
			 : "r"(&f->uc_flags), "a"((long)NR_RT_SIGRETURN)
			 : "memory");
	__builtin_unreachable();
}

static uint64_t cycles(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

static void post(struct ts_area *a)
{
	if (atomic_exchange(&a->state, TS_POSTED) == TS_BELL)
		call4(NR_FUTEX, (uint64_t)&a->state, FUTEX_WAKE_, 1, 0);
}

static int replied(struct ts_area *a)
{
	const uint32_t s = atomic_load_explicit(&a->state, memory_order_acquire);

	return s != TS_POSTED && s != TS_WAITS;
}

/* Syscalls that are there to wait, or whose reply takes long: not worth spinning for. */
static int is_slow(int32_t nr)
{
	/* poll; select; msync; pause, nanosleep; fork, vfork, execve, exit, wait4. */
	const uint64_t slow = 1ull << 7 | 1ull << 23 | 1ull << 26 | 1ull << 34 | 1ull << 35 |
			      1ull << 57 | 1ull << 58 | 1ull << 59 | 1ull << 60 | 1ull << 61;

	if (nr >= 0 && nr < 64)
		return slow >> nr & 1;
	/* clock_nanosleep, exit_group, epoll_wait, pselect6, ppoll, epoll_pwait */
	return (nr >= 230 && nr <= 232) || nr == 270 || nr == 271 || nr == 281;
}

static void await(struct ts_area *a, uint32_t budget)
{
	if (budget != 0) {
		const uint64_t start = cycles();

		do {
			if (replied(a))
				return;
			__builtin_ia32_pause();
		} while (cycles() - start < budget);
	}
	while (!replied(a)) {
		uint32_t expect = TS_POSTED;

		(void)atomic_compare_exchange_strong(&a->state, &expect, TS_WAITS);
		call4(NR_FUTEX, (uint64_t)&a->state, FUTEX_WAIT_, TS_WAITS, 0);
	}
}

/* Hands over to the agent, and waits for it. A thread of the same address space, on the same CPU:
 * that is the cheapest way. */
static void hop(struct ts_area *a, uint32_t cmd)
{
	if (cmd & TS_CMD_RING)
		call4(NR_FUTEX, TS_ORDERS + TS_O_SEQ, FUTEX_WAKE_, 1, 0);
	while (atomic_load_explicit(&a->hop, memory_order_acquire) != TS_HOP_DONE) {
		uint32_t expect = TS_HOP_PENDING;

		(void)atomic_compare_exchange_strong(&a->hop, &expect, TS_HOP_SLEEPS);
		call4(NR_FUTEX, (uint64_t)&a->hop, FUTEX_WAIT_, TS_HOP_SLEEPS, 0);
	}
}

static void run_atomic(struct ts_area *a)
{
	uint32_t old, failed;
	uint64_t op = a->atomic_op;

	__asm__ volatile("call ts_atomic_insns"
			 : "=a"(old), "=c"(failed), "+d"(op)
			 : "D"(a->atomic_addr), "S"(a->atomic_arg), "0"(a->atomic_cmp)
			 : "r8", "memory", "cc");
	a->atomic_old = old;
	a->atomic_failed = failed;
}

/* Until the sentry lets the guest run. */
static void serve(struct ts_area *a, int may_spin)
{
	for (;;) {
		uint32_t cmd;

		await(a, may_spin ? a->spin : 0);
		cmd = a->cmd;
		if (cmd & TS_CMD_EXIT)
			call4(NR_EXIT, 0, 0, 0, 0);
		if (cmd & TS_CMD_SET_FS)
			call4(NR_ARCH_PRCTL, ARCH_SET_FS_, a->fs_base, 0, 0);
		if (cmd & TS_CMD_SET_GS)
			call4(NR_ARCH_PRCTL, ARCH_SET_GS_, a->gs_base, 0, 0);
		if (cmd & TS_CMD_HOP)
			hop(a, cmd);
		if (!(cmd & (TS_CMD_ATOMIC | TS_CMD_AGAIN)))
			return;
		if (cmd & TS_CMD_ATOMIC)
			run_atomic(a);
		post(a);
	}
}

void ts_on_signal(int sig, void *si, void *uc)
{
	struct ts_area *a = (struct ts_area *)((uint64_t)uc & ~(uint64_t)(TS_AREA_SIZE - 1));
	struct ts_frame *f = (struct ts_frame *)((char *)uc - 8);

	(void)si;
	/* Sent by somebody while we are at work here: nothing to do with it. */
	if (f->sig_code <= 0 && f->rip - TS_TEXT < TS_TEXT_SIZE)
		sigreturn(f);
	if (f->rip - (TS_TEXT + TS_E_ATOMIC) < TS_E_ATOMIC_END - TS_E_ATOMIC) {
		f->rip = TS_TEXT + TS_E_ATOMIC_FAULT;
		sigreturn(f);
	}
	a->kind = (uint32_t)sig;
	a->frame = (uint32_t)((uint64_t)f - (uint64_t)a);
	post(a);
	serve(a, !(sig == SIGSYS_ && is_slow(f->sys_nr)));
	sigreturn(f);
}

void ts_thread_main(struct ts_area *a)
{
	serve(a, 0);
	sigreturn((struct ts_frame *)((char *)a + a->frame));
}
