/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPL_STACK_H
#define RPL_STACK_H
#include "value.h"
#include <stddef.h>

struct stack {
	struct value *items;
	size_t count, room;
};

void stack_push(struct stack *s, struct value v);
int stack_pop(struct stack *s, struct value *v);
void stack_clear(struct stack *s);

#endif
