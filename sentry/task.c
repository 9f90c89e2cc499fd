/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks and thread groups as objects: allocation, references, what others may ask of them.
 */
#include "sentry/answers.h"
#include "sentry/guest_time.h"
#include "sentry/process.h"

#include <errno.h>
#include <string.h>

struct task *current_task(void)
{
	struct fiber *f = fiber_self();

	return f ? fiber_data(f) : NULL;
}

struct sighand *sighand_new(void)
{
	struct sighand *s = mem_zalloc(sizeof(*s));

	if (!s)
		return NULL;
	ref_init(&s->ref);
	waitq_init(&s->signalfd_wait);
	return s;
}

struct sighand *sighand_dup(struct sighand *s)
{
	struct sighand *n = sighand_new();

	if (!n)
		return NULL;
	mutex_lock(&g_kernel.tasklist);
	memcpy(n->action, s->action, sizeof(n->action));
	mutex_unlock(&g_kernel.tasklist);
	return n;
}

struct sighand *sighand_get(struct sighand *s)
{
	ref_get(&s->ref);
	return s;
}

void sighand_put(struct sighand *s)
{
	if (!s || !ref_put(&s->ref))
		return;
	waitq_fini(&s->signalfd_wait);
	mem_free(s);
}

static const struct lx_rlimit64 g_default_rlimits[LX_RLIM_NLIMITS] = {
	[LX_RLIMIT_CPU] = {LX_RLIM_INFINITY, LX_RLIM_INFINITY},
	[LX_RLIMIT_FSIZE] = {LX_RLIM_INFINITY, LX_RLIM_INFINITY},
	[LX_RLIMIT_DATA] = {LX_RLIM_INFINITY, LX_RLIM_INFINITY},
	[LX_RLIMIT_STACK] = {8 << 20, LX_RLIM_INFINITY},
	[LX_RLIMIT_CORE] = {0, LX_RLIM_INFINITY},
	[LX_RLIMIT_RSS] = {LX_RLIM_INFINITY, LX_RLIM_INFINITY},
	[LX_RLIMIT_NPROC] = {32768, 32768},
	[LX_RLIMIT_NOFILE] = {1024, 1 << 20},
	[LX_RLIMIT_MEMLOCK] = {8 << 20, 8 << 20},
	[LX_RLIMIT_AS] = {LX_RLIM_INFINITY, LX_RLIM_INFINITY},
	[LX_RLIMIT_LOCKS] = {LX_RLIM_INFINITY, LX_RLIM_INFINITY},
	[LX_RLIMIT_SIGPENDING] = {32768, 32768},
	[LX_RLIMIT_MSGQUEUE] = {819200, 819200},
	[LX_RLIMIT_NICE] = {0, 0},
	[LX_RLIMIT_RTPRIO] = {0, 0},
	[LX_RLIMIT_RTTIME] = {LX_RLIM_INFINITY, LX_RLIM_INFINITY},
};

struct tgroup *tgroup_alloc(struct pid *pid)
{
	struct tgroup *tg = mem_zalloc(sizeof(*tg));

	if (!tg)
		return NULL;
	ref_init(&tg->ref);
	tg->pid = pid_get(pid);
	tg->tgid = pid->nr;
	TAILQ_INIT(&tg->threads);
	TAILQ_INIT(&tg->children);
	sigpending_init(&tg->shared);
	waitq_init(&tg->exec_wait);
	waitq_init(&tg->cont_wait);
	waitq_init(&tg->child_wait);
	mutex_init(&tg->rlim_lock, RANK_MISC);
	memcpy(tg->rlim, g_default_rlimits, sizeof(tg->rlim));
	tg->exit_signal = LX_SIGCHLD;
	tg->dumpable = 1;
	tg->start_mono_ns = clock_mono_ns();
	itimer_init(tg);
	return tg;
}

struct tgroup *tgroup_get(struct tgroup *tg)
{
	ref_get(&tg->ref);
	return tg;
}

void tgroup_put(struct tgroup *tg)
{
	if (!tg || !ref_put(&tg->ref))
		return;
	/* May run under tasklist: the queues were emptied at exit, and nobody queues to the dead.
	 */
	BUG_ON(tg->shared.set);
	waitq_fini(&tg->exec_wait);
	waitq_fini(&tg->cont_wait);
	waitq_fini(&tg->child_wait);
	mem_free(tg->cpu_timers); /* of a child that was not made after all: not armed */
	mutex_fini(&tg->rlim_lock);
	pid_put(tg->pid);
	mem_free(tg);
}

struct task *task_alloc(struct tgroup *tg, struct pid *pid)
{
	struct task *t = mem_zalloc(sizeof(*t));

	if (!t)
		return NULL;
	ref_init(&t->ref);
	t->tid = pid->nr;
	t->pid = pid_get(pid);
	t->tg = tgroup_get(tg);
	sigpending_init(&t->pending);
	t->altstack.ss_flags = LX_SS_DISABLE;
	t->syscall_nr = -1;
	t->cpu_mask = UINT64_MAX;
	t->timer_slack_ns = t->default_slack_ns = 50000;
	t->state = TASK_RUNNING;
	t->start_mono_ns = clock_mono_ns();
	t->vctx.fsize_limit = UINT64_MAX;
	t->vctx.tid = t->tid;
	t->vctx.tgid = tg->tgid;
	return t;
}

struct task *task_get(struct task *t)
{
	ref_get(&t->ref);
	return t;
}

void task_put(struct task *t)
{
	if (!t || !ref_put(&t->ref))
		return;
	/* May run under tasklist: what sleeps when it is freed was let go in task_exit. */
	BUG_ON(t->pending.set);
	sighand_put(t->sighand);
	cred_put(t->vctx.cred);
	pid_put(t->pid);
	tgroup_put(t->tg);
	mem_free(t);
}

void task_link_locked(struct task *t)
{
	TAILQ_INSERT_TAIL(&t->tg->threads, t, thread_link);
	t->tg->live++;
	t->pid->task = task_get(t);
	g_kernel.tasks++;
	answers_not_alone_locked();
}

/* A group that begins has been told nothing yet, and one that ends is told nothing more. */
static void group_moved(const struct pid *from, const struct pid *to)
{
	if (from && to)
		answers_stale();
}

void tgroup_join_pgrp_locked(struct tgroup *tg, struct pid *pgrp)
{
	struct pid *old = tg->pgrp;

	if (old == pgrp)
		return;
	if (old)
		TAILQ_REMOVE(&old->pgrp_members, tg, pgrp_link);
	tg->pgrp = pgrp ? pid_get(pgrp) : NULL;
	if (pgrp)
		TAILQ_INSERT_TAIL(&pgrp->pgrp_members, tg, pgrp_link);
	pid_put(old);
	group_moved(old, pgrp);
}

void tgroup_join_session_locked(struct tgroup *tg, struct pid *session)
{
	struct pid *old = tg->session;

	if (old == session)
		return;
	if (old)
		TAILQ_REMOVE(&old->session_members, tg, session_link);
	tg->session = session ? pid_get(session) : NULL;
	if (session)
		TAILQ_INSERT_TAIL(&session->session_members, tg, session_link);
	pid_put(old);
	group_moved(old, session);
}

struct mm *task_get_mm(struct task *t)
{
	struct mm *mm;

	mutex_lock(&g_kernel.tasklist);
	mm = t->mm ? mm_get(t->mm) : NULL;
	mutex_unlock(&g_kernel.tasklist);
	return mm;
}

struct fdtable *task_get_files(struct task *t)
{
	struct fdtable *f;

	mutex_lock(&g_kernel.tasklist);
	f = t->files ? fdtable_get(t->files) : NULL;
	mutex_unlock(&g_kernel.tasklist);
	return f;
}

struct cred *task_get_cred(struct task *t)
{
	struct cred *c;

	mutex_lock(&g_kernel.tasklist);
	c = cred_get(t->vctx.cred);
	mutex_unlock(&g_kernel.tasklist);
	return c;
}

struct fs_struct *task_get_fs(struct task *t)
{
	struct fs_struct *fs;

	mutex_lock(&g_kernel.tasklist);
	fs = t->vctx.fs ? fs_get(t->vctx.fs) : NULL;
	mutex_unlock(&g_kernel.tasklist);
	return fs;
}

char task_state_char(struct task *t)
{
	char c;

	mutex_lock(&g_kernel.tasklist);
	switch (t->state) {
	case TASK_STOPPED:
		c = 'T';
		break;
	case TASK_ZOMBIE:
		c = 'Z';
		break;
	case TASK_DEAD:
		c = 'X';
		break;
	default:
		/* In the guest, or the very task that reads: running. Else it waits in a syscall.
		 */
		c = t == current_task() || (atomic_load(&t->in_guest) &&
					    !(t->pt && g_pf->asleep && g_pf->asleep(t->pt)))
			    ? 'R'
			    : 'S';
		break;
	}
	mutex_unlock(&g_kernel.tasklist);
	return c;
}

void task_set_cred(struct task *t, struct cred *c)
{
	struct cred *old;

	mutex_lock(&g_kernel.tasklist);
	old = t->vctx.cred;
	t->vctx.cred = c;
	mutex_unlock(&g_kernel.tasklist);
	answers_stale();
	cred_put(old);
}

uint64_t rlimit_get(struct tgroup *tg, int resource)
{
	uint64_t v;

	mutex_lock(&tg->rlim_lock);
	v = tg->rlim[resource].cur;
	mutex_unlock(&tg->rlim_lock);
	return v;
}

void task_cpu_locked(struct task *t, struct rusage_sum *s)
{
	struct pf_cpu_times c = {0};

	if (t->usage_final) {
		rusage_add(s, &t->final_usage);
		return;
	}
	/* pt goes away only under tasklist. With turns, what counts is steps. */
	if (t->pt && !g_fiber_turns)
		g_pf->cpu_times(t->pt, &c);
	t->usage_told = true;
	t->cpu_used_ns = c.user_ns + c.system_ns + t->sys_ns;
	s->user_ns += c.user_ns;
	s->sys_ns += c.system_ns + t->sys_ns;
	s->min_flt += c.minor_faults + t->min_flt;
	s->maj_flt += c.major_faults;
	s->nvcsw += c.voluntary_switches;
	s->nivcsw += c.involuntary_switches;
}

void task_times(struct task *t, uint64_t *user_ns, uint64_t *sys_ns)
{
	struct rusage_sum s = {0};

	mutex_lock(&g_kernel.tasklist);
	task_cpu_locked(t, &s);
	mutex_unlock(&g_kernel.tasklist);
	*user_ns = s.user_ns;
	*sys_ns = s.sys_ns;
}

void tgroup_rusage_locked(struct tgroup *tg, struct rusage_sum *out)
{
	struct task *t;

	*out = tg->dead_threads;
	tgroup_foreach_task (t, tg) {
		if (t->state != TASK_ZOMBIE && t->state != TASK_DEAD)
			task_cpu_locked(t, out);
	}
}

struct task *tgroup_busy_locked(struct tgroup *tg)
{
	struct task *t, *best = NULL;

	tgroup_foreach_task (t, tg) {
		if (t->state == TASK_ZOMBIE || t->state == TASK_DEAD ||
		    t->cpu_used_ns <= t->cpu_seen_ns)
			continue;
		t->cpu_owed_ns += t->cpu_used_ns - t->cpu_seen_ns;
		t->cpu_seen_ns = t->cpu_used_ns;
		if (!best || t->cpu_owed_ns > best->cpu_owed_ns)
			best = t;
	}
	if (best)
		best->cpu_owed_ns = 0;
	return best;
}

void tgroup_rusage(struct tgroup *tg, struct rusage_sum *out)
{
	mutex_lock(&g_kernel.tasklist);
	tgroup_rusage_locked(tg, out);
	mutex_unlock(&g_kernel.tasklist);
}

void rusage_add(struct rusage_sum *to, const struct rusage_sum *from)
{
	to->user_ns += from->user_ns;
	to->sys_ns += from->sys_ns;
	to->min_flt += from->min_flt;
	to->maj_flt += from->maj_flt;
	to->nvcsw += from->nvcsw;
	to->nivcsw += from->nivcsw;
	to->inblock += from->inblock;
	to->oublock += from->oublock;
	to->max_rss_kb = MAX(to->max_rss_kb, from->max_rss_kb);
}

void rusage_to_lx(const struct rusage_sum *s, struct lx_rusage *out)
{
	*out = (struct lx_rusage){
		.utime = ns_to_timeval(s->user_ns),
		.stime = ns_to_timeval(s->sys_ns),
		.maxrss = (int64_t)s->max_rss_kb,
		.minflt = (int64_t)s->min_flt,
		.majflt = (int64_t)s->maj_flt,
		.inblock = (int64_t)s->inblock,
		.oublock = (int64_t)s->oublock,
		.nvcsw = (int64_t)s->nvcsw,
		.nivcsw = (int64_t)s->nivcsw,
	};
}

unsigned tasks_of_user_locked(uint32_t uid)
{
	struct pid *init = g_kernel.init->pid;
	unsigned n = 0;

	for (struct tgroup *tg = tgroup_walk_locked(init->tg, NULL); tg;
	     tg = tgroup_walk_locked(init->tg, tg)) {
		if (tg->leader && tg->leader->vctx.cred->uid == uid)
			n += tg->live;
	}
	return n;
}

struct tgroup *tgroup_walk_locked(struct tgroup *top, struct tgroup *at)
{
	struct tgroup *next;

	if (!at)
		return TAILQ_FIRST(&top->children);
	next = TAILQ_FIRST(&at->children);
	while (!next && at != top) {
		next = TAILQ_NEXT(at, sibling);
		at = at->parent;
	}
	return next;
}

bool task_may_access(struct task *t, struct task *target)
{
	struct cred *tc;
	const struct cred *c = t->vctx.cred;
	bool ok;

	if (t->tg == target->tg)
		return true;
	tc = task_get_cred(target);
	ok = c->uid == tc->euid && c->uid == tc->suid && c->uid == tc->uid && c->gid == tc->egid &&
	     c->gid == tc->sgid && c->gid == tc->gid;
	ok = ok && target->tg->dumpable == 1 && (tc->cap_permitted & ~c->cap_permitted) == 0;
	cred_put(tc);
	return ok || cred_capable(c, LX_CAP_SYS_PTRACE);
}
