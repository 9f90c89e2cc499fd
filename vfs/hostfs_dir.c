/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostfs: names. Lookup, creation, removal, renames, and reading of directories.
 *
 * Theory of operation: one host call below the directory's descriptor does the work; then our own
 * picture follows (what somebody of the host put under that name meanwhile is shown, but neither
 * given away nor opened up: made()): the inode of what was made is the one of what the host shows
 * under that name, and attributes are asked again. A new file belongs to the guest's user where the
 * map has him and the host lets us give it away, else to the user that runs moat.
 *
 * A FIFO or a socket that a guest makes is made on the host too, so that others see its name, but
 * it connects guests only; it keeps its inode in memory, since that is what it is. Those that the
 * host made cannot be opened.
 *
 * Readdir gives out the host's own positions, so they are as stable as the host's. Each open
 * directory has its own host descriptor and a buffer.
 *
 * Locking: inode->lock of the directories, held by the caller.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/lx_fcntl.h"
#include "vfs/dcache.h"
#include "vfs/hostfs_node.h"

/* One operation on a name: the directory's descriptor and the name with its NUL. */
struct place {
	struct hnode *dir;
	int fd;
	char name[LX_NAME_MAX + 1];
};

static int place_get(struct place *p, struct inode *dir, const char *name, size_t len)
{
	p->dir = hnode_of(dir);
	if (len > LX_NAME_MAX)
		return -ENAMETOOLONG;
	if (p->dir->blocked || !hostfs_name_allowed(dir, name, len))
		return -ENOENT;
	memcpy(p->name, name, len);
	p->name[len] = '\0';
	p->fd = hnode_dir_get(p->dir);
	return MIN(p->fd, 0);
}

static void place_put(struct place *p)
{
	hnode_dir_put(p->dir);
}

/* As place_get, for an operation that writes. */
static int place_get_write(struct place *p, struct inode *dir, const char *name, size_t len)
{
	int r;

	if (!hnode_of(dir)->sb->opts.writable || hnode_of(dir)->blocked)
		return -EROFS;
	r = place_get(p, dir, name, len);
	if (r == 0)
		hostfs_watch_stop(p->dir, p->fd);
	return r == -ENOENT && !hostfs_name_allowed(dir, name, len) ? -EACCES : r;
}

static int dir_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	struct host_stat st;
	struct place p;
	int r = place_get(&p, dir, name, len);

	if (r < 0)
		return r;
	r = host_stat_at(p.fd, p.name, &st);
	place_put(&p);
	return r < 0 ? r : hostfs_inode_for(dir, p.name, &st, out);
}

/* Is what @st describes surely what we have just made, and not another file that somebody of the
 * host has put in its place? Then it is ours, has no right that we did not give it, and no other
 * name. */
static bool is_new(const struct hostfs_sb *sb, const struct host_stat *st, uint32_t mode)
{
	return st->uid == sb->host_uid && !((st->mode ^ mode) & LX_S_IFMT) &&
	       !(st->mode & ~mode & 0777) && (LX_S_ISDIR(mode) || st->nlink == 1);
}

/* The descriptor of what was just made at @p, for its owner and mode to be changed. The name may be
 * another file's at any time: what is not surely ours stays as it is. */
static int new_handle(struct place *p, const struct host_stat *st, uint32_t mode)
{
	struct host_stat now;
	int fd, r;

	if (!is_new(p->dir->sb, st, mode))
		return -ESTALE;
	fd = host_open_at(p->fd, p->name, O_PATH, 0);
	if (fd < 0)
		return fd;
	r = host_stat_fd(fd, &now);
	if (r == 0 && now.dev == st->dev && now.ino == st->ino && is_new(p->dir->sb, &now, mode))
		return fd;
	host_close(fd);
	return r < 0 ? r : -ESTALE;
}

/* What was just made at @p with @mode (a file's descriptor in @fd, else -1) gets its owner, the
 * mode that the host's default ACL may have cut, and an inode. */
static int made(struct vfs_ctx *c, struct inode *dir, struct place *p, int fd, uint32_t mode,
		struct inode **out)
{
	const struct hostfs_opts *o = &p->dir->sb->opts;
	uint32_t uid = UINT32_MAX, gid = UINT32_MAX;
	bool chmod;
	struct host_stat st;
	int handle = fd, r;

	r = fd >= 0 ? host_stat_fd(fd, &st) : host_stat_at(p->fd, p->name, &st);
	if (r < 0)
		return r;
	if ((st.mode ^ mode) & LX_S_IFMT)
		return -ENOENT; /* ours is gone already */
	if (c) {
		if (!hostfs_unmap_id(o->uid_map, c->cred->fsuid, &uid) || uid == st.uid)
			uid = UINT32_MAX;
		if ((inode_mode(dir) & LX_S_ISGID) ||
		    !hostfs_unmap_id(o->gid_map, c->cred->fsgid, &gid) || gid == st.gid)
			gid = UINT32_MAX;
	}
	chmod = !LX_S_ISLNK(mode) && (st.mode & 0777) != (mode & 0777);
	if (uid == UINT32_MAX && gid == UINT32_MAX && !chmod)
		return hostfs_inode_for(dir, p->name[0] ? p->name : NULL, &st, out);
	if (fd < 0)
		handle = new_handle(p, &st, mode);
	if (handle >= 0) {
		/* As far as the host lets us: it is no error that we are not root there. */
		if (uid != UINT32_MAX || gid != UINT32_MAX)
			(void)!host_chown_fd(handle, uid, gid);
		if (chmod)
			(void)!host_chmod_fd(handle, (st.mode & 07000) | (mode & 0777));
		r = host_stat_fd(handle, &st);
		if (fd < 0)
			host_close(handle);
	}
	return r < 0 ? r : hostfs_inode_for(dir, p->name[0] ? p->name : NULL, &st, out);
}

static int dir_create(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		      uint32_t mode, struct inode **out)
{
	struct place p;
	int r = place_get_write(&p, dir, name, len);

	if (r < 0)
		return r;
	int fd = host_open_at(p.fd, p.name, O_RDWR | O_CREAT | O_EXCL, mode & 0777);

	r = fd < 0 ? fd : made(c, dir, &p, fd, LX_S_IFREG | mode, out);
	if (r == 0) {
		hnode_adopt_fd(hnode_of(*out), fd);
	} else if (fd >= 0) {
		host_close(fd);
		(void)!host_unlink_at(p.fd, p.name, false);
	}
	place_put(&p);
	if (r == 0)
		hostfs_refresh(dir);
	return r;
}

/* For directories, FIFOs, sockets and symlinks: @r is what making it said. */
static int finish(struct vfs_ctx *c, struct inode *dir, struct place *p, int r, uint32_t mode,
		  struct inode **out)
{
	if (r == 0) {
		r = made(c, dir, p, -1, mode, out);
		if (r < 0)
			(void)!host_unlink_at(p->fd, p->name, LX_S_ISDIR(mode));
	}
	place_put(p);
	if (r == 0)
		hostfs_refresh(dir);
	return r;
}

static int dir_mkdir(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		     uint32_t mode, struct inode **out)
{
	struct place p;
	int r = place_get_write(&p, dir, name, len);

	if (r < 0)
		return r;
	/* The sticky bit; setgid comes from the directory. */
	r = host_mkdir_at(p.fd, p.name, mode & 01777);
	return finish(c, dir, &p, r, LX_S_IFDIR | mode, out);
}

static int dir_mknod(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		     uint32_t mode, uint64_t rdev, struct inode **out)
{
	struct place p;
	int r;

	(void)rdev;
	if (!LX_S_ISFIFO(mode) && !LX_S_ISSOCK(mode))
		return -EPERM;
	r = place_get_write(&p, dir, name, len);
	if (r < 0)
		return r;
	r = host_mknod_at(p.fd, p.name, mode & (LX_S_IFMT | 0777));
	r = finish(c, dir, &p, r, mode & (LX_S_IFMT | 0777), out);
	if (r == 0 && !hnode_of(*out)->made) {
		hnode_of(*out)->made = true;
		inode_get(*out);
	}
	return r;
}

static int dir_symlink(struct vfs_ctx *c, struct inode *dir, const char *name, size_t len,
		       const char *target, struct inode **out)
{
	struct place p;
	int r = place_get_write(&p, dir, name, len);

	if (r < 0)
		return r;
	r = host_symlink_at(p.fd, p.name, target);
	return finish(c, dir, &p, r, LX_S_IFLNK | 0777, out);
}

static int dir_tmpfile(struct vfs_ctx *c, struct inode *dir, uint32_t mode, struct inode **out)
{
	struct hnode *h = hnode_of(dir);
	struct place p = {.dir = h};
	int r;

	if (!h->sb->opts.writable || h->blocked)
		return -EROFS;
	p.fd = hnode_dir_get(h);
	if (p.fd < 0)
		return p.fd;
	int fd = host_open_at(p.fd, ".", O_TMPFILE | O_RDWR, mode & 0777);

	r = fd < 0 ? fd : made(c, dir, &p, fd, LX_S_IFREG | mode, out);
	if (r < 0)
		host_close(fd);
	place_put(&p);
	if (r == 0) {
		/* Nothing else leads to the file: the descriptor stays as long as the inode. */
		hnode_adopt_fd(hnode_of(*out), fd);
		r = hnode_file_get(hnode_of(*out), true);
		if (r < 0)
			inode_put(*out);
	}
	return MIN(r, 0);
}

static int dir_link(struct inode *dir, const char *name, size_t len, struct inode *target)
{
	struct hnode *t = hnode_of(target);
	char old_name[LX_NAME_MAX + 1];
	struct inode *old_dir;
	struct place p;
	int r = place_get_write(&p, dir, name, len);

	if (r < 0)
		return r;
	hostfs_names_hold(t->sb);
	int old_fd = hnode_parent_get(t, &old_dir, old_name);

	if (old_fd >= 0) {
		r = host_link_at(old_fd, old_name, p.fd, p.name);
		hnode_parent_put(old_dir);
	} else {
		int fd = hnode_any_fd(t);

		r = fd < 0 ? -ENOENT : host_link_fd(fd, p.fd, p.name);
		if (r == 0)
			r = hnode_set_name(t, dir, p.name);
	}
	hostfs_names_release(t->sb);
	place_put(&p);
	if (r == 0) {
		hostfs_refresh(target);
		hostfs_refresh(dir);
	}
	return r;
}

/* A name of @victim is gone. */
static void name_gone(struct inode *dir, const char *name, struct inode *victim)
{
	struct hnode *h = hnode_of(victim);
	bool is_dir = LX_S_ISDIR(inode_mode(victim)), last;

	hnode_clear_name(h, dir, name);
	mutex_lock(&victim->meta);
	uint32_t left = is_dir || !victim->nlink ? 0 : victim->nlink - 1;

	__atomic_store_n(&victim->nlink, left, __ATOMIC_RELAXED);
	if (is_dir)
		__atomic_store_n(&victim->iflags, victim->iflags | INODE_DEAD, __ATOMIC_RELAXED);
	last = left == 0;
	mutex_unlock(&victim->meta);
	inode_touch(victim, false, false, true);
	if (last) {
		hostfs_unhash(h);
		if (h->made) {
			h->made = false;
			inode_put(victim); /* the caller has a reference too */
		}
	}
}

static int remove_name(struct inode *dir, const char *name, size_t len, struct inode *victim,
		       bool is_dir)
{
	struct place p;
	int r = place_get_write(&p, dir, name, len);

	if (r < 0)
		return r;
	r = host_unlink_at(p.fd, p.name, is_dir);
	place_put(&p);
	if (r == 0) {
		name_gone(dir, p.name, victim);
		hostfs_refresh(dir);
	}
	return r;
}

static int dir_unlink(struct inode *dir, const char *name, size_t len, struct inode *victim)
{
	return remove_name(dir, name, len, victim, false);
}

static bool is_pinned(const struct inode *i)
{
	return hostfs_is_pinned(hnode_of(i)->dev, hnode_of(i)->ino);
}

static int dir_rmdir(struct inode *dir, const char *name, size_t len, struct inode *victim)
{
	if (hnode_of(victim)->blocked || is_pinned(victim))
		return -EBUSY;
	return remove_name(dir, name, len, victim, true);
}

static int dir_rename(struct inode *old_dir, const char *old_name, size_t old_len,
		      struct inode *inode, struct inode *new_dir, const char *new_name,
		      size_t new_len, struct inode *victim, unsigned flags)
{
	struct place from, to;
	int r;

	if (flags & ~(LX_RENAME_NOREPLACE | LX_RENAME_EXCHANGE))
		return -EINVAL;
	if (hnode_of(inode)->blocked || is_pinned(inode) ||
	    (victim && (hnode_of(victim)->blocked || is_pinned(victim))))
		return -EBUSY;
	r = place_get_write(&from, old_dir, old_name, old_len);
	if (r < 0)
		return r;
	r = place_get_write(&to, new_dir, new_name, new_len);
	if (r < 0) {
		place_put(&from);
		return r;
	}
	frwlock_write_lock(&from.dir->sb->names);
	r = host_rename_at(from.fd, from.name, to.fd, to.name, flags);
	if (r == 0) {
		if (victim && !(flags & LX_RENAME_EXCHANGE))
			hnode_clear_name(hnode_of(victim), new_dir, to.name);
		/* The host has done it; without memory for the new name the file is found again at
		 * the next lookup. */
		if (hnode_set_name(hnode_of(inode), new_dir, to.name) < 0)
			hnode_clear_name(hnode_of(inode), old_dir, from.name);
		if (victim && (flags & LX_RENAME_EXCHANGE) &&
		    hnode_set_name(hnode_of(victim), old_dir, from.name) < 0)
			hnode_clear_name(hnode_of(victim), new_dir, to.name);
	}
	frwlock_write_unlock(&from.dir->sb->names);
	place_put(&to);
	place_put(&from);
	if (r < 0)
		return r;
	if (victim && (flags & LX_RENAME_EXCHANGE))
		hostfs_refresh(victim);
	else if (victim)
		name_gone(new_dir, to.name, victim);
	hostfs_refresh(inode);
	hostfs_refresh(old_dir);
	if (new_dir != old_dir)
		hostfs_refresh(new_dir);
	return 0;
}

/* Keeps what the link of an immutable tree says, if it is all of it. */
static void link_keep(struct hnode *h, const char *text, size_t len, size_t size)
{
	char *copy, *none = NULL;

	if (!h->sb->opts.immutable || len >= size)
		return;
	copy = mem_strndup(text, len);
	if (copy && !atomic_compare_exchange_strong(&h->target, &none, copy))
		mem_free(copy); /* somebody else was faster */
}

static ssize_t link_readlink(struct inode *i, char *buf, size_t size)
{
	struct hnode *h = hnode_of(i);
	const char *kept = atomic_load(&h->target);
	struct hostfs_sb *sb = h->sb;
	char name[LX_NAME_MAX + 1];
	struct inode *dir;
	ssize_t r;

	if (kept) {
		size_t len = MIN(strlen(kept), size);

		/* A link's text has no NUL. */
		memcpy(buf, kept, len); /* NOLINT(bugprone-not-null-terminated-result) */
		return (ssize_t)len;
	}
	hostfs_names_hold(sb);
	r = hnode_parent_get(h, &dir, name);
	if (r >= 0) {
		r = host_readlink_at((int)r, name, buf, size);
		hostfs_watch_forget(h); /* it has been read */
		hnode_parent_put(dir);
	}
	hostfs_names_release(sb);
	if (r > 0)
		link_keep(h, buf, (size_t)r, size);
	return r;
}

/* FIFOs and sockets of the host's are for looking at. */
static int special_permission(struct vfs_ctx *c, struct inode *i, unsigned mask)
{
	if ((mask & (MAY_READ | MAY_WRITE)) &&
	    (LX_S_ISFIFO(inode_mode(i)) || LX_S_ISSOCK(inode_mode(i))) && !hnode_of(i)->made)
		return -EACCES;
	return generic_permission(c, i, mask);
}

/* ---- reading ---- */

#define DIR_BUF ((size_t)32 << 10)

/* f->priv of an open directory. */
struct hdir {
	int fd;
	int64_t fd_pos;  /* where the host's next entry is: the position after the buffer's last */
	int64_t at_pos;  /* the position of the entry at @at */
	size_t at, have; /* in buf */
	char buf[DIR_BUF] __attribute__((aligned(8)));
};

static struct hdir *hdir_new(struct hnode *h, int *err)
{
	struct hdir *d = mem_realloc(NULL, sizeof(*d));

	*err = -ENOMEM;
	if (!d)
		return NULL;
	d->fd = hnode_open_read(h);
	if (d->fd < 0) {
		*err = d->fd;
		mem_free(d);
		return NULL;
	}
	d->fd_pos = d->at_pos = 0;
	d->at = d->have = 0;
	return d;
}

static void hdir_free(struct hdir *d)
{
	if (!d)
		return;
	host_close(d->fd);
	mem_free(d);
}

/* The entry at position @pos; NULL with *err 0 at the end. */
static struct dirent64 *hdir_entry(struct hdir *d, int64_t pos, int *err)
{
	*err = 0;
	if (pos != d->at_pos || d->at >= d->have) {
		if (pos != d->fd_pos) {
			int64_t r = host_lseek(d->fd, pos, SEEK_SET);

			if (r < 0) {
				*err = (int)r;
				return NULL;
			}
		}
		d->at = d->have = 0;
		ssize_t n = host_getdents(d->fd, d->buf, sizeof(d->buf));

		if (n <= 0) {
			d->fd_pos = d->at_pos = pos;
			*err = (int)n;
			return NULL;
		}
		d->have = (size_t)n;
		d->at_pos = pos;
		for (size_t at = 0; at < d->have;) {
			const struct dirent64 *e = (const void *)(d->buf + at);

			d->fd_pos = e->d_off;
			at += e->d_reclen;
		}
	}
	return (struct dirent64 *)(void *)(d->buf + d->at);
}

static void hdir_advance(struct hdir *d, const struct dirent64 *e)
{
	d->at_pos = e->d_off;
	d->at += e->d_reclen;
}

static uint64_t parent_ino(struct file *f)
{
	struct dentry *p = dentry_get_parent(f->path.dentry);
	uint64_t ino = p->inode->ino;

	dentry_put(p);
	return ino;
}

static int blocked_iterate(struct file *f, struct dir_ctx *ctx)
{
	if (f->pos == 0 && ctx->emit(ctx, ".", 1, f->inode->ino, LX_DT_DIR, 1))
		f->pos = 1;
	if (f->pos == 1 && ctx->emit(ctx, "..", 2, parent_ino(f), LX_DT_DIR, 2))
		f->pos = 2;
	return 0;
}

/* A hard link to a hidden file is hidden, too; that of another file system has another number. */
static bool may_list(const struct inode *dir, const struct dirent64 *e, size_t len)
{
	return hostfs_name_allowed(dir, e->d_name, len) &&
	       !hostfs_is_hidden_file(hnode_of(dir)->dev, e->d_ino);
}

static int dir_iterate(struct file *f, struct dir_ctx *ctx)
{
	struct hnode *h = hnode_of(f->inode);
	struct hdir *d = f->priv;
	struct dirent64 *e;
	int err;

	if (h->blocked)
		return blocked_iterate(f, ctx);
	if (!d) {
		d = hdir_new(h, &err);
		if (!d)
			return err;
		f->priv = d;
	}
	while ((e = hdir_entry(d, f->pos, &err))) {
		size_t len = strlen(e->d_name);
		uint64_t ino = hostfs_show_ino(h->sb, h->dev, e->d_ino);

		if (strcmp(e->d_name, "..") == 0)
			ino = parent_ino(f);
		bool dots = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;

		if ((dots || may_list(f->inode, e, len)) &&
		    !ctx->emit(ctx, e->d_name, len, ino, e->d_type, e->d_off))
			return 0;
		f->pos = e->d_off;
		hdir_advance(d, e);
	}
	/* Of what was removed on the host while it was being read nothing is left to say. */
	return err == -ENOENT ? 0 : err;
}

int hostfs_list(struct inode *dir,
		int (*emit)(void *arg, const char *name, size_t len, uint64_t ino, unsigned dtype),
		void *arg)
{
	struct hnode *h = hnode_of(dir);
	struct dirent64 *e;
	int64_t pos = 0;
	int r = 0, err;

	if (h->blocked)
		return 0;
	struct hdir *d = hdir_new(h, &err);

	if (!d)
		return err;
	while (r == 0 && (e = hdir_entry(d, pos, &err))) {
		size_t len = strlen(e->d_name);

		pos = e->d_off;
		hdir_advance(d, e);
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    may_list(dir, e, len))
			r = emit(arg, e->d_name, len, hostfs_show_ino(h->sb, h->dev, e->d_ino),
				 e->d_type);
	}
	hdir_free(d);
	return r ? r : err;
}

static int64_t dir_lseek(struct file *f, int64_t off, int whence)
{
	int64_t r = file_lseek_endless(f, off, whence);

	/* From the start again: what is new should show. */
	if (r == 0 && f->priv) {
		struct hdir *d = f->priv;

		d->at = d->have = 0;
		d->fd_pos = -1;
	}
	return r;
}

/* An open directory keeps its descriptor: once it is removed no name leads to it. */
static int dir_open(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	int fd = hnode_of(i)->blocked ? 0 : hnode_dir_get(hnode_of(i));

	(void)c;
	f->ops = &g_hostfs_dir_fops;
	return MIN(fd, 0);
}

static void dir_release(struct file *f)
{
	hdir_free(f->priv);
	if (!hnode_of(f->inode)->blocked)
		hnode_dir_put(hnode_of(f->inode));
}

static int dir_fsync(struct file *f, bool data_only)
{
	struct hnode *h = hnode_of(f->inode);

	if (!h->sb->opts.writable || h->blocked)
		return 0;
	int fd = hnode_open_read(h);

	if (fd < 0)
		return fd;
	int r = host_fsync_wait(fd, data_only);

	host_close(fd);
	return r;
}

const struct file_ops g_hostfs_dir_fops = {
	.iterate = dir_iterate,
	.lseek = dir_lseek,
	.release = dir_release,
	.fsync = dir_fsync,
};

const struct inode_ops g_hostfs_dir_iops = {
	HOSTFS_ATTR_OPS,    .lookup = dir_lookup,   .create = dir_create,   .mkdir = dir_mkdir,
	.mknod = dir_mknod, .symlink = dir_symlink, .link = dir_link,       .unlink = dir_unlink,
	.rmdir = dir_rmdir, .rename = dir_rename,   .tmpfile = dir_tmpfile, .open = dir_open,
};

const struct inode_ops g_hostfs_link_iops = {
	HOSTFS_ATTR_OPS,
	.readlink = link_readlink,
};

const struct inode_ops g_hostfs_special_iops = {
	HOSTFS_ATTR_OPS,
	.permission = special_permission,
};
