/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the guest's own making for the host's rt_sigreturn, which the trap stub's instruction
 * makes and its filter lets pass.
 */
#ifndef TESTS_HOSTILE_HOST_FRAME_H
#define TESTS_HOSTILE_HOST_FRAME_H

#include "host_calls.h"

/* The host's signal frame, from where rt_sigreturn finds it (behind the return address). */
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

/* Goes on at @rip with this mask. */
static void frame_fill(struct frame *f, void (*rip)(void), uint64_t mask)
{
	memset(f, 0, sizeof(*f));
	f->flags = 6;
	f->rsp = (uint64_t)&g_stack[32768] - 8;
	f->rip = (uint64_t)rip;
	f->eflags = 0x202;
	f->cs = 0x33;
	f->ss = 0x2b;
	f->mask = mask;
}

static void host_sigreturn(struct frame *f)
{
	__asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tjmp *%1" ::"r"(f), "r"(STUB_CALL)
			 : "memory");
}

#endif
