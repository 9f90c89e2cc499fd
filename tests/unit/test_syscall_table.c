/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The syscall table: complete, in order, and the page that is made from it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sentry/syscall_table.h"

#define LAST_NUMBER 470u

Test(syscall_table, covers_all_numbers)
{
	for (unsigned nr = 0; nr < SYSCALL_MAX; nr++) {
		/* Linux left 337 to 423 free, so that all architectures meet at 424. */
		bool should = nr <= 336 || (nr >= 424 && nr <= LAST_NUMBER);

		cr_expect_eq(syscall_name(nr) != NULL, should, "number %u", nr);
	}
	cr_expect_null(syscall_name(SYSCALL_MAX));
	cr_expect_str_eq(syscall_name(0), "read");
	cr_expect_str_eq(syscall_name(231), "exit_group");
	cr_expect_str_eq(syscall_name(452), "fchmodat2");
}

Test(syscall_table, statuses_are_explained)
{
	for (unsigned nr = 0; nr < SYSCALL_MAX; nr++) {
		const struct syscall_row *r = &g_syscalls[nr];

		if (!syscall_row(nr))
			continue;
		if (r->result.status != SYS_FULL && r->result.status != SYS_TODO)
			cr_expect_neq(syscall_note(r)[0], '\0', "%s: no reason", r->name);
		if (r->result.status == SYS_REFUSED)
			cr_expect_gt(r->result.errnum, 0, "%s", r->name);
		cr_expect_leq(r->nargs, 6);
	}
}

/* A platform that copies by this must not be led out of the arguments, nor into guesses. */
Test(syscall_table, marshalling_is_consistent)
{
	for (unsigned nr = 0; nr < SYSCALL_MAX; nr++) {
		const struct syscall_row *r = &g_syscalls[nr];

		for (unsigned i = 0; syscall_row(nr) && i < r->nargs; i++) {
			const struct argdesc *d = &r->args[i];

			cr_expect_lt(d->link, r->nargs, "%s: %u", r->name, i);
			if (d->bytes != SZ_NONE)
				cr_expect_neq(d->dir, DIR_VALUE, "%s: %u", r->name, i);
			if (d->bytes == SZ_FIXED || d->bytes == SZ_ARG || d->bytes == SZ_RET)
				cr_expect_gt(d->size, 0, "%s: %u", r->name, i);
			if (d->bytes == SZ_ARG || d->bytes == SZ_RET)
				cr_expect_eq(r->args[d->link].dir, DIR_VALUE, "%s: %u", r->name, i);
			if (d->bytes == SZ_PTR)
				cr_expect_eq(r->args[d->link].size, 4, "%s: %u", r->name, i);
		}
	}
}

Test(syscall_table, names)
{
	cr_expect_str_eq(errno_name(ENOENT), "ENOENT");
	cr_expect_null(errno_name(4000));
	cr_expect_str_eq(enum_name(EN_whence, 2), "SEEK_END");
	cr_expect_null(enum_name(EN_whence, 77));
	for (unsigned i = 0; i < 64; i++) {
		cr_expect_not_null(flagset_names((enum arg_flagset)i));
		cr_expect_not_null(enum_names((enum arg_enum)i));
	}
}

static char *slurp(FILE *f)
{
	char *text = NULL;
	size_t used = 0, n;

	do {
		text = realloc(text, used + 65537);
		cr_assert_not_null(text);
		n = fread(text + used, 1, 65536, f);
		used += n;
	} while (n > 0);
	text[used] = '\0';
	return text;
}

/* The page in the tree is what the table gives, and under `make check` the committed one too. */
Test(syscall_table, page_is_fresh)
{
	const char *build = getenv("MOAT_BUILD");
	char cmd[4096];
	char *page, *made;
	FILE *f, *p;

	if (!build)
		cr_skip_test("only under tests/unit/run.sh");
	snprintf(cmd, sizeof(cmd), "%s/sentry/gen/syscalls_doc", build);
	f = fopen(cmd, "r");
	if (!f)
		cr_skip_test("the generator is not built");
	fclose(f);
	p = popen(cmd, "r");
	cr_assert_not_null(p);
	made = slurp(p);
	cr_expect_eq(pclose(p), 0);
	f = fopen("docs/SYSCALLS.md", "r");
	cr_assert_not_null(f, "docs/SYSCALLS.md is missing: run make");
	page = slurp(f);
	fclose(f);
	cr_expect_str_eq(page, made, "docs/SYSCALLS.md is stale: run make, and commit it");
	free(page);
	free(made);
	if (getenv("MOAT_CHECK"))
		cr_expect_eq(system("test ! -e .git || ! command -v git >/dev/null || "
				    "git diff --quiet HEAD -- docs/SYSCALLS.md"),
			     0, "docs/SYSCALLS.md as committed is stale");
}
