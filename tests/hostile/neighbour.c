/* SPDX-License-Identifier: Apache-2.0 */
/* hostile-part-of: neighbours.sh */
/*
 * neighbour DIR a|b: two of these attack each other; DIR is granted to both.
 *
 * Theory of operation: each is victim and attacker. As a victim it has a secret in its memory, its
 * environment, an open file, a socket, IPC objects; holds locks; counts signals. It tells the other
 * by a file in DIR what a program could guess: its pid, addresses, numbers. As an attacker it tries
 * to reach all that, and says "got NAME" of what it has reached. What only the victim sees it says
 * itself. Steps are kept by files in DIR. The pids of the two are apart (100 and 200 up), so that
 * what is meant for the other never hits one's own.
 *
 * neighbour --list: all NAMEs, each of which must be got where the two are not in sandboxes.
 */
#include "host_calls.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* clang-format off */
#define NAMES(X) \
	X(vm_read) X(vm_write) X(proc_mem) X(proc_environ) X(proc_cmdline) X(proc_fd) X(proc_cwd) X(proc_root) X(proc_seen) \
	X(ptrace) X(pidfd) X(pidfd_getfd) X(pidfd_signal) X(kill_pid) X(kill_group) X(kill_all) X(tgkill) X(sigqueue) X(sigio) \
	X(priority) X(rlimit) X(affinity) X(group) X(session) \
	X(abstract) X(abstract_name) X(named) X(shm) X(msg) X(sem) X(posix_shm) X(mqueue) \
	X(lease) X(inotify) X(futex) X(stub_futex) X(hostname)
/* clang-format on */
enum {
#define NUMBER(name) N_##name,
	NAMES(NUMBER) N_COUNT
};
static const char *const g_names[] = {
#define TEXT(name) #name,
	NAMES(TEXT)};

static const char *g_dir;
static char g_me, g_other;
static char g_secret[32], g_canary[32] = "untouched";
static volatile sig_atomic_t g_hits[_NSIG];

struct told {
	pid_t pid;
	void *secret, *canary;
	int fd;
	char text[32]; /* what the secret begins with is not told */
};

static void got(int name)
{
	printf("got %s\n", g_names[name]);
}

static const char *path(const char *what, char who)
{
	static char buf[8][512];
	static unsigned next;
	char *b = buf[next++ % 8];

	snprintf(b, sizeof(buf[0]), "%s/%s.%c", g_dir, what, who);
	return b;
}

static void put(const char *p, const void *data, size_t size)
{
	char temp[600];
	int fd;

	snprintf(temp, sizeof(temp), "%s.new", p);
	fd = open(temp, O_CREAT | O_WRONLY | O_TRUNC, 0666);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || rename(temp, p) != 0) {
		perror(p);
		exit(2);
	}
	close(fd);
}

/* Both have come to @step. */
static void meet(const char *step)
{
	put(path(step, g_me), "x", 1);
	for (int i = 0; access(path(step, g_other), F_OK) != 0; i++) {
		usleep(1000);
		if (i > 100000) {
			fprintf(stderr, "%c: the other does not come to %s\n", g_me, step);
			exit(2);
		}
	}
}

static bool is_secret(const char *text)
{
	return strstr(text, "secret-") == text && text[7] == g_other;
}

static bool reads_secret(int fd)
{
	char buf[64] = "";

	if (fd < 0)
		return false;
	if (pread(fd, buf, sizeof(buf) - 1, 0) < 0)
		(void)!read(fd, buf, sizeof(buf) - 1);
	close(fd);
	return is_secret(buf);
}

static void on_signal(int sig)
{
	g_hits[sig] = 1;
}

static int key(char who)
{
	return 0x6d6f6100 + who;
}

static struct sockaddr_un address(const char *p, bool abstract)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path + abstract, sizeof(a.sun_path) - 1, "%s", p);
	return a;
}

static int served(struct sockaddr_un a)
{
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	if (bind(s, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(s, 8) != 0) {
		perror("bind");
		exit(2);
	}
	return s;
}

static void *serve(void *arg)
{
	struct pollfd p[2] = {{((int *)arg)[0], POLLIN, 0}, {((int *)arg)[1], POLLIN, 0}};

	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	for (;;) {
		poll(p, 2, -1);
		for (int i = 0; i < 2; i++)
			if (p[i].revents) {
				int c = accept(p[i].fd, NULL, NULL);

				(void)!write(c, g_secret, sizeof(g_secret));
				close(c);
			}
	}
	return NULL;
}

static int *g_word; /* in a file that both map */

/* Of @who: the one that is slept on by a system call, and the one by the stub's. */
static int *word_of(char who, bool stub)
{
	return &g_word[2 * stub + (who == 'b')];
}

/* The host's futex, by the instruction of trap's and notify's stub; without a stub, a call like
 * any other. */
static long stub_futex(int *word, int op, int value)
{
	const uint64_t arg[6] = {(uint64_t)word, (uint64_t)op, (uint64_t)value};

	if (!getenv("STUB"))
		return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
	return host_call(SYS_futex, arg);
}

static void *sleeper(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	if (arg)
		stub_futex(word_of(g_me, true), FUTEX_WAIT, 0);
	else
		syscall(SYS_futex, word_of(g_me, false), FUTEX_WAIT, 0, NULL, NULL, 0);
	return arg;
}

static const char *posix_name(char who)
{
	static char buf[2][32];
	char *b = buf[who == 'b'];

	snprintf(b, sizeof(buf[0]), "/moat-neighbour-%c", who);
	return b;
}

struct message {
	long type;
	char text[32];
};

static int g_watch;

/* ---- the victim ---- */

static void victim(void)
{
	static const int counted[] = {SIGUSR1, SIGUSR2, SIGURG, SIGWINCH, SIGIO, SIGCONT, SIGCHLD};
	static int sockets[2];
	struct told t = {.pid = getpid(), .secret = g_secret, .canary = g_canary};
	struct message m = {.type = 1};
	mqd_t q;
	pthread_t thread;
	int fd;

	for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
		signal(counted[i], on_signal);
	for (int sig = SIGRTMIN; sig < SIGRTMIN + 4; sig++)
		signal(sig, on_signal);
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PTRACER, -1);
	prctl(PR_SET_NAME, g_me == 'a' ? "neighbour-a" : "neighbour-b");
	snprintf(g_secret, sizeof(g_secret), "secret-%c", g_me);
	/* A file of its own, by an inode that has no name. */
	t.fd = memfd_create("m", 0);
	(void)!write(t.fd, g_secret, sizeof(g_secret));
	if (g_me == 'a')
		(void)!sethostname("named-by-a", 10);

	sockets[0] = served(address(posix_name(g_me), true));
	sockets[1] = served(address(path("socket", g_me), false));
	pthread_create(&thread, NULL, serve, sockets);
	strcpy(shmat(shmget(key(g_me), 4096, IPC_CREAT | 0666), NULL, 0), g_secret);
	strcpy(m.text, g_secret);
	msgsnd(msgget(key(g_me), IPC_CREAT | 0666), &m, sizeof(m.text), 0);
	semctl(semget(key(g_me), 1, IPC_CREAT | 0666), 0, SETVAL, 77);
	fd = shm_open(posix_name(g_me), O_CREAT | O_RDWR, 0666);
	(void)!write(fd, g_secret, sizeof(g_secret));
	q = mq_open(posix_name(g_me), O_CREAT | O_RDWR, 0666,
		    &(struct mq_attr){.mq_maxmsg = 2, .mq_msgsize = 32});
	mq_send(q, g_secret, sizeof(g_secret), 0);

	fd = open(path("lease", g_me), O_CREAT | O_RDWR, 0666);
	fcntl(fd, F_SETSIG, SIGRTMIN + 3);
	fcntl(fd, F_SETLEASE, F_WRLCK);
	g_watch = inotify_init1(IN_NONBLOCK);
	mkdir(path("watched", g_me), 0777);
	inotify_add_watch(g_watch, path("watched", g_me), IN_CREATE);

	fd = open(path("words", 'x'), O_CREAT | O_RDWR, 0666);
	(void)!ftruncate(fd, 4096);
	g_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pthread_create(&thread, NULL, sleeper, NULL);
	pthread_create(&thread, NULL, sleeper, g_word);
	usleep(100000);
	put(path("told", g_me), &t, sizeof(t));
}

/* What has been done to us. */
static void damage(void)
{
	static const struct {
		int sig, name;
	} hits[] = {{SIGUSR1, N_kill_pid}, {SIGUSR2, N_kill_group}, {SIGURG, N_kill_all},
		    {SIGWINCH, N_tgkill},  {SIGIO, N_sigio},        {SIGCHLD, N_pidfd_signal}};
	char events[4096];

	for (size_t i = 0; i < sizeof(hits) / sizeof(hits[0]); i++)
		if (g_hits[hits[i].sig])
			got(hits[i].name);
	if (g_hits[SIGRTMIN])
		got(N_sigqueue);
	if (strcmp(g_canary, "untouched") != 0)
		got(N_vm_write);
	if (read(g_watch, events, sizeof(events)) > 0)
		got(N_inotify);
}

/* ---- the attacker ---- */

static bool opened(pid_t pid, const char *what, const char *below, char *buf, size_t size)
{
	char p[300];
	ssize_t n;
	int fd;

	snprintf(p, sizeof(p), "/proc/%d/%s%s", pid, what, below);
	fd = open(p, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, buf, size - 1);
	close(fd);
	if (n > 0)
		buf[n] = '\0';
	return n > 0;
}

static void attack_process(const struct told *t)
{
	char buf[4096] = "", p[64];
	struct iovec mine = {buf, 32}, theirs = {t->secret, 32}, change = {"changed", 8};
	struct rlimit limit;
	cpu_set_t set;
	siginfo_t info = {.si_code = SI_QUEUE};
	int fd, pair[2];

	if (process_vm_readv(t->pid, &mine, 1, &theirs, 1, 0) > 0 && is_secret(buf))
		got(N_vm_read);
	theirs = (struct iovec){t->canary, 8};
	(void)!process_vm_writev(t->pid, &change, 1, &theirs, 1, 0);
	snprintf(p, sizeof(p), "/proc/%d/mem", t->pid);
	fd = open(p, O_RDONLY);
	memset(buf, 0, sizeof(buf));
	if (pread(fd, buf, 32, (off_t)t->secret) > 0 && is_secret(buf))
		got(N_proc_mem);
	close(fd);
	if (opened(t->pid, "environ", "", buf, sizeof(buf)))
		got(N_proc_environ);
	if (opened(t->pid, "cmdline", "", buf, sizeof(buf)))
		got(N_proc_cmdline);
	snprintf(p, sizeof(p), "/proc/%d/fd/%d", t->pid, t->fd);
	if (reads_secret(open(p, O_RDONLY)))
		got(N_proc_fd);
	if (opened(t->pid, "cwd", "/told.", buf, sizeof(buf)) ||
	    opened(t->pid, "cwd", g_other == 'a' ? "/told.a" : "/told.b", buf, sizeof(buf)))
		got(N_proc_cwd);
	if (opened(t->pid, "root", "/etc/passwd", buf, sizeof(buf)))
		got(N_proc_root);
	for (pid_t pid = 1; pid < 1000; pid++)
		if (opened(pid, "comm", "", buf, sizeof(buf)) &&
		    strncmp(buf, "neighbour-", 10) == 0 && buf[10] == g_other) {
			got(N_proc_seen);
			break;
		}
	fd = (int)syscall(SYS_pidfd_open, t->pid, 0);
	if (fd >= 0)
		got(N_pidfd);
	if (reads_secret((int)syscall(SYS_pidfd_getfd, fd, t->fd, 0)))
		got(N_pidfd_getfd);
	syscall(SYS_pidfd_send_signal, fd, SIGCHLD, NULL, 0);
	kill(t->pid, SIGUSR1);
	kill(-t->pid, SIGUSR2);
	kill(-1, SIGURG);
	syscall(SYS_tgkill, t->pid, t->pid, SIGWINCH);
	syscall(SYS_rt_sigqueueinfo, t->pid, SIGRTMIN, &info);
	/* SIGIO by a descriptor's owner. */
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
		fcntl(pair[0], F_SETOWN, t->pid);
		fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK);
		(void)!write(pair[1], "x", 1);
	}
	errno = 0;
	if (getpriority(PRIO_PROCESS, (id_t)t->pid) != -1 || errno == 0)
		got(N_priority);
	if (prlimit(t->pid, RLIMIT_NOFILE, NULL, &limit) == 0)
		got(N_rlimit);
	if (sched_getaffinity(t->pid, sizeof(set), &set) == 0)
		got(N_affinity);
	if (getpgid(t->pid) >= 0)
		got(N_group);
	if (getsid(t->pid) >= 0)
		got(N_session);
}

/* Last, and one after the other: it stops the victim. */
static void attack_ptrace(const struct told *t)
{
	if (ptrace(PTRACE_ATTACH, t->pid, NULL, NULL) == 0) {
		got(N_ptrace);
		waitpid(t->pid, NULL, __WALL);
		ptrace(PTRACE_DETACH, t->pid, NULL, NULL);
	}
}

static bool connects(struct sockaddr_un a)
{
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	return connect(s, (struct sockaddr *)&a, sizeof(a)) == 0 && reads_secret(s);
}

static void attack_objects(void)
{
	struct sockaddr_un a = address(posix_name(g_other), true);
	struct message m;
	char buf[64] = "", *at;
	int fd;

	if (connects(a))
		got(N_abstract);
	if (bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof(a)) != 0)
		got(N_abstract_name);
	if (connects(address(path("socket", g_other), false)))
		got(N_named);
	at = shmat(shmget(key(g_other), 0, 0), NULL, 0);
	if (at != (char *)-1 && is_secret(at))
		got(N_shm);
	if (msgrcv(msgget(key(g_other), 0), &m, sizeof(m.text), 0, IPC_NOWAIT) > 0 &&
	    is_secret(m.text))
		got(N_msg);
	if (semctl(semget(key(g_other), 0, 0), 0, GETVAL) == 77)
		got(N_sem);
	if (reads_secret(shm_open(posix_name(g_other), O_RDONLY, 0)))
		got(N_posix_shm);
	if (mq_receive(mq_open(posix_name(g_other), O_RDWR | O_NONBLOCK), buf, sizeof(buf), NULL) >
		    0 &&
	    is_secret(buf))
		got(N_mqueue);

	fd = open(path("lease", g_other), O_RDWR | O_NONBLOCK);
	if (fd < 0 && errno == EWOULDBLOCK)
		got(N_lease);
	close(open(path("watched", g_other), O_RDONLY));
	snprintf(buf, sizeof(buf), "made-by-%c", g_me);
	fd = open(path("watched", g_other), O_PATH);
	close(openat(fd, buf, O_CREAT | O_WRONLY, 0666));
	if (syscall(SYS_futex, word_of(g_other, false), FUTEX_WAKE, 8, NULL, NULL, 0) > 0)
		got(N_futex);
	if (stub_futex(word_of(g_other, true), FUTEX_WAKE, 8) > 0)
		got(N_stub_futex);
	if (g_me == 'b' && gethostname(buf, sizeof(buf)) == 0 && strcmp(buf, "named-by-a") == 0)
		got(N_hostname);
}

static int neighbour(void)
{
	struct told t;
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setpgid(0, 0);
	if (chdir(g_dir) != 0)
		return 2;
	victim();
	meet("ready");
	fd = open(path("told", g_other), O_RDONLY);
	if (read(fd, &t, sizeof(t)) != sizeof(t))
		return 2;
	close(fd);
	attack_objects();
	attack_process(&t);
	meet("attacked");
	usleep(50000); /* what is under way */
	damage();
	meet("counted");
	if (g_me == 'a')
		attack_ptrace(&t);
	meet("done");
	shm_unlink(posix_name(g_me));
	printf("end %c\n", g_me);
	return 0;
}

int main(int argc, char **argv)
{
	int status;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (int i = 0; i < N_COUNT; i++)
			printf("%s\n", g_names[i]);
		return 0;
	}
	if (argc != 3 || getenv("NEIGHBOUR") == NULL) {
		fprintf(stderr, "runs only from tests/run-hostile.sh\n");
		return 2;
	}
	g_dir = argv[1];
	g_me = argv[2][0];
	g_other = g_me == 'a' ? 'b' : 'a';
	/* Who waits is hit by what is sent to all. */
	signal(SIGURG, SIG_IGN);
	for (;;) {
		const int from = g_me == 'a' ? 100 : 200;
		pid_t pid = fork();

		if (pid == 0) {
			if (getpid() < from || getpid() >= from + 80)
				_exit(77);
			_exit(neighbour());
		}
		if (pid < 0 || waitpid(pid, &status, 0) < 0)
			return 2;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 77)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		if (pid >= from + 80)
			return 2;
	}
}
