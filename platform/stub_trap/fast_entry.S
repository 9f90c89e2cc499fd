/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where calls from rewritten sites enter and leave the trap stub.
 *
 * In: rax: number; r11: the trampoline; rcx: scratch; all else is the guest's. A syscall instruction destroys
 * rcx and r11 and nothing else, so those two are what there is to work with, and no flag may change before
 * they are saved. GS should point to the thread's area. The guest may have pointed it elsewhere, or nowhere:
 * then the first load faults, and ts_on_signal either mends it or sends the thread to the slow way; or the cookie is
 * wrong. All that is written here the guest could write as well.
 *
 * From ts_fast_leave to ts_fast_leave_end all of the guest's state is in the area: an interrupt that comes
 * there finds the call done (ts_on_signal).
 */
#include "platform/stub_trap/layout.h"

	.section .text.fast, "ax", @progbits
	.globl	ts_fast_entry
ts_fast_entry:
	movq	%gs:TS_F_COOKIE, %rcx		/* may fault: the first instruction */
	leaq	-TS_COOKIE(%rcx), %rcx
	jrcxz	1f
	.globl	ts_fast_slow
ts_fast_slow:
	leaq	TS_SLOT_SLOW(%r11), %rcx
	jmp	*%rcx
#define X(name, number, field, offset, index) ts_to_##name: jmp ts_word_##name;
	TS_WORDS(X)
#undef X
1:
#define X(name, number, field, offset, index) leal -number(%rax), %ecx; jrcxz ts_to_##name;
	TS_WORDS(X)
#undef X
	.globl	ts_fast_enter
ts_fast_enter:					/* r11: the trampoline; it is no call of these */
	movq	%gs:TS_F_SELF, %rcx
	movq	%rdi, TS_F_RDI(%rcx)
	movq	%rsi, TS_F_RSI(%rcx)
	movq	%rdx, TS_F_RDX(%rcx)
	movq	%r10, TS_F_R10(%rcx)
	movq	%r8, TS_F_R8(%rcx)
	movq	%r9, TS_F_R9(%rcx)
	movq	%rax, TS_F_NR(%rcx)
	movq	%rbx, TS_F_RBX(%rcx)
	movq	%rbp, TS_F_RBP(%rcx)
	movq	%r12, TS_F_R12(%rcx)
	movq	%r13, TS_F_R13(%rcx)
	movq	%r14, TS_F_R14(%rcx)
	movq	%r15, TS_F_R15(%rcx)
	movq	%rsp, TS_F_RSP(%rcx)
	leaq	TS_A_FAST_TOP(%rcx), %rsp
	pushfq
	popq	TS_F_FLAGS(%rcx)
	movq	TS_SLOT_AFTER(%r11), %rdx
	movq	TS_SLOT_RESUME(%r11), %rsi
	movq	%rdx, TS_F_AFTER(%rcx)
	movq	%rsi, TS_F_RESUME(%rcx)
	movq	%rcx, %rbx
	movq	%rcx, %rdi
	cld
	call	ts_fast_call			/* its result is in TS_F_RAX */
	.globl	ts_fast_leave
ts_fast_leave:
	cmpl	$0, TS_F_INTR(%rbx)
	jne	2f
	pushq	TS_F_FLAGS(%rbx)
	popfq
	movq	TS_F_RDI(%rbx), %rdi
	movq	TS_F_RSI(%rbx), %rsi
	movq	TS_F_RDX(%rbx), %rdx
	movq	TS_F_R10(%rbx), %r10
	movq	TS_F_R8(%rbx), %r8
	movq	TS_F_R9(%rbx), %r9
	movq	TS_F_RAX(%rbx), %rax
	movq	TS_F_AFTER(%rbx), %rcx
	movq	TS_F_FLAGS(%rbx), %r11
	movq	TS_F_RSP(%rbx), %rsp
	movq	TS_F_RBX(%rbx), %rbx
	jmp	*%gs:TS_F_RESUME
	.globl	ts_fast_leave_end
ts_fast_leave_end:
2:	movq	%rbx, %rdi
	movl	$TS_INTERRUPT_SIGNAL, %esi
	call	ts_fast_frame
	int3

/* Calls whose answer is a word of what was published (TS_WORDS): no register is saved but by keeping off it,
 * and no flag is changed. r11: the trampoline. An interrupt before the tail sends the thread back there, to make the
 * call again; later it finds the call done (ts_on_signal). */
	.macro	jump	to			/* of a size that the assembler knows at once */
	.byte	0xe9
	.long	\to - . - 4
	.endm

	.macro	at	offset
	.if	. - 11b - \offset
	.error	"layout.h says that this is at \offset"
	.endif
	.endm

	.macro	word	name, number, offset, index
11:	movq	%gs:TS_F_COOKIE, %rcx		/* may fault: the first instruction */
	leaq	-TS_COOKIE(%rcx), %rcx
	jrcxz	ts_word_\name
	jump	ts_fast_slow
	at	TS_WORD_CHECKED
ts_word_\name:
	movl	%gs:TS_A_ANSWERS, %ecx		/* the epoch: is it still the same? */
	notl	%ecx
	movl	ts_shared(%rip), %eax
	leal	1(%rcx,%rax), %ecx
	jrcxz	12f
	movl	$\number, %eax
	jump	ts_fast_enter
12:	movl	%gs:(TS_A_ANSWERS + \offset), %eax
	movq	%gs:(TS_A_COUNTS + 8 * \index), %rcx
	leaq	1(%rcx), %rcx
	movq	%rcx, %gs:(TS_A_COUNTS + 8 * \index)
	movq	TS_SLOT_RESUME(%r11), %rcx
	movq	%rcx, %gs:TS_F_RESUME
	movq	TS_SLOT_AFTER(%r11), %rcx
	at	TS_WORD_TAIL
	movq	%rsp, %r11			/* as a syscall instruction does: the flags into r11 */
	movq	%gs:TS_F_TOP, %rsp
	at	TS_WORD_STACK
	pushfq
	movq	%r11, %rsp
	at	TS_WORD_STACK_END
	movq	%gs:(TS_A_FAST_TOP - 8), %r11
	jmp	*%gs:TS_F_RESUME
	.org	11b - ts_words + TS_WORD_SIZE, 0xcc
	.endm

	.section .text.words, "ax", @progbits
ts_words:
#define X(name, number, field, offset, index) word name, number, offset, index;
	TS_WORDS(X)
#undef X

	.section .text.fast, "ax", @progbits

/* long ts_direct_wait(void *addr, uint32_t op, uint32_t val, struct ts_area *a): a futex wait, unless an interrupt has
 * come. One that comes from here on finds the thread between ts_direct_wait and ts_direct_end, or at the call itself, and
 * ts_on_signal ends it with -EINTR. */
	.globl	ts_direct_wait
ts_direct_wait:
	xorl	%r10d, %r10d
	cmpl	$0, TS_F_INTR(%rcx)
	jne	ts_direct_abort
	movl	$202, %eax			/* futex */
	call	ts_call_insn
	.globl	ts_direct_end
ts_direct_end:
	ret
	.globl	ts_direct_abort
ts_direct_abort:
	movq	$-4, %rax			/* -EINTR */
	ret

	.section .note.GNU-stack, "", @progbits
