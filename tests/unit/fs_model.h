/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of file systems share: a name space on any super, and a random walk of file
 * operations that is made on moat and on a directory of the host at the same time. After each step
 * both must have given the same errno, and every now and then both trees must be the same in names,
 * types, modes, sizes, link counts and contents.
 */
#ifndef MOAT_TESTS_FS_MODEL_H
#define MOAT_TESTS_FS_MODEL_H

#include "vfs/vfs.h"

struct fsenv {
	struct mount_ns *ns;
	struct fs_struct *fs;
	struct vfs_ctx ctx;
	size_t dentries_before;
};
void fsenv_start(void); /* the clock, the VFS; once */
/* Takes the reference to @s. */
void fsenv_up(struct fsenv *e, struct super *s);
/* On a new tmpfs of these mount options. */
void fsenv_up_tmpfs(struct fsenv *e, const char *opts);
/* Ends it; no dentry may be left. */
void fsenv_down(struct fsenv *e);

/* Short forms; -errno. */
int fsm_open(struct fsenv *e, const char *path, unsigned flags, unsigned mode, struct file **out);
ssize_t fsm_pwrite(struct fsenv *e, struct file *f, const void *buf, size_t size, int64_t off);
ssize_t fsm_pread(struct fsenv *e, struct file *f, void *buf, size_t size, int64_t off);
/* The same by who can be given parts of files: what he was offered last, and how often by this
 * read; he takes it if @take is set. */
struct fsm_given {
	bool take;
	unsigned count;
	struct uio_file file; /* id 0: zeros */
	uint64_t pos;
	size_t size;
};
extern struct fsm_given g_fsm_given;
ssize_t fsm_pread_given(struct file *f, void *buf, size_t size, int64_t off);
int fsm_put(struct fsenv *e, const char *path, const char *text); /* creates or overwrites */
/* The content as a string in a static buffer, or "!errno". */
const char *fsm_text(struct fsenv *e, const char *path);
int fsm_stat(struct fsenv *e, const char *path, struct kstat *st); /* no-follow */
/* The names of a directory, sorted, with a space after each, in a static buffer. */
const char *fsm_list(struct fsenv *e, const char *path);

/* A temporary directory of the host; removed by tmp_remove. */
int tmp_make(char *path /* of 64 */);
void tmp_remove(const char *path);
/* Puts the same small tree (files, directories, hard links, symlinks) below @dir. */
void tmp_fill(const char *dir);

/* @steps random operations on @e and below the host's @dir, which hold the same tree. */
void model_walk(struct fsenv *e, const char *dir, unsigned seed, unsigned steps,
		bool compare_nlink);

#endif
