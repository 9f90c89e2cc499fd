/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptor tables.
 *
 * Theory of operation: slots hold pointers to files; a bitmap says which descriptors are taken (a
 * reserved one is taken and its slot is NULL), a second level which words of it are full, and
 * next_free is a descriptor below which none is free: so the lowest free one is found in a few
 * steps even among a million.
 *
 * fd_get is on the path of each system call, and takes no lock: it reads the slot, tries to take a
 * reference, and looks whether the slot (in the same array) still says the same. That is safe
 * because memory of files is never unmapped or used for anything else (vfs/file.c), and because
 * arrays that were outgrown are kept until the table dies: as they double, all of them together are
 * smaller than the last. Why it is right: when the second look sees the same array and the same
 * pointer, there was a moment between both looks at which the descriptor named that file, while we
 * had the reference already.
 *
 * Locking: table->lock (RANK_FDTABLE) guards all changes. Files are put after it is released.
 */
#include <errno.h>
#include <string.h>
#include "vfs/flock.h"
#include "vfs/shown.h"
#include "vfs/vfs.h"

#define FD_MAX (1u << 20) /* fs.nr_open */
#define FD_FIRST_CAPACITY 64u
#define WORD_BITS 64u
#define WORDS(n) (((n) + WORD_BITS - 1) / WORD_BITS)

struct fd_array {
	struct fd_array *older; /* outgrown */
	unsigned capacity;
	_Atomic(struct file *) slot[];
};

struct fdtable {
	struct ref ref;
	struct mutex lock;
	_Atomic(struct fd_array *) array; /* changed under [lock] */
	uint64_t *taken;                  /* [lock] capacity bits */
	uint64_t *cloexec;                /* [lock] capacity bits */
	uint64_t *full;                   /* [lock] a bit for each word of taken */
	unsigned next_free;               /* [lock] none below is free */
};

static bool bit_test(const uint64_t *map, unsigned i)
{
	return (map[i / WORD_BITS] >> (i % WORD_BITS)) & 1;
}

static void bit_set(uint64_t *map, unsigned i)
{
	map[i / WORD_BITS] |= UINT64_C(1) << (i % WORD_BITS);
}

static void bit_clear(uint64_t *map, unsigned i)
{
	map[i / WORD_BITS] &= ~(UINT64_C(1) << (i % WORD_BITS));
}

/* The first bit at or after @from, below @end, that is @value; @end if there is none. */
static unsigned bit_find(const uint64_t *map, unsigned from, unsigned end, bool value)
{
	while (from < end) {
		uint64_t w = map[from / WORD_BITS];

		w = (value ? w : ~w) >> (from % WORD_BITS);
		if (w)
			return MIN(from + (unsigned)__builtin_ctzll(w), end);
		from = (from / WORD_BITS + 1) * WORD_BITS;
	}
	return end;
}

static struct fd_array *array_new(unsigned capacity)
{
	struct fd_array *a = mem_zalloc(sizeof(*a) + capacity * sizeof(a->slot[0]));

	if (a)
		a->capacity = capacity;
	return a;
}

static struct fdtable *table_alloc(unsigned capacity)
{
	struct fdtable *t = mem_zalloc(sizeof(*t));
	struct fd_array *a = array_new(capacity);

	if (t) {
		t->taken = mem_calloc(WORDS(capacity), sizeof(uint64_t));
		t->cloexec = mem_calloc(WORDS(capacity), sizeof(uint64_t));
		t->full = mem_calloc(WORDS(WORDS(capacity)), sizeof(uint64_t));
	}
	if (!t || !a || !t->taken || !t->cloexec || !t->full) {
		if (t) {
			mem_free(t->taken);
			mem_free(t->cloexec);
			mem_free(t->full);
		}
		mem_free(a);
		mem_free(t);
		return NULL;
	}
	ref_init(&t->ref);
	mutex_init(&t->lock, RANK_FDTABLE);
	atomic_init(&t->array, a);
	return t;
}

static struct fd_array *array_of_locked(struct fdtable *t) REQUIRES(t->lock)
{
	return atomic_load_explicit(&t->array, memory_order_relaxed);
}

static struct file *slot_locked(struct fdtable *t, unsigned fd) REQUIRES(t->lock)
{
	return atomic_load_explicit(&array_of_locked(t)->slot[fd], memory_order_relaxed);
}

static void set_slot_locked(struct fdtable *t, unsigned fd, struct file *f) REQUIRES(t->lock)
{
	const struct file *old = slot_locked(t, fd);

	if (old)
		inode_changes(old->inode);
	atomic_store_explicit(&array_of_locked(t)->slot[fd], f, memory_order_release);
}

static void take_locked(struct fdtable *t, unsigned fd) REQUIRES(t->lock)
{
	bit_set(t->taken, fd);
	if (t->taken[fd / WORD_BITS] == UINT64_MAX)
		bit_set(t->full, fd / WORD_BITS);
}

static void give_back_locked(struct fdtable *t, unsigned fd) REQUIRES(t->lock)
{
	bit_clear(t->taken, fd);
	bit_clear(t->full, fd / WORD_BITS);
	bit_clear(t->cloexec, fd);
	if (fd < t->next_free)
		t->next_free = fd;
}

static void set_cloexec_locked(struct fdtable *t, unsigned fd, unsigned fdflags) REQUIRES(t->lock)
{
	if (fdflags & FD_CLOEXEC_FLAG)
		bit_set(t->cloexec, fd);
	else
		bit_clear(t->cloexec, fd);
}

struct fdtable *fdtable_new(void)
{
	return table_alloc(FD_FIRST_CAPACITY);
}

struct fdtable *fdtable_get(struct fdtable *t)
{
	ref_get(&t->ref);
	return t;
}

bool fdtable_shared(struct fdtable *t)
{
	return ref_read(&t->ref) > 1;
}

unsigned fdtable_capacity(struct fdtable *t)
{
	return atomic_load_explicit(&t->array, memory_order_acquire)->capacity;
}

/* Makes room for descriptor @fd (below FD_MAX). */
static int grow_locked(struct fdtable *t, unsigned fd) REQUIRES(t->lock)
{
	struct fd_array *old = array_of_locked(t);
	unsigned capacity = old->capacity;

	if (fd < capacity)
		return 0;
	while (capacity <= fd)
		capacity *= 2;

	struct fd_array *a = array_new(capacity);
	uint64_t *taken = mem_calloc(WORDS(capacity), sizeof(uint64_t));
	uint64_t *cloexec = mem_calloc(WORDS(capacity), sizeof(uint64_t));
	uint64_t *full = mem_calloc(WORDS(WORDS(capacity)), sizeof(uint64_t));

	if (!a || !taken || !cloexec || !full) {
		mem_free(a);
		mem_free(taken);
		mem_free(cloexec);
		mem_free(full);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < old->capacity; i++)
		atomic_init(&a->slot[i], atomic_load_explicit(&old->slot[i], memory_order_relaxed));
	memcpy(taken, t->taken, WORDS(old->capacity) * sizeof(uint64_t));
	memcpy(cloexec, t->cloexec, WORDS(old->capacity) * sizeof(uint64_t));
	memcpy(full, t->full, WORDS(WORDS(old->capacity)) * sizeof(uint64_t));
	mem_free(t->taken);
	mem_free(t->cloexec);
	mem_free(t->full);
	t->taken = taken;
	t->cloexec = cloexec;
	t->full = full;
	a->older = old;
	atomic_store_explicit(&t->array, a, memory_order_release);
	return 0;
}

/* The lowest free descriptor at or after @min; may be beyond the capacity. */
static unsigned find_free_locked(struct fdtable *t, unsigned min) REQUIRES(t->lock)
{
	unsigned capacity = array_of_locked(t)->capacity;
	unsigned fd = MAX(min, t->next_free);

	if (fd >= capacity)
		return fd;

	unsigned word = fd / WORD_BITS;

	if (bit_test(t->full, word)) {
		word = bit_find(t->full, word, WORDS(capacity), false);
		fd = word * WORD_BITS;
		if (fd >= capacity)
			return capacity;
	}
	/* In this word there may be none left after fd; then the next one that is not full has one.
	 */
	unsigned end = (word + 1) * WORD_BITS;
	unsigned found = bit_find(t->taken, fd, end, false);

	if (found < end)
		return found;
	word = bit_find(t->full, word + 1, WORDS(capacity), false);
	if (word >= WORDS(capacity))
		return capacity;
	return bit_find(t->taken, word * WORD_BITS, capacity, false);
}

static int reserve_locked(struct fdtable *t, unsigned fdflags, int min, uint64_t limit)
	REQUIRES(t->lock)
{
	unsigned start = min < 0 ? 0 : (unsigned)min;

	if (limit > FD_MAX)
		limit = FD_MAX;

	unsigned fd = find_free_locked(t, start);

	if (fd >= limit)
		return -EMFILE;

	int r = grow_locked(t, fd);

	if (r)
		return r;
	take_locked(t, fd);
	set_cloexec_locked(t, fd, fdflags);
	if (start <= t->next_free)
		t->next_free = fd + 1;
	return (int)fd;
}

int fd_reserve(struct fdtable *t, unsigned fdflags, int min, uint64_t limit)
{
	mutex_lock(&t->lock);

	int fd = reserve_locked(t, fdflags, min, limit);

	mutex_unlock(&t->lock);
	return fd;
}

int fd_install(struct fdtable *t, struct file *f, unsigned fdflags, int min, uint64_t limit)
{
	mutex_lock(&t->lock);

	int fd = reserve_locked(t, fdflags, min, limit);

	if (fd >= 0)
		set_slot_locked(t, (unsigned)fd, f);
	mutex_unlock(&t->lock);
	return fd;
}

void fd_fill(struct fdtable *t, int fd, struct file *f)
{
	mutex_lock(&t->lock);
	set_slot_locked(t, (unsigned)fd, f);
	mutex_unlock(&t->lock);
}

void fd_unreserve(struct fdtable *t, int fd)
{
	mutex_lock(&t->lock);
	give_back_locked(t, (unsigned)fd);
	mutex_unlock(&t->lock);
}

struct file *fd_get(struct fdtable *t, int fd)
{
	for (;;) {
		struct fd_array *a = atomic_load_explicit(&t->array, memory_order_acquire);

		if ((unsigned)fd >= a->capacity)
			return NULL;

		struct file *f = atomic_load_explicit(&a->slot[fd], memory_order_acquire);

		if (!f)
			return NULL;
		/* Dying: its descriptor was closed after we read the slot. */
		if (unlikely(!ref_get_unless_zero(&f->ref)))
			continue;
		if (likely(atomic_load_explicit(&t->array, memory_order_acquire) == a &&
			   atomic_load_explicit(&a->slot[fd], memory_order_acquire) == f))
			return f;
		file_put(f);
	}
}

struct file *fd_get_nopath(struct fdtable *t, int fd)
{
	struct file *f = fd_get(t, fd);

	if (f && unlikely(f->fmode & FMODE_PATH)) {
		file_put(f);
		return NULL;
	}
	return f;
}

bool fd_is(struct fdtable *t, int fd, const struct file *f)
{
	bool is;

	mutex_lock(&t->lock);
	is = (unsigned)fd < array_of_locked(t)->capacity && slot_locked(t, (unsigned)fd) == f;
	mutex_unlock(&t->lock);
	return is;
}

/* What each close of a descriptor does to the file, then drops the table's reference. */
static void close_file(struct vfs_ctx *c, struct fdtable *t, struct file *f)
{
	if (!(f->fmode & FMODE_PATH)) {
		if (f->ops && f->ops->flush)
			f->ops->flush(c, f);
		locks_close_posix(f, t);
	}
	file_put(f);
}

int fd_close(struct vfs_ctx *c, struct fdtable *t, int fd)
{
	struct file *f = NULL;

	mutex_lock(&t->lock);
	if ((unsigned)fd < array_of_locked(t)->capacity)
		f = slot_locked(t, (unsigned)fd);
	if (f) {
		set_slot_locked(t, (unsigned)fd, NULL);
		give_back_locked(t, (unsigned)fd);
	}
	mutex_unlock(&t->lock);
	if (!f)
		return -EBADF;
	close_file(c, t, f);
	return 0;
}

/* Takes the lowest open file out of [first, last]; NULL: none. *fd is set to it. */
static struct file *take_out_next(struct fdtable *t, unsigned first, unsigned last, unsigned *fd)
{
	struct file *f = NULL;

	mutex_lock(&t->lock);

	unsigned capacity = array_of_locked(t)->capacity;
	unsigned end = last < capacity ? last + 1 : capacity;

	while (!f && (first = bit_find(t->taken, first, end, true)) < end) {
		f = slot_locked(t, first);
		if (f) {
			set_slot_locked(t, first, NULL);
			give_back_locked(t, first);
			*fd = first;
		}
		first++;
	}
	mutex_unlock(&t->lock);
	return f;
}

int fd_close_range(struct vfs_ctx *c, struct fdtable *t, unsigned first, unsigned last,
		   bool cloexec_only_mark)
{
	if (first > last)
		return -EINVAL;
	if (cloexec_only_mark) {
		mutex_lock(&t->lock);

		unsigned capacity = array_of_locked(t)->capacity;
		unsigned end = last < capacity ? last + 1 : capacity;

		while ((first = bit_find(t->taken, first, end, true)) < end)
			bit_set(t->cloexec, first++);
		mutex_unlock(&t->lock);
		return 0;
	}

	struct file *f;
	unsigned fd;

	while ((f = take_out_next(t, first, last, &fd)) != NULL) {
		close_file(c, t, f);
		if (fd >= last)
			break;
		first = fd + 1;
	}
	return 0;
}

int fd_dup_to(struct vfs_ctx *c, struct fdtable *t, int oldfd, int newfd, unsigned fdflags,
	      uint64_t limit)
{
	struct file *old = NULL;
	int r;

	if (newfd < 0 || (uint64_t)newfd >= MIN(limit, (uint64_t)FD_MAX))
		return -EBADF;

	struct file *f = fd_get(t, oldfd);

	if (!f)
		return -EBADF;
	mutex_lock(&t->lock);

	unsigned to = (unsigned)newfd;

	r = grow_locked(t, to);
	if (r)
		goto out;
	old = slot_locked(t, to);
	if (!old && bit_test(t->taken, to)) {
		/* Another thread's open is about to fill it. */
		r = -EBUSY;
		goto out;
	}
	if (oldfd == newfd) {
		old = NULL;
		r = slot_locked(t, to) == f ? newfd : -EBADF;
		goto out;
	}
	set_slot_locked(t, to, f);
	take_locked(t, to);
	set_cloexec_locked(t, to, fdflags);
	f = NULL;
	r = newfd;
out:
	mutex_unlock(&t->lock);
	if (f)
		file_put(f);
	if (old && r >= 0)
		close_file(c, t, old);
	return r;
}

int fd_get_flags(struct fdtable *t, int fd)
{
	int r = -EBADF;

	mutex_lock(&t->lock);
	if ((unsigned)fd < array_of_locked(t)->capacity && slot_locked(t, (unsigned)fd))
		r = bit_test(t->cloexec, (unsigned)fd) ? (int)FD_CLOEXEC_FLAG : 0;
	mutex_unlock(&t->lock);
	return r;
}

int fd_set_flags(struct fdtable *t, int fd, unsigned fdflags)
{
	int r = -EBADF;

	mutex_lock(&t->lock);
	if ((unsigned)fd < array_of_locked(t)->capacity && slot_locked(t, (unsigned)fd)) {
		set_cloexec_locked(t, (unsigned)fd, fdflags);
		r = 0;
	}
	mutex_unlock(&t->lock);
	return r;
}

void fdtable_close_on_exec(struct vfs_ctx *c, struct fdtable *t)
{
	unsigned from = 0;

	for (;;) {
		struct file *f = NULL;

		mutex_lock(&t->lock);

		unsigned capacity = array_of_locked(t)->capacity;

		while (!f && (from = bit_find(t->cloexec, from, capacity, true)) < capacity) {
			f = slot_locked(t, from);
			if (f) {
				set_slot_locked(t, from, NULL);
				give_back_locked(t, from);
			}
			from++;
		}
		mutex_unlock(&t->lock);
		if (!f)
			return;
		close_file(c, t, f);
	}
}

int fd_next(struct fdtable *t, int from, struct file **f)
{
	int fd = -1;

	*f = NULL;
	if (from < 0)
		from = 0;
	mutex_lock(&t->lock);

	unsigned capacity = array_of_locked(t)->capacity;
	unsigned at = (unsigned)from;

	while ((at = bit_find(t->taken, at, capacity, true)) < capacity) {
		*f = slot_locked(t, at);
		if (*f) {
			/* The table's own reference keeps it while the lock is held. */
			file_get(*f);
			fd = (int)at;
			break;
		}
		at++;
	}
	mutex_unlock(&t->lock);
	return fd;
}

struct fdtable *fdtable_dup(struct fdtable *t)
{
	struct fdtable *n;

	mutex_lock(&t->lock);

	struct fd_array *a = array_of_locked(t);
	unsigned capacity = a->capacity;

	/* A process that once had many descriptors does not burden its children with the room. */
	while (capacity > FD_FIRST_CAPACITY &&
	       bit_find(t->taken, capacity / 2, capacity, true) == capacity)
		capacity /= 2;
	n = table_alloc(capacity);
	if (!n)
		goto out;

	struct fd_array *na = atomic_load_explicit(&n->array, memory_order_relaxed);

	for (unsigned fd = bit_find(t->taken, 0, capacity, true); fd < capacity;
	     fd = bit_find(t->taken, fd + 1, capacity, true)) {
		struct file *f = atomic_load_explicit(&a->slot[fd], memory_order_relaxed);

		if (!f)
			continue;
		atomic_init(&na->slot[fd], file_get(f));
		bit_set(n->taken, fd);
		if (n->taken[fd / WORD_BITS] == UINT64_MAX)
			bit_set(n->full, fd / WORD_BITS);
		if (bit_test(t->cloexec, fd))
			bit_set(n->cloexec, fd);
	}
out:
	mutex_unlock(&t->lock);
	return n;
}

void fdtable_put(struct fdtable *t, struct vfs_ctx *c)
{
	struct file *f;
	unsigned fd, from = 0;

	if (!ref_put(&t->ref))
		return;
	while ((f = take_out_next(t, from, UINT32_MAX, &fd)) != NULL) {
		from = fd + 1;
		close_file(c, t, f);
	}

	struct fd_array *a = atomic_load_explicit(&t->array, memory_order_relaxed);

	while (a) {
		struct fd_array *older = a->older;

		mem_free(a);
		a = older;
	}
	mem_free(t->taken);
	mem_free(t->cloexec);
	mem_free(t->full);
	mutex_fini(&t->lock);
	mem_free(t);
}
