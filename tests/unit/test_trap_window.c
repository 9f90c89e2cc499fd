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

static struct ts_fast *fast_of(struct pf_thread *t)
{
	return (struct ts_fast *)((char *)t->area + TS_A_FAST);
}

static uint32_t taken(struct pf_thread *t, uint64_t addr, uint32_t size, uint16_t offset)
{
	fast_of(t)->window[0] =
		(struct ts_window){.addr = addr, .size = size, .offset = offset, .flags = TS_W_OUT};
	tr_windows_take(t, 1);
	return t->window_count;
}

Test(trap_window, bounds)
{
	const uint32_t room = TS_A_WINDOW_END - TS_A_WINDOW;
	struct pf_thread *t = thread_new();

	cr_expect_eq(taken(t, 0x10000, 1, TS_A_WINDOW), 1);
	cr_expect_eq(taken(t, 0x10000, room, TS_A_WINDOW), 1);
	cr_expect_eq(taken(t, 0x10000, room + 1, TS_A_WINDOW), 0);
	cr_expect_eq(taken(t, 0x10000, UINT32_MAX, TS_A_WINDOW), 0);
	cr_expect_eq(taken(t, 0x10000, 0, TS_A_WINDOW), 0);
	cr_expect_eq(taken(t, 0x10000, 1, TS_A_WINDOW - 1), 0);
	cr_expect_eq(taken(t, 0x10000, 1, 0), 0);
	cr_expect_eq(taken(t, 0x10000, 1, TS_A_WINDOW_END - 1), 1);
	cr_expect_eq(taken(t, 0x10000, 2, TS_A_WINDOW_END - 1), 0);
	/* Behind the room, however the difference wraps. */
	cr_expect_eq(taken(t, 0x10000, 1, TS_A_WINDOW_END), 0);
	cr_expect_eq(taken(t, 0x10000, 1, TS_A_WINDOW_END + 1), 0);
	cr_expect_eq(taken(t, 0x10000, 0xf0000000, UINT16_MAX), 0);
	/* Not guest memory. */
	cr_expect_eq(taken(t, PF_GUEST_LIMIT - 2, 1, TS_A_WINDOW), 1);
	cr_expect_eq(taken(t, PF_GUEST_LIMIT, 1, TS_A_WINDOW), 0);
	cr_expect_eq(taken(t, TS_AREAS, 16, TS_A_WINDOW), 0);
	cr_expect_eq(taken(t, UINT64_MAX, 16, TS_A_WINDOW), 0);
	cr_expect_eq(taken(t, UINT64_MAX - 15, 16, TS_A_WINDOW), 0);

	tr_windows_take(t, TS_WINDOWS + 1);
	cr_expect_eq(t->window_count, 0);
	/* The same memory twice. */
	for (unsigned i = 0; i < 2; i++)
		fast_of(t)->window[i] = (struct ts_window){.addr = 0x10000 + i * 8,
							   .size = 9,
							   .offset = TS_A_WINDOW,
							   .flags = TS_W_IN};
	tr_windows_take(t, 2);
	cr_expect_eq(t->window_count, 0);
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
	cr_assert_eq(taken(t, addr, 4096, TS_A_WINDOW), 1);
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

	tr_window_view(t, 0, (uint64_t)(uintptr_t)view, 5000);
	tr_windows_reply(t);
	cr_expect_eq(fast_of(t)->window[0].view, (uint64_t)(uintptr_t)view);
	cr_expect_eq(fast_of(t)->window[0].to - fast_of(t)->window[0].from, 5000);

	cr_assert_eq(taken(t, addr, 4096, TS_A_WINDOW), 1);
	cr_assert(tr_window_for_view(t, addr, 4096, &index));
	tr_window_view(t, 0, (uint64_t)(uintptr_t)view, 4096);
	tr_windows_flush(t);
	cr_expect_eq(memcmp(dst, view, 4096), 0);
	cr_expect_eq(memcmp(dst + 4096, before, 4096), 0, "no more than that");
	/* Zeros are nowhere. */
	cr_assert_eq(taken(t, addr, 4096, TS_A_WINDOW), 1);
	tr_window_view(t, 0, TS_VIEW_ZEROS, 5000);
	tr_windows_flush(t);
	cr_expect(dst[0] == 0 && memcmp(dst, dst + 1, 4999) == 0);
	cr_expect_eq(dst[5000], 'b', "no more than that");
	/* One that is gone: nothing. */
	memcpy(dst, before, sizeof(dst));
	cr_assert_eq(taken(t, addr, 4096, TS_A_WINDOW), 1);
	tr_window_view(t, 0, 4096, 4096);
	tr_windows_flush(t);
	cr_expect_eq(memcmp(dst, before, sizeof(dst)), 0);
	thread_end(t);
}
