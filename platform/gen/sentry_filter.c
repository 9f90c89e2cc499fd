/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the sentry's and the monitor's seccomp programs (platform/sentry_filter.h,
 * monitor_filter.h) as C to stdout, made by libseccomp from the tables (platform/sentry_rules.h,
 * monitor_rules.h), for the build that its argument names: rel, dbg, another.
 */
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "platform/monitor_rules.h"

static void must(int r, const char *what)
{
	if (r < 0) {
		fprintf(stderr, "sentry_filter: %s: %s\n", what, strerror(-r));
		exit(1);
	}
}

static void add(scmp_filter_ctx ctx, const struct sentry_rule *r, unsigned n,
		struct scmp_arg_cmp cmp[FILTER_TESTS_MAX])
{
	const struct filter_test *t = &r->rule.test[n];
	const uint32_t action = r->error ? SCMP_ACT_ERRNO((uint32_t)r->error) : SCMP_ACT_ALLOW;

	if (n == FILTER_TESTS_MAX || !t->text) {
		const int e = seccomp_rule_add_exact_array(ctx, action, (int)r->rule.nr, n, cmp);

		/* Several rows may say the same. */
		must(e == -EEXIST ? 0 : e, r->rule.name);
		return;
	}
	switch (t->kind) {
	case FILTER_IS:
		cmp[n] = SCMP_CMP64(t->arg, SCMP_CMP_EQ, t->value);
		break;
	case FILTER_IS32:
		cmp[n] = SCMP_CMP64(t->arg, SCMP_CMP_MASKED_EQ, 0xffffffff, (uint32_t)t->value);
		break;
	case FILTER_BITS:
		cmp[n] = SCMP_CMP64(t->arg, SCMP_CMP_MASKED_EQ, t->mask, t->value);
		break;
	case FILTER_ONE_OF:
		for (unsigned i = 0; i < t->count; i++) {
			cmp[n] = SCMP_CMP64(t->arg, SCMP_CMP_MASKED_EQ, t->mask,
					    t->set[i] & t->mask);
			add(ctx, r, n + 1, cmp);
		}
		return;
	case FILTER_PID:
		/* One comparison for each argument is all there is: so by the bits, one of which
		 * must be set. */
		for (uint32_t bit = 1; bit < FILTER_PID_END; bit <<= 1) {
			cmp[n] = SCMP_CMP64(t->arg, SCMP_CMP_MASKED_EQ,
					    (uint32_t) ~(FILTER_PID_END - 1) | bit, bit);
			add(ctx, r, n + 1, cmp);
		}
		return;
	default:
		must(-EINVAL, r->rule.name);
	}
	add(ctx, r, n + 1, cmp);
}

static scmp_filter_ctx begin(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);

	must(ctx ? 0 : -EINVAL, "start");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "arch");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "tree");
	return ctx;
}

/* The end of @ctx: its program, as @name. How many instructions. */
static unsigned put(scmp_filter_ctx ctx, const char *name)
{
	char path[] = "/tmp/sentry_filter.XXXXXX";
	const int fd = mkstemp(path);
	struct sentry_insn insn;
	unsigned n = 0;

	must(fd >= 0 ? 0 : -EIO, "start");
	unlink(path);
	must(seccomp_export_bpf(ctx, fd), "export");
	seccomp_release(ctx);
	printf("static const struct sentry_insn %s[] = {\n", name);
	must((int)lseek(fd, 0, SEEK_SET), "seek");
	for (; read(fd, &insn, sizeof(insn)) == (ssize_t)sizeof(insn); n++)
		printf("\t{%#x, %u, %u, %#x},\n", insn.code, insn.jt, insn.jf, insn.k);
	printf("};\n\n");
	close(fd);
	return n;
}

static unsigned make(enum sentry_platform platform, unsigned variant, enum sentry_build build)
{
	scmp_filter_ctx ctx = begin();
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(g_sentry_rules); i++) {
		struct scmp_arg_cmp cmp[FILTER_TESTS_MAX];

		if (sentry_rule_holds(&g_sentry_rules[i], platform, variant, build))
			add(ctx, &g_sentry_rules[i], 0, cmp);
	}
	snprintf(name, sizeof(name), "g_program_%u_%u", platform, variant);
	return put(ctx, name);
}

static unsigned make_monitor(unsigned variant, enum sentry_build build)
{
	scmp_filter_ctx ctx = begin();
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(g_monitor_rules); i++) {
		struct scmp_arg_cmp cmp[FILTER_TESTS_MAX];

		if (monitor_rule_holds(&g_monitor_rules[i], variant, build))
			add(ctx, &g_monitor_rules[i], 0, cmp);
	}
	snprintf(name, sizeof(name), "g_monitor_%u", variant);
	return put(ctx, name);
}

int main(int argc, char **argv)
{
	const char *const m = argc > 1 ? argv[1] : "";
	const enum sentry_build build = strcmp(m, "rel") == 0   ? SENTRY_SHIPPED
					: strcmp(m, "dbg") == 0 ? SENTRY_DEBUG
								: SENTRY_SAN;
	unsigned count[SENTRY_PLATFORMS][SENTRY_VARIANTS], monitor[MONITOR_VARIANTS];

	/* What the programs may say is for where moat will run, not for where it is built, which
	 * libseccomp would ask by seccomp(2): there may be none of that, as inside moat. 3: with
	 * SCMP_ACT_KILL_PROCESS. */
	must(seccomp_api_set(3), "level");
	printf("/* Made by platform/gen/sentry_filter.c. */\n#include "
	       "\"platform/monitor_filter.h\"\n\n");
	for (unsigned p = 0; p < SENTRY_PLATFORMS; p++) {
		for (unsigned v = 0; v < SENTRY_VARIANTS; v++)
			count[p][v] = make(p, v, build);
	}
	printf("const struct sentry_program "
	       "g_sentry_programs[SENTRY_PLATFORMS][SENTRY_VARIANTS] = {\n");
	for (unsigned p = 0; p < SENTRY_PLATFORMS; p++) {
		for (unsigned v = 0; v < SENTRY_VARIANTS; v++)
			printf("\t[%u][%u] = {g_program_%u_%u, %u},\n", p, v, p, v, count[p][v]);
	}
	printf("};\n\n");
	for (unsigned v = 0; v < MONITOR_VARIANTS; v++)
		monitor[v] = make_monitor(v, build);
	printf("const struct sentry_program g_monitor_programs[MONITOR_VARIANTS] = {\n");
	for (unsigned v = 0; v < MONITOR_VARIANTS; v++)
		printf("\t[%u] = {g_monitor_%u, %u},\n", v, v, monitor[v]);
	printf("};\n");
	return fflush(stdout) != 0;
}
