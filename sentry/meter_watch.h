/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the host can tell: how much memory guests really use, and processor time.
 *
 * Theory of operation: memory is counted by what was touched, and that the host knows. Nobody
 * looks while it cannot matter: only when what is mapped, and what is charged to METER_memory
 * besides, could exceed the limit (memory_might_exceed) a thread starts to look, and it looks again
 * when the rest could be used up at the earliest, so that an idle sandbox costs nothing. What asks
 * for more memory than is left gets ENOMEM: than is left when all is used that was allowed since
 * the last look, or there is another look. Who has pages filled in (mlock, MAP_POPULATE, madvise)
 * asks for those that are not there, and nobody else has any filled in meanwhile (mm_advise.c).
 * Should the limit be passed all the same (memory that was mapped before is touched), the process
 * that uses most is killed. A cgroup (runtime/cgroup.h) stands behind that where the host gives
 * one.
 *
 * What processes share after a fork is counted whole for each at first; when the sum is over the
 * limit their true shares are asked for, which is dear.
 *
 * Processor time is looked at by the same thread, if it is limited: when it could be used up at the
 * earliest. Past it all of the sandbox is killed.
 *
 * Locking: g_watch.lock is held while the host is asked; mm->lock may be held by the caller.
 */
#ifndef MOAT_SENTRY_METER_WATCH_H
#define MOAT_SENTRY_METER_WATCH_H

#include "base/err.h"
#include "base/types.h"

struct mm;

/* After meters_start and before the first guest. 0 or -errno. */
int meter_watch_start(void) MUST_USE;
/* After the last guest; what was used is in the meters then. */
void meter_watch_stop(void);

/* May @more bytes be mapped that will be used? Counts the refusal. */
bool meter_watch_allows(uint64_t more);
/* For a report: what is used now is in the meters then, unless the host was asked a moment ago. */
void meter_watch_look(void);
/* @mm has its address space; will lose it. */
void meter_watch_add(struct mm *mm);
void meter_watch_remove(struct mm *mm);

#endif
