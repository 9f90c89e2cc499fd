/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that a platform may answer in the guest: each answer is the kernel's, before and after it
 * changes.
 *
 * "Hot" calls go through one syscall instruction that is executed often; "cold" ones through an
 * instruction in memory that is writable, which no platform touches: those always ask the kernel,
 * but for the first few of a thread, which are spent first (spend()).
 */
#include "hot_cold.h"
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/utsname.h>

/* What a platform answers of the first calls of a thread, from whatever instruction. */
static void spend(void)
{
	struct utsname first, later;
	struct rlimit rl_first, rl_later;
	const long nr[] = {SYS_getpid, SYS_gettid, SYS_getppid, SYS_geteuid};
	long got[4];
	int equal = 1;

	memset(&first, 0, sizeof(first));
	memset(&later, 0, sizeof(later));
	for (int i = 0; i < 4; i++)
		got[i] = g_cold(nr[i], 0, 0, 0, 0, 0, 0);
	g_cold(SYS_uname, (long)&first, 0, 0, 0, 0, 0);
	g_cold(SYS_prlimit64, 0, RLIMIT_STACK, 0, (long)&rl_first, 0, 0);
	for (int i = 0; i < 20; i++)
		g_cold(SYS_getpid, 0, 0, 0, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		equal &= got[i] == g_cold(nr[i], 0, 0, 0, 0, 0, 0);
	g_cold(SYS_uname, (long)&later, 0, 0, 0, 0, 0);
	g_cold(SYS_prlimit64, 0, RLIMIT_STACK, 0, (long)&rl_later, 0, 0);
	equal &= memcmp(&first, &later, sizeof(first)) == 0;
	equal &= memcmp(&rl_first, &rl_later, sizeof(rl_first)) == 0;
	printf("first answers: %s\n", equal ? "same" : "DIFFERENT");
}

static void same(const char *name, long nr, long a, long b, long c)
{
	long want = g_cold(nr, a, b, c, 0, 0, 0), got = 0;

	for (int i = 0; i < 100 && got == (i ? want : 0); i++)
		got = hot(nr, a, b, c, 0, 0, 0);
	printf("%s: %s\n", name, got == want ? "same" : "DIFFERENT");
	if (got != want)
		printf("  %ld for %ld\n", got, want);
}

static void same_bytes(const char *name, long nr, long a, long b, int arg, size_t size)
{
	unsigned char want[512], got[512];
	long rw, rg = 0;

	memset(want, 0x55, sizeof(want));
	rw = g_cold(nr, arg == 0 ? (long)want : a, arg == 1 ? (long)want : b, 0,
		    arg == 3 ? (long)want : 0, 0, 0);
	for (int i = 0; i < 100; i++) {
		memset(got, 0x55, sizeof(got));
		rg = hot(nr, arg == 0 ? (long)got : a, arg == 1 ? (long)got : b, 0,
			 arg == 3 ? (long)got : 0, 0, 0);
		if (rg != rw || memcmp(want, got, sizeof(got)))
			break;
	}
	printf("%s: %s\n", name,
	       rg == rw && memcmp(want, got, sizeof(got)) == 0 && got[size] == 0x55 ? "same"
										    : "DIFFERENT");
}

static void ids(const char *when)
{
	printf("-- %s\n", when);
	same("getpid", SYS_getpid, 0, 0, 0);
	same("gettid", SYS_gettid, 0, 0, 0);
	same("getppid", SYS_getppid, 0, 0, 0);
	same("getuid", SYS_getuid, 0, 0, 0);
	same("geteuid", SYS_geteuid, 0, 0, 0);
	same("getgid", SYS_getgid, 0, 0, 0);
	same("getegid", SYS_getegid, 0, 0, 0);
	same("getpgrp", SYS_getpgrp, 0, 0, 0);
	same("getpgid 0", SYS_getpgid, 0, 0, 0);
	same("getpgid self", SYS_getpgid, getpid(), 0, 0);
	same("getpgid nobody", SYS_getpgid, 1 << 30, 0, 0);
	same("getsid 0", SYS_getsid, 0, 0, 0);
	same("getsid negative", SYS_getsid, -1, 0, 0);
	same("sched_yield", SYS_sched_yield, 0, 0, 0);
}

static void limits(void)
{
	char name[32];

	for (int i = 0; i <= 16; i++) {
		snprintf(name, sizeof(name), "getrlimit %d", i);
		same_bytes(name, SYS_getrlimit, i, 0, 1, 16);
		snprintf(name, sizeof(name), "prlimit64 %d", i);
		same_bytes(name, SYS_prlimit64, 0, i, 3, 16);
	}
	same("getrlimit nowhere", SYS_getrlimit, RLIMIT_NOFILE, 8, 0);
	same("prlimit64 of nobody", SYS_prlimit64, 1 << 30, RLIMIT_NOFILE, 0);
}

static void names(void)
{
	int old;

	P("uname");
	same_bytes("uname", SYS_uname, 0, 0, 0, 390);
	same("uname nowhere", SYS_uname, 8, 0, 0);
	old = personality(0xffffffff);
	personality((unsigned long)old | UNAME26);
	same_bytes("uname of 2.6", SYS_uname, 0, 0, 0, 390);
	personality((unsigned long)old);
	same_bytes("uname", SYS_uname, 0, 0, 0, 390);
}

static void masks(void)
{
	P("umask");
	for (mode_t m = 0; m < 0100; m += 011) {
		umask(m);
		same("umask", SYS_umask, (long)m, 0, 0);
		same("umask, more bits", SYS_umask, (long)m | 01000000, 0, 0);
	}
	printf("%03lo\n", hot(SYS_umask, 027, 0, 0, 0, 0, 0));
	printf("%03lo\n", hot(SYS_umask, 022, 0, 0, 0, 0, 0));
	printf("%03lo\n", g_cold(SYS_umask, 022, 0, 0, 0, 0, 0));
}

static long ns(const struct timespec *t)
{
	return t->tv_sec * 1000000000 + t->tv_nsec;
}

static void clocks(void)
{
	static const int which[] = {0, 1, 4, 7};
	struct timespec before, now, after;
	struct timeval tv;
	long secs;
	int ok;

	P("clocks");
	for (unsigned k = 0; k < 4; k++) {
		ok = 1;
		for (int i = 0; i < 200; i++) {
			g_cold(SYS_clock_gettime, which[k], (long)&before, 0, 0, 0, 0);
			ok &= hot(SYS_clock_gettime, which[k], (long)&now, 0, 0, 0, 0) == 0;
			g_cold(SYS_clock_gettime, which[k], (long)&after, 0, 0, 0, 0);
			ok &= ns(&before) <= ns(&now) && ns(&now) <= ns(&after) &&
			      now.tv_nsec < 1000000000;
		}
		printf("clock %d lies between: %d\n", which[k], ok);
	}
	ok = 1;
	for (int i = 0; i < 200; i++) {
		g_cold(SYS_clock_gettime, 0, (long)&before, 0, 0, 0, 0);
		ok &= hot(SYS_gettimeofday, (long)&tv, 0, 0, 0, 0, 0) == 0;
		g_cold(SYS_clock_gettime, 0, (long)&after, 0, 0, 0, 0);
		ok &= ns(&before) / 1000 <= tv.tv_sec * 1000000 + tv.tv_usec &&
		      tv.tv_sec * 1000000 + tv.tv_usec <= ns(&after) / 1000;
		before = after;
		secs = hot(SYS_time, (long)&now, 0, 0, 0, 0, 0);
		g_cold(SYS_clock_gettime, 0, (long)&after, 0, 0, 0, 0);
		/* Linux's time(2) is of the last tick. */
		ok &= before.tv_sec - 1 <= secs && secs <= after.tv_sec && now.tv_sec == secs;
	}
	printf("gettimeofday and time lie between: %d\n", ok);
	same("clock_gettime of none", SYS_clock_gettime, 77, (long)&now, 0);
	same("clock_gettime nowhere", SYS_clock_gettime, 1, 8, 0);
	same("gettimeofday nowhere", SYS_gettimeofday, 8, 0, 0);
	same("gettimeofday of nothing", SYS_gettimeofday, 0, 0, 0);
	same("clock_getres of nothing", SYS_clock_getres, 1, 0, 0);
	same("clock_getres of none", SYS_clock_getres, 77, 0, 0);
	same_bytes("clock_getres", SYS_clock_getres, 1, 0, 1, 16);
}

static uint32_t g_word;
static atomic_int g_waits;

static void *waiter(void *arg)
{
	(void)arg;
	g_waits = 1;
	while (__atomic_load_n(&g_word, __ATOMIC_SEQ_CST) == 0)
		hot(SYS_futex, (long)&g_word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
	return NULL;
}

static void futexes(void)
{
	pthread_t t;
	uint32_t w = 3;

	P("futexes");
	same("wake, nobody", SYS_futex, (long)&w, FUTEX_WAKE_PRIVATE, 1);
	same("wake, unaligned", SYS_futex, (long)&w + 1, FUTEX_WAKE_PRIVATE, 1);
	same("wake, kernel address", SYS_futex, -4096, FUTEX_WAKE_PRIVATE, 1);
	same("wake, nothing mapped", SYS_futex, 4096, FUTEX_WAKE_PRIVATE, 1);
	same("wake, shared, nothing mapped", SYS_futex, 4096, FUTEX_WAKE, 1);
	same("wait, changed", SYS_futex, (long)&w, FUTEX_WAIT_PRIVATE, 4);
	same("wait, changed, shared", SYS_futex, (long)&w, FUTEX_WAIT, 4);
	same("wait, nothing mapped", SYS_futex, 4096, FUTEX_WAIT_PRIVATE, 4);
	same("wait, unaligned", SYS_futex, (long)&w + 2, FUTEX_WAIT_PRIVATE, 4);
	same("wait, no bits", SYS_futex, (long)&w, FUTEX_WAIT_BITSET_PRIVATE, 4);
	same("wake, no bits", SYS_futex, (long)&w, FUTEX_WAKE_BITSET_PRIVATE, 1);
	/* A wake-up that is answered though somebody sleeps would hang here. */
	for (int i = 0; i < 300; i++) {
		g_word = 0;
		g_waits = 0;
		pthread_create(&t, NULL, waiter, NULL);
		while (!g_waits)
			sched_yield();
		if (i % 2)
			for (volatile int k = 0; k < i * 10; k++)
				;
		__atomic_store_n(&g_word, 1, __ATOMIC_SEQ_CST);
		hot(SYS_futex, (long)&g_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
		pthread_join(t, NULL);
	}
	P("all woken");
}

static char g_list[2][24];
static atomic_int g_tid, g_over;

/* Sets its list by a call that it may not have to ask for, and asks for nothing any more. */
static void *lister(void *arg)
{
	g_cold(SYS_set_robust_list, (long)arg, 24, 0, 0, 0, 0);
	g_tid = (int)g_cold(SYS_gettid, 0, 0, 0, 0, 0, 0);
	while (!g_over)
		;
	return NULL;
}

static long list_of(int tid)
{
	long head = 0, size = 0;

	syscall(SYS_get_robust_list, tid, &head, &size);
	return size == 24 ? head : -1;
}

static void told(void)
{
	long before = list_of(0), address = 0;
	pthread_t t;
	int status, word = 1;
	pid_t pid;

	P("what is only told");
	for (int i = 0; i < 100; i++) {
		if (hot(SYS_set_robust_list, (long)g_list[i % 2], 24, 0, 0, 0, 0))
			printf("set_robust_list failed\n");
		if (list_of(0) != (long)g_list[i % 2])
			printf("another list\n");
	}
	same("a list of another size", SYS_set_robust_list, (long)g_list, 23, 0);
	printf("list kept: %d\n", list_of(0) == (long)g_list[1]);
	for (int i = 0; i < 100; i++) {
		if (hot(SYS_set_tid_address, (long)&word, 0, 0, 0, 0, 0) !=
		    hot(SYS_gettid, 0, 0, 0, 0, 0, 0))
			printf("set_tid_address failed\n");
	}
	prctl(PR_GET_TID_ADDRESS, &address, 0, 0, 0);
	printf("address: %d\n", address == (long)&word);
	hot(SYS_set_robust_list, before, 24, 0, 0, 0, 0);
	hot(SYS_set_tid_address, 0, 0, 0, 0, 0, 0);

	pthread_create(&t, NULL, lister, g_list[1]);
	while (!g_tid)
		sched_yield();
	printf("another thread's: %d\n", list_of(g_tid) == (long)g_list[1]);
	/* A child has none until it says so. */
	pid = guest_fork();
	if (!pid) {
		g_cold(SYS_set_robust_list, (long)g_list[0], 24, 0, 0, 0, 0);
		_exit(list_of(0) != (long)g_list[0]);
	}
	waitpid(pid, &status, 0);
	guest_status("child", status);
	g_over = 1;
	pthread_join(t, NULL);
}

static void *in_thread(void *arg)
{
	(void)arg;
	spend();
	ids("in a thread");
	return NULL;
}

static void changes(void)
{
	struct rlimit rl;
	pthread_t t;
	int go[2], back[2], status;
	char c;
	pid_t pid, middle;

	pthread_create(&t, NULL, in_thread, NULL);
	pthread_join(t, NULL);
	ids("after a thread");

	/* A child whose group and limits its parent changes, while it asks. */
	if (pipe(go) || pipe(back))
		exit(1);
	pid = guest_fork();
	if (!pid) {
		spend();
		ids("in a child");
		fflush(stdout);
		if (write(back[1], "", 1) != 1 || read(go[0], &c, 1) != 1)
			_exit(1);
		ids("its group was changed");
		same_bytes("its limit was changed", SYS_getrlimit, RLIMIT_CORE, 0, 1, 16);
		printf("group is its own: %d\n", hot(SYS_getpgrp, 0, 0, 0, 0, 0, 0) == getpid());
		if (getuid() == 0 && setresgid(1, 2, 3) == 0 && setresuid(4, 5, 6) == 0)
			ids("other ids");
		fflush(stdout);
		_exit(0);
	}
	if (read(back[0], &c, 1) != 1)
		exit(1);
	setpgid(pid, pid);
	rl.rlim_cur = rl.rlim_max = 4096;
	prlimit(pid, RLIMIT_CORE, &rl, NULL);
	if (write(go[1], "", 1) != 1)
		exit(1);
	waitpid(pid, &status, 0);
	guest_status("child", status);

	/* An orphan gets another parent. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	middle = guest_fork();
	if (!middle) {
		pid = guest_fork();
		if (!pid) {
			spend();
			same("getppid of a child", SYS_getppid, 0, 0, 0);
			if (write(back[1], "", 1) != 1 || read(go[0], &c, 1) != 1)
				_exit(1);
			same("getppid of an orphan", SYS_getppid, 0, 0, 0);
			setsid();
			ids("its own session");
			fflush(stdout);
			_exit(0);
		}
		if (read(back[0], &c, 1) != 1)
			_exit(1);
		_exit(0);
	}
	waitpid(middle, &status, 0);
	if (write(go[1], "", 1) != 1)
		exit(1);
	waitpid(-1, &status, 0);
	guest_status("orphan", status);
}

static void processors(void)
{
	unsigned hot_cpu = 77, hot_node = 77;
	cpu_set_t all, one;
	long r;

	P("processors");
	sched_getaffinity(0, sizeof(all), &all);
	for (int i = 0; i < 8; i++) {
		if (!CPU_ISSET(i, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		sched_setaffinity(0, sizeof(one), &one);
		for (int k = 0; k < 50; k++) {
			r = hot(SYS_getcpu, (long)&hot_cpu, (long)&hot_node, 0, 0, 0, 0);
			if (r || hot_cpu != (unsigned)i || hot_node != 0)
				printf("bound to %d, told %ld %u %u\n", i, r, hot_cpu, hot_node);
		}
	}
	sched_setaffinity(0, sizeof(all), &all);
	same("getcpu of nothing", SYS_getcpu, 0, 0, 0);
	same("getcpu nowhere", SYS_getcpu, 8, 0, 0);
}

/* Hot and cold changes of the mask, one after the other, tell the same. */
static void masks_of_signals(void)
{
	static const long hows[] = {SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK, 3, -1};
	uint64_t set, old_hot, old_cold, state = 88172645463325252ull;
	int wrong = 0;

	P("signal masks");
	for (int i = 0; i < 3000; i++) {
		long how, a, b;

		state ^= state << 13, state ^= state >> 7, state ^= state << 17;
		/* Not the signals that stop us if they happen to come. */
		set = state;
		how = hows[(state >> 40) % (i % 50 ? 3 : 5)];
		old_hot = old_cold = 0x55;
		a = hot(SYS_rt_sigprocmask, how, i % 7 ? (long)&set : 0, (long)&old_hot, 8, 0, 0);
		b = g_cold(SYS_rt_sigprocmask, how, i % 7 ? (long)&set : 0, (long)&old_cold, 8, 0,
			   0);
		wrong += a != b;
		/* The second sees what the first has made. */
		if (a == 0 && i % 7 && how == SIG_SETMASK)
			wrong += old_cold != (set & ~(1ull << 8 | 1ull << 18));
		if (a == 0 && i % 7 && how == SIG_BLOCK)
			wrong += old_cold != ((old_hot | set) & ~(1ull << 8 | 1ull << 18));
		if (a == 0 && i % 7 && how == SIG_UNBLOCK)
			wrong += old_cold != (old_hot & ~set);
		if (!(i % 7))
			wrong += old_cold != old_hot;
	}
	set = 0;
	hot(SYS_rt_sigprocmask, SIG_SETMASK, (long)&set, 0, 8, 0, 0);
	printf("wrong: %d\n", wrong);
	same("rt_sigprocmask, other size", SYS_rt_sigprocmask, SIG_BLOCK, 0, 0);
	printf("nowhere: %ld\n", hot(SYS_rt_sigprocmask, SIG_BLOCK, 8, 0, 8, 0, 0));
	printf("to nowhere: %ld\n", hot(SYS_rt_sigprocmask, SIG_BLOCK, 0, 8, 8, 0, 0));
	/* The mask changes all the same. */
	set = 1ull << 13;
	printf("changed, to nowhere: %ld\n",
	       hot(SYS_rt_sigprocmask, SIG_BLOCK, (long)&set, 8, 8, 0, 0));
	hot(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&old_hot, 8, 0, 0);
	printf("then %llx\n", (unsigned long long)old_hot);
	/* Where a stack has to grow first. */
	for (long k = 0; k < 3; k++)
		printf("below the stack: %ld\n",
		       hot(SYS_rt_sigprocmask, SIG_UNBLOCK, k ? (long)&set : 0,
			   (long)((char *)__builtin_frame_address(0) - ((k + 1) << 19)), 8, 0, 0));
}

static atomic_int g_caught;

static void on_signal(int sig)
{
	(void)sig;
	g_caught++;
}

/* A signal that comes while it is blocked waits; one that comes when it is not does not. Whoever
 * sends. */
static void blocked_signals(void)
{
	uint64_t usr1 = 1ull << (SIGUSR1 - 1), chld = 1ull << (SIGCHLD - 1), pending;
	struct timespec soon = {5, 0};
	siginfo_t si;
	int lost = 0, early = 0, status;
	pid_t child, self = getpid();
	int go[2];
	char c;

	P("blocked signals");
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < 2000; i++) {
		hot(SYS_rt_sigprocmask, SIG_BLOCK, (long)&usr1, 0, 8, 0, 0);
		g_caught = 0;
		kill(self, SIGUSR1);
		early += g_caught;
		hot(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&usr1, 0, 8, 0, 0);
		lost += g_caught != 1;
	}
	printf("own: early %d lost %d\n", early, lost);

	/* From another process, at any moment between the two changes of the mask: none is lost,
	 * none comes while it is blocked. */
	if (pipe(go))
		exit(1);
	early = lost = 0;
	child = guest_fork();
	if (!child) {
		close(go[1]);
		while (read(go[0], &c, 1) == 1)
			kill(self, SIGUSR1);
		_exit(0);
	}
	close(go[0]);
	for (int i = 0; i < 500; i++) {
		g_caught = 0;
		hot(SYS_rt_sigprocmask, SIG_BLOCK, (long)&usr1, 0, 8, 0, 0);
		if (write(go[1], "", 1) != 1)
			exit(1);
		for (int k = 0; k < 200; k++) {
			hot(SYS_rt_sigprocmask, SIG_BLOCK, (long)&usr1, 0, 8, 0, 0);
			early += g_caught;
			if (i % 3 == 0)
				hot(SYS_rt_sigpending, (long)&pending, 8, 0, 0, 0, 0);
		}
		hot(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&usr1, 0, 8, 0, 0);
		/* It may not have been sent yet: then it interrupts this. */
		while (!g_caught)
			hot(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&usr1, 0, 8, 0, 0);
		lost += g_caught != 1;
	}
	close(go[1]);
	waitpid(child, &status, 0);
	printf("another's: early %d, not once %d\n", early, lost);

	/* What is ignored by default is kept while it is blocked. */
	lost = 0;
	for (int i = 0; i < 200; i++) {
		hot(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&chld, 0, 8, 0, 0);
		child = guest_fork();
		if (!child) {
			for (volatile int k = 0; k < i * 100; k++)
				;
			_exit(0);
		}
		hot(SYS_rt_sigprocmask, SIG_BLOCK, (long)&chld, 0, 8, 0, 0);
		kill(self, SIGCHLD);
		memset(&si, 0, sizeof(si));
		lost += sigtimedwait((sigset_t *)&chld, &si, &soon) != SIGCHLD;
		waitpid(child, &status, 0);
	}
	printf("SIGCHLD lost: %d\n", lost);
	hot(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&chld, 0, 8, 0, 0);
}

int main(void)
{
	make_cold();
	spend();
	ids("at first");
	limits();
	names();
	masks();
	clocks();
	futexes();
	changes();
	processors();
	told();
	masks_of_signals();
	blocked_signals();
	ids("at last");
	return 0;
}
