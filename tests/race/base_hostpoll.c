/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches that come and go, and are freed, while their descriptors become ready: after
 * hostwatch_del() the callback must not run.
 */
#include <poll.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/hostpoll.h"
#include "base/thread.h"
#include "tests/race/race.h"

#define THREADS 3

struct watched {
	struct hostwatch watch;
	_Atomic unsigned calls;
	unsigned plain; /* written by the callback, then by the owner after hostwatch_del: TSan
			   checks */
};

static unsigned g_rounds;
static _Atomic unsigned g_calls;

static void on_event(struct hostwatch *w, uint32_t events)
{
	struct watched *x = container_of(w, struct watched, watch);

	race_check(events & (POLLIN | POLLHUP));
	x->plain++;
	atomic_fetch_add(&x->calls, 1);
	atomic_fetch_add(&g_calls, 1);
}

static void *come_and_go(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < g_rounds; i++) {
		struct watched *x = mem_zalloc(sizeof(*x));
		int fds[2];

		race_check(x && pipe(fds) == 0);
		x->watch = (struct hostwatch){.fd = fds[0], .fn = on_event};
		race_check(hostwatch_add(&x->watch, POLLIN) == 0);
		race_check(write(fds[1], "x", 1) == 1);
		if (i % 4 == 0) {
			while (atomic_load(&x->calls) == 0)
				sched_yield();
		}
		if (i % 2)
			close(fds[1]);
		hostwatch_del(&x->watch);
		x->plain++;
		mem_free(x);
		close(fds[0]);
		if (i % 2 == 0)
			close(fds[1]);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	g_rounds = race_rounds(5000);
	race_check(hostpoll_start() == 0);
	for (unsigned i = 0; i < THREADS; i++)
		race_check(thread_start(&threads[i], come_and_go, NULL, "owner") == 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	hostpoll_stop();
	race_check(atomic_load(&g_calls) > 0);
	return 0;
}
