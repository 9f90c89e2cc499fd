/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of the memory map: arguments only; sentry/mm*.c does the work.
 */
#include "sentry/mm_ops.h"
#include "sentry/syscall.h"

#include <errno.h>

long sys_mmap(struct task *t, uint64_t addr, uint64_t length, uint64_t prot, uint64_t flags, int fd,
	      uint64_t offset)
{
	struct file *file = NULL;
	long r;

	if (offset % MOAT_PAGE_SIZE)
		return -EINVAL;
	if (!(flags & LX_MAP_ANONYMOUS)) {
		file = fd_get_nopath(t->files, fd);
		if (!file)
			return -EBADF;
		if (flags & LX_MAP_HUGETLB) {
			file_put(file);
			return -EINVAL;
		}
	} else if (flags & LX_MAP_HUGETLB) {
		/* A host without huge pages set aside: the reservation fails, for a size it knows.
		 */
		uint64_t log = (flags >> 26) & 0x3f;

		return log == 0 || log == 21 || log == 30 ? -ENOMEM : -EINVAL;
	}
	r = mm_mmap(t, addr, length, (uint32_t)prot, (uint32_t)flags, file, offset);
	if (file)
		file_put(file);
	return r;
}

long sys_munmap(struct task *t, uint64_t addr, uint64_t length)
{
	return mm_munmap(t, addr, length);
}

long sys_mprotect(struct task *t, uint64_t addr, uint64_t length, uint64_t prot)
{
	/* Bits above 32 are no protection that exists. */
	if (prot > UINT32_MAX)
		return length == 0 && addr % MOAT_PAGE_SIZE == 0 ? 0 : -EINVAL;
	return mm_mprotect(t, addr, length, (uint32_t)prot);
}

long sys_brk(struct task *t, uint64_t brk)
{
	return mm_brk(t, brk);
}

long sys_mremap(struct task *t, uint64_t old_addr, uint64_t old_len, uint64_t new_len,
		uint64_t flags, uint64_t new_addr)
{
	if (flags > UINT32_MAX)
		return -EINVAL;
	return mm_mremap(t, old_addr, old_len, new_len, (unsigned)flags, new_addr);
}

long sys_remap_file_pages(struct task *t, uint64_t addr, uint64_t size, uint64_t prot,
			  uint64_t pgoff, uint64_t flags UNUSED)
{
	return mm_remap_file_pages(t, addr, size, prot, pgoff);
}

long sys_madvise(struct task *t, uint64_t addr, uint64_t length, int advice)
{
	return mm_madvise(t, addr, length, advice);
}

long sys_msync(struct task *t, uint64_t addr, uint64_t length, int flags)
{
	return mm_msync(t, addr, length, flags);
}

long sys_mincore(struct task *t, uint64_t addr, uint64_t length, gaddr_t vec)
{
	return mm_mincore(t, addr, length, vec);
}

long sys_mlock(struct task *t, uint64_t addr, uint64_t len)
{
	return mm_mlock(t, addr, len, false);
}

#define MLOCK_ONFAULT_ 1

long sys_mlock2(struct task *t, uint64_t addr, uint64_t len, int flags)
{
	if (flags & ~MLOCK_ONFAULT_)
		return -EINVAL;
	return mm_mlock(t, addr, len, flags & MLOCK_ONFAULT_);
}

long sys_munlock(struct task *t, uint64_t addr, uint64_t len)
{
	return mm_munlock(t, addr, len);
}

long sys_mlockall(struct task *t, int flags)
{
	return mm_mlockall(t, flags);
}

long sys_munlockall(struct task *t)
{
	mm_munlockall(t);
	return 0;
}

long sys_mseal(struct task *t, uint64_t start, uint64_t len, uint64_t flags)
{
	return mm_mseal(t, start, len, flags);
}

/* ---- memory protection keys: as on a processor without them ---- */

#define PKEY_ACCESS_MASK 3u

long sys_pkey_alloc(struct task *t UNUSED, uint64_t flags, uint64_t init_val)
{
	if (flags || (init_val & ~(uint64_t)PKEY_ACCESS_MASK))
		return -EINVAL;
	return -ENOSPC;
}

long sys_pkey_free(struct task *t UNUSED, int pkey UNUSED)
{
	return -EINVAL;
}

long sys_pkey_mprotect(struct task *t, uint64_t addr, uint64_t len, uint64_t prot, int pkey)
{
	if (pkey == -1)
		return sys_mprotect(t, addr, len, prot);
	/* No key can have been allocated; but a length of 0 is asked for first. */
	return len == 0 && addr % MOAT_PAGE_SIZE == 0 ? 0 : -EINVAL;
}
