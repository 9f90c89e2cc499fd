/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPL_WORDS_H
#define RPL_WORDS_H
#include "machine.h"

typedef int word_fn(struct machine *m);

/* The built-in word of that name, or a null pointer. */
word_fn *words_find(const char *name);

#endif
