/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: generation, queues, who is woken.
 *
 * Theory of operation: as in Linux. A signal is queued to a task or to a group; generation alone
 * decides whether it is dropped (ignored and not blocked), what it cancels (SIGCONT and the stop
 * signals cancel each other), and which task is told. Being told means the sticky interrupt flag of
 * the task's fiber (TIF_SIGPENDING's role) plus, for a task inside the guest, g_pf->interrupt.
 * Delivery is in sentry/signal_deliver.c.
 *
 * Locking: everything here is under g_kernel.tasklist. The interrupt flag of a live task is set and
 * cleared under it, so that it always tells whether something is pending.
 *
 * References: signal(7), sigaction(2), kill(2), rt_sigqueueinfo(2).
 */
#include "sentry/answers.h"
#include "sentry/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/meter.h"

#define SIGS_STOP \
	(sigbit(LX_SIGSTOP) | sigbit(LX_SIGTSTP) | sigbit(LX_SIGTTIN) | sigbit(LX_SIGTTOU))
#define SIGS_IGNORED_BY_DEFAULT \
	(sigbit(LX_SIGCONT) | sigbit(LX_SIGCHLD) | sigbit(LX_SIGWINCH) | sigbit(LX_SIGURG))
#define SIGS_SYNCHRONOUS                                                                   \
	(sigbit(LX_SIGSEGV) | sigbit(LX_SIGBUS) | sigbit(LX_SIGILL) | sigbit(LX_SIGTRAP) | \
	 sigbit(LX_SIGFPE) | sigbit(LX_SIGSYS))

void sigpending_init(struct sigpending *p)
{
	p->set = 0;
	TAILQ_INIT(&p->queue);
}

/* A task that is about to run guest code looks without the lock: see answers_mask_given. */
static void sigpending_write(struct sigpending *p, lx_sigset_t set) REQUIRES(g_kernel.tasklist)
{
	__atomic_store_n(&p->set, set, __ATOMIC_RELAXED);
}

/* @q has left its queue. A timer's own entry is told, and then says what it stands for. */
static void sigqueue_free(struct tgroup *tg, struct sigqueue *q, struct lx_siginfo *info)
{
	if (q->preallocated && q->taken)
		q->taken(q, !info);
	if (info)
		*info = q->info;
	if (!q->preallocated) {
		tg->sigqueue_count--;
		mem_free(q);
		meter_uncharge(METER_signals, 1);
	}
}

void sigpending_flush_locked(struct tgroup *tg, struct sigpending *p, lx_sigset_t mask)
{
	struct sigqueue *q, *next;

	if (!(p->set & mask))
		return;
	sigpending_write(p, p->set & ~mask);
	TAILQ_FOREACH_SAFE (q, &p->queue, link, next) {
		if (mask & sigbit(q->info.si_signo)) {
			TAILQ_REMOVE(&p->queue, q, link);
			sigqueue_free(tg, q, NULL);
		}
	}
}

void siginfo_user(struct lx_siginfo *info, int sig, int code, struct task *from)
{
	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	info->si_code = code;
	if (from) {
		info->u.rt.pid = from->tg->tgid;
		info->u.rt.uid = from->vctx.cred->uid;
	}
}

void siginfo_kernel(struct lx_siginfo *info, int sig)
{
	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	info->si_code = LX_SI_KERNEL;
}

/* kill(2)'s rule; SIGCONT may go to any process of the sender's session. */
int signal_check_perm(struct task *t, struct tgroup *target, int sig)
{
	const struct cred *c = t->vctx.cred;
	const struct cred *tc = target->leader ? target->leader->vctx.cred : NULL;

	if (!tc || t->tg == target || cred_capable(c, LX_CAP_KILL))
		return 0;
	if (c->euid == tc->suid || c->euid == tc->uid || c->uid == tc->suid || c->uid == tc->uid)
		return 0;
	if (sig == LX_SIGCONT && t->tg->session == target->session)
		return 0;
	return -EPERM;
}

static bool sig_default_ignored(int sig)
{
	return SIGS_IGNORED_BY_DEFAULT & sigbit(sig);
}

static bool sig_handler_ignores(struct task *t, int sig) REQUIRES(g_kernel.tasklist)
{
	uint64_t h = answers_handler_locked(t, sig);

	return h == LX_SIG_IGN || (h == LX_SIG_DFL && sig_default_ignored(sig));
}

static bool sig_is_ignored(struct task *t, int sig) REQUIRES(g_kernel.tasklist)
{
	/* A blocked one is kept: its handler may have changed by the time it is unblocked. */
	if ((answers_blocked(t) | t->wait_mask) & sigbit(sig))
		return false;
	return sig_handler_ignores(t, sig);
}

void signal_wake_locked(struct task *t, bool kill)
{
	if (!t->fiber)
		return;
	if (kill)
		fiber_kill(t->fiber);
	fiber_interrupt(t->fiber);
	if (atomic_load(&t->in_guest) && t->pt)
		g_pf->interrupt(t->pt);
}

void signal_recalc_locked(struct task *t)
{
	lx_sigset_t all = t->pending.set | t->tg->shared.set;

	if (!t->fiber)
		return;
	if ((all & ~t->blocked) || t->dying || t->tg->group_exit || t->tg->stopped)
		fiber_interrupt(t->fiber);
	else
		fiber_clear_interrupt(t->fiber);
}

/* Would @t act on @sig at once? */
static bool task_wants(struct task *t, int sig) REQUIRES(g_kernel.tasklist)
{
	if (t->state == TASK_ZOMBIE || t->state == TASK_DEAD || t->dying)
		return false;
	if (t->wait_mask & sigbit(sig))
		return true;
	if (answers_blocked(t) & sigbit(sig))
		return false;
	return sig == LX_SIGKILL || t->state != TASK_STOPPED;
}

static void group_kill_locked(struct tgroup *tg, int status) REQUIRES(g_kernel.tasklist)
{
	struct task *t;

	if (!tg->group_exit) {
		tg->group_exit = true;
		tg->group_exit_code = status;
	}
	tg->stopped = false;
	tgroup_foreach_task (t, tg) {
		signal_wake_locked(t, true);
	}
	waitq_wake_all(&tg->cont_wait, 0);
}

/* What generation does beyond queueing: stop and continue signals cancel each other. */
static void prepare_signal(struct tgroup *tg, int sig) REQUIRES(g_kernel.tasklist)
{
	struct task *t;

	if (SIGS_STOP & sigbit(sig)) {
		sigpending_flush_locked(tg, &tg->shared, sigbit(LX_SIGCONT));
		tgroup_foreach_task (t, tg) {
			sigpending_flush_locked(tg, &t->pending, sigbit(LX_SIGCONT));
		}
	} else if (sig == LX_SIGCONT) {
		sigpending_flush_locked(tg, &tg->shared, SIGS_STOP);
		tgroup_foreach_task (t, tg) {
			sigpending_flush_locked(tg, &t->pending, SIGS_STOP);
			t->late_stop = 0;
		}
		if (tg->stopped) {
			tg->stopped = false;
			tg->event = STOP_CONTINUED;
			tgroup_foreach_task (t, tg) {
				if (t->state == TASK_STOPPED)
					t->state = TASK_RUNNING;
			}
			waitq_wake_all(&tg->cont_wait, 0);
			signal_notify_parent_locked(tg, LX_CLD_CONTINUED, LX_SIGCONT);
		}
	}
}

/* For @only, or for the group, and there for @first before others; both may be NULL. */
static void wake_for_signal(struct tgroup *tg, struct task *only, struct task *first, int sig)
	REQUIRES(g_kernel.tasklist)
{
	struct task *t;

	waitq_wake_all(&(only ? only : tg->leader)->sighand->signalfd_wait, LX_POLLIN);
	/* Before the masks are looked at. */
	if (only) {
		answers_mark_pending(only, sig);
	} else {
		tgroup_foreach_task (t, tg) {
			answers_mark_pending(t, sig);
		}
	}
	if (only) {
		if (task_wants(only, sig))
			signal_wake_locked(only, false);
		return;
	}
	/* Linux tells the main thread if it wants the signal, else any other. */
	if (!first || !task_wants(first, sig))
		first = tg->leader;
	if (first && task_wants(first, sig)) {
		signal_wake_locked(first, false);
		return;
	}
	tgroup_foreach_task (t, tg) {
		if (task_wants(t, sig)) {
			signal_wake_locked(t, false);
			return;
		}
	}
}

static int send_locked(struct tgroup *tg, struct task *only, struct task *first,
		       const struct lx_siginfo *info) REQUIRES(g_kernel.tasklist)
{
	int sig = info->si_signo;
	struct task *t = only ? only : tg->leader;
	struct sigpending *p = only ? &only->pending : &tg->shared;
	struct sigqueue *q;

	/* A leader that has ended stands for the threads that live. */
	if (!t || tg->zombie || t->state == TASK_DEAD ||
	    (t->state == TASK_ZOMBIE ? only != NULL : !t->fiber))
		return 0;
	if (sig == LX_SIGKILL) {
		group_kill_locked(tg, LX_SIGKILL);
		return 0;
	}
	if (tg->group_exit)
		return 0;
	prepare_signal(tg, sig);
	if (sig_is_ignored(t, sig))
		return 0;
	if (sig < LX_SIGRTMIN && (p->set & sigbit(sig)))
		return 0; /* a standard signal is pending at most once */
	q = NULL;
	if (tg->sigqueue_count < rlimit_get(tg, LX_RLIMIT_SIGPENDING) &&
	    meter_charge(METER_signals, 1)) {
		q = mem_zalloc(sizeof(*q));
		if (!q)
			meter_uncharge(METER_signals, 1);
	}
	if (q) {
		q->info = *info;
		tg->sigqueue_count++;
		TAILQ_INSERT_TAIL(&p->queue, q, link);
	} else if (sig >= LX_SIGRTMIN && info->si_code != LX_SI_USER) {
		return -EAGAIN;
	}
	sigpending_write(p, p->set | sigbit(sig));
	wake_for_signal(tg, only, first, sig);
	return 0;
}

int signal_send_task_locked(struct task *t, const struct lx_siginfo *info)
{
	return send_locked(t->tg, t, NULL, info);
}

int signal_send_group_locked(struct tgroup *tg, const struct lx_siginfo *info)
{
	return send_locked(tg, NULL, NULL, info);
}

int signal_send_group_to_locked(struct tgroup *tg, struct task *who, const struct lx_siginfo *info)
{
	return send_locked(tg, NULL, who, info);
}

int signal_send_task(struct task *t, const struct lx_siginfo *info)
{
	int r;

	mutex_lock(&g_kernel.tasklist);
	r = send_locked(t->tg, t, NULL, info);
	mutex_unlock(&g_kernel.tasklist);
	return r;
}

int signal_send_group(struct tgroup *tg, const struct lx_siginfo *info)
{
	int r;

	mutex_lock(&g_kernel.tasklist);
	r = send_locked(tg, NULL, NULL, info);
	mutex_unlock(&g_kernel.tasklist);
	return r;
}

unsigned signal_send_pgrp_locked(struct pid *pgrp, const struct lx_siginfo *info)
{
	struct tgroup *tg;
	unsigned n = 0;

	TAILQ_FOREACH (tg, &pgrp->pgrp_members, pgrp_link) {
		(void)send_locked(tg, NULL, NULL, info);
		n++;
	}
	return n;
}

unsigned signal_send_pgrp(struct pid *pgrp, const struct lx_siginfo *info)
{
	unsigned n;

	mutex_lock(&g_kernel.tasklist);
	n = signal_send_pgrp_locked(pgrp, info);
	mutex_unlock(&g_kernel.tasklist);
	return n;
}

void signal_force(struct task *t, const struct lx_siginfo *info)
{
	struct lx_sigaction *a;
	int sig = info->si_signo;

	mutex_lock(&g_kernel.tasklist);
	a = &t->sighand->action[sig - 1];
	if ((t->blocked & sigbit(sig)) || a->handler == LX_SIG_IGN) {
		/* It cannot be handled, and the instruction cannot go on: the default, whatever was
		 * asked. */
		a->handler = LX_SIG_DFL;
		t->sighand->changes++;
		t->blocked &= ~sigbit(sig);
	}
	/* Ahead of all others, even if one of its kind is pending. */
	struct sigqueue *q = mem_zalloc(sizeof(*q));

	if (q) {
		q->info = *info;
		t->tg->sigqueue_count++;
		meter_charge_found(METER_signals, 1);
		TAILQ_INSERT_HEAD(&t->pending.queue, q, link);
	}
	sigpending_write(&t->pending, t->pending.set | sigbit(sig));
	signal_recalc_locked(t);
	mutex_unlock(&g_kernel.tasklist);
}

bool signal_queue_prealloc_locked(struct tgroup *tg, struct task *t, struct task *who,
				  struct sigqueue *q)
{
	struct task *target = t ? t : tg->leader;
	struct sigpending *p = t ? &t->pending : &tg->shared;
	int sig = q->info.si_signo;

	if (!target || tg->group_exit || tg->zombie || sig_is_ignored(target, sig))
		return false;
	TAILQ_INSERT_TAIL(&p->queue, q, link);
	sigpending_write(p, p->set | sigbit(sig));
	wake_for_signal(tg, t, who, sig);
	return true;
}

void signal_unqueue_prealloc_locked(struct tgroup *tg, struct task *t, struct sigqueue *q)
{
	struct sigpending *p = t ? &t->pending : &tg->shared;
	struct sigqueue *o;
	int sig = q->info.si_signo;
	bool found = false, others = false;

	TAILQ_FOREACH (o, &p->queue, link) {
		found = found || o == q;
		others = others || (o != q && o->info.si_signo == sig);
	}
	if (!found)
		return;
	TAILQ_REMOVE(&p->queue, q, link);
	if (!others)
		sigpending_write(p, p->set & ~sigbit(sig));
}

bool signal_pending(struct task *t)
{
	return fiber_interrupted(t->fiber);
}

static int next_signal(lx_sigset_t set)
{
	if (set & SIGS_SYNCHRONOUS)
		set &= SIGS_SYNCHRONOUS;
	return set ? __builtin_ctzll(set) + 1 : 0;
}

static void collect(struct tgroup *tg, struct sigpending *p, int sig, struct lx_siginfo *info)
	REQUIRES(g_kernel.tasklist)
{
	struct sigqueue *q, *first = NULL;
	bool more = false;

	TAILQ_FOREACH (q, &p->queue, link) {
		if (q->info.si_signo != sig)
			continue;
		if (first) {
			more = true;
			break;
		}
		first = q;
	}
	if (!more)
		sigpending_write(p, p->set & ~sigbit(sig));
	if (!first) {
		/* It was queued without memory for its details. */
		memset(info, 0, sizeof(*info));
		info->si_signo = sig;
		return;
	}
	TAILQ_REMOVE(&p->queue, first, link);
	sigqueue_free(tg, first, info);
}

int signal_dequeue_locked(struct task *t, lx_sigset_t mask, struct lx_siginfo *info)
{
	int sig = next_signal(t->pending.set & mask);

	if (sig) {
		collect(t->tg, &t->pending, sig, info);
	} else {
		sig = next_signal(t->tg->shared.set & mask);
		if (sig)
			collect(t->tg, &t->tg->shared, sig, info);
	}
	if (sig)
		signal_recalc_locked(t);
	return sig;
}

lx_sigset_t signal_pending_set(struct task *t)
{
	lx_sigset_t s;

	mutex_lock(&g_kernel.tasklist);
	s = t->pending.set | t->tg->shared.set;
	mutex_unlock(&g_kernel.tasklist);
	return s;
}

/* Signals that this task no longer wants may be waiting for another thread to be told of them. */
static void retarget_shared(struct task *t, lx_sigset_t newly_blocked) REQUIRES(g_kernel.tasklist)
{
	lx_sigset_t left = t->tg->shared.set & newly_blocked;

	while (left) {
		int sig = __builtin_ctzll(left) + 1;
		struct task *o;

		left &= ~sigbit(sig);
		tgroup_foreach_task (o, t->tg) {
			if (o != t && task_wants(o, sig)) {
				signal_wake_locked(o, false);
				break;
			}
		}
	}
}

void signal_set_blocked(struct task *t, lx_sigset_t mask)
{
	mask &= ~SIGS_UNBLOCKABLE;
	mutex_lock(&g_kernel.tasklist);
	lx_sigset_t newly = mask & ~t->blocked;

	t->blocked = mask;
	if (newly && t->tg->live > 1)
		retarget_shared(t, newly);
	signal_recalc_locked(t);
	mutex_unlock(&g_kernel.tasklist);
}

void signal_set_temp_mask(struct task *t, lx_sigset_t mask)
{
	t->saved_mask = t->blocked;
	t->restore_mask = true;
	signal_set_blocked(t, mask);
}

void signal_restore_temp_mask(struct task *t)
{
	if (!t->restore_mask)
		return;
	t->restore_mask = false;
	signal_set_blocked(t, t->saved_mask);
}

void signal_reset_handlers(struct task *t)
{
	mutex_lock(&g_kernel.tasklist);
	for (int i = 0; i < LX_NSIG; i++) {
		struct lx_sigaction *a = &t->sighand->action[i];
		bool ign = a->handler == LX_SIG_IGN;

		memset(a, 0, sizeof(*a));
		a->handler = ign ? LX_SIG_IGN : LX_SIG_DFL;
	}
	t->sighand->changes++;
	mutex_unlock(&g_kernel.tasklist);
}

void signal_notify_parent_locked(struct tgroup *tg, int code, int status)
{
	struct tgroup *parent = tg->parent;
	struct lx_siginfo info;
	struct lx_sigaction *a;
	struct rusage_sum ru = tg->dead_threads;

	if (!parent || parent == g_kernel.init || !parent->leader || !parent->leader->sighand)
		return;
	memset(&info, 0, sizeof(info));
	info.si_signo = LX_SIGCHLD;
	info.si_code = code;
	info.u.chld.pid = tg->tgid;
	info.u.chld.uid = tg->leader ? tg->leader->vctx.cred->uid : 0;
	info.u.chld.status = status;
	info.u.chld.utime = (int64_t)(ru.user_ns / 10000000);
	info.u.chld.stime = (int64_t)(ru.sys_ns / 10000000);
	a = &parent->leader->sighand->action[LX_SIGCHLD - 1];
	if (code == LX_CLD_STOPPED || code == LX_CLD_CONTINUED) {
		if (answers_handler_locked(parent->leader, LX_SIGCHLD) != LX_SIG_IGN &&
		    !(a->flags & LX_SA_NOCLDSTOP))
			(void)signal_send_group_locked(parent, &info);
	} else if (tg->exit_signal) {
		info.si_signo = tg->exit_signal;
		(void)signal_send_group_locked(parent, &info);
	}
	waitq_wake_all(&parent->child_wait, 0);
}

void tgroup_request_exit_locked(struct tgroup *tg, int status)
{
	if (!tg->group_exit)
		group_kill_locked(tg, status);
}

void tgroup_request_exit(struct tgroup *tg, int status)
{
	mutex_lock(&g_kernel.tasklist);
	tgroup_request_exit_locked(tg, status);
	mutex_unlock(&g_kernel.tasklist);
}

const char *signal_name(int sig)
{
	static const char *const names[] = {
		"SIG0",     "SIGHUP",  "SIGINT",    "SIGQUIT", "SIGILL",  "SIGTRAP",   "SIGABRT",
		"SIGBUS",   "SIGFPE",  "SIGKILL",   "SIGUSR1", "SIGSEGV", "SIGUSR2",   "SIGPIPE",
		"SIGALRM",  "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP",   "SIGTSTP",
		"SIGTTIN",  "SIGTTOU", "SIGURG",    "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF",
		"SIGWINCH", "SIGIO",   "SIGPWR",    "SIGSYS",
	};
	static const char *const rt[] = {
		"SIGRTMIN", "SIGRT_1",  "SIGRT_2",  "SIGRT_3",  "SIGRT_4",  "SIGRT_5",  "SIGRT_6",
		"SIGRT_7",  "SIGRT_8",  "SIGRT_9",  "SIGRT_10", "SIGRT_11", "SIGRT_12", "SIGRT_13",
		"SIGRT_14", "SIGRT_15", "SIGRT_16", "SIGRT_17", "SIGRT_18", "SIGRT_19", "SIGRT_20",
		"SIGRT_21", "SIGRT_22", "SIGRT_23", "SIGRT_24", "SIGRT_25", "SIGRT_26", "SIGRT_27",
		"SIGRT_28", "SIGRT_29", "SIGRT_30", "SIGRT_31", "SIGRT_32",
	};

	if (sig >= 0 && sig < LX_SIGRTMIN)
		return names[sig];
	if (sig >= LX_SIGRTMIN && sig <= LX_NSIG)
		return rt[sig - LX_SIGRTMIN];
	return "SIG?";
}
