/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's calls by the trap stub's instruction, and calls of the sentry's by the stub's own
 * means.
 */
#ifndef TESTS_HOSTILE_HOST_CALLS_H
#define TESTS_HOSTILE_HOST_CALLS_H

#include "hostile.h"
#include <stdatomic.h>
#include <stdbool.h>
#include "platform/stub_trap/layout.h"

#define STUB_CALL (STUB_REGION + 0x10080)
#define STUB_AREA (STUB_REGION + 0x1000000)

/* By the stub's instruction: the host's, if the filter lets it pass; else it comes to the sentry.
 */
static HOSTILE_UNUSED long host_call(long nr, const uint64_t arg[6])
{
	register uint64_t r10 __asm__("r10") = arg[3];
	register uint64_t r8 __asm__("r8") = arg[4];
	register uint64_t r9 __asm__("r9") = arg[5];
	long r;

	__asm__ volatile("call *%1"
			 : "=a"(r)
			 : "r"(STUB_CALL), "0"(nr), "D"(arg[0]), "S"(arg[1]), "d"(arg[2]), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory", "cc");
	return r;
}

static HOSTILE_UNUSED long host_munmap(uint64_t addr, uint64_t size)
{
	return host_call(SYS_munmap, (uint64_t[6]){addr, size});
}

/* Only where call sites are rewritten. */
static HOSTILE_UNUSED bool has_trampolines(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, "[trampoline]") != NULL;
	if (f)
		fclose(f);
	return found;
}

/* Posts a call by its own area, as the stub does for a rewritten site. */
static HOSTILE_UNUSED void post_by_hand(long nr, const uint64_t arg[6])
{
	struct ts_area *area = (struct ts_area *)STUB_AREA;
	volatile uint64_t *regs = (volatile uint64_t *)(STUB_AREA + TS_F_REGS);

	for (int i = 0; i < 16; i++)
		regs[i] = 0;
	for (int i = 0; i < 6; i++)
		regs[i] = arg[i];
	regs[6] = (uint64_t)nr;
	regs[7] = (uint64_t)post_by_hand;
	for (int i = 0; i < 4; i++)
		area->arg[i] = arg[i];
	if ((uint32_t)atomic_exchange(
		    &area->post, (TS_KIND_FAST | (uint64_t)(nr + 1) << TS_KIND_NUMBER_SHIFT) << 32 |
					 TS_POSTED) == TS_BELL) {
		uint64_t r = SYS_futex;

		/* It sleeps. */
		__asm__ volatile("call *%1"
				 : "+a"(r)
				 : "r"(STUB_CALL), "D"(area), "S"(1L), "d"(1L)
				 : "rcx", "r11", "memory", "cc");
	}
}

/* The same, and does nothing of what the reply asks for. */
static HOSTILE_UNUSED void call_by_hand(long nr, const uint64_t arg[6])
{
	struct ts_area *area = (struct ts_area *)STUB_AREA;

	post_by_hand(nr, arg);
	while (atomic_load(&area->state) == TS_POSTED || atomic_load(&area->state) == TS_WAITS)
		;
}

#endif
