/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host time by the time stamp counter, with parameters that guests share.
 *
 * Theory of operation
 *
 * The parameters (struct clock_params) give monotonic time as a line over the counter. They hold
 * for max_delta ticks, at most a second; who comes later renews them under a lock: takes a sample
 * of counter and host clock, and starts a new line there. So an idle sandbox does nothing, a busy
 * one pays a microsecond each second, and what the host's NTP daemon does is followed within a
 * second.
 *
 * Never backwards. All readers, the vDSO's too, stop at max_delta. So when the parameters are
 * renewed, nobody has seen more than the end of the old line (the floor), and nobody can see less
 * than the start of the new one, which is the sample, or the floor if the host is behind that; then
 * the new line is flatter so as to meet the host's clock at its end. Before the first line there
 * are no parameters, and all readings go through the lock, which remembers the last one as the
 * floor.
 *
 * The rate is that of a chord: the last sample against one of a second or two ago (less in the
 * beginning): short, to follow the host's clock discipline. A sample is known to some 20 ns; a line
 * from a chord of length L is used for at most 10 L, so it is off by at most some 200 ns at its
 * end. A rate that leaps (the machine was suspended or moved) is not believed: calibration starts
 * afresh, and after many leaps the counter is given up.
 *
 * References: Linux, arch/x86/kernel/tsc.c, and Documentation/virt/kvm/x86/timekeeping.rst.
 */
#include <cpuid.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/clock_internal.h"
#include "base/hostcall.h"

#define CHORD_MIN_NS (5 * NSEC_PER_MSEC)
#define CHORD_RENEW_NS NSEC_PER_SEC
#define LINE_MAX_NS NSEC_PER_SEC
/* A sample whose two counter readings are farther apart than this was interrupted. */
#define WINDOW_GOOD_TICKS 2000u
#define SAMPLE_TRIES 16
/* Real time's distance jumps when somebody sets the clock; less is the error of the sample. */
#define DISTANCE_NOISE_NS 2000u
#define MISSES_MAX 64u
/* A time of a file may be that of a sample as old as this: no more than 4 ms, a tick of Linux's, if
 * the counter is as fast as any that counts at a constant rate. */
#define STAMP_MAX_TICKS (UINT64_C(4) * 500 * 1000)

struct sample {
	uint64_t tsc;
	uint64_t window;
	struct host_times t;
};

static struct mutex g_tsc_lock = MUTEX_INIT(RANK_LEAF);
static struct clock_params *g_p;
static _Atomic bool g_usable;
/* The latest time that anybody has seen, while there is no line. Written under g_tsc_lock. */
static _Atomic uint64_t g_floor_ns;
static int64_t g_real_offset_ns;
/* All [g_tsc_lock]. */
static struct sample g_chord_start, g_chord_next;
static double g_ns_per_tick; /* 0: not known */
static unsigned g_misses;
static struct sample g_last; /* while there is no line */

static inline uint64_t tsc_now(void)
{
	uint32_t lo, hi;

	/* The fence: not before the loads that precede it. */
	__asm__ volatile("lfence; rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
}

/* --- The shared page --- */

/* The fields are plain in the struct, since the vDSO's code is C of its own; atomic here, and with
 * acquire and release instead of fences, which TSan does not know. */
#define P_LOAD(field) __atomic_load_n(&g_p->field, __ATOMIC_ACQUIRE)
#define P_STORE(field, v) __atomic_store_n(&g_p->field, (v), __ATOMIC_RELEASE)

static bool line_get(struct clock_params *out, uint64_t *tsc)
{
	uint32_t seq;

	do {
		seq = atomic_load_explicit(&g_p->seq, memory_order_acquire);
		out->valid = P_LOAD(valid);
		out->base_tsc = P_LOAD(base_tsc);
		out->base_mono_ns = P_LOAD(base_mono_ns);
		out->mono_to_real_ns = P_LOAD(mono_to_real_ns);
		out->mono_to_boot_ns = P_LOAD(mono_to_boot_ns);
		out->mult = P_LOAD(mult);
		out->shift = P_LOAD(shift);
		out->max_delta = P_LOAD(max_delta);
		*tsc = tsc_now();
	} while (unlikely(seq & 1) ||
		 unlikely(seq != atomic_load_explicit(&g_p->seq, memory_order_acquire)));
	return out->valid && *tsc - out->base_tsc <= out->max_delta;
}

static void line_publish(const struct clock_params *line) REQUIRES(g_tsc_lock)
{
	uint32_t seq = atomic_load_explicit(&g_p->seq, memory_order_relaxed);

	atomic_store_explicit(&g_p->seq, seq + 1, memory_order_seq_cst);
	P_STORE(valid, line->valid);
	P_STORE(base_tsc, line->base_tsc);
	P_STORE(base_mono_ns, line->base_mono_ns);
	P_STORE(mono_to_real_ns, line->mono_to_real_ns);
	P_STORE(mono_to_boot_ns, line->mono_to_boot_ns);
	P_STORE(mult, line->mult);
	P_STORE(shift, line->shift);
	P_STORE(max_delta, line->max_delta);
	atomic_store_explicit(&g_p->seq, seq + 2, memory_order_release);
}

static uint64_t line_at(const struct clock_params *line, uint64_t delta)
{
	return line->base_mono_ns + ((delta * line->mult) >> line->shift);
}

static void line_times(const struct clock_params *line, uint64_t delta, struct host_times *t)
{
	t->mono_ns = line_at(line, delta);
	t->mono_to_real_ns = line->mono_to_real_ns;
	t->mono_to_boot_ns = line->mono_to_boot_ns;
}

/* --- Samples and chords --- */

static void sample_take(struct sample *best)
{
	best->window = UINT64_MAX;
	for (int i = 0; i < SAMPLE_TRIES; i++) {
		struct sample s;
		uint64_t before = tsc_now();
		uint64_t mono = host_clock_ns(CLOCK_MONOTONIC);
		uint64_t after = tsc_now();
		uint64_t real = host_clock_ns(CLOCK_REALTIME);
		uint64_t boot = host_clock_ns(CLOCK_BOOTTIME);
		uint64_t third = (host_clock_ns(CLOCK_MONOTONIC) - mono) / 3;

		s.window = tsc_now() - before;
		if (s.window >= best->window)
			continue;
		s.tsc = before + (after - before) / 2;
		s.t.mono_ns = mono;
		/* Read at equal distances after mono. */
		s.t.mono_to_real_ns = real - (mono + third) + (uint64_t)g_real_offset_ns;
		s.t.mono_to_boot_ns = boot - (mono + 2 * third);
		*best = s;
		if (i > 0 && best->window < WINDOW_GOOD_TICKS)
			break;
	}
}

static void chord_restart(const struct sample *s) REQUIRES(g_tsc_lock)
{
	g_chord_start = g_chord_next = *s;
	g_ns_per_tick = 0;
}

/* This host's counter or clock is not fit for it, if that happens often. */
static void chord_miss(void) REQUIRES(g_tsc_lock)
{
	if (++g_misses > MISSES_MAX)
		atomic_store(&g_usable, false);
}

/* Learns the rate from a new sample. False: not known (yet). */
static bool chord_extend(const struct sample *s) REQUIRES(g_tsc_lock)
{
	uint64_t ticks = s->tsc - g_chord_start.tsc;
	uint64_t ns = s->t.mono_ns - g_chord_start.t.mono_ns;

	/* An interrupted sample is good for the line's start, not for its slope. */
	if (s->window > WINDOW_GOOD_TICKS) {
		if (g_ns_per_tick != 0)
			return true;
		chord_miss();
		return false;
	}
	if (g_chord_start.window > WINDOW_GOOD_TICKS)
		chord_restart(s);
	if (ns < CHORD_MIN_NS)
		return false;

	double rate = (double)ns / (double)ticks;
	bool sane = rate > 1e-2 && rate < 1e2;

	if (g_ns_per_tick != 0) {
		/* A short chord may be wrong by more than what any clock discipline does. */
		double leap = rate / g_ns_per_tick - 1;

		sane = sane && leap < 2e-3 && leap > -2e-3;
	}
	if (!sane) {
		chord_miss();
		chord_restart(s);
		return false;
	}
	g_ns_per_tick = rate;
	if (s->t.mono_ns - g_chord_next.t.mono_ns >= CHORD_RENEW_NS) {
		g_chord_start = g_chord_next;
		g_chord_next = *s;
	}
	return true;
}

static uint64_t distance_filter(uint64_t now, uint64_t before, bool have_before)
{
	int64_t d = (int64_t)(now - before);

	if (have_before && d < (int64_t)DISTANCE_NOISE_NS && d > -(int64_t)DISTANCE_NOISE_NS)
		return before;
	return now;
}

/* The line that starts at @s, not below @floor_ns. */
static void line_make(struct clock_params *line, const struct sample *s, uint64_t floor_ns)
	REQUIRES(g_tsc_lock)
{
	uint64_t chord_ns = s->t.mono_ns - g_chord_start.t.mono_ns;
	uint64_t length_ns = MIN(LINE_MAX_NS, MAX(chord_ns, CHORD_MIN_NS) * 10);
	double rate = g_ns_per_tick;
	uint64_t max_delta = (uint64_t)((double)length_ns / rate);

	line->base_tsc = s->tsc;
	line->base_mono_ns = MAX(s->t.mono_ns, floor_ns);
	if (line->base_mono_ns > s->t.mono_ns) {
		/* Ahead of the host: flatter, at most by half, to meet it at the end. */
		double ahead = (double)(line->base_mono_ns - s->t.mono_ns);
		double half = (double)length_ns / 2;

		rate -= (ahead < half ? ahead : half) / (double)max_delta;
	}
	/* The largest shift with which mult fits into 32 bits, and delta * mult into 64. */
	line->shift = 32;
	while (line->shift > 0 && rate * (double)(UINT64_C(1) << line->shift) >= 4294967295.0)
		line->shift--;
	line->mult = (uint32_t)(rate * (double)(UINT64_C(1) << line->shift) + 0.5);
	line->max_delta = max_delta;
	line->mono_to_real_ns =
		distance_filter(s->t.mono_to_real_ns, line->mono_to_real_ns, line->valid);
	line->mono_to_boot_ns =
		distance_filter(s->t.mono_to_boot_ns, line->mono_to_boot_ns, line->valid);
	line->valid = 1;
}

/* The slow way: no line, or it has run out. */
static __attribute__((noinline)) void tsc_renew(struct host_times *t)
{
	struct clock_params line;
	uint64_t tsc;

	mutex_lock(&g_tsc_lock);
	if (line_get(&line, &tsc)) {
		/* Somebody else has done it. */
		line_times(&line, tsc - line.base_tsc, t);
		goto out;
	}

	uint64_t floor_ns = line.valid ? line_at(&line, line.max_delta) : atomic_load(&g_floor_ns);
	struct sample s;

	sample_take(&s);
	if (chord_extend(&s)) {
		line_make(&line, &s, floor_ns);
		line_publish(&line);
		line_times(&line, 0, t);
		goto out;
	}
	if (line.valid) {
		line.valid = 0;
		line_publish(&line);
	}
	*t = s.t;
	t->mono_ns = MAX(t->mono_ns, floor_ns);
	atomic_store(&g_floor_ns, t->mono_ns);
	g_last = s;
	g_last.t = *t;
out:
	mutex_unlock(&g_tsc_lock);
}

void tsc_read_coarse(struct host_times *t)
{
	struct clock_params line;
	uint64_t tsc;
	bool found = false;

	if (!line_get(&line, &tsc) && !line.valid) {
		mutex_lock(&g_tsc_lock);
		found = tsc - g_last.tsc <= STAMP_MAX_TICKS;
		if (found)
			*t = g_last.t;
		mutex_unlock(&g_tsc_lock);
	}
	if (!found)
		tsc_read(t);
}

void tsc_read(struct host_times *t)
{
	struct clock_params line;
	uint64_t tsc;

	if (likely(line_get(&line, &tsc))) {
		line_times(&line, tsc - line.base_tsc, t);
		return;
	}
	if (likely(atomic_load_explicit(&g_usable, memory_order_acquire))) {
		tsc_renew(t);
		return;
	}
	/* Given up: the last line or the floor is over soon. */
	host_read(t);
	t->mono_to_real_ns += (uint64_t)g_real_offset_ns;
	t->mono_ns = MAX(t->mono_ns, atomic_load(&g_floor_ns));
}

/* --- Whether at all --- */

static enum { NOT_ASKED, BY_TSC, BY_OTHERS } g_host_clock;

static bool host_says_tsc(void)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char name[16] = "";
	int fd = HOST(openat_clock, open(path, O_RDONLY | O_CLOEXEC));

	if (fd < 0)
		return false;

	ssize_t n = HOST(read_clock, read(fd, name, sizeof(name) - 1));

	HOST(close_fd, close(fd));
	return n >= 4 && strcmp(name, "tsc\n") == 0;
}

static bool host_uses_tsc(void)
{
	if (g_host_clock == NOT_ASKED)
		g_host_clock = host_says_tsc() ? BY_TSC : BY_OTHERS;
	return g_host_clock == BY_TSC;
}

void clock_look(void)
{
	(void)host_uses_tsc();
}

static bool tsc_invariant(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}

bool tsc_start(struct clock_params *p, int64_t real_offset_ns)
{
	struct sample s;

	if (!tsc_invariant() || !host_uses_tsc())
		return false;
	mutex_lock(&g_tsc_lock);
	g_p = p;
	g_real_offset_ns = real_offset_ns;
	atomic_store(&g_floor_ns, 0);
	g_misses = 0;
	atomic_store(&g_usable, true);
	sample_take(&s);
	chord_restart(&s);
	g_last = (struct sample){0};
	mutex_unlock(&g_tsc_lock);
	return true;
}
