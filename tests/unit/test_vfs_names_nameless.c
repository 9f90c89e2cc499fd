/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tables cannot say: nameless files that get a name, starts other than the cwd, sockets,
 * limits of xattrs, large sizes, credentials.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/vfs_names_env.h"
#include "vfs/chrdev.h"
#include "vfs/dcache.h"
#include "vfs/mount.h"
#include "vfs/xattr.h"

static int stat_of(struct vfs_ctx *c, const char *name, struct kstat *st)
{
	struct path p;
	int r = path_lookup(c, NULL, name, 0, &p);

	if (r)
		return r;
	r = vfs_getattr(&p, st);
	path_put(&p);
	return r;
}

Test(vfs_names_nameless, nameless_file_gets_a_name)
{
	struct open_how how = {.flags = LX_O_TMPFILE | LX_O_RDWR, .mode = 0640};
	struct vfs_ctx *c, *user;
	struct kstat st;
	struct file *f;
	struct env e;

	env_up(&e);
	c = &e.ctx[ROOT];
	user = &e.ctx[USER];
	WANT(0, vfs_open(c, NULL, "/", &how, &f));
	WANT(0, inode_getattr(f->inode, &st));
	cr_expect_eq(st.nlink, 0);
	cr_expect_eq(st.mode, LX_S_IFREG | 0640);
	WANT(-ENOENT, vfs_link(c, &f->path, "", NULL, "/named", 0));
	WANT(-ENOENT, vfs_link(user, &f->path, "", NULL, "/named", LX_AT_EMPTY_PATH));
	WANT(0, vfs_link(c, &f->path, "", NULL, "/named", LX_AT_EMPTY_PATH));
	WANT(0, stat_of(c, "/named", &st));
	cr_expect_eq(st.nlink, 1);
	cr_expect_eq(st.ino, f->inode->ino);
	/* once removed it is gone for good */
	WANT(0, vfs_unlink(c, NULL, "/named"));
	WANT(-ENOENT, vfs_link(c, &f->path, "", NULL, "/named", LX_AT_EMPTY_PATH));
	file_put(f);
	how.flags |= LX_O_EXCL;
	WANT(0, vfs_open(c, NULL, "/", &how, &f));
	WANT(-ENOENT, vfs_link(c, &f->path, "", NULL, "/named", LX_AT_EMPTY_PATH));
	file_put(f);
	env_down(&e);
}

Test(vfs_names_nameless, starts)
{
	struct open_how path_only = {.flags = LX_O_PATH}, rd = {.flags = LX_O_RDONLY};
	struct vfs_ctx *c;
	struct file *d, *f, *g, *h;
	struct path p;
	struct env e;
	char buf[16];

	env_up(&e);
	c = &e.ctx[ROOT];
	WANT(0, vfs_mkdir(c, NULL, "/d", 0755));
	WANT(0, vfs_mknod(c, NULL, "/d/f", LX_S_IFREG | 0644, 0));
	WANT(0, vfs_symlink(c, "f", NULL, "/d/l"));
	WANT(0, vfs_open(c, NULL, "/d", &path_only, &d));
	WANT(0, vfs_open(c, NULL, "/d/f", &path_only, &f));
	cr_expect_eq(f->fmode & (FMODE_PATH | FMODE_READ | FMODE_WRITE), FMODE_PATH);
	WANT(0, vfs_mkdir(c, &d->path, "sub", 0755));
	WANT(0, vfs_rename(c, &d->path, "sub", NULL, "/sub", 0));
	WANT(0, path_lookup(c, &d->path, "../sub", 0, &p));
	path_put(&p);
	WANT(0, path_lookup(c, &d->path, "/sub", 0, &p));
	path_put(&p);
	/* a start that is no directory */
	WANT(-ENOTDIR, path_lookup(c, &f->path, "x", 0, &p));
	WANT(-ENOENT, path_lookup(c, &f->path, "", 0, &p));
	WANT(0, path_lookup(c, &f->path, "", WALK_EMPTY, &p));
	path_put(&p);
	WANT(0, path_lookup(c, &f->path, "/d", 0, &p));
	path_put(&p);
	/* a link itself */
	path_only.flags |= LX_O_NOFOLLOW;
	WANT(0, vfs_open(c, NULL, "/d/l", &path_only, &g));
	WANT(1, vfs_readlink(c, &g->path, buf, sizeof(buf)));
	WANT(-ELOOP, vfs_open_path(c, &g->path, LX_O_RDONLY, &h));
	file_put(g);
	/* opened again, with other rights */
	WANT(0, vfs_open_path(c, &f->path, LX_O_RDWR, &g));
	file_put(g);
	WANT(-EACCES, vfs_open_path(&e.ctx[USER], &f->path, LX_O_RDWR, &g));
	WANT(-ENOTDIR, vfs_open_path(c, &f->path, LX_O_RDONLY | LX_O_DIRECTORY, &g));
	/* flags that are kept */
	rd.flags = LX_O_RDWR | LX_O_APPEND | LX_O_NONBLOCK | LX_O_CREAT | LX_O_TRUNC |
		   LX_O_CLOEXEC | LX_O_NOCTTY;
	WANT(0, vfs_open(c, NULL, "/d/f", &rd, &g));
	cr_expect_eq(g->flags, LX_O_RDWR | LX_O_APPEND | LX_O_NONBLOCK);
	file_put(g);
	file_put(f);
	file_put(d);
	env_down(&e);
}

static int g_opened;
static int dev_open(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	(void)c;
	(void)i;
	(void)f;
	g_opened++;
	return 0;
}
static const struct file_ops g_dev_fops = {.stream = true};
static const struct chrdev g_dev_all = {.name = "all", .open = dev_open, .fops = &g_dev_fops};
static const struct chrdev g_dev_one = {.name = "one", .fops = &g_dev_fops};

Test(vfs_names_nameless, devices)
{
	struct open_how how = {.flags = LX_O_RDWR};
	struct vfs_ctx *c;
	struct file *f;
	struct env e;

	env_up(&e);
	c = &e.ctx[ROOT];
	WANT(0, chrdev_register(240, CHRDEV_MINOR_ANY, &g_dev_all));
	WANT(0, chrdev_register(240, 7, &g_dev_one));
	WANT(-EBUSY, chrdev_register(240, 7, &g_dev_all));
	WANT(0, vfs_mknod(c, NULL, "/one", LX_S_IFCHR | 0666, lx_makedev(240, 7)));
	WANT(0, vfs_mknod(c, NULL, "/any", LX_S_IFCHR | 0666, lx_makedev(240, 123456)));
	WANT(0, vfs_mknod(c, NULL, "/none", LX_S_IFCHR | 0666, lx_makedev(241, 0)));
	WANT(0, vfs_mknod(c, NULL, "/block", LX_S_IFBLK | 0666, lx_makedev(240, 7)));
	WANT(0, vfs_open(c, NULL, "/one", &how, &f));
	file_put(f);
	WANT(0, g_opened);
	WANT(0, vfs_open(c, NULL, "/any", &how, &f));
	file_put(f);
	WANT(1, g_opened);
	WANT(-ENXIO, vfs_open(c, NULL, "/none", &how, &f));
	WANT(-ENXIO, vfs_open(c, NULL, "/block", &how, &f));
	/* O_TRUNC means nothing here */
	how.flags |= LX_O_TRUNC;
	WANT(0, vfs_open(c, NULL, "/one", &how, &f));
	file_put(f);
	cr_expect_eq(lx_dev_major(lx_makedev(0x12345, 0x6789a)), 0x12345);
	cr_expect_eq(lx_dev_minor(lx_makedev(0x12345, 0x6789a)), 0x6789a);
	env_down(&e);
}

Test(vfs_names_nameless, sockets)
{
	struct vfs_ctx *c;
	struct path p;
	struct env e;
	int sock;

	env_up(&e);
	c = &e.ctx[ROOT];
	WANT(0, vfs_mksock(c, "/sock", 0777, &sock, &p));
	cr_expect_eq(p.dentry->inode->sock, &sock);
	cr_expect_eq(p.dentry->inode->mode, LX_S_IFSOCK | 0755);
	path_put(&p);
	WANT(-EEXIST, vfs_mksock(c, "/sock", 0777, &sock, &p));
	WANT(-EACCES, vfs_mksock(&e.ctx[USER], "/sock2", 0777, &sock, &p));
	WANT(-ENOENT, vfs_mksock(c, "/n/sock", 0777, &sock, &p));
	env_down(&e);
}

Test(vfs_names_nameless, xattr_limits)
{
	struct vfs_ctx *c, *user;
	char name[300], *big = calloc(1, LX_XATTR_SIZE_MAX + 1), list[256];
	struct path p;
	struct env e;

	env_up(&e);
	c = &e.ctx[ROOT];
	user = &e.ctx[USER];
	WANT(0, vfs_mknod(c, NULL, "/f", LX_S_IFREG | 0666, 0));
	WANT(0, path_lookup(c, NULL, "/f", 0, &p));
	memset(name, 'a', sizeof(name));
	memcpy(name, "user.", 5);
	name[256] = '\0';
	WANT(-ERANGE, vfs_setxattr(c, &p, name, "v", 1, 0));
	WANT(-ERANGE, vfs_getxattr(c, &p, name, list, sizeof(list)));
	WANT(-E2BIG, vfs_setxattr(c, &p, "user.b", big, LX_XATTR_SIZE_MAX + 1, 0));
	WANT(0, vfs_setxattr(c, &p, "user.b", "hello", 5, 0));
	WANT(0, vfs_setxattr(c, &p, "trusted.t", "", 0, 0));
	WANT(5, vfs_getxattr(c, &p, "user.b", NULL, 0));
	WANT(-ERANGE, vfs_getxattr(c, &p, "user.b", list, 4));
	WANT(5, vfs_getxattr(c, &p, "user.b", list, 5));
	WANT(0, vfs_getxattr(c, &p, "trusted.t", list, sizeof(list)));
	WANT(-EOPNOTSUPP, vfs_getxattr(c, &p, "system.posix_acl_access", list, sizeof(list)));
	/* only those who may know of them see trusted ones */
	WANT(17, vfs_listxattr(c, &p, NULL, 0));
	WANT(17, vfs_listxattr(c, &p, list, sizeof(list)));
	WANT(7, vfs_listxattr(user, &p, NULL, 0));
	WANT(7, vfs_listxattr(user, &p, list, 7));
	cr_expect_str_eq(list, "user.b");
	WANT(-ERANGE, vfs_listxattr(user, &p, list, 6));
	path_put(&p);
	free(big);
	env_down(&e);
}

Test(vfs_names_nameless, sizes_and_times)
{
	struct iattr attr = {.valid = ATTR_SIZE, .size = 5000};
	struct lx_stat lx;
	struct kstat st;
	struct vfs_ctx *c;
	struct path p;
	struct env e;

	env_up(&e);
	c = &e.ctx[ROOT];
	WANT(0, vfs_mknod(c, NULL, "/f", LX_S_IFREG | 0666, 0));
	WANT(0, path_lookup(c, NULL, "/f", 0, &p));
	WANT(0, vfs_setattr(c, &p, &attr));
	c->fsize_limit = 4096;
	attr.size = 6000;
	WANT(-EFBIG, vfs_setattr(c, &p, &attr));
	attr.size = 4999; /* smaller, though over the limit */
	WANT(0, vfs_setattr(c, &p, &attr));
	c->fsize_limit = UINT64_MAX;
	attr.size = (uint64_t)INT64_MAX + 1;
	WANT(-EFBIG, vfs_setattr(c, &p, &attr));
	attr = (struct iattr){.valid = ATTR_ATIME | ATTR_MTIME, .atime = -1, .mtime = 1500000000};
	WANT(0, vfs_setattr(c, &p, &attr));
	WANT(0, vfs_getattr(&p, &st));
	kstat_to_lx(&st, &lx);
	cr_expect_eq(lx.st_atim.tv_sec, -1);
	cr_expect_eq(lx.st_atim.tv_nsec, 999999999);
	cr_expect_eq(lx.st_mtim.tv_sec, 1);
	cr_expect_eq(lx.st_mtim.tv_nsec, 500000000);
	cr_expect_eq(lx.st_size, 4999);
	cr_expect_eq(st.mnt_id, (uint64_t)e.ns->root->id);
	path_put(&p);
	env_down(&e);
}

Test(vfs_names_nameless, credentials)
{
	struct cred *c = cred_new(5, 6, 0x7), *d;
	struct cred_groups *g = cred_groups_new(4);

	cr_assert(c && g);
	cr_expect_eq(c->cap_effective, 0u);
	cr_expect_eq(c->cap_bset, 0x7u);
	g->gid[0] = 30;
	g->gid[1] = 10;
	g->gid[2] = UINT32_MAX - 1;
	g->gid[3] = 20;
	cred_set_groups(c, g);
	d = cred_dup(c);
	cr_assert_not_null(d);
	cred_put(c);
	cr_expect(cred_in_group(d, 6) && cred_in_group(d, 10) && cred_in_group(d, 20));
	cr_expect(cred_in_group(d, UINT32_MAX - 1) && !cred_in_group(d, 15) &&
		  !cred_in_group(d, 0));
	d->egid = 77;
	cr_expect(cred_in_egroup(d, 77) && !cred_in_egroup(d, 6));
	cr_expect(!cred_capable(d, LX_CAP_CHOWN) && !cred_capable(d, -1) && !cred_capable(d, 64));
	cred_put(d);
	c = cred_new(0, 0, LX_CAP_ALL);
	cr_assert_not_null(c);
	cr_expect(cred_capable(c, LX_CAP_LAST) && !cred_capable(c, LX_CAP_LAST + 1));
	cred_put(c);
	cr_expect_null(cred_groups_new(LX_NGROUPS_MAX + 1));
}
