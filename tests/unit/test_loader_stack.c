/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader/stack.h and loader/layout.h: the initial stack, read back as a program reads it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "base/alloc.h"
#include "loader/layout.h"
#include "loader/stack.h"

#define TOP ((uint64_t)0x7fff00000000)

static const void *at(const struct stack_image *s, uint64_t addr)
{
	cr_assert(addr >= s->sp && addr < TOP, "%#lx is not on the stack", addr);
	return s->bytes + (addr - s->sp);
}

static uint64_t word(const struct stack_image *s, uint64_t addr)
{
	uint64_t v;

	memcpy(&v, at(s, addr), sizeof(v));
	return v;
}

static void check(const char *const *argv, unsigned argc, const char *const *envp, unsigned envc,
		  uint64_t shift)
{
	struct stack_spec spec = {.argv = argv,
				  .envp = envp,
				  .argc = argc,
				  .envc = envc,
				  .execfn = "/bin/prog",
				  .top = TOP,
				  .shift = shift,
				  .random = "0123456789abcde"};
	struct stack_image s;
	uint64_t p, addr = 0;
	unsigned words = 0;
	bool execfn = false, platform = false, random = false, uid = false;

	stack_add_aux(&spec, LX_AT_UID, 1000);
	stack_add_aux(&spec, LX_AT_PAGESZ, 4096);
	cr_assert_eq(stack_build(&spec, &s), 0);
	cr_expect_eq(s.sp % 16, 0, "the ABI's alignment");
	cr_expect_eq(s.sp + s.size, TOP);
	p = s.sp;
	cr_expect_eq(word(&s, p), argc);
	for (unsigned i = 0; i < argc; i++) {
		p += 8;
		addr = word(&s, p);
		cr_expect_str_eq(at(&s, addr), argv[i]);
		if (i == 0)
			cr_expect_eq(addr, s.arg_start);
	}
	if (argc)
		cr_expect_eq(addr + strlen(argv[argc - 1]) + 1, s.arg_end);
	p += 8;
	cr_expect_eq(word(&s, p), 0);
	for (unsigned i = 0; i < envc; i++) {
		p += 8;
		addr = word(&s, p);
		cr_expect_str_eq(at(&s, addr), envp[i]);
		if (i == 0)
			cr_expect_eq(addr, s.env_start);
	}
	p += 8;
	cr_expect_eq(word(&s, p), 0);
	p += 8;
	for (;; p += 16, words += 2) {
		uint64_t type = word(&s, p), value = word(&s, p + 8);

		cr_expect_eq(s.auxv[words], type);
		cr_expect_eq(s.auxv[words + 1], value);
		if (type == LX_AT_NULL)
			break;
		if (type == LX_AT_EXECFN)
			execfn = strcmp(at(&s, value), "/bin/prog") == 0;
		if (type == LX_AT_PLATFORM)
			platform = strcmp(at(&s, value), "x86_64") == 0;
		if (type == LX_AT_RANDOM)
			random = memcmp(at(&s, value), "0123456789abcde", 16) == 0;
		if (type == LX_AT_UID)
			uid = value == 1000;
	}
	cr_expect_eq(s.auxv_count, words + 2);
	cr_expect(execfn && platform && random && uid);
	cr_expect_eq(s.env_start, s.arg_end);
	cr_expect_eq(word(&s, TOP - 8), 0);
	mem_free(s.bytes);
}

Test(loader_stack, images)
{
	static const char *const argv[] = {"prog", "-x", "", "a longer argument"};
	static const char *const envp[] = {"A=1", "HOME=/root", "EMPTY="};

	for (unsigned argc = 0; argc <= 4; argc++)
		for (unsigned envc = 0; envc <= 3; envc++)
			for (uint64_t shift = 0; shift < 40; shift += 13)
				check(argv, argc, envp, envc, shift);
}

Test(loader_stack, no_memory)
{
	struct stack_spec spec = {.execfn = "x", .top = TOP};
	struct stack_image s;

	fail_set(FAIL_ALLOC, 1);
	cr_expect_eq(stack_build(&spec, &s), -ENOMEM);
}

Test(loader_stack, limits)
{
	const uint64_t mib = 1 << 20, unlimited = UINT64_MAX;

	cr_expect_eq(stack_check_size(1, 0, 100, 8 * mib), 0);
	/* A quarter of the limit, less the pointers. */
	cr_expect_eq(stack_check_size(1, 1, 2 * mib - 16, 8 * mib), 0);
	cr_expect_eq(stack_check_size(1, 1, 2 * mib - 15, 8 * mib), -E2BIG);
	cr_expect_eq(stack_check_size(2 * mib / 8, 0, 1, 8 * mib), -E2BIG);
	/* Never more than 6 MiB, never less than 128 KiB. */
	cr_expect_eq(stack_check_size(1, 0, 6 * mib - 8, unlimited), 0);
	cr_expect_eq(stack_check_size(1, 0, 6 * mib - 7, unlimited), -E2BIG);
	cr_expect_eq(stack_check_size(1, 0, 131072 - 8, 0), 0);
	cr_expect_eq(stack_check_size(1, 0, 131072 - 7, 4096), -E2BIG);
	cr_expect_eq(stack_check_size(UINT32_MAX, UINT32_MAX, 0, unlimited), -E2BIG);
}

Test(loader_layout, bounds)
{
	static const uint64_t stacks[] = {0, 8 << 20, (uint64_t)1 << 40, UINT64_MAX};
	const uint64_t limit = 0x7ffff0000000;
	struct layout a, b;

	for (size_t s = 0; s < ARRAY_SIZE(stacks); s++) {
		bool differ = false;

		layout_choose(limit, stacks[s], false, &a);
		layout_choose(limit, stacks[s], false, &b);
		cr_expect_eq(memcmp(&a, &b, sizeof(a)), 0, "not random when told so");
		for (unsigned n = 0; n < 2000; n++) {
			struct layout l;

			layout_choose(limit, stacks[s], true, &l);
			cr_assert_eq((l.stack_top | l.mmap_base | l.pie_base | l.brk_offset |
				      l.vdso_hint) %
					     MOAT_PAGE_SIZE,
				     0);
			cr_assert_lt(l.stack_top, limit);
			cr_assert_lt(l.vdso_hint, limit - (1 << 20));
			cr_assert_gt(l.vdso_hint, l.stack_top);
			/* 128 MiB at least for the stack to grow in. */
			cr_assert_lt(l.mmap_base + (128 << 20), l.stack_top);
			cr_assert_gt(l.mmap_base, (uint64_t)1 << 40);
			cr_assert_lt(l.pie_base, limit - ((uint64_t)1 << 40));
			cr_assert_leq(l.brk_offset, 32 << 20);
			cr_assert_lt(l.stack_shift, 8192);
			differ |= l.stack_top != a.stack_top && l.mmap_base != a.mmap_base;
		}
		cr_expect(differ);
	}
}
