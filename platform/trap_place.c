/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where workers, guest threads and agents of the trap platform run.
 *
 * Theory of operation. As on the ptrace platform (ptrace_place.c) a worker that serves threads
 *which make calls often takes a *lease* on the CPU that it is on, for LEASE_MS at most, and those
 *threads are bound while it lasts. A thread that computes floats. Here there are two ways to be
 *bound:
 *
 *	SPREAD	the threads run on the other CPUs, worker and thread spin for each other: no wake-up
 *	ONE	the threads run on the worker's CPU, nobody spins: two context switches and no
 *wake-up of an idle CPU, which under a hypervisor costs several times as much
 *
 * SPREAD is right for threads whose calls are answered at once, ONE for threads that sleep in their
 * calls and wake each other. So the worker counts how many replies come without its having been
 * idle since the request, and with a CPU free for the thread (prompt), and how many of its spins
 *end with a request; either share being low, or no CPU free, makes the way ONE. Both are averages
 *over some 64 calls: a change of what the guest does is followed within a fraction of a
 *millisecond.
 *
 * The agent of an address space is bound as the thread that was bound last: on a CPU of its own it
 * would cost its guest a TLB shootdown with each change of the map. What clone makes inherits that.
 *
 * A tid that guest code can end may become a stranger's. So before each binding the host is asked
 * whether it is still a thread of that process; the host gives numbers out in turn, so a number
 *does not come back between two calls.
 *
 * Locking: all of a worker's, its threads' and their address spaces' state here is touched on that
 * worker only, but lease_over, which the ticker sets.
 */
#include <errno.h>
#include <sched.h>
#include "base/thread.h"
#include "platform/host_ptrace.h"
#include "platform/notify.h"
#include "platform/trap.h"

#define LEASE_MS 20
/* Runs without a lease after one has ended. */
#define FLOAT_RUNS 4
/* Shares are in 1024ths: below the first SPREAD ends, above the second it begins. */
#define SHARE 1024
#define PROMPT_LOW 600
#define PROMPT_HIGH 850
#define SPIN_LOW 400
/* After spinning in vain, no SPREAD for so many cycles: some 40 milliseconds. */
#define VAIN_CYCLES 100000000u

static struct {
	bool enabled;
	cpu_set_t allowed;
	_Atomic uint8_t cpus[CPU_SETSIZE]; /* leases of each CPU */
	_Atomic uint32_t leases;           /* futex word: the ticker sleeps while it is 0 */
	_Atomic uint32_t stop;
	unsigned count;
	pthread_t ticker;
} g_place;

/* --- Binding --- */

/* A binding as a number: 0 is none. */
static uint32_t bind_key(int cpu, bool spread)
{
	return 2 * (uint32_t)cpu + spread + 1;
}

static void bind_set(uint32_t key, cpu_set_t *set)
{
	const int cpu = (int)((key - 1) / 2);

	*set = g_place.allowed;
	if (key == 0)
		return;
	if ((key - 1) % 2) {
		CPU_CLR(cpu, set);
	} else {
		CPU_ZERO(set);
		CPU_SET(cpu, set);
	}
}

static void bind_thread(struct pf_as *as, pid_t tid, uint32_t key)
{
	cpu_set_t set;

	if (tid == 0 || !tr_as_enter(as))
		return;
	bind_set(key, &set);
	if (pf_host_signal_thread(as->pid, tid, 0) == 0)
		(void)pf_host_affinity_set(tid, &set);
	tr_as_leave(as);
}

static void bind_to(struct pf_thread *t, uint32_t key)
{
	if (t->bound != key) {
		bind_thread(t->as, t->tid, key);
		t->bound = key;
	}
	if (t->as->bound != key) {
		bind_thread(t->as, t->as->pid, key);
		t->as->bound = key;
	}
}

void tr_place_unbind(struct pf_thread *t)
{
	bind_to(t, 0);
}

/* --- Leases --- */

static int lease_cpu(void)
{
	const int here = pf_host_cpu();

	if (here >= 0 && here < CPU_SETSIZE && CPU_ISSET(here, &g_place.allowed) &&
	    atomic_load(&g_place.cpus[here]) == 0)
		return here;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &g_place.allowed) && atomic_load(&g_place.cpus[cpu]) == 0)
			return cpu;
	}
	return -1;
}

static void lease_begin(struct trworker *tw)
{
	const int cpu = lease_cpu();
	cpu_set_t set;

	if (cpu < 0)
		return;
	/* Counted first, so that the ticker ends it. */
	atomic_fetch_add(&g_place.cpus[cpu], 1);
	if (atomic_fetch_add(&g_place.leases, 1) == 0)
		pf_host_futex_wake(&g_place.leases);
	atomic_store(&tw->lease_cpu, cpu);
	atomic_store(&tw->lease_over, false);
	bind_set(bind_key(cpu, false), &set);
	(void)pf_host_affinity_set(0, &set);
}

static void lease_end(struct trworker *tw)
{
	const int cpu = atomic_load(&tw->lease_cpu);
	struct tr_wait *w;

	if (cpu < 0)
		return;
	atomic_fetch_sub(&g_place.cpus[cpu], 1);
	atomic_fetch_sub(&g_place.leases, 1);
	atomic_store(&tw->lease_cpu, -1);
	tw->float_runs = FLOAT_RUNS;
	(void)pf_host_affinity_set(0, &g_place.allowed);
	/* Those that do not run are looked at when they run next. */
	LIST_FOREACH (w, &tw->waits, link) {
		if (w->thread)
			bind_to(w->thread, 0);
	}
}

void tr_place_tick(struct trworker *tw)
{
	if (unlikely(atomic_load_explicit(&tw->lease_over, memory_order_relaxed))) {
		atomic_store(&tw->lease_over, false);
		lease_end(tw);
	}
}

/* --- Which way --- */

static void choose_way(struct trworker *tw)
{
	/* On notify nobody spins. */
	const bool room = !g_nt_on && atomic_load_explicit(&g_place.leases, memory_order_relaxed) <
					      g_place.count;

	if (tw->spread) {
		if (!room || tw->prompt < PROMPT_LOW)
			tw->spread = false;
	} else if (room && tw->prompt > PROMPT_HIGH && __builtin_ia32_rdtsc() >= tw->vain_until) {
		tw->spread = true;
	}
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
	return g_place.enabled && tw->spread;
}

void tr_place_before_run(struct trworker *tw, struct pf_thread *t)
{
	if (!g_place.enabled)
		return;
	tr_place_tick(tw);
	if (t->run_cycles >= TR_SHORT_RUN) {
		bind_to(t, 0);
	} else if (tw->float_runs != 0) {
		tw->float_runs--;
		bind_to(t, 0);
	} else {
		if (tw->lease_cpu < 0)
			lease_begin(tw);
		choose_way(tw);
		bind_to(t, tw->lease_cpu < 0 ? 0 : bind_key(tw->lease_cpu, tw->spread));
	}
}

/* --- Start and stop --- */

static void *ticker_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&g_place.stop)) {
		if (atomic_load(&g_place.leases) == 0) {
			pf_host_futex_wait(&g_place.leases, 0);
			continue;
		}
		pf_host_futex_wait_ms(&g_place.stop, 0, LEASE_MS);
		for (unsigned i = 0; i < worker_count(); i++) {
			struct trworker *tw = *worker_data(worker_at(i));

			if (!tw || atomic_load(&tw->lease_cpu) < 0)
				continue;
			atomic_store(&tw->lease_over, true);
			/* Who sleeps must come and end it: a bound thread may run, and without a
			 * lease we sleep too. Others see it before they sleep. */
			tr_kick_if_asleep(tw);
		}
	}
	return NULL;
}

int tr_place_cpu(struct worker *w)
{
	const struct trworker *tw = *worker_data(w);

	return atomic_load_explicit(&tw->lease_cpu, memory_order_relaxed);
}

void tr_place_worker_init(struct trworker *tw)
{
	tw->lease_cpu = -1;
	tw->spread = true;
	tw->prompt = tw->spin_hits = SHARE;
}

int tr_place_start(void)
{
	int r;

	CPU_ZERO(&g_place.allowed);
	r = pf_host_affinity_get(0, &g_place.allowed);
	if (r < 0 || CPU_COUNT(&g_place.allowed) < 2)
		return 0;
	g_place.count = (unsigned)CPU_COUNT(&g_place.allowed);
	atomic_store(&g_place.stop, 0);
	r = thread_start(&g_place.ticker, ticker_main, NULL, "moat-ticker");
	g_place.enabled = r == 0;
	return r;
}

void tr_place_stop(void)
{
	if (!g_place.enabled)
		return;
	atomic_store(&g_place.stop, 1);
	atomic_fetch_add(&g_place.leases, 1);
	pf_host_futex_wake(&g_place.leases);
	pf_host_futex_wake(&g_place.stop);
	pthread_join(g_place.ticker, NULL);
	g_place.enabled = false;
	atomic_store(&g_place.leases, 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		atomic_store(&g_place.cpus[cpu], 0);
}
