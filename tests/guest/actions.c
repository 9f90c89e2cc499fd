/* SPDX-License-Identifier: Apache-2.0 */

/* Signal actions that the stub keeps: each is read, used and inherited like one that the sentry
 * keeps, from the first call of a process to those of a rewritten site. */
#include "guest.h"

static volatile int handled;

static void count(int sig)
{
	(void)sig;
	handled++;
}

static void other(int sig)
{
	(void)sig;
	handled += 100;
}

/* Until the site is a jump. */
static void warm(void)
{
	struct sigaction old;

	for (int i = 0; i < 100; i++)
		sigaction(SIGUSR1, NULL, &old);
}

static void set(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa = {.sa_handler = fn, .sa_flags = flags};

	if (sigaction(sig, &sa, NULL))
		printf("sigaction %d: %s\n", sig, guest_errno(errno));
}

static void show(const char *what, int sig)
{
	struct sigaction old;

	memset(&old, 0xff, sizeof(old));
	if (sigaction(sig, NULL, &old)) {
		printf("%s: %s\n", what, guest_errno(errno));
		return;
	}
	printf("%s: %s flags %x mask", what,
	       old.sa_handler == count     ? "count"
	       : old.sa_handler == other   ? "other"
	       : old.sa_handler == SIG_IGN ? "ignore"
	       : old.sa_handler == SIG_DFL ? "default"
					   : "?",
	       (unsigned)old.sa_flags & 0xfbffffffu);
	for (int s = 1; s <= 64; s++) {
		if (sigismember(&old.sa_mask, s) == 1)
			printf(" %d", s);
	}
	printf("\n");
}

static void values(void)
{
	struct sigaction sa = {.sa_handler = count}, old;
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		unsigned long mask;
	} raw = {.handler = (void *)count, .flags = ~0ul, .mask = ~0ul};

	P("values");
	show("at first", SIGUSR1);
	sigfillset(&sa.sa_mask);
	sa.sa_flags = SA_RESTART | SA_NODEFER;
	V(sigaction(SIGUSR1, &sa, &old));
	show("all blocked", SIGUSR1);
	sa.sa_handler = other;
	/* The same memory for both. */
	V(sigaction(SIGUSR1, &sa, &sa));
	show("changed", SIGUSR1);
	printf("had %s\n", sa.sa_handler == count ? "count" : "?");
	V(syscall(SYS_rt_sigaction, SIGUSR2, &raw, &raw, 8));
	V(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &raw, 8));
	printf("kept %lx %lx\n", raw.flags, raw.mask);
	set(SIGUSR2, SIG_DFL, 0);
	V(sigaction(SIGKILL, NULL, &old));
	V(sigaction(SIGSTOP, &sa, NULL));
	V(syscall(SYS_rt_sigaction, 0, NULL, &old, 8));
	V(syscall(SYS_rt_sigaction, 65, NULL, NULL, 8));
	V(syscall(SYS_rt_sigaction, -1, NULL, NULL, 8));
	V(syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 16));
	V(syscall(SYS_rt_sigaction, SIGUSR1, 8, NULL, 8));
	/* It is set all the same. */
	raw.handler = (void *)SIG_IGN;
	raw.flags = raw.mask = 0;
	V(syscall(SYS_rt_sigaction, SIGHUP, &raw, 8, 8));
	show("after EFAULT", SIGHUP);
	set(SIGHUP, SIG_DFL, 0);
	for (int s = 1; s <= 64; s++) {
		if (s != SIGKILL && s != SIGSTOP && s != 32 && s != 33)
			set(s, s % 2 ? count : SIG_IGN, s % 3 ? SA_RESTART : 0);
	}
	for (int s = 1; s <= 64; s++) {
		if (s % 7 == 0 && s != SIGSTOP)
			show("one of all", s);
		if (s != SIGKILL && s != SIGSTOP && s != 32 && s != 33)
			set(s, SIG_DFL, 0);
	}
}

static void deliveries(void)
{
	P("deliveries");
	handled = 0;
	set(SIGUSR1, count, 0);
	raise(SIGUSR1);
	set(SIGUSR1, other, 0);
	raise(SIGUSR1);
	set(SIGUSR1, SIG_IGN, 0);
	raise(SIGUSR1);
	printf("handled %d\n", handled);
	set(SIGUSR1, count, SA_RESETHAND);
	raise(SIGUSR1);
	show("reset", SIGUSR1);
	set(SIGUSR1, count, SA_RESETHAND);
	show("set again", SIGUSR1);
	raise(SIGUSR1);
	show("reset again", SIGUSR1);
	printf("handled %d\n", handled);
}

/* What is ignored is dropped even if it is blocked and pending. */
static void pending(void)
{
	sigset_t s, p;

	P("pending");
	sigemptyset(&s);
	sigaddset(&s, SIGUSR1);
	handled = 0;
	for (int i = 0; i < 3; i++) {
		set(SIGUSR1, count, 0);
		sigprocmask(SIG_BLOCK, &s, NULL);
		kill(getpid(), SIGUSR1);
		set(SIGUSR1, i ? SIG_IGN : other, 0);
		sigpending(&p);
		printf("pending %d\n", sigismember(&p, SIGUSR1));
		set(SIGUSR1, count, 0);
		sigprocmask(SIG_UNBLOCK, &s, NULL);
	}
	printf("handled %d\n", handled);
}

static void status_of(pid_t pid)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		/* Others may be ignored by whoever runs this. */
		if (strncmp(line, "SigIgn", 6) == 0 || strncmp(line, "SigCgt", 6) == 0)
			printf("%.7s %#llx\n", line,
			       strtoull(line + 7, NULL, 16) &
				       (1u << (SIGUSR1 - 1) | 1u << (SIGUSR2 - 1) |
					1u << (SIGTERM - 1)));
	}
	if (f)
		fclose(f);
}

/* A process that makes no call that leaves it: others see what it has set. */
static void from_outside(void)
{
	volatile int *at =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;
	int status;

	P("from outside");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		warm();
		set(SIGUSR1, SIG_IGN, 0);
		set(SIGUSR2, count, 0);
		set(SIGTERM, SIG_IGN, 0);
		handled = 0;
		*at = 1;
		while (*at != 2)
			;
		set(SIGTERM, SIG_DFL, 0);
		*at = 3;
		for (;;)
			;
	}
	while (*at != 1)
		usleep(100);
	status_of(child);
	kill(child, SIGUSR1);
	kill(child, SIGTERM);
	*at = 2;
	while (*at != 3)
		usleep(100);
	status_of(child);
	kill(child, SIGTERM);
	waitpid(child, &status, 0);
	printf("ended by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void children(void)
{
	pid_t child;
	int status;

	P("children");
	fflush(stdout);
	/* Nobody hears of a child whose end is ignored. */
	set(SIGCHLD, SIG_IGN, 0);
	child = fork();
	if (child == 0)
		_exit(3);
	printf("wait %s\n", waitpid(child, &status, 0) == -1 && errno == ECHILD ? "ECHILD" : "?");
	set(SIGCHLD, SIG_DFL, SA_NOCLDWAIT);
	child = fork();
	if (child == 0)
		_exit(3);
	printf("wait %s\n", waitpid(child, &status, 0) == -1 && errno == ECHILD ? "ECHILD" : "?");
	handled = 0;
	set(SIGCHLD, count, 0);
	child = fork();
	if (child == 0)
		_exit(3);
	while (waitpid(child, &status, 0) == -1 && errno == EINTR)
		;
	printf("handled %d\n", handled);
	set(SIGUSR1, other, SA_RESTART);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		show("child's", SIGUSR1);
		set(SIGUSR1, SIG_IGN, 0);
		show("child's own", SIGUSR1);
		fflush(stdout);
		_exit(0);
	}
	fflush(stdout);
	while (waitpid(child, &status, 0) == -1 && errno == EINTR)
		;
	set(SIGCHLD, SIG_DFL, 0);
	show("parent's", SIGUSR1);
}

static void *in_thread(void *arg)
{
	(void)arg;
	show("thread's", SIGUSR1);
	set(SIGUSR1, count, 0);
	for (int i = 0; i < 50; i++)
		set(SIGUSR2, i % 2 ? count : other, 0);
	return NULL;
}

/* Threads have them in common. */
static void shared(void)
{
	pthread_t th;

	P("shared");
	set(SIGUSR1, other, 0);
	fflush(stdout);
	pthread_create(&th, NULL, in_thread, NULL);
	pthread_join(th, NULL);
	show("of thread", SIGUSR1);
	show("of thread", SIGUSR2);
	handled = 0;
	raise(SIGUSR1);
	printf("handled %d\n", handled);
	set(SIGUSR1, SIG_DFL, 0);
	show("alone again", SIGUSR1);
}

static void programs(char *self)
{
	pid_t child;
	int status;

	P("programs");
	set(SIGUSR1, count, 0);
	set(SIGUSR2, SIG_IGN, 0);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		set(SIGHUP, SIG_IGN, 0);
		execl(self, self, "program", NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	printf("status %d\n", status);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		show("program's", SIGUSR1);
		show("program's", SIGUSR2);
		show("program's", SIGHUP);
		warm();
		set(SIGUSR1, other, 0);
		show("program's own", SIGUSR1);
		return 0;
	}
	for (int i = 0; i < 2; i++) {
		values();
		deliveries();
		pending();
		from_outside();
		children();
		warm();
	}
	fflush(stdout);
	programs(argv[0]);
	shared();
	programs(argv[0]);
	return 0;
}
