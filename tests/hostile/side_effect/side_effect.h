/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of side_effect share: the rows of the syscall table, the objects that calls are
 * made on, the world as it is looked at, and the step from one call to the next.
 */
#ifndef MOAT_TESTS_SIDE_EFFECT_H
#define MOAT_TESTS_SIDE_EFFECT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MOAT_BASE_TYPES_H /* the argument kinds need no more than these */
#include "sentry/argkinds.h"

struct row {
	int nr;
	const char *name;
	int status[2], ret, nargs;
	struct argdesc args[6];
	const char *params; /* as a handler has them */
	char names[6][24];  /* of the arguments */
};
extern struct row g_rows[];
extern const int g_row_count;
bool among(const char *const *list, const char *name);

/* ---- world.c ---- */

/* Kinds of descriptors; each has a fixed number. */
enum {
	FD_FILE = 40,
	FD_RDONLY,
	FD_PIPE_R,
	FD_PIPE_W,
	FD_SOCK,
	FD_SOCK2,
	FD_DGRAM,
	FD_LISTEN,
	FD_EVENT,
	FD_TIMER,
	FD_EPOLL,
	FD_INOTIFY,
	FD_SIGNAL,
	FD_DIR,
	FD_MEMFD,
	FD_RO_FILE,
	FD_NULL,
	FD_MQ,
	FD_SCM, /* a descriptor waits in it */
	FD_END,
	FD_OPATH = FD_END,
	FD_PIDFD,
	FD_ALL,
	FD_CLOSED = 90,
	FD_REPORT = 91,
};

extern char *g_page, *g_readonly, *g_edge; /* good memory; not writable; the end of a mapping */
extern const char *g_ro;                   /* the read-only grant */
extern int g_inotify;                      /* the host takes some 30 ms to give one up */
extern int g_ipc[3];                       /* shared memory, semaphores, messages */

enum {
	K_TREE,
	K_FDS,
	K_OFFSET,
	K_DATA,
	K_SIGNALS,
	K_CRED,
	K_LIMITS,
	K_SELF,
	K_MAPS,
	K_PROCS,
	K_IPC,
	K_MOUNTS,
	K_TIMERS,
	K_COUNT
};
extern const char *const g_keys[K_COUNT];

struct world {
	uint64_t key[K_COUNT];
};

/* Makes what calls are made on, below the working directory. */
void objects(void);
/* Is raised while the world is looked at. */
extern volatile unsigned *g_beat;
void look(struct world *w, bool thorough);
/* Notes what undo() puts back: descriptors, offsets, limits. */
void save(void);
/* Is that all that may have changed? Then it is put back, as far as it goes. */
bool undo(const struct world *was, const struct world *is);

/* ---- calls.c ---- */

enum mode { MODE_ROOT, MODE_USER, MODE_NOFILE, MODE_FSIZE, MODE_LIMITS, MODE_COUNT };
/* Makes the calls of row @r, by step(), always in the same order. */
void row_calls(const struct row *r, enum mode mode);
bool is_pointer(const struct argdesc *d);

/* ---- side_effect.c ---- */

/* What is wrong with a call's arguments. */
enum wrong { W_NOTHING, W_POINTER, W_INSIDE, W_FD, W_FLAGS, W_PATH, W_VALUE };
/* The next call: row @r with arguments @a, of which @arg is bad in the way of @wrong; @what for
 * people. */
void step(const struct row *r, const uint64_t a[6], enum wrong wrong, int arg, const char *what);
extern bool g_padding;

/* ---- demands.c ---- */

/* What has been seen of a row: errors by number, and which of them with a bad argument. */
struct seen {
	uint64_t errors[3];
	uint32_t calls;
	uint8_t efault, ebadf, flags; /* a bit for each argument */
};
void seen_failure(struct seen *s, int error, enum wrong wrong, int arg);
/* Says what has been seen of each row; how much of what is demanded has neither been seen nor is
 * excused. */
unsigned demands(const struct seen *seen, bool (*made)(const struct row *r));

#endif
