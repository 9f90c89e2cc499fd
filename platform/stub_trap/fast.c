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
 * Arguments that lead to memory travel along (carry_in), as the sentry's table says (struct
 * pf_marshal): what the call reads is copied into the area before it, and what it has written
 * there, or elsewhere in the stub (trap_view.c), is copied out after it. Memory that is not there
 * or may not be used does not travel: the sentry then finds out what is wrong.
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

/* --- Arguments --- */

enum { M_STRING = 1, M_IN, M_IN_ARG, M_OUT, M_OUT_ARG, M_INOUT, M_INOUT_ARG, M_IN_LOCK };

/* F_GETLK, F_SETLK, F_SETLKW, and those of open file descriptions. */
static int is_lock(uint64_t cmd)
{
	return (uint32_t)cmd - 5 < 3 || (uint32_t)cmd - 36 < 3;
}

static uint64_t arg_of(const struct ts_fast_regs *r, unsigned i)
{
	switch (i) {
	case 0:
		return r->rdi;
	case 1:
		return r->rsi;
	case 2:
		return r->rdx;
	case 3:
		return r->r10;
	case 4:
		return r->r8;
	default:
		return r->r9;
	}
}

/* May [addr, addr + size) be written? What is not yet there comes by this. */
static int may_write(uint64_t addr, uint64_t size)
{
	const uint64_t last = addr + size - 1;

	for (uint64_t p = addr; p <= last; p = (p | 4095) + 1) {
		if (ts_touch((void *)p) != 0)
			return 0;
	}
	return 1;
}

/* One argument's window at @offset. Bytes of room used; 0: it does not travel. */
static uint64_t carry(struct ts_area *a, struct ts_window *w, unsigned kind, uint64_t addr,
		      uint64_t size, uint32_t offset)
{
	uint8_t *room = (uint8_t *)a + offset;
	const uint64_t max = TS_A_WINDOW_END - offset;
	uint32_t flags;

	/* For who wipes it. */
	if (ts_fast_of(a)->high < offset + (kind == M_STRING ? TS_STRING_MAX : size))
		ts_fast_of(a)->high =
			(uint32_t)(offset + (kind == M_STRING ? TS_STRING_MAX : size));
	if (addr == 0 || (size == 0 && kind != M_STRING))
		return 0;
	if (kind == M_STRING) {
		const int n = ts_copy_str(room, (const void *)addr,
					  max < TS_STRING_MAX ? (uint32_t)max : TS_STRING_MAX);

		if (n <= 0)
			return 0;
		size = (uint64_t)n;
		flags = TS_W_IN | TS_W_STRING;
	} else if (kind == M_OUT || kind == M_OUT_ARG) {
		/* The rest of what is larger goes the other way. */
		size = size < max ? size : max;
		if (!may_write(addr, size))
			return 0;
		flags = TS_W_OUT;
	} else {
		if (size > max || size > TS_INPUT_MAX)
			return 0;
		if (ts_copy(room, (const void *)addr, size) != 0)
			return 0;
		flags = TS_W_IN;
		if (kind == M_INOUT || kind == M_INOUT_ARG) {
			if (!may_write(addr, size))
				return 0;
			flags |= TS_W_OUT;
		}
	}
	w->addr = addr;
	w->travels = (uint32_t)size | flags << TS_TRAVELS_FLAGS_SHIFT;
	w->offset = offset;
	return size;
}

static void carry_in(struct ts_area *a, struct ts_fast *fast)
{
	const struct ts_marshal *m;
	uint32_t count = 0, offset = TS_A_WINDOW;

	fast->window_count = 0;
	if ((uint32_t)fast->regs.nr >= 512)
		return;
	m = (const struct ts_marshal *)TS_MARSHAL + (uint32_t)fast->regs.nr;
	for (unsigned i = 0; i < TS_WINDOWS && m->arg[i].kind != 0; i++) {
		const unsigned kind = m->arg[i].kind;
		const uint64_t addr = arg_of(&fast->regs, m->arg[i].arg_link & 15);
		uint64_t size = m->arg[i].size, n;

		if (kind == M_IN_ARG || kind == M_OUT_ARG || kind == M_INOUT_ARG) {
			n = arg_of(&fast->regs, m->arg[i].arg_link >> 4);
			size *= n < 0x100000 ? n : 0x100000;
		}
		if (kind == M_IN_LOCK && !is_lock(arg_of(&fast->regs, m->arg[i].arg_link >> 4)))
			continue;
		if (offset >= TS_A_WINDOW_END)
			break;
		n = carry(a, &fast->window[count], kind, addr, size, offset);
		if (n == 0)
			continue;
		fast->window[count++].travels |= (m->arg[i].arg_link & 15u) << TS_TRAVELS_ARG_SHIFT;
		offset = (uint32_t)(offset + n + TS_ROOM_ALIGN - 1) & ~(TS_ROOM_ALIGN - 1u);
	}
	fast->window_count = count;
}

static int copy_out(const struct ts_area *a, const struct ts_window *w, uint32_t from, uint32_t to)
{
	const uint8_t *room = (const uint8_t *)a + w->offset;
	const uint64_t size = to & TS_WRITTEN_TO;

	if (to & TS_WRITTEN_ZEROS)
		return ts_zero((void *)w->addr, size);
	if (to & TS_WRITTEN_VIEW)
		return ts_copy((void *)w->addr, (const void *)(TS_VIEWS + from), size);
	return size <= from ? 0 : ts_copy((void *)(w->addr + from), room + from, size - from);
}

/* The file of a view, from which @size bytes could not be copied, was cut short: the call has read
 * as many as there still are. -EIO: it changes all the time. */
static int64_t copy_rest(const struct ts_window *w, uint64_t view, uint64_t size)
{
	for (unsigned tries = 0; tries < 8; tries++) {
		uint64_t there = 0;
		uint8_t byte;

		while (there < size && ts_copy(&byte, (const void *)(view + there), 1) == 0)
			there = ((view + there) | 4095) + 1 - view;
		there = there < size ? there : size;
		if (ts_copy((void *)w->addr, (const void *)view, there) == 0)
			return (int64_t)there;
	}
	return -5;
}

/* What the call has written. 0: the call is to be made again, to be answered without a view. */
static int carry_out(struct ts_area *a, struct ts_fast *fast)
{
	for (uint32_t i = 0; i < fast->window_count && i < TS_WINDOWS; i++) {
		const struct ts_window *w = &fast->window[i];
		const uint32_t from = a->written[i].from, to = a->written[i].to;

		if (copy_out(a, w, from, to) == 0)
			continue;
		/* It could be written before the call: another thread took it away meanwhile. Or
		 * the file of a view was cut short. */
		fast->rax = (uint64_t)-14; /* EFAULT */
		if ((to & TS_WRITTEN_VIEW) && may_write(w->addr, to & TS_WRITTEN_TO)) {
			if ((uint32_t)fast->regs.nr == TS_NR_PREAD64)
				return 0;
			fast->rax = (uint64_t)copy_rest(w, TS_VIEWS + from, to & TS_WRITTEN_TO);
		}
	}
	return 1;
}

/* A copy of so many bytes may take longer than one spins for other calls, and less than it takes
 * to be woken up. Who has to wait for somebody is told to sleep. */
#define LONG_COPY 16384

static int long_copy(uint64_t size)
{
	return size >= LONG_COPY ? TS_SPIN_LONG : TS_SPIN;
}

/* How long to spin for the reply. */
static int patience(const struct ts_fast_regs *r)
{
	switch ((uint32_t)r->nr) {
	case 0: /* read, write, pread64, pwrite64, getdents64 */
	case 1:
	case 17:
	case 18:
	case 217:
		return long_copy(r->rdx);
	case 40: /* sendfile */
		return long_copy(r->r10);
	case 7: /* poll, epoll_wait, epoll_pwait: what is ready is told at once */
		return (int32_t)r->rdx == 0 ? TS_SPIN : TS_SPIN_BRIEFLY;
	case 232:
	case 281:
		return (int32_t)r->r10 == 0 ? TS_SPIN : TS_SPIN_BRIEFLY;
	case 23: /* select, pselect6, ppoll */
	case 270:
	case 271:
		return TS_SPIN_BRIEFLY;
	default:
		return ts_is_slow((int32_t)r->nr) ? TS_SLEEP : TS_SPIN;
	}
}

/* Puts what goes over with the request's word beside it. What the request is posted as. */
static uint32_t ready_to_post(struct ts_area *a, const struct ts_fast *fast)
{
	const uint32_t nr = (uint32_t)fast->regs.nr;
	const uint32_t kind = TS_KIND_FAST | fast->window_count << TS_KIND_WINDOWS_SHIFT;

	if (nr > TS_KIND_NUMBER_MAX)
		return kind;
	for (uint32_t i = 0; i < fast->window_count && i < TS_WINDOWS; i++)
		a->travels[i] = fast->window[i].travels;
	a->arg[0] = fast->regs.rdi;
	a->arg[1] = fast->regs.rsi;
	a->arg[2] = fast->regs.rdx;
	a->arg[3] = fast->regs.r10;
	return kind | (nr + 1) << TS_KIND_NUMBER_SHIFT;
}

void ts_fast_call(struct ts_area *a)
{
	struct ts_fast *fast = ts_fast_of(a);

	if (ts_answer(a, fast))
		return;
	ts_stamp(&a->entered);
	if (ts_uses_bases((uint32_t)fast->regs.nr))
		ts_note_bases(a);
	carry_in(a, fast);
	for (;;) {
		atomic_store_explicit(&fast->intr, 0, memory_order_relaxed);
		ts_stamp(&a->posted);
		ts_post(a, ready_to_post(a, fast));
		ts_serve(a, patience(&fast->regs));
		ts_stamp(&a->back);
		fast->rax = a->rax;
		if (carry_out(a, fast))
			break;
		fast->window_count = 0;
	}
	ts_stamp(&a->left);
}
