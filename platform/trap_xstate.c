/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector state on the trap platform: it lies in the signal frame of a stopped thread.
 *
 * Theory of operation: the host saves the state into the frame, in the thread's area, and restores
 * it from there by rt_sigreturn, with its own checks. The sentry reads and writes it in place. A
 * frame without an area (a thread that has not run yet, or after tr_xstate_reset) means initial
 * state. Of a frame that the sentry makes itself, the state lies at FP_NEW.
 *
 * A thread that makes a call from a rewritten site has no frame, and its state is where it was, in
 * its registers: the stub uses none of them. If that is to go into a signal's frame on the guest's
 * stack, the thread itself stores it there (tr_xstate_put), instead of having the host make a frame
 * first, and load it afterwards.
 *
 * The guest can write all of it: offsets are checked, contents are the guest's own affair.
 */
#include <cpuid.h>
#include <errno.h>
#include <string.h>
#include "platform/trap.h"
#include "platform/xstate.h"

#define FP_XSTATE_MAGIC1 0x46505853u
#define FP_XSTATE_MAGIC2 0x46505845u

/* Where a frame made by the sentry has its state. */
#define FP_NEW ((TS_A_NEW_FRAME + sizeof(struct ts_frame) + 63) & ~(size_t)63)

/* The software-reserved bytes as the host has them. */
struct xs_sw {
	uint32_t magic1, extended_size;
	uint64_t xfeatures;
	uint32_t xstate_size, pad[7];
};
_Static_assert(sizeof(struct xs_sw) == 48, "struct _fpx_sw_bytes");

static struct {
	uint64_t features; /* of the host, that we carry */
	uint32_t size;     /* of an area with them */
	uint32_t mxcsr_mask;
	bool has_xsave; /* a program may use it */
} g_xs;

void tr_xstate_start(void)
{
	_Alignas(16) uint8_t fx[512] = {0};
	unsigned a, b, c, d;
	uint32_t lo = 3, hi = 0;

	__asm__ volatile("fxsave %0" : "=m"(fx));
	memcpy(&g_xs.mxcsr_mask, fx + XS_MXCSR_MASK, 4);
	if (g_xs.mxcsr_mask == 0)
		g_xs.mxcsr_mask = XS_MXCSR_MASK_DEFAULT;
	g_xs.features = 3;
	g_xs.size = XS_MIN;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) /* OSXSAVE */
		return;
	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	g_xs.features = ((uint64_t)hi << 32 | lo) & XS_FEATURES;
	g_xs.has_xsave = true;
	/* In a virtual machine each CPUID takes 4 us: if we carry all that there is, one tells the
	 * size of it all. */
	if (g_xs.features == ((uint64_t)hi << 32 | lo)) {
		__cpuid_count(0xd, 0, a, b, c, d);
		if (b > g_xs.size && b <= PF_XSTATE_MAX)
			g_xs.size = b;
		return;
	}
	for (unsigned i = 2; i < 63; i++) {
		if (!(g_xs.features >> i & 1) || !__get_cpuid_count(0xd, i, &a, &b, &c, &d))
			continue;
		if (b + a <= PF_XSTATE_MAX && b + a > g_xs.size)
			g_xs.size = b + a;
	}
}

/* The state in the area of @t, or NULL: initial, or the guest has hidden it. */
static uint8_t *state_of(struct pf_thread *t)
{
	uint64_t off;

	if (t->fp_initial)
		return NULL;
	off = __atomic_load_n(&tr_frame(t)->fpstate, __ATOMIC_RELAXED) - t->area_addr;
	if (off < TS_A_STACK || off > TS_AREA_SIZE - g_xs.size - 4 || off % 64 != 0)
		return NULL;
	return (uint8_t *)t->area + off;
}

static void put_initial(uint8_t *p)
{
	/* The analyser takes the area of a thread for one that may be NULL: it is mapped as long as
	 * the thread is. */
	memset(p, 0, g_xs.size); /* NOLINT(clang-analyzer-core.NonNullParamChecker) */
	xs_put_initial(p);
	memcpy(p + XS_MXCSR_MASK, &g_xs.mxcsr_mask, sizeof(g_xs.mxcsr_mask));
}

/* An area of ours for the frame of @t, which has none. */
static uint8_t *state_make(struct pf_thread *t)
{
	uint8_t *p = (uint8_t *)t->area + FP_NEW;
	const uint32_t magic2 = FP_XSTATE_MAGIC2;
	const struct xs_sw sw = {
		.magic1 = FP_XSTATE_MAGIC1,
		.extended_size = g_xs.size + 4,
		.xfeatures = g_xs.features,
		.xstate_size = g_xs.size,
	};

	put_initial(p);
	memcpy(p + XS_SW, &sw, sizeof(sw));
	memcpy(p + g_xs.size, &magic2, sizeof(magic2));
	tr_frame(t)->fpstate = t->area_addr + FP_NEW;
	t->fp_initial = false;
	return p;
}

int tr_xstate_get(struct pf_thread *t, void *buf)
{
	const uint8_t *p;
	uint8_t *out = buf;

	if (atomic_load(&t->state) != TR_STOPPED || tr_need_frame(t) < 0)
		return -ESRCH;
	p = state_of(t);
	if (p)
		memcpy(out, p, g_xs.size);
	else
		put_initial(out);
	memset(out + XS_SW, 0, sizeof(struct xs_sw));
	xs_store64(out + XS_SW, g_xs.features);
	xs_store64(out + XS_HEADER, xs_load64(out + XS_HEADER) & g_xs.features);
	memset(out + XS_HEADER + 8, 0, XS_MIN - XS_HEADER - 8);
	return (int)g_xs.size;
}

int tr_xstate_set(struct pf_thread *t, const void *buf, size_t size)
{
	const uint8_t *in = buf;
	uint8_t *p;

	if (atomic_load(&t->state) != TR_STOPPED || tr_need_frame(t) < 0)
		return -ESRCH;
	if (size < XS_MIN || !xs_valid(in, size, g_xs.features, g_xs.mxcsr_mask, g_xs.size))
		return -EINVAL;
	size = MIN(size, (size_t)g_xs.size);
	p = state_of(t);
	if (!p)
		p = state_make(t);
	memcpy(p, in, XS_SW);
	memcpy(p + XS_HEADER, in + XS_HEADER, size - XS_HEADER);
	return 0;
}

int tr_xstate_size(struct pf_thread *t, uint64_t *features)
{
	/* A call from a rewritten site: nothing has touched the state, nor saved it. */
	if (!t->fast || t->noted || !g_xs.has_xsave || atomic_load(&t->state) != TR_STOPPED)
		return 0;
	*features = g_xs.features;
	return (int)g_xs.size;
}

int tr_xstate_put(struct pf_thread *t, gaddr_t addr, const void *bytes, size_t size)
{
	struct ts_area *a = t->area;
	struct ts_fast *fast = (struct ts_fast *)((char *)a + TS_A_FAST);

	_Static_assert(XS_FEATURES <= UINT32_MAX, "a word of the area takes them");
	_Static_assert(PF_XSTATE_HEAD == XS_MIN, "as said");
	_Static_assert(PF_XSTATE_HEAD == TS_XSAVE_HEAD, "as said");
	_Static_assert(PF_XSTATE_MAX == TS_XSAVE_MAX, "as said");
	BUG_ON(size > TS_A_WINDOW_END - TS_A_WINDOW || size < XS_MIN);
	tr_windows_flush(t);
	memcpy((uint8_t *)a + TS_A_WINDOW, bytes, size);
	/* For who wipes it. */
	if (fast->high < TS_A_WINDOW + size)
		fast->high = (uint32_t)(TS_A_WINDOW + size);
	a->atomic_addr = addr.a;
	a->atomic_op = (uint32_t)g_xs.features;
	a->atomic_arg = (uint32_t)size;
	a->atomic_cmp = g_xs.size;
	a->atomic_failed = 1;
	if (tr_command(t, TS_CMD_SAVE) < 0)
		return -ESRCH;
	return __atomic_load_n(&a->atomic_failed, __ATOMIC_RELAXED) ? -EFAULT : 0;
}

int tr_xstate_reset(struct pf_thread *t)
{
	if (atomic_load(&t->state) != TR_STOPPED || tr_need_frame(t) < 0)
		return -ESRCH;
	tr_frame(t)->fpstate = 0;
	t->fp_initial = true;
	return 0;
}

void tr_xstate_copy(struct pf_thread *from, struct pf_thread *to)
{
	const uint8_t *p;
	uint8_t *q;

	/* If it is dead, so is the new one soon. */
	if (tr_need_frame(from) < 0)
		return;
	p = state_of(from);
	if (!p) {
		tr_frame(to)->fpstate = 0;
		to->fp_initial = true;
		return;
	}
	q = state_of(to);
	if (!q)
		q = state_make(to);
	memcpy(q, p, XS_SW);
	memcpy(q + XS_HEADER, p + XS_HEADER, g_xs.size - XS_HEADER);
}
