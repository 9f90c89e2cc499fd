/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the monitor gives up when the sentry runs: it is outside of the walls, and the sentry, which
 * a guest may have taken over, talks to it.
 *
 * Theory of operation: three steps, when the sentry has been let go, so that it waits for none of
 * them. monitor_give_up: no_new_privs, no capability, nobody's debugger; and where names are still
 * needed (an archive, a cgroup, a policy that is learnt), Landlock, so that they lead to their
 * directories and nowhere else. Then the thread that writes the audit's file is started, which is
 * to have none of these either; then the filter is taken, for both (platform/monitor_filter.h).
 * Each part of the monitor says before what it needs.
 *
 * Root's monitor keeps CAP_DAC_OVERRIDE (and CAP_FOWNER for an archive in a directory like /tmp) if
 * it has to name or remove something in a directory of another user's.
 *
 * A host that lacks capset or Landlock lacks them for the sentry, too, which says so; without
 * seccomp nothing runs.
 */
#ifndef MOAT_RUNTIME_MONITOR_LOCK_H
#define MOAT_RUNTIME_MONITOR_LOCK_H

#include "base/err.h"
#include "base/types.h"
#include "platform/monitor_filter.h"

#define MONITOR_PATHS_MAX 6

struct monitor_lock {
	unsigned variant; /* MONITOR_… of the filter */
	int slots[MONITOR_SLOTS];
	uint64_t caps; /* that are kept */
	unsigned path_count;
	struct {
		int fd; /* borrowed */
		uint64_t rights;
	} paths[MONITOR_PATHS_MAX];
};

void monitor_lock_init(struct monitor_lock *l);
/* The directory or file @fd, which stays open until monitor_give_up(), is to have Landlock's
 * @rights; below @sticky names of others may be replaced. */
void monitor_lock_path(struct monitor_lock *l, int fd, uint64_t rights, bool sticky);
/* The thread that is to be the only one. */
void monitor_give_up(const struct monitor_lock *l);
/* 0, or -errno and *e: the sandbox must not run. */
int monitor_lock(const struct monitor_lock *l, struct err *e) MUST_USE;

#endif
