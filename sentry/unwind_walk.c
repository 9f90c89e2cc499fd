/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over a guest's stack by libunwind. See sentry/unwind_walk.h.
 *
 * Theory of operation: libunwind's remote interface asks for memory, registers and unwind tables
 * through callbacks. Memory comes a page at a time, as libunwind asks for single bytes. The entry
 * of .eh_frame for an address is found here: by the .eh_frame_hdr of the mapped ELF file, which the
 * program headers in guest memory lead to. Static programs mostly have none: then .eh_frame itself,
 * which the file's section headers tell of, is gone through. libunwind is shown a table of that one
 * entry, and the entry as sentry/unwind_cfi.h has made it anew, both in memory of ours: what it
 * reads of the guest's is data.
 *
 * All reads have a budget. libunwind must not keep what it has worked out (UNW_CACHE_NONE): it
 * would hold a lock, with all signals blocked, while our callbacks may leave the host thread.
 *
 * References: libunwind-dynamic(3), unw_create_addr_space(3); the LSB's description of
 * .eh_frame_hdr.
 */
#include "sentry/unwind_walk.h"
#include "sentry/unwind_cfi.h"

#include <dlfcn.h>
#include <elf.h>
#include <libunwind.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "platform/platform.h"

/* Reads for one stack; a frame takes some hundred, and thousands where there is no table. */
#define FETCHES_MAX 120000u
/* Where no guest's memory is: what libunwind is shown of ours. */
#define OWN ((uint64_t)1 << 63)
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
	__typeof__(unw_set_caching_policy) *set_caching_policy;
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
		       UNW_FIND(lib, set_caching_policy, unw_set_caching_policy) &&
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
	const struct unwind_source *src;
	struct unwind_stack *s;
	unsigned fetches, pages;
	struct {
		uint64_t addr; /* 0: empty */
		uint8_t bytes[MOAT_PAGE_SIZE];
	} cache[CACHE_PAGES];
	unsigned next; /* the page to be replaced */
	struct {
		int32_t start, fde; /* a table of one entry */
		struct cfi_own cfi;
	} own; /* at OWN */
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
	if (!w->src->page(w->src->ctx, w->cache[n].bytes, page))
		return NULL;
	w->cache[n].addr = page;
	w->next = (n + 1) % CACHE_PAGES;
	return w->cache[n].bytes;
}

static bool walk_read(struct walk *w, void *buf, uint64_t addr, size_t size)
{
	uint8_t *to = buf;

	if (addr >= OWN) {
		if (w->fetches++ >= FETCHES_MAX)
			return false;
		if (size > sizeof(w->own) || addr - OWN > sizeof(w->own) - size)
			return false;
		memcpy(buf, (const uint8_t *)&w->own + (addr - OWN), size);
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

static bool source_read(void *ctx, void *buf, uint64_t addr, size_t size)
{
	/* Entries are the guest's, never ours. */
	return addr < OWN && walk_read(ctx, buf, addr, size);
}

/* ---- the entry for an address ---- */

/* Finds .eh_frame_hdr by PT_GNU_EH_FRAME. */
static bool find_header(struct walk *w, uint64_t base, uint64_t *eh_hdr)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	uint64_t load = 0;
	bool have_load = false;

	*eh_hdr = 0;
	if (!walk_read(w, &eh, base, sizeof(eh)) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh.e_phentsize != sizeof(ph) || eh.e_phnum > 128)
		return false;
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		if (!walk_read(w, &ph, base + eh.e_phoff + i * sizeof(ph), sizeof(ph)))
			return false;
		if (ph.p_type == PT_LOAD && !have_load) {
			load = base - (ph.p_vaddr - ph.p_offset);
			have_load = true;
		}
		if (ph.p_type == PT_GNU_EH_FRAME)
			*eh_hdr = ph.p_vaddr;
	}
	if (!have_load || !*eh_hdr)
		return false;
	*eh_hdr += load;
	return true;
}

/* The last entry of the sorted table that does not begin after @ip. */
static bool find_by_table(struct walk *w, const struct unwind_module *m, uint64_t ip, uint64_t *fde)
{
	struct {
		uint8_t version, eh_ptr_enc, count_enc, table_enc;
		int32_t eh_frame;
		uint32_t count;
	} hdr;
	struct {
		int32_t start, fde;
	} e;
	uint64_t eh_hdr, lo = 0, hi;

	/* Only the usual encodings: a 4-byte count, a table of 4-byte offsets relative to the
	 * header. */
	if (!find_header(w, m->base, &eh_hdr) || !walk_read(w, &hdr, eh_hdr, sizeof(hdr)) ||
	    hdr.version != 1 || hdr.count_enc != 0x03 || hdr.table_enc != 0x3b)
		return false;
	for (hi = hdr.count; lo < hi;) {
		const uint64_t mid = (lo + hi) / 2;

		if (!walk_read(w, &e, eh_hdr + sizeof(hdr) + mid * sizeof(e), sizeof(e)))
			return false;
		if ((int64_t)(ip - eh_hdr) < e.start)
			hi = mid;
		else
			lo = mid + 1;
	}
	if (lo == 0 || !walk_read(w, &e, eh_hdr + sizeof(hdr) + (lo - 1) * sizeof(e), sizeof(e)))
		return false;
	*fde = eh_hdr + (uint64_t)(int64_t)e.fde;
	return true;
}

/* Goes through .eh_frame for the entry that holds @ip. */
static bool find_by_section(struct walk *w, int module, uint64_t ip, uint64_t *fde)
{
	const struct cfi_source src = {source_read, w};
	uint64_t addr, size, end, known = 0;
	uint8_t encoding = 0;

	if (!w->src->eh_frame(w->src->ctx, module, ip, &addr, &size))
		return false;
	end = addr + size;
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
			encoding = cfi_encoding(&src, cie);
			known = cie;
		}
		start = addr + 8 + (uint64_t)(int64_t)e.start;
		if (e.cie && encoding == DW_EH_PE_PCREL_SDATA4 && ip - start < e.length) {
			*fde = addr;
			return true;
		}
		addr += 4 + (uint64_t)e.size;
	}
	return false;
}

/* ---- libunwind's callbacks ---- */

static int acc_find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need,
			      void *arg)
{
	struct walk *w = arg;
	const struct cfi_source src = {source_read, w};
	unw_dyn_info_t di = {
		.start_ip = ip,
		.end_ip = ip + 1,
		.format = UNW_INFO_FORMAT_REMOTE_TABLE,
		.u.rti = {.segbase = OWN,
			  .table_data = OWN,
			  .table_len = offsetof(struct walk, own.cfi) - offsetof(struct walk, own)},
	};
	int m = w->src->module(w->src->ctx, ip);
	uint64_t fde;

	di.u.rti.table_len /= sizeof(unw_word_t);
	if (m < 0 ||
	    (!find_by_table(w, &w->s->modules[m], ip, &fde) && !find_by_section(w, m, ip, &fde)))
		return -UNW_ENOINFO;
	/* What there is is not for libunwind: no guesses. */
	if (!cfi_take(&src, fde, ip, &w->own.cfi))
		return -UNW_EBADFRAME;
	/* The table's one entry begins at @ip. Differences are 32 bits wide for libunwind, too. */
	w->own.start = (int32_t)(uint32_t)(ip - OWN);
	w->own.fde = (int32_t)(offsetof(struct walk, own.cfi.bytes) - offsetof(struct walk, own) +
			       w->own.cfi.fde);
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
	const struct walk *w = arg;
	const struct pf_regs *r = &w->src->regs;
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
	static const struct unwind_source none;
	struct walk *w = mem_zalloc(sizeof(*w));
	unw_addr_space_t as = w ? g_unw.create_addr_space(&g_accessors, 0) : NULL;
	unw_cursor_t c;

	if (as) {
		w->src = &none;
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
	int m = w->src->module(w->src->ctx, s->frame_count ? ip - 1 : ip);

	*f = (struct unwind_frame){.ip = ip, .module = m};
	if (m >= 0)
		f->offset = ip - s->modules[m].base;
	s->frame_count++;
}

bool unwind_walk(const struct unwind_source *src, struct unwind_stack *s)
{
	struct walk *w = mem_zalloc(sizeof(*w));
	unw_addr_space_t as;
	unw_cursor_t c;
	int r = 1;

	if (!w)
		return false;
	w->src = src;
	w->s = s;
	as = g_unw.loaded ? g_unw.create_addr_space(&g_accessors, 0) : NULL;
	if (as)
		g_unw.set_caching_policy(as, UNW_CACHE_NONE);
	if (!as || g_unw.init_remote(&c, as, w) != 0) {
		add_frame(w, src->regs.rip);
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
	mem_free(w);
	return true;
}
