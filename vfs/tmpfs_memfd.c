/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of a file in memory, as a host memfd. See tmpfs_node.h; tmpfs_data.c has the other
 * form.
 *
 * Theory of operation: a file becomes a memfd when a guest maps it (so that mappings and read/write
 * agree: they are the same pages) or when it is big. The sentry reads and writes through a
 * *window*, a shared mapping of the first bytes of the memfd that grows by doubling up to
 * WINDOW_MAX; what lies beyond goes by pread and pwrite.
 *
 * SIGBUS: the window may be longer than the memfd, so nothing beyond host_size is ever touched
 * through it. Only functions that hold d->lock for writing shrink the memfd, and all that touch the
 * window hold it at least for reading. Guests have no host call that could shrink it.
 *
 * Size: host_size is whole pages, so a guest that maps beyond the end of the file gets SIGBUS where
 * Linux would give it; a file that nobody ever mapped has its memfd sized ahead to save calls. What
 * a guest writes through a mapping between the end of the file and the end of its page is zeroed
 * when the file grows.
 *
 * Holes: reading a hole through the window would make the host allocate it. Files that may have
 * holes (d->holes) are read by pread, which does not.
 *
 * Charge: pages that the sentry makes are charged before. Pages that a guest makes by touching a
 * mapping cannot be; they are found at the next stat of the file (recharge), when used may pass the
 * limit of the file system: then everything else fails with ENOSPC until there is room.
 *
 * Views: a file of which much was read may be mapped by its readers, read-only, in place of copies
 * (uio_give). They see what others write and cut off at once, as by mmap, and may go on to see it
 * when they have closed the file, as with mmap; when the file goes, what they see does. They may
 * touch pages that are not there, as by mmap: in holes made later, since the memfd ends where the
 * file does from then on. These are found as such are, and until then reckoned with.
 *
 * Locking: d->lock, by the callers. Who was given a view to map maps it without the lock, since
 * that may take a guest's time; d->giving keeps the memfd meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "vfs/host_calls.h"
#include "vfs/shown.h"
#include "vfs/tmpfs_node.h"

#define WINDOW_MIN ((uint64_t)256 << 10)
#define WINDOW_MAX ((uint64_t)1 << 30)
#define AHEAD_MAX ((uint64_t)16 << 20)
#define CHUNK ((uint64_t)64 << 10)
#define PIECE ((uint64_t)1 << 20)
#define FALLOCATE_PIECE ((uint64_t)64 << 20)
/* So many pages that are not there yet are better made by pwrite than by faults on the window: 2.7
 * against 1.2 GB/s (256 MB, EPT), one alone 1.6 against 3.2 us. */
#define FAULTS_MAX 1
/* Of the 20,000 descriptors that are usual files may take so many for being big, of fewer the same
 * part; mappings may take more. */
#define BIG_FILES_MAX 4000
#define BIG_FILES_PART 5

/* Readers map it by parts of this size, which have ids of their own, unlike all of
 * host_map_key_new(). It costs some 60 us until they can: when so much was copied. */
#define VIEW_SIZE ((uint64_t)1 << 20)
#define VIEW_PARTS_BITS 20
#define VIEW_IDS ((uint64_t)1 << 63)
#define VIEW_WEIGHT ((uint64_t)512 << 10)

static _Atomic unsigned g_memfds;
static unsigned g_big_files_max = BIG_FILES_MAX;

void tmpfs_set_descriptors(uint64_t count)
{
	g_big_files_max = (unsigned)MIN(count / BIG_FILES_PART, (uint64_t)BIG_FILES_MAX);
}

bool tmpfs_memfd_room(void)
{
	return atomic_load_explicit(&g_memfds, memory_order_relaxed) < g_big_files_max;
}

/* Those that guests have mapped, and may fill without a word to us. */
static TAILQ_HEAD(,
		  tmpfs_data) g_exposed = TAILQ_HEAD_INITIALIZER(g_exposed); /* [g_exposed_lock] */
static struct mutex g_exposed_lock = MUTEX_INIT(RANK_LEAF);

uint64_t tmpfs_bytes_found(void)
{
	struct tmpfs_data *d;
	uint64_t found = 0;

	mutex_lock(&g_exposed_lock);
	TAILQ_FOREACH (d, &g_exposed, exposed) {
		const uint64_t charged = __atomic_load_n(&d->charged, __ATOMIC_RELAXED);
		struct host_stat st;

		if (host_stat_fd(d->memfd, &st) < 0)
			continue;
		const uint64_t now = st.blocks / (MOAT_PAGE_SIZE / 512);

		found += now > charged ? now - charged : 0;
	}
	mutex_unlock(&g_exposed_lock);
	return found << PAGE_SHIFT;
}

/* Who has a view may look where nothing is, and then something is: that is reckoned with as what
 * guests have mapped. */
static void reckon(struct tmpfs_data *d)
{
	const uint64_t there = d->charged << PAGE_SHIFT;
	const uint64_t could =
		d->view_id && d->holes && d->host_size > there ? d->host_size - there : 0;

	if (could != d->reckoned)
		memory_mapped(could - d->reckoned, could > d->reckoned);
	d->reckoned = could;
}

void tmpfs_memfd_fini(struct tmpfs_data *d)
{
	if (d->listed) {
		mutex_lock(&g_exposed_lock);
		TAILQ_REMOVE(&g_exposed, d, exposed);
		mutex_unlock(&g_exposed_lock);
	}
	host_map_key_gone(d->key);
	/* Views stay mapped in those who read it: the memory shall not. */
	if (d->view_id)
		(void)!host_truncate(d->memfd, 0);
	if (d->window)
		host_unmap(d->window, d->window_size);
	host_close(d->memfd);
	atomic_fetch_sub_explicit(&g_memfds, 1, memory_order_relaxed);
	d->memfd = -1;
	d->window = NULL;
	d->window_size = d->host_size = d->key = d->view_id = 0;
	d->mapped = d->holes = d->listed = false;
	reckon(d);
}

/* The memfd has at least @size bytes afterwards. */
static int host_grow(struct tmpfs_data *d, uint64_t size)
{
	uint64_t want = page_up(size);

	if (want <= d->host_size)
		return 0;
	if (!d->mapped && !d->view_id)
		want = MIN(MAX(want, want + MIN(want, AHEAD_MAX)), TMPFS_MAX_SIZE);
	int r = host_truncate(d->memfd, want);

	if (r < 0)
		return r == -EINVAL ? -EFBIG : r;
	d->host_size = want;
	return 0;
}

/* Is [0, end) in the window, growing it if that can be done? end <= host_size. */
static bool window_covers(struct tmpfs_data *d, uint64_t end)
{
	if (end <= d->window_size)
		return true;
	if (end > WINDOW_MAX)
		return false;
	uint64_t want = MAX(WINDOW_MIN, d->window_size);

	while (want < end)
		want *= 2;
	uint8_t *w = host_map(d->memfd, want, true);

	if (!w)
		return false;
	if (d->window)
		host_unmap(d->window, d->window_size);
	d->window = w;
	d->window_size = want;
	return true;
}

static int memfd_open(struct tmpfs_data *d)
{
	int fd = host_memfd("moat");

	if (fd < 0)
		return fd;
	atomic_fetch_add_explicit(&g_memfds, 1, memory_order_relaxed);
	d->memfd = fd;
	return 0;
}

int tmpfs_data_init_memfd(struct tmpfs_data *d, uint64_t size)
{
	int r = memfd_open(d);

	if (r < 0)
		return r;
	d->holes = d->mapped = true;
	r = host_grow(d, size);
	if (r < 0) {
		tmpfs_memfd_fini(d);
		return r;
	}
	d->size = size;
	return 0;
}

int tmpfs_data_promote(struct tmpfs_data *d)
{
	uint64_t i = 0, expected = 0;
	const void *page;
	int r;

	if (d->memfd >= 0)
		return 0;
	r = memfd_open(d);
	if (r < 0)
		return r;
	r = host_grow(d, d->size);
	/* Pages beyond the size (fallocate with KEEP_SIZE) too. */
	for (; r == 0 && (page = page_tree_next(&d->tree, &i)); i++) {
		uint64_t at = i << PAGE_SHIFT;

		if (i != expected)
			d->holes = true;
		expected = i + 1;
		r = host_grow(d, at + MOAT_PAGE_SIZE);
		if (r < 0)
			break;
		if (window_covers(d, at + MOAT_PAGE_SIZE)) {
			memcpy(d->window + at, page, MOAT_PAGE_SIZE);
		} else {
			ssize_t n = host_pwrite(d->memfd, page, MOAT_PAGE_SIZE, (int64_t)at);

			if (n != (ssize_t)MOAT_PAGE_SIZE)
				r = n < 0 ? (int)n : -ENOMEM;
		}
	}
	if (r < 0) {
		tmpfs_memfd_fini(d);
		return r;
	}
	if (expected != page_up(d->size) >> PAGE_SHIFT)
		d->holes = true;
	page_tree_free_range(&d->tree, 0, UINT64_MAX);
	return 0;
}

/* Reading may not grow the window (others read at the same time), so it uses what is there. */
ssize_t tmpfs_memfd_read(struct tmpfs_data *d, struct uio *u, uint64_t pos, uint64_t len)
{
	ssize_t done = 0;
	uint8_t *buf = NULL;

	while (len) {
		uint64_t n;
		ssize_t r;

		if (!d->holes && pos < d->window_size) {
			n = MIN(len, d->window_size - pos);
			r = uio_put(u, d->window + pos, n);
		} else {
			n = MIN(len, CHUNK);
			if (!buf)
				buf = mem_zalloc(MIN(len, CHUNK));
			r = buf ? host_pread(d->memfd, buf, n, (int64_t)pos, UINT64_MAX, NULL)
				: -ENOMEM;
			if (r >= 0 && (uint64_t)r < n) /* the memfd is longer than the file */
				r = -EIO;
			if (r > 0)
				r = uio_put(u, buf, n);
		}
		if (r < 0) {
			if (!done)
				done = r;
			break;
		}
		done += r;
		pos += (uint64_t)r;
		len -= (uint64_t)r;
		if ((uint64_t)r < n)
			break;
	}
	mem_free(buf);
	return done;
}

/* How many pages within [off, end) are not there. end may be beyond the memfd. */
static uint64_t count_missing(struct tmpfs_data *d, uint64_t off, uint64_t end)
{
	uint64_t missing = 0, at = page_down(off);

	end = page_up(end);
	if (!d->holes) {
		/* Everything up to the size is there, nothing behind it: truncate and growth keep
		 * it so. */
		uint64_t have = page_up(d->size);

		return end > have ? (end - MAX(at, have)) >> PAGE_SHIFT : 0;
	}
	while (at < end) {
		int64_t data =
			at < d->host_size ? host_lseek(d->memfd, (int64_t)at, SEEK_DATA) : -ENXIO;
		uint64_t next = data < 0 ? end : MIN(page_down((uint64_t)data), end);

		missing += (next - at) >> PAGE_SHIFT;
		at = next;
		if (at >= end)
			break;
		int64_t hole = host_lseek(d->memfd, (int64_t)at, SEEK_HOLE);

		at = hole < 0 ? end : MAX(page_up((uint64_t)hole), at + MOAT_PAGE_SIZE);
	}
	return missing;
}

/* What was written to mappings between the old end and the end of its page must not show up. */
static void zero_tail(struct tmpfs_data *d)
{
	uint64_t tail = page_up(d->size) - d->size;
	static const uint8_t zeros[MOAT_PAGE_SIZE];

	if (!tail || !d->mapped)
		return;
	int64_t at = (int64_t)page_down(d->size);

	if (d->holes && host_lseek(d->memfd, at, SEEK_DATA) != at)
		return;
	(void)!host_pwrite(d->memfd, zeros, tail, (int64_t)d->size);
}

/* One piece of a write: [pos, pos + *n), which it may make smaller. Bytes moved, short at a fault.
 */
static ssize_t write_piece(struct tmpfs_data *d, struct uio *u, uint64_t pos, uint64_t *len,
			   uint8_t **buf)
{
	uint64_t n = *len, missing = count_missing(d, pos, pos + n);
	bool by_call = !window_covers(d, pos + n) || missing >= FAULTS_MAX;
	ssize_t r;

	if (by_call && n > CHUNK) {
		n = *len = CHUNK;
		missing = count_missing(d, pos, pos + n);
	}

	if (missing && !tmpfs_charge(d->sb, missing))
		return -ENOSPC;
	r = host_grow(d, pos + n);
	if (r < 0) {
		tmpfs_uncharge(d->sb, missing);
		return r;
	}
	d->charged += missing;
	if (pos > d->size) {
		zero_tail(d);
		if (page_down(pos) > page_up(d->size))
			d->holes = true;
	} else if (pos + n > d->size) {
		zero_tail(d);
	}
	if (!by_call) {
		r = uio_get(u, d->window + pos, n);
	} else {
		if (!*buf)
			*buf = mem_realloc(NULL, CHUNK);
		r = *buf ? uio_get(u, *buf, n) : -ENOMEM;
		if (r > 0) {
			ssize_t put = host_pwrite(d->memfd, *buf, (size_t)r, (int64_t)pos);

			if (put != r)
				r = put < 0 ? put : -EIO;
		}
	}
	if (r > 0 && pos + (uint64_t)r > d->size)
		d->size = pos + (uint64_t)r;
	if (r < (ssize_t)n) {
		/* Whatever was made beyond what came: count again what is there, and keep the tail
		 * clean. */
		d->holes = true;
		if (pos + n > d->size)
			(void)!host_fallocate(d->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					      (int64_t)d->size,
					      (int64_t)(page_up(pos + n) - d->size));
		tmpfs_memfd_recharge(d);
	}
	return r;
}

ssize_t tmpfs_memfd_write(struct tmpfs_data *d, struct uio *u, uint64_t pos)
{
	ssize_t done = 0;
	uint8_t *buf = NULL;

	while (u->resid && pos < TMPFS_MAX_SIZE) {
		/* Pieces end at piece boundaries; one page at a time when room gets short. */
		uint64_t n = MIN(MIN(u->resid, PIECE - (pos & (PIECE - 1))), TMPFS_MAX_SIZE - pos);
		ssize_t r;

		r = write_piece(d, u, pos, &n, &buf);
		if (r == -ENOSPC && n > MOAT_PAGE_SIZE - (pos & (MOAT_PAGE_SIZE - 1))) {
			n = MOAT_PAGE_SIZE - (pos & (MOAT_PAGE_SIZE - 1));
			r = write_piece(d, u, pos, &n, &buf);
		}
		if (r <= 0) {
			if (!done)
				done = r;
			break;
		}
		done += r;
		pos += (uint64_t)r;
		if ((uint64_t)r < n)
			break;
	}
	mem_free(buf);
	reckon(d);
	return done;
}

int tmpfs_memfd_truncate(struct tmpfs_data *d, uint64_t size)
{
	int r;

	if (size >= d->size) {
		r = host_grow(d, size);
		if (r < 0)
			return r;
		zero_tail(d);
		if (page_up(size) > page_up(d->size))
			d->holes = true;
		/* fallocate(KEEP_SIZE) may have made pages beyond the end; Linux keeps them here.
		 */
		reckon(d);
		return 0;
	}
	/* Down to the exact size and up to the page again: the host zeroes the tail, frees the
	 * rest, and unmaps it from every guest. */
	r = host_truncate(d->memfd, size);
	if (r < 0)
		return r;
	/* Should that fail, the next growth does it. */
	r = host_truncate(d->memfd, page_up(size));
	d->host_size = r < 0 ? page_down(size) : page_up(size);
	tmpfs_memfd_recharge(d);
	return 0;
}

void tmpfs_memfd_recharge(struct tmpfs_data *d)
{
	struct host_stat st;

	if (host_stat_fd(d->memfd, &st) < 0)
		return;
	uint64_t now = st.blocks / (MOAT_PAGE_SIZE / 512);

	if (now > d->charged)
		tmpfs_charge_found(d->sb, now - d->charged);
	else
		tmpfs_uncharge(d->sb, d->charged - now);
	d->charged = now;
	reckon(d);
}

int64_t tmpfs_memfd_seek(struct tmpfs_data *d, int64_t off, int whence)
{
	int64_t r = host_lseek(d->memfd, off, whence);

	if (r < 0)
		return whence == SEEK_HOLE && r == -ENXIO ? (int64_t)d->size : r;
	if ((uint64_t)r >= d->size)
		return whence == SEEK_DATA ? -ENXIO : (int64_t)d->size;
	return r;
}

/* Copies [from, from + len) to @to, which may overlap it, holes as holes. All page-aligned but the
 * length. */
static int move_bytes(struct tmpfs_data *d, uint64_t from, uint64_t to, uint64_t len)
{
	uint8_t *buf = mem_zalloc(CHUNK);
	bool down = to < from;
	uint64_t done = 0;
	int r = buf ? 0 : -ENOMEM;

	while (r == 0 && done < len) {
		uint64_t n = MIN(len - done, CHUNK);
		uint64_t at = down ? done : (len - done >= CHUNK ? len - done - CHUNK : 0);
		int64_t data = host_lseek(d->memfd, (int64_t)(from + at), SEEK_DATA);

		if (data < 0 || (uint64_t)data >= from + at + n) {
			r = host_fallocate(d->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					   (int64_t)(to + at), (int64_t)page_up(n));
		} else {
			ssize_t got = host_pread(d->memfd, buf, n, (int64_t)(from + at), UINT64_MAX,
						 NULL);

			if (got == (ssize_t)n)
				got = host_pwrite(d->memfd, buf, n, (int64_t)(to + at));
			r = got == (ssize_t)n ? 0 : got < 0 ? (int)got : -EIO;
		}
		done += n;
	}
	mem_free(buf);
	return r;
}

/* Gigabytes take seconds: a piece at a time, so that a signal can end it, as Linux lets it. */
static int make_pages(struct tmpfs_data *d, uint64_t off, uint64_t end)
{
	int r = 0;

	while (r == 0 && off < end) {
		uint64_t n = MIN(end - off, FALLOCATE_PIECE);

		r = host_fallocate_wait(d->memfd, FALLOC_FL_KEEP_SIZE, (int64_t)off, (int64_t)n);
		off += n;
		if (r == 0 && off < end && g_vfs_hooks->interrupted())
			r = -EINTR;
	}
	return r;
}

int tmpfs_memfd_fallocate(struct tmpfs_data *d, int mode, uint64_t off, uint64_t len)
{
	const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	uint64_t end = off + len, missing;
	int r = 0;

	switch (mode & ~TMPFS_FALLOC_KEEP_SIZE) {
	case 0:
	case TMPFS_FALLOC_ZERO:
		missing = count_missing(d, off, end);
		if (missing && !tmpfs_charge(d->sb, missing))
			return -ENOSPC;
		d->charged += missing;
		/* Beyond the size there may be pages from now on, before it there may be holes. */
		if (page_up(end) > page_up(d->size) &&
		    ((mode & TMPFS_FALLOC_KEEP_SIZE) || page_down(off) > page_up(d->size)))
			d->holes = true;
		/* Room in the memfd even with KEEP_SIZE: the size that guests see is ours, but a
		 * mapping would then not end where it should, so what is mapped keeps its exact
		 * size and gets no pages beyond. */
		if (d->mapped && (mode & TMPFS_FALLOC_KEEP_SIZE))
			end = MIN(end, page_up(d->size));
		if (end > d->size)
			zero_tail(d);
		if (end > off)
			r = host_grow(d, end);
		if (r == 0 && end > off && (mode & TMPFS_FALLOC_ZERO))
			r = host_fallocate(d->memfd, punch, (int64_t)off, (int64_t)(end - off));
		if (r == 0 && end > off)
			r = make_pages(d, off, end);
		tmpfs_memfd_recharge(d);
		return r;
	case TMPFS_FALLOC_PUNCH_HOLE:
		d->holes = true;
		off = MIN(off, d->host_size);
		end = MIN(end, d->host_size);
		if (end > off)
			r = host_fallocate(d->memfd, punch, (int64_t)off, (int64_t)(end - off));
		tmpfs_memfd_recharge(d);
		return r;
	case TMPFS_FALLOC_COLLAPSE:
		d->holes = true;
		r = move_bytes(d, end, off, d->size - end);
		if (r == 0)
			r = tmpfs_memfd_truncate(d, d->size - len);
		return r;
	case TMPFS_FALLOC_INSERT:
		d->holes = true;
		r = host_grow(d, d->size + len);
		if (r == 0)
			r = move_bytes(d, off, off + len, d->size - off);
		if (r == 0)
			r = host_fallocate(d->memfd, punch, (int64_t)off, (int64_t)len);
		tmpfs_memfd_recharge(d);
		return r;
	default:
		return -EOPNOTSUPP;
	}
}

static void expose(struct tmpfs_data *d)
{
	if (d->listed)
		return;
	mutex_lock(&g_exposed_lock);
	TAILQ_INSERT_TAIL(&g_exposed, d, exposed);
	mutex_unlock(&g_exposed_lock);
	d->listed = true;
}

bool tmpfs_data_note_copy(struct tmpfs_data *d, uint64_t size)
{
	return atomic_fetch_add_explicit(&d->copied, size, memory_order_relaxed) + size >=
		       VIEW_WEIGHT &&
	       !d->view_id;
}

void tmpfs_data_offer(struct tmpfs_data *d)
{
	/* Not to be asked at every read from now on. */
	atomic_store_explicit(&d->copied, 0, memory_order_relaxed);
	if (d->view_id || d->holes)
		return;
	if (d->memfd < 0 && (d->tree.count != page_up(d->size) >> PAGE_SHIFT ||
			     !tmpfs_memfd_room() || tmpfs_data_promote(d) < 0))
		return;
	if (d->host_size != page_up(d->size)) {
		if (host_truncate(d->memfd, page_up(d->size)) < 0)
			return;
		d->host_size = page_up(d->size);
	}
	expose(d);
	d->view_id = VIEW_IDS | host_map_key_new() << VIEW_PARTS_BITS;
}

bool tmpfs_data_view(struct tmpfs_data *d, uint64_t pos, uint64_t size, struct uio_file *file)
{
	const uint64_t part = pos / VIEW_SIZE;

	if (!d->view_id || d->holes || part >> VIEW_PARTS_BITS ||
	    (pos + size - 1) / VIEW_SIZE != part)
		return false;
	*file = (struct uio_file){.id = d->view_id + part,
				  .host_fd = d->memfd,
				  .start = part * VIEW_SIZE,
				  .size = VIEW_SIZE};
	atomic_fetch_add(&d->giving, 1);
	return true;
}

bool tmpfs_data_show(const struct tmpfs_data *d, uint64_t pos, struct file_view *out)
{
	const uint64_t part = pos / VIEW_SIZE;

	if (!d->view_id || d->holes || part >> VIEW_PARTS_BITS || pos >= d->size)
		return false;
	out->id = d->view_id + part;
	out->start = part * VIEW_SIZE;
	out->end = MIN(d->size, out->start + VIEW_SIZE);
	out->whole = out->end == d->size;
	return true;
}

int tmpfs_data_map(struct tmpfs_data *d, struct file_map *m)
{
	int r = tmpfs_data_promote(d);

	if (r < 0)
		return r;
	if (!d->mapped) {
		/* From now on the end of the memfd is the end of the file: no slack, no pages
		 * behind it. */
		if (d->host_size != page_up(d->size)) {
			r = host_truncate(d->memfd, page_up(d->size));
			if (r < 0)
				return r;
			d->host_size = page_up(d->size);
			tmpfs_memfd_recharge(d);
		}
		d->mapped = true;
	}
	expose(d);
	if (!d->key)
		d->key = host_map_key_new();
	m->host_fd = d->memfd;
	m->counted = true;
	m->host_offset = m->offset;
	m->key = d->key;
	return 0;
}
