/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timerfd_create(2) and its companions.
 */
#ifndef MOAT_VFS_TIMERFD_H
#define MOAT_VFS_TIMERFD_H

#include "base/lx_time.h"
#include "vfs/vfs.h"

#define LX_TFD_CLOEXEC LX_O_CLOEXEC
#define LX_TFD_NONBLOCK LX_O_NONBLOCK
#define LX_TFD_TIMER_ABSTIME 1
#define LX_TFD_TIMER_CANCEL_ON_SET 2

/* -EINVAL for an unknown clock or flag, -EPERM for an alarm clock without CAP_WAKE_ALARM. */
int timerfd_create_file(struct vfs_ctx *c, int clockid, unsigned flags, struct file **out) MUST_USE;
/* -EINVAL if @f is no timerfd, for bad flags or times out of range. @old may be NULL. */
int timerfd_settime_file(struct file *f, int flags, const struct lx_itimerspec *value,
			 struct lx_itimerspec *old) MUST_USE;
int timerfd_gettime_file(struct file *f, struct lx_itimerspec *cur) MUST_USE;

#endif
