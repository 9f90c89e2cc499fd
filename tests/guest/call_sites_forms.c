/* SPDX-License-Identifier: Apache-2.0 */

/* Call sites in all forms, made hot: registers, flags and memory after each call; entries at the
 * second instruction; faults of the instruction behind a call. */
#include "call_sites.h"
#include <ucontext.h>

struct form {
	const char *name;
	const char *before, *after; /* bytes around the syscall instruction */
	uint8_t before_size, after_size;
};

#define FORM(name, before, after)                                          \
	{                                                                  \
		name, before, after, sizeof(before) - 1, sizeof(after) - 1 \
	}

/* rax: the number of close, rdi: no descriptor. Those without "mov $3" get rax from site_in. */
static const struct form g_forms[] = {
	FORM("mov", "\xb8\x03\x00\x00\x00", ""),
	FORM("mov, cmp", "\xb8\x03\x00\x00\x00", "\x48\x3d\x01\xf0\xff\xff"),
	FORM("mov, 7 bytes", "\x48\xc7\xc0\x03\x00\x00\x00", ""),
	FORM("push, pop", "\x6a\x03\x58", "\x48\x89\xc3"),
	FORM("xor, mov al", "\x31\xc0\xb0\x03", "\x48\x89\xc3"),
	FORM("cmp", "", "\x48\x3d\x01\xf0\xff\xff"),
	FORM("cmp, short", "", "\x48\x83\xf8\xf7"),
	FORM("nothing", "", ""),
	FORM("mov rbx", "", "\x48\x89\xc3"),
	FORM("mov to memory", "", "\x48\x89\x45\xf8"),
	FORM("mov from memory", "", "\x48\x8b\x5d\xf8"),
	FORM("mov constant to memory", "", "\x48\xc7\x45\xf0\x78\x56\x34\x12"),
	FORM("mov with sib", "", "\x4c\x89\x64\x24\x08"),
	FORM("lea rsp", "", "\x48\x8d\x5c\x24\x10"),
	FORM("lea rip", "", "\x48\x8d\x1d\x05\x00\x00\x00"),
	FORM("mov rip", "", "\x48\x8b\x1d\xf9\xff\xff\xff"),
	FORM("cmp rip", "", "\x48\x3b\x1d\xf9\xff\xff\xff"),
	FORM("endbr64", "", "\xf3\x0f\x1e\xfa"),
	FORM("nop 4", "", "\x0f\x1f\x40\x00"),
	FORM("nop 6", "", "\x66\x0f\x1f\x44\x00\x00"),
	FORM("nop 9", "", "\x66\x0f\x1f\x84\x00\x00\x00\x00\x00"),
	FORM("nop 1", "", "\x90\x90\x90\x90"),
	FORM("nop 2", "", "\x66\x90\x66\x90\x66\x90"),
	FORM("cmov", "", "\x48\x0f\x44\xd8"),
	FORM("cmovb", "", "\x48\x0f\x42\xd8"),
	FORM("shl", "", "\x48\xc1\xe0\x04"),
	FORM("sar", "", "\x48\xc1\xf8\x04"),
	FORM("rcl", "", "\x48\xc1\xd0\x04"),
	FORM("bswap", "", "\x48\x0f\xc8"),
	FORM("bt", "", "\x48\x0f\xa3\xc3"),
	FORM("movsxd", "", "\x48\x63\xd8"),
	FORM("movzx", "", "\x48\x0f\xb6\xd8"),
	FORM("test", "", "\x48\x85\xc0"),
	FORM("test 2", "", "\x85\xc0\x85\xc0"),
	FORM("setz", "", "\x0f\x94\xc3"),
	FORM("adc", "", "\x48\x11\xc3"),
	FORM("sbb", "", "\x48\x19\xdb"),
	FORM("neg", "", "\x48\xf7\xd8"),
	FORM("imul", "", "\x48\x0f\xaf\xd8"),
	FORM("xchg", "", "\x48\x87\xd8"),
	FORM("lock add", "", "\xf0\x48\x01\x45\xf8"),
	FORM("lock cmpxchg", "", "\xf0\x48\x0f\xb1\x5d\xf8"),
	FORM("movabs", "", "\x48\xbb\x88\x77\x66\x55\x44\x33\x22\x11"),
	FORM("use of rcx and r11", "", "\x49\x89\xcb\x4c\x89\xdb"),
	FORM("add r11", "", "\x4c\x01\xdb"),
	FORM("stmxcsr", "", "\x0f\xae\x5d\xf0"),
	FORM("movaps", "", "\x0f\x28\xc1"),
	FORM("fnstcw", "", "\xd9\x7d\xf0"),
	FORM("enter", "", "\xc8\x10\x00\x00"),
	FORM("push", "", "\x68\x11\x22\x33\x04"),
	FORM("pop", "", "\x41\x5c\x41\x5d"),
	FORM("call, pop", "", "\xe8\x00\x00\x00\x00\x5b"),
	FORM("jmp", "", "\xe9\x00\x00\x00\x00"),
	FORM("jmp short", "", "\xeb\x00\x90\x90"),
	FORM("js", "", "\x0f\x88\x00\x00\x00\x00"),
	FORM("jb short", "", "\x72\x00\x90\x90"),
	FORM("mov fs", "", "\x8c\xe0\x90\x90"),
	FORM("pushfq", "", "\x9c\x5b\x90\x90"),
	FORM("std", "", "\xfd\x90\x90"),
	FORM("cwde", "", "\x48\x98\x48\x98"),
	FORM("a call at once", "", "\x0f\x05"),
	FORM("a mov and a call", "", "\xb8\x03\x00\x00\x00\x0f\x05"),
	FORM("three calls", "\xb8\x03\x00\x00\x00",
	     "\xb8\x03\x00\x00\x00\x0f\x05\xb8\x20\x00\x00\x00\x0f\x05"),
	FORM("a mov of r8", "\x41\xb8\x03\x00\x00\x00", "\x48\x89\xc3"),
	FORM("a mov of r8 to the end", "\x41\xb8\x03\x00\x00\x00", ""),
	FORM("a store of 3", "\xc7\x45\xb8\x03\x00\x00\x00", "\x48\x89\xc3"),
	FORM("a store of 3 to the end", "\xc7\x45\xb8\x03\x00\x00\x00", ""),
	FORM("a wide store of 3", "\x48\xc7\x45\xb8\x03\x00\x00\x00", ""),
	FORM("movabs r8", "\x49\xb8\x11\x22\x33\xb8\x03\x00\x00\x00", ""),
	FORM("movabs rbx", "\x48\xbb\x11\x22\x33\xb8\x03\x00\x00\x00", ""),
	FORM("lea of rax", "\x8d\xb8\x03\x00\x00\x00", ""),
	FORM("cmp of memory", "\x81\x7d\xb8\x03\x00\x00\x00", ""),
	FORM("test of memory", "\xf7\x45\xb8\x03\x00\x00\x00", ""),
	FORM("mov with a prefix", "\x3e\xb8\x03\x00\x00\x00", ""),
	FORM("mov with rex", "\x40\xb8\x03\x00\x00\x00", ""),
	FORM("ret before", "\xeb\x01\xc3\xb8\x03\x00\x00\x00", ""),
	FORM("syscall with rex", "\xb8\x03\x00\x00\x00\x48", "\x48\x89\xc3"),
};

static void run_form(const struct form *f)
{
	struct code c = code_new(PAGE);
	uint64_t first[2] = {0}, h;
	int wrong = 0;

	put(&c, f->before, f->before_size);
	PUT(&c, "\x0f\x05");
	put(&c, f->after, f->after_size);
	put_exit(&c);
	code_done(c.start, PAGE);
	for (unsigned i = 0; i < HOT; i++) {
		site_fill();
		site_in[RAX] = NR_CLOSE;
		/* Without and with every status flag, and the direction. */
		site_in[FLAGS] = 0x202 | (i & 1 ? 0xcd5 : 0);
		site_call(c.start);
		h = site_digest(c.start);
		if (i < 2)
			first[i] = h;
		wrong += h != first[i & 1];
	}
	printf("%s: %016lx %016lx wrong %d\n", f->name, (unsigned long)first[0],
	       (unsigned long)first[1], wrong);
	munmap(c.start, PAGE);
}

/* --- Everything as the hardware leaves it --- */

static void registers(const char *name, const char *before, size_t n, const char *after, size_t m,
		      uint64_t flags, uint64_t rsp)
{
	struct code c = code_new(PAGE);
	const uint8_t *next;
	int wrong = 0;

	put(&c, before, n);
	PUT(&c, "\x0f\x05");
	next = c.at;
	put(&c, after, m);
	put_exit(&c);
	code_done(c.start, PAGE);
	for (int i = 0; i < HOT; i++) {
		site_fill();
		site_in[RAX] = NR_CLOSE;
		site_in[FLAGS] = flags;
		if (rsp)
			site_in[RSP] = rsp;
		site_call(c.start);
		wrong += site_wrong(next, EBADF_RAX);
	}
	printf("%s: wrong %d\n", name, wrong);
	munmap(c.start, PAGE);
}

#define REGISTERS(name, before, after, flags, rsp) \
	registers(name, before, sizeof(before) - 1, after, sizeof(after) - 1, flags, rsp)

static void all_registers(void)
{
	static const uint64_t flags[] = {0x202, 0xed7, 0xa02, 0x602, 0x40202, 0x40ed7, 0x200202};

	for (size_t i = 0; i < GUEST_COUNT(flags); i++) {
		printf("flags %#lx: ", (unsigned long)flags[i]);
		REGISTERS("mov before", "\xb8\x03\x00\x00\x00", "", flags[i], 0);
		REGISTERS("nop behind", "", "\x0f\x1f\x40\x00", flags[i], 0);
		REGISTERS("neither", "", "\x90", flags[i], 0);
	}
	REGISTERS("rsp 8, mov before", "\xb8\x03\x00\x00\x00", "", 0x202, 8);
	REGISTERS("rsp 8, nop behind", "", "\x0f\x1f\x40\x00", 0x202, 8);
	REGISTERS("rsp odd, mov before", "\xb8\x03\x00\x00\x00", "", 0x202, 0x7fffdeadbeefull);
	REGISTERS("rsp not canonical", "", "\x0f\x1f\x40\x00", 0x202, 1ull << 63);
}

/* --- Entries behind the first instruction --- */

static void second_entry(void)
{
	struct code c = code_new(PAGE);
	const uint8_t *call, *next;
	int wrong = 0, calls = 0;

	/* The mov is passed by: another number. */
	PUT(&c, "\xb8\x03\x00\x00\x00");
	call = c.at;
	PUT(&c, "\x0f\x05");
	next = c.at;
	put_exit(&c);
	code_done(c.start, PAGE);
	for (int i = 0; i < 3 * HOT; i++) {
		site_fill();
		/* First each for itself, then both in turn. */
		if (i < HOT ? false : i < 2 * HOT ? true : i & 1) {
			site_in[RAX] = i & 2 ? 1000 : NR_CLOSE;
			site_call(call);
			wrong += site_wrong(next, i & 2 ? (uint64_t)-38 : EBADF_RAX);
		} else {
			site_call(c.start);
			wrong += site_wrong(next, EBADF_RAX);
		}
		calls++;
	}
	printf("entered at the syscall: %d calls, wrong %d\n", calls, wrong);
	munmap(c.start, PAGE);

	/* Hot from the syscall instruction alone, then by the mov. */
	c = code_new(PAGE);
	PUT(&c, "\xb8\x03\x00\x00\x00");
	call = c.at;
	PUT(&c, "\x0f\x05");
	next = c.at;
	PUT(&c, "\x0f\x1f\x40\x00");
	put_exit(&c);
	code_done(c.start, PAGE);
	wrong = 0;
	for (int i = 0; i < 2 * HOT; i++) {
		site_fill();
		site_in[RAX] = 1000;
		site_call(i < HOT ? call : c.start);
		wrong += site_wrong(next, i < HOT ? (uint64_t)-38 : EBADF_RAX);
	}
	printf("the other way round: wrong %d\n", wrong);
	munmap(c.start, PAGE);
}

static void behind_entry(const char *name, const char *insn, size_t n)
{
	struct code c = code_new(PAGE);
	const uint8_t *next;
	uint64_t first = 0, h;
	int wrong = 0;

	PUT(&c, "\x0f\x05");
	next = c.at;
	put(&c, insn, n);
	put_exit(&c);
	code_done(c.start, PAGE);
	for (int i = 0; i < HOT + 20; i++) {
		site_fill();
		site_in[RAX] = NR_CLOSE;
		site_in[FLAGS] = 0x202 | (i & 1 ? 0xcd5 : 0);
		if (i < 2 || i >= HOT) {
			/* Nothing was called: no register changes but by the instruction. */
			site_call(next);
			h = site_digest(c.start);
			if (i == 0)
				first = h;
			if (!(i & 1))
				wrong += h != first;
			wrong += site_out[R11] != site_in[R11];
			wrong += (site_out[RCX] != site_in[RCX]);
		} else {
			site_call(c.start);
		}
	}
	printf("entered behind the syscall, %s: %016lx wrong %d\n", name, (unsigned long)first,
	       wrong);
	munmap(c.start, PAGE);
}

#define BEHIND(name, insn) behind_entry(name, insn, sizeof(insn) - 1)

/* A loop that begins right behind a call: it must not only work but go on at full speed. */
static void loop_behind(void)
{
	struct code c = code_new(PAGE);
	int wrong = 0;

	PUT(&c, "\x0f\x05");
	PUT(&c, "\x49\x83\xec\x01"); /* sub $1, %r12 */
	PUT(&c, "\x75\xfa");         /* jnz */
	put_exit(&c);
	code_done(c.start, PAGE);
	for (int i = 0; i < HOT; i++) {
		site_fill();
		site_in[RAX] = NR_CLOSE;
		site_in[R12] = i == HOT - 1 ? 20000000 : 2;
		site_call(c.start);
		wrong += site_out[R12] != 0 || site_out[RAX] != EBADF_RAX;
	}
	printf("a loop behind the syscall: wrong %d\n", wrong);
	munmap(c.start, PAGE);
}

/* --- Faults of the instruction behind --- */

static char *g_page;
static int g_faults, g_odd;
static const uint8_t *g_expect;

static void mend(int sig, siginfo_t *si, void *context)
{
	const ucontext_t *u = context;

	g_faults++;
	g_odd += sig != SIGSEGV || si->si_addr < (void *)g_page ||
		 si->si_addr >= (void *)(g_page + PAGE);
	g_odd += u->uc_mcontext.gregs[REG_RIP] != (greg_t)g_expect;
	g_odd += u->uc_mcontext.gregs[REG_RCX] != (greg_t)g_expect;
	g_odd += u->uc_mcontext.gregs[REG_RAX] != (greg_t)EBADF_RAX;
	mprotect(g_page, PAGE, PROT_READ | PROT_WRITE);
}

static void faulting(const char *name, const char *insn, size_t n)
{
	struct code c = code_new(PAGE);
	struct sigaction sa = {.sa_sigaction = mend, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;
	int wrong = 0;

	g_page = map(NULL, PAGE, PROT_NONE);
	PUT(&c, "\x0f\x05");
	g_expect = c.at;
	put(&c, insn, n);
	put_exit(&c);
	code_done(c.start, PAGE);
	g_faults = g_odd = 0;
	sigaction(SIGSEGV, &sa, &old);
	for (int i = 0; i < HOT; i++) {
		site_fill();
		site_in[RAX] = NR_CLOSE;
		site_in[RBX] = (uint64_t)g_page + 64;
		mprotect(g_page, PAGE, PROT_NONE);
		site_call(c.start);
		wrong += site_out[RAX] != EBADF_RAX;
	}
	sigaction(SIGSEGV, &old, NULL);
	printf("fault in %s: faults %d odd %d wrong %d\n", name, g_faults, g_odd, wrong);
	munmap(g_page, PAGE);
	munmap(c.start, PAGE);
}

#define FAULTING(name, insn) faulting(name, insn, sizeof(insn) - 1)

static const uint8_t *g_ill;

static void on_ill(int sig, siginfo_t *si, void *context)
{
	ucontext_t *u = context;

	g_faults++;
	g_odd += sig != SIGILL || si->si_addr != (void *)g_ill ||
		 u->uc_mcontext.gregs[REG_RIP] != (greg_t)g_ill;
	u->uc_mcontext.gregs[REG_RIP] += 3;
}

static void undefined(void)
{
	struct code c = code_new(PAGE);
	struct sigaction sa = {.sa_sigaction = on_ill, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;

	PUT(&c, "\x0f\x05");
	g_ill = c.at;
	PUT(&c, "\x0f\xb9\xc0"); /* ud1 */
	put_exit(&c);
	code_done(c.start, PAGE);
	g_faults = g_odd = 0;
	sigaction(SIGILL, &sa, &old);
	for (int i = 0; i < HOT; i++) {
		site_fill();
		site_in[RAX] = NR_CLOSE;
		site_call(c.start);
	}
	sigaction(SIGILL, &old, NULL);
	printf("ud1 behind: faults %d odd %d\n", g_faults, g_odd);
	munmap(c.start, PAGE);
}

/* --- Places --- */

/* Site at every offset around a page's end; the second page may be there or not. */
static void places(const char *name, const char *before, size_t n, const char *after, size_t m)
{
	int wrong = 0;

	for (int off = -24; off <= 4; off++) {
		struct code c = code_new(2 * PAGE);
		const uint8_t *next;

		c.at = c.start + PAGE + off;
		put(&c, before, n);
		PUT(&c, "\x0f\x05");
		next = c.at;
		put(&c, after, m);
		put_exit(&c);
		code_done(c.start, 2 * PAGE);
		for (int i = 0; i < 60; i++) {
			site_fill();
			site_in[RAX] = NR_CLOSE;
			site_call(c.start + PAGE + off);
			wrong += site_wrong(next, EBADF_RAX);
		}
		munmap(c.start, 2 * PAGE);
	}
	printf("around a page's end, %s: wrong %d\n", name, wrong);
}

#define PLACES(name, before, after) \
	places(name, before, sizeof(before) - 1, after, sizeof(after) - 1)

static volatile int g_ends;

/* The syscall is the last thing in the mapping: what comes behind faults, and is mended. */
static void at_end_fault(int sig, siginfo_t *si, void *context)
{
	ucontext_t *u = context;

	(void)sig;
	g_ends += si->si_addr == (void *)g_expect &&
		  u->uc_mcontext.gregs[REG_RIP] == (greg_t)g_expect;
	u->uc_mcontext.gregs[REG_RIP] = (greg_t)site_exit;
}

static void at_end(const char *name, const char *before, size_t n)
{
	struct code c = code_new(2 * PAGE);
	struct sigaction sa = {.sa_sigaction = at_end_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK},
			 old;
	int wrong = 0;

	munmap(c.start + PAGE, PAGE);
	c.at = c.start + PAGE - 2 - n;
	put(&c, before, n);
	PUT(&c, "\x0f\x05");
	g_expect = c.at;
	code_done(c.start, PAGE);
	g_ends = 0;
	sigaction(SIGSEGV, &sa, &old);
	for (int i = 0; i < HOT; i++) {
		site_fill();
		site_in[RAX] = NR_CLOSE;
		site_call(c.start + PAGE - 2 - n);
		wrong += site_wrong(g_expect, EBADF_RAX);
	}
	sigaction(SIGSEGV, &old, NULL);
	printf("the end of a mapping, %s: %d faults, wrong %d\n", name, g_ends, wrong);
	munmap(c.start, PAGE);
}

/* What may look like the mov but is a part of something else that was jumped over. */
static void jumped_over(void)
{
	/* "jmp *3(%rax,%rdi,4)" ends where the call begins; "jmp back" before padding likewise. */
	static const char *const names[] = {"an indirect jump", "a short jump"};
	int wrong = 0;

	for (int k = 0; k < 2; k++) {
		struct code c = code_new(PAGE);
		const uint8_t *call, *next, *start;

		c.at = c.start + 256;
		start = c.at;
		if (k == 0)
			PUT(&c, "\xff\xa4\xb8\x03\x00\x00\x00");
		else
			PUT(&c, "\xeb\xb8\x03\x00\x00\x00"); /* 70 bytes back */
		call = c.at;
		PUT(&c, "\x0f\x05");
		next = c.at;
		put_exit(&c);
		c.at = c.start + 256 + 2 - 72;
		put_exit(&c);
		code_done(c.start, PAGE);
		for (int i = 0; i < HOT; i++) {
			site_fill();
			site_in[RAX] = NR_CLOSE;
			site_call(call);
			wrong += site_wrong(next, EBADF_RAX);
		}
		/* Now the instruction before it. */
		site_fill();
		if (k == 0) {
			site_memory[0] = (uint64_t)site_exit;
			site_in[RAX] = (uint64_t)site_memory - 3;
			site_in[RDI] = 0;
		}
		site_call(start);
		printf("before the call, %s: ok\n", names[k]);
		munmap(c.start, PAGE);
	}
	printf("wrong %d\n", wrong);
}

int main(void)
{
	guest_begin();
	site_stack();
	for (size_t i = 0; i < GUEST_COUNT(g_forms); i++)
		run_form(&g_forms[i]);
	P("registers");
	all_registers();
	P("entries");
	second_entry();
	BEHIND("nop", "\x0f\x1f\x40\x00");
	BEHIND("cmp", "\x48\x3d\x01\xf0\xff\xff");
	BEHIND("mov", "\x48\x89\xc3");
	BEHIND("store", "\x48\xc7\x45\xf0\x78\x56\x34\x12");
	BEHIND("movabs", "\x48\xbb\x88\x77\x66\x55\x44\x33\x22\x11");
	BEHIND("adc", "\x48\x11\xc3");
	loop_behind();
	P("faults");
	FAULTING("mov from memory", "\x48\x8b\x13");
	FAULTING("mov to memory", "\x48\x89\x43\x10");
	FAULTING("mov of a constant", "\x48\xc7\x83\x80\x00\x00\x00\x78\x56\x34\x12");
	FAULTING("lock add", "\xf0\x48\x01\x43\x10");
	FAULTING("cmp", "\x48\x3b\x43\x18");
	FAULTING("movaps", "\x0f\x28\x0b");
	undefined();
	P("places");
	PLACES("mov before", "\xb8\x03\x00\x00\x00", "");
	PLACES("nop behind", "", "\x0f\x1f\x40\x00");
	PLACES("9 bytes behind", "", "\x66\x0f\x1f\x84\x00\x00\x00\x00\x00");
	at_end("mov before", "\xb8\x03\x00\x00\x00", 5);
	at_end("nothing before", "", 0);
	at_end("push before", "\x6a\x03\x58", 3);
	P("jumped over");
	jumped_over();
	return 0;
}
