/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions from the symbol tables of an ELF file, read as a file and not from the
 * guest's memory, which has no section headers.
 *
 * Theory of operation: the program headers turn a place in the file into the address that symbols
 * are written in; then .symtab is looked through once for all places, and .dynsym for those that
 * are left. What holds a place with its size wins, then what has no size and is near. The file is
 * whatever the guest has mapped: each number is checked, and the bytes read are bounded, so a long
 * table is looked through only in its first megabytes.
 *
 * References: elf(5).
 */
#include <elf.h>
#include <string.h>

#include "base/alloc.h"
#include "sentry/unwind.h"
#include "vfs/vfs.h"

#define PHDRS_MAX 128u
#define SECTIONS_MAX 2048u
#define TABLE_MAX ((uint64_t)8 << 20)
#define NEAR 4096u
#define CHUNK ((size_t)16 << 10)

struct best {
	uint64_t addr; /* what is looked for */
	uint64_t value;
	uint32_t name; /* in the string table; 0: nothing yet */
	bool inside;
	bool done;
};

static bool read_at(struct file *f, void *buf, size_t size, uint64_t off)
{
	return off <= (uint64_t)INT64_MAX - size &&
	       vfs_read_kernel(f, buf, size, (int64_t)off) == (ssize_t)size;
}

/* The address that the byte at @off of the file is linked for. */
static bool address_of(const Elf64_Phdr *ph, unsigned count, uint64_t off, uint64_t *addr)
{
	for (unsigned i = 0; i < count; i++) {
		if (ph[i].p_type == PT_LOAD && off >= ph[i].p_offset &&
		    off - ph[i].p_offset < ph[i].p_filesz) {
			*addr = ph[i].p_vaddr + (off - ph[i].p_offset);
			return true;
		}
	}
	return false;
}

static void consider(struct best *b, unsigned count, const Elf64_Sym *s)
{
	const unsigned type = ELF64_ST_TYPE(s->st_info);

	if (s->st_shndx == SHN_UNDEF || !s->st_name ||
	    (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
		return;
	for (unsigned i = 0; i < count; i++) {
		bool inside = b[i].addr - s->st_value < s->st_size;

		/* Without a size, as in assembly: what is far away is another, without a name. */
		bool near = !s->st_size && b[i].addr - s->st_value < NEAR;

		if (b[i].done || (!inside && !near) || (b[i].inside && !inside))
			continue;
		if (b[i].name && inside == b[i].inside && s->st_value <= b[i].value)
			continue;
		b[i].value = s->st_value;
		b[i].name = s->st_name;
		b[i].inside = inside;
	}
}

static void search_table(struct file *f, const Elf64_Shdr *table, const Elf64_Shdr *strings,
			 struct best *b, struct symbol_query *q, unsigned count)
{
	uint64_t left = MIN(table->sh_size, TABLE_MAX), off = table->sh_offset;
	Elf64_Sym *chunk = mem_zalloc(CHUNK);

	while (chunk && left >= sizeof(*chunk)) {
		size_t size = MIN(left, CHUNK / sizeof(*chunk) * sizeof(*chunk));

		size -= size % sizeof(*chunk);
		if (!read_at(f, chunk, size, off))
			break;
		for (size_t i = 0; i < size / sizeof(*chunk); i++)
			consider(b, count, &chunk[i]);
		off += size;
		left -= size;
	}
	mem_free(chunk);
	for (unsigned i = 0; i < count; i++) {
		ssize_t n;

		if (!b[i].name || b[i].done || b[i].name >= strings->sh_size ||
		    strings->sh_offset > (uint64_t)INT64_MAX - strings->sh_size)
			continue;
		n = vfs_read_kernel(f, q[i].name,
				    MIN(sizeof(q[i].name) - 1, strings->sh_size - b[i].name),
				    (int64_t)(strings->sh_offset + b[i].name));
		q[i].name[n > 0 ? n : 0] = '\0';
		q[i].symbol_offset = b[i].addr - b[i].value;
		b[i].done = b[i].inside && q[i].name[0];
	}
}

static void search_sections(struct file *f, const Elf64_Ehdr *eh, struct best *b,
			    struct symbol_query *q, unsigned count)
{
	const size_t size = eh->e_shnum * sizeof(Elf64_Shdr);
	Elf64_Shdr *sh = mem_zalloc(size + !size);

	if (sh && read_at(f, sh, size, eh->e_shoff)) {
		static const uint32_t types[] = {SHT_SYMTAB, SHT_DYNSYM};

		for (unsigned k = 0; k < ARRAY_SIZE(types); k++) {
			for (unsigned i = 0; i < eh->e_shnum; i++) {
				if (sh[i].sh_type == types[k] && sh[i].sh_link < eh->e_shnum)
					search_table(f, &sh[i], &sh[sh[i].sh_link], b, q, count);
			}
		}
	}
	mem_free(sh);
}

/* Reads and checks the header, and then the program headers. Free with mem_free; NULL: no such
 * file. */
static Elf64_Phdr *read_headers(struct file *f, Elf64_Ehdr *eh)
{
	Elf64_Phdr *ph;

	if (!read_at(f, eh, sizeof(*eh), 0) || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_phentsize != sizeof(*ph) ||
	    eh->e_phnum == 0 || eh->e_phnum > PHDRS_MAX || eh->e_shentsize != sizeof(Elf64_Shdr) ||
	    eh->e_shnum > SECTIONS_MAX)
		return NULL;
	ph = mem_zalloc(eh->e_phnum * sizeof(*ph));
	if (ph && !read_at(f, ph, eh->e_phnum * sizeof(*ph), eh->e_phoff)) {
		mem_free(ph);
		ph = NULL;
	}
	return ph;
}

bool symbols_section(struct file *f, const char *name, uint64_t file_offset, uint64_t *addr,
		     uint64_t *size)
{
	Elf64_Ehdr eh;
	Elf64_Phdr *ph = read_headers(f, &eh);
	uint64_t here;
	bool found = false;

	if (ph && address_of(ph, eh.e_phnum, file_offset, &here) && eh.e_shstrndx < eh.e_shnum) {
		const size_t bytes = eh.e_shnum * sizeof(Elf64_Shdr);
		Elf64_Shdr *sh = mem_zalloc(bytes + !bytes);

		if (sh && read_at(f, sh, bytes, eh.e_shoff)) {
			for (unsigned i = 0; i < eh.e_shnum && !found; i++) {
				char text[16] = "";

				found = strlen(name) < sizeof(text) &&
					read_at(f, text, strlen(name) + 1,
						sh[eh.e_shstrndx].sh_offset + sh[i].sh_name) &&
					memcmp(text, name, strlen(name) + 1) == 0;
				*addr = sh[i].sh_addr - here;
				*size = sh[i].sh_size;
			}
		}
		mem_free(sh);
	}
	mem_free(ph);
	return found;
}

void symbols_find(struct file *f, struct symbol_query *q, unsigned count)
{
	struct best best[UNWIND_FRAMES_MAX] = {{0}};
	Elf64_Phdr *ph;
	Elf64_Ehdr eh;

	for (unsigned i = 0; i < count; i++)
		q[i].name[0] = '\0';
	ph = count <= UNWIND_FRAMES_MAX ? read_headers(f, &eh) : NULL;
	if (!ph)
		return;
	for (unsigned i = 0; i < count; i++)
		best[i].done = !address_of(ph, eh.e_phnum, q[i].file_offset, &best[i].addr);
	search_sections(f, &eh, best, q, count);
	mem_free(ph);
}
