/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: stacks of a guest that is hostile in all that a walk reads (sentry/unwind_walk.h):
 * registers, stacks, ELF headers, tables, .eh_frame, and that changes it between two reads.
 *
 *	make m=fuzz fuzz-build && build/fuzz/fuzz/fuzz_unwind -max_len=4096 tests/fuzz/corpus/unwind
 *
 * An input is a head (struct head), a stack, and a module, which lie at fixed places of the guest.
 * What kind of module is said by the head's mode:
 *
 *   RAW    the bytes are the module, ELF header and all
 *   TABLE  the bytes are a CIE and a FDE; ELF header, program headers, and a table of one entry
 *          that leads to the FDE are put before them, and lengths and links are put right
 *   NONE   the same without a table: the section is gone through
 *
 * With FLIP each page is another one when it is read again: what was checked must be what is used.
 *
 * What cfi_take accepts must be accepted again, and be the same, when it is read from what cfi_take
 * has written: that is what libunwind gets.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/unwind_cfi.h"
#include "sentry/unwind_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define MODULE ((uint64_t)0x400000)
#define MODULE_SIZE 32768u
#define STACK ((uint64_t)0x7ffd0000)
#define STACK_SIZE 8192u
#define FRAMES 4096u /* of a module, where .eh_frame begins */

enum { RAW, TABLE, NONE, MODES };
#define FLIP 0x80u
#define REG_COUNT 16u

struct head {
	uint8_t mode;
	uint8_t reg_kind[REG_COUNT]; /* what a register points to */
	uint8_t reg[REG_COUNT][2];
	uint8_t rip[2];
	uint8_t cie_size[2], stack_size[2];
};

struct world {
	uint8_t mode;
	unsigned reads;
	uint8_t module[MODULE_SIZE], stack[STACK_SIZE];
	uint64_t eh_frame, eh_frame_size;
	struct unwind_stack *s;
};

static unsigned number(const uint8_t b[2])
{
	return b[0] | (unsigned)b[1] << 8;
}

static bool world_page(void *ctx, uint8_t *to, uint64_t addr)
{
	struct world *w = ctx;
	const uint8_t *from = NULL;

	BUG_ON(addr % MOAT_PAGE_SIZE);
	/* Bounded, whatever the guest says. */
	BUG_ON(++w->reads > 4096);
	if (addr >= MODULE && addr < MODULE + MODULE_SIZE)
		from = w->module + (addr - MODULE);
	else if (addr >= STACK && addr < STACK + STACK_SIZE)
		from = w->stack + (addr - STACK);
	if (!from)
		return false;
	memcpy(to, from, MOAT_PAGE_SIZE);
	if (w->mode & FLIP) {
		for (size_t i = w->reads % 7; w->reads % 3 == 0 && i < MOAT_PAGE_SIZE; i += 11)
			to[i] ^= (uint8_t)w->reads;
	}
	return true;
}

static int world_module(void *ctx, uint64_t addr)
{
	struct world *w = ctx;

	if (addr < MODULE || addr >= MODULE + MODULE_SIZE)
		return -1;
	if (w->s->module_count == 0)
		w->s->modules[w->s->module_count++] = (struct unwind_module){
			.start = MODULE, .end = MODULE + MODULE_SIZE, .base = MODULE, .name = "m"};
	return 0;
}

static bool world_eh_frame(void *ctx, int module, uint64_t ip, uint64_t *addr, uint64_t *size)
{
	struct world *w = ctx;

	BUG_ON(module != 0 || ip < MODULE || ip >= MODULE + MODULE_SIZE);
	*addr = w->eh_frame;
	*size = w->eh_frame_size;
	return w->eh_frame != 0;
}

/* A pointer of the guest's: into its module, its stack, or anywhere. */
static uint64_t pointer(uint8_t kind, const uint8_t b[2])
{
	switch (kind % 4) {
	case 0:
		return STACK + number(b) % STACK_SIZE;
	case 1:
		return MODULE + number(b) % MODULE_SIZE;
	case 2:
		return number(b);
	default:
		return ~(uint64_t)0 / 251 * kind + number(b);
	}
}

static void put32(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, sizeof(v));
}

/* An ELF file with a CIE of @cie_size bytes (without length and id) and a FDE of the rest, for all
 * of the module. */
static void make_module(struct world *w, const uint8_t *p, size_t size, size_t cie_size)
{
	Elf64_Ehdr *eh = (Elf64_Ehdr *)w->module;
	Elf64_Phdr *ph = (Elf64_Phdr *)(w->module + sizeof(*eh));
	uint8_t *hdr = w->module + 1024, *at = w->module + FRAMES;
	size_t fde_size;

	size = MIN(size, (size_t)MODULE_SIZE - FRAMES - 64);
	cie_size = MIN(cie_size, size);
	fde_size = size - cie_size;
	memcpy(eh->e_ident, ELFMAG, SELFMAG);
	eh->e_phoff = sizeof(*eh);
	eh->e_phentsize = sizeof(*ph);
	eh->e_phnum = 2;
	ph[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = MODULE};
	ph[1] = (Elf64_Phdr){.p_type = PT_GNU_EH_FRAME, .p_vaddr = MODULE + 1024};
	memcpy(hdr, (const uint8_t[]){1, 0x1b, 0x03, 0x3b}, 4);
	put32(hdr + 8, (w->mode & ~FLIP) == TABLE);
	put32(hdr + 12, (uint32_t)-1024);
	put32(hdr + 16, (uint32_t)(FRAMES - 1024 + 8 + cie_size));

	put32(at, (uint32_t)cie_size + 4);
	put32(at + 4, 0);
	memcpy(at + 8, p, cie_size);
	at += 8 + cie_size;
	put32(at, (uint32_t)fde_size + 4);
	put32(at + 4, (uint32_t)cie_size + 8 + 4);
	memcpy(at + 8, p + cie_size, fde_size);
	w->eh_frame = MODULE + FRAMES;
	w->eh_frame_size = size + 16;
}

/* ---- what is accepted stays so ---- */

static bool own_read(void *ctx, void *buf, uint64_t addr, size_t size)
{
	const struct cfi_own *own = ctx;

	if (size > own->size || addr > own->size - size)
		return false;
	memcpy(buf, own->bytes + addr, size);
	return true;
}

static bool module_read(void *ctx, void *buf, uint64_t addr, size_t size)
{
	const struct world *w = ctx;

	if (addr < MODULE || size > MODULE_SIZE || addr - MODULE > MODULE_SIZE - size)
		return false;
	memcpy(buf, w->module + (addr - MODULE), size);
	return true;
}

static void check_again(struct world *w, uint64_t fde, uint64_t ip)
{
	static struct cfi_own one, two;
	const struct cfi_source first = {module_read, w}, second = {own_read, &one};

	if (!cfi_take(&first, fde, ip, &one))
		return;
	BUG_ON(one.size > sizeof(one.bytes) - 8 || one.fde >= one.size);
	BUG_ON(!cfi_take(&second, one.fde, ip, &two));
	BUG_ON(one.size != two.size || one.fde != two.fde ||
	       memcmp(one.bytes, two.bytes, one.size) != 0);
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
	(void)unwind_load();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct unwind_source src = {
		.page = world_page, .module = world_module, .eh_frame = world_eh_frame};
	uint64_t *const regs[REG_COUNT] = {
		&src.regs.rax, &src.regs.rdx, &src.regs.rcx, &src.regs.rbx,
		&src.regs.rsi, &src.regs.rdi, &src.regs.rbp, &src.regs.rsp,
		&src.regs.r8,  &src.regs.r9,  &src.regs.r10, &src.regs.r11,
		&src.regs.r12, &src.regs.r13, &src.regs.r14, &src.regs.r15,
	};
	struct world *w;
	struct head h;
	size_t n;

	if (size < sizeof(h))
		return 0;
	memcpy(&h, data, sizeof(h));
	data += sizeof(h);
	size -= sizeof(h);
	w = calloc(1, sizeof(*w));
	BUG_ON(!w);
	w->s = calloc(1, sizeof(*w->s));
	BUG_ON(!w->s);
	w->mode = h.mode;
	src.ctx = w;
	for (unsigned i = 0; i < REG_COUNT; i++)
		*regs[i] = pointer(h.reg_kind[i], h.reg[i]);
	src.regs.rip = MODULE + number(h.rip) % MODULE_SIZE;

	n = MIN(MIN((size_t)number(h.stack_size), size), (size_t)STACK_SIZE);
	memcpy(w->stack, data, n);
	data += n;
	size -= n;
	if ((h.mode & ~FLIP) % MODES == RAW) {
		memcpy(w->module, data, MIN(size, (size_t)MODULE_SIZE));
		w->eh_frame = MODULE + number(h.cie_size);
		w->eh_frame_size = MODULE_SIZE;
	} else {
		w->mode = (uint8_t)((h.mode & FLIP) | (h.mode & ~FLIP) % MODES);
		make_module(w, data, size, number(h.cie_size));
		check_again(w, MODULE + FRAMES + 8 + MIN((size_t)number(h.cie_size), size),
			    src.regs.rip);
	}
	BUG_ON(!unwind_walk(&src, w->s));
	BUG_ON(w->s->frame_count == 0 || w->s->frame_count > UNWIND_FRAMES_MAX);
	BUG_ON(w->s->frames[0].ip != src.regs.rip);
	for (unsigned i = 0; i < w->s->frame_count; i++)
		BUG_ON(w->s->frames[i].module >= (int)w->s->module_count);
	free(w->s);
	free(w);
	return 0;
}
