/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fiber locks under contention: exclusion (plain variables inside), that nobody is forgotten, and
 * that the last holder may free the object with its lock.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fiber.h"
#include "base/lock.h"
#include "tests/race/race.h"

#define FIBERS 24

static unsigned g_rounds;

static struct fmutex g_mutex;
static unsigned g_a, g_b; /* under g_mutex, equal outside of it */

static struct frwlock g_rwlock;
static unsigned g_c, g_d; /* the same under g_rwlock */
static _Atomic int g_readers;

static void contend(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < g_rounds; i++) {
		if (i % 8 == 3) {
			if (fmutex_trylock(&g_mutex))
				fmutex_unlock(&g_mutex);
		}
		fmutex_lock(&g_mutex);
		race_check(g_a == g_b);
		g_a++;
		if ((i + me) % 5 == 0)
			fiber_yield();
		g_b++;
		fmutex_unlock(&g_mutex);

		if ((i + me) % 4 == 0) {
			frwlock_write_lock(&g_rwlock);
			race_check(atomic_load(&g_readers) == 0);
			g_c++;
			fiber_yield();
			g_d++;
			frwlock_write_unlock(&g_rwlock);
		} else {
			frwlock_read_lock(&g_rwlock);
			atomic_fetch_add(&g_readers, 1);
			race_check(g_c == g_d);
			fiber_yield();
			race_check(g_c == g_d);
			atomic_fetch_sub(&g_readers, 1);
			frwlock_read_unlock(&g_rwlock);
		}
	}
}

/* An object that its last user frees, the lock in it. */
struct object {
	struct fmutex lock;
	unsigned users; /* [lock] */
};

static void use_and_free(void *arg)
{
	struct object *o = arg;
	bool last;

	fmutex_lock(&o->lock);
	last = --o->users == 0;
	fmutex_unlock(&o->lock);
	if (last) {
		fmutex_fini(&o->lock);
		mem_free(o);
	}
}

static void go(void (*fn)(void *), void *arg)
{
	struct fiber *f = fiber_new(fn, arg, NULL, "race");

	race_check(f);
	fiber_start(f);
}

/* The host thread takes part too. */
static void contend_here(void)
{
	for (unsigned i = 0; i < g_rounds; i++) {
		fmutex_lock(&g_mutex);
		race_check(g_a == g_b);
		g_a++;
		g_b++;
		fmutex_unlock(&g_mutex);
		frwlock_read_lock(&g_rwlock);
		race_check(g_c == g_d);
		frwlock_read_unlock(&g_rwlock);
	}
}

int main(void)
{
	g_rounds = race_rounds(1000);
	fmutex_init(&g_mutex);
	frwlock_init(&g_rwlock);
	race_check(clock_start(CLOCK_KIND_HOST, 0) == 0);
	race_check(workers_start(4, NULL) == 0);
	for (uintptr_t i = 0; i < FIBERS; i++)
		go(contend, (void *)i);
	contend_here();
	for (unsigned i = 0; i < race_rounds(300); i++) {
		struct object *o = mem_zalloc(sizeof(*o));

		race_check(o);
		fmutex_init(&o->lock);
		o->users = 4;
		for (unsigned n = 0; n < 4; n++)
			go(use_and_free, o);
	}
	workers_stop();
	race_check(g_a == g_rounds * (FIBERS + 1) && g_b == g_a && g_c == g_d);
	fmutex_fini(&g_mutex);
	frwlock_fini(&g_rwlock);
	clock_stop();
	return 0;
}
