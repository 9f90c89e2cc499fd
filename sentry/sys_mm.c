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
