/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any host call, for debug builds. See sentry/takeover.h.
 *
 * Theory of operation: the request is copied into pages of the sentry's, arguments that are to be
 * pointers are made to lead there (or to the sentry's own text), the call is made by an instruction
 * of its own, and the request is copied back. What the sentry's filter refuses is told instead of
 * being the end (platform/sentry_filter.c).
 */
#include "sentry/takeover.h"

#ifdef MOAT_DEBUG
#include <errno.h>
#include <string.h>
#include "platform/sentry_filter.h"
#include "sentry/mm.h"
#include "vfs/host_calls.h"

/* As in tests/hostile/takeover_calls.c. */
struct request {
	uint64_t nr, arg[6];
	uint64_t in_buf;  /* bit n: arg[n] is an offset in buf */
	uint64_t in_text; /* bit n: arg[n] is an offset from a page of the sentry's text */
	int64_t result;   /* the host's, -errno */
	uint64_t refused; /* by the filter */
	uint64_t here;    /* where the sentry has buf; the same each time */
	uint8_t buf[8192];
};

static void make(struct request *q)
{
	const uint64_t text = (uint64_t)(uintptr_t)make & ~(uint64_t)(MOAT_PAGE_SIZE - 1);
	uint64_t a[6];
	bool refused;

	for (unsigned i = 0; i < 6; i++)
		a[i] = q->arg[i] + (q->in_buf >> i & 1 ? (uint64_t)(uintptr_t)q->buf : 0) +
		       (q->in_text >> i & 1 ? text : 0);

	sentry_refusals_begin(&refused);

	register uint64_t r10 __asm__("r10") = a[3];
	register uint64_t r8 __asm__("r8") = a[4];
	register uint64_t r9 __asm__("r9") = a[5];

	__asm__ volatile("syscall"
			 : "=a"(q->result)
			 : "a"(q->nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	sentry_refusals_end();
	q->refused = refused;
}

bool takeover(struct task *t, unsigned nr, uint64_t request, long *ret)
{
	static struct request *q;

	if (nr != TAKEOVER_NR)
		return false;
	if (!q)
		q = host_map_anon(sizeof(*q));
	*ret = !q ? -ENOMEM : copy_in(t, q, GADDR(request), sizeof(*q)) ? -EFAULT : 0;
	if (*ret == 0) {
		make(q);
		q->here = (uint64_t)(uintptr_t)q->buf;
		*ret = copy_out(t, GADDR(request), q, sizeof(*q)) ? -EFAULT : 0;
	}
	return true;
}
#endif
