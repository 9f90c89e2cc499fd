/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things that end while somebody else is about to use them: timers, limits of a process that ends,
 * groups, processes that were never made. What such a race yields must not differ; that it leads to
 * nothing that is gone, sanitizers see. Who races with another process has executed this program
 * again: moat serves what was only forked on its parent's worker, one at a time.
 */
#include "guest.h"
#include <sys/resource.h>

static _Atomic int stop;

/* ---- a process whose end leaves its group orphaned, with a stopped member ---- */

static void ended(const char *what, pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		printf("%s: not waited for, %s\n", what, guest_errno(errno));
	else
		printf("%s: %s %d\n", what, WIFSIGNALED(status) ? "killed by" : "status",
		       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void orphaning(void)
{
	int pipe_fd[2], status;
	char byte;
	pid_t pid, m;

	if (pipe(pipe_fd))
		abort();
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		m = fork();
		if (m == 0) {
			close(pipe_fd[0]);
			raise(SIGSTOP);
			_exit(1);
		}
		waitpid(m, &status, WUNTRACED);
		/* The thread's end, not the group's. */
		syscall(SYS_exit, 3);
	}
	close(pipe_fd[1]);
	ended("its end orphans its group", pid);
	/* SIGHUP has ended the one that was stopped. */
	guest_value("who was stopped has ended", read(pipe_fd[0], &byte, 1));
	close(pipe_fd[0]);
}

/* ---- timers whose number another thread guesses ---- */

static _Atomic int guess;

static void *delete_timers(void *arg)
{
	(void)arg;
	/* They are given out in turn. */
	while (!stop)
		for (int k = 1; k < 4; k++)
			syscall(SYS_timer_delete, guess + k);
	return NULL;
}

/* Whoever is told that an address is bad waits for the lock of the memory first, and a fork holds
 * it. */
static void *fork_on(void *arg)
{
	(void)arg;
	while (!stop) {
		const pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	return NULL;
}

static void guessed_timers(void)
{
	struct sigevent ev = {.sigev_notify = SIGEV_NONE};
	unsigned faults = 0, made = 0;
	pthread_t t, memory;
	int id = 0;

	stop = 0;
	pthread_create(&t, NULL, delete_timers, NULL);
	pthread_create(&memory, NULL, fork_on, NULL);
	for (int i = 0; i < 2000; i++) {
		faults += syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, (void *)16) == -1 &&
			  errno == EFAULT;
		made += syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &id) == 0;
		guess = id;
		syscall(SYS_timer_delete, id);
	}
	stop = 1;
	pthread_join(t, NULL);
	pthread_join(memory, NULL);
	printf("timers: %u with a bad address, %u made\n", faults, made);
}

/* ---- a timer for a thread that has ended ---- */

static void *tell_tid(void *arg)
{
	*(_Atomic pid_t *)arg = (pid_t)syscall(SYS_gettid);
	while (!stop)
		usleep(100);
	return NULL;
}

static void timer_for_the_dead(void)
{
	struct itimerspec soon = {.it_value.tv_nsec = 2000000, .it_interval.tv_nsec = 1000000};
	struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 3};
	_Atomic pid_t tid = 0;
	pthread_t t;
	timer_t timer;

	stop = 0;
	pthread_create(&t, NULL, tell_tid, &tid);
	while (!tid)
		usleep(100);
	ev._sigev_un._tid = tid;
	guest_value("timer_create", timer_create(CLOCK_MONOTONIC, &ev, &timer));
	stop = 1;
	pthread_join(t, NULL);
	guest_value("timer_settime", timer_settime(timer, 0, &soon, NULL));
	usleep(20000);
	guest_value("timer_delete", timer_delete(timer));
}

/* ---- parts that other processes play ---- */

static void *end_too(void *arg)
{
	(void)arg;
	return NULL;
}

static int end_at_once(bool with_thread)
{
	pthread_t t;

	if (with_thread)
		pthread_create(&t, NULL, end_too, NULL);
	return (int)syscall(SYS_exit, 0);
}

/* Asks for children of its group, of which there are none. */
static int ask_for_children(void)
{
	siginfo_t info;
	int status, wrong = 0;

	for (int i = 0; i < 20000; i++) {
		if (waitpid(0, &status, WNOHANG) != -1 || errno != ECHILD)
			wrong++;
		if (waitid(P_PGID, 0, &info, WEXITED | WNOHANG) != -1 || errno != ECHILD)
			wrong++;
	}
	return wrong != 0;
}

/* ---- who waits for a thread by its pidfd ---- */

static void pidfd_of_a_thread(void)
{
	_Atomic pid_t tid = 0;
	struct pollfd p = {.events = POLLIN};
	pthread_t t;

	stop = 0;
	pthread_create(&t, NULL, tell_tid, &tid);
	while (!tid)
		usleep(100);
	/* PIDFD_THREAD; before Linux 6.9 there is none, and nothing to compare. */
	p.fd = (int)syscall(SYS_pidfd_open, tid, O_EXCL);
	stop = 1;
	if (p.fd >= 0 && (poll(&p, 1, 20000) != 1 || !(p.revents & POLLIN)))
		printf("a thread's end was not told\n");
	pthread_join(t, NULL);
	close(p.fd);
}

/* ---- limits of a process that ends ---- */

static void limits_of_the_dying(void)
{
	const struct rlimit limit = {1000, 2000};
	unsigned waited = 0;

	for (int i = 0; i < 100; i++) {
		const pid_t pid = fork();

		if (pid == 0) {
			execl("/proc/self/exe", "ends", i % 2 ? "end" : "end-with-thread",
			      (char *)NULL);
			_exit(127);
		}
		while (waitpid(pid, NULL, WNOHANG) == 0)
			for (int k = 0; k < 10; k++)
				prlimit(pid, RLIMIT_CPU, &limit, NULL);
		waited++;
	}
	printf("limits: %u ended\n", waited);
}

/* ---- a group that goes while its last member asks for its children ---- */

static int move(pid_t asker)
{
	siginfo_t info = {0};
	int status = 0;

	do {
		const pid_t leader = fork();

		if (leader == 0) {
			pause();
			_exit(0);
		}
		setpgid(leader, leader);
		setpgid(asker, leader);
		kill(leader, SIGKILL);
		waitpid(leader, NULL, 0);
		waitid(P_PID, (id_t)asker, &info, WEXITED | WNOHANG | WNOWAIT);
	} while (info.si_pid == 0);
	waitpid(asker, &status, 0);
	return status != 0;
}

static void group_moves(void)
{
	const pid_t mover = fork();
	char text[16];

	if (mover == 0) {
		/* A process that executed a program could not be moved. */
		const pid_t asker = fork();

		if (asker == 0)
			_exit(ask_for_children());
		snprintf(text, sizeof(text), "%d", asker);
		execl("/proc/self/exe", "ends", "move", text, (char *)NULL);
		_exit(127);
	}
	ended("who asked for its group's children was moved", mover);
}

/* ---- a record lock that is had only when its descriptor is closed ---- */

static int lock_fd;

static void *lock_later(void *arg)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = 0, .l_len = 10};

	(void)arg;
	guest_value("a lock without a descriptor", fcntl(lock_fd, F_SETLKW, &l));
	return NULL;
}

static void locked_too_late(void)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 100};
	int told[2], status;
	pthread_t t;
	char byte;
	pid_t pid;

	lock_fd = open("locked", O_RDWR | O_CREAT, 0600);
	unlink("locked");
	if (lock_fd < 0 || pipe(told))
		abort();
	pid = fork();
	if (pid == 0) {
		fcntl(lock_fd, F_SETLK, &l);
		(void)!write(told[1], "", 1);
		pause();
		_exit(0);
	}
	(void)!read(told[0], &byte, 1);
	pthread_create(&t, NULL, lock_later, NULL);
	usleep(20000);
	/* Where the lock lies is another place now, counted from the end. */
	(void)!ftruncate(lock_fd, 1000);
	close(lock_fd);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	pthread_join(t, NULL);
	close(told[0]);
	close(told[1]);
}

/* ---- children that are not made after all ---- */

static void never_born(void)
{
	const unsigned long flags[] = {0, CLONE_VM | CLONE_VFORK, CLONE_FILES | CLONE_FS};
	unsigned faults = 0;
	int status;
	pid_t pid;

	for (int i = 0; i < 60; i++)
		faults += syscall(SYS_clone, flags[i % 3] | CLONE_PIDFD | SIGCHLD, NULL, (void *)16,
				  NULL, NULL) == -1 &&
			  errno == EFAULT;
	printf("clone: %u with a bad address\n", faults);
	guest_value("no child", waitpid(-1, &status, WNOHANG));
	pid = fork();
	if (pid == 0)
		_exit(5);
	ended("a child that is", pid);
}

/* ---- a program executed by a thread, with things that belonged to the others ---- */

static pthread_barrier_t g_all;

static void *exec_true(void *arg)
{
	(void)arg;
	execl("/bin/true", "true", (char *)NULL);
	return NULL;
}

static void *own_things(void *arg)
{
	struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 4};
	struct itimerspec often = {.it_value.tv_nsec = 100000, .it_interval.tv_nsec = 100000};
	sigset_t set;
	timer_t timer;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 4);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	ev._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	timer_create(CLOCK_MONOTONIC, &ev, &timer);
	timer_settime(timer, 0, &often, NULL);
	pthread_barrier_wait(&g_all);
	(void)arg;
	for (;;)
		syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, sizeof(long));
	return NULL;
}

static void exec_among_others(void)
{
	for (int i = 0; i < 20; i++) {
		const pid_t pid = fork();
		pthread_t t;

		if (pid == 0) {
			pthread_barrier_init(&g_all, NULL, 4);
			for (int k = 0; k < 3; k++)
				pthread_create(&t, NULL, own_things, NULL);
			pthread_barrier_wait(&g_all);
			pthread_create(&t, NULL, exec_true, NULL);
			if (i % 2)
				syscall(SYS_exit, 0);
			for (;;)
				pause();
		}
		if (i == 0 || i == 19)
			ended("a thread executed a program", pid);
		else
			waitpid(pid, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	if (argc > 2)
		return move(atoi(argv[2]));
	if (argc > 1)
		return end_at_once(strcmp(argv[1], "end") != 0);
	guest_begin();
	orphaning();
	guessed_timers();
	timer_for_the_dead();
	pidfd_of_a_thread();
	limits_of_the_dying();
	group_moves();
	locked_too_late();
	never_born();
	exec_among_others();
	return 0;
}
