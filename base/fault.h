/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies out of memory that may vanish meanwhile: a mapping of a file that someone else truncates.
 */
#ifndef MOAT_BASE_FAULT_H
#define MOAT_BASE_FAULT_H

#include "base/types.h"

/* Installs the handler of SIGBUS, once. Without it fault_copy dies where it should return. */
void fault_init(void);

/* Copies @size bytes; returns how many at the end of them were not copied because @src, or @dst,
 * raised SIGBUS: 0 if all is well. Any thread, any stack. */
size_t fault_copy(void *dst, const void *src, size_t size);

#endif
