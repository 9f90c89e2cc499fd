/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

int text_live;

struct text *text_new(const char *data, size_t size)
{
	struct text *t = memory_new(sizeof(*t) + size + 1);

	t->refs = 1;
	t->size = size;
	memcpy(t->data, data, size);
	t->data[size] = 0;
	text_live++;
	return t;
}

struct text *text_join(const struct text *a, const struct text *b)
{
	struct text *t = memory_new(sizeof(*t) + a->size + b->size + 1);

	t->refs = 1;
	t->size = a->size + b->size;
	memcpy(t->data, a->data, a->size);
	memcpy(t->data + a->size, b->data, b->size + 1);
	text_live++;
	return t;
}

void text_get(struct text *t)
{
	t->refs++;
}

void text_put(struct text *t)
{
	if (--t->refs)
		return;
	text_live--;
	free(t);
}

int text_compare(const struct text *a, const struct text *b)
{
	return strcmp(a->data, b->data);
}
