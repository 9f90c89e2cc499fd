/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run, told by the monitor: what a program that fails was refused, and the mend. See
 * sentry/summary.h.
 */
#ifndef MOAT_RUNTIME_SUMMARY_H
#define MOAT_RUNTIME_SUMMARY_H

#include <stdio.h>
#include "base/types.h"

/* Makes the region, before the sentry is there. Without memory there is no summary. @log: events
 * are written, too. */
void summary_make(bool log);
/* Once the sandbox is dead: asks the host what of all that was looked for it has.
 * @starts_anywhere: nobody has said where the guest starts. */
void summary_ask(bool starts_anywhere);
/* The events of those for the audit's log: @line is called with each line. */
void summary_events(void (*line)(const char *line, size_t size));
/* @policy: the user has a policy file, to which a rule could be added. */
void summary_print(FILE *f, bool policy);

/* ---- the host's paths, runtime/summary_host.c ---- */

/* Before the monitor's lock-down: the table of mounts, and its descriptor, or -1. */
void summary_host_open(void);
int summary_host_fd(void);
/* Has the host @path (absolute), as something that can be granted? No, too, if it cannot be asked
 * without effects. */
bool summary_host_has(const char *path);

#endif
