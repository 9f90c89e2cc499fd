/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlay: all writes work and vanish. A read-only host tree below, memory above; one tree as the
 * guest sees it.
 */
#ifndef MOAT_VFS_OVERLAY_H
#define MOAT_VFS_OVERLAY_H

#include "vfs/tmpfs.h"

/* An overlay on @lower, an immutable hostfs (takes its own reference). @o: limits for what is
 * written; mode, uid, gid are not used (the root's come from the lower root). *out: one reference.
 * -EINVAL: @lower will not do. */
int overlay_new(struct super *lower, const struct tmpfs_opts *o, struct super **out) MUST_USE;

extern const struct fs_type g_overlay_type; /* not mountable by guests */

enum overlay_change_kind {
	OVERLAY_ADDED,    /* a name that the lower tree has not */
	OVERLAY_MODIFIED, /* content or attributes of a lower file, or a lower directory's
			     attributes */
	OVERLAY_DELETED,  /* a lower name that is gone */
	OVERLAY_REPLACED, /* a lower name that is another file now */
};
struct overlay_change {
	enum overlay_change_kind kind;
	const char *path;     /* "/a/b", from the overlay's root */
	struct inode *inode;  /* of the overlay, borrowed; NULL if deleted */
	bool content_changed; /* regular files: else only attributes */
};
/* Calls @fn for each change, parents before children, until it returns non-zero (returned). The
 * tree must be quiet. Of a plain tmpfs all is OVERLAY_ADDED. For `--diff` and `--save`. From a
 * fiber. */
int overlay_changes(struct super *s, int (*fn)(void *arg, const struct overlay_change *ch),
		    void *arg);
/* Reads from a regular file of the overlay (for --save). Bytes, short at the end. */
ssize_t overlay_read(struct inode *i, void *buf, size_t size, int64_t pos);

#endif
