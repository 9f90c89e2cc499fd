/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's figures about a stub, from /proc's texts. See proc_text.h.
 *
 * References: proc(5).
 */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "platform/host_proc.h"
#include "platform/host_ptrace.h"
#include "platform/proc_text.h"

uint64_t pf_text_field(const char *text, const char *label)
{
	const char *p = strstr(text, label);

	return p ? strtoull(p + strlen(label), NULL, 10) : 0;
}

uint64_t pf_text_word(const char *text, unsigned n)
{
	while (*text) {
		while (*text == ' ')
			text++;
		if (--n == 0)
			return strtoull(text, NULL, 10);
		while (*text && *text != ' ')
			text++;
	}
	return 0;
}

bool pf_text_of_thread(const struct pf_text_ops *ops, struct pf_as *as, pid_t tid, const char *name,
		       char *buf, size_t size)
{
	const pid_t pid = ops->enter(as);
	bool there;

	buf[0] = '\0';
	if (pid == 0)
		return false;
	there = pf_host_thread_text(pid, tid, name, buf, size);
	ops->leave(as);
	return there;
}

/* The same of the whole process. */
static bool of_process(const struct pf_text_ops *ops, struct pf_as *as, const char *name, char *buf,
		       size_t size)
{
	const pid_t pid = as ? ops->enter(as) : pf_host_self();
	ssize_t n;

	if (pid == 0)
		return false;
	n = pf_host_proc_rw(pid, name, 0, buf, size - 1, false);
	if (as)
		ops->leave(as);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	return true;
}

void pf_text_mem_stats(const struct pf_text_ops *ops, struct pf_as *as, struct pf_mem_stats *out)
{
	char text[4096];

	memset(out, 0, sizeof(*out));
	if (!of_process(ops, as, "status", text, sizeof(text)))
		return;
	out->rss_bytes = pf_text_field(text, "VmRSS:") << 10;
	out->peak_rss_bytes = pf_text_field(text, "VmHWM:") << 10;
	out->shared_bytes = (pf_text_field(text, "RssFile:") + pf_text_field(text, "RssShmem:"))
			    << 10;
}

void pf_text_usage(const struct pf_text_ops *ops, struct pf_as *as, unsigned what,
		   struct pf_usage *out)
{
	char text[4096];

	memset(out, 0, sizeof(*out));
	if ((what & (PF_USAGE_MEMORY | PF_USAGE_SHARE)) &&
	    of_process(ops, as, "status", text, sizeof(text))) {
		out->anon_bytes = (pf_text_field(text, "RssAnon:") + pf_text_field(text, "VmSwap:"))
				  << 10;
		out->shmem_bytes = pf_text_field(text, "RssShmem:") << 10;
		out->table_bytes = pf_text_field(text, "VmPTE:") << 10;
		out->mapped_bytes = pf_text_field(text, "VmSize:") << 10;
	}
	if ((what & PF_USAGE_SHARE) && of_process(ops, as, "smaps_rollup", text, sizeof(text)) &&
	    strstr(text, "Pss_Anon:"))
		out->anon_bytes =
			(pf_text_field(text, "Pss_Anon:") + pf_text_field(text, "SwapPss:")) << 10;
	if ((what & PF_USAGE_CPU) && of_process(ops, as, "stat", text, sizeof(text))) {
		const char *p = strrchr(text, ')');

		/* In ticks: its own, and those of children that were waited for. */
		for (unsigned n = 12; p && n <= (as ? 13u : 15u); n++)
			out->cpu_ns += pf_text_word(p + 1, n) * (NSEC_PER_SEC / 100);
	}
}

void pf_text_cpu_times(const char *schedstat, const char *stat, struct pf_cpu_times *out)
{
	const uint64_t run_ns = pf_text_word(schedstat, 1);
	/* Words are counted from behind the name, which ends at the last ')'. */
	const char *p = strrchr(stat, ')');

	if (p) {
		const double utime = (double)pf_text_word(p + 1, 12),
			     stime = (double)pf_text_word(p + 1, 13);

		out->minor_faults = pf_text_word(p + 1, 8);
		out->major_faults = pf_text_word(p + 1, 10);
		/* The host samples user and system in ticks; run_ns is exact. */
		if (utime + stime > 0)
			out->system_ns = (uint64_t)((double)run_ns * stime / (utime + stime));
	}
	out->user_ns = run_ns - out->system_ns;
}
