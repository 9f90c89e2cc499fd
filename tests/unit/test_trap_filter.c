/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp programs of the trap platform, run by a small interpreter: what each lets pass.
 */
#include <criterion/criterion.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include "platform/trap.h"

static struct ts_config *g_config;

static void setup(void)
{
	struct err e;

	g_config = mem_zalloc(sizeof(*g_config));
	cr_assert(g_config != NULL);
	cr_assert_eq(tr_filter_build(g_config, &e), 0);
}

static void teardown(void)
{
	mem_free(g_config);
}

TestSuite(trap_filter, .init = setup, .fini = teardown);

static uint32_t run(const struct ts_fprog *prog, const struct seccomp_data *data)
{
	const size_t start = prog->insns - TS_CONFIG - offsetof(struct ts_config, insns);
	uint32_t acc = 0;

	for (size_t pc = 0; pc < prog->count; pc++) {
		struct sock_filter f;

		memcpy(&f, g_config->insns + start + pc * sizeof(f), sizeof(f));
		switch (f.code) {
		case BPF_LD | BPF_W | BPF_ABS:
			cr_assert(f.k + 4 <= sizeof(*data));
			memcpy(&acc, (const char *)data + f.k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			acc &= f.k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += acc == f.k ? f.jt : f.jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += acc > f.k ? f.jt : f.jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += acc >= f.k ? f.jt : f.jf;
			break;
		case BPF_RET | BPF_K:
			return f.k;
		default:
			cr_assert_fail("instruction %zu has code %x", pc, f.code);
		}
	}
	cr_assert_fail("the program has no end");
	return 0;
}

enum who { GUEST, AGENT };

/* Does the stack of filters of a thread let the call pass? */
static bool passes(enum who who, uint32_t arch, uint64_t ip, int nr, const uint64_t arg[6])
{
	struct seccomp_data d = {.nr = nr, .arch = arch, .instruction_pointer = ip};

	memcpy(d.args, arg, sizeof(d.args));
	return run(&g_config->keeper, &d) == SECCOMP_RET_ALLOW &&
	       run(&g_config->agent, &d) == SECCOMP_RET_ALLOW &&
	       (who == AGENT || run(&g_config->guest, &d) == SECCOMP_RET_ALLOW);
}

#define IP_GUEST ((uint64_t)TS_TEXT + TS_GUEST_IP)
#define IP_AGENT ((uint64_t)TS_TEXT + TS_AGENT + 0x80)

Test(trap_filter, rows)
{
	static const struct {
		enum who who;
		uint64_t ip;
		int nr;
		uint64_t arg[6];
		bool want;
	} row[] = {
		{GUEST, IP_GUEST, SYS_futex, {0, 0}, true},
		{GUEST, IP_GUEST, SYS_futex, {0, 1}, true},
		{GUEST, IP_GUEST, SYS_futex, {0, 6}, false},
		{GUEST, IP_GUEST, SYS_rt_sigreturn, {0}, true},
		{GUEST, IP_GUEST, SYS_exit, {0}, true},
		{GUEST, IP_GUEST, SYS_arch_prctl, {0x1002, 1}, true},
		{GUEST, IP_GUEST, SYS_arch_prctl, {0x1012, 1}, false}, /* CPUID faulting */
		{GUEST, IP_GUEST, SYS_openat, {0}, false},
		{GUEST, IP_GUEST, SYS_mmap, {0x700000, 4096, 3, 0x32, -1ull, 0}, false},
		{GUEST, IP_GUEST, SYS_clone, {TS_CLONE_FORK}, false},
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
		{AGENT, 0x401000, SYS_munmap, {0x700000, 4096}, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		const bool got =
			passes(row[i].who, AUDIT_ARCH_X86_64, row[i].ip, row[i].nr, row[i].arg);

		cr_expect_eq(got, row[i].want, "row %zu: call %d", i, row[i].nr);
		cr_expect(!passes(row[i].who, AUDIT_ARCH_I386, row[i].ip, row[i].nr, row[i].arg),
			  "row %zu from 32-bit code", i);
	}
}
