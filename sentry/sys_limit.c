/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resource limits. Source: getrlimit(2), prlimit(2).
 */
#include "sentry/answers.h"
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>

#define NOFILE_MAX (1u << 20)

static int set_limit(struct task *t, struct tgroup *tg, unsigned res, const struct lx_rlimit64 *n)
{
	bool raise;

	if (n->cur > n->max)
		return -EINVAL;
	if (res == LX_RLIMIT_NOFILE && n->max > NOFILE_MAX)
		return -EPERM;
	mutex_lock(&tg->rlim_lock);
	raise = n->max > tg->rlim[res].max;
	if (!raise || cred_capable(t->vctx.cred, LX_CAP_SYS_RESOURCE)) {
		tg->rlim[res] = *n;
		raise = false;
	}
	mutex_unlock(&tg->rlim_lock);
	if (raise)
		return -EPERM;
	answers_stale();
	if (res == LX_RLIMIT_CPU)
		return cpu_limit_changed(tg);
	/* RLIMIT_FSIZE and NOFILE: who needs them in its vfs_ctx asks for them
	 * (task_refresh_limits). */
	return 0;
}

static void get_limit(struct tgroup *tg, unsigned res, struct lx_rlimit64 *out)
{
	mutex_lock(&tg->rlim_lock);
	*out = tg->rlim[res];
	mutex_unlock(&tg->rlim_lock);
}

long sys_getrlimit(struct task *t, unsigned res, gaddr_t rlim)
{
	struct lx_rlimit64 l;

	if (res >= LX_RLIM_NLIMITS)
		return -EINVAL;
	get_limit(t->tg, res, &l);
	return copy_out(t, rlim, &l, sizeof(l));
}

long sys_setrlimit(struct task *t, unsigned res, gaddr_t rlim)
{
	struct lx_rlimit64 l;

	if (copy_in(t, &l, rlim, sizeof(l)))
		return -EFAULT;
	if (res >= LX_RLIM_NLIMITS)
		return -EINVAL;
	return set_limit(t, t->tg, res, &l);
}

/* Whose limits may be seen and set: prlimit(2). */
static bool may_prlimit(struct task *t, struct task *o)
{
	const struct cred *c = t->vctx.cred;
	struct cred *oc;
	bool ok;

	if (o->tg == t->tg || cred_capable(c, LX_CAP_SYS_RESOURCE))
		return true;
	oc = task_get_cred(o);
	ok = c->uid == oc->euid && c->uid == oc->suid && c->uid == oc->uid && c->gid == oc->egid &&
	     c->gid == oc->sgid && c->gid == oc->gid;
	cred_put(oc);
	return ok;
}

long sys_prlimit64(struct task *t, int pid, unsigned res, gaddr_t new_rlim, gaddr_t old_rlim)
{
	struct lx_rlimit64 n, old;
	struct task *o;
	long r = 0;

	if (new_rlim.a && copy_in(t, &n, new_rlim, sizeof(n)))
		return -EFAULT;
	if (res >= LX_RLIM_NLIMITS)
		return -EINVAL;
	o = pid ? task_find(pid) : task_get(t);
	if (!o)
		return -ESRCH;
	if (!may_prlimit(t, o)) {
		task_put(o);
		return -EPERM;
	}
	get_limit(o->tg, res, &old);
	if (new_rlim.a)
		r = set_limit(t, o->tg, res, &n);
	task_put(o);
	if (r == 0 && old_rlim.a && copy_out(t, old_rlim, &old, sizeof(old)))
		return -EFAULT;
	return r;
}
