/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit's file, which the monitor holds and the sentry does not.
 */
#ifndef MOAT_RUNTIME_AUDIT_LOG_H
#define MOAT_RUNTIME_AUDIT_LOG_H

#include "base/err.h"
#include "base/types.h"

/* Could the program write to the file @path, which need not be there? */
bool audit_log_is_guests(const char *path);
/* Makes the file at @path and a pipe; *fd: the end for the sentry, which closes on exec. */
int audit_log_open(const char *path, int *fd, struct err *e) MUST_USE;
/* In the sentry: it keeps only its end of the pipe. */
void audit_log_forget(void);
/* What the monitor needs for it. */
struct monitor_lock;
void audit_log_lock(struct monitor_lock *l);
/* In the monitor, once the sentry is there: begins to write down what comes from it. */
int audit_log_start(struct err *e) MUST_USE;
/* When the sentry and whatever it started are dead: takes what is left in the pipe and ends the log
 * with the sentry's wait status @status and moat's exit status @result. */
void audit_log_end(int status, int result);

#endif
