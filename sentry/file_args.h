/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers of file syscalls (sentry/sys_*.c) share: paths relative to a descriptor, new
 * descriptors, times, and the signals that a failed write sends.
 */
#ifndef MOAT_SENTRY_FILE_ARGS_H
#define MOAT_SENTRY_FILE_ARGS_H

#include "sentry/syscall.h"

/* A path argument: a kernel copy of the text, and where the walk starts. at_path_put is right after
 * a failed get too, and without one if name and dir are NULL. Not to be moved: a short text stands
 * in it. */
struct at_path {
	char *name;
	struct file *dir; /* a reference; NULL: the cwd, or the path is absolute */
	char near[PATH_NEAR];
};

/* What a handler accepts as a name. */
enum at_empty {
	AT_EMPTY_NO,   /* "" is ENOENT */
	AT_EMPTY_OK,   /* "" means the descriptor */
	AT_EMPTY_NULL, /* and so does NULL */
};
/* In Linux's order: -EFAULT, -ENAMETOOLONG, -ENOENT (empty), then -EBADF. The name that is absolute
 * does not look at @dirfd. @path: the guest's. */
int at_path_get(struct task *t, int dirfd, gaddr_t path, enum at_empty empty,
		struct at_path *out) MUST_USE;
void at_path_put(struct at_path *p);
static inline const struct path *at_path_start(const struct at_path *p)
{
	return p->dir ? &p->dir->path : NULL;
}
/* Get and walk. @walk: WALK_*; WALK_EMPTY follows from @empty. *out has references. */
int at_path_lookup(struct task *t, int dirfd, gaddr_t path, enum at_empty empty, unsigned walk,
		   struct path *out) MUST_USE;

/* Gives @f (takes the reference, also on failure) the lowest free descriptor: it or -EMFILE. */
long task_install_file(struct task *t, struct file *f, bool cloexec);
/* Two at once, their numbers written to the int[2] at @out before anyone can use them. Takes both
 * references. 0 or -EMFILE, -EFAULT. */
long task_install_pair(struct task *t, struct file *a, struct file *b, bool cloexec, gaddr_t out);
uint64_t task_nofile(struct task *t);
/* Copies RLIMIT_FSIZE and RLIMIT_NOFILE into t->vctx, as another thread may have changed them. */
void task_refresh_limits(struct task *t);
/* Sends SIGPIPE or SIGXFSZ if a write to @f that ended with @ret demands it; returns @ret. */
long task_write_signals(struct task *t, struct file *f, long ret);

/* The flags of preadv2 and pwritev2, and those that moat knows. */
#define LX_RWF_HIPRI 1
#define LX_RWF_DSYNC 2
#define LX_RWF_SYNC 4
#define LX_RWF_NOWAIT 8
#define LX_RWF_APPEND 16
#define RWF_READ_OK (LX_RWF_HIPRI | LX_RWF_NOWAIT)
#define RWF_WRITE_OK (RWF_READ_OK | LX_RWF_DSYNC | LX_RWF_SYNC | LX_RWF_APPEND)
/* preadv2 and pwritev2 of an open file, whose mode was looked at. @pos NULL: the description's
 * offset. -EOPNOTSUPP for other flags. */
long file_read_flags(struct task *t, struct file *f, struct uio *u, int64_t *pos, int flags);
long file_write_flags(struct task *t, struct file *f, struct uio *u, int64_t *pos, int flags);

/* A relative timeout as an absolute deadline of the monotonic clock, saturating. -EINVAL if not
 * normal. */
int timeout_to_deadline(const struct lx_timespec *ts, uint64_t *deadline_ns) MUST_USE;
/* The same of a timespec of the guest's; none at address 0: DEADLINE_NONE. -EFAULT, -EINVAL. */
int copy_in_timeout(struct task *t, gaddr_t timeout, uint64_t *deadline_ns) MUST_USE;
/* What is left until @deadline_ns. */
struct lx_timespec deadline_remaining(uint64_t deadline_ns);
/* A sigset_t argument of @size bytes: -EINVAL if size is not 8, -EFAULT. */
int copy_in_sigset(struct task *t, gaddr_t set, uint64_t size, lx_sigset_t *out) MUST_USE;
/* A mask of signals for the time of a call, as copy_in_sigset reads it; none at address 0. It is
 * taken back by signal_restore_temp_mask, or when the signal that ended the call is delivered. */
int take_temp_mask(struct task *t, gaddr_t set, uint64_t size) MUST_USE;
/* Both, as pselect6 and io_pgetevents get them behind one pointer. */
struct lx_sigset_arg {
	uint64_t set, size;
};
/* An extensible struct (openat2, clone3): @size bytes of the guest into @dst of @known bytes; what
 * the guest lacks is zero, what it has more must be zero (-E2BIG). */
int copy_in_struct(struct task *t, void *dst, size_t known, gaddr_t src, uint64_t size) MUST_USE;

#endif
