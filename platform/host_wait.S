/* SPDX-License-Identifier: Apache-2.0 */
/*
 * long pf_host_wait_window(const _Atomic uint32_t *kicked, siginfo_t *si, int which, pid_t tid)
 *
 * waitid, unless *kicked is set. The signal handler of host_ptrace.c moves a thread that it
 * finds between _begin and _syscall, both included, to _end with rax = -EINTR; a thread past the syscall
 * instruction gets -EINTR from the kernel, or its event.
 */
/* WEXITED 4, WSTOPPED 2, WNOWAIT 0x1000000, __WALL 0x40000000, __WNOTHREAD 0x20000000 */
#define FLAGS 0x61000006
#define NR_WAITID 247

	.text
	.globl	pf_host_wait_window
	.type	pf_host_wait_window, @function
	.balign	16
pf_host_wait_window:
	.cfi_startproc
#ifdef __CET__
	endbr64
#endif
	movq	%rdi, %r9
	movl	%edx, %edi
	movq	%rsi, %rdx
	movl	%ecx, %esi
	movl	$FLAGS, %r10d
	xorl	%r8d, %r8d
	.globl	pf_host_wait_window_begin
pf_host_wait_window_begin:
	cmpl	$0, (%r9)
	jne	1f
	movl	$NR_WAITID, %eax
	.globl	pf_host_wait_window_syscall
pf_host_wait_window_syscall:
	syscall
	.globl	pf_host_wait_window_end
pf_host_wait_window_end:
	ret
1:	movq	$-4, %rax			/* -EINTR */
	ret
	.cfi_endproc
	.size	pf_host_wait_window, . - pf_host_wait_window

	.section .note.GNU-stack, "", @progbits
