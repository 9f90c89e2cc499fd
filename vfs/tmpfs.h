/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tmpfs: a file system in memory. Also the upper half of overlays, and what memfds are made of.
 *
 * Mount options (mount(2)'s data): size=N[kmg%] nr_blocks=N nr_inodes=N mode=OCT uid=N gid=N.
 * As in Linux, without size= the limit is half of the memory, without nr_inodes= half of the pages;
 * the sentry says what "the memory" is by tmpfs_set_memory().
 */
#ifndef MOAT_VFS_TMPFS_H
#define MOAT_VFS_TMPFS_H

#include "vfs/vfs.h"

struct tmpfs_opts {
	uint64_t size;      /* bytes; 0: the default; UINT64_MAX: no limit */
	uint64_t nr_inodes; /* 0: the default; UINT64_MAX: no limit */
	uint32_t mode;      /* of the root: permission bits */
	uint32_t uid, gid;  /* of the root */
};
#define TMPFS_OPTS_DEFAULT ((struct tmpfs_opts){.mode = 01777})

/* Reads mount data into @o, which holds the defaults. -EINVAL for an option that is unknown or
 * wrong. */
int tmpfs_parse_opts(const char *data, struct tmpfs_opts *o) MUST_USE;
/* An instance, with one reference. */
int tmpfs_new(const struct tmpfs_opts *o, struct super **out) MUST_USE;
/* The memory of the sandbox in bytes; at start. 0, the default: the host's. All instances, memfds
 * and shared memory together get half of it, then -ENOSPC; that is also the default size of each.
 * What guests touch through mappings is counted late: a cgroup limit, and a high oom_score_adj of
 * the sentry, are the wall behind. */
void tmpfs_set_memory(uint64_t bytes);

/* How many descriptors the sentry may have; at start. A part of them are for files that are big, or
 * are read again and again; others stay in the sentry's own memory. */
void tmpfs_set_descriptors(uint64_t count);

/* Contents that guests made by writing to mappings and that nobody has charged for yet. Any thread.
 */
uint64_t tmpfs_bytes_found(void);

/* "tmpfs", mountable by guests. vfs_init() registers it. */
extern const struct fs_type g_tmpfs_type;

#endif
