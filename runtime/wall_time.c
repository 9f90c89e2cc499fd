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

int wall_time_wait(const sigset_t *set, siginfo_t *si, pid_t sentry)
{
	const uint64_t now = g_deadline != UINT64_MAX && !g_up ? now_ns() : 0;

	if (g_deadline == UINT64_MAX || g_up)
		return HOST(rt_sigtimedwait_monitor, sigwaitinfo(set, si));
	if (now < g_deadline) {
		const uint64_t left = g_deadline - now;
		const struct timespec ts = {.tv_sec = (time_t)(left / NSEC_PER_SEC),
					    .tv_nsec = (long)(left % NSEC_PER_SEC)};

		return HOST(rt_sigtimedwait_monitor, sigtimedwait(set, si, &ts));
	}
	g_up = true;
	(void)HOST(kill_monitor, kill(sentry, SIGKILL));
	return -1;
}

bool wall_time_is_up(void)
{
	return g_up;
}
