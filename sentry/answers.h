/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that the platform may give in the guest; see sentry/answers.c.
 */
#ifndef MOAT_SENTRY_ANSWERS_H
#define MOAT_SENTRY_ANSWERS_H

#include "sentry/process.h"

/* Before @t's thread runs, by its fiber. No lock held. */
void answers_publish(struct task *t);
/* After a change of what answers_publish tells of whatever task: ids, parents, groups, sessions,
 * credentials, umask, limits, names of the system, the processor mask, the number of tasks. Any
 * thread, any lock. */
void answers_stale(void);

#endif
