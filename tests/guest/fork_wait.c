/* SPDX-License-Identifier: Apache-2.0 */

/* fork, wait4, waitid, waitpid: statuses, options, reaping rules, reparenting. */
#include "guest.h"
#include <sys/resource.h>

static volatile sig_atomic_t chld_count;

static void on_chld(int sig)
{
	(void)sig;
	chld_count++;
}

static void print_siginfo(const char *what, const siginfo_t *si, pid_t pid)
{
	printf("%s: signo %s code %d status %d pid %s\n", what,
	       si->si_signo ? guest_signal(si->si_signo) : "0", si->si_code, si->si_status,
	       si->si_pid == pid ? "child's"
	       : si->si_pid      ? "other"
				 : "0");
}

static void statuses(void)
{
	static const int codes[] = {0, 1, 42, 255, 256, 257, -1};
	static const int signals[] = {SIGKILL, SIGTERM, SIGUSR1, SIGPIPE, SIGALRM, SIGHUP, SIGINT};
	pid_t pid;

	P("statuses");
	for (size_t i = 0; i < GUEST_COUNT(codes); i++) {
		pid = guest_fork();
		if (!pid)
			_exit(codes[i]);
		guest_wait("child", pid);
	}
	for (size_t i = 0; i < GUEST_COUNT(signals); i++) {
		pid = guest_fork();
		if (!pid) {
			kill(getpid(), signals[i]);
			_exit(99);
		}
		guest_wait("child", pid);
	}
	/* Ignored by default. */
	pid = guest_fork();
	if (!pid) {
		kill(getpid(), SIGCHLD);
		kill(getpid(), SIGURG);
		kill(getpid(), SIGWINCH);
		kill(getpid(), SIGCONT);
		_exit(3);
	}
	guest_wait("ignored by default", pid);
	pid = guest_fork();
	if (!pid) {
		signal(SIGABRT, SIG_IGN);
		abort();
	}
	guest_wait("abort", pid);
}

static void errors(void)
{
	siginfo_t si;
	int status;

	P("errors");
	V(waitpid(-1, NULL, 0));
	V(waitpid(-1, NULL, WNOHANG));
	V(waitpid(1 << 22, NULL, 0));
	V(waitpid(getpid(), NULL, 0));
	V(waitpid(-1, &status, 0x10000000 | 0x100));
	V(waitpid(INT_MIN, NULL, 0));
	V(waitid(P_ALL, 0, &si, 0));
	V(waitid(P_ALL, 0, &si, WNOHANG));
	V(waitid(P_ALL, 0, &si, WEXITED));
	V(waitid(77, 0, &si, WEXITED));
	V(waitid(P_PID, 0, &si, WEXITED));
	V(waitid(P_PIDFD, 999, &si, WEXITED));
	V(waitid(P_PIDFD, 0, &si, WEXITED));
	V(waitid(P_PID, (id_t)-5, &si, WEXITED));
}

static void options(void)
{
	siginfo_t si;
	int status = 0, go[2];
	pid_t pid;
	char c;

	P("options");
	V(pipe(go));
	pid = guest_fork();
	if (!pid) {
		close(go[1]);
		_exit(read(go[0], &c, 1) == 0 ? 5 : 6);
	}
	V(waitpid(pid, &status, WNOHANG));
	memset(&si, 0x55, sizeof(si));
	V(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG));
	print_siginfo("not yet", &si, pid);
	close(go[1]);
	close(go[0]);
	V(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT));
	print_siginfo("nowait", &si, pid);
	V(waitid(P_ALL, 0, &si, WEXITED | WNOWAIT));
	T(kill(pid, 0) == 0);
	T(guest_state(pid, pid) == 'Z');
	V(waitid(P_PID, (id_t)pid, &si, WEXITED));
	print_siginfo("reaped", &si, pid);
	V(waitid(P_PID, (id_t)pid, &si, WEXITED));
	T(kill(pid, 0) == -1 && errno == ESRCH);

	pid = guest_fork();
	if (!pid)
		for (;;)
			pause();
	kill(pid, SIGSTOP);
	V(waitpid(pid, &status, WUNTRACED) == pid);
	guest_status("WUNTRACED", status);
	V(waitpid(pid, &status, WUNTRACED | WNOHANG));
	kill(pid, SIGCONT);
	V(waitpid(pid, &status, WCONTINUED) == pid);
	guest_status("WCONTINUED", status);
	V(waitpid(pid, &status, WCONTINUED | WNOHANG));
	kill(pid, SIGSTOP);
	V(waitid(P_PID, (id_t)pid, &si, WSTOPPED | WNOWAIT));
	print_siginfo("WSTOPPED", &si, pid);
	V(waitid(P_PID, (id_t)pid, &si, WSTOPPED));
	kill(pid, SIGCONT);
	V(waitid(P_PID, (id_t)pid, &si, WCONTINUED));
	print_siginfo("WCONTINUED", &si, pid);
	kill(pid, SIGKILL);
	V(waitid(P_PID, (id_t)pid, &si, WEXITED | WSTOPPED | WCONTINUED));
	print_siginfo("killed", &si, pid);

	/* A stopped process dies of SIGKILL, and of SIGTERM only once continued. */
	pid = guest_fork();
	if (!pid)
		for (;;)
			pause();
	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
	kill(pid, SIGTERM);
	guest_sleep_ms(20);
	V(waitpid(pid, &status, WNOHANG));
	kill(pid, SIGCONT);
	guest_wait("TERM while stopped", pid);
}

static void groups(void)
{
	pid_t a, b;
	int status;

	P("process groups");
	a = guest_fork();
	if (!a) {
		setpgid(0, 0);
		_exit(1);
	}
	setpgid(a, a);
	b = guest_fork();
	if (!b)
		_exit(2);
	V(waitpid(-a, &status, 0) == a);
	guest_status("group of a", status);
	V(waitpid(-a, &status, 0));
	V(waitpid(0, &status, 0) == b);
	guest_status("own group", status);
}

static void reaping(void)
{
	struct sigaction sa = {.sa_handler = SIG_IGN};
	pid_t pid;

	P("SIGCHLD rules");
	sigaction(SIGCHLD, &sa, NULL);
	pid = guest_fork();
	if (!pid)
		_exit(1);
	V(waitpid(pid, NULL, 0));
	sa.sa_handler = on_chld;
	sa.sa_flags = SA_NOCLDWAIT;
	sigaction(SIGCHLD, &sa, NULL);
	pid = guest_fork();
	if (!pid)
		_exit(1);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	T(errno == ECHILD);
	printf("handler ran %d\n", chld_count);
	sa.sa_flags = SA_NOCLDSTOP | SA_RESTART;
	sigaction(SIGCHLD, &sa, NULL);
	chld_count = 0;
	pid = guest_fork();
	if (!pid)
		for (;;)
			pause();
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	kill(pid, SIGCONT);
	waitpid(pid, NULL, WCONTINUED);
	guest_sleep_ms(30);
	printf("SA_NOCLDSTOP: handler ran %d\n", chld_count);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGCHLD, &sa, NULL);
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	guest_sleep_ms(30);
	printf("stop: handler ran %d\n", chld_count);
	kill(pid, SIGCONT);
	waitpid(pid, NULL, WCONTINUED);
	/* The continued child itself tells its parent, when it runs. */
	guest_sleep_ms(30);
	printf("cont: handler ran %d\n", chld_count);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	guest_sleep_ms(30);
	printf("death: handler ran %d\n", chld_count);
	signal(SIGCHLD, SIG_DFL);
}

static void reparent(void)
{
	pid_t pid, orphan;
	int link[2], status;

	P("reparenting");
	V(prctl(PR_SET_CHILD_SUBREAPER, 1));
	V(pipe(link));
	pid = guest_fork();
	if (!pid) {
		pid_t parent = getpid(), grandchild = fork();

		if (!grandchild) {
			while (getppid() == parent)
				guest_sleep_ms(1);
			_exit(9);
		}
		if (write(link[1], &grandchild, sizeof(grandchild)) < 0)
			_exit(1);
		_exit(0);
	}
	V(read(link[0], &orphan, sizeof(orphan)));
	guest_wait("parent", pid);
	V(waitpid(orphan, &status, 0) == orphan);
	guest_status("orphan", status);
	V(prctl(PR_SET_CHILD_SUBREAPER, 0));

	/* A parent that ignores SIGCHLD lets its orphans go to their reaper unnoticed. */
	pid = guest_fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGUSR1);
		_exit(0);
	}
	guest_wait("pdeathsig set", pid);
	pid = guest_fork();
	if (!pid) {
		pid_t mine = fork();

		if (!mine) {
			sigset_t set;
			int sig;

			sigemptyset(&set);
			sigaddset(&set, SIGUSR1);
			sigprocmask(SIG_BLOCK, &set, NULL);
			prctl(PR_SET_PDEATHSIG, SIGUSR1);
			if (write(link[1], "x", 1) < 0)
				_exit(1);
			sigwait(&set, &sig);
			printf("parent died: %s\n", guest_signal(sig));
			if (write(link[1], "y", 1) < 0)
				_exit(1);
			_exit(0);
		}
		if (read(link[0], &status, 1) != 1)
			_exit(1);
		_exit(0);
	}
	/* What the orphan prints comes first, but the first byte is for its parent. */
	int middle;

	waitpid(pid, &middle, 0);
	V(read(link[0], &status, 1));
	guest_status("middle", middle);
}

static void rusage(void)
{
	struct rusage ru, all;
	pid_t pid;
	int status;

	P("rusage");
	pid = guest_fork();
	if (!pid) {
		/* Not by the wall: on a busy machine little of that is ours. */
		while (clock() < CLOCKS_PER_SEC / 50)
			;
		_exit(0);
	}
	V(wait4(pid, &status, 0, &ru) == pid);
	T(ru.ru_utime.tv_sec * 1000000 + ru.ru_utime.tv_usec + ru.ru_stime.tv_sec * 1000000 +
		  ru.ru_stime.tv_usec >
	  10000);
	T(ru.ru_maxrss > 100);
	V(getrusage(RUSAGE_CHILDREN, &all));
	T(all.ru_maxrss >= ru.ru_maxrss);
	V(getrusage(77, &all));
	V(wait4(-1, NULL, 0, &ru));
}

static void *ends_at_once(void *arg)
{
	return arg;
}

static int64_t process_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Tasks so short that asking what they used would take longer. */
static void brief(void)
{
	struct rusage ru, all;
	int64_t used = 0, last = process_ns();
	int small = 0, backwards = 0;

	P("what short lives used");
	V(getrusage(RUSAGE_CHILDREN, &all));
	for (int i = 0; i < 20; i++) {
		pid_t pid = guest_fork();

		if (!pid)
			_exit(0);
		wait4(pid, NULL, 0, &ru);
		small += ru.ru_maxrss < 100;
		used += ru.ru_utime.tv_sec + ru.ru_stime.tv_sec;
	}
	printf("small %d, seconds %d\n", small, (int)used);
	for (int i = 0; i < 50; i++) {
		pthread_t t;
		int64_t now;

		pthread_create(&t, NULL, ends_at_once, NULL);
		pthread_join(t, NULL);
		now = process_ns();
		backwards += now < last;
		last = now;
	}
	printf("backwards %d\n", backwards);
}

int main(void)
{
	guest_begin();
	statuses();
	errors();
	options();
	groups();
	reaping();
	reparent();
	rusage();
	brief();
	return 0;
}
