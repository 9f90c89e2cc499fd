/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Costs of the platform: platform_smoke --bench. Medians of several rounds, in microseconds.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "tests/platform/smoke.h"

#define RW (PROT_READ | PROT_WRITE)
#define AT ((uint64_t)0x700000)
enum { ROUNDS = 11 };

void bench(void);
BLOB(code_null, "1: mov $39, %eax\n syscall\n jmp 1b\n");

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const char *what, struct guest *g, unsigned count, void (*fn)(struct guest *))
{
	double us[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		const uint64_t from = clock_mono_ns();

		for (unsigned i = 0; i < count; i++)
			fn(g);
		us[r] = (double)(clock_mono_ns() - from) / 1000 / count;
	}
	qsort(us, ROUNDS, sizeof(us[0]), by_value);
	printf("  %-34s %8.2f us   (%.2f to %.2f)\n", what, us[ROUNDS / 2], us[0], us[ROUNDS - 1]);
}

static void do_run(struct guest *g)
{
	g_pf->run(g->thread, &g->regs, &g->trap);
	g->regs.rax = 0;
}

static void map_n(struct guest *g, size_t n)
{
	struct map_op ops[10];

	for (size_t i = 0; i < n; i++)
		ops[i] = (struct map_op){.kind = MAP_OP_PROTECT,
					 .addr = AT + i * 4096,
					 .size = 4096,
					 .prot = i & 1 ? RW : PROT_READ};
	if (g_pf->map(g->thread, ops, n) != 0)
		abort();
}

static void do_map1(struct guest *g)
{
	map_n(g, 1);
}

static void do_map10(struct guest *g)
{
	map_n(g, 10);
}

static void do_as_new(struct guest *g)
{
	struct guest n;

	(void)g;
	if (g_pf->as_new(NULL, &n.as, &n.thread) != 0)
		abort();
	g_pf->thread_free(n.thread);
}

static void do_fork(struct guest *g)
{
	struct guest n;

	if (g_pf->as_fork(g->thread, &n.as, &n.thread) != 0)
		abort();
	g_pf->thread_free(n.thread);
}

static void do_fork_only(struct guest *g)
{
	static struct pf_thread *last;
	struct pf_as *as;
	struct pf_thread *t;

	if (!g) {
		g_pf->thread_free(last);
		return;
	}
	if (g_pf->as_fork(g->thread, &as, &t) != 0)
		abort();
	if (last)
		g_pf->thread_free(last);
	last = t;
}

static void do_thread(struct guest *g)
{
	struct pf_thread *t;

	if (g_pf->thread_new(g->thread, &t) != 0)
		abort();
	g_pf->thread_free(t);
}

static void do_copy64(struct guest *g)
{
	char buf[64];

	(void)g_pf->copy_in(g->as, buf, GADDR(DATA), sizeof(buf));
}

static void do_copy4k(struct guest *g)
{
	static char buf[4096];

	(void)g_pf->copy_out(g->as, GADDR(DATA), buf, sizeof(buf));
}

static void do_atomic(struct guest *g)
{
	uint32_t old;

	(void)g_pf->atomic32(g->thread, GADDR(DATA), ATOMIC_ADD, 1, 0, &old);
}

static void do_cpu_times(struct guest *g)
{
	struct pf_cpu_times t;

	g_pf->cpu_times(g->thread, &t);
}

static void do_mem_stats(struct guest *g)
{
	struct pf_mem_stats m;

	g_pf->mem_stats(g->as, &m);
}

void bench(void)
{
	struct guest g;

	if (!GUEST(&g, code_null))
		return;
	guest_map(&g, AT, 16 * 4096, RW);
	do_run(&g);
	measure("null syscall, round trip", &g, 5000, do_run);
	measure("map, one op", &g, 2000, do_map1);
	measure("map, ten ops", &g, 1000, do_map10);
	measure("as_new + thread_free", &g, 300, do_as_new);
	measure("as_fork + thread_free", &g, 300, do_fork);
	measure("as_fork, freeing the one before", &g, 300, do_fork_only);
	do_fork_only(NULL);
	measure("thread_new + thread_free", &g, 300, do_thread);
	measure("copy_in, 64 bytes", &g, 5000, do_copy64);
	measure("copy_out, 4096 bytes", &g, 5000, do_copy4k);
	measure("atomic32", &g, 2000, do_atomic);
	measure("cpu_times", &g, 1000, do_cpu_times);
	measure("mem_stats", &g, 1000, do_mem_stats);
	guest_free(&g);
}
