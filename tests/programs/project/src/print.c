/* SPDX-License-Identifier: Apache-2.0 */
#include "print.h"
#include "text.h"

void print_value(FILE *f, struct value v)
{
	if (v.kind == VALUE_STRING)
		fprintf(f, "%s\n", v.text->data);
	else
		fprintf(f, "%.10g\n", v.number);
}
