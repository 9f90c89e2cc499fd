/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPL_VALUE_H
#define RPL_VALUE_H

/* A value is a number or a counted string. */
enum value_kind { VALUE_NUMBER, VALUE_STRING };

struct value {
	enum value_kind kind;
	double number;
	struct text *text;
};

struct value value_number(double number);
struct value value_string(struct text *text);
struct value value_copy(struct value v);
void value_drop(struct value v);
int value_compare(struct value a, struct value b);

#endif
