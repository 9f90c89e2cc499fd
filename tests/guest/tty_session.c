/* SPDX-License-Identifier: Apache-2.0 */

/* How sessions get, share and lose a controlling terminal. */
#include "guest.h"
#include <termios.h>

struct pty {
	int master, slave;
	char name[64];
};

static volatile sig_atomic_t hups, conts;

static void count(int sig)
{
	if (sig == SIGHUP)
		hups = hups + 1;
	else
		conts = conts + 1;
}

static void open_pty(struct pty *p)
{
	p->master = posix_openpt(O_RDWR | O_NOCTTY);
	if (p->master < 0 || unlockpt(p->master) || ptsname_r(p->master, p->name, sizeof(p->name)))
		exit(1);
	p->slave = open(p->name, O_RDWR | O_NOCTTY);
}

static void close_pty(struct pty *p)
{
	close(p->slave);
	close(p->master);
}

/* The controlling terminal of the caller, as ps sees it: none, or a pty. */
static void show_tty(const char *who)
{
	char text[512] = {0}, *p;
	int fd = open("/proc/self/stat", O_RDONLY), nr = -1, fg = 0;

	if (read(fd, text, sizeof(text) - 1) > 0 && (p = strrchr(text, ')')))
		sscanf(p, ") %*c %*d %*d %*d %d %d", &nr, &fg);
	close(fd);
	fd = open("/dev/tty", O_RDWR);
	printf("%s: tty major %d, foreground %s, /dev/tty %s\n", who, nr >> 8,
	       fg == -1          ? "none"
	       : fg == getpgrp() ? "mine"
				 : "another",
	       fd < 0 ? guest_errno(errno) : "opens");
	if (fd >= 0)
		close(fd);
}

#define IN_CHILD(name, code)                 \
	do {                                 \
		pid_t child_ = guest_fork(); \
		if (!child_) {               \
			code;                \
			_exit(0);            \
		}                            \
		guest_wait(name, child_);    \
	} while (0)

static void by_open(void)
{
	struct pty p, q;
	int fd;

	P("by open");
	open_pty(&p);
	open_pty(&q);
	IN_CHILD("no leader", {
		OK(fd = open(p.name, O_RDWR));
		show_tty("no leader");
	});
	IN_CHILD("leader", {
		setsid();
		show_tty("fresh session");
		OK(fd = open(p.name, O_RDWR | O_NOCTTY));
		show_tty("O_NOCTTY");
		OK(fd = open(p.name, O_WRONLY));
		show_tty("write-only");
		OK(fd = open(p.name, O_RDWR));
		show_tty("opened");
		OK(fd = open(q.name, O_RDWR));
		V(ioctl(fd, TIOCSCTTY, 0));
		V(tcgetpgrp(fd));
		V(tcgetsid(fd));
		V(tcsetpgrp(fd, getpgrp()));
		V(ioctl(p.slave, TIOCSCTTY, 0));
		T(tcgetsid(p.master) == getpid());
		T(tcgetpgrp(p.master) == getpid());
		V(tcgetpgrp(q.master));
		V(tcgetsid(q.master));
		V(ioctl(p.master, TIOCNOTTY));
		IN_CHILD("its child", {
			show_tty("inherited");
			V(ioctl(q.slave, TIOCSCTTY, 0));
			V(ioctl(p.slave, TIOCNOTTY));
			show_tty("dropped");
			IN_CHILD("grandchild", show_tty("inherited nothing"));
			OK(fd = open(p.name, O_RDWR));
			show_tty("a member cannot get it back");
			V(ioctl(p.slave, TIOCNOTTY));
		});
		show_tty("leader still");
		IN_CHILD("another session", {
			setsid();
			show_tty("new session");
			OK(fd = open(p.name, O_RDWR));
			show_tty("it is taken");
			V(ioctl(p.slave, TIOCSCTTY, 0));
		});
	});
	/* The leader is gone, and it is free again. */
	V(tcgetsid(p.master));
	IN_CHILD("by the master", {
		setsid();
		V(ioctl(p.master, TIOCSCTTY, 0));
		show_tty("by the master");
		T(tcgetsid(p.slave) == getpid());
	});
	close_pty(&p);
	close_pty(&q);
}

static void steal(void)
{
	int sync[2], ready[2], fd;
	struct pty p;
	pid_t victim;
	char c = 0;

	P("taken by force");
	open_pty(&p);
	if (pipe(sync) || pipe(ready))
		exit(1);
	victim = guest_fork();
	if (!victim) {
		setsid();
		signal(SIGHUP, SIG_IGN);
		ioctl(p.slave, TIOCSCTTY, 0);
		if (write(ready[1], "x", 1) != 1 || read(sync[0], &c, 1) != 1)
			_exit(1);
		show_tty("the victim");
		_exit(0);
	}
	if (read(ready[0], &c, 1) != 1)
		exit(1);
	IN_CHILD("unprivileged thief", {
		setsid();
		fd = setuid(65534);
		V(ioctl(p.slave, TIOCSCTTY, 1));
	});
	IN_CHILD("thief", {
		setsid();
		V(ioctl(p.slave, TIOCSCTTY, 0));
		V(ioctl(p.slave, TIOCSCTTY, 2));
		V(ioctl(p.slave, TIOCSCTTY, 1));
		show_tty("thief");
	});
	if (write(sync[1], "x", 1) != 1)
		exit(1);
	guest_wait("victim", victim);
	close_pty(&p);
}

static void leader_drops(void)
{
	struct pty p;

	P("the leader drops it");
	open_pty(&p);
	IN_CHILD("leader", {
		int up[2];
		char c;

		if (pipe(up))
			_exit(1);
		setsid();
		ioctl(p.slave, TIOCSCTTY, 0);
		guest_handle(SIGHUP, count, 0);
		guest_handle(SIGCONT, count, 0);
		pid_t bg = guest_fork();

		if (!bg) {
			setpgid(0, 0);
			if (write(up[1], "x", 1) != 1)
				_exit(1);
			guest_sleep_ms(50);
			printf("background: HUP %d CONT %d\n", hups, conts);
			show_tty("background");
			_exit(0);
		}
		if (read(up[0], &c, 1) != 1)
			_exit(1);
		V(ioctl(p.slave, TIOCNOTTY));
		printf("foreground: HUP %d CONT %d\n", hups, conts);
		show_tty("leader");
		guest_wait("background", bg);
		V(ioctl(p.slave, TIOCNOTTY));
		V(ioctl(p.slave, TIOCSCTTY, 0));
		show_tty("again");
	});
	close_pty(&p);
}

static void hangup(bool by_close)
{
	/* go, done: the leader speaks first, and ends when the foreground has spoken; which speaks
	 * again when the parent, the last to hold go, has told of that end. */
	int up[2], down[2], go[2], done[2];
	struct pty p;
	pid_t pid;
	char c;

	P(by_close ? "the master closes" : "vhangup");
	open_pty(&p);
	if (pipe(up) || pipe(down) || pipe(go) || pipe(done))
		exit(1);
	pid = guest_fork();
	if (!pid) {
		close(p.master);
		close(up[0]);
		close(down[1]);
		setsid();
		guest_handle(SIGHUP, count, 0);
		guest_handle(SIGCONT, count, 0);
		ioctl(p.slave, TIOCSCTTY, 0);
		pid_t fg = guest_fork();

		if (!fg) {
			close(go[1]);
			setpgid(0, 0);
			signal(SIGTTOU, SIG_IGN);
			tcsetpgrp(p.slave, getpid());
			if (write(up[1], "x", 1) != 1 || read(down[0], &c, 1) != 0)
				_exit(1);
			if (read(go[0], &c, 1) != 1)
				_exit(1);
			printf("foreground after the hang-up: HUP %d CONT %d\n", hups, conts);
			fflush(stdout);
			if (write(done[1], "x", 1) != 1)
				_exit(1);
			while (read(go[0], &c, 1) != 0)
				;
			while (!hups || !conts)
				guest_sleep_ms(1);
			printf("foreground after the leader's end: HUP %d CONT %d\n", hups, conts);
			fflush(stdout);
			_exit(0);
		}
		if (read(down[0], &c, 1) != 0)
			;
		if (!by_close)
			V(syscall(SYS_vhangup));
		guest_sleep_ms(20);
		printf("leader: HUP %d CONT %d\n", hups, conts);
		show_tty("leader");
		V(read(p.slave, &c, 1));
		V(write(p.slave, "x", 1));
		V(tcgetpgrp(p.slave));
		V(tcsetpgrp(p.slave, getpid()));
		fflush(stdout);
		if (write(go[1], "x", 1) != 1 || read(done[0], &c, 1) != 1)
			_exit(1);
		_exit(3);
	}
	close(up[1]);
	close(down[0]);
	if (read(up[0], &c, 1) != 1)
		P("nobody is ready");
	if (by_close)
		close(p.master);
	close(down[1]);
	guest_wait("leader", pid);
	fflush(stdout);
	close(go[0]);
	close(go[1]);
	close(done[0]);
	close(done[1]);
	while (read(up[0], &c, 1) == 1)
		;
	while (wait(NULL) > 0)
		;
	if (!by_close)
		close(p.master);
	close(p.slave);
	close(up[0]);
}

int main(void)
{
	guest_begin();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	by_open();
	steal();
	leader_drops();
	hangup(true);
	hangup(false);
	P("end");
	return 0;
}
