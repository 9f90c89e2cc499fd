/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host calls that stub processes may make under trap. See platform/filter_rule.h.
 */
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "platform/filter_rule.h"
#include "platform/platform.h"
#include "platform/stub_trap/layout.h"

#define MREMAP_DONTUNMAP_ 4 /* older headers lack it */
#define MAP_FIXED_NOREPLACE_ 0x100000

/* The host's names, from headers that do not agree with others. */
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129
#define ARCH_SET_GS 0x1001
#define ARCH_SET_FS 0x1002

#define IN_AREA(n, label)                                                        \
	ARG_RANGE(n, TS_AREAS, TS_AREAS + (uint64_t)TS_AREAS_MAX * TS_AREA_SIZE, \
		  label " in the areas of guest threads")

/* Harmless with any arguments: any thread of the guest's can reach the instruction. So futexes that
 * are shared are the stub's only: those in a mapped file are the same for the host's processes and
 * for other sandboxes, whom the guest could wake, and whose wake-ups it could take. */
const struct filter_rule g_trap_guest_rules[] = {
	RULE(futex, "waiting for the sentry's answer", IN_AREA(0, "addr"),
	     ARG_IS32(1, "op", FUTEX_WAIT)),
	RULE(futex, "waking the sentry", IN_AREA(0, "addr"), ARG_IS32(1, "op", FUTEX_WAKE)),
	RULE(futex, "waking the agent", ARG_IS(0, "addr", TS_ORDERS + TS_O_SEQ),
	     ARG_IS32(1, "op", FUTEX_WAKE)),
	RULE(futex, "a guest thread sleeps on its own futex",
	     ARG_IS32(1, "op", FUTEX_WAIT_PRIVATE)),
	RULE(futex, "a guest thread wakes its own futex", ARG_IS32(1, "op", FUTEX_WAKE_PRIVATE)),
	RULE(rt_sigreturn, "back to the guest's code"),
	RULE(arch_prctl, "the guest's arch_prctl", ARG_IS32(0, "code", ARCH_SET_FS)),
	RULE(arch_prctl, "the guest's arch_prctl", ARG_IS32(0, "code", ARCH_SET_GS)),
	RULE(exit, "the end of a guest thread"),
	RULE(munmap, "the guest's memory, where no other thread can be in the way",
	     ARG_BELOW(0, "addr", PF_GUEST_LIMIT - TS_OWN_MAX),
	     ARG_BELOW(1, "size", TS_OWN_MAX + 1)),
	RULE(mmap, "the same; how much is there in all is limited (platform/trap_space.c)",
	     ARG_BELOW(0, "addr", PF_GUEST_LIMIT - TS_OWN_MAX),
	     ARG_BELOW(1, "size", TS_OWN_MAX + 1), ARG_IS(2, "prot", PROT_READ | PROT_WRITE),
	     ARG_IS(3, "flags", MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)),
	RULE(mprotect, "the same; no file that it may not write is mapped writably",
	     ARG_BELOW(0, "addr", PF_GUEST_LIMIT - TS_OWN_MAX),
	     ARG_BELOW(1, "size", TS_OWN_MAX + 1),
	     ARG_BITS(2, ~(uint64_t)(PROT_READ | PROT_WRITE), 0, "prot: only R, W")),
	RULES_END,
};

const struct filter_rule g_trap_gate_rules[] = {
	RULE(clone, "the agent of a child, when it first needs one",
	     ARG_IS(0, "flags", TS_CLONE_AGENT), ARG_IS(1, "stack", TS_NO_STACK)),
	RULES_END,
};

/* Linux asks no filter for these two (from 6.14 and 6.18 on). Unless they come from a trampoline of
 * the kernel's own, which it makes for probes that a host's administrator has set, they do nothing.
 */
const struct filter_rule g_trap_unasked_rules[] = {
	{.nr = 335, .name = "uretprobe", .purpose = "nothing: SIGILL, as on the host"},
	{.nr = 336, .name = "uprobe", .purpose = "nothing: ENXIO, as on the host"},
	RULES_END,
};

const struct filter_rule g_trap_agent_rules[] = {
	/* Always at a place that the sentry chose: MAP_FIXED. */
	RULE(mmap, "the guest's memory", BELOW_STUB(0, "addr"), PROT_ONLY_RWX(2),
	     MAP_FIXED_AND_PLAIN(3)),
	RULE(mmap, "a new process's page of orders", ARG_IS(0, "addr", TS_ORDERS),
	     ARG_IS(1, "size", TS_ORDERS_SIZE), ARG_IS(2, "prot", PROT_READ),
	     ARG_IS(3, "flags", MAP_SHARED | MAP_FIXED), ARG_IS(4, "fd", TS_FD_ORDERS)),
	RULE(mmap, "the area of a new guest thread", IN_AREA(0, "addr"),
	     ARG_IS(1, "size", TS_AREA_SIZE), ARG_IS(2, "prot", PROT_READ | PROT_WRITE),
	     ARG_IS(3, "flags", MAP_SHARED | MAP_FIXED)),
	RULE(mmap, "an agent that is made late: it is the first", ARG_IS(0, "addr", TS_CLAIM),
	     ARG_IS(1, "size", TS_CLAIM_SIZE), ARG_IS(2, "prot", PROT_NONE),
	     ARG_IS(3, "flags", MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE_)),
	RULE(mmap, "contents of files that the guest reads",
	     ARG_RANGE(0, TS_VIEWS, TS_VIEWS_END, "addr in the views"),
	     ARG_IS(2, "prot", PROT_READ), ARG_IS(3, "flags", MAP_SHARED | MAP_FIXED)),
	RULE(munmap, "the guest's memory", BELOW_STUB(0, "addr")),
	RULE(mprotect, "the guest's memory", BELOW_STUB(0, "addr"), PROT_ONLY_RWX(2)),
	RULE(mremap, "the guest's memory", BELOW_STUB(0, "addr"), ARG_IS(3, "flags", 0)),
	RULE(mremap, "the guest's memory", BELOW_STUB(0, "addr"), BELOW_STUB(4, "new_addr"),
	     ARG_IS(3, "flags", MREMAP_MAYMOVE | MREMAP_FIXED)),
	RULE(mremap, "the guest's memory", BELOW_STUB(0, "addr"), BELOW_STUB(4, "new_addr"),
	     ARG_BITS(3, ~(uint64_t)0, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP_,
		      "flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP")),
	RULE(madvise, "the guest's memory", BELOW_STUB(0, "addr")),
	RULE(madvise, "a child gets orders of its own", ARG_IS(0, "addr", TS_ORDERS),
	     ARG_IS(1, "size", TS_ORDERS_SIZE), ARG_IS(2, "advice", MADV_DONTFORK)),
	RULE(madvise, "a child gets areas of its own", IN_AREA(0, "addr"),
	     ARG_IS(1, "size", TS_AREA_SIZE), ARG_IS(2, "advice", MADV_DONTFORK)),
	RULE(madvise, "a child makes its own agent", ARG_IS(0, "addr", TS_CLAIM),
	     ARG_IS(1, "size", TS_CLAIM_SIZE), ARG_IS(2, "advice", MADV_DONTFORK)),
	RULE(rt_sigprocmask, "an agent that is made late blocks all signals"),
	RULE(arch_prctl, "the same: GS points to the first area", ARG_IS32(0, "code", ARCH_SET_GS),
	     ARG_IS(1, "addr", TS_AREAS)),
	RULE(msync, "the guest's memory", BELOW_STUB(0, "addr")),
	RULE(prlimit64, "how much may be mapped (platform/trap_space.c)", ARG_IS(0, "pid", 0),
	     ARG_IS(1, "resource", RLIMIT_AS), ARG_IS(2, "new", TS_ORDERS + TS_O_LIMIT),
	     ARG_IS(3, "old", 0)),
	RULE(clone, "the guest's fork", ARG_IS(0, "flags", TS_CLONE_FORK), ARG_IS(1, "stack", 0)),
	RULE(clone, "a guest thread", ARG_IS(0, "flags", TS_CLONE_THREAD), ARG_IS(1, "stack", 0),
	     IN_AREA(3, "child_tid")),
	RULE(futex, "waiting for orders", ARG_IS(0, "addr", TS_ORDERS + TS_O_SEQ),
	     ARG_IS32(1, "op", FUTEX_WAIT)),
	RULE(futex, "waking those who wait for the agent", IN_AREA(0, "addr"),
	     ARG_IS32(1, "op", FUTEX_WAKE)),
	RULE(lseek, "reports to the sentry", ARG_IS32(2, "whence", SEEK_SET)),
	RULE(prctl, "a new process dies with the sentry", ARG_IS32(0, "option", PR_SET_PDEATHSIG)),
	RULE(getppid, "the sentry died meanwhile?"),
	RULE(prctl, "a guest thread confines itself to one instruction, and the gate",
	     ARG_IS32(0, "option", PR_SET_SYSCALL_USER_DISPATCH),
	     ARG_IS(1, "mode", PR_SYS_DISPATCH_ON), ARG_IS(2, "start", TS_TEXT + TS_GUEST_IP),
	     ARG_IS(3, "size", TS_GUEST_SPAN), ARG_IS(4, "selector", 0)),
	RULE(seccomp, "the same by a filter, where the host has no such dispatch, and on notify",
	     ARG_IS32(0, "operation", SECCOMP_SET_MODE_FILTER)),
	RULE(exit_group, "its start, or an order that nobody waits for, has failed"),
	RULES_END,
};

/* From the rest of the text: only the keeper's code makes calls there. */
const struct filter_rule g_trap_keeper_rules[] = {
	RULE(recvmsg, "files that guests map, orders of children", ARG_IS32(0, "fd", TS_FD_SOCKET)),
	RULE(sendto, "where they are in the table", ARG_IS32(0, "fd", TS_FD_SOCKET)),
	RULE(sendmsg, "the listener of notifications (notify)", ARG_IS32(0, "fd", TS_FD_SOCKET)),
	RULE(close, "files that nobody maps any more"),
	RULE(mmap, "the clock's page, which its children inherit", ARG_IS(0, "addr", TS_TIME),
	     ARG_IS(1, "size", 4096), ARG_IS(2, "prot", PROT_READ),
	     ARG_IS(3, "flags", MAP_SHARED | MAP_FIXED)),
	RULE(clone, "the first address spaces, the zygote", ARG_IS(0, "flags", TS_CLONE_FORK),
	     ARG_IS(1, "stack", 0)),
	RULE(exit_group, "the end"),
	RULES_END,
};

/* The keeper's filter leaves the agent's part of the text alone, and no guest code has run. */
const struct filter_rule g_trap_zygote_rules[] = {
	RULE(getppid, "who is the sentry?"),
	RULE(munmap, "the keeper's stack", ARG_IS(0, "addr", TS_DATA),
	     ARG_IS(1, "size", TS_DATA_SIZE)),
	RULE(seccomp, "the agents' filter", ARG_IS32(0, "operation", SECCOMP_SET_MODE_FILTER)),
	RULE(exit_group, "any of this failed"),
	RULES_END,
};
