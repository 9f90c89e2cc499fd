/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of hostfs, shared by hostfs*.c; nobody else includes it.
 *
 * Lock order (outer first): inode->lock, sb->names, then one of the short ones, none of which is
 * held while another is taken: sb->lock (the table), g_host_fds' lock (names and descriptors of all
 * hnodes), inode->meta. No host call under any.
 */
#ifndef MOAT_VFS_HOSTFS_NODE_H
#define MOAT_VFS_HOSTFS_NODE_H

#include "vfs/host_calls.h"
#include "vfs/hostfs.h"
#include "vfs/inode.h"
#include "vfs/room.h"

struct hostfs_sb {
	struct super *super;
	struct hostfs_opts opts; /* without only and source */
	char **only;             /* NULL: all names */
	uint64_t root_dev;       /* the host's, of the grant */
	uint32_t host_uid;       /* whose the files are that we make on the host */
	bool may_watch;          /* the host reports all changes of this file system */
	struct frwlock names;    /* renames against those who use a name that an hnode remembers */
	struct mutex lock;       /* RANK_MISC */
	struct htable by_id;     /* hnodes by (dev, ino) of the host. [lock] */
};

/* Which list of descriptors to spare an hnode stands on. */
enum hnode_listed { LISTED_NOT, LISTED_DIR, LISTED_FILE };

/* What a look at a name touches comes first, then what the descriptors need, which are closed long
 * after the file was looked at: few cache lines each. */
struct hnode {
	struct inode *inode; /* borrowed: the one that owns this */
	struct hostfs_sb *sb;
	uint64_t dev, ino; /* the host's */
	/* The moment (fiber_moment) and the sight (vfs/host_calls.h) in which the host told the
	 * attributes [inode->meta; the sight is read without], and showed the file under its name,
	 * and which that was, if it is known and the only one; never followed. */
	uint64_t known;
	_Atomic uint64_t known_sight, seen, seen_sight;
	const struct dentry *_Atomic seen_name;
	bool blocked;  /* a mount point that is not crossed: an empty directory */
	bool in_table; /* [sb->lock] */
	bool made;     /* a FIFO or socket that a guest made: it holds a reference to itself.
			  [inode->lock of the parent] */
	/* Both [g_host_fds]. */
	bool w_readable;        /* see wfd */
	uint8_t listed;         /* LISTED_*: by lru */
	_Atomic bool no_nowait; /* the host cannot read it without perhaps waiting */
	_Atomic bool no_window; /* mapping it failed, or it was cut short while it was mapped */

	/* Down to name: [g_host_fds]. */
	_Atomic unsigned opens; /* users of rfd and wfd: they stay open. Read without the lock */
	int rfd, wfd;           /* regular files, -1; wfd is O_RDWR or, not w_readable, O_WRONLY */
	int dir_fd;             /* directories: O_PATH; -1 */
	unsigned dir_pins;      /* calls that use it */
	uint64_t rkey, wkey;    /* of file_map */
	TAILQ_ENTRY(hnode)
	lru; /* of unused directory descriptors, or of files that nobody has open */
	struct inode
		*parent; /* where it was last found; a reference; NULL: root, unnamed or removed */
	char *name;

	_Atomic unsigned gains;      /* reads that a window would have made cheaper */
	_Atomic uint64_t read_end;   /* where large reads have come to */
	struct room_end end;         /* [inode->lock] */
	LIST_HEAD(, window) windows; /* [vfs/hostfs_window.c] */
	char *_Atomic target;        /* immutable symlinks: what they say; NULL: not read yet */
	/* What is known by a watch, where there is one (vfs/hostfs_watch.c). */
	struct hnode_watch {
		_Atomic bool marked;
		_Atomic uint16_t asked, due;       /* in vain; a mark is due after so many */
		_Atomic uint16_t stopping, stops;  /* who takes the mark away now, and did */
		_Atomic uint64_t generation;       /* in which all was told; 0: none */
		_Atomic uint64_t named;            /* in which the name was, at least */
		_Atomic uint64_t told;             /* by the TSC */
		const struct dentry *_Atomic name; /* the one under which; never followed */
	} watch;
};

static inline struct hnode *hnode_of(const struct inode *i)
{
	return i->priv;
}

static inline struct hostfs_id hnode_id(const struct hnode *h)
{
	return (struct hostfs_id){h->dev, h->ino};
}

/* Between hnode_parent_get and the host call on the name no guest renames it. Not recursive. */
static inline void hostfs_names_hold(struct hostfs_sb *sb) NO_TSA
{
	if (sb->opts.writable)
		frwlock_read_lock(&sb->names);
}

static inline void hostfs_names_release(struct hostfs_sb *sb) NO_TSA
{
	if (sb->opts.writable)
		frwlock_read_unlock(&sb->names);
}

/* ---- descriptors and names (hostfs_fds.c) ---- */

void hnode_init_fds(struct hnode *h);
/* Closes all, forgets the name. */
void hnode_fini_fds(struct hnode *h);
/* A descriptor for lookups below directory @h, until _put. -ENOENT, -ESTALE. */
int hnode_dir_get(struct hnode *h) MUST_USE;
void hnode_dir_put(struct hnode *h);
/* As hnode_dir_get for the directory in which @h stands, and its name there (a buffer of
 * LX_NAME_MAX + 1). *dir is to be put by hnode_parent_put. -ENOENT if it has no name. */
int hnode_parent_get(struct hnode *h, struct inode **dir, char *name) MUST_USE;
void hnode_parent_put(struct inode *dir);
/* The content's descriptor, for reading or for writing too, which stays until _put. */
int hnode_file_get(struct hnode *h, bool write) MUST_USE;
void hnode_file_put(struct hnode *h);
/* @fd, just opened by creating the file, is its write descriptor. Takes it. */
void hnode_adopt_fd(struct hnode *h, int fd);
/* An open descriptor of @h, whatever kind, or -1; borrowed while something keeps it open. */
int hnode_any_fd(struct hnode *h);
/* The descriptor for @h's locks, borrowed while a guest has it open: that for reading only, or that
 * for @writing, if such a one may hold a lock of @type (LX_F_*; LX_F_UNLCK: any). -ENOLCK. */
int hnode_lock_fd(struct hnode *h, bool writing, int type) MUST_USE;
/* A descriptor of its own for @h, of whatever type, good for stat, chown, chmod and utimes: O_PATH
 * mostly. -ENOENT. */
int hnode_handle(struct hnode *h) MUST_USE;
/* The map key of the descriptor @fd of @h. */
uint64_t hnode_map_key(struct hnode *h, int fd);
/* @h, which nobody else knows yet, was found as @name in @dir. -ENOMEM. */
int hnode_first_name(struct hnode *h, struct inode *dir, const char *name) MUST_USE;
/* @h was found as @name in @dir. The old name goes. -ENOMEM. */
int hnode_set_name(struct hnode *h, struct inode *dir, const char *name) MUST_USE;
/* Is that the name under which @h was found last? */
bool hnode_has_name(struct hnode *h, const struct inode *dir, const char *name);
/* @h is no longer @name in @dir, if that is the name it has. */
void hnode_clear_name(struct hnode *h, struct inode *dir, const char *name);
void hnode_swap_names(struct hnode *a, struct hnode *b);
/* A descriptor of its own with O_RDONLY for a directory or regular file. */
int hnode_open_read(struct hnode *h) MUST_USE;

/* ---- contents (hostfs_window.c) ---- */

/* Reads out of mappings that are there already: how many bytes from @pos on that gave, maybe 0. The
 * rest is to be read by a host call. */
size_t hnode_window_read(struct hnode *h, void *buf, size_t size, int64_t pos);
/* All that @u wants, at @pos, by a mapping of the reader's own (uio_give): how much, or 0. The
 * caller holds the content (hnode_file_get). */
ssize_t hnode_window_give(struct hnode *h, struct uio *u, int64_t pos);
/* See file_ops.view. */
bool hnode_window_show(struct hnode *h, int64_t pos, struct file_view *out) MUST_USE;
/* @size bytes at @pos were wanted and came by a host call on @fd: a window may be due. */
void hnode_window_offer(struct hnode *h, int fd, size_t size, int64_t pos);
void hnode_windows_fini(struct hnode *h);

/* ---- locks (hostfs_lock.c) ---- */

extern const struct outside_locks g_hostfs_locks;

/* ---- watches (hostfs_watch.c) ---- */

/* Does the host report all that changes in a file system of this type? Not what others than its
 * kernel change. */
bool hostfs_may_watch(uint64_t magic);
/* There is one more instance that watches. */
void hostfs_watch_begin(void);
/* Is it known, without asking the host, that @d is its inode's name? Makes no host call. */
bool hostfs_watch_has_name(const struct dentry *d);
/* … and the same of the name under which @h was found last. */
bool hostfs_watch_seen(const struct hnode *h);
/* Are the attributes known, but for those of a directory, which are not kept? */
bool hostfs_watch_known(const struct hnode *h);
/* A question to the host for a name in a directory. */
struct hnode_ask {
	struct hnode *dir;
	const struct dentry *d; /* of h, */
	struct hnode *h;
	const char *name;
	uint64_t generation; /* in which the answer can be kept; 0: in none */
	bool marked;         /* h has one, too, */
	bool marks;          /* or just got one, by the name, */
	unsigned stops;      /* after so many were taken away */
};
/* Before the host is asked, by the directory's descriptor @fd: fills in the last three, and places
 * h's mark if it is due. */
void hostfs_watch_ask(struct hnode_ask *a, int fd);
/* It told @st; @vain: all of that was known. Places the directory's mark if it is due. */
void hostfs_watch_told(struct hnode_ask *a, int fd, const struct host_stat *st, bool vain);
/* The host told other than what was known of @h. */
void hostfs_watch_wrong(const struct hnode *h);
/* Nothing is known by the watch any more, until the host is asked again. */
void hostfs_watch_forget(struct hnode *h);
/* A guest is about to change the names in @h, or what it holds, by the open @fd: reports of that
 * are of no use. */
void hostfs_watch_stop(struct hnode *h, int fd);

/* ---- what is hidden (hostfs_hidden.c) ---- */

bool hostfs_is_hidden_name(uint64_t dev, uint64_t ino, const char *name, size_t len);
bool hostfs_is_hidden_file(uint64_t dev, uint64_t ino);
/* A directory above something hidden. */
bool hostfs_is_pinned(uint64_t dev, uint64_t ino);

/* ---- inodes (hostfs.c) ---- */

uint32_t hostfs_map_id(const struct hostfs_idmap *map, uint32_t host);
/* The host's id for the guest's; false if there is none. */
bool hostfs_unmap_id(const struct hostfs_idmap *map, uint32_t guest, uint32_t *host);
/* The number a guest sees for the host's. */
uint64_t hostfs_show_ino(const struct hostfs_sb *sb, uint64_t dev, uint64_t ino);
/* Sets the inode's attributes from the host's, who told them in this moment. True: nothing is
 * new. */
bool hostfs_fill(struct inode *i, const struct host_stat *st);
/* Is @i the file that @st describes? */
bool hostfs_same(const struct inode *i, const struct host_stat *st);
/* The inode of what was found as @name (NULL: unnamed) in @dir. */
int hostfs_inode_for(struct inode *dir, const char *name, const struct host_stat *st,
		     struct inode **out) MUST_USE;
/* Where the content ends, if that is known now, without asking the host; else UINT64_MAX. */
uint64_t hostfs_known_end(struct inode *i);
/* Asks the host for the attributes as they are now; the old ones stay if it cannot say. */
void hostfs_refresh(struct inode *i);
/* The host has just shown the file under its name, @d if that is not NULL. */
void hostfs_note_seen(struct hnode *h, const struct host_stat *st, const struct dentry *d);
/* … and that still holds, for all that a guest can tell. */
bool hostfs_is_seen(const struct hnode *h);
/* What is known of the attributes holds no longer: the content was written. */
void hostfs_forget(struct inode *i);
/* Takes the inode out of the table: its number may be used anew from now on. */
void hostfs_unhash(struct hnode *h);
bool hostfs_name_allowed(const struct inode *dir, const char *name, size_t len);
int hostfs_getattr(struct inode *i, struct kstat *out);
int hostfs_setattr(struct vfs_ctx *c, struct inode *i, const struct iattr *attr);
/* Whoever may write to a program must not run as its owner that way. The host takes the bits away
 * itself, but not from who is root, nor when it is written by a mapping. */
int hostfs_drop_set_id(struct inode *i) MUST_USE;
ssize_t hostfs_getxattr(struct inode *i, const char *name, void *buf, size_t size);
int hostfs_setxattr(struct inode *i, const char *name, const void *value, size_t size, int flags);
ssize_t hostfs_listxattr(struct inode *i, char *buf, size_t size);
/* What all kinds of inodes here have. */
#define HOSTFS_ATTR_OPS                                                                    \
	.getattr = hostfs_getattr, .setattr = hostfs_setattr, .getxattr = hostfs_getxattr, \
	.setxattr = hostfs_setxattr, .listxattr = hostfs_listxattr

extern const struct inode_ops g_hostfs_dir_iops, g_hostfs_file_iops, g_hostfs_link_iops,
	g_hostfs_special_iops;
extern const struct file_ops g_hostfs_dir_fops, g_hostfs_file_fops;

#endif
