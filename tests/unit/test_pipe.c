/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfs/pipe.c and vfs/splice.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/fiber.h"
#include "tests/unit/vfs_file_env.h"
#include "vfs/eventfd.h"
#include "vfs/pipe.h"
#include "vfs/splice.h"

TestSuite(pipe);

static void make_pipe(struct fenv *e, uint32_t flags, struct file *p[2])
{
	int r = pipe_create(e->c, flags, &p[0], &p[1]);

	cr_assert_eq(r, 0, "pipe: %d", r);
}

static void put_both(struct file *p[2])
{
	file_put(p[0]);
	file_put(p[1]);
}

static int unread(struct fenv *e, struct file *f)
{
	struct umem um = {0};
	int32_t n = -1;

	cr_expect_eq(f->ops->ioctl(e->c, f, LX_FIONREAD, (uint64_t)(uintptr_t)&n, &um), 0);
	return n;
}

Test(pipe, order_and_ends)
{
	struct file *p[2];
	struct fenv e;
	char buf[64];

	fenv_up(&e);
	cr_expect_eq(pipe_create(e.c, LX_O_APPEND, &p[0], &p[1]), -EINVAL);
	make_pipe(&e, LX_O_NONBLOCK, p);
	cr_expect_eq(fenv_poll(p[0]), 0u);
	cr_expect_eq(fenv_poll(p[1]), LX_POLLOUT | LX_POLLWRNORM);
	cr_expect_eq(fenv_read(&e, p[0], buf, 1), -EAGAIN);
	cr_expect_eq(fenv_read(&e, p[0], buf, 0), 0);
	cr_expect_eq(fenv_read(&e, p[1], buf, 1), -EBADF);
	cr_expect_eq(fenv_write(&e, p[0], "x", 1), -EBADF);
	cr_expect_eq(fenv_write(&e, p[1], "abc", 3), 3);
	cr_expect_eq(fenv_write(&e, p[1], "def", 3), 3);
	cr_expect_eq(unread(&e, p[0]), 6);
	cr_expect_eq(fenv_read(&e, p[0], buf, 4), 4);
	cr_expect_eq(fenv_read(&e, p[0], buf + 4, 9), 2);
	cr_expect(memcmp(buf, "abcdef", 6) == 0);
	file_put(p[1]);
	cr_expect_eq(fenv_read(&e, p[0], buf, 1), 0, "end of file");
	cr_expect_eq(fenv_poll(p[0]), LX_POLLHUP);
	file_put(p[0]);

	make_pipe(&e, 0, p);
	file_put(p[0]);
	cr_expect_eq(fenv_write(&e, p[1], "x", 1), -EPIPE);
	cr_expect_eq(fenv_write(&e, p[1], "x", 0), 0);
	cr_expect_eq(fenv_poll(p[1]), LX_POLLOUT | LX_POLLWRNORM | LX_POLLERR);
	file_put(p[1]);
	fenv_down(&e);
}

Test(pipe, capacity_and_atomic_writes)
{
	struct file *p[2];
	struct fenv e;
	char *big = calloc(1, 200000);

	fenv_up(&e);
	make_pipe(&e, LX_O_NONBLOCK, p);
	cr_expect_eq(pipe_get_size(p[0]), 65536);
	cr_expect_eq(fenv_write(&e, p[1], big, 200000), 65536);
	cr_expect_eq(fenv_write(&e, p[1], big, 1), -EAGAIN);
	cr_expect_eq(fenv_poll(p[1]), 0u);
	cr_expect_eq(fenv_read(&e, p[0], big, 4095), 4095);
	cr_expect_eq(fenv_write(&e, p[1], big, 4096), -EAGAIN, "a slot is free when it is empty");
	cr_expect_eq(fenv_read(&e, p[0], big, 1), 1);
	cr_expect_eq(fenv_write(&e, p[1], big, 4096), 4096);
	cr_expect_eq(fenv_read(&e, p[0], big, 200000), 65536);
	/* Single bytes share slots. */
	for (int i = 0; i < 65536; i++)
		cr_assert_eq(fenv_write(&e, p[1], "x", 1), 1);
	cr_expect_eq(fenv_write(&e, p[1], "x", 1), -EAGAIN);
	put_both(p);
	free(big);
	fenv_down(&e);
}

Test(pipe, resize)
{
	struct file *p[2], *ev;
	struct fenv e;
	char buf[20000];

	fenv_up(&e);
	make_pipe(&e, LX_O_NONBLOCK, p);
	for (unsigned i = 0; i < sizeof(buf); i++)
		buf[i] = (char)(i * 7);
	cr_expect_eq(fenv_write(&e, p[1], buf, 20000), 20000);
	cr_expect_eq(fenv_read(&e, p[0], buf, 5000), 5000);
	cr_expect_eq(pipe_set_size(e.c, p[0], 4096), -EBUSY);
	cr_expect_eq(pipe_set_size(e.c, p[1], 16384), 16384);
	cr_expect_eq(fenv_poll(p[1]), 0u, "full now");
	cr_expect_eq(pipe_set_size(e.c, p[1], 100000), 131072);
	cr_expect_eq(fenv_write(&e, p[1], buf, 1), 1);
	memset(buf, 0, sizeof(buf));
	cr_expect_eq(fenv_read(&e, p[0], buf, sizeof(buf)), 15001);
	for (unsigned i = 0; i < 15000; i++)
		cr_assert_eq(buf[i], (char)((i + 5000) * 7), "byte %u", i);
	cr_expect_eq(pipe_set_size(e.c, p[1], 0), 4096);
	cr_expect_eq(pipe_set_size(e.c, p[1], 1ull << 32), -EINVAL);
	cr_expect_eq(pipe_set_size(e.user, p[1], 2u << 20), -EPERM);
	cr_assert_eq(eventfd_create(e.c, 0, 0, &ev), 0);
	cr_expect_eq(pipe_get_size(ev), -EBADF);
	file_put(ev);
	put_both(p);
	fenv_down(&e);
}

Test(pipe, packets)
{
	struct file *p[2];
	struct fenv e;
	char buf[64];

	fenv_up(&e);
	make_pipe(&e, LX_O_NONBLOCK | LX_O_DIRECT, p);
	cr_expect_eq(fenv_write(&e, p[1], "one", 3), 3);
	cr_expect_eq(fenv_write(&e, p[1], "two", 3), 3);
	cr_expect_eq(fenv_read(&e, p[0], buf, 64), 3);
	cr_expect_eq(fenv_read(&e, p[0], buf, 2), 2, "the rest of a packet is lost");
	cr_expect_eq(fenv_read(&e, p[0], buf, 2), -EAGAIN);
	for (int i = 0; i < 16; i++)
		cr_expect_eq(fenv_write(&e, p[1], "x", 1), 1);
	cr_expect_eq(fenv_write(&e, p[1], "x", 1), -EAGAIN, "one slot each");
	put_both(p);
	fenv_down(&e);
}

/* ---- blocking ---- */

struct job {
	struct fenv *e;
	struct file *f;
	char *buf;
	size_t size;
	ssize_t result;
};

static void read_job(void *arg)
{
	struct job *j = arg;

	j->result = fenv_read(j->e, j->f, j->buf, j->size);
}

static void write_job(void *arg)
{
	struct job *j = arg;

	j->result = fenv_write(j->e, j->f, j->buf, j->size);
}

static void read_all_job(void *arg)
{
	struct job *j = arg;
	ssize_t n;

	while ((n = fenv_read(j->e, j->f, j->buf + j->result, j->size - (size_t)j->result)) > 0)
		j->result += n;
}

Test(pipe, blocking)
{
	struct file *p[2];
	struct fenv e;
	char a[8], b[8];
	struct job r1 = {&e, NULL, a, 8, -1}, r2 = {&e, NULL, b, 8, -1};

	fenv_up(&e);
	cr_assert_eq(workers_start(2, NULL), 0);
	make_pipe(&e, 0, p);
	r1.f = r2.f = p[0];
	fenv_go(read_job, &r1);
	fenv_go(read_job, &r2);
	fenv_settle();
	cr_expect_eq(fenv_write(&e, p[1], "abc", 3), 3);
	fenv_settle();
	cr_expect_eq((r1.result == 3) + (r2.result == 3), 1, "one reader got it");
	file_put(p[1]);
	workers_stop();
	cr_expect_eq(r1.result + r2.result, 3, "the other one saw the end");
	file_put(p[0]);
	fenv_down(&e);
}

Test(pipe, big_transfer)
{
	const size_t size = 1000003;
	char *in = malloc(size), *out = calloc(1, size);
	struct file *p[2];
	struct fenv e;
	struct job w = {&e, NULL, in, size, -1}, r = {&e, NULL, out, size, 0};

	for (size_t i = 0; i < size; i++)
		in[i] = (char)(i * 31 + i / 251);
	fenv_up(&e);
	cr_assert_eq(workers_start(2, NULL), 0);
	make_pipe(&e, 0, p);
	w.f = p[1];
	r.f = p[0];
	fenv_go(write_job, &w);
	fenv_go(read_all_job, &r);
	fenv_settle();
	file_put(p[1]);
	workers_stop();
	cr_expect_eq(w.result, (ssize_t)size);
	cr_expect_eq(r.result, (ssize_t)size);
	cr_expect(memcmp(in, out, size) == 0);
	file_put(p[0]);
	free(in);
	free(out);
	fenv_down(&e);
}

Test(pipe, interrupted)
{
	struct file *p[2];
	struct fenv e;
	char buf[8];
	struct job r = {&e, NULL, buf, 8, -1};
	char *big = calloc(1, 100000);
	struct job w = {&e, NULL, big, 100000, -1};
	struct fiber *f;

	fenv_up(&e);
	cr_assert_eq(workers_start(1, NULL), 0);
	make_pipe(&e, 0, p);
	r.f = p[0];
	w.f = p[1];
	f = fenv_go(read_job, &r);
	fenv_settle();
	fiber_interrupt(f);
	fenv_settle();
	cr_expect_eq(r.result, -ERESTARTSYS);
	f = fenv_go(write_job, &w);
	fenv_settle();
	fiber_interrupt(f);
	workers_stop();
	cr_expect_eq(w.result, 65536, "what went in counts");
	put_both(p);
	free(big);
	fenv_down(&e);
}

/* ---- FIFOs ---- */

struct open_job {
	struct fenv *e;
	uint32_t flags;
	struct file *f;
	int result;
};

static void open_job(void *arg)
{
	struct open_job *j = arg;

	j->result = fenv_try_open(j->e->c, "/fifo", j->flags, &j->f);
}

Test(pipe, fifo_opens)
{
	struct open_job r = {.flags = LX_O_RDONLY, .result = 1},
			w = {.flags = LX_O_WRONLY, .result = 1};
	struct fenv e;
	struct file *f, *g;
	struct fiber *fb;
	char b[4];

	fenv_up(&e);
	r.e = w.e = &e;
	cr_assert_eq(workers_start(2, NULL), 0);
	cr_assert_eq(vfs_mknod(e.c, NULL, "/fifo", LX_S_IFIFO | 0600, 0), 0);
	cr_expect_eq(fenv_try_open(e.c, "/fifo", LX_O_WRONLY | LX_O_NONBLOCK, &f), -ENXIO);
	f = fenv_open(&e, "/fifo", LX_O_RDONLY | LX_O_NONBLOCK);
	cr_expect_eq(fenv_poll(f), 0u, "no writer yet is no hang-up");
	cr_expect_eq(fenv_read(&e, f, b, 1), 0);
	g = fenv_open(&e, "/fifo", LX_O_WRONLY | LX_O_NONBLOCK);
	cr_expect_eq(fenv_write(&e, g, "hi", 2), 2);
	file_put(g);
	cr_expect_eq(fenv_poll(f), LX_POLLIN | LX_POLLRDNORM | LX_POLLHUP);
	cr_expect_eq(fenv_read(&e, f, b, 4), 2);
	file_put(f);

	f = fenv_open(&e, "/fifo", LX_O_RDWR);
	cr_expect_eq(fenv_write(&e, f, "xy", 2), 2);
	cr_expect_eq(fenv_read(&e, f, b, 4), 2);
	file_put(f);

	fenv_go(open_job, &r);
	fenv_settle();
	cr_expect_eq(r.result, 1, "waits for a writer");
	fenv_go(open_job, &w);
	fenv_settle();
	cr_expect_eq(r.result, 0);
	cr_expect_eq(w.result, 0);
	file_put(r.f);
	file_put(w.f);

	r.result = 1;
	fb = fenv_go(open_job, &r);
	fenv_settle();
	fiber_interrupt(fb);
	workers_stop();
	cr_expect_eq(r.result, -ERESTARTSYS);
	cr_expect_eq(fenv_try_open(e.c, "/fifo", LX_O_WRONLY | LX_O_NONBLOCK, &f), -ENXIO,
		     "it left nothing behind");
	fenv_down(&e);
}

Test(pipe, reopened_by_its_path)
{
	struct file *p[2], *f;
	struct fenv e;
	char b[4];

	fenv_up(&e);
	make_pipe(&e, 0, p);
	cr_assert_eq(vfs_open_path(e.c, &p[0]->path, LX_O_WRONLY, &f), 0);
	file_put(p[1]);
	cr_expect_eq(fenv_write(&e, f, "ab", 2), 2);
	cr_expect_eq(fenv_read(&e, p[0], b, 4), 2);
	file_put(f);
	cr_expect_eq(fenv_read(&e, p[0], b, 4), 0);
	file_put(p[0]);
	fenv_down(&e);
}

/* ---- moving data ---- */

static void fill_file(struct fenv *e, struct file *f, size_t size)
{
	char *b = malloc(size);

	for (size_t i = 0; i < size; i++)
		b[i] = (char)(i % 251);
	cr_assert_eq(fenv_write(e, f, b, size), (ssize_t)size);
	free(b);
}

static void check_file(struct fenv *e, struct file *f, int64_t at, size_t size, size_t first)
{
	char *b = malloc(size);

	cr_assert_eq(fenv_pread(e, f, b, size, at), (ssize_t)size);
	for (size_t i = 0; i < size; i++)
		cr_assert_eq(b[i], (char)((i + first) % 251), "byte %zu", i);
	free(b);
}

Test(pipe, sendfile)
{
	struct file *in, *out, *p[2], *ap, *ev;
	int64_t off = 1000;
	struct fenv e;
	char b[16];

	fenv_up(&e);
	in = fenv_open(&e, "/in", LX_O_RDWR | LX_O_CREAT);
	out = fenv_open(&e, "/out", LX_O_RDWR | LX_O_CREAT);
	ap = fenv_open(&e, "/out", LX_O_WRONLY | LX_O_APPEND);
	make_pipe(&e, LX_O_NONBLOCK, p);
	cr_assert_eq(eventfd_create(e.c, 0, 0, &ev), 0);
	fill_file(&e, in, 200000);
	cr_expect_eq(vfs_sendfile(e.c, out, NULL, in, &off, 150000), 150000);
	cr_expect_eq(off, 151000);
	check_file(&e, out, 0, 150000, 1000);
	cr_expect_eq(vfs_lseek(in, 0, LX_SEEK_SET), 0);
	cr_expect_eq(vfs_sendfile(e.c, p[1], NULL, in, NULL, 200000), 65536, "what the pipe takes");
	cr_expect_eq(vfs_lseek(in, 0, LX_SEEK_CUR), 65536);
	cr_expect_eq(vfs_sendfile(e.c, p[1], NULL, in, NULL, 10), -EAGAIN);
	cr_expect_eq(vfs_sendfile(e.c, out, NULL, p[0], NULL, 10), -EINVAL);
	cr_expect_eq(vfs_sendfile(e.c, out, NULL, p[0], &off, 10), -ESPIPE);
	cr_expect_eq(vfs_sendfile(e.c, out, NULL, ap, NULL, 10), -EBADF);
	cr_expect_eq(vfs_sendfile(e.c, ap, NULL, in, NULL, 10), -EINVAL);
	cr_expect_eq(vfs_sendfile(e.c, ev, NULL, in, NULL, 10), -EINVAL);
	cr_expect_eq(fenv_read(&e, p[0], b, 16), 16);
	file_put(in);
	file_put(out);
	file_put(ap);
	file_put(ev);
	put_both(p);
	fenv_down(&e);
}

Test(pipe, copy_file_range)
{
	struct file *in, *out, *ap, *d;
	int64_t a = 10, b = 5;
	struct fenv e;

	fenv_up(&e);
	in = fenv_open(&e, "/in", LX_O_RDWR | LX_O_CREAT);
	out = fenv_open(&e, "/out", LX_O_RDWR | LX_O_CREAT);
	ap = fenv_open(&e, "/out", LX_O_WRONLY | LX_O_APPEND);
	d = fenv_open(&e, "/", LX_O_RDONLY);
	fill_file(&e, in, 1000);
	cr_expect_eq(vfs_copy_file_range(e.c, in, &a, out, &b, 5000, 0), 990);
	cr_expect_eq(a, 1000);
	cr_expect_eq(b, 995);
	check_file(&e, out, 5, 990, 10);
	cr_expect_eq(vfs_copy_file_range(e.c, in, &a, out, &b, 1, 0), 0, "at the end");
	cr_expect_eq(vfs_copy_file_range(e.c, in, NULL, out, NULL, 1, 1), -EINVAL);
	cr_expect_eq(vfs_copy_file_range(e.c, d, NULL, out, NULL, 1, 0), -EISDIR);
	cr_expect_eq(vfs_copy_file_range(e.c, in, NULL, ap, NULL, 1, 0), -EBADF);
	a = 0, b = 100;
	cr_expect_eq(vfs_copy_file_range(e.c, in, &a, in, &b, 200, 0), -EINVAL, "overlap");
	cr_expect_eq(vfs_copy_file_range(e.c, in, &a, in, &b, 100, 0), 100);
	a = INT64_MAX - 1, b = 0;
	cr_expect_eq(vfs_copy_file_range(e.c, in, &a, out, &b, 100, 0), 0, "far behind the end");
	file_put(in);
	file_put(out);
	file_put(ap);
	file_put(d);
	fenv_down(&e);
}

Test(pipe, splice_and_tee)
{
	struct file *f, *p[2], *q[2], *ev;
	int64_t off = 100;
	struct fenv e;
	char buf[256];

	fenv_up(&e);
	f = fenv_open(&e, "/f", LX_O_RDWR | LX_O_CREAT);
	fill_file(&e, f, 10000);
	make_pipe(&e, 0, p);
	make_pipe(&e, LX_O_NONBLOCK, q);
	cr_assert_eq(eventfd_create(e.c, 0, 0, &ev), 0);
	cr_expect_eq(vfs_splice(e.c, f, &off, p[1], NULL, 5000, 0), 5000);
	cr_expect_eq(off, 5100);
	cr_expect_eq(vfs_tee(e.c, p[0], q[1], 3000, 0), 3000);
	cr_expect_eq(unread(&e, p[0]), 5000);
	cr_expect_eq(unread(&e, q[0]), 3000);
	cr_expect_eq(vfs_splice(e.c, p[0], NULL, q[1], NULL, 1000, 0), 1000);
	cr_expect_eq(unread(&e, q[0]), 4000);
	off = 20000;
	cr_expect_eq(vfs_splice(e.c, q[0], NULL, f, &off, 9999, 0), 4000);
	check_file(&e, f, 20000, 3000, 100);
	check_file(&e, f, 23000, 1000, 100);
	cr_expect_eq(vfs_splice(e.c, q[0], NULL, f, NULL, 1, 0), -EAGAIN);
	cr_expect_eq(vfs_splice(e.c, p[0], NULL, f, NULL, 1, 99), -EINVAL);
	cr_expect_eq(vfs_splice(e.c, p[0], NULL, f, NULL, 0, 99), 0);
	cr_expect_eq(vfs_splice(e.c, p[0], &off, f, NULL, 1, 0), -ESPIPE);
	cr_expect_eq(vfs_splice(e.c, p[0], NULL, p[1], NULL, 1, 0), -EINVAL);
	cr_expect_eq(vfs_splice(e.c, f, NULL, f, NULL, 1, 0), -EINVAL);
	cr_expect_eq(vfs_splice(e.c, ev, NULL, p[1], NULL, 8, 0), -EINVAL);
	cr_expect_eq(vfs_splice(e.c, p[1], NULL, f, NULL, 8, 0), -EBADF);
	cr_expect_eq(vfs_tee(e.c, p[0], p[1], 1, 0), -EINVAL);
	cr_expect_eq(vfs_tee(e.c, f, p[1], 1, 0), -EINVAL);

	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, (char[]){"gift"}, 4);
	cr_expect_eq(vfs_vmsplice(e.c, q[1], &u, 0), 4);
	uio_init_kernel(&u, &seg, buf, sizeof(buf));
	cr_expect_eq(vfs_vmsplice(e.c, q[0], &u, 0), 4);
	cr_expect(memcmp(buf, "gift", 4) == 0);
	cr_expect_eq(vfs_vmsplice(e.c, q[0], &u, LX_SPLICE_F_NONBLOCK), -EAGAIN);
	cr_expect_eq(vfs_vmsplice(e.c, f, &u, 0), -EBADF);
	file_put(f);
	file_put(ev);
	put_both(p);
	put_both(q);
	fenv_down(&e);
}
