/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memfd_create, seals, shared memory. See memfd.h.
 *
 * Theory of operation: one hidden tmpfs instance holds them all; they have no name, so the open
 * file's dentry is their only owner. Every tmpfs inode has seals: those of files with a name are
 * F_SEAL_SEAL from birth, as in Linux.
 *
 * Sealing against writes and counting of writable mappings meet in one number, tnode.map_writers:
 * the seal goes in only where it is 0, and turns it negative, which refuses all mappings to come.
 */
#include "vfs/memfd.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "vfs/tmpfs_node.h"

#define MFD_KNOWN \
	(LX_MFD_CLOEXEC | LX_MFD_ALLOW_SEALING | LX_MFD_HUGETLB | LX_MFD_NOEXEC_SEAL | LX_MFD_EXEC)
#define SEALS_KNOWN                                                             \
	(LX_F_SEAL_SEAL | LX_F_SEAL_SHRINK | LX_F_SEAL_GROW | LX_F_SEAL_WRITE | \
	 LX_F_SEAL_FUTURE_WRITE | LX_F_SEAL_EXEC)

static const struct super_ops g_shm_super_ops = {
	.shutdown = tmpfs_shutdown,
	.free = tmpfs_super_free,
	.statfs = tmpfs_statfs,
	.inode_free = tmpfs_inode_free,
};

static struct super *g_shm;
static pthread_once_t g_shm_once = PTHREAD_ONCE_INIT;

static void shm_init(void)
{
	/* The memory of the sandbox is limited elsewhere; this one only stops what could never
	 * work. */
	struct tmpfs_opts o = {.size = UINT64_MAX, .nr_inodes = UINT64_MAX};

	if (tmpfs_super_new(&g_tmpfs_type, &g_shm_super_ops, &o, &g_shm) < 0)
		panic("no memory for the shared memory file system");
}

static int shm_file(struct vfs_ctx *c, const char *name, uint32_t mode, uint64_t size, bool backed,
		    struct file **out)
{
	struct cred *root = NULL;
	struct inode *i;
	struct vfs_ctx kernel;
	int r;

	pthread_once(&g_shm_once, shm_init);
	if (!c) {
		root = cred_new(0, 0, 0);
		if (!root)
			return -ENOMEM;
		kernel = (struct vfs_ctx){.cred = root, .fsize_limit = UINT64_MAX};
		c = &kernel;
	}
	r = tmpfs_inode_new(g_shm, LX_S_IFREG | mode, 0, true, &i);
	if (r < 0)
		goto out;
	inode_init_owner(c, i, NULL, LX_S_IFREG | mode);
	i->nlink = 0;
	if (backed) {
		struct tmpfs_data *d = &tnode_of(i)->data;

		r = size > TMPFS_MAX_SIZE ? -ENOMEM : tmpfs_data_init_memfd(d, page_up(size));
		tmpfs_sync_size(i);
		if (r < 0) {
			inode_put(i);
			goto out;
		}
	}
	*out = file_new_anon(c, i, name, &g_tmpfs_file_fops, FMODE_READ | FMODE_WRITE,
			     LX_O_RDWR | LX_O_LARGEFILE, NULL);
	r = *out ? 0 : file_new_error();
out:
	if (root)
		cred_put(root);
	return r;
}

int memfd_create_file(struct vfs_ctx *c, const char *name, unsigned flags, struct file **out)
{
	char shown[LX_MFD_NAME_MAX + 32];
	int r;

	if (flags & ~MFD_KNOWN) {
		/* A size of huge pages may stand in the high bits with MFD_HUGETLB. */
		if (!(flags & LX_MFD_HUGETLB) || (flags & ~(MFD_KNOWN | 0xfc000000u)))
			return -EINVAL;
	}
	if ((flags & LX_MFD_EXEC) && (flags & LX_MFD_NOEXEC_SEAL))
		return -EINVAL;
	if (strlen(name) > LX_MFD_NAME_MAX)
		return -EINVAL;
	if (flags & LX_MFD_HUGETLB)
		return -ENOSYS; /* as a kernel without hugetlbfs */
	snprintf(shown, sizeof(shown), "/memfd:%s (deleted)", name);
	r = shm_file(c, shown, flags & LX_MFD_NOEXEC_SEAL ? 0666 : 0777, 0, false, out);
	if (r == 0) {
		unsigned seals = LX_F_SEAL_SEAL;

		if (flags & LX_MFD_NOEXEC_SEAL)
			seals = LX_F_SEAL_EXEC;
		else if (flags & LX_MFD_ALLOW_SEALING)
			seals = 0;
		atomic_store(&tnode_of((*out)->inode)->seals, seals);
	}
	return r;
}

int shmem_new(uint64_t size, const char *name, struct file **out)
{
	return shm_file(NULL, name, 0777, size, true, out);
}

static bool sealable(const struct file *f)
{
	return tmpfs_is(f->inode) && LX_S_ISREG(inode_mode(f->inode)) &&
	       !tnode_of(f->inode)->sb->lower;
}

int memfd_add_seals(struct file *f, unsigned seals)
{
	struct inode *i = f->inode;
	int r = 0;

	if (!(f->fmode & FMODE_WRITE))
		return -EPERM;
	if (seals & ~SEALS_KNOWN)
		return -EINVAL;
	if (!sealable(f))
		return -EINVAL;
	struct tnode *t = tnode_of(i);

	fmutex_lock(&i->lock);
	unsigned old = atomic_load(&t->seals);

	if (old & LX_F_SEAL_SEAL) {
		r = -EPERM;
		goto out;
	}
	/* A program that can no longer become writable may as well not change either. */
	if ((seals & LX_F_SEAL_EXEC) && (inode_mode(i) & 0111))
		seals |= LX_F_SEAL_SHRINK | LX_F_SEAL_GROW | LX_F_SEAL_WRITE |
			 LX_F_SEAL_FUTURE_WRITE;
	if ((seals & LX_F_SEAL_WRITE) && !(old & LX_F_SEAL_WRITE)) {
		int32_t none = 0;

		if (!atomic_compare_exchange_strong(&t->map_writers, &none, INT32_MIN)) {
			r = -EBUSY;
			goto out;
		}
	}
	atomic_store(&t->seals, old | seals);
out:
	fmutex_unlock(&i->lock);
	return r;
}

int memfd_get_seals(struct file *f)
{
	return sealable(f) ? (int)atomic_load(&tnode_of(f->inode)->seals) : -EINVAL;
}

int memfd_map_write_get(struct file *f)
{
	if (!tmpfs_is(f->inode) || !LX_S_ISREG(inode_mode(f->inode)))
		return 0;
	struct tnode *t = tnode_of(f->inode);
	int32_t n = atomic_load(&t->map_writers);

	do {
		if (n < 0)
			return -EPERM;
	} while (!atomic_compare_exchange_weak(&t->map_writers, &n, n + 1));
	return 0;
}

void memfd_map_write_put(struct file *f)
{
	if (!tmpfs_is(f->inode) || !LX_S_ISREG(inode_mode(f->inode)))
		return;
	int32_t old = atomic_fetch_sub(&tnode_of(f->inode)->map_writers, 1);

	BUG_ON(old <= 0);
}

int tmpfs_seal_check_resize(const struct tnode *t, uint64_t old_size, uint64_t new_size)
{
	unsigned seals = atomic_load(&t->seals);

	if ((new_size < old_size && (seals & LX_F_SEAL_SHRINK)) ||
	    (new_size > old_size && (seals & LX_F_SEAL_GROW)))
		return -EPERM;
	return 0;
}

int tmpfs_seal_check_write(const struct tnode *t)
{
	return atomic_load(&t->seals) & (LX_F_SEAL_WRITE | LX_F_SEAL_FUTURE_WRITE) ? -EPERM : 0;
}
