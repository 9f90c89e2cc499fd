/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals of the guest's ABI (x86-64). Source: signal(7), sigaction(2), the kernel's uapi layouts.
 */
#ifndef MOAT_BASE_LX_SIGNAL_H
#define MOAT_BASE_LX_SIGNAL_H

#include "base/lx.h"

#define LX_SIGHUP 1
#define LX_SIGINT 2
#define LX_SIGQUIT 3
#define LX_SIGILL 4
#define LX_SIGTRAP 5
#define LX_SIGABRT 6
#define LX_SIGBUS 7
#define LX_SIGFPE 8
#define LX_SIGKILL 9
#define LX_SIGUSR1 10
#define LX_SIGSEGV 11
#define LX_SIGUSR2 12
#define LX_SIGPIPE 13
#define LX_SIGALRM 14
#define LX_SIGTERM 15
#define LX_SIGSTKFLT 16
#define LX_SIGCHLD 17
#define LX_SIGCONT 18
#define LX_SIGSTOP 19
#define LX_SIGTSTP 20
#define LX_SIGTTIN 21
#define LX_SIGTTOU 22
#define LX_SIGURG 23
#define LX_SIGXCPU 24
#define LX_SIGXFSZ 25
#define LX_SIGVTALRM 26
#define LX_SIGPROF 27
#define LX_SIGWINCH 28
#define LX_SIGIO 29
#define LX_SIGPWR 30
#define LX_SIGSYS 31
#define LX_SIGRTMIN 32
#define LX_NSIG 64

typedef uint64_t lx_sigset_t;
#define sigbit(sig) ((lx_sigset_t)1 << ((sig)-1))
/* What no mask blocks. */
#define SIGS_UNBLOCKABLE (sigbit(LX_SIGKILL) | sigbit(LX_SIGSTOP))

#define LX_SIG_DFL 0
#define LX_SIG_IGN 1

#define LX_SA_NOCLDSTOP 0x00000001ul
#define LX_SA_NOCLDWAIT 0x00000002ul
#define LX_SA_SIGINFO 0x00000004ul
#define LX_SA_EXPOSE_TAGBITS 0x00000800ul
#define LX_SA_UNSUPPORTED 0x00000400ul
#define LX_SA_RESTORER 0x04000000ul
#define LX_SA_ONSTACK 0x08000000ul
#define LX_SA_RESTART 0x10000000ul
#define LX_SA_NODEFER 0x40000000ul
#define LX_SA_RESETHAND 0x80000000ul
/* What rt_sigaction keeps. */
#define LX_SA_KNOWN                                                                           \
	(LX_SA_NOCLDSTOP | LX_SA_NOCLDWAIT | LX_SA_SIGINFO | LX_SA_RESTORER | LX_SA_ONSTACK | \
	 LX_SA_RESTART | LX_SA_NODEFER | LX_SA_RESETHAND | LX_SA_EXPOSE_TAGBITS)

#define LX_SIG_BLOCK 0
#define LX_SIG_UNBLOCK 1
#define LX_SIG_SETMASK 2

#define LX_SS_ONSTACK 1
#define LX_SS_DISABLE 2
#define LX_SS_AUTODISARM (1u << 31)
#define LX_MINSIGSTKSZ 2048

#define LX_SI_USER 0
#define LX_SI_KERNEL 0x80
#define LX_SI_QUEUE (-1)
#define LX_SI_TIMER (-2)
#define LX_SI_MESGQ (-3)
#define LX_SI_ASYNCIO (-4)
#define LX_SI_SIGIO (-5)
#define LX_SI_TKILL (-6)

#define LX_CLD_EXITED 1
#define LX_CLD_KILLED 2
#define LX_CLD_DUMPED 3
#define LX_CLD_TRAPPED 4
#define LX_CLD_STOPPED 5
#define LX_CLD_CONTINUED 6

#define LX_SEGV_MAPERR 1
#define LX_SEGV_ACCERR 2
#define LX_BUS_ADRALN 1
#define LX_BUS_ADRERR 2

struct lx_sigaction { /* the kernel's, for rt_sigaction */
	uint64_t handler;
	uint64_t flags;
	uint64_t restorer;
	lx_sigset_t mask;
};
_Static_assert(sizeof(struct lx_sigaction) == 32, "kernel sigaction");

struct lx_stack {
	uint64_t ss_sp;
	int32_t ss_flags;
	uint32_t pad;
	uint64_t ss_size;
};

union lx_sigval {
	int32_t sival_int;
	uint64_t sival_ptr;
};

struct lx_siginfo {
	int32_t si_signo;
	int32_t si_errno;
	int32_t si_code;
	int32_t pad0;
	union {
		int32_t pad[28];
		struct {
			int32_t pid;
			uint32_t uid;
			union lx_sigval value; /* RT: at offset 8 */
		} rt;                          /* kill too: pid, uid */
		struct {
			int32_t tid;
			int32_t overrun;
			union lx_sigval value;
			int32_t sys_private;
		} timer;
		struct {
			int32_t pid;
			uint32_t uid;
			int32_t status;
			int32_t pad1;
			int64_t utime, stime; /* clock ticks */
		} chld;
		struct {
			uint64_t addr;
			int16_t addr_lsb;
		} fault;
		struct {
			int64_t band;
			int32_t fd;
		} poll;
		struct {
			uint64_t call_addr;
			int32_t syscall;
			uint32_t arch;
		} sys;
	} u;
};
_Static_assert(sizeof(struct lx_siginfo) == 128, "siginfo");

#endif
