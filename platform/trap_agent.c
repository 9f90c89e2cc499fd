/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders to the agents, and their reports.
 *
 * Theory of operation: the agent of an address space sleeps on the order page's sequence number.
 * An order is written there, the number raised, the agent woken; it runs the order and reports by
 * seeking a descriptor of which the sentry holds a duplicate. No other thread of its process can
 * do that, so a report with the order's number is true; the bell in the first area, which any guest
 * thread could ring, only says that it is time to look.
 *
 * Locking: as->orders_lock is held from the order until its report.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "platform/host_ptrace.h"
#include "platform/host_trap.h"
#include "platform/stub_files.h"
#include "platform/trap.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static struct ts_area *first_area(struct pf_as *as)
{
	return tr_area(as->areas[0].slot);
}

/* --- Reports --- */

static bool report_is(struct pf_as *as, uint32_t seq, struct tr_report *report)
{
	const uint64_t v = (uint64_t)pf_host_offset_get(as->result_fd);

	if (v >> TS_REPORT_SEQ_SHIFT != (seq & TS_REPORT_SEQ_MASK))
		return false;
	report->done = v >> TS_REPORT_DONE_SHIFT & 0xff;
	report->value = (uint32_t)v;
	return true;
}

/* Waits for the report of order @seq. 0 or -ESRCH. */
static int await_report(struct pf_as *as, uint32_t seq, struct tr_report *report)
{
	struct tr_wait w = {
		.word = &first_area(as)->agent,
		.dead = &as->dead,
		.soon = true,
	};

	/* No deadline: a guest cannot keep an agent from its work, only a slow disk can. */
	for (;;) {
		if (tr_await(&w, DEADLINE_NONE) < 0)
			return -ESRCH;
		/* First the bell, then the report: what is reported later rings again. */
		atomic_store(w.word, TS_GUEST);
		if (report_is(as, seq, report))
			return 0;
		if (atomic_load(&as->dead))
			return -ESRCH;
	}
}

int tr_settle_locked(struct pf_as *as)
{
	struct tr_report report;

	if (as->settled)
		return atomic_load(&as->dead) ? -ESRCH : 0;
	if (await_report(as, 0, &report) < 0)
		return -ESRCH;
	if (as->first) {
		if (report.done != TS_REPORT_PID) {
			log_error("trap: a guest thread cannot be made: %s",
				  err_text((int)report.value));
			tr_as_kill(as);
			return -ESRCH;
		}
		as->first->tid = (pid_t)report.value;
		as->first = NULL;
	}
	as->settled = true;
	return 0;
}

int tr_order_locked(struct pf_as *as, uint32_t op, size_t count, uint64_t arg0, uint64_t arg1,
		    struct tr_report *report)
{
	struct ts_orders *o = as->orders;

	if (tr_settle_locked(as) < 0)
		return -ESRCH;
	o->op = op;
	o->size = (uint32_t)(count * sizeof(struct ts_order));
	o->arg0 = arg0;
	o->arg1 = arg1;
	atomic_store(&first_area(as)->agent, TS_GUEST);
	as->seq++;
	atomic_store(&o->seq, as->seq);
	pf_host_futex_wake_shared(&o->seq);
	return await_report(as, as->seq, report);
}

/* --- Maps --- */

static bool range_ok(uint64_t addr, uint64_t size)
{
	return ((addr | size) & ~PAGE_MASK_DOWN) == 0 && size != 0 && size <= PF_GUEST_LIMIT &&
	       addr <= PF_GUEST_LIMIT - size;
}

static int map_flags(const struct map_op *op)
{
	return MAP_FIXED | (op->flags & MAP_OPF_SHARED ? MAP_SHARED : MAP_PRIVATE) |
	       (op->flags & MAP_OPF_NORESERVE ? MAP_NORESERVE : 0) |
	       (op->flags & MAP_OPF_POPULATE ? MAP_POPULATE : 0);
}

/* On x86 whoever may write or execute may read; said to the host, it holds for the sentry's copies
 * too. */
static uint64_t host_prot(uint32_t prot)
{
	prot &= PROT_READ | PROT_WRITE | PROT_EXEC;
	return prot ? prot | PROT_READ : 0;
}

void tr_order_set(struct ts_order *o, uint64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
		  uint64_t e, uint64_t f)
{
	*o = (struct ts_order){.nr = nr, .arg = {a, b, c, d, e, f}};
}

/* Turns @op into a host call. @file: what it holds until the call is done. 0 or -errno. */
static int order_from_op(struct ts_order *o, const struct map_op *op, struct pt_file **file)
{
	const uint64_t prot = host_prot(op->prot);
	int fd;

	*file = NULL;
	if (op->kind == MAP_OP_REMAP ? !range_ok(op->addr, op->size ? op->size : MOAT_PAGE_SIZE)
				     : !range_ok(op->addr, op->size))
		return -EINVAL;
	switch (op->kind) {
	case MAP_OP_ANON:
		tr_order_set(o, SYS_mmap, op->addr, op->size, prot,
			     (uint64_t)(map_flags(op) | MAP_ANONYMOUS), (uint64_t)-1, 0);
		return 0;
	case MAP_OP_FILE:
		fd = pt_file_get(op->host_fd, op->file_key, file);
		if (fd < 0)
			return fd;
		tr_order_set(o, SYS_mmap, op->addr, op->size, prot, (uint64_t)map_flags(op),
			     (uint64_t)fd, op->offset);
		return 0;
	case MAP_OP_UNMAP:
		tr_order_set(o, SYS_munmap, op->addr, op->size, 0, 0, 0, 0);
		return 0;
	case MAP_OP_PROTECT:
		tr_order_set(o, SYS_mprotect, op->addr, op->size, prot, 0, 0, 0);
		return 0;
	case MAP_OP_REMAP: {
		uint64_t flags = 0;

		if (!range_ok(op->new_addr, op->new_size))
			return -EINVAL;
		/* In place, the host refuses FIXED. */
		if (op->new_addr != op->addr)
			flags = MREMAP_MAYMOVE | MREMAP_FIXED |
				(op->flags & MAP_OPF_DONTUNMAP ? MREMAP_DONTUNMAP : 0);
		tr_order_set(o, SYS_mremap, op->addr, op->size, op->new_size, flags, op->new_addr,
			     0);
		return 0;
	}
	case MAP_OP_ADVISE:
		tr_order_set(o, SYS_madvise, op->addr, op->size, (uint64_t)op->advice, 0, 0, 0);
		return 0;
	case MAP_OP_SYNC:
		tr_order_set(o, SYS_msync, op->addr, op->size, MS_SYNC, 0, 0, 0);
		return 0;
	}
	return -EINVAL;
}

/* One page of orders. Number of ops done; *@error. */
static size_t map_some(struct pf_as *as, struct map_op *ops, size_t count, int *error)
{
	struct pt_file *files[TS_ORDERS_MAX];
	struct tr_report report = {0};
	size_t built;
	int build_error = 0;

	*error = 0;
	fmutex_lock(&as->orders_lock);
	for (built = 0; built < count; built++) {
		build_error = order_from_op(&as->orders->list[built], &ops[built], &files[built]);
		if (build_error < 0)
			break;
	}
	if (built != 0 && tr_order_locked(as, TS_OP_BATCH, built, 0, 0, &report) < 0)
		*error = -ENOMEM; /* dead: run() will tell */
	else if (report.value != 0)
		*error = -(int)report.value;
	fmutex_unlock(&as->orders_lock);
	for (size_t i = 0; i < built; i++) {
		if (files[i])
			pt_file_put(files[i]);
	}
	if (*error == 0)
		*error = build_error;
	return MIN(report.done, built);
}

int tr_map(struct pf_thread *t, struct map_op *ops, size_t count)
{
	size_t done = 0;
	int error = 0;

	for (size_t i = 0; i < count; i++)
		ops[i].result = -ECANCELED;
	while (done < count && error == 0) {
		size_t n = map_some(t->as, ops + done, MIN(count - done, (size_t)TS_ORDERS_MAX),
				    &error);

		for (size_t i = 0; i < n; i++)
			ops[done + i].result = 0;
		done += n;
	}
	if (error < 0)
		ops[done].result = error;
	return error;
}
