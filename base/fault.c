/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that survive SIGBUS. See base/fault.h.
 *
 * Theory of operation: the copy is one instruction (base/fault_copy.S). The handler looks whether
 * that is where the signal came from, and if so lets the thread go on behind it. Any other SIGBUS
 * is our own bug, and kills us as it would without a handler.
 */
#include "base/fault.h"
#include "base/hostcall.h"

#include <signal.h>
#include <ucontext.h>

extern const char fault_copy_insn[], fault_copy_end[];

static void on_sigbus(int sig, siginfo_t *info UNUSED, void *ctx)
{
	greg_t *rip = &((ucontext_t *)ctx)->uc_mcontext.gregs[REG_RIP];

	if (*rip == (greg_t)(uintptr_t)fault_copy_insn)
		*rip = (greg_t)(uintptr_t)fault_copy_end;
	else
		/* The instruction is executed again, and then it is the end. */
		HOST(rt_sigaction_own, signal(sig, SIG_DFL));
}

void fault_init(void)
{
	const struct sigaction sa = {.sa_sigaction = on_sigbus,
				     .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	(void)HOST(rt_sigaction_own, sigaction(SIGBUS, &sa, NULL));
}
