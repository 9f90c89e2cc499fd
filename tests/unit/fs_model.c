/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random walk of file operations on moat and on the host. See fs_model.h.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lx_fcntl.h"
#include "tests/unit/fs_model.h"
#include "vfs/dcache.h"
#include "vfs/tmpfs.h"

void fsenv_start(void)
{
	static bool started;

	if (!started) {
		int r = clock_start(CLOCK_KIND_HOST, 0);

		BUG_ON(r != 0);
		vfs_init();
		started = true;
	}
}

void fsenv_up(struct fsenv *e, struct super *s)
{
	struct dcache_stats st;

	fsenv_start();
	dcache_get_stats(&st);
	e->dentries_before = st.total - 1; /* without the root of @s */
	e->ns = mount_ns_new(s, 0);
	BUG_ON(!e->ns);
	super_put(s);
	struct path root = {e->ns->root, e->ns->root->root};

	e->fs = fs_new(&root, &root, 0);
	struct cred *c = cred_new(0, 0, LX_CAP_ALL);

	BUG_ON(!e->fs || !c);
	e->ctx = (struct vfs_ctx){.cred = c, .fs = e->fs, .ns = e->ns, .fsize_limit = UINT64_MAX};
}

void fsenv_up_tmpfs(struct fsenv *e, const char *opts)
{
	struct tmpfs_opts o = TMPFS_OPTS_DEFAULT;
	struct super *s;

	cr_assert_eq(tmpfs_parse_opts(opts, &o), 0);
	cr_assert_eq(tmpfs_new(&o, &s), 0);
	fsenv_up(e, s);
}

void fsenv_down(struct fsenv *e)
{
	struct dcache_stats st;

	fs_put(e->fs);
	mount_ns_put(e->ns);
	cred_put(e->ctx.cred);
	dcache_get_stats(&st);
	cr_expect_eq(st.total, e->dentries_before, "%zu dentries left",
		     st.total - e->dentries_before);
}

int fsm_open(struct fsenv *e, const char *path, unsigned flags, unsigned mode, struct file **out)
{
	struct open_how how = {.flags = flags, .mode = mode};

	return vfs_open(&e->ctx, NULL, path, &how, out);
}

ssize_t fsm_pwrite(struct fsenv *e, struct file *f, const void *buf, size_t size, int64_t off)
{
	struct uio_seg seg;
	struct uio u;
	void *copy = malloc(size + 1); /* not ours: tests make our allocations fail */

	memcpy(copy, buf, size);
	uio_init_kernel(&u, &seg, copy, size);
	ssize_t r = vfs_write(&e->ctx, f, &u, &off);

	free(copy);
	return r;
}

ssize_t fsm_pread(struct fsenv *e, struct file *f, void *buf, size_t size, int64_t off)
{
	struct uio_seg seg;
	struct uio u;

	uio_init_kernel(&u, &seg, buf, size);
	return vfs_read(&e->ctx, f, &u, &off);
}

struct fsm_given g_fsm_given;

static bool give(void *ctx, uint64_t base, const struct uio_file *file, uint64_t pos, size_t size)
{
	(void)ctx;
	(void)base;
	g_fsm_given.count++;
	g_fsm_given.file = file ? *file : (struct uio_file){.id = 0};
	g_fsm_given.pos = pos;
	g_fsm_given.size = size;
	return g_fsm_given.take;
}

static ssize_t give_copy(void *ctx, uint64_t base, const void *buf, size_t size)
{
	(void)ctx;
	memcpy((void *)(uintptr_t)base, buf, size);
	return (ssize_t)size;
}

ssize_t fsm_pread_given(struct file *f, void *buf, size_t size, int64_t off)
{
	static const struct uio_ops ops = {.copy_out = give_copy, .give = give};
	const struct uio_seg seg = {.base = (uint64_t)(uintptr_t)buf, .size = size};
	struct uio u;

	g_fsm_given.count = 0;
	uio_init(&u, &ops, NULL, &seg, 1, size);
	return f->ops->read(f, &u, &off);
}

int fsm_put(struct fsenv *e, const char *path, const char *text)
{
	struct file *f;
	int r = fsm_open(e, path, LX_O_CREAT | LX_O_WRONLY | LX_O_TRUNC, 0644, &f);

	if (r < 0)
		return r;
	ssize_t n = fsm_pwrite(e, f, text, strlen(text), 0);

	file_put(f);
	return n < 0 ? (int)n : 0;
}

const char *fsm_text(struct fsenv *e, const char *path)
{
	static char buf[65536];
	struct file *f;
	ssize_t r = fsm_open(e, path, LX_O_RDONLY, 0, &f);

	if (r == 0) {
		r = fsm_pread(e, f, buf, sizeof(buf) - 1, 0);
		file_put(f);
	}
	if (r < 0)
		snprintf(buf, sizeof(buf), "!%zd", -r);
	else
		buf[r] = '\0';
	return buf;
}

int fsm_stat(struct fsenv *e, const char *path, struct kstat *st)
{
	struct path p;
	int r = path_lookup(&e->ctx, NULL, path, 0, &p);

	if (r < 0)
		return r;
	r = vfs_getattr(&p, st);
	path_put(&p);
	return r;
}

struct names {
	struct dir_ctx ctx;
	char *name[4096];
	size_t count, room; /* room: entries per call */
};

static bool names_emit(struct dir_ctx *ctx, const char *name, size_t len, uint64_t ino,
		       unsigned dtype, int64_t next_off)
{
	struct names *n = container_of(ctx, struct names, ctx);

	(void)ino;
	(void)dtype;
	(void)next_off;
	if (!n->room || n->count == ARRAY_SIZE(n->name))
		return false;
	n->room--;
	n->name[n->count++] = strndup(name, len);
	return true;
}

static int cmp_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int names_moat(struct fsenv *e, const char *path, struct names *n)
{
	struct file *f;
	int r = fsm_open(e, path, LX_O_RDONLY | LX_O_DIRECTORY, 0, &f);
	size_t before;

	n->ctx.emit = names_emit;
	n->count = 0;
	if (r < 0)
		return r;
	do {
		before = n->count;
		n->room = 3; /* little at a time, so that positions matter */
		r = vfs_iterate(f, &n->ctx);
	} while (r == 0 && n->count > before);
	file_put(f);
	qsort(n->name, n->count, sizeof(n->name[0]), cmp_names);
	return r;
}

static int names_host(const char *path, struct names *n)
{
	DIR *d = opendir(path);
	struct dirent *de;

	n->count = 0;
	if (!d)
		return -errno;
	while ((de = readdir(d)))
		n->name[n->count++] = strdup(de->d_name);
	closedir(d);
	qsort(n->name, n->count, sizeof(n->name[0]), cmp_names);
	return 0;
}

static void names_free(struct names *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->name[i]);
	n->count = 0;
}

const char *fsm_list(struct fsenv *e, const char *path)
{
	static char buf[65536];
	static struct names n;
	size_t at = 0;
	int r = names_moat(e, path, &n);

	buf[0] = '\0';
	for (size_t i = 0; i < n.count && at < sizeof(buf); i++)
		at += (size_t)snprintf(buf + at, sizeof(buf) - at, "%s ", n.name[i]);
	names_free(&n);
	if (r < 0)
		snprintf(buf, sizeof(buf), "!%d", -r);
	return buf;
}

int tmp_make(char *path)
{
	snprintf(path, 64, "/tmp/moat-fs-XXXXXX");
	return mkdtemp(path) ? 0 : -errno;
}

void tmp_remove(const char *path)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", path);
	if (system(cmd) != 0)
		cr_log_warn("%s is left", path);
}

void tmp_fill(const char *dir)
{
	char cmd[4096];

	snprintf(cmd, sizeof(cmd),
		 "cd %s && umask 022 && chmod 755 . && mkdir -p a/x b/y/z c && "
		 "echo one >a/one && echo two >a/x/two && echo three >b/three && ln b/three "
		 "c/again && "
		 "head -c 20000 /dev/urandom >b/y/big && ln -s ../a/one c/link && "
		 "ln -s nowhere b/dangling && : >c/empty && mkfifo b/fifo && chmod 600 a/one && "
		 "echo deep >b/y/z/deep",
		 dir);
	cr_assert_eq(system(cmd), 0);
}

/* ---- comparing ---- */

static bool read_host(const char *path, char *buf, size_t size, ssize_t *got)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW);

	*got = fd < 0 ? -errno : read(fd, buf, size);
	if (fd >= 0)
		close(fd);
	return *got >= 0;
}

static void compare_file(struct fsenv *e, const char *path, const char *host)
{
	static char a[1 << 20], b[1 << 20];
	struct file *f;
	ssize_t n, m;
	int r = fsm_open(e, path, LX_O_RDONLY | LX_O_NOFOLLOW, 0, &f);

	cr_assert_eq(r, 0, "%s: open %d", path, r);
	n = fsm_pread(e, f, a, sizeof(a), 0);
	file_put(f);
	cr_assert(read_host(host, b, sizeof(b), &m));
	cr_assert_eq(n, m, "%s: %zd bytes, on the host %zd", path, n, m);
	for (ssize_t i = 0; i < n; i++)
		cr_assert_eq(a[i], b[i], "%s: differs at %zd of %zd: %d, on the host %d", path, i,
			     n, a[i], b[i]);
}

static void compare_tree(struct fsenv *e, const char *path, const char *host, bool nlink)
{
	struct names *m = calloc(1, sizeof(*m)), *h = calloc(1, sizeof(*h));
	int rm = names_moat(e, *path ? path : "/", m), rh = names_host(host, h);

	cr_assert_eq(rm, 0, "%s: %d", path, rm);
	cr_assert_eq(rh, 0, "%s: %d", host, rh);
	for (size_t i = 0; i < MAX(m->count, h->count); i++) {
		const char *a = i < m->count ? m->name[i] : "(none)",
			   *b = i < h->count ? h->name[i] : "(none)";

		cr_assert_str_eq(a, b, "in %s: '%s', on the host '%s'", path, a, b);
	}
	for (size_t i = 0; i < m->count; i++) {
		char sub[4096], hsub[4096], ta[256] = "", tb[256] = "";
		struct kstat st;
		struct stat hst;

		if (strcmp(m->name[i], ".") == 0 || strcmp(m->name[i], "..") == 0)
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, m->name[i]);
		snprintf(hsub, sizeof(hsub), "%s/%s", host, m->name[i]);
		cr_assert_eq(fsm_stat(e, sub, &st), 0, "%s", sub);
		cr_assert_eq(lstat(hsub, &hst), 0, "%s", hsub);
		cr_assert_eq(st.mode, hst.st_mode, "%s: mode %o, on the host %o", sub, st.mode,
			     hst.st_mode);
		if (nlink)
			cr_assert_eq(st.nlink, hst.st_nlink, "%s: nlink %u, on the host %u", sub,
				     st.nlink, (unsigned)hst.st_nlink);
		if (!S_ISDIR(hst.st_mode))
			cr_assert_eq(st.size, (uint64_t)hst.st_size,
				     "%s: size %llu, on the host %llu", sub,
				     (unsigned long long)st.size, (unsigned long long)hst.st_size);
		if (S_ISREG(hst.st_mode)) {
			compare_file(e, sub, hsub);
		} else if (S_ISLNK(hst.st_mode)) {
			struct path p;

			cr_assert_eq(path_lookup(&e->ctx, NULL, sub, 0, &p), 0);
			ssize_t n = vfs_readlink(&e->ctx, &p, ta, sizeof(ta) - 1);
			ssize_t k = readlink(hsub, tb, sizeof(tb) - 1);

			path_put(&p);
			cr_assert_eq(n, k);
			cr_assert_str_eq(ta, tb);
		} else if (S_ISDIR(hst.st_mode)) {
			compare_tree(e, sub, hsub, nlink);
		}
	}
	names_free(m);
	names_free(h);
	free(m);
	free(h);
}

/* ---- the walk ---- */

static unsigned g_seed;

static unsigned rnd(unsigned n)
{
	g_seed = g_seed * 1103515245u + 12345u;
	return (g_seed >> 8) % n;
}

/* A path of few names, so that they often exist. */
static void pick(char *out, size_t size)
{
	static const char *const names[] = {"a",   "b",     "c",   "x",     "y",   "z",
					    "one", "three", "big", "again", "link"};
	unsigned depth = 1 + rnd(3);
	size_t at = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < depth; i++)
		at += (size_t)snprintf(out + at, size - at, "/%s", names[rnd(ARRAY_SIZE(names))]);
}

static int errno_of(long r)
{
	return r < 0 ? -errno : 0;
}

enum {
	W_WRITE,
	W_APPEND,
	W_CREATE,
	W_TRUNC,
	W_MKDIR,
	W_RMDIR,
	W_UNLINK,
	W_RENAME,
	W_LINK,
	W_SYMLINK,
	W_CHMOD,
	W_OPENW,
	W_EXCHANGE,
	W_FALLOC,
	W_COUNT
};

static const char *const g_op_names[] = {"write", "append", "create",   "trunc", "mkdir",
					 "rmdir", "unlink", "rename",   "link",  "symlink",
					 "chmod", "openw",  "exchange", "falloc"};

static int write_both(struct fsenv *e, const char *a, const char *ha, unsigned flags, unsigned mode,
		      size_t size, int64_t off, int *native)
{
	char *data = malloc(size + 1);
	struct file *f;
	int r = fsm_open(e, a, flags, mode, &f);
	int fd = open(ha, (int)flags, mode);

	for (size_t i = 0; i < size; i++)
		data[i] = (char)rnd(256);
	*native = errno_of(fd);
	if (r == 0 && fd >= 0 && size) {
		ssize_t n = fsm_pwrite(e, f, data, size, off);
		ssize_t m = pwrite(fd, data, size, off);

		cr_assert_eq(n, m, "%s: wrote %zd, on the host %zd", a, n, m);
	}
	if (r == 0)
		file_put(f);
	if (fd >= 0)
		close(fd);
	free(data);
	return r;
}

void model_walk(struct fsenv *e, const char *dir, unsigned seed, unsigned steps, bool compare_nlink)
{
	umask(0);
	g_seed = seed;
	compare_tree(e, "", dir, compare_nlink);
	for (unsigned i = 0; i < steps; i++) {
		char a[256], b[256], ha[512], hb[512];
		struct iattr attr = {0};
		unsigned op = rnd(W_COUNT);
		int r = 0, h = 0;
		struct path p;

		pick(a, sizeof(a));
		pick(b, sizeof(b));
		snprintf(ha, sizeof(ha), "%s%s", dir, a);
		snprintf(hb, sizeof(hb), "%s%s", dir, b);
		switch (op) {
		case W_WRITE:
			r = write_both(e, a, ha, LX_O_WRONLY | LX_O_NOFOLLOW, 0, 1 + rnd(9000),
				       rnd(30000), &h);
			break;
		case W_APPEND:
			r = write_both(e, a, ha, LX_O_WRONLY | LX_O_APPEND | LX_O_NOFOLLOW, 0,
				       1 + rnd(3000), 0, &h);
			break;
		case W_CREATE:
			r = write_both(e, a, ha,
				       LX_O_RDWR | LX_O_CREAT | LX_O_NOFOLLOW |
					       (rnd(2) ? LX_O_EXCL : 0),
				       0600 + rnd(64), rnd(5000), 0, &h);
			break;
		case W_OPENW:
			r = write_both(e, a, ha, LX_O_RDWR | LX_O_TRUNC | LX_O_NOFOLLOW, 0,
				       rnd(2) ? 0 : 100, 0, &h);
			break;
		case W_TRUNC:
		case W_CHMOD:
			r = path_lookup(&e->ctx, NULL, a, 0, &p);
			if (r == 0) {
				uint32_t type = p.dentry->inode->mode & LX_S_IFMT;

				attr.size = rnd(40000);
				attr.mode = rnd(01000);
				attr.valid = op == W_TRUNC ? ATTR_SIZE : ATTR_MODE;
				if (type == LX_S_IFREG || (type == LX_S_IFDIR && op == W_CHMOD)) {
					r = vfs_setattr(&e->ctx, &p, &attr);
					h = errno_of(op == W_TRUNC ? truncate(ha, (off_t)attr.size)
								   : chmod(ha, attr.mode));
				}
				path_put(&p);
			} else {
				struct stat st;

				h = errno_of(lstat(ha, &st));
			}
			break;
		case W_MKDIR:
			r = vfs_mkdir(&e->ctx, NULL, a, 0700 + (i & 077));
			h = errno_of(mkdir(ha, 0700 + (i & 077)));
			break;
		case W_RMDIR:
			r = vfs_rmdir(&e->ctx, NULL, a);
			h = errno_of(rmdir(ha));
			break;
		case W_UNLINK:
			r = vfs_unlink(&e->ctx, NULL, a);
			h = errno_of(unlink(ha));
			break;
		case W_RENAME:
		case W_EXCHANGE: {
			unsigned flags = op == W_EXCHANGE ? LX_RENAME_EXCHANGE
					 : rnd(4)         ? 0
							  : LX_RENAME_NOREPLACE;

			r = vfs_rename(&e->ctx, NULL, a, NULL, b, flags);
			h = errno_of(renameat2(AT_FDCWD, ha, AT_FDCWD, hb, flags));
			break;
		}
		case W_LINK:
			r = vfs_link(&e->ctx, NULL, a, NULL, b, 0);
			h = errno_of(linkat(AT_FDCWD, ha, AT_FDCWD, hb, 0));
			break;
		case W_SYMLINK:
			r = vfs_symlink(&e->ctx, "some/where", NULL, b);
			h = errno_of(symlink("some/where", hb));
			break;
		default: {
			struct file *f = NULL;
			int mode = rnd(2) ? LX_FALLOC_FL_KEEP_SIZE : 0;
			int64_t off = rnd(20000), len = 1 + rnd(20000);

			if (rnd(2))
				mode = LX_FALLOC_FL_PUNCH_HOLE | LX_FALLOC_FL_KEEP_SIZE;
			r = fsm_open(e, a, LX_O_RDWR | LX_O_NOFOLLOW, 0, &f);
			int fd = open(ha, O_RDWR | O_NOFOLLOW);

			h = errno_of(fd);
			if (r == 0 && fd >= 0) {
				r = vfs_fallocate(&e->ctx, f, mode, off, len);
				h = errno_of(fallocate(fd, mode, off, len));
			}
			if (fd >= 0)
				close(fd);
			if (f)
				file_put(f);
			break;
		}
		}
		if (getenv("MOAT_MODEL_TRACE"))
			fprintf(stderr, "%u %s %s %s = %d\n", i, g_op_names[op], a, b, r);
		cr_assert_eq(r, h, "seed %u step %u: %s %s %s: %d, on the host %d", seed, i,
			     g_op_names[op], a, b, r, h);
		if (i % 50 == 49 || i + 1 == steps)
			compare_tree(e, "", dir, compare_nlink);
		if (i % 200 == 199)
			dcache_shrink(0); /* what was forgotten must be found again */
	}
}
