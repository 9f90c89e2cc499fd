/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders to the agents, and their reports.
 *
 * Theory of operation: the agent of an address space sleeps on the order page's sequence number.
 * An order is written there, the number raised, the agent woken; it runs the order and reports by
 * seeking a descriptor of which the sentry holds a duplicate. No other thread of its process can
 * do that, so a report with the order's number is true; the bell in the first area, which any guest
 * thread could ring, only says that it is time to look.
 *
 * Who wakes the agent. If the guest thread on whose behalf the order is given spins for its reply,
 * it is told to: from one thread of an address space to another on the same CPU is the shortest way
 * (hop). The agent wakes that thread when it is done, and the thread posts, so that the sentry
 * looks at the report. If the guest thread sleeps, the sentry wakes the agent itself.
 *
 * Deferred orders: most calls that change the map end with that change, and it cannot fail (below).
 * Then tr_map only fills the page and returns; the order is given with the thread's next reply,
 * together with others that the same call has left, and the thread, which the agent wakes, goes
 * straight on. The report is looked at before the page is filled again. Whoever wants the page
 * before the reply, and a copy made by the thread's own fiber, has the order carried out first.
 * Other threads can not tell: to them the call has not returned yet.
 *
 * What cannot fail: private anonymous memory, unmapping, and protections of private anonymous
 * memory are refused by the host only when it counts too many mappings (we keep an upper bound of
 * theirs, and count them anew when it gets near) or when memory is limited by amount instead of by
 * use (then nothing is deferred). If the host refuses all the same, it is out of memory; the agent
 * ends its process then, as the host's own killer would.
 *
 * The thread itself unmaps memory, maps private anonymous memory that can be read and written, or
 * changes what private memory is for, but for execution, when that is all that is left for its
 * reply, no other thread shares its address space (which could map something there meanwhile), and
 * it is no more than TS_OWN_MAX: no agent, no hand-over. Guest threads may make these calls at any
 * time (trap_rules.c), and may leave them out; why that harms nobody but their own process stands
 * in trap_space.c. What others rely on only the agent does, before the call's reply
 * (MAP_OPF_TAKES_SHARED).
 *
 * Agents made late. A guest's child, whose first thread is the guest's own (stub_trap/entry.S), has
 * no agent until there is an order: nearly all who execute something never need one. Then the
 * thread on whose behalf it is given makes the agent, and waits for it as when it hops. That a
 * hostile one does not, or makes two, harms its process only, which does not outlive it: what makes
 * no agent is killed when patience is over, what comes second ends the process itself. Where each
 * guest thread has a seccomp program of its own there are no such agents: they would have it, too.
 *
 * Locking: as->orders_lock is held from the order until its report, but for deferred ones.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "base/clock.h"
#include "platform/host_ptrace.h"
#include "platform/host_trap.h"
#include "platform/stub_files.h"
#include "platform/order.h"
#include "platform/trap.h"
#include "platform/trap_site.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* After so long we look for ourselves. */
#define BELL_NS UINT64_C(50000000)

static struct ts_area *first_area(struct pf_as *as)
{
	return tr_area(as->areas[0].slot);
}

/* --- Reports --- */

static bool report_is(const struct pf_as *as, uint32_t seq, struct tr_report *report)
{
	const uint64_t v = (uint64_t)pf_host_offset_get(as->result_fd);

	if (v >> TS_REPORT_SEQ_SHIFT != (seq & TS_REPORT_SEQ_MASK))
		return false;
	report->done = v >> TS_REPORT_DONE_SHIFT & 0xff;
	report->value = (uint32_t)v;
	return true;
}

bool tr_agent_works(const struct pf_as *as)
{
	struct tr_report report;

	if (!as->unread || report_is(as, as->seq, &report))
		return false;
	/* A guest thread that was told to wake it need not have done so. */
	pf_host_futex_wake_shared(&as->orders->seq);
	return true;
}

/* Has the agent of @as told anything, ever? */
static bool agent_heard(struct pf_as *as)
{
	return pf_host_offset_get(as->result_fd) != TR_NO_REPORT;
}

/* Waits for the report of order @seq. 0 or -ESRCH. @patient: NULL, or see struct tr_wait. */
static int await_report(struct pf_as *as, uint32_t seq, const _Atomic bool *patient,
			struct tr_report *report)
{
	struct tr_wait w = {
		.word = &first_area(as)->agent,
		.dead = &as->dead,
		.soon = !patient,
		.patient = patient,
	};
	const uint64_t over = as->alone ? clock_mono_ns() + TR_PATIENCE_NS : DEADLINE_NONE;

	/* For ever, if need be: a guest cannot keep an agent from its work, only a slow disk can.
	 * But it can swallow the bell, or have been told to wake the agent and not have done it; or
	 * to make the agent. */
	for (;;) {
		if (tr_await(&w, clock_mono_ns() + BELL_NS) < 0)
			pf_host_futex_wake_shared(&as->orders->seq);
		/* First the bell, then the report: what is reported later rings again. */
		atomic_store(w.word, TS_GUEST);
		if (report_is(as, seq, report))
			return 0;
		/* It may have told, and died then. */
		if (atomic_load(&as->dead))
			return report_is(as, seq, report) ? 0 : -ESRCH;
		if (as->alone && clock_mono_ns() >= over && !agent_heard(as))
			tr_as_kill(as);
	}
}

int tr_settle_locked(struct pf_as *as)
{
	struct tr_report report;

	if (as->settled)
		return atomic_load(&as->dead) ? -ESRCH : 0;
	if (!report_is(as, 0, &report) && await_report(as, 0, NULL, &report) < 0)
		return -ESRCH;
	if (as->first) {
		if (report.done != TS_REPORT_PID) {
			log_error("trap: a guest thread cannot be made: %s",
				  err_text((int)report.value));
			tr_as_kill(as);
			return -ESRCH;
		}
		as->first->tid = (pid_t)report.value;
		as->first = NULL;
	}
	as->settled = true;
	return 0;
}

/* @count orders, of which @added are new. */
static void order_fill(struct pf_as *as, uint32_t op, size_t count, size_t added, uint64_t arg0,
		       uint64_t arg1)
{
	struct ts_orders *o = as->orders;

	o->op = op;
	o->size = (uint32_t)(count * sizeof(struct stub_order));
	o->arg0 = arg0;
	o->arg1 = arg1;
	as->map_bound += 2 * (uint32_t)added;
}

/* The order is given as soon as the agent wakes. @release: the thread that the agent lets go on. */
static void order_give(struct pf_as *as, struct pf_thread *release, uint32_t flags)
{
	struct ts_orders *o = as->orders;

	o->release = release ? release->area_addr : 0;
	o->flags = flags;
	if (release)
		atomic_store(&release->area->hop, TS_HOP_PENDING);
	atomic_store(&first_area(as)->agent, TS_GUEST);
	atomic_store(&o->seq, ++as->seq);
	as->unread = true;
}

int tr_as_gone(void)
{
	atomic_store(&g_pf_killed, true);
	return -ENOMEM;
}

static int read_report(struct pf_as *as, struct tr_report *report)
{
	as->unread = false;
	if (report_is(as, as->seq, report))
		return 0;
	return await_report(as, as->seq, NULL, report);
}

int tr_orders_begin_locked(struct pf_as *as)
{
	struct tr_report report;

	if (tr_settle_locked(as) < 0)
		return -ESRCH;
	if (atomic_load(&as->deferred)) {
		atomic_store(&as->deferred, NULL);
		order_give(as, NULL, TS_OF_SURE);
		pf_host_futex_wake_shared(&as->orders->seq);
	}
	return as->unread ? read_report(as, &report) : 0;
}

/* Does @t spin for its reply? Then it is awake, and its CPU is there for the agent. (On one CPU
 * with us it only has not come to sleep yet.) */
static bool may_hop(struct pf_thread *t)
{
	return t && t->has_run && !t->noted && atomic_load(&t->state) == TR_STOPPED &&
	       atomic_load(&t->area->state) == TS_POSTED && tr_apart();
}

/* @how: TS_CMD_RING, or TS_CMD_AGENT. 0, or -ESRCH. */
static int order_by_hop(struct pf_as *as, struct pf_thread *by, uint32_t how,
			struct tr_report *report)
{
	int r;

	order_give(as, by, 0);
	tr_reply(by, how | TS_CMD_HOP | TS_CMD_AGAIN);
	do {
		r = tr_await_post(by, true, clock_mono_ns() + TR_PATIENCE_NS);
		if (r != -ETIMEDOUT)
			break;
		/* Only the agent may take long: for a slow disk. */
		if (report_is(as, as->seq, report) || !agent_heard(as)) {
			tr_as_kill(as);
			r = tr_await_post(by, true, DEADLINE_NONE);
		}
		/* Perhaps it was never woken. */
		pf_host_futex_wake_shared(&as->orders->seq);
	} while (r == -ETIMEDOUT);
	/* The thread may be gone and the agent not: whoever then woke it would have it do what
	 * nobody expects any more, at places and with descriptors that others have by then. */
	if (r < 0)
		tr_as_kill(as);
	return read_report(as, report);
}

/* The same, and @by makes the agent first. */
static int order_by_new_agent(struct pf_as *as, struct pf_thread *by, struct tr_report *report)
	REQUIRES(as->orders_lock)
{
	int r;

	if (!by || atomic_load(&by->state) != TR_STOPPED)
		return -ESRCH;
	as->orders->alone = TS_ALONE | TS_SPAWN;
	r = order_by_hop(as, by, TS_CMD_AGENT, report);
	if (r < 0)
		return r;
	as->orders->alone = TS_ALONE;
	as->has_agent = true;
	as->agent_tid = (pid_t)__atomic_load_n(&first_area(as)->agent_tid, __ATOMIC_RELAXED);
	as->bound = by->bound;
	return 0;
}

int tr_order_locked(struct pf_as *as, struct pf_thread *by, uint32_t op, size_t count,
		    uint64_t arg0, uint64_t arg1, struct tr_report *report)
{
	order_fill(as, op, count, count, arg0, arg1);
	if (unlikely(!as->has_agent))
		return order_by_new_agent(as, by, report);
	if (may_hop(by))
		return order_by_hop(as, by, TS_CMD_RING, report);
	order_give(as, NULL, 0);
	pf_host_futex_wake_shared(&as->orders->seq);
	as->unread = false;
	return await_report(as, as->seq, NULL, report);
}

/* --- Orders that have time --- */

/* Of the agent that is to be woken; the pages are there until the platform stops. */
static _Atomic(_Atomic uint32_t *) g_ring;

int tr_order_later_locked(struct pf_as *as, uint32_t op, uint64_t arg0, uint64_t arg1,
			  const _Atomic bool *patient, struct tr_report *report)
{
	order_fill(as, op, 0, 0, arg0, arg1);
	order_give(as, NULL, 0);
	atomic_store(&g_ring, &as->orders->seq);
	/* Who cleared it before that has rung for nothing. */
	if (!atomic_load(patient))
		tr_order_ring();
	as->unread = false;
	return await_report(as, as->seq, patient, report);
}

void tr_order_ring(void)
{
	_Atomic uint32_t *seq;

	if (likely(!atomic_load_explicit(&g_ring, memory_order_relaxed)))
		return;
	seq = atomic_exchange(&g_ring, NULL);
	if (seq)
		pf_host_futex_wake_shared(seq);
}

/* --- Deferred orders --- */

void tr_reply_deferred(struct pf_thread *t, uint32_t cmd)
{
	struct pf_as *as = t->as;
	uint32_t expect = TS_WAITS;

	fmutex_lock(&as->orders_lock);
	/* Not before: who changes text holds the lock and waits for those that run. */
	as->running++;
	if (atomic_load(&as->deferred) != t) {
		fmutex_unlock(&as->orders_lock);
		tr_reply(t, cmd);
		return;
	}
	atomic_store(&as->deferred, NULL);
	if (as->own && atomic_load(&as->threads) == 1) {
		const struct stub_order *o = &as->orders->list[0];

		t->area->atomic_addr = o->arg[0];
		t->area->atomic_arg = (uint32_t)o->arg[1];
		t->area->atomic_op = (uint32_t)o->arg[2];
		cmd |= o->nr == SYS_munmap     ? TS_CMD_UNMAP
		       : o->nr == SYS_mprotect ? TS_CMD_PROTECT
					       : TS_CMD_MAP;
		fmutex_unlock(&as->orders_lock);
		tr_reply(t, cmd);
		return;
	}
	tr_replied(t);
	t->area->spin = tr_guest_spin();
	t->area->cmd = cmd | TS_CMD_HOP;
	t->area->rax = t->rax;
	if (atomic_load(&t->area->state) != TS_POSTED) {
		/* It sleeps: the agent will wake it. */
		if (unlikely(g_pf_stamps))
			t->replied = __builtin_ia32_rdtsc();
		order_give(as, t, TS_OF_SURE | TS_OF_WAKE);
		if (atomic_compare_exchange_strong(&t->area->state, &expect, TS_GUEST)) {
			pf_host_futex_wake_shared(&as->orders->seq);
			fmutex_unlock(&as->orders_lock);
			return;
		}
	} else {
		order_give(as, t, TS_OF_SURE);
	}
	if (!tr_apart()) {
		pf_host_futex_wake_shared(&as->orders->seq);
		tr_reply(t, cmd | TS_CMD_HOP);
	} else {
		tr_reply(t, cmd | TS_CMD_RING | TS_CMD_HOP);
	}
	fmutex_unlock(&as->orders_lock);
}

void tr_flush(struct pf_as *as)
{
	struct pf_thread *t = atomic_load_explicit(&as->deferred, memory_order_relaxed);

	/* Of the others' deferred orders nobody can know yet. */
	if (likely(!t) || as->deferred_by != fiber_self())
		return;
	fmutex_lock(&as->orders_lock);
	if (tr_orders_begin_locked(as) < 0)
		atomic_store(&as->deferred, NULL); /* dead */
	fmutex_unlock(&as->orders_lock);
}

/* --- Maps --- */

/* --- What cannot fail --- */

/* Below this the host's memory is not in question. */
#define SURE_SIZE (UINT64_C(64) << 20)
/* Mappings of the stub itself, and those that a bound may miss. */
#define MAPS_SPARE 4096u

static uint32_t g_maps_max; /* of the host, less what we spare; 0: nothing is sure */

void tr_agent_start(void)
{
	const uint64_t count = pf_host_map_count_max();

	g_maps_max = pf_host_memory_counted() || count < 2 * MAPS_SPARE
			     ? 0
			     : (uint32_t)MIN(count, (uint64_t)1 << 30) - MAPS_SPARE;
}

static bool cannot_fail(const struct map_op *op)
{
	/* Nor can what waits for the guest's thread to wake the agent be relied on. */
	if (op->flags & MAP_OPF_TAKES_SHARED)
		return false;
	switch (op->kind) {
	case MAP_OP_ANON:
		return !(op->flags & (MAP_OPF_SHARED | MAP_OPF_POPULATE)) && op->size <= SURE_SIZE;
	case MAP_OP_UNMAP:
		return true;
	case MAP_OP_PROTECT:
	case MAP_OP_ADVISE:
		return (op->flags & MAP_OPF_SURE) != 0;
	default:
		return false;
	}
}

static bool bound_ok(struct pf_as *as)
{
	size_t count;

	if (likely(as->map_bound < g_maps_max))
		return true;
	if (g_maps_max == 0 || as->map_bound < as->map_recount)
		return false;
	count = tr_map_count(as);
	as->map_bound = (uint32_t)MIN(count, (size_t)1 << 30);
	/* At least so many operations until the next count. */
	as->map_recount = MAX(g_maps_max, as->map_bound + MAPS_SPARE);
	return as->map_bound < g_maps_max;
}

/* --- What guest threads do themselves --- */

/* @op, which cannot fail, is all that is left for the thread's reply; may it carry that out? */
static bool may_do_itself(const struct pf_as *as, const struct map_op *op)
{
	if (op->size > TS_OWN_MAX || op->addr >= PF_GUEST_LIMIT - TS_OWN_MAX ||
	    atomic_load(&as->threads) != 1)
		return false;
	switch (op->kind) {
	case MAP_OP_UNMAP:
		return true;
	case MAP_OP_ANON:
		return op->flags == 0 && (op->prot | PROT_READ) == (PROT_READ | PROT_WRITE);
	case MAP_OP_PROTECT:
		return (op->prot & ~(uint32_t)(PROT_READ | PROT_WRITE)) == 0;
	default:
		return false;
	}
}

/* One page of orders. Number of ops done; *@error. */
static size_t map_some(struct pf_thread *t, struct map_op *ops, size_t count, int *error)
{
	struct pf_as *as = t->as;
	struct pt_file *files[TS_ORDERS_MAX];
	struct tr_report report = {0};
	size_t built;
	int build_error = 0;

	*error = 0;
	if (count > 1)
		pt_files_bring(ops, count);
	fmutex_lock(&as->orders_lock);
	if (tr_orders_begin_locked(as) < 0) {
		fmutex_unlock(&as->orders_lock);
		*error = tr_as_gone();
		return 0;
	}
	for (built = 0; built < count; built++) {
		build_error = order_from_op(&as->orders->list[built], &ops[built], &files[built]);
		if (build_error < 0)
			break;
		tr_rewrite_before_op_locked(as, &ops[built]);
	}
	if (built != 0 && tr_order_locked(as, t, TS_OP_BATCH, built, 0, 0, &report) < 0)
		*error = tr_as_gone();
	else if (report.value != 0)
		*error = -(int)report.value;
	fmutex_unlock(&as->orders_lock);
	for (size_t i = 0; i < built; i++) {
		if (files[i])
			pt_file_put(files[i]);
	}
	if (*error == 0)
		*error = build_error;
	return MIN(report.done, built);
}

/* How many orders are left for the next reply already, by this very call; -errno. */
static int orders_left_locked(struct pf_as *as, struct pf_thread *t) REQUIRES(as->orders_lock)
{
	/* The agent is made by an order that somebody waits for. */
	if (!as->has_agent)
		return -EAGAIN;
	if (atomic_load(&as->deferred) == t && as->deferred_by == fiber_self() &&
	    as->deferred_count < TS_ORDERS_MAX)
		return (int)as->deferred_count;
	return tr_orders_begin_locked(as);
}

/* Leaves @op to be carried out with the thread's next reply, behind what is left for it already.
 * False: it must be done now. */
static bool map_later(struct pf_thread *t, const struct map_op *op)
{
	struct pf_as *as = t->as;
	struct stub_order order;
	struct pt_file *none;
	bool later = false;
	int n;

	if (!cannot_fail(op) || !t->has_run || t->noted || !order_range_ok(op->addr, op->size))
		return false;
	fmutex_lock(&as->orders_lock);
	n = orders_left_locked(as, t);
	if (n >= 0 && bound_ok(as) && order_from_op(&order, op, &none) == 0) {
		as->own = n == 0 && may_do_itself(as, op);
		as->orders->list[n] = order;
		tr_rewrite_before_op_locked(as, op);
		order_fill(as, TS_OP_BATCH, (size_t)n + 1, 1, 0, 0);
		as->deferred_by = fiber_self();
		as->deferred_count = (unsigned)n + 1;
		atomic_store(&as->deferred, t);
		later = true;
	}
	fmutex_unlock(&as->orders_lock);
	return later;
}

int tr_map(struct pf_thread *t, struct map_op *ops, size_t count)
{
	size_t done = 0;
	int error = 0;

	if (count == 1 && map_later(t, &ops[0])) {
		ops[0].result = 0;
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		ops[i].result = -ECANCELED;
	while (done < count && error == 0) {
		size_t n =
			map_some(t, ops + done, MIN(count - done, (size_t)TS_ORDERS_MAX), &error);

		for (size_t i = 0; i < n; i++)
			ops[done + i].result = 0;
		done += n;
	}
	if (error < 0)
		ops[done].result = error;
	return error;
}
