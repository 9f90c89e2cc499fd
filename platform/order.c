/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map operations as orders. See platform/order.h.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "platform/order.h"
#include "platform/stub_files.h"

bool order_range_ok(uint64_t addr, uint64_t size)
{
	return ((addr | size) & ~PAGE_MASK_DOWN) == 0 && size != 0 && size <= PF_GUEST_LIMIT &&
	       addr <= PF_GUEST_LIMIT - size;
}

static int map_flags(const struct map_op *op)
{
	return MAP_FIXED | (op->flags & MAP_OPF_SHARED ? MAP_SHARED : MAP_PRIVATE) |
	       (op->flags & MAP_OPF_NORESERVE ? MAP_NORESERVE : 0) |
	       (op->flags & MAP_OPF_POPULATE ? MAP_POPULATE : 0);
}

/* On x86 whoever may write or execute may read; said to the host, it holds for the sentry's copies
 * too. */
static uint64_t host_prot(uint32_t prot)
{
	prot &= PROT_READ | PROT_WRITE | PROT_EXEC;
	return prot ? prot | PROT_READ : 0;
}

void order_set(struct stub_order *o, uint64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
	       uint64_t e, uint64_t f)
{
	*o = (struct stub_order){.nr = nr, .arg = {a, b, c, d, e, f}};
}

int order_from_op(struct stub_order *o, const struct map_op *op, struct pt_file **file)
{
	const uint64_t prot = host_prot(op->prot);
	int fd;

	*file = NULL;
	if (op->kind == MAP_OP_REMAP
		    ? !order_range_ok(op->addr, op->size ? op->size : MOAT_PAGE_SIZE)
		    : !order_range_ok(op->addr, op->size))
		return -EINVAL;
	switch (op->kind) {
	case MAP_OP_ANON:
		order_set(o, SYS_mmap, op->addr, op->size, prot,
			  (uint64_t)(map_flags(op) | MAP_ANONYMOUS), (uint64_t)-1, 0);
		return 0;
	case MAP_OP_FILE:
		fd = pt_file_get(op->host_fd, op->file_key, op->flags & MAP_OPF_NEVER_WRITTEN,
				 file);
		if (fd < 0)
			return fd;
		order_set(o, SYS_mmap, op->addr, op->size, prot, (uint64_t)map_flags(op),
			  (uint64_t)fd, op->offset);
		return 0;
	case MAP_OP_UNMAP:
		order_set(o, SYS_munmap, op->addr, op->size, 0, 0, 0, 0);
		return 0;
	case MAP_OP_PROTECT:
		order_set(o, SYS_mprotect, op->addr, op->size, prot, 0, 0, 0);
		return 0;
	case MAP_OP_REMAP: {
		uint64_t flags = 0;

		if (!order_range_ok(op->new_addr, op->new_size))
			return -EINVAL;
		/* In place, the host refuses FIXED. */
		if (op->new_addr != op->addr)
			flags = MREMAP_MAYMOVE | MREMAP_FIXED |
				(op->flags & MAP_OPF_DONTUNMAP ? MREMAP_DONTUNMAP : 0);
		order_set(o, SYS_mremap, op->addr, op->size, op->new_size, flags, op->new_addr, 0);
		return 0;
	}
	case MAP_OP_ADVISE:
		order_set(o, SYS_madvise, op->addr, op->size, (uint64_t)op->advice, 0, 0, 0);
		return 0;
	case MAP_OP_SYNC:
		order_set(o, SYS_msync, op->addr, op->size, MS_SYNC, 0, 0, 0);
		return 0;
	}
	return -EINVAL;
}
