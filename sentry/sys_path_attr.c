/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes, checked and changed: access, chmod, chown, times, truncate.
 */
#include <errno.h>
#include "sentry/file_args.h"

/* ---- access ---- */

#define LX_F_OK_MASK 7

/* The credentials that access(2) asks with: the real ids, and capabilities as a program started
 * with them would have. A reference; NULL: no memory. */
static struct cred *access_cred(struct cred *c)
{
	uint64_t caps = c->uid == 0 ? c->cap_permitted : 0;
	struct cred *n;

	if (c->fsuid == c->uid && c->fsgid == c->gid && c->cap_effective == caps)
		return cred_get(c);
	n = cred_dup(c);
	if (n) {
		n->fsuid = n->uid;
		n->fsgid = n->gid;
		n->cap_effective = caps;
	}
	return n;
}

static long do_access(struct task *t, int dirfd, gaddr_t filename, int mode, int flags)
{
	struct vfs_ctx c = t->vctx;
	struct at_path ap;
	struct path p;
	long r;

	if (mode & ~LX_F_OK_MASK)
		return -EINVAL;
	if (flags & ~(LX_AT_EACCESS | LX_AT_SYMLINK_NOFOLLOW | LX_AT_EMPTY_PATH))
		return -EINVAL;
	if (!(flags & LX_AT_EACCESS)) {
		c.cred = access_cred(t->vctx.cred);
		if (!c.cred)
			return -ENOMEM;
	}
	r = at_path_get(t, dirfd, filename, flags & LX_AT_EMPTY_PATH ? AT_EMPTY_OK : AT_EMPTY_NO,
			&ap);
	if (r == 0)
		r = path_lookup(&c, at_path_start(&ap), ap.name,
				(flags & LX_AT_SYMLINK_NOFOLLOW ? 0 : WALK_FOLLOW) |
					(flags & LX_AT_EMPTY_PATH ? WALK_EMPTY : 0),
				&p);
	if (r == 0) {
		r = vfs_access(&c, &p, (unsigned)mode);
		path_put(&p);
	}
	at_path_put(&ap);
	if (!(flags & LX_AT_EACCESS))
		cred_put(c.cred);
	return r;
}

long sys_access(struct task *t, gaddr_t filename, int mode)
{
	return do_access(t, LX_AT_FDCWD, filename, mode, 0);
}

long sys_faccessat(struct task *t, int dirfd, gaddr_t filename, int mode)
{
	return do_access(t, dirfd, filename, mode, 0);
}

long sys_faccessat2(struct task *t, int dirfd, gaddr_t filename, int mode, int flags)
{
	return do_access(t, dirfd, filename, mode, flags);
}

/* ---- chmod ---- */

static int chmod_path(struct task *t, const struct path *p, uint32_t mode)
{
	struct iattr a = {.valid = ATTR_MODE, .mode = mode & 07777};

	return vfs_setattr(&t->vctx, p, &a);
}

static long do_chmod(struct task *t, int dirfd, gaddr_t filename, uint32_t mode, unsigned flags)
{
	struct path p;
	long r;

	if (flags & ~(unsigned)(LX_AT_SYMLINK_NOFOLLOW | LX_AT_EMPTY_PATH))
		return -EINVAL;
	r = at_path_lookup(t, dirfd, filename, flags & LX_AT_EMPTY_PATH ? AT_EMPTY_OK : AT_EMPTY_NO,
			   flags & LX_AT_SYMLINK_NOFOLLOW ? 0 : WALK_FOLLOW, &p);
	if (r < 0)
		return r;
	/* A link has no mode of its own. */
	r = LX_S_ISLNK(p.dentry->inode->mode) ? -EOPNOTSUPP : chmod_path(t, &p, mode);
	path_put(&p);
	return r;
}

long sys_chmod(struct task *t, gaddr_t filename, uint32_t mode)
{
	return do_chmod(t, LX_AT_FDCWD, filename, mode, 0);
}

long sys_fchmodat(struct task *t, int dirfd, gaddr_t filename, uint32_t mode)
{
	return do_chmod(t, dirfd, filename, mode, 0);
}

long sys_fchmodat2(struct task *t, int dirfd, gaddr_t filename, uint32_t mode, unsigned flags)
{
	return do_chmod(t, dirfd, filename, mode, flags);
}

long sys_fchmod(struct task *t, int fd, uint32_t mode)
{
	struct file *f = fd_get_nopath(t->files, fd);
	long r;

	if (!f)
		return -EBADF;
	r = chmod_path(t, &f->path, mode);
	file_put(f);
	return r;
}

/* ---- chown ---- */

static long do_chown(struct task *t, int dirfd, gaddr_t filename, uint32_t user, uint32_t group,
		     int flags)
{
	struct path p;
	long r;

	if (flags & ~(LX_AT_SYMLINK_NOFOLLOW | LX_AT_EMPTY_PATH))
		return -EINVAL;
	r = at_path_lookup(t, dirfd, filename, flags & LX_AT_EMPTY_PATH ? AT_EMPTY_OK : AT_EMPTY_NO,
			   flags & LX_AT_SYMLINK_NOFOLLOW ? 0 : WALK_FOLLOW, &p);
	if (r < 0)
		return r;
	r = vfs_chown(&t->vctx, &p, user, group);
	path_put(&p);
	return r;
}

long sys_chown(struct task *t, gaddr_t filename, uint32_t user, uint32_t group)
{
	return do_chown(t, LX_AT_FDCWD, filename, user, group, 0);
}

long sys_lchown(struct task *t, gaddr_t filename, uint32_t user, uint32_t group)
{
	return do_chown(t, LX_AT_FDCWD, filename, user, group, LX_AT_SYMLINK_NOFOLLOW);
}

long sys_fchownat(struct task *t, int dirfd, gaddr_t filename, uint32_t user, uint32_t group,
		  int flag)
{
	return do_chown(t, dirfd, filename, user, group, flag);
}

long sys_fchown(struct task *t, int fd, uint32_t user, uint32_t group)
{
	struct file *f = fd_get_nopath(t->files, fd);
	long r;

	if (!f)
		return -EBADF;
	r = vfs_chown(&t->vctx, &f->path, user, group);
	file_put(f);
	return r;
}

/* ---- times ---- */

#define LX_UTIME_NOW 0x3fffffff
#define LX_UTIME_OMIT 0x3ffffffe

struct lx_utimbuf {
	int64_t actime, modtime;
};

static int64_t time_to_ns(const struct lx_timespec *ts)
{
	int64_t ns;

	/* Beyond what an inode can hold (the years 1677 and 2262): the nearest. */
	if (__builtin_mul_overflow(ts->tv_sec, (int64_t)NSEC_PER_SEC, &ns) ||
	    __builtin_add_overflow(ns, ts->tv_nsec, &ns))
		return ts->tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

static bool utime_nsec_ok(int64_t nsec)
{
	return nsec == LX_UTIME_NOW || nsec == LX_UTIME_OMIT ||
	       (nsec >= 0 && nsec < (int64_t)NSEC_PER_SEC);
}

/* What two times ask for. @times NULL: both now. */
static int utimes_attr(const struct lx_timespec *times, struct iattr *a)
{
	int64_t now = (int64_t)clock_stamp_ns();

	*a = (struct iattr){.valid = ATTR_ATIME | ATTR_MTIME, .atime = now, .mtime = now};
	if (!times || (times[0].tv_nsec == LX_UTIME_NOW && times[1].tv_nsec == LX_UTIME_NOW)) {
		a->valid |= ATTR_TOUCH;
		return 0;
	}
	if (!utime_nsec_ok(times[0].tv_nsec) || !utime_nsec_ok(times[1].tv_nsec))
		return -EINVAL;
	if (times[0].tv_nsec == LX_UTIME_OMIT)
		a->valid &= ~ATTR_ATIME;
	else if (times[0].tv_nsec != LX_UTIME_NOW)
		a->atime = time_to_ns(&times[0]);
	if (times[1].tv_nsec == LX_UTIME_OMIT)
		a->valid &= ~ATTR_MTIME;
	else if (times[1].tv_nsec != LX_UTIME_NOW)
		a->mtime = time_to_ns(&times[1]);
	return 0;
}

static long do_utimes(struct task *t, int dirfd, gaddr_t filename, const struct lx_timespec *times,
		      int flags)
{
	struct iattr a;
	struct path p;
	struct file *f;
	long r = utimes_attr(times, &a);

	if (r < 0)
		return r;
	if (!filename.a && dirfd != LX_AT_FDCWD) {
		if (flags)
			return -EINVAL;
		f = fd_get_nopath(t->files, dirfd);
		if (!f)
			return -EBADF;
		r = vfs_setattr(&t->vctx, &f->path, &a);
		file_put(f);
		return r;
	}
	if (flags & ~(LX_AT_SYMLINK_NOFOLLOW | LX_AT_EMPTY_PATH))
		return -EINVAL;
	r = at_path_lookup(t, dirfd, filename, flags & LX_AT_EMPTY_PATH ? AT_EMPTY_OK : AT_EMPTY_NO,
			   flags & LX_AT_SYMLINK_NOFOLLOW ? 0 : WALK_FOLLOW, &p);
	if (r < 0)
		return r;
	r = vfs_setattr(&t->vctx, &p, &a);
	path_put(&p);
	return r;
}

long sys_utimensat(struct task *t, int dirfd, gaddr_t filename, gaddr_t times, int flags)
{
	struct lx_timespec ts[2];

	if (!times.a)
		return do_utimes(t, dirfd, filename, NULL, flags);
	if (copy_in(t, ts, times, sizeof(ts)) < 0)
		return -EFAULT;
	/* Nothing to do: not even the path is looked at. */
	if (ts[0].tv_nsec == LX_UTIME_OMIT && ts[1].tv_nsec == LX_UTIME_OMIT)
		return 0;
	return do_utimes(t, dirfd, filename, ts, flags);
}

long sys_futimesat(struct task *t, int dirfd, gaddr_t filename, gaddr_t times)
{
	struct lx_timeval tv[2];
	struct lx_timespec ts[2];

	if (!times.a)
		return do_utimes(t, dirfd, filename, NULL, 0);
	if (copy_in(t, tv, times, sizeof(tv)) < 0)
		return -EFAULT;
	for (int i = 0; i < 2; i++) {
		/* So that no sum becomes one of the special values. */
		if (tv[i].tv_usec < 0 || tv[i].tv_usec >= 1000000)
			return -EINVAL;
		ts[i] = (struct lx_timespec){tv[i].tv_sec, tv[i].tv_usec * 1000};
	}
	return do_utimes(t, dirfd, filename, ts, 0);
}

long sys_utimes(struct task *t, gaddr_t filename, gaddr_t times)
{
	return sys_futimesat(t, LX_AT_FDCWD, filename, times);
}

long sys_utime(struct task *t, gaddr_t filename, gaddr_t times)
{
	struct lx_utimbuf u;
	struct lx_timespec ts[2] = {{0}};

	if (!times.a)
		return do_utimes(t, LX_AT_FDCWD, filename, NULL, 0);
	if (copy_in(t, &u, times, sizeof(u)) < 0)
		return -EFAULT;
	ts[0].tv_sec = u.actime;
	ts[1].tv_sec = u.modtime;
	return do_utimes(t, LX_AT_FDCWD, filename, ts, 0);
}

/* ---- truncate ---- */

/* Linux looks at the limit after it looked at the permission, and only if the file grows. */
static long truncate_path(struct task *t, const struct path *p, int64_t length)
{
	struct iattr a = {.valid = ATTR_SIZE, .size = (uint64_t)length};
	struct kstat st;
	int r;

	if ((uint64_t)length > t->vctx.fsize_limit) {
		r = vfs_getattr(p, &st);
		if (r == 0)
			r = vfs_access(&t->vctx, p, MAY_WRITE);
		if (r == 0 && (uint64_t)length > st.size)
			r = -EFBIG;
		if (r < 0)
			return r;
	}
	return vfs_setattr(&t->vctx, p, &a);
}

long sys_truncate(struct task *t, gaddr_t path, int64_t length)
{
	struct lx_siginfo info;
	struct path p;
	uint32_t mode;
	long r;

	if (length < 0)
		return -EINVAL;
	r = at_path_lookup(t, LX_AT_FDCWD, path, AT_EMPTY_NO, WALK_FOLLOW, &p);
	if (r < 0)
		return r;
	mode = p.dentry->inode->mode;
	task_refresh_limits(t);
	if (LX_S_ISDIR(mode))
		r = -EISDIR;
	else if (!LX_S_ISREG(mode))
		r = -EINVAL;
	else
		r = truncate_path(t, &p, length);
	path_put(&p);
	if (r == -EFBIG && t->vctx.fsize_limit != LX_RLIM_INFINITY) {
		siginfo_user(&info, LX_SIGXFSZ, LX_SI_USER, t);
		(void)signal_send_task(t, &info);
	}
	return r;
}
