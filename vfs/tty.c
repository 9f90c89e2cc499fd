/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals: their lives, and the files that are open on them.
 *
 * Theory of operation: a hang-up kills all files that were opened before it: each remembers how
 * many there had been (struct tty_file). A dead file reads as ended and refuses everything else.
 *
 * Readers and writers work in pieces through buffers of their own, since user memory cannot be
 * touched under tty->lock; the turn (tty_turn_get) keeps a read or write in one piece all the same.
 *
 * Locking: see vfs/tty.h.
 */
#include "vfs/tty_internal.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <string.h>

#define PIECE 2048u

const struct lx_termios2 g_tty_std_termios = {
	.c_iflag = LX_ICRNL | LX_IXON,
	.c_oflag = LX_OPOST | LX_ONLCR,
	.c_cflag = LX_B38400 | LX_CS8 | LX_CREAD,
	.c_lflag = LX_ISIG | LX_ICANON | LX_ECHO | LX_ECHOE | LX_ECHOK | LX_ECHOCTL | LX_ECHOKE |
		   LX_IEXTEN,
	.c_cc =
		{
			[LX_VINTR] = 'C' & 037,
			[LX_VQUIT] = '\\' & 037,
			[LX_VERASE] = 0177,
			[LX_VKILL] = 'U' & 037,
			[LX_VEOF] = 'D' & 037,
			[LX_VMIN] = 1,
			[LX_VSTART] = 'Q' & 037,
			[LX_VSTOP] = 'S' & 037,
			[LX_VSUSP] = 'Z' & 037,
			[LX_VREPRINT] = 'R' & 037,
			[LX_VDISCARD] = 'O' & 037,
			[LX_VWERASE] = 'W' & 037,
			[LX_VLNEXT] = 'V' & 037,
		},
	.c_ispeed = 38400,
	.c_ospeed = 38400,
};

/* ---- without a sentry ---- */

static int no_check(struct tty *t UNUSED, int sig UNUSED)
{
	return 0;
}

static bool no_is_current(struct tty *t UNUSED)
{
	return false;
}

static struct tty *no_current(void)
{
	return NULL;
}

static void no_tty(struct tty *t UNUSED)
{
}

static int no_set(struct tty *t UNUSED, bool readable UNUSED, bool steal UNUSED,
		  bool capable UNUSED)
{
	return -EPERM;
}

static int no_drop(struct tty *t UNUSED)
{
	return -ENOTTY;
}

static int no_get_id(struct tty *t UNUSED, bool force UNUSED, int32_t *out UNUSED)
{
	return -ENOTTY;
}

static int no_set_pgrp(struct tty *t UNUSED, int32_t pgrp UNUSED)
{
	return -ENOTTY;
}

static void no_signal(struct tty *t UNUSED, int sig UNUSED)
{
}

static int no_check_behind(int sig UNUSED)
{
	return 0;
}

static const struct tty_hooks g_no_tasks = {
	.check = no_check,
	.check_behind = no_check_behind,
	.is_current = no_is_current,
	.current = no_current,
	.opened = no_tty,
	.set = no_set,
	.drop = no_drop,
	.get_pgrp = no_get_id,
	.set_pgrp = no_set_pgrp,
	.get_sid = no_get_id,
	.signal = no_signal,
	.hangup = no_tty,
};

const struct tty_hooks *g_tty_hooks = &g_no_tasks;

/* ---- lives ---- */

void tty_init(struct tty *t, const struct tty_ops *ops, uint32_t major, uint32_t minor)
{
	ref_init(&t->ref);
	t->ops = ops;
	t->major = major;
	t->minor = minor;
	mutex_init(&t->lock, RANK_TTY);
	waitq_init(&t->read_wait);
	waitq_init(&t->write_wait);
	waitq_init(&t->turn_wait);
	t->initial = t->termios = g_tty_std_termios;
	t->in = (struct tty_ring){.data = t->in_data, .size = sizeof(t->in_data)};
	t->echo = (struct tty_ring){.data = t->echo_data, .size = sizeof(t->echo_data)};
}

void tty_fini(struct tty *t)
{
	BUG_ON(t->session || t->foreground);
	waitq_fini(&t->read_wait);
	waitq_fini(&t->write_wait);
	waitq_fini(&t->turn_wait);
	mutex_fini(&t->lock);
}

struct tty *tty_get(struct tty *t)
{
	ref_get(&t->ref);
	return t;
}

void tty_put(struct tty *t)
{
	if (t && ref_put(&t->ref))
		t->ops->free(t);
}

/* ---- from behind ---- */

void tty_pump(struct tty *t)
{
	mutex_lock(&t->lock);
	for (;;) {
		int sig = ldisc_receive_locked(t);

		if (!sig)
			break;
		if (t->ops->signalled)
			t->ops->signalled(t, sig);
		mutex_unlock(&t->lock);
		g_tty_hooks->signal(t, sig);
		mutex_lock(&t->lock);
	}
	if (t->ops->input_room && tty_ring_count(&t->in) < t->in.size)
		t->ops->input_room(t);
	mutex_unlock(&t->lock);
}

size_t tty_input(struct tty *t, const uint8_t *buf, size_t size)
{
	size_t done = 0;

	while (done < size) {
		uint32_t n;

		mutex_lock(&t->lock);
		n = tty_ring_put(&t->in, buf + done, (uint32_t)MIN(size - done, (size_t)PIECE));
		mutex_unlock(&t->lock);
		if (n == 0)
			break;
		done += n;
		tty_pump(t);
	}
	return done;
}

void tty_output_room(struct tty *t)
{
	mutex_lock(&t->lock);
	ldisc_flush_echo_locked(t);
	if (ldisc_room_locked(t))
		waitq_wake_all(&t->write_wait, TTY_WRITE_EVENTS);
	else if (t->ops->unsent && t->ops->unsent(t) == 0)
		waitq_wake_all(&t->write_wait, 0);
	mutex_unlock(&t->lock);
}

void tty_hangup(struct tty *t)
{
	mutex_lock(&t->lock);
	t->hangups++;
	ldisc_flush_input_locked(t);
	t->in.tail = t->in.head;
	t->echo.tail = t->echo.head;
	t->stopped = t->flow_stopped = false;
	if (t->opens) {
		t->opens = 0;
		if (t->ops->closed)
			t->ops->closed(t);
	}
	waitq_wake_all(&t->read_wait, 0);
	waitq_wake_all(&t->write_wait, 0);
	mutex_unlock(&t->lock);
	g_tty_hooks->hangup(t);
}

void tty_set_winsize(struct tty *t, const struct lx_winsize *ws)
{
	bool changed;

	mutex_lock(&t->lock);
	changed = memcmp(&t->winsize, ws, sizeof(*ws)) != 0;
	t->winsize = *ws;
	mutex_unlock(&t->lock);
	if (changed)
		g_tty_hooks->signal(t, LX_SIGWINCH);
}

/* ---- what files share ---- */

bool tty_nonblock(const struct file *f)
{
	return atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_NONBLOCK;
}

static struct tty_file *file_of(const struct file *f)
{
	return f->priv;
}

static bool hung_locked(const struct tty_file *tf)
{
	return tf->hangups != tf->tty->hangups;
}

bool tty_file_hung(const struct file *f)
{
	struct tty_file *tf = file_of(f);
	bool hung;

	mutex_lock(&tf->tty->lock);
	hung = hung_locked(tf);
	mutex_unlock(&tf->tty->lock);
	return hung;
}

/* Takes the turn if it is free. */
static bool turn_try(struct tty *t, bool *flag)
{
	bool got;

	mutex_lock(&t->lock);
	got = !*flag;
	*flag = true;
	mutex_unlock(&t->lock);
	return got;
}

int tty_turn_get(struct tty *t, bool *flag, bool nonblock)
{
	if (turn_try(t, flag))
		return 0;
	if (nonblock)
		return -EAGAIN;
	return wait_event(&t->turn_wait, turn_try(t, flag), DEADLINE_NONE, WAIT_INTR);
}

void tty_turn_put(struct tty *t, bool *flag)
{
	mutex_lock(&t->lock);
	*flag = false;
	mutex_unlock(&t->lock);
	waitq_wake_all(&t->turn_wait, 0);
}

void tty_touch(struct file *f, bool written)
{
	const int64_t grain = 8 * (int64_t)NSEC_PER_SEC;
	int64_t now = (int64_t)clock_stamp_ns();
	struct inode *i = f->inode;
	int64_t *at = written ? &i->mtime : &i->atime;

	mutex_lock(&i->meta);
	if (now / grain != *at / grain)
		*at = now / grain * grain;
	mutex_unlock(&i->meta);
}

/* ---- reading ---- */

/* Something to do for a reader of @tf: data, or the end. */
static bool read_ready(struct tty_file *tf)
{
	struct tty *t = tf->tty;
	bool ready;

	mutex_lock(&t->lock);
	ready = ldisc_readable_locked(t, false) || t->other_closed || hung_locked(tf);
	mutex_unlock(&t->lock);
	return ready;
}

/* One look: bytes taken into @buf, 0 with *done at an end, -EIO, or -EAGAIN: nothing there. */
static ssize_t read_piece(struct tty_file *tf, uint8_t *buf, uint64_t resid, bool *done)
{
	struct tty *t = tf->tty;
	size_t size = (size_t)MIN(resid, (uint64_t)PIECE);
	ssize_t n = -EAGAIN;

	mutex_lock(&t->lock);
	if (ldisc_readable_locked(t, false)) {
		n = (ssize_t)ldisc_take_locked(t, buf, size, size == resid, done);
	} else if (t->other_closed) {
		n = -EIO;
	} else if (hung_locked(tf)) {
		*done = true;
		n = 0;
	}
	mutex_unlock(&t->lock);
	return n;
}

static ssize_t read_turn(struct file *f, struct uio *u)
{
	struct tty_file *tf = file_of(f);
	struct tty *t = tf->tty;
	uint64_t deadline = DEADLINE_NONE;
	size_t total = 0, min = 0;
	uint64_t between = 0;
	bool now_or_never = false;
	uint8_t buf[PIECE];

	mutex_lock(&t->lock);
	if (!tty_canonical(t)) {
		uint64_t time = t->termios.c_cc[LX_VTIME] * 100 * NSEC_PER_MSEC;

		min = t->termios.c_cc[LX_VMIN];
		if (min) {
			between = time;
		} else {
			min = 1;
			now_or_never = time == 0;
			deadline = clock_mono_ns() + time;
		}
	}
	mutex_unlock(&t->lock);

	while (u->resid) {
		bool done = false;
		ssize_t n = read_piece(tf, buf, u->resid, &done), put;

		if (n == -EAGAIN && total && total >= min)
			break;
		if (n == -EAGAIN && total) {
			/* What waited for room can come now. */
			tty_pump(t);
			n = read_piece(tf, buf, u->resid, &done);
		}
		if (n == -EAGAIN) {
			int r;

			if (now_or_never)
				break;
			if (tty_nonblock(f))
				r = -EAGAIN;
			else
				r = wait_event(&t->read_wait, read_ready(tf), deadline, WAIT_INTR);
			if (r == -ETIMEDOUT)
				break;
			if (r)
				return total ? (ssize_t)total : r;
			continue;
		}
		if (n < 0)
			return total ? (ssize_t)total : n;
		put = n ? uio_put(u, buf, (size_t)n) : 0;
		if (put < n)
			return total ? (ssize_t)total : -EFAULT;
		total += (size_t)n;
		if (between)
			deadline = clock_mono_ns() + between;
		if (done)
			break;
	}
	return (ssize_t)total;
}

static ssize_t tty_read(struct file *f, struct uio *u, int64_t *pos UNUSED)
{
	struct tty *t = file_of(f)->tty;
	ssize_t r;

	if (tty_file_hung(f))
		return 0;
	r = g_tty_hooks->check(t, LX_SIGTTIN);
	if (r)
		return r;
	r = tty_turn_get(t, &t->reading, tty_nonblock(f));
	if (r)
		return r;
	r = read_turn(f, u);
	tty_turn_put(t, &t->reading);
	/* What has been typed meanwhile comes into the place of what was read. A read gives no more
	 * than the line buffer holds, as in Linux. */
	tty_pump(t);
	if (r > 0)
		tty_touch(f, false);
	return r;
}

/* ---- writing ---- */

static bool write_ready(struct tty_file *tf)
{
	struct tty *t = tf->tty;
	bool ready;

	mutex_lock(&t->lock);
	ready = ldisc_room_locked(t) || hung_locked(tf);
	mutex_unlock(&t->lock);
	return ready;
}

/* Writes all of @buf, waiting as needed: bytes, or -errno if none. */
static ssize_t write_piece(struct file *f, const uint8_t *buf, size_t size)
{
	struct tty_file *tf = file_of(f);
	struct tty *t = tf->tty;
	size_t done = 0;
	int r = 0;

	while (r == 0) {
		mutex_lock(&t->lock);
		if (hung_locked(tf))
			r = -EIO;
		else
			done += ldisc_write_locked(t, buf + done, (uint32_t)(size - done));
		mutex_unlock(&t->lock);
		if (r || done == size)
			break;
		if (tty_nonblock(f))
			r = -EAGAIN;
		else
			r = wait_event(&t->write_wait, write_ready(tf), DEADLINE_NONE, WAIT_INTR);
	}
	return done ? (ssize_t)done : r;
}

ssize_t tty_write_pieces(struct file *f, struct uio *u,
			 ssize_t (*piece)(struct file *f, const uint8_t *buf, size_t size))
{
	uint8_t buf[PIECE];
	ssize_t total = 0;

	while (u->resid) {
		struct uio before = *u;
		ssize_t got = uio_get(u, buf, (size_t)MIN(u->resid, (uint64_t)PIECE)), n;

		if (got <= 0)
			return total ? total : got;
		n = piece(f, buf, (size_t)got);
		if (n < got) {
			uio_rewind(u, &before);
			uio_skip(u, n > 0 ? (size_t)n : 0);
		}
		if (n < 0)
			return total ? total : n;
		total += n;
		if (n < got || (u->resid && g_vfs_hooks->interrupted()))
			break;
	}
	return total;
}

static ssize_t tty_write(struct vfs_ctx *c UNUSED, struct file *f, struct uio *u,
			 int64_t *pos UNUSED)
{
	struct tty *t = file_of(f)->tty;
	bool check;
	ssize_t r = 0;

	mutex_lock(&t->lock);
	if (hung_locked(file_of(f)))
		r = -EIO;
	check = t->termios.c_lflag & LX_TOSTOP;
	mutex_unlock(&t->lock);
	if (r == 0 && check)
		r = g_tty_hooks->check(t, LX_SIGTTOU);
	if (r)
		return r;
	r = tty_turn_get(t, &t->writing, tty_nonblock(f));
	if (r)
		return r;
	r = tty_write_pieces(f, u, write_piece);
	tty_turn_put(t, &t->writing);
	if (r > 0)
		tty_touch(f, true);
	return r;
}

/* ---- waiting for what was written; flushing ---- */

static bool drained(struct tty *t, uint32_t hangups)
{
	bool done;

	mutex_lock(&t->lock);
	ldisc_flush_echo_locked(t);
	done = !t->ops->unsent || t->ops->unsent(t) == 0 || t->hangups != hangups;
	mutex_unlock(&t->lock);
	return done;
}

int tty_drain(struct tty *t)
{
	uint32_t hangups;

	mutex_lock(&t->lock);
	hangups = t->hangups;
	mutex_unlock(&t->lock);
	return wait_event(&t->write_wait, drained(t, hangups), DEADLINE_NONE, WAIT_INTR);
}

int tty_flush(struct tty *t, unsigned what)
{
	if (what > LX_TCIOFLUSH)
		return -EINVAL;
	mutex_lock(&t->lock);
	if (what != LX_TCOFLUSH) {
		t->in.tail = t->in.head;
		ldisc_flush_input_locked(t);
		if (t->ops->input_room)
			t->ops->input_room(t);
	}
	if (what != LX_TCIFLUSH) {
		t->echo.tail = t->echo.head;
		t->ops->flush_output(t);
		if (ldisc_room_locked(t))
			waitq_wake_all(&t->write_wait, TTY_WRITE_EVENTS);
	}
	mutex_unlock(&t->lock);
	return 0;
}

/* ---- polling, opening, closing ---- */

static uint32_t tty_poll(struct file *f, struct poll_table *pt)
{
	struct tty_file *tf = file_of(f);
	struct tty *t = tf->tty;
	uint32_t ev = 0;

	poll_wait(pt, &t->read_wait);
	poll_wait(pt, &t->write_wait);
	mutex_lock(&t->lock);
	if (hung_locked(tf)) {
		ev = TTY_READ_EVENTS | TTY_WRITE_EVENTS | LX_POLLERR | LX_POLLHUP;
	} else {
		if (ldisc_readable_locked(t, true))
			ev |= TTY_READ_EVENTS;
		if (t->other_closed)
			ev |= LX_POLLHUP;
		if (ldisc_room_locked(t))
			ev |= TTY_WRITE_EVENTS;
	}
	mutex_unlock(&t->lock);
	return ev;
}

static void tty_release(struct file *f)
{
	struct tty_file *tf = file_of(f);
	struct tty *t = tf->tty;

	mutex_lock(&t->lock);
	if (!hung_locked(tf) && --t->opens == 0 && t->ops->closed)
		t->ops->closed(t);
	t->files--;
	if (t->ops->released)
		t->ops->released(t);
	mutex_unlock(&t->lock);
	mem_free(tf);
	tty_put(t);
}

static int64_t tty_lseek(struct file *f UNUSED, int64_t off UNUSED, int whence UNUSED)
{
	return -ESPIPE;
}

static const struct file_ops g_tty_fops = {
	.read = tty_read,
	.write = tty_write,
	.lseek = tty_lseek,
	.poll = tty_poll,
	.ioctl = tty_ioctl,
	.release = tty_release,
	.stream = true,
};

struct tty *tty_of_file(const struct file *f)
{
	return f->ops == &g_tty_fops ? file_of(f)->tty : NULL;
}

int tty_open(struct vfs_ctx *c, struct tty *t, struct file *f, bool noctty)
{
	struct tty_file *tf = mem_zalloc(sizeof(*tf));
	int r = 0;

	if (!tf)
		return -ENOMEM;
	mutex_lock(&t->lock);
	if (t->ops->may_open)
		r = t->ops->may_open(t);
	if (r == 0 && t->exclusive && t->opens && !cred_capable(c->cred, LX_CAP_SYS_ADMIN))
		r = -EBUSY;
	if (r == 0) {
		tf->hangups = t->hangups;
		t->files++;
		if (t->opens++ == 0 && t->ops->opened)
			t->ops->opened(t);
	}
	mutex_unlock(&t->lock);
	if (r) {
		mem_free(tf);
		return r;
	}
	tf->tty = tty_get(t);
	f->priv = tf;
	f->ops = &g_tty_fops;
	/* Who may only write to a terminal shall not control it. */
	if (!noctty && (f->fmode & FMODE_READ)) {
		g_tty_hooks->opened(t);
		/* A hang-up meanwhile may have come too early to take it from us again. */
		if (tty_file_hung(f))
			g_tty_hooks->hangup(t);
	}
	return 0;
}
