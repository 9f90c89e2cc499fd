/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The platforms' host calls: what they must not be talked into.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>
#include "platform/host_ptrace.h"

/* An address space whose process was never made has no pid. */
Test(platform_host, kill_of_nobody)
{
	cr_expect_eq(pf_host_kill(0, 0), -ESRCH);
	cr_expect_eq(pf_host_kill(-1, 0), -ESRCH);
	cr_expect_eq(pf_host_kill(-getpgrp(), 0), -ESRCH);
	cr_expect_eq(pf_host_kill(getpid(), 0), 0);
}
