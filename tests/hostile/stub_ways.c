/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest can do to the trap stub by its own means: frames of its own for the host's
 * sigreturn, all signals blocked, changes of the map around and over the stub, exhausted
 * trampolines, rewriting and forks at once. Elsewhere most of that finds nothing. */
#include "host_calls.h"
#include "host_frame.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/shm.h>
#include <ucontext.h>

static struct frame *frame_for(void *rip, uint64_t mask)
{
	/* What is set at random in the first may lead into the second. */
	static __thread struct frame f[2];

	memset(&f[1], 0, sizeof(f[1]));
	frame_fill(f, (void (*)(void))rip, mask);
	return f;
}

static volatile uint64_t g_turns;

static void spins(void)
{
	for (;;)
		g_turns++;
}

static void calls_on(void)
{
	for (;;) {
		syscall(SYS_close, -1);
		g_turns++;
	}
}

static void quiet(void)
{
	const int null = open("/dev/null", O_RDWR);

	for (int k = 0; k < 3; k++)
		dup2(null, k);
}

static void *deaf(void *arg)
{
	host_sigreturn(frame_for(arg, ~UINT64_C(0)));
	return arg;
}

/* A thread that is deaf to all signals; the others end, change text, are killed. */
static void deaf_threads(void)
{
	for (int how = 0; how < 6; how++) {
		pid_t pid = fork();

		if (pid == 0) {
			pthread_t t;

			quiet();
			for (int i = 0; i < 60; i++)
				syscall(SYS_close, -1);
			pthread_create(&t, NULL, deaf, how & 1 ? (void *)calls_on : (void *)spins);
			usleep(20000);
			if (how / 2 == 0)
				_exit(0);
			if (how / 2 == 1)
				execve("/bin/true", (char *[]){"true", NULL}, NULL);
			deaf((void *)spins);
		}
		usleep(60000);
		if (how / 2 == 2)
			kill(pid, SIGKILL);
	}
}

static void forged_frames(void)
{
	for (unsigned i = 0; i < 160; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct frame *f =
				frame_for(rnd_below(2) ? (void *)calls_on : (void *)spins, rnd());

			quiet();
			hostile_seed = (i + 1) * 0x9e3779b97f4a7c15u;
			alarm(1);
			for (uint64_t n = rnd_below(6); n > 0; n--)
				((uint64_t *)f)[rnd_below(offsetof(struct frame, info) / 8)] =
					rnd_value();
			if (rnd_below(3) == 0)
				f->fpstate = (uint64_t)g_stack + rnd_below(1024) * 8;
			if (rnd_below(3) == 0) {
				/* A stack of the handler's in somebody's area, or in the text. */
				f->stack.ss_sp = (void *)(STUB_REGION + rnd_below(0x1100) * 4096);
				f->stack.ss_size = 0x7000;
				f->stack.ss_flags = 0;
			}
			host_sigreturn(f);
			_exit(0);
		}
		if (i % 4 == 3)
			usleep(1000);
		if (i % 16 == 15)
			kill(pid, SIGKILL);
	}
}

/* Nothing of the stub's can be mapped, moved, protected or thrown away. */
static int over_the_stub(void)
{
	const size_t size = 65536;
	int done = 0;
	char *mine = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (uint64_t at = STUB_REGION; at < STUB_REGION + STUB_REGION_SIZE;
	     at += at < STUB_REGION + 0x60000 || (at & 0xffffff) < 0x20000 ? 0x1000 : 0x10000) {
		void *p = (void *)at;

		done += mmap(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
		done += mmap(p, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			     -1, 0) != MAP_FAILED;
		done += mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
		done += mremap(p, 4096, 8192, MREMAP_MAYMOVE) != MAP_FAILED;
		done += mremap(mine, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, p) != MAP_FAILED;
		done += madvise(p, 4096, MADV_DONTNEED) == 0;
		done += shmat(-1, p, SHM_REMAP) != MAP_FAILED;
		(void)munmap(p, 4096);
		(void)syscall(SYS_remap_file_pages, p, 4096, 0, 0, 0);
	}
	/* From below, over the edge. */
	done += mmap((void *)(STUB_REGION - 4096), 8192, PROT_READ,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
	done += mprotect((void *)(STUB_REGION - 4096), 65536 + 8192, PROT_READ) == 0;
	(void)munmap((void *)(STUB_REGION - 4096), 1 << 20);
	return done;
}

/* Hot code that is written anew until there are no trampolines left; the map must not grow on. */
static int trampolines(void)
{
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 3,    0,    0, 0,
				       0x0f, 0x05, 0x48, 0x83, 0xf8, 1, 0xc3};
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned lines[2] = {0}, wrong = 0;
	char text[4096];
	long r;

	for (unsigned i = 0; i < 1800; i++) {
		mprotect(p, 4096, PROT_READ | PROT_WRITE);
		memcpy(p, code, sizeof(code));
		mprotect(p, 4096, PROT_READ | PROT_EXEC);
		for (int k = 0; k < 26; k++) {
			__asm__ volatile("call *%1"
					 : "=a"(r)
					 : "r"(p), "D"(-1L)
					 : "rcx", "r11", "memory", "cc");
			wrong += r != -9;
		}
		if (i == 1500 || i == 1799) {
			int fd = open("/proc/self/maps", O_RDONLY);
			ssize_t n;

			while ((n = read(fd, text, sizeof(text))) > 0)
				for (ssize_t k = 0; k < n; k++)
					lines[i == 1799] += text[k] == '\n';
			close(fd);
		}
	}
	if (lines[1] > lines[0] + 2)
		printf("the map grows: %u, %u\n", lines[0], lines[1]);
	return wrong != 0 || lines[1] > lines[0] + 2;
}

/* Threads that make sites hot and cold, and fork and exec meanwhile. */
static void *heats(void *arg)
{
	static const uint8_t code[] = {0xb8, 3, 0, 0, 0, 0x0f, 0x05, 0xc3};

	for (;;) {
		uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);
		long r;

		memcpy(p, code, sizeof(code));
		mprotect(p, 4096, PROT_READ | PROT_EXEC);
		for (int k = 0; k < 26; k++)
			__asm__ volatile("call *%1"
					 : "=a"(r)
					 : "r"(p), "D"(-1L)
					 : "rcx", "r11", "memory", "cc");
		if (rnd_below(2))
			munmap(p, 4096);
	}
	return arg;
}

static void at_once(void)
{
	for (int i = 0; i < 6; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			pthread_t t;

			quiet();
			for (int k = 0; k < 3; k++)
				pthread_create(&t, NULL, heats, NULL);
			for (int k = 0; k < 20; k++) {
				if (fork() == 0)
					_exit(0);
				usleep(500);
			}
			if (i & 1)
				execve("/bin/true", (char *[]){"true", NULL}, NULL);
			_exit(0);
		}
	}
}

/* Memory goes behind the sentry's back: what it is told to unmap, fork, write and map afterwards;
 * at last anything at all. What lies in the stub's region stays. */
static void gone_memory(void)
{
	for (unsigned i = 0; i < 96; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			char *p[8];

			quiet();
			alarm(1);
			hostile_seed = (i + 1) * 0x9e3779b97f4a7c15u;
			for (int k = 0; k < 60; k++)
				syscall(SYS_close, -1);
			for (int k = 0; k < 8; k++)
				p[k] = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			for (int k = 0; k < 200; k++) {
				char *q = p[rnd_below(8)];
				const uint64_t from = rnd_below(16) * 4096;

				if (rnd_below(2))
					host_munmap((uint64_t)q + from, 4096);
				if (rnd_below(2))
					munmap(q + from, 4096 * (1 + rnd_below(4)));
				if (rnd_below(4) == 0)
					mmap(q + from, 8192, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
				if (rnd_below(4) == 0)
					mremap(q, 8192, 16384, MREMAP_MAYMOVE);
				if (rnd_below(8) == 0)
					(void)!write(1, q, 65536);
				if (rnd_below(64) == 0 && fork() == 0)
					_exit(0);
			}
			for (uint64_t at = 0; at < STUB_REGION_SIZE; at += 0x1000)
				host_munmap(STUB_REGION + at, 0x1000);
			host_munmap(STUB_REGION - 0x100000, 0x200000);
			/* Its stack, its text, the trampolines. */
			for (int k = 0; k < 2000; k++)
				host_munmap((rnd_below(2) ? (uint64_t)__builtin_frame_address(0)
							  : (uint64_t)gone_memory) +
							    (rnd_below(512) - 256) * 4096 &
						    ~UINT64_C(4095),
					    4096);
			_exit(0);
		}
		if (i % 4 == 3)
			usleep(1000);
	}
}

static void ends(int sig)
{
	(void)sig;
	_exit(0);
}

/* Who keeps a mapping that it was to unmap, or map over, cannot change what is sealed then. */
static int sealed_memory(bool over)
{
	const int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
	volatile char *p;
	char c = 0;

	if (ftruncate(fd, 4096) != 0)
		return 1;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p[0] = 'a';
	for (int i = 0; i < 60; i++)
		syscall(SYS_close, -1);
	/* Where there is no such area, or nobody looks at it. */
	signal(SIGSEGV, ends);
	signal(SIGALRM, ends);
	alarm(2);
	call_by_hand(over ? SYS_mmap : SYS_munmap,
		     (uint64_t[6]){(uint64_t)p, 4096, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, UINT64_MAX, 0});
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0)
		return 0;
	p[0] = 'b';
	return pread(fd, &c, 1, 0) != 1 || c != 'a';
}

static int sealed_unmapped(void)
{
	return sealed_memory(false);
}

static int sealed_covered(void)
{
	return sealed_memory(true);
}

/* Runs @f in a child, which must end well. */
static void must(const char *what, int (*f)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(f() != 0);
	waitpid(pid, &status, 0);
	if (status != 0) {
		printf("%s: status %#x\n", what, status);
		exit(1);
	}
}

int main(void)
{
	hostile_begin();
	must("over the stub", over_the_stub);
	must("trampolines", trampolines);
	must("sealed, unmapped", sealed_unmapped);
	must("sealed, mapped over", sealed_covered);
	at_once();
	forged_frames();
	gone_memory();
	deaf_threads();
	usleep(200000);
	kill(-1, SIGKILL);
	while (wait(NULL) > 0)
		;
	must("over the stub", over_the_stub);
	puts("ok");
	return 0;
}
