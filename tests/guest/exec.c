/* SPDX-License-Identifier: Apache-2.0 */

/* execve and execveat: arguments, environment, auxv, scripts, errors, what survives, exec from a
 * thread. */
#include "guest.h"
#include <sys/auxv.h>
#include <sys/resource.h>

extern char **environ;
static const char *self = "/proc/self/exe";

static void on_signal(int sig)
{
	(void)sig;
}

/* What the image that was started by exec reports, by its first argument. */
static int report(int argc, char **argv)
{
	sigset_t set;
	struct sigaction sa;
	char name[32] = "";
	stack_t ss;

	setvbuf(stdout, NULL, _IOLBF, 1 << 16);
	printf("argc %d:", argc);
	for (int i = 1; i < argc; i++)
		printf(" '%s'", strlen(argv[i]) > 30 ? "long" : argv[i]);
	printf("\n");
	if (!strcmp(argv[1], "environment")) {
		for (char **e = environ; *e; e++)
			printf("env %s\n", *e);
	} else if (!strcmp(argv[1], "state")) {
		sigprocmask(SIG_BLOCK, NULL, &set);
		printf("USR1 blocked %d", sigismember(&set, SIGUSR1));
		sigpending(&set);
		printf(", pending %d\n", sigismember(&set, SIGUSR1));
		sigaction(SIGUSR2, NULL, &sa);
		printf("USR2 %s\n", sa.sa_handler == SIG_DFL   ? "default"
				    : sa.sa_handler == SIG_IGN ? "ignored"
							       : "handled");
		sigaction(SIGHUP, NULL, &sa);
		printf("HUP %s\n", sa.sa_handler == SIG_DFL   ? "default"
				   : sa.sa_handler == SIG_IGN ? "ignored"
							      : "handled");
		sigaction(SIGCHLD, NULL, &sa);
		printf("CHLD %s\n", sa.sa_handler == SIG_DFL   ? "default"
				    : sa.sa_handler == SIG_IGN ? "ignored"
							       : "handled");
		sigaltstack(NULL, &ss);
		printf("altstack flags %d\n", ss.ss_flags);
		printf("fd 20 %s, fd 21 %s\n", fcntl(20, F_GETFD) < 0 ? "closed" : "open",
		       fcntl(21, F_GETFD) < 0 ? "closed" : "open");
		printf("alarm %s\n", alarm(0) > 50 ? "kept" : "lost");
		prctl(PR_GET_NAME, name);
		printf("comm %s, dumpable %d, keepcaps %d\n", name, prctl(PR_GET_DUMPABLE),
		       prctl(PR_GET_KEEPCAPS));
		printf("umask %o, nice kept %d\n", umask(0),
		       getenv("NICE") && atoi(getenv("NICE")) == getpriority(PRIO_PROCESS, 0));
		printf("pid %s tid %s\n",
		       getenv("PID") && atoi(getenv("PID")) == getpid() ? "kept" : "new",
		       gettid() == getpid() ? "leader" : "other");
		printf("timers %d\n",
		       (int)syscall(SYS_timer_gettime, 0, &(struct itimerspec){{0}, {0}}) == 0);
		printf("no_new_privs %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
		printf("address space: locked %d\n", mlock((void *)0x10000, 1) == 0);
	} else if (!strcmp(argv[1], "auxv")) {
		printf("EXECFN %s\n", (char *)getauxval(AT_EXECFN));
	}
	return 9;
}

#define CHILD(...)                                                \
	do {                                                      \
		pid_t pid_ = guest_fork();                        \
		if (!pid_) {                                      \
			__VA_ARGS__;                              \
			printf("exec: %s\n", guest_errno(errno)); \
			_exit(1);                                 \
		}                                                 \
		guest_wait(#__VA_ARGS__, pid_);                   \
	} while (0)

static void arguments(void)
{
	char *env[] = {(char *)"A=1", (char *)"B=two", (char *)"A=1",
		       (char *)"odd", (char *)"",      NULL};
	char *none[] = {NULL};
	char *lots[1002];

	P("arguments and environment");
	CHILD(execl(self, "x", "environment", "a b", "", NULL));
	char *args[] = {(char *)"name", (char *)"environment", NULL};
	CHILD(execve(self, args, env));
	CHILD(execve(self, args, NULL));
	CHILD(syscall(SYS_execve, self, NULL, env));
	CHILD(execve(self, none, env));
	CHILD(execve(self, (char **)8, env));
	CHILD(execve(self, args, (char **)8));
	char *bad[] = {(char *)"x", (char *)8, NULL};
	CHILD(execve(self, bad, env));
	char *big = malloc(200000);
	memset(big, 'b', 199999);
	big[199999] = 0;
	char *toolong[] = {(char *)"x", (char *)"plain", big, NULL};
	CHILD(execve(self, toolong, env));
	big[131071] = 0;
	CHILD(execve(self, toolong, env));
	for (int i = 0; i < 1000; i++)
		lots[i] = (char *)(i == 1 ? "environment" : "0123456789");
	lots[1000] = NULL;
	pid_t pid = guest_fork();
	if (!pid) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, 1);
		execve(self, lots, env);
		_exit(1);
	}
	guest_wait("a thousand arguments", pid);
	char **huge = malloc(40 * sizeof(char *));
	huge[0] = (char *)"x";
	for (int i = 1; i < 39; i++)
		huge[i] = big;
	huge[39] = NULL;
	CHILD(setrlimit(RLIMIT_STACK, &(struct rlimit){1 << 20, 1 << 20}); execve(self, huge, env));
}

static void errors(void)
{
	char *args[] = {(char *)"x", NULL};
	char *env[] = {NULL};
	int fd;

	P("errors");
	V(execve("none", args, env));
	V(execve("", args, env));
	V(execve(".", args, env));
	V(execve("/dev/null", args, env));
	V(execve((char *)8, args, env));
	guest_file("plain", "no program\n");
	V(execve("plain", args, env));
	V(execve("plain/x", args, env));
	chmod("plain", 0755);
	V(execve("plain", args, env));
	guest_file("empty", "");
	chmod("empty", 0755);
	V(execve("empty", args, env));
	guest_file("elf", "\177ELF");
	chmod("elf", 0755);
	V(execve("elf", args, env));
	fd = open("busy", O_RDWR | O_CREAT, 0755);
	V(write(fd, "#!/bin/true\n", 12));
	V(execve("busy", args, env));
	close(fd);
	V(symlink("l2", "l1"));
	V(symlink("l1", "l2"));
	V(execve("l1", args, env));
	char *deep = malloc(300);
	memset(deep, 'n', 299);
	deep[299] = 0;
	V(execve(deep, args, env));
}

static void scripts(void)
{
	char *env[] = {(char *)"PATH=/usr/bin:/bin", NULL};
	char *args[] = {(char *)"zero", (char *)"one", (char *)"two words", NULL};
	char text[600], exe[300] = "";
	static const char *const bodies[] = {
		"#!/bin/echo\n",
		"#! /bin/echo  with  spaces \n",
		"#!/bin/echo\ttab\n",
		"#!/bin/echo",
		"#!\n",
		"#!   \n",
		"#!/none\n",
		"#!bin/echo relative\n",
		"#!/bin/echo -n a b\r\n",
	};

	P("scripts");
	for (size_t i = 0; i < GUEST_COUNT(bodies); i++) {
		guest_file("script", bodies[i]);
		chmod("script", 0755);
		CHILD(execve("script", args, env));
	}
	/* An interpreter that is a script. */
	if (readlink(self, exe, sizeof(exe) - 1) < 0)
		P("readlink");
	guest_file("s1", "#!/bin/echo from s1\n");
	chmod("s1", 0755);
	for (int i = 2; i < 8; i++) {
		char name[8];

		snprintf(name, sizeof(name), "s%d", i);
		snprintf(text, sizeof(text), "#!./s%d arg%d\n", i - 1, i);
		guest_file(name, text);
		chmod(name, 0755);
		CHILD(execve(name, args, env));
	}
	snprintf(text, sizeof(text), "#!./loop\n");
	guest_file("loop", text);
	chmod("loop", 0755);
	CHILD(execve("loop", args, env));
	memset(text, '/', 400);
	memcpy(text, "#!", 2);
	strcpy(text + 300, "bin/echo\n");
	guest_file("longline", text);
	chmod("longline", 0755);
	CHILD(execve("longline", args, env));
	snprintf(text, sizeof(text), "#!%s environment\n", exe);
	guest_file("us", text);
	chmod("us", 0755);
	CHILD(execve("us", args, env));
	chmod("us", 0644);
	CHILD(execve("us", args, env));
	guest_file("unreadable", "#!/bin/echo unreadable\n");
	chmod("unreadable", 0111);
	CHILD(execve("unreadable", args, env));
	CHILD(execlp("./plain", "plain", NULL));
}

static void *thread(void *arg)
{
	(void)arg;
	char pid[32];

	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("PID", pid, 1);
	execl(self, "x", "state", NULL);
	return NULL;
}

static void *idle(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

static void survival(void)
{
	pid_t pid;
	pthread_t t;

	P("what survives");
	pid = guest_fork();
	if (!pid) {
		char text[32];
		sigset_t set;
		timer_t timer;

		snprintf(text, sizeof(text), "%d", getpid());
		setenv("PID", text, 1);
		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		sigprocmask(SIG_BLOCK, &set, NULL);
		kill(getpid(), SIGUSR1);
		guest_handle(SIGUSR2, on_signal, 0);
		signal(SIGHUP, SIG_IGN);
		signal(SIGCHLD, SIG_IGN);
		sigaltstack(&(stack_t){.ss_sp = malloc(65536), .ss_size = 65536}, NULL);
		dup2(0, 20);
		dup3(0, 21, O_CLOEXEC);
		alarm(100);
		prctl(PR_SET_NAME, "renamed");
		prctl(PR_SET_KEEPCAPS, 1);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		umask(027);
		snprintf(text, sizeof(text), "%d", nice(1));
		setenv("NICE", text, 1);
		timer_create(CLOCK_MONOTONIC, NULL, &timer);
		execl(self, "x", "state", NULL);
	}
	guest_wait("state", pid);
	pid = guest_fork();
	if (!pid) {
		for (int i = 0; i < 5; i++)
			pthread_create(&t, NULL, idle, NULL);
		pthread_create(&t, NULL, thread, NULL);
		for (;;)
			pause();
	}
	guest_wait("exec from a thread", pid);
	pid = vfork();
	if (!pid) {
		execl(self, "x", "vforked", NULL);
		_exit(1);
	}
	guest_wait("vfork and exec", pid);
}

static void by_fd(void)
{
	int fd = open(self, O_PATH | O_CLOEXEC), dir, script;
	char *args[] = {(char *)"x", (char *)"fd", NULL},
	     *sargs[] = {(char *)"x", (char *)"arg", NULL};
	char *env[] = {NULL};

	P("execveat");
	CHILD(syscall(SYS_execveat, fd, "", args, env, AT_EMPTY_PATH));
	CHILD(syscall(SYS_execveat, fd, "", args, env, 0));
	CHILD(syscall(SYS_execveat, 999, "", args, env, AT_EMPTY_PATH));
	CHILD(syscall(SYS_execveat, fd, "", args, env, 0x77));
	dir = dup2(open(".", O_RDONLY), 60);
	CHILD(syscall(SYS_execveat, dir, "s1", sargs, env, 0));
	CHILD(syscall(SYS_execveat, dir, "l1", sargs, env, AT_SYMLINK_NOFOLLOW));
	script = open("s1", O_RDONLY);
	CHILD(dup2(script, 50); syscall(SYS_execveat, 50, "", sargs, env, AT_EMPTY_PATH));
	script = open("s1", O_RDONLY | O_CLOEXEC);
	CHILD(syscall(SYS_execveat, script, "", sargs, env, AT_EMPTY_PATH));
	CHILD(fexecve(fd, args, env));
	CHILD(syscall(SYS_execveat, dir, "", sargs, env, AT_EMPTY_PATH));
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return report(argc, argv);
	if (argc == 0 || !argv[0][0]) {
		printf("argc %d, argv[0] '%s'\n", argc, argc ? argv[0] : "NULL");
		return 8;
	}
	guest_begin();
	clearenv();
	setenv("ONLY", "this", 1);
	arguments();
	errors();
	scripts();
	survival();
	by_fd();
	return 0;
}
