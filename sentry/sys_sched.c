/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling attributes: remembered, checked and shown as Linux does; the host schedules.
 *
 * References: sched(7), sched_setscheduler(2), sched_setaffinity(2), setpriority(2), ioprio_set(2).
 */
#include "sentry/answers.h"
#include "sentry/guest_time.h"
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <string.h>

#define SCHED_OTHER_ 0
#define SCHED_FIFO_ 1
#define SCHED_RR_ 2
#define SCHED_BATCH_ 3
#define SCHED_IDLE_ 5
#define SCHED_DEADLINE_ 6
#define SCHED_RESET_ON_FORK_ 0x40000000
#define SCHED_FLAG_RESET_ON_FORK_ 1ull

long sys_sched_yield(struct task *t UNUSED)
{
	fiber_yield();
	return 0;
}

static struct task *sched_target(struct task *t, int pid)
{
	return pid ? task_find(pid) : task_get(t);
}

/* May @t change the scheduling of @o? */
static bool may_sched(struct task *t, struct task *o)
{
	const struct cred *c = t->vctx.cred;
	struct cred *oc = task_get_cred(o);
	bool ok = c->euid == oc->euid || c->euid == oc->uid || cred_capable(c, LX_CAP_SYS_NICE);

	cred_put(oc);
	return ok;
}

static bool policy_known(int policy)
{
	return policy == SCHED_OTHER_ || policy == SCHED_FIFO_ || policy == SCHED_RR_ ||
	       policy == SCHED_BATCH_ || policy == SCHED_IDLE_;
}

static bool policy_is_rt(int policy)
{
	return policy == SCHED_FIFO_ || policy == SCHED_RR_;
}

static long set_policy(struct task *t, struct task *o, int policy, int prio, const int *nice)
{
	bool rt = policy_is_rt(policy);

	if (!policy_known(policy))
		return -EINVAL;
	if (rt ? prio < 1 || prio > 99 : prio != 0)
		return -EINVAL;
	if (!cred_capable(t->vctx.cred, LX_CAP_SYS_NICE)) {
		if (rt) {
			uint64_t limit = rlimit_get(o->tg, LX_RLIMIT_RTPRIO);

			if ((policy != o->sched_policy && !limit) ||
			    (prio > o->sched_priority && (uint64_t)prio > limit))
				return -EPERM;
		}
		if (!may_sched(t, o))
			return -EPERM;
		if (nice && *nice < o->nice &&
		    (uint64_t)(20 - *nice) > rlimit_get(o->tg, LX_RLIMIT_NICE))
			return -EPERM;
	}
	mutex_lock(&g_kernel.tasklist);
	o->sched_policy = policy;
	o->sched_priority = prio;
	if (nice)
		o->nice = *nice;
	mutex_unlock(&g_kernel.tasklist);
	return 0;
}

long sys_sched_setscheduler(struct task *t, int pid, int policy, gaddr_t param)
{
	struct task *o;
	int prio;
	long r;

	if (policy < 0 || !param.a || pid < 0)
		return -EINVAL;
	if (copy_in(t, &prio, param, sizeof(prio)))
		return -EFAULT;
	o = sched_target(t, pid);
	if (!o)
		return -ESRCH;
	r = set_policy(t, o, policy & ~SCHED_RESET_ON_FORK_, prio, NULL);
	task_put(o);
	return r;
}

long sys_sched_setparam(struct task *t, int pid, gaddr_t param)
{
	struct task *o;
	int prio;
	long r;

	if (!param.a || pid < 0)
		return -EINVAL;
	if (copy_in(t, &prio, param, sizeof(prio)))
		return -EFAULT;
	o = sched_target(t, pid);
	if (!o)
		return -ESRCH;
	r = set_policy(t, o, o->sched_policy, prio, NULL);
	task_put(o);
	return r;
}

long sys_sched_getscheduler(struct task *t, int pid)
{
	struct task *o;
	long r;

	if (pid < 0)
		return -EINVAL;
	o = sched_target(t, pid);
	if (!o)
		return -ESRCH;
	r = o->sched_policy;
	task_put(o);
	return r;
}

long sys_sched_getparam(struct task *t, int pid, gaddr_t param)
{
	struct task *o;
	int prio;

	if (!param.a || pid < 0)
		return -EINVAL;
	o = sched_target(t, pid);
	if (!o)
		return -ESRCH;
	prio = o->sched_priority;
	task_put(o);
	return copy_out(t, param, &prio, sizeof(prio));
}

long sys_sched_get_priority_max(struct task *t UNUSED, int policy)
{
	if (policy_is_rt(policy))
		return 99;
	return policy_known(policy) || policy == SCHED_DEADLINE_ ? 0 : -EINVAL;
}

long sys_sched_get_priority_min(struct task *t UNUSED, int policy)
{
	if (policy_is_rt(policy))
		return 1;
	return policy_known(policy) || policy == SCHED_DEADLINE_ ? 0 : -EINVAL;
}

long sys_sched_rr_get_interval(struct task *t, int pid, gaddr_t interval)
{
	struct lx_timespec ts = {0, 0};
	struct task *o;

	if (pid < 0)
		return -EINVAL;
	o = sched_target(t, pid);
	if (!o)
		return -ESRCH;
	if (o->sched_policy == SCHED_RR_)
		ts.tv_nsec = 100 * (int64_t)NSEC_PER_MSEC;
	else if (o->sched_policy != SCHED_FIFO_)
		ts.tv_nsec = 4 * (int64_t)NSEC_PER_MSEC;
	task_put(o);
	return copy_out(t, interval, &ts, sizeof(ts));
}

struct lx_sched_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max;
};
#define SCHED_ATTR_SIZE_VER0 48u

long sys_sched_setattr(struct task *t, int pid, gaddr_t attr, unsigned flags)
{
	struct lx_sched_attr a = {0};
	struct task *o;
	uint32_t size;
	long r;

	if (!attr.a || pid < 0 || flags)
		return -EINVAL;
	if (copy_in(t, &size, attr, sizeof(size)))
		return -EFAULT;
	if (size == 0)
		size = SCHED_ATTR_SIZE_VER0;
	if (size < SCHED_ATTR_SIZE_VER0 || size > MOAT_PAGE_SIZE) {
		uint32_t ours = sizeof(a);

		return copy_out(t, attr, &ours, sizeof(ours)) ? -EFAULT : -E2BIG;
	}
	if (copy_in(t, &a, attr, MIN(size, (uint32_t)sizeof(a))))
		return -EFAULT;
	if ((int32_t)a.policy < 0)
		return -EINVAL;
	if (a.flags & ~0x7full)
		return -EINVAL;
	o = sched_target(t, pid);
	if (!o)
		return -ESRCH;
	int nice = MAX(-20, MIN(19, a.nice));

	/* Deadline scheduling is the host's to give: refused as to one without the right. */
	if (a.policy == SCHED_DEADLINE_)
		r = -EPERM;
	else
		r = set_policy(t, o, (int)a.policy, (int)a.priority,
			       policy_is_rt((int)a.policy) ? NULL : &nice);
	task_put(o);
	return r;
}

long sys_sched_getattr(struct task *t, int pid, gaddr_t attr, unsigned size, unsigned flags)
{
	struct lx_sched_attr a = {0};
	struct task *o;

	if (!attr.a || pid < 0 || size > MOAT_PAGE_SIZE || size < SCHED_ATTR_SIZE_VER0 || flags)
		return -EINVAL;
	o = sched_target(t, pid);
	if (!o)
		return -ESRCH;
	a.size = MIN(size, (unsigned)sizeof(a));
	a.policy = (uint32_t)o->sched_policy;
	if (policy_is_rt(o->sched_policy))
		a.priority = (uint32_t)o->sched_priority;
	else
		a.nice = o->nice;
	a.util_max = 1024;
	task_put(o);
	return copy_out(t, attr, &a, a.size);
}

static uint64_t all_cpus(void)
{
	return g_kernel.cpus >= 64 ? UINT64_MAX : ((uint64_t)1 << g_kernel.cpus) - 1;
}

long sys_sched_setaffinity(struct task *t, int pid, unsigned len, gaddr_t mask)
{
	uint64_t m = 0;
	struct task *o;
	long r = 0;

	if (len && copy_in(t, &m, mask, MIN((size_t)len, sizeof(m))))
		return -EFAULT;
	o = sched_target(t, pid);
	if (!o)
		return -ESRCH;
	m &= all_cpus();
	if (!may_sched(t, o)) {
		r = -EPERM;
	} else if (!m) {
		r = -EINVAL;
	} else {
		mutex_lock(&g_kernel.tasklist);
		o->cpu_mask = m;
		answers_stale();
		mutex_unlock(&g_kernel.tasklist);
	}
	task_put(o);
	return r;
}

long sys_sched_getaffinity(struct task *t, int pid, unsigned len, gaddr_t mask)
{
	struct task *o;
	uint64_t m;

	if (len * 8ull < g_kernel.cpus || (len & 7))
		return -EINVAL;
	o = sched_target(t, pid);
	if (!o)
		return -ESRCH;
	m = o->cpu_mask & all_cpus();
	task_put(o);
	if (copy_out(t, mask, &m, sizeof(m)))
		return -EFAULT;
	return sizeof(m);
}

uint32_t sched_task_cpu(const struct task *t)
{
	/* Guests are not told where they run: any processor of their mask is a right answer at the
	 * time. */
	return (uint32_t)__builtin_ctzll(t->cpu_mask & all_cpus());
}

long sys_getcpu(struct task *t, gaddr_t cpu, gaddr_t node, gaddr_t cache UNUSED)
{
	uint32_t c = sched_task_cpu(t), n = 0;

	if (cpu.a && copy_out(t, cpu, &c, sizeof(c)))
		return -EFAULT;
	if (node.a && copy_out(t, node, &n, sizeof(n)))
		return -EFAULT;
	return 0;
}

/* ---- nice values and I/O priorities, by process, group or user ---- */

#define PRIO_PROCESS_ 0
#define PRIO_PGRP_ 1
#define PRIO_USER_ 2

/* Calls @fn for each task that (@which, @who) means, under tasklist. */
static void each_target(struct task *t, int which, int who, void (*fn)(struct task *o, void *arg),
			void *arg)
{
	struct tgroup *init = g_kernel.init;
	struct task *o;

	if (which == PRIO_PROCESS_) {
		struct task *one = sched_target(t, who);

		if (one) {
			mutex_lock(&g_kernel.tasklist);
			if (one->state != TASK_DEAD)
				fn(one, arg);
			mutex_unlock(&g_kernel.tasklist);
			task_put(one);
		}
		return;
	}
	mutex_lock(&g_kernel.tasklist);
	uint32_t uid = who ? (uint32_t)who : t->vctx.cred->uid;
	int32_t pgid = who ? who : t->tg->pgrp->nr;

	for (struct tgroup *tg = tgroup_walk_locked(init, NULL); tg;
	     tg = tgroup_walk_locked(init, tg)) {
		tgroup_foreach_task (o, tg) {
			if (which == PRIO_PGRP_ ? tg->pgrp && tg->pgrp->nr == pgid
						: o->vctx.cred->uid == uid)
				fn(o, arg);
		}
	}
	mutex_unlock(&g_kernel.tasklist);
}

struct prio_op {
	struct task *caller;
	int value;
	long result;
};

static void get_nice(struct task *o, void *arg)
{
	struct prio_op *op = arg;
	long v = 20 - o->nice;

	if (v > op->result)
		op->result = v;
}

static void set_nice(struct task *o, void *arg)
{
	struct prio_op *op = arg;
	const struct cred *c = op->caller->vctx.cred, *oc = o->vctx.cred;
	bool nice_cap = cred_capable(c, LX_CAP_SYS_NICE);

	if (c->euid != oc->uid && c->euid != oc->euid && !nice_cap) {
		op->result = -EPERM;
		return;
	}
	if (op->value < o->nice && !nice_cap &&
	    (uint64_t)(20 - op->value) > rlimit_get(o->tg, LX_RLIMIT_NICE)) {
		op->result = -EACCES;
		return;
	}
	o->nice = op->value;
	if (op->result == -ESRCH)
		op->result = 0;
}

long sys_getpriority(struct task *t, int which, int who)
{
	struct prio_op op = {.caller = t, .result = -ESRCH};

	if (which < PRIO_PROCESS_ || which > PRIO_USER_)
		return -EINVAL;
	each_target(t, which, who, get_nice, &op);
	return op.result;
}

long sys_setpriority(struct task *t, int which, int who, int niceval)
{
	struct prio_op op = {.caller = t, .value = MAX(-20, MIN(19, niceval)), .result = -ESRCH};

	if (which < PRIO_PROCESS_ || which > PRIO_USER_)
		return -EINVAL;
	each_target(t, which, who, set_nice, &op);
	return op.result;
}

#define IOPRIO_CLASS_SHIFT 13
#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_WHO_USER 3

static void get_ioprio(struct task *o, void *arg)
{
	struct prio_op *op = arg;

	/* The best of all: lower numbers win, but none at all loses. */
	if (op->result < 0 || (o->ioprio && (!op->result || o->ioprio < op->result)))
		op->result = o->ioprio;
}

static void set_ioprio(struct task *o, void *arg)
{
	struct prio_op *op = arg;
	const struct cred *c = op->caller->vctx.cred;

	if (c->euid != o->vctx.cred->uid && c->uid != o->vctx.cred->uid &&
	    !cred_capable(c, LX_CAP_SYS_NICE)) {
		op->result = -EPERM;
		return;
	}
	o->ioprio = op->value;
	if (op->result == -ESRCH)
		op->result = 0;
}

long sys_ioprio_get(struct task *t, int which, int who)
{
	struct prio_op op = {.caller = t, .result = -ESRCH};

	if (which < IOPRIO_WHO_PROCESS || which > IOPRIO_WHO_USER)
		return -EINVAL;
	each_target(t, which - 1, who, get_ioprio, &op);
	return op.result;
}

long sys_ioprio_set(struct task *t, int which, int who, int ioprio)
{
	struct prio_op op = {.caller = t, .value = ioprio, .result = -ESRCH};
	int class = ioprio >> IOPRIO_CLASS_SHIFT, data = ioprio & ((1 << IOPRIO_CLASS_SHIFT) - 1);

	switch (class) {
	case 1: /* real time */
		if (!cred_capable(t->vctx.cred, LX_CAP_SYS_ADMIN) &&
		    !cred_capable(t->vctx.cred, LX_CAP_SYS_NICE))
			return -EPERM;
		break;
	case 2: /* best effort */
		if ((data & 7) != data)
			return -EINVAL;
		break;
	case 3: /* idle */
		break;
	case 0:
		if (data)
			return -EINVAL;
		break;
	default:
		return -EINVAL;
	}
	if (which < IOPRIO_WHO_PROCESS || which > IOPRIO_WHO_USER)
		return -EINVAL;
	each_target(t, which - 1, who, set_ioprio, &op);
	return op.result;
}
