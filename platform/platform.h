/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The platform interface: run guest code until it traps; map and copy its memory.
 *
 * Theory of operation: an address space (struct pf_as) is one host process that holds the guest's
 * memory and a small stub; a thread (struct pf_thread) is one host thread in it. The sentry keeps
 * all else. The life of a task is a loop in the sentry: pf_run() until the guest traps, look why,
 * serve, run again.
 *
 * Ownership: a thread belongs to the task fiber that runs it; all calls that take a thread are made
 * by that fiber, but pf_interrupt (anyone). A platform may bind an address space to one worker
 * (ptrace: the tracer is a host thread); then every fiber that uses its threads lives on
 * pf_as_home(). An address space is reference counted by its threads plus the explicit reference of
 * pf_as_get/put; copies may be made by any fiber or host thread that holds a reference.
 *
 * The guest's address space is [0, PF_GUEST_LIMIT). The stub lives above; the sentry refuses that
 * range to every mapping call, so it is never given away. The platform maps nothing below
 * PF_GUEST_LIMIT of itself.
 *
 * Errors: negative host errno that make sense to a guest for the memory calls (ENOMEM, EACCES,
 * EINVAL…).
 *
 * Locking: none held by the callers; the platform's own locks have ranks above RANK_MISC.
 */
#ifndef MOAT_PLATFORM_PLATFORM_H
#define MOAT_PLATFORM_PLATFORM_H

#include "base/err.h"
#include "base/fiber.h"
#include "base/types.h"
#include "base/uio.h"

/* The end of guest memory; the stub's region is [PF_GUEST_LIMIT, 0x7ffffffff000). */
#define PF_GUEST_LIMIT ((uint64_t)0x7ffff0000000)
#define PF_GUEST_MIN ((uint64_t)0x10000) /* the host's vm.mmap_min_addr; lower maps fail */

/* RLIMIT_CORE of the sentry and its stubs, soft and hard: too small for any core file, and the one
 * number for which the host's kernel does not run the program of a piped core_pattern, which it
 * does as its root, whatever the limit, even 0: a guest can have its stub die of a real signal. */
#define PF_CORE_LIMIT 1

/* See struct platform.space: of a fresh address space; and what the host may let it map beyond what
 * was asked for. */
#define PF_SPACE_START ((uint64_t)16 << 20)
#define PF_SPACE_SPARE ((uint64_t)2 << 20)
/* Of memory for trampolines; see rewrite_room. */
#define PF_ROOM_SIZE ((uint64_t)0x10000)

/*
 * Arguments that lead to memory: which of them a platform that can carry them with the request
 * copies before and after the call. PF_M_ARG: the size is argument @link times @size.
 */
enum pf_marshal_kind {
	PF_M_NONE,
	PF_M_STRING, /* in, to the NUL */
	PF_M_IN,
	PF_M_IN_ARG,
	PF_M_OUT,
	PF_M_OUT_ARG,
	PF_M_INOUT,
	PF_M_INOUT_ARG,
	PF_M_IN_LOCK, /* fcntl's: in, if argument @link is a command that has a struct flock */
};

#define PF_MARSHAL_ARGS 4
#define PF_MARSHAL_CALLS 512

struct pf_marshal {
	struct {
		uint8_t kind;     /* enum pf_marshal_kind; none after the first PF_M_NONE */
		uint8_t arg_link; /* argument, and in the high half that which it is linked to */
		uint16_t size;
	} arg[PF_MARSHAL_ARGS];
};

/* By system call number; set before start(). NULL: nothing is carried. */
extern const struct pf_marshal *g_pf_marshal;
/* How many arguments a call has, by number, as many as in that table; set before start(). NULL:
 * six, as those beyond it. */
extern const uint8_t *g_pf_argc;

/* General registers, in the order of Linux's struct user_regs_struct. */
struct pf_regs {
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	uint64_t orig_rax; /* the syscall's number at TRAP_SYSCALL */
	uint64_t rip, cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs;
};

/* The largest XSAVE area that the platforms carry (AVX-512 is 2,696 bytes; AMX is masked off). */
#define PF_XSTATE_MAX 4096
/* Of an area: the legacy part and the header. */
#define PF_XSTATE_HEAD 576

enum trap_kind {
	TRAP_SYSCALL, /* regs->orig_rax is the number, rip is after the instruction, rax = -ENOSYS;
		       * of the others see regs_get */
	TRAP_FAULT,   /* signo, code, addr, error_code, trapno tell; rip at the instruction (as the
			 host says) */
	TRAP_INTERRUPT, /* pf_interrupt was called, or a spurious return: look for signals, run
			   again */
	TRAP_DEAD,      /* the host thread is gone (killed from outside, OOM): the task must die by
			   SIGKILL */
};

/* The page of vsyscalls; what is called there, at multiples of 1 KiB. */
#define PF_VSYSCALL_PAGE 0xffffffffff600000ull
#define PF_VSYSCALL_END 0xffffffffff601000ull

/* What a call from @addr has in pf_trap's vsyscall. */
static inline uint64_t pf_vsyscall(uint64_t addr)
{
	return addr >= PF_VSYSCALL_PAGE && addr < PF_VSYSCALL_END ? addr & ~0x3ffull : 0;
}

struct pf_trap {
	enum trap_kind kind;
	int signo;     /* FAULT: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP */
	int code;      /* si_code as the host kernel gave it */
	uint64_t addr; /* si_addr */
	uint64_t error_code,
		trapno;    /* x86's, for the signal frame; 0 where the platform cannot tell */
	uint64_t vsyscall; /* SYSCALL: the function of the vsyscall page that was called, or 0; the
			      return address has been popped */
	bool hot;  /* SYSCALL: the site at rip - 2 has trapped often, or enough: see rewrite */
	bool i386; /* SYSCALL: entered by int 0x80 or sysenter: not served, the sentry answers
			   ENOSYS */
	/* Calls that a platform has answered itself since the last trap, and whose arguments the
	 * sentry has to take over first: set_robust_list's and set_tid_address's. */
	bool told_robust, told_tid;
	bool told_reads; /* there are reads to be counted: see told_reads() */
	uint64_t robust_list, tid_address;
};

enum map_op_kind {
	MAP_OP_ANON, /* private anonymous at addr, size, prot; MAP_FIXED semantics (replaces) */
	MAP_OP_FILE, /* host_fd at offset; shared or private; MAP_FIXED semantics */
	MAP_OP_UNMAP,
	MAP_OP_PROTECT,
	MAP_OP_REMAP,  /* moves/resizes [addr, size) to [new_addr, new_size), MREMAP_MAYMOVE|FIXED;
			* dontunmap keeps the old range mapped */
	MAP_OP_ADVISE, /* madvise with @advice (a host MADV_* value that the sentry vetted) */
	MAP_OP_SYNC,   /* msync(MS_SYNC) */
};

#define MAP_OPF_SHARED 1u
#define MAP_OPF_GROWSDOWN 2u /* reserved */
#define MAP_OPF_NORESERVE 4u
#define MAP_OPF_DONTUNMAP 8u
#define MAP_OPF_POPULATE 16u
/* PROTECT, ADVISE: nothing but a lack of host memory can make it fail: of private memory, it is
 * anonymous, or nothing is allowed that was not. */
#define MAP_OPF_SURE 32u
/* UNMAP, ANON: shared memory goes by it, or a file's that is counted as long as it is used. Others
 * rely on that (a memfd is sealed, say), so it is gone when this has been done, whatever the
 * guest's threads do. */
#define MAP_OPF_TAKES_SHARED 64u
/* FILE, SHARED: the guest may never write there. So it is mapped by a description that is open for
 * reading only: the host then refuses to make it writable, whoever asks (platform/trap_space.c). */
#define MAP_OPF_NEVER_WRITTEN 128u

/* A private mapping that can be executed and not written. */
struct pf_text {
	uint64_t low, high;
	uint64_t file_key, offset; /* as map_op's; key 0: not a file's */
	/* What is learnt of the file holds for those of the same @trust only. 0: it is not to be
	 * learnt, nor to be made use of. */
	uint64_t trust;
};

struct map_op {
	enum map_op_kind kind;
	uint32_t flags; /* MAP_OPF_* */
	uint32_t prot;  /* PROT_READ|WRITE|EXEC */
	int host_fd;    /* FILE: a descriptor of the sentry's; borrowed for the call */
	uint64_t addr, size;
	uint64_t offset;             /* FILE: bytes into host_fd */
	uint64_t new_addr, new_size; /* REMAP */
	int advice;
	/* FILE: an identity under which the platform may cache host_fd in the stubs' table; 0: do
	 * not. The owner calls pf_forget_file(key) before it closes the descriptor for good. */
	uint64_t file_key;
	long result; /* out: 0 or -errno; ops after the first failed one are not run: -ECANCELED */
};

/* Of a page: it is there; it is a file's (or of memory that is shared), no copy of its own. */
#define PF_PAGE_THERE 1u
#define PF_PAGE_FILE 2u

enum atomic_op { ATOMIC_CMPXCHG, ATOMIC_XCHG, ATOMIC_ADD, ATOMIC_OR, ATOMIC_ANDN, ATOMIC_XOR };

struct pf_as;
struct pf_thread;

struct pf_mem_stats {
	uint64_t rss_bytes, shared_bytes, peak_rss_bytes;
};

/* What the host process of an address space uses of the host. */
enum pf_usage_what {
	PF_USAGE_MEMORY = 1, /* what it has touched; shared with others counts whole */
	PF_USAGE_SHARE = 2,  /* anon_bytes is its share of what it shares; dear: all is looked at */
	PF_USAGE_CPU = 4,
};

struct pf_usage {
	uint64_t anon_bytes, shmem_bytes, table_bytes; /* tables: of pages */
	uint64_t mapped_bytes;                         /* with PF_USAGE_MEMORY */
	uint64_t cpu_ns;                               /* of all its threads, the dead too */
};

struct pf_cpu_times {
	uint64_t user_ns, system_ns; /* system is what the host charged to the stub's own calls */
	uint64_t voluntary_switches, involuntary_switches, minor_faults, major_faults;
};

/*
 * What a platform may answer in the guest (tier 0), as the sentry publishes it for one thread. The
 * guest may overwrite it, and then deceives itself.
 */
#define PF_ANSWER_LIMITS 16
struct pf_answers {
	uint32_t epoch; /* the platform's: when it was true */
	int32_t pid, tid, ppid, pgid, sid;
	uint32_t uid, euid, gid, egid;
	uint32_t umask;
	uint32_t cpu;
	uint32_t alone;  /* nobody else could run: sched_yield is over at once */
	uint32_t clocks; /* the clock page may be believed */
	uint64_t limit[PF_ANSWER_LIMITS][2];
	char uname[390];
	uint16_t pad;
	/* The signal mask, which the guest may change itself while it runs; and, set by the sentry,
	 * signals that are pending: who would unblock one of them must ask. 0: not in use. */
	uint32_t masks;
	_Atomic uint64_t blocked, pending;
};

/* The same of a thread's signal actions, which the guest may change itself while it runs, all but
 * the flags of PF_ACTION_KEPT. */
#define PF_ACTIONS 64
#define PF_ACTION_KEPT 3u /* SA_NOCLDSTOP, SA_NOCLDWAIT */
struct pf_actions {
	uint32_t on; /* 0: not in use */
	uint32_t pad;
	_Atomic uint64_t told; /* by number - 1: the guest has, and the sentry is to take it over */
	struct pf_action {
		_Atomic uint64_t handler;
		uint64_t flags, restorer, mask;
	} action[PF_ACTIONS];
};

/* What may be answered of reads of descriptor @fd while the platform's word @mark is @value: bytes
 * [start, end) of the file, which lie in the part that has been given by this id and begins at
 * @start. */
#define PF_READ_MARKS 256u
struct pf_read {
	int32_t fd;
	bool whole; /* the file ends at @end */
	uint32_t mark;
	uint64_t value;
	uint64_t id, start, end;
};

/* Counters of private futex waiters of an address space, by futex_count_index. */
#define PF_FUTEX_COUNTS 64u
static inline unsigned pf_futex_index(uint64_t addr)
{
	return (unsigned)(addr >> 2 ^ addr >> 8 ^ addr >> 14) % PF_FUTEX_COUNTS;
}

/* May tier 0 be used at all? Set before start(). */
extern bool g_pf_answers;

/* Shall stubs take time stamps? Set before start(). */
extern bool g_pf_stamps;

/* Shall guest code that reads the TSC fault (SIGSEGV), where the host can do that? Set before
 * prepare(). */
extern bool g_pf_trap_tsc;
/* A process that all stubs need was found dead, or one that was to map something: before the first
 * program runs nobody of ours kills any. */
extern _Atomic bool g_pf_killed;
#define PF_KILLED                                                                       \
	"a process of moat's was killed from outside, perhaps by the host for want of " \
	"memory; start again"

/* How a call came: by the host's own stop of the thread, or through a stub. */
enum pf_way { PF_WAY_HOST, PF_WAY_SIGNAL, PF_WAY_REWRITTEN };

/* Of the processor's counter. All but seen and replied are the guest's to forge. */
struct pf_stamps {
	enum pf_way way;
	uint64_t entered, posted; /* of this trap: the stub begins, rings */
	uint64_t seen;            /* the fiber has it */
	uint64_t replied;         /* to the last trap */
	uint64_t back, left;      /* the stub has seen the reply, is about to go on */
};

#define PF_STATS_CALLS 512
struct pf_stats {
	uint64_t answered[PF_STATS_CALLS]; /* guest calls that the sentry never saw, by number */
};

/* See platform.give. */
#define PF_GIVE_SURE ((size_t)16 << 10)

struct platform {
	const char *name;
	const char *summary; /* one line for `moat doctor` */
	/* Can this host run it? 0, or -errno with the reason in @e. Changes nothing. */
	int (*probe)(struct err *e);
	/* prepare() finds out itself what probe() would, so that who prepares need not ask: a probe
	 * makes a child, and costs some 300 us. */
	bool prepare_probes;
	/* Once, before any other call, after workers_start(…, pf->worker_ops()). The calling host
	 * thread must live until stop(): stub processes die with it. */
	const struct worker_ops *(*worker_ops)(void);
	/* NULL, or begins what the host takes its time for (the first stub process), so that it
	 * goes on beside the rest of the start. Once, before workers_start() and by the host thread
	 * that calls start(), which does it if it has not been done. 0 or -errno. */
	int (*prepare)(struct err *e);
	int (*start)(struct err *e);
	/* After workers_stop(). Ends what is left. */
	void (*stop)(void);
	/* Kills all stubs, and waits for none: the caller ends the sentry next, whose end then need
	 * not wait for theirs. From any thread that holds no lock of the platform's. NULL: they die
	 * with the sentry. */
	void (*end)(void);

	/* A fresh address space that holds only the stub, with one thread, stopped, whose registers
	 * the first pf_run sets; FP state initial. May migrate the calling fiber to another worker
	 * (load). *as is borrowed: the thread holds the only reference. @leaves: whose place the
	 * new thread will take, or NULL. */
	int (*as_new)(struct pf_thread *leaves, struct pf_as **as, struct pf_thread **thread);
	/* A copy-on-write copy of the address space of @from (stopped, the caller's). The new
	 * thread has @from's FP state and holds the only reference to *as; it is bound to the same
	 * worker. -EAGAIN also when @from was killed from outside meanwhile. */
	int (*as_fork)(struct pf_thread *from, struct pf_as **as, struct pf_thread **thread);
	/* NULL, or: @thread (the caller's) has made a process, by fork or vfork, and so there will
	 * soon be need of as_new(): what that takes can be begun beside. */
	void (*will_execute)(struct pf_thread *thread);
	/* Another thread in the address space of @from. It has @from's FP state. */
	int (*thread_new)(struct pf_thread *from, struct pf_thread **thread);
	/* Ends the host thread, which is stopped. The last one takes the address space with it, if
	 * no reference is held. May be called by a fiber on any worker. Does not wait. */
	void (*thread_free)(struct pf_thread *thread);
	void (*as_get)(struct pf_as *as);
	void (*as_put)(struct pf_as *as);
	struct pf_as *(*thread_as)(struct pf_thread *thread); /* borrowed */
	struct worker *(*as_home)(struct pf_as *as);          /* NULL: any worker */

	/* Runs the guest with *regs until it traps; the fiber sleeps meanwhile. @regs is in and
	 * out. What a guest may not have (selectors, flags, bases) is put right, not refused. */
	void (*run)(struct pf_thread *thread, struct pf_regs *regs, struct pf_trap *trap);
	/* NULL: a TRAP_SYSCALL tells all registers. Else it tells the number, the arguments that
	 * the call has, and the bases, and who reads or changes another one but rax calls this
	 * first: it puts those into @regs and leaves rax, orig_rax and the bases as they are. 0, or
	 * -ESRCH: the thread is dead, or about to be, and nobody knows them. */
	int (*regs_get)(struct pf_thread *thread, struct pf_regs *regs);
	/* Makes a running (or the next) pf_run of @thread return TRAP_INTERRUPT, soon. From
	 * anywhere. */
	void (*interrupt)(struct pf_thread *thread);
	/* XSAVE area (standard format, with the software-reserved bytes as the host's). Returns its
	 * size, or -errno. buf holds PF_XSTATE_MAX. */
	int (*xstate_get)(struct pf_thread *thread, void *buf);
	/* Checked before use: a malformed area gives -EINVAL and changes nothing. */
	int (*xstate_set)(struct pf_thread *thread, const void *buf, size_t size);
	/* NULL, or for a thread that can store its state itself: the size of the area and what is
	 * in it (XCR0's bits); or 0: not now. */
	int (*xstate_size)(struct pf_thread *thread, uint64_t *features);
	/* Then: the thread writes @bytes to guest memory at @addr and its state behind them. The
	 * last PF_XSTATE_HEAD of @bytes are the area's first already, in which the header is 0 and
	 * the software-reserved bytes stay; behind the area goes its second magic word. 0: its
	 * state is the initial one from then on. Or -errno: who knows what was written. */
	int (*xstate_put)(struct pf_thread *thread, gaddr_t addr, const void *bytes, size_t size);
	/* Initial FP state, as after execve. */
	int (*xstate_reset)(struct pf_thread *thread);

	/* Runs @ops in order in the address space of @thread (the caller's, stopped). 0, or the
	 * first failed op's errno. As on x86, what may be written or executed may be read. */
	int (*map)(struct pf_thread *thread, struct map_op *ops, size_t count);
	/* NULL: a guest can map nothing by itself. Else: from now on all that is mapped in the
	 * address space of @thread (the caller's, stopped) may be @bytes (at first PF_SPACE_START,
	 * or that of the one it was forked from), and at most PF_SPACE_SPARE more; the host refuses
	 * what would be beyond that, whoever asks. So the caller says it before map() needs it, and
	 * reckons with @bytes, not with what it has mapped itself. 0 or -errno: it is as it was. */
	int (*space)(struct pf_thread *thread, uint64_t bytes);
	/* How much more is mapped in @as than the host would let be mapped now: after space() has
	 * taken something back, what the guest has mapped and hidden before. UINT64_MAX: unknown.
	 */
	uint64_t (*space_over)(struct pf_as *as);
	void (*forget_file)(uint64_t file_key);

	/* Makes the syscall instruction at @call, within @text, cheaper by rewriting the code
	 * around it; nothing that the guest does shows the difference but a look at its own text.
	 * 0; -ENOSPC: no room within reach (rewrite_room); -EAGAIN: not now; -ENOTSUP: the site
	 * stays as it is. NULL: the platform has no use for it.
	 */
	int (*rewrite)(struct pf_thread *thread, uint64_t call, const struct pf_text *text);
	/* Takes PF_ROOM_SIZE bytes at @addr, just mapped readable, executable and private, for
	 * trampolines, until they are unmapped. */
	int (*rewrite_room)(struct pf_thread *thread, uint64_t addr);

	/* Tier 0; NULL: the platform answers nothing itself. Before the caller's thread runs:
	 * where to write what may be answered, or NULL: what was published holds, or is not worth
	 * it. Then answers_end. */
	struct pf_answers *(*answers_begin)(struct pf_thread *thread);
	void (*answers_end)(struct pf_thread *thread);
	/* Where what is published for the caller's thread has its signal actions. NULL: nowhere. */
	struct pf_actions *(*answers_actions)(struct pf_thread *thread);
	/* Of a thread that may run: has it told of a list of robust futexes (pf_trap.told_robust)
	 * that is still to be taken over? NULL: none does. */
	bool (*told_robust)(struct pf_thread *thread, uint64_t *head);
	/* Something has changed that was published for whatever thread. */
	void (*answers_stale)(void);
	/* Reads (pread64), too, out of what was given (see give); NULL: none is answered. The words
	 * of struct pf_read, PF_READ_MARKS, which whoever changes something raises; or NULL. */
	_Atomic uint64_t *(*read_marks)(void);
	/* The calling fiber's thread has read at @pos: is it time to publish that? Then do. */
	bool (*read_due)(struct pf_thread *thread, int fd, uint64_t pos);
	void (*read_publish)(struct pf_thread *thread, const struct pf_read *what);
	/* So many reads of so many bytes were answered and not taken over yet; @take: now. */
	void (*told_reads)(struct pf_thread *thread, bool take, uint64_t *calls, uint64_t *bytes);
	/* Where the private futex waiters of @as are counted. Sequentially consistent. */
	_Atomic uint32_t *(*futex_counts)(struct pf_as *as);
	/* Wakes up to @count threads of @thread's address space that sleep on the private futex
	 * @addr without the sentry's knowing. How many. */
	int (*futex_wake_direct)(struct pf_thread *thread, gaddr_t addr, int count);
	/* Does a thread that runs sleep so? For its state in /proc. */
	bool (*asleep)(struct pf_thread *thread);

	/* Copies; bytes moved until the first fault, or -EFAULT if none was. Page protections
	 * count. */
	ssize_t (*copy_in)(struct pf_as *as, void *dst, gaddr_t src, size_t size);
	ssize_t (*copy_out)(struct pf_as *as, gaddr_t dst, const void *src, size_t size);
	/* NULL, or: has the @size bytes of @file from its offset @pos on, which lie in that part of
	 * it, at @dst when the thread goes on whose request the calling fiber serves, by a mapping
	 * of the file in its address space, where they may be read from now on; or zeros, if @file
	 * is NULL. Of more than PF_GIVE_SURE bytes the caller knows that they may be written there.
	 * False: nothing was done, copy them. */
	bool (*give)(struct pf_as *as, gaddr_t dst, const struct uio_file *file, uint64_t pos,
		     size_t size);
	/* The length of the string at @src, copied to @dst of @size bytes with its NUL, if it came
	 * with the request that the calling fiber serves; else -1. NULL: nothing comes so. */
	ssize_t (*carried_str)(struct pf_as *as, char *dst, gaddr_t src, size_t size);
	/* Copies regardless of page protection where the guest may map it at all (ptrace POKE,
	 * core). */
	ssize_t (*copy_force)(struct pf_as *as, gaddr_t addr, void *buf, size_t size, bool write);
	/* An atomic operation on an aligned word, against guest threads too. Old value in *@old.
	 * -EFAULT. */
	int (*atomic32)(struct pf_thread *thread, gaddr_t addr, enum atomic_op op, uint32_t arg,
			uint32_t cmp, uint32_t *old);
	/* One byte per page: PF_PAGE_*. Others may change it at any time. */
	int (*resident)(struct pf_as *as, uint64_t addr, size_t pages, uint8_t *vec);
	void (*mem_stats)(struct pf_as *as, struct pf_mem_stats *out);
	/* @what: PF_USAGE_*; *out is zeroed, and what cannot be told stays 0. @as NULL: of the
	 * sentry itself, and of all address spaces that have ended. From any thread. */
	void (*usage)(struct pf_as *as, unsigned what, struct pf_usage *out);
	void (*cpu_times)(struct pf_thread *thread, struct pf_cpu_times *out);
	/* Calls that the stub answered alone, of all guests, the ended ones too; *out is zeroed.
	 * After stop(). NULL: none is answered so. */
	void (*stats)(struct pf_stats *out);
	/* After run(), while g_pf_stamps is set. NULL: there is no stub on a call's way. */
	void (*stamps)(struct pf_thread *thread, struct pf_stamps *out);
};

extern const struct platform platform_ptrace;
extern const struct platform platform_trap;
extern const struct platform platform_notify;
extern const struct platform platform_mock;

/* All platforms of this build, NULL-terminated. */
extern const struct platform *const g_platforms[];
/* The one in use; set once at start. */
extern const struct platform *g_pf;

#endif
