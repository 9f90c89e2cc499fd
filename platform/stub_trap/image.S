/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trap stub's ELF file, embedded in moat. TSTUB_ELF is its path, given by stub_trap.mk.
 */
	.section .rodata.stub, "a", @progbits
	.balign	16
	.globl	g_trap_stub_image
	.type	g_trap_stub_image, @object
g_trap_stub_image:
	.incbin	TSTUB_ELF
	.globl	g_trap_stub_image_end
	.type	g_trap_stub_image_end, @object
g_trap_stub_image_end:
	.byte	0
	.size	g_trap_stub_image, . - g_trap_stub_image

	.section .note.GNU-stack, "", @progbits
