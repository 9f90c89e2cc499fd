/* SPDX-License-Identifier: Apache-2.0 */
/* What was unmapped cannot be touched, in whatever order and sizes; what is mapped there again is
 * empty; the same in a child. */
#define _GNU_SOURCE
#include "faults_at.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul

static char *fresh(char *at, size_t size)
{
	return mmap(at, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
}

/* Of [p, p + size): pages that can be touched, and bytes that are not 0 at their beginnings. */
static void look(const char *what, char *p, size_t size)
{
	unsigned there = 0, dirty = 0;

	for (size_t at = 0; at < size; at += PAGE) {
		if (faults(p + at))
			continue;
		there++;
		dirty += p[at] != 0;
	}
	printf("%s: %u of %zu, dirty %u\n", what, there, size / PAGE, dirty);
}

static void one(size_t size)
{
	unsigned touched = 0, dirty = 0;

	for (int i = 0; i < 40; i++) {
		char *p = fresh(NULL, size);

		for (size_t at = 0; at < size; at += PAGE) {
			dirty += p[at] != 0;
			p[at] = 1;
		}
		munmap(p, size);
		touched += !faults(p) + !faults(p + size / 2 / PAGE * PAGE) + !faults(p + size - 1);
	}
	printf("%zu: touched %u dirty %u\n", size, touched, dirty);
}

int main(void)
{
	char *p;

	setvbuf(stdout, NULL, _IONBF, 0);
	signal(SIGSEGV, on_fault);
	one(PAGE);
	one(16 * PAGE);
	one(256 * PAGE);
	one(257 * PAGE);
	one(3072 * PAGE);

	/* One after the other, by parts, again. */
	p = fresh(NULL, 64 * PAGE);
	for (int round = 0; round < 30; round++) {
		fresh(p, 64 * PAGE);
		memset(p, 1, 64 * PAGE);
		for (int k = 0; k < 64; k += 3)
			munmap(p + k * PAGE, PAGE);
		if (round == 0)
			look("every third", p, 64 * PAGE);
		munmap(p + 10 * PAGE, 8 * PAGE);
		fresh(p + 12 * PAGE, 2 * PAGE);
		munmap(p + 40 * PAGE, 4 * PAGE);
		munmap(p + 20 * PAGE, 4 * PAGE);
		fresh(p + 19 * PAGE, 3 * PAGE);
		munmap(p + 11 * PAGE, 2 * PAGE);
	}
	look("parts", p, 64 * PAGE);
	if (fork() == 0) {
		munmap(p + 13 * PAGE, PAGE);
		look("child", p, 64 * PAGE);
		munmap(p, 64 * PAGE);
		look("child", p, 64 * PAGE);
		fresh(p + 5 * PAGE, 20 * PAGE);
		look("child", p, 64 * PAGE);
		_exit(0);
	}
	wait(NULL);
	munmap(p + 60 * PAGE, 4 * PAGE);
	mremap(p + 24 * PAGE, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 8 * PAGE);
	munmap(p + 8 * PAGE, PAGE);
	look("moved", p, 64 * PAGE);
	/* A write into what is gone, by the kernel. */
	munmap(p, 64 * PAGE);
	printf("write %zd\n", write(1, p, 4));
	return 0;
}
