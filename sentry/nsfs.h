/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name spaces as files: what the links of /proc/PID/ns lead to.
 */
#ifndef MOAT_SENTRY_NSFS_H
#define MOAT_SENTRY_NSFS_H

#include "vfs/vfs.h"

/* The kinds, by clone's flags. */
#define CLONE_NEWTIME_ 0x80ull
#define CLONE_NEWNS_ 0x20000ull
#define CLONE_NEWCGROUP_ 0x2000000ull
#define CLONE_NEWUTS_ 0x4000000ull
#define CLONE_NEWIPC_ 0x8000000ull
#define CLONE_NEWUSER_ 0x10000000ull
#define CLONE_NEWPID_ 0x20000000ull
#define CLONE_NEWNET_ 0x40000000ull
#define CLONE_ANY_NEW                                                                       \
	(CLONE_NEWNS_ | CLONE_NEWCGROUP_ | CLONE_NEWUTS_ | CLONE_NEWIPC_ | CLONE_NEWUSER_ | \
	 CLONE_NEWPID_ | CLONE_NEWNET_ | CLONE_NEWTIME_)

/* Makes the files. Once, at start, on a fiber. 0 or -ENOMEM. */
int nsfs_start(void) MUST_USE;

/* Where the link /proc/PID/ns/@name leads, with references. -ENOENT: no such kind; -ENOMEM. */
int nsfs_path(const char *name, struct path *out) MUST_USE;

#endif
