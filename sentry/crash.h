/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a guest died of, told to the person who runs it (moat run --verbose).
 */
#ifndef MOAT_SENTRY_CRASH_H
#define MOAT_SENTRY_CRASH_H

#include "base/types.h"

/* Set once at start; default off. Reports go to @fd. */
void crash_report_enable(int fd);

#endif
