/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's figures about a stub and its threads, from the texts that /proc gives: what the
 * platforms that have host processes tell of memory and CPU time.
 */
#ifndef MOAT_PLATFORM_PROC_TEXT_H
#define MOAT_PLATFORM_PROC_TEXT_H

#include "platform/platform.h"

/* The number after @label in @text, or 0. */
uint64_t pf_text_field(const char *text, const char *label);
/* The @n-th word (from 1) of @text as a number, or 0. */
uint64_t pf_text_word(const char *text, unsigned n);
/* Fills *out from a process's "status". */
void pf_text_mem_stats(const char *status, struct pf_mem_stats *out);
/* For the platforms' usage: @read_file gives /proc/PID/@name of the process behind @as as a string,
 * or false. */
void pf_text_usage(struct pf_as *as, unsigned what, struct pf_usage *out,
		   bool (*read_file)(struct pf_as *as, const char *name, char *buf, size_t size));
/* Adds to *out the times and faults of a thread, from its "schedstat" and "stat"; not the switches,
 * which platforms count differently. An empty text: the thread is gone, all is 0. */
void pf_text_cpu_times(const char *schedstat, const char *stat, struct pf_cpu_times *out);

#endif
