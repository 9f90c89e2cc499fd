/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: a worker's claim on the CPU that it is on, for a moment.
 *
 * Theory of operation: a worker whose threads make calls often binds itself and them (which, and
 * how, its platform decides: ptrace_place.c, trap_place.c). A binding is wrong as soon as the CPU
 * has other work to do while another is idle, so leases are short: a ticker thread ends them every
 * LEASE_MS; then everybody floats for some runs, the host's scheduler puts the worker where there
 * is room, and the next lease is for that place. While nobody holds a lease the ticker sleeps. Two
 * workers do not lease one CPU if another is to be had.
 *
 * The first program's calls are served under a lease from the first on (leases_begin_early): left
 * alone, the host has its thread and the worker share a CPU in one start of four, where each that
 * spins keeps the other from running. The thread that is the ticker is made some milliseconds later
 * (leases_settle), if the program still runs.
 *
 * One platform at a time. Locking: a lease is its worker's own, but for @over, which the ticker
 * sets, and @cpu, which others may read.
 */
#ifndef MOAT_PLATFORM_LEASE_H
#define MOAT_PLATFORM_LEASE_H

#include <sched.h>
#include "base/fiber.h"
#include "base/types.h"

struct lease {
	_Atomic int cpu;     /* -1: none */
	_Atomic bool over;   /* it is to be given back: lease_is_over() */
	unsigned float_runs; /* runs to come without a lease */
};

void lease_init(struct lease *l);
/* Takes the CPU that the calling worker is on, or another, if one is free. True: it has one. */
bool lease_take(struct lease *l);
/* True: there was one. */
bool lease_give_back(struct lease *l);
/* Has the ticker ended it? The answer is yes once. */
static inline bool lease_is_over(struct lease *l)
{
	return unlikely(atomic_load_explicit(&l->over, memory_order_relaxed)) &&
	       atomic_exchange(&l->over, false);
}
extern _Atomic bool g_leases_early;

/* May a lease be taken at this run, or are runs without one left? */
static inline bool lease_may_take(struct lease *l)
{
	if (l->float_runs == 0 || atomic_load_explicit(&g_leases_early, memory_order_relaxed))
		return true;
	l->float_runs--;
	return false;
}

/* With more CPUs than one. */
bool leases_enabled(void);
/* The CPUs that there are, how many, and how many are leased. */
const cpu_set_t *lease_cpus(void);
unsigned lease_cpu_count(void);
unsigned lease_count(void);

/* @of: the lease of a worker, NULL if it has none yet. @kick: makes a worker that sleeps come and
 * give its lease back: a bound thread may run, and without a lease the ticker sleeps too. */
void leases_start(struct lease *(*of)(struct worker *w), void (*kick)(struct worker *w));
void leases_stop(void);
/* Leases are given from the first run on and, until leases_settle(), without a ticker. */
void leases_begin_early(void);
void leases_settle(void);

#endif
