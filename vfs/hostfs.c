/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs: instances, inodes and their attributes. hostfs_dir.c has names, hostfs_file.c contents,
 * hostfs_fds.c descriptors.
 *
 * Theory of operation: an inode stands for a host file, known by the host's device and inode
 * number, so hard links are one inode. Since the host gives numbers of removed files away again,
 * the file type and, where the host knows it, the time of birth must agree too. Of an immutable
 * tree attributes are read once, at lookup; else the host is asked by each call, once: what the
 * walk to a file was told holds until the end of the call (hnode.known, hnode.seen), unless it
 * sleeps, and in the next calls as long as nothing newer was heard of the host (sights,
 * host_calls.h): who opens what he has just looked at, and asks for its size, has the host asked
 * by the first.
 *
 * What is shown: mode, size, times, nlink and inode number as they are; owners through the map; the
 * device number of the instance is its own.
 *
 * Walls: one component at a time below a directory descriptor, no symlink followed, no ".."
 * (host_calls.c refuses both whatever comes); no device, socket or FIFO of the host is opened;
 * set-id bits cannot be set on host files, and go when one is opened for writing; other mounts
 * below the grant are not entered unless asked for, and pseudo file systems never: a directory of
 * one is shown empty, a file not at all.
 *
 * Deviations from Linux: xattrs are those in user. only; chown to an id outside of the map and
 * mknod of devices are EPERM; RENAME_WHITEOUT is EINVAL.
 */
#include "vfs/hostfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fiber.h"
#include "vfs/dcache.h"
#include "vfs/host_watch.h"
#include "vfs/hostfs_node.h"
#include "vfs/shown.h"

#define NOBODY 65534u

/* ---- owners ---- */

uint32_t hostfs_map_id(const struct hostfs_idmap *map, uint32_t host)
{
	if (!map[0].count)
		return host;
	for (unsigned i = 0; i < HOSTFS_IDMAPS; i++)
		if (host - map[i].host < map[i].count)
			return map[i].guest + (host - map[i].host);
	return NOBODY;
}

bool hostfs_unmap_id(const struct hostfs_idmap *map, uint32_t guest, uint32_t *host)
{
	*host = guest;
	if (!map[0].count)
		return true;
	for (unsigned i = 0; i < HOSTFS_IDMAPS; i++)
		if (!map[i].shown_only && guest - map[i].guest < map[i].count) {
			*host = map[i].host + (guest - map[i].guest);
			return true;
		}
	return false;
}

/* ---- inodes ---- */

/* All files have the instance's st_dev, so those of other mounts need numbers that are not taken.
 */
uint64_t hostfs_show_ino(const struct hostfs_sb *sb, uint64_t dev, uint64_t ino)
{
	/* Not by the keyed hashes: the guest sees it. */
	uint64_t mix = dev;

	if (dev == sb->root_dev)
		return ino;
	return ino ^ ((random_next(&mix) & 0x3fff) | 0x4000) << 48;
}

struct id_key {
	uint64_t dev, ino;
};

static uint64_t id_hash(uint64_t dev, uint64_t ino)
{
	return hash_u64(ino ^ hash_u64(dev));
}

/* Those that are being freed are still in the table; they do not count. */
static bool id_eq(const void *entry, const void *key)
{
	const struct hnode *h = entry;
	const struct id_key *k = key;

	return h->ino == k->ino && h->dev == k->dev && ref_read(&h->inode->ref) > 0;
}

void hostfs_unhash(struct hnode *h)
{
	mutex_lock(&h->sb->lock);
	if (h->in_table)
		htable_remove(&h->sb->by_id, id_hash(h->dev, h->ino), h);
	h->in_table = false;
	mutex_unlock(&h->sb->lock);
}

bool hostfs_same(const struct inode *i, const struct host_stat *st)
{
	const struct hnode *h = hnode_of(i);

	return h->dev == st->dev && h->ino == st->ino &&
	       !((inode_mode(i) ^ st->mode) & LX_S_IFMT) && i->btime == st->btime;
}

/* These are read without the lock; mostly they are as they were: then true. */
static bool set_u32(uint32_t *field, uint32_t value)
{
	if (*field == value)
		return true;
	__atomic_store_n(field, value, __ATOMIC_RELAXED);
	return false;
}

bool hostfs_fill(struct inode *i, const struct host_stat *st)
{
	struct hnode *h = hnode_of(i);
	const struct hostfs_opts *o = &h->sb->opts;

	const uint32_t mode = (inode_mode(i) & LX_S_IFMT) | (st->mode & 07777);
	const bool made = o->root_is_made && st->dev == h->sb->root_dev;
	const uint64_t size = h->blocked ? 0 : st->size;
	bool vain, contents;

	mutex_lock(&i->meta);
	vain = set_u32(&i->mode, h->blocked ? LX_S_IFDIR | 0555 : mode);
	vain &= set_u32(&i->uid, made ? 0 : hostfs_map_id(o->uid_map, st->uid));
	vain &= set_u32(&i->gid, made ? 0 : hostfs_map_id(o->gid_map, st->gid));
	if (i->size != size || i->mtime != st->mtime || i->ctime != st->ctime ||
	    i->atime != st->atime)
		inode_changes(i);
	contents = set_u32(&i->nlink, h->blocked ? 2 : st->nlink) && i->size == size &&
		   i->mtime == st->mtime && i->ctime == st->ctime;
	i->size = size;
	i->blocks = h->blocked ? 0 : st->blocks;
	i->atime = st->atime;
	i->mtime = st->mtime;
	i->ctime = st->ctime;
	h->known = fiber_moment();
	atomic_store(&h->known_sight, st->sight);
	mutex_unlock(&i->meta);
	vain &= contents || LX_S_ISDIR(mode);
	if (!vain)
		hostfs_watch_wrong(h);
	return vain;
}

void hostfs_forget(struct inode *i)
{
	mutex_lock(&i->meta);
	hnode_of(i)->known = 0;
	atomic_store(&hnode_of(i)->known_sight, 0);
	mutex_unlock(&i->meta);
}

/* The walk to a file has just asked for its attributes: mostly they need not be asked for again. */
static bool is_known_locked(struct inode *i)
{
	const uint64_t now = fiber_moment();

	return (now != 0 && hnode_of(i)->known == now) ||
	       host_sight_last(atomic_load(&hnode_of(i)->known_sight));
}

static bool is_known(struct inode *i)
{
	if (host_sight_last(atomic_load(&hnode_of(i)->known_sight)))
		return true;
	mutex_lock(&i->meta);

	const bool known = is_known_locked(i);

	mutex_unlock(&i->meta);
	return known;
}

uint64_t hostfs_known_end(struct inode *i)
{
	mutex_lock(&i->meta);

	const bool known = hnode_of(i)->sb->opts.immutable || is_known_locked(i);
	const uint64_t end = known ? i->size : UINT64_MAX;

	mutex_unlock(&i->meta);
	return end;
}

/* Enough to walk on through it. */
static bool is_known_on_the_way(struct inode *i)
{
	return host_sight_holds(atomic_load(&hnode_of(i)->known_sight)) || is_known(i);
}

static bool has_one_name(const struct inode *i)
{
	return LX_S_ISDIR(inode_mode(i)) || __atomic_load_n(&i->nlink, __ATOMIC_RELAXED) == 1;
}

void hostfs_note_seen(struct hnode *h, const struct host_stat *st, const struct dentry *d)
{
	/* A second name of the file may be looked at by another thread: then neither is seen. */
	atomic_store(&h->seen_sight, 0);
	atomic_store(&h->seen_name, has_one_name(h->inode) ? d : NULL);
	atomic_store(&h->seen, fiber_moment());
	atomic_store(&h->seen_sight, st->sight);
}

/* super_ops.holds */
static bool hostfs_holds(const struct dentry *d)
{
	const struct inode *i = dentry_inode(d);
	const struct hnode *h;
	uint64_t sight;

	if (!i)
		return false;
	h = hnode_of(i);
	if (hostfs_watch_has_name(d))
		return true;
	sight = atomic_load(&h->seen_sight);
	return host_sight_holds(sight) && host_sight_same(atomic_load(&h->known_sight), sight) &&
	       atomic_load(&h->seen_name) == d;
}

bool hostfs_is_seen(const struct hnode *h)
{
	const uint64_t now = fiber_moment();

	return (now != 0 && atomic_load(&h->seen) == now) ||
	       host_sight_holds(atomic_load(&h->seen_sight)) || hostfs_watch_seen(h);
}

static int inode_make(struct hostfs_sb *sb, const struct host_stat *st, bool blocked,
		      struct inode **out)
{
	const uint32_t mode = st->mode & (LX_S_IFMT | 07777);
	struct inode *i = inode_new_with(sb->super, mode, sizeof(struct hnode));
	struct hnode *h;

	if (!i)
		return -ENOMEM;
	h = hnode_of(i);
	h->inode = i;
	h->sb = sb;
	h->dev = st->dev;
	h->ino = st->ino;
	h->blocked = blocked;
	hnode_init_fds(h);
	i->ino = hostfs_show_ino(sb, st->dev, st->ino);
	i->btime = st->btime;
	i->rdev = st->rdev;
	switch (st->mode & LX_S_IFMT) {
	case LX_S_IFDIR:
		i->ops = &g_hostfs_dir_iops;
		i->fops = &g_hostfs_dir_fops;
		break;
	case LX_S_IFREG:
		i->ops = &g_hostfs_file_iops;
		i->fops = &g_hostfs_file_fops;
		break;
	case LX_S_IFLNK:
		i->ops = &g_hostfs_link_iops;
		break;
	default:
		i->ops = &g_hostfs_special_iops;
		break;
	}
	hostfs_fill(i, st);
	*out = i;
	return 0;
}

static void hostfs_inode_free(struct inode *i)
{
	struct hnode *h = hnode_of(i);

	hostfs_unhash(h);
	hnode_windows_fini(h);
	hnode_fini_fds(h);
	mem_free(atomic_load(&h->target));
}

bool hostfs_is_pseudo_magic(uint64_t type)
{
	static const uint32_t magic[] = {
		0x9fa0,     /* proc */ 0x62656572,     /* sysfs */ 0x64626720,      /* debugfs */
		0x74726163, /* tracefs */ 0x27e0eb,    /* cgroup */ 0x63677270,     /* cgroup2 */
		0x1cd1,     /* devpts */ 0x73636673,   /* securityfs */ 0xcafe4a11, /* bpf */
		0x6165676c, /* pstore */ 0xde5e81e4,   /* efivarfs */ 0x19800202,   /* mqueue */
		0x62656570, /* configfs */ 0x958458f6, /* hugetlbfs */ 0x42494e4d, /* binfmt_misc */
		0x6e736673, /* nsfs */ 0x187,          /* autofs */ 0xf97cff8c,    /* selinux */
	};

	for (size_t n = 0; n < ARRAY_SIZE(magic); n++) {
		if (magic[n] == (uint32_t)type)
			return true;
	}
	return false;
}

/* File systems that show the kernel's state, not files. By f_type. */
static bool is_pseudo(int dir_fd, const char *name)
{
	uint64_t sf[8];
	int fd = host_open_at(dir_fd, name, O_PATH, 0);
	/* What cannot be looked at is not shown. */
	bool pseudo = fd < 0 || host_statfs(fd, sf) != 0 || hostfs_is_pseudo_magic(sf[0]);

	host_close(fd);
	return pseudo;
}

/* Something on which something else is mounted, and that we do not enter. Single files are bound to
 * others as a matter of course (/etc/hosts in a container). */
static bool must_block(struct hostfs_sb *sb, struct inode *dir, const char *name,
		       const struct host_stat *st)
{
	bool pseudo;

	if (!name || !st->mount_root)
		return false;
	if (!sb->opts.cross_mounts && LX_S_ISDIR(st->mode))
		return true;
	int fd = hnode_dir_get(hnode_of(dir));

	if (fd < 0)
		return true;
	pseudo = is_pseudo(fd, name);
	hnode_dir_put(hnode_of(dir));
	return pseudo;
}

int hostfs_inode_for(struct inode *dir, const char *name, const struct host_stat *st,
		     struct inode **out)
{
	struct hostfs_sb *sb = hnode_of(dir)->sb;
	struct id_key key = {st->dev, st->ino};
	uint64_t hash = id_hash(st->dev, st->ino);
	struct inode *fresh = NULL, *found = NULL, *stale = NULL;
	bool made = false; /* what was found is as it was told and named */
	int r = 0;

	if (hostfs_is_hidden_file(st->dev, st->ino))
		return -ENOENT;
	for (;;) {
		mutex_lock(&sb->lock);
		struct hnode *h = htable_find(&sb->by_id, hash, id_eq, &key);

		if (h && ref_get_unless_zero(&h->inode->ref)) {
			if (hostfs_same(h->inode, st)) {
				found = h->inode;
			} else {
				/* The number belongs to another file now. */
				htable_remove(&sb->by_id, hash, h);
				h->in_table = false;
				stale = h->inode;
			}
		} else if (fresh) {
			r = htable_insert(&sb->by_id, hash, hnode_of(fresh));
			if (r == 0) {
				hnode_of(fresh)->in_table = true;
				found = fresh;
				fresh = NULL;
				made = true;
			}
		}
		mutex_unlock(&sb->lock);
		if (stale) {
			inode_put(stale);
			stale = NULL;
			continue;
		}
		if (found || r < 0)
			break;
		bool blocked = must_block(sb, dir, name, st);

		if (blocked && !LX_S_ISDIR(st->mode))
			return -ENOENT;
		r = inode_make(sb, st, blocked, &fresh);
		if (r == 0 && name)
			r = hnode_first_name(hnode_of(fresh), dir, name);
		if (r < 0)
			break;
	}
	if (fresh)
		inode_put(fresh);
	if (r == 0 && name && !made)
		r = hnode_set_name(hnode_of(found), dir, name);
	if (r < 0) {
		if (found)
			inode_put(found);
		return r;
	}
	if (!sb->opts.immutable && !made)
		hostfs_fill(found, st);
	if (name)
		hostfs_note_seen(hnode_of(found), st, NULL);
	*out = found;
	return 0;
}

void hostfs_refresh(struct inode *i)
{
	struct hnode *h = hnode_of(i);
	char name[LX_NAME_MAX + 1];
	struct host_stat st;
	struct inode *dir;
	int fd = hnode_any_fd(h);

	if (fd >= 0) {
		if (host_stat_fd(fd, &st) == 0 && hostfs_same(i, &st))
			hostfs_fill(i, &st);
		return;
	}
	hostfs_names_hold(h->sb);
	fd = hnode_parent_get(h, &dir, name);
	if (fd >= 0) {
		if (host_stat_at(fd, name, &st) == 0 && hostfs_same(i, &st))
			hostfs_fill(i, &st);
		hnode_parent_put(dir);
	}
	hostfs_names_release(h->sb);
}

int hostfs_getattr(struct inode *i, struct kstat *out)
{
	struct hnode *h = hnode_of(i);

	if (!h->sb->opts.immutable && !h->blocked && !hostfs_watch_known(h) && !is_known(i))
		hostfs_refresh(i);
	inode_attr(i, out);
	return 0;
}

/* ---- changing attributes ---- */

static int set_mode(struct hnode *h, int fd, uint32_t mode)
{
	int r = host_chmod_fd(fd, mode), type = (int)(inode_mode(h->inode) & LX_S_IFMT);

	if (r != -EOPNOTSUPP || (type != LX_S_IFREG && type != LX_S_IFDIR))
		return r;
	/* A kernel without fchmodat2. */
	fd = hnode_open_read(h);
	if (fd < 0)
		return fd;
	r = host_chmod_fd(fd, mode);
	host_close(fd);
	return r;
}

int hostfs_drop_set_id(struct inode *i)
{
	const uint32_t mode = inode_mode(i), group = LX_S_ISGID | 010;
	uint32_t drop = (mode & LX_S_ISUID) | ((mode & group) == group ? LX_S_ISGID : 0);
	int fd, r;

	if (!drop || !LX_S_ISREG(mode))
		return 0;
	fd = hnode_handle(hnode_of(i));
	if (fd < 0)
		return fd;
	r = set_mode(hnode_of(i), fd, mode & 07777 & ~drop);
	host_close(fd);
	hostfs_refresh(i);
	return r;
}

int hostfs_setattr(struct vfs_ctx *c, struct inode *i, const struct iattr *attr)
{
	struct hnode *h = hnode_of(i);
	const struct hostfs_opts *o = &h->sb->opts;
	uint32_t uid = UINT32_MAX, gid = UINT32_MAX, mode = attr->mode & 07777, old = inode_mode(i);
	int fd = -1, r = 0;

	(void)c;
	if (h->blocked || !o->writable)
		return -EROFS;
	/* First all that may be refused by us. */
	if ((attr->valid & ATTR_UID) && attr->uid != i->uid &&
	    !hostfs_unmap_id(o->uid_map, attr->uid, &uid))
		return -EPERM;
	if ((attr->valid & ATTR_GID) && attr->gid != i->gid &&
	    !hostfs_unmap_id(o->gid_map, attr->gid, &gid))
		return -EPERM;
	/* No set-id program for the host's other users. */
	uint32_t set_id = LX_S_ISDIR(old) ? LX_S_ISUID : LX_S_ISUID | LX_S_ISGID;

	if ((attr->valid & ATTR_MODE) && (mode & set_id & ~old))
		return -EPERM;
	if (attr->valid & ATTR_SIZE) {
		r = hostfs_drop_set_id(i);
		fd = r < 0 ? r : hnode_file_get(h, true);
		if (fd < 0)
			return fd;
		const struct hostfs_id id = hnode_id(h);

		r = room_truncate(&id, &h->end, fd, attr->size);
		hnode_file_put(h);
	}
	if (r == 0 && (attr->valid & (ATTR_UID | ATTR_GID | ATTR_MODE | ATTR_ATIME | ATTR_MTIME))) {
		/* A descriptor, not the name: that may be another file's by now. */
		fd = hnode_handle(h);
		r = MIN(fd, 0);
		if (r == 0 && (uid != UINT32_MAX || gid != UINT32_MAX))
			r = host_chown_fd(fd, uid, gid);
		if (r == 0 && (attr->valid & ATTR_MODE) && !LX_S_ISLNK(old))
			r = set_mode(h, fd, mode);
		if (r == 0 && (attr->valid & (ATTR_ATIME | ATTR_MTIME)))
			r = host_utimes_fd(fd, attr->valid & ATTR_ATIME ? attr->atime : INT64_MIN,
					   attr->valid & ATTR_MTIME ? attr->mtime : INT64_MIN);
		host_close(fd);
	}
	hostfs_refresh(i);
	return r;
}

/* ---- extended attributes: user.* ---- */

static bool user_space(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && name[5];
}

static bool may_have_xattrs(const struct inode *i)
{
	return (LX_S_ISREG(inode_mode(i)) || LX_S_ISDIR(inode_mode(i))) && !hnode_of(i)->blocked;
}

ssize_t hostfs_getxattr(struct inode *i, const char *name, void *buf, size_t size)
{
	if (strncmp(name, "system.", 7) == 0)
		return -EOPNOTSUPP;
	if (!user_space(name) || !may_have_xattrs(i))
		return -ENODATA;
	int fd = hnode_open_read(hnode_of(i));

	if (fd < 0)
		return fd == -EACCES ? -ENODATA : fd;
	ssize_t r = host_getxattr(fd, name, buf, size);

	host_close(fd);
	return r == -EOPNOTSUPP ? -ENODATA : r;
}

int hostfs_setxattr(struct inode *i, const char *name, const void *value, size_t size, int flags)
{
	if (!hnode_of(i)->sb->opts.writable)
		return -EROFS;
	if (!user_space(name) || !may_have_xattrs(i))
		return value ? -EOPNOTSUPP : -ENODATA;
	int fd = hnode_open_read(hnode_of(i));

	if (fd < 0)
		return fd;
	int r = value ? host_setxattr(fd, name, value, size, flags) : host_removexattr(fd, name);

	host_close(fd);
	return r;
}

ssize_t hostfs_listxattr(struct inode *i, char *buf, size_t size)
{
	char *all = NULL;
	ssize_t n = 0, kept = 0;
	int fd;

	if (!may_have_xattrs(i))
		return 0;
	fd = hnode_open_read(hnode_of(i));
	if (fd < 0)
		return fd == -EACCES ? 0 : fd;
	n = host_listxattr(fd, NULL, 0);
	if (n > 0) {
		all = mem_zalloc((size_t)n);
		n = all ? host_listxattr(fd, all, (size_t)n) : -ENOMEM;
	}
	host_close(fd);
	for (ssize_t at = 0; n > 0 && at < n;) {
		size_t len = strnlen(all + at, (size_t)(n - at)) + 1;

		if (user_space(all + at)) {
			if (size && (size_t)kept + len <= size)
				memcpy(buf + kept, all + at, len);
			kept += (ssize_t)len;
		}
		at += (ssize_t)len;
	}
	mem_free(all);
	if (n < 0)
		return n == -EOPNOTSUPP ? 0 : n;
	return size && (size_t)kept > size ? -ERANGE : kept;
}

/* ---- instances ---- */

static void hostfs_free(struct super *s)
{
	struct hostfs_sb *sb = s->priv;

	for (char **n = sb->only; n && *n; n++)
		mem_free(*n);
	mem_free(sb->only);
	htable_fini(&sb->by_id);
	mutex_fini(&sb->lock);
	frwlock_fini(&sb->names);
	mem_free(sb);
}

static int hostfs_statfs(struct super *s, struct kstatfs *out)
{
	uint64_t v[8];
	int fd = hnode_dir_get(hnode_of(s->root->inode));
	int r = fd < 0 ? fd : host_statfs(fd, v);

	if (fd >= 0)
		hnode_dir_put(hnode_of(s->root->inode));
	if (r == 0)
		*out = (struct kstatfs){.type = v[0],
					.bsize = v[1],
					.blocks = v[2],
					.bfree = v[3],
					.bavail = v[4],
					.files = v[5],
					.ffree = v[6],
					.namelen = v[7],
					.frsize = v[1]};
	return r;
}

/* Is the name still the same file? */
static bool hostfs_revalidate(struct dentry *d)
{
	char name[LX_NAME_MAX + 1];
	struct inode *i = dentry_inode(d), *dir;
	struct host_stat st;
	struct hnode_ask ask;
	bool same = false;

	if (!i)
		return false;
	if (d->parent == d || (host_watch_now() != 0 && hostfs_watch_has_name(d)))
		return true;
	struct dentry *parent = dentry_get_parent(d);

	dir = dentry_inode(parent);
	dentry_copy_name(d, name, sizeof(name));
	if (dir && host_sight_holds(atomic_load(&hnode_of(i)->seen_sight)) &&
	    is_known_on_the_way(i) && hnode_has_name(hnode_of(i), dir, name)) {
		if (has_one_name(i))
			atomic_store(&hnode_of(i)->seen_name, d);
		dentry_put(parent);
		return true;
	}
	int fd = dir ? hnode_dir_get(hnode_of(dir)) : -ENOENT;

	if (fd >= 0) {
		ask = (struct hnode_ask){
			.dir = hnode_of(dir), .d = d, .h = hnode_of(i), .name = name};
		hostfs_watch_ask(&ask, fd);
		same = host_stat_at(fd, name, &st) == 0 && hostfs_same(i, &st);
		if (same && hnode_set_name(hnode_of(i), dir, name) == 0) {
			const bool vain = hostfs_fill(i, &st);

			hostfs_note_seen(hnode_of(i), &st, d);
			hostfs_watch_told(&ask, fd, &st, vain);
		}
		hnode_dir_put(hnode_of(dir));
	}
	if (!same)
		host_watch_differs();
	dentry_put(parent);
	return same;
}

static int hostfs_sync(struct super *s)
{
	struct hnode *root = hnode_of(s->root->inode);
	int fd = root->sb->opts.writable ? hnode_open_read(root) : 0, r;

	if (fd <= 0)
		return fd;
	r = host_syncfs_wait(fd);
	host_close(fd);
	return r;
}

static const struct super_ops g_hostfs_super_ops = {
	.free = hostfs_free,
	.statfs = hostfs_statfs,
	.inode_free = hostfs_inode_free,
	.revalidate = hostfs_revalidate,
	.holds = hostfs_holds,
	.sync = hostfs_sync,
};

const struct fs_type g_hostfs_type = {.name = "hostfs", .nodev = true};

static int copy_names(struct hostfs_sb *sb, const char *const *only)
{
	size_t n = 0;

	if (!only)
		return 0;
	while (only[n])
		n++;
	sb->only = mem_calloc(n + 1, sizeof(*sb->only));
	if (!sb->only)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		sb->only[i] = mem_strdup(only[i]);
		if (!sb->only[i])
			return -ENOMEM;
	}
	return 0;
}

/* Does each change of a file show in its ctime, by the host's clock? Not on xfs and f2fs: there two
 * files that change places may keep theirs. */
static bool keeps_ctime(uint64_t magic)
{
	return magic == 0xef53 /* ext4 */ || magic == 0x9123683e /* btrfs */ ||
	       magic == 0x01021994 /* tmpfs */;
}

bool hostfs_name_allowed(const struct inode *dir, const char *name, size_t len)
{
	const struct hnode *h = hnode_of(dir);
	const struct hostfs_sb *sb = h->sb;

	if (hostfs_is_hidden_name(h->dev, h->ino, name, len))
		return false;
	if (!sb->only || dir != sb->super->root->inode)
		return true;
	for (char **n = sb->only; *n; n++)
		if (strlen(*n) == len && memcmp(*n, name, len) == 0)
			return true;
	return false;
}

int hostfs_new(int dir_fd, const struct hostfs_opts *o, struct super **out)
{
	struct hostfs_sb *sb;
	struct super *s;
	struct host_stat st;
	struct inode *root = NULL;
	uint64_t sf[8];
	int r;

	if (o->writable && o->immutable)
		return -EINVAL;
	r = host_stat_fd(dir_fd, &st);
	if (r < 0)
		return r;
	if (!LX_S_ISDIR(st.mode))
		return -ENOTDIR;
	/* Whatever a launcher lets pass: it would be the sentry's own /proc. */
	if (host_statfs(dir_fd, sf) != 0 || hostfs_is_pseudo_magic(sf[0]))
		return -EPERM;
	sb = mem_zalloc(sizeof(*sb));
	s = sb ? super_new(&g_hostfs_type, &g_hostfs_super_ops) : NULL;
	if (!s) {
		mem_free(sb);
		return -ENOMEM;
	}
	sb->super = s;
	sb->root_dev = st.dev;
	sb->host_uid = host_own_uid();
	sb->may_watch = o->watch && !o->immutable && hostfs_may_watch(sf[0]);
	if (sb->may_watch)
		hostfs_watch_begin();
	if (keeps_ctime(sf[0]))
		host_sight_trust(st.dev);
	sb->opts = *o;
	sb->opts.only = NULL;
	sb->opts.source = NULL;
	mutex_init(&sb->lock, RANK_MISC);
	frwlock_init(&sb->names);
	room_start();
	htable_init(&sb->by_id);
	s->priv = sb;
	snprintf(s->source, sizeof(s->source), "%s", o->source ? o->source : "host");
	if (!o->writable)
		s->flags |= SUPER_RDONLY;
	if (!o->immutable)
		s->flags |= SUPER_REVALIDATE | SUPER_NOCACHE_NEG;
	s->blocksize = st.blksize;
	s->magic = sf[0];
	r = copy_names(sb, o->only);
	if (r == 0)
		r = inode_make(sb, &st, false, &root);
	if (r != 0)
		goto fail;
	struct hnode *h = hnode_of(root);

	h->dir_fd = host_dup(dir_fd);
	h->dir_pins = 1; /* for good: it is what all others are opened from */
	r = h->dir_fd < 0 ? h->dir_fd : htable_insert(&sb->by_id, id_hash(st.dev, st.ino), h);
	if (r < 0) {
		inode_put(root);
		goto fail;
	}
	h->in_table = true;
	s->root = dentry_new_root(s, root);
	if (!s->root) {
		r = -ENOMEM;
		goto fail;
	}
	*out = s;
	return 0;
fail:
	super_put(s);
	return r;
}

bool hostfs_is(const struct super *s)
{
	return s->ops == &g_hostfs_super_ops;
}

bool hostfs_parent(struct inode *i, struct inode **dir, const char **name)
{
	*dir = hnode_of(i)->parent;
	*name = hnode_of(i)->name;
	return *dir != NULL;
}
