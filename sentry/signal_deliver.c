/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal delivery: before each return to the guest.
 *
 * Theory of operation: while something is pending, take the next signal and do what its action
 * says: ignore, stop the group, end the group, or build a frame on the guest's stack so that the
 * guest goes on in its handler. The frame is Linux's rt_sigframe, with the XSAVE area as the host's
 * kernel would lay it out. Also the one place in which an interrupted syscall's restart code
 * becomes EINTR or a restart.
 *
 * All of the frame comes back from the guest at sigreturn: registers are sanitised by the platform
 * (segments, flags), the XSAVE area is checked by xstate_set.
 *
 * References: sigreturn(2), the kernel's uapi sigcontext/ucontext layouts, signal(7) on restarts.
 */
#include "sentry/core.h"
#include "sentry/process.h"

#include <errno.h>
#include <string.h>

#define NR_RESTART_SYSCALL 219
#define SYSCALL_INSN_SIZE 2

#define EFLAGS_TF 0x100ull
#define EFLAGS_DF 0x400ull
#define EFLAGS_RF 0x10000ull

struct lx_sigcontext {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip,
		eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t fpstate;
	uint64_t reserved[8];
};
_Static_assert(sizeof(struct lx_sigcontext) == 256, "struct sigcontext");

struct lx_ucontext {
	uint64_t flags;
	uint64_t link;
	struct lx_stack stack;
	struct lx_sigcontext mc;
	lx_sigset_t sigmask;
};

struct lx_rt_sigframe {
	uint64_t pretcode;
	struct lx_ucontext uc;
	struct lx_siginfo info;
};
_Static_assert(sizeof(struct lx_rt_sigframe) == 440, "struct rt_sigframe");

/* From the frame to the XSAVE area behind it: the frame, and what the alignments of both take. */
#define FRAME_TO_FP 456
#define FRAME_ROOM 512
_Static_assert(FRAME_TO_FP <= FRAME_ROOM && FRAME_ROOM % 64 == 0, "the frame fits, xs is aligned");

#define UC_FP_XSTATE 1
#define UC_SIGCONTEXT_SS 2
#define UC_STRICT_RESTORE_SS 4

/* The software-reserved bytes of the FXSAVE area (struct _fpx_sw_bytes). */
#define FP_SW_OFFSET 464
#define FP_HEADER 512
#define FP_XSTATE_MAGIC1 0x46505853u
#define FP_XSTATE_MAGIC2 0x46505845u
struct lx_fpx_sw {
	uint32_t magic1, extended_size;
	uint64_t xfeatures;
	uint32_t xstate_size, pad[7];
};
_Static_assert(sizeof(struct lx_fpx_sw) == 48, "struct _fpx_sw_bytes");

static bool on_altstack(const struct task *t, uint64_t sp)
{
	if (t->altstack.ss_flags & (int32_t)LX_SS_AUTODISARM)
		return false;
	return sp > t->altstack.ss_sp && sp - t->altstack.ss_sp <= t->altstack.ss_size;
}

/* Puts the frame, which lies in the @below bytes before @xs, to @sp, and the vector state behind
 * it: by the thread itself, if it can (@stores), or a copy. The handler's state is a new program's,
 * as on Linux (x87 registers of who was interrupted in the middle, say, are not in its way). */
static bool put_frame(struct task *t, uint64_t sp, unsigned char *xs, size_t below, int xsize,
		      uint64_t features, bool stores)
{
	const struct lx_fpx_sw sw = {.magic1 = FP_XSTATE_MAGIC1,
				     .extended_size = (uint32_t)xsize + 4,
				     .xfeatures = features,
				     .xstate_size = (uint32_t)xsize};
	const uint32_t magic2 = FP_XSTATE_MAGIC2;

	if (stores) {
		memset(xs, 0, PF_XSTATE_HEAD);
		memcpy(xs + FP_SW_OFFSET, &sw, sizeof(sw));
		if (g_pf->xstate_put(t->pt, GADDR(sp), xs - below, below + PF_XSTATE_HEAD) == 0)
			return true;
		/* Where the stack is to grow, say. */
		if (g_pf->xstate_get(t->pt, xs) != xsize)
			return false;
	}
	xs[FP_HEADER] |= 3; /* as Linux: x87 and SSE are always there */
	memcpy(xs + FP_SW_OFFSET, &sw, sizeof(sw));
	memcpy(xs + xsize, &magic2, sizeof(magic2));
	return copy_out(t, GADDR(sp), xs - below, below + (size_t)xsize + 4) == 0 &&
	       g_pf->xstate_reset(t->pt) == 0;
}

/* Builds the frame and points the registers at the handler. false: the frame could not be written.
 */
static bool setup_frame(struct task *t, int sig, const struct lx_siginfo *info,
			const struct lx_sigaction *act)
{
	struct pf_regs *r = &t->regs;
	struct lx_rt_sigframe f;
	/* The frame ends right before the XSAVE area, so that both are written by one copy. */
	_Alignas(64) unsigned char mem[FRAME_ROOM + PF_XSTATE_MAX + 4], *xs = mem + FRAME_ROOM;
	uint64_t sp = r->rsp, fp;
	uint64_t features = 0;
	int xsize = g_pf->xstate_size ? g_pf->xstate_size(t->pt, &features) : 0;
	const bool stores = xsize > 0;

	if (!stores) {
		xsize = g_pf->xstate_get(t->pt, xs);
		/* ptrace(2)'s regset keeps the host's feature mask (XCR0) there, too. */
		memcpy(&features, xs + FP_SW_OFFSET, sizeof(features));
	}
	if (!(act->flags & LX_SA_RESTORER) || xsize < 512)
		return false;
	memset(&f, 0, sizeof(f));
	f.uc.stack = t->altstack;
	if (t->altstack.ss_size == 0)
		f.uc.stack.ss_flags |= LX_SS_DISABLE;
	else if (on_altstack(t, sp))
		f.uc.stack.ss_flags |= LX_SS_ONSTACK;

	bool was_on = on_altstack(t, sp);

	sp -= 128; /* the red zone */
	if ((act->flags & LX_SA_ONSTACK) && !was_on && t->altstack.ss_size)
		sp = t->altstack.ss_sp + t->altstack.ss_size;
	bool will_be_on = was_on || (act->flags & LX_SA_ONSTACK && t->altstack.ss_size);

	fp = (sp - ((uint64_t)xsize + 4)) & ~(uint64_t)63;
	sp = ((fp - sizeof(f)) & ~(uint64_t)15) - 8;
	BUG_ON(fp - sp != FRAME_TO_FP);
	/* An overflow of the alternate stack must not write below it. */
	if (will_be_on && t->altstack.ss_size &&
	    (sp < t->altstack.ss_sp || sp > t->altstack.ss_sp + t->altstack.ss_size))
		return false;

	f.pretcode = act->restorer;
	f.uc.flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
	f.uc.mc = (struct lx_sigcontext){
		.r8 = r->r8,
		.r9 = r->r9,
		.r10 = r->r10,
		.r11 = r->r11,
		.r12 = r->r12,
		.r13 = r->r13,
		.r14 = r->r14,
		.r15 = r->r15,
		.rdi = r->rdi,
		.rsi = r->rsi,
		.rbp = r->rbp,
		.rbx = r->rbx,
		.rdx = r->rdx,
		.rax = r->rax,
		.rcx = r->rcx,
		.rsp = r->rsp,
		.rip = r->rip,
		.eflags = r->eflags,
		.cs = (uint16_t)r->cs,
		.ss = (uint16_t)r->ss,
		.err = t->fault_error,
		.trapno = t->fault_trapno,
		.cr2 = t->fault_addr,
		.oldmask = t->blocked,
		.fpstate = fp,
	};
	f.uc.sigmask = t->restore_mask ? t->saved_mask : t->blocked;
	f.info = *info;

	size_t below = (size_t)(fp - sp);

	memset(mem, 0, FRAME_ROOM);
	memcpy(xs - below, &f, sizeof(f));
	if (!put_frame(t, sp, xs, below, xsize, features, stores))
		return false;

	if (t->altstack.ss_flags & (int32_t)LX_SS_AUTODISARM) {
		memset(&t->altstack, 0, sizeof(t->altstack));
		t->altstack.ss_flags = LX_SS_DISABLE;
	}
	r->rdi = (uint64_t)sig;
	r->rsi = sp + offsetof(struct lx_rt_sigframe, info);
	r->rdx = sp + offsetof(struct lx_rt_sigframe, uc);
	r->rax = 0;
	r->rip = act->handler;
	r->rsp = sp;
	r->cs = 0x33;
	r->ss = 0x2b;
	r->eflags &= ~(EFLAGS_DF | EFLAGS_RF | EFLAGS_TF);
	return true;
}

/* An interrupted syscall: rax holds a restart code. @act: the handler that will run, or NULL. */
static void fix_restart(struct task *t, const struct lx_sigaction *act)
{
	struct pf_regs *r = &t->regs;
	long code = -(long)r->rax;
	bool restart = true;

	if (!t->in_syscall)
		return;
	switch (code) {
	case ERESTARTSYS:
		restart = !act || (act->flags & LX_SA_RESTART);
		break;
	case ERESTARTNOINTR:
		break;
	case ERESTARTNOHAND:
	case ERESTART_RESTARTBLOCK:
		restart = !act;
		break;
	default:
		return;
	}
	t->in_syscall = false;
	if (!restart) {
		r->rax = (uint64_t)-EINTR;
		return;
	}
	/* A dead thread makes no call again; run() will tell. */
	if (task_need_regs(t) < 0)
		return;
	r->rax = code == ERESTART_RESTARTBLOCK ? NR_RESTART_SYSCALL : (uint64_t)t->syscall_nr;
	r->rip -= SYSCALL_INSN_SIZE;
}

static bool default_dumps(int sig)
{
	const lx_sigset_t core = sigbit(LX_SIGQUIT) | sigbit(LX_SIGILL) | sigbit(LX_SIGABRT) |
				 sigbit(LX_SIGFPE) | sigbit(LX_SIGSEGV) | sigbit(LX_SIGBUS) |
				 sigbit(LX_SIGSYS) | sigbit(LX_SIGTRAP) | sigbit(LX_SIGXCPU) |
				 sigbit(LX_SIGXFSZ);

	return core & sigbit(sig);
}

static bool default_stops(int sig)
{
	return sig == LX_SIGSTOP || sig == LX_SIGTSTP || sig == LX_SIGTTIN || sig == LX_SIGTTOU;
}

static bool default_ignores(int sig)
{
	return sig == LX_SIGCONT || sig == LX_SIGCHLD || sig == LX_SIGWINCH || sig == LX_SIGURG;
}

/* Begins a group stop: every thread parks at its next look; the last to do so tells the parent. */
static void group_stop_locked(struct task *t, int sig) REQUIRES(g_kernel.tasklist)
{
	struct tgroup *tg = t->tg;
	struct task *o;

	if (tg->group_exit || tg->stopped)
		return;
	tg->stopped = true;
	tg->stop_signal = sig;
	tgroup_foreach_task (o, tg) {
		if (o != t)
			signal_wake_locked(o, false);
	}
}

static void park_stopped(struct task *t)
{
	struct tgroup *tg = t->tg;
	bool main;
	int tell = 0;

	mutex_lock(&g_kernel.tasklist);
	main = kernel_is_main_locked(tg);
	mutex_unlock(&g_kernel.tasklist);
	if (main && g_kernel.main_stops)
		g_kernel.main_stops();
	mutex_lock(&g_kernel.tasklist);
	if (tg->stopped && !tg->group_exit && !t->dying) {
		struct task *o;
		bool all = true;

		t->state = TASK_STOPPED;
		tgroup_foreach_task (o, tg) {
			if (o->state == TASK_RUNNING || o->state == TASK_SLEEPING)
				all = false;
		}
		if (all) {
			tg->event = STOP_STOPPED;
			signal_notify_parent_locked(tg, LX_CLD_STOPPED, tg->stop_signal);
			tell = kernel_is_main_locked(tg) ? tg->stop_signal : 0;
		}
	}
	mutex_unlock(&g_kernel.tasklist);
	if (tell && g_kernel.main_stopped)
		g_kernel.main_stopped(tell);
	(void)wait_event(&tg->cont_wait, !tg->stopped || tg->group_exit || t->dying, DEADLINE_NONE,
			 WAIT_KILL);
	mutex_lock(&g_kernel.tasklist);
	if (t->state == TASK_STOPPED)
		t->state = TASK_RUNNING;
	signal_recalc_locked(t);
	mutex_unlock(&g_kernel.tasklist);
}

/* The signal could not be delivered: the task dies of SIGSEGV, as Linux's force_sigsegv. */
static void frame_failed(struct task *t, int sig)
{
	struct lx_siginfo info;

	siginfo_kernel(&info, LX_SIGSEGV);
	if (sig == LX_SIGSEGV) {
		mutex_lock(&g_kernel.tasklist);
		t->sighand->action[LX_SIGSEGV - 1].handler = LX_SIG_DFL;
		t->sighand->changes++;
		mutex_unlock(&g_kernel.tasklist);
	}
	signal_force(t, &info);
}

static void run_handler(struct task *t, int sig, const struct lx_siginfo *info,
			const struct lx_sigaction *act)
{
	lx_sigset_t mask;

	/* A dead thread needs no handler; run() will tell. */
	if (task_need_regs(t) < 0)
		return;
	fix_restart(t, act);
	if (!setup_frame(t, sig, info, act)) {
		frame_failed(t, sig);
		return;
	}
	mask = t->blocked | act->mask;
	if (!(act->flags & LX_SA_NODEFER))
		mask |= sigbit(sig);
	t->restore_mask = false;
	signal_set_blocked(t, mask);
}

#define STATUS_DUMPED 0x80

/* The default action that ends the process; the first thread here decides what it died of. */
static void die_of_signal(struct task *t, int sig, const struct lx_siginfo *info)
{
	struct tgroup *tg = t->tg;
	bool first;

	mutex_lock(&g_kernel.tasklist);
	first = !tg->group_exit;
	tgroup_request_exit_locked(tg, sig);
	mutex_unlock(&g_kernel.tasklist);
	if (!first || !default_dumps(sig) || task_need_regs(t) < 0)
		return;
	crash_report(t, sig, info);
	if (core_dump(t, sig, info)) {
		mutex_lock(&g_kernel.tasklist);
		tg->group_exit_code |= STATUS_DUMPED;
		mutex_unlock(&g_kernel.tasklist);
	}
}

void signal_deliver(struct task *t)
{
	while (signal_pending(t) && !t->exiting) {
		struct lx_siginfo info;
		struct lx_sigaction act;
		struct tgroup *tg = t->tg;
		int sig;

		mutex_lock(&g_kernel.tasklist);
		if (tg->group_exit || t->dying) {
			t->exiting = true;
			t->exit_code = tg->group_exit ? tg->group_exit_code : 0;
			mutex_unlock(&g_kernel.tasklist);
			return;
		}
		if (tg->stopped) {
			mutex_unlock(&g_kernel.tasklist);
			park_stopped(t);
			continue;
		}
		sig = signal_dequeue_locked(t, ~t->blocked, &info);
		if (!sig) {
			signal_recalc_locked(t);
			mutex_unlock(&g_kernel.tasklist);
			break;
		}
		act = t->sighand->action[sig - 1];
		if (act.handler > LX_SIG_IGN && (act.flags & LX_SA_RESETHAND)) {
			t->sighand->action[sig - 1].handler = LX_SIG_DFL;
			t->sighand->changes++;
		}
		if (act.handler == LX_SIG_IGN ||
		    (act.handler == LX_SIG_DFL && default_ignores(sig))) {
			mutex_unlock(&g_kernel.tasklist);
			continue;
		}
		if (act.handler == LX_SIG_DFL && default_stops(sig)) {
			if (sig != LX_SIGSTOP && t->vfork_done) {
				/* The parent, and with it who waits for that, would hang: see
				 * clone.c. */
				t->late_stop = sig;
				mutex_unlock(&g_kernel.tasklist);
				continue;
			}
			/* The terminal's stop signals do not stop who would never go on. */
			if (sig == LX_SIGSTOP || !pgrp_is_abandoned_locked(tg->pgrp))
				group_stop_locked(t, sig);
			mutex_unlock(&g_kernel.tasklist);
			if (tg->stopped)
				park_stopped(t);
			continue;
		}
		mutex_unlock(&g_kernel.tasklist);

		if (act.handler == LX_SIG_DFL) {
			die_of_signal(t, sig, &info);
			continue;
		}
		run_handler(t, sig, &info, &act);
	}
	if (t->exiting)
		return;
	/* No handler ran for it: restart quietly. */
	fix_restart(t, NULL);
	if (t->restore_mask)
		signal_restore_temp_mask(t);
}

/* What lies at the guest's stack pointer at sigreturn, read at once: mostly all of the frame. */
struct frame_copy {
	uint64_t base;
	size_t size;
	unsigned char mem[FRAME_TO_FP + 2696 + 4]; /* up to PKRU, the last that platforms carry */
};

static int frame_read(struct task *t, const struct frame_copy *c, void *dst, uint64_t addr,
		      size_t size)
{
	if (addr < c->base || addr - c->base > c->size || size > c->size - (addr - c->base))
		return copy_in(t, dst, GADDR(addr), size);
	memcpy(dst, c->mem + (addr - c->base), size);
	return 0;
}

static int restore_xstate(struct task *t, const struct frame_copy *frame, uint64_t fp)
{
	_Alignas(64) unsigned char xs[PF_XSTATE_MAX];
	struct lx_fpx_sw sw;
	size_t size = 512;

	if (!fp)
		return g_pf->xstate_reset(t->pt);
	if (frame_read(t, frame, xs, fp, 512))
		return -EFAULT;
	memcpy(&sw, xs + FP_SW_OFFSET, sizeof(sw));
	if (sw.magic1 == FP_XSTATE_MAGIC1 && sw.xstate_size >= 576 &&
	    sw.xstate_size <= PF_XSTATE_MAX) {
		uint32_t magic2;

		if (frame_read(t, frame, &magic2, fp + sw.xstate_size, 4) == 0 &&
		    magic2 == FP_XSTATE_MAGIC2) {
			size = sw.xstate_size;
			if (frame_read(t, frame, xs + 512, fp + 512, size - 512))
				return -EFAULT;
		}
	}
	if (size == 512) {
		/* Only the legacy part: the rest goes to its initial state. */
		memset(xs + 512, 0, 64);
		xs[512] = 3;
		size = 576;
	}
	memset(xs + FP_SW_OFFSET, 0, 48);
	return g_pf->xstate_set(t->pt, xs, size);
}

long signal_sigreturn(struct task *t)
{
	struct pf_regs *r = &t->regs;
	struct lx_rt_sigframe f;
	const struct lx_sigcontext *c = &f.uc.mc;
	struct lx_siginfo info;
	struct frame_copy frame; /* large: not cleared */
	ssize_t n;

	t->in_syscall = false; /* rax is the guest's from here on, never a restart code */
	if (task_need_regs(t) < 0)
		return -ESRCH;
	frame.base = r->rsp - 8;
	n = copy_in_partial(t, frame.mem, GADDR(frame.base), sizeof(frame.mem));
	frame.size = n > 0 ? (size_t)n : 0;
	if (frame_read(t, &frame, &f, frame.base, sizeof(f)) ||
	    restore_xstate(t, &frame, c->fpstate))
		goto bad;
	r->r8 = c->r8;
	r->r9 = c->r9;
	r->r10 = c->r10;
	r->r11 = c->r11;
	r->r12 = c->r12;
	r->r13 = c->r13;
	r->r14 = c->r14;
	r->r15 = c->r15;
	r->rdi = c->rdi;
	r->rsi = c->rsi;
	r->rbp = c->rbp;
	r->rbx = c->rbx;
	r->rdx = c->rdx;
	r->rax = c->rax;
	r->rcx = c->rcx;
	r->rsp = c->rsp;
	r->rip = c->rip;
	r->eflags = (r->eflags & ~0x50dd5ull) | (c->eflags & 0x50dd5ull);
	/* The alternate stack as saved; a bad one is ignored, as Linux does. */
	if (f.uc.stack.ss_flags & LX_SS_DISABLE) {
		memset(&t->altstack, 0, sizeof(t->altstack));
		t->altstack.ss_flags = LX_SS_DISABLE;
	} else if (f.uc.stack.ss_size >= LX_MINSIGSTKSZ) {
		t->altstack = f.uc.stack;
		t->altstack.ss_flags &= (int32_t)LX_SS_AUTODISARM;
	}
	signal_set_blocked(t, f.uc.sigmask);
	return (long)r->rax;
bad:
	siginfo_kernel(&info, LX_SIGSEGV);
	signal_force(t, &info);
	return (long)r->rax;
}
