/* SPDX-License-Identifier: Apache-2.0 */
/* guest-flags: -static */

/* The siginfo of every fault a program can make, and that it can go on after it. */
#include "guest.h"
#include <setjmp.h>
#include <ucontext.h>

static sigjmp_buf back;
static siginfo_t last;
static unsigned long trapno, err;
static uint64_t at_ip, returns_to;
static char *base;

static void handler(int sig, siginfo_t *si, void *ctx)
{
	ucontext_t *uc = ctx;

	(void)sig;
	last = *si;
	trapno = (unsigned long)uc->uc_mcontext.gregs[REG_TRAPNO];
	err = (unsigned long)uc->uc_mcontext.gregs[REG_ERR];
	at_ip = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	if (at_ip >= 0xffffffffff600000ul)
		returns_to = *(uint64_t *)uc->uc_mcontext.gregs[REG_RSP];
	siglongjmp(back, 1);
}

static void report(const char *what, const void *addr)
{
	printf("%s: %s code %d trap %lu err %lu addr %s\n", what, guest_signal(last.si_signo),
	       last.si_code, trapno, err,
	       last.si_addr == addr   ? "as expected"
	       : last.si_addr == NULL ? "0"
				      : "other");
}

#define FAULT(addr, ...)                                        \
	do {                                                    \
		memset(&last, 0, sizeof(last));                 \
		trapno = err = 0;                               \
		if (!sigsetjmp(back, 1)) {                      \
			__VA_ARGS__;                            \
			printf("%s: no fault\n", #__VA_ARGS__); \
		} else {                                        \
			report(#__VA_ARGS__, addr);             \
		}                                               \
	} while (0)

static volatile int zero;
int main(void);

/* A vsyscall does not return an error: with a bad pointer it is a fault, there. */
static void vsyscall_with(const char *what, uint64_t function, uint64_t a, uint64_t b)
{
	uint64_t r;

	memset(&last, 0, sizeof(last));
	at_ip = returns_to = 0;
	if (sigsetjmp(back, 1)) {
		printf("%s: %s %s %s\n", what, guest_signal(last.si_signo),
		       at_ip == function ? "there" : "elsewhere",
		       returns_to - (uint64_t)main < 65536 || (uint64_t)main - returns_to < 65536
			       ? "called"
			       : "lost");
		return;
	}
	__asm__ volatile("call *%%rax"
			 : "=a"(r)
			 : "a"(function), "D"(a), "S"(b), "d"(0ul)
			 : "rcx", "r11", "memory");
	printf("%s: %s\n", what,
	       r == 0                            ? "0"
	       : r > 1000000000 && r < 1ul << 40 ? "the time"
						 : "no");
}

static void vsyscalls(void)
{
	const uint64_t page = 0xffffffffff600000ul;
	const uint64_t rw = (uint64_t)base, ro = (uint64_t)base + 8192;

	P("vsyscalls");
	vsyscall_with("gettimeofday", page, rw, rw + 100);
	vsyscall_with("gettimeofday of nothing", page, 0, 0);
	vsyscall_with("gettimeofday, bad", page, 8, 0);
	vsyscall_with("gettimeofday, read-only", page, ro, 0);
	vsyscall_with("gettimeofday, half", page, rw + 4096 - 8, 0);
	vsyscall_with("gettimeofday, bad zone", page, 0, 8);
	vsyscall_with("gettimeofday, the kernel's", page, 1ul << 63, 0);
	vsyscall_with("time", page + 0x400, rw, 0);
	vsyscall_with("time of nothing", page + 0x400, 0, 0);
	vsyscall_with("time, bad", page + 0x400, 8, 0);
	vsyscall_with("time, read-only", page + 0x400, ro, 0);
	vsyscall_with("getcpu", page + 0x800, rw, rw + 4);
	vsyscall_with("getcpu, bad", page + 0x800, 8, 0);
	vsyscall_with("getcpu, bad node", page + 0x800, 0, ro);
	vsyscall_with("none", page + 0x10, rw, 0);
}

int main(void)
{
	static const int sigs[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER};
	volatile char *p, *none, *ro, *past;
	int fd;

	guest_begin();
	for (size_t i = 0; i < GUEST_COUNT(sigs); i++)
		sigaction(sigs[i], &sa, NULL);
	base = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p = base;
	none = base + 4096;
	mprotect(base + 4096, 4096, PROT_NONE);
	ro = base + 8192;
	mprotect(base + 8192, 4096, PROT_READ);
	fd = open("f", O_RDWR | O_CREAT, 0600);
	past = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	FAULT((void *)0, *(volatile char *)(long)zero);
	FAULT((void *)8, *(volatile char *)8 = 1);
	FAULT((void *)none, (void)*none);
	FAULT((void *)(none + 5), none[5] = 1);
	FAULT((void *)ro, *ro = 1);
	FAULT((void *)past, (void)*past);
	FAULT((void *)past, *past = 1);
	FAULT((void *)p, ((void (*)(void))(uintptr_t)p)());
	FAULT((void *)64, ((void (*)(void))64)());
	FAULT(NULL, *(volatile char *)0x8000000000000000ul);
	FAULT((void *)0xffffffffff000000ul, *(volatile char *)0xffffffffff000000ul);
	vsyscalls();
	munmap((void *)ro, 4096);
	FAULT((void *)ro, (void)*ro);
	FAULT(NULL, __asm__ volatile("ud2"));
	FAULT(NULL, __asm__ volatile("hlt"));
	FAULT(NULL, __asm__ volatile("cli"));
	FAULT(NULL, __asm__ volatile("int3"));
	FAULT(NULL, __asm__ volatile("int $0x42"));
	FAULT(NULL, __asm__ volatile("inb $0x80, %%al" ::: "rax"));
	FAULT(NULL, __asm__ volatile("mov %%cr0, %%rax" ::: "rax"));
	FAULT(NULL, printf("%d\n", (zero + 7) / zero));
	FAULT(NULL, printf("%d\n", INT_MIN / (zero - 1)));
	FAULT(NULL, __asm__ volatile("movaps 1(%0), %%xmm0" ::"r"(base) : "xmm0"));
	FAULT(NULL, {
		uint32_t mxcsr = 0x1d80; /* the division by zero unmasked */
		float a = 1, b = 0;

		__asm__ volatile("ldmxcsr %2\n\tdivss %1, %0" : "+x"(a) : "x"(b), "m"(mxcsr));
	});
	__asm__ volatile("ldmxcsr %0" ::"m"(*(const uint32_t[]){0x1f80}));
	FAULT(NULL, {
		uint16_t cw = 0x37b;

		__asm__ volatile("fldcw %0\n\tfld1\n\tfldz\n\tfdivrp\n\tfwait" ::"m"(cw));
	});
	__asm__ volatile("fninit");
	FAULT(NULL, __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tnop\n\tnop" ::
					     : "memory", "cc"));
	printf("trap code after single step %d\n", last.si_code);

	P("a stack that is not there");
	{
		pid_t pid = guest_fork();

		if (!pid) {
			__asm__ volatile("mov $16, %%rsp\n\tpush %%rax" ::: "memory");
			_exit(0);
		}
		guest_wait("no alternate stack", pid);
		pid = guest_fork();
		if (!pid) {
			sa.sa_flags |= SA_ONSTACK;
			sigaction(SIGSEGV, &sa, NULL);
			sigaltstack(&(stack_t){.ss_sp = malloc(65536), .ss_size = 65536}, NULL);
			if (!sigsetjmp(back, 1))
				__asm__ volatile("mov $16, %%rsp\n\tpush %%rax" ::: "memory");
			report("push", (void *)8);
			_exit(0);
		}
		guest_wait("with one", pid);
		pid = guest_fork();
		if (!pid) {
			signal(SIGSEGV, SIG_DFL);
			sigaltstack(&(stack_t){.ss_sp = (void *)4096, .ss_size = 65536}, NULL);
			sa.sa_flags |= SA_ONSTACK;
			sigaction(SIGUSR1, &sa, NULL);
			raise(SIGUSR1);
			_exit(0);
		}
		guest_wait("a bad alternate stack", pid);
	}

	P("a bad frame at sigreturn");
	{
		pid_t pid = guest_fork();

		if (!pid) {
			signal(SIGSEGV, SIG_DFL);
			__asm__ volatile("mov $16, %%rsp\n\tmov $15, %%eax\n\tsyscall" ::
						 : "memory");
			_exit(0);
		}
		guest_wait("sigreturn", pid);
	}
	P("end");
	return 0;
}
