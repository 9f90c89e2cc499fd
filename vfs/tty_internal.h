/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of the terminals: the line discipline, and what its users share.
 *
 * Functions named _locked want tty->lock held. (Clang cannot name a member's lock in an attribute
 * of a function declared before the struct's use, so the ranks check it in debug builds.)
 */
#ifndef MOAT_VFS_TTY_INTERNAL_H
#define MOAT_VFS_TTY_INTERNAL_H

#include "vfs/tty.h"

#define TTY_READ_EVENTS (LX_POLLIN | LX_POLLRDNORM)
#define TTY_WRITE_EVENTS (LX_POLLOUT | LX_POLLWRNORM)

extern const struct lx_termios2 g_tty_std_termios;

/* ---- tty_ldisc.c ---- */

/* Takes input from t->in, as far as there is room in the line buffer. Returns at a character that
 * makes a signal, which the caller sends before it goes on; else 0. */
int ldisc_receive_locked(struct tty *t);
/* Processes output; the bytes of @buf that were taken. */
uint32_t ldisc_write_locked(struct tty *t, const uint8_t *buf, uint32_t size);
/* Room for output, 0 while it is stopped or echo waits. */
uint32_t ldisc_room_locked(struct tty *t);
/* Echo that waits goes out as far as there is room. */
void ldisc_flush_echo_locked(struct tty *t);
/* Bytes that a read could get (canonical: of whole lines); TIOCINQ. */
size_t ldisc_count_locked(const struct tty *t);
/* Is there what a read waits for? @poll: count on VMIN. */
bool ldisc_readable_locked(const struct tty *t, bool poll);
/* Up to @size > 0 bytes of what is readable. *ended: a line's end was reached (canonical). @last:
 * the reader's buffer ends here. */
size_t ldisc_take_locked(struct tty *t, uint8_t *buf, size_t size, bool last, bool *ended);
/* Forgets all input that was not read. */
void ldisc_flush_input_locked(struct tty *t);
/* t->termios was changed from *old. */
void ldisc_changed_locked(struct tty *t, const struct lx_termios2 *old);
void tty_start_locked(struct tty *t);
void tty_stop_locked(struct tty *t);

static inline bool tty_canonical(const struct tty *t)
{
	return (t->termios.c_lflag & (LX_ICANON | LX_EXTPROC)) == LX_ICANON;
}

/* ---- tty.c ---- */

/* An open file on the terminal side. */
struct tty_file {
	struct tty *tty;
	uint32_t hangups; /* of the terminal when it was opened */
};

bool tty_file_hung(const struct file *f);
/* Lets the discipline have what waits, and sends the signals that come of it. No lock held. */
void tty_pump(struct tty *t);
/* Waits until all output has left. 0, -ERESTARTSYS. */
int tty_drain(struct tty *t);
/* TCFLSH. */
int tty_flush(struct tty *t, unsigned what);
/* Waits for the turn: *flag is t->reading or t->writing. -EAGAIN, -ERESTARTSYS. */
int tty_turn_get(struct tty *t, bool *flag, bool nonblock) MUST_USE;
void tty_turn_put(struct tty *t, bool *flag);
bool tty_nonblock(const struct file *f);
/* All of @u by @piece, which gives the bytes that it wrote, or -errno if none; bytes, or -errno
 * if none. For who has the turn. */
ssize_t tty_write_pieces(struct file *f, struct uio *u,
			 ssize_t (*piece)(struct file *f, const uint8_t *buf, size_t size));
/* Times of the node, to 8 seconds, as Linux keeps them (a finer one would tell of keystrokes). */
void tty_touch(struct file *f, bool written);

/* ---- tty_ioctl.c ---- */

/* The ioctls of the terminal @t through @f. @master: by the other side of a pty. -ENOTTY. */
long tty_ioctl_common(struct vfs_ctx *c, struct file *f, struct tty *t, bool master, unsigned cmd,
		      uint64_t arg, const struct umem *um);
long tty_ioctl(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg,
	       const struct umem *um);

/* ---- pty.c, tty_dev.c ---- */

void pty_register(void);

#endif
