/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Egress rules: who may be reached.
 *
 *   example.org  example.org:443       that name
 *   *.example.org  *.example.org:443   all names below it, not itself
 *   192.0.2.7  10.0.0.0/8:80           an address, a range of them
 *   2001:db8::/32  [2001:db8::/32]:443
 *
 * A rule without a port is for all ports.
 */
#ifndef MOAT_RUNTIME_EGRESS_H
#define MOAT_RUNTIME_EGRESS_H

#include "base/err.h"
#include "base/types.h"

enum egress_kind { EGRESS_NAME, EGRESS_SUFFIX, EGRESS_RANGE };

struct egress_rule {
	enum egress_kind kind;
	char name[256]; /* in lower case; of a suffix what stands behind the star's dot */
	bool v6;
	uint8_t addr[16]; /* the range's first */
	unsigned prefix;
	uint16_t port; /* 0: all */
};

/* 0, or -EINVAL and in *e what is allowed. */
int egress_parse(const char *text, struct egress_rule *out, struct err *e) MUST_USE;
/* Is all that @b lets through let through by @a, too? @b may be what somebody wants to reach. */
bool egress_covers(const struct egress_rule *a, const struct egress_rule *b);

#endif
