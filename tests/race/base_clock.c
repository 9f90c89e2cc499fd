/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time never runs backwards, whoever reads it: threads compare their readings with the latest that
 * any of them has seen, while the parameters are calibrated and renewed. A reader of the shared
 * page, as a vDSO is one, takes part.
 */
#include "base/clock.h"
#include "base/thread.h"
#include "tests/race/race.h"

#define THREADS 3

static _Atomic uint64_t g_latest;
static uint64_t g_end;

/* As loader/vdso does it; false: it would make the syscall. */
static bool page_read(uint64_t *ns)
{
	/* Through the fields' addresses: the struct is const here, and may change under us. */
	const struct clock_params *p = clock_get_params();
	uint32_t seq = atomic_load_explicit(&p->seq, memory_order_acquire);
	uint32_t valid = __atomic_load_n(&p->valid, __ATOMIC_ACQUIRE);
	uint64_t base_tsc = __atomic_load_n(&p->base_tsc, __ATOMIC_ACQUIRE);
	uint64_t base_ns = __atomic_load_n(&p->base_mono_ns, __ATOMIC_ACQUIRE);
	uint32_t mult = __atomic_load_n(&p->mult, __ATOMIC_ACQUIRE);
	uint32_t shift = __atomic_load_n(&p->shift, __ATOMIC_ACQUIRE);
	uint64_t max_delta = __atomic_load_n(&p->max_delta, __ATOMIC_ACQUIRE);
	unsigned aux;
	uint64_t delta = __builtin_ia32_rdtscp(&aux) - base_tsc;

	if ((seq & 1) || atomic_load_explicit(&p->seq, memory_order_acquire) != seq)
		return false;
	*ns = base_ns + ((delta * mult) >> shift);
	return valid && delta <= max_delta;
}

static void *reader(void *arg)
{
	bool by_page = arg != NULL;
	uint64_t now;

	do {
		uint64_t latest = atomic_load(&g_latest);

		if (!by_page || !page_read(&now))
			now = clock_mono_ns();
		if (now < latest) {
			fprintf(stderr, "%lu ns backwards\n", latest - now);
			_Exit(1);
		}
		while (latest < now && !atomic_compare_exchange_weak(&g_latest, &latest, now))
			;
	} while (now < g_end);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	race_check(clock_start(CLOCK_KIND_HOST, 0) == 0);
	/* Over the short lines of the beginning and a few long ones. */
	g_end = clock_mono_ns() + 3500 * NSEC_PER_MSEC;
	for (uintptr_t i = 0; i < THREADS; i++)
		race_check(thread_start(&threads[i], reader, (void *)i, "reader") == 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	clock_stop();
	return 0;
}
