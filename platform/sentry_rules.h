/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sentry's own seccomp filter lets pass, as a table: the rows with RUN and ANSWER of
 * base/hostcall.def, with the meaning of their words. To be included once, by who makes the filter
 * (platform/gen/sentry_filter.c), the document (platform/gen/host_doc.c) or the test
 * (tests/unit/test_sentry_filter.c).
 */
#ifndef MOAT_PLATFORM_SENTRY_RULES_H
#define MOAT_PLATFORM_SENTRY_RULES_H

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "base/host_watch_events.h"
#include "platform/filter_rule.h"
#include "platform/sentry_filter.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* Where a row holds. */
#define ON_TRAP (1u << SENTRY_TRAP)
#define ON_PTRACE (1u << SENTRY_PTRACE)
#define ON_NOTIFY (1u << SENTRY_NOTIFY)
#define ON_TRAPS (ON_TRAP | ON_NOTIFY)
#define ON_ALL (ON_TRAP | ON_PTRACE | ON_NOTIFY)
#define ON_ONLY_RW 0x100u /* with a grant for writing */
#define ON_RW (ON_ALL | ON_ONLY_RW)
#define ON_ONLY_OLD 0x400u /* on hosts that lack openat2 or fchmodat2 */
#define ON_OLD (ON_ALL | ON_ONLY_OLD)
#define ON_OLD_RW (ON_RW | ON_ONLY_OLD)
#define ON_ONLY_DEBUG 0x200u /* in builds for debugging, with sanitizers or for coverage */
#define ON_DEBUG (ON_ALL | ON_ONLY_DEBUG)
#define ON_ONLY_SAN 0x800u /* in the latter two */
#define ON_SAN (ON_ALL | ON_ONLY_SAN)

#define ALL_BITS UINT64_MAX
#define LOW_HALF UINT32_MAX
#define BIT31 0x80000000u

/* A descriptor, not AT_FDCWD (or another number below 0). */
#define FD_ARG(n) ARG_BITS(n, BIT31, 0, "a descriptor")
#define DIR_ARG(n) ARG_BITS(n, BIT31, 0, "dir is a descriptor")
#define OPEN_FLAGS(n)                                               \
	ARG_BITS(n, O_NOFOLLOW | O_CLOEXEC, O_NOFOLLOW | O_CLOEXEC, \
		 "flags: O_NOFOLLOW, O_CLOEXEC, and others")
#define NO_EXEC(n) \
	ARG_BITS(n, ~(uint64_t)(PROT_READ | PROT_WRITE), 0, "prot: only PROT_READ, PROT_WRITE")
#define NOT_FIXED(n) ARG_BITS(n, MAP_FIXED, 0, "flags: not MAP_FIXED")
/* Private or shared, by any clock: what comes from <linux/futex.h> is no more than this. */
#define FUTEX_OPS(n)                                                                             \
	ARG_ONE_OF(n, "op", LOW_HALF & ~(uint64_t)(128 | 256), HOST_FUTEX_WAIT, HOST_FUTEX_WAKE, \
		   HOST_FUTEX_WAIT_BITSET)
#define HOST_FUTEX_WAIT 0
#define HOST_FUTEX_WAKE 1
#define HOST_FUTEX_WAIT_BITSET 9
/* SIGRTMAX - 1, which is no constant: platform/host_ptrace.c. */
#define HOST_KICK_SIGNAL 63
/* What pthread_create asks for. */
#define HOST_CLONE_THREAD                                                                   \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_SIGHAND | CLONE_THREAD | \
	 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

struct sentry_rule {
	unsigned on;
	int error; /* 0: it passes */
	const char *words, *class;
	struct filter_rule rule;
};

static const struct sentry_rule g_sentry_rules[] = {
#define HOST_TAG(tag, call, who, words_, purpose_)
#define HOST_LIBC(call, who, class_, purpose_)
#define HOST_RUN(tag, call, on_, words_, purpose_, ...) \
	{.on = ON_##on_, .words = (words_), .rule = RULE(call, purpose_, __VA_ARGS__)},
#define HOST_LIBC_RUN(call, on_, class_, purpose_, ...) \
	{.on = ON_##on_, .words = "", .class = #class_, .rule = RULE(call, purpose_, __VA_ARGS__)},
#define HOST_ANSWER(call, error_, purpose_, ...) \
	{.on = ON_ALL, .error = (error_), .words = "", .rule = RULE(call, purpose_, __VA_ARGS__)},
#include "base/hostcall.def"
};

enum sentry_build { SENTRY_SHIPPED, SENTRY_DEBUG, SENTRY_SAN };

/* Does the row belong to the filter of @platform, @variant of it, in @build? */
static inline bool sentry_rule_holds(const struct sentry_rule *r, enum sentry_platform platform,
				     unsigned variant, enum sentry_build build)
{
	return (r->on & 1u << platform) && (variant & SENTRY_RW || !(r->on & ON_ONLY_RW)) &&
	       (variant & SENTRY_OLD || !(r->on & ON_ONLY_OLD)) &&
	       (build >= SENTRY_DEBUG || !(r->on & ON_ONLY_DEBUG)) &&
	       /* There the calls pass that have answers elsewhere. */
	       (build == SENTRY_SAN ? r->error == 0 : !(r->on & ON_ONLY_SAN));
}

#endif
