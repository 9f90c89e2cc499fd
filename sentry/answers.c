/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a platform may answer in the guest (tier 0): published by each task for itself.
 *
 * Theory of operation: a platform that answers calls in the guest asks before a task's thread runs
 * whether there is something to publish (struct platform.answers_begin). Whoever changes what may
 * have been published for anybody calls answers_stale() after the change; then all threads come to
 * the sentry once more, and publish anew. A test (tests/guest/answers.c) holds each answer equal to
 * the handler's.
 *
 * Off where each call must be seen or time is not the host's: --strace.
 *
 * Locking: takes tasklist, rlim_lock, the lock of the file-system context; none may be held.
 */
#include "sentry/answers.h"
#include "sentry/uts.h"
#include "vfs/shown.h"

#include <string.h>

/* [tasklist] Somebody may still believe to be alone. */
static bool g_alone_told;

static void publish(struct task *t, struct pf_answers *a)
{
	const struct cred *c = t->vctx.cred;
	struct tgroup *tg = t->tg;
	bool alone;

	mutex_lock(&g_kernel.tasklist);
	a->pid = tg->tgid;
	a->tid = t->tid;
	a->ppid = tg->parent ? tg->parent->tgid : 0;
	a->pgid = tg->pgrp ? tg->pgrp->nr : 0;
	a->sid = tg->session ? tg->session->nr : 0;
	alone = g_kernel.tasks <= 1;
	a->alone = alone;
	g_alone_told |= alone;
	mutex_unlock(&g_kernel.tasklist);
	a->uid = c->uid;
	a->euid = c->euid;
	a->gid = c->gid;
	a->egid = c->egid;
	a->umask = fs_get_umask(t->vctx.fs);
	a->cpu = sched_task_cpu(t);
	mutex_lock(&tg->rlim_lock);
	for (unsigned i = 0; i < LX_RLIM_NLIMITS; i++) {
		a->limit[i][0] = tg->rlim[i].cur;
		a->limit[i][1] = tg->rlim[i].max;
	}
	mutex_unlock(&tg->rlim_lock);
	task_uname(t, a->uname);
}
_Static_assert(LX_RLIM_NLIMITS == PF_ANSWER_LIMITS, "all limits");

/* Actions that threads share are the sentry's alone. */
static void actions_begin_locked(struct task *t) REQUIRES(g_kernel.tasklist)
{
	if (ref_read(&t->sighand->ref) != 1)
		return;
	t->actions = g_pf->answers_actions(t->pt);
	t->actions_given = t->sighand->changes - 1;
}

void answers_publish(struct task *t)
{
	struct pf_answers *a = g_pf->answers_begin ? g_pf->answers_begin(t->pt) : NULL;

	if (likely(!a))
		return;
	publish(t, a);
	g_pf->answers_end(t->pt);
	if (!t->masks) {
		mutex_lock(&g_kernel.tasklist);
		t->masks = a;
		actions_begin_locked(t);
		mutex_unlock(&g_kernel.tasklist);
		a->masks = 1;
	}
}

/* ---- signal masks ---- */

void answers_mask_give(struct task *t)
{
	struct pf_answers *a = t->masks;

	if (!a)
		return;
	atomic_store_explicit(&a->blocked, t->blocked, memory_order_relaxed);
	atomic_store_explicit(&a->pending, 0, memory_order_relaxed);
}

void answers_mask_given(struct task *t)
{
	struct pf_answers *a = t->masks;
	lx_sigset_t pending;

	if (!a)
		return;
	/* Without the lock: a sender that queues one just now sees in_guest, and marks it itself.
	 */
	pending = __atomic_load_n(&t->pending.set, __ATOMIC_RELAXED) |
		  __atomic_load_n(&t->tg->shared.set, __ATOMIC_RELAXED) |
		  __atomic_load_n(&t->tg->timers_held, __ATOMIC_RELAXED);
	if (unlikely(pending != 0))
		atomic_fetch_or(&a->pending, pending);
}

void answers_mask_take(struct task *t)
{
	lx_sigset_t mask;

	if (!t->masks)
		return;
	mask = atomic_load_explicit(&t->masks->blocked, memory_order_acquire) & ~SIGS_UNBLOCKABLE;
	/* The stub may have changed the mask and taken that back; a sender between the two has told
	 * nobody. */
	if (unlikely(mask != t->blocked ||
		     (atomic_load_explicit(&t->masks->pending, memory_order_relaxed) & ~mask)))
		signal_set_blocked(t, mask);
}

lx_sigset_t answers_blocked(struct task *t)
{
	if (t->masks && atomic_load(&t->in_guest))
		return atomic_load(&t->masks->blocked) & ~SIGS_UNBLOCKABLE;
	return t->blocked;
}

void answers_mark_pending(struct task *t, int sig)
{
	if (t->masks && atomic_load(&t->in_guest))
		atomic_fetch_or(&t->masks->pending, (uint64_t)1 << (sig - 1));
}

void answers_mark_held_locked(struct tgroup *tg, int sig)
{
	struct task *t;

	tgroup_foreach_task (t, tg) {
		answers_mark_pending(t, sig);
		/* It may have been past its look at that when it was marked. */
		if (t->actions && atomic_load(&t->in_guest) && t->pt)
			g_pf->interrupt(t->pt);
	}
}

/* ---- signal actions ---- */

_Static_assert(sizeof(((struct pf_actions *)0)->action) == sizeof(((struct sighand *)0)->action) &&
		       offsetof(struct pf_action, mask) == offsetof(struct lx_sigaction, mask) &&
		       PF_ACTION_KEPT == (LX_SA_NOCLDSTOP | LX_SA_NOCLDWAIT),
	       "as in the guest");

/* All that has changed here since. */
void answers_actions_give(struct task *t)
{
	struct pf_actions *a = t->actions;

	if (likely(!a || t->actions_given == t->sighand->changes))
		return;
	t->actions_given = t->sighand->changes;
	memcpy(a->action, t->sighand->action, sizeof(a->action));
	atomic_store(&a->told, 0);
	a->on = 1;
}

static void actions_take(struct task *t)
{
	lx_sigset_t told;

	mutex_lock(&g_kernel.tasklist);
	told = atomic_load(&t->actions->told) & ~SIGS_UNBLOCKABLE;
	for (int sig = 1; sig <= LX_NSIG; sig++) {
		const struct pf_action *slot = &t->actions->action[sig - 1];

		if (told & sigbit(sig)) {
			const struct lx_sigaction a = {
				.handler = atomic_load(&slot->handler),
				.flags = __atomic_load_n(&slot->flags, __ATOMIC_RELAXED),
				.restorer = __atomic_load_n(&slot->restorer, __ATOMIC_RELAXED),
				.mask = __atomic_load_n(&slot->mask, __ATOMIC_RELAXED)};

			signal_action_set_locked(t, sig, &a);
		}
	}
	/* Here and there it is the same; and if not, the guest has written where it should not. */
	t->actions_given = t->sighand->changes;
	atomic_store(&t->actions->told, 0);
	mutex_unlock(&g_kernel.tasklist);
}

uint64_t answers_handler_locked(struct task *t, int sig)
{
	if (t->actions && (atomic_load(&t->actions->told) & ~SIGS_UNBLOCKABLE & sigbit(sig)))
		return atomic_load(&t->actions->action[sig - 1].handler);
	return t->sighand->action[sig - 1].handler;
}

void answers_actions_share(struct task *t)
{
	if (!t->actions)
		return;
	mutex_lock(&g_kernel.tasklist);
	/* All of it: it is wiped for the area's next user only where it is in use. */
	memset(t->actions, 0, sizeof(*t->actions));
	t->actions = NULL;
	mutex_unlock(&g_kernel.tasklist);
}

/* ---- reads ---- */

static void reads_take(struct task *t)
{
	uint64_t calls, bytes;

	mutex_lock(&g_kernel.tasklist);
	g_pf->told_reads(t->pt, true, &calls, &bytes);
	t->read_calls += calls;
	t->read_bytes += bytes;
	mutex_unlock(&g_kernel.tasklist);
}

void answers_reads(struct task *t, uint64_t *calls, uint64_t *bytes)
{
	uint64_t more_calls = 0, more_bytes = 0;

	mutex_lock(&g_kernel.tasklist);
	if (t->pt && g_pf->told_reads)
		g_pf->told_reads(t->pt, false, &more_calls, &more_bytes);
	*calls = t->read_calls + more_calls;
	*bytes = t->read_bytes + more_bytes;
	mutex_unlock(&g_kernel.tasklist);
}

void answers_read(struct task *t, int fd, struct file *f, int64_t pos)
{
	struct file_view v;

	if (!g_pf->read_due || !g_pf->read_due(t->pt, fd, (uint64_t)pos) ||
	    !shown_begin(t->files, fd, f, pos, &v))
		return;
	g_pf->read_publish(t->pt, &(struct pf_read){.fd = fd,
						    .whole = v.whole,
						    .mark = v.mark,
						    .value = v.value,
						    .id = v.id,
						    .start = v.start,
						    .end = v.end});
}

/* ---- all that was told ---- */

void answers_take(struct task *t, const struct pf_trap *trap)
{
	if (unlikely(trap->told_reads))
		reads_take(t);
	if (t->actions && unlikely(atomic_load_explicit(&t->actions->told, memory_order_relaxed)))
		actions_take(t);

	if (unlikely(trap->told_robust))
		t->robust_list = GADDR(trap->robust_list);
	if (unlikely(trap->told_tid))
		t->clear_child_tid = GADDR(trap->tid_address);
}

uint64_t answers_robust_list(struct task *t)
{
	uint64_t head;

	mutex_lock(&g_kernel.tasklist);
	if (!t->pt || !g_pf->told_robust || !g_pf->told_robust(t->pt, &head))
		head = t->robust_list.a;
	mutex_unlock(&g_kernel.tasklist);
	return head;
}

void answers_stale(void)
{
	if (g_pf && g_pf->answers_stale)
		g_pf->answers_stale();
}

void answers_not_alone_locked(void)
{
	if (g_alone_told)
		answers_stale();
	g_alone_told = false;
}
