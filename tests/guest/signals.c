/* SPDX-License-Identifier: Apache-2.0 */

/* Signals: queueing, order, siginfo, masks, SA_* flags, alternate stacks, sigtimedwait, signalfd.
 */
#include "guest.h"
#include <sys/signalfd.h>
#include <ucontext.h>

static volatile int depth, deepest;
static volatile int log_count;
static struct {
	int sig, code, value;
} entries[64];
static char stack_memory[1 << 16] __attribute__((aligned(16)));
static volatile int on_stack, altflags;

static void log_info(int sig, siginfo_t *si, void *ctx)
{
	(void)ctx;
	if (log_count < 64) {
		entries[log_count].sig = sig;
		entries[log_count].code = si->si_code;
		entries[log_count].value = si->si_value.sival_int;
	}
	log_count++;
}

static void log_print(const char *what)
{
	printf("%s:", what);
	for (int i = 0; i < log_count; i++)
		printf(" %s/%d/%d", guest_signal(entries[i].sig), entries[i].code,
		       entries[i].sig >= SIGRTMIN ? entries[i].value : 0);
	printf("\n");
	log_count = 0;
}

static void action(int sig, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = {.sa_sigaction = fn, .sa_flags = flags | SA_SIGINFO};

	if (sigaction(sig, &sa, NULL))
		printf("sigaction %d: %s\n", sig, guest_errno(errno));
}

static void queueing(void)
{
	sigset_t all, pending;

	P("queueing");
	for (int s = SIGRTMIN; s < SIGRTMIN + 4; s++)
		action(s, log_info, SA_RESTART);
	action(SIGUSR1, log_info, 0);
	action(SIGUSR2, log_info, 0);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (int i = 0; i < 3; i++) {
		union sigval v = {.sival_int = i};

		sigqueue(getpid(), SIGRTMIN + 2, v);
		sigqueue(getpid(), SIGRTMIN, v);
		sigqueue(getpid(), SIGUSR1, v);
		kill(getpid(), SIGRTMIN + 1);
	}
	kill(getpid(), SIGUSR2);
	raise(SIGRTMIN + 3);
	sigpending(&pending);
	printf("pending:");
	for (int s = 1; s < 65; s++)
		if (sigismember(&pending, s) == 1)
			printf(" %s", guest_signal(s));
	printf("\n");
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	/* Handlers run last-set-up first, so the log is in reverse of delivery. */
	log_print("delivered");
}

static volatile int nests;

static void nest(int sig)
{
	if (nests++ >= 8)
		return;
	depth++;
	if (depth > deepest)
		deepest = depth;
	if (depth < 4)
		raise(sig);
	depth--;
}

static void flags(void)
{
	struct sigaction sa, old;
	sigset_t set;

	P("SA_* flags");
	guest_handle(SIGUSR1, nest, 0);
	deepest = nests = 0;
	raise(SIGUSR1);
	guest_sleep_ms(1);
	printf("blocked while it runs: depth %d\n", deepest);
	guest_handle(SIGUSR1, nest, SA_NODEFER);
	deepest = nests = 0;
	raise(SIGUSR1);
	printf("SA_NODEFER: depth %d\n", deepest);
	guest_handle(SIGUSR1, nest, (int)SA_RESETHAND);
	depth = 3;
	nests = 0;
	raise(SIGUSR1);
	depth = 0;
	sigaction(SIGUSR1, NULL, &old);
	T(old.sa_handler == SIG_DFL);
	printf("flags after SA_RESETHAND %#x\n", (unsigned)old.sa_flags & ~0x4000000u);
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = nest;
	sa.sa_flags = SA_ONSTACK | SA_NOCLDSTOP | SA_NOCLDWAIT | SA_RESTART;
	sigfillset(&sa.sa_mask);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGUSR1, NULL, &old);
	printf("flags %#x\n", (unsigned)old.sa_flags & ~0x4000000u);
	T(sigismember(&old.sa_mask, SIGKILL) == 1);
	T(sigismember(&old.sa_mask, SIGHUP) == 1);
	sa.sa_handler = SIG_IGN;
	V(sigaction(SIGKILL, &sa, NULL));
	V(sigaction(SIGSTOP, &sa, NULL));
	V(sigaction(SIGKILL, NULL, &old));
	V(sigaction(0, &sa, NULL));
	V(sigaction(65, &sa, NULL));
	V(syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4));
	V(syscall(SYS_rt_sigaction, SIGUSR1, 1, NULL, 8));
	V(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, NULL, 4));
	V(syscall(SYS_rt_sigprocmask, 77, &set, NULL, 8));
	V(syscall(SYS_rt_sigprocmask, 77, NULL, NULL, 8));
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	sigprocmask(SIG_SETMASK, NULL, &set);
	T(sigismember(&set, SIGKILL) == 1);
	T(sigismember(&set, SIGSTOP) == 1);
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	/* Ignoring a pending signal discards it. */
	guest_handle(SIGUSR2, nest, 0);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR2);
	signal(SIGUSR2, SIG_IGN);
	sigpending(&set);
	T(sigismember(&set, SIGUSR2) == 1);
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
}

static void mask_in_handler(int sig)
{
	sigset_t now;

	(void)sig;
	sigprocmask(SIG_BLOCK, NULL, &now);
	printf("in handler: USR1 %d USR2 %d TERM %d\n", sigismember(&now, SIGUSR1),
	       sigismember(&now, SIGUSR2), sigismember(&now, SIGTERM));
}

static void masks(void)
{
	struct sigaction sa = {.sa_handler = mask_in_handler};
	sigset_t set;

	P("masks");
	sigaddset(&sa.sa_mask, SIGTERM);
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	sa.sa_flags = SA_NODEFER;
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	V(sigsuspend(&set));
	sigprocmask(SIG_BLOCK, NULL, &set);
	T(sigismember(&set, SIGUSR1) == 1);
	T(sigismember(&set, SIGUSR2) == 1);
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
}

static void where(int sig)
{
	char here;
	stack_t ss;

	(void)sig;
	on_stack = &here >= stack_memory && &here < stack_memory + sizeof(stack_memory);
	sigaltstack(NULL, &ss);
	altflags = ss.ss_flags;
	ss.ss_flags = SS_DISABLE;
	errno = 0;
	if (sigaltstack(&ss, NULL))
		printf("sigaltstack on it: %s\n", guest_errno(errno));
}

static void altstack(void)
{
	stack_t ss = {.ss_sp = stack_memory, .ss_size = sizeof(stack_memory)}, old;

	P("alternate stack");
	V(sigaltstack(NULL, &old));
	printf("at first: flags %d size %zu\n", old.ss_flags, old.ss_size);
	V(sigaltstack(&ss, NULL));
	V(sigaltstack(NULL, &old));
	printf("set: flags %d size %zu\n", old.ss_flags, old.ss_size);
	guest_handle(SIGUSR1, where, SA_ONSTACK);
	raise(SIGUSR1);
	printf("on it %d flags %d\n", on_stack, altflags);
	guest_handle(SIGUSR1, where, 0);
	ss.ss_flags = 0;
	sigaltstack(&ss, NULL);
	raise(SIGUSR1);
	printf("without SA_ONSTACK: on it %d flags %d\n", on_stack, altflags);
	ss.ss_size = 100;
	V(sigaltstack(&ss, NULL));
	ss.ss_size = sizeof(stack_memory);
	ss.ss_flags = 77;
	V(sigaltstack(&ss, NULL));
	ss.ss_flags = SS_ONSTACK;
	V(sigaltstack(&ss, NULL));
	ss.ss_flags = (int)(1u << 31); /* SS_AUTODISARM */
	V(sigaltstack(&ss, NULL));
	guest_handle(SIGUSR1, where, SA_ONSTACK);
	raise(SIGUSR1);
	printf("autodisarm: on it %d flags %d\n", on_stack, altflags);
	ss.ss_flags = SS_DISABLE;
	V(sigaltstack(&ss, NULL));
	V(sigaltstack((stack_t *)8, NULL));
}

static volatile int faults;

static void skip_fault(int sig, siginfo_t *si, void *ctx)
{
	ucontext_t *uc = ctx;

	(void)sig;
	printf("fault: code %d trapno %lld err %lld, ip in context %s\n", si->si_code,
	       (long long)uc->uc_mcontext.gregs[REG_TRAPNO],
	       (long long)uc->uc_mcontext.gregs[REG_ERR],
	       uc->uc_mcontext.gregs[REG_RIP] ? "set" : "0");
	faults++;
	/* The load is "mov (%rax),%eax", two bytes; step over it and give it a result. */
	uc->uc_mcontext.gregs[REG_RIP] += 2;
	uc->uc_mcontext.gregs[REG_RAX] = 1234;
	uc->uc_mcontext.gregs[REG_RBX] = 77;
}

static void contexts(void)
{
	unsigned value, other = 5;

	P("context changes take effect at sigreturn");
	action(SIGSEGV, skip_fault, 0);
	__asm__ volatile("xor %%eax,%%eax\n\t"
			 "mov (%%rax),%%eax\n\t"
			 "mov %%ebx,%1\n\t"
			 : "=&a"(value), "=r"(other)
			 :
			 : "rbx", "memory");
	printf("faults %d value %u rbx %u\n", faults, value, other);
	signal(SIGSEGV, SIG_DFL);
}

static void synchronous(void)
{
	sigset_t set;
	siginfo_t si;
	struct timespec zero = {0, 0}, brief = {0, 20000000}, bad = {0, 1000000000};
	pid_t pid;

	P("sigtimedwait");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGRTMIN + 5);
	sigprocmask(SIG_BLOCK, &set, NULL);
	V(sigtimedwait(&set, &si, &zero));
	V(sigtimedwait(&set, &si, &brief));
	V(sigtimedwait(&set, &si, &bad));
	sigqueue(getpid(), SIGRTMIN + 5, (union sigval){.sival_int = 17});
	kill(getpid(), SIGUSR1);
	V(sigtimedwait(&set, &si, NULL) == SIGUSR1);
	printf("code %d pid ours %d uid ours %d\n", si.si_code, si.si_pid == getpid(),
	       si.si_uid == getuid());
	V(sigtimedwait(&set, &si, &brief) == SIGRTMIN + 5);
	printf("code %d value %d\n", si.si_code, si.si_value.sival_int);
	pid = guest_fork();
	if (!pid) {
		guest_sleep_ms(20);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	V(sigwaitinfo(&set, &si) == SIGUSR1);
	T(si.si_pid == pid);
	guest_wait("sender", pid);
	V(syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, 4));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void by_fd(void)
{
	sigset_t set;
	struct signalfd_siginfo info[4];
	struct pollfd p;
	int fd;

	P("signalfd");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGRTMIN + 1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	OK(fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
	V(read(fd, info, sizeof(info)));
	V(read(fd, info, 10));
	p = (struct pollfd){.fd = fd, .events = POLLIN};
	V(poll(&p, 1, 0));
	for (int i = 0; i < 3; i++)
		sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 40 + i});
	kill(getpid(), SIGUSR1);
	V(poll(&p, 1, 0));
	printf("revents %#x\n", (unsigned)p.revents);
	for (ssize_t n; (n = read(fd, info, 2 * sizeof(info[0]))) > 0;)
		for (size_t i = 0; i < (size_t)n / sizeof(info[0]); i++)
			printf("read %s code %d int %d pid ours %d\n",
			       guest_signal((int)info[i].ssi_signo), info[i].ssi_code,
			       info[i].ssi_int, info[i].ssi_pid == (unsigned)getpid());
	sigdelset(&set, SIGUSR1);
	V(signalfd(fd, &set, 0) == fd);
	kill(getpid(), SIGUSR1);
	V(read(fd, info, sizeof(info)));
	V(write(fd, info, sizeof(info)));
	V(lseek(fd, 0, SEEK_SET));
	V(signalfd(0, &set, 0));
	V(signalfd(999, &set, 0));
	V(signalfd(-1, &set, 1));
	V(syscall(SYS_signalfd4, -1, &set, 4, 0));
	close(fd);
	sigwaitinfo(&(sigset_t){{1ul << (SIGUSR1 - 1)}}, NULL);
	sigfillset(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void targets(void)
{
	siginfo_t si;
	pid_t pid;

	P("targets and errors");
	V(kill(1 << 22, 0));
	V(kill(getpid(), 65));
	V(kill(getpid(), -1));
	V(kill(getpid(), 0));
	V(kill(0, 0));
	V(kill(-(1 << 22), 0));
	V(kill(INT_MIN, 0));
	V(tgkill(getpid(), gettid(), 0));
	V(tgkill(getpid(), 1 << 22, 0));
	V(tgkill(1 << 22, gettid(), 0));
	V(tgkill(-1, gettid(), 0));
	V(tgkill(getpid(), 0, 0));
	V(syscall(SYS_tkill, gettid(), 0));
	V(syscall(SYS_tkill, 0, 0));
	memset(&si, 0, sizeof(si));
	si.si_code = SI_USER;
	pid = guest_fork();
	if (!pid)
		for (;;)
			pause();
	V(syscall(SYS_rt_sigqueueinfo, pid, SIGTERM, &si));
	si.si_code = SI_TKILL;
	V(syscall(SYS_rt_sigqueueinfo, pid, SIGTERM, &si));
	si.si_code = SI_KERNEL;
	V(syscall(SYS_rt_sigqueueinfo, pid, SIGTERM, &si));
	si.si_code = SI_QUEUE;
	V(syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGTERM, &si));
	guest_wait("queued", pid);
	/* Init-like blocked and ignored fatal signals. */
	pid = guest_fork();
	if (!pid) {
		signal(SIGTERM, SIG_IGN);
		kill(getpid(), SIGTERM);
		kill(getpid(), SIGKILL);
		_exit(0);
	}
	guest_wait("TERM ignored, then KILL", pid);
	/* A fault while its signal is blocked or ignored kills. */
	pid = guest_fork();
	if (!pid) {
		signal(SIGSEGV, SIG_IGN);
		*(volatile int *)8 = 1;
		_exit(0);
	}
	guest_wait("SEGV ignored", pid);
	pid = guest_fork();
	if (!pid) {
		sigset_t set;

		guest_handle(SIGSEGV, where, 0);
		sigfillset(&set);
		sigprocmask(SIG_BLOCK, &set, NULL);
		*(volatile int *)8 = 1;
		_exit(0);
	}
	guest_wait("SEGV blocked", pid);
}

static void inheritance(void)
{
	sigset_t set, pending;
	struct sigaction sa;
	pid_t pid;

	P("fork");
	guest_handle(SIGUSR1, where, SA_RESTART);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGTERM, SIG_DFL);
	kill(getpid(), SIGTERM);
	pid = guest_fork();
	if (!pid) {
		sigpending(&pending);
		sigaction(SIGUSR1, NULL, &sa);
		sigprocmask(SIG_BLOCK, NULL, &set);
		printf("child: pending TERM %d, handler kept %d, USR2 blocked %d\n",
		       sigismember(&pending, SIGTERM), sa.sa_handler == where,
		       sigismember(&set, SIGUSR2));
		_exit(0);
	}
	guest_wait("child", pid);
	signal(SIGTERM, SIG_IGN);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	P("done");
}

int main(void)
{
	guest_begin();
	queueing();
	flags();
	masks();
	altstack();
	contexts();
	synchronous();
	by_fd();
	targets();
	inheritance();
	return 0;
}
