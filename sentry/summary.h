/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moat tells of a run at its end: what was looked for and is not granted, what was refused,
 * which limits.
 *
 * Theory of operation: a region of memory that the monitor makes before the sentry and shares with
 * it. The sentry notes what happens there, at once, so that the notes are there whatever becomes of
 * it; when it is dead the monitor reads them (runtime/summary.c). Nothing goes the other way.
 *
 * What is not granted and is not there look the same to the guest, and to the sentry. Of what was
 * looked for in vain (vfs/missed.c) the monitor asks the host, once the sandbox is gone: only what
 * the host has is told. So neither the answer nor the time that it takes reaches the guest.
 *
 * The region is bounded: of paths the last ones are kept, as it is the last that a program has died
 * of, mostly.
 *
 * Trust: the monitor takes everything in the region for hostile.
 *
 * Locking: the sentry's own, a leaf; counters are atomic.
 */
#ifndef MOAT_SENTRY_SUMMARY_H
#define MOAT_SENTRY_SUMMARY_H

#include "base/meter.h"
#include "base/types.h"

#define SUMMARY_PATHS 128u
#define SUMMARY_PATH_SIZE 1024u
#define SUMMARY_LINES 8u
#define SUMMARY_LINE_SIZE 640u
/* Of an event for the audit's log, without what would allow it. */
#define SUMMARY_EVENT_SIZE 6912u
#define SUMMARY_CALLS 512u

/* For what a path was looked for. */
enum summary_use {
	SUMMARY_READ,   /* or executing, or just asking */
	SUMMARY_WRITE,  /* a file that is to be there */
	SUMMARY_CREATE, /* a file that is made if it is not there */
	SUMMARY_NAME,   /* a name in its directory is made */
	SUMMARY_REMOVE, /* a name in its directory is removed */
	SUMMARY_EXEC,
	SUMMARY_USES
};

/* What programs ask for, too, just to find out whether it is there: who ends well has not missed
 * it, and of who does not it need not be the reason. */
enum summary_asked {
	SUMMARY_ASKED_NOTHING,
	SUMMARY_ASKED_NETWORK,
	SUMMARY_ASKED_SPACES,
	SUMMARY_ASKED_COUNT
};
#define SUMMARY_WHO_SIZE 16u

struct summary_path {
	_Atomic uint32_t ready;
	uint32_t order; /* later is greater */
	uint16_t nr;    /* of the system call */
	uint8_t use;    /* enum summary_use */
	uint8_t hidden; /* a rule hides it */
	char path[SUMMARY_PATH_SIZE];
	/* With an audit log: the event as JSON, without its closing brace; else "". */
	char event[];
};

struct summary {
	_Atomic bool locked;      /* the sentry has its own filter */
	_Atomic uint8_t died_of;  /* the first program: the signal; 0: none */
	_Atomic bool died_of_key; /* it was typed at the console */
	_Atomic uint64_t crowded; /* lookups that were too many at once, or overwritten */
	_Atomic uint64_t refused[METER_COUNT];
	_Atomic uint8_t told[METER_COUNT]; /* said already: somebody was killed */
	_Atomic uint64_t cpu_limit; /* RLIMIT_CPU of who was killed for it, and 1; 0: nobody */
	_Atomic uint64_t not_served[SUMMARY_CALLS / 64];
	/* Denials: what the audit would have said at once. */
	_Atomic uint32_t line_count; /* all that there were; the last SUMMARY_LINES are there */
	char lines[SUMMARY_LINES][SUMMARY_LINE_SIZE];
	uint8_t line_asked[SUMMARY_LINES]; /* enum summary_asked */
	struct {
		_Atomic uint32_t processes; /* that were refused it and have not ended well */
		char who[SUMMARY_WHO_SIZE]; /* the name of the last of them that has ended */
	} asked[SUMMARY_ASKED_COUNT];
};

/* The region, and behind it SUMMARY_PATHS times struct summary_path, each of g_summary_stride
 * bytes. NULL: none. Set by the monitor before the sentry is started. */
extern struct summary *g_summary;
extern size_t g_summary_stride;

static inline size_t summary_paths_at(void)
{
	return (sizeof(struct summary) + 63) & ~(size_t)63;
}

static inline struct summary_path *summary_path_at(unsigned i)
{
	return (struct summary_path *)(void *)((char *)g_summary + summary_paths_at() +
					       i * g_summary_stride);
}

/* ---- in the sentry ---- */

/* A meter has refused something. Any thread, any locks. */
static inline void summary_refused(enum meter m)
{
	if (g_summary)
		atomic_fetch_add_explicit(&g_summary->refused[m], 1, memory_order_relaxed);
}
/* It has been said on standard error, since somebody was killed for it. */
static inline void summary_told(enum meter m)
{
	if (g_summary)
		atomic_store_explicit(&g_summary->told[m], 1, memory_order_relaxed);
}
/* A process was killed since it had @seconds of processor time, its RLIMIT_CPU. */
static inline void summary_cpu_limit(uint64_t seconds)
{
	if (g_summary)
		atomic_store_explicit(&g_summary->cpu_limit, seconds + 1, memory_order_relaxed);
}
void summary_not_served(unsigned nr);
/* A line about a denial, quoted, without "moat: ". */
void summary_line(const char *quoted, enum summary_asked asked);
/* A process was refused @asked for the first time. */
void summary_asked(enum summary_asked asked);
/* A process @who has ended that was refused what @asked has bits of (1 << enum summary_asked). */
void summary_asked_ended(uint8_t asked, const char *who, bool well);
/* May another denial be looked into, for the summary's sake alone? */
bool summary_admit(void) MUST_USE;
/* A place for a lookup that was in vain, or -1. Is there one of this @key already it counts as the
 * latest. The place is the caller's until summary_path_done() or summary_path_drop(). */
int summary_path_take(uint64_t key) MUST_USE;
/* *p is filled in, or the lookup is not to be told. */
void summary_path_done(unsigned i, uint64_t key);
void summary_path_drop(unsigned i, uint64_t key);

#endif
