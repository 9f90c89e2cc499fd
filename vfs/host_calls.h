/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host system calls that the vfs makes, all of them, one wrapper each. Results are >= 0 or
 * -errno, where errno went through the one filter (host_errno): a guest sees only what its own
 * request can explain. EINTR is retried. Wrappers named _wait may take long: on a fiber they run on
 * a helper thread. MOAT_FAIL=host:n makes the n-th call fail with EIO.
 */
#ifndef MOAT_VFS_HOST_CALLS_H
#define MOAT_VFS_HOST_CALLS_H

#include "base/types.h"

struct lx_flock;

/* What host_stat learns of a file. Times in ns since 1970. */
struct host_stat {
	uint64_t dev, ino, rdev, size, blocks;
	uint32_t mode, nlink, uid, gid, blksize;
	int64_t atime, mtime, ctime, btime; /* btime 0: unknown */
	bool mount_root;
	uint64_t sight; /* when it was told: see host_sight_holds() */
};

/*
 * Sights. What the host told of a file, and has perhaps changed since, is still good for a guest as
 * long as the guest cannot have learned of anything newer: no other guest call has had any word
 * from the host since but of what was so before, nothing of the host's is mapped shared that others
 * may write, and some microseconds at most went by. All that a guest call asks of files, one after
 * the other, is one sight.
 */
bool host_sight_holds(uint64_t sight);
/* And nothing else that is not old has been told in it since. A guest call may ask for several
 * files one after the other, and is answered with what was told last. If that is newer than the
 * rest, nothing of the rest may be shown by a later call: it may have changed before. */
bool host_sight_last(uint64_t sight);
/* Are these of one sight? */
bool host_sight_same(uint64_t a, uint64_t b);
/* The file system with this device number is the host's own: each change of a file shows in its
 * ctime, by the host's clock, also that it is renamed. */
void host_sight_trust(uint64_t dev);
/* For tests: what has not changed for so long is old. */
void host_sight_set_old(int64_t ns);
/* The guest has learned, or is about to, something that the host did: no sight holds any longer.
 * The wrappers here do that themselves. */
void host_news(void);
/* Contents of files that the host may change are mapped somewhere, or (-1) no more; shared: whether
 * a private mapping shows what others write is unspecified (mmap(2)), so nobody may count on it. */
void host_sight_mapped(int change);
/* The number of the last news, and the time by the TSC: what is found out after a sight was taken
 * holds as long as one that was told then (vfs/host_watch.c). */
struct host_sight {
	uint64_t number, begin;
};
struct host_sight host_sight_take(void);
bool host_sight_current(const struct host_sight *s);

/* Watches (vfs/host_watch.h): a queue of the host's, or -errno; what it tells of, one directory
 * below which names change, or one file. Nothing of that is news. */
int host_watch_open(void) MUST_USE;
/* @name: one component below directory @dir, or "." for itself; NULL: the open file @dir. */
int host_watch_mark(int queue, int dir, const char *name, bool directory) MUST_USE;
int host_watch_unmark(int queue, int dir, const char *name, bool directory) MUST_USE;
void host_watch_unmark_all(int queue);
/* Has anything come? True if the host cannot say, too. */
bool host_watch_pending(int queue);
/* Empties the queue, as far as it goes at once. */
void host_watch_drain(int queue);

/* The host's struct open_how; struct open_how is the guest's. */
struct host_open_how {
	uint64_t flags, mode, resolve;
};
enum { HOST_NO_MAGICLINKS = 0x02, HOST_NO_SYMLINKS = 0x04, HOST_BENEATH = 0x08 };

/* The errno (positive) that a guest may see for the host's @e. */
int host_errno(int e);

/* Below a directory: @name is one component; all are no-follow. */
int host_stat_at(int dir, const char *name, struct host_stat *out) MUST_USE;
int host_stat_fd(int fd, struct host_stat *out) MUST_USE;
/* O_NOFOLLOW, O_CLOEXEC, … are added. A symlink is opened only with O_PATH. What is opened is
 * whatever has the name now: look before (opening a device or a FIFO has effects), and compare
 * after. */
int host_open_at(int dir, const char *name, int flags, uint32_t mode) MUST_USE;
int host_mkdir_at(int dir, const char *name, uint32_t mode) MUST_USE;
int host_mknod_at(int dir, const char *name, uint32_t mode) MUST_USE; /* FIFO and socket only */
int host_symlink_at(int dir, const char *name, const char *target) MUST_USE;
int host_link_at(int old_dir, const char *old_name, int new_dir, const char *new_name) MUST_USE;
int host_link_fd(int fd, int new_dir, const char *new_name) MUST_USE; /* names an O_TMPFILE */
int host_unlink_at(int dir, const char *name, bool directory) MUST_USE;
int host_rename_at(int old_dir, const char *old_name, int new_dir, const char *new_name,
		   unsigned flags) MUST_USE;
ssize_t host_readlink_at(int dir, const char *name, char *buf, size_t size) MUST_USE;

uint32_t host_own_uid(void); /* the owner of what we make */
int host_dup(int fd) MUST_USE;
int host_get_flags(int fd) MUST_USE; /* F_GETFL, the host's O_* */
void host_close(int fd);
int host_truncate(int fd, uint64_t size) MUST_USE;
/* O_PATH will do for these. (uint32_t)-1 and INT64_MIN leave alone. */
int host_chown_fd(int fd, uint32_t uid, uint32_t gid) MUST_USE;
int host_chmod_fd(int fd, uint32_t mode) MUST_USE; /* -EOPNOTSUPP: symlink; old kernel and O_PATH */
bool host_lacks_fchmodat2(void);
int host_utimes_fd(int fd, int64_t atime, int64_t mtime) MUST_USE;
int host_fallocate(int fd, int mode, int64_t off, int64_t size) MUST_USE;
int host_fallocate_wait(int fd, int mode, int64_t off, int64_t size) MUST_USE;
int host_syncfs_wait(int fd) MUST_USE;
/* Locks of the open description, types as LX_F_*, @end inclusive. None waits for another's:
 * -EAGAIN.
 */
int host_record_lock(int fd, int type, int64_t start, int64_t end) MUST_USE;
int host_record_test(int fd, struct lx_flock *fl) MUST_USE; /* as F_OFD_GETLK */
int host_flock(int fd, int type) MUST_USE;
/* Lets so much of the host's time go by. */
void host_pause_wait(uint64_t ns);
int host_fsync_wait(int fd, bool data_only) MUST_USE;
int64_t host_lseek(int fd, int64_t off, int whence);
ssize_t host_getdents(int fd, void *buf, size_t size);
int host_statfs(int fd,
		uint64_t out[8]) MUST_USE; /* in the order of struct kstatfs: type … namelen */
ssize_t host_getxattr(int fd, const char *name, void *buf, size_t size);
int host_setxattr(int fd, const char *name, const void *value, size_t size, int flags) MUST_USE;
int host_removexattr(int fd, const char *name) MUST_USE;
ssize_t host_listxattr(int fd, char *buf, size_t size);

/* Reads what is in the host's cache at once, waits on a helper thread for the rest. Short at the
 * end.
 * @no_nowait remembers that the host's file system cannot do that (overlayfs, FUSE): then it is a
 * plain read. NULL: a file in memory, which never waits. @end: where the file is known to end, so
 * that a read which stops there need not be looked into; UINT64_MAX: nobody knows. */
ssize_t host_pread(int fd, void *buf, size_t size, int64_t off, uint64_t end,
		   _Atomic bool *no_nowait);
ssize_t host_pwrite(int fd, const void *buf, size_t size, int64_t off);
/* At the end, wherever that is; @move: the description's offset goes there too. */
ssize_t host_append(int fd, const void *buf, size_t size, bool move);

/* On streams: never waits. -EAGAIN, or -EOPNOTSUPP where only a waiting call can tell. */
ssize_t host_read_nowait(int fd, void *buf, size_t size, bool socket);
ssize_t host_write_nowait(int fd, const void *buf, size_t size, bool socket);
ssize_t host_read_wait(int fd, void *buf, size_t size);
ssize_t host_write_wait(int fd, const void *buf, size_t size);
/* At the description's own offset; regular files: does not wait but for the disk. */
ssize_t host_write(int fd, const void *buf, size_t size);
/* The poll bits that are set now, of @events and ERR, HUP. */
uint32_t host_poll(int fd, uint32_t events);
/* Of a terminal or stream; @arg: a pointer to kernel memory or a number. */
int host_ioctl(int fd, unsigned cmd, void *arg) MUST_USE;
int host_ioctl_wait(int fd, unsigned cmd, void *arg) MUST_USE;

int host_memfd(const char *name) MUST_USE;
/* A shared mapping of the first @size bytes; NULL: no memory. */
void *host_map(int fd, size_t size, bool writable) MUST_USE;
/* The same from @offset on, a multiple of the page, to read only. */
void *host_map_part(int fd, uint64_t offset, size_t size) MUST_USE;
/* Grows or shrinks it, maybe elsewhere; NULL: no memory, the old one stays. */
void host_unmap(void *p, size_t size);
void *host_map_anon(size_t size) MUST_USE;
/* Gives the pages of a private anonymous mapping back; they read as zero. */
void host_drop_pages(void *p, size_t size);

/* One byte for each page of the file from @offset on: is it in the host's page cache? 0 or -errno;
 * -EOPNOTSUPP: it is a file in memory, which is asked by host_resident_memory. */
int host_resident(int fd, uint64_t offset, size_t pages, uint8_t *vec) MUST_USE;
/* The same of a file in memory. Moves @fd's offset. */
int host_resident_memory(int fd, uint64_t offset, size_t pages, uint8_t *vec) MUST_USE;
/* A fresh file_map key, never used again; and the end of one (0: nothing), before its descriptor is
 * closed. */
uint64_t host_map_key_new(void);
void host_map_key_gone(uint64_t key);

#endif
