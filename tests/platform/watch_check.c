/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges a trace of what stub processes called (tests/platform/watch_stub.sh): watch_check PLATFORM
 * [UNTIL] <TRACE; what has a later time than UNTIL is not looked at. Each host call must be one of
 * the rules that filters and docs/SECURITY.md are made from, for the thread that made it, arguments
 * included.
 *
 * Theory of operation: who a thread is, its birth tells. task_newtask comes from the parent, before
 * the child runs: the child of one that is no stub becomes a keeper by its exec; a keeper's child
 * is a zygote, or on trap becomes an address space; a child of those that shares memory is a
 * guest thread, any other the first thread of another process, which is the agent on trap and
 * notify, and runs guest code on ptrace. A thread that takes a filter by seccomp() has to keep to
 * that from there. Pids come again: a birth forgets who had it before.
 *
 * The tracepoint sys_enter lies behind seccomp and PTRACE_SYSEMU in the kernel: what was trapped,
 * notified or emulated was not called and is not seen. Its format: "comm-PID [cpu] flags time:
 * sys_enter: NR n (a, b, c, d, e, f)".
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "platform/filter_rule.h"
#include "platform/stub_trap/layout.h"

#define PIDS (1u << 22) /* as many as a host may have */
#define CLONE_VM_ 0x100

enum who { NOBODY, START, KEEPER, ZYGOTE, FORKED, NEW_THREAD, GUEST, WHO_COUNT };

static const char *const g_names[WHO_COUNT] = {
	[START] = "keeper before its filter",
	[KEEPER] = "keeper",
	[ZYGOTE] = "child of the keeper before its filter",
	[FORKED] = "agent",
	[NEW_THREAD] = "guest thread before it is confined",
	[GUEST] = "guest thread",
};

#define TABLES_MAX 3
static const struct filter_rule *const g_of_trap[WHO_COUNT][TABLES_MAX] = {
	[START] = {g_stub_start_rules},
	[KEEPER] = {g_trap_keeper_rules},
	[ZYGOTE] = {g_trap_zygote_rules},
	[FORKED] = {g_trap_agent_rules},
	[NEW_THREAD] = {g_trap_agent_rules}, /* but see allowed() */
	[GUEST] = {g_trap_guest_rules, g_trap_unasked_rules, g_trap_gate_rules},
};
static const struct filter_rule *const g_of_ptrace[WHO_COUNT][TABLES_MAX] = {
	[START] = {g_stub_start_rules},
	[KEEPER] = {g_stub_guest_rules, g_stub_keeper_rules},
	[ZYGOTE] = {g_stub_guest_rules, g_stub_keeper_rules},
	[GUEST] = {g_stub_guest_rules},
};

static uint8_t g_who[PIDS];
static bool g_trap;
static unsigned g_bad;
static unsigned g_threads[WHO_COUNT];
static uint64_t g_calls[WHO_COUNT][600];

static bool dispatches(uint64_t nr, const uint64_t arg[6])
{
	return nr == SYS_prctl && arg[0] == PR_SET_SYSCALL_USER_DISPATCH;
}

static bool allowed(enum who who, uint64_t nr, const uint64_t arg[6])
{
	const struct filter_rule *const *tables = g_trap ? g_of_trap[who] : g_of_ptrace[who];

	/* The first thing that it does is to confine itself. */
	if (who == NEW_THREAD && nr != SYS_seccomp && nr != SYS_exit_group && !dispatches(nr, arg))
		return false;
	for (unsigned k = 0; k < TABLES_MAX && tables[k]; k++) {
		for (const struct filter_rule *r = tables[k]; r->name; r++) {
			bool all = r->nr == nr;

			for (unsigned i = 0; all && i < FILTER_TESTS_MAX && r->test[i].text; i++)
				all = filter_test_holds(&r->test[i], arg[r->test[i].arg]);
			if (all)
				return true;
		}
	}
	return false;
}

static void become(uint32_t pid, enum who who)
{
	g_who[pid] = (uint8_t)who;
	g_threads[who]++;
}

static void birth(uint32_t parent, const char *text)
{
	enum who child = NOBODY;
	uint32_t pid;
	uint64_t flags;

	if (sscanf(text, " pid=%" SCNu32, &pid) != 1 || pid >= PIDS)
		return;
	text = strstr(text, "clone_flags=");
	if (!text || sscanf(text, "clone_flags=%" SCNx64, &flags) != 1)
		return;
	switch ((enum who)g_who[parent]) {
	case KEEPER:
		child = ZYGOTE;
		break;
	case ZYGOTE:
	case FORKED:
		child = !g_trap ? GUEST : flags & CLONE_VM_ ? NEW_THREAD : FORKED;
		break;
	case GUEST:
		/* On ptrace what runs guest code forks. On trap a guest thread makes the agent; any
		 * other clone is refused below. */
		child = g_trap && flags == TS_CLONE_AGENT ? FORKED : GUEST;
		break;
	default:
		break;
	}
	if (child == NOBODY)
		g_who[pid] = NOBODY;
	else
		become(pid, child);
}

static void call(uint32_t pid, uint64_t nr, const uint64_t arg[6])
{
	enum who who = (enum who)g_who[pid];

	if (who == NOBODY) {
		who = START;
		become(pid, who);
	}
	if (nr < 600)
		g_calls[who][nr]++;
	if (!allowed(who, nr, arg) && g_bad++ < 20)
		printf("NOT ALLOWED: %s (pid %u): host call %" PRIu64 " (%#" PRIx64 ", %#" PRIx64
		       ", %#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 ")\n",
		       g_names[who], pid, nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	/* A guest's child is its first guest thread itself. */
	if ((who == NEW_THREAD || who == FORKED) && dispatches(nr, arg))
		become(pid, GUEST);
	if (nr != SYS_seccomp)
		return;
	if (who == START)
		become(pid, KEEPER);
	else if (who == ZYGOTE && g_trap)
		become(pid, FORKED);
	else if (who == NEW_THREAD)
		become(pid, GUEST);
}

/* "comm-PID [cpu] flags time: …"; 0: there is none. */
static double at(const char *text)
{
	const char *p = strchr(text, ']');
	double t;

	return p && sscanf(p + 1, " %*s %lf:", &t) == 1 ? t : 0;
}

static void line(const char *text, double until)
{
	const char *p = strstr(text, ": sys_enter: NR "), *dash = NULL;
	uint64_t nr, arg[6];
	uint32_t pid;

	/* "comm-PID" may hold more dashes; it ends before " [cpu]". */
	for (const char *q = text; *q && *q != '['; q++) {
		if (*q == '-')
			dash = q;
	}
	if (!dash || sscanf(dash + 1, "%" SCNu32, &pid) != 1 || pid >= PIDS || at(text) > until)
		return;
	if (p && sscanf(p,
			": sys_enter: NR %" SCNu64 " (%" SCNx64 ", %" SCNx64 ", %" SCNx64
			", %" SCNx64 ", %" SCNx64 ", %" SCNx64 ")",
			&nr, &arg[0], &arg[1], &arg[2], &arg[3], &arg[4], &arg[5]) == 7)
		call(pid, nr, arg);
	p = strstr(text, ": task_newtask:");
	if (p)
		birth(pid, p + strlen(": task_newtask:"));
}

/* A watch that saw nothing proves nothing. */
static bool saw_enough(void)
{
	bool enough = g_threads[KEEPER] > 0 && g_threads[ZYGOTE] > 0 && g_threads[GUEST] > 0 &&
		      g_calls[KEEPER][SYS_recvmsg] > 0;

	if (g_trap)
		return enough && g_threads[FORKED] > 0 && g_calls[GUEST][SYS_futex] > 0 &&
		       g_calls[GUEST][SYS_rt_sigreturn] > 0 && g_calls[FORKED][SYS_mmap] > 0 &&
		       g_calls[FORKED][SYS_clone] > 0;
	return enough && g_calls[GUEST][SYS_mmap] > 0;
}

int main(int argc, char **argv)
{
	char text[1024];

	g_trap = argc >= 2 && strcmp(argv[1], "ptrace") != 0;
	while (fgets(text, sizeof(text), stdin))
		line(text, argc >= 3 ? strtod(argv[2], NULL) : 1e18);
	for (int who = START; who < WHO_COUNT; who++) {
		if (g_threads[who] == 0)
			continue;
		printf("  %s: %u; calls:", g_names[who], g_threads[who]);
		for (unsigned nr = 0; nr < 600; nr++) {
			if (g_calls[who][nr] != 0)
				printf(" %u x %" PRIu64, nr, g_calls[who][nr]);
		}
		printf("\n");
	}
	if (g_bad > 0)
		printf("%u calls were not allowed\n", g_bad);
	else if (!saw_enough())
		printf("NOT ENOUGH was seen\n");
	return g_bad > 0 || !saw_enough();
}
