/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The switch between two stacks. What the x86-64 ABI lets a callee change is lost, as in any call;
 * the rest is saved on the old stack: callee-saved registers, and the control words of SSE and x87.
 * Signal masks, and the rest of the vector state, are not a fiber's own.
 */
	.text

/* void fiber_switch_stack(void **save_sp, void *to_sp) */
	.globl	fiber_switch_stack
	.hidden	fiber_switch_stack
	.type	fiber_switch_stack, @function
	.p2align 4
fiber_switch_stack:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbx, 0
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r12, 0
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r13, 0
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r14, 0
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r15, 0
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)

	/* The other stack has the same frame on it, so the unwind rules stay right. */
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp

	ldmxcsr	(%rsp)
	fldcw	4(%rsp)
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%r15
	.cfi_adjust_cfa_offset -8
	popq	%r14
	.cfi_adjust_cfa_offset -8
	popq	%r13
	.cfi_adjust_cfa_offset -8
	popq	%r12
	.cfi_adjust_cfa_offset -8
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	fiber_switch_stack, . - fiber_switch_stack

/* Where a new fiber begins: fiber_main(%rbx), which does not return. */
	.globl	fiber_entry
	.hidden	fiber_entry
	.type	fiber_entry, @function
	.p2align 4
fiber_entry:
	.cfi_startproc
	/* Unwinders stop here. */
	.cfi_undefined rip
	endbr64
	movq	%rbx, %rdi
	call	fiber_main
	ud2
	.cfi_endproc
	.size	fiber_entry, . - fiber_entry

#include "base/ibt_note.inc"
