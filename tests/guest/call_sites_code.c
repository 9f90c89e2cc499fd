/* SPDX-License-Identifier: Apache-2.0 */

/* Hot call sites whose text is rewritten, moved, replaced, unmapped, read, forked, executed. */
#include "call_sites.h"
#include <setjmp.h>

typedef void (*put_fn)(struct code *, uint32_t);
static const put_fn g_put[] = {put_before, put_after};

/* Numbers whose results tell them apart: close and dup of no descriptor say EBADF, and 1000 ENOSYS.
 */
static const struct {
	uint32_t nr;
	long result;
} g_calls[] = {{3, -9}, {1000, -38}, {32, -9}, {1001, -38}, {83, -14}};

static int hot(const void *f, long want)
{
	int wrong = 0;

	for (int i = 0; i < 60; i++)
		wrong += call1(f, -1) != want;
	return wrong;
}

/* A compiler at run time: RW, RX, hot, RW, another number... */
static void jit(void)
{
	for (unsigned k = 0; k < 2; k++) {
		struct code c = code_new(PAGE);
		int wrong = 0, dirty = 0;

		for (unsigned i = 0; i < 60; i++) {
			uint8_t copy[64];

			mprotect(c.start, PAGE, PROT_READ | PROT_WRITE);
			c.at = c.start + 64 * (i % 3);
			g_put[k](&c, g_calls[i % GUEST_COUNT(g_calls)].nr);
			memcpy(copy, c.start + 64 * (i % 3), 16);
			mprotect(c.start, PAGE, PROT_READ | PROT_EXEC);
			wrong += hot(c.start + 64 * (i % 3),
				     g_calls[i % GUEST_COUNT(g_calls)].result);
			/* What was written is there again. */
			mprotect(c.start, PAGE, PROT_READ | PROT_WRITE);
			dirty += memcmp(copy, c.start + 64 * (i % 3), 16) != 0;
		}
		printf("jit %u: wrong %d dirty %d\n", k, wrong, dirty);
		munmap(c.start, PAGE);
	}
}

/* Writable and executable, changed while it is hot. */
static void writable(void)
{
	for (unsigned k = 0; k < 2; k++) {
		struct code c = {.start = map(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC)};
		int wrong = 0;

		for (unsigned i = 0; i < 20; i++) {
			c.at = c.start;
			g_put[k](&c, g_calls[i % GUEST_COUNT(g_calls)].nr);
			wrong += hot(c.start, g_calls[i % GUEST_COUNT(g_calls)].result);
		}
		/* First only executable, then both. */
		mprotect(c.start, PAGE, PROT_READ | PROT_EXEC);
		for (unsigned i = 0; i < 20; i++) {
			wrong += hot(c.start, -14);
			mprotect(c.start, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
			c.at = c.start;
			g_put[k](&c, 1000);
			wrong += hot(c.start, -38);
			c.at = c.start;
			g_put[k](&c, 83);
			mprotect(c.start, PAGE, PROT_EXEC);
		}
		printf("writable %u: wrong %d\n", k, wrong);
		munmap(c.start, PAGE);
	}
}

static sigjmp_buf g_back;
static volatile int g_sig;

static void on_fault(int sig)
{
	g_sig = sig;
	siglongjmp(g_back, 1);
}

/* 0, or the signal of a call of what is not there. */
static int call_faults(const void *f)
{
	if (sigsetjmp(g_back, 1))
		return g_sig;
	call1(f, -1);
	return 0;
}

static void replaced(void)
{
	for (unsigned k = 0; k < 2; k++) {
		struct code c = code_new(4 * PAGE);
		uint8_t *p = c.start, *q;
		int wrong = 0, zero = 0;

		for (unsigned i = 0; i < 12; i++) {
			/* MAP_FIXED over it. */
			map(p, PAGE, PROT_READ | PROT_WRITE);
			for (unsigned n = 0; n < 64; n++)
				zero += p[n] != 0;
			c.at = p;
			g_put[k](&c, g_calls[i % GUEST_COUNT(g_calls)].nr);
			mprotect(p, PAGE, PROT_READ | PROT_EXEC);
			wrong += hot(p, g_calls[i % GUEST_COUNT(g_calls)].result);
			/* Moved away, and back. */
			q = mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 2 * PAGE);
			wrong += q != p + 2 * PAGE || call_faults(p) != SIGSEGV;
			wrong += hot(q, g_calls[i % GUEST_COUNT(g_calls)].result);
			q = mremap(q, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p);
			wrong += q != p || hot(q, g_calls[i % GUEST_COUNT(g_calls)].result);
			/* Not executable for a while. */
			mprotect(p, PAGE, PROT_READ);
			wrong += call_faults(p) != SIGSEGV;
			mprotect(p, PAGE, PROT_NONE);
			wrong += call_faults(p) != SIGSEGV;
			mprotect(p, PAGE, PROT_READ | PROT_EXEC);
			wrong += hot(p, g_calls[i % GUEST_COUNT(g_calls)].result);
			munmap(p, PAGE);
			wrong += call_faults(p) != SIGSEGV;
		}
		printf("replaced %u: wrong %d not zero %d\n", k, wrong, zero);
		munmap(p, 4 * PAGE);
	}
}

/* Emptied text, that is written anew. */
static void emptied(void)
{
	for (unsigned k = 0; k < 2; k++) {
		struct code c = code_new(PAGE);
		int wrong = 0, zero = 0;

		for (unsigned i = 0; i < 12; i++) {
			c.at = c.start;
			g_put[k](&c, g_calls[i % GUEST_COUNT(g_calls)].nr);
			mprotect(c.start, PAGE, PROT_READ | PROT_EXEC);
			wrong += hot(c.start, g_calls[i % GUEST_COUNT(g_calls)].result);
			madvise(c.start, PAGE, MADV_DONTNEED);
			for (unsigned n = 0; n < 64; n++)
				zero += c.start[n] != 0;
			mprotect(c.start, PAGE, PROT_READ | PROT_WRITE);
			for (unsigned n = 0; n < 64; n++)
				zero += c.start[n] != 0;
		}
		printf("emptied %u: wrong %d not zero %d\n", k, wrong, zero);
		munmap(c.start, PAGE);
	}
}

/* Text of a file: dropped pages come back, and another file at the same place is another program.
 */
static void of_files(void)
{
	static const char *const names[] = {"one", "two"};
	uint8_t page[PAGE];
	void *p = map(NULL, PAGE, PROT_NONE);
	int wrong = 0;

	for (unsigned k = 0; k < 2; k++) {
		struct code c = {.start = page, .at = page};
		int fd = open(names[k], O_RDWR | O_CREAT | O_TRUNC, 0700);

		memset(page, 0xcc, sizeof(page));
		g_put[k](&c, g_calls[k].nr);
		c.at = page + 512;
		g_put[!k](&c, g_calls[k].nr);
		if (write(fd, page, sizeof(page)) != sizeof(page))
			puts("no file");
		close(fd);
	}
	for (unsigned i = 0; i < 20; i++) {
		int fd = open(names[i % 2], O_RDONLY);

		/* Over the other, or after an unmap: as a library that is closed and another
		 * loaded. */
		if (i % 4 > 1)
			munmap(p, PAGE);
		if (mmap(p, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) != p)
			puts("no mapping");
		close(fd);
		wrong +=
			hot(p, g_calls[i % 2].result) + hot((char *)p + 512, g_calls[i % 2].result);
		if (i % 3 == 0) {
			madvise(p, PAGE, MADV_DONTNEED);
			wrong += hot(p, g_calls[i % 2].result);
		}
	}
	printf("of files: wrong %d\n", wrong);
	munmap(p, PAGE);
}

/* --- Reading and writing one's own text, by the kernel's hand --- */

static int pread_mem(const void *p, void *buf, size_t n, bool write)
{
	int fd = open("/proc/self/mem", O_RDWR);
	ssize_t r = write ? pwrite(fd, buf, n, (off_t)(uintptr_t)p)
			  : pread(fd, buf, n, (off_t)(uintptr_t)p);

	close(fd);
	return r == (ssize_t)n;
}

static void read_back(void)
{
	for (unsigned k = 0; k < 2; k++) {
		struct code c = code_new(PAGE);
		uint8_t want[64], got[64];
		int fd[2], wrong = 0, file;

		memset(c.start, 0x90, 64);
		c.at = c.start + 20;
		g_put[k](&c, 3);
		memcpy(want, c.start, 64);
		code_done(c.start, PAGE);
		wrong += hot(c.start + 20, -9);
		wrong += pipe(fd) != 0;
		/* Whole, and each byte for itself: windows on the text have edges. */
		wrong += write(fd[1], c.start, 64) != 64;
		wrong += read(fd[0], got, 64) != 64 || memcmp(got, want, 64) != 0;
		for (unsigned i = 0; i < 64; i++) {
			wrong += write(fd[1], c.start + i, 1) != 1;
			wrong += read(fd[0], got, 1) != 1 || got[0] != want[i];
		}
		for (unsigned n = 1; n < 12; n++) {
			wrong += write(fd[1], c.start + 19, n) != (ssize_t)n;
			wrong +=
				read(fd[0], got, n) != (ssize_t)n || memcmp(got, want + 19, n) != 0;
		}
		printf("written to a pipe %u: wrong %d\n", k, wrong);
		wrong = 0;
		file = open("text", O_RDWR | O_CREAT | O_TRUNC, 0600);
		wrong += write(file, c.start, PAGE) != (ssize_t)PAGE;
		wrong += pread(file, got, 64, 0) != 64 || memcmp(got, want, 64) != 0;
		close(file);
		printf("written to a file %u: wrong %d\n", k, wrong);
		wrong = 0;
		for (unsigned i = 0; i < 64; i += 3) {
			struct iovec mine = {got, 64 - i}, its = {c.start + i, 64 - i};

			wrong += process_vm_readv(getpid(), &mine, 1, &its, 1, 0) !=
				 (ssize_t)(64 - i);
			wrong += memcmp(got, want + i, 64 - i) != 0;
		}
		printf("process_vm_readv %u: wrong %d\n", k, wrong);
		wrong = !pread_mem(c.start, got, 64, false);
		wrong += memcmp(got, want, 64) != 0;
		printf("/proc/self/mem %u: wrong %d\n", k, wrong);
		/* Written there: another number, while it is hot. */
		wrong = hot(c.start + 20, -9);
		for (unsigned i = 0; i < 20; i++) {
			const uint32_t nr = g_calls[i % GUEST_COUNT(g_calls)].nr;
			uint32_t v = nr;

			wrong += !pread_mem(c.start + 20 + (k ? 3 : 1), &v, 4, true);
			wrong += hot(c.start + 20, g_calls[i % GUEST_COUNT(g_calls)].result);
			wrong += !pread_mem(c.start + 20 + (k ? 3 : 1), &v, 4, false) || v != nr;
		}
		printf("text changed through /proc/self/mem %u: wrong %d\n", k, wrong);
		munmap(c.start, PAGE);
	}
	{
		/* Of the instruction behind, bytes that the jump does not cover: its constant's
		 * end. */
		struct code c = code_new(PAGE);
		const uint8_t *at;
		int wrong = 0;

		PUT(&c, "\xb8\xe8\x03\x00\x00\x0f\x05\xc3");
		c.at = c.start + 64;
		PUT(&c, "\x48\x89\xf8\x0f\x05"); /* mov %rdi, %rax; syscall */
		at = c.at + 3;
		PUT(&c, "\x48\xc7\xc0\x11\x22\x33\x44\xc3"); /* mov $0x44332211, %rax; ret */
		code_done(c.start, PAGE);
		for (int i = 0; i < 100; i++)
			wrong += call1(c.start + 64, 1000) != 0x44332211;
		for (uint8_t i = 1; i < 20; i++) {
			wrong += !pread_mem(at + 3, &i, 1, true);
			for (int n = 0; n < 50; n++)
				wrong += call1(c.start + 64, 1000) != 0x332211 + ((long)i << 24);
		}
		printf("the end of the instruction behind, changed: wrong %d\n", wrong);
	}
	{
		/* The syscall instruction itself, changed behind a mov that stays. */
		struct code c = code_new(PAGE);
		int wrong = 0;

		put_before(&c, 1000);
		code_done(c.start, PAGE);
		wrong += hot(c.start, -38);
		wrong += !pread_mem(c.start + 5, "\x90\x90", 2, true);
		wrong += hot(c.start, 1000);
		wrong += !pread_mem(c.start + 5, "\x0f\x05", 2, true);
		wrong += hot(c.start, -38);
		printf("no syscall for a while: wrong %d\n", wrong);
	}
}

/* Another process, which stands still, is changed. */
static void other_process(void)
{
	for (unsigned k = 0; k < 2; k++) {
		struct code c = code_new(PAGE);
		int go[2], done[2], wrong = 0, bad;
		char path[64], x;
		uint32_t v = 1000;
		pid_t pid;
		int fd;

		g_put[k](&c, 3);
		code_done(c.start, PAGE);
		wrong += hot(c.start, -9);
		wrong += pipe(go) + pipe(done);
		pid = guest_fork();
		if (pid == 0) {
			bad = hot(c.start, -9);
			bad += write(done[1], "x", 1) != 1;
			bad += read(go[0], &x, 1) != 1;
			bad += hot(c.start, -38);
			_exit(bad);
		}
		wrong += read(done[0], &x, 1) != 1;
		guest_until_asleep(pid);
		snprintf(path, sizeof(path), "/proc/%d/mem", pid);
		fd = open(path, O_RDWR);
		wrong += pwrite(fd, &v, 4, (off_t)(uintptr_t)c.start + (k ? 3 : 1)) != 4;
		close(fd);
		wrong += write(go[1], "x", 1) != 1;
		guest_wait("child", pid);
		/* Its own text has not changed. */
		wrong += hot(c.start, -9);
		printf("another process's text %u: wrong %d\n", k, wrong);
	}
}

/* --- Trampolines, if there are any: whatever is beside the text may be unmapped by its owner ---
 */

static unsigned each_trampoline(void (*f)(char *, size_t))
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long found[32][2], low, high;
	unsigned n = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (strstr(line, "[trampoline]") && n < 32 &&
		    sscanf(line, "%lx-%lx", &low, &high) == 2) {
			found[n][0] = low;
			found[n++][1] = high;
		}
	}
	if (maps)
		fclose(maps);
	for (unsigned i = 0; i < n; i++)
		f((char *)found[i][0], found[i][1] - found[i][0]);
	return n;
}

static void t_unmap(char *p, size_t n)
{
	munmap(p, n);
}

static void t_unmap_part(char *p, size_t n)
{
	(void)n;
	munmap(p, PAGE);
}

static void t_none(char *p, size_t n)
{
	mprotect(p, n, PROT_NONE);
}

static void t_write(char *p, size_t n)
{
	if (mprotect(p, n, PROT_READ | PROT_WRITE) == 0)
		memset(p, 0, n);
}

static void t_write_all(char *p, size_t n)
{
	if (mprotect(p, n, PROT_READ | PROT_WRITE | PROT_EXEC) == 0)
		memset(p, 0xcc, n);
}

static void t_drop(char *p, size_t n)
{
	madvise(p, n, MADV_DONTNEED);
}

static void t_over(char *p, size_t n)
{
	mmap(p, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void t_move(char *p, size_t n)
{
	mremap(p, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, map(NULL, n, PROT_NONE));
}

static void t_shrink(char *p, size_t n)
{
	mremap(p, n, PAGE, 0);
}

static void t_dontfork(char *p, size_t n)
{
	pid_t pid;

	madvise(p, n, MADV_DONTFORK);
	pid = guest_fork();
	if (pid == 0)
		_exit(getppid() < 0);
	waitpid(pid, NULL, 0);
}

static void trampolines(void)
{
	static void (*const ways[])(char *, size_t) = {t_unmap,     t_unmap_part, t_none, t_write,
						       t_write_all, t_drop,       t_over, t_move,
						       t_shrink,    t_dontfork};
	int wrong = 0;

	for (unsigned w = 0; w < GUEST_COUNT(ways); w++) {
		pid_t pid = guest_fork();

		/* libc's own sites as well. */
		if (pid == 0) {
			struct code c = code_new(PAGE);

			put_before(&c, 3);
			c.at = c.start + 64;
			put_after(&c, 1000);
			code_done(c.start, PAGE);
			for (int round = 0; round < 3; round++) {
				for (int i = 0; i < 60; i++)
					wrong += syscall(SYS_close, -1) != -1 || getppid() < 1;
				wrong += hot(c.start, -9) + hot(c.start + 64, -38);
				each_trampoline(ways[w]);
				wrong += hot(c.start, -9) + hot(c.start + 64, -38);
			}
			fflush(stdout);
			_exit(wrong);
		}
		printf("%u ", w);
		guest_wait("trampolines", pid);
	}
}

/* --- Processes --- */

static void processes(void)
{
	for (unsigned k = 0; k < 2; k++) {
		struct code c = code_new(PAGE);
		int wrong = 0, status;
		pid_t pid;

		g_put[k](&c, SYS_fork);
		c.at = c.start + 64;
		g_put[k](&c, 3);
		c.at = c.start + 128;
		/* vfork: the return address must not lie on the stack that both use. */
		PUT(&c, "\x5a"); /* pop %rdx */
		g_put[k](&c, SYS_vfork);
		c.at -= 1;
		PUT(&c, "\xff\xe2"); /* jmp *%rdx */
		code_done(c.start, PAGE);
		for (int i = 0; i < 60; i++) {
			pid = (pid_t)call1(c.start, -1);
			if (pid == 0)
				_exit(hot(c.start + 64, -9));
			wrong += waitpid(pid, &status, 0) != pid || status != 0;
			if (i % 8 == 0)
				wrong += hot(c.start + 64, -9);
		}
		printf("fork %u: wrong %d\n", k, wrong);
		wrong = 0;
		for (int i = 0; i < 60; i++) {
			pid = (pid_t)call1(c.start + 128, -1);
			if (pid == 0)
				_exit(i & 127);
			wrong += waitpid(pid, &status, 0) != pid || status != (i & 127) << 8;
		}
		printf("vfork %u: wrong %d\n", k, wrong);
		/* A child changes its text; the parent's is as it was. */
		wrong = 0;
		for (int i = 0; i < 10; i++) {
			pid = guest_fork();
			if (pid == 0) {
				mprotect(c.start, PAGE, PROT_READ | PROT_WRITE);
				c.at = c.start + 64;
				g_put[k](&c, 1000);
				mprotect(c.start, PAGE, PROT_READ | PROT_EXEC);
				_exit(hot(c.start + 64, -38));
			}
			wrong += hot(c.start + 64, -9);
			wrong += waitpid(pid, &status, 0) != pid || status != 0;
			wrong += hot(c.start + 64, -9);
		}
		printf("a child's text %u: wrong %d\n", k, wrong);
	}
	/* Not for children, or emptied for them. */
	for (unsigned k = 0; k < 2; k++) {
		struct code c = code_new(2 * PAGE);
		uint8_t *two = c.start + PAGE;
		int wrong = 0;
		pid_t pid;

		g_put[k](&c, 3);
		c.at = two;
		g_put[k](&c, 3);
		code_done(c.start, 2 * PAGE);
		wrong += hot(c.start, -9) + hot(two, -9);
		wrong +=
			madvise(c.start, PAGE, MADV_DONTFORK) + madvise(two, PAGE, MADV_WIPEONFORK);
		pid = guest_fork();
		if (pid == 0) {
			uint8_t got[64];

			wrong += call_faults(c.start) != SIGSEGV;
			wrong += !pread_mem(two, got, 64, false);
			for (int i = 0; i < 64; i++)
				wrong += got[i] != 0 || two[i] != 0;
			mprotect(two, PAGE, PROT_READ | PROT_WRITE);
			for (int i = 0; i < 64; i++)
				wrong += two[i] != 0;
			map(c.start, PAGE, PROT_READ | PROT_WRITE);
			for (int i = 0; i < 64; i++)
				wrong += c.start[i] != 0;
			_exit(wrong);
		}
		guest_wait("dontfork, wipeonfork", pid);
		wrong += hot(c.start, -9) + hot(two, -9);
		printf("parent: wrong %d\n", wrong);
	}
}

extern char **environ;

static void executes(int argc, char **argv)
{
	char depth[16];
	char *const args[] = {argv[0], depth, NULL};
	int n = argc > 1 ? atoi(argv[1]) : 0;

	for (int i = 0; i < 60; i++)
		syscall(SYS_close, -1);
	if (n == 5) {
		puts("executed five times");
		exit(0);
	}
	snprintf(depth, sizeof(depth), "%d", n + 1);
	fflush(stdout);
	execve("/proc/self/exe", args, environ);
	puts("no exec");
}

/* What an unwinder looks at to know a signal's frame. */
static const uint8_t *g_restorer;

static void on_usr(int sig)
{
	(void)sig;
	g_restorer = __builtin_return_address(0);
}

static void restorer(void)
{
	static const uint8_t want[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

	guest_handle(SIGUSR1, on_usr, 0);
	for (int i = 0; i < 300; i++)
		raise(SIGUSR1);
	printf("the restorer's bytes: %s\n",
	       memcmp(g_restorer, want, sizeof(want)) ? "others" : "its own");
}

int main(int argc, char **argv)
{
	if (argc > 1)
		executes(argc, argv);
	guest_begin();
	guest_handle(SIGSEGV, on_fault, 0);
	jit();
	writable();
	replaced();
	emptied();
	of_files();
	read_back();
	other_process();
	trampolines();
	processes();
	restorer();
	executes(argc, argv);
	return 0;
}
