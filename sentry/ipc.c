/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System V identifiers and permissions. See sentry/ipc.h.
 */
#include "sentry/ipc.h"

#include <errno.h>
#include <string.h>

int ipc_add_locked(struct ipc_ids *ids, struct ipc_perm *p, struct task *t)
{
	const struct cred *c = t->vctx.cred;
	unsigned index = ids->next;

	if (!ids->slots) {
		ids->slots = mem_calloc(ids->max, sizeof(ids->slots[0]));
		if (!ids->slots)
			return -ENOMEM;
	}
	if (ids->used >= ids->max)
		return -ENOSPC;
	while (ids->slots[index]) {
		if (++index == ids->max) {
			index = 0;
			ids->seq++;
		}
	}
	ids->slots[index] = p;
	ids->used++;
	p->seq = ids->seq & 0x7fff;
	p->id = p->seq << IPC_INDEX_BITS | (int)index;
	p->uid = p->cuid = c->euid;
	p->gid = p->cgid = c->egid;
	ids->next = index + 1;
	if (ids->next == ids->max) {
		ids->next = 0;
		ids->seq++;
	}
	return p->id;
}

static unsigned index_of(int id)
{
	return (unsigned)id & ((1u << IPC_INDEX_BITS) - 1);
}

void ipc_remove_locked(struct ipc_ids *ids, struct ipc_perm *p)
{
	ids->slots[index_of(p->id)] = NULL;
	ids->used--;
}

struct ipc_perm *ipc_at_locked(struct ipc_ids *ids, unsigned index)
{
	return ids->slots && index < ids->max ? ids->slots[index] : NULL;
}

struct ipc_perm *ipc_find_key_locked(struct ipc_ids *ids, int32_t key)
{
	for (unsigned i = 0; ids->slots && i < ids->max; i++) {
		if (ids->slots[i] && ids->slots[i]->key == key)
			return ids->slots[i];
	}
	return NULL;
}

int ipc_find_locked(struct ipc_ids *ids, int id, struct ipc_perm **out)
{
	struct ipc_perm *p = ipc_at_locked(ids, index_of(id));

	if (!p)
		return -EINVAL;
	if (p->id != id)
		return -EIDRM;
	*out = p;
	return 0;
}

int ipc_highest_locked(struct ipc_ids *ids)
{
	if (!ids->slots)
		return -1;
	for (int i = (int)ids->max - 1; i >= 0; i--)
		if (ids->slots[i])
			return i;
	return -1;
}

int ipc_check(struct task *t, const struct ipc_perm *p, uint32_t mode)
{
	const struct cred *c = t->vctx.cred;
	uint32_t want = (mode >> 6) | (mode >> 3) | mode, granted = p->mode;

	if (c->euid == p->cuid || c->euid == p->uid)
		granted >>= 6;
	else if (cred_in_egroup(c, p->cgid) || cred_in_egroup(c, p->gid))
		granted >>= 3;
	if ((want & ~granted & 7) && !cred_capable(c, LX_CAP_IPC_OWNER))
		return -EACCES;
	return 0;
}

int ipc_check_owner(struct task *t, const struct ipc_perm *p)
{
	const struct cred *c = t->vctx.cred;

	if (c->euid == p->cuid || c->euid == p->uid || cred_capable(c, LX_CAP_SYS_ADMIN))
		return 0;
	return -EPERM;
}

void ipc_perm_to_lx(const struct ipc_perm *p, struct lx_ipc_perm *out)
{
	*out = (struct lx_ipc_perm){.key = p->key,
				    .uid = p->uid,
				    .gid = p->gid,
				    .cuid = p->cuid,
				    .cgid = p->cgid,
				    .mode = p->mode,
				    .seq = p->seq};
}

int ipc_perm_set(struct ipc_perm *p, const struct lx_ipc_perm *from)
{
	if (from->uid == UINT32_MAX || from->gid == UINT32_MAX)
		return -EINVAL;
	p->uid = from->uid;
	p->gid = from->gid;
	p->mode = (p->mode & ~0777u) | (from->mode & 0777);
	return 0;
}
