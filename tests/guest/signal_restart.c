/* SPDX-License-Identifier: Apache-2.0 */

/* What a handled signal does to each blocking call, with and without SA_RESTART. */
#include "guest.h"
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>

static volatile sig_atomic_t handled;

static void handler(int sig)
{
	(void)sig;
	handled++;
}

/* What a child does in the middle of each call: interrupt, then let it end. */
struct scene {
	int pipe[2];
	int sock[2];
	int event;
	int file;
	int *word;
};

static struct scene s;

static int do_pipe_read(void)
{
	char c;
	return (int)read(s.pipe[0], &c, 1);
}

static int do_pipe_write(void)
{
	static char block[1 << 20];
	int flags = fcntl(s.pipe[1], F_GETFL);
	long n;

	fcntl(s.pipe[1], F_SETFL, flags | O_NONBLOCK);
	while (write(s.pipe[1], block, 4096) > 0)
		;
	fcntl(s.pipe[1], F_SETFL, flags);
	n = write(s.pipe[1], block, 4096);
	return (int)n;
}

static int do_recv(void)
{
	char c;
	return (int)recv(s.sock[0], &c, 1, 0);
}

static int do_recv_timeout(void)
{
	struct timeval tv = {5, 0};
	char c;

	setsockopt(s.sock[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return (int)recv(s.sock[0], &c, 1, 0);
}

static int do_accept(void)
{
	struct sockaddr un = {.sa_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), r, e;

	/* An autobound name; nobody connects, and the second signal has no restart. */
	if (bind(fd, &un, sizeof(sa_family_t)) || listen(fd, 1))
		return -1;
	r = accept(fd, NULL, NULL);
	e = errno;
	close(fd);
	errno = e;
	return r;
}

static int do_poll(void)
{
	struct pollfd p = {s.pipe[0], POLLIN, 0};
	return poll(&p, 1, 10000);
}

static int do_select(void)
{
	fd_set set;
	struct timeval tv = {10, 0};

	FD_ZERO(&set);
	FD_SET(s.pipe[0], &set);
	return select(s.pipe[0] + 1, &set, NULL, NULL, &tv);
}

static int do_epoll(void)
{
	struct epoll_event ev;
	int fd = epoll_create1(0), r, e;

	r = epoll_wait(fd, &ev, 1, 10000);
	e = errno;
	close(fd);
	errno = e;
	return r;
}

static int do_nanosleep(void)
{
	struct timespec t = {10, 0}, left = {0, 0};
	int r = nanosleep(&t, &left), e = errno;

	printf("  time left %s\n", left.tv_sec == 9 ? "9.x s" : "wrong");
	errno = e;
	return r;
}

static int do_absolute_sleep(void)
{
	struct timespec t;
	int e;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += 10;
	e = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	errno = e;
	return e ? -1 : 0;
}

static int do_pause(void)
{
	return pause();
}

static int do_sigsuspend(void)
{
	sigset_t set;

	sigemptyset(&set);
	return sigsuspend(&set);
}

static int do_sigtimedwait(void)
{
	sigset_t set;
	struct timespec t = {10, 0};

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	return sigtimedwait(&set, NULL, &t);
}

static int do_futex(void)
{
	return (int)syscall(SYS_futex, s.word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static int do_futex_timeout(void)
{
	struct timespec t = {10, 0};
	return (int)syscall(SYS_futex, s.word, FUTEX_WAIT, 0, &t, NULL, 0);
}

static int do_eventfd(void)
{
	uint64_t v;
	return (int)read(s.event, &v, 8);
}

static int do_flock(void)
{
	return flock(s.file, LOCK_EX);
}

static int do_setlkw(void)
{
	struct flock l = {.l_type = F_WRLCK};
	return fcntl(s.file, F_SETLKW, &l);
}

static int do_fifo_open(void)
{
	int fd = open("fifo", O_RDONLY), e = errno;

	if (fd >= 0)
		close(fd);
	errno = e;
	return fd >= 0 ? 0 : -1;
}

static int do_msgrcv(void)
{
	struct {
		long type;
		char text[8];
	} m;
	int id = msgget(IPC_PRIVATE, 0600), r, e;

	r = (int)msgrcv(id, &m, 8, 0, 0);
	e = errno;
	msgctl(id, IPC_RMID, NULL);
	errno = e;
	return r;
}

static int do_semop(void)
{
	struct sembuf op = {0, -1, 0};
	int id = semget(IPC_PRIVATE, 1, 0600), r, e;

	r = semop(id, &op, 1);
	e = errno;
	semctl(id, 0, IPC_RMID);
	errno = e;
	return r;
}

static int do_wait(void)
{
	pid_t pid = fork();
	int r, e;

	if (!pid) {
		guest_sleep_ms(10000);
		_exit(0);
	}
	r = waitpid(pid, NULL, 0);
	e = errno;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	errno = e;
	return r > 0 ? 0 : r;
}

static const struct {
	const char *name;
	int (*fn)(void);
	int never_restarts;
} calls[] = {
	{"read of a pipe", do_pipe_read, 0},
	{"write to a full pipe", do_pipe_write, 0},
	{"recv", do_recv, 0},
	{"recv with SO_RCVTIMEO", do_recv_timeout, 1},
	{"accept", do_accept, 0},
	{"poll", do_poll, 1},
	{"select", do_select, 1},
	{"epoll_wait", do_epoll, 1},
	{"nanosleep", do_nanosleep, 1},
	{"clock_nanosleep absolute", do_absolute_sleep, 1},
	{"pause", do_pause, 1},
	{"sigsuspend", do_sigsuspend, 1},
	{"sigtimedwait", do_sigtimedwait, 1},
	{"futex wait", do_futex, 0},
	{"futex wait with a timeout", do_futex_timeout, 1},
	{"eventfd read", do_eventfd, 0},
	{"flock", do_flock, 0},
	{"F_SETLKW", do_setlkw, 0},
	{"open of a FIFO", do_fifo_open, 0},
	{"msgrcv", do_msgrcv, 1},
	{"semop", do_semop, 1},
	{"waitpid", do_wait, 0},
};

/*
 * Each call runs in a child of its own. The first signal comes with the flags
 * under test; if the call is still blocked after it, it has been restarted,
 * and a second signal whose handler has no SA_RESTART ends it.
 */
static void run(size_t i, int flags)
{
	pid_t pid = guest_fork();
	int status;

	if (!pid) {
		int r;

		/* The lock holder is the parent of this child, so this description is another. */
		s.file = open("lock", O_RDWR);
		guest_handle(SIGUSR1, handler, flags);
		guest_handle(SIGUSR2, handler, 0);
		errno = 0;
		r = calls[i].fn();
		printf("%s, %s: %d %s, handled %d\n", calls[i].name,
		       flags ? "SA_RESTART" : "no SA_RESTART", r, r < 0 ? guest_errno(errno) : "",
		       handled);
		_exit(0);
	}
	guest_until_asleep(pid);
	guest_sleep_ms(5);
	kill(pid, SIGUSR1);
	for (int k = 0; k < 40; k++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return;
		guest_sleep_ms(2);
	}
	kill(pid, SIGUSR2);
	if (waitpid(pid, &status, 0) == pid && status)
		guest_status(calls[i].name, status);
}

static void stops(void)
{
	static const struct {
		const char *name;
		int (*fn)(void);
	} list[] = {
		{"read", do_pipe_read},   {"poll", do_poll},   {"nanosleep", NULL},
		{"epoll_wait", do_epoll}, {"futex", do_futex}, {"sigtimedwait", do_sigtimedwait},
		{"semop", do_semop},
	};

	P("a stop and a continue without a handler");
	for (size_t i = 0; i < GUEST_COUNT(list); i++) {
		pid_t pid = guest_fork();
		int status;

		if (!pid) {
			int64_t t0 = guest_now_ms();
			int r;

			guest_handle(SIGUSR2, handler, 0);
			errno = 0;
			if (list[i].fn)
				r = list[i].fn();
			else
				r = nanosleep(&(struct timespec){0, 200000000}, NULL);
			printf("%s: %d %s, handled %d%s\n", list[i].name, r,
			       r < 0 ? guest_errno(errno) : "", handled,
			       !list[i].fn && guest_now_ms() - t0 < 200 ? " too early" : "");
			_exit(0);
		}
		guest_until_asleep(pid);
		kill(pid, SIGSTOP);
		waitpid(pid, &status, WUNTRACED);
		guest_sleep_ms(10);
		kill(pid, SIGCONT);
		guest_sleep_ms(30);
		if (list[i].fn)
			kill(pid, SIGUSR2);
		waitpid(pid, &status, 0);
	}
}

static void ignored(void)
{
	pid_t pid;

	P("an ignored signal wakes nobody");
	pid = guest_fork();
	if (!pid) {
		char c;
		long r;

		signal(SIGUSR1, SIG_IGN);
		r = read(s.pipe[0], &c, 1);
		printf("read %ld\n", r);
		_exit(0);
	}
	guest_until_asleep(pid);
	kill(pid, SIGUSR1);
	kill(pid, SIGWINCH);
	kill(pid, SIGCHLD);
	guest_sleep_ms(20);
	if (write(s.pipe[1], "x", 1) != 1)
		P("write failed");
	guest_wait("reader", pid);
}

static void partial(void)
{
	static char block[200000];
	int p[2];
	pid_t pid;
	long n;

	P("a write that got some bytes through returns their number");
	if (pipe(p))
		return;
	pid = guest_fork();
	if (!pid) {
		guest_handle(SIGUSR1, handler, SA_RESTART);
		n = write(p[1], block, sizeof(block));
		printf("wrote %s\n", n == 65536 ? "what the pipe holds"
				     : n < 0    ? guest_errno(errno)
						: "other");
		_exit(0);
	}
	guest_until_asleep(pid);
	guest_sleep_ms(5);
	kill(pid, SIGUSR1);
	guest_wait("writer", pid);
	close(p[0]);
	close(p[1]);
}

int main(void)
{
	struct flock l = {.l_type = F_WRLCK};

	guest_begin();
	guest_file("lock", "");
	V(mkfifo("fifo", 0600));
	if (pipe(s.pipe) || socketpair(AF_UNIX, SOCK_STREAM, 0, s.sock))
		return 1;
	s.event = eventfd(0, 0);
	s.word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s.file = open("lock", O_RDWR);
	flock(s.file, LOCK_EX);
	fcntl(s.file, F_SETLK, &l);
	for (size_t i = 0; i < GUEST_COUNT(calls); i++) {
		run(i, 0);
		if (calls[i].fn == do_pipe_write) {
			char sink[4096];
			int flags = fcntl(s.pipe[0], F_GETFL);

			fcntl(s.pipe[0], F_SETFL, flags | O_NONBLOCK);
			while (read(s.pipe[0], sink, sizeof(sink)) > 0)
				;
			fcntl(s.pipe[0], F_SETFL, flags);
		}
		run(i, SA_RESTART);
		if (calls[i].fn == do_pipe_write) {
			close(s.pipe[0]);
			close(s.pipe[1]);
			if (pipe(s.pipe))
				return 1;
		}
	}
	stops();
	ignored();
	partial();
	return 0;
}
