/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files are read, written and executed, and which names of the host's are changed.
 *
 * Theory of operation: an open file becomes an event the first time that its path is opened in a
 * way in which it was not opened before; the hashes of paths and ways are kept in a table of
 * bounded size (what comes after it is full is told each time, and its rate bounds that). Files
 * that the sandbox makes up (proc, sysfs, devices) are left out: they say nothing about the host,
 * and programs read them all the time.
 *
 * Changes of names are told for file systems of the host's that may be written to. Where the
 * directory stands is known from its mount's source, which is the grant's target.
 */
#include "sentry/audit_internal.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/lx_inotify.h"
#include "sentry/task.h"
#include "vfs/dcache.h"
#include "vfs/hostfs.h"

#include <string.h>

#define TABLE_SIZE ((size_t)1 << 16) /* a power of two */
#define TABLE_FULL (TABLE_SIZE / 4 * 3)

enum { WAY_READ = 1, WAY_WRITE = 2, WAY_EXEC = 4 };

static struct {
	struct mutex lock;
	uint64_t *hashes; /* [lock] 0: free; the low bits are the ways */
	size_t count;     /* [lock] */
} g_files = {.lock = MUTEX_INIT(RANK_LEAF)};

/* Notes that the path was opened so; false: nothing new. */
static bool is_new(uint64_t hash, unsigned ways)
{
	const uint64_t key = (hash | 8) & ~(uint64_t)7;
	bool fresh = true;

	mutex_lock(&g_files.lock);
	if (!g_files.hashes)
		g_files.hashes = mem_calloc(TABLE_SIZE, sizeof(*g_files.hashes));
	for (size_t i = key >> 8; g_files.hashes; i++) {
		uint64_t *slot = &g_files.hashes[i & (TABLE_SIZE - 1)];

		if (*slot && (*slot & ~(uint64_t)7) != key)
			continue;
		if (!*slot && g_files.count >= TABLE_FULL)
			break;
		g_files.count += !*slot;
		fresh = (*slot & ways) != ways;
		*slot = key | (*slot & 7) | ways;
		break;
	}
	mutex_unlock(&g_files.lock);
	return fresh;
}

void audit_opened(struct file *f)
{
	struct task *t = current_task();
	unsigned ways = 0;
	struct json_object *o;
	char *path;
	ssize_t n;

	if (!t || !LX_S_ISREG(f->inode->mode) || hostfs_is_pseudo_magic(f->inode->super->magic))
		return;
	if (f->fmode & FMODE_EXEC)
		ways = WAY_EXEC;
	else
		ways = (f->fmode & FMODE_READ ? WAY_READ : 0) |
		       (f->fmode & FMODE_WRITE ? WAY_WRITE : 0);
	path = mem_zalloc(LX_PATH_MAX);
	n = path ? path_text(&f->path, NULL, path, LX_PATH_MAX) : -1;
	if (n > 0 && ways && is_new(hash_bytes(path, (size_t)n, 0), ways) &&
	    audit_admit(RATE_file)) {
		o = audit_object("open", t);
		audit_add_bytes(o, "path", path, (size_t)n);
		audit_add_quoted(o, "for",
				 ways & WAY_EXEC                  ? "exec"
				 : ways == (WAY_READ | WAY_WRITE) ? "read-write"
				 : ways == WAY_WRITE              ? "write"
								  : "read");
		if (f->fmode & FMODE_CREATED)
			audit_add_object(o, "created", json_object_new_boolean(true));
		audit_add_quoted(o, "on", f->inode->super->type->name);
		(void)audit_send(o, RATE_file);
	}
	mem_free(path);
}

/* The path of @d from its file system's root, behind its source. 0: it does not fit. */
static size_t dentry_text(struct dentry *d, char *buf, size_t size)
{
	const char *source = d->inode->super->source;
	char *at = buf + size, name[LX_NAME_MAX + 1];
	size_t n;

	dentry_get(d);
	for (;;) {
		struct dentry *up = dentry_get_parent(d);
		const bool root = up == d;

		n = root ? strlen(source) : dentry_copy_name(d, name, sizeof(name));
		dentry_put(d);
		d = up;
		if (n + 1 > (size_t)(at - buf)) {
			dentry_put(d);
			return 0;
		}
		at -= n;
		memcpy(at, root ? source : name, n);
		if (root)
			break;
		*--at = '/';
	}
	dentry_put(d);
	n = (size_t)(buf + size - at);
	memmove(buf, at, n);
	return n;
}

void audit_changed(struct dentry *d, uint32_t mask, uint32_t cookie)
{
	struct inode *i = dentry_inode(d);
	const struct super *s = i ? i->super : NULL;
	struct json_object *o;
	char *path;
	size_t n;

	if (!s || s->type != &g_hostfs_type || (s->flags & SUPER_RDONLY) || !current_task() ||
	    !audit_admit(RATE_change))
		return;
	path = mem_zalloc(LX_PATH_MAX);
	n = path ? dentry_text(d, path, LX_PATH_MAX) : 0;
	o = audit_object("change", current_task());
	audit_add_quoted(o, "what",
			 mask & LX_IN_CREATE       ? "create"
			 : mask & LX_IN_DELETE     ? "delete"
			 : mask & LX_IN_MOVED_FROM ? "rename-from"
						   : "rename-to");
	if (LX_S_ISDIR(i->mode))
		audit_add_object(o, "directory", json_object_new_boolean(true));
	audit_add_bytes(o, "path", n ? path : "?", n ? n : 1);
	if (cookie)
		audit_add_uint(o, "cookie", cookie);
	(void)audit_send(o, RATE_change);
	mem_free(path);
}
