/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls that may block for long, on helper threads. See blocking_call in base/fiber.h.
 *
 * Theory of operation: a queue of jobs under one lock, and threads that take from it. A thread is
 * started when a job comes and none waits for one; a few stay for the next jobs, the others end
 * when the queue is empty. A job lives on its fiber's stack; it is finished, and the fiber woken,
 * under the lock, and the fiber looks under the lock: so the helper is done with the job when the
 * fiber goes on.
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
static pthread_cond_t g_jobs_cond = PTHREAD_COND_INITIALIZER; /* a job, or stop */
static pthread_cond_t g_gone_cond = PTHREAD_COND_INITIALIZER; /* a helper ended */
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
			HOST(futex_cond, pthread_cond_wait(&g_jobs_cond, &g_jobs_lock.m));
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
	pthread_cond_broadcast(&g_gone_cond);
	mutex_unlock(&g_jobs_lock);
	return NULL;
}

/* Sees to it that somebody will take a job that is about to be queued. False: there is nobody. */
static bool helper_secure(void) REQUIRES(g_jobs_lock)
{
	if (g_helpers_free > g_jobs_queued) {
		HOST(futex_cond, pthread_cond_signal(&g_jobs_cond));
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

void blocking_stop(void)
{
	mutex_lock(&g_jobs_lock);
	g_stop = true;
	pthread_cond_broadcast(&g_jobs_cond);
	while (g_helpers > 0)
		HOST(futex_cond, pthread_cond_wait(&g_gone_cond, &g_jobs_lock.m));
	g_stop = false;
	mutex_unlock(&g_jobs_lock);
}
