/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs on real directories: the random walk, walls, owners, what others change meanwhile,
 * descriptors.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lx_fcntl.h"
#include "tests/unit/fs_model.h"
#include "vfs/dcache.h"
#include "vfs/flock.h"
#include "vfs/host_calls.h"
#include "vfs/host_watch.h"
#include "vfs/hostfs.h"

static char g_dir[64];

static void up(struct fsenv *e, const struct hostfs_opts *o)
{
	struct super *s;
	int fd, r;

	cr_assert_eq(tmp_make(g_dir), 0);
	tmp_fill(g_dir);
	fd = open(g_dir, O_RDONLY | O_DIRECTORY);
	cr_assert(fd >= 0);
	r = hostfs_new(fd, o, &s);
	cr_assert_eq(r, 0, "%d", r);
	close(fd);
	fsenv_up(e, s);
}

static void down(struct fsenv *e)
{
	fsenv_down(e);
	tmp_remove(g_dir);
}

static unsigned open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	fsenv_start(); /* the clock has descriptors too */
	rewinddir(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* A command in the granted directory, as somebody outside. */
static void outside(const char *cmd)
{
	char text[512];

	snprintf(text, sizeof(text), "cd %s && %s", g_dir, cmd);
	cr_assert_eq(system(text), 0, "%s", cmd);
}

Test(hostfs, random_walk_against_the_host)
{
	/* Half of them with watches, from the beginning; the queue stays. */
	host_watch_set_start(0);
	host_watch_open_queue();

	unsigned before = open_descriptors();

	for (unsigned seed = 1; seed <= 4; seed++) {
		struct hostfs_opts o = {.writable = true, .watch = seed % 2};
		struct fsenv e;
		char model[64], cmd[256];

		if (seed > 2)
			hostfs_set_limits(2, 1); /* descriptors come and go */
		up(&e, &o);
		cr_assert_eq(tmp_make(model), 0);
		snprintf(cmd, sizeof(cmd), "cp -a %s/. %s", g_dir, model);
		cr_assert_eq(system(cmd), 0);
		model_walk(&e, model, seed, 1200, true);
		/* ... and the granted directory holds what it should. */
		snprintf(cmd, sizeof(cmd), "diff -r --no-dereference -x fifo %s %s", g_dir, model);
		cr_expect_eq(system(cmd), 0);
		tmp_remove(model);
		down(&e);
	}
	cr_expect_eq(open_descriptors(), before);
}

Test(hostfs, reads)
{
	static const struct hostfs_opts kinds[] = {{.immutable = true}, {0}, {.writable = true}};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct kstat st, st2;
		struct fsenv e;

		up(&e, &kinds[i]);
		cr_expect_str_eq(fsm_text(&e, "/a/one"), "one\n");
		cr_expect_str_eq(fsm_text(&e, "/c/link"), "one\n");
		cr_expect_str_eq(fsm_list(&e, "/"), ". .. a b c ");
		cr_expect_str_eq(fsm_list(&e, "/b"), ". .. dangling fifo three y ");
		cr_expect_str_eq(fsm_text(&e, "/b/dangling"), "!2");
		cr_expect_eq(fsm_stat(&e, "/b/three", &st), 0);
		cr_expect_eq(fsm_stat(&e, "/c/again", &st2), 0);
		cr_expect_eq(st.ino, st2.ino);
		cr_expect_eq(st.nlink, 2);
		cr_expect_eq(fsm_put(&e, "/a/new", "x"), kinds[i].writable ? 0 : -EROFS);
		down(&e);
	}
}

Test(hostfs, symlinks_do_not_escape)
{
	struct hostfs_opts o = {.writable = true};
	struct fsenv e;
	char secret[64], cmd[512];

	cr_assert_eq(tmp_make(secret), 0);
	up(&e, &o);
	snprintf(cmd, sizeof(cmd),
		 "echo secret >%s/s; ln -s %s/s abs; ln -s ../%s/s rel; ln -s %s out; ln -s .. up; "
		 "ln -s /etc/passwd pw; ln -s /proc/self/root/etc/passwd magic; mkdir etc2; "
		 "ln -s ../../../../../../../../etc etc2/e",
		 secret, secret, secret + 5, secret);
	outside(cmd);
	cr_expect_str_eq(fsm_text(&e, "/abs"), "!2");
	cr_expect_str_eq(fsm_text(&e, "/rel"), "!2");
	cr_expect_str_eq(fsm_text(&e, "/out/s"), "!2");
	cr_expect_str_eq(fsm_text(&e, "/pw"), "!2");
	cr_expect_str_eq(fsm_text(&e, "/magic"), "!2");
	cr_expect_str_eq(fsm_text(&e, "/etc2/e/passwd"), "!2");
	cr_expect_str_eq(fsm_text(&e, "/up/a/one"), "one\n"); /* ".." at the root stays */
	cr_expect_str_eq(fsm_text(&e, "/../../../a/one"), "one\n");
	cr_expect_eq(fsm_put(&e, "/abs", "overwritten"), -ENOENT);
	snprintf(cmd, sizeof(cmd), "grep -q '^secret$' %s/s", secret);
	outside(cmd);
	/* A directory that becomes a symlink to the outside under our feet. */
	cr_expect_eq(vfs_mkdir(&e.ctx, NULL, "/trap", 0755), 0);
	cr_expect_eq(fsm_put(&e, "/trap/s", "inside"), 0);
	dcache_shrink(0);
	struct path p;

	cr_assert_eq(path_lookup(&e.ctx, NULL, "/trap", 0, &p), 0);
	snprintf(cmd, sizeof(cmd), "mv trap moved; ln -s %s trap", secret);
	outside(cmd);
	cr_expect_str_eq(fsm_text(&e, "/trap/s"), "!2");
	path_put(&p);
	down(&e);
	tmp_remove(secret);
}

Test(hostfs, special_files_are_not_opened)
{
	struct hostfs_opts o = {.writable = true};
	struct kstat st;
	struct fsenv e;
	struct file *f;

	up(&e, &o);
	cr_expect_eq(fsm_stat(&e, "/b/fifo", &st), 0);
	cr_expect(LX_S_ISFIFO(st.mode));
	cr_expect_eq(fsm_open(&e, "/b/fifo", LX_O_RDONLY | LX_O_NONBLOCK, 0, &f), -EACCES);
	cr_expect_eq(fsm_open(&e, "/b/fifo", LX_O_RDWR, 0, &f), -EACCES);
	/* One that a guest makes is the guests' own. */
	cr_expect_eq(vfs_mknod(&e.ctx, NULL, "/mine", LX_S_IFIFO | 0600, 0), 0);
	dcache_shrink(0);
	cr_assert_eq(fsm_open(&e, "/mine", LX_O_RDWR, 0, &f), 0);
	file_put(f);
	outside("test -p mine");
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/mine"), 0);
	cr_expect_eq(vfs_mknod(&e.ctx, NULL, "/null", LX_S_IFCHR | 0600, lx_makedev(1, 3)), -EPERM);
	outside("test ! -e null");
	/* No set-id programs for the host. */
	struct path p;
	struct iattr attr = {.valid = ATTR_MODE, .mode = 04755};

	cr_assert_eq(path_lookup(&e.ctx, NULL, "/a/one", 0, &p), 0);
	cr_expect_eq(vfs_setattr(&e.ctx, &p, &attr), -EPERM);
	path_put(&p);
	down(&e);
}

Test(hostfs, names_that_are_granted)
{
	static const char *const only[] = {"a", "c", NULL};
	struct hostfs_opts o = {.writable = true, .only = only};
	struct fsenv e;

	up(&e, &o);
	outside("mkdir ab; echo x >b2");
	cr_expect_str_eq(fsm_list(&e, "/"), ". .. a c ");
	cr_expect_str_eq(fsm_text(&e, "/a/one"), "one\n");
	cr_expect_str_eq(fsm_text(&e, "/b/three"), "!2");
	cr_expect_str_eq(fsm_text(&e, "/b2"), "!2");
	cr_expect_eq(vfs_mkdir(&e.ctx, NULL, "/new", 0755), -EACCES);
	cr_expect_eq(vfs_mkdir(&e.ctx, NULL, "/b", 0755), -EACCES);
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/a", NULL, "/z", 0), -EACCES);
	down(&e);
}

Test(hostfs, owners)
{
	struct hostfs_opts o = {
		.writable = true,
		.uid_map = {{.host = getuid(), .guest = 7, .count = 1},
			    {.host = 5000, .guest = 100, .count = 10}},
		.gid_map = {{.host = getgid(), .guest = 8, .count = 1}},
	};
	struct kstat st;
	struct fsenv e;
	struct path p;

	if (getuid() != 0)
		cr_skip_test("as root only");
	up(&e, &o);
	outside("echo x >f; chown 5003:777 f; echo y >g; chown 12345 g");
	cr_expect_eq(fsm_stat(&e, "/a/one", &st), 0);
	cr_expect_eq(st.uid, 7);
	cr_expect_eq(st.gid, 8);
	cr_expect_eq(fsm_stat(&e, "/f", &st), 0);
	cr_expect_eq(st.uid, 103);
	cr_expect_eq(st.gid, 65534);
	cr_expect_eq(fsm_stat(&e, "/g", &st), 0);
	cr_expect_eq(st.uid, 65534);
	cr_assert_eq(path_lookup(&e.ctx, NULL, "/f", 0, &p), 0);
	cr_expect_eq(vfs_chown(&e.ctx, &p, 105, UINT32_MAX), 0);
	outside("test $(stat -c %u f) = 5005");
	cr_expect_eq(vfs_chown(&e.ctx, &p, 0, UINT32_MAX), -EPERM);
	path_put(&p);
	down(&e);
}

Test(hostfs, others_change_the_tree)
{
	struct hostfs_opts o = {.writable = true};
	struct kstat st;
	struct fsenv e;
	struct file *f;
	char buf[16];

	up(&e, &o);
	cr_expect_str_eq(fsm_text(&e, "/a/one"), "one\n");
	outside("echo other >a/one");
	cr_expect_str_eq(fsm_text(&e, "/a/one"), "other\n");
	cr_expect_eq(fsm_stat(&e, "/a/one", &st), 0);
	cr_expect_eq(st.size, 6);
	cr_expect_str_eq(fsm_text(&e, "/a/late"), "!2");
	outside("echo late >a/late");
	cr_expect_str_eq(fsm_text(&e, "/a/late"), "late\n");
	/* Replaced while open: the open one stays what it is. */
	cr_assert_eq(fsm_open(&e, "/a/one", LX_O_RDONLY, 0, &f), 0);
	outside("echo replaced >t; mv t a/one");
	cr_expect_eq(fsm_pread(&e, f, buf, 16, 0), 6);
	cr_expect_str_eq(fsm_text(&e, "/a/one"), "replaced\n");
	file_put(f);
	/* A file becomes a directory, a directory a file. */
	outside("rm a/one; mkdir a/one; echo x >a/one/in; rm -r c; echo file >c");
	cr_expect_str_eq(fsm_text(&e, "/a/one/in"), "x\n");
	cr_expect_str_eq(fsm_text(&e, "/c"), "file\n");
	/* Directories change places: what we remember would be a ring. */
	outside("mkdir -p p/q/r; echo 1 >p/q/r/f");
	cr_expect_str_eq(fsm_text(&e, "/p/q/r/f"), "1\n");
	outside("mv p/q q; mv p q/r/p");
	cr_expect_str_eq(fsm_text(&e, "/q/r/f"), "1\n");
	cr_expect_str_eq(fsm_list(&e, "/q/r/p"), ". .. ");
	outside("rm -rf q a b");
	cr_expect_str_eq(fsm_text(&e, "/q/r/f"), "!2");
	cr_expect_str_eq(fsm_list(&e, "/"), ". .. c ");
	down(&e);
}

Test(hostfs, tmpfile)
{
	struct hostfs_opts o = {.writable = true};
	struct fsenv e;
	struct file *f;
	char buf[8];

	up(&e, &o);
	int r = fsm_open(&e, "/a", LX_O_TMPFILE | LX_O_RDWR, 0600, &f);

	cr_assert(r == 0 || r == -EOPNOTSUPP, "%d", r);
	if (r == 0) {
		cr_expect_eq(fsm_pwrite(&e, f, "hello", 5, 0), 5);
		cr_expect_eq(fsm_pread(&e, f, buf, 8, 0), 5);
		cr_expect_str_eq(fsm_list(&e, "/a"), ". .. one x ");
		file_put(f);
	}
	down(&e);
}

/* Deeper than the descriptors that may be kept. */
Test(hostfs, deep_and_wide)
{
	struct hostfs_opts o = {.writable = true};
	unsigned before = open_descriptors();
	struct path at, next;
	struct fsenv e;

	hostfs_set_limits(20, 10);
	up(&e, &o);
	cr_assert_eq(path_lookup(&e.ctx, NULL, "/", 0, &at), 0);
	for (unsigned i = 0; i < 1500; i++) {
		cr_assert_eq(vfs_mkdir(&e.ctx, &at, "d", 0755), 0);
		cr_assert_eq(path_lookup(&e.ctx, &at, "d", 0, &next), 0, "level %u", i);
		path_put(&at);
		at = next;
	}
	cr_expect(open_descriptors() < before + 100);
	/* All directories on the way were closed meanwhile. */
	for (unsigned i = 0; i < 30; i++) {
		char name[32];

		snprintf(name, sizeof(name), "/x%u", i);
		cr_assert_eq(vfs_mkdir(&e.ctx, NULL, name, 0755), 0);
		cr_expect_str_eq(fsm_list(&e, name), ". .. ");
	}
	struct open_how how = {.flags = LX_O_CREAT | LX_O_RDWR, .mode = 0600};
	struct file *f;

	cr_assert_eq(vfs_open(&e.ctx, &at, "f", &how, &f), 0);
	cr_expect_eq(fsm_pwrite(&e, f, "x", 1, 0), 1);
	file_put(f);
	path_put(&at);
	down(&e);
	cr_expect_eq(open_descriptors(), before);
}

Test(hostfs, mapping)
{
	struct hostfs_opts o = {.writable = true};
	struct file_map m = {.size = 4096, .prot = LX_PROT_READ | LX_PROT_WRITE, .shared = true};
	struct fsenv e;
	struct file *f;

	up(&e, &o);
	cr_assert_eq(fsm_open(&e, "/a/one", LX_O_RDWR, 0, &f), 0);
	cr_assert_eq(f->ops->mmap(f, &m), 0);
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m.host_fd,
		       (off_t)m.host_offset);

	cr_assert_neq(p, MAP_FAILED);
	cr_expect_neq(m.key, 0);
	p[0] = 'O';
	munmap(p, 4096);
	file_put(f);
	cr_expect_str_eq(fsm_text(&e, "/a/one"), "One\n");
	cr_assert_eq(fsm_open(&e, "/a/one", LX_O_RDONLY, 0, &f), 0);
	m.prot = LX_PROT_READ;
	cr_assert_eq(f->ops->mmap(f, &m), 0);
	cr_expect(!(m.max_prot & LX_PROT_WRITE));
	file_put(f);
	down(&e);
}

/* Does what the host has just told of a file hold for the next guest call? A preemption may make it
 * too old at once. */
static bool sights_hold(const char *path)
{
	const int fd = open(path, O_RDONLY);
	struct host_stat st;
	bool holds = false;

	cr_assert_geq(fd, 0);
	for (unsigned i = 0; i < 1000000 && !holds; i++) {
		cr_assert_eq(host_stat_fd(fd, &st), 0);
		holds = host_sight_holds(st.sight);
	}
	close(fd);
	return holds;
}

/* Programs and libraries are mapped private: what is learned from those is nobody's promise. */
Test(hostfs, only_shared_mappings_end_sights)
{
	struct hostfs_opts o = {.writable = true};
	struct file_map m = {.size = 4096, .prot = LX_PROT_READ | LX_PROT_EXEC};
	struct fsenv e;
	struct file *f;

	up(&e, &o);
	cr_assert_eq(fsm_open(&e, "/a/one", LX_O_RDONLY, 0, &f), 0);
	cr_assert_eq(f->ops->mmap(f, &m), 0);
	cr_expect(sights_hold(g_dir));
	m.shared = true;
	cr_assert_eq(f->ops->mmap(f, &m), 0);
	cr_expect_not(sights_hold(g_dir));
	m.shared = false;
	cr_assert_eq(f->ops->mmap(f, &m), 0);
	cr_expect_not(sights_hold(g_dir), "the file is still mapped shared");
	file_put(f);
	cr_expect(sights_hold(g_dir));
	down(&e);
}

/* Host calls fail one after the other: no crash, no descriptor left. */
/* ---- windows ---- */

static void pattern(unsigned char *p, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		p[i] = (unsigned char)(seed + i * 7 + (i >> 12) * 13);
}

static void outside_write(const char *name, const void *p, size_t size, off_t off)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", g_dir, name);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	cr_assert(fd >= 0);
	cr_assert_eq(pwrite(fd, p, size, off), (ssize_t)size);
	close(fd);
}

static void host_cut(const char *name, off_t size)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", g_dir, name);
	cr_assert_eq(truncate(path, size), 0);
}

/* Reads [off, off + size) of @name through moat, and as the host has it: the same. */
static void same_as_host(struct fsenv *e, struct file *f, const char *name, size_t size, off_t off)
{
	static unsigned char got[1 << 20], want[1 << 20];
	char path[128];
	ssize_t n, w;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", g_dir, name);
	fd = open(path, O_RDONLY);
	w = pread(fd, want, size, off);
	close(fd);
	memset(got, 0xee, size);
	n = fsm_pread(e, f, got, size, off);
	cr_assert_eq(n, w, "%zu bytes at %ld: %zd, not %zd", size, (long)off, n, w);
	cr_assert(memcmp(got, want, (size_t)MAX(n, 0)) == 0, "%zu bytes at %ld", size, (long)off);
}

#define BIG ((size_t)5 * 512 * 1024 + 777) /* two windows and a half */

static struct file *windowed(struct fsenv *e, const struct hostfs_opts *o)
{
	unsigned char *data = malloc(BIG);
	struct file *f;

	up(e, o);
	pattern(data, BIG, 1);
	outside_write("big", data, BIG, 0);
	free(data);
	cr_assert_eq(fsm_open(e, "/big", LX_O_RDONLY, 0, &f), 0);
	return f;
}

Test(hostfs, windows)
{
	struct hostfs_opts o = {.immutable = true};
	unsigned char change[100];
	unsigned seed = 7;
	struct fsenv e;
	struct file *f = windowed(&e, &o);

	/* Once, and in large pieces: no window. */
	for (size_t at = 0; at < BIG; at += 1 << 17)
		same_as_host(&e, f, "big", 1 << 17, (off_t)at);
	cr_expect_eq(hostfs_windows(), 0);
	for (unsigned i = 0; i < 3000; i++) {
		seed = seed * 1103515245u + 12345u;
		same_as_host(&e, f, "big", 1 + (seed >> 8) % (i % 2 ? 100 : 70000),
			     (off_t)((seed >> 4) % (BIG + 5000)));
	}
	cr_expect_eq(hostfs_windows(), 3);
	/* What changes on the host is seen, though nobody promised. */
	memset(change, 'c', sizeof(change));
	outside_write("big", change, sizeof(change), 4090);
	same_as_host(&e, f, "big", 4096, 4000);
	/* It grows: beyond the end that fstat tells, and across it. */
	outside_write("big", change, sizeof(change), (off_t)BIG);
	same_as_host(&e, f, "big", 4096, (off_t)BIG - 100);
	same_as_host(&e, f, "big", 4096, (off_t)BIG + 10);
	same_as_host(&e, f, "big", 64, (off_t)BIG - 64);
	cr_expect_eq(hostfs_windows(), 3);
	file_put(f);
	down(&e);
	cr_expect_eq(hostfs_windows(), 0);
}

/* What lies in a window can be had without a copy: within the file, and within one window. */
Test(hostfs, windows_are_given)
{
	struct hostfs_opts o = {.immutable = true};
	struct fsenv e;
	struct file *f = windowed(&e, &o);
	static char buf[8192];
	struct stat st;
	uint64_t first;

	cr_expect_eq(fsm_pread_given(f, buf, 4096, 0), 4096);
	cr_expect_eq(g_fsm_given.count, 0, "there is none yet");
	for (unsigned i = 0; i < 8; i++) {
		same_as_host(&e, f, "big", 4096, 0);
		same_as_host(&e, f, "big", 4096, 1 << 20);
		same_as_host(&e, f, "big", 4096, 2 << 20);
	}
	cr_expect_eq(fsm_pread_given(f, buf, 4096, 100), 4096);
	cr_expect_eq(g_fsm_given.count, 1);
	first = g_fsm_given.file.id;
	g_fsm_given.take = true;
	memset(buf, 0xee, sizeof(buf));
	cr_expect_eq(fsm_pread_given(f, buf, 4096, (1 << 20) + 100), 4096);
	cr_expect_eq(g_fsm_given.count, 1);
	cr_expect_eq(buf[0], (char)0xee, "nobody has copied");
	cr_expect(g_fsm_given.file.id != first && g_fsm_given.file.id != 0);
	cr_expect_eq(g_fsm_given.file.start, 1 << 20);
	cr_expect_eq(g_fsm_given.file.size, 1 << 20);
	cr_expect_eq(g_fsm_given.pos, (1 << 20) + 100);
	cr_expect_eq(g_fsm_given.size, 4096);
	cr_expect_eq(fstat(g_fsm_given.file.host_fd, &st), 0);
	cr_expect_eq(st.st_size, (off_t)BIG);
	/* Across two windows, across the end, behind it, and nothing. */
	cr_expect_eq(fsm_pread_given(f, buf, 4096, (1 << 20) - 100), 4096);
	cr_expect_eq(g_fsm_given.count, 0);
	cr_expect_eq(fsm_pread_given(f, buf, 4096, (off_t)BIG - 100), 100);
	cr_expect_eq(g_fsm_given.count, 0);
	cr_expect_eq(fsm_pread_given(f, buf, 4096, (off_t)BIG), 0);
	cr_expect_eq(fsm_pread_given(f, buf, 0, 100), 0);
	cr_expect_eq(g_fsm_given.count, 0);
	file_put(f);
	down(&e);
}

Test(hostfs, window_of_a_file_that_is_cut)
{
	struct hostfs_opts o = {.immutable = true};
	struct fsenv e;
	struct file *f = windowed(&e, &o);
	unsigned char more[4096];

	for (unsigned i = 0; i < 8; i++) {
		same_as_host(&e, f, "big", 4096, 0);
		same_as_host(&e, f, "big", 4096, 1 << 20);
	}
	cr_expect_eq(hostfs_windows(), 2);
	host_cut("big", 3 * 4096);
	same_as_host(&e, f, "big", 4096, 1 << 20);
	cr_expect_eq(hostfs_windows(), 0, "%u", hostfs_windows());
	same_as_host(&e, f, "big", 4 * 4096, 0);
	same_as_host(&e, f, "big", 4096, 3 * 4096);
	host_cut("big", 0);
	same_as_host(&e, f, "big", 4096, 0);
	memset(more, 'm', sizeof(more));
	outside_write("big", more, sizeof(more), 0);
	for (unsigned i = 0; i < 8; i++)
		same_as_host(&e, f, "big", 4096, 0);
	cr_expect_eq(hostfs_windows(), 0);
	file_put(f);
	down(&e);
}

Test(hostfs, windows_of_many_files)
{
	struct hostfs_opts o = {.immutable = true};
	unsigned char data[20000];
	struct file *f[100];
	struct fsenv e;
	char name[32];

	up(&e, &o);
	for (unsigned n = 0; n < ARRAY_SIZE(f); n++) {
		snprintf(name, sizeof(name), "/many%u", n);
		pattern(data, sizeof(data), n);
		outside_write(name, data, sizeof(data), 0);
		cr_assert_eq(fsm_open(&e, name, LX_O_RDONLY, 0, &f[n]), 0);
	}
	for (unsigned round = 0; round < 3; round++)
		for (unsigned n = 0; n < ARRAY_SIZE(f); n++) {
			snprintf(name, sizeof(name), "many%u", n);
			for (unsigned i = 0; i < 6; i++)
				same_as_host(&e, f[n], name, 4000, i * 1000);
			cr_assert(hostfs_windows() <= 64);
		}
	cr_expect_eq(hostfs_windows(), 64);
	for (unsigned n = 0; n < ARRAY_SIZE(f); n++)
		file_put(f[n]);
	down(&e);
	cr_expect_eq(hostfs_windows(), 0);
}

/* What the host may change at any time is asked of the host each time. */
Test(hostfs, no_windows_on_what_others_change)
{
	static const struct hostfs_opts kinds[] = {{0}, {.writable = true}};

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct fsenv e;
		struct file *f = windowed(&e, &kinds[k]);

		for (unsigned i = 0; i < 20; i++)
			same_as_host(&e, f, "big", 4096, 0);
		cr_expect_eq(hostfs_windows(), 0);
		file_put(f);
		down(&e);
	}
}

Test(hostfs, failing_host_calls)
{
	unsigned before = open_descriptors();

	for (unsigned n = 1; n < 80; n++) {
		struct hostfs_opts o = {.writable = true};
		struct fsenv e;

		up(&e, &o);
		fail_set(FAIL_HOST, n);
		(void)!vfs_mkdir(&e.ctx, NULL, "/new", 0755);
		(void)fsm_text(&e, "/b/y/z/deep");
		(void)!fsm_put(&e, "/new/f", "hello");
		(void)!vfs_rename(&e.ctx, NULL, "/a", NULL, "/c/a", 0);
		(void)fsm_list(&e, "/b");
		fail_set(FAIL_HOST, 0);
		cr_expect_str_eq(fsm_text(&e, "/b/three"), "three\n", "%u", n);
		down(&e);
	}
	cr_expect_eq(open_descriptors(), before);
}

static int lock_range(struct fsenv *e, struct file *f, int type, int64_t start, int64_t len)
{
	const struct lx_flock fl = {.l_type = (int16_t)type, .l_start = start, .l_len = len};

	return lock_set(&e->ctx, f, LX_F_OFD_SETLK, &fl);
}

/* What somebody outside is told of /a/one: the start of a lock that is in his way, -1: none. */
static long in_the_way(int fd, int type, long start, long len)
{
	struct flock fl = {.l_type = (short)type, .l_start = start, .l_len = len};

	cr_assert_eq(fcntl(fd, F_OFD_GETLK, &fl), 0);
	return fl.l_type == F_UNLCK ? -1 : (long)fl.l_start;
}

/* Host calls fail one after the other: a guest holds no more than the host does for it, and nothing
 * stays. */
Test(hostfs, failing_locks)
{
	unsigned before = open_descriptors();

	for (unsigned n = 1; n < 20; n++) {
		struct hostfs_opts o = {.writable = true};
		struct file *reader, *writer;
		struct fsenv e;
		char path[128];
		int fd, r[6];

		up(&e, &o);
		snprintf(path, sizeof(path), "%s/a/one", g_dir);
		fd = open(path, O_RDWR);
		cr_assert(fd >= 0);
		cr_assert_eq(fsm_open(&e, "/a/one", LX_O_RDONLY, 0, &reader), 0);
		cr_assert_eq(lock_range(&e, reader, LX_F_RDLCK, 500, 1), 0);
		cr_assert_eq(fsm_open(&e, "/a/one", LX_O_RDWR, 0, &writer), 0);
		fail_set(FAIL_HOST, n);
		r[0] = lock_range(&e, reader, LX_F_RDLCK, 0, 10);
		r[1] = lock_range(&e, writer, LX_F_RDLCK, 20, 10);
		r[2] = lock_range(&e, writer, LX_F_WRLCK, 40, 10);
		r[3] = lock_range(&e, reader, LX_F_UNLCK, 2, 2);
		r[4] = flock_apply(&e.ctx, reader, LX_LOCK_SH | LX_LOCK_NB);
		r[5] = flock_apply(&e.ctx, reader, LX_LOCK_EX | LX_LOCK_NB);
		fail_set(FAIL_HOST, 0);
		cr_expect_eq(in_the_way(fd, F_WRLCK, 500, 1), 500, "%u", n);
		cr_expect_eq(in_the_way(fd, F_WRLCK, 0, 2), r[0] ? -1 : 0, "%u", n);
		cr_expect_eq(in_the_way(fd, F_WRLCK, 20, 10), r[1] ? -1 : 20, "%u", n);
		cr_expect_eq(in_the_way(fd, F_RDLCK, 40, 10), r[2] ? -1 : 40, "%u", n);
		cr_expect_eq(flock(fd, LOCK_SH | LOCK_NB) == 0, r[5] != 0, "%u", n);
		cr_expect_eq(flock(fd, LOCK_UN), 0);
		cr_expect_eq(r[3], 0, "%u: it is the guest's to unlock", n);
		(void)r[4];
		file_put(writer);
		file_put(reader);
		cr_expect_eq(in_the_way(fd, F_WRLCK, 0, 0), -1, "%u", n);
		cr_expect_eq(flock(fd, LOCK_EX | LOCK_NB), 0, "%u", n);
		close(fd);
		down(&e);
	}
	cr_expect_eq(open_descriptors(), before);
}
