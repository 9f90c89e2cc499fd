/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trap platform's private declarations. Nobody outside platform/trap*.c includes this.
 *
 * Theory of operation. A guest thread is stopped by a signal of its own process: SIGSYS for each
 * syscall (trap_filter.c), or that of a fault. The stub's handler (stub_trap/guest.c) posts a
 * request in the thread's area, which is shared with the sentry, and waits for the reply there.
 * Nobody traces anybody. The files:
 *
 *	trap.c	       the interface's table; run(), interrupt(), commands to a stopped thread
 *	trap_worker.c  workers: waiting for requests and reports, spinning, sleeping
 *	trap_place.c   on which CPUs workers, guest threads and agents run
 *	trap_as.c      zygote, address spaces, threads: birth and death; who notices a death
 *	trap_agent.c   orders to the agent: map operations, clones; its reports; agents made late
 *	trap_space.c   how much may be mapped; what guest threads may map themselves, and why
 *	trap_rewrite.c call sites: decoding, trampolines, writing text
 *	trap_site.c    the table of call sites; addresses as the guest sees them
 *	trap_known.c   what is known of the call sites of files
 *	trap_answer.c  what stubs answer themselves
 *	trap_window.c  guest memory that travels with requests and replies
 *	trap_view.c    contents of files that guests read by mappings in their stub
 *	trap_xstate.c  vector state in signal frames
 *	trap_copy.c    copies and statistics
 *	trap_filter.c  the seccomp programs
 *	notify.c       another way of making calls, over the same stub: see notify.h
 *
 * Calls from rewritten sites come without a signal (stub_trap/fast.c): then the registers are in
 *the area and there is no frame (pf_thread.fast). What needs more than a new rax asks for a frame
 *first (tr_need_frame).
 *
 * States of a thread (pf_thread.state), as the sentry knows them: STOPPED (its request was taken,
 * or it is new), RUNNING (a reply was given), DEAD. The word in the area has states of its own
 * (TS_GUEST…), which the guest can forge: it deceives itself. What is believed of an area is only
 * what was read once into private memory and checked.
 *
 * Interrupts: interrupt() sets a flag, then looks at the state and signals a thread that RUNS.
 * run() sets RUNNING, looks at the flag, replies, and looks again: then it signals itself. So a
 * signal is sent after the reply, or the flag is seen. A signal that comes while the thread is in
 * its handler stays pending until it is back in guest code, and makes it ask once more; at worst
 * run() returns once too often.
 *
 * A hostile guest can make its thread deaf: it waits in the stub's code for what never comes, or
 *blocks the interrupt. An interrupt that was not heeded after a while therefore ends the process
 *(tr_watch_init): soon if the thread sleeps, or has run for long since; else after TR_PATIENCE_NS.
 *A kill must always kill.
 *
 * Death: of a process, by waitid in a thread of our own; it sets as->dead and kicks all workers,
 * and the pid stays taken until nobody uses it (as->users). Of a single thread (a guest may jump to
 * the stub's exit): noticed when it is interrupted.
 *
 * Locking: as->orders_lock (fmutex): the order page and the agent. g_trap.lock (leaf): the table
 * of processes, slots. A thread is touched by its fiber only, but for what is atomic.
 */
#ifndef MOAT_PLATFORM_TRAP_H
#define MOAT_PLATFORM_TRAP_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fiber.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/queue.h"
#include "base/waitq.h"
#include "platform/lease.h"
#include "platform/platform.h"
#include "platform/stub_trap/layout.h"

/* Cycles between reply and request below which a thread counts as one that makes calls often. */
#define TR_SHORT_RUN 520000u

/* How long a stopped thread or an agent may take to do what it was told before its process is
 * killed: only a hostile guest, or a host that is beyond use, takes so long. */
#define TR_PATIENCE_NS (10 * UINT64_C(1000000000))

/* No report has this sequence number: the descriptor's offset before an agent has told anything. */
#define TR_NO_REPORT ((int64_t)0x7ffffe << TS_REPORT_SEQ_SHIFT)

struct tr_sites; /* trap_site.h */
struct tr_views; /* trap_view.c */

enum tr_state { TR_STOPPED, TR_RUNNING, TR_DEAD };

/* Someone whose fiber waits for a word in shared memory. */
struct tr_wait {
	_Atomic uint32_t *word; /* fires when it is neither TS_GUEST nor TS_BELL */
	const _Atomic bool *dead, *gone;
	const _Atomic bool *note; /* fires as well when it is set; may be NULL */
	struct fiber *fiber;
	struct pf_thread *thread; /* that runs guest code meanwhile, or NULL */
	_Atomic bool fired;
	bool guest; /* it runs guest code meanwhile: uses a CPU */
	bool soon;  /* likely worth spinning for */
	/* NULL, or while it is set the worker is not woken for this: it looks when it is awake. */
	const _Atomic bool *patient;
	LIST_ENTRY(tr_wait) link;
};

/* Nowhere: what was written is zeros. */
#define TR_VIEW_ZEROS 1

/* Guest memory that came with the request; trap_window.c. */
struct tr_window {
	uint64_t addr;
	uint32_t size;
	uint32_t flags;    /* TS_W_*; 0: not used any more */
	uint32_t from, to; /* what was written */
	uint8_t *room;     /* in the area; hostile */
	/* What was written is there, in the stub; or 0: in the room; or TR_VIEW_ZEROS. */
	uint64_t view;
};

/* A place of ts_read; trap_read.c. */
struct tr_read {
	/* What was read last. */
	int32_t fd;
	uint8_t left, wait; /* so many reads more before it is published; and the next time */
	bool published;     /* it was */
	uint64_t part;
	/* What is published, if anything: where it is, and how many the stub had answered of it. */
	uint64_t view;
	uint32_t seen;
};

struct pf_thread {
	struct pf_as *as;
	struct ts_area *area; /* the sentry's view; hostile */
	uint64_t area_addr;   /* in the stub */
	unsigned index;       /* among the areas of its address space */
	_Atomic pid_t tid;    /* 0: the agent has not told yet */
	_Atomic int state;    /* enum tr_state */
	_Atomic bool interrupt;
	_Atomic bool gone;               /* the host says that there is no such thread */
	_Atomic(struct worker *) worker; /* where its fiber waits */
	uint32_t frame;                  /* offset of the signal frame in the area, checked */
	bool fp_initial;                 /* the frame has no vector state: initial */
	bool has_run;
	bool begins;              /* a process or program: see answers_begin */
	bool fast;                /* stopped in a call from a rewritten site: no frame */
	bool partial;             /* the sentry does not know all registers: see regs_get */
	struct pf_regs fast_regs; /* its registers as they were told, or have been read */
	bool fast_read;           /* they are all there; else the number and the arguments */
	uint32_t answers_epoch;   /* of what was published for it */
	uint64_t rax;             /* for its reply */
	uint64_t seen, replied;   /* while g_pf_stamps is set */
	uint32_t window_count;
	bool windows_told; /* the guest says that there are some */
	struct tr_window window[TS_WINDOWS];
	uint32_t last_nr;  /* of the last system call */
	bool parent;       /* waits for a child, and so does not count as load */
	uint32_t text_seq; /* what it has seen of as->text_seq */
	/* notify. See notify.h. */
	bool noted;             /* stopped in a notification: no frame */
	_Atomic bool listed;    /* in the table of tids */
	_Atomic bool note_here; /* the receiver has put one into coming */
	struct tr_notice {
		uint64_t id, rip, arg[6];
		uint32_t nr;
	} notice, coming; /* which it answers; the receiver's, by its lock */
	uint64_t fs_base, gs_base;
	uint32_t bound;                   /* see trap_place.c */
	uint32_t run_cycles;              /* average between reply and request */
	_Atomic uint64_t ran_cycles;      /* sum of the same; others read it */
	_Atomic uint64_t told_ns;         /* the most that anybody was told */
	struct pf_cpu_times times_before; /* what its host thread had used before */
	LIST_ENTRY(pf_thread) link;       /* [as->threads_lock] */
	/* Is it heeding an interrupt? See trap.c. */
	struct timer watch;
	_Atomic bool watched;
	_Atomic uint32_t run_seq; /* grows with each run */
	uint32_t watch_seq;       /* what it was. [the timer, or who has set watched] */
	unsigned looks, sleeps;   /* [likewise] */
	uint64_t watch_ticks;     /* processor time at the first look. [likewise] */
	struct tr_read read[TS_READS];
};

struct tr_slot {
	uint32_t slot; /* of the areas file */
	bool used;
	/* Its guest thread has ended, but the host thread waits on, for the next one: with the
	 * signal frame at @frame, these bases, and after so much processor time. */
	bool parked, fast;
	pid_t tid;
	uint32_t frame;
	uint32_t uses;
	uint32_t bound;
	uint64_t fs_base, gs_base;
	struct pf_cpu_times times;
};

struct pf_as {
	struct ref ref;
	pid_t pid;
	_Atomic uint32_t users; /* who uses pid right now */
	_Atomic bool dead;      /* pid is not ours any more, or will not be as soon as users is 0 */
	bool reaped;            /* [g_trap.lock] */
	bool destroyed;         /* [g_trap.lock] */
	bool in_table;          /* [g_trap.lock] */
	bool lost;              /* whether it has a process is unknown: its slots are spent */
	/* Its first thread is the guest's. It has an agent only after its first order:
	 * trap_agent.c. */
	bool alone;
	bool has_agent;  /* [orders_lock] */
	pid_t agent_tid; /* 0: unknown, or none. If @alone, it is what the stub has said */
	struct worker *home;

	struct fmutex orders_lock;
	uint32_t orders_slot;
	struct ts_orders *orders; /* the sentry's view of the page. [orders_lock] */
	int result_fd;            /* shares the description of the agent's */
	uint32_t seq;             /* of the last order. [orders_lock] */
	bool unread;              /* its report has not been looked at. [orders_lock] */
	/* The page holds orders that are given with this thread's next reply. Set and cleared
	 * under orders_lock; others may look. */
	_Atomic(struct pf_thread *) deferred;
	struct fiber *deferred_by;
	unsigned deferred_count; /* orders on the page. [orders_lock] */
	bool own; /* there is one, which the thread may carry out itself. [orders_lock] */
	/* [orders_lock] What may be mapped: of the guest's; in all, as the host was told. */
	uint64_t space, limit;
	uint16_t
		view_pages[TS_VIEWS_MAX]; /* the largest view so far in each place. [orders_lock] */
	/* [orders_lock] The host has at most so many mappings of it; count them anew from there. */
	uint32_t map_bound, map_recount;
	/* The agent has told of its start, or there is none to tell. [orders_lock] */
	bool settled;
	struct pf_thread *first; /* gets its tid with that. [orders_lock] */
	struct tr_slot *areas;   /* by index; [0] is there from the start. [orders_lock] */
	unsigned area_count;
	uint32_t bound;  /* the agent is; see trap_place.c */
	unsigned parked; /* areas that are. [orders_lock] */
	_Atomic unsigned threads;
	struct mutex threads_lock;
	LIST_HEAD(, pf_thread) thread_list; /* [threads_lock] */

	struct tr_views *views; /* NULL: none yet. Touched by fibers on @home only */
	/* Rewriting. Touched by fibers on @home only, but for text_seq. */
	struct tr_sites *sites;    /* NULL: nothing was counted yet */
	unsigned running;          /* threads that run guest code */
	_Atomic uint32_t text_seq; /* grows when text was changed */
	struct fiber *holder;      /* changes text: nobody starts to run, who stops last wakes it */
	struct waitq held;         /* those who wait for that */
};

struct trworker {
	struct worker *worker;
	_Atomic uint32_t kicked; /* futex word; idle() returns while it is set */
	_Atomic bool asleep;
	LIST_HEAD(, tr_wait) waits;
	unsigned wait_count, guest_count, soon_count;
	unsigned queued; /* guest threads whose request has come, and whose fiber has not run yet */
	int direct;      /* of the guest threads in waits: asleep on a futex of their own */
	unsigned fails;
	struct ts_area *taken;     /* whose request was taken last, if it has no reply yet */
	_Atomic uint32_t as_count; /* load */
	/* See trap_place.c. */
	struct lease lease;
	bool spread;
	uint32_t prompt, spin_hits;
	uint64_t vain_until, fork_until;
};

/* --- trap.c --- */
/* Tells a stopped thread to do @cmd (TS_CMD_*, not EXIT), and waits. 0, or -ESRCH. */
int tr_command(struct pf_thread *t, uint32_t cmd) MUST_USE;
struct ts_frame *tr_frame(struct pf_thread *t);
void tr_reply(struct pf_thread *t, uint32_t cmd);
/* Waits until @t has posted. 0; -ESRCH: it never will; -ETIMEDOUT. */
int tr_await_post(struct pf_thread *t, bool soon, uint64_t deadline_ns) MUST_USE;
/* The same without a deadline, or until *note is set. */
int tr_await_note(struct pf_thread *t, const _Atomic bool *note) MUST_USE;
/* The same for a thread that has been told to post at once: a process that does not is killed. 0 or
 * -ESRCH. */
int tr_await_soon(struct pf_thread *t) MUST_USE;
/* Reads the frame that was posted into *f. */
void tr_take_frame(struct pf_thread *t, struct ts_frame *f);
void tr_regs_from_frame(struct pf_regs *r, const struct ts_frame *f);
/* Makes a stopped thread have a signal frame. 0, or -ESRCH. */
int tr_need_frame(struct pf_thread *t) MUST_USE;
void tr_signal_thread(struct pf_thread *t);
void tr_watch_init(struct pf_thread *t);
void tr_run(struct pf_thread *t, struct pf_regs *regs, struct pf_trap *trap);
void tr_interrupt(struct pf_thread *t);
int tr_atomic32(struct pf_thread *t, gaddr_t addr, enum atomic_op op, uint32_t arg, uint32_t cmp,
		uint32_t *old);
struct pf_as *tr_thread_as(struct pf_thread *t);
struct worker *tr_as_home(struct pf_as *as);

/* --- trap_worker.c --- */
/* A guest thread was preempted while it span. */
void tr_note_guest_preempted(void);
extern const struct worker_ops g_tr_worker_ops;
/* Sleeps until w->word says so (0) or the deadline passed (-ETIMEDOUT). The caller has set word,
 * dead and gone, guest and soon. */
int tr_await(struct tr_wait *w, uint64_t deadline_ns) MUST_USE;
/* Guests may read and write the bases of FS and GS without a call. Set at the start. */
extern bool g_tr_bases;
/* The stub has noted them with the request of @t: they are the thread's. GS that leads to the area
 * is the guest's 0. */
void tr_bases_read(struct pf_thread *t);
/* The request of @t was taken by this worker; it is about to be replied to; it is about to run. */
void tr_taken(struct pf_thread *t);
void tr_replied(struct pf_thread *t);
void tr_before_run(struct pf_thread *t);
/* @leaves: see as_new. */
struct worker *tr_least_loaded(const struct pf_thread *leaves);
void tr_load(struct worker *home, int change);
/* @t has asked for a child's end, or goes on: a process that waits for another is no load. */
void tr_parent_waits(struct pf_thread *t);
void tr_parent_back(struct pf_thread *t);
void tr_kick(struct worker *w);
void tr_kick_all(void);
/* Do many threads call this worker? *queue: does a request wait now? */
bool tr_crowded(bool *queue);
/* Do this worker's threads run on other CPUs than it does? */
bool tr_apart(void);
/* See struct platform, regs_get. */
int tr_regs_get(struct pf_thread *t, struct pf_regs *regs);
/* How long a guest thread shall spin for its next reply, in cycles. */
uint32_t tr_guest_spin(void);
void tr_workers_init(void);
/* What the files of the platform keep, but for address spaces and what needs the host's help. */
void tr_parts_start(void);

void tr_kick_if_asleep(struct trworker *tw);

/* --- trap_place.c --- */
void tr_place_start(void);
void tr_place_stop(void);
void tr_place_worker_init(struct trworker *tw);
/* The agent of @as, which has no guest thread that has run yet, shall do its work for the calling
 * worker: where that waits for it. */
void tr_place_agent_here(struct pf_as *as);
/* @t and its agent shall end somewhere else than on the CPU that is leased to the calling worker.
 */
void tr_place_away(struct pf_thread *t);
/* Ends the worker's lease if it is over. */
void tr_place_tick(struct trworker *tw);
/* The CPU that is leased to @w, or -1. */
int tr_place_cpu(struct worker *w);
/* @t, of this worker, is about to get a reply. */
void tr_place_before_run(struct trworker *tw, struct pf_thread *t);
/* A reply: without the worker's having been idle since the request, and with a CPU to go on? A
 * spin: was it for something?
 */
void tr_place_note_reply(struct trworker *tw, bool prompt);
void tr_place_note_spin(struct trworker *tw, bool hit);
/* The caller makes a child, by a copy; and an address space for a program. */
void tr_place_forks(void);
void tr_place_executes(void);
/* Worker and threads run on different CPUs. */
bool tr_place_spreads(const struct trworker *tw);

/* --- trap_as.c --- */
int tr_prepare(struct err *e);
int tr_start(struct err *e);
void tr_end(void);
void tr_stop(void);
int tr_as_new(struct pf_thread *leaves, struct pf_as **as, struct pf_thread **thread);
int tr_as_fork(struct pf_thread *from, struct pf_as **as, struct pf_thread **thread);
void tr_will_execute(struct pf_thread *t);
int tr_thread_new(struct pf_thread *from, struct pf_thread **thread);
void tr_thread_free(struct pf_thread *thread);
void tr_as_get(struct pf_as *as);
void tr_as_put(struct pf_as *as);
/* Between _enter and _leave as->pid names our process. False: it is dead. */
bool tr_as_enter(struct pf_as *as) MUST_USE;
void tr_as_leave(struct pf_as *as);
void tr_as_kill(struct pf_as *as);
/* An order failed since the process is dead. -ENOMEM: run() will tell. */
int tr_as_gone(void) MUST_USE;
uint64_t tr_areas_fd(void);             /* in the stubs' table */
struct ts_area *tr_area(uint32_t slot); /* the sentry's view */

/* --- trap_agent.c --- */
struct tr_report {
	unsigned done;  /* orders, or TS_REPORT_PID */
	uint32_t value; /* errno or pid */
};
/* Waits until the agent is up and its first thread's tid known. 0 or -ESRCH. */
int tr_settle_locked(struct pf_as *as) MUST_USE REQUIRES(as->orders_lock);
/* The page may be filled: no order is under way. 0 or -ESRCH. */
int tr_orders_begin_locked(struct pf_as *as) MUST_USE REQUIRES(as->orders_lock);
/* Gives the order whose page is filled but for op, size, arg0 and arg1, after _begin. @by: a
 * stopped thread of @as that may help, or NULL if @as has an agent. 0 or -ESRCH. */
int tr_order_locked(struct pf_as *as, struct pf_thread *by, uint32_t op, size_t count,
		    uint64_t arg0, uint64_t arg1, struct tr_report *report) MUST_USE
	REQUIRES(as->orders_lock);
/* Gives an order without arguments of its own list (TS_OP_FORK) that nobody waits for yet: another
 * host thread wakes the agent by tr_order_ring(), and until *@patient is not set, which its clearer
 * has to tell the worker by a kick, the worker is not woken for the report. */
int tr_order_later_locked(struct pf_as *as, uint32_t op, uint64_t arg0, uint64_t arg1,
			  const _Atomic bool *patient, struct tr_report *report) MUST_USE
	REQUIRES(as->orders_lock);
/* Wakes the agent that has such an order. From anywhere. */
void tr_order_ring(void);
/* Replies to @t with @cmd and the order that was deferred until then, if that still is. */
void tr_reply_deferred(struct pf_thread *t, uint32_t cmd);
/* Is the agent at an order, as far as anybody without orders_lock can tell? */
bool tr_agent_works(const struct pf_as *as);
/* Has the order that was deferred carried out now. */
void tr_flush(struct pf_as *as);
void tr_agent_start(void);
int tr_map(struct pf_thread *t, struct map_op *ops, size_t count);

/* --- trap_space.c --- */
void tr_space_start(void);
uint64_t tr_space_first(void); /* what may be mapped in the keeper and its children */
/* @as has the limit of @from, whose process its own is a fork of, or will have the first. */
void tr_space_init(struct pf_as *as, const struct pf_as *from);
/* Fills *@order with what lets so many bytes of guest memory and so many areas be mapped. How many
 * orders: 1, or 0: it is so. The page may be filled. Who finds that it failed sets as->limit to 0:
 * unknown. */
size_t tr_space_order(struct pf_as *as, uint64_t space, unsigned areas, struct stub_order *order)
	REQUIRES(as->orders_lock);
int tr_space(struct pf_thread *t, uint64_t bytes);
uint64_t tr_space_over(struct pf_as *as);
/* The limit follows as->view_pages. 0 or -errno. */
int tr_space_again_locked(struct pf_as *as, struct pf_thread *t) REQUIRES(as->orders_lock) MUST_USE;

/* --- trap_xstate.c --- */
void tr_xstate_start(void);
int tr_xstate_get(struct pf_thread *t, void *buf);
int tr_xstate_set(struct pf_thread *t, const void *buf, size_t size);
int tr_xstate_size(struct pf_thread *t, uint64_t *features);
int tr_xstate_put(struct pf_thread *t, gaddr_t addr, const void *bytes, size_t size);
int tr_xstate_reset(struct pf_thread *t);
/* The new thread @to starts with the vector state of @from. */
void tr_xstate_copy(struct pf_thread *from, struct pf_thread *to);

/* --- trap_filter.c --- */
/* @listener_flags: 0; or calls of guest code are user notifications, and with these flags the
 * keeper installs the filter that makes them so. */
int tr_filter_build(struct ts_config *config, uint64_t listener_flags, struct err *e) MUST_USE;

/* --- trap_answer.c --- */
void tr_answers_start(struct ts_shared *shared);
void tr_answers_stop(void);
/* The clock page, for the stubs to come. Without it they ask for the time. */
void tr_answers_clocks(void);
struct pf_answers *tr_answers_begin(struct pf_thread *t);
struct pf_actions *tr_answers_actions(struct pf_thread *t);
/* An area's, for the next process. */
void tr_answers_wipe(struct pf_actions *a);
void tr_answers_end(struct pf_thread *t);
void tr_answers_stale(void);
bool tr_answers_on(void);
_Atomic uint64_t *tr_answers_marks(void);
_Atomic uint32_t *tr_futex_counts(struct pf_as *as);
int tr_futex_wake_direct(struct pf_thread *t, gaddr_t addr, int count);
bool tr_asleep(struct pf_thread *t);
void tr_answers_thread_init(struct pf_thread *t);
/* What the stub of @t, which is stopped, has taken note of since it was asked last. */
void tr_answers_told(struct pf_thread *t, struct pf_trap *trap);
bool tr_told_robust(struct pf_thread *t, uint64_t *head);
/* Adds what its stub has answered to the statistics. */
void tr_answers_thread_end(struct pf_thread *t);
void tr_stats(struct pf_stats *out);

/* --- trap_window.c --- */
/* The windows of a request that has just come; of the reply that is about to be given. */
void tr_windows_take(struct pf_thread *t, uint32_t count);
void tr_windows_reply(struct pf_thread *t);
/* Nothing travels any more: what was written goes to the guest now. */
void tr_windows_flush(struct pf_thread *t);
/* A copy by the calling fiber. False: no window covers it, the host must do it. */
bool tr_window_in(struct pf_as *as, void *dst, uint64_t src, size_t size);
bool tr_window_out(struct pf_as *as, uint64_t dst, const void *src, size_t size);
ssize_t tr_carried_str(struct pf_as *as, char *dst, gaddr_t src, size_t size);
/* The thread that the calling fiber serves, if it is one of @as and has windows; else NULL. */
struct pf_thread *tr_window_thread(struct pf_as *as);
/* Has @t a window of @size bytes at @dst, of which nothing has been written? *index. Then: what it
 * gets is at @view in the stub. */
bool tr_window_for_view(const struct pf_thread *t, uint64_t dst, size_t size,
			uint32_t *index) MUST_USE;
void tr_window_view(struct pf_thread *t, uint32_t index, uint64_t view, size_t size);

/* --- trap_view.c --- */
bool tr_give(struct pf_as *as, gaddr_t dst, const struct uio_file *file, uint64_t pos,
	     size_t size) MUST_USE;
void tr_views_free(struct tr_views *views);
/* Where the part of a file with this id is in the stub; 0: nowhere. */
uint64_t tr_view_find(struct pf_as *as, uint64_t id);

/* --- trap_read.c --- */
bool tr_read_due(struct pf_thread *t, int fd, uint64_t pos);
void tr_read_publish(struct pf_thread *t, const struct pf_read *what);
/* For a new thread, whose area is empty: nothing is published. */
void tr_reads_init(struct pf_thread *t);
/* Nothing of the view at @view is. */
void tr_reads_forget_view(struct pf_thread *t, uint64_t view);
/* Has the stub read in the view at @view since this was asked last? */
bool tr_reads_used(struct pf_thread *t, uint64_t view);
void tr_told_reads(struct pf_thread *t, bool take, uint64_t *calls, uint64_t *bytes);

/* --- trap_copy.c --- */
ssize_t tr_copy_in(struct pf_as *as, void *dst, gaddr_t src, size_t size);
ssize_t tr_copy_out(struct pf_as *as, gaddr_t dst, const void *src, size_t size);
ssize_t tr_copy_force(struct pf_as *as, gaddr_t addr, void *buf, size_t size, bool write);
size_t tr_map_count(struct pf_as *as); /* mappings that the host has; SIZE_MAX: unknown */
int tr_resident(struct pf_as *as, uint64_t addr, size_t pages, uint8_t *vec);
void tr_usage(struct pf_as *as, unsigned what, struct pf_usage *out);
void tr_mem_stats(struct pf_as *as, struct pf_mem_stats *out);
void tr_cpu_times(struct pf_thread *t, struct pf_cpu_times *out);
/* What the host thread of @t, which ends, has used so far; as the host knows it if @exact, else it
 * may be our own measurement. */
void tr_times_used(struct pf_thread *t, bool exact, struct pf_cpu_times *out);
void tr_copy_start(void);
/* The state letter of the host thread, and processor time that it has used, in ticks of 10 ms. 0:
 * unknown. */
char tr_host_state(struct pf_thread *t, uint64_t *ticks);

#endif
