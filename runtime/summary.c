/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run is told at its end. See runtime/summary.h.
 *
 * Theory of operation: the sandbox is dead, so the region that the sentry has written its notes to
 * does not change any more; it is hostile all the same: numbers are checked, texts are copied,
 * ended, and quoted. Of each path the host is asked whether it has it (summary_host.c). What it has
 * not, and what could not be granted (sockets, FIFOs, devices), is no news: programs look for files
 * that do not exist all day long.
 *
 * Of many paths the last ones are shown, of those for which the same would have to be granted one.
 */
#include "runtime/summary.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hostcall.h"
#include "runtime/draft.h"
#include "sentry/advice.h"
#include "sentry/grant.h"
#include "sentry/summary.h"
#include "sentry/syscall_table.h"

/* Paths shown, and of denials the last ones. */
#define SHOWN 5u
#define NAMES_SIZE 512u
#define ALLOW_SIZE (2 * AUDIT_QUOTED * SUMMARY_PATH_SIZE + 64)

/* A path that the host has. */
struct found {
	uint32_t order;
	unsigned place; /* in the region */
	const char *call;
	char path[SUMMARY_PATH_SIZE];
	char grant[SUMMARY_PATH_SIZE];  /* of the host; what would have to be granted; "": nothing
					   can be */
	const struct grant_path *shown; /* what shows the directory above it, under another name */
	char device[16];                /* or the name of a device */
	bool write, exec, start;
	const struct grant_path *rule; /* that hides it */
};

static struct found *g_found[SUMMARY_PATHS];
static unsigned g_found_count;
/* The caller's directory, if the guest does not start in it although it was to. */
static const char *g_start;
static char g_scratch[ADVICE_SCRATCH];

void summary_make(bool log)
{
	const size_t stride = sizeof(struct summary_path) + (log ? SUMMARY_EVENT_SIZE : 64);
	const size_t size = summary_paths_at() + SUMMARY_PATHS * stride;
	void *p = HOST(mmap_monitor,
		       mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));

	if (p == MAP_FAILED)
		return;
	g_summary_stride = stride;
	g_summary = p;
	summary_host_open();
}

/* ---- which ---- */

static bool is_below(const char *path, const char *top)
{
	const size_t n = strlen(top);

	return strncmp(path, top, n) == 0 && (path[n] == '/' || !path[n]);
}

/* The directory of @path's last component, in place. */
static void to_parent(char *path)
{
	char *end = path + strlen(path);

	while (end > path + 1 && end[-1] == '/')
		end--;
	while (end > path + 1 && end[-1] != '/')
		end--;
	while (end > path + 1 && end[-1] == '/')
		end--;
	*end = '\0';
}

/* Where the host has what the guest calls f->path: elsewhere, if it was kept back from a directory
 * that is shown under another name. */
static bool to_host(struct found *f)
{
	size_t best = 0;
	int n;

	strcpy(f->grant, f->path);
	for (uint32_t i = 0; i < g_grant->path_count; i++) {
		const struct grant_path *g = &g_grant->paths[i];

		if (g->access != GRANT_HIDDEN && g->host && g->target &&
		    is_below(f->path, g->target) && strlen(g->target) > best) {
			best = strlen(g->target);
			f->shown = g;
		}
	}
	if (!f->shown || strcmp(f->shown->host, f->shown->target) == 0) {
		f->shown = NULL;
		return true;
	}
	n = snprintf(f->grant, sizeof(f->grant), "%s%s", f->shown->host, f->path + best);
	return (size_t)n < sizeof(f->grant);
}

/* What would have to be granted for it. False: the host has not got it either. */
static bool find_grant(struct found *f, enum summary_use use)
{
	if (!to_host(f))
		return false;
	f->write = use == SUMMARY_CREATE || use == SUMMARY_NAME || use == SUMMARY_REMOVE ||
		   use == SUMMARY_WRITE;
	f->exec = use == SUMMARY_EXEC;
	if (use != SUMMARY_NAME && summary_host_has(f->grant)) {
		if (use == SUMMARY_REMOVE)
			to_parent(f->grant);
		return f->grant[1];
	}
	if (use != SUMMARY_CREATE && use != SUMMARY_NAME)
		return false;
	to_parent(f->grant);
	return f->grant[1] && summary_host_has(f->grant);
}

/* A program that is started where it sees nothing of the caller's directory, and was given a name
 * in it: the directory is what has to be granted. */
static bool find_in_start(struct found *f)
{
	char path[SUMMARY_PATH_SIZE];

	if (!g_start ||
	    (size_t)snprintf(path, sizeof(path), "%s%s", g_start, f->path) >= sizeof(path) ||
	    !summary_host_has(path))
		return false;
	strcpy(f->path, path);
	strcpy(f->grant, g_start);
	f->shown = NULL;
	f->start = true;
	return true;
}

/* A device of ours that is not granted. */
static bool find_device(struct found *f)
{
	const char *name = f->path + strlen("/dev/");
	const size_t n = strcspn(name, "/");

	if (n == 0 || n >= sizeof(f->device))
		return false;
	memcpy(f->device, name, n);
	f->device[n] = '\0';
	if (strcmp(f->device, "pts") == 0)
		strcpy(f->device, "ptmx");
	f->grant[0] = '\0';
	for (uint32_t i = 0; i < g_grant->device_count; i++) {
		if (strcmp(g_grant->devices[i], f->device) == 0)
			return false;
	}
	return draft_is_device(f->device);
}

static bool find(struct found *f, const struct summary_path *p)
{
	const uint8_t use = p->use;
	const uint16_t nr = p->nr;

	/* Read once; nobody writes any more, but nobody has to be believed. */
	memcpy(f->path, p->path, sizeof(f->path));
	f->path[sizeof(f->path) - 1] = '\0';
	f->order = p->order;
	f->call = syscall_name(nr);
	if (f->path[0] != '/' || !f->path[1] || !f->call || use >= SUMMARY_USES)
		return false;
	if (is_below(f->path, "/proc") || is_below(f->path, "/sys"))
		return false;
	if (is_below(f->path, "/dev"))
		return f->path[4] && find_device(f);
	for (uint32_t i = 0; i < g_grant->path_count; i++) {
		const struct grant_path *g = &g_grant->paths[i];

		if (g->access == GRANT_HIDDEN && g->target && is_below(f->path, g->target))
			f->rule = g;
	}
	return find_grant(f, (enum summary_use)use) || find_in_start(f);
}

static int by_order(const void *a, const void *b)
{
	const struct found *x = *(struct found *const *)a, *y = *(struct found *const *)b;

	return x->order < y->order ? -1 : x->order > y->order;
}

void summary_ask(bool starts_anywhere)
{
	if (starts_anywhere && strcmp(g_grant->cwd, "/") == 0)
		g_start = HOST(getcwd_monitor, getcwd(NULL, SUMMARY_PATH_SIZE));
	if (g_start && (g_start[0] != '/' || !g_start[1]))
		g_start = NULL;
	while (g_found_count > 0)
		free(g_found[--g_found_count]);
	for (unsigned i = 0; g_summary && i < SUMMARY_PATHS; i++) {
		struct found *f;

		if (!atomic_load(&summary_path_at(i)->ready))
			continue;
		f = calloc(1, sizeof(*f));
		if (!f)
			return;
		f->place = i;
		if (find(f, summary_path_at(i)))
			g_found[g_found_count++] = f;
		else
			free(f);
	}
	qsort(g_found, g_found_count, sizeof(struct found *), by_order);
}

/* ---- what would allow it ---- */

/* What the guest calls f->grant. */
static const char *target_of(const struct found *f)
{
	static char target[2 * SUMMARY_PATH_SIZE];

	if (!f->shown || !is_below(f->grant, f->shown->host))
		return f->grant;
	snprintf(target, sizeof(target), "%s%s", f->shown->target,
		 f->grant + strlen(f->shown->host));
	return target;
}

static void allow_option(const struct found *f, char *out, size_t room)
{
	out[0] = '\0';
	if (f->rule || !f->grant[0])
		return;
	snprintf(out, room, "%s ", f->write ? "--rw" : "--ro");
	advice_word(out, room, f->grant, g_scratch);
	if (f->shown) {
		strncat(out, ":", room - strlen(out) - 1);
		advice_word(out, room, target_of(f), g_scratch);
	}
}

static void allow_policy(const struct found *f, char *out, size_t room)
{
	size_t used;

	out[0] = '\0';
	if (f->rule)
		return;
	if (!f->device[0]) {
		advice_policy(out, room, target_of(f), f->grant, f->write, f->exec, g_scratch);
		return;
	}
	used = (size_t)snprintf(out, room, "devices = { ");
	for (uint32_t i = 0; i < g_grant->device_count; i++)
		used += (size_t)snprintf(out + used, room - used, "%s, ", g_grant->devices[i]);
	snprintf(out + used, room - used, "%s }", f->device);
}

/* ---- the log ---- */

/* A member of a JSON object; @text is quoted (audit_quote) but for JSON's own quoting. */
static size_t add_member(char *out, size_t room, const char *key, const char *text)
{
	size_t used = (size_t)snprintf(out, room, ",\"%s\":\"", key);

	for (; *text && used + 4 < room; text++) {
		if (*text == '"' || *text == '\\')
			out[used++] = '\\';
		out[used++] = *text;
	}
	out[used++] = '"';
	out[used] = '\0';
	return used;
}

void summary_events(void (*line)(const char *line, size_t size))
{
	static char buf[SUMMARY_EVENT_SIZE + 4 * ALLOW_SIZE + 64], allow[ALLOW_SIZE];
	const size_t room = sizeof(buf) - 4;

	for (unsigned i = 0; i < g_found_count; i++) {
		const struct found *f = g_found[i];
		size_t used;

		memcpy(buf, summary_path_at(f->place)->event, SUMMARY_EVENT_SIZE);
		buf[SUMMARY_EVENT_SIZE - 1] = '\0';
		used = strlen(buf);
		/* One line, whoever has written it. */
		if (used == 0 || memchr(buf, '\n', used))
			continue;
		allow_option(f, allow, sizeof(allow));
		if (allow[0])
			used += add_member(buf + used, room - used, "allow", allow);
		allow_policy(f, allow, sizeof(allow));
		if (allow[0])
			used += add_member(buf + used, room - used, "allow_policy", allow);
		memcpy(buf + used, "}\n", 2);
		line(buf, used + 2);
	}
}

/* ---- standard error ---- */

/* Is a path that comes after @at told of with the same advice? */
static bool said_later(unsigned at)
{
	const struct found *f = g_found[at];

	for (unsigned i = at + 1; i < g_found_count; i++) {
		const struct found *g = g_found[i];

		if (strcmp(f->grant, g->grant) == 0 && f->shown == g->shown &&
		    strcmp(f->device, g->device) == 0 && f->write <= g->write &&
		    f->rule == g->rule &&
		    (f->grant[0] || f->device[0] || strcmp(f->path, g->path) == 0))
			return true;
	}
	return false;
}

static void print_path(FILE *f, const struct found *p, bool policy)
{
	static char allow[ALLOW_SIZE];

	audit_quote(g_scratch, sizeof(g_scratch), p->path, strlen(p->path), NULL);
	fprintf(f, "moat: not granted: %s (%s%s)", g_scratch, p->call,
		p->start ? ", in the directory that moat was started in" : "");
	if (p->rule) {
		const struct grant_origin *o = &p->rule->origin;

		if (o->line)
			fprintf(f, "; it is hidden by %s:%u:%u\n", o->file, o->line, o->column);
		else
			fprintf(f, "; it is hidden by a rule\n");
		return;
	}
	allow_option(p, allow, sizeof(allow));
	if (allow[0])
		fprintf(f, "; %sallow it with: %s",
			draft_is_secret(p->grant) ? "it may be a secret; " : "", allow);
	if (!allow[0] || policy) {
		const char *lead =
			allow[0] ? ", or in the policy: " : "; allow it with, in the policy: ";

		allow_policy(p, allow, sizeof(allow));
		if (allow[0])
			fprintf(f, "%s%s", lead, allow);
	}
	fputc('\n', f);
}

static void print_paths(FILE *f, bool policy)
{
	const uint64_t crowded = atomic_load(&g_summary->crowded);
	unsigned shown[SHOWN], count = 0, all = 0;

	for (unsigned i = g_found_count; i-- > 0;) {
		if (said_later(i))
			continue;
		if (count < SHOWN)
			shown[count++] = i;
		all++;
	}
	if (all > count)
		fprintf(f, "moat: not granted: %u more before these\n", all - count);
	while (count > 0)
		print_path(f, g_found[shown[--count]], policy);
	if (all > 0 && crowded > 0)
		fprintf(f, "moat: not granted: %llu more lookups were too many to look into\n",
			(unsigned long long)crowded);
}

static void print_clean(FILE *f, const char *text, size_t size)
{
	static char line[SUMMARY_LINE_SIZE], clean[AUDIT_QUOTED * SUMMARY_LINE_SIZE];
	size_t took;

	memcpy(line, text, size);
	line[size - 1] = '\0';
	audit_clean(clean, sizeof(clean), line, strlen(line), &took);
	fputs(clean, f);
}

/* What programs only try is no news if all that tried have ended well. Of one that has not it is
 * said who it was: the reason may be another. */
static enum summary_asked line_asked(uint32_t i, bool *news)
{
	const uint8_t asked = g_summary->line_asked[i % SUMMARY_LINES];

	*news = true;
	if (asked == SUMMARY_ASKED_NOTHING || asked >= SUMMARY_ASKED_COUNT)
		return SUMMARY_ASKED_NOTHING;
	*news = atomic_load(&g_summary->asked[asked].processes) != 0;
	return (enum summary_asked)asked;
}

static void print_lines(FILE *f)
{
	const uint32_t all = atomic_load(&g_summary->line_count);
	uint32_t shown[SHOWN], count = 0, passed = 0;
	bool news;

	for (uint32_t i = all; i != all - MIN(all, SUMMARY_LINES) && count < SHOWN; i--) {
		(void)line_asked(i - 1, &news);
		if (news)
			shown[count++] = i - 1;
		passed++;
	}
	if (all > passed)
		fprintf(f, "moat: denied: %u more before these; --audit=FILE writes all down\n",
			all - passed);
	while (count > 0) {
		const uint32_t i = shown[--count];
		const enum summary_asked asked = line_asked(i, &news);

		fprintf(f, "moat: ");
		print_clean(f, g_summary->lines[i % SUMMARY_LINES], SUMMARY_LINE_SIZE);
		if (asked && g_summary->asked[asked].who[0]) {
			fprintf(f, "; ");
			print_clean(f, g_summary->asked[asked].who, SUMMARY_WHO_SIZE);
			fprintf(f, " asked for it, and may have failed for another reason");
		}
		fputc('\n', f);
	}
}

/* What libraries try in each process, and have another way for. */
static bool is_routine(unsigned nr)
{
	return nr == NR_rseq || nr == NR_io_uring_setup;
}

static bool is_not_served(unsigned nr)
{
	return atomic_load(&g_summary->not_served[nr / 64]) & (uint64_t)1 << nr % 64;
}

static void print_not_served(FILE *f)
{
	char names[NAMES_SIZE] = "";
	size_t used = 0;

	for (unsigned nr = 0; nr < SUMMARY_CALLS; nr++) {
		const char *name = syscall_name(nr);

		if (!is_not_served(nr) || is_routine(nr))
			continue;
		if (name && used + strlen(name) + 3 < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? ", " : "", name);
	}
	if (used)
		fprintf(f, "moat: not served: %s (moat does not have it; see docs/SYSCALLS.md)\n",
			names);
	/* Of its users the one that works without. */
	if (is_not_served(NR_ptrace))
		fprintf(f, "moat: not served: ptrace is for debuggers and tracers, and for the "
			   "search for leaks at the end of what -fsanitize=address built, which "
			   "need not be: --env ASAN_OPTIONS=detect_leaks=0\n");
}

static void print_limits(FILE *f)
{
	char allowed[METER_TEXT_SIZE];
	const uint64_t cpu = atomic_load(&g_summary->cpu_limit);

	if (cpu != 0)
		fprintf(f,
			"moat: a process was killed, as it had used the %llu s of processor time "
			"that it was allowed (ulimit -t)\n",
			(unsigned long long)(cpu - 1));
	for (unsigned m = 0; m < METER_COUNT; m++) {
		const uint64_t n = atomic_load(&g_summary->refused[m]);
		const uint64_t limit = grant_limit((enum grant_limit)m);

		if (n == 0 || atomic_load(&g_summary->told[m]) || limit == GRANT_NO_LIMIT)
			continue;
		meter_text((enum meter)m, limit, allowed);
		fprintf(f,
			"moat: limit: %s (%s): %s allowed, more refused %llu time%s; allow more "
			"with: --limit %s=%s\n",
			meter_name((enum meter)m), meter_what((enum meter)m), allowed,
			(unsigned long long)n, n == 1 ? "" : "s", meter_name((enum meter)m),
			meter_placeholder((enum meter)m));
	}
}

void summary_print(FILE *f, bool policy)
{
	if (!g_summary)
		return;
	print_paths(f, policy);
	print_lines(f);
	print_not_served(f);
	print_limits(f);
	fflush(f);
}
