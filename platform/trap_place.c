/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where workers, guest threads and agents of the trap platform run.
 *
 * Theory of operation. As on the ptrace platform (ptrace_place.c) a worker that serves threads
 * which make calls often takes a *lease* (lease.h) on the CPU that it is on, and those threads are
 * bound while it lasts. A thread that computes floats. Here there are two ways to be bound:
 *
 * - SPREAD: the threads run on the other CPUs, worker and thread spin for each other: no wake-up.
 * - ONE: the threads run on the worker's CPU, nobody spins: two context switches and no wake-up of
 *   an idle CPU, which under a hypervisor costs several times as much.
 *
 * SPREAD is right for threads whose calls are answered at once, ONE for threads that sleep in their
 * calls and wake each other. So the worker counts how many replies come without its having been
 * idle since the request, and with a CPU free for the thread (prompt), and how many of its spins
 * end with a request; either share being low, or no CPU free, makes the way ONE. Both are averages
 * over some 64 calls: a change of what the guest does is followed within a fraction of a
 * millisecond.
 *
 * A parent and the child that it has just forked are two who run, take turns and wake each other:
 * on two CPUs neither they nor the worker can spin, and each call would wake an idle CPU. So there
 * a fork makes the way ONE for a moment, until the child executes a program; and the dead child's
 * memory is freed meanwhile on the CPU that nobody is bound to (tr_place_away). *Measured*: 1,000
 * forks of bash take a seventh less.
 *
 * The agent of an address space is bound as the thread that was bound last: on a CPU of its own it
 * would cost its guest a TLB shootdown with each change of the map. What clone makes inherits that.
 *
 * A tid that guest code can end may become a stranger's. So before each binding the host is asked
 * whether it is still a thread of that process; the host gives numbers out in turn, so a number
 * does not come back between two calls.
 *
 * Locking: all of a worker's, its threads' and their address spaces' state here is touched on that
 * worker only.
 */
#include <errno.h>
#include <sched.h>
#include "platform/host_ptrace.h"
#include "platform/notify.h"
#include "platform/trap.h"

/* Shares are in 1024ths: below the first SPREAD ends, above the second it begins. */
#define SHARE 1024
#define PROMPT_LOW 600
#define PROMPT_HIGH 850
#define SPIN_LOW 400
/* After spinning in vain, no SPREAD for so many cycles: some 40 milliseconds. */
#define VAIN_CYCLES 100000000u
/* After a fork, no SPREAD for so many: some two milliseconds. Not where there are so many CPUs: one
 * each for the worker, the parent and the child. */
#define FORK_CYCLES 5000000u
#define FORK_CPUS 3

/* --- Binding --- */

/* A binding as a number: 0 is none. */
static uint32_t bind_key(int cpu, bool spread)
{
	return 2 * (uint32_t)cpu + spread + 1;
}

static void bind_set(uint32_t key, cpu_set_t *set)
{
	const int cpu = (int)((key - 1) / 2);

	*set = *lease_cpus();
	if (key == 0)
		return;
	if ((key - 1) % 2) {
		CPU_CLR(cpu, set);
	} else {
		CPU_ZERO(set);
		CPU_SET(cpu, set);
	}
}

/* @sure: it has run nothing of the guest's yet, and so has not ended. */
static void bind_thread(struct pf_as *as, pid_t tid, bool sure, uint32_t key)
{
	cpu_set_t set;

	if (tid == 0 || !tr_as_enter(as))
		return;
	bind_set(key, &set);
	/* The first thread's stays taken until the process is reaped. */
	if (sure || tid == as->pid || pf_host_signal_thread(as->pid, tid, 0) == 0)
		(void)pf_host_affinity_set(tid, &set);
	tr_as_leave(as);
}

static void bind_to(struct pf_thread *t, uint32_t key)
{
	if (t->bound != key && t->tid != 0) {
		bind_thread(t->as, t->tid, t->run_seq <= 1, key);
		t->bound = key;
	}
	if (t->as->bound != key) {
		bind_thread(t->as, t->as->agent_tid, t->as->agent_tid == t->as->pid, key);
		t->as->bound = key;
	}
}

void tr_place_agent_here(struct pf_as *as)
{
	struct trworker *tw = *worker_data(worker_self());
	const int cpu = tw->lease.cpu;

	if (!leases_enabled() || cpu < 0 || tw->spread || as->bound == bind_key(cpu, false))
		return;
	as->bound = bind_key(cpu, false);
	bind_thread(as, as->pid, true, as->bound);
}

void tr_place_away(struct pf_thread *t)
{
	const int cpu = worker_self() ? tr_place_cpu(worker_self()) : -1;

	bind_to(t, cpu < 0 || lease_cpu_count() < 2 ? 0 : bind_key(cpu, true));
}

/* --- Leases --- */

static void lease_begin(struct trworker *tw)
{
	cpu_set_t set;

	if (!lease_take(&tw->lease))
		return;
	bind_set(bind_key(tw->lease.cpu, false), &set);
	(void)pf_host_affinity_set(0, &set);
}

void tr_place_tick(struct trworker *tw)
{
	struct tr_wait *w;

	if (!lease_is_over(&tw->lease) || !lease_give_back(&tw->lease))
		return;
	(void)pf_host_affinity_set(0, lease_cpus());
	/* Those that do not run are looked at when they run next. */
	LIST_FOREACH (w, &tw->waits, link) {
		if (w->thread)
			bind_to(w->thread, 0);
	}
}

/* --- Which way --- */

static void choose_way(struct trworker *tw)
{
	/* On notify nobody spins. */
	const bool room = !g_nt_on && lease_count() < lease_cpu_count();

	if (tw->spread) {
		if (!room || tw->prompt < PROMPT_LOW)
			tw->spread = false;
	} else if (room && tw->prompt > PROMPT_HIGH &&
		   __builtin_ia32_rdtsc() >= MAX(tw->vain_until, tw->fork_until)) {
		tw->spread = true;
	}
}

/* The caller's worker, where a fork is to make the way ONE; or NULL. */
static struct trworker *forking_worker(void)
{
	if (!worker_self() || lease_cpu_count() >= FORK_CPUS)
		return NULL;
	return *worker_data(worker_self());
}

void tr_place_forks(void)
{
	struct trworker *tw = forking_worker();

	if (!tw)
		return;
	tw->spread = false;
	tw->fork_until = __builtin_ia32_rdtsc() + FORK_CYCLES;
}

void tr_place_executes(void)
{
	struct trworker *tw = forking_worker();

	if (tw)
		tw->fork_until = 0;
}

void tr_place_note_reply(struct trworker *tw, bool prompt)
{
	tw->prompt += (prompt ? SHARE / 64 : 0) - tw->prompt / 64;
}

void tr_place_note_spin(struct trworker *tw, bool hit)
{
	tw->spin_hits += (hit ? SHARE / 32 : 0) - tw->spin_hits / 32;
	if (tw->spin_hits < SPIN_LOW) {
		tw->spin_hits = SHARE;
		tw->spread = false;
		tw->vain_until = __builtin_ia32_rdtsc() + VAIN_CYCLES;
	}
}

bool tr_place_spreads(const struct trworker *tw)
{
	return leases_enabled() && tw->spread;
}

void tr_place_before_run(struct trworker *tw, struct pf_thread *t)
{
	if (!leases_enabled())
		return;
	tr_place_tick(tw);
	if (t->run_cycles >= TR_SHORT_RUN || !lease_may_take(&tw->lease)) {
		bind_to(t, 0);
	} else {
		if (tw->lease.cpu < 0)
			lease_begin(tw);
		choose_way(tw);
		bind_to(t, tw->lease.cpu < 0 ? 0 : bind_key(tw->lease.cpu, tw->spread));
	}
}

/* --- Start and stop --- */

int tr_place_cpu(struct worker *w)
{
	const struct trworker *tw = *worker_data(w);

	return atomic_load_explicit(&tw->lease.cpu, memory_order_relaxed);
}

void tr_place_worker_init(struct trworker *tw)
{
	lease_init(&tw->lease);
	tw->spread = true;
	tw->prompt = tw->spin_hits = SHARE;
}

static struct lease *lease_of(struct worker *w)
{
	struct trworker *tw = *worker_data(w);

	return tw ? &tw->lease : NULL;
}

static void kick(struct worker *w)
{
	tr_kick_if_asleep(*worker_data(w));
}

void tr_place_start(void)
{
	leases_start(lease_of, kick);
}

void tr_place_stop(void)
{
	leases_stop();
}
