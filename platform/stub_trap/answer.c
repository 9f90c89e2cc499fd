/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0: calls that the stub answers itself, without the sentry.
 *
 * Theory of operation: the sentry publishes what it would answer (struct pf_answers, in the
 * thread's area) with the epoch of that time; when anything of it changes for anybody, it raises
 * the epoch in a page that the stub can only read, and all that was published is stale until the
 * thread has been to the sentry again. A stale or doubtful answer, a pointer that faults, an
 * argument out of the ordinary: the call is made as ever.
 *
 * Futexes: the sentry counts its waiters of private futexes per hash of the address, where the stub
 * can read. A waiter is counted before the sentry reads the word; here the guest's store to the
 * word comes before the count is read. So either the waiter sees the new word, or it is seen here.
 *
 * A wait on a private futex without a timeout sleeps in the host's futex of the same word,
 * directly, and is counted in the first area; a wake looks there as well. An interrupt ends the
 * sleep, and the call goes to the sentry like any other. So it does where a call site is rewritten
 * meanwhile (trap_rewrite.c): if the word has changed since, the wait ends with EAGAIN, where Linux
 * would sleep on. Where the sentry itself wakes a private futex (a call that came by a trap,
 * requeueing, FUTEX_WAKE_OP) it has the thread wake direct sleepers too (TS_CMD_WAKE). Where it is
 * not known who is to be woken, one too many is: a futex may wake for no reason (futex(2)).
 *
 * What only sets a word that the kernel keeps for the thread (set_robust_list, set_tid_address) is
 * noted in the area (struct ts_told); the sentry takes it with the thread's next request, so before
 * it does anything for the thread, or to it.
 *
 * Signal masks and actions of a thread that runs are those in its area; what the stub has changed
 * the sentry takes over with the next request, and before that it looks at them there
 * (sentry/answers.c).
 *
 * Reads: what lies in a view (trap_view.c) the stub copies from there, if the sentry has published
 * that, for as long as a word that the stub can only read says that it holds (trap_read.c).
 *
 * Calls that come by a signal are answered, too, if they are few: what a program or a child calls
 * once, at its start, from a site that nobody has rewritten.
 *
 * What can be had so is nothing that the guest could not ask for; what it writes to its area
 * deceives itself.
 */
#include "base/clock_read.h"
#include "base/lx.h"
#include "base/lx_signal.h"
#include "platform/platform.h"
#include "platform/stub_trap/guest.h"

#define E_AGAIN 11
#define E_NOSYS 38
#define ARCH_X86_64 0xc000003eu

enum { FUTEX_OP_WAIT = 0, FUTEX_OP_WAKE = 1, FUTEX_OP_WAIT_BITSET = 9, FUTEX_OP_WAKE_BITSET = 10 };
#define FUTEX_PRIVATE_ 128u
#define FUTEX_REALTIME_ 256u

static int tell(struct ts_fast *fast, int64_t value)
{
	fast->rax = (uint64_t)value;
	return 1;
}

/* The answer is memory. */
static int tell_bytes(struct ts_fast *fast, uint64_t to, const void *from, uint64_t size)
{
	if (ts_copy((void *)to, from, size) != 0)
		return 0;
	return tell(fast, 0);
}

/* The answer is two words of memory. */
static int tell_two(struct ts_fast *fast, uint64_t to, uint64_t first, uint64_t second)
{
	return ts_store_two((void *)to, first, second) == 0 ? tell(fast, 0) : 0;
}

static bool read_clock(int clock, uint64_t *ns)
{
	return clock_params_read((const struct clock_params *)TS_TIME, clock, ns);
}

static int clock_gettime_(struct ts_fast *fast)
{
	uint64_t ns;

	if (!read_clock((int32_t)fast->regs.rdi, &ns))
		return 0;
	return tell_two(fast, fast->regs.rsi, ns / NSEC_PER_SEC, ns % NSEC_PER_SEC);
}

static int clock_getres_(struct ts_fast *fast)
{
	const int32_t clock = (int32_t)fast->regs.rdi;
	if (clock != 0 && clock != 1 && clock != 4 && clock != 7)
		return 0;
	return fast->regs.rsi ? tell_two(fast, fast->regs.rsi, 0, 1) : tell(fast, 0);
}

static int gettimeofday_(struct ts_fast *fast)
{
	uint64_t ns;

	if (fast->regs.rdi == 0 || fast->regs.rsi != 0 || !read_clock(LX_CLOCK_REALTIME, &ns))
		return 0;
	return tell_two(fast, fast->regs.rdi, ns / NSEC_PER_SEC, ns % NSEC_PER_SEC / 1000);
}

static int time_(struct ts_fast *fast)
{
	uint64_t ns, now;

	if (!read_clock(LX_CLOCK_REALTIME, &ns))
		return 0;
	now = ns / NSEC_PER_SEC;
	if (fast->regs.rdi != 0 && ts_copy((void *)fast->regs.rdi, &now, sizeof(now)) != 0)
		return 0;
	return tell(fast, (int64_t)now);
}

static int getcpu_(struct ts_fast *fast, const struct pf_answers *p)
{
	const uint32_t cpu = p->cpu, node = 0;

	if (fast->regs.rdi != 0 && ts_copy((void *)fast->regs.rdi, &cpu, sizeof(cpu)) != 0)
		return 0;
	if (fast->regs.rsi != 0 && ts_copy((void *)fast->regs.rsi, &node, sizeof(node)) != 0)
		return 0;
	return tell(fast, 0);
}

static int limit_(struct ts_fast *fast, const struct pf_answers *p, uint32_t which, uint64_t to)
{
	if (which >= PF_ANSWER_LIMITS)
		return 0;
	return tell_two(fast, to, p->limit[which][0], p->limit[which][1]);
}

static int prlimit_(struct ts_fast *fast, const struct pf_answers *p)
{
	const struct ts_fast_regs *r = &fast->regs;

	if ((int32_t)r->rdi != 0 || r->rdx != 0 || r->r10 == 0)
		return 0;
	return limit_(fast, p, (uint32_t)r->rsi, r->r10);
}

/* Sleeps on the host's futex of the same address, as long as no interrupt comes. */
static int wait_directly(struct ts_area *a, struct ts_fast *fast, uint64_t addr, uint32_t val)
{
	_Atomic uint32_t *sleepers =
		(_Atomic uint32_t *)(TS_AREAS + TS_A_DIRECT) + pf_futex_index(addr);
	long r;

	/* Counted before the host looks at the word: see above. */
	atomic_fetch_add(sleepers, 1);
	atomic_store(&a->direct, 1);
	r = ts_direct_wait((void *)addr, TS_FUTEX_WAIT_PRIVATE, val, a);
	atomic_store(&a->direct, 0);
	atomic_fetch_sub(sleepers, 1);
	/* Interrupted: the sentry has something for us, and then waits as it should. */
	return r == 0 || r == -E_AGAIN ? tell(fast, r) : 0;
}

static int wake_directly(struct ts_fast *fast, uint64_t addr, uint32_t count)
{
	const _Atomic uint32_t *sleepers =
		(const _Atomic uint32_t *)(TS_AREAS + TS_A_DIRECT) + pf_futex_index(addr);
	long r;

	if (atomic_load(sleepers) == 0)
		return tell(fast, 0);
	r = ts_call(TS_NR_FUTEX, addr, TS_FUTEX_WAKE_PRIVATE, count, 0);
	return r >= 0 ? tell(fast, r) : 0;
}

static int futex_(struct ts_area *a, struct ts_fast *fast)
{
	const struct ts_fast_regs *r = &fast->regs;
	const struct ts_orders *o = (const struct ts_orders *)TS_ORDERS;
	const uint32_t op = (uint32_t)r->rsi, cmd = op & ~(FUTEX_PRIVATE_ | FUTEX_REALTIME_);
	uint32_t word;

	if (r->rdi % 4 != 0 || r->rdi >= PF_GUEST_LIMIT)
		return 0;
	switch (cmd) {
	case FUTEX_OP_WAKE_BITSET:
		if ((uint32_t)r->r9 == 0)
			return 0;
		__attribute__((fallthrough));
	case FUTEX_OP_WAKE:
		if (!(op & FUTEX_PRIVATE_) || (op & FUTEX_REALTIME_))
			return 0;
		atomic_thread_fence(memory_order_seq_cst);
		/* With waiters of its own, the sentry wakes both kinds. */
		if (atomic_load(&o->futex_waiters[pf_futex_index(r->rdi)]) != 0)
			return 0;
		return wake_directly(fast, r->rdi, (uint32_t)r->rdx);
	case FUTEX_OP_WAIT_BITSET:
		if ((uint32_t)r->r9 == 0)
			return 0;
		__attribute__((fallthrough));
	case FUTEX_OP_WAIT:
		/* A timeout would have to be looked at first. Without one the clock is of no
		 * account: so do condition variables of glibc's wait. Of a shared wait where
		 * nothing can be shared Linux says EFAULT before it looks at the word. */
		if (!(op & FUTEX_PRIVATE_) || r->r10 != 0 ||
		    ((op & FUTEX_REALTIME_) && cmd != FUTEX_OP_WAIT_BITSET))
			return 0;
		if (ts_copy(&word, (const void *)r->rdi, sizeof(word)) != 0)
			return 0;
		if (word != (uint32_t)r->rdx)
			return tell(fast, -E_AGAIN);
		if (cmd == FUTEX_OP_WAIT_BITSET && (uint32_t)r->r9 != UINT32_MAX)
			return 0;
		return wait_directly(a, fast, r->rdi, word);
	default:
		return 0;
	}
}

/* SIGKILL and SIGSTOP. */
#define NEVER_BLOCKED (1ull << 8 | 1ull << 18)

static int sigprocmask_(struct ts_fast *fast, struct pf_answers *p)
{
	const struct ts_fast_regs *r = &fast->regs;
	const uint64_t old = atomic_load_explicit(&p->blocked, memory_order_relaxed);
	uint64_t set;

	if (r->r10 != sizeof(set) || !p->masks)
		return 0;
	if (r->rsi != 0) {
		if (ts_copy(&set, (const void *)r->rsi, sizeof(set)) != 0)
			return 0;
		switch ((int32_t)r->rdi) {
		case 0: /* SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK */
			set |= old;
			break;
		case 1:
			set = old & ~set;
			break;
		case 2:
			break;
		default:
			return 0;
		}
		set &= ~NEVER_BLOCKED;
		/* A sender marks the signal as pending and then looks at the mask: either it sees
		 * the new mask, or the signal is seen here. */
		atomic_store(&p->blocked, set);
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load(&p->pending) & old & ~set) {
			atomic_store(&p->blocked, old);
			return 0;
		}
	}
	if (r->rdx != 0 && ts_copy((void *)r->rdx, &old, sizeof(old)) != 0) {
		/* A stack may have to grow there: the sentry sees, with the mask that it knows. */
		if (r->rsi != 0)
			atomic_store(&p->blocked, old);
		return 0;
	}
	return tell(fast, 0);
}

static int sigaction_(struct pf_actions *all, const struct pf_answers *p, struct ts_fast *fast)
{
	const struct ts_fast_regs *r = &fast->regs;
	const int32_t sig = (int32_t)r->rdi;
	const uint64_t bit = 1ull << ((uint32_t)(sig - 1) % PF_ACTIONS);
	struct lx_sigaction new = {0}, old;
	struct pf_action *slot;

	if (!all->on || !p->masks || r->r10 != sizeof(uint64_t) || sig < 1 || sig > PF_ACTIONS ||
	    (bit & NEVER_BLOCKED))
		return 0;
	slot = &all->action[sig - 1];
	old = (struct lx_sigaction){.handler = atomic_load(&slot->handler),
				    .flags = slot->flags,
				    .restorer = slot->restorer,
				    .mask = slot->mask};
	if (r->rsi != 0) {
		if (ts_copy(&new, (const void *)r->rsi, sizeof(new)) != 0)
			return 0;
		new.flags &= LX_SA_KNOWN;
		new.mask &= ~NEVER_BLOCKED;
		/* The sentry drops what is pending and ignored from now on. */
		if (((new.flags ^ old.flags) & PF_ACTION_KEPT) || (atomic_load(&p->pending) & bit))
			return 0;
	}
	if (r->rdx != 0 && ts_copy((void *)r->rdx, &old, sizeof(old)) != 0)
		return 0;
	if (r->rsi != 0) {
		slot->flags = new.flags;
		slot->restorer = new.restorer;
		slot->mask = new.mask;
		atomic_store(&slot->handler, new.handler);
		atomic_fetch_or(&all->told, bit);
	}
	return tell(fast, 0);
}

static int robust_list_(struct ts_told *told, struct ts_fast *fast)
{
	if (fast->regs.rsi != 24)
		return 0;
	told->robust_list = fast->regs.rdi;
	told->flags |= TS_TOLD_ROBUST;
	return tell(fast, 0);
}

static int tid_address_(struct ts_told *told, struct ts_fast *fast, const struct pf_answers *p)
{
	told->tid_address = fast->regs.rdi;
	told->flags |= TS_TOLD_TID;
	return tell(fast, p->tid);
}

/* pread64 out of a view. Whatever is not as it was published, or faults, is the sentry's; what has
 * been copied by then it copies again. */
__attribute__((noinline)) static int pread_(struct ts_area *a, struct ts_fast *fast,
					    const struct ts_shared *shared)
{
	const struct ts_fast_regs *r = &fast->regs;
	const int32_t fd = (int32_t)r->rdi;
	const uint64_t to = r->rsi, pos = r->r10;
	struct ts_read *slot = (struct ts_read *)((char *)a + TS_A_READS) + ts_read_index(fd, pos);
	struct ts_told *told = (struct ts_told *)((char *)a + TS_A_TOLD);
	const uint64_t at = pos - slot->start;
	uint64_t size = r->rdx;

	if (slot->view == 0 || slot->fd != fd || at >= slot->size || size == 0 ||
	    to >= PF_GUEST_LIMIT || size > PF_GUEST_LIMIT - to)
		return 0;
	if (size > slot->size - at) {
		if (!slot->whole)
			return 0;
		size = slot->size - at;
	}
	if (atomic_load_explicit(&shared->marks[slot->mark % PF_READ_MARKS],
				 memory_order_acquire) != slot->value ||
	    ts_copy((void *)to, (const void *)(slot->view + at), size) != 0)
		return 0;
	slot->answered++;
	told->reads++;
	told->read_bytes += size;
	told->flags |= TS_TOLD_READS;
	return tell(fast, (int64_t)size);
}

static int of_self(struct ts_fast *fast, const struct pf_answers *p, int32_t value)
{
	const int32_t who = (int32_t)fast->regs.rdi;

	return who == 0 || who == p->pid ? tell(fast, value) : 0;
}

int ts_answer(struct ts_area *a, struct ts_fast *fast)
{
	struct pf_answers *p = (struct pf_answers *)((char *)a + TS_A_ANSWERS);
	const struct ts_shared *shared = (const struct ts_shared *)TS_SHARED;
	uint64_t *count = (uint64_t *)((char *)a + TS_A_COUNTS);
	struct ts_told *told = (struct ts_told *)((char *)a + TS_A_TOLD);
	struct pf_actions *actions = (struct pf_actions *)((char *)a + TS_A_ACTIONS);
	int done = 0;
	unsigned which = 0;

#define CASE(name, nr, what)          \
	case nr:                      \
		which = TS_T0_##name; \
		done = (what);        \
		break
	/* What needs no answer that may be stale. */
	switch (shared->answers ? (uint32_t)fast->regs.nr : 0) {
		CASE(pread64, 17, pread_(a, fast, shared));
		CASE(rt_sigaction, 13, sigaction_(actions, p, fast));
		CASE(rt_sigprocmask, 14, sigprocmask_(fast, p));
		CASE(set_robust_list, 273, robust_list_(told, fast));
		CASE(rseq, 334, tell(fast, -E_NOSYS));
	default:
		break;
	}
	if (done) {
		count[which]++;
		return 1;
	}
	if (p->epoch != atomic_load_explicit(&shared->epoch, memory_order_acquire))
		return 0;
	switch ((uint32_t)fast->regs.nr) {
		CASE(sched_yield, 24, p->alone ? tell(fast, 0) : 0);
		CASE(getpid, 39, tell(fast, p->pid));
		CASE(uname, 63, tell_bytes(fast, fast->regs.rdi, p->uname, sizeof(p->uname)));
		CASE(umask, 95,
		     ((uint32_t)fast->regs.rdi & 0777) == p->umask ? tell(fast, p->umask) : 0);
		CASE(gettimeofday, 96, p->clocks ? gettimeofday_(fast) : 0);
		CASE(getrlimit, 97, limit_(fast, p, (uint32_t)fast->regs.rdi, fast->regs.rsi));
		CASE(getuid, 102, tell(fast, p->uid));
		CASE(getgid, 104, tell(fast, p->gid));
		CASE(geteuid, 107, tell(fast, p->euid));
		CASE(getegid, 108, tell(fast, p->egid));
		CASE(getppid, 110, tell(fast, p->ppid));
		CASE(getpgrp, 111, tell(fast, p->pgid));
		CASE(getpgid, 121, of_self(fast, p, p->pgid));
		CASE(getsid, 124, of_self(fast, p, p->sid));
		CASE(gettid, 186, tell(fast, p->tid));
		CASE(time, 201, p->clocks ? time_(fast) : 0);
		CASE(futex, 202, futex_(a, fast));
		CASE(clock_gettime, 228, p->clocks ? clock_gettime_(fast) : 0);
		CASE(clock_getres, 229, p->clocks ? clock_getres_(fast) : 0);
		CASE(prlimit64, 302, prlimit_(fast, p));
		CASE(getcpu, 309, getcpu_(fast, p));
		CASE(set_tid_address, 218, tid_address_(told, fast, p));
	default:
		return 0;
	}
#undef CASE
	count[which] += (uint64_t)done;
	return done;
}

/* The entries of these calls have a part of this of their own (fast_entry.S). */
#define X(name, nr, field, offset, index)                                            \
	_Static_assert(offsetof(struct pf_answers, field) == (offset), "of " #name); \
	_Static_assert(TS_T0_##name == (index), "of " #name);
TS_WORDS(X)
#undef X
_Static_assert(offsetof(struct pf_answers, epoch) == 0, "fast_entry.S knows");

int ts_answer_signal(struct ts_area *a, struct ts_frame *f)
{
	struct ts_fast *fast = ts_fast_of(a);
	struct ts_told *told = (struct ts_told *)((char *)a + TS_A_TOLD);
	const uint32_t nr = (uint32_t)f->sys_nr;

	/* A futex would be slept on where no interrupt comes; who yields has asked the host. */
	if (!((const struct ts_shared *)TS_SHARED)->answers || f->sys_arch != ARCH_X86_64 ||
	    nr == 202 || nr == 24 || told->by_signal >= TS_BY_SIGNAL_MAX)
		return 0;
	fast->regs.rdi = f->rdi;
	fast->regs.rsi = f->rsi;
	fast->regs.rdx = f->rdx;
	fast->regs.r10 = f->r10;
	fast->regs.r8 = f->r8;
	fast->regs.r9 = f->r9;
	fast->regs.nr = nr;
	if (!ts_answer(a, fast))
		return 0;
	told->by_signal++;
	f->rax = fast->rax;
	return 1;
}
