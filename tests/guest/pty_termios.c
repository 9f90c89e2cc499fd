/* SPDX-License-Identifier: Apache-2.0 */

/* Ptys and the line discipline: canonical and raw input, echo, output mapping, VMIN/VTIME, hang-up.
 */
#include "guest.h"
#include <termios.h>

static int master, slave;

static void show(const char *what, const char *text, ssize_t n)
{
	printf("%s: ", what);
	if (n < 0) {
		printf("-1 %s\n", guest_errno(errno));
		return;
	}
	printf("%zd '", n);
	for (ssize_t i = 0; i < n; i++)
		if (text[i] >= ' ' && text[i] < 127)
			putchar(text[i]);
		else
			printf("\\%03o", (unsigned char)text[i]);
	printf("'\n");
}

static void from(int fd, const char *what, size_t size)
{
	char text[8192];
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n;

	if (poll(&p, 1, 50) == 0) {
		printf("%s: nothing\n", what);
		return;
	}
	n = read(fd, text, size);
	show(what, text, n);
}

/* The echo of so many lines: who reads a line may be told of it before its echo is all there. */
static void echo_of(unsigned lines)
{
	char text[8192];
	struct pollfd p = {.fd = master, .events = POLLIN};
	ssize_t n, all = 0;

	while (lines > 0 && poll(&p, 1, 10000) == 1) {
		n = read(master, text + all, 1);
		if (n != 1)
			break;
		lines -= text[all++] == '\n';
	}
	show("echo", text, all);
}

static void type(const char *text)
{
	if (write(master, text, strlen(text)) != (ssize_t)strlen(text))
		P("short write");
}

/* What one end wrote reaches the other a little later, by a worker of the kernel's. */
static void settle(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, 1000) != 1)
		P("nothing came");
}

static void set(tcflag_t iflag, tcflag_t oflag, tcflag_t lflag)
{
	struct termios t;

	tcgetattr(slave, &t);
	t.c_iflag = iflag;
	t.c_oflag = oflag;
	t.c_lflag = lflag;
	if (tcsetattr(slave, TCSANOW, &t))
		printf("tcsetattr %s\n", guest_errno(errno));
	tcflush(slave, TCIOFLUSH);
}

static void defaults(void)
{
	struct termios t;
	struct winsize w;
	int n;

	P("defaults");
	V(tcgetattr(slave, &t));
	printf("iflag %#o oflag %#o cflag %#o lflag %#o\n", t.c_iflag, t.c_oflag, t.c_cflag,
	       t.c_lflag);
	printf("cc:");
	for (int i = 0; i < 17; i++)
		printf(" %u", t.c_cc[i]);
	printf("\nspeed %u\n", cfgetospeed(&t) == B38400);
	V(ioctl(slave, TIOCGWINSZ, &w));
	printf("size %u %u\n", w.ws_row, w.ws_col);
	T(isatty(slave) && isatty(master));
	V(ioctl(slave, TIOCGETD, &n));
	printf("discipline %d\n", n);
	V(ioctl(slave, TIOCGPTN, &n));
	V(ioctl(slave, FIONREAD, &n));
	V(ioctl(slave, TIOCOUTQ, &n));
	V(ioctl(slave, 0x5499, &n));
	V(lseek(slave, 0, SEEK_SET));
	V(ftruncate(slave, 0));
	V(tcdrain(slave));
	V(tcsendbreak(slave, 0));
	V(tcflush(slave, 77));
	V(tcflow(slave, 77));
	struct stat st;

	V(fstat(slave, &st));
	printf("mode %o major %u\n", st.st_mode & ~0777u, (unsigned)(st.st_rdev >> 8));
	V(fstat(master, &st));
	printf("master %o\n", st.st_mode & S_IFMT);
}

static void canonical(void)
{
	int n;

	P("canonical");
	set(ICRNL, OPOST | ONLCR, ICANON | ECHO | ECHOE | ECHOK | ISIG | IEXTEN | ECHOCTL | ECHOKE);
	type("hello");
	ioctl(slave, FIONREAD, &n);
	printf("FIONREAD before newline %d\n", n);
	from(slave, "no line yet", 100);
	type("\n");
	settle(slave);
	ioctl(slave, FIONREAD, &n);
	printf("FIONREAD %d\n", n);
	from(slave, "line", 100);
	echo_of(1);
	type("one\ntwo\nthree");
	from(slave, "first line", 100);
	from(slave, "three bytes", 3);
	from(slave, "rest of it", 100);
	from(slave, "nothing", 100);
	type("\n");
	from(slave, "third", 100);
	echo_of(3);
	type("abc\177\177d\n");
	from(slave, "erased", 100);
	echo_of(1);
	type("word one two\027x\n");
	from(slave, "word erase", 100);
	echo_of(1);
	type("killed\025y\n");
	from(slave, "kill", 100);
	echo_of(1);
	type("a\026\003b\n");
	from(slave, "quoted", 100);
	echo_of(1);
	type("partial\004");
	from(slave, "EOF after text", 100);
	type("\004");
	from(slave, "EOF", 100);
	type("cr\rnext\n");
	from(slave, "CR is NL", 100);
	from(slave, "next", 100);
	from(master, "echo", 100);
	type("ctl\001\n");
	from(slave, "control", 100);
	from(master, "echo", 100);
	set(ICRNL, OPOST | ONLCR, ICANON | ECHONL | ISIG);
	type("quiet\n");
	from(slave, "ECHONL", 100);
	from(master, "echo", 100);
	set(IGNCR, 0, ICANON);
	type("a\rb\n");
	from(slave, "IGNCR", 100);
	set(INLCR, 0, 0);
	type("a\nb");
	from(slave, "INLCR", 100);
	set(ISTRIP | IUCLC, 0, ICANON | IEXTEN);
	type("AB\xc1\n");
	from(slave, "ISTRIP IUCLC", 100);
	char big[5000];

	set(ICRNL, 0, ICANON);
	memset(big, 'z', sizeof(big));
	if (fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK))
		P("F_SETFL");
	T(write(master, big, sizeof(big)) > 0);
	type("\n");
	fcntl(master, F_SETFL, O_RDWR);
	n = (int)read(slave, big, sizeof(big));
	printf("long line %d, ends in newline %d\n", n, n > 0 && big[n - 1] == '\n');
}

static void raw(void)
{
	struct termios t;
	int64_t t0;
	char text[32];

	P("raw");
	tcgetattr(slave, &t);
	cfmakeraw(&t);
	printf("cfmakeraw iflag %#o oflag %#o lflag %#o\n", t.c_iflag, t.c_oflag, t.c_lflag);
	V(tcsetattr(slave, TCSAFLUSH, &t));
	type("\003\004\n\r\177");
	from(slave, "all through", 100);
	from(master, "no echo", 100);
	t.c_cc[VMIN] = 0;
	t.c_cc[VTIME] = 0;
	tcsetattr(slave, TCSANOW, &t);
	V(read(slave, text, 10));
	t.c_cc[VTIME] = 1;
	tcsetattr(slave, TCSANOW, &t);
	t0 = guest_now_ms();
	V(read(slave, text, 10));
	T(guest_now_ms() - t0 >= 90);
	t.c_cc[VMIN] = 3;
	t.c_cc[VTIME] = 0;
	tcsetattr(slave, TCSANOW, &t);
	pid_t pid = guest_fork();
	if (!pid) {
		type("a");
		guest_sleep_ms(20);
		type("b");
		guest_sleep_ms(20);
		type("cd");
		_exit(0);
	}
	ssize_t n = read(slave, text, 10);
	printf("VMIN 3: %s\n", n >= 3 ? "at least three" : "too few");
	guest_wait("typist", pid);
	tcflush(slave, TCIFLUSH);
	t.c_cc[VMIN] = 1;
	tcsetattr(slave, TCSANOW, &t);
	fcntl(slave, F_SETFL, O_RDWR | O_NONBLOCK);
	V(read(slave, text, 10));
	fcntl(slave, F_SETFL, O_RDWR);
}

static void output(void)
{
	P("output");
	set(0, OPOST | ONLCR, 0);
	V(write(slave, "a\nb\tc\n", 6));
	from(master, "ONLCR", 100);
	set(0, 0, 0);
	V(write(slave, "a\nb\n", 4));
	from(master, "no OPOST", 100);
	set(0, OPOST | OCRNL, 0);
	V(write(slave, "a\rb", 3));
	from(master, "OCRNL", 100);
	set(0, OPOST | OLCUC, 0);
	V(write(slave, "abc", 3));
	from(master, "OLCUC", 100);
	set(0, OPOST | XTABS, 0);
	V(write(slave, "a\tb", 3));
	from(master, "XTABS", 100);
	set(0, OPOST | ONOCR | ONLRET, 0);
	V(write(slave, "\ra\n\r", 4));
	from(master, "ONOCR", 100);
	V(tcflow(slave, TCOOFF));
	fcntl(slave, F_SETFL, O_RDWR | O_NONBLOCK);
	V(write(slave, "held", 4));
	from(master, "stopped", 100);
	V(tcflow(slave, TCOON));
	V(write(slave, "go", 2));
	from(master, "started", 100);
	fcntl(slave, F_SETFL, O_RDWR);
	set(IXON, 0, ICANON);
	type("\023");
	guest_sleep_ms(50);
	fcntl(slave, F_SETFL, O_RDWR | O_NONBLOCK);
	V(write(slave, "held", 4));
	type("\021");
	guest_sleep_ms(50);
	V(write(slave, "go", 2));
	from(master, "after ^S ^Q", 100);
	fcntl(slave, F_SETFL, O_RDWR);
}

static void packet(void)
{
	int on = 1;

	P("packet mode");
	set(ICRNL, OPOST | ONLCR, ICANON);
	V(ioctl(master, TIOCPKT, &on));
	V(write(slave, "data", 4));
	from(master, "data", 100);
	V(tcflush(slave, TCIFLUSH));
	from(master, "flush", 100);
	on = 0;
	V(ioctl(master, TIOCPKT, &on));
}

static void hangup(void)
{
	struct pollfd p;
	char name[64], text[10];
	int m, s;

	P("hang-up");
	OK(m = posix_openpt(O_RDWR | O_NOCTTY));
	V(ptsname_r(m, name, sizeof(name)));
	V(open(name, O_RDWR | O_NOCTTY));
	V(unlockpt(m));
	OK(s = open(name, O_RDWR | O_NOCTTY));
	V(write(s, "last", 4));
	close(s);
	p = (struct pollfd){.fd = m, .events = POLLIN | POLLOUT};
	poll(&p, 1, 0);
	printf("master after slave closed: %#x\n", (unsigned)p.revents);
	V(read(m, text, 10));
	V(read(m, text, 10));
	OK(s = open(name, O_RDWR | O_NOCTTY));
	p.fd = m;
	poll(&p, 1, 0);
	printf("reopened: %#x\n", (unsigned)p.revents);
	close(m);
	p.fd = s;
	poll(&p, 1, 0);
	printf("slave after master closed: %#x\n", (unsigned)p.revents);
	V(read(s, text, 10));
	V(write(s, "x", 1));
	struct termios t;

	V(tcgetattr(s, &t));
	V(access(name, F_OK));
	close(s);
	V(access(name, F_OK));
}

int main(void)
{
	guest_begin();
	master = posix_openpt(O_RDWR | O_NOCTTY);
	if (master < 0 || unlockpt(master))
		return 1;
	OK(slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY));
	defaults();
	canonical();
	raw();
	output();
	packet();
	hangup();
	return 0;
}
