/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run as the monitor tells it, of a region that is hostile: whatever stands there, the
 * output is lines that no terminal obeys, each moat's own, and of the log one line each.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/summary.h"
#include "sentry/grant.h"
#include "sentry/summary.h"

static size_t g_lines, g_bad;

static void take(const char *line, size_t size)
{
	g_lines++;
	if (size < 2 || line[size - 1] != '\n' || memchr(line, '\n', size - 1))
		g_bad++;
}

/* Each line is one of ours, and of printable characters. */
static size_t bad_lines(char *text)
{
	size_t bad = 0;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		bad += strncmp(line, "moat: ", 6) != 0;
		for (const char *p = line; *p; p++)
			bad += (unsigned char)*p < ' ' || *p == 127;
	}
	return bad;
}

static char *printed(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	summary_print(f, false);
	fclose(f);
	return text;
}

static void fill(size_t size, uint64_t seed)
{
	unsigned char *p = (unsigned char *)g_summary;

	for (size_t i = 0; i < size; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		p[i] = (unsigned char)(seed >> 56);
	}
}

Test(summary, hostile)
{
	static struct grant_path hidden = {.target = "/etc/hidden", .access = GRANT_HIDDEN};
	static const char *const cwd = "/";
	static struct grant grant;
	size_t size;

	grant = (struct grant){.cwd = cwd, .paths = &hidden, .path_count = 1};
	memset(grant.limits, 0xff, sizeof(grant.limits));
	grant.limits[GRANT_LIMIT_memory] = 1;
	g_grant = &grant;
	summary_make(true);
	cr_assert_not_null(g_summary);
	size = summary_paths_at() + SUMMARY_PATHS * g_summary_stride;
	fill(size, 7);
	atomic_store(&g_summary->told[METER_memory], 0);
	for (unsigned i = 0; i < SUMMARY_PATHS; i++) {
		struct summary_path *p = summary_path_at(i);

		/* Some that are there, with texts that have no end, or more than one line. */
		atomic_store(&p->ready, i % 3 != 0);
		p->nr = (uint16_t)(i * 5);
		p->use = (uint8_t)(i % (SUMMARY_USES + 1));
		if (i % 5 == 0)
			strcpy(p->path, "/etc/passwd");
		else if (i % 5 == 1)
			memset(p->path, '/', sizeof(p->path));
		else if (i % 5 == 2)
			strcpy(p->path, "/etc/\033]0;x\007../etc");
		else if (i % 5 == 3)
			strcpy(p->path, i % 2 ? "/dev/null" : "/dev/\n");
		if (i % 4 == 1)
			strcpy(p->event, "{\"by\":\"sentry\"}\n{\"by\":\"monitor\"");
	}
	summary_ask(true);
	summary_events(take);
	cr_expect_eq(g_bad, 0u);

	char *text = printed();

	cr_expect(strstr(text, "/etc/passwd"));
	cr_expect(strstr(text, "moat: limit: memory"));
	cr_expect_eq(bad_lines(text), 0u);
	free(text);
}

/* What the program looked for, by the use that was to be made of it. */
Test(summary, advice)
{
	static const struct {
		enum summary_use use;
		const char *path, *want;
	} rows[] = {
		{SUMMARY_READ, "/etc/passwd", "--ro /etc/passwd\n"},
		{SUMMARY_WRITE, "/etc/passwd", "--rw /etc/passwd\n"},
		{SUMMARY_CREATE, "/etc/passwd", "--rw /etc/passwd\n"},
		{SUMMARY_CREATE, "/etc/nothing-here", "--rw /etc\n"},
		{SUMMARY_NAME, "/etc/nothing-here/", "--rw /etc\n"},
		{SUMMARY_REMOVE, "/etc/passwd", "--rw /etc\n"},
		{SUMMARY_REMOVE, "/etc/nothing-here", NULL},
		{SUMMARY_READ, "/etc/nothing-here", NULL},
		{SUMMARY_NAME, "/nothing-here", NULL},
		{SUMMARY_READ, "/dev/null", "devices = { null }\n"},
		{SUMMARY_READ, "/dev/kmsg", NULL},
		{SUMMARY_READ, "/proc/version", NULL},
	};
	static struct grant grant = {.cwd = "/etc"};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct summary_path *p;

		memset(grant.limits, 0xff, sizeof(grant.limits));
		g_grant = &grant;
		summary_make(false);
		cr_assert_not_null(g_summary);
		p = summary_path_at(0);
		p->nr = 2;
		p->use = (uint8_t)rows[i].use;
		strcpy(p->path, rows[i].path);
		atomic_store(&p->ready, 1);
		summary_ask(true);

		char *text = printed();

		if (rows[i].want)
			cr_expect(strstr(text, rows[i].want), "row %zu: %s", i, text);
		else
			cr_expect_str_empty(text, "row %zu: %s", i, text);
		free(text);
	}
}
