/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the VFS asks of the sentry (struct vfs_hooks), answered from tasks.
 */
#include "sentry/vfs_glue.h"

#include "sentry/audit.h"
#include "sentry/learn.h"
#include "sentry/mm.h"
#include "sentry/process.h"

#include <errno.h>
#include <string.h>

#define F_OWNER_TID_ 0
#define F_OWNER_PID_ 1
#define F_OWNER_PGRP_ 2

/* si_code of SIGIO and the poll bits that go with it: fcntl(2) F_SETSIG. */
static void fill_sigio(struct lx_siginfo *info, int sig, uint32_t band, int fd)
{
	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	info->si_code = band & LX_POLLIN    ? 1
			: band & LX_POLLOUT ? 2
			: band & LX_POLLERR ? 4
			: band & LX_POLLHUP ? 6
					    : 1;
	info->u.poll.band = band;
	info->u.poll.fd = fd;
}

static bool may_sigio(const struct fown *own, struct tgroup *tg)
{
	const struct cred *c = tg->leader ? tg->leader->vctx.cred : NULL;

	return c && (own->euid == 0 || own->euid == c->suid || own->euid == c->uid ||
		     own->uid == c->suid || own->uid == c->uid);
}

static void glue_send_sigio(struct file *f, uint32_t band)
{
	struct lx_siginfo info;
	struct fown own;
	struct pid *p;

	mutex_lock(&f->lock);
	own = f->own;
	mutex_unlock(&f->lock);
	if (own.pid <= 0 || own.type < 0)
		return;
	p = pid_find(own.pid);
	if (!p)
		return;
	if (own.sig)
		fill_sigio(&info, own.sig, band, 0);
	else
		siginfo_kernel(&info, LX_SIGIO);
	mutex_lock(&g_kernel.tasklist);
	if (own.type == F_OWNER_TID_) {
		if (p->task && may_sigio(&own, p->task->tg))
			(void)signal_send_task_locked(p->task, &info);
	} else if (own.type == F_OWNER_PID_) {
		if (p->tg && may_sigio(&own, p->tg))
			(void)signal_send_group_locked(p->tg, &info);
	} else {
		struct tgroup *tg;

		TAILQ_FOREACH (tg, &p->pgrp_members, pgrp_link) {
			if (may_sigio(&own, tg))
				(void)signal_send_group_locked(tg, &info);
		}
	}
	mutex_unlock(&g_kernel.tasklist);
	pid_put(p);
}

/* So many turns of a long loop between two looks at who else has something to do. */
#define LOOPS_PER_YIELD 8

/* Fibers have their worker to themselves until they sleep: whoever is to interrupt the loop may
 * be one of the same worker's, and would never come to it. */
static bool glue_interrupted(void)
{
	static _Atomic unsigned loops;
	struct task *t = current_task();

	if (!t)
		return false;
	if (atomic_fetch_add_explicit(&loops, 1, memory_order_relaxed) % LOOPS_PER_YIELD == 0)
		fiber_yield();
	return signal_pending(t);
}

static struct vfs_ctx *glue_current_ctx(void)
{
	struct task *t = current_task();

	return t ? &t->vctx : NULL;
}

static void glue_current_umem(struct umem *out)
{
	struct task *t = current_task();

	memset(out, 0, sizeof(*out));
	if (t)
		task_umem(t, out);
}

static void glue_denied(enum vfs_denial why, struct mount *m)
{
	static const enum audit_why whys[] = {
		[VFS_DENIED_READ_ONLY] = AUDIT_READ_ONLY,
		[VFS_DENIED_NO_EXEC] = AUDIT_NO_EXEC,
		[VFS_DENIED_NO_DEVICE] = AUDIT_NO_DEVICE,
		[VFS_DENIED_PRIVATE] = AUDIT_PRIVATE,
	};

	audit_denied(whys[why], m, NULL);
}

static void glue_opened(struct file *f)
{
	if (unlikely(g_audit))
		audit_opened(f);
}

static void glue_changed(struct dentry *d, uint32_t mask, uint32_t cookie)
{
	if (unlikely(g_audit))
		audit_changed(d, mask, cookie);
}

static const struct vfs_hooks g_glue = {
	.send_sigio = glue_send_sigio,
	.interrupted = glue_interrupted,
	.current_ctx = glue_current_ctx,
	.current_umem = glue_current_umem,
	.denied = glue_denied,
	.opened = glue_opened,
	.changed = glue_changed,
	.used = learn_used,
	.missed = audit_missed,
};

void vfs_glue_init(void)
{
	g_vfs_hooks = &g_glue;
	tty_session_init();
}
