/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trap platform: running guest threads, and the interface's table. See platform/trap.h.
 *
 * Theory of operation: run() writes the registers into the signal frame of the stopped thread,
 * replies, and parks its fiber until the thread posts its next request; then it reads that frame,
 * once, into private memory. What brought the thread to the handler is told by the signal:
 *
 * SIGSYS: a syscall. The number is in the siginfo, registers are as the syscall instruction left
 * them. From int 0x80 the architecture differs. A call through the vsyscall page has an address
 * there, and the host has popped the return address.
 *
 * SIGURG: an interrupt. Others: the guest's own fault, with what the host says of it.
 */
#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include "base/clock.h"
#include "platform/host_ptrace.h"
#include "platform/host_trap.h"
#include "platform/notify.h"
#include "platform/stub_files.h"
#include "platform/trap.h"
#include "platform/trap_site.h"

#define USER_CS 0x33
#define USER_SS 0x2b
#define FLAG_TF 0x100u
/* CF PF AF ZF SF TF DF OF RF AC: what a guest may set through us. */
#define FLAGS_USER 0x00050dd5ull
#define TASK_SIZE_MAX_ 0x7ffffffff000ull

struct ts_frame *tr_frame(struct pf_thread *t)
{
	return (struct ts_frame *)((char *)t->area + t->frame);
}

/* --- Registers --- */

static void regs_to_frame(struct ts_frame *f, const struct pf_regs *r)
{
	f->r8 = r->r8;
	f->r9 = r->r9;
	f->r10 = r->r10;
	f->r11 = r->r11;
	f->r12 = r->r12;
	f->r13 = r->r13;
	f->r14 = r->r14;
	f->r15 = r->r15;
	f->rdi = r->rdi;
	f->rsi = r->rsi;
	f->rbp = r->rbp;
	f->rbx = r->rbx;
	f->rdx = r->rdx;
	f->rax = r->rax;
	f->rcx = r->rcx;
	f->rsp = r->rsp;
	f->rip = r->rip;
	f->eflags = (r->eflags & FLAGS_USER) | 0x202;
	f->cs = USER_CS;
	f->ss = USER_SS;
	f->gs = 0;
	f->fs = 0;
	f->sigmask = TS_GUEST_SIGMASK; /* it may have come by a frame of its own that blocks more */
}

void tr_regs_from_frame(struct pf_regs *r, const struct ts_frame *f)
{
	r->r8 = f->r8;
	r->r9 = f->r9;
	r->r10 = f->r10;
	r->r11 = f->r11;
	r->r12 = f->r12;
	r->r13 = f->r13;
	r->r14 = f->r14;
	r->r15 = f->r15;
	r->rdi = f->rdi;
	r->rsi = f->rsi;
	r->rbp = f->rbp;
	r->rbx = f->rbx;
	r->rdx = f->rdx;
	r->rax = f->rax;
	r->rcx = f->rcx;
	r->rsp = f->rsp;
	r->rip = f->rip;
	r->eflags = f->eflags;
	r->cs = f->cs;
	r->ss = f->ss;
	r->ds = r->es = r->fs = r->gs = 0;
	r->orig_rax = (uint64_t)-1;
}

/* --- Requests and replies --- */

void tr_reply(struct pf_thread *t, uint32_t cmd)
{
	const uint32_t spin = tr_guest_spin();

	tr_replied(t);
	/* All in one line, at once: the guest looks at it all the time. */
	t->area->spin = spin;
	t->area->cmd = cmd;
	t->area->rax = t->rax;
	if (unlikely(g_pf_stamps))
		t->replied = __builtin_ia32_rdtsc();
	if (atomic_exchange(&t->area->state, TS_GUEST) == TS_WAITS)
		pf_host_futex_wake_shared(&t->area->state);
}

static int await_post(struct pf_thread *t, bool soon, const _Atomic bool *note,
		      uint64_t deadline_ns)
{
	struct tr_wait w = {
		.word = &t->area->state,
		.dead = &t->as->dead,
		.gone = &t->gone,
		.thread = t,
		.note = note,
		.guest = true,
		.soon = soon,
	};
	int r = tr_await(&w, deadline_ns);

	if (r < 0)
		return r;
	if (atomic_load(&t->as->dead) || atomic_load(&t->gone)) {
		atomic_store(&t->state, TR_DEAD);
		return -ESRCH;
	}
	if (unlikely(g_pf_stamps))
		t->seen = __builtin_ia32_rdtsc();
	if (unlikely(__atomic_load_n(&t->area->preempted, __ATOMIC_RELAXED) != 0)) {
		__atomic_store_n(&t->area->preempted, 0, __ATOMIC_RELAXED);
		tr_note_guest_preempted();
	}
	tr_taken(t);
	return 0;
}

int tr_await_post(struct pf_thread *t, bool soon, uint64_t deadline_ns)
{
	return await_post(t, soon, NULL, deadline_ns);
}

int tr_await_note(struct pf_thread *t, const _Atomic bool *note)
{
	return await_post(t, false, note, DEADLINE_NONE);
}

int tr_await_soon(struct pf_thread *t)
{
	int r = tr_await_post(t, true, clock_mono_ns() + TR_PATIENCE_NS);

	if (r == -ETIMEDOUT) {
		/* Another thread of the guest's has scribbled over the area. */
		tr_as_kill(t->as);
		r = tr_await_post(t, true, DEADLINE_NONE);
	}
	return r;
}

int tr_command(struct pf_thread *t, uint32_t cmd)
{
	if (atomic_load(&t->state) != TR_STOPPED)
		return -ESRCH;
	tr_flush(t->as);
	tr_reply(t, cmd);
	return tr_await_soon(t);
}

static struct ts_fast *fast_of(struct pf_thread *t)
{
	return (struct ts_fast *)((char *)t->area + TS_A_FAST);
}

void tr_bases_read(struct pf_thread *t)
{
	uint64_t gs;

	if (!g_tr_bases)
		return;
	t->fs_base = __atomic_load_n(&t->area->fs_now, __ATOMIC_RELAXED);
	gs = __atomic_load_n(&t->area->gs_now, __ATOMIC_RELAXED);
	t->gs_base = gs == t->area_addr ? 0 : gs;
}

static bool has_more_arguments(uint32_t nr)
{
	return !g_pf_argc || nr >= PF_MARSHAL_CALLS || g_pf_argc[nr] > 4 ||
	       /* The times that a benchmark hands in. */
	       g_pf_stamps;
}

/* All registers of a call from a rewritten site, but for its number and arguments, which are known.
 */
static void read_fast(struct pf_thread *t)
{
	struct pf_regs *f = &t->fast_regs;
	struct ts_fast_regs r;

	copy_once(&r, &fast_of(t)->regs, sizeof(r));
	if (!has_more_arguments((uint32_t)f->orig_rax)) {
		f->r8 = r.r8;
		f->r9 = r.r9;
	}
	f->rbx = r.rbx;
	f->rbp = r.rbp;
	f->r12 = r.r12;
	f->r13 = r.r13;
	f->r14 = r.r14;
	f->r15 = r.r15;
	f->rsp = r.rsp;
	f->rcx = f->rip = r.after;
	f->r11 = f->eflags = r.flags;
	f->cs = USER_CS;
	f->ss = USER_SS;
	f->ds = f->es = f->fs = f->gs = 0;
	t->fast_read = true;
}

/* A call from a rewritten site. The lines with its other registers are not fetched unless somebody
 * asks for those (tr_regs_get). */
static void take_fast(struct pf_thread *t, uint32_t kind, struct pf_regs *regs,
		      struct pf_trap *trap)
{
	const uint32_t number = kind >> TS_KIND_NUMBER_SHIFT;
	struct ts_fast_regs *r = &fast_of(t)->regs;
	struct pf_regs *f = &t->fast_regs;

	if (likely(number != 0)) {
		f->orig_rax = number - 1;
		f->rdi = __atomic_load_n(&t->area->arg[0], __ATOMIC_RELAXED);
		f->rsi = __atomic_load_n(&t->area->arg[1], __ATOMIC_RELAXED);
		f->rdx = __atomic_load_n(&t->area->arg[2], __ATOMIC_RELAXED);
		f->r10 = __atomic_load_n(&t->area->arg[3], __ATOMIC_RELAXED);
	} else {
		f->orig_rax = (uint32_t)__atomic_load_n(&r->nr, __ATOMIC_RELAXED);
		f->rdi = __atomic_load_n(&r->rdi, __ATOMIC_RELAXED);
		f->rsi = __atomic_load_n(&r->rsi, __ATOMIC_RELAXED);
		f->rdx = __atomic_load_n(&r->rdx, __ATOMIC_RELAXED);
		f->r10 = __atomic_load_n(&r->r10, __ATOMIC_RELAXED);
	}
	f->r8 = f->r9 = 0;
	if (has_more_arguments((uint32_t)f->orig_rax)) {
		f->r8 = __atomic_load_n(&r->r8, __ATOMIC_RELAXED);
		f->r9 = __atomic_load_n(&r->r9, __ATOMIC_RELAXED);
	}
	if (unlikely(ts_uses_bases((uint32_t)f->orig_rax)))
		tr_bases_read(t);
	regs->orig_rax = f->orig_rax;
	regs->rdi = f->rdi;
	regs->rsi = f->rsi;
	regs->rdx = f->rdx;
	regs->r10 = f->r10;
	regs->r8 = f->r8;
	regs->r9 = f->r9;
	regs->rax = f->rax = (uint64_t)-ENOSYS;
	regs->fs_base = f->fs_base = t->fs_base;
	regs->gs_base = f->gs_base = t->gs_base;
	t->fast = t->partial = true;
	t->fast_read = false;
	t->text_seq = t->as->text_seq;
	tr_windows_take(t, kind >> TS_KIND_WINDOWS_SHIFT & TS_KIND_WINDOWS_MASK);
	trap->kind = TRAP_SYSCALL;
}

int tr_regs_get(struct pf_thread *t, struct pf_regs *regs)
{
	const struct pf_regs known = *regs;

	if (!t->partial)
		return 0;
	if (!t->fast_read)
		read_fast(t);
	*regs = t->fast_regs;
	regs->rax = known.rax;
	regs->orig_rax = known.orig_rax;
	regs->fs_base = known.fs_base;
	regs->gs_base = known.gs_base;
	t->partial = false;
	return 0;
}

void tr_take_frame(struct pf_thread *t, struct ts_frame *f)
{
	const uint32_t off = __atomic_load_n(&t->area->frame, __ATOMIC_RELAXED);

	/* Anything but a frame of the host's is the guest's own fault: what it gets is nonsense. */
	t->frame = off >= TS_A_STACK && off <= TS_AREA_SIZE - sizeof(*f) && off % 8 == 0
			   ? off
			   : TS_A_NEW_FRAME;
	copy_once(f, tr_frame(t), sizeof(*f));
	t->fp_initial = f->fpstate == 0;
	t->fast = false;
}

/* Reads the request. True: nothing for the sentry; the thread goes on as its frame says. */
void tr_parts_start(void)
{
	tr_workers_init();
	tr_xstate_start();
	tr_agent_start();
	tr_space_start();
	tr_copy_start();
	tr_known_start();
}

static void forget_file(uint64_t key)
{
	pt_forget_file(key);
	tr_known_forget(key);
}

static bool take_request(struct pf_thread *t, struct pf_regs *regs, struct pf_trap *trap)
{
	const uint32_t kind = __atomic_load_n(&t->area->kind, __ATOMIC_RELAXED);
	struct ts_frame f;
	bool often;

	if (unlikely(t->noted)) {
		nt_take(t, regs, trap);
		return false;
	}
	if ((kind & TS_KIND_FAST) != 0) {
		take_fast(t, kind, regs, trap);
		return false;
	}
	tr_take_frame(t, &f);
	t->partial = false;
	tr_regs_from_frame(regs, &f);
	tr_bases_read(t);
	regs->rip = tr_site_canon(t->as, f.rip);
	regs->fs_base = t->fs_base;
	regs->gs_base = t->gs_base;
	/* Sent by somebody, not raised by the host: a guest has no host signals. */
	trap->kind = TRAP_INTERRUPT;
	if (f.sig_code <= 0)
		return false;
	switch (kind) {
	case SIGSYS:
		trap->kind = TRAP_SYSCALL;
		regs->orig_rax = (uint64_t)(uint32_t)f.sys_nr;
		regs->rax = (uint64_t)-ENOSYS;
		/* The processor has put it there. */
		if (f.rcx == f.rip)
			regs->rcx = regs->rip;
		trap->i386 = f.sys_arch != AUDIT_ARCH_X86_64;
		trap->vsyscall = pf_vsyscall(f.fault_addr);
		if (!trap->i386 && f.rip < PF_GUEST_LIMIT && !g_nt_on)
			trap->hot = tr_site_hit(t->as, regs->rip - TR_SYSCALL_SIZE);
		break;
	case SIGSEGV:
	case SIGBUS:
	case SIGILL:
	case SIGFPE:
	case SIGTRAP:
		if (tr_site_fault(t->as, f.rip, (int)kind, &often)) {
			if (often)
				tr_rewrite_undo(t->as, f.rip);
			return true;
		}
		if (kind == SIGTRAP && (f.eflags & FLAG_TF) && tr_site_stepped(t->as, f.rip, regs))
			return true;
		trap->kind = TRAP_FAULT;
		trap->signo = (int)kind;
		trap->code = f.sig_code;
		/* Of some it is the instruction's. */
		trap->addr = f.fault_addr == f.rip ? regs->rip : f.fault_addr;
		trap->error_code = f.err;
		trap->trapno = f.trapno;
		break;
	default:
		break;
	}
	return false;
}

int tr_need_frame(struct pf_thread *t)
{
	struct ts_frame f;
	int r;

	if (likely(!(t->fast | t->noted)))
		return 0;
	if (t->noted)
		return nt_need_frame(t);
	tr_windows_flush(t);
	if (!t->fast_read)
		read_fast(t);
	fast_of(t)->rax = t->fast_regs.rax;
	fast_of(t)->resume = tr_site_resume(t->as, t->fast_regs.rip);
	r = tr_command(t, TS_CMD_FRAME);
	if (r < 0)
		return r;
	tr_take_frame(t, &f);
	return 0;
}

static bool text_seen(const struct pf_thread *t)
{
	return t->text_seq == atomic_load_explicit(&t->as->text_seq, memory_order_relaxed);
}

/* Has a call from a rewritten site, or a notification, left alone what the stub does not load
 * (fast_entry.S)? */
static bool can_leave_fast(const struct pf_thread *t, const struct pf_regs *r)
{
	const struct pf_regs *f = &t->fast_regs;

	/* Nearly always, so no early way out. */
	return ((r->r15 ^ f->r15) | (r->r14 ^ f->r14) | (r->r13 ^ f->r13) | (r->r12 ^ f->r12) |
		(r->rbp ^ f->rbp) | (r->r11 ^ f->r11) | (r->eflags ^ f->eflags) |
		/* The way out of the stub leads through GS. */
		(r->gs_base ^ t->gs_base)) == 0 &&
	       text_seen(t);
}

/* Is the result all that has changed, but for FS? */
static bool only_rax(const struct pf_thread *t, const struct pf_regs *r)
{
	const struct pf_regs *f = &t->fast_regs;

	return ((r->rbx ^ f->rbx) | (r->r10 ^ f->r10) | (r->r9 ^ f->r9) | (r->r8 ^ f->r8) |
		(r->rcx ^ f->rcx) | (r->rdx ^ f->rdx) | (r->rsi ^ f->rsi) | (r->rdi ^ f->rdi) |
		(r->rip ^ f->rip) | (r->rsp ^ f->rsp)) == 0 &&
	       can_leave_fast(t, r);
}

/* The call's thread goes on elsewhere: mostly in a signal's handler. */
static void leave_fast(struct pf_thread *t, const struct pf_regs *r)
{
	struct ts_fast *fast = fast_of(t);

	fast->regs.rdi = r->rdi;
	fast->regs.rsi = r->rsi;
	fast->regs.rdx = r->rdx;
	fast->regs.r10 = r->r10;
	fast->regs.r8 = r->r8;
	fast->regs.r9 = r->r9;
	fast->regs.rbx = r->rbx;
	fast->regs.rsp = r->rsp;
	fast->regs.after = r->rcx;
	fast->resume = tr_site_resume(t->as, r->rip);
}

static uint64_t base_ok(uint64_t base, uint64_t old)
{
	/* A guest with wrfsbase can have what the host does not take from us. */
	return base < TASK_SIZE_MAX_ ? base : old;
}

static bool same_bases(const struct pf_thread *t, const struct pf_regs *regs)
{
	return base_ok(regs->fs_base, t->fs_base) == t->fs_base &&
	       base_ok(regs->gs_base, t->gs_base) == t->gs_base;
}

static uint32_t set_bases(struct pf_thread *t, const struct pf_regs *regs)
{
	const uint64_t fs = base_ok(regs->fs_base, t->fs_base);
	const uint64_t gs = base_ok(regs->gs_base, t->gs_base);
	uint32_t cmd = 0;

	if (fs != t->fs_base) {
		t->area->fs_base = t->fs_base = fs;
		cmd |= TS_CMD_SET_FS;
	}
	if (gs != t->gs_base) {
		t->gs_base = gs;
		/* 0 is as good as any other for a guest that does not use it. */
		t->area->gs_base = gs ? gs : t->area_addr;
		fast_of(t)->gs_is_guests = gs != 0;
		cmd |= TS_CMD_SET_GS;
	}
	return cmd;
}

void tr_signal_thread(struct pf_thread *t)
{
	int r;

	if (!tr_as_enter(t->as))
		return;
	/* Before it has told who it is, a process has no other thread that takes signals. */
	if (likely(t->tid != 0))
		r = pf_host_signal_thread(t->as->pid, t->tid, TS_INTERRUPT_SIGNAL);
	else
		r = pf_host_kill(t->as->pid, TS_INTERRUPT_SIGNAL);
	tr_as_leave(t->as);
	if (r == -ESRCH) {
		atomic_store(&t->gone, true);
		tr_kick_all();
	}
}

static bool settle(struct pf_thread *t)
{
	int r;

	if (likely(t->tid != 0))
		return true;
	fmutex_lock(&t->as->orders_lock);
	r = tr_settle_locked(t->as);
	fmutex_unlock(&t->as->orders_lock);
	return r == 0 && t->tid != 0;
}

/* Puts @regs where the thread will load them from. False: it is dead. */
static bool put_regs(struct pf_thread *t, struct pf_regs *regs)
{
	if (likely(t->partial)) {
		/* Nothing but rax has been changed, nor FS or GS that matter to the stub. */
		if (likely(t->fast && regs->gs_base == t->gs_base && text_seen(t))) {
			t->rax = regs->rax;
			return true;
		}
		if (t->noted && only_rax(t, regs) && same_bases(t, regs))
			return true;
		if ((g_nt_on ? nt_regs_get(t, regs) : tr_regs_get(t, regs)) < 0)
			return false;
	}
	if (t->fast) {
		if (likely(only_rax(t, regs))) {
			t->rax = regs->rax;
			return true;
		}
		/* Its bytes are copied out by the sentry: who knows where the guest goes on. */
		if (can_leave_fast(t, regs)) {
			tr_windows_flush(t);
			leave_fast(t, regs);
			t->rax = regs->rax;
			return true;
		}
		if (tr_need_frame(t) < 0)
			return false;
	}
	regs_to_frame(tr_frame(t), regs);
	tr_frame(t)->rip = tr_site_resume(t->as, regs->rip);
	return true;
}

/* @regs are where the thread will load them from, and nobody is changing its text. False: it is
 * dead.
 */
static bool make_ready(struct pf_thread *t, struct pf_regs *regs)
{
	struct pf_as *as = t->as;

	for (;;) {
		if (unlikely(as->holder != NULL))
			(void)wait_event(&as->held, as->holder == NULL, DEADLINE_NONE, WAIT_UNINTR);
		if (!put_regs(t, regs))
			return false;
		if (likely(as->holder == NULL))
			return true;
	}
}

static void ran(struct pf_as *as)
{
	if (--as->running == 0 && unlikely(as->holder != NULL))
		fiber_wake(as->holder);
}

/* If it fails, the thread is dead, which whoever waits for it will see. */
static void answer_notice(struct pf_thread *t, struct pf_regs *regs)
{
	if (likely(nt_answer(t, regs->rax) != 1))
		return;
	if (put_regs(t, regs))
		tr_reply(t, 0);
}

/* What a thread has run for, of @cycles between its reply and @now. In a crowd it waits for a CPU
 * first, and then perhaps for us: how long is not known. */
static uint64_t run_of(const struct pf_thread *t, uint64_t now, uint64_t cycles)
{
	bool queue;

	if (!tr_crowded(&queue))
		return cycles;
	if (queue)
		return MIN(cycles, (uint64_t)t->run_cycles / 2);
	return MIN(cycles, now - __atomic_load_n(&t->area->resumed, __ATOMIC_RELAXED));
}

void tr_run(struct pf_thread *t, struct pf_regs *regs, struct pf_trap *trap)
{
	struct pf_as *as = t->as;
	uint64_t start;
	uint32_t cmd;
	bool again;

	memset(trap, 0, sizeof(*trap));
	trap->kind = TRAP_DEAD;
	if (atomic_load(&t->state) != TR_STOPPED)
		return;
	tr_parent_back(t);
	/* A new process's first thread runs before anybody has heard of it. */
	if (((t->has_run || unlikely(g_nt_on)) && !settle(t)) ||
	    (unlikely(g_nt_on) && !t->listed && nt_thread_add(t) < 0)) {
		atomic_store(&t->state, TR_DEAD);
		return;
	}
	if (fiber_self())
		fiber_set_local(fiber_self(), t);
	do {
		if (!make_ready(t, regs)) {
			atomic_store(&t->state, TR_DEAD);
			trap->kind = TRAP_DEAD;
			return;
		}
		cmd = set_bases(t, regs);
		/* See trap.h for the order of these. */
		atomic_store(&t->state, TR_RUNNING);
		if (unlikely(atomic_load(&t->interrupt))) {
			atomic_store(&t->state, TR_STOPPED);
			atomic_store(&t->interrupt, false);
			/* The bases are to be set still. */
			if (cmd & TS_CMD_SET_FS)
				t->fs_base = UINT64_MAX;
			if (cmd & TS_CMD_SET_GS)
				t->gs_base = UINT64_MAX;
			trap->kind = TRAP_INTERRUPT;
			return;
		}
		t->has_run = true;
		atomic_store_explicit(&t->run_seq, t->run_seq + 1, memory_order_relaxed);
		tr_before_run(t);
		if (t->fast)
			tr_windows_reply(t);
		if (unlikely(t->noted)) {
			as->running++;
			answer_notice(t, regs);
		} else if (unlikely(atomic_load(&t->as->deferred) == t)) {
			tr_reply_deferred(t, cmd);
		} else {
			as->running++;
			tr_reply(t, cmd);
		}
		if (unlikely(atomic_load(&t->interrupt)))
			tr_signal_thread(t);
		start = __builtin_ia32_rdtsc();
		worker_do_later();
		if ((unlikely(g_nt_on)
			     ? nt_await(t)
			     : tr_await_post(t, t->run_cycles < TR_SHORT_RUN, DEADLINE_NONE)) < 0) {
			ran(as);
			(void)settle(t); /* tells why, if it has never run */
			trap->kind = TRAP_DEAD;
			return;
		}
		ran(as);
		if (!settle(t)) {
			atomic_store(&t->state, TR_DEAD);
			trap->kind = TRAP_DEAD;
			return;
		}
		const uint64_t now = __builtin_ia32_rdtsc();

		atomic_store_explicit(&t->ran_cycles, t->ran_cycles + (now - start),
				      memory_order_relaxed);
		start = run_of(t, now, now - start);
		/* A moving average over some eight runs; one long run counts for at most that many.
		 */
		t->run_cycles +=
			(uint32_t)(MIN(start, (uint64_t)8 * TR_SHORT_RUN) / 8) - t->run_cycles / 8;
		/* Who interrupts meanwhile sends a signal for nothing: see trap.h. */
		atomic_store_explicit(&t->state, TR_STOPPED, memory_order_release);
		again = take_request(t, regs, trap);
		/* A signal that came late: the interrupt it was for has been seen already. */
	} while (again || (trap->kind == TRAP_INTERRUPT && !atomic_exchange(&t->interrupt, false)));
	tr_answers_told(t, trap);
	if (trap->kind == TRAP_SYSCALL) {
		t->last_nr = (uint32_t)regs->orig_rax;
		if (t->last_nr == SYS_wait4 || t->last_nr == SYS_waitid)
			tr_parent_waits(t);
	}
}

/* --- Interrupts that are not heeded --- */

#define WATCH_NS UINT64_C(200000000)
#define WATCH_LOOKS (TR_PATIENCE_NS / WATCH_NS)
/* A thread that runs guest code sleeps only for the agent, or as long as it takes to wake it. */
#define WATCH_SLEEPS 5
/* One that runs has the interrupt at its next tick. */
#define WATCH_TICKS 50u

static void watch_begin(struct pf_thread *t)
{
	t->watch_seq = atomic_load(&t->run_seq);
	t->looks = t->sleeps = 0;
	timer_arm(&t->watch, clock_mono_ns() + WATCH_NS);
}

static bool unheeded(struct pf_thread *t)
{
	return atomic_load(&t->state) == TR_RUNNING && atomic_load(&t->interrupt) &&
	       !atomic_load(&t->as->dead) && !atomic_load(&t->gone);
}

static void on_watch(struct timer *timer)
{
	struct pf_thread *t = container_of(timer, struct pf_thread, watch);
	uint64_t ticks = 0;
	char state;

	if (!unheeded(t)) {
		atomic_store(&t->watched, false);
		/* Unless one came just now. */
		if (unheeded(t) && !atomic_exchange(&t->watched, true))
			watch_begin(t);
		return;
	}
	if (atomic_load(&t->run_seq) != t->watch_seq) {
		watch_begin(t);
		return;
	}
	state = tr_host_state(t, &ticks);
	if (t->looks == 0 || state == 0)
		t->watch_ticks = ticks;
	/* D: a page comes from a slow disk. T: somebody has stopped it from outside. */
	if (state != 'D' && state != 'T')
		t->looks++;
	/* With a notification under way it is the sentry that is late. */
	t->sleeps = state == 'S' && !atomic_load(&t->note_here) && !tr_agent_works(t->as)
			    ? t->sleeps + 1
			    : 0;
	/* Z: ended, which a process's first thread can without leaving its number. */
	if (state == 'Z' || t->sleeps >= WATCH_SLEEPS || t->looks >= WATCH_LOOKS ||
	    ticks - t->watch_ticks >= WATCH_TICKS) {
		tr_as_kill(t->as);
		atomic_store(&t->watched, false);
		return;
	}
	timer_arm(timer, clock_mono_ns() + WATCH_NS);
}

void tr_watch_init(struct pf_thread *t)
{
	timer_init(&t->watch, on_watch);
}

void tr_interrupt(struct pf_thread *t)
{
	atomic_store(&t->interrupt, true);
	if (atomic_load(&t->state) != TR_RUNNING)
		return;
	tr_signal_thread(t);
	if (!atomic_exchange(&t->watched, true))
		watch_begin(t);
}

/* Without the guest's thread, and so atomic only against the sentry. */
static int atomic_by_copy(struct pf_thread *t, gaddr_t addr, enum atomic_op op, uint32_t arg,
			  uint32_t cmp, uint32_t *old)
{
	uint32_t v = 0;

	if (tr_copy_in(t->as, &v, addr, sizeof(v)) != sizeof(v))
		return -EFAULT;
	*old = v;
	switch (op) {
	case ATOMIC_CMPXCHG:
		v = v == cmp ? arg : v;
		break;
	case ATOMIC_XCHG:
		v = arg;
		break;
	case ATOMIC_ADD:
		v += arg;
		break;
	case ATOMIC_OR:
		v |= arg;
		break;
	case ATOMIC_ANDN:
		v &= ~arg;
		break;
	case ATOMIC_XOR:
		v ^= arg;
		break;
	}
	return tr_copy_out(t->as, addr, &v, sizeof(v)) == sizeof(v) ? 0 : -EFAULT;
}

int tr_atomic32(struct pf_thread *t, gaddr_t addr, enum atomic_op op, uint32_t arg, uint32_t cmp,
		uint32_t *old)
{
	struct ts_area *a = t->area;

	if (addr.a > PF_GUEST_LIMIT - sizeof(uint32_t) || addr.a % sizeof(uint32_t) != 0)
		return -EFAULT;
	if (!settle(t))
		return -EFAULT;
	/* Before its first run it blocks all signals, and a fault would kill it. The task that it
	 * belongs to has not begun, so nobody but a test asks for this. */
	if (!t->has_run)
		return atomic_by_copy(t, addr, op, arg, cmp, old);
	if (t->noted && tr_need_frame(t) < 0)
		return -EFAULT;
	a->atomic_addr = addr.a;
	a->atomic_op = op;
	a->atomic_arg = op == ATOMIC_ANDN ? ~arg : arg;
	a->atomic_cmp = cmp;
	a->atomic_failed = 1;
	if (tr_command(t, TS_CMD_ATOMIC) < 0)
		return -EFAULT;
	*old = __atomic_load_n(&a->atomic_old, __ATOMIC_RELAXED);
	return __atomic_load_n(&a->atomic_failed, __ATOMIC_RELAXED) ? -EFAULT : 0;
}

static void tr_stamps(struct pf_thread *t, struct pf_stamps *out)
{
	const struct ts_area *a = t->area;

	*out = (struct pf_stamps){
		.way = t->fast ? PF_WAY_REWRITTEN : PF_WAY_SIGNAL,
		.entered = __atomic_load_n(&a->entered, __ATOMIC_RELAXED),
		.posted = __atomic_load_n(&a->posted, __ATOMIC_RELAXED),
		.seen = t->seen,
		.replied = t->replied,
		.back = __atomic_load_n(&a->back, __ATOMIC_RELAXED),
		.left = __atomic_load_n(&a->left, __ATOMIC_RELAXED),
	};
}

struct pf_as *tr_thread_as(struct pf_thread *t)
{
	return t->as;
}

struct worker *tr_as_home(struct pf_as *as)
{
	return as->home;
}

static const struct worker_ops *tr_worker_ops(void)
{
	return &g_tr_worker_ops;
}

static int tr_probe(struct err *e)
{
	return pf_host_probe_trap(e);
}

const struct platform platform_trap = {
	.name = "trap",
	.summary = "seccomp traps and shared pages; no tracer; fast where a core is free",
	.probe = tr_probe,
	.worker_ops = tr_worker_ops,
	.prepare_probes = true,
	.prepare = tr_prepare,
	.start = tr_start,
	.stop = tr_stop,
	.end = tr_end,
	.as_new = tr_as_new,
	.as_fork = tr_as_fork,
	.will_execute = tr_will_execute,
	.thread_new = tr_thread_new,
	.thread_free = tr_thread_free,
	.as_get = tr_as_get,
	.as_put = tr_as_put,
	.thread_as = tr_thread_as,
	.as_home = tr_as_home,
	.run = tr_run,
	.regs_get = tr_regs_get,
	.interrupt = tr_interrupt,
	.xstate_get = tr_xstate_get,
	.xstate_set = tr_xstate_set,
	.xstate_size = tr_xstate_size,
	.xstate_put = tr_xstate_put,
	.xstate_reset = tr_xstate_reset,
	.map = tr_map,
	.space = tr_space,
	.space_over = tr_space_over,
	.rewrite = tr_rewrite,
	.rewrite_room = tr_rewrite_room,
	.forget_file = forget_file,
	.answers_begin = tr_answers_begin,
	.answers_end = tr_answers_end,
	.answers_actions = tr_answers_actions,
	.told_robust = tr_told_robust,
	.answers_stale = tr_answers_stale,
	.read_marks = tr_answers_marks,
	.read_due = tr_read_due,
	.read_publish = tr_read_publish,
	.told_reads = tr_told_reads,
	.futex_counts = tr_futex_counts,
	.futex_wake_direct = tr_futex_wake_direct,
	.asleep = tr_asleep,
	.stats = tr_stats,
	.stamps = tr_stamps,
	.give = tr_give,
	.carried_str = tr_carried_str,
	.copy_in = tr_copy_in,
	.copy_out = tr_copy_out,
	.copy_force = tr_copy_force,
	.atomic32 = tr_atomic32,
	.resident = tr_resident,
	.mem_stats = tr_mem_stats,
	.usage = tr_usage,
	.cpu_times = tr_cpu_times,
};
