/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tmpfs as a tree: against the host, limits, big directories, and that nothing is left behind.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/lx_fcntl.h"
#include "tests/unit/fs_model.h"
#include "vfs/tmpfs.h"
#include "vfs/tmpfs_pages.h"

static void statfs(struct fsenv *e, struct kstatfs *st)
{
	struct path p;

	cr_assert_eq(path_lookup(&e->ctx, NULL, "/", 0, &p), 0);
	cr_assert_eq(vfs_statfs(&p, st), 0);
	path_put(&p);
}

Test(tmpfs, random_walk_against_the_host)
{
	for (unsigned seed = 1; seed <= 6; seed++) {
		struct fsenv e;
		char dir[64];

		cr_assert_eq(tmp_make(dir), 0);
		fsenv_up_tmpfs(&e, "mode=0755");
		model_walk(&e, dir, seed, 1500, true);
		fsenv_down(&e);
		tmp_remove(dir);
	}
	cr_expect_eq(tmpfs_pages_in_use(), 0);
}

Test(tmpfs, options)
{
	static const struct {
		const char *text;
		int r;
		uint64_t size, inodes;
		uint32_t mode, uid;
	} t[] = {
		{"", 0, 0, 0, 01777, 0},
		{"size=1m", 0, 1 << 20, 0, 01777, 0},
		{"size=5000,mode=700,uid=7", 0, 8192, 0, 0700, 7},
		{"nr_blocks=3,nr_inodes=1k", 0, 3 * 4096, 1024, 01777, 0},
		{"size=0,nr_inodes=0", 0, UINT64_MAX, UINT64_MAX, 01777, 0},
		{"size=1G,huge=never", 0, 1 << 30, 0, 01777, 0},
		{"size=x", -EINVAL, 0, 0, 0, 0},
		{"size=1q", -EINVAL, 0, 0, 0, 0},
		{"size=-1", -EINVAL, 0, 0, 0, 0},
		{"mode=9", -EINVAL, 0, 0, 0, 0},
		{"nonsense", -EINVAL, 0, 0, 0, 0},
		{"size", -EINVAL, 0, 0, 0, 0},
		{"size=99999999999999999999", -EINVAL, 0, 0, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct tmpfs_opts o = TMPFS_OPTS_DEFAULT;
		int r = tmpfs_parse_opts(t[i].text, &o);

		cr_expect_eq(r, t[i].r, "%s: %d", t[i].text, r);
		if (r || t[i].r)
			continue;
		cr_expect_eq(o.size, t[i].size, "%s", t[i].text);
		cr_expect_eq(o.nr_inodes, t[i].inodes, "%s", t[i].text);
		cr_expect_eq(o.mode, t[i].mode, "%s", t[i].text);
		cr_expect_eq(o.uid, t[i].uid, "%s", t[i].text);
	}
}

Test(tmpfs, size_limit)
{
	static char data[64 << 10];
	struct kstatfs st;
	struct fsenv e;
	struct file *f;

	fsenv_up_tmpfs(&e, "size=32k");
	cr_assert_eq(fsm_open(&e, "/f", LX_O_CREAT | LX_O_RDWR, 0600, &f), 0);
	/* Short at the limit, then nothing. */
	cr_expect_eq(fsm_pwrite(&e, f, data, sizeof(data), 0), 32 << 10);
	cr_expect_eq(fsm_pwrite(&e, f, data, 1, 32 << 10), -ENOSPC);
	cr_expect_eq(fsm_pwrite(&e, f, data, 100, 0), 100);
	statfs(&e, &st);
	cr_expect_eq(st.blocks, 8);
	cr_expect_eq(st.bfree, 0);
	cr_expect_eq(vfs_ftruncate(&e.ctx, f, 4096), 0);
	statfs(&e, &st);
	cr_expect_eq(st.bfree, 7);
	/* All or nothing. */
	cr_expect_eq(vfs_fallocate(&e.ctx, f, 0, 0, 64 << 10), -ENOSPC);
	statfs(&e, &st);
	cr_expect_eq(st.bfree, 7);
	cr_expect_eq(vfs_fallocate(&e.ctx, f, 0, 0, 32 << 10), 0);
	statfs(&e, &st);
	cr_expect_eq(st.bfree, 0);
	file_put(f);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/f"), 0);
	statfs(&e, &st);
	cr_expect_eq(st.bfree, 8);
	fsenv_down(&e);
	cr_expect_eq(tmpfs_pages_in_use(), 0);
}

Test(tmpfs, inode_limit)
{
	struct kstatfs st;
	struct fsenv e;

	fsenv_up_tmpfs(&e, "nr_inodes=4");
	cr_expect_eq(fsm_put(&e, "/a", "x"), 0);
	cr_expect_eq(vfs_mkdir(&e.ctx, NULL, "/d", 0755), 0);
	cr_expect_eq(vfs_link(&e.ctx, NULL, "/a", NULL, "/b", 0), 0);
	cr_expect_eq(fsm_put(&e, "/c", "x"), -ENOSPC);
	cr_expect_eq(vfs_link(&e.ctx, NULL, "/a", NULL, "/c", 0), -ENOSPC);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/b"), 0);
	cr_expect_eq(vfs_symlink(&e.ctx, "a", NULL, "/c"), 0);
	statfs(&e, &st);
	cr_expect_eq(st.files, 4);
	cr_expect_eq(st.ffree, 0);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/a"), 0);
	cr_expect_eq(vfs_rmdir(&e.ctx, NULL, "/d"), 0);
	statfs(&e, &st);
	cr_expect_eq(st.ffree, 2);
	fsenv_down(&e);
}

Test(tmpfs, unlinked_file_lives_while_open)
{
	struct fsenv e;
	struct file *f;
	char buf[8];

	fsenv_up_tmpfs(&e, "");
	cr_assert_eq(fsm_open(&e, "/f", LX_O_CREAT | LX_O_RDWR, 0600, &f), 0);
	cr_expect_eq(fsm_pwrite(&e, f, "hello", 5, 0), 5);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/f"), 0);
	cr_expect_str_eq(fsm_text(&e, "/f"), "!2");
	cr_expect_eq(fsm_pread(&e, f, buf, 8, 0), 5);
	cr_expect_eq(fsm_pwrite(&e, f, "world", 5, 5), 5);
	file_put(f);
	fsenv_down(&e);
	cr_expect_eq(tmpfs_pages_in_use(), 0);
}

Test(tmpfs, rename_whiteout)
{
	struct kstat st;
	struct fsenv e;

	fsenv_up_tmpfs(&e, "");
	cr_expect_eq(fsm_put(&e, "/a", "x"), 0);
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/a", NULL, "/b", LX_RENAME_WHITEOUT), 0);
	cr_expect_eq(fsm_stat(&e, "/a", &st), 0);
	cr_expect_eq(st.mode, LX_S_IFCHR);
	cr_expect_eq(st.rdev, 0);
	cr_expect_str_eq(fsm_text(&e, "/b"), "x");
	fsenv_down(&e);
}

struct counter {
	struct dir_ctx ctx;
	unsigned count, room;
	uint8_t *seen;
};

static bool count_emit(struct dir_ctx *ctx, const char *name, size_t len, uint64_t ino,
		       unsigned dtype, int64_t next_off)
{
	struct counter *c = container_of(ctx, struct counter, ctx);
	unsigned n;
	char copy[32];

	(void)ino;
	(void)dtype;
	(void)next_off;
	if (!c->room)
		return false;
	c->room--;
	snprintf(copy, sizeof(copy), "%.*s", (int)len, name);
	if (sscanf(copy, "f%u", &n) == 1) {
		cr_assert_eq(c->seen[n], 0, "%s twice", copy);
		c->seen[n] = 1;
		c->count++;
	}
	return true;
}

/* 100,000 names, read while every other one is removed and new ones are made. */
Test(tmpfs, big_directory)
{
	enum { N = 100000 };
	struct counter c = {.ctx.emit = count_emit, .seen = mem_zalloc(2 * N)};
	struct fsenv e;
	struct file *d;
	char name[32];
	unsigned before, made = N;

	fsenv_up_tmpfs(&e, "");
	cr_assert_eq(vfs_mkdir(&e.ctx, NULL, "/d", 0755), 0);
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "/d/f%u", i);
		cr_assert_eq(fsm_put(&e, name, ""), 0);
	}
	cr_assert_eq(fsm_open(&e, "/d", LX_O_RDONLY | LX_O_DIRECTORY, 0, &d), 0);
	do {
		before = c.count;
		c.room = 1000;
		cr_assert_eq(vfs_iterate(d, &c.ctx), 0);
		/* Remove some of what was seen, and some that was not. */
		for (unsigned i = 0; i < 300; i++) {
			unsigned n = (before * 7 + i * 13) % N;

			if (n % 2)
				continue;
			snprintf(name, sizeof(name), "/d/f%u", n);
			if (vfs_unlink(&e.ctx, NULL, name) == 0 && !c.seen[n])
				c.seen[n] = 2;
		}
		if (made < N + 1000) {
			snprintf(name, sizeof(name), "/d/f%u", made++);
			cr_assert_eq(fsm_put(&e, name, ""), 0);
		}
	} while (c.count > before);
	/* What was there all the time was seen. */
	for (unsigned i = 1; i < N; i += 2)
		cr_assert_eq(c.seen[i], 1, "f%u not seen", i);
	/* seekdir to a position that was given out goes on from there. */
	cr_expect_eq(vfs_lseek(d, 0, LX_SEEK_SET), 0);
	file_put(d);
	for (unsigned i = 0; i < made; i++) {
		snprintf(name, sizeof(name), "/d/f%u", i);
		int r = vfs_unlink(&e.ctx, NULL, name);

		cr_assert(r == 0 || r == -ENOENT);
	}
	cr_expect_eq(vfs_rmdir(&e.ctx, NULL, "/d"), 0);
	fsenv_down(&e);
	mem_free(c.seen);
}

Test(tmpfs, deep_tree_is_freed)
{
	struct fsenv e;
	struct path at, next;

	fsenv_up_tmpfs(&e, "");
	cr_assert_eq(path_lookup(&e.ctx, NULL, "/", 0, &at), 0);
	for (unsigned i = 0; i < 10000; i++) {
		cr_assert_eq(vfs_mkdir(&e.ctx, &at, "d", 0755), 0);
		cr_assert_eq(path_lookup(&e.ctx, &at, "d", 0, &next), 0);
		path_put(&at);
		at = next;
	}
	path_put(&at);
	fsenv_down(&e);
}

Test(tmpfs, xattrs)
{
	struct fsenv e;
	struct path p;
	char buf[64];

	fsenv_up_tmpfs(&e, "");
	cr_expect_eq(fsm_put(&e, "/f", "x"), 0);
	cr_assert_eq(path_lookup(&e.ctx, NULL, "/f", 0, &p), 0);
	cr_expect_eq(vfs_setxattr(&e.ctx, &p, "user.a", "12345", 5, 0), 0);
	cr_expect_eq(vfs_setxattr(&e.ctx, &p, "user.a", "1", 1, LX_XATTR_CREATE), -EEXIST);
	cr_expect_eq(vfs_setxattr(&e.ctx, &p, "user.b", "1", 1, LX_XATTR_REPLACE), -ENODATA);
	cr_expect_eq(vfs_setxattr(&e.ctx, &p, "trusted.t", "", 0, 0), 0);
	cr_expect_eq(vfs_getxattr(&e.ctx, &p, "user.a", buf, 3), -ERANGE);
	cr_expect_eq(vfs_getxattr(&e.ctx, &p, "user.a", buf, sizeof(buf)), 5);
	cr_expect_eq(vfs_getxattr(&e.ctx, &p, "user.a", NULL, 0), 5);
	cr_expect_eq(vfs_getxattr(&e.ctx, &p, "trusted.t", buf, sizeof(buf)), 0);
	cr_expect_eq(vfs_getxattr(&e.ctx, &p, "user.c", buf, sizeof(buf)), -ENODATA);
	cr_expect_eq(vfs_listxattr(&e.ctx, &p, buf, sizeof(buf)), 17);
	cr_expect_eq(vfs_removexattr(&e.ctx, &p, "user.a"), 0);
	cr_expect_eq(vfs_removexattr(&e.ctx, &p, "user.a"), -ENODATA);
	path_put(&p);
	fsenv_down(&e);
}

/* The n-th allocation fails: nothing crashes, nothing leaks, nothing is half done. */
Test(tmpfs, failing_allocations)
{
	for (unsigned n = 1; n < 60; n++) {
		struct fsenv e;
		struct kstat st;

		fsenv_up_tmpfs(&e, "");
		cr_assert_eq(fsm_put(&e, "/f", "x"), 0);
		fail_set(FAIL_ALLOC, n);
		int r = vfs_mkdir(&e.ctx, NULL, "/d", 0755);

		r = r ? r : vfs_rename(&e.ctx, NULL, "/f", NULL, "/d/g", 0);
		r = r ? r : vfs_symlink(&e.ctx, "target", NULL, "/d/s");
		r = r ? r : fsm_put(&e, "/d/new", "hello");
		fail_set(FAIL_ALLOC, 0);
		cr_assert(r == 0 || r == -ENOMEM, "%u: %d", n, r);
		/* The file has one of its names. */
		cr_assert_neq(fsm_stat(&e, "/f", &st) == 0, fsm_stat(&e, "/d/g", &st) == 0, "%u",
			      n);
		fsenv_down(&e);
	}
	cr_expect_eq(tmpfs_pages_in_use(), 0);
}
