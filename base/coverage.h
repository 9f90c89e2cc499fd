/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coverage build (m=cov): gcov writes its counters when a process runs exit(3)'s handlers. A
 * process that must leave by _exit calls coverage_write before. Nothing in other builds.
 */
#ifndef MOAT_BASE_COVERAGE_H
#define MOAT_BASE_COVERAGE_H

#ifdef MOAT_COVERAGE
void __gcov_dump(void); /* libgcov's */

static inline void coverage_write(void)
{
	__gcov_dump();
}
#else
static inline void coverage_write(void)
{
}
#endif

#endif
