/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs: what is known by watches (vfs/host_watch.h).
 *
 * Theory of operation: a directory is marked when names in it were asked for in vain some times, a
 * file or symlink when it was itself; both only in file systems that report all. That a name leads
 * to an inode is known if its directory is marked, and what the inode is if it is, too; both are
 * told by one question and kept as one. So a walk through marked directories asks nothing, nor does
 * a stat at its end. Not kept are a directory's own attributes (all that is done below it changes
 * them) but for its mode and owners, and what is open: its guest sees the content, where a change
 * shows before it is reported.
 *
 * A file can be marked only by its name, which may be another's for a moment. So the name must
 * have been its own before, in the same generation, and after: had it led elsewhere in between it
 * would have changed twice, and the first change was reported, at the latest, when the second
 * began.
 *
 * Where a guest makes changes itself, the mark goes, and becomes due later each time.
 *
 * Locking: none. What is known is taken back by others at any time (hostfs_watch_forget) only for a
 * change that also ends the generation, or an open, which is looked for once more after.
 */
#include "base/lx_fcntl.h"
#include "vfs/dcache.h"
#include "vfs/host_watch.h"
#include "vfs/hostfs_node.h"

#define DIR_DUE 8u
#define FILE_DUE 1u
#define DUE_MAX 20000u

/* That watch. */
static _Atomic unsigned g_instances;

void hostfs_watch_begin(void)
{
	atomic_fetch_add(&g_instances, 1);
	host_watch_open_queue();
}

bool hostfs_may_watch(uint64_t magic)
{
	static const uint32_t local[] = {
		0xef53,     /* ext4 */ 0x58465342, /* xfs */ 0x9123683e, /* btrfs */
		0xf2f52010, /* f2fs */ 0x01021994,                       /* tmpfs */
	};

	for (size_t n = 0; n < ARRAY_SIZE(local); n++)
		if (local[n] == magic)
			return true;
	return false;
}

static bool holds(const struct hnode *h)
{
	const uint64_t generation = atomic_load(&h->watch.generation);

	return generation != 0 && host_watch_holds(generation, atomic_load(&h->watch.told));
}

bool hostfs_watch_has_name(const struct dentry *d)
{
	const struct inode *i = dentry_inode(d);

	return i && atomic_load(&hnode_of(i)->watch.name) == d && holds(hnode_of(i));
}

bool hostfs_watch_seen(const struct hnode *h)
{
	return holds(h);
}

bool hostfs_watch_known(const struct hnode *h)
{
	return atomic_load(&h->watch.generation) != 0 && !LX_S_ISDIR(inode_mode(h->inode)) &&
	       host_watch_now() != 0 && holds(h);
}

void hostfs_watch_forget(struct hnode *h)
{
	atomic_store(&h->watch.generation, 0);
}

void hostfs_watch_wrong(const struct hnode *h)
{
	const uint64_t generation = atomic_load(&h->watch.generation);

	/* Of what an older generation knew nothing is kept anyway. */
	if (generation != 0 && generation == host_watch_generation())
		host_watch_differs();
}

static void keep(struct hnode *h, const struct dentry *d, uint64_t generation)
{
	struct hnode_watch *w = &h->watch;

	atomic_store(&w->generation, 0);
	atomic_store(&w->name, d);
	atomic_store(&w->told, __builtin_ia32_rdtsc());
	atomic_store(&w->generation, generation);
	/* Who opens it meanwhile counts first, and forgets then. */
	if (atomic_load(&h->opens) != 0)
		hostfs_watch_forget(h);
}

/* Is a mark due, now that the host is asked once more? */
static bool is_due(struct hnode *h, unsigned normal)
{
	struct hnode_watch *w = &h->watch;
	const unsigned due = MAX(atomic_load_explicit(&w->due, memory_order_relaxed), normal);
	const unsigned asked = atomic_load_explicit(&w->asked, memory_order_relaxed) + 1u;

	atomic_store_explicit(&w->asked, (uint16_t)(asked < due ? asked : 0), memory_order_relaxed);
	return asked >= due;
}

/* The next mark of it shall come later, if at all. */
static void put_off(struct hnode *h, unsigned times)
{
	struct hnode_watch *w = &h->watch;
	const unsigned due = MAX(atomic_load_explicit(&w->due, memory_order_relaxed), DIR_DUE);

	atomic_store_explicit(&w->due, (uint16_t)MIN(due * times, DUE_MAX), memory_order_relaxed);
}

/* A mark that is placed while somebody takes it away may be none: then it does not count. */
static bool may_mark(const struct hnode *h, unsigned *stops)
{
	*stops = atomic_load(&h->watch.stops);
	return atomic_load(&h->watch.stopping) == 0;
}

static void set_marked(struct hnode *h, unsigned stops)
{
	if (atomic_load(&h->watch.stopping) == 0 && atomic_load(&h->watch.stops) == stops)
		atomic_store(&h->watch.marked, true);
}

static bool mark(struct hnode *h, int fd, const char *name, bool directory)
{
	if (host_watch_add(fd, name, directory) == 0)
		return true;
	put_off(h, 16);
	return false;
}

/* Is it a file that shall be marked, and was the name its own once in this generation? */
static bool wants_mark(const struct hnode_ask *a)
{
	struct hnode *h = a->h;

	return a->generation != 0 && !LX_S_ISDIR(inode_mode(h->inode)) &&
	       atomic_load(&h->watch.named) == a->generation && atomic_load(&h->opens) == 0 &&
	       is_due(h, FILE_DUE);
}

void hostfs_watch_ask(struct hnode_ask *a, int fd)
{
	/* In this order: what is told in a generation is told after the marks were placed. */
	a->marked = atomic_load(&a->h->watch.marked);
	a->generation = atomic_load(&a->dir->watch.marked) ? host_watch_now() : 0;
	a->marks = !a->marked && may_mark(a->h, &a->stops) && wants_mark(a) &&
		   mark(a->h, fd, a->name, false);
}

static bool is_kind(uint32_t mode)
{
	return LX_S_ISREG(mode) || LX_S_ISDIR(mode) || LX_S_ISLNK(mode);
}

void hostfs_watch_told(struct hnode_ask *a, int fd, const struct host_stat *st, bool vain)
{
	const struct hostfs_sb *sb = a->h->sb;
	struct hnode_watch *w = &a->h->watch;
	unsigned stops;

	if (!sb->may_watch || st->mount_root || st->dev != sb->root_dev || !is_kind(st->mode))
		return;
	if (vain && host_watch_vain() && may_mark(a->dir, &stops) &&
	    !atomic_load(&a->dir->watch.marked) && a->dir->dev == sb->root_dev &&
	    is_due(a->dir, DIR_DUE) && mark(a->dir, fd, ".", true))
		set_marked(a->dir, stops);
	if (a->marks && host_watch_look() == a->generation) {
		set_marked(a->h, a->stops);
		a->marked = atomic_load(&w->marked);
	}
	if (a->generation == 0)
		return;
	atomic_store(&w->named, a->generation);
	if (a->marked)
		keep(a->h, a->d, a->generation);
}

void hostfs_watch_stop(struct hnode *h, int fd)
{
	if (host_watch_generation() == 0)
		return;
	atomic_fetch_add(&h->watch.stopping, 1);
	atomic_fetch_add(&h->watch.stops, 1);
	if (atomic_exchange(&h->watch.marked, false)) {
		host_watch_differs();
		/* Another instance may show the same file, and count on the one mark of both. */
		if (atomic_load(&g_instances) == 1)
			host_watch_remove(fd, LX_S_ISDIR(inode_mode(h->inode)));
		put_off(h, 2);
	}
	atomic_fetch_sub(&h->watch.stopping, 1);
}
