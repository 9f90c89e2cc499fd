/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seccomp programs against the tables that they are made from (platform/filter_rule.h): an
 * interpreter for the programs, a second reading of the tables, and calls that lie on both sides of
 * each test.
 */
#ifndef MOAT_TESTS_FILTER_MODEL_H
#define MOAT_TESTS_FILTER_MODEL_H

#include <linux/seccomp.h>
#include "platform/filter_rule.h"

/* What the program of @count instructions says of the call. */
uint32_t filter_run(const void *insns, size_t count, const struct seccomp_data *data);

/* Does a rule of one of the @tables (NULL ends them) let the call pass? */
bool filter_says(const struct filter_rule *const tables[], uint32_t nr, const uint64_t arg[6]);

/* Asks @passes for: calls that each rule lets pass; the same with each tested argument moved just
 * out of bounds, and by each bit; every other number with those arguments. All must be as the
 * tables say. */
void filter_check(const struct filter_rule *const tables[],
		  bool (*passes)(uint32_t nr, const uint64_t arg[6]));

/* Calls that no process of moat's makes after its lock-down, whatever the arguments; numbers by
 * sys/syscall.h. */
#define FILTER_NEVER                                                                            \
	SYS_execve, SYS_execveat, SYS_fork, SYS_vfork, SYS_socket, SYS_socketpair, SYS_connect, \
		SYS_bind, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_setns,        \
		SYS_unshare, SYS_open, SYS_creat, SYS_bpf, SYS_ptrace, SYS_io_uring_setup,      \
		SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_shmat, SYS_seccomp, SYS_setuid,   \
		SYS_setresuid, SYS_capset, SYS_personality, SYS_pidfd_open, SYS_pidfd_getfd,    \
		SYS_pidfd_send_signal, SYS_tkill, SYS_rt_sigqueueinfo, SYS_open_by_handle_at,   \
		SYS_reboot, SYS_init_module

#endif
