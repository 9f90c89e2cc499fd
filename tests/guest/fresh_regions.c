/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of less than a huge page, mapped, touched and unmapped again and again: each is empty,
 * ends where it ends, and is the program's alone. */
#define _GNU_SOURCE
#include "faults_at.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define KIB 1024ul

static int is_mapped(const char *p)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512], r;
	int mapped = 0;

	while (f && fgets(line, sizeof(line), f))
		mapped |= sscanf(line, "%lx-%lx %c", &from, &to, &r) == 3 &&
			  (unsigned long)p >= from && (unsigned long)p < to && r == 'r';
	if (f)
		fclose(f);
	return mapped;
}

static char *fresh(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* How many pages are not empty; fills the first @fill bytes. */
static unsigned use(char *p, size_t size, size_t fill, char with)
{
	unsigned dirty = 0;

	for (size_t at = 0; at < size; at += PAGE)
		dirty += p[at] != 0 || p[at + PAGE - 1] != 0;
	memset(p, with, fill);
	return dirty;
}

static void again_and_again(size_t size)
{
	const size_t half = size / 2 & ~(PAGE - 1);
	unsigned dirty = 0, wrong_end = 0, shared = 0;

	for (int i = 0; i < 24; i++) {
		char *p = fresh(size), *q = NULL;

		dirty += use(p, size, size, 'a');
		if (i % 3 == 0) {
			q = fresh(size);
			dirty += use(q, size, size / 2, 'b');
			shared += p[size - 1] != 'a';
			wrong_end += faults(q + size) == is_mapped(q + size);
			wrong_end += faults(q - PAGE) == is_mapped(q - PAGE);
		}
		wrong_end += faults(p + size) == is_mapped(p + size);
		wrong_end += faults(p - PAGE) == is_mapped(p - PAGE);
		if (i % 8 == 7) {
			int status;

			if (fork() == 0) {
				p[0] = 'c';
				_exit(p[size - 1] != 'a');
			}
			wait(&status);
			shared += status != 0 || p[0] != 'a';
		}
		if (i % 5 == 4) {
			mprotect(p, half, PROT_NONE);
			wrong_end += !faults(p) || faults(p + half);
			munmap(p + size - PAGE, PAGE);
			wrong_end += faults(p + size - 2 * PAGE);
		}
		munmap(p, size);
		wrong_end += !faults(p) || !faults(p + size - 1);
		if (q)
			munmap(q, size);
	}
	printf("%lu KiB: dirty %u, wrong ends %u, shared %u\n", size / KIB, dirty, wrong_end,
	       shared);
}

int main(void)
{
	const struct sigaction sa = {.sa_handler = on_fault};

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	again_and_again(512 * KIB);
	again_and_again(1024 * KIB - PAGE);
	again_and_again(1024 * KIB);
	again_and_again(2048 * KIB - PAGE);
	return 0;
}
