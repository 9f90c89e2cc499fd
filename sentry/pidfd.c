/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pidfds: descriptors that stand for a process. pidfd_open(2), pidfd_send_signal(2),
 * pidfd_getfd(2).
 */
#include "sentry/proc.h"
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <stdio.h>

#define PIDFD_NONBLOCK LX_O_NONBLOCK
#define PIDFD_THREAD LX_O_EXCL
#define PIDFD_SIGNAL_THREAD 1u
#define PIDFD_SIGNAL_THREAD_GROUP 2u
#define PIDFD_SIGNAL_PROCESS_GROUP 4u

/* What a poll says of it: that it has ended, and that it was waited for. */
static uint32_t pid_ended(struct pid *p, bool thread)
{
	bool ended, reaped;

	mutex_lock(&g_kernel.tasklist);
	reaped = thread ? !p->task : !p->tg;
	ended = reaped || (thread ? p->task->state == TASK_ZOMBIE : p->tg->zombie);
	mutex_unlock(&g_kernel.tasklist);
	return (ended ? LX_POLLIN | LX_POLLRDNORM : 0) | (reaped ? LX_POLLHUP : 0);
}

static uint32_t pidfd_poll(struct file *f, struct poll_table *pt)
{
	struct pid *p = f->priv;

	poll_wait(pt, &p->exit_wait);
	return pid_ended(p, atomic_load(&f->flags) & PIDFD_THREAD);
}

static void pidfd_release(struct file *f)
{
	pid_put(f->priv);
}

static size_t pidfd_fdinfo(struct file *f, char *buf, size_t size)
{
	struct pid *p = f->priv;
	int32_t nr;

	mutex_lock(&g_kernel.tasklist);
	nr = p->task || p->tg ? p->nr : -1;
	mutex_unlock(&g_kernel.tasklist);
	int n = snprintf(buf, size, "Pid:\t%d\nNSpid:\t%d\n", nr, nr);

	return n < 0 ? 0 : MIN((size_t)n, size);
}

static const struct file_ops g_pidfd_ops = {
	.poll = pidfd_poll,
	.release = pidfd_release,
	.show_fdinfo = pidfd_fdinfo,
	.stream = true,
};

int pidfd_new(struct task *t, struct pid *pid, uint32_t flags, struct file **out)
{
	struct file *f = file_new_anon(&t->vctx, NULL, "anon_inode:[pidfd]", &g_pidfd_ops,
				       FMODE_READ | FMODE_WRITE, LX_O_RDWR | flags, pid);

	if (!f)
		return file_new_error();
	pid_get(pid);
	*out = f;
	return 0;
}

struct pid *pidfd_pid(struct file *f)
{
	return f->ops == &g_pidfd_ops ? f->priv : NULL;
}

/* For pidfd_send_signal, a directory /proc/PID names its process too. */
static struct pid *signal_target(struct file *f)
{
	struct pid *p = pidfd_pid(f);

	return p ? p : proc_dir_pid(f->inode);
}

long sys_pidfd_open(struct task *t, int pid, unsigned flags)
{
	struct pid *p;
	struct file *f;
	bool known;
	int r;

	if (flags & ~(unsigned)(PIDFD_NONBLOCK | PIDFD_THREAD))
		return -EINVAL;
	if (pid <= 0)
		return -EINVAL;
	p = pid_find(pid);
	if (!p)
		return -ESRCH;
	mutex_lock(&g_kernel.tasklist);
	known = flags & PIDFD_THREAD ? p->task != NULL : p->tg != NULL;
	r = p->task && !known ? -EINVAL : -ESRCH; /* a thread that leads no process */
	mutex_unlock(&g_kernel.tasklist);
	if (known)
		r = pidfd_new(t, p, flags, &f);
	pid_put(p);
	if (r)
		return r;
	r = fd_install(t->files, f, FD_CLOEXEC_FLAG, 0, rlimit_get(t->tg, LX_RLIMIT_NOFILE));
	if (r < 0)
		file_put(f);
	return r;
}

static int fetch_info(struct task *t, gaddr_t uinfo, int sig, struct lx_siginfo *info)
{
	if (!uinfo.a) {
		siginfo_user(info, sig, LX_SI_USER, t);
		return 0;
	}
	if (copy_in(t, info, uinfo, sizeof(*info)))
		return -EFAULT;
	if (info->si_signo != sig)
		return -EINVAL;
	return 0;
}

long sys_pidfd_send_signal(struct task *t, int pidfd, int sig, gaddr_t uinfo, unsigned flags)
{
	struct lx_siginfo info;
	struct file *f;
	struct pid *p;
	long r;

	if (flags & ~(PIDFD_SIGNAL_THREAD | PIDFD_SIGNAL_THREAD_GROUP | PIDFD_SIGNAL_PROCESS_GROUP))
		return -EINVAL;
	if (flags & (flags - 1))
		return -EINVAL;
	f = fd_get_nopath(t->files, pidfd);
	if (!f)
		return -EBADF;
	p = signal_target(f);
	if (!p) {
		file_put(f);
		return -EBADF;
	}
	r = fetch_info(t, uinfo, sig, &info);
	if (r)
		goto out;
	mutex_lock(&g_kernel.tasklist);
	bool thread = (flags & PIDFD_SIGNAL_THREAD) ||
		      (!flags && (atomic_load(&f->flags) & PIDFD_THREAD));
	struct tgroup *tg = thread ? (p->task ? p->task->tg : NULL) : p->tg;

	if (!tg || sig < 0 || sig > LX_NSIG) {
		r = !tg ? -ESRCH : -EINVAL;
	} else if (uinfo.a && tg != t->tg && (info.si_code >= 0 || info.si_code == LX_SI_TKILL)) {
		r = -EPERM; /* nobody may forge a signal of the kernel */
	} else {
		r = signal_check_perm(t, tg, sig);
		if (r == 0 && sig) {
			if (flags & PIDFD_SIGNAL_PROCESS_GROUP)
				(void)signal_send_pgrp_locked(tg->pgrp, &info);
			else if (thread)
				r = signal_send_task_locked(p->task, &info);
			else
				r = signal_send_group_locked(tg, &info);
		}
	}
	mutex_unlock(&g_kernel.tasklist);
out:
	file_put(f);
	return r;
}

long sys_pidfd_getfd(struct task *t, int pidfd, int targetfd, unsigned flags)
{
	struct file *f, *got;
	struct fdtable *files;
	struct task *target = NULL;
	struct pid *p;
	int r;

	if (flags)
		return -EINVAL;
	f = fd_get_nopath(t->files, pidfd);
	if (!f)
		return -EBADF;
	p = pidfd_pid(f);
	if (p) {
		mutex_lock(&g_kernel.tasklist);
		if (p->task && p->task->state != TASK_ZOMBIE)
			target = task_get(p->task);
		mutex_unlock(&g_kernel.tasklist);
	}
	r = !p ? -EBADF : !target ? -ESRCH : task_may_access(t, target) ? 0 : -EPERM;
	file_put(f);
	if (r)
		goto out;
	r = -EBADF;
	files = task_get_files(target);
	if (!files)
		goto out;
	got = fd_get(files, targetfd);
	fdtable_put(files, &t->vctx);
	if (!got)
		goto out;
	r = fd_install(t->files, got, FD_CLOEXEC_FLAG, 0, rlimit_get(t->tg, LX_RLIMIT_NOFILE));
	if (r < 0)
		file_put(got);
out:
	task_put(target);
	return r;
}
