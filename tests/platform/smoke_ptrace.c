/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Smoke tests: what only the ptrace platform has, its stub and the host processes behind it.
 */
#include <string.h>
#include "platform/ptrace.h"
#include "tests/platform/smoke.h"

BLOB(code_loop_ptrace, "1: mov $39, %eax\n syscall\n jmp 1b\n");

static pid_t ptrace_pid(const struct guest *g)
{
	return g->as->pid;
}

/* What a stub has above the guest's memory. */
static bool ptrace_has_mapping(uint64_t from, const char *prot)
{
	if (from == STUB_TEXT)
		return strcmp(prot, "r-xp") == 0;
	return from == STUB_ORDERS && strcmp(prot, "r--s") == 0;
}

static void test_jump_to_stub(void)
{
	struct guest g;

	if (!GUEST(&g, code_loop_ptrace))
		return;
	/* Every byte of the text, with registers that ask for something: it only ever traps. */
	for (uint64_t off = 0; off < STUB_E_END; off++) {
		memset(&g.regs, 0, sizeof(g.regs));
		g.regs.rip = STUB_TEXT + off;
		g.regs.rsp = STACK_TOP;
		g.regs.rax = 39;
		g.regs.rbx = STUB_ORDERS;
		g.regs.r12 = STUB_ORDERS + 64;
		g.regs.rdi = 1;
		for (int i = 0; i < 3; i++) {
			guest_run(&g);
			if (g.trap.kind == TRAP_INTERRUPT)
				continue;
			if (g.trap.kind != TRAP_SYSCALL && g.trap.kind != TRAP_FAULT)
				CHECK_EQ(g.trap.kind, TRAP_FAULT);
			if (g.trap.kind == TRAP_FAULT)
				break;
		}
	}
	g.regs.rip = CODE;
	guest_expect(&g, 39);
	guest_free(&g);
}

/* The filter of stubs, asked directly: host calls that it does not list give SIGSYS. */
static void test_filter(void)
{
	static const struct {
		uint64_t nr, arg[6];
	} refused[] = {
		{39, {0}},
		{2, {0}},
		{59, {0}},
		{101, {0}},
		{9, {0x700000, 4096, 3, 0x22, (uint64_t)-1, 0}},       /* not fixed */
		{9, {0x7ffff0100000, 4096, 3, 0x32, (uint64_t)-1, 0}}, /* the stub's region */
		{9, {STUB_ORDERS, 4096, 3, 0x11, STUB_FD_ORDERS, 0}},  /* writable orders */
		{9, {0x700000, 4096, 3, 0x40032, (uint64_t)-1, 0}},    /* huge pages */
		{10, {STUB_TEXT, 4096, 7, 0, 0, 0}},
		{11, {STUB_TEXT, 4096, 0, 0, 0, 0}},
		{25, {CODE, 4096, 4096, 3, STUB_TEXT, 0}},
		{56, {0x100, 0, 0, 0, 0, 0}},
		{56, {0x11, 0, 0, 0, 0, 0}},
		{231, {0}},
		{62, {1, 9, 0, 0, 0, 0}},
		{46, {3, 0, 0, 0, 0, 0}},
		{317, {1, 0, 0, 0, 0, 0}},
		{157, {1, 0, 0, 0, 0, 0}},
		{3, {4, 0, 0, 0, 0, 0}},
	};
	struct guest g;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct pf_regs r = {0};

		if (!GUEST(&g, code_loop_ptrace))
			return;
		r.rip = STUB_TEXT + STUB_E_CALL;
		r.cs = 0x33;
		r.ss = 0x2b;
		r.eflags = 0x202;
		r.orig_rax = (uint64_t)-1;
		r.rax = refused[i].nr;
		r.rdi = refused[i].arg[0];
		r.rsi = refused[i].arg[1];
		r.rdx = refused[i].arg[2];
		r.r10 = refused[i].arg[3];
		r.r8 = refused[i].arg[4];
		r.r9 = refused[i].arg[5];
		CHECK_EQ(pf_host_regs_set(g.thread->tid, &r), 0);
		g.thread->hw_valid = false;
		CHECK_EQ(pf_host_run_stub(g.thread->tid), 0);
		pt_set_out(g.thread, PT_STUB);
		pt_await(g.thread, false);
		if (g.thread->stop != SIGSYS) {
			printf("    host call %d was not refused\n", (int)refused[i].nr);
			CHECK_EQ(g.thread->stop, SIGSYS);
		}
		guest_free(&g);
	}
}

static const struct smoke_test tests[] = {
	{"jump-to-stub", test_jump_to_stub},
	{"filter", test_filter},
	{0},
};

const struct smoke_stub g_smoke_ptrace = {
	.pid = ptrace_pid,
	.has_mapping = ptrace_has_mapping,
	.tests = tests,
};
