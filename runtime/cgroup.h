/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup behind the meters: what holds a sentry that was taken over, or has not looked yet.
 *
 * Theory of operation: the meters are the sentry's, and exact; this is the host's kernel, and has
 * room for what the sentry needs besides the guest. The monitor makes a directory below the
 * caller's own cgroup of each controller that is needed (v1 or v2, whichever has it), sets it,
 * puts the sentry in while that waits at the gate, and removes it when the sentry is dead. In v2
 * it is one directory for all, below the nearest cgroup that has no processes of its own, with the
 * limits of those between, and the sandbox one further down, which keeps the controllers on. Since
 * that costs 50 to 110 µs for each, only limits that somebody named have one, not those of the
 * preset default. Where the host gives none the meters stand alone; only a part of a processor
 * (cpu_share) cannot be held then, and is refused.
 *
 * Each directory is locked (flock) by the monitor that made it: one that can be locked was left
 * by a monitor that was killed, and the next that comes there removes it if nobody is in it.
 */
#ifndef MOAT_RUNTIME_CGROUP_H
#define MOAT_RUNTIME_CGROUP_H

#include <stdio.h>
#include <sys/types.h>
#include "base/err.h"
#include "base/types.h"

/* In the monitor, before the sentry is there. 0, or -errno and *e: the grant cannot be held. */
int cgroup_make(struct err *e) MUST_USE;
/* In the monitor: @child, which waits, and what it starts, are held by it from now on. */
int cgroup_take(pid_t child) MUST_USE;
struct monitor_lock;
/* What cgroup_end() needs. */
void cgroup_lock(struct monitor_lock *l);
/* In the monitor: nothing of the sandbox is left, and then nothing of it either. */
void cgroup_end(void);
/* For moat doctor: one line. */
void cgroup_describe(FILE *f);

#endif
