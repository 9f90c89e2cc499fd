/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moat says it is: uname(2), /proc/version. A release that programs take for a current Linux;
 * not the host's.
 */
#ifndef MOAT_SENTRY_UTS_H
#define MOAT_SENTRY_UTS_H

#define UTS_RELEASE "6.12.0-moat"
#define UTS_VERSION "#1 SMP PREEMPT_DYNAMIC moat"

struct task;
/* The 390 bytes of struct new_utsname as @t sees them. */
void task_uname(struct task *t, void *out);

#endif
