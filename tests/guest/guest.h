/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a differential guest program reports: one line per fact, with nothing in
 * it that two runs need not share (no addresses, ids, times, temporary names).
 *
 * A program runs natively and on moat, and both outputs must be the same, so a
 * program asserts nothing itself: it prints what it saw. Its working directory
 * is a fresh one below $TMPDIR once it has called guest_begin().
 */
#ifndef TESTS_GUEST_GUEST_H
#define TESTS_GUEST_GUEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define GUEST_UNUSED __attribute__((unused))
#define GUEST_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The name of an errno value; kernel-internal ones that leak show as numbers. */
static GUEST_UNUSED const char *guest_errno(int e)
{
	static char text[32];
	const char *name = strerrorname_np(e);

	if (name)
		return name;
	snprintf(text, sizeof(text), "E%d", e);
	return text;
}

static GUEST_UNUSED long guest_value(const char *what, long v)
{
	int saved = errno;

	if (v == -1)
		printf("%s = -1 %s\n", what, guest_errno(saved));
	else
		printf("%s = %ld\n", what, v);
	errno = saved;
	return v;
}

static GUEST_UNUSED long guest_done(const char *what, long v)
{
	int saved = errno;

	if (v == -1)
		printf("%s = -1 %s\n", what, guest_errno(saved));
	else
		printf("%s ok\n", what);
	errno = saved;
	return v;
}

static GUEST_UNUSED void guest_code(const char *what, int e)
{
	printf("%s -> %s\n", what, e ? guest_errno(e) : "0");
}

/* V prints a result, OK only that there was one (descriptors, ids, addresses), E an error number.
 */
#define V(expr) (errno = 0, guest_value(#expr, (long)(expr)))
#define OK(expr) (errno = 0, guest_done(#expr, (long)(expr)))
#define E(expr) guest_code(#expr, (expr))
/* T prints a truth; P prints a subject heading. */
#define T(expr) printf("%s: %s\n", #expr, (expr) ? "yes" : "no")
#define P(text) printf("-- %s\n", text)

static GUEST_UNUSED const char *guest_signal(int sig)
{
	static char text[4][16];
	static unsigned next;
	char *t = text[next++ % 4];
	const char *name = sigabbrev_np(sig);

	if (name)
		snprintf(t, 16, "SIG%s", name);
	else if (sig >= SIGRTMIN && sig <= SIGRTMAX)
		snprintf(t, 16, "RTMIN+%d", sig - SIGRTMIN);
	else
		snprintf(t, 16, "signal %d", sig);
	return t;
}

/* Wait statuses without the core flag, which is the host's policy. */
static GUEST_UNUSED void guest_status(const char *who, int status)
{
	if (WIFEXITED(status))
		printf("%s: exit %d\n", who, WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		printf("%s: killed by %s\n", who, guest_signal(WTERMSIG(status)));
	else if (WIFSTOPPED(status))
		printf("%s: stopped by %s\n", who, guest_signal(WSTOPSIG(status)));
	else if (WIFCONTINUED(status))
		printf("%s: continued\n", who);
	else
		printf("%s: status %#x\n", who, (unsigned)status);
}

/* Fork with nothing left in stdio to be written twice. */
static GUEST_UNUSED pid_t guest_fork(void)
{
	fflush(stdout);
	return fork();
}

/* A child that does nothing until *go, a descriptor of ours, is closed. */
static GUEST_UNUSED pid_t guest_fork_idle(int *go)
{
	int fd[2];
	char byte;
	pid_t pid;

	if (pipe(fd) < 0)
		return -1;
	pid = guest_fork();
	if (!pid) {
		close(fd[1]);
		_exit(read(fd[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(fd[0]);
	*go = fd[1];
	return pid;
}

/* Wait for a child of ours and report how it ended. */
static GUEST_UNUSED void guest_wait(const char *who, pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno == EINTR)
			continue;
		printf("%s: waitpid %s\n", who, guest_errno(errno));
		return;
	}
	guest_status(who, status);
}

static GUEST_UNUSED void guest_sleep_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

static GUEST_UNUSED int64_t guest_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The state letter of a task in /proc, 0 if there is none. */
static GUEST_UNUSED char guest_state(pid_t pid, pid_t tid)
{
	char path[64], text[512], *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	end = strrchr(text, ')');
	return end && end[1] ? end[2] : 0;
}

/* Wait until a task sleeps (or has the given state), which is how a test knows that it blocks. */
static GUEST_UNUSED void guest_until(pid_t pid, pid_t tid, char state)
{
	for (int i = 0; i < 5000; i++) {
		if (guest_state(pid, tid) == state)
			return;
		guest_sleep_ms(1);
	}
	printf("no task came to state %c\n", state);
}

#define guest_until_asleep(pid) guest_until(pid, pid, 'S')

static GUEST_UNUSED void guest_begin(void)
{
	char path[PATH_MAX];
	const char *tmp = getenv("TMPDIR");

	setvbuf(stdout, NULL, _IOLBF, 1 << 16);
	umask(022);
	snprintf(path, sizeof(path), "%s/guest.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(path) || chdir(path)) {
		printf("no working directory: %s\n", guest_errno(errno));
		exit(1);
	}
}

/* Make a file with the given text. */
static GUEST_UNUSED void guest_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	size_t size = strlen(text);

	if (fd < 0 || write(fd, text, size) != (ssize_t)size)
		printf("cannot make %s: %s\n", path, guest_errno(errno));
	if (fd >= 0)
		close(fd);
}

static GUEST_UNUSED sighandler_t guest_handle(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa = {.sa_handler = fn, .sa_flags = flags}, old;

	if (sigaction(sig, &sa, &old))
		return SIG_ERR;
	return old.sa_handler;
}

#endif
