/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stub's ELF file, embedded in moat. STUB_ELF is its path, given by stub.mk.
 */
	.section .rodata.stub, "a", @progbits
	.balign	16
	.globl	g_stub_image
	.type	g_stub_image, @object
g_stub_image:
	.incbin	STUB_ELF
	.globl	g_stub_image_end
	.type	g_stub_image_end, @object
g_stub_image_end:
	.byte	0
	.size	g_stub_image, . - g_stub_image

	.section .note.GNU-stack, "", @progbits
