/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grant while it is drawn up.
 */
#include "runtime/draft.h"
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

void draft_init(struct draft *d)
{
	memset(d, 0, sizeof(*d));
	d->g.paths = d->paths;
	d->g.env = d->env;
	d->g.name = "default";
	d->g.hostname = "moat";
	d->g.uid = HOST(getuid_monitor, getuid());
	d->g.gid = HOST(getgid_monitor, getgid());
	d->g.cpus = draft_host_cpus();
	d->g.clock = CLOCK_KIND_HOST;
	for (unsigned i = 0; i < GRANT_LIMIT_COUNT; i++)
		d->g.limits[i] = GRANT_NO_LIMIT;
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

int draft_finish(struct draft *d, struct err *e UNUSED)
{
	if (!d->g.cwd) {
		char *here = HOST(getcwd_monitor, getcwd(NULL, 0));

		d->g.cwd = here && here[0] == '/' ? draft_text(d, here) : "/";
		free(here);
	}
	return 0;
}
