/* SPDX-License-Identifier: Apache-2.0 */
/* What may be read unasked of an open file, and until when: vfs/shown.c. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>
#include <string.h>
#include "base/clock.h"
#include "base/lx_fcntl.h"
#include "tests/unit/fs_model.h"
#include "vfs/shown.h"

#define MARKS 4

static _Atomic uint64_t g_marks[MARKS];
static struct fsenv g_env;
static struct fdtable *g_table;
static struct file *g_file;
static int g_fd;

/* A file that readers may have by a view, open in a table; its time of access is behind that of its
 * contents. */
static void setup(void)
{
	static char data[65536];

	fsenv_up_tmpfs(&g_env, "");
	cr_assert_eq(fsm_open(&g_env, "/f", LX_O_CREAT | LX_O_RDWR, 0600, &g_file), 0);
	cr_assert_eq(fsm_pwrite(&g_env, g_file, data, sizeof(data), 0), sizeof(data));
	for (int i = 0; i < 10; i++)
		cr_assert_eq(fsm_pread_given(g_file, data, sizeof(data), 0), sizeof(data));
	g_table = fdtable_new();
	g_fd = fd_install(g_table, file_get(g_file), 0, 0, 100);
	cr_assert_eq(g_fd, 0);
}

static void settle(void)
{
	struct iattr attr = {.valid = ATTR_ATIME | ATTR_MTIME | ATTR_CTIME,
			     .atime = (int64_t)clock_stamp_ns()};

	attr.mtime = attr.ctime = attr.atime - 1;
	inode_apply_attr(g_file->inode, &attr);
}

static void teardown(void)
{
	shown_start(NULL, 0);
	fdtable_put(g_table, &g_env.ctx);
	file_put(g_file);
	fsenv_down(&g_env);
}

static bool begin(int64_t pos, struct file_view *v)
{
	return shown_begin(g_table, g_fd, g_file, pos, v);
}

static bool holds(const struct file_view *v)
{
	return atomic_load(&g_marks[v->mark]) == v->value;
}

Test(shown, begins)
{
	struct file_view v;

	setup();
	cr_expect_not(shown_on());
	settle();
	cr_expect_not(begin(0, &v), "nobody looks at marks");
	shown_start(g_marks, MARKS);
	cr_expect(shown_on());
	cr_assert(begin(100, &v));
	cr_expect_eq(v.start, 0);
	cr_expect_eq(v.end, 65536);
	cr_expect(v.whole);
	cr_expect_lt(v.mark, MARKS);
	cr_expect(holds(&v));
	cr_expect_not(begin(65536, &v), "nothing is there");
	cr_expect_not(shown_begin(g_table, g_fd + 1, g_file, 0, &v), "no descriptor of it");
	inode_touch(g_file->inode, false, true, false);
	cr_expect_not(begin(0, &v), "a read would move its time of access");
	teardown();
}

/* Each of these ends it, once. */
static void ends(const char *what, void (*change)(void))
{
	struct file_view v;

	settle();
	cr_assert(begin(0, &v), "%s", what);
	change();
	cr_expect_not(holds(&v), "%s", what);
}

static void writes(void)
{
	cr_assert_eq(fsm_pwrite(&g_env, g_file, "x", 1, 0), 1);
}

static void cuts(void)
{
	cr_assert_eq(vfs_ftruncate(&g_env.ctx, g_file, 60000), 0);
}

static void touches(void)
{
	inode_touch(g_file->inode, true, false, false);
}

static void copies_over(void)
{
	const int other = fd_install(g_table, file_get(g_file), 0, 5, 100);

	cr_assert_eq(fd_dup_to(&g_env.ctx, g_table, other, g_fd, 0, 100), g_fd);
}

static void closes(void)
{
	cr_assert_eq(fd_close(&g_env.ctx, g_table, g_fd), 0);
}

Test(shown, ends)
{
	struct file_view v;

	setup();
	shown_start(g_marks, MARKS);
	ends("a write", writes);
	ends("a cut", cuts);
	ends("a touch", touches);
	ends("another in its place", copies_over);
	ends("all", shown_end_all);
	ends("a close", closes);
	cr_expect_not(begin(0, &v), "there is no descriptor");
	teardown();
}

/* What was not shown disturbs nobody. */
Test(shown, rests)
{
	struct file_view v;

	setup();
	shown_start(g_marks, MARKS);
	settle();
	cr_assert(begin(0, &v));
	writes();
	settle();
	v.value = atomic_load(&g_marks[v.mark]);
	writes();
	cr_expect(holds(&v));
	teardown();
}

static _Atomic bool g_over;

static void *change_on(void *unused UNUSED)
{
	while (!atomic_load(&g_over))
		inode_changes(g_file->inode);
	return NULL;
}

/* Two change it at once: neither may go on before it has ended, whoever ends it. */
Test(shown, ends_by_two)
{
	struct file_view v;
	unsigned held = 0;
	pthread_t other;

	setup();
	shown_start(g_marks, MARKS);
	settle();
	cr_assert_eq(pthread_create(&other, NULL, change_on, NULL), 0);
	for (unsigned n = 0; n < 1000000; n++) {
		if (!begin(0, &v))
			continue;
		inode_changes(g_file->inode);
		held += holds(&v);
	}
	atomic_store(&g_over, true);
	pthread_join(other, NULL);
	cr_expect_eq(held, 0u);
	teardown();
}
