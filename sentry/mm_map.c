/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mmap, munmap, brk, and the growth of stacks.
 *
 * Theory of operation: see sentry/mm_ops.h. The order of the checks of mm_mmap is Linux's, with one
 * exception: a file is asked for its mapping before mm->lock is taken, so an error of the file
 * comes before ENOMEM for want of addresses.
 *
 * Deviations from Linux: MAP_HUGETLB finds no huge pages (ENOMEM); addresses in [PF_GUEST_LIMIT,
 * TASK_SIZE) read as free but are never given out; below PF_GUEST_MIN nothing can be mapped,
 * CAP_SYS_RAWIO or not.
 *
 * Locking: mm->lock inside.
 */
#include "sentry/audit.h"
#include "sentry/meter_watch.h"
#include "sentry/mm_ops.h"
#include "vfs/memfd.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* What MAP_SHARED accepts without a look, and MAP_SHARED_VALIDATE insists on. The upper bits are
 * the size of huge pages. */
#define KNOWN_MAP_FLAGS                                                                         \
	(LX_MAP_SHARED_VALIDATE | LX_MAP_FIXED | LX_MAP_ANONYMOUS | LX_MAP_32BIT |              \
	 LX_MAP_GROWSDOWN | LX_MAP_DENYWRITE | LX_MAP_EXECUTABLE | LX_MAP_LOCKED |              \
	 LX_MAP_NORESERVE | LX_MAP_POPULATE | LX_MAP_NONBLOCK | LX_MAP_STACK | LX_MAP_HUGETLB | \
	 (21u << 26) | (30u << 26))

/* The first extra room of the main stack beyond what a fault asks for: each fault is dear. */
#define STACK_GROW_AHEAD ((uint64_t)128 << 10)

/* One mmap call, while it is made. */
struct mmap_call {
	uint64_t addr, size, offset;
	uint32_t prot, max_prot, lx_flags;
	uint32_t flags; /* VMA_* */
	struct shm_segment *sysv;
	struct file *file;   /* what the vma will refer to; NULL: anonymous */
	struct file_map map; /* of file */
	bool anon;           /* for the choice of the address */
	bool writer;         /* counted by memfd_map_write_get */
	bool fill;           /* once it is mapped: mm_populate */
};

static bool path_noexec(const struct file *f)
{
	return f->path.mnt->flags & MOUNT_NOEXEC;
}

/* The checks of do_mmap for a file. */
static int check_file(struct mmap_call *c)
{
	struct file *f = c->file;
	uint64_t pages_end = (c->offset >> PAGE_SHIFT) + (c->size >> PAGE_SHIFT);

	/* Beyond the largest file there is (MAX_LFS_FILESIZE). */
	if (pages_end > (uint64_t)INT64_MAX >> PAGE_SHIFT)
		return -EOVERFLOW;
	switch (c->lx_flags & LX_MAP_TYPE) {
	case LX_MAP_SHARED_VALIDATE:
		if (c->lx_flags & ~KNOWN_MAP_FLAGS)
			return -EOPNOTSUPP;
		__attribute__((fallthrough));
	case LX_MAP_SHARED:
		if ((c->prot & LX_PROT_WRITE) && !(f->fmode & FMODE_WRITE))
			return -EACCES;
		if ((f->inode->iflags & INODE_APPEND) && (f->fmode & FMODE_WRITE))
			return -EACCES;
		if (!(f->fmode & FMODE_WRITE))
			c->max_prot &= ~LX_PROT_WRITE;
		c->flags |= VMA_SHARED;
		break;
	case LX_MAP_PRIVATE:
		break;
	default:
		return -EINVAL;
	}
	if (!(f->fmode & FMODE_READ))
		return -EACCES;
	if (path_noexec(f)) {
		if (c->prot & LX_PROT_EXEC) {
			audit_denied(AUDIT_NO_EXEC, f->path.mnt, NULL);
			return -EPERM;
		}
		c->max_prot &= ~LX_PROT_EXEC;
	} else if (c->prot & LX_PROT_EXEC) {
		vfs_used(&f->path, VFS_USE_EXEC);
	}
	if (!f->ops->mmap)
		return -ENODEV;
	return c->lx_flags & LX_MAP_GROWSDOWN ? -EINVAL : 0;
}

static int check_anon(struct mmap_call *c)
{
	switch (c->lx_flags & LX_MAP_TYPE) {
	case LX_MAP_SHARED:
		if (c->lx_flags & LX_MAP_GROWSDOWN)
			return -EINVAL;
		c->flags |= VMA_SHARED;
		c->offset = 0;
		return 0;
	case LX_MAP_PRIVATE:
		if (c->lx_flags & LX_MAP_GROWSDOWN)
			c->flags |= VMA_GROWSDOWN;
		return 0;
	default:
		return -EINVAL;
	}
}

/* Asks c->file for the host's side of the mapping. c->file becomes a reference of our own, or NULL
 * if the file wants anonymous memory (/dev/zero). */
static int get_file_map(struct mmap_call *c)
{
	int r;

	c->map = (struct file_map){.offset = c->offset,
				   .size = c->size,
				   .prot = c->prot,
				   .shared = c->flags & VMA_SHARED,
				   .host_fd = -1,
				   .max_prot = c->max_prot};
	r = c->file->ops->mmap(c->file, &c->map);
	if (r)
		return r;
	c->max_prot &= c->map.max_prot;
	if (c->prot & ~c->max_prot)
		return -EACCES;
	if (c->map.anon) {
		c->file = NULL;
		c->offset = 0;
	} else {
		c->flags |= c->map.counted ? VMA_COUNTED : 0;
		file_get(c->file);
	}
	return 0;
}

static void put_backing(struct mmap_call *c)
{
	if (!c->file)
		return;
	if (c->writer)
		memfd_map_write_put(c->file);
	file_put(c->file);
}

/* On success the call owns what put_backing gives back. */
static int get_backing(struct mmap_call *c)
{
	struct file *zero;
	int r;

	if (c->file) {
		r = get_file_map(c);
		if (r)
			return r;
	}
	if (!c->file && (c->flags & VMA_SHARED)) {
		/* Shared anonymous memory is a file that nobody else can name. */
		if (!(c->flags & VMA_NORESERVE) && memory_might_exceed(c->size) &&
		    !meter_watch_allows(c->size))
			return -ENOMEM;
		r = shmem_new(c->size, "/dev/zero (deleted)", &zero);
		if (r)
			return r;
		c->file = zero;
		r = get_file_map(c);
		file_put(zero);
		if (r)
			return r;
	}
	if (c->file && (c->flags & VMA_SHARED) && (c->max_prot & LX_PROT_WRITE)) {
		r = memfd_map_write_get(c->file);
		if (r) {
			file_put(c->file);
			return r;
		}
		c->writer = true;
	}
	return 0;
}

/* Limits that depend on what is mapped. */
static int check_limits(struct task *t, struct mm *mm, const struct mmap_call *c) REQUIRES(mm->lock)
{
	uint64_t replaced = 0;

	if (mm_too_many(mm->vma_count))
		return -ENOMEM;
	if ((c->lx_flags & LX_MAP_FIXED_NOREPLACE) &&
	    mm_find_overlap(mm, c->addr, c->addr + c->size))
		return -EEXIST;
	if ((c->lx_flags & LX_MAP_LOCKED) && rlimit_get(t->tg, LX_RLIMIT_MEMLOCK) == 0 &&
	    !cred_capable(t->vctx.cred, LX_CAP_IPC_LOCK))
		return -EPERM;
	if ((c->flags & VMA_LOCKED) && !mm_may_lock(t, mm, c->size))
		return -EAGAIN;
	if (c->lx_flags & LX_MAP_FIXED)
		replaced = mm_mapped_bytes(mm, c->addr, c->addr + c->size);
	return mm_may_expand(t, mm, c->prot, c->flags, c->size, replaced) ? 0 : -ENOMEM;
}

static uint32_t takes_shared(struct mm *mm, uint64_t start, uint64_t end) REQUIRES(mm->lock)
{
	for (struct vma *v = mm_find_overlap(mm, start, end); v && v->start < end; v = mm_next(v))
		if (v->flags & (VMA_SHARED | VMA_COUNTED))
			return MAP_OPF_TAKES_SHARED;
	return 0;
}

/* ---- regions of less than a huge page ---- */

/*
 * A region that cannot hold a huge page comes page by page. *Measured*: 1 MiB takes 400 us so, and
 * 100 as half of a huge page. So a program that had touched all of the last FILLED_ENOUGH such
 * regions when it unmapped them gets the next one whole: the host maps a huge page there, one fault
 * fills it, and what is beyond the region is unmapped at once. The host has that rest back when it
 * needs memory, or with the region; until then nobody counts it, so a process may have FILLED_RESTS
 * of such rests. One of FILLED_PROBE comes page by page all the same, to see whether the program
 * still does so; else one of FILLED_LOOK is looked at.
 */
#define FILLED_MIN (MM_HUGE_SIZE / 4)
#define FILLED_ENOUGH 2u
#define FILLED_PROBE 16u
#define FILLED_LOOK 4u
#define FILLED_RESTS ((uint64_t)16 << 20)

static bool has_filled_size(uint64_t size)
{
	return size >= FILLED_MIN && size < MM_HUGE_SIZE;
}

/* Before [start, end) is unmapped. */
static void filled_note(struct mm *mm, uint64_t start, uint64_t end) REQUIRES(mm->lock)
{
	const size_t pages = (end - start) >> PAGE_SHIFT;
	uint8_t vec[MM_HUGE_SIZE >> PAGE_SHIFT];
	struct vma *v;
	bool all = true;

	if (likely(!has_filled_size(end - start)))
		return;
	v = mm_find(mm, start);
	if (v && v->start == start && v->end == end && (v->flags & VMA_AUTOHUGE))
		mm->rests -= MIN(mm->rests, MM_HUGE_SIZE - (end - start));
	if (!v || v->start > start || v->end < end || v->file || !(v->prot & LX_PROT_WRITE) ||
	    (v->flags & (VMA_SHARED | VMA_AUTOHUGE | VMA_HUGE)))
		return;
	if (mm->filled == 0 && mm->asked++ % FILLED_LOOK != 0)
		return;
	if (g_pf->resident(mm->as, start, pages, vec) != 0)
		return;
	for (size_t i = 0; i < pages; i++)
		all &= vec[i] & 1;
	mm->filled = all ? MIN(mm->filled + 1, FILLED_ENOUGH) : 0;
}

/* Shall @c, which may go anywhere, come whole? Then where: at a huge page's beginning; or 0. */
static uint64_t filled_place(struct task *t, struct mm *mm, const struct mmap_call *c)
	REQUIRES(mm->lock)
{
	const uint32_t plain = LX_MAP_PRIVATE | LX_MAP_ANONYMOUS;

	if (mm->filled < FILLED_ENOUGH || !has_filled_size(c->size) || c->addr != 0 ||
	    c->lx_flags != plain || c->flags != 0 || c->file ||
	    c->prot != (LX_PROT_READ | LX_PROT_WRITE) || mm->thp_off ||
	    (t->personality & LX_PER_ADDR_COMPAT_LAYOUT) || memory_might_exceed(MM_HUGE_SIZE) ||
	    mm->rests + MM_HUGE_SIZE - c->size > FILLED_RESTS || ++mm->asked % FILLED_PROBE == 0)
		return 0;
	return mm_gap_below(mm, MM_HUGE_SIZE, PF_GUEST_MIN, mm->mmap_base);
}

/* @op maps a region at such a place. False: it has to be mapped as any other. */
static bool filled_map(struct task *t, struct mm *mm, const struct map_op *op)
{
	const uint64_t end = op->addr + MM_HUGE_SIZE;
	struct map_op ops[] = {
		*op,
		{.kind = MAP_OP_ADVISE,
		 .addr = op->addr,
		 .size = MM_HUGE_SIZE,
		 .advice = MADV_HUGEPAGE},
		{.kind = MAP_OP_ADVISE,
		 .addr = op->addr,
		 .size = MOAT_PAGE_SIZE,
		 .advice = MADV_POPULATE_WRITE},
		{.kind = MAP_OP_UNMAP,
		 .addr = op->addr + op->size,
		 .size = end - op->addr - op->size},
	};

	if (mm_space(mm, t->pt, MM_HUGE_SIZE) != 0)
		return false;
	ops[0].size = MM_HUGE_SIZE;
	if (g_pf->map(t->pt, ops, ARRAY_SIZE(ops)) == 0) {
		mm->rests += MM_HUGE_SIZE - op->size;
		return true;
	}
	/* A host without huge pages, or without memory. */
	mm->filled = 0;
	(void)!mm_host_op(
		t, (struct map_op){.kind = MAP_OP_UNMAP, .addr = op->addr, .size = MM_HUGE_SIZE});
	return false;
}

/* Under the lock: address, limits, host, list. */
static int64_t mmap_locked(struct task *t, struct mm *mm, struct mmap_call *c, struct vma *v,
			   struct vma_list *dead) REQUIRES(mm->lock)
{
	struct map_op op;
	uint64_t whole;
	bool replaces;
	int64_t a;
	int r;

	whole = filled_place(t, mm, c);
	a = whole ? (int64_t)whole : mm_pick_addr(t, mm, c->addr, c->size, c->lx_flags, c->anon);
	if (a < 0)
		return a;
	c->addr = (uint64_t)a;
	r = check_limits(t, mm, c);
	if (r == 0 && mm_is_sealed(mm, c->addr, c->addr + c->size))
		r = -EPERM;
	if (r)
		return r;
	r = mm_split_range(mm, c->addr, c->addr + c->size);
	if (r)
		goto undo;
	v->start = c->addr;
	v->end = c->addr + c->size;
	v->prot = c->prot;
	v->max_prot = c->max_prot;
	v->flags = c->flags;
	v->sysv = c->sysv;
	if (c->file) {
		v->file = c->file;
		v->offset = c->offset;
		v->host_fd = c->map.host_fd;
		v->host_offset = c->map.host_offset;
		v->key = c->map.key;
	}
	op = vma_map_op(v);
	if ((c->flags & VMA_LOCKED) ||
	    (c->lx_flags & (LX_MAP_POPULATE | LX_MAP_NONBLOCK)) == LX_MAP_POPULATE) {
		/* What the limit on memory may not allow is asked for when it is mapped. */
		c->fill = memory_might_exceed(c->size);
		op.flags |= c->fill ? 0 : MAP_OPF_POPULATE;
	}
	op.flags |= takes_shared(mm, v->start, v->end);
	replaces = mm_find_overlap(mm, v->start, v->end);
	if (!(c->lx_flags & LX_MAP_STACK) && mm_wants_huge(mm, v, v->start, v->end)) {
		v->flags |= VMA_AUTOHUGE;
		r = mm_host_op_huge(t, op, v->start, v->end);
	} else if (whole && filled_map(t, mm, &op)) {
		v->flags |= VMA_AUTOHUGE;
		r = 0;
	} else {
		r = mm_host_op(t, op);
	}
	if (r) {
		v->file = NULL;
		v->sysv = NULL;
		/* A host that ran out of memory midway may have unmapped what was there: then
		 * nothing is there for us either. */
		if (r == -ENOMEM && replaces &&
		    mm_host_op(t, (struct map_op){.kind = MAP_OP_UNMAP,
						  .flags = op.flags & MAP_OPF_TAKES_SHARED,
						  .addr = op.addr,
						  .size = op.size}) == 0)
			mm_cut(mm, v->start, v->end, dead);
		goto undo;
	}
	mm_cut(mm, v->start, v->end, dead);
	vma_link(mm, v);
	mm_merge(mm, c->addr, c->addr + c->size, dead);
	return a;
undo:
	mm_merge(mm, c->addr, c->addr + c->size, dead);
	return r;
}

/* The checks are done: backing, then the lock. The address or -errno. */
static int64_t map_call(struct task *t, struct mm *mm, struct mmap_call *c)
{
	struct vma_list dead = {0};
	struct vma *v;
	int64_t a;

	a = get_backing(c);
	if (a)
		return a;
	v = vma_new();
	if (!v) {
		put_backing(c);
		return -ENOMEM;
	}
	fmutex_lock(&mm->lock);
	a = mmap_locked(t, mm, c, v, &dead);
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	if (a < 0) {
		mem_free(v);
		put_backing(c);
	} else if (c->fill) {
		(void)!mm_populate(t, (uint64_t)a, (uint64_t)a + c->size);
	}
	return a;
}

long mm_mmap(struct task *t, uint64_t addr, uint64_t size, uint32_t prot, uint32_t lx_flags,
	     struct file *file, uint64_t offset)
{
	struct mm *mm = t->mm;
	struct mmap_call c = {
		.addr = addr,
		.size = page_up(size),
		.offset = offset,
		.prot = prot & PROT_ALL,
		.max_prot = PROT_ALL,
		.lx_flags = lx_flags,
		.flags = t->mm->def_flags,
		.file = file,
		.anon = !file && !(lx_flags & LX_MAP_STACK),
	};
	int64_t a;
	int r;

	if (size == 0)
		return -EINVAL;
	if ((prot & LX_PROT_READ) && (t->personality & LX_PER_READ_IMPLIES_EXEC) &&
	    !(file && path_noexec(file)))
		c.prot |= LX_PROT_EXEC;
	if (lx_flags & LX_MAP_FIXED_NOREPLACE)
		c.lx_flags |= LX_MAP_FIXED;
	if (c.size == 0)
		return -ENOMEM;
	if ((offset >> PAGE_SHIFT) + (c.size >> PAGE_SHIFT) < offset >> PAGE_SHIFT)
		return -EOVERFLOW;
	if (c.lx_flags & LX_MAP_FIXED || c.size > PF_GUEST_LIMIT) {
		/* Errors of the address come before those of the file. */
		fmutex_lock(&mm->lock);
		a = mm_pick_addr(t, mm, addr, c.size, c.lx_flags, c.anon);
		fmutex_unlock(&mm->lock);
		if (a < 0)
			return a;
	}
	if (lx_flags & LX_MAP_LOCKED)
		c.flags |= VMA_LOCKED;
	if (lx_flags & LX_MAP_NORESERVE)
		c.flags |= VMA_NORESERVE;
	r = file ? check_file(&c) : check_anon(&c);
	if (r)
		return r;
	return map_call(t, mm, &c);
}

long mm_map_segment(struct task *t, uint64_t addr, uint64_t size, uint32_t prot, bool replace,
		    struct file *file, struct shm_segment *seg)
{
	struct mm *mm = t->mm;
	struct mmap_call c = {.addr = addr,
			      .size = size,
			      .prot = prot,
			      .max_prot = PROT_ALL,
			      .flags = mm->def_flags | VMA_SHARED | VMA_SYSV,
			      .file = file,
			      .sysv = seg};
	long r;

	/* Who attaches read-only cannot change his mind with mprotect. */
	if (!(prot & LX_PROT_WRITE))
		c.max_prot &= ~LX_PROT_WRITE;
	if (addr)
		c.lx_flags = replace ? LX_MAP_FIXED : LX_MAP_FIXED | LX_MAP_FIXED_NOREPLACE;
	if (addr + size < addr)
		return -EINVAL;
	r = map_call(t, mm, &c);
	return r == -EEXIST ? -EINVAL : r;
}

/* The window of a shared file mapping at @addr moves to page @pgoff: what it takes, or -EINVAL. */
static int remap_find(struct mm *mm, uint64_t addr, uint64_t size, struct mmap_call *c)
	REQUIRES(mm->lock)
{
	struct vma *first = mm_find(mm, addr), *v;
	uint64_t at = addr;

	if (!first || first->start > addr || !(first->flags & VMA_SHARED) || !first->file)
		return -EINVAL;
	for (v = first; at < addr + size; v = mm_next(v)) {
		if (!v || v->start > at || v->file != first->file || v->flags != first->flags)
			return -EINVAL;
		at = v->end;
	}
	c->file = file_get(first->file);
	c->prot = first->prot;
	c->max_prot = first->max_prot;
	c->flags = first->flags;
	return 0;
}

int mm_remap_file_pages(struct task *t, uint64_t addr, uint64_t size, uint64_t prot, uint64_t pgoff)
{
	struct mm *mm = t->mm;
	struct mmap_call c = {.lx_flags = LX_MAP_FIXED | LX_MAP_POPULATE};
	struct file *f;
	int64_t a;
	int r;

	addr = page_down(addr);
	size = page_down(size);
	if (prot || addr + size <= addr || pgoff + (size >> PAGE_SHIFT) < pgoff)
		return -EINVAL;
	fmutex_lock(&mm->lock);
	r = remap_find(mm, addr, size, &c);
	fmutex_unlock(&mm->lock);
	if (r)
		return r;
	f = c.file;
	c.addr = addr;
	c.size = size;
	c.offset = pgoff << PAGE_SHIFT;
	/* A segment's mapping counts as one more attach, as each of its vmas does. */
	if (c.flags & VMA_SYSV)
		a = -EINVAL;
	else
		a = map_call(t, mm, &c);
	file_put(f);
	return a < 0 ? (int)a : 0;
}

int mm_unmap_locked(struct task *t, struct mm *mm, uint64_t start, uint64_t end,
		    struct vma_list *dead)
{
	int r = 0;

	if (!mm_find_overlap(mm, start, end))
		return 0;
	if (mm_is_sealed(mm, start, end))
		return -EPERM;
	r = mm_split_range(mm, start, end);
	if (r == 0)
		r = mm_host_op(t, (struct map_op){.kind = MAP_OP_UNMAP,
						  .flags = takes_shared(mm, start, end),
						  .addr = start,
						  .size = end - start});
	if (r) {
		mm_merge(mm, start, end, dead);
		return r;
	}
	mm_cut(mm, start, end, dead);
	mm_space_trim(mm, t->pt);
	return 0;
}

int mm_munmap(struct task *t, uint64_t addr, uint64_t size)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	uint64_t end;
	int r;

	if (addr % MOAT_PAGE_SIZE || addr > LX_TASK_SIZE || size > LX_TASK_SIZE - addr)
		return -EINVAL;
	end = MIN(addr + page_up(size), PF_GUEST_LIMIT);
	if (page_up(size) == 0)
		return -EINVAL;
	if (addr >= end)
		return 0;
	fmutex_lock(&mm->lock);
	filled_note(mm, addr, end);
	r = mm_unmap_locked(t, mm, addr, end, &dead);
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	return r;
}

/* ---- brk ---- */

/* The heap that the new piece @v of it will continue, or NULL. */
static struct vma *heap_below(struct mm *mm, const struct vma *v) REQUIRES(mm->lock)
{
	struct vma *below = mm_find(mm, v->start - 1);

	if (!below || below->end != v->start || below->prot != v->prot || below->file ||
	    ((below->flags ^ v->flags) & ~VMA_AUTOHUGE))
		return NULL;
	return below;
}

/* More heap in [start, end), both page-aligned. 0 or -errno. */
static int brk_grow(struct task *t, struct mm *mm, uint64_t start, uint64_t end,
		    struct vma_list *dead) REQUIRES(mm->lock)
{
	struct vma *next = mm_find(mm, start), *v, *below;
	struct map_op op;
	bool had;
	int r;

	if (end > PF_GUEST_LIMIT - MOAT_PAGE_SIZE ||
	    (next && end + MOAT_PAGE_SIZE > vma_gap_end(next)))
		return -ENOMEM;
	v = vma_new();
	if (!v)
		return -ENOMEM;
	v->start = start;
	v->end = end;
	v->prot = LX_PROT_READ | LX_PROT_WRITE;
	if (t->personality & LX_PER_READ_IMPLIES_EXEC)
		v->prot |= LX_PROT_EXEC;
	v->max_prot = PROT_ALL;
	v->flags = VMA_HEAP | mm->def_flags;
	r = -ENOMEM;
	if (((v->flags & VMA_LOCKED) && !mm_may_lock(t, mm, end - start)) ||
	    !mm_may_expand(t, mm, v->prot, v->flags, end - start, 0) || mm_too_many(mm->vma_count))
		goto fail;
	op = vma_map_op(v);
	if (v->flags & VMA_LOCKED)
		op.flags |= MAP_OPF_POPULATE;
	below = heap_below(mm, v);
	had = below && (below->flags & VMA_AUTOHUGE);
	if (mm_wants_huge(mm, v, start, end) || (had && !mm->thp_off)) {
		v->flags |= VMA_AUTOHUGE;
		/* The heap stays one mapping: it has huge pages as a whole, or not. */
		r = mm_host_op_huge(t, op, below && !had ? below->start : start, end);
		if (r == 0 && below && !had)
			vma_set(mm, below, below->prot, below->flags | VMA_AUTOHUGE);
	} else {
		r = mm_host_op(t, op);
	}
	if (r)
		goto fail;
	vma_link(mm, v);
	mm_merge(mm, start, end, dead);
	return 0;
fail:
	mem_free(v);
	return r;
}

long mm_brk(struct task *t, uint64_t brk)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	uint64_t old_end, new_end, data_limit, result;
	int r = 0;

	data_limit = rlimit_get(t->tg, LX_RLIMIT_DATA);
	fmutex_lock(&mm->lock);
	if (brk < mm->start_brk || brk > LX_TASK_SIZE)
		goto out;
	if (data_limit != LX_RLIM_INFINITY &&
	    (brk - mm->start_brk) + (mm->end_data - mm->start_data) > data_limit)
		goto out;
	old_end = page_up(mm->brk);
	new_end = page_up(brk);
	if (new_end < old_end)
		r = mm_unmap_locked(t, mm, new_end, old_end, &dead);
	else if (new_end > old_end)
		r = brk_grow(t, mm, old_end, new_end, &dead);
	if (r == 0)
		mm->brk = brk;
out:
	result = mm->brk;
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	return (long)result;
}

/* ---- stacks ---- */

static bool accessible(const struct vma *v)
{
	return v->prot & PROT_ALL;
}

/* May the stack @v begin at @start? @ahead: more than the fault asks for, so with a margin to
 * anything below. */
static bool grow_allowed(struct task *t, struct mm *mm, struct vma *v, uint64_t start, bool ahead)
	REQUIRES(mm->lock)
{
	uint64_t more = v->start - start;
	struct vma *prev = mm_prev(v);

	if (start < PF_GUEST_MIN || v->end - start > rlimit_get(t->tg, LX_RLIMIT_STACK))
		return false;
	if (prev && prev->end > start)
		return false;
	if (prev && (ahead || (!(prev->flags & VMA_GROWSDOWN) && accessible(prev))) &&
	    start - prev->end < MM_GUARD_GAP)
		return false;
	if ((v->flags & VMA_LOCKED) && !mm_may_lock(t, mm, more))
		return false;
	return mm_may_expand(t, mm, v->prot, v->flags, more, 0);
}

bool mm_grow_locked(struct task *t, struct mm *mm, uint64_t addr)
{
	struct vma *v = mm_find(mm, addr);
	uint64_t start = page_down(addr), ahead;
	struct map_op op;

	if (!v || !(v->flags & VMA_GROWSDOWN) || addr >= v->start)
		return false;
	if (v->flags & VMA_STACK) {
		ahead = start > STACK_GROW_AHEAD ? start - STACK_GROW_AHEAD : 0;
		if (grow_allowed(t, mm, v, ahead, true))
			start = ahead;
	}
	if (!grow_allowed(t, mm, v, start, false))
		return false;
	op = vma_map_op(v);
	op.addr = start;
	op.size = v->start - start;
	if (mm_host_op(t, op) != 0)
		return false;
	vma_resize(mm, v, start, v->end);
	return true;
}

/* Is @addr in memory that only growth could have made? Then a thread that faulted there lost a
 * race. */
static bool covered_by_stack(struct mm *mm, uint64_t addr) REQUIRES(mm->lock)
{
	struct vma *v = mm_find(mm, addr);

	return v && v->start <= addr && (v->flags & VMA_GROWSDOWN) && accessible(v);
}

bool mm_grow_for_copy(struct task *t, uint64_t addr, uint64_t *tried)
{
	struct mm *mm = t->mm;
	bool grown;

	if (!mm || addr >= PF_GUEST_LIMIT)
		return false;
	fmutex_lock(&mm->lock);
	grown = mm_grow_locked(t, mm, addr);
	if (!grown && *tried != addr && covered_by_stack(mm, addr)) {
		*tried = addr;
		grown = true;
	}
	fmutex_unlock(&mm->lock);
	return grown;
}

bool mm_fault(struct task *t, const struct pf_trap *trap, int *sig, int *code)
{
	struct mm *mm = t->mm;
	bool mended;

	*sig = trap->signo;
	*code = trap->code;
	if (trap->signo != LX_SIGSEGV)
		return false;
	/* The stub's region does not exist for the guest. */
	if (trap->addr >= PF_GUEST_LIMIT && trap->addr < LX_TASK_SIZE &&
	    trap->code == LX_SEGV_ACCERR)
		*code = LX_SEGV_MAPERR;
	if (trap->code != LX_SEGV_MAPERR || trap->addr >= PF_GUEST_LIMIT)
		return false;
	fmutex_lock(&mm->lock);
	mended = mm_grow_locked(t, mm, trap->addr) || covered_by_stack(mm, trap->addr);
	fmutex_unlock(&mm->lock);
	return mended;
}
