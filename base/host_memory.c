/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory the host has left.
 */
#include "base/host_memory.h"
#include "base/hostcall.h"

#include <sys/sysinfo.h>

uint64_t host_memory_free(void)
{
	struct sysinfo si;

	if (HOST(sysinfo_memory, sysinfo(&si)) != 0)
		return 0;
	return ((uint64_t)si.freeram + si.bufferram) * si.mem_unit;
}
