/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of other processes: process_vm_readv, process_vm_writev, process_madvise,
 * process_mrelease.
 *
 * Theory of operation: data goes through a buffer of the sentry's, a piece at a time, until the
 * first fault on either side. The other process's struct mm is held meanwhile, so it may end at any
 * time.
 *
 * References: process_vm_readv(2), process_madvise(2).
 */
#include "sentry/mm_ops.h"
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>

#define BOUNCE_SIZE 65536u
#define LX_IOV_MAX 1024u

/* The remote ranges: like any iovec, but their addresses are not looked at. */
static int remote_segs(struct task *t, gaddr_t vec, uint64_t count, struct uio_seg **out)
{
	struct uio_seg *segs;

	*out = NULL;
	if (count > LX_IOV_MAX)
		return -EINVAL;
	if (count == 0)
		return 0;
	segs = mem_calloc(count, sizeof(*segs));
	if (!segs)
		return -ENOMEM;
	if (copy_in(t, segs, vec, count * sizeof(*segs))) {
		mem_free(segs);
		return -EFAULT;
	}
	for (uint64_t i = 0; i < count; i++) {
		if ((int64_t)segs[i].size < 0) {
			mem_free(segs);
			return -EINVAL;
		}
	}
	*out = segs;
	return 0;
}

/* The memory of @pid, if @t may look into it: a reference. */
static int remote_mm(struct task *t, int pid, struct mm **out)
{
	struct task *o = task_find(pid);
	int r = 0;

	if (!o)
		return -ESRCH;
	if (o != t && !task_may_access(t, o))
		r = -EPERM;
	*out = r ? NULL : task_get_mm(o);
	task_put(o);
	if (r == 0 && !*out)
		r = -ESRCH;
	return r;
}

/* One piece between the local cursor and the other's memory. Bytes; 0 or -EFAULT at a fault. */
static ssize_t move_piece(struct mm *mm, uint64_t addr, struct uio *local, void *buf, size_t n,
			  bool write)
{
	ssize_t got;

	if (write) {
		struct uio saved = *local;

		got = uio_get(local, buf, n);
		if (got <= 0)
			return got;
		n = (size_t)got;
		got = copy_out_mm(mm, GADDR(addr), buf, n);
		*local = saved;
		if (got > 0)
			uio_skip(local, (size_t)got);
		return got;
	}
	got = copy_in_mm(mm, buf, GADDR(addr), n);
	return got > 0 ? uio_put(local, buf, (size_t)got) : got;
}

static ssize_t move_all(struct mm *mm, const struct uio_seg *segs, uint64_t count,
			struct uio *local, void *buf, bool write)
{
	ssize_t done = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t off = 0;

		while (off < segs[i].size && local->resid) {
			size_t n =
				MIN(MIN(segs[i].size - off, local->resid), (uint64_t)BOUNCE_SIZE);
			ssize_t got = move_piece(mm, segs[i].base + off, local, buf, n, write);

			if (got <= 0)
				return done ? done : -EFAULT;
			done += got;
			off += (uint64_t)got;
			if ((size_t)got < n)
				return done;
		}
	}
	return done;
}

static long process_vm_rw(struct task *t, int pid, gaddr_t lvec, uint64_t lcount, gaddr_t rvec,
			  uint64_t rcount, uint64_t flags, bool write)
{
	struct uio_seg *segs = NULL;
	struct mm *mm = NULL;
	struct user_iov iov;
	struct uio local;
	void *buf = NULL;
	long r;

	if (flags)
		return -EINVAL;
	r = uio_from_iovec(t, &local, &iov, lvec, lcount);
	if (r)
		return r;
	if (local.resid == 0)
		goto out;
	r = remote_segs(t, rvec, rcount, &segs);
	if (r || rcount == 0)
		goto out;
	r = remote_mm(t, pid, &mm);
	if (r)
		goto out;
	buf = mem_pages(BOUNCE_SIZE);
	r = buf ? move_all(mm, segs, rcount, &local, buf, write) : -ENOMEM;
	mem_free(buf);
out:
	mm_put(mm);
	mem_free(segs);
	user_iov_free(&iov);
	return r;
}

long sys_process_vm_readv(struct task *t, int pid, gaddr_t lvec, uint64_t liovcnt, gaddr_t rvec,
			  uint64_t riovcnt, uint64_t flags)
{
	return process_vm_rw(t, pid, lvec, liovcnt, rvec, riovcnt, flags, false);
}

long sys_process_vm_writev(struct task *t, int pid, gaddr_t lvec, uint64_t liovcnt, gaddr_t rvec,
			   uint64_t riovcnt, uint64_t flags)
{
	return process_vm_rw(t, pid, lvec, liovcnt, rvec, riovcnt, flags, true);
}

enum { MADV_WILLNEED_ = 3, MADV_COLD_ = 20, MADV_PAGEOUT_ = 21, MADV_COLLAPSE_ = 25 };

static bool remote_advice_ok(int advice)
{
	return advice == MADV_WILLNEED_ || advice == MADV_COLD_ || advice == MADV_PAGEOUT_ ||
	       advice == MADV_COLLAPSE_;
}

/* The process of @pidfd: a reference to its leader. */
static int task_of_pidfd(struct task *t, int pidfd, struct task **out)
{
	struct file *f = fd_get_nopath(t->files, pidfd);
	struct pid *p;

	if (!f)
		return -EBADF;
	p = pidfd_pid(f);
	if (p) {
		mutex_lock(&g_kernel.tasklist);
		*out = p->task ? task_get(p->task) : NULL;
		mutex_unlock(&g_kernel.tasklist);
	}
	file_put(f);
	if (!p)
		return -EBADF;
	return *out ? 0 : -ESRCH;
}

/* Advises each range of @u in @t's own memory: bytes done, or the first error. */
static long advise_own(struct task *t, const struct uio *u, int advice)
{
	long done = 0;

	for (unsigned i = 0; i < u->count; i++) {
		int r = mm_madvise(t, u->segs[i].base, u->segs[i].size, advice);

		if (r)
			return done ? done : r;
		done += (long)u->segs[i].size;
	}
	return done;
}

long sys_process_madvise(struct task *t, int pidfd, gaddr_t vec, uint64_t vlen, int behavior,
			 unsigned flags)
{
	struct task *o = NULL;
	struct user_iov iov;
	struct uio u;
	long r;

	if (flags)
		return -EINVAL;
	r = uio_from_iovec(t, &u, &iov, vec, vlen);
	if (r)
		return r;
	r = task_of_pidfd(t, pidfd, &o);
	if (r)
		goto out;
	if (o->tg == t->tg)
		r = advise_own(t, &u, behavior);
	else if (!remote_advice_ok(behavior))
		r = -EINVAL;
	else if (!task_may_access(t, o) || !cred_capable(t->vctx.cred, LX_CAP_SYS_NICE))
		r = -EPERM;
	else
		r = (long)u.resid;
	task_put(o);
out:
	user_iov_free(&iov);
	return r;
}

/* Memory of a dying process goes at once anyway: there is nothing to hurry. */
long sys_process_mrelease(struct task *t, int pidfd, unsigned flags)
{
	struct task *o = NULL;
	int r;

	if (flags)
		return -EINVAL;
	r = task_of_pidfd(t, pidfd, &o);
	if (r)
		return r;
	mutex_lock(&g_kernel.tasklist);
	r = o->tg->group_exit || o->dying ? 0 : -EINVAL;
	mutex_unlock(&g_kernel.tasklist);
	task_put(o);
	return r;
}
