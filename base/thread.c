/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host threads of the sentry's own. See base/thread.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/hostcall.h"
#include "base/sanitizer.h"
#include "base/thread.h"

#define SIGNAL_STACK_SIZE (32 * 1024)

struct thread_args {
	void *(*fn)(void *);
	void *arg;
	const char *name;
};

static void *thread_main(void *p)
{
	struct thread_args args = *(struct thread_args *)p;

	free(p);
	host_thread_enter();
	HOST(prctl_name, pthread_setname_np(pthread_self(), args.name));

	/* The sanitizers have signal stacks of their own. */
	const bool sanitized = MOAT_ASAN | MOAT_TSAN;
	void *mem = MAP_FAILED;

	if (!sanitized)
		mem = HOST(mmap_anon, mmap(NULL, SIGNAL_STACK_SIZE, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	const stack_t ss = {.ss_sp = mem, .ss_size = SIGNAL_STACK_SIZE};
	const stack_t none = {.ss_flags = SS_DISABLE};

	if (mem != MAP_FAILED)
		HOST(sigaltstack_own, sigaltstack(&ss, NULL));

	void *result = args.fn(args.arg);

	if (mem != MAP_FAILED) {
		HOST(sigaltstack_own, sigaltstack(&none, NULL));
		HOST(munmap_own, munmap(mem, SIGNAL_STACK_SIZE));
	}
	host_thread_leave();
	return result;
}

int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg, const char *name)
{
	static const int synchronous[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE,
					  SIGTRAP, SIGSYS, SIGABRT};
	/* Not mem_zalloc: a thread that is missing is a failure of its own kind in tests. */
	struct thread_args *args = malloc(sizeof(*args));
	sigset_t blocked, old;

	if (!args)
		return -ENOMEM;
	*args = (struct thread_args){.fn = fn, .arg = arg, .name = name};
	sigfillset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(synchronous); i++)
		sigdelset(&blocked, synchronous[i]);
	/* A new thread inherits the mask: so no signal can hit it before it set its own. */
	HOST(rt_sigprocmask_own, pthread_sigmask(SIG_SETMASK, &blocked, &old));

	int r = HOST(clone3_thread, pthread_create(thread, NULL, thread_main, args));

	HOST(rt_sigprocmask_own, pthread_sigmask(SIG_SETMASK, &old, NULL));
	if (r)
		free(args);
	return -r;
}
