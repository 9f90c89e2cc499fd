/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grant while it is drawn up.
 */
#include "runtime/draft.h"
#include "runtime/cpu_share.h"
#include "runtime/default_limits.h"
#include "runtime/egress.h"
#include "runtime/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/hostcall.h"

struct draft_text {
	struct draft_text *next;
	char text[];
};

/* Most of a draft is room that is never touched. */
void draft_init(struct draft *d)
{
	d->g = (struct grant){
		.paths = d->paths,
		.env = d->env,
		.egress = d->egress,
		.devices = d->devices,
		.masks = d->masks,
		.name = "default",
		.hostname = "moat",
		.uid = HOST(getuid_monitor, getuid()),
		.gid = HOST(getgid_monitor, getgid()),
		.cpus = draft_host_cpus(),
		.clock = CLOCK_KIND_HOST,
	};
	d->env[0] = NULL;
	d->show_cwd = DRAFT_CWD_NONE;
	d->cwd_given = false;
	d->cwd_origin = d->clock_origin = d->seed_origin =
		(struct grant_origin){.file = "built in"};
	d->hidden_count = d->hidden_files.count = d->pins.count = 0;
	d->moat = NULL;
	d->texts = NULL;
	for (unsigned i = 0; i < GRANT_LIMIT_COUNT; i++)
		d->g.limits[i] = GRANT_NO_LIMIT;
}

/* Names below /dev that rootfs.c knows to make. */
static const char *const g_device_names[] = {"null", "zero",  "full",   "random", "urandom",
					     "tty",  "stdin", "stdout", "stderr", "fd",
					     "ptmx", "shm",   "mqueue"};
_Static_assert(ARRAY_SIZE(g_device_names) <= DRAFT_DEVICES_MAX, "all may be granted");

void draft_default(struct draft *d)
{
	static const char *const pass[] = {"TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "COLORTERM"};
	static const struct {
		const char *name, *value;
	} limits[] = {
#define X(limit, text) {#limit, text},
		DEFAULT_LIMITS(X)
#undef X
	};
	const struct grant_origin origin = {.file = "preset default"};

	for (size_t i = 0; i < ARRAY_SIZE(pass); i++)
		(void)!draft_add_env(d, pass[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(g_device_names); i++)
		d->devices[d->g.device_count++] = g_device_names[i];
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct err e;

		if (draft_set_limit(d, limits[i].name, limits[i].value, &origin, &e))
			panic("preset default: %s: %s", limits[i].name, e.text);
	}
	d->show_cwd = DRAFT_CWD_READ;
	d->cwd_origin = (struct grant_origin){.file = "preset default"};
}

bool draft_is_device(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_device_names); i++) {
		if (strcmp(g_device_names[i], name) == 0)
			return true;
	}
	return false;
}

int draft_add_device(struct draft *d, const char *name, struct err *e)
{
	char all[160] = "";

	for (uint32_t i = 0; i < d->g.device_count; i++)
		if (strcmp(d->devices[i], name) == 0)
			return err_set(e, EEXIST, "%s is there already", name);
	for (size_t i = 0; i < ARRAY_SIZE(g_device_names); i++) {
		if (strcmp(g_device_names[i], name) == 0) {
			d->devices[d->g.device_count++] = g_device_names[i];
			return 0;
		}
		strcat(strcat(all, i ? ", " : ""), g_device_names[i]);
	}
	return err_set(e, EINVAL, "no such device; there are %s", all);
}

void draft_fini(struct draft *d)
{
	while (d->texts) {
		struct draft_text *t = d->texts;

		d->texts = t->next;
		free(t);
	}
}

char *draft_text(struct draft *d, const char *s)
{
	const size_t size = strlen(s) + 1;
	struct draft_text *t = malloc(sizeof(*t) + size);

	if (!t) {
		fputs("moat: out of memory\n", stderr);
		exit(EXIT_SENTRY);
	}
	memcpy(t->text, s, size);
	t->next = d->texts;
	d->texts = t;
	return t->text;
}

int draft_add_path(struct draft *d, const struct grant_path *p, struct err *e)
{
	struct grant_path *to;

	if (d->g.path_count == DRAFT_PATHS_MAX)
		return err_set(e, E2BIG, "more than %d paths are granted; grant a common parent",
			       DRAFT_PATHS_MAX);
	to = &d->paths[d->g.path_count++];
	*to = *p;
	to->fd = to->parent_fd = -1;
	return 0;
}

int draft_add_egress(struct draft *d, const char *rule, const struct grant_origin *origin,
		     struct err *e)
{
	struct egress_rule now, old;
	char at[256];
	int r = egress_parse(rule, &now, e);

	for (uint32_t i = 0; r == 0 && i < d->g.egress_count; i++) {
		const struct grant_egress *g = &d->egress[i];

		draft_origin_text(&g->origin, at, sizeof(at));
		r = egress_parse(g->rule, &old, e);
		if (r == 0 && egress_covers(&old, &now))
			r = err_set(e, EEXIST, "%s (%s) allows that already; leave it out", g->rule,
				    at);
		else if (r == 0 && egress_covers(&now, &old))
			r = err_set(e, EEXIST, "it allows all that %s (%s) allows; leave that out",
				    g->rule, at);
	}
	if (r)
		return r;
	if (d->g.egress_count == DRAFT_EGRESS_MAX)
		return err_set(e, E2BIG, "more than %d rules", DRAFT_EGRESS_MAX);
	d->egress[d->g.egress_count++] =
		(struct grant_egress){.rule = draft_text(d, rule), .origin = *origin};
	return 0;
}

const char *draft_canonical(struct draft *d, const char *path)
{
	char *copy = draft_text(d, path), *to = copy;

	for (const char *p = path; *p;) {
		const size_t n = strcspn(p, "/");

		if (n > 0 && !(n == 1 && p[0] == '.')) {
			*to++ = '/';
			to = memmove(to, p, n);
			to += n;
		}
		p += n;
		while (*p == '/')
			p++;
	}
	if (to == copy)
		*to++ = '/';
	*to = '\0';
	return copy;
}

int draft_replace_path(struct draft *d, const struct grant_path *p, struct err *e)
{
	char at[256];

	for (uint32_t i = 0; i < d->g.path_count; i++) {
		struct grant_path *old = &d->paths[i];

		if (strcmp(old->target, p->target) != 0)
			continue;
		if (old->access == GRANT_HIDDEN)
			return err_set(e, EPERM, "%s hides it",
				       draft_origin_text(&old->origin, at, sizeof(at)));
		/* Of two options none is the last word: who says both means one. */
		if (old->origin.line == 0 && strncmp(old->origin.file, "--", 2) == 0)
			return err_set(e, EEXIST, "%s grants it already; choose one",
				       draft_origin_text(&old->origin, at, sizeof(at)));
		*old = *p;
		return 0;
	}
	return draft_add_path(d, p, e);
}

int draft_add_env(struct draft *d, const char *spec, struct err *e)
{
	const char *eq = strchr(spec, '=');
	const size_t name_len = eq ? (size_t)(eq - spec) : strlen(spec);
	char *entry;

	if (name_len == 0)
		return err_set(e, EINVAL, "a variable needs a name: NAME=VALUE");
	if (eq) {
		entry = draft_text(d, spec);
	} else {
		const char *v = getenv(spec);
		char *whole = NULL;

		if (!v)
			return 0; /* not set here: not set there */
		if (asprintf(&whole, "%s=%s", spec, v) < 0)
			return err_set(e, ENOMEM, "out of memory");
		entry = draft_text(d, whole);
		free(whole);
	}
	for (uint32_t i = 0; i < d->g.env_count; i++) {
		if (strncmp(d->env[i], entry, name_len + 1) == 0) {
			d->env[i] = entry;
			return 0;
		}
	}
	if (d->g.env_count == DRAFT_ENV_MAX)
		return err_set(e, E2BIG, "more than %d variables", DRAFT_ENV_MAX);
	d->env[d->g.env_count++] = entry;
	return 0;
}

/* By their depth, so that a mount does not hide one below; then by name, so that the same rules
 * make the same grant in whatever order they were written. */
static int compare_paths(const void *a, const void *b)
{
	const struct grant_path *x = a, *y = b;
	const size_t m = strlen(x->target), n = strlen(y->target);

	return m != n ? (m < n ? -1 : 1) : strcmp(x->target, y->target);
}

void draft_sort_paths(struct draft *d)
{
	qsort(d->paths, d->g.path_count, sizeof(d->paths[0]), compare_paths);
}

static bool has_env(const struct draft *d, const char *name)
{
	const size_t n = strlen(name);

	for (uint32_t i = 0; i < d->g.env_count; i++)
		if (strncmp(d->env[i], name, n) == 0 && d->env[i][n] == '=')
			return true;
	return false;
}

/* What a program needs to start. */
static int settle_env(struct draft *d, struct err *e)
{
	const bool root = d->g.uid == 0;
	int r = 0;

	if (!has_env(d, "PATH"))
		r = draft_add_env(d,
				  "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
				  "/sbin:/bin",
				  e);
	if (r == 0 && !has_env(d, "HOME"))
		r = draft_add_env(d, root ? "HOME=/root" : "HOME=/home/user", e);
	if (r == 0 && !has_env(d, "USER"))
		r = draft_add_env(d, root ? "USER=root" : "USER=user", e);
	return r;
}

int draft_finish(struct draft *d, struct err *e)
{
	int r = settle_env(d, e);

	if (r == 0)
		r = draft_settle_paths(d, e);
	if (d->g.limits[METER_cpu_share] != GRANT_NO_LIMIT)
		d->g.cpus = (uint32_t)MIN((uint64_t)d->g.cpus,
					  cpu_share_cpus(d->g.limits[METER_cpu_share]));
	return r;
}
