/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anonymous memory files: memfd_create(2) with seals, and shared memory for
 * MAP_SHARED|MAP_ANONYMOUS and System V shm. They are tmpfs inodes on a hidden, unlimited instance.
 *
 * Source: memfd_create(2), fcntl(2) "File Sealing".
 */
#ifndef MOAT_VFS_MEMFD_H
#define MOAT_VFS_MEMFD_H

#include "vfs/vfs.h"

#define LX_MFD_CLOEXEC 1u
#define LX_MFD_ALLOW_SEALING 2u
#define LX_MFD_HUGETLB 4u
#define LX_MFD_NOEXEC_SEAL 8u
#define LX_MFD_EXEC 16u

#define LX_F_ADD_SEALS 1033
#define LX_F_GET_SEALS 1034
#define LX_F_SEAL_SEAL 1u
#define LX_F_SEAL_SHRINK 2u
#define LX_F_SEAL_GROW 4u
#define LX_F_SEAL_WRITE 8u
#define LX_F_SEAL_FUTURE_WRITE 16u
#define LX_F_SEAL_EXEC 32u

#define LX_MFD_NAME_MAX 249 /* bytes, without NUL */

/* memfd_create(2): checks the flags (-EINVAL; -ENOSYS for MFD_HUGETLB) and the name's length
 * (-EINVAL). A file opened O_RDWR; MFD_CLOEXEC is the caller's to apply. */
int memfd_create_file(struct vfs_ctx *c, const char *name, unsigned flags,
		      struct file **out) MUST_USE;

/* fcntl(F_ADD_SEALS, F_GET_SEALS). -EINVAL if @f cannot be sealed at all (not in memory). */
int memfd_add_seals(struct file *f, unsigned seals) MUST_USE;
int memfd_get_seals(struct file *f) MUST_USE; /* seals, or -EINVAL */

/* The mm calls _get for each shared mapping of @f that may be or become writable (max_prot has
 * WRITE), before it maps, and once more when it splits or copies (fork) one; _put when one goes.
 * -EPERM: sealed meanwhile. F_SEAL_WRITE is -EBUSY while the count is not 0. No-ops for files not
 * in memory. */
int memfd_map_write_get(struct file *f) MUST_USE;
void memfd_map_write_put(struct file *f);

/* Shared memory of @size bytes (rounded up to pages), zero, backed by a host memfd from the start.
 * @name: as /proc/PID/maps shows it, "/dev/zero (deleted)" or "/SYSV%08x (deleted)". The file is
 * O_RDWR. */
int shmem_new(uint64_t size, const char *name, struct file **out) MUST_USE;

#endif
