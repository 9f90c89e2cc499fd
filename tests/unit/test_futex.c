/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futexes on the mock platform: threads that wait and wake, requeues, timeouts, robust lists, PI
 * locks.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include "sentry/futex.h"
#include "tests/unit/kernel_env.h"

#define W GUEST_DATA /* words */
#define W2 (GUEST_DATA + 0x100)
#define T (GUEST_DATA + 0x200) /* timespecs */
#define S (GUEST_DATA + 0x1000)
#define PAGE MOAT_PAGE_SIZE

#define WAIT 0
#define WAKE 1
#define REQUEUE 3
#define CMP_REQUEUE 4
#define WAKE_OP 5
#define LOCK_PI 6
#define UNLOCK_PI 7
#define TRYLOCK_PI 8
#define WAIT_BITSET 9
#define WAKE_BITSET 10
#define PRIV 128
#define REALTIME 256
#define THREAD_FLAGS 0x10f00ull /* VM FS FILES SIGHAND THREAD */
#define CHILD_CLEARTID 0x200000ull

#define RUN(name) GUEST_TEST(futex, name)

static _Atomic int g_started, g_woken, g_error;

static long futex(struct mock_thread *mt, uint64_t addr, int op, uint32_t val, uint64_t timeout,
		  uint64_t addr2, uint32_t val3)
{
	return SYS(mt, futex, addr, op, val, timeout, addr2, val3);
}

static void set(struct mock_thread *mt, uint64_t addr, uint32_t v)
{
	put_mem(mt, addr, &v, sizeof(v));
}

static uint64_t timespec(struct mock_thread *mt, int64_t s, int64_t ns)
{
	struct lx_timespec ts = {s, ns};

	return put_mem(mt, T, &ts, sizeof(ts));
}

/* In milliseconds: longer only means a hang. */
#define PATIENCE 60000

/* Lets others run for a while. */
static void pause_ms(struct mock_thread *mt, int ms)
{
	IS(SYS(mt, nanosleep, timespec(mt, 0, ms * 1000000l), 0), 0);
}

static void until(struct mock_thread *mt, _Atomic int *what, int value)
{
	for (int i = 0; i < PATIENCE && atomic_load(what) < value; i++)
		pause_ms(mt, 1);
	cr_assert_geq(atomic_load(what), value);
}

/* Until all but the caller are asleep, as those are that "started" and have nothing to do but wait.
 */
static void until_asleep(struct mock_thread *mt)
{
	for (int i = 0; i < PATIENCE && fibers_running() > 1; i++)
		pause_ms(mt, 1);
	cr_assert_eq(fibers_running(), 1);
}

/* A thread that waits on the word its argument names. */
struct waiter_arg {
	uint64_t addr;
	int op;
	uint32_t val, bits;
};

static void thread_exit(struct mock_thread *mt)
{
	SYS(mt, exit, 0);
}

static int waiter_thread(struct mock_thread *mt, void *arg)
{
	struct waiter_arg *w = arg;
	long r;

	atomic_fetch_add(&g_started, 1);
	r = futex(mt, w->addr, w->op, w->val, 0, 0, w->bits);
	if (r == 0)
		atomic_fetch_add(&g_woken, 1);
	else
		atomic_store(&g_error, (int)r);
	thread_exit(mt);
	return 0;
}

static void start(struct mock_thread *mt, struct waiter_arg *w, unsigned n)
{
	int before = atomic_load(&g_started);
	static uint64_t stack = S + 0x8000;

	for (unsigned i = 0; i < n; i++) {
		stack += 0x1000;
		cr_assert_gt(mock_clone(mt, THREAD_FLAGS, stack, 0, 0, 0, waiter_thread, w), 0);
	}
	until(mt, &g_started, before + (int)n);
	until_asleep(mt);
}

RUN(errors)
{
	set(mt, W, 5);
	IS(futex(mt, W, WAIT, 4, 0, 0, 0), -EAGAIN);
	IS(futex(mt, W + 1, WAIT, 5, 0, 0, 0), -EINVAL);
	IS(futex(mt, GUEST_BAD, WAIT | PRIV, 5, 0, 0, 0), -EFAULT);
	IS(futex(mt, GUEST_BAD, WAKE, 1, 0, 0, 0), -EFAULT);
	IS(futex(mt, GUEST_BAD, WAKE | PRIV, 1, 0, 0, 0), 0);
	IS(futex(mt, LX_TASK_SIZE, WAKE | PRIV, 1, 0, 0, 0), -EFAULT);
	IS(futex(mt, W, WAIT, 5, GUEST_BAD, 0, 0), -EFAULT);
	IS(futex(mt, W, WAIT, 5, timespec(mt, 0, 1000000000), 0, 0), -EINVAL);
	IS(futex(mt, W, WAIT, 5, timespec(mt, -1, 0), 0, 0), -EINVAL);
	IS(futex(mt, W, WAIT, 5, timespec(mt, 0, 1000000), 0, 0), -ETIMEDOUT);
	IS(futex(mt, W, WAIT_BITSET, 5, timespec(mt, 1, 0), 0, 1), -ETIMEDOUT);
	IS(futex(mt, W, WAIT_BITSET | REALTIME, 5, timespec(mt, 1, 0), 0, 1), -ETIMEDOUT);
	IS(futex(mt, W, WAIT_BITSET, 5, 0, 0, 0), -EINVAL);
	IS(futex(mt, W, WAKE_BITSET, 1, 0, 0, 0), -EINVAL);
	IS(futex(mt, W, WAIT | REALTIME, 5, 0, 0, 0), -ENOSYS);
	IS(futex(mt, W, 11, 5, 0, W2, 0), -ENOSYS);
	IS(futex(mt, W, 77, 5, 0, 0, 0), -ENOSYS);
	IS(futex(mt, W, WAKE, 1, 0, 0, 0), 0);
	IS(futex(mt, W, REQUEUE, (uint32_t)-1, 1, W2, 0), -EINVAL);
	IS(futex(mt, W, CMP_REQUEUE, 1, 1, W2, 4), -EAGAIN);
	IS(futex(mt, W, CMP_REQUEUE, 1, 1, W2, 5), 0);
	IS(futex(mt, W, WAKE_OP, 1, 1, W2, 0x5u << 28), -ENOSYS);
	IS(futex(mt, W, WAKE_OP, 1, 1, W2, 0x6u << 24), -ENOSYS);
	IS(futex(mt, W, WAKE_OP, 1, 1, GUEST_BAD & ~3ull, 0), -EFAULT);
	return 0;
}

RUN(wait_and_wake)
{
	static struct waiter_arg w = {.addr = W, .op = WAIT | PRIV, .val = 1};
	static struct waiter_arg shared = {.addr = W, .op = WAIT, .val = 1};

	set(mt, W, 1);
	start(mt, &w, 4);
	IS(futex(mt, W, WAKE, 100, 0, 0, 0), 0); /* another key */
	IS(futex(mt, W, WAKE | PRIV, 1, 0, 0, 0), 1);
	until(mt, &g_woken, 1);
	IS(futex(mt, W, WAKE | PRIV, 0, 0, 0, 0), 1); /* at least one, as Linux */
	IS(futex(mt, W, WAKE | PRIV, 100, 0, 0, 0), 2);
	until(mt, &g_woken, 4);
	IS(futex(mt, W, WAKE | PRIV, 100, 0, 0, 0), 0);
	start(mt, &shared, 2);
	IS(futex(mt, W, WAKE | PRIV, 100, 0, 0, 0), 0);
	IS(futex(mt, W, WAKE, 100, 0, 0, 0), 2);
	until(mt, &g_woken, 6);
	cr_expect_eq(g_error, 0);
	return 0;
}

RUN(bitset)
{
	static struct waiter_arg a = {.addr = W, .op = WAIT_BITSET, .val = 1, .bits = 1};
	static struct waiter_arg b = {.addr = W, .op = WAIT_BITSET, .val = 1, .bits = 6};

	set(mt, W, 1);
	start(mt, &a, 2);
	start(mt, &b, 1);
	IS(futex(mt, W, WAKE_BITSET, 100, 0, 0, 8), 0);
	IS(futex(mt, W, WAKE_BITSET, 100, 0, 0, 4), 1);
	IS(futex(mt, W, WAKE_BITSET, 100, 0, 0, 0xffffffff), 2);
	until(mt, &g_woken, 3);
	return 0;
}

RUN(requeue)
{
	static struct waiter_arg w = {.addr = W, .op = WAIT, .val = 1};

	set(mt, W, 1);
	start(mt, &w, 6);
	IS(futex(mt, W, CMP_REQUEUE, 1, 3, W2, 2), -EAGAIN);
	IS(futex(mt, W, CMP_REQUEUE, 1, 3, W2, 1), 4);
	until(mt, &g_woken, 1);
	IS(futex(mt, W2, WAKE, 2, 0, 0, 0), 2);
	until(mt, &g_woken, 3);
	IS(futex(mt, W2, REQUEUE, 0, 100, W, 0), 1);
	IS(futex(mt, W, REQUEUE, 0, 100, W, 0), 3); /* onto itself */
	IS(futex(mt, W, WAKE, 100, 0, 0, 0), 3);
	until(mt, &g_woken, 6);
	return 0;
}

RUN(wake_op)
{
	static struct waiter_arg a = {.addr = W, .op = WAIT, .val = 1};
	static struct waiter_arg b = {.addr = W2, .op = WAIT, .val = 2};

	set(mt, W, 1);
	set(mt, W2, 2);
	start(mt, &a, 2);
	start(mt, &b, 2);
	/* ADD 3 to W2; was it 5? No: only the first wakes. */
	IS(futex(mt, W, WAKE_OP, 1, 5, W2, 1u << 28 | 0u << 24 | 3 << 12 | 5), 1);
	IS(get_u32(mt, W2), 5);
	/* SET to -1; was it greater than 4? Yes. */
	IS(futex(mt, W, WAKE_OP, 5, 5, W2, 0u << 28 | 4u << 24 | 0xfffu << 12 | 4), 3);
	IS(get_u32(mt, W2), UINT32_MAX);
	until(mt, &g_woken, 4);
	/* OR 1<<4, ANDN, XOR. */
	set(mt, W2, 0);
	IS(futex(mt, W, WAKE_OP, 1, 1, W2, 0xau << 28 | 4 << 12), 0);
	IS(get_u32(mt, W2), 16);
	IS(futex(mt, W, WAKE_OP, 1, 1, W2, 3u << 28 | 16 << 12), 0);
	IS(get_u32(mt, W2), 0);
	IS(futex(mt, W, WAKE_OP, 1, 1, W2, 4u << 28 | 7 << 12), 0);
	IS(get_u32(mt, W2), 7);
	return 0;
}

/* A process that waits on shared memory. */
static int shared_child(struct mock_thread *mt, void *arg)
{
	return futex(mt, (uint64_t)(uintptr_t)arg, WAIT, 0, timespec(mt, 60, 0), 0, 0) == 0 ? 3 : 4;
}

RUN(shared_between_processes)
{
	uint64_t a = (uint64_t)SYS(mt, mmap, 0, PAGE, 3, LX_MAP_SHARED | LX_MAP_ANONYMOUS, -1, 0);
	long again = SYS(mt, mremap, a, 0, PAGE, LX_MREMAP_MAYMOVE), pid, r = 0;

	pid = mock_fork(mt, shared_child, (void *)(uintptr_t)(a + 8));
	/* By another address of the same memory. */
	for (int i = 0; i < PATIENCE && r == 0; i++) {
		r = futex(mt, (uint64_t)again + 8, WAKE, 1, 0, 0, 0);
		pause_ms(mt, 1);
	}
	IS(r, 1);
	IS(SYS(mt, wait4, pid, W, 0, 0), pid);
	IS(get_u32(mt, W), 3 << 8);
	return 0;
}

static int clear_thread(struct mock_thread *mt, void *arg UNUSED)
{
	pause_ms(mt, 10);
	thread_exit(mt);
	return 0;
}

RUN(clear_child_tid)
{
	uint32_t tid;

	set(mt, W, 77);
	cr_assert_gt(mock_clone(mt, THREAD_FLAGS | CHILD_CLEARTID, S + 0x9000, 0, W, 0,
				clear_thread, NULL),
		     0);
	while ((tid = get_u32(mt, W)) != 0)
		(void)futex(mt, W, WAIT, tid, 0, 0, 0);
	return 0;
}

/* ---- waiting on many ---- */

struct waitv {
	uint64_t val, addr;
	uint32_t flags, reserved;
};

static int wake_w2(struct mock_thread *mt, void *arg UNUSED)
{
	while (futex(mt, W2, WAKE | PRIV, 1, 0, 0, 0) == 0)
		pause_ms(mt, 1);
	thread_exit(mt);
	return 0;
}

RUN(waitv)
{
	struct waitv v[2] = {{1, W, 2 | 128, 0}, {2, W2, 2 | 128, 0}};

	set(mt, W, 1);
	set(mt, W2, 2);
	put_mem(mt, S, v, sizeof(v));
	IS(SYS(mt, futex_waitv, S, 0, 0, 0, 1), -EINVAL);
	IS(SYS(mt, futex_waitv, S, 129, 0, 0, 1), -EINVAL);
	IS(SYS(mt, futex_waitv, S, 2, 1, 0, 1), -EINVAL);
	IS(SYS(mt, futex_waitv, GUEST_BAD, 2, 0, 0, 1), -EFAULT);
	IS(SYS(mt, futex_waitv, S, 2, 0, timespec(mt, 1, 0), 7), -EINVAL);
	IS(SYS(mt, futex_waitv, S, 2, 0, timespec(mt, 1, 0), 1), -ETIMEDOUT);
	set(mt, W2, 3);
	IS(SYS(mt, futex_waitv, S, 2, 0, 0, 1), -EAGAIN);
	set(mt, W2, 2);
	cr_assert_gt(mock_clone(mt, THREAD_FLAGS, S + 0x9000, 0, 0, 0, wake_w2, NULL), 0);
	IS(SYS(mt, futex_waitv, S, 2, 0, 0, 1), 1);
	v[1].flags = 1;
	put_mem(mt, S, v, sizeof(v));
	IS(SYS(mt, futex_waitv, S, 2, 0, 0, 1), -EINVAL);
	/* The single ones. */
	IS(SYS(mt, futex_wait, W, 2, 0xffffffff, 2, 0, 1), -EAGAIN);
	IS(SYS(mt, futex_wait, W, 1, 0, 2, 0, 1), -EINVAL);
	IS(SYS(mt, futex_wait, W, 1, 1, 2, timespec(mt, 1, 0), 1), -ETIMEDOUT);
	IS(SYS(mt, futex_wake, W, 0xffffffff, 1, 2), 0);
	IS(SYS(mt, futex_wake, W, 0, 1, 2), -EINVAL);
	IS(SYS(mt, futex_wake, W, 1, 1, 0), -EINVAL);
	IS(SYS(mt, futex_requeue, S, 1, 1, 1), -EINVAL);
	return 0;
}

/* ---- robust lists ---- */

#define HEAD (S + 0x100)
#define LOCK1 (S + 0x200)
#define LOCK2 (S + 0x240)
#define OFFSET 16 /* from a list entry to its word */

static int robust_thread(struct mock_thread *mt, void *arg UNUSED)
{
	uint32_t tid = (uint32_t)SYS(mt, gettid);
	uint64_t head[3] = {LOCK1, OFFSET, LOCK2}, next = HEAD;

	put_mem(mt, LOCK1, &next, 8);
	set(mt, LOCK1 + OFFSET, tid | FUTEX_WORD_WAITERS);
	set(mt, LOCK2 + OFFSET, tid);
	put_mem(mt, HEAD, head, sizeof(head));
	IS(SYS(mt, set_robust_list, HEAD, 23), -EINVAL);
	IS(SYS(mt, set_robust_list, HEAD, 24), 0);
	IS(SYS(mt, get_robust_list, 0, W, W + 8), 0);
	IS(get_u64(mt, W), HEAD);
	IS(get_u64(mt, W + 8), 24);
	atomic_store(&g_started, 1);
	pause_ms(mt, 30);
	thread_exit(mt);
	return 0;
}

RUN(robust)
{
	uint32_t word;

	cr_assert_gt(mock_clone(mt, THREAD_FLAGS, S + 0x9000, 0, 0, 0, robust_thread, NULL), 0);
	until(mt, &g_started, 1);
	while (!((word = get_u32(mt, LOCK1 + OFFSET)) & FUTEX_WORD_OWNER_DIED))
		(void)futex(mt, LOCK1 + OFFSET, WAIT, word, 0, 0, 0);
	IS(word, FUTEX_WORD_OWNER_DIED | FUTEX_WORD_WAITERS);
	/* The one that was being locked, too. */
	for (int i = 0; i < PATIENCE && get_u32(mt, LOCK2 + OFFSET) != FUTEX_WORD_OWNER_DIED; i++)
		pause_ms(mt, 1);
	IS(get_u32(mt, LOCK2 + OFFSET), FUTEX_WORD_OWNER_DIED);
	IS(SYS(mt, get_robust_list, 9999, W, W + 8), -ESRCH);
	return 0;
}

/* A list that never ends, one that leads nowhere: the exit ends. */
static int endless_thread(struct mock_thread *mt, void *arg)
{
	uint64_t head[3] = {LOCK1, OFFSET, 0}, next = arg ? GUEST_BAD : LOCK1;

	put_mem(mt, LOCK1, &next, 8);
	put_mem(mt, HEAD, head, sizeof(head));
	IS(SYS(mt, set_robust_list, HEAD, 24), 0);
	thread_exit(mt);
	return 0;
}

RUN(robust_hostile)
{
	for (int i = 0; i < 2; i++) {
		uint32_t tid;

		set(mt, W, 1);
		cr_assert_gt(mock_clone(mt, THREAD_FLAGS | CHILD_CLEARTID, S + 0x9000, 0, W, 0,
					endless_thread, i ? &g_started : NULL),
			     0);
		while ((tid = get_u32(mt, W)) != 0)
			(void)futex(mt, W, WAIT, tid, timespec(mt, 1, 0), 0, 0);
	}
	return 0;
}

/* ---- priority inheritance ---- */

static int pi_thread(struct mock_thread *mt, void *arg)
{
	uint32_t tid = (uint32_t)SYS(mt, gettid);

	atomic_fetch_add(&g_started, 1);
	if (futex(mt, W, LOCK_PI, 0, 0, 0, 0) != 0)
		atomic_store(&g_error, __LINE__);
	if ((get_u32(mt, W) & FUTEX_WORD_TID) != tid)
		atomic_store(&g_error, __LINE__);
	atomic_fetch_add(&g_woken, 1);
	/* With an argument it dies with the lock. */
	if (!arg && futex(mt, W, UNLOCK_PI, 0, 0, 0, 0) != 0)
		atomic_store(&g_error, __LINE__);
	thread_exit(mt);
	return 0;
}

RUN(pi)
{
	uint32_t me = (uint32_t)SYS(mt, gettid);

	set(mt, W, 0);
	IS(futex(mt, W, UNLOCK_PI, 0, 0, 0, 0), -EPERM);
	IS(futex(mt, W, TRYLOCK_PI, 0, 0, 0, 0), 0);
	IS(get_u32(mt, W), me);
	IS(futex(mt, W, LOCK_PI, 0, 0, 0, 0), -EDEADLK);
	IS(futex(mt, W, TRYLOCK_PI, 0, 0, 0, 0), -EDEADLK);
	for (int i = 0; i < 3; i++)
		cr_assert_gt(mock_clone(mt, THREAD_FLAGS, S + 0x9000 + 0x1000u * (unsigned)i, 0, 0,
					0, pi_thread, NULL),
			     0);
	until(mt, &g_started, 3);
	until_asleep(mt);
	cr_expect(get_u32(mt, W) & FUTEX_WORD_WAITERS);
	cr_expect_eq(g_woken, 0);
	IS(futex(mt, W, WAKE, 1, 0, 0, 0), -EINVAL); /* a plain wake of such waiters */
	IS(futex(mt, W, UNLOCK_PI, 0, 0, 0, 0), 0);
	until(mt, &g_woken, 3);
	for (int i = 0; i < PATIENCE && get_u32(mt, W) & FUTEX_WORD_TID; i++)
		pause_ms(mt, 1);
	IS(get_u32(mt, W) & FUTEX_WORD_TID, 0);
	IS(g_error, 0);
	/* An owner that does not exist; a timeout. */
	set(mt, W, 12345);
	IS(futex(mt, W, LOCK_PI, 0, 0, 0, 0), -ESRCH);
	IS(futex(mt, W, TRYLOCK_PI, 0, 0, 0, 0), -ESRCH);
	return 0;
}

static _Atomic bool g_stop;

static int pi_owner(struct mock_thread *mt, void *arg UNUSED)
{
	IS(futex(mt, W, LOCK_PI, 0, 0, 0, 0), 0);
	atomic_fetch_add(&g_started, 1);
	while (!atomic_load(&g_stop))
		pause_ms(mt, 1);
	/* Mostly, the other one waits by then. */
	pause_ms(mt, 20);
	thread_exit(mt);
	return 0;
}

RUN(pi_owner_dies)
{
	uint32_t me = (uint32_t)SYS(mt, gettid);

	set(mt, W, 0);
	cr_assert_gt(mock_clone(mt, THREAD_FLAGS, S + 0x9000, 0, 0, 0, pi_owner, NULL), 0);
	until(mt, &g_started, 1);
	IS(futex(mt, W, LOCK_PI, 0, timespec(mt, 1, 0), 0, 0), -ETIMEDOUT);
	atomic_store(&g_stop, true);
	IS(futex(mt, W, LOCK_PI, 0, 0, 0, 0), 0);
	IS(get_u32(mt, W) & (FUTEX_WORD_TID | FUTEX_WORD_OWNER_DIED), me | FUTEX_WORD_OWNER_DIED);
	IS(futex(mt, W, UNLOCK_PI, 0, 0, 0, 0), 0);
	return 0;
}

/* ---- membarrier: threads that run, that sleep, that come and go ---- */

static int busy_thread(struct mock_thread *mt, void *arg UNUSED)
{
	atomic_fetch_add(&g_started, 1);
	while (!atomic_load(&g_stop))
		mock_spin(mt);
	thread_exit(mt);
	return 0;
}

static int asleep_thread(struct mock_thread *mt, void *arg UNUSED)
{
	atomic_fetch_add(&g_started, 1);
	while (!atomic_load(&g_stop))
		pause_ms(mt, 1);
	thread_exit(mt);
	return 0;
}

RUN(membarrier)
{
	for (unsigned i = 0; i < 4; i++)
		cr_assert_gt(mock_clone(mt, THREAD_FLAGS, S + 0x9000 + 0x1000 * i, 0, 0, 0,
					i % 2 ? busy_thread : asleep_thread, NULL),
			     0);
	until(mt, &g_started, 4);
	IS(SYS(mt, membarrier, 8, 0), -EPERM);
	IS(SYS(mt, membarrier, 16, 0), 0);
	IS(SYS(mt, membarrier, 64, 0), 0);
	IS(SYS(mt, membarrier, 512, 0), 16 | 64);
	for (int i = 0; i < 20; i++) {
		IS(SYS(mt, membarrier, 8, 0), 0);
		IS(SYS(mt, membarrier, 32, 0), 0);
		IS(SYS(mt, membarrier, 1, 0), 0);
	}
	atomic_store(&g_stop, true);
	IS(SYS(mt, membarrier, 8, 0), 0);
	return 0;
}
