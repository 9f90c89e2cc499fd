/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eventfd(2): a counter in a descriptor.
 */
#ifndef MOAT_VFS_EVENTFD_H
#define MOAT_VFS_EVENTFD_H

#include "vfs/vfs.h"

#define LX_EFD_SEMAPHORE 1u
#define LX_EFD_CLOEXEC LX_O_CLOEXEC
#define LX_EFD_NONBLOCK LX_O_NONBLOCK

/* -EINVAL for unknown flags. LX_EFD_CLOEXEC is the caller's to act on. *out: a reference. */
int eventfd_create(struct vfs_ctx *c, uint32_t count, unsigned flags, struct file **out) MUST_USE;
bool file_is_eventfd(const struct file *f);
/* Adds to the counter from inside the kernel (AIO and the like), saturating; wakes readers. Any
 * context without locks above RANK_MISC. -EINVAL if @f is no eventfd. */
int eventfd_signal(struct file *f, uint64_t n);

#endif
