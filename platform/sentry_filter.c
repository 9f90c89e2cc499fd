/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock-down. See platform/sentry_filter.h.
 */
#include "platform/sentry_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/hostcall.h"

#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* The host's struct sock_fprog. */
struct program {
	uint16_t count;
	const struct sentry_insn *insns;
};

static const char *const g_names[SENTRY_PLATFORMS] = {
	[SENTRY_TRAP] = "trap", [SENTRY_PTRACE] = "ptrace", [SENTRY_NOTIFY] = "notify"};

#ifdef MOAT_DEBUG
#define BPF_RETURN 0x06

static _Thread_local bool *t_refused;
static const char *g_who;

void sentry_refusals_begin(bool *refused)
{
	*refused = false;
	t_refused = refused;
}

void sentry_refusals_end(void)
{
	t_refused = NULL;
}

static void on_refused(int sig UNUSED, siginfo_t *si, void *ctx)
{
	greg_t *g = ((ucontext_t *)ctx)->uc_mcontext.gregs;
	char line[256];
	const int n = snprintf(line, sizeof(line),
			       "moat: the %s's filter refuses its host call %d (0x%llx, 0x%llx, "
			       "0x%llx, 0x%llx, 0x%llx, 0x%llx), made at %p\n",
			       g_who, si->si_syscall, g[REG_RDI], g[REG_RSI], g[REG_RDX],
			       g[REG_R10], g[REG_R8], g[REG_R9], si->si_call_addr);

	if (t_refused) {
		*t_refused = true;
		g[REG_RAX] = -ENOSYS;
		return;
	}
	(void)!HOST(write_log, write(STDERR_FILENO, line, (size_t)n));
	/* Again: the signal is blocked here, and so this is the end, by SIGSYS. */
	for (;;)
		HOST(seccomp_lock, syscall(SYS_seccomp, ~0u, 0, NULL));
}

/* A copy that signals where the other kills. */
static const struct sentry_insn *loud(const struct sentry_program *p, const char *who)
{
	const struct sigaction sa = {.sa_sigaction = on_refused,
				     .sa_flags = SA_SIGINFO | SA_ONSTACK};
	struct sentry_insn *copy = mem_zalloc(p->count * sizeof(*copy));

	g_who = who;
	if (!copy || HOST(rt_sigaction_own, sigaction(SIGSYS, &sa, NULL)) < 0)
		return p->insns;
	memcpy(copy, p->insns, p->count * sizeof(*copy));
	for (unsigned i = 0; i < p->count; i++) {
		if (copy[i].code == BPF_RETURN && copy[i].k == SECCOMP_RET_KILL_PROCESS)
			copy[i].k = SECCOMP_RET_TRAP;
	}
	return copy;
}
#else
static const struct sentry_insn *loud(const struct sentry_program *p, const char *who UNUSED)
{
	return p->insns;
}
#endif

/* Without a descriptor, and without room for a struct, they find fault with those. */
static bool host_lacks_calls(void)
{
	return HOST(fchmodat2_file, syscall(SYS_fchmodat2, -1, "", 0, AT_EMPTY_PATH)) == 0 ||
	       errno != EBADF || HOST(openat2_file, syscall(SYS_openat2, -1, "", NULL, 0)) == 0 ||
	       errno != EINVAL;
}

int filter_take(const struct sentry_program *p, bool is_monitor, struct err *e)
{
	const unsigned flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
	const char *who = is_monitor ? "monitor" : "sentry";
	struct program prog = {.count = p->count, .insns = loud(p, who)};
	long r;

	/* Neither runs code but moat's: the host's mitigation against speculation within one
	 * process would protect nothing of it. */
	g_host_locked = true;
	if (is_monitor)
		r = HOST(seccomp_monitor,
			 syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog));
	else
		r = HOST(seccomp_lock, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog));
	if (r != 0)
		return err_set(e, r < 0 ? errno : ESRCH,
			       "the %s cannot take its seccomp filter: %s", who,
			       r < 0 ? err_text(errno) : "a thread has another one");
	return 0;
}

int sentry_lock_down(const char *platform, bool writable, struct err *e)
{
	const unsigned variant = (writable ? SENTRY_RW : 0) | (host_lacks_calls() ? SENTRY_OLD : 0);

	if (HOST(prctl_nnp, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) < 0)
		return err_set(e, errno, "this host forbids to give up privileges: %s",
			       err_text(errno));
	for (unsigned i = 0; i < SENTRY_PLATFORMS; i++) {
		if (strcmp(platform, g_names[i]) == 0)
			return filter_take(&g_sentry_programs[i][variant], false, e);
	}
	return err_set(e, ENOSYS, "the platform %s has no filter for the sentry", platform);
}
