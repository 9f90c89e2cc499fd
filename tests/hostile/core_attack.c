/* SPDX-License-Identifier: Apache-2.0 */
/* hostile-part-of: cores.sh */
/*
 * core_attack HOW: dies and leaves a core, or tries to.
 *
 *   dump      of a signal whose action is to dump
 *   host      of a signal of the host's kernel's, in the host's process: all signals are blocked by
 *             a frame of ours for the host's rt_sigreturn (trap, notify), then memory that is not
 *             there is touched. Elsewhere it is an ordinary death.
 */
#include "host_frame.h"

#include <sys/prctl.h>

char g_text[] = "what the guest knows";

static void touch(void)
{
	*(volatile int *)8 = 1;
	for (;;)
		;
}

int main(int argc, char **argv)
{
	const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	static struct frame f;

	hostile_begin();
	setrlimit(RLIMIT_CORE, &all);
	prctl(PR_SET_DUMPABLE, 1);
	if (argc == 2 && strcmp(argv[1], "host") == 0) {
		frame_fill(&f, touch, ~UINT64_C(0));
		host_sigreturn(&f);
	}
	*(volatile char *)g_text = 'w';
	raise(SIGSEGV);
	return 1;
}
