/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes, read: the stat family, statx, the statfs family.
 */
#include <errno.h>
#include <string.h>
#include "sentry/file_args.h"
#include "vfs/mount.h"

#define LX_AT_STATX_SYNC_TYPE 0x6000
#define LX_AT_STAT_KNOWN \
	(LX_AT_SYMLINK_NOFOLLOW | LX_AT_NO_AUTOMOUNT | LX_AT_EMPTY_PATH | LX_AT_STATX_SYNC_TYPE)

#define LX_STATX_BASIC_STATS 0x7ffu
#define LX_STATX_BTIME 0x800u
#define LX_STATX_MNT_ID 0x1000u
#define LX_STATX_RESERVED 0x80000000u
#define LX_STATX_ATTR_MOUNT_ROOT 0x2000u

struct lx_statx_timestamp {
	int64_t tv_sec;
	uint32_t tv_nsec;
	int32_t pad;
};

struct lx_statx {
	uint32_t stx_mask, stx_blksize;
	uint64_t stx_attributes;
	uint32_t stx_nlink, stx_uid, stx_gid;
	uint16_t stx_mode, pad0;
	uint64_t stx_ino, stx_size, stx_blocks, stx_attributes_mask;
	struct lx_statx_timestamp stx_atime, stx_btime, stx_ctime, stx_mtime;
	uint32_t stx_rdev_major, stx_rdev_minor, stx_dev_major, stx_dev_minor;
	uint64_t stx_mnt_id;
	uint32_t stx_dio_mem_align, stx_dio_offset_align;
	uint64_t spare[12];
};
_Static_assert(sizeof(struct lx_statx) == 256, "struct statx");

struct lx_statfs {
	int64_t f_type, f_bsize;
	uint64_t f_blocks, f_bfree, f_bavail, f_files, f_ffree;
	int32_t f_fsid[2];
	int64_t f_namelen, f_frsize, f_flags, f_spare[4];
};
_Static_assert(sizeof(struct lx_statfs) == 120, "struct statfs of x86-64");

struct lx_ustat {
	int32_t f_tfree;
	uint64_t f_tinode;
	char f_fname[6], f_fpack[6];
};
_Static_assert(sizeof(struct lx_ustat) == 32, "struct ustat of x86-64");

/* ---- stat ---- */

/* The attributes of what (dirfd, name, AT_* flags) means. */
static int stat_at(struct task *t, int dirfd, gaddr_t filename, int flags, struct kstat *st)
{
	enum at_empty empty = flags & LX_AT_EMPTY_PATH ? AT_EMPTY_NULL : AT_EMPTY_NO;
	struct path p;
	char first;
	int r;

	/* fstat(2) of libc comes as an empty name: no buffer, no walk. */
	if (empty == AT_EMPTY_NULL && dirfd >= 0 &&
	    (!filename.a || (copy_in(t, &first, filename, 1) == 0 && first == '\0'))) {
		struct file *f = fd_get(t->files, dirfd);

		if (!f)
			return -EBADF;
		r = vfs_getattr(&f->path, st);
		file_put(f);
		return r;
	}
	r = at_path_lookup(t, dirfd, filename, empty,
			   flags & LX_AT_SYMLINK_NOFOLLOW ? 0 : WALK_FOLLOW, &p);
	if (r < 0)
		return r;
	r = vfs_getattr(&p, st);
	path_put(&p);
	return r;
}

static long stat_out(struct task *t, gaddr_t statbuf, const struct kstat *st)
{
	struct lx_stat lx;

	kstat_to_lx(st, &lx);
	return copy_out(t, statbuf, &lx, sizeof(lx));
}

long sys_stat(struct task *t, gaddr_t filename, gaddr_t statbuf)
{
	struct kstat st;
	int r = stat_at(t, LX_AT_FDCWD, filename, 0, &st);

	return r < 0 ? r : stat_out(t, statbuf, &st);
}

long sys_lstat(struct task *t, gaddr_t filename, gaddr_t statbuf)
{
	struct kstat st;
	int r = stat_at(t, LX_AT_FDCWD, filename, LX_AT_SYMLINK_NOFOLLOW, &st);

	return r < 0 ? r : stat_out(t, statbuf, &st);
}

long sys_fstat(struct task *t, int fd, gaddr_t statbuf)
{
	struct file *f = fd_get(t->files, fd);
	struct kstat st;
	int r;

	if (!f)
		return -EBADF;
	r = vfs_getattr(&f->path, &st);
	file_put(f);
	return r < 0 ? r : stat_out(t, statbuf, &st);
}

long sys_newfstatat(struct task *t, int dirfd, gaddr_t filename, gaddr_t statbuf, int flag)
{
	struct kstat st;
	int r;

	if (flag & ~LX_AT_STAT_KNOWN)
		return -EINVAL;
	r = stat_at(t, dirfd, filename, flag, &st);
	return r < 0 ? r : stat_out(t, statbuf, &st);
}

static struct lx_statx_timestamp statx_time(int64_t ns)
{
	int64_t sec = ns / (int64_t)NSEC_PER_SEC, rest = ns % (int64_t)NSEC_PER_SEC;

	if (rest < 0) {
		sec--;
		rest += (int64_t)NSEC_PER_SEC;
	}
	return (struct lx_statx_timestamp){.tv_sec = sec, .tv_nsec = (uint32_t)rest};
}

static uint32_t dev_major(uint64_t dev)
{
	return (uint32_t)((dev >> 8) & 0xfff) | (uint32_t)((dev >> 32) & ~(uint64_t)0xfff);
}

static uint32_t dev_minor(uint64_t dev)
{
	return (uint32_t)(dev & 0xff) | (uint32_t)((dev >> 12) & ~(uint64_t)0xff);
}

long sys_statx(struct task *t, int dirfd, gaddr_t filename, unsigned flags, unsigned mask,
	       gaddr_t buffer)
{
	struct lx_statx x = {0};
	struct kstat st;
	int r;

	if (mask & LX_STATX_RESERVED)
		return -EINVAL;
	if ((flags & LX_AT_STATX_SYNC_TYPE) == LX_AT_STATX_SYNC_TYPE)
		return -EINVAL;
	if (flags & ~(unsigned)LX_AT_STAT_KNOWN)
		return -EINVAL;
	r = stat_at(t, dirfd, filename, (int)flags, &st);
	if (r < 0)
		return r;
	x.stx_mask = LX_STATX_BASIC_STATS | LX_STATX_MNT_ID | (st.btime ? LX_STATX_BTIME : 0);
	x.stx_blksize = st.blksize;
	x.stx_attributes = st.attributes;
	x.stx_attributes_mask = st.attributes_mask | LX_STATX_ATTR_MOUNT_ROOT;
	x.stx_nlink = st.nlink;
	x.stx_uid = st.uid;
	x.stx_gid = st.gid;
	x.stx_mode = (uint16_t)st.mode;
	x.stx_ino = st.ino;
	x.stx_size = st.size;
	x.stx_blocks = st.blocks;
	x.stx_atime = statx_time(st.atime);
	x.stx_btime = statx_time(st.btime);
	x.stx_ctime = statx_time(st.ctime);
	x.stx_mtime = statx_time(st.mtime);
	x.stx_rdev_major = dev_major(st.rdev);
	x.stx_rdev_minor = dev_minor(st.rdev);
	x.stx_dev_major = dev_major(st.dev);
	x.stx_dev_minor = dev_minor(st.dev);
	x.stx_mnt_id = st.mnt_id;
	return copy_out(t, buffer, &x, sizeof(x));
}

/* ---- statfs ---- */

static long statfs_out(struct task *t, const struct path *p, gaddr_t buf)
{
	struct kstatfs k;
	struct lx_statfs s = {0};
	int r = vfs_statfs(p, &k);

	if (r < 0)
		return r;
	s.f_type = (int64_t)k.type;
	s.f_bsize = (int64_t)k.bsize;
	s.f_blocks = k.blocks;
	s.f_bfree = k.bfree;
	s.f_bavail = k.bavail;
	s.f_files = k.files;
	s.f_ffree = k.ffree;
	s.f_fsid[0] = (int32_t)p->dentry->inode->super->dev;
	s.f_namelen = (int64_t)k.namelen;
	s.f_frsize = (int64_t)(k.frsize ? k.frsize : k.bsize);
	s.f_flags = (int64_t)k.flags;
	return copy_out(t, buf, &s, sizeof(s));
}

long sys_statfs(struct task *t, gaddr_t pathname, gaddr_t buf)
{
	struct path p;
	long r = at_path_lookup(t, LX_AT_FDCWD, pathname, AT_EMPTY_NO, WALK_FOLLOW, &p);

	if (r < 0)
		return r;
	r = statfs_out(t, &p, buf);
	path_put(&p);
	return r;
}

long sys_fstatfs(struct task *t, int fd, gaddr_t buf)
{
	struct file *f = fd_get(t->files, fd);
	long r;

	if (!f)
		return -EBADF;
	r = statfs_out(t, &f->path, buf);
	file_put(f);
	return r;
}

struct ustat_search {
	uint64_t dev;
	struct path found; /* references */
};

static int ustat_match(struct mount *m, void *arg)
{
	struct ustat_search *s = arg;

	if (m->super->dev != s->dev)
		return 0;
	s->found = (struct path){m, m->root};
	path_get(&s->found);
	return 1;
}

long sys_ustat(struct task *t, unsigned dev, gaddr_t ubuf)
{
	struct ustat_search s = {
		.dev = lx_makedev((dev & 0xfff00) >> 8, (dev & 0xff) | ((dev >> 12) & 0xfff00))};
	struct lx_ustat u = {0};
	struct kstatfs k;
	int r;

	if (!mount_foreach(t->vctx.ns, ustat_match, &s))
		return -EINVAL;
	r = vfs_statfs(&s.found, &k);
	path_put(&s.found);
	if (r < 0)
		return r;
	u.f_tfree = (int32_t)k.bfree;
	u.f_tinode = k.ffree;
	return copy_out(t, ubuf, &u, sizeof(u));
}
