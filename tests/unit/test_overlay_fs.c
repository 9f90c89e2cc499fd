/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlay: the random walk on a host tree that must not change, and what an overlay can do wrong.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/lx_fcntl.h"
#include "tests/unit/fs_model.h"
#include "vfs/dcache.h"
#include "vfs/hostfs.h"
#include "vfs/overlay.h"
#include "vfs/tmpfs_pages.h"

static char g_dir[64];

static void mount_on(struct fsenv *e, const char *opts)
{
	struct hostfs_opts ho = {.immutable = true};
	struct tmpfs_opts o = TMPFS_OPTS_DEFAULT;
	struct super *lower, *s;
	int fd = open(g_dir, O_RDONLY | O_DIRECTORY);

	cr_assert(fd >= 0);
	cr_assert_eq(hostfs_new(fd, &ho, &lower), 0);
	close(fd);
	cr_assert_eq(tmpfs_parse_opts(opts, &o), 0);
	cr_assert_eq(overlay_new(lower, &o, &s), 0);
	super_put(lower);
	fsenv_up(e, s);
	e->dentries_before--; /* the lower's root */
}

static void up(struct fsenv *e, const char *opts)
{
	cr_assert_eq(tmp_make(g_dir), 0);
	tmp_fill(g_dir);
	mount_on(e, opts);
}

static void down(struct fsenv *e)
{
	fsenv_down(e);
	tmp_remove(g_dir);
}

static void outside(const char *cmd)
{
	char text[512];

	snprintf(text, sizeof(text), "cd %s && %s", g_dir, cmd);
	cr_assert_eq(system(text), 0, "%s", cmd);
}

Test(overlay, random_walk_against_the_host)
{
	for (unsigned seed = 1; seed <= 8; seed++) {
		struct fsenv e;
		char model[64], untouched[64], cmd[512];

		up(&e, "");
		cr_assert_eq(tmp_make(model), 0);
		cr_assert_eq(tmp_make(untouched), 0);
		snprintf(cmd, sizeof(cmd), "cp -a %s/. %s; cp -a %s/. %s", g_dir, model, g_dir,
			 untouched);
		cr_assert_eq(system(cmd), 0);
		model_walk(&e, model, seed, 2000, true);
		snprintf(cmd, sizeof(cmd), "diff -r --no-dereference -x fifo %s %s", g_dir,
			 untouched);
		cr_expect_eq(system(cmd), 0);
		tmp_remove(model);
		tmp_remove(untouched);
		down(&e);
	}
	cr_expect_eq(tmpfs_pages_in_use(), 0);
}

/* The lower's names are listed once; what is our own is seen all the same. */
Test(overlay, lists_are_kept)
{
	struct fsenv e;
	char path[400];

	up(&e, "");
	cr_expect_str_eq(fsm_list(&e, "/b"), ". .. dangling fifo three y ");
	outside("rm b/three");
	cr_expect_str_eq(fsm_list(&e, "/b"), ". .. dangling fifo three y ");
	cr_expect_eq(fsm_put(&e, "/b/mine", "x"), 0);
	cr_expect_str_eq(fsm_list(&e, "/b"), ". .. dangling fifo mine three y ");
	/* More than are kept: 60 directories with 60 KiB of names. */
	for (unsigned d = 0; d < 60; d++) {
		snprintf(path, sizeof(path), "%s/many%u", g_dir, d);
		cr_assert_eq(mkdir(path, 0755), 0);
		for (unsigned n = 0; n < 250; n++) {
			snprintf(path, sizeof(path), "%s/many%u/%0240u", g_dir, d, n);
			cr_assert_eq(mknod(path, S_IFREG | 0644, 0), 0);
		}
	}
	for (unsigned round = 0; round < 2; round++)
		for (unsigned d = 0; d < 60; d++) {
			snprintf(path, sizeof(path), "/many%u", d);
			cr_expect_eq(strlen(fsm_list(&e, path)), 5 + 250 * 241);
		}
	down(&e);
}

Test(overlay, changes_survive_the_cache)
{
	struct kstat before, after;
	struct fsenv e;
	struct path p;
	struct iattr attr = {.valid = ATTR_MODE, .mode = 0711};

	up(&e, "");
	cr_expect_eq(fsm_stat(&e, "/b/y/big", &before), 0);
	cr_expect_eq(fsm_put(&e, "/a/one", "changed"), 0);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/a/x/two"), 0);
	cr_assert_eq(path_lookup(&e.ctx, NULL, "/b/y/big", 0, &p), 0);
	cr_expect_eq(vfs_setattr(&e.ctx, &p, &attr), 0);
	path_put(&p);
	dcache_shrink(0);
	cr_expect_str_eq(fsm_text(&e, "/a/one"), "changed");
	cr_expect_str_eq(fsm_text(&e, "/a/x/two"), "!2");
	cr_expect_eq(fsm_stat(&e, "/b/y/big", &after), 0);
	cr_expect_eq(after.mode & 07777, 0711);
	cr_expect_eq(after.ino, before.ino);
	cr_expect_eq(after.dev, before.dev);
	down(&e);
}

Test(overlay, hard_links_agree)
{
	struct kstat st, st2;
	struct fsenv e;

	up(&e, "");
	cr_expect_eq(fsm_put(&e, "/b/three", "new"), 0);
	dcache_shrink(0);
	cr_expect_str_eq(fsm_text(&e, "/c/again"), "new");
	cr_expect_eq(vfs_link(&e.ctx, NULL, "/c/again", NULL, "/third", 0), 0);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/b/three"), 0);
	dcache_shrink(0);
	cr_expect_eq(fsm_stat(&e, "/c/again", &st), 0);
	cr_expect_eq(fsm_stat(&e, "/third", &st2), 0);
	cr_expect_eq(st.ino, st2.ino);
	cr_expect_eq(st.nlink, 2);
	cr_expect_eq(fsm_put(&e, "/third", "newer"), 0);
	cr_expect_str_eq(fsm_text(&e, "/c/again"), "newer");
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/c/again"), 0);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/third"), 0);
	dcache_shrink(0);
	cr_expect_str_eq(fsm_text(&e, "/c/again"), "!2");
	cr_expect_str_eq(fsm_list(&e, "/c"), ". .. empty link ");
	down(&e);
}

Test(overlay, open_reader_sees_later_writes)
{
	struct fsenv e;
	struct file *r, *w;
	char buf[16];

	up(&e, "");
	cr_assert_eq(fsm_open(&e, "/a/one", LX_O_RDONLY, 0, &r), 0);
	cr_assert_eq(fsm_open(&e, "/a/one", LX_O_RDWR, 0, &w), 0);
	cr_expect_eq(fsm_pread(&e, r, buf, 16, 0), 4);
	cr_expect_eq(fsm_pwrite(&e, w, "ONE and more", 12, 0), 12);
	cr_expect_eq(fsm_pread(&e, r, buf, 16, 0), 12);
	cr_expect_eq(memcmp(buf, "ONE and more", 12), 0);
	cr_expect_eq(vfs_ftruncate(&e.ctx, w, 2), 0);
	cr_expect_eq(fsm_pread(&e, r, buf, 16, 0), 2);
	file_put(w);
	file_put(r);
	outside("grep -q '^one$' a/one");
	down(&e);
}

Test(overlay, mapping)
{
	struct file_map m = {.size = 4096, .prot = LX_PROT_READ, .shared = true};
	struct fsenv e;
	struct file *f;
	char buf[8];

	up(&e, "");
	/* A reader maps the host's file, a writer one of ours. */
	cr_assert_eq(fsm_open(&e, "/a/one", LX_O_RDONLY, 0, &f), 0);
	cr_assert_eq(f->ops->mmap(f, &m), 0);
	char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, m.host_fd, 0);

	cr_assert_neq(p, MAP_FAILED);
	cr_expect_eq(memcmp(p, "one\n", 4), 0);
	munmap(p, 4096);
	file_put(f);
	cr_assert_eq(fsm_open(&e, "/a/one", LX_O_RDWR, 0, &f), 0);
	m.prot = LX_PROT_READ | LX_PROT_WRITE;
	cr_assert_eq(f->ops->mmap(f, &m), 0);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m.host_fd, 0);
	cr_assert_neq(p, MAP_FAILED);
	p[0] = 'X';
	cr_expect_eq(fsm_pread(&e, f, buf, 8, 0), 4);
	cr_expect_eq(memcmp(buf, "Xne\n", 4), 0);
	cr_expect_eq(fsm_pwrite(&e, f, "Y", 1, 1), 1);
	cr_expect_eq(p[1], 'Y');
	munmap(p, 4096);
	file_put(f);
	outside("grep -q '^one$' a/one");
	down(&e);
}

Test(overlay, directories)
{
	struct fsenv e;

	up(&e, "");
	/* Renaming a lower directory takes its children along. */
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/b", NULL, "/a/moved", 0), 0);
	dcache_shrink(0);
	cr_expect_str_eq(fsm_text(&e, "/a/moved/y/z/deep"), "deep\n");
	cr_expect_str_eq(fsm_list(&e, "/"), ". .. a c ");
	cr_expect_str_eq(fsm_list(&e, "/a"), ". .. moved one x ");
	/* A new directory in its place shows nothing of the old one. */
	cr_expect_eq(vfs_mkdir(&e.ctx, NULL, "/b", 0755), 0);
	cr_expect_str_eq(fsm_list(&e, "/b"), ". .. ");
	cr_expect_eq(fsm_put(&e, "/b/three", "other"), 0);
	cr_expect_str_eq(fsm_text(&e, "/a/moved/three"), "three\n");
	/* Not empty by what is below, then empty by white entries. */
	cr_expect_eq(vfs_rmdir(&e.ctx, NULL, "/a/x"), -ENOTEMPTY);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/a/x/two"), 0);
	cr_expect_eq(vfs_rmdir(&e.ctx, NULL, "/a/x"), 0);
	cr_expect_eq(vfs_mkdir(&e.ctx, NULL, "/a/x", 0755), 0);
	dcache_shrink(0);
	cr_expect_str_eq(fsm_list(&e, "/a/x"), ". .. ");
	/* A directory over an empty one of the lower. */
	cr_expect_eq(vfs_mkdir(&e.ctx, NULL, "/n", 0755), 0);
	cr_expect_eq(fsm_put(&e, "/n/f", "f"), 0);
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/n", NULL, "/a/moved/y/z", 0), -ENOTEMPTY);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/a/moved/y/z/deep"), 0);
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/n", NULL, "/a/moved/y/z", 0), 0);
	cr_expect_str_eq(fsm_list(&e, "/a/moved/y/z"), ". .. f ");
	down(&e);
}

Test(overlay, space)
{
	static char data[32 << 10];
	struct fsenv e;
	struct file *f;

	up(&e, "size=16k");
	/* Copying up 20,000 bytes does not fit: the file stays what it was. */
	cr_assert_eq(fsm_open(&e, "/b/y/big", LX_O_RDWR, 0, &f), 0);
	cr_expect_eq(fsm_pwrite(&e, f, "x", 1, 0), -ENOSPC);
	cr_expect_eq(fsm_pread(&e, f, data, sizeof(data), 0), 20000);
	/* Cut first, it does. */
	cr_expect_eq(vfs_ftruncate(&e.ctx, f, 5000), 0);
	cr_expect_eq(fsm_pwrite(&e, f, "x", 1, 0), 1);
	file_put(f);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/b/y/big"), 0);
	cr_expect_eq(tmpfs_pages_in_use(), 0);
	down(&e);
}

Test(overlay, xattrs)
{
	struct fsenv e;
	struct path p;
	char file[128], buf[64];

	cr_assert_eq(tmp_make(g_dir), 0);
	tmp_fill(g_dir);
	snprintf(file, sizeof(file), "%s/a/one", g_dir);
	if (setxattr(file, "user.low", "1", 1, 0) != 0)
		cr_skip_test("the host's /tmp has no user xattrs");
	mount_on(&e, "");
	cr_assert_eq(path_lookup(&e.ctx, NULL, "/a/one", 0, &p), 0);
	cr_expect_eq(vfs_getxattr(&e.ctx, &p, "user.low", buf, sizeof(buf)), 1);
	cr_expect_eq(vfs_setxattr(&e.ctx, &p, "user.up", "22", 2, 0), 0);
	cr_expect_eq(vfs_getxattr(&e.ctx, &p, "user.low", buf, sizeof(buf)), 1);
	cr_expect_eq(vfs_removexattr(&e.ctx, &p, "user.low"), 0);
	cr_expect_eq(vfs_getxattr(&e.ctx, &p, "user.low", buf, sizeof(buf)), -ENODATA);
	cr_expect_eq(vfs_listxattr(&e.ctx, &p, buf, sizeof(buf)), 8);
	path_put(&p);
	cr_expect_eq(getxattr(file, "user.low", buf, sizeof(buf)), 1);
	down(&e);
}

Test(overlay, failing_allocations)
{
	for (unsigned n = 1; n < 120; n++) {
		struct fsenv e;
		struct kstat st;

		up(&e, "");
		fail_set(FAIL_ALLOC, n);
		int r = vfs_rename(&e.ctx, NULL, "/b/y", NULL, "/a/y", 0);

		r = r ? r : fsm_put(&e, "/a/one", "changed");
		r = r ? r : vfs_unlink(&e.ctx, NULL, "/c/empty");
		r = r ? r : vfs_link(&e.ctx, NULL, "/c/again", NULL, "/again", 0);
		fail_set(FAIL_ALLOC, 0);
		cr_assert(r == 0 || r == -ENOMEM, "%u: %d", n, r);
		cr_assert_neq(fsm_stat(&e, "/b/y/z", &st) == 0, fsm_stat(&e, "/a/y/z", &st) == 0,
			      "%u", n);
		const char *text = fsm_text(&e, "/a/one");

		cr_assert(strcmp(text, "one\n") == 0 || strcmp(text, "changed") == 0 || !*text,
			  "%u: %s", n, text);
		down(&e);
	}
	cr_expect_eq(tmpfs_pages_in_use(), 0);
}

static int note_change(void *arg, const struct overlay_change *ch)
{
	static const char kinds[] = "AMDR";
	char *text = arg;
	size_t n = strlen(text);

	snprintf(text + n, 4096 - n, "%c%s%s ", kinds[ch->kind], ch->path,
		 ch->content_changed ? "*" : "");
	return 0;
}

static int cmp_words(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *changes(struct fsenv *e)
{
	static char text[4096], sorted[4096];
	char *word[256], *save = NULL;
	size_t n = 0;

	text[0] = sorted[0] = '\0';
	cr_assert_eq(overlay_changes(e->ns->root->super, note_change, text), 0);
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		word[n++] = w;
	qsort(word, n, sizeof(word[0]), cmp_words);
	for (size_t i = 0; i < n; i++) {
		strcat(sorted, word[i]);
		strcat(sorted, " ");
	}
	return sorted;
}

Test(overlay, changes)
{
	struct iattr attr = {.valid = ATTR_MODE, .mode = 0700};
	struct fsenv e;
	struct path p;
	char buf[16];

	up(&e, "");
	cr_expect_str_eq(changes(&e), "");
	cr_expect_str_eq(fsm_text(&e, "/a/one"), "one\n");
	cr_expect_str_eq(changes(&e), "");
	cr_expect_eq(fsm_put(&e, "/b/y/z/deep", "x"), 0);
	cr_expect_eq(fsm_put(&e, "/b/y/new", "x"), 0);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/a/one"), 0);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/c/empty"), 0);
	cr_expect_eq(fsm_put(&e, "/c/empty", "full"), 0);
	cr_assert_eq(path_lookup(&e.ctx, NULL, "/a/x", 0, &p), 0);
	cr_expect_eq(vfs_setattr(&e.ctx, &p, &attr), 0);
	path_put(&p);
	dcache_shrink(0);
	cr_expect_str_eq(changes(&e), "A/b/y/new* D/a/one M/a/x M/b/y/z/deep* R/c/empty* ");
	/* A moved directory is new where it is now, with all that is in it. */
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/b", NULL, "/m", 0), 0);
	cr_expect_str_eq(changes(&e),
			 "A/m A/m/dangling A/m/fifo A/m/three* A/m/y A/m/y/big* A/m/y/new* "
			 "A/m/y/z A/m/y/z/deep* D/a/one D/b M/a/x R/c/empty* ");
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/m", NULL, "/b", 0), 0);
	cr_expect_str_eq(changes(&e), "A/b/y/new* D/a/one M/a/x M/b/y/z/deep* R/c/empty* ");
	cr_assert_eq(path_lookup(&e.ctx, NULL, "/b/y/z/deep", 0, &p), 0);
	cr_expect_eq(overlay_read(p.dentry->inode, buf, sizeof(buf), 0), 1);
	path_put(&p);
	cr_assert_eq(path_lookup(&e.ctx, NULL, "/b/three", 0, &p), 0);
	cr_expect_eq(overlay_read(p.dentry->inode, buf, sizeof(buf), 0), 6);
	path_put(&p);
	down(&e);
}
