/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The console: a terminal whose hardware is the host's terminal, which the monitor has set to raw
 * mode.
 *
 * Theory of operation: two host threads, since the descriptors are shared with others and cannot be
 * made non-blocking: one reads the keyboard and feeds the line discipline, as long as that has
 * room; one writes the screen from a ring that guests fill. A terminal that does not take its
 * output thus stops nobody but who writes to it. When the host's terminal goes away, the console is
 * hung up. If the input is no terminal and ends, that is an end of file for whoever reads a line.
 *
 * Locking: tty.lock, with conditions of its own; it is not held over host calls.
 */
#include "runtime/console.h"

#include "base/clock.h"
#include "base/hostcall.h"
#include "base/thread.h"
#include "vfs/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define OUT_RING 65536u
#define PIECE 4096u
/* How often the terminal is tried again while another process group of the host has it. */
/* How long a stop waits for what is to be shown before it. */
#define SETTLE_NS 200000000
#define BACKGROUND_MS 200

static struct console {
	struct tty tty;
	int in, out; /* duplicates */
	bool made;
	pid_t pgrp; /* ours */
	/* [tty.lock] */
	struct cond work;  /* output to write */
	struct cond moved; /* output was written; input was taken */
	struct cond listen;
	bool listening;
	bool writing;   /* a piece has been taken from the ring and is on its way */
	bool broken;    /* the host takes no more output */
	uint64_t typed; /* signals; a bit for each from 1 */
	struct tty_ring ring;
	uint8_t ring_data[OUT_RING];
} g_console;

/* ---- the hardware of struct tty ---- */

static struct console *console_of(struct tty *t)
{
	return container_of(t, struct console, tty);
}

static uint32_t console_room(struct tty *t)
{
	struct console *c = console_of(t);

	return c->ring.size - tty_ring_count(&c->ring);
}

/* Called with the lock held, as vfs/tty.h says; the analysis does not see it. */
static void console_write(struct tty *t, const uint8_t *buf, uint32_t size) NO_TSA
{
	struct console *c = console_of(t);

	/* What nobody can see any more is as good as shown; the hang-up tells who cares. */
	if (c->broken)
		return;
	(void)tty_ring_put(&c->ring, buf, size);
	cond_tell(&c->work, &c->tty.lock);
}

static uint32_t console_unsent(struct tty *t)
{
	struct console *c = console_of(t);

	return tty_ring_count(&c->ring) + c->writing;
}

static void console_flush_output(struct tty *t)
{
	struct console *c = console_of(t);

	c->ring.tail = c->ring.head;
}

/* The same. */
static void console_input_room(struct tty *t) NO_TSA
{
	cond_tell_all(&console_of(t)->moved, &t->lock);
}

static void console_signalled(struct tty *t, int sig)
{
	console_of(t)->typed |= (uint64_t)1 << (sig - 1);
}

static void console_free(struct tty *t UNUSED)
{
	/* It is there for ever. */
}

static const struct tty_ops g_console_ops = {
	.room = console_room,
	.write = console_write,
	.unsent = console_unsent,
	.flush_output = console_flush_output,
	.input_room = console_input_room,
	.signalled = console_signalled,
	.free = console_free,
};

/* ---- output ---- */

/* All of @buf, waiting as long as it takes; false if it cannot be written. */
static bool write_all(int fd, const uint8_t *buf, size_t size)
{
	while (size) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		ssize_t n = HOST(write_console, write(fd, buf, size));

		if (n > 0) {
			buf += n;
			size -= (size_t)n;
			continue;
		}
		if (n < 0 && errno == EAGAIN)
			(void)HOST(poll_console, poll(&p, 1, -1));
		else if (n < 0 && errno != EINTR)
			return false;
	}
	return true;
}

static void *writer_main(void *arg)
{
	struct console *c = arg;
	uint8_t buf[PIECE];

	for (;;) {
		uint32_t n;
		bool ok;

		mutex_lock(&c->tty.lock);
		while (tty_ring_count(&c->ring) == 0)
			cond_wait(&c->work, &c->tty.lock);
		n = tty_ring_get(&c->ring, buf, sizeof(buf));
		c->writing = true;
		mutex_unlock(&c->tty.lock);

		ok = write_all(c->out, buf, n);

		mutex_lock(&c->tty.lock);
		c->writing = false;
		if (!ok) {
			c->broken = true;
			c->ring.tail = c->ring.head;
		}
		cond_tell_all(&c->moved, &c->tty.lock);
		mutex_unlock(&c->tty.lock);
		tty_output_room(&c->tty);
		if (!ok) {
			tty_hangup(&c->tty);
			return NULL;
		}
	}
}

/* ---- input ---- */

static void wait_for_room(struct console *c)
{
	mutex_lock(&c->tty.lock);
	while (tty_ring_count(&c->tty.in) == c->tty.in.size)
		cond_wait(&c->moved, &c->tty.lock);
	mutex_unlock(&c->tty.lock);
}

static void feed(struct console *c, const uint8_t *buf, size_t size)
{
	size_t done = 0;

	while (done < size) {
		done += tty_input(&c->tty, buf + done, size - done);
		if (done < size)
			wait_for_room(c);
	}
}

/* Another process group has the terminal; reading then fails. */
static bool in_background(int fd)
{
	pid_t pgrp = HOST(ioctl_console, tcgetpgrp(fd));

	/* The sentry's pid name space knows no group of the host's: 0. Its terminal is there, and
	 * another group has it. */
	return pgrp == 0 || (pgrp > 0 && pgrp != g_console.pgrp);
}

static void end_of_file(struct console *c)
{
	uint8_t eof;

	mutex_lock(&c->tty.lock);
	eof = c->tty.termios.c_cc[LX_VEOF];
	mutex_unlock(&c->tty.lock);
	feed(c, &eof, 1);
}

static void *reader_main(void *arg)
{
	struct console *c = arg;
	bool is_tty = HOST(ioctl_console, isatty(c->in));
	uint8_t buf[PIECE];

	mutex_lock(&c->tty.lock);
	while (!c->listening)
		cond_wait(&c->listen, &c->tty.lock);
	mutex_unlock(&c->tty.lock);
	for (;;) {
		struct pollfd p = {.fd = c->in, .events = POLLIN};
		const struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};
		ssize_t n;

		wait_for_room(c);
		if (HOST(poll_console, poll(&p, 1, -1)) < 0)
			continue;
		n = HOST(preadv2_console, preadv2(c->in, &iov, 1, -1, 0));
		if (n > 0) {
			feed(c, buf, (size_t)n);
			continue;
		}
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0 && is_tty && in_background(c->in)) {
			(void)HOST(poll_console, poll(NULL, 0, BACKGROUND_MS));
			continue;
		}
		if (is_tty)
			tty_hangup(&c->tty);
		else
			end_of_file(c);
		return NULL;
	}
}

/* ---- for the sandbox ---- */

static int own_duplicate(int fd, struct err *e)
{
	int r = HOST(fcntl_dup, fcntl(fd, F_DUPFD_CLOEXEC, 3));

	if (r < 0)
		return err_set(e, errno, "no terminal for the guest: descriptor %d: %s", fd,
			       err_text(errno));
	return r;
}

int console_new(struct tty **out, struct err *e)
{
	struct console *c = &g_console;

	c->in = own_duplicate(0, e);
	if (c->in < 0)
		return c->in;
	c->out = own_duplicate(1, e);
	if (c->out < 0)
		return c->out;
	c->ring = (struct tty_ring){.data = c->ring_data, .size = sizeof(c->ring_data)};
	tty_init(&c->tty, &g_console_ops, 5, 1);
	c->tty.termios.c_iflag |= LX_IUTF8;
	c->made = true;
	c->pgrp = HOST(getpgrp_console, getpgrp());
	console_resized();
	tty_set_console(&c->tty);
	*out = &c->tty;
	return 0;
}

int console_start(struct err *e)
{
	pthread_t thread;
	int r = thread_start(&thread, writer_main, &g_console, "moat-screen");

	if (r == 0)
		r = thread_start(&thread, reader_main, &g_console, "moat-keyboard");
	return r ? err_set(e, -r, "cannot start the console: %s", err_text(-r)) : 0;
}

void console_listen(void)
{
	struct console *c = &g_console;

	if (!c->made)
		return;
	mutex_lock(&c->tty.lock);
	c->listening = true;
	cond_tell(&c->listen, &c->tty.lock);
	mutex_unlock(&c->tty.lock);
}

void console_resized(void)
{
	struct console *c = &g_console;
	struct lx_winsize ws;

	_Static_assert(sizeof(struct winsize) == sizeof(ws), "the host's is the guest's");
	if (!c->made)
		return;
	if (HOST(ioctl_console, ioctl(c->out, TIOCGWINSZ, &ws)) == 0 ||
	    HOST(ioctl_console, ioctl(c->in, TIOCGWINSZ, &ws)) == 0)
		tty_set_winsize(&c->tty, &ws);
}

bool console_typed(int sig)
{
	struct console *c = &g_console;
	bool typed = false;

	if (c->made) {
		mutex_lock(&c->tty.lock);
		typed = c->typed >> (sig - 1) & 1;
		mutex_unlock(&c->tty.lock);
	}
	return typed;
}

void console_settle(void)
{
	struct console *c = &g_console;
	struct timespec now;
	uint64_t until;

	if (!c->made)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	until = seconds_to_ns(now.tv_sec, now.tv_nsec) + SETTLE_NS;
	mutex_lock(&c->tty.lock);
	while (!c->broken && console_unsent(&c->tty) &&
	       cond_wait_until(&c->moved, &c->tty.lock, until))
		continue;
	mutex_unlock(&c->tty.lock);
}

void console_finish(void)
{
	struct console *c = &g_console;

	if (!c->made)
		return;
	mutex_lock(&c->tty.lock);
	while (!c->broken && console_unsent(&c->tty))
		cond_wait(&c->moved, &c->tty.lock);
	mutex_unlock(&c->tty.lock);
}
