/* SPDX-License-Identifier: Apache-2.0 */

/* Signals that land anywhere while hot call sites are called: registers, flags, vector state, what
 * a handler sees, and the ways out of one; restarts; single-stepping. */
#include "call_sites.h"
#include <setjmp.h>
#include <ucontext.h>

#define TICKS 1000
/* So many must have come; a slow machine is given the time. */
#define FEW 20
/* A loop of a hundred calls: @before, syscall, @after, dec %r12, jnz. */
struct loop {
	const char *name, *before, *after;
	size_t before_size, after_size;
	uint8_t *start;
	const uint8_t *call, *next, *end;
	long nr, result;
};

#define LOOP(name, before, after)                                                             \
	{                                                                                     \
		name, before, after, sizeof(before) - 1, sizeof(after) - 1, NULL, NULL, NULL, \
			NULL, 3, -9                                                           \
	}

static struct loop g_loops[] = {
	LOOP("mov before", "\xb8\x03\x00\x00\x00", ""),
	LOOP("nop behind", "\x31\xc0\xb0\x03", "\x0f\x1f\x40\x00"),
	LOOP("store behind", "\x31\xc0\xb0\x03", "\x48\x89\x45\xf8"),
	LOOP("neither", "\x31\xc0\xb0\x03", "\x90"),
	/* A platform may answer without asking anybody. */
	LOOP("getpid, mov before", "\xb8\x27\x00\x00\x00", ""),
	LOOP("getpid, nop behind", "\x31\xc0\xb0\x27", "\x0f\x1f\x40\x00"),
	LOOP("getppid, store behind", "\x31\xc0\xb0\x6e", "\x48\x89\x45\xf8"),
};

static void loop_make(struct loop *l)
{
	struct code c = code_new(PAGE);

	l->start = c.start;
	put(&c, l->before, l->before_size);
	l->call = c.at;
	PUT(&c, "\x0f\x05");
	l->next = c.at;
	put(&c, l->after, l->after_size);
	if (strncmp(l->name, "getpid", 6) == 0) {
		l->nr = SYS_getpid;
		l->result = getpid();
	} else if (strncmp(l->name, "getppid", 7) == 0) {
		l->nr = SYS_getppid;
		l->result = getppid();
	}
	PUT(&c, "\x49\xff\xcc\x75");
	c.at[0] = (uint8_t)(c.start - c.at - 1);
	c.at++;
	l->end = c.at;
	put_exit(&c);
	code_done(c.start, PAGE);
}

extern char __executable_start, etext;
static volatile int g_ticks, g_odd;
static volatile bool g_inside; /* site_call runs, and nothing else does */
static struct loop *volatile g_loop;

static void look(const ucontext_t *u)
{
	const greg_t *g = u->uc_mcontext.gregs;
	const uint8_t *rip = (const uint8_t *)g[REG_RIP];
	const struct loop *l = g_loop;

	if (!g_inside)
		return;
	if (rip >= l->start && rip < l->start + PAGE) {
		/* After a call. */
		if (rip == l->next)
			g_odd += g[REG_RCX] != g[REG_RIP] || g[REG_RAX] != l->result ||
				 (uint64_t)g[REG_R11] != ((uint64_t)g[REG_EFL] & ~0x10000ul);
		if (rip == l->call)
			g_odd += g[REG_RAX] != l->nr;
		/* What no call changes. */
		g_odd += (uint64_t)g[REG_RBX] != site_in[RBX] ||
			 (uint64_t)g[REG_RDX] != site_in[RDX] ||
			 (uint64_t)g[REG_RSI] != site_in[RSI] ||
			 (uint64_t)g[REG_RDI] != site_in[RDI] ||
			 (uint64_t)g[REG_RBP] != site_in[RBP] ||
			 (uint64_t)g[REG_RSP] != site_in[RSP] ||
			 (uint64_t)g[REG_R8] != site_in[R8] ||
			 (uint64_t)g[REG_R10] != site_in[R10] ||
			 (uint64_t)g[REG_R15] != site_in[R15];
	} else {
		/* Nobody else is there. */
		g_odd += rip < (uint8_t *)&__executable_start || rip >= (uint8_t *)&etext;
	}
}

static void on_tick(int sig, siginfo_t *si, void *context)
{
	static const uint32_t mxcsr = 0x1f80;

	(void)sig;
	(void)si;
	g_ticks++;
	look(context);
	/* Everything that a handler may use. */
	__asm__ volatile("pcmpeqb %%xmm0, %%xmm0\n\tpcmpeqb %%xmm7, %%xmm7\n\t"
			 "pcmpeqb %%xmm15, %%xmm15\n\tfninit\n\tldmxcsr %0\n\tstc"
			 :
			 : "m"(mxcsr)
			 : "xmm0", "xmm7", "xmm15", "cc");
}

static void inside(const void *entry)
{
	g_inside = true;
	site_call(entry);
	g_inside = false;
}

static void timer(long us)
{
	const struct itimerval it = {{0, us}, {0, us}};

	setitimer(ITIMER_REAL, &it, NULL);
}

static bool before(int64_t until)
{
	return guest_now_ms() < until;
}

static void once(long us)
{
	const struct itimerval it = {{0, 0}, {0, us}};

	setitimer(ITIMER_REAL, &it, NULL);
}

static void interrupted(struct loop *l, int flags)
{
	const struct sigaction sa = {.sa_sigaction = on_tick,
				     .sa_flags = SA_SIGINFO | SA_ONSTACK | flags};
	const int64_t until = guest_now_ms() + 400;
	int wrong = 0;

	g_ticks = g_odd = 0;
	g_loop = l;
	site_fill();
	sigaction(SIGALRM, &sa, NULL);
	timer(100);
	/* site_in is looked at by the handler: it stays as it is. */
	site_in[FLAGS] = 0xad7;
	do {
		for (int i = 0; i < 20; i++) {
			site_in[R12] = 100;
			inside(l->start);
			wrong += site_out[RAX] != (uint64_t)l->result || site_out[R12] != 0 ||
				 site_out[RCX] != (uint64_t)l->next;
			for (int r = 0; r < REGS; r++)
				wrong += r != RAX && r != RCX && r != R11 && r != R12 &&
					 r != FLAGS && site_out[r] != site_in[r];
		}
	} while (g_ticks < TICKS && (g_ticks <= FEW ? before(until + 60000) : before(until)));
	timer(0);
	printf("%s, flags %s: wrong %d odd %d %s\n", l->name, flags ? "SA_RESTART" : "0", wrong,
	       g_odd, g_ticks > FEW ? "" : "few ticks");
}

/* --- Vector state --- */

static void vectors(struct loop *l)
{
	static uint8_t in[16][32] __attribute__((aligned(32))),
		out[16][32] __attribute__((aligned(32)));
	const struct sigaction sa = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	const int64_t until = guest_now_ms() + 300;
	const bool avx = __builtin_cpu_supports("avx");
	static const uint32_t mxcsr_in = 0x7fa0;
	uint32_t mxcsr, wrong = 0;
	static const uint16_t cw_in = 0x0e7f;
	uint16_t cw;
	double pi;

	for (unsigned i = 0; i < sizeof(in); i++)
		in[i / 32][i % 32] = (uint8_t)(i * 7 + i / 32);
	g_ticks = g_odd = 0;
	g_loop = l;
	site_fill();
	sigaction(SIGALRM, &sa, NULL);
	timer(100);
	do {
		site_in[R12] = 100;
		memset(out, 0, sizeof(out));
#define EACH(op)                                                                                \
	op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11) op(12) op(13) \
		op(14) op(15)
#define LOAD(n) "vmovdqa 32*" #n "(%0), %%ymm" #n "\n\t"
#define STORE(n) "vmovdqa %%ymm" #n ", 32*" #n "(%1)\n\t"
#define LOAD1(n) "movdqa 32*" #n "(%0), %%xmm" #n "\n\t"
#define STORE1(n) "movdqa %%xmm" #n ", 32*" #n "(%1)\n\t"
		/* The red zone is not ours here: rsp is moved. */
#define RUN(load, store, after)                                                                   \
	__asm__ volatile(                                                                         \
		"sub $256, %%rsp\n\tfninit\n\tfldpi\n\tfldcw %5\n\tldmxcsr %4\n\t" EACH(          \
			load) "push %0\n\tpush %1\n\tmov %2, %%rdi\n\tcall site_call\n\tpop "     \
			      "%1\n\tpop %0\n\t" EACH(store) after "add $256, %%rsp"              \
		:                                                                                 \
		: "r"((uint8_t *)in), "r"((uint8_t *)out), "r"(l->start), "r"(0L), "m"(mxcsr_in), \
		  "m"(cw_in)                                                                      \
		: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc",    \
		  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
		  "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st")
		if (avx)
			RUN(LOAD, STORE, "vzeroupper\n\t");
		else
			RUN(LOAD1, STORE1, "");
		__asm__ volatile("fnstcw %0\n\tstmxcsr %1\n\tfstpl %2\n\tfninit"
				 : "=m"(cw), "=m"(mxcsr), "=m"(pi));
		__asm__ volatile("ldmxcsr %0" ::"m"((const uint32_t[]){0x1f80}[0]));
		wrong += cw != cw_in || mxcsr != mxcsr_in || pi < 3.14159265 || pi > 3.14159266;
		for (unsigned i = 0; i < 16; i++)
			wrong += memcmp(in[i], out[i], avx ? 32 : 16) != 0;
	} while (g_ticks < TICKS && (g_ticks <= FEW ? before(until + 60000) : before(until)));
	timer(0);
	printf("vector state, %s: wrong %u odd %d %s\n", l->name, wrong, g_odd,
	       g_ticks > FEW ? "" : "few ticks");
}

/* --- Ways out of a handler --- */

static sigjmp_buf g_jump;
static volatile int g_jumps;

static void jumps_out(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)si;
	look(context);
	g_inside = false;
	g_jumps++;
	siglongjmp(g_jump, 1);
}

static void jumping(struct loop *l)
{
	const struct sigaction sa = {.sa_sigaction = jumps_out,
				     .sa_flags = SA_SIGINFO | SA_ONSTACK};
	const int64_t until = guest_now_ms() + 300;
	volatile int wrong = 0;

	g_jumps = g_odd = 0;
	g_loop = l;
	site_fill();
	sigaction(SIGALRM, &sa, NULL);
	/* One at a time: a jump lets signals in while it is still on the handlers' stack, and where
	 * the next one always waits by then that stack is used up, natively too. */
	sigsetjmp(g_jump, 1);
	once(500);
	while (g_jumps < 300 && (g_jumps <= FEW ? before(until + 60000) : before(until))) {
		site_in[R12] = 100;
		inside(l->start);
		wrong += site_out[RAX] != (uint64_t)l->result || site_out[R12] != 0;
	}
	timer(0);
	printf("jumping out, %s: wrong %d odd %d %s\n", l->name, wrong, g_odd,
	       g_jumps > FEW ? "" : "few");
}

/* A handler that moves the program on: to where the loop ends. */
static void moves_on(int sig, siginfo_t *si, void *context)
{
	ucontext_t *u = context;
	const uint8_t *rip = (const uint8_t *)u->uc_mcontext.gregs[REG_RIP];

	(void)sig;
	(void)si;
	look(u);
	g_jumps++;
	if (rip >= g_loop->start && rip < g_loop->start + PAGE) {
		u->uc_mcontext.gregs[REG_RIP] = (greg_t)g_loop->end;
		u->uc_mcontext.gregs[REG_R9] = 77;
	}
}

static void moving(struct loop *l)
{
	const struct sigaction sa = {.sa_sigaction = moves_on, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	const int64_t until = guest_now_ms() + 300;
	int wrong = 0;

	g_jumps = g_odd = 0;
	g_loop = l;
	site_fill();
	sigaction(SIGALRM, &sa, NULL);
	timer(300);
	while (g_jumps < 300 && (g_jumps <= FEW ? before(until + 60000) : before(until))) {
		/* For ever, but for the signal. */
		site_in[R12] = 1ul << 60;
		inside(l->start);
		wrong += site_out[R12] == 0 || site_out[R9] != 77;
	}
	timer(0);
	printf("moving on, %s: wrong %d odd %d %s\n", l->name, wrong, g_odd,
	       g_jumps > FEW ? "" : "few");
}

static void contexts(void)
{
	volatile int n = 0;
	ucontext_t u;

	/* libc's own calls, then. */
	getcontext(&u);
	if (++n < 300)
		setcontext(&u);
	printf("setcontext: %d\n", n);
}

/* --- Blocking and restarts --- */

static void on_usr(int sig)
{
	(void)sig;
	g_ticks++;
}

static uint8_t *make_call(uint32_t nr, bool before, const uint8_t **next)
{
	struct code c = code_new(PAGE);

	PUT(&c, "\x90");
	if (before) {
		PUT(&c, "\xb8");
		put32(&c, nr);
		PUT(&c, "\x0f\x05");
	} else {
		PUT(&c, "\x48\xc7\xc0");
		put32(&c, nr);
		PUT(&c, "\x0f\x05\x0f\x1f\x40\x00");
	}
	*next = c.at - (before ? 0 : 4);
	put_exit(&c);
	code_done(c.start, PAGE);
	return c.start;
}

static void restarts(bool before)
{
	const uint8_t *next;
	uint8_t *f = make_call(SYS_read, before, &next);
	struct timespec *ts = (struct timespec *)&site_memory[8];
	int fd[2], wrong = 0;
	char x = 0;
	pid_t pid;

	pipe(fd);
	for (int i = 0; i < HOT; i++) {
		site_fill();
		site_call(f);
		wrong += site_wrong(next, EBADF_RAX);
	}
	for (int how = 0; how < 2; how++) {
		guest_handle(SIGALRM, on_usr, SA_ONSTACK | (how ? SA_RESTART : 0));
		for (int i = 0; i < 4; i++) {
			pid = guest_fork();
			if (pid == 0) {
				guest_until_asleep(getppid());
				for (int k = 0; k < 5; k++) {
					kill(getppid(), SIGALRM);
					guest_sleep_ms(1);
				}
				if (how)
					_exit(write(fd[1], "x", 1) != 1);
				_exit(0);
			}
			g_ticks = 0;
			site_fill();
			site_in[RDI] = (uint64_t)fd[0];
			site_in[RSI] = (uint64_t)&x;
			site_in[RDX] = 1;
			site_call(f);
			wrong += site_wrong(next, how ? 1 : (uint64_t)-4) != 0 || g_ticks == 0;
			while (waitpid(pid, NULL, 0) < 0)
				;
		}
	}
	printf("read, %s: wrong %d\n", before ? "mov before" : "nop behind", wrong);
	munmap(f, PAGE);

	/* nanosleep goes on by restart_syscall, which has another number. */
	f = make_call(SYS_nanosleep, before, &next);
	wrong = 0;
	for (int i = 0; i < HOT + 4; i++) {
		site_fill();
		ts->tv_sec = 0;
		ts->tv_nsec = i < HOT ? -1 : 30000000;
		site_in[RDI] = (uint64_t)ts;
		site_in[RSI] = 0;
		if (i == HOT)
			signal(SIGCONT, SIG_DFL);
		if (i >= HOT) {
			pid = guest_fork();
			if (pid == 0) {
				guest_until_asleep(getppid());
				kill(getppid(), SIGSTOP);
				guest_until(getppid(), getppid(), 'T');
				kill(getppid(), SIGCONT);
				_exit(0);
			}
		}
		site_call(f);
		wrong += site_wrong(next, i < HOT ? (uint64_t)-22 : 0);
		if (i >= HOT)
			while (waitpid(pid, NULL, 0) < 0)
				;
	}
	printf("nanosleep, %s: wrong %d\n", before ? "mov before" : "nop behind", wrong);
	munmap(f, PAGE);
}

/* --- Single steps --- */

static unsigned g_steps;
static uint64_t g_trail;

static void on_step(int sig, siginfo_t *si, void *context)
{
	ucontext_t *u = context;
	const uint8_t *rip = (const uint8_t *)u->uc_mcontext.gregs[REG_RIP];

	(void)sig;
	if (rip >= g_loop->start && rip < g_loop->start + PAGE) {
		g_steps++;
		g_trail = site_mix(g_trail, (uint64_t)(rip - g_loop->start));
		/* Who it is is another matter. */
		if (u->uc_mcontext.gregs[REG_RAX] != g_loop->result)
			g_trail = site_mix(g_trail, (uint64_t)u->uc_mcontext.gregs[REG_RAX]);
		g_trail = site_mix(g_trail, (uint64_t)u->uc_mcontext.gregs[REG_EFL] & FLAGS_SEEN);
		g_trail = site_mix(g_trail, (uint64_t)(si->si_addr == rip) * 2 +
						    (si->si_code == TRAP_TRACE));
		if (u->uc_mcontext.gregs[REG_RCX] == (greg_t)g_loop->next)
			g_trail = site_mix(g_trail, 1);
	} else {
		g_odd += rip < (uint8_t *)&__executable_start || rip >= (uint8_t *)&etext;
	}
}

static void steps_from_here(int sig, siginfo_t *si, void *context)
{
	ucontext_t *u = context;

	(void)sig;
	(void)si;
	u->uc_mcontext.gregs[REG_EFL] |= 0x100;
}

static void stepping(struct loop *l)
{
	const struct sigaction sa = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	const struct sigaction from = {.sa_sigaction = steps_from_here,
				       .sa_flags = SA_SIGINFO | SA_ONSTACK};
	const uint8_t *next;
	struct loop self = {0};

	sigaction(SIGTRAP, &sa, NULL);
	sigaction(SIGUSR1, &from, NULL);
	g_loop = l;
	g_odd = 0;
	for (int i = 0; i < 3; i++) {
		site_fill();
		site_in[R12] = 3;
		site_in[FLAGS] = 0x302;
		g_steps = 0;
		g_trail = 0;
		inside(l->start);
		printf("stepped, %s: %u steps, %016lx, odd %d, rax %ld\n", l->name, g_steps,
		       (unsigned long)g_trail, g_odd, (long)(site_out[RAX] - (uint64_t)l->result));
		if (i == 1) {
			/* Cold once, hot from here. */
			site_fill();
			site_in[R12] = HOT;
			inside(l->start);
		}
	}
	/* A handler lets the program go on in steps, from behind the call that raised the signal.
	 */
	for (int k = 0; k < 2; k++) {
		self.start = make_call(SYS_tgkill, k, &next);
		self.next = next;
		g_loop = &self;
		for (int i = 0; i < HOT; i++) {
			site_fill();
			site_in[RDI] = (uint64_t)-1;
			site_call(self.start);
		}
		site_fill();
		site_in[RDI] = (uint64_t)getpid();
		site_in[RSI] = (uint64_t)gettid();
		site_in[RDX] = SIGUSR1;
		g_steps = 0;
		g_trail = 0;
		site_call(self.start);
		printf("stepped from a handler on: %u steps, %016lx, odd %d, wrong %d\n", g_steps,
		       (unsigned long)g_trail, g_odd, (int)site_out[RAX]);
		munmap(self.start, PAGE);
	}
}

/* --- From another thread --- */

static volatile bool g_stop;

static void *pesters(void *arg)
{
	const pid_t tid = *(pid_t *)arg;

	while (!g_stop) {
		syscall(SYS_tgkill, getpid(), tid, SIGALRM);
		for (volatile int i = 0; i < 2000; i++)
			;
	}
	return NULL;
}

static void pestered(struct loop *l)
{
	const struct sigaction sa = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	pid_t tid = gettid();
	const int64_t until = guest_now_ms() + 300;
	int wrong = 0;
	pthread_t t;

	g_ticks = g_odd = 0;
	g_loop = l;
	g_stop = false;
	site_fill();
	sigaction(SIGALRM, &sa, NULL);
	pthread_create(&t, NULL, pesters, &tid);
	/* On a busy machine the other thread may not come to run for long. */
	while (g_ticks <= FEW ? before(until + 60000) : before(until)) {
		site_in[R12] = 100;
		inside(l->start);
		wrong += site_out[RAX] != (uint64_t)l->result || site_out[R12] != 0;
		for (int r = 0; r < REGS; r++)
			wrong += r != RAX && r != RCX && r != R11 && r != R12 && r != FLAGS &&
				 site_out[r] != site_in[r];
	}
	g_stop = true;
	/* libc has taken over: where it is is not looked at. */
	signal(SIGALRM, SIG_IGN);
	pthread_join(t, NULL);
	printf("pestered, %s: wrong %d odd %d %s\n", l->name, wrong, g_odd,
	       g_ticks > 20 ? "" : "few");
}

int main(void)
{
	guest_begin();
	site_stack();
	for (size_t i = 0; i < GUEST_COUNT(g_loops); i++)
		loop_make(&g_loops[i]);
	P("single steps");
	for (size_t i = 0; i < GUEST_COUNT(g_loops); i++)
		stepping(&g_loops[i]);
	P("a timer");
	for (size_t i = 0; i < GUEST_COUNT(g_loops); i++) {
		interrupted(&g_loops[i], 0);
		interrupted(&g_loops[i], SA_RESTART);
	}
	P("vectors");
	for (size_t i = 0; i < 2; i++)
		vectors(&g_loops[i]);
	P("out of handlers");
	for (size_t i = 0; i < 3; i++) {
		jumping(&g_loops[i]);
		moving(&g_loops[i]);
	}
	contexts();
	P("another thread");
	for (size_t i = 0; i < GUEST_COUNT(g_loops); i++)
		pestered(&g_loops[i]);
	P("restarts");
	restarts(true);
	restarts(false);
	return 0;
}
