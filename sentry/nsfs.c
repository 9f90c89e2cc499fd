/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name spaces as files: nsfs, and setns(2).
 *
 * Theory of operation: there is one name space of each kind, and none can be made, so the file
 * system has one inode for each from its start, with the number that Linux gives to its first. They
 * are read-only and without content: what one can do with them is to compare them, to ask what they
 * are, and to enter them, which moves nobody but to the root of the mounts.
 *
 * Deviations from Linux: the ioctls that translate process numbers or walk mount name spaces are
 * ENOTTY, as before Linux 6.11.
 *
 * References: namespaces(7), ioctl_ns(2) (ioctl_nsfs(2)), setns(2).
 */
#include "sentry/nsfs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sentry/process.h"
#include "sentry/syscall.h"
#include "vfs/mount.h"

#define NSFS_MAGIC 0x6e736673u
#define NS_GET_USERNS_ 0xb701u
#define NS_GET_PARENT_ 0xb702u
#define NS_GET_NSTYPE_ 0xb703u
#define NS_GET_OWNER_UID_ 0xb704u

static const struct space {
	const char *name;
	uint32_t nr;
	uint64_t kind;
} g_spaces[] = {
	{"cgroup", 0xeffffffbu, CLONE_NEWCGROUP_}, {"ipc", 0xefffffffu, CLONE_NEWIPC_},
	{"mnt", 0xf0000000u, CLONE_NEWNS_},        {"net", 0xf0000001u, CLONE_NEWNET_},
	{"pid", 0xeffffffcu, CLONE_NEWPID_},       {"time", 0xeffffffau, CLONE_NEWTIME_},
	{"user", 0xeffffffdu, CLONE_NEWUSER_},     {"uts", 0xeffffffeu, CLONE_NEWUTS_},
};

/* Made at start, kept for good. */
static struct inode *g_inodes[ARRAY_SIZE(g_spaces)];

static const struct space *space_of(const struct inode *i)
{
	return i->priv;
}

int nsfs_path(const char *name, struct path *out)
{
	char text[32];
	/* Those that children would be born in are the same. */
	size_t len = strcspn(name, "_");

	for (size_t k = 0; k < ARRAY_SIZE(g_spaces); k++) {
		const struct space *s = &g_spaces[k];

		if (strlen(s->name) != len || memcmp(s->name, name, len) != 0 || !g_inodes[k])
			continue;
		(void)snprintf(text, sizeof(text), "%s:[%u]", s->name, s->nr);
		return anon_path(inode_get(g_inodes[k]), text, out);
	}
	return -ENOENT;
}

/* ---- the files ---- */

static int64_t ns_lseek(struct file *f UNUSED, int64_t off UNUSED, int whence UNUSED)
{
	return -ESPIPE;
}

static const struct file_ops g_ns_fops;

/* A descriptor of the name space of users, to which all others belong. */
static long open_owner(struct vfs_ctx *c)
{
	struct task *t = current_task();
	struct path p;
	struct file *f;
	int r = nsfs_path("user", &p);

	if (r)
		return r;
	f = file_new(c, &p, &g_ns_fops, FMODE_READ, LX_O_RDONLY);
	path_put(&p);
	if (!f)
		return file_new_error();
	r = fd_install(t->files, f, FD_CLOEXEC_FLAG, 0, rlimit_get(t->tg, LX_RLIMIT_NOFILE));
	if (r < 0)
		file_put(f);
	return r;
}

static long ns_ioctl(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg,
		     const struct umem *um)
{
	const uint64_t kind = space_of(f->inode)->kind;
	const uint32_t root = 0;

	switch (cmd) {
	case NS_GET_USERNS_:
		return kind == CLONE_NEWUSER_ ? -EPERM : open_owner(c);
	case NS_GET_PARENT_:
		/* They would be outside of what the caller may see. */
		return kind == CLONE_NEWUSER_ || kind == CLONE_NEWPID_ ? -EPERM : -EINVAL;
	case NS_GET_NSTYPE_:
		return (long)kind;
	case NS_GET_OWNER_UID_:
		if (kind != CLONE_NEWUSER_)
			return -EINVAL;
		return umem_copy_out(um, (gaddr_t){arg}, &root, sizeof(root));
	default:
		return -ENOTTY;
	}
}

static const struct file_ops g_ns_fops = {.lseek = ns_lseek, .ioctl = ns_ioctl};
static const struct inode_ops g_ns_iops = {.open = NULL};
static const struct super_ops g_ns_super_ops = {.statfs = NULL};
static const struct fs_type g_nsfs_type = {.name = "nsfs", .nodev = true};

int nsfs_start(void)
{
	struct super *s = super_new(&g_nsfs_type, &g_ns_super_ops);

	if (!s)
		return -ENOMEM;
	s->magic = NSFS_MAGIC;
	s->blocksize = MOAT_PAGE_SIZE;
	for (size_t k = 0; k < ARRAY_SIZE(g_spaces); k++) {
		struct inode *i = inode_new(s, LX_S_IFREG | 0444);

		if (!i)
			return -ENOMEM;
		i->ino = g_spaces[k].nr;
		i->nlink = 1;
		i->iflags = INODE_IMMUTABLE;
		i->ops = &g_ns_iops;
		i->fops = &g_ns_fops;
		i->priv = (void *)(uintptr_t)&g_spaces[k];
		g_inodes[k] = i;
	}
	return 0;
}

/* ---- setns ---- */

static bool is_shared(struct fs_struct *fs)
{
	return ref_read(&fs->ref) > 1;
}

/* Whether Linux would let the caller enter the name space of that kind, in which he is. */
static int may_enter(const struct task *t, uint64_t kind)
{
	const struct cred *cred = t->vctx.cred;

	if (kind == CLONE_NEWUSER_)
		return -EINVAL; /* nobody gets capabilities by entering his own */
	if (kind == CLONE_NEWTIME_ && t->tg->live > 1)
		return -EUSERS;
	if (!cred_capable(cred, LX_CAP_SYS_ADMIN))
		return -EPERM;
	if (kind != CLONE_NEWNS_)
		return 0;
	if (!cred_capable(cred, LX_CAP_SYS_CHROOT))
		return -EPERM;
	return is_shared(t->vctx.fs) ? -EINVAL : 0;
}

/* All of @kinds, or none. */
static int enter(struct task *t, uint64_t kinds)
{
	/* The order in which Linux looks. */
	static const uint64_t order[] = {CLONE_NEWUSER_, CLONE_NEWNS_,  CLONE_NEWUTS_,
					 CLONE_NEWIPC_,  CLONE_NEWPID_, CLONE_NEWCGROUP_,
					 CLONE_NEWNET_,  CLONE_NEWTIME_};
	struct path root;

	for (size_t k = 0; k < ARRAY_SIZE(order); k++) {
		int r = kinds & order[k] ? may_enter(t, order[k]) : 0;

		if (r)
			return r;
	}
	if (kinds & CLONE_NEWNS_) {
		mount_ns_root(t->vctx.ns, &root);
		fs_set_root(t->vctx.fs, &root);
		fs_set_cwd(t->vctx.fs, &root);
		path_put(&root);
	}
	return 0;
}

/* What a pidfd's process is in: the same. */
static int enter_those_of(struct task *t, struct pid *p, uint64_t kinds)
{
	struct task *of = NULL;
	int r;

	if (!kinds || (kinds & ~CLONE_ANY_NEW))
		return -EINVAL;
	mutex_lock(&g_kernel.tasklist);
	if (p->task && p->task->state != TASK_ZOMBIE)
		of = task_get(p->task);
	mutex_unlock(&g_kernel.tasklist);
	if (!of)
		return -ESRCH;
	r = task_may_access(t, of) ? enter(t, kinds) : -EPERM;
	task_put(of);
	return r;
}

long sys_setns(struct task *t, int fd, int nstype)
{
	const uint64_t kinds = (uint32_t)nstype;
	struct file *f = fd_get_nopath(t->files, fd);
	struct pid *pid;
	int r = -EINVAL;

	if (!f)
		return -EBADF;
	pid = pidfd_pid(f);
	if (f->ops == &g_ns_fops) {
		if (!kinds || kinds == space_of(f->inode)->kind)
			r = enter(t, space_of(f->inode)->kind);
	} else if (pid) {
		r = enter_those_of(t, pid, kinds);
	}
	file_put(f);
	return r;
}
