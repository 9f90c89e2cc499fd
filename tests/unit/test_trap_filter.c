/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp programs of the trap and notify platforms, run by an interpreter: what each lets
 * pass is what
 * their tables, and so docs/SECURITY.md, say, from the places that they say.
 */
#include <criterion/criterion.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "platform/trap.h"
#include "tests/unit/filter_model.h"

static struct ts_config *g_config;
/* Any but 0. */
#define NOTIFY 8

static void build(uint64_t listener_flags)
{
	struct err e;

	memset(g_config, 0, sizeof(*g_config));
	cr_assert_eq(tr_filter_build(g_config, listener_flags, &e), 0);
}

static void setup(void)
{
	g_config = mem_zalloc(sizeof(*g_config));
	cr_assert(g_config != NULL);
}

static void teardown(void)
{
	mem_free(g_config);
}

TestSuite(trap_filter, .init = setup, .fini = teardown);

static uint32_t run(const struct ts_fprog *prog, const struct seccomp_data *data)
{
	return filter_run(g_config->insns +
				  (prog->insns - TS_CONFIG - offsetof(struct ts_config, insns)),
			  prog->count, data);
}

enum who { GUEST, AGENT };

#define IP_GUEST ((uint64_t)TS_TEXT + TS_GUEST_IP)
#define IP_GATE ((uint64_t)TS_TEXT + TS_GATE_IP)
#define IP_AGENT ((uint64_t)TS_TEXT + TS_AGENT + 0x80)

/* Does what confines a thread let the call pass? Guest threads have a program of their own, or the
 * host dispatches all of their calls but those from two addresses (prctl(2), vsyscalls apart), of
 * which one is the gate, where only the latter may make one call. */
static bool passes(enum who who, uint32_t arch, uint64_t ip, int nr, const uint64_t arg[6])
{
	struct seccomp_data d = {.nr = nr, .arch = arch, .instruction_pointer = ip};
	bool by_program, by_dispatch;

	memcpy(d.args, arg, sizeof(d.args));
	if (run(&g_config->keeper, &d) != SECCOMP_RET_ALLOW ||
	    run(&g_config->agent, &d) != SECCOMP_RET_ALLOW)
		return false;
	if (who == AGENT)
		return true;
	by_program = run(&g_config->guest, &d) == SECCOMP_RET_ALLOW;
	by_dispatch = ip - IP_GUEST < TS_GUEST_SPAN;
	if (ip == IP_GATE)
		cr_expect(!by_program, "call %d", nr);
	else
		cr_expect_eq(by_program, by_dispatch, "%lx: call %d", ip, nr);
	return by_dispatch;
}

Test(trap_filter, rows)
{
	static const struct {
		enum who who;
		uint64_t ip;
		int nr;
		uint64_t arg[6];
		bool want;
	} row[] = {
		{GUEST, IP_GUEST, SYS_futex, {TS_AREAS, 0}, true},
		{GUEST, IP_GUEST, SYS_futex, {TS_AREAS + 64, 1}, true},
		{GUEST, IP_GUEST, SYS_futex, {TS_AREAS, 6}, false},
		/* Shared with whoever has mapped the same file. */
		{GUEST, IP_GUEST, SYS_futex, {0x700000, 0}, false},
		{GUEST, IP_GUEST, SYS_futex, {0x700000, 1}, false},
		{GUEST, IP_GUEST, SYS_futex, {TS_VIEWS, 1}, false},
		{GUEST, IP_GUEST, SYS_futex, {TS_ORDERS, 0}, false},
		{GUEST, IP_GUEST, SYS_futex, {TS_ORDERS, 1}, true},
		{GUEST, IP_GUEST, SYS_futex, {0x700000, 128}, true},
		{GUEST, IP_GUEST, SYS_futex, {0x700000, 129}, true},
		{AGENT, IP_AGENT, SYS_futex, {0x700000, 1}, false},
		{GUEST, IP_GUEST, SYS_rt_sigreturn, {0}, true},
		{GUEST, IP_GUEST, SYS_exit, {0}, true},
		{GUEST, IP_GUEST, SYS_arch_prctl, {0x1002, 1}, true},
		{GUEST, IP_GUEST, SYS_arch_prctl, {0x1012, 1}, false}, /* CPUID faulting */
		{GUEST, IP_GUEST, SYS_openat, {0}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 4096, 3, 0x32, -1ull, 0}, true},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 0x100000, 3, 0x32, -1ull, 0}, true},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 0x100001, 3, 0x32, -1ull, 0}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 1ull << 32, 3, 0x32, -1ull, 0}, false},
		{GUEST, IP_GUEST, SYS_mmap, {PF_GUEST_LIMIT - 0x101000, 0x100000, 3, 0x32}, true},
		{GUEST, IP_GUEST, SYS_mmap, {PF_GUEST_LIMIT - 0x100000, 4096, 3, 0x32}, false},
		{GUEST, IP_GUEST, SYS_mmap, {TS_AREAS, 4096, 3, 0x32}, false},
		{GUEST, IP_GUEST, SYS_mmap, {TS_TEXT, 4096, 3, 0x32}, false},
		{GUEST, IP_GUEST, SYS_mmap, {1ull << 63, 4096, 3, 0x32}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 4096, 1, 0x32}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 4096, 7, 0x32}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 4096, 1ull << 32 | 3, 0x32}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 4096, 3, 0x22}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 4096, 3, 0x31}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 4096, 3, 0x12}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 4096, 3, 0x2032}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 4096, 3, 1ull << 32 | 0x32}, false},
		{GUEST, IP_GUEST, SYS_prlimit64, {0, 9, TS_ORDERS + TS_O_LIMIT, 0}, false},
		{GUEST, IP_AGENT, SYS_prlimit64, {0, 9, TS_ORDERS + TS_O_LIMIT, 0}, false},
		{AGENT, IP_AGENT, SYS_prlimit64, {0, 9, TS_ORDERS + TS_O_LIMIT, 0}, true},
		{AGENT, IP_AGENT, SYS_prlimit64, {0, 9, TS_AREAS, 0}, false},
		{AGENT, IP_AGENT, SYS_prlimit64, {1, 9, TS_ORDERS + TS_O_LIMIT, 0}, false},
		{AGENT, IP_AGENT, SYS_prlimit64, {0, 7, TS_ORDERS + TS_O_LIMIT, 0}, false},
		{AGENT, IP_AGENT, SYS_prlimit64, {0, 9, 0, TS_AREAS}, false},
		{GUEST, IP_GUEST, SYS_clone, {TS_CLONE_FORK}, false},
		{GUEST, IP_GUEST, SYS_munmap, {0x700000, 0x100000}, true},
		{GUEST, IP_GUEST, SYS_munmap, {0x700000, 0x100001}, false},
		{GUEST, IP_GUEST, SYS_munmap, {0x700000, 1ull << 32 | 4096}, false},
		{GUEST, IP_GUEST, SYS_munmap, {PF_GUEST_LIMIT - 0x101000, 0x100000}, true},
		{GUEST, IP_GUEST, SYS_munmap, {PF_GUEST_LIMIT - 0x100000, 4096}, false},
		{GUEST, IP_GUEST, SYS_munmap, {TS_AREAS, 4096}, false},
		{GUEST, IP_GUEST - 1, SYS_futex, {0}, false},
		{GUEST, IP_GUEST + 1, SYS_futex, {0}, false},
		{GUEST, 0x401000, SYS_futex, {0}, false},
		{GUEST, IP_GUEST & 0xffffffff, SYS_futex, {0}, false},
		{GUEST, IP_GUEST, SYS_exit | 0x40000000, {0}, false}, /* x32 */
		{GUEST, IP_AGENT, SYS_exit_group, {0}, false},
		{GUEST, IP_AGENT, SYS_mmap, {0x700000, 4096, 3, 0x32, -1ull, 0}, false},
		{AGENT, IP_AGENT, SYS_mmap, {0x700000, 4096, 3, 0x32, -1ull, 0}, true},
		{AGENT, IP_AGENT, SYS_mmap, {0x700000, 4096, 3, 0x22, -1ull, 0}, false},
		{AGENT, IP_AGENT, SYS_mmap, {PF_GUEST_LIMIT, 4096, 3, 0x32, -1ull, 0}, false},
		{AGENT, IP_AGENT, SYS_mmap, {PF_GUEST_LIMIT - 4096, 4096, 3, 0x32, -1ull}, true},
		{AGENT, IP_AGENT, SYS_mmap, {1ull << 63, 4096, 3, 0x32, -1ull}, false},
		{AGENT, IP_AGENT, SYS_mmap, {TS_ORDERS, 4096, 1, 0x11, TS_FD_ORDERS}, true},
		{AGENT, IP_AGENT, SYS_mmap, {TS_ORDERS, 4096, 3, 0x11, TS_FD_ORDERS}, false},
		{AGENT, IP_AGENT, SYS_mmap, {TS_AREAS, TS_AREA_SIZE, 3, 0x11, 9}, true},
		{AGENT, IP_AGENT, SYS_mmap, {TS_AREAS, TS_AREA_SIZE, 7, 0x11, 9}, false},
		{AGENT, IP_AGENT, SYS_mmap, {TS_TEXT, TS_AREA_SIZE, 3, 0x11, 9}, false},
		{AGENT, IP_AGENT, SYS_munmap, {TS_TEXT, 4096}, false},
		{AGENT, IP_AGENT, SYS_mprotect, {0x700000, 4096, 7}, true},
		{AGENT, IP_AGENT, SYS_mprotect, {0x700000, 4096, 8}, false},
		{AGENT, IP_AGENT, SYS_mremap, {0x700000, 1, 1, 3, 0x800000}, true},
		{AGENT, IP_AGENT, SYS_mremap, {0x700000, 1, 1, 3, TS_TEXT}, false},
		{AGENT, IP_AGENT, SYS_mremap, {0x700000, 1, 1, 1, 0}, false},
		{AGENT, IP_AGENT, SYS_clone, {TS_CLONE_FORK, 0}, true},
		{AGENT, IP_AGENT, SYS_clone, {TS_CLONE_THREAD, 0, 0, TS_AREAS + 128}, true},
		{AGENT, IP_AGENT, SYS_clone, {TS_CLONE_THREAD, 0, 0, 0x400000}, false},
		{AGENT, IP_AGENT, SYS_clone, {0x11, 0}, false},
		{AGENT, IP_AGENT, SYS_execve, {0}, false},
		{AGENT, IP_AGENT, SYS_prctl, {59, 1, IP_GUEST, TS_GUEST_SPAN, 0}, true},
		{AGENT, IP_AGENT, SYS_prctl, {59, 0, 0, 0, 0}, false},
		{AGENT, IP_AGENT, SYS_prctl, {59, 1, IP_GUEST, TS_GUEST_SPAN + 1, 0}, false},
		{AGENT, IP_AGENT, SYS_prctl, {59, 1, IP_GUEST, TS_GUEST_SPAN, 0x400000}, false},
		{GUEST, IP_GUEST, SYS_prctl, {59, 0, 0, 0, 0}, false},
		{GUEST, IP_AGENT, SYS_prctl, {59, 1, IP_GUEST, TS_GUEST_SPAN, 0}, false},
		/* The gate: what is made there is the agent, which has no stack. */
		{GUEST, IP_GATE, SYS_clone, {TS_CLONE_AGENT, TS_NO_STACK}, true},
		{GUEST, IP_GATE, SYS_clone, {TS_CLONE_AGENT, 0}, false},
		{GUEST, IP_GATE, SYS_clone, {TS_CLONE_AGENT, TS_AREAS + 0xb000}, false},
		{GUEST, IP_GATE, SYS_clone, {TS_CLONE_AGENT & ~0x100, TS_NO_STACK}, false},
		{GUEST, IP_GATE, SYS_clone, {TS_CLONE_AGENT | 1ull << 32, TS_NO_STACK}, false},
		{GUEST, IP_GATE, SYS_clone, {TS_CLONE_THREAD, 0, 0, TS_AREAS + 128}, false},
		{GUEST, IP_GATE, SYS_clone, {TS_CLONE_FORK, 0}, false},
		{GUEST, IP_GATE, SYS_fork, {0}, false},
		{GUEST, IP_GATE, SYS_futex, {0, 0}, false},
		{GUEST, IP_GATE, SYS_rt_sigreturn, {0}, false},
		{GUEST, IP_GATE, SYS_prctl, {59, 0, 0, 0, 0}, false},
		{GUEST, IP_GATE - 2, SYS_clone, {TS_CLONE_AGENT, TS_NO_STACK}, false},
		{GUEST, IP_GATE + 1, SYS_clone, {TS_CLONE_AGENT, TS_NO_STACK}, false},
		{GUEST, IP_GUEST, SYS_clone, {TS_CLONE_AGENT, TS_NO_STACK}, false},
		{GUEST, IP_AGENT, SYS_clone, {TS_CLONE_AGENT, TS_NO_STACK}, false},
		{AGENT, IP_AGENT, SYS_clone, {TS_CLONE_AGENT, TS_NO_STACK}, false},
		{AGENT, IP_AGENT, SYS_mmap, {TS_CLAIM, TS_CLAIM_SIZE, 0, 0x100022, -1ull}, true},
		{AGENT, IP_AGENT, SYS_mmap, {TS_CLAIM, TS_CLAIM_SIZE, 0, 0x32, -1ull}, false},
		{AGENT, IP_AGENT, SYS_mmap, {TS_CLAIM, TS_CLAIM_SIZE, 3, 0x100022, -1ull}, false},
		{AGENT, IP_AGENT, SYS_munmap, {TS_CLAIM, TS_CLAIM_SIZE}, false},
		{GUEST, IP_GUEST, SYS_munmap, {TS_CLAIM, TS_CLAIM_SIZE}, false},
		{AGENT, 0x401000, SYS_munmap, {0x700000, 4096}, false},
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(row); i++) {
		const size_t j = i / 2;
		bool got;

		build(i % 2 ? NOTIFY : 0);
		got = passes(row[j].who, AUDIT_ARCH_X86_64, row[j].ip, row[j].nr, row[j].arg);
		cr_expect_eq(got, row[j].want, "row %zu: call %d", j, row[j].nr);
		cr_expect(!passes(row[j].who, AUDIT_ARCH_I386, row[j].ip, row[j].nr, row[j].arg),
			  "row %zu from 32-bit code", j);
	}
}

/* What the host does with a call of a guest thread; it must be the keeper's program that notifies,
 * since that is the one with the listener. */
static uint32_t action(uint32_t arch, uint64_t ip, int nr)
{
	const struct seccomp_data d = {.nr = nr, .arch = arch, .instruction_pointer = ip};
	const struct ts_fprog *prog[] = {&g_config->keeper, &g_config->agent, &g_config->guest};
	uint32_t strictest = SECCOMP_RET_ALLOW;

	for (size_t i = 0; i < ARRAY_SIZE(prog); i++) {
		const uint32_t r = run(prog[i], &d);

		cr_expect(i == 0 || r != SECCOMP_RET_USER_NOTIF);
		if ((int32_t)r < (int32_t)strictest)
			strictest = r;
	}
	return strictest;
}

Test(trap_filter, actions)
{
	static const struct {
		uint64_t ip;
		int nr;
		bool notifies;
	} row[] = {
		{0x401002, SYS_read, true},
		{0x401002, SYS_futex, true},
		{0x401002, SYS_exit_group, true},
		{0x401002, 0x3fffffff, true},
		{PF_GUEST_LIMIT - 1, SYS_read, true},
		{TS_TEXT - 1, SYS_read, true},
		{TS_TEXT + TS_TEXT_SIZE, SYS_read, true},
		{TS_AREAS + 2, SYS_read, true},
		{0x401002, SYS_rt_sigreturn, false},
		{0x401002, SYS_clone, false},
		{0x401002, SYS_clone3, false},
		{0x401002, SYS_execve, false},
		{0x401002, SYS_exit, false},
		{0x401002, SYS_arch_prctl, false},
		{0x401002, SYS_read | 0x40000000, false}, /* x32 */
		{0x401002, -1, false},
		{0xffffffffff600002, SYS_time, false}, /* vsyscall */
		{TS_TEXT, SYS_read, false},
		{TS_TEXT + TS_TEXT_SIZE - 1, SYS_read, false},
		{IP_GUEST, SYS_read, false},
		{IP_AGENT, SYS_munmap, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		build(NOTIFY);
		cr_expect_eq(action(AUDIT_ARCH_X86_64, row[i].ip, row[i].nr),
			     row[i].notifies ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_TRAP, "row %zu",
			     i);
		cr_expect_eq(action(AUDIT_ARCH_I386, row[i].ip, row[i].nr), SECCOMP_RET_TRAP);
		build(0);
		cr_expect_eq(action(AUDIT_ARCH_X86_64, row[i].ip, row[i].nr), SECCOMP_RET_TRAP);
	}
}

static const struct filter_rule *const g_guest[] = {g_trap_guest_rules, NULL};
static const struct filter_rule *const g_gate[] = {g_trap_gate_rules, NULL};
static const struct filter_rule *const g_agent[] = {g_trap_agent_rules, NULL};

static const struct filter_rule *const g_keeper[] = {g_trap_keeper_rules, NULL};

static uint64_t g_ip;

static bool keeper_passes(uint32_t nr, const uint64_t arg[6])
{
	struct seccomp_data d = {
		.nr = (int)nr, .arch = AUDIT_ARCH_X86_64, .instruction_pointer = g_ip};

	memcpy(d.args, arg, sizeof(d.args));
	return run(&g_config->keeper, &d) == SECCOMP_RET_ALLOW;
}

static bool guest_passes(uint32_t nr, const uint64_t arg[6])
{
	return passes(GUEST, AUDIT_ARCH_X86_64, g_ip, (int)nr, arg);
}

static bool agent_passes(uint32_t nr, const uint64_t arg[6])
{
	return passes(AGENT, AUDIT_ARCH_X86_64, g_ip, (int)nr, arg);
}

Test(trap_filter, as_listed)
{
	for (unsigned i = 0; i < 2; i++) {
		build(i ? NOTIFY : 0);
		g_ip = IP_GUEST;
		filter_check(g_guest, guest_passes);
		g_ip = IP_GATE;
		filter_check(g_gate, guest_passes);
		g_ip = IP_AGENT;
		filter_check(g_agent, agent_passes);
		g_ip = TS_TEXT + TS_AGENT_END + 2;
		filter_check(g_keeper, keeper_passes);
	}
}

/* What a guest thread may do it may do at one instruction, and what the agent may do in its own
 * code. */
static void check_places(void)
{
	static const uint64_t guest[6] = {TS_AREAS}, agent[6] = {0x700000, 4096};
	static const uint64_t gate[6] = {TS_CLONE_AGENT, TS_NO_STACK};
	static const uint64_t exec[6] = {0x700000, 4096, PROT_READ | PROT_EXEC};

	cr_assert(filter_says(g_gate, SYS_clone, gate));
	cr_assert(filter_says(g_guest, SYS_futex, guest));
	cr_assert(filter_says(g_agent, SYS_munmap, agent));
	for (uint64_t off = 0; off <= TS_TEXT_SIZE + 64; off++) {
		g_ip = TS_TEXT - 32 + off;
		const uint64_t at = g_ip - TS_TEXT;

		cr_expect_eq(guest_passes(SYS_futex, guest), at == TS_GUEST_IP, "%lx", g_ip);
		cr_expect_eq(guest_passes(SYS_munmap, agent), at == TS_GUEST_IP, "%lx", g_ip);
		cr_expect_eq(guest_passes(SYS_mprotect, agent), at == TS_GUEST_IP, "%lx", g_ip);
		cr_expect(!guest_passes(SYS_mprotect, exec), "%lx", g_ip);
		cr_expect_eq(guest_passes(SYS_clone, gate), at == TS_GATE_IP, "%lx", g_ip);
		cr_expect_eq(agent_passes(SYS_clone, gate), at == TS_GATE_IP, "%lx", g_ip);
		cr_expect_eq(agent_passes(SYS_mprotect, exec), at >= TS_AGENT && at < TS_AGENT_END,
			     "%lx", g_ip);
		cr_expect_eq(keeper_passes(SYS_exit_group, agent), at < TS_TEXT_SIZE, "%lx", g_ip);
		cr_expect_eq(keeper_passes(SYS_munmap, agent), at < TS_AGENT_END, "%lx", g_ip);
	}
	for (unsigned bit = 14; bit < 64; bit++) {
		g_ip = IP_GUEST ^ 1ull << bit;
		cr_expect(!guest_passes(SYS_futex, guest), "%lx", g_ip);
		g_ip = IP_AGENT ^ 1ull << bit;
		cr_expect(!agent_passes(SYS_munmap, agent), "%lx", g_ip);
	}
}

Test(trap_filter, places)
{
	build(0);
	check_places();
	build(NOTIFY);
	check_places();
}
