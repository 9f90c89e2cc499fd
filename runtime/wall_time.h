/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit on wall time, held by the monitor.
 *
 * Theory of operation: the monitor waits for signals; while there is a limit it waits until then at
 * most. When the time is up the sentry is killed, and with it every stub, whatever the guest blocks
 * or ignores. Where what the run has made is to be kept or told of (--save, --keep-on-fail,
 * --diff) the sentry is first told to kill the program, ends as ever, and has WALL_TIME_GRACE_NS to
 * do so: neither the guest nor a sentry that was taken over lasts longer.
 */
#ifndef MOAT_RUNTIME_WALL_TIME_H
#define MOAT_RUNTIME_WALL_TIME_H

#include <signal.h>
#include "base/types.h"

/* As of timeout(1) -s KILL, and of a shell for a program that SIGKILL ended. */
#define EXIT_TIME_UP 137

/* What an archive of all that a sandbox may hold takes to be written, and more. */
#define WALL_TIME_GRACE_NS (30 * (uint64_t)1000000000)

/* The time begins. @ctl: the pipe to the sentry, if it is to be told first; else -1. */
void wall_time_start(int ctl);
/* sigtimedwait(2) for @at_most_ns (UINT64_MAX: for ever) while there is time. Has @sentry end, or
 * kills it, when there is none any more. */
int wall_time_wait(const sigset_t *set, siginfo_t *si, pid_t sentry, uint64_t at_most_ns);
/* Was there none? */
bool wall_time_is_up(void);

#endif
