/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notes for the end of a run, as the sentry writes them. See sentry/summary.h.
 *
 * Theory of operation: a path has a place in a ring, known by its key, and is told once however
 * often it is looked for. Looking into things costs microseconds, so a bucket bounds how often that
 * is done; what is beyond is counted.
 */
#include "sentry/summary.h"

#include "base/clock.h"
#include "base/lock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define BURST 256u
#define PER_SECOND 50u

struct summary *g_summary;
size_t g_summary_stride;

static struct {
	struct mutex lock;
	uint64_t keys[SUMMARY_PATHS]; /* [lock] 0: free */
	unsigned next;                /* [lock] of the ring */
	uint32_t order;               /* [lock] */
	uint64_t tokens, filled_ns;   /* [lock] tokens: billionths */
} g_notes = {.lock = MUTEX_INIT(RANK_LEAF), .tokens = BURST * (uint64_t)NSEC_PER_SEC};

static bool admit_locked(void) REQUIRES(g_notes.lock)
{
	struct timespec ts = {0};
	uint64_t now, passed;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
	passed = MIN(now - g_notes.filled_ns, (uint64_t)BURST * NSEC_PER_SEC);
	g_notes.tokens = MIN(BURST * (uint64_t)NSEC_PER_SEC, g_notes.tokens + passed * PER_SECOND);
	g_notes.filled_ns = now;
	if (g_notes.tokens < NSEC_PER_SEC)
		return false;
	g_notes.tokens -= NSEC_PER_SEC;
	return true;
}

bool summary_admit(void)
{
	bool ok;

	if (!g_summary)
		return false;
	mutex_lock(&g_notes.lock);
	ok = admit_locked();
	mutex_unlock(&g_notes.lock);
	return ok;
}

void summary_not_served(unsigned nr)
{
	if (g_summary && nr < SUMMARY_CALLS)
		atomic_fetch_or_explicit(&g_summary->not_served[nr / 64], (uint64_t)1 << nr % 64,
					 memory_order_relaxed);
}

void summary_line(const char *quoted, enum summary_asked asked)
{
	unsigned at;

	if (!g_summary)
		return;
	mutex_lock(&g_notes.lock);
	at = atomic_fetch_add_explicit(&g_summary->line_count, 1, memory_order_relaxed);
	snprintf(g_summary->lines[at % SUMMARY_LINES], SUMMARY_LINE_SIZE, "%s", quoted);
	g_summary->line_asked[at % SUMMARY_LINES] = (uint8_t)asked;
	mutex_unlock(&g_notes.lock);
}

void summary_asked(enum summary_asked asked)
{
	if (g_summary)
		atomic_fetch_add_explicit(&g_summary->asked[asked].processes, 1,
					  memory_order_relaxed);
}

void summary_asked_ended(uint8_t asked, const char *who, bool well)
{
	if (!g_summary)
		return;
	mutex_lock(&g_notes.lock);
	for (unsigned i = 0; i < SUMMARY_ASKED_COUNT; i++) {
		if (!(asked & 1u << i))
			continue;
		if (well)
			atomic_fetch_sub_explicit(&g_summary->asked[i].processes, 1,
						  memory_order_relaxed);
		else
			snprintf(g_summary->asked[i].who, SUMMARY_WHO_SIZE, "%s", who);
	}
	mutex_unlock(&g_notes.lock);
}

static void count_crowded(void)
{
	atomic_fetch_add_explicit(&g_summary->crowded, 1, memory_order_relaxed);
}

int summary_path_take(uint64_t key)
{
	int at = -1;

	if (!g_summary)
		return -1;
	key |= 1; /* 0 is none */
	mutex_lock(&g_notes.lock);
	for (unsigned i = 0; i < SUMMARY_PATHS; i++) {
		if (g_notes.keys[i] == key) {
			summary_path_at(i)->order = ++g_notes.order;
			goto out;
		}
	}
	if (!admit_locked()) {
		count_crowded();
		goto out;
	}
	at = (int)g_notes.next;
	g_notes.next = (g_notes.next + 1) % SUMMARY_PATHS;
	if (atomic_exchange(&summary_path_at((unsigned)at)->ready, 0))
		count_crowded();
	summary_path_at((unsigned)at)->order = ++g_notes.order;
	g_notes.keys[at] = key;
out:
	mutex_unlock(&g_notes.lock);
	return at;
}

void summary_path_done(unsigned i, uint64_t key)
{
	mutex_lock(&g_notes.lock);
	/* Meanwhile the ring may have come round. */
	if (g_notes.keys[i] == (key | 1))
		atomic_store(&summary_path_at(i)->ready, 1);
	mutex_unlock(&g_notes.lock);
}

void summary_path_drop(unsigned i, uint64_t key)
{
	mutex_lock(&g_notes.lock);
	if (g_notes.keys[i] == (key | 1))
		g_notes.keys[i] = 0;
	mutex_unlock(&g_notes.lock);
}
