/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit on the share of processors. See runtime/cpu_share.h.
 */
#include "runtime/cpu_share.h"

#include <errno.h>
#include <sched.h>
#include "base/hostcall.h"
#include "sentry/grant.h"

bool cpu_share_is_whole(uint64_t percent)
{
	return percent == GRANT_NO_LIMIT || percent % 100 == 0;
}

uint64_t cpu_share_cpus(uint64_t percent)
{
	return percent / 100 + (percent % 100 != 0);
}

int cpu_share_apply(struct err *e)
{
	const uint64_t percent = grant_limit(GRANT_LIMIT_cpu_share);
	uint64_t left = cpu_share_cpus(percent);
	cpu_set_t set;

	if (percent == GRANT_NO_LIMIT)
		return 0;
	if (HOST(sched_getaffinity_monitor, sched_getaffinity(0, sizeof(set), &set)) != 0)
		return err_set(e, errno, "cpu_share: %s", err_text(errno));
	/* The last ones: the first is what all else on a host is put on. */
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		if (left > 0)
			left--;
		else
			CPU_CLR(cpu, &set);
	}
	if (HOST(sched_setaffinity_monitor, sched_setaffinity(0, sizeof(set), &set)) != 0)
		return err_set(e, errno, "cpu_share: %s", err_text(errno));
	return 0;
}
