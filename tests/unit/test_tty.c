/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfs/tty*.c, vfs/pty.c, vfs/devpts.c, without tasks. What Linux does with bytes is compared by
 * tests/guest/pty_termios.c and pty_random.c; here are waiting, ends, settings and the file system.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/fiber.h"
#include "tests/unit/vfs_file_env.h"
#include "vfs/mount.h"
#include "vfs/pty.h"
#include "vfs/tty.h"

TestSuite(tty);
TestSuite(devpts);

struct penv {
	struct fenv f;
	struct file *master, *slave;
};

static long ctl(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg)
{
	struct umem um = {0};

	return f->ops->ioctl(c, f, cmd, arg, &um);
}

static long ctlp(struct penv *e, struct file *f, unsigned cmd, void *arg)
{
	return ctl(e->f.c, f, cmd, (uint64_t)(uintptr_t)arg);
}

static void mount_pts(struct fenv *e, const char *options)
{
	cr_assert_eq(vfs_mkdir(e->c, NULL, "/pts", 0755), 0);
	cr_assert_eq(vfs_mount(e->c, "devpts", "/pts", "devpts", 0, options), 0);
}

static void unlock(struct vfs_ctx *c, struct file *master)
{
	int32_t off = 0;

	cr_assert_eq(ctl(c, master, LX_TIOCSPTLCK, (uint64_t)(uintptr_t)&off), 0);
}

/* A pty, both ends non-blocking, number 0. */
static void up(struct penv *e)
{
	fenv_up(&e->f);
	mount_pts(&e->f, "mode=620,ptmxmode=666");
	e->master = fenv_open(&e->f, "/pts/ptmx", LX_O_RDWR | LX_O_NOCTTY | LX_O_NONBLOCK);
	unlock(e->f.c, e->master);
	e->slave = fenv_open(&e->f, "/pts/0", LX_O_RDWR | LX_O_NOCTTY | LX_O_NONBLOCK);
	cr_expect_eq(atomic_load(&e->slave->flags) & LX_O_NOCTTY, 0u, "F_GETFL does not show it");
}

static void down(struct penv *e)
{
	if (e->slave)
		file_put(e->slave);
	if (e->master)
		file_put(e->master);
	cr_expect_eq(vfs_umount(e->f.c, "/pts", 0), 0);
	fenv_down(&e->f);
}

static void block(struct file *f)
{
	atomic_fetch_and(&f->flags, ~LX_O_NONBLOCK);
}

static void flags(struct penv *e, uint32_t in, uint32_t out, uint32_t local)
{
	struct lx_termios2 t;

	cr_assert_eq(ctlp(e, e->slave, LX_TCGETS2, &t), 0);
	t.c_iflag = in;
	t.c_oflag = out;
	t.c_lflag = local;
	cr_assert_eq(ctlp(e, e->slave, LX_TCSETS2, &t), 0);
}

static void raw(struct penv *e, uint8_t min, uint8_t time)
{
	struct lx_termios2 t;

	flags(e, 0, 0, 0);
	cr_assert_eq(ctlp(e, e->slave, LX_TCGETS2, &t), 0);
	t.c_cc[LX_VMIN] = min;
	t.c_cc[LX_VTIME] = time;
	cr_assert_eq(ctlp(e, e->slave, LX_TCSETS2, &t), 0);
}

static void type(struct penv *e, const char *text)
{
	size_t n = strlen(text);

	cr_assert_eq(fenv_write(&e->f, e->master, text, n), (ssize_t)n);
}

/* What a read of @f gives is @want. */
static void gets_(struct penv *e, struct file *f, const char *want, int line)
{
	char buf[512] = {0};
	ssize_t n = fenv_read(&e->f, f, buf, sizeof(buf) - 1);

	cr_expect_eq(n, (ssize_t)strlen(want), "line %d: %zd", line, n);
	cr_expect_str_eq(buf, want, "line %d: '%s'", line, buf);
}
#define GETS(e, f, want) gets_(e, f, want, __LINE__)

static ssize_t get(struct penv *e, struct file *f)
{
	char buf[512];

	return fenv_read(&e->f, f, buf, sizeof(buf));
}

/* ---- lines ---- */

Test(tty, lines_and_echo)
{
	struct penv e;
	int32_t n;

	up(&e);
	type(&e, "hello");
	cr_expect_eq(get(&e, e.slave), -EAGAIN);
	type(&e, " world\nnext");
	GETS(&e, e.slave, "hello world\n");
	GETS(&e, e.master, "hello world\r\nnext");
	type(&e, "\177\177\177\177\025done\004");
	GETS(&e, e.slave, "done");
	type(&e, "\004");
	cr_expect_eq(get(&e, e.slave), 0, "end of file");
	cr_expect_eq(get(&e, e.slave), -EAGAIN, "once");
	cr_expect_eq(ctlp(&e, e.slave, LX_TCFLSH, (void *)LX_TCIOFLUSH), 0);
	cr_expect_eq(ctlp(&e, e.master, LX_TCFLSH, (void *)LX_TCIFLUSH), 0);
	type(&e, "a\tb\tc\177\177\177");
	GETS(&e, e.master, "a\tb\tc\b \b\b\b\b\b\b\b\b\b \b");
	type(&e, "\nx\n");
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCINQ, &n), 0);
	cr_expect_eq(n, 5);
	/* A full buffer and an end of file right behind it. */
	cr_expect_eq(ctlp(&e, e.slave, LX_TCFLSH, (void *)LX_TCIFLUSH), 0);
	type(&e, "abc\004def\n");
	char buf[4] = {0};

	cr_expect_eq(fenv_read(&e.f, e.slave, buf, 3), 3);
	GETS(&e, e.slave, "def\n");
	cr_expect_eq(fenv_pread(&e.f, e.slave, buf, 1, 0), -ESPIPE);
	cr_expect_eq(vfs_lseek(e.slave, 0, 0), -ESPIPE);
	down(&e);
}

Test(tty, signals_are_keys_without_isig)
{
	struct penv e;

	up(&e);
	flags(&e, 0, 0, LX_ICANON);
	type(&e, "\003\032\034\n");
	GETS(&e, e.slave, "\003\032\034\n");
	/* With it, what was typed before is gone. */
	flags(&e, 0, 0, LX_ICANON | LX_ISIG);
	type(&e, "abc\003d\n");
	GETS(&e, e.slave, "d\n");
	flags(&e, 0, 0, LX_ICANON | LX_ISIG | LX_NOFLSH);
	type(&e, "abc\003d\n");
	GETS(&e, e.slave, "abcd\n");
	down(&e);
}

Test(tty, long_line_keeps_its_end)
{
	struct penv e;
	char *big = malloc(8000);

	up(&e);
	flags(&e, 0, 0, LX_ICANON);
	memset(big, 'z', 5000);
	cr_expect_eq(fenv_write(&e.f, e.master, big, 5000), 5000);
	type(&e, "\n");
	cr_expect_eq(fenv_read(&e.f, e.slave, big, 8000), 4096);
	cr_expect_eq(big[4094], 'z');
	cr_expect_eq(big[4095], '\n');
	free(big);
	down(&e);
}

/* ---- waiting ---- */

struct reader {
	struct penv *e;
	struct file *f;
	size_t size;
	ssize_t got;
	char buf[64];
	uint64_t took_ms;
};

static void read_fiber(void *arg)
{
	struct reader *r = arg;
	uint64_t start = clock_mono_ns();

	r->got = fenv_read(&r->e->f, r->f, r->buf, r->size ? r->size : sizeof(r->buf));
	r->took_ms = (clock_mono_ns() - start) / NSEC_PER_MSEC;
}

Test(tty, min_and_time)
{
	struct penv e;
	struct reader r = {.e = &e};

	cr_assert_eq(workers_start(2, NULL), 0);
	up(&e);
	block(e.slave);
	r.f = e.slave;
	raw(&e, 3, 0);
	fenv_go(read_fiber, &r);
	fenv_settle();
	type(&e, "ab");
	fenv_settle();
	cr_expect_eq(r.got, 0, "waits for a third");
	type(&e, "cd");
	fenv_settle();
	cr_expect_eq(r.got, 4, "%zd", r.got);
	raw(&e, 0, 0);
	cr_expect_eq(get(&e, e.slave), 0);
	raw(&e, 0, 2);
	fenv_go(read_fiber, &r);
	workers_stop();
	cr_expect_eq(r.got, 0);
	cr_expect(r.took_ms >= 190, "%lu ms", r.took_ms);
	cr_assert_eq(workers_start(2, NULL), 0);
	/* Between bytes: the first may take as long as it likes. */
	raw(&e, 10, 1);
	fenv_go(read_fiber, &r);
	fenv_settle();
	type(&e, "xy");
	workers_stop();
	cr_expect_eq(r.got, 2);
	cr_expect(r.took_ms >= 90, "%lu ms", r.took_ms);
	cr_expect_eq(fenv_poll(e.slave), LX_POLLOUT | LX_POLLWRNORM);
	raw(&e, 2, 0);
	type(&e, "1");
	cr_expect_eq(fenv_poll(e.slave), LX_POLLOUT | LX_POLLWRNORM, "one of two");
	type(&e, "2");
	cr_expect_eq(fenv_poll(e.slave), LX_POLLOUT | LX_POLLWRNORM | LX_POLLIN | LX_POLLRDNORM);
	down(&e);
}

struct writer {
	struct penv *e;
	struct file *f;
	size_t size;
	ssize_t put;
	char fill;
};

static void write_fiber(void *arg)
{
	struct writer *w = arg;
	char *buf = malloc(w->size);

	memset(buf, w->fill, w->size);
	w->put = fenv_write(&w->e->f, w->f, buf, w->size);
	free(buf);
}

Test(tty, writers_wait_and_do_not_mix)
{
	struct penv e;
	struct writer a = {.e = &e, .size = 50000, .fill = 'a'};
	struct writer b = {.e = &e, .size = 50000, .fill = 'b'};
	size_t total = 0, changes = 0;
	char buf[5000], last = 0;

	cr_assert_eq(workers_start(2, NULL), 0);
	up(&e);
	block(e.slave);
	a.f = b.f = e.slave;
	fenv_go(write_fiber, &a);
	fenv_settle();
	fenv_go(write_fiber, &b);
	fenv_settle();
	cr_expect_eq(a.put, 0, "it waits");
	while (total < 100000) {
		ssize_t n = fenv_read(&e.f, e.master, buf, sizeof(buf));

		if (n == -EAGAIN) {
			fenv_settle();
			continue;
		}
		cr_assert(n > 0 && n <= (ssize_t)PTY_READ_MAX, "%zd", n);
		for (ssize_t i = 0; i < n; i++) {
			changes += buf[i] != last;
			last = buf[i];
		}
		total += (size_t)n;
	}
	workers_stop();
	cr_expect_eq(a.put, 50000);
	cr_expect_eq(b.put, 50000);
	cr_expect_eq(changes, 2u, "one write after the other");
	down(&e);
}

Test(tty, input_waits_for_room)
{
	struct penv e;
	struct writer w = {.e = &e, .size = 60000, .fill = 'k'};
	size_t total = 0;
	ssize_t n;

	cr_assert_eq(workers_start(2, NULL), 0);
	up(&e);
	raw(&e, 1, 0);
	block(e.master);
	w.f = e.master;
	fenv_go(write_fiber, &w);
	fenv_settle();
	cr_expect_eq(w.put, 0);
	cr_expect_eq(fenv_poll(e.master) & LX_POLLOUT, 0u);
	while (total < 60000) {
		n = get(&e, e.slave);
		if (n > 0)
			total += (size_t)n;
		else
			fenv_settle();
	}
	workers_stop();
	cr_expect_eq(w.put, 60000);
	cr_expect_eq(total, 60000u);
	down(&e);
}

Test(tty, flow_control)
{
	struct penv e;

	up(&e);
	flags(&e, LX_IXON, 0, LX_ICANON | LX_ECHO);
	type(&e, "\023");
	cr_expect_eq(fenv_write(&e.f, e.slave, "x", 1), -EAGAIN);
	cr_expect_eq(fenv_poll(e.slave), 0u);
	type(&e, "q");
	cr_expect_eq(get(&e, e.master), -EAGAIN, "echo waits too");
	type(&e, "\021");
	GETS(&e, e.master, "q");
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCXONC, LX_TCOOFF), 0);
	type(&e, "\021");
	cr_expect_eq(fenv_write(&e.f, e.slave, "x", 1), -EAGAIN, "^Q does not undo tcflow");
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCXONC, LX_TCOON), 0);
	cr_expect_eq(fenv_write(&e.f, e.slave, "x", 1), 1);
	/* IXON off starts what the STOP character has stopped. */
	type(&e, "\023");
	flags(&e, 0, 0, 0);
	cr_expect_eq(fenv_write(&e.f, e.slave, "y", 1), 1);
	GETS(&e, e.master, "xy");
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCXONC, LX_TCIOFF), 0);
	GETS(&e, e.master, "\023");
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCXONC, LX_TCION), 0);
	GETS(&e, e.master, "\021");
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCXONC, 4), -EINVAL);
	/* Of the master. */
	cr_expect_eq(ctl(e.f.c, e.master, LX_TCXONC, LX_TCOOFF), 0);
	cr_expect_eq(fenv_write(&e.f, e.master, "x", 1), -EAGAIN);
	cr_expect_eq(ctl(e.f.c, e.master, LX_TCXONC, LX_TCOON), 0);
	cr_expect_eq(fenv_write(&e.f, e.master, "x", 1), 1);
	cr_expect_eq(ctl(e.f.c, e.master, LX_TCXONC, 4), -EINVAL);
	down(&e);
}

/* ---- ends ---- */

Test(tty, slave_closes)
{
	struct penv e;

	up(&e);
	cr_expect_eq(fenv_write(&e.f, e.slave, "last", 4), 4);
	file_put(e.slave);
	e.slave = NULL;
	cr_expect_eq(fenv_poll(e.master) & (LX_POLLIN | LX_POLLHUP), LX_POLLIN | LX_POLLHUP);
	GETS(&e, e.master, "last");
	cr_expect_eq(get(&e, e.master), -EIO);
	cr_expect_eq(fenv_write(&e.f, e.master, "to come\n", 8), 8);
	e.slave = fenv_open(&e.f, "/pts/0", LX_O_RDWR | LX_O_NONBLOCK);
	cr_expect_eq(fenv_poll(e.master) & LX_POLLHUP, 0u);
	GETS(&e, e.slave, "to come\n");
	down(&e);
}

Test(tty, master_closes)
{
	struct penv e;
	struct reader r = {.e = &e};
	struct lx_termios2 t;
	struct file *f;
	int32_t pgrp = 1;

	cr_assert_eq(workers_start(2, NULL), 0);
	up(&e);
	block(e.slave);
	r.f = e.slave;
	fenv_go(read_fiber, &r);
	fenv_settle();
	file_put(e.master);
	e.master = NULL;
	workers_stop();
	cr_expect_eq(r.got, -EIO, "who waited: %zd", r.got);
	cr_expect_eq(get(&e, e.slave), 0, "who comes later");
	cr_expect_eq(fenv_write(&e.f, e.slave, "x", 1), -EIO);
	cr_expect_eq(fenv_poll(e.slave), LX_POLLIN | LX_POLLRDNORM | LX_POLLOUT | LX_POLLWRNORM |
						 LX_POLLERR | LX_POLLHUP);
	cr_expect_eq(ctlp(&e, e.slave, LX_TCGETS2, &t), -EIO);
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCSPGRP, &pgrp), -ENOTTY);
	cr_expect_eq(fenv_try_open(e.f.c, "/pts/0", LX_O_RDWR, &f), -ENOENT);
	down(&e);
}

Test(tty, hangup_leaves_the_master)
{
	struct penv e;
	struct file *again;

	up(&e);
	cr_expect_eq(ctl(e.f.user, e.slave, LX_TIOCVHANGUP, 0), -EPERM);
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TIOCVHANGUP, 0), 0);
	cr_expect_eq(get(&e, e.slave), 0);
	cr_expect_eq(fenv_write(&e.f, e.slave, "x", 1), -EIO);
	cr_expect(fenv_poll(e.master) & LX_POLLHUP);
	again = fenv_open(&e.f, "/pts/0", LX_O_RDWR | LX_O_NONBLOCK);
	cr_expect_eq(fenv_poll(e.master) & LX_POLLHUP, 0u);
	cr_expect_eq(fenv_write(&e.f, again, "x", 1), 1);
	file_put(e.slave);
	e.slave = again;
	GETS(&e, e.master, "x");
	cr_expect_eq(ctl(e.f.c, e.master, LX_TIOCVHANGUP, 0), 0);
	cr_expect_eq(get(&e, e.master), -EIO);
	cr_expect_eq(fenv_write(&e.f, e.master, "x", 1), -EIO);
	down(&e);
}

/* ---- settings ---- */

Test(tty, forms_of_settings)
{
	struct lx_termios2 t, u;
	struct lx_termio io;
	struct penv e;

	up(&e);
	cr_expect_eq(ctlp(&e, e.slave, LX_TCGETS2, &t), 0);
	cr_expect_eq(t.c_ospeed, 38400u);
	t.c_cflag = (t.c_cflag & ~LX_CBAUD) | LX_BOTHER;
	t.c_ospeed = 12345;
	t.c_cflag &= ~(LX_CS8 | LX_CREAD);
	cr_expect_eq(ctlp(&e, e.slave, LX_TCSETS2, &t), 0);
	memset(&u, 0x55, sizeof(u));
	cr_expect_eq(ctlp(&e, e.master, LX_TCGETS2, &u), 0);
	cr_expect_eq(u.c_ospeed, 12345u);
	cr_expect_eq(u.c_ispeed, 12345u);
	cr_expect_eq(u.c_cflag & (LX_CSIZE | LX_CREAD), LX_CS8 | LX_CREAD, "no such wire");
	memset(&u, 0x55, sizeof(u));
	cr_expect_eq(ctlp(&e, e.slave, LX_TCGETS, &u), 0);
	cr_expect_eq(u.c_ispeed, 0x55555555u, "the short form ends before");
	u.c_cflag = LX_B38400 & ~1u; /* 19200 */
	cr_expect_eq(ctlp(&e, e.slave, LX_TCSETSW, &u), 0);
	cr_expect_eq(ctlp(&e, e.slave, LX_TCGETS2, &u), 0);
	cr_expect_eq(u.c_ospeed, 19200u);
	u.c_lflag |= 0x10000000;
	cr_expect_eq(ctlp(&e, e.slave, LX_TCSETS2, &u), 0);
	cr_expect_eq(ctlp(&e, e.slave, LX_TCGETA, &io), 0);
	io.c_lflag = LX_ISIG;
	io.c_cc[LX_VINTR] = 'i';
	cr_expect_eq(ctlp(&e, e.slave, LX_TCSETAF, &io), 0);
	cr_expect_eq(ctlp(&e, e.slave, LX_TCGETS2, &u), 0);
	cr_expect_eq(u.c_lflag, 0x10000000u | LX_ISIG, "the upper half stays");
	cr_expect_eq(u.c_cc[LX_VINTR], 'i');
	cr_expect_eq(u.c_cc[LX_VSUSP], 'Z' & 037);
	/* Locked settings stay. */
	memset(&t, 0, sizeof(t));
	t.c_lflag = LX_ISIG;
	t.c_cc[LX_VINTR] = 1;
	cr_expect_eq(ctl(e.f.user, e.slave, LX_TIOCSLCKTRMIOS, (uint64_t)(uintptr_t)&t), -EPERM);
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCSLCKTRMIOS, &t), 0);
	u.c_lflag = 0;
	u.c_cc[LX_VINTR] = 'j';
	cr_expect_eq(ctlp(&e, e.slave, LX_TCSETS2, &u), 0);
	cr_expect_eq(ctlp(&e, e.slave, LX_TCGETS2, &u), 0);
	cr_expect_eq(u.c_lflag, LX_ISIG);
	cr_expect_eq(u.c_cc[LX_VINTR], 'i');
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCGLCKTRMIOS, &t), 0);
	cr_expect_eq(t.c_lflag, LX_ISIG);
	down(&e);
}

Test(tty, tcsetaf_forgets_input)
{
	struct lx_termios2 t;
	struct penv e;

	up(&e);
	type(&e, "old\n");
	cr_expect_eq(ctlp(&e, e.slave, LX_TCGETS2, &t), 0);
	cr_expect_eq(ctlp(&e, e.slave, LX_TCSETSF2, &t), 0);
	cr_expect_eq(get(&e, e.slave), -EAGAIN);
	type(&e, "new\n");
	cr_expect_eq(ctlp(&e, e.slave, LX_TCSETSW2, &t), 0);
	GETS(&e, e.slave, "new\n");
	/* Input typed raw is a line once lines are wanted. */
	raw(&e, 1, 0);
	type(&e, "abc");
	flags(&e, 0, 0, LX_ICANON);
	type(&e, "def\n");
	GETS(&e, e.slave, "abc");
	GETS(&e, e.slave, "def\n");
	down(&e);
}

Test(tty, sizes_flags_and_odd_requests)
{
	struct lx_winsize ws = {.ws_row = 5, .ws_col = 6}, got = {0};
	struct penv e;
	struct file *f;
	int32_t v;
	char c = 'k';

	up(&e);
	cr_expect_eq(ctlp(&e, e.master, LX_TIOCSWINSZ, &ws), 0);
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCGWINSZ, &got), 0);
	cr_expect_eq(memcmp(&ws, &got, sizeof(ws)), 0);
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TIOCEXCL, 0), 0);
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCGEXCL, &v), 0);
	cr_expect_eq(v, 1);
	cr_expect_eq(vfs_chown(e.f.c, &e.slave->path, USER_ID, USER_ID), 0);
	cr_expect_eq(fenv_try_open(e.f.user, "/pts/0", LX_O_RDWR, &f), -EBUSY);
	cr_expect_eq(fenv_try_open(e.f.c, "/pts/0", LX_O_RDWR, &f), 0, "the mighty may");
	file_put(f);
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TIOCNXCL, 0), 0);
	cr_expect_eq(fenv_try_open(e.f.user, "/pts/0", LX_O_RDWR, &f), 0);
	cr_expect_eq(ctl(e.f.user, f, LX_TIOCSTI, (uint64_t)(uintptr_t)&c), -EIO);
	cr_expect_eq(ctl(e.f.user, f, LX_TIOCCONS, 0), -EPERM);
	file_put(f);
	flags(&e, 0, 0, 0);
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCSTI, &c), 0);
	GETS(&e, e.slave, "k");
	cr_expect_eq(ctlp(&e, e.master, LX_TIOCSTI, &c), 0);
	GETS(&e, e.master, "k");
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCGDEV, &v), 0);
	cr_expect_eq(v, 136 << 8);
	v = 7;
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCSETD, &v), -EINVAL);
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCGETD, &v), 0);
	cr_expect_eq(v, 0);
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCSETD, &v), 0);
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCMGET, &v), -ENOTTY);
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCGPTN, &v), -ENOTTY);
	cr_expect_eq(ctl(e.f.c, e.master, LX_TIOCCONS, 0), -EINVAL);
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCSBRK, 0), 0);
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCSBRK, 1), 0, "tcdrain");
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCFLSH, 3), -EINVAL);
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCFLSH, (uint64_t)1 << 32), -EINVAL);
	cr_expect_eq(ctl(e.f.c, e.master, LX_TIOCSIG, 9), -EINVAL);
	cr_expect_eq(ctl(e.f.c, e.master, LX_TIOCSIG, 2), 0);
	v = 1;
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCSSOFTCAR, &v), 0);
	v = 0;
	cr_expect_eq(ctlp(&e, e.slave, LX_TIOCGSOFTCAR, &v), 0);
	cr_expect_eq(v, 1);
	down(&e);
}

/* ---- packet mode ---- */

static void expect_packet(struct penv *e, uint8_t status)
{
	uint8_t buf[16];
	ssize_t n;

	cr_expect(fenv_poll(e->master) & LX_POLLPRI);
	n = fenv_read(&e->f, e->master, buf, sizeof(buf));
	cr_expect_eq(n, 1);
	cr_expect_eq(buf[0], status, "%#x, not %#x", buf[0], status);
}

Test(tty, packets)
{
	struct penv e;
	int32_t on = 1, v;
	char buf[16];

	up(&e);
	flags(&e, LX_IXON, 0, LX_ICANON);
	cr_expect_eq(ctlp(&e, e.master, LX_TIOCPKT, &on), 0);
	cr_expect_eq(ctlp(&e, e.master, LX_TIOCGPKT, &v), 0);
	cr_expect_eq(v, 1);
	cr_expect_eq(get(&e, e.master), -EAGAIN);
	cr_expect_eq(fenv_write(&e.f, e.slave, "data", 4), 4);
	cr_expect_eq(fenv_read(&e.f, e.master, buf, 3), 3);
	cr_expect_eq(memcmp(buf, "\0da", 3), 0);
	cr_expect_eq(fenv_read(&e.f, e.master, buf, 1), 1, "no room for data");
	cr_expect_eq(fenv_read(&e.f, e.master, buf, 16), 3);
	cr_expect_eq(memcmp(buf, "\0ta", 3), 0);
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCFLSH, LX_TCIFLUSH), 0);
	expect_packet(&e, LX_TIOCPKT_FLUSHREAD);
	cr_expect_eq(ctl(e.f.c, e.slave, LX_TCFLSH, LX_TCOFLUSH), 0);
	expect_packet(&e, LX_TIOCPKT_FLUSHWRITE);
	type(&e, "\023");
	expect_packet(&e, LX_TIOCPKT_STOP);
	type(&e, "\021");
	expect_packet(&e, LX_TIOCPKT_START);
	flags(&e, 0, 0, LX_ICANON);
	expect_packet(&e, LX_TIOCPKT_NOSTOP);
	flags(&e, LX_IXON, 0, LX_ICANON);
	expect_packet(&e, LX_TIOCPKT_DOSTOP);
	flags(&e, LX_IXON, 0, LX_ICANON | LX_EXTPROC);
	expect_packet(&e, LX_TIOCPKT_IOCTL);
	on = 0;
	cr_expect_eq(ctlp(&e, e.master, LX_TIOCPKT, &on), 0);
	down(&e);
}

/* ---- devpts ---- */

struct names {
	struct dir_ctx ctx;
	char text[256];
};

static bool take_name(struct dir_ctx *ctx, const char *name, size_t len, uint64_t ino UNUSED,
		      unsigned dtype UNUSED, int64_t next UNUSED)
{
	struct names *n = container_of(ctx, struct names, ctx);

	strncat(n->text, name, len);
	strcat(n->text, " ");
	return true;
}

static void expect_names(struct fenv *e, const char *want)
{
	struct names n = {.ctx.emit = take_name};
	struct file *dir = fenv_open(e, "/pts", LX_O_RDONLY | LX_O_DIRECTORY);

	cr_expect_eq(vfs_iterate(dir, &n.ctx), 0);
	cr_expect_str_eq(n.text, want);
	file_put(dir);
}

static int try_peer(struct fenv *e, struct file *master)
{
	return (int)ctl(e->c, master, LX_TIOCGPTPEER, LX_O_RDWR | LX_O_NOCTTY);
}

Test(devpts, numbers)
{
	struct file *m[3], *s;
	struct fenv e;
	int32_t v;
	int fd;

	fenv_up(&e);
	mount_pts(&e, NULL);
	for (int i = 0; i < 3; i++) {
		m[i] = fenv_open(&e, "/pts/ptmx", LX_O_RDWR);
		cr_expect_eq(ctl(e.c, m[i], LX_TIOCGPTN, (uint64_t)(uintptr_t)&v), 0);
		cr_expect_eq(v, i);
	}
	expect_names(&e, ". .. ptmx 0 1 2 ");
	cr_expect_eq(fenv_try_open(e.c, "/pts/1", LX_O_RDWR, &s), -EIO, "locked");
	cr_expect_eq(try_peer(&e, m[1]), -EIO);
	unlock(e.c, m[1]);
	cr_expect_eq(ctl(e.c, m[1], LX_TIOCGPTLCK, (uint64_t)(uintptr_t)&v), 0);
	cr_expect_eq(v, 0);
	cr_expect_eq(fenv_try_open(e.c, "/pts/01", LX_O_RDWR, &s), -ENOENT);
	s = fenv_open(&e, "/pts/1", LX_O_RDWR);
	file_put(m[1]);
	expect_names(&e, ". .. ptmx 0 2 ");
	/* Its slave is open still: the number is taken. */
	m[1] = fenv_open(&e, "/pts/ptmx", LX_O_RDWR);
	cr_expect_eq(ctl(e.c, m[1], LX_TIOCGPTN, (uint64_t)(uintptr_t)&v), 0);
	cr_expect_eq(v, 3);
	file_put(s);
	file_put(m[1]);
	m[1] = fenv_open(&e, "/pts/ptmx", LX_O_RDWR);
	cr_expect_eq(ctl(e.c, m[1], LX_TIOCGPTN, (uint64_t)(uintptr_t)&v), 0);
	cr_expect_eq(v, 1, "the lowest");
	unlock(e.c, m[1]);
	fd = try_peer(&e, m[1]);
	cr_expect(fd >= 0);
	s = fd_get(e.table, fd);
	cr_assert_not_null(s);
	cr_expect_eq(s->inode->rdev, lx_makedev(136, 1));
	file_put(s);
	cr_expect_eq(fd_close(e.c, e.table, fd), 0);
	for (int i = 0; i < 3; i++)
		file_put(m[i]);
	cr_expect_eq(vfs_umount(e.c, "/pts", 0), 0);
	fenv_down(&e);
}

Test(devpts, owners_modes_and_options)
{
	struct fenv e;
	struct file *m, *f;
	struct path p;
	struct kstat st;

	fenv_up(&e);
	mount_pts(&e, "newinstance,gid=5,mode=620,ptmxmode=0666,max=2");
	cr_assert_eq(fenv_try_open(e.user, "/pts/ptmx", LX_O_RDWR, &m), 0);
	cr_assert_eq(path_lookup(e.c, NULL, "/pts/0", 0, &p), 0);
	cr_expect_eq(vfs_getattr(&p, &st), 0);
	cr_expect_eq(st.mode, LX_S_IFCHR | 0620u);
	cr_expect_eq(st.uid, USER_ID);
	cr_expect_eq(st.gid, 5u);
	cr_expect_eq(st.blksize, 1024u);
	struct iattr a = {.valid = ATTR_MODE, .mode = 0600};

	cr_expect_eq(vfs_setattr(e.user, &p, &a), 0);
	path_put(&p);
	cr_assert_eq(path_lookup(e.c, NULL, "/pts/0", 0, &p), 0);
	cr_expect_eq(vfs_getattr(&p, &st), 0);
	cr_expect_eq(st.mode, LX_S_IFCHR | 0600u, "kept while the name is not in use");
	path_put(&p);
	f = fenv_open(&e, "/pts/ptmx", LX_O_RDWR);
	struct file *third;

	cr_expect_eq(fenv_try_open(e.c, "/pts/ptmx", LX_O_RDWR, &third), -ENOSPC);
	file_put(f);
	cr_expect_eq(fenv_try_open(e.c, "/pts/x", LX_O_RDWR | LX_O_CREAT, &f), -EACCES);
	cr_expect_eq(vfs_mkdir(e.c, NULL, "/pts/x", 0755), -EPERM);
	cr_expect_eq(vfs_unlink(e.c, NULL, "/pts/ptmx"), -EPERM);
	cr_expect_eq(vfs_umount(e.c, "/pts", 0), -EBUSY);
	file_put(m);
	cr_expect_eq(vfs_umount(e.c, "/pts", 0), 0);
	static const char *const bad[] = {"mode=8", "mode=", "gid=x", "max=-1", "what", "uid"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(vfs_mount(e.c, "devpts", "/pts", "devpts", 0, bad[i]), -EINVAL, "%s",
			     bad[i]);
	fenv_down(&e);
}

Test(devpts, ptmx_elsewhere)
{
	struct fenv e;
	struct file *m, *f;
	int fd;

	fenv_up(&e);
	mount_pts(&e, "ptmxmode=666");
	cr_assert_eq(vfs_mknod(e.c, NULL, "/ptmx", LX_S_IFCHR | 0666, lx_makedev(5, 2)), 0);
	cr_assert_eq(vfs_mkdir(e.c, NULL, "/d", 0755), 0);
	cr_assert_eq(vfs_mknod(e.c, NULL, "/d/ptmx", LX_S_IFCHR | 0666, lx_makedev(5, 2)), 0);
	cr_assert_eq(vfs_mknod(e.c, NULL, "/d/slave", LX_S_IFCHR | 0666, lx_makedev(136, 0)), 0);
	m = fenv_open(&e, "/ptmx", LX_O_RDWR);
	unlock(e.c, m);
	fd = try_peer(&e, m);
	cr_expect(fd >= 0, "%d", fd);
	cr_expect_eq(fd_close(e.c, e.table, fd), 0);
	cr_expect_eq(fenv_try_open(e.c, "/d/slave", LX_O_RDWR, &f), -EIO);
	cr_expect_eq(fenv_try_open(e.c, "/d/ptmx", LX_O_RDWR, &f), -ENOENT);
	cr_assert_eq(vfs_mkdir(e.c, NULL, "/d/pts", 0755), 0);
	cr_expect_eq(fenv_try_open(e.c, "/d/ptmx", LX_O_RDWR, &f), -ENODEV);
	/* Another instance has numbers of its own. */
	cr_assert_eq(vfs_mount(e.c, "devpts", "/d/pts", "devpts", 0, NULL), 0);
	f = fenv_open(&e, "/d/ptmx", LX_O_RDWR);
	int32_t v = -1;

	cr_expect_eq(ctl(e.c, f, LX_TIOCGPTN, (uint64_t)(uintptr_t)&v), 0);
	cr_expect_eq(v, 0);
	file_put(f);
	/* A ptmx node that is mounted on a file belongs to where it comes from. */
	cr_assert_eq(vfs_mount(e.c, "/pts/ptmx", "/d/ptmx", NULL, LX_MS_BIND, NULL), 0);
	f = fenv_open(&e, "/d/ptmx", LX_O_RDWR);
	cr_expect_eq(ctl(e.c, f, LX_TIOCGPTN, (uint64_t)(uintptr_t)&v), 0);
	cr_expect_eq(v, 1);
	unlock(e.c, f);
	fd = try_peer(&e, f);
	cr_expect(fd >= 0, "%d", fd);
	cr_expect_eq(fd_close(e.c, e.table, fd), 0);
	file_put(f);
	cr_expect_eq(vfs_umount(e.c, "/d/ptmx", 0), 0);
	cr_expect_eq(vfs_umount(e.c, "/d/pts", 0), 0);
	/* The file system goes while a pty lives. */
	cr_expect_eq(vfs_umount(e.c, "/pts", LX_MNT_DETACH), 0);
	file_put(m);
	fenv_down(&e);
}

Test(devpts, tty_without_one)
{
	struct fenv e;
	struct file *f;

	fenv_up(&e);
	cr_assert_eq(vfs_mknod(e.c, NULL, "/tty", LX_S_IFCHR | 0666, lx_makedev(5, 0)), 0);
	cr_assert_eq(vfs_mknod(e.c, NULL, "/console", LX_S_IFCHR | 0666, lx_makedev(5, 1)), 0);
	cr_expect_eq(fenv_try_open(e.c, "/tty", LX_O_RDWR, &f), -ENXIO);
	cr_expect_eq(fenv_try_open(e.c, "/console", LX_O_RDWR, &f), -ENXIO);
	fenv_down(&e);
}

Test(devpts, out_of_memory)
{
	struct fenv e;
	struct file *f;
	int r;

	fenv_up(&e);
	mount_pts(&e, "ptmxmode=666");
	for (unsigned n = 1;; n++) {
		fail_set(FAIL_ALLOC, n);
		r = fenv_try_open(e.c, "/pts/ptmx", LX_O_RDWR, &f);
		fail_set(FAIL_ALLOC, 0);
		if (r == 0)
			break;
		cr_assert_eq(r, -ENOMEM, "step %u: %d", n, r);
		cr_assert(n < 100);
	}
	int32_t v = -1;

	cr_expect_eq(ctl(e.c, f, LX_TIOCGPTN, (uint64_t)(uintptr_t)&v), 0);
	cr_expect_eq(v, 0, "nothing was left over");
	file_put(f);
	cr_expect_eq(vfs_umount(e.c, "/pts", 0), 0);
	fenv_down(&e);
}
