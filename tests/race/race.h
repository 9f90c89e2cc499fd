/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For race tests: plain programs that make many threads or fibers meet, and that any build can run,
 * TSan's above all. A program exits 0 if all is well, 77 if it cannot run here.
 */
#ifndef MOAT_TESTS_RACE_H
#define MOAT_TESTS_RACE_H

#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include "base/sanitizer.h"

#define RACE_SKIPPED 77

/* Ends the program when @cond does not hold. Any thread or fiber. */
#define race_check(cond)                                                           \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			_Exit(1);                                                  \
		}                                                                  \
	} while (0)

/* @n rounds in a plain build, fewer where each costs more. */
static inline unsigned race_rounds(unsigned n)
{
	return MOAT_TSAN ? n / 10 + 1 : MOAT_ASAN ? n / 3 + 1 : n;
}

/* One of the @n numbers from 0 on; the same row of them for the same *@seed. */
static inline unsigned race_random(unsigned *seed, unsigned n)
{
	*seed = *seed * 1103515245u + 12345u;
	return (*seed >> 9) % n;
}

#endif
