/* SPDX-License-Identifier: Apache-2.0 */
/* guest-flags: -O2 -mavx2 -fno-tree-vectorize */

/* Registers and flags across system calls, signals, forks, threads; arch_prctl; rseq; entry by
 * other doors. */
#include "guest.h"
#include <asm/prctl.h>
#include <cpuid.h>
#include <immintrin.h>
#include <sys/auxv.h>
#include <ucontext.h>

static volatile sig_atomic_t ticks;

static void clobber(int sig)
{
	(void)sig;
	ticks++;
	__asm__ volatile(
		"pxor %%xmm0,%%xmm0\n\tpxor %%xmm7,%%xmm7\n\tpxor %%xmm15,%%xmm15\n\tfninit" ::
			: "xmm0", "xmm7", "xmm15");
}

static int has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}

/* All general registers but rax, rcx and r11 survive a system call. */
static void general(void)
{
	uint64_t out[15], in[15];
	int bad = 0;

	for (int i = 0; i < 15; i++)
		in[i] = 0x1111111111111111ull * (unsigned)(i + 1);
	__asm__ volatile(
		"push %%rbp\n\t"
		"mov 8(%1),%%rbx\n\tmov 24(%1),%%rdx\n\tmov 40(%1),%%rdi\n\tmov 48(%1),%%rbp\n\t"
		"mov 56(%1),%%r8\n\tmov 64(%1),%%r9\n\tmov 72(%1),%%r10\n\tmov 88(%1),%%r12\n\t"
		"mov 96(%1),%%r13\n\tmov 104(%1),%%r14\n\tmov 112(%1),%%r15\n\t"
		"push %0\n\tpush %1\n\tmov 32(%1),%%rsi\n\t"
		"mov $39,%%eax\n\tsyscall\n\t"
		"mov 8(%%rsp),%%rcx\n\t" /* where to put them */
		"mov %%rbx,8(%%rcx)\n\tmov %%rdx,24(%%rcx)\n\tmov %%rsi,32(%%rcx)\n\tmov "
		"%%rdi,40(%%rcx)\n\t"
		"mov %%rbp,48(%%rcx)\n\tmov %%r8,56(%%rcx)\n\tmov %%r9,64(%%rcx)\n\tmov "
		"%%r10,72(%%rcx)\n\t"
		"mov %%r12,88(%%rcx)\n\tmov %%r13,96(%%rcx)\n\tmov %%r14,104(%%rcx)\n\tmov "
		"%%r15,112(%%rcx)\n\t"
		"pop %%rax\n\tpop %%rax\n\tpop %%rbp"
		:
		: "a"(out), "c"(in)
		: "rbx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
		  "memory", "cc");
	for (int i = 1; i < 15; i++)
		if (i != 2 && i != 10 && i != 0)
			bad += out[i] != in[i];
	printf("general registers changed by getpid: %d\n", bad);
}

static void rcx_r11(void)
{
	uint64_t rcx, r11, next, flags;

	__asm__ volatile("pushfq\n\tpop %3\n\tmov $39,%%eax\n\tlea "
			 "1f(%%rip),%2\n\tsyscall\n1:\tmov %%rcx,%0\n\tmov %%r11,%1"
			 : "=&r"(rcx), "=&r"(r11), "=&r"(next), "=&r"(flags)
			 :
			 : "rax", "rcx", "r11", "memory");
	printf("rcx is the return address %d, r11 holds the flags %d\n", rcx == next,
	       (r11 & ~0x8d5ull) == (flags & ~0x8d5ull));
}

static void red_zone(void)
{
	uint64_t v;

	__asm__ volatile("movq $0x1234,-8(%%rsp)\n\tmovq $0x5678,-128(%%rsp)\n\tmov "
			 "$39,%%eax\n\tsyscall\n\tmov -8(%%rsp),%0\n\tadd -128(%%rsp),%0"
			 : "=r"(v)
			 :
			 : "rax", "rcx", "r11", "memory");
	printf("red zone %#lx\n", (unsigned long)v);
}

static void flags(void)
{
	uint64_t before, after;

	__asm__ volatile("std\n\tstc\n\tpushfq\n\tpop %0\n\tmov "
			 "$39,%%eax\n\tsyscall\n\tpushfq\n\tpop %1\n\tcld\n\tclc"
			 : "=&r"(before), "=&r"(after)
			 :
			 : "rax", "rcx", "r11", "memory", "cc");
	printf("flags kept %d\n", before == after);
}

static void vectors(void)
{
	__attribute__((aligned(32))) uint64_t in[4] = {1, 2, 3, 4}, out[4] = {0};
	double x = 0;
	uint32_t mxcsr;
	uint16_t cw;

	for (int how = 0; how < 3; how++) {
		pid_t pid = getpid(), tid = gettid();

		if (has_avx2())
			__asm__ volatile("vmovdqa (%0),%%ymm7\n\tvmovdqa (%0),%%ymm15" ::"r"(in)
					 : "xmm7", "xmm15");
		if (how == 0)
			__asm__ volatile("mov $39,%%eax\n\tsyscall" ::
						 : "rax", "rcx", "r11", "memory");
		else if (how == 1)
			__asm__ volatile("mov $234,%%eax\n\tsyscall" ::"D"(pid), "S"(tid),
					 "d"(SIGUSR1)
					 : "rax", "rcx", "r11", "memory");
		else
			__asm__ volatile("mov $24,%%eax\n\tsyscall" ::
						 : "rax", "rcx", "r11", "memory");
		if (has_avx2())
			__asm__ volatile(
				"vmovdqa %%ymm7,(%0)\n\tvpaddq (%0),%%ymm15,%%ymm15\n\tvmovdqa "
				"%%ymm15,(%0)\n\tvzeroupper" ::"r"(out)
				: "memory", "xmm15");
		else
			for (int i = 0; i < 4; i++)
				out[i] = 2 * in[i];
		printf("vector registers across %s: %lu %lu %lu %lu\n",
		       how == 0   ? "getpid"
		       : how == 1 ? "a signal"
				  : "sched_yield",
		       (unsigned long)out[0], (unsigned long)out[1], (unsigned long)out[2],
		       (unsigned long)out[3]);
	}
	/* Control words: kept across calls and signals, default inside a handler's caller,
	 * inherited by a fork. */
	mxcsr = 0x5f80;
	cw = 0x0f7f;
	__asm__ volatile("ldmxcsr %0\n\tfldcw %1" ::"m"(mxcsr), "m"(cw));
	raise(SIGUSR1);
	sched_yield();
	__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(cw));
	printf("mxcsr %#x cw %#x\n", mxcsr, cw);
	pid_t pid = guest_fork();
	if (!pid) {
		__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(cw));
		printf("child: mxcsr %#x cw %#x\n", mxcsr, cw);
		_exit(0);
	}
	guest_wait("child", pid);
	mxcsr = 0x1f80;
	__asm__ volatile("ldmxcsr %0\n\tfninit\n\tfldpi" ::"m"(mxcsr));
	raise(SIGUSR1);
	__asm__ volatile("fstpl %0" : "=m"(x));
	printf("x87 stack across a signal %.6f\n", x);
}

/* A timer interrupts a computation at any instruction: its result must not change. */
static void interrupted(void)
{
	struct itimerval it = {{0, 1000}, {0, 1000}};
	double sum = 0;
	uint64_t hash = 1;
	int64_t until;

	ticks = 0;
	setitimer(ITIMER_REAL, &it, NULL);
	until = guest_now_ms() + 200;
	int wrong = 0;
	/* A busy machine is given the time for some. */
	while (guest_now_ms() < (ticks > 20 ? until : until + 60000)) {
		sum = 0;
		hash = 1;
		for (int i = 1; i < 20000; i++) {
			sum += 1.0 / i;
			hash = hash * 6364136223846793005ull + (uint64_t)i;
		}
		static double first;
		static uint64_t first_hash;
		if (!first) {
			first = sum;
			first_hash = hash;
		}
		wrong += sum != first || hash != first_hash;
	}
	setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
	printf("interrupted computation: wrong %d, ticks %s\n", wrong, ticks > 20 ? "many" : "few");
}

static void bases(void)
{
	unsigned long fs, gs = 0, value;

	V(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs));
	T(fs == (unsigned long)pthread_self());
	V(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs));
	printf("gs %lu\n", gs);
	static unsigned long area[2] = {77, 78};
	V(syscall(SYS_arch_prctl, ARCH_SET_GS, area));
	__asm__ volatile("mov %%gs:8,%0" : "=r"(value));
	printf("through gs %lu\n", value);
	raise(SIGUSR1);
	sched_yield();
	__asm__ volatile("mov %%gs:0,%0" : "=r"(value));
	printf("after a signal %lu\n", value);
	pid_t pid = guest_fork();
	if (!pid) {
		__asm__ volatile("mov %%gs:0,%0" : "=r"(value));
		_exit((int)value);
	}
	guest_wait("in a child", pid);
	V(syscall(SYS_arch_prctl, ARCH_SET_GS, 1ul << 62));
	V(syscall(SYS_arch_prctl, 0x9999, 0));
	V(syscall(SYS_arch_prctl, ARCH_GET_FS, 8));
	V(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0) >= 0);
}

static unsigned long gs_read(void)
{
	unsigned long base;

	__asm__ volatile("rdgsbase %0" : "=r"(base));
	return base;
}

static void gs_write(unsigned long base)
{
	__asm__ volatile("wrgsbase %0" : : "r"(base) : "memory");
}

static void gs_says(const char *what, unsigned long want)
{
	unsigned long base = 1;

	syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
	printf("%s: written %d, the call says so %d\n", what, gs_read() == want, base == want);
}

static void gs_handler(int sig)
{
	(void)sig;
	gs_says("in a handler", gs_read());
	gs_write(0x777000);
}

/* Ends with FS leading nowhere. */
static void *fs_leaver(void *arg)
{
	(void)arg;
	__asm__ volatile("wrfsbase %0; syscall"
			 :
			 : "r"(0x5000ul), "a"(SYS_exit), "D"(0)
			 : "rcx", "r11", "memory");
	return NULL;
}

static __thread long g_own = 7;

static void *own_reader(void *arg)
{
	(void)arg;
	return (void *)g_own;
}

/* FS while it leads to @base, as the call says. No function may be called meanwhile. */
__attribute__((noinline, optimize("no-stack-protector"))) static unsigned long
fs_said(unsigned long base)
{
	unsigned long old, said = 0, r = SYS_arch_prctl;

	__asm__ volatile("rdfsbase %0; wrfsbase %3; syscall; wrfsbase %0"
			 : "=&r"(old), "+a"(r), "+m"(said)
			 : "r"(base), "D"(ARCH_GET_FS), "S"(&said)
			 : "rcx", "r11", "memory");
	return r == 0 ? said : 1;
}

/* Bases that are written by instructions, not calls, stay whatever calls are made. */
static void written_bases(void)
{
	static unsigned long area[2] = {77, 78};
	const unsigned long bases[] = {0x123000, (unsigned long)area, 5};
	pthread_t thread;
	void *own;

	P("bases written by instructions");
	if (!(getauxval(AT_HWCAP2) & 2)) {
		printf("not here\n");
		return;
	}
	guest_handle(SIGUSR2, gs_handler, 0);
	for (unsigned i = 0; i < GUEST_COUNT(bases); i++) {
		int wrong = 0;

		gs_write(bases[i]);
		for (int k = 0; k < 100; k++) {
			wrong += syscall(SYS_getppid) != getppid();
			syscall(SYS_getpgid, 0);
			wrong += gs_read() != bases[i];
		}
		printf("%u: wrong %d\n", i, wrong);
		gs_says("after calls", bases[i]);
		raise(SIGUSR2);
		gs_says("after the handler", 0x777000);
		gs_write(bases[i]);
		pid_t pid = guest_fork();
		if (!pid) {
			gs_says("in a child", bases[i]);
			_exit(0);
		}
		guest_wait("child", pid);
		gs_says("after fork", bases[i]);
	}
	/* What is known to be set already is set all the same. */
	V(syscall(SYS_arch_prctl, ARCH_SET_GS, area));
	gs_write(0x5000);
	V(syscall(SYS_arch_prctl, ARCH_SET_GS, area));
	gs_says("set again", (unsigned long)area);
	V(syscall(SYS_arch_prctl, ARCH_SET_GS, 0));
	printf("FS %d %d\n", fs_said(0x123000) == 0x123000,
	       fs_said((unsigned long)area) == (unsigned long)area);
	for (int i = 0; i < 4; i++) {
		pthread_create(&thread, NULL, i & 1 ? own_reader : fs_leaver, NULL);
		pthread_join(thread, &own);
		if (i & 1)
			printf("a thread's own %ld\n", (long)own);
	}
}

static void *other_base(void *arg)
{
	unsigned long value;
	unsigned long *mine = arg;

	syscall(SYS_arch_prctl, ARCH_SET_GS, mine);
	for (int i = 0; i < 200; i++) {
		sched_yield();
		__asm__ volatile("mov %%gs:0,%0" : "=r"(value));
		if (value != *mine)
			return (void *)1;
	}
	return NULL;
}

static void doors(void)
{
	static const struct {
		const char *name;
		long nr;
	} numbers[] = {{"x32 getpid", 0x40000000 + 39},
		       {"-1", -1},
		       {"high half set", (long)(0x100000000ul + 39)},
		       {"1000", 1000},
		       {"512", 512}};
	long r;

	for (size_t i = 0; i < GUEST_COUNT(numbers); i++) {
		__asm__ volatile("syscall" : "=a"(r) : "a"(numbers[i].nr) : "rcx", "r11", "memory");
		printf("%s: %s\n", numbers[i].name,
		       r == getpid() ? "our pid"
		       : r < 0       ? guest_errno((int)-r)
				     : "other");
	}
	/* Arguments are taken at the width that the call declares. */
	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(SYS_close), "D"(0xffffffff00000000ul + 999)
			 : "rcx", "r11", "memory");
	printf("close with a dirty upper half: %s\n", r < 0 ? guest_errno((int)-r) : "ok");
	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(SYS_getpgid), "D"(0xdead00000000ul)
			 : "rcx", "r11", "memory");
	printf("getpgid with a dirty upper half: %s\n", r == getpgrp() ? "ours" : "other");
}

int main(void)
{
	pthread_t t[4];
	unsigned long words[4] = {1, 2, 3, 4};
	void *r;
	int wrong = 0;

	guest_begin();
	guest_handle(SIGUSR1, clobber, 0);
	guest_handle(SIGALRM, clobber, SA_RESTART);
	general();
	rcx_r11();
	red_zone();
	flags();
	vectors();
	interrupted();
	bases();
	written_bases();
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, other_base, &words[i]);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &r);
		wrong += r != NULL;
	}
	printf("gs per thread wrong %d\n", wrong);
	doors();
	return 0;
}
