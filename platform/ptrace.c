/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ptrace platform: running guest threads, and the interface's table. See platform/ptrace.h.
 *
 * Theory of operation: run() sets the thread's registers, resumes it with PTRACE_SYSEMU (every
 *syscall instruction stops it and is skipped) and parks its fiber; the worker's idle or poll hook
 *sees the stop and wakes the fiber, which reads the registers and says why the guest came back:
 *
 *	SIGTRAP|0x80	  a syscall. Registers are as Linux's at entry: rax = -ENOSYS, orig_rax the
 *number. a signal	  the guest's own fault if si_code > 0; else somebody sent it, and it is
 *dropped: a guest has no host signals. PT_INTERRUPT_SIGNAL ends the run, if pf_interrupt was
 *called.
 *	SIGSYS		  a call through the vsyscall page, which PTRACE_SYSEMU does not see: the
 *stubs' seccomp filter turns it into this signal. The host has popped the return address.
 *	EVENT_STOP	  a SIGCONT from outside; resumed.
 *
 * A syscall by int 0x80 or sysenter looks the same, but for cs (sysenter) and for rcx and r11,
 *which the syscall instruction sets to rip and eflags. Only when those differ is the host asked. A
 *guest that sets them itself before int 0x80 gets the 64-bit call of that number: no more than it
 *can have anyway.
 *
 * Single steps: TF in the guest's own eflags works with PTRACE_SYSEMU as without a tracer (the trap
 *comes after the instruction that follows a syscall, as on Linux), so PTRACE_SYSEMU_SINGLESTEP is
 *not needed.
 *
 * Locking: none. interrupt() and run() meet in two atomics: run() announces GUEST and then looks at
 * interrupt; interrupt() sets it and then looks at the state.
 */
#include <errno.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include "platform/host_proc.h"
#include "platform/host_spawn.h"
#include "platform/ptrace.h"
#include "platform/x86_fault.h"

#define USER_CS 0x33
#define USER_SS 0x2b
/* CF PF AF ZF SF TF DF OF RF AC: what a guest may set through us. The host keeps IF and ID. */
#define FLAGS_USER 0x00050dd5ull
#define TASK_SIZE_MAX_ 0x7ffffffff000ull

#define STOP_SYSCALL (SIGTRAP | 0x80)
#define STOP_EVENT(stop) ((stop) >> 8)

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

static uint64_t selector(uint64_t sel)
{
	/* The host refuses one that is not of ring 3; loading it would fault, and leave 0. */
	return (sel & 3) == 3 && sel <= 0xffff ? sel : 0;
}

/* What the host may be asked to load of @regs. */
static void host_regs(const struct pf_thread *t, const struct pf_regs *regs, struct pf_regs *out)
{
	*out = *regs;
	out->cs = USER_CS;
	out->ss = USER_SS;
	out->ds = selector(regs->ds);
	out->es = selector(regs->es);
	out->fs = selector(regs->fs);
	out->gs = selector(regs->gs);
	out->eflags = (regs->eflags & FLAGS_USER) | 0x202;
	/* Never a restart of a host call. */
	out->orig_rax = (uint64_t)-1;
	/* A guest with wrfsbase can have what the host does not take from us. */
	if (out->fs_base >= TASK_SIZE_MAX_)
		out->fs_base = t->hw_valid && t->hw.fs_base < TASK_SIZE_MAX_ ? t->hw.fs_base : 0;
	if (out->gs_base >= TASK_SIZE_MAX_)
		out->gs_base = t->hw_valid && t->hw.gs_base < TASK_SIZE_MAX_ ? t->hw.gs_base : 0;
}

static bool is_i386(const struct pf_thread *t, const struct pf_regs *regs)
{
	if (likely(regs->rcx == regs->rip && regs->r11 == regs->eflags && regs->cs == USER_CS))
		return false;
	return pf_host_syscall_arch(t->tid) != AUDIT_ARCH_X86_64;
}

static bool get_regs(struct pf_thread *t, struct pf_regs *regs)
{
	t->hw_valid = pf_host_regs_get(t->tid, &t->hw) == 0;
	if (t->hw_valid)
		*regs = t->hw;
	return t->hw_valid;
}

static void explain(struct pf_thread *t, const struct pf_regs *regs, struct pf_trap *trap)
{
	uint8_t insn[X86_INSN_MAX];
	ssize_t n = pt_copy_in(t->as, insn, GADDR(regs->rip), sizeof(insn));

	x86_fault_explain(trap, regs, insn, n > 0 ? (size_t)n : 0);
	/* A page that was never touched is not present, whatever its protection. */
	if (trap->trapno == X86_FAULT_PAGE && trap->addr < PF_GUEST_LIMIT &&
	    (trap->error_code & X86_FAULT_PRESENT)) {
		uint8_t there = 1;

		if (pt_resident(t->as, page_down(trap->addr), 1, &there) == 0 &&
		    !(there & PF_PAGE_THERE))
			trap->error_code &= ~X86_FAULT_PRESENT;
	}
}

enum verdict { RESUME, TELL, TELL_DEAD };

static enum verdict on_signal(struct pf_thread *t, struct pf_regs *regs, struct pf_trap *trap)
{
	siginfo_t si;

	if (pf_host_siginfo(t->tid, &si) < 0)
		return TELL_DEAD;
	if (si.si_code <= 0) {
		if (t->stop != PT_INTERRUPT_SIGNAL || !atomic_exchange(&t->interrupt, false))
			return RESUME;
		trap->kind = TRAP_INTERRUPT;
		return get_regs(t, regs) ? TELL : TELL_DEAD;
	}
	if (!get_regs(t, regs))
		return TELL_DEAD;
	if (t->stop == SIGSYS && si.si_code == SYS_SECCOMP) {
		trap->kind = TRAP_SYSCALL;
		regs->orig_rax = (uint64_t)(unsigned)si.si_syscall;
		regs->rax = (uint64_t)-ENOSYS;
		trap->i386 = si.si_arch != AUDIT_ARCH_X86_64;
		trap->vsyscall = pf_vsyscall((uint64_t)si.si_call_addr);
		return TELL;
	}
	trap->kind = TRAP_FAULT;
	trap->signo = t->stop;
	trap->code = si.si_code;
	trap->addr = (uint64_t)si.si_addr;
	explain(t, regs, trap);
	return TELL;
}

/* The thread has stopped by t->stop. */
static enum verdict on_stop(struct pf_thread *t, struct pf_regs *regs, struct pf_trap *trap)
{
	if (t->stop == STOP_SYSCALL) {
		if (!get_regs(t, regs))
			return TELL_DEAD;
		trap->kind = TRAP_SYSCALL;
		trap->i386 = is_i386(t, regs);
		return TELL;
	}
	if (STOP_EVENT(t->stop) != 0)
		return RESUME;
	return on_signal(t, regs, trap);
}

static void pt_run(struct pf_thread *t, struct pf_regs *regs, struct pf_trap *trap)
{
	struct pf_regs want;
	enum verdict v;

	memset(trap, 0, sizeof(*trap));
	trap->kind = TRAP_DEAD;
	if (atomic_load(&t->state) != PT_STOPPED)
		return;
	host_regs(t, regs, &want);
	if (!t->hw_valid || memcmp(&want, &t->hw, sizeof(want)) != 0) {
		/* Failure is a dead thread; resuming will show it. */
		t->hw_valid = pf_host_regs_set(t->tid, &want) == 0;
		t->hw = want;
	}
	do {
		/* As soon as the state says GUEST, interrupt() sends the signal, be it before the
		 * resume. */
		pt_set_out(t, PT_GUEST);
		if (unlikely(atomic_load(&t->interrupt))) {
			pt_cancel_out(t);
			atomic_store(&t->interrupt, false);
			trap->kind = TRAP_INTERRUPT;
			return;
		}
		pt_place_before_run(t);
		/* If that fails it has been killed, and its end is awaited. */
		(void)pf_host_run_guest(t->tid);
		pt_await(t, true);
		if (atomic_load(&t->state) == PT_DEAD)
			return;
		pt_place_after_run(t);
		v = on_stop(t, regs, trap);
	} while (v == RESUME);
	if (v == TELL_DEAD) {
		pt_await_death(t);
		trap->kind = TRAP_DEAD;
	}
}

static void pt_interrupt(struct pf_thread *t)
{
	atomic_store(&t->interrupt, true);
	if (atomic_load(&t->state) == PT_GUEST && pt_as_enter(t->as)) {
		if (atomic_load(&t->state) == PT_GUEST)
			(void)pf_host_signal_thread(t->as->pid, t->tid, PT_INTERRUPT_SIGNAL);
		pt_as_leave(t->as);
	}
}

static struct pf_as *pt_thread_as(struct pf_thread *t)
{
	return t->as;
}

static struct worker *pt_as_home(struct pf_as *as)
{
	return as->worker->worker;
}

static const struct worker_ops *pt_worker_ops(void)
{
	return &g_pt_worker_ops;
}

static bool g_prepared;

static int pt_prepare(struct err *e)
{
	int r = pf_host_sigchld_init();

	if (r < 0)
		return err_set(e, -r, "cannot set SIGCHLD: %s", err_text(-r));
	r = pf_host_proc_open();
	if (r < 0)
		log_info("ptrace: no /proc: statistics and copy_force will not work");
	r = pt_orders_start(e);
	if (r == 0)
		r = pt_keeper_spawn(e);
	if (r < 0) {
		pt_orders_stop();
		pf_host_proc_close();
	}
	g_prepared = r == 0;
	return r;
}

static int pt_start(struct err *e)
{
	int r = g_prepared ? 0 : pt_prepare(e);

	if (r < 0)
		return r;
	g_prepared = false;
	r = stub_keeper_wait(NULL, e);
	if (r < 0) {
		pt_orders_stop();
		pf_host_proc_close();
	} else {
		pt_place_start();
	}
	return r;
}

static void pt_stop(void)
{
	pt_place_stop();
	pt_workers_stopped();
	pt_keeper_stop();
	pt_orders_stop();
	pf_host_proc_close();
}

static int pt_probe(struct err *e)
{
	return pf_host_probe_trace(e);
}

const struct platform platform_ptrace = {
	.name = "ptrace",
	.summary =
		"PTRACE_SYSEMU; runs nearly anywhere; every syscall costs two switches of process",
	.probe = pt_probe,
	.worker_ops = pt_worker_ops,
	.prepare = pt_prepare,
	.start = pt_start,
	.stop = pt_stop,
	.as_new = pt_as_new,
	.as_fork = pt_as_fork,
	.thread_new = pt_thread_new,
	.thread_free = pt_thread_free,
	.as_get = pt_as_get,
	.as_put = pt_as_put,
	.thread_as = pt_thread_as,
	.as_home = pt_as_home,
	.run = pt_run,
	.interrupt = pt_interrupt,
	.xstate_get = pt_xstate_get,
	.xstate_set = pt_xstate_set,
	.xstate_reset = pt_xstate_reset,
	.map = pt_map,
	.forget_file = pt_forget_file,
	.copy_in = pt_copy_in,
	.copy_out = pt_copy_out,
	.copy_force = pt_copy_force,
	.atomic32 = pt_atomic32,
	.resident = pt_resident,
	.mem_stats = pt_mem_stats,
	.usage = pt_usage,
	.cpu_times = pt_cpu_times,
};
