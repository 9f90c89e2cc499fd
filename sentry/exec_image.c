/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a new program: from the loader's plan to a populated address space.
 *
 * Theory of operation: the list is built first, each vma with the host op that makes it; then all
 * ops go to the platform in one batch, then the bytes that are neither in files nor zero are
 * written (the ends of data segments, the stack). The old address space is not touched, so
 * everything here may fail and be thrown away.
 *
 * Locking: nobody else sees the new mm; its lock is taken for form, and because the functions of
 * sentry/mm.c demand it.
 */
#include "sentry/exec_image.h"
#include "loader/layout.h"
#include "loader/stack.h"
#include "loader/vdso.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#define LX_USER_HZ 100
/* What a stack has beyond its arguments at the start; more comes with faults. */
#define STACK_INITIAL_ROOM ((uint64_t)128 << 10)

int exec_program_use(struct file *f, struct exec_program *p)
{
	int r = inode_deny_write(f->inode);

	if (r == 0)
		p->file = file_get(f);
	return r;
}

int exec_program_open(struct task *t, const char *name, struct exec_program *p)
{
	struct file *f;
	int r = exec_open(t, NULL, name, 0, &f);

	if (r)
		return r;
	r = exec_program_use(f, p);
	file_put(f);
	return r;
}

void exec_program_close(struct exec_program *p)
{
	if (!p->file)
		return;
	inode_allow_write(p->file->inode);
	file_put(p->file);
	p->file = NULL;
	elf_image_free(&p->img);
}

static ssize_t read_program(void *ctx, void *buf, size_t size, uint64_t offset)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = vfs_read_kernel(ctx, (char *)buf + done, size - done,
					    (int64_t)(offset + done));

		if (n < 0)
			return n;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int parse(struct exec_program *p)
{
	struct elf_source src = {.read = read_program, .ctx = p->file};

	if (!p->file->ops->mmap)
		return -ENOEXEC;
	return elf_parse(&src, PF_GUEST_MIN, PF_GUEST_LIMIT, &p->img);
}

int exec_image_read(struct task *t, struct exec_image *x, struct err *e)
{
	struct elf_source src = {.read = read_program, .ctx = x->prog.file};
	char *name;
	int r;

	r = parse(&x->prog);
	if (r == -ENOEXEC)
		return err_set(e, ENOEXEC,
			       "%s: not a program for x86-64, or a damaged one; a script begins "
			       "with #! and its interpreter",
			       x->execfn);
	if (r || !x->prog.img.interp_size)
		return r;
	name = mem_zalloc(LX_PATH_MAX);
	if (!name)
		return -ENOMEM;
	r = elf_read_interp(&src, &x->prog.img, name);
	if (r == 0) {
		r = exec_program_open(t, name, &x->ld);
		if (r)
			err_set(e, -r, "%s: its interpreter %s: %s", x->execfn, name, err_text(-r));
	}
	if (r == 0) {
		r = parse(&x->ld);
		if (r == -ENOEXEC)
			r = err_set(e, ELIBBAD,
				    "%s: its interpreter %s is no ELF program for x86-64",
				    x->execfn, name);
	}
	mem_free(name);
	return r;
}

/* ---- building ---- */

struct builder {
	struct task *t;
	struct exec_image *x;
	struct mm *mm;
	struct layout layout;
	struct map_op *ops;
	unsigned op_count, op_max;
	struct stack_image stack;
	uint64_t vdso;
};

/* Adds one mapping to the list and to the batch. @v is consumed in any case. */
static int add(struct builder *b, struct vma *v) REQUIRES(b->mm->lock)
{
	uint64_t size = v->end - v->start;
	int r = 0;

	if (v->start < PF_GUEST_MIN || v->end > PF_GUEST_LIMIT || v->start >= v->end)
		r = -ENOEXEC;
	else if (mm_find_overlap(b->mm, v->start, v->end) ||
		 !mm_may_expand(b->t, b->mm, v->prot, v->flags, size, 0))
		r = -ENOMEM;
	if (r) {
		struct vma_list dead = {0};

		vma_list_add(&dead, v);
		vma_list_free(&dead);
		return r;
	}
	BUG_ON(b->op_count == b->op_max);
	b->ops[b->op_count++] = vma_map_op(v);
	vma_link(b->mm, v);
	return 0;
}

static int add_anon(struct builder *b, uint64_t start, uint64_t end, uint32_t prot, uint32_t flags)
	REQUIRES(b->mm->lock)
{
	struct vma *v = vma_new();

	if (!v)
		return -ENOMEM;
	v->start = start;
	v->end = end;
	v->prot = prot;
	v->max_prot = PROT_ALL;
	v->flags = flags;
	return add(b, v);
}

static int add_file(struct builder *b, struct file *f, uint64_t start, uint64_t size, uint32_t prot,
		    uint64_t offset) REQUIRES(b->mm->lock)
{
	struct file_map fm = {
		.offset = offset, .size = size, .prot = prot, .host_fd = -1, .max_prot = PROT_ALL};
	struct vma *v;
	int r = f->ops->mmap(f, &fm);

	if (r)
		return r;
	if (fm.anon || (prot & ~fm.max_prot))
		return -ENOEXEC;
	v = vma_new();
	if (!v)
		return -ENOMEM;
	v->start = start;
	v->end = start + size;
	v->prot = prot;
	v->max_prot = fm.max_prot;
	v->file = file_get(f);
	v->offset = offset;
	v->host_fd = fm.host_fd;
	v->host_offset = fm.host_offset;
	v->key = fm.key;
	v->flags = fm.counted ? VMA_COUNTED : 0;
	return add(b, v);
}

static int add_segments(struct builder *b, const struct exec_program *p) REQUIRES(b->mm->lock)
{
	bool rx = b->x->personality & LX_PER_READ_IMPLIES_EXEC;

	for (unsigned i = 0; i < p->img.segment_count; i++) {
		const struct elf_segment *s = &p->img.segments[i];
		uint32_t prot = s->prot;
		int r = 0;

		if (rx && (prot & LX_PROT_READ))
			prot |= LX_PROT_EXEC;
		if (s->file_size)
			r = add_file(b, p->file, s->addr + p->bias, s->file_size, prot,
				     s->file_offset);
		if (r == 0 && s->anon_size)
			r = add_anon(b, s->anon_addr + p->bias,
				     s->anon_addr + p->bias + s->anon_size, prot, 0);
		if (r)
			return r;
	}
	return 0;
}

/* A free place of our choice for a program that may lie anywhere. */
static int place_anywhere(struct builder *b, struct exec_program *p) REQUIRES(b->mm->lock)
{
	uint64_t size = p->img.high - p->img.low, align = p->img.align, base;
	int64_t a;

	/* Room to align in, unless a page is enough. */
	if (align > MOAT_PAGE_SIZE)
		size += align;
	a = mm_pick_addr(b->t, b->mm, 0, size, 0, false);
	if (a < 0)
		return (int)a;
	base = ((uint64_t)a + align - 1) & ~(align - 1);
	p->bias = base - p->img.low;
	return 0;
}

/* Where the program and its interpreter go. */
static int add_programs(struct builder *b) REQUIRES(b->mm->lock)
{
	struct exec_program *prog = &b->x->prog, *ld = &b->x->ld;
	int r = 0;

	if (prog->img.dyn && ld->file)
		prog->bias = (b->layout.pie_base & ~(prog->img.align - 1)) -
			     (prog->img.low & ~(prog->img.align - 1));
	else if (prog->img.dyn)
		r = place_anywhere(b, prog);
	if (r == 0)
		r = add_segments(b, prog);
	if (r || !ld->file)
		return r;
	if (ld->img.dyn)
		r = place_anywhere(b, ld);
	return r ? r : add_segments(b, ld);
}

static int add_vdso(struct builder *b) REQUIRES(b->mm->lock)
{
	uint64_t size = vdso_vvar_size() + vdso_text_size();
	int64_t a;
	struct vma *v;
	int r;

	if (!vdso_available())
		return 0;
	a = mm_pick_addr(b->t, b->mm, b->layout.vdso_hint, size, 0, false);
	if (a < 0)
		return (int)a;
	v = vma_new();
	if (!v)
		return -ENOMEM;
	v->start = (uint64_t)a;
	v->end = v->start + vdso_vvar_size();
	v->prot = v->max_prot = LX_PROT_READ;
	/* Private is enough: nobody may write, so the page stays the one that the clock writes. */
	v->flags = VMA_VVAR | VMA_DONTDUMP;
	v->host_fd = vdso_vvar_fd();
	v->key = vdso_vvar_key();
	r = add(b, v);
	if (r)
		return r;
	v = vma_new();
	if (!v)
		return -ENOMEM;
	v->start = (uint64_t)a + vdso_vvar_size();
	v->end = (uint64_t)a + size;
	v->prot = LX_PROT_READ | LX_PROT_EXEC;
	v->max_prot = PROT_ALL;
	v->flags = VMA_VDSO;
	v->host_fd = vdso_text_fd();
	v->key = vdso_text_key();
	b->vdso = b->mm->vdso = v->start;
	return add(b, v);
}

static void make_auxv(struct builder *b, struct stack_spec *s)
{
	const struct exec_image *x = b->x;
	const struct elf_image *img = &x->prog.img;

	if (b->vdso)
		stack_add_aux(s, LX_AT_SYSINFO_EHDR, b->vdso);
	stack_add_aux(s, LX_AT_MINSIGSTKSZ, getauxval(LX_AT_MINSIGSTKSZ));
	stack_add_aux(s, LX_AT_HWCAP, getauxval(LX_AT_HWCAP));
	stack_add_aux(s, LX_AT_PAGESZ, MOAT_PAGE_SIZE);
	stack_add_aux(s, LX_AT_CLKTCK, LX_USER_HZ);
	stack_add_aux(s, LX_AT_PHDR, img->phdr ? img->phdr + x->prog.bias : 0);
	stack_add_aux(s, LX_AT_PHENT, ELF_PHENT_SIZE);
	stack_add_aux(s, LX_AT_PHNUM, img->phnum);
	stack_add_aux(s, LX_AT_BASE, x->ld.file ? x->ld.bias : 0);
	stack_add_aux(s, LX_AT_FLAGS, 0);
	stack_add_aux(s, LX_AT_ENTRY, img->entry + x->prog.bias);
	stack_add_aux(s, LX_AT_UID, x->cred->uid);
	stack_add_aux(s, LX_AT_EUID, x->cred->euid);
	stack_add_aux(s, LX_AT_GID, x->cred->gid);
	stack_add_aux(s, LX_AT_EGID, x->cred->egid);
	stack_add_aux(s, LX_AT_SECURE, x->secure);
	stack_add_aux(s, LX_AT_HWCAP2, getauxval(LX_AT_HWCAP2));
}

static int add_stack(struct builder *b) REQUIRES(b->mm->lock)
{
	const struct exec_image *x = b->x;
	uint64_t rlim = rlimit_get(b->t->tg, LX_RLIMIT_STACK), size;
	struct stack_spec s = {.argv = x->argv,
			       .envp = x->envp,
			       .argc = x->argc,
			       .envc = x->envc,
			       .execfn = x->execfn,
			       .top = b->layout.stack_top,
			       .shift = b->layout.stack_shift};
	uint32_t prot = LX_PROT_READ | LX_PROT_WRITE;
	int r;

	guest_random_bytes(GUEST_RANDOM_LAYOUT, s.random, sizeof(s.random));
	make_auxv(b, &s);
	r = stack_build(&s, &b->stack);
	if (r)
		return r;
	size = page_up(b->stack.size);
	size = MAX(size, MIN(size + STACK_INITIAL_ROOM, page_down(rlim)));
	if (x->prog.img.exec_stack || (x->personality & LX_PER_READ_IMPLIES_EXEC))
		prot |= LX_PROT_EXEC;
	return add_anon(b, s.top - size, s.top, prot, VMA_STACK | VMA_GROWSDOWN);
}

/* What the rest of the kernel wants to know of the program. */
static void note_layout(struct builder *b) REQUIRES(b->mm->lock)
{
	const struct exec_program *p = &b->x->prog;
	struct mm *mm = b->mm;

	mm->start_code = p->img.start_code + p->bias;
	mm->end_code = p->img.end_code + p->bias;
	mm->start_data = p->img.start_data + p->bias;
	mm->end_data = p->img.end_data + p->bias;
	/* A program that was put among the mappings has its heap where programs usually lie. */
	mm->brk = p->img.dyn && !b->x->ld.file ? b->layout.pie_base : page_up(p->img.brk + p->bias);
	mm->brk = MIN(mm->brk + b->layout.brk_offset, PF_GUEST_LIMIT);
	mm->start_brk = mm->brk;
	mm->stack_top = b->layout.stack_top;
	mm->arg_start = b->stack.arg_start;
	mm->arg_end = b->stack.arg_end;
	mm->env_start = b->stack.env_start;
	mm->env_end = b->stack.env_end;
	mm->auxv_count = MIN(b->stack.auxv_count, (unsigned)ARRAY_SIZE(mm->auxv));
	memcpy(mm->auxv, b->stack.auxv, mm->auxv_count * sizeof(uint64_t));
}

static int plan(struct builder *b)
{
	int r;

	fmutex_lock(&b->mm->lock);
	b->mm->mmap_base = b->layout.mmap_base;
	r = add_programs(b);
	if (r == 0)
		r = add_vdso(b);
	if (r == 0)
		r = add_stack(b);
	if (r == 0)
		note_layout(b);
	fmutex_unlock(&b->mm->lock);
	return r;
}

static int write_bytes(struct mm *mm, uint64_t addr, const void *bytes, uint64_t size)
{
	return copy_out_mm(mm, GADDR(addr), bytes, size) == (ssize_t)size ? 0 : -EFAULT;
}

static int clear_tails(struct mm *mm, const struct exec_program *p)
{
	static const char zeros[MOAT_PAGE_SIZE];

	for (unsigned i = 0; i < p->img.segment_count; i++) {
		const struct elf_segment *s = &p->img.segments[i];
		int r = 0;

		if (s->zero_size)
			r = write_bytes(mm, s->zero_addr + p->bias, zeros, s->zero_size);
		/* The file ends before its own data segment. */
		if (r)
			return -ENOEXEC;
	}
	return 0;
}

static int build(struct builder *b)
{
	struct exec_image *x = b->x;
	int r;

	b->op_max = 2 * (x->prog.img.segment_count + x->ld.img.segment_count) + 3;
	b->ops = mem_calloc(b->op_max, sizeof(*b->ops));
	if (!b->ops)
		return -ENOMEM;
	r = plan(b);
	if (r == 0)
		r = mm_space(x->mm, x->pt, 0);
	if (r == 0)
		r = g_pf->map(x->pt, b->ops, b->op_count);
	if (r == 0)
		r = clear_tails(x->mm, &x->prog);
	if (r == 0 && x->ld.file)
		r = clear_tails(x->mm, &x->ld);
	if (r == 0)
		r = write_bytes(x->mm, b->stack.sp, b->stack.bytes, b->stack.size);
	if (r == 0) {
		x->sp = b->stack.sp;
		x->entry = x->ld.file ? x->ld.img.entry + x->ld.bias
				      : x->prog.img.entry + x->prog.bias;
	}
	mem_free(b->ops);
	mem_free(b->stack.bytes);
	return r;
}

int exec_image_map(struct task *t, struct exec_image *x)
{
	struct builder b = {.t = t, .x = x};
	struct pf_as *as;
	int r;

	layout_choose(PF_GUEST_LIMIT, rlimit_get(t->tg, LX_RLIMIT_STACK),
		      !(x->personality & LX_PER_ADDR_NO_RANDOMIZE), &b.layout);
	r = g_pf->as_new(t->pt, &as, &x->pt);
	if (r)
		return r;
	x->mm = b.mm = mm_new(as);
	if (x->mm) {
		x->mm->thp_off = t->mm && mm_thp_off(t->mm);
		atomic_store(&x->mm->dump_filter,
			     t->mm ? atomic_load(&t->mm->dump_filter) : DUMP_DEFAULT);
	}
	r = x->mm ? build(&b) : -ENOMEM;
	if (r)
		exec_image_discard(x);
	return r;
}

void exec_image_discard(struct exec_image *x)
{
	if (x->pt)
		g_pf->thread_free(x->pt);
	mm_put(x->mm);
	x->pt = NULL;
	x->mm = NULL;
}
