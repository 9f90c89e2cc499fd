/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/alloc.h: the fault injector and reference counts.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include "base/alloc.h"

Test(alloc, nth_fails_once)
{
	fail_set(FAIL_ALLOC, 3);
	for (unsigned i = 1; i <= 10; i++) {
		void *p = mem_zalloc(16);

		cr_assert((p == NULL) == (i == 3), "step %u", i);
		mem_free(p);
	}
	fail_set(FAIL_HOST, 1);
	cr_assert(!fail_now(FAIL_COPY));
	cr_assert(fail_now(FAIL_HOST));
	cr_assert(!fail_now(FAIL_HOST));
	fail_set(FAIL_ALLOC, 1);
	fail_set(FAIL_ALLOC, 0);
	cr_assert(!fail_now(FAIL_ALLOC));
}

Test(alloc, every_function_can_fail)
{
	char *s = mem_strdup("abc");

	cr_assert_str_eq(s, "abc");
#define FAILS(call)                      \
	do {                             \
		fail_set(FAIL_ALLOC, 1); \
		cr_assert_null(call);    \
	} while (0)
	FAILS(mem_zalloc(1));
	FAILS(mem_calloc(1, 1));
	FAILS(mem_realloc(s, 100));
	FAILS(mem_pages(1));
	FAILS(mem_strdup("x"));
	FAILS(mem_strndup("x", 1));
	FAILS(mem_dup("x", 1));
#undef FAILS
	cr_assert_str_eq(s, "abc", "the old block stays");
	mem_free(s);
}

Test(alloc, sizes)
{
	/* Through a variable: compilers see an impossible size. */
	volatile size_t huge = SIZE_MAX;
	unsigned char *p = mem_pages(5000);

	cr_assert_eq((uintptr_t)p % 4096, 0);
	for (size_t i = 0; i < 8192; i++)
		cr_assert(p[i] == 0);
	mem_free(p);
	cr_assert_null(mem_calloc(huge, 2));
	cr_assert_null(mem_pages(huge));
	p = mem_zalloc(0);
	cr_assert_not_null(p, "NULL means failure only");
	mem_free(p);

	char *s = mem_strndup("hello", 2);

	cr_assert_str_eq(s, "he");
	mem_free(s);
}

Test(ref, life)
{
	struct ref r;

	ref_init(&r);
	ref_get(&r);
	cr_assert_eq(ref_read(&r), 2);
	cr_assert(!ref_put(&r));
	cr_assert(ref_put(&r), "the last one");
	cr_assert(!ref_get_unless_zero(&r), "it is dying");
}

Test(ref, saturates)
{
	struct ref r;

	ref_init(&r);
	atomic_store(&r.count, UINT32_C(0x7fffffff));
	ref_get(&r);
	ref_get(&r);
	for (int i = 0; i < 1000; i++)
		cr_assert(!ref_put(&r));
	cr_assert(ref_get_unless_zero(&r));
	cr_assert(ref_read(&r) >= UINT32_C(0x80000000), "stuck for good");
}

#ifdef MOAT_DEBUG
Test(ref, put_twice_panics, .signal = SIGABRT)
{
	struct ref r;

	ref_init(&r);
	cr_assert(ref_put(&r));

	bool unused = ref_put(&r);

	(void)unused;
}
#endif
