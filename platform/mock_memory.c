/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest memory of the mock platform. See platform/mock_memory.h.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "platform/host_file.h"
#include "platform/mock_memory.h"

struct mock_file {
	struct ref ref;
	int fd; /* ours */
};

/* The bytes of a private page; shared by copies until one writes. */
struct mock_frame {
	struct ref ref;
	uint8_t bytes[MOAT_PAGE_SIZE];
};

struct mock_page {
	uint64_t number;
	struct mock_frame *frame; /* a reference */
};

/* Atomics on shared areas, whose words several address spaces see. */
static struct mutex g_atomics = MUTEX_INIT(RANK_NONE);

/* --- Files, frames, pages --- */

static struct mock_file *file_new(int fd) /* takes fd */
{
	struct mock_file *f = mem_zalloc(sizeof(*f));

	if (!f) {
		pf_host_file_close(fd);
		return NULL;
	}
	ref_init(&f->ref);
	f->fd = fd;
	return f;
}

static void file_get(struct mock_file *f)
{
	if (f)
		ref_get(&f->ref);
}

static void file_put(struct mock_file *f)
{
	if (f && ref_put(&f->ref)) {
		pf_host_file_close(f->fd);
		mem_free(f);
	}
}

static void frame_put(struct mock_frame *f)
{
	if (ref_put(&f->ref))
		mem_free(f);
}

static bool page_eq(const void *entry, const void *key)
{
	return ((const struct mock_page *)entry)->number == *(const uint64_t *)key;
}

static struct mock_page *page_find(struct mock_mem *m, uint64_t number)
{
	return htable_find(&m->pages, hash_u64(number), page_eq, &number);
}

/* Enters a page for @frame (takes the reference, if it succeeds). */
static int page_add(struct mock_mem *m, uint64_t number, struct mock_frame *frame)
{
	struct mock_page *p = mem_zalloc(sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->number = number;
	p->frame = frame;
	if (htable_insert(&m->pages, hash_u64(number), p) < 0) {
		mem_free(p);
		return -ENOMEM;
	}
	if (m->pages.count > m->peak_pages)
		m->peak_pages = m->pages.count;
	return 0;
}

static void page_drop(struct mock_mem *m, struct mock_page *p)
{
	(void)htable_remove(&m->pages, hash_u64(p->number), p);
	frame_put(p->frame);
	mem_free(p);
}

/* Drops the private pages of a range; walks whichever is fewer. */
static void pages_drop(struct mock_mem *m, uint64_t start, uint64_t end)
{
	const uint64_t first = start / MOAT_PAGE_SIZE, last = end / MOAT_PAGE_SIZE;
	struct mock_page *p;
	size_t pos = 0;

	if (last - first <= m->pages.count) {
		for (uint64_t n = first; n < last; n++) {
			p = page_find(m, n);
			if (p)
				page_drop(m, p);
		}
		return;
	}
	while ((p = htable_next(&m->pages, &pos)) != NULL) {
		if (p->number >= first && p->number < last) {
			page_drop(m, p);
			pos = 0; /* deletion moves entries */
		}
	}
}

/* --- Areas --- */

/* The first area that ends above @addr; area_count if none. */
static size_t area_after(const struct mock_mem *m, uint64_t addr)
{
	size_t lo = 0, hi = m->area_count;

	while (lo < hi) {
		const size_t mid = (lo + hi) / 2;

		if (m->areas[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct mock_area *area_at(struct mock_mem *m, uint64_t addr)
{
	const size_t i = area_after(m, addr);

	return i < m->area_count && m->areas[i].start <= addr ? &m->areas[i] : NULL;
}

static int areas_reserve(struct mock_mem *m, size_t more)
{
	struct mock_area *p;
	size_t room = m->area_room ? m->area_room : 16;

	if (m->area_count + more <= m->area_room)
		return 0;
	while (room < m->area_count + more)
		room *= 2;
	p = mem_realloc(m->areas, room * sizeof(*p));
	if (!p)
		return -ENOMEM;
	m->areas = p;
	m->area_room = room;
	return 0;
}

/* There is room, and the place is free. Takes a->file's reference. */
static void area_insert(struct mock_mem *m, const struct mock_area *a)
{
	const size_t i = area_after(m, a->start);

	memmove(&m->areas[i + 1], &m->areas[i], (m->area_count - i) * sizeof(*a));
	m->areas[i] = *a;
	m->area_count++;
}

/* Makes @addr a border between areas, if it lies inside one. There is room for one more. */
static void area_split(struct mock_mem *m, uint64_t addr)
{
	struct mock_area *a = area_at(m, addr);
	struct mock_area high;

	if (!a || a->start == addr)
		return;
	high = *a;
	high.start = addr;
	high.offset += addr - a->start;
	file_get(high.file);
	a->end = addr;
	area_insert(m, &high);
}

/* Takes all areas of a range away, without their pages. There is room for two more. */
static void areas_remove(struct mock_mem *m, uint64_t start, uint64_t end)
{
	size_t from, to;

	area_split(m, start);
	area_split(m, end);
	from = area_after(m, start);
	for (to = from; to < m->area_count && m->areas[to].start < end; to++)
		file_put(m->areas[to].file);
	memmove(&m->areas[from], &m->areas[to], (m->area_count - to) * sizeof(*m->areas));
	m->area_count -= to - from;
}

/* Is every page of the range in some area? */
static bool is_mapped(struct mock_mem *m, uint64_t start, uint64_t end)
{
	for (size_t i = area_after(m, start); start < end; i++) {
		if (i == m->area_count || m->areas[i].start > start)
			return false;
		start = m->areas[i].end;
	}
	return true;
}

/* --- The address space --- */

void mock_mem_init(struct mock_mem *m)
{
	memset(m, 0, sizeof(*m));
	mutex_init(&m->lock, RANK_LEAF);
	htable_init(&m->pages);
}

void mock_mem_fini(struct mock_mem *m)
{
	struct mock_page *p;
	size_t pos = 0;

	for (size_t i = 0; i < m->area_count; i++)
		file_put(m->areas[i].file);
	while ((p = htable_next(&m->pages, &pos)) != NULL) {
		frame_put(p->frame);
		mem_free(p);
	}
	htable_fini(&m->pages);
	mem_free(m->areas);
	mutex_fini(&m->lock);
}

static int copy_locked(struct mock_mem *from, struct mock_mem *to)
{
	struct mock_page *p;
	size_t pos = 0;
	int r = areas_reserve(to, from->area_count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < from->area_count; i++) {
		file_get(from->areas[i].file);
		to->areas[to->area_count++] = from->areas[i];
	}
	while ((p = htable_next(&from->pages, &pos)) != NULL) {
		ref_get(&p->frame->ref);
		r = page_add(to, p->number, p->frame);
		if (r < 0) {
			frame_put(p->frame);
			return r;
		}
	}
	return 0;
}

int mock_mem_copy(struct mock_mem *from, struct mock_mem *to)
{
	int r;

	/* Nobody else knows @to, so its lock is not needed. */
	mutex_lock(&from->lock);
	r = copy_locked(from, to);
	mutex_unlock(&from->lock);
	if (r < 0) {
		mock_mem_fini(to);
		mock_mem_init(to);
	}
	return r;
}

static int do_map(struct mock_mem *m, const struct map_op *op)
{
	struct mock_area a = {
		.start = op->addr,
		.end = op->addr + op->size,
		.prot = op->prot,
		.shared = (op->flags & MAP_OPF_SHARED) != 0,
	};
	int fd = -1, r;

	if (op->kind == MAP_OP_FILE)
		fd = pf_host_file_dup(op->host_fd);
	else if (a.shared)
		fd = pf_host_file_anonymous(op->size);
	if (fd < 0 && (op->kind == MAP_OP_FILE || a.shared))
		return fd;
	if (fd >= 0) {
		a.file = file_new(fd);
		if (!a.file)
			return -ENOMEM;
		a.offset = op->kind == MAP_OP_FILE ? op->offset : 0;
	}
	r = areas_reserve(m, 3);
	if (r < 0) {
		file_put(a.file);
		return r;
	}
	areas_remove(m, a.start, a.end);
	pages_drop(m, a.start, a.end);
	area_insert(m, &a);
	return 0;
}

static int do_unmap(struct mock_mem *m, uint64_t start, uint64_t end)
{
	int r = areas_reserve(m, 2);

	if (r < 0)
		return r;
	areas_remove(m, start, end);
	pages_drop(m, start, end);
	return 0;
}

static int do_protect(struct mock_mem *m, uint64_t start, uint64_t end, uint32_t prot)
{
	int r;

	if (!is_mapped(m, start, end))
		return -ENOMEM;
	r = areas_reserve(m, 2);
	if (r < 0)
		return r;
	area_split(m, start);
	area_split(m, end);
	for (size_t i = area_after(m, start); i < m->area_count && m->areas[i].start < end; i++)
		m->areas[i].prot = prot;
	return 0;
}

/* Moves the private pages of [from, from + size) to @to, which has none. */
static int move_pages(struct mock_mem *m, uint64_t from, uint64_t to, uint64_t size)
{
	for (uint64_t off = 0; off < size; off += MOAT_PAGE_SIZE) {
		struct mock_page *p = page_find(m, (from + off) / MOAT_PAGE_SIZE);

		if (!p)
			continue;
		(void)htable_remove(&m->pages, hash_u64(p->number), p);
		p->number = (to + off) / MOAT_PAGE_SIZE;
		/* The table was one fuller a moment ago: it has room. */
		if (htable_insert(&m->pages, hash_u64(p->number), p) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int do_remap(struct mock_mem *m, const struct map_op *op)
{
	const uint64_t keep = MIN(op->size, op->new_size);
	const bool move = op->new_addr != op->addr;
	struct mock_area *a = area_at(m, op->addr);
	struct mock_area moved;
	int r;

	if (!a)
		return -EFAULT;
	if (op->size == 0)
		return -EINVAL; /* duplicating a shared area is not asked of a platform */
	if (a->end < op->addr + op->size)
		return -EFAULT; /* spans areas */
	if (move && op->addr < op->new_addr + op->new_size && op->new_addr < op->addr + op->size)
		return -EINVAL;
	if (!move && op->new_size > op->size && a->end != op->addr + op->size)
		return -ENOMEM;
	r = areas_reserve(m, 5);
	if (r < 0)
		return r;
	a = area_at(m, op->addr);
	moved = *a;
	moved.offset += op->addr - a->start;
	moved.start = op->new_addr;
	moved.end = op->new_addr + op->new_size;
	file_get(moved.file);
	if (!move) {
		if (op->new_size > op->size && area_after(m, op->addr + op->size) < m->area_count &&
		    m->areas[area_after(m, op->addr + op->size)].start < moved.end) {
			file_put(moved.file);
			return -ENOMEM; /* no room to grow */
		}
		areas_remove(m, op->addr, op->addr + op->size);
		pages_drop(m, op->addr + keep, op->addr + op->size);
	} else {
		areas_remove(m, moved.start, moved.end);
		pages_drop(m, moved.start, moved.end);
		r = move_pages(m, op->addr, op->new_addr, keep);
		pages_drop(m, op->addr, op->addr + op->size);
		if (!(op->flags & MAP_OPF_DONTUNMAP))
			areas_remove(m, op->addr, op->addr + op->size);
	}
	area_insert(m, &moved);
	return r;
}

static int do_advise(struct mock_mem *m, uint64_t start, uint64_t end, int advice)
{
	if (!is_mapped(m, start, end))
		return -ENOMEM;
	if (advice == MADV_DONTNEED || advice == MADV_FREE)
		pages_drop(m, start, end);
	return 0;
}

int mock_mem_op(struct mock_mem *m, const struct map_op *op)
{
	const uint64_t end = op->addr + op->size;
	int r = -EINVAL;

	mutex_lock(&m->lock);
	switch (op->kind) {
	case MAP_OP_ANON:
	case MAP_OP_FILE:
		r = do_map(m, op);
		break;
	case MAP_OP_UNMAP:
		r = do_unmap(m, op->addr, end);
		break;
	case MAP_OP_PROTECT:
		r = do_protect(m, op->addr, end, op->prot);
		break;
	case MAP_OP_REMAP:
		r = do_remap(m, op);
		break;
	case MAP_OP_ADVISE:
		r = do_advise(m, op->addr, end, op->advice);
		break;
	case MAP_OP_SYNC:
		r = is_mapped(m, op->addr, end) ? 0 : -ENOMEM;
		break;
	}
	mutex_unlock(&m->lock);
	return r;
}

/* --- Access --- */

/* Within one page; 0 or a signal. */
static int file_access(const struct mock_area *a, uint64_t addr, void *buf, size_t size, bool write)
{
	const uint64_t off = a->offset + (addr - a->start);
	const int64_t end = pf_host_file_size(a->file->fd);
	ssize_t n;

	if (end < 0 || page_down(off) >= (uint64_t)end)
		return SIGBUS;
	if (write) {
		/* Bytes of the last page behind the end are memory, but not the file's. */
		if (off < (uint64_t)end)
			(void)pf_host_file_write(a->file->fd, buf, MIN(size, (uint64_t)end - off),
						 off);
		return 0;
	}
	n = pf_host_file_read(a->file->fd, buf, size, off);
	if (n < 0)
		return SIGBUS;
	memset((uint8_t *)buf + n, 0, size - (size_t)n);
	return 0;
}

/* The page of @addr, made writable: ours alone. NULL: *signo. */
static struct mock_page *page_for_write(struct mock_mem *m, const struct mock_area *a,
					uint64_t addr, int *signo)
{
	struct mock_page *p = page_find(m, addr / MOAT_PAGE_SIZE);
	struct mock_frame *f;

	*signo = SIGBUS; /* no memory */
	/* Acquire: who dropped its share has read it before. */
	if (p && atomic_load_explicit(&p->frame->ref.count, memory_order_acquire) == 1)
		return p;
	f = mem_zalloc(sizeof(*f));
	if (!f)
		return NULL;
	ref_init(&f->ref);
	if (p) {
		memcpy(f->bytes, p->frame->bytes, sizeof(f->bytes));
		frame_put(p->frame);
		p->frame = f;
		return p;
	}
	if (a->file) {
		*signo = file_access(a, page_down(addr), f->bytes, sizeof(f->bytes), false);
		if (*signo) {
			frame_put(f);
			return NULL;
		}
	}
	if (page_add(m, addr / MOAT_PAGE_SIZE, f) < 0) {
		frame_put(f);
		*signo = SIGBUS;
		return NULL;
	}
	return page_find(m, addr / MOAT_PAGE_SIZE);
}

/* Within one page; 0 or a signal and *code. */
static int access_page(struct mock_mem *m, uint64_t addr, void *buf, size_t size,
		       enum mock_access how, int *code)
{
	const struct mock_area *a = area_at(m, addr);
	const size_t in_page = addr % MOAT_PAGE_SIZE;
	struct mock_page *p;
	int signo;

	*code = SEGV_MAPERR;
	if (!a)
		return SIGSEGV;
	*code = SEGV_ACCERR;
	if (!(how & MOCK_FORCE)) {
		/* On x86 what can be written or executed can be read. */
		if ((how & MOCK_WRITE) ? !(a->prot & PROT_WRITE) : a->prot == PROT_NONE)
			return SIGSEGV;
		if ((how & MOCK_EXEC) && !(a->prot & PROT_EXEC))
			return SIGSEGV;
	}
	*code = BUS_ADRERR;
	if (a->shared)
		return file_access(a, addr, buf, size, (how & MOCK_WRITE) != 0);
	if (how & MOCK_WRITE) {
		p = page_for_write(m, a, addr, &signo);
		if (!p)
			return signo;
		memcpy(p->frame->bytes + in_page, buf, size);
		return 0;
	}
	p = page_find(m, addr / MOAT_PAGE_SIZE);
	if (p)
		memcpy(buf, p->frame->bytes + in_page, size);
	else if (a->file)
		return file_access(a, addr, buf, size, false);
	else
		memset(buf, 0, size);
	return 0;
}

static size_t access_locked(struct mock_mem *m, uint64_t addr, void *buf, size_t size,
			    enum mock_access how, struct mock_memfault *fault)
{
	size_t done = 0;

	while (done < size) {
		const size_t n = MIN(size - done, MOAT_PAGE_SIZE - (addr + done) % MOAT_PAGE_SIZE);
		int code = SEGV_MAPERR;
		const int signo =
			addr + done >= PF_GUEST_LIMIT
				? SIGSEGV
				: access_page(m, addr + done, (uint8_t *)buf + done, n, how, &code);

		if (signo) {
			if (fault)
				*fault = (struct mock_memfault){signo, code, addr + done};
			break;
		}
		done += n;
	}
	return done;
}

size_t mock_mem_access(struct mock_mem *m, uint64_t addr, void *buf, size_t size,
		       enum mock_access how, struct mock_memfault *fault)
{
	size_t n;

	mutex_lock(&m->lock);
	n = access_locked(m, addr, buf, size, how, fault);
	mutex_unlock(&m->lock);
	return n;
}

static uint32_t apply(enum atomic_op op, uint32_t old, uint32_t arg, uint32_t cmp)
{
	switch (op) {
	case ATOMIC_CMPXCHG:
		return old == cmp ? arg : old;
	case ATOMIC_XCHG:
		return arg;
	case ATOMIC_ADD:
		return old + arg;
	case ATOMIC_OR:
		return old | arg;
	case ATOMIC_ANDN:
		return old & ~arg;
	case ATOMIC_XOR:
		return old ^ arg;
	}
	return old;
}

int mock_mem_atomic32(struct mock_mem *m, uint64_t addr, enum atomic_op op, uint32_t arg,
		      uint32_t cmp, uint32_t *old, struct mock_memfault *fault)
{
	uint32_t word = 0;
	bool ok;

	mutex_lock(&m->lock);
	mutex_lock(&g_atomics);
	ok = access_locked(m, addr, &word, sizeof(word), MOCK_READ, fault) == sizeof(word);
	*old = word;
	word = apply(op, word, arg, cmp);
	/* A locked instruction writes in any case: a read-only word faults. */
	ok = ok && access_locked(m, addr, &word, sizeof(word), MOCK_WRITE, fault) == sizeof(word);
	mutex_unlock(&g_atomics);
	mutex_unlock(&m->lock);
	return ok ? 0 : -EFAULT;
}

void mock_mem_resident(struct mock_mem *m, uint64_t addr, size_t pages, uint8_t *vec)
{
	mutex_lock(&m->lock);
	for (size_t i = 0; i < pages; i++) {
		const struct mock_area *a = area_at(m, addr + i * MOAT_PAGE_SIZE);

		if (page_find(m, addr / MOAT_PAGE_SIZE + i))
			vec[i] = PF_PAGE_THERE;
		else
			vec[i] = a && a->file ? PF_PAGE_THERE | PF_PAGE_FILE : 0;
	}
	mutex_unlock(&m->lock);
}

void mock_mem_stats(struct mock_mem *m, struct pf_mem_stats *out)
{
	mutex_lock(&m->lock);
	out->rss_bytes = m->pages.count * MOAT_PAGE_SIZE;
	out->peak_rss_bytes = m->peak_pages * MOAT_PAGE_SIZE;
	out->shared_bytes = 0;
	mutex_unlock(&m->lock);
}
