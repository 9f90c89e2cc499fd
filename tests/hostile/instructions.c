/* SPDX-License-Identifier: Apache-2.0 */
/* Odd ways into the kernel and odd states of the processor. Compared with instructions.expect. */
#include "hostile.h"
#include <ucontext.h>
static void run(const char *n, void (*f)(void))
{
	fflush(stdout);
	pid_t p = fork();
	if (!p) {
		alarm(3);
		f();
		fflush(stdout);
		_exit(0);
	}
	int w;
	waitpid(p, &w, 0);
	printf("%-16s %s %d\n", n, WIFSIGNALED(w) ? "sig" : "exit",
	       WIFSIGNALED(w) ? WTERMSIG(w) : WEXITSTATUS(w));
}
static void int80(void)
{
	long r;
	asm volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	printf("int80 %ld\n", (r == getpid()) ? 1L : r);
}
static void int80w(void)
{
	long r;
	asm volatile("mov %%rcx,%%rcx; int $0x80"
		     : "=a"(r)
		     : "a"(4), "b"(1), "c"("x"), "d"(1)
		     : "memory", "r8", "r9", "r10", "r11");
	printf("int80w %ld\n", r);
}
static void sysenter(void)
{
	long r;
	asm volatile("mov %%rsp,%%rbp; sysenter"
		     : "=a"(r)
		     : "a"(20)
		     : "memory", "rbx", "rcx", "rdx", "rsi", "rdi");
}
static void x32(void)
{
	long r = syscall(0x40000000 | 39);
	printf("x32 %ld %d\n", r, errno);
	r = syscall(0x40000000 | 520, 0, 0, 0);
	printf("x32exec %ld %d\n", r, errno);
}
static void vsys(void)
{
	long r = ((long (*)(long *))0xffffffffff600400ul)(0);
	printf("vsys %d\n", r > 1000000000);
}
static void vsysbad(void)
{
	((long (*)(long *))0xffffffffff600010ul)(0);
}
static void vsysread(void)
{
	printf("%x\n", *(volatile unsigned char *)0xffffffffff600000ul);
}
static volatile int steps;
static void tr(int s, siginfo_t *i, void *u)
{
	steps++;
	if (steps > 5000)
		((ucontext_t *)u)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}
static void tf(void)
{
	struct sigaction sa = {.sa_sigaction = tr, .sa_flags = SA_SIGINFO};
	sigaction(SIGTRAP, &sa, 0);
	asm volatile("pushfq; orq $0x100,(%%rsp); popfq; nop; mov $39,%%eax; syscall; nop; mov "
		     "$102,%%eax; syscall; nop; pushfq; andq $~0x100,(%%rsp); popfq" ::
			     : "rax", "rcx", "r11", "memory");
	printf("steps %d\n", steps);
}
static void tffork(void)
{
	struct sigaction sa = {.sa_sigaction = tr, .sa_flags = SA_SIGINFO};
	sigaction(SIGTRAP, &sa, 0);
	long r;
	asm volatile("pushfq; orq $0x100,(%%rsp); popfq; mov $57,%%eax; syscall; nop; pushfq; andq "
		     "$~0x100,(%%rsp); popfq"
		     : "=a"(r)::"rcx", "r11", "memory");
	if (r == 0)
		_exit(steps & 127);
	int w;
	waitpid(r, &w, 0);
	printf("tffork %d %x\n", steps, w);
}
static void iopl(void)
{
	asm volatile("outb %%al,$0x80" ::"a"(0));
}
static void hlt(void)
{
	asm volatile("hlt");
}
static void cli(void)
{
	asm volatile("cli");
}
static void ud(void)
{
	asm volatile("ud2");
}
static void int3(void)
{
	asm volatile("int3");
}
static void icebp(void)
{
	asm volatile(".byte 0xf1");
}
static void int1(void)
{
	asm volatile("int $1");
}
static void int255(void)
{
	asm volatile("int $255");
}
static void ncrip(void)
{
	asm volatile("jmp *%0" ::"r"(0x8000000000000000ul));
}
static void ncrsp(void)
{
	asm volatile("mov %0,%%rsp; push %%rax" ::"r"(0x8000000000000000ul));
}
static void segv_ss(void)
{
	asm volatile("mov %0,%%rsp; syscall; push %%rax" ::"r"(0x7ffff0000000ul), "a"(39));
}
static void ldds(void)
{
	asm volatile("mov %0,%%ds; mov %0,%%es" ::"r"(0x2b));
	asm volatile("mov %0,%%fs" ::"r"(0));
	puts("x");
}
static void ldgs(void)
{
	asm volatile("mov %0,%%gs" ::"r"(3));
	printf("gs %d\n", (int)syscall(39) > 0);
}
static void badseg(void)
{
	asm volatile("mov %0,%%ds" ::"r"(0x1237));
}
static void lret32(void)
{
	asm volatile(
		"push $0x23; lea 1f(%rip),%rax; push %rax; lretq; 1: nop; .code32; mov $20,%eax; "
		"int $0x80; .code64; push $0x33; call 2f; 2: addl $5,(%rsp); lretl;");
}
static void lret32s(void)
{ // 32-bit code at low address making int80/syscall/sysenter
	uint8_t *m = mmap((void *)0x10000, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	uint8_t c[] = {0xb8, 20,   0,    0,    0,  0x0f, 0x05, 0xb8, 20,   0,    0,
		       0,    0xcd, 0x80, 0xb8, 20, 0,    0,    0,    0x0f, 0x34, 0xf4};
	memcpy(m, c, sizeof c);
	asm volatile("mov $0x10f00,%%esp; push $0x23; push $0x10000; lretq" ::: "memory");
}
static volatile int go;
static uint8_t *jit;
static void *jitw(void *x)
{
	for (int i = 0; i < 200000; i++) {
		jit[1] = 39;
		jit[1] = 102;
		jit[5] = 0x0f;
	}
	go = 2;
	return 0;
}
static void smc(void)
{
	jit = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t c[] = {0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3};
	memcpy(jit, c, 8);
	pthread_t t;
	pthread_create(&t, 0, jitw, 0);
	long bad = 0;
	int pid = getpid(), uid = getuid();
	while (go != 2) {
		long r;
		asm volatile("call *%1" : "=a"(r) : "r"(jit) : "rcx", "r11", "memory");
		if (r != pid && r != uid)
			bad++;
	}
	printf("smc bad %ld\n", bad);
}
static void syswrap(void)
{ // syscall insn at the end of a page, next unmapped
	uint8_t *m = mmap(0, 8192, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(m + 4096, 4096);
	m[4094] = 0x0f;
	m[4095] = 5;
	asm volatile("jmp *%0" ::"r"(m + 4094), "a"(39));
}
static void unmapself(void)
{
	uint8_t *m = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t c[] = {0x0f, 0x05, 0xc3};
	memcpy(m, c, 3);
	asm volatile("call *%0" ::"r"(m), "a"(11), "D"(m), "S"(4096) : "rcx", "r11", "memory");
}
static void rcxr11(void)
{
	uint64_t rcx, r11, fl;
	asm volatile("mov $39,%%eax; stc; std; pushfq; pop %2; syscall; cld; mov %%rcx,%0; mov "
		     "%%r11,%1; lea 1f(%%rip),%%rdx; 1:"
		     : "=r"(rcx), "=r"(r11), "=r"(fl)::"rax", "rcx", "r11", "rdx", "memory");
	printf("r11 %d\n", r11 == fl);
}
static void ac(void)
{
	asm volatile("pushfq; orq $0x40000,(%%rsp); popfq; mov %0,%%rax; mov (%%rax),%%eax" ::"r"(
			     ((uintptr_t)&go) | 1)
		     : "rax");
	puts("no ac");
}
static void nt(void)
{
	asm volatile("pushfq; orq $0x4000,(%%rsp); popfq; mov $39,%%eax; syscall" ::
			     : "rax", "rcx", "r11");
	asm volatile("mov $39,%%eax; syscall; iretq" ::: "rax", "rcx", "r11");
}
static void redzone(void)
{
	uint64_t v;
	asm volatile("movq $0x1234,-8(%%rsp); movq $0x77,-128(%%rsp); mov $39,%%eax; syscall; mov "
		     "-8(%%rsp),%0"
		     : "=r"(v)::"rax", "rcx", "r11", "memory");
	printf("rz %lx\n", v);
}
static void nosp(void)
{
	long r;
	asm volatile("mov %%rsp,%%rbx; xor %%esp,%%esp; mov $39,%%eax; syscall; mov %%rbx,%%rsp"
		     : "=a"(r)::"rbx", "rcx", "r11", "memory");
	printf("nosp %d\n", r == getpid());
}
static void ncsp(void)
{
	long r;
	asm volatile("mov %%rsp,%%rbx; mov $0x8000000000000000,%%rsp; mov $39,%%eax; syscall; mov "
		     "%%rbx,%%rsp"
		     : "=a"(r)::"rbx", "rcx", "r11", "memory");
	printf("ncsp %d\n", r == getpid());
}
static void fsb(void)
{
	printf("%ld\n", syscall(158, 0x1002, 0xffff800000000000ul));
}
static void robust(void)
{
	syscall(273, 0x7ffff0000000ul, 24);
	syscall(218, 0x7ffff0001000ul);
}
static void rseqr(void)
{
	printf("%ld %d\n", syscall(334, 0x7ffff0000000ul, 32, 0, 0), errno);
}
int main(void)
{
	hostile_begin();
	setvbuf(stdout, 0, _IONBF, 0);
#define T(x) run(#x, x)
	T(int80);
	T(int80w);
	T(sysenter);
	T(x32);
	T(vsys);
	T(vsysbad);
	T(vsysread);
	T(tf);
	T(tffork);
	T(iopl);
	T(hlt);
	T(cli);
	T(ud);
	T(int3);
	T(icebp);
	T(int1);
	T(int255);
	T(ncrip);
	T(ncrsp);
	T(segv_ss);
	T(ldds);
	T(ldgs);
	T(badseg);
	T(lret32);
	T(lret32s);
	T(smc);
	T(syswrap);
	T(unmapself);
	T(rcxr11);
	T(ac);
	T(nt);
	T(redzone);
	T(nosp);
	T(ncsp);
	T(fsb);
	T(robust);
	T(rseqr);
	return 0;
}
