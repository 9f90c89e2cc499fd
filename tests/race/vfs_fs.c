/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of tmpfs, hostfs and overlay, used by many fibers on several workers at once: reads beside
 * writes and truncation, first writes to one overlay file, names made and removed, descriptors that
 * are closed and opened behind.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fiber.h"
#include "tests/race/race.h"
#include "vfs/dcache.h"
#include "vfs/hostfs.h"
#include "vfs/overlay.h"
#include "vfs/tmpfs.h"
#include "vfs/tmpfs_pages.h"

#define FIBERS 8

static struct vfs_ctx g_ctx;
static unsigned g_rounds;
static _Atomic unsigned g_left;
static bool g_read_only;
static bool g_whole; /* reads and writes of one page do not mix */

static ssize_t io(struct file *f, bool write, void *buf, size_t size, int64_t off)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, buf, size);
	return write ? vfs_write(&g_ctx, f, &u, &off) : vfs_read(&g_ctx, f, &u, &off);
}

static bool take_name(struct dir_ctx *ctx, const char *name, size_t len, uint64_t ino,
		      unsigned dtype, int64_t next)
{
	(void)ctx;
	(void)ino;
	(void)dtype;
	(void)next;
	return memchr(name, '\0', len) == NULL;
}

/* A page holds one value at a time: what is read of it must be one that somebody wrote, or a hole.
 */
static void use_file(struct file *f, unsigned *seed, bool whole)
{
	unsigned char buf[4096];
	unsigned page = race_random(seed, 200);
	ssize_t n;

	switch (race_random(seed, 8)) {
	case 0:
	case 1:
	case 2:
		memset(buf, 'a' + (int)race_random(seed, 26), sizeof(buf));
		n = io(f, true, buf, sizeof(buf), (int64_t)page * 4096);
		race_check(n == 4096 || n == -ENOSPC);
		break;
	case 3: {
		int r = vfs_ftruncate(&g_ctx, f, (int64_t)race_random(seed, 200) * 4096);

		race_check(r == 0);
		break;
	}
	case 4: {
		struct file_map m = {.size = 4096, .prot = LX_PROT_READ, .shared = true};

		if (race_random(seed, 20) == 0)
			race_check(f->ops->mmap(f, &m) == 0 && m.host_fd >= 0);
		break;
	}
	default:
		n = io(f, false, buf, sizeof(buf), (int64_t)page * 4096);
		race_check(n >= 0);
		for (ssize_t i = 1; whole && i < n; i++)
			race_check(buf[i] == buf[0]);
		break;
	}
}

static void one_round(unsigned *seed, bool whole)
{
	struct open_how how = {.flags = LX_O_RDWR | LX_O_CREAT, .mode = 0600};
	struct dir_ctx dc = {.emit = take_name};
	char a[32], b[32];
	struct file *f;
	int r;

	snprintf(a, sizeof(a), "/d%u/f%u", race_random(seed, 3), race_random(seed, 6));
	snprintf(b, sizeof(b), "/d%u/f%u", race_random(seed, 3), race_random(seed, 6));
	if (g_read_only)
		how.flags = LX_O_RDONLY;
	switch (g_read_only ? race_random(seed, 2) * 4 : race_random(seed, 8)) {
	case 0:
		how.flags = LX_O_RDONLY | LX_O_DIRECTORY;
		r = vfs_open(&g_ctx, NULL, race_random(seed, 2) ? "/d0" : "/d1", &how, &f);
		race_check(r == 0);
		r = vfs_iterate(f, &dc);
		race_check(r == 0);
		file_put(f);
		break;
	case 1:
		r = vfs_unlink(&g_ctx, NULL, a);
		race_check(r == 0 || r == -ENOENT);
		break;
	case 2:
		r = vfs_rename(&g_ctx, NULL, a, NULL, b, 0);
		race_check(r == 0 || r == -ENOENT);
		break;
	case 3:
		r = vfs_link(&g_ctx, NULL, a, NULL, b, 0);
		race_check(r == 0 || r == -ENOENT || r == -EEXIST);
		break;
	default:
		r = vfs_open(&g_ctx, NULL, a, &how, &f);
		race_check(r == 0 || r == -ENOENT);
		if (r)
			break;
		for (unsigned i = 0; i < 10; i++) {
			if (g_read_only) {
				char buf[64];

				race_check(io(f, false, buf, sizeof(buf), 0) >= 0);
			} else {
				use_file(f, seed, whole);
			}
		}
		file_put(f);
		break;
	}
	if (race_random(seed, 50) == 0)
		dcache_shrink(0);
}

static void run(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < g_rounds; i++) {
		one_round(&seed, g_whole);
		if (i % 16 == 0)
			fiber_yield();
	}
	atomic_fetch_sub(&g_left, 1);
}

static void shell(const char *dir, const char *what)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), "cd %s && %s", dir, what);
	race_check(system(cmd) == 0);
}

/* Runs all fibers on @s, whose reference it takes. */
static void race_on(const char *name, struct super *s, bool make_dirs)
{
	struct mount_ns *ns = mount_ns_new(s, 0);
	struct path root = {ns->root, ns->root->root};

	super_put(s);
	g_ctx = (struct vfs_ctx){.cred = cred_new(0, 0, LX_CAP_ALL),
				 .fs = fs_new(&root, &root, 0),
				 .ns = ns,
				 .fsize_limit = UINT64_MAX};
	race_check(g_ctx.cred && g_ctx.fs);
	if (make_dirs)
		for (unsigned i = 0; i < 3; i++) {
			char dir[8];

			snprintf(dir, sizeof(dir), "/d%u", i);
			race_check(vfs_mkdir(&g_ctx, NULL, dir, 0755) == 0);
		}
	atomic_store(&g_left, FIBERS);
	race_check(workers_start(3, NULL) == 0);
	for (unsigned i = 0; i < FIBERS; i++) {
		struct fiber *f = fiber_new(run, (void *)(uintptr_t)(i * 7919 + 1), NULL, "race");

		race_check(f != NULL);
		fiber_start(f);
	}
	workers_stop();
	race_check(atomic_load(&g_left) == 0);
	fs_put(g_ctx.fs);
	mount_ns_put(ns);
	cred_put(g_ctx.cred);
	race_check(tmpfs_pages_in_use() == 0);
	printf("%s: ok\n", name);
}

int main(void)
{
	struct hostfs_opts lower_opts = {.immutable = true}, rw = {.writable = true};
	struct tmpfs_opts o = TMPFS_OPTS_DEFAULT;
	struct super *s, *lower;
	char dir[] = "/tmp/moat-race-XXXXXX";
	int fd;

	g_rounds = race_rounds(4000);
	race_check(clock_start(CLOCK_KIND_HOST, 0) == 0);
	vfs_init();
	race_check(mkdtemp(dir) != NULL);
	shell(dir, "mkdir d0 d1 d2 && for d in d0 d1 d2; do for f in 0 1 2 3 4 5; do "
		   "head -c 300000 /dev/zero >$d/f$f; done; done; ln -f d0/f0 d1/f0");
	g_whole = true;
	race_check(tmpfs_new(&o, &s) == 0);
	race_on("tmpfs", s, true);

	fd = open(dir, O_RDONLY | O_DIRECTORY);
	race_check(fd >= 0);
	race_check(hostfs_new(fd, &lower_opts, &lower) == 0);
	race_check(overlay_new(lower, &o, &s) == 0);
	super_put(lower);
	race_on("overlay", s, false);

	g_whole = false;
	hostfs_set_limits(1, 2);
	race_check(hostfs_new(fd, &lower_opts, &s) == 0);
	g_read_only = true;
	race_on("hostfs, immutable", s, false);
	g_read_only = false;
	race_check(hostfs_new(fd, &rw, &s) == 0);
	race_on("hostfs, writable", s, false);
	close(fd);
	shell(dir, "rm -rf $PWD");
	return 0;
}
