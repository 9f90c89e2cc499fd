/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of pages for files in memory: pages are zero, whoever had them before, and what is free
 * goes back to the host but for a little.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sanitizer.h"
#include "vfs/tmpfs_pages.h"

#define MANY 1200u /* more than two chunks have */

static void *g_page[MANY];

static void fill(unsigned count)
{
	static const uint8_t zeros[MOAT_PAGE_SIZE];

	for (unsigned i = 0; i < count; i++) {
		g_page[i] = tmpfs_page_alloc();
		cr_assert_not_null(g_page[i]);
		cr_assert_eq(memcmp(g_page[i], zeros, sizeof(zeros)), 0, "page %u of %u", i, count);
		memset(g_page[i], 0x5a, MOAT_PAGE_SIZE);
	}
	cr_assert_eq(tmpfs_pages_in_use(), count);
}

/* Every third first: pages go back in no order. */
static void empty(unsigned count)
{
	for (unsigned from = 0; from < 3; from++) {
		for (unsigned i = from; i < count; i += 3)
			tmpfs_page_free(g_page[i]);
	}
	cr_assert_eq(tmpfs_pages_in_use(), 0);
}

/* The counts lie below, at and above what the spare chunk keeps and a chunk has. */
Test(tmpfs_pages, always_zero)
{
	static const unsigned counts[] = {1, 7, 62, 63, 64, 65, 200, 510, 511, 512, MANY, 3, 63, 1};

	for (unsigned i = 0; i < ARRAY_SIZE(counts); i++) {
		fill(counts[i]);
		empty(counts[i]);
	}
}

/* Pages of the chunk that holds @page which the host has in memory. */
static unsigned resident(const void *page)
{
	const uintptr_t chunk = (uintptr_t)page & ~(uintptr_t)((2 << 20) - 1);
	unsigned char in[(2 << 20) / MOAT_PAGE_SIZE];
	unsigned n = 0;

	cr_assert_eq(mincore((void *)chunk, 2 << 20, in), 0);
	for (size_t i = 0; i < sizeof(in); i++)
		n += in[i] & 1;
	return n;
}

Test(tmpfs_pages, spare_keeps_little)
{
	if (MOAT_ASAN)
		cr_skip_test("AddressSanitizer keeps freed pages back");
	fill(400);
	const void *first = g_page[0];

	cr_expect_geq(resident(first), 400);
	empty(400);
	cr_expect_leq(resident(first), 64);
	fill(40);
	empty(40);
	/* The same ones as before. */
	cr_expect_eq((uintptr_t)g_page[0] >> 21, (uintptr_t)first >> 21);
	cr_expect_geq(resident(first), 40);
}
