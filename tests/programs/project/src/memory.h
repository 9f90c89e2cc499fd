/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPL_MEMORY_H
#define RPL_MEMORY_H
#include <stddef.h>

/* Zeroed memory, or the end of the program. */
void *memory_new(size_t size);
void *memory_grow(void *p, size_t size);

#endif
