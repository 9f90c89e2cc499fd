/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's own seccomp filter: once the sentry runs it can make no host call but those.
 *
 * Theory of operation: as the sentry's (platform/sentry_filter.h), the programs are made when moat
 * is built, from the rows of base/hostcall.def. But the monitor has so few descriptors that the
 * filter knows each: where a program is to compare with one, or with the sentry's process, it has a
 * number that stands for it (MONITOR_SLOT), which is replaced when the number is known. What a
 * monitor does not have is replaced by -1, which is nobody's. Calls that take names are in the
 * programs of those runs alone that need them.
 */
#ifndef MOAT_PLATFORM_MONITOR_FILTER_H
#define MOAT_PLATFORM_MONITOR_FILTER_H

#include "base/err.h"
#include "base/types.h"
#include "platform/sentry_filter.h"

/* Variants, to be added up. */
#define MONITOR_AUDIT 1u  /* --audit: a thread writes the log */
#define MONITOR_SAVE 2u   /* --save, --keep-on-fail: an archive gets its name */
#define MONITOR_CGROUP 4u /* a cgroup is to be removed */
#define MONITOR_LEARN 8u  /* moat policy learn: a policy is written */
#define MONITOR_VARIANTS 16u

/* What a program is told when it is taken: descriptors, but for the first two. */
enum monitor_slot {
	MONITOR_SENTRY,       /* its process */
	MONITOR_SELF,         /* the monitor */
	MONITOR_CONTROL,      /* the pipe to it */
	MONITOR_TTY,          /* the session's terminal, if a standard file is it */
	MONITOR_STOPPED,      /* the pipe by which the sentry tells that the program was stopped */
	MONITOR_MOUNTS,       /* the table of mounts */
	MONITOR_STATS,        /* the file of --stats */
	MONITOR_LOG,          /* the file of --audit */
	MONITOR_LOG_PIPE,     /* what comes for it */
	MONITOR_ARCHIVE,      /* the file of --save */
	MONITOR_ARCHIVE_DIR,  /* where it is */
	MONITOR_ARCHIVE_PIPE, /* by which the sentry tells that it is complete */
	MONITOR_POLICY,       /* the file of moat policy learn */
	MONITOR_OOM,          /* the cgroup's file that counts whom the host has killed */
	MONITOR_PARENT, /* directories that hold a cgroup of ours; three, and one of v2's below */
	MONITOR_SLOTS = MONITOR_PARENT + 4
};

/* No process and no descriptor has it. */
#define MONITOR_SLOT(s) (0x7fffff00u + (s))

extern const struct sentry_program g_monitor_programs[MONITOR_VARIANTS];

/* A copy of the program of @variant that knows @slots (-1: there is none), from malloc; NULL: no
 * memory. */
struct sentry_insn *monitor_program(unsigned variant, const int slots[MONITOR_SLOTS]) MUST_USE;
/* From here on it holds for all threads of this process, which has no_new_privs. 0, or -errno and
 * *e. */
int monitor_lock_down(unsigned variant, const int slots[MONITOR_SLOTS], struct err *e) MUST_USE;

#endif
