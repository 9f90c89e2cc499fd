/* SPDX-License-Identifier: Apache-2.0 */

/* Credentials, capabilities, rlimits, prctl, scheduling, uname: as root, and after dropping root.
 */
#include "guest.h"
#include <linux/capability.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/utsname.h>

static void ids(const char *what)
{
	uid_t r, e, s;
	gid_t gr, ge, gs;

	getresuid(&r, &e, &s);
	getresgid(&gr, &ge, &gs);
	printf("%s: uid %d %d %d gid %d %d %d\n", what, (int)r, (int)e, (int)s, (int)gr, (int)ge,
	       (int)gs);
}

static int cap_has(int cap, int set)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d))
		return -1;
	uint32_t v = set == 0   ? d[cap / 32].effective
		     : set == 1 ? d[cap / 32].permitted
				: d[cap / 32].inheritable;
	return (v >> cap % 32) & 1;
}

static void credentials(void)
{
	gid_t groups[4] = {5, 6, 7};
	pid_t pid;

	P("credentials");
	pid = guest_fork();
	if (!pid) {
		V(setgroups(3, groups));
		V(getgroups(0, NULL));
		V(getgroups(4, groups));
		printf("%u %u %u\n", groups[0], groups[1], groups[2]);
		V(getgroups(1, groups));
		V(syscall(SYS_setgroups, 1 << 20, groups));
		V(syscall(SYS_setgroups, -1, groups));
		V(syscall(SYS_setresuid, 1, 2, 3));
		ids("set");
		printf("effective CAP_CHOWN %d, permitted %d\n", cap_has(CAP_CHOWN, 0),
		       cap_has(CAP_CHOWN, 1));
		V(syscall(SYS_setresuid, 0, 0, 0));
		V(syscall(SYS_setresuid, 3, 1, 2));
		ids("permuted");
		V(syscall(SYS_setreuid, -1, 2));
		ids("setreuid");
		V(syscall(SYS_setuid, 3));
		ids("setuid");
		V(syscall(SYS_setgid, 5));
		V(setgroups(0, NULL));
		_exit(0);
	}
	guest_wait("child", pid);
	pid = guest_fork();
	if (!pid) {
		V(syscall(SYS_setresuid, -1, 1000, -1));
		printf("effective CAP_CHOWN %d, permitted %d\n", cap_has(CAP_CHOWN, 0),
		       cap_has(CAP_CHOWN, 1));
		V(prctl(PR_GET_DUMPABLE));
		V(syscall(SYS_setresuid, -1, 0, -1));
		printf("effective CAP_CHOWN %d, permitted %d\n", cap_has(CAP_CHOWN, 0),
		       cap_has(CAP_CHOWN, 1));
		V(prctl(PR_SET_KEEPCAPS, 1));
		V(syscall(SYS_setuid, 1000));
		printf("effective CAP_CHOWN %d, permitted %d\n", cap_has(CAP_CHOWN, 0),
		       cap_has(CAP_CHOWN, 1));
		ids("kept caps");
		_exit(0);
	}
	guest_wait("effective only", pid);
	pid = guest_fork();
	if (!pid) {
		V(syscall(SYS_setregid, 10, 20));
		ids("setregid");
		V(syscall(SYS_setregid, -1, -1));
		V(syscall(SYS_setgid, 30));
		ids("setgid as root");
		V(syscall(SYS_setuid, -1));
		V(syscall(SYS_setresuid, -1, -1, -1));
		V(syscall(SYS_setfsgid, 40));
		V(syscall(SYS_setfsgid, -1));
		_exit(0);
	}
	guest_wait("groups", pid);
}

static void capabilities(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	pid_t pid;

	P("capabilities");
	T(cap_has(CAP_CHOWN, 0) == 1 && cap_has(CAP_KILL, 1) == 1 && cap_has(CAP_SETUID, 0) == 1);
	h.version = 77;
	V(syscall(SYS_capget, &h, d));
	printf("offers %#x\n", h.version);
	h.version = _LINUX_CAPABILITY_VERSION_3;
	h.pid = 1 << 22;
	V(syscall(SYS_capget, &h, d));
	h.pid = -1;
	V(syscall(SYS_capget, &h, d));
	h.pid = 0;
	V(syscall(SYS_capget, &h, 8));
	V(syscall(SYS_capget, 8, d));
	V(prctl(PR_CAPBSET_READ, CAP_CHOWN));
	V(prctl(PR_CAPBSET_READ, 99));
	V(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_CHOWN, 0, 0));
	V(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0));
	V(prctl(PR_CAP_AMBIENT, 77, 0, 0, 0));
	pid = guest_fork();
	if (!pid) {
		V(syscall(SYS_capget, &h, d));
		d[0].effective &=
			~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_FOWNER);
		V(syscall(SYS_capset, &h, d));
		guest_file("own", "x");
		chmod("own", 0);
		V(open("own", O_RDONLY));
		d[0].effective |= 1u << CAP_DAC_OVERRIDE;
		V(syscall(SYS_capset, &h, d));
		V(open("own", O_RDONLY) >= 0);
		d[0].permitted &= ~(1u << CAP_CHOWN);
		V(syscall(SYS_capset, &h, d));
		d[0].effective &= ~(1u << CAP_CHOWN);
		V(syscall(SYS_capset, &h, d));
		V(chown("own", 1, 1));
		d[0].permitted |= 1u << CAP_CHOWN;
		V(syscall(SYS_capset, &h, d));
		d[0].permitted &= ~(1u << CAP_CHOWN);
		V(prctl(PR_CAPBSET_DROP, CAP_KILL));
		V(prctl(PR_CAPBSET_READ, CAP_KILL));
		d[0].inheritable |= 1u << CAP_SETUID;
		V(syscall(SYS_capset, &h, d));
		V(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETUID, 0, 0));
		V(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_SETUID, 0, 0));
		V(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
		h.pid = getppid();
		V(syscall(SYS_capset, &h, d));
		_exit(0);
	}
	guest_wait("child", pid);
}

static void limits(void)
{
	struct rlimit lim, old;
	pid_t pid;

	P("rlimits");
	for (int r = 0; r <= 16; r++)
		printf("%d: %s\n", r,
		       getrlimit(r, &lim)             ? guest_errno(errno)
		       : lim.rlim_cur <= lim.rlim_max ? "ordered"
						      : "wrong");
	V(setrlimit(77, &lim));
	V(getrlimit(RLIMIT_NOFILE, (void *)8));
	lim = (struct rlimit){10, 5};
	V(setrlimit(RLIMIT_CPU, &lim));
	pid = guest_fork();
	if (!pid) {
		V(prlimit(0, RLIMIT_NOFILE, NULL, &old));
		lim = (struct rlimit){100, 200};
		V(prlimit(0, RLIMIT_NOFILE, &lim, NULL));
		V(prlimit(getpid(), RLIMIT_NOFILE, NULL, &old));
		printf("%lu %lu\n", (unsigned long)old.rlim_cur, (unsigned long)old.rlim_max);
		V(prlimit(1 << 22, RLIMIT_NOFILE, NULL, &old));
		V(prlimit(0, 77, NULL, &old));
		V(syscall(SYS_setresuid, 1000, 1000, 1000));
		lim = (struct rlimit){100, 300};
		V(setrlimit(RLIMIT_NOFILE, &lim));
		lim = (struct rlimit){150, 150};
		V(setrlimit(RLIMIT_NOFILE, &lim));
		lim = (struct rlimit){150, 200};
		V(setrlimit(RLIMIT_NOFILE, &lim));
		V(sysconf(_SC_OPEN_MAX));
		_exit(0);
	}
	guest_wait("child", pid);
	pid = guest_fork();
	if (!pid) {
		lim = (struct rlimit){1, 2};
		V(setrlimit(RLIMIT_CPU, &lim));
		for (;;)
			;
	}
	guest_wait("RLIMIT_CPU", pid);
	pid = guest_fork();
	if (!pid) {
		lim = (struct rlimit){1, 1};
		V(setrlimit(RLIMIT_CPU, &lim));
		/* What has been used is the process's own. */
		pid = guest_fork();
		if (!pid) {
			for (;;)
				;
		}
		guest_wait("RLIMIT_CPU inherited", pid);
		_exit(0);
	}
	guest_wait("child", pid);
	pid = guest_fork();
	if (!pid) {
		V(syscall(SYS_setresuid, 54321, 54321, 54321));
		lim = (struct rlimit){2, 2};
		V(setrlimit(RLIMIT_NPROC, &lim));
		pid = fork();
		if (!pid)
			for (;;)
				pause();
		T(pid > 0);
		pid_t second = fork();
		if (!second)
			_exit(0);
		printf("second fork %s\n", second < 0 ? guest_errno(errno) : "ok");
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	guest_wait("RLIMIT_NPROC", pid);
}

static void prctls(void)
{
	char name[17] = "";
	int v;

	P("prctl");
	V(prctl(PR_SET_NAME, "0123456789abcdefgh"));
	V(prctl(PR_GET_NAME, name));
	printf("%s\n", name);
	V(prctl(PR_SET_NAME, 8));
	V(prctl(9999, 0));
	V(prctl(PR_SET_PDEATHSIG, 99));
	V(prctl(PR_SET_PDEATHSIG, SIGUSR1));
	V(prctl(PR_GET_PDEATHSIG, &v));
	printf("%d\n", v);
	V(prctl(PR_SET_PDEATHSIG, 0));
	V(prctl(PR_SET_DUMPABLE, 2));
	V(prctl(PR_SET_DUMPABLE, 0));
	V(prctl(PR_GET_DUMPABLE));
	V(prctl(PR_SET_DUMPABLE, 1));
	V(prctl(PR_GET_CHILD_SUBREAPER, &v));
	printf("%d\n", v);
	V(prctl(PR_SET_TIMERSLACK, 12345));
	V(prctl(PR_GET_TIMERSLACK));
	V(prctl(PR_SET_TIMERSLACK, 0));
	V(prctl(PR_GET_TSC, &v));
	V(prctl(PR_GET_SECCOMP));
	V(prctl(PR_GET_SECUREBITS));
	V(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	V(prctl(PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0));
	V(prctl(PR_SET_KEEPCAPS, 2));
	V(prctl(PR_GET_TIMING));
	V(prctl(PR_SET_TIMING, 1));
	V(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	V(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
}

static void scheduling(void)
{
	struct sched_param sp = {0};
	cpu_set_t set;
	unsigned cpu, node;
	int before;

	P("scheduling");
	V(sched_getscheduler(0));
	V(sched_getscheduler(1 << 22));
	V(sched_getscheduler(-1));
	V(sched_getparam(0, &sp));
	V(sched_setscheduler(0, SCHED_BATCH, &sp));
	V(sched_getscheduler(0));
	V(sched_setscheduler(0, SCHED_OTHER, &sp));
	sp.sched_priority = 5;
	V(sched_setscheduler(0, SCHED_OTHER, &sp));
	V(sched_setscheduler(0, 77, &sp));
	V(sched_get_priority_max(SCHED_RR));
	V(sched_get_priority_min(SCHED_RR));
	V(sched_get_priority_max(SCHED_OTHER));
	V(sched_get_priority_max(77));
	V(sched_getaffinity(0, sizeof(set), &set));
	T(CPU_COUNT(&set) >= 1);
	V(sched_setaffinity(0, sizeof(set), &set));
	V(syscall(SYS_sched_getaffinity, 0, 1, &set));
	CPU_ZERO(&set);
	V(sched_setaffinity(0, sizeof(set), &set));
	V(sched_getaffinity(1 << 22, sizeof(set), &set));
	V(getcpu(&cpu, &node));
	T(sched_getcpu() >= 0);
	V(sched_yield());
	before = getpriority(PRIO_PROCESS, 0);
	V(setpriority(PRIO_PROCESS, 0, 19));
	V(getpriority(PRIO_PROCESS, 0));
	V(setpriority(PRIO_PROCESS, 0, 1000));
	V(getpriority(PRIO_PROCESS, 0));
	V(setpriority(PRIO_PROCESS, 0, before));
	V(setpriority(77, 0, 0));
	V(getpriority(PRIO_PROCESS, 1 << 22));
	V(getpriority(PRIO_PGRP, 0) >= -20);
	pid_t pid = guest_fork();
	if (!pid) {
		V(syscall(SYS_setresuid, 1000, 1000, 1000));
		V(setpriority(PRIO_PROCESS, 0, 19));
		V(setpriority(PRIO_PROCESS, 0, -5));
		V(sched_setscheduler(0, SCHED_FIFO, &sp));
		_exit(0);
	}
	guest_wait("unprivileged", pid);
}

static void priorities(void)
{
	pid_t pid = guest_fork();

	/* Of a group the best; of a user that of his processes, who has no others here. */
	P("priorities");
	if (!pid) {
		pid_t child;

		setpgid(0, 0);
		setpriority(PRIO_PROCESS, 0, 3);
		child = guest_fork();
		if (!child) {
			setpriority(PRIO_PROCESS, 0, 7);
			for (int which = -1; which <= PRIO_USER + 1; which++) {
				V(which == PRIO_USER ? 0 : getpriority(which, 0));
				V(getpriority(which, 1 << 22));
				V(getpriority(which, -1));
				V(which == PRIO_USER ? 0 : getpriority(which, getppid()));
			}
			V(setpriority(PRIO_PGRP, 0, 8));
			V(getpriority(PRIO_PROCESS, getppid()));
			V(setpriority(PRIO_PROCESS, 0, 11));
			V(getpriority(PRIO_PGRP, getpgrp()));
			V(setpriority(PRIO_USER, 54321, 6));
			V(setpriority(PRIO_PROCESS, 1 << 22, 6));
			V(syscall(SYS_setresuid, 54321, 54321, 54321));
			V(getpriority(PRIO_USER, 0));
			V(getpriority(PRIO_USER, 54321));
			V(setpriority(PRIO_USER, 0, 12));
			V(getpriority(PRIO_PROCESS, 0));
			V(setpriority(PRIO_PROCESS, 0, 10));
			V(setpriority(PRIO_PROCESS, getppid(), 15));
			V(setpriority(PRIO_PGRP, 0, 13));
			V(getpriority(PRIO_PROCESS, getppid()));
			_exit(0);
		}
		guest_wait("child", child);
		_exit(0);
	}
	guest_wait("group", pid);
}

static void identity(void)
{
	struct utsname u;
	struct tms tms;

	P("identity");
	V(uname(&u));
	printf("%s %s\n", u.sysname, u.machine);
	T(atoi(u.release) >= 5);
	V(uname((void *)8));
	T(getpid() > 0 && gettid() == getpid() && getppid() > 0);
	T(times(&tms) > 0);
	V(personality(0xffffffff));
	V(umask(0777));
	V(umask(07777));
	V(umask(022));
	V(syscall(SYS_membarrier, 0, 0, 0) > 0);
	V(syscall(SYS_kcmp, getpid(), getpid(), 1, 0, 0));
}

int main(void)
{
	guest_begin();
	credentials();
	capabilities();
	limits();
	prctls();
	scheduling();
	priorities();
	identity();
	return 0;
}
