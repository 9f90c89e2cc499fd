/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0 of the trap platform: publishing what stubs answer themselves. See stub_trap/answer.c.
 *
 * Locking: the epoch is raised by anybody, at any time. Who publishes reads it first: what changes
 * meanwhile makes the published stale.
 */
#include <string.h>
#include <sys/auxv.h>
#include "platform/host_trap.h"
#include "platform/notify.h"
#include "platform/stub_files.h"
#include "platform/trap.h"

/* asm/hwcap2.h: rdfsbase, wrgsbase and their like are allowed. */
#define HWCAP2_FSGSBASE_ 2u

static _Atomic uint64_t g_answered[TS_T0_COUNT];
bool g_tr_bases;
static bool g_clocks;
static struct ts_shared *g_shared; /* the sentry's view; NULL: tier 0 is off */

_Static_assert(TS_A_COUNTS + TS_T0_COUNT * sizeof(uint64_t) <= TS_A_DIRECT, "and the next");
_Static_assert(TS_A_DIRECT + PF_FUTEX_COUNTS * sizeof(uint32_t) <= TS_A_TOLD, "and that");
_Static_assert(TS_A_TOLD + sizeof(struct ts_told) <= TS_A_ACTIONS, "and that");
_Static_assert(TS_A_ACTIONS + sizeof(struct pf_actions) <= TS_A_WINDOW, "below the window");

static struct pf_answers *answers_of(struct pf_thread *t)
{
	return (struct pf_answers *)((char *)t->area + TS_A_ANSWERS);
}

void tr_answers_start(struct ts_shared *shared)
{
	atomic_store(&shared->epoch, 1);
	shared->stamps = g_pf_stamps;
	shared->no_counter = g_pf_trap_tsc;
	/* On notify a guest's calls are to be notifications. */
	shared->dispatch = !g_nt_on && pf_host_dispatches();
	shared->answers = g_pf_answers && !g_nt_on;
	g_tr_bases = (getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE_) != 0;
	shared->bases = g_tr_bases;
	g_shared = g_pf_answers ? shared : NULL;
	for (unsigned i = 0; i < TS_T0_COUNT; i++)
		atomic_store(&g_answered[i], 0);
}

void tr_answers_clocks(void)
{
	const int fd = clock_params_fd();

	if (g_pf_answers && fd >= 0)
		g_clocks = pt_keeper_time(fd) == 0;
}

void tr_answers_stop(void)
{
	g_clocks = false;
	g_shared = NULL;
}

struct pf_answers *tr_answers_begin(struct pf_thread *t)
{
	uint32_t now;

	/* Only threads that arrive where the stub could answer, and those that begin a program or
	 * as a process's first: each asks once what the C library keeps. */
	if (!g_shared || (!t->fast && !(t->begins && g_shared->answers)))
		return NULL;
	t->begins = false;
	now = atomic_load_explicit(&g_shared->epoch, memory_order_acquire);
	if (likely(t->answers_epoch == now))
		return NULL;
	t->answers_epoch = now;
	return answers_of(t);
}

void tr_answers_end(struct pf_thread *t)
{
	answers_of(t)->clocks = g_clocks;
	answers_of(t)->epoch = t->answers_epoch;
}

struct pf_actions *tr_answers_actions(struct pf_thread *t)
{
	return (struct pf_actions *)((char *)t->area + TS_A_ACTIONS);
}

void tr_answers_wipe(struct pf_actions *a)
{
	/* Else the page may not have been made. */
	if (__atomic_load_n(&a->on, __ATOMIC_RELAXED))
		memset(a, 0, sizeof(*a));
}

void tr_answers_stale(void)
{
	if (!g_shared)
		return;
	if (atomic_fetch_add(&g_shared->epoch, 1) == UINT32_MAX)
		atomic_fetch_add(&g_shared->epoch, 1);
}

bool tr_answers_on(void)
{
	return g_shared && g_shared->answers;
}

_Atomic uint64_t *tr_answers_marks(void)
{
	return tr_answers_on() ? g_shared->marks : NULL;
}

_Atomic uint32_t *tr_futex_counts(struct pf_as *as)
{
	return as->orders->futex_waiters;
}

int tr_futex_wake_direct(struct pf_thread *t, gaddr_t addr, int count)
{
	const _Atomic uint32_t *sleepers =
		(const _Atomic uint32_t *)((char *)tr_area(t->as->areas[0].slot) + TS_A_DIRECT);
	struct ts_area *a = t->area;

	if (count <= 0 || atomic_load(&sleepers[pf_futex_index(addr.a)]) == 0)
		return 0;
	a->atomic_addr = addr.a;
	a->atomic_arg = (uint32_t)count;
	a->atomic_old = 0;
	if (tr_command(t, TS_CMD_WAKE) < 0)
		return 0;
	return (int)MIN(__atomic_load_n(&a->atomic_old, __ATOMIC_RELAXED), (uint32_t)count);
}

bool tr_asleep(struct pf_thread *t)
{
	return atomic_load_explicit(&t->area->direct, memory_order_relaxed) != 0;
}

void tr_answers_thread_init(struct pf_thread *t)
{
	/* What counts the sleepers of the whole process stays. */
	memset((char *)t->area + TS_A_ANSWERS, 0, TS_A_DIRECT - TS_A_ANSWERS);
	memset((char *)t->area + TS_A_TOLD, 0, sizeof(struct ts_told));
	memset(tr_answers_actions(t), 0, offsetof(struct pf_actions, action));
	tr_reads_init(t);
	atomic_store(&t->area->direct, 0);
}

void tr_answers_told(struct pf_thread *t, struct pf_trap *trap)
{
	struct ts_told *told = (struct ts_told *)((char *)t->area + TS_A_TOLD);
	const uint32_t flags = __atomic_load_n(&told->flags, __ATOMIC_RELAXED);

	if (likely(flags == 0))
		return;
	/* Where the stub answers nothing, only a guest that plays the stub says so. */
	trap->told_reads = (flags & TS_TOLD_READS) && tr_answers_on();
	/* Whatever addresses the guest has put there: it could have made the calls. */
	trap->told_robust = flags & TS_TOLD_ROBUST;
	trap->told_tid = flags & TS_TOLD_TID;
	trap->robust_list = __atomic_load_n(&told->robust_list, __ATOMIC_RELAXED);
	trap->tid_address = __atomic_load_n(&told->tid_address, __ATOMIC_RELAXED);
	__atomic_store_n(&told->flags, 0, __ATOMIC_RELAXED);
}

bool tr_told_robust(struct pf_thread *t, uint64_t *head)
{
	const struct ts_told *told = (const struct ts_told *)((char *)t->area + TS_A_TOLD);

	*head = __atomic_load_n(&told->robust_list, __ATOMIC_RELAXED);
	return __atomic_load_n(&told->flags, __ATOMIC_RELAXED) & TS_TOLD_ROBUST;
}

void tr_answers_thread_end(struct pf_thread *t)
{
	const uint64_t *count = (const uint64_t *)((char *)t->area + TS_A_COUNTS);

	for (unsigned i = 0; i < TS_T0_COUNT; i++)
		atomic_fetch_add_explicit(&g_answered[i],
					  __atomic_load_n(&count[i], __ATOMIC_RELAXED),
					  memory_order_relaxed);
}

void tr_stats(struct pf_stats *out)
{
	static const uint16_t nr[TS_T0_COUNT] = {
#define X(name, number) number,
		TS_ANSWERED(X)
#undef X
	};

	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < TS_T0_COUNT; i++)
		out->answered[nr[i]] = atomic_load(&g_answered[i]);
}
