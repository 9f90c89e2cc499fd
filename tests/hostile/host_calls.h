/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's calls by the trap stub's instruction, and calls of the sentry's by the stub's own
 * means.
 */
#ifndef TESTS_HOSTILE_HOST_CALLS_H
#define TESTS_HOSTILE_HOST_CALLS_H

#include "hostile.h"
#include <stdatomic.h>

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

/* Makes a call by its own area, as the stub does for a rewritten site, and does nothing of what the
 * reply asks for. */
static HOSTILE_UNUSED void call_by_hand(long nr, const uint64_t arg[6])
{
	_Atomic uint32_t *state = (_Atomic uint32_t *)STUB_AREA;
	volatile uint64_t *regs = (volatile uint64_t *)(STUB_AREA + 0x240);

	for (int i = 0; i < 17; i++)
		regs[i] = 0;
	for (int i = 0; i < 6; i++)
		regs[i] = arg[i];
	regs[6] = (uint64_t)nr;
	regs[7] = (uint64_t)call_by_hand;
	regs[17] = 0; /* no windows */
	*(volatile uint32_t *)(STUB_AREA + 0xc0) = 0x100;
	if (atomic_exchange(state, 1) == 3) {
		uint64_t r = 202;

		/* It sleeps. */
		__asm__ volatile("call *%1"
				 : "+a"(r)
				 : "r"(STUB_CALL), "D"(state), "S"(1L), "d"(1L)
				 : "rcx", "r11", "memory", "cc");
	}
	while (atomic_load(state) == 1 || atomic_load(state) == 2)
		;
}

#endif
