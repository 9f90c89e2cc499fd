/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the sentry's seccomp programs (platform/sentry_filter.h) as C to stdout, made by
 * libseccomp from the table (platform/sentry_rules.h), for the build that its argument names: rel,
 * dbg, another.
 */
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "platform/sentry_rules.h"

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

static unsigned make(enum sentry_platform platform, unsigned variant, enum sentry_build build)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	char path[] = "/tmp/sentry_filter.XXXXXX";
	const int fd = mkstemp(path);
	struct sentry_insn insn;
	unsigned n = 0;

	must(ctx && fd >= 0 ? 0 : -EIO, "start");
	unlink(path);
	must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "arch");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "tree");
	for (size_t i = 0; i < ARRAY_SIZE(g_sentry_rules); i++) {
		struct scmp_arg_cmp cmp[FILTER_TESTS_MAX];

		if (sentry_rule_holds(&g_sentry_rules[i], platform, variant, build))
			add(ctx, &g_sentry_rules[i], 0, cmp);
	}
	must(seccomp_export_bpf(ctx, fd), "export");
	seccomp_release(ctx);
	printf("static const struct sentry_insn g_program_%u_%u[] = {\n", platform, variant);
	must((int)lseek(fd, 0, SEEK_SET), "seek");
	for (; read(fd, &insn, sizeof(insn)) == (ssize_t)sizeof(insn); n++)
		printf("\t{%#x, %u, %u, %#x},\n", insn.code, insn.jt, insn.jf, insn.k);
	printf("};\n\n");
	close(fd);
	return n;
}

int main(int argc, char **argv)
{
	const char *const m = argc > 1 ? argv[1] : "";
	const enum sentry_build build = strcmp(m, "rel") == 0   ? SENTRY_SHIPPED
					: strcmp(m, "dbg") == 0 ? SENTRY_DEBUG
								: SENTRY_SAN;
	unsigned count[SENTRY_PLATFORMS][SENTRY_VARIANTS];

	printf("/* Made by platform/gen/sentry_filter.c. */\n#include "
	       "\"platform/sentry_filter.h\"\n\n");
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
	printf("};\n");
	return fflush(stdout) != 0;
}
