/* SPDX-License-Identifier: Apache-2.0 */
#include "value.h"
#include "text.h"

struct value value_number(double number)
{
	return (struct value){VALUE_NUMBER, number, 0};
}

struct value value_string(struct text *text)
{
	return (struct value){VALUE_STRING, 0, text};
}

struct value value_copy(struct value v)
{
	if (v.kind == VALUE_STRING)
		text_get(v.text);
	return v;
}

void value_drop(struct value v)
{
	if (v.kind == VALUE_STRING)
		text_put(v.text);
}

int value_compare(struct value a, struct value b)
{
	if (a.kind != b.kind)
		return a.kind < b.kind ? -1 : 1;
	if (a.kind == VALUE_STRING)
		return text_compare(a.text, b.text);
	return (a.number > b.number) - (a.number < b.number);
}
