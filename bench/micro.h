/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The micro-operations: one static program that times single operations from within, so that the
 * same binary runs natively, on every platform of moat and under every peer.
 *
 * Theory of operation. An operation is a row: prepare, run n times, clean up. micro.c finds an n
 * that takes a few milliseconds and prints nanoseconds per operation. micro_sweep.c measures rows
 * of the same tables again while something else grows: threads, files, mounts, processes.
 * micro_profile.c makes single calls for who looks at the parts of one.
 */
#ifndef MOAT_BENCH_MICRO_H
#define MOAT_BENCH_MICRO_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KIB 1024L
#define MIB (1024L * KIB)
#define BUF_SIZE (64 * KIB)

/* What one operation works with; made by its prepare, undone by its cleanup. */
struct bench {
	const char *self;   /* path of this program, for exec */
	const char *dir;    /* where to make files: a tmpfs */
	const char *rootfs; /* a file of the root file system, 64 KiB or more, read only */
	bool mount_here;    /* mounting needs no name space of its own */
	char *buf;          /* BUF_SIZE bytes */
	char path[512];
	int fd[6];
	char *map;
	uint32_t *word; /* what futex ping-pong turns about */
	pthread_t thread;
	pid_t child;
	bool apart; /* true in a child process that was made for a ping-pong */
};

/* prepare, run and cleanup return 0, or -1 with errno. run makes n operations. */
struct op {
	const char *name;
	int (*prepare)(struct bench *b, const struct op *op);
	int (*run)(struct bench *b, const struct op *op, uint64_t n);
	int (*cleanup)(struct bench *b, const struct op *op);
	long size;
	long kind; /* the table's own */
};

extern const struct op g_identity_ops[], g_file_ops[], g_memory_ops[], g_pass_ops[], g_task_ops[];

/* Measures one operation and prints "PREFIXNAME ns", or "PREFIXNAME - why not". */
void micro_measure(struct bench *b, const struct op *op, const char *prefix);

/* Measures an operation of any table by name. */
void micro_measure_named(struct bench *b, const char *name, const char *prefix);

uint64_t micro_now_ns(void);

/* Prints a result that was timed elsewhere; @ns below zero: errno says why there is none. */
void micro_print(const char *prefix, const char *name, double ns);

/* Makes each of a few calls @count times, with time stamps; see micro_profile.c. -1 with errno. */
int profile_run(struct bench *b, unsigned count);

/* Runs a sweep, or all of them, up to @max of what grows. -1: no such sweep. */
int sweep_run(struct bench *b, const char *name, long max);

/* Makes @count empty files below @dir, named 0, 1, …; and removes them and @dir. */
int files_make(const char *dir, long count);
int files_remove(const char *dir, long count);

#endif
