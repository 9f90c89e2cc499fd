/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No side effect on denial: every call of the syscall table is made with arguments that must fail,
 * and what can be seen of the world before and after must be the same.
 *
 * Theory of operation: sentry/syscalls.def is included, so that a new row is tested as soon as it
 * is there: the kinds of its arguments say what good ones are and which bad ones there are for
 * each: pointers that lead nowhere, to the kernel, over the end of a mapping (a copy that faults
 * half way) or to memory that cannot be written; descriptors that are closed, O_PATH or of another
 * kind; unknown flags; huge sizes; paths that are read-only, missing, too long or through a file;
 * no room for descriptors or in files; no permission. Each is combined with each kind of descriptor
 * and each value of an enumeration.
 *
 * A row's calls are made one after the other by a child with objects of its own, and the world is
 * looked at after each: the trees (names, inodes, modes, owners, sizes, times, contents),
 * descriptors with their flags, offsets and contents, signal state, credentials, limits, timers,
 * mappings, processes, IPC, mounts, names. A call that succeeds, blocks or kills the child says
 * nothing; the next child goes on behind it.
 *
 * Output: a line "NAME WHAT ERRNO: KEY…" for each call that failed and changed something. The
 * runner (no_side_effect.sh) runs it natively, too: only what Linux itself leaves may be left.
 * Natively it runs below confine (tests/confine.c), where no call can reach the host; those that
 * the host's root alone may make, or that are its policy, are not made there, and must leave
 * nothing.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define MOAT_BASE_TYPES_H /* the argument kinds need no more than these */
#include "sentry/argkinds.h"

struct row {
	int nr;
	const char *name;
	int status[2], nargs;
	struct argdesc args[6];
};

#define UNWRAP(...) __VA_ARGS__
static const struct row g_rows[] = {
#define ROW(nr_, name_, has, status_, ret_, waits_, nargs_, params_, descs, passed, note_) \
	{nr_, #name_, {UNWRAP status_}, nargs_, UNWRAP descs},
#include "sentry/syscall_rows.h"
};

/* Never made: they do not return, or return twice. */
static const char *const g_never[] = {"exit", "exit_group", "rt_sigreturn", "fork", "vfork", NULL};
/* Not made natively: they are for the host's root, or its policy. */
static const char *const g_not_natively[] = {"reboot",
					     "kexec_load",
					     "kexec_file_load",
					     "init_module",
					     "finit_module",
					     "delete_module",
					     "swapon",
					     "swapoff",
					     "settimeofday",
					     "clock_settime",
					     "adjtimex",
					     "clock_adjtime",
					     "umount2",
					     "mount",
					     "pivot_root",
					     "move_mount",
					     "open_tree",
					     "fsopen",
					     "fsconfig",
					     "fsmount",
					     "fspick",
					     "mount_setattr",
					     "acct",
					     "quotactl",
					     "quotactl_fd",
					     "syslog",
					     "vhangup",
					     "iopl",
					     "ioperm",
					     "bpf",
					     "perf_event_open",
					     "userfaultfd",
					     "add_key",
					     "request_key",
					     "keyctl",
					     "nfsservctl",
					     "sync",
					     "io_uring_setup",
					     "io_uring_enter",
					     "io_uring_register",
					     "fanotify_init",
					     "fanotify_mark",
					     "uselib",
					     "_sysctl",
					     "create_module",
					     "migrate_pages",
					     "move_pages",
					     "ptrace",
					     "seccomp",
					     "setns",
					     "unshare",
					     "sched_setattr",
					     "open_tree_attr",
					     "uretprobe",
					     "uprobe",
					     "map_shadow_stack",
					     NULL};

static bool among(const char *const *list, const char *name)
{
	for (; *list; list++)
		if (strcmp(*list, name) == 0)
			return true;
	return false;
}

/* ---- objects ---- */

/* Kinds of descriptors; each has a fixed number. */
enum {
	FD_FILE = 40,
	FD_RDONLY,
	FD_PIPE_R,
	FD_PIPE_W,
	FD_SOCK,
	FD_SOCK2,
	FD_DGRAM,
	FD_LISTEN,
	FD_EVENT,
	FD_TIMER,
	FD_EPOLL,
	FD_INOTIFY,
	FD_SIGNAL,
	FD_DIR,
	FD_MEMFD,
	FD_RO_FILE,
	FD_NULL,
	FD_END,
	FD_OPATH = FD_END,
	FD_PIDFD,
	FD_ALL,
	FD_CLOSED = 90,
	FD_REPORT = 91,
};

static char *g_page, *g_readonly, *g_edge; /* good memory; not writable; the end of a mapping */
static const char *g_ro;                   /* the read-only grant */

static void at(int fd, int number)
{
	if (fd < 0)
		return;
	dup2(fd, number);
	if (fd != number)
		close(fd);
}

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	(void)!write(fd, text, strlen(text));
	fchmod(fd, mode);
	close(fd);
}

static void objects(const struct row *r)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "listening"};
	struct sigevent none = {.sigev_notify = SIGEV_NONE};
	sigset_t set;
	timer_t timer;
	int p[2];

	put("file", "some text in a file, enough of it to be read in part\n", 0644);
	put("closed_to_others", "root's", 0600);
	mkdir("dir", 0755);
	mkdir("locked", 0700);
	put("locked/in", "x", 0644);
	symlink("file", "link");
	at(open("file", O_RDWR), FD_FILE);
	lseek(FD_FILE, 3, SEEK_SET);
	at(open("file", O_RDONLY), FD_RDONLY);
	(void)!pipe2(p, O_NONBLOCK);
	at(p[0], FD_PIPE_R);
	at(p[1], FD_PIPE_W);
	(void)!write(FD_PIPE_W, "in the pipe, some of it", 23);
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p);
	at(p[0], FD_SOCK);
	at(p[1], FD_SOCK2);
	(void)!write(FD_SOCK2, "in the socket, some", 19);
	at(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0), FD_DGRAM);
	at(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), FD_LISTEN);
	bind(FD_LISTEN, (struct sockaddr *)&a, sizeof(a));
	listen(FD_LISTEN, 4);
	p[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	connect(p[0], (struct sockaddr *)&a, sizeof(a));
	at(p[0], 80); /* waits to be accepted */
	at(eventfd(5, EFD_NONBLOCK), FD_EVENT);
	at(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), FD_TIMER);
	at(epoll_create1(0), FD_EPOLL);
	epoll_ctl(FD_EPOLL, EPOLL_CTL_ADD, FD_PIPE_R,
		  &(struct epoll_event){.events = EPOLLIN | EPOLLONESHOT});
	/* The host takes some 30 ms to give one up. */
	if (strncmp(r->name, "inotify", 7) == 0 || strcmp(r->name, "read") == 0) {
		at(inotify_init1(IN_NONBLOCK), FD_INOTIFY);
		inotify_add_watch(FD_INOTIFY, "dir", IN_CREATE);
	}
	put("dir/x", "x", 0644);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	at(signalfd(-1, &set, SFD_NONBLOCK), FD_SIGNAL);
	raise(SIGUSR2);
	at(open("dir", O_RDONLY | O_DIRECTORY), FD_DIR);
	at(memfd_create("m", MFD_ALLOW_SEALING), FD_MEMFD);
	(void)!write(FD_MEMFD, "memory", 6);
	snprintf(g_page, 4096, "%s/public", g_ro);
	at(open(g_page, O_RDONLY), FD_RO_FILE);
	at(open("/dev/null", O_RDWR), FD_NULL);
	at(open("file", O_PATH), FD_OPATH);
	at((int)syscall(SYS_pidfd_open, getpid(), 0), FD_PIDFD);
	timer_create(CLOCK_REALTIME, &none, &timer);
}

static struct {
	volatile unsigned beat; /* the child is alive */
	volatile int done;      /* calls of the row that are behind us */
	volatile unsigned failed, succeeded, changed;
} * g_shared;

/* ---- the world ---- */

enum {
	K_TREE,
	K_FDS,
	K_OFFSET,
	K_DATA,
	K_SIGNALS,
	K_CRED,
	K_LIMITS,
	K_SELF,
	K_MAPS,
	K_PROCS,
	K_IPC,
	K_MOUNTS,
	K_TIMERS,
	K_COUNT
};
static const char *const g_keys[K_COUNT] = {"tree", "fds",    "offset", "data", "signals",
					    "cred", "limits", "self",   "maps", "processes",
					    "ipc",  "mounts", "timers"};

struct world {
	uint64_t key[K_COUNT];
};

static void mix(uint64_t *h, const void *data, size_t size)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < size; i++)
		*h = (*h ^ p[i]) * UINT64_C(0x100000001b3);
}

static void mix_text(uint64_t *h, const char *path, bool (*skip)(const char *line))
{
	static char buf[1 << 16];
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
	ssize_t n, have = 0;

	while (fd >= 0 && have < (ssize_t)sizeof(buf) - 1 &&
	       (n = read(fd, buf + have, sizeof(buf) - 1 - (size_t)have)) > 0)
		have += n;
	close(fd);
	buf[have] = '\0';
	for (char *line = strtok(buf, "\n"); line; line = strtok(NULL, "\n"))
		if (!skip || !skip(line))
			mix(h, line, strlen(line));
}

static void mix_tree(uint64_t *h, const char *path, int depth)
{
	g_shared->beat++;
	struct stat st;
	char buf[256];
	ssize_t n;
	int fd;

	if (lstat(path, &st) != 0)
		return;
	mix(h, path, strlen(path));
	mix(h, &st.st_ino, sizeof(st.st_ino));
	mix(h, &st.st_mode, sizeof(st.st_mode));
	mix(h, &st.st_nlink, sizeof(st.st_nlink));
	mix(h, &st.st_uid, 2 * sizeof(st.st_uid));
	mix(h, &st.st_size, sizeof(st.st_size));
	mix(h, &st.st_mtim, sizeof(st.st_mtim));
	mix(h, &st.st_ctim, sizeof(st.st_ctim));
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, buf, sizeof(buf));
		mix(h, buf, n > 0 ? (size_t)n : 0);
	} else if (S_ISREG(st.st_mode)) {
		fd = open(path, O_RDONLY | O_NOATIME);
		while ((n = read(fd, buf, sizeof(buf))) > 0)
			mix(h, buf, (size_t)n);
		close(fd);
		n = depth == 3 && strcmp(path, "./file") == 0 ? listxattr(path, buf, sizeof(buf))
							      : 0;
		mix(h, buf, n > 0 ? (size_t)n : 0);
	} else if (S_ISDIR(st.st_mode) && depth) {
		DIR *d = opendir(path);
		struct dirent *e;
		uint64_t sum = 0;

		while (d && (e = readdir(d)))
			if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
				char below[PATH_MAX];
				uint64_t one = 1;

				snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
				mix_tree(&one, below, depth - 1);
				sum += one;
			}
		if (d)
			closedir(d);
		mix(h, &sum, sizeof(sum));
	}
}

static bool not_a_pid(const struct dirent *e)
{
	return e->d_name[0] < '0' || e->d_name[0] > '9';
}

/* What moves by itself: the stack's growth, the heap's. */
static bool moving(const char *line)
{
	return strstr(line, "[stack]") || strstr(line, "[heap]") || strstr(line, "[trampoline]");
}

/* Of /proc/self/status and fdinfo: what an attempt may count. */
static bool counters(const char *line)
{
	static const char *const names[] = {"Vm",    "Rss",    "voluntary",   "nonvoluntary",
					    "State", "FDSize", "SigQ",        "it_value",
					    "Cpus",  "Mems",   "Speculation", "Seccomp"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(line, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* @all: also what is slow to look at, for which once a row will do. */
static void look(struct world *w, bool all)
{
	uint64_t h[K_COUNT];
	struct itimerval it;
	struct rlimit lim;
	static struct pollfd fds[100];
	stack_t ss;
	DIR *d;

	for (int i = 0; i < K_COUNT; i++)
		h[i] = UINT64_C(0xcbf29ce484222325);
	mix_tree(&h[K_TREE], ".", 4);
	mix_tree(&h[K_TREE], g_ro, 2);
	/* Which are open, by one call. */
	for (int fd = 0; fd < 100; fd++)
		fds[fd] = (struct pollfd){.fd = fd};
	poll(fds, 100, 0);
	for (int fd = 0; fd < 100; fd++) {
		int flags[2], n = 0;
		char path[64];
		off_t off;
		struct stat st;

		if (fd == FD_REPORT || (fds[fd].revents & POLLNVAL))
			continue;
		flags[0] = fcntl(fd, F_GETFD);
		flags[1] = fcntl(fd, F_GETFL);
		mix(&h[K_FDS], &fd, sizeof(fd));
		mix(&h[K_FDS], flags, sizeof(flags));
		if (all && fstat(fd, &st) == 0)
			mix(&h[K_FDS], &st.st_ino, sizeof(st.st_ino));
		off = lseek(fd, 0, SEEK_CUR);
		mix(&h[K_OFFSET], &off, sizeof(off));
		if (off < 0 && ioctl(fd, FIONREAD, &n) == 0)
			mix(&h[K_DATA], &n, sizeof(n));
		if (fd >= FD_EVENT && fd <= FD_SIGNAL) {
			snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
			mix_text(&h[K_DATA], path, counters);
		}
	}
	{
		/* Is there still somebody to be accepted? */
		struct pollfd p[] = {
			{FD_LISTEN, POLLIN, 0}, {FD_EPOLL, POLLIN, 0}, {FD_SIGNAL, POLLIN, 0}};

		poll(p, 3, 0);
		mix(&h[K_DATA], p, sizeof(p));
	}
	mix_text(&h[K_SIGNALS], "/proc/self/status", counters);
	for (int sig = 1; all && sig < 65; sig++) {
		char action[32];

		if (syscall(SYS_rt_sigaction, sig, NULL, action, 8) == 0)
			mix(&h[K_SIGNALS], action, sizeof(action));
	}
	sigaltstack(NULL, &ss);
	mix(&h[K_SIGNALS], &ss.ss_sp, sizeof(ss.ss_sp));
	mix(&h[K_SIGNALS], &ss.ss_size, sizeof(ss.ss_size));
	for (int r = 0; all && r < 16; r++)
		if (getrlimit(r, &lim) == 0)
			mix(&h[K_LIMITS], &lim, sizeof(lim));
	{
		uid_t ids[8] = {0};
		int n[12] = {getpriority(PRIO_PROCESS, 0),
			     sched_getscheduler(0),
			     prctl(PR_GET_DUMPABLE),
			     prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
			     prctl(PR_GET_KEEPCAPS),
			     prctl(PR_GET_SECUREBITS),
			     prctl(PR_GET_TIMERSLACK),
			     getpgid(0),
			     getsid(0),
			     (int)syscall(SYS_personality, 0xffffffff),
			     (int)syscall(SYS_ioprio_get, 1, 0)};
		char text[PATH_MAX] = "";
		struct utsname u;
		mode_t mask = umask(0);
		int death = 0;

		umask(mask);
		getresuid(&ids[0], &ids[1], &ids[2]);
		getresgid(&ids[3], &ids[4], &ids[5]);
		ids[6] = (uid_t)setfsuid((uid_t)-1);
		ids[7] = (uid_t)setfsgid((gid_t)-1);
		mix(&h[K_CRED], ids, sizeof(ids));
		mix(&h[K_SELF], n, sizeof(n));
		mix(&h[K_SELF], &mask, sizeof(mask));
		(void)!getcwd(text, sizeof(text));
		mix(&h[K_SELF], text, strlen(text));
		prctl(PR_GET_NAME, text);
		mix(&h[K_SELF], text, strlen(text));
		prctl(PR_GET_PDEATHSIG, &death);
		mix(&h[K_SELF], &death, sizeof(death));
		uname(&u);
		mix(&h[K_SELF], u.nodename, strlen(u.nodename));
		mix(&h[K_SELF], u.domainname, strlen(u.domainname));
	}
	mix_text(&h[K_MAPS], "/proc/self/maps", moving);
	if (all) {
		d = opendir("/proc");
		for (struct dirent *e; d && (e = readdir(d));)
			if (!not_a_pid(e))
				mix(&h[K_PROCS], e->d_name, strlen(e->d_name));
		closedir(d);
		mix_text(&h[K_IPC], "/proc/sysvipc/shm", NULL);
		mix_text(&h[K_IPC], "/proc/sysvipc/sem", NULL);
		mix_text(&h[K_IPC], "/proc/sysvipc/msg", NULL);
		mix_text(&h[K_MOUNTS], "/proc/mounts", NULL);
	}
	for (int which = 0; which < 3; which++) {
		getitimer(which, &it);
		mix(&h[K_TIMERS], &it.it_interval, sizeof(it.it_interval));
		int set = it.it_value.tv_sec || it.it_value.tv_usec;

		mix(&h[K_TIMERS], &set, sizeof(set));
	}
	for (int id = 0; all && id < 8; id++) {
		struct itimerspec its;
		long r = syscall(SYS_timer_gettime, id, &its);

		mix(&h[K_TIMERS], &r, sizeof(r));
	}
	memcpy(w->key, h, sizeof(h));
}

/* ---- one call ---- */

static int g_index, g_start;
static struct world g_before;
static const char *g_mode;
static bool g_full; /* no descriptor can be made */

static bool report(const struct row *r, const struct world *before, const struct world *after,
		   const char *what)
{
	char line[512];
	int n;

	if (memcmp(before, after, sizeof(*after)) == 0)
		return false;
	g_shared->changed++;
	n = snprintf(line, sizeof(line), "%s %s%s:", r->name, g_mode, what);
	for (int k = 0; k < K_COUNT; k++)
		if (before->key[k] != after->key[k])
			n += snprintf(line + n, sizeof(line) - (size_t)n, " %s", g_keys[k]);
	line[n++] = '\n';
	(void)!write(FD_REPORT, line, (size_t)n);
	return true;
}

/* In a build whose uninitialised variables hold POISON (full-padding.sh): does any of it come out?
 */
#define POISON 0xfe
static bool g_padding;

static void find_poison(const char *name, const char *what, const void *mem, size_t size)
{
	const unsigned char *p = mem;
	char line[256];
	size_t run = 0;

	for (size_t i = 0; i < size; i++) {
		run = p[i] == POISON ? run + 1 : 0;
		if (run == 3) {
			int n = snprintf(line, sizeof(line), "%s %s: poison at %zu\n", name, what,
					 i - 2);

			(void)!write(FD_REPORT, line, (size_t)n);
			g_shared->changed++;
			return;
		}
	}
}

static void handler(int sig, siginfo_t *info, void *context)
{
	char *here = (char *)((uintptr_t)context & ~UINT64_C(63));

	(void)info;
	find_poison("signal frame", sig == SIGSEGV ? "of a fault" : "of kill", here, 3000);
	if (sig == SIGSEGV)
		_exit(0);
}

/* What the kernel hands over without a call: the stack at the start, frames of signals. */
static void poison_elsewhere(char **argv)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	find_poison("exec", "stack", argv, 2048);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	raise(SIGUSR1);
	if (fork() == 0) {
		*(volatile char *)16 = 1;
		_exit(0);
	}
	wait(NULL);
}

static void step_padding(const struct row *r, const uint64_t a[6], const char *what)
{
	pid_t me = getpid();

	g_shared->done = g_index;
	g_shared->beat++;
	errno = 0;
	if (syscall(r->nr, a[0], a[1], a[2], a[3], a[4], a[5]) < 0)
		g_shared->failed++;
	else
		g_shared->succeeded++;
	if (getpid() != me)
		_exit(0);
	find_poison(r->name, what, g_page, 4096);
}

static void step(const struct row *r, const uint64_t a[6], const char *what)
{
	struct world after;
	pid_t me = getpid();
	long ret;
	int n;

	if (g_index++ < g_start)
		return;
	if (g_padding) {
		step_padding(r, a, what);
		return;
	}
	g_shared->done = g_index;
	g_shared->beat++;
	if (g_full) /* looking needs descriptors */
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 4096});
	errno = 0;
	ret = syscall(r->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	n = errno;
	if (g_full)
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){1024, 4096});
	if (getpid() != me)
		_exit(0); /* clone did */
	if (ret != -1 || n == 0) {
		g_shared->succeeded++;
		_exit(1);
	}
	g_shared->failed++;
	look(&after, false);
	if (report(r, &g_before, &after, what))
		_exit(1);
}

/* ---- arguments ---- */

static bool is_pointer(const struct argdesc *d)
{
	switch (d->kind) {
	case AK_PTR:
		return d->dir != DIR_VALUE;
	case AK_PATH:
	case AK_STR:
	case AK_STRV:
	case AK_ENVV:
	case AK_BUF:
	case AK_STRUCT:
	case AK_ARRAY:
	case AK_IOV:
	case AK_IOV_REMOTE:
	case AK_SOCKADDR:
	case AK_MSGHDR:
	case AK_FDSET:
	case AK_DIRENTS:
	case AK_CPUMASK:
	case AK_WSTATUS:
	case AK_CLONEARGS:
	case AK_OPENHOW:
	case AK_IOCTLARG:
	case AK_FCNTLARG:
	case AK_FUTEXTIME:
		return true;
	default:
		return false;
	}
}

/* Is path argument @arg the name of what is to be made? */
static bool makes_a_name(const struct row *r, int arg)
{
	static const char *const only[] = {"mkdir", "mkdirat", "mknod", "mknodat", "creat", NULL};
	static const char *const second[] = {"link",   "linkat",   "symlink",   "symlinkat",
					     "rename", "renameat", "renameat2", NULL};
	bool another = false;

	for (int i = 0; i < arg; i++)
		another |= r->args[i].kind == AK_PATH;
	return among(only, r->name) || (another && among(second, r->name));
}

/* The good arguments. Each pointer has 256 bytes of its own. */
static void good(const struct row *r, uint64_t a[6])
{
	memset(g_page, 0, 4096);
	for (int i = 0; i < r->nargs; i++) {
		const struct argdesc *d = &r->args[i];
		char *mem = g_page + i * 256;

		switch (d->kind) {
		case AK_FD:
			a[i] = FD_FILE;
			break;
		case AK_DIRFD:
			a[i] = (uint64_t)AT_FDCWD;
			break;
		case AK_PID:
			a[i] = (uint64_t)getpid();
			break;
		case AK_MODE:
		case AK_OMODE:
		case AK_FMODE:
			a[i] = 0644;
			break;
		case AK_SIG:
			a[i] = strstr(r->name, "sigaction") ? SIGUSR1 : 0;
			break;
		case AK_FLAGS:
			a[i] = strcmp(d->name, "prot") == 0 ? 1 : 0;
			break;
		case AK_CLONEFLAGS:
			a[i] = SIGCHLD | 0x00100000 | 0x01000000;
			break;
		case AK_INT:
		case AK_UINT:
		case AK_LONG:
		case AK_ULONG:
			a[i] = 1;
			break;
		case AK_PATH:
			strcpy(mem, makes_a_name(r, i) ? "new" : "file");
			a[i] = (uint64_t)(uintptr_t)mem;
			break;
		case AK_STRV:
		case AK_ENVV:
			a[i] = (uint64_t)(uintptr_t)mem;
			break;
		case AK_SOCKADDR:
			*(sa_family_t *)mem = AF_UNIX;
			strcpy(mem + 2, "new_socket");
			a[i] = (uint64_t)(uintptr_t)mem;
			break;
		case AK_IOV:
		case AK_IOV_REMOTE:
			((uint64_t *)mem)[0] = (uint64_t)(uintptr_t)(g_page + 2048);
			((uint64_t *)mem)[1] = 8;
			a[i] = (uint64_t)(uintptr_t)mem;
			break;
		default:
			a[i] = is_pointer(d) ? (uint64_t)(uintptr_t)mem : 0;
			break;
		}
	}
	/* Sizes of what is pointed to. */
	for (int i = 0; i < r->nargs; i++) {
		const struct argdesc *d = &r->args[i];

		if ((d->bytes == SZ_ARG || d->bytes == SZ_RET) && d->link < r->nargs)
			a[d->link] = d->size > 1 ? 1 : d->kind == AK_SOCKADDR ? 13 : 16;
		if (d->kind == AK_FDSET)
			a[0] = 64;
		if (strcmp(d->name, "sigsetsize") == 0)
			a[i] = 8;
	}
}

static void bad_pointers(const struct row *r, const uint64_t base[6], const char *what, bool all)
{
	for (int i = 0; i < r->nargs; i++) {
		const struct argdesc *d = &r->args[i];
		uint64_t a[6];
		char text[160];
		unsigned size = d->size > 1 ? d->size : 16;

		if (!is_pointer(d))
			continue;
		const struct {
			const char *name;
			uint64_t value;
		} bad[] = {
			{"nowhere", 0x10},
			{"half", (uint64_t)(uintptr_t)(g_edge - size / 2)},
			{"read-only", (uint64_t)(uintptr_t)g_readonly + (uint64_t)i * 256},
			{"kernel", UINT64_C(0xffff800000000000)},
			{"beyond", UINT64_C(0x7ffffffff000)},
			{"first byte", (uint64_t)(uintptr_t)(g_edge - 1)},
		};
		for (size_t b = 0; b < (all ? sizeof(bad) / sizeof(bad[0]) : 3); b++) {
			memcpy(a, base, sizeof(a));
			memcpy(g_edge - 256, g_page + i * 256, 256);
			if (bad[b].value == (uint64_t)(uintptr_t)(g_edge - size / 2))
				memcpy(g_edge - size / 2, g_page + i * 256, size / 2);
			a[i] = bad[b].value;
			snprintf(text, sizeof(text), "%s %s=%s", what, d->name, bad[b].name);
			step(r, a, text);
		}
	}
	/* Two at once: the second copy faults after the first has been made. Behind vectors: their
	 * buffers. */
	for (int i = 0; i < r->nargs; i++)
		if (r->args[i].kind == AK_IOV) {
			uint64_t a[6], *iov = (uint64_t *)(g_page + i * 256);
			char text[160];

			memcpy(a, base, sizeof(a));
			iov[0] = (uint64_t)(uintptr_t)(g_edge - 4);
			iov[1] = 8;
			snprintf(text, sizeof(text), "%s %s: buffer half", what, r->args[i].name);
			step(r, a, text);
			iov[0] = 0x10;
			snprintf(text, sizeof(text), "%s %s: buffer nowhere", what,
				 r->args[i].name);
			step(r, a, text);
			iov[0] = (uint64_t)(uintptr_t)(g_page + 2048);
			iov[1] = 4;
			iov[2] = 0x10;
			iov[3] = UINT64_MAX;
			a[r->args[i].link] = 2;
			snprintf(text, sizeof(text), "%s %s: second length", what, r->args[i].name);
			step(r, a, text);
		}
}

static void bad_values(const struct row *r, const uint64_t base[6])
{
	static const int fds[] = {-1, FD_CLOSED, FD_OPATH, 1 << 30};
	static const uint64_t bits[] = {1u << 30, 1u << 27, 0x80000000u, UINT32_MAX};
	char ro_file[PATH_MAX], ro_new[PATH_MAX], far[5000];
	uint64_t a[6];
	char text[160];

	snprintf(ro_file, sizeof(ro_file), "%s/public", g_ro);
	snprintf(ro_new, sizeof(ro_new), "%s/new", g_ro);
	memset(far, 'a', sizeof(far) - 1);
	far[sizeof(far) - 1] = '\0';
	const char *const paths[] = {ro_file,   ro_new,         far,   "",
				     "nodir/x", "file/x",       "dir", "link/",
				     "dir/x/",  "/proc/self/x", "/",   "."};

	for (int i = 0; i < r->nargs; i++) {
		const struct argdesc *d = &r->args[i];

		for (int k = 0; k < 4; k++) {
			memcpy(a, base, sizeof(a));
			if (d->kind == AK_FD || d->kind == AK_DIRFD)
				a[i] = (uint64_t)(int64_t)fds[k];
			else if (d->kind == AK_FLAGS || d->kind == AK_INT || d->kind == AK_UINT)
				a[i] = bits[k];
			else if (d->kind == AK_ULONG || d->kind == AK_LONG || d->kind == AK_SIG ||
				 d->kind == AK_PID || d->kind == AK_CLOCKID)
				a[i] = k == 0   ? UINT64_MAX
				       : k == 1 ? UINT64_C(1) << 63
				       : k == 2 ? 99999
						: UINT64_C(1) << 40;
			else
				continue;
			snprintf(text, sizeof(text), "%s=bad%d", d->name, k);
			step(r, a, text);
		}
		if (d->kind == AK_PATH)
			for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]); k++) {
				memcpy(a, base, sizeof(a));
				a[i] = (uint64_t)(uintptr_t)paths[k];
				snprintf(text, sizeof(text), "%s=path%zu", d->name, k);
				step(r, a, text);
			}
	}
}

static void row_calls(const struct row *r)
{
	static const unsigned ioctls[] = {0x5421 /* FIONBIO */,
					  0x5452 /* FIOASYNC */,
					  0x541b,
					  0x5411,
					  0x5402,
					  0x5414,
					  0x5410,
					  0x540e,
					  0x5412,
					  0x5450,
					  0x5451,
					  0x80045430,
					  0x40045431,
					  0x40049409,
					  0x4020940d};
	uint64_t a[6] = {0}, b[6];
	int fd_arg = -1, enum_arg = -1, fd_arg2 = -1;

	for (int i = r->nargs - 1; i >= 0; i--) {
		if (r->args[i].kind == AK_FD) {
			fd_arg2 = fd_arg;
			fd_arg = i;
		}
		if (r->args[i].kind == AK_ENUM || r->args[i].kind == AK_IOCTL ||
		    r->args[i].kind == AK_FUTEXOP)
			enum_arg = i;
	}
	good(r, a);
	step(r, a, "good");
	if (!g_padding)
		bad_values(r, a);
	/* AT_EMPTY_PATH and kin aside, each kind of descriptor and each value of an enumeration. */
	for (int fd = fd_arg < 0 ? FD_ALL - 1 : FD_FILE; fd < FD_ALL; fd++) {
		unsigned values = enum_arg < 0 ? 1
				  : r->args[enum_arg].kind == AK_IOCTL
					  ? sizeof(ioctls) / sizeof(ioctls[0])
					  : 40;

		/* Both together would be many; what differs by descriptor does so for the first
		 * values. */
		if (fd_arg >= 0 && fd != FD_FILE && fd != FD_SOCK && values > 4)
			values = 4;
		for (unsigned v = 0; v < values; v++) {
			char text[64];

			memcpy(b, a, sizeof(b));
			if (fd_arg >= 0)
				b[fd_arg] = (uint64_t)fd;
			if (fd_arg2 >= 0)
				b[fd_arg2] = fd == FD_FILE ? FD_PIPE_R : FD_FILE;
			if (enum_arg >= 0)
				b[enum_arg] = r->args[enum_arg].kind == AK_IOCTL ? ioctls[v] : v;
			snprintf(text, sizeof(text), "fd %d value %u", fd_arg < 0 ? -1 : fd, v);
			good(r, a); /* what the last call wrote */
			if (g_padding)
				step(r, b, text);
			else
				bad_pointers(r, b, text, v < 2);
		}
	}
}

/* No rights; no room for descriptors; no room in files. */
static const char *const g_modes[] = {"", "user ", "nofile ", "fsize "};

static void child(const struct row *r, int mode, int start)
{
	struct world all_before, all_after;
	char dir[64];

	snprintf(dir, sizeof(dir), "w%d", getpid());
	mkdir(dir, 0777);
	if (chdir(dir) != 0)
		_exit(3);
	objects(r);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (mode == 1) {
		chmod(".", 0755);
		(void)!chmod("file", 0600);
		if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
			_exit(3);
	} else if (mode == 2) {
		g_full = true;
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){1024, 4096});
	} else if (mode == 3) {
		setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
	}
	g_mode = g_modes[mode];
	g_index = 0;
	g_start = start;
	if (g_padding) {
		row_calls(r);
		_exit(0);
	}
	look(&all_before, true);
	look(&all_before, true); /* caches are warm, the stack has grown */
	look(&g_before, false);
	if (mode == 0) {
		row_calls(r);
	} else {
		uint64_t a[6] = {0};

		good(r, a);
		step(r, a, "good");
		for (int i = 0; i < r->nargs; i++)
			if (r->args[i].kind == AK_PATH) {
				a[i] = (uint64_t)(uintptr_t) "locked/in";
				step(r, a, "in a closed directory");
			}
	}
	look(&all_after, true);
	report(r, &all_before, &all_after, "one of its calls");
	_exit(0);
}

/* Removes what is below directory @dir. */
static void remove_below(int dir)
{
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    unlinkat(dir, e->d_name, 0) == 0)
			continue;
		fchmodat(dir, e->d_name, 0700, 0);
		remove_below(
			openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
		unlinkat(dir, e->d_name, AT_REMOVEDIR);
	}
	if (d)
		closedir(d);
}

/* The working directory is the test's own: there is no shell where the calls are made natively. */
static void clean(void)
{
	remove_below(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

int main(int argc, char **argv)
{
	bool native = argc > 1 && strcmp(argv[1], "native") == 0;
	unsigned rows = 0, killed = 0, blocked = 0;

	g_padding = argc > 1 && strcmp(argv[1], "padding") == 0;
	sigset_t chld;

	g_ro = getenv("RO");
	if (!g_ro || !getenv("SIDE_EFFECT_DIR") || chdir(getenv("SIDE_EFFECT_DIR")) != 0) {
		fprintf(stderr, "runs only from tests/full-no-side-effect.sh\n");
		return 2;
	}
	/* Natively: only where nothing of the host's can be named. */
	if (native &&
	    (strcmp(getenv("SIDE_EFFECT_DIR"), "/work") != 0 || access("/program", X_OK) != 0 ||
	     access("/etc", F_OK) == 0 || access("/usr", F_OK) == 0)) {
		fprintf(stderr, "natively it runs only below tests/confine.c\n");
		return 2;
	}
	umask(022);
	at(dup(1), FD_REPORT);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	g_shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* Nothing is behind it that a call with too large a size could write to. */
	g_page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(g_page + 4096, 4096, PROT_NONE);
	g_readonly = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	g_edge = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0) +
		 4096;
	mprotect(g_edge, 4096, PROT_NONE);
	if (g_padding)
		poison_elsewhere(argv);
	for (size_t i = 0; i < sizeof(g_rows) / sizeof(g_rows[0]); i++) {
		const struct row *r = &g_rows[i];

		if (among(g_never, r->name) || (native && among(g_not_natively, r->name)) ||
		    (argc > 2 && !among((const char *const *)argv + 2, r->name)))
			continue;
		rows++;
		for (int mode = 0; mode < (g_padding ? 1 : 4); mode++) {
			int start = 0, status = 1;

			while (status != 0) {
				const struct timespec limit = {.tv_sec = 1};
				pid_t pid;

				g_shared->done = start;
				pid = fork();
				if (pid == 0) {
					sigprocmask(SIG_UNBLOCK, &chld, NULL);
					child(r, mode, start);
				}
				/* A SIGCHLD may be left from the one before; one that goes on may
				 * take its time. */
				while (waitpid(pid, &status, WNOHANG) == 0) {
					unsigned seen = g_shared->beat;

					if (sigtimedwait(&chld, NULL, &limit) < 0 &&
					    g_shared->beat == seen) {
						kill(pid, SIGKILL);
						blocked++;
						if (getenv("VERBOSE"))
							fprintf(stderr, "%s: call %d waits\n",
								r->name, g_shared->done);
						waitpid(pid, &status, 0);
						break;
					}
				}
				if (WIFSIGNALED(status))
					killed++;
				if (status != 0 && g_shared->done == start) {
					printf("%s: the child did not start: %#x\n", r->name,
					       status);
					break;
				}
				start = g_shared->done;
			}
		}
		if (getenv("VERBOSE")) {
			static double last;
			struct timespec now;

			clock_gettime(CLOCK_MONOTONIC, &now);
			double t = (double)now.tv_sec + (double)now.tv_nsec / 1e9;

			if (last && t - last > 0.5)
				fprintf(stderr, "%s: %.1f s\n", r->name, t - last);
			last = t;
		}
		if (i % 8 == 0)
			clean();
	}
	clean();
	printf("# %u rows: %u calls failed, %u of them changed something; %u succeeded, %u were "
	       "killed, %u of them for waiting\n",
	       rows, g_shared->failed, g_shared->changed, g_shared->succeeded, killed, blocked);
	return 0;
}
