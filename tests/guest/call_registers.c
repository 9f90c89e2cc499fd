/* SPDX-License-Identifier: Apache-2.0 */

/* All registers across system calls that a signal ends, interrupts or restarts, in the handler and
 * after the call: of those that the call does not change none may be another. */
#include "guest.h"
#include <ucontext.h>

struct regs {
	uint64_t rax, rdi, rsi, rdx, r10, r8, r9, rbx, rbp, r12, r13, r14, r15, rcx, r11, flags;
	_Alignas(16) uint8_t fx[512];
};

static struct regs g_in, g_out;
static int g_runs;
static bool g_on_stack;

void do_call(const struct regs *in, struct regs *out);
__asm__(".pushsection .text\n"
	".globl do_call\n"
	"do_call:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	"
	"push %r15\n"
	"	push %rsi\n"
	"	fxrstor 128(%rdi)\n"
	"	mov 0(%rdi), %rax\n"
	"	mov 16(%rdi), %rsi\n	mov 24(%rdi), %rdx\n	mov 32(%rdi), %r10\n"
	"	mov 40(%rdi), %r8\n	mov 48(%rdi), %r9\n	mov 56(%rdi), %rbx\n"
	"	mov 64(%rdi), %rbp\n	mov 72(%rdi), %r12\n	mov 80(%rdi), %r13\n"
	"	mov 88(%rdi), %r14\n	mov 96(%rdi), %r15\n"
	"	push 120(%rdi)\n	popf\n"
	"	mov 8(%rdi), %rdi\n"
	"	syscall\n"
	".globl after_call\n"
	"after_call:\n"
	"	push %rdi\n"
	"	mov 8(%rsp), %rdi\n"
	"	mov %rax, 0(%rdi)\n"
	"	pop %rax\n"
	"	mov %rax, 8(%rdi)\n"
	"	pushf\n	pop 120(%rdi)\n"
	"	mov %rsi, 16(%rdi)\n	mov %rdx, 24(%rdi)\n	mov %r10, 32(%rdi)\n"
	"	mov %r8, 40(%rdi)\n	mov %r9, 48(%rdi)\n	mov %rbx, 56(%rdi)\n"
	"	mov %rbp, 64(%rdi)\n	mov %r12, 72(%rdi)\n	mov %r13, 80(%rdi)\n"
	"	mov %r14, 88(%rdi)\n	mov %r15, 96(%rdi)\n	mov %rcx, 104(%rdi)\n"
	"	mov %r11, 112(%rdi)\n"
	"	fxsave 128(%rdi)\n"
	"	cld\n"
	"	fninit\n"
	"	pop %rsi\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	"
	"pop %rbx\n"
	"	ret\n"
	".popsection\n");
extern const char after_call[];
_Static_assert(offsetof(struct regs, rcx) == 104 && offsetof(struct regs, flags) == 120 &&
		       offsetof(struct regs, fx) == 128,
	       "the assembly knows");

static void same(const char *when, const char *name, uint64_t got, uint64_t want)
{
	if (got != want)
		printf("%s: %s is %#lx, not %#lx\n", when, name, got, want);
}

static void on_signal(int sig, siginfo_t *si, void *context)
{
	const ucontext_t *uc = context;
	const greg_t *g = uc->uc_mcontext.gregs;
	stack_t ss;

	(void)si;
	g_runs++;
	printf("  signal %d, rax %lld, rip %+ld\n", sig,
	       g[REG_RAX] == (greg_t)g_in.rax ? 9999 : (long long)g[REG_RAX],
	       (long)(g[REG_RIP] - (greg_t)(uintptr_t)after_call));
#define SAME(NAME, field) same("handler", #field, (uint64_t)g[REG_##NAME], g_in.field)
	SAME(RDI, rdi);
	SAME(RSI, rsi);
	SAME(RDX, rdx);
	SAME(R10, r10);
	SAME(R8, r8);
	SAME(R9, r9);
	SAME(RBX, rbx);
	SAME(RBP, rbp);
	SAME(R12, r12);
	SAME(R13, r13);
	SAME(R14, r14);
	SAME(R15, r15);
	same("handler", "flags", (uint64_t)g[REG_EFL] & 0xcd5, g_in.flags & 0xcd5);
	same("handler", "r11", (uint64_t)g[REG_R11] & 0xcd5, g_in.flags & 0xcd5);
	same("handler", "rcx", (uint64_t)g[REG_RCX], (uint64_t)(uintptr_t)after_call);
	if (memcmp(uc->uc_mcontext.fpregs->_xmm, g_in.fx + 160, 256) != 0)
		puts("handler: xmm differs");
	if (g_on_stack) {
		sigaltstack(NULL, &ss);
		printf("  on the stack: %d\n", (ss.ss_flags & SS_ONSTACK) != 0);
	}
}

/* Makes the call with registers all set, and says what has become of them. */
static void call(const char *what, long nr, long a, long b, long c, long d, long e, long f)
{
	memset(&g_out, 0, sizeof(g_out));
	g_in.rax = (uint64_t)nr;
	g_in.rdi = (uint64_t)a;
	g_in.rsi = (uint64_t)b;
	g_in.rdx = (uint64_t)c;
	g_in.r10 = (uint64_t)d;
	g_in.r8 = (uint64_t)e;
	g_in.r9 = (uint64_t)f;
	g_runs = 0;
	printf("%s\n", what);
	do_call(&g_in, &g_out);
	printf("  = %ld, %d handlers\n", (long)g_out.rax, g_runs);
#define KEPT(field) same("after", #field, g_out.field, g_in.field)
	KEPT(rdi);
	KEPT(rsi);
	KEPT(rdx);
	KEPT(r10);
	KEPT(r8);
	KEPT(r9);
	KEPT(rbx);
	KEPT(rbp);
	KEPT(r12);
	KEPT(r13);
	KEPT(r14);
	KEPT(r15);
	same("after", "flags", g_out.flags & 0xcd5, g_in.flags & 0xcd5);
	same("after", "r11", g_out.r11 & 0xcd5, g_in.flags & 0xcd5);
	same("after", "rcx", g_out.rcx, (uint64_t)(uintptr_t)after_call);
	if (memcmp(g_out.fx + 160, g_in.fx + 160, 256) != 0)
		puts("after: xmm differs");
}

static void handle(int sig, int flags)
{
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};

	sigaction(sig, &sa, NULL);
}

/* Signals the thread @arg once it sleeps: by the clock alone a busy machine would do it too early.
 */
static void *signal_sleeper(void *arg)
{
	const pid_t tid = (pid_t)(long)arg;
	char path[64], text[256], *p;
	int seen = 0, fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	while (seen < 3) {
		usleep(5000);
		fd = open(path, O_RDONLY);
		memset(text, 0, sizeof(text));
		if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
			break;
		close(fd);
		p = strrchr(text, ')');
		seen = p && p[2] == 'S' ? seen + 1 : 0;
	}
	syscall(SYS_tgkill, getpid(), tid, SIGALRM);
	return NULL;
}

static void alarm_when_asleep(void)
{
	pthread_t t;

	pthread_create(&t, NULL, signal_sleeper, (void *)(long)gettid());
	pthread_detach(t);
}

/* The child's registers are its parent's. */
static void fork_both(void)
{
	int status = -1;

	puts("fork");
	fflush(stdout);
	g_in.rax = SYS_fork;
	do_call(&g_in, &g_out);
	for (unsigned i = 1; i < 13; i++)
		same(g_out.rax ? "parent" : "child", "a register", (&g_out.rax)[i], (&g_in.rax)[i]);
	if (g_out.rax == 0)
		_exit(memcmp(g_out.fx + 160, g_in.fx + 160, 256) != 0);
	waitpid((pid_t)g_out.rax, &status, 0);
	printf("  child: %d\n", status);
}

/* Writes once the handler has run: to who reads again. */
static void *writer(void *arg)
{
	while (__atomic_load_n(&g_runs, __ATOMIC_SEQ_CST) == 0)
		usleep(1000);
	return (void *)write(*(int *)arg, "x", 1);
}

int main(void)
{
	const struct timespec short_time = {.tv_nsec = 60000000}, long_time = {.tv_sec = 30};
	struct timespec left;
	const uint64_t none = 0;
	int fd[2];
	uint32_t word = 0;
	static char stack[65536], byte;
	const stack_t ss = {.ss_sp = stack, .ss_size = sizeof(stack)};
	pthread_t thread;
	void *wrote;

	setvbuf(stdout, NULL, _IONBF, 0);
	__asm__ volatile("fxsave %0" : "=m"(g_in.fx));
	for (int i = 0; i < 256; i++)
		g_in.fx[160 + i] = (uint8_t)(i * 7 + 3);
	g_in.rbx = 0x1111222233334444;
	g_in.rbp = 0x5555666677778888;
	g_in.r12 = 0xc0c0c0c0c0c0c0c1;
	g_in.r13 = 0xd0d0d0d0d0d0d0d1;
	g_in.r14 = 0xe0e0e0e0e0e0e0e1;
	g_in.r15 = 0xf0f0f0f0f0f0f0f1;
	g_in.flags = 0x202 | 0x800 | 0x400 | 1; /* OF DF CF */
	if (pipe(fd) < 0)
		return 1;

	handle(SIGUSR1, 0);
	handle(SIGALRM, 0);
	call("nothing", SYS_getppid + 100000, 1, 2, 3, 4, 5, 6);
	call("kill", SYS_kill, getpid(), SIGUSR1, -3, -4, -5, -6);
	handle(SIGUSR1, SA_RESTART);
	call("tgkill", SYS_tgkill, getpid(), gettid(), SIGUSR1, 4, 5, 6);
	alarm_when_asleep();
	call("read, interrupted", SYS_read, fd[0], (long)&byte, 1, 44, 55, 66);
	alarm_when_asleep();
	call("nanosleep, interrupted", SYS_nanosleep, (long)&long_time, (long)&left, 33, 44, 55,
	     66);
	alarm_when_asleep();
	call("pause", SYS_pause, 11, 22, 33, 44, 55, 66);
	alarm_when_asleep();
	call("rt_sigsuspend", SYS_rt_sigsuspend, (long)&none, 8, 33, 44, 55, 66);
	alarm_when_asleep();
	call("futex, interrupted", SYS_futex, (long)&word, 0, 0, (long)&long_time, 55, 66);
	handle(SIGALRM, SA_RESTART);
	alarm_when_asleep();
	call("futex, restarted", SYS_futex, (long)&word, 0, 0, (long)&long_time, 55, 66);
	alarm_when_asleep();
	g_runs = 0;
	pthread_create(&thread, NULL, writer, &fd[1]);
	call("read, restarted", SYS_read, fd[0], (long)&byte, 1, 44, 55, 66);
	pthread_join(thread, &wrote);
	guest_value("late", (long)wrote);
	/* Without a handler: restarted as well. */
	signal(SIGCHLD, SIG_DFL);
	if (fork() == 0) {
		usleep(20000);
		_exit(0);
	}
	call("nanosleep, a signal without a handler", SYS_nanosleep, (long)&short_time, (long)&left,
	     33, 44, 55, 66);
	wait(NULL);
	sigaltstack(&ss, NULL);
	g_on_stack = true;
	handle(SIGUSR1, SA_ONSTACK);
	call("kill, on another stack", SYS_kill, getpid(), SIGUSR1, 3, 4, 5, 6);
	g_on_stack = false;
	fork_both();
	return 0;
}
