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
	ucontext_t *uc = ctx;
	greg_t *rip = &uc->uc_mcontext.gregs[REG_RIP];

	if (*rip == (greg_t)(uintptr_t)fault_copy_insn)
		*rip = (greg_t)(uintptr_t)fault_copy_end;
	else
		/* The instruction is executed again, and what is blocked then is the end. (Another
		 * way would be a host call, which the sentry may not make.) */
		sigaddset(&uc->uc_sigmask, sig);
}

void fault_init(void)
{
	const struct sigaction sa = {.sa_sigaction = on_sigbus,
				     .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	(void)HOST(rt_sigaction_own, sigaction(SIGBUS, &sa, NULL));
}
