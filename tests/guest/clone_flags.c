/* SPDX-License-Identifier: Apache-2.0 */

/* clone and clone3: what each flag shares, tids, exit signals, errors; vfork; unshare. */
#include "guest.h"
#include <poll.h>
#include <linux/futex.h>
#include <linux/sched.h>

static volatile int shared_word;
static char stacks[8][65536] __attribute__((aligned(64)));

static int set_word(void *arg)
{
	shared_word = *(int *)arg;
	return 3;
}

static int change_dir(void *arg)
{
	(void)arg;
	umask(077);
	return chdir("/");
}

static int open_file(void *arg)
{
	return dup2(0, *(int *)arg) < 0;
}

static int change_handler(void *arg)
{
	(void)arg;
	signal(SIGUSR1, SIG_IGN);
	return 0;
}

static pid_t spawn(int (*fn)(void *), int flags, void *arg)
{
	return clone(fn, stacks[0] + sizeof(stacks[0]), flags, arg);
}

static void reap(const char *what, pid_t pid)
{
	int status;

	if (pid < 0) {
		printf("%s: clone %s\n", what, guest_errno(errno));
		return;
	}
	if (waitpid(pid, &status, __WALL) == pid)
		guest_status(what, status);
	else
		printf("%s: wait %s\n", what, guest_errno(errno));
}

static void sharing(void)
{
	int v = 5, fd = 100;
	char before[PATH_MAX], after[PATH_MAX];
	struct sigaction sa;
	mode_t mask;

	P("sharing");
	fflush(stdout);
	reap("own memory", spawn(set_word, SIGCHLD, &v));
	printf("%d\n", shared_word);
	reap("CLONE_VM", spawn(set_word, CLONE_VM | SIGCHLD, &v));
	printf("%d\n", shared_word);
	v = 6;
	reap("CLONE_VM|VFORK", spawn(set_word, CLONE_VM | CLONE_VFORK | SIGCHLD, &v));
	printf("%d\n", shared_word);
	reap("own files", spawn(open_file, SIGCHLD, &fd));
	V(fcntl(100, F_GETFD));
	reap("CLONE_FILES", spawn(open_file, CLONE_FILES | SIGCHLD, &fd));
	V(fcntl(100, F_GETFD));
	if (!getcwd(before, sizeof(before)))
		P("getcwd");
	reap("own fs", spawn(change_dir, SIGCHLD, NULL));
	if (!getcwd(after, sizeof(after)))
		P("getcwd");
	T(!strcmp(before, after));
	reap("CLONE_FS", spawn(change_dir, CLONE_FS | SIGCHLD, NULL));
	if (!getcwd(after, sizeof(after)))
		P("getcwd");
	printf("%s, umask %o\n", after, mask = umask(022));
	(void)mask;
	V(chdir(before));
	reap("CLONE_SIGHAND", spawn(change_handler, CLONE_VM | CLONE_SIGHAND | SIGCHLD, NULL));
	sigaction(SIGUSR1, NULL, &sa);
	T(sa.sa_handler == SIG_IGN);
	signal(SIGUSR1, SIG_DFL);
	V(syscall(SYS_unshare, CLONE_FILES | CLONE_FS | CLONE_SYSVSEM));
	V(syscall(SYS_unshare, 0));
	V(syscall(SYS_unshare, 0x1));
}

static int exit_now(void *arg)
{
	(void)arg;
	return 11;
}

static int parent_is(void *arg)
{
	return getppid() == *(pid_t *)arg ? 21 : 22;
}

static volatile sig_atomic_t got;

static void handler(int sig)
{
	got = sig;
}

static void exits(void)
{
	pid_t pid, me = getppid();
	int status;

	P("exit signals and parents");
	guest_handle(SIGUSR2, handler, SA_RESTART);
	pid = spawn(exit_now, SIGUSR2, NULL);
	guest_until(pid, pid, 'Z');
	V(waitpid(pid, &status, WNOHANG));
	V(waitpid(pid, &status, __WCLONE) == pid);
	printf("signal %s\n", got ? guest_signal(got) : "none");
	pid = spawn(exit_now, 0, NULL);
	V(waitpid(pid, &status, 0));
	reap("no signal", pid);
	reap("CLONE_PARENT", spawn(parent_is, CLONE_PARENT | SIGCHLD, &me));
	reap("own child", spawn(parent_is, SIGCHLD, &me));
}

static void tids(void)
{
	static volatile pid_t ptid, ctid;
	pid_t pid;
	struct clone_args ca;
	int pidfd = -1;

	P("tids");
	ptid = ctid = 0;
	pid = clone(exit_now, stacks[0] + 65536,
		    CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD,
		    NULL, &ptid, NULL, &ctid);
	T(ptid == pid && ctid == pid);
	reap("settid", pid);
	ctid = 77;
	pid = clone(exit_now, stacks[0] + 65536,
		    CLONE_VM | CLONE_VFORK | CLONE_CHILD_CLEARTID | SIGCHLD, NULL, &ptid, NULL,
		    &ctid);
	printf("cleared %d\n", ctid);
	reap("cleartid", pid);
	memset(&ca, 0, sizeof(ca));
	ca.flags = CLONE_PIDFD;
	ca.pidfd = (uintptr_t)&pidfd;
	ca.exit_signal = SIGCHLD;
	fflush(stdout);
	pid = (pid_t)syscall(SYS_clone3, &ca, sizeof(ca));
	if (!pid)
		_exit(31);
	T(pid > 0 && pidfd >= 0);
	V(fcntl(pidfd, F_GETFD));
	struct pollfd ended = {.fd = pidfd, .events = POLLIN};

	V(poll(&ended, 1, -1));
	printf("ended %x\n", ended.revents);
	reap("clone3", pid);
	V(poll(&ended, 1, -1));
	printf("reaped %x\n", ended.revents);
	ended.events = 0;
	V(poll(&ended, 1, -1));
	printf("reaped, and nothing asked %x\n", ended.revents);
	ca.flags = CLONE_CLEAR_SIGHAND;
	guest_handle(SIGUSR1, handler, 0);
	pid = (pid_t)syscall(SYS_clone3, &ca, sizeof(ca));
	if (!pid) {
		struct sigaction sa;

		sigaction(SIGUSR1, NULL, &sa);
		_exit(sa.sa_handler == SIG_DFL ? 32 : 33);
	}
	reap("CLONE_CLEAR_SIGHAND", pid);
	P("errors");
	ca.flags = 0;
	V(syscall(SYS_clone3, &ca, 8));
	V(syscall(SYS_clone3, NULL, sizeof(ca)));
	V(syscall(SYS_clone3, &ca, 8192));
	ca.exit_signal = 77;
	V(syscall(SYS_clone3, &ca, sizeof(ca)));
	ca.exit_signal = SIGCHLD;
	ca.flags = CLONE_THREAD;
	V(syscall(SYS_clone3, &ca, sizeof(ca)));
	ca.flags = CLONE_SIGHAND;
	V(syscall(SYS_clone3, &ca, sizeof(ca)));
	ca.flags = 1ull << 60;
	V(syscall(SYS_clone3, &ca, sizeof(ca)));
	ca.flags = 0;
	ca.stack = 4096;
	V(syscall(SYS_clone3, &ca, sizeof(ca)));
	ca.stack = 0;
	ca.stack_size = 4096;
	V(syscall(SYS_clone3, &ca, sizeof(ca)));
	V(syscall(SYS_clone, CLONE_THREAD | CLONE_VM, 0, 0, 0, 0));
	V(syscall(SYS_clone, CLONE_SIGHAND, 0, 0, 0, 0));
	V(syscall(SYS_clone, CLONE_FS | CLONE_NEWNS, 0, 0, 0, 0));
	V(syscall(SYS_clone, CLONE_PIDFD | CLONE_PARENT_SETTID, 0, 0, 0, 0));
}

static void vforks(void)
{
	volatile int order = 0;
	int64_t t0 = guest_now_ms();
	pid_t pid;

	P("vfork");
	fflush(stdout);
	pid = vfork();
	if (!pid) {
		order = 1;
		guest_sleep_ms(30);
		_exit(order + 40);
	}
	T(order == 1 && guest_now_ms() - t0 >= 30);
	reap("vfork", pid);
	pid = vfork();
	if (!pid) {
		kill(getpid(), SIGKILL);
		_exit(0);
	}
	reap("vfork killed", pid);
}

struct thread_arg {
	int exit_group;
};

static void *thread_main(void *arg)
{
	struct thread_arg *t = arg;

	guest_sleep_ms(10);
	if (t->exit_group)
		_exit(51);
	return NULL;
}

static void groups(void)
{
	pid_t pid;
	pthread_t t;

	P("threads and exits");
	for (int group = 0; group < 2; group++) {
		pid = guest_fork();
		if (!pid) {
			struct thread_arg a = {group};

			pthread_create(&t, NULL, thread_main, &a);
			if (!group)
				pthread_exit(NULL);
			for (;;)
				pause();
		}
		guest_wait(group ? "a thread ends the group" : "the leader leaves first", pid);
	}
	pid = guest_fork();
	if (!pid) {
		struct thread_arg a = {0};

		for (int i = 0; i < 5; i++)
			pthread_create(&t, NULL, thread_main, &a);
		*(volatile int *)8 = 1;
	}
	guest_wait("a fault ends all", pid);
	pid = guest_fork();
	if (!pid) {
		pthread_create(&t, NULL, thread_main, &(struct thread_arg){1});
		syscall(SYS_exit, 7);
	}
	guest_wait("leader's exit(7), then a thread's exit_group(51)", pid);
}

int main(void)
{
	guest_begin();
	sharing();
	exits();
	tids();
	vforks();
	groups();
	return 0;
}
