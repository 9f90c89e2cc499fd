/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice and locks on ranges of memory: madvise, mlock, msync, mincore, mseal.
 *
 * Theory of operation: all of these walk the vmas of a range. What changes only our list (DONTFORK,
 * DONTDUMP, locks) splits vmas at the edges; what is about pages goes to the host, a vma at a time.
 * A hole in the range is ENOMEM, but what could be done is done, as in Linux.
 *
 * Deviations from Linux: a lock faults pages in and counts against RLIMIT_MEMLOCK, but the host may
 * still page out; MADV_MERGEABLE is EINVAL, as without CONFIG_KSM (pages are never shared across
 * sandboxes); MADV_HWPOISON and MADV_SOFT_OFFLINE are EPERM.
 *
 * Locking: mm->lock inside; file operations (punching holes, fsync) with it released.
 *
 * References: madvise(2), mlock(2), msync(2), mincore(2), mseal(2).
 */
#include "base/lx_fcntl.h"
#include "base/meter.h"
#include "sentry/meter_watch.h"
#include "sentry/mm_ops.h"
#include "vfs/host_calls.h"
#include "vfs/hostfd.h"

#include <errno.h>
#include <string.h>

enum lx_madv {
	MADV_NORMAL_ = 0,
	MADV_RANDOM_ = 1,
	MADV_SEQUENTIAL_ = 2,
	MADV_WILLNEED_ = 3,
	MADV_DONTNEED_ = 4,
	MADV_FREE_ = 8,
	MADV_REMOVE_ = 9,
	MADV_DONTFORK_ = 10,
	MADV_DOFORK_ = 11,
	MADV_MERGEABLE_ = 12,
	MADV_UNMERGEABLE_ = 13,
	MADV_HUGEPAGE_ = 14,
	MADV_NOHUGEPAGE_ = 15,
	MADV_DONTDUMP_ = 16,
	MADV_DODUMP_ = 17,
	MADV_WIPEONFORK_ = 18,
	MADV_KEEPONFORK_ = 19,
	MADV_COLD_ = 20,
	MADV_PAGEOUT_ = 21,
	MADV_POPULATE_READ_ = 22,
	MADV_POPULATE_WRITE_ = 23,
	MADV_DONTNEED_LOCKED_ = 24,
	MADV_COLLAPSE_ = 25,
	MADV_HWPOISON_ = 100,
	MADV_SOFT_OFFLINE_ = 101,
	MADV_GUARD_INSTALL_ = 102,
	MADV_GUARD_REMOVE_ = 103,
};

#define SPECIAL (VMA_VDSO | VMA_VVAR)
/* Pages that mincore looks at in one go. */
#define MINCORE_CHUNK 512u

static bool is_private_anon(const struct vma *v)
{
	return v->host_fd < 0 && !(v->flags & VMA_SHARED);
}

/* ---- filling in ---- */

/* What may lead beyond the limit on memory is filled in one after the other: what was asked for is
 * there, and seen, when the next asks. */
static struct fmutex g_filling = {.lock = MUTEX_INIT(RANK_FLOCK),
				  .waiters = TAILQ_HEAD_INITIALIZER(g_filling.waiters)};
/* One page of its table is for so many. */
#define PAGES_PER_TABLE 512u

static bool advice_fills(int advice)
{
	return advice == MADV_POPULATE_READ_ || advice == MADV_POPULATE_WRITE_ ||
	       advice == MADV_COLLAPSE_;
}

/* How much memory more it may take to fill [start, end) of @v in. More than the limit is enough. */
static uint64_t fill_cost(struct mm *mm, const struct vma *v, uint64_t start, uint64_t end,
			  int advice) REQUIRES(mm->lock)
{
	const uint64_t limit = meter_limit(METER_memory), tables = (end - start) / PAGES_PER_TABLE;
	uint8_t vec[PAGES_PER_TABLE];
	uint64_t missing = 0;
	struct host_stat st;

	/* Pages of the host's files, and those of nothing that are only read. */
	if (v->flags & VMA_SHARED ? !(v->flags & VMA_COUNTED) : advice == MADV_POPULATE_READ_)
		return tables;
	/* What is there of a file in memory is counted. */
	if (v->flags & VMA_SHARED)
		return host_stat_fd(v->host_fd, &st) == 0 && st.size > st.blocks * 512
			       ? MIN(end - start, st.size - st.blocks * 512) + tables
			       : tables;
	while (start < end && missing <= limit) {
		const size_t n = MIN((end - start) >> PAGE_SHIFT, (uint64_t)ARRAY_SIZE(vec));

		if (g_pf->resident(mm->as, start, n, vec) != 0)
			return missing + (end - start) + tables;
		for (size_t i = 0; i < n; i++)
			if (!(vec[i] & PF_PAGE_THERE) || (vec[i] & PF_PAGE_FILE))
				missing += MOAT_PAGE_SIZE;
		start += n << PAGE_SHIFT;
	}
	return missing ? missing + tables : 0;
}

/* [start, end) of @v: -ENOMEM also where the limit on memory would be passed. */
static int fill_in(struct task *t, struct mm *mm, const struct vma *v, uint64_t start, uint64_t end,
		   int advice) REQUIRES(mm->lock)
{
	const struct map_op op = {
		.kind = MAP_OP_ADVISE, .addr = start, .size = end - start, .advice = advice};
	int r = -ENOMEM;

	if (likely(!memory_might_exceed(0)))
		return mm_host_op(t, op);
	fmutex_lock(&g_filling);
	if (meter_watch_allows(fill_cost(mm, v, start, end, advice)))
		r = mm_host_op(t, op);
	fmutex_unlock(&g_filling);
	return r;
}

/* ---- madvise ---- */

static bool advice_known(int advice)
{
	if (advice == MADV_MERGEABLE_ || advice == MADV_UNMERGEABLE_)
		return false;
	return (advice >= MADV_NORMAL_ && advice <= MADV_DONTNEED_) ||
	       (advice >= MADV_FREE_ && advice <= MADV_COLLAPSE_) ||
	       (advice >= MADV_HWPOISON_ && advice <= MADV_GUARD_REMOVE_);
}

/* The flags that @advice sets and clears. False: it is not about flags. */
static bool advice_flags(int advice, uint32_t *set, uint32_t *clear)
{
	*set = *clear = 0;
	switch (advice) {
	case MADV_DONTFORK_:
		*set = VMA_DONTFORK;
		return true;
	case MADV_DOFORK_:
		*clear = VMA_DONTFORK;
		return true;
	case MADV_WIPEONFORK_:
		*set = VMA_WIPEONFORK;
		return true;
	case MADV_KEEPONFORK_:
		*clear = VMA_WIPEONFORK;
		return true;
	case MADV_DONTDUMP_:
		*set = VMA_DONTDUMP;
		return true;
	case MADV_DODUMP_:
		*clear = VMA_DONTDUMP;
		return true;
	case MADV_HUGEPAGE_:
		*set = VMA_HUGE;
		*clear = VMA_NOHUGE | VMA_AUTOHUGE;
		return true;
	case MADV_NOHUGEPAGE_:
		*set = VMA_NOHUGE;
		*clear = VMA_HUGE | VMA_AUTOHUGE;
		return true;
	default:
		return false;
	}
}

/* Is @advice possible for @v? 0, -EINVAL, -EACCES, -EPERM. */
static int advice_allowed(const struct vma *v, int advice)
{
	switch (advice) {
	case MADV_DONTNEED_:
	case MADV_COLD_:
	case MADV_PAGEOUT_:
		if (v->flags & (VMA_LOCKED | SPECIAL))
			return -EINVAL;
		break;
	case MADV_FREE_:
		if (!is_private_anon(v))
			return -EINVAL;
		break;
	case MADV_REMOVE_:
		if ((v->flags & VMA_LOCKED) || !v->file)
			return -EINVAL;
		if (!(v->flags & VMA_SHARED) || !(v->prot & LX_PROT_WRITE))
			return -EACCES;
		break;
	case MADV_WIPEONFORK_:
		if (!is_private_anon(v))
			return -EINVAL;
		break;
	case MADV_DODUMP_:
	case MADV_HUGEPAGE_:
	case MADV_NOHUGEPAGE_:
		if (v->flags & SPECIAL)
			return -EINVAL;
		break;
	case MADV_GUARD_INSTALL_:
		if (v->flags & (VMA_LOCKED | SPECIAL))
			return -EINVAL;
		break;
	default:
		break;
	}
	/* Sealed memory that its owner could not write may not be thrown away either. */
	if ((v->flags & VMA_SEALED) && is_private_anon(v) && !(v->prot & LX_PROT_WRITE) &&
	    (advice == MADV_DONTNEED_ || advice == MADV_FREE_ || advice == MADV_DONTNEED_LOCKED_ ||
	     advice == MADV_DONTFORK_ || advice == MADV_WIPEONFORK_ ||
	     advice == MADV_GUARD_INSTALL_))
		return -EPERM;
	return 0;
}

/* What of it the host shall know. */
static bool host_wants(const struct mm *mm, const struct vma *v, int advice)
{
	switch (advice) {
	case MADV_HUGEPAGE_:
		return !mm->thp_off; /* else it is told when that changes */
	case MADV_DONTNEED_:
	case MADV_DONTNEED_LOCKED_:
	case MADV_FREE_:
	case MADV_NOHUGEPAGE_:
	case MADV_COLD_:
	case MADV_PAGEOUT_:
	case MADV_GUARD_INSTALL_:
	case MADV_GUARD_REMOVE_:
		return true;
	case MADV_WILLNEED_:
		return v->host_fd >= 0;
	default:
		return false;
	}
}

/* [start, end) of one vma. The caller joins what is split here. */
static int advise_vma(struct task *t, struct mm *mm, struct vma *v, uint64_t start, uint64_t end,
		      int advice) REQUIRES(mm->lock)
{
	uint32_t set, clear;
	bool flags = advice_flags(advice, &set, &clear);
	int r = advice_allowed(v, advice);

	if (r)
		return r;
	if (advice_fills(advice)) {
		r = fill_in(t, mm, v, start, end, advice);
		if (r)
			return r;
	} else if (host_wants(mm, v, advice)) {
		const bool sure = advice == MADV_DONTNEED_ && v->host_fd < 0 &&
				  !(v->flags & (VMA_SHARED | VMA_LOCKED));

		r = mm_host_op(t, (struct map_op){.kind = MAP_OP_ADVISE,
						  .flags = sure ? MAP_OPF_SURE : 0,
						  .addr = start,
						  .size = end - start,
						  .advice = advice});
		if (r)
			return r;
	}
	if (!flags || (v->flags & ~clear) == (v->flags | set))
		return 0;
	r = mm_split_range(mm, start, end);
	if (r == 0) {
		v = mm_find(mm, start);
		vma_set(mm, v, v->prot, (v->flags | set) & ~clear);
	}
	return r;
}

/* MADV_REMOVE: the file gets a hole. The lock is dropped meanwhile. */
static int remove_pages(struct task *t, struct mm *mm, struct vma *v, uint64_t start, uint64_t end)
	REQUIRES(mm->lock)
{
	uint64_t offset = v->offset + (start - v->start);
	struct file *f;
	int r = advice_allowed(v, MADV_REMOVE_);

	if (r)
		return r;
	f = file_get(v->file);
	fmutex_unlock(&mm->lock);
	r = vfs_fallocate(&t->vctx, f, LX_FALLOC_FL_PUNCH_HOLE | LX_FALLOC_FL_KEEP_SIZE,
			  (int64_t)offset, (int64_t)(end - start));
	file_put(f);
	fmutex_lock(&mm->lock);
	return r;
}

static int advise_range(struct task *t, struct mm *mm, uint64_t start, uint64_t end, int advice)
	REQUIRES(mm->lock)
{
	bool populate = advice == MADV_POPULATE_READ_ || advice == MADV_POPULATE_WRITE_;
	int hole = 0;

	while (start < end) {
		struct vma *v = mm_find(mm, start);
		uint64_t stop;
		int r;

		if (!v || v->start >= end)
			return -ENOMEM;
		if (v->start > start) {
			/* Populating stops at the first hole, the others go on. */
			if (populate)
				return -ENOMEM;
			hole = -ENOMEM;
			start = v->start;
		}
		stop = MIN(v->end, end);
		if (advice == MADV_REMOVE_)
			r = remove_pages(t, mm, v, start, stop);
		else
			r = advise_vma(t, mm, v, start, stop, advice);
		if (r)
			return r;
		start = stop;
	}
	return hole;
}

int mm_madvise(struct task *t, uint64_t addr, uint64_t size, int advice)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	uint64_t end;
	int r;

	if (!advice_known(advice) || addr % MOAT_PAGE_SIZE)
		return -EINVAL;
	end = addr + page_up(size);
	if ((size && page_up(size) == 0) || end < addr)
		return -EINVAL;
	if (end == addr)
		return 0;
	if (advice == MADV_HWPOISON_ || advice == MADV_SOFT_OFFLINE_)
		return -EPERM;
	fmutex_lock(&mm->lock);
	r = advise_range(t, mm, addr, end, advice);
	mm_merge(mm, addr, end, &dead);
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	return r;
}

void mm_set_thp_off(struct task *t, bool off)
{
	struct mm *mm = t->mm;
	struct vma *v;

	fmutex_lock(&mm->lock);
	if (off != mm->thp_off) {
		mm->thp_off = off;
		vma_foreach (v, mm) {
			if (!(v->flags & (VMA_HUGE | VMA_AUTOHUGE)))
				continue;
			/* A host that does not know of huge pages has none to be off. */
			(void)!mm_host_op(t, (struct map_op){.kind = MAP_OP_ADVISE,
							     .addr = v->start,
							     .size = v->end - v->start,
							     .advice = off ? MADV_NOHUGEPAGE_
									   : MADV_HUGEPAGE_});
		}
	}
	fmutex_unlock(&mm->lock);
}

bool mm_thp_off(struct mm *mm)
{
	bool off;

	fmutex_lock(&mm->lock);
	off = mm->thp_off;
	fmutex_unlock(&mm->lock);
	return off;
}

/* ---- locks ---- */

/* Faults [start, end) in. Linux's errors of mlock: ENOMEM where nothing may be read. */
int mm_populate(struct task *t, uint64_t start, uint64_t end)
{
	struct mm *mm = t->mm;
	int r = 0;

	fmutex_lock(&mm->lock);
	for (struct vma *v = mm_find(mm, start); v && v->start < end; v = mm_next(v)) {
		bool write = (v->prot & LX_PROT_WRITE) && !(v->flags & VMA_SHARED);
		uint64_t from = MAX(v->start, start), to = MIN(v->end, end);

		if (v->flags & SPECIAL)
			continue;
		if (!(v->prot & (LX_PROT_READ | LX_PROT_WRITE))) {
			r = -ENOMEM;
			break;
		}
		r = fill_in(t, mm, v, from, to, write ? MADV_POPULATE_WRITE_ : MADV_POPULATE_READ_);
		/* Old hosts do not know it: then pages come when they are used. */
		if (r == -EINVAL)
			r = 0;
		if (r)
			break;
	}
	fmutex_unlock(&mm->lock);
	if (r == -EFAULT)
		return -ENOMEM;
	return r;
}

/* Sets or clears a flag on all of [start, end). -ENOMEM at the first hole. */
static int flag_range(struct mm *mm, uint64_t start, uint64_t end, uint32_t set, uint32_t clear,
		      struct vma_list *dead) REQUIRES(mm->lock)
{
	uint64_t at = start;
	int r = 0;

	while (at < end && r == 0) {
		struct vma *v = mm_find(mm, at);

		if (!v || v->start > at) {
			r = -ENOMEM;
			break;
		}
		if ((v->flags & SPECIAL) || ((v->flags | set) & ~clear) == v->flags) {
			at = v->end;
			continue;
		}
		r = mm_split_range(mm, at, end);
		if (r)
			break;
		v = mm_find(mm, at);
		vma_set(mm, v, v->prot, (v->flags | set) & ~clear);
		at = v->end;
	}
	mm_merge(mm, start, end, dead);
	return r;
}

static bool can_lock(struct task *t)
{
	return rlimit_get(t->tg, LX_RLIMIT_MEMLOCK) != 0 ||
	       cred_capable(t->vctx.cred, LX_CAP_IPC_LOCK);
}

/* Bytes in the range that are locked already. */
static uint64_t locked_in(struct mm *mm, uint64_t start, uint64_t end) REQUIRES(mm->lock)
{
	uint64_t n = 0;

	for (struct vma *v = mm_find(mm, start); v && v->start < end; v = mm_next(v))
		if (v->flags & VMA_LOCKED)
			n += MIN(v->end, end) - MAX(v->start, start);
	return n;
}

int mm_mlock(struct task *t, uint64_t addr, uint64_t size, bool on_fault)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	uint64_t start = page_down(addr), bytes = page_up(size + addr % MOAT_PAGE_SIZE);
	uint64_t end = start + bytes;
	int r;

	if (!can_lock(t))
		return -EPERM;
	fmutex_lock(&mm->lock);
	if (!mm_may_lock(t, mm, bytes) &&
	    (end < start || !mm_may_lock(t, mm, bytes - locked_in(mm, start, end))))
		r = -ENOMEM;
	else if (end < start)
		r = -EINVAL;
	else
		r = flag_range(mm, start, end, VMA_LOCKED, 0, &dead);
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	if (r == 0 && !on_fault && end > start)
		r = mm_populate(t, start, end);
	return r;
}

int mm_munlock(struct task *t, uint64_t addr, uint64_t size)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	uint64_t start = page_down(addr), end = start + page_up(size + addr % MOAT_PAGE_SIZE);
	int r;

	if (end < start)
		return -EINVAL;
	fmutex_lock(&mm->lock);
	r = flag_range(mm, start, end, 0, VMA_LOCKED, &dead);
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	return r;
}

#define MCL_CURRENT_ 1
#define MCL_FUTURE_ 2
#define MCL_ONFAULT_ 4

/* Locks or unlocks every vma. */
static void lock_all(struct mm *mm, bool lock, struct vma_list *dead) REQUIRES(mm->lock)
{
	struct vma *v;

	vma_foreach (v, mm) {
		if (v->flags & SPECIAL)
			continue;
		vma_set(mm, v, v->prot, lock ? v->flags | VMA_LOCKED : v->flags & ~VMA_LOCKED);
	}
	mm_merge(mm, 0, UINT64_MAX, dead);
}

/* Populates what can be, and says nothing of the rest. */
static void populate_all(struct task *t, struct mm *mm)
{
	uint64_t at = 0;

	for (;;) {
		struct vma *v;
		uint64_t start, end;

		fmutex_lock(&mm->lock);
		v = mm_find(mm, at);
		start = v ? v->start : 0;
		end = v ? v->end : 0;
		fmutex_unlock(&mm->lock);
		if (!v)
			return;
		(void)!mm_populate(t, start, end);
		at = end;
	}
}

int mm_mlockall(struct task *t, int flags)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	int r = 0;

	if (!flags || (flags & ~(MCL_CURRENT_ | MCL_FUTURE_ | MCL_ONFAULT_)) ||
	    flags == MCL_ONFAULT_)
		return -EINVAL;
	if (!can_lock(t))
		return -EPERM;
	fmutex_lock(&mm->lock);
	if ((flags & MCL_CURRENT_) && !cred_capable(t->vctx.cred, LX_CAP_IPC_LOCK) &&
	    mm->total_bytes > page_down(rlimit_get(t->tg, LX_RLIMIT_MEMLOCK)))
		r = -ENOMEM;
	if (r == 0) {
		mm->def_flags = flags & MCL_FUTURE_ ? VMA_LOCKED : 0;
		if (flags & MCL_CURRENT_)
			lock_all(mm, true, &dead);
	}
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	if (r == 0 && (flags & MCL_CURRENT_) && !(flags & MCL_ONFAULT_))
		populate_all(t, mm);
	return r;
}

void mm_munlockall(struct task *t)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};

	fmutex_lock(&mm->lock);
	mm->def_flags = 0;
	lock_all(mm, false, &dead);
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
}

/* ---- msync ---- */

#define MS_ASYNC_ 1
#define MS_INVALIDATE_ 2
#define MS_SYNC_ 4

/* The file of a shared mapping that msync is to write, with a reference; NULL: none. */
static struct file *file_to_sync(struct vma *v)
{
	if (!v->file || !(v->flags & VMA_SHARED))
		return NULL;
	return file_get(v->file);
}

int mm_msync(struct task *t, uint64_t addr, uint64_t size, int flags)
{
	struct mm *mm = t->mm;
	uint64_t end = addr + page_up(size);
	int hole = 0;

	if ((flags & ~(MS_ASYNC_ | MS_INVALIDATE_ | MS_SYNC_)) || addr % MOAT_PAGE_SIZE ||
	    ((flags & MS_ASYNC_) && (flags & MS_SYNC_)))
		return -EINVAL;
	if (end < addr)
		return -ENOMEM;
	while (addr < end) {
		struct file *f = NULL;
		struct vma *v;
		bool wrote = false;
		int r = 0;

		fmutex_lock(&mm->lock);
		v = mm_find(mm, addr);
		if (!v || v->start >= end) {
			r = -ENOMEM;
		} else {
			if (v->start > addr)
				hole = -ENOMEM;
			if ((flags & MS_INVALIDATE_) && (v->flags & VMA_LOCKED))
				r = -EBUSY;
			else
				f = file_to_sync(v);
			wrote = v->prot & LX_PROT_WRITE;
			addr = v->end;
		}
		fmutex_unlock(&mm->lock);
		if (f) {
			/* Nobody told us of stores to the mapping; this is where it shows. */
			if (wrote)
				inode_touch(f->inode, false, true, true);
			if (flags & MS_SYNC_)
				r = vfs_fsync(f, false);
			file_put(f);
		}
		if (r)
			return r;
	}
	return hole;
}

/* ---- mincore ---- */

/* Linux tells of the page cache only who could change the file; to others all is resident. */
static bool may_see_cache(struct task *t, const struct vma *v)
{
	struct inode *i = v->file->inode;

	return i->uid == t->vctx.cred->fsuid || cred_capable(t->vctx.cred, LX_CAP_FOWNER) ||
	       inode_permission(&t->vctx, i, MAY_WRITE) == 0;
}

/* One byte for each of @n pages of @v from @addr. */
static int residency(struct task *t, struct mm *mm, const struct vma *v, uint64_t addr, uint64_t n,
		     uint8_t *vec) REQUIRES(mm->lock)
{
	uint8_t cached[MINCORE_CHUNK];
	int r = g_pf->resident(mm->as, addr, n, vec);

	for (uint64_t i = 0; i < n; i++)
		vec[i] &= PF_PAGE_THERE;
	if (r || !v->file)
		return r;
	if (!may_see_cache(t, v)) {
		memset(vec, 1, n);
		return 0;
	}
	/* What another process brought into the cache counts, mapped here or not. */
	const uint64_t off = v->host_offset + (addr - v->start);

	r = host_resident(v->host_fd, off, n, cached);
	/* Of a standard file the offset is the caller's, too. */
	if (r == -EOPNOTSUPP && !hostfd_is(v->file))
		r = host_resident_memory(v->host_fd, off, n, cached);
	if (r == 0)
		for (uint64_t i = 0; i < n; i++)
			vec[i] |= cached[i];
	return 0;
}

int mm_mincore(struct task *t, uint64_t addr, uint64_t size, gaddr_t vec)
{
	uint64_t pages = page_up(size) >> PAGE_SHIFT;
	struct mm *mm = t->mm;
	uint8_t buf[MINCORE_CHUNK];

	if (addr % MOAT_PAGE_SIZE)
		return -EINVAL;
	if (!user_range_ok(addr, size))
		return -ENOMEM;
	if (!user_range_ok(vec.a, pages))
		return -EFAULT;
	while (pages) {
		uint64_t n = MIN(pages, (uint64_t)sizeof(buf));
		struct vma *v;
		int r = -ENOMEM;

		fmutex_lock(&mm->lock);
		v = mm_find(mm, addr);
		if (v && v->start <= addr) {
			n = MIN(n, (v->end - addr) >> PAGE_SHIFT);
			r = residency(t, mm, v, addr, n, buf);
		}
		fmutex_unlock(&mm->lock);
		if (r)
			return r;
		if (copy_out(t, vec, buf, n))
			return -EFAULT;
		addr += n << PAGE_SHIFT;
		vec.a += n;
		pages -= n;
	}
	return 0;
}

/* ---- mseal ---- */

bool mm_is_sealed(struct mm *mm, uint64_t start, uint64_t end)
{
	if (!mm->any_sealed)
		return false;
	for (struct vma *v = mm_find(mm, start); v && v->start < end; v = mm_next(v))
		if (v->flags & VMA_SEALED)
			return true;
	return false;
}

int mm_mseal(struct task *t, uint64_t addr, uint64_t size, uint64_t flags)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	uint64_t end = addr + page_up(size);
	int r = 0;

	if (flags || addr % MOAT_PAGE_SIZE || (size && !page_up(size)) || end < addr)
		return -EINVAL;
	if (end == addr)
		return 0;
	fmutex_lock(&mm->lock);
	/* All or nothing: look for holes first. */
	for (uint64_t at = addr; at < end && r == 0;) {
		struct vma *v = mm_find(mm, at);

		if (!v || v->start > at)
			r = -ENOMEM;
		else
			at = v->end;
	}
	if (r == 0) {
		mm->any_sealed = true;
		r = flag_range(mm, addr, end, VMA_SEALED, 0, &dead);
	}
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	return r;
}
