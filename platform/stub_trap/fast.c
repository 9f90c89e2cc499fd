/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls from rewritten sites: no signal, no frame; the registers are in the area (struct ts_fast).
 *
 * Theory of operation: ts_fast_entry (fast_entry.S) has saved the guest's registers and come here
 * on a stack in the area. The request is posted as any other; the reply is a value for rax, and
 * where to go on. Vector registers are not touched (this is compiled without), so they still hold
 * the guest's values. When the sentry wants more than rax (a signal's handler is to run, a fork),
 * it asks for a frame: the thread makes a call that the filter traps, the host puts all state into
 * a frame on the alternate stack, ts_on_signal puts the guest's registers into it, and from there
 * on it is as if the call had come by a signal.
 *
 * Interrupts: one that comes here sets fast.intr, which is looked at on the way out; see
 * fast_entry.S.
 */
#include "platform/stub_trap/guest.h"

void ts_fast_frame(struct ts_area *a, uint32_t kind)
{
	struct ts_fast *fast = ts_fast_of(a);

	atomic_store_explicit(&fast->intr, 0, memory_order_relaxed);
	fast->frame_kind = kind;
	for (;;)
		ts_call(TS_NR_FRAME, 0, 0, 0, 0);
}

void ts_fast_to_frame(struct ts_area *a, struct ts_frame *f)
{
	const struct ts_fast *fast = ts_fast_of(a);
	const struct ts_fast_regs *r = &fast->regs;

	f->rdi = r->rdi;
	f->rsi = r->rsi;
	f->rdx = r->rdx;
	f->r10 = r->r10;
	f->r8 = r->r8;
	f->r9 = r->r9;
	f->rbx = r->rbx;
	f->rbp = r->rbp;
	f->r12 = r->r12;
	f->r13 = r->r13;
	f->r14 = r->r14;
	f->r15 = r->r15;
	f->rsp = r->rsp;
	f->rax = fast->rax;
	f->rcx = r->after;
	f->r11 = r->flags;
	f->eflags = r->flags;
	f->rip = fast->resume;
}

void ts_fast_call(struct ts_area *a)
{
	struct ts_fast *fast = ts_fast_of(a);

	a->kind = TS_KIND_FAST;
	atomic_store_explicit(&fast->intr, 0, memory_order_relaxed);
	ts_post(a);
	ts_serve(a, !ts_is_slow((int32_t)fast->regs.nr));
}
