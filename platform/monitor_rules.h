/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the monitor's own seccomp filter lets pass, as a table: the rows with MON of
 * base/hostcall.def, with the meaning of their words. To be included once, by who makes the filter
 * (platform/gen/sentry_filter.c), the document (platform/gen/host_doc.c) or the test
 * (tests/unit/test_monitor_filter.c).
 */
#ifndef MOAT_PLATFORM_MONITOR_RULES_H
#define MOAT_PLATFORM_MONITOR_RULES_H

#include <sys/wait.h>
#include <unistd.h>
#include "platform/monitor_filter.h"
#include "platform/sentry_rules.h"

/* Where a row holds: in all variants, or with one of them. */
#define MON_ALL 0u
#define MON_AUDIT MONITOR_AUDIT
#define MON_SAVE MONITOR_SAVE
#define MON_CGROUP MONITOR_CGROUP
#define MON_LEARN MONITOR_LEARN
#define MON_ONLY_DEBUG 0x100u
#define MON_DEBUG MON_ONLY_DEBUG

/* A descriptor, or the sentry's process. */
#define SLOT_ARG(n, label, slot)                                         \
	{                                                                \
		FILTER_IS32, (n), MONITOR_SLOT(MONITOR_##slot), 0, label \
	}
#define PARENT_ARG(n)                                                         \
	{                                                                     \
		FILTER_ONE_OF, (n), 0, LOW_HALF, "dir is one that holds it",  \
			(const uint64_t[]){MONITOR_SLOT(MONITOR_PARENT),      \
					   MONITOR_SLOT(MONITOR_PARENT + 1),  \
					   MONITOR_SLOT(MONITOR_PARENT + 2),  \
					   MONITOR_SLOT(MONITOR_PARENT + 3)}, \
			4                                                     \
	}

static const struct sentry_rule g_monitor_rules[] = {
#define HOST_TAG(tag, call, who, words_, purpose_)
#define HOST_LIBC(call, who, class_, purpose_)
#define HOST_RUN(tag, call, on_, words_, purpose_, ...)
#define HOST_LIBC_RUN(call, on_, class_, purpose_, ...)
#define HOST_MON(tag, call, on_, words_, purpose_, ...) \
	{.on = MON_##on_, .words = (words_), .rule = RULE(call, purpose_, __VA_ARGS__)},
#define HOST_LIBC_MON(call, on_, class_, purpose_, ...) \
	{.on = MON_##on_, .words = "", .class = #class_, .rule = RULE(call, purpose_, __VA_ARGS__)},
#include "base/hostcall.def"
};

static inline bool monitor_rule_holds(const struct sentry_rule *r, unsigned variant,
				      enum sentry_build build)
{
	if (r->on == MON_ONLY_DEBUG)
		return build >= SENTRY_DEBUG;
	return r->on == MON_ALL || (r->on & variant);
}

#endif
