/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of a guest that dies, by libunwind over the sentry's copy functions.
 *
 * Theory of operation: libunwind's remote interface asks for memory, registers and unwind tables
 * through callbacks. Memory comes from copy_in; the unwind tables are the .eh_frame_hdr of the
 * mapped ELF files, found through the program headers in guest memory. Everything read is the
 * guest's word and only ever printed: escaped names, a bounded number of frames.
 *
 * References: libunwind-dynamic(3), unw_create_addr_space(3); the LSB's description of
 * .eh_frame_hdr.
 */
#include "sentry/crash.h"
#include "sentry/mm.h"

#include <dlfcn.h>
#include <elf.h>
#include <libunwind.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"
#include "base/hostcall.h"

#define FRAMES_MAX 48

static int g_crash_fd = -1;

/* libunwind's own search over such a table; exported, though no header of it declares it. */
extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t as, unw_word_t ip,
					      unw_dyn_info_t *di, unw_proc_info_t *pi,
					      int need_unwind_info, void *arg);

/* libunwind. It, and the two libraries that it brings along, would be a fifth of the start of each
 * run, few of which ask for reports. */
static struct {
	__typeof__(unw_create_addr_space) *create_addr_space;
	__typeof__(unw_destroy_addr_space) *destroy_addr_space;
	__typeof__(unw_init_remote) *init_remote;
	__typeof__(unw_get_reg) *get_reg;
	__typeof__(unw_step) *step;
	__typeof__(UNW_OBJ(dwarf_search_unwind_table)) *search;
} g_unw;

#define NAME_(x) #x
#define NAME(x) NAME_(x)
#define UNW_FIND(lib, member, fn) \
	((g_unw.member = (__typeof__(g_unw.member))dlsym(lib, NAME(fn))) != NULL)

void crash_report_enable(int fd)
{
	void *lib = dlopen("libunwind-x86_64.so.8", RTLD_NOW | RTLD_LOCAL);

	g_crash_fd = fd;
	if (lib && UNW_FIND(lib, destroy_addr_space, unw_destroy_addr_space) &&
	    UNW_FIND(lib, init_remote, unw_init_remote) && UNW_FIND(lib, get_reg, unw_get_reg) &&
	    UNW_FIND(lib, step, unw_step) &&
	    UNW_FIND(lib, search, UNW_OBJ(dwarf_search_unwind_table)) &&
	    UNW_FIND(lib, create_addr_space, unw_create_addr_space))
		return;
	g_unw.create_addr_space = NULL;
	log_warn("no stacks of programs that die: libunwind-x86_64.so.8 cannot be loaded (install "
		 "libunwind8)");
}

/* The mapping of a file that holds @addr: where its first page is mapped, and its name. */
struct module {
	uint64_t base, start, end;
	char name[256];
};

static bool module_find(struct task *t, uint64_t addr, struct module *m)
{
	struct vma *v, *o;
	bool found = false;

	fmutex_lock(&t->mm->lock);
	v = mm_find(t->mm, addr);
	if (v && v->start <= addr && v->file) {
		m->start = v->start;
		m->end = v->end;
		m->base = v->start;
		vma_foreach (o, t->mm) {
			if (o->file && o->file->inode == v->file->inode && o->offset == 0 &&
			    o->start <= addr)
				m->base = o->start;
		}
		if (path_text(&v->file->path, NULL, m->name, sizeof(m->name)) < 0)
			strcpy(m->name, "?");
		found = true;
	}
	fmutex_unlock(&t->mm->lock);
	return found;
}

/* Fills the table description from PT_GNU_EH_FRAME. */
static bool module_unwind_info(struct task *t, const struct module *m, unw_dyn_info_t *di)
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

	if (copy_in(t, &eh, GADDR(m->base), sizeof(eh)) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_phentsize != sizeof(ph) ||
	    eh.e_phnum > 128)
		return false;
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		if (copy_in(t, &ph, GADDR(m->base + eh.e_phoff + i * sizeof(ph)), sizeof(ph)))
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
	if (copy_in(t, &hdr, GADDR(eh_hdr), sizeof(hdr)) || hdr.version != 1 ||
	    hdr.count_enc != 0x03 || hdr.table_enc != 0x3b)
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

static int acc_find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need,
			      void *arg)
{
	struct module m;
	unw_dyn_info_t di;

	if (!module_find(arg, ip, &m) || !module_unwind_info(arg, &m, &di))
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
	if (write || copy_in(arg, val, GADDR(addr), sizeof(*val)))
		return -UNW_EINVAL;
	return 0;
}

static int acc_reg(unw_addr_space_t as UNUSED, unw_regnum_t reg, unw_word_t *val, int write,
		   void *arg)
{
	const struct pf_regs *r = &((struct task *)arg)->regs;
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

static void print_frame(struct task *t, unsigned n, uint64_t ip)
{
	struct module m;
	char line[400];
	int len;

	if (module_find(t, ip, &m)) {
		for (char *p = m.name; *p; p++) {
			if ((unsigned char)*p < 0x20 || *p == 0x7f)
				*p = '?';
		}
		len = snprintf(line, sizeof(line), "moat:   #%-2u 0x%012lx %s+0x%lx\n", n, ip,
			       m.name, ip - m.base);
	} else {
		len = snprintf(line, sizeof(line), "moat:   #%-2u 0x%012lx ?\n", n, ip);
	}
	if (len > 0)
		(void)!HOST(write_log, write(g_crash_fd, line, MIN((size_t)len, sizeof(line) - 1)));
}

void crash_report(struct task *t, int sig, const struct lx_siginfo *info)
{
	unw_addr_space_t as;
	unw_cursor_t c;
	char line[200];
	int len;

	if (g_crash_fd < 0 || !t->mm)
		return;
	len = snprintf(line, sizeof(line),
		       "moat: process %d (%.15s) died of %s, code %d, address 0x%lx\n", t->tg->tgid,
		       t->comm, signal_name(sig), info->si_code, info->u.fault.addr);
	if (len > 0)
		(void)!HOST(write_log, write(g_crash_fd, line, MIN((size_t)len, sizeof(line) - 1)));
	as = g_unw.create_addr_space ? g_unw.create_addr_space(&g_accessors, 0) : NULL;
	if (!as)
		return;
	if (g_unw.init_remote(&c, as, t) == 0) {
		for (unsigned n = 0; n < FRAMES_MAX; n++) {
			unw_word_t ip;

			if (g_unw.get_reg(&c, UNW_REG_IP, &ip) || !ip)
				break;
			print_frame(t, n, ip);
			if (g_unw.step(&c) <= 0)
				break;
		}
	}
	g_unw.destroy_addr_space(as);
}
