/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfd: open files for descriptors that moat inherited: stdin, stdout, stderr, and --fd grants.
 *
 * Works for pipes, FIFOs, sockets (as byte streams), terminals, other character devices (as
 * streams), regular files. The shared description is never changed: not its O_NONBLOCK, not its
 * owner. Waiting parks the fiber. SIGPIPE, SIGTTIN and SIGTTOU must be ignored by the process.
 */
#ifndef MOAT_VFS_HOSTFD_H
#define MOAT_VFS_HOSTFD_H

#include "vfs/vfs.h"

/* A file on a duplicate of @fd; what the guest may do follows from the description's access mode.
 * @name: shown in /proc/self/fd, e.g. "/dev/stdin"; NULL: "pipe:[N]", "socket:[N]", "host:[N]" by
 * type. -EBADF: @fd is not open; -EISDIR; -EACCES: a block device. */
int hostfd_new(struct vfs_ctx *c, int fd, const char *name, struct file **out) MUST_USE;
/* Another process group of the host has the terminal that moat was started from, or (@is false)
 * moat's own has it again. */
void hostfd_tty_behind(bool is);
bool hostfd_is(const struct file *f);
/* The duplicate, borrowed; -1 if @f is something else. */
int hostfd_get_fd(const struct file *f);

#endif
