/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/fd and fdinfo.
 *
 * The object of an entry is the process's pid and the descriptor's number; what it leads to is
 * looked up at each use, so a stale entry leads nowhere.
 */
#include "sentry/proc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct proc_fd {
	struct ref ref;
	struct pid *pid;
	int fd;
};

static void *fd_obj_get(void *obj)
{
	struct proc_fd *p = obj;

	ref_get(&p->ref);
	return p;
}

static void fd_obj_put(void *obj)
{
	struct proc_fd *p = obj;

	if (!ref_put(&p->ref))
		return;
	pid_put(p->pid);
	mem_free(p);
}

/* The open file behind the descriptor: a reference, or NULL and *r. */
static struct file *file_of(struct pid *pid, int fd, int *r)
{
	struct task *t = proc_task_access(pid, r), *self = current_task();
	struct fdtable *files = t ? task_get_files(t) : NULL;
	struct file *f = NULL;

	if (t)
		task_put(t);
	if (!files) {
		if (*r != -EACCES)
			*r = -ENOENT;
		return NULL;
	}
	f = fd_get(files, fd);
	fdtable_put(files, self ? &self->vctx : NULL);
	*r = -ENOENT;
	return f;
}

static bool fd_obj_alive(void *obj)
{
	struct proc_fd *p = obj;
	struct file *f;
	int r;

	f = file_of(p->pid, p->fd, &r);
	if (f)
		file_put(f);
	return f || r == -EACCES;
}

static int fd_link(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj, struct path *out)
{
	struct proc_fd *p = obj;
	int r;
	struct file *f = file_of(p->pid, p->fd, &r);

	if (!f)
		return r;
	path_get(&f->path);
	*out = f->path;
	file_put(f);
	return 0;
}

static void fd_attr(struct inode *i, void *obj, struct kstat *st)
{
	struct proc_fd *p = obj;
	int r;
	struct file *f = file_of(p->pid, p->fd, &r);

	proc_pid_attr(i, p->pid, st);
	st->size = 64;
	if (!f)
		return;
	/* The owner's bits show how it is open. */
	st->mode = LX_S_IFLNK | 0100u | (f->fmode & FMODE_READ ? 0400u : 0) |
		   (f->fmode & FMODE_WRITE ? 0200u : 0);
	if (f->fmode & FMODE_PATH)
		st->mode = LX_S_IFLNK | 0100u;
	file_put(f);
}

/* Without its lock where it can be the very file that is read. */
static long shown_pos(struct file *f)
{
	if (f->ops->stream)
		return 0;
	return (long)(f->ops->offset_shared ? vfs_pos(f) : f->pos);
}

static int show_fdinfo(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
		       struct textbuf *out)
{
	struct proc_fd *p = obj;
	char extra[4096];
	uint32_t flags;
	int r, fdflags = 0;
	struct file *f = file_of(p->pid, p->fd, &r);
	struct task *t = proc_task(p->pid);
	struct fdtable *files = t ? task_get_files(t) : NULL;

	if (files) {
		fdflags = fd_get_flags(files, p->fd);
		fdtable_put(files, &current_task()->vctx);
	}
	if (t)
		task_put(t);
	if (!f)
		return r;
	flags = atomic_load(&f->flags) |
		(fdflags > 0 && (fdflags & (int)FD_CLOEXEC_FLAG) ? LX_O_CLOEXEC : 0u);
	text_printf(out, "pos:\t%ld\nflags:\t0%o\nmnt_id:\t%d\nino:\t%lu\n", shown_pos(f), flags,
		    f->path.mnt ? f->path.mnt->id : 0, f->inode->ino);
	if (f->ops->show_fdinfo)
		text_append(out, extra, f->ops->show_fdinfo(f, extra, sizeof(extra)));
	file_put(f);
	return 0;
}

static const struct pnode_ops g_fd_entry_ops = {.get_link = fd_link,
						.attr = fd_attr,
						.alive = fd_obj_alive,
						.get_obj = fd_obj_get,
						.put_obj = fd_obj_put};
static const struct pnode_ops g_fdinfo_entry_ops = {
	.show = show_fdinfo, .alive = fd_obj_alive, .get_obj = fd_obj_get, .put_obj = fd_obj_put};
static const struct pnode g_fd_entry = {
	.name = "", .mode = LX_S_IFLNK | 0777, .ops = &g_fd_entry_ops};
static const struct pnode g_fdinfo_entry = {
	.name = "", .mode = LX_S_IFREG | 0444, .ops = &g_fdinfo_entry_ops};

static int lookup_common(void *obj, const char *name, size_t len, const struct pnode *node,
			 const struct pnode **child, void **child_obj, uint64_t *ino)
{
	struct proc_fd *p;
	struct file *f;
	char buf[12], *end;
	long fd;
	int r;

	if (len == 0 || len >= sizeof(buf) || name[0] < '0' || name[0] > '9' ||
	    (len > 1 && name[0] == '0'))
		return -ENOENT;
	memcpy(buf, name, len);
	buf[len] = '\0';
	fd = strtol(buf, &end, 10);
	if (*end || fd > INT32_MAX)
		return -ENOENT;
	f = file_of(obj, (int)fd, &r);
	if (!f)
		return r;
	file_put(f);
	p = mem_zalloc(sizeof(*p));
	if (!p)
		return -ENOMEM;
	ref_init(&p->ref);
	p->pid = pid_get(obj);
	p->fd = (int)fd;
	*child = node;
	*child_obj = p;
	*ino = 0;
	return 0;
}

static int fd_lookup(struct inode *dir UNUSED, void *obj, const char *name, size_t len,
		     const struct pnode **child, void **child_obj, uint64_t *ino)
{
	return lookup_common(obj, name, len, &g_fd_entry, child, child_obj, ino);
}

static int fdinfo_lookup(struct inode *dir UNUSED, void *obj, const char *name, size_t len,
			 const struct pnode **child, void **child_obj, uint64_t *ino)
{
	return lookup_common(obj, name, len, &g_fdinfo_entry, child, child_obj, ino);
}

static int iterate_common(void *obj, struct dir_ctx *ctx, int64_t *off, unsigned dtype)
{
	int r;
	struct task *t = proc_task_access(obj, &r), *self = current_task();
	struct fdtable *files = t ? task_get_files(t) : NULL;
	struct file *f;
	int fd;

	if (t)
		task_put(t);
	if (!files)
		return r == -EACCES ? r : -ENOENT;
	while (*off <= INT32_MAX && (fd = fd_next(files, (int)*off, &f)) >= 0) {
		char name[16];
		int n = snprintf(name, sizeof(name), "%d", fd);
		bool more = ctx->emit(ctx, name, (size_t)n, 0x400000u + (uint64_t)fd, dtype,
				      (int64_t)fd + 1);

		file_put(f);
		if (!more)
			break;
		*off = (int64_t)fd + 1;
	}
	fdtable_put(files, self ? &self->vctx : NULL);
	return 0;
}

static int fd_iterate(struct inode *dir UNUSED, void *obj, struct dir_ctx *ctx, int64_t *off)
{
	return iterate_common(obj, ctx, off, LX_DT_LNK);
}

static int fdinfo_iterate(struct inode *dir UNUSED, void *obj, struct dir_ctx *ctx, int64_t *off)
{
	return iterate_common(obj, ctx, off, LX_DT_REG);
}

/* A process may always list its own; others need the rights. */
static int fd_permission(struct vfs_ctx *c, struct inode *i, void *obj, unsigned mask)
{
	struct task *t = proc_task(obj), *self = current_task();
	bool own = t && self && t->tg == self->tg;

	if (t)
		task_put(t);
	return own ? 0 : generic_permission(c, i, mask);
}

const struct pnode_ops g_proc_fd_ops = {
	.lookup = fd_lookup, .iterate = fd_iterate, .permission = fd_permission, PROC_PID_OBJ};
const struct pnode_ops g_proc_fdinfo_ops = {.lookup = fdinfo_lookup,
					    .iterate = fdinfo_iterate,
					    .permission = fd_permission,
					    PROC_PID_OBJ};
