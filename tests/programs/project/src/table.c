/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"
#include "hash.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

static struct table_entry *slot(const struct table *t, const char *name)
{
	size_t i = hash_string(name) & (t->room - 1);

	while (t->slots[i].name && strcmp(t->slots[i].name, name))
		i = (i + 1) & (t->room - 1);
	return &t->slots[i];
}

static void grow(struct table *t)
{
	struct table bigger = {.room = t->room ? 2 * t->room : 16, .count = t->count};

	bigger.slots = memory_new(bigger.room * sizeof(*bigger.slots));
	for (size_t i = 0; i < t->room; i++)
		if (t->slots[i].name)
			*slot(&bigger, t->slots[i].name) = t->slots[i];
	free(t->slots);
	*t = bigger;
}

void table_set(struct table *t, const char *name, struct value v)
{
	struct table_entry *e;

	if (2 * t->count >= t->room)
		grow(t);
	e = slot(t, name);
	if (e->name) {
		value_drop(e->value);
	} else {
		e->name = memory_new(strlen(name) + 1);
		strcpy(e->name, name);
		t->count++;
	}
	e->value = v;
}

int table_find(const struct table *t, const char *name, struct value *v)
{
	const struct table_entry *e;

	if (!t->room)
		return -1;
	e = slot(t, name);
	if (!e->name)
		return -1;
	*v = value_copy(e->value);
	return 0;
}

void table_clear(struct table *t)
{
	for (size_t i = 0; i < t->room; i++) {
		if (!t->slots[i].name)
			continue;
		free(t->slots[i].name);
		value_drop(t->slots[i].value);
	}
	free(t->slots);
	*t = (struct table){0};
}
