/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro-operations: signals, threads, processes.
 */
#include "bench/micro.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t g_signals;

static void on_signal(int sig)
{
	(void)sig;
	g_signals = g_signals + 1;
}

static int prepare_signal(struct bench *b, const struct op *op)
{
	struct sigaction sa = {.sa_handler = on_signal};

	(void)b, (void)op;
	return sigaction(SIGUSR1, &sa, NULL);
}

/* One operation: send to oneself, handler, return. */
static int run_signal(struct bench *b, const struct op *op, uint64_t n)
{
	pid_t pid = getpid(), tid = (pid_t)syscall(SYS_gettid);
	uint64_t want = n;

	(void)b, (void)op;
	g_signals = 0;
	while (n-- > 0)
		if (syscall(SYS_tgkill, pid, tid, SIGUSR1) != 0)
			return -1;
	if ((uint64_t)g_signals != want) {
		errno = EIO;
		return -1;
	}
	return 0;
}

static int cleanup_signal(struct bench *b, const struct op *op)
{
	(void)b, (void)op;
	return signal(SIGUSR1, SIG_DFL) == SIG_ERR ? -1 : 0;
}

static void *thread_nothing(void *arg)
{
	return arg;
}

static int run_thread(struct bench *b, const struct op *op, uint64_t n)
{
	pthread_t t;

	(void)b, (void)op;
	while (n-- > 0) {
		int err = pthread_create(&t, NULL, thread_nothing, NULL);

		if (err == 0)
			err = pthread_join(t, NULL);
		if (err) {
			errno = err;
			return -1;
		}
	}
	return 0;
}

enum child_kind { CHILD_EXIT, CHILD_EXEC };

static int run_fork(struct bench *b, const struct op *op, uint64_t n)
{
	while (n-- > 0) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			if (op->kind == CHILD_EXEC)
				execl(b->self, b->self, "--exit", (char *)NULL);
			_exit(op->kind == CHILD_EXEC ? 127 : 0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return -1;
		if (status != 0) {
			errno = ENOEXEC;
			return -1;
		}
	}
	return 0;
}

const struct op g_task_ops[] = {
	{.name = "signal", .prepare = prepare_signal, .run = run_signal, .cleanup = cleanup_signal},
	{.name = "thread", .run = run_thread},
	{.name = "fork_wait", .run = run_fork, .kind = CHILD_EXIT},
	{.name = "fork_exec_wait", .run = run_fork, .kind = CHILD_EXEC},
	{.name = NULL},
};
