/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentry's net name space, which takes the host longer to make than all others together.
 *
 * Theory of operation: a thread makes it while the sentry's own sets up the root, opens it by its
 * name in the host's /proc, and ends; the sentry then enters it. The thread shares the sentry's
 * thread area, since the C library's threads cost more than there is to gain: so it makes host
 * calls alone, none of them by a wrapper that would set errno. Meanwhile the sentry moves its data
 * to another file (wall_exe.c): the thread writes to pages of .bss alone, which are its own. Where
 * any of this fails the sentry makes one itself.
 *
 * The host leaves a new thread where the one is that made it, more often than not: then it would
 * run when the sentry waits for it. So it is kept off the sentry's processor until then.
 *
 * References: clone(2), unshare(2), setns(2), network_namespaces(7).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "runtime/wall.h"

#define STACK_SIZE (16u << 10)
#define THREAD_FLAGS                                                                        \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | \
	 CLONE_CHILD_CLEARTID)

static struct {
	_Alignas(MOAT_PAGE_SIZE) unsigned char stack[STACK_SIZE];
	_Atomic uint32_t runs; /* the kernel clears it at the thread's end, and wakes */
	int fd;                /* of the name space, once that is so; -errno */
	pid_t tid;
	bool placed;   /* elsewhere than the sentry */
	cpu_set_t set; /* the processors that the sentry may use */
} g_net;

static long raw(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return r;
}

/* The thread. */
__attribute__((no_sanitize("address", "thread", "undefined"), used)) static void make(void)
{
	long r = HOST(unshare_wall, raw(SYS_unshare, CLONE_NEWNET, 0, 0, 0));

	if (r == 0)
		r = HOST(openat_net, raw(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/ns/net",
					 O_RDONLY | O_CLOEXEC, 0));
	g_net.fd = (int)r;
}

/* Its id, or -errno. The new thread runs on @top alone: it has nothing to return to. */
static long start(void *top)
{
	/* cppcheck-suppress constStatement */
	register void *ctid __asm__("r10") = &g_net.runs;
	long r;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "call %P[make]\n\t"
			 "mov %[exit], %%eax\n\t"
			 "xor %%edi, %%edi\n\t"
			 "syscall\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(r)
			 : "0"((long)SYS_clone), "D"((long)THREAD_FLAGS), "S"(top), "d"(0L),
			   "r"(ctid), [make] "i"(make), [exit] "i"(SYS_exit)
			 : "rcx", "r11", "memory");
	return r;
}

/* Has thread @tid run on another processor than this, if it may. */
static void send_away(pid_t tid)
{
	const int here = sched_getcpu();
	cpu_set_t set;

	g_net.placed = false;
	if (here < 0 ||
	    HOST(sched_getaffinity_net, sched_getaffinity(0, sizeof(g_net.set), &g_net.set)) < 0)
		return;
	set = g_net.set;
	CPU_CLR((size_t)here, &set);
	g_net.placed = CPU_COUNT(&set) != 0 &&
		       HOST(sched_setaffinity_net, sched_setaffinity(tid, sizeof(set), &set)) == 0;
}

void wall_net_begin(const struct wall *w)
{
	if (!w->spaces)
		return;
	g_net.fd = -EAGAIN;
	atomic_store(&g_net.runs, 1);
	g_net.tid = (pid_t)HOST(clone_net, start(g_net.stack + STACK_SIZE));
	if (g_net.tid < 0)
		atomic_store(&g_net.runs, 0);
	else
		send_away(g_net.tid);
}

int wall_net_enter(const struct wall *w)
{
	int r = -1;

	if (!w->spaces)
		return 0;
	/* Now it may have this one: the other may be busy with somebody else's work. */
	if (atomic_load(&g_net.runs) && g_net.placed)
		(void)HOST(sched_setaffinity_net,
			   sched_setaffinity(g_net.tid, sizeof(g_net.set), &g_net.set));
	while (atomic_load(&g_net.runs))
		(void)HOST(futex_net, syscall(SYS_futex, &g_net.runs, FUTEX_WAIT, 1, NULL));
	if (g_net.fd >= 0) {
		r = HOST(setns_wall, setns(g_net.fd, CLONE_NEWNET));
		HOST(close_fd, close(g_net.fd));
	}
	if (r < 0)
		r = HOST(unshare_wall, unshare(CLONE_NEWNET));
	return r < 0 ? -errno : 0;
}
