/* SPDX-License-Identifier: Apache-2.0 */
/* Watches (vfs/host_watch.h): whatever changes ends the generation in which it was told. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vfs/host_calls.h"
#include "vfs/host_watch.h"

static int g_dir, g_elsewhere;
static char g_name[64];

static void put(int dir, const char *name)
{
	const int fd = openat(dir, name, O_RDWR | O_CREAT, 0600);

	cr_assert_eq(write(fd, "abc", 3), 3);
	close(fd);
}

/* A directory "d", which is watched, with the watched files "f" and "g", and "e", which is not,
 * with another name of "g". False: this host does not watch, or not this file system. */
static bool begin(void)
{
	char name[] = "/tmp/moat-watch-XXXXXX";
	int top;

	cr_assert_not_null(mkdtemp(name));
	snprintf(g_name, sizeof(g_name), "%s", name);
	top = open(name, O_RDONLY | O_DIRECTORY);
	cr_assert_eq(mkdirat(top, "d", 0700) | mkdirat(top, "e", 0700), 0);
	g_dir = openat(top, "d", O_PATH | O_DIRECTORY);
	g_elsewhere = openat(top, "e", O_RDONLY | O_DIRECTORY);
	close(top);
	put(g_dir, "f");
	put(g_dir, "g");
	cr_assert_eq(linkat(g_dir, "g", g_elsewhere, "g", 0), 0);
	host_watch_set_start(0);
	host_watch_open_queue();
	return host_watch_vain() && host_watch_add(g_dir, ".", true) == 0 &&
	       host_watch_add(g_dir, "f", false) == 0 && host_watch_add(g_dir, "g", false) == 0;
}

static void end(void)
{
	char text[128];

	snprintf(text, sizeof(text), "rm -rf %s", g_name);
	cr_expect_eq(system(text), 0);
}

static void made(void)
{
	put(g_dir, "new");
}

static void made_dir(void)
{
	cr_assert_eq(mkdirat(g_dir, "sub", 0700), 0);
}

static void removed(void)
{
	cr_assert_eq(unlinkat(g_dir, "new", 0), 0);
}

static void removed_dir(void)
{
	cr_assert_eq(unlinkat(g_dir, "sub", AT_REMOVEDIR), 0);
}

static void moved_in(void)
{
	put(g_elsewhere, "h");
	cr_assert_eq(renameat(g_elsewhere, "h", g_dir, "h"), 0);
}

static void moved_out(void)
{
	cr_assert_eq(renameat(g_dir, "h", g_elsewhere, "h"), 0);
}

static void changed_dir(void)
{
	cr_assert_eq(fchmodat(g_dir, ".", 0750, 0), 0);
}

static void changed_mode(void)
{
	cr_assert_eq(fchmodat(g_dir, "f", 0640, 0), 0);
}

static void changed_times(void)
{
	cr_assert_eq(utimensat(g_dir, "f", NULL, 0), 0);
}

static void written(void)
{
	put(g_dir, "f");
}

static void written_elsewhere(void)
{
	put(g_elsewhere, "g");
}

static void cut_elsewhere(void)
{
	const int fd = openat(g_elsewhere, "g", O_WRONLY | O_TRUNC);

	cr_assert_geq(fd, 0);
	close(fd);
}

static void linked(void)
{
	cr_assert_eq(linkat(g_dir, "f", g_elsewhere, "f", 0), 0);
}

static void unlinked_elsewhere(void)
{
	cr_assert_eq(unlinkat(g_elsewhere, "g", 0), 0);
}

/* Reported at the end of the mapping. */
static void mapped(void)
{
	const int fd = openat(g_dir, "f", O_RDWR);
	char *p = mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	cr_assert_neq(p, MAP_FAILED);
	close(fd);
	(void)host_watch_look();
	p[0] = 'x';
	munmap(p, 3);
}

Test(host_watch, every_change_ends_the_generation, .fini = end)
{
	static const struct {
		const char *what;
		void (*change)(void);
	} table[] = {
		{"a new file", made},
		{"a new directory", made_dir},
		{"a removed file", removed},
		{"a removed directory", removed_dir},
		{"a name from elsewhere", moved_in},
		{"a name that went", moved_out},
		{"the directory's mode", changed_dir},
		{"a file's mode", changed_mode},
		{"a file's times", changed_times},
		{"a file's content", written},
		{"content, by another name", written_elsewhere},
		{"size, by another name", cut_elsewhere},
		{"another name elsewhere", linked},
		{"a name less elsewhere", unlinked_elsewhere},
		{"content, by a mapping", mapped},
	};

	if (!begin())
		cr_skip_test("this host does not watch here");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint64_t before = host_watch_look();

		/* Of the last one there may be more to come. */
		while (before == 0)
			before = host_watch_look();
		cr_expect_eq(host_watch_look(), before);
		table[i].change();
		cr_expect_eq(host_watch_look(), 0, "%s", table[i].what);
		cr_expect_neq(host_watch_generation(), before, "%s", table[i].what);
		cr_expect_not(host_watch_holds(before, __builtin_ia32_rdtsc()), "%s",
			      table[i].what);
	}
}

Test(host_watch, what_is_told_holds_a_while, .fini = end)
{
	const uint64_t second = UINT64_C(3000000000);
	bool held = false;
	uint64_t g = 0;

	if (!begin())
		cr_skip_test("this host does not watch here");
	cr_expect_not(host_watch_holds(0, __builtin_ia32_rdtsc()));
	/* A preemption may make a look too old at once: then another. */
	for (unsigned i = 0; i < 1000000 && !held; i++) {
		g = host_watch_look();
		held = host_watch_holds(g, __builtin_ia32_rdtsc());
	}
	cr_expect(held);
	g = host_watch_look();
	cr_expect_not(host_watch_holds(g, __builtin_ia32_rdtsc() - second), "it is old");
	g = host_watch_look();
	host_news();
	cr_expect_not(host_watch_holds(g, __builtin_ia32_rdtsc()), "look again");
	host_watch_differs();
	cr_expect_not(host_watch_holds(g, __builtin_ia32_rdtsc()), "it has ended");
}

/* Changes that come all the time, and nobody gains: no more of that, for good. */
Test(host_watch, is_given_up_where_it_gains_nothing, .fini = end)
{
	if (!begin())
		cr_skip_test("this host does not watch here");
	for (unsigned i = 0; i < 1000 && host_watch_generation() != 0; i++) {
		written();
		(void)host_watch_look();
	}
	cr_expect_eq(host_watch_generation(), 0);
	cr_expect_not(host_watch_vain());
	cr_expect_lt(host_watch_add(g_dir, "f", false), 0);
	host_watch_differs();
	cr_expect_eq(host_watch_look(), 0);
}
