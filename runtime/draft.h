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

#define DRAFT_PATHS_MAX 256
#define DRAFT_ENV_MAX 1024
#define DRAFT_EGRESS_MAX 256
#define DRAFT_HIDDEN_MAX 1024
#define DRAFT_DEVICES_MAX 16

struct draft_text;

struct draft_ids {
	struct hostfs_id id[DRAFT_HIDDEN_MAX];
	uint32_t count;
};

/* The caller's directory, where the program starts unless a rule says otherwise: is it shown though
 * no rule names it? */
enum draft_cwd { DRAFT_CWD_NONE, DRAFT_CWD_READ, DRAFT_CWD_WRITE };

struct draft {
	struct grant g; /* paths, env and the like are the arrays below */
	struct grant_path paths[DRAFT_PATHS_MAX];
	char *env[DRAFT_ENV_MAX + 1]; /* NULL-terminated */
	struct grant_egress egress[DRAFT_EGRESS_MAX];
	const char *devices[DRAFT_DEVICES_MAX];
	enum draft_cwd show_cwd;
	bool shows_secret; /* the caller's directory is shown, and may be one */
	bool cwd_given;    /* a rule names it: then it must be there */
	struct grant_origin cwd_origin, clock_origin, seed_origin;
	struct hostfs_hidden hidden[DRAFT_HIDDEN_MAX];
	int16_t hidden_by[DRAFT_HIDDEN_MAX]; /* which of paths; -1: moat itself */
	uint32_t hidden_count;
	const char *masks[DRAFT_HIDDEN_MAX];
	struct draft_ids hidden_files, pins;
	const char *moat; /* the file that this program is; NULL: not known */
	struct draft_text *texts;
};

/* Grants nothing but a root with the system directories. */
void draft_init(struct draft *d);
void draft_fini(struct draft *d);
/* What `moat run' grants without a preset: the same as the preset default. */
void draft_default(struct draft *d);

/* A copy of @s that lives as long as the draft. No memory: moat ends. */
char *draft_text(struct draft *d, const char *s);

/* 0, or -errno and one line in *e that begins with what is wrong, not with where. */
int draft_add_path(struct draft *d, const struct grant_path *p, struct err *e) MUST_USE;
/* @path, absolute, without second slashes, "." and a slash at its end, as people write paths. */
const char *draft_canonical(struct draft *d, const char *path);
/* A rule for a target that has one takes its place; not that of what is hidden. */
int draft_replace_path(struct draft *d, const struct grant_path *p, struct err *e) MUST_USE;
/* May this be a target in the guest, a path of the host? */
int draft_check_target(const char *target, struct err *e) MUST_USE;
int draft_check_host(const char *host, struct err *e) MUST_USE;
/* @path of the host without links. With @optional it may be missing; else @mend is said. */
int draft_resolve_host(struct draft *d, const char *path, bool optional, const char *mend,
		       const char **out, struct err *e) MUST_USE;
/* moat itself reads or writes @path: no guest finds it where it could change it. After the last
 * rule. */
int draft_protect(struct draft *d, const char *path, struct err *e) MUST_USE;
/* Is @host, a path, a secret of a home directory, or in one? */
bool draft_is_secret(const char *host);
/* "null"; a name below /dev that the sentry has. */
bool draft_is_device(const char *name);
int draft_add_device(struct draft *d, const char *name, struct err *e) MUST_USE;
/* "example.org:443", "*.example.org", "10.0.0.0/8:80". */
int draft_add_egress(struct draft *d, const char *rule, const struct grant_origin *origin,
		     struct err *e) MUST_USE;
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
/* Of draft_finish: where rules meet, and what is hidden. */
int draft_settle_paths(struct draft *d, struct err *e) MUST_USE;
/* After the last rule. */
int draft_finish(struct draft *d, struct err *e) MUST_USE;
/* Can this build hold what the draft says? Before a run. */
int draft_check_built(const struct draft *d, struct err *e) MUST_USE;

/* "FILE:LINE:COLUMN", or what stands for a file. */
const char *draft_origin_text(const struct grant_origin *o, char *buf, size_t size);
unsigned draft_host_cpus(void);
/* Of the host's root directory, only these are shown without --root; ends with NULL. */
extern const char *const g_system_dirs[];

#endif
