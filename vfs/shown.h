/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents that are shown: read by guests without a word to us, for as long as a mark stands. See
 * vfs/shown.c.
 */
#ifndef MOAT_VFS_SHOWN_H
#define MOAT_VFS_SHOWN_H

#include "vfs/vfs.h"

/* What may be read of an open file until marks[mark] is no longer @value. */
struct file_view {
	uint64_t id;         /* struct uio_file's, of the part of the file that has it */
	uint64_t start, end; /* of what may be read, in bytes of the file; start is the part's */
	bool whole;          /* the file ends at @end */
	uint32_t mark;
	uint64_t value;
};

/* @count marks, which whoever reads looks at; NULL: nothing is shown from now on. Nobody else may
 * be in here. */
void shown_start(_Atomic uint64_t *marks, unsigned count);

/* Is anything? */
bool shown_on(void);

/* May what @f, which is descriptor @fd of @t, has at @pos be shown? It was read just now. */
bool shown_begin(struct fdtable *t, int fd, struct file *f, int64_t pos,
		 struct file_view *out) MUST_USE;

/* What file systems do in file_ops.view with the inode that another one's contents come from,
 * before they look at it. */
void shown_lower(struct inode *lower);

#define SHOWN_NOW 3u /* in inode->shown */
void shown_end(struct inode *i);
void shown_end_all(void);

/* Before anything changes that a reader of @i could see, or have to leave behind: size, times, the
 * place of its contents. Under the lock of what changes. */
static inline void inode_changes(struct inode *i)
{
	if (unlikely(atomic_load_explicit(&i->shown, memory_order_relaxed) & SHOWN_NOW))
		shown_end(i);
}

#endif
