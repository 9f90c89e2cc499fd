/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a saved archive back (--load), and lists one (`moat diff`).
 *
 * Theory of operation: the archive was written by moat, but its content is a guest's, and somebody
 * may have made it by hand. It is read in the sentry, before anything but the root and /tmp is
 * mounted, so that a name can lead nowhere else; each name is walked by the VFS without following
 * any link, and what stands in the way is removed first. Attributes of directories are set last,
 * since their children change them.
 */
#include "runtime/changes.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hostcall.h"
#include "base/lx_fcntl.h"
#include "runtime/run.h"

#define PIECE ((size_t)64 << 10)
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

struct dir_attr {
	char *path;
	uint32_t mode, uid, gid;
	int64_t mtime;
};

struct load {
	struct vfs_ctx *c;
	struct archive *a;
	int fd;
	char *buf; /* of the reader */
	struct dir_attr *dirs;
	size_t dir_count, dir_room;
};

static la_ssize_t get_bytes(struct archive *a, void *arg, const void **out)
{
	struct load *l = arg;
	ssize_t n;

	do {
		n = HOST(read_archive, read(l->fd, l->buf, PIECE));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		archive_set_error(a, errno, "%s", err_text(errno));
	*out = l->buf;
	return n;
}

/* ---- removing what stands in the way ---- */

struct first_name {
	struct dir_ctx ctx;
	char name[LX_NAME_MAX + 1];
	bool found;
};

static bool take_first(struct dir_ctx *ctx, const char *name, size_t len, uint64_t ino UNUSED,
		       unsigned dtype UNUSED, int64_t next UNUSED)
{
	struct first_name *f = (struct first_name *)ctx;

	if ((len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.'))
		return true;
	memcpy(f->name, name, len);
	f->name[len] = '\0';
	f->found = true;
	return false;
}

/* Some name in a directory; false: it is empty. */
static int first_in(struct vfs_ctx *c, const struct path *dir, struct first_name *f)
{
	struct file *file;
	int r = vfs_open_path(c, dir, LX_O_RDONLY | LX_O_DIRECTORY, &file);

	if (r)
		return r;
	f->ctx.emit = take_first;
	f->found = false;
	r = vfs_iterate(file, &f->ctx);
	file_put(file);
	return r;
}

/* Empties @top, a directory, from the bottom up: @top stays. No recursion, trees are deep. */
static int empty_dir(struct vfs_ctx *c, const struct path *top)
{
	struct path *stack = mem_realloc(NULL, 16 * sizeof(*stack));
	size_t depth = 1, room = 16;
	int r = stack ? 0 : -ENOMEM;

	if (r)
		return r;
	stack[0] = *top;
	path_get(&stack[0]);
	while (r == 0 && depth > 0) {
		struct path *dir = &stack[depth - 1], sub;
		struct first_name f;

		r = first_in(c, dir, &f);
		if (r == 0 && !f.found) {
			path_put(dir);
			depth--;
			/* The one above finds it again, now empty. */
			continue;
		}
		if (r == 0)
			r = vfs_unlink(c, dir, f.name);
		if (r == -EISDIR)
			r = vfs_rmdir(c, dir, f.name);
		if (r != -ENOTEMPTY)
			continue;
		r = path_lookup(c, dir, f.name, WALK_NO_SYMLINKS | WALK_DIRECTORY, &sub);
		if (r == 0 && depth == room) {
			struct path *p = mem_realloc(stack, 2 * room * sizeof(*p));

			if (!p) {
				path_put(&sub);
				r = -ENOMEM;
			} else {
				stack = p;
				room *= 2;
			}
		}
		if (r == 0)
			stack[depth++] = sub;
	}
	while (depth > 0)
		path_put(&stack[--depth]);
	mem_free(stack);
	return r;
}

/* The name is free afterwards. */
static int remove_name(struct vfs_ctx *c, const struct path *dir, const char *name)
{
	struct path p;
	int r = vfs_unlink(c, dir, name);

	if (r == -EISDIR)
		r = vfs_rmdir(c, dir, name);
	if (r == -ENOTEMPTY) {
		r = path_lookup(c, dir, name, WALK_NO_SYMLINKS | WALK_DIRECTORY, &p);
		if (r)
			return r;
		r = empty_dir(c, &p);
		path_put(&p);
		if (r == 0)
			r = vfs_rmdir(c, dir, name);
	}
	return r == -ENOENT ? 0 : r;
}

/* ---- entries ---- */

/* "a/b/c", "./a/b/c" and "/a/b/c" as components, none of them empty, "." or "..". NULL: not such a
 * name. */
static const char *clean_name(const char *name)
{
	const char *start, *p;

	if (!name)
		return NULL;
	while (name[0] == '/' || (name[0] == '.' && name[1] == '/'))
		name += name[0] == '/' ? 1 : 2;
	for (start = p = name;; p++) {
		if (*p && *p != '/')
			continue;
		const size_t len = (size_t)(p - start);

		if ((len == 0 && (*p || p == name)) || (len == 1 && start[0] == '.') ||
		    (len == 2 && start[0] == '.' && start[1] == '.') || len > LX_NAME_MAX)
			return NULL;
		if (!*p || !p[1])
			break;
		/* A mark names nothing. */
		if (strncmp(start, WHITEOUT, strlen(WHITEOUT)) == 0)
			return NULL;
		start = p + 1;
	}
	return strlen(name) < LX_PATH_MAX ? name : NULL;
}

/* The directory that @name is in, made if it is not there; *last points into @name. */
static int parent_of(struct vfs_ctx *c, const char *name, struct path *dir, const char **last)
{
	struct path at;
	const char *p = name;
	int r = path_lookup(c, NULL, "/", WALK_DIRECTORY, &at);

	while (r == 0) {
		char part[LX_NAME_MAX + 1];
		const size_t len = strcspn(p, "/");
		struct path sub;

		if (!p[len] || !p[len + 1])
			break;
		memcpy(part, p, len);
		part[len] = '\0';
		r = path_lookup(c, &at, part, WALK_NO_SYMLINKS | WALK_DIRECTORY, &sub);
		if (r == -ENOENT) {
			r = vfs_mkdir(c, &at, part, 0755);
			if (r == 0)
				r = path_lookup(c, &at, part, WALK_NO_SYMLINKS | WALK_DIRECTORY,
						&sub);
		}
		path_put(&at);
		if (r)
			return r;
		at = sub;
		p += len + 1;
	}
	if (r == 0) {
		*dir = at;
		*last = p;
	}
	return r;
}

/* The name in which the mark @mark stands becomes a directory that shows nothing of below, whatever
 * it was. */
static int make_opaque(struct vfs_ctx *c, const char *mark)
{
	const size_t len = strlen(mark) - strlen(OPAQUE);
	char *name = mem_strndup(mark, len ? len - 1 : 0);
	const char *last;
	struct path at, above;
	int r = name ? path_lookup(c, NULL, "/", WALK_DIRECTORY, &above) : -ENOMEM;

	if (r == 0 && len == 0) {
		r = empty_dir(c, &above);
		path_put(&above);
	} else if (r == 0) {
		path_put(&above);
		r = parent_of(c, name, &above, &last);
		if (r == 0) {
			r = path_lookup(c, &above, last, WALK_NO_SYMLINKS | WALK_DIRECTORY, &at);
			/* A root stays. */
			if (r == 0 && at.dentry == at.mnt->root) {
				r = empty_dir(c, &at);
				path_put(&at);
			} else {
				if (r == 0)
					path_put(&at);
				r = remove_name(c, &above, last);
				if (r == 0)
					r = vfs_mkdir(c, &above, last, 0755);
			}
			path_put(&above);
		}
	}
	mem_free(name);
	return r;
}

static int64_t entry_mtime(struct archive_entry *e)
{
	const int64_t s = archive_entry_mtime(e);

	/* What cannot be said in nanoseconds is no time of ours. */
	return s < 0 || s > INT64_MAX / 1000000000 - 1
		       ? 0
		       : s * 1000000000 + archive_entry_mtime_nsec(e);
}

static int set_attrs(struct vfs_ctx *c, const struct path *p, const struct dir_attr *at, bool link)
{
	/* The owner first: changing it clears set-id bits. */
	struct iattr a = {.valid = ATTR_UID | ATTR_GID, .uid = at->uid, .gid = at->gid};
	int r = vfs_setattr(c, p, &a);

	a = (struct iattr){.valid = ATTR_MODE, .mode = at->mode & 07777};
	if (r == 0 && !link)
		r = vfs_setattr(c, p, &a);
	a = (struct iattr){
		.valid = ATTR_ATIME | ATTR_MTIME, .atime = at->mtime, .mtime = at->mtime};
	if (r == 0)
		r = vfs_setattr(c, p, &a);
	return r;
}

static int set_xattrs(struct vfs_ctx *c, const struct path *p, struct archive_entry *e)
{
	const char *name;
	const void *value;
	size_t size;
	int r = 0;

	(void)archive_entry_xattr_reset(e);
	while (r == 0 && archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK) {
		/* Not all that tar can carry is ours: what the file system does not know stays
		 * away. */
		r = name ? vfs_setxattr(c, p, name, value, size, 0) : 0;
		if (r == -EOPNOTSUPP || r == -EPERM || r == -EINVAL)
			r = 0;
	}
	return r;
}

static int load_content(struct load *l, struct file *f)
{
	for (;;) {
		struct uio_seg seg;
		struct uio u;
		const void *block;
		size_t size;
		la_int64_t off;
		int64_t pos;
		ssize_t n;
		const int r = archive_read_data_block(l->a, &block, &size, &off);

		if (r == ARCHIVE_EOF)
			return 0;
		if (r < ARCHIVE_WARN || off < 0)
			return -EBADMSG;
		pos = off;
		uio_init_kernel(&u, &seg, (void *)(uintptr_t)block, size);
		n = vfs_write(l->c, f, &u, &pos);
		if (n < 0 || (size_t)n != size)
			return n < 0 ? (int)n : -ENOSPC;
	}
}

static int load_file(struct load *l, const struct path *dir, const char *name, uint64_t size)
{
	const struct open_how how = {
		.flags = LX_O_WRONLY | LX_O_CREAT | LX_O_EXCL | LX_O_NOFOLLOW,
		.mode = 0600,
		.walk = WALK_NO_SYMLINKS,
	};
	struct file *f;
	int r = vfs_open(l->c, dir, name, &how, &f);

	if (r)
		return r;
	r = load_content(l, f);
	/* A hole at the end is no block. */
	if (r == 0 && size <= INT64_MAX)
		r = vfs_ftruncate(l->c, f, (int64_t)size);
	file_put(f);
	return r;
}

static int later(struct load *l, const char *path, const struct dir_attr *at)
{
	if (l->dir_count == l->dir_room) {
		const size_t room = l->dir_room ? 2 * l->dir_room : 64;
		struct dir_attr *p = mem_realloc(l->dirs, room * sizeof(*p));

		if (!p)
			return -ENOMEM;
		l->dirs = p;
		l->dir_room = room;
	}
	l->dirs[l->dir_count] = *at;
	l->dirs[l->dir_count].path = mem_strdup(path);
	return l->dirs[l->dir_count++].path ? 0 : -ENOMEM;
}

static int load_dir(struct load *l, const struct path *dir, const char *name, const char *path,
		    struct archive_entry *e, const struct dir_attr *at)
{
	struct path p;
	int r = path_lookup(l->c, dir, name, WALK_NO_SYMLINKS | WALK_DIRECTORY, &p);

	if (r) {
		r = remove_name(l->c, dir, name);
		if (r == 0)
			r = vfs_mkdir(l->c, dir, name, 0700);
		if (r == 0)
			r = path_lookup(l->c, dir, name, WALK_NO_SYMLINKS | WALK_DIRECTORY, &p);
	}
	if (r)
		return r;
	r = set_xattrs(l->c, &p, e);
	path_put(&p);
	return r ? r : later(l, path, at);
}

/* The archive's other name of a file that it has brought already. */
static int load_link(struct load *l, const struct path *dir, const char *name, const char *target)
{
	const char *clean = clean_name(target), *old;
	struct path from;
	int r = clean ? parent_of(l->c, clean, &from, &old) : -EBADMSG;

	if (r)
		return r;
	r = remove_name(l->c, dir, name);
	if (r == 0)
		r = vfs_link(l->c, &from, old, dir, name, 0);
	path_put(&from);
	return r;
}

static int load_node(struct load *l, const struct path *dir, const char *name,
		     struct archive_entry *e, uint32_t mode)
{
	const char *target = archive_entry_symlink(e);
	int r = remove_name(l->c, dir, name);

	if (r)
		return r;
	switch (mode & LX_S_IFMT) {
	case LX_S_IFREG:
		return archive_entry_size(e) < 0
			       ? -EBADMSG
			       : load_file(l, dir, name, (uint64_t)archive_entry_size(e));
	case LX_S_IFLNK:
		return target ? vfs_symlink(l->c, target, dir, name) : -EBADMSG;
	case LX_S_IFIFO:
		return vfs_mknod(l->c, dir, name, LX_S_IFIFO | 0600, 0);
	case LX_S_IFCHR:
	case LX_S_IFBLK:
		return vfs_mknod(l->c, dir, name, (mode & LX_S_IFMT) | 0600,
				 lx_makedev((uint32_t)archive_entry_rdevmajor(e),
					    (uint32_t)archive_entry_rdevminor(e)));
	default:
		return -EBADMSG;
	}
}

static int load_entry(struct load *l, struct archive_entry *e)
{
	const char *path = clean_name(archive_entry_pathname(e)), *last;
	const struct dir_attr at = {
		.mode = (uint32_t)archive_entry_mode(e),
		.uid = (uint32_t)archive_entry_uid(e),
		.gid = (uint32_t)archive_entry_gid(e),
		.mtime = entry_mtime(e),
	};
	char name[LX_NAME_MAX + 1];
	struct path dir, p;
	int r;

	/* "./", the root itself: nothing of it is kept. */
	if (!path)
		return archive_entry_filetype(e) == AE_IFDIR && archive_entry_pathname(e) &&
				       strspn(archive_entry_pathname(e), "./") ==
					       strlen(archive_entry_pathname(e)) &&
				       !strstr(archive_entry_pathname(e), "..")
			       ? 0
			       : -EBADMSG;
	last = strrchr(path, '/');
	if (strcmp(last ? last + 1 : path, OPAQUE) == 0)
		return make_opaque(l->c, path);
	r = parent_of(l->c, path, &dir, &last);
	if (r)
		return r;
	strcpy(name, last);
	name[strcspn(name, "/")] = '\0';
	if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0)
		r = name[strlen(WHITEOUT)] ? remove_name(l->c, &dir, name + strlen(WHITEOUT))
					   : -EBADMSG;
	else if (archive_entry_hardlink(e))
		r = load_link(l, &dir, name, archive_entry_hardlink(e));
	else if (LX_S_ISDIR(at.mode))
		r = load_dir(l, &dir, name, path, e, &at);
	else {
		r = load_node(l, &dir, name, e, at.mode);
		if (r == 0)
			r = path_lookup(l->c, &dir, name, 0, &p);
		if (r == 0) {
			r = set_xattrs(l->c, &p, e);
			if (r == 0)
				r = set_attrs(l->c, &p, &at, LX_S_ISLNK(at.mode));
			path_put(&p);
		}
	}
	path_put(&dir);
	return r;
}

static int set_dirs(struct load *l)
{
	int r = 0;

	/* Children before parents; one that was removed again by a later entry is none. */
	while (r == 0 && l->dir_count > 0) {
		struct dir_attr *at = &l->dirs[--l->dir_count];
		const char *last;
		struct path dir, p;

		r = parent_of(l->c, at->path, &dir, &last);
		if (r == 0) {
			r = path_lookup(l->c, &dir, last, WALK_NO_SYMLINKS | WALK_DIRECTORY, &p);
			if (r == 0) {
				r = set_attrs(l->c, &p, at, false);
				path_put(&p);
			} else if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
				r = 0;
			}
			path_put(&dir);
		}
		mem_free(at->path);
	}
	return r;
}

static struct archive *open_archive(struct load *l)
{
	struct archive *a = archive_read_new();

	l->buf = mem_realloc(NULL, PIECE);
	if (!a || !l->buf)
		return a;
	/* No other format, and no filters: they may run programs. */
	(void)archive_read_support_format_tar(a);
	(void)archive_read_support_format_empty(a);
	return a;
}

int changes_load(struct vfs_ctx *c, int fd, struct err *err)
{
	struct load l = {.c = c, .fd = fd};
	struct archive_entry *e;
	int r = 0;

	l.a = open_archive(&l);
	if (!l.a || !l.buf) {
		r = err_set(err, ENOMEM, "out of memory");
	} else if (archive_read_open(l.a, &l, NULL, get_bytes, NULL) != ARCHIVE_OK) {
		r = err_set(err, EBADMSG, "it is not a tar archive: %s", archive_error_string(l.a));
	}
	while (r == 0) {
		const int got = archive_read_next_header(l.a, &e);

		if (got == ARCHIVE_EOF)
			break;
		if (got < ARCHIVE_WARN) {
			r = err_set(err, EBADMSG, "the archive is damaged: %s",
				    archive_error_string(l.a));
			break;
		}
		r = load_entry(&l, e);
		if (r)
			(void)err_set(err, -r, "entry '%.200s': %s",
				      archive_entry_pathname(e) ? archive_entry_pathname(e) : "",
				      r == -EBADMSG ? "no name or kind that can be loaded"
						    : err_text(-r));
	}
	if (r == 0) {
		r = set_dirs(&l);
		if (r)
			(void)err_set(err, -r, "attributes of directories: %s", err_text(-r));
	}
	while (l.dir_count > 0)
		mem_free(l.dirs[--l.dir_count].path);
	mem_free(l.dirs);
	(void)archive_read_free(l.a);
	mem_free(l.buf);
	return r;
}
