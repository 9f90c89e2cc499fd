/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What x86 reported with a fault, for platforms whose host does not tell. See platform/x86_fault.h.
 *
 * Theory of operation: a signal frame carries the processor's trap number and error code; garbage
 * collectors, emulators and debuggers look at its write bit. The host gives a tracer the signal
 * only, from which most of it follows. Whether a page fault was a write is read off the instruction
 * (Zydis). The guest may have changed that meanwhile; then it has fooled itself.
 *
 * Deviations from Linux: the "page is present" bit says whether the mapping forbids the access,
 * which differs from the truth for pages of such a mapping that were never there.
 */
#include <Zydis/Zydis.h>
#include <signal.h>
#include <string.h>
#include "platform/x86_fault.h"

enum trap_number {
	X86_DE = 0,
	X86_DB = 1,
	X86_BP = 3,
	X86_OF = 4,
	X86_BR = 5,
	X86_UD = 6,
	X86_GP = 13,
	X86_PF = 14,
	X86_MF = 16,
	X86_AC = 17,
	X86_XM = 19,
};

enum { PF_PRESENT = 1, PF_WRITE = 2, PF_USER = 4, PF_FETCH = 16 };

static bool decode(const uint8_t *insn, size_t size, ZydisDecodedInstruction *out,
		   ZydisDecodedOperand *ops)
{
	ZydisDecoder d;

	return ZYAN_SUCCESS(
		       ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d, insn, size, out, ops));
}

static void register_context(const struct pf_regs *r, ZydisRegisterContext *c)
{
	const struct {
		ZydisRegister reg;
		uint64_t value;
	} regs[] = {
		{ZYDIS_REGISTER_RAX, r->rax}, {ZYDIS_REGISTER_RBX, r->rbx},
		{ZYDIS_REGISTER_RCX, r->rcx}, {ZYDIS_REGISTER_RDX, r->rdx},
		{ZYDIS_REGISTER_RSI, r->rsi}, {ZYDIS_REGISTER_RDI, r->rdi},
		{ZYDIS_REGISTER_RBP, r->rbp}, {ZYDIS_REGISTER_RSP, r->rsp},
		{ZYDIS_REGISTER_R8, r->r8},   {ZYDIS_REGISTER_R9, r->r9},
		{ZYDIS_REGISTER_R10, r->r10}, {ZYDIS_REGISTER_R11, r->r11},
		{ZYDIS_REGISTER_R12, r->r12}, {ZYDIS_REGISTER_R13, r->r13},
		{ZYDIS_REGISTER_R14, r->r14}, {ZYDIS_REGISTER_R15, r->r15},
		{ZYDIS_REGISTER_RIP, r->rip},
	};

	memset(c, 0, sizeof(*c));
	for (size_t i = 0; i < ARRAY_SIZE(regs); i++)
		c->values[regs[i].reg] = regs[i].value;
}

/* The address of a memory operand. False: not known (vector addressing). */
static bool operand_address(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *op,
			    const struct pf_regs *regs, uint64_t *addr)
{
	ZydisRegisterContext c;
	ZyanU64 a;

	register_context(regs, &c);
	if (!ZYAN_SUCCESS(ZydisCalcAbsoluteAddressEx(insn, op, regs->rip, &c, &a)))
		return false;
	if (op->mem.segment == ZYDIS_REGISTER_FS)
		a += regs->fs_base;
	else if (op->mem.segment == ZYDIS_REGISTER_GS)
		a += regs->gs_base;
	*addr = a;
	return true;
}

/* Does the instruction write where the fault was? */
static bool is_write(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *ops,
		     uint64_t fault, const struct pf_regs *regs)
{
	bool some_write = false, some_read = false;

	for (unsigned i = 0; i < insn->operand_count; i++) {
		const ZydisDecodedOperand *op = &ops[i];
		const bool writes = (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
		const uint64_t size = op->size / 8 ? op->size / 8 : 1;
		uint64_t addr;

		if (op->type != ZYDIS_OPERAND_TYPE_MEMORY || op->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
			continue;
		if (writes)
			some_write = true;
		else
			some_read = true;
		/* The stack pointer of a push moves before the store. */
		if (operand_address(insn, op, regs, &addr) && fault - addr < size)
			return writes;
	}
	return some_write && !some_read;
}

static void explain_page_fault(struct pf_trap *trap, const struct pf_regs *regs,
			       const uint8_t *bytes, size_t size)
{
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];

	trap->trapno = X86_PF;
	trap->error_code = PF_USER;
	/* For the kernel's half Linux always says "present", so as not to tell. */
	if ((trap->signo == SIGSEGV && trap->code == SEGV_ACCERR) || trap->addr >= 1ull << 47)
		trap->error_code |= PF_PRESENT;
	/* An instruction that cannot be read whole is what was being fetched; and rather that than
	 * one that writes over itself. */
	if (trap->addr == regs->rip ||
	    (trap->addr - regs->rip < X86_INSN_MAX && trap->addr - regs->rip >= size))
		trap->error_code |= PF_FETCH;
	else if (decode(bytes, size, &insn, ops) && is_write(&insn, ops, trap->addr, regs))
		trap->error_code |= PF_WRITE;
}

static uint64_t fpe_trapno(int code, const uint8_t *bytes, size_t size)
{
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];

	if (code == FPE_INTDIV)
		return X86_DE;
	return decode(bytes, size, &insn, ops) && insn.meta.isa_set != ZYDIS_ISA_SET_X87 ? X86_XM
											 : X86_MF;
}

/* An interrupt instruction whose gate user mode may not use: the error code is its selector. */
static uint64_t gp_error(const uint8_t *bytes, size_t size)
{
	return size >= 2 && bytes[0] == 0xcd ? (uint64_t)bytes[1] << 3 | 2 : 0;
}

void x86_fault_explain(struct pf_trap *trap, const struct pf_regs *regs, const uint8_t *insn,
		       size_t size)
{
	trap->trapno = 0;
	trap->error_code = 0;
	switch (trap->signo) {
	case SIGSEGV:
		if (trap->code == SI_KERNEL) {
			trap->trapno = X86_GP;
			trap->error_code = gp_error(insn, size);
		} else {
			explain_page_fault(trap, regs, insn, size);
		}
		break;
	case SIGBUS:
		if (trap->code == BUS_ADRALN)
			trap->trapno = X86_AC;
		else if (trap->code == SI_KERNEL)
			trap->trapno = 12; /* #SS, a non-canonical stack address */
		else
			explain_page_fault(trap, regs, insn, size);
		break;
	case SIGILL:
		trap->trapno = X86_UD;
		break;
	case SIGFPE:
		trap->trapno = fpe_trapno(trap->code, insn, size);
		break;
	case SIGTRAP:
		trap->trapno = trap->code == SI_KERNEL ? X86_BP : X86_DB;
		break;
	default:
		break;
	}
}
