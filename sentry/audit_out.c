/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How events leave the sentry: rates, the queue, and the thread that looks at the meters.
 *
 * Theory of operation: a line goes into the queue, and from there as much as fits into the pipe, at
 * once and without waiting, so that what happened last is out even if the sentry is killed the next
 * moment. While the monitor does not read, the queue fills; then lines are dropped and counted. The
 * thread tries again now and then.
 *
 * A kind of event has a token bucket, filled by the host's monotonic clock. What was dropped is
 * told by an event of its own, when the thread comes by and at the end, so that the counts of
 * all "dropped" events and the events that are there make up what happened.
 *
 * The thread samples the meters, often at first and then ever more seldom, so that a short run has
 * a curve and a long one not too many points.
 */
#include "sentry/audit_internal.h"

#include "base/alloc.h"
#include "base/hostcall.h"
#include "base/lock.h"
#include "base/thread.h"
#include "sentry/meter_watch.h"
#include "sentry/task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define QUEUE_SIZE ((size_t)1 << 20)
#define PIPE_SIZE (1 << 20)
#define SAMPLE_FIRST_NS (50 * NSEC_PER_MSEC)
#define SAMPLE_LAST_NS (10 * NSEC_PER_SEC)
#define SAMPLES_PER_STEP 64u
/* How long the end waits for a monitor that does not read. */
#define PATIENCE_MS 2000

struct bucket {
	const char *name;
	uint32_t burst, per_second;
	uint64_t tokens; /* billionths */
	uint64_t filled_ns;
	_Atomic uint64_t dropped; /* not yet told */
};

static struct {
	struct mutex lock;
	int fd;
	char *queue;                           /* [lock] */
	size_t start, end;                     /* [lock] */
	struct bucket rates[AUDIT_RATE_COUNT]; /* [lock] */
	uint64_t start_ns;

	pthread_t thread;
	bool has_thread;
	pthread_mutex_t stop_lock;
	pthread_cond_t stop_cond;
	bool stop; /* [stop_lock] */
} g_out = {
	.lock = MUTEX_INIT(RANK_LEAF),
	.fd = -1,
	.rates =
		{
#define X(name_, burst_, rate_)                  \
	[RATE_##name_] = {.name = #name_,        \
			  .burst = (burst_),     \
			  .per_second = (rate_), \
			  .tokens = (uint64_t)(burst_)*NSEC_PER_SEC},
			AUDIT_RATES(X)
#undef X
		},
	.stop_lock = PTHREAD_MUTEX_INITIALIZER,
};

static uint64_t host_mono(void)
{
	struct timespec ts = {0};

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t audit_now(void)
{
	return host_mono() - g_out.start_ns;
}

/* ---- rates ---- */

void audit_count_dropped(enum audit_rate rate)
{
	atomic_fetch_add_explicit(&g_out.rates[rate].dropped, 1, memory_order_relaxed);
}

bool audit_admit(enum audit_rate rate)
{
	struct bucket *b = &g_out.rates[rate];
	uint64_t now = audit_now(), full = (uint64_t)b->burst * NSEC_PER_SEC;
	bool ok;

	if (g_out.fd < 0)
		return false;
	mutex_lock(&g_out.lock);
	/* After a second of rest at the latest, the sum is far from overflowing. */
	if (now - b->filled_ns > 3600 * NSEC_PER_SEC)
		b->tokens = full;
	else
		b->tokens = MIN(full, b->tokens + (now - b->filled_ns) * b->per_second);
	b->filled_ns = now;
	ok = b->tokens >= NSEC_PER_SEC;
	if (ok)
		b->tokens -= NSEC_PER_SEC;
	mutex_unlock(&g_out.lock);
	if (!ok)
		audit_count_dropped(rate);
	return ok;
}

static void tell_dropped(void)
{
	for (unsigned i = 0; i < AUDIT_RATE_COUNT; i++) {
		struct bucket *b = &g_out.rates[i];
		uint64_t n = atomic_exchange_explicit(&b->dropped, 0, memory_order_relaxed);
		struct json_object *o;

		if (n == 0)
			continue;
		o = audit_object("dropped", NULL);
		audit_add(o, "kind", b->name);
		audit_add_uint(o, "count", n);
		/* If even that does not fit, another time. */
		if (!audit_send(o, (enum audit_rate)i))
			atomic_fetch_add_explicit(&b->dropped, n - 1, memory_order_relaxed);
	}
}

/* ---- the queue ---- */

static void flush_locked(void)
{
	while (g_out.start < g_out.end) {
		ssize_t n = HOST(write_audit, write(g_out.fd, g_out.queue + g_out.start,
						    g_out.end - g_out.start));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			/* The monitor is gone, and so are we, soon. */
			if (n < 0 && errno != EAGAIN)
				g_out.start = g_out.end = 0;
			return;
		}
		g_out.start += (size_t)n;
	}
	g_out.start = g_out.end = 0;
}

bool audit_out_line(const char *line, size_t size)
{
	bool ok;

	if (g_out.fd < 0)
		return false;
	mutex_lock(&g_out.lock);
	if (g_out.end + size > QUEUE_SIZE && g_out.start > 0) {
		memmove(g_out.queue, g_out.queue + g_out.start, g_out.end - g_out.start);
		g_out.end -= g_out.start;
		g_out.start = 0;
	}
	ok = g_out.end + size <= QUEUE_SIZE;
	if (ok) {
		memcpy(g_out.queue + g_out.end, line, size);
		g_out.end += size;
	}
	flush_locked();
	mutex_unlock(&g_out.lock);
	return ok;
}

/* ---- the thread ---- */

static void sample(void)
{
	struct json_object *o, *used;

	meter_watch_look();
	o = audit_object("meters", NULL);
	used = json_object_new_object();

	for (unsigned m = 0; used && m < METER_COUNT; m++) {
		uint64_t now = meter_current((enum meter)m);

		if (now || meter_limit((enum meter)m) != METER_NO_LIMIT)
			audit_add_uint(used, meter_name((enum meter)m), now);
	}
	audit_add_object(o, "used", used);
	(void)audit_send(o, RATE_note);
}

static bool wait_stop(uint64_t ns)
{
	struct timespec until = {0};
	bool stop;

	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / NSEC_PER_SEC);
	until.tv_nsec = (long)(ns % NSEC_PER_SEC);
	pthread_mutex_lock(&g_out.stop_lock);
	while (!g_out.stop &&
	       HOST(futex_cond,
		    pthread_cond_timedwait(&g_out.stop_cond, &g_out.stop_lock, &until)) == 0)
		;
	stop = g_out.stop;
	pthread_mutex_unlock(&g_out.stop_lock);
	return stop;
}

static void *thread_main(void *arg UNUSED)
{
	uint64_t pause = SAMPLE_FIRST_NS;
	unsigned n = 0;

	do {
		sample();
		tell_dropped();
		if (++n % SAMPLES_PER_STEP == 0)
			pause = MIN(2 * pause, SAMPLE_LAST_NS);
	} while (!wait_stop(pause));
	return NULL;
}

int audit_out_start(int fd)
{
	g_out.start_ns = host_mono();
	if (fd < 0)
		return 0;
	g_out.queue = mem_pages(QUEUE_SIZE);
	if (!g_out.queue)
		return -ENOMEM;
	/* It may be refused: then the queue has more to do. */
	(void)HOST(fcntl_audit, fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE));
	if (HOST(fcntl_audit, fcntl(fd, F_SETFL, O_NONBLOCK)) != 0)
		return -errno;
	g_out.fd = fd;
	return 0;
}

int audit_out_run(void)
{
	pthread_condattr_t attr;
	int r;

	if (g_out.fd < 0)
		return 0;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g_out.stop_cond, &attr);
	pthread_condattr_destroy(&attr);
	r = thread_start(&g_out.thread, thread_main, NULL, "moat-audit");
	g_out.has_thread = r == 0;
	return r;
}

void audit_out_stop(void)
{
	if (g_out.fd < 0)
		return;
	if (g_out.has_thread) {
		pthread_mutex_lock(&g_out.stop_lock);
		g_out.stop = true;
		HOST(futex_cond, pthread_cond_signal(&g_out.stop_cond));
		pthread_mutex_unlock(&g_out.stop_lock);
		pthread_join(g_out.thread, NULL);
		g_out.has_thread = false;
	}
	sample();
	tell_dropped();
	mutex_lock(&g_out.lock);
	flush_locked();
	while (g_out.start < g_out.end) {
		struct pollfd p = {.fd = g_out.fd, .events = POLLOUT};

		if (HOST(poll_audit, poll(&p, 1, PATIENCE_MS)) <= 0)
			break;
		flush_locked();
	}
	mutex_unlock(&g_out.lock);
}
