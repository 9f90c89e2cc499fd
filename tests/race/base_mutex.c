/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short locks and conditions under contention: exclusion (plain variables inside), that nobody is
 * forgotten, that a wait ends with its deadline and not before, and that the last holder may free
 * the object with its lock.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fiber.h"
#include "base/lock.h"
#include "base/thread.h"
#include "tests/race/race.h"

#define THREADS 6
#define ROOM 3

static unsigned g_rounds;

static struct mutex g_first = MUTEX_INIT(RANK_LEAF), g_second = MUTEX_INIT(RANK_LEAF);
static unsigned g_a, g_b; /* under g_first, equal outside of it */
static unsigned g_c;      /* under g_second */

static void *contend(void *arg)
{
	const unsigned me = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < g_rounds; i++) {
		mutex_lock(&g_first);
		race_check(g_a == g_b);
		g_a++;
		/* At times for longer than others look before they sleep. */
		if ((i + me) % 64 == 0)
			sched_yield();
		g_b++;
		mutex_unlock(&g_first);

		if ((i + me) % 4 == 0) {
			struct mutex *x = i & 4 ? &g_first : &g_second;
			struct mutex *y = i & 8 ? &g_first : &g_second;

			mutex_lock_pair(x, y);
			if (x != y) {
				race_check(g_a == g_b);
				g_c++;
			}
			mutex_unlock_pair(x, y);
		}
		if (mutex_trylock(&g_second)) {
			g_c++;
			mutex_unlock(&g_second);
		}
	}
	return NULL;
}

/* A few places for what some make and others take. */
static struct {
	struct mutex lock;
	struct cond made, taken;
	unsigned there;        /* [lock] */
	uint64_t sum, all;     /* [lock] of what was taken; how much that is */
	unsigned values[ROOM]; /* [lock] */
	unsigned makers;       /* [lock] still at work */
} g_box = {.lock = MUTEX_INIT(RANK_MISC), .makers = THREADS / 2};

static void *make(void *arg UNUSED)
{
	for (unsigned i = 1; i <= g_rounds; i++) {
		mutex_lock(&g_box.lock);
		while (g_box.there == ROOM)
			cond_wait(&g_box.taken, &g_box.lock);
		g_box.values[g_box.there++] = i;
		cond_tell(&g_box.made, &g_box.lock);
		mutex_unlock(&g_box.lock);
	}
	mutex_lock(&g_box.lock);
	g_box.makers--;
	cond_tell_all(&g_box.made, &g_box.lock);
	mutex_unlock(&g_box.lock);
	return NULL;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return seconds_to_ns(ts.tv_sec, ts.tv_nsec);
}

/* Waits for something made: in every other round for so short that the time is often over first. */
static void wait_made(unsigned round) REQUIRES(g_box.lock)
{
	uint64_t until;

	if (round % 2) {
		cond_wait(&g_box.made, &g_box.lock);
		return;
	}
	until = now_ns() + 20000;
	if (!cond_wait_until(&g_box.made, &g_box.lock, until))
		race_check(now_ns() >= until);
}

static void *take(void *arg UNUSED)
{
	unsigned round = 0;

	mutex_lock(&g_box.lock);
	for (;;) {
		while (g_box.there == 0 && g_box.makers != 0)
			wait_made(round++);
		if (g_box.there == 0)
			break;
		g_box.sum += g_box.values[--g_box.there];
		g_box.all++;
		cond_tell(&g_box.taken, &g_box.lock);
	}
	mutex_unlock(&g_box.lock);
	return NULL;
}

/* An object that its last user frees, the lock in it. */
struct object {
	struct mutex lock;
	unsigned users; /* [lock] */
};

static struct object **g_objects;
static unsigned g_object_count;

static void *use_and_free(void *arg UNUSED)
{
	for (unsigned i = 0; i < g_object_count; i++) {
		struct object *o = g_objects[i];
		bool last;

		mutex_lock(&o->lock);
		last = --o->users == 0;
		mutex_unlock(&o->lock);
		if (last) {
			mutex_fini(&o->lock);
			mem_free(o);
		}
	}
	return NULL;
}

/* Each of @count functions on threads of its own, until all are through. */
static void run(void *(*const fn[])(void *), unsigned count)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		race_check(thread_start(&threads[i], fn[i % count], (void *)i, "race") == 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	g_rounds = race_rounds(20000);
	g_object_count = race_rounds(3000);
	run((void *(*const[])(void *)){contend}, 1);
	race_check(g_a == g_rounds * THREADS && g_b == g_a && g_c >= g_rounds / 8);

	run((void *(*const[])(void *)){make, take}, 2);
	race_check(g_box.all == (uint64_t)g_rounds * (THREADS / 2));
	race_check(g_box.sum == g_box.all * (g_rounds + 1) / 2);
	race_check(g_box.made.waiters == 0 && g_box.taken.waiters == 0);

	g_objects = mem_calloc(g_object_count, sizeof(*g_objects));
	race_check(g_objects);
	for (unsigned i = 0; i < g_object_count; i++) {
		g_objects[i] = mem_zalloc(sizeof(**g_objects));
		race_check(g_objects[i]);
		mutex_init(&g_objects[i]->lock, RANK_LEAF);
		g_objects[i]->users = THREADS;
	}
	run((void *(*const[])(void *)){use_and_free}, 1);
	mem_free(g_objects);
	return 0;
}
