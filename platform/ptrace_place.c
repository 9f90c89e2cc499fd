/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where workers and their tracees run.
 *
 * Theory of operation. A trap is a hand-over: the tracee stops, its worker runs, the tracee goes
 * on. On one CPU that is two context switches; over two CPUs it is two wake-ups of an idle CPU,
 * which under a hypervisor cost several times as much, and that is what the host's scheduler
 * chooses whenever a CPU is idle. So a worker takes a *lease* on the CPU that it is on: while it
 * lasts, the worker and those of its threads that trap often (a short average time between traps)
 * are bound to that CPU. A thread that computes floats.
 *
 * A binding is wrong as soon as the CPU has other work to do while another is idle, so leases are
 * short: a ticker thread ends them every LEASE_MS; then everybody floats for some runs, the host's
 * scheduler puts the worker where there is room, and the next lease is for that place. A thread
 * that stops trapping is out of its binding after one tick at most: the ticker kicks the worker,
 * which unbinds what is out. While nobody holds a lease the ticker sleeps. Two workers do not lease
 * one CPU if another is to be had.
 *
 * Locking: leases are the worker's own; ptworker.lease_over is set by the ticker. g_place.cpus
 * counts leases per CPU (atomic).
 */
#include <errno.h>
#include <sched.h>
#include "base/thread.h"
#include "platform/ptrace.h"

#define LEASE_MS 20
/* Runs without a lease after one has ended. */
#define FLOAT_RUNS 4
/* Cycles between traps below which a thread is bound; some 70 microseconds. */
#define SHORT_RUN 200000u

static struct {
	bool enabled;
	cpu_set_t allowed;
	_Atomic uint8_t cpus[CPU_SETSIZE]; /* leases of each CPU */
	_Atomic uint32_t leases;           /* futex word: the ticker sleeps while it is 0 */
	_Atomic uint32_t stop;
	pthread_t ticker;
} g_place;

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

static int bind_to(pid_t tid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return pf_host_affinity_set(tid, &set);
}

static void unbind(struct pf_thread *t)
{
	if (t->bound_cpu >= 0)
		(void)pf_host_affinity_set(t->tid, &g_place.allowed);
	t->bound_cpu = -1;
}

static void lease_begin(struct ptworker *pw)
{
	const int cpu = lease_cpu();

	if (cpu < 0)
		return;
	/* Counted first, so that the ticker ends it. */
	atomic_fetch_add(&g_place.cpus[cpu], 1);
	if (atomic_fetch_add(&g_place.leases, 1) == 0)
		pf_host_futex_wake(&g_place.leases);
	pw->lease_cpu = cpu;
	atomic_store(&pw->lease_over, false);
	(void)bind_to(pw->tid, cpu);
}

static void lease_end(struct ptworker *pw)
{
	struct pf_thread *t;

	if (pw->lease_cpu < 0)
		return;
	atomic_fetch_sub(&g_place.cpus[pw->lease_cpu], 1);
	atomic_fetch_sub(&g_place.leases, 1);
	pw->lease_cpu = -1;
	pw->float_runs = FLOAT_RUNS;
	(void)pf_host_affinity_set(pw->tid, &g_place.allowed);
	/* Those that are not out are looked at when they run next. */
	LIST_FOREACH (t, &pw->out, out_link)
		unbind(t);
}

void pt_place_tick(struct ptworker *pw)
{
	if (unlikely(atomic_load_explicit(&pw->lease_over, memory_order_relaxed))) {
		atomic_store(&pw->lease_over, false);
		lease_end(pw);
	}
}

void pt_place_before_run(struct pf_thread *t)
{
	struct ptworker *pw = t->worker;

	if (!g_place.enabled)
		return;
	pt_place_tick(pw);
	if (t->run_cycles >= SHORT_RUN) {
		unbind(t);
	} else if (pw->float_runs != 0) {
		pw->float_runs--;
		unbind(t);
	} else {
		if (pw->lease_cpu < 0)
			lease_begin(pw);
		if (pw->lease_cpu < 0)
			unbind(t);
		else if (t->bound_cpu != pw->lease_cpu && bind_to(t->tid, pw->lease_cpu) == 0)
			t->bound_cpu = pw->lease_cpu;
	}
	t->run_start = __builtin_ia32_rdtsc();
}

void pt_place_after_run(struct pf_thread *t)
{
	const uint64_t cycles = __builtin_ia32_rdtsc() - t->run_start;

	/* A moving average over some eight runs. One long run counts for at most that many. */
	t->run_cycles += (uint32_t)(MIN(cycles, (uint64_t)8 * SHORT_RUN) / 8) - t->run_cycles / 8;
}

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
			struct ptworker *pw = *worker_data(worker_at(i));

			if (!pw || atomic_load(&pw->lease_cpu) < 0)
				continue;
			atomic_store(&pw->lease_over, true);
			/* Who sleeps must come and end it: a bound thread may be out, and without a
			 * lease we sleep too. Others see it before they sleep. */
			pt_kick_if_asleep(pw);
		}
	}
	return NULL;
}

int pt_place_start(void)
{
	int r;

	CPU_ZERO(&g_place.allowed);
	r = pf_host_affinity_get(0, &g_place.allowed);
	if (r < 0 || CPU_COUNT(&g_place.allowed) < 2)
		return 0;
	atomic_store(&g_place.stop, 0);
	r = thread_start(&g_place.ticker, ticker_main, NULL, "moat-ticker");
	g_place.enabled = r == 0;
	return r;
}

void pt_place_stop(void)
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
