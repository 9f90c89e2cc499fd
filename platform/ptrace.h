/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ptrace platform's private declarations. Nobody outside platform/ptrace*.c includes this.
 *
 * Theory of operation. A worker is a tracer: a host thread. Each address space belongs to the
 *worker that made it, with all its host threads; every ptrace call for them is made there. The
 *files:
 *
 *	ptrace.c	  the interface's table; run(): resume, park the fiber, decode the stop
 *	ptrace_worker.c	  workers: events of tracees, idle and poll, messages from other workers
 *	ptrace_as.c	  zygotes, address spaces and threads: birth and death
 *	ptrace_inject.c	  the stub's routines: map operations, atomics
 *	ptrace_files.c	  the keeper, and the cache of descriptors that it holds
 *	ptrace_copy.c	  copies, xstate, statistics
 *	ptrace_place.c	  which CPU workers and tracees run on
 *
 * States of a host thread (pf_thread.state):
 *
 *	STOPPED	  in a ptrace stop that its worker knows of; may be resumed
 *	GUEST	  resumed with host calls off (PTRACE_SYSEMU)
 *	STUB	  resumed with host calls on (PTRACE_CONT), with rip in the stub's text
 *	DEAD	  gone; its tid may be someone else's
 *
 * GUEST and STUB are "out": linked on worker.out until an event is seen. An event is looked at
 *without being consumed (pf_host_wait); it need not be consumed if the thread is resumed next.
 *
 * Death. A pid may be given to another process as soon as it is waited for, so as->dead is set and
 *users of as->pid are waited for (as->users) before that: nobody copies to or signals a stranger.
 *Users are copies and signals, which are short.
 *
 * Locking: all of a worker's state, and of the threads and address spaces on it, is touched on its
 *own host thread only; what others may touch is atomic or says so. ptworker.post_lock and the lock
 *of the descriptor cache are leaves (RANK_LEAF).
 */
#ifndef MOAT_PLATFORM_PTRACE_H
#define MOAT_PLATFORM_PTRACE_H

#include <signal.h>
#include "base/alloc.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/queue.h"
#include "platform/host_ptrace.h"
#include "platform/lease.h"
#include "platform/platform.h"
#include "platform/stub/layout.h"
#include "platform/stub_files.h"

/* Reaches a running guest thread; the only asynchronous signal that stubs do not block. */
#define PT_INTERRUPT_SIGNAL SIGURG

enum pt_state { PT_STOPPED, PT_GUEST, PT_STUB, PT_DEAD };

enum pt_post_kind { PT_POST_NONE, PT_POST_FREE_THREAD, PT_POST_DESTROY_AS };

/* A message to the owning worker; part of the object that it is about. */
struct pt_post {
	enum pt_post_kind kind;
	STAILQ_ENTRY(pt_post) link; /* [ptworker.post_lock] */
};

struct pf_thread {
	struct pf_as *as; /* a reference until thread_free; then borrowed */
	struct ptworker *worker;
	pid_t tid;
	_Atomic int state;      /* enum pt_state; written by the worker */
	_Atomic bool interrupt; /* pf_interrupt was called, and run() has not told */
	bool freed;             /* by the sentry */
	bool dying;             /* counted in worker.dying */
	int stop;               /* the last stop: signal | event << 8 */
	struct fiber *waiter;   /* sleeps until state is STOPPED or DEAD */
	int bound_cpu;          /* -1: floats */
	uint32_t run_cycles;    /* average between traps */
	uint64_t run_start;     /* TSC */
	struct pf_regs hw;      /* what the host thread has, if hw_valid */
	bool hw_valid;
	LIST_ENTRY(pf_thread) out_link; /* worker.out, in states GUEST and STUB */
	LIST_ENTRY(pf_thread) as_link;  /* as->threads */
	struct pt_post post;
};

struct pf_as {
	struct ref ref;
	struct ptworker *worker;
	pid_t pid;              /* of the leader */
	_Atomic uint32_t users; /* who uses pid right now */
	_Atomic bool dead;      /* pid is not ours any more, or will not be as soon as users is 0 */
	bool destroyed;
	/* A thread may exist that is not on the list: a clone call is under way, or ended unseen.
	 */
	bool cloning_thread;
	bool is_zygote;                 /* no load */
	LIST_HEAD(, pf_thread) threads; /* all host threads */
	unsigned thread_count;
	struct fmutex orders_lock; /* the order page and who runs it */
	uint32_t orders_slot;
	struct stub_order *orders; /* the sentry's view of the page */
	bool orders_attached;      /* the stub has it mapped. [orders_lock] */
	struct pt_post post;
};

/* A stop of a tracee that nobody has claimed yet: a child whose parent has not reported its tid. */
struct pt_orphan {
	pid_t tid;
	int stop;
	LIST_ENTRY(pt_orphan) link;
};

struct ptworker {
	struct worker *worker;
	pid_t tid;
	_Atomic uint32_t kicked; /* futex word; idle() returns while it is set */
	_Atomic int sleep;       /* enum pt_sleep */
	struct htable by_tid;
	LIST_HEAD(, pf_thread) out; /* resumed, no event seen yet */
	unsigned out_count;
	unsigned dying;   /* host threads whose end is awaited by nobody but us */
	unsigned cloning; /* clone calls whose child is not claimed yet */
	unsigned sweeps;  /* so often yet, look for children of clone calls that ended unseen */
	LIST_HEAD(, pt_orphan) orphans;
	struct pf_thread *zygote;
	struct lease lease;        /* see ptrace_place.c */
	_Atomic uint32_t as_count; /* load */
	_Atomic bool posted;
	struct mutex post_lock;
	STAILQ_HEAD(, pt_post) posts; /* [post_lock] */
	void *altstack;
};

/* --- ptrace_worker.c --- */
extern const struct worker_ops g_pt_worker_ops;
struct ptworker *pt_self(void); /* of the calling worker */
struct ptworker *pt_least_loaded(void);
int pt_table_add(struct pf_thread *t) MUST_USE;
/* The thread was resumed: waits for its next event. */
void pt_set_out(struct pf_thread *t, enum pt_state state);
/* It was not resumed after all. */
void pt_cancel_out(struct pf_thread *t);
/* Sleeps until @t is STOPPED or DEAD. @park: lets other fibers run meanwhile; else the worker
 * waits. */
void pt_await(struct pf_thread *t, bool park);
/* The host refused a ptrace call on @t, which is stopped: it was killed meanwhile. Sees to it that
 * it was, and waits for its end. */
void pt_await_death(struct pf_thread *t);
void pt_post(struct ptworker *pw, struct pt_post *post, enum pt_post_kind kind);
/* Claims a child that clone made; true if its first stop has been seen already. */
bool pt_claim_orphan(struct ptworker *pw, struct pf_thread *t);
void pt_kill_orphans(struct ptworker *pw);
/* The worker threads are gone, and so their tracees: takes what is left. */
void pt_workers_stopped(void);

/* Makes a sleeping idle() return. From any thread. */
void pt_kick_if_asleep(struct ptworker *pw);

/* --- ptrace_place.c --- */
void pt_place_start(void);
void pt_place_stop(void);
void pt_place_before_run(struct pf_thread *t);
void pt_place_after_run(struct pf_thread *t);
void pt_place_tick(struct ptworker *pw);

/* --- ptrace_as.c --- */
int pt_as_new(struct pf_thread *leaves, struct pf_as **as, struct pf_thread **thread);
int pt_as_fork(struct pf_thread *from, struct pf_as **as, struct pf_thread **thread);
int pt_thread_new(struct pf_thread *from, struct pf_thread **thread);
void pt_thread_free(struct pf_thread *t);
void pt_as_get(struct pf_as *as);
void pt_as_put(struct pf_as *as);
void pt_as_destroy_here(struct pf_as *as);
void pt_thread_free_here(struct pf_thread *t);
/* The host thread has ended (its event is not consumed yet): all that follows from it. May free @t.
 */
void pt_thread_ended(struct pf_thread *t);
/* Guards the use of as->pid; false: it is gone. */
bool pt_as_enter(struct pf_as *as) MUST_USE;
void pt_as_leave(struct pf_as *as);
int pt_orders_start(struct err *e);
void pt_orders_stop(void);
int pt_orders_fd(void);

/* --- ptrace_inject.c --- */
/* Runs the stub's routine at @entry on @t with @r's general registers; out: the registers at its
 * end. 0; -EFAULT: it faulted; -ESRCH: the thread died. */
int pt_inject(struct pf_thread *t, unsigned entry, struct pf_regs *r, bool park) MUST_USE;
/* Starts E_EXIT; nobody waits for the end. */
void pt_inject_exit(struct pf_thread *t);
/* It was stopped by a stray signal on its way. */
void pt_resume_exit(struct pf_thread *t);
int pt_map(struct pf_thread *t, struct map_op *ops, size_t count);
int pt_atomic32(struct pf_thread *t, gaddr_t addr, enum atomic_op op, uint32_t arg, uint32_t cmp,
		uint32_t *old);

/* --- ptrace_files.c --- */
int pt_keeper_spawn(struct err *e);

/* --- ptrace_copy.c --- */
ssize_t pt_copy_in(struct pf_as *as, void *dst, gaddr_t src, size_t size);
ssize_t pt_copy_out(struct pf_as *as, gaddr_t dst, const void *src, size_t size);
ssize_t pt_copy_force(struct pf_as *as, gaddr_t addr, void *buf, size_t size, bool write);
int pt_xstate_get(struct pf_thread *t, void *buf);
int pt_xstate_set(struct pf_thread *t, const void *buf, size_t size);
int pt_xstate_reset(struct pf_thread *t);
int pt_resident(struct pf_as *as, uint64_t addr, size_t pages, uint8_t *vec);
void pt_usage(struct pf_as *as, unsigned what, struct pf_usage *out);
void pt_mem_stats(struct pf_as *as, struct pf_mem_stats *out);
void pt_cpu_times(struct pf_thread *t, struct pf_cpu_times *out);

#endif
