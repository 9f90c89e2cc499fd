/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trap stub's gate, where the first thread of a child makes the agent of its process when the
 * sentry asks it to: unasked, with other arguments, with a trap flag, with signals for the agent,
 * twice, from the first program; and a thread that does not make the agent that is wanted, that
 * ends where the agent lives on, or that lies about its number. Whoever does so harms his own
 * process, and that can be killed. Elsewhere nothing is there.
 */
#include "host_frame.h"
#include <ucontext.h>

#define STUB_GATE (STUB_REGION + 0x10090)
#define CLONE_AGENT 0x50f00L
#define NO_STACK ((long)(STUB_REGION + 0x10000))

static long stub(uint64_t where, long nr, long a, long b, long c)
{
	register long r10 __asm__("r10") = 0;
	long ret;

	__asm__ volatile("call *%1"
			 : "=a"(ret)
			 : "r"(where), "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r8", "r11", "memory", "cc");
	return ret;
}

static void waits(void)
{
	for (;;)
		__asm__ volatile("pause");
}

/* The agent is there after this. */
static void need_agent(void)
{
	if (mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) ==
	    MAP_FAILED)
		_exit(3);
}

static void unasked(void)
{
	(void)stub(STUB_GATE, SYS_clone, CLONE_AGENT, NO_STACK, 0);
	waits();
}

static void beside_the_agent(void)
{
	need_agent();
	unasked();
}

static void with_other_arguments(void)
{
	static char stack[4096];

	(void)stub(STUB_GATE, SYS_clone, CLONE_AGENT, (long)(stack + sizeof(stack)), 0);
	(void)stub(STUB_GATE, SYS_clone, SIGCHLD, 0, 0);
	(void)stub(STUB_GATE, SYS_prctl, 59, 0, 0); /* no dispatch any more */
	(void)stub(STUB_GATE, SYS_openat, AT_FDCWD, (long)"/etc/passwd", 0);
	waits();
}

/* What is cloned begins with the flag, too, and so with a SIGTRAP before it can block it. */
static void with_trap_flag(void)
{
	static struct frame f;

	frame_fill(&f, (void (*)(void))STUB_GATE, 0);
	f.rax = SYS_clone;
	f.rdi = CLONE_AGENT;
	f.rsi = (uint64_t)NO_STACK;
	f.eflags |= 0x100;
	*(uint64_t *)f.rsp = (uint64_t)waits;
	host_sigreturn(&f);
}

static void *ends_later(void *arg)
{
	sleep(1000);
	return arg;
}

/* The process's first host thread. */
static void first_ends(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, ends_later, NULL) != 0)
		_exit(3);
	(void)stub(STUB_CALL, SYS_exit, 0, 0, 0);
	waits();
}

/* Posts a call as the stub does, and waits for no reply. */
static void never_makes_it(void)
{
	post_by_hand(SYS_mmap, (uint64_t[6]){0, 1 << 20, PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, UINT64_MAX, 0});
	waits();
}

/* Where the agent runs, the sentry decides by the number that the stub has told. */
static void lies(void)
{
	for (int i = 0; i < 2000; i++) {
		*(volatile uint32_t *)(STUB_AREA + offsetof(struct ts_area, agent_tid)) =
			i % 2 ? (uint32_t)rnd() : 1;
		if (i % 100 == 0)
			need_agent();
		syscall(SYS_close, -1);
	}
	_exit(0);
}

static const struct {
	const char *name;
	void (*run)(void);
	int ends;  /* by itself: else it is killed */
	int fresh; /* by the first thread of a program, too, which has an agent */
} g_ways[] = {
	{"unasked", unasked, 1, 1},
	{"beside the agent", beside_the_agent, 1, 1},
	{"with other arguments", with_other_arguments, 0, 1},
	{"with a trap flag", with_trap_flag, 1, 1},
	{"the first thread ends", first_ends, 0, 1},
	{"makes none", never_makes_it, 0, 0},
	{"lies about its number", lies, 1, 1},
};

/* It ends, by itself or when it is killed. */
static void one(unsigned how, int fresh)
{
	const struct timespec while_ = {.tv_nsec = 50000000};
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (fresh) {
			execl("/proc/self/exe", "stub_gate", g_ways[how].name, (char *)NULL);
			_exit(3);
		}
		g_ways[how].run();
	}
	nanosleep(&while_, NULL);
	if (!g_ways[how].ends)
		kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || (WIFEXITED(status) && WEXITSTATUS(status) == 3)) {
		printf("%s: status %#x\n", g_ways[how].name, status);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	hostile_begin();
	for (unsigned i = 0; i < HOSTILE_COUNT(g_ways); i++) {
		if (argc == 2 && strcmp(argv[1], g_ways[i].name) == 0)
			g_ways[i].run();
	}
	for (unsigned i = 0; i < HOSTILE_COUNT(g_ways); i++) {
		one(i, 0);
		if (g_ways[i].fresh)
			one(i, 1);
	}
	/* The others go on. */
	need_agent();
	puts("ok");
	return 0;
}
