/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stub's text: all code that can make a host call in a process that runs guest code.
 *
 * Theory of operation: a thread gets here only when the sentry sets its registers and resumes it with host
 * calls on (ptrace: PTRACE_CONT); guest code that jumps here runs with host calls off, so that a syscall
 * instruction here is one like any other. Each routine keeps all state in registers, touches no memory but
 * the order page (read-only for every stub), and ends in int3, which gives the thread back to the sentry.
 * After the int3 comes the same routine again or another int3: a resume at the end runs nothing new.
 */
#include "platform/stub/layout.h"

	.macro	slot	offset
	.org	\offset, 0xcc
	.endm

	.macro	clone	flags
2:	movl	$\flags, %edi
	xorl	%esi, %esi
	xorl	%edx, %edx
	xorl	%r10d, %r10d
	xorl	%r8d, %r8d
	movl	$56, %eax			/* clone */
	syscall
	int3
	jmp	2b
	.endm

	.section .text.entry, "ax", @progbits
	.globl	_start
_start:
	slot	STUB_E_START
	xorl	%ebp, %ebp
	leaq	keeper_stack_top(%rip), %rsp
	call	keeper_main
	int3

/* rbx: first order; r12: end of orders. Out: rbx: the order that failed, or r12; rax: its result.
 * rbx and r12 are the sentry's own; the guest had no hand in them. */
	slot	STUB_E_BATCH
.Lbatch:
	movq	0(%rbx), %rax
	movq	8(%rbx), %rdi
	movq	16(%rbx), %rsi
	movq	24(%rbx), %rdx
	movq	32(%rbx), %r10
	movq	40(%rbx), %r8
	movq	48(%rbx), %r9
	syscall
	cmpq	$-4095, %rax
	jae	1f
	addq	$64, %rbx
	cmpq	%r12, %rbx
	jb	.Lbatch
1:	int3
	int3

/* r9: offset of this address space's page in the orders file; rbx, r12 as for E_BATCH. The page is not
 * inherited by a fork: the child gets its own this way. Out: rbx < STUB_ORDERS if this part failed. */
	slot	STUB_E_ATTACH
	movq	%rbx, %r13
	xorl	%ebx, %ebx
	movabsq	$STUB_ORDERS, %rdi
	movl	$STUB_ORDERS_SIZE, %esi
	movl	$1, %edx			/* PROT_READ */
	movl	$0x11, %r10d			/* MAP_SHARED | MAP_FIXED */
	movl	$STUB_FD_ORDERS, %r8d
	movl	$9, %eax			/* mmap */
	syscall
	cmpq	$-4095, %rax
	jae	1f
	movl	$10, %edx			/* MADV_DONTFORK */
	movl	$28, %eax			/* madvise */
	syscall
	cmpq	$-4095, %rax
	jae	1f
	movq	%r13, %rbx
	jmp	.Lbatch
1:	int3
	int3

/* Removes what the keeper had, and takes the filter of stubs. Out: rax: 0, or -errno. */
	slot	STUB_E_FINISH
	movabsq	$STUB_DATA, %rdi
	movl	$STUB_DATA_SIZE, %esi
	movl	$11, %eax			/* munmap */
	syscall
	testq	%rax, %rax
	jnz	1f
	movl	$1, %edi			/* SECCOMP_SET_MODE_FILTER */
	movabsq	$STUB_CONFIG, %rdx
	movq	32(%rdx), %rsi			/* seccomp_flags */
	addq	$16, %rdx			/* .guest */
	movl	$317, %eax			/* seccomp */
	syscall
	testq	%rax, %rax
	jnz	1f
	movabsq	$STUB_CONFIG, %rdi
	movl	$STUB_CONFIG_SIZE, %esi
	movl	$11, %eax
	syscall
1:	int3
	int3

/* Out: rax: the child's pid, or -errno. The child is stopped before its first instruction. */
	slot	STUB_E_FORK
	clone	STUB_CLONE_FORK

	slot	STUB_E_THREAD
	clone	STUB_CLONE_THREAD

	slot	STUB_E_EXIT
	xorl	%edi, %edi
	movl	$60, %eax			/* exit */
	syscall
	int3
	int3

/* A fault here is the guest's address: the sentry sees the signal and says EFAULT. */
	slot	STUB_E_CMPXCHG			/* eax: expected */
	lock cmpxchgl %esi, (%rdi)
	int3
	int3
	slot	STUB_E_XCHG
	movl	%esi, %eax
	xchgl	%eax, (%rdi)
	int3
	int3
	slot	STUB_E_ADD
	movl	%esi, %eax
	lock xaddl %eax, (%rdi)
	int3
	int3

	.macro	atomic	op
	movl	(%rdi), %eax
1:	movl	%eax, %edx
	\op	%esi, %edx
	lock cmpxchgl %edx, (%rdi)
	jne	1b
	int3
	int3
	.endm

	slot	STUB_E_OR
	atomic	orl
	slot	STUB_E_ANDN			/* the sentry inverts the argument */
	atomic	andl
	slot	STUB_E_XOR
	atomic	xorl

	slot	STUB_E_CALL			/* rax, rdi, rsi, rdx, r10, r8, r9 */
	syscall
	int3
	int3

	slot	STUB_E_PARK
1:	movl	$34, %eax			/* pause */
	syscall
	jmp	1b

	slot	STUB_E_END
	.globl	stub_park
	.set	stub_park, _start + STUB_E_PARK

	.section .note.GNU-stack, "", @progbits
