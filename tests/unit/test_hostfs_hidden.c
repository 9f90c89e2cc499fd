/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs: what is hidden is neither found nor listed nor made, by any name, and cannot be
 * uncovered.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/lx_fcntl.h"
#include "tests/unit/fs_model.h"
#include "vfs/hostfs.h"

static struct hostfs_id id_of(const char *dir, const char *name)
{
	struct stat st;
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(lstat(path, &st), 0, "%s", path);
	return (struct hostfs_id){
		lx_makedev((uint32_t)major(st.st_dev), (uint32_t)minor(st.st_dev)), st.st_ino};
}

static int by_id(const void *a, const void *b)
{
	return hostfs_id_compare(a, b);
}

Test(hostfs, hidden)
{
	static struct hostfs_hidden names[4];
	static struct hostfs_id files[2], pins[3];
	struct hostfs_opts o = {.writable = true};
	char dir[64], cmd[512];
	struct fsenv e;
	struct super *s;
	struct kstat st;
	int fd;

	cr_assert_eq(tmp_make(dir), 0);
	snprintf(cmd, sizeof(cmd),
		 "cd %s && mkdir -p secret a/b other && echo s >secret/key && echo n >rc && "
		 "ln rc a/link && echo d >a/b/deep && echo f >free",
		 dir);
	cr_assert_eq(system(cmd), 0);
	names[0] = (struct hostfs_hidden){id_of(dir, "."), "secret"};
	names[1] = (struct hostfs_hidden){id_of(dir, "."), "rc"};
	names[2] = (struct hostfs_hidden){id_of(dir, "a/b"), "deep"};
	names[3] = (struct hostfs_hidden){id_of(dir, "a/b"), "later"};
	files[0] = id_of(dir, "secret");
	files[1] = id_of(dir, "rc");
	pins[0] = id_of(dir, ".");
	pins[1] = id_of(dir, "a");
	pins[2] = id_of(dir, "a/b");
	qsort(files, 2, sizeof(files[0]), by_id);
	qsort(pins, 3, sizeof(pins[0]), by_id);
	hostfs_hide(names, 4, files, 2, pins, 3);
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	cr_assert_eq(hostfs_new(fd, &o, &s), 0);
	close(fd);
	fsenv_up(&e, s);

	cr_expect_str_eq(fsm_list(&e, "/"), ". .. a free other ");
	cr_expect_str_eq(fsm_list(&e, "/a"), ". .. b ", "a second name of a hidden file");
	cr_expect_str_eq(fsm_list(&e, "/a/b"), ". .. ");
	cr_expect_eq(fsm_stat(&e, "/secret", &st), -ENOENT);
	cr_expect_eq(fsm_stat(&e, "/secret/key", &st), -ENOENT);
	cr_expect_eq(fsm_stat(&e, "/a/../secret/../rc", &st), -ENOENT);
	cr_expect_eq(fsm_stat(&e, "/a/link", &st), -ENOENT);
	cr_expect_str_eq(fsm_text(&e, "/free"), "f\n");
	/* The same name elsewhere is another thing, and a longer name is, too. */
	cr_expect_eq(fsm_put(&e, "/other/rc", "mine"), 0);
	cr_expect_eq(fsm_put(&e, "/rc2", "mine"), 0);
	cr_expect_eq(fsm_put(&e, "/r", "mine"), 0);
	/* Nothing gets the name. */
	cr_expect_eq(fsm_put(&e, "/rc", "x"), -EACCES);
	cr_expect_eq(fsm_put(&e, "/a/b/later", "x"), -EACCES);
	cr_expect_eq(vfs_mkdir(&e.ctx, NULL, "/secret", 0755), -EACCES);
	cr_expect_eq(vfs_symlink(&e.ctx, "free", NULL, "/rc"), -EACCES);
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/free", NULL, "/rc", 0), -EACCES);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/rc"), -ENOENT);
	/* Nobody takes away what is above it. */
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/a", NULL, "/c", 0), -EBUSY);
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/a/b", NULL, "/c", 0), -EBUSY);
	cr_expect_eq(vfs_rename(&e.ctx, NULL, "/other", NULL, "/a/b", LX_RENAME_EXCHANGE), -EBUSY);
	cr_expect_eq(vfs_rmdir(&e.ctx, NULL, "/a/b"), -EBUSY);
	fsenv_down(&e);
	snprintf(cmd, sizeof(cmd), "cd %s && [ \"$(cat secret/key rc a/b/deep)\" = 's\nn\nd' ]",
		 dir);
	cr_expect_eq(system(cmd), 0, "the host's files are as they were");
	tmp_remove(dir);
}
