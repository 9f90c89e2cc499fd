/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trap numbers and error codes that are worked out from a signal and an instruction.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include "platform/x86_fault.h"

#define AT ((uint64_t)0x1000)

static const struct pf_regs regs = {.rip = 0x400000,
				    .rax = AT,
				    .rsi = 0x2000,
				    .rdi = AT,
				    .rsp = AT + 8,
				    .rcx = 4,
				    .fs_base = 0xff0};

Test(x86_fault, page_faults)
{
	static const struct {
		const char *what;
		uint8_t insn[15];
		uint64_t addr;
		int code;
		uint64_t error;
	} rows[] = {
		{"mov (%rax),%ebx", {0x8b, 0x18}, AT, SEGV_MAPERR, 4},
		{"mov %ebx,(%rax)", {0x89, 0x18}, AT, SEGV_MAPERR, 6},
		{"mov %ebx,(%rax), read-only", {0x89, 0x18}, AT, SEGV_ACCERR, 7},
		{"mov %ebx,(%rax), its last byte", {0x89, 0x18}, AT + 3, SEGV_MAPERR, 6},
		{"add %ebx,(%rax)", {0x01, 0x18}, AT, SEGV_ACCERR, 7},
		{"rep movsb, destination", {0xf3, 0xa4}, AT, SEGV_MAPERR, 6},
		{"rep movsb, source", {0xf3, 0xa4}, 0x2000, SEGV_MAPERR, 4},
		{"push %rax", {0x50}, AT, SEGV_MAPERR, 6},
		{"push (%rax), source", {0xff, 0x30}, AT, SEGV_MAPERR, 4},
		{"pop %rax", {0x58}, AT + 8, SEGV_MAPERR, 4},
		{"mov %fs:0x10,%ebx", {0x64, 0x8b, 0x1c, 0x25, 0x10}, AT, SEGV_MAPERR, 4},
		{"mov %ebx,%fs:0x10", {0x64, 0x89, 0x1c, 0x25, 0x10}, AT, SEGV_MAPERR, 6},
		{"movaps %xmm0,(%rax)", {0x0f, 0x29, 0x00}, AT + 8, SEGV_MAPERR, 6},
		{"lock cmpxchg %ecx,(%rdi)", {0xf0, 0x0f, 0xb1, 0x0f}, AT, SEGV_ACCERR, 7},
		{"call (%rax), push", {0xff, 0x10}, AT, SEGV_MAPERR, 4},
		{"a jump to nowhere", {0x8b, 0x18}, 0x400000, SEGV_MAPERR, 20},
		{"a jump to data", {0x8b, 0x18}, 0x400000, SEGV_ACCERR, 21},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pf_trap trap = {.kind = TRAP_FAULT,
				       .signo = SIGSEGV,
				       .code = rows[i].code,
				       .addr = rows[i].addr};

		x86_fault_explain(&trap, &regs, rows[i].insn, sizeof(rows[i].insn));
		cr_expect_eq(trap.trapno, 14u, "%s", rows[i].what);
		cr_expect_eq(trap.error_code, rows[i].error, "%s: %lu, not %lu", rows[i].what,
			     (unsigned long)trap.error_code, (unsigned long)rows[i].error);
	}
	/* Nothing could be read: it is what was fetched. */
	struct pf_trap trap = {
		.kind = TRAP_FAULT, .signo = SIGSEGV, .code = SEGV_MAPERR, .addr = 0x400000};
	x86_fault_explain(&trap, &regs, NULL, 0);
	cr_expect_eq(trap.error_code, 20u);
	/* The second page of an instruction. */
	trap = (struct pf_trap){
		.kind = TRAP_FAULT, .signo = SIGSEGV, .code = SEGV_MAPERR, .addr = 0x400003};
	x86_fault_explain(&trap, &regs, (const uint8_t *)"\xe8\x01\x02", 3);
	cr_expect_eq(trap.error_code, 20u);
}

Test(x86_fault, others)
{
	static const struct {
		int signo, code;
		uint8_t insn[15];
		uint64_t trapno;
	} rows[] = {
		{SIGSEGV, SI_KERNEL, {0xf4}, 13},
		{SIGBUS, BUS_ADRALN, {0x8b, 0x18}, 17},
		{SIGBUS, SI_KERNEL, {0x8b, 0x04, 0x24}, 12},
		{SIGBUS, BUS_ADRERR, {0x8b, 0x18}, 14},
		{SIGILL, ILL_ILLOPN, {0x0f, 0x0b}, 6},
		{SIGFPE, FPE_INTDIV, {0xf7, 0xf1}, 0},
		{SIGFPE, FPE_FLTDIV, {0xd8, 0xf1}, 16},
		{SIGFPE, FPE_FLTDIV, {0x0f, 0x5e, 0xc1}, 19},
		{SIGTRAP, SI_KERNEL, {0x90}, 3},
		{SIGTRAP, TRAP_TRACE, {0x90}, 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pf_trap trap = {.kind = TRAP_FAULT,
				       .signo = rows[i].signo,
				       .code = rows[i].code,
				       .addr = AT};

		x86_fault_explain(&trap, &regs, rows[i].insn, sizeof(rows[i].insn));
		cr_expect_eq(trap.trapno, rows[i].trapno, "row %zu: %lu", i,
			     (unsigned long)trap.trapno);
	}
}
