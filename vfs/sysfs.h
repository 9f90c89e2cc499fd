/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysfs: what programs read to learn of processors, memory nodes and network interfaces. All of it
 * is made from the parameters below; nothing of the host shows through.
 */
#ifndef MOAT_VFS_SYSFS_H
#define MOAT_VFS_SYSFS_H

#include "vfs/vfs.h"

#define SYSFS_CPUS_MAX 1024u

struct sysfs_params {
	unsigned cpus;             /* 1 … SYSFS_CPUS_MAX */
	unsigned threads_per_core; /* >= 1 */
	uint64_t mem_total;        /* bytes */
	/* Bytes free now; NULL: half of mem_total. */
	uint64_t (*mem_free)(void);
	/* Caches in bytes; 0: a usual size. */
	uint32_t cache_line, l1d, l1i, l2, l3;
	const char *thp; /* "always", "madvise" or "never"; NULL: madvise */
};

/* At start, before the first mount. */
void sysfs_configure(const struct sysfs_params *p);
/* "sysfs", mountable by guests. vfs_init() registers it. */
extern const struct fs_type g_sysfs_type;

#endif
