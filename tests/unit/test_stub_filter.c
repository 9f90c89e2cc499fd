/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp programs of the ptrace platform's stubs, and the page that lists them.
 */
#include <criterion/criterion.h>
#include <linux/audit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "platform/stub_filter.h"
#include "tests/unit/filter_model.h"

static struct stub_config *g_config;
static const struct stub_fprog *g_prog;
static uint32_t g_arch = AUDIT_ARCH_X86_64;

static void setup(void)
{
	struct err e;

	g_config = mem_zalloc(sizeof(*g_config));
	cr_assert(g_config != NULL);
	cr_assert_eq(stub_filter_build(g_config, &e), 0);
}

static void teardown(void)
{
	mem_free(g_config);
}

TestSuite(stub_filter, .init = setup, .fini = teardown);

static bool passes(uint32_t nr, const uint64_t arg[6])
{
	struct seccomp_data d = {
		.nr = (int)nr, .arch = g_arch, .instruction_pointer = 0x7ffff0010400};
	uint32_t r;

	memcpy(d.args, arg, sizeof(d.args));
	r = filter_run(g_config->insns +
			       (g_prog->insns - STUB_CONFIG - offsetof(struct stub_config, insns)),
		       g_prog->count, &d);
	if (g_arch == AUDIT_ARCH_X86_64 && !(nr & 0x40000000))
		cr_expect(r == SECCOMP_RET_ALLOW || r == SECCOMP_RET_TRAP, "%x", r);
	else
		cr_expect(r == SECCOMP_RET_KILL_PROCESS || r == SECCOMP_RET_TRAP, "%x", r);
	return r == SECCOMP_RET_ALLOW;
}

Test(stub_filter, as_listed)
{
	const struct filter_rule *const guest[] = {g_stub_guest_rules, NULL};
	const struct filter_rule *const keeper[] = {g_stub_guest_rules, g_stub_keeper_rules, NULL};

	g_prog = &g_config->guest;
	filter_check(guest, passes);
	g_prog = &g_config->keeper;
	filter_check(keeper, passes);
}

Test(stub_filter, other_architectures)
{
	static const uint32_t arch[] = {AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, 0};
	static const uint64_t arg[6] = {0};

	for (unsigned i = 0; i < ARRAY_SIZE(arch); i++) {
		g_arch = arch[i];
		for (uint32_t nr = 0; nr < 600; nr++) {
			g_prog = &g_config->guest;
			cr_expect(!passes(nr, arg));
			g_prog = &g_config->keeper;
			cr_expect(!passes(nr, arg));
		}
	}
	g_arch = AUDIT_ARCH_X86_64;
}

static char *slurp(FILE *f)
{
	size_t size = 0, n;
	char *s = NULL;

	do {
		s = realloc(s, size + 65537);
		cr_assert_not_null(s);
		n = fread(s + size, 1, 65536, f);
		size += n;
	} while (n > 0);
	s[size] = '\0';
	return s;
}

/* The page in the tree is what the tables give, and under `make check` the committed one too. */
Test(stub_filter, page_is_fresh)
{
	const char *build = getenv("MOAT_BUILD");
	char *page, *made;
	char cmd[4096];
	FILE *f;

	if (!build)
		cr_skip_test("only under tests/unit/run.sh");
	snprintf(cmd, sizeof(cmd), "%s/platform/gen/host_doc", build);
	f = fopen(cmd, "r");
	if (!f)
		cr_skip_test("the generator is not built");
	fclose(f);
	snprintf(cmd, sizeof(cmd), "%s/platform/gen/host_doc docs/SECURITY.md", build);
	f = popen(cmd, "r");
	cr_assert_not_null(f);
	made = slurp(f);
	cr_expect_eq(pclose(f), 0);
	f = fopen("docs/SECURITY.md", "r");
	cr_assert_not_null(f);
	page = slurp(f);
	fclose(f);
	cr_expect_str_eq(page, made, "docs/SECURITY.md is stale: run make, and commit it");
	cr_expect(strlen(made) > 20000 && strstr(made, "\n| ptrace |"), "an empty list");
	free(page);
	free(made);
	if (getenv("MOAT_CHECK"))
		cr_expect_eq(system("test ! -e .git || ! command -v git >/dev/null || "
				    "git diff --quiet HEAD -- docs/SECURITY.md"),
			     0, "docs/SECURITY.md as committed is stale");
}
