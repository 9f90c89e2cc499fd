/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems whose content is made on demand: the frame on which procfs, sysfs and their like
 * stand.
 *
 * A *node* describes a directory, a text file or a link. Static trees are tables of struct pnode;
 * directories with dynamic content have lookup and iterate. Text files are generated whole at the
 * first read of an open (offset 0) into a buffer, and served from it.
 */
#ifndef MOAT_VFS_PSEUDOFS_H
#define MOAT_VFS_PSEUDOFS_H

#include "vfs/vfs.h"

/* A growing text buffer. Failure (no memory, over 16 MiB) is sticky. */
struct textbuf {
	char *data;
	size_t size, cap;
	bool failed;
};
void text_init(struct textbuf *t);
void text_fini(struct textbuf *t);
void text_printf(struct textbuf *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void text_append(struct textbuf *t, const void *p, size_t size);

struct pnode;
struct pnode_ops {
	/* Text files: append the content. 0 or -errno. @obj: the inode's object. */
	int (*show)(struct vfs_ctx *c, struct inode *i, void *obj, struct textbuf *out);
	/* Writable files: one write's data, whole (at most 64 KiB). Bytes taken or -errno. */
	ssize_t (*store)(struct vfs_ctx *c, struct inode *i, void *obj, const char *data,
			 size_t size);
	/* Dynamic directories: find a child not in the static table: fill *child and *child_obj (a
	 * reference that put_obj of (*child)->ops gives back; may be NULL). *ino 0: given by the
	 * frame. -ENOENT. The static children of a directory share its object, with get_obj,
	 * put_obj and alive of the node by which the object came in; the other functions are each
	 * node's own. */
	int (*lookup)(struct inode *dir, void *obj, const char *name, size_t len,
		      const struct pnode **child, void **child_obj, uint64_t *ino);
	/* Dynamic directories: emit entries beyond the static ones. @off counts from 0 on the
	 * dynamic part; emit's next_off must be off+1 (or any larger strictly growing number <
	 * 2^40). 0 or -errno. */
	int (*iterate)(struct inode *dir, void *obj, struct dir_ctx *ctx, int64_t *off);
	/* Text files: -ENOTTY for what it does not know. NULL: nothing. */
	long (*ioctl)(struct vfs_ctx *c, struct inode *i, void *obj, unsigned cmd, uint64_t arg,
		      const struct umem *um);
	ssize_t (*readlink)(struct inode *i, void *obj, char *buf, size_t size);
	int (*get_link)(struct vfs_ctx *c, struct inode *i, void *obj, struct path *out);
	/* Own file operations instead of show/store (/proc/PID/mem). */
	const struct file_ops *fops;
	/* Is the object still there? false drops the dentry (a dead process). NULL: always. */
	bool (*alive)(void *obj);
	/* Attributes that depend on the object (owner, and for /proc/self/fd links the mode), and
	 * the links of the directories of a dynamic part: the frame has counted the static ones.
	 * May be NULL. */
	void (*attr)(struct inode *i, void *obj, struct kstat *st);
	int (*permission)(struct vfs_ctx *c, struct inode *i, void *obj, unsigned mask);
	void *(*get_obj)(void *obj);
	void (*put_obj)(void *obj);
};

struct pnode {
	const char *name;
	uint32_t mode; /* type and permissions */
	const struct pnode_ops *ops;
	const struct pnode *children; /* directories: ends with name == NULL; may be NULL */
	const void *data; /* of the node's author; links without readlink and get_link: the text */
	uint64_t ino;     /* 0: given by the frame */
};

const struct pnode *pnode_of(const struct inode *i);
void *pnode_obj(const struct inode *i);

/* An instance whose root is @root (a directory). */
int pseudofs_new(const struct fs_type *type, const struct pnode *root, uint64_t magic,
		 struct super **out) MUST_USE;

#endif
