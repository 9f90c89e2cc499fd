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
#include "hostile.h"

#include <sys/prctl.h>

#define STUB_CALL (STUB_REGION + 0x10080)

struct frame {
	uint64_t flags, link;
	stack_t stack;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip,
		eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
	uint64_t mask;
	char info[128];
};

static char g_stack[65536] __attribute__((aligned(64)));
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
		f.flags = 6;
		f.rsp = (uint64_t)&g_stack[32768] - 8;
		f.rip = (uint64_t)touch;
		f.eflags = 0x202;
		f.cs = 0x33;
		f.ss = 0x2b;
		f.mask = ~UINT64_C(0);
		__asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tjmp *%1" ::"r"(&f),
				 "r"(STUB_CALL)
				 : "memory");
	}
	*(volatile char *)g_text = 'w';
	raise(SIGSEGV);
	return 1;
}
