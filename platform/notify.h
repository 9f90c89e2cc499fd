/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notify platform: what it adds to the trap platform's. Nobody outside platform/trap*.c and
 * notify.c includes this.
 *
 * Theory of operation. All of the stub, its agents, areas and orders are the trap platform's
 * (trap.h); so are calls that come with a signal frame. But most calls of guest code are user
 * notifications of seccomp: the host tells number, arguments and instruction pointer, the thread
 * sleeps in the host's kernel, and the answer is the value that its call returns. Nothing crosses
 * in shared memory, and no signal is taken.
 *
 * One listener serves all processes: the keeper installs the filter, all stubs inherit it. A thread
 * of the sentry's receives, finds the guest thread by its tid, and hands the notification to the
 * fiber that waits in run(). Its cookie is checked after the tid was looked up: while the notifying
 * thread waits, nobody else can have its tid.
 *
 * Registers: of a thread that is stopped so (pf_thread.noted) only those of the notification are
 * known (pf_thread.partial). Who needs others, or wants to change more than rax, makes the thread
 * take a signal frame: the interrupt's signal is sent, then the notification answered, so that the
 * host, on the thread's way back, saves all its state and calls the stub's handler. From then on
 * the thread is stopped as on trap.
 *
 * Where the host has SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV a received notification stands until it
 * is answered. Elsewhere an interrupt takes it back; the answer then fails, the thread posts a
 * frame from which its call would be made again, and the sentry lets it go on behind the call
 * instead.
 */
#ifndef MOAT_PLATFORM_NOTIFY_H
#define MOAT_PLATFORM_NOTIFY_H

#include "platform/trap.h"

/* The platform in use is notify. */
extern bool g_nt_on;

/* @t is about to run and not in the table of tids: puts it there. 0 or -ESRCH. */
int nt_thread_add(struct pf_thread *t) MUST_USE;
void nt_thread_del(struct pf_thread *t);
/* As tr_await_post(t, …, DEADLINE_NONE), but a notification ends it, too: then t->noted is set. */
int nt_await(struct pf_thread *t) MUST_USE;
/* Registers of the notification that t->noted tells of. */
void nt_take(struct pf_thread *t, struct pf_regs *regs, struct pf_trap *trap);
/* Lets the call return @rax. 0; 1: the notification had been taken back, the thread is stopped with
 * a frame; -ESRCH. */
int nt_answer(struct pf_thread *t, uint64_t rax) MUST_USE;
/* Makes a noted thread have a frame. 0 or -ESRCH. */
int nt_need_frame(struct pf_thread *t) MUST_USE;
/* Completes @regs of a thread of which only the notification's are known; but rax, rip and the
 * bases stay as they are. 0 or -ESRCH. */
int nt_regs_get(struct pf_thread *t, struct pf_regs *regs) MUST_USE;

/* The flags with which the keeper installs its filter; 0: as on trap. */
uint64_t nt_filter_flags(void);
/* Takes the listener that the keeper has made. */
void nt_listener_set(int listener);

#endif
