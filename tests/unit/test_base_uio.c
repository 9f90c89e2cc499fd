/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/uio.h: the cursor over segments, with memory that faults.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include "base/uio.h"

/* "Guest memory": addresses from 0; a copy stops at fault_at. */
struct memory {
	unsigned char bytes[256];
	uint64_t fault_at;
	unsigned calls;
	size_t given; /* by the last word, zeros at 0 */
};

static ssize_t memory_reach(struct memory *m, uint64_t base, size_t size)
{
	m->calls++;
	if (base >= m->fault_at)
		return -EFAULT;
	return (ssize_t)MIN(size, m->fault_at - base);
}

static ssize_t memory_out(void *ctx, uint64_t base, const void *buf, size_t size)
{
	struct memory *m = ctx;
	ssize_t n = memory_reach(m, base, size);

	if (n > 0)
		memcpy(m->bytes + base, buf, (size_t)n);
	return n;
}

static ssize_t memory_in(void *ctx, uint64_t base, void *buf, size_t size)
{
	struct memory *m = ctx;
	ssize_t n = memory_reach(m, base, size);

	if (n > 0)
		memcpy(buf, m->bytes + base, (size_t)n);
	return n;
}

static const struct uio_ops g_ops = {.copy_out = memory_out, .copy_in = memory_in};

Test(uio, kernel_buffer)
{
	char buf[8] = "";
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, buf, sizeof(buf));
	cr_assert_eq(uio_put(&u, "abc", 3), 3);
	cr_assert_eq(u.resid, 5);
	cr_assert_eq(uio_put(&u, "defghij", 7), 5, "short at the end");
	cr_assert_eq(uio_put(&u, "x", 1), 0);
	cr_assert_arr_eq(buf, "abcdefgh", 8);

	uio_init_kernel(&u, &seg, buf, sizeof(buf));

	char got[8];

	cr_assert_eq(uio_peek(&u, got, 4), 4);
	cr_assert_eq(u.resid, 8, "peek moves nothing");
	uio_skip(&u, 6);
	cr_assert_eq(uio_get(&u, got, 8), 2);
	cr_assert_arr_eq(got, "gh", 2);
	uio_skip(&u, 100);
	cr_assert_eq(u.resid, 0);
}

Test(uio, segments)
{
	static const struct uio_seg segs[] = {{0, 0}, {10, 3}, {50, 0}, {20, 1}, {100, 5}, {9, 0}};
	struct memory m = {.fault_at = 256};
	struct uio u, saved;

	uio_init(&u, &g_ops, &m, segs, ARRAY_SIZE(segs), 9);
	cr_assert_eq(uio_put(&u, "ab", 2), 2);
	saved = u;
	cr_assert_eq(uio_put(&u, "cdefghijkl", 10), 7);
	cr_assert_eq(u.resid, 0);
	cr_assert_arr_eq(m.bytes + 10, "abc", 3);
	cr_assert_eq(m.bytes[20], 'd');
	cr_assert_arr_eq(m.bytes + 100, "efghi", 5);
	uio_rewind(&u, &saved);
	cr_assert_eq(u.resid, 7);

	char got[8] = "";

	cr_assert_eq(uio_get(&u, got, 7), 7);
	cr_assert_str_eq(got, "cdefghi");
}

Test(uio, total_below_segments)
{
	static const struct uio_seg segs[] = {{0, 100}};
	struct memory m = {.fault_at = 256};
	struct uio u;

	uio_init(&u, &g_ops, &m, segs, 1, 7);
	cr_assert_eq(uio_put(&u, "0123456789", 10), 7);
	cr_assert_eq(uio_put(&u, "x", 1), 0);
	uio_init(&u, &g_ops, &m, segs, 1, 0);
	cr_assert_eq(uio_put(&u, "x", 1), 0);
}

Test(uio, faults)
{
	static const struct uio_seg segs[] = {{0, 10}, {10, 10}};
	struct memory m = {.fault_at = 15};
	struct uio u;
	char buf[20] = "abcdefghijklmnopqrs";

	uio_init(&u, &g_ops, &m, segs, 2, 20);
	cr_assert_eq(uio_put(&u, buf, 20), 15, "what it could");
	cr_assert_eq(u.resid, 5);
	cr_assert_eq(uio_put(&u, buf, 1), -EFAULT, "first byte");
	cr_assert_eq(u.resid, 5);
	cr_assert_arr_eq(m.bytes, buf, 15);

	m.fault_at = 0;
	uio_init(&u, &g_ops, &m, segs, 2, 20);
	cr_assert_eq(uio_get(&u, buf, 20), -EFAULT);
	cr_assert_eq(u.resid, 20);
	cr_assert_eq(uio_get(&u, buf, 0), 0, "nothing asked, nothing touched");
}

Test(uio, zeros)
{
	static unsigned char big[10000];
	struct uio_seg seg;
	struct uio u;

	memset(big, 1, sizeof(big));
	uio_init_kernel(&u, &seg, big, sizeof(big));
	cr_assert_eq(uio_put_zero(&u, 9000), 9000);
	for (size_t i = 0; i < sizeof(big); i++)
		cr_assert(big[i] == (i >= 9000));
	cr_assert_eq(uio_put_zero(&u, 9000), 1000);

	static const struct uio_seg segs[] = {{0, 10}};
	struct memory m = {.fault_at = 5};

	memset(m.bytes, 1, sizeof(m.bytes));
	uio_init(&u, &g_ops, &m, segs, 1, 10);
	cr_assert_eq(uio_put_zero(&u, 10), 5);
	cr_assert_eq(uio_put_zero(&u, 10), -EFAULT);
}

/* What lies in the kernel's own memory can be had where it is. */
Test(uio, kernel_pieces)
{
	char a[10], b[20];
	const struct uio_seg segs[] = {{(uintptr_t)a, sizeof(a)}, {(uintptr_t)b, sizeof(b)}};
	struct memory m = {.fault_at = 256};
	size_t size = 7;
	struct uio u;

	uio_init(&u, NULL, NULL, segs, 2, 25);
	cr_expect_eq(uio_kernel_piece(&u, &size), a);
	cr_expect_eq(size, 10);
	uio_skip(&u, 4);
	cr_expect_eq(uio_kernel_piece(&u, &size), a + 4);
	cr_expect_eq(size, 6);
	uio_skip(&u, 6);
	cr_expect_eq(uio_kernel_piece(&u, &size), b);
	cr_expect_eq(size, 15, "no more than is wanted");
	uio_skip(&u, 15);
	cr_expect_null(uio_kernel_piece(&u, &size));
	cr_expect_eq(u.resid, 0);
	uio_init(&u, &g_ops, &m, segs, 2, 25);
	cr_expect_null(uio_kernel_piece(&u, &size), "a user's");
}

static bool memory_give(void *ctx, uint64_t base, const struct uio_file *file, uint64_t pos,
			size_t size)
{
	struct memory *m = ctx;

	m->given = file || pos || base != 0 ? 0 : size;
	return base + size <= m->fault_at;
}

/* They can be given, if they are all that is wanted, and in one piece. */
Test(uio, zeros_are_given)
{
	static const struct uio_ops ops = {.copy_out = memory_out, .give = memory_give};
	static const struct uio_seg segs[] = {{0, UIO_GIVE_MIN}, {0, UIO_GIVE_MIN}};
	struct memory m = {.fault_at = UIO_GIVE_MIN};
	struct uio u;

	uio_init(&u, &ops, &m, segs, 1, UIO_GIVE_MIN);
	cr_expect_eq(uio_put_zero(&u, UIO_GIVE_MIN), (ssize_t)UIO_GIVE_MIN);
	cr_expect_eq(m.given, UIO_GIVE_MIN);
	cr_expect_eq(m.calls, 0);
	cr_expect_eq(u.resid, 0);
	m.given = 0;
	uio_init(&u, &ops, &m, segs, 1, UIO_GIVE_MIN);
	cr_expect_eq(uio_put_zero(&u, 100), 100);
	cr_expect_eq(uio_put_zero(&u, 100), 100);
	uio_init(&u, &ops, &m, segs, 2, 2 * UIO_GIVE_MIN);
	m.fault_at = 256;
	cr_expect_eq(uio_put_zero(&u, 2 * UIO_GIVE_MIN), 256);
	cr_expect_eq(m.given, 0);
	/* Who does not take them has them copied. */
	uio_init(&u, &ops, &m, segs, 1, UIO_GIVE_MIN);
	cr_expect_eq(uio_put_zero(&u, UIO_GIVE_MIN), 256);
	cr_expect_eq(m.given, UIO_GIVE_MIN);
}
