/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls of the trap platform. See platform/host_trap.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "platform/host_ptrace.h"
#include "platform/host_spawn.h"
#include "platform/host_proc.h"
#include "platform/host_trap.h"
#include "platform/stub_trap/layout.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

void pf_host_futex_wake_shared(const _Atomic uint32_t *word)
{
	HOST(futex_guest, syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0));
}

/* The host's struct futex_waitv. */
struct waitv {
	uint64_t value;
	uint64_t word;
	uint32_t flags;
	uint32_t reserved;
};
_Static_assert(sizeof(struct waitv) == 24, "the host's");
#define WAITV_U32 2
#define WAITV_PRIVATE 128

void pf_host_futex_wait_many(const struct pf_host_word *words, unsigned count, uint64_t timeout_ns)
{
	struct waitv v[PF_HOST_WAIT_MAX];
	struct timespec until;

	for (unsigned i = 0; i < count; i++)
		v[i] = (struct waitv){.value = words[i].value,
				      .word = (uint64_t)(uintptr_t)words[i].word,
				      .flags = WAITV_U32 | (words[i].shared ? 0 : WAITV_PRIVATE)};
	if (timeout_ns != 0) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		timeout_ns += (uint64_t)until.tv_nsec;
		until.tv_sec += (time_t)(timeout_ns / 1000000000);
		until.tv_nsec = (long)(timeout_ns % 1000000000);
	}
	HOST(futex_waitv_guest,
	     syscall(SYS_futex_waitv, v, count, 0, timeout_ns ? &until : NULL, CLOCK_MONOTONIC));
}

int64_t pf_host_offset_get(int fd)
{
	return HOST(lseek_report, lseek(fd, 0, SEEK_CUR));
}

void pf_host_offset_set(int fd, int64_t value)
{
	(void)HOST(lseek_report, lseek(fd, value, SEEK_SET));
}

pid_t pf_host_child_ended(void)
{
	siginfo_t si;
	long r;

	do {
		si.si_pid = 0;
		r = HOST(waitid_stub,
			 syscall(SYS_waitid, P_ALL, 0, &si, WEXITED | WNOWAIT | __WALL, NULL));
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : si.si_pid;
}

void pf_host_child_reap(pid_t pid)
{
	siginfo_t si;

	HOST(waitid_stub, syscall(SYS_waitid, P_PID, pid, &si, WEXITED | WNOHANG | __WALL, NULL));
}

uint64_t pf_host_map_count_max(void)
{
	const int64_t v = pf_sysctl(PF_MAP_COUNT);

	return v > 0 ? (uint64_t)v : 0;
}

bool pf_host_memory_counted(void)
{
	static const int limits[] = {RLIMIT_AS, RLIMIT_DATA};
	const int64_t policy = pf_sysctl(PF_OVERCOMMIT);
	struct rlimit rl;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		if (HOST(prlimit64_get, getrlimit((__rlimit_resource_t)limits[i], &rl)) < 0 ||
		    rl.rlim_cur != RLIM_INFINITY)
			return true;
	}
	return policy != 0 && policy != 1;
}

uint64_t pf_host_space_max(void)
{
	struct rlimit rl;

	return HOST(prlimit64_get, getrlimit(RLIMIT_AS, &rl)) == 0 ? rl.rlim_max : RLIM_INFINITY;
}

bool pf_host_dispatches(void)
{
	return HOST(prctl_dispatch, prctl(TS_PR_DISPATCH, 0, 0, 0, 0)) == 0;
}

/* What a call that can only fail has said, of which the host must know enough to say EINVAL. */
static int probe_answer(long r, const char *call, const char *since, struct err *e)
{
	if (r >= 0 || errno == EINVAL)
		return 0;
	if (errno == ENOSYS)
		return err_set(e, ENOSYS, "%s is missing (Linux %s or later is needed)", call,
			       since);
	return err_set(e, errno, "this host forbids %s: %s", call, err_text(errno));
}

int pf_host_probe_calls(struct err *e)
{
	int r = pf_host_probe_filters(e);

	if (r == 0)
		r = probe_answer(
			HOST(futex_waitv_probe, syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0)),
			"futex_waitv", "5.16", e);
	/* For pf_host_reopen_read. */
	if (r == 0)
		r = probe_answer(HOST(openat2_probe, syscall(SYS_openat2, -1, "", NULL, 0)),
				 "openat2", "5.6", e);
	return r;
}

int pf_host_probe_trap(struct err *e)
{
	int r = pf_host_probe_calls(e);

	return r < 0 ? r : pf_host_probe_child(NULL, e);
}
