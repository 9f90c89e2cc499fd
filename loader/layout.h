/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space layout randomisation: how far from their usual places things go. The spread is
 * Linux's on x86-64: 28 bits of pages for mappings and programs, 22 for the stack, 32 MiB for the
 * heap.
 */
#ifndef MOAT_LOADER_LAYOUT_H
#define MOAT_LOADER_LAYOUT_H

#include "base/types.h"

struct layout {
	uint64_t stack_top;   /* page-aligned end of the stack */
	uint64_t mmap_base;   /* mappings go below it, from the top down */
	uint64_t pie_base;    /* of a position-independent program that has an interpreter */
	uint64_t brk_offset;  /* from the end of the program to its heap, whole pages */
	uint64_t vdso_hint;   /* above the stack */
	uint64_t stack_shift; /* bytes within the stack, below 8 KiB */
};

/* @limit: the end of usable addresses; @randomise false: all offsets zero (personality
 * ADDR_NO_RANDOMIZE). */
void layout_choose(uint64_t limit, uint64_t stack_rlimit, bool randomise, struct layout *out);

#endif
