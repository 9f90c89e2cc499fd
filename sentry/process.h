/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the process model (pid, task, clone, exit, wait, signal, job control) share
 * with each other and with exec: not for the rest of the sentry.
 */
#ifndef MOAT_SENTRY_PROCESS_H
#define MOAT_SENTRY_PROCESS_H

#include "sentry/mm.h"
#include "sentry/task.h"

/* sentry/pid.c. A fresh number with one reference; NULL: none left or no memory (-EAGAIN). */
struct pid *pid_new(void) MUST_USE;
/* Exactly @nr (clone3's set_tid): NULL if taken. */
struct pid *pid_new_exact(int32_t nr) MUST_USE;

/* sentry/task.c. A task that is not in any list yet; NULL: no memory. */
struct task *task_alloc(struct tgroup *tg, struct pid *pid) MUST_USE;
struct tgroup *tgroup_alloc(struct pid *pid) MUST_USE;
/* Walks all descendants of @top in pre-order; @at NULL: begin. NULL at the end. */
struct tgroup *tgroup_walk_locked(struct tgroup *top, struct tgroup *at)
	REQUIRES(g_kernel.tasklist);
/* Threads of user @uid, for RLIMIT_NPROC. */
unsigned tasks_of_user_locked(uint32_t uid) REQUIRES(g_kernel.tasklist);
struct sighand *sighand_new(void) MUST_USE;
struct sighand *sighand_dup(struct sighand *s) MUST_USE;
struct sighand *sighand_get(struct sighand *s);
void sighand_put(struct sighand *s);
/* Links and unlinks under tasklist. */
void task_link_locked(struct task *t) REQUIRES(g_kernel.tasklist);
void tgroup_join_pgrp_locked(struct tgroup *tg, struct pid *pgrp) REQUIRES(g_kernel.tasklist);
void tgroup_join_session_locked(struct tgroup *tg, struct pid *session) REQUIRES(g_kernel.tasklist);

/* sentry/task_run.c: the body of a task's fiber. */
void task_main(void *arg);
/* A thread ended (@tg NULL), or a process with its wait status: the launcher's thread looks.
 * tasklist held. */
/* Adds what @t used so far to its process: its host thread is about to be replaced. */
void usage_before_exec_locked(struct task *t) REQUIRES(g_kernel.tasklist);
/* Is it the sandbox's program? */
bool kernel_is_main_locked(const struct tgroup *tg) REQUIRES(g_kernel.tasklist);
void kernel_note_exit(struct tgroup *tg, int status) REQUIRES(g_kernel.tasklist);

/* As task_times and tgroup_rusage, adding to *s or filling it. */
void task_cpu_locked(struct task *t, struct rusage_sum *s) REQUIRES(g_kernel.tasklist);
void tgroup_rusage_locked(struct tgroup *tg, struct rusage_sum *out) REQUIRES(g_kernel.tasklist);
/* Who is to hear of a timer on the group's CPU time: one that has run since the last look, each as
 * often as it runs. Linux tells the thread in whose tick it finds that the time is over, and
 * profilers go by that. NULL: nobody ran. For the caller's hold of tasklist, in which it has asked
 * for tgroup_rusage_locked: it goes by what that has found. */
struct task *tgroup_busy_locked(struct tgroup *tg) REQUIRES(g_kernel.tasklist);

/* sentry/clone.c: a vfork child (which shares its parent's memory) tells its parent that it is done
 * with it. */
struct vfork_done *vfork_done_new(void) MUST_USE;
void vfork_release(struct task *t);

/* sentry/exit.c */
void task_exit(struct task *t); /* own fiber; after it the fiber returns */
/* Makes the other threads of @t's group die and waits for it; @t then is the only one, and the
 * leader. For exec. 0, or -EAGAIN/-ERESTARTNOINTR if the group is dying or another thread execs. */
int task_dethread(struct task *t) MUST_USE;
/* Reaps a zombie group: it leaves its parent, its group, its session and the tables. */
void tgroup_reap_locked(struct tgroup *tg) REQUIRES(g_kernel.tasklist);

/* sentry/signal.c */
void signal_wake_locked(struct task *t, bool kill) REQUIRES(g_kernel.tasklist);
/* Recomputes whether @t has to look at signals; own task or a stopped one. */
void signal_recalc_locked(struct task *t) REQUIRES(g_kernel.tasklist);
void sigpending_init(struct sigpending *p);
/* Drops the queued signals in @mask. */
void sigpending_flush_locked(struct tgroup *tg, struct sigpending *p, lx_sigset_t mask)
	REQUIRES(g_kernel.tasklist);
/* exec: caught signals go back to the default. @t's sighand is its own. */
void signal_reset_handlers(struct task *t);
/* rt_sigaction of @t's own fiber: what does not exist in @to is left out. */
void signal_action_set_locked(struct task *t, int sig, const struct lx_sigaction *to)
	REQUIRES(g_kernel.tasklist);
/* SIGCHLD (or exit_signal) and a wake-up of the waiting parent for a state change of @tg. */
void signal_notify_parent_locked(struct tgroup *tg, int code, int status)
	REQUIRES(g_kernel.tasklist);

/* sentry/jobctl.c */
/* Would @pgrp have no member whose parent is in another group of the same session, leaving @ignore
 * out? */
bool pgrp_is_orphaned_locked(struct pid *pgrp, struct tgroup *ignore) REQUIRES(g_kernel.tasklist);
/* Would nobody continue @pgrp if a terminal's signal stopped it? It is orphaned, and not that of
 * the first program that whoever started moat continues. */
bool pgrp_is_abandoned_locked(struct pid *pgrp) REQUIRES(g_kernel.tasklist);
/* @tg is about to leave its group (exit): hang up a newly orphaned group with stopped members. */
void pgrp_check_orphaned_locked(struct tgroup *tg, struct tgroup *parent)
	REQUIRES(g_kernel.tasklist);
/* sentry/tty_session.c. At start: @tty becomes the controlling terminal of @tg's session, @tg its
 * foreground group. */
void session_set_tty(struct tgroup *tg, struct tty *tty);
/* The session leader @tg exits: its terminal is taken from the session. */
void session_leader_exit(struct tgroup *tg);
/* For /proc: the device number of the controlling terminal of @tg, and its foreground group; 0 and
 * -1 without one. */
void tgroup_tty_ids_locked(struct tgroup *tg, int32_t *tty_nr, int32_t *tpgid)
	REQUIRES(g_kernel.tasklist);
/* struct tty_hooks, answered from tasks. At start. */
void tty_session_init(void);

/* sentry/itimer.c, sentry/posix_timer.c */
void itimer_init(struct tgroup *tg);
/* RLIMIT_CPU was set. 0 or -ENOMEM. */
int cpu_limit_changed(struct tgroup *tg) MUST_USE;
/* Before a new @tg, which has its limits, is known: 0 or -ENOMEM. And when its first task is. */
int cpu_limit_inherit(struct tgroup *tg) MUST_USE;
/* The host has killed @tg: perhaps for a hard limit, which is the host's, too. */
void cpu_limit_of_host(struct tgroup *tg) EXCLUDES(g_kernel.tasklist);
void cpu_limit_begin_locked(struct tgroup *tg) REQUIRES(g_kernel.tasklist);
void cpu_timers_exit(struct tgroup *tg);
void tgroup_timers_exit(
	struct tgroup *tg);                /* the last thread exits: all timers off, none running */
void posix_timers_exec(struct tgroup *tg); /* exec deletes POSIX timers */
/* @sig, of tg->timers_held, is not ignored any more. */
void posix_timers_heard_locked(struct tgroup *tg, int sig) REQUIRES(g_kernel.tasklist);

/* sentry/ipc_sem.c */
void sem_exit(struct task *t); /* applies SEM_UNDO */
/* sentry/ipc_sem.c: clone: share (CLONE_SYSVSEM) or not. 0 or -ENOMEM */
int sem_clone(struct task *parent, struct task *child, bool share) MUST_USE;

/* sentry/pidfd.c */
int pidfd_new(struct task *t, struct pid *pid, uint32_t flags, struct file **out) MUST_USE;
struct pid *pidfd_pid(struct file *f); /* borrowed; NULL if @f is no pidfd */

/* sentry/sys_sched.c: the processor that @t is told to run on. */
uint32_t sched_task_cpu(const struct task *t);

#endif
