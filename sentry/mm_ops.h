/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the memory map (mm*.c, usermem.c, exec.c, ipc_shm.c, futex.c) share; not for
 * the rest of the sentry.
 *
 * How a change is made. All under mm->lock: check, allocate, split the vmas at the edges (splitting
 * changes nothing that the host or the guest sees), let the host do it, and only then change the
 * list, which cannot fail; vmas that are not needed any more go to a list of the caller's, and are
 * freed (files put, segments detached) after the lock is released. If the host refuses, the list
 * stays as it was, and the splits are merged again.
 */
#ifndef MOAT_SENTRY_MM_OPS_H
#define MOAT_SENTRY_MM_OPS_H

#include "sentry/mm.h"

/* The end of user addresses that Linux tells of; [PF_GUEST_LIMIT, here) exists but is never given
 * out. */
#define LX_TASK_SIZE ((uint64_t)0x7ffffffff000)
/* Free bytes that must stay below a mapping that grows (Linux's stack_guard_gap). */
#define MM_GUARD_GAP (256 * MOAT_PAGE_SIZE)
/* A huge page: big anonymous regions start at a multiple of it, and the host is asked for huge
 * pages behind those that can be written and that hold at least one. *Measured*: the first touch of
 * a huge page costs 54 us, of its 512 small ones 700; fork with 64 MiB in use 0.2 ms against 5. A
 * region that is smaller cannot have one; where only a few pages of each are touched memory is
 * lost, so reservations (PROT_NONE, MAP_NORESERVE) and stacks (MAP_STACK) are left alone. */
#define MM_HUGE_SIZE ((uint64_t)2 << 20)
/* vm.max_map_count */
#define MM_MAX_VMAS 65530u

#define LX_MAP_SHARED 0x01u
#define LX_MAP_PRIVATE 0x02u
#define LX_MAP_SHARED_VALIDATE 0x03u
#define LX_MAP_TYPE 0x0fu
#define LX_MAP_FIXED 0x10u
#define LX_MAP_ANONYMOUS 0x20u
#define LX_MAP_32BIT 0x40u
#define LX_MAP_GROWSDOWN 0x0100u
#define LX_MAP_DENYWRITE 0x0800u
#define LX_MAP_EXECUTABLE 0x1000u
#define LX_MAP_LOCKED 0x2000u
#define LX_MAP_NORESERVE 0x4000u
#define LX_MAP_POPULATE 0x8000u
#define LX_MAP_NONBLOCK 0x10000u
#define LX_MAP_STACK 0x20000u
#define LX_MAP_HUGETLB 0x40000u
#define LX_MAP_SYNC 0x80000u
#define LX_MAP_FIXED_NOREPLACE 0x100000u

#define LX_MREMAP_MAYMOVE 1u
#define LX_MREMAP_FIXED 2u
#define LX_MREMAP_DONTUNMAP 4u

#define LX_PER_ADDR_NO_RANDOMIZE 0x0040000u
#define LX_PER_READ_IMPLIES_EXEC 0x0400000u
#define LX_PER_ADDR_COMPAT_LAYOUT 0x0200000u
#define LX_PER_CLEAR_ON_SETID 0x0740000u /* what a set-id exec takes off the personality */

#define PROT_ALL (LX_PROT_READ | LX_PROT_WRITE | LX_PROT_EXEC)

/* Vmas taken out of a tree. */
struct vma_list {
	struct vma *head;
};

struct vma *vma_new(void) MUST_USE;
/* A copy with references of its own, in no tree. NULL: no memory. */
struct vma *vma_dup(const struct vma *old) MUST_USE;
/* Drops what the vmas held (files, segments, names) and frees them. May sleep; mm->lock not held.
 */
void vma_list_free(struct vma_list *l);
void vma_list_add(struct vma_list *l, struct vma *v);
/* A shared mapping that is or may become writable: the file knows of it (memfd_map_write_get). */
bool vma_counts_as_writer(const struct vma *v);

/* Puts @v into the tree and counts it. */
void vma_link(struct mm *mm, struct vma *v) REQUIRES(mm->lock);
void vma_unlink(struct mm *mm, struct vma *v) REQUIRES(mm->lock);
/* Changes the edges of a linked vma, without passing a neighbour; the file offsets follow @start.
 */
void vma_resize(struct mm *mm, struct vma *v, uint64_t start, uint64_t end) REQUIRES(mm->lock);
/* Changes protection and flags of a linked vma, with the counters. */
void vma_set(struct mm *mm, struct vma *v, uint32_t prot, uint32_t flags) REQUIRES(mm->lock);
struct vma *mm_prev(struct vma *v);
/* The first vma that meets [start, end), or NULL. */
struct vma *mm_find_overlap(struct mm *mm, uint64_t start, uint64_t end) REQUIRES(mm->lock);

/* Makes @addr an edge if a vma spans it. 0 or -ENOMEM. */
int mm_split(struct mm *mm, uint64_t addr) REQUIRES(mm->lock) MUST_USE;
/* mm_split at both ends: for a change of [start, end). */
int mm_split_range(struct mm *mm, uint64_t start, uint64_t end) REQUIRES(mm->lock) MUST_USE;
/* Joins equal neighbours in and around [start, end). */
void mm_merge(struct mm *mm, uint64_t start, uint64_t end, struct vma_list *dead)
	REQUIRES(mm->lock);
/* Takes all of [start, end), whose edges are vma edges, off the list, after the host did. */
void mm_cut(struct mm *mm, uint64_t start, uint64_t end, struct vma_list *dead) REQUIRES(mm->lock);
/* munmap of checked, aligned, non-empty [start, end) below PF_GUEST_LIMIT. */
int mm_unmap_locked(struct task *t, struct mm *mm, uint64_t start, uint64_t end,
		    struct vma_list *dead) REQUIRES(mm->lock) MUST_USE;

/* Where the guest's mapping of @size bytes may go: like get_unmapped_area. The address, or -ENOMEM,
 * -EINVAL, -EPERM. */
int64_t mm_pick_addr(struct task *t, struct mm *mm, uint64_t hint, uint64_t size, uint32_t lx_flags,
		     bool anon) REQUIRES(mm->lock);
/* The highest free @size bytes in [low, high), or 0. */
uint64_t mm_gap_below(struct mm *mm, uint64_t size, uint64_t low, uint64_t high) REQUIRES(mm->lock);
/* The lowest address that a new mapping may reach up to @v: leaves the guard gap of a stack. */
uint64_t vma_gap_end(const struct vma *v);

/* RLIMIT_AS, RLIMIT_DATA: may @bytes more of such memory exist, when @freed bytes go away first? */
bool mm_may_expand(struct task *t, struct mm *mm, uint32_t prot, uint32_t flags, uint64_t bytes,
		   uint64_t freed) REQUIRES(mm->lock);
/* Would @count be too many maps for one process? */
bool mm_too_many(unsigned count);
/* RLIMIT_MEMLOCK for @bytes more. */
bool mm_may_lock(struct task *t, struct mm *mm, uint64_t bytes) REQUIRES(mm->lock);
/* Bytes mapped in [start, end). */
uint64_t mm_mapped_bytes(struct mm *mm, uint64_t start, uint64_t end) REQUIRES(mm->lock);

/* Does mseal(2) forbid to change [start, end)? */
bool mm_is_sealed(struct mm *mm, uint64_t start, uint64_t end) REQUIRES(mm->lock);

/* Before ops by which @more bytes may be mapped in @mm, by @pt: has the platform let the host map
 * them. 0 or -ENOMEM. */
int mm_space(struct mm *mm, struct pf_thread *pt, uint64_t more) MUST_USE;
/* After something was unmapped: what is let be mapped is not much more than what is. */
void mm_space_trim(struct mm *mm, struct pf_thread *pt);
/* Runs one op in the address space of @t. 0 or -errno. */
int mm_host_op(struct task *t, struct map_op op) MUST_USE;
/* The same with the advice, in the same batch, that huge pages are welcome in [start, end); what
 * the host thinks of that is no error. */
int mm_host_op_huge(struct task *t, struct map_op op, uint64_t start, uint64_t end) MUST_USE;
/* Shall [start, end), which has or gets the flags and rights of @v, have huge pages unasked? */
bool mm_wants_huge(struct mm *mm, const struct vma *v, uint64_t start, uint64_t end)
	REQUIRES(mm->lock);
/* The op that makes the host map @v as it is described. */
struct map_op vma_map_op(const struct vma *v);
/* Faults the pages of a range in, as MAP_POPULATE and mlock do; a failure means nothing but for
 * mlock. */
int mm_populate(struct task *t, uint64_t start, uint64_t end) MUST_USE;

/* Grows the stack that ends above @addr down to it, by Linux's rules. True if @addr is mapped now.
 */
bool mm_grow_locked(struct task *t, struct mm *mm, uint64_t addr) REQUIRES(mm->lock);
/* The same for a copy that stopped at @addr; takes mm->lock. False: the copy fails. @tried (0 at
 * first) remembers where a retry was granted because the stack covers @addr already: another thread
 * may just have grown it. */
bool mm_grow_for_copy(struct task *t, uint64_t addr, uint64_t *tried);

/* sentry/usermem.c */
bool user_range_ok(uint64_t addr, uint64_t size);

/* Maps @file, shared, for the System V segment @seg, whose count passes to the vma. @addr 0:
 * anywhere; @replace: what is there may go. The address or -errno. */
long mm_map_segment(struct task *t, uint64_t addr, uint64_t size, uint32_t prot, bool replace,
		    struct file *file, struct shm_segment *seg);
/* sentry/ipc_shm.c: a vma of the segment came or went (split, fork, munmap, exit). @mm->lock may be
 * held for get. */
void shm_vma_get(struct shm_segment *s);
void shm_vma_put(struct shm_segment *s);

#endif
