/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a scale program talks to tests/run-scale.sh: it prints its result lines,
 * then "ready", and waits for a line on standard input; meanwhile the runner
 * looks at the memory of the sandbox. Then it does its work once more and asks
 * again, so that growth shows.
 */
#ifndef TESTS_SCALE_SCALE_H
#define TESTS_SCALE_SCALE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Tell the runner that a step is done and wait until it has looked. */
static inline void scale_ready(void)
{
	char line[16];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

static inline void scale_begin(void)
{
	const char *tmp = getenv("TMPDIR");

	if (chdir(tmp ? tmp : "/tmp"))
		exit(1);
	scale_ready();
}

static inline void scale_fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
	exit(1);
}

#endif
