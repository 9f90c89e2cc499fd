/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit on the share of processors.
 *
 * Theory of operation: a sandbox that may use N processors is bound to N of those that the caller
 * may use, before it is started; what it starts inherits that, and nothing in it can widen it.
 * Shares of a processor would need a cgroup, and are refused.
 */
#ifndef MOAT_RUNTIME_CPU_SHARE_H
#define MOAT_RUNTIME_CPU_SHARE_H

#include "base/err.h"
#include "base/types.h"

/* Can the share be held? */
bool cpu_share_is_whole(uint64_t percent);
/* Binds the calling process as the grant says. 0, or -errno and *e. */
int cpu_share_apply(struct err *e) MUST_USE;

#endif
