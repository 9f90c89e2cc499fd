/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a fresh program image looks like from inside: arguments, environment,
 * auxiliary vector, alignment, relocation, thread-local storage, constructors.
 * Built in several ways (static, static-PIE, non-PIE, musl) by the tests that
 * name it; prints nothing that address randomisation changes.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int relocated = 7;
static int *pointer = &relocated;
static _Thread_local int tls = 5;
static int constructed;
static volatile sig_atomic_t caught;

__attribute__((constructor)) static void construct(void)
{
	constructed++;
}

static void destruct(void)
{
	printf("atexit runs\n");
}

static void handler(int sig)
{
	caught = sig;
}

static void *thread(void *arg)
{
	tls++;
	*(int *)arg = tls;
	return arg;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv)
{
	int in_thread = 0, status, numbers[100];
	pthread_t t;
	pid_t pid;
	char text[64];
	struct timespec now, then;
	const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
	const Elf64_Phdr *phdr = (const Elf64_Phdr *)getauxval(AT_PHDR);
	void *p;

	atexit(destruct);
	for (int i = 1; i < argc; i++)
		printf("argv[%d] '%s'\n", i, argv[i]);
	printf("argv[argc] %s\n", argv[argc] ? "set" : "NULL");
	printf("HOME %s\n", getenv("HOME") ? "set" : "missing");
	printf("environ follows argv %d\n", (char **)environ == argv + argc + 1);
	printf("constructed %d, pointer %d, tls %d\n", constructed, *pointer, tls);
	printf("stack aligned %d\n", (uintptr_t)(argv - 1) % 16 == 0);
	printf("AT_PAGESZ %lu AT_SECURE %lu AT_CLKTCK %lu\n", getauxval(AT_PAGESZ),
	       getauxval(AT_SECURE), getauxval(AT_CLKTCK));
	printf("AT_RANDOM %s\n",
	       random && memcmp(random, "\0\0\0\0\0\0\0\0", 8) ? "filled" : "bad");
	printf("AT_PHENT %lu, PT_LOADs %s\n", getauxval(AT_PHENT), phdr ? "there" : "missing");
	printf("AT_ENTRY %s\n", getauxval(AT_ENTRY) ? "set" : "missing");
	printf("AT_EXECFN is our path %d\n",
	       getauxval(AT_EXECFN) && strcmp((char *)getauxval(AT_EXECFN), argv[0]) == 0);
	printf("AT_PLATFORM %s\n",
	       getauxval(AT_PLATFORM) ? (char *)getauxval(AT_PLATFORM) : "missing");
	printf("AT_UID %d %d\n", getauxval(AT_UID) == getuid(), getauxval(AT_EGID) == getegid());

	pthread_create(&t, NULL, thread, &in_thread);
	pthread_join(t, NULL);
	printf("thread tls %d, ours %d\n", in_thread, tls);

	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	printf("caught %d\n", caught == SIGUSR1);

	pid = fork();
	if (pid == 0)
		_exit(tls + constructed);
	waitpid(pid, &status, 0);
	printf("child %d\n", WEXITSTATUS(status));

	clock_gettime(CLOCK_MONOTONIC, &now);
	nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	clock_gettime(CLOCK_MONOTONIC, &then);
	printf("clock advances %d\n",
	       (then.tv_sec - now.tv_sec) * 1000000000 + then.tv_nsec - now.tv_nsec >= 2000000);

	p = malloc(10000000);
	memset(p, 1, 10000000);
	p = realloc(p, 20000000);
	printf("malloc %d\n", ((char *)p)[9999999]);
	free(p);
	for (int i = 0; i < 100; i++)
		numbers[i] = (i * 7919) % 101;
	qsort(numbers, 100, sizeof(int), compare);
	printf("sorted %d %d %.6f\n", numbers[0], numbers[99], 1.0 / 3);
	snprintf(text, sizeof(text), "/proc/self/%s", "exe");
	printf("exe readable %d\n", access(text, R_OK) == 0);
	errno = 0;
	printf("open %d", access("/nonexistent", F_OK));
	printf(" %s\n", errno == ENOENT ? "ENOENT" : "?");
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		 0);
	if (p != MAP_FAILED) {
		/* mov $42,%eax; ret */
		memcpy(p, "\xb8\x2a\0\0\0\xc3", 6);
		printf("code made at run time %d\n", ((int (*)(void))(uintptr_t)p)());
	}
	return argc;
}
