/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit on wall time. See runtime/wall_time.h.
 */
#include "runtime/wall_time.h"

#include <stdio.h>
#include <time.h>
#include "base/clock.h"
#include "base/hostcall.h"
#include "sentry/grant.h"

static uint64_t g_deadline = UINT64_MAX;
static bool g_up;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

void wall_time_start(void)
{
	const uint64_t limit = grant_limit(GRANT_LIMIT_wall_time);

	if (limit == GRANT_NO_LIMIT || __builtin_add_overflow(now_ns(), limit, &g_deadline))
		g_deadline = UINT64_MAX;
}

int wall_time_wait(const sigset_t *set, siginfo_t *si, pid_t sentry, uint64_t at_most_ns)
{
	uint64_t wait = at_most_ns;
	struct timespec ts;

	if (g_deadline != UINT64_MAX && !g_up) {
		const uint64_t now = now_ns();

		if (now >= g_deadline) {
			g_up = true;
			(void)HOST(kill_monitor, kill(sentry, SIGKILL));
			return -1;
		}
		wait = MIN(wait, g_deadline - now);
	}
	if (wait == UINT64_MAX)
		return HOST(rt_sigtimedwait_monitor, sigwaitinfo(set, si));
	ts.tv_sec = (time_t)(wait / NSEC_PER_SEC);
	ts.tv_nsec = (long)(wait % NSEC_PER_SEC);
	return HOST(rt_sigtimedwait_monitor, sigtimedwait(set, si, &ts));
}

bool wall_time_is_up(void)
{
	return g_up;
}
