/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp programs of the stub processes, made by libseccomp.
 *
 * Theory of operation: under ptrace no guest instruction ever makes a host call (PTRACE_SYSEMU), so
 * these programs are the second lock on that door: they hold when the tracer resumes a stub with
 * host calls on, and for what does not pass through the tracer. They are allow-lists: the calls of
 * the batch routine, of clone and of exit, with the arguments that the sentry ever gives them. All
 * else is SECCOMP_RET_TRAP, so that a call through the vsyscall page (which PTRACE_SYSEMU does not
 * see) arrives as a SIGSYS that the sentry turns into a guest syscall; other architectures kill the
 * process.
 *
 * A filter can look at the start of a range only, not at its end; the sentry keeps ranges below
 * PF_GUEST_LIMIT.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "platform/host_spawn.h"
#include "platform/platform.h"
#include "platform/stub_filter.h"

#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif

const struct stub_call g_stub_calls[] = {
	{SCMP_SYS(mmap), "mmap", "fixed, below the stub, no weird flags; or the order page", true},
	{SCMP_SYS(munmap), "munmap", "below the stub; or the config page", true},
	{SCMP_SYS(mprotect), "mprotect", "below the stub, only R, W, X", true},
	{SCMP_SYS(mremap), "mremap", "below the stub, flags 0, MAYMOVE|FIXED or with DONTUNMAP",
	 true},
	{SCMP_SYS(madvise), "madvise", "below the stub; or DONTFORK of the order page", true},
	{SCMP_SYS(msync), "msync", "below the stub", true},
	{SCMP_SYS(clone), "clone", "exactly the two flag words of the stub", true},
	{SCMP_SYS(exit), "exit", "", true},
	{SCMP_SYS(pause), "pause", "", false},
	{SCMP_SYS(seccomp), "seccomp", "", false},
	{SCMP_SYS(recvmsg), "recvmsg", "the socket to the sentry", false},
	{SCMP_SYS(sendto), "sendto", "the socket to the sentry", false},
	{SCMP_SYS(close), "close", "", false},
	{SCMP_SYS(exit_group), "exit_group", "", false},
	{0},
};

#define PROT_ALL (PROT_READ | PROT_WRITE | PROT_EXEC)
#define MAP_ALLOWED \
	(MAP_SHARED | MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE)

#define BELOW_STUB(n) SCMP_CMP64(n, SCMP_CMP_LT, PF_GUEST_LIMIT)
/* All bits of the argument outside of @allowed are 0. */
#define ONLY_BITS(n, allowed) SCMP_CMP64(n, SCMP_CMP_MASKED_EQ, ~(uint64_t)(allowed), 0)
#define HAS_BITS(n, bits) SCMP_CMP64(n, SCMP_CMP_MASKED_EQ, (uint64_t)(bits), (uint64_t)(bits))
#define IS(n, value) SCMP_CMP64(n, SCMP_CMP_EQ, (uint64_t)(value))

#define ALLOW(...)                                                                    \
	do {                                                                          \
		if (r == 0)                                                           \
			r = seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, __VA_ARGS__); \
	} while (0)

static int allow_guest_calls(scmp_filter_ctx ctx)
{
	int r = 0;

	/* File-backed (MAP_ANONYMOUS or not), but always at a place that the sentry chose:
	 * MAP_FIXED. */
	ALLOW(SCMP_SYS(mmap), 3, BELOW_STUB(0), ONLY_BITS(2, PROT_ALL),
	      SCMP_CMP64(3, SCMP_CMP_MASKED_EQ, ~(uint64_t)(MAP_ALLOWED & ~MAP_FIXED), MAP_FIXED));
	ALLOW(SCMP_SYS(mmap), 5, IS(0, STUB_ORDERS), IS(1, STUB_ORDERS_SIZE), IS(2, PROT_READ),
	      IS(3, MAP_SHARED | MAP_FIXED), IS(4, STUB_FD_ORDERS));
	ALLOW(SCMP_SYS(munmap), 1, BELOW_STUB(0));
	ALLOW(SCMP_SYS(munmap), 2, IS(0, STUB_CONFIG), IS(1, STUB_CONFIG_SIZE));
	ALLOW(SCMP_SYS(mprotect), 2, BELOW_STUB(0), ONLY_BITS(2, PROT_ALL));
	ALLOW(SCMP_SYS(mremap), 2, BELOW_STUB(0), IS(3, 0));
	ALLOW(SCMP_SYS(mremap), 3, BELOW_STUB(0), IS(3, MREMAP_MAYMOVE | MREMAP_FIXED),
	      BELOW_STUB(4));
	ALLOW(SCMP_SYS(mremap), 3, BELOW_STUB(0),
	      IS(3, MREMAP_MAYMOVE | MREMAP_FIXED | 4 /* DONTUNMAP */), BELOW_STUB(4));
	ALLOW(SCMP_SYS(madvise), 1, BELOW_STUB(0));
	ALLOW(SCMP_SYS(madvise), 3, IS(0, STUB_ORDERS), IS(1, STUB_ORDERS_SIZE),
	      IS(2, MADV_DONTFORK));
	ALLOW(SCMP_SYS(msync), 1, BELOW_STUB(0));
	ALLOW(SCMP_SYS(clone), 2, IS(0, STUB_CLONE_FORK), IS(1, 0));
	ALLOW(SCMP_SYS(clone), 2, IS(0, STUB_CLONE_THREAD), IS(1, 0));
	ALLOW(SCMP_SYS(exit), 0);
	return r;
}

static int allow_keeper_calls(scmp_filter_ctx ctx)
{
	int r = 0;

	ALLOW(SCMP_SYS(munmap), 2, IS(0, STUB_DATA), IS(1, STUB_DATA_SIZE));
	ALLOW(SCMP_SYS(clone), 2, IS(0, STUB_CLONE_ZYGOTE), IS(1, 0));
	ALLOW(SCMP_SYS(pause), 0);
	ALLOW(SCMP_SYS(seccomp), 1, IS(0, SECCOMP_SET_MODE_FILTER));
	ALLOW(SCMP_SYS(recvmsg), 1, IS(0, STUB_FD_SOCKET));
	ALLOW(SCMP_SYS(sendto), 1, IS(0, STUB_FD_SOCKET));
	ALLOW(SCMP_SYS(close), 0);
	ALLOW(SCMP_SYS(exit_group), 0);
	return r;
}

/* Appends the program of @ctx to config->insns at *@used. */
static int export_program(scmp_filter_ctx ctx, struct stub_config *config, size_t *used,
			  struct stub_fprog *prog)
{
	const size_t insn = 8; /* sizeof(struct sock_filter) */
	ssize_t n;
	int fd = pf_host_memfd("moat-filter", NULL, 0, false);
	int r;

	if (fd < 0)
		return fd;
	r = seccomp_export_bpf(ctx, fd);
	n = r < 0 ? r : pf_host_pread(fd, config->insns + *used, sizeof(config->insns) - *used, 0);
	if (n >= 0 && (n == 0 || (size_t)n == sizeof(config->insns) - *used))
		n = -E2BIG;
	if (n > 0) {
		prog->count = (uint16_t)((size_t)n / insn);
		prog->insns = STUB_CONFIG + offsetof(struct stub_config, insns) + *used;
		*used += (size_t)n;
	}
	pf_host_close(fd);
	return n < 0 ? (int)n : 0;
}

static int build_one(bool keeper, struct stub_config *config, size_t *used, struct stub_fprog *prog)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_TRAP);
	int r;

	if (!ctx)
		return -ENOMEM;
	r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0)
		r = allow_guest_calls(ctx);
	if (r == 0 && keeper)
		r = allow_keeper_calls(ctx);
	if (r == 0)
		r = export_program(ctx, config, used, prog);
	seccomp_release(ctx);
	return r;
}

int stub_filter_build(struct stub_config *config, struct err *e)
{
	size_t used = 0;
	int r;

	memset(config, 0, sizeof(*config));
	/* Guest code runs in processes of its own; the host's mitigation against speculation within
	 * one process would cost it much and protect nothing. */
	config->seccomp_flags = SECCOMP_FILTER_FLAG_SPEC_ALLOW;
	r = build_one(true, config, &used, &config->keeper);
	if (r == 0)
		r = build_one(false, config, &used, &config->guest);
	if (r < 0)
		return err_set(e, -r, "cannot build the seccomp filter of the stub: %s",
			       err_text(-r));
	return 0;
}
