/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files on inherited descriptors: pipes, sockets, a terminal, regular files.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hostpoll.h"
#include "base/lx_fcntl.h"
#include "tests/unit/fs_model.h"
#include "vfs/hostfd.h"
#include "vfs/tmpfs.h"

static void up(struct fsenv *e)
{
	struct tmpfs_opts o = TMPFS_OPTS_DEFAULT;
	struct super *s;

	cr_assert_eq(tmpfs_new(&o, &s), 0);
	fsenv_up(e, s);
	cr_assert_eq(hostpoll_start(), 0);
}

static void down(struct fsenv *e)
{
	hostpoll_stop();
	fsenv_down(e);
}

static struct file *from(struct fsenv *e, int fd)
{
	struct file *f;
	int r = hostfd_new(&e->ctx, fd, NULL, &f);

	cr_assert_eq(r, 0, "%d", r);
	return f;
}

/* Through the description's own offset. */
static ssize_t rd(struct fsenv *e, struct file *f, void *buf, size_t size)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, buf, size);
	return vfs_read(&e->ctx, f, &u, NULL);
}

static ssize_t wr(struct fsenv *e, struct file *f, const char *text, size_t size)
{
	struct uio_seg seg;
	struct uio u;
	char *copy = malloc(size + 1);

	memcpy(copy, text, size);
	uio_init_kernel(&u, &seg, copy, size);
	ssize_t r = vfs_write(&e->ctx, f, &u, NULL);

	free(copy);
	return r;
}

struct later {
	int fd;
	size_t size;
};

static void *write_later(void *arg)
{
	struct later *l = arg;

	usleep(50000);
	if (write(l->fd, "later", 5) != 5)
		abort();
	return NULL;
}

static void *drain_later(void *arg)
{
	struct later *l = arg;
	char buf[4096];
	ssize_t n;

	usleep(50000);
	while (l->size && (n = read(l->fd, buf, sizeof(buf))) > 0)
		l->size -= (size_t)n;
	return NULL;
}

static void stream_both_ways(int a, int b)
{
	static char big[300000];
	struct later l = {.fd = b};
	struct fsenv e;
	struct file *r, *w;
	pthread_t t;
	char buf[16];

	up(&e);
	r = from(&e, a);
	w = from(&e, b);
	cr_expect(r->ops->stream);
	cr_expect(!(vfs_poll(r, NULL) & LX_POLLIN));
	cr_expect(vfs_poll(w, NULL) & LX_POLLOUT);
	/* Waiting for data that comes later. */
	pthread_create(&t, NULL, write_later, &l);
	cr_expect_eq(rd(&e, r, buf, 16), 5);
	pthread_join(t, NULL);
	/* Without waiting. */
	atomic_fetch_or(&r->flags, LX_O_NONBLOCK);
	cr_expect_eq(rd(&e, r, buf, 16), -EAGAIN);
	cr_expect(!(fcntl(a, F_GETFL) & O_NONBLOCK), "the shared description was changed");
	cr_expect_eq(wr(&e, w, "hello", 5), 5);
	cr_expect(vfs_poll(r, NULL) & LX_POLLIN);
	cr_expect_eq(rd(&e, r, buf, 16), 5);
	/* More than fits: the rest waits. */
	l = (struct later){.fd = a, .size = sizeof(big)};
	pthread_create(&t, NULL, drain_later, &l);
	cr_expect_eq(wr(&e, w, big, sizeof(big)), (ssize_t)sizeof(big));
	pthread_join(t, NULL);
	cr_expect_eq(l.size, 0);
	file_put(w);
	close(b);
	cr_expect_eq(rd(&e, r, buf, 16), 0);
	file_put(r);
	/* Ours was only a duplicate. */
	cr_expect_eq(fcntl(a, F_GETFD), 0);
	close(a);
	down(&e);
}

Test(hostfd, pipe)
{
	int p[2];

	cr_assert_eq(pipe(p), 0);
	stream_both_ways(p[0], p[1]);
}

Test(hostfd, named_pipe)
{
	char dir[64], path[128];

	cr_assert_eq(tmp_make(dir), 0);
	snprintf(path, sizeof(path), "%s/fifo", dir);
	cr_assert_eq(mkfifo(path, 0600), 0);
	int r = open(path, O_RDONLY | O_NONBLOCK), w = open(path, O_WRONLY);

	fcntl(r, F_SETFL, O_RDONLY);
	stream_both_ways(r, w);
	tmp_remove(dir);
}

Test(hostfd, socket)
{
	int p[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
	stream_both_ways(p[0], p[1]);
}

Test(hostfd, broken_pipe)
{
	struct fsenv e;
	struct file *w;
	int p[2];

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(pipe(p), 0);
	up(&e);
	w = from(&e, p[1]);
	close(p[0]);
	cr_expect_eq(wr(&e, w, "x", 1), -EPIPE);
	cr_expect(vfs_poll(w, NULL) & LX_POLLERR);
	file_put(w);
	close(p[1]);
	down(&e);
}

Test(hostfd, terminal)
{
	struct umem um = {NULL, NULL};
	struct fsenv e;
	struct file *f;
	struct kstat st;
	int master, slave;
	char termios[64], buf[32];
	unsigned short ws[4];
	struct later l;
	pthread_t t;

	cr_assert_eq(openpty(&master, &slave, NULL, NULL, NULL), 0);
	up(&e);
	f = from(&e, slave);
	cr_expect_eq(inode_getattr(f->inode, &st), 0);
	cr_expect(LX_S_ISCHR(st.mode));
	cr_expect_eq(f->ops->ioctl(&e.ctx, f, 0x5401, (uint64_t)(uintptr_t)termios, &um), 0);
	cr_expect_eq(f->ops->ioctl(&e.ctx, f, 0x5402, (uint64_t)(uintptr_t)termios, &um), 0);
	cr_expect_eq(f->ops->ioctl(&e.ctx, f, 0x5413, (uint64_t)(uintptr_t)ws, &um), 0);
	cr_expect_eq(f->ops->ioctl(&e.ctx, f, 0x540f, (uint64_t)(uintptr_t)buf, &um), -ENOTTY);
	cr_expect_eq(f->ops->ioctl(&e.ctx, f, 0x5412, (uint64_t)(uintptr_t)buf, &um), -EPERM);
	cr_expect_eq(f->ops->ioctl(&e.ctx, f, 0x540e, 0, &um), -ENOTTY);
	cr_expect_eq(wr(&e, f, "out\n", 4), 4);
	cr_expect_eq(read(master, buf, sizeof(buf)), 5);
	atomic_fetch_or(&f->flags, LX_O_NONBLOCK);
	cr_expect_eq(rd(&e, f, buf, 16), -EAGAIN);
	atomic_fetch_and(&f->flags, ~(uint32_t)LX_O_NONBLOCK);
	cr_expect_eq(write(master, "in\n", 3), 3);
	cr_expect_eq(rd(&e, f, buf, 16), 3);
	l.fd = master;
	pthread_create(&t, NULL, write_later, &l);
	pthread_join(t, NULL);
	cr_expect_eq(write(master, "\n", 1), 1);
	cr_expect_eq(rd(&e, f, buf, 16), 6);
	file_put(f);
	close(master);
	close(slave);
	down(&e);
}

/* A new file in @dir, which is made, open here as it is returned and in the sandbox as *f. */
static int shared_up(struct fsenv *e, char dir[64], struct file **f)
{
	char path[128];
	int fd;

	cr_assert_eq(tmp_make(dir), 0);
	snprintf(path, sizeof(path), "%s/f", dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	up(e);
	*f = from(e, fd);
	return fd;
}

Test(hostfd, regular_file_shares_its_offset)
{
	struct file_map m = {.size = 4096, .prot = LX_PROT_READ, .shared = true};
	struct fsenv e;
	struct file *f, *again;
	char dir[64], buf[32] = "";
	int64_t off = 0;
	int fd = shared_up(&e, dir, &f);

	cr_expect(!f->ops->stream);
	cr_expect_eq(write(fd, "one ", 4), 4);
	cr_expect_eq(wr(&e, f, "two ", 4), 4);
	cr_expect_eq(write(fd, "three", 5), 5);
	cr_expect_eq(fsm_pread(&e, f, buf, 32, 0), 13);
	cr_expect_str_eq(buf, "one two three");
	cr_expect_eq(rd(&e, f, buf, 32), 0);
	cr_expect_eq(vfs_lseek(f, 4, LX_SEEK_SET), 4);
	cr_expect_eq(read(fd, buf, 3), 3);
	cr_expect_eq(rd(&e, f, buf, 32), 6);
	cr_expect_eq(vfs_lseek(f, 0, LX_SEEK_CUR), 13);
	cr_expect_eq(fsm_pwrite(&e, f, "ONE", 3, off), 3);
	cr_expect_eq(f->ops->mmap(f, &m), 0);
	cr_expect_eq(vfs_ftruncate(&e.ctx, f, 3), 0);
	/* Opened anew: an offset of its own. */
	cr_assert_eq(vfs_open_path(&e.ctx, &f->path, LX_O_RDONLY, &again), 0);
	cr_expect_eq(rd(&e, again, buf, 32), 3);
	cr_expect_eq(vfs_lseek(again, 0, LX_SEEK_CUR), 3);
	file_put(again);
	file_put(f);
	close(fd);
	down(&e);
	tmp_remove(dir);
}

/* As make does with its standard output: what others write then comes behind it. */
Test(hostfd, appending_moves_the_shared_offset)
{
	struct fsenv e;
	struct file *f;
	char dir[64], buf[32] = "";
	int fd = shared_up(&e, dir, &f);

	cr_expect_eq(write(fd, "one ", 4), 4);
	atomic_fetch_or(&f->flags, LX_O_APPEND);
	cr_expect_eq(wr(&e, f, "two ", 4), 4);
	cr_expect_eq(write(fd, "three", 5), 5);
	cr_expect_eq(fsm_pread(&e, f, buf, 32, 0), 13);
	cr_expect_str_eq(buf, "one two three");
	file_put(f);
	close(fd);
	down(&e);
	tmp_remove(dir);
}

/* RLIMIT_FSIZE is held against the place that others' writes by the description have led to. */
Test(hostfd, size_limit_at_the_shared_offset)
{
	struct fsenv e;
	struct file *f;
	char dir[64], buf[32] = "";
	int fd = shared_up(&e, dir, &f);

	cr_expect_eq(write(fd, "one ", 4), 4);
	e.ctx.fsize_limit = 6;
	cr_expect_eq(wr(&e, f, "two ", 4), 2);
	cr_expect_eq(wr(&e, f, "two ", 4), -EFBIG);
	cr_expect_eq(write(fd, "three", 5), 5);
	cr_expect_eq(wr(&e, f, "four", 4), -EFBIG);
	cr_expect_eq(lseek(fd, 2, SEEK_SET), 2);
	cr_expect_eq(wr(&e, f, "E", 1), 1);
	atomic_fetch_or(&f->flags, LX_O_APPEND);
	cr_expect_eq(wr(&e, f, "five", 4), -EFBIG);
	e.ctx.fsize_limit = UINT64_MAX;
	cr_expect_eq(wr(&e, f, "!", 1), 1);
	cr_expect_eq(fsm_pread(&e, f, buf, 32, 0), 12);
	cr_expect_str_eq(buf, "onE twthree!");
	file_put(f);
	close(fd);
	down(&e);
	tmp_remove(dir);
}

Test(hostfd, refused)
{
	struct fsenv e;
	struct file *f;
	int dir = open("/", O_RDONLY), null = open("/dev/null", O_RDWR);
	char buf[4];

	up(&e);
	cr_expect_eq(hostfd_new(&e.ctx, 9999, NULL, &f), -EBADF);
	cr_expect_eq(hostfd_new(&e.ctx, dir, NULL, &f), -EISDIR);
	f = from(&e, null);
	cr_expect_eq(rd(&e, f, buf, 4), 0);
	cr_expect_eq(wr(&e, f, "abcd", 4), 4);
	cr_expect(vfs_poll(f, NULL) & LX_POLLOUT);
	file_put(f);
	close(dir);
	close(null);
	down(&e);
}
