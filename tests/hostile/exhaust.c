/* SPDX-License-Identifier: Apache-2.0 */
/* Tens of thousands of each thing the kernel hands out; and what is too large must fail at once. */
#include "hostile.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>

#define MANY 20000

static int new_pipe(void)
{
	int p[2];

	return pipe(p);
}
static int new_epoll(void)
{
	return epoll_create1(0);
}
static int new_timer(void)
{
	/* The shortest of intervals. */
	const struct itimerspec it = {{0, 1}, {0, 1}};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

	if (fd >= 0 && fd < 500)
		timerfd_settime(fd, 0, &it, NULL);
	return fd;
}
static int new_memfd(void)
{
	return memfd_create("x", 0);
}
static int new_file(void)
{
	return open("/tmp/f", O_RDWR | O_CREAT, 0666);
}
static int new_host_file(void)
{
	return open("/etc/passwd", O_RDONLY);
}
static int new_pty(void)
{
	return open("/dev/ptmx", O_RDWR | O_NOCTTY);
}
static int new_inotify(void)
{
	return inotify_init1(0);
}

static int (*const makers[])(void) = {new_pipe, new_epoll,     new_timer, new_memfd,
				      new_file, new_host_file, new_pty,   new_inotify};

static int failed;

static void must_fail(const char *what, long r)
{
	if (r != -1) {
		printf("%s: %ld\n", what, r);
		failed = 1;
	}
}

static int bomb(void)
{
	const struct rlimit few = {100, 100};
	int refused = 0;

	/* Root may have as many as it likes. */
	if (setgid(1000) < 0 || setuid(1000) < 0 || setrlimit(RLIMIT_NPROC, &few) < 0)
		return 2;
	for (int i = 0; i < 300; i++) {
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				pause();
		refused += pid < 0 && errno == EAGAIN;
	}
	return refused >= 200 ? 0 : 1;
}

int main(void)
{
	const struct rlimit files = {2 * MANY, 2 * MANY};
	pid_t pid;
	int fd;

	hostile_begin();
	setrlimit(RLIMIT_NOFILE, &files);
	for (size_t i = 0; i < HOSTILE_COUNT(makers); i++) {
		for (int n = 0; n < MANY && makers[i]() >= 0; n++)
			;
		close_range(3, ~0u, 0);
	}
	/* More than any sandbox has. The runner limits the size of files, should it be tried. */
	fd = memfd_create("x", 0);
	must_fail("fallocate of a memfd", fallocate(fd, 0, 0, INT64_C(1) << 42));
	if (errno != ENOSPC) {
		printf("fallocate: %s\n", strerror(errno));
		failed = 1;
	}
	fd = open("/tmp/f", O_RDWR | O_CREAT, 0666);
	must_fail("fallocate of a file", fallocate(fd, 0, 0, INT64_C(1) << 42));
	must_fail("write at the end", pwrite(fd, "x", 1, INT64_MAX));
	for (int i = 0; i < 64; i++)
		mmap(NULL, UINT64_C(1) << 42, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	pid = fork();
	if (pid == 0)
		_exit(bomb());
	if (end_of(pid, 20000) != 0) {
		puts("a fork bomb is not refused");
		failed = 1;
	}
	kill(-1, SIGKILL);
	if (!failed)
		puts("ok");
	return failed;
}
