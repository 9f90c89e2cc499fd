/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's memory map: the list of mappings that the guest sees, and copies to and from guest
 * memory.
 *
 * Theory of operation: the sentry decides on addresses and keeps the vma tree; the host kernel does
 * faults and copy-on-write, after each change was carried out through g_pf->map in the address
 * space. The sentry's list and the host's agree, but for stack growth, which happens lazily on a
 * fault.
 *
 * Locking: mm->lock (fmutex) guards the tree and counters. Held over g_pf->map. Copies take no
 * lock. Order: mm->lock before any vfs inode lock? No: mmap calls file->ops->mmap *before* it takes
 * mm->lock, and drops file references after it released it.
 */
#ifndef MOAT_SENTRY_MM_H
#define MOAT_SENTRY_MM_H

#include "base/queue.h"
#include "sentry/task.h"

#define VMA_SHARED 1u
#define VMA_GROWSDOWN 2u
#define VMA_LOCKED 4u
#define VMA_NORESERVE 8u
#define VMA_HUGE 16u
#define VMA_NOHUGE 32u
#define VMA_DONTFORK 64u
#define VMA_WIPEONFORK 128u
#define VMA_DONTDUMP 256u
#define VMA_STACK 512u
#define VMA_HEAP 1024u
#define VMA_VDSO 2048u
#define VMA_VVAR 4096u
#define VMA_SYSV 8192u        /* priv: the shm segment (sentry/ipc_shm.c) */
#define VMA_SEALED 16384u     /* mseal(2) */
#define VMA_AUTOHUGE 32768u   /* unasked, the host was told that huge pages are welcome */
#define VMA_TRAMPOLINE 65536u /* the platform's: sentry/mm_rewrite.c */
#define VMA_COUNTED 131072u   /* see struct file_map */

struct shm_segment; /* sentry/ipc_shm.c */

struct vma {
	RB_ENTRY(vma) node;
	uint64_t start, end;
	uint32_t prot, max_prot, flags;
	struct file *file; /* a reference; NULL for anonymous memory */
	uint64_t offset;   /* bytes into file */
	int host_fd; /* of file's file_map; borrowed through file. -1: anonymous for the host too */
	uint64_t host_offset, key;
	struct shm_segment *sysv; /* VMA_SYSV; counts as an attach */
	char *name;               /* PR_SET_VMA_ANON_NAME; owned */
	uint64_t gap,
		max_gap; /* free bytes below it; the largest such in its subtree. sentry/mm.c */
	struct vma *dead_next; /* in a struct vma_list, once out of the tree */
};

RB_HEAD(vma_tree, vma);

/* /proc/PID/coredump_filter, and what it is at the start. */
#define DUMP_ANON_PRIVATE 0x01u
#define DUMP_ANON_SHARED 0x02u
#define DUMP_FILE_PRIVATE 0x04u
#define DUMP_FILE_SHARED 0x08u
#define DUMP_ELF_HEADERS 0x10u
#define DUMP_ALL 0x1ffu
#define DUMP_DEFAULT 0x33u

struct mm {
	struct ref users; /* tasks and others that use the memory */
	struct fmutex lock;
	struct vma_tree vmas; /* [lock] */
	struct pf_as *as;     /* a reference */
	uint64_t start_code, end_code, start_data, end_data;
	uint64_t start_brk, brk; /* [lock] */
	uint64_t mmap_base;
	uint64_t stack_top;
	uint64_t arg_start, arg_end, env_start, env_end;
	uint64_t total_bytes, locked_bytes, data_bytes, stack_bytes; /* [lock] */
	uint64_t host_bytes; /* [lock] total_bytes, and trampolines */
	uint64_t space;      /* [lock] what g_pf->space was told last; counted in g_memory_mapped */
	unsigned filled, asked; /* [lock] see "regions of less than a huge page", sentry/mm_map.c */
	uint64_t rests;         /* [lock] the same: of huge pages */
	bool any_sealed;        /* [lock] a vma is or was VMA_SEALED */
	bool thp_off;           /* [lock] PR_SET_THP_DISABLE */
	unsigned vma_count;     /* [lock] */
	uint64_t auxv[64];      /* as on the stack, for /proc/PID/auxv */
	unsigned auxv_count;
	struct file *exe;   /* [lock] a reference; write access denied while it runs */
	uint32_t def_flags; /* mlockall(MCL_FUTURE): VMA_LOCKED */
	uint64_t vdso;
	_Atomic uint32_t membarrier;
	_Atomic uint32_t dump_filter; /* which mappings go into a core dump: DUMP_ */
	struct aio_ctx *aio;          /* [sentry/aio.c] */
	LIST_ENTRY(mm) watched;       /* [sentry/meter_watch.c] */
};

struct mm *mm_new(struct pf_as *as) MUST_USE; /* takes its own reference to @as */
/* fork: a copy of the list for @as, the new address space made by g_pf->as_fork; old->lock is held
 * by the caller over both, so that the list and the host's copy say the same. Takes its own
 * reference to @as (as_fork gives none besides @child's). DONTFORK and WIPEONFORK ranges are undone
 * in the child through @child. NULL: no memory. */
struct mm *mm_fork(struct mm *old, struct pf_as *as, struct pf_thread *child)
	REQUIRES(old->lock) MUST_USE;
struct mm *mm_get(struct mm *mm);
/* The last reference unmaps all (drops files, shm attaches) and gives the address space back. From
 * a fiber. */
void mm_put(struct mm *mm);

/* For the calling task @t, whose stopped thread carries out the host's part. Linux's mmap(2)
 * semantics: the address or -errno. */
long mm_mmap(struct task *t, uint64_t addr, uint64_t size, uint32_t prot, uint32_t lx_flags,
	     struct file *file, uint64_t offset);
int mm_munmap(struct task *t, uint64_t addr, uint64_t size) MUST_USE;
int mm_mprotect(struct task *t, uint64_t addr, uint64_t size, uint32_t prot) MUST_USE;
long mm_mremap(struct task *t, uint64_t addr, uint64_t old_size, uint64_t new_size, unsigned flags,
	       uint64_t new_addr);
long mm_brk(struct task *t, uint64_t brk);
/* These have the semantics, and the errors, of their system calls. */
int mm_madvise(struct task *t, uint64_t addr, uint64_t size, int advice) MUST_USE;
int mm_mlock(struct task *t, uint64_t addr, uint64_t size, bool on_fault) MUST_USE;
int mm_munlock(struct task *t, uint64_t addr, uint64_t size) MUST_USE;
int mm_mlockall(struct task *t, int flags) MUST_USE;
void mm_munlockall(struct task *t);
int mm_msync(struct task *t, uint64_t addr, uint64_t size, int flags) MUST_USE;
int mm_mincore(struct task *t, uint64_t addr, uint64_t size, gaddr_t vec) MUST_USE;
/* PR_SET_THP_DISABLE, PR_GET_THP_DISABLE. */
/* Is there room for a whole huge page? */
bool mm_holds_huge(uint64_t start, uint64_t end);
void mm_set_thp_off(struct task *t, bool off);
bool mm_thp_off(struct mm *mm);
int mm_mseal(struct task *t, uint64_t addr, uint64_t size, uint64_t flags) MUST_USE;
int mm_remap_file_pages(struct task *t, uint64_t addr, uint64_t size, uint64_t prot,
			uint64_t pgoff) MUST_USE;
/* PR_SET_VMA_ANON_NAME; @name NULL takes the names away. */
int mm_set_vma_name(struct task *t, uint64_t addr, uint64_t size, const char *name) MUST_USE;
long mm_prctl_set_vma(struct task *t, uint64_t what, uint64_t addr, uint64_t size, uint64_t name);
long mm_prctl_set_mm(struct task *t, uint64_t what, uint64_t addr, uint64_t a4, uint64_t a5);
/* A fault of the guest at @addr: true if it was mended (stack growth) and the instruction can be
 * retried; else *sig and *code say what to deliver. */
bool mm_fault(struct task *t, const struct pf_trap *trap, int *sig, int *code);
/* The platform says that the syscall instruction at @call is executed often. */
void mm_rewrite_site(struct task *t, uint64_t call);
struct vma *mm_find(struct mm *mm, uint64_t addr)
	REQUIRES(mm->lock); /* the vma that ends after @addr, or NULL */
/* May all of [@addr, @addr + @size) be written, as far as the mappings go? */
bool mm_may_write(struct mm *mm, uint64_t addr, uint64_t size);
struct vma *mm_next(struct vma *v);
#define vma_foreach(v, mm) RB_FOREACH (v, vma_tree, &(mm)->vmas)
RB_PROTOTYPE(vma_tree, vma, node, vma_cmp)
/* The name /proc/PID/maps shows for memory without a file: "[heap]", "[stack]", "[vdso]", "[vvar]",
 * "[anon:NAME]" (then in @buf), or NULL. */
const char *mm_vma_name(struct mm *mm, struct vma *v, char *buf, size_t size) REQUIRES(mm->lock);
#define VMA_NAME_MAX 96

/* execve: see sentry/exec.c */
struct exec_request {
	struct file *file;   /* opened for execution; borrowed */
	const char *path;    /* as the caller named it (AT_EXECFN, comm) */
	char **argv, **envp; /* kernel copies, NULL-terminated */
	unsigned argc, envc;
	bool path_closes; /* @path leads through a descriptor that exec closes: no script can be run
			     so */
};
/* Loads the program into a fresh address space and switches @t to it: mm, pt, regs; with
 * credentials (setuid), signals, descriptors, threads as execve(2) says. On failure before the
 * point of no return: -errno and nothing changed; after it the task is marked for SIGKILL. @first:
 * the very first program (no old memory). */
int task_exec(struct task *t, const struct exec_request *req, bool first, struct err *e) MUST_USE;
/* Opens a program: regular, executable for @t, on no noexec mount. @at_flags: LX_AT_EMPTY_PATH,
 * LX_AT_SYMLINK_NOFOLLOW. @start NULL: the cwd. *out: a reference. */
int exec_open(struct task *t, const struct path *start, const char *name, unsigned at_flags,
	      struct file **out) MUST_USE;

/* ---- copies (sentry/usermem.c). All or nothing as the caller is told: 0 or -EFAULT. ---- */
int copy_in(struct task *t, void *dst, gaddr_t src, size_t size) MUST_USE;
int copy_out(struct task *t, gaddr_t dst, const void *src, size_t size) MUST_USE;
/* What could be copied until the first fault; -EFAULT if nothing. */
ssize_t copy_in_partial(struct task *t, void *dst, gaddr_t src, size_t size) MUST_USE;
ssize_t copy_out_partial(struct task *t, gaddr_t dst, const void *src, size_t size) MUST_USE;
/* A NUL-terminated string of at most size-1 bytes: its length, -EFAULT, or -ENAMETOOLONG. */
ssize_t copy_in_str(struct task *t, char *dst, gaddr_t src, size_t size) MUST_USE;
/* A path, in @near if it is short and else in a heap buffer, to be freed if *out is not @near.
 * -EFAULT, -ENAMETOOLONG, -ENOMEM. */
#define PATH_NEAR 512
int copy_in_path_near(struct task *t, gaddr_t src, char near[PATH_NEAR], char **out) MUST_USE;
/* The same in a heap buffer in any case: mem_free it. */
int copy_in_path(struct task *t, gaddr_t src, char **out) MUST_USE;
/* Memory of another process (task_may_access checked by the caller). */
ssize_t copy_in_mm(struct mm *mm, void *dst, gaddr_t src, size_t size) MUST_USE;
ssize_t copy_out_mm(struct mm *mm, gaddr_t dst, const void *src, size_t size) MUST_USE;

/* User buffers for read/write handlers; the storage lives as long as the uio. -EFAULT for ranges
 * that cannot be user memory (access_ok), -EINVAL for sums above SSIZE_MAX; total is capped at
 * UIO_MAX_COUNT. */
struct user_iov {
	struct uio_seg fast[8];
	struct uio_seg *segs; /* fast or heap */
};
int uio_from_buf(struct task *t, struct uio *u, struct user_iov *v, gaddr_t buf,
		 uint64_t size) MUST_USE;
int uio_from_iovec(struct task *t, struct uio *u, struct user_iov *v, gaddr_t iov,
		   uint64_t count) MUST_USE;
void user_iov_free(struct user_iov *v);
void task_umem(struct task *t, struct umem *out);

/* ---- futex (sentry/futex.c) ---- */
/* Wakes @count waiters at a private or shared address of @t's memory (CLONE_CHILD_CLEARTID). */
int futex_wake(struct task *t, gaddr_t addr, int count, bool shared);
/* At exit and exec: marks owned robust futexes and wakes their waiters. */
void futex_exit_robust(struct task *t);

#endif
