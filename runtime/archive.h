/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of --load, --save and --keep-on-fail, as the monitor has them. What is in them is the
 * sentry's (runtime/changes.h).
 *
 * Theory of operation: an archive gets its name when it is complete: one of an earlier run, which
 * this one may have begun with, is not lost to a failure. Until then it has another name in the
 * same directory, of which the monitor keeps a descriptor: what it does at the end it does below
 * that.
 */
#ifndef MOAT_RUNTIME_ARCHIVE_H
#define MOAT_RUNTIME_ARCHIVE_H

#include "base/types.h"

struct run_config;
struct monitor_lock;

/* Opens what @cfg names, for the sentry. False: told on standard error. */
bool archive_open(struct run_config *cfg) MUST_USE;
/* What is needed for the end. */
void archive_lock(const struct run_config *cfg, struct monitor_lock *l);
/* The sentry is dead: a complete archive gets its name, another goes. */
void archive_finish(const struct run_config *cfg, bool killed);
/* The sentry was not started. */
void archive_give_up(void);

#endif
