/* SPDX-License-Identifier: Apache-2.0 */

/* A file in memory that is read again and again, and changed in between and meanwhile: what is read
 * is what is there. And zeros. */
#include "read_again.h"

#define PAGE ((size_t)4096)

static unsigned char bytes[40 * PIECE]; /* the file */
static unsigned char got[PIECE + PAGE];

static void change(size_t at, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		want[at + i] = (unsigned char)(seed + i * 7 + (i >> 8) * 13);
	if (pwrite(fd, want + at, n, (off_t)at) != (ssize_t)n)
		P("cannot be written");
	size = at + n > size ? at + n : size;
}

/* To @length: what is new is zero. */
static void cut(size_t length)
{
	V(ftruncate(fd, (off_t)length));
	if (length > size)
		memset(want + size, 0, length - size);
	size = length;
}

static void changes(void)
{
	P("small, grows, is cut");
	change(0, 5000, 1);
	V(reads(AGAIN, 1));
	change(5000, 3 * PIECE, 2);
	V(reads(AGAIN, 2));
	V(whole(PIECE));
	change(100, 70000, 3);
	V(reads(AGAIN, 3));
	cut(PIECE + 17);
	V(reads(AGAIN, 4));
	cut(3 * PIECE);
	V(reads(AGAIN, 5));
	V(whole(PAGE));
	change(PIECE, 2 * PIECE, 6);
	V(reads(AGAIN, 6));
	P("a hole");
	V(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, 5 * PAGE));
	memset(want + PAGE, 0, 5 * PAGE);
	V(reads(AGAIN, 7));
	change(PAGE, 5 * PAGE, 8);
	V(reads(AGAIN, 8));
	P("nothing, and another");
	cut(0);
	V(reads(10, 9));
	change(0, 2 * PIECE, 10);
	V(reads(2 * AGAIN, 10));
	P("large");
	change(2 * PIECE, 38 * PIECE, 11);
	V(reads(3 * AGAIN, 11));
	for (unsigned i = 0; i < 3; i++)
		V(whole(PIECE));
	V(wrong_at((16 * PIECE) - 100, PIECE, got));
	V(wrong_at(size - 100, PIECE, got));
	V(wrong_at(size, PIECE, got));
}

static void mapped(void)
{
	unsigned char *m;
	long wrong = 0;

	P("mapped");
	m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	V(m != MAP_FAILED);
	for (unsigned i = 0; i < 200; i++) {
		m[i * 8191] = want[i * 8191] = (unsigned char)i;
		wrong += wrong_at(i / 2 * 8191, PIECE, got);
	}
	V(wrong);
	V(munmap(m, size));
	V(reads(AGAIN, 12));
}

static volatile int done;

/* Whole pages of what was there at some time, or zeros: no error, nothing else. */
static void *reader_of_changing(void *own_offset)
{
	unsigned char *buf = malloc(PIECE);
	const int f = own_offset ? dup(fd) : fd;
	long wrong = 0;

	while (!done) {
		const ssize_t n = own_offset ? read(f, buf, PIECE) : pread(f, buf, PIECE, 0);

		for (ssize_t i = 0; i < n; i++)
			wrong += buf[i] > 3;
		wrong += n < 0;
		if (own_offset && n <= 0)
			lseek(f, 0, SEEK_SET);
	}
	free(buf);
	return (void *)wrong;
}

static void together(void)
{
	static unsigned char fill[2 * PIECE];
	pthread_t t[3];
	void *wrong;

	P("threads");
	for (unsigned i = 0; i < GUEST_COUNT(t); i++)
		pthread_create(&t[i], NULL, reader, (void *)(uintptr_t)(i + 20));
	for (unsigned i = 0; i < GUEST_COUNT(t); i++) {
		pthread_join(t[i], &wrong);
		V((long)wrong);
	}
	P("changed meanwhile");
	ftruncate(fd, 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, reader_of_changing, (void *)(uintptr_t)i);
	for (unsigned i = 0; i < 2000; i++) {
		memset(fill, (int)(1 + i % 3), sizeof(fill));
		pwrite(fd, fill, sizeof(fill), 0);
		if (i % 4 == 3)
			ftruncate(fd, (off_t)(i * 1000 % sizeof(fill)));
	}
	done = 1;
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(t[i], &wrong);
		V((long)wrong);
	}
	done = 0;
	size = 0;
	cut(0);
}

static void of_children(void)
{
	int status;

	P("a child changes it");
	change(0, 4 * PIECE, 30);
	V(reads(AGAIN, 30));
	for (unsigned i = 0; i < 3; i++) {
		if (guest_fork() == 0) {
			long bad = reads(AGAIN, 31);

			change(i * PIECE, PIECE, 40 + i);
			bad += reads(AGAIN, 32);
			_exit(bad != 0);
		}
		wait(&status);
		V(status);
		for (size_t k = 0; k < PIECE; k++)
			want[i * PIECE + k] = (unsigned char)(40 + i + k * 7 + (k >> 8) * 13);
		V(reads(AGAIN, 33));
	}
}

static void all(void)
{
	changes();
	mapped();
	bad_memory();
	together();
	of_children();
}

/* Files that come and go, with the same names and numbers. */
static void come_and_go(void)
{
	long wrong = 0;

	P("come and go");
	for (unsigned i = 0; i < 40; i++) {
		fd = open("again", O_RDWR | O_CREAT | O_TRUNC, 0600);
		size = 0;
		change(0, PIECE, i);
		wrong += reads(40, i);
		if (i % 2)
			unlink("again");
		wrong += reads(5, i);
		close(fd);
	}
	V(wrong);
}

static void zeros(void)
{
	static unsigned char none[PIECE];
	unsigned char *p =
		mmap(NULL, 4 * PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec v[2] = {{got, 4096}, {got + 8192, 4096}};
	long wrong = 0;

	P("zeros");
	fd = open("/dev/zero", O_RDONLY);
	for (size_t n = 1; n <= PIECE; n += n < 16 ? 1 : n / 3) {
		memset(got, 0xee, sizeof(got));
		wrong += read(fd, got, n) != (ssize_t)n || memcmp(got, none, n) != 0 ||
			 got[n] != 0xee;
	}
	V(wrong);
	memset(got, 0xee, sizeof(got));
	V(readv(fd, v, 2));
	V(got[0] | got[4095] | got[8192] | got[12287]);
	V(got[4096] & got[8191] & got[12288]);
	memset(p, 0xee, 4 * PIECE);
	V(read(fd, p, 4 * PIECE));
	V(memcmp(p, none, PIECE) | memcmp(p + 3 * PIECE, none, PIECE));
	mprotect(p + PIECE, PIECE, PROT_READ);
	munmap(p + 3 * PIECE, PIECE);
	memset(p, 0xee, PIECE);
	V(read(fd, p + PIECE, PAGE));
	V(read(fd, p + PIECE, PIECE));
	V(read(fd, p + 3 * PIECE, PIECE));
	V(read(fd, NULL, PIECE));
	V(read(fd, (void *)0x7fffff000000, PAGE));
	V(read(fd, p, PIECE));
	V(memcmp(p, none, PIECE));
	close(fd);
}

int main(void)
{
	guest_begin();
	want = bytes;
	fd = memfd_create("again", 0);
	all();
	close(fd);
	size = 0;
	fd = open("file", O_RDWR | O_CREAT, 0600);
	all();
	close(fd);
	come_and_go();
	zeros();
	return 0;
}
