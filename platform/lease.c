/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of CPUs, and the ticker that ends them. See platform/lease.h.
 */
#include "base/thread.h"
#include "platform/host_ptrace.h"
#include "platform/lease.h"

#define LEASE_MS 20
/* Runs without a lease after one has ended. */
#define FLOAT_RUNS 4
/* … and before the first one of a worker, but where leases begin early. */
#define FIRST_RUNS 64

static struct {
	bool enabled;
	cpu_set_t allowed;
	unsigned count;
	_Atomic uint8_t cpus[CPU_SETSIZE]; /* leases of each CPU */
	_Atomic uint32_t leases;           /* futex word: the ticker sleeps while it is 0 */
	_Atomic uint32_t stop;
	pthread_mutex_t start_lock;
	bool started; /* [start_lock], and read by who sees it true */
	bool early;   /* [start_lock] there was a lease without the ticker */
	pthread_t ticker;
	struct lease *(*of)(struct worker *w);
	void (*kick)(struct worker *w);
} g_leases = {.start_lock = PTHREAD_MUTEX_INITIALIZER};

_Atomic bool g_leases_early;

void lease_init(struct lease *l)
{
	*l = (struct lease){.cpu = -1, .float_runs = FIRST_RUNS};
}

static int free_cpu(void)
{
	const int here = pf_host_cpu();

	if (here >= 0 && here < CPU_SETSIZE && CPU_ISSET(here, &g_leases.allowed) &&
	    atomic_load(&g_leases.cpus[here]) == 0)
		return here;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &g_leases.allowed) && atomic_load(&g_leases.cpus[cpu]) == 0)
			return cpu;
	}
	return -1;
}

static void end_all(void)
{
	for (unsigned i = 0; i < worker_count(); i++) {
		struct lease *l = g_leases.of(worker_at(i));

		if (!l || atomic_load(&l->cpu) < 0)
			continue;
		atomic_store(&l->over, true);
		/* Others see it before they sleep. */
		g_leases.kick(worker_at(i));
	}
}

static void *ticker_main(void *arg UNUSED)
{
	while (!atomic_load(&g_leases.stop)) {
		if (atomic_load(&g_leases.leases) == 0) {
			pf_host_futex_wait(&g_leases.leases, 0);
			continue;
		}
		pf_host_futex_wait_ms(&g_leases.stop, 0, LEASE_MS);
		end_all();
	}
	return NULL;
}

static bool ticker_start_locked(void)
{
	if (!g_leases.started)
		g_leases.started =
			thread_start(&g_leases.ticker, ticker_main, NULL, "moat-ticker") == 0;
	return g_leases.started;
}

/* The first lease starts the ticker, but for those of a program that has just begun: most that run
 * for a moment need none. */
static bool ticker_will_run(void)
{
	bool runs;

	pthread_mutex_lock(&g_leases.start_lock);
	if (!g_leases.started && atomic_load(&g_leases_early))
		runs = g_leases.early = true;
	else
		runs = ticker_start_locked();
	pthread_mutex_unlock(&g_leases.start_lock);
	return runs;
}

void leases_begin_early(void)
{
	atomic_store(&g_leases_early, true);
}

void leases_settle(void)
{
	bool late;

	pthread_mutex_lock(&g_leases.start_lock);
	atomic_store(&g_leases_early, false);
	late = g_leases.early && !ticker_start_locked();
	pthread_mutex_unlock(&g_leases.start_lock);
	if (late)
		end_all();
}

bool lease_take(struct lease *l)
{
	const int cpu = free_cpu();

	if (cpu < 0 || !ticker_will_run())
		return false;
	/* Counted first, so that the ticker ends it. */
	atomic_fetch_add(&g_leases.cpus[cpu], 1);
	if (atomic_fetch_add(&g_leases.leases, 1) == 0)
		pf_host_futex_wake(&g_leases.leases);
	atomic_store(&l->cpu, cpu);
	atomic_store(&l->over, false);
	return true;
}

bool lease_give_back(struct lease *l)
{
	const int cpu = atomic_load(&l->cpu);

	if (cpu < 0)
		return false;
	atomic_fetch_sub(&g_leases.cpus[cpu], 1);
	atomic_fetch_sub(&g_leases.leases, 1);
	atomic_store(&l->cpu, -1);
	l->float_runs = FLOAT_RUNS;
	return true;
}

bool leases_enabled(void)
{
	return g_leases.enabled;
}

const cpu_set_t *lease_cpus(void)
{
	return &g_leases.allowed;
}

unsigned lease_cpu_count(void)
{
	return g_leases.count;
}

unsigned lease_count(void)
{
	return atomic_load_explicit(&g_leases.leases, memory_order_relaxed);
}

void leases_start(struct lease *(*of)(struct worker *w), void (*kick)(struct worker *w))
{
	CPU_ZERO(&g_leases.allowed);
	if (pf_host_affinity_get(0, &g_leases.allowed) < 0 || CPU_COUNT(&g_leases.allowed) < 2)
		return;
	g_leases.count = (unsigned)CPU_COUNT(&g_leases.allowed);
	g_leases.of = of;
	g_leases.kick = kick;
	atomic_store(&g_leases.stop, 0);
	g_leases.enabled = true;
}

void leases_stop(void)
{
	if (!g_leases.enabled)
		return;
	atomic_store(&g_leases.stop, 1);
	atomic_fetch_add(&g_leases.leases, 1);
	pf_host_futex_wake(&g_leases.leases);
	pf_host_futex_wake(&g_leases.stop);
	if (g_leases.started)
		pthread_join(g_leases.ticker, NULL);
	g_leases.enabled = g_leases.started = g_leases.early = false;
	atomic_store(&g_leases.leases, 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		atomic_store(&g_leases.cpus[cpu], 0);
}
