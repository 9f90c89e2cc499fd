/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfs/rw.c and vfs/fdtable.c: offsets, limits, checks in order, descriptor numbers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "base/fiber.h"
#include "tests/unit/vfs_file_env.h"
#include "vfs/eventfd.h"
#include "vfs/pipe.h"

TestSuite(file);

Test(file, offsets_and_append)
{
	struct fenv e;
	struct file *f, *g, *a;
	char buf[32];

	fenv_up(&e);
	f = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	cr_expect_eq(fenv_write(&e, f, "hello world", 11), 11);
	cr_expect_eq(vfs_lseek(f, 6, LX_SEEK_SET), 6);
	cr_expect_eq(fenv_read(&e, f, buf, sizeof(buf)), 5);
	cr_expect(memcmp(buf, "world", 5) == 0);
	cr_expect_eq(fenv_read(&e, f, buf, sizeof(buf)), 0);
	/* pread and pwrite leave the offset alone. */
	cr_expect_eq(fenv_pread(&e, f, buf, 5, 0), 5);
	cr_expect_eq(vfs_lseek(f, 0, LX_SEEK_CUR), 11);
	cr_expect_eq(fenv_pwrite(&e, f, "H", 1, 0), 1);
	cr_expect_eq(vfs_lseek(f, 0, LX_SEEK_CUR), 11);
	cr_expect_eq(fenv_pread(&e, f, buf, 5, -1), -EINVAL);
	cr_expect_eq(fenv_pread(&e, f, buf, 5, INT64_MAX), -EINVAL);

	a = fenv_open(&e, "/f", LX_O_WRONLY | LX_O_APPEND);
	cr_expect_eq(fenv_write(&e, a, "!", 1), 1);
	cr_expect_eq(vfs_lseek(a, 0, LX_SEEK_CUR), 12);
	cr_expect_eq(fenv_pwrite(&e, a, "?", 1, 0), 1, "O_APPEND wins over pwrite's offset");
	cr_expect_eq(fenv_pread(&e, f, buf, sizeof(buf), 0), 13);
	cr_expect(memcmp(buf, "Hello world!?", 13) == 0);
	cr_expect_eq(fenv_read(&e, a, buf, 1), -EBADF);

	g = fenv_open(&e, "/f", LX_O_RDONLY);
	cr_expect_eq(fenv_write(&e, g, "x", 1), -EBADF);
	file_put(f);
	file_put(g);
	file_put(a);
	fenv_down(&e);
}

Test(file, seeking)
{
	static const struct {
		int64_t off;
		int whence;
		int64_t want;
	} cases[] = {
		{5, LX_SEEK_SET, 5},
		{-1, LX_SEEK_SET, -EINVAL},
		{-3, LX_SEEK_CUR, 2},
		{-3, LX_SEEK_CUR, -EINVAL},
		{0, LX_SEEK_END, 10},
		{-11, LX_SEEK_END, -EINVAL},
		{INT64_MAX, LX_SEEK_CUR, -EINVAL},
		{INT64_MAX, LX_SEEK_END, -EINVAL},
		{0, LX_SEEK_DATA, 0},
		{0, LX_SEEK_HOLE, 10},
		{10, LX_SEEK_DATA, -ENXIO},
		{10, LX_SEEK_HOLE, -ENXIO},
		{-1, LX_SEEK_DATA, -ENXIO},
		{0, 5, -EINVAL},
		{0, -1, -EINVAL},
		{100, LX_SEEK_END, 110},
	};
	struct fenv e;
	struct file *f, *p[2];

	fenv_up(&e);
	f = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	cr_expect_eq(fenv_write(&e, f, "0123456789", 10), 10);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t r = vfs_lseek(f, cases[i].off, cases[i].whence);

		cr_expect_eq(r, cases[i].want, "case %u: %ld", i, (long)r);
	}
	cr_assert_eq(pipe_create(e.c, 0, &p[0], &p[1]), 0);
	cr_expect_eq(vfs_lseek(p[0], 0, LX_SEEK_CUR), -ESPIPE);
	cr_expect_eq(vfs_lseek(p[0], 0, 99), -EINVAL);
	cr_expect_eq(fenv_pread(&e, p[0], (char[1]){0}, 1, 0), -ESPIPE);
	cr_expect_eq(fenv_pwrite(&e, p[1], "x", 1, 0), -ESPIPE);
	file_put(p[0]);
	file_put(p[1]);
	file_put(f);
	fenv_down(&e);
}

Test(file, size_limit)
{
	struct fenv e;
	struct file *f;

	fenv_up(&e);
	f = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	e.c->fsize_limit = 5;
	cr_expect_eq(fenv_write(&e, f, "12345678", 8), 5, "a write is cut at the limit");
	cr_expect_eq(fenv_write(&e, f, "x", 1), -EFBIG);
	cr_expect_eq(vfs_ftruncate(e.c, f, 6), -EFBIG);
	cr_expect_eq(vfs_ftruncate(e.c, f, 2), 0);
	cr_expect_eq(vfs_ftruncate(e.c, f, -1), -EINVAL);
	cr_expect_eq(vfs_fallocate(e.c, f, 0, 0, 9), -EFBIG);
	e.c->fsize_limit = UINT64_MAX;
	cr_expect_eq(vfs_fallocate(e.c, f, 0, 0, 9), 0);
	cr_expect_eq(vfs_lseek(f, 0, LX_SEEK_END), 9);
	file_put(f);
	fenv_down(&e);
}

Test(file, fallocate_checks)
{
	static const struct {
		int mode;
		int64_t off, size;
		int want;
	} cases[] = {
		{0, -1, 1, -EINVAL},
		{0, 0, 0, -EINVAL},
		{0x80, 0, 1, -EOPNOTSUPP},
		{LX_FALLOC_FL_PUNCH_HOLE, 0, 1, -EOPNOTSUPP},
		{LX_FALLOC_FL_PUNCH_HOLE | LX_FALLOC_FL_KEEP_SIZE | LX_FALLOC_FL_ZERO_RANGE, 0, 1,
		 -EOPNOTSUPP},
		{LX_FALLOC_FL_COLLAPSE_RANGE | LX_FALLOC_FL_KEEP_SIZE, 0, 1, -EINVAL},
		{LX_FALLOC_FL_INSERT_RANGE | LX_FALLOC_FL_KEEP_SIZE, 0, 1, -EINVAL},
		{0, INT64_MAX, 2, -EFBIG},
	};
	struct fenv e;
	struct file *f, *r, *p[2], *ev;

	fenv_up(&e);
	f = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(vfs_fallocate(e.c, f, cases[i].mode, cases[i].off, cases[i].size),
			     cases[i].want, "case %u", i);
	r = fenv_open(&e, "/f", LX_O_RDONLY);
	cr_expect_eq(vfs_fallocate(e.c, r, 0, 0, 1), -EBADF);
	cr_assert_eq(pipe_create(e.c, 0, &p[0], &p[1]), 0);
	cr_expect_eq(vfs_fallocate(e.c, p[1], 0, 0, 1), -ESPIPE);
	cr_assert_eq(eventfd_create(e.c, 0, 0, &ev), 0);
	cr_expect_eq(vfs_fallocate(e.c, ev, 0, 0, 1), -ENODEV);
	cr_expect_eq(vfs_fsync(p[0], false), -EINVAL);
	file_put(f);
	file_put(r);
	file_put(p[0]);
	file_put(p[1]);
	file_put(ev);
	fenv_down(&e);
}

Test(file, directories)
{
	struct fenv e;
	struct file *d;
	char b[1];

	fenv_up(&e);
	d = fenv_open(&e, "/", LX_O_RDONLY | LX_O_DIRECTORY);
	cr_expect_eq(fenv_read(&e, d, b, 1), -EISDIR);
	cr_expect_eq(fenv_write(&e, d, b, 1), -EBADF);
	cr_expect_eq(vfs_ftruncate(e.c, d, 0), -EINVAL);
	file_put(d);
	fenv_down(&e);
}

Test(file, setuid_goes_with_a_write)
{
	struct fenv e;
	struct file *f;
	struct iattr attr = {.valid = ATTR_MODE, .mode = 06777};
	struct uio_seg seg;
	struct uio u;
	char b[1] = {0};

	fenv_up(&e);
	f = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	cr_assert_eq(vfs_setattr(e.c, &f->path, &attr), 0);
	cr_expect_eq(fenv_write(&e, f, b, 1), 1);
	cr_expect_eq(f->inode->mode & 06000, 06000u, "root may");
	uio_init_kernel(&u, &seg, b, 1);
	cr_expect_eq(vfs_write(e.user, f, &u, NULL), 1);
	cr_expect_eq(f->inode->mode & 06000, 0u);
	file_put(f);
	fenv_down(&e);
}

/* ---- descriptor tables ---- */

static struct file *make_event(struct fenv *e)
{
	struct file *f;

	cr_assert_eq(eventfd_create(e->c, 0, 0, &f), 0);
	return f;
}

/* As from Linux 6.9 on. */
Test(file, eventfd_takes_eight_bytes)
{
	struct fenv e;
	struct file *f;
	uint64_t v[2] = {1, 1};

	fenv_up(&e);
	f = make_event(&e);
	cr_expect_eq(fenv_write(&e, f, v, 7), -EINVAL);
	cr_expect_eq(fenv_write(&e, f, v, 9), -EINVAL);
	cr_expect_eq(fenv_write(&e, f, v, 16), -EINVAL);
	cr_expect_eq(fenv_write(&e, f, v, 0), -EINVAL);
	cr_expect_eq(fenv_write(&e, f, v, 8), 8);
	cr_expect_eq(fenv_read(&e, f, v, 16), 8);
	cr_expect_eq(v[0], 1);
	file_put(f);
	fenv_down(&e);
}

Test(file, lowest_descriptor)
{
	struct fenv e;
	struct file *f, *g;

	fenv_up(&e);
	f = make_event(&e);
	for (int i = 0; i < 200; i++)
		cr_assert_eq(fd_install(e.table, file_get(f), 0, 0, 1024), i);
	cr_expect_eq(fd_close(e.c, e.table, 77), 0);
	cr_expect_eq(fd_close(e.c, e.table, 77), -EBADF);
	cr_expect_eq(fd_close(e.c, e.table, 5), 0);
	cr_expect_eq(fd_install(e.table, file_get(f), 0, 50, 1024), 77, "F_DUPFD from 50");
	cr_expect_eq(fd_install(e.table, file_get(f), 0, 0, 1024), 5);
	cr_expect_eq(fd_install(e.table, file_get(f), 0, 0, 1024), 200);
	cr_expect_eq(fd_install(e.table, file_get(f), 0, 1000, 1024), 1000);
	cr_expect_eq(fd_install(e.table, f, 0, 0, 201), -EMFILE);
	cr_expect_eq(fd_install(e.table, f, 0, 0, 0), -EMFILE);
	cr_expect_null(fd_get(e.table, -1));
	cr_expect_null(fd_get(e.table, 999));
	cr_expect_null(fd_get(e.table, 1 << 20));
	g = fd_get(e.table, 1000);
	cr_expect_eq(g, f);
	file_put(g);
	file_put(f);
	fenv_down(&e);
}

Test(file, full_words_and_far_descriptors)
{
	struct fenv e;
	struct file *f;

	fenv_up(&e);
	f = make_event(&e);
	for (int i = 0; i < 5000; i++)
		cr_assert_eq(fd_install(e.table, file_get(f), 0, 0, 1 << 20), i);
	for (int i = 4990; i > 0; i -= 61)
		cr_expect_eq(fd_close(e.c, e.table, i), 0);
	for (int i = 4990 % 61; i < 4991; i += 61) {
		if (i > 0)
			cr_expect_eq(fd_install(e.table, file_get(f), 0, 0, 1 << 20), i);
	}
	cr_expect_eq(fd_install(e.table, file_get(f), 0, 4000, 1 << 20), 5000);
	cr_expect_eq(fd_install(e.table, file_get(f), 0, (1 << 20) - 1, 1 << 20), (1 << 20) - 1);
	cr_expect_eq(fd_install(e.table, f, 0, (1 << 20) - 1, 1 << 20), -EMFILE);
	file_put(f);
	fenv_down(&e);
}

Test(file, reserve_dup_and_flags)
{
	struct fenv e;
	struct file *f, *g;
	struct fdtable *copy;
	int fd;

	fenv_up(&e);
	f = make_event(&e);
	g = make_event(&e);
	fd = fd_reserve(e.table, FD_CLOEXEC_FLAG, 0, 64);
	cr_expect_eq(fd, 0);
	cr_expect_null(fd_get(e.table, 0), "reserved is not open");
	cr_expect_eq(fd_install(e.table, f, 0, 0, 64), 1);
	cr_expect_eq(fd_dup_to(e.c, e.table, 1, 0, 0, 64), -EBUSY);
	copy = fdtable_dup(e.table);
	cr_assert_not_null(copy);
	cr_expect_eq(fd_install(copy, file_get(g), 0, 0, 64), 0, "a copy has no reservations");
	fdtable_put(copy, e.c);
	fd_fill(e.table, 0, g);
	cr_expect_eq(fd_get_flags(e.table, 0), (int)FD_CLOEXEC_FLAG);
	cr_expect_eq(fd_get_flags(e.table, 1), 0);
	cr_expect_eq(fd_set_flags(e.table, 1, FD_CLOEXEC_FLAG), 0);
	cr_expect_eq(fd_set_flags(e.table, 9, 0), -EBADF);
	cr_expect_eq(fd_dup_to(e.c, e.table, 1, 9, 0, 64), 9);
	cr_expect_eq(fd_dup_to(e.c, e.table, 1, 64, 0, 64), -EBADF);
	cr_expect_eq(fd_dup_to(e.c, e.table, 33, 2, 0, 64), -EBADF);
	cr_expect_eq(fd_dup_to(e.c, e.table, 1, 0, FD_CLOEXEC_FLAG, 64), 0, "takes a place");
	fdtable_close_on_exec(e.c, e.table);
	cr_expect_null(fd_get(e.table, 0));
	cr_expect_null(fd_get(e.table, 1));
	f = fd_get(e.table, 9);
	cr_expect_not_null(f);
	file_put(f);
	fenv_down(&e);
}

Test(file, close_range_and_iteration)
{
	struct fenv e;
	struct file *f, *g;
	int fds[8], n = 0;

	fenv_up(&e);
	f = make_event(&e);
	for (int i = 0; i < 10; i++)
		cr_assert_eq(fd_install(e.table, file_get(f), 0, 0, 64), i);
	cr_expect_eq(fd_close_range(e.c, e.table, 5, 4, false), -EINVAL);
	cr_expect_eq(fd_close_range(e.c, e.table, 8, UINT32_MAX, true), 0);
	cr_expect_eq(fd_get_flags(e.table, 8), (int)FD_CLOEXEC_FLAG);
	cr_expect_eq(fd_close_range(e.c, e.table, 3, 6, false), 0);
	cr_expect_eq(fd_close_range(e.c, e.table, 9, UINT32_MAX, false), 0);
	for (int fd = fd_next(e.table, 0, &g); fd >= 0; fd = fd_next(e.table, fd + 1, &g)) {
		file_put(g);
		fds[n++] = fd;
	}
	cr_assert_eq(n, 5);
	cr_expect(memcmp(fds, (int[]){0, 1, 2, 7, 8}, sizeof(int) * 5) == 0);
	file_put(f);
	fenv_down(&e);
}

/* Threads that look descriptors up while another closes and opens them. */
struct hammer {
	struct fenv *e;
	_Atomic bool stop;
	_Atomic unsigned long seen;
};

static void *look_up(void *arg)
{
	struct hammer *h = arg;

	while (!atomic_load(&h->stop)) {
		struct file *f = fd_get(h->e->table, 3);

		if (f) {
			atomic_fetch_add(&h->seen, 1);
			file_put(f);
		}
	}
	return NULL;
}

Test(file, lookups_race_with_close_and_growth)
{
	struct hammer h = {0};
	struct fenv e;
	pthread_t th[2];

	fenv_up(&e);
	h.e = &e;
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&th[i], NULL, look_up, &h), 0);
	for (unsigned i = 0; i < 20000 || atomic_load(&h.seen) == 0; i++) {
		int r = fd_install(e.table, make_event(&e), 0, 3, 64);

		cr_assert_eq(r, 3);
		if (i % 4096 == 0) {
			int far = fd_install(e.table, make_event(&e), 0,
					     (int)(64u << MIN(i / 4096, 8u)), 1 << 20);

			cr_assert_geq(far, 64);
		}
		cr_assert_eq(fd_close(e.c, e.table, 3), 0);
	}
	atomic_store(&h.stop, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(th[i], NULL);
	fenv_down(&e);
}

Test(file, allocation_failures_leave_nothing)
{
	struct fenv e;

	fenv_up(&e);
	for (unsigned n = 1; n < 40; n++) {
		struct file *p[2] = {NULL, NULL}, *f = NULL;
		struct fdtable *t;

		fail_set(FAIL_ALLOC, n);
		int r = pipe_create(e.c, 0, &p[0], &p[1]);
		int r2 = eventfd_create(e.c, 1, 0, &f);

		t = fdtable_dup(e.table);
		fail_set(FAIL_ALLOC, 0);
		if (r == 0) {
			file_put(p[0]);
			file_put(p[1]);
		}
		if (r2 == 0)
			file_put(f);
		if (t)
			fdtable_put(t, e.c);
		if (r == 0 && r2 == 0 && t && n > 20)
			break;
	}
	fenv_down(&e);
}

/* ---- poll ---- */

struct poller {
	struct pollreq req[70];
	unsigned count;
	uint64_t deadline;
	int result;
};

static void poll_fiber(void *arg)
{
	struct poller *p = arg;

	p->result = vfs_poll_many(p->req, p->count, p->deadline);
}

Test(file, poll_many)
{
	struct poller p = {.count = 70, .deadline = DEADLINE_NONE, .result = -1};
	struct fenv e;
	struct file *f[70];

	fenv_up(&e);
	cr_assert_eq(workers_start(2, NULL), 0);
	for (unsigned i = 0; i < 70; i++) {
		f[i] = make_event(&e);
		p.req[i] = (struct pollreq){.file = i == 13 ? NULL : f[i], .events = LX_POLLIN};
	}
	cr_expect_eq(vfs_poll_many(p.req, p.count, 0), 0);
	fenv_go(poll_fiber, &p);
	fenv_settle();
	cr_expect_eq(p.result, -1);
	cr_expect_eq(eventfd_signal(f[69], 1), 0);
	workers_stop();
	cr_expect_eq(p.result, 1);
	cr_expect_eq(p.req[69].revents, LX_POLLIN);
	cr_expect_eq(p.req[68].revents, 0u);
	for (unsigned i = 0; i < 70; i++)
		file_put(f[i]);
	fenv_down(&e);
}
