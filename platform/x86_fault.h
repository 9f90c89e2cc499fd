/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What x86 reported with a fault, for platforms whose host does not tell.
 */
#ifndef MOAT_PLATFORM_X86_FAULT_H
#define MOAT_PLATFORM_X86_FAULT_H

#include "platform/platform.h"

#define X86_INSN_MAX 15

#define X86_FAULT_PAGE 14      /* trapno of a page fault */
#define X86_FAULT_PRESENT 1ull /* error_code: the page was there */

/* Fills trap->trapno and trap->error_code of a TRAP_FAULT from the signal, its code and address,
 * and the instruction at regs->rip, of which @size bytes are in @insn (may be 0: could not be
 * read). Whether a page that may not be used that way was present is not known here: it is said to
 * be. */
void x86_fault_explain(struct pf_trap *trap, const struct pf_regs *regs, const uint8_t *insn,
		       size_t size);

#endif
