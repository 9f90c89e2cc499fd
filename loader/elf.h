/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader: from the bytes of a program to a plan of its memory. Pure computation: it reads
 *through a function that the caller gives, maps nothing, and knows no tasks. sentry/exec.c carries
 *the plan out.
 *
 *	elf.h	    ELF files
 *	script.h    the first line of #! scripts
 *	stack.h	    the initial stack: arguments, environment, auxiliary vector
 *	layout.h    where things go: address space layout randomisation
 *	vdso.h	    the vDSO image
 *
 * All input is hostile. A number from a file is checked before it is used in a sum, and each sum
 *against overflow; what Linux would kill a process for after it gave up the old program, is
 *-ENOEXEC here.
 */
#ifndef MOAT_LOADER_ELF_H
#define MOAT_LOADER_ELF_H

#include "base/types.h"

/* Where an ELF file's bytes come from. Returns bytes read (short at the end of the file) or -errno.
 */
struct elf_source {
	ssize_t (*read)(void *ctx, void *buf, size_t size, uint64_t offset);
	void *ctx;
};

/* One PT_LOAD, in whole pages. First come file pages, then pages of zeros; of the last file page
 * the bytes behind the file's part are cleared. All addresses are the file's: add the bias. */
struct elf_segment {
	uint64_t addr, file_size; /* file_size 0: no file pages */
	uint64_t file_offset;
	uint64_t anon_addr, anon_size; /* anon_size 0: none */
	uint64_t zero_addr, zero_size; /* bytes to clear at the end of the file pages; 0: none */
	uint32_t prot;                 /* LX_PROT_* */
};

struct elf_image {
	bool dyn; /* ET_DYN: may be moved as a whole */
	uint64_t entry;
	uint64_t phdr; /* address of the program headers in memory; 0: they are not there */
	uint16_t phnum;
	uint64_t low, high; /* all segments, in whole pages */
	uint64_t align;     /* of a bias: a power of two, at least a page */
	uint64_t start_code, end_code, start_data, end_data, brk;
	bool exec_stack;
	uint64_t interp_offset; /* PT_INTERP: the path with its NUL; size 0: none */
	uint64_t interp_size;
	struct elf_segment *segments; /* ascending, disjoint */
	unsigned segment_count;
};

#define ELF_PHENT_SIZE 56

/* Checks everything and makes the plan. 0, -ENOEXEC, -ENOMEM, or the error of read. On success
 * elf_image_free must follow. @limit: the end of usable addresses, @min the lowest. */
int elf_parse(const struct elf_source *src, uint64_t min, uint64_t limit,
	      struct elf_image *out) MUST_USE;
/* The interpreter's path into @buf (LX_PATH_MAX). 0, -ENOEXEC, -EIO or the error of read. */
int elf_read_interp(const struct elf_source *src, const struct elf_image *img, char *buf) MUST_USE;
void elf_image_free(struct elf_image *img);

#endif
