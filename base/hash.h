/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashing (XXH3, seeded per boot from the CSPRNG), an open-addressing table, and random bytes.
 */
#ifndef MOAT_BASE_HASH_H
#define MOAT_BASE_HASH_H

#include "base/types.h"

uint64_t hash_bytes(const void *p, size_t size, uint64_t seed);
uint64_t hash_u64(uint64_t v);

/* Pointer-valued table: the user hashes and compares. No lock of its own. Entries are found by hash and
 * eq(entry, key). Grows at 3/4; deletes by backward shift. */
struct htable {
	struct hslot {
		uint64_t hash;
		void *entry; /* NULL: empty */
	} *slots;
	size_t count;
	size_t mask; /* capacity - 1; 0 with slots == NULL: nothing allocated yet */
};

void htable_init(struct htable *h);
void htable_fini(struct htable *h);
void *htable_find(const struct htable *h, uint64_t hash, bool (*eq)(const void *entry, const void *key),
		  const void *key);
int htable_insert(struct htable *h, uint64_t hash, void *entry) MUST_USE; /* 0 or -ENOMEM */
bool htable_remove(struct htable *h, uint64_t hash, const void *entry);
/* Iterates: start with *pos = 0; NULL at the end. No change while iterating. */
void *htable_next(const struct htable *h, size_t *pos);

/* Random bytes from the host's CSPRNG (getrandom), or a seeded stream after random_seed(). Never fails. */
void random_bytes(void *p, size_t size);
uint64_t random_u64(void);
void random_seed(uint64_t seed);

#endif
