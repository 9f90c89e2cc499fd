/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `moat policy learn': what was learnt as a policy. See runtime/learn.c.
 */
#include "runtime/learn.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/lx.h"
#include "sentry/audit_text.h"

bool learn_can_write(const char *path)
{
	char out[AUDIT_QUOTED * LX_PATH_MAX];
	size_t size = strlen(path), slashes = 0;

	for (const char *p = path; *p; p++)
		slashes += *p == '\\';
	/* Of what may stand in it as it is only a backslash is changed. */
	return audit_quote(out, sizeof(out), path, size, NULL) == size + slashes;
}

static void print_string(FILE *f, const char *s)
{
	putc('"', f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putc('\\', f);
		putc(*s, f);
	}
	putc('"', f);
}

/* Text of the guest's in a comment. */
static void print_quoted(FILE *f, const char *s)
{
	char out[AUDIT_QUOTED * LX_PATH_MAX];

	audit_quote(out, sizeof(out), s, strlen(s), NULL);
	fputs(out, f);
}

/* ---- paths ---- */

static void print_path(FILE *f, const char *target, const char *host, enum grant_access access,
		       bool exec)
{
	fputs("path ", f);
	print_string(f, target);
	fputs(" {", f);
	if (host && strcmp(host, target) != 0) {
		fputs(" host = ", f);
		print_string(f, host);
	}
	fprintf(f, " access = %s",
		access == GRANT_HIDDEN  ? "hidden"
		: access == GRANT_WRITE ? "rw"
					: "ro");
	if (exec)
		fputs(" exec = true", f);
	fputs(" }\n", f);
}

/* The rule that is learnt for what @target is below of; NULL: none. */
static const struct learn_need *rule_above(const struct learnt *l, const char *target)
{
	const struct learn_need *best = NULL;

	for (size_t i = 0; i < l->count; i++) {
		const struct learn_need *n = &l->needs[i];

		if (n->chosen && learn_is_below(target, n->path) &&
		    (!best || strlen(n->path) > strlen(best->path)))
			best = n;
	}
	return best;
}

/* What of the run's grant takes something away from a rule that is learnt is kept. */
static void print_narrowing(const struct learnt *l, FILE *f)
{
	for (uint32_t i = 0; i < g_grant->path_count; i++) {
		const struct grant_path *g = &g_grant->paths[i];
		const struct learn_need *n = rule_above(l, g->target);
		enum grant_access access;
		bool exec, same_place;
		char host[2 * LX_PATH_MAX];

		if (!n || n->grant == g || strcmp(n->path, g->target) == 0)
			continue;
		if (g->access == GRANT_HIDDEN) {
			print_path(f, g->target, NULL, GRANT_HIDDEN, false);
			continue;
		}
		access = n->rights & LEARN_RW ? g->access : GRANT_READ;
		exec = (n->rights & LEARN_X) && g->exec;
		snprintf(host, sizeof(host), "%s%s%s", n->grant->host,
			 n->path + strlen(n->grant->target), g->target + strlen(n->path));
		same_place = strcmp(host, g->host) == 0;
		if (!same_place || (access == GRANT_WRITE) != !!(n->rights & LEARN_RW) ||
		    exec != !!(n->rights & LEARN_X))
			print_path(f, g->target, g->host, access, exec);
	}
}

static void print_paths(const struct learnt *l, FILE *f)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct learn_need *n = &l->needs[i];
		char host[2 * LX_PATH_MAX];

		if (!n->chosen)
			continue;
		snprintf(host, sizeof(host), "%s%s", n->grant->host,
			 n->path + strlen(n->grant->target));
		print_path(f, n->path, host, n->rights & LEARN_RW ? GRANT_WRITE : GRANT_READ,
			   n->rights & LEARN_X);
	}
	print_narrowing(l, f);
}

/* ---- the rest ---- */

/* Is the directory there for a policy's program? */
static bool has_dir(const struct learnt *l, const char *dir)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->needs[i].chosen && (learn_is_below(dir, l->needs[i].path) ||
					   learn_is_below(l->needs[i].path, dir)))
			return true;
	/* In the root, not in what is granted beside it. */
	for (uint32_t i = 0; i < g_grant->path_count; i++)
		if (learn_is_below(dir, g_grant->paths[i].target))
			return false;
	return true;
}

static void print_env(FILE *f)
{
	static struct draft plain;
	struct err e;
	bool any = false;

	draft_init(&plain);
	plain.g.uid = g_grant->uid;
	if (draft_finish(&plain, &e))
		return;
	for (char **v = g_grant->env; v && *v; v++) {
		const char *eq = strchr(*v, '='), *now;
		char name[256];
		bool given = true;

		for (uint32_t i = 0; i < plain.g.env_count; i++)
			given = given && strcmp(plain.env[i], *v) != 0;
		if (!given || !eq || (size_t)(eq - *v) >= sizeof(name))
			continue;
		memcpy(name, *v, (size_t)(eq - *v));
		name[eq - *v] = '\0';
		now = getenv(name);
		if ((!now || strcmp(now, eq + 1) != 0) && !learn_can_write(*v)) {
			fputs("# not learnt: a value that no policy can hold, of the variable ", f);
			print_quoted(f, name);
			putc('\n', f);
			continue;
		}
		fputs(any ? ", " : "env = { ", f);
		/* The caller's value is not written down: it may be a secret. */
		print_string(f, now && strcmp(now, eq + 1) == 0 ? name : *v);
		any = true;
	}
	if (any)
		fputs(" }\n", f);
	draft_fini(&plain);
}

static void print_devices(const struct learnt *l, FILE *f)
{
	const char *sep = "devices = { ";

	for (uint32_t i = 0; i < g_grant->device_count; i++) {
		if (!(l->devices & 1u << i))
			continue;
		fprintf(f, "%s%s", sep, g_grant->devices[i]);
		sep = ", ";
	}
	if (l->devices)
		fputs(" }\n", f);
}

/* Of what is measured seldom, or depends on the machine's load, the run's own limit is kept. */
static bool is_steady(enum meter m)
{
	return m != METER_memory && m != METER_sentry_memory && m != METER_cpu_time &&
	       m != METER_cpu_share && m != METER_wall_time && m != METER_log_bytes;
}

/* Twice the peak, as a power of two. */
static uint64_t with_margin(enum meter m, uint64_t peak)
{
	uint64_t v = meter_unit_of(m) == METER_UNIT_BYTES ? 1 << 20 : 16;

	while (v / 2 < peak && v < (uint64_t)1 << 62)
		v *= 2;
	return v;
}

static void print_bytes(uint64_t v, FILE *f)
{
	static const char units[] = "KMGT";
	unsigned i = 0;

	for (; i < sizeof(units) - 1 && v % 1024 == 0; i++)
		v /= 1024;
	fprintf(f, "%llu", (unsigned long long)v);
	if (i > 0)
		putc(units[i - 1], f);
	putc('\n', f);
}

static void print_limit(const struct learnt *l, enum meter m, FILE *f)
{
	uint64_t v = g_grant->limits[m];

	if (is_steady(m) && l->peaks[m])
		v = MIN(v, with_margin(m, l->peaks[m]));
	if (v == METER_NO_LIMIT)
		return;
	fprintf(f, "\t%s = ", meter_name(m));
	switch (meter_unit_of(m)) {
	case METER_UNIT_TIME:
		fprintf(f, "%llums\n", (unsigned long long)MAX(v / NSEC_PER_MSEC, (uint64_t)1));
		break;
	case METER_UNIT_PERCENT:
		fprintf(f, "%llu%%\n", (unsigned long long)v);
		break;
	case METER_UNIT_BYTES:
		print_bytes(v, f);
		break;
	case METER_UNIT_COUNT:
	default:
		fprintf(f, "%llu\n", (unsigned long long)v);
		break;
	}
}

static void print_clock(FILE *f)
{
	const long long ns = g_grant->clock_arg_ns;

	if (g_grant->clock == CLOCK_KIND_OFFSET)
		fprintf(f, "clock = \"offset:%lldms\"\n", ns / (long long)NSEC_PER_MSEC);
	else if (g_grant->clock == CLOCK_KIND_FIXED)
		fprintf(f, "clock = \"fixed:@%lld.%09lld\"\n", ns / (long long)NSEC_PER_SEC,
			ns % (long long)NSEC_PER_SEC);
	else if (g_grant->clock == CLOCK_KIND_VIRTUAL)
		fprintf(f, "clock = \"virtual:@%lld.%09lld\"\n", ns / (long long)NSEC_PER_SEC,
			ns % (long long)NSEC_PER_SEC);
	if (g_grant->seeded)
		fprintf(f, "seed = %llu\n", (unsigned long long)g_grant->seed);
}

static void print_who(FILE *f)
{
	if (g_grant->uid != HOST(getuid_monitor, getuid()) ||
	    g_grant->gid != HOST(getgid_monitor, getgid()))
		fprintf(f, "user = \"%u:%u\"\n", g_grant->uid, g_grant->gid);
	if (strcmp(g_grant->hostname, "moat") != 0) {
		fputs("hostname = ", f);
		print_string(f, g_grant->hostname);
		putc('\n', f);
	}
	print_clock(f);
}

void learn_print(const struct learnt *l, const struct run_config *cfg, int status, FILE *f)
{
	fputs("# Learnt by moat policy learn from a run of:", f);
	for (char **a = cfg->argv; *a; a++) {
		putc(' ', f);
		print_quoted(f, *a);
	}
	fprintf(f, "\n# It ended with status %d. Another run may take other ways.\n", status);
	fputs("version = 1\nname = \"learnt\"\n", f);
	if (g_grant->strict)
		fputs("strict = true\n", f);
	if (g_grant->root) {
		fputs("root = ", f);
		print_string(f, g_grant->root);
		putc('\n', f);
	}
	print_paths(l, f);
	if (has_dir(l, g_grant->cwd)) {
		fputs("cwd = ", f);
		print_string(f, g_grant->cwd);
		putc('\n', f);
	}
	print_env(f);
	print_devices(l, f);
	print_who(f);
	fputs("# Where use was counted: twice its peak, rounded up; else the run's own limit.\n"
	      "limits {\n",
	      f);
	for (unsigned m = 0; m < METER_COUNT; m++)
		print_limit(l, (enum meter)m, f);
	fputs("}\n", f);
	for (size_t i = 0; i < l->refused_count; i++) {
		fputs("# not learnt: ", f);
		print_quoted(f, l->refused[i].path);
		fprintf(f, "%s%s\n", l->refused[i].path[0] ? ": " : "", l->refused[i].why);
	}
	if (l->refused_more)
		fputs("# not learnt: more, of the same kinds\n", f);
}
