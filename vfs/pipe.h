/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes and FIFOs. See pipe(7), fifo(7), fcntl(2) F_SETPIPE_SZ.
 *
 * An anonymous pipe is an S_IFIFO inode of anon_super() whose inode->fifo is set for good; a FIFO's
 * inode->fifo lives while it is open. Both are opened by fifo_open, so that /proc/PID/fd/N of a
 * pipe can be reopened.
 */
#ifndef MOAT_VFS_PIPE_H
#define MOAT_VFS_PIPE_H

#include "vfs/vfs.h"

#define PIPE_ATOMIC_SIZE 4096u /* PIPE_BUF: writes up to this are not interleaved */
#define PIPE_DEFAULT_SIZE 65536u
#define PIPE_MAX_SIZE (1u << 20) /* /proc/sys/fs/pipe-max-size: more needs CAP_SYS_RESOURCE */

struct pipe;

/* pipe2(2). @flags: LX_O_NONBLOCK, LX_O_DIRECT (packets) and LX_O_CLOEXEC (ignored here), else
 * -EINVAL. Both files are references. */
int pipe_create(struct vfs_ctx *c, uint32_t flags, struct file **rd, struct file **wr) MUST_USE;

/* The open of an S_IFIFO inode, called by vfs_open with @f made and no lock held: sets f->ops and
 * f->priv. Blocks until the other end is open as fifo(7) says: -ENXIO, -ERESTARTSYS. */
int fifo_open(struct vfs_ctx *c, struct inode *i, struct file *f) MUST_USE;

/* Is it an open end of a pipe or FIFO? O_PATH files are not. */
bool file_is_pipe(const struct file *f);
/* F_GETPIPE_SZ and F_SETPIPE_SZ: the size in bytes; -EBADF if not a pipe, -EINVAL, -EPERM, -EBUSY,
 * -ENOMEM. */
long pipe_get_size(struct file *f);
long pipe_set_size(struct vfs_ctx *c, struct file *f, uint64_t size);

/* The inode dies: frees inode->fifo. For inode_put. */
void pipe_inode_free(struct inode *i);

#endif
