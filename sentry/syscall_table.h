/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The expanded syscall table, for those that read rows: dispatch, the decoder, the platforms'
 * marshalling, the generators and tests. Handlers need only sentry/syscall.h.
 *
 * A platform that carries arguments with the request walks row->args: dir says whether to copy
 * before or after the call, bytes and link say how much (enum arg_size), and DIR_VALUE arguments
 * travel as they are. SZ_NONE and SZ_DEEP are left to copy_in and copy_out.
 */
#ifndef MOAT_SENTRY_SYSCALL_TABLE_H
#define MOAT_SENTRY_SYSCALL_TABLE_H

#include "sentry/syscall.h"

/* No pointers: the dynamic loader would have to write to each page of the table, at every start. */
struct syscall_row {
	char name[24]; /* empty: no such number */
	struct {
		uint8_t status; /* enum sys_status */
		int16_t errnum; /* of SYS_REFUSED */
	} result;
	uint8_t ret;   /* enum ret_kind */
	uint8_t waits; /* enum wait_kind */
	uint8_t nargs;
	uint16_t note; /* syscall_note() */
	struct argdesc args[6];
};
extern const struct syscall_row g_syscalls[SYSCALL_MAX];

/* The row of number @nr; NULL: there is none. */
static inline const struct syscall_row *syscall_row(unsigned nr)
{
	return nr < SYSCALL_MAX && g_syscalls[nr].name[0] ? &g_syscalls[nr] : NULL;
}
/* Is there a handler for it? */
static inline bool syscall_served(const struct syscall_row *row)
{
	return row->result.status == SYS_FULL || row->result.status == SYS_PARTIAL;
}
const char *syscall_note(const struct syscall_row *row);

static inline void syscall_args(const struct task *t, uint64_t r[6])
{
	r[0] = t->regs.rdi;
	r[1] = t->regs.rsi;
	r[2] = t->regs.rdx;
	r[3] = t->regs.r10;
	r[4] = t->regs.r8;
	r[5] = t->regs.r9;
}

/* ---- names (sentry/syscall_names.c) ---- */

struct name_value {
	const char *name;
	uint64_t value, mask; /* shown if (x & mask) == value; mask 0: value itself */
};
/* A set that ends with name == NULL; never NULL itself. */
const struct name_value *flagset_names(enum arg_flagset set);
const struct name_value *enum_names(enum arg_enum set);
/* The name of @value in a set of names, or NULL. */
const char *enum_name(enum arg_enum set, uint64_t value);
/* "ENOENT"; NULL if unknown. */
const char *errno_name(int errnum);

/* ---- the decoder (sentry/syscall_trace.c) ---- */

struct trace_call;
/* Is tracing on? Set once at start. */
extern bool g_syscall_trace;
/* Renders what goes in. NULL: no memory, nothing will be shown. @row NULL: an unknown number @nr.
 */
struct trace_call *syscall_trace_enter(struct task *t, const struct syscall_row *row, unsigned nr,
				       const uint64_t r[6]);
/* The call in t->regs, which has just returned @ret, as text. */
void syscall_describe(struct task *t, const struct syscall_row *row, const uint64_t r[6], long ret,
		      char *buf, size_t size);
/* Renders what came out, writes the line, frees @tc (may be NULL). */
void syscall_trace_exit(struct task *t, struct trace_call *tc, long ret);

#endif
