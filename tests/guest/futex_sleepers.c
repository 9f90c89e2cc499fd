/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that sleep on private futexes, and all that can end that: wakes by call sites that are
 * executed often and by ones that no platform touches, requeueing, FUTEX_WAKE_OP, signals, exit,
 * exec, death.
 */
#include <stdatomic.h>
#include "hot_cold.h"
#include <linux/futex.h>

static _Atomic uint32_t g_word, g_other;
static atomic_int g_ready, g_woken, g_eintr;
static atomic_int g_tid;

static void warm(void)
{
	_Atomic uint32_t w = 1;

	for (int i = 0; i < 200; i++) {
		hot(SYS_futex, (long)&w, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
		hot(SYS_getppid, 0, 0, 0, 0, 0, 0);
	}
}

/* Sleeps while g_word is 0, one way or the other. */
static void *sleeper(void *arg)
{
	static atomic_int count;
	const long op =
		count++ % 2 ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME;
	long r;

	(void)arg;
	g_tid = (int)syscall(SYS_gettid);
	warm();
	g_ready++;
	while (g_word == 0) {
		r = hot(SYS_futex, (long)&g_word, op, 0, 0, 0, FUTEX_BITSET_MATCH_ANY);
		if (r == -EINTR)
			g_eintr++;
	}
	g_woken++;
	return NULL;
}

static char state_of(int tid)
{
	char path[64], text[256] = "";
	char *p;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return '?';
	close(fd);
	p = strrchr(text, ')');
	return p ? p[2] : '?';
}

static void start(pthread_t *t, int n)
{
	g_word = g_other = 0;
	g_ready = g_woken = g_eintr = 0;
	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, sleeper, NULL);
	while (g_ready < n)
		sched_yield();
	/* All but surely asleep. */
	while (state_of(g_tid) != 'S')
		usleep(100);
	usleep(2000);
}

static void end(pthread_t *t, int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("woken %d of %d\n", g_woken, n);
}

static void wakes(void)
{
	pthread_t t[8];
	long r;

	P("the clock of a wait without a timeout");
	for (int i = 0; i < 100; i++)
		r = hot(SYS_futex, (long)&g_word, FUTEX_WAIT_PRIVATE | FUTEX_CLOCK_REALTIME, 1, 0,
			0, 0);
	printf("%ld\n", r);
	for (int i = 0; i < 100; i++)
		r = hot(SYS_futex, (long)&g_word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME,
			1, 0, 0, FUTEX_BITSET_MATCH_ANY);
	printf("%ld\n", r);

	P("a hot wake of all");
	start(t, 8);
	g_word = 1;
	hot(SYS_futex, (long)&g_word, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
	end(t, 8);

	P("a cold wake of all");
	start(t, 8);
	g_word = 1;
	r = g_cold(SYS_futex, (long)&g_word, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
	printf("%s\n", r >= 1 && r <= 8 ? "some" : "odd");
	end(t, 8);

	P("one after the other, hot and cold");
	start(t, 8);
	g_word = 1;
	for (int i = 0; i < 8; i++) {
		r = i % 2 ? hot(SYS_futex, (long)&g_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0)
			  : g_cold(SYS_futex, (long)&g_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
		if (r < 0 || r > 1)
			printf("woke %ld\n", r);
	}
	end(t, 8);
}

static void ops(void)
{
	pthread_t t[4];

	P("FUTEX_WAKE_OP sets the word and wakes");
	start(t, 4);
	g_cold(SYS_futex, (long)&g_other, FUTEX_WAKE_OP_PRIVATE, 1, INT_MAX, (long)&g_word,
	       FUTEX_OP(FUTEX_OP_SET, 1, FUTEX_OP_CMP_EQ, 0));
	end(t, 4);
	start(t, 4);
	hot(SYS_futex, (long)&g_other, FUTEX_WAKE_OP_PRIVATE, 1, INT_MAX, (long)&g_word,
	    FUTEX_OP(FUTEX_OP_SET, 1, FUTEX_OP_CMP_EQ, 0));
	end(t, 4);

	P("requeued, or told to look again");
	start(t, 4);
	g_word = 1;
	hot(SYS_futex, (long)&g_word, FUTEX_CMP_REQUEUE_PRIVATE, 1, INT_MAX, (long)&g_other, 1);
	hot(SYS_futex, (long)&g_other, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
	end(t, 4);
	start(t, 4);
	g_word = 1;
	g_cold(SYS_futex, (long)&g_word, FUTEX_REQUEUE_PRIVATE, 0, INT_MAX, (long)&g_other, 0);
	g_cold(SYS_futex, (long)&g_other, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
	end(t, 4);
}

/* Two words with waiters each, of one kind: how many does a call find? */
static atomic_int g_tids[6];
static long g_timeout;

static void *counted(void *arg)
{
	const long me = (long)arg;

	warm();
	g_tids[me] = (int)syscall(SYS_gettid);
	hot(SYS_futex, (long)(me % 2 ? &g_other : &g_word), FUTEX_WAIT_PRIVATE, 0, g_timeout, 0, 0);
	g_woken++;
	return NULL;
}

static void counts(void)
{
	struct timespec long_time = {1000, 0};
	pthread_t t[6];

	P("how many were woken and moved");
	for (int kind = 0; kind < 2; kind++) {
		g_word = g_other = 0;
		g_woken = 0;
		g_timeout = kind ? (long)&long_time : 0;
		for (long i = 0; i < 6; i++) {
			g_tids[i] = 0;
			pthread_create(&t[i], NULL, counted, (void *)i);
		}
		for (int i = 0; i < 6; i++) {
			while (g_tids[i] == 0 || state_of(g_tids[i]) != 'S')
				usleep(100);
		}
		usleep(20000);
		printf("FUTEX_WAKE_OP: %ld\n",
		       hot(SYS_futex, (long)&g_word, FUTEX_WAKE_OP_PRIVATE, 1, 2, (long)&g_other,
			   FUTEX_OP(FUTEX_OP_SET, 0, FUTEX_OP_CMP_EQ, 0)));
		printf("FUTEX_CMP_REQUEUE: %ld\n",
		       hot(SYS_futex, (long)&g_word, FUTEX_CMP_REQUEUE_PRIVATE, 1, 5,
			   (long)&g_other, 0));
		hot(SYS_futex, (long)&g_other, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
		for (int i = 0; i < 6; i++)
			pthread_join(t[i], NULL);
		printf("woken: %d\n", g_woken);
	}
}

/* One waiter with a timeout and one without, both of which come back at once. */
static atomic_int g_got[2];
static atomic_bool g_enough;

static void *taker(void *arg)
{
	const struct timespec long_time = {1000, 0};
	const long me = (long)arg;

	warm();
	while (!g_enough) {
		if (hot(SYS_futex, (long)&g_word, FUTEX_WAIT_PRIVATE, 0, me ? 0 : (long)&long_time,
			0, 0) == 0)
			g_got[me]++;
	}
	return NULL;
}

static void fair(void)
{
	pthread_t t[2];

	P("waiters with and without a timeout: none starves");
	g_word = 0;
	for (long i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, taker, (void *)i);
	for (int i = 0; i < 200 || g_got[0] < 5 || g_got[1] < 5; i++) {
		const int before = g_got[0] + g_got[1];

		usleep(200);
		while (hot(SYS_futex, (long)&g_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0) != 1)
			sched_yield();
		while (g_got[0] + g_got[1] == before)
			sched_yield();
		if (i > 5000) {
			printf("%d %d\n", g_got[0], g_got[1]);
			break;
		}
	}
	g_enough = true;
	g_word = 1;
	hot(SYS_futex, (long)&g_word, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

static void on_signal(int sig)
{
	(void)sig;
}

static void signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};
	pthread_t t;

	P("a signal without SA_RESTART ends the call");
	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < 50; i++) {
		start(&t, 1);
		while (g_eintr < 3) {
			pthread_kill(t, SIGUSR1);
			usleep(50);
		}
		g_word = 1;
		hot(SYS_futex, (long)&g_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
		pthread_join(t, NULL);
	}
	printf("interrupted, at last woken %d\n", g_woken);
	P("with it the call goes on");
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	start(&t, 1);
	for (int i = 0; i < 50; i++) {
		pthread_kill(t, SIGUSR1);
		usleep(20);
	}
	printf("interrupted: %d, woken: %d\n", g_eintr, g_woken);
	g_word = 1;
	g_cold(SYS_futex, (long)&g_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	end(&t, 1);
}

static void ends(const char *self)
{
	pthread_t t[8];
	int status;
	pid_t pid;

	P("a process ends with sleepers");
	for (int how = 0; how < 5; how++) {
		pid = guest_fork();
		if (!pid) {
			start(t, 8);
			if (how == 0)
				_exit(3);
			if (how == 1)
				kill(getpid(), SIGKILL);
			if (how == 2)
				execl("/bin/true", "true", NULL);
			if (how == 3) {
				/* A child of a process with sleepers has none. */
				pid = fork();
				if (!pid)
					_exit(hot(SYS_futex, (long)&g_word, FUTEX_WAKE_PRIVATE, 9,
						  0, 0, 0)
						      ? 9
						      : 4);
				waitpid(pid, &status, 0);
				_exit(WEXITSTATUS(status));
			}
			raise(SIGSTOP);
			_exit(5);
		}
		if (how == 4) {
			waitpid(pid, &status, WUNTRACED);
			printf("stopped: %d\n", WIFSTOPPED(status));
			kill(pid, SIGCONT);
		}
		waitpid(pid, &status, 0);
		guest_status("ended", status);
	}
	(void)self;
}

/* Mutexes and condition variables as libraries make them. */
static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_cond = PTHREAD_COND_INITIALIZER;
static long g_count, g_turns[4];

static void *worker(void *arg)
{
	long me = (long)arg;

	for (int i = 0; i < 2000; i++) {
		pthread_mutex_lock(&g_lock);
		while (g_count % 4 != me)
			pthread_cond_wait(&g_cond, &g_lock);
		g_count++;
		g_turns[me]++;
		pthread_cond_broadcast(&g_cond);
		pthread_mutex_unlock(&g_lock);
	}
	return NULL;
}

static void conditions(void)
{
	pthread_t t[4];

	P("taking turns");
	for (long i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, worker, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	printf("%ld: %ld %ld %ld %ld\n", g_count, g_turns[0], g_turns[1], g_turns[2], g_turns[3]);
}

int main(int argc, char **argv)
{
	(void)argc;
	make_cold();
	warm();
	wakes();
	ops();
	counts();
	fair();
	signals();
	ends(argv[0]);
	conditions();
	return 0;
}
