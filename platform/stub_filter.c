/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp programs of the stub processes, made by libseccomp.
 *
 * Theory of operation: under ptrace no guest instruction ever makes a host call (PTRACE_SYSEMU), so
 * these programs are the second lock on that door: they hold when the tracer resumes a stub with
 * host calls on, and for what does not pass through the tracer. They are allow-lists, made from
 * tables (platform/stub_rules.c): the calls of the batch routine, of clone and of exit, with the
 * arguments that the sentry ever gives them. All
 * else is SECCOMP_RET_TRAP, so that a call through the vsyscall page (which PTRACE_SYSEMU does not
 * see) arrives as a SIGSYS that the sentry turns into a guest syscall; other architectures kill the
 * process.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string.h>
#include <unistd.h>
#include "platform/filter_rule.h"
#include "platform/host_spawn.h"
#include "platform/stub_filter.h"

#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif

static struct scmp_arg_cmp compare(const struct filter_test *t)
{
	switch (t->kind) {
	case FILTER_IS:
		return SCMP_CMP64(t->arg, SCMP_CMP_EQ, t->value);
	case FILTER_IS32:
		return SCMP_CMP64(t->arg, SCMP_CMP_MASKED_EQ, 0xffffffff, t->value);
	case FILTER_BELOW:
		return SCMP_CMP64(t->arg, SCMP_CMP_LT, t->value);
	case FILTER_BITS:
		return SCMP_CMP64(t->arg, SCMP_CMP_MASKED_EQ, t->mask, t->value);
	case FILTER_RANGE:
	case FILTER_ONE_OF:
	case FILTER_PID:
		break;
	}
	panic("a test that libseccomp cannot make");
}

static int allow(scmp_filter_ctx ctx, const struct filter_rule *rule)
{
	int r = 0;

	for (; rule->name && r == 0; rule++) {
		struct scmp_arg_cmp cmp[FILTER_TESTS_MAX];
		unsigned n = 0;

		for (; n < FILTER_TESTS_MAX && rule->test[n].text; n++)
			cmp[n] = compare(&rule->test[n]);
		r = seccomp_rule_add_exact_array(ctx, SCMP_ACT_ALLOW, (int)rule->nr, n, cmp);
	}
	return r;
}

/* Appends the program of @ctx to config->insns at *@used. */
static int export_program(scmp_filter_ctx ctx, struct stub_config *config, size_t *used,
			  struct stub_fprog *prog)
{
	const size_t insn = 8; /* sizeof(struct sock_filter) */
	ssize_t n;
	int fd = pf_host_memfd("moat-filter", NULL, 0, false);
	int r;

	if (fd < 0)
		return fd;
	r = seccomp_export_bpf(ctx, fd);
	n = r < 0 ? r : pf_host_pread(fd, config->insns + *used, sizeof(config->insns) - *used, 0);
	if (n >= 0 && (n == 0 || (size_t)n == sizeof(config->insns) - *used))
		n = -E2BIG;
	if (n > 0) {
		prog->count = (uint16_t)((size_t)n / insn);
		prog->insns = STUB_CONFIG + offsetof(struct stub_config, insns) + *used;
		*used += (size_t)n;
	}
	pf_host_close(fd);
	return n < 0 ? (int)n : 0;
}

static int build_one(bool keeper, struct stub_config *config, size_t *used, struct stub_fprog *prog)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_TRAP);
	int r;

	if (!ctx)
		return -ENOMEM;
	r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0)
		r = allow(ctx, g_stub_guest_rules);
	if (r == 0 && keeper)
		r = allow(ctx, g_stub_keeper_rules);
	if (r == 0)
		r = export_program(ctx, config, used, prog);
	seccomp_release(ctx);
	return r;
}

int stub_filter_build(struct stub_config *config, struct err *e)
{
	size_t used = 0;
	int r;

	memset(config, 0, sizeof(*config));
	/* Guest code runs in processes of its own; the host's mitigation against speculation within
	 * one process would cost it much and protect nothing. */
	config->seccomp_flags = SECCOMP_FILTER_FLAG_SPEC_ALLOW;
	r = build_one(true, config, &used, &config->keeper);
	if (r == 0)
		r = build_one(false, config, &used, &config->guest);
	if (r < 0)
		return err_set(e, -r, "cannot build the seccomp filter of the stub: %s",
			       err_text(-r));
	return 0;
}
