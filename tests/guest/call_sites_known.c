/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Call sites of a file that is mapped again and again: what is known of them from one mapping must
 * not be taken for what another holds.
 */
#include "call_sites.h"

#define FILE_SIZE (3 * PAGE)

/* Each of another length before its call, and of another result. */
enum { BEFORE, AFTER };

static uint8_t g_text[FILE_SIZE];

/* A function at @at: the call @nr. */
static void put_at(size_t at, unsigned kind, uint32_t nr)
{
	struct code c = {.start = g_text, .at = g_text + at};

	if (kind == BEFORE)
		put_before(&c, nr);
	else
		put_after(&c, nr);
}

/* Where functions lie. Of some the end of a page goes through the text that is rewritten: through
 * the mov, between it and the call, through the call, and behind it. */
static const struct {
	size_t at;
	unsigned kind;
} g_places[] = {
	{64, BEFORE},
	{128, AFTER},
	{PAGE - 2, BEFORE},
	{PAGE + 64, AFTER},
	{2 * PAGE - 5, BEFORE},
	{2 * PAGE + 64, BEFORE},
	{2 * PAGE + 128, AFTER},
};
/* The other edges, in a second file. */
static const struct {
	size_t at;
	unsigned kind;
} g_edges[] = {
	{PAGE - 6, BEFORE},
	{2 * PAGE - 8, AFTER},
	{64, AFTER},
	{2 * PAGE + 64, BEFORE},
};

/* close and dup of no descriptor say EBADF, kill of nobody what follows, 1000 ENOSYS. */
static const struct {
	uint32_t nr;
	long result;
} g_calls[] = {{3, -9}, {1000, -38}, {32, -9}, {83, -14}};

static int calls(const void *f, int n, long want)
{
	int wrong = 0;

	for (int i = 0; i < n; i++)
		wrong += call1(f, -1) != want;
	return wrong;
}

static void fill(unsigned shift)
{
	memset(g_text, 0xcc, sizeof(g_text));
	for (unsigned i = 0; i < GUEST_COUNT(g_places); i++)
		put_at(g_places[i].at, g_places[i].kind,
		       g_calls[(i + shift) % GUEST_COUNT(g_calls)].nr);
}

static int file_new(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0700);

	if (fd < 0 || write(fd, g_text, sizeof(g_text)) != (ssize_t)sizeof(g_text))
		puts("no file");
	return fd;
}

static uint8_t *map_text(int fd)
{
	uint8_t *p = mmap(NULL, FILE_SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	if (p == MAP_FAILED)
		printf("mmap: %s\n", guest_errno(errno));
	return p;
}

/* All functions of a mapping @n times. */
static int all(uint8_t *p, int n, unsigned shift)
{
	int wrong = 0;

	for (unsigned i = 0; i < GUEST_COUNT(g_places); i++)
		wrong += calls(p + g_places[i].at, n,
			       g_calls[(i + shift) % GUEST_COUNT(g_calls)].result);
	return wrong;
}

static void again(int fd)
{
	int wrong = 0, other = 0;

	for (unsigned i = 0; i < 8; i++) {
		uint8_t *p = map_text(fd), seen[FILE_SIZE];
		int pipes[2];

		wrong += all(p, i == 0 ? HOT : 6, 0);
		/* What the kernel sees of it is the file. */
		if (pipe(pipes) || write(pipes[1], p, FILE_SIZE) != (ssize_t)FILE_SIZE ||
		    read(pipes[0], seen, FILE_SIZE) != (ssize_t)FILE_SIZE)
			puts("no pipe");
		other += memcmp(seen, g_text, FILE_SIZE) != 0;
		close(pipes[0]);
		close(pipes[1]);
		if (i % 2)
			munmap(p, FILE_SIZE);
	}
	printf("mapped again: wrong %d other %d\n", wrong, other);
}

/* Parts of it only, and at other offsets. */
static void parts(int fd)
{
	int wrong = 0;

	for (unsigned i = 0; i < 2; i++) {
		uint8_t *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, PAGE);

		wrong += calls(p + 64, 6, g_calls[3].result);
		wrong += calls(p + PAGE + 64, 6, g_calls[1].result);
		wrong += calls(p + PAGE + 128, 6, g_calls[2].result);
		wrong += calls(p + PAGE - 5, 6, g_calls[0].result);
		munmap(p, 2 * PAGE);
		p = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		wrong += calls(p + 64, 6, g_calls[0].result) + calls(p + 128, 6, g_calls[1].result);
		munmap(p, PAGE);
	}
	printf("parts: wrong %d\n", wrong);
}

/* In the same places other code: other numbers, no call, a call in the middle of an instruction. */
static void changed(int fd)
{
	static const uint8_t ten[] = {0xb8, 0x0a, 0x00, 0x00, 0x00, 0xc3},
			     nine[] = {0x48, 0xb8, 0xb8, 0x03, 0x00, 0x00,
				       0x00, 0x0f, 0x05, 0xc3, 0xc3};
	uint8_t *p;
	int wrong = 0;

	for (unsigned shift = 1; shift < 3; shift++) {
		fill(shift);
		if (pwrite(fd, g_text, FILE_SIZE, 0) != (ssize_t)FILE_SIZE)
			puts("no write");
		p = map_text(fd);
		wrong += all(p, 6, shift);
		munmap(p, FILE_SIZE);
	}
	memcpy(g_text + 64, ten, sizeof(ten));
	/* movabs $0xc3050f00000003b8, %rax: the bytes of the site that was, as a constant. */
	memcpy(g_text + 2 * PAGE + 62, nine, sizeof(nine));
	if (pwrite(fd, g_text, FILE_SIZE, 0) != (ssize_t)FILE_SIZE)
		puts("no write");
	for (unsigned i = 0; i < 2; i++) {
		p = map_text(fd);
		wrong += calls(p + 64, 6, 10);
		wrong += calls(p + 2 * PAGE + 62, 6, (long)0xc3050f00000003b8ul);
		munmap(p, FILE_SIZE);
	}
	printf("changed: wrong %d\n", wrong);
}

static void children(int fd)
{
	int wrong = 0;

	for (unsigned i = 0; i < 4; i++) {
		uint8_t *p = i % 2 ? map_text(fd) : NULL;
		const pid_t child = fork();
		int status;

		if (child == 0) {
			if (!p)
				p = map_text(fd);
			_exit(all(p, 6, 0) != 0);
		}
		if (p)
			wrong += all(p, 6, 0);
		waitpid(child, &status, 0);
		wrong += status != 0;
		if (p)
			munmap(p, FILE_SIZE);
	}
	printf("children: wrong %d\n", wrong);
}

static volatile bool g_stop;

static void *busy(void *arg)
{
	int *wrong = arg;

	while (!g_stop)
		*wrong += syscall(SYS_close, -1) != -1;
	return NULL;
}

static void threads(int fd)
{
	int wrong = 0, theirs = 0;
	pthread_t t;

	if (pthread_create(&t, NULL, busy, &theirs))
		puts("no thread");
	for (unsigned i = 0; i < 6; i++) {
		uint8_t *p = map_text(fd);

		wrong += all(p, i % 3 ? 6 : HOT, 0);
		munmap(p, FILE_SIZE);
	}
	g_stop = true;
	pthread_join(t, NULL);
	printf("beside a thread: wrong %d %d\n", wrong, theirs);
}

static void edges(void)
{
	int fd, wrong = 0;

	memset(g_text, 0xcc, sizeof(g_text));
	for (unsigned i = 0; i < GUEST_COUNT(g_edges); i++)
		put_at(g_edges[i].at, g_edges[i].kind, g_calls[i].nr);
	fd = file_new("edges");
	for (unsigned k = 0; k < 3; k++) {
		uint8_t *p = map_text(fd);

		for (unsigned i = 0; i < GUEST_COUNT(g_edges); i++)
			wrong += calls(p + g_edges[i].at, k == 0 ? HOT : 6, g_calls[i].result);
		/* One of its pages is another's by now, and back. */
		if (mprotect(p + PAGE, PAGE, PROT_READ | PROT_WRITE))
			puts("no mprotect");
		wrong += memcmp(p + PAGE, g_text + PAGE, PAGE) != 0;
		if (mprotect(p + PAGE, PAGE, PROT_READ | PROT_EXEC))
			puts("no mprotect");
		for (unsigned i = 0; i < GUEST_COUNT(g_edges); i++)
			wrong += calls(p + g_edges[i].at, HOT, g_calls[i].result);
		madvise(p, PAGE, MADV_DONTNEED);
		for (unsigned i = 0; i < GUEST_COUNT(g_edges); i++)
			wrong += calls(p + g_edges[i].at, 6, g_calls[i].result);
	}
	close(fd);
	printf("edges of pages: wrong %d\n", wrong);
}

int main(void)
{
	int fd;

	guest_begin();
	fill(0);
	fd = file_new("sites");
	again(fd);
	parts(fd);
	children(fd);
	threads(fd);
	changed(fd);
	close(fd);
	edges();
	return 0;
}
