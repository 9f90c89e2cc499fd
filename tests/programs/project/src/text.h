/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPL_TEXT_H
#define RPL_TEXT_H
#include <stddef.h>

struct text {
	unsigned refs;
	size_t size;
	char data[];
};

struct text *text_new(const char *data, size_t size);
struct text *text_join(const struct text *a, const struct text *b);
void text_get(struct text *t);
void text_put(struct text *t);
int text_compare(const struct text *a, const struct text *b);
extern int text_live;

#endif
