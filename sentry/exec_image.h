/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sentry/exec*.c share: a program on its way into a fresh address space.
 */
#ifndef MOAT_SENTRY_EXEC_IMAGE_H
#define MOAT_SENTRY_EXEC_IMAGE_H

#include "loader/elf.h"
#include "sentry/mm_ops.h"

struct exec_program {
	struct file *file; /* a reference, with write access denied */
	struct elf_image img;
	uint64_t bias;
};

struct exec_image {
	struct exec_program prog, ld; /* ld.file NULL: no interpreter */
	const char *execfn;           /* borrowed */
	const char *const *argv, *const *envp;
	unsigned argc, envc;
	const struct cred *cred; /* of the new program; borrowed */
	bool secure;
	uint32_t personality;
	/* The result, until exec.c takes it over. */
	struct mm *mm;
	struct pf_thread *pt;
	uint64_t entry, sp;
};

/* Opens and denies writing: -ETXTBSY. */
int exec_program_open(struct task *t, const char *name, struct exec_program *p) MUST_USE;
/* Takes its own reference to @f. */
int exec_program_use(struct file *f, struct exec_program *p) MUST_USE;
void exec_program_close(struct exec_program *p);

/* Reads the headers of x->prog (an ELF file) and opens and reads its interpreter. */
int exec_image_read(struct task *t, struct exec_image *x, struct err *e) MUST_USE;
/* Makes the address space: maps all, writes the stack. May move the fiber to another worker. */
int exec_image_map(struct task *t, struct exec_image *x) MUST_USE;
void exec_image_discard(struct exec_image *x);

/* sentry/exec_cred.c. The credentials after executing @f: *out is a reference. @secure: AT_SECURE;
 * @clear_personality: bits that a gain of privilege takes away. */
int exec_cred(struct task *t, struct file *f, struct cred **out, bool *secure,
	      uint32_t *clear_personality) MUST_USE;

#endif
