/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that are not opened by a name: pipes, eventfd, timerfd, inotify, memfd. (epoll:
 * sentry/sys_poll.c; signalfd: sentry/signalfd.c; pidfd: sentry/pidfd.c.)
 */
#include <errno.h>
#include "base/lx_inotify.h"
#include "sentry/file_args.h"
#include "vfs/eventfd.h"
#include "vfs/inotify.h"
#include "vfs/memfd.h"
#include "vfs/pipe.h"
#include "vfs/timerfd.h"

long task_install_pair(struct task *t, struct file *a, struct file *b, bool cloexec, gaddr_t out)
{
	unsigned flags = cloexec ? FD_CLOEXEC_FLAG : 0;
	uint64_t limit = task_nofile(t);
	int32_t fd[2];
	long r;

	fd[0] = fd_reserve(t->files, flags, 0, limit);
	fd[1] = fd[0] < 0 ? fd[0] : fd_reserve(t->files, flags, 0, limit);
	if (fd[1] < 0)
		r = fd[1];
	else
		r = copy_out(t, out, fd, sizeof(fd));
	if (r < 0) {
		/* Nobody ever saw the numbers. */
		if (fd[1] >= 0)
			fd_unreserve(t->files, fd[1]);
		if (fd[0] >= 0)
			fd_unreserve(t->files, fd[0]);
		file_put(a);
		file_put(b);
		return r;
	}
	fd_fill(t->files, fd[0], a);
	fd_fill(t->files, fd[1], b);
	return 0;
}

/* ---- pipes ---- */

long sys_pipe2(struct task *t, gaddr_t pipefd, int flags)
{
	struct file *rd, *wr;
	int r = pipe_create(&t->vctx, (uint32_t)flags, &rd, &wr);

	if (r < 0)
		return r;
	return task_install_pair(t, rd, wr, flags & LX_O_CLOEXEC, pipefd);
}

long sys_pipe(struct task *t, gaddr_t pipefd)
{
	return sys_pipe2(t, pipefd, 0);
}

/* ---- eventfd ---- */

long sys_eventfd2(struct task *t, unsigned count, int flags)
{
	struct file *f;
	int r = eventfd_create(&t->vctx, count, (unsigned)flags, &f);

	return r < 0 ? r : task_install_file(t, f, (unsigned)flags & LX_EFD_CLOEXEC);
}

long sys_eventfd(struct task *t, unsigned count)
{
	return sys_eventfd2(t, count, 0);
}

/* ---- timerfd ---- */

long sys_timerfd_create(struct task *t, int clockid, int flags)
{
	struct file *f;
	int r = timerfd_create_file(&t->vctx, clockid, (unsigned)flags, &f);

	return r < 0 ? r : task_install_file(t, f, flags & LX_TFD_CLOEXEC);
}

long sys_timerfd_settime(struct task *t, int fd, int flags, gaddr_t new_value, gaddr_t old_value)
{
	struct lx_itimerspec value, old;
	struct file *f;
	long r;

	if (copy_in(t, &value, new_value, sizeof(value)) < 0)
		return -EFAULT;
	f = fd_get_nopath(t->files, fd);
	if (!f)
		return -EBADF;
	r = timerfd_settime_file(f, flags, &value, &old);
	file_put(f);
	if (r == 0 && old_value.a)
		r = copy_out(t, old_value, &old, sizeof(old));
	return r;
}

long sys_timerfd_gettime(struct task *t, int fd, gaddr_t value)
{
	struct file *f = fd_get_nopath(t->files, fd);
	struct lx_itimerspec cur;
	long r;

	if (!f)
		return -EBADF;
	r = timerfd_gettime_file(f, &cur);
	file_put(f);
	return r < 0 ? r : copy_out(t, value, &cur, sizeof(cur));
}

/* ---- inotify ---- */

long sys_inotify_init1(struct task *t, int flags)
{
	struct file *f;
	int r = inotify_create(&t->vctx, (unsigned)flags, &f);

	return r < 0 ? r : task_install_file(t, f, flags & LX_O_CLOEXEC);
}

long sys_inotify_init(struct task *t)
{
	return sys_inotify_init1(t, 0);
}

long sys_inotify_add_watch(struct task *t, int fd, gaddr_t pathname, unsigned mask)
{
	struct file *f = fd_get_nopath(t->files, fd);
	char *path = NULL;
	long r;

	/* Bad masks and descriptors come before a bad path: let an empty one show which. */
	r = copy_in_path(t, pathname, &path);
	if (r < 0) {
		long first = inotify_add_watch_path(&t->vctx, f, "", mask);

		r = first == -EINVAL || first == -EBADF ? first : r;
	} else {
		r = inotify_add_watch_path(&t->vctx, f, path, mask);
	}
	mem_free(path);
	if (f)
		file_put(f);
	return r;
}

long sys_inotify_rm_watch(struct task *t, int fd, int wd)
{
	struct file *f = fd_get_nopath(t->files, fd);
	long r;

	if (!f)
		return -EBADF;
	r = inotify_rm_watch_file(f, wd);
	file_put(f);
	return r;
}

/* ---- memfd ---- */

#define LX_MFD_HUGE_SHIFT 26
#define LX_MFD_KNOWN \
	(LX_MFD_CLOEXEC | LX_MFD_ALLOW_SEALING | LX_MFD_HUGETLB | LX_MFD_NOEXEC_SEAL | LX_MFD_EXEC)

long sys_memfd_create(struct task *t, gaddr_t name, unsigned flags)
{
	char kname[LX_MFD_NAME_MAX + 1];
	unsigned known = LX_MFD_KNOWN;
	struct file *f;
	ssize_t n;
	int r;

	if (flags & LX_MFD_HUGETLB)
		known |= 0x3fu << LX_MFD_HUGE_SHIFT;
	if (flags & ~known)
		return -EINVAL;
	if ((flags & LX_MFD_EXEC) && (flags & LX_MFD_NOEXEC_SEAL))
		return -EINVAL;
	n = copy_in_str(t, kname, name, sizeof(kname));
	if (n < 0)
		return n == -ENAMETOOLONG ? -EINVAL : n;
	/* As for a size of huge pages that the kernel does not have. */
	if (flags & LX_MFD_HUGETLB)
		return -ENODEV;
	r = memfd_create_file(&t->vctx, kname, flags, &f);
	return r < 0 ? r : task_install_file(t, f, flags & LX_MFD_CLOEXEC);
}
