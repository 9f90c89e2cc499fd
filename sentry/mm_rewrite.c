/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call sites a platform may rewrite, and memory for its trampolines.
 *
 * Theory of operation: a platform that can make a call site cheaper (struct platform.rewrite) says
 * when one is worth it (pf_trap.hot). Here stands what is left alone: text that is shared with
 * others, that the guest may write, the vDSO. Trampolines lie in memory of the guest's, since a
 * jump reaches only so far; the guest sees it in /proc/PID/maps as [trampoline], and may unmap it:
 * the platform then puts the sites back first.
 *
 * Locking: mm->lock over the look at the vma and the rewrite, so that the one is true for the
 * other.
 */
#include "sentry/mm_ops.h"

#include <errno.h>

/* How far from its code a room may lie: a jump reaches 2 GiB, and mappings have a size. */
#define REACH ((uint64_t)1 << 30)
/* The heap grows behind a program: rooms above keep away. */
#define HEAP_ROOM ((uint64_t)256 << 20)

static bool may_rewrite(const struct vma *v, uint64_t call)
{
	return v && v->start <= call && (v->prot & LX_PROT_EXEC) && !(v->prot & LX_PROT_WRITE) &&
	       !(v->flags & (VMA_SHARED | VMA_VDSO | VMA_VVAR | VMA_TRAMPOLINE | VMA_SEALED));
}

static int make_room(struct task *t, struct mm *mm, const struct vma *near) REQUIRES(mm->lock)
{
	struct vma *v = vma_new();
	int r = -ENOMEM;

	if (!v)
		return r;
	/* Rather behind a program than before it: profilers take the first code for the program. */
	if (mm->start_brk > near->end && mm->start_brk - near->end < REACH)
		v->start = mm_gap_below(mm, PF_ROOM_SIZE, near->end, mm->start_brk);
	if (v->start == 0)
		v->start = mm_gap_below(mm, PF_ROOM_SIZE,
					near->start > REACH ? near->start - REACH : PF_GUEST_MIN,
					near->start);
	if (v->start == 0)
		v->start = mm_gap_below(mm, PF_ROOM_SIZE, near->end + HEAP_ROOM,
					MIN(near->end + REACH, PF_GUEST_LIMIT));
	if (v->start != 0 && mm->vma_count < MM_MAX_VMAS) {
		v->end = v->start + PF_ROOM_SIZE;
		v->prot = v->max_prot = LX_PROT_READ | LX_PROT_EXEC;
		v->flags = VMA_TRAMPOLINE | VMA_DONTDUMP | VMA_NORESERVE;
		r = mm_host_op(t, vma_map_op(v));
	}
	if (r) {
		mem_free(v);
		return r;
	}
	vma_link(mm, v);
	/* It stays mapped if the platform has no use for it: harmless, and does not happen again.
	 */
	return g_pf->rewrite_room(t->pt, v->start);
}

/* The same for all who may change each other's memory (ptrace(2)); 0 for who is about to become
 * somebody else, or could, and for whose memory is closed to others of his kind. */
static uint64_t trust_of(const struct task *t)
{
	const struct cred *c = t->vctx.cred;
	const struct {
		uint64_t inheritable, permitted, effective, bset, ambient;
		uint32_t uid, gid, securebits, no_new_privs;
	} who = {
		.inheritable = c->cap_inheritable,
		.permitted = c->cap_permitted,
		.effective = c->cap_effective,
		.bset = c->cap_bset,
		.ambient = c->cap_ambient,
		.uid = c->uid,
		.gid = c->gid,
		.securebits = c->securebits,
		.no_new_privs = t->no_new_privs,
	};

	if (c->euid != c->uid || c->suid != c->uid || c->fsuid != c->uid || c->egid != c->gid ||
	    c->sgid != c->gid || c->fsgid != c->gid || t->tg->dumpable != 1)
		return 0;
	return hash_bytes(&who, sizeof(who), 0) | 1;
}

static struct pf_text text_of(const struct task *t, const struct vma *v)
{
	return (struct pf_text){
		.low = v->start,
		.high = v->end,
		.file_key = v->host_fd >= 0 ? v->key : 0,
		.offset = v->host_offset,
		.trust = trust_of(t),
	};
}

void mm_rewrite_site(struct task *t, uint64_t call)
{
	struct mm *mm = t->mm;
	struct vma *v;

	if (!g_pf->rewrite)
		return;
	fmutex_lock(&mm->lock);
	v = mm_find(mm, call);
	if (may_rewrite(v, call)) {
		const struct pf_text text = text_of(t, v);

		/* If it fails then, the platform asks again or never. */
		if (g_pf->rewrite(t->pt, call, &text) == -ENOSPC && make_room(t, mm, v) == 0)
			(void)g_pf->rewrite(t->pt, call, &text);
	}
	fmutex_unlock(&mm->lock);
}
