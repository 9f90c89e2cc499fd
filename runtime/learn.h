/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of `moat policy learn': learn.c observes and reduces, learn_print.c writes the
 * policy.
 */
#ifndef MOAT_RUNTIME_LEARN_H
#define MOAT_RUNTIME_LEARN_H

#include <stdio.h>
#include "base/types.h"
#include "runtime/run.h"

#define LEARN_REFUSED_MAX 64

enum { LEARN_RW = 1, LEARN_X = 2 };     /* rights; reading needs none */
enum { LEARN_DIR = 1, LEARN_LOOK = 2 }; /* flags: a directory; only looked at */

struct learn_need {
	char *path; /* in the guest */
	const struct grant_path *grant;
	unsigned rights, flags;
	bool chosen; /* it becomes a rule */
};

struct learn_refused {
	const char *path, *why;
};

struct learnt {
	struct learn_need *needs; /* sorted: parents right before what is below them */
	size_t count, rules;
	uint32_t devices; /* a bit for each of g_grant's */
	uint64_t peaks[METER_COUNT];
	struct learn_refused refused[LEARN_REFUSED_MAX];
	size_t refused_count;
	bool refused_more;
};

bool learn_is_below(const char *path, const char *top);
/* Can a policy name it? */
bool learn_can_write(const char *path);
/* The policy; @status: how the program ended. */
void learn_print(const struct learnt *l, const struct run_config *cfg, int status, FILE *f);

#endif
