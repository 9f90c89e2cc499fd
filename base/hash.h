/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashing (XXH3, seeded per boot from the CSPRNG), an open-addressing table, random bytes, and
 * what a guest sees of them.
 */
#ifndef MOAT_BASE_HASH_H
#define MOAT_BASE_HASH_H

#include "base/types.h"

uint64_t hash_bytes(const void *p, size_t size, uint64_t seed);
uint64_t hash_u64(uint64_t v);

/* Pointer-valued table: the user hashes and compares. No lock of its own. Entries are found by hash
 * and eq(entry, key). The low bits of the hash choose the slot: use the functions above, not bare
 * numbers. Grows at 3/4, shrinks below 1/8; deletes by backward shift. */
struct htable {
	struct hslot {
		uint64_t hash;
		void *entry; /* NULL: empty */
	} * slots;
	size_t count;
	size_t mask; /* capacity - 1; 0 with slots == NULL: nothing allocated yet */
	bool sure;   /* grows whatever the limit of the sentry's memory */
};

void htable_init(struct htable *h);
/* Of a table that no insertion may fail for: of what exists already, and is limited elsewhere. Only
 * the host's want of memory is an error then. */
void htable_init_sure(struct htable *h);
void htable_fini(struct htable *h);
void *htable_find(const struct htable *h, uint64_t hash,
		  bool (*eq)(const void *entry, const void *key), const void *key);
/* 0 or -ENOMEM. Does not look whether an equal entry is in already. */
int htable_insert(struct htable *h, uint64_t hash, void *entry) MUST_USE;
/* True if that very entry was in. */
bool htable_remove(struct htable *h, uint64_t hash, const void *entry);
/* Iterates: start with *pos = 0; NULL at the end. No change while iterating. */
void *htable_next(const struct htable *h, size_t *pos);

/* Random bytes from the host's CSPRNG (getrandom), for the sentry's own secrets: hash seeds,
 * cookies. Never fails, and never follows a seed. */
void random_bytes(void *p, size_t size);
/* A step of a generator that is not secret: for what shall repeat. */
uint64_t random_next(uint64_t *state);

/* What a guest sees of chance; each kind is a stream of its own, so that what is drawn of one does
 * not change the others. */
enum guest_random {
	GUEST_RANDOM_DATA,   /* getrandom, /dev/urandom, uuids */
	GUEST_RANDOM_LAYOUT, /* of address spaces; AT_RANDOM */
	GUEST_RANDOM_BOOT,   /* once for a sandbox: its boot id, the first of its automatic names */
	GUEST_RANDOM_STREAMS
};
/* The host's random bytes or, after guest_random_seed(), those that follow from the seed. Never
 * fails. */
void guest_random_bytes(enum guest_random stream, void *p, size_t size);
void guest_random_seed(uint64_t seed);
void guest_random_unseed(void); /* tests */

#endif
