/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that have the sentry of a debug build make host calls (sentry/takeover.h): the
 * request, and how it is handed over.
 */
#ifndef TESTS_HOSTILE_TAKEOVER_H
#define TESTS_HOSTILE_TAKEOVER_H

#include "hostile.h"

#define TAKEOVER_NR 7777

static struct request {
	uint64_t nr, arg[6];
	uint64_t in_buf, in_text;
	int64_t result;
	uint64_t refused, here;
	uint8_t buf[8192];
} q;

#define B(n) (1u << (n))

/* Host call @nr; arguments in @in_buf are offsets in q.buf. The answer is in q. */
static void host_call(unsigned in_buf, uint64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
		      uint64_t f)
{
	q.nr = nr;
	q.arg[0] = a;
	q.arg[1] = b;
	q.arg[2] = c;
	q.arg[3] = d;
	q.arg[4] = e;
	q.arg[5] = f;
	q.in_buf = in_buf;
	if (syscall(TAKEOVER_NR, &q) != 0) {
		printf("no takeover in this build: %s\n", strerror(errno));
		exit(77);
	}
}

#endif
