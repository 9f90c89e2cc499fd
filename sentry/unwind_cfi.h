/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind information of a guest's, made harmless before libunwind sees it.
 *
 * libunwind believes what .eh_frame says: numbers of registers are indices into its arrays, a
 * division may trap, a loop has no end, a frame without a rule is an assertion. And other threads
 * of the guest can change what was looked at before it is used. So libunwind never reads a guest's
 * .eh_frame: an entry is read once, gone through against a list of what is known and harmless, and
 * written anew into memory of ours, in the plainest form.
 */
#ifndef MOAT_SENTRY_UNWIND_CFI_H
#define MOAT_SENTRY_UNWIND_CFI_H

#include "base/types.h"

/* Of one program, in bytes: Python's and node's largest functions have some hundred. */
#define CFI_PROGRAM_MAX 16384u
#define CFI_HEAD_MAX 64u
/* Remembered states: compilers nest none. */
#define CFI_REMEMBER_MAX 64u

struct cfi_source {
	bool (*read)(void *ctx, void *buf, uint64_t addr, size_t size);
	void *ctx;
};

/* A CIE and one FDE of it. Offsets are from the beginning of bytes. */
struct cfi_own {
	uint32_t fde, size;
	/* libunwind reads whole words. */
	uint8_t bytes[2 * (CFI_PROGRAM_MAX + CFI_HEAD_MAX) + 16] __attribute__((aligned(8)));
};

/* How the FDEs of the CIE at @addr encode addresses (DW_EH_PE_*); 0xff: it cannot be told. */
uint8_t cfi_encoding(const struct cfi_source *src, uint64_t addr);

/* Takes the FDE at @addr, which must hold @ip, and its CIE. False: it cannot be read, or holds what
 * is not known to be harmless; *own is then undefined. */
bool cfi_take(const struct cfi_source *src, uint64_t addr, uint64_t ip,
	      struct cfi_own *own) MUST_USE;

#endif
