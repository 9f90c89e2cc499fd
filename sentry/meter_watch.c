/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What guests really use of memory and processors. See sentry/meter_watch.h.
 */
#include "sentry/meter_watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/hostcall.h"
#include "base/meter.h"
#include "base/thread.h"
#include "sentry/audit.h"
#include "sentry/mm.h"
#include "vfs/tmpfs.h"

/* Nobody uses memory up faster than this, by all processors: pages must be zeroed. */
#define FASTEST_BYTES_PER_MS ((uint64_t)8 << 20)
#define SHORTEST_NS (5 * NSEC_PER_MSEC)
#define LONGEST_NS (2 * NSEC_PER_SEC)
/* Looking may cost this part of a processor. */
#define LOOK_SHARE 20u
/* A figure that is this young will do for who asks for memory. */
#define FRESH_NS (2 * NSEC_PER_MSEC)
#define FRESH_SHARES_NS (50 * NSEC_PER_MSEC)
/* A process that was killed has so long to go before another one is. */
#define PATIENCE_NS (50 * NSEC_PER_MSEC)

/* [g_watch.lock] Of the last look. Apart, since what is not zero at the start is copied at the
 * start (runtime/wall_exe.c). */
static struct pf_as *g_seen[TASKS_MAX];
static uint64_t g_used[TASKS_MAX];

static struct {
	struct mutex lock; /* over a look, and the search for whose memory it was */
	/* [lock] of the last look */
	unsigned count;
	uint64_t measured; /* bytes that METER_memory has for it */
	uint64_t granted;  /* [lock] allowed since, and not seen by it */
	uint64_t looked_ns, shares_ns, cost_ns;
	uint64_t cpu_ns;

	struct mutex list_lock;
	LIST_HEAD(, mm) mms; /* [list_lock] */

	pthread_mutex_t wake_lock;
	pthread_cond_t wake;
	bool wanted, stop, running; /* [wake_lock] */
	_Atomic bool asked;         /* wanted, or about to be */
	pthread_t thread;
} g_watch = {
	.lock = MUTEX_INIT(RANK_WATCH),
	.list_lock = MUTEX_INIT(RANK_LEAF),
	.wake_lock = PTHREAD_MUTEX_INITIALIZER,
};

/* The host's, whatever the guest's clock shows. */
static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

void meter_watch_add(struct mm *mm)
{
	mutex_lock(&g_watch.list_lock);
	LIST_INSERT_HEAD(&g_watch.mms, mm, watched);
	mutex_unlock(&g_watch.list_lock);
}

void meter_watch_remove(struct mm *mm)
{
	mutex_lock(&g_watch.list_lock);
	LIST_REMOVE(mm, watched);
	mutex_unlock(&g_watch.list_lock);
}

/* ---- looking ---- */

static void take_all_locked(void) REQUIRES(g_watch.lock)
{
	struct mm *mm;

	g_watch.count = 0;
	mutex_lock(&g_watch.list_lock);
	LIST_FOREACH (mm, &g_watch.mms, watched) {
		if (g_watch.count == ARRAY_SIZE(g_seen))
			break;
		g_pf->as_get(mm->as);
		g_seen[g_watch.count++] = mm->as;
	}
	mutex_unlock(&g_watch.list_lock);
}

/* Asks the host. @what: PF_USAGE_*. */
static void look_locked(unsigned what) REQUIRES(g_watch.lock)
{
	const uint64_t begin = now_ns();
	uint64_t memory = 0, cpu = 0;

	take_all_locked();
	for (unsigned i = 0; i < g_watch.count; i++) {
		struct pf_usage u;

		g_pf->usage(g_seen[i], what, &u);
		g_used[i] = u.anon_bytes + u.shmem_bytes + u.table_bytes;
		memory += u.anon_bytes + u.table_bytes;
		cpu += u.cpu_ns;
	}
	if (what & (PF_USAGE_MEMORY | PF_USAGE_SHARE)) {
		memory += tmpfs_bytes_found();
		if (memory > g_watch.measured)
			meter_charge_found(METER_memory, memory - g_watch.measured);
		else
			meter_uncharge(METER_memory, g_watch.measured - memory);
		g_watch.measured = memory;
		g_watch.granted = 0;
		g_watch.looked_ns = begin;
		if (what & PF_USAGE_SHARE)
			g_watch.shares_ns = begin;
	}
	if (what & PF_USAGE_CPU) {
		struct pf_usage own;

		g_pf->usage(NULL, PF_USAGE_CPU, &own);
		cpu += own.cpu_ns;
		/* A child that ends is counted twice or not at all for a moment. */
		g_watch.cpu_ns = MAX(g_watch.cpu_ns, cpu);
		meter_set(METER_cpu_time, g_watch.cpu_ns);
	}
	g_watch.cost_ns = now_ns() - begin;
}

static void let_go_locked(void) REQUIRES(g_watch.lock)
{
	for (unsigned i = 0; i < g_watch.count; i++)
		g_pf->as_put(g_seen[i]);
	g_watch.count = 0;
}

static bool fits(uint64_t more)
{
	const uint64_t limit = meter_limit(METER_memory), used = meter_current(METER_memory);

	return used <= limit && more <= limit - used;
}

static void begin_to_look(void)
{
	if (atomic_load_explicit(&g_watch.asked, memory_order_relaxed))
		return;
	pthread_mutex_lock(&g_watch.wake_lock);
	atomic_store_explicit(&g_watch.asked, true, memory_order_relaxed);
	g_watch.wanted = true;
	HOST(futex_cond, pthread_cond_signal(&g_watch.wake));
	pthread_mutex_unlock(&g_watch.wake_lock);
}

/* What the last look found will do for a while, the longer the dearer looking is. */
static void freshen_locked(void) REQUIRES(g_watch.lock)
{
	if (now_ns() - g_watch.looked_ns <= FRESH_NS + LOOK_SHARE * g_watch.cost_ns)
		return;
	look_locked(PF_USAGE_MEMORY);
	let_go_locked();
}

void meter_watch_look(void)
{
	mutex_lock(&g_watch.lock);
	freshen_locked();
	mutex_unlock(&g_watch.lock);
}

bool meter_watch_allows(uint64_t more)
{
	bool ok = false;

	if (more <= meter_limit(METER_memory)) {
		mutex_lock(&g_watch.lock);
		freshen_locked();
		ok = fits(g_watch.granted + more);
		/* However young the last look is: what it allowed may be used by now. */
		if (!ok && g_watch.granted) {
			look_locked(PF_USAGE_MEMORY);
			let_go_locked();
			ok = fits(more);
		}
		if (!ok && now_ns() - g_watch.shares_ns > FRESH_SHARES_NS) {
			look_locked(PF_USAGE_SHARE);
			let_go_locked();
			ok = fits(more);
		}
		if (ok)
			g_watch.granted += more;
		mutex_unlock(&g_watch.lock);
	}
	if (!ok)
		meter_refuse(METER_memory);
	return ok;
}

/* ---- killing ---- */

/* A reference of the process with the address space @as, or NULL. Only compared. */
static struct tgroup *owner_of(const struct pf_as *as)
{
	struct tgroup *tg;
	int32_t at = 2;

	while ((tg = tgroup_next(at))) {
		struct task *t;
		bool hit = false;

		mutex_lock(&g_kernel.tasklist);
		tgroup_foreach_task (t, tg)
			hit |= t->mm && t->mm->as == as;
		mutex_unlock(&g_kernel.tasklist);
		if (hit)
			return tg;
		at = tg->tgid + 1;
		tgroup_put(tg);
	}
	return NULL;
}

/* Past the limit: the process that uses most goes. True: one did. */
static bool kill_largest(void)
{
	struct tgroup *tg = NULL;

	mutex_lock(&g_watch.lock);
	look_locked(PF_USAGE_SHARE);

	const uint64_t used = meter_current(METER_memory);

	while (!fits(0) && !tg) {
		unsigned best = 0;

		for (unsigned i = 1; i < g_watch.count; i++)
			if (g_used[i] > g_used[best])
				best = i;
		if (g_watch.count == 0 || g_used[best] == 0)
			break;
		tg = owner_of(g_seen[best]);
		if (tg)
			audit_say_killed(METER_memory,
					 "%llu of %llu MiB are in use; process %d, which has %llu "
					 "MiB of them, was killed",
					 (unsigned long long)used >> 20,
					 (unsigned long long)meter_limit(METER_memory) >> 20,
					 tg->tgid, (unsigned long long)g_used[best] >> 20);
		g_used[best] = 0;
	}
	let_go_locked();
	mutex_unlock(&g_watch.lock);
	if (!tg)
		return false;
	meter_refuse(METER_memory);
	audit_killed(METER_memory, tg->tgid, used);
	/* After all that is to be told of it: with the last process the sandbox may end at once. */
	tgroup_request_exit(tg, LX_SIGKILL);
	tgroup_put(tg);
	return true;
}

static void kill_sandbox(void)
{
	struct tgroup *tg = kernel_main_group();

	audit_say_killed(METER_cpu_time,
			 "the sandbox has used %llu ms of processor time and was killed",
			 (unsigned long long)(meter_current(METER_cpu_time) / NSEC_PER_MSEC));
	meter_refuse(METER_cpu_time);
	audit_killed(METER_cpu_time, 0, meter_current(METER_cpu_time));
	if (!tg)
		return;
	tgroup_request_exit(tg, LX_SIGKILL);
	tgroup_put(tg);
}

/* ---- the thread ---- */

/* Looks, and does what must be done. How long nothing can happen; 0: until somebody asks. */
static uint64_t watch_once(void)
{
	const uint64_t cpu_limit = meter_limit(METER_cpu_time);
	const bool memory = memory_might_exceed(0), cpu = cpu_limit != METER_NO_LIMIT;
	uint64_t wait = UINT64_MAX, cost;

	if (!memory && !cpu)
		return 0;
	mutex_lock(&g_watch.lock);
	look_locked((memory ? PF_USAGE_MEMORY : 0) | (cpu ? PF_USAGE_CPU : 0));
	let_go_locked();
	cost = g_watch.cost_ns;
	mutex_unlock(&g_watch.lock);
	if (cpu) {
		const uint64_t used = meter_current(METER_cpu_time);

		if (used >= cpu_limit) {
			kill_sandbox();
			return LONGEST_NS;
		}
		wait = (cpu_limit - used) / MAX(g_kernel.cpus, 1u);
	}
	if (memory) {
		if (!fits(0) && kill_largest())
			return PATIENCE_NS;
		if (fits(0)) {
			const uint64_t left =
				meter_limit(METER_memory) - meter_current(METER_memory);

			wait = MIN(wait, left / FASTEST_BYTES_PER_MS * NSEC_PER_MSEC);
		} else {
			wait = SHORTEST_NS;
		}
	}
	return MIN(MAX(wait, MAX((uint64_t)SHORTEST_NS, LOOK_SHARE * cost)), (uint64_t)LONGEST_NS);
}

static void *watch_main(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&g_watch.wake_lock);
	while (!g_watch.stop) {
		uint64_t wait;

		g_watch.wanted = false;
		pthread_mutex_unlock(&g_watch.wake_lock);
		wait = watch_once();
		pthread_mutex_lock(&g_watch.wake_lock);
		if (g_watch.stop)
			break;
		if (wait) {
			const uint64_t until = now_ns() + wait;
			const struct timespec ts = {.tv_sec = (time_t)(until / NSEC_PER_SEC),
						    .tv_nsec = (long)(until % NSEC_PER_SEC)};

			HOST(futex_cond,
			     pthread_cond_timedwait(&g_watch.wake, &g_watch.wake_lock, &ts));
			continue;
		}
		/* Who sees more mapped from here on asks. */
		atomic_store(&g_watch.asked, false);
		if (memory_might_exceed(0))
			atomic_store(&g_watch.asked, true);
		else
			while (!g_watch.wanted && !g_watch.stop)
				HOST(futex_cond,
				     pthread_cond_wait(&g_watch.wake, &g_watch.wake_lock));
	}
	pthread_mutex_unlock(&g_watch.wake_lock);
	return NULL;
}

/* The first who asks starts the thread: most sandboxes need none. */
static void look(void)
{
	if (likely(atomic_load_explicit(&g_watch.asked, memory_order_relaxed)))
		return;
	pthread_mutex_lock(&g_watch.wake_lock);
	if (!g_watch.running && !g_watch.stop) {
		atomic_store(&g_watch.asked, true);
		g_watch.running =
			thread_start(&g_watch.thread, watch_main, NULL, "moat-meters") == 0;
		/* No thread: who asks for memory looks, as long as nobody could be started. */
		if (!g_watch.running)
			atomic_store(&g_watch.asked, false);
	}
	pthread_mutex_unlock(&g_watch.wake_lock);
	begin_to_look();
}

int meter_watch_start(void)
{
	pthread_condattr_t ca;

	pthread_condattr_init(&ca);
	pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
	pthread_cond_init(&g_watch.wake, &ca);
	pthread_condattr_destroy(&ca);
	g_memory_look = look;
	if (meter_limit(METER_cpu_time) != METER_NO_LIMIT)
		look();
	return meter_limit(METER_cpu_time) != METER_NO_LIMIT && !g_watch.running ? -EAGAIN : 0;
}

void meter_watch_stop(void)
{
	bool running;

	pthread_mutex_lock(&g_watch.wake_lock);
	g_watch.stop = true;
	running = g_watch.running;
	if (running)
		HOST(futex_cond, pthread_cond_signal(&g_watch.wake));
	pthread_mutex_unlock(&g_watch.wake_lock);
	if (running)
		pthread_join(g_watch.thread, NULL);
	g_watch.running = false;
}
