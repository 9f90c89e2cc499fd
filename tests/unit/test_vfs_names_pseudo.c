/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of generated file systems, and sysfs on it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/vfs_names_env.h"
#include "vfs/dcache.h"
#include "vfs/mount.h"
#include "vfs/pseudofs.h"
#include "vfs/sysfs.h"

/* ---- a file system of objects that come and go ---- */

struct obj {
	int refs;
	bool alive;
	int shows;
	char stored[16];
};
static struct obj g_objs[3];
static struct path g_target; /* of the magic link */

static void *obj_get(void *o)
{
	((struct obj *)o)->refs++;
	return o;
}

static void obj_put(void *o)
{
	((struct obj *)o)->refs--;
}

static bool obj_alive(void *o)
{
	return ((struct obj *)o)->alive;
}

static int obj_show(struct vfs_ctx *c, struct inode *i, void *o, struct textbuf *out)
{
	struct obj *obj = o;

	(void)c;
	(void)i;
	text_printf(out, "object %d shown %d times\n", (int)(obj - g_objs), ++obj->shows);
	return 0;
}

static ssize_t obj_store(struct vfs_ctx *c, struct inode *i, void *o, const char *data, size_t size)
{
	struct obj *obj = o;

	(void)c;
	(void)i;
	if (size >= sizeof(obj->stored))
		return -EINVAL;
	memcpy(obj->stored, data, size);
	obj->stored[size] = '\0';
	return (ssize_t)size;
}

static void obj_attr(struct inode *i, void *o, struct kstat *st)
{
	(void)i;
	st->uid = USER_ID + (uint32_t)((struct obj *)o - g_objs);
}

static int magic_get_link(struct vfs_ctx *c, struct inode *i, void *o, struct path *out)
{
	(void)c;
	(void)i;
	(void)o;
	path_get(&g_target);
	*out = g_target;
	return 0;
}

static const struct pnode_ops g_show_ops = {.show = obj_show, .attr = obj_attr};
static const struct pnode_ops g_store_ops = {
	.show = obj_show, .store = obj_store, .attr = obj_attr};
static const struct pnode_ops g_magic_ops = {.get_link = magic_get_link};
static const struct pnode_ops g_obj_ops = {
	.alive = obj_alive, .get_obj = obj_get, .put_obj = obj_put, .attr = obj_attr};
static const struct pnode g_obj_files[] = {
	{.name = "private", .mode = LX_S_IFREG | 0400, .ops = &g_show_ops},
	{.name = "status", .mode = LX_S_IFREG | 0444, .ops = &g_show_ops},
	{.name = "control", .mode = LX_S_IFREG | 0644, .ops = &g_store_ops},
	{.name = "exe", .mode = LX_S_IFLNK | 0777, .ops = &g_magic_ops},
	{.name = NULL},
};
static const struct pnode g_obj_dir = {
	.name = "obj", .mode = LX_S_IFDIR | 0555, .ops = &g_obj_ops, .children = g_obj_files};

static int objs_lookup(struct inode *dir, void *o, const char *name, size_t len,
		       const struct pnode **child, void **child_obj, uint64_t *ino)
{
	(void)dir;
	(void)o;
	(void)ino;
	if (len != 1 || name[0] < '0' || name[0] > '2' || !g_objs[name[0] - '0'].alive)
		return -ENOENT;
	*child = &g_obj_dir;
	*child_obj = obj_get(&g_objs[name[0] - '0']);
	*ino = 100 + (uint64_t)(name[0] - '0');
	return 0;
}

static int objs_iterate(struct inode *dir, void *o, struct dir_ctx *ctx, int64_t *off)
{
	(void)dir;
	(void)o;
	for (; *off < 3; ++*off) {
		char name = (char)('0' + *off);

		if (g_objs[*off].alive &&
		    !ctx->emit(ctx, &name, 1, 100 + (uint64_t)*off, LX_DT_DIR, *off + 1))
			return 0;
	}
	return 0;
}

static const struct pnode_ops g_objs_ops = {.lookup = objs_lookup, .iterate = objs_iterate};
static const struct pnode g_static[] = {
	{.name = "self", .mode = LX_S_IFLNK | 0777, .data = "1"},
	{.name = NULL},
};
static const struct pnode g_objs_root = {
	.name = "/", .mode = LX_S_IFDIR | 0555, .ops = &g_objs_ops, .children = g_static};

static int objs_mount(const struct fs_type *type, struct vfs_ctx *c, const char *source,
		      const char *data, unsigned flags, struct super **out)
{
	(void)c;
	(void)source;
	(void)data;
	(void)flags;
	return pseudofs_new(type, &g_objs_root, 0x1234, out);
}
static const struct fs_type g_objs_type = {
	.name = "objs", .mount = objs_mount, .user_mountable = true};

/* ---- helpers ---- */

static ssize_t slurp(struct vfs_ctx *c, const char *name, char *buf, size_t size)
{
	struct open_how how = {.flags = LX_O_RDONLY};
	struct file *f;
	int r = vfs_open(c, NULL, name, &how, &f);

	if (r)
		return r;

	ssize_t n = vfs_read_kernel(f, buf, size - 1, 0);

	buf[n > 0 ? n : 0] = '\0';
	file_put(f);
	return n;
}

static ssize_t read_more(struct vfs_ctx *c, struct file *f, char *buf, size_t size)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, buf, size);
	return vfs_read(c, f, &u, NULL);
}

struct names {
	struct dir_ctx ctx;
	char text[512];
	unsigned room;
};

static bool collect(struct dir_ctx *ctx, const char *name, size_t len, uint64_t ino, unsigned dtype,
		    int64_t next_off)
{
	struct names *n = container_of(ctx, struct names, ctx);

	(void)ino;
	(void)dtype;
	(void)next_off;
	if (n->room == 0)
		return false;
	n->room--;
	strncat(n->text, name, len);
	strcat(n->text, " ");
	return true;
}

static const char *list(struct vfs_ctx *c, const char *name, unsigned at_once)
{
	static struct names n;
	struct open_how how = {.flags = LX_O_RDONLY | LX_O_DIRECTORY};
	struct file *f;
	size_t before;

	n = (struct names){.ctx = {.emit = collect}};
	if (vfs_open(c, NULL, name, &how, &f) != 0)
		return "(none)";
	do {
		before = strlen(n.text);
		n.room = at_once;
		if (vfs_iterate(f, &n.ctx) != 0)
			strcat(n.text, "(error)");
	} while (strlen(n.text) != before);
	file_put(f);
	return n.text;
}

Test(vfs_names_pseudo, objects)
{
	struct open_how rd = {.flags = LX_O_RDONLY}, wr = {.flags = LX_O_WRONLY | LX_O_TRUNC};
	struct vfs_ctx *c;
	struct file *f;
	struct path p, cwd;
	struct kstat st;
	struct env e;
	char buf[128];

	env_up(&e);
	c = &e.ctx[ROOT];
	fs_type_register(&g_objs_type);
	memset(g_objs, 0, sizeof(g_objs));
	g_objs[0].alive = g_objs[1].alive = true;
	WANT(0, vfs_mkdir(c, NULL, "/o", 0755));
	WANT(0, vfs_mount(c, "o", "/o", "objs", 0, NULL));
	cr_expect_str_eq(list(c, "/o", 100), ". .. self 0 1 ");
	cr_expect_str_eq(list(c, "/o", 1), ". .. self 0 1 ");
	cr_expect_str_eq(list(c, "/o/1", 2), ". .. private status control exe ");
	WANT(-ENOENT, path_lookup(c, NULL, "/o/2", 0, &p));
	WANT(-ENOENT, path_lookup(c, NULL, "/o/xx", 0, &p));
	WANT(23, slurp(c, "/o/self/status", buf, sizeof(buf)));
	cr_expect_str_eq(buf, "object 1 shown 1 times\n");
	/* one moment for one reader, a new one from the start */
	WANT(0, vfs_open(c, NULL, "/o/0/status", &rd, &f));
	WANT(6, read_more(c, f, buf, 6));
	WANT(17, read_more(c, f, buf, sizeof(buf)));
	WANT(0, read_more(c, f, buf, sizeof(buf)));
	WANT(1, g_objs[0].shows);
	WANT(0, vfs_lseek(f, 0, 0));
	WANT(23, read_more(c, f, buf, sizeof(buf)));
	WANT(2, g_objs[0].shows);
	/* it dies while open */
	g_objs[0].alive = false;
	WANT(0, vfs_lseek(f, 0, 0));
	WANT(-ESRCH, read_more(c, f, buf, sizeof(buf)));
	file_put(f);
	WANT(-ENOENT, path_lookup(c, NULL, "/o/0/status", 0, &p));
	WANT(-ENOENT, path_lookup(c, NULL, "/o/0", 0, &p));
	WANT(0, g_objs[0].refs);
	/* owners come from the object */
	WANT(0, path_lookup(c, NULL, "/o/1/private", 0, &p));
	WANT(0, vfs_getattr(&p, &st));
	cr_expect_eq(st.uid, USER_ID + 1);
	path_put(&p);
	WANT(-EACCES, slurp(&e.ctx[USER], "/o/1/private", buf, sizeof(buf)));
	/* storing */
	WANT(0, vfs_open(c, NULL, "/o/1/control", &wr, &f));
	{
		struct uio_seg seg;
		struct uio u;
		char data[] = "hello";

		uio_init_kernel(&u, &seg, data, 5);
		WANT(5, vfs_write(c, f, &u, NULL));
		cr_expect_str_eq(g_objs[1].stored, "hello");
	}
	file_put(f);
	/* nothing can be made or removed */
	WANT(-EPERM, vfs_mkdir(c, NULL, "/o/d", 0755));
	WANT(-EPERM, vfs_unlink(c, NULL, "/o/self"));
	WANT(-EPERM, vfs_rename(c, NULL, "/o/self", NULL, "/o/me", 0));
	wr.flags = LX_O_CREAT | LX_O_WRONLY;
	WANT(-EACCES, vfs_open(c, NULL, "/o/new", &wr, &f));
	/* a magic link leads to an object, whatever its name is by now */
	WANT(0, vfs_mknod(c, NULL, "/prog", LX_S_IFREG | 0755, 0));
	WANT(0, path_lookup(c, NULL, "/prog", 0, &g_target));
	WANT(0, vfs_unlink(c, NULL, "/prog"));
	WANT(0, path_lookup(c, NULL, "/o/1/exe", WALK_FOLLOW, &p));
	cr_expect_eq(p.dentry, g_target.dentry);
	path_put(&p);
	WANT(-ENOTDIR, path_lookup(c, NULL, "/o/1/exe/", WALK_FOLLOW, &p));
	WANT(-ENOTDIR, path_lookup(c, NULL, "/o/1/exe/x", WALK_FOLLOW, &p));
	WANT(-ELOOP, path_lookup(c, NULL, "/o/1/exe", WALK_FOLLOW | WALK_NO_MAGICLINKS, &p));
	WANT(-EXDEV, path_lookup(c, NULL, "/o/1/exe", WALK_FOLLOW | WALK_NO_XDEV, &p));
	fs_get_root(e.fs, &cwd);
	WANT(-EXDEV, path_lookup(c, &cwd, "o/1/exe", WALK_FOLLOW | WALK_BENEATH, &p));
	path_put(&cwd);
	WANT(0, path_lookup(c, NULL, "/o/1/exe", 0, &p));
	WANT(15, vfs_readlink(c, &p, buf, sizeof(buf)));
	cr_expect_eq(memcmp(buf, "/prog (deleted)", 15), 0);
	path_put(&p);
	WANT(0, vfs_open(c, NULL, "/o/1/exe", &rd, &f));
	file_put(f);
	path_put(&g_target);
	WANT(0, g_objs[1].refs);
	env_down(&e);
}

Test(vfs_names_pseudo, sysfs)
{
	struct sysfs_params par = {
		.cpus = 40, .threads_per_core = 2, .mem_total = (uint64_t)8 << 30, .thp = "always"};
	struct vfs_ctx *c;
	struct env e;
	char buf[4096];

	env_up(&e);
	c = &e.ctx[ROOT];
	sysfs_configure(&par);
	WANT(0, vfs_mkdir(c, NULL, "/sys", 0755));
	WANT(0, vfs_mount(c, "sysfs", "/sys", "sysfs", 0, NULL));
	WANT(5, slurp(c, "/sys/devices/system/cpu/online", buf, sizeof(buf)));
	cr_expect_str_eq(buf, "0-39\n");
	WANT(4, slurp(c, "/sys/devices/system/cpu/cpu7/topology/thread_siblings_list", buf,
		      sizeof(buf)));
	cr_expect_str_eq(buf, "6-7\n");
	WANT(12,
	     slurp(c, "/sys/devices/system/cpu/cpu39/topology/thread_siblings", buf, sizeof(buf)));
	cr_expect_str_eq(buf, "c0,00000000\n");
	WANT(12, slurp(c, "/sys/devices/system/node/node0/cpumap", buf, sizeof(buf)));
	cr_expect_str_eq(buf, "ff,ffffffff\n");
	WANT(4, slurp(c, "/sys/devices/system/cpu/cpu0/cache/index0/size", buf, sizeof(buf)));
	cr_expect_str_eq(buf, "32K\n");
	WANT(23, slurp(c, "/sys/kernel/mm/transparent_hugepage/enabled", buf, sizeof(buf)));
	cr_expect_str_eq(buf, "[always] madvise never\n");
	cr_expect_gt(slurp(c, "/sys/devices/system/node/node0/meminfo", buf, sizeof(buf)), 50);
	cr_expect(strstr(buf, "Node 0 MemTotal:        8388608 kB\n"), "%s", buf);
	WANT(6, slurp(c, "/sys/class/net/lo/mtu", buf, sizeof(buf)));
	WANT(2, slurp(c, "/sys/devices/system/node/node0/cpu3/topology/core_id", buf, sizeof(buf)));
	WANT(-ENOENT, slurp(c, "/sys/devices/system/cpu/cpu40/online", buf, sizeof(buf)));
	WANT(-ENOENT, slurp(c, "/sys/devices/system/cpu/cpu01/online", buf, sizeof(buf)));
	WANT(-ENOENT, slurp(c, "/sys/devices/system/cpu/cpu0/online", buf, sizeof(buf)));
	WANT(2, slurp(c, "/sys/devices/system/cpu/cpu10/online", buf, sizeof(buf)));
	cr_expect(strstr(list(c, "/sys/devices/system/cpu", 3), "cpu9 cpu10 "), "cpus are listed");
	cr_expect_str_eq(list(c, "/sys/fs/cgroup", 3), ". .. ");
	par.cpus = 1;
	par.threads_per_core = 1;
	sysfs_configure(&par);
	WANT(2, slurp(c, "/sys/devices/system/cpu/possible", buf, sizeof(buf)));
	cr_expect_str_eq(buf, "0\n");
	WANT(2, slurp(c, "/sys/devices/system/cpu/cpu0/topology/core_cpus", buf, sizeof(buf)));
	cr_expect_str_eq(buf, "1\n");
	env_down(&e);
}
