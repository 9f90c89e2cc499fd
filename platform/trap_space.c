/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much an address space may map, and what a guest may do with that.
 *
 * Theory of operation: guest threads carry out the simplest changes of the map themselves
 * (trap_agent.c): they may ask the host to unmap guest memory, to map private anonymous memory,
 * readable and writable, over whatever is there, and to let what is there be read or written, or
 * neither (trap_rules.c). A hostile guest can do all three at any time, and can do nothing when it
 * is told to. What that is worth to it:
 *
 * - Where. All end below PF_GUEST_LIMIT, whatever the address and size, so the stub's text, its
 *   orders and areas stay. What lies below is the guest's own, in a process of its own: no other
 *   process's memory, no file and no shared memory changes by it, it only loses sight of them. How
 *   low it may go is the host's to say, as to any process (vm.mmap_min_addr).
 *
 * - What. Nothing that it could not have had for the asking: zeroes, not executable, not shared.
 *   Nothing becomes executable, though that would be no harm: calls from there are trapped as
 *   others are. What becomes writable is private, and then changes for its own process only; or it
 *   is shared, and then the host lets it be written only if the guest may write it: shared memory
 *   that it may only read is mapped by a description that is open for reading only
 *   (MAP_OPF_NEVER_WRITTEN), or not at all. What the sentry believes of such a place is wrong
 *   then. It never relies on that: it reads guest memory only by copies that may fail, or find
 *   anything; the tables of call sites are its own (trap_site.c); and orders of which the host
 *   thinks otherwise fail, by which the process ends.
 *
 * - How much. All that is mapped in the process, by the sentry's orders or by the guest, is limited
 *   by the host (RLIMIT_AS) to what the sentry lets be mapped (struct platform.space) and what the
 *   stub itself has. That sum, not the sum of what the sentry has mapped, is what the memory meter
 *   reckons with while it does not look (sentry/mm.c). So it does not matter what lies where, what
 *   was not unmapped though it should have been, or which protection it has. Mappings are no more
 *   than the host allows each process (vm.max_map_count).
 *
 *   A limit takes nothing away: what is mapped when it becomes less is asked of the host, and stays
 *   counted (mm_space_trim).
 *
 * - For how long. What must be gone when the sentry says so, since others rely on it, is not left
 *   to guest threads (MAP_OPF_TAKES_SHARED): shared memory, which a seal makes read-only, and files
 *   whose memory is counted only while there is a file.
 *
 * The limit is set by an order to the agent, for which the sentry waits: a guest may keep an agent
 * from working, and what is no longer let be mapped is not reckoned with. It is inherited from the
 * process that this one was forked from, and so is what is let be mapped; the first is set when the
 * keeper is started. There is room for so many areas of threads that few threads need a change.
 *
 * Locking: as->orders_lock.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include "platform/host_trap.h"
#include "platform/order.h"
#include "platform/trap.h"

/* Text, configuration, clock, orders and what the host adds at the start. */
#define STUB_SIZE ((uint64_t)256 << 10)
/* Areas are allowed for by so many. */
#define AREAS_STEP 8u

/* Of a view the guest can get the room before the agent has mapped it: once (trap_view.c). */
_Static_assert(STUB_SIZE + (AREAS_STEP - 1) * TS_AREA_SIZE + TS_VIEW_SIZE <= PF_SPACE_SPARE,
	       "what the stub does not use a guest can");

static uint64_t g_hard; /* what the host lets any limit be */

static uint64_t limit_of(uint64_t space, unsigned areas)
{
	const uint64_t steps = (areas + AREAS_STEP - 1) / AREAS_STEP;

	return space + STUB_SIZE + steps * AREAS_STEP * TS_AREA_SIZE;
}

/* Views take no room from the guest, and leave it none: they stay as large as they ever were. */
static uint64_t views_size(const struct pf_as *as)
{
	uint64_t pages = 0;

	for (unsigned i = 0; i < TS_VIEWS_MAX; i++)
		pages += as->view_pages[i];
	return pages << PAGE_SHIFT;
}

uint64_t tr_space_first(void)
{
	return limit_of(PF_SPACE_START, 1);
}

void tr_space_start(void)
{
	g_hard = pf_host_space_max();
}

void tr_space_init(struct pf_as *as, const struct pf_as *from)
{
	as->space = from ? from->space : PF_SPACE_START;
	as->limit = from ? from->limit : tr_space_first();
	if (from)
		memcpy(as->view_pages, from->view_pages, sizeof(as->view_pages));
}

size_t tr_space_order(struct pf_as *as, uint64_t space, unsigned areas, struct stub_order *order)
{
	const uint64_t limit = limit_of(space, areas) + views_size(as);

	if (limit == as->limit)
		return 0;
	as->limit = limit;
	as->orders->limit[0] = MIN(limit, g_hard);
	as->orders->limit[1] = g_hard;
	order_set(order, SYS_prlimit64, 0, RLIMIT_AS, TS_ORDERS + TS_O_LIMIT, 0, 0, 0);
	return 1;
}

static int set_locked(struct pf_as *as, struct pf_thread *t, uint64_t space)
	REQUIRES(as->orders_lock)
{
	struct tr_report report = {0};
	int r = 0;

	if (tr_orders_begin_locked(as) < 0)
		return tr_as_gone();
	if (tr_space_order(as, space, as->area_count, &as->orders->list[0]) != 0) {
		if (tr_order_locked(as, t, TS_OP_BATCH, 1, 0, 0, &report) < 0)
			r = tr_as_gone();
		else
			r = -(int)report.value;
	}
	if (r < 0)
		as->limit = 0; /* whatever it is, it is set anew */
	else
		as->space = space;
	return r;
}

int tr_space_again_locked(struct pf_as *as, struct pf_thread *t)
{
	return set_locked(as, t, as->space);
}

int tr_space(struct pf_thread *t, uint64_t bytes)
{
	int r;

	if (fail_now(FAIL_HOST))
		return -ENOMEM;
	fmutex_lock(&t->as->orders_lock);
	r = set_locked(t->as, t, bytes);
	fmutex_unlock(&t->as->orders_lock);
	return r;
}

uint64_t tr_space_over(struct pf_as *as)
{
	struct pf_usage usage;
	uint64_t limit;

	fmutex_lock(&as->orders_lock);
	limit = as->limit;
	fmutex_unlock(&as->orders_lock);
	tr_usage(as, PF_USAGE_MEMORY, &usage);
	if (usage.mapped_bytes == 0 || limit == 0)
		return UINT64_MAX;
	return usage.mapped_bytes - MIN(usage.mapped_bytes, limit);
}
