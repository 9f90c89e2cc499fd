/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes known numbers of system calls, for tests/run-stats.sh. Arguments: what to do, and a file
 * that it may write.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void count(void)
{
	for (int i = 0; i < 1000; i++)
		syscall(SYS_getppid);
	for (int i = 0; i < 7; i++)
		syscall(SYS_close, -1);
	syscall(600);
	syscall(511);
}

static void sleeps(void)
{
	const struct timespec ts = {.tv_nsec = 2000000};

	for (int i = 0; i < 5; i++)
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* The child is inside of read() all the time that the parent makes the sentry call the host. */
static int files(const char *path)
{
	int pipes[2], fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644), status;
	char c = 'x';

	if (fd < 0 || pipe(pipes))
		return 1;
	if (fork() == 0)
		_exit(read(pipes[0], &c, 1) != 1);
	for (int i = 0; i < 50; i++) {
		if (pwrite(fd, &c, 1, i) != 1)
			return 1;
	}
	for (int i = 0; i < 3; i++) {
		if (fsync(fd))
			return 1;
	}
	if (write(pipes[1], &c, 1) != 1 || wait(&status) < 0)
		return 1;
	return status != 0;
}

/* A site of this program's, called as often as is said. */
static int calls(const char *count)
{
	const long n = strtol(count, NULL, 10);
	int wrong = 0;

	for (long i = 0; i < n; i++) {
		long r;

		__asm__ volatile("mov $3, %%eax\n\tsyscall" /* close */
				 : "=a"(r)
				 : "D"(-1L)
				 : "rcx", "r11", "memory");
		wrong += r != -EBADF;
	}
	return wrong != 0;
}

/* Each child asks once, as the C library's would. */
static int children(void)
{
	for (int i = 0; i < 20; i++) {
		const pid_t child = fork();
		int status;

		if (child == 0)
			_exit(syscall(SYS_getpid) == 1);
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "count") == 0)
		count();
	if (argc > 1 && strcmp(argv[1], "sleeps") == 0)
		sleeps();
	if (argc > 1 && strcmp(argv[1], "children") == 0)
		return children();
	if (argc > 3 && strcmp(argv[3], "hidden") == 0 && prctl(PR_SET_DUMPABLE, 0) != 0)
		return 1;
	if (argc > 2 && strcmp(argv[1], "calls") == 0)
		return calls(argv[2]);
	if (argc > 2 && strcmp(argv[1], "files") == 0)
		return files(argv[2]);
	return 3;
}
