/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes: children and how they are waited for, signals and masks, timers, credentials, limits,
 * scheduling, prctl, what /proc shows of it; hostile arguments; every allocation and copy made to
 * fail in turn.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "base/lx_fcntl.h"
#include "base/lx_signal.h"
#include "base/lx_time.h"
#include "tests/unit/kernel_env.h"

#define A GUEST_DATA
#define B (GUEST_DATA + 0x1000)
#define C (GUEST_DATA + 0x2000)
#define HANDLER ((uint64_t)0x410000)

#define RUN(name) GUEST_TEST(syscall_process, name)

enum { WNOHANG_ = 1, WEXITED_ = 4, WNOWAIT_ = 0x01000000, P_ALL_ = 0, P_PID_ = 1 };

static int g_handled; /* signals that the handler saw; read by the guest only */

static int handler(struct mock_thread *mt UNUSED, void *arg UNUSED)
{
	g_handled++;
	return 0;
}

static void catch_signal(struct mock_thread *mt, int sig)
{
	const struct lx_sigaction sa = {
		.handler = HANDLER, .flags = LX_SA_RESTORER, .restorer = MOCK_RESTORER};

	mock_register(HANDLER, handler, NULL);
	IS(SYS(mt, rt_sigaction, sig, put_mem(mt, C, &sa, sizeof(sa)), 0, 8), 0);
}

static long own_pid(struct mock_thread *mt)
{
	return SYS(mt, getpid);
}

static long mask(struct mock_thread *mt, int how, uint64_t set)
{
	return SYS(mt, rt_sigprocmask, how, put_mem(mt, C, &set, 8), 0, 8);
}

static int exits_with(struct mock_thread *mt UNUSED, void *arg)
{
	return (int)(intptr_t)arg;
}

static int kills_itself(struct mock_thread *mt, void *arg)
{
	SYS(mt, kill, own_pid(mt), (intptr_t)arg);
	return 1;
}

static int sleeps(struct mock_thread *mt, void *arg UNUSED)
{
	for (;;)
		SYS(mt, pause);
	return 0;
}

RUN(children)
{
	long pid;

	IS(SYS(mt, wait4, -1, 0, 0, 0), -ECHILD);
	pid = mock_fork(mt, exits_with, (void *)7);
	IS(SYS(mt, waitid, P_PID_, pid, GUEST_BAD, WEXITED_ | WNOWAIT_, 0), -EFAULT);
	IS(SYS(mt, waitid, P_PID_, pid, A, WEXITED_ | WNOWAIT_, 0), 0);
	IS(SYS(mt, wait4, pid, A, 0, 0), pid);
	IS(get_u32(mt, A), 7 << 8);
	IS(SYS(mt, wait4, pid, A, 0, 0), -ECHILD);
	pid = mock_fork(mt, kills_itself, (void *)LX_SIGTERM);
	IS(SYS(mt, wait4, -1, A, 0, B), pid);
	IS(get_u32(mt, A), LX_SIGTERM);
	pid = mock_fork(mt, sleeps, NULL);
	IS(SYS(mt, wait4, -1, A, WNOHANG_, 0), 0);
	IS(SYS(mt, kill, pid, 0), 0);
	IS(SYS(mt, setpgid, pid, pid), 0);
	IS(SYS(mt, getpgid, pid), pid);
	IS(SYS(mt, kill, -pid, LX_SIGKILL), 0);
	IS(SYS(mt, wait4, -pid, A, 0, 0), pid);
	IS(get_u32(mt, A), LX_SIGKILL);
	IS(SYS(mt, kill, pid, 0), -ESRCH);
	IS(SYS(mt, wait4, -1, A, 0xdead, 0), -EINVAL);
	IS(SYS(mt, wait4, INT32_MIN, A, 0, 0), -ESRCH);
	IS(SYS(mt, waitid, 9, 0, A, WEXITED_, 0), -EINVAL);
	IS(SYS(mt, waitid, P_ALL_, 0, A, 0, 0), -EINVAL);
	IS(SYS(mt, kill, 999999, LX_SIGTERM), -ESRCH);
	IS(SYS(mt, kill, own_pid(mt), 65), -EINVAL);
	IS(SYS(mt, tgkill, -1, 1, 0), -EINVAL);
	IS(SYS(mt, clone, 0x800, 0, 0, 0, 0), -EINVAL);   /* handlers without memory */
	IS(SYS(mt, clone, 0x10000, 0, 0, 0, 0), -EINVAL); /* a thread without handlers */
	IS(SYS(mt, clone3, GUEST_BAD, 64), -EFAULT);
	IS(SYS(mt, clone3, A, 1), -EINVAL);
	return 0;
}

RUN(blocked_signals)
{
	const uint64_t usr1 = 1ull << (LX_SIGUSR1 - 1);
	const long self = own_pid(mt);
	struct lx_timespec ts = {0, 1000000};

	catch_signal(mt, LX_SIGUSR1);
	IS(mask(mt, LX_SIG_BLOCK, ~0ull), 0);
	IS(SYS(mt, rt_sigprocmask, 0, 0, A, 8), 0);
	/* All but SIGKILL and SIGSTOP. */
	cr_expect_eq(get_u64(mt, A), ~(1ull << 8 | 1ull << 18));
	IS(SYS(mt, kill, self, LX_SIGUSR1), 0);
	IS(SYS(mt, kill, self, LX_SIGUSR1), 0);
	IS(g_handled, 0);
	IS(SYS(mt, rt_sigpending, A, 8), 0);
	cr_expect_eq(get_u64(mt, A), usr1);
	put_mem(mt, B, &usr1, 8);
	IS(SYS(mt, rt_sigtimedwait, B, A, 0, 8), LX_SIGUSR1);
	IS(SYS(mt, rt_sigtimedwait, B, A, put_mem(mt, C, &ts, 16), 8), -EAGAIN);
	IS(SYS(mt, rt_sigtimedwait, B, A, GUEST_BAD, 8), -EFAULT);
	IS(SYS(mt, rt_sigtimedwait, B, A, 0, 4), -EINVAL);
	IS(SYS(mt, kill, self, LX_SIGUSR1), 0);
	IS(mask(mt, LX_SIG_SETMASK, 0), 0);
	IS(g_handled, 1);
	IS(mask(mt, 9, 0), -EINVAL);
	IS(SYS(mt, rt_sigprocmask, 0, GUEST_BAD, 0, 8), -EFAULT);
	IS(SYS(mt, rt_sigprocmask, 0, 0, GUEST_BAD, 8), -EFAULT);
	IS(SYS(mt, rt_sigaction, LX_SIGKILL, C, 0, 8), -EINVAL);
	IS(SYS(mt, rt_sigaction, 0, 0, 0, 8), -EINVAL);
	IS(SYS(mt, rt_sigaction, 1, GUEST_BAD, 0, 8), -EFAULT);
	IS(SYS(mt, rt_sigqueueinfo, self, LX_SIGUSR1, GUEST_BAD), -EFAULT);
	return 0;
}

RUN(timers)
{
	struct lx_itimerval it = {.it_value = {0, 2000}};
	struct lx_itimerspec spec = {.it_value = {0, 2000000}};
	const uint64_t none = 0;

	catch_signal(mt, LX_SIGALRM);
	/* Let through by the wait alone, however slow this machine is. */
	IS(mask(mt, LX_SIG_BLOCK, 1ull << (LX_SIGALRM - 1)), 0);
	IS(SYS(mt, setitimer, 0, put_mem(mt, A, &it, sizeof(it)), 0), 0);
	IS(SYS(mt, rt_sigsuspend, put_mem(mt, C, &none, 8), 8), -EINTR);
	IS(g_handled, 1);
	IS(SYS(mt, setitimer, 3, A, 0), -EINVAL);
	IS(SYS(mt, setitimer, 0, GUEST_BAD, 0), -EFAULT);
	IS(SYS(mt, getitimer, 0, GUEST_BAD), -EFAULT);
	it.it_value.tv_usec = 1000000;
	IS(SYS(mt, setitimer, 0, put_mem(mt, A, &it, sizeof(it)), 0), -EINVAL);
	IS(SYS(mt, alarm, 100), 0);
	IS(SYS(mt, alarm, 0), 100);

	IS(SYS(mt, timer_create, 1, 0, A), 0);
	IS(get_u32(mt, A), 0);
	IS(SYS(mt, timer_create, 1, 0, GUEST_BAD), -EFAULT);
	IS(SYS(mt, timer_create, 99, 0, A), -EINVAL);
	IS(SYS(mt, timer_create, 1, GUEST_BAD, A), -EFAULT);
	IS(SYS(mt, timer_settime, 0, 0, put_mem(mt, B, &spec, sizeof(spec)), 0), 0);
	IS(SYS(mt, rt_sigsuspend, put_mem(mt, C, &none, 8), 8), -EINTR);
	IS(g_handled, 2);
	IS(SYS(mt, timer_gettime, 0, B), 0);
	IS(get_u64(mt, B + 16) + get_u64(mt, B + 24), 0);
	IS(SYS(mt, timer_getoverrun, 0), 0);
	spec.it_value.tv_nsec = 1000000000;
	IS(SYS(mt, timer_settime, 0, 0, put_mem(mt, B, &spec, sizeof(spec)), 0), -EINVAL);
	IS(SYS(mt, timer_settime, 1, 0, B, 0), -EINVAL);
	IS(SYS(mt, timer_delete, 0), 0);
	IS(SYS(mt, timer_delete, 0), -EINVAL);
	IS(SYS(mt, timer_delete, -1), -EINVAL);
	return 0;
}

RUN(identity)
{
	struct {
		uint64_t cur, max;
	} lim = {10, 20};
	const uint32_t groups[2] = {5, 6};

	IS(SYS(mt, getuid), 0);
	IS(SYS(mt, setgroups, 2, put_mem(mt, A, groups, 8)), 0);
	IS(SYS(mt, getgroups, 0, 0), 2);
	IS(SYS(mt, getgroups, 1, B), -EINVAL);
	IS(SYS(mt, getgroups, 2, GUEST_BAD), -EFAULT);
	IS(SYS(mt, setgroups, 65537, A), -EINVAL);
	IS(SYS(mt, setgroups, 2, GUEST_BAD), -EFAULT);
	IS(SYS(mt, prlimit64, 0, 7, put_mem(mt, A, &lim, 16), B), 0);
	IS(SYS(mt, getrlimit, 7, B), 0);
	IS(get_u64(mt, B), 10);
	lim.cur = 30;
	IS(SYS(mt, setrlimit, 7, put_mem(mt, A, &lim, 16)), -EINVAL);
	IS(SYS(mt, getrlimit, 16, B), -EINVAL);
	IS(SYS(mt, prlimit64, 0, 7, GUEST_BAD, 0), -EFAULT);
	IS(SYS(mt, prctl, 15, put_str(mt, A, "a name that is too long"), 0, 0, 0), 0);
	IS(SYS(mt, prctl, 16, B, 0, 0, 0), 0);
	cr_expect(same_mem(mt, B, "a name that is \0", 16));
	IS(SYS(mt, prctl, 16, GUEST_BAD, 0, 0, 0), -EFAULT);
	IS(SYS(mt, prctl, 0x7fffffff, 0, 0, 0, 0), -EINVAL);
	IS(SYS(mt, sched_setaffinity, 0, 8, put_mem(mt, A, &(uint64_t){0}, 8)), -EINVAL);
	IS(SYS(mt, sched_setaffinity, 0, 8, put_mem(mt, A, &(uint64_t){1}, 8)), 0);
	IS(SYS(mt, sched_getaffinity, 0, 8, A), 8);
	IS(get_u64(mt, A), 1);
	IS(SYS(mt, sched_getaffinity, 0, 7, A), -EINVAL);
	IS(SYS(mt, sched_getaffinity, 0, 8, GUEST_BAD), -EFAULT);
	IS(SYS(mt, sched_setscheduler, 0, 99, A), -EINVAL);
	IS(SYS(mt, setpriority, 0, 0, 5), 0);
	IS(SYS(mt, getpriority, 0, 0), 15);
	IS(SYS(mt, getpriority, 9, 0), -EINVAL);
	IS(SYS(mt, setresuid, 1, 2, 3), 0);
	IS(SYS(mt, getresuid, A, A + 4, A + 8), 0);
	IS(get_u32(mt, A), 1);
	IS(get_u32(mt, A + 4), 2);
	IS(get_u32(mt, A + 8), 3);
	IS(SYS(mt, getresuid, A, A + 4, GUEST_BAD), -EFAULT);
	IS(SYS(mt, setuid, 0), -EPERM);
	IS(SYS(mt, setresuid, 3, -1, -1), 0);
	IS(SYS(mt, setpriority, 0, 0, 0), -EACCES);
	lim.cur = lim.max = 1000;
	IS(SYS(mt, setrlimit, 7, put_mem(mt, A, &lim, 16)), -EPERM);
	return 0;
}

/* One round of calls; what they return does not matter here. */
static void use_everything(struct mock_thread *mt)
{
	const struct lx_itimerspec far = {.it_value = {1000, 0}};
	const uint64_t all = ~0ull;
	long pid, id;

	pid = mock_fork(mt, sleeps, NULL);
	if (pid > 0) {
		SYS(mt, setpgid, pid, pid);
		SYS(mt, pidfd_open, pid, 0);
		SYS(mt, kill, pid, LX_SIGKILL);
		/* A failed copy of the status has reaped the child as well. */
		SYS(mt, wait4, pid, A, 0, B);
	}
	SYS(mt, rt_sigprocmask, LX_SIG_BLOCK, put_mem(mt, C, &all, 8), 0, 8);
	SYS(mt, kill, own_pid(mt), LX_SIGRTMIN + 1);
	SYS(mt, rt_sigtimedwait, C, A, put_mem(mt, B, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16), 8);
	SYS(mt, setitimer, 1, put_mem(mt, B, &far, sizeof(far)), A);
	SYS(mt, setitimer, 1, put_mem(mt, B, &(struct lx_itimerval){0}, 32), 0);
	put_mem(mt, A, &(uint32_t){~0u}, 4);
	SYS(mt, timer_create, 1, 0, A);
	id = get_u32(mt, A);
	SYS(mt, timer_settime, id, 0, put_mem(mt, B, &far, sizeof(far)), 0);
	SYS(mt, timer_delete, id);
	SYS(mt, setgroups, 2, put_mem(mt, A, "\1\0\0\0\2\0\0", 8));
	SYS(mt, setresuid, 0, 0, 0);
	SYS(mt, prctl, 15, put_str(mt, A, "x"), 0, 0, 0);
	SYS(mt, sched_setaffinity, 0, 8, put_mem(mt, A, &(uint64_t){3}, 8));
	SYS(mt, setrlimit, 0, put_mem(mt, A, &(struct { uint64_t a, b; }){100, ~0ull}, 16));
	SYS(mt, setrlimit, 0, put_mem(mt, A, &(struct { uint64_t a, b; }){~0ull, ~0ull}, 16));
	SYS(mt, close_range, 0, ~0u, 0);
}

/* The n-th allocation fails, then the n-th copy: no call may do worse than return an error.
 * Afterwards all works. */
RUN(failing_steps)
{
	long pid;

	const struct lx_sigaction ignore = {.handler = LX_SIG_IGN};

	/* Where the mask cannot be set, the signal comes at once. */
	IS(SYS(mt, rt_sigaction, LX_SIGRTMIN + 1, put_mem(mt, C, &ignore, sizeof(ignore)), 0, 8),
	   0);
	for (uint64_t at = A; at < C + 0x1000; at += 0x1000)
		put_mem(mt, at, "x", 1);
	for (int kind = 0; kind < 2; kind++) {
		for (unsigned n = 1; n < 120; n++) {
			fail_set(kind ? FAIL_COPY : FAIL_ALLOC, n);
			use_everything(mt);
		}
		fail_set(kind ? FAIL_COPY : FAIL_ALLOC, 0);
	}
	IS(mask(mt, LX_SIG_SETMASK, 0), 0);
	pid = mock_fork(mt, exits_with, (void *)3);
	IS(SYS(mt, wait4, pid, A, 0, 0), pid);
	IS(SYS(mt, wait4, -1, A, 0, 0), -ECHILD);
	return 0;
}
