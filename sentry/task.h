/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks, thread groups, process groups, sessions: the process model.
 *
 * Theory of operation: a task is one guest thread: a fiber in the sentry, a pf_thread on the
 * platform. A thread group (struct tgroup) is what a guest calls a process. The fiber's loop
 * (task_main in sentry/task_run.c): deliver signals, run the guest until it traps, serve, repeat.
 *
 * Locking: one short mutex, g_kernel.tasklist (RANK_TASKLIST), guards the process tree, pids,
 * groups, sessions, and all signal state (pending sets, actions, masks of *other* tasks, stop
 * states). Fields without a note belong to the task's own fiber. Order: mm->lock (fmutex) and any
 * fmutex of the vfs before tasklist; tasklist before wait queue locks. No vfs or platform call that
 * sleeps is made under tasklist (g_pf->interrupt, fiber_wake and friends do not sleep).
 *
 * Lifetime: a task is referenced by its fiber until exit, by the pid table until reaped, by whoever
 * called task_get. task_exit ends the fiber; a zombie leader stays in the table until it is waited
 * for.
 */
#ifndef MOAT_SENTRY_TASK_H
#define MOAT_SENTRY_TASK_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fiber.h"
#include "base/lock.h"
#include "base/lx_signal.h"
#include "base/waitq.h"
#include "base/meter.h"
#include "platform/platform.h"
#include "vfs/vfs.h"

struct mm;
struct task;
struct tgroup;
struct tty;
struct grant_path;
struct cpu_timers;    /* sentry/itimer.c */
struct posix_timers;  /* sentry/posix_timer.c */
struct sem_undo_list; /* sentry/ipc_sem.c */
struct shm_attaches;

#define PID_MAX_LIMIT 4194304

/* A numeric id with all that it may name; lives while any of them does. pidfds hold a reference. */
struct pid {
	struct ref ref;
	int32_t nr;
	struct task *task; /* the thread with this tid; NULL once reaped. [tasklist] */
	struct tgroup *tg; /* the thread group with this tgid. [tasklist] */
	TAILQ_HEAD(, tgroup) pgrp_members;    /* [tasklist] */
	TAILQ_HEAD(, tgroup) session_members; /* [tasklist] */
	/* controlling terminal of the session. [tasklist]; a reference (tty_get) */
	struct tty *tty;
	/* foreground group of the session's terminal when it was lost. [tasklist]; a reference */
	struct pid *lost_pgrp;
	struct waitq exit_wait; /* woken when the process or thread of this pid ends (pidfd poll) */
};
struct pid *pid_get(struct pid *p);
void pid_put(struct pid *p);
struct pid *pid_find(int32_t nr); /* a reference, or NULL */

struct sigqueue {
	TAILQ_ENTRY(sigqueue) link;
	struct lx_siginfo info;
	bool preallocated; /* a POSIX timer's own: not freed when taken */
	/* preallocated: told when dequeued, or dropped and nobody sees it, under tasklist; may be
	 * NULL */
	void (*taken)(struct sigqueue *q, bool dropped);
};

struct sigpending {
	lx_sigset_t set;
	TAILQ_HEAD(, sigqueue) queue;
};

struct sighand { /* CLONE_SIGHAND */
	struct ref ref;
	struct lx_sigaction
		action[LX_NSIG]; /* [tasklist] index sig-1; see answers_handler_locked */
	uint32_t changes;        /* [tasklist] of actions */
	/* woken when a signal is queued to a task with this sighand */
	struct waitq signalfd_wait;
};

enum task_state { TASK_RUNNING, TASK_SLEEPING, TASK_STOPPED, TASK_ZOMBIE, TASK_DEAD };

/* What restart_syscall(2) does. */
struct restart_block {
	long (*fn)(struct task *t);
	uint64_t deadline_ns, arg0, arg1, arg2;
};

struct rusage_sum {
	uint64_t user_ns, sys_ns, min_flt, maj_flt, nvcsw, nivcsw, max_rss_kb;
	uint64_t inblock, oublock;
};

struct task {
	struct ref ref;
	int32_t tid;
	struct pid *pid; /* a reference */
	struct tgroup *tg;
	TAILQ_ENTRY(task) thread_link; /* in tg->threads. [tasklist] */
	struct fiber *fiber;           /* NULL before it is made, and once it ends. [tasklist] */
	struct pf_thread *pt;
	struct pf_regs regs; /* after a syscall: see task_need_regs */
	char comm[16];       /* [tasklist] */

	struct mm *mm;         /* NULL after exit */
	struct fdtable *files; /* NULL after exit */
	struct vfs_ctx vctx;   /* .cred, .fs, .ns are references of the task's */

	/* Signals. [tasklist] unless noted; blocked is written by its own fiber under tasklist */
	struct sighand *sighand;
	lx_sigset_t blocked;
	lx_sigset_t saved_mask; /* own fiber: to restore after sigsuspend, ppoll … */
	bool restore_mask;      /* own fiber */
	lx_sigset_t wait_mask;  /* sigtimedwait: these wake us even if blocked */
	struct sigpending pending;
	struct lx_stack altstack; /* own fiber */
	/* own fiber: the syscall's result may need a restart */
	bool in_syscall;
	long syscall_nr;              /* own fiber: -1 none */
	struct restart_block restart; /* own fiber */
	/* own fiber: of the last fault, for the frame */
	uint64_t fault_addr, fault_error, fault_trapno;

	_Atomic bool in_guest; /* inside g_pf->run */
	/* [tasklist to change] NULL, or see sentry/answers.c */
	struct pf_answers *masks;
	struct pf_actions *actions;
	uint32_t actions_given;       /* own fiber: sighand->changes of then */
	_Atomic uint32_t guest_exits; /* times it came out again (membarrier) */
	enum task_state state;        /* [tasklist] */
	bool exiting;                 /* own fiber: leave at the next loop */
	int exit_code;                /* wait status form: code << 8 | signal */
	bool dying;                   /* [tasklist] told to die by another thread's exec */
	bool exit_started;            /* [tasklist] */

	gaddr_t clear_child_tid;
	gaddr_t robust_list;
	unsigned futex_turn; /* own fiber: of the two kinds of waiters, which is woken first */
	struct sem_undo_list *sem_undo; /* [ipc_sem.c] a reference */
	/* own fiber: the vfork parent's completion; released at exec or exit */
	void *vfork_done;
	int late_stop; /* the terminal's stop signal for after vfork_done, or 0 [tasklist] */

	/* Scheduling attributes are remembered and shown; the host schedules. [tasklist] */
	int nice, sched_policy, sched_priority;
	uint64_t cpu_mask;
	/* the default is the parent's slack at clone */
	_Atomic uint64_t timer_slack_ns; /* others may set it by /proc */
	uint64_t default_slack_ns;
	int ioprio;
	uint32_t personality;
	int pdeath_signal; /* [tasklist] */
	bool no_new_privs;
	bool tsc_faults; /* PR_SET_TSC */
	bool keep_caps;

	uint64_t start_mono_ns;
	bool usage_told;  /* [tasklist] somebody asked for its processor time while it lived */
	bool usage_final; /* [tasklist] it ends, and final_usage is what it used */
	struct rusage_sum final_usage;     /* [tasklist] */
	uint64_t cpu_used_ns;              /* [tasklist] when it was asked last */
	uint64_t cpu_seen_ns, cpu_owed_ns; /* [tasklist] tgroup_busy_locked */
	/* Sentry-side accounting, beside the platform's cpu times */
	uint64_t sys_ns;
	uint64_t min_flt;
	uint64_t read_bytes, write_bytes, read_calls, write_calls;
	struct call_profile *profile; /* own fiber; call_profile.c */
	/* own fiber: what was refused since the last trap (sentry/audit.h) */
	struct {
		bool any;
		uint8_t why;                   /* enum audit_why */
		uint8_t missed;                /* a place in the summary, plus 1; 0: none */
		uint64_t missed_key;           /* its key */
		uint32_t limits;               /* a bit for each enum meter */
		struct mount *mnt;             /* a reference, or NULL */
		const struct grant_path *rule; /* or NULL */
	} audit;
	/* own fiber: the guest call whose tier is not known yet (call_stats.c) */
	struct {
		bool pending, slept;
		unsigned nr;
	} stats;
};

enum stop_event { STOP_NONE, STOP_STOPPED, STOP_CONTINUED };

struct lx_rlimit64 {
	uint64_t cur, max;
};
#define LX_RLIM_INFINITY UINT64_MAX
#define LX_RLIMIT_CPU 0
#define LX_RLIMIT_FSIZE 1
#define LX_RLIMIT_DATA 2
#define LX_RLIMIT_STACK 3
#define LX_RLIMIT_CORE 4
#define LX_RLIMIT_RSS 5
#define LX_RLIMIT_NPROC 6
#define LX_RLIMIT_NOFILE 7
#define LX_RLIMIT_MEMLOCK 8
#define LX_RLIMIT_AS 9
#define LX_RLIMIT_LOCKS 10
#define LX_RLIMIT_SIGPENDING 11
#define LX_RLIMIT_MSGQUEUE 12
#define LX_RLIMIT_NICE 13
#define LX_RLIMIT_RTPRIO 14
#define LX_RLIMIT_RTTIME 15
#define LX_RLIM_NLIMITS 16

/* What short-lived tasks of one kind used, so that not each of them is asked: sentry/exit.c. */
struct brief_tasks {
	unsigned ended;
	struct rusage_sum last; /* of the one that was asked last */
};

/* The same of children that executed a program, for some programs. */
#define BRIEF_PROGRAMS 4u
struct brief_programs {
	struct {
		uint64_t program; /* which; 0: none yet */
		struct brief_tasks tasks;
	} of[BRIEF_PROGRAMS];
};

struct tgroup {
	struct ref ref;
	int32_t tgid;
	struct pid *pid;            /* a reference */
	struct task *leader;        /* [tasklist]; a reference */
	TAILQ_HEAD(, task) threads; /* [tasklist] live and zombie-leader */
	unsigned live;              /* [tasklist] threads not yet exited */

	struct tgroup *parent;         /* [tasklist] */
	TAILQ_HEAD(, tgroup) children; /* [tasklist] */
	TAILQ_ENTRY(tgroup) sibling;
	struct pid *pgrp, *session; /* [tasklist] references */
	TAILQ_ENTRY(tgroup) pgrp_link, session_link;
	bool is_session_leader;
	/* [tasklist] TIOCNOTTY: the session's terminal is not ours */
	bool no_tty;
	bool did_exec;
	uint64_t program;      /* [tasklist] which it executed, as a number that is not 0 */
	_Atomic uint8_t asked; /* what it was refused that some only try: 1 << summary_asked */
	int exit_signal;       /* to the parent; SIGCHLD usually; 0 none */
	bool child_subreaper;

	struct sigpending shared; /* [tasklist] */
	unsigned sigqueue_count;  /* [tasklist] for RLIMIT_SIGPENDING */
	bool group_exit;          /* [tasklist] */
	int group_exit_code;      /* [tasklist] wait status form */
	struct task *exec_task;   /* [tasklist] the thread that execs; others die */
	struct waitq exec_wait;   /* woken as threads die */

	bool stopped;    /* [tasklist] job control: all threads park */
	int stop_signal; /* [tasklist] */
	/* [tasklist] not yet reported to the parent by wait */
	enum stop_event event;
	struct waitq cont_wait;  /* stopped threads sleep here */
	struct waitq child_wait; /* wait4 sleeps here (the parent's own queue) */
	bool zombie;             /* [tasklist] all threads gone; waits to be reaped */

	struct mutex rlim_lock;                   /* RANK_MISC */
	struct lx_rlimit64 rlim[LX_RLIM_NLIMITS]; /* [rlim_lock] */

	struct timer itimer_real; /* [tasklist] for the values below */
	uint64_t itimer_real_interval_ns;
	uint64_t itimer_next_ns;       /* 0: off */
	struct posix_timers *timers;   /* sentry/posix_timer.c */
	lx_sigset_t timers_held;       /* theirs that were ignored, perhaps. [tasklist] to write */
	struct cpu_timers *cpu_timers; /* ITIMER_VIRTUAL, _PROF, RLIMIT_CPU: itimer.c. [tasklist] */
	bool timers_ended;             /* its last thread ends: there will be none. [tasklist] */

	struct rusage_sum dead_threads;                                /* [tasklist] */
	struct brief_tasks brief_threads, brief_children, brief_execs; /* [tasklist] */
	struct brief_programs brief_programs;                          /* [tasklist] */
	struct rusage_sum reaped; /* [tasklist] RUSAGE_CHILDREN */
	uint64_t start_mono_ns;
	int oom_score_adj;
	int dumpable;
};

/* Walks with tasklist held. */
#define tgroup_foreach_task(t, tg) TAILQ_FOREACH (t, &(tg)->threads, thread_link)

/* The most that tasks_max can be. */
#define TASKS_MAX 30000u

struct kernel {
	struct mutex tasklist;   /* RANK_TASKLIST */
	struct tgroup *init;     /* pid 1 of the sandbox */
	unsigned tgroups, tasks; /* [tasklist] live ones */
	uint64_t boot_mono_ns;
	uint64_t total_forks;
	char hostname[65], domainname[65]; /* [uts] */
	struct mutex uts;
	struct mount_ns *ns;   /* borrowed */
	unsigned cpus;         /* shown to guests */
	uint64_t memory_bytes; /* shown to guests */
	int32_t pid_max;
	unsigned tasks_max;   /* in the whole sandbox */
	bool host_limits_cpu; /* the host's processes have the first process's hard RLIMIT_CPU */
	/* Who started moat can continue the first program's process group, so a terminal's signals
	 * stop it. */
	_Atomic bool stoppable;
	/* Then: @sig has stopped the first program. No lock held; does not wait. Or NULL. */
	void (*main_stopped)(int sig);
	/* Before that: brings out what it has written. May sleep; on a fiber. */
	void (*main_stops)(void);
};
extern struct kernel g_kernel;

/* Bytes that guests may still use, if the host has them. Of what they use already that counts which
 * was seen (sentry/meter_watch.h): all of it when the limit is near. */
uint64_t kernel_memory_free(void);

/* The task of the calling fiber; NULL off the fibers. */
struct task *current_task(void);
struct task *task_get(struct task *t);
void task_put(struct task *t);
/* A reference, or NULL. task_find: by tid; tgroup_find: by tgid (a process that still has an
 * entry). */
struct task *task_find(int32_t tid);
struct tgroup *tgroup_find(int32_t tgid);
struct tgroup *tgroup_get(struct tgroup *tg);
void tgroup_put(struct tgroup *tg);
/* Iteration for /proc: the lowest tgid >= @from, a reference; NULL at the end. */
struct tgroup *tgroup_next(int32_t from);
/* The lowest tid >= @from in @tg; a reference. */
struct task *tgroup_next_task(struct tgroup *tg, int32_t from);
/* References to a task's parts, for /proc and process_vm_*; NULL if it has exited. */
struct mm *task_get_mm(struct task *t);
struct fdtable *task_get_files(struct task *t);
struct cred *task_get_cred(struct task *t);
struct fs_struct *task_get_fs(struct task *t);
char task_state_char(struct task *t); /* R S D T t Z X, as /proc shows */

/* Publishes new credentials (takes the reference) under tasklist. */
void task_set_cred(struct task *t, struct cred *c);

uint64_t rlimit_get(struct tgroup *tg, int resource); /* soft limit */
/* CPU time of a task, of a group (all threads, dead too). */
void task_times(struct task *t, uint64_t *user_ns, uint64_t *sys_ns);
void tgroup_rusage(struct tgroup *tg, struct rusage_sum *out);
void rusage_add(struct rusage_sum *to, const struct rusage_sum *from);
struct lx_rusage { /* getrusage(2), wait4(2) */
	struct lx_timeval utime, stime;
	int64_t maxrss, ixrss, idrss, isrss, minflt, majflt, nswap, inblock, oublock, msgsnd,
		msgrcv, nsignals, nvcsw, nivcsw;
};
void rusage_to_lx(const struct rusage_sum *s, struct lx_rusage *out);

/* ptrace_may_access's rule: may @t look into @target (/proc/PID/mem, process_vm_readv,
 * pidfd_getfd)? */
bool task_may_access(struct task *t, struct task *target);

/* sentry/clone.c */
struct clone_args {
	uint64_t flags;
	gaddr_t pidfd, child_tid, parent_tid, stack, tls;
	uint64_t stack_size;
	int exit_signal;
	gaddr_t set_tid;
	uint64_t set_tid_size;
	int cgroup_fd;
};
long task_clone(struct task *p, const struct clone_args *a);

/* sentry/exit.c. The wait status form is code << 8, or signal | core << 7. */
/* own fiber: this thread ends at the next loop */
void task_request_exit(struct task *t, int status);
/* the whole group ends; tasklist not held */
void tgroup_request_exit(struct tgroup *tg, int status);
void tgroup_request_exit_locked(struct tgroup *tg, int status) REQUIRES(g_kernel.tasklist);

/* sentry/task_run.c */
struct init_spec {
	const char *const *argv;
	const char *const *envp;
	const char *path; /* what to execute; looked up from the cwd */
	/* a path without a slash is looked for along PATH of envp, as a shell does */
	bool search_path;
	struct cred *cred; /* references are taken */
	struct mount_ns *ns;
	struct fs_struct *fs;         /* this reference is the process's from then on */
	struct fdtable *files;        /* this one, too */
	struct tty *tty;              /* controlling terminal or NULL */
	int nice;                     /* shown as the first process's: the launcher's */
	struct lx_rlimit64 cpu_limit; /* the first process's RLIMIT_CPU: the launcher's */
	lx_sigset_t ignored, blocked; /* as exec leaves them: the launcher's */
	void (*ready)(void);          /* the program has been executed, or cannot be; NULL */
	/* NULL, or called by whoever notes that the program was executed and that no task is left;
	 * does not return. It need not be called. */
	void (*over)(int status);
};
/* Creates pid 1 and runs it to its end; called once from the launcher's thread. Returns when the
 * sandbox has no task left. *status: the wait status of pid 1. -errno with @e if the program cannot
 * be executed. */
int kernel_run_init(const struct init_spec *spec, int *status, struct err *e) MUST_USE;
void kernel_init(void);
/* The process that kernel_run_init runs: a reference; NULL before it exists and after it was
 * reaped. */
struct tgroup *kernel_main_group(void);

/* ---- signals (sentry/signal.c) ---- */

/* Fills a siginfo for kill-like signals from @from (NULL: the kernel). */
void siginfo_user(struct lx_siginfo *info, int sig, int code, struct task *from);
void siginfo_kernel(struct lx_siginfo *info, int sig);
/* May @t send @sig to @target? 0 or -EPERM. tasklist held. */
int signal_check_perm(struct task *t, struct tgroup *target, int sig)
	REQUIRES(g_kernel.tasklist) MUST_USE;
/* Queue and wake. 0 or -EAGAIN (queue limit, real-time only). */
int signal_send_task(struct task *t, const struct lx_siginfo *info);
int signal_send_group(struct tgroup *tg, const struct lx_siginfo *info);
int signal_send_task_locked(struct task *t, const struct lx_siginfo *info)
	REQUIRES(g_kernel.tasklist);
int signal_send_group_locked(struct tgroup *tg, const struct lx_siginfo *info)
	REQUIRES(g_kernel.tasklist);
/* @who of the group is told of it, if it wants the signal and is not NULL. */
int signal_send_group_to_locked(struct tgroup *tg, struct task *who, const struct lx_siginfo *info)
	REQUIRES(g_kernel.tasklist);
/* To every member; number of groups reached. */
unsigned signal_send_pgrp(struct pid *pgrp, const struct lx_siginfo *info);
unsigned signal_send_pgrp_locked(struct pid *pgrp, const struct lx_siginfo *info)
	REQUIRES(g_kernel.tasklist);
/* A synchronous fault: cannot be blocked or ignored (then it kills). Own task. */
void signal_force(struct task *t, const struct lx_siginfo *info);
/* A preallocated entry (POSIX timers): queues it for @t, or for the group, of which then @who is
 * told first; either may be NULL. */
bool signal_queue_prealloc_locked(struct tgroup *tg, struct task *t, struct task *who,
				  struct sigqueue *q) REQUIRES(g_kernel.tasklist);
void signal_unqueue_prealloc_locked(struct tgroup *tg, struct task *t, struct sigqueue *q)
	REQUIRES(g_kernel.tasklist);
/* Is an unblocked signal pending (or death, or stop)? Own task; cheap. */
bool signal_pending(struct task *t);
/* Takes the next pending signal in @mask (of those that are set), own task. Its number, or 0. */
int signal_dequeue_locked(struct task *t, lx_sigset_t mask, struct lx_siginfo *info)
	REQUIRES(g_kernel.tasklist);
lx_sigset_t signal_pending_set(struct task *t); /* both queues; takes tasklist */
/* Sets the blocked mask of the calling task (SIGKILL, SIGSTOP are left out). */
void signal_set_blocked(struct task *t, lx_sigset_t mask);
/* For ppoll, pselect, epoll_pwait, sigsuspend: block @mask until the handler has run. */
void signal_set_temp_mask(struct task *t, lx_sigset_t mask);
/* Undo when the call ended with no signal: call on every normal return of those. */
void signal_restore_temp_mask(struct task *t);
/* Deliver: before each return to the guest; may change regs, stop, or mark for exit. */
void signal_deliver(struct task *t);

/* Before anybody reads or changes registers of @t in a syscall other than its number, arguments,
 * rax and the bases. By its own fiber. 0, or -ESRCH: it is dead. */
MUST_USE static inline int task_need_regs(struct task *t)
{
	return g_pf->regs_get ? g_pf->regs_get(t->pt, &t->regs) : 0;
}
long signal_sigreturn(struct task *t);
/* Under --verbose: what the task died of, with its stack. Own task. sentry/crash.c */
void crash_report(struct task *t, int sig, const struct lx_siginfo *info);
const char *signal_name(int sig); /* "SIGINT", "SIGRT_3"; for messages */

#endif
