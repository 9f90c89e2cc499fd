/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's own seccomp programs against the rows that they are made from, with the descriptors
 * that they are told, and that the host's kernel sees them likewise; and what Landlock leaves.
 */
#include <criterion/criterion.h>
#include <linux/audit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "base/sanitizer.h"
#include "platform/monitor_rules.h"
#include "runtime/landlock.h"
#include "runtime/monitor_lock.h"
#include "tests/unit/filter_model.h"

#if defined(MOAT_COVERAGE) || defined(MOAT_FUZZ)
#define BUILD SENTRY_SAN
#elif defined(MOAT_DEBUG)
#define BUILD (MOAT_ASAN | MOAT_TSAN ? SENTRY_SAN : SENTRY_DEBUG)
#else
#define BUILD SENTRY_SHIPPED
#endif

static struct filter_rule g_pass[ARRAY_SIZE(g_monitor_rules) + 1];
static uint64_t g_sets[ARRAY_SIZE(g_monitor_rules)][8];
static struct sentry_insn *g_prog;
static unsigned g_count;

static uint64_t told(uint64_t value, const int *slots)
{
	return value >= MONITOR_SLOT(0) && value < MONITOR_SLOT(MONITOR_SLOTS)
		       ? (uint32_t)slots[value - MONITOR_SLOT(0)]
		       : value;
}

/* The table and the program of @variant, which know @slots. */
static void choose(unsigned variant, const int *slots)
{
	unsigned n = 0;

	memset(g_pass, 0, sizeof(g_pass));
	for (size_t i = 0; i < ARRAY_SIZE(g_monitor_rules); i++) {
		struct filter_rule *r = &g_pass[n];

		if (!monitor_rule_holds(&g_monitor_rules[i], variant, BUILD))
			continue;
		*r = g_monitor_rules[i].rule;
		for (unsigned t = 0; t < FILTER_TESTS_MAX && r->test[t].text; t++) {
			r->test[t].value = told(r->test[t].value, slots);
			if (!r->test[t].count)
				continue;
			cr_assert_leq(r->test[t].count, 8u);
			for (unsigned k = 0; k < r->test[t].count; k++)
				g_sets[n][k] = told(r->test[t].set[k], slots);
			r->test[t].set = g_sets[n];
		}
		n++;
	}
	free(g_prog);
	g_prog = monitor_program(variant, slots);
	g_count = g_monitor_programs[variant].count;
	cr_assert(g_prog);
}

static uint32_t ask(uint32_t arch, uint32_t nr, const uint64_t arg[6])
{
	struct seccomp_data d = {
		.nr = (int)nr, .arch = arch, .instruction_pointer = 0x555555554000};

	memcpy(d.args, arg, sizeof(d.args));
	return filter_run(g_prog, g_count, &d);
}

static bool passes(uint32_t nr, const uint64_t arg[6])
{
	const uint32_t r = ask(AUDIT_ARCH_X86_64, nr, arg);

	cr_expect(r == SECCOMP_RET_ALLOW || r == SECCOMP_RET_KILL_PROCESS, "call %u: %x", nr, r);
	return r == SECCOMP_RET_ALLOW;
}

static const int g_slots[MONITOR_SLOTS] = {4711, 4712, 5,  0,  17, 20, 7,  8,  9,
					   10,   11,   12, 18, 13, 14, 15, 16, 19};

Test(monitor_filter, is_as_its_rows)
{
	const struct filter_rule *const table[] = {g_pass, NULL};

	for (unsigned v = 0; v < MONITOR_VARIANTS; v++) {
		/* Who learns may read any descriptor and ask for any file, and so nothing depends
		 * on others' rows. */
		if (v >= MONITOR_LEARN)
			continue;
		choose(v, g_slots);
		filter_check(table, passes);
	}
}

Test(monitor_filter, other_architectures_kill)
{
	static const uint32_t others[] = {AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, 0};
	const uint64_t arg[6] = {0};

	choose(MONITOR_VARIANTS - 1, g_slots);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		for (uint32_t nr = 0; nr < 600; nr++)
			cr_expect_eq(ask(others[i], nr, arg), SECCOMP_RET_KILL_PROCESS);
	}
}

/* Who has no log, no archive, no terminal, has no calls for them: whatever the descriptor. */
Test(monitor_filter, what_is_not_there)
{
	int slots[MONITOR_SLOTS];
	uint64_t arg[6] = {0};

	for (unsigned i = 0; i < MONITOR_SLOTS; i++)
		slots[i] = -1;
	slots[MONITOR_SENTRY] = 4711;
	slots[MONITOR_SELF] = 4712;
	slots[MONITOR_CONTROL] = 5;
	choose(0, slots);
	for (int fd = -2; fd < 100; fd++) {
		arg[0] = (uint64_t)fd;
		/* -1 is let pass, and EBADF. */
		cr_expect_eq(passes(SYS_write, arg), fd == 2 || fd == 5 || fd == -1, "%d", fd);
		arg[1] = TCSETSW;
		cr_expect_eq(passes(SYS_ioctl, arg), fd == -1);
		arg[1] = 0;
		cr_expect_eq(passes(SYS_read, arg), fd == -1);
		cr_expect_not(passes(SYS_unlinkat, arg));
		cr_expect_not(passes(SYS_renameat, arg));
		cr_expect_not(passes(SYS_fchmod, arg));
		cr_expect_not(passes(SYS_openat, arg));
	}
	arg[1] = SIGKILL;
	for (int pid = -5000; pid < 5000; pid++) {
		arg[0] = (uint64_t)pid;
		cr_expect_eq(passes(SYS_kill, arg), pid == 4711 || pid == 4712);
	}
	arg[1] = SIGTERM;
	for (int pid = -5000; pid < 5000; pid++) {
		arg[0] = (uint64_t)pid;
		cr_expect_eq(passes(SYS_kill, arg), pid == 4712);
	}
	arg[1] = SIGTSTP;
	for (int pid = -5000; pid < 5000; pid++) {
		arg[0] = (uint64_t)pid;
		cr_expect_eq(passes(SYS_kill, arg), pid == 0 || pid == 4712);
	}
}

/* These no row may ever let pass. */
Test(monitor_filter, no_way_out)
{
	static const uint32_t never[] = {
		FILTER_NEVER,
		SYS_clone,
		SYS_clone3,
		SYS_sendto,
		SYS_sendmsg,
		SYS_recvmsg,
		SYS_process_vm_writev,
		SYS_mprotect,
		SYS_pkey_mprotect,
		SYS_prctl,
		SYS_chmod,
		SYS_fchmodat,
		SYS_chown,
		SYS_fchownat,
		SYS_linkat,
		SYS_symlinkat,
		SYS_mkdirat,
		SYS_mknodat,
		SYS_unlink,
		SYS_rename,
		SYS_renameat2,
		SYS_truncate,
		SYS_ftruncate,
		SYS_fcntl,
		SYS_dup,
		SYS_dup2,
		SYS_dup3,
		SYS_pwrite64,
		SYS_pwritev2,
		SYS_sendfile,
		SYS_splice,
		SYS_prlimit64,
		SYS_setxattr,
		SYS_fsetxattr,
	};
	const uint64_t arg[6] = {0};

	for (unsigned v = 0; v < MONITOR_VARIANTS; v++) {
		choose(v, g_slots);
		for (size_t i = 0; i < ARRAY_SIZE(never); i++)
			cr_expect_not(passes(never[i], arg), "variant %u, call %u", v, never[i]);
	}
}

static int child_status(unsigned variant, long nr, long a, long b, long c)
{
	const pid_t pid = fork();
	int status = 0;

	cr_assert(pid >= 0);
	if (pid == 0) {
		struct err e;

		(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (monitor_lock_down(variant, g_slots, &e) != 0)
			_exit(77);
		(void)syscall(nr, a, b, c, 0, 0, 0);
		_exit(7);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

Test(monitor_filter, by_the_host)
{
	if (MOAT_ASAN | MOAT_TSAN)
		cr_skip_test("the end of a build with sanitizers makes other calls");
	cr_expect_eq(child_status(0, SYS_close, -1, 0, 0), 7);
	cr_expect_eq(child_status(0, SYS_close | 0x40000000, -1, 0, 0), -SIGSYS);
	cr_expect_eq(child_status(0, SYS_write, 5, 0, 0), 7);
	cr_expect_eq(child_status(0, SYS_write, 1, 0, 0), -SIGSYS);
	cr_expect_eq(child_status(0, SYS_write, 8, 0, 0), -SIGSYS);
	cr_expect_eq(child_status(MONITOR_AUDIT, SYS_write, 8, 0, 0), 7);
	cr_expect_eq(child_status(0, SYS_kill, 0, 9, 0), -SIGSYS);
	cr_expect_eq(child_status(0, SYS_openat, AT_FDCWD, 0, 0), -SIGSYS);
	cr_expect_eq(child_status(MONITOR_SAVE, SYS_unlinkat, 11, (long)"", 0), 7);
	cr_expect_eq(child_status(MONITOR_SAVE, SYS_unlinkat, 11, (long)"", AT_REMOVEDIR), -SIGSYS);
	cr_expect_eq(child_status(MONITOR_CGROUP, SYS_unlinkat, 15, (long)"", AT_REMOVEDIR), 7);
	cr_expect_eq(child_status(MONITOR_CGROUP, SYS_unlinkat, 17, (long)"", AT_REMOVEDIR),
		     -SIGSYS);
}

/* The filter cannot look at names: Landlock keeps them to the archive's directory. */
Test(monitor_filter, names_lead_nowhere_else)
{
	char top[] = "/tmp/moat-monitor.XXXXXX", beside[64], inside[64];
	struct monitor_lock l;
	int status = 0, dir;
	pid_t pid;

	if (landlock_version() < 2)
		cr_skip_test("this host has no Landlock, or none that knows of renames");
	if (MOAT_ASAN | MOAT_TSAN || BUILD == SENTRY_SAN)
		cr_skip_test("such a build gives nothing up");
	cr_assert(mkdtemp(top));
	snprintf(beside, sizeof(beside), "%s/beside", top);
	snprintf(inside, sizeof(inside), "%s/inside", top);
	cr_assert_eq(mkdir(inside, 0700), 0);
	close(open(beside, O_CREAT | O_WRONLY, 0600));
	dir = open(inside, O_PATH | O_DIRECTORY);
	close(openat(dir, "temp", O_CREAT | O_WRONLY, 0600));
	pid = fork();
	if (pid == 0) {
		int bad = 0;

		monitor_lock_init(&l);
		monitor_lock_path(&l, dir, LL_MAKE_REG | LL_REMOVE_FILE, false);
		monitor_give_up(&l);
		bad |= prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 1;
		bad |= prctl(PR_GET_DUMPABLE) == 0 ? 0 : 2;
		bad |= renameat(dir, "temp", dir, "final") == 0 ? 0 : 4;
		bad |= renameat(dir, "final", dir, "../beside") < 0 ? 0 : 8;
		bad |= renameat(dir, "../beside", dir, "final") < 0 ? 0 : 16;
		bad |= unlinkat(dir, beside, 0) < 0 ? 0 : 32;
		bad |= openat(dir, "final", O_RDONLY) < 0 ? 0 : 64;
		_exit(bad);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0, "%x", status);
	cr_expect_eq(unlinkat(dir, "final", 0), 0);
	cr_expect_eq(unlink(beside), 0);
	cr_expect_eq(rmdir(inside), 0);
	cr_expect_eq(rmdir(top), 0);
	close(dir);
}
