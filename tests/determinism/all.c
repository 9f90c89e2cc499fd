/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what may differ from run to run: counters, clocks, CPU clocks, timers, threads that race.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <poll.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static void show_ns(const char *what, uint64_t ns)
{
	printf("%s %llu\n", what, (unsigned long long)ns);
}

static uint64_t now(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void counters(void)
{
	unsigned aux = 77, cpu = 77, node = 77;
	uint64_t a = __rdtsc(), b = __rdtscp(&aux), c = __rdtsc();

	show_ns("rdtsc", a);
	show_ns("rdtscp", b);
	printf("order %d aux %u\n", a < b && b < c, aux);
	getcpu(&cpu, &node);
	printf("cpu %u %u of %ld\n", cpu, node, sysconf(_SC_NPROCESSORS_ONLN));
	for (int i = 0; i < 16; i++)
		printf("%02x", ((unsigned char *)getauxval(AT_RANDOM))[i]);
	printf(" stack %p heap %p vdso %#lx\n", (void *)&a, malloc(10), getauxval(AT_SYSINFO_EHDR));
}

/* Ends only if the counter goes on by itself. */
static void wait_by_counter(void)
{
	const uint64_t end = __rdtsc() + 1000000;
	unsigned n = 0;

	while (__rdtsc() < end)
		n++;
	printf("counter loop %u\n", n);
	n = 0;
	for (uint64_t until = now(CLOCK_MONOTONIC) + 2000000; now(CLOCK_MONOTONIC) < until;)
		n++;
	printf("clock loop %u\n", n);
}

static void fault(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)uc;
	printf("the guest's own: SIGSEGV, code %d\n", si->si_code);
	fflush(stdout);
	_exit(0);
}

static void own_tsc(void)
{
	int mode = 0, status;

	fflush(stdout);
	if (fork() == 0) {
		struct sigaction sa = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};

		sigaction(SIGSEGV, &sa, NULL);
		printf("set %d\n", prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
		prctl(PR_GET_TSC, &mode);
		printf("mode %d\n", mode);
		printf("not reached %llu\n", (unsigned long long)__rdtsc());
		_exit(1);
	}
	wait(&status);
	prctl(PR_GET_TSC, &mode);
	printf("child %d mode %d\n", status, mode);
}

static volatile sig_atomic_t g_alarms;

static void on_alarm(int sig)
{
	(void)sig;
	g_alarms++;
}

static void timers(void)
{
	struct itimerval it = {{0, 1000}, {3, 0}};
	struct itimerspec ts = {{0, 250000000}, {1, 0}};
	struct timeval tv = {100, 0};
	uint64_t n = 0;
	int fd = timerfd_create(CLOCK_REALTIME, 0), sv[2];
	int r;
	char c;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec abs;
	sem_t sem;

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &it, NULL);
	while (g_alarms < 5)
		pause();
	memset(&it, 0, sizeof(it));
	setitimer(ITIMER_REAL, &it, NULL);
	show_ns("itimer", now(CLOCK_MONOTONIC));
	timerfd_settime(fd, 0, &ts, NULL);
	while (n < 8 && read(fd, &c, 1) < 0 && errno == EINVAL) {
		uint64_t k;

		if (read(fd, &k, 8) == 8)
			n += k;
	}
	show_ns("timerfd", now(CLOCK_MONOTONIC));
	show_ns("poll", (uint64_t)poll(&p, 1, 100));
	show_ns("poll again", (uint64_t)poll(&p, 1, 1000));
	socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
	setsockopt(sv[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	r = (int)recv(sv[0], &c, 1, 0);
	printf("recv %d %d\n", r, errno);
	show_ns("after recv", now(CLOCK_REALTIME));
	sem_init(&sem, 0, 0);
	clock_gettime(CLOCK_REALTIME, &abs);
	abs.tv_sec += 5000;
	r = sem_timedwait(&sem, &abs);
	printf("sem %d %d\n", r, errno);
	show_ns("after sem", now(CLOCK_BOOTTIME));
	alarm(20);
	pause();
	show_ns("alarm", now(CLOCK_TAI));
}

static char g_order[4096];
static _Atomic unsigned g_at;
static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

static void *racer(void *arg)
{
	const int me = (int)(intptr_t)arg;

	for (int i = 0; i < 200; i++) {
		if (i % 3 == 0) {
			pthread_mutex_lock(&g_lock);
			usleep(1);
			pthread_mutex_unlock(&g_lock);
		}
		syscall(SYS_getppid);
		g_order[g_at++] = (char)('a' + me);
		if (i % 17 == me)
			sched_yield();
	}
	return NULL;
}

static void race(void)
{
	pthread_t t[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, racer, (void *)(intptr_t)i);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	printf("race %s\n", g_order);
}

static void usage(void)
{
	struct rusage ru;

	show_ns("process", now(CLOCK_PROCESS_CPUTIME_ID));
	show_ns("thread", now(CLOCK_THREAD_CPUTIME_ID));
	getrusage(RUSAGE_SELF, &ru);
	printf("usage %ld.%06ld %ld.%06ld\n", ru.ru_utime.tv_sec, ru.ru_utime.tv_usec,
	       ru.ru_stime.tv_sec, ru.ru_stime.tv_usec);
	getrusage(RUSAGE_CHILDREN, &ru);
	printf("children %ld.%06ld\n", ru.ru_stime.tv_sec, ru.ru_stime.tv_usec);
	show_ns("clock()", (uint64_t)clock());
}

int main(void)
{
	counters();
	wait_by_counter();
	own_tsc();
	timers();
	race();
	usage();
	show_ns("end", now(CLOCK_REALTIME));
	return 0;
}
