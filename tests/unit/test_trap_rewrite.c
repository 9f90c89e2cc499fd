/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call sites the trap platform may rewrite: byte strings that must be accepted, and those
 * that must be refused since they leave a doubt; and the table of sites.
 */
#include <criterion/criterion.h>
#include <string.h>
#include "platform/trap_site.h"

#define NR 39u

/* @before, a syscall instruction, @after. */
static struct tr_text text(const char *before, size_t n, const char *after, size_t m)
{
	struct tr_text x = {.size = n + TR_SYSCALL_SIZE + m, .call = n};

	cr_assert(x.size <= sizeof(x.bytes));
	memcpy(x.bytes, before, n);
	memcpy(x.bytes + n, "\x0f\x05", TR_SYSCALL_SIZE);
	memcpy(x.bytes + n + TR_SYSCALL_SIZE, after, m);
	return x;
}

struct before {
	const char *what, *bytes;
	size_t size;
	bool accepted;
};

#define YES(what, bytes)                             \
	{                                            \
		what, bytes, sizeof(bytes) - 1, true \
	}
#define NO(what, bytes)                               \
	{                                             \
		what, bytes, sizeof(bytes) - 1, false \
	}

/* The number is 39. */
static const struct before g_before[] = {
	YES("mov", "\xb8\x27\x00\x00\x00"),
	YES("endbr64, mov", "\xf3\x0f\x1e\xfa\xb8\x27\x00\x00\x00"),
	YES("push, mov", "\x55\xb8\x27\x00\x00\x00"),
	YES("mov of r10, mov", "\x49\x89\xca\xb8\x27\x00\x00\x00"),
	YES("xor of edi, mov", "\x31\xff\xb8\x27\x00\x00\x00"),
	YES("mov of edx, mov", "\x89\xc2\xb8\x27\x00\x00\x00"),
	YES("mov of edi, mov", "\xbf\x01\x00\x00\x00\xb8\x27\x00\x00\x00"),
	YES("ret, mov", "\xc3\xb8\x27\x00\x00\x00"),
	YES("nop, mov", "\x0f\x1f\x40\x00\xb8\x27\x00\x00\x00"),
	YES("nothing that decodes, mov", "\x06\xb8\x27\x00\x00\x00"),
	/* With rax = 39 this faults: nothing is mapped there. */
	YES("mov from what rax points to", "\x8b\xb8\x27\x00\x00\x00"),
	YES("cmp with what rax points to", "\x3b\xb8\x27\x00\x00\x00"),
	NO("nothing", ""),
	/* f6 b8 ..: idiv of what rax points to, whose result is in rax. */
	NO("xor of esi, mov", "\x31\xf6\xb8\x27\x00\x00\x00"),
	NO("four bytes", "\x27\x00\x00\x00"),
	NO("another number", "\xb8\x26\x00\x00\x00"),
	NO("another register", "\xb9\x27\x00\x00\x00"),
	NO("mov of rax, seven bytes", "\x48\xc7\xc0\x27\x00\x00\x00"),
	NO("mov of r8d", "\x41\xb8\x27\x00\x00\x00"),
	NO("movabs of rax", "\x48\xb8\x11\x22\x33\xb8\x27\x00\x00\x00"),
	NO("movabs of rbx", "\x48\xbb\x11\x22\x33\xb8\x27\x00\x00\x00"),
	NO("a store below rbp", "\xc7\x45\xb8\x27\x00\x00\x00"),
	NO("a wide store below rbp", "\x48\xc7\x45\xb8\x27\x00\x00\x00"),
	NO("cmp below rbp", "\x81\x7d\xb8\x27\x00\x00\x00"),
	NO("test below rbp", "\xf7\x45\xb8\x27\x00\x00\x00"),
	NO("and below rbp", "\x81\x65\xb8\x27\x00\x00\x00"),
	NO("lea", "\x8d\xb8\x27\x00\x00\x00"),
	NO("mov from what rax and rdi point to", "\x8b\x84\xb8\x27\x00\x00\x00"),
	NO("mov through fs", "\x64\x8b\xb8\x27\x00\x00\x00"),
	NO("mov through gs", "\x65\x8b\xb8\x27\x00\x00\x00"),
	NO("call through memory", "\xff\x94\xb8\x27\x00\x00\x00"),
	/* The call is a jump's target. */
	NO("jump through memory", "\xff\xa4\xb8\x27\x00\x00\x00"),
	NO("short jump and padding", "\xeb\xb8\x27\x00\x00\x00"),
	NO("near jump and padding", "\xe9\x00\x00\xb8\x27\x00\x00\x00"),
	NO("prefix", "\x3e\xb8\x27\x00\x00\x00"),
	NO("rex prefix", "\x40\xb8\x27\x00\x00\x00"),
};

Test(trap_rewrite, mov_before)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_before); i++) {
		const struct before *b = &g_before[i];
		const struct tr_text x = text(b->bytes, b->size, "\xc3", 1);

		cr_expect_eq(tr_text_has_mov(&x, NR), b->accepted, "%s", b->what);
	}
}

/* A mov whose number is itself code. */
Test(trap_rewrite, mov_of_what_calls)
{
	/* 8b b8 d2 ff ..: a load that would fault with rax = the number, but then "call *%rdx". */
	const struct tr_text x = text("\x8b\xb8\x00\x00\x00\x00\xff\xd2", 8, "\xc3", 1);

	cr_expect_not(tr_text_has_mov(&x, 0));
}

struct after {
	const char *what, *bytes;
	size_t size, length; /* 0: it must stay where it is */
};

#define RUNS(what, bytes)                                         \
	{                                                         \
		what, bytes, sizeof(bytes) - 1, sizeof(bytes) - 1 \
	}
#define STAYS(what, bytes)                        \
	{                                         \
		what, bytes, sizeof(bytes) - 1, 0 \
	}

static const struct after g_after[] = {
	RUNS("cmp", "\x48\x3d\x01\xf0\xff\xff"),
	RUNS("cmp, short", "\x48\x83\xf8\xff"),
	RUNS("mov", "\x48\x89\xc3"),
	RUNS("store", "\x48\x89\x45\xf8"),
	RUNS("store of a constant", "\x48\xc7\x84\x24\x80\x00\x00\x00\x78\x56\x34\x12"),
	RUNS("load", "\x48\x8b\x5c\x24\x08"),
	RUNS("lea", "\x48\x8d\x5c\x24\x10"),
	RUNS("test", "\x48\x85\xc0"),
	RUNS("nop", "\x0f\x1f\x40\x00"),
	RUNS("nop, long", "\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"),
	RUNS("movsxd", "\x48\x63\xd8"),
	RUNS("shl", "\x48\xc1\xe0\x04"),
	RUNS("cmov", "\x48\x0f\x44\xd8"),
	RUNS("movabs", "\x48\xbb\x88\x77\x66\x55\x44\x33\x22\x11"),
	RUNS("mov through fs", "\x64\x48\x8b\x04\x25\x28\x00\x00\x00"),
	STAYS("nothing", ""),
	STAYS("half an instruction", "\x48\x3d\x01"),
	STAYS("ret", "\xc3\x90\x90\x90"),
	STAYS("one byte", "\x90\x90\x90\x90"),
	STAYS("two bytes", "\x85\xc0\x90\x90"),
	STAYS("lea of rip", "\x48\x8d\x1d\x05\x00\x00\x00"),
	STAYS("load through rip", "\x48\x8b\x1d\x05\x00\x00\x00"),
	STAYS("cmp through rip", "\x48\x81\x3d\x05\x00\x00\x00\x00\x00\x00\x00"),
	STAYS("call", "\xe8\x00\x00\x00\x00"),
	STAYS("call through memory", "\xff\x54\x24\x08"),
	STAYS("jump", "\xe9\x00\x00\x00\x00"),
	STAYS("jump through a register", "\x41\xff\xe3"),
	STAYS("jcc", "\x0f\x88\x00\x00\x00\x00"),
	STAYS("jcc, short", "\x78\x00\x90\x90"),
	STAYS("jrcxz with a prefix", "\x67\xe3\x00\x90"),
	STAYS("xbegin", "\xc7\xf8\x00\x00\x00\x00"),
	STAYS("push", "\x68\x11\x22\x33\x04"),
	STAYS("syscall with rex", "\x48\x0f\x05"),
	STAYS("wrmsr with a prefix", "\x48\x0f\x30"),
	STAYS("mov to cr0", "\x0f\x22\xc0"),
	STAYS("rep movs", "\xf3\x48\xa5"),
	STAYS("undefined", "\x06\x90\x90\x90"),
};

Test(trap_rewrite, displaceable)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_after); i++) {
		const struct after *a = &g_after[i];
		const struct tr_text x = text("", 0, a->bytes, a->size);

		cr_expect_eq(tr_text_displaceable(&x), a->length, "%s", a->what);
	}
}

/* --- The table --- */

#define TEXT UINT64_C(0x10000000)
#define ROOM UINT64_C(0x0fff0000)

static bool any(uint32_t rel)
{
	(void)rel;
	return true;
}

static void heat(struct pf_as *as, uint64_t call)
{
	unsigned n = 0;

	while (!tr_site_hit(as, call))
		cr_assert(++n < 2 * TR_HOT);
}

static void patch(struct tr_sites *s, uint64_t call, enum tr_pattern pattern)
{
	struct tr_site site = {.call = call, .pattern = (uint8_t)pattern, .nr = NR};

	site.start = pattern == TR_PATTERN_BEFORE ? call - TR_PATCH_SIZE : call;
	site.displaced = pattern == TR_PATTERN_BEFORE ? 0 : 8;
	memset(site.orig, 0x5a, sizeof(site.orig));
	site.slot = tr_room_find_slot(s, site.start + TR_PATCH_SIZE, any);
	cr_assert_neq(site.slot, 0);
	tr_site_patched(s, &site);
}

Test(trap_rewrite, table)
{
	struct pf_as as = {0};
	struct tr_sites *s;
	struct tr_site site;
	uint8_t buf[64];
	bool often = false;

	heat(&as, TEXT + 5);
	heat(&as, TEXT + 0x2000);
	s = as.sites;
	cr_assert(tr_room_add(s, ROOM));
	patch(s, TEXT + 5, TR_PATTERN_BEFORE);
	patch(s, TEXT + 0x2000, TR_PATTERN_AFTER);

	/* What depends on a change of text: the jump, the call, and what is displaced. */
	cr_expect(tr_site_next_in(s, TEXT + 4, TEXT + 5, &site));
	cr_expect(tr_site_next_in(s, TEXT + 6, TEXT + 7, &site));
	cr_expect_not(tr_site_next_in(s, TEXT + 7, TEXT + 0x2000, &site));
	cr_expect(tr_site_next_in(s, TEXT + 0x2009, TEXT + 0x2010, &site));
	cr_expect_not(tr_site_next_in(s, TEXT + 0x200a, TEXT + 0x3000, &site));
	cr_expect(tr_sites_near(s, TEXT + 0x2000, TEXT + 0x2001));
	cr_expect(tr_sites_near(s, 0, UINT64_C(1) << 46));
	cr_expect(tr_sites_near(s, ROOM + 0x8000, ROOM + 0x8001));
	cr_expect_not(tr_sites_near(s, TEXT + 0x4000, TEXT + 0x5000));

	/* Addresses there and back. */
	cr_assert(tr_site_next_in(s, TEXT + 0x2000, TEXT + 0x2001, &site));
	cr_expect_eq(tr_site_resume(&as, TEXT + 0x2002), site.slot + TS_SLOT_TAIL);
	cr_expect_eq(tr_site_canon(&as, site.slot + TS_SLOT_TAIL), TEXT + 0x2002);
	cr_expect_eq(tr_site_canon(&as, site.slot + TS_SLOT_TAIL + 8), TEXT + 0x200a);
	cr_expect_eq(tr_site_canon(&as, site.slot), TEXT + 0x2000);
	cr_expect_eq(tr_site_resume(&as, TEXT + 7), TEXT + 7);
	cr_expect(tr_site_fault(&as, TEXT + 0x2002, LX_SIGILL, &often));
	cr_expect_not(often);
	for (unsigned i = 1; i < TR_FAULTS_MAX; i++)
		(void)tr_site_fault(&as, TEXT + 0x2002, LX_SIGILL, &often);
	cr_expect(often);
	cr_expect_not(tr_site_fault(&as, TEXT + 7, LX_SIGILL, &often));

	/* What is read is the original, whole or in part. */
	memset(buf, 0, sizeof(buf));
	tr_site_show_original(&as, TEXT - 8, buf, sizeof(buf));
	for (unsigned i = 0; i < sizeof(buf); i++)
		cr_expect_eq(buf[i], i >= 8 && i < 13 ? 0x5a : 0, "%u", i);
	memset(buf, 0, sizeof(buf));
	tr_site_show_original(&as, TEXT + 4, buf, sizeof(buf));
	cr_expect_eq(buf[0], 0x5a);
	cr_expect_eq(buf[1], 0);
	tr_sites_free(s);
}

Test(trap_rewrite, forgotten)
{
	struct pf_as as = {0};
	struct tr_sites *s, *copy;
	struct tr_site site;
	uint64_t from, to;

	for (uint64_t i = 0; i < 200; i++)
		heat(&as, TEXT + i * 64);
	s = as.sites;
	cr_assert(tr_room_add(s, ROOM));
	cr_assert(tr_room_add(s, ROOM - 4 * TR_ROOM_SIZE));
	patch(s, TEXT + 64, TR_PATTERN_AFTER);
	cr_expect_eq(s->count, 200);
	/* One behind the range, and one whose text reaches into it. */
	tr_site_forget(s, TEXT + 2 * 64, TEXT + 100 * 64);
	cr_expect_eq(s->count, 102);
	cr_expect_eq(tr_site_state(s, TEXT + 100 * 64), TR_SITE_COUNTED);
	cr_expect_eq(tr_site_state(s, TEXT + 64), TR_SITE_PATCHED);
	/* As if never seen. */
	cr_expect_not(tr_site_hit(&as, TEXT + 50 * 64));
	heat(&as, TEXT + 50 * 64);

	copy = tr_sites_copy(s);
	cr_assert(copy != NULL);
	cr_expect(tr_site_next_in(copy, TEXT + 64, TEXT + 65, &site));
	cr_expect(tr_sites_near(copy, TEXT, TEXT + 1));
	tr_site_restored(copy, TEXT + 64);
	cr_expect_not(tr_site_next_in(copy, TEXT, TEXT + 65536, &site));
	cr_expect(tr_site_next_in(s, TEXT, TEXT + 65536, &site));
	tr_sites_free(copy);

	/* A room is given up as a whole. */
	from = ROOM + 0x8000;
	to = from + 0x1000;
	cr_expect(tr_rooms_in(s, &from, &to));
	cr_expect_eq(from, ROOM);
	cr_expect_eq(to, ROOM + TR_ROOM_SIZE);
	cr_expect(tr_site_next_in(s, from, to, &site));
	tr_site_restored(s, site.call);
	tr_site_forget(s, ROOM + 0x8000, ROOM + 0x9000);
	cr_expect_eq(s->room_count, 1);
	cr_expect_not(tr_rooms_in(s, &from, &to));
	tr_sites_free(s);
}

/* More sites than there is room for: those beyond are not counted, and nothing breaks. */
Test(trap_rewrite, full)
{
	struct pf_as as = {0};

	for (uint64_t i = 0; i < 2 * TR_SITES_MAX; i++) {
		for (unsigned k = 0; k < 2 * TR_HOT; k++)
			(void)tr_site_hit(&as, TEXT + i * 64);
	}
	cr_expect_eq(as.sites->count, TR_SITES_MAX);
	cr_expect_eq(tr_site_state(as.sites, TEXT), TR_SITE_COUNTED);
	cr_expect_eq(tr_site_state(as.sites, TEXT + 64 * TR_SITES_MAX), TR_SITE_REFUSED);
	tr_site_forget(as.sites, TEXT, TEXT + UINT64_C(64) * TR_SITES_MAX);
	cr_expect_eq(as.sites->count, 0);
	heat(&as, TEXT + 64 * TR_SITES_MAX);
	tr_sites_free(as.sites);
}
