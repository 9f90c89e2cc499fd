/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of every kind of call site, counted by the program itself: "nr calls errors" a line, for
 * tests/run-every-call.sh, which compares them with what moat says that it served. Where calls
 * fail, only those that fail count: others may make some that do not. Arguments: a library to open,
 * or none.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef PART
/* The part that is opened at run time: libc's functions, and an instruction of its own. */
void part_calls(unsigned n)
{
	long r;

	for (unsigned i = 0; i < n; i++) {
		(void)getsid(0);
		__asm__ volatile("mov $145, %%eax\n\tsyscall"
				 : "=a"(r)
				 : "D"(-1L)
				 : "rcx", "r11", "memory");
	}
}
#else

#define N 700
#define THREADS 4
#define CHILDREN 3

static _Atomic unsigned long calls[512], errors[512];

static void made(unsigned nr, unsigned long n, unsigned long failed)
{
	calls[nr] += n;
	errors[nr] += failed;
}

/* --- libc's functions, and syscall() --- */

static void by_libc(void)
{
	for (unsigned i = 0; i < N; i++) {
		(void)getpgid(0);
		umask(022);
		(void)sched_get_priority_max(SCHED_RR);
		(void)syscall(SYS_personality, 0xffffffff);
		(void)syscall(SYS_getresuid, 0, 0, 0);
	}
	made(SYS_getpgid, N, 0);
	made(SYS_umask, N, 0);
	made(SYS_sched_get_priority_max, N, 0);
	made(SYS_personality, N, 0);
	made(SYS_getresuid, N, N);
}

/* What the stub may answer itself. */
static void cheap(void)
{
	struct timespec ts;

	for (unsigned i = 0; i < N; i++) {
		(void)getppid();
		(void)syscall(SYS_getpid);
		(void)syscall(SYS_gettid);
		(void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
		(void)geteuid();
		(void)getpgrp();
	}
	made(SYS_getppid, N, 0);
	made(SYS_getpid, N, 0);
	made(SYS_gettid, N, 0);
	made(SYS_clock_gettime, N, 0);
	made(SYS_geteuid, N, 0);
	made(SYS_getpgrp, N, 0);
}

/* --- Instructions --- */

#define RAW(text, ...) __asm__ volatile(text : "=a"(r) : __VA_ARGS__ : "rcx", "r11", "memory", "cc")

static void by_hand(void)
{
	long r;

	for (unsigned i = 0; i < N; i++) {
		RAW("mov $32, %%eax\n\tsyscall", "D"(-1L));                        /* dup */
		RAW("xor %%eax, %%eax\n\tsyscall\n\ttest %%rax, %%rax", "D"(-1L)); /* read */
		RAW("mov $33, %%rax\n\tsyscall\n\tcmp $-4095, %%rax", "D"(-1L));   /* dup2 */
		RAW("push $77\n\tpop %%rax\n\tsyscall\n\tnop", "D"(-1L));          /* ftruncate */
		/* Two numbers by one instruction, and one behind the other. */
		RAW("syscall\n\tmov $74, %%eax\n\tsyscall", "a"(i & 1 ? 75L : 73L), "D"(-1L),
		    "S"(2L));
	}
	made(SYS_dup, N, N);
	made(SYS_read, N, N);
	made(SYS_dup2, N, N);
	made(SYS_ftruncate, N, N);
	made(SYS_fsync, N, N);
	made(SYS_fdatasync, N / 2, N / 2);
	made(SYS_flock, N / 2, N / 2);
}

/* --- Made at run time --- */

static long call1(const void *f, long arg)
{
	long r;

	RAW("call *%1", "r"(f), "D"(arg), "S"(0L), "d"(0L));
	return r;
}

static void compiled(void)
{
	static const uint16_t nrs[] = {SYS_fchdir, SYS_fchmod, SYS_fchown};
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned round = 0; round < 12; round++) {
		const uint16_t nr = nrs[round % 3];
		uint8_t code[16] = {0xb8, (uint8_t)nr, 0, 0, 0, 0x0f, 0x05, 0xc3};

		mprotect(p, 4096, PROT_READ | PROT_WRITE);
		memcpy(p, code, sizeof(code));
		mprotect(p, 4096, PROT_READ | PROT_EXEC);
		memcpy(both, code, sizeof(code));
		for (unsigned i = 0; i < 50; i++) {
			call1(p, -1);
			call1(both, -1);
		}
		made(nr, 100, 100);
	}
}

/* --- Where calls are made from --- */

static void *of_thread(void *arg)
{
	for (unsigned i = 0; i < N; i++)
		(void)syscall(SYS_sched_get_priority_min, 77);
	made(SYS_sched_get_priority_min, N, N);
	return arg;
}

static void on_signal(int sig)
{
	(void)sig;
	for (unsigned i = 0; i < 3; i++)
		(void)syscall(SYS_getpriority, PRIO_PROCESS, 0);
	made(SYS_getpriority, 3, 0);
}

static void elsewhere(void)
{
	const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
	pthread_t t[THREADS];
	int status;
	pid_t pid;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, of_thread, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < CHILDREN; i++) {
		pid = fork();
		if (pid == 0) {
			for (unsigned k = 0; k < N; k++)
				(void)syscall(SYS_setfsuid, -1);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		made(SYS_setfsuid, N, 0);
	}
	/* Handlers that call, at any instruction of hot calls. */
	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned i = 0; i < 20 * N; i++)
		(void)syscall(SYS_setfsgid, -1);
	setitimer(ITIMER_REAL, &never, NULL);
	made(SYS_setfsgid, 20 * N, 0);
}

int main(int argc, char **argv)
{
	by_libc();
	cheap();
	by_hand();
	compiled();
	elsewhere();
	/* The other door. */
	for (unsigned i = 0; i < 50; i++)
		((long (*)(long *))0xffffffffff600400ul)(NULL);
	made(SYS_time, 50, 0);
#ifndef STATIC
	for (int i = 1; i < argc; i++) {
		/* Twice, at perhaps the same place. */
		for (int k = 0; k < 2; k++) {
			void *part = dlopen(argv[i], RTLD_NOW);
			void (*f)(unsigned) =
				part ? (void (*)(unsigned))dlsym(part, "part_calls") : NULL;

			if (!f) {
				fprintf(stderr, "%s\n", dlerror());
				return 1;
			}
			f(N);
			dlclose(part);
			made(SYS_getsid, N, 0);
			made(145, N, N);
		}
	}
#endif
	(void)argc;
	(void)argv;
	for (unsigned nr = 0; nr < 512; nr++) {
		if (calls[nr])
			printf("%u %lu %lu\n", nr, calls[nr], errors[nr]);
	}
	return 0;
}
#endif
