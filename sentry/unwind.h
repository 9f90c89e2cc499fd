/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call stack of a guest thread: for who wants to know what died (sentry/crash.c) or what asked
 * for what it was refused (sentry/audit_denied.c).
 *
 * All that is read is the guest's word: registers, stacks, unwind tables, the headers of mapped
 * files. It decides nothing. Frames, modules and bytes read are bounded, and so is the work of
 * libunwind, so that a hostile stack takes no longer than an honest deep one.
 */
#ifndef MOAT_SENTRY_UNWIND_H
#define MOAT_SENTRY_UNWIND_H

#include "base/types.h"

struct task;
struct file;

#define UNWIND_FRAMES_MAX 48u
#define UNWIND_MODULES_MAX 16u

struct unwind_module {
	struct file *file;   /* a reference; NULL: none is mapped there */
	uint64_t start, end; /* of the mapping that was hit first */
	uint64_t offset;     /* of start, in the file */
	uint64_t base;       /* where its first page is mapped, or the like */
	char name[256];      /* a path, as the guest wrote it; cut */
};

struct unwind_frame {
	uint64_t ip;
	int module;             /* index, or -1 */
	uint64_t offset;        /* of ip from the module's base */
	const char *symbol;     /* in the stack's own text, or NULL */
	uint64_t symbol_offset; /* of ip from it */
};

struct unwind_stack {
	unsigned frame_count, module_count;
	struct unwind_frame frames[UNWIND_FRAMES_MAX];
	struct unwind_module modules[UNWIND_MODULES_MAX];
	char text[UNWIND_FRAMES_MAX * 128];
	size_t text_used;
	bool whole; /* it ended where the guest's stack does */
};

/* Loads libunwind. Before guests run and before the sentry confines itself. False: it cannot be;
 * then stacks are the program counter alone. Says so once. */
bool unwind_load(void);

/* The stack of @t, by its own fiber, with no lock held. NULL: no memory. Free with unwind_free. */
struct unwind_stack *unwind_take(struct task *t, bool symbols) MUST_USE;
void unwind_free(struct unwind_stack *s);

/* ---- sentry/symbols.c ---- */

/* Where a byte of a mapped file belongs. */
struct symbol_query {
	uint64_t file_offset; /* of the instruction */
	uint64_t symbol_offset;
	char name[128]; /* out; "": not found */
};

/* Where the section @name of the ELF file @f is mapped, *addr relative to (modulo 2^64) the byte at
 * @file_offset. */
bool symbols_section(struct file *f, const char *name, uint64_t file_offset, uint64_t *addr,
		     uint64_t *size) MUST_USE;

/* Finds the functions that hold the @count places in the ELF file @f. */
void symbols_find(struct file *f, struct symbol_query *q, unsigned count);

#endif
