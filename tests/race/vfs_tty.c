/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals under many fibers at once: readers, writers, typists, changes of settings, hang-ups,
 * opens and closes of either side. Nobody sleeps for ever, nothing is used after it was freed, and
 * what both sides exchange undisturbed arrives whole.
 */
#include <string.h>

#include "base/clock.h"
#include "base/lx_fcntl.h"
#include "tests/race/vfs_fibers.h"
#include "vfs/mount.h"
#include "vfs/tmpfs.h"
#include "vfs/tty.h"
#include "vfs/vfs.h"

#define WORKERS 3
#define PTYS 3

static long ctl(struct file *f, unsigned cmd, void *arg)
{
	struct umem um = {0};

	return f->ops->ioctl(&g_ctx, f, cmd, (uint64_t)(uintptr_t)arg, &um);
}

static struct file *try_open(const char *path, uint32_t flags)
{
	struct open_how how = {.flags = flags | LX_O_NOCTTY};
	struct file *f = NULL;

	return vfs_open(&g_ctx, NULL, path, &how, &f) == 0 ? f : NULL;
}

static struct file *open_master(char slave[32])
{
	struct file *m = try_open("/pts/ptmx", LX_O_RDWR);
	int32_t off = 0, n;

	race_check(m && ctl(m, LX_TIOCSPTLCK, &off) == 0 && ctl(m, LX_TIOCGPTN, &n) == 0);
	snprintf(slave, 32, "/pts/%d", n);
	return m;
}

static void make_raw(struct file *f)
{
	struct lx_termios2 t;

	race_check(ctl(f, LX_TCGETS2, &t) == 0);
	t.c_iflag = t.c_oflag = t.c_lflag = 0;
	race_check(ctl(f, LX_TCSETS2, &t) == 0);
}

/* ---- both ways at once, undisturbed ---- */

struct pair {
	struct file *master, *slave;
	unsigned rounds;
};

/* A stream of bytes that counts; @to writes, @from checks. */
static void send_stream(struct file *to, unsigned total, unsigned seed)
{
	unsigned sent = 0;
	uint8_t buf[3000];

	while (sent < total) {
		unsigned n = MIN(1 + race_random(&seed, sizeof(buf)), total - sent);

		for (unsigned i = 0; i < n; i++)
			buf[i] = (uint8_t)((sent + i) * 7);
		ssize_t r = put(to, buf, n);

		race_check(r > 0);
		sent += (unsigned)r;
	}
}

static void check_stream(struct file *from, unsigned total, unsigned seed)
{
	unsigned got = 0;
	uint8_t buf[6000];

	while (got < total) {
		ssize_t r = get(from, buf, 1 + race_random(&seed, sizeof(buf)));

		race_check(r > 0);
		for (ssize_t i = 0; i < r; i++)
			race_check(buf[i] == (uint8_t)((got + (unsigned)i) * 7));
		got += (unsigned)r;
	}
	race_check(got == total);
}

static void slave_writes(void *arg)
{
	struct pair *p = arg;

	send_stream(p->slave, p->rounds, 1);
	done();
}

static void master_writes(void *arg)
{
	struct pair *p = arg;

	send_stream(p->master, p->rounds, 2);
	done();
}

static void master_reads(void *arg)
{
	struct pair *p = arg;

	check_stream(p->master, p->rounds, 3);
	done();
}

static void slave_reads(void *arg)
{
	struct pair *p = arg;

	check_stream(p->slave, p->rounds, 4);
	done();
}

static void test_streams(void)
{
	struct pair p[PTYS];
	char name[32];

	for (unsigned i = 0; i < PTYS; i++) {
		p[i].rounds = race_rounds(2000000);
		p[i].master = open_master(name);
		p[i].slave = try_open(name, LX_O_RDWR);
		race_check(p[i].slave);
		make_raw(p[i].slave);
		go(slave_writes, &p[i]);
		go(master_writes, &p[i]);
		go(master_reads, &p[i]);
		go(slave_reads, &p[i]);
	}
	wait_all("streams");
	for (unsigned i = 0; i < PTYS; i++) {
		file_put(p[i].slave);
		file_put(p[i].master);
	}
}

/* ---- everything at once ---- */

struct chaos {
	struct file *master;
	char name[32];
	unsigned rounds, seed;
	_Atomic unsigned users;
	_Atomic bool stop;
};

static void user_reads(void *arg)
{
	struct chaos *c = arg;
	char buf[700];
	struct file *f;

	while (!atomic_load(&c->stop) && (f = try_open(c->name, LX_O_RDWR))) {
		for (unsigned i = 0; i < 20 && get(f, buf, sizeof(buf)) > 0; i++)
			(void)vfs_poll(f, NULL);
		file_put(f);
	}
	done();
}

static void user_writes(void *arg)
{
	struct chaos *c = arg;
	unsigned seed = c->seed + 1;
	char buf[700];
	struct file *f;

	memset(buf, 'w', sizeof(buf));
	while (!atomic_load(&c->stop) && (f = try_open(c->name, LX_O_RDWR))) {
		for (unsigned i = 0; i < 20; i++) {
			if (put(f, buf, 1 + race_random(&seed, sizeof(buf))) <= 0)
				break;
		}
		file_put(f);
	}
	done();
}

static void user_changes(void *arg)
{
	struct chaos *c = arg;
	unsigned seed = c->seed + 2;
	struct file *f;

	while (!atomic_load(&c->stop) && (f = try_open(c->name, LX_O_RDWR))) {
		struct lx_termios2 t;
		struct lx_winsize ws = {.ws_row = (uint16_t)race_random(&seed, 100)};
		int32_t n;

		if (ctl(f, LX_TCGETS2, &t) == 0) {
			t.c_lflag ^= race_random(&seed, 2) ? LX_ICANON : LX_ECHO;
			t.c_iflag ^= race_random(&seed, 2) ? LX_IXON : LX_IUTF8;
			(void)ctl(f, LX_TCSETS2, &t);
		}
		(void)ctl(f, LX_TIOCSWINSZ, &ws);
		(void)ctl(f, LX_TIOCINQ, &n);
		(void)ctl(f, LX_TCFLSH, (void *)(uintptr_t)race_random(&seed, 3));
		(void)ctl(f, LX_TCXONC, (void *)(uintptr_t)LX_TCOON);
		if (race_random(&seed, 50) == 0)
			(void)ctl(f, LX_TIOCVHANGUP, NULL);
		file_put(f);
		fiber_yield();
	}
	done();
}

static void master_drains(void *arg)
{
	struct chaos *c = arg;
	char buf[5000];

	/* An error: the slave is closed at the moment. */
	while (!atomic_load(&c->stop)) {
		if (get(c->master, buf, sizeof(buf)) <= 0)
			fiber_yield();
	}
	done();
}

/* Types until it is enough, then closes the master below everybody. */
static void typist(void *arg)
{
	static const char keys[] = "abc\n\r\003\004\021\177\025 \026";
	struct chaos *c = arg;
	unsigned seed = c->seed + 3;

	atomic_fetch_or(&c->master->flags, LX_O_NONBLOCK);
	for (unsigned i = 0; i < c->rounds; i++) {
		(void)put(c->master, &keys[race_random(&seed, sizeof(keys) - 1)], 1);
		(void)vfs_poll(c->master, NULL);
		fiber_yield();
	}
	atomic_store(&c->stop, true);
	done();
}

static void test_chaos(unsigned seed)
{
	static struct chaos c[PTYS];

	for (unsigned i = 0; i < PTYS; i++) {
		c[i] = (struct chaos){.rounds = race_rounds(20000), .seed = seed + 10 * i};
		c[i].master = open_master(c[i].name);
		go(user_reads, &c[i]);
		go(user_writes, &c[i]);
		go(user_changes, &c[i]);
		go(master_drains, &c[i]);
		go(typist, &c[i]);
	}
	/* Readers may wait for ever for who does not type any more: the close wakes them. */
	for (unsigned i = 0; i < PTYS; i++) {
		while (!atomic_load(&c[i].stop))
			usleep(1000);
	}
	usleep(10000);
	for (unsigned i = 0; i < PTYS; i++)
		file_put(c[i].master);
	wait_all("chaos");
}

/* ---- */

static void setup(void *unused)
{
	struct tmpfs_opts o = TMPFS_OPTS_DEFAULT;
	struct super *s;
	struct path root;

	(void)unused;
	race_check(tmpfs_new(&o, &s) == 0);
	g_ctx.ns = mount_ns_new(s, 0);
	race_check(g_ctx.ns != NULL);
	super_put(s);
	root = (struct path){g_ctx.ns->root, g_ctx.ns->root->root};
	g_ctx.fs = fs_new(&root, &root, 0);
	g_ctx.cred = cred_new(0, 0, LX_CAP_ALL);
	g_ctx.fsize_limit = UINT64_MAX;
	race_check(g_ctx.fs && g_ctx.cred);
	race_check(vfs_mkdir(&g_ctx, NULL, "/pts", 0755) == 0);
	race_check(vfs_mount(&g_ctx, "devpts", "/pts", "devpts", 0, "ptmxmode=666") == 0);
	done();
}

static void teardown(void *unused)
{
	(void)unused;
	race_check(vfs_umount(&g_ctx, "/pts", 0) == 0);
	fs_put(g_ctx.fs);
	mount_ns_put(g_ctx.ns);
	cred_put(g_ctx.cred);
	done();
}

int main(void)
{
	race_check(clock_start(CLOCK_KIND_HOST, 0) == 0);
	vfs_init();
	race_check(workers_start(WORKERS, NULL) == 0);
	go(setup, NULL);
	wait_all("setup");
	test_streams();
	for (unsigned i = 0; i < 3; i++)
		test_chaos(i);
	go(teardown, NULL);
	wait_all("teardown");
	workers_stop();
	return 0;
}
