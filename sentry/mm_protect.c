/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mprotect and mremap.
 *
 * Theory of operation: as sentry/mm_ops.h says. mprotect goes vma by vma, one host op each, and
 * stops at the first that may not change: what came before stays changed, as on Linux. mremap lets
 * the host move the pages; a mapping of length 0 to be duplicated is mapped anew from its file.
 *
 * Locking: mm->lock inside.
 */
#include "sentry/mm_ops.h"

#include <errno.h>

#define GROWS (LX_PROT_GROWSDOWN | LX_PROT_GROWSUP)
#define LX_PROT_SEM 8u

/* ---- mprotect ---- */

/* Where the change begins and ends for PROT_GROWSDOWN and plain calls. 0 or -errno. */
static int protect_range(struct mm *mm, uint64_t *start, uint64_t *end, uint32_t grows)
	REQUIRES(mm->lock)
{
	struct vma *v = mm_find(mm, *start);

	if (!v)
		return -ENOMEM;
	if (grows & LX_PROT_GROWSDOWN) {
		if (v->start >= *end)
			return -ENOMEM;
		*start = v->start;
		return v->flags & VMA_GROWSDOWN ? 0 : -EINVAL;
	}
	if (v->start > *start)
		return -ENOMEM;
	/* Nothing grows upwards here. */
	return grows & LX_PROT_GROWSUP ? -EINVAL : 0;
}

/* One vma, or the part of it below @end. */
static int protect_one(struct task *t, struct mm *mm, struct vma *v, uint32_t prot)
	REQUIRES(mm->lock)
{
	uint64_t size = v->end - v->start;
	bool was_data = (v->prot & LX_PROT_WRITE);
	bool sure = !(v->flags & VMA_SHARED) && (v->host_fd < 0 || (prot & ~v->prot) == 0);
	int r;

	if (prot & ~v->max_prot)
		return -EACCES;
	if (v->flags & VMA_SEALED)
		return -EPERM;
	if (prot == v->prot)
		return 0;
	if ((prot & LX_PROT_EXEC) && v->file)
		vfs_used(&v->file->path, VFS_USE_EXEC);
	/* Newly writable private memory counts as data. */
	if ((prot & LX_PROT_WRITE) && !was_data && !mm_may_expand(t, mm, prot, v->flags, size, 0) &&
	    mm_may_expand(t, mm, v->prot, v->flags, size, 0))
		return -ENOMEM;
	r = mm_host_op(t, (struct map_op){.kind = MAP_OP_PROTECT,
					  .flags = sure ? MAP_OPF_SURE : 0,
					  .addr = v->start,
					  .size = size,
					  .prot = prot});
	if (r == 0)
		vma_set(mm, v, prot, v->flags);
	return r;
}

static int protect_locked(struct task *t, struct mm *mm, uint64_t start, uint64_t end,
			  uint32_t prot, uint32_t grows) REQUIRES(mm->lock)
{
	bool implies_exec = (t->personality & LX_PER_READ_IMPLIES_EXEC) && (prot & LX_PROT_READ);
	uint64_t at;
	struct vma *v;
	int r;

	r = protect_range(mm, &start, &end, grows);
	if (r)
		return r;
	r = mm_split(mm, start);
	if (r)
		return r;
	at = start;
	for (v = mm_find(mm, start); v && v->start < end; v = mm_next(v)) {
		uint32_t p = prot;

		if (v->start != at)
			return -ENOMEM;
		if (v->end > end) {
			r = mm_split(mm, end);
			if (r)
				return r;
		}
		if (implies_exec && (v->max_prot & LX_PROT_EXEC))
			p |= LX_PROT_EXEC;
		r = protect_one(t, mm, v, p);
		if (r)
			return r;
		at = v->end;
	}
	return at < end ? -ENOMEM : 0;
}

int mm_mprotect(struct task *t, uint64_t addr, uint64_t size, uint32_t prot)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	uint32_t grows = prot & GROWS;
	uint64_t end;
	int r;

	if (grows == GROWS || addr % MOAT_PAGE_SIZE)
		return -EINVAL;
	if (size == 0)
		return 0;
	end = addr + page_up(size);
	if (end <= addr)
		return -ENOMEM;
	prot &= ~GROWS;
	if (prot & ~(PROT_ALL | LX_PROT_SEM))
		return -EINVAL;
	fmutex_lock(&mm->lock);
	r = protect_locked(t, mm, addr, end, prot & PROT_ALL, grows);
	mm_merge(mm, addr, end, &dead);
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	return r;
}

/* ---- mremap ---- */

struct remap_call {
	uint64_t addr, old_size, new_size, new_addr;
	unsigned flags;
};

/* May the mapping at c->addr become c->new_size long? *out: its vma. Linux's vma_to_resize. */
static int check_resize(struct task *t, struct mm *mm, const struct remap_call *c, struct vma **out)
	REQUIRES(mm->lock)
{
	struct vma *v = mm_find(mm, c->addr);

	if (!v || v->start > c->addr)
		return -EFAULT;
	if (c->old_size == 0 && !(v->flags & VMA_SHARED))
		return -EINVAL;
	if ((c->flags & LX_MREMAP_DONTUNMAP) && (v->flags & (VMA_VDSO | VMA_VVAR)))
		return -EINVAL;
	if (c->old_size > v->end - c->addr)
		return -EFAULT;
	*out = v;
	if (c->new_size == c->old_size)
		return 0;
	if (v->host_fd >= 0 && v->offset + (c->addr - v->start) + c->new_size < v->offset)
		return -EINVAL;
	if (v->flags & (VMA_VDSO | VMA_VVAR))
		return -EFAULT;
	if (c->new_size > c->old_size) {
		uint64_t more = c->new_size - c->old_size;

		if ((v->flags & VMA_LOCKED) && !mm_may_lock(t, mm, more))
			return -EAGAIN;
		if (!mm_may_expand(t, mm, v->prot, v->flags, more, 0))
			return -ENOMEM;
	}
	return 0;
}

/* @huge: now that it is so long it shall have huge pages. */
static int remap_op(struct task *t, struct map_op op, bool huge)
{
	if (!huge)
		return mm_host_op(t, op);
	return mm_host_op_huge(t, op, op.new_addr, op.new_addr + op.new_size);
}

/* Grows the mapping where it is, if the room above is free. By the host's mremap: a new mapping
 * beside it would not become one with a mapping that was moved before. */
static int grow_in_place(struct task *t, const struct remap_call *c, struct vma *v, bool huge)
{
	uint64_t end = c->addr + c->new_size;
	struct vma *next = mm_next(v);

	if (end > PF_GUEST_LIMIT || end < v->end || (next && next->start < end))
		return -ENOMEM;
	return remap_op(t,
			(struct map_op){.kind = MAP_OP_REMAP,
					.addr = c->addr,
					.size = c->old_size,
					.new_addr = c->addr,
					.new_size = c->new_size},
			huge);
}

/* The host's part of a move: pages go from the old range to the new one. */
static int move_pages_op(struct task *t, const struct remap_call *c, const struct vma *v, bool huge)
{
	struct map_op op;

	if (c->old_size == 0) {
		op = vma_map_op(v);
		op.offset += c->addr - v->start;
		op.addr = c->new_addr;
		op.size = c->new_size;
		return mm_host_op(t, op);
	}
	op = (struct map_op){.kind = MAP_OP_REMAP,
			     .addr = c->addr,
			     .size = c->old_size,
			     .new_addr = c->new_addr,
			     .new_size = c->new_size};
	if (c->flags & LX_MREMAP_DONTUNMAP)
		op.flags |= MAP_OPF_DONTUNMAP;
	return remap_op(t, op, huge);
}

/* Moves [addr, old_size), inside one vma, to the free range at c->new_addr. */
static int move(struct task *t, struct mm *mm, const struct remap_call *c, struct vma_list *dead)
	REQUIRES(mm->lock)
{
	struct vma *v, *copy;
	uint64_t skip;
	bool huge;
	int r;

	if (mm_too_many(mm->vma_count + 6))
		return -ENOMEM;
	/* The part that moves becomes a vma of its own. */
	if (c->old_size) {
		r = mm_split_range(mm, c->addr, c->addr + c->old_size);
		if (r)
			return r;
	}
	v = mm_find(mm, c->addr);
	copy = vma_dup(v);
	if (!copy)
		return -ENOMEM;
	huge = c->new_size > c->old_size &&
	       mm_wants_huge(mm, v, c->new_addr, c->new_addr + c->new_size);
	r = move_pages_op(t, c, v, huge);
	if (r) {
		vma_list_add(dead, copy);
		return r;
	}
	skip = c->addr - v->start;
	copy->start = c->new_addr;
	copy->end = c->new_addr + c->new_size;
	if (copy->host_fd >= 0) {
		copy->offset += skip;
		copy->host_offset += skip;
	}
	copy->flags &= ~(VMA_HEAP | VMA_STACK);
	if (huge)
		copy->flags |= VMA_AUTOHUGE;
	if (c->flags & LX_MREMAP_DONTUNMAP)
		vma_set(mm, v, v->prot, v->flags & ~VMA_LOCKED);
	else if (c->old_size)
		mm_cut(mm, c->addr, c->addr + c->old_size, dead);
	vma_link(mm, copy);
	if (mm->vdso == c->addr && (copy->flags & VMA_VDSO))
		mm->vdso = c->new_addr;
	mm_merge(mm, copy->start, copy->end, dead);
	return 0;
}

/* MREMAP_FIXED and MREMAP_DONTUNMAP. */
static int64_t remap_to(struct task *t, struct mm *mm, struct remap_call *c, struct vma_list *dead)
	REQUIRES(mm->lock)
{
	struct vma *v;
	int64_t a;
	int r;

	if (c->new_addr % MOAT_PAGE_SIZE)
		return -EINVAL;
	if (c->new_size > LX_TASK_SIZE || c->new_addr > LX_TASK_SIZE - c->new_size)
		return -EINVAL;
	if (c->addr + c->old_size > c->new_addr && c->new_addr + c->new_size > c->addr)
		return -EINVAL;
	if (mm_too_many(mm->vma_count + 6))
		return -ENOMEM;
	/* What can be refused is, before the target is unmapped; Linux is not so kind. */
	r = check_resize(t, mm, c, &v);
	if (r)
		return r;
	if ((c->flags & LX_MREMAP_DONTUNMAP) &&
	    !mm_may_expand(t, mm, v->prot, v->flags, c->old_size, 0))
		return -ENOMEM;
	if (c->flags & LX_MREMAP_FIXED) {
		a = mm_pick_addr(t, mm, c->new_addr, c->new_size, LX_MAP_FIXED, false);
		if (a < 0)
			return a;
		r = mm_unmap_locked(t, mm, c->new_addr, c->new_addr + c->new_size, dead);
		if (r)
			return r;
	}
	if (c->old_size > c->new_size) {
		r = mm_unmap_locked(t, mm, c->addr + c->new_size, c->addr + c->old_size, dead);
		if (r)
			return r;
		c->old_size = c->new_size;
	}
	if (!(c->flags & LX_MREMAP_FIXED)) {
		a = mm_pick_addr(t, mm, c->new_addr, c->new_size, 0, false);
		if (a < 0)
			return a;
		c->new_addr = (uint64_t)a;
	}
	r = move(t, mm, c, dead);
	return r ? r : (int64_t)c->new_addr;
}

static int64_t remap_locked(struct task *t, struct mm *mm, struct remap_call *c,
			    struct vma_list *dead) REQUIRES(mm->lock)
{
	struct vma *v = mm_find(mm, c->addr);
	bool huge;
	int64_t a;
	int r;

	if (!v || v->start > c->addr)
		return -EFAULT;
	if (v->flags & VMA_SEALED)
		return -EPERM;
	if (c->flags & (LX_MREMAP_FIXED | LX_MREMAP_DONTUNMAP))
		return remap_to(t, mm, c, dead);
	if (c->old_size >= c->new_size) {
		if (c->old_size > c->new_size) {
			uint64_t end = c->addr + c->old_size;

			if (end < c->addr || end > LX_TASK_SIZE)
				return -EINVAL;
			r = mm_unmap_locked(t, mm, c->addr + c->new_size, MIN(end, PF_GUEST_LIMIT),
					    dead);
			if (r)
				return r;
		}
		return (int64_t)c->addr;
	}
	r = check_resize(t, mm, c, &v);
	if (r)
		return r;
	huge = c->addr == v->start && mm_wants_huge(mm, v, v->start, v->start + c->new_size);
	if (c->old_size == v->end - c->addr && grow_in_place(t, c, v, huge) == 0) {
		vma_resize(mm, v, v->start, c->addr + c->new_size);
		if (huge)
			vma_set(mm, v, v->prot, v->flags | VMA_AUTOHUGE);
		mm_merge(mm, v->start, v->end, dead);
		return (int64_t)c->addr;
	}
	if (!(c->flags & LX_MREMAP_MAYMOVE))
		return -ENOMEM;
	a = mm_pick_addr(t, mm, 0, c->new_size, 0, v->host_fd < 0);
	if (a < 0)
		return a;
	c->new_addr = (uint64_t)a;
	r = move(t, mm, c, dead);
	return r ? r : a;
}

long mm_mremap(struct task *t, uint64_t addr, uint64_t old_size, uint64_t new_size, unsigned flags,
	       uint64_t new_addr)
{
	struct remap_call c = {.addr = addr,
			       .old_size = page_up(old_size),
			       .new_size = page_up(new_size),
			       .new_addr = new_addr,
			       .flags = flags};
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	int64_t a;

	if (flags & ~(LX_MREMAP_MAYMOVE | LX_MREMAP_FIXED | LX_MREMAP_DONTUNMAP))
		return -EINVAL;
	if ((flags & LX_MREMAP_FIXED) && !(flags & LX_MREMAP_MAYMOVE))
		return -EINVAL;
	if ((flags & LX_MREMAP_DONTUNMAP) && (!(flags & LX_MREMAP_MAYMOVE) || old_size != new_size))
		return -EINVAL;
	if (addr % MOAT_PAGE_SIZE || c.new_size == 0)
		return -EINVAL;
	fmutex_lock(&mm->lock);
	a = remap_locked(t, mm, &c, &dead);
	mm_merge(mm, c.addr, c.addr + c.old_size, &dead);
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	return a;
}
