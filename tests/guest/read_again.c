/* SPDX-License-Identifier: Apache-2.0 */

/* A file of the root that is read again and again: the same bytes each time, wherever they go. */
#include "guest.h"

#define PIECE ((size_t)64 << 10)
#define AGAIN 300

static int fd;
static unsigned char *want; /* the file, as it is mapped */
static size_t size;

static bool same(const unsigned char *got, ssize_t n, size_t at, size_t wanted)
{
	const size_t left = at < size ? size - at : 0;

	return n == (ssize_t)(wanted < left ? wanted : left) &&
	       memcmp(got, want + at, (size_t)n) == 0;
}

/* @times reads of all sizes up to a piece, all over the file. How many were wrong. */
static long reads(unsigned times, unsigned seed)
{
	unsigned char *got = malloc(PIECE + 64);
	long wrong = 0;

	for (unsigned i = 0; i < times; i++) {
		seed = seed * 1103515245u + 12345u;
		const size_t at = (seed >> 4) % size, n = i % 3 ? 4096 : 1 + (seed >> 7) % PIECE;

		memset(got, 0xee, PIECE + 64);
		wrong += !same(got, pread(fd, got, n, (off_t)at), at, n) || got[n] != 0xee;
	}
	free(got);
	return wrong;
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
		wrong += !same(got, n, at, piece);
		at += (size_t)n;
	}
	free(got);
	return wrong + (n != 0) + (at != size);
}

static void *thread(void *arg)
{
	return (void *)reads(AGAIN, (unsigned)(uintptr_t)arg);
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
}

/* What is read into lies next to what else the call is given. */
static void vectors(void)
{
	struct {
		struct iovec v[3];
		unsigned char room[3 * 4096];
	} *m = malloc(sizeof(*m));
	long wrong = 0;

	P("vectors");
	for (unsigned i = 0; i < AGAIN; i++) {
		m->v[0] = (struct iovec){m->room, 4096};
		m->v[1] = (struct iovec){m->room + 4096, i % 2 ? 4096 : 1};
		m->v[2] = (struct iovec){m->room + 8192, 4096};
		wrong += preadv(fd, m->v, 1, 4096) != 4096 ||
			 memcmp(m->room, want + 4096, 4096) != 0;
		wrong += preadv(fd, m->v, 3, 0) != (i % 2 ? 3 : 2) * 4096 + (i % 2 ? 0 : 1) ||
			 memcmp(m->room, want, 4096) != 0;
	}
	V(wrong);
	free(m);
}

static volatile sig_atomic_t ticks;

static void on_tick(int sig GUEST_UNUSED)
{
	ticks++;
}

/* Signals that are taken when a read is done. */
static void signals(void)
{
	const struct sigaction sa = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	const struct itimerval on = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
	long wrong = 0;

	P("signals");
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &on, NULL);
	while (ticks < 50)
		wrong += reads(30, (unsigned)ticks + 1);
	setitimer(ITIMER_REAL, &off, NULL);
	V(wrong);
}

int main(void)
{
	struct stat st;
	pthread_t t[3];
	void *wrong;
	int status;

	guest_begin();
	fd = open("/usr/bin/bash", O_RDONLY);
	fstat(fd, &st);
	size = (size_t)st.st_size;
	want = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	V(want != MAP_FAILED && size > 4 * PIECE);
	V(reads(3 * AGAIN, 1));
	for (unsigned i = 0; i < 4; i++) {
		V(whole(4096));
		V(whole(PIECE));
	}
	bad_memory();
	vectors();
	signals();
	P("a child, with the parent's and its own");
	if (fork() == 0) {
		const long bad = reads(AGAIN, 2) + whole(PIECE);

		_exit(bad != 0);
	}
	wait(&status);
	V(status);
	P("threads");
	for (unsigned i = 0; i < GUEST_COUNT(t); i++)
		pthread_create(&t[i], NULL, thread, (void *)(uintptr_t)(i + 3));
	for (unsigned i = 0; i < GUEST_COUNT(t); i++) {
		pthread_join(t[i], &wrong);
		V((long)wrong);
	}
	V(reads(AGAIN, 9));
	return 0;
}
