/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes on different workers that share all they have, files, memory, groups, numbers, and make
 * calls on it that begin and end things, each while others use them. The sandbox must survive; what
 * is used when it is gone, sanitizers see. Argument: a seed.
 */
#include "hostile.h"
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

#define SECONDS 4
#define PROCESSES 5
#define CALLS 3000
#define FD_FIRST 3
#define FDS 20
#define PIDS 64

/* Mapped by all, from descriptor FD_FIRST. */
static struct shared {
	_Atomic int pids[PIDS];
	_Atomic unsigned next;
	int sem, shm, msg;
	uint32_t words[1024];
	char bytes[65536];
} *all;

static int fd(void)
{
	return FD_FIRST + 3 * (rnd_below(8) != 0) + (int)rnd_below(FDS - 3);
}

/* Of those that are mostly epoll instances. */
static int epoll_fd(void)
{
	return FD_FIRST + (int)rnd_below(3);
}

static pid_t a_pid(void)
{
	const int p = all->pids[rnd_below(PIDS)];

	return p > 1 ? p : getpid();
}

static void note_pid(pid_t pid)
{
	if (pid > 1)
		all->pids[all->next++ % PIDS] = pid;
}

static char *a_buffer(void)
{
	static char own[65536];

	return rnd_below(8) == 0 ? (char *)rnd_value()
				 : (rnd_below(2) ? own : all->bytes) + rnd_below(60000);
}

static uint32_t *a_word(void)
{
	return &all->words[rnd_below(8)];
}

static void file_calls(void)
{
	struct pollfd p[4];
	int pair[2];

	switch (rnd_below(16)) {
	case 0:
		if (rnd_below(4) == 0)
			close(fd());
		break;
	case 1:
		dup2(fd(), fd());
		break;
	case 2:
		(void)!read(fd(), a_buffer(), rnd_below(5000));
		break;
	case 3:
		(void)!write(fd(), a_buffer(), rnd_below(5000));
		break;
	case 4:
		for (int i = 0; i < 4; i++)
			p[i] = (struct pollfd){.fd = fd(), .events = (short)rnd_below(64)};
		poll(p, 4, (int)rnd_below(2));
		break;
	case 5:
		(void)!ftruncate(fd(), (off_t)rnd_below(20000));
		break;
	case 6:
		flock(fd(), (int)(1 << rnd_below(4)) | (rnd_below(16) ? LOCK_NB : 0));
		break;
	case 7:
		if (pipe2(pair, rnd_below(16) ? O_NONBLOCK : 0) == 0) {
			dup2(pair[0], fd());
			dup2(pair[1], fd());
			close(pair[0]);
			close(pair[1]);
		}
		break;
	case 8:
		if (socketpair(AF_UNIX, (1 + (int)rnd_below(2)) | (rnd_below(16) ? SOCK_NONBLOCK : 0), 0, pair) == 0) {
			dup2(pair[0], fd());
			dup2(pair[1], fd());
			close(pair[0]);
			close(pair[1]);
		}
		break;
	case 9:
		splice(fd(), NULL, fd(), NULL, rnd_below(5000), SPLICE_F_NONBLOCK);
		break;
	case 10:
		syscall(SYS_tee, fd(), fd(), rnd_below(5000), SPLICE_F_NONBLOCK);
		break;
	case 11:
		syscall(SYS_unshare, rnd_below(2) ? CLONE_FILES : CLONE_SYSVSEM | CLONE_FS);
		break;
	case 12:
		pair[0] = open("/tmp/a", O_RDWR | O_CREAT, 0600);
		dup2(pair[0], fd());
		close(pair[0]);
		if (rnd_below(2))
			unlink("/tmp/a");
		break;
	case 13:
		(void)!rename(rnd_below(2) ? "/tmp/a" : "/tmp/b", rnd_below(2) ? "/tmp/c" : "/tmp/a");
		break;
	case 14:
		pair[0] = inotify_add_watch(fd(), "/tmp", (uint32_t)rnd());
		inotify_rm_watch(fd(), pair[0]);
		break;
	default:
		send_fd(fd(), fd(), MSG_DONTWAIT);
		break;
	}
}

static void lock_calls(void)
{
	struct flock l = {.l_type = (short)rnd_below(3),
			  .l_whence = (short)rnd_below(3),
			  .l_start = (off_t)rnd_below(100),
			  .l_len = (off_t)rnd_below(50)};

	switch (rnd_below(8)) {
	case 0:
		fcntl(fd(), rnd_below(4) ? F_SETLK : F_SETLKW, &l);
		break;
	case 1:
		fcntl(fd(), rnd_below(8) ? F_OFD_SETLK : F_OFD_SETLKW, &l);
		break;
	case 2:
		fcntl(fd(), F_SETOWN, rnd_below(2) ? a_pid() : -a_pid());
		fcntl(fd(), F_SETSIG, (int)rnd_below(65));
		break;
	case 3:
		fcntl(fd(), F_SETFL, (int)(rnd_below(2) ? O_ASYNC : 0) | (rnd_below(16) ? O_NONBLOCK : 0));
		break;
	default:
		fcntl(fd(), F_SETLK, &l);
		break;
	}
}

static void wait_calls(void)
{
	struct epoll_event ev[4] = {{.events = (uint32_t)rnd_below(64) | (uint32_t)(rnd_below(2) << 31)}};
	const struct itimerspec its = {.it_value.tv_nsec = (long)rnd_below(500000),
				       .it_interval.tv_nsec = (long)rnd_below(500000)};
	sigset_t set;
	int n;

	switch (rnd_below(10)) {
	case 0:
		epoll_wait(epoll_fd(), ev, 4, (int)rnd_below(2));
		break;
	case 1:
		n = epoll_create1(0);
		dup2(n, rnd_below(4) ? epoll_fd() : fd());
		close(n);
		break;
	case 2:
		n = eventfd(0, EFD_NONBLOCK);
		dup2(n, fd());
		close(n);
		break;
	case 3:
		n = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
		timerfd_settime(n, 0, &its, NULL);
		dup2(n, fd());
		close(n);
		break;
	case 4:
		sigemptyset(&set);
		sigaddset(&set, 1 + (int)rnd_below(64));
		n = signalfd(rnd_below(2) ? -1 : fd(), &set, SFD_NONBLOCK);
		dup2(n, fd());
		break;
	default:
		epoll_ctl(epoll_fd(), rnd_below(2) ? EPOLL_CTL_ADD : 1 + (int)rnd_below(3), fd(), ev);
		break;
	}
}

static void timer_calls(void)
{
	const struct itimerspec its = {.it_value.tv_nsec = (long)rnd_below(500000),
				       .it_interval.tv_nsec = (long)rnd_below(500000)};
	const struct itimerval it = {{0, (long)rnd_below(9000)}, {0, (long)rnd_below(9000)}};
	struct sigevent ev = {.sigev_notify = rnd_below(3) ? SIGEV_THREAD_ID : SIGEV_SIGNAL,
			      .sigev_signo = 1 + (int)rnd_below(64)};
	int id;

	ev._sigev_un._tid = rnd_below(2) ? (pid_t)syscall(SYS_gettid) : a_pid();
	switch (rnd_below(6)) {
	case 0:
		syscall(SYS_timer_create, rnd_below(4), &ev, rnd_below(4) ? (void *)&id : a_buffer());
		break;
	case 1:
		syscall(SYS_timer_delete, rnd_below(32));
		break;
	case 2:
		setitimer((int)rnd_below(3), &it, NULL);
		break;
	default:
		syscall(SYS_timer_settime, rnd_below(32), 0, &its, NULL);
		break;
	}
}

static void *a_thread(void *arg);

static void birth_calls(void)
{
	const struct rlimit limit = {1 + rnd_below(2000), 2000};
	pthread_t t;
	pid_t pid;

	switch (rnd_below(10)) {
	case 0:
		pid = fork();
		if (pid == 0)
			syscall(rnd_below(2) ? SYS_exit : SYS_exit_group, 0);
		note_pid(pid);
		break;
	case 1:
		pid = (pid_t)syscall(SYS_clone,
				     SIGCHLD | (rnd_below(2) ? CLONE_PARENT : 0) |
					     (rnd_below(2) ? CLONE_FILES : 0) |
					     (rnd_below(2) ? CLONE_SYSVSEM : 0),
				     NULL, NULL, NULL, NULL);
		if (pid == 0)
			_exit(0);
		note_pid(pid);
		break;
	case 2:
		syscall(SYS_clone, SIGCHLD | CLONE_PIDFD | (rnd_below(2) ? CLONE_VM | CLONE_VFORK : 0), NULL,
			(void *)16, NULL, NULL);
		break;
	case 3:
		if (rnd_below(4) == 0 && vfork() == 0)
			_exit(0);
		break;
	case 4:
		if (rnd_below(8) == 0 &&
		    pthread_create(&t, NULL, a_thread, (void *)(uintptr_t)rnd()) == 0)
			pthread_detach(t);
		break;
	case 5:
		if (rnd_below(20) == 0)
			execl("/proc/self/exe", "fuzz", "-", (char *)NULL);
		break;
	case 6:
		if (rnd_below(40) == 0)
			syscall(SYS_exit, 0);
		break;
	default:
		/* Processor time is what the run has little of. */
		prlimit(a_pid(), rnd_below(2) ? RLIMIT_CPU : RLIMIT_SIGPENDING, &limit, NULL);
		break;
	}
}

static void group_calls(void)
{
	static const int signals[] = {0,       SIGSTOP, SIGCONT, SIGUSR1, SIGKILL, SIGCHLD,
				      SIGTSTP, SIGTTIN, SIGHUP,  SIGCONT, 34};
	/* Most live on. */
	const int sig = rnd_below(12) ? SIGUSR1 : signals[rnd_below(HOSTILE_COUNT(signals))];
	siginfo_t info;

	switch (rnd_below(12)) {
	case 0:
		kill(a_pid(), sig);
		break;
	case 1:
		kill(-a_pid(), sig);
		break;
	case 2:
		syscall(SYS_tgkill, a_pid(), a_pid(), sig);
		break;
	case 3:
		setpgid(rnd_below(2) ? 0 : a_pid(), rnd_below(2) ? 0 : a_pid());
		break;
	case 4:
		if (rnd_below(8) == 0)
			setsid();
		break;
	case 5:
		syscall(SYS_wait4, rnd_below(2) ? 0 : -a_pid(), NULL, WNOHANG | WUNTRACED, NULL);
		break;
	case 6:
		waitid((idtype_t)rnd_below(4), (id_t)(rnd_below(2) ? fd() : a_pid()), &info,
		       WNOHANG | WEXITED | WSTOPPED | WCONTINUED);
		break;
	case 7:
		getpriority(1, rnd_below(2) ? 0 : a_pid());
		break;
	case 8:
		prctl(PR_SET_CHILD_SUBREAPER, rnd_below(2));
		prctl(PR_SET_PDEATHSIG, rnd_below(2) ? SIGUSR1 : SIGCONT);
		break;
	case 9:
		syscall(SYS_membarrier, rnd_below(2), 0, 0);
		break;
	case 10:
		sigqueue(a_pid(), SIGRTMIN + 1, (union sigval){.sival_int = 1});
		break;
	default:
		syscall(SYS_getsid, a_pid());
		break;
	}
}

static void process_calls(void)
{
	static const char *const names[] = {"stat", "status", "maps", "fd", "task", "cwd", "exe", "environ",
					    "fdinfo/5", "fd/5", "mem", "mounts", "cmdline", "task/1/stat"};
	struct iovec mine = {a_buffer(), 4096}, theirs = {a_buffer(), 4096};
	char path[64];
	int n;

	switch (rnd_below(7)) {
	case 0:
		n = (int)syscall(SYS_pidfd_open, a_pid(), 0);
		dup2(n, fd());
		close(n);
		break;
	case 1:
		syscall(SYS_pidfd_send_signal, fd(), rnd_below(2) ? 0 : SIGCONT, NULL, 0);
		break;
	case 2:
		n = (int)syscall(SYS_pidfd_getfd, fd(), fd(), 0);
		dup2(n, fd());
		close(n);
		break;
	case 3:
		process_vm_readv(a_pid(), &mine, 1, &theirs, 1, 0);
		break;
	case 4:
		syscall(SYS_kcmp, a_pid(), a_pid(), rnd_below(8), fd(), fd());
		break;
	default:
		snprintf(path, sizeof(path), "/proc/%d/%s", a_pid(), names[rnd_below(HOSTILE_COUNT(names))]);
		n = open(path, O_RDONLY);
		(void)!read(n, a_buffer(), 4096);
		syscall(SYS_getdents64, n, a_buffer(), 4096);
		dup2(n, fd());
		close(n);
		break;
	}
}

static void ipc_calls(void)
{
	const struct timespec soon = {.tv_nsec = 50000};
	struct sembuf ops[2] = {{(unsigned short)rnd_below(4), (short)rnd_below(3) - 1, SEM_UNDO},
				{(unsigned short)rnd_below(4), (short)rnd_below(3) - 1,
				 rnd_below(2) ? IPC_NOWAIT : SEM_UNDO}};
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	void *p;
	int n;

	switch (rnd_below(12)) {
	case 0:
		all->sem = semget(rnd_below(2) ? 7 : IPC_PRIVATE, 4, IPC_CREAT | 0600);
		break;
	case 1:
		semctl(all->sem, 0, rnd_below(3) ? SETVAL : IPC_RMID, 1);
		break;
	case 2:
	case 3:
		semtimedop(all->sem, ops, 1 + rnd_below(2), &soon);
		break;
	case 4:
		all->shm = shmget(rnd_below(2) ? 7 : IPC_PRIVATE, 8192, IPC_CREAT | 0600);
		break;
	case 5:
		p = shmat(all->shm, NULL, 0);
		if (p != MAP_FAILED && rnd_below(4))
			shmdt(p);
		break;
	case 6:
		shmctl(all->shm, IPC_RMID, NULL);
		break;
	case 7:
		all->msg = msgget(rnd_below(2) ? 7 : IPC_PRIVATE, IPC_CREAT | 0600);
		break;
	case 8:
		msgsnd(all->msg, a_buffer(), rnd_below(64), IPC_NOWAIT);
		break;
	case 9:
		if (rnd_below(3))
			msgrcv(all->msg, a_buffer(), 64, 0, IPC_NOWAIT);
		else
			msgctl(all->msg, IPC_RMID, NULL);
		break;
	case 10:
		n = (int)syscall(SYS_mq_open, "q", O_RDWR | O_CREAT | O_NONBLOCK, 0600, NULL);
		dup2(n, fd());
		close(n);
		if (rnd_below(2))
			syscall(SYS_mq_unlink, "q");
		break;
	default:
		syscall(SYS_mq_notify, fd(), rnd_below(2) ? &ev : NULL);
		syscall(SYS_mq_timedsend, fd(), a_buffer(), 8, 0, NULL);
		break;
	}
}

static void socket_calls(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0x"};
	const socklen_t size = sizeof(sa_family_t) + 2 + (socklen_t)rnd_below(2);
	int n;

	switch (rnd_below(6)) {
	case 0:
		n = socket(AF_UNIX, (1 + (int)rnd_below(2)) | SOCK_NONBLOCK, 0);
		dup2(n, fd());
		close(n);
		break;
	case 1:
		bind(fd(), (struct sockaddr *)&name, size);
		listen(fd(), 2);
		break;
	case 2:
		connect(fd(), (struct sockaddr *)&name, size);
		break;
	case 3:
		n = accept4(fd(), NULL, NULL, SOCK_NONBLOCK);
		dup2(n, fd());
		close(n);
		break;
	case 4:
		shutdown(fd(), (int)rnd_below(3));
		break;
	default: {
		char control[CMSG_SPACE(4 * sizeof(int))];
		struct iovec v = {a_buffer(), 16};
		struct msghdr m = {.msg_iov = &v,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};

		recvmsg(fd(), &m, MSG_DONTWAIT | (rnd_below(2) ? MSG_PEEK : 0));
		break;
	}
	}
}

static void memory_calls(void)
{
	const struct timespec soon = {.tv_nsec = 50000};
	char *p;

	switch (rnd_below(8)) {
	case 0:
		p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, rnd_below(2) ? MAP_SHARED : MAP_PRIVATE, fd(), 0);
		if (p != MAP_FAILED && rnd_below(8))
			munmap(p, 16384);
		break;
	case 1:
		syscall(SYS_futex, a_word(), FUTEX_LOCK_PI, 0, &soon, NULL, 0);
		break;
	case 2:
		syscall(SYS_futex, a_word(), FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
		break;
	case 3:
		syscall(SYS_futex, a_word(), FUTEX_CMP_REQUEUE, 1, 3, a_word(), *a_word());
		break;
	case 4:
		syscall(SYS_futex, a_word(), FUTEX_WAKE, rnd_below(3), NULL, NULL, 0);
		break;
	case 5:
		*a_word() = rnd_below(4) ? 0 : (uint32_t)a_pid();
		break;
	case 6:
		syscall(SYS_set_robust_list, a_buffer(), 24);
		break;
	default:
		syscall(SYS_futex, a_word(), FUTEX_WAIT, *a_word(), &soon, NULL, 0);
		break;
	}
}

static void terminal_calls(void)
{
	pid_t pgrp = a_pid();
	int n, zero = 0;

	switch (rnd_below(8)) {
	case 0:
		n = open("/dev/ptmx", O_RDWR | O_NONBLOCK | (rnd_below(2) ? O_NOCTTY : 0));
		ioctl(n, TIOCSPTLCK, &zero);
		dup2(n, fd());
		close(n);
		break;
	case 1:
		n = ioctl(fd(), TIOCGPTPEER, O_RDWR | O_NONBLOCK | (rnd_below(2) ? O_NOCTTY : 0));
		dup2(n, fd());
		close(n);
		break;
	case 2:
		ioctl(fd(), TIOCSCTTY, rnd_below(2));
		break;
	case 3:
		ioctl(fd(), TIOCNOTTY);
		break;
	case 4:
		ioctl(fd(), TIOCSPGRP, &pgrp);
		break;
	case 5:
		ioctl(fd(), TIOCGSID, &pgrp);
		break;
	case 6:
		if (rnd_below(4) == 0)
			syscall(SYS_vhangup);
		break;
	default:
		n = open("/dev/tty", O_RDWR | O_NONBLOCK);
		dup2(n, fd());
		close(n);
		break;
	}
}

static void some_calls(unsigned count)
{
	static void (*const calls[])(void) = {
		file_calls, file_calls, lock_calls, wait_calls,  wait_calls,   timer_calls,   birth_calls,
		group_calls, process_calls, ipc_calls, socket_calls, memory_calls, terminal_calls,
	};

	while (count-- > 0)
		calls[rnd_below(HOSTILE_COUNT(calls))]();
}

static void *a_thread(void *arg)
{
	hostile_seed = (uint64_t)arg | 1;
	note_pid((pid_t)syscall(SYS_gettid));
	some_calls(CALLS / 2);
	return NULL;
}

static void ignore(int sig)
{
	(void)sig;
}

static void handle_signals(void)
{
	for (int s = 1; s < 65; s++) {
		const struct sigaction sa = {.sa_handler = ignore, .sa_flags = SA_NODEFER};

		if (s != SIGSEGV && s != SIGBUS && s != SIGTSTP && s != SIGTTIN)
			sigaction(s, &sa, NULL);
	}
}

/* Breaks off what waits for good, every so often. */
static void tick(long us)
{
	const struct itimerval it = {{0, us}, {0, us}};

	setitimer(ITIMER_REAL, &it, NULL);
}

static int child(uint64_t seed)
{
	pthread_t t;

	hostile_seed = seed | 1;
	setpgid(0, 0);
	note_pid(getpid());
	handle_signals();
	tick(10000);
	for (int i = 0; i < 2; i++)
		pthread_create(&t, NULL, a_thread, (void *)(uintptr_t)rnd());
	some_calls(CALLS);
	syscall(rnd_below(2) ? SYS_exit : SYS_exit_group, 0);
	return 0;
}

static bool map_shared(void)
{
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED, FD_FIRST + FDS, 0);
	return all != MAP_FAILED;
}

static void share(void)
{
	const int memory = (int)syscall(SYS_memfd_create, "shared", 0);

	(void)!ftruncate(memory, sizeof(struct shared));
	dup2(memory, FD_FIRST + FDS);
	close(memory);
	if (!map_shared())
		abort();
	hostile_seed ^= 0x5bd1e995;
	for (int i = 0; i < 100; i++) {
		file_calls();
		wait_calls();
		socket_calls();
		terminal_calls();
	}
}

int main(int argc, char **argv)
{
	const time_t end = time(NULL) + SECONDS;
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	int alive = 0;
	char text[32];

	hostile_begin();
	if (argc > 2 || (argc > 1 && argv[1][0] == '-'))
		return map_shared() ? child(argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid()) : 1;
	handle_signals();
	tick(10000);
	share();
	tick(0);
	while (time(NULL) < end) {
		if (alive < PROCESSES) {
			const uint64_t seed = ++n * UINT64_C(0x9e3779b97f4a7c15);
			const pid_t pid = fork();

			if (pid == 0 && n % 2)
				return child(seed);
			if (pid == 0) {
				snprintf(text, sizeof(text), "%lu", seed);
				execl("/proc/self/exe", "fuzz", "-", text, (char *)NULL);
				_exit(1);
			}
			alive += pid > 0;
		} else if (waitpid(-1, NULL, WNOHANG) > 0) {
			alive--;
		} else {
			usleep(5000);
			/* Those that stopped, or whose thread sleeps for good. */
			if (++n % 64 == 0)
				kill(-1, SIGKILL);
		}
	}
	kill(-1, SIGKILL);
	puts("ok");
	return 0;
}
