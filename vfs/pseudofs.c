/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of file systems that are made on demand. See vfs/pseudofs.h.
 *
 * Theory of operation: an inode is a node and, perhaps, an object (a process, a descriptor) with a
 * reference. Static children share their directory's object. Nothing is kept in the dentry cache
 * that is not in use, and names are asked each time whether their object still lives, since objects
 * come and go by themselves.
 *
 * A text file's content is made whole when a read starts at offset 0, and served from that until
 * the next such read; so a reader that goes on in pieces sees one moment, and one that rewinds sees
 * a new one.
 *
 * Inode numbers: what the node or the dynamic directory says, else made from the parent's number
 * and the node's address, so that readdir and stat agree and the same file keeps its number.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/lx_fcntl.h"
#include "vfs/dcache.h"
#include "vfs/inode.h"
#include "vfs/pseudofs.h"

#define TEXT_MAX ((size_t)16 << 20)
#define STORE_MAX ((size_t)64 << 10)

/* ---- text buffers ---- */

void text_init(struct textbuf *t)
{
	*t = (struct textbuf){NULL, 0, 0, false};
}

void text_fini(struct textbuf *t)
{
	mem_free(t->data);
	text_init(t);
}

/* Room for @more bytes and a NUL. */
static bool text_grow(struct textbuf *t, size_t more)
{
	if (t->failed)
		return false;
	if (more > TEXT_MAX - t->size) {
		t->failed = true;
		return false;
	}
	if (t->size + more + 1 > t->cap) {
		size_t cap = MAX(t->cap * 2, (size_t)1024);

		while (cap < t->size + more + 1)
			cap *= 2;

		char *p = mem_realloc(t->data, cap);

		if (!p) {
			t->failed = true;
			return false;
		}
		t->data = p;
		t->cap = cap;
	}
	return true;
}

void text_append(struct textbuf *t, const void *p, size_t size)
{
	if (!text_grow(t, size))
		return;
	memcpy(t->data + t->size, p, size);
	t->size += size;
	t->data[t->size] = '\0';
}

void text_printf(struct textbuf *t, const char *fmt, ...)
{
	va_list ap;

	/* Mostly there is room, and one pass is enough. */
	if (!text_grow(t, 128))
		return;

	size_t room = t->cap - t->size;

	va_start(ap, fmt);

	int n = vsnprintf(t->data + t->size, room, fmt, ap);

	va_end(ap);
	if (n < 0) {
		t->failed = true;
		return;
	}
	if ((size_t)n >= room) {
		if (!text_grow(t, (size_t)n)) {
			t->data[t->size] = '\0';
			return;
		}
		va_start(ap, fmt);
		vsnprintf(t->data + t->size, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	t->size += (size_t)n;
}

/* ---- inodes ---- */

struct pinode {
	const struct pnode *node;
	void *obj;
	/* Whose get_obj, put_obj and alive are meant: of the node by which the object came in: this
	 * one, or the directory whose static descendant this is. May be NULL. */
	const struct pnode_ops *owner;
};

static const struct inode_ops g_dir_iops, g_file_iops, g_link_iops, g_magic_iops,
	g_named_magic_iops;
static const struct file_ops g_dir_fops, g_text_fops;
static const struct pnode_ops g_no_pnode_ops;

static struct pinode *pinode_of(const struct inode *i)
{
	return i->priv;
}

const struct pnode *pnode_of(const struct inode *i)
{
	return pinode_of(i)->node;
}

void *pnode_obj(const struct inode *i)
{
	return pinode_of(i)->obj;
}

static const struct pnode_ops *ops_of(const struct inode *i)
{
	const struct pnode_ops *ops = pinode_of(i)->node->ops;

	return ops ? ops : &g_no_pnode_ops;
}

/* Made of what the guest knows, and not by the keyed hashes: it sees the number. */
static uint64_t child_ino(const struct inode *dir, const struct pnode *node, const char *name,
			  size_t len)
{
	uint64_t mix = dir->ino;

	if (node->ino)
		return node->ino;
	for (size_t i = 0; i < len; i++)
		mix = (mix ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
	/* Of 40 bits, so that it fits everywhere and stays clear of numbers given by authors. */
	return random_next(&mix) >> 24 | (uint64_t)1 << 39;
}

/* What each of them adds to its parent's count of links. */
static uint32_t static_dirs(const struct pnode *dir)
{
	uint32_t count = 0;

	for (const struct pnode *n = dir->children; n && n->name; n++)
		count += LX_S_ISDIR(n->mode);
	return count;
}

/* Takes the object's reference, also if it fails. */
static struct inode *pinode_new(struct super *s, const struct pnode *node, void *obj,
				const struct pnode_ops *owner, uint64_t ino)
{
	struct pinode *p = mem_zalloc(sizeof(*p));
	struct inode *i = p ? inode_new(s, node->mode) : NULL;

	if (!i) {
		mem_free(p);
		if (obj && owner && owner->put_obj)
			owner->put_obj(obj);
		return NULL;
	}
	p->node = node;
	p->obj = obj;
	p->owner = owner;
	i->priv = p;
	i->ino = ino;
	if (LX_S_ISDIR(node->mode)) {
		i->ops = &g_dir_iops;
		i->fops = &g_dir_fops;
		i->nlink = 2 + static_dirs(node);
	} else if (LX_S_ISLNK(node->mode)) {
		if (!node->ops || !node->ops->get_link)
			i->ops = &g_link_iops;
		else
			i->ops = node->ops->readlink ? &g_named_magic_iops : &g_magic_iops;
	} else {
		i->ops = &g_file_iops;
		i->fops = node->ops && node->ops->fops ? node->ops->fops : &g_text_fops;
	}
	return i;
}

static void pseudo_inode_free(struct inode *i)
{
	struct pinode *p = pinode_of(i);

	if (p && p->obj && p->owner && p->owner->put_obj)
		p->owner->put_obj(p->obj);
	mem_free(p);
}

static bool pinode_alive(const struct inode *i)
{
	const struct pinode *p = pinode_of(i);

	return !p->obj || !p->owner || !p->owner->alive || p->owner->alive(p->obj);
}

static bool pseudo_revalidate(struct dentry *d)
{
	struct inode *i = dentry_inode(d);

	return i && pinode_alive(i);
}

static int pseudo_permission(struct vfs_ctx *c, struct inode *i, unsigned mask)
{
	const struct pnode_ops *ops = ops_of(i);

	if (ops->permission)
		return ops->permission(c, i, pnode_obj(i), mask);

	/* The owner may be the object's. */
	struct kstat st;
	int r = inode_getattr(i, &st);

	if (r)
		return r;
	mutex_lock(&i->meta);
	__atomic_store_n(&i->uid, st.uid, __ATOMIC_RELAXED);
	__atomic_store_n(&i->gid, st.gid, __ATOMIC_RELAXED);
	__atomic_store_n(&i->mode, st.mode, __ATOMIC_RELAXED);
	mutex_unlock(&i->meta);
	return generic_permission(c, i, mask);
}

static int pseudo_getattr(struct inode *i, struct kstat *st)
{
	const struct pnode_ops *ops = ops_of(i);

	inode_attr(i, st);
	st->blksize =
		(uint32_t)(LX_S_ISREG(st->mode) || LX_S_ISLNK(st->mode) ? 1024 : MOAT_PAGE_SIZE);
	if (ops->attr)
		ops->attr(i, pnode_obj(i), st);
	return 0;
}

static int pseudo_setattr(struct vfs_ctx *c, struct inode *i, const struct iattr *attr)
{
	struct iattr a = *attr;

	(void)c;
	if (a.valid & ATTR_MODE)
		return -EPERM;
	a.valid &= ~ATTR_SIZE; /* echo x > file truncates first */
	inode_apply_attr(i, &a);
	return 0;
}

#define PSEUDO_ATTR_OPS \
	.permission = pseudo_permission, .getattr = pseudo_getattr, .setattr = pseudo_setattr

/* ---- directories ---- */

static const struct pnode *static_child(const struct pnode *dir, const char *name, size_t len)
{
	for (const struct pnode *n = dir->children; n && n->name; n++) {
		if (strlen(n->name) == len && memcmp(n->name, name, len) == 0)
			return n;
	}
	return NULL;
}

static int dir_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	struct pinode *p = pinode_of(dir);
	const struct pnode_ops *ops = ops_of(dir), *owner;
	const struct pnode *child;
	void *obj = NULL;
	uint64_t ino = 0;

	if (!pinode_alive(dir))
		return -ENOENT;
	child = static_child(p->node, name, len);
	if (child) {
		obj = p->obj;
		owner = p->owner;
		if (obj && owner && owner->get_obj)
			obj = owner->get_obj(obj);
		ino = child_ino(dir, child, name, len);
	} else {
		if (!ops->lookup)
			return -ENOENT;

		int r = ops->lookup(dir, p->obj, name, len, &child, &obj, &ino);

		if (r)
			return r;
		owner = child->ops;
		if (ino == 0)
			ino = child_ino(dir, child, name, len);
	}
	*out = pinode_new(dir->super, child, obj, owner, ino);
	return *out ? 0 : -ENOMEM;
}

/* Positions: 0 ".", 1 "..", then the static children, then the dynamic part, which counts from 0
 * itself. */
struct dir_shift {
	struct dir_ctx ctx;
	struct dir_ctx *to;
	int64_t base;
};

static bool emit_shifted(struct dir_ctx *ctx, const char *name, size_t len, uint64_t ino,
			 unsigned dtype, int64_t next_off)
{
	struct dir_shift *s = container_of(ctx, struct dir_shift, ctx);

	return s->to->emit(s->to, name, len, ino, dtype, s->base + next_off);
}

static int dir_iterate(struct file *f, struct dir_ctx *ctx)
{
	struct inode *i = f->inode;
	struct pinode *p = pinode_of(i);
	const struct pnode_ops *ops = ops_of(i);
	int64_t pos = 2;

	if (!pinode_alive(i))
		return -ENOENT;
	if (f->pos == 0) {
		if (!ctx->emit(ctx, ".", 1, i->ino, LX_DT_DIR, 1))
			return 0;
		f->pos = 1;
	}
	if (f->pos == 1) {
		struct dentry *parent = dentry_get_parent(f->path.dentry);
		uint64_t ino = dentry_inode(parent)->ino;

		dentry_put(parent);
		if (!ctx->emit(ctx, "..", 2, ino, LX_DT_DIR, 2))
			return 0;
		f->pos = 2;
	}
	for (const struct pnode *n = p->node->children; n && n->name; n++, pos++) {
		if (f->pos > pos)
			continue;
		if (!ctx->emit(ctx, n->name, strlen(n->name),
			       child_ino(i, n, n->name, strlen(n->name)), n->mode >> 12, pos + 1))
			return 0;
		f->pos = pos + 1;
	}
	if (!ops->iterate)
		return 0;

	struct dir_shift shift = {.ctx = {.emit = emit_shifted}, .to = ctx, .base = pos};
	int64_t off = f->pos - pos;
	int r = ops->iterate(i, p->obj, &shift.ctx, &off);

	f->pos = pos + off;
	return r;
}

static const struct inode_ops g_dir_iops = {
	.lookup = dir_lookup,
	PSEUDO_ATTR_OPS,
};

static const struct file_ops g_dir_fops = {
	.iterate = dir_iterate,
	.lseek = file_lseek_endless,
};

/* ---- links ---- */

static ssize_t link_readlink(struct inode *i, char *buf, size_t size)
{
	const struct pnode_ops *ops = ops_of(i);

	if (!pinode_alive(i))
		return -ENOENT;
	if (ops->readlink)
		return ops->readlink(i, pnode_obj(i), buf, size);
	/* A fixed link: its text is the node's data. */
	if (pnode_of(i)->data && !ops->get_link) {
		const char *text = pnode_of(i)->data;
		size_t n = strnlen(text, size);

		memcpy(buf, text, n);
		return (ssize_t)n;
	}
	return -EINVAL;
}

static int magic_get_link(struct vfs_ctx *c, struct inode *i, struct path *out)
{
	if (!pinode_alive(i))
		return -ENOENT;
	return ops_of(i)->get_link(c, i, pnode_obj(i), out);
}

static const struct inode_ops g_link_iops = {
	.readlink = link_readlink,
	PSEUDO_ATTR_OPS,
};

/* Its text is the path that it leads to; the VFS makes it. */
static const struct inode_ops g_magic_iops = {
	.get_link = magic_get_link,
	PSEUDO_ATTR_OPS,
};

static const struct inode_ops g_named_magic_iops = {
	.readlink = link_readlink,
	.get_link = magic_get_link,
	PSEUDO_ATTR_OPS,
};

/* ---- text files ---- */

struct ptext {
	struct fmutex lock;  /* outside of whatever show() takes */
	struct textbuf text; /* [lock] */
	bool made;           /* [lock] */
};

/* Who asks: the calling task, or in the kernel the opener. */
static struct vfs_ctx *reader_ctx(struct file *f, struct vfs_ctx *fallback)
{
	struct vfs_ctx *c = g_vfs_hooks->current_ctx();

	if (c)
		return c;
	*fallback = (struct vfs_ctx){.cred = f->cred, .fsize_limit = UINT64_MAX};
	return fallback;
}

static int text_open(struct vfs_ctx *c, struct inode *i, struct file *f)
{
	(void)c;
	if (!pinode_alive(i))
		return -ENOENT;
	if (f->ops != &g_text_fops)
		return 0;

	struct ptext *t = mem_zalloc(sizeof(*t));

	if (!t)
		return -ENOMEM;
	fmutex_init(&t->lock);
	f->priv = t;
	return 0;
}

static void text_release(struct file *f)
{
	struct ptext *t = f->priv;

	text_fini(&t->text);
	fmutex_fini(&t->lock);
	mem_free(t);
}

static int text_make_locked(struct file *f, struct ptext *t)
{
	const struct pnode_ops *ops = ops_of(f->inode);
	struct textbuf fresh;
	struct vfs_ctx fallback;
	int r;

	if (!pinode_alive(f->inode))
		return -ESRCH;
	text_init(&fresh);
	r = ops->show ? ops->show(reader_ctx(f, &fallback), f->inode, pnode_obj(f->inode), &fresh)
		      : 0;
	if (r == 0 && fresh.failed)
		r = -ENOMEM;
	if (r) {
		text_fini(&fresh);
		return r;
	}
	text_fini(&t->text);
	t->text = fresh;
	t->made = true;
	return 0;
}

static ssize_t text_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct ptext *t = f->priv;
	ssize_t n = 0;

	fmutex_lock(&t->lock);
	if (*pos == 0 || !t->made)
		n = text_make_locked(f, t);
	if (n == 0 && *pos >= 0 && (uint64_t)*pos < t->text.size) {
		size_t size = MIN(t->text.size - (size_t)*pos, (size_t)u->resid);

		n = uio_put(u, t->text.data + *pos, size);
		if (n > 0)
			*pos += n;
	}
	fmutex_unlock(&t->lock);
	return n;
}

static ssize_t text_write(struct vfs_ctx *c, struct file *f, struct uio *u, int64_t *pos)
{
	const struct pnode_ops *ops = ops_of(f->inode);
	size_t size = MIN((size_t)u->resid, STORE_MAX);
	char *data;
	ssize_t n;

	if (!ops->store)
		return size == 0 ? 0 : -EIO;
	if (!pinode_alive(f->inode))
		return -ESRCH;
	/* One NUL behind it, for authors who parse. */
	data = mem_zalloc(size + 1);
	if (!data)
		return -ENOMEM;
	n = uio_get(u, data, size);
	if (n >= 0)
		n = ops->store(c, f->inode, pnode_obj(f->inode), data, (size_t)n);
	if (n > 0)
		*pos += n;
	mem_free(data);
	return n;
}

static long text_ioctl(struct vfs_ctx *c, struct file *f, unsigned cmd, uint64_t arg,
		       const struct umem *um)
{
	const struct pnode_ops *ops = ops_of(f->inode);

	if (!ops->ioctl)
		return -ENOTTY;
	if (!pinode_alive(f->inode))
		return -ESRCH;
	return ops->ioctl(c, f->inode, pnode_obj(f->inode), cmd, arg, um);
}

static const struct inode_ops g_file_iops = {
	PSEUDO_ATTR_OPS,
	.open = text_open,
};

static const struct file_ops g_text_fops = {
	.read = text_read,
	.write = text_write,
	.ioctl = text_ioctl,
	.sees_empty = true,
	.lseek = file_lseek_endless,
	.release = text_release,
};

/* ---- instances ---- */

static int pseudo_statfs(struct super *s, struct kstatfs *out)
{
	*out = (struct kstatfs){.type = s->magic,
				.bsize = MOAT_PAGE_SIZE,
				.frsize = MOAT_PAGE_SIZE,
				.namelen = LX_NAME_MAX};
	return 0;
}

static const struct super_ops g_pseudo_super_ops = {
	.inode_free = pseudo_inode_free,
	.revalidate = pseudo_revalidate,
	.statfs = pseudo_statfs,
};

int pseudofs_new(const struct fs_type *type, const struct pnode *root, uint64_t magic,
		 struct super **out)
{
	struct super *s = super_new(type, &g_pseudo_super_ops);
	struct inode *i;

	if (!s)
		return -ENOMEM;
	s->flags = SUPER_REVALIDATE | SUPER_NOCACHE_NEG | SUPER_UNCACHED | SUPER_NOATIME;
	s->magic = magic;
	i = pinode_new(s, root, NULL, root->ops, 1);
	if (i)
		s->root = dentry_new_root(s, i);
	if (!s->root) {
		super_put(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}
