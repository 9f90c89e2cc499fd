/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll(7).
 */
#ifndef MOAT_VFS_EPOLL_H
#define MOAT_VFS_EPOLL_H

#include "vfs/vfs.h"

#define LX_EPOLL_CLOEXEC LX_O_CLOEXEC
#define LX_EPOLL_CTL_ADD 1
#define LX_EPOLL_CTL_DEL 2
#define LX_EPOLL_CTL_MOD 3

/* The low bits are LX_POLL*. */
#define LX_EPOLLEXCLUSIVE (1u << 28)
#define LX_EPOLLWAKEUP (1u << 29)
#define LX_EPOLLONESHOT (1u << 30)
#define LX_EPOLLET (1u << 31)

struct lx_epoll_event {
	uint32_t events;
	uint64_t data;
} __attribute__((packed));
_Static_assert(sizeof(struct lx_epoll_event) == 12, "epoll_event of x86-64 is packed");

/* epoll_wait's limit on maxevents. */
#define LX_EP_MAX_EVENTS (0x7fffffff / (int)sizeof(struct lx_epoll_event))

/* epoll_create1(2): -EINVAL for unknown flags (CLOEXEC is the caller's to act on). *out: a
 * reference. */
int epoll_create_file(struct vfs_ctx *c, unsigned flags, struct file **out) MUST_USE;

/* epoll_ctl(2). @ep and @target are what the two descriptors name (borrowed); @fd is target's
 * number, part of the key. @ev is NULL for DEL only. -EPERM (cannot be polled), -EINVAL, -EEXIST,
 * -ENOENT, -ELOOP, -ENOSPC, -ENOMEM, in Linux's order. */
int epoll_ctl_file(struct vfs_ctx *c, struct file *ep, int op, int fd, struct file *target,
		   const struct lx_epoll_event *ev) MUST_USE;

/* epoll_wait(2): up to @max events into @out (struct lx_epoll_event each). @deadline_ns: absolute,
 * monotonic; 0 does not wait. The number of events, 0 at the deadline, -EINVAL (max, or no epoll
 * file), -EFAULT, -EINTR (as Linux: never restarted). The order of Linux's checks: max, [EFAULT],
 * [EBADF], type. */
int epoll_wait_file(struct file *f, struct uio *out, int max, uint64_t deadline_ns) MUST_USE;

/* The last reference of @f went: forgets all its registrations. For file_put. */
void epoll_forget_file(struct file *f);

bool file_is_epoll(const struct file *f);
/* kcmp(2) KCMP_EPOLL_TFD: the @toff-th file that is registered under number @tfd. A reference,
 * NULL: none. */
struct file *epoll_find_target(struct file *ep, int tfd, unsigned toff) MUST_USE;

#endif
