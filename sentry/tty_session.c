/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and their terminals: what terminals ask of tasks (struct tty_hooks), and what becomes of
 * a terminal when its session ends.
 *
 * Theory of operation: a session's struct pid refers to its controlling terminal (->tty), and the
 * terminal to its session and to the foreground group (->session, ->foreground: references to
 * struct pid, unused by the vfs). All three change together under tasklist. A process that gave the
 * terminal up by TIOCNOTTY without leading the session has tgroup.no_tty set, as have its children.
 *
 * A session that loses its terminal by a hang-up remembers the foreground group (->lost_pgrp),
 * which is hung up when the leader exits.
 *
 * Deviations from Linux: there, each process has its own idea of its controlling terminal, so one
 * that was forked before the session got it never has it; here it is the session's.
 *
 * Locking: tasklist for all of it. It comes before a terminal's lock, so terminals hold no lock
 * when they call. References are put after tasklist is released.
 *
 * References: credentials(7), tty(4), ioctl_tty(2), setsid(2), POSIX.1-2017 11.1.
 */
#include "sentry/process.h"
#include "sentry/syscall.h"
#include "vfs/tty.h"

#include <errno.h>

/* What was taken away under tasklist, to be put when it is released. */
struct leftovers {
	struct tty *tty;
	struct pid *session, *foreground;
};

static void leftovers_put(struct leftovers *l)
{
	tty_put(l->tty);
	pid_put(l->session);
	pid_put(l->foreground);
}

static struct tty *tty_of_locked(const struct tgroup *tg) REQUIRES(g_kernel.tasklist)
{
	return tg->session && !tg->no_tty ? tg->session->tty : NULL;
}

/* Is @t, which is not NULL, the controlling terminal of @tg? */
static bool is_tty_of_locked(const struct tty *t, const struct tgroup *tg)
	REQUIRES(g_kernel.tasklist)
{
	return t && tty_of_locked(tg) == t;
}

/* Terminal and session know each other no more. */
static void part_locked(struct tty *t, struct leftovers *l) REQUIRES(g_kernel.tasklist)
{
	struct pid *session = t->session;

	l->session = session;
	l->foreground = t->foreground;
	t->session = t->foreground = NULL;
	if (session) {
		l->tty = session->tty;
		session->tty = NULL;
	}
}

static void join_locked(struct tty *t, struct tgroup *leader) REQUIRES(g_kernel.tasklist)
{
	t->session = pid_get(leader->session);
	t->foreground = pid_get(leader->pgrp);
	leader->session->tty = tty_get(t);
	leader->no_tty = false;
}

static void send_pgrp_locked(struct pid *pgrp, int sig) REQUIRES(g_kernel.tasklist)
{
	struct lx_siginfo info;

	if (!pgrp)
		return;
	siginfo_kernel(&info, sig);
	(void)signal_send_pgrp_locked(pgrp, &info);
}

static void send_group_locked(struct tgroup *tg, int sig) REQUIRES(g_kernel.tasklist)
{
	struct lx_siginfo info;

	siginfo_kernel(&info, sig);
	(void)signal_send_group_locked(tg, &info);
}

/* ---- the hooks ---- */

static bool is_ignored_locked(const struct task *t, int sig) REQUIRES(g_kernel.tasklist)
{
	return (t->blocked & sigbit(sig)) || t->sighand->action[sig - 1].handler == LX_SIG_IGN;
}

static NONNULL(1) int hook_check(struct tty *t, int sig)
{
	struct task *self = current_task();
	struct pid *pgrp;
	int r = 0;

	if (!self)
		return 0;
	mutex_lock(&g_kernel.tasklist);
	pgrp = self->tg->pgrp;
	if (!is_tty_of_locked(t, self->tg) || !t->foreground || t->foreground == pgrp) {
		/* not ours, or ours to use */
	} else if (is_ignored_locked(self, sig)) {
		r = sig == LX_SIGTTIN ? -EIO : 0;
	} else if (pgrp_is_orphaned_locked(pgrp, NULL)) {
		r = -EIO;
	} else {
		send_pgrp_locked(pgrp, sig);
		r = -ERESTARTSYS;
	}
	mutex_unlock(&g_kernel.tasklist);
	return r;
}

static int hook_check_behind(int sig)
{
	struct task *self = current_task();
	int r = -EIO;

	if (!self)
		return r;
	mutex_lock(&g_kernel.tasklist);
	if (!is_ignored_locked(self, sig) && !pgrp_is_abandoned_locked(self->tg->pgrp)) {
		send_pgrp_locked(self->tg->pgrp, sig);
		r = -ERESTARTSYS;
	}
	mutex_unlock(&g_kernel.tasklist);
	return r;
}

static bool hook_is_current(struct tty *t)
{
	struct task *self = current_task();
	bool is;

	if (!self)
		return false;
	mutex_lock(&g_kernel.tasklist);
	is = is_tty_of_locked(t, self->tg);
	mutex_unlock(&g_kernel.tasklist);
	return is;
}

static struct tty *hook_current(void)
{
	struct task *self = current_task();
	struct tty *t;

	if (!self)
		return NULL;
	mutex_lock(&g_kernel.tasklist);
	t = tty_of_locked(self->tg);
	if (t)
		tty_get(t);
	mutex_unlock(&g_kernel.tasklist);
	return t;
}

static void hook_opened(struct tty *t)
{
	struct task *self = current_task();

	if (!self)
		return;
	mutex_lock(&g_kernel.tasklist);
	if (self->tg->is_session_leader && !self->tg->session->tty && !t->session)
		join_locked(t, self->tg);
	mutex_unlock(&g_kernel.tasklist);
}

static int hook_set(struct tty *t, bool readable, bool steal, bool capable)
{
	struct task *self = current_task();
	struct leftovers l = {0};
	struct tgroup *tg;
	int r = 0;

	if (!self)
		return -EPERM;
	tg = self->tg;
	mutex_lock(&g_kernel.tasklist);
	if (tg->is_session_leader && t->session == tg->session)
		goto out;
	r = -EPERM;
	if (!tg->is_session_leader || tg->session->tty)
		goto out;
	if (t->session && !(steal && capable))
		goto out;
	if (!readable && !capable)
		goto out;
	if (t->session)
		part_locked(t, &l);
	join_locked(t, tg);
	r = 0;
out:
	mutex_unlock(&g_kernel.tasklist);
	leftovers_put(&l);
	return r;
}

static NONNULL(1) int hook_drop(struct tty *t)
{
	struct task *self = current_task();
	struct leftovers l = {0};
	int r = -ENOTTY;

	if (!self)
		return r;
	mutex_lock(&g_kernel.tasklist);
	if (is_tty_of_locked(t, self->tg)) {
		r = 0;
		if (self->tg->is_session_leader) {
			send_pgrp_locked(t->foreground, LX_SIGHUP);
			send_pgrp_locked(t->foreground, LX_SIGCONT);
			part_locked(t, &l);
		} else {
			self->tg->no_tty = true;
		}
	}
	mutex_unlock(&g_kernel.tasklist);
	leftovers_put(&l);
	return r;
}

static NONNULL(1) int hook_get_pgrp(struct tty *t, bool force, int32_t *out)
{
	struct task *self = current_task();
	int r = -ENOTTY;

	mutex_lock(&g_kernel.tasklist);
	if (force || (self && is_tty_of_locked(t, self->tg))) {
		const struct pid *p = t->foreground;

		*out = p ? p->nr : 0;
		r = 0;
	}
	mutex_unlock(&g_kernel.tasklist);
	return r;
}

static int hook_get_sid(struct tty *t, bool force, int32_t *out)
{
	struct task *self = current_task();
	int r = -ENOTTY;

	mutex_lock(&g_kernel.tasklist);
	if (t->session && (force || (self && is_tty_of_locked(t, self->tg)))) {
		const struct pid *p = t->session;

		*out = p->nr;
		r = 0;
	}
	mutex_unlock(&g_kernel.tasklist);
	return r;
}

static NONNULL(1) int hook_set_pgrp(struct tty *t, int32_t nr)
{
	struct task *self = current_task();
	struct pid *p, *old = NULL;
	struct tgroup *member;
	int r;

	if (!self)
		return -ENOTTY;
	p = pid_find(nr);
	mutex_lock(&g_kernel.tasklist);
	r = -ENOTTY;
	if (!is_tty_of_locked(t, self->tg) || t->session != self->tg->session)
		goto out;
	r = -ESRCH;
	if (!p)
		goto out;
	/* A number that names a process but no group is none of this session's groups. */
	r = -EPERM;
	member = TAILQ_FIRST(&p->pgrp_members);
	if (!member || member->session != self->tg->session)
		goto out;
	old = t->foreground;
	t->foreground = pid_get(p);
	r = 0;
out:
	mutex_unlock(&g_kernel.tasklist);
	pid_put(p);
	pid_put(old);
	return r;
}

static void hook_signal(struct tty *t, int sig)
{
	mutex_lock(&g_kernel.tasklist);
	send_pgrp_locked(t->foreground, sig);
	mutex_unlock(&g_kernel.tasklist);
}

static void hook_hangup(struct tty *t)
{
	struct leftovers l = {0};
	struct pid *session, *lost = NULL;

	mutex_lock(&g_kernel.tasklist);
	session = t->session;
	if (session) {
		struct tgroup *leader = session->tg;

		if (leader && leader->is_session_leader && !leader->zombie) {
			send_group_locked(leader, LX_SIGHUP);
			send_group_locked(leader, LX_SIGCONT);
			lost = session->lost_pgrp;
			session->lost_pgrp = t->foreground ? pid_get(t->foreground) : NULL;
		}
		part_locked(t, &l);
	}
	mutex_unlock(&g_kernel.tasklist);
	pid_put(lost);
	leftovers_put(&l);
}

static const struct tty_hooks g_hooks = {
	.check = hook_check,
	.check_behind = hook_check_behind,
	.is_current = hook_is_current,
	.current = hook_current,
	.opened = hook_opened,
	.set = hook_set,
	.drop = hook_drop,
	.get_pgrp = hook_get_pgrp,
	.set_pgrp = hook_set_pgrp,
	.get_sid = hook_get_sid,
	.signal = hook_signal,
	.hangup = hook_hangup,
};

void tty_session_init(void)
{
	g_tty_hooks = &g_hooks;
}

/* ---- of the process model ---- */

void session_set_tty(struct tgroup *tg, struct tty *tty)
{
	mutex_lock(&g_kernel.tasklist);
	join_locked(tty, tg);
	mutex_unlock(&g_kernel.tasklist);
}

void session_leader_exit(struct tgroup *tg)
{
	struct leftovers l = {0};
	struct pid *session, *lost;

	mutex_lock(&g_kernel.tasklist);
	session = tg->session;
	lost = session->lost_pgrp;
	session->lost_pgrp = NULL;
	if (session->tty) {
		struct tty *t = session->tty;

		send_pgrp_locked(t->foreground, LX_SIGHUP);
		part_locked(t, &l);
	} else if (lost) {
		send_pgrp_locked(lost, LX_SIGHUP);
		send_pgrp_locked(lost, LX_SIGCONT);
	}
	mutex_unlock(&g_kernel.tasklist);
	pid_put(lost);
	leftovers_put(&l);
}

void tgroup_tty_ids_locked(struct tgroup *tg, int32_t *tty_nr, int32_t *tpgid)
{
	const struct tty *t = tty_of_locked(tg);
	const struct pid *p = t ? t->foreground : NULL;

	*tty_nr = t ? (int32_t)lx_makedev(t->major, t->minor) : 0;
	*tpgid = p ? p->nr : -1;
}

long sys_vhangup(struct task *t)
{
	struct tty *tty;

	if (!cred_capable(t->vctx.cred, LX_CAP_SYS_TTY_CONFIG))
		return -EPERM;
	tty = hook_current();
	if (tty)
		tty_hangup(tty);
	tty_put(tty);
	return 0;
}
