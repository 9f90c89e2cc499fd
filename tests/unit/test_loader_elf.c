/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader/elf.h: plans of good files, refusal of bad ones, and what must hold for any bytes.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/lx.h"
#include "loader/elf.h"

#define MIN_ADDR ((uint64_t)0x10000)
#define LIMIT ((uint64_t)0x7ffff0000000)
#define SEGMENTS 8

/* A file in memory. */
struct image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[SEGMENTS];
	char tail[4096];
};

struct bytes {
	const void *p;
	size_t size;
	int error;
};

static ssize_t read_bytes(void *ctx, void *buf, size_t size, uint64_t offset)
{
	const struct bytes *b = ctx;

	if (b->error)
		return -b->error;
	if (offset >= b->size)
		return 0;
	size = MIN(size, b->size - (size_t)offset);
	memcpy(buf, (const char *)b->p + offset, size);
	return (ssize_t)size;
}

static int parse(const struct image *f, struct elf_image *out)
{
	struct bytes b = {f, sizeof(*f), 0};
	struct elf_source src = {read_bytes, &b};

	return elf_parse(&src, MIN_ADDR, LIMIT, out);
}

/* Text at 0x400000, data with a bss at 0x402e10 (file offset 0x1e10), a stack note. */
static struct image good(void)
{
	struct image f = {0};

	memcpy(f.eh.e_ident, ELFMAG, SELFMAG);
	f.eh.e_ident[EI_CLASS] = ELFCLASS64;
	f.eh.e_ident[EI_DATA] = ELFDATA2LSB;
	f.eh.e_type = ET_EXEC;
	f.eh.e_machine = EM_X86_64;
	f.eh.e_entry = 0x400100;
	f.eh.e_phoff = offsetof(struct image, ph);
	f.eh.e_phentsize = sizeof(Elf64_Phdr);
	f.eh.e_phnum = 3;
	f.ph[0] = (Elf64_Phdr){.p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_vaddr = 0x400000,
			       .p_filesz = 0x1234,
			       .p_memsz = 0x1234,
			       .p_align = 0x1000};
	f.ph[1] = (Elf64_Phdr){.p_type = PT_LOAD,
			       .p_flags = PF_R | PF_W,
			       .p_offset = 0x1e10,
			       .p_vaddr = 0x402e10,
			       .p_filesz = 0x300,
			       .p_memsz = 0x5000,
			       .p_align = 0x1000};
	f.ph[2] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
	return f;
}

Test(loader_elf, plan)
{
	struct image f = good();
	struct elf_image img;

	cr_assert_eq(parse(&f, &img), 0);
	cr_expect(!img.dyn && !img.exec_stack);
	cr_expect_eq(img.entry, 0x400100);
	cr_expect_eq(img.phdr, 0x400040);
	cr_expect_eq(img.phnum, 3);
	cr_expect_eq(img.low, 0x400000);
	cr_expect_eq(img.high, 0x408000);
	cr_expect_eq(img.brk, 0x407e10);
	cr_expect_eq(img.start_code, 0x400000);
	cr_expect_eq(img.end_code, 0x401234);
	cr_expect_eq(img.start_data, 0x402e10);
	cr_expect_eq(img.end_data, 0x403110);
	cr_expect_eq(img.interp_size, 0);
	cr_assert_eq(img.segment_count, 2);
	cr_expect_eq(img.segments[0].addr, 0x400000);
	cr_expect_eq(img.segments[0].file_size, 0x2000);
	cr_expect_eq(img.segments[0].anon_size, 0);
	cr_expect_eq(img.segments[0].zero_size, 0, "text has no bss");
	cr_expect_eq(img.segments[0].prot, LX_PROT_READ | LX_PROT_EXEC);
	cr_expect_eq(img.segments[1].addr, 0x402000);
	cr_expect_eq(img.segments[1].file_offset, 0x1000);
	cr_expect_eq(img.segments[1].file_size, 0x2000);
	cr_expect_eq(img.segments[1].zero_addr, 0x403110);
	cr_expect_eq(img.segments[1].zero_size, 0xef0);
	cr_expect_eq(img.segments[1].anon_addr, 0x404000);
	cr_expect_eq(img.segments[1].anon_size, 0x4000);
	elf_image_free(&img);
}

Test(loader_elf, variants)
{
	struct image f = good();
	struct elf_image img;

	/* Position-independent, below the lowest address, with a large alignment. */
	f.eh.e_type = ET_DYN;
	f.ph[0].p_vaddr = 0;
	f.ph[1].p_vaddr = 0x402e10;
	f.ph[1].p_align = 0x200000;
	cr_assert_eq(parse(&f, &img), 0);
	cr_expect(img.dyn);
	cr_expect_eq(img.align, 0x200000);
	cr_expect_eq(img.low, 0);
	elf_image_free(&img);
	/* An alignment that is none does not count, nor one that nothing could have. */
	f.ph[1].p_align = 0x201000;
	cr_assert_eq(parse(&f, &img), 0);
	cr_expect_eq(img.align, 0x1000);
	elf_image_free(&img);
	f.ph[1].p_align = (uint64_t)1 << 63;
	cr_assert_eq(parse(&f, &img), 0);
	cr_expect_eq(img.align, 0x1000);
	elf_image_free(&img);
	/* An executable stack. */
	f = good();
	f.ph[2].p_flags |= PF_X;
	cr_assert_eq(parse(&f, &img), 0);
	cr_expect(img.exec_stack);
	elf_image_free(&img);
	/* Only bss; a segment of nothing; program headers that are not in memory. */
	f = good();
	f.ph[0].p_offset = 0x1000;
	f.ph[1].p_filesz = 0;
	f.ph[2].p_type = PT_LOAD;
	f.ph[2].p_memsz = 0;
	cr_assert_eq(parse(&f, &img), 0);
	cr_expect_eq(img.phdr, 0);
	cr_assert_eq(img.segment_count, 2);
	cr_expect_eq(img.segments[1].file_size, 0);
	cr_expect_eq(img.segments[1].anon_addr, 0x402000);
	cr_expect_eq(img.segments[1].anon_size, 0x6000);
	elf_image_free(&img);
	/* A read-only segment's tail is left alone, as in Linux. */
	f = good();
	f.ph[1].p_flags = PF_R;
	cr_assert_eq(parse(&f, &img), 0);
	cr_expect_eq(img.segments[1].zero_size, 0);
	elf_image_free(&img);
}

Test(loader_elf, shared_page)
{
	struct image f = good();
	struct elf_image img;

	/* The second begins in the last page of the first. */
	f.ph[1].p_vaddr = 0x401800;
	f.ph[1].p_offset = 0x1800;
	cr_assert_eq(parse(&f, &img), 0);
	cr_assert_eq(img.segment_count, 2);
	cr_expect_eq(img.segments[0].file_size, 0x1000);
	cr_expect_eq(img.segments[1].addr, 0x401000);
	elf_image_free(&img);
	/* The same with the first ending in zeros: those of the shared page go with it. */
	f.ph[0].p_flags = PF_R | PF_W;
	f.ph[0].p_memsz = 0x1700;
	cr_assert_eq(parse(&f, &img), 0);
	cr_expect_eq(img.segments[0].zero_size, 0);
	elf_image_free(&img);
	f.ph[0].p_filesz = 0x800;
	cr_assert_eq(parse(&f, &img), 0);
	cr_expect_eq(img.segments[0].anon_size, 0);
	cr_expect_eq(img.segments[0].zero_size, 0x800);
	elf_image_free(&img);
}

/* Each is one thing wrong with a good file. */
static void bad_magic(struct image *f)
{
	f->eh.e_ident[0] = 'E';
}
static void bad_type(struct image *f)
{
	f->eh.e_type = ET_REL;
}
static void bad_machine(struct image *f)
{
	f->eh.e_machine = EM_386;
}
static void bad_phentsize(struct image *f)
{
	f->eh.e_phentsize = 32;
}
static void no_phdrs(struct image *f)
{
	f->eh.e_phnum = 0;
}
static void many_phdrs(struct image *f)
{
	f->eh.e_phnum = 0xffff;
}
static void phdrs_behind_end(struct image *f)
{
	f->eh.e_phoff = sizeof(*f) - 8;
}
static void phdrs_far_away(struct image *f)
{
	f->eh.e_phoff = UINT64_MAX - 8;
}
static void no_load(struct image *f)
{
	f->ph[0].p_type = f->ph[1].p_type = PT_NOTE;
}
static void file_above_memory(struct image *f)
{
	f->ph[1].p_filesz = f->ph[1].p_memsz + 1;
}
static void huge_memory(struct image *f)
{
	f->ph[1].p_memsz = UINT64_MAX - 0x1000;
}
static void above_limit(struct image *f)
{
	f->ph[1].p_vaddr = LIMIT - 0x1000 + 0xe10;
}
static void address_wraps(struct image *f)
{
	f->ph[1].p_vaddr = UINT64_MAX - 0x1f0 + 1;
}
static void below_min(struct image *f)
{
	f->ph[0].p_vaddr = 0;
}
static void not_congruent(struct image *f)
{
	f->ph[1].p_offset = 0x1e11;
}
static void offset_wraps(struct image *f)
{
	f->ph[1].p_offset = UINT64_MAX - 0x1ef + 0xe10 - 0x1000;
}
static void descending(struct image *f)
{
	Elf64_Phdr p = f->ph[0];

	f->ph[0] = f->ph[1];
	f->ph[1] = p;
}
static void overlapping(struct image *f)
{
	f->ph[0].p_memsz = 0x3000;
}
static void entry_outside(struct image *f)
{
	f->eh.e_entry = LIMIT;
}
static void interp_too_short(struct image *f)
{
	f->ph[2] = (Elf64_Phdr){.p_type = PT_INTERP, .p_filesz = 1};
}
static void interp_too_long(struct image *f)
{
	f->ph[2] = (Elf64_Phdr){.p_type = PT_INTERP, .p_filesz = 4097};
}
static void interp_far_away(struct image *f)
{
	f->ph[2] = (Elf64_Phdr){.p_type = PT_INTERP, .p_filesz = 10, .p_offset = UINT64_MAX - 4};
}

Test(loader_elf, refused)
{
	static const struct {
		const char *what;
		void (*spoil)(struct image *f);
	} cases[] = {
#define CASE(name) {#name, name}
		CASE(bad_magic),         CASE(bad_type),         CASE(bad_machine),
		CASE(bad_phentsize),     CASE(no_phdrs),         CASE(many_phdrs),
		CASE(phdrs_behind_end),  CASE(phdrs_far_away),   CASE(no_load),
		CASE(file_above_memory), CASE(huge_memory),      CASE(above_limit),
		CASE(address_wraps),     CASE(below_min),        CASE(not_congruent),
		CASE(offset_wraps),      CASE(descending),       CASE(overlapping),
		CASE(entry_outside),     CASE(interp_too_short), CASE(interp_too_long),
		CASE(interp_far_away),
#undef CASE
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct image f = good();
		struct elf_image img;
		int r;

		cases[i].spoil(&f);
		r = parse(&f, &img);
		cr_expect_eq(r, -ENOEXEC, "%s: %d", cases[i].what, r);
		cr_expect_null(img.segments);
		if (r == 0)
			elf_image_free(&img);
	}
}

Test(loader_elf, short_files_and_errors)
{
	struct image f = good();
	struct elf_image img;
	struct bytes b = {&f, 0, 0};
	struct elf_source src = {read_bytes, &b};

	for (size_t n = 0; n < sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr); n += 7) {
		b.size = n;
		cr_expect_eq(elf_parse(&src, MIN_ADDR, LIMIT, &img), -ENOEXEC, "%zu bytes", n);
	}
	b.size = sizeof(f);
	b.error = EIO;
	cr_expect_eq(elf_parse(&src, MIN_ADDR, LIMIT, &img), -EIO);
	b.error = 0;
	for (unsigned n = 1; n <= 2; n++) {
		fail_set(FAIL_ALLOC, n);
		cr_expect_eq(elf_parse(&src, MIN_ADDR, LIMIT, &img), -ENOMEM, "allocation %u", n);
	}
	fail_set(FAIL_ALLOC, 0);
}

Test(loader_elf, interpreter)
{
	static const char path[] = "/lib64/ld.so";
	struct image f = good();
	struct bytes b = {&f, sizeof(f), 0};
	struct elf_source src = {read_bytes, &b};
	char buf[LX_PATH_MAX];
	struct elf_image img;

	memcpy(f.tail, path, sizeof(path));
	f.eh.e_phnum = 4;
	f.ph[2] = (Elf64_Phdr){.p_type = PT_INTERP,
			       .p_offset = offsetof(struct image, tail),
			       .p_filesz = sizeof(path)};
	/* A second one is not looked at. */
	f.ph[3] = (Elf64_Phdr){.p_type = PT_INTERP, .p_filesz = 1};
	cr_assert_eq(parse(&f, &img), 0);
	cr_expect_eq(img.interp_size, sizeof(path));
	cr_expect_eq(elf_read_interp(&src, &img, buf), 0);
	cr_expect_str_eq(buf, path);
	/* Not terminated; cut off. */
	img.interp_size--;
	cr_expect_eq(elf_read_interp(&src, &img, buf), -ENOEXEC);
	b.size = offsetof(struct image, tail) + 3;
	cr_expect_eq(elf_read_interp(&src, &img, buf), -EIO);
	elf_image_free(&img);
}

/* What holds for every plan that is made. */
static void check_plan(const struct elf_image *img)
{
	uint64_t at = img->dyn ? 0 : MIN_ADDR;

	cr_assert_gt(img->segment_count, 0u);
	cr_assert_geq(img->low, at);
	for (unsigned i = 0; i < img->segment_count; i++) {
		const struct elf_segment *s = &img->segments[i];

		cr_assert_eq(
			(s->addr | s->file_size | s->anon_addr | s->anon_size | s->file_offset) %
				MOAT_PAGE_SIZE,
			0);
		cr_assert_geq(s->addr, at, "segments are disjoint and ascend");
		cr_assert_eq(s->anon_addr, s->addr + s->file_size);
		at = s->anon_addr + s->anon_size;
		cr_assert_geq(at, s->addr);
		cr_assert_leq(at, LIMIT);
		if (s->zero_size) {
			cr_assert_geq(s->zero_addr, s->addr);
			cr_assert_leq(s->zero_addr + s->zero_size, s->anon_addr);
			cr_assert_lt(s->zero_size, MOAT_PAGE_SIZE);
		}
	}
	cr_assert_eq(at, img->high);
	cr_assert_eq(img->align & (img->align - 1), 0);
	cr_assert_lt(img->entry, LIMIT);
	cr_assert_leq(img->interp_size, LX_PATH_MAX);
}

Test(loader_elf, random_damage)
{
	static const uint64_t odd[] = {
		0,          1,         0xfff,      0x1000,     0x7fffffff,
		0xffffffff, INT64_MAX, UINT64_MAX, LIMIT - 1,  LIMIT,
		0x401000,   0x402000,  0x10000,    1ull << 47, UINT64_MAX - 0xfff};
	unsigned accepted = 0;

	srand(1);
	for (unsigned n = 0; n < 200000; n++) {
		struct image f = good();
		struct elf_image img;
		unsigned changes = 1 + (unsigned)rand() % 3;

		f.eh.e_phnum = (uint16_t)(1 + rand() % SEGMENTS);
		if (rand() % 2)
			f.eh.e_type = ET_DYN;
		for (unsigned i = 0; i < changes; i++) {
			/* Of the headers' 64-bit words from e_entry on. */
			size_t at = 24 + 8 * ((unsigned)rand() %
					      ((sizeof(f.eh) + sizeof(f.ph) - 24) / 8));
			uint64_t v = odd[(unsigned)rand() % ARRAY_SIZE(odd)];

			if (rand() % 3 == 0) {
				memcpy(&v, (char *)&f + at, sizeof(v));
				v ^= 1ull << (rand() % 64);
			}
			memcpy((char *)&f + at, &v, sizeof(v));
		}
		if (parse(&f, &img) == 0) {
			accepted++;
			check_plan(&img);
			elf_image_free(&img);
		}
	}
	cr_expect_gt(accepted, 1000u, "only %u were accepted: this tests little", accepted);
}
