/* SPDX-License-Identifier: Apache-2.0 */

/* A thread that signals itself, over and over, from one call site: what the handler finds in the
 * frame, and what becomes of what it writes there; a stack that grows by the frame, or that is not
 * there. */
#include "guest.h"
#include <ucontext.h>

#define ROUNDS 200
#define PAGE 4096u

static uint32_t g_wrong;
static int g_handled;
static const uint32_t g_mxcsr = 0x9fc0;
static const uint32_t g_in[4] = {0x11111111, 0x22222222, 0x33333333, 0x44444444};

static void wrong(const char *what)
{
	if (g_wrong++ == 0)
		printf("%s\n", what);
}

/* What the host's kernel says of the area that lies behind a frame. */
struct sw {
	uint32_t magic1, extended_size;
	uint64_t features;
	uint32_t size;
};

static void on_signal(int sig, siginfo_t *si, void *ctx)
{
	ucontext_t *uc = ctx;
	uint8_t *fp = (uint8_t *)uc->uc_mcontext.fpregs;
	uint32_t magic2, mxcsr, own_mxcsr;
	uint64_t in_use, xmm5[2];
	uint16_t fsw;
	struct sw sw;

	__asm__ volatile("movdqu %%xmm5, %0\n\tstmxcsr %1\n\tfnstsw %2"
			 : "=m"(xmm5), "=m"(own_mxcsr), "=m"(fsw));
	g_handled++;
	/* A handler does not begin with the registers of who was interrupted. */
	if ((xmm5[0] | xmm5[1] | fsw) != 0 || own_mxcsr != 0x1f80)
		wrong("the handler's registers");
	memcpy(&sw, fp + 464, sizeof(sw));
	memcpy(&magic2, fp + sw.size, sizeof(magic2));
	memcpy(&in_use, fp + 512, sizeof(in_use));
	memcpy(&mxcsr, fp + 24, sizeof(mxcsr));
	if (sig != SIGUSR1 || si->si_pid != getpid() || si->si_code != SI_USER)
		wrong("siginfo");
	if ((uintptr_t)fp % 64 != 0 || (uintptr_t)ctx % 16 != 0)
		wrong("alignment");
	if (sw.magic1 != 0x46505853 || magic2 != 0x46505845 || sw.extended_size != sw.size + 4)
		wrong("magic");
	if ((in_use & 3) != 3 || (in_use & ~sw.features) != 0)
		wrong("features");
	for (int i = 520; i < 576; i++)
		if (fp[i] != 0)
			wrong("header");
	if (memcmp(fp + 160 + 16 * 5, g_in, 16) != 0 || mxcsr != g_mxcsr)
		wrong("the frame's registers");
	if (uc->uc_mcontext.gregs[REG_R13] != 0x1313 || uc->uc_mcontext.gregs[REG_RBX] != 0xb0b0 ||
	    uc->uc_mcontext.gregs[REG_RAX] != 0)
		wrong("general registers");
	/* Any register may be used here; those of the frame come back. */
	__asm__ volatile("pxor %%xmm5, %%xmm5\n\tpxor %%xmm6, %%xmm6\n\tfninit\n\tmov $7, %%r13d" ::
				 : "xmm5", "xmm6", "r13");
	fp[160 + 16 * 6]++;
	uc->uc_mcontext.gregs[REG_R8]++;
}

/* One kill(): with xmm5, mxcsr and some more as on_signal() wants them. */
static void send(long pid)
{
	uint8_t count[16] = {1}, out5[16], out6[16];
	uint32_t out_mxcsr = 0;
	uint64_t r8 = 0x88, r13;

	__asm__ volatile(
		"movdqu (%[in]), %%xmm5\n\tmovdqu (%[count]), %%xmm6\n\t"
		"ldmxcsr %[mxcsr]\n\tfld1\n\tmov %[r8], %%r8\n\tmov $0x1313, %%r13d\n\t"
		"mov $0xb0b0, %%ebx\n\tmov %[pid], %%rdi\n\tmov $10, %%esi\n\t"
		"mov $62, %%eax\n\tsyscall\n\t"
		"fstp %%st(0)\n\tmov %%r13, %[r13]\n\tmov %%r8, %[r8]\n\tstmxcsr %[out_mxcsr]\n\t"
		"movdqu %%xmm5, %[out5]\n\tmovdqu %%xmm6, %[out6]"
		: [r8] "+m"(r8), [r13] "=m"(r13), [out_mxcsr] "=m"(out_mxcsr), [out5] "=m"(out5),
		  [out6] "=m"(out6)
		: [in] "r"(g_in), [count] "r"(count), [mxcsr] "m"(g_mxcsr), [pid] "r"(pid)
		: "rax", "rbx", "rcx", "rdi", "rsi", "r8", "r11", "r13", "xmm5", "xmm6", "memory",
		  "cc");
	if (r13 != 0x1313 || r8 != 0x89 || out_mxcsr != g_mxcsr || memcmp(out5, g_in, 16) != 0 ||
	    out6[0] != 2)
		wrong("registers after the handler");
}

static int in_child(void (*f)(void))
{
	int status;

	fflush(stdout);
	if (fork() == 0) {
		f();
		fflush(stdout);
		_exit(g_wrong != 0);
	}
	wait(&status);
	return status;
}

static void rounds(void)
{
	for (int i = 0; i < ROUNDS; i++)
		send(getpid());
	if (g_handled != ROUNDS)
		wrong("count");
}

/* The frame is what the stack grows by. */
static void grows(void)
{
	const pid_t pid = getpid();
	uint64_t sp, bottom;

	rounds();
	__asm__ volatile("mov %%rsp, %0" : "=r"(sp));
	for (int i = 1; i < 60; i++) {
		bottom = (sp & ~(uint64_t)(PAGE - 1)) - (uint64_t)i * 2 * PAGE + 200;
		__asm__ volatile(
			"mov %%rsp, %%r12\n\tmov %[to], %%rsp\n\tmovdqu (%[in]), %%xmm5\n\t"
			"ldmxcsr %[mxcsr]\n\tmov $0x1313, %%r13d\n\tmov $0xb0b0, %%ebx\n\t"
			"mov $10, %%esi\n\tmov $62, %%eax\n\tsyscall\n\tmov %%r12, %%rsp"
			:
			: [to] "r"(bottom), [in] "r"(g_in), [mxcsr] "m"(g_mxcsr), "D"((long)pid)
			: "rax", "rbx", "rcx", "rsi", "r8", "r11", "r12", "r13", "xmm5", "memory",
			  "cc");
	}
	if (g_handled != ROUNDS + 59)
		wrong("count on a stack that grows");
}

static void on_stack(int prot, size_t size)
{
	char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const stack_t ss = {.ss_sp = p, .ss_size = size};
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	rounds();
	g_handled = 0;
	sigaltstack(&ss, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	rounds();
	mprotect(p, 16 * PAGE, prot);
	for (int i = 0; i < 3; i++)
		send(getpid());
}

static void not_there(void)
{
	on_stack(PROT_NONE, 16 * PAGE);
}

static void read_only(void)
{
	on_stack(PROT_READ, 16 * PAGE);
}

static void there(void)
{
	on_stack(PROT_READ | PROT_WRITE, 16 * PAGE);
}

int main(void)
{
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};

	sigaction(SIGUSR1, &sa, NULL);
	printf("rounds: %#x\n", in_child(rounds));
	printf("a stack that grows: %#x\n", in_child(grows));
	printf("a stack of its own: %#x\n", in_child(there));
	printf("that is not there: %#x\n", in_child(not_there));
	printf("that is read-only: %#x\n", in_child(read_only));
	return 0;
}
