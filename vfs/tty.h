/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals: what a guest sees of one, whatever stands behind it.
 *
 *   tty.c        lives of terminals, open files on them, reading, writing, waiting, hang-up
 *   tty_ldisc.c  the line discipline: from the hardware's bytes to lines, and output processing
 *   tty_ioctl.c  termios and the other ioctls
 *   tty_dev.c    /dev/tty and /dev/console
 *   pty.c        pseudo terminals: the "hardware" is the master's file
 *   devpts.c     the file system with their nodes
 *
 * Theory of operation: struct tty is the terminal side (of a pty: the slave). What stands behind it
 * (struct tty_ops) takes output bytes, and delivers input by tty_input(). Input waits in a ring,
 * from which the discipline takes it as far as it has room (tty_pump).
 *
 * What a terminal has to do with sessions is asked through struct tty_hooks, which the sentry sets.
 *
 * Locking: tty->lock (RANK_TTY) guards all of a terminal, the master's side of a pty too. It is a
 * short lock: user memory is copied to and from buffers outside of it, and it is dropped before a
 * hook is called, since signals are sent under a lock that comes before it. The fields session and
 * foreground belong to the hooks. One reader and one writer at a time have the turn (reading,
 * writing), so that lines and writes do not mix.
 *
 * References: termios(3), ioctl_tty(2), pty(7), tty(4), POSIX.1-2017 chapter 11.
 */
#ifndef MOAT_VFS_TTY_H
#define MOAT_VFS_TTY_H

#include "base/lx_signal.h"
#include "base/lx_tty.h"
#include "vfs/vfs.h"

struct tty;

#define TTY_LINE_MAX 4096u   /* input that is held for readers; a line's length with its end */
#define TTY_INPUT_MAX 16384u /* ... and what may wait before it */
#define TTY_ECHO_MAX 4096u
/* Output is written when there is room for the longest that one byte becomes: a tab. */
#define TTY_ROOM_MIN 8u

/* Bytes in a ring; the storage, of a power of two, belongs to the owner. */
struct tty_ring {
	uint8_t *data;
	uint32_t size, head, tail; /* both only grow */
};
uint32_t tty_ring_count(const struct tty_ring *r);
/* As many as fit, or as there are. */
uint32_t tty_ring_put(struct tty_ring *r, const uint8_t *buf, uint32_t size);
uint32_t tty_ring_get(struct tty_ring *r, uint8_t *buf, uint32_t size);

/* What stands behind a terminal. All but free and shown are called with tty->lock held. */
struct tty_ops {
	/* How many bytes write() takes now. */
	uint32_t (*room)(struct tty *t);
	/* Takes all of them. */
	void (*write)(struct tty *t, const uint8_t *buf, uint32_t size);
	/* Output that has not left yet: TIOCOUTQ, tcdrain. NULL: none ever. */
	uint32_t (*unsent)(struct tty *t);
	void (*flush_output)(struct tty *t);
	/* All may be NULL: */
	void (*flushed_input)(struct tty *t);
	void (*flow)(struct tty *t, bool stopped);
	void (*changed)(struct tty *t, const struct lx_termios2 *old);
	/* There is room for input again. */
	void (*input_room)(struct tty *t);
	/* A key of the foreground group's: @sig is about to be sent. */
	void (*signalled)(struct tty *t, int sig);
	/* The last file on it was closed; a first one opened. */
	void (*closed)(struct tty *t);
	void (*opened)(struct tty *t);
	/* A file on it, alive or not, was closed. */
	void (*released)(struct tty *t);
	/* May it be opened? -EIO. */
	int (*may_open)(struct tty *t);
	/* No lock held: the last reference went. */
	void (*free)(struct tty *t);
};

struct tty {
	struct ref ref;
	const struct tty_ops *ops;
	uint32_t major, minor; /* for TIOCGDEV and /proc */
	struct mutex lock;     /* RANK_TTY; guards what follows */
	struct waitq read_wait, write_wait, turn_wait;
	struct lx_termios2 termios, locked, initial;
	struct lx_winsize winsize;
	uint32_t opens;    /* files on the terminal side that are alive */
	uint32_t files;    /* ... and all of them */
	uint32_t hangups;  /* files that were opened before the latest are dead */
	bool other_closed; /* nothing stands behind it any more */
	bool exclusive;
	bool reading, writing; /* somebody has the turn */

	/* Output */
	bool stopped;                 /* by the STOP character or tcflow */
	bool flow_stopped;            /* by tcflow: only tcflow starts it again */
	uint32_t column, line_column; /* of the cursor; of it where the input line began */
	struct tty_ring echo;         /* echo that the hardware had no room for, processed */

	/* Input. Positions in line[] only grow. */
	struct tty_ring in;
	uint32_t head, tail;
	uint32_t canon;                   /* canonical: end of the last whole line */
	bool lnext;                       /* the next character is literal */
	bool erasing;                     /* between \ and / of ECHOPRT */
	uint64_t ends[TTY_LINE_MAX / 64]; /* which bytes of line[] end a line */
	uint8_t line[TTY_LINE_MAX];
	uint8_t in_data[TTY_INPUT_MAX];
	uint8_t echo_data[TTY_ECHO_MAX];

	/* Of the hooks: struct pid references. [the hooks' lock] */
	void *session, *foreground;
};

/* What tty code asks of tasks. No lock held in any of them. */
struct tty_hooks {
	/* The caller is about to read (LX_SIGTTIN), or to write or change (LX_SIGTTOU): 0 if it
	 * may; -EIO, or -ERESTARTSYS with the signal sent. */
	int (*check)(struct tty *t, int sig);
	/* The same of the terminal of whoever started moat, which somebody else of the host has. */
	int (*check_behind)(int sig);
	/* The caller's controlling terminal: is it @t? A reference, or NULL. */
	bool (*is_current)(struct tty *t);
	struct tty *(*current)(void);
	/* @t was opened without O_NOCTTY, for reading. */
	void (*opened)(struct tty *t);
	/* TIOCSCTTY (@steal: take it from another session), TIOCNOTTY: 0 or -errno. */
	int (*set)(struct tty *t, bool readable, bool steal, bool capable);
	int (*drop)(struct tty *t);
	/* Numbers, as the caller sees them; -errno. @force: do not ask whether it is the caller's
	 * own. */
	int (*get_pgrp)(struct tty *t, bool force, int32_t *out);
	int (*set_pgrp)(struct tty *t, int32_t pgrp);
	int (*get_sid)(struct tty *t, bool force, int32_t *out);
	/* To the foreground group. */
	void (*signal)(struct tty *t, int sig);
	/* The terminal goes: HUP and CONT to the session's leader, and the session is without one.
	 */
	void (*hangup)(struct tty *t);
};
extern const struct tty_hooks *g_tty_hooks; /* never NULL */

/* A terminal in storage of its owner's; one reference. */
void tty_init(struct tty *t, const struct tty_ops *ops, uint32_t major, uint32_t minor);
void tty_fini(struct tty *t); /* for ops->free */
struct tty *tty_get(struct tty *t);
void tty_put(struct tty *t); /* no lock held */

/* From behind: input bytes; how many were taken. May send signals: no lock held. */
size_t tty_input(struct tty *t, const uint8_t *buf, size_t size);
/* There is room for output again. */
void tty_output_room(struct tty *t);
/* Hangs up: all files on it are dead, the session loses it. */
void tty_hangup(struct tty *t);
/* SIGWINCH to the foreground group if it changed. */
void tty_set_winsize(struct tty *t, const struct lx_winsize *ws);

/* Opens the terminal side as @f: sets f->ops and f->priv. @noctty: never a controlling terminal. */
int tty_open(struct vfs_ctx *c, struct tty *t, struct file *f, bool noctty) MUST_USE;
/* The terminal of an open file, borrowed; NULL if it is none, or a master. */
struct tty *tty_of_file(const struct file *f);

/* The terminal that /dev/console is, a borrowed one; NULL: there is none. At start. */
void tty_set_console(struct tty *t);
/* Registers /dev/tty, /dev/console, ptmx, the pty slaves, and the file system devpts. */
void tty_register(void);

#endif
