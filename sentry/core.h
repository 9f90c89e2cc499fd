/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core files. Source: core(5).
 */
#ifndef MOAT_SENTRY_CORE_H
#define MOAT_SENTRY_CORE_H

#include "sentry/task.h"

/* Writes the core file of the calling task's process, which dies of @sig, if its limits and rights
 * allow. True: it was written (maybe cut short by the limit). */
bool core_dump(struct task *t, int sig, const struct lx_siginfo *info);

#endif
