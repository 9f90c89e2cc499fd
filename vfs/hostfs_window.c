/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs: windows, mappings of the contents of host files out of which reads are served without a
 * host call.
 *
 * Theory of operation: a window maps one aligned piece of a file, shared, so that it shows what the
 * host's page cache holds: changes on the host are seen as by pread. *Measured*, a read of 4 KiB
 * costs 0.6 us by preadv2 and 0.05 out of a window, one of 64 KiB 3.3 and 1.1; a window costs 2 us
 * to make, 0.04 for each page when it is first touched, and 7 to 20 to give up. So a file gets
 * windows when small reads of it keep coming, or large ones of what was read before. There are at
 * most WINDOWS_MAX; for small reads the one that was used longest ago makes room.
 *
 * Only files of an immutable instance have windows, and only reads that lie within the size that
 * fstat tells are served: what is at the end of a file, pread knows better. A host file that is cut
 * short all the same raises SIGBUS in the copy, which survives it (base/fault.h); the file then has
 * no more windows and the read goes the other way.
 *
 * A page that the host has dropped from its cache since is read from the disk while the worker
 * waits: rare, since mapped pages are the last to be dropped.
 *
 * Locking: g_windows.lock, short; a window in use is pinned and copied from without the lock.
 */
#include "base/err.h"
#include "base/fault.h"
#include "vfs/hostfs_node.h"
#include "vfs/shown.h"

#define WINDOW_SIZE ((uint64_t)1 << 20)
#define WINDOWS_MAX 64u
/* A larger read does not pay for a mapping by itself. */
#define SMALL_READ ((size_t)32 << 10)
/* That many reads of a file that would have gained, before it gets a window. */
#define WINDOW_READS 4u

struct window {
	uint64_t id;
	LIST_ENTRY(window) link; /* h->windows */
	TAILQ_ENTRY(window) lru; /* g_windows.all; the last is the one used last */
	struct hnode *h;
	uint64_t start, size; /* bytes of the file */
	uint8_t *mem;
	unsigned pins;
};

static struct {
	struct mutex lock;
	TAILQ_HEAD(window_list, window) all; /* [lock] */
	unsigned count;                      /* [lock] */
} g_windows = {.lock = MUTEX_INIT(RANK_MISC), .all = TAILQ_HEAD_INITIALIZER(g_windows.all)};

static uint64_t known_size(const struct hnode *h)
{
	return __atomic_load_n(&h->inode->size, __ATOMIC_RELAXED);
}

/* Might a read of @size bytes at @pos be served? */
static bool fits(const struct hnode *h, size_t size, int64_t pos)
{
	uint64_t end;

	return h->sb->opts.immutable && pos >= 0 &&
	       !__builtin_add_overflow((uint64_t)pos, (uint64_t)size, &end) && end <= known_size(h);
}

static struct window *find_locked(struct hnode *h, uint64_t pos)
{
	struct window *w;

	LIST_FOREACH (w, &h->windows, link)
		if (pos - w->start < w->size)
			return w;
	return NULL;
}

static void unlink_locked(struct window *w)
{
	LIST_REMOVE(w, link);
	TAILQ_REMOVE(&g_windows.all, w, lru);
	g_windows.count--;
}

static void used_locked(struct window *w)
{
	if (TAILQ_NEXT(w, lru)) {
		TAILQ_REMOVE(&g_windows.all, w, lru);
		TAILQ_INSERT_TAIL(&g_windows.all, w, lru);
	}
}

static void window_free(struct window *w)
{
	if (!w)
		return;
	host_unmap(w->mem, w->size);
	mem_free(w);
}

/* The file does not behave: all its windows that nobody copies from go, and it gets no others. */
static void give_up(struct hnode *h)
{
	struct window_list dead = TAILQ_HEAD_INITIALIZER(dead);
	struct window *w, *next;

	atomic_store_explicit(&h->no_window, true, memory_order_relaxed);
	mutex_lock(&g_windows.lock);
	LIST_FOREACH_SAFE (w, &h->windows, link, next) {
		if (w->pins)
			continue;
		unlink_locked(w);
		TAILQ_INSERT_TAIL(&dead, w, lru);
	}
	mutex_unlock(&g_windows.lock);
	while ((w = TAILQ_FIRST(&dead)) != NULL) {
		TAILQ_REMOVE(&dead, w, lru);
		window_free(w);
	}
}

size_t hnode_window_read(struct hnode *h, void *buf, size_t size, int64_t pos)
{
	size_t done = 0;
	struct window *w;

	if (!fits(h, size, pos) || atomic_load_explicit(&h->no_window, memory_order_relaxed))
		return 0;
	while (done < size) {
		uint64_t at = (uint64_t)pos + done;

		mutex_lock(&g_windows.lock);
		w = find_locked(h, at);
		if (w) {
			w->pins++;
			used_locked(w);
		}
		mutex_unlock(&g_windows.lock);
		if (!w)
			break;

		size_t n = MIN(size - done, (size_t)(w->start + w->size - at));
		bool good = fault_copy((char *)buf + done, w->mem + (at - w->start), n) == 0;

		mutex_lock(&g_windows.lock);
		w->pins--;
		mutex_unlock(&g_windows.lock);
		if (!good) {
			/* Where it broke off is no end of the file: let pread tell. */
			give_up(h);
			atomic_thread_fence(memory_order_seq_cst);
			inode_changes(h->inode);
			break;
		}
		done += n;
	}
	return done;
}

ssize_t hnode_window_give(struct hnode *h, struct uio *u, int64_t pos)
{
	struct uio_file file = {.host_fd = h->rfd};
	const size_t size = u->resid;
	struct window *w;
	bool given = false;

	if (!uio_may_give(u) || file.host_fd < 0 || !fits(h, size, pos) ||
	    atomic_load_explicit(&h->no_window, memory_order_relaxed))
		return 0;
	mutex_lock(&g_windows.lock);
	w = find_locked(h, (uint64_t)pos);
	if (w && size <= w->start + w->size - (uint64_t)pos) {
		file.id = w->id;
		file.start = w->start;
		file.size = w->size;
		used_locked(w);
	}
	mutex_unlock(&g_windows.lock);
	if (file.id != 0)
		given = uio_give(u, &file, (uint64_t)pos);
	return given ? (ssize_t)size : 0;
}

bool hnode_window_show(struct hnode *h, int64_t pos, struct file_view *out)
{
	struct window *w;
	uint64_t size;

	if (!fits(h, 1, pos) || atomic_load(&h->no_window))
		return false;
	size = inode_size(h->inode);
	mutex_lock(&g_windows.lock);
	w = find_locked(h, (uint64_t)pos);
	if (w) {
		out->id = w->id;
		out->start = w->start;
		out->end = MIN(size, w->start + w->size);
	}
	mutex_unlock(&g_windows.lock);
	/* What is at the end of a file pread knows better. */
	out->whole = false;
	return w && (uint64_t)pos < out->end;
}

/* Is there room for another window, if need be (@evict) after the oldest went? */
static bool make_room_locked(bool evict, struct window_list *dead)
{
	struct window *w, *next;

	if (!evict)
		return g_windows.count < WINDOWS_MAX;
	TAILQ_FOREACH_SAFE (w, &g_windows.all, lru, next) {
		if (g_windows.count < WINDOWS_MAX)
			break;
		if (w->pins)
			continue;
		unlink_locked(w);
		TAILQ_INSERT_TAIL(dead, w, lru);
	}
	return g_windows.count < WINDOWS_MAX;
}

/* A hint only: races between readers do no harm. */
static bool would_gain(struct hnode *h, size_t size, uint64_t end)
{
	if (size > SMALL_READ && atomic_load_explicit(&h->read_end, memory_order_relaxed) < end) {
		atomic_store_explicit(&h->read_end, end, memory_order_relaxed);
		return false;
	}
	return atomic_fetch_add_explicit(&h->gains, 1, memory_order_relaxed) + 1 >= WINDOW_READS;
}

void hnode_window_offer(struct hnode *h, int fd, size_t size, int64_t pos)
{
	struct window_list dead = TAILQ_HEAD_INITIALIZER(dead);
	uint64_t start = (uint64_t)pos & ~(WINDOW_SIZE - 1);
	struct window *w;

	if (!fits(h, size, pos) || atomic_load_explicit(&h->no_window, memory_order_relaxed) ||
	    !would_gain(h, size, (uint64_t)pos + size))
		return;
	w = mem_zalloc(sizeof(*w));
	if (!w)
		return;
	w->id = host_map_key_new();
	w->h = h;
	w->start = start;
	/* The last page of the file whole. */
	w->size = MIN(WINDOW_SIZE, page_up(known_size(h)) - start);
	w->mem = host_map_part(fd, start, w->size);
	if (!w->mem) {
		mem_free(w);
		atomic_store_explicit(&h->no_window, true, memory_order_relaxed);
		return;
	}
	mutex_lock(&g_windows.lock);
	if (!find_locked(h, start) && make_room_locked(size <= SMALL_READ, &dead)) {
		LIST_INSERT_HEAD(&h->windows, w, link);
		TAILQ_INSERT_TAIL(&g_windows.all, w, lru);
		g_windows.count++;
		w = NULL;
	}
	mutex_unlock(&g_windows.lock);
	window_free(w); /* somebody else was faster */
	while ((w = TAILQ_FIRST(&dead)) != NULL) {
		TAILQ_REMOVE(&dead, w, lru);
		window_free(w);
	}
}

void hnode_windows_fini(struct hnode *h)
{
	if (h->sb->opts.immutable)
		give_up(h);
	/* Who copies holds the inode. */
	BUG_ON(!LIST_EMPTY(&h->windows));
}

unsigned hostfs_windows(void)
{
	mutex_lock(&g_windows.lock);
	unsigned n = g_windows.count;

	mutex_unlock(&g_windows.lock);
	return n;
}
