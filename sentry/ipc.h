/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the System V objects (shared memory, semaphores, queues) have in common: keys, identifiers,
 * permissions.
 *
 * Theory of operation: a table per kind maps an index to an object. An identifier is the index and
 * a sequence number that changes when an index is used again, so that a stale one is noticed
 * (-EIDRM). New objects take the next free index, cyclically.
 *
 * Locking: ids->lock (RANK_MISC) guards the table and struct ipc_perm of all that is in it.
 *
 * References: svipc(7), shmget(2), shmctl(2).
 */
#ifndef MOAT_SENTRY_IPC_H
#define MOAT_SENTRY_IPC_H

#include "sentry/task.h"

#define LX_IPC_PRIVATE 0
#define LX_IPC_CREAT 01000
#define LX_IPC_EXCL 02000
#define LX_IPC_RMID 0
#define LX_IPC_SET 1
#define LX_IPC_STAT 2
#define LX_IPC_INFO 3

#define IPC_INDEX_BITS 15

struct ipc_perm {
	int32_t key;
	int id;
	uint32_t uid, gid, cuid, cgid;
	uint32_t mode; /* permission bits and flags of the kind */
	uint16_t seq;
};

struct lx_ipc_perm {
	int32_t key;
	uint32_t uid, gid, cuid, cgid, mode;
	uint16_t seq, pad;
	uint64_t unused[2];
};
_Static_assert(sizeof(struct lx_ipc_perm) == 48, "struct ipc64_perm");

struct ipc_ids {
	struct mutex lock;
	struct ipc_perm **slots; /* [lock] max of them, made on first use */
	unsigned max;            /* how many objects there may be */
	unsigned used;           /* [lock] */
	unsigned next;           /* [lock] where to look first */
	uint16_t seq;            /* [lock] */
};
#define IPC_IDS_INIT(max_)                                   \
	{                                                    \
		.lock = MUTEX_INIT(RANK_MISC), .max = (max_) \
	}

/* Enters @p, with key and mode set, as made by @t; sets its id. It or -ENOSPC, -ENOMEM. */
int ipc_add_locked(struct ipc_ids *ids, struct ipc_perm *p, struct task *t)
	REQUIRES(ids->lock) MUST_USE;
void ipc_remove_locked(struct ipc_ids *ids, struct ipc_perm *p) REQUIRES(ids->lock);
/* By key; NULL. */
struct ipc_perm *ipc_find_key_locked(struct ipc_ids *ids, int32_t key) REQUIRES(ids->lock);
/* By identifier. -EINVAL: nothing there; -EIDRM: another by now. */
int ipc_find_locked(struct ipc_ids *ids, int id, struct ipc_perm **out)
	REQUIRES(ids->lock) MUST_USE;
/* By index alone, for the STAT commands that ipcs uses; NULL. */
struct ipc_perm *ipc_at_locked(struct ipc_ids *ids, unsigned index) REQUIRES(ids->lock);
/* The highest index in use; -1: none. */
int ipc_highest_locked(struct ipc_ids *ids) REQUIRES(ids->lock);

/* May @t do to @p what @mode (0444, 0222 …) says? 0 or -EACCES. */
int ipc_check(struct task *t, const struct ipc_perm *p, uint32_t mode) MUST_USE;
/* May @t change or remove @p? 0 or -EPERM. */
int ipc_check_owner(struct task *t, const struct ipc_perm *p) MUST_USE;
void ipc_perm_to_lx(const struct ipc_perm *p, struct lx_ipc_perm *out);
/* IPC_SET's part: uid, gid, permission bits. -EINVAL for (uid_t)-1. */
int ipc_perm_set(struct ipc_perm *p, const struct lx_ipc_perm *from) MUST_USE;

/* The files of /proc/sysvipc: appends the table of each kind. */
struct textbuf;
void ipc_shm_show(struct textbuf *out);
void ipc_sem_show(struct textbuf *out);
void ipc_msg_show(struct textbuf *out);

#endif
