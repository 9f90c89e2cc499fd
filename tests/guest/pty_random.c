/* SPDX-License-Identifier: Apache-2.0 */

/* The line discipline with many combinations of settings and random typing, of a fixed seed: what
 * the slave reads, what is echoed, what output becomes. */
#include "guest.h"
#include <termios.h>

#define UNITS 40
#define ROUNDS 4

static int master, slave;
static FILE *out;
static uint64_t seed = 88172645463325252ull;

static unsigned dice(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)((seed >> 20) % n);
}

static void show(const char *what, const unsigned char *text, ssize_t n)
{
	fprintf(out, "%s", what);
	if (n < 0) {
		fprintf(out, " %s\n", guest_errno(errno));
		return;
	}
	fprintf(out, " %zd '", n);
	for (ssize_t i = 0; i < n; i++)
		if (text[i] > ' ' && text[i] < 127 && text[i] != '\\')
			putc(text[i], out);
		else
			fprintf(out, "\\%03o", text[i]);
	fprintf(out, "'\n");
}

/* Linux has workers that carry what was written to the other side. Who polls a side that has nothing
 * to read waits for them; the sleep is for the rest. */
static void settle(void)
{
	struct pollfd p[2] = {{.fd = slave, .events = POLLIN}, {.fd = master, .events = POLLIN}};

	for (int i = 0; i < 2; i++) {
		poll(p, 2, 0);
		poll(p, 2, 0);
		guest_sleep_ms(1);
	}
	poll(p, 2, 0);
}

static tcflag_t some_of(const tcflag_t *flags, unsigned count, unsigned likely)
{
	tcflag_t f = 0;

	for (unsigned i = 0; i < count; i++)
		if (dice(10) < likely)
			f |= flags[i];
	return f;
}

static void settings(void)
{
	static const tcflag_t in[] = {ISTRIP, INLCR, IGNCR, IUCLC, IXANY, PARMRK, IMAXBEL};
	static const tcflag_t output[] = {OLCUC, OCRNL, ONOCR, ONLRET, XTABS};
	static const tcflag_t local[] = {ECHOPRT, ECHONL, NOFLSH};
	static const tcflag_t usual[] = {ECHO, ECHOE, ECHOK, ECHOCTL, ECHOKE, IEXTEN, ISIG};
	static const char ends[] = {0, 'e', ';', '\t', '\377', 0};
	struct termios t;

	tcgetattr(slave, &t);
	t.c_iflag = some_of(in, GUEST_COUNT(in), 1) | (dice(2) ? ICRNL : 0) | (dice(3) ? IXON : 0) |
		    (dice(3) ? IUTF8 : 0);
	t.c_oflag = some_of(output, GUEST_COUNT(output), 1) | (dice(5) ? OPOST : 0) |
		    (dice(4) ? ONLCR : 0);
	t.c_lflag = some_of(local, GUEST_COUNT(local), 2) | some_of(usual, GUEST_COUNT(usual), 8) |
		    (dice(5) ? ICANON : 0);
	t.c_cc[VMIN] = (cc_t)dice(3);
	t.c_cc[VTIME] = 0;
	t.c_cc[VEOL] = (cc_t)ends[dice(sizeof(ends))];
	t.c_cc[VEOL2] = (cc_t)ends[dice(sizeof(ends))];
	fprintf(out, "set %#o %#o %#o min %d eol %d %d\n", t.c_iflag, t.c_oflag, t.c_lflag,
		t.c_cc[VMIN], t.c_cc[VEOL], t.c_cc[VEOL2]);
	if (tcsetattr(slave, TCSANOW, &t))
		fprintf(out, "tcsetattr %s\n", guest_errno(errno));
}

static void counts(void)
{
	int s = -1, m = -1;
	struct pollfd p[2] = {{.fd = slave, .events = POLLIN | POLLOUT},
			      {.fd = master, .events = POLLIN | POLLOUT}};

	ioctl(slave, FIONREAD, &s);
	ioctl(master, FIONREAD, &m);
	poll(p, 2, 0);
	fprintf(out, "count %d %d poll %#x %#x\n", s, m, (unsigned)p[0].revents,
		(unsigned)p[1].revents);
}

static void type(void)
{
	static const char *const keys[] = {"a",    "b",     "E",    "_",        "1",
					   " ",    "  ",    "\t",   "\n",       "\r",
					   "\025", "\027",  "\177", "\177",     "\004",
					   "\026", "\022",  "\021", "\303\251", "\342\202\254",
					   "\001", "\033",  "\377", "\000",     "-",
					   ";",    "word ", "e",    "\b",       "\200"};
	char text[128];
	size_t n = 0;

	for (unsigned i = 1 + dice(25); i > 0; i--) {
		const char *k = keys[dice(GUEST_COUNT(keys))];
		size_t size = *k ? strlen(k) : 1;

		memcpy(text + n, k, size);
		n += size;
	}
	show("type", (unsigned char *)text, (ssize_t)n);
	if (write(master, text, n) != (ssize_t)n)
		fprintf(out, "short write\n");
	settle();
	/* Those that flush come alone: how much of the echo of others they would still find is a
	 * race. */
	if (dice(6) == 0) {
		static const char signals[] = {'\003', '\034', '\032', '\023', '\021'};
		char c = signals[dice(sizeof(signals))];

		show("key", (unsigned char *)&c, 1);
		if (write(master, &c, 1) != 1)
			fprintf(out, "short write\n");
		settle();
	}
}

static void drain(int fd, const char *what)
{
	unsigned char text[512];

	for (int i = 0; i < 30; i++) {
		ssize_t n = read(fd, text, fd == slave ? 1 + dice(40) : sizeof(text));

		settle();
		show(what, text, n);
		if (n <= 0 && (fd == master || n < 0 || i > 20))
			break;
	}
}

static void put(void)
{
	static const char chars[] = "abcXYZ \t\n\r\b\001\303\251\200~";
	unsigned char text[64];
	size_t n = 1 + dice(40);

	for (size_t i = 0; i < n; i++)
		text[i] = (unsigned char)chars[dice(sizeof(chars) - 1)];
	show("put", text, (ssize_t)n);
	fprintf(out, "put %zd\n", write(slave, text, n));
	settle();
}

static void round_of_it(void)
{
	settings();
	settle();
	for (unsigned k = dice(4); k > 0; k--) {
		type();
		counts();
		if (dice(2))
			drain(master, "echo");
		if (dice(2))
			put();
		if (dice(3))
			drain(slave, "read");
	}
	drain(master, "out");
	if (dice(4) == 0) {
		tcflow(slave, TCOON);
		if (write(master, "\021", 1) != 1)
			fprintf(out, "short write\n");
		settle();
		fprintf(out, "flush %d\n", tcflush(slave, TCIOFLUSH));
		drain(master, "left");
	}
}

/* A few rounds on a fresh pty; what they show goes to @to. */
static void unit(FILE *to)
{
	out = to;
	master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
	if (master < 0 || unlockpt(master))
		exit(1);
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_NONBLOCK);
	if (slave < 0)
		exit(1);
	for (int i = 0; i < ROUNDS; i++)
		round_of_it();
	close(slave);
	close(master);
}

/* On a busy host Linux's workers may be late, which shows; so a unit counts when it went the same
 * way twice. */
int main(void)
{
	guest_begin();
	for (int i = 0; i < UNITS; i++) {
		char *text = NULL, *last = NULL;
		size_t size, last_size = 0;
		uint64_t start = seed;

		for (int tries = 0; tries < 20; tries++) {
			FILE *to = open_memstream(&text, &size);

			seed = start;
			unit(to);
			fclose(to);
			if (last && size == last_size && memcmp(text, last, size) == 0)
				break;
			free(last);
			last = text;
			last_size = size;
			text = NULL;
		}
		printf("unit %d\n%s", i, last);
		free(last);
		free(text);
	}
	return 0;
}
