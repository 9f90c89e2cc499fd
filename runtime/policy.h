/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy files: a grant written down.
 *
 *	version = 1
 *	path "/work" {          # as the guest sees it
 *		host = "/srv/work"  # default: the same
 *		access = rw         # ro, rw or hidden; default: ro
 *		exec = true         # default: false
 *		optional = true     # may be missing; default: false
 *	}
 *	env = { "LANG=C.UTF-8", "TERM" }   # a value, or the caller's
 *	limits { memory = 512M  wall_time = 10m }
 *
 * docs/moat-policy.5 has all keys.
 */
#ifndef MOAT_RUNTIME_POLICY_H
#define MOAT_RUNTIME_POLICY_H

#include "runtime/draft.h"

#define POLICY_SIZE_MAX ((size_t)1 << 20)

/* Adds what @text (@size bytes, hostile) says to @d, as of a file called @name. 0, or -errno and in
 * *e "NAME:LINE:COLUMN: KEY: what is wrong, and what is allowed". */
int policy_parse(const char *name, const char *text, size_t size, struct draft *d,
		 struct err *e) MUST_USE;
/* The same of a file of the host. */
int policy_load(const char *path, struct draft *d, struct err *e) MUST_USE;

/* The text of a preset; NULL: there is none of that name. */
const char *policy_preset(const char *name);
/* The @i-th, in order; NULL at the end. */
const char *policy_preset_name(unsigned i);
int policy_load_preset(const char *name, struct draft *d, struct err *e) MUST_USE;

/* `moat policy explain', behind the file: "--", "open", "/x", "read". @d is finished. The exit
 * status: 0 allowed, 1 denied. */
int policy_explain(struct draft *d, int argc, char **argv);

/* Is the policy in the file @path good? */
int policy_check(const char *path, struct err *e) MUST_USE;

int policy_main(int argc, char **argv);

#endif
