/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: contents of files that a guest reads again and again, mapped in its stub.
 *
 * Theory of operation: what a read gives travels by the thread's area: the sentry copies it there,
 * and the stub from there, which costs the way from one processor's cache to another's for each
 * line. But what the sentry has mapped of a host file that never changes, or of the memory of a
 * file of its own (uio_file), can as well be mapped in the stub, read-only, above all that is the
 * guest's: then the reply says where, and the stub copies from there. *Measured*, a read of 4 KiB
 * costs 0.5 us that way and 0.84 by the area, one of 64 KiB 1.75 and 8.5. A mapping costs 20 us,
 * and more for what is looked at first, so it is made for what so much was read of again (WEIGHT),
 * not for what is read once, however large. There are at most TS_VIEWS_MAX, and only while there is
 * one thread, which has copied all that it was told to when it asks again, the one used longest ago
 * makes room. Zeros are given likewise, and need no mapping: the stub makes them.
 *
 * What a guest may read of a file by this: what it has just read, or could have, of the same
 * mapping; for as long as it lives, as if it had mapped the file itself when it could read it, so
 * what others write there later, too. Where the file ends, so does what can be seen; and when a
 * file in memory goes, its memory is taken from those who see it (vfs/tmpfs_memfd.c), so that none
 * is kept and nothing else comes to be there. A child of fork inherits the mappings, as it does
 * those of its parent's own; it makes others in their places. An address space of a new program has
 * none.
 *
 * Who is told to copy from a file that is cut short before he has done it gets as much as there
 * still is, or makes the call again (stub_trap/fast.c).
 *
 * The limit of what is mapped (trap_space.c) is raised by the size of a view, just before it is
 * mapped; a guest that is quicker has so much more, once.
 *
 * The stub copies from wherever the area says, which the guest can write: only from its own memory,
 * to its own memory.
 *
 * Locking: as->views by fibers on @home only; the map is made with as->orders_lock.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include "platform/order.h"
#include "platform/stub_files.h"
#include "platform/trap.h"

/* So many bytes that were copied again pay for a view. */
#define WEIGHT ((size_t)256 << 10)
#define CANDIDATES 16u

struct tr_view {
	uint64_t id; /* 0: not mapped, or about to be */
	uint64_t used;
};

struct tr_views {
	struct tr_view view[TS_VIEWS_MAX];
	struct candidate {
		uint64_t id;
		uint64_t end; /* so far it was read */
		size_t bytes; /* again */
	} candidate[CANDIDATES];
	uint64_t clock;
	bool failed; /* the host would not */
};

void tr_views_free(struct tr_views *views)
{
	mem_free(views);
}

/* Has so much been read again of @file by copies, these @size bytes as well, that it shall be
 * mapped? */
static bool is_due(struct tr_views *v, const struct uio_file *file, uint64_t pos, size_t size)
{
	struct candidate *c = &v->candidate[file->id % CANDIDATES];

	if (c->id != file->id)
		*c = (struct candidate){.id = file->id};
	/* What is small is not cheaper. */
	if (pos < c->end)
		c->bytes += MAX(MIN(size, c->end - pos), UIO_GIVE_FLOOR);
	c->end = MAX(c->end, pos + size);
	return c->bytes >= WEIGHT && !v->failed;
}

static struct tr_view *find(struct tr_views *v, uint64_t id)
{
	for (unsigned i = 0; i < TS_VIEWS_MAX; i++) {
		if (v->view[i].id == id)
			return &v->view[i];
	}
	return NULL;
}

static uint64_t addr_of(const struct tr_views *v, const struct tr_view *view)
{
	return TS_VIEWS + (uint64_t)(view - v->view) * TS_VIEW_SIZE;
}

/* What the stub has read in views by itself is use, too. */
static void note_used(struct pf_thread *t, struct tr_views *v)
{
	for (unsigned i = 0; i < TS_VIEWS_MAX; i++) {
		if (v->view[i].id != 0 && tr_reads_used(t, addr_of(v, &v->view[i])))
			v->view[i].used = ++v->clock;
	}
}

/* A place for another, which is nobody's meanwhile (used: it is taken); NULL: none. */
static struct tr_view *place_take(struct pf_thread *t, struct tr_views *v)
{
	struct tr_view *oldest = &v->view[0];

	note_used(t, v);
	for (unsigned i = 1; i < TS_VIEWS_MAX; i++) {
		if (v->view[i].used < oldest->used)
			oldest = &v->view[i];
	}
	if (oldest->used != 0) {
		/* Another thread may be copying from it. */
		if (atomic_load(&t->as->threads) != 1)
			return NULL;
		tr_reads_forget_view(t, addr_of(v, oldest));
	}
	*oldest = (struct tr_view){.used = UINT64_MAX};
	return oldest;
}

uint64_t tr_view_find(struct pf_as *as, uint64_t id)
{
	struct tr_view *view = as->views ? find(as->views, id) : NULL;

	if (!view)
		return 0;
	view->used = ++as->views->clock;
	return addr_of(as->views, view);
}

static bool map_locked(struct pf_as *as, struct pf_thread *t, unsigned place,
		       const struct uio_file *file, int fd) REQUIRES(as->orders_lock)
{
	const uint16_t pages = (uint16_t)(page_up(file->size) >> PAGE_SHIFT),
		       was = as->view_pages[place];
	struct tr_report report = {0};
	struct stub_order *list = as->orders->list;
	size_t n;

	if (tr_orders_begin_locked(as) < 0)
		return false;
	/* What is left of a larger one stays mapped. */
	as->view_pages[place] = MAX(was, pages);
	n = tr_space_order(as, as->space, as->area_count, list);
	order_set(&list[n], SYS_mmap, TS_VIEWS + (uint64_t)place * TS_VIEW_SIZE,
		  page_up(file->size), PROT_READ, MAP_SHARED | MAP_FIXED, (uint64_t)fd,
		  file->start);
	if (tr_order_locked(as, t, TS_OP_BATCH, n + 1, 0, 0, &report) < 0)
		return false;
	if (report.done < n)
		as->limit = 0; /* whatever it is, it is set anew */
	if (report.value == 0)
		return true;
	as->view_pages[place] = was;
	(void)!tr_space_again_locked(as, t);
	return false;
}

static bool map(struct pf_thread *t, unsigned place, const struct uio_file *file)
{
	struct pt_file *held;
	const int fd = pt_file_get(file->host_fd, 0, false, &held);
	bool done;

	if (fd < 0)
		return false;
	fmutex_lock(&t->as->orders_lock);
	done = map_locked(t->as, t, place, file, fd);
	fmutex_unlock(&t->as->orders_lock);
	pt_file_put(held);
	return done;
}

/* The view of @file, made if it is due. NULL: there is none. */
static struct tr_view *view_get(struct pf_thread *t, const struct uio_file *file, uint64_t pos,
				size_t size)
{
	struct tr_views *v = t->as->views;
	struct tr_view *view;

	if (unlikely(!v)) {
		v = t->as->views = mem_zalloc(sizeof(*v));
		if (!v)
			return NULL;
	}
	view = find(v, file->id);
	if (likely(view != NULL) || !is_due(v, file, pos, size))
		return view;
	view = place_take(t, v);
	if (!view)
		return NULL;
	if (!map(t, (unsigned)(view - v->view), file)) {
		v->failed = true;
		view->used = 0;
		return NULL;
	}
	view->id = file->id;
	return view;
}

bool tr_give(struct pf_as *as, gaddr_t dst, const struct uio_file *file, uint64_t pos, size_t size)
{
	struct pf_thread *t = tr_window_thread(as);
	struct tr_view *view;
	uint32_t index;

	if (!t || size > TS_VIEW_SIZE || !tr_window_for_view(t, dst.a, size, &index))
		return false;
	if (!file) {
		tr_window_view(t, index, TR_VIEW_ZEROS, size);
		return true;
	}
	BUG_ON(file->id == 0 || pos < file->start || pos - file->start > file->size ||
	       size > file->size - (pos - file->start));
	if (file->size > TS_VIEW_SIZE)
		return false;
	view = view_get(t, file, pos, size);
	if (!view)
		return false;
	view->used = ++as->views->clock;
	tr_window_view(t, index, addr_of(as->views, view) + (pos - file->start), size);
	return true;
}
