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

/* How the process behind an address space is found. */
struct pf_text_ops {
	/* Its pid, which becomes no stranger's until leave(); 0: it is gone. */
	pid_t (*enter)(struct pf_as *as);
	void (*leave)(struct pf_as *as);
};
/* /proc/PID/task/@tid/@name as a string. False, and "": no such thread. */
bool pf_text_of_thread(const struct pf_text_ops *ops, struct pf_as *as, pid_t tid, const char *name,
		       char *buf, size_t size);
/* What platforms tell of memory; @as NULL in the latter: of the sentry itself. */
void pf_text_mem_stats(const struct pf_text_ops *ops, struct pf_as *as, struct pf_mem_stats *out);
void pf_text_usage(const struct pf_text_ops *ops, struct pf_as *as, unsigned what,
		   struct pf_usage *out);
/* Adds to *out the times and faults of a thread, from its "schedstat" and "stat"; not the switches,
 * which platforms count differently. An empty text: the thread is gone, all is 0. */
void pf_text_cpu_times(const char *schedstat, const char *stat, struct pf_cpu_times *out);

#endif
