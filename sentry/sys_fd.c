/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: close, dup, fcntl, ioctl, and what other handlers need to make new ones.
 *
 * Deviations from Linux: F_SETOWN's process groups are read back as an unsigned 32-bit number
 * instead of a negative result that looks like an errno; libc sees the same int. F_NOTIFY is
 * EINVAL.
 */
#include <errno.h>
#include <limits.h>
#include "base/lx_fcntl.h"
#include "base/lx_sock.h"
#include "netstack/socket.h"
#include "sentry/file_args.h"
#include "vfs/fasync.h"
#include "vfs/flock.h"
#include "vfs/memfd.h"
#include "vfs/pipe.h"

#define LX_F_CREATED_QUERY 1028
#define LX_DN_MULTISHOT 0x80000000u
#define LX_F_OWNER_TID 0
#define LX_F_OWNER_PID 1
#define LX_F_OWNER_PGRP 2
#define LX_RWH_MAX 5 /* RWH_WRITE_LIFE_EXTREME */
#define LX_FIBMAP 1u
#define LX_FIGETBSZ 2u
#define LX_FICLONE 0x40049409u
#define LX_FICLONERANGE 0x4020940du
#define LX_FIDEDUPERANGE 0xc0189436u
#define LX_FS_IOC_FIEMAP 0xc020660bu

/* The flags that F_SETFL can change, but O_ASYNC, which goes by fasync_set. */
#define SETFL_FLAGS (LX_O_APPEND | LX_O_NONBLOCK | LX_O_DIRECT | LX_O_NOATIME)

struct lx_f_owner_ex {
	int32_t type;
	int32_t pid;
};

uint64_t task_nofile(struct task *t)
{
	return rlimit_get(t->tg, LX_RLIMIT_NOFILE);
}

void task_refresh_limits(struct task *t)
{
	t->vctx.fsize_limit = rlimit_get(t->tg, LX_RLIMIT_FSIZE);
	t->vctx.nofile_limit = rlimit_get(t->tg, LX_RLIMIT_NOFILE);
}

long task_install_file(struct task *t, struct file *f, bool cloexec)
{
	int fd = fd_install(t->files, f, cloexec ? FD_CLOEXEC_FLAG : 0, 0, task_nofile(t));

	if (fd < 0)
		file_put(f);
	return fd;
}

long task_write_signals(struct task *t, struct file *f, long ret)
{
	struct lx_siginfo info;
	const struct socket *s;

	if (likely(ret != -EPIPE && ret != -EFBIG))
		return ret;
	if (ret == -EPIPE) {
		/* Datagrams that find no reader are an error and no more. */
		s = sock_of_file(f);
		if (s && s->type != LX_SOCK_STREAM)
			return ret;
		siginfo_user(&info, LX_SIGPIPE, LX_SI_USER, t);
	} else {
		/* EFBIG without a limit is the file system's own maximum: no signal. */
		if (t->vctx.fsize_limit == LX_RLIM_INFINITY)
			return ret;
		siginfo_user(&info, LX_SIGXFSZ, LX_SI_USER, t);
	}
	(void)signal_send_task(t, &info);
	return ret;
}

/* ---- close and dup ---- */

long sys_close(struct task *t, int fd)
{
	return fd_close(&t->vctx, t->files, fd);
}

long sys_dup(struct task *t, int oldfd)
{
	struct file *f = fd_get(t->files, oldfd);

	if (!f)
		return -EBADF;
	return task_install_file(t, f, false);
}

long sys_dup2(struct task *t, int oldfd, int newfd)
{
	struct file *f;

	if (oldfd == newfd) {
		f = fd_get(t->files, oldfd);
		if (!f)
			return -EBADF;
		file_put(f);
		return newfd;
	}
	return fd_dup_to(&t->vctx, t->files, oldfd, newfd, 0, task_nofile(t));
}

long sys_dup3(struct task *t, int oldfd, int newfd, int flags)
{
	if (flags & ~LX_O_CLOEXEC)
		return -EINVAL;
	if (oldfd == newfd)
		return -EINVAL;
	return fd_dup_to(&t->vctx, t->files, oldfd, newfd, flags ? FD_CLOEXEC_FLAG : 0,
			 task_nofile(t));
}

#define LX_CLONE_FILES 0x400u
#define LX_CLOSE_RANGE_UNSHARE 2u
#define LX_CLOSE_RANGE_CLOEXEC 4u

long sys_close_range(struct task *t, unsigned first, unsigned last, unsigned flags)
{
	if (flags & ~(LX_CLOSE_RANGE_UNSHARE | LX_CLOSE_RANGE_CLOEXEC))
		return -EINVAL;
	if (first > last)
		return -EINVAL;
	if (flags & LX_CLOSE_RANGE_UNSHARE) {
		long r = sys_unshare(t, LX_CLONE_FILES);

		if (r < 0)
			return r;
	}
	return fd_close_range(&t->vctx, t->files, first, last, flags & LX_CLOSE_RANGE_CLOEXEC);
}

/* ---- fcntl ---- */

static int fcntl_setfl(struct task *t, struct file *f, uint32_t arg)
{
	uint32_t old = atomic_load(&f->flags), new;
	uint32_t type = f->inode->mode & LX_S_IFMT;
	int r;

	if (((arg ^ old) & LX_O_APPEND) && (f->inode->iflags & INODE_APPEND))
		return -EPERM;
	if ((arg & LX_O_NOATIME) && !(old & LX_O_NOATIME) &&
	    !inode_owner_or_capable(&t->vctx, f->inode))
		return -EPERM;
	if ((arg & LX_O_DIRECT) && type != LX_S_IFIFO && type != LX_S_IFREG && type != LX_S_IFBLK)
		return -EINVAL;
	if (f->ops->set_flags) {
		r = f->ops->set_flags(f, (arg & SETFL_FLAGS) | (old & ~(uint32_t)SETFL_FLAGS));
		if (r < 0)
			return r;
	}
	if (((arg ^ old) & LX_O_ASYNC) && f->ops->poll) {
		r = fasync_set(f, arg & LX_O_ASYNC);
		if (r < 0)
			return r;
	}
	old = atomic_load(&f->flags);
	do
		new = (arg & SETFL_FLAGS) | (old & ~(uint32_t)SETFL_FLAGS);
	while (!atomic_compare_exchange_weak(&f->flags, &old, new));
	return 0;
}

static int set_owner(struct task *t, struct file *f, int type, int32_t nr)
{
	if (nr != 0) {
		struct pid *pid = pid_find(nr);

		if (!pid)
			return -ESRCH;
		pid_put(pid);
	}
	mutex_lock(&f->lock);
	f->own.type = nr ? type : -1;
	f->own.pid = nr;
	f->own.uid = t->vctx.cred->uid;
	f->own.euid = t->vctx.cred->euid;
	mutex_unlock(&f->lock);
	return 0;
}

static int fcntl_setown(struct task *t, struct file *f, int who)
{
	if (who == INT_MIN)
		return -EINVAL;
	return set_owner(t, f, who < 0 ? LX_F_OWNER_PGRP : LX_F_OWNER_PID, who < 0 ? -who : who);
}

/* Is there still whom @own means? Else it is nobody, as it would be to a signal. */
static bool owner_is_there(const struct fown *own)
{
	struct pid *pid = pid_find(own->pid);
	bool there;

	if (!pid)
		return false;
	mutex_lock(&g_kernel.tasklist);
	there = own->type == LX_F_OWNER_PGRP  ? !TAILQ_EMPTY(&pid->pgrp_members)
		: own->type == LX_F_OWNER_TID ? pid->task != NULL
					      : pid->tg != NULL;
	mutex_unlock(&g_kernel.tasklist);
	pid_put(pid);
	return there;
}

static struct fown get_owner(struct file *f)
{
	struct fown own;

	mutex_lock(&f->lock);
	own = f->own;
	mutex_unlock(&f->lock);
	if (own.pid == 0 || own.type < 0) {
		own.type = LX_F_OWNER_TID;
		own.pid = 0;
	} else if (!owner_is_there(&own)) {
		own.pid = 0;
	}
	return own;
}

static long fcntl_lock(struct task *t, int fd, struct file *f, unsigned cmd, gaddr_t arg)
{
	struct lx_flock fl;
	struct file *now;
	int r;

	if (copy_in(t, &fl, arg, sizeof(fl)) < 0)
		return -EFAULT;
	if (cmd == LX_F_GETLK || cmd == LX_F_OFD_GETLK) {
		r = lock_get(&t->vctx, f, (int)cmd, &fl);
		if (r < 0)
			return r;
		return copy_out(t, arg, &fl, sizeof(fl));
	}
	r = lock_set(&t->vctx, f, (int)cmd, &fl);
	if (r < 0 || fl.l_type == LX_F_UNLCK || cmd == LX_F_OFD_SETLK || cmd == LX_F_OFD_SETLKW)
		return r;
	/* A close by another thread while we waited has dropped this process's locks on the file,
	 * and would have dropped this one. */
	now = fd_get(t->files, fd);
	if (now != f) {
		/* As that close does: no less, since no lock may stay on a file without a
		 * descriptor, and where this one lies nobody knows any more who was told an
		 * end or an offset. */
		locks_close_posix(f, t->files);
		r = -EBADF;
	}
	if (now)
		file_put(now);
	return r;
}

static long fcntl_dup(struct task *t, struct file *f, uint64_t min, bool cloexec)
{
	uint64_t limit = task_nofile(t);
	int fd;

	if ((unsigned)min >= limit || (unsigned)min > INT_MAX)
		return -EINVAL;
	file_get(f);
	fd = fd_install(t->files, f, cloexec ? FD_CLOEXEC_FLAG : 0, (int)min, limit);
	if (fd < 0)
		file_put(f);
	return fd;
}

static long fcntl_file(struct task *t, int fd, struct file *f, unsigned cmd, uint64_t arg)
{
	struct lx_f_owner_ex ex;
	struct fown own;
	struct file *other;
	uint64_t hint = 0;
	uint32_t uids[2];
	long r;

	switch (cmd) {
	case LX_F_DUPFD:
	case LX_F_DUPFD_CLOEXEC:
		return fcntl_dup(t, f, arg, cmd == LX_F_DUPFD_CLOEXEC);
	case LX_F_GETFD:
		return fd_get_flags(t->files, fd);
	case LX_F_SETFD:
		return fd_set_flags(t->files, fd, arg & LX_FD_CLOEXEC ? FD_CLOEXEC_FLAG : 0);
	case LX_F_GETFL:
		return (long)atomic_load(&f->flags);
	case LX_F_DUPFD_QUERY:
		other = fd_get(t->files, (int)arg);
		if (!other)
			return -EBADF;
		r = other == f;
		file_put(other);
		return r;
	case LX_F_CREATED_QUERY:
		return f->fmode & FMODE_CREATED ? 1 : 0;
	default:
		break;
	}
	if (f->fmode & FMODE_PATH)
		return -EBADF;

	switch (cmd) {
	case LX_F_SETFL:
		return fcntl_setfl(t, f, (uint32_t)arg);
	case LX_F_GETLK:
	case LX_F_SETLK:
	case LX_F_SETLKW:
	case LX_F_OFD_GETLK:
	case LX_F_OFD_SETLK:
	case LX_F_OFD_SETLKW:
		return fcntl_lock(t, fd, f, cmd, GADDR(arg));
	case LX_F_SETOWN:
		return fcntl_setown(t, f, (int)arg);
	case LX_F_GETOWN:
		own = get_owner(f);
		return own.type == LX_F_OWNER_PGRP ? (long)(uint32_t)-own.pid : own.pid;
	case LX_F_SETOWN_EX:
		if (copy_in(t, &ex, GADDR(arg), sizeof(ex)) < 0)
			return -EFAULT;
		if (ex.type < LX_F_OWNER_TID || ex.type > LX_F_OWNER_PGRP)
			return -EINVAL;
		return set_owner(t, f, ex.type, ex.pid);
	case LX_F_GETOWN_EX:
		own = get_owner(f);
		ex.type = own.type;
		ex.pid = own.pid;
		return copy_out(t, GADDR(arg), &ex, sizeof(ex));
	case LX_F_GETOWNER_UIDS:
		mutex_lock(&f->lock);
		uids[0] = f->own.uid;
		uids[1] = f->own.euid;
		mutex_unlock(&f->lock);
		return copy_out(t, GADDR(arg), uids, sizeof(uids));
	case LX_F_SETSIG:
		if (arg > LX_NSIG)
			return -EINVAL;
		mutex_lock(&f->lock);
		f->own.sig = (int)arg;
		mutex_unlock(&f->lock);
		return 0;
	case LX_F_GETSIG:
		mutex_lock(&f->lock);
		r = f->own.sig;
		mutex_unlock(&f->lock);
		return r;
	case LX_F_SETLEASE:
		return lease_set(f, (int)arg);
	case LX_F_GETLEASE:
		return lease_get(f);
	case LX_F_SETPIPE_SZ:
		return pipe_set_size(&t->vctx, f, (uint32_t)arg);
	case LX_F_GETPIPE_SZ:
		return pipe_get_size(f);
	case LX_F_ADD_SEALS:
		return memfd_add_seals(f, (unsigned)arg);
	case LX_F_GET_SEALS:
		return memfd_get_seals(f);
	case LX_F_NOTIFY:
		/* No events take a watch away, and there is none. */
		if ((arg & ~(uint64_t)LX_DN_MULTISHOT) == 0)
			return 0;
		return LX_S_ISDIR(f->inode->mode) ? -EINVAL : -ENOTDIR;
	case LX_F_GET_RW_HINT:
		return copy_out(t, GADDR(arg), &hint, sizeof(hint));
	case LX_F_SET_RW_HINT:
		if (copy_in(t, &hint, GADDR(arg), sizeof(hint)) < 0)
			return -EFAULT;
		return hint > LX_RWH_MAX ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

long sys_fcntl(struct task *t, int fd, unsigned cmd, uint64_t arg)
{
	struct file *f = fd_get(t->files, fd);
	long r;

	if (!f)
		return -EBADF;
	r = fcntl_file(t, fd, f, cmd, arg);
	file_put(f);
	return r;
}

long sys_flock(struct task *t, int fd, unsigned operation)
{
	unsigned op = operation & ~(unsigned)LX_LOCK_NB;
	struct file *f;
	long r;

	if (operation & LX_LOCK_MAND)
		return 0;
	if (op != LX_LOCK_SH && op != LX_LOCK_EX && op != LX_LOCK_UN)
		return -EINVAL;
	f = fd_get_nopath(t->files, fd);
	if (!f)
		return -EBADF;
	r = flock_apply(&t->vctx, f, operation);
	file_put(f);
	return r;
}

/* ---- ioctl ---- */

static long ioctl_nonblock(struct task *t, struct file *f, gaddr_t arg)
{
	int32_t on;

	if (copy_in(t, &on, arg, sizeof(on)) < 0)
		return -EFAULT;
	if (f->ops->set_flags) {
		uint32_t flags = atomic_load(&f->flags);
		int r = f->ops->set_flags(f, on ? flags | LX_O_NONBLOCK
						: flags & ~(uint32_t)LX_O_NONBLOCK);

		if (r < 0)
			return r;
	}
	if (on)
		atomic_fetch_or(&f->flags, LX_O_NONBLOCK);
	else
		atomic_fetch_and(&f->flags, ~(uint32_t)LX_O_NONBLOCK);
	return 0;
}

static long ioctl_async(struct task *t, struct file *f, gaddr_t arg)
{
	int32_t on;

	if (copy_in(t, &on, arg, sizeof(on)) < 0)
		return -EFAULT;
	if (!!on == !!(atomic_load(&f->flags) & LX_O_ASYNC))
		return 0;
	return f->ops->poll ? fasync_set(f, on) : -ENOTTY;
}

/* What a file without the command in its own ioctl answers. */
static long ioctl_generic(struct task *t, struct file *f, unsigned cmd, gaddr_t arg)
{
	bool regular = LX_S_ISREG(f->inode->mode);
	struct kstat st;
	int64_t left;
	int32_t v;
	int r;

	switch (cmd) {
	case LX_FIONREAD:
		if (!regular)
			return -ENOTTY;
		r = vfs_getattr(&f->path, &st);
		if (r < 0)
			return r;
		left = (int64_t)st.size - vfs_pos(f);
		v = (int32_t)left;
		return copy_out(t, arg, &v, sizeof(v));
	case LX_FIGETBSZ:
		v = (int32_t)f->inode->super->blocksize;
		return v ? copy_out(t, arg, &v, sizeof(v)) : -EINVAL;
	case LX_FIBMAP:
		if (!regular)
			return -ENOTTY;
		return -EPERM;
	case LX_FS_IOC_FIEMAP:
	case LX_FICLONE:
	case LX_FICLONERANGE:
	case LX_FIDEDUPERANGE:
		return -EOPNOTSUPP;
	default:
		return -ENOTTY;
	}
}

static long ioctl_file(struct task *t, int fd, struct file *f, unsigned cmd, uint64_t arg)
{
	struct umem um;
	struct kstat st;
	uint32_t type = f->inode->mode & LX_S_IFMT;
	long r = -ENOTTY;

	switch (cmd) {
	case LX_FIOCLEX:
		return fd_set_flags(t->files, fd, FD_CLOEXEC_FLAG);
	case LX_FIONCLEX:
		return fd_set_flags(t->files, fd, 0);
	case LX_FIONBIO:
		return ioctl_nonblock(t, f, GADDR(arg));
	case LX_FIOASYNC:
		return ioctl_async(t, f, GADDR(arg));
	case LX_FIOQSIZE:
		if (type != LX_S_IFREG && type != LX_S_IFDIR && type != LX_S_IFLNK)
			return -ENOTTY;
		r = vfs_getattr(&f->path, &st);
		return r < 0 ? r : copy_out(t, GADDR(arg), &st.size, sizeof(st.size));
	case LX_FIOSETOWN:
	case LX_SIOCSPGRP:
	case LX_FIOGETOWN:
	case LX_SIOCGPGRP:
		if (sock_of_file(f)) {
			struct fown own = get_owner(f);
			int32_t v = own.type == LX_F_OWNER_PGRP ? -own.pid : own.pid;

			if (cmd == LX_FIOGETOWN || cmd == LX_SIOCGPGRP)
				return copy_out(t, GADDR(arg), &v, sizeof(v));
			if (copy_in(t, &v, GADDR(arg), sizeof(v)) < 0)
				return -EFAULT;
			return fcntl_setown(t, f, v);
		}
		break;
	default:
		break;
	}
	if (f->ops->ioctl) {
		task_refresh_limits(t); /* TIOCGPTPEER makes a descriptor */
		task_umem(t, &um);
		r = f->ops->ioctl(&t->vctx, f, cmd, arg, &um);
	}
	return r == -ENOTTY ? ioctl_generic(t, f, cmd, GADDR(arg)) : r;
}

long sys_ioctl(struct task *t, int fd, unsigned cmd, uint64_t arg)
{
	struct file *f = fd_get_nopath(t->files, fd);
	long r;

	if (!f)
		return -EBADF;
	r = ioctl_file(t, fd, f, cmd, arg);
	file_put(f);
	return r;
}
