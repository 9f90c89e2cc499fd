/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's lock-down. See platform/monitor_filter.h.
 */
#include "platform/monitor_filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* BPF_JMP | BPF_JEQ | BPF_K. */
#define BPF_IS_EQUAL 0x15

struct sentry_insn *monitor_program(unsigned variant, const int slots[MONITOR_SLOTS])
{
	const struct sentry_program *p = &g_monitor_programs[variant];
	struct sentry_insn *copy = malloc(p->count * sizeof(*copy));

	if (!copy)
		return NULL;
	memcpy(copy, p->insns, p->count * sizeof(*copy));
	for (unsigned i = 0; i < p->count; i++) {
		const uint32_t slot = copy[i].k - MONITOR_SLOT(0);

		if (copy[i].code == BPF_IS_EQUAL && slot < MONITOR_SLOTS)
			copy[i].k = (uint32_t)slots[slot];
	}
	return copy;
}

int monitor_lock_down(unsigned variant, const int slots[MONITOR_SLOTS], struct err *e)
{
	struct sentry_insn *copy = monitor_program(variant, slots);
	const struct sentry_program p = {.insns = copy, .count = g_monitor_programs[variant].count};

	if (!copy)
		return err_set(e, ENOMEM, "the monitor: no memory for its seccomp filter");
	return filter_take(&p, true, e);
}
