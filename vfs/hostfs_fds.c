/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs: names and descriptors of host files.
 *
 * Theory of operation: every inode knows where it was last found: its directory's inode and the
 * name there. So a descriptor is a cache: it can be closed at any time nobody uses it and be opened
 * again, from the nearest directory that is open, one component after the other, and each is
 * checked to be still the same file (device and inode number). That is done in a loop, since trees
 * may be thousands deep.
 *
 * Directories are opened O_PATH: enough for lookups, and needs no read permission. Files are opened
 * when a guest opens them, and stay open while one has them open; afterwards they stay on a list of
 * bounded length, but for those that can be written: what guests have written and closed, and none
 * still reads, the host may execute at once. Those that are one too many are closed when the guest
 * has its answer (worker_later), while it goes on.
 *
 * An inode's reference to its directory's may be the last one, and so on up: what is to be put is
 * queued, so that the depth of the host's tree is not the depth of our stack.
 *
 * Locking: g_host_fds.lock for everything here; no host call under it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "base/fiber.h"
#include "base/lx_fcntl.h"
#include "vfs/host_watch.h"
#include "vfs/hostfs_node.h"

TAILQ_HEAD(hnode_list, hnode);

/* Deeper than any path that can be walked; a chain of names that is longer is a knot. */
#define DEPTH_MAX 200000u
/* So many descriptors of files may be too many for a moment. */
#define LATER_MAX 16u

struct put_later {
	SLIST_ENTRY(put_later) link;
	struct inode *inode;
};

static struct {
	struct mutex lock;
	struct hnode_list dirs, files;  /* unused ones, the least recently used first */
	unsigned dir_count, file_count; /* of those */
	unsigned dir_max, file_max;
	SLIST_HEAD(, put_later) put_later;
	bool putting;
} g_host_fds = {
	.lock = MUTEX_INIT(RANK_MISC),
	.dirs = TAILQ_HEAD_INITIALIZER(g_host_fds.dirs),
	.files = TAILQ_HEAD_INITIALIZER(g_host_fds.files),
	.dir_max = 2000,
	.file_max = 1000,
};

void hostfs_set_limits(unsigned dirs, unsigned files)
{
	g_host_fds.dir_max = dirs;
	g_host_fds.file_max = files;
}

/* inode_put without recursion. */
static void put_flat(struct inode *i)
{
	struct put_later *p;

	if (!i)
		return;
	/* The common case: not the last one. */
	uint32_t n = atomic_load(&i->ref.count);

	while (n > 1 && n < UINT32_C(0x80000000)) /* saturated ones stay */
		if (atomic_compare_exchange_weak(&i->ref.count, &n, n - 1))
			return;
	p = mem_zalloc(sizeof(*p));
	if (!p) {
		inode_put(i); /* no memory: deep stacks are the lesser evil than a leak */
		return;
	}
	p->inode = i;
	mutex_lock(&g_host_fds.lock);
	SLIST_INSERT_HEAD(&g_host_fds.put_later, p, link);
	if (g_host_fds.putting) {
		mutex_unlock(&g_host_fds.lock);
		return;
	}
	g_host_fds.putting = true;
	while ((p = SLIST_FIRST(&g_host_fds.put_later))) {
		SLIST_REMOVE_HEAD(&g_host_fds.put_later, link);
		mutex_unlock(&g_host_fds.lock);
		inode_put(p->inode);
		mem_free(p);
		mutex_lock(&g_host_fds.lock);
	}
	g_host_fds.putting = false;
	mutex_unlock(&g_host_fds.lock);
}

void hnode_init_fds(struct hnode *h)
{
	h->dir_fd = h->rfd = h->wfd = -1;
}

/* Does not look at the inode, which is cold by the time that a descriptor is given up. */
static void uncache_locked(struct hnode *h)
{
	if (h->listed == LISTED_DIR) {
		TAILQ_REMOVE(&g_host_fds.dirs, h, lru);
		g_host_fds.dir_count--;
	} else if (h->listed == LISTED_FILE) {
		TAILQ_REMOVE(&g_host_fds.files, h, lru);
		g_host_fds.file_count--;
	}
	h->listed = LISTED_NOT;
}

/* What was taken out of an hnode, to be closed without the lock. */
struct closing {
	int fd[3];
	uint64_t key[2];
};

static void take_fds_locked(struct hnode *h, struct closing *c)
{
	*c = (struct closing){{h->dir_fd, h->rfd, h->wfd}, {h->rkey, h->wkey}};
	h->dir_fd = h->rfd = h->wfd = -1;
	h->rkey = h->wkey = 0;
	uncache_locked(h);
}

/* Nobody has it open: what it was written by goes. */
static void take_writer_locked(struct hnode *h, struct closing *c)
{
	*c = (struct closing){{-1, -1, h->wfd}, {0, h->wkey}};
	h->wfd = -1;
	h->wkey = 0;
}

static void close_all(const struct closing *c)
{
	host_map_key_gone(c->key[0]);
	host_map_key_gone(c->key[1]);
	for (size_t i = 0; i < ARRAY_SIZE(c->fd); i++)
		host_close(c->fd[i]);
}

void hnode_fini_fds(struct hnode *h)
{
	struct closing c;

	mutex_lock(&g_host_fds.lock);
	take_fds_locked(h, &c);
	struct inode *parent = h->parent;

	h->parent = NULL;
	mutex_unlock(&g_host_fds.lock);
	close_all(&c);
	mem_free(h->name);
	h->name = NULL;
	put_flat(parent);
}

/* Nobody uses the descriptors now: keep them a while. */
static void cache_locked(struct hnode *h)
{
	if (h->listed != LISTED_NOT)
		return;
	if (h->dir_fd >= 0) {
		TAILQ_INSERT_TAIL(&g_host_fds.dirs, h, lru);
		g_host_fds.dir_count++;
		h->listed = LISTED_DIR;
	} else if (h->rfd >= 0 || h->wfd >= 0) {
		TAILQ_INSERT_TAIL(&g_host_fds.files, h, lru);
		g_host_fds.file_count++;
		h->listed = LISTED_FILE;
	}
}

static void trim(unsigned dir_max, unsigned file_max)
{
	struct closing c;
	bool more;

	do {
		struct hnode *h = NULL;

		mutex_lock(&g_host_fds.lock);
		if (g_host_fds.dir_count > dir_max)
			h = TAILQ_FIRST(&g_host_fds.dirs);
		else if (g_host_fds.file_count > file_max)
			h = TAILQ_FIRST(&g_host_fds.files);
		more = h != NULL;
		if (h)
			take_fds_locked(h, &c);
		mutex_unlock(&g_host_fds.lock);
		if (more)
			close_all(&c);
	} while (more);
}

/* Opens below a directory; out of descriptors, our caches give theirs back first. */
static int open_below(int dir, const char *name, int flags)
{
	int fd = host_open_at(dir, name, flags, 0);

	if (fd == -ENFILE) {
		trim(0, 0);
		fd = host_open_at(dir, name, flags, 0);
	}
	return fd;
}

/* Is the open @fd the file that @h is? Then its attributes are known, too. */
static int check_same(struct hnode *h, int fd)
{
	struct host_stat st;
	int r = host_stat_fd(fd, &st);

	if (r < 0)
		return r;
	if (!hostfs_same(h->inode, &st))
		return -ESTALE;
	if (!h->sb->opts.immutable)
		hostfs_fill(h->inode, &st);
	return 0;
}

/* ---- directories ---- */

static void dir_put_locked(struct hnode *h)
{
	if (--h->dir_pins == 0)
		cache_locked(h);
}

void hnode_dir_put(struct hnode *h)
{
	mutex_lock(&g_host_fds.lock);
	dir_put_locked(h);
	bool over = g_host_fds.dir_count > g_host_fds.dir_max;

	mutex_unlock(&g_host_fds.lock);
	if (over)
		trim(g_host_fds.dir_max, UINT32_MAX);
}

/* The descriptor, pinned, if it is open. */
static int dir_get_locked(struct hnode *h)
{
	if (h->dir_fd < 0)
		return -EBADF;
	uncache_locked(h);
	h->dir_pins++;
	return h->dir_fd;
}

/* Opens directory @h below @up, which is pinned; the pin moves from @up to @h. */
static int step_down(struct hnode *up, int up_fd, struct hnode *h, const char *name)
{
	int fd = open_below(up_fd, name, O_PATH | O_DIRECTORY);
	int r = fd < 0 ? fd : check_same(h, fd);

	if (r < 0) {
		host_close(fd);
		hnode_dir_put(up);
		return r;
	}
	mutex_lock(&g_host_fds.lock);
	r = dir_get_locked(h);
	if (r < 0) {
		h->dir_fd = fd;
		fd = -1;
		r = dir_get_locked(h);
	}
	mutex_unlock(&g_host_fds.lock);
	host_close(fd); /* somebody else was faster */
	hnode_dir_put(up);
	return r;
}

/* The directories from @h up to the last one that is not open, with references; *up, pinned, is the
 * open one above. At most
 * @cap of them: else -ENOBUFS with the number in *count. */
static int collect_way(struct hnode *h, struct inode **way, unsigned cap, unsigned *count,
		       struct hnode **up, int *up_fd)
{
	int r = 0;

	*count = 0;
	mutex_lock(&g_host_fds.lock);
	for (struct hnode *d = h; d->dir_fd < 0; d = hnode_of(d->parent)) {
		/* Without a parent and not open: it was removed. */
		if (!d->parent || *count == DEPTH_MAX) {
			r = -ENOENT;
			break;
		}
		if (*count < cap)
			way[*count] = d->inode;
		(*count)++;
		*up = hnode_of(d->parent);
	}
	if (r == 0 && *count > cap)
		r = -ENOBUFS;
	if (r == 0) {
		for (unsigned n = 0; n < *count; n++)
			inode_get(way[n]);
		if (*count == 0)
			*up = h;
		*up_fd = dir_get_locked(*up);
	}
	mutex_unlock(&g_host_fds.lock);
	return r;
}

/* The name of @h, if it still stands in @dir. */
static int name_in(struct hnode *h, struct inode *dir, char *name)
{
	int r = -ESTALE;

	mutex_lock(&g_host_fds.lock);
	if (h->parent == dir) {
		memcpy(name, h->name, strlen(h->name) + 1);
		r = 0;
	}
	mutex_unlock(&g_host_fds.lock);
	return r;
}

/* hostfs_opts.public_only: may anybody of the host do with @h what @bits say? */
static bool hidden(const struct hnode *h, uint32_t bits)
{
	if (!h->sb->opts.public_only || (h->inode->mode & bits) == bits)
		return false;
	vfs_denied(VFS_DENIED_PRIVATE, NULL);
	return true;
}

int hnode_dir_get(struct hnode *h)
{
	char name[LX_NAME_MAX + 1];
	struct inode *few[16], **way = few;
	unsigned cap = ARRAY_SIZE(few), count;
	struct hnode *up = NULL;
	int fd, r;

	if (hidden(h, 05))
		return -EACCES;
	while ((r = collect_way(h, way, cap, &count, &up, &fd)) == -ENOBUFS) {
		if (way != few)
			mem_free(way);
		cap = count + 16;
		way = mem_calloc(cap, sizeof(*way));
		if (!way)
			return -ENOMEM;
	}
	if (r == 0) {
		r = fd;
		for (unsigned n = count; n > 0; n--) {
			struct hnode *d = hnode_of(way[n - 1]);

			if (r >= 0) {
				int named = name_in(d, up->inode, name);

				if (named == 0) {
					r = step_down(up, r, d, name);
				} else {
					hnode_dir_put(up);
					r = named;
				}
			}
			up = d;
		}
		for (unsigned n = 0; n < count; n++)
			put_flat(way[n]);
	}
	if (way != few)
		mem_free(way);
	return r == -ESTALE ? -ENOENT : r;
}

int hnode_parent_get(struct hnode *h, struct inode **dir, char *name)
{
	struct inode *parent = NULL;

	mutex_lock(&g_host_fds.lock);
	if (h->parent) {
		parent = inode_get(h->parent);
		memcpy(name, h->name, strlen(h->name) + 1);
	}
	mutex_unlock(&g_host_fds.lock);
	if (!parent)
		return -ENOENT;
	int fd = hnode_dir_get(hnode_of(parent));

	if (fd < 0) {
		put_flat(parent);
		return fd;
	}
	*dir = parent;
	return fd;
}

void hnode_parent_put(struct inode *dir)
{
	hnode_dir_put(hnode_of(dir));
	put_flat(dir);
}

/* ---- names ---- */

int hnode_first_name(struct hnode *h, struct inode *dir, const char *name)
{
	h->name = mem_strdup(name);
	if (!h->name)
		return -ENOMEM;
	h->parent = inode_get(dir);
	return 0;
}

int hnode_set_name(struct hnode *h, struct inode *dir, const char *name)
{
	bool same;

	mutex_lock(&g_host_fds.lock);
	same = h->parent == dir && strcmp(h->name, name) == 0;
	mutex_unlock(&g_host_fds.lock);
	if (same)
		return 0;
	char *copy = mem_strdup(name);

	if (!copy)
		return -ENOMEM;
	inode_get(dir);
	mutex_lock(&g_host_fds.lock);
	struct inode *old_parent = h->parent, *knot = NULL;
	char *old_name = h->name;

	/* It has moved, or has two names. */
	hostfs_watch_forget(h);
	if (old_name)
		host_watch_differs();
	h->parent = dir;
	h->name = copy;
	/* The host may have moved an ancestor of ours below us, and we remember where it was: a
	 * ring. */
	if (LX_S_ISDIR(inode_mode(h->inode))) {
		struct hnode *d = hnode_of(dir);

		while (d->parent && d->parent != h->inode)
			d = hnode_of(d->parent);
		knot = d->parent;
		d->parent = NULL;
	}
	mutex_unlock(&g_host_fds.lock);
	mem_free(old_name);
	put_flat(old_parent);
	put_flat(knot);
	return 0;
}

bool hnode_has_name(struct hnode *h, const struct inode *dir, const char *name)
{
	mutex_lock(&g_host_fds.lock);

	const bool same = h->parent == dir && strcmp(h->name, name) == 0;

	mutex_unlock(&g_host_fds.lock);
	return same;
}

void hnode_clear_name(struct hnode *h, struct inode *dir, const char *name)
{
	struct inode *parent = NULL;
	char *old = NULL;

	mutex_lock(&g_host_fds.lock);
	if (h->parent == dir && strcmp(h->name, name) == 0) {
		parent = h->parent;
		old = h->name;
		h->parent = NULL;
		h->name = NULL;
		hostfs_watch_forget(h);
	}
	mutex_unlock(&g_host_fds.lock);
	mem_free(old);
	put_flat(parent);
}

void hnode_swap_names(struct hnode *a, struct hnode *b)
{
	mutex_lock(&g_host_fds.lock);
	struct inode *parent = a->parent;
	char *name = a->name;

	a->parent = b->parent;
	a->name = b->name;
	b->parent = parent;
	b->name = name;
	mutex_unlock(&g_host_fds.lock);
}

/* ---- contents ---- */

/* Opens @h anew by its name; with O_PATH of any type, else a regular file. What is not that file is
 * closed again at once. */
static int open_by_name(struct hnode *h, int flags)
{
	char name[LX_NAME_MAX + 1];
	struct host_stat st;
	struct inode *dir;
	int r;

	hostfs_names_hold(h->sb);
	int dir_fd = hnode_parent_get(h, &dir, name);

	if (dir_fd < 0) {
		hostfs_names_release(h->sb);
		return dir_fd;
	}
	/* Look before opening, unless the walk has just done it: opening a device has effects. What
	 * may change in between is caught by O_NONBLOCK and the check after; mounts of grants
	 * should be nodev besides. */
	r = 0;
	if (!hostfs_is_seen(h)) {
		r = host_stat_at(dir_fd, name, &st);
		if (r == 0 && !hostfs_same(h->inode, &st))
			r = -ESTALE;
	}
	if (r == 0)
		r = open_below(dir_fd, name, flags);
	hnode_parent_put(dir);
	hostfs_names_release(h->sb);
	if (r >= 0) {
		int same = check_same(h, r);

		if (same < 0) {
			host_close(r);
			r = same;
		}
	}
	return r;
}

int hnode_handle(struct hnode *h)
{
	int fd, r;

	if (LX_S_ISDIR(inode_mode(h->inode))) {
		fd = hnode_dir_get(h);
		if (fd < 0)
			return fd;
		r = host_dup(fd);
		hnode_dir_put(h);
		return r;
	}
	/* A file that is open may have no name any more. */
	mutex_lock(&g_host_fds.lock);
	fd = h->rfd >= 0 ? h->rfd : h->wfd;
	if (fd >= 0) {
		uncache_locked(h);
		h->opens++;
	}
	mutex_unlock(&g_host_fds.lock);
	if (fd >= 0) {
		r = host_dup(fd);
		hnode_file_put(h);
		return r;
	}
	r = open_by_name(h, O_PATH);
	return r == -ESTALE ? -ENOENT : r;
}

int hnode_open_read(struct hnode *h)
{
	if (!LX_S_ISDIR(inode_mode(h->inode)))
		return hidden(h, 04) ? -EACCES : open_by_name(h, O_RDONLY);
	int dir = hnode_dir_get(h);

	if (dir < 0)
		return dir;
	int fd = open_below(dir, ".", O_RDONLY | O_DIRECTORY);

	hnode_dir_put(h);
	return fd;
}

/* One more has the file open. */
static void held_locked(struct hnode *h)
{
	uncache_locked(h);
	h->opens++;
	hostfs_watch_forget(h);
}

int hnode_file_get(struct hnode *h, bool write)
{
	int fd, r;
	bool readable = true;

	if (hidden(h, 04))
		return -EACCES;
	mutex_lock(&g_host_fds.lock);
	fd = write ? h->wfd : h->rfd >= 0 ? h->rfd : h->w_readable ? h->wfd : -1;
	if (fd >= 0)
		held_locked(h);
	mutex_unlock(&g_host_fds.lock);
	if (fd >= 0)
		return fd;
	r = open_by_name(h, write ? O_RDWR : O_RDONLY);
	if (r == -EACCES && write) {
		readable = false;
		r = open_by_name(h, O_WRONLY);
	}
	if (r < 0)
		return r == -ESTALE ? -ENOENT : r;
	mutex_lock(&g_host_fds.lock);
	int *slot = write ? &h->wfd : &h->rfd;

	if (*slot < 0) {
		*slot = r;
		if (write)
			h->w_readable = readable;
		r = -1;
	}
	fd = *slot;
	held_locked(h);
	mutex_unlock(&g_host_fds.lock);
	host_close(r);
	if (write)
		hostfs_watch_stop(h, fd);
	return fd;
}

static void trim_files(void)
{
	trim(UINT32_MAX, g_host_fds.file_max);
}

void hnode_file_put(struct hnode *h)
{
	struct closing c = {{-1, -1, -1}, {0, 0}};
	unsigned over = 0;

	mutex_lock(&g_host_fds.lock);
	BUG_ON(h->opens == 0);
	if (--h->opens == 0) {
		take_writer_locked(h, &c);
		cache_locked(h);
	}
	if (g_host_fds.file_count > g_host_fds.file_max)
		over = g_host_fds.file_count - g_host_fds.file_max;
	mutex_unlock(&g_host_fds.lock);
	if (c.fd[2] >= 0)
		close_all(&c);
	/* The guest that closes one need not wait until another, long unused, is closed. */
	if (over > LATER_MAX)
		trim_files();
	else if (over)
		worker_later(trim_files);
}

void hnode_adopt_fd(struct hnode *h, int fd)
{
	const struct hostfs_id id = hnode_id(h);

	room_fresh(&id, &h->end);
	mutex_lock(&g_host_fds.lock);
	if (h->wfd < 0) {
		h->wfd = fd;
		h->w_readable = true;
		fd = -1;
		if (h->opens == 0)
			cache_locked(h);
	}
	mutex_unlock(&g_host_fds.lock);
	host_close(fd);
}

int hnode_any_fd(struct hnode *h)
{
	mutex_lock(&g_host_fds.lock);
	int fd = h->opens == 0 && h->dir_pins == 0 ? -1
		 : h->dir_fd >= 0                  ? h->dir_fd
		 : h->rfd >= 0                     ? h->rfd
						   : h->wfd;

	mutex_unlock(&g_host_fds.lock);
	return fd;
}

int hnode_lock_fd(struct hnode *h, bool writing, int type)
{
	int fd;

	mutex_lock(&g_host_fds.lock);
	if (writing)
		fd = type == LX_F_RDLCK && !h->w_readable ? -1 : h->wfd;
	else
		fd = type == LX_F_WRLCK ? -1 : h->rfd;
	if (h->opens == 0)
		fd = -1;
	mutex_unlock(&g_host_fds.lock);
	return fd < 0 ? -ENOLCK : fd;
}

uint64_t hnode_map_key(struct hnode *h, int fd)
{
	mutex_lock(&g_host_fds.lock);
	uint64_t *key = fd == h->wfd ? &h->wkey : &h->rkey;

	if (!*key)
		*key = host_map_key_new();
	uint64_t k = *key;

	mutex_unlock(&g_host_fds.lock);
	return k;
}
