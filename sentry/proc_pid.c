/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID and /proc/PID/task/TID.
 */
#include "sentry/answers.h"
#include "sentry/nsfs.h"
#include "sentry/proc.h"

#include "vfs/mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USER_HZ_NS ((uint64_t)NSEC_PER_SEC / 100)

/* ---- the object: a struct pid ---- */

void *proc_pid_get(void *obj)
{
	return pid_get(obj);
}

void proc_pid_put(void *obj)
{
	pid_put(obj);
}

struct task *proc_task(void *obj)
{
	struct pid *p = obj;
	struct task *t = NULL;

	mutex_lock(&g_kernel.tasklist);
	if (p->task)
		t = task_get(p->task);
	mutex_unlock(&g_kernel.tasklist);
	return t;
}

struct task *proc_task_access(void *obj, int *r)
{
	struct task *t = proc_task(obj), *self = current_task();

	*r = -ESRCH;
	if (t && self && !task_may_access(self, t)) {
		*r = -EACCES;
		task_put(t);
		return NULL;
	}
	return t;
}

bool proc_pid_alive(void *obj)
{
	struct pid *p = obj;
	bool alive;

	mutex_lock(&g_kernel.tasklist);
	alive = p->task != NULL;
	mutex_unlock(&g_kernel.tasklist);
	return alive;
}

void proc_pid_attr(struct inode *i, void *obj, struct kstat *st)
{
	struct task *t = proc_task(obj);
	bool dir = LX_S_ISDIR(i->mode);

	st->uid = st->gid = 0;
	if (!t)
		return;
	/* An undumpable process's files are root's, but for the directories that all may list. */
	if (t->tg->dumpable == 1 || dir) {
		struct cred *c = task_get_cred(t);

		st->uid = c->euid;
		st->gid = c->egid;
		cred_put(c);
	}
	task_put(t);
}

/* ---- stat ---- */

struct signal_sets {
	lx_sigset_t pending, shared, blocked, ignored, caught;
};

static void get_signal_sets(struct task *t, struct signal_sets *s)
{
	memset(s, 0, sizeof(*s));
	mutex_lock(&g_kernel.tasklist);
	s->pending = t->pending.set;
	s->shared = t->tg->shared.set;
	s->blocked = answers_blocked(t);
	for (int k = 0; t->sighand && k < LX_NSIG; k++) {
		const uint64_t h = answers_handler_locked(t, k + 1);

		if (h == LX_SIG_IGN)
			s->ignored |= sigbit(k + 1);
		else if (h != LX_SIG_DFL)
			s->caught |= sigbit(k + 1);
	}
	mutex_unlock(&g_kernel.tasklist);
}

struct ids {
	int32_t ppid, pgrp, session, tty_nr, tpgid;
	unsigned threads;
	int exit_code;
};

/* As Linux counts them: a leader that has ended before the others, or is not reaped, is one. */
static unsigned threads_locked(const struct tgroup *tg)
{
	return tg->live + (tg->leader && tg->leader->state == TASK_ZOMBIE);
}

static void get_ids(struct task *t, struct ids *d)
{
	struct tgroup *tg = t->tg;

	memset(d, 0, sizeof(*d));
	d->tpgid = -1;
	mutex_lock(&g_kernel.tasklist);
	d->ppid = tg->parent ? tg->parent->tgid : 0;
	d->pgrp = tg->pgrp ? tg->pgrp->nr : 0;
	d->session = tg->session ? tg->session->nr : 0;
	d->threads = threads_locked(tg);
	d->exit_code = tg->zombie ? (tg->group_exit ? tg->group_exit_code : t->exit_code) : 0;
	tgroup_tty_ids_locked(tg, &d->tty_nr, &d->tpgid);
	mutex_unlock(&g_kernel.tasklist);
}

static bool is_thread_node(struct inode *i)
{
	return pnode_of(i)->data != NULL;
}

static int show_stat(struct vfs_ctx *c UNUSED, struct inode *i, void *obj, struct textbuf *out)
{
	struct task *t = proc_task(obj), *self = current_task();
	struct mem_counts m = {0};
	struct signal_sets s;
	struct rusage_sum ru = {0}, kids = {0};
	struct ids d;
	struct mm *mm;
	char comm[16];
	bool full;

	if (!t)
		return -ESRCH;
	get_ids(t, &d);
	get_signal_sets(t, &s);
	full = !self || task_may_access(self, t);
	mutex_lock(&g_kernel.tasklist);
	memcpy(comm, t->comm, sizeof(comm));
	if (is_thread_node(i)) {
		if (t->state != TASK_ZOMBIE)
			task_cpu_locked(t, &ru);
	} else {
		tgroup_rusage_locked(t->tg, &ru);
		kids = t->tg->reaped;
	}
	mutex_unlock(&g_kernel.tasklist);
	mm = task_get_mm(t);
	if (mm)
		proc_mem_counts(mm, &m);
	/* flags: PF_RANDOMIZE, and PF_FORKNOEXEC until the first exec */
	text_printf(out, "%d (%s) %c %d %d %d %d %d %u ", t->tid, comm, task_state_char(t), d.ppid,
		    d.pgrp, d.session, d.tty_nr, d.tpgid,
		    0x400000u | (t->tg->did_exec ? 0u : 0x40u));
	text_printf(out, "%lu %lu %lu %lu %lu %lu %ld %ld ", ru.min_flt, kids.min_flt, ru.maj_flt,
		    kids.maj_flt, ru.user_ns / USER_HZ_NS, ru.sys_ns / USER_HZ_NS,
		    (long)(kids.user_ns / USER_HZ_NS), (long)(kids.sys_ns / USER_HZ_NS));
	text_printf(out, "%d %d %u 0 %lu %lu %lu %lu ",
		    t->sched_priority ? -1 - t->sched_priority : 20 + t->nice, t->nice, d.threads,
		    (t->start_mono_ns - g_kernel.boot_mono_ns) / USER_HZ_NS, m.size,
		    m.rss / MOAT_PAGE_SIZE, rlimit_get(t->tg, LX_RLIMIT_RSS));
	if (mm && full)
		text_printf(out, "%lu %lu %lu 0 0 ", mm->start_code, mm->end_code, mm->stack_top);
	else
		text_printf(out, "%d %d 0 0 0 ", mm ? 1 : 0, mm ? 1 : 0);
	text_printf(out, "%lu %lu %lu %lu 0 0 0 %d 0 %d %d 0 0 0 ",
		    (s.pending | s.shared) & 0x7fffffff, s.blocked & 0x7fffffff,
		    s.ignored & 0x7fffffff, s.caught & 0x7fffffff, t->tg->exit_signal,
		    t->sched_priority, t->sched_policy);
	if (mm && full)
		text_printf(out, "%lu %lu %lu %lu %lu %lu %lu %d\n", mm->start_data, mm->end_data,
			    mm->start_brk, mm->arg_start, mm->arg_end, mm->env_start, mm->env_end,
			    d.exit_code);
	else
		text_printf(out, "0 0 0 0 0 0 0 %d\n", full ? d.exit_code : 0);
	if (mm)
		mm_put(mm);
	task_put(t);
	return 0;
}

/* ---- status ---- */

static const char *state_word(char c)
{
	switch (c) {
	case 'R':
		return "R (running)";
	case 'S':
		return "S (sleeping)";
	case 'T':
		return "T (stopped)";
	case 'Z':
		return "Z (zombie)";
	default:
		return "X (dead)";
	}
}

static void status_memory(struct textbuf *out, struct mm *mm)
{
	struct mem_counts m;

	proc_mem_counts(mm, &m);
	text_printf(out,
		    "VmPeak:\t%8lu kB\nVmSize:\t%8lu kB\nVmLck:\t%8lu kB\nVmPin:\t%8d "
		    "kB\nVmHWM:\t%8lu kB\n"
		    "VmRSS:\t%8lu kB\nRssAnon:\t%8lu kB\nRssFile:\t%8lu kB\nRssShmem:\t%8d "
		    "kB\nVmData:\t%8lu kB\n"
		    "VmStk:\t%8lu kB\nVmExe:\t%8lu kB\nVmLib:\t%8lu kB\nVmPTE:\t%8d "
		    "kB\nVmSwap:\t%8d kB\n"
		    "HugetlbPages:\t%8d "
		    "kB\nCoreDumping:\t0\nTHP_enabled:\t%d\nuntag_mask:\t0xffffffffffffffff\n",
		    m.size / 1024, m.size / 1024, m.locked / 1024, 0, m.peak_rss / 1024,
		    m.rss / 1024, (m.rss - m.shared) / 1024, m.shared / 1024, 0, m.data / 1024,
		    m.stack / 1024, m.exec / 1024, m.lib / 1024, 0, 0, 0, !mm_thp_off(mm));
}

static void cpu_mask_text(struct textbuf *out, uint64_t mask)
{
	uint64_t all = g_kernel.cpus >= 64 ? UINT64_MAX : ((uint64_t)1 << g_kernel.cpus) - 1;
	const char *sep = "";

	mask &= all;
	if (g_kernel.cpus > 32)
		text_printf(out, "Cpus_allowed:\t%08x,%08x\nCpus_allowed_list:\t",
			    (uint32_t)(mask >> 32), (uint32_t)mask);
	else
		text_printf(out, "Cpus_allowed:\t%x\nCpus_allowed_list:\t", (uint32_t)mask);
	for (unsigned k = 0; k < 64; k++) {
		unsigned last = k;

		if (!(mask >> k & 1))
			continue;
		while (last + 1 < 64 && (mask >> (last + 1) & 1))
			last++;
		if (last > k)
			text_printf(out, "%s%u-%u", sep, k, last);
		else
			text_printf(out, "%s%u", sep, k);
		sep = ",";
		k = last;
	}
	text_printf(out, "\nMems_allowed:\t1\nMems_allowed_list:\t0\n");
}

/* Backslashes and newlines are escaped, so that the line stays one. */
static void status_name(struct textbuf *out, struct task *t)
{
	char comm[16];

	mutex_lock(&g_kernel.tasklist);
	memcpy(comm, t->comm, sizeof(comm));
	mutex_unlock(&g_kernel.tasklist);
	text_printf(out, "Name:\t");
	for (const char *p = comm; p < comm + sizeof(comm) - 1 && *p; p++) {
		if (*p == '\n')
			text_printf(out, "\\n");
		else if (*p == '\\')
			text_printf(out, "\\\\");
		else
			text_append(out, p, 1);
	}
	text_printf(out, "\n");
}

static int show_status(struct vfs_ctx *ctx UNUSED, struct inode *i UNUSED, void *obj,
		       struct textbuf *out)
{
	struct task *t = proc_task(obj);
	struct fdtable *files;
	struct fs_struct *fs;
	struct signal_sets s;
	struct rusage_sum ru = {0};
	struct cred *c;
	struct mm *mm;
	struct ids d;
	unsigned umask = 022;

	if (!t)
		return -ESRCH;
	c = task_get_cred(t);
	get_ids(t, &d);
	get_signal_sets(t, &s);
	fs = task_get_fs(t);
	files = task_get_files(t);
	mm = task_get_mm(t);
	if (fs) {
		mutex_lock(&fs->lock);
		umask = fs->umask;
		mutex_unlock(&fs->lock);
	}
	status_name(out, t);
	if (fs)
		text_printf(out, "Umask:\t%04o\n", umask);
	text_printf(out, "State:\t%s\nTgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t%d\nTracerPid:\t0\n",
		    state_word(task_state_char(t)), t->tg->tgid, t->tid, d.ppid);
	text_printf(out, "Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\nFDSize:\t%u\nGroups:\t",
		    c->uid, c->euid, c->suid, c->fsuid, c->gid, c->egid, c->sgid, c->fsgid,
		    files ? fdtable_capacity(files) : 0);
	for (uint32_t k = 0; k < c->groups->count; k++)
		text_printf(out, "%u ", c->groups->gid[k]);
	text_printf(out, "\nNStgid:\t%d\nNSpid:\t%d\nNSpgid:\t%d\nNSsid:\t%d\nKthread:\t0\n",
		    t->tg->tgid, t->tid, d.pgrp, d.session);
	if (mm)
		status_memory(out, mm);
	text_printf(out, "Threads:\t%u\nSigQ:\t%u/%lu\n", d.threads, t->tg->sigqueue_count,
		    rlimit_get(t->tg, LX_RLIMIT_SIGPENDING));
	text_printf(out,
		    "SigPnd:\t%016lx\nShdPnd:\t%016lx\nSigBlk:\t%016lx\nSigIgn:\t%016lx\nSigCgt:\t%"
		    "016lx\n",
		    s.pending, s.shared, s.blocked, s.ignored, s.caught);
	text_printf(out,
		    "CapInh:\t%016lx\nCapPrm:\t%016lx\nCapEff:\t%016lx\nCapBnd:\t%016lx\nCapAmb:\t%"
		    "016lx\n",
		    c->cap_inheritable, c->cap_permitted, c->cap_effective, c->cap_bset,
		    c->cap_ambient);
	text_printf(out, "NoNewPrivs:\t%d\nSeccomp:\t0\nSeccomp_filters:\t0\n", t->no_new_privs);
	text_printf(out, "Speculation_Store_Bypass:\tnot "
			 "vulnerable\nSpeculationIndirectBranch:\tnot affected\n");
	cpu_mask_text(out, t->cpu_mask);
	mutex_lock(&g_kernel.tasklist);
	if (t->state != TASK_ZOMBIE && t->state != TASK_DEAD)
		task_cpu_locked(t, &ru);
	mutex_unlock(&g_kernel.tasklist);
	text_printf(out, "voluntary_ctxt_switches:\t%lu\nnonvoluntary_ctxt_switches:\t%lu\n",
		    ru.nvcsw, ru.nivcsw);
	if (mm)
		mm_put(mm);
	if (files)
		fdtable_put(files, &current_task()->vctx);
	if (fs)
		fs_put(fs);
	cred_put(c);
	task_put(t);
	return 0;
}

/* ---- small files ---- */

static int show_comm(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
		     struct textbuf *out)
{
	struct task *t = proc_task(obj);

	if (!t)
		return -ESRCH;
	mutex_lock(&g_kernel.tasklist);
	text_printf(out, "%.15s\n", t->comm);
	mutex_unlock(&g_kernel.tasklist);
	task_put(t);
	return 0;
}

static ssize_t store_comm(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
			  const char *data, size_t size)
{
	struct task *t = proc_task(obj), *self = current_task();
	size_t n = MIN(size, sizeof(t->comm) - 1);

	if (!t)
		return -ESRCH;
	if (!self || self->tg != t->tg) {
		task_put(t);
		return -EINVAL;
	}
	mutex_lock(&g_kernel.tasklist);
	memset(t->comm, 0, sizeof(t->comm));
	memcpy(t->comm, data, n);
	mutex_unlock(&g_kernel.tasklist);
	task_put(t);
	return (ssize_t)size;
}

static int show_limits(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
		       struct textbuf *out)
{
	static const struct {
		const char *name, *unit;
	} rows[LX_RLIM_NLIMITS] = {
		{"Max cpu time", "seconds"},     {"Max file size", "bytes"},
		{"Max data size", "bytes"},      {"Max stack size", "bytes"},
		{"Max core file size", "bytes"}, {"Max resident set", "bytes"},
		{"Max processes", "processes"},  {"Max open files", "files"},
		{"Max locked memory", "bytes"},  {"Max address space", "bytes"},
		{"Max file locks", "locks"},     {"Max pending signals", "signals"},
		{"Max msgqueue size", "bytes"},  {"Max nice priority", ""},
		{"Max realtime priority", ""},   {"Max realtime timeout", "us"},
	};
	struct task *t = proc_task(obj);

	if (!t)
		return -ESRCH;
	text_printf(out, "%-25s %-20s %-20s %-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units");
	for (unsigned k = 0; k < LX_RLIM_NLIMITS; k++) {
		struct lx_rlimit64 l;
		char soft[24] = "unlimited", hard[24] = "unlimited";

		mutex_lock(&t->tg->rlim_lock);
		l = t->tg->rlim[k];
		mutex_unlock(&t->tg->rlim_lock);
		if (l.cur != LX_RLIM_INFINITY)
			snprintf(soft, sizeof(soft), "%lu", l.cur);
		if (l.max != LX_RLIM_INFINITY)
			snprintf(hard, sizeof(hard), "%lu", l.max);
		text_printf(out, "%-25s %-20s %-20s %-10s\n", rows[k].name, soft, hard,
			    rows[k].unit);
	}
	task_put(t);
	return 0;
}

static int show_io(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj, struct textbuf *out)
{
	int r;
	struct task *t = proc_task_access(obj, &r);
	uint64_t calls, bytes;

	if (!t)
		return r;
	answers_reads(t, &calls, &bytes);
	text_printf(
		out,
		"rchar: %lu\nwchar: %lu\nsyscr: %lu\nsyscw: %lu\nread_bytes: 0\nwrite_bytes: 0\n"
		"cancelled_write_bytes: 0\n",
		bytes, t->write_bytes, calls, t->write_calls);
	task_put(t);
	return 0;
}

static int show_oom_score(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			  struct textbuf *out)
{
	text_printf(out, "0\n");
	return 0;
}

static int show_oom_adj(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
			struct textbuf *out)
{
	struct task *t = proc_task(obj);

	if (!t)
		return -ESRCH;
	text_printf(out, "%d\n", t->tg->oom_score_adj);
	task_put(t);
	return 0;
}

static ssize_t store_oom_adj(struct vfs_ctx *c, struct inode *i UNUSED, void *obj, const char *data,
			     size_t size)
{
	struct task *t;
	char buf[16], *end;
	long v;

	if (size == 0 || size >= sizeof(buf))
		return -EINVAL;
	memcpy(buf, data, size);
	buf[size] = '\0';
	v = strtol(buf, &end, 10);
	if (end == buf || (*end && *end != '\n') || v < -1000 || v > 1000)
		return -EINVAL;
	t = proc_task(obj);
	if (!t)
		return -ESRCH;
	/* Only the privileged may make a process less likely to be killed. */
	if (v < t->tg->oom_score_adj && !cred_capable(c->cred, LX_CAP_SYS_RESOURCE)) {
		task_put(t);
		return -EACCES;
	}
	t->tg->oom_score_adj = (int)v;
	task_put(t);
	return (ssize_t)size;
}

static int show_schedstat(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
			  struct textbuf *out)
{
	struct task *t = proc_task(obj);
	uint64_t user, sys;

	if (!t)
		return -ESRCH;
	task_times(t, &user, &sys);
	text_printf(out, "%lu 0 0\n", user + sys);
	task_put(t);
	return 0;
}

static int show_personality(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
			    struct textbuf *out)
{
	struct task *t = proc_task(obj);

	if (!t)
		return -ESRCH;
	text_printf(out, "%08x\n", t->personality);
	task_put(t);
	return 0;
}

static int show_timerslack(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
			   struct textbuf *out)
{
	struct task *t = proc_task(obj);

	if (!t)
		return -ESRCH;
	text_printf(out, "%lu\n", t->timer_slack_ns);
	task_put(t);
	return 0;
}

static ssize_t store_timerslack(struct vfs_ctx *c, struct inode *i UNUSED, void *obj,
				const char *data, size_t size)
{
	struct task *t;
	uint64_t ns;
	int r = proc_parse_number(data, 10, &ns);

	if (r < 0)
		return r;
	t = proc_task(obj);
	if (!t)
		return -ESRCH;
	if (t->tid != c->tid && !cred_capable(c->cred, LX_CAP_SYS_NICE)) {
		task_put(t);
		return -EPERM;
	}
	t->timer_slack_ns = ns ? ns : t->default_slack_ns;
	task_put(t);
	return (ssize_t)size;
}

/* A node whose text is its data. */
#define CONST_TEXT(n, m, text)                                                             \
	{                                                                                  \
		.name = (n), .mode = LX_S_IFREG | (m), .ops = &g_const_ops, .data = (text) \
	}

static int show_const(struct vfs_ctx *c UNUSED, struct inode *i, void *obj UNUSED,
		      struct textbuf *out)
{
	text_printf(out, "%s", (const char *)pnode_of(i)->data);
	return 0;
}
static const struct pnode_ops g_const_ops = {.show = show_const};

/* There is nobody else whom it could be. */
static ssize_t store_loginuid(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			      const char *data, size_t size UNUSED)
{
	uint64_t uid;
	const int r = proc_parse_number(data, 10, &uid);

	return r < 0 ? r : -EPERM;
}
static const struct pnode_ops g_loginuid_ops = {.show = show_const, .store = store_loginuid};

static int show_children(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
			 struct textbuf *out)
{
	struct task *t = proc_task(obj);
	struct tgroup *k;

	if (!t)
		return -ESRCH;
	mutex_lock(&g_kernel.tasklist);
	if (t == t->tg->leader) {
		TAILQ_FOREACH (k, &t->tg->children, sibling) {
			text_printf(out, "%d ", k->tgid);
		}
	}
	mutex_unlock(&g_kernel.tasklist);
	task_put(t);
	return 0;
}

/* ---- mounts ---- */

static int with_mounts(void *obj, struct textbuf *out,
		       void (*show)(struct mount_ns *, const struct path *, struct textbuf *))
{
	struct task *t = proc_task(obj);
	struct fs_struct *fs = t ? task_get_fs(t) : NULL;
	struct path root;

	if (t)
		task_put(t);
	if (!fs)
		return -EINVAL;
	fs_get_root(fs, &root);
	fs_put(fs);
	show(g_kernel.ns, &root, out);
	path_put(&root);
	return 0;
}

static int show_mounts(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
		       struct textbuf *out)
{
	return with_mounts(obj, out, mount_show_mounts);
}

static int show_mountinfo(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
			  struct textbuf *out)
{
	return with_mounts(obj, out, mount_show_mountinfo);
}

/* ---- links to paths ---- */

static int link_to(struct path *out, const struct path *p)
{
	path_get(p);
	*out = *p;
	return 0;
}

static int exe_link(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj, struct path *out)
{
	int r;
	struct task *t = proc_task_access(obj, &r);
	struct mm *mm = t ? task_get_mm(t) : NULL;

	if (t)
		task_put(t);
	if (!mm)
		return r == -EACCES ? r : -ENOENT;
	fmutex_lock(&mm->lock);
	r = mm->exe ? link_to(out, &mm->exe->path) : -ENOENT;
	fmutex_unlock(&mm->lock);
	mm_put(mm);
	return r;
}

static int fs_link(void *obj, struct path *out, bool root)
{
	int r;
	struct task *t = proc_task_access(obj, &r);
	struct fs_struct *fs = t ? task_get_fs(t) : NULL;

	if (t)
		task_put(t);
	if (!fs)
		return r == -EACCES ? r : -ENOENT;
	if (root)
		fs_get_root(fs, out);
	else
		fs_get_cwd(fs, out);
	fs_put(fs);
	return 0;
}

static int cwd_link(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj, struct path *out)
{
	return fs_link(obj, out, false);
}

static int root_link(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj, struct path *out)
{
	return fs_link(obj, out, true);
}

static int ns_link(struct vfs_ctx *c UNUSED, struct inode *i, void *obj, struct path *out)
{
	int r;
	struct task *t = proc_task_access(obj, &r);

	if (!t)
		return r == -EACCES ? r : -ENOENT;
	task_put(t);
	return nsfs_path(pnode_of(i)->name, out);
}

static const struct pnode_ops g_ns_ops = {.get_link = ns_link, PROC_PID_OBJ};
static const struct pnode g_ns_children[] = {
	LINK_NODE("cgroup", &g_ns_ops),
	LINK_NODE("ipc", &g_ns_ops),
	LINK_NODE("mnt", &g_ns_ops),
	LINK_NODE("net", &g_ns_ops),
	LINK_NODE("pid", &g_ns_ops),
	LINK_NODE("pid_for_children", &g_ns_ops),
	LINK_NODE("time", &g_ns_ops),
	LINK_NODE("time_for_children", &g_ns_ops),
	LINK_NODE("user", &g_ns_ops),
	LINK_NODE("uts", &g_ns_ops),
	{.name = NULL},
};

/* Tables of the network: one loopback device, no sockets of families that have tables. */
static const struct pnode g_net_children[] = {
	CONST_TEXT(
		"arp", 0444,
		"IP address       HW type     Flags       HW address            Mask     Device\n"),
	CONST_TEXT("dev", 0444,
		   "Inter-|   Receive                                                |  Transmit\n"
		   " face |bytes    packets errs drop fifo frame compressed multicast|bytes    "
		   "packets errs drop fifo colls "
		   "carrier compressed\n"
		   "    lo:       0       0    0    0    0     0          0         0        0     "
		   "  0    0    0    0     0  "
		   "     0          0\n"),
	CONST_TEXT("if_inet6", 0444, ""),
	CONST_TEXT("netlink", 0444,
		   "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    "
		   "Drops    Inode\n"),
	CONST_TEXT("route", 0444,
		   "Iface\tDestination\tGateway "
		   "\tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"
		   "                                                       \n"),
	CONST_TEXT("tcp", 0444,
		   "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   "
		   "uid  timeout inode"
		   "                                                     \n"),
	CONST_TEXT("tcp6", 0444,
		   "  sl  local_address                         remote_address                     "
		   "   st tx_queue rx_queue tr "
		   "tm->when retrnsmt   uid  timeout inode\n"),
	CONST_TEXT("udp", 0444,
		   "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   "
		   "uid  timeout inode ref "
		   "pointer drops             \n"),
	CONST_TEXT("udp6", 0444,
		   "  sl  local_address                         remote_address                     "
		   "   st tx_queue rx_queue tr "
		   "tm->when retrnsmt   uid  timeout inode ref pointer drops\n"),
	CONST_TEXT("unix", 0444, "Num       RefCount Protocol Flags    Type St Inode Path\n"),
	{.name = NULL},
};

/* ---- task ---- */

static int task_lookup(struct inode *dir UNUSED, void *obj, const char *name, size_t len,
		       const struct pnode **child, void **child_obj, uint64_t *ino)
{
	struct task *t = proc_task(obj), *o;
	char buf[12], *end;
	long nr;
	int r = -ENOENT;

	if (!t)
		return -ENOENT;
	if (len > 0 && len < sizeof(buf) && name[0] >= '1' && name[0] <= '9') {
		memcpy(buf, name, len);
		buf[len] = '\0';
		nr = strtol(buf, &end, 10);
		o = *end || nr > PID_MAX_LIMIT ? NULL : task_find((int32_t)nr);
		if (o && o->tg == t->tg) {
			*child = &g_proc_tid_node;
			*child_obj = pid_get(o->pid);
			*ino = 0;
			r = 0;
		}
		if (o)
			task_put(o);
	}
	task_put(t);
	return r;
}

static int task_iterate(struct inode *dir UNUSED, void *obj, struct dir_ctx *ctx, int64_t *off)
{
	struct task *t = proc_task(obj), *o;

	if (!t)
		return -ENOENT;
	while ((o = tgroup_next_task(t->tg, (int32_t)*off))) {
		char name[16];
		int32_t nr = o->tid;
		int n = snprintf(name, sizeof(name), "%d", nr);
		bool more = ctx->emit(ctx, name, (size_t)n, 0x200000u + (uint64_t)nr, LX_DT_DIR,
				      nr + 1);

		task_put(o);
		if (!more)
			break;
		*off = nr + 1;
	}
	task_put(t);
	return 0;
}

/* Its links tell how many threads there are; Chromium's helpers wait for the only one by that. */
static void task_dir_attr(struct inode *i, void *obj, struct kstat *st)
{
	struct task *t = proc_task(obj);

	proc_pid_attr(i, obj, st);
	if (!t)
		return;
	mutex_lock(&g_kernel.tasklist);
	st->nlink += threads_locked(t->tg);
	mutex_unlock(&g_kernel.tasklist);
	task_put(t);
}

static const struct pnode_ops g_task_dir_ops = {.lookup = task_lookup,
						.iterate = task_iterate,
						.alive = proc_pid_alive,
						.attr = task_dir_attr,
						.get_obj = proc_pid_get,
						.put_obj = proc_pid_put};

#define OPS(...) (&(const struct pnode_ops){__VA_ARGS__, PROC_PID_OBJ})
#define THREAD_FLAG ((const void *)"t")

/* What a process and a thread both have. */
#define COMMON_NODES(thread)                                                             \
	FILE_NODE("auxv", 0400, &g_proc_auxv_ops),                                       \
		FILE_NODE("cmdline", 0444, &g_proc_cmdline_ops),                         \
		FILE_NODE("comm", 0644, OPS(.show = show_comm, .store = store_comm)),    \
		LINK_NODE("cwd", OPS(.get_link = cwd_link)),                             \
		FILE_NODE("environ", 0400, &g_proc_environ_ops),                         \
		LINK_NODE("exe", OPS(.get_link = exe_link)),                             \
		DIR_NODE("fd", 0500, &g_proc_fd_ops, NULL),                              \
		DIR_NODE("fdinfo", 0555, &g_proc_fdinfo_ops, NULL),                      \
		FILE_NODE("io", 0400, OPS(.show = show_io)),                             \
		FILE_NODE("limits", 0444, OPS(.show = show_limits)),                     \
		FILE_NODE("maps", 0444, &g_proc_maps_ops),                               \
		FILE_NODE("mem", 0600, &g_proc_mem_ops),                                 \
		FILE_NODE("mountinfo", 0444, OPS(.show = show_mountinfo)),               \
		FILE_NODE("mounts", 0444, OPS(.show = show_mounts)),                     \
		DIR_NODE("net", 0555, NULL, g_net_children),                             \
		DIR_NODE("ns", 0511, NULL, g_ns_children),                               \
		FILE_NODE("oom_score", 0444, OPS(.show = show_oom_score)),               \
		FILE_NODE("oom_score_adj", 0644,                                         \
			  OPS(.show = show_oom_adj, .store = store_oom_adj)),            \
		FILE_NODE("pagemap", 0400, &g_proc_pagemap_ops),                         \
		FILE_NODE("personality", 0400, OPS(.show = show_personality)),           \
		LINK_NODE("root", OPS(.get_link = root_link)),                           \
		FILE_NODE("schedstat", 0444, OPS(.show = show_schedstat)),               \
		FILE_NODE("smaps", 0444, &g_proc_smaps_ops),                             \
		FILE_NODE("smaps_rollup", 0444, &g_proc_smaps_rollup_ops),               \
		{.name = "stat",                                                         \
		 .mode = LX_S_IFREG | 0444,                                              \
		 .ops = OPS(.show = show_stat),                                          \
		 .data = (thread)},                                                      \
		FILE_NODE("statm", 0444, &g_proc_statm_ops),                             \
		FILE_NODE("status", 0444, OPS(.show = show_status)),                     \
		CONST_TEXT("cgroup", 0444, "0::/\n"), CONST_TEXT("cpuset", 0444, "/\n"), \
		CONST_TEXT("gid_map", 0644, "         0          0 4294967295\n"),       \
		{.name = "loginuid",                                                     \
		 .mode = LX_S_IFREG | 0644,                                              \
		 .ops = &g_loginuid_ops,                                                 \
		 .data = "4294967295"},                                                  \
		CONST_TEXT("sessionid", 0444, "4294967295"),                             \
		CONST_TEXT("setgroups", 0644, "allow\n"),                                \
		CONST_TEXT("uid_map", 0644, "         0          0 4294967295\n"),       \
		CONST_TEXT("wchan", 0444, "0")

static const struct pnode g_tid_children[] = {
	COMMON_NODES(THREAD_FLAG),
	FILE_NODE("children", 0444, OPS(.show = show_children)),
	{.name = NULL},
};

static const struct pnode g_pid_children[] = {
	COMMON_NODES(NULL),
	FILE_NODE("coredump_filter", 0644, &g_proc_coredump_filter_ops),
	DIR_NODE("task", 0555, &g_task_dir_ops, NULL),
	FILE_NODE("timerslack_ns", 0644, OPS(.show = show_timerslack, .store = store_timerslack)),
	{.name = NULL},
};

static const struct pnode_ops g_pid_dir_ops = {PROC_PID_OBJ};
const struct pnode g_proc_pid_node = {
	.name = "", .mode = LX_S_IFDIR | 0555, .ops = &g_pid_dir_ops, .children = g_pid_children};
const struct pnode g_proc_tid_node = {
	.name = "", .mode = LX_S_IFDIR | 0555, .ops = &g_pid_dir_ops, .children = g_tid_children};
