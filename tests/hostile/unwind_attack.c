/* SPDX-License-Identifier: Apache-2.0 */
/* hostile-part-of: unwinder.sh */
/*
 * unwind_attack WHICH: dies, or is refused something, in a function whose unwind information wants
 * to harm who reads it: registers that do not exist, arithmetic that traps, programs without an
 * end, states that pile up, lengths that leave the section.
 */
#include "hostile.h"

#define END "\tud2\n\tret\n\t.cfi_endproc\n"
/* A function for each: DW_CFA_* and DW_OP_* as bytes. */
__asm__(".text\n"
	"honest:\n\t.cfi_startproc\n" END
	/* DW_CFA_register: rbx is in a register whose number is an offset. */
	"reg:\n\t.cfi_startproc\n\t.cfi_escape 0x09, 3, 0xff, 0xff, 0xff, 0xff, 7\n" END
	"reg_far:\n\t.cfi_startproc\n"
	"\t.cfi_escape 0x09, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f\n" END
	/* The return address is in such a one. */
	"column:\n\t.cfi_startproc\n\t.cfi_return_column 200\n" END
	/* DW_CFA_def_cfa_expression: INT64_MIN / -1. */
	"divide:\n\t.cfi_startproc\n"
	"\t.cfi_escape 0x0f, 12, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x09, 0xff, 0x1b\n" END
	/* DW_OP_skip to itself; DW_OP_bra, too. */
	"skip:\n\t.cfi_startproc\n\t.cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff\n" END
	"branch:\n\t.cfi_startproc\n\t.cfi_escape 0x0f, 4, 0x31, 0x28, 0xfc, 0xff\n" END
	/* No rule for the frame at all. */
	"no_cfa:\n\t.cfi_startproc simple\n" END
	/* DW_OP_pick, DW_OP_drop, DW_OP_reg of what is not there; a block past the end. */
	"pick:\n\t.cfi_startproc\n\t.cfi_escape 0x0f, 2, 0x15, 0xff\n" END
	"drop:\n\t.cfi_startproc\n\t.cfi_escape 0x0f, 3, 0x13, 0x13, 0x13\n" END
	"regx:\n\t.cfi_startproc\n\t.cfi_escape 0x10, 3, 6, 0x90, 0xff, 0xff, 0xff, 0xff, 7\n" END
	"past:\n\t.cfi_startproc\n\t.cfi_escape 0x0f, 0xff, 0xff, 0xff, 0xff, 0xf, 0x30\n" END
	/* DW_CFA_remember_state, ten thousand times; pushes likewise. */
	"remember:\n\t.cfi_startproc\n\t.rept 10000\n\t.cfi_remember_state\n\t.endr\n" END
	"restore:\n\t.cfi_startproc\n\t.cfi_escape 0x0b, 0x0b\n" END
	"push:\n\t.cfi_startproc\n\t.cfi_escape 0x0f, 0xe8, 7\n\t.rept 1000\n"
	"\t.cfi_escape 0x30\n\t.endr\n" END);
/* clang-format off */
#define CASES(X) X(honest) X(reg) X(reg_far) X(column) X(divide) X(skip) X(branch) X(no_cfa) \
	X(pick) X(drop) X(regx) X(past) X(remember) X(restore) X(push)
/* clang-format on */
#define DECLARE(name) void name(void);
CASES(DECLARE)

static const struct {
	const char *name;
	void (*fn)(void);
} g_cases[] = {
#define ENTRY(name) {#name, name},
	CASES(ENTRY)};

int main(int argc, char **argv)
{
	hostile_begin();
	for (size_t i = 0; i < HOSTILE_COUNT(g_cases); i++) {
		if (argc == 2 && strcmp(argv[1], "--list") == 0)
			puts(g_cases[i].name);
		else if (argc == 2 && strcmp(argv[1], g_cases[i].name) == 0)
			g_cases[i].fn();
	}
	return 0;
}
