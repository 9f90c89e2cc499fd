/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp programs of the stub processes.
 */
#ifndef MOAT_PLATFORM_STUB_FILTER_H
#define MOAT_PLATFORM_STUB_FILTER_H

#include "base/err.h"
#include "platform/stub/layout.h"

/* Fills @config with both programs. 0 or -errno with the reason in @e. */
int stub_filter_build(struct stub_config *config, struct err *e) MUST_USE;

#endif
