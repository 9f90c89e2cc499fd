/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the VFS tells inotify. Implemented in vfs/inotify.c; cheap while nobody watches.
 */
#ifndef MOAT_VFS_FSNOTIFY_H
#define MOAT_VFS_FSNOTIFY_H

#include "base/lx_inotify.h"
#include "vfs/vfs.h"

/*
 * An event on the file that @d names: to the watches of its parent with the name that @d has now,
 * and to those of the inode itself. CREATE, DELETE, MOVED_FROM and MOVED_TO concern the parent
 * only. The callee adds ISDIR. @cookie ties MOVED_FROM and MOVED_TO together, else 0. Called with
 * fibers' locks of directories and files held perhaps, with no short lock held.
 */
void fsnotify(struct dentry *d, uint32_t mask, uint32_t cookie);
/* An event on the inode's own watches only (DELETE_SELF, MOVE_SELF). */
void fsnotify_inode(struct inode *i, uint32_t mask);

#endif
