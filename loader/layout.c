/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space layout randomisation.
 */
#include "loader/layout.h"
#include "base/hash.h"

#define STACK_RANDOM_PAGES 0x3fffffull
#define MMAP_RANDOM_BITS 28
#define BRK_RANDOM_BYTES (32ull << 20)
/* The room above the stack in which the vDSO is looked for. */
#define VDSO_ROOM (16ull << 20)
#define STACK_GAP (256ull * MOAT_PAGE_SIZE)
/* Where programs that may lie anywhere are put: two thirds up, as Linux has it. */
#define PIE_BASE page_down(0x7ffffffff000 / 3 * 2)

/* Random numbers below n; all come from one request. */
struct dice {
	uint64_t v[6];
	unsigned used;
};

static uint64_t below(struct dice *d, uint64_t n)
{
	return d->v[d->used++] % n;
}

void layout_choose(uint64_t limit, uint64_t stack_rlimit, bool randomise, struct layout *out)
{
	uint64_t gap, pad, r = randomise;
	struct dice d = {.used = 0};

	guest_random_bytes(GUEST_RANDOM_LAYOUT, d.v, sizeof(d.v));
	pad = (STACK_RANDOM_PAGES << PAGE_SHIFT) + STACK_GAP + VDSO_ROOM;
	out->stack_top = limit - VDSO_ROOM - r * (below(&d, STACK_RANDOM_PAGES) << PAGE_SHIFT);
	out->vdso_hint = out->stack_top + MOAT_PAGE_SIZE +
			 r * (below(&d, (VDSO_ROOM >> PAGE_SHIFT) / 2) << PAGE_SHIFT);
	/* Room for the stack to grow, whatever its limit will be. */
	gap = MAX(stack_rlimit, 128ull << 20);
	gap = gap > limit / 6 * 5 - pad ? limit / 6 * 5 : gap + pad;
	out->mmap_base =
		page_down(limit - gap) - r * (below(&d, 1ull << MMAP_RANDOM_BITS) << PAGE_SHIFT);
	out->pie_base = PIE_BASE + r * (below(&d, 1ull << MMAP_RANDOM_BITS) << PAGE_SHIFT);
	out->brk_offset = r * page_down(below(&d, BRK_RANDOM_BYTES));
	out->stack_shift = r * below(&d, 8192);
}
