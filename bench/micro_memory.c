/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro-operations: the memory map.
 */
#include "bench/micro.h"

#include <sys/mman.h>

#define PAGE (4 * KIB)

/* One operation: map, write to each page once, unmap. */
static int run_touch(struct bench *b, const struct op *op, uint64_t n)
{
	(void)b;
	while (n-- > 0) {
		volatile char *p = mmap(NULL, (size_t)op->size, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return -1;
		for (long at = 0; at < op->size; at += PAGE)
			p[at] = 1;
		if (munmap((void *)(uintptr_t)p, (size_t)op->size) != 0)
			return -1;
	}
	return 0;
}

/* Two pages, so that the one in use stays a mapping of its own. */
static int prepare_mprotect(struct bench *b, const struct op *op)
{
	(void)op;
	b->map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->map == MAP_FAILED)
		return -1;
	b->map[0] = b->map[PAGE] = 1;
	return 0;
}

/* One operation is one call; the page is made read-only and writable by turns. */
static int run_mprotect(struct bench *b, const struct op *op, uint64_t n)
{
	(void)op;
	while (n-- > 0)
		if (mprotect(b->map, PAGE, n % 2 ? PROT_READ : PROT_READ | PROT_WRITE) != 0)
			return -1;
	return 0;
}

static int cleanup_mprotect(struct bench *b, const struct op *op)
{
	(void)op;
	return munmap(b->map, 2 * PAGE);
}

const struct op g_memory_ops[] = {
	{.name = "mmap_touch_4k", .run = run_touch, .size = 4 * KIB},
	{.name = "mmap_touch_1m", .run = run_touch, .size = MIB},
	{.name = "mmap_touch_64m", .run = run_touch, .size = 64 * MIB},
	{.name = "mprotect",
	 .prepare = prepare_mprotect,
	 .run = run_mprotect,
	 .cleanup = cleanup_mprotect},
	{.name = NULL},
};
