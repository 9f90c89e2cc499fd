/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy of base/fault.c, whose one instruction that touches memory has a known address. A signal
 * in the middle of it finds in rcx how much is left to do.
 */
	.text

/* size_t fault_copy(void *dst, const void *src, size_t size) */
	.globl	fault_copy
	.hidden	fault_copy
	.type	fault_copy, @function
	.globl	fault_copy_insn
	.hidden	fault_copy_insn
	.globl	fault_copy_end
	.hidden	fault_copy_end
	.p2align 4
fault_copy:
	.cfi_startproc
	endbr64
	movq	%rdx, %rcx
fault_copy_insn:
	rep movsb
fault_copy_end:
	movq	%rcx, %rax
	ret
	.cfi_endproc
	.size	fault_copy, . - fault_copy

#include "base/ibt_note.inc"
