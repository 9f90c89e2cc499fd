/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of pipes, for vfs/pipe.c and vfs/splice.c.
 *
 * Theory of operation: a pipe is a ring of page slots, as in Linux, since what fits into a pipe can
 * be seen from outside: a write of up to a page goes into one slot, small writes share the last
 * slot while they fit (not packets), and the size is a number of slots. Slot n's page is at mem + n
 * * 4096, so that runs of slots are one piece of memory and a large read or write is one or two
 * copies. head and tail only grow; rotate says which slot they mean, and is set anew when the pipe
 * is empty so that the next one is slot 0: a pipe that carries little touches one page.
 *
 * Locking: pipe->lock (fmutex) guards the ring; it is held while data is copied to or from user
 * memory, and while splice writes a piece of it to a file. head, tail, readers and writers are
 * atomic, since poll and the conditions of waits read them without it.
 */
#ifndef MOAT_VFS_PIPE_RING_H
#define MOAT_VFS_PIPE_RING_H

#include "vfs/pipe.h"

struct pipe_slot {
	uint16_t off, len; /* of the data in the slot's page; off + len <= 4096 */
	bool packet;       /* ends a message: a read stops here and drops the rest */
};

struct pipe {
	struct fmutex lock;
	struct waitq rd, wr;               /* readers, writers and pollers of each side */
	struct waitq opens;                /* opens of a FIFO that wait for the other side */
	struct pipe_slot *slots;           /* [lock] */
	char *mem;                         /* [lock] slot_count pages; NULL until the first write */
	_Atomic uint32_t slot_count;       /* [lock] a power of two */
	uint32_t rotate;                   /* [lock] slot of n: (n + rotate) modulo slot_count */
	_Atomic uint32_t head, tail;       /* [lock] slots filled and emptied since the start */
	_Atomic uint32_t readers, writers; /* [lock] open ends */
	_Atomic uint32_t reader_opens, writer_opens; /* [lock] opens there ever were */
	_Atomic bool polled;                         /* by epoll perhaps: an edge for each write */
	unsigned files;                              /* [inode->lock] files that have it open */
};

static inline bool pipe_is_empty(const struct pipe *p)
{
	return atomic_load(&p->head) == atomic_load(&p->tail);
}

static inline bool pipe_is_full(const struct pipe *p)
{
	return atomic_load(&p->head) - atomic_load(&p->tail) >= atomic_load(&p->slot_count);
}

/* The pipe behind an open end; NULL if @f is none. */
struct pipe *pipe_of_file(const struct file *f);

/* Wakes those who wait to read (after data came), to write (after room came). No lock needed. */
void pipe_wake_readers(struct pipe *p);
void pipe_wake_writers(struct pipe *p);

/* Waits, without the lock, until there is data or no writer; until there is room or no reader. 0,
 * -EAGAIN if @nonblock, -ERESTARTSYS. */
int pipe_wait_data(struct pipe *p, bool nonblock) MUST_USE;
int pipe_wait_room(struct pipe *p, bool nonblock) MUST_USE;

/* What a fault of the user's leaves: slots that were filled, packets that are whole, or each byte
 * that could be had. */
enum pipe_fill { PIPE_FILL_SLOTS, PIPE_FILL_PACKETS, PIPE_FILL_BYTES };
/* Adds up to what fits from @u, in the way of one write. Bytes, 0 if full, -EFAULT, -ENOMEM. */
ssize_t pipe_fill_locked(struct pipe *p, struct uio *u, enum pipe_fill how) REQUIRES(p->lock);
/* Takes data to @u. Bytes, 0 if empty, -EFAULT. A read of packets takes one. */
ssize_t pipe_drain_locked(struct pipe *p, struct uio *u) REQUIRES(p->lock);
/* The next @count bytes or fewer as pieces of memory; bytes in all. *segs_used out. */
size_t pipe_peek_locked(struct pipe *p, size_t count, struct uio_seg *segs, unsigned max,
			unsigned *segs_used) REQUIRES(p->lock);
/* Forgets the first @count bytes, which are there. */
void pipe_consume_locked(struct pipe *p, size_t count) REQUIRES(p->lock);
size_t pipe_bytes_locked(struct pipe *p) REQUIRES(p->lock);

#endif
