/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second wall: the sentry is confined as if a guest had already taken it over.
 *
 *   wall.c        the monitor's half: makes the sentry's process in name spaces of its own, gives
 *                 it its ids, and lets it go on
 *   wall_root.c   the sentry's half: an empty root in which only what is granted is mounted
 *   wall_net.c    a net name space, made meanwhile
 *   wall_exe.c    nothing of the sentry's leads to the host's file of moat but read-only
 *   wall_lock.c   descriptors, limits, capabilities, Landlock
 *
 * Each part is a layer. What the host lacks of one is noted with its mend, and the sandbox goes on
 * without it, or not at all if the grant says strict. seccomp's part is in sentry/.
 */
#ifndef MOAT_RUNTIME_WALL_H
#define MOAT_RUNTIME_WALL_H

#include <sys/types.h>
#include "base/err.h"
#include "base/types.h"

enum wall_layer {
	WALL_NAMESPACES,
	WALL_ROOT,
	WALL_PROC,
	WALL_FILE,
	WALL_PRIVILEGES,
	WALL_LANDLOCK,
	WALL_LAYERS
};

/* Written by the monitor until it has made the sentry's process, then by that; `moat doctor` shares
 * the pages. */
struct wall {
	bool off;         /* for measuring and debugging */
	bool user_ns;     /* the sentry is in a user name space of its own */
	bool ids_refused; /* the monitor could not set its ids */
	bool own_ids;     /* … which maps the caller's ids alone: all others show as 65534 */
	bool spaces;      /* and in name spaces of its own of all other kinds */
	bool root;        /* the root holds only what is granted */
	int new_root;     /* the new root, while it is not yet ours; -1 */
	int proc;         /* a /proc that shows the stubs, mounted nowhere; -1 */
	int root_fd;      /* the host's --root, as it was before; -1 */
	int exe_mount;    /* through which its file was opened, to be closed; -1 */
	int gate[2];      /* the monitor tells the sentry that it has its ids */
	uint64_t caps;    /* that the sentry keeps */
	int landlock;     /* the host's version of it */
	bool lacking[WALL_LAYERS];
	struct err why[WALL_LAYERS]; /* what is missing, and the mend */
};

extern struct wall g_wall;

/* For people: "name spaces of its own". */
const char *wall_layer_name(enum wall_layer l);
const char *wall_layer_summary(const struct wall *w, enum wall_layer l);
/* Notes that the host lacks layer @l. */
void wall_lacks(struct wall *w, enum wall_layer l, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* First thing in main(): where the arguments are, which the sentry shows as its own, too. */
void wall_arguments(int argc, char **argv);
/* The sentry keeps descriptor @fd (-1: none); all that it is not told to it closes. Before
 * wall_clone(). */
void wall_keep(int fd);

/* In the monitor, once: as fork(), with the sentry's process as the child. The child must call
 * wall_enter(). -errno. */
pid_t wall_clone(struct wall *w) MUST_USE;
/* In the child, first: the caller's descriptors are closed, and it dies with the monitor; @ctl: a
 * pipe of which the monitor has the other end. False: the monitor is gone. */
bool wall_begin(struct wall *w, int ctl) MUST_USE;
/* Next, in the child: a thread begins to make its net name space. Until wall_enter() the table of
 * descriptors must not grow: the kernel waits for all processors then, as nobody but us has it. */
void wall_net_begin(const struct wall *w);
/* In the child, while it has one thread and before it makes processes: from here on it reaches what
 * is granted, and no more. -errno and *e: it must end, either since the host does not show what the
 * monitor was given, or since the grant is strict and a layer is missing. */
int wall_enter(struct wall *w, struct err *e) MUST_USE;
/* One line for all that is missing, if anything is. */
void wall_warn(const struct wall *w);

/* Where the guest's root is found now, and the directory that holds granted file @index. O_PATH; or
 * -errno. */
int wall_open_root(void) MUST_USE;
int wall_open_above(uint32_t index) MUST_USE;

/* ---- parts; for wall*.c alone ---- */

/* In the child: enters that net name space, after which it has one thread again. -errno. */
int wall_net_enter(const struct wall *w) MUST_USE;
/* In the child: mounts what is granted below a new root; then makes that the only one. */
void wall_root_build(struct wall *w);
int wall_root_pivot(struct wall *w, struct err *e) MUST_USE;
/* In the child, before it leaves the host's root, while nobody else writes to .data: it runs from
 * another file. */
void wall_exe_enter(struct wall *w);
/* Behind that: the host's kernel waits for all processors then, so for the net name space, too. */
void wall_exe_settle(struct wall *w);
void wall_close_others(struct wall *w);
void wall_limits(void);
void wall_landlock(struct wall *w);
void wall_drop_privileges(struct wall *w);

#endif
