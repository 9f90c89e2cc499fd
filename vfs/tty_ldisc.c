/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line discipline (N_TTY): input editing, echo, signals, flow control, output processing.
 *
 * Theory of operation: line[] is a ring of what was typed and not yet read; positions only grow and
 * are taken modulo its size. In canonical mode [tail, canon) are whole lines, whose ends are marked
 * in ends[] (an end that is EOF is a NUL that readers do not get), and [canon, head) is the line
 * that is being edited. A line that does not fit keeps its first 4095 characters and has its last
 * place overwritten, so that its end can always be typed. In non-canonical mode [tail, head) is
 * readable.
 *
 * Echo is processed as output at once (so that the cursor's column is known) and put into a ring,
 * which goes out before any other output as soon as the hardware has room and output is not
 * stopped; if the ring is full, echo is lost.
 *
 * Deviations from Linux: IXOFF sends no STOP character (no hardware here would heed it); parity and
 * breaks do not come from any hardware, so INPCK, IGNPAR, BRKINT mean nothing, and PARMRK only
 * doubles 0377; delays are not made; EXTPROC passes input through, without its record marks.
 *
 * References: termios(3), POSIX.1-2017 11.1 and 11.2.
 */
#include "vfs/tty_internal.h"

#include <string.h>

#define LINE_MASK (TTY_LINE_MAX - 1)

/* ---- rings ---- */

uint32_t tty_ring_count(const struct tty_ring *r)
{
	return r->head - r->tail;
}

uint32_t tty_ring_put(struct tty_ring *r, const uint8_t *buf, uint32_t size)
{
	uint32_t n = MIN(size, r->size - tty_ring_count(r));
	uint32_t at = r->head & (r->size - 1), first = MIN(n, r->size - at);

	memcpy(r->data + at, buf, first);
	memcpy(r->data, buf + first, n - first);
	r->head += n;
	return n;
}

uint32_t tty_ring_get(struct tty_ring *r, uint8_t *buf, uint32_t size)
{
	uint32_t n = MIN(size, tty_ring_count(r));
	uint32_t at = r->tail & (r->size - 1), first = MIN(n, r->size - at);

	memcpy(buf, r->data + at, first);
	memcpy(buf + first, r->data, n - first);
	r->tail += n;
	return n;
}

/* ---- characters; those above 0177 as Latin-1, as Linux does ---- */

static bool is_control(uint8_t c)
{
	return c < 0x20 || c == 0x7f;
}

static bool is_word(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || (c >= 0xc0 && c != 0xd7 && c != 0xf7);
}

static uint8_t to_lower(uint8_t c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7) ? c + 0x20 : c;
}

static uint8_t to_upper(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 0xe0 && c != 0xff && c != 0xf7) ? c - 0x20 : c;
}

/* A byte of a multi-byte character that is not its first. */
static bool is_continuation(const struct tty *t, uint8_t c)
{
	return (t->termios.c_iflag & LX_IUTF8) && (c & 0xc0) == 0x80;
}

static bool is_cc(const struct tty *t, unsigned which, uint8_t c)
{
	/* NUL in c_cc switches the function off. */
	return c != 0 && t->termios.c_cc[which] == c;
}

static bool lflag(const struct tty *t, uint32_t flag)
{
	return t->termios.c_lflag & flag;
}

static bool iflag(const struct tty *t, uint32_t flag)
{
	return t->termios.c_iflag & flag;
}

/* ---- output ---- */

/* What @c becomes: up to 8 bytes in @out, its length. Moves the cursor. */
static unsigned process_byte(struct tty *t, uint8_t c, uint8_t out[TTY_ROOM_MIN])
{
	uint32_t o = t->termios.c_oflag;
	unsigned spaces;

	switch (c) {
	case '\n':
		if (o & LX_ONLRET)
			t->column = 0;
		if (o & LX_ONLCR) {
			t->line_column = t->column = 0;
			out[0] = '\r';
			out[1] = '\n';
			return 2;
		}
		t->line_column = t->column;
		break;
	case '\r':
		if ((o & LX_ONOCR) && t->column == 0)
			return 0;
		if (o & LX_OCRNL) {
			c = '\n';
			if (o & LX_ONLRET)
				t->line_column = t->column = 0;
			break;
		}
		t->line_column = t->column = 0;
		break;
	case '\t':
		spaces = 8 - (t->column & 7);
		t->column += spaces;
		if ((o & LX_TABDLY) == LX_XTABS) {
			memset(out, ' ', spaces);
			return spaces;
		}
		break;
	case '\b':
		if (t->column > 0)
			t->column--;
		break;
	default:
		if (is_control(c))
			break;
		if (o & LX_OLCUC)
			c = to_upper(c);
		if (!is_continuation(t, c))
			t->column++;
		break;
	}
	out[0] = c;
	return 1;
}

void ldisc_flush_echo_locked(struct tty *t)
{
	uint8_t buf[256];

	while (!t->stopped && tty_ring_count(&t->echo)) {
		uint32_t room = t->ops->room(t);

		if (room == 0)
			break;

		uint32_t n = tty_ring_get(&t->echo, buf, MIN(room, (uint32_t)sizeof(buf)));

		t->ops->write(t, buf, n);
	}
}

uint32_t ldisc_room_locked(struct tty *t)
{
	uint32_t room;

	if (t->stopped)
		return 0;
	if (tty_ring_count(&t->echo)) {
		ldisc_flush_echo_locked(t);
		if (tty_ring_count(&t->echo))
			return 0;
	}
	room = t->ops->room(t);
	return room < TTY_ROOM_MIN ? 0 : room;
}

uint32_t ldisc_write_locked(struct tty *t, const uint8_t *buf, uint32_t size)
{
	uint8_t out[1024];
	uint32_t room = ldisc_room_locked(t), done = 0, n = 0;

	if (!(t->termios.c_oflag & LX_OPOST)) {
		done = MIN(room, size);
		if (done)
			t->ops->write(t, buf, done);
		return done;
	}
	while (done < size && room - n >= TTY_ROOM_MIN) {
		n += process_byte(t, buf[done++], out + n);
		if (n > sizeof(out) - TTY_ROOM_MIN) {
			t->ops->write(t, out, n);
			room -= n;
			n = 0;
		}
	}
	if (n)
		t->ops->write(t, out, n);
	return done;
}

void tty_stop_locked(struct tty *t)
{
	if (t->stopped)
		return;
	t->stopped = true;
	if (t->ops->flow)
		t->ops->flow(t, true);
}

void tty_start_locked(struct tty *t)
{
	if (!t->stopped || t->flow_stopped)
		return;
	t->stopped = false;
	if (t->ops->flow)
		t->ops->flow(t, false);
	ldisc_flush_echo_locked(t);
	waitq_wake_all(&t->write_wait, TTY_WRITE_EVENTS);
}

/* ---- echo ---- */

static void echo_bytes(struct tty *t, const uint8_t *buf, uint32_t size)
{
	if (t->echo.size - tty_ring_count(&t->echo) >= size)
		(void)tty_ring_put(&t->echo, buf, size);
}

/* As output, processed if OPOST says so. */
static void echo_raw(struct tty *t, uint8_t c)
{
	uint8_t out[TTY_ROOM_MIN] = {c};
	unsigned n = 1;

	if (t->termios.c_oflag & LX_OPOST)
		n = process_byte(t, c, out);
	echo_bytes(t, out, n);
}

/* As typed: control characters are shown as ^X with ECHOCTL. */
static void echo_char(struct tty *t, uint8_t c)
{
	if (lflag(t, LX_ECHOCTL) && is_control(c) && c != '\t') {
		const uint8_t text[2] = {'^', c ^ 0100};

		t->column += 2;
		echo_bytes(t, text, sizeof(text));
	} else {
		echo_raw(t, c);
	}
}

/* Of a character at @column: how many places the cursor moves. */
static unsigned echo_width(const struct tty *t, uint8_t c, uint32_t column)
{
	if (c == '\t')
		return 8 - (column & 7);
	if (is_control(c))
		return lflag(t, LX_ECHOCTL) ? 2 : 0;
	return is_continuation(t, c) ? 0 : 1;
}

static void echo_begin(struct tty *t)
{
	/* What is typed now begins here: tabs in it are erased by counting from here. */
	if (t->head == t->canon)
		t->line_column = t->column;
}

static void finish_erasing(struct tty *t)
{
	if (t->erasing) {
		echo_raw(t, '/');
		t->erasing = false;
	}
}

/* ---- the line buffer ---- */

static uint8_t line_at(const struct tty *t, uint32_t pos)
{
	return t->line[pos & LINE_MASK];
}

static bool is_end(const struct tty *t, uint32_t pos)
{
	pos &= LINE_MASK;
	return t->ends[pos / 64] >> (pos % 64) & 1;
}

static void set_end(struct tty *t, uint32_t pos, bool on)
{
	pos &= LINE_MASK;
	if (on)
		t->ends[pos / 64] |= (uint64_t)1 << (pos % 64);
	else
		t->ends[pos / 64] &= ~((uint64_t)1 << (pos % 64));
}

static void queue(struct tty *t, uint8_t c)
{
	t->line[t->head & LINE_MASK] = c;
	t->head++;
}

static void queue_data(struct tty *t, uint8_t c)
{
	if (c == 0377 && iflag(t, LX_PARMRK))
		queue(t, c);
	queue(t, c);
}

static void queue_end(struct tty *t, uint8_t c)
{
	set_end(t, t->head, true);
	queue(t, c);
	t->canon = t->head;
	waitq_wake(&t->read_wait, TTY_READ_EVENTS);
}

void ldisc_flush_input_locked(struct tty *t)
{
	t->head = t->tail = t->canon = 0;
	memset(t->ends, 0, sizeof(t->ends));
	t->lnext = t->erasing = false;
	if (t->ops->flushed_input)
		t->ops->flushed_input(t);
}

/* ---- editing ---- */

/* Erases a tab that ended at the cursor: the line again from its beginning tells where it began. */
static void echo_erase_tab(struct tty *t)
{
	uint32_t column = t->line_column;

	for (uint32_t p = t->canon; p != t->head; p++)
		column += echo_width(t, line_at(t, p), column);
	for (unsigned n = 8 - (column & 7); n > 0; n--) {
		echo_bytes(t, (const uint8_t *)"\b", 1);
		if (t->column > 0)
			t->column--;
	}
}

static void echo_rubout(struct tty *t)
{
	echo_raw(t, '\b');
	echo_raw(t, ' ');
	echo_raw(t, '\b');
}

/* The bytes [head, head + size) of the line buffer were just erased. */
static void echo_erased(struct tty *t, uint32_t size, bool single)
{
	uint8_t c = line_at(t, t->head);

	if (lflag(t, LX_ECHOPRT)) {
		if (!t->erasing) {
			echo_raw(t, '\\');
			t->erasing = true;
		}
		echo_char(t, c);
		for (uint32_t i = 1; i < size; i++)
			echo_raw(t, line_at(t, t->head + i));
	} else if (single && !lflag(t, LX_ECHOE)) {
		echo_char(t, t->termios.c_cc[LX_VERASE]);
	} else if (c == '\t') {
		echo_erase_tab(t);
	} else {
		for (unsigned n = is_control(c) ? (lflag(t, LX_ECHOCTL) ? 2 : 0) : 1; n > 0; n--)
			echo_rubout(t);
	}
}

/* One character, whole: its bytes, or 0 if only a part of one is left. */
static uint32_t erase_char(struct tty *t)
{
	uint32_t at = t->head;

	do {
		at--;
	} while (is_continuation(t, line_at(t, at)) && at != t->canon);
	if (is_continuation(t, line_at(t, at)))
		return 0;

	uint32_t size = t->head - at;

	t->head = at;
	return size;
}

static void erase_word(struct tty *t)
{
	bool seen = false;

	while (t->head != t->canon) {
		uint32_t old = t->head, size = erase_char(t);

		if (size == 0)
			break;
		if (is_word(line_at(t, t->head))) {
			seen = true;
		} else if (seen) {
			t->head = old;
			break;
		}
		if (lflag(t, LX_ECHO))
			echo_erased(t, size, false);
	}
}

static void erase_line(struct tty *t)
{
	const uint32_t all = LX_ECHOK | LX_ECHOKE | LX_ECHOE;

	if (!lflag(t, LX_ECHO)) {
		t->head = t->canon;
		return;
	}
	if ((t->termios.c_lflag & all) != all) {
		t->head = t->canon;
		finish_erasing(t);
		echo_char(t, t->termios.c_cc[LX_VKILL]);
		if (lflag(t, LX_ECHOK))
			echo_raw(t, '\n');
		return;
	}
	while (t->head != t->canon) {
		uint32_t size = erase_char(t);

		if (size == 0)
			break;
		echo_erased(t, size, false);
	}
}

static void edit(struct tty *t, uint8_t c)
{
	if (t->head == t->canon)
		return;
	if (is_cc(t, LX_VERASE, c)) {
		uint32_t size = erase_char(t);

		if (size && lflag(t, LX_ECHO))
			echo_erased(t, size, true);
	} else if (is_cc(t, LX_VKILL, c)) {
		erase_line(t);
	} else {
		erase_word(t);
	}
	if (t->head == t->canon && lflag(t, LX_ECHO))
		finish_erasing(t);
}

static void reprint(struct tty *t, uint8_t c)
{
	finish_erasing(t);
	echo_char(t, c);
	echo_raw(t, '\n');
	for (uint32_t p = t->canon; p != t->head; p++)
		echo_char(t, line_at(t, p));
}

/* ---- receiving ---- */

/* @newline: it was made of a carriage return, and is shown as a new line, not as ^J. */
static void receive_plain(struct tty *t, uint8_t c, bool newline)
{
	if (lflag(t, LX_ECHO)) {
		finish_erasing(t);
		if (newline) {
			echo_raw(t, '\n');
		} else {
			echo_begin(t);
			echo_char(t, c);
		}
	}
	queue_data(t, c);
}

/* True if @c was one that edits or ends a line. */
static bool receive_canonical(struct tty *t, uint8_t c)
{
	bool ext = lflag(t, LX_IEXTEN);

	if (is_cc(t, LX_VERASE, c) || is_cc(t, LX_VKILL, c) || (ext && is_cc(t, LX_VWERASE, c))) {
		edit(t, c);
		return true;
	}
	if (ext && is_cc(t, LX_VLNEXT, c)) {
		t->lnext = true;
		if (lflag(t, LX_ECHO)) {
			finish_erasing(t);
			if (lflag(t, LX_ECHOCTL)) {
				echo_raw(t, '^');
				echo_raw(t, '\b');
			}
		}
		return true;
	}
	if (ext && lflag(t, LX_ECHO) && is_cc(t, LX_VREPRINT, c)) {
		reprint(t, c);
		return true;
	}
	if (c == '\n') {
		if (lflag(t, LX_ECHO | LX_ECHONL))
			echo_raw(t, '\n');
		queue_end(t, c);
		return true;
	}
	if (is_cc(t, LX_VEOF, c)) {
		queue_end(t, 0);
		return true;
	}
	if (is_cc(t, LX_VEOL, c) || (ext && is_cc(t, LX_VEOL2, c))) {
		if (lflag(t, LX_ECHO)) {
			echo_begin(t);
			echo_char(t, c);
		}
		if (c == 0377 && iflag(t, LX_PARMRK))
			queue(t, c);
		queue_end(t, c);
		return true;
	}
	return false;
}

static int signal_of(const struct tty *t, uint8_t c)
{
	if (!lflag(t, LX_ISIG))
		return 0;
	if (is_cc(t, LX_VINTR, c))
		return LX_SIGINT;
	if (is_cc(t, LX_VQUIT, c))
		return LX_SIGQUIT;
	if (is_cc(t, LX_VSUSP, c))
		return LX_SIGTSTP;
	return 0;
}

static void receive_signal(struct tty *t, uint8_t c)
{
	if (!lflag(t, LX_NOFLSH)) {
		t->echo.tail = t->echo.head;
		t->ops->flush_output(t);
		ldisc_flush_input_locked(t);
	}
	if (iflag(t, LX_IXON))
		tty_start_locked(t);
	if (lflag(t, LX_ECHO))
		echo_char(t, c);
}

/* One character of input: the signal that it makes, or 0. */
static int receive(struct tty *t, uint8_t c)
{
	bool newline = false;
	int sig;

	if (iflag(t, LX_ISTRIP))
		c &= 0x7f;
	if (t->lnext) {
		t->lnext = false;
		if (iflag(t, LX_IUCLC) && lflag(t, LX_IEXTEN))
			c = to_lower(c);
		receive_plain(t, c, false);
		return 0;
	}
	if (iflag(t, LX_IUCLC) && lflag(t, LX_IEXTEN))
		c = to_lower(c);
	if (lflag(t, LX_EXTPROC)) {
		queue(t, c);
		return 0;
	}
	if (iflag(t, LX_IXON)) {
		if (is_cc(t, LX_VSTART, c)) {
			tty_start_locked(t);
			return 0;
		}
		if (is_cc(t, LX_VSTOP, c)) {
			tty_stop_locked(t);
			return 0;
		}
	}
	sig = signal_of(t, c);
	if (sig) {
		receive_signal(t, c);
		return sig;
	}
	if (t->stopped && iflag(t, LX_IXON) && iflag(t, LX_IXANY))
		tty_start_locked(t);
	if (c == '\r') {
		if (iflag(t, LX_IGNCR))
			return 0;
		if (iflag(t, LX_ICRNL)) {
			c = '\n';
			newline = true;
		}
	} else if (c == '\n' && iflag(t, LX_INLCR)) {
		c = '\r';
	}
	if (!lflag(t, LX_ICANON) || !receive_canonical(t, c))
		receive_plain(t, c, newline);
	return 0;
}

/* May one more character come? A line that is too long loses its last one for it. */
static bool make_room(struct tty *t)
{
	uint32_t used = t->head - t->tail;
	/* A doubled 0377 must fit too. */
	uint32_t keep = iflag(t, LX_PARMRK) ? 3 : 1;

	if (used + keep < TTY_LINE_MAX)
		return true;
	if (!tty_canonical(t) || t->canon != t->tail)
		return false;
	while (t->head - t->tail + keep > TTY_LINE_MAX)
		t->head--;
	return true;
}

int ldisc_receive_locked(struct tty *t)
{
	bool took = false;
	int sig = 0;
	uint8_t c;

	while (!sig && tty_ring_count(&t->in) && make_room(t)) {
		(void)tty_ring_get(&t->in, &c, 1);
		sig = receive(t, c);
		took = true;
	}
	ldisc_flush_echo_locked(t);
	if (took && !tty_canonical(t) && t->head != t->tail)
		waitq_wake(&t->read_wait, TTY_READ_EVENTS);
	return sig;
}

/* ---- reading ---- */

bool ldisc_readable_locked(const struct tty *t, bool poll)
{
	const uint8_t *cc = t->termios.c_cc;

	if (tty_canonical(t))
		return t->canon != t->tail;
	return t->head - t->tail >= (poll && !cc[LX_VTIME] && cc[LX_VMIN] ? cc[LX_VMIN] : 1u);
}

size_t ldisc_count_locked(const struct tty *t)
{
	size_t n;

	if (!tty_canonical(t))
		return t->head - t->tail;
	n = t->canon - t->tail;
	for (uint32_t p = t->tail; p != t->canon; p++) {
		if (is_end(t, p) && line_at(t, p) == 0)
			n--;
	}
	return n;
}

size_t ldisc_take_locked(struct tty *t, uint8_t *buf, size_t size, bool last, bool *ended)
{
	bool canonical = tty_canonical(t);
	uint32_t stop = canonical ? t->canon : t->head;
	size_t n = 0;

	*ended = false;
	while (n < size && t->tail != stop && !*ended) {
		uint8_t c = line_at(t, t->tail);

		if (canonical && is_end(t, t->tail)) {
			*ended = true;
			set_end(t, t->tail, false);
			t->tail++;
			/* EOF itself is not given. */
			if (c != 0)
				buf[n++] = c;
			break;
		}
		buf[n++] = c;
		t->tail++;
	}
	/* An EOF that comes when the buffer is just full has done its work. */
	if (canonical && last && n == size && !*ended && t->tail != t->canon &&
	    is_end(t, t->tail) && line_at(t, t->tail) == 0) {
		set_end(t, t->tail, false);
		t->tail++;
	}
	return n;
}

/* ---- settings ---- */

void ldisc_changed_locked(struct tty *t, const struct lx_termios2 *old)
{
	if ((old->c_lflag ^ t->termios.c_lflag) & (LX_ICANON | LX_EXTPROC)) {
		memset(t->ends, 0, sizeof(t->ends));
		if (!lflag(t, LX_ICANON) || t->head == t->tail) {
			t->canon = t->tail;
		} else {
			/* What was typed before is a line, though nothing ends it. */
			set_end(t, t->head - 1, true);
			t->canon = t->head;
		}
		t->erasing = t->lnext = false;
	}
	if (!iflag(t, LX_IXON) && (old->c_iflag & LX_IXON))
		tty_start_locked(t);
	if (t->ops->changed)
		t->ops->changed(t, old);
	waitq_wake_all(&t->write_wait, TTY_WRITE_EVENTS);
	waitq_wake_all(&t->read_wait, TTY_READ_EVENTS);
}
