/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new thread has nothing of threads that have ended: bases, vector and x87 state, alternate stack,
 * mask, processor time, number; however they ended.
 */
#include "guest.h"
#include <asm/prctl.h>
#include <sys/resource.h>

static __thread int t_used;
static int g_wrong[8];

static unsigned get_mxcsr(void)
{
	unsigned v;

	__asm__ volatile("stmxcsr %0" : "=m"(v));
	return v;
}

static void set_mxcsr(unsigned v)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(v));
}

static unsigned short get_cw(void)
{
	unsigned short v;

	__asm__ volatile("fnstcw %0" : "=m"(v));
	return v;
}

static void set_cw(unsigned short v)
{
	__asm__ volatile("fldcw %0" : : "m"(v));
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void on_usr(int sig)
{
	(void)sig;
	syscall(SYS_exit, 0);
}

static void spoil(int how)
{
	static char stacks[8][16384];
	stack_t ss = {.ss_sp = stacks[how], .ss_size = sizeof(stacks[how])};
	struct timespec ts = {.tv_sec = 10};
	sigset_t all;
	long start;

	t_used = 1;
	set_mxcsr(0x7f80);
	set_cw(0x0f7f);
	sigaltstack(&ss, NULL);
	sigfillset(&all);
	sigdelset(&all, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	if (how & 1)
		syscall(SYS_arch_prctl, ARCH_SET_GS, stacks[how]);
	switch (how) {
	case 0: /* returns */
	case 1:
		return;
	case 2: /* ends in a handler */
	case 3:
		pthread_kill(pthread_self(), SIGUSR1);
		return;
	case 4: /* has computed for long */
		start = now_ms();
		while (now_ms() - start < 60)
			continue;
		return;
	default: /* is interrupted */
		nanosleep(&ts, NULL);
	}
}

/* The thread's number, by a call that may be answered without the kernel, and by one that is not. */
static bool number_wrong(void)
{
	char path[64];
	ssize_t n;
	long tid = 0;

	for (int i = 0; i < 100; i++)
		tid = syscall(SYS_gettid);
	n = readlink("/proc/thread-self", path, sizeof(path) - 1);
	if (n <= 0)
		return true;
	path[n] = '\0';
	return strtol(strrchr(path, '/') + 1, NULL, 10) != tid;
}

static void *thread(void *arg)
{
	const int how = (int)(intptr_t)arg % 6;
	unsigned long gs = 1;
	struct rusage ru;
	sigset_t mask;
	stack_t ss;

	g_wrong[0] += t_used != 0;
	g_wrong[1] += get_mxcsr() != 0x3f80;
	g_wrong[2] += get_cw() != 0x077f;
	sigaltstack(NULL, &ss);
	g_wrong[3] += ss.ss_flags != SS_DISABLE;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	g_wrong[4] += sigismember(&mask, SIGUSR2) != 1 || sigismember(&mask, SIGTERM) != 0;
	syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
	g_wrong[5] += gs != 0;
	getrusage(RUSAGE_THREAD, &ru);
	g_wrong[6] += ru.ru_utime.tv_sec != 0 || ru.ru_utime.tv_usec > 30000;
	g_wrong[7] += number_wrong();
	spoil(how);
	return NULL;
}

int main(void)
{
	sigset_t some;

	signal(SIGUSR1, on_usr);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &some, NULL);
	set_mxcsr(0x3f80);
	set_cw(0x077f);
	for (int i = 0; i < 60; i++) {
		pthread_t t[3];
		const int n = 1 + i % 3;

		for (int k = 0; k < n; k++)
			pthread_create(&t[k], NULL, thread, (void *)(intptr_t)(i + k));
		usleep(1000);
		for (int k = 0; k < n; k++) {
			if ((i + k) % 6 == 5)
				pthread_kill(t[k], SIGUSR1);
			pthread_join(t[k], NULL);
		}
	}
	printf("wrong: tls %d mxcsr %d x87 %d stack %d mask %d gs %d time %d number %d\n", g_wrong[0],
	       g_wrong[1], g_wrong[2], g_wrong[3], g_wrong[4], g_wrong[5], g_wrong[6], g_wrong[7]);
	return 0;
}
