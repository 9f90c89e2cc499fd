/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stub's routines, run on a guest's thread: map operations, atomics, exit.
 *
 * Theory of operation: the thread's registers are the caller's (they are in and out of run()), so
 * those of the host thread are free between two runs: they are set to the routine, the thread is
 * resumed with host calls on, and stops at the routine's int3. A batch of map operations is written
 * to the order page, which the stub can only read, and costs one such trip. The routine holds no
 * state in memory, so that a guest that shares the address space can disturb nothing.
 *
 * An int3 of a routine is told from a stray SIGTRAP by where the thread stands: behind an int3 of
 * the text, and not at the routine's start.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include "platform/order.h"
#include "platform/ptrace.h"

#define USER_CS 0x33
#define USER_SS 0x2b
#define FLAGS_NEW 0x202 /* interrupts on, and the bit that is always 1 */
#define INT3 0xcc

/* Copies of more than this much address space are worth letting other fibers run. */
#define PARK_SIZE ((uint64_t)16 << 20)

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* In stub/image.S: the ELF file; its text begins one page in (stub.lds, max-page-size). */
extern const uint8_t g_stub_image[];

static bool at_int3(uint64_t rip, unsigned entry)
{
	return rip > STUB_TEXT && rip <= STUB_TEXT + STUB_E_END &&
	       rip != (uint64_t)STUB_TEXT + entry &&
	       g_stub_image[MOAT_PAGE_SIZE + (rip - 1 - STUB_TEXT)] == INT3;
}

static void routine_regs(struct pf_thread *t, unsigned entry, struct pf_regs *r)
{
	r->rip = STUB_TEXT + entry;
	r->cs = USER_CS;
	r->ss = USER_SS;
	r->eflags = FLAGS_NEW;
	r->orig_rax = (uint64_t)-1;
	t->hw_valid = false;
}

int pt_inject(struct pf_thread *t, unsigned entry, struct pf_regs *r, bool park)
{
	int ret;

	if (atomic_load(&t->state) != PT_STOPPED)
		return -ESRCH;
	routine_regs(t, entry, r);
	ret = pf_host_regs_set(t->tid, r);
	while (ret == 0) {
		ret = pf_host_run_stub(t->tid);
		if (ret < 0)
			break;
		pt_set_out(t, PT_STUB);
		pt_await(t, park);
		if (atomic_load(&t->state) == PT_DEAD)
			return -ESRCH;
		if (t->stop == SIGTRAP) {
			ret = pf_host_regs_get(t->tid, r);
			if (ret == 0 && at_int3(r->rip, entry))
				return 0;
		} else if (t->stop == SIGSEGV || t->stop == SIGBUS) {
			siginfo_t si;

			ret = pf_host_siginfo(t->tid, &si);
			if (ret == 0 && si.si_code > 0)
				return -EFAULT;
		}
		/* Else a signal from outside, or the trap after a SIGCONT: none of the routine's
		 * business. The interrupt of pf_interrupt is remembered in t->interrupt. */
	}
	pt_await_death(t);
	return -ESRCH;
}

void pt_resume_exit(struct pf_thread *t)
{
	/* On failure it is dead already. */
	(void)pf_host_run_stub(t->tid);
	pt_set_out(t, PT_STUB);
}

void pt_inject_exit(struct pf_thread *t)
{
	struct pf_regs r = {0};

	routine_regs(t, STUB_E_EXIT, &r);
	(void)pf_host_regs_set(t->tid, &r);
	pt_resume_exit(t);
}

/* --- Maps --- */

/* May the host take its time over it? */
static bool is_slow(const struct map_op *op)
{
	return op->kind == MAP_OP_SYNC || (op->flags & MAP_OPF_POPULATE) || op->size >= PARK_SIZE;
}

/* Runs the @count orders on the page. Number of those that succeeded; the result of the one that
 * did not in *@error. */
static size_t run_orders(struct pf_thread *t, size_t count, bool park, int *error)
{
	struct pf_as *as = t->as;
	struct pf_regs r = {
		.rbx = STUB_ORDERS,
		.r12 = STUB_ORDERS + count * sizeof(struct stub_order),
		.r9 = (uint64_t)as->orders_slot * STUB_ORDERS_SIZE,
	};
	int ret = pt_inject(t, as->orders_attached ? STUB_E_BATCH : STUB_E_ATTACH, &r, park);

	*error = 0;
	if (ret < 0) {
		if (ret == -ESRCH)
			atomic_store(&g_pf_killed, true);
		*error = -ENOMEM; /* dead: run() will tell */
		return 0;
	}
	if (r.rbx < STUB_ORDERS) {
		*error = (int)r.rax;
		return 0;
	}
	as->orders_attached = true;
	if (r.rbx != STUB_ORDERS + count * sizeof(struct stub_order))
		*error = (int)r.rax;
	return (r.rbx - STUB_ORDERS) / sizeof(struct stub_order);
}

/* One page of orders. Number of ops done; *@error. */
static size_t map_some(struct pf_thread *t, struct map_op *ops, size_t count, int *error)
{
	struct pt_file *files[STUB_ORDERS_MAX];
	size_t built, done = 0;
	int build_error = 0;
	bool slow = false;

	if (count > 1)
		pt_files_bring(ops, count);
	fmutex_lock(&t->as->orders_lock);
	for (built = 0; built < count; built++) {
		build_error = order_from_op(&t->as->orders[built], &ops[built], &files[built]);
		if (build_error < 0)
			break;
		slow = slow || is_slow(&ops[built]);
	}
	*error = 0;
	if (built != 0)
		done = run_orders(t, built, slow, error);
	fmutex_unlock(&t->as->orders_lock);
	for (size_t i = 0; i < built; i++) {
		if (files[i])
			pt_file_put(files[i]);
	}
	if (*error == 0)
		*error = build_error;
	return done;
}

int pt_map(struct pf_thread *t, struct map_op *ops, size_t count)
{
	size_t done = 0;
	int error = 0;

	for (size_t i = 0; i < count; i++)
		ops[i].result = -ECANCELED;
	while (done < count && error == 0) {
		size_t n =
			map_some(t, ops + done, MIN(count - done, (size_t)STUB_ORDERS_MAX), &error);

		for (size_t i = 0; i < n; i++)
			ops[done + i].result = 0;
		done += n;
	}
	if (error < 0)
		ops[done].result = error;
	return error;
}

int pt_atomic32(struct pf_thread *t, gaddr_t addr, enum atomic_op op, uint32_t arg, uint32_t cmp,
		uint32_t *old)
{
	static const uint16_t entry[] = {
		[ATOMIC_CMPXCHG] = STUB_E_CMPXCHG, [ATOMIC_XCHG] = STUB_E_XCHG,
		[ATOMIC_ADD] = STUB_E_ADD,         [ATOMIC_OR] = STUB_E_OR,
		[ATOMIC_ANDN] = STUB_E_ANDN,       [ATOMIC_XOR] = STUB_E_XOR,
	};
	struct pf_regs r = {
		.rdi = addr.a,
		.rsi = op == ATOMIC_ANDN ? ~arg : arg,
		.rax = cmp,
	};

	if (addr.a > PF_GUEST_LIMIT - sizeof(uint32_t) || addr.a % sizeof(uint32_t) != 0)
		return -EFAULT;
	if (pt_inject(t, entry[op], &r, false) < 0)
		return -EFAULT;
	*old = (uint32_t)r.rax;
	return 0;
}
