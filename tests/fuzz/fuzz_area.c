/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: what the sentry reads of the pages that a guest thread shares with it (trap
 * platform), while another thread of the guest's rewrites them.
 *
 *	make m=fuzz fuzz-build && build/fuzz/fuzz/fuzz_area -max_len=4096 tests/fuzz/corpus/area
 *
 * An input is what stands in the area: three bytes say where the next piece goes and how long it
 * is. A second host thread, the flipper, writes the same pieces and their complements into the area
 * all the time. The area is as large as a real one and nothing more, so that the sanitizer sees
 * whoever believes an offset or a size; and what a window was found to be must not change after.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/waitq.h"
#include "platform/mock.h"
#include "platform/trap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const uint8_t *data;
	size_t size;
	bool busy;
	uint8_t *area;
} g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct pf_as g_as;
static _Atomic bool g_looked; /* ends the flipper's round */

static void scribble(volatile uint8_t *area, uint8_t mask)
{
	for (size_t at = 0; at + 3 <= g.size;) {
		/* Mostly where something is believed to stand. */
		static const uint32_t base[] = {0,
						TS_A_FAST,
						TS_A_ANSWERS,
						TS_A_WINDOW,
						TS_A_STACK,
						TS_A_NEW_FRAME,
						offsetof(struct ts_area, travels),
						TS_A_TID};
		const uint32_t off = base[g.data[at] % ARRAY_SIZE(base)] + 4u * g.data[at + 1];
		size_t n = g.data[at + 2] % 64u;

		at += 3;
		n = MIN(n, g.size - at);
		for (size_t i = 0; i < n && off + i < TS_AREA_SIZE; i++)
			area[off + i] = g.data[at + i] ^ mask;
		at += n;
	}
}

static void *flipper(void *arg UNUSED)
{
	for (;;) {
		pthread_mutex_lock(&g.lock);
		while (!g.busy)
			pthread_cond_wait(&g.changed, &g.lock);
		pthread_mutex_unlock(&g.lock);
		for (uint8_t mask = 0xff; !atomic_load(&g_looked); mask ^= 0xff)
			scribble(g.area, mask);
		pthread_mutex_lock(&g.lock);
		g.busy = false;
		pthread_cond_broadcast(&g.changed);
		pthread_mutex_unlock(&g.lock);
	}
	return NULL;
}

/* What a serving fiber does with a request. */
static void look(struct pf_thread *t)
{
	static uint8_t buf[TS_AREA_SIZE];
	struct tr_window seen[TS_WINDOWS];
	struct ts_frame f;
	struct pf_regs r;
	uint64_t args[4];
	uint32_t count;

	tr_take_frame(t, &f);
	BUG_ON(t->frame < TS_A_STACK || t->frame > TS_AREA_SIZE - sizeof(f));
	tr_regs_from_frame(&r, &f);
	(void)tr_xstate_get(t, buf);
	(void)tr_xstate_set(t, buf, PF_XSTATE_MAX);
	(void)tr_xstate_reset(t);

	copy_once(args, t->area->arg, sizeof(args));
	t->fast_regs.rdi = args[0];
	t->fast_regs.rsi = args[1];
	t->fast_regs.rdx = args[2];
	t->fast_regs.r10 = args[3];
	tr_windows_take(t,
			__atomic_load_n(&t->area->kind, __ATOMIC_RELAXED) >> TS_KIND_WINDOWS_SHIFT &
				TS_KIND_WINDOWS_MASK);
	count = t->window_count;
	BUG_ON(count > TS_WINDOWS);
	memcpy(seen, t->window, sizeof(seen));
	for (uint32_t i = 0; i < count; i++) {
		const struct tr_window *w = &seen[i];

		BUG_ON(w->room < g.area + TS_A_WINDOW || w->size == 0 ||
		       w->room + w->size > g.area + TS_A_WINDOW_END);
		BUG_ON(w->addr >= PF_GUEST_LIMIT || w->addr + w->size > PF_GUEST_LIMIT);
		(void)tr_window_in(&g_as, buf, w->addr, w->size);
		(void)tr_window_in(&g_as, buf, w->addr + w->size / 2, w->size);
		(void)tr_window_out(&g_as, w->addr, buf, w->size / 2);
		(void)tr_window_out(&g_as, w->addr + w->size / 2, buf, w->size - w->size / 2);
		(void)tr_window_out(&g_as, w->addr - 1, buf, 2);
		(void)tr_carried_str(&g_as, (char *)buf, (gaddr_t){w->addr}, sizeof(buf));
	}
	for (uint32_t i = 0; i < t->window_count; i++)
		BUG_ON(t->window[i].room != seen[i].room || t->window[i].size != seen[i].size ||
		       t->window[i].to > t->window[i].size || t->window[i].from > t->window[i].to);
	tr_windows_reply(t);
}

static void on_fiber(void *arg)
{
	struct pf_thread *t = arg;

	fiber_set_local(fiber_self(), t);
	for (unsigned i = 0; i < 20; i++)
		look(t);
	fiber_set_local(fiber_self(), NULL);
	pthread_mutex_lock(&g.lock);
	g_looked = true;
	pthread_cond_broadcast(&g.changed);
	pthread_mutex_unlock(&g.lock);
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
	pthread_t t;

	BUG_ON(clock_start(CLOCK_KIND_HOST, 0) != 0);
	g_pf = &platform_mock;
	BUG_ON(workers_start(1, g_pf->worker_ops()) != 0);
	tr_xstate_start();
	/* Its process is dead: nothing is copied by the host. */
	atomic_store(&g_as.dead, true);
	BUG_ON(pthread_create(&t, NULL, flipper, NULL) != 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pf_thread t = {.as = &g_as, .area_addr = TS_AREAS};

	g.data = data;
	g.size = size;
	g.area = calloc(1, TS_AREA_SIZE);
	BUG_ON(!g.area);
	t.area = (struct ts_area *)g.area;
	scribble(g.area, 0);
	pthread_mutex_lock(&g.lock);
	g.busy = true;
	g_looked = false;
	pthread_cond_broadcast(&g.changed);
	pthread_mutex_unlock(&g.lock);
	fiber_start(fiber_new(on_fiber, &t, NULL, "look"));
	pthread_mutex_lock(&g.lock);
	while (!g_looked)
		pthread_cond_wait(&g.changed, &g.lock);
	while (g.busy)
		pthread_cond_wait(&g.changed, &g.lock);
	pthread_mutex_unlock(&g.lock);
	free(g.area);
	return 0;
}
