/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signalfd(2): taking signals by read.
 *
 * Theory of operation: the descriptor has a mask and nothing else. A read takes from the queues of
 * the task that reads, a poll looks at those of the task that polls, whoever made the descriptor;
 * both sleep on the signalfd_wait queue of that task's sighand. A registration with epoll stays on
 * the queue of the task that made it, as in Linux. So that such a queue lives as long as something
 * may wait on it, the file keeps a reference to each sighand that it was polled under.
 *
 * Locking: signalfd.lock (RANK_FILE) for the list of sighands; the mask is atomic. Signal queues:
 * tasklist.
 *
 * References: signalfd(2).
 */
#include <errno.h>
#include <stdio.h>
#include "sentry/file_args.h"
#include "sentry/process.h"

#define LX_SFD_CLOEXEC LX_O_CLOEXEC
#define LX_SFD_NONBLOCK LX_O_NONBLOCK

struct lx_signalfd_siginfo {
	uint32_t ssi_signo;
	int32_t ssi_errno, ssi_code;
	uint32_t ssi_pid, ssi_uid;
	int32_t ssi_fd;
	uint32_t ssi_tid, ssi_band, ssi_overrun, ssi_trapno;
	int32_t ssi_status, ssi_int;
	uint64_t ssi_ptr, ssi_utime, ssi_stime, ssi_addr;
	uint16_t ssi_addr_lsb, pad0;
	int32_t ssi_syscall;
	uint64_t ssi_call_addr;
	uint32_t ssi_arch;
	uint8_t pad1[28];
};
_Static_assert(sizeof(struct lx_signalfd_siginfo) == 128, "signalfd_siginfo");

struct signalfd {
	_Atomic uint64_t mask; /* the signals it takes */
	struct mutex lock;
	struct sighand **polled; /* [lock] references */
	unsigned polled_count;   /* [lock] */
};

/* What of a siginfo is meaningful depends on who sent it. */
static void convert(const struct lx_siginfo *i, struct lx_signalfd_siginfo *o)
{
	*o = (struct lx_signalfd_siginfo){.ssi_signo = (uint32_t)i->si_signo,
					  .ssi_errno = i->si_errno,
					  .ssi_code = i->si_code};
	if (i->si_code == LX_SI_TIMER) {
		o->ssi_tid = (uint32_t)i->u.timer.tid;
		o->ssi_overrun = (uint32_t)i->u.timer.overrun;
		o->ssi_ptr = i->u.timer.value.sival_ptr;
		o->ssi_int = i->u.timer.value.sival_int;
		return;
	}
	if (i->si_code > 0 && i->si_code != LX_SI_KERNEL) {
		switch (i->si_signo) {
		case LX_SIGCHLD:
			o->ssi_pid = (uint32_t)i->u.chld.pid;
			o->ssi_uid = i->u.chld.uid;
			o->ssi_status = i->u.chld.status;
			o->ssi_utime = (uint64_t)i->u.chld.utime;
			o->ssi_stime = (uint64_t)i->u.chld.stime;
			return;
		case LX_SIGSEGV:
		case LX_SIGBUS:
		case LX_SIGILL:
		case LX_SIGFPE:
		case LX_SIGTRAP:
			o->ssi_addr = i->u.fault.addr;
			o->ssi_addr_lsb = (uint16_t)i->u.fault.addr_lsb;
			return;
		case LX_SIGSYS:
			o->ssi_call_addr = i->u.sys.call_addr;
			o->ssi_syscall = i->u.sys.syscall;
			o->ssi_arch = i->u.sys.arch;
			return;
		default: /* SIGIO and what F_SETSIG chose */
			o->ssi_band = (uint32_t)i->u.poll.band;
			o->ssi_fd = i->u.poll.fd;
			return;
		}
	}
	o->ssi_pid = (uint32_t)i->u.rt.pid;
	o->ssi_uid = i->u.rt.uid;
	if (i->si_code == LX_SI_QUEUE || i->si_code == LX_SI_MESGQ || i->si_code == LX_SI_ASYNCIO) {
		o->ssi_ptr = i->u.rt.value.sival_ptr;
		o->ssi_int = i->u.rt.value.sival_int;
	}
}

static int take(struct task *t, lx_sigset_t mask, struct lx_siginfo *info)
{
	int sig;

	mutex_lock(&g_kernel.tasklist);
	sig = signal_dequeue_locked(t, mask, info);
	mutex_unlock(&g_kernel.tasklist);
	return sig;
}

static ssize_t signalfd_read(struct file *f, struct uio *u, int64_t *pos UNUSED)
{
	struct signalfd *s = f->priv;
	struct task *t = current_task();
	struct lx_signalfd_siginfo out;
	struct lx_siginfo info;
	ssize_t done = 0, n;
	int sig = 0, r;

	if (!t || u->resid < sizeof(out))
		return -EINVAL;
	while (u->resid >= sizeof(out)) {
		if (done > 0 || (atomic_load(&f->flags) & LX_O_NONBLOCK)) {
			sig = take(t, atomic_load(&s->mask), &info);
			if (!sig)
				return done ? done : -EAGAIN;
		} else {
			r = wait_event(&t->sighand->signalfd_wait,
				       (sig = take(t, atomic_load(&s->mask), &info)) != 0,
				       DEADLINE_NONE, WAIT_INTR);
			if (r < 0)
				return r;
		}
		convert(&info, &out);
		n = uio_put(u, &out, sizeof(out));
		if (n != (ssize_t)sizeof(out))
			return done ? done : -EFAULT;
		done += n;
	}
	return done;
}

/* Remembers that something may wait on the sighand's queue until this file is gone. False: no
 * memory. */
static bool keep_sighand(struct signalfd *s, struct sighand *h)
{
	struct sighand **more;
	bool ok = true;

	mutex_lock(&s->lock);
	for (unsigned i = 0; i < s->polled_count; i++)
		if (s->polled[i] == h)
			goto out;
	more = mem_realloc(s->polled, (s->polled_count + 1) * sizeof(*more));
	ok = more != NULL;
	if (ok) {
		s->polled = more;
		s->polled[s->polled_count++] = sighand_get(h);
	}
out:
	mutex_unlock(&s->lock);
	return ok;
}

static uint32_t signalfd_poll(struct file *f, struct poll_table *pt)
{
	struct signalfd *s = f->priv;
	struct task *t = current_task();

	if (!t || !t->sighand)
		return 0;
	if (pt && pt->queue) {
		if (!keep_sighand(s, t->sighand))
			return LX_POLLERR;
		poll_wait(pt, &t->sighand->signalfd_wait);
	}
	return signal_pending_set(t) & atomic_load(&s->mask) ? LX_POLLIN : 0;
}

static void signalfd_release(struct file *f)
{
	struct signalfd *s = f->priv;

	for (unsigned i = 0; i < s->polled_count; i++)
		sighand_put(s->polled[i]);
	mem_free(s->polled);
	mutex_fini(&s->lock);
	mem_free(s);
}

static size_t signalfd_fdinfo(struct file *f, char *buf, size_t size)
{
	struct signalfd *s = f->priv;
	int n = snprintf(buf, size, "sigmask:\t%016llx\n",
			 (unsigned long long)atomic_load(&s->mask));

	return n < 0 ? 0 : MIN((size_t)n, size);
}

static const struct file_ops g_signalfd_ops = {
	.read = signalfd_read,
	.poll = signalfd_poll,
	.release = signalfd_release,
	.show_fdinfo = signalfd_fdinfo,
	.lseek = file_lseek_nowhere,
	.stream = true,
};

static long signalfd_new(struct task *t, lx_sigset_t mask, int flags)
{
	struct signalfd *s = mem_zalloc(sizeof(*s));
	struct file *f;

	if (!s)
		return -ENOMEM;
	mutex_init(&s->lock, RANK_FILE);
	atomic_store(&s->mask, mask);
	f = file_new_anon(&t->vctx, NULL, "anon_inode:[signalfd]", &g_signalfd_ops,
			  FMODE_READ | FMODE_WRITE, LX_O_RDWR | ((uint32_t)flags & LX_SFD_NONBLOCK),
			  s);
	if (!f) {
		mutex_fini(&s->lock);
		mem_free(s);
		return file_new_error();
	}
	return task_install_file(t, f, flags & LX_SFD_CLOEXEC);
}

static long signalfd_change(struct task *t, int fd, lx_sigset_t mask)
{
	struct file *f = fd_get_nopath(t->files, fd);
	struct signalfd *s;

	if (!f)
		return -EBADF;
	if (f->ops != &g_signalfd_ops) {
		file_put(f);
		return -EINVAL;
	}
	s = f->priv;
	atomic_store(&s->mask, mask);
	waitq_wake_all(&t->sighand->signalfd_wait, 0);
	file_put(f);
	return fd;
}

long sys_signalfd4(struct task *t, int fd, gaddr_t mask, uint64_t sizemask, int flags)
{
	lx_sigset_t set;
	int r = copy_in_sigset(t, mask, sizemask, &set);

	if (r < 0)
		return r;
	if (flags & ~(LX_SFD_CLOEXEC | LX_SFD_NONBLOCK))
		return -EINVAL;
	set &= ~(sigbit(LX_SIGKILL) | sigbit(LX_SIGSTOP));
	return fd == -1 ? signalfd_new(t, set, flags) : signalfd_change(t, fd, set);
}

long sys_signalfd(struct task *t, int fd, gaddr_t mask, uint64_t sizemask)
{
	return sys_signalfd4(t, fd, mask, sizemask, 0);
}
