/* SPDX-License-Identifier: Apache-2.0 */
/* Reaching processes that are not in the sandbox: the host's and other sandboxes'. */
#include "attack.h"

#include <dirent.h>

/* The victim: the ally, which has the secret in its memory, its arguments' place and a descriptor.
 */
static void victim_ally(void)
{
	static char text[256];
	int fd = open(in("out/secret"), O_RDONLY), me;
	char line[64];

	pread(fd, text, sizeof(text), 0);
	prctl(PR_SET_DUMPABLE, 1);
	snprintf(line, sizeof(line), "%d %p %d", getpid(), (void *)text, fd);
	me = open(in("work/victim.new"), O_CREAT | O_WRONLY, 0644);
	write(me, line, strlen(line));
	close(me);
	rename(in("work/victim.new"), in("work/victim"));
	for (;;)
		pause();
}

static void find_victim(pid_t *pid, void **at, int *fd)
{
	FILE *f = NULL;

	for (int i = 0; i < 5000 && !(f = fopen("victim", "r")); i++)
		usleep(1000);
	if (!f || fscanf(f, "%d %p %d", pid, at, fd) != 3)
		exit(2);
	fclose(f);
}

/* Pids of ours are small and the host's is meant: nothing of ours must be hit. */
static bool is_ours(pid_t pid)
{
	return pid <= 2 || pid == getpid() || pid == getppid();
}

static int memory(void)
{
	pid_t pid;
	void *at;
	int fd, pidfd;
	char buf[128] = "", path[64];
	struct iovec l = {buf, sizeof(buf) - 1}, r;

	find_victim(&pid, &at, &fd);
	if (is_ours(pid))
		return 0;
	r = (struct iovec){at, sizeof(buf) - 1};
	tried("process_vm_readv: %zd %s", process_vm_readv(pid, &l, 1, &r, 1, 0), buf);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY);
	tried("/proc/PID/mem: %zd %s", pread(fd, buf, sizeof(buf) - 1, (off_t)at), buf);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	tried("pidfd_open: %d", pidfd);
	tried("ptrace: %ld", ptrace(PTRACE_ATTACH, pid, NULL, NULL));
	tried("ptrace seize: %ld", ptrace(PTRACE_SEIZE, pid, NULL, NULL));
	return 0;
}

static int write_memory(void)
{
	pid_t pid;
	void *at;
	int fd;
	char path[64];
	struct iovec l = {"changed", 7}, r;

	find_victim(&pid, &at, &fd);
	if (is_ours(pid))
		return 0;
	r = (struct iovec){at, 7};
	if (process_vm_writev(pid, &l, 1, &r, 1, 0) == 7)
		return HARM;
	tried("process_vm_writev: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	tried("/proc/PID/mem: %d", open(path, O_RDWR));
	return 0;
}

static int descriptors(void)
{
	pid_t pid;
	void *at;
	int fd, pidfd;
	char path[64];

	find_victim(&pid, &at, &fd);
	if (is_ours(pid))
		return 0;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	show((int)syscall(SYS_pidfd_getfd, pidfd, fd, 0), "pidfd_getfd");
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	show_path(path);
	snprintf(path, sizeof(path), "/proc/%d/cwd", pid);
	show(openat(open(path, O_PATH), "../out/secret", O_RDONLY), path);
	return 0;
}

/* Each of these finds nobody, or one of ours; never the host's. */
static int reach(void)
{
	pid_t pid;
	void *at;
	int fd, found = 0;
	struct rlimit lim;
	cpu_set_t set;
	void *head;
	size_t len;
	siginfo_t si = {.si_code = SI_QUEUE};

	find_victim(&pid, &at, &fd);
	if (is_ours(pid))
		return 0;
#define REACH(call)                                           \
	do {                                                  \
		errno = 0;                                    \
		if ((long)(call) >= 0 && errno == 0)          \
			found++, tried(#call " found it");    \
		else                                          \
			tried(#call ": %s", strerror(errno)); \
	} while (0)
	REACH(kill(pid, 0));
	REACH(syscall(SYS_tkill, pid, 0));
	REACH(syscall(SYS_tgkill, pid, pid, 0));
	REACH(syscall(SYS_rt_sigqueueinfo, pid, 0, &si));
	REACH(syscall(SYS_pidfd_open, pid, 0));
	REACH(getpgid(pid));
	REACH(getsid(pid));
	REACH(getpriority(PRIO_PROCESS, (id_t)pid));
	REACH(setpriority(PRIO_PROCESS, (id_t)pid, 5));
	REACH(sched_getaffinity(pid, sizeof(set), &set));
	REACH(sched_setaffinity(pid, sizeof(set), &set));
	REACH(sched_getscheduler(pid));
	REACH(prlimit(pid, RLIMIT_NOFILE, NULL, &lim));
	REACH(syscall(SYS_get_robust_list, pid, &head, &len));
	REACH(syscall(SYS_kcmp, pid, getpid(), 0, 0, 0));
	REACH(syscall(SYS_ioprio_get, 1, pid));
	REACH(syscall(SYS_migrate_pages, pid, 0, NULL, NULL));
	REACH(syscall(SYS_move_pages, pid, 0, NULL, NULL, NULL, 0));
#undef REACH
	return found ? HARM : 0;
}

/* All there is in /proc, by every number. */
static int scan(void)
{
	static char buf[1 << 16];
	pid_t victim;
	void *at;
	int vfd;
	unsigned seen = 0;

	find_victim(&victim, &at, &vfd);
	for (pid_t pid = 1; pid <= victim + 100; pid++) {
		char path[64];
		struct iovec l = {buf, 256}, r = {at, 256};
		int fd;
		ssize_t n;

		if (is_ours(pid))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		seen++;
		close(fd);
		if (pid == victim) {
			n = process_vm_readv(pid, &l, 1, &r, 1, 0);
			tried("pid %d: %.*s", pid, n > 0 ? (int)n : 0, buf);
		}
	}
	tried("%u processes that are not ours", seen);
	return 0;
}

/* The terminal: what is put into its input is the next line that the caller's shell reads
 * (attack/terminal.py looks). */
static int terminal(void)
{
	static const struct {
		const char *name;
		unsigned long cmd;
	} calls[] = {{"TIOCSTI", 0x5412},       {"TIOCLINUX", 0x541c},  {"TIOCCONS", 0x541d},
		     {"TIOCSTI again", 0x5412}, {"TIOCSCTTY", 0x540e},  {"FIOASYNC", 0x5452},
		     {"KDSKBENT", 0x4b47},      {"VT_ACTIVATE", 0x5606}};
	static const char *const names[] = {"/dev/tty", "/proc/self/fd/0", "/dev/console",
					    "/dev/pts/0"};
	char arg[64] = "x";

	for (int fd = 0; fd < 3; fd++)
		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			tried("%s on %d: %d", calls[i].name, fd, ioctl(fd, calls[i].cmd, arg));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		tried("TIOCSTI on %s: %d", names[i],
		      ioctl(open(names[i], O_RDWR | O_NOCTTY | O_NONBLOCK), 0x5412, arg));
	/* What the terminal answers itself must be asked for by an escape sequence: that is the
	 * caller's to forbid (--tty=off). */
	return 0;
}

/* What moat says about us goes to the caller's terminal: no control sequence of ours may be in it.
 */
static int messages(void)
{
	static const char evil[] = "\033]0;evil\a\033[2J\r\b\x9b";

	close(1);
	close(2);
	prctl(PR_SET_NAME, evil);
	mkdir(evil, 0700);
	chdir(evil);
	execl(evil, evil, evil, (char *)NULL);
	open(evil, O_RDONLY);
	symlink(evil, evil);
	mount(evil, evil, evil, 0, evil);
	setxattr(evil, evil, evil, 3, 0);
	syscall(9999, evil);
	ioctl(0, 0x1b5b, evil);
	raise(SIGSEGV);
	return 0;
}

const struct attack g_processes[] = {
	{"memory", "leak", memory, .ally = victim_ally},
	{"write_memory", "escape", write_memory, .ally = victim_ally},
	{"descriptors", "leak", descriptors, .ally = victim_ally},
	{"reach", "escape", reach, .ally = victim_ally},
	{"scan", "leak", scan, .ally = victim_ally},
	{"terminal", "escape", terminal, .flags = "root,pty"},
	{"messages", "escape", messages,
	 .flags = "dies,controls,moat=--verbose,unnative:there_is_nobody_who_speaks_of_the_"
		  "attacker"},
	{"messages_strace", "escape", messages,
	 .flags =
		 "dies,controls,moat=--strace,unnative:there_is_nobody_who_speaks_of_the_attacker"},
	{0},
};
