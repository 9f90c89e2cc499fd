/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes docs/SYSCALLS.md, the list of all syscalls with their status, from the table to stdout.
 * With an argument "names" it writes the names of those that are built, one a line: the list of
 * what tests must cover.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "sentry/argkinds.h"

struct row {
	unsigned nr;
	const char *name;
	struct {
		int status, errnum;
	} result;
	int waits;
	const char *note;
	const char *params;
};

#define UNWRAP(...) __VA_ARGS__
static const struct row g_rows[] = {
#define ROW(nr_, name_, has, status_, ret_, waits_, nargs_, params_, descs, passed, note_) \
	{.nr = nr_,                                                                        \
	 .name = #name_,                                                                   \
	 .result = {UNWRAP status_},                                                       \
	 .waits = waits_,                                                                  \
	 .note = note_,                                                                    \
	 .params = #params_},
#include "sentry/syscall_rows.h"
};

static const char *const g_status[] = {
	[SYS_FULL] = "full",       [SYS_PARTIAL] = "partial",    [SYS_NOSYS] = "ENOSYS",
	[SYS_REFUSED] = "refused", [SYS_TODO] = "not built yet",
};

static const char *errno_of(int errnum)
{
	switch (errnum) {
	case EPERM:
		return "EPERM";
	case EOPNOTSUPP:
		return "EOPNOTSUPP";
	case ENXIO:
		return "ENXIO";
	case EACCES:
		return "EACCES";
	default:
		return NULL;
	}
}

/* The kinds and names of the parameters, without the task and the C_ of the kinds' macros. */
static void print_params(const char *params)
{
	const char *p = strchr(params, ',');

	if (!p) {
		printf("()");
		return;
	}
	putchar('(');
	for (p += 2; *p; p++) {
		if (p[0] == 'C' && p[1] == '_' && (p[-1] == ' ' || p[-1] == '('))
			p++;
		else
			putchar(*p);
	}
}

int main(int argc, char **argv)
{
	unsigned count[SYS_TODO + 1] = {0};
	bool names = argc > 1 && strcmp(argv[1], "names") == 0;

	for (size_t i = 0; i < ARRAY_SIZE(g_rows); i++) {
		const struct row *r = &g_rows[i];
		if (i > 0 && g_rows[i - 1].nr >= r->nr) {
			fprintf(stderr, "syscalls.def: %s is not in order\n", r->name);
			return 1;
		}
		if (r->result.status != SYS_FULL && r->result.status != SYS_TODO &&
		    r->note[0] == '\0') {
			fprintf(stderr, "syscalls.def: %s needs a note that says why\n", r->name);
			return 1;
		}
		if (r->result.status == SYS_REFUSED && !errno_of(r->result.errnum)) {
			fprintf(stderr,
				"syscalls.def: %s: teach errno_of() in syscalls_doc.c its errno\n",
				r->name);
			return 1;
		}
		count[r->result.status]++;
		if (names && (r->result.status == SYS_FULL || r->result.status == SYS_PARTIAL))
			printf("%s\n", r->name);
	}
	if (names)
		return 0;

	printf("<!-- Generated from sentry/syscalls.def by sentry/gen/syscalls_doc.c: change the "
	       "table. -->\n"
	       "# System calls\n\n"
	       "What moat answers, for each of the %zu system calls of Linux/x86-64 up to number "
	       "470.\n"
	       "Every call is answered by the sentry, or by the stub for it (tier 0); none is "
	       "passed to the host,\n"
	       "but that threads of one process may wait in the host's futex for each other.\n\n"
	       "| status | rows | meaning |\n|---|---|---|\n"
	       "| full | %u | as on Linux |\n"
	       "| partial | %u | works; the note says what differs |\n"
	       "| refused | %u | the design refuses it, with the errno of an unprivileged Linux "
	       "caller |\n"
	       "| ENOSYS | %u | there is no such call here; the note says why |\n"
	       "| not built yet | %u | ENOSYS until it is |\n\n"
	       "Numbers without a row (337 to 423, above 470) and x32 numbers answer ENOSYS.\n"
	       "\"waits\": *tier 0* never waits and may be answered inside the guest's address "
	       "space; *disk* may\n"
	       "wait for the host's storage; *yes* may wait, and a signal restarts it under "
	       "SA_RESTART; *EINTR* may\n"
	       "wait, and a handler ends it with EINTR whatever its flags say.\n\n"
	       "| nr | call | status | waits | note |\n|---|---|---|---|---|\n",
	       ARRAY_SIZE(g_rows), count[SYS_FULL], count[SYS_PARTIAL], count[SYS_REFUSED],
	       count[SYS_NOSYS], count[SYS_TODO]);
	for (size_t i = 0; i < ARRAY_SIZE(g_rows); i++) {
		static const char *const waits[] = {
			[WT_NB] = "",      [WT_T0] = "tier 0",   [WT_DISK] = "disk",
			[WT_WAIT] = "yes", [WT_WAITI] = "EINTR",
		};
		const struct row *r = &g_rows[i];

		printf("| %u | `%s", r->nr, r->name);
		print_params(r->params);
		printf("` | %s", g_status[r->result.status]);
		if (r->result.status == SYS_REFUSED)
			printf(" (%s)", errno_of(r->result.errnum));
		printf(" | %s | %s |\n", waits[r->waits], r->note);
	}
	return ferror(stdout) ? 1 : 0;
}
