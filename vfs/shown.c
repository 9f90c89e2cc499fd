/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents that are shown: what a guest may read of an open file without asking.
 *
 * Theory of operation: a platform may answer reads in the guest, out of a mapping (uio_give), as
 * long as nothing has changed that such a read shows or does: the descriptor is the file's, the
 * file has its size, its contents are where they were, its time of access would not move, and
 * nobody watches it. Each inode has a *mark*, a word that the guest's side compares with what it
 * was when the sentry looked (shown_begin); whoever changes one of these things raises the mark
 * first (inode_changes), so that nobody can know of a change and still read as before it. A read
 * that is under way when the mark is raised is one that was made at the same time. Marks are fewer
 * than inodes: two that share one disturb each other, and no more.
 *
 * Who looks reads the mark first, then says so in the inode (shown), then looks, under each thing's
 * lock. Who changes one does so under the same lock: if he came before, his change is seen; if he
 * comes after, he sees that the inode is shown and raises the mark, which was read before. Only
 * when it is raised is the inode shown no longer, since another may change something else of it at
 * that time, under another lock, and needs not raise it then; and only if nobody has begun
 * meanwhile.
 *
 * Descriptors: whatever takes a file out of a table raises the mark (vfs/fdtable.c). Watches and
 * the flags of mounts, which concern many inodes, raise all (shown_end_all); a rename raises the
 * mark of what is renamed, since the watches of another directory count from then on. The time of
 * access moves once a day (relatime): a timer raises all marks then.
 *
 * What an inode gives of another's content (an overlay's lower file, which never changes) ends with
 * all that is shown if the lower changes all the same.
 *
 * Locking: nothing but atomics, and g_until.lock (RANK_MISC) for the timer.
 */
#include "vfs/shown.h"
#include "base/clock.h"
#include "vfs/inode.h"
#include "vfs/inotify.h"

/* inode->shown: SHOWN_NOW, above it the number of beginnings. */
enum { SHOWN_ITSELF = 1, SHOWN_BY_OTHERS = 2, SHOWN_STEP = 4 };
_Static_assert(SHOWN_NOW == (SHOWN_ITSELF | SHOWN_BY_OTHERS), "how it is shown");

static _Atomic uint64_t *g_marks; /* NULL: nothing is shown */
static unsigned g_mark_count;

static struct {
	struct mutex lock;
	_Atomic uint64_t ns; /* monotonic; UINT64_MAX: the timer is not armed. Stored under lock */
	struct timer timer;
} g_until = {.lock = MUTEX_INIT(RANK_MISC), .ns = UINT64_MAX};

static void on_time(struct timer *timer UNUSED)
{
	/* Who looks reads the mark before this. */
	atomic_store(&g_until.ns, UINT64_MAX);
	shown_end_all();
}

void shown_start(_Atomic uint64_t *marks, unsigned count)
{
	if (g_marks)
		timer_cancel_sync(&g_until.timer);
	else
		timer_init(&g_until.timer, on_time);
	atomic_store(&g_until.ns, UINT64_MAX);
	g_marks = marks;
	g_mark_count = count;
}

bool shown_on(void)
{
	return g_marks != NULL;
}

static void end_by(uint64_t ns)
{
	if (ns >= atomic_load(&g_until.ns))
		return;
	mutex_lock(&g_until.lock);
	if (ns < atomic_load(&g_until.ns)) {
		atomic_store(&g_until.ns, ns);
		timer_arm(&g_until.timer, ns);
	}
	mutex_unlock(&g_until.lock);
}

static uint32_t mark_of(const struct inode *i)
{
	/* Guests see which mark it is, so nothing goes into it that they may not know, as where the
	 * inode lies. */
	return (uint32_t)((i->ino * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % g_mark_count;
}

void shown_end(struct inode *i)
{
	unsigned how = atomic_load(&i->shown);

	if (!(how & SHOWN_NOW) || !g_marks)
		return;
	if (how & SHOWN_BY_OTHERS)
		shown_end_all();
	else
		atomic_fetch_add(&g_marks[mark_of(i)], 1);
	(void)!atomic_compare_exchange_strong(&i->shown, &how, how & ~SHOWN_NOW);
}

void shown_end_all(void)
{
	for (unsigned k = 0; g_marks && k < g_mark_count; k++)
		atomic_fetch_add(&g_marks[k], 1);
}

static void begins(struct inode *i, unsigned how)
{
	unsigned was = atomic_load(&i->shown);

	while (!atomic_compare_exchange_weak(&i->shown, &was, (was + SHOWN_STEP) | how))
		continue;
}

void shown_lower(struct inode *lower)
{
	begins(lower, SHOWN_BY_OTHERS);
}

bool shown_begin(struct fdtable *t, int fd, struct file *f, int64_t pos, struct file_view *out)
{
	struct inode *i = f->inode;
	uint64_t until;

	if (!g_marks || !f->ops->view || !LX_S_ISREG(inode_mode(i)))
		return false;
	out->mark = mark_of(i);
	out->value = atomic_load(&g_marks[out->mark]);
	begins(i, SHOWN_ITSELF);
	if (!fd_is(t, fd, f) || inotify_sees(f->path.dentry) || !file_access_known(f, &until) ||
	    !f->ops->view(f, pos, out))
		return false;
	end_by(until);
	return true;
}
