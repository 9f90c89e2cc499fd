/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest stacks by libunwind over the sentry's copy functions. See sentry/unwind.h.
 *
 * Theory of operation: libunwind's remote interface asks for memory, registers and unwind tables
 * through callbacks. Memory comes from copy_in, a page at a time, as libunwind asks for single
 * bytes; the unwind tables are the .eh_frame_hdr of the mapped ELF files, found through the program
 * headers in guest memory. Static programs mostly have none: then .eh_frame itself, which the
 * file's section headers tell of, is gone through for the one entry, and a table of that is shown.
 *
 * Unwind tables are programs: those of DWARF expressions have loops. Each step of one fetches its
 * instruction through our callback, so a budget of fetches ends them all.
 *
 * References: libunwind-dynamic(3), unw_create_addr_space(3); the LSB's description of
 * .eh_frame_hdr.
 */
#include "sentry/unwind.h"
#include "sentry/mm.h"
#include "sentry/task.h"

#include <dlfcn.h>
#include <elf.h>
#include <libunwind.h>
#include <string.h>
#include "base/err.h"

/* Reads for one stack; a frame takes some hundred, and thousands where there is no table. */
#define FETCHES_MAX 120000u
/* Where no guest's memory is: the table of one entry that stands for a missing one. */
#define OWN_TABLE ((uint64_t)1 << 63)
#define DW_EH_PE_PCREL_SDATA4 0x1b
/* Pages that a stack may make us copy from the guest. */
#define PAGES_MAX 2048u
#define CACHE_PAGES 8u

/* libunwind's own search over such a table; exported, though no header of it declares it. */
extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t as, unw_word_t ip,
					      unw_dyn_info_t *di, unw_proc_info_t *pi,
					      int need_unwind_info, void *arg);

/* libunwind. It, and the two libraries that it brings along, would be a fifth of the start of each
 * run, few of which ask for stacks. */
static struct {
	__typeof__(unw_create_addr_space) *create_addr_space;
	__typeof__(unw_destroy_addr_space) *destroy_addr_space;
	__typeof__(unw_init_remote) *init_remote;
	__typeof__(unw_get_reg) *get_reg;
	__typeof__(unw_step) *step;
	__typeof__(UNW_OBJ(dwarf_search_unwind_table)) *search;
	bool loaded, tried;
} g_unw;

#define NAME_(x) #x
#define NAME(x) NAME_(x)
#define UNW_FIND(lib, member, fn) \
	((g_unw.member = (__typeof__(g_unw.member))dlsym(lib, NAME(fn))) != NULL)

static void prime(void);

bool unwind_load(void)
{
	void *lib;

	if (g_unw.tried)
		return g_unw.loaded;
	g_unw.tried = true;
	lib = dlopen("libunwind-x86_64.so.8", RTLD_NOW | RTLD_LOCAL);
	g_unw.loaded = lib && UNW_FIND(lib, destroy_addr_space, unw_destroy_addr_space) &&
		       UNW_FIND(lib, init_remote, unw_init_remote) &&
		       UNW_FIND(lib, get_reg, unw_get_reg) && UNW_FIND(lib, step, unw_step) &&
		       UNW_FIND(lib, search, UNW_OBJ(dwarf_search_unwind_table)) &&
		       UNW_FIND(lib, create_addr_space, unw_create_addr_space);
	if (g_unw.loaded)
		prime();
	else
		log_warn("no stacks of programs: libunwind-x86_64.so.8 cannot be loaded (install "
			 "libunwind8)");
	return g_unw.loaded;
}

/* ---- one walk ---- */

struct walk {
	struct task *t;
	struct unwind_stack *s;
	unsigned fetches, pages;
	struct {
		uint64_t addr; /* 0: empty */
		uint8_t bytes[MOAT_PAGE_SIZE];
	} cache[CACHE_PAGES];
	unsigned next; /* the page to be replaced */
	struct {
		int32_t start, fde;
	} own; /* at OWN_TABLE */
};

static const uint8_t *walk_page(struct walk *w, uint64_t page)
{
	unsigned n = w->next;

	for (unsigned i = 0; i < CACHE_PAGES; i++) {
		if (w->cache[i].addr == page)
			return w->cache[i].bytes;
	}
	if (w->pages >= PAGES_MAX)
		return NULL;
	w->pages++;
	w->cache[n].addr = 0;
	if (copy_in(w->t, w->cache[n].bytes, GADDR(page), MOAT_PAGE_SIZE))
		return NULL;
	w->cache[n].addr = page;
	w->next = (n + 1) % CACHE_PAGES;
	return w->cache[n].bytes;
}

static bool walk_read(struct walk *w, void *buf, uint64_t addr, size_t size)
{
	uint8_t *to = buf;

	if (addr >= OWN_TABLE) {
		if (addr - OWN_TABLE > sizeof(w->own) - size || size > sizeof(w->own))
			return false;
		memcpy(buf, (const uint8_t *)&w->own + (addr - OWN_TABLE), size);
		return true;
	}
	while (size > 0) {
		const uint64_t page = page_down(addr);
		const size_t n = MIN(size, (size_t)(page + MOAT_PAGE_SIZE - addr));
		const uint8_t *from;

		if (page == 0 || w->fetches >= FETCHES_MAX)
			return false;
		w->fetches++;
		from = walk_page(w, page);
		if (!from)
			return false;
		memcpy(to, from + (addr - page), n);
		to += n;
		addr += n;
		size -= n;
	}
	return true;
}

/* The module that holds @addr: its index, or -1. */
static int module_find(struct walk *w, uint64_t addr)
{
	struct unwind_stack *s = w->s;
	struct unwind_module *m = &s->modules[s->module_count];
	struct vma *v, *o;
	int found = -1;

	for (unsigned i = 0; i < s->module_count; i++) {
		if (addr >= s->modules[i].start && addr < s->modules[i].end)
			return (int)i;
	}
	if (s->module_count == UNWIND_MODULES_MAX || !w->t->mm)
		return -1;
	fmutex_lock(&w->t->mm->lock);
	v = mm_find(w->t->mm, addr);
	if (v && v->start <= addr && v->file) {
		m->start = v->start;
		m->end = v->end;
		m->base = v->start;
		m->offset = v->offset;
		vma_foreach (o, w->t->mm) {
			if (o->file && o->file->inode == v->file->inode && o->offset == 0 &&
			    o->start <= addr)
				m->base = o->start;
		}
		if (path_text(&v->file->path, NULL, m->name, sizeof(m->name)) < 0)
			strcpy(m->name, "?");
		m->file = file_get(v->file);
		found = (int)s->module_count++;
	}
	fmutex_unlock(&w->t->mm->lock);
	return found;
}

/* Fills the table description from PT_GNU_EH_FRAME. */
static bool module_unwind_info(struct walk *w, const struct unwind_module *m, unw_dyn_info_t *di)
{
	struct {
		uint8_t version, eh_ptr_enc, count_enc, table_enc;
		int32_t eh_frame;
		uint32_t count;
	} hdr;
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	uint64_t load = 0, eh_hdr = 0;
	bool have_load = false;

	if (!walk_read(w, &eh, m->base, sizeof(eh)) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh.e_phentsize != sizeof(ph) || eh.e_phnum > 128)
		return false;
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		if (!walk_read(w, &ph, m->base + eh.e_phoff + i * sizeof(ph), sizeof(ph)))
			return false;
		if (ph.p_type == PT_LOAD && !have_load) {
			load = m->base - (ph.p_vaddr - ph.p_offset);
			have_load = true;
		}
		if (ph.p_type == PT_GNU_EH_FRAME)
			eh_hdr = ph.p_vaddr;
	}
	if (!have_load || !eh_hdr)
		return false;
	eh_hdr += load;
	/* Only the usual encodings: a 4-byte count, a table of 4-byte offsets relative to the
	 * header. */
	if (!walk_read(w, &hdr, eh_hdr, sizeof(hdr)) || hdr.version != 1 || hdr.count_enc != 0x03 ||
	    hdr.table_enc != 0x3b)
		return false;
	memset(di, 0, sizeof(*di));
	di->start_ip = m->start;
	di->end_ip = m->end;
	di->format = UNW_INFO_FORMAT_REMOTE_TABLE;
	di->u.rti.segbase = eh_hdr;
	di->u.rti.table_data = eh_hdr + sizeof(hdr);
	di->u.rti.table_len = (uint64_t)hdr.count * 8 / sizeof(unw_word_t);
	return true;
}

/* ---- without a table ---- */

/* The encoding of addresses in the FDEs of the CIE at @addr; 0: unknown. */
static uint8_t cie_encoding(struct walk *w, uint64_t addr)
{
	uint8_t b[64];
	size_t at = 9, aug = 9;

	if (!walk_read(w, b, addr, sizeof(b)) || b[8] != 1 || b[9] != 'z')
		return 0;
	while (at < 20 && b[at])
		at++;
	at++;
	/* Three numbers (code and data alignment, return register) and the augmentation's size. */
	for (unsigned i = 0; i < 4 && at < 40; i++) {
		while (at < 40 && b[at] & 0x80)
			at++;
		at++;
	}
	for (aug++; b[aug] && at < 48; aug++) {
		if (b[aug] == 'R')
			return b[at];
		if (b[aug] == 'L')
			at++;
		else if (b[aug] == 'P')
			at += 1 + ((b[at] & 0x0f) == 0x0b || (b[at] & 0x0f) == 0x03 ? 4 : 8);
		else if (b[aug] != 'S' && b[aug] != 'B')
			return 0;
	}
	return 0;
}

/* Goes through the .eh_frame at @addr for the entry that holds @ip. */
static bool scan_eh_frame(struct walk *w, uint64_t addr, uint64_t size, uint64_t ip,
			  uint64_t segbase)
{
	const uint64_t end = addr + size;
	uint64_t known = 0;
	uint8_t encoding = 0;

	while (addr < end && end - addr >= 16) {
		struct {
			uint32_t size, cie;
			int32_t start;
			uint32_t length;
		} e;
		uint64_t cie, start;

		if (!walk_read(w, &e, addr, sizeof(e)) || e.size < 12 || e.size >= 0xfffffff0)
			return false;
		cie = addr + 4 - e.cie;
		if (e.cie && cie != known) {
			encoding = cie_encoding(w, cie);
			known = cie;
		}
		start = addr + 8 + (uint64_t)(int64_t)e.start;
		if (e.cie && encoding == DW_EH_PE_PCREL_SDATA4 && ip - start < e.length) {
			w->own.start = (int32_t)(start - segbase);
			w->own.fde = (int32_t)(addr - segbase);
			return true;
		}
		addr += 4 + (uint64_t)e.size;
	}
	return false;
}

static bool module_without_table(struct walk *w, const struct unwind_module *m, uint64_t ip,
				 unw_dyn_info_t *di)
{
	uint64_t addr, size;

	/* Where the section lies is told as the file is linked; it may be loaded elsewhere. */
	if (!symbols_section(m->file, ".eh_frame", ip - m->start + m->offset, &addr, &size) ||
	    !scan_eh_frame(w, ip + addr, size, ip, m->base))
		return false;
	memset(di, 0, sizeof(*di));
	di->start_ip = m->start;
	di->end_ip = m->end;
	di->format = UNW_INFO_FORMAT_REMOTE_TABLE;
	di->u.rti.segbase = m->base;
	di->u.rti.table_data = OWN_TABLE;
	di->u.rti.table_len = sizeof(w->own) / sizeof(unw_word_t);
	return true;
}

/* ---- libunwind's callbacks ---- */

static int acc_find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need,
			      void *arg)
{
	struct walk *w = arg;
	unw_dyn_info_t di;
	int m = module_find(w, ip);

	if (m < 0 || (!module_unwind_info(w, &w->s->modules[m], &di) &&
		      !module_without_table(w, &w->s->modules[m], ip, &di)))
		return -UNW_ENOINFO;
	return g_unw.search(as, ip, &di, pi, need, arg);
}

static void acc_put_unwind_info(unw_addr_space_t as UNUSED, unw_proc_info_t *pi UNUSED,
				void *arg UNUSED)
{
}

static int acc_dyn_list(unw_addr_space_t as UNUSED, unw_word_t *list UNUSED, void *arg UNUSED)
{
	return -UNW_ENOINFO;
}

static int acc_mem(unw_addr_space_t as UNUSED, unw_word_t addr, unw_word_t *val, int write,
		   void *arg)
{
	return write || !walk_read(arg, val, addr, sizeof(*val)) ? -UNW_EINVAL : 0;
}

static int acc_reg(unw_addr_space_t as UNUSED, unw_regnum_t reg, unw_word_t *val, int write,
		   void *arg)
{
	static const struct pf_regs none;
	const struct walk *w = arg;
	const struct pf_regs *r = w->t ? &w->t->regs : &none;
	const uint64_t by_number[] = {
		[UNW_X86_64_RAX] = r->rax, [UNW_X86_64_RDX] = r->rdx, [UNW_X86_64_RCX] = r->rcx,
		[UNW_X86_64_RBX] = r->rbx, [UNW_X86_64_RSI] = r->rsi, [UNW_X86_64_RDI] = r->rdi,
		[UNW_X86_64_RBP] = r->rbp, [UNW_X86_64_RSP] = r->rsp, [UNW_X86_64_R8] = r->r8,
		[UNW_X86_64_R9] = r->r9,   [UNW_X86_64_R10] = r->r10, [UNW_X86_64_R11] = r->r11,
		[UNW_X86_64_R12] = r->r12, [UNW_X86_64_R13] = r->r13, [UNW_X86_64_R14] = r->r14,
		[UNW_X86_64_R15] = r->r15, [UNW_X86_64_RIP] = r->rip,
	};

	if (write || reg < 0 || (size_t)reg >= ARRAY_SIZE(by_number))
		return -UNW_EBADREG;
	*val = by_number[reg];
	return 0;
}

static int acc_fpreg(unw_addr_space_t as UNUSED, unw_regnum_t reg UNUSED, unw_fpreg_t *val UNUSED,
		     int write UNUSED, void *arg UNUSED)
{
	return -UNW_EBADREG;
}

static int acc_resume(unw_addr_space_t as UNUSED, unw_cursor_t *c UNUSED, void *arg UNUSED)
{
	return -UNW_EINVAL;
}

static int acc_name(unw_addr_space_t as UNUSED, unw_word_t addr UNUSED, char *buf UNUSED,
		    size_t size UNUSED, unw_word_t *off UNUSED, void *arg UNUSED)
{
	return -UNW_ENOINFO;
}

static unw_accessors_t g_accessors = {
	.find_proc_info = acc_find_proc_info,
	.put_unwind_info = acc_put_unwind_info,
	.get_dyn_info_list_addr = acc_dyn_list,
	.access_mem = acc_mem,
	.access_reg = acc_reg,
	.access_fpreg = acc_fpreg,
	.resume = acc_resume,
	.get_proc_name = acc_name,
};

/* What libunwind does once (a pipe of its own) it shall do now: later the sentry may not. */
static void prime(void)
{
	struct walk *w = mem_zalloc(sizeof(*w));
	unw_addr_space_t as = w ? g_unw.create_addr_space(&g_accessors, 0) : NULL;
	unw_cursor_t c;

	if (as) {
		(void)g_unw.init_remote(&c, as, w);
		g_unw.destroy_addr_space(as);
	}
	mem_free(w);
}

/* ---- the stack ---- */

static void add_frame(struct walk *w, uint64_t ip)
{
	struct unwind_stack *s = w->s;
	struct unwind_frame *f = &s->frames[s->frame_count];
	/* What was called last may be the last thing of its function: the call is before it. */
	int m = module_find(w, s->frame_count ? ip - 1 : ip);

	*f = (struct unwind_frame){.ip = ip, .module = m};
	if (m >= 0)
		f->offset = ip - s->modules[m].base;
	s->frame_count++;
}

static void walk_frames(struct walk *w)
{
	struct unwind_stack *s = w->s;
	unw_addr_space_t as;
	unw_cursor_t c;
	int r = 1;

	as = g_unw.loaded ? g_unw.create_addr_space(&g_accessors, 0) : NULL;
	if (!as || g_unw.init_remote(&c, as, w) != 0) {
		add_frame(w, w->t->regs.rip);
	} else {
		while (s->frame_count < UNWIND_FRAMES_MAX && r > 0) {
			unw_word_t ip;

			if (g_unw.get_reg(&c, UNW_REG_IP, &ip) || !ip)
				break;
			add_frame(w, ip);
			r = g_unw.step(&c);
		}
		s->whole = r == 0 || s->frame_count < UNWIND_FRAMES_MAX;
	}
	if (as)
		g_unw.destroy_addr_space(as);
}

static const char *keep_text(struct unwind_stack *s, const char *text)
{
	size_t size = strlen(text) + 1;
	char *to = s->text + s->text_used;

	if (size > sizeof(s->text) - s->text_used)
		return NULL;
	memcpy(to, text, size);
	s->text_used += size;
	return to;
}

static void name_frames(struct unwind_stack *s, int module)
{
	struct unwind_module *m = &s->modules[module];
	struct symbol_query *q = mem_calloc(UNWIND_FRAMES_MAX, sizeof(*q));
	unsigned n = 0;

	if (!q)
		return;
	for (unsigned i = 0; i < s->frame_count; i++) {
		if (s->frames[i].module == module)
			q[n++].file_offset = s->frames[i].ip - (i > 0) - m->start + m->offset;
	}
	symbols_find(m->file, q, n);
	n = 0;
	for (unsigned i = 0; i < s->frame_count; i++) {
		struct unwind_frame *f = &s->frames[i];

		if (f->module != module)
			continue;
		if (q[n].name[0]) {
			f->symbol = keep_text(s, q[n].name);
			f->symbol_offset = q[n].symbol_offset + (i > 0);
		}
		n++;
	}
	mem_free(q);
}

struct unwind_stack *unwind_take(struct task *t, bool symbols)
{
	struct walk *w = mem_zalloc(sizeof(*w));
	struct unwind_stack *s = mem_zalloc(sizeof(*s));

	if (!w || !s || task_need_regs(t) < 0) {
		mem_free(w);
		mem_free(s);
		return NULL;
	}
	w->t = t;
	w->s = s;
	walk_frames(w);
	mem_free(w);
	for (unsigned i = 0; symbols && i < s->module_count; i++)
		name_frames(s, (int)i);
	return s;
}

void unwind_free(struct unwind_stack *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->module_count; i++)
		file_put(s->modules[i].file);
	mem_free(s);
}
