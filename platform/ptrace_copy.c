/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to and from guest memory, vector state, and statistics of the ptrace platform.
 *
 * Theory of operation: copies go by process_vm_readv/writev on the leader's pid, from any host
 * thread; the host checks page protections as for the guest's own access. What must pass a
 * protection goes through /proc/PID/mem. The pid cannot become a stranger's meanwhile:
 * pt_as_enter().
 *
 * Vector state is the host's XSAVE image (xstate.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "platform/host_proc.h"
#include "platform/proc_text.h"
#include "platform/ptrace.h"
#include "platform/xstate.h"

ssize_t pt_copy_in(struct pf_as *as, void *dst, gaddr_t src, size_t size)
{
	ssize_t n;

	if (size == 0)
		return 0;
	size = pf_guest_part(src.a, size);
	if (size == 0 || fail_now(FAIL_COPY) || !pt_as_enter(as))
		return -EFAULT;
	n = pf_host_copy_in(as->pid, dst, src.a, size);
	pt_as_leave(as);
	return n > 0 ? n : -EFAULT;
}

ssize_t pt_copy_out(struct pf_as *as, gaddr_t dst, const void *src, size_t size)
{
	ssize_t n;

	if (size == 0)
		return 0;
	size = pf_guest_part(dst.a, size);
	if (size == 0 || fail_now(FAIL_COPY) || !pt_as_enter(as))
		return -EFAULT;
	n = pf_host_copy_out(as->pid, dst.a, src, size);
	pt_as_leave(as);
	return n > 0 ? n : -EFAULT;
}

ssize_t pt_copy_force(struct pf_as *as, gaddr_t addr, void *buf, size_t size, bool write)
{
	ssize_t n;

	if (size == 0)
		return 0;
	size = pf_guest_part(addr.a, size);
	if (size == 0 || !pt_as_enter(as))
		return -EFAULT;
	n = pf_host_proc_rw(as->pid, "mem", addr.a, buf, size, write);
	pt_as_leave(as);
	return n > 0 ? n : -EFAULT;
}

/* --- Vector state --- */

#define XS_RAW_MAX 16384 /* what a host may have, AMX included */
/* PKRU, at 2688, is the last feature that we carry. */
#define XS_FULL 2696

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
	xs_store64(raw + XS_SW, xs_load64(raw + XS_SW) & XS_FEATURES);
	xs_store64(raw + XS_HEADER, xs_load64(raw + XS_HEADER) & XS_FEATURES);
	return MIN(n, XS_FULL);
}

/* Is @p, of @size bytes, an area that the host of @now (the thread's present state) would load? */
static bool valid_after(const uint8_t *p, size_t size, const uint8_t *now, size_t host_size)
{
	uint32_t mask;

	memcpy(&mask, now + XS_MXCSR_MASK, sizeof(mask));
	return xs_valid(p, size, xs_load64(now + XS_SW) & XS_FEATURES,
			mask ? mask : XS_MXCSR_MASK_DEFAULT, MIN(host_size, (size_t)XS_FULL));
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
	} else if (!valid_after(buf, size, now, (size_t)n)) {
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

	xs_put_initial(init);
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
