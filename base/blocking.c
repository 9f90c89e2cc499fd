/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls that may block for long, on helper threads. See blocking_call in base/fiber.h.
 *
 * Theory of operation: a queue of jobs under one lock, and threads that take from it. A thread is
 * started when a job comes and none waits for one; a few stay for the next jobs, the others end
 * when the queue is empty. A job lives on its fiber's stack; it is finished, and the fiber woken,
 * under the lock, and the fiber looks under the lock: so the helper is done with the job when the
 * fiber goes on.
 *
 * Two wake-ups across CPUs cost some 25 us, as much as an fsync of a quick disk. So where calls of
 * a kind were brief of late (blocking_call_brief) the worker makes them itself, if no fiber of its
 * own is ready and the platform awaits nothing there: those who sleep on it, if they are woken
 * meanwhile, go on a call later. One call that takes long sends the next ones to the helpers.
 */
#include "base/err.h"
#include "base/fiber_internal.h"
#include "base/hostcall.h"
#include "base/lock.h"
#include "base/thread.h"

#define HELPERS_MAX 64
#define HELPERS_KEPT 4

struct job {
	STAILQ_ENTRY(job) link;
	long (*fn)(void *);
	void *arg;
	long result;
	struct fiber *fiber;
	unsigned account;
	bool done; /* [g_jobs_lock] */
};

static struct mutex g_jobs_lock = MUTEX_INIT(RANK_FLOCK);
static struct cond g_jobs_cond; /* a job, or stop */
static struct cond g_gone_cond; /* a helper ended */
/* All [g_jobs_lock]. */
static STAILQ_HEAD(, job) g_jobs = STAILQ_HEAD_INITIALIZER(g_jobs);
static unsigned g_helpers;
static unsigned g_helpers_free; /* waiting for a job */
static unsigned g_jobs_queued;
static bool g_stop;

static void *helper_main(void *arg)
{
	(void)arg;
	mutex_lock(&g_jobs_lock);
	for (;;) {
		struct job *job = STAILQ_FIRST(&g_jobs);

		if (!job) {
			if (g_stop || g_helpers_free >= HELPERS_KEPT)
				break;
			g_helpers_free++;
			cond_wait(&g_jobs_cond, &g_jobs_lock);
			g_helpers_free--;
			continue;
		}
		STAILQ_REMOVE_HEAD(&g_jobs, link);
		g_jobs_queued--;
		mutex_unlock(&g_jobs_lock);

		if (unlikely(g_host_accounting))
			(void)host_settle(HOST_FOR_NOBODY);

		long result = job->fn(job->arg);

		if (unlikely(g_host_accounting))
			(void)host_settle(job->account);
		mutex_lock(&g_jobs_lock);
		job->result = result;
		job->done = true;
		fiber_wake(job->fiber);
	}
	g_helpers--;
	cond_tell_all(&g_gone_cond, &g_jobs_lock);
	mutex_unlock(&g_jobs_lock);
	return NULL;
}

/* Sees to it that somebody will take a job that is about to be queued. False: there is nobody. */
static bool helper_secure(void) REQUIRES(g_jobs_lock)
{
	if (g_helpers_free > g_jobs_queued) {
		cond_tell(&g_jobs_cond, &g_jobs_lock);
		return true;
	}
	if (g_helpers < HELPERS_MAX) {
		pthread_t thread;

		if (thread_start(&thread, helper_main, NULL, "moat-helper") == 0) {
			pthread_detach(thread);
			g_helpers++;
			return true;
		}
	}
	return g_helpers > 0;
}

long blocking_call(long (*fn)(void *), void *arg)
{
	struct fiber *f = fiber_self();

	if (!f)
		return fn(arg);

	struct job job = {.fn = fn, .arg = arg, .fiber = f, .account = f->account};

	/* No virtual time passes while the host is at work for us. */
	fiber_activity_begin();
	mutex_lock(&g_jobs_lock);
	if (!helper_secure()) {
		/* No thread to be had: this worker then waits for the host. */
		mutex_unlock(&g_jobs_lock);
		job.result = fn(arg);
		fiber_activity_end();
		return job.result;
	}
	STAILQ_INSERT_TAIL(&g_jobs, &job, link);
	g_jobs_queued++;
	while (!job.done) {
		mutex_unlock(&g_jobs_lock);

		int unused = fiber_wait(DEADLINE_NONE, WAIT_UNINTR);

		(void)unused;
		mutex_lock(&g_jobs_lock);
	}
	mutex_unlock(&g_jobs_lock);
	fiber_activity_end();
	return job.result;
}

/* Cycles: 300 us at 2.6 GHz, a tenth of a slice of the scheduler. */
#define BRIEF UINT64_C(800000)

/* What such calls have taken of late: an average over some four. The first are measured on helpers.
 */
static _Atomic uint64_t g_brief_cycles = 2 * BRIEF;

static void brief_note(uint64_t cycles)
{
	const uint64_t old = atomic_load_explicit(&g_brief_cycles, memory_order_relaxed);
	const uint64_t capped = MIN(cycles, 16 * BRIEF);

	/* Two workers at once: one's note is lost. */
	atomic_store_explicit(&g_brief_cycles, old - old / 4 + capped / 4, memory_order_relaxed);
}

struct brief_job {
	long (*fn)(void *);
	void *arg;
};

static long brief_run(void *arg)
{
	const struct brief_job *j = arg;
	const uint64_t begin = __builtin_ia32_rdtsc();
	const long r = j->fn(j->arg);

	brief_note(__builtin_ia32_rdtsc() - begin);
	return r;
}

long blocking_call_brief(long (*fn)(void *), void *arg)
{
	struct brief_job j = {.fn = fn, .arg = arg};

	if (atomic_load_explicit(&g_brief_cycles, memory_order_relaxed) >= BRIEF ||
	    !worker_is_quiet())
		return blocking_call(brief_run, &j);
	fiber_activity_begin();

	const long r = brief_run(&j);

	fiber_activity_end();
	return r;
}

void blocking_stop(void)
{
	mutex_lock(&g_jobs_lock);
	g_stop = true;
	cond_tell_all(&g_jobs_cond, &g_jobs_lock);
	while (g_helpers > 0)
		cond_wait(&g_gone_cond, &g_jobs_lock);
	g_stop = false;
	mutex_unlock(&g_jobs_lock);
}
