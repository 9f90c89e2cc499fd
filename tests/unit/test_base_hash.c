/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/hash.h: the table against a model, and random bytes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include "base/alloc.h"
#include "base/hash.h"

static bool same_number(const void *entry, const void *key)
{
	return *(const unsigned *)entry == *(const unsigned *)key;
}

/* Inserts and removes at random, with a bad hash so that probes are long, and compares with a plain
 * array of what must be in. */
static void against_model(uint64_t hash_mask)
{
	enum { N = 512 };
	static unsigned numbers[N];
	bool in[N] = {false};
	size_t count = 0;
	struct htable h;
	uint64_t seed = 1;

	htable_init(&h);
	for (unsigned i = 0; i < N; i++)
		numbers[i] = i;
	for (unsigned step = 0; step < 20000; step++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;

		unsigned k = (unsigned)(seed >> 33) % N;
		uint64_t hash = hash_u64(k) & hash_mask;
		/* Grows for a while, then shrinks. */
		bool add = (seed >> 60) < (step / 5000 % 2 ? 5u : 11u);

		cr_assert_eq(htable_find(&h, hash, same_number, &k), in[k] ? &numbers[k] : NULL);
		if (add && !in[k]) {
			cr_assert_eq(htable_insert(&h, hash, &numbers[k]), 0);
			in[k] = true;
			count++;
		} else if (!add) {
			cr_assert_eq(htable_remove(&h, hash, &numbers[k]), in[k]);
			count -= in[k];
			in[k] = false;
		}
		cr_assert_eq(h.count, count);
	}

	size_t seen = 0, pos = 0;
	unsigned *p;

	while ((p = htable_next(&h, &pos)) != NULL) {
		cr_assert(in[*p]);
		in[*p] = false;
		seen++;
	}
	cr_assert_eq(seen, count);
	htable_fini(&h);
}

Test(htable, like_a_model)
{
	against_model(UINT64_MAX);
	against_model(7);
	against_model(0);
}

Test(htable, no_memory)
{
	struct htable h;
	static unsigned numbers[100];
	unsigned in = 0;

	htable_init(&h);
	for (unsigned i = 0; i < 100; i++) {
		numbers[i] = i;
		fail_set(FAIL_ALLOC, 1);

		int r = htable_insert(&h, hash_u64(i), &numbers[i]);

		cr_assert(r == 0 || r == -ENOMEM);
		if (r) {
			/* Nothing changed, and the next try works. */
			cr_assert_null(htable_find(&h, hash_u64(i), same_number, &i));
			cr_assert_eq(htable_insert(&h, hash_u64(i), &numbers[i]), 0);
		}
		fail_set(FAIL_ALLOC, 0);
		in++;
		cr_assert_eq(h.count, in);
	}
	/* Cannot shrink: no matter. */
	for (unsigned i = 0; i < 100; i++) {
		fail_set(FAIL_ALLOC, 1);
		cr_assert(htable_remove(&h, hash_u64(i), &numbers[i]));
	}
	fail_set(FAIL_ALLOC, 0);
	htable_fini(&h);
}

/* What must be had is not refused for the sake of a limit. */
Test(htable, sure)
{
	static unsigned numbers[100];
	struct htable h;

	htable_init_sure(&h);
	for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++) {
		fail_set(FAIL_ALLOC, 1);
		cr_assert_eq(htable_insert(&h, hash_u64(i), &numbers[i]), 0);
		fail_set(FAIL_ALLOC, 0);
	}
	cr_assert_eq(h.count, ARRAY_SIZE(numbers));
	htable_fini(&h);
}

Test(htable, gives_memory_back)
{
	struct htable h;
	static unsigned numbers[10000];

	htable_init(&h);
	for (unsigned i = 0; i < 10000; i++)
		cr_assert_eq(htable_insert(&h, hash_u64(i), &numbers[i]), 0);
	for (unsigned i = 0; i < 10000; i++)
		cr_assert(htable_remove(&h, hash_u64(i), &numbers[i]));
	cr_assert_lt(h.mask, 100);
	htable_fini(&h);
}

Test(hash, seeds)
{
	cr_assert_eq(hash_bytes("abc", 3, 1), hash_bytes("abc", 3, 1));
	cr_assert_neq(hash_bytes("abc", 3, 1), hash_bytes("abc", 3, 2));
	cr_assert_neq(hash_bytes("abc", 3, 1), hash_bytes("abd", 3, 1));
	cr_assert_neq(hash_u64(1), hash_u64(2));
}

Test(random, seeded_repeats)
{
	unsigned char a[37], b[37];

	random_bytes(a, sizeof(a));
	random_bytes(b, sizeof(b));
	cr_assert_arr_neq(a, b, sizeof(a));

	guest_random_bytes(GUEST_RANDOM_DATA, a, sizeof(a));
	guest_random_bytes(GUEST_RANDOM_DATA, b, sizeof(b));
	cr_assert_arr_neq(a, b, sizeof(a), "the host's without a seed");

	guest_random_seed(42);
	guest_random_bytes(GUEST_RANDOM_DATA, a, sizeof(a));
	guest_random_seed(42);
	guest_random_bytes(GUEST_RANDOM_LAYOUT, b, sizeof(b));
	cr_assert_arr_neq(a, b, sizeof(a), "streams differ");
	guest_random_bytes(GUEST_RANDOM_DATA, b, sizeof(b));
	cr_assert_arr_eq(a, b, sizeof(a), "and do not change each other");
	guest_random_seed(43);
	guest_random_bytes(GUEST_RANDOM_DATA, b, sizeof(b));
	cr_assert_arr_neq(a, b, sizeof(a));
	guest_random_unseed();
	guest_random_seed(43);
	guest_random_unseed();
	guest_random_bytes(GUEST_RANDOM_DATA, a, sizeof(a));
	cr_assert_arr_neq(a, b, sizeof(a));
}

/* Who knows the seed knows nothing of the sentry's: its hashes and secrets do not follow. */
Test(random, the_seed_is_the_guests)
{
	unsigned char a[32], b[32];
	uint64_t h = hash_u64(5), g = hash_bytes("abc", 3, 1);

	guest_random_seed(42);
	random_bytes(a, sizeof(a));
	cr_assert_eq(h, hash_u64(5));
	cr_assert_eq(g, hash_bytes("abc", 3, 1));
	guest_random_seed(42);
	random_bytes(b, sizeof(b));
	cr_assert_arr_neq(a, b, sizeof(a));
	guest_random_unseed();
}
