/* SPDX-License-Identifier: Apache-2.0 */

/* What programs read in /proc: formats, counts and keys, not values that change. */
#include "guest.h"
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>

static char text[1 << 20];

static ssize_t slurp(const char *path)
{
	int fd = open(path, O_RDONLY);
	ssize_t n, total = 0;

	if (fd < 0) {
		printf("%s: %s\n", path, guest_errno(errno));
		return -1;
	}
	while ((n = read(fd, text + total, sizeof(text) - 1 - (size_t)total)) > 0)
		total += n;
	text[total] = 0;
	close(fd);
	return total;
}

static int words(const char *s)
{
	int n = 0;

	while (*s) {
		while (*s == ' ' || *s == '\t' || *s == '\n')
			s++;
		n += *s != 0;
		while (*s && *s != ' ' && *s != '\t' && *s != '\n')
			s++;
	}
	return n;
}

static int lines(void)
{
	int n = 0;

	for (char *p = text; *p; p++)
		n += *p == '\n';
	return n;
}

static void has(const char *path, const char *const *keys, size_t count)
{
	if (slurp(path) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		char line[64];

		snprintf(line, sizeof(line), "\n%s", keys[i]);
		printf("%s %s %s\n", path, keys[i],
		       !strncmp(text, keys[i], strlen(keys[i])) || strstr(text, line) ? "there"
										      : "MISSING");
	}
}

static void stats(void)
{
	static const char *const status[] = {"Name:",
					     "Umask:",
					     "State:",
					     "Tgid:",
					     "Ngid:",
					     "Pid:",
					     "PPid:",
					     "TracerPid:",
					     "Uid:",
					     "Gid:",
					     "FDSize:",
					     "Groups:",
					     "VmPeak:",
					     "VmSize:",
					     "VmRSS:",
					     "VmData:",
					     "VmStk:",
					     "VmExe:",
					     "VmLib:",
					     "Threads:",
					     "SigQ:",
					     "SigPnd:",
					     "ShdPnd:",
					     "SigBlk:",
					     "SigIgn:",
					     "SigCgt:",
					     "CapInh:",
					     "CapPrm:",
					     "CapEff:",
					     "CapBnd:",
					     "CapAmb:",
					     "NoNewPrivs:",
					     "Seccomp:",
					     "Cpus_allowed:",
					     "Cpus_allowed_list:",
					     "voluntary_ctxt_switches:",
					     "nonvoluntary_ctxt_switches:"};
	static const char *const meminfo[] = {
		"MemTotal:", "MemFree:",   "MemAvailable:", "Buffers:",
		"Cached:",   "SwapTotal:", "SwapFree:"};
	static const char *const cpuinfo[] = {"processor", "vendor_id", "model name", "flags",
					      "cpu MHz"};
	static const char *const stat[] = {"cpu ",           "cpu0 ",         "intr ",
					   "ctxt ",          "btime ",        "processes ",
					   "procs_running ", "procs_blocked "};
	static const char *const limits[] = {"Limit ",         "Max cpu time",   "Max file size",
					     "Max open files", "Max stack size", "Max processes"};
	static const char *const io[] = {"rchar:",
					 "wchar:",
					 "syscr:",
					 "syscw:",
					 "read_bytes:",
					 "write_bytes:",
					 "cancelled_write_bytes:"};
	char *p;
	int pid, ppid, pgrp, sid;
	char state;

	P("stat");
	slurp("/proc/self/stat");
	printf("fields %d, name %s\n", words(text),
	       strstr(text, "(guest_procfs)") ? "right" : "wrong");
	p = strrchr(text, ')');
	if (p && sscanf(p + 2, "%c %d %d %d", &state, &ppid, &pgrp, &sid) == 4 &&
	    sscanf(text, "%d", &pid) == 1)
		printf("%c %d %d %d %d\n", state, pid == getpid(), ppid == getppid(),
		       pgrp == getpgrp(), sid == getsid(0));
	slurp("/proc/self/statm");
	printf("statm %d\n", words(text));
	prctl(PR_SET_NAME, "a) b (c");
	slurp("/proc/self/stat");
	printf("name %s\n", strstr(text, "(a) b (c) R ") ? "right" : "wrong");
	slurp("/proc/self/comm");
	printf("comm %s", text);
	V(open("/proc/self/comm", O_WRONLY) >= 0);
	int fd = open("/proc/self/comm", O_WRONLY);
	V(write(fd, "guest_procfs\n", 13));
	slurp("/proc/self/comm");
	printf("comm %s", text);
	P("status and the rest");
	has("/proc/self/status", status, GUEST_COUNT(status));
	has("/proc/meminfo", meminfo, GUEST_COUNT(meminfo));
	has("/proc/cpuinfo", cpuinfo, GUEST_COUNT(cpuinfo));
	has("/proc/stat", stat, GUEST_COUNT(stat));
	has("/proc/self/limits", limits, GUEST_COUNT(limits));
	has("/proc/self/io", io, GUEST_COUNT(io));
	signal(SIGUSR1, SIG_IGN);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGTERM);
	slurp("/proc/self/status");
	for (p = strtok(text, "\n"); p; p = strtok(NULL, "\n"))
		if (!strncmp(p, "ShdPnd:", 7) || !strncmp(p, "SigBlk:", 7) ||
		    !strncmp(p, "Threads:", 8) || !strncmp(p, "Umask:", 6) ||
		    !strncmp(p, "State:", 6) || !strncmp(p, "TracerPid:", 10) ||
		    !strncmp(p, "Name:", 5))
			printf("%s\n", p);
	signal(SIGTERM, SIG_IGN);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void maps(void)
{
	int count = 0, stack = 0, heap = 0, vdso = 0, exe = 0, sorted = 1, found = 0;
	unsigned long last = 0;
	void *mine = mmap(NULL, 12288, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *save;

	P("maps");
	mprotect((char *)mine + 4096, 4096, PROT_READ | PROT_WRITE);
	free(malloc(100));
	int fd = open("mapped", O_RDWR | O_CREAT, 0600);
	V(ftruncate(fd, 8192));
	void *file = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
	slurp("/proc/self/maps");
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		unsigned long a, b, off, ino;
		unsigned maj, min;
		char perms[8], path[600] = "";

		if (sscanf(l, "%lx-%lx %7s %lx %x:%x %lu %599[^\n]", &a, &b, perms, &off, &maj,
			   &min, &ino, path) < 7) {
			printf("odd line: %s\n", l);
			continue;
		}
		count++;
		sorted &= a >= last && b > a;
		last = b;
		stack |= strstr(path, "[stack]") != NULL && !strcmp(perms, "rw-p");
		heap |= strstr(path, "[heap]") != NULL;
		vdso |= strstr(path, "[vdso]") != NULL && !strcmp(perms, "r-xp");
		exe |= strstr(path, "guest_procfs") != NULL;
		if ((void *)a == (void *)((char *)mine + 4096))
			printf("middle page %s\n", perms);
		if ((void *)a == file) {
			struct stat st;

			fstat(fd, &st);
			printf("file %s offset %lx inode %d path %d\n", perms, off,
			       ino == st.st_ino, strstr(path, "/mapped") != NULL);
			found = 1;
		}
	}
	printf("more than 10 lines %d, sorted %d, stack %d heap %d vdso %d exe %d file %d\n",
	       count > 10, sorted, stack, heap, vdso, exe, found);
	V(unlink("mapped"));
	slurp("/proc/self/maps");
	T(strstr(text, "/mapped (deleted)") != NULL);
	slurp("/proc/self/smaps");
	static const char *const keys[] = {
		"Size:",          "KernelPageSize:", "Rss:",       "Pss:",    "Shared_Clean:",
		"Private_Dirty:", "Referenced:",     "Anonymous:", "VmFlags:"};
	for (size_t i = 0; i < GUEST_COUNT(keys); i++)
		printf("smaps %s %d\n", keys[i], strstr(text, keys[i]) != NULL);
	int mem = open("/proc/self/mem", O_RDWR);
	long word = 0;
	static long target = 1234;
	V(pread(mem, &word, 8, (off_t)(uintptr_t)&target));
	printf("%ld\n", word);
	V(pread(mem, &word, 8, 8));
	word = 4321;
	V(pwrite(mem, &word, 8, (off_t)(uintptr_t)&target));
	printf("%ld\n", *(volatile long *)&target);
}

static void links(void)
{
	char path[64], want[PATH_MAX];
	ssize_t n;
	int fd, p[2];
	DIR *d;
	struct dirent *e;
	struct stat st, st2;

	P("links");
	n = readlink("/proc/self", text, 100);
	text[n > 0 ? n : 0] = 0;
	T(atoi(text) == getpid());
	n = readlink("/proc/thread-self", text, 100);
	text[n > 0 ? n : 0] = 0;
	snprintf(want, sizeof(want), "%d/task/%d", getpid(), gettid());
	T(!strcmp(text, want));
	n = readlink("/proc/self/cwd", text, 1000);
	text[n > 0 ? n : 0] = 0;
	T(getcwd(want, sizeof(want)) && !strcmp(text, want));
	n = readlink("/proc/self/root", text, 100);
	printf("root %.*s\n", (int)n, text);
	n = readlink("/proc/self/exe", text, 1000);
	text[n > 0 ? n : 0] = 0;
	T(strstr(text, "/guest_procfs"));
	fd = open("plain", O_RDWR | O_CREAT | O_APPEND, 0600);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, text, 1000);
	text[n > 0 ? n : 0] = 0;
	T(strstr(text, "/plain"));
	lstat(path, &st);
	printf("link mode %o\n", st.st_mode);
	V(unlink("plain"));
	n = readlink(path, text, 1000);
	text[n > 0 ? n : 0] = 0;
	T(strstr(text, "/plain (deleted)"));
	int again = open(path, O_RDWR);
	V(fstat(again, &st));
	V(fstat(fd, &st2));
	T(st.st_ino == st2.st_ino);
	V(pipe(p));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p[0]);
	n = readlink(path, text, 1000);
	T(n > 0 && !strncmp(text, "pipe:[", 6));
	OK(open(path, O_WRONLY));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	slurp(path);
	printf("%s", strtok(text, "\n"));
	printf(" %s\n", strtok(NULL, "\n"));
	V(access("/proc/self/fd/999", F_OK));
	V(readlink("/proc/self/fd/999", text, 10));
	d = opendir("/proc/self/fd");
	int count = 0;
	while ((e = readdir(d)))
		count += e->d_name[0] != '.';
	T(count > 5);
	closedir(d);
	V(open("/proc/self/fd/x", O_RDONLY));
	V(mkdir("/proc/self/x", 0700));
	V(unlink("/proc/self/stat"));
	V(open("/proc/new", O_CREAT | O_RDWR, 0600));
	V(chdir("/proc/self/fd"));
	V(access("0", F_OK));
}

static void *idle(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "a-thread");
	for (;;)
		pause();
}

static long links_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : (long)st.st_nlink;
}

/* A directory's links count its directories; the threads, and the processes, are among them. */
static void directory_links(void)
{
	char path[40];
	pid_t pid;

	printf("links of task %ld, of fd %ld\n", links_of("/proc/self/task"),
	       links_of("/proc/self/fd"));
	T(links_of("/proc/self") > links_of("/proc/thread-self"));
	T(links_of("/proc") > 2 + 4);
	T(links_of("/sys/devices/system/cpu") > 2 + get_nprocs_conf());
	pid = guest_fork();
	if (!pid)
		for (;;)
			pause();
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	printf("links of a child's task %ld", links_of(path));
	kill(pid, SIGKILL);
	guest_until(pid, pid, 'Z');
	printf(", of a zombie's %ld\n", links_of(path));
	waitpid(pid, NULL, 0);
}

static void tasks(void)
{
	pthread_t t[3];
	char path[300];
	int count = 0, named = 0;
	DIR *d;
	struct dirent *e;
	pid_t pid;

	P("tasks and other processes");
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, idle, NULL);
	guest_sleep_ms(20);
	d = opendir("/proc/self/task");
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		count++;
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		slurp(path);
		named += !strcmp(text, "a-thread\n");
	}
	closedir(d);
	printf("tasks %d named %d\n", count, named);
	directory_links();
	slurp("/proc/self/status");
	T(strstr(text, "Threads:\t4"));
	pid = guest_fork();
	if (!pid)
		for (;;)
			pause();
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	ssize_t n = slurp(path);
	printf("cmdline ends in NUL %d, is ours %d\n", n > 0 && text[n - 1] == 0,
	       strstr(text, "guest_procfs") != NULL);
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	n = slurp(path);
	T(n > 0 && memmem(text, (size_t)n, "TMPDIR=", 7));
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	guest_until_asleep(pid);
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	printf("state %c\n", guest_state(pid, pid));
	kill(pid, SIGKILL);
	guest_until(pid, pid, 'Z');
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	printf("zombie cmdline %zd\n", slurp(path));
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	V(readlink(path, text, 10));
	waitpid(pid, NULL, 0);
	V(access(path, F_OK));
	V(access("/proc/4194304", F_OK));
	d = opendir("/proc");
	count = 0;
	while ((e = readdir(d)))
		if (atoi(e->d_name) == getpid())
			count++;
	printf("listed %d\n", count);
	closedir(d);
}

static void filter_write(const char *s)
{
	int fd = open("/proc/self/coredump_filter", O_WRONLY);

	printf("%s: ", s);
	V(write(fd, s, strlen(s)));
	close(fd);
}

static void coredump_filter(void)
{
	static const char *const bad[] = {"x",   "-1",         "0x",
					  "1 2", "4294967296", "99999999999999999999"};
	pid_t pid;

	P("coredump_filter");
	slurp("/proc/self/coredump_filter");
	printf("%s", text);
	filter_write("0x7f\n");
	slurp("/proc/self/coredump_filter");
	printf("%s", text);
	for (size_t i = 0; i < GUEST_COUNT(bad); i++)
		filter_write(bad[i]);
	filter_write("017");
	pid = guest_fork();
	if (!pid) {
		slurp("/proc/self/coredump_filter");
		printf("of a child %s", text);
		fflush(stdout);
		execl("/bin/cat", "cat", "/proc/self/coredump_filter", NULL);
	}
	guest_wait("filter", pid);
	filter_write("0xffffffff");
	slurp("/proc/self/coredump_filter");
	printf("%s", text);
}

static void put(const char *file, const char *what, size_t size)
{
	int fd = open(file, O_WRONLY);

	printf("%s, %zu bytes: ", file, size);
	printf("%s\n", fd < 0                      ? "not opened"
		       : write(fd, what, size) < 0 ? guest_errno(errno)
						   : "written");
	close(fd);
}

/* Who takes a number takes no empty text for one. */
static void numbers(void)
{
	static const char *const slack[] = {"1000\n",
					    "0x30",
					    "0",
					    "x",
					    "-1",
					    "12 ",
					    "99999999999999999999",
					    "+5",
					    "18446744073709551615",
					    "7\n\n",
					    "+-3",
					    "++3",
					    "+",
					    "+\n",
					    " 3"};
	static const char *const files[] = {"/proc/self/comm", "/proc/self/oom_score_adj",
					    "/proc/self/timerslack_ns",
					    "/proc/self/coredump_filter", "/proc/self/loginuid"};

	P("numbers are written");
	for (size_t i = 0; i < GUEST_COUNT(files); i++)
		put(files[i], "", 0);
	for (size_t i = 0; i < GUEST_COUNT(slack); i++) {
		put("/proc/self/timerslack_ns", slack[i], strlen(slack[i]));
		slurp("/proc/self/timerslack_ns");
		printf("%s", text);
	}
	V(prctl(PR_SET_TIMERSLACK, 77));
	slurp("/proc/self/timerslack_ns");
	printf("%s", text);
	V(prctl(PR_SET_TIMERSLACK, 0));
}

static void globals(void)
{
	static const char *const files[] = {"/proc/uptime",
					    "/proc/loadavg",
					    "/proc/version",
					    "/proc/filesystems",
					    "/proc/mounts",
					    "/proc/self/mounts",
					    "/proc/self/mountinfo",
					    "/proc/self/cgroup",
					    "/proc/sys/kernel/pid_max",
					    "/proc/sys/kernel/hostname",
					    "/proc/sys/kernel/ostype",
					    "/proc/sys/kernel/osrelease",
					    "/proc/sys/kernel/random/boot_id",
					    "/proc/sys/kernel/random/uuid",
					    "/proc/sys/fs/pipe-max-size",
					    "/proc/sys/fs/file-max",
					    "/proc/sys/fs/nr_open",
					    "/proc/sys/vm/overcommit_memory",
					    "/proc/sys/kernel/cap_last_cap",
					    "/proc/sys/kernel/ngroups_max",
					    "/proc/self/oom_score_adj",
					    "/proc/self/uid_map",
					    "/proc/self/loginuid",
					    "/proc/self/personality",
					    "/proc/self/auxv",
					    "/proc/self/wchan",
					    "/proc/vmstat",
					    "/proc/sys/kernel/threads-max",
					    "/proc/sys/fs/inotify/max_user_watches",
					    "/proc/sys/kernel/shmmax",
					    "/proc/sys/net/core/somaxconn",
					    "/proc/net/unix",
					    "/proc/sys/kernel/sched_rt_runtime_us"};
	double a, b;
	struct sysinfo si;

	P("global files");
	for (size_t i = 0; i < GUEST_COUNT(files); i++) {
		ssize_t n = slurp(files[i]);

		printf("%s %s\n", files[i], n > 0 ? "has text" : n == 0 ? "empty" : "missing");
	}
	slurp("/proc/uptime");
	T(sscanf(text, "%lf %lf", &a, &b) == 2 && a > 0);
	slurp("/proc/loadavg");
	printf("loadavg words %d\n", words(text));
	slurp("/proc/sys/kernel/ostype");
	printf("%s", text);
	slurp("/proc/version");
	T(!strncmp(text, "Linux version ", 14));
	slurp("/proc/self/cgroup");
	T(lines() >= 1);
	slurp("/proc/self/oom_score_adj");
	T(atoi(text) >= -1000 && atoi(text) <= 1000);
	V(sysinfo(&si));
	T(si.totalram > 0 && si.procs > 0 && si.mem_unit > 0);
	slurp("/proc/sys/kernel/random/uuid");
	T(strlen(text) == 37 && text[8] == '-' && text[14] == '4');
	T(sysconf(_SC_NPROCESSORS_ONLN) >= 1 &&
	  sysconf(_SC_NPROCESSORS_CONF) >= sysconf(_SC_NPROCESSORS_ONLN));
	slurp("/sys/devices/system/cpu/online");
	T(text[0] == '0');
	V(access("/sys/devices/system/cpu/cpu0", F_OK));
	int fd = open("/proc/self/stat", O_RDONLY);
	char c[4];
	V(read(fd, c, 4));
	V(lseek(fd, 0, SEEK_SET));
	V(read(fd, c, 4));
	V(lseek(fd, -1, SEEK_SET));
	V(pread(fd, c, 4, 100000));
}

int main(void)
{
	guest_begin();
	stats();
	maps();
	links();
	tasks();
	globals();
	coredump_filter();
	numbers();
	return 0;
}
