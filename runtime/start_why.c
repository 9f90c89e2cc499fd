/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a sandbox does not start. See runtime/start_why.h.
 *
 * Theory of operation: nothing is looked at before something has failed, but whether moat was
 * started below a seccomp filter, which the monitor cannot tell from its own later.
 */
#include "runtime/start_why.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include "base/hostcall.h"
#include "sentry/summary.h"

/* What is enough for any start, with which a program can do something, too. */
#define ENOUGH_FILES 256
/* The start needs some 20, and with as many more a small program runs. */
#define LEAST_FILES 40
/* What a thread's stack and the heap take of address space or data. */
#define ENOUGH_SPACE ((rlim_t)64 << 20)
#define ENOUGH_PROCESSES 1024

static bool g_below_filter;

/* Is the caller's limit @which below @enough? Then *is is what it is. */
static bool is_below(int which, bool hard, rlim_t enough, rlim_t *is)
{
	struct rlimit rl;

	if (HOST(prlimit64_get, getrlimit((__rlimit_resource_t)which, &rl)) < 0)
		return false;
	*is = hard ? rl.rlim_max : rl.rlim_cur;
	return *is < enough;
}

int start_why_few_files(struct err *e)
{
	rlim_t is;

	if (!is_below(RLIMIT_NOFILE, true, LEAST_FILES, &is))
		return 0;
	return err_set(e, EMFILE,
		       "moat may have only %llu descriptors (ulimit -Hn), too few to start with; "
		       "allow %d",
		       (unsigned long long)is, ENOUGH_FILES);
}

void start_why_limits(int error, struct err *e)
{
	rlim_t is;

	if (error == -EAGAIN && is_below(RLIMIT_NPROC, false, ENOUGH_PROCESSES, &is))
		(void)err_set(e, EAGAIN,
			      "the caller may have only %llu processes and threads (ulimit -u), "
			      "too few to start with; allow %d",
			      (unsigned long long)is, ENOUGH_PROCESSES);
	else if ((error == -ENOMEM && (is_below(RLIMIT_AS, false, RLIM_INFINITY, &is) ||
				       is_below(RLIMIT_DATA, false, RLIM_INFINITY, &is))) ||
		 /* So a thread's stack says it. */
		 (error == -EAGAIN && (is_below(RLIMIT_AS, false, ENOUGH_SPACE, &is) ||
				       is_below(RLIMIT_DATA, false, ENOUGH_SPACE, &is))))
		(void)err_set(e, ENOMEM,
			      "moat may have only %llu KiB of address space or data (ulimit -v, "
			      "-d), too little to start with; lift that, and limit the sandbox "
			      "with: --limit memory=SIZE",
			      (unsigned long long)is / 1024);
}

const char *start_why_no_process(int error)
{
	switch (error) {
	case EAGAIN:
		return "the caller has too many processes for ulimit -u, or his cgroup for its "
		       "pids.max; allow more";
	case EPERM:
	case ENOSYS:
		return "a seccomp filter around moat forbids clone; start moat outside of it";
	default:
		return "the host is out of memory";
	}
}

void start_why_look(void)
{
	g_below_filter = HOST(prctl_monitor, prctl(PR_GET_SECCOMP)) > 0;
}

void start_why_killed(FILE *f)
{
	/* Its own filter is the last thing that it sets up. */
	if (g_summary && !atomic_load(&g_summary->locked))
		fputs("moat run: a seccomp filter that moat was started under has killed the "
		      "sentry for a call that its start needs; start moat outside of that filter "
		      "(the host's log names the call: dmesg | grep type=1326)\n",
		      f);
	else if (g_below_filter)
		fputs("moat: the sentry was killed for a host call that a seccomp filter refuses, "
		      "and the sandbox is gone with it: that which moat was started under, or its "
		      "own. Start moat outside of the first; if it happens there, too, something "
		      "has taken the sentry over or this is a fault of moat: please report it "
		      "(the host's log names the call: dmesg | grep type=1326)\n",
		      f);
	else
		fputs("moat: the sentry made a host call that its own filter refuses, and was "
		      "killed; the sandbox is gone with it. Either something has taken it over, "
		      "or this is a fault of moat: please report it (the host's log names the "
		      "call: dmesg | grep type=1326)\n",
		      f);
}
