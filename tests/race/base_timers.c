/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers that several threads arm and cancel while they fire, that are freed after
 * timer_cancel_sync(), or by their own callback.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "tests/race/race.h"

#define THREADS 3
#define SHARED 8

static struct timer g_shared[SHARED];
static _Atomic unsigned g_fired, g_freed;
static unsigned g_rounds;

static void fire(struct timer *t)
{
	unsigned n = atomic_fetch_add(&g_fired, 1);

	if (n % 4 == 0)
		timer_arm(t, clock_mono_ns() + 10 * NSEC_PER_USEC);
}

struct owned {
	struct timer t;
	unsigned plain; /* written by the callback, then by the owner after cancel_sync: TSan checks
			 */
};

static void fire_owned(struct timer *t)
{
	container_of(t, struct owned, t)->plain++;
}

static void fire_and_free(struct timer *t)
{
	atomic_fetch_add(&g_freed, 1);
	mem_free(container_of(t, struct owned, t));
}

static void *play(void *arg)
{
	uint64_t seed = (uint64_t)(uintptr_t)arg;

	for (unsigned i = 0; i < g_rounds; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;

		struct timer *t = &g_shared[(seed >> 33) % SHARED];
		uint64_t soon = clock_mono_ns() + (seed >> 50);

		if (i % 3)
			timer_arm(t, soon);
		else
			timer_cancel(t);

		struct owned *o = mem_zalloc(sizeof(*o));

		race_check(o);
		if (i % 2) {
			timer_init(&o->t, fire_owned);
			timer_arm(&o->t, soon);
			if (i % 4 == 1)
				sched_yield();
			timer_cancel_sync(&o->t);
			o->plain++;
			mem_free(o);
		} else {
			timer_init(&o->t, fire_and_free);
			timer_arm(&o->t, soon);
		}
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	g_rounds = race_rounds(20000) & ~1u;
	race_check(clock_start(CLOCK_KIND_HOST, 0) == 0);
	for (unsigned i = 0; i < SHARED; i++)
		timer_init(&g_shared[i], fire);
	for (uintptr_t i = 0; i < THREADS; i++)
		race_check(thread_start(&threads[i], play, (void *)(i + 1), "player") == 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < SHARED; i++)
		timer_cancel_sync(&g_shared[i]);
	/* All that free themselves come due. */
	while (atomic_load(&g_freed) < THREADS * g_rounds / 2)
		sched_yield();
	clock_stop();
	race_check(atomic_load(&g_fired) > 0);
	return 0;
}
