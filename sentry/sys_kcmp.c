/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kcmp(2): do two processes share an object? The order it gives is that of hashes, so that it tells
 * nothing of addresses.
 */
#include "base/hash.h"
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>

enum {
	KCMP_FILE_,
	KCMP_VM_,
	KCMP_FILES_,
	KCMP_FS_,
	KCMP_SIGHAND_,
	KCMP_IO_,
	KCMP_SYSVSEM_,
	KCMP_EPOLL_TFD_
};

static long order(const void *a, const void *b)
{
	uint64_t ha = hash_u64((uint64_t)(uintptr_t)a), hb = hash_u64((uint64_t)(uintptr_t)b);

	return a == b ? 0 : ha < hb ? 1 : 2;
}

static long compare_files(struct task *caller, struct task *a, struct task *b, uint64_t fd1,
			  uint64_t fd2)
{
	struct fdtable *t1 = task_get_files(a), *t2 = task_get_files(b);
	struct file *f1 = t1 && fd1 <= INT32_MAX ? fd_get(t1, (int)fd1) : NULL;
	struct file *f2 = t2 && fd2 <= INT32_MAX ? fd_get(t2, (int)fd2) : NULL;
	long r = f1 && f2 ? order(f1, f2) : -EBADF;

	if (f1)
		file_put(f1);
	if (f2)
		file_put(f2);
	if (t1)
		fdtable_put(t1, &caller->vctx);
	if (t2)
		fdtable_put(t2, &caller->vctx);
	return r;
}

static long compare(struct task *caller, struct task *a, struct task *b, int type, uint64_t idx1,
		    uint64_t idx2)
{
	switch (type) {
	case KCMP_FILE_:
		return compare_files(caller, a, b, idx1, idx2);
	case KCMP_VM_:
		return order(a->mm, b->mm);
	case KCMP_FILES_:
		return order(a->files, b->files);
	case KCMP_FS_:
		return order(a->vctx.fs, b->vctx.fs);
	case KCMP_SIGHAND_:
		return order(a->sighand, b->sighand);
	case KCMP_IO_:
		return order(a->tg, b->tg);
	case KCMP_SYSVSEM_:
		return order(a->sem_undo, b->sem_undo);
	default:
		return -EINVAL;
	}
}

long sys_kcmp(struct task *t, int pid1, int pid2, int type, uint64_t idx1, uint64_t idx2)
{
	struct task *a = task_find(pid1), *b = task_find(pid2);
	long r = -ESRCH;

	if (a && b)
		r = task_may_access(t, a) && task_may_access(t, b)
			    ? compare(t, a, b, type, idx1, idx2)
			    : -EPERM;
	task_put(a);
	task_put(b);
	return r;
}
