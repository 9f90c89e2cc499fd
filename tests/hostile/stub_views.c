/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: what a guest reads again and again of a file is mapped in its stub. It can be read there
 * and nothing else, it is what the file has, no other file's contents come to be there, and when
 * the file is cut or gone, so is what was seen. Only trap has views.
 */
#include "host_calls.h"
#include <setjmp.h>
#include <stdbool.h>

#define VIEWS UINT64_C(0x7fffff000000)
#define VIEW_SIZE (UINT64_C(1) << 20)
#define VIEWS_MAX 15
#define PAGE 4096u
#define SIZE ((size_t)64 << 10)

static sigjmp_buf g_back;

static void on_fault(int sig)
{
	siglongjmp(g_back, sig);
}

/* The byte there, or minus the signal that it gives. */
static int look(uint64_t addr)
{
	const int sig = sigsetjmp(g_back, 1);

	return sig ? -sig : *(volatile unsigned char *)addr;
}

static int poke(uint64_t addr)
{
	const int sig = sigsetjmp(g_back, 1);

	if (sig)
		return -sig;
	*(volatile unsigned char *)addr = 1;
	return 0;
}

static void fill(int fd, unsigned char what)
{
	static unsigned char buf[SIZE];

	memset(buf, what, sizeof(buf));
	if (pwrite(fd, buf, sizeof(buf), 0) != (ssize_t)sizeof(buf))
		exit(3);
}

/* True if all that was read is @what. */
static bool read_again(int fd, unsigned char what)
{
	static unsigned char buf[SIZE];
	bool good = true;

	for (int i = 0; i < 100; i++) {
		memset(buf, 0, sizeof(buf));
		good &= pread(fd, buf, sizeof(buf), 0) == (ssize_t)sizeof(buf);
		good &= buf[0] == what && memcmp(buf, buf + 1, sizeof(buf) - 1) == 0;
	}
	return good;
}

static uint64_t find(unsigned char what)
{
	for (uint64_t at = VIEWS; at < VIEWS + VIEWS_MAX * VIEW_SIZE; at += VIEW_SIZE)
		if (look(at) == what && look(at + SIZE - 1) == what)
			return at;
	return 0;
}

static int g_bad;

static void expect(bool good, const char *what)
{
	if (!good) {
		printf("not so: %s\n", what);
		g_bad = 1;
	}
}

static void only_read(int fd, uint64_t view)
{
	expect(poke(view) == -SIGSEGV, "it cannot be written");
	host_call(SYS_mprotect, (uint64_t[6]){view, PAGE, PROT_READ | PROT_WRITE});
	host_munmap(view, PAGE);
	host_call(SYS_mmap, (uint64_t[6]){view, PAGE, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, UINT64_MAX});
	expect(poke(view) == -SIGSEGV, "it still cannot");
	expect(look(view) == 'a' && read_again(fd, 'a'), "it is what it was");
}

/* What is there is the file's, for as long as the file has it. */
static void follows(int fd, uint64_t view)
{
	fill(fd, 'b');
	expect(look(view) == 'b', "it is what was written");
	expect(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0 &&
		       look(view) == 0 && look(view + PAGE) == 'b',
	       "a hole is one");
	expect(ftruncate(fd, PAGE) == 0 && look(view + PAGE) == -SIGBUS, "the rest is gone");
	fill(fd, 'c');
	expect(look(view + PAGE) == 'c', "or new");
	expect(ftruncate(fd, 0) == 0 && look(view) == -SIGBUS, "all is gone");
}

/* Others write to files of theirs meanwhile, which may get the memory. */
static void ends(const char *name, int fd, uint64_t view)
{
	int other = open("/tmp/other", O_RDWR | O_CREAT, 0600);

	unlink(name);
	expect(look(view) == 'd', "a name is not the file");
	close(fd);
	fill(other, 's');
	for (uint64_t at = view; at < view + VIEW_SIZE; at += PAGE)
		expect(look(at) == -SIGBUS, "the file is gone");
	expect(find('s') == 0, "another's contents are nowhere");
	close(other);
}

int main(void)
{
	struct sigaction sa = {.sa_handler = on_fault};
	uint64_t view;
	int fd, status, closed[2];
	char c;

	hostile_begin();
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	fd = open("/tmp/first", O_RDWR | O_CREAT, 0600);
	fill(fd, 'a');
	expect(read_again(fd, 'a'), "what is read is there");
	if (!has_trampolines()) {
		puts("ok: no views");
		return g_bad;
	}
	view = find('a');
	expect(view != 0, "there is a view");
	if (!view)
		return 1;
	only_read(fd, view);
	follows(fd, view);
	close(fd);

	fd = open("/tmp/second", O_RDWR | O_CREAT, 0600);
	fill(fd, 'd');
	expect(read_again(fd, 'd'), "what is read is there");
	view = find('d');
	expect(view != 0, "there is a view");
	/* A child has the parent's, which goes with the file, too. */
	if (pipe(closed) != 0)
		return 1;
	if (fork() == 0) {
		expect(look(view) == 'd', "a child sees it");
		close(fd);
		write(closed[1], "", 1);
		while (look(view) == 'd')
			;
		_exit(g_bad);
	}
	expect(read(closed[0], &c, 1) == 1, "a child has closed it");
	ends("/tmp/second", fd, view);
	wait(&status);
	expect(status == 0, "a child ends well");
	puts("ok");
	return g_bad;
}
