/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host threads of the sentry's own.
 */
#ifndef MOAT_BASE_THREAD_H
#define MOAT_BASE_THREAD_H

#include <pthread.h>
#include "base/types.h"

/* Starts a thread that runs fn(arg). All signals but the synchronous ones are blocked in it, so
 * that the process's signals go to the thread that waits for them; it has an alternate signal
 * stack, so that a handler can report the overflow of a small stack. @name: at most 15 bytes, for
 * ps and debuggers; constant text. 0 or -errno. */
int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg, const char *name) MUST_USE;

#endif
