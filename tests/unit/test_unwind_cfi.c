/* SPDX-License-Identifier: Apache-2.0 */
/* sentry/unwind_cfi.h: what compilers emit is taken, what could harm is not. */
#include <criterion/criterion.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sentry/unwind_cfi.h"

struct module {
	uint64_t base, end, hdr;
	const char *name;
};

static bool module_read(void *ctx, void *buf, uint64_t addr, size_t size)
{
	const struct module *m = ctx;

	if (addr < m->base || size > m->end - addr)
		return false;
	memcpy(buf, (const void *)addr, size);
	return true;
}

static int each_module(struct dl_phdr_info *info, size_t size UNUSED, void *arg)
{
	unsigned *total = arg;
	struct module m = {.base = UINT64_MAX, .name = info->dlpi_name};
	const struct cfi_source src = {module_read, &m};
	struct cfi_own *own = mem_zalloc(sizeof(*own));
	const int32_t *table;
	uint32_t count, refused = 0;

	cr_assert_not_null(own);
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *ph = &info->dlpi_phdr[i];
		const uint64_t at = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD) {
			m.base = MIN(m.base, at);
			m.end = MAX(m.end, at + ph->p_memsz);
		} else if (ph->p_type == PT_GNU_EH_FRAME) {
			m.hdr = at;
		}
	}
	if (m.hdr) {
		table = (const int32_t *)(m.hdr + 12);
		memcpy(&count, (const void *)(m.hdr + 8), sizeof(count));
		for (uint32_t i = 0; i < count; i++) {
			const uint64_t ip = m.hdr + (uint64_t)(int64_t)table[2 * i];
			const uint64_t fde = m.hdr + (uint64_t)(int64_t)table[2 * i + 1];
			int32_t length;

			memcpy(&length, (const void *)(fde + 12), sizeof(length));
			/* Some are there for no code. */
			if (length && !cfi_take(&src, fde, ip, own))
				refused++;
		}
		*total += count;
		/* Who saves SSE registers (libffi) is not understood; nor is he by libunwind. */
		cr_expect_leq(refused, count / 50, "%s: %u of %u", m.name, refused, count);
	}
	mem_free(own);
	return 0;
}

/* All functions of this program and its libraries. */
Test(unwind_cfi, real_ones_are_taken)
{
	unsigned total = 0;

	dl_iterate_phdr(each_module, &total);
	cr_assert_gt(total, 2000u);
}

/* ---- made ones ---- */

struct made {
	uint8_t bytes[4096];
	size_t size;
	uint64_t fde;
};

static bool made_read(void *ctx, void *buf, uint64_t addr, size_t size)
{
	const struct made *m = ctx;

	if (size > m->size || addr > m->size - size)
		return false;
	memcpy(buf, m->bytes + addr, size);
	return true;
}

static void add(struct made *m, const void *p, size_t size)
{
	cr_assert(m->size + size <= sizeof(m->bytes));
	memcpy(m->bytes + m->size, p, size);
	m->size += size;
}

static void entry(struct made *m, uint32_t id, const void *a, size_t a_size, const void *b,
		  size_t b_size)
{
	const uint32_t size = (uint32_t)(4 + a_size + b_size);

	add(m, &size, 4);
	add(m, &id, 4);
	add(m, a, a_size);
	add(m, b, b_size);
}

#define CIE "\1zR\0\1\x78\x10\1\0"
#define BYTES(s) (s), sizeof(s) - 1

/* For the addresses 0x1000 to 0x1fff. */
static bool try(const void *cie, size_t cie_size, const void *program, size_t size)
{
	struct made *m = mem_zalloc(sizeof(*m));
	struct cfi_own *own = mem_zalloc(sizeof(*own));
	const struct cfi_source src = {made_read, m};
	bool ok;

	cr_assert(m && own);
	entry(m, 0, BYTES(""), cie, cie_size);
	m->fde = m->size;
	entry(m, (uint32_t)m->fde + 4, BYTES("\0\x10\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0"), program,
	      size);
	ok = cfi_take(&src, m->fde, 0x1010, own);
	/* Outside of it. */
	cr_expect(!cfi_take(&src, m->fde, 0xfff, own) && !cfi_take(&src, m->fde, 0x2000, own));
	/* Whatever is cut off. */
	for (m->size--; m->size > 0; m->size--)
		cr_expect_not(cfi_take(&src, m->fde, 0x1010, own));
	mem_free(m);
	mem_free(own);
	return ok;
}

#define DEF_CFA "\x0c\7\x08\x90\1"
#define TAKEN(program) cr_expect(try(BYTES(CIE DEF_CFA), BYTES(program)), "%s", #program)
#define REFUSED(program) cr_expect_not(try(BYTES(CIE DEF_CFA), BYTES(program)), "%s", #program)

Test(unwind_cfi, programs)
{
	TAKEN("");
	TAKEN("\x41\x0e\x10\x86\2\x43\x0d\6");
	/* The PLT's, and the C library's for signal frames. */
	TAKEN("\x0e\x10\x46\x0e\x18\x4a\x0f\x0b\x77\x08\x80\0\x3f\x1a\x3b\x2a\x33\x24\x22");
	TAKEN("\x0f\x04\x77\xa0\1\6\x10\x08\2\x77\x28");
	TAKEN("\x0a\x0e\x20\x0b");
	TAKEN("\x09\3\x10");
	/* Registers that do not exist, in each place for one. */
	REFUSED("\x09\3\x11");
	REFUSED("\x09\x11\3");
	REFUSED("\x09\3\xff\xff\xff\xff\x07");
	REFUSED("\x0c\x11\x08");
	REFUSED("\x0d\x11");
	REFUSED("\x91\1");
	REFUSED("\xd1");
	REFUSED("\5\x11\1");
	REFUSED("\7\x11");
	REFUSED("\x10\x11\2\x77\0");
	REFUSED("\x0f\2\x81\0");
	REFUSED("\x0f\3\x92\x11\0");
	/* Divisions, branches, registers as results, places in objects, unknown operations. */
	REFUSED("\x0f\3\x31\x31\x1b");
	REFUSED("\x0f\3\x31\x31\x1d");
	REFUSED("\x0f\4\x31\x2f\0\0");
	REFUSED("\x0f\4\x31\x28\0\0");
	REFUSED("\x0f\1\x50");
	REFUSED("\x0f\2\x90\3");
	REFUSED("\x0f\2\x91\0");
	REFUSED("\x0f\1\xff");
	/* The expression's stack: one value is on it. */
	TAKEN("\x0f\3\x31\x22\x96");
	REFUSED("\x0f\2\x22\x96");
	REFUSED("\x0f\1\x13");
	REFUSED("\x0f\2\x15\xff");
	REFUSED("\x0f\x21\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31"
		"\x31"
		"\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31\x31");
	/* Past the end. */
	REFUSED("\x0f\x7f\x31");
	REFUSED("\x0f\xff\xff\xff\xff\xff\xff\xff\xff\xff\1");
	REFUSED("\x0e");
	REFUSED("\4\0");
	/* States that are not there, or too many. */
	REFUSED("\x0b");
	REFUSED("\x0a\x0b\x0b");
	REFUSED("\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a"
		"\x0a"
		"\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a"
		"\x0a"
		"\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a"
		"\x0a"
		"\x0a\x0a");
	/* Others' and unknown instructions. */
	REFUSED("\1\0\0\0\0\0\0\0\0");
	REFUSED("\x1d\0\0\0\0\0\0\0\0");
	REFUSED("\x14\3\1");
	REFUSED("\x2d");
}

Test(unwind_cfi, heads)
{
#define HEAD(ok, cie) cr_expect_eq(try(BYTES(cie), BYTES("\x41")), ok, "%s", #cie)
	HEAD(true, CIE DEF_CFA);
	HEAD(true, "\3zR\0\1\x78\x10\1\0" DEF_CFA);
	HEAD(true, "\1zRS\0\1\x78\x10\1\0" DEF_CFA);
	HEAD(true, "\1zPLR\0\1\x78\x10\x0b\0\1\2\3\4\5\6\7\x08\x1b\0" DEF_CFA);
	/* No rule for the frame where the first place is. */
	HEAD(false, CIE "");
	HEAD(false, CIE "\x90\1");
	HEAD(false, CIE "\x0e\x08");
	HEAD(false, CIE "\x0a" DEF_CFA);
	/* The return address in other registers, in either way to say so. */
	HEAD(false, "\1zR\0\1\x78\x0f\1\0" DEF_CFA);
	HEAD(false, "\1zR\0\1\x78\x11\1\0" DEF_CFA);
	HEAD(false, "\1zR\0\1\x78\xff\1\0" DEF_CFA);
	HEAD(false, "\3zR\0\1\x78\xff\xff\xff\xff\x07\1\0" DEF_CFA);
	/* Versions, augmentations, encodings. */
	HEAD(false, "\2zR\0\1\x78\x10\1\0" DEF_CFA);
	HEAD(false, "\4zR\0\1\x78\x10\1\0" DEF_CFA);
	HEAD(false, "\1eh\0\1\x78\x10\1\0" DEF_CFA);
	HEAD(false, "\1zX\0\1\x78\x10\1\0" DEF_CFA);
	HEAD(false, "\1zR\0\1\x78\x10\1\x30" DEF_CFA);
	HEAD(false, "\1zR\0\1\x78\x10\1\x40" DEF_CFA);
	HEAD(false, "\1zR\0\1\x78\x10\1\x80" DEF_CFA);
	HEAD(false, "\1zR\0\1\x78\x10\1\x01" DEF_CFA);
	HEAD(false, "\1zR\0\1\x78\x10\1\xff" DEF_CFA);
	HEAD(false, "\1zR\0\1\x78\x10\0" DEF_CFA);
	HEAD(false, "\1zR\0\1\x78\x10\x7f\0" DEF_CFA);
}
