/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of all handlers, long sys_NAME(struct task *t, …), from the table.
 *
 * Every row has one, those without a handler too: so that a handler can be written before its row
 * says FULL, and so that one whose parameters differ from the row does not compile. To see them
 * written out: echo '#include "sentry/syscall_protos.h"' | gcc -I. -E -P -x c - | grep sys_
 */
#ifndef MOAT_SENTRY_SYSCALL_PROTOS_H
#define MOAT_SENTRY_SYSCALL_PROTOS_H

#include "sentry/argkinds.h"

struct task;

/* NR_read, NR_write …: the numbers by name. */
enum {
#define ROW(nr, name, ...) NR_##name = (nr),
#include "sentry/syscall_rows.h"
};

#define ROW(nr, name, has, status, ret, waits, nargs, params, ...) long sys_##name params;
#include "sentry/syscall_rows.h"

#endif
