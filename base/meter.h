/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Meters: how much of each thing a sandbox uses, how much it may, and how often it was refused.
 *
 * Theory of operation: one counter per kind of thing, in a table; the limits are set once, before
 * guest code runs, from the grant (sentry/grant.h). Whoever makes a thing on a guest's behalf
 * charges it first and gives the errno that Linux has for the like case if that fails; whoever
 * frees it uncharges. Things are charged when memory or the like is really taken, not at each use,
 * so that no hot path has more than an addition.
 *
 * Locking: none; the counters are atomic. A charge that fails may for a moment make another fail
 * that would just have fitted.
 */
#ifndef MOAT_BASE_METER_H
#define MOAT_BASE_METER_H

#include "base/alloc.h"
#include "base/types.h"

/* X(name in C and in policy files, unit, what it is). Each is a count, bytes, a share in percent or
 * nanoseconds, as its unit says. */
#define METERS(X)                                                                  \
	X(processes, COUNT, "processes of the guest at once")                      \
	X(threads, COUNT, "threads of the guest at once, of all processes")        \
	X(memory, BYTES, "memory of the guest's processes and in-memory files")    \
	X(sentry_memory, BYTES, "memory of the sentry itself")                     \
	X(cpu_time, TIME, "processor time of the sandbox")                         \
	X(cpu_share, PERCENT, "share of processors; 100 is one of them")           \
	X(wall_time, TIME, "time from start to end")                               \
	X(open_files, COUNT, "open file descriptions of the sandbox")              \
	X(file_bytes, BYTES, "contents of files in memory, what vanishes")         \
	X(file_inodes, COUNT, "number of files in memory, which vanish")           \
	X(write_bytes, BYTES, "bytes written to granted and standard files")       \
	X(buffers, BYTES, "contents of pipes, sockets, terminals, message queues") \
	X(in_flight, COUNT, "descriptors in flight in messages")                   \
	X(timers, COUNT, "POSIX timers, timerfds, interval timers")                \
	X(signals, COUNT, "queued signals")                                        \
	X(maps, COUNT, "memory maps of one process")                               \
	X(locks, COUNT, "file locks")                                              \
	X(watches, COUNT, "inotify watches, epoll entries")                        \
	X(log_bytes, BYTES, "bytes written to the audit log")

enum meter {
#define X(name, unit, what) METER_##name,
	METERS(X)
#undef X
		METER_COUNT
};

enum meter_unit { METER_UNIT_COUNT, METER_UNIT_BYTES, METER_UNIT_TIME, METER_UNIT_PERCENT };

#define METER_NO_LIMIT UINT64_MAX

struct meter_state {
	_Atomic uint64_t current;
	_Atomic uint64_t peak;
	_Atomic uint64_t refused;
	uint64_t limit; /* constant once guests run */
} __attribute__((aligned(64)));

extern struct meter_state g_meters[METER_COUNT];

/* Sets the limits. Once, before guests run; until then there are none. */
void meters_start(const uint64_t limits[METER_COUNT]);
/* Told of each refusal, on whatever thread, with any locks held: it must neither block nor
 * allocate. NULL, or set before guests run. */
extern void (*g_meter_on_refusal)(enum meter m);

const char *meter_name(enum meter m);
const char *meter_what(enum meter m);
enum meter_unit meter_unit_of(enum meter m);
/* "4", "64 MiB", "2.5 s", "150%", for people. */
#define METER_TEXT_SIZE 32u
void meter_text(enum meter m, uint64_t v, char out[METER_TEXT_SIZE]);
/* What stands for a value in advice: "N", "SIZE", "TIME", "SHARE". */
const char *meter_placeholder(enum meter m);

/* Counts a refusal that was decided elsewhere. */
void meter_refuse(enum meter m);
void meter_raise_peak(enum meter m, uint64_t now);
/* @n more may not be: takes it back and counts the refusal. */
void meter_over(enum meter m, uint64_t n);

/* What is there already and cannot be refused. */
static inline void meter_charge_found(enum meter m, uint64_t n)
{
	struct meter_state *s = &g_meters[m];
	uint64_t now = atomic_fetch_add_explicit(&s->current, n, memory_order_relaxed) + n;

	if (unlikely(now > atomic_load_explicit(&s->peak, memory_order_relaxed)))
		meter_raise_peak(m, now);
}

/* False, and nothing charged: the limit does not allow @n more. @n is no guest's free choice above
 * 2^62. */
MUST_USE static inline bool meter_charge(enum meter m, uint64_t n)
{
	struct meter_state *s = &g_meters[m];
	uint64_t now = atomic_fetch_add_explicit(&s->current, n, memory_order_relaxed) + n;

	if (unlikely(now > s->limit)) {
		meter_over(m, n);
		return false;
	}
	if (unlikely(now > atomic_load_explicit(&s->peak, memory_order_relaxed)))
		meter_raise_peak(m, now);
	return true;
}

static inline void meter_uncharge(enum meter m, uint64_t n)
{
	atomic_fetch_sub_explicit(&g_meters[m].current, n, memory_order_relaxed);
}

/* For meters whose value is measured, not counted. */
static inline void meter_set(enum meter m, uint64_t now)
{
	atomic_store_explicit(&g_meters[m].current, now, memory_order_relaxed);
	if (unlikely(now > atomic_load_explicit(&g_meters[m].peak, memory_order_relaxed)))
		meter_raise_peak(m, now);
}

/*
 * Memory is counted when it is used, which only the host sees, so it is looked at (by
 * sentry/meter_watch.c) only while it could be more than the limit: while what guests have mapped,
 * which is counted here, and what else is charged to METER_memory are more than that.
 */
extern _Atomic uint64_t g_memory_mapped;
/* What looks. Any thread, any locks; does not block. NULL: nothing does. */
extern void (*g_memory_look)(void);

/* @n bytes more; or fewer: then @n is negative, and @more false. */
void memory_mapped(uint64_t n, bool more);

/* Could @more bytes lead beyond the limit on memory? */
static inline bool memory_might_exceed(uint64_t more)
{
	const uint64_t limit = g_meters[METER_memory].limit;

	if (likely(limit == METER_NO_LIMIT))
		return false;
	/* A page that lies alone takes a page of its table, and one of that's. */
	const uint64_t most =
		3 * atomic_load_explicit(&g_memory_mapped, memory_order_relaxed) +
		atomic_load_explicit(&g_meters[METER_memory].current, memory_order_relaxed);

	return unlikely(most > limit || more > limit - most);
}

static inline uint64_t meter_current(enum meter m)
{
	return atomic_load_explicit(&g_meters[m].current, memory_order_relaxed);
}

static inline uint64_t meter_limit(enum meter m)
{
	return g_meters[m].limit;
}

/* Memory that is charged with its size: zeroed, or NULL; given back by meter_free() with that size.
 */
MUST_USE static inline void *meter_zalloc(enum meter m, size_t size)
{
	void *p;

	if (!meter_charge(m, size))
		return NULL;
	p = mem_zalloc(size);
	if (!p)
		meter_uncharge(m, size);
	return p;
}

static inline void meter_free(enum meter m, void *p, size_t size)
{
	meter_uncharge(m, size);
	mem_free(p);
}

#endif
