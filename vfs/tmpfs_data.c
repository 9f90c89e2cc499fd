/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of a file in memory, as heap pages. See tmpfs_node.h; tmpfs_memfd.c has the other
 * form.
 *
 * Theory of operation: a page that is not in the tree is a hole and reads as zero. Every page in
 * the tree is charged to the file system. Invariant: bytes of the last page beyond size are zero,
 * so growing needs no work. A copy to or from user memory has a price per piece: it takes as many
 * pages at once as are neighbours, which those of a file mostly are, and a write that would leave
 * more than TMPFS_BIG_PAGES pages moves the content to a memfd first.
 *
 * Locking: d->lock, by the callers.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "vfs/tmpfs_node.h"

/* Over all instances, memfds and shared memory too: the sandbox's memory is one. In bytes. */
#define ALL (&g_meters[METER_file_bytes].current)

/* All or nothing, up to @max. *used may be over it already: mappings fault pages in unasked. */
static bool add_used(_Atomic uint64_t *used, uint64_t n, uint64_t max)
{
	uint64_t old = atomic_load_explicit(used, memory_order_relaxed);

	do {
		if (old > max || n > max - old)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(used, &old, old + n, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

/* The limit to raise for more: files have half of the memory at most, whatever theirs is. */
static enum meter bound_by(void)
{
	const bool memory = tmpfs_pages_max() < meter_limit(METER_file_bytes) / MOAT_PAGE_SIZE;

	return memory ? METER_memory : METER_file_bytes;
}

bool tmpfs_charge(struct tmpfs_sb *sb, uint64_t pages)
{
	if (!add_used(&sb->used_pages, pages, sb->max_pages)) {
		if (sb->max_pages >= tmpfs_pages_max())
			meter_refuse(bound_by());
		return false;
	}
	if (!add_used(ALL, pages << PAGE_SHIFT, tmpfs_pages_max() << PAGE_SHIFT)) {
		meter_refuse(bound_by());
	} else if (!meter_charge(METER_memory, pages << PAGE_SHIFT)) {
		meter_uncharge(METER_file_bytes, pages << PAGE_SHIFT);
	} else {
		meter_charge_found(METER_file_bytes, 0); /* its peak */
		if (memory_might_exceed(0) && g_memory_look)
			g_memory_look();
		return true;
	}
	atomic_fetch_sub_explicit(&sb->used_pages, pages, memory_order_relaxed);
	return false;
}

void tmpfs_charge_found(struct tmpfs_sb *sb, uint64_t pages)
{
	atomic_fetch_add_explicit(&sb->used_pages, pages, memory_order_relaxed);
	meter_charge_found(METER_file_bytes, pages << PAGE_SHIFT);
	meter_charge_found(METER_memory, pages << PAGE_SHIFT);
}

void tmpfs_uncharge(struct tmpfs_sb *sb, uint64_t pages)
{
	if (!pages)
		return;
	atomic_fetch_sub_explicit(&sb->used_pages, pages, memory_order_relaxed);
	meter_uncharge(METER_file_bytes, pages << PAGE_SHIFT);
	meter_uncharge(METER_memory, pages << PAGE_SHIFT);
}

uint64_t tmpfs_pages_left(void)
{
	uint64_t used = meter_current(METER_file_bytes) >> PAGE_SHIFT;
	uint64_t max = tmpfs_pages_max();

	return used < max ? max - used : 0;
}

void tmpfs_data_init(struct tmpfs_data *d, struct tmpfs_sb *sb)
{
	frwlock_init(&d->lock);
	d->sb = sb;
	d->memfd = -1;
}

void tmpfs_data_drop(struct tmpfs_data *d)
{
	if (d->memfd >= 0)
		tmpfs_memfd_fini(d);
	page_tree_free_range(&d->tree, 0, UINT64_MAX);
	tmpfs_uncharge(d->sb, d->charged);
	d->charged = d->size = 0;
}

void tmpfs_data_fini(struct tmpfs_data *d)
{
	tmpfs_data_drop(d);
	frwlock_fini(&d->lock);
}

void tmpfs_data_take(struct tmpfs_data *d, const struct tmpfs_data *from)
{
	d->size = from->size;
	d->tree = from->tree;
	d->memfd = from->memfd;
	d->mapped = from->mapped;
	d->holes = from->holes;
	d->window = from->window;
	d->window_size = from->window_size;
	d->host_size = from->host_size;
	d->key = from->key;
	d->charged = from->charged;
}

ssize_t tmpfs_data_read(struct tmpfs_data *d, struct uio *u, uint64_t pos)
{
	if (pos >= d->size)
		return 0;
	uint64_t left = MIN(u->resid, d->size - pos);
	ssize_t done = 0;

	if (d->memfd >= 0)
		return tmpfs_memfd_read(d, u, pos, left);
	while (left) {
		uint64_t in_page = pos & (MOAT_PAGE_SIZE - 1);
		uint64_t n = MIN(left, MOAT_PAGE_SIZE - in_page);
		const uint8_t *page = page_tree_find(&d->tree, pos >> PAGE_SHIFT);
		ssize_t r;

		if (page) {
			for (uint64_t i = (pos >> PAGE_SHIFT) + 1;
			     n < left &&
			     page_tree_find(&d->tree, i) == (const void *)(page + in_page + n);
			     i++)
				n += MIN(left - n, MOAT_PAGE_SIZE);
			r = uio_put(u, page + in_page, n);
		} else {
			/* A hole is taken whole: it may be long. */
			uint64_t next = pos >> PAGE_SHIFT;

			if (!page_tree_next(&d->tree, &next) || next << PAGE_SHIFT >= pos + left)
				n = left;
			else
				n = (next << PAGE_SHIFT) - pos;
			r = uio_put_zero(u, n);
		}
		if (r < 0)
			return done ? done : r;
		done += r;
		pos += (uint64_t)r;
		left -= (uint64_t)r;
		if ((uint64_t)r < n)
			break;
	}
	return done;
}

/* The page at @index, made and charged if it was a hole. */
static int page_for_write(struct tmpfs_data *d, uint64_t index, uint8_t **page, bool *made)
{
	*made = false;
	*page = page_tree_find(&d->tree, index);
	if (*page)
		return 0;
	if (!tmpfs_charge(d->sb, 1))
		return -ENOSPC;
	*page = tmpfs_page_alloc();
	if (!*page) {
		tmpfs_uncharge(d->sb, 1);
		return -ENOMEM;
	}
	if (page_tree_add(&d->tree, index, *page) < 0) {
		tmpfs_page_free(*page);
		tmpfs_uncharge(d->sb, 1);
		return -ENOMEM;
	}
	d->charged++;
	*made = true;
	return 0;
}

static void page_unmake(struct tmpfs_data *d, uint64_t index)
{
	tmpfs_page_free(page_tree_remove(&d->tree, index));
	tmpfs_uncharge(d->sb, 1);
	d->charged--;
}

/* Zeroes [off, end) within one page, if it is there. */
static void zero_in_page(struct tmpfs_data *d, uint64_t off, uint64_t end)
{
	uint8_t *page = page_tree_find(&d->tree, off >> PAGE_SHIFT);

	if (page && end > off)
		memset(page + (off & (MOAT_PAGE_SIZE - 1)), 0, end - off);
}

/* Zeroes [off, end) where there are pages. */
static void zero_tail(struct tmpfs_data *d, uint64_t off, uint64_t end)
{
	while (off < end) {
		uint64_t to = MIN(end, page_down(off) + MOAT_PAGE_SIZE);

		zero_in_page(d, off, to);
		off = to;
	}
}

/* Neighbouring pages, of which a write fills a part. */
struct run {
	uint8_t *page; /* the first */
	unsigned count;
	uint32_t made; /* a bit for each: it was a hole */
};

/* At most @want pages from @index on, at least one. */
static int run_for_write(struct tmpfs_data *d, uint64_t index, uint64_t want, struct run *run)
{
	uint8_t *page;
	bool made;
	int r = page_for_write(d, index, &page, &made);

	if (r < 0)
		return r;
	*run = (struct run){.page = page, .count = 1, .made = made};
	while (run->count < MIN(want, 32u)) {
		if (page_for_write(d, index + run->count, &page, &made) < 0)
			break; /* what there is room for is written first */
		if (page != run->page + (size_t)run->count * MOAT_PAGE_SIZE) {
			if (made)
				page_unmake(d, index + run->count);
			break;
		}
		run->made |= (uint32_t)made << run->count++;
	}
	return 0;
}

/* Takes back what was made of @run from its page @from on. */
static void run_unmake(struct tmpfs_data *d, uint64_t index, const struct run *run, uint64_t from)
{
	for (uint64_t n = from; n < run->count; n++)
		if (run->made >> n & 1)
			page_unmake(d, index + n);
}

static void maybe_promote(struct tmpfs_data *d, uint64_t more_pages)
{
	if (d->memfd < 0 && d->tree.count + more_pages > TMPFS_BIG_PAGES && tmpfs_memfd_room())
		(void)!tmpfs_data_promote(d); /* else it stays as it is: slower, no less right */
}

ssize_t tmpfs_data_write(struct tmpfs_data *d, struct uio *u, uint64_t pos)
{
	ssize_t done = 0;

	if (pos >= TMPFS_MAX_SIZE)
		return -EFBIG;
	maybe_promote(d, page_up(MIN(u->resid, TMPFS_MAX_SIZE)) >> PAGE_SHIFT);
	if (d->memfd >= 0)
		return tmpfs_memfd_write(d, u, pos);
	while (u->resid && pos < TMPFS_MAX_SIZE) {
		uint64_t in_page = pos & (MOAT_PAGE_SIZE - 1);
		struct run run;
		ssize_t r = run_for_write(
			d, pos >> PAGE_SHIFT,
			page_up(in_page + MIN(u->resid, TMPFS_MAX_SIZE)) >> PAGE_SHIFT, &run);
		uint64_t n =
			r < 0 ? 0 : MIN(u->resid, (uint64_t)run.count * MOAT_PAGE_SIZE - in_page);

		if (r == 0) {
			r = uio_get(u, run.page + in_page, n);
			/* Do not leave pages that nobody wrote. */
			if (r < (ssize_t)n)
				run_unmake(d, pos >> PAGE_SHIFT, &run,
					   r > 0 ? page_up(in_page + (uint64_t)r) >> PAGE_SHIFT
						 : 0);
		}
		if (r <= 0)
			return done ? done : r;
		done += r;
		pos += (uint64_t)r;
		d->size = MAX(d->size, pos);
		if ((uint64_t)r < n) {
			/* A partial copy may have put bytes beyond what it reports: they must read
			 * as zero when the file grows later. */
			zero_tail(d, MAX(pos, d->size), pos - (uint64_t)r + n);
			break;
		}
	}
	return done;
}

/* Frees whole pages within [off, end) and zeroes the partial ones at its ends. */
static void punch(struct tmpfs_data *d, uint64_t off, uint64_t end)
{
	uint64_t first = page_up(off) >> PAGE_SHIFT, last = end >> PAGE_SHIFT;

	if (off >> PAGE_SHIFT == end >> PAGE_SHIFT) {
		zero_in_page(d, off, end);
		return;
	}
	if (off & (MOAT_PAGE_SIZE - 1))
		zero_in_page(d, off, page_up(off));
	if (end & (MOAT_PAGE_SIZE - 1))
		zero_in_page(d, page_down(end), end);
	uint64_t freed = page_tree_free_range(&d->tree, first, last);

	d->charged -= freed;
	tmpfs_uncharge(d->sb, freed);
}

int tmpfs_data_truncate(struct tmpfs_data *d, uint64_t size)
{
	if (size > TMPFS_MAX_SIZE)
		return -EFBIG;
	if (d->memfd >= 0) {
		int r = tmpfs_memfd_truncate(d, size);

		if (r < 0)
			return r;
		/* Emptied and nobody maps it: back to the cheap form. */
		if (size == 0 && !d->mapped && atomic_load(&d->giving) == 0) {
			tmpfs_memfd_fini(d);
			tmpfs_uncharge(d->sb, d->charged);
			d->charged = 0;
		}
	} else {
		/* Pages beyond the end: fallocate(KEEP_SIZE) makes them; they go too. */
		punch(d, size, TMPFS_MAX_SIZE);
	}
	d->size = size;
	return 0;
}

int64_t tmpfs_data_seek(struct tmpfs_data *d, int64_t off, int whence)
{
	if (off < 0 || (uint64_t)off >= d->size)
		return -ENXIO;
	if (d->memfd >= 0)
		return tmpfs_memfd_seek(d, off, whence);
	uint64_t index = (uint64_t)off >> PAGE_SHIFT, found;

	if (whence == SEEK_DATA) {
		found = index;
		if (!page_tree_next(&d->tree, &found))
			return -ENXIO;
		if (found != index)
			off = (int64_t)(found << PAGE_SHIFT);
		return (uint64_t)off < d->size ? off : -ENXIO;
	}
	found = page_tree_next_hole(&d->tree, index);
	if (found != index)
		off = (int64_t)(found << PAGE_SHIFT);
	return (int64_t)MIN((uint64_t)off, d->size);
}

/* Makes all pages within [off, end); none of them stays if one fails. */
static int allocate(struct tmpfs_data *d, uint64_t off, uint64_t end)
{
	uint64_t first = off >> PAGE_SHIFT, last = page_up(end) >> PAGE_SHIFT, made_count = 0;
	uint64_t *made = NULL;
	int r = 0;

	for (uint64_t i = first; i < last; i++) {
		bool fresh;
		uint8_t *page;

		r = page_for_write(d, i, &page, &fresh);
		if (r == 0 && fresh) {
			if (made_count % 64 == 0) {
				uint64_t *more =
					mem_realloc(made, (made_count + 64) * sizeof(*made));

				if (!more) {
					page_unmake(d, i);
					r = -ENOMEM;
				} else {
					made = more;
				}
			}
			if (r == 0)
				made[made_count++] = i;
		}
		if (r < 0)
			break;
	}
	if (r < 0)
		while (made_count)
			page_unmake(d, made[--made_count]);
	mem_free(made);
	return r;
}

/* Drops the pages of [keep, from) and moves those from @from on by @shift pages (either way). Fails
 * before it changes anything. */
static int shift_pages(struct tmpfs_data *d, uint64_t keep, uint64_t from, uint64_t shift)
{
	struct page_tree moved = {0};
	uint64_t i = 0;
	void *page;

	for (; (page = page_tree_next(&d->tree, &i)); i++) {
		if (i >= keep && i < from)
			continue;
		if (page_tree_add(&moved, i >= from ? i + shift : i, page) < 0) {
			page_tree_forget(&moved);
			return -ENOMEM;
		}
	}
	uint64_t freed = page_tree_free_range(&d->tree, keep, from);

	d->charged -= freed;
	tmpfs_uncharge(d->sb, freed);
	page_tree_forget(&d->tree);
	d->tree = moved;
	return 0;
}

int tmpfs_data_fallocate(struct tmpfs_data *d, int mode, uint64_t off, uint64_t len)
{
	uint64_t end = off + len;
	bool keep = mode & TMPFS_FALLOC_KEEP_SIZE;
	int r = 0;

	if (end > TMPFS_MAX_SIZE || end < off)
		return -EFBIG;
	switch (mode & ~TMPFS_FALLOC_KEEP_SIZE) {
	case 0:
	case TMPFS_FALLOC_ZERO:
		/* ENOSPC early and whole, before megabytes are touched for nothing. */
		if ((page_up(end) - page_down(off)) >> PAGE_SHIFT >
		    MIN(d->sb->max_pages, tmpfs_pages_max()))
			return -ENOSPC;
		maybe_promote(d, (page_up(end) - page_down(off)) >> PAGE_SHIFT);
		if (d->memfd >= 0) {
			r = tmpfs_memfd_fallocate(d, mode, off, len);
		} else {
			r = allocate(d, off, end);
			if (r == 0 && (mode & TMPFS_FALLOC_ZERO))
				for (uint64_t p = off; p < end; p = page_down(p) + MOAT_PAGE_SIZE)
					zero_in_page(d, p, MIN(end, page_down(p) + MOAT_PAGE_SIZE));
		}
		if (r == 0 && !keep && end > d->size)
			d->size = end;
		return r;
	case TMPFS_FALLOC_PUNCH_HOLE:
		if (!keep)
			return -EOPNOTSUPP;
		if (d->memfd >= 0)
			return tmpfs_memfd_fallocate(d, mode, off, len);
		punch(d, off, end);
		return 0;
	case TMPFS_FALLOC_COLLAPSE:
		if (keep || ((off | len) & (MOAT_PAGE_SIZE - 1)) || end >= d->size)
			return -EINVAL;
		if (d->memfd >= 0)
			r = tmpfs_memfd_fallocate(d, mode, off, len);
		else
			r = shift_pages(d, off >> PAGE_SHIFT, end >> PAGE_SHIFT,
					-(len >> PAGE_SHIFT));
		if (r == 0)
			d->size -= len;
		return r;
	case TMPFS_FALLOC_INSERT:
		if (keep || ((off | len) & (MOAT_PAGE_SIZE - 1)) || off >= d->size)
			return -EINVAL;
		if (d->size > TMPFS_MAX_SIZE - len)
			return -EFBIG;
		if (d->memfd >= 0)
			r = tmpfs_memfd_fallocate(d, mode, off, len);
		else
			r = shift_pages(d, off >> PAGE_SHIFT, off >> PAGE_SHIFT, len >> PAGE_SHIFT);
		if (r == 0)
			d->size += len;
		return r;
	default:
		return -EOPNOTSUPP;
	}
}

void tmpfs_data_recharge(struct tmpfs_data *d)
{
	if (d->memfd >= 0)
		tmpfs_memfd_recharge(d);
}
