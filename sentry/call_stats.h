/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each guest call cost: the report of `moat run --stats`.
 *
 * The task's loop calls these around the platform's run(), only while g_host_accounting is set.
 */
#ifndef MOAT_SENTRY_CALL_STATS_H
#define MOAT_SENTRY_CALL_STATS_H

#include <stdio.h>
#include "base/types.h"

struct task;
struct pf_trap;

/* The guest is about to go on: what was done since the trap has been done for the trap. */
void call_stats_resume(struct task *t);
/* The guest has trapped. */
void call_stats_trap(struct task *t, const struct pf_trap *trap);
/* What is done between the two is for the rewriting of call sites, not for the call. */
void call_stats_rewrite_begin(void);
void call_stats_rewrite_end(struct task *t);
/* It will not go on. */
void call_stats_end(struct task *t);

/* When all workers have ended. @eol ends each line. */
void call_stats_print(FILE *out, const char *eol);
/* The same for programs: a line of names, then the rows; fields end with tabs, "-" has no figure.
 */
void call_stats_write(FILE *out);

#endif
