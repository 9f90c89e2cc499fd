/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pseudo terminals: the master's side, and opening either side.
 *
 * Theory of operation: what the slave writes stands in a ring until the master reads it; what the
 * master writes goes through tty_input() at once, as far as the slave takes it. A master is closed
 * once and for good: its slave is hung up and its node vanishes; the number is free again when the
 * slave's last file is closed too. The last close of the slave only shows on the master (POLLHUP,
 * EIO once all is read) until somebody opens it again.
 *
 * References: the node's inode (devpts) holds the pty, the pty holds the inode until the master is
 * closed; that breaks the circle.
 *
 * Locking: tty.lock for everything here.
 *
 * References: pty(7), pts(4), ioctl_tty(2) on packet mode.
 */
#include "vfs/pty.h"
#include "vfs/chrdev.h"
#include "vfs/dcache.h"
#include "vfs/tty_internal.h"

#include "base/err.h"
#include "base/meter.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MAJOR_PTS 136
#define OUT_RING 32768u

struct pty {
	struct tty tty;
	struct super *fs; /* a reference */
	uint32_t index;
	struct inode *node;                 /* a reference; NULL once the master is closed */
	struct waitq read_wait, write_wait; /* of the master */
	/* [tty.lock] from here on */
	bool reading, writing;
	bool locked;       /* TIOCSPTLCK: the slave cannot be opened */
	bool slave_closed; /* it was open, and is no more */
	bool stopped;      /* tcflow on the master */
	bool packet;
	uint8_t status; /* packet mode: TIOCPKT_* not yet told */
	bool number_free;
	struct tty_ring out;
	uint8_t out_data[OUT_RING];
};

static struct pty *pty_of(struct tty *t)
{
	return container_of(t, struct pty, tty);
}

static struct pty *master_of(const struct file *f)
{
	return f->priv;
}

/* ---- the slave's hardware ---- */

static void tell(struct pty *p, uint8_t set, uint8_t clear)
{
	if (!p->packet)
		return;
	p->status = (uint8_t)((p->status & ~clear) | set);
	waitq_wake(&p->read_wait, TTY_READ_EVENTS | LX_POLLPRI);
}

static uint32_t pty_room(struct tty *t)
{
	struct pty *p = pty_of(t);

	/* Without a master nobody will read it; a hung-up file does not get here. */
	return t->other_closed ? 0 : PTY_OUTPUT_MAX - tty_ring_count(&p->out);
}

static void pty_write(struct tty *t, const uint8_t *buf, uint32_t size)
{
	struct pty *p = pty_of(t);

	(void)tty_ring_put(&p->out, buf, size);
	waitq_wake(&p->read_wait, TTY_READ_EVENTS);
}

static void pty_flush_output(struct tty *t)
{
	struct pty *p = pty_of(t);

	/* What a read of the master could have had by now is not taken back, as in Linux. */
	if (tty_ring_count(&p->out) > PTY_READ_MAX)
		p->out.head = p->out.tail + PTY_READ_MAX;
	tell(p, LX_TIOCPKT_FLUSHWRITE, 0);
}

static void pty_flushed_input(struct tty *t)
{
	tell(pty_of(t), LX_TIOCPKT_FLUSHREAD, 0);
}

static void pty_flow(struct tty *t, bool stopped)
{
	if (stopped)
		tell(pty_of(t), LX_TIOCPKT_STOP, LX_TIOCPKT_START);
	else
		tell(pty_of(t), LX_TIOCPKT_START, LX_TIOCPKT_STOP);
}

/* Can a user stop output with ^S and start it with ^Q? */
static bool usual_flow(const struct lx_termios2 *s)
{
	return (s->c_iflag & LX_IXON) && s->c_cc[LX_VSTOP] == ('S' & 037) &&
	       s->c_cc[LX_VSTART] == ('Q' & 037);
}

static void pty_changed(struct tty *t, const struct lx_termios2 *old)
{
	struct pty *p = pty_of(t);
	bool is = usual_flow(&t->termios);

	if (is != usual_flow(old))
		tell(p, is ? LX_TIOCPKT_DOSTOP : LX_TIOCPKT_NOSTOP,
		     LX_TIOCPKT_DOSTOP | LX_TIOCPKT_NOSTOP);
	if ((old->c_lflag | t->termios.c_lflag) & LX_EXTPROC)
		tell(p, LX_TIOCPKT_IOCTL, 0);
}

static void pty_input_room(struct tty *t)
{
	waitq_wake(&pty_of(t)->write_wait, TTY_WRITE_EVENTS);
}

/* The number can be given to another pty when nobody has this one open. */
static void free_number(struct tty *t)
{
	struct pty *p = pty_of(t);

	if (!p->number_free && t->other_closed && t->files == 0) {
		p->number_free = true;
		devpts_release(p->fs, p->index);
	}
}

static void pty_closed(struct tty *t)
{
	struct pty *p = pty_of(t);

	p->slave_closed = true;
	waitq_wake_all(&p->read_wait, LX_POLLHUP | TTY_READ_EVENTS);
}

static void pty_opened(struct tty *t)
{
	pty_of(t)->slave_closed = false;
}

static int pty_may_open(struct tty *t)
{
	return t->other_closed || pty_of(t)->locked ? -EIO : 0;
}

static void pty_free(struct tty *t)
{
	struct pty *p = pty_of(t);
	struct super *fs = p->fs;

	waitq_fini(&p->read_wait);
	waitq_fini(&p->write_wait);
	tty_fini(t);
	mem_free(p);
	meter_uncharge(METER_buffers, sizeof(*p));
	super_put(fs);
}

static const struct tty_ops g_pty_ops = {
	.room = pty_room,
	.write = pty_write,
	.flush_output = pty_flush_output,
	.flushed_input = pty_flushed_input,
	.flow = pty_flow,
	.changed = pty_changed,
	.input_room = pty_input_room,
	.closed = pty_closed,
	.opened = pty_opened,
	.released = free_number,
	.may_open = pty_may_open,
	.free = pty_free,
};

/* ---- the master: reading and writing ---- */

static bool master_readable_locked(const struct pty *p)
{
	return tty_ring_count(&p->out) || (p->packet && p->status);
}

static bool master_read_ready(struct pty *p)
{
	bool ready;

	mutex_lock(&p->tty.lock);
	ready = master_readable_locked(p) || p->slave_closed || p->tty.other_closed;
	mutex_unlock(&p->tty.lock);
	return ready;
}

/* One look: bytes in @buf, -EIO: the end, -EAGAIN. @size > 0. */
static ssize_t master_take(struct pty *p, uint8_t *buf, size_t size)
{
	ssize_t n = -EAGAIN;

	mutex_lock(&p->tty.lock);
	if (p->packet && p->status) {
		buf[0] = p->status;
		p->status = 0;
		n = 1;
	} else if (tty_ring_count(&p->out)) {
		n = 0;
		if (p->packet)
			buf[n++] = LX_TIOCPKT_DATA;
		n += tty_ring_get(&p->out, buf + n, (uint32_t)(size - (size_t)n));
	} else if (p->slave_closed || p->tty.other_closed) {
		n = -EIO;
	}
	mutex_unlock(&p->tty.lock);
	return n;
}

static ssize_t master_read_turn(struct file *f, struct pty *p, struct uio *u)
{
	uint8_t buf[PTY_READ_MAX];
	size_t size = (size_t)MIN(u->resid, (uint64_t)sizeof(buf));
	ssize_t n;

	while ((n = master_take(p, buf, size)) == -EAGAIN) {
		int r;

		if (tty_nonblock(f))
			return -EAGAIN;
		r = wait_event(&p->read_wait, master_read_ready(p), DEADLINE_NONE, WAIT_INTR);
		if (r)
			return r;
	}
	if (n < 0)
		return n;
	tty_output_room(&p->tty);
	return uio_put(u, buf, (size_t)n) < n ? -EFAULT : n;
}

static ssize_t master_read(struct file *f, struct uio *u, int64_t *pos UNUSED)
{
	struct pty *p = master_of(f);
	ssize_t r;

	if (u->resid == 0)
		return 0;
	r = tty_turn_get(&p->tty, &p->reading, tty_nonblock(f));
	if (r)
		return r;
	r = master_read_turn(f, p, u);
	tty_turn_put(&p->tty, &p->reading);
	if (r > 0)
		tty_touch(f, false);
	return r;
}

static bool master_writable_locked(const struct pty *p)
{
	return !p->stopped && tty_ring_count(&p->tty.in) < p->tty.in.size;
}

static bool master_write_ready(struct pty *p)
{
	bool ready;

	mutex_lock(&p->tty.lock);
	ready = master_writable_locked(p) || p->tty.other_closed;
	mutex_unlock(&p->tty.lock);
	return ready;
}

static ssize_t master_write_piece(struct file *f, const uint8_t *buf, size_t size)
{
	struct pty *p = master_of(f);
	size_t done = 0;

	for (;;) {
		bool stopped, gone;
		int r;

		mutex_lock(&p->tty.lock);
		stopped = p->stopped;
		gone = p->tty.other_closed;
		mutex_unlock(&p->tty.lock);
		if (gone)
			return done ? (ssize_t)done : -EIO;
		if (!stopped)
			done += tty_input(&p->tty, buf + done, size - done);
		if (done == size)
			return (ssize_t)done;
		if (tty_nonblock(f))
			return done ? (ssize_t)done : -EAGAIN;
		r = wait_event(&p->write_wait, master_write_ready(p), DEADLINE_NONE, WAIT_INTR);
		if (r)
			return done ? (ssize_t)done : r;
	}
}

static ssize_t master_write(struct vfs_ctx *c UNUSED, struct file *f, struct uio *u,
			    int64_t *pos UNUSED)
{
	struct pty *p = master_of(f);
	ssize_t r = tty_turn_get(&p->tty, &p->writing, tty_nonblock(f));

	if (r)
		return r;
	r = tty_write_pieces(f, u, master_write_piece);
	tty_turn_put(&p->tty, &p->writing);
	if (r > 0)
		tty_touch(f, true);
	return r;
}

static uint32_t master_poll(struct file *f, struct poll_table *pt)
{
	struct pty *p = master_of(f);
	uint32_t ev = 0;

	poll_wait(pt, &p->read_wait);
	poll_wait(pt, &p->write_wait);
	mutex_lock(&p->tty.lock);
	if (p->packet && p->status)
		ev |= LX_POLLPRI;
	if (master_readable_locked(p))
		ev |= TTY_READ_EVENTS;
	if (p->slave_closed || p->tty.other_closed)
		ev |= LX_POLLHUP;
	if (master_writable_locked(p))
		ev |= TTY_WRITE_EVENTS;
	mutex_unlock(&p->tty.lock);
	return ev;
}

/* ---- the master: ioctl ---- */

static long set_flag(struct pty *p, bool *flag, uint64_t arg, const struct umem *um)
{
	int32_t v;
	int r = umem_copy_in(um, &v, GADDR(arg), sizeof(v));

	if (r)
		return r;
	mutex_lock(&p->tty.lock);
	if (flag == &p->packet && v && !p->packet)
		p->status = 0;
	*flag = v != 0;
	mutex_unlock(&p->tty.lock);
	return 0;
}

static long put_u32(const struct umem *um, uint64_t arg, uint32_t v)
{
	return umem_copy_out(um, GADDR(arg), &v, sizeof(v));
}

static long master_signal(struct pty *p, uint64_t arg)
{
	int sig = (int)arg;

	if (sig != LX_SIGINT && sig != LX_SIGQUIT && sig != LX_SIGTSTP)
		return -EINVAL;
	g_tty_hooks->signal(&p->tty, sig);
	return 0;
}

static long master_flush(struct pty *p, uint64_t what)
{
	if (what > LX_TCIOFLUSH)
		return -EINVAL;
	mutex_lock(&p->tty.lock);
	if (what != LX_TCOFLUSH)
		p->out.tail = p->out.head;
	if (what != LX_TCIFLUSH)
		p->tty.in.tail = p->tty.in.head;
	mutex_unlock(&p->tty.lock);
	tty_output_room(&p->tty);
	waitq_wake(&p->write_wait, TTY_WRITE_EVENTS);
	return 0;
}

static long master_flow(struct pty *p, uint64_t what)
{
	uint8_t c;

	switch (what) {
	case LX_TCOOFF:
	case LX_TCOON:
		mutex_lock(&p->tty.lock);
		p->stopped = what == LX_TCOOFF;
		mutex_unlock(&p->tty.lock);
		waitq_wake(&p->write_wait, TTY_WRITE_EVENTS);
		return 0;
	case LX_TCIOFF:
	case LX_TCION:
		c = g_tty_std_termios.c_cc[what == LX_TCIOFF ? LX_VSTOP : LX_VSTART];
		(void)tty_input(&p->tty, &c, 1);
		return 0;
	default:
		return -EINVAL;
	}
}

/* As if the slave had written it. */
static long master_fake_input(struct vfs_ctx *c, struct pty *p, uint64_t arg, const struct umem *um)
{
	uint8_t ch;
	int r;

	if (!cred_capable(c->cred, LX_CAP_SYS_ADMIN))
		return -EIO;
	r = umem_copy_in(um, &ch, GADDR(arg), 1);
	if (r)
		return r;
	mutex_lock(&p->tty.lock);
	if (pty_room(&p->tty))
		pty_write(&p->tty, &ch, 1);
	mutex_unlock(&p->tty.lock);
	return 0;
}

/* Makes the slave's file on its node below @root; there are no checks of permissions. */
static int open_peer(struct vfs_ctx *c, struct pty *p, const struct path *root, uint32_t flags,
		     struct file **out)
{
	static const struct file_ops none;
	static const unsigned modes[4] = {FMODE_READ, FMODE_WRITE, FMODE_READ | FMODE_WRITE, 0};
	struct path at = {.mnt = root->mnt};
	char name[16];
	struct file *f;
	int n = snprintf(name, sizeof(name), "%u", p->index);
	int r = dentry_lookup(root->dentry, name, (size_t)n, &at.dentry);

	if (r)
		return r;
	if (dentry_inode(at.dentry) != p->node) {
		dentry_put(at.dentry);
		return -EIO;
	}
	f = file_new(c, &at, &none, modes[flags & LX_O_ACCMODE],
		     flags & (LX_O_ACCMODE | LX_O_NONBLOCK | LX_O_APPEND | LX_O_LARGEFILE));
	dentry_put(at.dentry);
	if (!f)
		return file_new_error();
	r = tty_open(c, &p->tty, f, flags & LX_O_NOCTTY);
	if (r) {
		f->fmode = FMODE_PATH; /* it was never open */
		file_put(f);
		return r;
	}
	*out = f;
	return 0;
}

static long master_open_peer(struct vfs_ctx *c, struct file *f, struct pty *p, uint32_t flags)
{
	unsigned fdflags = flags & LX_O_CLOEXEC ? FD_CLOEXEC_FLAG : 0;
	struct file *peer;
	struct path root;
	int fd, r;

	if (!c->files)
		return -EBADF;
	fd = fd_reserve(c->files, fdflags, 0, c->nofile_limit ? c->nofile_limit : UINT64_MAX);
	if (fd < 0)
		return fd;
	r = devpts_of_ptmx(c, f, &root);
	if (r == 0) {
		r = open_peer(c, p, &root, flags, &peer);
		path_put(&root);
	}
	if (r) {
		fd_unreserve(c->files, fd);
		return r;
	}
	fd_fill(c->files, fd, peer);
	return fd;
}

/* The master is closed, or hung up as if it were. */
static void master_down(struct pty *p)
{
	struct tty *t = &p->tty;
	struct inode *node;

	mutex_lock(&t->lock);
	if (t->other_closed) {
		mutex_unlock(&t->lock);
		return;
	}
	t->other_closed = true;
	node = p->node;
	p->node = NULL;
	/* Readers that wait now get EIO; those who come later, an end of file. */
	waitq_wake_all(&t->read_wait, 0);
	mutex_unlock(&t->lock);
	devpts_remove(p->fs, p->index);
	inode_put(node);
	tty_hangup(t);
	mutex_lock(&t->lock);
	free_number(t);
	waitq_wake_all(&p->read_wait, 0);
	waitq_wake_all(&p->write_wait, 0);
	mutex_unlock(&t->lock);
}

static long master_ioctl(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg,
			 const struct umem *um)
{
	struct pty *p = master_of(f);
	uint32_t v;

	switch (cmd) {
	case LX_TIOCGPTN:
		return put_u32(um, arg, p->index);
	case LX_TIOCSPTLCK:
		return set_flag(p, &p->locked, arg, um);
	case LX_TIOCPKT:
		return set_flag(p, &p->packet, arg, um);
	case LX_TIOCGPTLCK:
	case LX_TIOCGPKT:
		mutex_lock(&p->tty.lock);
		v = cmd == LX_TIOCGPTLCK ? p->locked : p->packet;
		mutex_unlock(&p->tty.lock);
		return put_u32(um, arg, v);
	case LX_TIOCGPTPEER:
		return master_open_peer(c, f, p, (uint32_t)arg);
	case LX_TIOCSIG:
		return master_signal(p, arg);
	case LX_TIOCINQ:
		mutex_lock(&p->tty.lock);
		v = MIN(tty_ring_count(&p->out), PTY_READ_MAX);
		mutex_unlock(&p->tty.lock);
		return put_u32(um, arg, v);
	case LX_TIOCOUTQ:
	case LX_TIOCGEXCL:
		return put_u32(um, arg, 0);
	case LX_TIOCEXCL:
	case LX_TIOCNXCL:
		return 0; /* nobody can open a master again anyway */
	case LX_TIOCCONS:
		return -EINVAL;
	case LX_TCFLSH:
		return master_flush(p, arg);
	case LX_TCXONC:
		return master_flow(p, arg);
	case LX_TIOCSTI:
		return master_fake_input(c, p, arg, um);
	case LX_TIOCVHANGUP:
		if (!cred_capable(c->cred, LX_CAP_SYS_ADMIN))
			return -EPERM;
		master_down(p);
		return 0;
	default:
		return tty_ioctl_common(c, f, &p->tty, true, cmd, arg, um);
	}
}

static void master_release(struct file *f)
{
	struct pty *p = master_of(f);

	master_down(p);
	tty_put(&p->tty);
}

static int64_t master_lseek(struct file *f UNUSED, int64_t off UNUSED, int whence UNUSED)
{
	return -ESPIPE;
}

static const struct file_ops g_master_fops = {
	.read = master_read,
	.write = master_write,
	.lseek = master_lseek,
	.poll = master_poll,
	.ioctl = master_ioctl,
	.release = master_release,
	.stream = true,
};

int pty_open_master(struct vfs_ctx *c, struct super *fs, struct file *f)
{
	struct pty *p;
	int r;

	if (!meter_charge(METER_buffers, sizeof(*p)))
		return -ENOMEM;
	p = mem_zalloc(sizeof(*p));
	if (!p) {
		meter_uncharge(METER_buffers, sizeof(*p));
		return -ENOMEM;
	}
	waitq_init(&p->read_wait);
	waitq_init(&p->write_wait);
	p->out = (struct tty_ring){.data = p->out_data, .size = sizeof(p->out_data)};
	p->locked = true;
	p->fs = super_get(fs);
	tty_init(&p->tty, &g_pty_ops, MAJOR_PTS, 0);
	r = devpts_add(c, fs, &p->tty, &p->index, &p->node);
	if (r) {
		tty_put(&p->tty);
		return r;
	}
	p->tty.minor = p->index;
	f->priv = p;
	f->ops = &g_master_fops;
	return 0;
}

/* ---- devices ---- */

static int ptmx_open(struct vfs_ctx *c, struct inode *i UNUSED, struct file *f)
{
	struct path root;
	int r = devpts_of_ptmx(c, f, &root);

	if (r)
		return r;
	r = pty_open_master(c, root.dentry->super, f);
	path_put(&root);
	return r;
}

static int slave_open(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	struct tty *t = devpts_tty(i);

	return t ? tty_open(c, t, f, atomic_load(&f->flags) & LX_O_NOCTTY) : -EIO;
}

static const struct chrdev g_ptmx_dev = {.name = "/dev/ptmx", .open = ptmx_open};
static const struct chrdev g_slave_dev = {.name = "pts", .open = slave_open};

void pty_register(void)
{
	int r = chrdev_register(5, 2, &g_ptmx_dev);

	BUG_ON(r);
	r = chrdev_register(MAJOR_PTS, CHRDEV_MINOR_ANY, &g_slave_dev);
	BUG_ON(r);
	fs_type_register(&g_devpts_type);
}
