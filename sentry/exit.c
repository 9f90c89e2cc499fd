/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of threads and processes.
 *
 * Theory of operation: a thread ends in its own fiber, when its loop sees that it shall
 * (task_exit). It first gives back what may sleep (memory, files, timers), without locks, then,
 * under tasklist, leaves the tables and tells who waits. A leader stays as a zombie until its group
 * is reaped; the last thread makes the group a zombie and hands its children to the nearest
 * subreaper or to pid 1.
 *
 * References: exit(2), _exit(2), exit_group(2), wait(2), prctl(2) PR_SET_CHILD_SUBREAPER,
 * setpgid(2) on orphans.
 */
#include "sentry/answers.h"
#include "sentry/audit.h"
#include "sentry/process.h"
#include "sentry/summary.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <string.h>

void task_request_exit(struct task *t, int status)
{
	t->exiting = true;
	t->exit_code = status;
}

long sys_exit(struct task *t, int status)
{
	task_request_exit(t, (status & 0xff) << 8);
	return 0;
}

long sys_exit_group(struct task *t, int status)
{
	tgroup_request_exit(t->tg, (status & 0xff) << 8);
	task_request_exit(t, t->tg->group_exit_code);
	return 0;
}

static struct tgroup *new_parent_for(struct tgroup *dead)
{
	for (struct tgroup *p = dead->parent; p && p != g_kernel.init; p = p->parent) {
		if (p->child_subreaper && !p->zombie && !p->group_exit)
			return p;
	}
	return g_kernel.init;
}

/* Does the parent want to hear of zombies, or shall they vanish by themselves? wait(2) NOTES. */
static bool parent_ignores(struct tgroup *tg) REQUIRES(g_kernel.tasklist)
{
	struct tgroup *p = tg->parent;

	if (p == g_kernel.init || !p->leader)
		return true;
	return tg->exit_signal == LX_SIGCHLD &&
	       (answers_handler_locked(p->leader, LX_SIGCHLD) == LX_SIG_IGN ||
		(p->leader->sighand->action[LX_SIGCHLD - 1].flags & LX_SA_NOCLDWAIT));
}

static int group_status(struct tgroup *tg)
{
	return tg->group_exit ? tg->group_exit_code : tg->leader->exit_code;
}

/* For the summary: has the end of @tg, which was refused what some only try, been a good one? */
static void note_asked(struct tgroup *tg)
{
	const uint8_t asked = atomic_load_explicit(&tg->asked, memory_order_relaxed);
	char who[sizeof(tg->leader->comm)];
	bool well;

	if (likely(!asked))
		return;
	mutex_lock(&g_kernel.tasklist);
	memcpy(who, tg->leader->comm, sizeof(who));
	well = group_status(tg) == 0;
	mutex_unlock(&g_kernel.tasklist);
	who[sizeof(who) - 1] = '\0';
	summary_asked_ended(asked, who, well);
}

/* Tells the parent that @tg is a zombie; reaps it at once if nobody will. */
static void announce_zombie(struct tgroup *tg) REQUIRES(g_kernel.tasklist)
{
	int status = group_status(tg), sig = status & 0x7f;
	int code = status & 0x80 ? LX_CLD_DUMPED : sig ? LX_CLD_KILLED : LX_CLD_EXITED;
	bool reap = parent_ignores(tg);

	signal_notify_parent_locked(tg, code, sig ? sig : status >> 8);
	if (reap)
		tgroup_reap_locked(tg);
}

static void reparent_children(struct tgroup *tg) REQUIRES(g_kernel.tasklist)
{
	struct tgroup *heir = new_parent_for(tg), *c, *next;

	TAILQ_FOREACH_SAFE (c, &tg->children, sibling, next) {
		struct task *ct;

		TAILQ_REMOVE(&tg->children, c, sibling);
		pgrp_check_orphaned_locked(c, tg);
		c->parent = heir;
		answers_stale();
		TAILQ_INSERT_TAIL(&heir->children, c, sibling);
		tgroup_foreach_task (ct, c) {
			struct lx_siginfo info;

			if (!ct->pdeath_signal)
				continue;
			siginfo_kernel(&info, ct->pdeath_signal);
			info.si_code = LX_SI_USER;
			info.u.rt.pid = tg->tgid;
			(void)signal_send_group_locked(c, &info);
		}
		if (c->exit_signal)
			c->exit_signal = LX_SIGCHLD;
		if (c->zombie)
			announce_zombie(c);
	}
}

static void thread_unlink(struct task *t)
{
	TAILQ_REMOVE(&t->tg->threads, t, thread_link);
	if (t->pid->task == t) {
		t->pid->task = NULL;
		task_put(t);
		waitq_wake_all(&t->pid->exit_wait, LX_POLLHUP);
	}
	t->state = TASK_DEAD;
}

void tgroup_reap_locked(struct tgroup *tg)
{
	struct task *leader = tg->leader;

	BUG_ON(!tg->zombie || tg->live);
	TAILQ_REMOVE(&tg->parent->children, tg, sibling);
	tgroup_join_pgrp_locked(tg, NULL);
	tgroup_join_session_locked(tg, NULL);
	tg->leader = NULL;
	tg->parent = NULL;
	g_kernel.tgroups--;
	meter_uncharge(METER_processes, 1);
	thread_unlink(leader);
	task_put(leader);
	if (tg->pid->tg == tg) {
		tg->pid->tg = NULL;
		waitq_wake_all(&tg->pid->exit_wait, LX_POLLHUP);
		tgroup_put(tg);
	}
}

/* Under tasklist: out of the tables, and the group's end if this was its last thread. */
static void exit_notify(struct task *t)
{
	struct tgroup *tg = t->tg;
	bool leader = tg->leader == t;

	mutex_lock(&g_kernel.tasklist);
	/* It ends, and its storage becomes another's, while a zombie leader is still in its group.
	 */
	t->fiber = NULL;
	rusage_add(&tg->dead_threads, &t->final_usage);
	sigpending_flush_locked(tg, &t->pending, ~(lx_sigset_t)0);
	tg->live--;
	g_kernel.tasks--;
	meter_uncharge(METER_threads, 1);
	if (tg->live) {
		if (leader)
			t->state = TASK_ZOMBIE;
		else
			thread_unlink(t);
		/* What this thread was told of may be another's now. */
		struct task *o;

		tgroup_foreach_task (o, tg) {
			if (o->state != TASK_ZOMBIE && (tg->shared.set & ~answers_blocked(o)))
				signal_wake_locked(o, false);
		}
		waitq_wake_all(&tg->exec_wait, 0);
		waitq_wake_all(&t->pid->exit_wait, LX_POLLIN);
		kernel_note_exit(NULL, 0);
		mutex_unlock(&g_kernel.tasklist);
		return;
	}
	if (leader)
		t->state = TASK_ZOMBIE;
	else
		thread_unlink(t);
	tg->stopped = false;
	sigpending_flush_locked(tg, &tg->shared, ~(lx_sigset_t)0);
	/* From here on nothing is queued to it: its end may send signals to its own process group.
	 */
	tg->zombie = true;
	reparent_children(tg);
	pgrp_check_orphaned_locked(tg, tg->parent);
	waitq_wake_all(&tg->pid->exit_wait, LX_POLLIN);
	if (!leader)
		waitq_wake_all(&t->pid->exit_wait, LX_POLLIN);
	kernel_note_exit(tg, group_status(tg));
	announce_zombie(tg);
	mutex_unlock(&g_kernel.tasklist);
}

/* What the platform knows of @t's use of the processor and, @last, of its memory. */
static void ask_usage(struct task *t, bool last, struct rusage_sum *out)
{
	struct pf_cpu_times c = {0};
	struct pf_mem_stats ms = {0};

	if (!g_fiber_turns)
		g_pf->cpu_times(t->pt, &c);
	if (last && t->mm)
		g_pf->mem_stats(t->mm->as, &ms);
	*out = (struct rusage_sum){.user_ns = c.user_ns,
				   .sys_ns = c.system_ns,
				   .min_flt = c.minor_faults,
				   .maj_flt = c.major_faults,
				   .nvcsw = c.voluntary_switches,
				   .nivcsw = c.involuntary_switches,
				   .max_rss_kb = ms.peak_rss_bytes / 1024};
}

/*
 * The host writes these figures as texts, which takes as long as a thread's whole life may: 22 us
 * for a thread and 65 for a process, *measured*; and of a process that was asked the host reaps the
 * entries of /proc with it, which took 0.9 ms when others used /proc, too. So of the threads that
 * lived for less than BRIEF_NS, and of children that did, only one in BRIEF_ASKED is asked, and
 * when there have been many of them, one in BRIEF_MANY; its siblings are charged the same, and so
 * are children for the time before their first exec. Children that did exec are siblings of those
 * that ran the same program. A task whose time somebody was told of is asked: a process's clock
 * does not run backwards. The sandbox's program is not: nobody is left to be told.
 */
#define BRIEF_NS (4 * NSEC_PER_MSEC)
#define BRIEF_ASKED 8u
#define BRIEF_MANY 64u

static bool brief_ask(struct brief_tasks *b)
{
	const unsigned before = b->ended++;

	return before % (before < BRIEF_MANY ? BRIEF_ASKED : BRIEF_MANY) == 0;
}

/* Among which brief lives @t, which ends, counts. */
static struct brief_tasks *brief_of(struct task *t, bool last) REQUIRES(g_kernel.tasklist)
{
	struct tgroup *parent = t->tg->parent;
	struct brief_programs *p;
	const uint64_t program = t->tg->program;
	unsigned i;

	if (!last || !parent)
		return &t->tg->brief_threads;
	if (!t->tg->did_exec)
		return &parent->brief_children;
	p = &parent->brief_programs;
	i = (unsigned)(program >> 1) % BRIEF_PROGRAMS;
	if (p->of[i].program != program)
		p->of[i].tasks = (struct brief_tasks){0};
	p->of[i].program = program;
	return &p->of[i].tasks;
}

static void final_usage(struct task *t, bool last)
{
	struct tgroup *tg = t->tg;
	bool brief = clock_mono_ns() - t->start_mono_ns < BRIEF_NS;
	struct rusage_sum used = {0};
	bool ask;

	mutex_lock(&g_kernel.tasklist);
	if (last && !t->usage_told && !g_audit && kernel_is_main_locked(tg)) {
		t->usage_final = true;
		mutex_unlock(&g_kernel.tasklist);
		return;
	}
	ask = !brief || g_fiber_turns || t->usage_told || brief_ask(brief_of(t, last));
	if (!ask) {
		t->final_usage = brief_of(t, last)->last;
		t->usage_final = true;
	}
	mutex_unlock(&g_kernel.tasklist);
	if (!ask)
		return;
	if (t->pt)
		ask_usage(t, last, &used);
	mutex_lock(&g_kernel.tasklist);
	/* The parent may be another by now. */
	if (brief)
		brief_of(t, last)->last = used;
	used.sys_ns += t->sys_ns;
	used.min_flt += t->min_flt;
	t->final_usage = used;
	t->usage_final = true;
	mutex_unlock(&g_kernel.tasklist);
}

void usage_before_exec_locked(struct task *t)
{
	struct tgroup *tg = t->tg;
	struct brief_tasks *b = tg->parent ? &tg->parent->brief_execs : NULL;
	bool brief = b && !g_fiber_turns && !tg->did_exec && !t->usage_told &&
		     clock_mono_ns() - t->start_mono_ns < BRIEF_NS;
	struct rusage_sum used = {0};

	if (brief && !brief_ask(b)) {
		used = b->last;
	} else {
		task_cpu_locked(t, &used);
		if (brief)
			b->last = used;
	}
	rusage_add(&tg->dead_threads, &used);
	t->sys_ns = 0;
}

void task_exit(struct task *t)
{
	struct tgroup *tg = t->tg;
	struct pf_thread *pt;
	struct fdtable *files;
	struct fs_struct *fs;
	struct mount_ns *ns;
	struct mm *mm;
	struct task *o;
	bool last = true;

	mutex_lock(&g_kernel.tasklist);
	t->exit_started = true;
	tgroup_foreach_task (o, tg) {
		if (!o->exit_started)
			last = false;
	}
	mutex_unlock(&g_kernel.tasklist);

	if (t->mm) {
		futex_exit_robust(t);
		if (t->clear_child_tid.a && ref_read(&t->mm->users) > 1) {
			uint32_t zero = 0;

			if (copy_out(t, t->clear_child_tid, &zero, sizeof(zero)) == 0)
				(void)futex_wake(t, t->clear_child_tid, 1, true);
		}
	}
	if (last)
		tgroup_timers_exit(tg);
	sem_exit(t);
	final_usage(t, last);

	files = t->files;
	if (files)
		fdtable_put(files, &t->vctx);
	mutex_lock(&g_kernel.tasklist);
	pt = t->pt;
	mm = t->mm;
	fs = t->vctx.fs;
	ns = t->vctx.ns;
	t->pt = NULL;
	t->masks = NULL;
	t->actions = NULL;
	t->mm = NULL;
	t->files = NULL;
	t->vctx.files = NULL;
	t->vctx.fs = NULL;
	t->vctx.ns = NULL;
	mutex_unlock(&g_kernel.tasklist);
	if (fs)
		fs_put(fs);
	if (ns)
		mount_ns_put(ns);
	if (pt)
		g_pf->thread_free(pt);
	if (mm)
		mm_put(mm);
	/* The parent of a vfork goes on only now: the child's use of its memory has ended. */
	vfork_release(t);
	if (last && tg->is_session_leader)
		session_leader_exit(tg);
	if (unlikely(g_audit) && last)
		audit_exited(t, group_status(tg));
	if (last)
		note_asked(tg);
	exit_notify(t);
	task_put(t);
}

static bool is_last_thread(struct tgroup *tg)
{
	bool last;

	mutex_lock(&g_kernel.tasklist);
	last = tg->live == 1;
	mutex_unlock(&g_kernel.tasklist);
	return last;
}

int task_dethread(struct task *t)
{
	struct tgroup *tg = t->tg;
	struct task *o;
	int r;

	mutex_lock(&g_kernel.tasklist);
	if (tg->group_exit || t->dying) {
		mutex_unlock(&g_kernel.tasklist);
		return -ERESTARTNOINTR;
	}
	if (tg->live == 1 && tg->leader == t) {
		mutex_unlock(&g_kernel.tasklist);
		return 0;
	}
	tg->exec_task = t;
	tgroup_foreach_task (o, tg) {
		if (o != t) {
			o->dying = true;
			signal_wake_locked(o, true);
		}
	}
	mutex_unlock(&g_kernel.tasklist);

	r = wait_event(&tg->exec_wait, is_last_thread(tg), DEADLINE_NONE, WAIT_KILL);

	mutex_lock(&g_kernel.tasklist);
	tg->exec_task = NULL;
	if (r || tg->group_exit) {
		mutex_unlock(&g_kernel.tasklist);
		return -ERESTARTNOINTR;
	}
	o = tg->leader;
	if (o != t) {
		/* The leader is a zombie by now; this thread takes its number, and its own is free.
		 */
		struct pid *mine = t->pid, *theirs = o->pid;

		t->pid = theirs;
		o->pid = mine;
		mine->task = NULL;
		theirs->task = t; /* the table's reference to us moves along */
		t->tid = tg->tgid;
		t->vctx.tid = t->tid;
		tg->leader = task_get(t);
		thread_unlink(o);
		task_put(o); /* the table's reference to it */
		task_put(o); /* the group's */
	}
	mutex_unlock(&g_kernel.tasklist);
	return 0;
}
