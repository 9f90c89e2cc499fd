/* SPDX-License-Identifier: Apache-2.0 */
/* Can memory be read? After signal(SIGSEGV, on_fault), and SIGBUS. */
#ifndef TESTS_GUEST_FAULTS_AT_H
#define TESTS_GUEST_FAULTS_AT_H

#include <setjmp.h>
#include <signal.h>

static sigjmp_buf g_jump;

static void on_fault(int sig)
{
	siglongjmp(g_jump, sig);
}

static int faults(volatile char *p)
{
	if (sigsetjmp(g_jump, 1))
		return 1;
	(void)p[0];
	return 0;
}

#endif
