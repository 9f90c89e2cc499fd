/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The injected clock. See base/clock.h.
 *
 * Theory of operation: HOST and OFFSET read the host's clock (by the TSC where that is how the host
 * does it, see clock_tsc.c). FIXED has the host's monotonic time, so that sleeps end, and a real
 * time that stands. VIRTUAL and MANUAL have a number in memory as their monotonic time: the timer
 * thread (timer.c) moves it to the next timer when nothing runs, or with turns the worker
 * (fiber_turn.c), or clock_advance(); real time goes along.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "base/clock_internal.h"
#include "base/err.h"
#include "base/fiber_internal.h"
#include "base/hostcall.h"

/* Where the monotonic time of VIRTUAL and MANUAL begins: a machine that is up for a while, so that
 * programs may subtract. */
#define INJECTED_START_NS (1000 * NSEC_PER_SEC)

static _Atomic int g_kind = CLOCK_KIND_HOST;
static int64_t g_real_offset_ns;
static _Atomic uint64_t g_injected_ns = INJECTED_START_NS;
static bool g_by_tsc;
static bool g_started;

static struct clock_params g_no_params;
static struct clock_params *g_params = &g_no_params;
static int g_params_fd = -1;

static bool clock_injected(int kind)
{
	return kind == CLOCK_KIND_VIRTUAL || kind == CLOCK_KIND_MANUAL;
}

/* One page that guests map read-only. Without it the vDSO makes syscalls. */
static void params_create(void)
{
	int fd = HOST(memfd_create_clock,
		      memfd_create("moat-clock", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (fd < 0)
		return;
	if (HOST(ftruncate_file, ftruncate(fd, (off_t)MOAT_PAGE_SIZE)) != 0)
		goto fail;

	void *p = HOST(mmap_file,
		       mmap(NULL, MOAT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));

	if (p == MAP_FAILED)
		goto fail;
	/* Ours stays writable; nobody who gets the descriptor can make another that is. */
	if (HOST(fcntl_seal,
		 fcntl(fd, F_ADD_SEALS,
		       F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)) != 0) {
		HOST(munmap_own, munmap(p, MOAT_PAGE_SIZE));
		goto fail;
	}
	g_params = p;
	g_params_fd = fd;
	return;
fail:
	HOST(close_fd, close(fd));
}

static int start(enum clock_kind kind, int64_t real_offset_ns, bool served)
{
	BUG_ON(g_started);
	g_real_offset_ns = real_offset_ns;
	atomic_store(&g_injected_ns, INJECTED_START_NS);
	atomic_store(&g_kind, (int)kind);
	params_create();
	if (kind == CLOCK_KIND_HOST || kind == CLOCK_KIND_OFFSET)
		g_by_tsc = tsc_start(g_params, kind == CLOCK_KIND_OFFSET ? real_offset_ns : 0);

	/* With turns, the worker runs virtual time's timers. */
	int r = timers_start(kind != CLOCK_KIND_MANUAL &&
				     !(kind == CLOCK_KIND_VIRTUAL && g_fiber_turns),
			     served);

	g_started = true;
	if (r)
		clock_stop();
	return r;
}

int clock_start(enum clock_kind kind, int64_t real_offset_ns)
{
	return start(kind, real_offset_ns, false);
}

int clock_start_served(enum clock_kind kind, int64_t real_offset_ns)
{
	return start(kind, real_offset_ns, true);
}

void clock_stop(void)
{
	if (!g_started)
		return;
	timers_stop();
	if (g_params != &g_no_params) {
		HOST(munmap_own, munmap(g_params, MOAT_PAGE_SIZE));
		HOST(close_fd, close(g_params_fd));
	}
	g_params = &g_no_params;
	g_params_fd = -1;
	g_by_tsc = false;
	g_real_offset_ns = 0;
	atomic_store(&g_kind, CLOCK_KIND_HOST);
	g_started = false;
}

enum clock_kind clock_get_kind(void)
{
	return (enum clock_kind)atomic_load_explicit(&g_kind, memory_order_relaxed);
}

const struct clock_params *clock_get_params(void)
{
	return g_params;
}

int clock_params_fd(void)
{
	return g_params_fd;
}

static uint64_t timespec_ns(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * NSEC_PER_SEC + (uint64_t)ts->tv_nsec;
}

uint64_t host_clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return timespec_ns(&ts);
}

void host_read(struct host_times *t)
{
	/* Real time first: the reading that may lag must not make real time run ahead. */
	uint64_t real = host_clock_ns(CLOCK_REALTIME);
	uint64_t boot = host_clock_ns(CLOCK_BOOTTIME);

	t->mono_ns = host_clock_ns(CLOCK_MONOTONIC);
	t->mono_to_real_ns = real - t->mono_ns;
	t->mono_to_boot_ns = boot - t->mono_ns;
}

uint64_t clock_mono_ns(void)
{
	int kind = atomic_load_explicit(&g_kind, memory_order_relaxed);

	if (clock_injected(kind))
		return atomic_load(&g_injected_ns);
	if (g_by_tsc) {
		struct host_times t;

		tsc_read(&t);
		return t.mono_ns;
	}
	return host_clock_ns(CLOCK_MONOTONIC);
}

static uint64_t real_ns(bool coarse)
{
	int kind = atomic_load_explicit(&g_kind, memory_order_relaxed);

	if (kind == CLOCK_KIND_FIXED)
		return (uint64_t)g_real_offset_ns;
	if (clock_injected(kind))
		return (uint64_t)g_real_offset_ns +
		       (atomic_load(&g_injected_ns) - INJECTED_START_NS);
	if (g_by_tsc) {
		struct host_times t;

		/* With the offset. */
		if (coarse)
			tsc_read_coarse(&t);
		else
			tsc_read(&t);
		return t.mono_ns + t.mono_to_real_ns;
	}
	return host_clock_ns(CLOCK_REALTIME) +
	       (uint64_t)(kind == CLOCK_KIND_OFFSET ? g_real_offset_ns : 0);
}

uint64_t clock_real_ns(void)
{
	return real_ns(false);
}

uint64_t clock_stamp_ns(void)
{
	return real_ns(true);
}

uint64_t clock_boot_ns(void)
{
	int kind = atomic_load_explicit(&g_kind, memory_order_relaxed);

	if (clock_injected(kind))
		return atomic_load(&g_injected_ns);
	if (g_by_tsc) {
		struct host_times t;

		tsc_read(&t);
		return t.mono_ns + t.mono_to_boot_ns;
	}
	return host_clock_ns(CLOCK_BOOTTIME);
}

void clock_set_now(uint64_t now_ns)
{
	/* Only the one who runs the timers stores. */
	if (now_ns > atomic_load(&g_injected_ns))
		atomic_store(&g_injected_ns, now_ns);
}

void clock_advance(uint64_t ns)
{
	BUG_ON(clock_get_kind() != CLOCK_KIND_MANUAL);
	timers_run_until(atomic_load(&g_injected_ns) + ns);
}

void clock_step(uint64_t ns)
{
	if (clock_get_kind() == CLOCK_KIND_VIRTUAL)
		timers_run_until(atomic_load(&g_injected_ns) + ns);
}

bool clock_run_next(void)
{
	if (clock_get_kind() != CLOCK_KIND_VIRTUAL)
		return false;
	/* What ends after the end of time never does. */
	return timers_run_next(INJECTED_START_NS + (uint64_t)(INT64_MAX - g_real_offset_ns));
}

void clock_all_asleep(void)
{
	if (clock_get_kind() == CLOCK_KIND_VIRTUAL)
		timers_poke();
}
