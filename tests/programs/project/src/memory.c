/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"
#include <stdio.h>
#include <stdlib.h>

static void *check(void *p)
{
	if (!p) {
		fputs("rpl: no memory\n", stderr);
		exit(3);
	}
	return p;
}

void *memory_new(size_t size)
{
	return check(calloc(1, size));
}

void *memory_grow(void *p, size_t size)
{
	return check(realloc(p, size));
}
