/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a sandbox does not start, where the reason is the surroundings that moat was started in: what
 * a step that failed can say itself is often wrong then, as it does not know them.
 */
#ifndef MOAT_RUNTIME_START_WHY_H
#define MOAT_RUNTIME_START_WHY_H

#include "base/err.h"
#include "base/types.h"

#include <stdio.h>

/* In the sentry, whose start has failed with @error (-errno): is a limit of the caller's the
 * reason? Then *e says which and what to do; else it stays. */
void start_why_limits(int error, struct err *e);
/* In the sentry, which has raised its limit: does that allow so few descriptors that what comes
 * next would fail here or there, and each for a reason that is not the one, up to the program's own
 * loader? -EMFILE and *e; else 0. */
int start_why_few_files(struct err *e) MUST_USE;
/* What forbids the monitor to make a process, as @error (a positive errno) tells, and what to do.
 */
const char *start_why_no_process(int error);

/* In the monitor, before it is under a filter of its own. */
void start_why_look(void);
/* The sentry was killed by SIGSYS: prints why that may be. */
void start_why_killed(FILE *f);

#endif
