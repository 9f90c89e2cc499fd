/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentry taken over: in a debug build a guest can have the sentry make any host call, to show
 * what that could reach (tests/hostile/takeover.sh). It is in no build that is shipped.
 */
#ifndef MOAT_SENTRY_TAKEOVER_H
#define MOAT_SENTRY_TAKEOVER_H

#include "sentry/task.h"

/* The number of the guest call. */
#define TAKEOVER_NR 7777u

#ifdef MOAT_DEBUG
/* If @nr is that number, makes the host call that the guest's first argument @request leads to, and
 * returns true. */
bool takeover(struct task *t, unsigned nr, uint64_t request, long *ret);
#else
static inline bool takeover(struct task *t UNUSED, unsigned nr UNUSED, uint64_t request UNUSED,
			    long *ret UNUSED)
{
	return false;
}
#endif

#endif
