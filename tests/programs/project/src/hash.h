/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPL_HASH_H
#define RPL_HASH_H
#include <stddef.h>

size_t hash_string(const char *s);

#endif
