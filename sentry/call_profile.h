/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of the guest's calls goes: `moat run --profile-calls`.
 *
 * The task's loop and the dispatch call these only while g_call_profile is set.
 */
#ifndef MOAT_SENTRY_CALL_PROFILE_H
#define MOAT_SENTRY_CALL_PROFILE_H

#include <stdio.h>
#include "base/types.h"

struct task;
struct pf_trap;

/* Read-only but for call_profile_start(). */
extern bool g_call_profile;

/* Once, before the platform is started and before other threads are. */
void call_profile_start(void);

/* The guest has trapped. */
void call_profile_trap(struct task *t, const struct pf_trap *trap);
/* Its call's handler begins, ends; the guest is about to go on. */
void call_profile_begin(struct task *t);
void call_profile_done(struct task *t);
void call_profile_resume(struct task *t);
/* It will not go on. */
void call_profile_end(struct task *t);

/* When all workers have ended: a line of names, then a line for each call that was measured; fields
 * end with tabs. */
void call_profile_write(FILE *out);

#endif
