/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The syscall table and the dispatch.
 *
 * Theory of operation: the table (sentry/syscalls.def) is expanded here into one trampoline per
 * handler, which takes the six argument registers and calls the handler with the C types of its
 * row, into g_fns, which leads to them, and into g_syscalls, which holds all else that is known of
 * a number. Dispatch is an index, a count and a call; a traced sandbox takes the slower way through
 * sentry/syscall_trace.c.
 *
 * Deviations from Linux: x32 numbers (bit 30) and numbers without a row answer ENOSYS; a row that
 * the design refuses answers the errno that an unprivileged caller of Linux would see, and looks at
 * no argument.
 */
#include <errno.h>
#include "sentry/call_profile.h"
#include "sentry/summary.h"
#include "sentry/syscall_table.h"
#include "sentry/takeover.h"

/* The value of register @i as the parameter's type. x86-64 is little-endian and passes a narrower
 * parameter in the low bytes, with whatever above. */
#define ARG(type, i) (*(const type *)(const void *)&r[i])

#define TRAMPOLINE_0(name, passed)
#define TRAMPOLINE_1(name, passed)                                        \
	static long call_##name(struct task *t, const uint64_t *r UNUSED) \
	{                                                                 \
		return sys_##name passed;                                 \
	}
#define TRAMPOLINE(has, name, passed) TRAMPOLINE_##has(name, passed)
#define ROW(nr, name, has, status, ret, waits, nargs, params, descs, passed, note) \
	TRAMPOLINE(has, name, passed)
#include "sentry/syscall_rows.h"

#define FN_0(name) NULL
#define FN_1(name) call_##name
#define FN(has, name) FN_##has(name)
#define UNWRAP(...) __VA_ARGS__

/* NULL: not FULL or PARTIAL. */
static long (*const g_fns[SYSCALL_MAX])(struct task *t, const uint64_t *regs) = {
#define ROW(nr, name, has, status, ret, waits, nargs, params, descs, passed, note) \
	[nr] = FN(has, name),
#include "sentry/syscall_rows.h"
};

struct notes {
#define ROW(nr, name, has, status, ret, waits, nargs, params, descs, passed, note) \
	char of_##nr[sizeof(note)];
#include "sentry/syscall_rows.h"
};
static const struct notes g_notes = {
#define ROW(nr, name, has, status, ret, waits, nargs, params, descs, passed, note) .of_##nr = note,
#include "sentry/syscall_rows.h"
};

const struct syscall_row g_syscalls[SYSCALL_MAX] = {
#define ROW(nr_, name_, has, status_, ret_, waits_, nargs_, params, descs, passed, note_) \
	[nr_] = {.name = #name_,                                                          \
		 .result = {UNWRAP status_},                                              \
		 .ret = ret_,                                                             \
		 .waits = waits_,                                                         \
		 .nargs = nargs_,                                                         \
		 .note = offsetof(struct notes, of_##nr_),                                \
		 .args = UNWRAP descs},
#include "sentry/syscall_rows.h"
};

/* The numbers are those of the host's header, as far as it knows them. */
#define HOST_NR(name, nr) _Static_assert(NR_##name == (nr), "number of " #name);
#include "sentry/host_nr.h"

/* Each worker counts for itself: one line that all write would cost more than a counter is worth.
 * The last: numbers out of range. */
static struct counters {
	_Atomic uint64_t calls, errors, nosys;
} g_counters[WORKERS_MAX][SYSCALL_MAX + 1];

static void count(_Atomic uint64_t *n)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

void syscall_stats(unsigned nr, struct syscall_stats *sum)
{
	*sum = (struct syscall_stats){0};
	for (unsigned i = 0; i < WORKERS_MAX; i++) {
		const struct counters *c = &g_counters[i][MIN(nr, (unsigned)SYSCALL_MAX)];

		sum->calls += atomic_load_explicit(&c->calls, memory_order_relaxed);
		sum->errors += atomic_load_explicit(&c->errors, memory_order_relaxed);
		sum->nosys += atomic_load_explicit(&c->nosys, memory_order_relaxed);
	}
}

const char *syscall_name(unsigned nr)
{
	const struct syscall_row *row = syscall_row(nr);

	return row ? row->name : NULL;
}

const char *syscall_note(const struct syscall_row *row)
{
	return (const char *)&g_notes + row->note;
}

/* A call that slept may go on on another worker. */
static struct counters *this_workers(unsigned nr)
{
	return &g_counters[worker_index(worker_self())][MIN(nr, (unsigned)SYSCALL_MAX)];
}

long syscall_dispatch(struct task *t)
{
	/* Linux looks at the low half of rax only. An x32 number has bit 30 set, so it is out of
	 * range. */
	unsigned nr = (uint32_t)t->regs.orig_rax;
	const struct syscall_row *row = syscall_row(nr);
	struct trace_call *trace = NULL;
	uint64_t r[6];
	long ret;

	syscall_args(t, r);
	count(&this_workers(nr)->calls);
	if (unlikely(g_syscall_trace))
		trace = syscall_trace_enter(t, row, nr, r);
	if (row && g_fns[nr]) {
		if (unlikely(g_call_profile))
			call_profile_begin(t);
		ret = g_fns[nr](t, r);
		if (unlikely(g_call_profile))
			call_profile_done(t);
	} else if (!takeover(t, nr, r[0], &ret)) {
		ret = row && row->result.status == SYS_REFUSED ? -row->result.errnum : -ENOSYS;
		if (ret == -ENOSYS)
			summary_not_served(nr);
		count(&this_workers(nr)->nosys);
	}
	if (ret < 0 && ret >= -4095)
		count(&this_workers(nr)->errors);
	if (unlikely(trace != NULL))
		syscall_trace_exit(t, trace, ret);
	return ret;
}
