/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentry's own seccomp filter: after the lock-down it can make no host call but those.
 *
 * Theory of operation: the programs, one for each platform and variant, are
 * made when moat is built, by libseccomp from the rows of base/hostcall.def
 * (platform/gen/sentry_filter.c); so all that is left to do at the start is one host call. It holds
 * for all threads that there are (TSYNC) and all that come. What it refuses kills the process,
 * except for a few calls of the C library's that have an answer. A build for debugging first names
 * the call.
 */
#ifndef MOAT_PLATFORM_SENTRY_FILTER_H
#define MOAT_PLATFORM_SENTRY_FILTER_H

#include "base/err.h"
#include "base/types.h"

/* Variants, to be added up. */
#define SENTRY_RW 1u  /* something is granted for writing */
#define SENTRY_OLD 2u /* the host lacks openat2 or fchmodat2 (before Linux 6.6) */
#define SENTRY_VARIANTS 4u

enum sentry_platform { SENTRY_TRAP, SENTRY_PTRACE, SENTRY_NOTIFY, SENTRY_PLATFORMS };

/* The host's struct sock_filter. */
struct sentry_insn {
	uint16_t code;
	uint8_t jt, jf;
	uint32_t k;
};

struct sentry_program {
	const struct sentry_insn *insns;
	uint16_t count;
};

/* [platform][variant]; made by the build. */
extern const struct sentry_program g_sentry_programs[SENTRY_PLATFORMS][SENTRY_VARIANTS];

#ifdef MOAT_DEBUG
/* Between these a refused call of this thread sets *@refused, and is ENOSYS: to try what is. */
void sentry_refusals_begin(bool *refused);
void sentry_refusals_end(void);
#endif

/* From here on @p holds for all of the process's threads, of which the caller has no_new_privs. 0,
 * or -errno and *e. */
int filter_take(const struct sentry_program *p, bool is_monitor, struct err *e) MUST_USE;
/* From here on the filter holds, for all of the process's threads. Once. 0, or -errno and *e. */
int sentry_lock_down(const char *platform, bool writable, struct err *e) MUST_USE;

#endif
