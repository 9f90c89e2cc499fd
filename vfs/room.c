/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room that files of the host have and that takes no place on its disk. See vfs/room.h.
 */
#include "vfs/room.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/lock.h"
#include "base/meter.h"
#include "vfs/host_calls.h"

#define ROOMS 64u
#define ROOM_NOTES 65536u
#define BLOCK ((uint64_t)4096)

struct note {
	struct hostfs_id id;
	int64_t btime;  /* tells a file from one that had the number before */
	uint64_t holes; /* bytes of room, at most, that take no place and are not charged */
	bool mapped;    /* what it gains is charged at once; holes is 0 */
};

static struct room {
	struct frwlock lock;
	uint64_t doubts;     /* for reading: [lock]; for writing: [lock], for writing */
	struct htable notes; /* the same */
} g_rooms[ROOMS];

static _Atomic unsigned g_notes;
/* A file was mapped of which that could not be noted. */
static _Atomic bool g_any_mapped;
static pthread_once_t g_once = PTHREAD_ONCE_INIT;

static void start(void)
{
	for (size_t i = 0; i < ROOMS; i++) {
		frwlock_init(&g_rooms[i].lock);
		htable_init(&g_rooms[i].notes);
		g_rooms[i].doubts = 1; /* nobody knows anything yet */
	}
}

void room_start(void)
{
	pthread_once(&g_once, start);
}

/* ---- notes: under the lock, for writing where they change ---- */

static uint64_t id_hash(const struct hostfs_id *id)
{
	return hash_u64(id->ino ^ hash_u64(id->dev));
}

static struct room *room_of(const struct hostfs_id *id)
{
	return &g_rooms[(id_hash(id) >> 32) % ROOMS];
}

static bool note_eq(const void *entry, const void *key)
{
	const struct note *n = entry;
	const struct hostfs_id *id = key;

	return n->id.ino == id->ino && n->id.dev == id->dev;
}

/* A note for that number, perhaps of a file that is gone. */
static struct note *note_find(const struct room *r, const struct hostfs_id *id)
{
	return r->notes.count ? htable_find(&r->notes, id_hash(id), note_eq, id) : NULL;
}

static void note_drop(struct room *r, struct note *n)
{
	htable_remove(&r->notes, id_hash(&n->id), n);
	mem_free(n);
	atomic_fetch_sub(&g_notes, 1);
}

/* The file's own, which the host has just described. */
static struct note *note_of(struct room *r, const struct hostfs_id *id, const struct host_stat *st)
{
	struct note *n = note_find(r, id);

	if (!n || n->btime == st->btime)
		return n;
	note_drop(r, n);
	return NULL;
}

/* Holes that it has had before. */
static uint64_t holes_found(const struct host_stat *st)
{
	const uint64_t place = st->blocks * 512;

	return st->size > place ? st->size - place : 0;
}

/* NULL: there are too many, or no memory is left. */
static struct note *note_make(struct room *r, const struct hostfs_id *id,
			      const struct host_stat *st)
{
	struct note *n = note_of(r, id, st);

	if (n)
		return n;
	n = atomic_fetch_add(&g_notes, 1) < ROOM_NOTES ? mem_zalloc(sizeof(*n)) : NULL;
	if (n) {
		n->id = *id;
		n->btime = st->btime;
		n->holes = holes_found(st);
		if (htable_insert(&r->notes, id_hash(id), n) == 0)
			return n;
	}
	mem_free(n);
	atomic_fetch_sub(&g_notes, 1);
	return NULL;
}

/* What is to be known of its holes, which the host has just described: how many bytes at most. */
static uint64_t holes_of(struct room *r, const struct hostfs_id *id, const struct host_stat *st)
{
	const struct note *n = note_of(r, id, st);

	if (!n && holes_found(st))
		n = note_make(r, id, st);
	return n ? n->holes : holes_found(st);
}

static void note_drop_idle(struct room *r, struct note *n)
{
	if (n->holes == 0 && !n->mapped)
		note_drop(r, n);
}

/* What one change has cost, to be given back if the host does not make it. */
struct cost {
	uint64_t charged, noted;
};

static int charge(struct cost *c, uint64_t bytes)
{
	if (!meter_charge(METER_write_bytes, bytes))
		return -EDQUOT;
	c->charged += bytes;
	return 0;
}

/* The file, which ended at @st->size, gets room up to @end, which holds nothing. */
static int room_gain(struct room *r, const struct hostfs_id *id, const struct host_stat *st,
		     uint64_t end, struct cost *c)
{
	const uint64_t bytes = end > st->size ? end - st->size : 0;
	struct note *n;

	if (!bytes)
		return 0;
	n = atomic_load(&g_any_mapped) ? NULL : note_make(r, id, st);
	if (!n || n->mapped)
		return charge(c, bytes);
	/* Sizes have 63 bits. */
	if (n->holes > UINT64_MAX / 2)
		return -EDQUOT;
	n->holes += bytes;
	c->noted += bytes;
	return 0;
}

static void give_back(struct room *r, const struct hostfs_id *id, const struct cost *c)
{
	struct note *n = note_find(r, id);

	meter_uncharge(METER_write_bytes, c->charged);
	if (n) {
		n->holes -= c->noted;
		note_drop_idle(r, n);
	}
}

/* ---- writes ---- */

enum place { AT, AT_END, AT_OFFSET };

struct writing {
	const struct hostfs_id *id;
	struct room_end *e;
	int fd;
	const void *buf;
	size_t size;
	enum place place;
	int64_t pos; /* AT */
	bool move;   /* AT_END */
};

static ssize_t put(const struct writing *w)
{
	switch (w->place) {
	case AT_END:
		return host_append(w->fd, w->buf, w->size, w->move);
	case AT_OFFSET:
		return host_write(w->fd, w->buf, w->size);
	default:
		return host_pwrite(w->fd, w->buf, w->size, w->pos);
	}
}

static bool is_sure(const struct room *r, const struct room_end *e)
{
	return atomic_load_explicit(&e->doubts, memory_order_relaxed) == r->doubts;
}

/* Does it begin within the file, for all that guests have done, and is there a note if the file has
 * holes? */
static bool begins_within(const struct room *r, const struct writing *w)
{
	if (w->place == AT_END || !is_sure(r, w->e))
		return w->place == AT_END;
	return w->place == AT_OFFSET ||
	       (uint64_t)w->pos <= atomic_load_explicit(&w->e->end, memory_order_relaxed);
}

/* The file has at least @end bytes, and the offset is within. */
static void now_sure(const struct room *r, struct room_end *e, uint64_t end)
{
	if (!is_sure(r, e) || atomic_load_explicit(&e->end, memory_order_relaxed) < end)
		atomic_store_explicit(&e->end, end, memory_order_relaxed);
	atomic_store_explicit(&e->doubts, r->doubts, memory_order_relaxed);
}

/* In a file with holes, a write pays for whole blocks, but not again for those that the one before
 * has paid for. */
static uint64_t blocks_beyond(const struct room_end *e, uint64_t pos, uint64_t size)
{
	uint64_t from = pos - pos % BLOCK;
	const uint64_t end = (pos + size + BLOCK - 1) / BLOCK * BLOCK;

	if (from >= e->paid && from < e->paid_end)
		from = MIN(e->paid_end, end);
	return end - from > size ? end - from - size : 0;
}

/* The same, asking the host where the file ends. Under the lock, for writing. */
static ssize_t put_asking(struct room *r, const struct writing *w)
{
	struct cost c = {0};
	struct host_stat st;
	ssize_t n = host_stat_fd(w->fd, &st);
	int64_t pos = w->place == AT_END ? (int64_t)st.size : w->pos;

	if (n == 0 && w->place == AT_OFFSET)
		pos = host_lseek(w->fd, 0, SEEK_CUR);
	if (n < 0 || pos < 0)
		return n < 0 ? n : (ssize_t)pos;
	n = room_gain(r, w->id, &st, (uint64_t)pos, &c);
	if (n == 0 && holes_of(r, w->id, &st))
		n = charge(&c, blocks_beyond(w->e, (uint64_t)pos, w->size));
	if (n == 0)
		n = put(w);
	if (n <= 0) {
		give_back(r, w->id, &c);
		return n;
	}
	w->e->paid = (uint64_t)pos - (uint64_t)pos % BLOCK;
	w->e->paid_end = ((uint64_t)pos + (uint64_t)n + BLOCK - 1) / BLOCK * BLOCK;
	if (w->place != AT_END && (note_find(r, w->id) || !holes_found(&st)))
		now_sure(r, w->e, MAX(st.size, (uint64_t)pos + (uint64_t)n));
	return n;
}

static ssize_t write_in_room(const struct writing *w)
{
	struct room *r = room_of(w->id);
	const struct note *note;
	ssize_t n;

	frwlock_read_lock(&r->lock);
	note = note_find(r, w->id);
	if (begins_within(r, w) && !(note && note->holes)) {
		n = put(w);
		if (n > 0 && w->place == AT)
			now_sure(r, w->e, (uint64_t)w->pos + (uint64_t)n);
		frwlock_read_unlock(&r->lock);
		return n;
	}
	frwlock_read_unlock(&r->lock);
	frwlock_write_lock(&r->lock);
	n = put_asking(r, w);
	frwlock_write_unlock(&r->lock);
	return n;
}

ssize_t room_pwrite(const struct hostfs_id *id, struct room_end *e, int fd, const void *buf,
		    size_t size, int64_t pos)
{
	const struct writing w = {
		.id = id, .e = e, .fd = fd, .buf = buf, .size = size, .place = AT, .pos = pos};

	return write_in_room(&w);
}

ssize_t room_append(const struct hostfs_id *id, struct room_end *e, int fd, const void *buf,
		    size_t size, bool move)
{
	const struct writing w = {.id = id,
				  .e = e,
				  .fd = fd,
				  .buf = buf,
				  .size = size,
				  .place = AT_END,
				  .move = move};

	return write_in_room(&w);
}

ssize_t room_write(const struct hostfs_id *id, struct room_end *e, int fd, const void *buf,
		   size_t size)
{
	const struct writing w = {
		.id = id, .e = e, .fd = fd, .buf = buf, .size = size, .place = AT_OFFSET};

	return write_in_room(&w);
}

int64_t room_seek(const struct hostfs_id *id, int fd, int64_t off, int whence)
{
	struct room *r = room_of(id);
	int64_t n;

	frwlock_write_lock(&r->lock);
	r->doubts++;
	n = host_lseek(fd, off, whence);
	frwlock_write_unlock(&r->lock);
	return n;
}

void room_fresh(const struct hostfs_id *id, struct room_end *e)
{
	struct room *r = room_of(id);

	frwlock_read_lock(&r->lock);
	now_sure(r, e, 0);
	frwlock_read_unlock(&r->lock);
}

/* ---- sizes ---- */

/* Nothing is left, and the host need not be asked what there was. */
static int empty_locked(struct room *r, const struct hostfs_id *id, struct room_end *e, int fd)
{
	const int k = host_truncate(fd, 0);
	struct note *n = note_find(r, id);

	r->doubts++;
	if (k < 0)
		return k;
	if (n) {
		n->holes = 0;
		note_drop_idle(r, n);
	}
	if (e)
		now_sure(r, e, 0);
	return 0;
}

static int truncate_locked(struct room *r, const struct hostfs_id *id, int fd, uint64_t size)
{
	struct cost c = {0};
	struct host_stat st;
	struct note *n;
	int k = host_stat_fd(fd, &st);

	if (k == 0)
		k = room_gain(r, id, &st, size, &c);
	if (k < 0)
		return k;
	r->doubts += size < st.size;
	k = host_truncate(fd, size);
	if (k < 0) {
		give_back(r, id, &c);
		return k;
	}
	n = note_of(r, id, &st);
	if (n && n->holes > size)
		n->holes = size;
	return 0;
}

int room_truncate(const struct hostfs_id *id, struct room_end *e, int fd, uint64_t size)
{
	struct room *r = room_of(id);
	int k;

	frwlock_write_lock(&r->lock);
	k = size ? truncate_locked(r, id, fd, size) : empty_locked(r, id, e, fd);
	frwlock_write_unlock(&r->lock);
	return k;
}

/* These take room away, or move what is there. */
#define TAKES_AWAY (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE)

static int fallocate_charge(struct room *r, const struct hostfs_id *id, int fd, int mode,
			    uint64_t off, uint64_t size, struct cost *c)
{
	struct host_stat st;
	int k = host_stat_fd(fd, &st);

	if (k == 0)
		k = charge(c, (off + size + BLOCK - 1) / BLOCK * BLOCK - off / BLOCK * BLOCK);
	/* What lies before the first new block. */
	if (k == 0 && !(mode & (FALLOC_FL_KEEP_SIZE | FALLOC_FL_INSERT_RANGE)))
		k = room_gain(r, id, &st, off, c);
	return k;
}

static int fallocate_locked(struct room *r, const struct hostfs_id *id, int fd, int mode,
			    int64_t off, int64_t size)
{
	struct cost c = {0};
	int k = 0;

	if (mode & TAKES_AWAY)
		r->doubts++;
	else
		k = fallocate_charge(r, id, fd, mode, (uint64_t)off, (uint64_t)size, &c);
	if (k < 0) {
		give_back(r, id, &c);
		return k;
	}
	k = host_fallocate_wait(fd, mode, off, size);
	/* Of what fails for another reason the host may have done a part. */
	if (k == -EOPNOTSUPP)
		give_back(r, id, &c);
	return k;
}

int room_fallocate(const struct hostfs_id *id, int fd, int mode, int64_t off, int64_t size)
{
	struct room *r = room_of(id);
	int k;

	frwlock_write_lock(&r->lock);
	k = fallocate_locked(r, id, fd, mode, off, size);
	frwlock_write_unlock(&r->lock);
	return k;
}

static int map_locked(struct room *r, const struct hostfs_id *id, int fd)
{
	struct host_stat st;
	struct cost c = {0};
	struct note *n;
	int k = host_stat_fd(fd, &st);

	if (k < 0)
		return k;
	n = note_make(r, id, &st);
	/* Without a note it has no holes but those that it had before. */
	k = charge(&c, MIN(n ? n->holes : holes_found(&st), st.size));
	if (k == 0 && n) {
		n->holes = 0;
		n->mapped = true;
	} else if (k == 0) {
		atomic_store(&g_any_mapped, true);
	}
	return k;
}

int room_map(const struct hostfs_id *id, int fd)
{
	struct room *r = room_of(id);
	int k;

	frwlock_write_lock(&r->lock);
	k = map_locked(r, id, fd);
	frwlock_write_unlock(&r->lock);
	return k;
}
