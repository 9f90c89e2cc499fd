/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls of the trap platform that others do not need: futexes shared with stubs, reports, ends
 * of children.
 */
#ifndef MOAT_PLATFORM_HOST_TRAP_H
#define MOAT_PLATFORM_HOST_TRAP_H

#include "base/err.h"
#include "base/types.h"

/* Wakes one sleeper on a word in memory shared with another process. */
void pf_host_futex_wake_shared(const _Atomic uint32_t *word);

#define PF_HOST_WAIT_MAX 128

/* A word to sleep on, and the value that it must have for that. */
struct pf_host_word {
	const _Atomic uint32_t *word;
	uint32_t value;
	bool shared;
};
/* Sleeps until one of them is woken, or has another value already, or @timeout_ns (0: none) is
 * over. */
void pf_host_futex_wait_many(const struct pf_host_word *words, unsigned count, uint64_t timeout_ns);

/* The offset of an open file as a message from whoever shares the description. */
int64_t pf_host_offset_get(int fd);
void pf_host_offset_set(int fd, int64_t value);

/* Waits for the end of any child; it stays there for pf_host_child_reap. pid, or -ECHILD. */
pid_t pf_host_child_ended(void);
void pf_host_child_reap(pid_t pid);

/* How many mappings the host lets a process have; 0: it does not say. */
uint64_t pf_host_map_count_max(void);
/* Does the host, or a limit, refuse memory by how much is mapped, and not by how much is used? */
bool pf_host_memory_counted(void);

/* How much may be mapped in a stub at the most: our own hard limit, which it has, too. */
uint64_t pf_host_space_max(void);

/* Can threads be confined by Syscall User Dispatch (Linux 5.11)? */
bool pf_host_dispatches(void);

/* Can this host run stubs of the trap platform? 0, or -errno with the reason in @e. */
int pf_host_probe_trap(struct err *e);
/* The part of that which makes no process: which calls there are. */
int pf_host_probe_calls(struct err *e) MUST_USE;

#endif
