/* SPDX-License-Identifier: Apache-2.0 */
#include "stack.h"
#include "memory.h"
#include <stdlib.h>

void stack_push(struct stack *s, struct value v)
{
	if (s->count == s->room) {
		s->room = s->room ? 2 * s->room : 8;
		s->items = memory_grow(s->items, s->room * sizeof(v));
	}
	s->items[s->count++] = v;
}

int stack_pop(struct stack *s, struct value *v)
{
	if (!s->count)
		return -1;
	*v = s->items[--s->count];
	return 0;
}

void stack_clear(struct stack *s)
{
	while (s->count)
		value_drop(s->items[--s->count]);
	free(s->items);
	*s = (struct stack){0};
}
