/* SPDX-License-Identifier: Apache-2.0 */
/*
 * O_ASYNC: signal-driven I/O on any file that can be polled.
 */
#ifndef MOAT_VFS_FASYNC_H
#define MOAT_VFS_FASYNC_H

#include "vfs/vfs.h"

/* Arms or disarms; sets O_ASYNC in f->flags. For F_SETFL and FIOASYNC. 0 or -ENOMEM. */
int fasync_set(struct file *f, bool on) MUST_USE;
/* The last reference of @f went. For file_put. */
void fasync_release(struct file *f);

#endif
