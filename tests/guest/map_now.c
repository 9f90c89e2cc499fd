/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of the map holds as soon as its call has returned: for the thread itself, for the kernel
 * on its behalf, for other threads, for children, and for a signal's frame.
 */
#include "guest.h"
#include <setjmp.h>

#define PAGE 4096

static char *map(void *at, size_t size, int prot)
{
	return mmap(at, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
}

static sigjmp_buf g_back;

static void on_fault(int sig)
{
	siglongjmp(g_back, sig);
}

/* 0, or the signal that a write to @p brings. */
static int poke(volatile char *p)
{
	const int sig = sigsetjmp(g_back, 1);

	if (sig)
		return sig;
	*p = 1;
	return 0;
}

static void kernel_sees(void)
{
	char *p;
	int fd[2], i, wrong = 0;

	if (pipe(fd))
		return;
	for (i = 0; i < 200; i++) {
		p = map(NULL, PAGE, PROT_READ | PROT_WRITE);
		wrong += write(fd[1], "x", 1) != 1;
		wrong += read(fd[0], p, 1) != 1 || p[0] != 'x';
		mprotect(p, PAGE, PROT_READ);
		wrong += write(fd[1], "y", 1) != 1;
		wrong += read(fd[0], p, 1) != -1 || errno != EFAULT || p[0] != 'x';
		wrong += read(fd[0], &p, 0) != 0;
		mprotect(p, PAGE, PROT_READ | PROT_WRITE);
		wrong += read(fd[0], p, 1) != 1 || p[0] != 'y';
		munmap(p, PAGE);
		wrong += write(fd[1], p, 1) != -1 || errno != EFAULT;
	}
	printf("kernel: %d wrong\n", wrong);
}

static void self_sees(void)
{
	int i, wrong = 0;
	char *p;

	for (i = 0; i < 200; i++) {
		p = map(NULL, 2 * PAGE, PROT_READ | PROT_WRITE);
		wrong += poke(p) != 0;
		mprotect(p, PAGE, PROT_READ);
		wrong += poke(p) != SIGSEGV || poke(p + PAGE) != 0;
		mprotect(p, PAGE, PROT_READ | PROT_WRITE);
		wrong += poke(p) != 0;
		munmap(p, PAGE);
		wrong += poke(p) != SIGSEGV || poke(p + PAGE) != 0;
		map(p, PAGE, PROT_READ | PROT_WRITE);
		wrong += p[0] != 0 || poke(p) != 0;
		map(p, PAGE, PROT_READ | PROT_WRITE);
		wrong += p[0] != 0;
		munmap(p, 2 * PAGE);
	}
	printf("self: %d wrong\n", wrong);
}

static char *volatile g_page;
static volatile int g_turn;

static void *other(void *arg)
{
	int *wrong = arg, i;

	for (i = 0; i < 200; i++) {
		while (g_turn != 2 * i + 1)
			sched_yield();
		*wrong += poke(g_page) != (i % 2 ? SIGSEGV : 0);
		g_turn = 2 * i + 2;
	}
	return NULL;
}

static void thread_sees(void)
{
	int i, wrong = 0;
	pthread_t t;

	pthread_create(&t, NULL, other, &wrong);
	for (i = 0; i < 200; i++) {
		if (i % 2)
			munmap(g_page, PAGE);
		else
			g_page = map(NULL, PAGE, PROT_READ | PROT_WRITE);
		g_turn = 2 * i + 1;
		while (g_turn != 2 * i + 2)
			sched_yield();
	}
	pthread_join(t, NULL);
	printf("thread: %d wrong\n", wrong);
}

static void child_sees(void)
{
	int i, wrong = 0;

	for (i = 0; i < 20; i++) {
		char *p = map(NULL, PAGE, PROT_READ | PROT_WRITE);
		int status;
		pid_t pid;

		if (i % 2)
			munmap(p, PAGE);
		pid = fork();
		if (pid == 0)
			_exit(poke(p));
		waitpid(pid, &status, 0);
		wrong += status != (i % 2 ? SIGSEGV << 8 : 0);
		if (i % 2 == 0)
			munmap(p, PAGE);
	}
	printf("child: %d wrong\n", wrong);
}

static volatile int g_seen;

static void on_usr(int sig)
{
	char here;

	(void)sig;
	g_seen += &here >= g_page && &here < g_page + 16 * PAGE;
}

/* The alternate stack is mapped anew over and over while signals come. */
static void frame_stays(void)
{
	struct sigaction sa = {.sa_handler = on_usr, .sa_flags = SA_ONSTACK};
	stack_t ss = {.ss_size = 16 * PAGE};
	int i;

	g_page = map(NULL, 16 * PAGE, PROT_READ | PROT_WRITE);
	ss.ss_sp = g_page;
	sigaltstack(&ss, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	for (i = 0; i < 200; i++) {
		map(g_page, 16 * PAGE, PROT_READ | PROT_WRITE);
		raise(SIGUSR1);
	}
	printf("frame: %d\n", g_seen);
}

int main(void)
{
	signal(SIGSEGV, on_fault);
	self_sees();
	kernel_sees();
	thread_sees();
	child_sees();
	frame_stays();
	return 0;
}
