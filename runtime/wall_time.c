/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit on wall time. See runtime/wall_time.h.
 */
#include "runtime/wall_time.h"

#include <stdio.h>
#include <time.h>
#include "base/clock.h"
#include "base/hostcall.h"
#include "runtime/run.h"
#include "sentry/grant.h"

static struct {
	uint64_t deadline;
	int ctl; /* -1: nobody is asked to end first */
	bool up, killed;
} g_wall_time = {.deadline = UINT64_MAX, .ctl = -1};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

void wall_time_start(int ctl)
{
	const uint64_t limit = grant_limit(GRANT_LIMIT_wall_time);

	g_wall_time.ctl = ctl;
	if (limit == GRANT_NO_LIMIT ||
	    __builtin_add_overflow(now_ns(), limit, &g_wall_time.deadline))
		g_wall_time.deadline = UINT64_MAX;
}

/* Has the sentry been told to kill the program? It says no more than any kill(1) would. */
static bool ask(void)
{
	const unsigned char msg[2] = {CTL_SIGNAL, SIGKILL};

	return g_wall_time.ctl >= 0 &&
	       HOST(write_control, write(g_wall_time.ctl, msg, sizeof(msg))) == sizeof(msg);
}

/* The time is up, for the first time or once more. */
static void end(pid_t sentry, uint64_t now)
{
	if (!g_wall_time.up && ask()) {
		g_wall_time.deadline = now + WALL_TIME_GRACE_NS;
	} else {
		g_wall_time.killed = true;
		(void)HOST(kill_monitor, kill(sentry, SIGKILL));
	}
	g_wall_time.up = true;
}

int wall_time_wait(const sigset_t *set, siginfo_t *si, pid_t sentry, uint64_t at_most_ns)
{
	uint64_t wait = at_most_ns;
	struct timespec ts;

	if (g_wall_time.deadline != UINT64_MAX && !g_wall_time.killed) {
		const uint64_t now = now_ns();

		if (now >= g_wall_time.deadline) {
			end(sentry, now);
			return -1;
		}
		wait = MIN(wait, g_wall_time.deadline - now);
	}
	if (wait == UINT64_MAX)
		return HOST(rt_sigtimedwait_monitor, sigwaitinfo(set, si));
	ts.tv_sec = (time_t)(wait / NSEC_PER_SEC);
	ts.tv_nsec = (long)(wait % NSEC_PER_SEC);
	return HOST(rt_sigtimedwait_monitor, sigtimedwait(set, si, &ts));
}

bool wall_time_is_up(void)
{
	return g_wall_time.up;
}
