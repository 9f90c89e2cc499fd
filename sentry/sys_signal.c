/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signal syscalls.
 */
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <string.h>

#define SIGSET_SIZE 8

void signal_action_set_locked(struct task *t, int sig, const struct lx_sigaction *to)
{
	struct lx_sigaction a = *to;
	struct task *o;

	a.flags &= LX_SA_KNOWN;
	a.mask &= ~SIGS_UNBLOCKABLE;
	t->sighand->action[sig - 1] = a;
	t->sighand->changes++;
	/* What is ignored now is dropped, pending or not: sigaction(2). */
	if (a.handler != LX_SIG_IGN &&
	    !(a.handler == LX_SIG_DFL &&
	      (sig == LX_SIGCONT || sig == LX_SIGCHLD || sig == LX_SIGWINCH || sig == LX_SIGURG))) {
		if (t->tg->timers_held & sigbit(sig))
			posix_timers_heard_locked(t->tg, sig);
		return;
	}
	sigpending_flush_locked(t->tg, &t->tg->shared, sigbit(sig));
	tgroup_foreach_task (o, t->tg) {
		sigpending_flush_locked(t->tg, &o->pending, sigbit(sig));
	}
}

long sys_rt_sigaction(struct task *t, int sig, gaddr_t act, gaddr_t old, uint64_t size)
{
	struct lx_sigaction na, oa;

	if (size != SIGSET_SIZE)
		return -EINVAL;
	if (act.a && copy_in(t, &na, act, sizeof(na)))
		return -EFAULT;
	if (sig < 1 || sig > LX_NSIG || (act.a && (sig == LX_SIGKILL || sig == LX_SIGSTOP)))
		return -EINVAL;
	mutex_lock(&g_kernel.tasklist);
	oa = t->sighand->action[sig - 1];
	if (act.a)
		signal_action_set_locked(t, sig, &na);
	mutex_unlock(&g_kernel.tasklist);
	if (old.a && copy_out(t, old, &oa, sizeof(oa)))
		return -EFAULT;
	return 0;
}

long sys_rt_sigprocmask(struct task *t, int how, gaddr_t set, gaddr_t oldset, uint64_t size)
{
	lx_sigset_t s, old = t->blocked;

	if (size != SIGSET_SIZE)
		return -EINVAL;
	if (set.a) {
		if (copy_in(t, &s, set, sizeof(s)))
			return -EFAULT;
		if (how == LX_SIG_BLOCK)
			s |= old;
		else if (how == LX_SIG_UNBLOCK)
			s = old & ~s;
		else if (how != LX_SIG_SETMASK)
			return -EINVAL;
		signal_set_blocked(t, s);
	}
	if (oldset.a && copy_out(t, oldset, &old, sizeof(old)))
		return -EFAULT;
	return 0;
}

long sys_rt_sigreturn(struct task *t)
{
	return signal_sigreturn(t);
}

long sys_rt_sigpending(struct task *t, gaddr_t set, uint64_t size)
{
	lx_sigset_t s;

	if (size > SIGSET_SIZE)
		return -EINVAL;
	s = signal_pending_set(t) & t->blocked;
	return copy_out(t, set, &s, size);
}

long sys_rt_sigsuspend(struct task *t, gaddr_t mask, uint64_t size)
{
	lx_sigset_t s;

	if (size != SIGSET_SIZE)
		return -EINVAL;
	if (copy_in(t, &s, mask, sizeof(s)))
		return -EFAULT;
	signal_set_temp_mask(t, s);
	while (!signal_pending(t))
		(void)fiber_wait(DEADLINE_NONE, WAIT_INTR);
	return -ERESTARTNOHAND;
}

long sys_pause(struct task *t)
{
	while (!signal_pending(t))
		(void)fiber_wait(DEADLINE_NONE, WAIT_INTR);
	return -ERESTARTNOHAND;
}

long sys_restart_syscall(struct task *t)
{
	long (*fn)(struct task *) = t->restart.fn;

	t->restart.fn = NULL;
	return fn ? fn(t) : -EINTR;
}

long sys_rt_sigtimedwait(struct task *t, gaddr_t set, gaddr_t uinfo, gaddr_t timeout, uint64_t size)
{
	uint64_t deadline = DEADLINE_NONE;
	struct lx_siginfo info;
	lx_sigset_t want;
	int sig, r = 0;

	if (size != SIGSET_SIZE)
		return -EINVAL;
	if (copy_in(t, &want, set, sizeof(want)))
		return -EFAULT;
	if (timeout.a) {
		struct lx_timespec ts;

		if (copy_in(t, &ts, timeout, sizeof(ts)))
			return -EFAULT;
		if (ts.tv_sec < 0 || ts.tv_nsec < 0 || ts.tv_nsec >= (int64_t)NSEC_PER_SEC)
			return -EINVAL;
		uint64_t now = clock_mono_ns(), add;

		if (__builtin_mul_overflow((uint64_t)ts.tv_sec, NSEC_PER_SEC, &add) ||
		    __builtin_add_overflow(add, (uint64_t)ts.tv_nsec, &add) ||
		    __builtin_add_overflow(now, add, &deadline))
			deadline = DEADLINE_NONE;
	}
	want &= ~(sigbit(LX_SIGKILL) | sigbit(LX_SIGSTOP));
	for (;;) {
		mutex_lock(&g_kernel.tasklist);
		sig = signal_dequeue_locked(t, want, &info);
		t->wait_mask = sig || r ? 0 : want;
		mutex_unlock(&g_kernel.tasklist);
		if (sig || r)
			break;
		/* An ordinary signal interrupts; one of ours ends the wait. */
		r = fiber_wait(deadline, WAIT_INTR);
		mutex_lock(&g_kernel.tasklist);
		if (r == -ERESTARTSYS)
			signal_recalc_locked(t);
		mutex_unlock(&g_kernel.tasklist);
	}
	if (!sig)
		return r == -ETIMEDOUT ? -EAGAIN : -EINTR;
	if (uinfo.a && copy_out(t, uinfo, &info, sizeof(info)))
		return -EFAULT;
	return sig;
}

/* One process, or none. */
static long kill_one(struct task *t, struct tgroup *tg, const struct lx_siginfo *info, int sig)
	REQUIRES(g_kernel.tasklist)
{
	long r = signal_check_perm(t, tg, sig);

	if (r == 0 && sig)
		r = signal_send_group_locked(tg, info);
	return r;
}

static long kill_pgrp(struct task *t, struct pid *pgrp, const struct lx_siginfo *info, int sig)
	REQUIRES(g_kernel.tasklist)
{
	long r = -ESRCH;
	struct tgroup *tg, *next;

	TAILQ_FOREACH_SAFE (tg, &pgrp->pgrp_members, pgrp_link, next) {
		long one = kill_one(t, tg, info, sig);

		/* It is enough that one could be signalled. */
		if (one == 0 || r == -ESRCH)
			r = one;
	}
	return r;
}

static long kill_everyone(struct task *t, const struct lx_siginfo *info, int sig)
	REQUIRES(g_kernel.tasklist)
{
	long r = -ESRCH;
	struct tgroup *init = g_kernel.init;

	for (struct tgroup *tg = tgroup_walk_locked(init, NULL); tg;
	     tg = tgroup_walk_locked(init, tg)) {
		if (tg == t->tg)
			continue;
		long one = kill_one(t, tg, info, sig);

		if (one == 0 || r == -ESRCH)
			r = one;
	}
	return r;
}

long sys_kill(struct task *t, int pid, int sig)
{
	struct lx_siginfo info;
	struct pid *p = NULL;
	long r = -ESRCH;

	if (sig < 0 || sig > LX_NSIG)
		return -EINVAL;
	if (pid == INT32_MIN)
		return -ESRCH;
	siginfo_user(&info, sig, LX_SI_USER, t);
	if (pid > 0)
		p = pid_find(pid);
	else if (pid < -1)
		p = pid_find(-pid);
	mutex_lock(&g_kernel.tasklist);
	if (pid > 0) {
		/* A thread's id reaches its process. */
		struct tgroup *tg = p ? (p->tg ? p->tg : p->task ? p->task->tg : NULL) : NULL;

		if (tg)
			r = kill_one(t, tg, &info, sig);
	} else if (pid == 0) {
		r = kill_pgrp(t, t->tg->pgrp, &info, sig);
	} else if (pid == -1) {
		r = kill_everyone(t, &info, sig);
	} else if (p) {
		r = kill_pgrp(t, p, &info, sig);
	}
	mutex_unlock(&g_kernel.tasklist);
	pid_put(p);
	return r;
}

static long send_to_thread(struct task *t, int tgid, int tid, const struct lx_siginfo *info,
			   int sig)
{
	struct task *target = task_find(tid);
	long r;

	if (!target)
		return -ESRCH;
	mutex_lock(&g_kernel.tasklist);
	if (tgid > 0 && target->tg->tgid != tgid) {
		r = -ESRCH;
	} else {
		r = signal_check_perm(t, target->tg, sig);
		if (r == 0 && sig)
			r = signal_send_task_locked(target, info);
	}
	mutex_unlock(&g_kernel.tasklist);
	task_put(target);
	return r;
}

long sys_tkill(struct task *t, int tid, int sig)
{
	struct lx_siginfo info;

	if (tid <= 0 || sig < 0 || sig > LX_NSIG)
		return -EINVAL;
	siginfo_user(&info, sig, LX_SI_TKILL, t);
	return send_to_thread(t, 0, tid, &info, sig);
}

long sys_tgkill(struct task *t, int tgid, int tid, int sig)
{
	struct lx_siginfo info;

	if (tid <= 0 || tgid <= 0 || sig < 0 || sig > LX_NSIG)
		return -EINVAL;
	siginfo_user(&info, sig, LX_SI_TKILL, t);
	return send_to_thread(t, tgid, tid, &info, sig);
}

/* rt_sigqueueinfo and its thread variant: the caller writes the siginfo, within limits. */
static long queue_info(struct task *t, int sig, gaddr_t uinfo, struct lx_siginfo *info)
{
	if (copy_in(t, info, uinfo, sizeof(*info)))
		return -EFAULT;
	info->si_signo = sig;
	return 0;
}

static bool forges_kernel(const struct lx_siginfo *info)
{
	return info->si_code >= 0 || info->si_code == LX_SI_TKILL;
}

long sys_rt_sigqueueinfo(struct task *t, int pid, int sig, gaddr_t uinfo)
{
	struct lx_siginfo info;
	struct tgroup *tg;
	long r = queue_info(t, sig, uinfo, &info);

	if (r)
		return r;
	if (forges_kernel(&info) && pid != t->tg->tgid)
		return -EPERM;
	if (sig < 0 || sig > LX_NSIG)
		return -EINVAL;
	struct task *target = pid > 0 ? task_find(pid) : NULL;

	if (!target)
		return -ESRCH;
	tg = target->tg;
	mutex_lock(&g_kernel.tasklist);
	r = kill_one(t, tg, &info, sig);
	mutex_unlock(&g_kernel.tasklist);
	task_put(target);
	return r;
}

long sys_rt_tgsigqueueinfo(struct task *t, int tgid, int tid, int sig, gaddr_t uinfo)
{
	struct lx_siginfo info;
	long r = queue_info(t, sig, uinfo, &info);

	if (r)
		return r;
	if (tid <= 0 || tgid <= 0)
		return -EINVAL;
	if (forges_kernel(&info) && tid != t->tid)
		return -EPERM;
	if (sig < 0 || sig > LX_NSIG)
		return -EINVAL;
	return send_to_thread(t, tgid, tid, &info, sig);
}

long sys_sigaltstack(struct task *t, gaddr_t uss, gaddr_t uold)
{
	struct lx_stack ss, old = t->altstack;
	uint64_t sp;
	bool on;

	if (task_need_regs(t) < 0)
		return -EFAULT;
	sp = t->regs.rsp;
	on = !(old.ss_flags & (int32_t)LX_SS_AUTODISARM) && old.ss_size && sp > old.ss_sp &&
	     sp - old.ss_sp <= old.ss_size;

	if (!old.ss_size)
		old.ss_flags = LX_SS_DISABLE | (old.ss_flags & (int32_t)LX_SS_AUTODISARM);
	if (on)
		old.ss_flags |= LX_SS_ONSTACK;
	old.pad = 0;
	if (uss.a) {
		int mode;

		if (copy_in(t, &ss, uss, sizeof(ss)))
			return -EFAULT;
		if (on)
			return -EPERM;
		mode = ss.ss_flags & ~(int32_t)LX_SS_AUTODISARM;
		if (mode != LX_SS_DISABLE && mode != LX_SS_ONSTACK && mode != 0)
			return -EINVAL;
		if (mode == LX_SS_DISABLE) {
			ss.ss_size = 0;
			ss.ss_sp = 0;
		} else if (ss.ss_size < LX_MINSIGSTKSZ) {
			return -ENOMEM;
		}
		ss.ss_flags &= (int32_t)LX_SS_AUTODISARM | LX_SS_DISABLE;
		t->altstack = ss;
	}
	if (uold.a && copy_out(t, uold, &old, sizeof(old)))
		return -EFAULT;
	return 0;
}
