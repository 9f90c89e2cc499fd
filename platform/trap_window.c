/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest memory that travels with a request: windows in the thread's area.
 *
 * Theory of operation: a call from a rewritten site brings the memory that its arguments lead to
 * (stub_trap/fast.c: carry_in), and room for what it will write, of which the stub has made sure
 * that the guest may write it. A copy that the serving fiber makes, and that a window covers, is
 * then a memcpy in memory that the sentry and the stub share; all others go to the host. Handlers
 * cannot tell.
 *
 * What was written lies in one range of a window, which grows only at its end, so that nothing else
 * of the window reaches the guest; what does not fit to that goes to the host, after what lies in
 * the window (tr_windows_flush), so that later copies see earlier ones. Or what was written is not
 * in the room but in a view (trap_view.c), from which the stub copies it, or zeros, which need no
 * place at all.
 *
 * The windows' description comes in the line of the request's word, and what was written goes back
 * in that of the reply. It is the guest's: it is read once, and checked; where the memory is, is
 * what the call's own argument says. The contents are as hostile as any guest memory.
 */
#include <errno.h>
#include <string.h>
#include "platform/host_ptrace.h"
#include "platform/trap.h"
#include "platform/trap_site.h"

static struct ts_fast *fast_of(struct pf_thread *t)
{
	return (struct ts_fast *)((char *)t->area + TS_A_FAST);
}

static uint64_t argument(const struct pf_regs *r, uint32_t index)
{
	const uint64_t args[] = {r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9};

	return index < ARRAY_SIZE(args) ? args[index] : 0;
}

/* May @w be one beside those there are? The same memory twice: let the host sort it out. */
static bool is_apart(const struct pf_thread *t, uint32_t count, const struct tr_window *w)
{
	for (uint32_t i = 0; i < count; i++) {
		if (t->window[i].addr < w->addr + w->size &&
		    w->addr < t->window[i].addr + t->window[i].size)
			return false;
	}
	return true;
}

void tr_windows_take(struct pf_thread *t, uint32_t count)
{
	uint32_t in[TS_WINDOWS], offset = TS_A_WINDOW;

	t->window_count = 0;
	t->windows_told = count != 0;
	if (count == 0 || count > TS_WINDOWS)
		return;
	copy_once(in, t->area->travels, sizeof(in));
	for (uint32_t i = 0; i < count; i++) {
		const struct tr_window w = {
			.addr = argument(&t->fast_regs, in[i] >> TS_TRAVELS_ARG_SHIFT),
			.size = in[i] & TS_TRAVELS_SIZE,
			.flags = in[i] >> TS_TRAVELS_FLAGS_SHIFT & TS_TRAVELS_FLAGS,
			.room = (uint8_t *)t->area + offset};

		if (w.size == 0 || offset >= TS_A_WINDOW_END || w.size > TS_A_WINDOW_END - offset ||
		    w.addr >= PF_GUEST_LIMIT - w.size || !is_apart(t, i, &w))
			return;
		t->window[i] = w;
		offset = (offset + w.size + TS_ROOM_ALIGN - 1) & ~(TS_ROOM_ALIGN - 1u);
	}
	t->window_count = count;
}

static struct ts_written written(const struct tr_window *w)
{
	if (likely(w->view == 0))
		return (struct ts_written){w->from, w->to};
	if (w->view == TR_VIEW_ZEROS)
		return (struct ts_written){0, w->to | TS_WRITTEN_ZEROS};
	return (struct ts_written){(uint32_t)(w->view - TS_VIEWS), w->to | TS_WRITTEN_VIEW};
}

void tr_windows_reply(struct pf_thread *t)
{
	for (uint32_t i = 0; i < t->window_count; i++)
		t->area->written[i] = written(&t->window[i]);
	/* None were taken, but the guest's list may say otherwise. */
	if (t->window_count == 0 && t->windows_told)
		fast_of(t)->window_count = 0;
	t->window_count = 0;
}

/* What the stub would have copied from a view. */
static void flush_view(struct pf_as *as, const struct tr_window *w)
{
	uint8_t piece[MOAT_PAGE_SIZE] = {0};

	for (uint32_t at = 0; at < w->to; at += sizeof(piece)) {
		const size_t n = MIN(sizeof(piece), (size_t)(w->to - at));

		if ((w->view != TR_VIEW_ZEROS &&
		     pf_host_copy_in(as->pid, piece, w->view + at, n) != (ssize_t)n) ||
		    pf_host_copy_out(as->pid, w->addr + at, piece, n) != (ssize_t)n)
			break;
	}
}

static void flush(struct pf_as *as, struct tr_window *w)
{
	if (w->to > w->from && tr_as_enter(as)) {
		/* It could be written when the call was made; if it can not now, the guest has done
		 * that. */
		if (w->view != 0)
			flush_view(as, w);
		else
			(void)pf_host_copy_out(as->pid, w->addr + w->from, w->room + w->from,
					       w->to - w->from);
		tr_as_leave(as);
	}
	w->from = w->to = 0;
	w->view = 0;
	w->flags = 0;
}

void tr_windows_flush(struct pf_thread *t)
{
	for (uint32_t i = 0; i < t->window_count; i++)
		flush(t->as, &t->window[i]);
	t->window_count = 0;
}

struct pf_thread *tr_window_thread(struct pf_as *as)
{
	struct fiber *f = fiber_self();
	struct pf_thread *t = f ? fiber_local(f) : NULL;

	return t && t->as == as && t->window_count != 0 ? t : NULL;
}

bool tr_window_in(struct pf_as *as, void *dst, uint64_t src, size_t size)
{
	struct pf_thread *t = tr_window_thread(as);

	if (!t)
		return false;
	for (uint32_t i = 0; i < t->window_count; i++) {
		struct tr_window *w = &t->window[i];
		const uint64_t at = src - w->addr;

		if (w->flags == 0 || src + size <= w->addr || src >= w->addr + w->size)
			continue;
		if ((w->flags & TS_W_IN) && w->view == 0 && at < w->size && size <= w->size - at) {
			copy_once(dst, w->room + at, size);
			/* The stub has copied what is there. */
			tr_site_show_original(as, src, dst, size);
			return true;
		}
		/* Part of it, or what was written before. */
		flush(as, w);
	}
	return false;
}

bool tr_window_out(struct pf_as *as, uint64_t dst, const void *src, size_t size)
{
	struct pf_thread *t = tr_window_thread(as);

	if (!t)
		return false;
	for (uint32_t i = 0; i < t->window_count; i++) {
		struct tr_window *w = &t->window[i];
		const uint64_t at = dst - w->addr;

		if (w->flags == 0 || dst + size <= w->addr || dst >= w->addr + w->size)
			continue;
		if ((w->flags & TS_W_OUT) && w->view == 0 && at < w->size && size <= w->size - at &&
		    (w->from == w->to || (at >= w->from && at <= w->to))) {
			memcpy(w->room + at, src, size);
			if (w->from == w->to)
				w->from = (uint32_t)at;
			w->to = MAX(w->to, (uint32_t)(at + size));
			return true;
		}
		flush(as, w);
	}
	return false;
}

bool tr_window_for_view(const struct pf_thread *t, uint64_t dst, size_t size, uint32_t *index)
{
	bool found = false;

	for (uint32_t i = 0; i < t->window_count; i++) {
		const struct tr_window *w = &t->window[i];

		if (w->addr == dst && w->flags == TS_W_OUT && w->from == w->to &&
		    (size <= w->size || size > PF_GIVE_SURE)) {
			*index = i;
			found = true;
		} else if (w->flags != 0 && w->addr < dst + size && dst < w->addr + w->size) {
			return false;
		}
	}
	return found;
}

void tr_window_view(struct pf_thread *t, uint32_t index, uint64_t view, size_t size)
{
	struct tr_window *w = &t->window[index];

	/* The range is one now for all copies, beyond the room, too. */
	w->size = MAX(w->size, (uint32_t)size);
	w->to = (uint32_t)size;
	w->view = view;
}

ssize_t tr_carried_str(struct pf_as *as, char *dst, gaddr_t src, size_t size)
{
	struct pf_thread *t = tr_window_thread(as);

	for (uint32_t i = 0; t && i < t->window_count; i++) {
		const struct tr_window *w = &t->window[i];

		if (!(w->flags & TS_W_STRING) || w->addr != src.a || w->size > size)
			continue;
		copy_once(dst, w->room, w->size);
		tr_site_show_original(as, src.a, dst, w->size);
		/* The guest's word for it is not enough. */
		if (memchr(dst, 0, w->size) == dst + w->size - 1)
			return (ssize_t)w->size - 1;
	}
	return -1;
}
