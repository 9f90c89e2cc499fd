/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that repeat: turns of tasks, what a step costs them, and the time stamp counter.
 */
#ifndef MOAT_SENTRY_TURNS_H
#define MOAT_SENTRY_TURNS_H

#include "sentry/task.h"

/* Prepares a run with turns: before clock_start() and prepare() of the platform. @seed: NULL, or
 * what who comes next follows from. */
void turns_setup(const uint64_t *seed);
/* The task has come back from guest code with @trap, which has been served. No lock held. */
void turns_after(struct task *t, const struct pf_trap *trap);
/* Is @trap an instruction that reads the time stamp counter, and the guest wants it to work? Then
 * it has been carried out. */
bool turns_read_counter(struct task *t, const struct pf_trap *trap);

#endif
