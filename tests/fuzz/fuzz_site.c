/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: what the trap platform makes of the text around a system call instruction, before it
 * rewrites it.
 *
 *	make m=fuzz fuzz-build && build/fuzz/fuzz/fuzz_site -max_len=66 tests/fuzz/corpus/site
 *
 * The first byte says where the call stands in the text, the others are the text. Whatever is said
 * to be displaceable must be one whole instruction that does the same elsewhere, by a decoding of
 * the fuzzer's own: nothing relative to the instruction pointer, no control flow; and a "mov" that
 *is found must be those five bytes.
 */
#include <Zydis/Zydis.h>
#include <string.h>

#include "platform/trap_site.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_displaced(const struct tr_text *x, size_t len)
{
	const uint8_t *p = x->bytes + x->call + TR_SYSCALL_SIZE;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction i;
	ZydisDecoder d;

	BUG_ON(x->call + TR_SYSCALL_SIZE + len > x->size);
	(void)ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	BUG_ON(!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d, p, len, &i, ops)));
	BUG_ON(i.length != len);
	BUG_ON(len + TR_SYSCALL_SIZE < TR_PATCH_SIZE);
	for (unsigned k = 0; k < i.operand_count; k++) {
		BUG_ON(ops[k].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		       ops[k].mem.base == ZYDIS_REGISTER_RIP);
		BUG_ON(ops[k].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && ops[k].imm.is_relative);
		/* A call, a jump, a return: all write it. */
		BUG_ON(ops[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		       ops[k].reg.value == ZYDIS_REGISTER_RIP);
	}
	BUG_ON(i.mnemonic == ZYDIS_MNEMONIC_SYSCALL || i.mnemonic == ZYDIS_MNEMONIC_SYSENTER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tr_text x = {.size = 0};
	uint32_t nr = 0;
	size_t len;

	if (size < 2 + TR_SYSCALL_SIZE)
		return 0;
	x.size = MIN(size - 1, sizeof(x.bytes));
	memcpy(x.bytes, data + 1, x.size);
	x.call = data[0] % (x.size - TR_SYSCALL_SIZE + 1);
	x.bytes[x.call] = 0x0f;
	x.bytes[x.call + 1] = 0x05;
	len = tr_text_displaceable(&x);
	if (len != 0)
		check_displaced(&x, len);
	if (x.call >= 5)
		memcpy(&nr, x.bytes + x.call - 4, sizeof(nr));
	if (tr_text_has_mov(&x, nr))
		BUG_ON(x.call < 5 || x.bytes[x.call - 5] != 0xb8);
	BUG_ON(x.call >= 5 && tr_text_has_mov(&x, nr + 1));
	return 0;
}
