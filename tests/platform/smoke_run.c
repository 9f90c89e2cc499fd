/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Smoke tests: running guest code, traps, interrupts, vector state.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"
#include "tests/platform/smoke.h"

BLOB(code_syscall,
     "mov $39, %eax\n mov $11, %edi\n mov $22, %esi\n mov $33, %edx\n mov $44, %r10d\n"
     "mov $55, %r8d\n mov $66, %r9d\n syscall\n mov %rax, %rdi\n mov $40, %eax\n syscall\n");

static void test_syscall(void)
{
	struct guest g;

	if (!GUEST(&g, code_syscall))
		return;
	guest_expect(&g, 39);
	CHECK_EQ(g.regs.rdi, 11);
	CHECK_EQ(g.regs.rsi, 22);
	CHECK_EQ(g.regs.rdx, 33);
	CHECK_EQ(g.regs.r10, 44);
	CHECK_EQ(g.regs.r8, 55);
	CHECK_EQ(g.regs.r9, 66);
	CHECK_EQ(g.regs.rcx, g.regs.rip);
	CHECK(!g.trap.i386);
	g.regs.rax = 0x1234567890;
	guest_expect(&g, 40);
	CHECK_EQ(g.regs.rdi, 0x1234567890);
	guest_free(&g);
}

static void expect_fault(struct guest *g, int signo, int code)
{
	guest_run(g);
	CHECK_EQ(g->trap.kind, TRAP_FAULT);
	CHECK_EQ(g->trap.signo, signo);
	CHECK_EQ(g->trap.code, code);
}

BLOB(code_faults,
     "mov 0x10, %rax\n nop\n"                      /* 0: 8 bytes */
     ".org code_faults + 16\n movq $1, 0x400000\n" /* 16: code page is not writable */
     ".org code_faults + 32\n ud2\n"
     ".org code_faults + 48\n xor %ecx, %ecx\n div %ecx\n"
     ".org code_faults + 64\n int3\n"
     ".org code_faults + 80\n mov $0x8000000000000000, %rax\n mov (%rax), %rax\n"
     ".org code_faults + 112\n mov $0x500000, %eax\n jmp *%rax\n"
     ".org code_faults + 128\n hlt\n"
     ".org code_faults + 144\n int $0x80\n int $0x21\n"
     ".org code_faults + 160\n pushfq\n orl $0x100, (%rsp)\n popfq\n nop\n nop\n nop\n");

static void test_faults(void)
{
	struct guest g;

	if (!GUEST(&g, code_faults))
		return;
	expect_fault(&g, SIGSEGV, SEGV_MAPERR);
	CHECK_EQ(g.trap.addr, 0x10);
	CHECK_EQ(g.trap.trapno, 14);
	CHECK_EQ(g.trap.error_code, 4);
	CHECK_EQ(g.regs.rip, CODE);
	g.regs.rip = CODE + 16;
	expect_fault(&g, SIGSEGV, SEGV_ACCERR);
	CHECK_EQ(g.trap.addr, CODE);
	CHECK_EQ(g.trap.error_code, 7);
	CHECK_EQ(g.regs.rip, CODE + 16);
	g.regs.rip = CODE + 32;
	expect_fault(&g, SIGILL, ILL_ILLOPN);
	CHECK_EQ(g.trap.addr, CODE + 32);
	g.regs.rip = CODE + 48;
	expect_fault(&g, SIGFPE, FPE_INTDIV);
	CHECK_EQ(g.regs.rip, CODE + 50);
	g.regs.rip = CODE + 64;
	expect_fault(&g, SIGTRAP, SI_KERNEL);
	CHECK_EQ(g.regs.rip, CODE + 65);
	g.regs.rip = CODE + 80;
	expect_fault(&g, SIGSEGV, SI_KERNEL);
	CHECK_EQ(g.trap.addr, 0);
	g.regs.rip = CODE + 112;
	expect_fault(&g, SIGSEGV, SEGV_ACCERR);
	CHECK_EQ(g.trap.addr, DATA);
	CHECK_EQ(g.trap.error_code, 21);
	CHECK_EQ(g.regs.rip, DATA);
	g.regs.rip = CODE + 128;
	expect_fault(&g, SIGSEGV, SI_KERNEL);
	/* A non-canonical rip, as a forged signal frame has it. */
	g.regs.rip = 0x8000000000000000;
	guest_run(&g);
	CHECK_EQ(g.trap.kind, TRAP_FAULT);
	CHECK_EQ(g.trap.signo, SIGSEGV);
	guest_free(&g);
}

static void test_single_step(void)
{
	struct guest g;

	if (!GUEST(&g, code_faults))
		return;
	/* TF set by the guest: popfq's next instruction is stepped. */
	g.regs.rip = CODE + 160;
	expect_fault(&g, SIGTRAP, TRAP_TRACE);
	CHECK_EQ(g.regs.rip, CODE + 160 + 1 + 7 + 1 + 1);
	CHECK((g.regs.eflags & 0x100) != 0);
	/* TF given by us. */
	expect_fault(&g, SIGTRAP, TRAP_TRACE);
	CHECK_EQ(g.regs.rip, CODE + 160 + 1 + 7 + 1 + 2);
	/* A map operation with TF in the guest's flags does not step the stub. */
	guest_map(&g, 0x700000, 4096, PROT_READ);
	expect_fault(&g, SIGTRAP, TRAP_TRACE);
	CHECK_EQ(g.regs.rip, CODE + 160 + 1 + 7 + 1 + 3);
	guest_free(&g);
	/* Through a syscall: the trap comes after the instruction behind it, as on Linux. */
	if (!GUEST(&g, code_syscall))
		return;
	g.regs.eflags = 0x100;
	for (int i = 0; i < 7; i++)
		expect_fault(&g, SIGTRAP, TRAP_TRACE);
	guest_expect(&g, 39);
	expect_fault(&g, SIGTRAP, TRAP_TRACE);
	g.regs.eflags &= ~0x100ull;
	guest_expect(&g, 40);
	guest_free(&g);
}

BLOB(code_int80, "mov $1, %eax\n mov $7, %ebx\n int $0x80\n mov $39, %eax\n syscall\n"
		 "mov $20, %eax\n lea 1f(%rip), %rcx\n pushfq\n pop %r11\n int $0x80\n 1: mov $41, "
		 "%eax\n syscall\n");

static void test_int80(void)
{
	struct guest g;

	if (!GUEST(&g, code_int80))
		return;
	/* exit(7) of i386: seen, and not executed. */
	guest_expect(&g, 1);
	CHECK(g.trap.i386);
	g.regs.rax = (uint64_t)-ENOSYS;
	guest_expect(&g, 39);
	CHECK(!g.trap.i386);
	/* With rcx and r11 forged it passes for the 64-bit call, and is not executed either. */
	guest_expect(&g, 20);
	guest_expect(&g, 41);
	guest_free(&g);
}

BLOB(code_vsyscall, "mov $0xffffffffff600400, %rax\n mov $0x500000, %edi\n call *%rax\n mov $39, "
		    "%eax\n syscall\n");

static void test_vsyscall(void)
{
	struct guest g;

	if (!GUEST(&g, code_vsyscall))
		return;
	guest_run(&g);
	if (g.trap.kind == TRAP_FAULT) {
		/* A host with vsyscall=none. */
		CHECK_EQ(g.trap.signo, SIGSEGV);
	} else {
		CHECK_EQ(g.trap.kind, TRAP_SYSCALL);
		CHECK_EQ(g.regs.orig_rax, 201);
		CHECK_EQ(g.regs.rax, -ENOSYS);
		CHECK_EQ(g.regs.rip, CODE + 14);
		CHECK_EQ(g.regs.rsp, STACK_TOP);
		CHECK_EQ(g.trap.vsyscall, 0xffffffffff600400);
		CHECK(!g.trap.i386);
		g.regs.rax = 99;
		guest_expect(&g, 39);
	}
	guest_free(&g);
}

BLOB(code_spin, "1: inc %rax\n jmp 1b\n");

static void *interrupt_later(void *arg)
{
	usleep(20000);
	g_pf->interrupt(arg);
	return NULL;
}

static void test_interrupt(void)
{
	struct guest g;
	pthread_t th;

	if (!GUEST(&g, code_spin))
		return;
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(pthread_create(&th, NULL, interrupt_later, g.thread), 0);
		guest_run(&g);
		CHECK_EQ(g.trap.kind, TRAP_INTERRUPT);
		CHECK(g.regs.rip - CODE < 5);
		pthread_join(th, NULL);
	}
	/* Before the run. */
	g_pf->interrupt(g.thread);
	g_pf->interrupt(g.thread);
	guest_run(&g);
	CHECK_EQ(g.trap.kind, TRAP_INTERRUPT);
	guest_free(&g);
}

static _Atomic bool g_storm_stop;
static _Atomic unsigned g_storm_done;

static void *storm(void *arg)
{
	struct guest *g = arg;

	while (!atomic_load(&g_storm_stop)) {
		g_pf->interrupt(g->thread);
		for (volatile int i = 0; i < 3000; i++)
			continue;
	}
	return NULL;
}

BLOB(code_loop, "1: mov $39, %eax\n syscall\n jmp 1b\n");

static void test_interrupt_storm(void)
{
	struct guest g;
	pthread_t th;
	unsigned syscalls = 0, interrupts = 0, other = 0;

	if (!GUEST(&g, code_loop))
		return;
	atomic_store(&g_storm_stop, false);
	CHECK_EQ(pthread_create(&th, NULL, storm, &g), 0);
	/* On one processor the other thread may come late. */
	while (syscalls < 2000 || interrupts == 0) {
		guest_run(&g);
		if (g.trap.kind == TRAP_SYSCALL) {
			CHECK_EQ(g.regs.orig_rax, 39);
			syscalls++;
			if (syscalls % 16 == 0)
				guest_map(&g, 0x700000, 4096, PROT_READ);
		} else if (g.trap.kind == TRAP_INTERRUPT) {
			interrupts++;
		} else {
			other++;
			break;
		}
	}
	atomic_store(&g_storm_stop, true);
	pthread_join(th, NULL);
	CHECK_EQ(other, 0);
	/* And spinning, nothing is lost. */
	guest_free(&g);
}

/* Many interrupts of a spinning guest, one by one: each must end a run. */
static void interrupter(void *arg)
{
	struct guest *g = arg;

	for (int i = 0; i < 2000; i++) {
		const unsigned seen = atomic_load(&g_storm_done);

		g_pf->interrupt(g->thread);
		while (atomic_load(&g_storm_done) == seen)
			fiber_yield();
	}
}

static void test_interrupt_each(void)
{
	struct guest g;

	if (!GUEST(&g, code_spin))
		return;
	atomic_store(&g_storm_done, 0);
	spawn(interrupter, &g, worker_at((worker_index(g_pf->as_home(g.as)) + 1) % worker_count()));
	for (int i = 0; i < 2000; i++) {
		do {
			guest_run(&g);
		} while (g.trap.kind != TRAP_INTERRUPT);
		atomic_fetch_add(&g_storm_done, 1);
	}
	sleep_ms(5);
	guest_free(&g);
}

BLOB(code_regs,
     "mov $39, %eax\n syscall\n mov $39, %eax\n syscall\n mov %gs:0, %rax\n mov %fs:8, %rbx\n"
     "mov $40, %ecx\n mov $41, %eax\n syscall\n");

static void test_bad_regs(void)
{
	struct guest g;

	if (!GUEST(&g, code_regs))
		return;
	g.regs.cs = 0xffff;
	g.regs.ss = 8;
	g.regs.ds = 0x10;
	g.regs.es = 0x33;
	g.regs.fs = 0xdeadbeef;
	g.regs.gs = 0x7;
	g.regs.eflags = ~0x100ull; /* all but TF */
	g.regs.fs_base = 0xffff800000000000;
	g.regs.gs_base = 0x800000000000;
	guest_expect(&g, 39);
	CHECK_EQ(g.regs.cs, 0x33);
	CHECK_EQ(g.regs.ss, 0x2b);
	CHECK_EQ(g.regs.eflags & 0x23000, 0); /* IOPL, VM */
	CHECK((g.regs.eflags & 0x200) != 0);
	g.regs.eflags = 0;
	g.regs.gs_base = DATA;
	g.regs.fs_base = DATA + 0x1000;
	guest_set_word(&g, DATA, 0x1111);
	guest_set_word(&g, DATA + 0x1008, 0x2222);
	guest_expect(&g, 39);
	guest_expect(&g, 41);
	CHECK_EQ(g.regs.rbx, 0x2222);
	CHECK_EQ(g.regs.gs_base, DATA);
	CHECK_EQ(g.regs.fs_base, DATA + 0x1000);
	guest_free(&g);
}

BLOB(code_fp,
     "movq %rdi, %xmm3\n mov $39, %eax\n syscall\n movq %xmm3, %rdi\n mov $40, %eax\n syscall\n");

static void test_xstate(void)
{
	static uint8_t area[PF_XSTATE_MAX], copy[PF_XSTATE_MAX];
	struct guest g;
	uint64_t v;
	int n;

	if (!GUEST(&g, code_fp))
		return;
	g.regs.rdi = 0xabcdef0123456789;
	guest_expect(&g, 39);
	/* A trip to the stub leaves it alone. */
	guest_map(&g, 0x700000, 4096, PROT_READ);
	n = g_pf->xstate_get(g.thread, area);
	CHECK(n >= 576 && n <= PF_XSTATE_MAX);
	memcpy(&v, area + 160 + 3 * 16, 8);
	CHECK_EQ(v, 0xabcdef0123456789);
	v++;
	memcpy(area + 160 + 3 * 16, &v, 8);
	CHECK_EQ(g_pf->xstate_set(g.thread, area, (size_t)n), 0);
	guest_expect(&g, 40);
	CHECK_EQ(g.regs.rdi, v);

	/* Malformed in each way: refused, nothing changed. */
	n = g_pf->xstate_get(g.thread, area);
	memcpy(copy, area, sizeof(copy));
	copy[160] ^= 0xff;
	copy[512 + 7] = 0x80; /* xstate_bv: a feature that is not there */
	CHECK_EQ(g_pf->xstate_set(g.thread, copy, (size_t)n), -EINVAL);
	memcpy(copy, area, sizeof(copy));
	copy[512 + 15] = 0x80; /* xcomp_bv: compacted */
	CHECK_EQ(g_pf->xstate_set(g.thread, copy, (size_t)n), -EINVAL);
	memcpy(copy, area, sizeof(copy));
	copy[512 + 40] = 1; /* reserved */
	CHECK_EQ(g_pf->xstate_set(g.thread, copy, (size_t)n), -EINVAL);
	memcpy(copy, area, sizeof(copy));
	copy[27] = 0xff; /* mxcsr */
	CHECK_EQ(g_pf->xstate_set(g.thread, copy, (size_t)n), -EINVAL);
	CHECK_EQ(g_pf->xstate_set(g.thread, area, 512), -EINVAL);
	memcpy(copy, area, sizeof(copy));
	copy[512] |= 4; /* names AVX, and is too short for it */
	CHECK_EQ(g_pf->xstate_set(g.thread, copy, 600), -EINVAL);
	CHECK_EQ(g_pf->xstate_get(g.thread, copy), n);
	CHECK(memcmp(area, copy, (size_t)n) == 0);

	CHECK_EQ(g_pf->xstate_reset(g.thread), 0);
	CHECK_EQ(g_pf->xstate_get(g.thread, area), n);
	memcpy(&v, area + 160 + 3 * 16, 8);
	CHECK_EQ(v, 0);
	CHECK_EQ(area[0] | area[1] << 8, 0x37f);
	CHECK_EQ(area[24] | area[25] << 8, 0x1f80);
	guest_free(&g);
}

const struct smoke_test g_tests_run[] = {
	{"syscall", test_syscall},
	{"faults", test_faults},
	{"single-step", test_single_step},
	{"int80", test_int80},
	{"vsyscall", test_vsyscall},
	{"interrupt", test_interrupt},
	{"interrupt-storm", test_interrupt_storm},
	{"interrupt-each", test_interrupt_each},
	{"bad-registers", test_bad_regs},
	{"xstate", test_xstate},
	{0},
};
