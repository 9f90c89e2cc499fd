/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the whole sandbox.
 */
#include "base/host_memory.h"
#include "base/meter.h"
#include "sentry/task.h"

#include <string.h>

struct kernel g_kernel;

void kernel_init(void)
{
	memset(&g_kernel, 0, sizeof(g_kernel));
	mutex_init(&g_kernel.tasklist, RANK_TASKLIST);
	mutex_init(&g_kernel.uts, RANK_MISC);
	g_kernel.pid_max = 32768;
	g_kernel.tasks_max = TASKS_MAX;
	g_kernel.cpus = 1;
	g_kernel.memory_bytes = (uint64_t)1 << 30;
	strcpy(g_kernel.hostname, "moat");
	strcpy(g_kernel.domainname, "(none)");
	g_kernel.boot_mono_ns = clock_mono_ns();
}

uint64_t kernel_memory_free(void)
{
	const uint64_t total = g_kernel.memory_bytes;

	return MIN(host_memory_free(), total - MIN(meter_current(METER_memory), total));
}
