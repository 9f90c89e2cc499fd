/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit on wall time, held by the monitor: the sentry is not asked, and neither is the guest.
 *
 * Theory of operation: the monitor waits for signals; while there is a limit it waits until then at
 * most. When the time is up the sentry is killed, and with it every stub, whatever the guest blocks
 * or ignores.
 */
#ifndef MOAT_RUNTIME_WALL_TIME_H
#define MOAT_RUNTIME_WALL_TIME_H

#include <signal.h>
#include "base/types.h"

/* As of timeout(1) -s KILL, and of a shell for a program that SIGKILL ended. */
#define EXIT_TIME_UP 137

/* The time begins. */
void wall_time_start(void);
/* sigtimedwait(2) for @at_most_ns (UINT64_MAX: for ever) while there is time. Kills @sentry when
 * there is none any more, once. */
int wall_time_wait(const sigset_t *set, siginfo_t *si, pid_t sentry, uint64_t at_most_ns);
/* Did it? */
bool wall_time_is_up(void);

#endif
