/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts: attaching, crossing, binding, moving, detaching, pivoting, read-only; their texts.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "tests/unit/vfs_names_env.h"
#include "vfs/dcache.h"
#include "vfs/mount.h"
#include "vfs/pseudofs.h"

static struct vfs_ctx *root_of(struct env *e)
{
	return &e->ctx[ROOT];
}

static int do_mkdir(struct env *e, const char *name)
{
	return vfs_mkdir(root_of(e), NULL, name, 0755);
}

static int do_create(struct env *e, const char *name)
{
	struct open_how how = {.flags = LX_O_CREAT | LX_O_EXCL | LX_O_RDWR, .mode = 0644};
	struct file *f;
	int r = vfs_open(root_of(e), NULL, name, &how, &f);

	if (r == 0)
		file_put(f);
	return r;
}

static int do_stat(struct env *e, const char *name)
{
	struct path p;
	int r = path_lookup(root_of(e), NULL, name, WALK_FOLLOW, &p);

	if (r == 0)
		path_put(&p);
	return r;
}

static int do_chdir(struct env *e, const char *name)
{
	struct path p;
	int r = path_lookup(root_of(e), NULL, name, WALK_FOLLOW, &p);

	if (r)
		return r;
	r = vfs_chdir(root_of(e), &p);
	path_put(&p);
	return r;
}

static int do_walk(struct env *e, const char *name, unsigned walk)
{
	struct path p;
	int r = path_lookup(root_of(e), NULL, name, WALK_FOLLOW | walk, &p);

	if (r == 0)
		path_put(&p);
	return r;
}

/* The text of where @name leads to, in a buffer that the next call reuses. */
static const char *text_of(struct env *e, const char *name)
{
	static char buf[4096];
	struct path p, root;

	if (path_lookup(root_of(e), NULL, name, WALK_FOLLOW, &p) != 0)
		return "(none)";
	fs_get_root(e->fs, &root);
	if (path_text(&p, &root, buf, sizeof(buf)) < 0)
		strcpy(buf, "(error)");
	path_put(&root);
	path_put(&p);
	return buf;
}

static int mnt(struct env *e, const char *where, uint64_t flags)
{
	return vfs_mount(root_of(e), "tmpfs", where, "tmpfs", flags, NULL);
}

static int bind(struct env *e, const char *from, const char *where, uint64_t more)
{
	return vfs_mount(root_of(e), from, where, NULL, LX_MS_BIND | more, NULL);
}

static int umnt(struct env *e, const char *where, unsigned flags)
{
	return vfs_umount(root_of(e), where, flags);
}

Test(vfs_names_mount, attach_and_detach)
{
	struct env e;

	env_up(&e);
	WANT(0, do_mkdir(&e, "/m"));
	WANT(0, do_create(&e, "/m/below"));
	WANT(0, do_create(&e, "/f"));
	WANT(-ENOENT, mnt(&e, "/n", 0));
	WANT(-ENOTDIR, mnt(&e, "/f", 0));
	WANT(-ENODEV, vfs_mount(root_of(&e), "x", "/m", "nonesuch", 0, NULL));
	WANT(-EINVAL, vfs_mount(root_of(&e), "x", "/m", NULL, 0, NULL));
	WANT(-EPERM, vfs_mount(&e.ctx[USER], "x", "/m", "tmpfs", 0, NULL));
	WANT(-EINVAL, umnt(&e, "/m", 0));
	WANT(0, mnt(&e, "/m", 0));
	WANT(-ENOENT, do_stat(&e, "/m/below"));
	WANT(0, do_create(&e, "/m/on"));
	cr_expect_str_eq(text_of(&e, "/m/on"), "/m/on");
	cr_expect_str_eq(text_of(&e, "/m/.."), "/");
	WANT(0, do_stat(&e, "/m/../m/on"));
	/* what is in use */
	WANT(-EBUSY, vfs_rmdir(root_of(&e), NULL, "/m"));
	WANT(-EBUSY, vfs_rename(root_of(&e), NULL, "/m", NULL, "/x", 0));
	WANT(-EXDEV, vfs_rename(root_of(&e), NULL, "/m/on", NULL, "/x", 0));
	WANT(-EXDEV, vfs_link(root_of(&e), NULL, "/m/on", NULL, "/x", 0));
	WANT(0, do_chdir(&e, "/m"));
	WANT(-EBUSY, umnt(&e, "/m", 0));
	WANT(0, do_stat(&e, "../f"));
	WANT(0, do_chdir(&e, "/"));
	/* one on top of the other */
	WANT(0, mnt(&e, "/m", 0));
	WANT(-ENOENT, do_stat(&e, "/m/on"));
	cr_expect_str_eq(text_of(&e, "/m/.."), "/");
	WANT(0, umnt(&e, "/m", 0));
	WANT(0, do_stat(&e, "/m/on"));
	/* one below the other */
	WANT(0, do_mkdir(&e, "/m/sub"));
	WANT(0, mnt(&e, "/m/sub", 0));
	WANT(-EBUSY, umnt(&e, "/m", 0));
	cr_expect_str_eq(text_of(&e, "/m/sub/../.."), "/");
	WANT(-EPERM, vfs_umount(&e.ctx[USER], "/m/sub", 0));
	WANT(-EINVAL, umnt(&e, "/m/sub", 64));
	WANT(-EINVAL, umnt(&e, "/m/sub", LX_MNT_EXPIRE | LX_MNT_DETACH));
	WANT(-EAGAIN, umnt(&e, "/m/sub", LX_MNT_EXPIRE));
	WANT(0, do_stat(&e, "/m/sub/."));
	WANT(-EAGAIN, umnt(&e, "/m/sub", LX_MNT_EXPIRE));
	WANT(0, umnt(&e, "/m/sub", LX_MNT_EXPIRE));
	WANT(0, mnt(&e, "/m/sub", 0));
	/* lazily, with all below it, from inside */
	WANT(0, do_create(&e, "/m/sub/x"));
	WANT(0, do_chdir(&e, "/m/sub"));
	WANT(0, umnt(&e, "/m", LX_MNT_DETACH));
	WANT(0, do_stat(&e, "/m/below"));
	WANT(0, do_stat(&e, "x"));
	WANT(0, do_stat(&e, "../../x"));
	cr_expect_str_eq(text_of(&e, "x"), "(unreachable)/x");
	WANT(0, do_chdir(&e, "/"));
	/* by a link */
	WANT(0, mnt(&e, "/m", 0));
	WANT(0, vfs_symlink(root_of(&e), "m", NULL, "/lm"));
	WANT(-EINVAL, umnt(&e, "/lm", LX_UMOUNT_NOFOLLOW));
	WANT(0, umnt(&e, "/lm", 0));
	WANT(-EBUSY, umnt(&e, "/", 0));
	env_down(&e);
}

Test(vfs_names_mount, flags)
{
	struct env e;
	struct open_how rd = {.flags = LX_O_RDONLY}, wr = {.flags = LX_O_RDWR};
	struct file *f, *g;
	struct path p;

	env_up(&e);
	WANT(0, do_mkdir(&e, "/m"));
	WANT(0, mnt(&e, "/m", 0));
	WANT(0, do_create(&e, "/m/f"));
	WANT(0, vfs_mknod(root_of(&e), NULL, "/m/null", LX_S_IFCHR | 0666, lx_makedev(250, 3)));
	WANT(-ENXIO, vfs_open(root_of(&e), NULL, "/m/null", &rd, &f));
	WANT(0, vfs_open(root_of(&e), NULL, "/m/f", &wr, &f));
	WANT(-EBUSY, vfs_mount(root_of(&e), NULL, "/m", NULL, LX_MS_REMOUNT | LX_MS_RDONLY, NULL));
	file_put(f);
	WANT(0, vfs_mount(root_of(&e), NULL, "/m", NULL,
			  LX_MS_REMOUNT | LX_MS_RDONLY | LX_MS_NODEV | LX_MS_NOEXEC, NULL));
	WANT(-EROFS, do_create(&e, "/m/g"));
	WANT(-EEXIST, do_create(&e, "/m/f"));
	WANT(-EROFS, do_mkdir(&e, "/m/g"));
	WANT(-EEXIST, do_mkdir(&e, "/m/f"));
	WANT(-EROFS, vfs_unlink(root_of(&e), NULL, "/m/f"));
	WANT(-EROFS, vfs_unlink(root_of(&e), NULL, "/m/n"));
	WANT(-EROFS, vfs_rename(root_of(&e), NULL, "/m/f", NULL, "/m/g", 0));
	WANT(-EROFS, vfs_link(root_of(&e), NULL, "/m/f", NULL, "/m/g", 0));
	WANT(-EROFS, vfs_open(root_of(&e), NULL, "/m/f", &wr, &f));
	WANT(-EACCES, vfs_open(root_of(&e), NULL, "/m/null", &rd, &f));
	WANT(0, vfs_open(root_of(&e), NULL, "/m/f", &rd, &f));
	WANT(0, path_lookup(root_of(&e), NULL, "/m/f", 0, &p));
	WANT(-EROFS, vfs_chown(root_of(&e), &p, 1, 1));
	WANT(-EROFS, vfs_access(root_of(&e), &p, MAY_WRITE));
	WANT(-EACCES, vfs_open_exec(root_of(&e), &p, &g));
	path_put(&p);
	file_put(f);
	WANT(0, vfs_mount(root_of(&e), NULL, "/m", NULL, LX_MS_REMOUNT, NULL));
	WANT(0, do_create(&e, "/m/g"));
	/* a bind mount may be read-only by itself */
	WANT(0, do_mkdir(&e, "/b"));
	WANT(0, bind(&e, "/m", "/b", 0));
	WANT(0, vfs_mount(root_of(&e), NULL, "/b", NULL, LX_MS_REMOUNT | LX_MS_BIND | LX_MS_RDONLY,
			  NULL));
	WANT(-EROFS, do_create(&e, "/b/h"));
	WANT(0, do_create(&e, "/m/h"));
	WANT(0, do_stat(&e, "/b/h"));
	WANT(-EXDEV, vfs_rename(root_of(&e), NULL, "/m/h", NULL, "/b/h2", 0));
	WANT(-EINVAL, vfs_mount(root_of(&e), NULL, "/m/f", NULL, LX_MS_REMOUNT, NULL));
	/* ETXTBSY both ways */
	WANT(0, path_lookup(root_of(&e), NULL, "/m/f", 0, &p));
	WANT(0, inode_deny_write(p.dentry->inode));
	WANT(-ETXTBSY, vfs_open(root_of(&e), NULL, "/m/f", &wr, &f));
	inode_allow_write(p.dentry->inode);
	WANT(0, vfs_open(root_of(&e), NULL, "/m/f", &wr, &f));
	WANT(-ETXTBSY, inode_deny_write(p.dentry->inode));
	file_put(f);
	WANT(0, inode_deny_write(p.dentry->inode));
	inode_allow_write(p.dentry->inode);
	path_put(&p);
	env_down(&e);
}

Test(vfs_names_mount, bind_and_move)
{
	struct env e;

	env_up(&e);
	WANT(0, do_mkdir(&e, "/a"));
	WANT(0, do_mkdir(&e, "/a/in"));
	WANT(0, do_mkdir(&e, "/a/in/deep"));
	WANT(0, do_mkdir(&e, "/a/out"));
	WANT(0, do_create(&e, "/a/in/f"));
	WANT(0, do_mkdir(&e, "/b"));
	WANT(0, do_create(&e, "/file"));
	WANT(0, mnt(&e, "/a/in/deep", 0));
	WANT(0, do_create(&e, "/a/in/deep/x"));
	WANT(0, mnt(&e, "/a/out", 0));
	WANT(0, do_create(&e, "/a/out/y"));
	WANT(-ENOTDIR, bind(&e, "/file", "/b", 0));
	WANT(-ENOENT, bind(&e, "/n", "/b", 0));
	WANT(-EINVAL, bind(&e, "", "/b", 0));
	/* not recursive: what is mounted below is not there */
	WANT(0, bind(&e, "/a/in", "/b", 0));
	WANT(0, do_stat(&e, "/b/f"));
	WANT(-ENOENT, do_stat(&e, "/b/deep/x"));
	cr_expect_str_eq(text_of(&e, "/b/deep/.."), "/b");
	cr_expect_str_eq(text_of(&e, "/b/.."), "/");
	WANT(0, umnt(&e, "/b", 0));
	WANT(0, bind(&e, "/a/in", "/b", LX_MS_REC));
	WANT(0, do_stat(&e, "/b/deep/x"));
	WANT(-EXDEV, do_walk(&e, "/b/deep/x", WALK_NO_XDEV));
	WANT(0, do_chdir(&e, "/b/deep"));
	WANT(0, do_walk(&e, "x", WALK_NO_XDEV));
	WANT(-EXDEV, do_walk(&e, "..", WALK_NO_XDEV));
	WANT(0, do_chdir(&e, "/"));
	/* moved out of what the bind mount shows: no way up */
	WANT(0, do_chdir(&e, "/b/deep/.."));
	WANT(0, do_mkdir(&e, "/a/in/walk"));
	WANT(0, do_chdir(&e, "/b/walk"));
	WANT(0, vfs_rename(root_of(&e), NULL, "/a/in/walk", NULL, "/a/walk", 0));
	WANT(-ENOENT, do_stat(&e, ".."));
	WANT(0, do_chdir(&e, "/"));
	WANT(-EBUSY, umnt(&e, "/b", 0));
	WANT(0, umnt(&e, "/b", LX_MNT_DETACH));
	/* a file */
	WANT(0, do_create(&e, "/g"));
	WANT(0, bind(&e, "/a/in/f", "/g", 0));
	WANT(-EBUSY, vfs_unlink(root_of(&e), NULL, "/g"));
	WANT(0, umnt(&e, "/g", 0));
	/* into itself */
	WANT(0, bind(&e, "/", "/b", LX_MS_REC));
	WANT(0, do_stat(&e, "/b/a/in/deep/x"));
	WANT(0, do_stat(&e, "/b/a/out/y"));
	WANT(0, umnt(&e, "/b", LX_MNT_DETACH));
	/* moving */
	WANT(-EINVAL, vfs_mount(root_of(&e), "/a", "/b", NULL, LX_MS_MOVE, NULL));
	WANT(-EINVAL, vfs_mount(root_of(&e), "/", "/b", NULL, LX_MS_MOVE, NULL));
	WANT(0, do_mkdir(&e, "/a/out/sub"));
	WANT(-ELOOP, vfs_mount(root_of(&e), "/a/out", "/a/out/sub", NULL, LX_MS_MOVE, NULL));
	WANT(-EINVAL, vfs_mount(root_of(&e), "/a/out", "/g", NULL, LX_MS_MOVE, NULL));
	WANT(0, vfs_mount(root_of(&e), "/a/out", "/b", NULL, LX_MS_MOVE, NULL));
	WANT(0, do_stat(&e, "/b/y"));
	WANT(-ENOENT, do_stat(&e, "/a/out/y"));
	cr_expect_str_eq(text_of(&e, "/b/y"), "/b/y");
	WANT(0, vfs_rmdir(root_of(&e), NULL, "/a/out"));
	/* propagation is accepted, where there is a mount */
	WANT(0, vfs_mount(root_of(&e), NULL, "/", NULL, LX_MS_PRIVATE | LX_MS_REC, NULL));
	WANT(0, vfs_mount(root_of(&e), NULL, "/b", NULL, LX_MS_SHARED, NULL));
	WANT(-EINVAL, vfs_mount(root_of(&e), NULL, "/a", NULL, LX_MS_SHARED, NULL));
	WANT(-EINVAL, vfs_mount(root_of(&e), NULL, "/b", NULL, LX_MS_SHARED | LX_MS_PRIVATE, NULL));
	env_down(&e);
}

Test(vfs_names_mount, pivot)
{
	struct env e;
	struct textbuf t;
	struct path root;

	env_up(&e);
	WANT(0, do_mkdir(&e, "/new"));
	WANT(0, do_create(&e, "/old-file"));
	WANT(-EBUSY, vfs_pivot_root(root_of(&e), "/new", "/new"));
	WANT(0, mnt(&e, "/new", 0));
	WANT(0, do_mkdir(&e, "/new/old"));
	WANT(0, do_mkdir(&e, "/new/dir"));
	WANT(0, do_create(&e, "/new/new-file"));
	WANT(-EPERM, vfs_pivot_root(&e.ctx[USER], "/new", "/new/old"));
	WANT(-ENOENT, vfs_pivot_root(root_of(&e), "/nothing", "/new/old"));
	WANT(-ENOTDIR, vfs_pivot_root(root_of(&e), "/old-file", "/new/old"));
	WANT(-EINVAL, vfs_pivot_root(root_of(&e), "/new/dir", "/new/old"));
	WANT(-EBUSY, vfs_pivot_root(root_of(&e), "/", "/new/old"));
	WANT(0, vfs_pivot_root(root_of(&e), "/new", "/new/old"));
	WANT(0, do_stat(&e, "/new-file"));
	WANT(0, do_stat(&e, "/old/old-file"));
	WANT(0, do_stat(&e, "../new-file"));
	cr_expect_str_eq(text_of(&e, "/old/new"), "/old/new");
	text_init(&t);
	fs_get_root(e.fs, &root);
	mount_show_mounts(e.ns, &root, &t);
	cr_expect(t.data && strstr(t.data, " / tmpfs rw,relatime"), "%s", t.data);
	cr_expect(t.data && strstr(t.data, " /old tmpfs "), "%s", t.data);
	text_fini(&t);
	mount_show_mountinfo(e.ns, &root, &t);
	cr_expect(t.data && strstr(t.data, " / / rw,relatime - tmpfs "), "%s", t.data);
	text_fini(&t);
	path_put(&root);
	WANT(0, umnt(&e, "/old", LX_MNT_DETACH));
	WANT(-ENOENT, do_stat(&e, "/old/old-file"));
	/* the old root on top of the new one, as container runtimes do */
	WANT(0, mnt(&e, "/dir", 0));
	WANT(0, do_chdir(&e, "/dir"));
	WANT(0, vfs_pivot_root(root_of(&e), ".", "."));
	WANT(0, umnt(&e, ".", LX_MNT_DETACH));
	WANT(0, do_chdir(&e, "/"));
	WANT(-ENOENT, do_stat(&e, "/new-file"));
	env_down(&e);
}

Test(vfs_names_mount, chroot)
{
	struct env e;
	struct path p;

	env_up(&e);
	WANT(0, do_mkdir(&e, "/jail"));
	WANT(0, do_mkdir(&e, "/jail/d"));
	WANT(0, do_mkdir(&e, "/out side"));
	WANT(0, mnt(&e, "/out side", 0));
	WANT(0, path_lookup(root_of(&e), NULL, "/jail", 0, &p));
	WANT(-EPERM, vfs_chroot(&e.ctx[USER], &p));
	WANT(0, vfs_chroot(root_of(&e), &p));
	path_put(&p);
	WANT(0, do_chdir(&e, "/d"));
	WANT(0, do_stat(&e, "../../d"));
	WANT(-ENOENT, do_stat(&e, "/../out side"));
	cr_expect_str_eq(text_of(&e, "."), "/d");

	struct path root, ns_root = {e.ns->root, e.ns->root->root};
	struct textbuf t;

	text_init(&t);
	fs_get_root(e.fs, &root);
	mount_show_mounts(e.ns, &root, &t);
	cr_expect(!t.data || !strstr(t.data, "side"), "%s", t.data);
	text_fini(&t);
	mount_show_mounts(e.ns, &ns_root, &t);
	cr_expect(t.data && strstr(t.data, " /out\\040side tmpfs rw"), "%s", t.data);
	text_fini(&t);
	path_put(&root);
	fs_set_root(e.fs, &ns_root);
	fs_set_cwd(e.fs, &ns_root);
	env_down(&e);
}
