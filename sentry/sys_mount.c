/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts: mount, umount2, pivot_root, and sync of all file systems. What may be mounted, and by
 * whom, is vfs/mount.c's.
 */
#include <errno.h>
#include "sentry/audit.h"
#include "sentry/file_args.h"
#include "vfs/mount.h"

/* Text that may be absent: NULL stays NULL. */
static int copy_in_text(struct task *t, gaddr_t src, char **out)
{
	*out = NULL;
	return src.a ? copy_in_path(t, src, out) : 0;
}

/* mount(2)'s data: a page of it, or what there is up to the first fault; a text only for our file
 * systems. */
static int copy_in_data(struct task *t, gaddr_t src, char **out)
{
	char *buf;
	ssize_t n;

	*out = NULL;
	if (!src.a)
		return 0;
	buf = mem_zalloc(MOAT_PAGE_SIZE);
	if (!buf)
		return -ENOMEM;
	n = copy_in_partial(t, buf, src, MOAT_PAGE_SIZE - 1);
	if (n < 0) {
		mem_free(buf);
		return (int)n;
	}
	*out = buf;
	return 0;
}

long sys_mount(struct task *t, gaddr_t source, gaddr_t target, gaddr_t fstype, uint64_t flags,
	       gaddr_t data)
{
	char *ktype = NULL, *ksource = NULL, *kdata = NULL, *ktarget = NULL;
	long r = copy_in_text(t, fstype, &ktype);

	if (r == 0)
		r = copy_in_text(t, source, &ksource);
	if (r == 0)
		r = copy_in_data(t, data, &kdata);
	if (r == 0)
		r = copy_in_path(t, target, &ktarget);
	if (r == 0)
		r = vfs_mount(&t->vctx, ksource, ktarget, ktype, flags, kdata);
	if (r == -ENODEV)
		audit_denied(AUDIT_NO_MOUNT, NULL, NULL);
	mem_free(ktype);
	mem_free(ksource);
	mem_free(kdata);
	mem_free(ktarget);
	return r;
}

long sys_umount2(struct task *t, gaddr_t target, int flags)
{
	char *ktarget = NULL;
	long r;

	if (flags & ~(int)(LX_MNT_FORCE | LX_MNT_DETACH | LX_MNT_EXPIRE | LX_UMOUNT_NOFOLLOW))
		return -EINVAL;
	r = copy_in_path(t, target, &ktarget);
	if (r == 0)
		r = vfs_umount(&t->vctx, ktarget, (unsigned)flags);
	mem_free(ktarget);
	return r;
}

long sys_pivot_root(struct task *t, gaddr_t new_root, gaddr_t put_old)
{
	char *knew = NULL, *kold = NULL;
	long r;

	if (!cred_capable(t->vctx.cred, LX_CAP_SYS_ADMIN))
		return -EPERM;
	r = copy_in_path(t, new_root, &knew);
	if (r == 0)
		r = copy_in_path(t, put_old, &kold);
	if (r == 0)
		r = vfs_pivot_root(&t->vctx, knew, kold);
	mem_free(knew);
	mem_free(kold);
	return r;
}

static int sync_mount(struct mount *m, void *arg UNUSED)
{
	/* sync(2) cannot fail. */
	if (m->super->ops && m->super->ops->sync)
		(void)m->super->ops->sync(m->super);
	return 0;
}

long sys_sync(struct task *t)
{
	mount_foreach(t->vctx.ns, sync_mount, NULL);
	return 0;
}
