/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF64 files: headers to a plan of segments.
 *
 * Theory of operation: the file header and the program headers are read once into private memory.
 * Each PT_LOAD becomes a struct elf_segment in whole pages. Segments must ascend (as the ELF
 * specification demands) and may share a page at their edges, where the later one's file page
 * replaces the earlier's, as Linux maps them.
 *
 * Deviations from Linux: descending or overlapping segments are refused; headers that Linux finds
 * out to be impossible only while it maps them are -ENOEXEC.
 *
 * References: elf(5), the System V gABI chapter 5.
 */
#include "loader/elf.h"
#include "base/alloc.h"
#include "base/lx.h"

#include <errno.h>
#include <string.h>

#define ET_EXEC_ 2
#define ET_DYN_ 3
#define EM_X86_64_ 62
#define PT_LOAD_ 1u
#define PT_INTERP_ 3u
#define PT_GNU_STACK_ 0x6474e551u
#define PF_X_ 1u
#define PF_W_ 2u
#define PF_R_ 4u

/* Linux reads no more than this of program headers. */
#define PHDRS_MAX_BYTES 65536u

struct ehdr {
	uint8_t ident[16];
	uint16_t type, machine;
	uint32_t version;
	uint64_t entry, phoff, shoff;
	uint32_t flags;
	uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
_Static_assert(sizeof(struct ehdr) == 64, "Elf64_Ehdr");

struct phdr {
	uint32_t type, flags;
	uint64_t offset, vaddr, paddr, filesz, memsz, align;
};
_Static_assert(sizeof(struct phdr) == ELF_PHENT_SIZE, "Elf64_Phdr");

static int read_exact(const struct elf_source *src, void *buf, size_t size, uint64_t offset)
{
	ssize_t n = src->read(src->ctx, buf, size, offset);

	if (n < 0)
		return (int)n;
	return (size_t)n == size ? 0 : -ENOEXEC;
}

static int check_header(const struct ehdr *e)
{
	if (memcmp(e->ident, "\177ELF", 4) != 0)
		return -ENOEXEC;
	if ((e->type != ET_EXEC_ && e->type != ET_DYN_) || e->machine != EM_X86_64_)
		return -ENOEXEC;
	if (e->phentsize != ELF_PHENT_SIZE || e->phnum == 0 ||
	    (uint32_t)e->phnum * ELF_PHENT_SIZE > PHDRS_MAX_BYTES)
		return -ENOEXEC;
	if (e->phoff > (uint64_t)INT64_MAX - PHDRS_MAX_BYTES)
		return -ENOEXEC;
	return 0;
}

static uint32_t prot_of(uint32_t flags)
{
	return (flags & PF_R_ ? LX_PROT_READ : 0) | (flags & PF_W_ ? LX_PROT_WRITE : 0) |
	       (flags & PF_X_ ? LX_PROT_EXEC : 0);
}

/* Turns @p into pages. 0 or -ENOEXEC. */
static int plan_segment(const struct phdr *p, uint64_t limit, struct elf_segment *s)
{
	uint64_t in_page = p->vaddr % MOAT_PAGE_SIZE;
	uint64_t file_end = p->vaddr + p->filesz, mem_end;

	if (p->filesz > p->memsz || p->memsz > limit || p->vaddr > limit - p->memsz)
		return -ENOEXEC;
	mem_end = p->vaddr + p->memsz;
	/* The offset must be congruent to the address, and the file's part be addressable. */
	if (p->filesz &&
	    (p->offset % MOAT_PAGE_SIZE != in_page || p->offset > (uint64_t)INT64_MAX - p->filesz))
		return -ENOEXEC;
	*s = (struct elf_segment){.addr = page_down(p->vaddr), .prot = prot_of(p->flags)};
	if (p->filesz) {
		s->file_size = page_up(file_end) - s->addr;
		s->file_offset = p->offset - in_page;
		/* Linux clears the rest of the page only if the program may write there. */
		if (p->memsz > p->filesz && (p->flags & PF_W_)) {
			s->zero_addr = file_end;
			s->zero_size = page_up(file_end) - file_end;
		}
	}
	s->anon_addr = s->addr + s->file_size;
	if (page_up(mem_end) > s->anon_addr)
		s->anon_size = page_up(mem_end) - s->anon_addr;
	return 0;
}

static void note_ranges(const struct phdr *p, struct elf_image *img)
{
	uint64_t file_end = p->vaddr + p->filesz;

	if (p->flags & PF_X_) {
		img->start_code = MIN(img->start_code, p->vaddr);
		img->end_code = MAX(img->end_code, file_end);
	}
	img->start_data = MAX(img->start_data, p->vaddr);
	img->end_data = MAX(img->end_data, file_end);
	img->brk = MAX(img->brk, p->vaddr + p->memsz);
	/* Linux takes the largest alignment that is one. */
	if (p->align > img->align && (p->align & (p->align - 1)) == 0)
		img->align = p->align;
}

/* The last page of @s belongs to the next segment, whose file page replaces it. */
static void give_last_page(struct elf_segment *s)
{
	if (s->anon_size) {
		s->anon_size -= MOAT_PAGE_SIZE;
	} else if (s->file_size) {
		s->file_size -= MOAT_PAGE_SIZE;
		s->anon_addr -= MOAT_PAGE_SIZE;
		s->zero_size = 0;
	}
}

static int plan_load(const struct ehdr *e, const struct phdr *p, uint64_t min, uint64_t limit,
		     struct elf_image *img)
{
	struct elf_segment *s = &img->segments[img->segment_count];
	int r;

	if (p->memsz == 0)
		return 0;
	r = plan_segment(p, limit, s);
	if (r)
		return r;
	if (!img->dyn && s->addr < min)
		return -ENOEXEC;
	/* Ascending; img->brk is the end of the bytes so far. */
	if (img->segment_count && p->vaddr < img->brk)
		return -ENOEXEC;
	if (img->segment_count && s->addr < img->high)
		give_last_page(s - 1);
	note_ranges(p, img);
	if (p->offset <= e->phoff && e->phoff - p->offset < p->filesz)
		img->phdr = e->phoff - p->offset + p->vaddr;
	if (img->segment_count == 0)
		img->low = s->addr;
	img->high = s->anon_addr + s->anon_size;
	img->segment_count++;
	return 0;
}

static int plan_all(const struct ehdr *e, const struct phdr *ph, uint64_t min, uint64_t limit,
		    struct elf_image *img)
{
	int r;

	for (unsigned i = 0; i < e->phnum; i++) {
		const struct phdr *p = &ph[i];

		switch (p->type) {
		case PT_LOAD_:
			r = plan_load(e, p, min, limit, img);
			if (r)
				return r;
			break;
		case PT_INTERP_:
			if (img->interp_size)
				break; /* the first counts */
			if (p->filesz < 2 || p->filesz > LX_PATH_MAX || p->offset > INT64_MAX)
				return -ENOEXEC;
			img->interp_offset = p->offset;
			img->interp_size = p->filesz;
			break;
		case PT_GNU_STACK_:
			img->exec_stack = p->flags & PF_X_;
			break;
		default:
			break;
		}
	}
	return img->segment_count && e->entry < limit ? 0 : -ENOEXEC;
}

int elf_parse(const struct elf_source *src, uint64_t min, uint64_t limit, struct elf_image *out)
{
	struct ehdr e;
	struct phdr *ph;
	size_t size;
	int r;

	memset(out, 0, sizeof(*out));
	r = read_exact(src, &e, sizeof(e), 0);
	if (r == 0)
		r = check_header(&e);
	if (r)
		return r;
	size = (size_t)e.phnum * sizeof(*ph);
	ph = mem_zalloc(size);
	out->segments = mem_calloc(e.phnum, sizeof(*out->segments));
	if (!ph || !out->segments) {
		r = -ENOMEM;
		goto out;
	}
	r = read_exact(src, ph, size, e.phoff);
	if (r)
		goto out;
	out->dyn = e.type == ET_DYN_;
	out->entry = e.entry;
	out->phnum = e.phnum;
	out->align = MOAT_PAGE_SIZE;
	out->start_code = UINT64_MAX;
	r = plan_all(&e, ph, min, limit, out);
	if (out->start_code == UINT64_MAX)
		out->start_code = 0;
	/* An alignment that no bias can have does not count. */
	if (out->align > limit / 4)
		out->align = MOAT_PAGE_SIZE;
out:
	mem_free(ph);
	if (r)
		elf_image_free(out);
	return r;
}

int elf_read_interp(const struct elf_source *src, const struct elf_image *img, char *buf)
{
	int r = read_exact(src, buf, img->interp_size, img->interp_offset);

	if (r == -ENOEXEC)
		return -EIO; /* as Linux: the file is too short */
	if (r)
		return r;
	return buf[img->interp_size - 1] == 0 ? 0 : -ENOEXEC;
}

void elf_image_free(struct elf_image *img)
{
	mem_free(img->segments);
	img->segments = NULL;
	img->segment_count = 0;
}
