/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room that files of the host have and that takes no place on its disk: holes.
 *
 * Theory of operation: bytes written are charged (vfs/write_meter.h). A file also gains room that
 * holds nothing yet: by truncate, by a write behind its end, by fallocate far behind it. Linux
 * takes no place for that, and so it is not charged, but noted: for each file, by the host's device
 * and inode, how much. Place is taken when something fills a hole:
 *
 *   a write        in a file with such room is charged for all blocks that it touches, since one
 *                  byte takes a block
 *   fallocate      is charged for what it is asked for, in blocks
 *   a mapping      stores without asking: when a file is first mapped shared by who may write to
 *                  it, what is noted is charged; and from then on whatever room it gains, at once.
 *                  To charge by faults, a page at a time, would hold nobody to it: the stub may
 *                  make its mappings writable, and has the descriptor to map more of the file
 *
 * sendfile, splice and copy_file_range write like any other. Holes that a file has had before
 * (an earlier sandbox may have made them) are found when it is first written or mapped: it has less
 * blocks than bytes.
 *
 * What is noted of a file must never be less than the holes that there are. So where
 * the file ends is asked of the host and changed under a lock, which files share by their hash:
 * held for writing by what makes room, cuts a file short, moves an offset that the host keeps, or
 * maps; for reading by writes that are known to begin within the file. Those know it from an
 * earlier end of a write, as long as nothing of a guest's has cast doubt on it since.
 *
 * Notes are few (ROOM_NOTES): when there are so many, room is charged at once, and so it is for all
 * files when one is mapped of which that cannot be noted. The note of a file that is gone stays
 * until another with its number is looked at: they differ by when they were made.
 * Holes that are punched are not noted: what they had was charged, or was the host's.
 *
 * Deviations: a block is 4096 bytes, whatever the host's file system takes at once. What a file
 * system compresses, or does not count, looks like holes.
 *
 * Locking: the locks are inside of inode->lock and of an mm's lock. No guest memory is touched
 * under them.
 */
#ifndef MOAT_VFS_ROOM_H
#define MOAT_VFS_ROOM_H

#include "vfs/hostfs.h"

/* What one who writes to a file knows of it. All zero at first. Its owner sees to it that writes at
 * positions come one at a time (inode->lock). */
struct room_end {
	_Atomic uint64_t doubts; /* that the file has @end bytes at least, that the host's offset is
				    within it, that its holes are noted: until there are more */
	_Atomic uint64_t end;
	uint64_t paid, paid_end; /* the blocks that its last write has paid for */
};

/* At start, before any of these; more than once does not matter. */
void room_start(void);

/* pwrite(2) of @size bytes that are charged already. -EDQUOT, or as the host says. */
ssize_t room_pwrite(const struct hostfs_id *id, struct room_end *e, int fd, const void *buf,
		    size_t size, int64_t pos) MUST_USE;
/* The same at the end of the file; @move: and the offset, too. */
ssize_t room_append(const struct hostfs_id *id, struct room_end *e, int fd, const void *buf,
		    size_t size, bool move) MUST_USE;
/* … or at the offset that the host keeps. */
ssize_t room_write(const struct hostfs_id *id, struct room_end *e, int fd, const void *buf,
		   size_t size) MUST_USE;
/* lseek(2) of that offset. */
int64_t room_seek(const struct hostfs_id *id, int fd, int64_t off, int whence) MUST_USE;
/* Of a file that was just made. */
void room_fresh(const struct hostfs_id *id, struct room_end *e);
/* @e: NULL, or of one who writes at positions. */
int room_truncate(const struct hostfs_id *id, struct room_end *e, int fd, uint64_t size) MUST_USE;
/* @mode as the host has it. Charges. */
int room_fallocate(const struct hostfs_id *id, int fd, int mode, int64_t off,
		   int64_t size) MUST_USE;
/* It is about to be mapped shared by who may write to it. -EDQUOT. */
int room_map(const struct hostfs_id *id, int fd) MUST_USE;

#endif
