/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait4 and waitid.
 *
 * Theory of operation: under tasklist look through the children of the caller's process for one
 * that fits and has something to report (is a zombie, has stopped, has continued); if there is none
 * but could be, sleep on the process's child_wait and look again.
 *
 * References: wait(2), wait4(2), waitid(2).
 */
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <string.h>

#define WNOHANG_ 0x1u
#define WSTOPPED_ 0x2u
#define WEXITED_ 0x4u
#define WCONTINUED_ 0x8u
#define WNOWAIT_ 0x01000000u
#define WNOTHREAD_ 0x20000000u
#define WALL_ 0x40000000u
#define WCLONE_ 0x80000000u

#define P_ALL_ 0
#define P_PID_ 1
#define P_PGID_ 2
#define P_PIDFD_ 3

struct wait_query {
	int type; /* P_ALL_, P_PID_, P_PGID_ */
	struct pid *pid;
	unsigned options;
};

struct wait_result {
	int32_t pid;
	uint32_t uid;
	int code;   /* CLD_* */
	int status; /* wait status form */
	struct rusage_sum usage;
};

/* A reference: the caller's parent may move it to another group just now. */
static struct pid *own_pgrp(struct task *t)
{
	struct pid *p;

	mutex_lock(&g_kernel.tasklist);
	p = pid_get(t->tg->pgrp);
	mutex_unlock(&g_kernel.tasklist);
	return p;
}

static bool eligible(const struct tgroup *c, const struct wait_query *q)
{
	if (q->type == P_PID_ && c->pid != q->pid)
		return false;
	if (q->type == P_PGID_ && c->pgrp != q->pid)
		return false;
	if (q->options & WALL_)
		return true;
	/* __WCLONE waits for the children that do not report by SIGCHLD, and only for them. */
	return (c->exit_signal != LX_SIGCHLD) == !!(q->options & WCLONE_);
}

static void fill_usage(struct tgroup *c, struct rusage_sum *out)
{
	*out = c->dead_threads;
	rusage_add(out, &c->reaped);
}

static bool try_child(struct tgroup *self, struct tgroup *c, const struct wait_query *q,
		      struct wait_result *res) REQUIRES(g_kernel.tasklist)
{
	bool keep = q->options & WNOWAIT_;

	if (c->zombie && (q->options & WEXITED_)) {
		int st = c->group_exit ? c->group_exit_code : c->leader->exit_code;

		res->pid = c->tgid;
		res->uid = c->leader->vctx.cred->uid;
		res->status = st;
		res->code = st & 0x80 ? LX_CLD_DUMPED : st & 0x7f ? LX_CLD_KILLED : LX_CLD_EXITED;
		fill_usage(c, &res->usage);
		if (!keep) {
			rusage_add(&self->reaped, &res->usage);
			tgroup_reap_locked(c);
		}
		return true;
	}
	if (c->zombie)
		return false;
	if (c->event == STOP_STOPPED && (q->options & WSTOPPED_)) {
		res->status = c->stop_signal << 8 | 0x7f;
		res->code = LX_CLD_STOPPED;
	} else if (c->event == STOP_CONTINUED && (q->options & WCONTINUED_)) {
		res->status = 0xffff;
		res->code = LX_CLD_CONTINUED;
	} else {
		return false;
	}
	res->pid = c->tgid;
	res->uid = c->leader->vctx.cred->uid;
	fill_usage(c, &res->usage);
	if (!keep)
		c->event = STOP_NONE;
	return true;
}

/* 1: found, 0: none yet, -ECHILD: none can come. */
static int scan(struct tgroup *self, const struct wait_query *q, struct wait_result *res)
{
	struct tgroup *c;
	int r = -ECHILD;

	mutex_lock(&g_kernel.tasklist);
	TAILQ_FOREACH (c, &self->children, sibling) {
		if (!eligible(c, q))
			continue;
		r = 0;
		if (try_child(self, c, q, res)) {
			r = 1;
			break;
		}
	}
	mutex_unlock(&g_kernel.tasklist);
	return r;
}

static int do_wait(struct task *t, const struct wait_query *q, struct wait_result *res)
{
	int found = 0, r;

	memset(res, 0, sizeof(*res));
	if (q->options & WNOHANG_) {
		found = scan(t->tg, q, res);
		return found;
	}
	r = wait_event(&t->tg->child_wait, (found = scan(t->tg, q, res)) != 0, DEADLINE_NONE,
		       WAIT_INTR);
	return r ? r : found;
}

long sys_wait4(struct task *t, int pid, gaddr_t wstatus, int options, gaddr_t rusage)
{
	const unsigned known = WNOHANG_ | WSTOPPED_ | WCONTINUED_ | WNOTHREAD_ | WCLONE_ | WALL_;
	struct wait_query q = {.options = (unsigned)options | WEXITED_};
	struct wait_result res;
	int r;

	if ((unsigned)options & ~known)
		return -EINVAL;
	if (pid == INT32_MIN)
		return -ESRCH;
	if (pid == -1) {
		q.type = P_ALL_;
	} else if (pid > 0) {
		q.type = P_PID_;
		q.pid = pid_find(pid);
	} else {
		q.type = P_PGID_;
		q.pid = pid ? pid_find(-pid) : own_pgrp(t);
	}
	if (q.type != P_ALL_ && !q.pid)
		return -ECHILD;
	r = do_wait(t, &q, &res);
	pid_put(q.pid);
	if (r <= 0)
		return r;
	if (wstatus.a && copy_out(t, wstatus, &res.status, sizeof(res.status)))
		return -EFAULT;
	if (rusage.a) {
		struct lx_rusage ru;

		rusage_to_lx(&res.usage, &ru);
		if (copy_out(t, rusage, &ru, sizeof(ru)))
			return -EFAULT;
	}
	return res.pid;
}

static int waitid_target(struct task *t, int which, int upid, struct wait_query *q)
{
	switch (which) {
	case P_ALL_:
		q->type = P_ALL_;
		return 0;
	case P_PID_:
		if (upid <= 0)
			return -EINVAL;
		q->type = P_PID_;
		q->pid = pid_find(upid);
		break;
	case P_PGID_:
		if (upid < 0)
			return -EINVAL;
		q->type = P_PGID_;
		q->pid = upid ? pid_find(upid) : own_pgrp(t);
		break;
	case P_PIDFD_: {
		struct file *f;
		struct pid *p;

		if (upid < 0)
			return -EINVAL;
		f = fd_get(t->files, upid);
		if (!f)
			return -EBADF;
		p = pidfd_pid(f);
		q->type = P_PID_;
		if (p)
			q->pid = pid_get(p);
		if (p && (atomic_load(&f->flags) & LX_O_NONBLOCK))
			q->options |= WNOHANG_;
		file_put(f);
		if (!p)
			return -EBADF;
		break;
	}
	default:
		return -EINVAL;
	}
	return q->pid ? 0 : -ECHILD;
}

/* The work of waitid: like it, but for the siginfo. > 0: a child was found. */
static long waitid_find(struct task *t, int which, int upid, int options, gaddr_t ru,
			struct wait_result *res)
{
	const unsigned known = WNOHANG_ | WNOWAIT_ | WEXITED_ | WSTOPPED_ | WCONTINUED_ |
			       WNOTHREAD_ | WCLONE_ | WALL_;
	struct wait_query q = {.options = (unsigned)options};
	bool nonblock_fd;
	int r;

	if (((unsigned)options & ~known) ||
	    !((unsigned)options & (WEXITED_ | WSTOPPED_ | WCONTINUED_)))
		return -EINVAL;
	r = waitid_target(t, which, upid, &q);
	if (r)
		return r;
	nonblock_fd =
		which == P_PIDFD_ && (q.options & WNOHANG_) && !((unsigned)options & WNOHANG_);
	r = do_wait(t, &q, res);
	pid_put(q.pid);
	if (r == 0 && nonblock_fd)
		return -EAGAIN;
	if (r > 0 && ru.a) {
		struct lx_rusage lru;

		rusage_to_lx(&res->usage, &lru);
		if (copy_out(t, ru, &lru, sizeof(lru)))
			return -EFAULT;
	}
	return r;
}

long sys_waitid(struct task *t, int which, int upid, gaddr_t infop, int options, gaddr_t ru)
{
	struct wait_result res;
	struct lx_siginfo info;
	long r = waitid_find(t, which, upid, options, ru, &res);

	if (!infop.a || r == -EFAULT)
		return MIN(r, 0l);
	/* As in Linux the fields are written on failure too, all zero. */
	memset(&info, 0, sizeof(info));
	if (r > 0) {
		info.si_signo = LX_SIGCHLD;
		info.si_code = res.code;
		info.u.chld.pid = res.pid;
		info.u.chld.uid = res.uid;
		info.u.chld.status = res.code == LX_CLD_EXITED      ? res.status >> 8
				     : res.code == LX_CLD_STOPPED   ? res.status >> 8
				     : res.code == LX_CLD_CONTINUED ? LX_SIGCONT
								    : res.status & 0x7f;
	}
	/* Only the fields that waitid(2) names are written. */
	if (copy_out(t, infop, &info, 32))
		return -EFAULT;
	return MIN(r, 0l);
}
