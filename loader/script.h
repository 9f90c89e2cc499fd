/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first line of #! scripts. Source: execve(2), "Interpreter scripts".
 */
#ifndef MOAT_LOADER_SCRIPT_H
#define MOAT_LOADER_SCRIPT_H

#include "base/types.h"

/* What is read of a file to tell what it is (Linux's BINPRM_BUF_SIZE). */
#define SCRIPT_HEAD_SIZE 256
/* Interpreters of interpreters, before -ELOOP. */
#define SCRIPT_MAX_DEPTH 5

struct script_line {
	char interp[SCRIPT_HEAD_SIZE];
	char arg[SCRIPT_HEAD_SIZE];
	bool has_arg;
};

/* @head: the first bytes of the file, zero-filled to the end. True if it is a script at all. */
bool script_is(const char head[SCRIPT_HEAD_SIZE]) MUST_USE;
/* Of a script: 0, or -ENOEXEC if the line names no interpreter or may be cut off within its name.
 */
int script_parse(const char head[SCRIPT_HEAD_SIZE], struct script_line *out) MUST_USE;

#endif
