/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prctl(2). An option that is not here is -EINVAL, as on a kernel without it.
 */
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <string.h>

enum {
	PR_SET_PDEATHSIG_ = 1,
	PR_GET_PDEATHSIG_ = 2,
	PR_GET_DUMPABLE_ = 3,
	PR_SET_DUMPABLE_ = 4,
	PR_GET_KEEPCAPS_ = 7,
	PR_SET_KEEPCAPS_ = 8,
	PR_GET_TIMING_ = 13,
	PR_SET_TIMING_ = 14,
	PR_SET_NAME_ = 15,
	PR_GET_NAME_ = 16,
	PR_GET_SECCOMP_ = 21,
	PR_SET_SECCOMP_ = 22,
	PR_CAPBSET_READ_ = 23,
	PR_CAPBSET_DROP_ = 24,
	PR_GET_TSC_ = 25,
	PR_SET_TSC_ = 26,
	PR_TSC_ENABLE_ = 1,
	PR_TSC_SIGSEGV_ = 2,
	PR_GET_SECUREBITS_ = 27,
	PR_SET_SECUREBITS_ = 28,
	PR_SET_TIMERSLACK_ = 29,
	PR_GET_TIMERSLACK_ = 30,
	PR_MCE_KILL_ = 33,
	PR_MCE_KILL_GET_ = 34,
	PR_SET_MM_ = 35,
	PR_SET_CHILD_SUBREAPER_ = 36,
	PR_GET_CHILD_SUBREAPER_ = 37,
	PR_SET_NO_NEW_PRIVS_ = 38,
	PR_GET_NO_NEW_PRIVS_ = 39,
	PR_GET_TID_ADDRESS_ = 40,
	PR_SET_THP_DISABLE_ = 41,
	PR_GET_THP_DISABLE_ = 42,
	PR_CAP_AMBIENT_ = 47,
	PR_GET_SPECULATION_CTRL_ = 52,
	PR_SET_SPECULATION_CTRL_ = 53,
	PR_SET_VMA_ = 0x53564d41,
	PR_SET_PTRACER_ = 0x59616d61,
	PR_GET_AUXV_ = 0x41555856,
};

#define SECBITS_ALL 0xffu
#define SECBIT_KEEP_CAPS 0x10u
#define SECBIT_KEEP_CAPS_LOCKED 0x20u
#define SECBIT_NO_CAP_AMBIENT_RAISE 0x40u
#define SECBITS_LOCKS 0xaau

static long put_int(struct task *t, uint64_t addr, int v)
{
	return copy_out(t, GADDR(addr), &v, sizeof(v));
}

static long set_comm(struct task *t, uint64_t addr)
{
	char name[16];
	ssize_t n = copy_in_str(t, name, GADDR(addr), sizeof(name));

	if (n == -ENAMETOOLONG) {
		if (copy_in(t, name, GADDR(addr), sizeof(name) - 1))
			return -EFAULT;
		n = sizeof(name) - 1;
	}
	if (n < 0)
		return n;
	mutex_lock(&g_kernel.tasklist);
	memset(t->comm, 0, sizeof(t->comm));
	memcpy(t->comm, name, (size_t)n);
	mutex_unlock(&g_kernel.tasklist);
	return 0;
}

static long drop_bounding(struct task *t, uint64_t cap)
{
	struct cred *c;

	if (!cred_capable(t->vctx.cred, LX_CAP_SETPCAP))
		return -EPERM;
	if (cap > LX_CAP_LAST)
		return -EINVAL;
	c = cred_dup(t->vctx.cred);
	if (!c)
		return -ENOMEM;
	c->cap_bset &= ~(1ull << cap);
	task_set_cred(t, c);
	return 0;
}

static long set_securebits(struct task *t, uint64_t bits)
{
	const struct cred *old = t->vctx.cred;
	struct cred *c;
	uint32_t locked = (old->securebits & SECBITS_LOCKS) >> 1;

	if (bits & ~(uint64_t)SECBITS_ALL)
		return -EPERM;
	if (((old->securebits ^ bits) & locked) || (old->securebits & SECBITS_LOCKS & ~bits) ||
	    !cred_capable(old, LX_CAP_SETPCAP))
		return -EPERM;
	c = cred_dup(old);
	if (!c)
		return -ENOMEM;
	c->securebits = (uint32_t)bits;
	t->keep_caps = bits & SECBIT_KEEP_CAPS;
	task_set_cred(t, c);
	return 0;
}

static long set_keepcaps(struct task *t, uint64_t on)
{
	const struct cred *old = t->vctx.cred;
	struct cred *c;

	if (on > 1)
		return -EINVAL;
	if (old->securebits & SECBIT_KEEP_CAPS_LOCKED)
		return -EPERM;
	c = cred_dup(old);
	if (!c)
		return -ENOMEM;
	c->securebits = on ? c->securebits | SECBIT_KEEP_CAPS : c->securebits & ~SECBIT_KEEP_CAPS;
	t->keep_caps = on;
	task_set_cred(t, c);
	return 0;
}

#define AMBIENT_IS_SET 1
#define AMBIENT_RAISE 2
#define AMBIENT_LOWER 3
#define AMBIENT_CLEAR_ALL 4

static long ambient(struct task *t, uint64_t op, uint64_t cap, uint64_t a4, uint64_t a5)
{
	const struct cred *old = t->vctx.cred;
	uint64_t bit, value;
	struct cred *c;

	if (op == AMBIENT_CLEAR_ALL) {
		if (cap | a4 | a5)
			return -EINVAL;
		value = 0;
	} else {
		if ((a4 | a5) || cap > LX_CAP_LAST)
			return -EINVAL;
		bit = 1ull << cap;
		if (op == AMBIENT_IS_SET)
			return !!(old->cap_ambient & bit);
		if (op != AMBIENT_RAISE && op != AMBIENT_LOWER)
			return -EINVAL;
		if (op == AMBIENT_RAISE &&
		    (!(old->cap_permitted & bit) || !(old->cap_inheritable & bit) ||
		     (old->securebits & SECBIT_NO_CAP_AMBIENT_RAISE)))
			return -EPERM;
		value = op == AMBIENT_RAISE ? old->cap_ambient | bit : old->cap_ambient & ~bit;
	}
	c = cred_dup(old);
	if (!c)
		return -ENOMEM;
	c->cap_ambient = value;
	task_set_cred(t, c);
	return 0;
}

static long get_auxv(struct task *t, uint64_t addr, uint64_t size, uint64_t a4, uint64_t a5)
{
	uint64_t have = t->mm->auxv_count * sizeof(t->mm->auxv[0]);

	if (a4 | a5)
		return -EINVAL;
	if (copy_out(t, GADDR(addr), t->mm->auxv, MIN(size, have)))
		return -EFAULT;
	return (long)have;
}

#define PR_SPEC_FORCE_DISABLE_STATE 0 /* not affected */

long sys_prctl(struct task *t, int option, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5)
{
	const struct cred *c = t->vctx.cred;

	switch (option) {
	case PR_SET_PDEATHSIG_:
		if (a2 > LX_NSIG)
			return -EINVAL;
		mutex_lock(&g_kernel.tasklist);
		t->pdeath_signal = (int)a2;
		mutex_unlock(&g_kernel.tasklist);
		return 0;
	case PR_GET_PDEATHSIG_:
		return put_int(t, a2, t->pdeath_signal);
	case PR_GET_DUMPABLE_:
		return t->tg->dumpable;
	case PR_SET_DUMPABLE_:
		if (a2 > 1)
			return -EINVAL;
		t->tg->dumpable = (int)a2;
		return 0;
	case PR_GET_KEEPCAPS_:
		return t->keep_caps;
	case PR_SET_KEEPCAPS_:
		return set_keepcaps(t, a2);
	case PR_GET_TIMING_:
		return 0; /* PR_TIMING_STATISTICAL */
	case PR_SET_TIMING_:
		return a2 == 0 ? 0 : -EINVAL;
	case PR_SET_NAME_:
		return set_comm(t, a2);
	case PR_GET_NAME_:
		return copy_out(t, GADDR(a2), t->comm, sizeof(t->comm));
	case PR_GET_SECCOMP_:
		return 0;
	case PR_SET_SECCOMP_:
		return -EINVAL; /* as a kernel without seccomp: guests have no filters yet */
	case PR_CAPBSET_READ_:
		return a2 > LX_CAP_LAST ? -EINVAL : !!(c->cap_bset & (1ull << a2));
	case PR_CAPBSET_DROP_:
		return drop_bounding(t, a2);
	case PR_GET_TSC_:
		return put_int(t, a2, t->tsc_faults ? PR_TSC_SIGSEGV_ : PR_TSC_ENABLE_);
	case PR_SET_TSC_:
		/* Where reading it faults anyway, and is answered. */
		if (a2 != PR_TSC_ENABLE_ && !(a2 == PR_TSC_SIGSEGV_ && g_pf_trap_tsc))
			return -EINVAL;
		t->tsc_faults = a2 == PR_TSC_SIGSEGV_;
		return 0;
	case PR_GET_SECUREBITS_:
		return c->securebits;
	case PR_SET_SECUREBITS_:
		return set_securebits(t, a2);
	case PR_SET_TIMERSLACK_:
		t->timer_slack_ns = a2 ? a2 : t->default_slack_ns;
		return 0;
	case PR_GET_TIMERSLACK_:
		return (long)MIN(t->timer_slack_ns, (uint64_t)INT64_MAX);
	case PR_MCE_KILL_:
		return (a4 | a5) || a2 > 1 || (a2 == 1 && a3 > 2) ? -EINVAL : 0;
	case PR_MCE_KILL_GET_:
		return (a2 | a3 | a4 | a5) ? -EINVAL : 2; /* PR_MCE_KILL_DEFAULT */
	case PR_SET_CHILD_SUBREAPER_:
		t->tg->child_subreaper = a2 != 0;
		return 0;
	case PR_GET_CHILD_SUBREAPER_:
		return put_int(t, a2, t->tg->child_subreaper);
	case PR_SET_NO_NEW_PRIVS_:
		if (a2 != 1 || a3 || a4 || a5)
			return -EINVAL;
		t->no_new_privs = true;
		return 0;
	case PR_GET_NO_NEW_PRIVS_:
		return (a2 | a3 | a4 | a5) ? -EINVAL : t->no_new_privs;
	case PR_GET_TID_ADDRESS_:
		return copy_out(t, GADDR(a2), &t->clear_child_tid.a, sizeof(uint64_t));
	case PR_SET_THP_DISABLE_:
		if (a3 | a4 | a5)
			return -EINVAL;
		mm_set_thp_off(t, a2 != 0);
		return 0;
	case PR_GET_THP_DISABLE_:
		return (a2 | a3 | a4 | a5) ? -EINVAL : mm_thp_off(t->mm);
	case PR_CAP_AMBIENT_:
		return ambient(t, a2, a3, a4, a5);
	case PR_GET_SPECULATION_CTRL_:
		if ((a3 | a4 | a5))
			return -EINVAL;
		return a2 <= 2 ? PR_SPEC_FORCE_DISABLE_STATE : -ENODEV;
	case PR_SET_SPECULATION_CTRL_:
		if (a4 | a5)
			return -EINVAL;
		return a2 <= 2 ? -ENXIO : -ENODEV;
	case PR_SET_VMA_:
		return mm_prctl_set_vma(t, a2, a3, a4, a5);
	case PR_SET_MM_:
		return mm_prctl_set_mm(t, a2, a3, a4, a5);
	case PR_SET_PTRACER_:
		return -EINVAL; /* as without Yama */
	case PR_GET_AUXV_:
		return get_auxv(t, a2, a3, a4, a5);
	default:
		return -EINVAL;
	}
}
