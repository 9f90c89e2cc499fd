/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is read again and again, in all ways: often enough that it is no copy any more, if it
 * ever is none. */
#ifndef TESTS_GUEST_READ_AGAIN_H
#define TESTS_GUEST_READ_AGAIN_H

#include "guest.h"

#define PIECE ((size_t)64 << 10)
#define AGAIN 300

static int fd;
static unsigned char *want; /* what the file holds */
static size_t size;

/* How many of one read are wrong; @buf has a byte more than @n. */
static long wrong_at(size_t at, size_t n, unsigned char *buf)
{
	const size_t left = at < size ? size - at : 0, there = n < left ? n : left;

	memset(buf, 0xee, n + 1);
	return pread(fd, buf, n, (off_t)at) != (ssize_t)there ||
	       memcmp(buf, want + at, there) != 0 || buf[there] != 0xee;
}

/* @times reads of all sizes up to a piece, all over the file. How many were wrong. */
static long reads(unsigned times, unsigned seed)
{
	unsigned char *buf = malloc(PIECE + 1);
	long wrong = 0;

	for (unsigned i = 0; i < times; i++) {
		seed = seed * 1103515245u + 12345u;
		wrong += wrong_at((seed >> 4) % (size + 1), i % 3 ? 4096 : 1 + (seed >> 7) % PIECE,
				  buf);
	}
	free(buf);
	return wrong;
}

static void *reader(void *seed)
{
	return (void *)reads(AGAIN, (unsigned)(uintptr_t)seed);
}

/* By the file's own offset, in pieces, to the end. */
static long whole(size_t piece)
{
	unsigned char *got = malloc(piece);
	size_t at = 0;
	long wrong = 0;
	ssize_t n;

	lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, got, piece)) > 0) {
		wrong += (size_t)n != (piece < size - at ? piece : size - at) ||
			 memcmp(got, want + at, (size_t)n) != 0;
		at += (size_t)n;
	}
	free(got);
	return wrong + (n != 0) + (at != size) + (lseek(fd, 0, SEEK_CUR) != (off_t)size);
}

/* Memory that can be written in part, or not at all. */
static void bad_memory(void)
{
	unsigned char *p =
		mmap(NULL, 4 * PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	P("bad memory");
	for (unsigned i = 0; i < AGAIN; i++)
		if (pread(fd, p, PIECE, 4096) != (ssize_t)PIECE)
			P("cannot be read");
	mprotect(p + PIECE, PIECE, PROT_READ);
	munmap(p + 3 * PIECE, PIECE);
	V(pread(fd, p, PIECE, 4096));
	V(pread(fd, p + PIECE, 4096, 4096));
	V(pread(fd, p + PIECE, PIECE, 4096));
	V(pread(fd, p + PIECE - 4096, 8192, 4096));
	V(pread(fd, p + PIECE - 8192, PIECE, 4096));
	V(pread(fd, p + 3 * PIECE - 4096, PIECE, 4096));
	V(pread(fd, p + 3 * PIECE, PIECE, 4096));
	V(pread(fd, NULL, 4096, 0));
	V(pread(fd, (void *)-4096L, 4096, 0));
	V(pread(fd, (void *)0x7fffff000000, 4096, 0));
	V(memcmp(p, want + 4096, PIECE - 8192) == 0);
	munmap(p, 3 * PIECE);
}

#endif
