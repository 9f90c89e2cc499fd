/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"
#include "print.h"
#include "text.h"
#include <math.h>
#include <string.h>

static int two(struct machine *m, double *a, double *b)
{
	struct value x, y;

	if (stack_pop(&m->stack, &y))
		return -1;
	if (stack_pop(&m->stack, &x)) {
		value_drop(y);
		return -1;
	}
	*a = x.number;
	*b = y.number;
	value_drop(x);
	value_drop(y);
	return 0;
}

#define BINARY(name, expression)                                                                   \
	static int name(struct machine *m)                                                         \
	{                                                                                          \
		double a, b;                                                                       \
		if (two(m, &a, &b))                                                                \
			return -1;                                                                 \
		stack_push(&m->stack, value_number(expression));                                   \
		return 0;                                                                          \
	}
BINARY(word_add, a + b)
BINARY(word_sub, a - b)
BINARY(word_mul, a *b)
BINARY(word_div, a / b)
BINARY(word_mod, fmod(a, b))
BINARY(word_pow, pow(a, b))
BINARY(word_less, a < b)

static int word_dup(struct machine *m)
{
	if (!m->stack.count)
		return -1;
	stack_push(&m->stack, value_copy(m->stack.items[m->stack.count - 1]));
	return 0;
}

static int word_swap(struct machine *m)
{
	size_t n = m->stack.count;
	struct value v;

	if (n < 2)
		return -1;
	v = m->stack.items[n - 1];
	m->stack.items[n - 1] = m->stack.items[n - 2];
	m->stack.items[n - 2] = v;
	return 0;
}

static int word_drop(struct machine *m)
{
	struct value v;

	if (stack_pop(&m->stack, &v))
		return -1;
	value_drop(v);
	return 0;
}

static int word_print(struct machine *m)
{
	struct value v;

	if (stack_pop(&m->stack, &v))
		return -1;
	print_value(m->out, v);
	value_drop(v);
	return 0;
}

static int word_join(struct machine *m)
{
	struct value a, b;

	if (m->stack.count < 2)
		return -1;
	stack_pop(&m->stack, &b);
	stack_pop(&m->stack, &a);
	if (a.kind == VALUE_STRING && b.kind == VALUE_STRING)
		stack_push(&m->stack, value_string(text_join(a.text, b.text)));
	else
		stack_push(&m->stack, value_number(0));
	value_drop(a);
	value_drop(b);
	return 0;
}

static const struct {
	const char *name;
	word_fn *fn;
} words[] = {
	{"+", word_add}, {"-", word_sub},   {"*", word_mul},     {"/", word_div},
	{"%", word_mod}, {"^", word_pow},   {"<", word_less},    {"dup", word_dup},
	{"swap", word_swap}, {"drop", word_drop}, {"print", word_print}, {"join", word_join},
};

word_fn *words_find(const char *name)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i].name, name))
			return words[i].fn;
	return 0;
}
