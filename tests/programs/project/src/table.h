/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPL_TABLE_H
#define RPL_TABLE_H
#include "value.h"
#include <stddef.h>

struct table_entry {
	char *name;
	struct value value;
};

struct table {
	struct table_entry *slots;
	size_t count, room;
};

void table_set(struct table *t, const char *name, struct value v);
int table_find(const struct table *t, const char *name, struct value *v);
void table_clear(struct table *t);

#endif
