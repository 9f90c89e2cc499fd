/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of the tests of names. See vfs_names_env.h.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "tests/unit/vfs_names_env.h"
#include "vfs/dcache.h"
#include "vfs/mount.h"
#include "vfs/tmpfs.h"

static size_t g_dentries_before;

static struct cred *make_cred(enum who who)
{
	static const uint32_t ids[] = {0, USER_ID, OTHER_ID};
	struct cred *c = cred_new(ids[who], ids[who], LX_CAP_ALL);

	BUG_ON(!c);
	if (who == USER) {
		struct cred_groups *g = cred_groups_new(1);

		BUG_ON(!g);
		g->gid[0] = SHARED_GID;
		cred_set_groups(c, g);
	}
	return c;
}

void env_up(struct env *e)
{
	static bool started;
	struct tmpfs_opts o = TMPFS_OPTS_DEFAULT;
	struct dcache_stats st;
	struct path root;
	int r;

	if (!started) {
		r = clock_start(CLOCK_KIND_HOST, 0);
		BUG_ON(r != 0);
		vfs_init();
		started = true;
	}
	dcache_get_stats(&st);
	g_dentries_before = st.total;
	o.mode = 0755;
	r = tmpfs_new(&o, &e->super);
	BUG_ON(r != 0);
	e->ns = mount_ns_new(e->super, 0);
	BUG_ON(!e->ns);
	root = (struct path){e->ns->root, e->ns->root->root};
	e->fs = fs_new(&root, &root, 022);
	BUG_ON(!e->fs);
	for (unsigned who = ROOT; who <= OTHER; who++) {
		e->ctx[who] = (struct vfs_ctx){.cred = make_cred(who),
					       .fs = e->fs,
					       .ns = e->ns,
					       .fsize_limit = UINT64_MAX};
	}
}

void env_down(struct env *e)
{
	struct dcache_stats st;

	fs_put(e->fs);
	mount_ns_put(e->ns);
	super_put(e->super);
	for (unsigned who = ROOT; who <= OTHER; who++)
		cred_put(e->ctx[who].cred);
	dcache_get_stats(&st);
	cr_expect_eq(st.total, g_dentries_before, "%zu dentries left",
		     st.total - g_dentries_before);
}

unsigned walk_of_resolve(unsigned resolve)
{
	unsigned w = 0;

	if (resolve & R_NO_XDEV)
		w |= WALK_NO_XDEV;
	if (resolve & R_NO_MAGICLINKS)
		w |= WALK_NO_MAGICLINKS;
	if (resolve & R_NO_SYMLINKS)
		w |= WALK_NO_SYMLINKS | WALK_NO_MAGICLINKS;
	if (resolve & R_BENEATH)
		w |= WALK_BENEATH;
	if (resolve & R_IN_ROOT)
		w |= WALK_IN_ROOT;
	if (resolve & R_CACHED)
		w |= WALK_CACHED;
	return w;
}

/* ---- on moat ---- */

static int open_and_close(struct vfs_ctx *c, const struct step *s, const struct open_how *how)
{
	struct file *f;
	int r = vfs_open(c, NULL, s->a, how, &f);

	if (r)
		return r;
	if (s->op == OP_WRITE) {
		struct uio_seg seg;
		struct uio u;
		char byte = 'x';

		uio_init_kernel(&u, &seg, &byte, 1);

		ssize_t n = vfs_write(c, f, &u, NULL);

		r = n < 0 ? (int)n : 0;
	}
	file_put(f);
	return r;
}

static int on_path(struct vfs_ctx *c, const struct step *s)
{
	bool follow = s->op != OP_LSTAT && s->op != OP_READLINK;
	struct iattr attr = {0};
	struct kstat st;
	struct path p;
	char buf[64];
	int r = path_lookup(c, NULL, s->a, follow ? WALK_FOLLOW : 0, &p);

	if (r)
		return r;
	switch (s->op) {
	case OP_STAT:
	case OP_LSTAT:
		r = vfs_getattr(&p, &st);
		break;
	case OP_MODE:
		r = vfs_getattr(&p, &st);
		r = r ? r : (int)(st.mode & 07777);
		break;
	case OP_UID:
		r = vfs_getattr(&p, &st);
		r = r ? r : (int)st.uid;
		break;
	case OP_GID:
		r = vfs_getattr(&p, &st);
		r = r ? r : (int)st.gid;
		break;
	case OP_NLINK:
		r = vfs_getattr(&p, &st);
		r = r ? r : (int)st.nlink;
		break;
	case OP_CHMOD:
		attr.valid = ATTR_MODE;
		attr.mode = s->n;
		r = vfs_setattr(c, &p, &attr);
		break;
	case OP_CHOWN:
		r = vfs_chown(c, &p, s->n, s->m);
		break;
	case OP_TRUNCATE:
		attr.valid = ATTR_SIZE;
		attr.size = s->n;
		r = vfs_setattr(c, &p, &attr);
		break;
	case OP_ACCESS:
		r = vfs_access(c, &p, s->n);
		break;
	case OP_READLINK:
		r = (int)vfs_readlink(c, &p, buf, sizeof(buf));
		break;
	case OP_CHDIR:
		r = vfs_chdir(c, &p);
		break;
	case OP_TOUCH:
		attr.valid = ATTR_TOUCH;
		r = vfs_setattr(c, &p, &attr);
		break;
	case OP_UTIME:
		attr.valid = ATTR_ATIME | ATTR_MTIME;
		r = vfs_setattr(c, &p, &attr);
		break;
	case OP_SETXATTR:
		r = vfs_setxattr(c, &p, s->b, "v", 1, (int)s->n);
		break;
	case OP_GETXATTR:
		r = (int)vfs_getxattr(c, &p, s->b, buf, sizeof(buf));
		break;
	case OP_REMOVEXATTR:
		r = vfs_removexattr(c, &p, s->b);
		break;
	default:
		panic("no such step");
	}
	path_put(&p);
	return r;
}

int run_step(struct env *e, const struct step *s)
{
	struct vfs_ctx *c = &e->ctx[s->who];
	struct open_how how = {0};

	switch (s->op) {
	case OP_MKDIR:
		return vfs_mkdir(c, NULL, s->a, s->n);
	case OP_RMDIR:
		return vfs_rmdir(c, NULL, s->a);
	case OP_UNLINK:
		return vfs_unlink(c, NULL, s->a);
	case OP_CREATE:
		how.flags = LX_O_CREAT | LX_O_EXCL | LX_O_WRONLY;
		how.mode = s->n;
		return open_and_close(c, s, &how);
	case OP_OPEN:
		how.flags = s->n;
		how.mode = s->m;
		return open_and_close(c, s, &how);
	case OP_WRITE:
		how.flags = LX_O_WRONLY;
		return open_and_close(c, s, &how);
	case OP_OPENAT2:
		how.flags = s->n;
		how.walk = walk_of_resolve(s->m);
		return open_and_close(c, s, &how);
	case OP_SYMLINK:
		return vfs_symlink(c, s->a, NULL, s->b);
	case OP_LINK:
		return vfs_link(c, NULL, s->a, NULL, s->b, s->n);
	case OP_RENAME:
		return vfs_rename(c, NULL, s->a, NULL, s->b, s->n);
	case OP_MKNOD:
		return vfs_mknod(c, NULL, s->a, s->n, lx_makedev(s->m >> 8, s->m & 255));
	case OP_UMASK:
		fs_set_umask(c->fs, s->n);
		return 0;
	default:
		return on_path(c, s);
	}
}

/* ---- on the host ---- */

static int result(long r)
{
	return r < 0 ? -errno : (int)r;
}

static int native_open(const struct step *s, int fd)
{
	int r = 0;

	if (fd < 0)
		return -errno;
	if (s->op == OP_WRITE && write(fd, "x", 1) < 0)
		r = -errno;
	close(fd);
	return r;
}

static int native_step(const struct step *s)
{
	struct timeval zero[2] = {{0, 0}, {0, 0}};
	uint64_t how[3] = {s->n, 0, s->m};
	struct stat st;
	char buf[64];
	int r;

	switch (s->op) {
	case OP_MKDIR:
		return result(mkdir(s->a, s->n));
	case OP_RMDIR:
		return result(rmdir(s->a));
	case OP_UNLINK:
		return result(unlink(s->a));
	case OP_CREATE:
		return native_open(s, open(s->a, O_CREAT | O_EXCL | O_WRONLY, s->n));
	case OP_OPEN:
		return native_open(s, (int)syscall(SYS_open, s->a, s->n, s->m));
	case OP_WRITE:
		return native_open(s, open(s->a, O_WRONLY));
	case OP_OPENAT2:
		return native_open(s, (int)syscall(SYS_openat2, AT_FDCWD, s->a, how, sizeof(how)));
	case OP_SYMLINK:
		return result(symlink(s->a, s->b));
	case OP_LINK:
		return result(linkat(AT_FDCWD, s->a, AT_FDCWD, s->b, (int)s->n));
	case OP_RENAME:
		return result(syscall(SYS_renameat2, AT_FDCWD, s->a, AT_FDCWD, s->b, s->n));
	case OP_STAT:
		return result(stat(s->a, &st));
	case OP_LSTAT:
		return result(lstat(s->a, &st));
	case OP_CHMOD:
		return result(chmod(s->a, s->n));
	case OP_CHOWN:
		return result(chown(s->a, s->n, s->m));
	case OP_TRUNCATE:
		return result(truncate(s->a, s->n));
	case OP_ACCESS:
		return result(faccessat(AT_FDCWD, s->a, (int)s->n, AT_EACCESS));
	case OP_MKNOD:
		return result(mknod(s->a, s->n, makedev(s->m >> 8, s->m & 255)));
	case OP_READLINK:
		return result(readlink(s->a, buf, sizeof(buf)));
	case OP_CHDIR:
		return result(chdir(s->a));
	case OP_TOUCH:
		return result(utimes(s->a, NULL));
	case OP_UTIME:
		return result(utimes(s->a, zero));
	case OP_SETXATTR:
		return result(setxattr(s->a, s->b, "v", 1, (int)s->n));
	case OP_GETXATTR:
		return result(getxattr(s->a, s->b, buf, sizeof(buf)));
	case OP_REMOVEXATTR:
		return result(removexattr(s->a, s->b));
	case OP_UMASK:
		umask(s->n);
		return 0;
	default:
		break;
	}
	r = stat(s->a, &st);
	if (r < 0)
		return -errno;
	switch (s->op) {
	case OP_MODE:
		return (int)(st.st_mode & 07777);
	case OP_UID:
		return (int)st.st_uid;
	case OP_GID:
		return (int)st.st_gid;
	default:
		return (int)st.st_nlink;
	}
}

static void become(enum who who)
{
	static const uid_t ids[] = {0, USER_ID, OTHER_ID};
	gid_t groups[1] = {SHARED_GID};
	int r = 0;

	r |= (int)syscall(SYS_setresuid, -1, 0, -1);
	r |= (int)syscall(SYS_setgroups, who == USER ? 1 : 0, groups);
	r |= (int)syscall(SYS_setresgid, -1, ids[who], -1);
	r |= (int)syscall(SYS_setresuid, -1, ids[who], -1);
	if (r)
		_exit(100);
}

/* In a child: the results go through a pipe. */
static void run_native(const struct step *steps, size_t count)
{
	char dir[] = "/tmp/moat-names-XXXXXX";
	int pipefd[2], r = pipe(pipefd);
	pid_t pid;

	cr_assert_eq(r, 0);
	cr_assert_not_null(mkdtemp(dir));
	pid = fork();
	if (pid == 0) {
		if (chroot(dir) || chdir("/") || chmod("/", 0755))
			_exit(99);
		umask(022);
		for (size_t i = 0; i < count; i++) {
			become(steps[i].who);

			int got = native_step(&steps[i]);

			if (write(pipefd[1], &got, sizeof(got)) != sizeof(got))
				_exit(98);
		}
		_exit(0);
	}
	close(pipefd[1]);
	for (size_t i = 0; i < count; i++) {
		int got = 0;

		if (read(pipefd[0], &got, sizeof(got)) != sizeof(got)) {
			cr_expect(false, "native run ended at line %d", steps[i].line);
			break;
		}
		cr_expect_eq(got, steps[i].want, "line %d: natively %d, expected %d", steps[i].line,
			     got, steps[i].want);
	}
	close(pipefd[0]);
	waitpid(pid, NULL, 0);

	char cmd[64];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd) != 0)
		cr_log_warn("%s is left", dir);
}

void run_steps(const struct step *steps, size_t count)
{
	struct env e;

	env_up(&e);
	for (size_t i = 0; i < count; i++) {
		int got = run_step(&e, &steps[i]);

		cr_expect_eq(got, steps[i].want, "line %d: got %d, expected %d", steps[i].line, got,
			     steps[i].want);
	}
	env_down(&e);
	if (getenv("MOAT_NATIVE") && geteuid() == 0)
		run_native(steps, count);
}
