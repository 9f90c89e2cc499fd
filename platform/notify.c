/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notify platform: notifications received, answered, turned into frames. See platform/notify.h.
 *
 * Locking: g_nt.lock (leaf): the table of threads by tid; a thread in it is not freed while the
 * lock is held; and what the receiver puts into a thread (coming), which its fiber copies from
 * there (notice).
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include "base/clock.h"
#include "base/hostcall.h"
#include "base/thread.h"
#include "platform/host_notify.h"
#include "platform/host_ptrace.h"
#include "platform/host_spawn.h"
#include "platform/host_trap.h"
#include "platform/notify.h"
#include "platform/stub_files.h"
#include "platform/trap_site.h"

bool g_nt_on;

static struct {
	struct mutex lock;
	struct htable by_tid; /* [lock] */
	int listener, stop;
	bool killable; /* nothing but the end of its thread takes a received notification back */
	pthread_t receiver;
	/* The receiver's. */
	int cpu;          /* to which it is bound, or -1 */
	unsigned strange; /* notifications in a row that were for workers on another */
} g_nt = {.lock = MUTEX_INIT(RANK_LEAF), .listener = -1, .stop = -1};

/* --- Threads by tid --- */

static bool tid_eq(const void *entry, const void *key)
{
	return ((const struct pf_thread *)entry)->tid == *(const pid_t *)key;
}

static struct pf_thread *find_locked(pid_t tid)
{
	return htable_find(&g_nt.by_tid, hash_u64((uint64_t)tid), tid_eq, &tid);
}

static void del_locked(struct pf_thread *t)
{
	if (t->listed)
		(void)htable_remove(&g_nt.by_tid, hash_u64((uint64_t)t->tid), t);
	t->listed = false;
}

int nt_thread_add(struct pf_thread *t)
{
	struct pf_thread *old;
	int r = -ESRCH;

	/* A guest can end its host thread, and the tid may be another's by now. */
	if (tr_as_enter(t->as)) {
		r = pf_host_signal_thread(t->as->pid, t->tid, 0);
		tr_as_leave(t->as);
	}
	if (r < 0)
		return -ESRCH;
	mutex_lock(&g_nt.lock);
	/* Whoever had it is gone. */
	old = find_locked(t->tid);
	if (old)
		del_locked(old);
	r = htable_insert(&g_nt.by_tid, hash_u64((uint64_t)t->tid), t);
	t->listed = r == 0;
	mutex_unlock(&g_nt.lock);
	return r < 0 ? -ESRCH : 0;
}

void nt_thread_del(struct pf_thread *t)
{
	mutex_lock(&g_nt.lock);
	del_locked(t);
	mutex_unlock(&g_nt.lock);
}

/* --- Receiving --- */

/* So many before the receiver moves. */
#define STRANGE_MAX 32

/* The receiver runs where the worker and its guest threads are bound (trap_place.c), so that a call
 * wakes no other CPU. */
static void follow(const struct pf_thread *t)
{
	const int cpu = tr_place_cpu(t->as->home);
	cpu_set_t set;

	if (cpu < 0 || cpu == g_nt.cpu) {
		g_nt.strange = 0;
		return;
	}
	if (++g_nt.strange < STRANGE_MAX)
		return;
	g_nt.strange = 0;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (pf_host_affinity_set(0, &set) == 0)
		g_nt.cpu = cpu;
}

static void deliver(const struct seccomp_notif *n)
{
	struct pf_thread *t;

	mutex_lock(&g_nt.lock);
	t = find_locked((pid_t)n->pid);
	/* A thread that the sentry has let go, or that is gone: nobody answers, it sleeps. */
	if (t && pf_host_notify_valid(g_nt.listener, n->id)) {
		t->coming = (struct tr_notice){.id = n->id,
					       .rip = n->data.instruction_pointer,
					       .nr = (uint32_t)n->data.nr};
		memcpy(t->coming.arg, n->data.args, sizeof(t->coming.arg));
		atomic_store(&t->note_here, true);
		follow(t);
		tr_kick(t->as->home);
	}
	mutex_unlock(&g_nt.lock);
}

static void *receiver_main(void *arg)
{
	union pf_host_notice notice;
	int r;

	(void)arg;
	while ((r = pf_host_notify_wait(g_nt.listener, g_nt.stop)) == 1) {
		r = pf_host_notify_recv(g_nt.listener, &notice);
		if (r == 0)
			deliver(&notice.n);
		else if (r != -ENOENT && r != -EINTR)
			panic("notify: cannot receive: %s", err_text(-r));
	}
	if (r < 0 && r != -ESRCH)
		panic("notify: cannot wait: %s", err_text(-r));
	return NULL;
}

/* --- Running --- */

static bool has_posted(struct pf_thread *t)
{
	const uint32_t s = atomic_load(&t->area->state);

	return s != TS_GUEST && s != TS_BELL;
}

/* Nobody but the host says that the receiver does not write while one is read: so there is a lock.
 */
static bool take_notice(struct pf_thread *t)
{
	if (!atomic_load(&t->note_here))
		return false;
	mutex_lock(&g_nt.lock);
	t->notice = t->coming;
	atomic_store(&t->note_here, false);
	mutex_unlock(&g_nt.lock);
	return true;
}

int nt_await(struct pf_thread *t)
{
	int r;

	/* It is that worker whom the receiver wakes. */
	BUG_ON(worker_self() != t->as->home);
	for (;;) {
		r = tr_await_note(t, &t->note_here);
		if (r < 0)
			return r;
		/* What the host says before what the area says, which any guest thread can write.
		 */
		if (take_notice(t) &&
		    (g_nt.killable || pf_host_notify_valid(g_nt.listener, t->notice.id))) {
			t->noted = true;
			return 0;
		}
		if (has_posted(t))
			return 0;
	}
}

void nt_take(struct pf_thread *t, struct pf_regs *regs, struct pf_trap *trap)
{
	*regs = (struct pf_regs){
		.rdi = t->notice.arg[0],
		.rsi = t->notice.arg[1],
		.rdx = t->notice.arg[2],
		.r10 = t->notice.arg[3],
		.r8 = t->notice.arg[4],
		.r9 = t->notice.arg[5],
		.rip = t->notice.rip,
		.rax = (uint64_t)-ENOSYS,
		.orig_rax = t->notice.nr,
		.fs_base = t->fs_base,
		.gs_base = t->gs_base,
	};
	t->fast = false;
	t->fast_regs = *regs;
	t->text_seq = t->as->text_seq;
	t->partial = true;
	trap->kind = TRAP_SYSCALL;
}

/* The thread is on its way to post a frame. */
static int await_frame(struct pf_thread *t)
{
	struct ts_frame f;
	int r = tr_await_soon(t);

	if (r < 0)
		return r;
	tr_take_frame(t, &f);
	return 0;
}

int nt_answer(struct pf_thread *t, uint64_t rax)
{
	t->noted = false;
	if (likely(pf_host_notify_answer(g_nt.listener, t->notice.id, rax) == 0)) {
		t->partial = false;
		return 0;
	}
	return await_frame(t) < 0 ? -ESRCH : 1;
}

int nt_need_frame(struct pf_thread *t)
{
	/* The signal first: so it is pending when the call returns. */
	tr_signal_thread(t);
	t->noted = false;
	/* If the signal has taken the notification back, the frame comes all the same. */
	(void)pf_host_notify_answer(g_nt.listener, t->notice.id, 0);
	return await_frame(t);
}

int nt_regs_get(struct pf_thread *t, struct pf_regs *regs)
{
	const uint64_t old_fs = t->fs_base, old_gs = t->gs_base;
	struct pf_regs known = *regs;
	struct ts_frame f;

	if (likely(!t->partial))
		return 0;
	if (tr_need_frame(t) < 0)
		return -ESRCH;
	copy_once(&f, tr_frame(t), sizeof(f));
	tr_regs_from_frame(regs, &f);
	regs->rax = known.rax;
	regs->orig_rax = known.orig_rax;
	regs->rip = known.rip;
	/* Those that a call has not just changed are the thread's. */
	tr_bases_read(t);
	regs->fs_base = known.fs_base == old_fs ? t->fs_base : known.fs_base;
	regs->gs_base = known.gs_base == old_gs ? t->gs_base : known.gs_base;
	t->partial = false;
	return 0;
}

/* --- Start and stop --- */

uint64_t nt_filter_flags(void)
{
	return g_nt_on ? pf_host_notify_flags() : 0;
}

void nt_listener_set(int listener)
{
	g_nt.listener = listener;
}

static void nt_stop(void)
{
	tr_stop();
	if (g_nt.stop >= 0) {
		pf_host_notify_event_set(g_nt.stop);
		pthread_join(g_nt.receiver, NULL);
		pf_host_close(g_nt.stop);
	}
	if (g_nt.listener >= 0)
		pf_host_close(g_nt.listener);
	g_nt.stop = g_nt.listener = -1;
	htable_fini(&g_nt.by_tid);
	g_nt_on = false;
}

static int nt_start(struct err *e)
{
	int r;

	g_nt_on = true;
	g_nt.cpu = -1;
	g_nt.killable = pf_host_notify_is_killable();
	htable_init(&g_nt.by_tid);
	r = tr_start(e);
	if (r < 0) {
		htable_fini(&g_nt.by_tid);
		g_nt_on = false;
		return r;
	}
	pf_host_notify_sync(g_nt.listener);
	r = g_nt.stop = pf_host_notify_event();
	if (r >= 0) {
		r = thread_start(&g_nt.receiver, receiver_main, NULL, "moat-notify");
		if (r < 0) {
			pf_host_close(g_nt.stop);
			g_nt.stop = -1;
		}
	}
	if (r < 0) {
		(void)err_set(e, -r, "cannot start the receiver of notifications: %s",
			      err_text(-r));
		nt_stop();
		return r;
	}
	return 0;
}

static int nt_probe(struct err *e)
{
	const int r = pf_host_probe_trap(e);

	return r < 0 ? r : pf_host_probe_notify(e);
}

static const struct worker_ops *nt_worker_ops(void)
{
	return &g_tr_worker_ops;
}

const struct platform platform_notify = {
	.name = "notify",
	.summary = "seccomp user notification; no tracer; a call costs some 12 microseconds",
	.probe = nt_probe,
	.worker_ops = nt_worker_ops,
	.start = nt_start,
	.stop = nt_stop,
	.end = tr_end,
	.as_new = tr_as_new,
	.as_fork = tr_as_fork,
	.will_execute = tr_will_execute,
	.thread_new = tr_thread_new,
	.thread_free = tr_thread_free,
	.as_get = tr_as_get,
	.as_put = tr_as_put,
	.thread_as = tr_thread_as,
	.as_home = tr_as_home,
	.run = tr_run,
	.regs_get = nt_regs_get,
	.interrupt = tr_interrupt,
	.xstate_get = tr_xstate_get,
	.xstate_set = tr_xstate_set,
	.xstate_reset = tr_xstate_reset,
	.map = tr_map,
	.space = tr_space,
	.space_over = tr_space_over,
	.forget_file = pt_forget_file,
	.copy_in = tr_copy_in,
	.copy_out = tr_copy_out,
	.copy_force = tr_copy_force,
	.atomic32 = tr_atomic32,
	.resident = tr_resident,
	.mem_stats = tr_mem_stats,
	.usage = tr_usage,
	.cpu_times = tr_cpu_times,
};
