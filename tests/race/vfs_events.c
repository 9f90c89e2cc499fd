/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes, eventfds, epoll, locks, inotify and AF_UNIX under many fibers at once: nothing is lost,
 * nothing is delivered twice, nobody sleeps for ever, and what is closed meanwhile does no harm.
 */
#include <string.h>

#include "base/clock.h"
#include "netstack/socket.h"
#include "netstack/unix.h"
#include "tests/race/vfs_fibers.h"
#include "vfs/epoll.h"
#include "vfs/eventfd.h"
#include "vfs/flock.h"
#include "vfs/fsnotify.h"
#include "vfs/inotify.h"
#include "vfs/pipe.h"
#include "vfs/tmpfs.h"

#define WORKERS 3

static _Atomic uint64_t g_sum;

/* ---- pipes: records of any size up to PIPE_BUF are never mixed ---- */

struct pipe_test {
	struct file *p[2];
	unsigned rounds;
};

static void pipe_writer(void *arg)
{
	struct pipe_test *t = arg;
	unsigned seed = (unsigned)(uintptr_t)&seed;
	unsigned char buf[256];

	for (unsigned i = 0; i < t->rounds; i++) {
		unsigned n = 1 + race_random(&seed, 255);

		/* The length in front, so that a reader of whole records can check. */
		memset(buf, (int)n, n);
		atomic_fetch_add(&g_sum, n);
		race_check(put(t->p[1], buf, n) == (ssize_t)n);
	}
	file_put(t->p[1]);
	done();
}

/* One reader at a time takes a record: its first byte, then the rest. */
static struct fmutex g_record;

static void pipe_reader(void *arg)
{
	struct pipe_test *t = arg;
	unsigned char buf[256];

	for (;;) {
		fmutex_lock(&g_record);
		ssize_t n = get(t->p[0], buf, 1);

		race_check(n >= 0);
		if (n == 1) {
			for (size_t have = 1; have < buf[0]; have += (size_t)n) {
				n = get(t->p[0], buf + have, buf[0] - have);
				race_check(n > 0);
			}
			for (unsigned i = 1; i < buf[0]; i++)
				race_check(buf[i] == buf[0]);
			atomic_fetch_sub(&g_sum, buf[0]);
		}
		fmutex_unlock(&g_record);
		if (n == 0)
			break;
	}
	done();
}

/* Takes what comes, as one of many. */
static void pipe_taker(void *arg)
{
	struct pipe_test *t = arg;
	unsigned char buf[512];
	ssize_t n;

	while ((n = get(t->p[0], buf, sizeof(buf))) > 0)
		atomic_fetch_sub(&g_sum, (uint64_t)n);
	race_check(n == 0);
	done();
}

static void test_pipes(void)
{
	struct pipe_test t = {.rounds = race_rounds(100000)};

	fmutex_init(&g_record);
	for (unsigned round = 0; round < 2; round++) {
		atomic_store(&g_sum, 0);
		race_check(pipe_create(&g_ctx, 0, &t.p[0], &t.p[1]) == 0);
		if (round == 1)
			race_check(pipe_set_size(&g_ctx, t.p[0], 4096) == 4096);
		for (unsigned i = 0; i < 4; i++) {
			file_get(t.p[1]);
			go(pipe_writer, &t);
			go(round ? pipe_taker : pipe_reader, &t);
		}
		file_put(t.p[1]);
		wait_all("pipes");
		race_check(atomic_load(&g_sum) == 0);
		file_put(t.p[0]);
	}
	fmutex_fini(&g_record);
}

/* ---- epoll: each count added to an eventfd is found by someone ---- */

#define EVENTS 8

struct epoll_test {
	struct file *ep, *ev[EVENTS];
	unsigned rounds;
	_Atomic unsigned writers;
};

static void epoll_adder(void *arg)
{
	struct epoll_test *t = arg;
	unsigned seed = (unsigned)(uintptr_t)&seed;

	for (unsigned i = 0; i < t->rounds; i++) {
		atomic_fetch_add(&g_sum, 1);
		race_check(eventfd_signal(t->ev[race_random(&seed, EVENTS)], 1) == 0);
		if (race_random(&seed, 50) == 0)
			fiber_yield();
	}
	atomic_fetch_sub(&t->writers, 1);
	done();
}

static void epoll_taker(void *arg)
{
	struct epoll_test *t = arg;

	while (atomic_load(&t->writers) > 0 || atomic_load(&g_sum) > 0) {
		struct lx_epoll_event out[3];
		struct uio_seg seg;
		struct uio u;

		uio_init_kernel(&u, &seg, out, sizeof(out));

		int n = epoll_wait_file(t->ep, &u, 3, clock_mono_ns() + 200 * NSEC_PER_MSEC);

		race_check(n >= 0);
		for (int i = 0; i < n; i++) {
			uint64_t v;

			while (get(t->ev[out[i].data], &v, sizeof(v)) == 8)
				atomic_fetch_sub(&g_sum, v);
		}
	}
	done();
}

/* Registers and closes other files of the same instance, and of one around it. */
static void epoll_meddler(void *arg)
{
	struct epoll_test *t = arg;

	while (atomic_load(&t->writers) > 0) {
		struct lx_epoll_event ev = {.events = LX_POLLIN | LX_EPOLLET, .data = 0};
		struct file *f, *outer;
		int r;

		race_check(eventfd_create(&g_ctx, 0, 0, &f) == 0);
		race_check(epoll_create_file(&g_ctx, 0, &outer) == 0);
		race_check(epoll_ctl_file(&g_ctx, t->ep, LX_EPOLL_CTL_ADD, 99, f, &ev) == 0);
		r = epoll_ctl_file(&g_ctx, outer, LX_EPOLL_CTL_ADD, 5, t->ep, &ev);
		race_check(r == 0);
		(void)vfs_poll(outer, NULL);
		race_check(epoll_ctl_file(&g_ctx, t->ep, LX_EPOLL_CTL_MOD, 99, f, &ev) == 0);
		file_put(f);
		file_put(outer);
		fiber_yield();
	}
	done();
}

static void test_epoll(void)
{
	static const uint32_t modes[] = {LX_EPOLLET, 0};

	for (unsigned m = 0; m < ARRAY_SIZE(modes); m++) {
		struct epoll_test t = {.rounds = race_rounds(100000), .writers = 3};

		atomic_store(&g_sum, 0);
		race_check(epoll_create_file(&g_ctx, 0, &t.ep) == 0);
		for (unsigned i = 0; i < EVENTS; i++) {
			struct lx_epoll_event ev = {.events = LX_POLLIN | modes[m], .data = i};

			race_check(eventfd_create(&g_ctx, 0, LX_EFD_NONBLOCK, &t.ev[i]) == 0);
			race_check(epoll_ctl_file(&g_ctx, t.ep, LX_EPOLL_CTL_ADD, (int)i, t.ev[i],
						  &ev) == 0);
		}
		for (unsigned i = 0; i < 3; i++) {
			go(epoll_adder, &t);
			go(epoll_taker, &t);
		}
		go(epoll_meddler, &t);
		wait_all("epoll");
		race_check(atomic_load(&g_sum) == 0);
		for (unsigned i = 0; i < EVENTS; i++)
			file_put(t.ev[i]);
		file_put(t.ep);
	}
}

/* ---- locks: inside of them one is alone ---- */

struct lock_test {
	struct file *f[4];
	unsigned rounds;
	int kind; /* 0: flock, 1: OFD */
	unsigned inside, total;
};

struct lock_arg {
	struct lock_test *t;
	unsigned who;
};

static int lock_one(struct lock_test *t, struct file *f, bool on)
{
	struct lx_flock fl = {.l_type = on ? LX_F_WRLCK : LX_F_UNLCK, .l_start = 5, .l_len = 3};

	if (t->kind == 0)
		return flock_apply(&g_ctx, f, on ? LX_LOCK_EX : LX_LOCK_UN);
	return lock_set(&g_ctx, f, LX_F_OFD_SETLKW, &fl);
}

static void locker(void *arg)
{
	struct lock_arg *a = arg;
	struct lock_test *t = a->t;

	for (unsigned i = 0; i < t->rounds; i++) {
		race_check(lock_one(t, t->f[a->who], true) == 0);
		race_check(__atomic_fetch_add(&t->inside, 1, __ATOMIC_SEQ_CST) == 0);
		t->total++;
		if (i % 8 == 0)
			fiber_yield();
		race_check(__atomic_fetch_sub(&t->inside, 1, __ATOMIC_SEQ_CST) == 1);
		race_check(lock_one(t, t->f[a->who], false) == 0);
	}
	done();
}

static void test_locks(void)
{
	struct open_how how = {.flags = LX_O_RDWR | LX_O_CREAT, .mode = 0600};

	for (int kind = 0; kind < 2; kind++) {
		struct lock_test t = {.rounds = race_rounds(30000), .kind = kind};
		struct lock_arg a[4];

		for (unsigned i = 0; i < 4; i++) {
			race_check(vfs_open(&g_ctx, NULL, "/lock", &how, &t.f[i]) == 0);
			a[i] = (struct lock_arg){&t, i};
			go(locker, &a[i]);
		}
		wait_all("locks");
		race_check(t.total == 4 * t.rounds);
		for (unsigned i = 0; i < 4; i++)
			file_put(t.f[i]);
	}
}

/* ---- inotify: watches come and go while events fly ---- */

struct notify_test {
	struct file *in, *f;
	unsigned rounds;
	_Atomic bool stop;
};

static void notify_watcher(void *arg)
{
	struct notify_test *t = arg;
	unsigned seed = (unsigned)(uintptr_t)&seed;

	while (!atomic_load(&t->stop)) {
		uint32_t once = race_random(&seed, 2) ? LX_IN_ONESHOT : 0;
		int wd = inotify_add_watch_path(&g_ctx, t->in, "/watched", LX_IN_MODIFY | once);
		struct file *other;

		race_check(wd > 0);
		if (race_random(&seed, 4) == 0) {
			race_check(inotify_create(&g_ctx, 0, &other) == 0);
			race_check(inotify_add_watch_path(&g_ctx, other, "/watched",
							  LX_IN_ALL_EVENTS) > 0);
			file_put(other);
		}
		int r = inotify_rm_watch_file(t->in, wd);

		race_check(r == 0 || r == -EINVAL);
		fiber_yield();
	}
	done();
}

static void notify_writer(void *arg)
{
	struct notify_test *t = arg;
	char buf[4096];

	for (unsigned i = 0; i < t->rounds; i++) {
		int64_t off = 0;
		struct uio_seg seg;
		struct uio u;

		uio_init_kernel(&u, &seg, (char[1]){'x'}, 1);
		race_check(vfs_write(&g_ctx, t->f, &u, &off) == 1);
		if (i % 16 == 0) {
			ssize_t n = get(t->in, buf, sizeof(buf));

			race_check(n > 0 || n == -EAGAIN);
			fiber_yield();
		}
	}
	atomic_store(&t->stop, true);
	done();
}

static void test_inotify(void)
{
	struct open_how how = {.flags = LX_O_RDWR | LX_O_CREAT, .mode = 0600};
	struct notify_test t = {.rounds = race_rounds(100000)};

	race_check(inotify_create(&g_ctx, LX_IN_NONBLOCK, &t.in) == 0);
	race_check(vfs_open(&g_ctx, NULL, "/watched", &how, &t.f) == 0);
	go(notify_watcher, &t);
	go(notify_watcher, &t);
	go(notify_writer, &t);
	go(notify_writer, &t);
	wait_all("inotify");
	file_put(t.in);
	file_put(t.f);
}

/* ---- AF_UNIX ---- */

struct stream_test {
	struct file *s[2];
	size_t size;
};

static void stream_sender(void *arg)
{
	struct stream_test *t = arg;
	unsigned seed = 7;
	unsigned char buf[5000];
	size_t at = 0;

	while (at < t->size) {
		size_t n = MIN(
			(size_t)(1 + race_random(&seed, race_random(&seed, 3) ? 100 : sizeof(buf))),
			t->size - at);

		for (size_t i = 0; i < n; i++)
			buf[i] = (unsigned char)((at + i) % 253);
		race_check(put(t->s[0], buf, n) == (ssize_t)n);
		at += n;
	}
	file_put(t->s[0]);
	done();
}

static void stream_receiver(void *arg)
{
	struct stream_test *t = arg;
	unsigned char buf[7000];
	unsigned seed = 9;
	size_t at = 0;
	ssize_t n;

	while ((n = get(t->s[1], buf, 1 + race_random(&seed, sizeof(buf)))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			race_check(buf[i] == (at + (size_t)i) % 253);
		at += (size_t)n;
	}
	race_check(n == 0 && at == t->size);
	file_put(t->s[1]);
	done();
}

/* Makes circles of sockets in flight, receives some of them, forgets others. */
static void circle_maker(void *arg)
{
	unsigned rounds = *(unsigned *)arg, seed = (unsigned)(uintptr_t)&seed;
	struct vfs_ctx c = g_ctx;

	c.files = fdtable_new();
	race_check(c.files != NULL);
	for (unsigned i = 0; i < rounds; i++) {
		struct {
			struct lx_cmsghdr h;
			int32_t fd[2];
		} ctl = {.h = {LX_CMSG_LEN(8), LX_SOL_SOCKET, LX_SCM_RIGHTS}, .fd = {0, 1}};
		struct sock_msg m = {.control = &ctl, .control_size = sizeof(ctl)};
		struct file *s[2];
		struct uio_seg seg;
		struct uio u;
		char b[8];

		race_check(sock_create_pair(&c, LX_AF_UNIX, LX_SOCK_STREAM, 0, s) == 0);
		race_check(fd_install(c.files, s[0], 0, 0, 16) == 0);
		race_check(fd_install(c.files, s[1], 0, 0, 16) == 1);
		uio_init_kernel(&u, &seg, b, 1);
		b[0] = 'x';
		m.uio = &u;
		race_check(sock_sendmsg(&c, s[race_random(&seed, 2)], &m) == 1);
		for (unsigned k = race_random(&seed, 3); k > 0; k--) {
			struct sock_msg in = {.has_control = true, .flags = LX_MSG_DONTWAIT};
			ssize_t n;

			if (race_random(&seed, 2))
				in.flags |= LX_MSG_PEEK;
			uio_init_kernel(&u, &seg, b, 1);
			in.uio = &u;
			n = sock_recvmsg(&c, s[race_random(&seed, 2)], &in);
			race_check(n == 1 || n == -EAGAIN);
			sock_msg_fini(&in);
		}
		race_check(fd_close(&c, c.files, 0) == 0);
		race_check(fd_close(&c, c.files, 1) == 0);
	}
	fdtable_put(c.files, &c);
	done();
}

static struct file *g_server;

static void connector(void *arg)
{
	unsigned rounds = *(unsigned *)arg;
	static const char name[] = "\1\0\0race";

	for (unsigned i = 0; i < rounds; i++) {
		struct file *f;
		char b;

		race_check(sock_create(&g_ctx, LX_AF_UNIX, LX_SOCK_STREAM, 0, &f) == 0);
		race_check(sock_connect(&g_ctx, f, name, sizeof(name) - 1) == 0);
		race_check(put(f, "q", 1) == 1);
		race_check(get(f, &b, 1) == 1 && b == 'a');
		file_put(f);
	}
	done();
}

static void server(void *arg)
{
	unsigned rounds = *(unsigned *)arg;

	for (unsigned i = 0; i < rounds; i++) {
		struct file *f;
		char b;

		race_check(sock_accept(&g_ctx, g_server, 0, &f, NULL) == 0);
		race_check(get(f, &b, 1) == 1 && b == 'q');
		race_check(put(f, "a", 1) == 1);
		race_check(get(f, &b, 1) == 0);
		file_put(f);
	}
	done();
}

static void test_unix(void)
{
	struct stream_test st = {.size = race_rounds(100) * 1000000u};
	unsigned circles = race_rounds(20000), conns = race_rounds(20000);

	race_check(sock_create_pair(&g_ctx, LX_AF_UNIX, LX_SOCK_STREAM, 0, st.s) == 0);
	go(stream_sender, &st);
	go(stream_receiver, &st);
	for (unsigned i = 0; i < 3; i++)
		go(circle_maker, &circles);
	race_check(sock_create(&g_ctx, LX_AF_UNIX, LX_SOCK_STREAM, 0, &g_server) == 0);
	race_check(sock_bind(&g_ctx, g_server, "\1\0\0race", 7) == 0);
	race_check(sock_listen(&g_ctx, g_server, 1) == 0);
	for (unsigned i = 0; i < 3; i++) {
		go(connector, &conns);
		go(server, &conns);
	}
	wait_all("unix");
	file_put(g_server);
}

int main(void)
{
	struct tmpfs_opts o = TMPFS_OPTS_DEFAULT;
	struct super *s;

	race_check(clock_start(CLOCK_KIND_HOST, 0) == 0);
	vfs_init();
	netstack_init();
	race_check(workers_start(WORKERS, NULL) == 0);
	race_check(tmpfs_new(&o, &s) == 0);

	struct mount_ns *ns = mount_ns_new(s, 0);

	race_check(ns != NULL);

	struct path root = {ns->root, ns->root->root};
	struct fs_struct *fs = fs_new(&root, &root, 022);
	struct fdtable *files = fdtable_new();

	g_ctx = (struct vfs_ctx){.cred = cred_new(0, 0, LX_CAP_ALL),
				 .fs = fs,
				 .ns = ns,
				 .fsize_limit = UINT64_MAX,
				 .tgid = 1,
				 .tid = 1,
				 .files = files};
	race_check(fs && files && g_ctx.cred);
	test_pipes();
	test_epoll();
	test_locks();
	test_inotify();
	test_unix();
	workers_stop();
	fdtable_put(files, &g_ctx);
	fs_put(fs);
	mount_ns_put(ns);
	super_put(s);
	cred_put(g_ctx.cred);
	clock_stop();
	return 0;
}
