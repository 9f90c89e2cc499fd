/* SPDX-License-Identifier: Apache-2.0 */
/*
 * membarrier(2): a memory barrier on all threads that run.
 *
 * Theory of operation: a thread that has come out of guest code since the call began has executed a
 * barrier (the switch to the sentry is one). So every thread concerned that is in the guest is
 * interrupted, and waited for until it is seen outside, or its count of exits has moved on. Slow,
 * and right on every platform.
 *
 * References: membarrier(2).
 */
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>

#define CMD_QUERY 0
#define CMD_GLOBAL 1
#define CMD_GLOBAL_EXPEDITED 2
#define CMD_REGISTER_GLOBAL_EXPEDITED 4
#define CMD_PRIVATE_EXPEDITED 8
#define CMD_REGISTER_PRIVATE_EXPEDITED 16
#define CMD_PRIVATE_EXPEDITED_SYNC_CORE 32
#define CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE 64
#define CMD_PRIVATE_EXPEDITED_RSEQ 128
#define CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ 256
#define CMD_GET_REGISTRATIONS 512
#define CMD_SUPPORTED                                                                 \
	(CMD_GLOBAL | CMD_GLOBAL_EXPEDITED | CMD_REGISTER_GLOBAL_EXPEDITED |          \
	 CMD_PRIVATE_EXPEDITED | CMD_REGISTER_PRIVATE_EXPEDITED |                     \
	 CMD_PRIVATE_EXPEDITED_SYNC_CORE | CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE | \
	 CMD_GET_REGISTRATIONS)

#define POLL_NS 20000

/* Waits until @o was outside of guest code once. -ERESTARTSYS: we are killed. */
static int wait_outside(struct task *o)
{
	uint32_t before = atomic_load(&o->guest_exits);

	for (unsigned i = 0; atomic_load(&o->in_guest) && atomic_load(&o->guest_exits) == before;
	     i++) {
		int r;

		/* Interrupting again is harmless, and covers one that slipped back in. */
		mutex_lock(&g_kernel.tasklist);
		if (o->pt && atomic_load(&o->in_guest))
			g_pf->interrupt(o->pt);
		mutex_unlock(&g_kernel.tasklist);
		if (i < 4) {
			fiber_yield();
			continue;
		}
		r = fiber_sleep_until(clock_mono_ns() + POLL_NS, WAIT_KILL);
		if (r == -ERESTARTSYS)
			return r;
	}
	return 0;
}

/* Does @o use @mm (NULL: any memory)? */
static bool concerns(struct task *o, const struct mm *mm)
{
	bool yes;

	mutex_lock(&g_kernel.tasklist);
	yes = o->mm && (!mm || o->mm == mm);
	mutex_unlock(&g_kernel.tasklist);
	return yes;
}

static unsigned thread_count(struct tgroup *tg)
{
	unsigned n;

	mutex_lock(&g_kernel.tasklist);
	n = tg->live;
	mutex_unlock(&g_kernel.tasklist);
	return n;
}

/* All threads of @tg that use @mm (NULL: any memory), but @t. */
static int barrier_group(struct task *t, struct tgroup *tg, struct mm *mm)
{
	struct task *o;
	int32_t at = 0;
	int r = 0;

	while (r == 0 && (o = tgroup_next_task(tg, at))) {
		at = o->tid + 1;
		if (o != t && concerns(o, mm))
			r = wait_outside(o);
		task_put(o);
	}
	return r;
}

static int barrier(struct task *t, struct mm *mm)
{
	struct tgroup *tg;
	int32_t at = 1;
	int r = 0;

	atomic_thread_fence(memory_order_seq_cst);
	/* Most often all users of the memory are our own threads. */
	if (mm && ref_read(&mm->users) <= thread_count(t->tg))
		return barrier_group(t, t->tg, mm);
	while (r == 0 && (tg = tgroup_next(at))) {
		at = tg->tgid + 1;
		r = barrier_group(t, tg, mm);
		tgroup_put(tg);
	}
	return r;
}

static int barrier_registered(struct task *t, uint32_t registration)
{
	int r;

	if (!(atomic_load(&t->mm->membarrier) & registration))
		return -EPERM;
	r = barrier(t, t->mm);
	return r == -ERESTARTSYS ? -EINTR : r;
}

long sys_membarrier(struct task *t, int cmd, unsigned flags, int cpu_id UNUSED)
{
	int r;

	if (flags)
		return -EINVAL;
	switch (cmd) {
	case CMD_QUERY:
		return CMD_SUPPORTED;
	case CMD_GLOBAL:
	case CMD_GLOBAL_EXPEDITED:
		r = barrier(t, NULL);
		return r == -ERESTARTSYS ? -EINTR : r;
	case CMD_PRIVATE_EXPEDITED:
		return barrier_registered(t, CMD_REGISTER_PRIVATE_EXPEDITED);
	case CMD_PRIVATE_EXPEDITED_SYNC_CORE:
		return barrier_registered(t, CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE);
	case CMD_REGISTER_GLOBAL_EXPEDITED:
	case CMD_REGISTER_PRIVATE_EXPEDITED:
	case CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE:
		atomic_fetch_or(&t->mm->membarrier, (uint32_t)cmd);
		return 0;
	case CMD_GET_REGISTRATIONS:
		return (long)atomic_load(&t->mm->membarrier);
	default:
		return -EINVAL;
	}
}
