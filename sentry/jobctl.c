/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process groups and sessions: their syscalls, and what happens to orphaned groups.
 *
 * References: setpgid(2), setsid(2), credentials(7), POSIX on orphaned process groups.
 */
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>

bool pgrp_is_orphaned_locked(struct pid *pgrp, struct tgroup *ignore)
{
	struct tgroup *m;

	TAILQ_FOREACH (m, &pgrp->pgrp_members, pgrp_link) {
		if (m == ignore || m->zombie || !m->parent || m->parent == g_kernel.init)
			continue;
		if (m->parent->pgrp != pgrp && m->parent->session == m->session)
			return false;
	}
	return true;
}

bool pgrp_is_abandoned_locked(struct pid *pgrp)
{
	struct tgroup *m;

	if (!pgrp_is_orphaned_locked(pgrp, NULL))
		return false;
	if (!atomic_load(&g_kernel.stoppable))
		return true;
	TAILQ_FOREACH (m, &pgrp->pgrp_members, pgrp_link) {
		if (kernel_is_main_locked(m))
			return false;
	}
	return true;
}

static bool has_stopped_member(struct pid *pgrp)
{
	struct tgroup *m;

	TAILQ_FOREACH (m, &pgrp->pgrp_members, pgrp_link) {
		if (m->stopped)
			return true;
	}
	return false;
}

void pgrp_check_orphaned_locked(struct tgroup *tg, struct tgroup *parent)
{
	struct pid *pgrp = tg->pgrp;
	struct tgroup *ignore = tg;
	struct lx_siginfo info;

	if (!pgrp || !parent)
		return;
	/* A child whose parent dies is judged with itself; one that dies, without. */
	if (!tg->zombie && tg->live)
		ignore = NULL;
	if (parent->pgrp == pgrp || parent->session != tg->session)
		return;
	/* Would the group have been kept by this very link? Then it may be orphaned now. */
	for (struct tgroup *m = TAILQ_FIRST(&pgrp->pgrp_members); m; m = TAILQ_NEXT(m, pgrp_link)) {
		if (m == ignore || m->zombie || m->parent == parent || !m->parent ||
		    m->parent == g_kernel.init)
			continue;
		if (m->parent->pgrp != pgrp && m->parent->session == m->session)
			return;
	}
	if (ignore) {
		/* tg dies: others whose parent is the same one keep the group. */
		for (struct tgroup *m = TAILQ_FIRST(&pgrp->pgrp_members); m;
		     m = TAILQ_NEXT(m, pgrp_link)) {
			if (m != ignore && !m->zombie && m->parent == parent &&
			    parent != g_kernel.init)
				return;
		}
	}
	if (!has_stopped_member(pgrp))
		return;
	siginfo_kernel(&info, LX_SIGHUP);
	(void)signal_send_pgrp_locked(pgrp, &info);
	siginfo_kernel(&info, LX_SIGCONT);
	(void)signal_send_pgrp_locked(pgrp, &info);
}

/* The group that @pid means: 0 is the caller. A reference. */
static struct tgroup *group_by_pid(struct task *t, int pid)
{
	return pid == 0 ? tgroup_get(t->tg) : tgroup_find(pid);
}

long sys_setpgid(struct task *t, int pid, int pgid)
{
	struct tgroup *tg;
	struct pid *target = NULL;
	long r;

	/* A group of 0 is the process's own number, so a bad process makes a bad group. */
	if (pgid < 0 || (pgid == 0 && pid < 0))
		return -EINVAL;
	if (pid < 0)
		return -ESRCH;
	tg = group_by_pid(t, pid);
	if (!tg)
		return -ESRCH;
	if (pgid == 0)
		pgid = tg->tgid;
	target = pid_find(pgid);

	mutex_lock(&g_kernel.tasklist);
	r = -ESRCH;
	if (tg->zombie || (tg != t->tg && tg->parent != t->tg))
		goto out;
	r = -EPERM;
	if (tg != t->tg && tg->session != t->tg->session)
		goto out;
	r = -EACCES;
	if (tg != t->tg && tg->did_exec)
		goto out;
	r = -EPERM;
	if (tg->is_session_leader)
		goto out;
	if (pgid != tg->tgid) {
		struct tgroup *member = target ? TAILQ_FIRST(&target->pgrp_members) : NULL;

		if (!member || member->session != t->tg->session)
			goto out;
	}
	if (!target)
		goto out;
	tgroup_join_pgrp_locked(tg, target);
	r = 0;
out:
	mutex_unlock(&g_kernel.tasklist);
	pid_put(target);
	tgroup_put(tg);
	return r;
}

static long group_id(struct task *t, int pid, bool session)
{
	struct tgroup *tg;
	long r = -ESRCH;

	if (pid < 0)
		return -ESRCH;
	/* Any thread's id will do here, as in Linux. */
	if (pid == 0) {
		tg = tgroup_get(t->tg);
	} else {
		struct task *o = task_find(pid);

		if (!o)
			return -ESRCH;
		tg = tgroup_get(o->tg);
		task_put(o);
	}
	mutex_lock(&g_kernel.tasklist);
	struct pid *p = session ? tg->session : tg->pgrp;

	if (p)
		r = p->nr;
	mutex_unlock(&g_kernel.tasklist);
	tgroup_put(tg);
	return r;
}

long sys_getpgid(struct task *t, int pid)
{
	return group_id(t, pid, false);
}

long sys_getpgrp(struct task *t)
{
	return group_id(t, 0, false);
}

long sys_getsid(struct task *t, int pid)
{
	return group_id(t, pid, true);
}

long sys_setsid(struct task *t)
{
	struct tgroup *tg = t->tg;
	long r = -EPERM;

	mutex_lock(&g_kernel.tasklist);
	/* Not for a leader, nor if some group has our number already. */
	if (!tg->is_session_leader && TAILQ_EMPTY(&tg->pid->pgrp_members)) {
		tgroup_join_session_locked(tg, tg->pid);
		tgroup_join_pgrp_locked(tg, tg->pid);
		tg->is_session_leader = true;
		tg->no_tty = false;
		r = tg->tgid;
	}
	mutex_unlock(&g_kernel.tasklist);
	return r;
}

long sys_getpid(struct task *t)
{
	return t->tg->tgid;
}

long sys_gettid(struct task *t)
{
	return t->tid;
}

long sys_getppid(struct task *t)
{
	long r;

	mutex_lock(&g_kernel.tasklist);
	r = t->tg->parent ? t->tg->parent->tgid : 0;
	mutex_unlock(&g_kernel.tasklist);
	return r;
}
