/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose first thread has ended: signals reach the threads that live, and what happens to
 * it happens to no task that was made since.
 */
#include "guest.h"

#define LEFT 6

static void *sleep_on(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void *exec_on(void *arg)
{
	char byte;

	(void)!read(*(int *)arg, &byte, 1);
	execl("/bin/true", "true", (char *)NULL);
	return NULL;
}

static void on_usr(int sig)
{
	(void)sig;
	_exit(7);
}

/* A process without its leader; its other thread sleeps, or executes once it has read from @fd. */
static pid_t leaderless(int fd)
{
	const pid_t pid = fork();
	char path[64], line[256] = "";
	pthread_t t;

	if (pid == 0) {
		signal(SIGUSR1, on_usr);
		pthread_create(&t, NULL, fd >= 0 ? exec_on : sleep_on, &fd);
		syscall(SYS_exit, 0);
	}
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (!strstr(line, ") Z ")) {
		const int f = open(path, O_RDONLY);

		memset(line, 0, sizeof(line));
		(void)!read(f, line, sizeof(line) - 1);
		close(f);
		usleep(1000);
	}
	return pid;
}

static void ended(const char *what, pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		printf("%s: not waited for, %s\n", what, guest_errno(errno));
	else if (WIFSIGNALED(status))
		printf("%s: killed by %d\n", what, WTERMSIG(status));
	else
		printf("%s: status %d\n", what, WEXITSTATUS(status));
}

/* Sleeps in vfork until its child was told to end: 0 if it did not go on before. */
static pid_t vforker(int ready, int go)
{
	static volatile int child_ended;
	const pid_t pid = fork();
	char byte = 0;

	if (pid)
		return pid;
	if (vfork() == 0) {
		(void)!write(ready, &byte, 1);
		(void)!read(go, &byte, 1);
		child_ended = 1;
		_exit(0);
	}
	_exit(!child_ended);
}

/* @how: the signal that the leaderless processes get, or 0 for exec. */
static void round_of(const char *what, int how)
{
	pid_t left[LEFT], young[LEFT];
	int ready[2], go[2], run[2];
	char bytes[LEFT] = "";

	if (pipe(ready) || pipe(go) || pipe(run))
		abort();
	for (int i = 0; i < LEFT; i++)
		left[i] = leaderless(how ? -1 : run[0]);
	for (int i = 0; i < LEFT; i++)
		young[i] = vforker(ready[1], go[0]);
	for (int i = 0; i < LEFT; i++)
		(void)!read(ready[0], bytes, 1);
	for (int i = 0; i < LEFT && how; i++)
		kill(left[i], how);
	if (!how)
		(void)!write(run[1], bytes, LEFT);
	for (int i = 0; i < LEFT; i++)
		ended(what, left[i]);
	(void)!write(go[1], bytes, LEFT);
	for (int i = 0; i < LEFT; i++)
		ended("a younger process in vfork", young[i]);
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(go[i]);
		close(run[i]);
	}
}

int main(void)
{
	pid_t pid;
	int status;

	guest_begin();
	round_of("killed without a leader", SIGKILL);
	round_of("ended without a leader", SIGTERM);
	round_of("a handler without a leader", SIGUSR1);
	round_of("exec without a leader", 0);

	pid = leaderless(-1);
	kill(pid, SIGSTOP);
	guest_value("stopped", waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	kill(pid, SIGCONT);
	guest_value("continued", waitpid(pid, &status, WCONTINUED) == pid && WIFCONTINUED(status));
	guest_value("its leader", syscall(SYS_tgkill, pid, pid, SIGTERM));
	guest_value("nobody but the leader was told", waitpid(pid, &status, WNOHANG));
	kill(pid, SIGTERM);
	ended("at last", pid);
	return 0;
}
