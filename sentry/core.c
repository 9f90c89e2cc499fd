/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core files.
 *
 * Theory of operation: when a signal whose action is to dump ends a process whose RLIMIT_CORE
 * allows it, the memory is written as an ELF core file "core" into its working directory, with its
 * own rights, before the process is gone. Pages that were never touched are left as holes.
 *
 * Deviations from Linux: only the dying thread's registers are in it; the pattern is fixed.
 *
 * References: core(5), elf(5), the layouts of elf_prstatus and elf_prpsinfo in the uapi headers.
 */
#include "sentry/core.h"

#include "sentry/mm.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#define CORE_CHUNK 65536
#define NOTES_MAX ((size_t)1 << 20)
#define SEGMENTS_MAX 32768

struct core_prstatus {
	int32_t signo, code, err;
	int16_t cursig, pad0;
	uint64_t sigpend, sighold;
	int32_t pid, ppid, pgrp, sid;
	struct lx_timeval utime, stime, cutime, cstime;
	uint64_t regs[27];
	int32_t fpvalid, pad1;
};
_Static_assert(sizeof(struct core_prstatus) == 336, "struct elf_prstatus");

struct core_prpsinfo {
	char state, sname, zomb, nice;
	uint64_t flag;
	uint32_t uid, gid;
	int32_t pid, ppid, pgrp, sid;
	char fname[16], psargs[80];
};
_Static_assert(sizeof(struct core_prpsinfo) == 136, "struct elf_prpsinfo");

struct segment {
	uint64_t start, end, dump_end;
	uint32_t prot;
};

struct dump {
	struct task *t;
	struct file *f;
	uint64_t limit; /* RLIMIT_CORE */
	struct segment *seg;
	unsigned count;
	uint8_t *notes;
	size_t notes_size;
	uint8_t *buf;
};

/* Writes at @pos, no more than the limit. false: the dump ends here. */
static bool put(struct dump *d, uint64_t pos, const void *p, size_t size)
{
	struct uio_seg seg;
	struct uio u;
	int64_t off = (int64_t)pos;

	if (pos >= d->limit)
		return false;
	size = MIN((uint64_t)size, d->limit - pos);
	uio_init_kernel(&u, &seg, (void *)(uintptr_t)p, size);
	while (u.resid) {
		if (vfs_write(&d->t->vctx, d->f, &u, &off) <= 0)
			return false;
	}
	return true;
}

static void add_note(struct dump *d, uint32_t type, const char *owner, const void *desc,
		     size_t size)
{
	Elf64_Nhdr h = {.n_namesz = (uint32_t)strlen(owner) + 1,
			.n_descsz = (uint32_t)size,
			.n_type = type};
	size_t name = (h.n_namesz + 3) & ~3u, body = (size + 3) & ~(size_t)3;

	if (d->notes_size + sizeof(h) + name + body > NOTES_MAX)
		return;
	memcpy(d->notes + d->notes_size, &h, sizeof(h));
	memcpy(d->notes + d->notes_size + sizeof(h), owner, h.n_namesz);
	memcpy(d->notes + d->notes_size + sizeof(h) + name, desc, size);
	d->notes_size += sizeof(h) + name + body;
}

static void process_notes(struct dump *d, int sig, const struct lx_siginfo *info)
{
	struct task *t = d->t;
	struct core_prstatus st = {.signo = sig,
				   .code = info->si_code,
				   .cursig = (int16_t)sig,
				   .pid = t->tid,
				   .fpvalid = 1};
	struct core_prpsinfo ps = {.sname = 'R', .nice = (char)t->nice, .pid = t->tg->tgid};
	uint64_t user, sys;
	ssize_t n;

	task_times(t, &user, &sys);
	mutex_lock(&g_kernel.tasklist);
	st.sigpend = t->pending.set;
	st.sighold = t->blocked;
	st.ppid = ps.ppid = t->tg->parent ? t->tg->parent->tgid : 0;
	st.pgrp = ps.pgrp = t->tg->pgrp ? t->tg->pgrp->nr : 0;
	st.sid = ps.sid = t->tg->session ? t->tg->session->nr : 0;
	memcpy(ps.fname, t->comm, sizeof(ps.fname));
	mutex_unlock(&g_kernel.tasklist);
	ps.uid = t->vctx.cred->uid;
	ps.gid = t->vctx.cred->gid;
	st.utime.tv_sec = (int64_t)(user / NSEC_PER_SEC);
	st.utime.tv_usec = (int64_t)(user % NSEC_PER_SEC / NSEC_PER_USEC);
	st.stime.tv_sec = (int64_t)(sys / NSEC_PER_SEC);
	st.stime.tv_usec = (int64_t)(sys % NSEC_PER_SEC / NSEC_PER_USEC);
	_Static_assert(sizeof(t->regs) == sizeof(st.regs), "user_regs_struct");
	memcpy(st.regs, &t->regs, sizeof(st.regs));
	n = copy_in_partial(t, ps.psargs, GADDR(t->mm->arg_start),
			    MIN(t->mm->arg_end - t->mm->arg_start, sizeof(ps.psargs) - 1));
	for (ssize_t i = 0; i < n; i++) {
		if (!ps.psargs[i])
			ps.psargs[i] = ' ';
	}
	add_note(d, NT_PRSTATUS, "CORE", &st, sizeof(st));
	add_note(d, NT_PRPSINFO, "CORE", &ps, sizeof(ps));
	add_note(d, NT_SIGINFO, "CORE", info, sizeof(*info));
	add_note(d, NT_AUXV, "CORE", t->mm->auxv, t->mm->auxv_count * sizeof(t->mm->auxv[0]));
}

static void vector_notes(struct dump *d)
{
	_Alignas(64) uint8_t xs[PF_XSTATE_MAX];
	int n = g_pf->xstate_get(d->t->pt, xs);

	if (n < 512)
		return;
	add_note(d, NT_FPREGSET, "CORE", xs, 512);
	add_note(d, NT_X86_XSTATE, "LINUX", xs, (size_t)n);
}

/* Whether a shared mapping is of memory only: its file has no name. */
static bool is_nameless(const struct vma *v)
{
	struct kstat st;

	return !v->file || (inode_getattr(v->file->inode, &st) == 0 && st.nlink == 0);
}

/* Which part of a mapping is dumped. */
static uint64_t dump_end(struct task *t, const struct vma *v)
{
	const uint32_t filter = atomic_load(&t->mm->dump_filter);
	char magic[SELFMAG];

	if ((v->flags & (VMA_DONTDUMP | VMA_VVAR)) || !(v->prot & LX_PROT_READ))
		return v->start;
	if (v->flags & VMA_VDSO)
		return v->end;
	if (v->flags & VMA_SHARED)
		return filter & (is_nameless(v) ? DUMP_ANON_SHARED : DUMP_FILE_SHARED) ? v->end
										       : v->start;
	/* What may be written has been, and is its own. */
	if ((!v->file || v->prot & LX_PROT_WRITE) && filter & DUMP_ANON_PRIVATE)
		return v->end;
	if (!v->file)
		return v->start;
	if (filter & DUMP_FILE_PRIVATE)
		return v->end;
	/* Of a program or library that was not written to, the header is enough. */
	if (filter & DUMP_ELF_HEADERS && v->offset == 0 &&
	    !copy_in(t, magic, GADDR(v->start), sizeof(magic)) && !memcmp(magic, ELFMAG, SELFMAG))
		return v->start + MOAT_PAGE_SIZE;
	return v->start;
}

/* The mappings, and NT_FILE, which names the files behind them. */
static int collect(struct dump *d)
{
	struct mm *mm = d->t->mm;
	uint64_t *file = (uint64_t *)(void *)d->buf, files = 0;
	size_t names = 0, cap = CORE_CHUNK / sizeof(uint64_t);
	char *text = mem_zalloc(CORE_CHUNK);
	struct vma *v;

	d->seg = mem_calloc(SEGMENTS_MAX, sizeof(*d->seg));
	if (!d->seg || !text) {
		mem_free(text);
		return -ENOMEM;
	}
	fmutex_lock(&mm->lock);
	vma_foreach (v, mm) {
		if (d->count == SEGMENTS_MAX)
			break;
		d->seg[d->count++] = (struct segment){v->start, v->end, dump_end(d->t, v), v->prot};
		if (v->file && 2 + 3 * (files + 1) <= cap && names + LX_PATH_MAX < CORE_CHUNK) {
			ssize_t n = path_text(&v->file->path, NULL, text + names, LX_PATH_MAX);

			if (n < 0)
				continue;
			names += (size_t)n + 1;
			file[2 + 3 * files] = v->start;
			file[3 + 3 * files] = v->end;
			file[4 + 3 * files] = v->offset / MOAT_PAGE_SIZE;
			files++;
		}
	}
	fmutex_unlock(&mm->lock);
	file[0] = files;
	file[1] = MOAT_PAGE_SIZE;
	size_t head = (2 + 3 * files) * sizeof(uint64_t);

	if (head + names <= CORE_CHUNK) {
		memcpy(d->buf + head, text, names);
		add_note(d, NT_FILE, "CORE", d->buf, head + names);
	}
	mem_free(text);
	return 0;
}

static bool write_headers(struct dump *d, uint64_t data)
{
	Elf64_Ehdr eh = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_CORE,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(eh),
		.e_ehsize = sizeof(eh),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = (uint16_t)(d->count + 1),
	};
	uint64_t pos = sizeof(eh) + (d->count + 1) * sizeof(Elf64_Phdr);
	Elf64_Phdr ph = {
		.p_type = PT_NOTE, .p_offset = pos, .p_filesz = d->notes_size, .p_align = 4};

	if (!put(d, 0, &eh, sizeof(eh)) || !put(d, sizeof(eh), &ph, sizeof(ph)) ||
	    !put(d, pos, d->notes, d->notes_size))
		return false;
	for (unsigned i = 0; i < d->count; i++) {
		const struct segment *s = &d->seg[i];

		ph = (Elf64_Phdr){.p_type = PT_LOAD,
				  .p_flags = (s->prot & LX_PROT_READ ? PF_R : 0u) |
					     (s->prot & LX_PROT_WRITE ? PF_W : 0u) |
					     (s->prot & LX_PROT_EXEC ? PF_X : 0u),
				  .p_offset = data,
				  .p_vaddr = s->start,
				  .p_filesz = s->dump_end - s->start,
				  .p_memsz = s->end - s->start,
				  .p_align = MOAT_PAGE_SIZE};
		if (!put(d, sizeof(eh) + (i + 1) * sizeof(ph), &ph, sizeof(ph)))
			return false;
		data += ph.p_filesz;
	}
	return true;
}

static bool nothing_there(const uint8_t *pages, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (pages[i] & PF_PAGE_THERE)
			return false;
	return true;
}

static bool write_memory(struct dump *d, uint64_t pos)
{
	uint8_t there[CORE_CHUNK / MOAT_PAGE_SIZE];

	for (unsigned i = 0; i < d->count; i++) {
		const struct segment *s = &d->seg[i];

		for (uint64_t at = s->start; at < s->dump_end; at += CORE_CHUNK) {
			size_t size = MIN(s->dump_end - at, (uint64_t)CORE_CHUNK),
			       pages = size / MOAT_PAGE_SIZE;
			ssize_t n;

			if (g_pf->resident(d->t->mm->as, at, pages, there) == 0 &&
			    nothing_there(there, pages)) {
				pos += size;
				continue;
			}
			n = g_pf->copy_force(d->t->mm->as, GADDR(at), d->buf, size, false);
			if (n > 0 && !put(d, pos, d->buf, (size_t)n))
				return false;
			pos += size;
		}
	}
	return true;
}

bool core_dump(struct task *t, int sig, const struct lx_siginfo *info)
{
	struct open_how how = {.flags = LX_O_CREAT | LX_O_WRONLY | LX_O_NOFOLLOW | LX_O_LARGEFILE,
			       .mode = 0600};
	struct dump d = {.t = t, .limit = rlimit_get(t->tg, LX_RLIMIT_CORE)};
	struct iattr empty = {.valid = ATTR_SIZE | ATTR_FILE, .size = 0};
	bool done = false;

	if (!t->mm || t->tg->dumpable != 1 || d.limit < MOAT_PAGE_SIZE)
		return false;
	if (vfs_open(&t->vctx, NULL, "core", &how, &d.f))
		return false;
	d.notes = mem_zalloc(NOTES_MAX);
	d.buf = mem_zalloc(CORE_CHUNK);
	if (!d.notes || !d.buf || !LX_S_ISREG(d.f->inode->mode) ||
	    vfs_setattr(&t->vctx, &d.f->path, &empty))
		goto out;
	process_notes(&d, sig, info);
	vector_notes(&d);
	if (collect(&d))
		goto out;
	uint64_t data =
		page_up(sizeof(Elf64_Ehdr) + (d.count + 1) * sizeof(Elf64_Phdr) + d.notes_size);

	/* A file that the limit cuts short counts as dumped, as in Linux. */
	if (write_headers(&d, data))
		(void)write_memory(&d, data);
	done = true;
out:
	file_put(d.f);
	mem_free(d.seg);
	mem_free(d.notes);
	mem_free(d.buf);
	return done;
}
