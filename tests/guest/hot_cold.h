/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls from two places: one that is made often enough to be rewritten where a platform does that,
 * and one that is not.
 */
#ifndef GUEST_HOT_COLD_H
#define GUEST_HOT_COLD_H

#include "guest.h"

static long (*g_cold)(long nr, long a, long b, long c, long d, long e, long f);

__attribute__((noinline)) static long hot(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long r;

	__asm__ volatile("syscall\n\tcmpq $-4095, %%rax"
			 : "=a"(r)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory", "cc");
	return r;
}

static void make_cold(void)
{
	static const unsigned char code[] = {
		0x48, 0x89, 0xf8,             /* mov %rdi, %rax */
		0x48, 0x89, 0xf7,             /* mov %rsi, %rdi */
		0x48, 0x89, 0xd6,             /* mov %rdx, %rsi */
		0x48, 0x89, 0xca,             /* mov %rcx, %rdx */
		0x4d, 0x89, 0xc2,             /* mov %r8, %r10 */
		0x4d, 0x89, 0xc8,             /* mov %r9, %r8 */
		0x4c, 0x8b, 0x4c, 0x24, 0x08, /* mov 8(%rsp), %r9 */
		0x0f, 0x05, 0xc3,             /* syscall; ret */
	};
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	memcpy(p, code, sizeof(code));
	memcpy(&g_cold, &p, sizeof(p));
}

#endif
