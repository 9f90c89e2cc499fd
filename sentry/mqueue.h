/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX message queues.
 */
#ifndef MOAT_SENTRY_MQUEUE_H
#define MOAT_SENTRY_MQUEUE_H

#include "base/types.h"

/* Makes the instance and registers the file system. Once, at start, on a fiber. 0 or -ENOMEM. */
int mqueue_start(void) MUST_USE;

#endif
