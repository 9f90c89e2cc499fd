/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher: from a command line to a sandbox that runs, and back to an exit status.
 *
 *   main.c     the commands
 *   options.c  the command line of `moat run`
 *   draft.c    the grant while it is drawn up
 *   monitor.c  the first process: starts the sentry, keeps the terminal, passes signals, reports
 *              the end
 *   audit_log.c  the file of --audit
 *   summary.c  what a failed run is told at its end
 *   archive.c  the files of --save and --load
 *   monitor_lock.c  what the first process gives up when the sentry runs
 *   sandbox.c  the sentry's process: builds the kernel and its file systems, runs pid 2
 *   wall*.c    the sentry's confinement
 *   rootfs.c   the name space that the guest sees
 *   doctor.c   what this host can do
 */
#ifndef MOAT_RUNTIME_RUN_H
#define MOAT_RUNTIME_RUN_H

#include <stdio.h>
#include "base/err.h"
#include "base/types.h"
#include "runtime/draft.h"

/* Exit statuses of moat itself, as shells and container tools have them. */
#define EXIT_USAGE 2
#define EXIT_SENTRY 125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127

enum tty_mode { TTY_AUTO, TTY_ON, TTY_OFF };

struct run_config {
	struct draft draft;   /* what the guest may; until it is frozen: then g_grant is read */
	const char *platform; /* NULL: the fastest that this host can run */
	const char *policy;   /* the file of --policy; NULL: none */
	const char *strace;   /* NULL: off; "": stderr; else a file */
	int strace_fd;
	const char *stats; /* what each guest call cost; NULL: off; "": to stderr; else a file */
	int stats_fd;
	const char *profile; /* where the time of calls went; NULL: off; else a file */
	int profile_fd;
	bool diff;             /* at the end print what changed in memory */
	const char *diff_file; /* NULL: to stderr */
	int diff_fd;
	const char *load; /* an archive of --save that the run begins with */
	int load_fd;
	const char *save; /* where what changed in memory is kept */
	int save_fd;
	int saved_fd;      /* told that the archive is complete */
	bool save_failed;  /* only if the program fails */
	const char *audit; /* what was refused and done; NULL: off; else a file, the monitor's */
	int audit_fd;      /* the sentry's end of the pipe to it; -1: none */
	const char *learn; /* the policy to be written (moat policy learn); NULL: none */
	int learn_fd;      /* what the sentry notes for it */
	bool wall_off;     /* the sentry is not confined: for measuring and debugging */
	int stop_fd;       /* told that the program has stopped; -1: nobody wants to know */
	/* The caller's, a bit for each signal from 1: the program's first ones. */
	uint64_t ignored, blocked;
	uint64_t cpu_soft, cpu_hard; /* the caller's RLIMIT_CPU: the program's */
	bool cpu_held;               /* the hard one is moat's own, too */
	enum tty_mode tty;
	bool use_tty;
	bool stdio_closed[3]; /* by the caller: then closed for the guest, too */
	bool verbose;
	bool debug;
	unsigned workers;      /* 0: as many as processors, up to 4 */
	uint64_t memory_bytes; /* of the host */
	char **argv;           /* the program and its arguments */
};

/* Parses into @cfg, which is all zero (in static memory: it is large, and most of it stays
 * untouched); on a bad line prints one line and exits with EXIT_USAGE. argv[0] is "run". */
void run_parse(int argc, char **argv, struct run_config *cfg);

/* Messages from the monitor to the sentry, one byte each. */
#define CTL_SIGNAL 'S'     /* followed by the signal's number as a byte */
#define CTL_TTY_SIGNAL 'T' /* the same, for all of the program's process group */
#define CTL_WINCH 'W'
/* The terminal that moat was started from is its process group's, or another's. */
#define CTL_FRONT 'F'
#define CTL_BEHIND 'B'

/* `moat policy learn'. */
int learn_main(int argc, char **argv);
/* In the monitor: before the sentry is there; and when it is dead, with moat's exit status. */
int learn_open(struct run_config *cfg, struct err *e) MUST_USE;
struct monitor_lock;
void learn_lock(struct monitor_lock *l);
int learn_finish(struct run_config *cfg, int status);
/* The same, of a run that was ended: there is no policy, which is said. */
int learn_no_end(int status);

/* Runs the sandbox and returns moat's exit status. Forks the sentry. */
int monitor_run(struct run_config *cfg);
/* Does not return if @status is that of a program that monitor_run has run and that died of a
 * signal, unless the host lets nobody die of it, as of pid 1, or it is SIGKILL. */
void monitor_die(int status);

/* In the sentry's process. Returns the exit status for the monitor. @ctl: the end of the control
 * channel. */
int sandbox_main(struct run_config *cfg, int ctl);

struct super;
struct mount_ns;
struct vfs_ctx;
/* In this process and without any guest: builds what g_grant says and calls @fn on a fiber, with
 * the guest's credentials. What @fn returned, or -errno and *e. Once. */
int sandbox_ask(struct run_config *cfg, int (*fn)(struct vfs_ctx *c, void *arg), void *arg,
		struct err *e) MUST_USE;

/* Opens the grants' descriptors (before the sentry gives anything up). 0, or -errno and *e. */
int rootfs_open_grants(struct draft *d, struct err *e) MUST_USE;
/* Builds the name space that g_grant says. On a fiber. */
int rootfs_build(struct mount_ns **out, struct err *e) MUST_USE;
/* /tmp, /dev, /proc, the grants: mounted into the root, with @c as their maker. On a fiber. */
int rootfs_populate(const struct run_config *cfg, struct vfs_ctx *c, struct err *e) MUST_USE;

/* A line for each layer of the second wall. */
void wall_describe(FILE *f);
int doctor_main(int argc, char **argv);
/* A line for each platform: does it work here, or what is lacking. Does any? */
bool platforms_describe(FILE *f);

#endif
