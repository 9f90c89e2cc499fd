/* SPDX-License-Identifier: Apache-2.0 */
/* Sights (vfs/host_calls.h): what the host told holds until there is other news of the host. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fiber.h"
#include "vfs/host_calls.h"

static int g_dir, g_file;
static char g_name[64];
static _Atomic bool g_no_nowait, g_in_turn, g_in_vain = true;

static void begin(void)
{
	char name[] = "/tmp/moat-sight-XXXXXX";

	cr_assert_not_null(mkdtemp(name));
	g_dir = open(name, O_RDONLY | O_DIRECTORY);
	g_file = openat(g_dir, "file", O_RDWR | O_CREAT, 0600);
	cr_assert_geq(g_file, 0);
	cr_assert_eq(write(g_file, "abc", 3), 3);
	cr_assert_eq(symlinkat("file", g_dir, "link"), 0);
	snprintf(g_name, sizeof(g_name), "%s", name);
}

static void end(void)
{
	(void)unlinkat(g_dir, "file", 0);
	(void)unlinkat(g_dir, "link", 0);
	(void)rmdir(g_name);
}

/* A sight that holds. A preemption may make it too old at once: then another. */
static uint64_t sight(void)
{
	struct host_stat st;

	for (unsigned i = 0; i < 1000000; i++) {
		cr_assert_eq(host_stat_at(g_dir, "file", &st), 0);
		if (host_sight_holds(st.sight))
			return st.sight;
	}
	cr_assert_fail("no sight holds");
	return 0;
}

Test(host_sight, ends_with_news, .init = begin, .fini = end)
{
	struct host_stat st;
	char buf[512];
	uint64_t s;

	cr_assert_not(host_sight_holds(0));
	s = sight();
	cr_assert_eq(host_stat_at(g_dir, "link", &st), 0);
	cr_assert_not(host_sight_holds(s), "something was looked at");
	s = sight();
	cr_assert_neq(host_stat_at(g_dir, "none", &st), 0);
	cr_assert_not(host_sight_holds(s), "something was looked for");
	s = sight();
	cr_assert_eq(host_pread(g_file, buf, 3, 0, UINT64_MAX, &g_no_nowait), 3);
	cr_assert_not(host_sight_holds(s), "something was read");
	s = sight();
	cr_assert_eq(host_pwrite(g_file, "x", 1, 0), 1);
	cr_assert_not(host_sight_holds(s), "something was written");
	s = sight();
	cr_assert_gt(host_getdents(g_dir, buf, sizeof(buf)), 0);
	cr_assert_not(host_sight_holds(s), "a directory was read");
	s = sight();
	cr_assert_eq(host_readlink_at(g_dir, "link", buf, sizeof(buf)), 4);
	cr_assert_not(host_sight_holds(s), "a link was read");
	s = sight();
	cr_assert_lt(host_open_at(g_dir, "none", O_RDONLY, 0), 0);
	cr_assert_not(host_sight_holds(s), "something was not there");
	s = sight();
	close(host_open_at(g_dir, "new", O_RDWR | O_CREAT, 0600));
	cr_assert_not(host_sight_holds(s), "something was made");
	s = sight();
	cr_assert_eq(host_unlink_at(g_dir, "new", false), 0);
	cr_assert_not(host_sight_holds(s), "something was removed");
	s = sight();
	(void)host_poll(g_file, 1);
	cr_assert_not(host_sight_holds(s), "readiness was asked for");
	s = sight();
	host_news();
	cr_assert_not(host_sight_holds(s), "whoever says so");
}

Test(host_sight, ends_while_something_is_mapped, .init = begin, .fini = end)
{
	struct host_stat st;

	(void)sight();
	host_sight_mapped(1);
	for (unsigned i = 0; i < 1000; i++) {
		cr_assert_eq(host_stat_at(g_dir, "file", &st), 0);
		cr_assert_not(host_sight_holds(st.sight));
	}
	host_sight_mapped(-1);
	(void)sight();
}

Test(host_sight, ends_with_time, .init = begin, .fini = end)
{
	const uint64_t s = sight(), begin_tsc = __builtin_ia32_rdtsc();

	while (__builtin_ia32_rdtsc() - begin_tsc < UINT64_C(10000000))
		continue;
	cr_assert_not(host_sight_holds(s));
}

/* Does a sight of "file" outlive a look at "link"? As often as a preemption may come between. */
static bool outlives(bool *link_is_in)
{
	struct host_stat st;

	for (unsigned i = 0; i < 10000; i++) {
		const uint64_t s = sight();

		cr_assert_eq(host_stat_at(g_dir, "link", &st), 0);
		*link_is_in = st.sight == s;
		if (host_sight_holds(s))
			return true;
	}
	return false;
}

Test(host_sight, what_is_old_is_no_news, .init = begin, .fini = end)
{
	struct host_stat st;
	bool in;

	/* All is. But whose clock is it? */
	host_sight_set_old(-INT64_C(3600000000000));
	cr_assert_not(outlives(&in));
	cr_assert_eq(host_stat_at(g_dir, "file", &st), 0);
	host_sight_trust(st.dev + 1);
	cr_assert_not(outlives(&in));
	host_sight_trust(st.dev);
	cr_assert(outlives(&in));
	cr_assert(in);
	/* What is not there has no time. */
	for (unsigned i = 0; i < 100; i++) {
		const uint64_t s = sight();

		cr_assert_neq(host_stat_at(g_dir, "none", &st), 0);
		cr_assert_not(host_sight_holds(s));
	}
	/* Nothing is. */
	host_sight_set_old(INT64_C(3600000000000));
	cr_assert_not(outlives(&in));
}

Test(host_sight, an_open_is_no_news, .init = begin, .fini = end)
{
	/* As often as a preemption may come between. */
	for (unsigned i = 0; i < 100000; i++) {
		const uint64_t s = sight();
		const int fd = host_open_at(g_dir, "file", O_RDONLY, 0);

		cr_assert_geq(fd, 0);
		host_close(fd);
		if (host_sight_holds(s))
			return;
	}
	cr_assert_fail("no sight outlives an open");
}

/* @end saves the look at what a read that came short has met, so it had better be right. */
Test(host_sight, a_read_that_ends_where_it_shall_asks_no_more, .init = begin, .fini = end)
{
	char buf[8] = "";

	cr_assert_eq(host_pread(g_file, buf, sizeof(buf), 0, 3, &g_no_nowait), 3);
	cr_assert_str_eq(buf, "abc");
	cr_assert_eq(host_pread(g_file, buf, sizeof(buf), 0, 2, &g_no_nowait), 3);
	cr_assert_eq(host_pread(g_file, buf, sizeof(buf), 0, UINT64_MAX, &g_no_nowait), 3);
	cr_assert_eq(host_pread(g_file, buf, sizeof(buf), 3, 3, &g_no_nowait), 0);
}

/* What one guest call is told, one file after the other, with all of it in hand. */
static void one_call(void *unused UNUSED)
{
	struct host_stat first, second;

	for (unsigned i = 0; i < 1000000; i++) {
		fiber_moment_begin();
		if (host_stat_at(g_dir, "file", &first) != 0 ||
		    host_stat_at(g_dir, "link", &second) != 0)
			break;
		const bool in_turn = !host_sight_last(first.sight) && host_sight_last(second.sight);

		/* As often as a preemption may come between. */
		if (!host_sight_holds(first.sight) || !host_sight_holds(second.sight))
			continue;
		atomic_store(&g_in_turn, in_turn && host_sight_same(first.sight, second.sight));
		(void)!host_stat_at(g_dir, "none", &second);
		atomic_store(&g_in_vain, host_sight_last(first.sight));
		return;
	}
}

/* The second may have changed after the first had: then it is known that the first has. */
Test(host_sight, the_last_of_a_call_is_shown, .init = begin, .fini = end)
{
	struct fiber *f;

	cr_assert_eq(workers_start(1, NULL), 0);
	f = fiber_new(one_call, NULL, NULL, "one call");
	cr_assert_not_null(f);
	fiber_start(f);
	workers_stop();
	cr_expect(atomic_load(&g_in_turn));
	cr_expect_not(atomic_load(&g_in_vain));
}
