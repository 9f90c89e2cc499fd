/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows that a hostile guest describes: nothing outside of its own area is believed.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>
#include "platform/trap.h"

static struct pf_thread *thread_new(void)
{
	struct pf_thread *t = mem_zalloc(sizeof(*t));

	cr_assert(t != NULL);
	t->area = mem_zalloc(TS_AREA_SIZE);
	cr_assert(t->area != NULL);
	return t;
}

static void thread_end(struct pf_thread *t)
{
	mem_free(t->area);
	mem_free(t);
}

static uint32_t travels(uint32_t size, uint32_t flags, uint32_t arg)
{
	return size | flags << TS_TRAVELS_FLAGS_SHIFT | arg << TS_TRAVELS_ARG_SHIFT;
}

static uint32_t taken(struct pf_thread *t, uint64_t addr, uint32_t size)
{
	t->fast_regs.rsi = addr;
	t->area->travels[0] = travels(size, TS_W_OUT, 1);
	tr_windows_take(t, 1);
	return t->window_count;
}

Test(trap_window, bounds)
{
	const uint32_t room = TS_A_WINDOW_END - TS_A_WINDOW;
	struct pf_thread *t = thread_new();

	cr_expect_eq(taken(t, 0x10000, 1), 1);
	cr_expect_eq(t->window[0].addr, 0x10000);
	cr_expect_eq(t->window[0].flags, TS_W_OUT);
	cr_expect_eq(t->window[0].room, (uint8_t *)t->area + TS_A_WINDOW);
	cr_expect_eq(taken(t, 0x10000, room), 1);
	cr_expect_eq(taken(t, 0x10000, room + 1), 0);
	cr_expect_eq(taken(t, 0x10000, TS_TRAVELS_SIZE), 0);
	cr_expect_eq(taken(t, 0x10000, 0), 0);
	/* Not guest memory. */
	cr_expect_eq(taken(t, PF_GUEST_LIMIT - 2, 1), 1);
	cr_expect_eq(taken(t, PF_GUEST_LIMIT, 1), 0);
	cr_expect_eq(taken(t, TS_AREAS, 16), 0);
	cr_expect_eq(taken(t, UINT64_MAX, 16), 0);
	cr_expect_eq(taken(t, UINT64_MAX - 15, 16), 0);

	tr_windows_take(t, TS_WINDOWS + 1);
	cr_expect_eq(t->window_count, 0);
	thread_end(t);
}

Test(trap_window, several)
{
	struct pf_thread *t = thread_new();

	t->fast_regs.rdi = 0x10000;
	t->fast_regs.rsi = 0x10008;
	t->fast_regs.r9 = 0x20000;
	/* The same memory twice. */
	t->area->travels[0] = travels(9, TS_W_IN, 0);
	t->area->travels[1] = travels(9, TS_W_IN, 1);
	tr_windows_take(t, 2);
	cr_expect_eq(t->window_count, 0);

	t->area->travels[0] = travels(8, TS_W_IN, 0);
	t->area->travels[2] = travels(65, TS_W_OUT, 5);
	t->fast_regs.r8 = 0x30000;
	t->area->travels[3] = travels(1, TS_W_OUT, 4);
	tr_windows_take(t, 4);
	cr_assert_eq(t->window_count, 4);
	cr_expect_eq(t->window[1].room - t->window[0].room, 64);
	cr_expect_eq(t->window[2].addr, 0x20000);
	cr_expect_eq(t->window[3].room - t->window[2].room, 128);

	/* The rooms of all are as large as what there is. */
	t->area->travels[0] = travels(TS_A_WINDOW_END - TS_A_WINDOW, TS_W_IN, 5);
	t->area->travels[1] = travels(1, TS_W_IN, 0);
	tr_windows_take(t, 2);
	cr_expect_eq(t->window_count, 0);
	/* There is no such argument. */
	for (uint32_t arg = 6; arg < 256; arg++) {
		t->area->travels[0] = travels(8, TS_W_IN, arg);
		tr_windows_take(t, 1);
		cr_expect(t->window_count == 0 || t->window[0].addr == 0);
	}
	thread_end(t);
}

/* Which windows a view may stand for, and that other copies see what it gives. */
Test(trap_window, view)
{
	static char before[8192], view[8192], dst[8192];
	struct pf_thread *t = thread_new();
	struct pf_as as = {.pid = getpid()};
	const uint64_t addr = (uint64_t)(uintptr_t)dst;
	uint32_t index = 7;

	t->as = &as;
	memset(before, 'b', sizeof(before));
	memset(view, 'v', sizeof(view));
	memcpy(dst, before, sizeof(dst));
	cr_assert_eq(taken(t, addr, 4096), 1);
	cr_expect_not(tr_window_for_view(t, addr + 1, 16, &index));
	cr_expect_not(tr_window_for_view(t, addr - 1, 16, &index));
	cr_expect_not(tr_window_for_view(t, addr, 4097, &index), "who knows what is behind it?");
	cr_expect(tr_window_for_view(t, addr, PF_GIVE_SURE + 1, &index), "the caller does");
	cr_expect(tr_window_for_view(t, addr, 4096, &index));
	cr_expect_eq(index, 0);
	t->window[0].to = 1;
	cr_expect_not(tr_window_for_view(t, addr, 4096, &index), "something is written there");
	t->window[0].to = 0;
	t->window[0].flags = TS_W_IN | TS_W_OUT;
	cr_expect_not(tr_window_for_view(t, addr, 4096, &index));
	t->window[0].flags = TS_W_OUT;
	/* Another that would be covered. */
	t->window[1] = (struct tr_window){.addr = addr + 8000, .size = 8, .flags = TS_W_IN};
	t->window_count = 2;
	cr_expect_not(tr_window_for_view(t, addr, PF_GIVE_SURE + 1, &index));
	cr_expect(tr_window_for_view(t, addr, 4096, &index));
	t->window_count = 1;

	tr_window_view(t, 0, TS_VIEWS_END - 5000, 5000);
	tr_windows_reply(t);
	cr_expect_eq(TS_VIEWS + t->area->written[0].from, TS_VIEWS_END - 5000);
	cr_expect_eq(t->area->written[0].to, 5000 | TS_WRITTEN_VIEW);

	cr_assert_eq(taken(t, addr, 4096), 1);
	cr_assert(tr_window_for_view(t, addr, 4096, &index));
	tr_window_view(t, 0, (uint64_t)(uintptr_t)view, 4096);
	tr_windows_flush(t);
	cr_expect_eq(memcmp(dst, view, 4096), 0);
	cr_expect_eq(memcmp(dst + 4096, before, 4096), 0, "no more than that");
	/* Zeros are nowhere. */
	cr_assert_eq(taken(t, addr, 4096), 1);
	tr_window_view(t, 0, TR_VIEW_ZEROS, 5000);
	tr_windows_flush(t);
	cr_expect(dst[0] == 0 && memcmp(dst, dst + 1, 4999) == 0);
	cr_expect_eq(dst[5000], 'b', "no more than that");
	/* One that is gone: nothing. */
	memcpy(dst, before, sizeof(dst));
	cr_assert_eq(taken(t, addr, 4096), 1);
	tr_window_view(t, 0, 4096, 4096);
	tr_windows_flush(t);
	cr_expect_eq(memcmp(dst, before, sizeof(dst)), 0);
	thread_end(t);
}
