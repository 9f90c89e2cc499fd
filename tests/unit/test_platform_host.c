/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The platforms' host calls: what they must not be talked into.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "platform/host_ptrace.h"
#include "platform/host_spawn.h"
#include "platform/platform.h"
#include "platform/ptrace.h"

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

/* Before there is any other stub its end of the socket is closed with it. */
Test(platform_host, a_keeper_that_was_killed_is_known_to_be)
{
	struct err e = {{0}};
	struct pt_file *file;
	const int fd = memfd_create("test", MFD_CLOEXEC);
	siginfo_t si;
	FILE *f;
	int pid;

	cr_assert_geq(fd, 0);
	cr_assert_eq(pt_orders_start(&e), 0, "%s", e.text);
	cr_assert_eq(pt_keeper_spawn(&e), 0, "%s", e.text);
	cr_assert_eq(stub_keeper_wait(NULL, &e), 0, "%s", e.text);
	f = fopen("/proc/thread-self/children", "r");
	cr_assert(f && fscanf(f, "%d", &pid) == 1);
	fclose(f);
	cr_assert_eq(pt_files_get(&fd, 1, &file), 0);
	cr_assert_not(g_pf_killed);
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT | __WALL), 0);
	cr_assert_eq(pt_files_get(&fd, 1, &file), -EIO);
	cr_assert(g_pf_killed);
	pt_keeper_stop();
}
