/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mock platform: guests without processes, for unit tests and fuzzing of the whole kernel.
 *
 * Theory of operation: guest memory is a software page table (mock_memory.c). Guest code is C: a
 * function that runs on a fiber of its own while the task's fiber sits in run(); it comes back by
 * mock_syscall() and friends, which make run() return a trap and go on when run() is called again.
 *
 * Such a piece of suspended C has an address: at each trap regs.rip is a token that names it. When
 * run() is called with that rip, it goes on, with regs.rax as the result. When it is called with
 * the address of a registered function (mock_register), that function starts: so an ELF's entry, a
 * signal handler and a thread's start are addresses that a test has registered. A function that was
 * started on top of another (a signal handler) and returns does what `ret` does: it pops an address
 * from the guest's stack and goes on there; MOCK_RESTORER is an address where rt_sigreturn is
 * called. The first function of a thread ends the process with exit_group(its value) when it
 * returns. Going on at an older token drops all that were started after it, as sigreturn and
 * longjmp do. Any other rip is a fault there.
 *
 * fork and clone: C's stack cannot be copied, so the child starts in a function of its own that the
 * parent named in mock_fork or mock_clone.
 *
 * Locking: see mock_memory.h for memory. A thread belongs to the fiber that calls run();
 * interrupt() may be called by anyone. The registry has a lock (leaf).
 */
#ifndef MOAT_PLATFORM_MOCK_H
#define MOAT_PLATFORM_MOCK_H

#include "platform/platform.h"

struct mock_thread; /* what guest code sees of its thread */

/* Guest code. The value is the exit status if it is a thread's first function. */
typedef int mock_fn(struct mock_thread *mt, void *arg);

/* An address in no mapping of anyone's, where rt_sigreturn is called: for sa_restorer. */
#define MOCK_RESTORER ((uint64_t)0x7fffe0000000)

/* Makes @rip the address of fn(mt, arg). */
void mock_register(uint64_t rip, mock_fn *fn, void *arg);
/* What runs at any address that is not registered; NULL: nothing, a fault. */
void mock_set_program(mock_fn *fn, void *arg);
/* Forgets all of both. */
void mock_reset(void);

/* --- For guest code --- */

/* A syscall; returns what the kernel put into rax. */
long mock_syscall(struct mock_thread *mt, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
		  uint64_t e, uint64_t f);
/* The registers: as run() gave them at the last resume; may be changed between traps. */
struct pf_regs *mock_regs(struct mock_thread *mt);
/* Memory, as loads and stores of the guest: a fault traps, and the access is tried again when the
 * kernel goes on here. */
void mock_load(struct mock_thread *mt, void *dst, uint64_t addr, size_t size);
void mock_store(struct mock_thread *mt, uint64_t addr, const void *src, size_t size);
/* Atomic compare-and-exchange of a 32-bit word; the old value. */
uint32_t mock_cmpxchg(struct mock_thread *mt, uint64_t addr, uint32_t expected, uint32_t value);
/* An exception of its own making. */
void mock_fault(struct mock_thread *mt, int signo, int code, uint64_t addr);
/* Spins (asleep, in truth) until interrupted once. */
void mock_spin(struct mock_thread *mt);
/* fork(2) and clone(2); the child begins in fn(child, arg), as its first function. */
long mock_fork(struct mock_thread *mt, mock_fn *fn, void *arg);
long mock_clone(struct mock_thread *mt, uint64_t flags, uint64_t stack, uint64_t parent_tid,
		uint64_t child_tid, uint64_t tls, mock_fn *fn, void *arg);

#endif
