/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grant while it is drawn up.
 *
 * Theory of operation: the command line, presets and policy files (all of them through here, so
 * that there is one schema) add rules to a draft; draft_finish() adds what goes without saying,
 * puts the rules in order and refuses those that contradict each other; grant_freeze() then makes
 * of it what the sandbox obeys. A draft owns its strings.
 */
#ifndef MOAT_RUNTIME_DRAFT_H
#define MOAT_RUNTIME_DRAFT_H

#include "base/err.h"
#include "base/types.h"
#include "sentry/grant.h"

#define DRAFT_PATHS_MAX 64
#define DRAFT_ENV_MAX 1024

struct draft_text;

struct draft {
	struct grant g; /* paths and env are the arrays below */
	struct grant_path paths[DRAFT_PATHS_MAX];
	char *env[DRAFT_ENV_MAX + 1]; /* NULL-terminated */
	struct grant_origin clock_origin, seed_origin;
	bool cwd_given;
	struct draft_text *texts;
};

void draft_init(struct draft *d);
void draft_fini(struct draft *d);

/* A copy of @s that lives as long as the draft. No memory: moat ends. */
char *draft_text(struct draft *d, const char *s);

/* 0, or -errno and one line in *e that begins with what is wrong, not with where. */
int draft_add_path(struct draft *d, const struct grant_path *p, struct err *e) MUST_USE;
/* "NAME=VALUE", or "NAME": the caller's value, if there is one. The last of one name wins. */
int draft_add_env(struct draft *d, const char *spec, struct err *e) MUST_USE;

/* "512M", "10s", "50%", "100" as the limit's unit says; "none". *e tells what is allowed. */
int draft_set_limit(struct draft *d, const char *name, const char *value,
		    const struct grant_origin *origin, struct err *e) MUST_USE;
/* "host", "offset:-3h", "fixed:2026-01-01T00:00:00Z", "virtual", "virtual:TIME". */
int draft_set_clock(struct draft *d, const char *value, const struct grant_origin *origin,
		    struct err *e) MUST_USE;
/* A number below 2^64. */
int draft_set_seed(struct draft *d, const char *value, const struct grant_origin *origin,
		   struct err *e) MUST_USE;

/* Parents before children, whatever the order in which rules were written. */
void draft_sort_paths(struct draft *d);
/* After the last rule. */
int draft_finish(struct draft *d, struct err *e) MUST_USE;
/* Can this build hold what the draft says? Before a run. */
int draft_check_built(const struct draft *d, struct err *e) MUST_USE;

/* "FILE:LINE:COLUMN", or what stands for a file. */
const char *draft_origin_text(const struct grant_origin *o, char *buf, size_t size);
unsigned draft_host_cpus(void);

#endif
