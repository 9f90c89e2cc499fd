/* SPDX-License-Identifier: Apache-2.0 */

/* Sessions, process groups, a controlling terminal on a pty, and the signals that go with them. */
#include "guest.h"
#include <termios.h>

static int master, slave;
static char slave_name[64];

static volatile sig_atomic_t caught;

static void handler(int sig)
{
	caught = sig;
}

static void open_pty(void)
{
	master = posix_openpt(O_RDWR | O_NOCTTY);
	if (master < 0 || grantpt(master) || unlockpt(master) ||
	    ptsname_r(master, slave_name, sizeof(slave_name))) {
		printf("no pty: %s\n", guest_errno(errno));
		exit(1);
	}
	slave = open(slave_name, O_RDWR | O_NOCTTY);
}

static void groups(void)
{
	pid_t pid, sid;
	int hold[2];
	char c;

	P("groups and sessions");
	V(pipe(hold));
	pid = guest_fork();
	if (!pid) {
		close(hold[1]);
		V(setpgid(0, 0));
		T(getpgrp() == getpid());
		V(setsid());
		V(setpgid(getpid(), getpid()));
		V(setpgid(0, 1 << 22));
		V(setpgid(-1, 0));
		V(setpgid(0, -1));
		V(setpgid(1 << 22, 0));
		T(getpgid(0) == getpid());
		V(getpgid(1 << 22));
		V(getsid(1 << 22));
		_exit(read(hold[0], &c, 1) == 0 ? 0 : 1);
	}
	guest_until_asleep(pid);
	T(getpgid(pid) == pid);
	V(setpgid(pid, getpgrp()));
	T(getpgid(pid) == getpgrp());
	close(hold[1]);
	guest_wait("child", pid);
	pid = guest_fork();
	if (!pid) {
		OK(sid = setsid());
		T(sid == getpid() && getsid(0) == sid && getpgrp() == sid);
		V(setsid());
		V(setpgid(0, 0));
		V(open("/dev/tty", O_RDWR));
		V(tcgetpgrp(slave));
		V(tcgetsid(slave));
		_exit(0);
	}
	guest_wait("session leader", pid);
}

/* A session of its own on the pty: returns in the leader, which exits. */
static void leader(void)
{
	int tty, status, got;
	pid_t bg, fg;
	sigset_t set;

	setsid();
	V(ioctl(slave, TIOCSCTTY, 0));
	OK(tty = open("/dev/tty", O_RDWR));
	T(tcgetpgrp(tty) == getpid());
	T(tcgetsid(tty) == getpid());
	signal(SIGTTOU, SIG_DFL);

	P("background read");
	bg = guest_fork();
	if (!bg) {
		char c;

		setpgid(0, 0);
		V(read(tty, &c, 1));
		_exit(0);
	}
	setpgid(bg, bg);
	waitpid(bg, &status, WUNTRACED);
	guest_status("reader", status);
	V(tcsetpgrp(tty, bg));
	T(tcgetpgrp(tty) == bg);
	V(write(master, "x\n", 2));
	kill(bg, SIGCONT);
	guest_wait("reader in the foreground", bg);
	/* We are in the background now: setting the group stops us unless we block or ignore TTOU.
	 */
	sigemptyset(&set);
	sigaddset(&set, SIGTTOU);
	sigprocmask(SIG_BLOCK, &set, NULL);
	V(tcsetpgrp(tty, getpid()));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	V(tcsetpgrp(tty, 1 << 22));
	V(tcsetpgrp(tty, -1));
	tcflush(tty, TCIFLUSH);

	P("background read with TTIN ignored or blocked");
	bg = guest_fork();
	if (!bg) {
		char c;

		setpgid(0, 0);
		signal(SIGTTIN, SIG_IGN);
		V(read(tty, &c, 1));
		signal(SIGTTIN, SIG_DFL);
		sigaddset(&set, SIGTTIN);
		sigprocmask(SIG_BLOCK, &set, NULL);
		V(read(tty, &c, 1));
		_exit(0);
	}
	setpgid(bg, bg);
	guest_wait("reader", bg);

	P("background write and settings");
	for (int tostop = 0; tostop < 2; tostop++) {
		struct termios t;

		tcgetattr(tty, &t);
		t.c_lflag = (t.c_lflag & ~(tcflag_t)TOSTOP) | (tostop ? TOSTOP : 0);
		tcsetattr(tty, TCSANOW, &t);
		bg = guest_fork();
		if (!bg) {
			setpgid(0, 0);
			V(write(tty, "", 1));
			_exit(0);
		}
		setpgid(bg, bg);
		waitpid(bg, &status, WUNTRACED);
		guest_status(tostop ? "with TOSTOP" : "without TOSTOP", status);
		if (WIFSTOPPED(status)) {
			kill(bg, SIGKILL);
			waitpid(bg, &status, 0);
		}
	}
	bg = guest_fork();
	if (!bg) {
		struct termios t;

		setpgid(0, 0);
		tcgetattr(tty, &t);
		V(tcsetattr(tty, TCSANOW, &t));
		_exit(0);
	}
	setpgid(bg, bg);
	waitpid(bg, &status, WUNTRACED);
	guest_status("tcsetattr", status);
	kill(bg, SIGKILL);
	waitpid(bg, &status, 0);

	P("control characters go to the foreground group");
	static const struct {
		const char *name, *text;
	} keys[] = {{"^C", "\003"}, {"^\\", "\034"}, {"^Z", "\032"}};
	for (size_t i = 0; i < GUEST_COUNT(keys); i++) {
		fg = guest_fork();
		if (!fg) {
			setpgid(0, 0);
			for (;;)
				pause();
		}
		setpgid(fg, fg);
		sigprocmask(SIG_BLOCK, &set, NULL);
		tcsetpgrp(tty, fg);
		guest_until_asleep(fg);
		if (write(master, keys[i].text, 1) != 1)
			P("short write");
		waitpid(fg, &status, WUNTRACED);
		guest_status(keys[i].name, status);
		if (WIFSTOPPED(status)) {
			kill(fg, SIGKILL);
			waitpid(fg, &status, 0);
		}
		tcsetpgrp(tty, getpid());
		sigprocmask(SIG_UNBLOCK, &set, NULL);
	}

	P("window size");
	guest_handle(SIGWINCH, handler, 0);
	V(ioctl(master, TIOCSWINSZ, &(struct winsize){.ws_row = 10, .ws_col = 20}));
	guest_sleep_ms(1);
	printf("caught %s\n", caught ? guest_signal(caught) : "nothing");
	caught = 0;
	V(ioctl(master, TIOCSWINSZ, &(struct winsize){.ws_row = 10, .ws_col = 20}));
	guest_sleep_ms(1);
	printf("caught %s\n", caught ? guest_signal(caught) : "nothing");

	P("an orphaned group");
	int link[2];

	if (pipe(link))
		_exit(1);
	fg = guest_fork();
	if (!fg) {
		bg = fork();
		if (!bg) {
			int result;

			setpgid(0, 0);
			guest_handle(SIGHUP, handler, 0);
			kill(getpid(), SIGSTOP);
			/* Our parent died while we were stopped: HUP and CONT. */
			while (!caught)
				guest_sleep_ms(1);
			errno = 0;
			result = (int)read(tty, &got, 1);
			printf("orphan: %s, background read %d %s\n", guest_signal(caught), result,
			       guest_errno(errno));
			kill(getpid(), SIGTSTP);
			printf("orphan: TSTP ignored\n");
			if (write(link[1], "x", 1) != 1)
				_exit(1);
			_exit(0);
		}
		setpgid(bg, bg);
		waitpid(bg, &status, WUNTRACED);
		_exit(0);
	}
	/* What the orphan prints comes first. */
	if (read(link[0], &status, 1) != 1)
		P("no orphan");
	guest_wait("its parent", fg);

	P("the leader goes: HUP to the foreground, the terminal is lost");
	fg = guest_fork();
	if (!fg) {
		char c;

		setpgid(0, 0);
		signal(SIGTTOU, SIG_IGN);
		tcsetpgrp(tty, getpid());
		guest_handle(SIGHUP, handler, 0);
		if (write(link[1], "r", 1) != 1)
			_exit(1);
		while (!caught)
			guest_sleep_ms(1);
		printf("foreground caught %s\n", guest_signal(caught));
		fcntl(tty, F_SETFL, O_RDWR | O_NONBLOCK);
		V(read(tty, &c, 1));
		V(write(tty, "x", 1));
		V(open("/dev/tty", O_RDWR));
		V(tcgetpgrp(tty));
		_exit(0);
	}
	if (read(link[0], &status, 1) != 1)
		_exit(1);
	_exit(7);
}

int main(void)
{
	pid_t pid;

	guest_begin();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	open_pty();
	groups();
	pid = guest_fork();
	if (!pid)
		leader();
	waitpid(pid, NULL, 0);
	while (wait(NULL) > 0)
		;
	P("end");
	return 0;
}
