/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of the ptrace platform: events of tracees, idle and poll, messages from other workers.
 *
 * Theory of operation: see platform/ptrace.h. A worker with nothing to run sleeps in one of two
 * ways: with tracees out, in waitid, which a signal can end; with none, on a futex, which is
 * cheaper to end. Either way it announces how it sleeps (ptworker.sleep) and then looks at
 * ptworker.kicked; a kicker sets kicked and then looks at sleep. So one of the two sees the other.
 *
 * With exactly one host thread out, the wait is for that thread: the host finds it at once and its
 * stop need not be consumed. Otherwise the wait is for any; then all events that are there are
 * collected before a fiber runs, since the host always reports the first in its list and the others
 * would starve.
 */
#include <errno.h>
#include <sys/ptrace.h>
#include "platform/host_spawn.h"
#include "platform/ptrace.h"

#define ALTSTACK_SIZE ((size_t)64 << 10)

#define WORKERS_MAX 64

enum pt_sleep { PT_AWAKE, PT_SLEEP_WAIT, PT_SLEEP_FUTEX };

/* All that were ever started; by index. Each is written by its own thread, before its first fiber.
 */
static struct ptworker *g_workers_of_ptrace[WORKERS_MAX];

static bool tid_eq(const void *entry, const void *key)
{
	return ((const struct pf_thread *)entry)->tid == *(const pid_t *)key;
}

static struct pf_thread *table_find(struct ptworker *pw, pid_t tid)
{
	return htable_find(&pw->by_tid, hash_u64((uint64_t)tid), tid_eq, &tid);
}

int pt_table_add(struct pf_thread *t)
{
	return htable_insert(&t->worker->by_tid, hash_u64((uint64_t)t->tid), t);
}

struct ptworker *pt_self(void)
{
	return *worker_data(worker_self());
}

struct ptworker *pt_least_loaded(void)
{
	struct ptworker *self = pt_self();
	struct ptworker *best = self;
	/* Staying is free, and what a pipeline's stages share stays on one CPU: others must be
	 * better by two. */
	uint32_t best_load = atomic_load_explicit(&self->as_count, memory_order_relaxed);

	best_load = best_load > 1 ? best_load - 1 : 0;
	for (unsigned i = 0; i < worker_count(); i++) {
		struct ptworker *pw = *worker_data(worker_at(i));
		uint32_t load;

		if (!pw || pw == self)
			continue;
		load = atomic_load_explicit(&pw->as_count, memory_order_relaxed);
		if (load < best_load) {
			best = pw;
			best_load = load;
		}
	}
	return best;
}

/* --- Events --- */

void pt_set_out(struct pf_thread *t, enum pt_state state)
{
	LIST_INSERT_HEAD(&t->worker->out, t, out_link);
	t->worker->out_count++;
	atomic_store(&t->state, (int)state);
}

static bool is_out(const struct pf_thread *t)
{
	const int s = atomic_load_explicit(&t->state, memory_order_relaxed);

	return s == PT_GUEST || s == PT_STUB;
}

static void set_in(struct pf_thread *t, enum pt_state state)
{
	if (is_out(t)) {
		LIST_REMOVE(t, out_link);
		t->worker->out_count--;
	}
	atomic_store(&t->state, (int)state);
}

void pt_cancel_out(struct pf_thread *t)
{
	set_in(t, PT_STOPPED);
}

static void wake_waiter(struct pf_thread *t)
{
	if (t->waiter)
		fiber_wake(t->waiter);
}

/* An event of a tid that is not in the table. */
static void on_unknown(struct ptworker *pw, const struct host_event *ev)
{
	struct pt_orphan *o;

	pf_host_wait_consume(ev->tid);
	if (ev->ended)
		return;
	o = pw->cloning != 0 ? mem_zalloc(sizeof(*o)) : NULL;
	if (!o) {
		/* A child of a thread that died in its clone call. */
		(void)pf_host_kill(ev->tid, SIGKILL);
		return;
	}
	o->tid = ev->tid;
	o->stop = ev->status;
	LIST_INSERT_HEAD(&pw->orphans, o, link);
}

bool pt_claim_orphan(struct ptworker *pw, struct pf_thread *t)
{
	struct pt_orphan *o;

	LIST_FOREACH (o, &pw->orphans, link) {
		if (o->tid == t->tid) {
			t->stop = o->stop;
			LIST_REMOVE(o, link);
			mem_free(o);
			return true;
		}
	}
	return false;
}

void pt_kill_orphans(struct ptworker *pw)
{
	struct pt_orphan *o;

	while ((o = LIST_FIRST(&pw->orphans)) != NULL) {
		(void)pf_host_kill(o->tid, SIGKILL);
		LIST_REMOVE(o, link);
		mem_free(o);
	}
}

/* @consume: the wait was for any thread, so the event must leave the queue. */
static void on_event(struct ptworker *pw, const struct host_event *ev, bool consume)
{
	struct pf_thread *t = table_find(pw, ev->tid);

	if (!t) {
		on_unknown(pw, ev);
	} else if (ev->ended) {
		set_in(t, PT_DEAD);
		(void)htable_remove(&pw->by_tid, hash_u64((uint64_t)t->tid), t);
		wake_waiter(t);
		pt_thread_ended(t);
	} else {
		if (consume)
			pf_host_wait_consume(ev->tid);
		if (is_out(t)) { /* else: a stop that was seen before and left in the queue */
			t->stop = ev->status;
			set_in(t, PT_STOPPED);
			if (t->freed && !t->as->destroyed)
				pt_resume_exit(t);
			else
				wake_waiter(t);
		}
	}
}

/* Waiting for one thread alone is right only if its end will be reported whatever others do: the
 * host does not report the end of a leader before those of all its other threads were taken, and a
 * clone call may have made one that is not in our books. */
static bool can_wait_alone(const struct pf_thread *t)
{
	return t->tid != t->as->pid || (t->as->thread_count == 1 && !t->as->cloning_thread);
}

/* Handles all events that are there now. Were there any? */
static bool collect(struct ptworker *pw)
{
	struct host_event ev;
	bool any = false;

	while (pw->out_count + pw->dying + pw->sweeps != 0) {
		if (pf_host_wait(0, false, &ev) == 1) {
			on_event(pw, &ev, true);
			any = true;
			continue;
		}
		if (pw->sweeps != 0)
			pw->sweeps--;
		break;
	}
	return any;
}

/* The host says that there is nothing to wait for: then what we wait for has ended unseen. */
static void on_nobody(struct ptworker *pw)
{
	size_t pos = 0;
	struct pf_thread *t;

	while ((t = htable_next(&pw->by_tid, &pos)) != NULL) {
		const struct host_event ev = {.tid = t->tid, .ended = true};

		on_event(pw, &ev, false);
		pos = 0;
	}
	pw->dying = 0;
}

static void on_wait_result(struct ptworker *pw, int r, struct pf_thread *alone,
			   const struct host_event *ev)
{
	if (r == 1)
		on_event(pw, ev, !alone);
	else if (r == -ECHILD && alone)
		on_event(pw, &(struct host_event){.tid = alone->tid, .ended = true}, false);
	else if (r == -ECHILD)
		on_nobody(pw);
}

void pt_await(struct pf_thread *t, bool park)
{
	struct ptworker *pw = t->worker;
	struct host_event ev;

	if (park) {
		BUG_ON(t->waiter != NULL);
		t->waiter = fiber_self();
		fiber_turn_keep();
		while (is_out(t))
			fiber_wait(DEADLINE_NONE, WAIT_UNINTR);
		fiber_turn_unkeep();
		t->waiter = NULL;
		return;
	}
	while (is_out(t)) {
		struct pf_thread *alone = can_wait_alone(t) ? t : NULL;
		const int r = pf_host_wait(alone ? t->tid : 0, true, &ev);

		on_wait_result(pw, r, alone, &ev);
	}
}

void pt_await_death(struct pf_thread *t)
{
	(void)pf_host_kill(t->as->pid, SIGKILL);
	do {
		pt_set_out(t, PT_STUB);
		pt_await(t, fiber_self() != NULL);
	} while (atomic_load(&t->state) != PT_DEAD);
}

/* --- Messages --- */

void pt_post(struct ptworker *pw, struct pt_post *post, enum pt_post_kind kind)
{
	mutex_lock(&pw->post_lock);
	post->kind = kind;
	STAILQ_INSERT_TAIL(&pw->posts, post, link);
	mutex_unlock(&pw->post_lock);
	atomic_store(&pw->posted, true);
	g_pt_worker_ops.kick(pw->worker);
}

static void take_posts(struct ptworker *pw)
{
	struct pt_post *post;

	if (!atomic_load_explicit(&pw->posted, memory_order_relaxed) ||
	    !atomic_exchange(&pw->posted, false))
		return;
	for (;;) {
		mutex_lock(&pw->post_lock);
		post = STAILQ_FIRST(&pw->posts);
		if (post)
			STAILQ_REMOVE_HEAD(&pw->posts, link);
		mutex_unlock(&pw->post_lock);
		if (!post)
			return;
		if (post->kind == PT_POST_FREE_THREAD)
			pt_thread_free_here(container_of(post, struct pf_thread, post));
		else
			pt_as_destroy_here(container_of(post, struct pf_as, post));
	}
}

/* --- What workers call --- */

static void worker_start(struct worker *w, unsigned index)
{
	struct ptworker *pw = mem_zalloc(sizeof(*pw));

	BUG_ON(index >= WORKERS_MAX);
	if (!pw || !(pw->altstack = mem_pages(ALTSTACK_SIZE)))
		panic("ptrace: no memory for a worker");
	pw->worker = w;
	pw->tid = pf_host_gettid();
	lease_init(&pw->lease);
	htable_init_sure(&pw->by_tid);
	mutex_init(&pw->post_lock, RANK_LEAF);
	STAILQ_INIT(&pw->posts);
	LIST_INIT(&pw->out);
	LIST_INIT(&pw->orphans);
	if (pf_host_kick_init(pw->altstack, ALTSTACK_SIZE) < 0)
		panic("ptrace: cannot set up a worker's signal");
	*worker_data(w) = pw;
	g_workers_of_ptrace[index] = pw;
}

void pt_workers_stopped(void)
{
	for (unsigned i = 0; i < WORKERS_MAX; i++) {
		struct ptworker *pw = g_workers_of_ptrace[i];
		struct pf_thread *t;
		size_t pos = 0;

		if (!pw)
			continue;
		/* Killed by PTRACE_O_EXITKILL. With no fiber left, that is zygotes, and address
		 * spaces whose end was not awaited. A process is reaped by its leader. */
		while ((t = htable_next(&pw->by_tid, &pos)) != NULL) {
			const struct host_event ev = {.tid = t->tid, .ended = true};

			if (t->tid == t->as->pid && t->as->thread_count > 1)
				continue;
			if (t->tid == t->as->pid)
				pf_host_reap(t->tid);
			pos = 0;
			t->freed = true;
			t->as->destroyed = true;
			on_event(pw, &ev, false);
		}
		htable_fini(&pw->by_tid);
		mutex_fini(&pw->post_lock);
		mem_free(pw->altstack);
		mem_free(pw);
		g_workers_of_ptrace[i] = NULL;
	}
}

static void worker_poll(struct worker *w)
{
	struct ptworker *pw = *worker_data(w);

	take_posts(pw);
	(void)collect(pw);
}

static void worker_kick(struct worker *w)
{
	struct ptworker *pw = *worker_data(w);

	if (atomic_exchange(&pw->kicked, 1) != 0)
		return; /* who set it woke the worker already */
	switch (atomic_load(&pw->sleep)) {
	case PT_SLEEP_WAIT:
		(void)pf_host_kick(pw->tid);
		break;
	case PT_SLEEP_FUTEX:
		pf_host_futex_wake(&pw->kicked);
		break;
	default:
		break;
	}
}

void pt_kick_if_asleep(struct ptworker *pw)
{
	if (atomic_load(&pw->sleep) != PT_AWAKE)
		worker_kick(pw->worker);
}

static void worker_idle(struct worker *w)
{
	struct ptworker *pw = *worker_data(w);
	struct host_event ev;

	take_posts(pw);
	pt_place_tick(pw);
	if (unlikely(pw->sweeps != 0) && collect(pw))
		return;
	if (pw->out_count + pw->dying == 0) {
		atomic_store(&pw->sleep, PT_SLEEP_FUTEX);
		if (atomic_load(&pw->kicked) == 0)
			pf_host_futex_wait(&pw->kicked, 0);
		atomic_store(&pw->sleep, PT_AWAKE);
	} else {
		struct pf_thread *alone =
			pw->out_count == 1 && pw->dying == 0 ? LIST_FIRST(&pw->out) : NULL;
		int r;

		if (alone && !can_wait_alone(alone))
			alone = NULL;

		atomic_store(&pw->sleep, PT_SLEEP_WAIT);
		r = pf_host_wait_kickable(&pw->kicked, alone ? alone->tid : 0, &ev);
		atomic_store(&pw->sleep, PT_AWAKE);
		on_wait_result(pw, r, alone, &ev);
		if (!alone)
			(void)collect(pw);
	}
	atomic_store(&pw->kicked, 0);
	pt_place_tick(pw);
	take_posts(pw);
}

const struct worker_ops g_pt_worker_ops = {
	.start = worker_start,
	.idle = worker_idle,
	.poll = worker_poll,
	.kick = worker_kick,
};
