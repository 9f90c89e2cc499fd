/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that blocks all signals of its host thread by a signal frame of its own (the host's
 * rt_sigreturn, at the one address of the trap platform's stub from which it passes) and computes
 * for ever: it can be killed all the same. Elsewhere that address is nothing, and the process dies
 * of SIGSEGV.
 */
#include <ucontext.h>
#include "hostile.h"

#define STUB_CALL 0x7ffff0010080ul

static char g_stack[65536] __attribute__((aligned(64)));

static void spin(void)
{
	for (;;)
		__asm__ volatile("pause");
}

static void block_all(void)
{
	/* As the kernel's struct ucontext, which ends with an eight byte mask. */
	static struct {
		uint64_t flags, link;
		stack_t stack;
		uint64_t regs[18]; /* r8 … eflags */
		uint16_t cs, gs, fs, ss;
		uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
		uint64_t mask;
	} uc __attribute__((aligned(64)));

	uc.flags = 6;
	uc.stack.ss_flags = SS_DISABLE;
	uc.regs[15] = (uint64_t)(g_stack + sizeof(g_stack) - 8);
	uc.regs[16] = (uint64_t)spin;
	uc.regs[17] = 0x202;
	uc.cs = 0x33;
	uc.ss = 0x2b;
	uc.mask = ~0ull;
	__asm__ volatile("movq %0, %%rsp\n\tjmp *%1"
			 :
			 : "r"(&uc), "r"(STUB_CALL), "a"(15L)
			 : "memory");
}

int main(void)
{
	struct timespec ts = {.tv_nsec = 200000000};
	int status = 0;
	pid_t pid;

	hostile_begin();
	pid = fork();
	if (pid == 0) {
		block_all();
		_exit(0);
	}
	nanosleep(&ts, NULL);
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)) {
		printf("status %#x\n", status);
		return 1;
	}
	return 0;
}
