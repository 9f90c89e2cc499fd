/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of guest threads: their memory and modules for the walk (sentry/unwind_walk.h), and names
 * for what it finds. See sentry/unwind.h.
 */
#include "sentry/unwind.h"
#include "sentry/mm.h"
#include "sentry/task.h"
#include "sentry/unwind_walk.h"

#include <string.h>

struct guest {
	struct task *t;
	struct unwind_stack *s;
};

static bool task_page(void *ctx, uint8_t *to, uint64_t addr)
{
	const struct guest *g = ctx;

	return copy_in(g->t, to, GADDR(addr), MOAT_PAGE_SIZE) == 0;
}

/* The module that holds @addr: its index, or -1. */
static int task_module(void *ctx, uint64_t addr)
{
	const struct guest *g = ctx;
	struct unwind_stack *s = g->s;
	struct unwind_module *m = &s->modules[s->module_count];
	struct vma *v, *o;
	int found = -1;

	for (unsigned i = 0; i < s->module_count; i++) {
		if (addr >= s->modules[i].start && addr < s->modules[i].end)
			return (int)i;
	}
	if (s->module_count == UNWIND_MODULES_MAX || !g->t->mm)
		return -1;
	fmutex_lock(&g->t->mm->lock);
	v = mm_find(g->t->mm, addr);
	if (v && v->start <= addr && v->file) {
		m->start = v->start;
		m->end = v->end;
		m->base = v->start;
		m->offset = v->offset;
		vma_foreach (o, g->t->mm) {
			if (o->file && o->file->inode == v->file->inode && o->offset == 0 &&
			    o->start <= addr)
				m->base = o->start;
		}
		if (path_text(&v->file->path, NULL, m->name, sizeof(m->name)) < 0)
			strcpy(m->name, "?");
		m->file = file_get(v->file);
		found = (int)s->module_count++;
	}
	fmutex_unlock(&g->t->mm->lock);
	return found;
}

/* Where the section lies is told as the file is linked; it may be loaded elsewhere. */
static bool task_eh_frame(void *ctx, int module, uint64_t ip, uint64_t *addr, uint64_t *size)
{
	const struct guest *g = ctx;
	const struct unwind_module *m = &g->s->modules[module];

	if (!symbols_section(m->file, ".eh_frame", ip - m->start + m->offset, addr, size))
		return false;
	*addr += ip;
	return true;
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
	struct unwind_stack *s = mem_zalloc(sizeof(*s));
	struct guest g = {t, s};
	struct unwind_source src = {
		.ctx = &g, .page = task_page, .module = task_module, .eh_frame = task_eh_frame};

	if (!s || task_need_regs(t) < 0) {
		mem_free(s);
		return NULL;
	}
	src.regs = t->regs;
	if (!unwind_walk(&src, s)) {
		mem_free(s);
		return NULL;
	}
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
