/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clone, clone3, fork, vfork.
 *
 * Theory of operation: first everything that can fail, on objects that nobody else sees; then,
 * under tasklist, one commit that makes the child known; then its fiber starts. A thread, or a
 * process that shares its parent's memory (vfork), is a new host thread in the same address space;
 * any other is a copy-on-write copy.
 *
 * Deviations from Linux: no new name spaces (EPERM, as a container without the right answers),
 * CLONE_PTRACE is ignored, CLONE_INTO_CGROUP is EBADF or EOPNOTSUPP. A terminal's stop signal stops
 * the child of a vfork only once it has executed a program. On Linux a control-Z between a shell's
 * vfork and that, where dash is before each command with all its own signals blocked, stops the
 * child alone; the shell waits on for it and is not seen to have stopped.
 *
 * References: clone(2), fork(2), vfork(2), the kernel's copy_process() documentation in clone(2).
 */
#include "sentry/answers.h"
#include "sentry/audit.h"
#include "sentry/nsfs.h"
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <string.h>

#define CLONE_VM_ 0x100ull
#define CLONE_FS_ 0x200ull
#define CLONE_FILES_ 0x400ull
#define CLONE_SIGHAND_ 0x800ull
#define CLONE_PIDFD_ 0x1000ull
#define CLONE_VFORK_ 0x4000ull
#define CLONE_PARENT_ 0x8000ull
#define CLONE_THREAD_ 0x10000ull
#define CLONE_SYSVSEM_ 0x40000ull
#define CLONE_SETTLS_ 0x80000ull
#define CLONE_PARENT_SETTID_ 0x100000ull
#define CLONE_CHILD_CLEARTID_ 0x200000ull
#define CLONE_DETACHED_ 0x400000ull
#define CLONE_UNTRACED_ 0x800000ull
#define CLONE_CHILD_SETTID_ 0x1000000ull
#define CLONE_IO_ 0x80000000ull
#define CLONE_CLEAR_SIGHAND_ 0x100000000ull
#define CLONE_INTO_CGROUP_ 0x200000000ull
#define CSIGNAL_ 0xffull

struct vfork_done {
	struct ref ref;
	struct waitq wait;
	_Atomic bool done;
};

struct vfork_done *vfork_done_new(void)
{
	struct vfork_done *v = mem_zalloc(sizeof(*v));

	if (v) {
		ref_init(&v->ref);
		waitq_init(&v->wait);
	}
	return v;
}

static void vfork_done_put(struct vfork_done *v)
{
	if (v && ref_put(&v->ref)) {
		waitq_fini(&v->wait);
		mem_free(v);
	}
}

void vfork_release(struct task *t)
{
	struct vfork_done *v = t->vfork_done;

	if (!v)
		return;
	t->vfork_done = NULL;
	atomic_store(&v->done, true);
	waitq_wake_all(&v->wait, 0);
	vfork_done_put(v);
	mutex_lock(&g_kernel.tasklist);
	if (t->late_stop && !t->exiting) {
		const struct lx_siginfo info = {.si_signo = t->late_stop, .si_code = LX_SI_KERNEL};

		t->late_stop = 0;
		(void)signal_send_task_locked(t, &info);
	}
	mutex_unlock(&g_kernel.tasklist);
}

/* Whether Linux would have made them: a user name space for anybody, others for root. */
static int refuse_spaces(const struct task *t, uint64_t flags)
{
	if ((flags & CLONE_NEWUSER_) || cred_capable(t->vctx.cred, LX_CAP_SYS_ADMIN))
		audit_denied(AUDIT_NO_SPACES, NULL, NULL);
	return -EPERM;
}

static int check_flags(const struct task *p, const struct clone_args *a)
{
	uint64_t f = a->flags;

	if ((f & CLONE_NEWNS_) && (f & CLONE_FS_))
		return -EINVAL;
	if ((f & CLONE_NEWUSER_) && (f & CLONE_FS_))
		return -EINVAL;
	if ((f & CLONE_THREAD_) && !(f & CLONE_SIGHAND_))
		return -EINVAL;
	if ((f & CLONE_SIGHAND_) && !(f & CLONE_VM_))
		return -EINVAL;
	if ((f & CLONE_CLEAR_SIGHAND_) && (f & CLONE_SIGHAND_))
		return -EINVAL;
	if ((f & CLONE_THREAD_) && (f & (CLONE_NEWUSER_ | CLONE_NEWPID_)))
		return -EINVAL;
	if ((f & CLONE_PIDFD_) && (f & CLONE_DETACHED_))
		return -EINVAL;
	if ((f & CLONE_NEWIPC_) && (f & CLONE_SYSVSEM_))
		return -EINVAL;
	if (a->exit_signal < 0 || a->exit_signal > LX_NSIG)
		return -EINVAL;
	if (f & CLONE_ANY_NEW)
		return refuse_spaces(p, f);
	return 0;
}

/* What a child has of its parent, before anybody knows of it. Freed by child_discard on failure. */
struct child {
	struct task *t;
	struct tgroup *tg; /* a new one, or NULL for a thread */
	struct pid *pid;
	struct file *pidfd_file;
	int pidfd;
};

static void child_discard(struct task *parent, struct child *c)
{
	struct task *t = c->t;

	if (c->pidfd >= 0)
		fd_unreserve(parent->files, c->pidfd);
	if (c->pidfd_file)
		file_put(c->pidfd_file);
	if (t) {
		if (t->fiber)
			fiber_discard(t->fiber);
		sem_exit(t);
		if (t->files)
			fdtable_put(t->files, &parent->vctx);
		if (t->vctx.fs)
			fs_put(t->vctx.fs);
		if (t->vctx.ns)
			mount_ns_put(t->vctx.ns);
		if (t->pt)
			g_pf->thread_free(t->pt);
		if (t->mm)
			mm_put(t->mm);
		vfork_done_put(t->vfork_done);
		t->files = NULL;
		t->vctx.fs = NULL;
		t->mm = NULL;
		task_put(t);
	}
	tgroup_put(c->tg);
	pid_put(c->pid);
}

static int child_memory(struct task *p, struct task *t, uint64_t flags)
{
	struct pf_as *as;
	int r;

	if (flags & CLONE_VM_) {
		r = g_pf->thread_new(p->pt, &t->pt);
		if (r)
			return r == -ENOMEM ? -ENOMEM : -EAGAIN;
		t->mm = mm_get(p->mm);
		return 0;
	}
	/* The map list and the host's copy are taken in one piece. */
	fmutex_lock(&p->mm->lock);
	r = g_pf->as_fork(p->pt, &as, &t->pt);
	if (r == 0) {
		t->mm = mm_fork(p->mm, as, t->pt);
		if (!t->mm)
			r = -ENOMEM;
	}
	fmutex_unlock(&p->mm->lock);
	return r;
}

static int child_tgroup(struct task *p, struct child *c, int exit_signal)
{
	struct tgroup *tg = tgroup_alloc(c->pid);

	if (!tg)
		return -ENOMEM;
	c->tg = tg;
	tg->exit_signal = exit_signal;
	tg->oom_score_adj = p->tg->oom_score_adj;
	tg->dumpable = p->tg->dumpable;
	mutex_lock(&p->tg->rlim_lock);
	memcpy(tg->rlim, p->tg->rlim, sizeof(tg->rlim));
	mutex_unlock(&p->tg->rlim_lock);
	return cpu_limit_inherit(tg);
}

static int child_pid(struct task *p, const struct clone_args *a, struct child *c)
{
	int32_t want;

	if (a->set_tid_size == 0) {
		c->pid = pid_new();
		return c->pid ? 0 : -EAGAIN;
	}
	if (a->set_tid_size > 1)
		return -EINVAL; /* deeper than our one pid name space */
	if (copy_in(p, &want, a->set_tid, sizeof(want)))
		return -EFAULT;
	if (want <= 0 || want >= g_kernel.pid_max)
		return -EINVAL;
	if (!cred_capable(p->vctx.cred, LX_CAP_SYS_ADMIN) &&
	    !cred_capable(p->vctx.cred, LX_CAP_CHECKPOINT_RESTORE))
		return -EPERM;
	c->pid = pid_new_exact(want);
	return c->pid ? 0 : -EEXIST;
}

static void copy_attributes(struct task *p, struct task *t, const struct clone_args *a)
{
	mutex_lock(&g_kernel.tasklist);
	memcpy(t->comm, p->comm, sizeof(t->comm));
	t->vctx.cred = cred_get(p->vctx.cred);
	t->nice = p->nice;
	t->sched_policy = p->sched_policy;
	t->sched_priority = p->sched_priority;
	t->cpu_mask = p->cpu_mask;
	mutex_unlock(&g_kernel.tasklist);
	t->vctx.ns = mount_ns_get(p->vctx.ns);
	t->vctx.fsize_limit = p->vctx.fsize_limit;
	t->blocked = p->blocked;
	if (p->restore_mask)
		t->blocked = p->saved_mask;
	t->timer_slack_ns = t->default_slack_ns = p->timer_slack_ns;
	t->ioprio = p->ioprio;
	t->personality = p->personality;
	t->no_new_privs = p->no_new_privs;
	t->tsc_faults = p->tsc_faults;
	t->keep_caps = p->keep_caps;
	/* A thread, or a vfork child on the same memory with its own stack, has no alternate stack.
	 */
	if (!(a->flags & CLONE_VM_) || (a->flags & CLONE_VFORK_))
		t->altstack = p->altstack;
	t->regs = p->regs;
	t->regs.rax = 0;
	if (a->stack.a)
		t->regs.rsp = a->stack.a;
	if (a->flags & CLONE_SETTLS_)
		t->regs.fs_base = a->tls.a;
	if (a->flags & CLONE_CHILD_CLEARTID_)
		t->clear_child_tid = a->child_tid;
}

static int child_resources(struct task *p, struct task *t, uint64_t flags)
{
	if (flags & CLONE_SIGHAND_) {
		answers_actions_share(p);
		t->sighand = sighand_get(p->sighand);
	} else {
		t->sighand = sighand_dup(p->sighand);
	}
	if (!t->sighand)
		return -ENOMEM;
	if (flags & CLONE_CLEAR_SIGHAND_)
		signal_reset_handlers(t);
	if (flags & CLONE_FS_)
		t->vctx.fs = fs_get(p->vctx.fs);
	else
		t->vctx.fs = fs_dup(p->vctx.fs);
	if (flags & CLONE_FILES_)
		t->files = fdtable_get(p->files);
	else
		t->files = fdtable_dup(p->files);
	if (!t->vctx.fs || !t->files)
		return -ENOMEM;
	t->vctx.files = t->files;
	return sem_clone(p, t, flags & CLONE_SYSVSEM_);
}

/* Makes the child known. -ERESTARTNOINTR: the parent has a signal to see first. */
static int child_publish(struct task *p, struct child *c, uint64_t flags)
{
	struct task *t = c->t;

	mutex_lock(&g_kernel.tasklist);
	if (p->tg->group_exit || p->dying || (signal_pending(p) && !c->tg && p->tg->stopped)) {
		mutex_unlock(&g_kernel.tasklist);
		return -ERESTARTNOINTR;
	}
	if (c->tg) {
		struct tgroup *tg = c->tg, *parent = p->tg;

		if (flags & CLONE_PARENT_) {
			parent = p->tg->parent;
			tg->exit_signal = p->tg->exit_signal;
		}
		tg->leader = task_get(t);
		tg->parent = parent;
		TAILQ_INSERT_TAIL(&parent->children, tg, sibling);
		c->pid->tg = tgroup_get(tg);
		tgroup_join_pgrp_locked(tg, p->tg->pgrp);
		tgroup_join_session_locked(tg, p->tg->session);
		tg->no_tty = p->tg->no_tty;
		g_kernel.tgroups++;
	}
	g_kernel.total_forks++;
	task_link_locked(t);
	signal_recalc_locked(t);
	if (c->tg)
		cpu_limit_begin_locked(c->tg);
	mutex_unlock(&g_kernel.tasklist);
	return 0;
}

static int child_build(struct task *p, const struct clone_args *a, struct child *c)
{
	uint64_t flags = a->flags;
	struct task *t;
	int r;

	r = child_pid(p, a, c);
	if (r)
		return r;
	if (!(flags & CLONE_THREAD_)) {
		r = child_tgroup(p, c, a->exit_signal);
		if (r)
			return r;
	}
	t = c->t = task_alloc(c->tg ? c->tg : p->tg, c->pid);
	if (!t)
		return -ENOMEM;
	copy_attributes(p, t, a);
	r = child_resources(p, t, flags);
	if (r == 0)
		r = child_memory(p, t, flags);
	if (r)
		return r;
	t->fiber = fiber_new(task_main, t, g_pf->as_home(t->mm->as), "task");
	if (!t->fiber)
		return -ENOMEM;
	fiber_set_data(t->fiber, t);
	if (flags & CLONE_VFORK_) {
		t->vfork_done = vfork_done_new();
		if (!t->vfork_done)
			return -ENOMEM;
	}
	if (flags & CLONE_PIDFD_) {
		r = pidfd_new(p, c->pid, flags & CLONE_THREAD_ ? LX_O_EXCL : 0, &c->pidfd_file);
		if (r)
			return r;
		c->pidfd = fd_reserve(p->files, FD_CLOEXEC_FLAG, 0,
				      rlimit_get(p->tg, LX_RLIMIT_NOFILE));
		if (c->pidfd < 0)
			return c->pidfd;
		if (copy_out(p, a->pidfd, &c->pidfd, sizeof(c->pidfd)))
			return -EFAULT;
	}
	/* As in Linux, a bad address for these two is not an error of clone. */
	if (flags & CLONE_PARENT_SETTID_)
		(void)!copy_out(p, a->parent_tid, &t->tid, sizeof(t->tid));
	if (flags & CLONE_CHILD_SETTID_)
		(void)!copy_out_mm(t->mm, a->child_tid, &t->tid, sizeof(t->tid));
	return 0;
}

static bool over_limit(struct task *p)
{
	bool over;
	uint64_t limit = rlimit_get(p->tg, LX_RLIMIT_NPROC);
	const struct cred *c = p->vctx.cred;

	mutex_lock(&g_kernel.tasklist);
	over = g_kernel.tasks >= g_kernel.tasks_max;
	if (!over && c->uid != 0 && !cred_capable(c, LX_CAP_SYS_RESOURCE) &&
	    !cred_capable(c, LX_CAP_SYS_ADMIN) && limit < g_kernel.tasks_max) {
		/* Count this user's threads: rare enough (a lowered limit) not to keep a counter
		 * per user. */
		over = tasks_of_user_locked(c->uid) >= limit;
	}
	mutex_unlock(&g_kernel.tasklist);
	return over;
}

/* Threads are charged for until they exit, processes until they are reaped. */
static bool charge_child(uint64_t flags)
{
	if (!meter_charge(METER_threads, 1))
		return false;
	if ((flags & CLONE_THREAD_) || meter_charge(METER_processes, 1))
		return true;
	meter_uncharge(METER_threads, 1);
	return false;
}

static void uncharge_child(uint64_t flags)
{
	meter_uncharge(METER_threads, 1);
	if (!(flags & CLONE_THREAD_))
		meter_uncharge(METER_processes, 1);
}

long task_clone(struct task *p, const struct clone_args *a)
{
	struct child c = {.pidfd = -1};
	struct vfork_done *vfork = NULL;
	int r = check_flags(p, a);
	long tid;

	if (r)
		return r;
	if (over_limit(p) || task_need_regs(p) < 0 || !charge_child(a->flags))
		return -EAGAIN;
	r = child_build(p, a, &c);
	if (r == 0)
		r = child_publish(p, &c, a->flags);
	if (r) {
		child_discard(p, &c);
		uncharge_child(a->flags);
		return r;
	}
	if (c.pidfd_file)
		fd_fill(p->files, c.pidfd, c.pidfd_file);
	tid = c.t->tid;
	if (a->flags & CLONE_VFORK_) {
		vfork = c.t->vfork_done;
		ref_get(&vfork->ref);
	}
	if (unlikely(g_audit) && c.t->tg != p->tg)
		audit_forked(p, c.t);
	fiber_start(c.t->fiber);
	if (c.tg && g_pf->will_execute)
		g_pf->will_execute(p->pt);
	tgroup_put(c.tg);
	pid_put(c.pid);
	if (vfork) {
		(void)wait_event(&vfork->wait, atomic_load(&vfork->done), DEADLINE_NONE, WAIT_KILL);
		vfork_done_put(vfork);
	}
	return tid;
}

long sys_fork(struct task *t)
{
	struct clone_args a = {.exit_signal = LX_SIGCHLD};

	return task_clone(t, &a);
}

long sys_vfork(struct task *t)
{
	struct clone_args a = {.flags = CLONE_VFORK_ | CLONE_VM_, .exit_signal = LX_SIGCHLD};

	return task_clone(t, &a);
}

long sys_clone(struct task *t, uint64_t flags, uint64_t stack, gaddr_t parent_tid,
	       gaddr_t child_tid, uint64_t tls)
{
	struct clone_args a = {
		.flags = (flags & 0xffffffffull) & ~CSIGNAL_,
		.exit_signal = (int)(flags & CSIGNAL_),
		.stack = GADDR(stack),
		.parent_tid = parent_tid,
		.child_tid = child_tid,
		.tls = GADDR(tls),
		.pidfd = parent_tid,
	};

	if ((a.flags & CLONE_PIDFD_) && (a.flags & CLONE_PARENT_SETTID_))
		return -EINVAL;
	/* Legacy clone's low flag bits overlap the signal: CLONE_NEWTIME cannot be asked for here.
	 */
	return task_clone(t, &a);
}

struct lx_clone_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
		set_tid_size, cgroup;
};
#define CLONE_ARGS_SIZE_VER0 64

long sys_clone3(struct task *t, gaddr_t uargs, uint64_t size)
{
	struct lx_clone_args u = {0};
	struct clone_args a;

	if (size > MOAT_PAGE_SIZE)
		return -E2BIG;
	if (size < CLONE_ARGS_SIZE_VER0)
		return -EINVAL;
	if (copy_in(t, &u, uargs, MIN(size, (uint64_t)sizeof(u))))
		return -EFAULT;
	for (uint64_t off = sizeof(u); off < size; off += sizeof(uint64_t)) {
		uint64_t w = 0;

		if (copy_in(t, &w, GADDR(uargs.a + off), MIN(size - off, (uint64_t)sizeof(w))))
			return -EFAULT;
		if (w)
			return -E2BIG;
	}
	if (u.set_tid_size > 32)
		return -EINVAL;
	if (!u.set_tid != !u.set_tid_size)
		return -EINVAL;
	if ((u.exit_signal & ~CSIGNAL_) || u.exit_signal > LX_NSIG)
		return -EINVAL;
	if ((u.flags & CLONE_INTO_CGROUP_) && u.cgroup > INT32_MAX)
		return -EINVAL;
	if (u.flags & ~(CLONE_CLEAR_SIGHAND_ | CLONE_INTO_CGROUP_ | 0xffffffffull))
		return -EINVAL;
	if (u.flags & (CLONE_DETACHED_ | (CSIGNAL_ & ~CLONE_NEWTIME_)))
		return -EINVAL;
	if ((u.flags & (CLONE_THREAD_ | CLONE_PARENT_)) && u.exit_signal)
		return -EINVAL;
	if (!u.stack != !u.stack_size)
		return -EINVAL;
	if (u.stack &&
	    (u.stack + u.stack_size < u.stack || u.stack + u.stack_size > PF_GUEST_LIMIT))
		return -EINVAL;
	/* One place cannot hold both. */
	if ((u.flags & CLONE_PIDFD_) && (u.flags & CLONE_PARENT_SETTID_) && u.pidfd == u.parent_tid)
		return -EINVAL;
	if (u.flags & CLONE_INTO_CGROUP_)
		return -EBADF; /* no cgroup file system of ours gives such a descriptor */
	a = (struct clone_args){
		.flags = u.flags,
		.pidfd = GADDR(u.pidfd),
		.child_tid = GADDR(u.child_tid),
		.parent_tid = GADDR(u.parent_tid),
		.exit_signal = (int)u.exit_signal,
		.stack = GADDR(u.stack ? u.stack + u.stack_size : 0),
		.tls = GADDR(u.tls),
		.set_tid = GADDR(u.set_tid),
		.set_tid_size = u.set_tid_size,
	};
	return task_clone(t, &a);
}

/* Only what was shared can be unshared: files, fs, and name spaces not at all. */
long sys_unshare(struct task *t, uint64_t flags)
{
	const uint64_t known = CLONE_THREAD_ | CLONE_FS_ | CLONE_SIGHAND_ | CLONE_VM_ |
			       CLONE_FILES_ | CLONE_SYSVSEM_ | CLONE_ANY_NEW;
	struct fs_struct *fs = NULL;
	struct fdtable *files = NULL;

	if (flags & ~known)
		return -EINVAL;
	if ((flags & (CLONE_THREAD_ | CLONE_SIGHAND_ | CLONE_VM_)) && t->tg->live > 1)
		return -EINVAL;
	if (flags & CLONE_ANY_NEW)
		return refuse_spaces(t, flags);
	if ((flags & CLONE_FS_) && !(fs = fs_dup(t->vctx.fs)))
		return -ENOMEM;
	if ((flags & CLONE_FILES_) && fdtable_shared(t->files) &&
	    !(files = fdtable_dup(t->files))) {
		if (fs)
			fs_put(fs);
		return -ENOMEM;
	}
	struct fs_struct *old_fs = NULL;
	struct fdtable *old_files = NULL;

	mutex_lock(&g_kernel.tasklist);
	if (fs) {
		old_fs = t->vctx.fs;
		t->vctx.fs = fs;
	}
	if (files) {
		old_files = t->files;
		t->files = files;
		t->vctx.files = files;
	}
	mutex_unlock(&g_kernel.tasklist);
	if (old_fs)
		fs_put(old_fs);
	if (old_files)
		fdtable_put(old_files, &t->vctx);
	if (flags & CLONE_SYSVSEM_)
		sem_exit(t);
	return 0;
}

long sys_set_tid_address(struct task *t, gaddr_t tidptr)
{
	t->clear_child_tid = tidptr;
	return t->tid;
}
