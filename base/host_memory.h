/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory the host has left.
 */
#ifndef MOAT_BASE_HOST_MEMORY_H
#define MOAT_BASE_HOST_MEMORY_H

#include "base/types.h"

/* Bytes that the host has free now. */
uint64_t host_memory_free(void);

#endif
