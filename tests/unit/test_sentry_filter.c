/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentry's own seccomp programs against the rows that they are made from, and that the host's
 * kernel sees them likewise.
 */
#include <criterion/criterion.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/sanitizer.h"
#include "platform/sentry_rules.h"
#include "tests/unit/filter_model.h"

/* The issue's own limit. */
#define CALLS_MAX 61

#if defined(MOAT_COVERAGE) || defined(MOAT_FUZZ)
#define BUILD SENTRY_SAN
#elif defined(MOAT_DEBUG)
#define BUILD (MOAT_ASAN | MOAT_TSAN ? SENTRY_SAN : SENTRY_DEBUG)
#else
#define BUILD SENTRY_SHIPPED
#endif

static struct filter_rule g_pass[ARRAY_SIZE(g_sentry_rules) + 1];
static struct filter_rule g_answer[ARRAY_SIZE(g_sentry_rules) + 1];
static int g_error[ARRAY_SIZE(g_sentry_rules) + 1];
static const struct sentry_program *g_prog;
static uint32_t g_arch = AUDIT_ARCH_X86_64;

static void choose(enum sentry_platform platform, unsigned variant)
{
	unsigned n = 0, m = 0;

	memset(g_pass, 0, sizeof(g_pass));
	memset(g_answer, 0, sizeof(g_answer));
	for (size_t i = 0; i < ARRAY_SIZE(g_sentry_rules); i++) {
		const struct sentry_rule *r = &g_sentry_rules[i];

		if (!sentry_rule_holds(r, platform, variant, BUILD))
			continue;
		if (r->error) {
			g_error[m] = r->error;
			g_answer[m++] = r->rule;
		} else {
			g_pass[n++] = r->rule;
		}
	}
	g_prog = &g_sentry_programs[platform][variant];
}

static uint32_t ask(uint32_t nr, const uint64_t arg[6])
{
	struct seccomp_data d = {
		.nr = (int)nr, .arch = g_arch, .instruction_pointer = 0x555555554000};

	memcpy(d.args, arg, sizeof(d.args));
	return filter_run(g_prog->insns, g_prog->count, &d);
}

static bool passes(uint32_t nr, const uint64_t arg[6])
{
	const uint32_t r = ask(nr, arg);

	if (r == SECCOMP_RET_ALLOW)
		return true;
	for (unsigned i = 0; g_answer[i].name; i++) {
		struct filter_rule one[2] = {g_answer[i]};
		const struct filter_rule *const table[] = {one, NULL};

		if (!filter_says(table, nr, arg))
			continue;
		cr_expect_eq(r, SECCOMP_RET_ERRNO | (uint32_t)g_error[i], "call %u: %x", nr, r);
		return false;
	}
	cr_expect_eq(r, SECCOMP_RET_KILL_PROCESS, "call %u: %x", nr, r);
	return false;
}

static void check(enum sentry_platform platform, unsigned variant)
{
	const struct filter_rule *const table[] = {g_pass, NULL};
	uint64_t arg[6] = {0};

	choose(platform, variant);
	filter_check(table, passes);
	for (unsigned i = 0; g_answer[i].name; i++) {
		for (unsigned j = 0; j < FILTER_TESTS_MAX && g_answer[i].test[j].text; j++)
			arg[g_answer[i].test[j].arg] = g_answer[i].test[j].value;
		cr_expect_not(passes(g_answer[i].nr, arg));
	}
}

/* Builds with sanitizers have a wider list, of which these do not hold. */
#define SKIP_WIDER()                                                                  \
	do {                                                                          \
		if (MOAT_ASAN | MOAT_TSAN)                                            \
			cr_skip_test("the list of a build with sanitizers is wider"); \
	} while (0)

Test(sentry_filter, trap)
{
	SKIP_WIDER();
	for (unsigned v = 0; v < SENTRY_VARIANTS; v++)
		check(SENTRY_TRAP, v);
}

Test(sentry_filter, ptrace)
{
	SKIP_WIDER();
	for (unsigned v = 0; v < SENTRY_VARIANTS; v++)
		check(SENTRY_PTRACE, v);
}

Test(sentry_filter, notify)
{
	SKIP_WIDER();
	for (unsigned v = 0; v < SENTRY_VARIANTS; v++)
		check(SENTRY_NOTIFY, v);
}

Test(sentry_filter, other_architectures_kill)
{
	static const uint32_t others[] = {AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, 0};
	const uint64_t arg[6] = {0};

	for (unsigned p = 0; p < SENTRY_PLATFORMS; p++) {
		choose(p, SENTRY_RW | SENTRY_OLD);
		for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
			g_arch = others[i];
			for (uint32_t nr = 0; nr < 600; nr++)
				cr_expect_eq(ask(nr, arg), SECCOMP_RET_KILL_PROCESS);
		}
		g_arch = AUDIT_ARCH_X86_64;
	}
}

/* Distinct calls that pass with some arguments. */
static unsigned count_calls(void)
{
	unsigned n = 0;

	for (unsigned i = 0; g_pass[i].name; i++) {
		bool seen = false;

		for (unsigned j = 0; j < i; j++)
			seen |= g_pass[j].nr == g_pass[i].nr;
		n += !seen;
	}
	return n;
}

Test(sentry_filter, is_short)
{
	for (unsigned p = 0; p < SENTRY_PLATFORMS && BUILD == SENTRY_SHIPPED; p++) {
		choose(p, SENTRY_RW);
		cr_expect_leq(count_calls(), CALLS_MAX, "platform %u: %u calls", p, count_calls());
	}
}

/* These no row may ever let pass. */
Test(sentry_filter, no_way_out)
{
	static const uint32_t never[] = {
		FILTER_NEVER,   SYS_listen,     SYS_accept,       SYS_accept4, SYS_perf_event_open,
		SYS_shmget,     SYS_modify_ldt, SYS_iopl,         SYS_ioperm,  SYS_kexec_load,
		SYS_move_mount, SYS_fsopen,     SYS_memfd_secret,
	};
	const uint64_t arg[6] = {0};

	SKIP_WIDER();
	for (unsigned p = 0; p < SENTRY_PLATFORMS; p++) {
		choose(p, SENTRY_RW | SENTRY_OLD);
		for (size_t i = 0; i < ARRAY_SIZE(never); i++)
			cr_expect_eq(ask(never[i], arg), SECCOMP_RET_KILL_PROCESS, "call %u",
				     never[i]);
	}
}

/* The host's own judgement, of some: children of which the filter kills those that it should. */
static int child_status(enum sentry_platform platform, long nr, long a, long b, long c, long d)
{
	static const char *const names[] = {"trap", "ptrace", "notify"};
	struct err e;
	const pid_t pid = fork();
	int status = 0;

	cr_assert(pid >= 0);
	if (pid == 0) {
		if (sentry_lock_down(names[platform], true, &e) != 0)
			_exit(77);
		(void)syscall(nr, a, b, c, d, 0, 0);
		_exit(7);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

Test(sentry_filter, by_the_host)
{
	SKIP_WIDER();
	for (unsigned p = 0; p < SENTRY_PLATFORMS; p++) {
		cr_expect_eq(child_status(p, SYS_close, -1, 0, 0, 0), 7);
		cr_expect_eq(child_status(p, SYS_clone3, 0, 0, 0, 0), 7);
		cr_expect_eq(
			child_status(p, SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS),
			7);
		cr_expect_eq(child_status(p, SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC,
					  MAP_PRIVATE | MAP_ANONYMOUS),
			     -SIGSYS);
		cr_expect_eq(child_status(p, SYS_socket, 1, 1, 0, 0), -SIGSYS);
		cr_expect_eq(child_status(p, SYS_close | 0x40000000, -1, 0, 0, 0), -SIGSYS);
		cr_expect_eq(child_status(p, SYS_kill, 0, 9, 0, 0), -SIGSYS);
		cr_expect_eq(child_status(p, SYS_kill, -1, 9, 0, 0), -SIGSYS);
		cr_expect_eq(child_status(p, SYS_ptrace, PTRACE_SEIZE, FILTER_PID_END - 1, 0, 0),
			     p == SENTRY_PTRACE ? 7 : -SIGSYS);
	}
}
