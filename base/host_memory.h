/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory the host has left.
 */
#ifndef MOAT_BASE_HOST_MEMORY_H
#define MOAT_BASE_HOST_MEMORY_H

#include "base/types.h"

/* Once, while the host's /proc is there. */
void host_memory_open(void);
/* Bytes that the host has free now; 0 if nobody can say. */
uint64_t host_memory_free(void);

#endif
