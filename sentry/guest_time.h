/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks as the guest names them, and conversions of its time structs.
 */
#ifndef MOAT_SENTRY_GUEST_TIME_H
#define MOAT_SENTRY_GUEST_TIME_H

#include "base/lx_time.h"
#include "sentry/task.h"

/* Nanoseconds of a guest clock as @t sees it. -EINVAL: no such clock (or no such process behind
 * it). */
int guest_clock_read(struct task *t, int clockid, uint64_t *ns) MUST_USE;
/* What a wall or monotonic clock and the monotonic one show at the same moment. -EINVAL for others.
 */
int guest_clock_with_mono(int clockid, uint64_t *ns, uint64_t *mono) MUST_USE;
/* The monotonic deadline for @ns on @clockid (absolute or relative). Saturates at DEADLINE_NONE.
 * Only for wall and monotonic clocks: -EINVAL for others. */
int guest_clock_deadline(int clockid, bool absolute, uint64_t ns, uint64_t *deadline) MUST_USE;
/* True for CPU-time clocks; *group: that of a process. *of: a reference to the thread, NULL for
 * @t's own. */
bool guest_clock_is_cpu(int clockid);
/* Reads a CPU clock; *parallel: how many threads may advance it at once. -EINVAL: gone, or not @t's
 * to see. */
int guest_cpu_clock(struct task *t, int clockid, uint64_t *ns, unsigned *parallel) MUST_USE;

/* A timespec as nanoseconds; saturates; false if it is not valid (negative, or nsec out of range).
 */
bool timespec_to_ns(const struct lx_timespec *ts, uint64_t *ns) MUST_USE;
struct lx_timespec ns_to_timespec(uint64_t ns);
struct lx_timeval ns_to_timeval(uint64_t ns);

#endif
