/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host calls that stub processes may make under ptrace. See platform/filter_rule.h.
 */
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "platform/filter_rule.h"
#include "platform/platform.h"
#include "platform/stub/layout.h"
#include "platform/stub_trap/layout.h"

#define MREMAP_DONTUNMAP_ 4 /* older headers lack it */
#define ARCH_SET_GS 0x1001

const struct filter_rule g_stub_guest_rules[] = {
	/* Always at a place that the sentry chose: MAP_FIXED. */
	RULE(mmap, "the guest's memory", BELOW_STUB(0, "addr"), PROT_ONLY_RWX(2),
	     MAP_FIXED_AND_PLAIN(3)),
	RULE(mmap, "a new process's page of orders", ARG_IS(0, "addr", STUB_ORDERS),
	     ARG_IS(1, "size", STUB_ORDERS_SIZE), ARG_IS(2, "prot", PROT_READ),
	     ARG_IS(3, "flags", MAP_SHARED | MAP_FIXED), ARG_IS(4, "fd", STUB_FD_ORDERS)),
	RULE(munmap, "the guest's memory", BELOW_STUB(0, "addr")),
	RULE(munmap, "once, when the filter is there", ARG_IS(0, "addr", STUB_CONFIG),
	     ARG_IS(1, "size", STUB_CONFIG_SIZE)),
	RULE(mprotect, "the guest's memory", BELOW_STUB(0, "addr"), PROT_ONLY_RWX(2)),
	RULE(mremap, "the guest's memory", BELOW_STUB(0, "addr"), ARG_IS(3, "flags", 0)),
	RULE(mremap, "the guest's memory", BELOW_STUB(0, "addr"),
	     ARG_IS(3, "flags", MREMAP_MAYMOVE | MREMAP_FIXED), BELOW_STUB(4, "new_addr")),
	RULE(mremap, "the guest's memory", BELOW_STUB(0, "addr"),
	     ARG_BITS(3, ~(uint64_t)0, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP_,
		      "flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP"),
	     BELOW_STUB(4, "new_addr")),
	RULE(madvise, "the guest's memory", BELOW_STUB(0, "addr")),
	RULE(madvise, "a child gets orders of its own", ARG_IS(0, "addr", STUB_ORDERS),
	     ARG_IS(1, "size", STUB_ORDERS_SIZE), ARG_IS(2, "advice", MADV_DONTFORK)),
	RULE(msync, "the guest's memory", BELOW_STUB(0, "addr")),
	RULE(clone, "the guest's fork", ARG_IS(0, "flags", STUB_CLONE_FORK), ARG_IS(1, "stack", 0)),
	RULE(clone, "a guest thread", ARG_IS(0, "flags", STUB_CLONE_THREAD), ARG_IS(1, "stack", 0)),
	RULE(exit, "the end of a guest thread"),
	RULES_END,
};

const struct filter_rule g_stub_keeper_rules[] = {
	RULE(munmap, "a zygote drops the keeper's stack", ARG_IS(0, "addr", STUB_DATA),
	     ARG_IS(1, "size", STUB_DATA_SIZE)),
	RULE(clone, "zygotes", ARG_IS(0, "flags", STUB_CLONE_ZYGOTE), ARG_IS(1, "stack", 0)),
	RULE(pause, "the keeper has nothing to do"),
	RULE(seccomp, "a zygote takes the filter above",
	     ARG_IS(0, "operation", SECCOMP_SET_MODE_FILTER)),
	RULE(recvmsg, "files that guests map", ARG_IS(0, "fd", STUB_FD_SOCKET)),
	RULE(sendto, "where they are in the table", ARG_IS(0, "fd", STUB_FD_SOCKET)),
	RULE(close, "files that nobody maps any more"),
	RULE(exit_group, "the end"),
	RULES_END,
};

const struct filter_rule g_stub_start_rules[] = {
	RULE(munmap, "all that the host has mapped beside the image"),
	RULE(prctl, "its name, for ps", ARG_IS32(0, "option", PR_SET_NAME)),
	RULE(prctl, "reading the TSC faults, in it and in all stubs (--clock=virtual)",
	     ARG_IS32(0, "option", PR_SET_TSC), ARG_IS32(1, "arg2", PR_TSC_SIGSEGV)),
	RULE(rt_sigaction, "the stub's handler (trap)"),
	RULE(rt_sigprocmask, "nothing comes before there is an area (trap)"),
	RULE(arch_prctl, "GS points to the first area (trap)", ARG_IS32(0, "code", ARCH_SET_GS)),
	RULE(mmap, "the page with the filters", ARG_IS(0, "addr", STUB_CONFIG),
	     ARG_IS(1, "size", STUB_CONFIG_SIZE), ARG_IS(2, "prot", PROT_READ),
	     ARG_BITS(3, ~(uint64_t)(MAP_SHARED | MAP_PRIVATE), MAP_FIXED,
		      "flags: MAP_FIXED, SHARED or PRIVATE"),
	     ARG_IS(4, "fd", STUB_FD_CONFIG)),
	RULE(mmap, "the same, and how arguments travel (trap)", ARG_IS(0, "addr", TS_CONFIG),
	     ARG_IS(1, "size", TS_CONFIG_SIZE), ARG_IS(2, "prot", PROT_READ),
	     ARG_IS(3, "flags", MAP_SHARED | MAP_FIXED), ARG_IS(4, "fd", TS_FD_CONFIG)),
	RULE(close, "the same", ARG_IS(0, "fd", STUB_FD_CONFIG)),
	RULE(seccomp, "the filter", ARG_IS32(0, "operation", SECCOMP_SET_MODE_FILTER)),
	RULE(exit_group, "any of this failed"),
	RULES_END,
};
