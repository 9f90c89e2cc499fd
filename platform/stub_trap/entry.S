/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trap stub's assembly: where execve and signals enter, guest threads' one host call, and the agent.
 *
 * The agent is the first thread of each stub process. It makes the host calls that the sentry orders, from
 * the order page, which the stub can only read. It holds all state in registers and uses no stack, since any
 * memory that it could write the guest could write too. What it reports must reach the sentry past the guest
 * as well: it seeks a descriptor of which the sentry holds a duplicate to an offset that says it all
 * (TS_REPORT_*); the word in the first area that it sets then is only a bell.
 *
 * The guest's threads may jump anywhere here. Their filter lets pass no call of the agent's, and at
 * TS_GUEST_IP only futex, rt_sigreturn, arch_prctl of fs and gs, exit, and mmap, munmap and mprotect of guest memory: each does
 * what it likes to the guest itself and nothing else, whatever its arguments (platform/trap_rules.c).
 *
 * Most children of a fork end or execute something before they need an agent. So such a child's first thread is
 * the guest's (TS_ALONE), and the agent is made when the sentry has the first order for it: the guest thread
 * clones it at the gate (TS_E_GATE), the one place where it may, with arguments that leave no choice. The new
 * thread is not confined (the host drops that in clone), but the next instruction is ours, it has no stack on which
 * a signal's handler could run, blocks all signals first, uses nothing that was in its registers, and ends
 * its process unless the order page, which the guest cannot write, says that an agent is wanted (TS_SPAWN), and
 * a page at TS_CLAIM, which guest threads cannot unmap, says that it is the first.
 */
#include "platform/stub_trap/layout.h"

	.macro	slot	offset
	.org	\offset, 0xcc
	.endm

	.section .text.entry, "ax", @progbits
	.globl	_start
_start:
	slot	TS_E_START
	xorl	%ebp, %ebp
	leaq	keeper_stack_top(%rip), %rsp
	call	keeper_main
	int3

/* A signal's handler: rdi signal, rsi siginfo, rdx ucontext; on the area's alternate stack. The frame lies
 * at rsp, eight bytes below the ucontext. */
	slot	TS_E_SIGNAL
	jmp	ts_on_signal

/* rax, rdi, rsi, rdx, r10, r8, r9. The only host call of guest threads. */
	slot	TS_E_CALL
	.globl	ts_call_insn
ts_call_insn:
	syscall
	ret

/* rax: clone, and its arguments: rdi TS_CLONE_AGENT, rsi TS_NO_STACK. Nothing else passes. Whatever a guest
 * thread has in its registers, what it clones is the agent, in the agent's code. */
	slot	TS_E_GATE
	.globl	ts_gate_insn
ts_gate_insn:
	syscall
	testq	%rax, %rax
	jz	.Lspawned
	ret

/* Atomic operations: rdi address, esi argument, edx operation (enum atomic_op), eax expected value. Out: eax:
 * the old value, ecx 0; or ecx 1 after a fault, which ts_on_signal sends to TS_E_ATOMIC_FAULT. No stack. */
	slot	TS_E_ATOMIC
	.globl	ts_atomic_insns
ts_atomic_insns:
	xorl	%ecx, %ecx
	cmpl	$0, %edx
	je	10f
	cmpl	$1, %edx
	je	11f
	cmpl	$2, %edx
	je	12f
	movl	(%rdi), %eax
20:	movl	%eax, %r8d
	cmpl	$3, %edx
	je	13f
	cmpl	$4, %edx
	je	14f
	xorl	%esi, %r8d
	jmp	21f
13:	orl	%esi, %r8d
	jmp	21f
14:	andl	%esi, %r8d			/* the sentry inverts the argument */
21:	lock cmpxchgl %r8d, (%rdi)
	jne	20b
	ret
10:	lock cmpxchgl %esi, (%rdi)
	ret
11:	movl	%esi, %eax
	xchgl	%eax, (%rdi)
	ret
12:	movl	%esi, %eax
	lock xaddl %eax, (%rdi)
	ret
	slot	TS_E_ATOMIC_FAULT
	movl	$1, %ecx
	ret

/* --- The agent --- */

	slot	TS_AGENT

/* A child of the keeper: becomes a zygote, or an address space. r12: the areas' descriptor; r14: slots,
 * as KEEPER_SLOTS; r15: 1: make a guest thread. All signals are blocked. */
	.globl	ts_keeper_child
ts_keeper_child:
	xorl	%esp, %esp
	movl	$110, %eax			/* getppid */
	syscall
	movq	%rax, %r13
	movabsq	$TS_DATA, %rdi
	movl	$TS_DATA_SIZE, %esi
	movl	$11, %eax			/* munmap */
	syscall
	testq	%rax, %rax
	jnz	.Ldie
	movl	$1, %edi			/* SECCOMP_SET_MODE_FILTER */
	movabsq	$TS_CONFIG, %rdx
	movq	TS_C_FLAGS(%rdx), %rsi
	addq	$TS_C_AGENT, %rdx
	movl	$317, %eax			/* seccomp */
	syscall
	testq	%rax, %rax
	jnz	.Ldie
	movq	%r12, %r8
	movzwl	%r14w, %r12d
	imulq	$TS_ORDERS_SIZE, %r12, %r12
	shrl	$16, %r14d
	imulq	$TS_AREA_SIZE, %r14, %rbp
	movl	%r15d, %ebx
	jmp	.Lsetup

/* A fork's child. r12, rbp: offsets of its order page and first area; r8: the areas' descriptor; r13: the
 * parent; rbx: 1. */
.Lchild:
	movl	$1, %ebx
.Lsetup:
	movl	$1, %edi			/* PR_SET_PDEATHSIG */
	movl	$9, %esi
	movl	$157, %eax			/* prctl */
	syscall
	movl	$110, %eax			/* getppid: did it die before that? */
	syscall
	cmpq	%r13, %rax
	jne	.Ldie
	movq	%r8, %r13
	/* The areas first: none was inherited. */
	movabsq	$TS_AREAS, %rdi
	movl	$TS_AREA_SIZE, %esi
	movl	$3, %edx
	movl	$0x11, %r10d			/* MAP_SHARED | MAP_FIXED */
	movq	%rbp, %r9
	movl	$9, %eax			/* mmap */
	syscall
	cmpq	$-4095, %rax
	jae	.Ldie
	movl	$10, %edx			/* MADV_DONTFORK */
	movl	$28, %eax			/* madvise */
	syscall
	testq	%rax, %rax
	jnz	.Ldie
	movabsq	$TS_ORDERS, %rdi
	movl	$TS_ORDERS_SIZE, %esi
	movl	$1, %edx
	movl	$0x11, %r10d
	movl	$TS_FD_ORDERS, %r8d
	movq	%r12, %r9
	movl	$9, %eax
	syscall
	cmpq	$-4095, %rax
	jae	.Ldie
	movl	$10, %edx
	movl	$28, %eax
	syscall
	testq	%rax, %rax
	jnz	.Ldie
	movabsq	$TS_ORDERS, %r15
	xorl	%r14d, %r14d
	testl	%ebx, %ebx
	jz	.Lreport_ok			/* a zygote: report 0 */
	/* The first guest thread: area 0, its fs base in the order page. */
	movabsq	$TS_AREAS, %r13
	testl	$TS_ALONE, TS_O_ALONE(%r15)
	jz	1f
	movl	TS_A_STATE(%r13), %eax		/* as below */
	jmp	.Lguest				/* it is this one, and tells nobody */
1:	movq	TS_O_ARG1(%r15), %r8
	jmp	.Lthread

/* A thread that has come through the gate: the agent, if one is wanted and this is the first. All registers
 * may have any value. */
.Lspawned:
	movl	$2, %edi			/* SIG_SETMASK: before anything else */
	leaq	.Lall_signals(%rip), %rsi
	xorl	%edx, %edx
	movl	$8, %r10d
	movl	$14, %eax			/* rt_sigprocmask */
	syscall
	testq	%rax, %rax
	jnz	.Ldie
	movabsq	$TS_ORDERS, %r15
	testl	$TS_SPAWN, TS_O_ALONE(%r15)
	jz	.Ldie
	movabsq	$TS_CLAIM, %rdi
	movl	$TS_CLAIM_SIZE, %esi
	xorl	%edx, %edx
	movl	$0x100022, %r10d		/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE */
	movq	$-1, %r8
	xorl	%r9d, %r9d
	movl	$9, %eax			/* mmap */
	syscall
	cmpq	%rdi, %rax
	jne	.Ldie
	movl	$10, %edx			/* MADV_DONTFORK */
	movl	$28, %eax			/* madvise */
	syscall
	testq	%rax, %rax
	jnz	.Ldie
	/* What it forks must find there what the first of all agents had: see ts_thread_main. */
	movl	$0x1001, %edi			/* ARCH_SET_GS */
	movabsq	$TS_AREAS, %rsi
	movl	$158, %eax			/* arch_prctl */
	syscall
	testq	%rax, %rax
	jnz	.Ldie
	/* "It is here": then it does what the page orders, which may take long. */
	xorl	%r14d, %r14d
	movl	TS_O_RESULT_FD(%r15), %edi
	xorl	%esi, %esi
	xorl	%edx, %edx
	movl	$8, %eax			/* lseek */
	syscall
	jmp	.Lloop
	.balign	8
.Lall_signals:
	.quad	-1

.Ldie:	movl	$1, %edi
	movl	$231, %eax			/* exit_group */
	syscall
	jmp	.Ldie

.Lloop:	movl	TS_O_SEQ(%r15), %eax
	cmpl	%r14d, %eax
	jne	1f
	movq	%r15, %rdi
	xorl	%esi, %esi			/* FUTEX_WAIT */
	movl	%r14d, %edx
	xorl	%r10d, %r10d
	movl	$202, %eax			/* futex */
	syscall
	jmp	.Lloop
1:	movl	%eax, %r14d
	movl	TS_O_OP(%r15), %eax
	cmpl	$TS_OP_FORK, %eax
	je	.Lfork
	leaq	TS_O_LIST(%r15), %rbx
	movl	TS_O_SIZE(%r15), %r12d
	addq	%rbx, %r12
	cmpq	%r12, %rbx
	jae	4f
2:	movq	0(%rbx), %rax
	movq	8(%rbx), %rdi
	movq	16(%rbx), %rsi
	movq	24(%rbx), %rdx
	movq	32(%rbx), %r10
	movq	40(%rbx), %r8
	movq	48(%rbx), %r9
	syscall
	cmpq	$-4095, %rax
	jae	3f
	addq	$64, %rbx
	cmpq	%r12, %rbx
	jb	2b
4:	cmpl	$TS_OP_THREAD, TS_O_OP(%r15)
	je	.Lnew
	xorl	%eax, %eax
3:	negl	%eax
	leaq	TS_O_LIST(%r15), %rcx
	subq	%rcx, %rbx
	shrq	$6, %rbx
	jmp	.Lreport

.Lnew:	movq	TS_O_ARG0(%r15), %r13
	movq	TS_O_ARG1(%r15), %r8
.Lthread:
	/* The host answers a fault of reading with all pages around that are there, writable; those of writing
	 * would come one by one. */
	movl	TS_A_STATE(%r13), %eax
	movl	$TS_CLONE_THREAD, %edi
	xorl	%esi, %esi
	xorl	%edx, %edx
	leaq	TS_A_TID(%r13), %r10
	movl	$56, %eax			/* clone */
	syscall
	testq	%rax, %rax
	jz	.Lguest
.Lreport_pid:
	movl	$TS_REPORT_PID, %ebx
	testq	%rax, %rax
	jns	.Lreport
	negq	%rax
	movl	TS_O_SIZE(%r15), %ebx		/* all of the batch: what it has mapped is there */
	shrl	$6, %ebx
	jmp	.Lreport
.Lreport_ok:
	xorl	%eax, %eax
	xorl	%ebx, %ebx
/* eax: errno or pid; ebx: orders done. */
.Lreport:
	movl	%eax, %eax
	/* After the report the page may change. */
	movq	TS_O_RELEASE(%r15), %r12
	movl	TS_O_FLAGS(%r15), %r13d
	cmpl	$TS_REPORT_PID, %ebx
	je	8f
	testl	%eax, %eax
	jnz	5f
8:	andl	$~TS_OF_SURE, %r13d		/* no error: as promised */
5:
	movl	%r14d, %esi
	andl	$TS_REPORT_SEQ_MASK, %esi
	shlq	$(TS_REPORT_SEQ_SHIFT - TS_REPORT_DONE_SHIFT), %rsi
	orq	%rbx, %rsi
	shlq	$TS_REPORT_DONE_SHIFT, %rsi
	orq	%rax, %rsi
	movl	TS_O_RESULT_FD(%r15), %edi
	xorl	%edx, %edx
	movl	$8, %eax			/* lseek */
	syscall
	testl	$TS_OF_SURE, %r13d
	jnz	.Ldie
	movabsq	$(TS_AREAS + TS_A_AGENT), %rdi
	movl	$TS_POSTED, %eax
	xchgl	%eax, (%rdi)
	cmpl	$TS_BELL, %eax
	jne	6f
	movl	$1, %esi			/* FUTEX_WAKE */
	movl	$1, %edx
	movl	$202, %eax
	syscall
6:	testq	%r12, %r12
	jz	.Lloop
	movl	$TS_HOP_DONE, %eax
	xchgl	%eax, TS_A_HOP(%r12)
	cmpl	$TS_HOP_SLEEPS, %eax
	jne	7f
	leaq	TS_A_HOP(%r12), %rdi
	movl	$1, %esi
	movl	$1, %edx
	movl	$202, %eax
	syscall
7:	testl	$TS_OF_WAKE, %r13d
	jz	.Lloop
	leaq	TS_A_STATE(%r12), %rdi
	movl	$1, %esi
	movl	$1, %edx
	movl	$202, %eax
	syscall
	jmp	.Lloop

.Lfork:	movl	$110, %eax			/* getppid */
	syscall
	movq	%rax, %r13
	movq	TS_O_ARG0(%r15), %r12
	movq	TS_O_ARG1(%r15), %rbp
	movl	$TS_CLONE_FORK, %edi
	xorl	%esi, %esi
	xorl	%edx, %edx
	xorl	%r10d, %r10d
	movq	TS_O_AREAS_FD(%r15), %r8
	movl	$56, %eax
	syscall
	testq	%rax, %rax
	jz	.Lchild
	jmp	.Lreport_pid

/* A new guest thread: confines itself before it touches memory that the guest can write. The sentry has put a
 * request on its behalf into its area. */
.Lguest:
	movabsq	$TS_SHARED, %rdx
	cmpl	$0, TS_S_DISPATCH(%rdx)
	je	9f
	movl	$TS_PR_DISPATCH, %edi
	movl	$TS_PR_DISPATCH_ON, %esi
	movabsq	$(TS_TEXT + TS_GUEST_IP), %rdx
	movl	$TS_GUEST_SPAN, %r10d		/* the range's size */
	xorl	%r8d, %r8d			/* no word that switches it off */
	movl	$157, %eax			/* prctl */
	syscall
	testq	%rax, %rax
	jnz	.Ldie
	jmp	10f
9:	movl	$1, %edi
	movabsq	$TS_CONFIG, %rdx
	movq	TS_C_FLAGS(%rdx), %rsi
	addq	$TS_C_GUEST, %rdx
	movl	$317, %eax
	syscall
	testq	%rax, %rax
	jnz	.Ldie
10:	movq	%r13, %rdi
	leaq	TS_A_NEW_FRAME(%r13), %rsp
	andq	$-16, %rsp
	call	ts_thread_main
	int3

	slot	TS_AGENT_END

/* Calls from rewritten sites, by way of their trampolines: rcx. See fast_entry.S. */
	slot	TS_FAST
	jmp	ts_fast_entry

/* Copies. rdi, rsi, rdx: to, from, bytes; eax: 0, or -1 after a fault. ts_store_two: rsi and rdx to (rdi).
 * ts_copy_str: at most edx bytes; eax: how many with the NUL, 0: there was none. ts_touch: rdi may be written.
 * ts_xsave: the vector state of esi to rdi; ts_xinit: that of edi is what a program begins with. */
	slot	TS_E_COPY
	.globl	ts_copy
ts_copy:
	movq	%rdx, %rcx
	xorl	%eax, %eax
	rep movsb
	ret
	.globl	ts_zero
ts_zero:
	movq	%rsi, %rcx
	xorl	%eax, %eax
	rep stosb
	ret
	.globl	ts_store_two
ts_store_two:
	xorl	%eax, %eax
	movq	%rsi, (%rdi)
	movq	%rdx, 8(%rdi)
	ret
	.globl	ts_copy_str
ts_copy_str:
	xorl	%eax, %eax
1:	cmpl	%edx, %eax
	jae	3f
	movzbl	(%rsi,%rax), %ecx
	movb	%cl, (%rdi,%rax)
	incl	%eax
	testl	%ecx, %ecx
	jnz	1b
	ret
3:	xorl	%eax, %eax
	ret
	.globl	ts_touch
ts_touch:
	xorl	%eax, %eax
	lock orb $0, (%rdi)
	ret
	.globl	ts_xsave
ts_xsave:
	movl	%esi, %eax
	xorl	%edx, %edx
	xsave64	(%rdi)
	xorl	%eax, %eax
	ret
	.globl	ts_xinit
ts_xinit:
	movl	%edi, %eax
	xorl	%edx, %edx
	xrstor64 initial_state(%rip)
	ret
	slot	TS_E_COPY_FAULT
	movl	$-1, %eax
	ret

/* In use: nothing; but MXCSR is loaded all the same. The processor looks at where the rest would be (stub.lds). */
	.section .text.initial, "ax", @progbits
	.balign	64
initial_state:
	.zero	24
	.long	0x1f80
	.zero	TS_XSAVE_HEAD - 28

	.section .note.GNU-stack, "", @progbits
