/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the platforms read of the host's /proc: its sysctls, and files of stubs.
 */
#ifndef MOAT_PLATFORM_HOST_PROC_H
#define MOAT_PLATFORM_HOST_PROC_H

#include <sys/types.h>
#include "base/types.h"

enum pf_sysctl {
	PF_MAP_COUNT,  /* vm.max_map_count */
	PF_OVERCOMMIT, /* vm.overcommit_memory */
	PF_MEMFD_EXEC, /* vm.memfd_noexec */
	PF_YAMA,       /* kernel.yama.ptrace_scope */
	PF_PID_MAX,    /* kernel.pid_max */
	PF_SYSCTLS
};

/* -1: this host has it not, or does not show it. */
int64_t pf_sysctl(enum pf_sysctl which);
/* Reads all, as long as there is a /proc/sys to read. */
void pf_sysctls_read(void);

/* Before a platform starts: its /proc is @fd, which stays the caller's; -1: there is none. */
void pf_host_proc_use(int fd);
/* Else the host's, opened once. */
int pf_host_proc_open(void);
void pf_host_proc_close(void);
/* One read or write of /proc/@pid/@name at @off. */
ssize_t pf_host_proc_rw(pid_t pid, const char *name, uint64_t off, void *buf, size_t size,
			bool write);
/* /proc/@pid/mem for several writes: a descriptor for pf_host_close, or -errno. */
int pf_host_mem_open(pid_t pid) MUST_USE;
/* Writes all of @buf, also to what is mapped readable and private only, or fails. 0 or -errno. */
int pf_host_mem_write(int mem, uint64_t addr, const void *buf, size_t size) MUST_USE;
/* @fd, if it is open for reading only; else a new descriptor of the same file that is. -errno. */
int pf_host_reopen_read(int fd);
/* Lines of /proc/@pid/maps. SIZE_MAX: it cannot be told. */
size_t pf_host_map_count(pid_t pid);
/* Which of @pages from @addr on the host has in memory: one byte each. 0 or -errno. */
int pf_host_resident(pid_t pid, uint64_t addr, size_t pages, uint8_t *vec);
/* /proc/@pid/task/@tid/@name as a string. False, and "": there is none. */
bool pf_host_thread_text(pid_t pid, pid_t tid, const char *name, char *buf, size_t size);

#endif
