/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System V shared memory.
 *
 * Theory of operation: a segment is a file in memory (vfs/memfd.h) with a key and permissions.
 * Attaching maps the file; each vma of it counts as an attach (so a fork, or a split of the
 * mapping, counts one more, as in Linux). A segment that is removed while it is attached loses its
 * key and goes with the last attach.
 *
 * Deviations from Linux: SHM_LOCK only sets the flag; SHM_HUGETLB finds no huge pages; shm_rss
 * tells what is allocated.
 *
 * Locking: g_shm.lock guards the table and all fields of the segments; files are put after it is
 * released.
 *
 * References: shmget(2), shmop(2), shmctl(2), svipc(7).
 */
#include "sentry/meter_watch.h"
#include "sentry/ipc.h"
#include "sentry/mm_ops.h"
#include "sentry/syscall.h"
#include "vfs/memfd.h"
#include "vfs/pseudofs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SHM_RDONLY_ 010000
#define SHM_RND_ 020000
#define SHM_REMAP_ 040000
#define SHM_EXEC_ 0100000
#define SHM_HUGETLB_ 04000
#define SHM_LOCK_ 11
#define SHM_UNLOCK_ 12
#define SHM_STAT_ 13
#define SHM_INFO_ 14
#define SHM_STAT_ANY_ 15

#define MODE_DEST 01000u
#define MODE_LOCKED 02000u

#define SHMMNI 4096
#define SHMMAX (UINT64_MAX - (1ull << 24))
#define SHMALL (UINT64_MAX - (1ull << 24))

struct shm_segment {
	struct ipc_perm perm; /* first: the table holds pointers to it */
	uint64_t size;
	struct file *file;           /* a reference */
	uint64_t attaches;           /* vmas, and calls that are about to make one */
	int64_t atime, dtime, ctime; /* seconds */
	int32_t cpid, lpid;
};

static struct ipc_ids g_shm = IPC_IDS_INIT(SHMMNI);
static uint64_t g_shm_pages; /* of all segments. [g_shm.lock] */

struct lx_shmid_ds {
	struct lx_ipc_perm perm;
	uint64_t segsz;
	int64_t atime, dtime, ctime;
	int32_t cpid, lpid;
	uint64_t nattch, unused[2];
};
_Static_assert(sizeof(struct lx_shmid_ds) == 112, "struct shmid64_ds");

struct lx_shminfo {
	uint64_t shmmax, shmmin, shmmni, shmseg, shmall, unused[4];
};
_Static_assert(sizeof(struct lx_shminfo) == 72, "struct shminfo64");

struct lx_shm_info {
	int32_t used_ids, pad;
	uint64_t tot, rss, swp, swap_attempts, swap_successes;
};
_Static_assert(sizeof(struct lx_shm_info) == 48, "struct shm_info");

static int64_t now_seconds(void)
{
	return (int64_t)(clock_real_ns() / NSEC_PER_SEC);
}

static struct shm_segment *segment_of(struct ipc_perm *p)
{
	return (struct shm_segment *)p;
}

/* Out of the table; the caller frees it after the lock is released. */
static void remove_locked(struct shm_segment *s) REQUIRES(g_shm.lock)
{
	ipc_remove_locked(&g_shm, &s->perm);
	g_shm_pages -= page_up(s->size) >> PAGE_SHIFT;
}

static void segment_free(struct shm_segment *s)
{
	if (!s)
		return;
	file_put(s->file);
	mem_free(s);
}

/* ---- shmget ---- */

static int segment_new(struct task *t, int key, uint64_t size, int flags, struct shm_segment **out)
{
	struct shm_segment *s;
	char name[40];
	int r;

	if (size < 1 || size > SHMMAX)
		return -EINVAL;
	if (flags & SHM_HUGETLB_)
		return cred_capable(t->vctx.cred, LX_CAP_IPC_LOCK) ? -ENOMEM : -EPERM;
	if (memory_might_exceed(size) && !meter_watch_allows(size))
		return -ENOMEM;
	s = mem_zalloc(sizeof(*s));
	if (!s)
		return -ENOMEM;
	snprintf(name, sizeof(name), "/SYSV%08x (deleted)", (unsigned)key);
	r = page_up(size) < size ? -ENOSPC : shmem_new(size, name, &s->file);
	if (r) {
		mem_free(s);
		return r == -EFBIG ? -ENOMEM : r;
	}
	s->perm.key = key;
	s->perm.mode = (uint32_t)flags & 0777;
	s->size = size;
	s->ctime = now_seconds();
	s->cpid = t->tg->tgid;
	*out = s;
	return 0;
}

/* An existing segment for shmget: its id or -errno. */
static int use_existing(struct task *t, struct ipc_perm *p, uint64_t size, int flags)
	REQUIRES(g_shm.lock)
{
	int r;

	if ((flags & LX_IPC_CREAT) && (flags & LX_IPC_EXCL))
		return -EEXIST;
	if (segment_of(p)->size < size)
		return -EINVAL;
	r = ipc_check(t, p, (uint32_t)flags & 0777);
	return r ? r : p->id;
}

long sys_shmget(struct task *t, int key, uint64_t size, int flags)
{
	struct shm_segment *s = NULL;
	struct ipc_perm *p = NULL;
	int r;

	if (key != LX_IPC_PRIVATE) {
		mutex_lock(&g_shm.lock);
		p = ipc_find_key_locked(&g_shm, key);
		r = p ? use_existing(t, p, size, flags) : -ENOENT;
		mutex_unlock(&g_shm.lock);
		if (p || !(flags & LX_IPC_CREAT))
			return r;
	}
	r = segment_new(t, key, size, flags, &s);
	if (r)
		return r;
	mutex_lock(&g_shm.lock);
	/* Another may have made it while we were at it. */
	if (key != LX_IPC_PRIVATE)
		p = ipc_find_key_locked(&g_shm, key);
	r = p ? use_existing(t, p, size, flags) : ipc_add_locked(&g_shm, &s->perm, t);
	if (!p && r >= 0) {
		g_shm_pages += page_up(size) >> PAGE_SHIFT;
		s = NULL;
	}
	mutex_unlock(&g_shm.lock);
	segment_free(s);
	return r;
}

/* ---- attaches ---- */

void shm_vma_get(struct shm_segment *s)
{
	mutex_lock(&g_shm.lock);
	s->attaches++;
	mutex_unlock(&g_shm.lock);
}

/* @detached: by somebody who had it attached, which is told by its times. */
static void segment_put(struct shm_segment *s, bool detached)
{
	struct task *t = current_task();
	bool gone;

	mutex_lock(&g_shm.lock);
	if (detached) {
		s->dtime = now_seconds();
		if (t)
			s->lpid = t->tg->tgid;
	}
	gone = --s->attaches == 0 && (s->perm.mode & MODE_DEST);
	if (gone)
		remove_locked(s);
	mutex_unlock(&g_shm.lock);
	if (gone)
		segment_free(s);
}

void shm_vma_put(struct shm_segment *s)
{
	segment_put(s, true);
}

static int attach_begin(struct task *t, int shmid, uint32_t mode, struct shm_segment **out)
{
	struct ipc_perm *p;
	int r;

	mutex_lock(&g_shm.lock);
	r = ipc_find_locked(&g_shm, shmid, &p);
	if (r == 0)
		r = ipc_check(t, p, mode);
	if (r == 0) {
		*out = segment_of(p);
		(*out)->attaches++;
	}
	mutex_unlock(&g_shm.lock);
	return r;
}

long sys_shmat(struct task *t, int shmid, uint64_t addr, int flags)
{
	uint32_t prot = LX_PROT_READ, mode = 0444;
	struct shm_segment *s;
	long r;

	if (shmid < 0)
		return -EINVAL;
	if (addr % MOAT_PAGE_SIZE) {
		if (!(flags & SHM_RND_))
			return -EINVAL;
		addr = page_down(addr);
		if (!addr && (flags & SHM_REMAP_))
			return -EINVAL;
	} else if (!addr && (flags & SHM_REMAP_)) {
		return -EINVAL;
	}
	if (!(flags & SHM_RDONLY_)) {
		prot |= LX_PROT_WRITE;
		mode |= 0222;
	}
	if (flags & SHM_EXEC_) {
		prot |= LX_PROT_EXEC;
		mode |= 0111;
	}
	r = attach_begin(t, shmid, mode, &s);
	if (r)
		return r;
	/* The vma's. Ours is until we are through: another thread may unmap it at once. */
	shm_vma_get(s);
	r = mm_map_segment(t, addr, page_up(s->size), prot, flags & SHM_REMAP_, s->file, s);
	if (r < 0) {
		segment_put(s, false);
	} else {
		mutex_lock(&g_shm.lock);
		s->atime = now_seconds();
		s->lpid = t->tg->tgid;
		mutex_unlock(&g_shm.lock);
	}
	segment_put(s, false);
	return r;
}

/* Unmaps the segment that was attached at @addr: all vmas that still show a part of it in its
 * place. */
static int detach_locked(struct task *t, struct mm *mm, uint64_t addr, struct vma_list *dead)
	REQUIRES(mm->lock)
{
	struct shm_segment *s = NULL;
	struct vma *v, *next;
	uint64_t end = 0;

	for (v = mm_find(mm, addr); v; v = next) {
		int r;

		next = mm_next(v);
		if (s && v->start >= end)
			break;
		if (!(v->flags & VMA_SYSV) || (s && v->sysv != s) || v->start - addr != v->offset)
			continue;
		if (!s) {
			s = v->sysv;
			end = addr + page_up(s->size);
		}
		r = mm_unmap_locked(t, mm, v->start, v->end, dead);
		if (r)
			return r;
	}
	return s ? 0 : -EINVAL;
}

long sys_shmdt(struct task *t, uint64_t addr)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	int r;

	if (addr % MOAT_PAGE_SIZE)
		return -EINVAL;
	fmutex_lock(&mm->lock);
	r = detach_locked(t, mm, addr, &dead);
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	return r;
}

/* ---- shmctl ---- */

static void fill_ds(const struct shm_segment *s, struct lx_shmid_ds *d)
{
	memset(d, 0, sizeof(*d));
	ipc_perm_to_lx(&s->perm, &d->perm);
	d->segsz = s->size;
	d->atime = s->atime;
	d->dtime = s->dtime;
	d->ctime = s->ctime;
	d->cpid = s->cpid;
	d->lpid = s->lpid;
	d->nattch = s->attaches;
}

static long ctl_stat(struct task *t, int shmid, int cmd, gaddr_t buf)
{
	struct lx_shmid_ds d;
	struct ipc_perm *p;
	long r = 0;

	mutex_lock(&g_shm.lock);
	if (cmd == LX_IPC_STAT) {
		r = ipc_find_locked(&g_shm, shmid, &p);
	} else {
		p = ipc_at_locked(&g_shm, (unsigned)shmid & ((1u << IPC_INDEX_BITS) - 1));
		r = p ? p->id : -EINVAL;
	}
	if (r >= 0 && cmd != SHM_STAT_ANY_) {
		int err = ipc_check(t, p, 0444);

		r = err ? err : r;
	}
	if (r >= 0)
		fill_ds(segment_of(p), &d);
	mutex_unlock(&g_shm.lock);
	if (r >= 0 && copy_out(t, buf, &d, sizeof(d)))
		return -EFAULT;
	return r;
}

static long ctl_info(struct task *t, int cmd, gaddr_t buf)
{
	struct lx_shminfo limits = {.shmmax = SHMMAX,
				    .shmmin = 1,
				    .shmmni = SHMMNI,
				    .shmseg = SHMMNI,
				    .shmall = SHMALL};
	struct lx_shm_info now = {0};
	int highest;

	mutex_lock(&g_shm.lock);
	now.used_ids = (int32_t)g_shm.used;
	now.tot = now.rss = g_shm_pages;
	highest = ipc_highest_locked(&g_shm);
	mutex_unlock(&g_shm.lock);
	if (cmd == LX_IPC_INFO ? copy_out(t, buf, &limits, sizeof(limits))
			       : copy_out(t, buf, &now, sizeof(now)))
		return -EFAULT;
	return MAX(highest, 0);
}

static int set_locked(struct task *t, struct shm_segment *s, int cmd, const struct lx_shmid_ds *d)
	REQUIRES(g_shm.lock)
{
	int r = ipc_check_owner(t, &s->perm);

	if (r)
		return r;
	if (cmd == LX_IPC_SET) {
		r = ipc_perm_set(&s->perm, &d->perm);
		if (r == 0)
			s->ctime = now_seconds();
		return r;
	}
	/* Removal: at once, or with the last attach. */
	if (s->attaches) {
		s->perm.mode |= MODE_DEST;
		s->perm.key = LX_IPC_PRIVATE;
		return 0;
	}
	remove_locked(s);
	return 1;
}

static long ctl_change(struct task *t, int shmid, int cmd, gaddr_t buf)
{
	struct shm_segment *s = NULL;
	struct lx_shmid_ds d;
	struct ipc_perm *p;
	int r;

	if (cmd == LX_IPC_SET && copy_in(t, &d, buf, sizeof(d)))
		return -EFAULT;
	mutex_lock(&g_shm.lock);
	r = ipc_find_locked(&g_shm, shmid, &p);
	if (r == 0) {
		s = segment_of(p);
		r = set_locked(t, s, cmd, &d);
	}
	mutex_unlock(&g_shm.lock);
	if (r == 1) {
		segment_free(s);
		r = 0;
	}
	return r;
}

static long ctl_lock(struct task *t, int shmid, bool lock)
{
	const struct cred *c = t->vctx.cred;
	struct ipc_perm *p;
	int r;

	mutex_lock(&g_shm.lock);
	r = ipc_find_locked(&g_shm, shmid, &p);
	if (r == 0 && !cred_capable(c, LX_CAP_IPC_LOCK)) {
		if (c->euid != p->uid && c->euid != p->cuid)
			r = -EPERM;
		else if (lock && rlimit_get(t->tg, LX_RLIMIT_MEMLOCK) == 0)
			r = -EPERM;
	}
	if (r == 0)
		p->mode = lock ? p->mode | MODE_LOCKED : p->mode & ~MODE_LOCKED;
	mutex_unlock(&g_shm.lock);
	return r;
}

long sys_shmctl(struct task *t, int shmid, int cmd, gaddr_t buf)
{
	if (cmd < 0 || shmid < 0)
		return -EINVAL;
	switch (cmd) {
	case LX_IPC_INFO:
	case SHM_INFO_:
		return ctl_info(t, cmd, buf);
	case LX_IPC_STAT:
	case SHM_STAT_:
	case SHM_STAT_ANY_:
		return ctl_stat(t, shmid, cmd, buf);
	case LX_IPC_SET:
	case LX_IPC_RMID:
		return ctl_change(t, shmid, cmd, buf);
	case SHM_LOCK_:
	case SHM_UNLOCK_:
		return ctl_lock(t, shmid, cmd == SHM_LOCK_);
	default:
		return -EINVAL;
	}
}

void ipc_shm_show(struct textbuf *out)
{
	text_printf(out, "       key      shmid perms                  size  cpid  lpid nattch   "
			 "uid   gid  cuid "
			 " cgid      atime      dtime      ctime                   rss             "
			 "     swap\n");
	mutex_lock(&g_shm.lock);
	for (int i = 0; i <= ipc_highest_locked(&g_shm); i++) {
		struct ipc_perm *p = ipc_at_locked(&g_shm, (unsigned)i);
		struct shm_segment *s = p ? segment_of(p) : NULL;

		if (!s)
			continue;
		text_printf(out,
			    "%10d %10d  %4o %21lu %5d %5d  %5lu %5u %5u %5u %5u %10lu %10lu %10lu "
			    "%21lu "
			    "%21lu\n",
			    p->key, p->id, p->mode, s->size, s->cpid, s->lpid, s->attaches, p->uid,
			    p->gid, p->cuid, p->cgid, (uint64_t)s->atime, (uint64_t)s->dtime,
			    (uint64_t)s->ctime, page_up(s->size), (uint64_t)0);
	}
	mutex_unlock(&g_shm.lock);
}
