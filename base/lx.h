/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's ABI: Linux/x86-64 structures and constants under names of our own (LX_, lx_), so that
 * they cannot be mixed up with those of the host's libc. Errno values are shared with the host
 * (<errno.h>). Subject headers (lx_signal.h, lx_sock.h, …) stand beside this one.
 *
 * Source: Linux uapi headers' documented layouts, checked by _Static_assert.
 */
#ifndef MOAT_BASE_LX_H
#define MOAT_BASE_LX_H

#include "base/types.h"

#define LX_PATH_MAX 4096
#define LX_NAME_MAX 255
#define LX_SYMLOOP_MAX 40

/* open flags */
#define LX_O_ACCMODE 03
#define LX_O_RDONLY 00
#define LX_O_WRONLY 01
#define LX_O_RDWR 02
#define LX_O_CREAT 0100
#define LX_O_EXCL 0200
#define LX_O_NOCTTY 0400
#define LX_O_TRUNC 01000
#define LX_O_APPEND 02000
#define LX_O_NONBLOCK 04000
#define LX_O_DSYNC 010000
#define LX_O_ASYNC 020000
#define LX_O_DIRECT 040000
#define LX_O_LARGEFILE 0100000
#define LX_O_DIRECTORY 0200000
#define LX_O_NOFOLLOW 0400000
#define LX_O_NOATIME 01000000
#define LX_O_CLOEXEC 02000000
#define LX_O_SYNC 04010000
#define LX_O_PATH 010000000
#define LX_O_TMPFILE 020200000
#define LX_O_TMPFILE_BIT 020000000

#define LX_AT_FDCWD (-100)
#define LX_AT_SYMLINK_NOFOLLOW 0x100
#define LX_AT_EACCESS 0x200
#define LX_AT_REMOVEDIR 0x200
#define LX_AT_SYMLINK_FOLLOW 0x400
#define LX_AT_NO_AUTOMOUNT 0x800
#define LX_AT_EMPTY_PATH 0x1000

/* mode */
#define LX_S_IFMT 0170000
#define LX_S_IFSOCK 0140000
#define LX_S_IFLNK 0120000
#define LX_S_IFREG 0100000
#define LX_S_IFBLK 0060000
#define LX_S_IFDIR 0040000
#define LX_S_IFCHR 0020000
#define LX_S_IFIFO 0010000
#define LX_S_ISUID 04000
#define LX_S_ISGID 02000
#define LX_S_ISVTX 01000
#define LX_S_ISREG(m) (((m)&LX_S_IFMT) == LX_S_IFREG)
#define LX_S_ISDIR(m) (((m)&LX_S_IFMT) == LX_S_IFDIR)
#define LX_S_ISLNK(m) (((m)&LX_S_IFMT) == LX_S_IFLNK)
#define LX_S_ISCHR(m) (((m)&LX_S_IFMT) == LX_S_IFCHR)
#define LX_S_ISBLK(m) (((m)&LX_S_IFMT) == LX_S_IFBLK)
#define LX_S_ISFIFO(m) (((m)&LX_S_IFMT) == LX_S_IFIFO)
#define LX_S_ISSOCK(m) (((m)&LX_S_IFMT) == LX_S_IFSOCK)

#define LX_DT_UNKNOWN 0
#define LX_DT_FIFO 1
#define LX_DT_CHR 2
#define LX_DT_DIR 4
#define LX_DT_BLK 6
#define LX_DT_REG 8
#define LX_DT_LNK 10
#define LX_DT_SOCK 12

#define LX_POLLIN 0x001u
#define LX_POLLPRI 0x002u
#define LX_POLLOUT 0x004u
#define LX_POLLERR 0x008u
#define LX_POLLHUP 0x010u
#define LX_POLLNVAL 0x020u
#define LX_POLLRDNORM 0x040u
#define LX_POLLRDBAND 0x080u
#define LX_POLLWRNORM 0x100u
#define LX_POLLWRBAND 0x200u
#define LX_POLLMSG 0x400u
#define LX_POLLRDHUP 0x2000u

#define LX_PROT_READ 1u
#define LX_PROT_WRITE 2u
#define LX_PROT_EXEC 4u
#define LX_PROT_GROWSDOWN 0x01000000u
#define LX_PROT_GROWSUP 0x02000000u

struct lx_timespec {
	int64_t tv_sec;
	int64_t tv_nsec;
};

struct lx_timeval {
	int64_t tv_sec;
	int64_t tv_usec;
};

struct lx_stat {
	uint64_t st_dev;
	uint64_t st_ino;
	uint64_t st_nlink;
	uint32_t st_mode;
	uint32_t st_uid;
	uint32_t st_gid;
	uint32_t pad0;
	uint64_t st_rdev;
	int64_t st_size;
	int64_t st_blksize;
	int64_t st_blocks;
	struct lx_timespec st_atim;
	struct lx_timespec st_mtim;
	struct lx_timespec st_ctim;
	int64_t unused[3];
};
_Static_assert(sizeof(struct lx_stat) == 144, "struct stat of x86-64");

/* A device number as the kernel encodes it in st_dev/st_rdev ("huge" encoding of the 64-bit ABI).
 */
static inline uint64_t lx_makedev(uint32_t major, uint32_t minor)
{
	return (minor & 0xffu) | ((uint64_t)(major & 0xfffu) << 8) |
	       ((uint64_t)(minor & ~0xffu) << 12) | ((uint64_t)(major & ~0xfffu) << 32);
}

#endif
