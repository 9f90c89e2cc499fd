/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll.
 *
 * Theory of operation: a registration (an *item*) is keyed by (file, number) and hangs entries on
 * the wait queues of its file for as long as it exists. A wake-up puts the item on the instance's
 * ready list and wakes one waiter. epoll_wait takes items off the list one at a time, asks the file
 * for its events, and reports those that are there; a level-triggered item goes back to the end of
 * the list, so that the next epoll_wait asks again. An item that is taken off and woken again
 * meanwhile is simply put back: so an edge is reported once per wake-up, and none is lost.
 *
 * Items hold no reference to their file: when its last reference goes, epoll_forget_file removes
 * them. An instance may be registered in another one. Loops and chains longer than CHAIN_MAX are
 * refused when they would be made, so the recursion over nested instances in poll and in wake-ups
 * is bounded.
 *
 * Locking, outer first: g_graph (fmutex: which instance is in which, and the death of registered
 * files and of instances), ep->mutex (fmutex: the items; an outer instance's before an inner
 * one's), file->lock (the list of a file's items), the wait queues of files (wake-ups come under
 * them), ep->ready_lock (the ready list), ep->wq. The lock of ep->wq has no rank, since an
 * instance's own waiters may be another instance's entries, whose wake-up then runs under it; that
 * there are no loops keeps this free of deadlock.
 *
 * References: epoll(7), epoll_ctl(2), epoll_wait(2).
 */
#include <errno.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/meter.h"
#include "vfs/epoll.h"

/* Instances in a row, each registered in the next. */
#define CHAIN_MAX 5u
#define CHAIN_LOOP 100u
#define PRIVATE_BITS (LX_EPOLLWAKEUP | LX_EPOLLONESHOT | LX_EPOLLET | LX_EPOLLEXCLUSIVE)
#define EXCLUSIVE_OK                                                                      \
	(LX_POLLIN | LX_POLLOUT | LX_POLLERR | LX_POLLHUP | LX_EPOLLWAKEUP | LX_EPOLLET | \
	 LX_EPOLLEXCLUSIVE)
#define IN_EVENTS (LX_POLLIN | LX_POLLRDNORM)
#define QUEUES_MAX 3u
#define BATCH 32u
/* /proc/sys/fs/epoll/max_user_watches, about what a host with some GiB of memory has. */
#define WATCHES_MAX 1000000u

struct item;
struct item_entry {
	struct waiter w;
	struct item *item;
};

struct item {
	struct epoll *ep;  /* borrowed: it frees us */
	struct file *file; /* borrowed: it tells us when it goes */
	int fd;
	uint32_t events; /* [ep->ready_lock] asked; without poll bits: disabled by ONESHOT */
	uint64_t data;   /* [ep->mutex] */
	TAILQ_ENTRY(item) ready; /* [ep->ready_lock] */
	bool is_ready;           /* [ep->ready_lock] on the list */
	bool no_memory;          /* a queue more than there are entries */
	unsigned entry_count;    /* [ep->mutex] */
	struct item_entry entry[QUEUES_MAX];
	LIST_ENTRY(item) of_file; /* [file->lock] */
	LIST_ENTRY(item) of_ep;   /* [ep->mutex] */
	/* If the file is an instance itself: */
	LIST_ENTRY(item) of_outer; /* [g_graph] in ep->inner */
	LIST_ENTRY(item) of_inner; /* [g_graph] in that instance's outer */
};

LIST_HEAD(item_list, item);
TAILQ_HEAD(ready_list, item);

struct epoll {
	struct fmutex mutex;
	struct htable items;     /* [mutex] by (file, fd) */
	struct item_list all;    /* [mutex] */
	struct mutex ready_lock; /* RANK_READY */
	struct ready_list ready; /* [ready_lock] */
	unsigned ready_count;    /* [ready_lock] */
	struct waitq wq;         /* those in epoll_wait, and pollers of the instance */
	struct item_list inner;  /* [g_graph] instances registered here */
	struct item_list outer;  /* [g_graph] where this one is registered */
	uint64_t walk;           /* [g_graph] the last walk that came by, and what it found: */
	unsigned chain;
};

/* Of a file that was ever registered somewhere: file->epoll_items. It stays until the file goes: an
 * instance that ends looks at the files that it has, of which somebody may just have put the last
 * reference, and only whoever finds nothing here does not wait for it. */
struct file_items {
	struct item_list list; /* [file->lock] */
};

static struct fmutex g_graph = {.lock = MUTEX_INIT(RANK_FLOCK),
				.waiters = TAILQ_HEAD_INITIALIZER(g_graph.waiters)};
static uint64_t g_walk; /* [g_graph] */
static _Atomic unsigned g_watches;
static const struct file_ops g_epoll_ops;

bool file_is_epoll(const struct file *f)
{
	return f->ops == &g_epoll_ops;
}

/* ---- the ready list ---- */

static void make_ready_locked(struct epoll *ep, struct item *it) REQUIRES(ep->ready_lock)
{
	if (it->is_ready)
		return;
	it->is_ready = true;
	ep->ready_count++;
	TAILQ_INSERT_TAIL(&ep->ready, it, ready);
}

static void make_ready(struct epoll *ep, struct item *it) EXCLUDES(ep->ready_lock)
{
	mutex_lock(&ep->ready_lock);
	make_ready_locked(ep, it);
	mutex_unlock(&ep->ready_lock);
	waitq_wake(&ep->wq, IN_EVENTS);
}

static void unready_locked(struct epoll *ep, struct item *it) REQUIRES(ep->ready_lock)
{
	if (!it->is_ready)
		return;
	it->is_ready = false;
	ep->ready_count--;
	TAILQ_REMOVE(&ep->ready, it, ready);
}

static bool has_ready(struct epoll *ep)
{
	bool any;

	mutex_lock(&ep->ready_lock);
	any = !TAILQ_EMPTY(&ep->ready);
	mutex_unlock(&ep->ready_lock);
	return any;
}

/* A file's wait queue woke: under that queue's lock. */
static bool item_wake(struct waiter *w, uint32_t events)
{
	struct item *it = container_of(w, struct item_entry, w)->item;
	struct epoll *ep = it->ep;
	bool taken = false;

	mutex_lock(&ep->ready_lock);
	if ((it->events & ~PRIVATE_BITS) && (events == 0 || (events & it->events))) {
		make_ready_locked(ep, it);
		taken = true;
	}
	mutex_unlock(&ep->ready_lock);
	if (!taken)
		return false;
	/* An exclusive entry takes the wake-up from those behind it only if it wakes someone here;
	 * who was woken before and is still on the queue does not count. */
	return waitq_wake(&ep->wq, IN_EVENTS);
}

/* ---- items ---- */

struct item_key {
	struct file *file;
	int fd;
};

static uint64_t key_hash(const struct file *f, int fd)
{
	return hash_u64((uint64_t)(uintptr_t)f ^ ((uint64_t)(uint32_t)fd << 40));
}

static bool key_equal(const void *entry, const void *key)
{
	const struct item *it = entry;
	const struct item_key *k = key;

	return it->file == k->file && it->fd == k->fd;
}

static struct item *find_item(struct epoll *ep, struct file *f, int fd) REQUIRES(ep->mutex)
{
	struct item_key k = {f, fd};

	return htable_find(&ep->items, key_hash(f, fd), key_equal, &k);
}

struct item_poll {
	struct poll_table pt;
	struct item *item;
};

static void item_queue(struct poll_table *pt, struct waitq *q)
{
	struct item *it = container_of(pt, struct item_poll, pt)->item;
	struct item_entry *e;

	if (it->entry_count == QUEUES_MAX) {
		it->no_memory = true;
		return;
	}
	e = &it->entry[it->entry_count++];
	e->item = it;
	/* All events: what is asked may change without a new registration. */
	waiter_init_fn(&e->w, item_wake, 0);
	if (it->events & LX_EPOLLEXCLUSIVE)
		waitq_add_exclusive(q, &e->w);
	else
		waitq_add(q, &e->w);
}

static uint32_t item_poll(const struct item *it, uint32_t wanted)
{
	struct poll_table pt = {.queue = NULL, .events = wanted};

	return vfs_poll(it->file, &pt) & wanted;
}

static uint32_t item_events(struct epoll *ep, const struct item *it)
{
	uint32_t ev;

	mutex_lock(&ep->ready_lock);
	ev = it->events;
	mutex_unlock(&ep->ready_lock);
	return ev;
}

/* The item leaves everything and is freed. g_graph is held if its file is an instance. */
static void remove_item(struct epoll *ep, struct item *it) REQUIRES(ep->mutex)
{
	struct file *f = it->file;
	bool was_in;

	for (unsigned i = 0; i < it->entry_count; i++)
		waitq_del(&it->entry[i].w);
	mutex_lock(&f->lock);
	LIST_REMOVE(it, of_file);
	mutex_unlock(&f->lock);
	if (file_is_epoll(f)) {
		LIST_REMOVE(it, of_outer);
		LIST_REMOVE(it, of_inner);
	}
	mutex_lock(&ep->ready_lock);
	unready_locked(ep, it);
	mutex_unlock(&ep->ready_lock);
	LIST_REMOVE(it, of_ep);
	was_in = htable_remove(&ep->items, key_hash(f, it->fd), it);
	BUG_ON(!was_in);
	atomic_fetch_sub(&g_watches, 1);
	meter_uncharge(METER_watches, 1);
	mem_free(it);
}

/* g_graph is held if @f is an instance. */
static int insert_item(struct epoll *ep, struct file *f, int fd, const struct lx_epoll_event *ev)
	REQUIRES(ep->mutex)
{
	struct file_items *fresh;
	struct item_poll ip;
	struct item *it;
	uint32_t now;
	int r;

	if (atomic_fetch_add(&g_watches, 1) >= WATCHES_MAX || !meter_charge(METER_watches, 1)) {
		atomic_fetch_sub(&g_watches, 1);
		return -ENOSPC;
	}
	it = mem_zalloc(sizeof(*it));
	fresh = mem_zalloc(sizeof(*fresh));
	r = it && fresh ? htable_insert(&ep->items, key_hash(f, fd), it) : -ENOMEM;
	if (r) {
		atomic_fetch_sub(&g_watches, 1);
		meter_uncharge(METER_watches, 1);
		mem_free(it);
		mem_free(fresh);
		return r;
	}
	LIST_INIT(&fresh->list);
	it->ep = ep;
	it->file = f;
	it->fd = fd;
	it->events = ev->events | LX_POLLERR | LX_POLLHUP;
	it->data = ev->data;
	LIST_INSERT_HEAD(&ep->all, it, of_ep);
	mutex_lock(&f->lock);
	if (!f->epoll_items) {
		__atomic_store_n(&f->epoll_items, fresh, __ATOMIC_RELEASE);
		fresh = NULL;
	}
	LIST_INSERT_HEAD(&((struct file_items *)f->epoll_items)->list, it, of_file);
	mutex_unlock(&f->lock);
	mem_free(fresh);
	if (file_is_epoll(f)) {
		struct epoll *inner = f->priv;

		LIST_INSERT_HEAD(&ep->inner, it, of_outer);
		LIST_INSERT_HEAD(&inner->outer, it, of_inner);
	}
	ip = (struct item_poll){.pt = {.queue = item_queue, .events = it->events}, .item = it};
	now = vfs_poll(f, &ip.pt) & it->events;
	if (it->no_memory) {
		remove_item(ep, it);
		return -ENOMEM;
	}
	if (now)
		make_ready(ep, it);
	return 0;
}

static int modify_item(struct epoll *ep, struct item *it, const struct lx_epoll_event *ev)
	REQUIRES(ep->mutex)
{
	uint32_t events = ev->events | LX_POLLERR | LX_POLLHUP;

	/* First the events, then the poll: a wake-up between is seen by one of the two. */
	mutex_lock(&ep->ready_lock);
	it->events = events;
	mutex_unlock(&ep->ready_lock);
	it->data = ev->data;
	if (item_poll(it, events))
		make_ready(ep, it);
	return 0;
}

/* ---- the graph of nested instances ---- */

/* How many instances in a row there are from @ep down, itself included; CHAIN_LOOP or more if
 * @needle is among them. Each instance is looked at once per walk. */
static unsigned chain_down(struct epoll *ep, const struct epoll *needle) REQUIRES(g_graph)
{
	struct item *it;
	unsigned longest = 0;

	if (ep == needle)
		return CHAIN_LOOP;
	if (ep->walk == g_walk)
		return ep->chain;
	LIST_FOREACH (it, &ep->inner, of_outer)
		longest = MAX(longest, chain_down(it->file->priv, needle));
	ep->walk = g_walk;
	ep->chain = longest + 1;
	return ep->chain;
}

/* The same upwards. */
static unsigned chain_up(struct epoll *ep) REQUIRES(g_graph)
{
	struct item *it;
	unsigned longest = 0;

	if (ep->walk == g_walk)
		return ep->chain;
	LIST_FOREACH (it, &ep->outer, of_inner)
		longest = MAX(longest, chain_up(it->ep));
	ep->walk = g_walk;
	ep->chain = longest + 1;
	return ep->chain;
}

/* May @inner be registered in @ep? */
static bool nesting_allowed(struct epoll *ep, struct epoll *inner) REQUIRES(g_graph)
{
	unsigned down, up;

	g_walk++;
	down = chain_down(inner, ep);
	g_walk++;
	up = chain_up(ep);
	return down + up <= CHAIN_MAX;
}

/* ---- epoll_ctl ---- */

static int ctl_locked(struct epoll *ep, int op, int fd, struct file *target,
		      const struct lx_epoll_event *ev) REQUIRES(ep->mutex)
{
	struct item *it = find_item(ep, target, fd);

	switch (op) {
	case LX_EPOLL_CTL_ADD:
		return it ? -EEXIST : insert_item(ep, target, fd, ev);
	case LX_EPOLL_CTL_DEL:
		if (!it)
			return -ENOENT;
		remove_item(ep, it);
		return 0;
	case LX_EPOLL_CTL_MOD:
		if (!it)
			return -ENOENT;
		/* Exclusive once is exclusive for good, and cannot be changed. */
		if (item_events(ep, it) & LX_EPOLLEXCLUSIVE)
			return -EINVAL;
		return modify_item(ep, it, ev);
	default:
		return -EINVAL;
	}
}

int epoll_ctl_file(struct vfs_ctx *c, struct file *ep_file, int op, int fd, struct file *target,
		   const struct lx_epoll_event *ev)
{
	struct epoll *ep;
	bool nested;
	int r = 0;

	(void)c;
	if (!target->ops->poll)
		return -EPERM;
	if (ep_file == target || !file_is_epoll(ep_file))
		return -EINVAL;
	nested = file_is_epoll(target);
	if (op != LX_EPOLL_CTL_DEL && (ev->events & LX_EPOLLEXCLUSIVE)) {
		if (op == LX_EPOLL_CTL_MOD)
			return -EINVAL;
		if (op == LX_EPOLL_CTL_ADD && (nested || (ev->events & ~EXCLUSIVE_OK)))
			return -EINVAL;
	}
	ep = ep_file->priv;
	if (!nested) {
		fmutex_lock(&ep->mutex);
		r = ctl_locked(ep, op, fd, target, ev);
		fmutex_unlock(&ep->mutex);
		return r;
	}
	fmutex_lock(&g_graph);
	if (op == LX_EPOLL_CTL_ADD && !nesting_allowed(ep, target->priv))
		r = -ELOOP;
	if (r == 0) {
		fmutex_lock(&ep->mutex);
		r = ctl_locked(ep, op, fd, target, ev);
		fmutex_unlock(&ep->mutex);
	}
	fmutex_unlock(&g_graph);
	return r;
}

/* ---- epoll_wait ---- */

/* Events on their way out, so that user memory is reached a few times only. */
struct batch {
	unsigned count;
	struct lx_epoll_event ev[BATCH];
	struct item *item[BATCH];
	uint32_t asked[BATCH];
};

/* Takes the next item off the list; its events in *events. NULL: none. */
static struct item *next_ready(struct epoll *ep, uint32_t *events)
{
	struct item *it;

	mutex_lock(&ep->ready_lock);
	it = TAILQ_FIRST(&ep->ready);
	if (it) {
		unready_locked(ep, it);
		*events = it->events;
	}
	mutex_unlock(&ep->ready_lock);
	return it;
}

static void put_back(struct epoll *ep, struct item *it, uint32_t events)
{
	mutex_lock(&ep->ready_lock);
	it->events = events;
	make_ready_locked(ep, it);
	mutex_unlock(&ep->ready_lock);
}

/* Hands the batch out. What the user's memory did not take is put back. Events taken, or -EFAULT.
 */
static int batch_flush(struct epoll *ep, struct batch *b, struct uio *out) REQUIRES(ep->mutex)
{
	size_t size = b->count * sizeof(b->ev[0]);
	unsigned taken;
	ssize_t r;

	if (b->count == 0)
		return 0;
	r = uio_put(out, b->ev, size);
	taken = r < 0 ? 0 : (unsigned)((size_t)r / sizeof(b->ev[0]));
	for (unsigned i = taken; i < b->count; i++)
		put_back(ep, b->item[i], b->asked[i]);
	r = taken == b->count ? 0 : -EFAULT;
	b->count = 0;
	return r ? (taken ? (int)taken : -EFAULT) : (int)taken;
}

static int send_events(struct epoll *ep, struct uio *out, int max)
{
	struct batch b = {.count = 0};
	unsigned left;
	int sent = 0, r = 0;
	bool more;

	fmutex_lock(&ep->mutex);
	mutex_lock(&ep->ready_lock);
	left = ep->ready_count;
	mutex_unlock(&ep->ready_lock);
	while (left-- > 0 && sent + (int)b.count < max) {
		uint32_t asked, events;
		struct item *it = next_ready(ep, &asked);

		if (!it)
			break;
		events = item_poll(it, asked & ~PRIVATE_BITS);
		if (!events)
			continue;
		b.ev[b.count] = (struct lx_epoll_event){.events = events, .data = it->data};
		b.item[b.count] = it;
		b.asked[b.count++] = asked;
		if (asked & LX_EPOLLONESHOT) {
			mutex_lock(&ep->ready_lock);
			it->events &= PRIVATE_BITS;
			mutex_unlock(&ep->ready_lock);
		} else if (!(asked & LX_EPOLLET)) {
			put_back(ep, it, asked);
		}
		if (b.count < BATCH)
			continue;
		r = batch_flush(ep, &b, out);
		if (r < (int)BATCH)
			break;
		sent += r;
		r = 0;
	}
	if (r == 0)
		r = batch_flush(ep, &b, out);
	if (r > 0)
		sent += r;
	more = has_ready(ep);
	fmutex_unlock(&ep->mutex);
	/* A wake-up went to us alone; what we left is for the next in line. */
	if (more)
		waitq_wake(&ep->wq, IN_EVENTS);
	return sent ? sent : r;
}

int epoll_wait_file(struct file *f, struct uio *out, int max, uint64_t deadline_ns)
{
	struct epoll *ep;
	int r;

	if (max <= 0 || max > LX_EP_MAX_EVENTS)
		return -EINVAL;
	if (!file_is_epoll(f))
		return -EINVAL;
	ep = f->priv;
	for (;;) {
		if (has_ready(ep)) {
			r = send_events(ep, out, max);
			if (r != 0)
				return r;
		}
		if (deadline_ns == 0)
			return 0;
		r = wait_event_exclusive(&ep->wq, IN_EVENTS, has_ready(ep), deadline_ns, WAIT_INTR);
		if (r == -ETIMEDOUT)
			return 0;
		if (r)
			return -EINTR;
	}
}

static uint32_t epoll_poll(struct file *f, struct poll_table *pt)
{
	struct epoll *ep = f->priv;
	uint32_t asked, ev = 0;
	struct item *it;
	unsigned left;

	poll_wait(pt, &ep->wq);
	if (!has_ready(ep))
		return 0;
	/* On the list does not mean ready: what was there may have been read since. */
	fmutex_lock(&ep->mutex);
	mutex_lock(&ep->ready_lock);
	left = ep->ready_count;
	mutex_unlock(&ep->ready_lock);
	while (!ev && left-- > 0 && (it = next_ready(ep, &asked)) != NULL) {
		if (!item_poll(it, asked & ~PRIVATE_BITS))
			continue;
		put_back(ep, it, asked);
		ev = IN_EVENTS;
	}
	fmutex_unlock(&ep->mutex);
	return ev;
}

/* ---- life ---- */

void epoll_forget_file(struct file *f)
{
	if (likely(!__atomic_load_n(&f->epoll_items, __ATOMIC_ACQUIRE)))
		return;
	fmutex_lock(&g_graph);
	struct file_items *fi = f->epoll_items;

	for (;;) {
		struct item *it;
		struct epoll *ep;

		mutex_lock(&f->lock);
		it = LIST_FIRST(&fi->list);
		mutex_unlock(&f->lock);
		if (!it)
			break;
		/* epoll_ctl cannot take it from us, as nobody has the file any more; the death of
		 * the instance cannot, as it takes g_graph. */
		ep = it->ep;
		fmutex_lock(&ep->mutex);
		remove_item(ep, it);
		fmutex_unlock(&ep->mutex);
	}
	f->epoll_items = NULL;
	fmutex_unlock(&g_graph);
	mem_free(fi);
}

static void epoll_free(struct epoll *ep)
{
	htable_fini(&ep->items);
	waitq_fini(&ep->wq);
	mutex_fini(&ep->ready_lock);
	fmutex_fini(&ep->mutex);
	mem_free(ep);
}

static void epoll_release(struct file *f)
{
	struct epoll *ep = f->priv;
	struct item *it;

	fmutex_lock(&g_graph);
	fmutex_lock(&ep->mutex);
	while ((it = LIST_FIRST(&ep->all)) != NULL)
		remove_item(ep, it);
	fmutex_unlock(&ep->mutex);
	fmutex_unlock(&g_graph);
	epoll_free(ep);
}

static size_t epoll_show_fdinfo(struct file *f, char *buf, size_t size)
{
	struct epoll *ep = f->priv;
	struct item *it;
	size_t used = 0;

	fmutex_lock(&ep->mutex);
	LIST_FOREACH (it, &ep->all, of_ep) {
		int n = snprintf(buf + used, size - used,
				 "tfd: %8d events: %8x data: %16lx  pos:%ld ino:%lx sdev:%lx\n",
				 it->fd, item_events(ep, it), (unsigned long)it->data, 0L,
				 (unsigned long)it->file->inode->ino,
				 (unsigned long)it->file->inode->super->dev);

		if (n < 0 || (size_t)n >= size - used)
			break;
		used += (size_t)n;
	}
	fmutex_unlock(&ep->mutex);
	return used;
}

static const struct file_ops g_epoll_ops = {
	.poll = epoll_poll,
	.release = epoll_release,
	.show_fdinfo = epoll_show_fdinfo,
	.lseek = file_lseek_nowhere,
	.stream = true,
};

int epoll_create_file(struct vfs_ctx *c, unsigned flags, struct file **out)
{
	struct epoll *ep;

	if (flags & ~(unsigned)LX_EPOLL_CLOEXEC)
		return -EINVAL;
	ep = mem_zalloc(sizeof(*ep));
	if (!ep)
		return -ENOMEM;
	fmutex_init(&ep->mutex);
	htable_init(&ep->items);
	LIST_INIT(&ep->all);
	LIST_INIT(&ep->inner);
	LIST_INIT(&ep->outer);
	mutex_init(&ep->ready_lock, RANK_READY);
	TAILQ_INIT(&ep->ready);
	waitq_init(&ep->wq);
	/* See "Locking" above. */
	mutex_fini(&ep->wq.lock);
	mutex_init(&ep->wq.lock, RANK_NONE);
	*out = file_new_anon(c, NULL, "anon_inode:[eventpoll]", &g_epoll_ops,
			     FMODE_READ | FMODE_WRITE, LX_O_RDWR, ep);
	if (*out)
		return 0;
	epoll_free(ep);
	return file_new_error();
}

struct file *epoll_find_target(struct file *ep_file, int tfd, unsigned toff)
{
	struct epoll *ep = ep_file->priv;
	struct file *found = NULL;
	struct item *it;

	if (!file_is_epoll(ep_file))
		return NULL;
	fmutex_lock(&ep->mutex);
	LIST_FOREACH (it, &ep->all, of_ep) {
		if (it->fd != tfd || toff-- > 0)
			continue;
		/* A file that is dying waits for ep->mutex to leave. */
		if (ref_get_unless_zero(&it->file->ref))
			found = it->file;
		break;
	}
	fmutex_unlock(&ep->mutex);
	return found;
}
