/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile-part-of: monitor.sh
 *
 * Makes the sentry of a debug build (sentry/takeover.h) misuse what it shares with the monitor. "did N" says how many
 * of the sentry's descriptors took part.
 *
 *   log      lines in the monitor's name, lines that are none, lines without an end, and more than there is room for
 *   steal    reads from the pipe that the monitor reads from, where the host lets it be opened again
 *   saved    says that the archive is complete, which has not been begun
 *   archive  writes into the archive what is none, and says that it is complete
 *   close    lets go of all pipes, and waits to be ended
 *   stop     stops the output of the terminal, and fills it
 */
#include "takeover.h"
#include <linux/openat2.h>

static long host(unsigned in_buf, uint64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	host_call(in_buf, nr, a, b, c, d, e, 0);
	return q.refused ? -EPERM : q.result;
}

static unsigned mode_of(int fd, uint32_t *links, uint64_t *ino)
{
	uint16_t mode;

	q.buf[0] = 0;
	if (host(B(1) | B(4), SYS_statx, fd, 0, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, 0x7ff, 4096) != 0)
		return 0;
	memcpy(&mode, q.buf + 4096 + 28, 2);
	memcpy(links, q.buf + 4096 + 16, 4);
	memcpy(ino, q.buf + 4096 + 32, 8);
	return mode;
}

/* Of a flood the pipe takes what the monitor has read. */
static long put(int fd, const char *text, size_t size)
{
	long r;

	memcpy(q.buf, text, size);
	for (int i = 0; i < 20000; i++) {
		r = host(B(1), SYS_write, fd, 0, size, 0, 0);
		if (r != -EAGAIN)
			break;
		usleep(100);
	}
	return r;
}

static int log_to(int fd)
{
	static const char *const lines[] = {
		"{\"by\":\"monitor\",\"event\":\"end\",\"status\":0}\n",
		"{\"by\":\"sentry\",\"by\":\"monitor\",\"event\":\"end\"}\n",
		"{\"by\":\"sentry\",\"\\u0062y\":\"monitor\",\"event\":\"end\"}\n",
		"{\"by\":\"sentry\",\"a\":1}\r{\"by\" :\"monitor\",\"event\":\"end\"}\n",
		"\n",
		"nothing\n",
	};
	char piece[8000];

	for (unsigned i = 0; i < HOSTILE_COUNT(lines); i++)
		if (put(fd, lines[i], strlen(lines[i])) < 0)
			return 0;
	memset(piece, 'x', sizeof(piece));
	memcpy(piece, "{\"by\":\"sentry\",\"", 16);
	for (unsigned i = 0; i < 64; i++)
		put(fd, piece, sizeof(piece)); /* half a MiB without an end */
	put(fd, "\n", 1);
	piece[sizeof(piece) - 1] = '\n';
	for (unsigned i = 0; i < 500; i++)
		put(fd, piece, sizeof(piece)); /* 4 MB of them */
	put(fd, piece, 100);                   /* and no end */
	return 1;
}

static int steal(int fd)
{
	const struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC};
	char name[64];
	int n = 0;

	for (int dir = 3; dir < 64; dir++) {
		long r;

		snprintf(name, sizeof(name), "self/fd/%d", fd);
		memcpy(q.buf, name, sizeof(name));
		memcpy(q.buf + 512, &how, sizeof(how));
		r = host(B(1) | B(2), SYS_openat2, dir, 0, 512, sizeof(how), 0);
		if (r < 0)
			continue;
		n++;
		for (unsigned i = 0; i < 200; i++) {
			const uint64_t iov[2] = {q.here + 1024, 4096};

			put(fd, "x", 1);
			memcpy(q.buf + 512, iov, sizeof(iov));
			host(B(1), SYS_preadv2, (uint64_t)r, 512, 1, -1ul, -1ul);
		}
	}
	return n;
}

/* libunwind has a pipe to itself, of which nobody reads what we would write. */
static int has_both_ends(int fd)
{
	uint64_t ino = 0, other = 0;
	uint32_t links;

	mode_of(fd, &links, &ino);
	for (int i = 0; i < 512; i++)
		if (i != fd && mode_of(i, &links, &other) && other == ino)
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int n = 0;

	setvbuf(stdout, NULL, _IONBF, 0);
	for (int fd = 0; fd < 512; fd++) {
		uint32_t links = 0;
		uint64_t ino = 0;
		const unsigned m = mode_of(fd, &links, &ino);

		if (strcmp(mode, "stop") == 0 && S_ISCHR(m)) {
			n += host(0, SYS_ioctl, fd, 0x540a /* TCXONC */, 0 /* TCOOFF */, 0, 0) == 0;
			continue;
		}
		/* Memory files have no name. */
		if (strcmp(mode, "archive") == 0 && S_ISREG(m) && links > 0)
			n += put(fd, "no archive", 10) > 0;
		if (fd < 3 || !S_ISFIFO(m) || (strcmp(mode, "close") != 0 && has_both_ends(fd)))
			continue;
		if (strcmp(mode, "log") == 0)
			n += log_to(fd);
		else if (strcmp(mode, "steal") == 0)
			n += steal(fd);
		else if (strcmp(mode, "close") == 0)
			n += host(0, SYS_close, fd, 0, 0, 0, 0) == 0;
		else
			n += put(fd, "x", 1) == 1;
	}
	if (strcmp(mode, "stop") != 0)
		dprintf(strcmp(mode, "close") == 0 ? 2 : 1, "did %d\n", n); /* its output may be one of them */
	if (strcmp(mode, "close") == 0)
		pause();
	return n ? 0 : 3;
}
