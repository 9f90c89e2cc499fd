/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit's lines on standard error: one for each kind of thing that was refused, so that who
 * runs a program (an agent, say) learns what to grant.
 *
 * Theory of operation: a kind is a key, of which the hash is kept; a key that has been seen says
 * nothing more. After some kinds there is one last line. The programs' own standard error is not
 * touched: without --audit and --verbose nothing is written while they run; the lines are for the
 * summary.
 */
#include "sentry/audit_internal.h"

#include "base/hash.h"
#include "base/hostcall.h"
#include "base/lock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KINDS_MAX 32u
#define SHOWN 600u

static struct {
	struct mutex lock;
	uint64_t seen[KINDS_MAX]; /* [lock] */
	unsigned count;           /* [lock] */
	const char *eol;
} g_lines = {.lock = MUTEX_INIT(RANK_LEAF), .eol = "\n"};

void audit_line_start(bool raw_tty)
{
	g_lines.eol = raw_tty ? "\r\n" : "\n";
}

/* Is the kind new? *last: it is one too many. */
static bool is_new(const char *key, bool *last)
{
	uint64_t h = hash_bytes(key, strlen(key), 0);
	bool fresh = true;

	mutex_lock(&g_lines.lock);
	for (unsigned i = 0; i < MIN(g_lines.count, KINDS_MAX); i++) {
		if (g_lines.seen[i] == h)
			fresh = false;
	}
	*last = g_lines.count == KINDS_MAX;
	if (fresh) {
		if (g_lines.count < KINDS_MAX)
			g_lines.seen[g_lines.count] = h;
		else
			fresh = *last;
		if (g_lines.count <= KINDS_MAX)
			g_lines.count++;
	}
	mutex_unlock(&g_lines.lock);
	return fresh;
}

void audit_line(const char *key, const char *quoted, enum summary_asked asked)
{
	char line[SHOWN + 64];
	bool last;
	int n;

	if (!is_new(key, &last))
		return;
	if (!g_audit) {
		if (!last)
			summary_line(quoted, asked);
		return;
	}
	if (last)
		n = snprintf(line, sizeof(line),
			     "moat: more was refused; --audit=FILE writes all of it down%s",
			     g_lines.eol);
	else
		n = snprintf(line, sizeof(line), "moat: %.*s%s", (int)SHOWN, quoted, g_lines.eol);
	(void)!HOST(write_log, write(STDERR_FILENO, line, (size_t)n));
}

void audit_say_killed(enum meter which, const char *fmt, ...)
{
	char text[SHOWN], line[SHOWN + 200];
	va_list ap;
	int n;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = snprintf(line, sizeof(line), "moat: limit: %s: %s; allow more with: --limit %s=%s%s",
		     meter_name(which), text, meter_name(which), meter_placeholder(which),
		     g_lines.eol);
	(void)!HOST(write_log, write(STDERR_FILENO, line, (size_t)n));
	summary_told(which);
}
