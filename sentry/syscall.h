/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The syscall table: dispatch and what is generated from sentry/syscalls.def.
 *
 * A row says all there is to know of one syscall; docs/ADD_SYSCALL.md explains how to add one. A
 * handler has the prototype that its row yields: long sys_NAME(struct task *t, …), with the C type
 * of each argument's kind. It returns a value >= 0 or a negative errno; blocking ones may return
 * -ERESTARTSYS and friends.
 */
#ifndef MOAT_SENTRY_SYSCALL_H
#define MOAT_SENTRY_SYSCALL_H

#include "sentry/mm.h"
#include "sentry/task.h"

#define SYSCALL_MAX 512

/* C types of the argument kinds: sentry/argkinds.h. Prototypes of all handlers: */
#include "sentry/syscall_protos.h"

/* Serves the syscall in t->regs: reads number and arguments, counts, traces, calls the handler, and
 * returns its value (the restart codes included). */
long syscall_dispatch(struct task *t);

/* Tells the platform how arguments travel (g_pf_marshal). Before it starts. */
void syscall_marshal_init(void);

/* Tracing (moat run --strace): set at start. */
void syscall_trace_open(int fd);
/* Why a line could not be written whole, the first time: an errno; 0: all are. */
int syscall_trace_error(void);

struct syscall_stats {
	uint64_t calls, errors, nosys;
};
/* Of all that were made so far; of numbers out of range together with SYSCALL_MAX. */
void syscall_stats(unsigned nr, struct syscall_stats *sum);
const char *syscall_name(unsigned nr); /* NULL for numbers without a row */

#endif
