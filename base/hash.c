/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashing, the open-addressing table, and random bytes. See base/hash.h.
 *
 * Theory of operation: the table probes linearly from the slot that the hash names; a slot keeps
 * the hash, so that a probe over strangers does not touch their memory. A removal moves the entries
 * behind it back (backward shift), so there are no tombstones and a table that lives long stays
 * fast.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>
#include "base/alloc.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/hostcall.h"
#include "base/lock.h"

#define HTABLE_MIN_CAPACITY 8u

/* Per boot, so that a guest cannot choose names that collide. */
static uint64_t g_hash_seed;

/* The guest's streams; the host's random bytes while false. */
static struct mutex g_random_lock = MUTEX_INIT(RANK_LEAF);
static _Atomic bool g_random_seeded;
static uint64_t g_random_state[GUEST_RANDOM_STREAMS]; /* [g_random_lock] */

/* Before all other constructors, which may use it. */
static __attribute__((constructor(101))) void hash_seed_from_host(void)
{
	random_bytes(&g_hash_seed, sizeof(g_hash_seed));
}

uint64_t hash_bytes(const void *p, size_t size, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, size, seed ^ g_hash_seed);
}

uint64_t hash_u64(uint64_t v)
{
	/* The finaliser of SplitMix64: a bijection in which each bit depends on all. */
	v ^= g_hash_seed;
	v = (v ^ (v >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	v = (v ^ (v >> 27)) * UINT64_C(0x94d049bb133111eb);
	return v ^ (v >> 31);
}

/* --- The table --- */

void htable_init(struct htable *h)
{
	*h = (struct htable){0};
}

void htable_init_sure(struct htable *h)
{
	*h = (struct htable){.sure = true};
}

void htable_fini(struct htable *h)
{
	mem_free(h->slots);
	*h = (struct htable){0};
}

void *htable_find(const struct htable *h, uint64_t hash,
		  bool (*eq)(const void *entry, const void *key), const void *key)
{
	if (!h->slots)
		return NULL;
	for (size_t i = hash & h->mask; h->slots[i].entry; i = (i + 1) & h->mask) {
		if (h->slots[i].hash == hash && eq(h->slots[i].entry, key))
			return h->slots[i].entry;
	}
	return NULL;
}

/* Puts into the first free slot; there is one. */
static void htable_place(struct htable *h, uint64_t hash, void *entry)
{
	size_t i = hash & h->mask;

	while (h->slots[i].entry)
		i = (i + 1) & h->mask;
	h->slots[i] = (struct hslot){.hash = hash, .entry = entry};
}

static int htable_resize(struct htable *h, size_t capacity)
{
	struct htable bigger = {.count = h->count, .mask = capacity - 1, .sure = h->sure};

	bigger.slots = h->sure ? mem_calloc_sure(capacity, sizeof(*bigger.slots))
			       : mem_calloc(capacity, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; h->slots && i <= h->mask; i++) {
		if (h->slots[i].entry)
			htable_place(&bigger, h->slots[i].hash, h->slots[i].entry);
	}
	mem_free(h->slots);
	*h = bigger;
	return 0;
}

int htable_insert(struct htable *h, uint64_t hash, void *entry)
{
	BUG_ON(!entry);
	size_t capacity = h->slots ? h->mask + 1 : 0;

	if (h->count + 1 > capacity / 4 * 3) {
		int r = htable_resize(h, capacity ? capacity * 2 : HTABLE_MIN_CAPACITY);

		if (r)
			return r;
	}
	htable_place(h, hash, entry);
	h->count++;
	return 0;
}

bool htable_remove(struct htable *h, uint64_t hash, const void *entry)
{
	if (!h->slots)
		return false;

	size_t hole = hash & h->mask;

	while (h->slots[hole].entry != entry) {
		if (!h->slots[hole].entry)
			return false;
		hole = (hole + 1) & h->mask;
	}
	/* Move back whoever may go into the hole: those whose home is not between it and them. */
	for (size_t i = (hole + 1) & h->mask; h->slots[i].entry; i = (i + 1) & h->mask) {
		size_t home = h->slots[i].hash & h->mask;

		if (((i - home) & h->mask) < ((i - hole) & h->mask))
			continue;
		h->slots[hole] = h->slots[i];
		hole = i;
	}
	h->slots[hole].entry = NULL;
	h->count--;

	/* Give memory back after a crowd has gone. Far below the limit for growth, so that a size
	 * that swings does not cost; no matter if there is no memory to shrink with. */
	if (h->mask + 1 > HTABLE_MIN_CAPACITY * 8 && h->count < (h->mask + 1) / 8) {
		int unused = htable_resize(h, (h->mask + 1) / 4);

		(void)unused;
	}
	return true;
}

void *htable_next(const struct htable *h, size_t *pos)
{
	while (h->slots && *pos <= h->mask) {
		void *entry = h->slots[(*pos)++].entry;

		if (entry)
			return entry;
	}
	return NULL;
}

/* --- Random bytes --- */

/* SplitMix64. */
uint64_t random_next(uint64_t *state)
{
	uint64_t v = *state += UINT64_C(0x9e3779b97f4a7c15);

	v = (v ^ (v >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	v = (v ^ (v >> 27)) * UINT64_C(0x94d049bb133111eb);
	return v ^ (v >> 31);
}

void random_bytes(void *p, size_t size)
{
	unsigned char *out = p;

	while (size > 0) {
		ssize_t n = HOST(getrandom_seed, getrandom(out, size, 0));

		if (n < 0) {
			/* There is no honest answer without it. */
			if (errno != EINTR)
				panic("getrandom: %s", err_text(errno));
			continue;
		}
		out += n;
		size -= (size_t)n;
	}
}

void guest_random_seed(uint64_t seed)
{
	mutex_lock(&g_random_lock);
	for (unsigned i = 0; i < GUEST_RANDOM_STREAMS; i++) {
		/* Far apart, also for seeds and streams that are neighbours. */
		uint64_t mix = seed ^ (uint64_t)(i + 1) << 56;

		g_random_state[i] = random_next(&mix);
	}
	atomic_store(&g_random_seeded, true);
	mutex_unlock(&g_random_lock);
}

void guest_random_unseed(void)
{
	atomic_store(&g_random_seeded, false);
}

void guest_random_bytes(enum guest_random stream, void *p, size_t size)
{
	unsigned char *out = p;

	if (likely(!atomic_load_explicit(&g_random_seeded, memory_order_acquire))) {
		random_bytes(p, size);
		return;
	}
	mutex_lock(&g_random_lock);
	while (size > 0) {
		uint64_t v = random_next(&g_random_state[stream]);
		size_t n = MIN(size, sizeof(v));

		memcpy(out, &v, n);
		out += n;
		size -= n;
	}
	mutex_unlock(&g_random_lock);
}
