/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of mappings: the tree, its counters, the search for free addresses, and the life of a
 * struct mm.
 *
 * Theory of operation: vmas are disjoint, sorted by address, and equal neighbours are joined. Each
 * vma knows how many free bytes lie below it (gap, less the guard gap if it is a stack) and the
 * largest such gap in its subtree, so that a free range of a given size is found in O(log n), from
 * the top or from the bottom.
 *
 * Locking: everything under mm->lock; a vma that is not linked belongs to who made it.
 */
#include "sentry/aio.h"
#include "sentry/mm_ops.h"
#include "sentry/meter_watch.h"
#include "vfs/memfd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the tree ---- */

static int vma_cmp(const struct vma *a, const struct vma *b)
{
	return a->start < b->start ? -1 : a->start > b->start;
}

/* Recomputes max_gap from @v upwards. Stops where nothing changes: all above is right then. The
 * tree calls it whenever the children of @v changed. */
static void vma_augment(struct vma *v)
{
	for (; v; v = RB_PARENT(v, node)) {
		struct vma *l = RB_LEFT(v, node), *r = RB_RIGHT(v, node);
		uint64_t max = v->gap;

		if (l)
			max = MAX(max, l->max_gap);
		if (r)
			max = MAX(max, r->max_gap);
		if (v->max_gap == max)
			return;
		v->max_gap = max;
	}
}

#undef RB_AUGMENT
#define RB_AUGMENT(v) vma_augment(v)
RB_GENERATE(vma_tree, vma, node, vma_cmp)

struct vma *mm_next(struct vma *v)
{
	return RB_NEXT(vma_tree, NULL, v);
}

struct vma *mm_prev(struct vma *v)
{
	return RB_PREV(vma_tree, NULL, v);
}

struct vma *mm_find(struct mm *mm, uint64_t addr)
{
	struct vma *v = RB_ROOT(&mm->vmas), *best = NULL;

	while (v) {
		if (v->end > addr) {
			best = v;
			v = RB_LEFT(v, node);
		} else {
			v = RB_RIGHT(v, node);
		}
	}
	return best;
}

bool mm_may_write(struct mm *mm, uint64_t addr, uint64_t size)
{
	const uint64_t end = addr + size;

	fmutex_lock(&mm->lock);

	struct vma *v = mm_find(mm, addr);

	while (addr < end && v && v->start <= addr && (v->prot & LX_PROT_WRITE)) {
		addr = v->end;
		v = mm_next(v);
	}
	fmutex_unlock(&mm->lock);
	return addr >= end;
}

struct vma *mm_find_overlap(struct mm *mm, uint64_t start, uint64_t end)
{
	struct vma *v = mm_find(mm, start);

	return v && v->start < end ? v : NULL;
}

uint64_t vma_gap_end(const struct vma *v)
{
	if (!(v->flags & VMA_GROWSDOWN))
		return v->start;
	return v->start > MM_GUARD_GAP ? v->start - MM_GUARD_GAP : 0;
}

static void vma_update_gap(struct vma *v)
{
	struct vma *prev;
	uint64_t low, high;

	if (!v)
		return;
	prev = mm_prev(v);
	low = prev ? prev->end : 0;
	high = vma_gap_end(v);
	v->gap = high > low ? high - low : 0;
	vma_augment(v);
}

/* ---- counters ---- */

static bool is_data(uint32_t prot, uint32_t flags)
{
	return (prot & LX_PROT_WRITE) && !(flags & (VMA_SHARED | VMA_GROWSDOWN));
}

static void vma_count(struct mm *mm, const struct vma *v, bool add)
{
	uint64_t n = v->end - v->start;

	if (!add)
		n = -n;
	mm->host_bytes += n;
	/* Not what the guest asked for. */
	if (v->flags & VMA_TRAMPOLINE)
		return;
	/* Else what is let be mapped is counted. */
	if (!g_pf->space)
		memory_mapped(n, add);
	mm->total_bytes += n;
	if (v->flags & VMA_LOCKED)
		mm->locked_bytes += n;
	if (v->flags & VMA_GROWSDOWN)
		mm->stack_bytes += n;
	else if (is_data(v->prot, v->flags))
		mm->data_bytes += n;
}

bool mm_may_expand(struct task *t, struct mm *mm, uint32_t prot, uint32_t flags, uint64_t bytes,
		   uint64_t freed)
{
	uint64_t more = bytes > freed ? bytes - freed : 0;
	uint64_t as = rlimit_get(t->tg, LX_RLIMIT_AS), data;

	if (mm->total_bytes + more > page_down(as))
		return false;
	if (!is_data(prot, flags))
		return true;
	data = rlimit_get(t->tg, LX_RLIMIT_DATA);
	if (mm->data_bytes + more > page_down(data))
		return false;
	return (flags & VMA_NORESERVE) || !memory_might_exceed(more) || meter_watch_allows(more);
}

bool mm_may_lock(struct task *t, struct mm *mm, uint64_t bytes)
{
	if (cred_capable(t->vctx.cred, LX_CAP_IPC_LOCK))
		return true;
	return mm->locked_bytes + bytes <= page_down(rlimit_get(t->tg, LX_RLIMIT_MEMLOCK));
}

uint64_t mm_mapped_bytes(struct mm *mm, uint64_t start, uint64_t end)
{
	uint64_t n = 0;

	for (struct vma *v = mm_find(mm, start); v && v->start < end; v = mm_next(v))
		n += MIN(v->end, end) - MAX(v->start, start);
	return n;
}

bool mm_too_many(unsigned count)
{
	if (likely(count <= MM_MAX_VMAS && count <= meter_limit(METER_maps)))
		return false;
	meter_refuse(METER_maps);
	return true;
}

/* ---- one vma ---- */

struct vma *vma_new(void)
{
	struct vma *v = mem_zalloc(sizeof(*v));

	if (v)
		v->host_fd = -1;
	return v;
}

bool vma_counts_as_writer(const struct vma *v)
{
	return v->file && (v->flags & VMA_SHARED) && (v->max_prot & LX_PROT_WRITE);
}

void vma_list_add(struct vma_list *l, struct vma *v)
{
	v->dead_next = l->head;
	l->head = v;
}

void vma_list_free(struct vma_list *l)
{
	while (l->head) {
		struct vma *v = l->head;

		l->head = v->dead_next;
		if (v->sysv)
			shm_vma_put(v->sysv);
		if (vma_counts_as_writer(v))
			memfd_map_write_put(v->file);
		if (v->file)
			file_put(v->file);
		mem_free(v->name);
		mem_free(v);
	}
}

/* A copy with references of its own, in no tree. NULL: no memory. */
struct vma *vma_dup(const struct vma *old)
{
	struct vma *v = mem_dup(old, sizeof(*old));

	if (!v)
		return NULL;
	if (old->name) {
		v->name = mem_strdup(old->name);
		if (!v->name) {
			mem_free(v);
			return NULL;
		}
	}
	if (v->file)
		file_get(v->file);
	/* @old keeps the file from being sealed, so this is no new decision. */
	if (vma_counts_as_writer(v) && memfd_map_write_get(v->file) != 0)
		panic("a file was sealed against writing while it was mapped");
	if (v->sysv)
		shm_vma_get(v->sysv);
	v->dead_next = NULL;
	return v;
}

void vma_link(struct mm *mm, struct vma *v)
{
	v->gap = v->max_gap = 0;
	BUG_ON(RB_INSERT(vma_tree, &mm->vmas, v) != NULL);
	vma_update_gap(v);
	vma_update_gap(mm_next(v));
	vma_count(mm, v, true);
	mm->vma_count++;
	if (unlikely(mm->vma_count > g_meters[METER_maps].peak))
		meter_raise_peak(METER_maps, mm->vma_count);
}

void vma_unlink(struct mm *mm, struct vma *v)
{
	struct vma *next = mm_next(v);

	RB_REMOVE(vma_tree, &mm->vmas, v);
	vma_update_gap(next);
	vma_count(mm, v, false);
	mm->vma_count--;
}

void vma_resize(struct mm *mm, struct vma *v, uint64_t start, uint64_t end)
{
	vma_count(mm, v, false);
	if (v->host_fd >= 0) {
		v->offset += start - v->start;
		v->host_offset += start - v->start;
	}
	v->start = start;
	v->end = end;
	vma_count(mm, v, true);
	vma_update_gap(v);
	vma_update_gap(mm_next(v));
}

void vma_set(struct mm *mm, struct vma *v, uint32_t prot, uint32_t flags)
{
	vma_count(mm, v, false);
	v->prot = prot;
	v->flags = flags;
	vma_count(mm, v, true);
}

/* ---- splitting and joining ---- */

int mm_split(struct mm *mm, uint64_t addr)
{
	struct vma *v = mm_find(mm, addr), *high;
	uint64_t end;

	if (!v || v->start >= addr)
		return 0;
	if (mm_too_many(mm->vma_count + 1))
		return -ENOMEM;
	high = vma_dup(v);
	if (!high)
		return -ENOMEM;
	end = v->end;
	vma_resize(mm, v, v->start, addr);
	high->start = addr;
	high->end = end;
	if (high->host_fd >= 0) {
		high->offset += addr - v->start;
		high->host_offset += addr - v->start;
	}
	vma_link(mm, high);
	return 0;
}

int mm_split_range(struct mm *mm, uint64_t start, uint64_t end)
{
	int r = mm_split(mm, start);

	return r ? r : mm_split(mm, end);
}

static bool same_name(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool can_join(const struct vma *a, const struct vma *b)
{
	if (a->end != b->start || a->prot != b->prot || a->max_prot != b->max_prot ||
	    a->flags != b->flags || a->file != b->file || a->host_fd != b->host_fd ||
	    a->sysv != b->sysv)
		return false;
	if (a->host_fd >= 0 && (a->offset + (a->end - a->start) != b->offset ||
				a->host_offset + (a->end - a->start) != b->host_offset))
		return false;
	return same_name(a->name, b->name);
}

void mm_merge(struct mm *mm, uint64_t start, uint64_t end, struct vma_list *dead)
{
	struct vma *v = mm_find(mm, start ? start - 1 : 0);

	while (v && v->start <= end) {
		struct vma *next = mm_next(v);

		if (!next || !can_join(v, next)) {
			v = next;
			continue;
		}
		vma_unlink(mm, next);
		vma_resize(mm, v, v->start, next->end);
		vma_list_add(dead, next);
	}
}

void mm_cut(struct mm *mm, uint64_t start, uint64_t end, struct vma_list *dead)
{
	struct vma *v = mm_find(mm, start);

	while (v && v->start < end) {
		struct vma *next = mm_next(v);

		vma_unlink(mm, v);
		vma_list_add(dead, v);
		v = next;
	}
}

/* ---- free addresses ---- */

struct gap_query {
	uint64_t low, high; /* the range must lie in [low, high) */
	uint64_t size, align;
};

/* The highest (@top) or lowest start in the gap [gs, ge) that fits, or 0. */
static uint64_t fit(const struct gap_query *q, uint64_t gs, uint64_t ge, bool top)
{
	uint64_t a;

	gs = MAX(gs, q->low);
	ge = MIN(ge, q->high);
	if (gs >= ge || ge - gs < q->size)
		return 0;
	if (top) {
		a = (ge - q->size) & ~(q->align - 1);
		return a >= gs ? a : 0;
	}
	a = (gs + q->align - 1) & ~(q->align - 1);
	return a <= ge - q->size ? a : 0;
}

/* Looks through the gaps below the vmas of a subtree, best first. The depth is that of the tree. */
static uint64_t search(const struct gap_query *q, const struct vma *v, bool top)
{
	uint64_t a, gs, ge;

	if (!v || v->max_gap < q->size)
		return 0;
	ge = vma_gap_end(v);
	gs = ge - v->gap;
	if (top) {
		a = v->end < q->high ? search(q, RB_RIGHT(v, node), top) : 0;
	} else {
		a = v->start > q->low ? search(q, RB_LEFT(v, node), top) : 0;
	}
	if (!a && v->gap >= q->size)
		a = fit(q, gs, ge, top);
	if (a)
		return a;
	if (top)
		return v->start > q->low ? search(q, RB_LEFT(v, node), top) : 0;
	return v->end < q->high ? search(q, RB_RIGHT(v, node), top) : 0;
}

static uint64_t find_gap(struct mm *mm, const struct gap_query *q, bool top)
{
	struct vma *last = RB_MAX(vma_tree, &mm->vmas);
	uint64_t tail = last ? last->end : 0, a;

	if (top) {
		a = fit(q, tail, UINT64_MAX, top);
		return a ? a : search(q, RB_ROOT(&mm->vmas), top);
	}
	a = search(q, RB_ROOT(&mm->vmas), top);
	return a ? a : fit(q, tail, UINT64_MAX, top);
}

uint64_t mm_gap_below(struct mm *mm, uint64_t size, uint64_t low, uint64_t high)
{
	const struct gap_query q = {
		.low = MAX(low, PF_GUEST_MIN), .high = high, .size = size, .align = size};

	return find_gap(mm, &q, true);
}

static int64_t check_addr(uint64_t addr, uint64_t size)
{
	if (size > PF_GUEST_LIMIT || addr > PF_GUEST_LIMIT - size)
		return -ENOMEM;
	if (addr % MOAT_PAGE_SIZE)
		return -EINVAL;
	if (addr < PF_GUEST_MIN)
		return -EPERM;
	return (int64_t)addr;
}

/* Whether a mapping that must end at or below high may be put where the program would like it. */
static bool hint_fits(struct mm *mm, uint64_t hint, uint64_t size, uint64_t high) REQUIRES(mm->lock)
{
	struct vma *v;

	if (!hint || hint > high || size > high - hint)
		return false;
	v = mm_find(mm, hint);
	return !v || hint + size <= vma_gap_end(v);
}

int64_t mm_pick_addr(struct task *t, struct mm *mm, uint64_t hint, uint64_t size, uint32_t lx_flags,
		     bool anon)
{
	struct gap_query q = {.low = PF_GUEST_MIN, .high = mm->mmap_base, .size = size};
	bool legacy = t->personality & LX_PER_ADDR_COMPAT_LAYOUT;
	uint64_t a = 0;

	q.align = MOAT_PAGE_SIZE;
	if (size > PF_GUEST_LIMIT)
		return -ENOMEM;
	if (lx_flags & LX_MAP_FIXED)
		return check_addr(hint, size);
	hint = page_down(hint);
	if (hint && hint < PF_GUEST_MIN)
		hint = PF_GUEST_MIN;
	if (lx_flags & LX_MAP_32BIT) {
		/* The low 2 GiB, upwards from 1 GiB but for a hint, as on Linux. */
		if (hint_fits(mm, hint, size, 0x80000000))
			return (int64_t)hint;
		q.low = 0x40000000;
		q.high = 0x80000000;
		a = find_gap(mm, &q, false);
		return a ? (int64_t)a : -ENOMEM;
	}
	if (hint_fits(mm, hint, size, PF_GUEST_LIMIT))
		return (int64_t)hint;
	if (legacy) {
		q.low = page_down(LX_TASK_SIZE / 3);
		q.high = PF_GUEST_LIMIT;
	}
	/* Whole huge pages where a region can be made of them. */
	if (anon && !hint && size >= MM_HUGE_SIZE) {
		q.align = MM_HUGE_SIZE;
		a = find_gap(mm, &q, !legacy);
		q.align = MOAT_PAGE_SIZE;
	}
	if (!a)
		a = find_gap(mm, &q, !legacy);
	if (!a) {
		q.low = PF_GUEST_MIN;
		q.high = PF_GUEST_LIMIT;
		a = find_gap(mm, &q, false);
	}
	return a ? (int64_t)a : -ENOMEM;
}

/* ---- the host's part ---- */

/* What is let be mapped beyond what is, so that not each change needs the platform: this, and half
 * as much again up to SPACE_AHEAD; more than SPACE_LEFT and as much again is taken back. */
#define SPACE_STEP ((uint64_t)4 << 20)
#define SPACE_AHEAD ((uint64_t)64 << 20)
#define SPACE_LEFT ((uint64_t)16 << 20)

static uint64_t space_for(uint64_t need)
{
	return need + MIN(need / 2, SPACE_AHEAD) + SPACE_STEP;
}

static void space_counted(struct mm *mm, uint64_t space)
{
	memory_mapped(space - mm->space, space > mm->space);
	mm->space = space;
}

/* 0 or -errno. */
static int space_set(struct mm *mm, struct pf_thread *pt, uint64_t space)
{
	const int r = g_pf->space(pt, space);

	if (r == 0)
		space_counted(mm, space);
	return r;
}

/* If it fails, it stays counted. */
static void space_take_back(struct mm *mm, struct pf_thread *pt)
{
	const uint64_t space = space_for(mm->host_bytes);
	uint64_t over;

	if (g_pf->space(pt, space) != 0)
		return;
	/* What the guest has mapped unasked, or not unmapped though it was asked, is still there,
	 * and now it cannot become more. */
	over = MIN(g_pf->space_over(mm->as), mm->space - space);
	if (over == 0 || g_pf->space(pt, space + over) == 0)
		space_counted(mm, space + over);
}

int mm_space(struct mm *mm, struct pf_thread *pt, uint64_t more)
{
	if (likely(!g_pf->space || mm->host_bytes + more <= mm->space))
		return 0;
	return space_set(mm, pt, space_for(mm->host_bytes + more)) ? -ENOMEM : 0;
}

void mm_space_trim(struct mm *mm, struct pf_thread *pt)
{
	if (unlikely(mm->space > 2 * mm->host_bytes + SPACE_LEFT))
		space_take_back(mm, pt);
}

/* At most so much more is mapped by @op: it may replace something. */
static uint64_t op_adds(const struct map_op *op)
{
	switch (op->kind) {
	case MAP_OP_ANON:
	case MAP_OP_FILE:
		return op->size;
	case MAP_OP_REMAP:
		if (op->flags & MAP_OPF_DONTUNMAP)
			return op->new_size;
		return op->new_size > op->size ? op->new_size - op->size : 0;
	default:
		return 0;
	}
}

int mm_host_op(struct task *t, struct map_op op)
{
	const int r = mm_space(t->mm, t->pt, op_adds(&op));

	return r ? r : g_pf->map(t->pt, &op, 1);
}

bool mm_holds_huge(uint64_t start, uint64_t end)
{
	uint64_t first = (start + MM_HUGE_SIZE - 1) & ~(MM_HUGE_SIZE - 1);

	return first < end && end - first >= MM_HUGE_SIZE;
}

bool mm_wants_huge(struct mm *mm, const struct vma *v, uint64_t start, uint64_t end)
{
	return mm_holds_huge(start, end) && !mm->thp_off && !v->file && (v->prot & LX_PROT_WRITE) &&
	       !(v->flags & (VMA_SHARED | VMA_GROWSDOWN | VMA_NORESERVE | VMA_HUGE | VMA_NOHUGE |
			     VMA_AUTOHUGE));
}

int mm_host_op_huge(struct task *t, struct map_op op, uint64_t start, uint64_t end)
{
	struct map_op ops[3] = {op};
	size_t count = 1;
	int r = mm_space(t->mm, t->pt, op_adds(&op));

	if (r)
		return r;
	ops[count++] = (struct map_op){
		.kind = MAP_OP_ADVISE, .addr = start, .size = end - start, .advice = MADV_HUGEPAGE};
	/* Not before the advice, or it would be small pages. */
	if (op.flags & MAP_OPF_POPULATE) {
		ops[0].flags &= ~MAP_OPF_POPULATE;
		ops[count++] = (struct map_op){.kind = MAP_OP_ADVISE,
					       .addr = op.addr,
					       .size = op.size,
					       .advice = MADV_POPULATE_WRITE};
	}
	ops[0].result = -ECANCELED;
	r = g_pf->map(t->pt, ops, count);
	return ops[0].result == 0 ? 0 : r;
}

struct map_op vma_map_op(const struct vma *v)
{
	struct map_op op = {
		.kind = v->host_fd >= 0 ? MAP_OP_FILE : MAP_OP_ANON,
		.prot = v->prot,
		.host_fd = v->host_fd,
		.addr = v->start,
		.size = v->end - v->start,
		.offset = v->host_offset,
		.file_key = v->key,
	};

	if (v->flags & VMA_SHARED)
		op.flags |=
			MAP_OPF_SHARED | (v->max_prot & LX_PROT_WRITE ? 0 : MAP_OPF_NEVER_WRITTEN);
	if (v->flags & VMA_NORESERVE)
		op.flags |= MAP_OPF_NORESERVE;
	return op;
}

/* ---- the life of a struct mm ---- */

struct mm *mm_new(struct pf_as *as)
{
	struct mm *mm = mem_zalloc(sizeof(*mm));

	if (!mm)
		return NULL;
	ref_init(&mm->users);
	fmutex_init(&mm->lock);
	RB_INIT(&mm->vmas);
	g_pf->as_get(as);
	mm->as = as;
	if (g_pf->space) {
		mm->space = PF_SPACE_START;
		memory_mapped(mm->space + PF_SPACE_SPARE, true);
	}
	meter_watch_add(mm);
	mm->mmap_base = PF_GUEST_LIMIT;
	return mm;
}

struct mm *mm_get(struct mm *mm)
{
	ref_get(&mm->users);
	return mm;
}

void mm_put(struct mm *mm)
{
	struct vma_list dead = {0};

	if (!mm || !ref_put(&mm->users))
		return;
	aio_end(mm);
	fmutex_lock(&mm->lock);
	mm_cut(mm, 0, UINT64_MAX, &dead);
	fmutex_unlock(&mm->lock);
	meter_watch_remove(mm);
	if (g_pf->space)
		memory_mapped(-(mm->space + PF_SPACE_SPARE), false);
	/* The process is killed before others are told that it maps nothing: that they may seal. */
	g_pf->as_put(mm->as);
	vma_list_free(&dead);
	if (mm->exe) {
		inode_allow_write(mm->exe->inode);
		file_put(mm->exe);
	}
	fmutex_fini(&mm->lock);
	mem_free(mm);
}

/* The parts of a struct mm that fork inherits as they are. */
static void mm_copy_layout(struct mm *mm, const struct mm *old)
{
	mm->start_code = old->start_code;
	mm->end_code = old->end_code;
	mm->start_data = old->start_data;
	mm->end_data = old->end_data;
	mm->start_brk = old->start_brk;
	mm->brk = old->brk;
	mm->mmap_base = old->mmap_base;
	mm->stack_top = old->stack_top;
	mm->arg_start = old->arg_start;
	mm->arg_end = old->arg_end;
	mm->env_start = old->env_start;
	mm->env_end = old->env_end;
	memcpy(mm->auxv, old->auxv, sizeof(mm->auxv));
	mm->auxv_count = old->auxv_count;
	mm->vdso = old->vdso;
	mm->any_sealed = old->any_sealed;
	mm->thp_off = old->thp_off;
	atomic_store(&mm->membarrier, atomic_load(&old->membarrier));
	atomic_store(&mm->dump_filter, atomic_load(&old->dump_filter));
	if (old->exe) {
		mm->exe = file_get(old->exe);
		/* The parent's denial is in force, so a second cannot fail. */
		BUG_ON(inode_deny_write(old->exe->inode) != 0);
	}
}

static bool fork_copies(const struct vma *v)
{
	return !(v->flags & VMA_DONTFORK);
}

/* Copies of @old's vmas, for a child, on @list (the highest first). 0 or -ENOMEM. */
static int fork_vmas(struct mm *old, struct vma_list *list) REQUIRES(old->lock)
{
	struct vma *v;

	vma_foreach (v, old) {
		struct vma *copy;

		if (!fork_copies(v))
			continue;
		copy = vma_dup(v);
		if (!copy)
			return -ENOMEM;
		copy->flags &= ~VMA_LOCKED; /* memory locks are not inherited */
		if (copy->flags & VMA_WIPEONFORK)
			copy->flags &= ~VMA_AUTOHUGE; /* fork_undo maps it anew */
		vma_list_add(list, copy);
	}
	return 0;
}

/* What madvise(2) promised to keep from a child. */
static int fork_undo(struct mm *old, struct pf_thread *child) REQUIRES(old->lock)
{
	struct vma *v;
	int r;

	vma_foreach (v, old) {
		struct map_op op = vma_map_op(v);

		if (!(v->flags & (VMA_DONTFORK | VMA_WIPEONFORK)))
			continue;
		if (v->flags & VMA_DONTFORK)
			op.kind = MAP_OP_UNMAP;
		r = g_pf->map(child, &op, 1);
		if (r)
			return r;
	}
	return 0;
}

/* The child may map what its parent may. 0 or -errno. */
static int fork_space(const struct mm *old, struct mm *mm, struct pf_thread *child)
{
	if (!g_pf->space)
		return 0;
	memory_mapped(old->space - mm->space, old->space > mm->space);
	mm->space = old->space;
	return g_pf->space(child, mm->space);
}

struct mm *mm_fork(struct mm *old, struct pf_as *as, struct pf_thread *child)
{
	struct vma_list copies = {0};
	struct mm *mm = NULL;

	if (fork_vmas(old, &copies) == 0 && fork_undo(old, child) == 0)
		mm = mm_new(as);
	if (!mm) {
		vma_list_free(&copies);
		return NULL;
	}
	if (fork_space(old, mm, child) != 0) {
		vma_list_free(&copies);
		mm_put(mm);
		return NULL;
	}
	mm_copy_layout(mm, old);
	fmutex_lock(&mm->lock);
	while (copies.head) {
		struct vma *v = copies.head;

		copies.head = v->dead_next;
		vma_link(mm, v);
	}
	fmutex_unlock(&mm->lock);
	return mm;
}

const char *mm_vma_name(struct mm *mm, struct vma *v, char *buf, size_t size)
{
	(void)mm;
	if (v->flags & VMA_TRAMPOLINE)
		return "[trampoline]";
	if (v->flags & VMA_VDSO)
		return "[vdso]";
	if (v->flags & VMA_VVAR)
		return "[vvar]";
	if (v->flags & VMA_HEAP)
		return "[heap]";
	if (v->flags & VMA_STACK)
		return "[stack]";
	if (!v->name)
		return NULL;
	snprintf(buf, size, v->flags & VMA_SHARED ? "[anon_shmem:%s]" : "[anon:%s]", v->name);
	return buf;
}
