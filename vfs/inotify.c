/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inotify: watches on inodes, and queues of events.
 *
 * Theory of operation: a *watch* joins an inode and an instance. It stands in the inode's list
 * (inode->watches), in the instance's table by its number, and in a global list for unmounts. The
 * VFS reports through fsnotify(); an event goes into the queue of each instance that has a matching
 * watch on the inode, or, with the name, on its parent. A watch holds its inode, so that the inode
 * is found again by later lookups and keeps its identity; it does not hold a dentry, whose death is
 * how a deletion is noticed.
 *
 * A watch is taken away by whoever first marks it dead under the inode's lock (its removal, a
 * one-shot's event, the deletion of the file, the death of the instance), who then removes it from
 * the table.
 *
 * Locking: inode->meta guards the inode's list and a watch's mask; inside of it inotify->lock
 * (RANK_MISC) guards table and queue; g_list_lock the global list. Inodes are put with no lock
 * held.
 *
 * References: inotify(7), inotify_add_watch(2).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/err.h"
#include "base/lx_fcntl.h"
#include "base/meter.h"
#include "vfs/dcache.h"
#include "vfs/fsnotify.h"
#include "vfs/inode.h"
#include "vfs/inotify.h"
#include "vfs/shown.h"

#define IN_EVENTS (LX_POLLIN | LX_POLLRDNORM)
#define KNOWN_BITS                                                                             \
	(LX_IN_ALL_EVENTS | LX_IN_UNMOUNT | LX_IN_Q_OVERFLOW | LX_IN_IGNORED | LX_IN_ONLYDIR | \
	 LX_IN_DONT_FOLLOW | LX_IN_EXCL_UNLINK | LX_IN_MASK_CREATE | LX_IN_MASK_ADD |          \
	 LX_IN_ISDIR | LX_IN_ONESHOT)
#define KEPT_BITS (LX_IN_ALL_EVENTS | LX_IN_ONESHOT | LX_IN_EXCL_UNLINK)
/* What concerns a name in a directory, so that directory alone. */
#define NAME_EVENTS (LX_IN_CREATE | LX_IN_DELETE | LX_IN_MOVED_FROM | LX_IN_MOVED_TO)
#define SELF_EVENTS (LX_IN_DELETE_SELF | LX_IN_MOVE_SELF)
#define EVENT_SIZE sizeof(struct lx_inotify_event)

struct event {
	TAILQ_ENTRY(event) link;
	int wd;
	uint32_t mask, cookie;
	uint32_t name_size; /* as the reader gets it: NULs and padding included; 0: none */
	char name[];
};

TAILQ_HEAD(event_list, event);

struct inotify {
	struct ref ref; /* the file and each watch */
	struct mutex lock;
	struct htable watches;    /* [lock] by wd */
	struct event_list events; /* [lock] */
	unsigned count;           /* [lock] of events */
	size_t bytes;             /* [lock] of events, as a reader gets them */
	int next_wd;              /* [lock] */
	bool closed;              /* [lock] */
	struct waitq wq;
};

struct inode_watch {
	struct ref ref;
	struct inotify *in;  /* a reference */
	struct inode *inode; /* a reference */
	int wd;
	uint32_t mask;               /* [inode->meta] */
	bool dead;                   /* [inode->meta] */
	bool in_table;               /* [in->lock] */
	struct inode_watch *next;    /* [inode->meta] */
	LIST_ENTRY(inode_watch) all; /* [g_list_lock] */
};

static struct mutex g_list_lock = MUTEX_INIT(RANK_LEAF);
static LIST_HEAD(, inode_watch) g_watches = LIST_HEAD_INITIALIZER(g_watches);
static _Atomic unsigned g_watch_count, g_instances;
static _Atomic uint32_t g_cookie;
static const struct file_ops g_inotify_ops;

uint32_t inotify_cookie(void)
{
	uint32_t c;

	do
		c = atomic_fetch_add(&g_cookie, 1) + 1;
	while (c == 0);
	return c;
}

/* ---- instances ---- */

/* With room for a name of @size bytes with its padding. */
static struct event *event_new(size_t size)
{
	struct event *e;

	if (!meter_charge(METER_buffers, sizeof(*e) + size))
		return NULL;
	e = mem_zalloc(sizeof(*e) + size);
	if (e)
		e->name_size = (uint32_t)size;
	else
		meter_uncharge(METER_buffers, sizeof(*e) + size);
	return e;
}

static void event_free(struct event *e)
{
	meter_uncharge(METER_buffers, sizeof(*e) + e->name_size);
	mem_free(e);
}

static void inotify_put(struct inotify *in)
{
	struct event *e;

	if (!ref_put(&in->ref))
		return;
	while ((e = TAILQ_FIRST(&in->events)) != NULL) {
		TAILQ_REMOVE(&in->events, e, link);
		event_free(e);
	}
	htable_fini(&in->watches);
	waitq_fini(&in->wq);
	mutex_fini(&in->lock);
	mem_free(in);
	atomic_fetch_sub(&g_instances, 1);
}

static bool same_event(const struct event *a, const struct event *b)
{
	return a->wd == b->wd && a->mask == b->mask && a->name_size == b->name_size &&
	       memcmp(a->name, b->name, a->name_size) == 0;
}

/* Appends an event; one too many, or without memory, is told as an overflow. Names have a size of 0
 * or end with NULs up to a whole number of headers, so that a reader finds the next event aligned.
 */
static void queue_locked(struct inotify *in, int wd, uint32_t mask, uint32_t cookie,
			 const char *name) REQUIRES(in->lock)
{
	struct event *last = TAILQ_LAST(&in->events, event_list), *e;
	size_t len = name ? strlen(name) : 0;
	size_t size = len ? (len / EVENT_SIZE + 1) * EVENT_SIZE : 0;

	if (in->closed)
		return;
	e = in->count < INOTIFY_MAX_QUEUED_EVENTS ? event_new(size) : NULL;
	if (!e) {
		if (last && (last->mask & LX_IN_Q_OVERFLOW))
			return;
		/* One for each instance, which its limit pays for. */
		e = mem_zalloc(sizeof(*e));
		if (!e)
			return;
		meter_charge_found(METER_buffers, sizeof(*e));
		e->wd = -1;
		e->mask = LX_IN_Q_OVERFLOW;
	} else {
		e->wd = wd;
		e->mask = mask;
		e->cookie = cookie;
		if (len)
			memcpy(e->name, name, len);
		if (last && !(last->mask & LX_IN_IGNORED) && same_event(last, e)) {
			event_free(e);
			return;
		}
	}
	TAILQ_INSERT_TAIL(&in->events, e, link);
	in->count++;
	in->bytes += EVENT_SIZE + e->name_size;
}

static void queue_event(struct inotify *in, int wd, uint32_t mask, uint32_t cookie,
			const char *name)
{
	mutex_lock(&in->lock);
	queue_locked(in, wd, mask, cookie, name);
	mutex_unlock(&in->lock);
	waitq_wake(&in->wq, IN_EVENTS);
}

/* ---- watches ---- */

static void watch_put(struct inode_watch *w)
{
	if (!ref_put(&w->ref))
		return;
	mutex_lock(&g_list_lock);
	LIST_REMOVE(w, all);
	mutex_unlock(&g_list_lock);
	inode_put(w->inode);
	inotify_put(w->in);
	mem_free(w);
	atomic_fetch_sub(&g_watch_count, 1);
	meter_uncharge(METER_watches, 1);
}

static bool wd_equal(const void *entry, const void *key)
{
	return ((const struct inode_watch *)entry)->wd == *(const int *)key;
}

/* Takes the watch out of its inode's list, and a reference to it for watch_bury. False: somebody
 * else did. inode->meta held. */
static bool watch_kill_locked(struct inode_watch *w)
{
	struct inode_watch **at = &w->inode->watches;

	if (w->dead)
		return false;
	w->dead = true;
	while (*at != w)
		at = &(*at)->next;
	__atomic_store_n(at, w->next, __ATOMIC_RELEASE);
	ref_get(&w->ref);
	return true;
}

/* Its number goes, and the table's reference. */
static void watch_untable(struct inode_watch *w, bool tell)
{
	struct inotify *in = w->in;
	bool was_in;

	mutex_lock(&in->lock);
	was_in = w->in_table;
	if (was_in) {
		bool found = htable_remove(&in->watches, hash_u64((uint64_t)w->wd), w);

		BUG_ON(!found);
		w->in_table = false;
	}
	if (tell)
		queue_locked(in, w->wd, LX_IN_IGNORED, 0, NULL);
	mutex_unlock(&in->lock);
	if (tell)
		waitq_wake(&in->wq, IN_EVENTS);
	if (was_in)
		watch_put(w);
}

/* The rest of the removal of a watch that the caller killed. */
static void watch_bury(struct inode_watch *w, bool tell)
{
	watch_untable(w, tell);
	watch_put(w);
}

/* Removes a watch that the caller has a reference to. */
static void watch_remove(struct inode_watch *w, bool tell)
{
	bool ours;

	mutex_lock(&w->inode->meta);
	ours = watch_kill_locked(w);
	mutex_unlock(&w->inode->meta);
	if (ours)
		watch_bury(w, tell);
}

/* ---- events ---- */

/* Reports to the watches of @i. @name: the child it is about, or NULL. */
static void report(struct inode *i, uint32_t mask, uint32_t cookie, const char *name, bool unlinked)
{
	struct inode_watch *w, *next, *used_up = NULL;
	uint32_t event = mask & LX_IN_ALL_EVENTS;

	if (likely(!__atomic_load_n(&i->watches, __ATOMIC_ACQUIRE)))
		return;
	mutex_lock(&i->meta);
	for (w = i->watches; w; w = next) {
		next = w->next;
		if (!(w->mask & event))
			continue;
		if (unlinked && (w->mask & LX_IN_EXCL_UNLINK))
			continue;
		queue_event(w->in, w->wd, mask, cookie, name);
		if ((w->mask & LX_IN_ONESHOT) && watch_kill_locked(w)) {
			w->next = used_up;
			used_up = w;
		}
	}
	mutex_unlock(&i->meta);
	while ((w = used_up) != NULL) {
		used_up = w->next;
		watch_bury(w, true);
	}
}

void fsnotify_inode(struct inode *i, uint32_t mask)
{
	struct inode_watch *w;

	if (likely(atomic_load_explicit(&g_watch_count, memory_order_relaxed) == 0))
		return;
	/* Directories are not marked as such in what happens to themselves. */
	if (LX_S_ISDIR(inode_mode(i)) && !(mask & SELF_EVENTS))
		mask |= LX_IN_ISDIR;
	report(i, mask, 0, NULL, false);
	if (!(mask & LX_IN_DELETE_SELF))
		return;
	/* The file is gone, and with it all its watches. */
	for (;;) {
		mutex_lock(&i->meta);
		w = i->watches;
		if (w)
			(void)watch_kill_locked(w);
		mutex_unlock(&i->meta);
		if (!w)
			break;
		watch_bury(w, true);
	}
}

void fsnotify(struct dentry *d, uint32_t mask, uint32_t cookie)
{
	struct inode *i = dentry_inode(d), *pi;
	struct dentry *parent;
	char name[LX_NAME_MAX + 1];

	if (unlikely(mask & NAME_EVENTS) && g_vfs_hooks->changed)
		g_vfs_hooks->changed(d, mask, cookie);
	if (likely(atomic_load_explicit(&g_watch_count, memory_order_relaxed) == 0) || !i)
		return;
	if (LX_S_ISDIR(inode_mode(i)))
		mask |= LX_IN_ISDIR;
	parent = dentry_get_parent(d);
	pi = dentry_inode(parent);
	if (parent != d && pi && __atomic_load_n(&pi->watches, __ATOMIC_ACQUIRE)) {
		bool unlinked =
			!(mask & NAME_EVENTS) && !__atomic_load_n(&d->hashed, __ATOMIC_RELAXED);

		dentry_copy_name(d, name, sizeof(name));
		report(pi, mask, cookie, name, unlinked);
	}
	dentry_put(parent);
	if (!(mask & NAME_EVENTS))
		report(i, mask, cookie, NULL, false);
}

bool inotify_sees(struct dentry *d)
{
	struct inode *i = dentry_inode(d), *pi;
	struct dentry *parent;
	bool sees;

	if (atomic_load(&g_watch_count) == 0 || !i)
		return false;
	parent = dentry_get_parent(d);
	pi = dentry_inode(parent);
	sees = __atomic_load_n(&i->watches, __ATOMIC_SEQ_CST) ||
	       (pi && __atomic_load_n(&pi->watches, __ATOMIC_SEQ_CST));
	dentry_put(parent);
	return sees;
}

void inotify_inode_free(struct inode *i)
{
	/* Each watch holds its inode. */
	BUG_ON(i->watches);
}

void inotify_super_gone(struct super *s)
{
	for (;;) {
		struct inode_watch *w;

		mutex_lock(&g_list_lock);
		LIST_FOREACH (w, &g_watches, all) {
			/* One that is dead already is about to leave the list by itself. */
			if (w->inode->super == s && !__atomic_load_n(&w->dead, __ATOMIC_RELAXED) &&
			    ref_get_unless_zero(&w->ref))
				break;
		}
		mutex_unlock(&g_list_lock);
		if (!w)
			return;

		bool ours;

		mutex_lock(&w->inode->meta);
		ours = watch_kill_locked(w);
		mutex_unlock(&w->inode->meta);
		if (ours) {
			queue_event(w->in, w->wd, LX_IN_UNMOUNT, 0, NULL);
			watch_bury(w, true);
		}
		watch_put(w);
	}
}

/* ---- the system calls ---- */

/* Changes the watch that @in has on @i. Its number, or -ENOENT. */
static int update_watch(struct inotify *in, struct inode *i, uint32_t mask)
{
	int r = -ENOENT;

	mutex_lock(&i->meta);
	for (struct inode_watch *w = i->watches; w; w = w->next) {
		if (w->in != in)
			continue;
		if (mask & LX_IN_MASK_CREATE) {
			r = -EEXIST;
			break;
		}
		w->mask = (mask & KEPT_BITS) | ((mask & LX_IN_MASK_ADD) ? w->mask : 0);
		r = w->wd;
		break;
	}
	mutex_unlock(&i->meta);
	return r;
}

static int new_watch(struct inotify *in, struct inode *i, uint32_t mask)
{
	struct inode_watch *w;
	int r;

	if (atomic_fetch_add(&g_watch_count, 1) >= INOTIFY_MAX_USER_WATCHES ||
	    !meter_charge(METER_watches, 1)) {
		atomic_fetch_sub(&g_watch_count, 1);
		return -ENOSPC;
	}
	w = mem_zalloc(sizeof(*w));
	if (!w) {
		atomic_fetch_sub(&g_watch_count, 1);
		meter_uncharge(METER_watches, 1);
		return -ENOMEM;
	}
	ref_init(&w->ref);
	ref_get(&in->ref);
	w->in = in;
	w->inode = inode_get(i);
	w->mask = mask & KEPT_BITS;
	mutex_lock(&g_list_lock);
	LIST_INSERT_HEAD(&g_watches, w, all);
	mutex_unlock(&g_list_lock);
	mutex_lock(&i->meta);
	mutex_lock(&in->lock);
	w->wd = in->next_wd;
	r = htable_insert(&in->watches, hash_u64((uint64_t)w->wd), w);
	if (r == 0) {
		w->in_table = true;
		/* A new number each time, so that a late event is not taken for another's. */
		in->next_wd = in->next_wd == INT32_MAX ? 1 : in->next_wd + 1;
		r = w->wd;
		w->next = i->watches;
		__atomic_store_n(&i->watches, w, __ATOMIC_RELEASE);
	} else {
		w->dead = true;
	}
	mutex_unlock(&in->lock);
	mutex_unlock(&i->meta);
	if (r < 0)
		watch_put(w);
	else
		shown_end_all();
	return r;
}

int inotify_add_watch_path(struct vfs_ctx *c, struct file *f, const char *path, uint32_t mask)
{
	unsigned walk = 0;
	struct inotify *in;
	struct path p;
	int r;

	if ((mask & ~KNOWN_BITS) || !(mask & KNOWN_BITS))
		return -EINVAL;
	if (!f)
		return -EBADF;
	if ((mask & LX_IN_MASK_ADD) && (mask & LX_IN_MASK_CREATE))
		return -EINVAL;
	if (f->ops != &g_inotify_ops)
		return -EINVAL;
	in = f->priv;
	if (!(mask & LX_IN_DONT_FOLLOW))
		walk |= WALK_FOLLOW;
	if (mask & LX_IN_ONLYDIR)
		walk |= WALK_DIRECTORY;
	r = path_lookup(c, NULL, path, walk, &p);
	if (r)
		return r;
	r = inode_permission(c, p.dentry->inode, MAY_READ);
	if (r == 0) {
		/* Two threads that add the same watch at once: f->pos_lock makes them one after the
		 * other. */
		fmutex_lock(&f->pos_lock);
		r = update_watch(in, p.dentry->inode, mask);
		if (r == -ENOENT)
			r = new_watch(in, p.dentry->inode, mask);
		fmutex_unlock(&f->pos_lock);
	}
	path_put(&p);
	return r;
}

int inotify_rm_watch_file(struct file *f, int wd)
{
	struct inode_watch *w;
	struct inotify *in;

	if (f->ops != &g_inotify_ops)
		return -EINVAL;
	in = f->priv;
	mutex_lock(&in->lock);
	w = htable_find(&in->watches, hash_u64((uint64_t)wd), wd_equal, &wd);
	if (w)
		ref_get(&w->ref);
	mutex_unlock(&in->lock);
	if (!w)
		return -EINVAL;
	watch_remove(w, true);
	watch_put(w);
	return 0;
}

/* ---- the file ---- */

static bool has_events(struct inotify *in)
{
	bool any;

	mutex_lock(&in->lock);
	any = in->count > 0;
	mutex_unlock(&in->lock);
	return any;
}

/* Takes the first event if it fits into @room. NULL: none, or *too_big. */
static struct event *take_event(struct inotify *in, uint64_t room, bool *too_big)
{
	struct event *e;

	*too_big = false;
	mutex_lock(&in->lock);
	e = TAILQ_FIRST(&in->events);
	if (e && EVENT_SIZE + e->name_size > room) {
		*too_big = true;
		e = NULL;
	}
	if (e) {
		TAILQ_REMOVE(&in->events, e, link);
		in->count--;
		in->bytes -= EVENT_SIZE + e->name_size;
	}
	mutex_unlock(&in->lock);
	return e;
}

static ssize_t put_event(struct uio *u, const struct event *e)
{
	char buf[sizeof(struct lx_inotify_event) + LX_NAME_MAX + 1 +
		 sizeof(struct lx_inotify_event)];
	struct lx_inotify_event head = {
		.wd = e->wd, .mask = e->mask, .cookie = e->cookie, .len = e->name_size};
	size_t size = sizeof(head) + e->name_size;
	ssize_t r;

	memcpy(buf, &head, sizeof(head));
	memcpy(buf + sizeof(head), e->name, e->name_size);
	r = uio_put(u, buf, size);
	return r == (ssize_t)size ? r : -EFAULT;
}

static ssize_t inotify_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct inotify *in = f->priv;
	ssize_t done = 0, r = 0;

	(void)pos;
	for (;;) {
		bool too_big;
		struct event *e = take_event(in, u->resid, &too_big);

		if (e) {
			r = put_event(u, e);
			event_free(e);
			if (r < 0)
				break;
			done += r;
			continue;
		}
		if (too_big)
			r = -EINVAL;
		if (done || too_big)
			break;
		if (atomic_load_explicit(&f->flags, memory_order_relaxed) & LX_O_NONBLOCK)
			return -EAGAIN;
		r = wait_event(&in->wq, has_events(in), DEADLINE_NONE, WAIT_INTR);
		if (r)
			break;
	}
	/* A fault is told even after some events went out, as they may have gone where it hurts. */
	return done && r != -EFAULT ? done : r;
}

static uint32_t inotify_poll(struct file *f, struct poll_table *pt)
{
	struct inotify *in = f->priv;

	poll_wait(pt, &in->wq);
	return has_events(in) ? IN_EVENTS : 0;
}

static long inotify_ioctl(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg,
			  const struct umem *um)
{
	struct inotify *in = f->priv;
	int32_t n;

	(void)c;
	if (cmd != LX_FIONREAD)
		return -ENOTTY;
	mutex_lock(&in->lock);
	n = (int32_t)in->bytes;
	mutex_unlock(&in->lock);
	return umem_copy_out(um, GADDR(arg), &n, sizeof(n));
}

static void inotify_release(struct file *f)
{
	struct inotify *in = f->priv;

	mutex_lock(&in->lock);
	in->closed = true;
	mutex_unlock(&in->lock);
	for (;;) {
		struct inode_watch *w;
		size_t at = 0;

		mutex_lock(&in->lock);
		w = htable_next(&in->watches, &at);
		if (w)
			ref_get(&w->ref);
		mutex_unlock(&in->lock);
		if (!w)
			break;
		watch_remove(w, false);
		/* If somebody else removes it at this moment, it is still in the table perhaps:
		 * out. */
		watch_untable(w, false);
		watch_put(w);
	}
	inotify_put(in);
}

static size_t inotify_show_fdinfo(struct file *f, char *buf, size_t size)
{
	struct inotify *in = f->priv;
	struct inode_watch *w;
	size_t used = 0, at = 0;

	mutex_lock(&in->lock);
	while ((w = htable_next(&in->watches, &at)) != NULL) {
		int n = snprintf(buf + used, size - used,
				 "inotify wd:%x ino:%lx sdev:%lx mask:%x ignored_mask:0\n", w->wd,
				 (unsigned long)w->inode->ino, (unsigned long)w->inode->super->dev,
				 __atomic_load_n(&w->mask, __ATOMIC_RELAXED));

		if (n < 0 || (size_t)n >= size - used)
			break;
		used += (size_t)n;
	}
	mutex_unlock(&in->lock);
	return used;
}

static const struct file_ops g_inotify_ops = {
	.read = inotify_read,
	.poll = inotify_poll,
	.ioctl = inotify_ioctl,
	.release = inotify_release,
	.show_fdinfo = inotify_show_fdinfo,
	.lseek = file_lseek_nowhere,
	.stream = true,
};

int inotify_create(struct vfs_ctx *c, unsigned flags, struct file **out)
{
	struct inotify *in;

	if (flags & ~(unsigned)(LX_IN_NONBLOCK | LX_IN_CLOEXEC))
		return -EINVAL;
	if (atomic_fetch_add(&g_instances, 1) >= INOTIFY_MAX_USER_INSTANCES) {
		atomic_fetch_sub(&g_instances, 1);
		return -EMFILE;
	}
	in = mem_zalloc(sizeof(*in));
	if (!in) {
		atomic_fetch_sub(&g_instances, 1);
		return -ENOMEM;
	}
	ref_init(&in->ref);
	mutex_init(&in->lock, RANK_MISC);
	htable_init(&in->watches);
	TAILQ_INIT(&in->events);
	waitq_init(&in->wq);
	in->next_wd = 1;
	*out = file_new_anon(c, NULL, "anon_inode:inotify", &g_inotify_ops, FMODE_READ,
			     LX_O_RDONLY | (flags & LX_IN_NONBLOCK), in);
	if (*out)
		return 0;
	inotify_put(in);
	return file_new_error();
}
