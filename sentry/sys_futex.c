/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The futex system calls: operations, timeouts, restarts.
 *
 * Deviations from Linux: FUTEX_WAIT_REQUEUE_PI and FUTEX_CMP_REQUEUE_PI are ENOSYS: no libc has
 * used them since glibc 2.25. FUTEX2_NUMA and FUTEX2_MPOL are EINVAL.
 *
 * References: futex(2), futex_waitv(2), restart_syscall(2), set_robust_list(2).
 */
#include "sentry/answers.h"
#include "sentry/futex.h"
#include "sentry/file_args.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <string.h>

#define OP_WAIT 0
#define OP_WAKE 1
#define OP_REQUEUE 3
#define OP_CMP_REQUEUE 4
#define OP_WAKE_OP 5
#define OP_LOCK_PI 6
#define OP_UNLOCK_PI 7
#define OP_TRYLOCK_PI 8
#define OP_WAIT_BITSET 9
#define OP_WAKE_BITSET 10
#define OP_WAIT_REQUEUE_PI 11
#define OP_CMP_REQUEUE_PI 12
#define OP_LOCK_PI2 13
#define OP_PRIVATE_FLAG 128
#define OP_CLOCK_REALTIME 256
#define OP_CMD_MASK (~(OP_PRIVATE_FLAG | OP_CLOCK_REALTIME))

#define LX_CLOCK_REALTIME 0
#define LX_CLOCK_MONOTONIC 1

#define F2_SIZE_MASK 3u
#define F2_SIZE_U32 2u
#define F2_PRIVATE 128u
#define F2_VALID (F2_SIZE_MASK | 4u | 8u | F2_PRIVATE)
#define WAITV_MAX 128u

/* An absolute time of the guest's as a deadline of the monotonic clock. */
static uint64_t absolute_deadline(const struct lx_timespec *ts, bool realtime)
{
	uint64_t at, now;

	if (ts->tv_sec >= INT64_MAX / (int64_t)NSEC_PER_SEC)
		return DEADLINE_NONE - 1;
	at = (uint64_t)ts->tv_sec * NSEC_PER_SEC + (uint64_t)ts->tv_nsec;
	if (!realtime)
		return at;
	now = clock_real_ns();
	return at > now ? clock_mono_ns() + (at - now) : 0;
}

static int read_timeout(struct task *t, gaddr_t addr, struct lx_timespec *ts)
{
	if (copy_in(t, ts, addr, sizeof(*ts)))
		return -EFAULT;
	if (ts->tv_sec < 0 || ts->tv_nsec < 0 || ts->tv_nsec >= (int64_t)NSEC_PER_SEC)
		return -EINVAL;
	return 0;
}

/* ---- waiting ---- */

/* A wait with a timeout goes on after a signal with the same deadline. */
static long wait_restart(struct task *t)
{
	struct restart_block *rb = &t->restart;
	long r = futex_wait_op(t, GADDR(rb->arg0), rb->arg1 & 1, (uint32_t)(rb->arg1 >> 32),
			       rb->deadline_ns, (uint32_t)rb->arg2);

	return r == -ERESTARTSYS ? -ERESTART_RESTARTBLOCK : r;
}

static long do_wait(struct task *t, gaddr_t addr, bool shared, uint32_t val, uint64_t deadline_ns,
		    uint32_t bitset)
{
	long r = futex_wait_op(t, addr, shared, val, deadline_ns, bitset);

	if (r != -ERESTARTSYS || deadline_ns == DEADLINE_NONE)
		return r;
	t->restart = (struct restart_block){.fn = wait_restart,
					    .deadline_ns = deadline_ns,
					    .arg0 = addr.a,
					    .arg1 = (uint64_t)val << 32 | shared,
					    .arg2 = bitset};
	return -ERESTART_RESTARTBLOCK;
}

static bool has_timeout(int cmd)
{
	return cmd == OP_WAIT || cmd == OP_LOCK_PI || cmd == OP_LOCK_PI2 || cmd == OP_WAIT_BITSET ||
	       cmd == OP_WAIT_REQUEUE_PI;
}

long sys_futex(struct task *t, gaddr_t uaddr, int op, uint32_t val, gaddr_t timeout, gaddr_t uaddr2,
	       uint32_t val3)
{
	int cmd = op & OP_CMD_MASK, val2 = (int)(uint32_t)timeout.a;
	bool shared = !(op & OP_PRIVATE_FLAG), realtime = op & OP_CLOCK_REALTIME;
	uint64_t deadline = DEADLINE_NONE;

	if (timeout.a && has_timeout(cmd)) {
		struct lx_timespec ts;
		int r = read_timeout(t, timeout, &ts);

		if (r)
			return r;
		if (cmd == OP_WAIT)
			r = timeout_to_deadline(&ts, &deadline);
		else
			deadline = absolute_deadline(&ts, realtime || cmd == OP_LOCK_PI);
		if (r)
			return r;
	}
	if (realtime && cmd != OP_WAIT_BITSET && cmd != OP_WAIT_REQUEUE_PI && cmd != OP_LOCK_PI2)
		return -ENOSYS;

	switch (cmd) {
	case OP_WAIT:
		return do_wait(t, uaddr, shared, val, deadline, FUTEX_ANY);
	case OP_WAIT_BITSET:
		return do_wait(t, uaddr, shared, val, deadline, val3);
	case OP_WAKE:
		return futex_wake_bits(t, uaddr, shared, (int)val, FUTEX_ANY);
	case OP_WAKE_BITSET:
		return futex_wake_bits(t, uaddr, shared, (int)val, val3);
	case OP_REQUEUE:
		return futex_requeue_op(t, uaddr, shared, uaddr2, shared, (int)val, val2, NULL);
	case OP_CMP_REQUEUE:
		return futex_requeue_op(t, uaddr, shared, uaddr2, shared, (int)val, val2, &val3);
	case OP_WAKE_OP:
		return futex_wake_op(t, uaddr, shared, uaddr2, (int)val, val2, val3);
	case OP_LOCK_PI:
	case OP_LOCK_PI2:
		return futex_lock_pi(t, uaddr, shared, deadline, false);
	case OP_TRYLOCK_PI:
		return futex_lock_pi(t, uaddr, shared, DEADLINE_NONE, true);
	case OP_UNLOCK_PI:
		return futex_unlock_pi(t, uaddr, shared);
	default:
		return -ENOSYS;
	}
}

/* ---- futex2 ---- */

static int check_flags2(unsigned flags, uint64_t val)
{
	if ((flags & ~F2_VALID) || (flags & F2_SIZE_MASK) != F2_SIZE_U32 ||
	    (flags & ~(F2_SIZE_MASK | F2_PRIVATE)) || val > UINT32_MAX)
		return -EINVAL;
	return 0;
}

static int read_deadline2(struct task *t, gaddr_t timeout, int clockid, uint64_t *deadline)
{
	struct lx_timespec ts;
	int r;

	*deadline = DEADLINE_NONE;
	if (!timeout.a)
		return 0;
	if (clockid != LX_CLOCK_REALTIME && clockid != LX_CLOCK_MONOTONIC)
		return -EINVAL;
	r = read_timeout(t, timeout, &ts);
	if (r == 0)
		*deadline = absolute_deadline(&ts, clockid == LX_CLOCK_REALTIME);
	return r;
}

struct lx_futex_waitv {
	uint64_t val, uaddr;
	uint32_t flags, reserved;
};
_Static_assert(sizeof(struct lx_futex_waitv) == 24, "struct futex_waitv");

static int read_waitv(struct task *t, gaddr_t addr, unsigned count, struct futex_wait_item *items)
{
	for (unsigned i = 0; i < count; i++) {
		struct lx_futex_waitv w;
		int r;

		if (copy_in(t, &w, GADDR(addr.a + i * sizeof(w)), sizeof(w)))
			return -EFAULT;
		r = w.reserved ? -EINVAL : check_flags2(w.flags, w.val);
		if (r)
			return r;
		items[i] = (struct futex_wait_item){.addr = GADDR(w.uaddr),
						    .val = (uint32_t)w.val,
						    .shared = !(w.flags & F2_PRIVATE)};
	}
	return 0;
}

long sys_futex_waitv(struct task *t, gaddr_t waiters, unsigned nr_futexes, unsigned flags,
		     gaddr_t timeout, int clockid)
{
	struct futex_wait_item items[WAITV_MAX];
	uint64_t deadline;
	int r;

	if (flags || nr_futexes == 0 || nr_futexes > WAITV_MAX || !waiters.a)
		return -EINVAL;
	r = read_deadline2(t, timeout, clockid, &deadline);
	if (r == 0)
		r = read_waitv(t, waiters, nr_futexes, items);
	return r ? r : futex_wait_many(t, items, nr_futexes, deadline);
}

long sys_futex_wake(struct task *t, gaddr_t uaddr, uint64_t mask, int nr, unsigned flags)
{
	int r = check_flags2(flags, mask);

	if (r)
		return r;
	if (!mask)
		return -EINVAL;
	if (nr == 0) {
		struct futex_key key;
		struct inode *inode;

		r = futex_get_key(t, uaddr, !(flags & F2_PRIVATE), FUTEX_READS, &key, &inode);
		if (r == 0 && inode)
			inode_put(inode);
		return r;
	}
	return futex_wake_bits(t, uaddr, !(flags & F2_PRIVATE), nr, (uint32_t)mask);
}

long sys_futex_wait(struct task *t, gaddr_t uaddr, uint64_t val, uint64_t mask, unsigned flags,
		    gaddr_t timeout, int clockid)
{
	uint64_t deadline;
	int r = check_flags2(flags, val);

	if (r == 0)
		r = check_flags2(flags, mask);
	if (r == 0)
		r = read_deadline2(t, timeout, clockid, &deadline);
	if (r)
		return r;
	return futex_wait_op(t, uaddr, !(flags & F2_PRIVATE), (uint32_t)val, deadline,
			     (uint32_t)mask);
}

long sys_futex_requeue(struct task *t, gaddr_t waiters, unsigned flags, int nr_wake, int nr_requeue)
{
	struct futex_wait_item items[2];
	int r;

	if (flags || !waiters.a)
		return -EINVAL;
	r = read_waitv(t, waiters, 2, items);
	if (r)
		return r;
	return futex_requeue_op(t, items[0].addr, items[0].shared, items[1].addr, items[1].shared,
				nr_wake, nr_requeue, &items[0].val);
}

/* ---- robust lists ---- */

#define ROBUST_HEAD_SIZE 24u

long sys_set_robust_list(struct task *t, gaddr_t head, uint64_t len)
{
	if (len != ROBUST_HEAD_SIZE)
		return -EINVAL;
	t->robust_list = head;
	return 0;
}

long sys_get_robust_list(struct task *t, int pid, gaddr_t head_ptr, gaddr_t len_ptr)
{
	uint64_t head, len = ROBUST_HEAD_SIZE;
	struct task *o;
	bool ok;

	o = pid == 0 ? task_get(t) : task_find(pid);
	if (!o)
		return -ESRCH;
	ok = o == t || task_may_access(t, o);
	head = answers_robust_list(o);
	task_put(o);
	if (!ok)
		return -EPERM;
	if (copy_out(t, len_ptr, &len, sizeof(len)))
		return -EFAULT;
	return copy_out(t, head_ptr, &head, sizeof(head));
}
