/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls that start the stub processes and speak with the keeper.
 */
#ifndef MOAT_PLATFORM_HOST_SPAWN_H
#define MOAT_PLATFORM_HOST_SPAWN_H

#include "base/err.h"
#include "base/types.h"

/* An anonymous file with @size bytes of @data (NULL: zeroes), close-on-exec; @seal: nobody can
 * change it any more. A descriptor or -errno. */
int pf_host_memfd(const char *name, const void *data, size_t size, bool seal);
/* Forbids new writable mappings and writes and any change of size; mappings that exist stay
 * writable. */
int pf_host_seal_future_writes(int fd);
/* A shared writable mapping. NULL on failure. */
void *pf_host_map_shared(int fd, size_t size);
void pf_host_unmap(void *p, size_t size);
ssize_t pf_host_pread(int fd, void *buf, size_t size, off_t off);
void pf_host_close(int fd);

/* Starts the image in @image_fd with @socket, @orders, @config as the descriptors of stub/layout.h
 * and no other; without capabilities, privileges to gain, or a core file; @space bytes may be
 * mapped in it (UINT64_MAX: any). The pid, or -errno. The calling thread must live as long as the
 * child shall. */
pid_t pf_host_spawn_stub(int image_fd, int socket, int orders, int config, uint64_t space);

/* Can a child be traced, and what a stub needs be had? 0, or -errno with the reason and the mend.
 */
int pf_host_probe_trace(struct err *e);
/* Parts of that which other platforms need, too: may filters be set? Can a child's memory be
 * reached? *@seized, if it is asked for: whether it could be traced, 0 or -errno; not set where
 * no child could be made. Or the memory of @pid at @addr? */
int pf_host_probe_filters(struct err *e) MUST_USE;
int pf_host_probe_reach(pid_t pid, uint64_t addr, struct err *e) MUST_USE;
int pf_host_probe_child(int *seized, struct err *e) MUST_USE;
/* What is said when the keeper has ended before its first word. */
#define PF_HOST_NO_START                                                               \
	"the stub does not start: the host refuses its image (vm.memfd_noexec?), its " \
	"address, or seccomp filters"

/* @pid, a child, is about to die or has, before its first word: waits for that, and says why. It is
 * not reaped. -EPIPE: it was killed; -ENOEXEC: the host does not run it. */
int pf_host_no_start(pid_t pid, struct err *e) MUST_USE;

/* Waits for the end of @pid, a child that is about to die. */
void pf_host_reap(pid_t pid);

/* A pair of connected sockets that keep message boundaries, close-on-exec. */
int pf_host_socketpair(int fd[2]);
/* Sends @msg with the descriptor @fd, if it is not -1. 0 or -errno. */
int pf_host_send_fd(int socket, const void *msg, size_t size, int fd);
/* One message, and the descriptor that came with it if @fd is not NULL and one did. Its size, or
 * -errno; 0: the other end is gone; -EAGAIN: none came within a second. */
ssize_t pf_host_recv_fd(int socket, void *msg, size_t size, int *fd);
/* Has @pid, a child, ended? It is not reaped. */
bool pf_host_has_ended(pid_t pid);
/* The number of descriptors that a process may hold. */
uint64_t pf_host_nofile_limit(void);
/* The largest file that this process may make, in bytes. */
uint64_t pf_host_fsize_limit(void);

#endif
