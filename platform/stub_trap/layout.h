/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the trap platform's stub and the sentry agree on: addresses, entry points, shared pages.
 *
 * The stub's region is [PF_GUEST_LIMIT, 0x7ffffffff000). Every stub process has there: the text and
 * the filters (read-only), its order page (read-only for it, written by the sentry), and one area
 * per guest thread (writable by both; so everything in it is hostile to the sentry); and views of
 * files (read-only).
 *
 * Read by C, by the assembler and by the linker script: only #defines outside of __ASSEMBLER__
 * guards.
 */
#ifndef MOAT_PLATFORM_STUB_TRAP_LAYOUT_H
#define MOAT_PLATFORM_STUB_TRAP_LAYOUT_H

#define TS_REGION 0x7ffff0000000
#define TS_REGION_END 0x7ffffffff000

#define TS_TEXT 0x7ffff0010000
#define TS_TEXT_SIZE 0x5000
#define TS_DATA 0x7ffff0020000 /* keeper only: its stack */
#define TS_DATA_SIZE 0x4000
#define TS_CONFIG 0x7ffff0030000 /* the seccomp programs, read-only */
#define TS_CONFIG_SIZE 0x7000
#define TS_MARSHAL 0x7ffff0034000 /* in it: how arguments travel, by system call number */
#define TS_SHARED 0x7ffff0036000  /* in it: struct ts_shared */
#define TS_TIME 0x7ffff0038000    /* struct clock_params, read-only */
#define TS_ORDERS 0x7ffff0040000  /* the order page, read-only */
#define TS_ORDERS_SIZE 0x1000
#define TS_CLAIM 0x7ffff0050000 /* a page without access: there is an agent that was made late */
#define TS_CLAIM_SIZE 0x1000
#define TS_AREAS 0x7ffff1000000 /* areas of guest threads, by index */
#define TS_AREA_SIZE 0x10000
#define TS_AREAS_MAX 3584
#define TS_VIEWS 0x7fffff000000 /* contents of files, read-only: see trap_view.c */
#define TS_VIEW_SIZE 0x100000
#define TS_VIEWS_MAX 15
#define TS_VIEWS_END 0x7ffffff00000

/* Descriptors of the shared table that exist from the start. */
#define TS_FD_SOCKET 3
#define TS_FD_ORDERS 4
#define TS_FD_CONFIG 5

/* Parts of the text, as offsets. Host calls are made in two stretches only: the guest threads' one
 * instruction, which ends at TS_GUEST_IP, and the agent's, between TS_AGENT and TS_AGENT_END. At
 * the gate, which ends at TS_GATE_IP, a guest thread makes the agent of a process that has none:
 * what it clones there is in the agent's code at once. */
#define TS_E_START 0x000  /* where execve enters */
#define TS_E_SIGNAL 0x040 /* handler of all signals */
#define TS_E_CALL 0x080   /* one host call of a guest thread: syscall at +0 */
#define TS_GUEST_IP (TS_E_CALL + 2)
#define TS_E_GATE 0x090
#define TS_GATE_IP (TS_E_GATE + 2)
/* From the one to the other: what Syscall User Dispatch lets a guest thread call from. */
#define TS_GUEST_SPAN (TS_GATE_IP - TS_GUEST_IP + 1)
#define TS_E_ATOMIC 0x0c0 /* atomic operations on guest memory; faults are repaired */
#define TS_E_ATOMIC_END 0x180
#define TS_E_ATOMIC_FAULT 0x180
#define TS_AGENT 0x200
#define TS_AGENT_END 0x700
#define TS_E_COPY 0x720 /* copies from and to guest memory; faults are repaired */
#define TS_E_COPY_END 0x780
#define TS_E_COPY_FAULT 0x780
#define TS_FAST 0x700 /* where rewritten call sites arrive, by way of their trampolines */
#define TS_WORD 0x800 /* code of the calls of TS_WORDS, each at a place of its own */
#define TS_WORD_SIZE 0xc0

/* A trampoline: 64 bytes near the call site that jumps to it. It loads its own address into r11 and
 * goes to TS_FAST, or to its call's place at TS_WORD; TS_SLOT_SLOW is where the same call is made
 * by a syscall instruction; TS_SLOT_TAIL is the instruction that the jump has displaced, if any,
 * and the way back. Then data.
 */
#define TS_SLOT_SIZE 64
#define TS_SLOT_SLOW 25
#define TS_SLOT_TAIL 27
#define TS_SLOT_AFTER 48  /* the address after the call, as the guest sees it */
#define TS_SLOT_RESUME 56 /* where to go on */

/* Offsets in an area; struct ts_area below. */
#define TS_A_STATE 0
#define TS_A_AGENT 64
#define TS_A_TID 128
#define TS_A_HOP 132
#define TS_A_FAST 0x200      /* struct ts_fast; GS points to the area */
#define TS_A_FAST_TOP 0x9000 /* top of the stack of calls from rewritten sites */
#define TS_A_STACK 0x9000    /* the alternate stack: to the area's end */
#define TS_A_NEW_FRAME 0xb000

/* What the stub answers itself, in an area: struct pf_answers, and how often it did. */
#define TS_A_ANSWERS 0x600
#define TS_A_COUNTS 0xc00
/* Reads that it answers, in between: struct ts_read. */
#define TS_A_READS 0x900
#define TS_READS 16
/* In the first area: threads that sleep on the host's own futexes, by pf_futex_index. Never cleared
 * while the process lives. */
#define TS_A_DIRECT 0xd00
/* What the stub has taken note of, for the sentry: struct ts_told. */
#define TS_A_TOLD 0xe00
/* Signal actions: struct pf_actions. */
#define TS_A_ACTIONS 0x1000

/* Calls whose answer is one word: they are answered without saving and loading registers
 * (fast_entry.S). X(name, number, field of struct pf_answers, its offset there, index among
 * TS_ANSWERED). */
#define TS_WORDS(X)                   \
	X(getpid, 39, pid, 4, 2)      \
	X(gettid, 186, tid, 8, 15)    \
	X(getuid, 102, uid, 24, 7)    \
	X(geteuid, 107, euid, 28, 9)  \
	X(getgid, 104, gid, 32, 8)    \
	X(getegid, 108, egid, 36, 10) \
	X(getppid, 110, ppid, 12, 11) \
	X(getpgrp, 111, pgid, 16, 12)
#define TS_WORD_COUNT 8
/* In the code of such a call: until TS_WORD_TAIL it can be made again from the trampoline, whose
 * address is in r11. From there on it is done: rax and rcx are loaded, and ts_fast.resume. Between
 * STACK and its END the stack is ours, and r11 holds the guest's. */
#define TS_WORD_CHECKED 23 /* GS leads to the area: where calls by way of TS_FAST arrive */
#define TS_WORD_TAIL 102
#define TS_WORD_STACK 114
#define TS_WORD_STACK_END 118

/* Where arguments travel, in an area. */
#define TS_A_WINDOW 0x1840
#define TS_A_WINDOW_END 0x8000
#define TS_WINDOWS 4
/* Of a vector state's area: the legacy part and the header. */
#define TS_XSAVE_HEAD 576
#define TS_XSAVE_MAX 4096 /* PF_XSTATE_MAX */
/* Strings that are longer, and input that is longer, are fetched by the sentry. */
#define TS_STRING_MAX 512
#define TS_INPUT_MAX 0x4000

/* Offsets in an area of what struct ts_fast holds. */
#define TS_F_COOKIE (TS_A_FAST + 0)
#define TS_F_SELF (TS_A_FAST + 8)
#define TS_F_RESUME (TS_A_FAST + 16)
#define TS_F_INTR (TS_A_FAST + 24)
#define TS_F_TOP (TS_A_FAST + 40)
#define TS_F_REGS (TS_A_FAST + 64)
#define TS_F_RDI (TS_F_REGS + 0)
#define TS_F_RSI (TS_F_REGS + 8)
#define TS_F_RDX (TS_F_REGS + 16)
#define TS_F_R10 (TS_F_REGS + 24)
#define TS_F_R8 (TS_F_REGS + 32)
#define TS_F_R9 (TS_F_REGS + 40)
#define TS_F_NR (TS_F_REGS + 48)
#define TS_F_AFTER (TS_F_REGS + 56)
#define TS_F_RBX (TS_F_REGS + 64)
#define TS_F_RBP (TS_F_REGS + 72)
#define TS_F_R12 (TS_F_REGS + 80)
#define TS_F_R13 (TS_F_REGS + 88)
#define TS_F_R14 (TS_F_REGS + 96)
#define TS_F_R15 (TS_F_REGS + 104)
#define TS_F_RSP (TS_F_REGS + 112)
#define TS_F_FLAGS (TS_F_REGS + 120)
#define TS_F_RAX (TS_F_REGS + 128)
/* What the stub expects behind GS before it believes that it is an area. */
#define TS_COOKIE 0x6d4f6174

/* Not a call: a fast call asks so for a signal frame with all its state (the filter traps it). */
#define TS_NR_FRAME 0x3f001

/* Offset in struct ts_shared. */
#define TS_S_DISPATCH 12

/* PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON: with them, all of a thread's calls are SIGSYS
 * but those from a range, here of one address, and nothing that the thread may do there changes
 * that. */
#define TS_PR_DISPATCH 59
#define TS_PR_DISPATCH_ON 1

/* Offsets in the order page; struct ts_orders below. */
#define TS_O_SEQ 0
#define TS_O_OP 4
#define TS_O_SIZE 8
#define TS_O_RESULT_FD 12
#define TS_O_ARG0 16
#define TS_O_ARG1 24
#define TS_O_AREAS_FD 32
#define TS_O_RELEASE 40
#define TS_O_FLAGS 48
#define TS_O_ALONE 52
#define TS_O_LIST 64
#define TS_O_LIMIT 2880

#define TS_OP_BATCH 0
#define TS_OP_FORK 1   /* arg0: offset of the child's order page; arg1: of its first area */
#define TS_OP_THREAD 2 /* the batch; then, arg0: address of the area; arg1: fs base */

/* Flags of an order. */
#define TS_OF_SURE 1 /* nobody waits to hear of an error: the agent ends its process instead */
#define TS_OF_WAKE 2 /* the thread that is to be released sleeps on its state */

/* Of a process whose first thread is the guest's and which has no agent yet. */
#define TS_ALONE 1
#define TS_SPAWN 2 /* the next thread that comes through the gate is to be the agent */

/* A report, as the offset to which the agent seeks its result descriptor: the order's sequence
 * number, orders done, and errno or a pid. */
#define TS_REPORT_SEQ_SHIFT 40
#define TS_REPORT_SEQ_MASK 0x7fffff
#define TS_REPORT_DONE_SHIFT 32
#define TS_REPORT_PID 0x80 /* in place of the number of orders: the rest is a pid */

/* State of a request. */
#define TS_GUEST 0  /* the thread runs; or runs again: the reply is there */
#define TS_POSTED 1 /* the thread has posted a request */
#define TS_WAITS 2  /* as POSTED, and it sleeps on the word, or shall: the reply will take long */
#define TS_BELL 3   /* as GUEST, and the sentry sleeps on the word: wake it */

/* So many cycles between two looks of one who spins: it was preempted. */
#define TS_GAP 400000
/* At the most so many if it ran all the time. */
#define TS_BLINK 4000

/* A guest thread may map, unmap or protect so much at once, and begins so far below the stub. */
#define TS_OWN_MAX 0x100000

/* What a reply asks for. */
#define TS_CMD_SET_FS 1
#define TS_CMD_SET_GS 2
#define TS_CMD_ATOMIC 4 /* then post again */
#define TS_CMD_EXIT 8
#define TS_CMD_RING 16  /* wake the agent: there is an order */
#define TS_CMD_HOP 32   /* wait until the agent has carried it out */
#define TS_CMD_AGAIN 64 /* then post again */
#define TS_CMD_WAKE \
	256 /* wake who sleeps directly on atomic_addr, atomic_arg of them; then post again */
#define TS_CMD_UNMAP 512  /* unmap atomic_arg bytes at atomic_addr: guest memory */
#define TS_CMD_AGENT 1024 /* make the agent: there is none yet */
#define TS_CMD_MAP 2048   /* map atomic_arg bytes at atomic_addr: private, anonymous, writable */
/* Copy atomic_arg bytes from TS_A_WINDOW to atomic_addr, and store the vector state of atomic_op
 * over the last TS_XSAVE_HEAD of them, atomic_cmp bytes long; the thread's is the initial one from
 * then on; then post again */
#define TS_CMD_SAVE 8192
#define TS_CMD_PROTECT \
	4096 /* give atomic_arg bytes at atomic_addr the protection atomic_op: no PROT_EXEC */
#define TS_CMD_FRAME 128 /* of a fast call: take a signal frame with all the state, and post it */

/* Of the word by which the agent lets a guest thread go on. */
#define TS_HOP_PENDING 0
#define TS_HOP_DONE 1
#define TS_HOP_SLEEPS 2 /* as PENDING, and the thread sleeps on the word */

/* In place of a signal's number: the request is a call from a rewritten site; see struct ts_fast.
 * Above it, the number of windows that come along. */
#define TS_KIND_FAST 0x100
#define TS_KIND_WINDOWS_SHIFT 16
#define TS_KIND_WINDOWS_MASK 15
/* Its system call's number and 1, if ts_area.arg holds arguments; or 0: see ts_fast.regs. */
#define TS_KIND_NUMBER_SHIFT 20
#define TS_KIND_NUMBER_MAX 0xffe

/* clone flags: exactly these pass the agents' filter.
 * fork, zygote: CLONE_FILES|CLONE_PARENT|SIGCHLD; thread: CLONE_VM|CLONE_FS|CLONE_FILES|
 * CLONE_SIGHAND|CLONE_THREAD|CLONE_SYSVSEM|CLONE_SETTLS|CLONE_CHILD_CLEARTID. */
#define TS_CLONE_FORK 0x00008411
#define TS_CLONE_THREAD 0x002d0f00
/* The same without CLONE_SETTLS and CLONE_CHILD_CLEARTID: an agent that is made late. Its stack is
 * nowhere, so a signal that came before it blocks them would kill it. */
#define TS_CLONE_AGENT 0x00050f00
#define TS_NO_STACK TS_TEXT

#define TS_ORDERS_MAX 40 /* in one batch */

/* Reaches a running guest thread: SIGURG. */
#define TS_INTERRUPT_SIGNAL 23
/* Signals that guest threads block: all but ILL TRAP BUS FPE SEGV URG SYS. */
#define TS_GUEST_SIGMASK 0xffffffffbfbffb27

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>
#include "platform/stub/order.h"

struct ts_orders {
	_Atomic uint32_t seq; /* futex word: the agent sleeps while it is the last one done */
	uint32_t op;
	uint32_t size; /* of the batch, in bytes */
	uint32_t result_fd;
	uint64_t arg0, arg1;
	uint64_t areas_fd;
	uint64_t release; /* 0, or address of the area whose thread goes on when all is done */
	uint32_t flags;   /* TS_OF_* */
	uint32_t alone;   /* TS_ALONE, TS_SPAWN; 0: the process's first thread is the agent */
	uint32_t pad[2];
	struct stub_order list[TS_ORDERS_MAX];
	_Atomic uint32_t futex_waiters[64]; /* by hash of the address */
	uint64_t limit[2];                  /* the host's struct rlimit, for an order */
};
_Static_assert(offsetof(struct ts_orders, limit) == TS_O_LIMIT, "the agents' filter knows");
_Static_assert(offsetof(struct ts_orders, list) == TS_O_LIST, "the agent knows");
_Static_assert(offsetof(struct ts_orders, areas_fd) == TS_O_AREAS_FD, "the agent knows");
_Static_assert(offsetof(struct ts_orders, release) == TS_O_RELEASE, "the agent knows");
_Static_assert(offsetof(struct ts_orders, flags) == TS_O_FLAGS, "the agent knows");
_Static_assert(offsetof(struct ts_orders, alone) == TS_O_ALONE, "the agent knows");
_Static_assert(sizeof(struct ts_orders) <= TS_ORDERS_SIZE, "one page");

_Static_assert(TS_AREAS + (uint64_t)TS_AREAS_MAX * TS_AREA_SIZE <= TS_VIEWS &&
		       TS_VIEWS + (uint64_t)TS_VIEWS_MAX * TS_VIEW_SIZE == TS_VIEWS_END &&
		       TS_VIEWS_END <= TS_REGION_END,
	       "the stub's region");

/* The head of an area. */
struct ts_area {
	/* A request is posted by one store of both halves: who looks at the word all the time would
	 * take the line away between two. */
	union {
		struct {
			_Atomic uint32_t state; /* futex word of both sides */
			/* The signal that brought the thread here; or TS_KIND_FAST and more. */
			uint32_t kind;
		};
		_Atomic uint64_t post;
	};
	_Atomic uint32_t
		direct;     /* the thread sleeps on a futex of the guest's (stub_trap/answer.c) */
	uint32_t preempted; /* while it span for the last reply: others want the CPU */
	/* One line goes over each way, that of the word: each other would take as long again. The
	 * reply, */
	union {
		struct {
			uint32_t cmd;
			uint32_t spin; /* for the next one, in cycles of the TSC */
			uint64_t rax;  /* of a call from a rewritten site */
		};
		/* and of such a call's request, the windows that come along (TS_TRAVELS_*), */
		uint32_t travels[TS_WINDOWS];
	};
	/* its first four arguments, with its number in kind; and what the reply has written into
	 * the windows. */
	union {
		uint64_t arg[4];
		struct ts_written {
			uint32_t from, to; /* bytes of the window, or TS_WRITTEN_* */
		} written[TS_WINDOWS];
	};
	_Atomic uint32_t agent; /* in the first area: the agent's bell, states as above */
	uint32_t pad2[15];
	_Atomic uint32_t tid; /* set by the sentry, cleared by the host when the thread has ended */
	_Atomic uint32_t hop; /* TS_HOP_*: between the agent and this thread */
	uint32_t agent_tid;   /* in the first area: the stub's word for it; see trap_place.c */
	uint32_t pad3[13];
	uint32_t frame; /* of a request that came by a signal: offset of the frame */
	uint32_t pad5;
	/* With ts_shared.stamps: when the stub began with it and posted it; and when it had seen
	 * the last reply and was about to go on. */
	uint64_t entered, posted, back, left;
	/* When the thread, having lost the CPU while it waited for a reply, had it again: by the
	 * TSC. */
	uint64_t resumed;
	uint32_t pad4[4];
	/* What replies are seldom about. */
	uint64_t fs_base, gs_base;
	uint64_t atomic_addr;
	uint32_t atomic_op, atomic_arg, atomic_cmp;
	uint32_t atomic_old, atomic_failed; /* the answer */
	/* With ts_shared.bases: what they were when a signal brought the thread here, or a call
	 * for which ts_uses_bases. */
	uint64_t fs_now, gs_now;
};
_Static_assert(offsetof(struct ts_area, kind) == TS_A_STATE + 4, "posted together");
_Static_assert(offsetof(struct ts_area, agent) == TS_A_AGENT, "the agent knows");
_Static_assert(offsetof(struct ts_area, tid) == TS_A_TID, "clone is given it");
_Static_assert(offsetof(struct ts_area, hop) == TS_A_HOP, "the agent knows");

#define TS_W_IN 1
#define TS_W_OUT 2
#define TS_W_STRING 4

/* A window of a request: how large it is, TS_W_*, and which argument leads to the guest's memory.
 * The first one's room is at TS_A_WINDOW, that of each other at the next multiple of TS_ROOM_ALIGN
 * behind the one before. */
#define TS_TRAVELS_SIZE 0xffffu
#define TS_TRAVELS_FLAGS_SHIFT 16
#define TS_TRAVELS_FLAGS 7u
#define TS_TRAVELS_ARG_SHIFT 24
#define TS_ROOM_ALIGN 64
_Static_assert(TS_A_WINDOW_END - TS_A_WINDOW <= TS_TRAVELS_SIZE && TS_A_WINDOW % TS_ROOM_ALIGN == 0,
	       "the room's sizes");

/* In ts_written.to: from the window's start up to so many bytes are zeros; or are those of the
 * views, from ts_written.from bytes behind TS_VIEWS. */
#define TS_WRITTEN_ZEROS 0x40000000u
#define TS_WRITTEN_VIEW 0x80000000u
#define TS_WRITTEN_TO 0x3fffffffu

/* Calls that the stub may answer; by this, counters at TS_A_COUNTS. */
#define TS_ANSWERED(X)                                                                   \
	X(rt_sigprocmask, 14)                                                            \
	X(sched_yield, 24)                                                               \
	X(getpid, 39)                                                                    \
	X(uname, 63)                                                                     \
	X(umask, 95)                                                                     \
	X(gettimeofday, 96)                                                              \
	X(getrlimit, 97)                                                                 \
	X(getuid, 102)                                                                   \
	X(getgid, 104)                                                                   \
	X(geteuid, 107)                                                                  \
	X(getegid, 108)                                                                  \
	X(getppid, 110)                                                                  \
	X(getpgrp, 111)                                                                  \
	X(getpgid, 121)                                                                  \
	X(getsid, 124)                                                                   \
	X(gettid, 186)                                                                   \
	X(time, 201)                                                                     \
	X(futex, 202)                                                                    \
	X(clock_gettime, 228)                                                            \
	X(clock_getres, 229)                                                             \
	X(prlimit64, 302) X(getcpu, 309) X(set_tid_address, 218) X(set_robust_list, 273) \
		X(rseq, 334) X(rt_sigaction, 13) X(pread64, 17)

enum ts_answered {
#define X(name, nr) TS_T0_##name,
	TS_ANSWERED(X)
#undef X
		TS_T0_COUNT
};

/* Calls that only set a word of the kernel's for the thread: the sentry hears of them with the next
 * request. */
#define TS_TOLD_ROBUST 1
#define TS_TOLD_TID 2
#define TS_TOLD_READS 4
struct ts_told {
	uint32_t flags;
	uint32_t by_signal; /* so many calls that came by a signal have been answered */
	uint64_t robust_list, tid_address;
	uint64_t reads, read_bytes; /* so many reads were answered, of so many bytes */
};
/* Is @nr a call for which it matters what a guest has put into FS or GS itself: arch_prctl, clone,
 * fork, vfork, clone3; exit, since the host thread serves another thread then? */
static inline int ts_uses_bases(uint32_t nr)
{
	return nr == 158 || nr - 56 < 3 || nr == 60 || nr == 435;
}

/* At most so many: sites that are used more often shall become known to the sentry. */
#define TS_BY_SIGNAL_MAX 12

/* What may be read of a descriptor while ts_shared.marks[mark] is @value; see trap_read.c. */
struct ts_read {
	int32_t fd;
	uint32_t mark;
	uint64_t value;
	uint64_t start, size; /* bytes of the file; start: a multiple of TS_VIEW_SIZE */
	uint64_t view;        /* where they are; 0: nothing */
	uint32_t whole;       /* the file ends with them */
	uint32_t answered;    /* reads, by the stub */
};

/* Its place. */
static inline unsigned ts_read_index(int32_t fd, uint64_t pos)
{
	return ((uint32_t)fd + (uint32_t)(pos / TS_VIEW_SIZE) * 5) % TS_READS;
}

/* A call from a rewritten site, in the area at TS_A_FAST. */
struct ts_fast {
	uint64_t cookie, self;
	uint64_t resume;       /* reply: where the guest goes on */
	_Atomic uint32_t intr; /* an interrupt came meanwhile: ask once more before going on */
	uint32_t gs_is_guests; /* GS was set by a call: its calls go the slow way */
	uint32_t frame_kind;   /* what a frame that is asked for by TS_NR_FRAME is posted as */
	uint32_t spin;         /* for the next reply: the last one's word */
	uint64_t top; /* of the stack of calls from rewritten sites: TS_A_FAST_TOP as an address */
	uint64_t pad1[2];
	struct ts_fast_regs {
		uint64_t rdi, rsi, rdx, r10, r8, r9, nr, after;
		uint64_t rbx, rbp, r12, r13, r14, r15, rsp, flags;
	} regs;
	uint64_t rax; /* reply */
	/* For the stub itself: memory that came with the request, or will be written after the
	 * reply. */
	uint32_t window_count;
	uint32_t high; /* the windows' room was used up to there */
	struct ts_window {
		uint64_t addr;    /* of the guest's memory */
		uint32_t travels; /* what the request says of it */
		uint32_t offset;  /* of its room, in the area */
	} window[TS_WINDOWS];
};
_Static_assert(offsetof(struct ts_fast, regs) == TS_F_REGS - TS_A_FAST, "fast_entry.S knows");
_Static_assert(offsetof(struct ts_fast, rax) == TS_F_RAX - TS_A_FAST, "fast_entry.S knows");
_Static_assert(offsetof(struct ts_fast, intr) == TS_F_INTR - TS_A_FAST, "fast_entry.S knows");
_Static_assert(offsetof(struct ts_fast, top) == TS_F_TOP - TS_A_FAST, "fast_entry.S knows");
_Static_assert(sizeof(struct ts_area) <= TS_A_FAST, "one after the other");

/* The host's signal frame, from the stack pointer at which a handler starts. */
struct ts_frame {
	uint64_t pretcode;
	uint64_t uc_flags, uc_link;
	uint64_t stack_sp;
	uint32_t stack_flags, pad0;
	uint64_t stack_size;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip,
		eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t fpstate;
	uint64_t reserved[8];
	uint64_t sigmask;
	/* struct siginfo */
	int32_t sig_no, sig_errno, sig_code, pad1;
	uint64_t fault_addr; /* SIGSYS: the call's address */
	int32_t sys_nr;
	uint32_t sys_arch;
	uint8_t sig_rest[96];
};
_Static_assert(offsetof(struct ts_frame, sigmask) == 304, "struct ucontext");
_Static_assert(sizeof(struct ts_frame) == 440, "struct rt_sigframe");

/* The config page: the seccomp programs, as struct sock_fprog with addresses in the stub. */
struct ts_fprog {
	uint16_t count;
	uint16_t pad[3];
	uint64_t insns; /* address in the stub */
};

struct ts_config {
	struct ts_fprog keeper, agent, guest;
	uint64_t seccomp_flags;
	uint64_t keeper_flags; /* for the keeper's program */
	uint64_t trap_tsc;     /* reading the TSC faults */
	uint8_t insns[TS_MARSHAL - TS_CONFIG - 72];
	struct ts_marshal {
		struct {
			uint8_t kind, arg_link;
			uint16_t size;
		} arg[TS_WINDOWS];
	} marshal[512]; /* struct pf_marshal */
	struct ts_shared {
		_Atomic uint32_t epoch; /* answers of another one are stale; never 0 */
		uint32_t stamps;        /* take them; see struct ts_area */
		uint32_t no_counter;    /* the TSC is not to be read */
		uint32_t dispatch; /* guest threads have the host dispatch calls; see trap_filter.c
				    */
		uint32_t answers;  /* the stub may answer calls at all */
		uint32_t bases;    /* the bases of FS and GS may be read (and written) by anybody */
		_Atomic uint64_t marks[256]; /* see struct ts_read */
		uint8_t pad[2024];
	} shared;
};
_Static_assert(sizeof(struct ts_config) == TS_CONFIG_SIZE, "entry.S knows the offsets");
_Static_assert(offsetof(struct ts_config, shared.dispatch) == TS_SHARED - TS_CONFIG + TS_S_DISPATCH,
	       "entry.S knows the offsets");
#endif

#define TS_C_AGENT 16
#define TS_C_GUEST 32
#define TS_C_FLAGS 48

#endif
