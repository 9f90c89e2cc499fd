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
#include "platform/stub_trap/guest.h"

enum { SIGTRAP_ = 5, SIGBUS_ = 7, SIGSEGV_ = 11, SIGSYS_ = 31 };
enum { FUTEX_WAIT_ = 0, FUTEX_WAKE_ = 1 };
/* So often who spins looks between two pauses. */
enum { LOOKS = 64 };
/* Cycles: for calls that take long without waiting for anybody, while others spin a quarter. */
enum { TS_LONG_SPIN = 480000 };
enum { FLAG_TF = 0x100, FLAG_RF = 0x10000 };

void ts_on_signal(int sig, void *si, void *uc) __attribute__((noreturn));
void ts_thread_main(struct ts_area *a) __attribute__((noreturn));

static void sigreturn(struct ts_frame *f) __attribute__((noreturn));
static void sigreturn(struct ts_frame *f)
{
	__asm__ volatile("movq %0, %%rsp\n\tjmp ts_call_insn"
			 :
			 : "r"(&f->uc_flags), "a"((long)TS_NR_SIGRETURN)
			 : "memory");
	__builtin_unreachable();
}

void ts_post(struct ts_area *a, uint32_t kind)
{
	if ((uint32_t)atomic_exchange(&a->post, (uint64_t)kind << 32 | TS_POSTED) == TS_BELL)
		ts_call(TS_NR_FUTEX, (uint64_t)&a->state, FUTEX_WAKE_, 1, 0);
}

static int replied(struct ts_area *a)
{
	const uint32_t s = atomic_load_explicit(&a->state, memory_order_acquire);

	return s != TS_POSTED && s != TS_WAITS;
}

/* Syscalls that are there to wait, or whose reply takes long: not worth spinning for. */
int ts_is_slow(int32_t nr)
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
		const uint64_t start = ts_cycles();
		uint64_t last = start, now;

		do {
			/* Nearly all replies come while it looks without a pause, which may take
			 * as long as the reply's way. */
			for (int i = 0; i < LOOKS; i++) {
				if (replied(a))
					return;
			}
			/* The sentry says that it will take long. */
			if (atomic_load_explicit(&a->state, memory_order_relaxed) == TS_WAITS)
				break;
			__builtin_ia32_pause();
			now = ts_cycles();
			if (now - last > TS_BLINK) {
				a->resumed = now;
				if (now - last > TS_GAP)
					a->preempted = 1;
			}
			last = now;
		} while (now - start < budget);
	}
	while (!replied(a)) {
		uint32_t expect = TS_POSTED;

		(void)atomic_compare_exchange_strong(&a->state, &expect, TS_WAITS);
		ts_call(TS_NR_FUTEX, (uint64_t)&a->state, FUTEX_WAIT_, TS_WAITS, 0);
		a->resumed = ts_cycles();
	}
}

/* Hands over to the agent, and waits for it. A thread of the same address space, on the same CPU:
 * that is the cheapest way. */
static void hop(struct ts_area *a, uint32_t cmd)
{
	if (cmd & TS_CMD_RING)
		ts_call(TS_NR_FUTEX, TS_ORDERS + TS_O_SEQ, FUTEX_WAKE_, 1, 0);
	while (atomic_load_explicit(&a->hop, memory_order_acquire) != TS_HOP_DONE) {
		uint32_t expect = TS_HOP_PENDING;

		(void)atomic_compare_exchange_strong(&a->hop, &expect, TS_HOP_SLEEPS);
		ts_call(TS_NR_FUTEX, (uint64_t)&a->hop, FUTEX_WAIT_, TS_HOP_SLEEPS, 0);
	}
}

/* Makes the agent. The host is out of threads: as if out of memory. */
static void make_agent(void)
{
	long ret;
	register uint64_t r10 __asm__("r10") = 0;

	__asm__ volatile("call ts_gate_insn"
			 : "=a"(ret)
			 : "0"((long)TS_NR_CLONE), "D"((long)TS_CLONE_AGENT), "S"(TS_NO_STACK),
			   "d"(0L), "r"(r10)
			 : "rcx", "r8", "r11", "memory", "cc");
	if (ret < 0)
		__builtin_trap();
	((struct ts_area *)TS_AREAS)->agent_tid = (uint32_t)ret;
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

/* Fresh memory, or less of it, or for other uses. The host is out of memory if that fails: nobody
 * waits to hear of it.
 */
static void own_map(struct ts_area *a, uint32_t cmd)
{
	const uint64_t addr = a->atomic_addr;
	long r;

	if (cmd & TS_CMD_UNMAP)
		r = ts_call(TS_NR_MUNMAP, addr, a->atomic_arg, 0, 0);
	else if (cmd & TS_CMD_PROTECT)
		r = ts_call(TS_NR_MPROTECT, addr, a->atomic_arg, a->atomic_op, 0);
	else
		r = ts_map(addr, a->atomic_arg) - (long)addr;
	if (r != 0)
		__builtin_trap();
}

/* A signal's frame, up to the header of its vector state, which is still the thread's: no code here
 * touches it. What the host would write: all of it, and that x87 and SSE are there. The handler
 * begins with none. */
static void save_state(struct ts_area *a)
{
	const uint64_t to = a->atomic_addr, size = a->atomic_arg, at = to + size - TS_XSAVE_HEAD;
	const uint32_t magic2 = 0x46505845;
	uint64_t in_use = 0;

	if (ts_copy((void *)to, (uint8_t *)a + TS_A_WINDOW, size) != 0 ||
	    ts_xsave((void *)at, a->atomic_op) != 0 ||
	    ts_copy(&in_use, (const void *)(at + 512), sizeof(in_use)) != 0)
		return;
	in_use |= 3;
	if (ts_copy((void *)(at + 512), &in_use, sizeof(in_use)) == 0 &&
	    ts_copy((void *)(at + a->atomic_cmp), &magic2, sizeof(magic2)) == 0) {
		/* Protection keys stay. */
		ts_xinit(a->atomic_op & ~(1u << 9));
		a->atomic_failed = 0;
	}
}

static uint32_t budget_of(int patience, uint32_t spin)
{
	switch (patience) {
	case TS_SLEEP:
		return 0;
	case TS_SPIN_BRIEFLY:
		return spin / 8;
	case TS_SPIN_LONG: /* in a crowd it is long anyway */
		return spin < TS_LONG_SPIN / 4 ? spin * 4 : spin;
	default:
		return spin;
	}
}

/* Until the sentry lets the guest run. */
void ts_serve(struct ts_area *a, int patience)
{
	uint32_t *spin = &ts_fast_of(a)->spin;

	for (;;) {
		uint32_t cmd;

		await(a, budget_of(patience, *spin));
		/* The next request may overwrite it. */
		*spin = a->spin;
		cmd = a->cmd;
		if (cmd & TS_CMD_EXIT)
			ts_call(TS_NR_EXIT, 0, 0, 0, 0);
		if (cmd & TS_CMD_FRAME)
			ts_fast_frame(a, TS_INTERRUPT_SIGNAL);
		if (cmd & TS_CMD_SET_FS)
			ts_call(TS_NR_ARCH_PRCTL, TS_ARCH_SET_FS, a->fs_base, 0, 0);
		if (cmd & TS_CMD_SET_GS)
			ts_call(TS_NR_ARCH_PRCTL, TS_ARCH_SET_GS, a->gs_base, 0, 0);
		if (cmd & TS_CMD_AGENT)
			make_agent();
		if (cmd & TS_CMD_HOP)
			hop(a, cmd);
		if (cmd & (TS_CMD_UNMAP | TS_CMD_MAP | TS_CMD_PROTECT))
			own_map(a, cmd);
		if (cmd & TS_CMD_WAKE)
			a->atomic_old = (uint32_t)ts_call(TS_NR_FUTEX, a->atomic_addr,
							  TS_FUTEX_WAKE_PRIVATE, a->atomic_arg, 0);
		if (cmd & TS_CMD_SAVE)
			save_state(a);
		if (!(cmd & (TS_CMD_ATOMIC | TS_CMD_AGAIN | TS_CMD_WAKE | TS_CMD_SAVE)))
			return;
		if (cmd & TS_CMD_ATOMIC)
			run_atomic(a);
		ts_post(a, a->kind);
	}
}

/* An interrupt came at @f->rip, in the code of calls that are answered without saving registers:
 * makes the frame say that the call is still to be made, or that it is done. False: it is
 * elsewhere. */
static int word_to_frame(struct ts_area *a, struct ts_frame *f)
{
	static const uint16_t number[] = {
#define X(name, nr, field, offset, index) nr,
		TS_WORDS(X)
#undef X
	};
	const uint64_t at = f->rip - (TS_TEXT + TS_WORD), off = at % TS_WORD_SIZE;

	if (f->rip >= (uint64_t)ts_fast_entry && f->rip < (uint64_t)ts_fast_enter) {
		f->rip = f->r11;
		return 1;
	}
	if (at >= sizeof(number) / sizeof(number[0]) * TS_WORD_SIZE)
		return 0;
	if (off < TS_WORD_TAIL) {
		f->rax = number[at / TS_WORD_SIZE];
		f->rip = f->r11;
		return 1;
	}
	if (off >= TS_WORD_STACK && off < TS_WORD_STACK_END)
		f->rsp = f->r11;
	f->r11 = f->eflags & ~(uint64_t)FLAG_RF;
	f->rip = ts_fast_of(a)->resume;
	return 1;
}

/* Is it there that GS is used first, by a call from a rewritten site? */
static int is_entry(uint64_t ip)
{
	const uint64_t at = ip - (TS_TEXT + TS_WORD);

	return ip == (uint64_t)ts_fast_entry ||
	       (at < TS_WORD_COUNT * TS_WORD_SIZE && at % TS_WORD_SIZE == 0);
}

/* GS does not lead to the area. Is that what the guest wants? 0 is as good as any other for one
 * that does not use it. */
static int gs_is_guests(const struct ts_area *a, const struct ts_fast *fast)
{
	if (ts_bases_are_free())
		return ts_gs() != 0 && ts_gs() != (uint64_t)a;
	return fast->gs_is_guests != 0;
}

/* A signal that found the thread in the stub's own code. False: @sig is the guest's affair all the
 * same. True: the frame is mended, go back. *kind: what to post it as. */
static int in_stub(struct ts_area *a, struct ts_frame *f, int sig, uint32_t *kind)
{
	struct ts_fast *fast = ts_fast_of(a);
	const uint64_t ip = f->rip;

	if (f->sig_code <= 0) {
		if (word_to_frame(a, f))
			return 0;
		/* An interrupt: the call that is being made asks the sentry anyway, or will on its
		 * way out; or it is done, all but for loading the registers. */
		if (ip >= (uint64_t)ts_fast_leave && ip < (uint64_t)ts_fast_leave_end) {
			ts_fast_to_frame(a, f);
			return 0;
		}
		atomic_store_explicit(&fast->intr, 1, memory_order_relaxed);
		if (atomic_load_explicit(&a->direct, memory_order_relaxed)) {
			/* It sleeps, or is about to: then it asks the sentry instead. */
			if (ip >= (uint64_t)ts_direct_wait && ip < (uint64_t)ts_direct_end) {
				f->rip = (uint64_t)ts_direct_abort;
			} else if (ip == TS_TEXT + TS_E_CALL) {
				f->rip = TS_TEXT + TS_GUEST_IP;
				f->rax = (uint64_t)-4;
			}
		}
		return 1;
	}
	if (sig == SIGSYS_ && ip == TS_TEXT + TS_GUEST_IP && f->sys_nr == TS_NR_FRAME) {
		ts_fast_to_frame(a, f);
		*kind = fast->frame_kind;
		return 0;
	}
	if (ip - (TS_TEXT + TS_E_ATOMIC) < TS_E_ATOMIC_END - TS_E_ATOMIC) {
		f->rip = TS_TEXT + TS_E_ATOMIC_FAULT;
		return 1;
	}
	if (ip - (TS_TEXT + TS_E_COPY) < TS_E_COPY_END - TS_E_COPY) {
		f->rip = TS_TEXT + TS_E_COPY_FAULT;
		return 1;
	}
	/* A guest that steps through its own code sees none of ours. */
	if (sig == SIGTRAP_ && (f->eflags & FLAG_TF))
		return 1;
	/* Nothing may be there (SIGSEGV), or a file's end, or nothing aligned (SIGBUS). */
	if ((sig == SIGSEGV_ || sig == SIGBUS_) && is_entry(ip)) {
		if (gs_is_guests(a, fast)) {
			f->rip = (uint64_t)ts_fast_slow;
		} else {
			ts_call(TS_NR_ARCH_PRCTL, TS_ARCH_SET_GS, (uint64_t)a, 0, 0);
		}
		return 1;
	}
	return 0;
}

void ts_on_signal(int sig, void *si, void *uc)
{
	struct ts_area *a = (struct ts_area *)((uint64_t)uc & ~(uint64_t)(TS_AREA_SIZE - 1));
	struct ts_frame *f = (struct ts_frame *)((char *)uc - 8);
	uint32_t kind = (uint32_t)sig;

	(void)si;
	if (f->rip - TS_TEXT < TS_TEXT_SIZE) {
		if (in_stub(a, f, sig, &kind))
			sigreturn(f);
	} else if (sig == SIGSYS_ && ts_answer_signal(a, f)) {
		sigreturn(f);
	}
	ts_stamp(&a->entered);
	a->frame = (uint32_t)((uint64_t)f - (uint64_t)a);
	ts_note_bases(a);
	ts_stamp(&a->posted);
	ts_post(a, kind);
	ts_serve(a, !(sig == SIGSYS_ && ts_is_slow(f->sys_nr)));
	ts_stamp(&a->back);
	a->left = a->back;
	sigreturn(f);
}

void ts_thread_main(struct ts_area *a)
{
	/* The first thread of a process has it from the agent. */
	if ((uint64_t)a != TS_AREAS)
		ts_call(TS_NR_ARCH_PRCTL, TS_ARCH_SET_GS, (uint64_t)a, 0, 0);
	ts_serve(a, 0);
	sigreturn((struct ts_frame *)((char *)a + a->frame));
}
