/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The initial stack of a program, as bytes. Source: the System V ABI for x86-64, 3.4.1;
 * getauxval(3).
 */
#ifndef MOAT_LOADER_STACK_H
#define MOAT_LOADER_STACK_H

#include "base/types.h"

#define LX_AT_NULL 0
#define LX_AT_EXECFD 2
#define LX_AT_PHDR 3
#define LX_AT_PHENT 4
#define LX_AT_PHNUM 5
#define LX_AT_PAGESZ 6
#define LX_AT_BASE 7
#define LX_AT_FLAGS 8
#define LX_AT_ENTRY 9
#define LX_AT_UID 11
#define LX_AT_EUID 12
#define LX_AT_GID 13
#define LX_AT_EGID 14
#define LX_AT_PLATFORM 15
#define LX_AT_HWCAP 16
#define LX_AT_CLKTCK 17
#define LX_AT_SECURE 23
#define LX_AT_RANDOM 25
#define LX_AT_HWCAP2 26
#define LX_AT_EXECFN 31
#define LX_AT_SYSINFO_EHDR 33
#define LX_AT_MINSIGSTKSZ 51

/* One argument or variable, its NUL included. */
#define STACK_MAX_STRING ((uint64_t)131072)

#define STACK_AUX_MAX 32

struct stack_spec {
	const char *const *argv, *const *envp;
	unsigned argc, envc;
	const char *execfn;
	uint64_t top;   /* the end of the stack's mapping, page-aligned */
	uint64_t shift; /* bytes to leave between the strings and the rest (randomisation) */
	uint8_t random[16];
	/* Entries but for those that the stack itself gives: RANDOM, EXECFN, PLATFORM, NULL. */
	struct {
		uint64_t type, value;
	} aux[STACK_AUX_MAX];
	unsigned aux_count;
};

struct stack_image {
	uint8_t *bytes;    /* what lies in [sp, top); mem_free */
	uint64_t size, sp; /* sp is 16-byte aligned */
	uint64_t arg_start, arg_end, env_start, env_end;
	uint64_t auxv[2 * (STACK_AUX_MAX + 4)];
	unsigned auxv_count; /* 64-bit words, the final AT_NULL included */
};

void stack_add_aux(struct stack_spec *s, uint64_t type, uint64_t value);
/* execve's limits: -E2BIG if strings and pointers together are more than a quarter of RLIMIT_STACK
 * (at most 6 MiB, at least 128 KiB). @bytes: of all strings with their NULs. */
int stack_check_size(uint64_t argc, uint64_t envc, uint64_t bytes, uint64_t stack_rlimit) MUST_USE;
/* 0 or -ENOMEM. */
int stack_build(const struct stack_spec *s, struct stack_image *out) MUST_USE;

#endif
