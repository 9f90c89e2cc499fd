/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPL_PRINT_H
#define RPL_PRINT_H
#include "value.h"
#include <stdio.h>

void print_value(FILE *f, struct value v);

#endif
