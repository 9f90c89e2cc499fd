/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run changed: the list of it, and the archive that keeps it. See runtime/changes.h.
 *
 * Theory of operation: the overlay can tell all that differs from its lower tree
 * (overlay_changes()). Some of that is the launcher's own doing, before the program began:
 * directories like /home, and mount points. Their paths are noted as they are made, with their
 * attributes when set-up is complete; what is still so at the end is no change.
 *
 * libarchive writes the format, into a buffer of ours: it opens nothing, and with the header
 * character set "binary" it looks for no conversion tables, which the sentry could not open.
 */
#include "runtime/changes.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hostcall.h"
#include "vfs/chrdev.h"
#include "vfs/overlay.h"

struct own_path {
	char *path;
	bool known; /* set-up is complete, the following are its */
	uint32_t mode, uid, gid;
};

static struct {
	struct super *root, *tmp;
	struct own_path *own;
	size_t count, room;
} g_changes;

void changes_watch(struct super *root, struct super *tmp)
{
	if (root && !g_changes.root)
		g_changes.root = super_get(root);
	if (tmp && !g_changes.tmp)
		g_changes.tmp = super_get(tmp);
}

int changes_own(const char *path)
{
	char *copy = mem_strdup(path);

	if (copy && g_changes.count == g_changes.room) {
		const size_t room = g_changes.room ? 2 * g_changes.room : 32;
		struct own_path *p = mem_realloc(g_changes.own, room * sizeof(*p));

		if (!p) {
			mem_free(copy);
			return -ENOMEM;
		}
		g_changes.own = p;
		g_changes.room = room;
	}
	if (!copy)
		return -ENOMEM;
	g_changes.own[g_changes.count++] = (struct own_path){.path = copy};
	return 0;
}

/* ---- the walk ---- */

struct walk {
	const char *prefix; /* of the file system at hand */
	int (*fn)(struct walk *w, const char *path, const struct overlay_change *ch);
	char *path;
	size_t room;

	/* printing */
	FILE *f;
	const char *newline;

	/* archiving */
	struct archive *a;
	struct archive_entry *e;
	char *buf;
	struct htable links; /* by inode */
	uint64_t skipped;
	struct err *err;
};

static struct own_path *own_find(const char *path)
{
	for (size_t i = 0; i < g_changes.count; i++) {
		if (strcmp(g_changes.own[i].path, path) == 0)
			return &g_changes.own[i];
	}
	return NULL;
}

static int walk_step(void *arg, const struct overlay_change *ch)
{
	struct walk *w = arg;
	const size_t prefix = strlen(w->prefix), size = prefix + strlen(ch->path) + 1;

	if (size > w->room) {
		char *p = mem_realloc(w->path, 2 * size);

		if (!p)
			return -ENOMEM;
		w->path = p;
		w->room = 2 * size;
	}
	memcpy(w->path, w->prefix, prefix);
	memcpy(w->path + prefix, ch->path, size - prefix);
	return w->fn(w, w->path, ch);
}

static int walk_all(struct walk *w)
{
	int r = 0;

	if (g_changes.root) {
		w->prefix = "";
		r = overlay_changes(g_changes.root, walk_step, w);
	}
	if (r == 0 && g_changes.tmp) {
		w->prefix = "/tmp";
		r = overlay_changes(g_changes.tmp, walk_step, w);
	}
	mem_free(w->path);
	w->path = NULL;
	w->room = 0;
	return r;
}

static int note_own(struct walk *w UNUSED, const char *path, const struct overlay_change *ch)
{
	struct own_path *o = own_find(path);
	struct kstat st;
	int r;

	if (!o || !ch->inode || o->known)
		return 0;
	r = inode_getattr(ch->inode, &st);
	if (r)
		return r;
	o->known = true;
	o->mode = st.mode;
	o->uid = st.uid;
	o->gid = st.gid;
	return 0;
}

int changes_begin(void)
{
	struct walk w = {.fn = note_own};

	return walk_all(&w);
}

/* The launcher's own, as it was left. */
static bool is_own(const char *path, const struct overlay_change *ch, const struct kstat *st)
{
	const struct own_path *o = ch->inode ? own_find(path) : NULL;

	return o && o->known && o->mode == st->mode && o->uid == st->uid && o->gid == st->gid;
}

/* ---- printing ---- */

void changes_print_path(FILE *f, const char *path)
{
	for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
		/* DEL, and the C1 controls as UTF-8, too: this may go to a terminal. */
		const bool c1 = *p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f;

		if (*p < 0x20 || *p == 0x7f || *p == '\\' || c1)
			fprintf(f, "\\%03o", *p);
		else
			fputc(*p, f);
	}
}

static int print_one(struct walk *w, const char *path, const struct overlay_change *ch)
{
	static const char letters[] = {
		[OVERLAY_ADDED] = 'A',
		[OVERLAY_MODIFIED] = 'C',
		[OVERLAY_DELETED] = 'D',
		[OVERLAY_REPLACED] = 'C',
	};
	struct kstat st = {0};
	int r = ch->inode ? inode_getattr(ch->inode, &st) : 0;

	if (r || is_own(path, ch, &st))
		return r;
	fprintf(w->f, "%c ", letters[ch->kind]);
	changes_print_path(w->f, path);
	fputs(w->newline, w->f);
	return ferror(w->f) ? -EIO : 0;
}

int changes_print(FILE *f, const char *newline)
{
	struct walk w = {.fn = print_one, .f = f, .newline = newline};

	return walk_all(&w);
}

/* ---- the archive ---- */

#define PIECE ((size_t)64 << 10)
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

struct link_name {
	const struct inode *inode;
	char path[];
};

static bool link_eq(const void *entry, const void *key)
{
	return ((const struct link_name *)entry)->inode == key;
}

static uint64_t link_hash(const struct inode *i)
{
	return hash_u64((uint64_t)(uintptr_t)i);
}

static la_ssize_t put_bytes(struct archive *a, void *arg, const void *buf, size_t size)
{
	const int fd = *(const int *)arg;
	ssize_t n;

	do {
		n = HOST(write_archive, write(fd, buf, size));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		archive_set_error(a, errno, "%s", err_text(errno));
	return n;
}

static int archive_failed(struct walk *w)
{
	const int e = archive_errno(w->a);

	return err_set(w->err, e > 0 ? e : EIO, "%s",
		       e > 0 ? err_text(e) : archive_error_string(w->a));
}

static int put_header(struct walk *w)
{
	/* A warning is about a name's character set, of which there is none. */
	return archive_write_header(w->a, w->e) < ARCHIVE_WARN ? archive_failed(w) : 0;
}

static int put_marker(struct walk *w, const char *dir, size_t dir_len, const char *mark,
		      const char *name)
{
	const size_t size = dir_len + strlen(mark) + strlen(name) + 2;
	char *path = mem_zalloc(size);
	int r;

	if (!path)
		return -ENOMEM;
	snprintf(path, size, "%.*s/%s%s", (int)dir_len, dir, mark, name);
	archive_entry_clear(w->e);
	archive_entry_set_pathname(w->e, path + 1);
	archive_entry_set_filetype(w->e, AE_IFREG);
	archive_entry_set_perm(w->e, 0);
	archive_entry_set_size(w->e, 0);
	r = put_header(w);
	mem_free(path);
	return r;
}

static int put_content(struct walk *w, struct inode *i, uint64_t size)
{
	for (uint64_t at = 0; at < size;) {
		const size_t want = MIN(PIECE, size - at);
		ssize_t n = overlay_read(i, w->buf, want, (int64_t)at);

		if (n < 0)
			return (int)n;
		/* A host file below that became shorter: the header has promised the bytes. */
		if (n == 0) {
			memset(w->buf, 0, want);
			n = (ssize_t)want;
		}
		if (archive_write_data(w->a, w->buf, (size_t)n) != n)
			return archive_failed(w);
		at += (uint64_t)n;
	}
	return 0;
}

static int add_xattrs(struct walk *w, struct inode *i)
{
	ssize_t n = i->ops->listxattr ? i->ops->listxattr(i, NULL, 0) : 0;
	char *names = n > 0 ? mem_zalloc((size_t)n) : NULL;
	int r = 0;

	if (n <= 0)
		return 0;
	if (!names)
		return -ENOMEM;
	n = i->ops->listxattr(i, names, (size_t)n);
	for (ssize_t at = 0; r == 0 && at < n; at += (ssize_t)strlen(names + at) + 1) {
		const ssize_t size = i->ops->getxattr(i, names + at, w->buf, PIECE);

		if (size < 0)
			r = (int)size;
		else
			archive_entry_xattr_add_entry(w->e, names + at, w->buf, (size_t)size);
	}
	mem_free(names);
	return r < 0 ? r : (int)MIN(n, 0);
}

/* Another name of a file that is in the archive already: *is. Else it is remembered. */
static int add_link(struct walk *w, const char *path, struct inode *i, bool *is)
{
	struct link_name *l = htable_find(&w->links, link_hash(i), link_eq, i);
	int r;

	*is = l != NULL;
	if (l) {
		archive_entry_set_hardlink(w->e, l->path + 1);
		archive_entry_set_size(w->e, 0);
		return 0;
	}
	l = mem_zalloc(sizeof(*l) + strlen(path) + 1);
	if (!l)
		return -ENOMEM;
	l->inode = i;
	strcpy(l->path, path);
	r = htable_insert(&w->links, link_hash(i), l);
	if (r)
		mem_free(l);
	return r;
}

static int put_inode(struct walk *w, const char *path, struct inode *i, const struct kstat *st)
{
	char target[LX_PATH_MAX];
	bool is_link = false;
	int r = 0;

	archive_entry_clear(w->e);
	archive_entry_set_pathname(w->e, path + 1);
	archive_entry_set_mode(w->e, (__LA_MODE_T)st->mode);
	archive_entry_set_uid(w->e, st->uid);
	archive_entry_set_gid(w->e, st->gid);
	archive_entry_set_mtime(w->e, st->mtime / 1000000000, (long)(st->mtime % 1000000000));
	archive_entry_set_size(w->e, LX_S_ISREG(st->mode) ? (la_int64_t)st->size : 0);
	if (LX_S_ISLNK(st->mode)) {
		const ssize_t n = i->ops->readlink(i, target, sizeof(target) - 1);

		if (n < 0)
			return (int)n;
		target[n] = '\0';
		archive_entry_set_symlink(w->e, target);
	}
	if (LX_S_ISCHR(st->mode) || LX_S_ISBLK(st->mode)) {
		archive_entry_set_rdevmajor(w->e, (dev_t)lx_dev_major(st->rdev));
		archive_entry_set_rdevminor(w->e, (dev_t)lx_dev_minor(st->rdev));
	}
	if (!LX_S_ISDIR(st->mode) && st->nlink > 1)
		r = add_link(w, path, i, &is_link);
	if (r == 0 && !is_link)
		r = add_xattrs(w, i);
	if (r == 0)
		r = put_header(w);
	if (r == 0 && LX_S_ISREG(st->mode) && !is_link)
		r = put_content(w, i, st->size);
	return r;
}

/* Ends the walk with 1 at a file that has some. */
static int find_xattrs(struct walk *w UNUSED, const char *path UNUSED,
		       const struct overlay_change *ch)
{
	struct inode *i = ch->inode;

	return i && i->ops->listxattr && i->ops->listxattr(i, NULL, 0) > 0;
}

static int save_one(struct walk *w, const char *path, const struct overlay_change *ch)
{
	const char *name = strrchr(path, '/') + 1;
	struct kstat st;
	int r;

	/* What would be taken for a mark, and what no path names. */
	if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0 || strstr(path, "/" WHITEOUT) ||
	    strlen(path) >= LX_PATH_MAX) {
		w->skipped++;
		return 0;
	}
	if (ch->kind == OVERLAY_DELETED)
		return put_marker(w, path, (size_t)(name - path - 1), WHITEOUT, name);
	r = inode_getattr(ch->inode, &st);
	if (r || is_own(path, ch, &st))
		return r;
	if (LX_S_ISSOCK(st.mode)) {
		w->skipped++;
		return 0;
	}
	/* First, since it makes the directory anew. */
	if (ch->kind == OVERLAY_REPLACED && LX_S_ISDIR(st.mode))
		r = put_marker(w, path, strlen(path), OPAQUE, "");
	return r ? r : put_inode(w, path, ch->inode, &st);
}

int changes_save(int fd, uint64_t *skipped, struct err *e)
{
	struct walk w = {.fn = save_one, .err = e};
	struct link_name *l;
	size_t pos = 0;
	int r = -ENOMEM;

	htable_init(&w.links);
	w.a = archive_write_new();
	w.e = archive_entry_new();
	w.buf = mem_realloc(NULL, PIECE);
	if (w.a && w.e && w.buf) {
		/* Extended attributes need pax headers, of which with this character set other
		 * tars complain: so only for these. */
		struct walk look = {.fn = find_xattrs};
		const bool pax = walk_all(&look) > 0;

		if (pax)
			(void)archive_write_set_format_pax_restricted(w.a);
		else
			(void)archive_write_set_format_gnutar(w.a);
		(void)archive_write_set_bytes_per_block(w.a, (int)PIECE);
		(void)archive_write_set_bytes_in_last_block(w.a, 1);
		if (pax)
			(void)archive_write_set_options(w.a, "hdrcharset=BINARY");
		r = archive_write_open(w.a, &fd, NULL, put_bytes, NULL) ? archive_failed(&w) : 0;
		if (r == 0)
			r = walk_all(&w);
		/* The end is written even so: what is there can be read. */
		if (archive_write_close(w.a) < ARCHIVE_WARN && r == 0)
			r = archive_failed(&w);
	}
	if (r && e && !e->text[0])
		(void)err_set(e, -r, "%s", err_text(-r));
	*skipped = w.skipped;
	while ((l = htable_next(&w.links, &pos)))
		mem_free(l);
	htable_fini(&w.links);
	mem_free(w.buf);
	archive_entry_free(w.e);
	(void)archive_write_free(w.a);
	return r;
}

void changes_end(void)
{
	for (size_t i = 0; i < g_changes.count; i++)
		mem_free(g_changes.own[i].path);
	mem_free(g_changes.own);
	if (g_changes.root)
		super_put(g_changes.root);
	if (g_changes.tmp)
		super_put(g_changes.tmp);
	memset(&g_changes, 0, sizeof(g_changes));
}
