/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path walk's state, for namei.c and for open, which goes on with it after the last component.
 */
#ifndef MOAT_VFS_NAMEI_H
#define MOAT_VFS_NAMEI_H

#include "vfs/vfs.h"

struct walk_frame {
	char *buf;        /* a symlink's text, owned; NULL: the caller's string */
	const char *rest; /* what is still to be walked of it */
};

struct walk {
	struct vfs_ctx *c;
	unsigned flags;   /* WALK_*; trailing slashes add FOLLOW and DIRECTORY */
	struct path path; /* where the walk is; references */
	struct path root; /* references; mnt NULL: not fetched yet */
	unsigned links;   /* symlinks followed so far */
	unsigned depth;   /* frames that wait below the current one */
	uint64_t rename_seq, mount_seq;
	struct walk_frame cur;
	struct walk_frame stack[LX_SYMLOOP_MAX];
	/* The last component, once walk_parent returned 0; it points into cur. */
	const char *last;
	size_t last_len;
	enum last_type last_type;
	bool last_slash;
};

/* Starts a walk of @name. On any result walk_fini must follow. */
int walk_init(struct walk *w, struct vfs_ctx *c, const struct path *start, const char *name,
	      unsigned flags) MUST_USE;
void walk_fini(struct walk *w);
/* Walks up to the last component; with @whole it may go over the last one, too, if that is easy:
 * last_type is LAST_ROOT then, nothing is left. */
int walk_parent(struct walk *w, bool whole) MUST_USE;
/* The last component is not LAST_NORM: goes there. */
int walk_last_dots(struct walk *w) MUST_USE;
/* Looks the last component up, in the cache and then in the file system. *out: a reference, maybe
 * negative. */
int walk_last_lookup(struct walk *w, struct dentry **out) MUST_USE;
/* w->path is the parent, @d (a reference, taken) the last component, positive: steps to it and on
 * top of what is mounted there: 0. If it is a symlink to be followed, follows it by one step: 1,
 * and walk_parent goes on. */
int walk_last_step(struct walk *w, struct dentry *d) MUST_USE;
/* The checks at the end of every walk. */
int walk_complete(struct walk *w) MUST_USE;

/* @d, a child of w->path, is not there (vfs/missed.c). */
void walk_missed(const struct walk *w, struct dentry *d);
/* The whole path that @w was on its way to, with links on the way replaced. False: it does not
 * fit. */
bool walk_missed_text(const struct walk *w, struct dentry *d, char *buf, size_t size) MUST_USE;

#endif
