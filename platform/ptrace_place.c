/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where workers and their tracees run.
 *
 * Theory of operation. A trap is a hand-over: the tracee stops, its worker runs, the tracee goes
 * on. On one CPU that is two context switches; over two CPUs it is two wake-ups of an idle CPU,
 * which under a hypervisor cost several times as much, and that is what the host's scheduler
 * chooses whenever a CPU is idle. So a worker takes a *lease* (lease.h) on the CPU that it is on:
 * while it lasts, the worker and those of its threads that trap often (a short average time between
 * traps) are bound to that CPU. A thread that computes floats. A thread that stops trapping is out
 * of its binding after one tick at most: the ticker kicks the worker, which unbinds what is out.
 */
#include <errno.h>
#include <sched.h>
#include "platform/ptrace.h"

/* Cycles between traps below which a thread is bound; some 70 microseconds. */
#define SHORT_RUN 200000u

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
		(void)pf_host_affinity_set(t->tid, lease_cpus());
	t->bound_cpu = -1;
}

void pt_place_tick(struct ptworker *pw)
{
	struct pf_thread *t;

	if (!lease_is_over(&pw->lease) || !lease_give_back(&pw->lease))
		return;
	(void)pf_host_affinity_set(pw->tid, lease_cpus());
	/* Those that are not out are looked at when they run next. */
	LIST_FOREACH (t, &pw->out, out_link)
		unbind(t);
}

void pt_place_before_run(struct pf_thread *t)
{
	struct ptworker *pw = t->worker;

	if (!leases_enabled())
		return;
	pt_place_tick(pw);
	if (t->run_cycles >= SHORT_RUN || !lease_may_take(&pw->lease)) {
		unbind(t);
	} else {
		int cpu = pw->lease.cpu;

		if (cpu < 0 && lease_take(&pw->lease)) {
			cpu = pw->lease.cpu;
			(void)bind_to(pw->tid, cpu);
		}
		if (cpu < 0)
			unbind(t);
		else if (t->bound_cpu != cpu && bind_to(t->tid, cpu) == 0)
			t->bound_cpu = cpu;
	}
	t->run_start = __builtin_ia32_rdtsc();
}

void pt_place_after_run(struct pf_thread *t)
{
	const uint64_t cycles = __builtin_ia32_rdtsc() - t->run_start;

	/* A moving average over some eight runs. One long run counts for at most that many. */
	t->run_cycles += (uint32_t)(MIN(cycles, (uint64_t)8 * SHORT_RUN) / 8) - t->run_cycles / 8;
}

static struct lease *lease_of(struct worker *w)
{
	struct ptworker *pw = *worker_data(w);

	return pw ? &pw->lease : NULL;
}

static void kick(struct worker *w)
{
	pt_kick_if_asleep(*worker_data(w));
}

void pt_place_start(void)
{
	leases_start(lease_of, kick);
}

void pt_place_stop(void)
{
	leases_stop();
}
