/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving data between files inside the kernel: splice(2), tee(2), vmsplice(2), copy_file_range(2),
 * sendfile(2) (vfs_sendfile is declared in vfs/vfs.h).
 *
 * All return bytes or -errno. Offsets point to kernel copies, NULL: the description's own offset;
 * they are advanced by what was moved. The descriptor and flag-independent checks are the caller's
 * (EBADF for no such descriptor); modes, types and flags are checked here in Linux's order.
 */
#ifndef MOAT_VFS_SPLICE_H
#define MOAT_VFS_SPLICE_H

#include "vfs/vfs.h"

ssize_t vfs_splice(struct vfs_ctx *c, struct file *in, int64_t *in_off, struct file *out,
		   int64_t *out_off, size_t count, unsigned flags);
ssize_t vfs_tee(struct vfs_ctx *c, struct file *in, struct file *out, size_t count, unsigned flags);
/* @f is one end of a pipe: its write end takes data from @u, its read end gives data to @u. */
ssize_t vfs_vmsplice(struct vfs_ctx *c, struct file *f, struct uio *u, unsigned flags);
ssize_t vfs_copy_file_range(struct vfs_ctx *c, struct file *in, int64_t *in_off, struct file *out,
			    int64_t *out_off, size_t count, unsigned flags);

#endif
