/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Call sites made by hand, and all registers around them.
 *
 * Theory of operation: a platform may rewrite a call site that is hot. What a program can see of it
 * must not change: so code is written byte by byte, entered with every register set (site_in), left
 * by a jump to site_exit, and every register is looked at (site_out). HOT calls are enough for a
 * rewrite whatever the platform's threshold is.
 */
#ifndef TESTS_GUEST_CALL_SITES_H
#define TESTS_GUEST_CALL_SITES_H

#include "guest.h"

#define PAGE 4096ul
#define HOT 120
#define FLAGS_SEEN 0x240dd5ul /* CF PF AF ZF SF TF DF OF AC ID */

enum { RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP, R8, R9, R10, R11, R12, R13, R14, R15, FLAGS, REGS };

extern __thread uint64_t site_in[REGS], site_out[REGS];
extern __thread uint64_t site_rsp, site_target;
__thread uint64_t site_in[REGS], site_out[REGS];
__thread uint64_t site_rsp, site_target;

/* Enters @entry with site_in; returns when that jumps to site_exit. */
void site_call(const void *entry);
extern const char site_exit[];

__asm__(".text\n"
	".globl site_call\n"
	".type site_call, @function\n"
	"site_call:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	"
	"push %r15\n"
	"	mov %rsp, %fs:site_rsp@tpoff\n"
	"	mov %rdi, %fs:site_target@tpoff\n"
	"	pushq %fs:site_in@tpoff+128\n"
	"	popfq\n"
	"	mov %fs:site_in@tpoff+0, %rax\n"
	"	mov %fs:site_in@tpoff+8, %rbx\n"
	"	mov %fs:site_in@tpoff+16, %rcx\n"
	"	mov %fs:site_in@tpoff+24, %rdx\n"
	"	mov %fs:site_in@tpoff+32, %rsi\n"
	"	mov %fs:site_in@tpoff+40, %rdi\n"
	"	mov %fs:site_in@tpoff+48, %rbp\n"
	"	mov %fs:site_in@tpoff+64, %r8\n"
	"	mov %fs:site_in@tpoff+72, %r9\n"
	"	mov %fs:site_in@tpoff+80, %r10\n"
	"	mov %fs:site_in@tpoff+88, %r11\n"
	"	mov %fs:site_in@tpoff+96, %r12\n"
	"	mov %fs:site_in@tpoff+104, %r13\n"
	"	mov %fs:site_in@tpoff+112, %r14\n"
	"	mov %fs:site_in@tpoff+120, %r15\n"
	"	mov %fs:site_in@tpoff+56, %rsp\n"
	"	jmp *%fs:site_target@tpoff\n"
	".globl site_exit\n"
	"site_exit:\n"
	"	mov %rax, %fs:site_out@tpoff+0\n"
	"	mov %rbx, %fs:site_out@tpoff+8\n"
	"	mov %rcx, %fs:site_out@tpoff+16\n"
	"	mov %rdx, %fs:site_out@tpoff+24\n"
	"	mov %rsi, %fs:site_out@tpoff+32\n"
	"	mov %rdi, %fs:site_out@tpoff+40\n"
	"	mov %rbp, %fs:site_out@tpoff+48\n"
	"	mov %rsp, %fs:site_out@tpoff+56\n"
	"	mov %r8, %fs:site_out@tpoff+64\n"
	"	mov %r9, %fs:site_out@tpoff+72\n"
	"	mov %r10, %fs:site_out@tpoff+80\n"
	"	mov %r11, %fs:site_out@tpoff+88\n"
	"	mov %r12, %fs:site_out@tpoff+96\n"
	"	mov %r13, %fs:site_out@tpoff+104\n"
	"	mov %r14, %fs:site_out@tpoff+112\n"
	"	mov %r15, %fs:site_out@tpoff+120\n"
	"	mov %fs:site_rsp@tpoff, %rsp\n"
	"	pushfq\n"
	"	popq %fs:site_out@tpoff+128\n"
	"	pushq $0x202\n"
	"	popfq\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	"
	"pop %rbx\n"
	"	ret\n"
	".size site_call, . - site_call\n");

/* Code that is being written. */
struct code {
	uint8_t *start, *at;
};

static GUEST_UNUSED void put(struct code *c, const void *bytes, size_t n)
{
	memcpy(c->at, bytes, n);
	c->at += n;
}

/* Bytes as a string literal: PUT(c, "\x0f\x05"). */
#define PUT(c, text) put(c, text, sizeof(text) - 1)

static GUEST_UNUSED void put32(struct code *c, uint32_t v)
{
	put(c, &v, sizeof(v));
}

static GUEST_UNUSED void put64(struct code *c, uint64_t v)
{
	put(c, &v, sizeof(v));
}

/* A function: "mov $nr, %eax; syscall; ret", or nr in edi and a nop behind. */
static GUEST_UNUSED void put_before(struct code *c, uint32_t nr)
{
	PUT(c, "\xb8");
	put32(c, nr);
	PUT(c, "\x0f\x05\xc3");
}

static GUEST_UNUSED void put_after(struct code *c, uint32_t nr)
{
	/* mov $nr, %rax: seven bytes; syscall; cmp $1, %rax; ret. */
	PUT(c, "\x48\xc7\xc0");
	put32(c, nr);
	PUT(c, "\x0f\x05\x48\x83\xf8\x01\xc3");
}

static GUEST_UNUSED long call1(const void *f, long arg)
{
	long r;

	__asm__ volatile("call *%1"
			 : "=a"(r)
			 : "r"(f), "D"(arg)
			 : "rcx", "r11", "rdx", "rsi", "memory", "cc");
	return r;
}

/* The way back, which changes no register, and whose operand is aligned: jmp *n(%rip). */
static GUEST_UNUSED void put_exit(struct code *c)
{
	const uint32_t n = -(uint32_t)(uintptr_t)(c->at + 6) & 7;

	PUT(c, "\xff\x25");
	put32(c, n);
	c->at += n;
	put64(c, (uint64_t)site_exit);
}

static GUEST_UNUSED void *map(void *at, size_t size, int prot)
{
	void *p = mmap(at, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	if (p == MAP_FAILED)
		printf("mmap: %s\n", guest_errno(errno));
	return p;
}

/* @size of fresh memory to write code to; then code_done(). */
static GUEST_UNUSED struct code code_new(size_t size)
{
	struct code c = {.start = map(NULL, size, PROT_READ | PROT_WRITE)};

	c.at = c.start;
	return c;
}

static GUEST_UNUSED void code_done(const void *start, size_t size)
{
	if (mprotect((void *)((uintptr_t)start & ~(PAGE - 1)), size, PROT_READ | PROT_EXEC))
		printf("mprotect: %s\n", guest_errno(errno));
}

static __thread uint64_t site_memory[64] __attribute__((aligned(64)));

/* Every register has a value of its own; rbp and rsp point to memory; rdi is no descriptor. */
static GUEST_UNUSED void site_fill(void)
{
	for (unsigned i = 0; i < REGS; i++)
		site_in[i] = 0x0101010101010101ul * (i + 3);
	for (volatile unsigned i = 0; i < GUEST_COUNT(site_memory); i++)
		site_memory[i] = 0x1234567800000000ul + i;
	site_in[RDI] = 0xffffffff;
	site_in[RBP] = (uint64_t)&site_memory[32];
	site_in[RSP] = (uint64_t)&site_memory[48];
	site_in[FLAGS] = 0x202;
}

/* For handlers: sites have no stack to speak of. */
static GUEST_UNUSED void site_stack(void)
{
	const stack_t ss = {.ss_sp = map(NULL, 16 * PAGE, PROT_READ | PROT_WRITE),
			    .ss_size = 16 * PAGE};

	sigaltstack(&ss, NULL);
}

static GUEST_UNUSED uint64_t site_mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x100000001b3ul;
}

static GUEST_UNUSED uint64_t site_plain(uint64_t v, const void *base)
{
	if (v - (uint64_t)base < PAGE)
		return v - (uint64_t)base;
	if (v - (uint64_t)site_memory < sizeof(site_memory))
		return v - (uint64_t)site_memory;
	return v;
}

/* What site_out and the memory say, addresses apart: @base is where the code lies. */
static GUEST_UNUSED uint64_t site_digest(const void *base)
{
	uint64_t h = 0xcbf29ce484222325ul;

	for (unsigned i = 0; i < REGS; i++)
		h = site_mix(h,
			     i == FLAGS ? site_out[i] & FLAGS_SEEN : site_plain(site_out[i], base));
	for (unsigned i = 0; i < GUEST_COUNT(site_memory); i++)
		h = site_mix(h, site_plain(site_memory[i], base));
	return h;
}

/* How many registers are not what a system call that returned @rax to @after leaves. */
static GUEST_UNUSED int site_wrong(const void *after, uint64_t rax)
{
	int wrong = 0;

	for (unsigned i = 0; i < REGS; i++) {
		uint64_t want = site_in[i];

		if (i == RAX)
			want = rax;
		else if (i == RCX)
			want = (uint64_t)after;
		else if (i == R11)
			want = site_in[FLAGS];
		wrong += site_out[i] != want;
	}
	return wrong;
}

#define NR_CLOSE 3
#define EBADF_RAX ((uint64_t)-9)

#endif
