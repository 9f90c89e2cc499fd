/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPL_MACHINE_H
#define RPL_MACHINE_H
#include "stack.h"
#include "table.h"
#include <stdio.h>

struct machine {
	struct stack stack;
	struct table names;
	FILE *out;
};

int machine_run(struct machine *m, FILE *in);
void machine_clear(struct machine *m);

#endif
