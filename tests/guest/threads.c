/* SPDX-License-Identifier: Apache-2.0 */
/* guest-flags: -static */

/* pthreads: mutexes, conditions, barriers, cancellation, keys, signals to threads, many short
 * threads. */
#include "guest.h"
#include <semaphore.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static sem_t sem;
static long counter;
static int turn;
static __thread int mine = 1;
static volatile int cleaned, destroyed;
static pthread_key_t key;
static volatile pid_t handled_by;

static void *add(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20000; i++) {
		pthread_mutex_lock(&m);
		counter++;
		pthread_mutex_unlock(&m);
	}
	return NULL;
}

static void *ping(void *arg)
{
	int me = (int)(intptr_t)arg;

	for (int i = 0; i < 500; i++) {
		pthread_mutex_lock(&m);
		while (turn % 4 != me)
			pthread_cond_wait(&cond, &m);
		turn++;
		pthread_cond_broadcast(&cond);
		pthread_mutex_unlock(&m);
	}
	return NULL;
}

static void on_cleanup(void *arg)
{
	(void)arg;
	cleaned++;
}

static void on_destroy(void *arg)
{
	(void)arg;
	destroyed++;
}

static void *cancelled(void *arg)
{
	int p[2];
	char c;

	(void)arg;
	pthread_setspecific(key, &counter);
	pthread_cleanup_push(on_cleanup, NULL);
	if (pipe(p) == 0 && read(p[0], &c, 1) != 0)
		return NULL;
	pthread_cleanup_pop(0);
	return NULL;
}

static void *short_lived(void *arg)
{
	mine += (int)(intptr_t)arg;
	return (void *)(intptr_t)mine;
}

static void on_usr1(int sig)
{
	(void)sig;
	handled_by = gettid();
}

static volatile pid_t sleeper_tid;

static void *sleeper(void *arg)
{
	(void)arg;
	sleeper_tid = gettid();
	while (!handled_by)
		usleep(1000);
	return NULL;
}

static void *reader(void *arg)
{
	long *sum = arg;

	for (int i = 0; i < 2000; i++) {
		pthread_rwlock_rdlock(&rw);
		*sum += counter & 1;
		pthread_rwlock_unlock(&rw);
	}
	return NULL;
}

static void *writer(void *arg)
{
	(void)arg;
	for (int i = 0; i < 2000; i++) {
		pthread_rwlock_wrlock(&rw);
		counter++;
		counter++;
		pthread_rwlock_unlock(&rw);
	}
	return NULL;
}

static void *forker(void *arg)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit((int)(intptr_t)arg);
	waitpid(pid, &status, 0);
	return (void *)(intptr_t)WEXITSTATUS(status);
}

int main(void)
{
	pthread_t t[8];
	void *r;
	long sums[3] = {0}, total = 0;
	struct timespec ts;
	pthread_mutexattr_t attr;
	pthread_mutex_t kind;
	sigset_t set;
	int policy;
	struct sched_param sp;
	char name[32];

	guest_begin();
	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, add, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	printf("mutex %ld\n", counter);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, ping, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	printf("turns %d\n", turn);
	counter = 0;
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, reader, &sums[i]);
	for (int i = 3; i < 6; i++)
		pthread_create(&t[i], NULL, writer, NULL);
	for (int i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
	printf("rwlock %ld, odd seen %ld\n", counter, sums[0] + sums[1] + sums[2]);

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&kind, &attr);
	E(pthread_mutex_unlock(&kind));
	E(pthread_mutex_lock(&kind));
	E(pthread_mutex_lock(&kind));
	E(pthread_mutex_trylock(&kind));
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += 10000000;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_sec++;
		ts.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&m);
	E(pthread_cond_timedwait(&cond, &m, &ts));
	pthread_mutex_unlock(&m);
	sem_init(&sem, 0, 1);
	V(sem_wait(&sem));
	V(sem_trywait(&sem));
	V(sem_timedwait(&sem, &ts));
	V(sem_post(&sem));

	pthread_key_create(&key, on_destroy);
	pthread_create(&t[0], NULL, cancelled, NULL);
	guest_sleep_ms(30);
	E(pthread_cancel(t[0]));
	pthread_join(t[0], &r);
	printf("cancelled %d, cleaned %d, destroyed %d\n", r == PTHREAD_CANCELED, cleaned,
	       destroyed);

	for (int i = 0; i < 1000; i++) {
		pthread_create(&t[0], NULL, short_lived, (void *)(intptr_t)i);
		pthread_join(t[0], &r);
		total += (long)(intptr_t)r;
	}
	printf("a thousand threads %ld, ours %d\n", total, mine);

	guest_handle(SIGUSR1, on_usr1, SA_RESTART);
	pthread_create(&t[0], NULL, sleeper, NULL);
	while (!sleeper_tid)
		sched_yield();
	E(pthread_kill(t[0], SIGUSR1));
	pthread_join(t[0], NULL);
	T(handled_by == sleeper_tid);
	/* A signal to the process goes to a thread that does not block it. */
	handled_by = sleeper_tid = 0;
	pthread_create(&t[0], NULL, sleeper, NULL);
	while (!sleeper_tid)
		sched_yield();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGUSR1);
	pthread_join(t[0], NULL);
	T(handled_by == sleeper_tid);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);

	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, forker, (void *)(intptr_t)(i + 10));
	for (int i = 0; i < 8; i++) {
		pthread_join(t[i], &r);
		printf("forked %d\n", (int)(intptr_t)r);
	}
	E(pthread_setname_np(pthread_self(), "a-name"));
	E(pthread_getname_np(pthread_self(), name, sizeof(name)));
	printf("%s\n", name);
	E(pthread_setname_np(pthread_self(), "a name that is too long"));
	E(pthread_getschedparam(pthread_self(), &policy, &sp));
	printf("policy %d priority %d\n", policy, sp.sched_priority);
	return 0;
}
