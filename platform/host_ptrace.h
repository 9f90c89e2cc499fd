/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls of the ptrace platform: tracing, waiting, signals, copies, /proc.
 *
 * Each returns what the host did as >= 0 or -errno and decides nothing. The tag comments beside the
 * calls in host_*.c name the call for the sentry's own filter and for SECURITY.md.
 */
#ifndef MOAT_PLATFORM_HOST_PTRACE_H
#define MOAT_PLATFORM_HOST_PTRACE_H

#include <sched.h>
#include <signal.h>
#include "platform/platform.h"

/* What a tracee did: stopped with @status as wait4 codes it above bit 8, or ended. */
struct host_event {
	pid_t tid;
	bool ended;
	int status; /* stop: signal | event << 8 */
};

int pf_host_seize(pid_t tid);
int pf_host_ptrace_interrupt(pid_t tid);
/* Resumes; no signal is delivered. Guest code: no host call is executed whatever it does. */
int pf_host_run_guest(pid_t tid);
/* Resumes with host calls on: only ever with rip in the stub's text. */
int pf_host_run_stub(pid_t tid);
int pf_host_regs_get(pid_t tid, struct pf_regs *regs);
int pf_host_regs_set(pid_t tid, const struct pf_regs *regs);
int pf_host_siginfo(pid_t tid, siginfo_t *si);
/* The audit architecture of the syscall at which @tid is stopped, or -errno. */
long pf_host_syscall_arch(pid_t tid);
/* NT_X86_XSTATE. get: bytes. set: 0. */
int pf_host_xstate_get(pid_t tid, void *buf, size_t size);
int pf_host_xstate_set(pid_t tid, const void *buf, size_t size);
int pf_host_peek(pid_t tid, uint64_t addr, uint64_t *word);
int pf_host_poke(pid_t tid, uint64_t addr, uint64_t word);

/* The next event of @tid (0: of any tracee or child of the calling thread). 1: one; 0: none now;
 * -ECHILD; -EINTR. The event stays there until pf_host_wait_consume, or until the thread is
 * resumed.
 */
int pf_host_wait(pid_t tid, bool block, struct host_event *ev);
/* As pf_host_wait(tid, true), but returns -EINTR at once if *kicked is set, and a signal of
 * pf_host_kick that comes before the call has begun to sleep is not lost. */
int pf_host_wait_kickable(const _Atomic uint32_t *kicked, pid_t tid, struct host_event *ev);
/* Takes the event of @tid from the queue; of one that ended: frees its pid. */
void pf_host_wait_consume(pid_t tid);

/* Makes pf_host_wait_kickable work: handler, alternate stack for this thread (@stack, @size). */
int pf_host_kick_init(void *stack, size_t size);
/* The sentry itself, after that. */
pid_t pf_host_self(void);
int pf_host_kick(pid_t tid); /* a thread of ours */
int pf_host_signal_thread(pid_t tgid, pid_t tid, int sig);
int pf_host_kill(pid_t pid, int sig);
/* No SIGCHLD for stops of children, and no autoreaping. */
int pf_host_sigchld_init(void);

void pf_host_futex_wait(const _Atomic uint32_t *word, uint32_t value);
/* The same, but no longer than @ms milliseconds. */
void pf_host_futex_wait_ms(const _Atomic uint32_t *word, uint32_t value, unsigned ms);
void pf_host_futex_wake(const _Atomic uint32_t *word);
void pf_host_yield(void);
void pf_host_sleep_ms(unsigned ms);
int pf_host_cpu(void); /* that the caller is on now */
int pf_host_affinity_get(pid_t tid, cpu_set_t *set);
int pf_host_affinity_set(pid_t tid, const cpu_set_t *set);
pid_t pf_host_gettid(void);

/* Of a range, what lies in guest memory. */
static inline size_t pf_guest_part(uint64_t addr, size_t size)
{
	return addr < PF_GUEST_LIMIT ? MIN(size, PF_GUEST_LIMIT - addr) : 0;
}
ssize_t pf_host_copy_in(pid_t pid, void *dst, uint64_t src, size_t size);
ssize_t pf_host_copy_out(pid_t pid, uint64_t dst, const void *src, size_t size);

#endif
