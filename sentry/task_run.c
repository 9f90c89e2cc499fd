/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a task: run the guest until it traps, serve, deliver signals, run again. And the
 * first process.
 *
 * Theory of operation: pid 1 of a sandbox is the sentry itself: a process without guest code that
 * adopts orphans and reaps them at once. The program that the user asked for is its first child;
 * when that ends, the sandbox ends: everything else is killed.
 */
#include "sentry/answers.h"
#include "sentry/audit.h"
#include "base/hostcall.h"
#include "sentry/call_profile.h"
#include "sentry/call_stats.h"
#include "sentry/process.h"
#include "sentry/syscall.h"
#include "sentry/turns.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What the launcher's thread waits for. */
static struct {
	const struct init_spec *spec;
	_Atomic bool exec_done; /* the rest is written before */
	int exec_result;
	struct err exec_err;
} g_boot;

static int g_main_status;
static struct pid *g_main_pid;
static bool g_main_gone; /* [tasklist] */

static void serve_syscall(struct task *t)
{
	long r;

	t->in_syscall = true;
	t->syscall_nr = (long)t->regs.orig_rax;
	r = syscall_dispatch(t);
	t->regs.rax = (uint64_t)r;
	if (unlikely(g_audit || t->audit.any || r == -EAFNOSUPPORT || r == -EPERM))
		audit_served(t, r);
}

static void serve_fault(struct task *t, const struct pf_trap *trap)
{
	struct lx_siginfo info;
	int sig = trap->signo, code = trap->code;

	t->in_syscall = false;
	if (unlikely(g_pf_trap_tsc) && turns_read_counter(t, trap))
		return;
	if ((sig == LX_SIGSEGV || sig == LX_SIGBUS) && mm_fault(t, trap, &sig, &code))
		return;
	t->fault_addr = trap->addr;
	t->fault_error = trap->error_code;
	t->fault_trapno = trap->trapno;
	memset(&info, 0, sizeof(info));
	info.si_signo = sig;
	info.si_code = code;
	info.u.fault.addr = trap->addr;
	signal_force(t, &info);
}

/* A vsyscall that was given a bad pointer does not fail: as when it was code that stored there. */
static void vsyscall_fault(struct task *t, uint64_t function)
{
	const struct lx_siginfo info = {.si_signo = LX_SIGSEGV, .si_code = LX_SI_KERNEL};

	t->in_syscall = false;
	t->regs.rax = (uint64_t)-ENOSYS;
	t->regs.rip = function;
	t->regs.rsp -= sizeof(uint64_t);
	signal_force(t, &info);
}

static void task_loop(struct task *t)
{
	for (;;) {
		struct pf_trap trap = {0};

		if (signal_pending(t) || t->in_syscall || t->restore_mask)
			signal_deliver(t);
		if (t->exiting)
			return;
		t->in_syscall = false;
		answers_publish(t);
		answers_mask_give(t);
		answers_actions_give(t);
		atomic_store(&t->in_guest, true);
		answers_mask_given(t);
		/* A signal that came before in_guest was seen set interrupted us already; one that
		 * comes after it interrupts the platform. */
		if (signal_pending(t)) {
			answers_mask_take(t);
			atomic_store(&t->in_guest, false);
			continue;
		}
		if (unlikely(g_host_accounting))
			call_stats_resume(t);
		if (unlikely(g_call_profile))
			call_profile_resume(t);
		g_pf->run(t->pt, &t->regs, &trap);
		fiber_moment_begin();
		if (unlikely(g_call_profile))
			call_profile_trap(t, &trap);
		if (unlikely(g_host_accounting))
			call_stats_trap(t, &trap);
		/* Nobody else writes it. */
		atomic_store_explicit(&t->guest_exits,
				      atomic_load_explicit(&t->guest_exits, memory_order_relaxed) +
					      1,
				      memory_order_release);
		answers_mask_take(t);
		answers_take(t, &trap);
		/* Who still sees it set interrupts for nothing. */
		atomic_store_explicit(&t->in_guest, false, memory_order_release);

		switch (trap.kind) {
		case TRAP_SYSCALL:
			if (unlikely(trap.hot)) {
				call_stats_rewrite_begin();
				mm_rewrite_site(t, t->regs.rip - 2);
				call_stats_rewrite_end(t);
			}
			if (trap.i386)
				t->regs.rax = (uint64_t)-ENOSYS;
			else
				serve_syscall(t);
			if (unlikely(trap.vsyscall) && t->regs.rax == (uint64_t)-EFAULT)
				vsyscall_fault(t, trap.vsyscall);
			break;
		case TRAP_FAULT:
			serve_fault(t, &trap);
			break;
		case TRAP_INTERRUPT:
			break;
		case TRAP_DEAD:
			cpu_limit_of_host(t->tg);
			tgroup_request_exit(t->tg, LX_SIGKILL);
			t->exiting = true;
			t->exit_code = LX_SIGKILL;
			break;
		}
		if (unlikely(t->audit.any))
			audit_flush(t);
		if (unlikely(g_fiber_turns) && !t->exiting)
			turns_after(t, &trap);
	}
}

static void task_live(struct task *t)
{
	task_loop(t);
	if (unlikely(g_host_accounting))
		call_stats_end(t);
	if (unlikely(g_call_profile))
		call_profile_end(t);
}

void task_main(void *arg)
{
	struct task *t = arg;

	task_live(t);
	task_exit(t);
}

struct tgroup *kernel_main_group(void)
{
	struct tgroup *tg = NULL;

	mutex_lock(&g_kernel.tasklist);
	if (g_main_pid && g_main_pid->tg)
		tg = tgroup_get(g_main_pid->tg);
	mutex_unlock(&g_kernel.tasklist);
	return tg;
}

static const char *env_path(const struct init_spec *s)
{
	for (unsigned i = 0; s->envp[i]; i++) {
		if (strncmp(s->envp[i], "PATH=", 5) == 0)
			return s->envp[i] + 5;
	}
	return "/bin:/usr/bin";
}

/* Opens the program as a shell finds it; the name that worked is in @name. */
static int open_program(struct task *t, const struct init_spec *s, char *name, struct file **out)
{
	const char *p = env_path(s);
	int best = -ENOENT;

	snprintf(name, LX_PATH_MAX, "%s", s->path);
	if (!s->search_path || strchr(s->path, '/') || !s->path[0])
		return exec_open(t, NULL, name, 0, out);
	for (;;) {
		size_t n = strcspn(p, ":");
		int r;

		if (snprintf(name, LX_PATH_MAX, "%.*s%s%s", (int)n, p, n ? "/" : "", s->path) <
		    LX_PATH_MAX) {
			r = exec_open(t, NULL, name, 0, out);
			if (r == 0)
				return 0;
			/* "Found but not executable" says more than "not found". */
			if (r == -EACCES)
				best = r;
		}
		if (!p[n])
			return best;
		p += n + 1;
	}
}

/* The first program: exec needs a fiber. */
static void first_main(void *arg)
{
	struct task *t = arg;
	const struct init_spec *s = g_boot.spec;
	char *name = mem_zalloc(LX_PATH_MAX);
	struct exec_request req = {.path = name,
				   .argv = (char **)(uintptr_t)s->argv,
				   .envp = (char **)(uintptr_t)s->envp};
	struct err e = {{0}};
	int r;

	while (s->argv[req.argc])
		req.argc++;
	while (s->envp[req.envc])
		req.envc++;
	r = name ? open_program(t, s, name, &req.file) : -ENOMEM;
	if (r == 0) {
		r = task_exec(t, &req, true, &e);
		file_put(req.file);
	}
	if (t->audit.missed)
		audit_missed_end(t, r);
	t->audit.missed = 0;
	if (r == -EACCES)
		audit_first_refused(t, s->argv[0], &e);
	audit_flush(t);
	mem_free(name);
	g_boot.exec_result = r;
	g_boot.exec_err = e;
	atomic_store(&g_boot.exec_done, true);
	clock_tell();
	if (r == 0)
		task_live(t);
	task_exit(t);
}

/* Pid 1: no fiber, no memory; a parent for orphans and a line in ps. */
static struct tgroup *reaper_new(const struct init_spec *spec)
{
	struct pid *pid = pid_new();
	struct tgroup *tg = pid ? tgroup_alloc(pid) : NULL;
	struct task *t = tg ? task_alloc(tg, pid) : NULL;

	if (!t)
		return NULL;
	t->sighand = sighand_new();
	if (!t->sighand)
		return NULL;
	t->vctx.cred = cred_get(spec->cred);
	strcpy(t->comm, "moat-init");
	t->state = TASK_SLEEPING;
	mutex_lock(&g_kernel.tasklist);
	TAILQ_INSERT_TAIL(&tg->threads, t, thread_link);
	tg->live = 1;
	tg->leader = t;
	pid->task = task_get(t);
	pid->tg = tgroup_get(tg);
	tgroup_join_pgrp_locked(tg, pid);
	tgroup_join_session_locked(tg, pid);
	tg->is_session_leader = true;
	mutex_unlock(&g_kernel.tasklist);
	pid_put(pid);
	return tg;
}

static struct task *first_task(const struct init_spec *spec, struct tgroup *reaper)
{
	struct pid *pid = pid_new();
	struct tgroup *tg = pid ? tgroup_alloc(pid) : NULL;
	struct task *t = tg ? task_alloc(tg, pid) : NULL;

	if (!t)
		return NULL;
	t->sighand = sighand_new();
	t->fiber = fiber_new(first_main, t, NULL, "task");
	if (!t->sighand || !t->fiber)
		return NULL;
	t->vctx.cred = cred_get(spec->cred);
	t->vctx.ns = mount_ns_get(spec->ns);
	/* Its references: setns tells by that of the directories whether others share them; a table
	 * that others hold, too, would keep open what the guest closes. */
	t->vctx.fs = spec->fs;
	t->files = spec->files;
	t->vctx.files = t->files;
	fiber_set_data(t->fiber, t);
	t->nice = spec->nice;
	tg->rlim[LX_RLIMIT_CPU] = spec->cpu_limit;
	if (cpu_limit_inherit(tg) < 0)
		return NULL;
	t->blocked = spec->blocked & ~SIGS_UNBLOCKABLE;
	for (int sig = 1; sig <= LX_NSIG; sig++) {
		if (spec->ignored & ~SIGS_UNBLOCKABLE & sigbit(sig))
			t->sighand->action[sig - 1].handler = LX_SIG_IGN;
	}

	mutex_lock(&g_kernel.tasklist);
	tg->leader = task_get(t);
	tg->parent = reaper;
	TAILQ_INSERT_TAIL(&reaper->children, tg, sibling);
	pid->tg = tgroup_get(tg);
	task_link_locked(t);
	cpu_limit_begin_locked(tg);
	tgroup_join_pgrp_locked(tg, pid);
	tgroup_join_session_locked(tg, pid);
	tg->is_session_leader = true;
	g_kernel.tgroups++;
	meter_charge_found(METER_processes, 1);
	meter_charge_found(METER_threads, 1);
	mutex_unlock(&g_kernel.tasklist);
	g_main_pid = pid;
	tgroup_put(tg); /* its table entry and its threads hold it */
	return t;
}

bool kernel_is_main_locked(const struct tgroup *tg)
{
	return g_main_pid && tg->pid == g_main_pid;
}

void kernel_note_exit(struct tgroup *tg, int status)
{
	/* Nobody waits for the others while the main program runs; a wake-up is dear. */
	if (!g_main_gone && !(tg && tg->pid == g_main_pid))
		return;
	/* tasklist is held: only note and wake. What else would run until the others are killed is
	 * chance. */
	if (g_fiber_turns && !g_main_gone)
		fiber_turns_stop();
	g_main_gone = true;
	if (tg && tg->pid == g_main_pid)
		g_main_status = status;
	if (g_kernel.tasks == 0 && g_boot.spec->over && atomic_load(&g_boot.exec_done) &&
	    g_boot.exec_result == 0)
		g_boot.spec->over(g_main_status);
	clock_tell();
}

static void kernel_kill_all(void)
{
	struct tgroup *tg;
	int32_t at = 2;

	while ((tg = tgroup_next(at))) {
		tgroup_request_exit(tg, LX_SIGKILL);
		at = tg->tgid + 1;
		tgroup_put(tg);
	}
}

static bool main_is_gone(void *arg UNUSED)
{
	bool gone;

	mutex_lock(&g_kernel.tasklist);
	gone = !g_main_pid->tg || g_main_pid->tg->zombie;
	mutex_unlock(&g_kernel.tasklist);
	return gone;
}

static bool all_gone(void *arg UNUSED)
{
	bool gone;

	kernel_kill_all();
	mutex_lock(&g_kernel.tasklist);
	gone = g_kernel.tasks == 0;
	mutex_unlock(&g_kernel.tasklist);
	return gone;
}

static bool exec_is_done(void *arg UNUSED)
{
	return atomic_load(&g_boot.exec_done);
}

int kernel_run_init(const struct init_spec *spec, int *status, struct err *e)
{
	struct tgroup *reaper = reaper_new(spec);
	struct task *t;
	int r;

	if (!reaper)
		return err_set(e, ENOMEM, "cannot start the sandbox: out of memory");
	g_kernel.init = reaper;
	g_kernel.ns = spec->ns;
	g_boot.spec = spec;
	t = first_task(spec, reaper);
	if (!t)
		return err_set(e, ENOMEM, "cannot start the first process: out of memory");
	if (spec->tty)
		session_set_tty(t->tg, spec->tty);
	fiber_start(t->fiber);

	clock_wait(exec_is_done, NULL);
	r = g_boot.exec_result;
	if (e)
		*e = g_boot.exec_err;
	if (spec->ready)
		spec->ready();
	clock_wait(main_is_gone, NULL);
	if (g_fiber_turns) {
		kernel_kill_all();
		fiber_turns_resume();
	}
	clock_wait(all_gone, NULL);
	*status = g_main_status;
	return r;
}
