/* SPDX-License-Identifier: Apache-2.0 */
/* The vDSO's shared object inside moat: loader/vdso.c reads it. */
	.section .rodata
	.balign 64
	.global g_vdso_image, g_vdso_image_end
g_vdso_image:
	.incbin VDSO_SO
g_vdso_image_end:
	.section .note.GNU-stack, "", @progbits
