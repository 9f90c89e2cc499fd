/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of changes and its generations; see the header. */
#include "vfs/host_watch.h"

#include <errno.h>

#include "base/fiber.h"
#include "vfs/host_calls.h"

/* About a second. */
#define AGE_CYCLES UINT64_C(2500000000)
/* Each holds an inode of the host in memory. */
#define MARKS_MAX 16384u
/* It pays if a generation saves so many questions, over so many of them. */
#define GAIN_MIN 8u
#define GAIN_OVER 128u

enum { NONE, WAITING, OPEN, OVER };

static struct {
	/* 0: nothing is watched. Then it was given up and stays 0, or never began. */
	_Alignas(128) _Atomic uint64_t generation;
	int queue;
	/* The last sight in which the queue was empty. */
	_Alignas(128) _Atomic uint64_t number;
	_Atomic uint64_t begin;
	/* Who empties it, and has not ended the generation yet. */
	_Atomic unsigned draining;
	_Alignas(128) _Atomic unsigned state, vain, start, marks, ends;
	_Alignas(128) _Atomic unsigned gains; /* about: no need to be exact */
} g_watch = {.start = 20000};

/* The moment in which this thread last found the queue empty, or emptied it. */
static _Thread_local uint64_t t_moment;

static OWN_TLS bool found_empty_in(uint64_t moment)
{
	return moment != 0 && t_moment == moment;
}

static OWN_TLS void note_empty_in(uint64_t moment)
{
	t_moment = moment;
}

void host_watch_set_start(unsigned asked)
{
	atomic_store(&g_watch.start, asked);
}

static bool is_checked(void)
{
	const struct host_sight s = {atomic_load(&g_watch.number), atomic_load(&g_watch.begin)};

	return found_empty_in(fiber_moment()) || host_sight_current(&s);
}

bool host_watch_holds(uint64_t generation, uint64_t told)
{
	if (generation == 0 || generation != atomic_load(&g_watch.generation) ||
	    __builtin_ia32_rdtsc() - told >= AGE_CYCLES || !is_checked())
		return false;
	atomic_store_explicit(&g_watch.gains,
			      atomic_load_explicit(&g_watch.gains, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	return true;
}

uint64_t host_watch_generation(void)
{
	return atomic_load(&g_watch.generation);
}

void host_watch_differs(void)
{
	uint64_t g = atomic_load(&g_watch.generation);

	while (g != 0 && !atomic_compare_exchange_weak(&g_watch.generation, &g, g + 1))
		;
	atomic_fetch_add_explicit(&g_watch.ends, 1, memory_order_relaxed);
}

/* Have enough generations ended to tell whether they pay? */
static void judge(void)
{
	if (atomic_load_explicit(&g_watch.ends, memory_order_relaxed) < GAIN_OVER ||
	    atomic_exchange(&g_watch.ends, 0) < GAIN_OVER ||
	    atomic_exchange(&g_watch.gains, 0) >= GAIN_MIN * GAIN_OVER)
		return;
	atomic_store(&g_watch.state, OVER);
	atomic_store(&g_watch.generation, 0);
	host_watch_unmark_all(g_watch.queue);
}

/* Something has come. Until the generation has ended, nobody may take an empty queue for an answer.
 */
static void end_generation(void)
{
	atomic_fetch_add(&g_watch.draining, 1);
	host_watch_drain(g_watch.queue);
	host_watch_differs();
	atomic_fetch_sub(&g_watch.draining, 1);
}

uint64_t host_watch_now(void)
{
	const uint64_t g = atomic_load(&g_watch.generation);

	return g == 0 || is_checked() ? g : host_watch_look();
}

uint64_t host_watch_look(void)
{
	const uint64_t g = atomic_load(&g_watch.generation);
	struct host_sight s;

	if (g == 0)
		return 0;
	judge();
	s = host_sight_take();
	if (host_watch_pending(g_watch.queue)) {
		end_generation();
		return 0;
	}
	if (atomic_load(&g_watch.draining) != 0 || atomic_load(&g_watch.generation) != g)
		return 0;
	atomic_store(&g_watch.begin, s.begin);
	atomic_store(&g_watch.number, s.number);
	note_empty_in(fiber_moment());
	return g;
}

void host_watch_open_queue(void)
{
	if (atomic_load(&g_watch.state) != NONE)
		return;
	g_watch.queue = host_watch_open();
	atomic_store(&g_watch.state, g_watch.queue < 0 ? OVER : WAITING);
}

bool host_watch_vain(void)
{
	unsigned state = atomic_load_explicit(&g_watch.state, memory_order_relaxed);

	if (state == WAITING && atomic_fetch_add(&g_watch.vain, 1) >= atomic_load(&g_watch.start) &&
	    atomic_compare_exchange_strong(&g_watch.state, &state, OPEN)) {
		atomic_store(&g_watch.generation, 1);
		return true;
	}
	return state == OPEN;
}

int host_watch_add(int dir, const char *name, bool directory)
{
	int r;

	if (atomic_load(&g_watch.state) != OPEN)
		return -ENODEV;
	if (atomic_fetch_add(&g_watch.marks, 1) >= MARKS_MAX) {
		atomic_fetch_sub(&g_watch.marks, 1);
		return -ENOSPC;
	}
	r = host_watch_mark(g_watch.queue, dir, name, directory);
	if (r < 0)
		atomic_fetch_sub(&g_watch.marks, 1);
	return r;
}

void host_watch_remove(int fd, bool directory)
{
	if (atomic_load(&g_watch.state) != OPEN)
		return;
	/* A directory's is O_PATH, which is good for names below it alone. */
	if (host_watch_unmark(g_watch.queue, fd, directory ? "." : NULL, directory) == 0)
		atomic_fetch_sub(&g_watch.marks, 1);
}
