/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dentry cache under load: deep trees, many names, failing allocations, several workers, moves
 * against walks.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/vfs_names_env.h"
#include "vfs/dcache.h"
#include "vfs/mount.h"

#define DEEP 10000

static int do_chdir(struct env *e, const char *name)
{
	struct path p;
	int r = path_lookup(&e->ctx[ROOT], NULL, name, WALK_FOLLOW, &p);

	if (r)
		return r;
	r = vfs_chdir(&e->ctx[ROOT], &p);
	path_put(&p);
	return r;
}

static size_t dentries(void)
{
	struct dcache_stats st;

	dcache_get_stats(&st);
	return st.total;
}

Test(vfs_names_deep, ten_thousand_levels)
{
	struct vfs_ctx *c;
	struct path cwd, root;
	struct env e;
	char buf[64];
	int r = 0;

	env_up(&e);
	c = &e.ctx[ROOT];
	WANT(0, vfs_mkdir(c, NULL, "/top", 0755));
	WANT(0, do_chdir(&e, "/top"));
	for (int i = 0; i < DEEP && r == 0; i++) {
		r = vfs_mkdir(c, NULL, "d", 0755);
		if (r == 0)
			r = do_chdir(&e, "d");
	}
	WANT(0, r);
	fs_get_cwd(e.fs, &cwd);
	fs_get_root(e.fs, &root);
	WANT(-ENAMETOOLONG, (int)path_text(&cwd, &root, buf, sizeof(buf)));

	char *big = malloc(DEEP * 2 + 64);

	WANT(DEEP * 2 + 4, (int)path_text(&cwd, &root, big, DEEP * 2 + 64));
	free(big);
	cr_expect(path_is_under(&cwd, &root));
	/* All names at once lose their last user. */
	path_put(&cwd);
	fs_set_cwd(e.fs, &root);
	dcache_shrink(0);
	cr_expect_leq(dentries(), 3, "%zu dentries", dentries());
	/* And down again, from the file system. */
	WANT(0, do_chdir(&e, "/top"));
	for (int i = 0; i < DEEP && r == 0; i++)
		r = do_chdir(&e, "d");
	WANT(0, r);
	WANT(-ENOTEMPTY, vfs_rmdir(c, NULL, "/top"));
	/* Moved to another place while somebody is at the bottom, who climbs up. */
	WANT(0, vfs_mkdir(c, NULL, "/other", 0755));
	WANT(0, vfs_rename(c, NULL, "/top", NULL, "/other/top", 0));
	for (int i = 0; i < DEEP && r == 0; i++)
		r = do_chdir(&e, "..");
	WANT(0, r);
	fs_get_cwd(e.fs, &cwd);
	WANT(10, (int)path_text(&cwd, &root, buf, sizeof(buf)));
	cr_expect_str_eq(buf, "/other/top");
	/* Removed from the bottom up. */
	path_put(&cwd);
	for (int i = 0; i < DEEP && r == 0; i++)
		r = do_chdir(&e, "d");
	for (int i = 0; i < DEEP && r == 0; i++) {
		r = do_chdir(&e, "..");
		if (r == 0)
			r = vfs_rmdir(c, NULL, "d");
	}
	WANT(0, r);
	fs_set_cwd(e.fs, &root);
	path_put(&root);
	env_down(&e);
}

Test(vfs_names_deep, deep_tree_goes_with_its_super)
{
	struct path root;
	struct env e;
	int r = 0;

	env_up(&e);
	for (int i = 0; i < DEEP && r == 0; i++) {
		r = vfs_mkdir(&e.ctx[ROOT], NULL, "d", 0755);
		if (r == 0)
			r = do_chdir(&e, "d");
	}
	WANT(0, r);
	fs_get_root(e.fs, &root);
	fs_set_cwd(e.fs, &root);
	path_put(&root);
	env_down(&e);
}

Test(vfs_names_deep, unused_are_bounded_and_removed_are_freed)
{
	struct dcache_stats st;
	struct env e;
	char name[32];

	env_up(&e);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "/%d", i);
		WANT(0, vfs_mknod(&e.ctx[ROOT], NULL, name, LX_S_IFREG | 0644, 0));
	}
	dcache_get_stats(&st);
	cr_expect_geq(st.unused, 1000u);
	dcache_shrink(10);
	dcache_get_stats(&st);
	cr_expect_eq(st.unused, 10u);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "/%d", i);
		WANT(0, vfs_unlink(&e.ctx[ROOT], NULL, name));
	}
	dcache_get_stats(&st);
	cr_expect_eq(st.unused, 0u, "%zu unused", st.unused);
	env_down(&e);
}

/* Every allocation of every operation fails once: an error, nothing changed, nothing lost. */
Test(vfs_names_deep, no_memory)
{
	static const struct step steps[] = {
		STEP(OP_MKDIR, ROOT, "/dir/new-directory-with-a-name-that-does-not-fit-inside",
		     NULL, 0755, 0, 0),
		STEP(OP_CREATE, ROOT, "/dir/f2", NULL, 0644, 0, 0),
		STEP(OP_STAT, ROOT, "/link/f", NULL, 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "x", "/dir/l", 0, 0, 0),
		STEP(OP_LINK, ROOT, "/dir/f", "/dir/g", 0, 0, 0),
		STEP(OP_RENAME, ROOT, "/dir/f",
		     "/dir/a-name-that-is-longer-than-what-stands-in-the-dentry-itself", 0, 0, 0),
		STEP(OP_RENAME, ROOT,
		     "/dir/a-name-that-is-longer-than-what-stands-in-the-dentry-itself", "/dir/f",
		     0, 0, 0),
		STEP(OP_SETXATTR, ROOT, "/dir/f", "user.a", 0, 0, 0),
		STEP(OP_UNLINK, ROOT, "/dir/f", NULL, 0, 0, 0),
	};
	struct env e;

	env_up(&e);
	WANT(0, vfs_mkdir(&e.ctx[ROOT], NULL, "/dir", 0755));
	WANT(0, vfs_symlink(&e.ctx[ROOT], "dir", NULL, "/link"));
	WANT(0, vfs_mknod(&e.ctx[ROOT], NULL, "/dir/f", LX_S_IFREG | 0644, 0));
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = -ENOMEM;

		for (unsigned n = 1; n < 200 && r == -ENOMEM; n++) {
			dcache_shrink(0);
			fail_set(FAIL_ALLOC, n);
			r = run_step(&e, &steps[i]);
			fail_set(FAIL_ALLOC, 0);
		}
		cr_expect_eq(r, 0, "line %d: %d", steps[i].line, r);
	}
	WANT(0, vfs_mkdir(&e.ctx[ROOT], NULL, "/m", 0755));
	for (unsigned n = 1; n < 200; n++) {
		fail_set(FAIL_ALLOC, n);

		int r = vfs_mount(&e.ctx[ROOT], "t", "/m", "tmpfs", 0, NULL);

		if (r == 0)
			r = vfs_mount(&e.ctx[ROOT], "/", "/dir", NULL, LX_MS_BIND | LX_MS_REC,
				      NULL);
		fail_set(FAIL_ALLOC, 0);
		if (r == 0)
			break;
		cr_expect_eq(r, -ENOMEM, "%d", r);
		(void)!vfs_umount(&e.ctx[ROOT], "/m", LX_MNT_DETACH);
	}
	WANT(0, vfs_umount(&e.ctx[ROOT], "/dir", LX_MNT_DETACH));
	env_down(&e);
}

/* ---- several at once ---- */

struct racer {
	struct env *e;
	unsigned seed;
	unsigned escapes, odd;
	_Atomic bool *stop;
};

static unsigned next_random(struct racer *r)
{
	r->seed = r->seed * 1103515245u + 12345u;
	return r->seed >> 16;
}

/* Makes, moves and removes in four directories. */
static void *race_names(void *arg)
{
	struct racer *r = arg;
	struct vfs_ctx *c = &r->e->ctx[ROOT];
	char a[32], b[32];

	for (int i = 0; i < 4000; i++) {
		unsigned x = next_random(r);

		snprintf(a, sizeof(a), "/%u/%u", x & 3, (x >> 2) & 7);
		snprintf(b, sizeof(b), "/%u/%u", (x >> 5) & 3, (x >> 7) & 7);

		int ret;

		switch ((x >> 10) % 6) {
		case 0:
			ret = vfs_mkdir(c, NULL, a, 0755);
			break;
		case 1:
			ret = vfs_mknod(c, NULL, a, LX_S_IFREG | 0644, 0);
			break;
		case 2:
			ret = vfs_rename(c, NULL, a, NULL, b,
					 (x >> 13) & 1 ? LX_RENAME_EXCHANGE : 0);
			break;
		case 3:
			ret = vfs_unlink(c, NULL, a);
			break;
		case 4:
			ret = vfs_rmdir(c, NULL, a);
			break;
		default: {
			struct path p;

			ret = path_lookup(c, NULL, a, 0, &p);
			if (ret == 0)
				path_put(&p);
		}
		}
		if (ret != 0 && ret != -ENOENT && ret != -EEXIST && ret != -EISDIR &&
		    ret != -ENOTDIR && ret != -ENOTEMPTY && ret != -EINVAL)
			r->odd++;
	}
	return NULL;
}

Test(vfs_names_deep, workers_on_the_same_names)
{
	struct racer racers[4];
	pthread_t threads[4];
	struct env e;
	char name[16];

	env_up(&e);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "/%d", i);
		WANT(0, vfs_mkdir(&e.ctx[ROOT], NULL, name, 0755));
	}
	for (unsigned i = 0; i < 4; i++) {
		racers[i] = (struct racer){.e = &e, .seed = i + 1};
		pthread_create(&threads[i], NULL, race_names, &racers[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		cr_expect_eq(racers[i].odd, 0, "%u odd results", racers[i].odd);
	}
	env_down(&e);
}

/* A directory moves in and out of the jail; a scoped walk must never see what is outside. */
static void *race_mover(void *arg)
{
	struct racer *r = arg;
	struct vfs_ctx *c = &r->e->ctx[ROOT];

	while (!atomic_load(r->stop)) {
		if (vfs_rename(c, NULL, "/jail/a/b", NULL, "/b", 0) != 0 ||
		    vfs_rename(c, NULL, "/b", NULL, "/jail/a/b", 0) != 0)
			r->odd++;
	}
	return NULL;
}

Test(vfs_names_deep, scoped_walk_does_not_escape)
{
	_Atomic bool stop = false;
	struct racer mover;
	struct path jail;
	pthread_t thread;
	struct vfs_ctx *c;
	struct env e;
	unsigned seen[3] = {0, 0, 0};

	env_up(&e);
	c = &e.ctx[ROOT];
	WANT(0, vfs_mkdir(c, NULL, "/jail", 0755));
	WANT(0, vfs_mkdir(c, NULL, "/jail/a", 0755));
	WANT(0, vfs_mkdir(c, NULL, "/jail/a/b", 0755));
	WANT(0, vfs_mkdir(c, NULL, "/jail/a/b/c", 0755));
	WANT(0, vfs_mknod(c, NULL, "/secret", LX_S_IFREG | 0600, 0));
	WANT(0, path_lookup(c, NULL, "/jail", 0, &jail));
	mover = (struct racer){.e = &e, .stop = &stop};
	pthread_create(&thread, NULL, race_mover, &mover);
	for (int i = 0; i < 50000; i++) {
		struct path p;
		int r = path_lookup(c, &jail, "a/b/c/../../../../secret",
				    i & 1 ? WALK_IN_ROOT : WALK_BENEATH, &p);

		if (r == 0) {
			seen[0]++;
			path_put(&p);
		} else if (r == -EAGAIN) {
			seen[1]++;
		} else if (r == -ENOENT || r == -EXDEV) {
			seen[2]++;
		}
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	cr_expect_eq(seen[0], 0, "escaped %u times", seen[0]);
	cr_expect_eq(mover.odd, 0);
	cr_expect_eq(seen[0] + seen[1] + seen[2], 50000);
	path_put(&jail);
	env_down(&e);
}
