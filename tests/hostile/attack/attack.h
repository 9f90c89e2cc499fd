/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of attack.c share. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef TESTS_HOSTILE_ATTACK_H
#define TESTS_HOSTILE_ATTACK_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* The exit status of an attack that succeeded in a way that neither output nor tree show. */
#define HARM 99

struct attack {
	const char *name, *class; /* escape, leak, deputy */
	int (*run)(void);
	void (*ally)(void);  /* outside, as long as the attack runs */
	void (*scene)(void); /* outside, before it */
	/* What the runner does, a list with commas: inherit (7: out/secret open for reading, 8: out
	 * a directory), stdin-dir, stdin-file, root (needed natively), refused (moat may refuse to
	 * start), identity (the host's names are the secret), controls (a control character is),
	 * pty (on a terminal), moat=OPTION, attributes (lsattr works), hides (a rule hides ro/hidden and ro/hidden_dir), dies (by a signal), unnative:WHY (nothing to succeed at
	 * natively) */
	const char *flags;
};

extern char g_case[PATH_MAX];

const char *in(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void tried(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool show(int fd, const char *what);
bool show_path(const char *path);
void put_file(const char *path, const char *text, mode_t mode);
unsigned rounds(void);
bool again(unsigned i, unsigned count);

#endif
