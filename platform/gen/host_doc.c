/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes docs/SECURITY.md (its argument) to stdout, with the part between the two marks made anew:
 * what the host's processes may call, from the tables that their filters are made from
 * (platform/stub_rules.c, platform/trap_rules.c) and from the tags of moat's own calls
 * (base/hostcall.def).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "platform/filter_rule.h"
#include "platform/monitor_rules.h"

enum process { SENTRY, MONITOR, START };

static const struct {
	enum process who;
	const char *call, *rule, *purpose;
	bool libc;
} g_rows[] = {
#define HOST_TAG(tag, call_, who_, rule_, purpose_) \
	{.who = who_, .call = #call_, .rule = rule_, .purpose = purpose_},
#define HOST_LIBC(call_, who_, class, purpose_) \
	{.who = who_,                           \
	 .call = call_,                         \
	 .rule = "the C library's own",         \
	 .purpose = purpose_,                   \
	 .libc = true},
#define HOST_RUN(tag, call, on, words, purpose, ...)
#define HOST_LIBC_RUN(call, on, class, purpose, ...)
#define HOST_MON(tag, call, on, words, purpose, ...)
#define HOST_LIBC_MON(call, on, class, purpose, ...)
#include "base/hostcall.def"
};

/* A cell of a table. */
static void put(const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			putchar('\\');
		putchar(*text);
	}
}

static void head(const char *title, const char *text)
{
	printf("\n### %s\n\n%s\n\n| call | arguments | for |\n|---|---|---|\n", title, text);
}

static void put_rules(const struct filter_rule *r)
{
	for (; r->name; r++) {
		printf("| %s | ", r->name);
		for (unsigned i = 0; i < FILTER_TESTS_MAX && r->test[i].text; i++) {
			if (i > 0)
				printf("; ");
			put(r->test[i].text);
			if (r->test[i].kind <= FILTER_BELOW && r->test[i].value > 0xff)
				printf(" (%#" PRIx64 ")", r->test[i].value);
		}
		printf("%s | ", r->test[0].text ? "" : "any");
		put(r->purpose);
		printf(" |\n");
	}
}

static void put_tags(enum process who)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_rows); i++) {
		if (g_rows[i].who != who)
			continue;
		printf("| %s | ", g_rows[i].call);
		put(g_rows[i].rule);
		printf(" | ");
		put(g_rows[i].purpose);
		printf(" |\n");
	}
}

static void put_tests(const struct filter_rule *r, const char *before)
{
	for (unsigned i = 0; i < FILTER_TESTS_MAX && r->test[i].text; i++) {
		printf("%s", before);
		put(r->test[i].text);
		before = "; ";
	}
}

/* Where a row holds, in words. */
static const char *on_text(unsigned on)
{
	if (on & ON_ONLY_SAN)
		return "builds with sanitizers or for coverage";
	if (on & ON_ONLY_DEBUG)
		return "builds for debugging";
	if (on & ON_ONLY_OLD)
		return on & ON_ONLY_RW ? "hosts before Linux 6.6, with --rw"
				       : "hosts before Linux 6.6";
	if (on & ON_ONLY_RW)
		return "with --rw";
	switch (on & ON_ALL) {
	case ON_ALL:
		return "";
	case ON_TRAPS:
		return "trap, notify";
	case ON_PTRACE:
		return "ptrace";
	case ON_NOTIFY:
		return "notify";
	}
	return "trap";
}

/* How many distinct calls the sentry may make on a platform. */
static unsigned count_calls(enum sentry_platform platform, unsigned variant)
{
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(g_sentry_rules); i++) {
		const struct sentry_rule *r = &g_sentry_rules[i];
		bool first = !r->error && sentry_rule_holds(r, platform, variant, SENTRY_SHIPPED);

		for (size_t j = 0; j < i && first; j++)
			first = g_sentry_rules[j].rule.nr != r->rule.nr ||
				g_sentry_rules[j].error ||
				!sentry_rule_holds(&g_sentry_rules[j], platform, variant,
						   SENTRY_SHIPPED);
		n += first;
	}
	return n;
}

static void put_row(const struct sentry_rule *r, const char *where)
{
	const char *words = r->class ? "the C library's own" : r->words;

	printf("| %s | ", r->rule.name);
	if (words[0]) {
		printf("*");
		put(words);
		printf("*");
	}
	put_tests(&r->rule, words[0] ? "; " : "");
	printf(" | %s | ", where);
	put(r->rule.purpose);
	printf(" |\n");
}

static void put_sentry(void)
{
	printf("\n### The sentry, after its lock-down\n\n"
	       "Enforced by seccomp (`platform/sentry_filter.c`), on all of its threads, from "
	       "before "
	       "the first guest instruction to the end;\nall else kills it, other architectures "
	       "and "
	       "x32 included. Each call stands in a `HOST(tag, …)` with its row of "
	       "`base/hostcall.def`, which\n`tests/run-host-calls.sh` holds it to; `moat run "
	       "--stats` counts them, but for those that the C library makes inside of its own\n"
	       "functions. What a filter cannot see (what a descriptor is, a name in memory) is in "
	       "*italics*. Distinct calls: trap %u (%u without --rw),\nptrace %u (%u), notify %u "
	       "(%u).\n\n| call | arguments | where | for |\n|---|---|---|---|\n",
	       count_calls(SENTRY_TRAP, SENTRY_RW), count_calls(SENTRY_TRAP, 0),
	       count_calls(SENTRY_PTRACE, SENTRY_RW), count_calls(SENTRY_PTRACE, 0),
	       count_calls(SENTRY_NOTIFY, SENTRY_RW), count_calls(SENTRY_NOTIFY, 0));
	for (size_t i = 0; i < ARRAY_SIZE(g_sentry_rules); i++) {
		if (!g_sentry_rules[i].error)
			put_row(&g_sentry_rules[i], on_text(g_sentry_rules[i].on));
	}
	head("The sentry, after its lock-down: answered with an error",
	     "By the filter, without harm: what the C library asks for and can do without.");
	for (size_t i = 0; i < ARRAY_SIZE(g_sentry_rules); i++) {
		const struct sentry_rule *r = &g_sentry_rules[i];

		if (!r->error)
			continue;
		printf("| %s | ", r->rule.name);
		put_tests(&r->rule, "");
		printf(" | ");
		put(r->rule.purpose);
		printf(" |\n");
	}
}

static const char *monitor_on_text(unsigned on)
{
	switch (on) {
	case MON_AUDIT:
		return "--audit";
	case MON_SAVE:
		return "--save, --keep-on-fail";
	case MON_CGROUP:
		return "limits that have a cgroup";
	case MON_LEARN:
		return "moat policy learn";
	case MON_ONLY_DEBUG:
		return "builds for debugging";
	default:
		return "";
	}
}

/* How many distinct calls the monitor may make. */
static unsigned count_monitor_calls(unsigned variant)
{
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(g_monitor_rules); i++) {
		const struct sentry_rule *r = &g_monitor_rules[i];
		bool first = monitor_rule_holds(r, variant, SENTRY_SHIPPED);

		for (size_t j = 0; j < i && first; j++)
			first = g_monitor_rules[j].rule.nr != r->rule.nr ||
				!monitor_rule_holds(&g_monitor_rules[j], variant, SENTRY_SHIPPED);
		n += first;
	}
	return n;
}

static void put_monitor(void)
{
	printf("\n### The monitor, after its lock-down\n\n"
	       "Enforced by seccomp (`platform/monitor_filter.c`) on all of its threads, from when "
	       "the sentry runs; all else kills it, and the sentry with\nit. A descriptor, or the "
	       "sentry's process, that is named outside of *italics* is that one by its number. "
	       "Distinct calls: %u;\nwith --audit, --save and a cgroup together %u; under `moat "
	       "policy learn` %u. Builds with sanitizers or for coverage have no such filter.\n\n"
	       "| call | arguments | where | for |\n|---|---|---|---|\n",
	       count_monitor_calls(0),
	       count_monitor_calls(MONITOR_AUDIT | MONITOR_SAVE | MONITOR_CGROUP),
	       count_monitor_calls(MONITOR_LEARN));
	for (size_t i = 0; i < ARRAY_SIZE(g_monitor_rules); i++)
		put_row(&g_monitor_rules[i], monitor_on_text(g_monitor_rules[i].on));
}

static void put_all(void)
{
	head("ptrace: a stub, which runs guest code",
	     "Enforced by seccomp (`platform/stub_rules.c`); all else is SIGSYS, other "
	     "architectures "
	     "kill. Each is made only\nwhen the sentry makes the stub do so: what the guest itself "
	     "calls is not executed (PTRACE_SYSEMU).");
	put_rules(g_stub_guest_rules);
	head("ptrace: keeper and zygotes, which run no guest code",
	     "Enforced as above; what a stub may call, and:");
	put_rules(g_stub_keeper_rules);
	head("trap and notify: a guest thread",
	     "Enforced by seccomp (`platform/trap_rules.c`), and only by "
	     "one instruction of the stub's "
	     "text (TS_GUEST_IP), which the\nguest can jump to; from "
	     "anywhere else each call is SIGSYS (on notify a notification or SIGSYS), "
	     "which is how guest calls come to the sentry.\nThe latter, where the agent may call, "
	     "is enforced by Syscall User Dispatch without a selector, which the thread cannot "
	     "switch off\n(it may not call prctl, and what it clones is the agent: see below); on "
	     "notify, and before Linux 5.11, by one more "
	     "seccomp program of each guest thread's.");
	put_rules(g_trap_guest_rules);
	head("trap and notify: what no filter is asked for",
	     "Linux lets two calls pass by every seccomp filter (since 6.14 and 6.18), so guest "
	     "code can make them from anywhere; on\nolder hosts, and where guest threads are "
	     "confined by Syscall User Dispatch, they come to the sentry, which says ENOSYS.");
	put_rules(g_trap_unasked_rules);
	head("trap: a guest thread, at the gate",
	     "Enforced likewise, and only at one more instruction of the stub's text "
	     "(TS_GATE_IP), where Syscall User Dispatch confines\nguest threads (elsewhere their "
	     "own "
	     "programs deny it). What is cloned there goes on in the agent's part of the text, "
	     "has\nno "
	     "stack for a signal's handler, and ends its process unless the sentry wants an agent "
	     "and it is the first.");
	put_rules(g_trap_gate_rules);
	head("trap and notify: the agent",
	     "Enforced likewise, and only from the agent's part of the stub's text (TS_AGENT to "
	     "TS_AGENT_END); guest threads, as said\nabove, may make "
	     "none "
	     "of these from there.");
	put_rules(g_trap_agent_rules);
	head("trap and notify: the keeper, which runs no guest code",
	     "Enforced likewise, and only from the rest of the stub's text.");
	put_rules(g_trap_keeper_rules);
	head("trap and notify: the keeper's child, before it takes the agents' filter",
	     "From the agent's part of the text, which the keeper's filter does not judge; no "
	     "guest code has run.");
	put_rules(g_trap_zygote_rules);
	head("A stub between exec and its filter",
	     "Not enforced; no guest code has run, and the image is sealed. All platforms.");
	put_rules(g_stub_start_rules);
	head("The sentry, before its lock-down",
	     "Set-up: no guest code has run. Not enforced. What stands below is done here, too.");
	put_tags(SENTRY);
	put_sentry();
	head("The monitor before that, and moat's other commands",
	     "Not enforced; tagged likewise. What stands below is done here, too.");
	put_tags(MONITOR);
	put_monitor();
	head("A stub between fork and exec",
	     "Before its filter, while its code is still the sentry's; tagged likewise.");
	put_tags(START);
	printf("\n");
}

int main(int argc, char **argv)
{
	static const char begin[] = "<!-- made by platform/gen/host_doc.c -->\n";
	static const char end[] = "<!-- end of what is made -->\n";
	FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
	char line[4096];
	unsigned marks = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (marks == 1 && strcmp(line, end) != 0)
			continue;
		fputs(line, stdout);
		if (strcmp(line, marks == 0 ? begin : end) != 0)
			continue;
		if (++marks == 1) {
			put_all();
		}
	}
	if (f)
		fclose(f);
	if (marks < 2)
		fprintf(stderr, "host_doc: a page with two marks is needed\n");
	return marks < 2 || fflush(stdout) != 0;
}
