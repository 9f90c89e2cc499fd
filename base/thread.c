/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host threads of the sentry's own. See base/thread.h.
 *
 * Theory of operation: what a new thread is to do lies at the lower end of its signal stack, which
 * the starter maps. So starting takes no malloc: the first one, or free, in a thread makes an arena
 * for it, of which most threads here have no use (four host calls, two page faults).
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include "base/hostcall.h"
#include "base/sanitizer.h"
#include "base/thread.h"

#define SIGNAL_STACK_SIZE (32 * 1024)

struct thread_args {
	void *(*fn)(void *);
	void *arg;
};

static void *thread_main(void *p)
{
	const struct thread_args args = *(struct thread_args *)p;
	/* The sanitizers have signal stacks of their own. */
	const bool sanitized = MOAT_ASAN | MOAT_TSAN;
	const stack_t ss = {.ss_sp = p, .ss_size = SIGNAL_STACK_SIZE};
	const stack_t none = {.ss_flags = SS_DISABLE};

	host_thread_enter();
	if (!sanitized)
		HOST(sigaltstack_own, sigaltstack(&ss, NULL));

	void *result = args.fn(args.arg);

	if (!sanitized)
		HOST(sigaltstack_own, sigaltstack(&none, NULL));
	HOST(munmap_own, munmap(p, SIGNAL_STACK_SIZE));
	host_thread_leave();
	return result;
}

int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg, const char *name)
{
	static const int synchronous[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE,
					  SIGTRAP, SIGSYS, SIGABRT};
	struct thread_args *args =
		HOST(mmap_anon, mmap(NULL, SIGNAL_STACK_SIZE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	sigset_t blocked, old;

	if (args == MAP_FAILED)
		return -ENOMEM;
	*args = (struct thread_args){.fn = fn, .arg = arg};
	sigfillset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(synchronous); i++)
		sigdelset(&blocked, synchronous[i]);
	/* A new thread inherits the mask: so no signal can hit it before it set its own. */
	HOST(rt_sigprocmask_own, pthread_sigmask(SIG_SETMASK, &blocked, &old));

	/* A new thread inherits the name, too. It does not give itself one: by the time that it
	 * runs, the sentry may be locked down, and a name is not worth a call that may be made for
	 * ever; later threads, which are helpers, have their starter's. */
	char own[16];
	const bool named = !g_host_locked && HOST(prctl_name, prctl(PR_GET_NAME, own)) == 0 &&
			   HOST(prctl_name, prctl(PR_SET_NAME, name)) == 0;
	int r = HOST(clone3_thread, pthread_create(thread, NULL, thread_main, args));

	if (named)
		HOST(prctl_name, prctl(PR_SET_NAME, own));

	HOST(rt_sigprocmask_own, pthread_sigmask(SIG_SETMASK, &old, NULL));
	if (r)
		HOST(munmap_own, munmap(args, SIGNAL_STACK_SIZE));
	return -r;
}
