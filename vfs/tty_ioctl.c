/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ioctls of terminals: settings, sizes, job control, flow.
 *
 * Most of what is asked through a pty's master is meant for the slave; what is the master's own is
 * in vfs/pty.c. Modem lines, breaks and delays do not exist on any of our terminals.
 *
 * References: ioctl_tty(2), termios(3).
 */
#include "vfs/tty_internal.h"

#include <errno.h>
#include <string.h>

/* ---- settings ---- */

static const uint32_t g_speeds[] = {0,   50,   75,   110,  134,  150,  200,   300,
				    600, 1200, 1800, 2400, 4800, 9600, 19200, 38400};
static const uint32_t g_fast_speeds[] = {0,       57600,   115200,  230400,  460800,  500000,
					 576000,  921600,  1000000, 1152000, 1500000, 2000000,
					 2500000, 3000000, 3500000, 4000000};

/* Of the bits of CBAUD; @other: what BOTHER says. */
static uint32_t speed_of(uint32_t bits, uint32_t other)
{
	bits &= LX_CBAUD;
	if (bits == LX_BOTHER)
		return other;
	return bits & LX_CBAUDEX ? g_fast_speeds[bits & 017] : g_speeds[bits & 017];
}

static void set_speeds(struct lx_termios2 *s)
{
	uint32_t in = s->c_cflag >> LX_IBSHIFT & LX_CBAUD;

	s->c_ospeed = speed_of(s->c_cflag, s->c_ospeed);
	s->c_ispeed = in == 0 ? s->c_ospeed : speed_of(in, s->c_ispeed);
}

/* What is locked stays as it was. */
static void keep_locked(struct lx_termios2 *s, const struct lx_termios2 *old,
			const struct lx_termios2 *lock)
{
#define KEEP(f) (s->f = (s->f & ~lock->f) | (old->f & lock->f))
	KEEP(c_iflag);
	KEEP(c_oflag);
	KEEP(c_cflag);
	KEEP(c_lflag);
#undef KEEP
	s->c_line = lock->c_line ? old->c_line : s->c_line;
	for (unsigned i = 0; i < LX_NCCS; i++)
		s->c_cc[i] = lock->c_cc[i] ? old->c_cc[i] : s->c_cc[i];
}

static void get_settings(struct tty *t, struct lx_termios2 *out)
{
	mutex_lock(&t->lock);
	*out = t->termios;
	mutex_unlock(&t->lock);
}

static void apply_settings(struct tty *t, const struct lx_termios2 *new)
{
	struct lx_termios2 old;

	mutex_lock(&t->lock);
	old = t->termios;
	t->termios = *new;
	set_speeds(&t->termios);
	keep_locked(&t->termios, &old, &t->locked);
	/* There is no wire that could carry fewer bits or parity. */
	t->termios.c_cflag = (t->termios.c_cflag & ~(LX_CSIZE | LX_PARENB)) | LX_CS8 | LX_CREAD;
	ldisc_changed_locked(t, &old);
	mutex_unlock(&t->lock);
	/* More input may have become acceptable. */
	tty_pump(t);
}

enum settings_form { FORM_TERMIOS, FORM_TERMIOS2, FORM_TERMIO };

static int copy_settings_in(const struct umem *um, uint64_t arg, enum settings_form form,
			    struct lx_termios2 *s)
{
	struct lx_termio io;
	int r;

	if (form != FORM_TERMIO)
		return umem_copy_in(um, s, GADDR(arg),
				    form == FORM_TERMIOS2 ? sizeof(*s) : LX_TERMIOS_SIZE);
	r = umem_copy_in(um, &io, GADDR(arg), sizeof(io));
	if (r)
		return r;
	s->c_iflag = (s->c_iflag & 0xffff0000) | io.c_iflag;
	s->c_oflag = (s->c_oflag & 0xffff0000) | io.c_oflag;
	s->c_cflag = (s->c_cflag & 0xffff0000) | io.c_cflag;
	s->c_lflag = (s->c_lflag & 0xffff0000) | io.c_lflag;
	s->c_line = io.c_line;
	memcpy(s->c_cc, io.c_cc, LX_NCC);
	return 0;
}

static int copy_settings_out(const struct umem *um, uint64_t arg, enum settings_form form,
			     const struct lx_termios2 *s)
{
	struct lx_termio io;

	if (form != FORM_TERMIO)
		return umem_copy_out(um, GADDR(arg), s,
				     form == FORM_TERMIOS2 ? sizeof(*s) : LX_TERMIOS_SIZE);
	memset(&io, 0, sizeof(io));
	io.c_iflag = (uint16_t)s->c_iflag;
	io.c_oflag = (uint16_t)s->c_oflag;
	io.c_cflag = (uint16_t)s->c_cflag;
	io.c_lflag = (uint16_t)s->c_lflag;
	io.c_line = s->c_line;
	memcpy(io.c_cc, s->c_cc, LX_NCC);
	/* The last byte is padding, which the kernel leaves alone. */
	return umem_copy_out(um, GADDR(arg), &io, offsetof(struct lx_termio, pad));
}

/* @wait: after all output has left; @flush: forgetting input too. */
static long set_settings(struct tty *t, uint64_t arg, const struct umem *um,
			 enum settings_form form, bool wait, bool flush)
{
	struct lx_termios2 s;
	int r = g_tty_hooks->check(t, LX_SIGTTOU);

	if (r)
		return r;
	get_settings(t, &s);
	r = copy_settings_in(um, arg, form, &s);
	if (r)
		return r;
	if (flush) {
		r = tty_flush(t, LX_TCIFLUSH);
		if (r)
			return r;
	}
	if (wait) {
		r = tty_drain(t);
		if (r)
			return r;
	}
	apply_settings(t, &s);
	return 0;
}

static long locked_settings(struct vfs_ctx *c, struct tty *t, bool set, uint64_t arg,
			    const struct umem *um)
{
	struct lx_termios2 s;
	int r;

	if (!set) {
		mutex_lock(&t->lock);
		s = t->locked;
		mutex_unlock(&t->lock);
		return umem_copy_out(um, GADDR(arg), &s, LX_TERMIOS_SIZE);
	}
	if (!cred_capable(c->cred, LX_CAP_SYS_ADMIN) &&
	    !cred_capable(c->cred, LX_CAP_CHECKPOINT_RESTORE))
		return -EPERM;
	memset(&s, 0, sizeof(s));
	r = umem_copy_in(um, &s, GADDR(arg), LX_TERMIOS_SIZE);
	if (r)
		return r;
	mutex_lock(&t->lock);
	t->locked = s;
	mutex_unlock(&t->lock);
	return 0;
}

static long soft_carrier(struct tty *t, bool set, uint64_t arg, const struct umem *um)
{
	struct lx_termios2 s;
	int32_t v;
	int r;

	get_settings(t, &s);
	if (!set) {
		v = s.c_cflag & LX_CLOCAL ? 1 : 0;
		return umem_copy_out(um, GADDR(arg), &v, sizeof(v));
	}
	r = umem_copy_in(um, &v, GADDR(arg), sizeof(v));
	if (r)
		return r;
	s.c_cflag = v ? s.c_cflag | LX_CLOCAL : s.c_cflag & ~LX_CLOCAL;
	apply_settings(t, &s);
	return 0;
}

static long mode_ioctl(struct vfs_ctx *c, struct tty *t, unsigned cmd, uint64_t arg,
		       const struct umem *um)
{
	struct lx_termios2 s;

	switch (cmd) {
	case LX_TCGETS:
		get_settings(t, &s);
		return copy_settings_out(um, arg, FORM_TERMIOS, &s);
	case LX_TCGETS2:
		get_settings(t, &s);
		return copy_settings_out(um, arg, FORM_TERMIOS2, &s);
	case LX_TCGETA:
		get_settings(t, &s);
		return copy_settings_out(um, arg, FORM_TERMIO, &s);
	case LX_TCSETS:
		return set_settings(t, arg, um, FORM_TERMIOS, false, false);
	case LX_TCSETSW:
		return set_settings(t, arg, um, FORM_TERMIOS, true, false);
	case LX_TCSETSF:
		return set_settings(t, arg, um, FORM_TERMIOS, true, true);
	case LX_TCSETS2:
		return set_settings(t, arg, um, FORM_TERMIOS2, false, false);
	case LX_TCSETSW2:
		return set_settings(t, arg, um, FORM_TERMIOS2, true, false);
	case LX_TCSETSF2:
		return set_settings(t, arg, um, FORM_TERMIOS2, true, true);
	case LX_TCSETA:
		return set_settings(t, arg, um, FORM_TERMIO, false, false);
	case LX_TCSETAW:
		return set_settings(t, arg, um, FORM_TERMIO, true, false);
	case LX_TCSETAF:
		return set_settings(t, arg, um, FORM_TERMIO, true, true);
	case LX_TIOCGLCKTRMIOS:
	case LX_TIOCSLCKTRMIOS:
		return locked_settings(c, t, cmd == LX_TIOCSLCKTRMIOS, arg, um);
	case LX_TIOCGSOFTCAR:
	case LX_TIOCSSOFTCAR:
		return soft_carrier(t, cmd == LX_TIOCSSOFTCAR, arg, um);
	default:
		return -ENOTTY;
	}
}

/* ---- job control ---- */

static long set_pgrp(struct tty *t, uint64_t arg, const struct umem *um)
{
	int32_t pgrp;
	int r = g_tty_hooks->check(t, LX_SIGTTOU);

	if (r)
		return r == -EIO ? -ENOTTY : r;
	r = umem_copy_in(um, &pgrp, GADDR(arg), sizeof(pgrp));
	if (r)
		return r;
	return pgrp < 0 ? -EINVAL : g_tty_hooks->set_pgrp(t, pgrp);
}

static long job_ioctl(struct vfs_ctx *c, struct file *f, struct tty *t, bool master, unsigned cmd,
		      uint64_t arg, const struct umem *um)
{
	int32_t id;
	int r;

	switch (cmd) {
	case LX_TIOCSCTTY:
		return g_tty_hooks->set(t, f->fmode & FMODE_READ, arg == 1,
					cred_capable(c->cred, LX_CAP_SYS_ADMIN));
	case LX_TIOCNOTTY:
		return master ? -ENOTTY : g_tty_hooks->drop(t);
	case LX_TIOCGPGRP:
		r = g_tty_hooks->get_pgrp(t, master, &id);
		return r ? r : umem_copy_out(um, GADDR(arg), &id, sizeof(id));
	case LX_TIOCGSID:
		r = g_tty_hooks->get_sid(t, master, &id);
		return r ? r : umem_copy_out(um, GADDR(arg), &id, sizeof(id));
	case LX_TIOCSPGRP:
		return set_pgrp(t, arg, um);
	default:
		return -ENOTTY;
	}
}

/* ---- the rest ---- */

static long set_winsize(struct tty *t, uint64_t arg, const struct umem *um)
{
	struct lx_winsize ws;
	int r = umem_copy_in(um, &ws, GADDR(arg), sizeof(ws));

	if (r)
		return r;
	tty_set_winsize(t, &ws);
	return 0;
}

static long get_winsize(struct tty *t, uint64_t arg, const struct umem *um)
{
	struct lx_winsize ws;

	mutex_lock(&t->lock);
	ws = t->winsize;
	mutex_unlock(&t->lock);
	return umem_copy_out(um, GADDR(arg), &ws, sizeof(ws));
}

/* As if @arg's byte had been typed. Linux refuses it to the unprivileged altogether since 6.2 (a
 * program could type at the shell that started it). */
static long fake_input(struct vfs_ctx *c, struct tty *t, uint64_t arg, const struct umem *um)
{
	uint8_t ch;
	int r;

	if (!cred_capable(c->cred, LX_CAP_SYS_ADMIN))
		return -EIO;
	r = umem_copy_in(um, &ch, GADDR(arg), 1);
	if (r == 0)
		(void)tty_input(t, &ch, 1);
	return r;
}

static long flow(struct tty *t, uint64_t what)
{
	int r = g_tty_hooks->check(t, LX_SIGTTOU);

	if (r)
		return r;
	mutex_lock(&t->lock);
	switch (what) {
	case LX_TCOOFF:
		t->flow_stopped = true;
		tty_stop_locked(t);
		break;
	case LX_TCOON:
		if (t->flow_stopped) {
			t->flow_stopped = false;
			tty_start_locked(t);
		}
		break;
	case LX_TCIOFF:
	case LX_TCION: {
		uint8_t c = t->termios.c_cc[what == LX_TCIOFF ? LX_VSTOP : LX_VSTART];

		/* It goes ahead of all else; without room it is as if it were lost on the wire. */
		if (c && t->ops->room(t))
			t->ops->write(t, &c, 1);
		break;
	}
	default:
		r = -EINVAL;
		break;
	}
	mutex_unlock(&t->lock);
	return r;
}

/* Sending a break: there is no line to hold, but what was written goes out before. */
static long send_break(struct tty *t, bool master)
{
	int r;

	if (master)
		return 0;
	r = g_tty_hooks->check(t, LX_SIGTTOU);
	if (r)
		return r;
	r = tty_drain(t);
	return r == -ERESTARTSYS ? -EINTR : r;
}

static long set_discipline(struct tty *t, bool master, uint64_t arg, const struct umem *um)
{
	int32_t n;
	int r = umem_copy_in(um, &n, GADDR(arg), sizeof(n));

	if (r)
		return r;
	r = (int)send_break(t, master);
	if (r)
		return r;
	return n == 0 ? 0 : -EINVAL;
}

static long get_u32(struct tty *t, unsigned cmd, uint64_t arg, const struct umem *um)
{
	uint32_t v = 0;

	mutex_lock(&t->lock);
	switch (cmd) {
	case LX_TIOCGDEV:
		v = (uint32_t)lx_makedev(t->major, t->minor);
		break;
	case LX_TIOCGEXCL:
		v = t->exclusive;
		break;
	case LX_TIOCOUTQ:
		v = t->ops->unsent ? t->ops->unsent(t) : 0;
		break;
	case LX_TIOCINQ:
		v = (uint32_t)ldisc_count_locked(t);
		break;
	default: /* TIOCGETD: N_TTY */
		break;
	}
	mutex_unlock(&t->lock);
	return umem_copy_out(um, GADDR(arg), &v, sizeof(v));
}

long tty_ioctl_common(struct vfs_ctx *c, struct file *f, struct tty *t, bool master, unsigned cmd,
		      uint64_t arg, const struct umem *um)
{
	long r;

	switch (cmd) {
	case LX_TIOCGWINSZ:
		return get_winsize(t, arg, um);
	case LX_TIOCSWINSZ:
		return set_winsize(t, arg, um);
	case LX_TIOCGDEV:
	case LX_TIOCGETD:
		return get_u32(t, cmd, arg, um);
	case LX_TIOCSETD:
		return set_discipline(t, master, arg, um);
	case LX_TCSBRK:
	case LX_TCSBRKP:
	case LX_TIOCSBRK:
		return send_break(t, master);
	case LX_TIOCCBRK:
		return master ? 0 : g_tty_hooks->check(t, LX_SIGTTOU);
	default:
		r = job_ioctl(c, f, t, master, cmd, arg, um);
		if (r == -ENOTTY)
			r = mode_ioctl(c, t, cmd, arg, um);
		return r;
	}
}

long tty_ioctl(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg, const struct umem *um)
{
	struct tty_file *tf = f->priv;
	struct tty *t = tf->tty;
	int r;

	if (tty_file_hung(f))
		return cmd == LX_TIOCSPGRP ? -ENOTTY : -EIO;
	switch (cmd) {
	case LX_TIOCSTI:
		return fake_input(c, t, arg, um);
	case LX_TIOCEXCL:
	case LX_TIOCNXCL:
		mutex_lock(&t->lock);
		t->exclusive = cmd == LX_TIOCEXCL;
		mutex_unlock(&t->lock);
		return 0;
	case LX_TIOCGEXCL:
	case LX_TIOCOUTQ:
	case LX_TIOCINQ:
		return get_u32(t, cmd, arg, um);
	case LX_TIOCCONS:
		/* The kernel says nothing to its console that could be caught. */
		return cred_capable(c->cred, LX_CAP_SYS_ADMIN) ? 0 : -EPERM;
	case LX_TIOCVHANGUP:
		if (!cred_capable(c->cred, LX_CAP_SYS_ADMIN))
			return -EPERM;
		tty_hangup(t);
		return 0;
	case LX_TCXONC:
		return flow(t, arg);
	case LX_TCFLSH:
		r = g_tty_hooks->check(t, LX_SIGTTOU);
		return r ? r : tty_flush(t, arg > LX_TCIOFLUSH ? LX_TCIOFLUSH + 1 : (unsigned)arg);
	default:
		return tty_ioctl_common(c, f, t, false, cmd, arg, um);
	}
}
