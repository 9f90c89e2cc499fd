/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The platforms' host calls: what they must not be talked into.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include "platform/host_ptrace.h"
#include "platform/host_spawn.h"
#include "platform/platform.h"

/* An address space whose process was never made has no pid. */
Test(platform_host, kill_of_nobody)
{
	cr_expect_eq(pf_host_kill(0, 0), -ESRCH);
	cr_expect_eq(pf_host_kill(-1, 0), -ESRCH);
	cr_expect_eq(pf_host_kill(-getpgrp(), 0), -ESRCH);
	cr_expect_eq(pf_host_kill(getpid(), 0), 0);
}

/* A stub that ends before its first word: what is said why. */
Test(platform_host, who_was_killed_at_the_start_is_not_refused_by_the_host)
{
	struct err e = {{0}};
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	cr_assert_gt(pid, 0);
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(pf_host_no_start(pid, &e), -EPIPE);
	cr_assert_str_eq(e.text, PF_KILLED);
	cr_assert(g_pf_killed);
	pf_host_reap(pid);
	pid = fork();
	if (pid == 0)
		_exit(1);
	cr_assert_eq(pf_host_no_start(pid, &e), -ENOEXEC);
	pf_host_reap(pid);
}
