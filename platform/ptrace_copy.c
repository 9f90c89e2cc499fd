/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to and from guest memory, vector state, and statistics of the ptrace platform.
 *
 * Theory of operation: copies go by process_vm_readv/writev on the leader's pid, from any host
 * thread; the host checks page protections as for the guest's own access. What must pass a
 * protection goes through /proc/PID/mem. The pid cannot become a stranger's meanwhile:
 * pt_as_enter().
 *
 * Vector state is the host's XSAVE image in the standard format. Features above PF_XSTATE_MAX
 * (AMX's tile data) are hidden: a guest cannot ask the host for permission to use them, so they are
 * always in their initial state.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "platform/host_proc.h"
#include "platform/proc_text.h"
#include "platform/ptrace.h"

/* Of a range, what lies in guest memory. */
static size_t clamp(uint64_t addr, size_t size)
{
	if (addr >= PF_GUEST_LIMIT)
		return 0;
	return MIN(size, PF_GUEST_LIMIT - addr);
}

static ssize_t copied(ssize_t n)
{
	return n > 0 ? n : -EFAULT;
}

ssize_t pt_copy_in(struct pf_as *as, void *dst, gaddr_t src, size_t size)
{
	ssize_t n;

	if (size == 0)
		return 0;
	size = clamp(src.a, size);
	if (size == 0 || fail_now(FAIL_COPY) || !pt_as_enter(as))
		return -EFAULT;
	n = pf_host_copy_in(as->pid, dst, src.a, size);
	pt_as_leave(as);
	return copied(n);
}

ssize_t pt_copy_out(struct pf_as *as, gaddr_t dst, const void *src, size_t size)
{
	ssize_t n;

	if (size == 0)
		return 0;
	size = clamp(dst.a, size);
	if (size == 0 || fail_now(FAIL_COPY) || !pt_as_enter(as))
		return -EFAULT;
	n = pf_host_copy_out(as->pid, dst.a, src, size);
	pt_as_leave(as);
	return copied(n);
}

ssize_t pt_copy_force(struct pf_as *as, gaddr_t addr, void *buf, size_t size, bool write)
{
	ssize_t n;

	if (size == 0)
		return 0;
	size = clamp(addr.a, size);
	if (size == 0 || !pt_as_enter(as))
		return -EFAULT;
	n = pf_host_proc_rw(as->pid, "mem", addr.a, buf, size, write);
	pt_as_leave(as);
	return copied(n);
}

/* --- Vector state --- */

/* The standard format: 512 bytes of FXSAVE, a header of 64, then the features. */
#define XS_MXCSR 24
#define XS_MXCSR_MASK 28
#define XS_SW 464 /* software-reserved: the host puts the mask of features here */
#define XS_HEADER 512
#define XS_MIN 576
#define XS_RAW_MAX 16384 /* what a host may have, AMX included */
/* x87, SSE, AVX, the bits of AVX-512, PKRU. */
#define XS_FEATURES 0x2e7ull

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void store64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

int pt_xstate_get(struct pf_thread *t, void *buf)
{
	uint8_t *raw;
	int n;

	if (atomic_load(&t->state) != PT_STOPPED)
		return -ESRCH;
	n = pf_host_xstate_get(t->tid, buf, PF_XSTATE_MAX);
	if (n < XS_MIN)
		return n < 0 ? n : -EIO;
	raw = buf;
	store64(raw + XS_SW, load64(raw + XS_SW) & XS_FEATURES);
	store64(raw + XS_HEADER, load64(raw + XS_HEADER) & XS_FEATURES);
	/* PKRU, at 2688, is the last feature that we carry. */
	return MIN(n, 2696);
}

/* Is @p, of @size bytes, an area that the host of @now (the thread's present state) would load? */
static bool xstate_valid(const uint8_t *p, size_t size, const uint8_t *now, size_t host_size)
{
	const uint64_t features = load64(now + XS_SW) & XS_FEATURES;
	const uint64_t bv = load64(p + XS_HEADER);
	uint32_t mxcsr, mask;

	memcpy(&mxcsr, p + XS_MXCSR, sizeof(mxcsr));
	memcpy(&mask, now + XS_MXCSR_MASK, sizeof(mask));
	if (mask == 0)
		mask = 0xffbf; /* processors that do not tell */
	if ((mxcsr & ~mask) != 0 || (bv & ~features) != 0)
		return false;
	/* xcomp_bv: the compacted format; and the reserved rest of the header. */
	for (size_t i = 8; i < XS_MIN - XS_HEADER; i++) {
		if (p[XS_HEADER + i] != 0)
			return false;
	}
	/* A short area may only name features that it holds; where the others lie differs by
	 * processor. */
	return size >= MIN(host_size, (size_t)2696) || (size >= 832 && (bv & ~7ull) == 0) ||
	       (bv & ~3ull) == 0;
}

int pt_xstate_set(struct pf_thread *t, const void *buf, size_t size)
{
	uint8_t *now;
	int n, r;

	if (atomic_load(&t->state) != PT_STOPPED)
		return -ESRCH;
	if (size < XS_MIN)
		return -EINVAL;
	now = mem_zalloc(XS_RAW_MAX);
	if (!now)
		return -ENOMEM;
	n = pf_host_xstate_get(t->tid, now, XS_RAW_MAX);
	if (n < XS_MIN) {
		r = n < 0 ? n : -EIO;
	} else if (!xstate_valid(buf, size, now, (size_t)n)) {
		r = -EINVAL;
	} else {
		/* The host takes its own full size only; what @buf does not hold is initial (bv
		 * says so). */
		memcpy(now, buf, MIN((size_t)n, size));
		r = pf_host_xstate_set(t->tid, now, (size_t)n);
	}
	mem_free(now);
	return r;
}

int pt_xstate_reset(struct pf_thread *t)
{
	uint8_t init[XS_MIN] = {0};
	const uint16_t fcw = 0x37f;
	const uint32_t mxcsr = 0x1f80;

	/* xstate_bv = 0 means "initial" for all but MXCSR, which is always taken. */
	memcpy(init, &fcw, sizeof(fcw));
	memcpy(init + XS_MXCSR, &mxcsr, sizeof(mxcsr));
	return pt_xstate_set(t, init, sizeof(init));
}

/* --- Statistics --- */

int pt_resident(struct pf_as *as, uint64_t addr, size_t pages, uint8_t *vec)
{
	int r;

	if (!pt_as_enter(as))
		return -ENOMEM;
	r = pf_host_resident(as->pid, addr, pages, vec);
	pt_as_leave(as);
	return r;
}

static pid_t enter(struct pf_as *as)
{
	return pt_as_enter(as) ? as->pid : 0;
}

static const struct pf_text_ops g_text_ops = {.enter = enter, .leave = pt_as_leave};

void pt_usage(struct pf_as *as, unsigned what, struct pf_usage *out)
{
	pf_text_usage(&g_text_ops, as, what, out);
}

void pt_mem_stats(struct pf_as *as, struct pf_mem_stats *out)
{
	pf_text_mem_stats(&g_text_ops, as, out);
}

void pt_cpu_times(struct pf_thread *t, struct pf_cpu_times *out)
{
	char sched[128], stat[1024];

	memset(out, 0, sizeof(*out));
	(void)pf_text_of_thread(&g_text_ops, t->as, t->tid, "schedstat", sched, sizeof(sched));
	(void)pf_text_of_thread(&g_text_ops, t->as, t->tid, "stat", stat, sizeof(stat));
	pf_text_cpu_times(sched, stat, out);
	/* Nanoseconds run, nanoseconds waited, times put on a CPU. Each trap is a switch of the
	 * host's; which were the guest's own, it cannot tell. */
	out->voluntary_switches = pf_text_word(sched, 3);
}
