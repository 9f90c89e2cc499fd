/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls of the ptrace platform. See platform/host_ptrace.h.
 *
 * Theory of operation of the wait: a worker sleeps in waitid() for its tracees, and any other
 * thread must be able to end that sleep. A signal does it, but one that arrives between the test of
 * the flag and the syscall instruction would be lost. So the test and the instruction stand in one
 * stretch of assembly (host_wait.S), and the handler moves a thread that it finds inside that
 * stretch to its end.
 *
 * Events are looked at first (WNOWAIT) and consumed later: a stop that is answered by a resume need
 * not be consumed at all, and the pid of a dead process stays taken until its user says otherwise.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "platform/host_ptrace.h"

_Static_assert(sizeof(struct pf_regs) == sizeof(struct user_regs_struct), "pf_regs is the host's");
_Static_assert(offsetof(struct pf_regs, rip) == offsetof(struct user_regs_struct, rip), "order");
_Static_assert(offsetof(struct pf_regs, gs) == offsetof(struct user_regs_struct, gs), "order");

#define KICK_SIGNAL (SIGRTMAX - 1)

/* In host_wait.S. */
long pf_host_wait_window(const _Atomic uint32_t *kicked, siginfo_t *si, int which, pid_t tid);
extern const char pf_host_wait_window_begin[], pf_host_wait_window_syscall[],
	pf_host_wait_window_end[];

static long trace(long request, pid_t tid, uintptr_t addr, uintptr_t data)
{
	/* glibc's wrapper treats the PEEK requests in its own way; the raw call does not. */
	long r = HOST(ptrace_stub, syscall(SYS_ptrace, request, tid, addr, data));

	return r < 0 ? -errno : r;
}

int pf_host_seize(pid_t tid)
{
	return (int)trace(PTRACE_SEIZE, tid, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
}

int pf_host_ptrace_interrupt(pid_t tid)
{
	return (int)trace(PTRACE_INTERRUPT, tid, 0, 0);
}

int pf_host_run_guest(pid_t tid)
{
	return (int)trace(PTRACE_SYSEMU, tid, 0, 0);
}

int pf_host_run_stub(pid_t tid)
{
	return (int)trace(PTRACE_CONT, tid, 0, 0);
}

int pf_host_regs_get(pid_t tid, struct pf_regs *regs)
{
	return (int)trace(PTRACE_GETREGS, tid, 0, (uintptr_t)regs);
}

int pf_host_regs_set(pid_t tid, const struct pf_regs *regs)
{
	return (int)trace(PTRACE_SETREGS, tid, 0, (uintptr_t)regs);
}

int pf_host_siginfo(pid_t tid, siginfo_t *si)
{
	return (int)trace(PTRACE_GETSIGINFO, tid, 0, (uintptr_t)si);
}

long pf_host_syscall_arch(pid_t tid)
{
	struct __ptrace_syscall_info info;
	long r = trace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), (uintptr_t)&info);

	return r < 0 ? r : (long)info.arch;
}

#define NT_X86_XSTATE_ 0x202

int pf_host_xstate_get(pid_t tid, void *buf, size_t size)
{
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	long r = trace(PTRACE_GETREGSET, tid, NT_X86_XSTATE_, (uintptr_t)&iov);

	return r < 0 ? (int)r : (int)iov.iov_len;
}

int pf_host_xstate_set(pid_t tid, const void *buf, size_t size)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = size};

	return (int)trace(PTRACE_SETREGSET, tid, NT_X86_XSTATE_, (uintptr_t)&iov);
}

int pf_host_peek(pid_t tid, uint64_t addr, uint64_t *word)
{
	return (int)trace(PTRACE_PEEKDATA, tid, addr, (uintptr_t)word);
}

int pf_host_poke(pid_t tid, uint64_t addr, uint64_t word)
{
	return (int)trace(PTRACE_POKEDATA, tid, addr, word);
}

static int event_from(const siginfo_t *si, struct host_event *ev)
{
	if (si->si_pid == 0)
		return 0;
	ev->tid = si->si_pid;
	ev->ended =
		si->si_code == CLD_EXITED || si->si_code == CLD_KILLED || si->si_code == CLD_DUMPED;
	ev->status = si->si_status;
	return 1;
}

#define WAIT_FLAGS (WEXITED | WSTOPPED | WNOWAIT | __WALL | __WNOTHREAD)

int pf_host_wait(pid_t tid, bool block, struct host_event *ev)
{
	siginfo_t si;
	long r;

	si.si_pid = 0;
	r = HOST(waitid_stub, syscall(SYS_waitid, tid ? P_PID : P_ALL, tid, &si,
				      WAIT_FLAGS | (block ? 0 : WNOHANG), NULL));
	return r < 0 ? -errno : event_from(&si, ev);
}

int pf_host_wait_kickable(const _Atomic uint32_t *kicked, pid_t tid, struct host_event *ev)
{
	siginfo_t si;
	long r;

	si.si_pid = 0;
	r = HOST(waitid_stub, pf_host_wait_window(kicked, &si, tid ? P_PID : P_ALL, tid));
	return r < 0 ? (int)r : event_from(&si, ev);
}

void pf_host_wait_consume(pid_t tid)
{
	siginfo_t si;

	HOST(waitid_stub,
	     syscall(SYS_waitid, P_PID, tid, &si, (WAIT_FLAGS & ~WNOWAIT) | WNOHANG, NULL));
}

static void on_kick(int sig, siginfo_t *si, void *ctx)
{
	ucontext_t *uc = ctx;
	const uintptr_t rip = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	(void)sig;
	(void)si;
	if (rip >= (uintptr_t)pf_host_wait_window_begin &&
	    rip <= (uintptr_t)pf_host_wait_window_syscall) {
		uc->uc_mcontext.gregs[REG_RAX] = -EINTR;
		uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)pf_host_wait_window_end;
	}
}

/* Who we are: a kick costs one call, and the lock-down forbids to ask. */
static pid_t g_self;

pid_t pf_host_self(void)
{
	return __atomic_load_n(&g_self, __ATOMIC_RELAXED);
}

int pf_host_kick_init(void *stack, size_t size)
{
	/* The handler runs on a stack of its own: a fiber's is too small for a frame with vector
	 * state. No SA_RESTART: the signal is there to end a wait. */
	const struct sigaction sa = {.sa_sigaction = on_kick, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	const stack_t ss = {.ss_sp = stack, .ss_size = size};
	stack_t now;
	sigset_t set;

	__atomic_store_n(&g_self, HOST(getpid_kick, getpid()), __ATOMIC_RELAXED);
	sigemptyset(&set);
	sigaddset(&set, KICK_SIGNAL);
	/* ASan gives each thread one of its own, and takes at the thread's end whichever is set. */
	if (HOST(sigaltstack_own, sigaltstack(NULL, &now)) < 0 || (now.ss_flags & SS_DISABLE)) {
		if (HOST(sigaltstack_own, sigaltstack(&ss, NULL)) < 0)
			return -errno;
	}
	if (HOST(rt_sigaction_own, sigaction(KICK_SIGNAL, &sa, NULL)) < 0)
		return -errno;
	return -HOST(rt_sigprocmask_own, pthread_sigmask(SIG_UNBLOCK, &set, NULL));
}

int pf_host_kick(pid_t tid)
{
	return pf_host_signal_thread(g_self, tid, KICK_SIGNAL);
}

int pf_host_signal_thread(pid_t tgid, pid_t tid, int sig)
{
	return HOST(tgkill_thread, syscall(SYS_tgkill, tgid, tid, sig)) < 0 ? -errno : 0;
}

int pf_host_kill(pid_t pid, int sig)
{
	/* To the host these are whole groups of processes, ours among them. */
	if (pid <= 0)
		return -ESRCH;
	return HOST(kill_stub, kill(pid, sig)) < 0 ? -errno : 0;
}

int pf_host_sigchld_init(void)
{
	const struct sigaction sa = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP};

	return HOST(rt_sigaction_own, sigaction(SIGCHLD, &sa, NULL)) < 0 ? -errno : 0;
}

void pf_host_futex_wait(const _Atomic uint32_t *word, uint32_t value)
{
	HOST(futex_worker, syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0));
}

void pf_host_futex_wait_ms(const _Atomic uint32_t *word, uint32_t value, unsigned ms)
{
	const struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	HOST(futex_worker, syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0));
}

void pf_host_futex_wake(const _Atomic uint32_t *word)
{
	HOST(futex_worker, syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
}

void pf_host_yield(void)
{
	static const _Atomic uint32_t nobody;
	const struct timespec ts = {.tv_nsec = 50000};

	HOST(futex_worker, syscall(SYS_futex, &nobody, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0));
}

void pf_host_sleep_ms(unsigned ms)
{
	static const _Atomic uint32_t nobody;

	pf_host_futex_wait_ms(&nobody, 0, ms);
}

int pf_host_cpu(void)
{
	return sched_getcpu();
}

int pf_host_affinity_get(pid_t tid, cpu_set_t *set)
{
	return HOST(sched_getaffinity_place, sched_getaffinity(tid, sizeof(*set), set)) < 0 ? -errno
											    : 0;
}

int pf_host_affinity_set(pid_t tid, const cpu_set_t *set)
{
	return HOST(sched_setaffinity_place, sched_setaffinity(tid, sizeof(*set), set)) < 0 ? -errno
											    : 0;
}

pid_t pf_host_gettid(void)
{
	return HOST(gettid_worker, gettid());
}

ssize_t pf_host_copy_in(pid_t pid, void *dst, uint64_t src, size_t size)
{
	const struct iovec local = {.iov_base = dst, .iov_len = size};
	const struct iovec remote = {.iov_base = (void *)src, .iov_len = size};
	ssize_t n = HOST(process_vm_readv_guest, process_vm_readv(pid, &local, 1, &remote, 1, 0));

	return n < 0 ? -errno : n;
}

ssize_t pf_host_copy_out(pid_t pid, uint64_t dst, const void *src, size_t size)
{
	const struct iovec local = {.iov_base = (void *)(uintptr_t)src, .iov_len = size};
	const struct iovec remote = {.iov_base = (void *)dst, .iov_len = size};
	ssize_t n = HOST(process_vm_writev_guest, process_vm_writev(pid, &local, 1, &remote, 1, 0));

	return n < 0 ? -errno : n;
}
