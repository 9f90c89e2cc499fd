/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfs/inotify.c, with the VFS's own operations as the source of events.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/fiber.h"
#include "tests/unit/vfs_file_env.h"
#include "vfs/eventfd.h"
#include "vfs/inotify.h"

TestSuite(inotify);

/* Reads all there is; renders it as "wd:mask[/cookie]:name " per event. */
static char *drain(struct fenv *e, struct file *f)
{
	static char text[16384];
	char buf[8192];
	size_t used = 0;
	ssize_t n;

	text[0] = '\0';
	while ((n = fenv_read(e, f, buf, sizeof(buf))) > 0) {
		for (ssize_t at = 0; at < n;) {
			struct lx_inotify_event ev;

			memcpy(&ev, buf + at, sizeof(ev));
			cr_expect_eq(ev.len % 16, 0u);
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%d:%x%s:%s ",
						 ev.wd, ev.mask, ev.cookie ? "/c" : "",
						 ev.len ? buf + at + sizeof(ev) : "");
			at += (ssize_t)(sizeof(ev) + ev.len);
		}
	}
	cr_expect_eq(n, -EAGAIN);
	return text;
}

#define EXPECT_EVENTS(e, f, want)                               \
	do {                                                    \
		char *got_ = drain((e), (f));                   \
		cr_expect_str_eq(got_, (want), "got %s", got_); \
	} while (0)

static struct file *start(struct fenv *e)
{
	struct file *f = NULL;

	cr_assert_eq(inotify_create(e->c, LX_IN_NONBLOCK, &f), 0);
	return f;
}

Test(inotify, checks)
{
	struct file *in, *ev, *f;
	struct fenv e;

	fenv_up(&e);
	cr_expect_eq(inotify_create(e.c, 1, &in), -EINVAL);
	in = start(&e);
	cr_assert_eq(eventfd_create(e.c, 0, 0, &ev), 0);
	f = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	cr_expect_eq(inotify_add_watch_path(e.c, in, "/f", 0), -EINVAL);
	cr_expect_eq(inotify_add_watch_path(e.c, in, "/f", 0x00010000), -EINVAL);
	cr_expect_eq(inotify_add_watch_path(e.c, NULL, "/f", LX_IN_OPEN), -EBADF);
	cr_expect_eq(inotify_add_watch_path(e.c, ev, "/f", LX_IN_OPEN), -EINVAL);
	cr_expect_eq(inotify_add_watch_path(e.c, in, "/no", LX_IN_OPEN), -ENOENT);
	cr_expect_eq(inotify_add_watch_path(e.c, in, "/f", LX_IN_OPEN | LX_IN_ONLYDIR), -ENOTDIR);
	cr_expect_eq(inotify_add_watch_path(e.c, in, "/f", LX_IN_MASK_ADD | LX_IN_MASK_CREATE),
		     -EINVAL);
	cr_expect_eq(inotify_add_watch_path(e.c, in, "/f", LX_IN_OPEN), 1);
	cr_expect_eq(inotify_add_watch_path(e.c, in, "/f", LX_IN_OPEN | LX_IN_MASK_CREATE),
		     -EEXIST);
	cr_expect_eq(inotify_add_watch_path(e.c, in, "/f", LX_IN_ACCESS | LX_IN_MASK_ADD), 1);
	cr_expect_eq(inotify_rm_watch_file(in, 2), -EINVAL);
	cr_expect_eq(inotify_rm_watch_file(ev, 1), -EINVAL);
	cr_expect_eq(inotify_rm_watch_file(in, 1), 0);
	cr_expect_eq(inotify_rm_watch_file(in, 1), -EINVAL);
	EXPECT_EVENTS(&e, in, "1:8000: ");
	cr_expect_eq(inotify_add_watch_path(e.c, in, "/f", LX_IN_OPEN), 2,
		     "numbers are not reused");
	file_put(in);
	file_put(ev);
	file_put(f);
	fenv_down(&e);
}

Test(inotify, file_and_directory)
{
	struct file *in, *f;
	struct fenv e;
	char b[4];

	fenv_up(&e);
	in = start(&e);
	cr_assert_eq(vfs_mkdir(e.c, NULL, "/d", 0755), 0);
	cr_assert_eq(inotify_add_watch_path(e.c, in, "/d", LX_IN_ALL_EVENTS), 1);
	f = fenv_open(&e, "/d/file", LX_O_RDWR | LX_O_CREAT);
	EXPECT_EVENTS(&e, in, "1:100:file 1:20:file ");
	cr_assert_eq(inotify_add_watch_path(e.c, in, "/d/file", LX_IN_MODIFY | LX_IN_CLOSE_WRITE),
		     2);
	cr_expect_eq(fenv_write(&e, f, "abc", 3), 3);
	cr_expect_eq(fenv_write(&e, f, "abc", 3), 3);
	EXPECT_EVENTS(&e, in, "1:2:file 2:2: 1:2:file 2:2: ");
	cr_expect_eq(fenv_pread(&e, f, b, 1, 0), 1);
	cr_expect_eq(fenv_pread(&e, f, b, 1, 0), 1);
	EXPECT_EVENTS(&e, in, "1:1:file ");
	file_put(f);
	EXPECT_EVENTS(&e, in, "1:8:file 2:8: ");
	cr_expect_eq(vfs_rename(e.c, NULL, "/d/file", NULL, "/d/other", 0), 0);
	EXPECT_EVENTS(&e, in, "1:40/c:file 1:80/c:other ");
	cr_expect_eq(vfs_mkdir(e.c, NULL, "/d/sub", 0755), 0);
	cr_expect_eq(vfs_rmdir(e.c, NULL, "/d/sub"), 0);
	EXPECT_EVENTS(&e, in, "1:40000100:sub 1:40000200:sub ");
	cr_expect_eq(vfs_unlink(e.c, NULL, "/d/other"), 0);
	EXPECT_EVENTS(&e, in, "2:8000: 1:200:other ");
	cr_expect_eq(vfs_rmdir(e.c, NULL, "/d"), 0);
	EXPECT_EVENTS(&e, in, "1:400: 1:8000: ");
	file_put(in);
	fenv_down(&e);
}

Test(inotify, one_shot_and_unlinked)
{
	struct file *in, *f;
	struct fenv e;

	fenv_up(&e);
	in = start(&e);
	f = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	cr_assert_eq(inotify_add_watch_path(e.c, in, "/f", LX_IN_MODIFY | LX_IN_ONESHOT), 1);
	cr_expect_eq(fenv_write(&e, f, "a", 1), 1);
	cr_expect_eq(fenv_write(&e, f, "a", 1), 1);
	EXPECT_EVENTS(&e, in, "1:2: 1:8000: ");
	cr_assert_eq(inotify_add_watch_path(e.c, in, "/", LX_IN_MODIFY | LX_IN_EXCL_UNLINK), 2);
	cr_expect_eq(fenv_write(&e, f, "a", 1), 1);
	cr_expect_eq(vfs_unlink(e.c, NULL, "/f"), 0);
	cr_expect_eq(fenv_write(&e, f, "a", 1), 1);
	EXPECT_EVENTS(&e, in, "2:2:f ");
	file_put(f);
	file_put(in);
	fenv_down(&e);
}

Test(inotify, reading)
{
	struct umem um = {0};
	struct file *in, *f;
	struct fenv e;
	char buf[64];
	int32_t n;

	fenv_up(&e);
	in = start(&e);
	cr_assert_eq(inotify_add_watch_path(e.c, in, "/", LX_IN_CREATE), 1);
	cr_expect_eq(fenv_poll(in), 0u);
	f = fenv_open(&e, "/sixteen-letters-", LX_O_RDWR | LX_O_CREAT);
	cr_expect_eq(fenv_poll(in), LX_POLLIN | LX_POLLRDNORM);
	cr_expect_eq(in->ops->ioctl(e.c, in, LX_FIONREAD, (uint64_t)(uintptr_t)&n, &um), 0);
	cr_expect_eq(n, 48);
	cr_expect_eq(fenv_read(&e, in, buf, 47), -EINVAL);
	cr_expect_eq(fenv_read(&e, in, buf, 64), 48);
	cr_expect_eq(fenv_read(&e, in, buf, 64), -EAGAIN);
	file_put(f);
	file_put(in);
	fenv_down(&e);
}

Test(inotify, overflow)
{
	struct lx_inotify_event ev = {0};
	struct file *in, *f, *g;
	unsigned count = 0;
	struct fenv e;

	fenv_up(&e);
	in = start(&e);
	f = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	g = fenv_open(&e, "/g", LX_O_RDWR | LX_O_CREAT);
	cr_assert_eq(inotify_add_watch_path(e.c, in, "/f", LX_IN_MODIFY), 1);
	cr_assert_eq(inotify_add_watch_path(e.c, in, "/g", LX_IN_MODIFY), 2);
	for (unsigned i = 0; i < INOTIFY_MAX_QUEUED_EVENTS + 100; i++)
		cr_assert_eq(fenv_write(&e, i % 2 ? f : g, "a", 1), 1);
	while (fenv_read(&e, in, &ev, sizeof(ev)) > 0)
		count++;
	cr_expect_eq(count, INOTIFY_MAX_QUEUED_EVENTS + 1);
	cr_expect_eq(ev.mask, LX_IN_Q_OVERFLOW);
	cr_expect_eq(ev.wd, -1);
	file_put(in);
	cr_expect_eq(fenv_write(&e, f, "a", 1), 1, "nobody listens");
	file_put(f);
	file_put(g);
	fenv_down(&e);
}
