/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit on the share of processors.
 *
 * Theory of operation: a sandbox that may use N processors is bound to N of those that the caller
 * may use, before it is started; what it starts inherits that, and nothing in it can widen it.
 * What is left of a part of a processor is the cgroup's (runtime/cgroup.h).
 */
#ifndef MOAT_RUNTIME_CPU_SHARE_H
#define MOAT_RUNTIME_CPU_SHARE_H

#include "base/err.h"
#include "base/types.h"

/* Can the share be held by binding alone? */
bool cpu_share_is_whole(uint64_t percent);
/* How many processors it takes. */
uint64_t cpu_share_cpus(uint64_t percent);
/* Binds the calling process as the grant says. 0, or -errno and *e. */
int cpu_share_apply(struct err *e) MUST_USE;

#endif
