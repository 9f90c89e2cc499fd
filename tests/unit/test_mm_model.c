/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory map against a model: random mmap, munmap, mprotect, mremap, madvise on a window of
 * pages, compared after each call with an array of pages: what the list says, what the platform
 * lets through, and what is in the pages. Then the same with steps that fail: the list must still
 * describe what is.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "sentry/mm_ops.h"
#include "tests/unit/kernel_env.h"

#define BASE ((uint64_t)0x20000000)
#define PAGES 48u
#define STEPS 6000u
#define RW (LX_PROT_READ | LX_PROT_WRITE)

struct page {
	bool mapped, shared;
	uint32_t prot;
	uint8_t tag;     /* the first byte */
	unsigned object; /* shared: which object, and which page of it */
	unsigned index;
};

static struct page g_model[PAGES];
static unsigned g_objects;
/* Contents of the pages of shared objects. */
static uint8_t g_contents[4096][PAGES];

static uint64_t addr_of(unsigned page)
{
	return BASE + (uint64_t)page * MOAT_PAGE_SIZE;
}

static struct mm *my_mm(struct mock_thread *mt)
{
	struct task *t = task_find((int32_t)SYS(mt, gettid));
	struct mm *mm = task_get_mm(t);

	task_put(t);
	return mm;
}

/* ---- what must always hold ---- */

static uint64_t check_subtree(const struct vma *v)
{
	uint64_t max;

	if (!v)
		return 0;
	max = MAX(v->gap, MAX(check_subtree(RB_LEFT(v, node)), check_subtree(RB_RIGHT(v, node))));
	cr_assert_eq(v->max_gap, max, "max_gap of %#lx", v->start);
	return max;
}

static void check_tree(struct mm *mm) NO_TSA
{
	uint64_t at = 0, total = 0, data = 0, locked = 0, stack = 0;
	unsigned count = 0;
	struct vma *v;

	vma_foreach (v, mm) {
		uint64_t n = v->end - v->start, low = vma_gap_end(v);

		cr_assert(v->start < v->end && v->start >= at, "order at %#lx", v->start);
		cr_assert_eq((v->start | v->end) % MOAT_PAGE_SIZE, 0);
		cr_assert_eq(v->gap, low > at ? low - at : 0, "gap of %#lx", v->start);
		at = v->end;
		total += n;
		locked += v->flags & VMA_LOCKED ? n : 0;
		if (v->flags & VMA_GROWSDOWN)
			stack += n;
		else if ((v->prot & LX_PROT_WRITE) && !(v->flags & VMA_SHARED))
			data += n;
		count++;
	}
	cr_assert_eq(mm->vma_count, count);
	cr_assert_eq(mm->total_bytes, total);
	cr_assert_eq(mm->data_bytes, data);
	cr_assert_eq(mm->locked_bytes, locked);
	cr_assert_eq(mm->stack_bytes, stack);
	check_subtree(RB_ROOT(&mm->vmas));
}

static uint8_t *content(struct page *p)
{
	return p->shared ? &g_contents[p->object][p->index] : &p->tag;
}

/* Reads a page's first byte: 0 or -EFAULT. */
static int peek(struct mm *mm, unsigned page, uint8_t *b)
{
	return copy_in_mm(mm, b, GADDR(addr_of(page)), 1) == 1 ? 0 : -EFAULT;
}

static void check_page(struct mm *mm, unsigned i, const char *after) NO_TSA
{
	struct page *p = &g_model[i];
	struct vma *v = mm_find(mm, addr_of(i));
	bool mapped = v && v->start <= addr_of(i);
	uint8_t b = 0;

	cr_assert_eq(mapped, p->mapped, "page %u after %s", i, after);
	if (mapped) {
		cr_assert_eq(v->prot, p->prot, "page %u after %s", i, after);
		cr_assert_eq(!!(v->flags & VMA_SHARED), p->shared, "page %u after %s", i, after);
	}
	cr_assert_eq(peek(mm, i, &b) == 0, mapped && (p->prot & LX_PROT_READ), "page %u after %s",
		     i, after);
	if (mapped && (p->prot & LX_PROT_READ))
		cr_assert_eq(b, *content(p), "page %u after %s: %u, not %u", i, after, b,
			     *content(p));
}

static void check_all(struct mm *mm, const char *after)
{
	fmutex_lock(&mm->lock);
	check_tree(mm);
	for (unsigned i = 0; i < PAGES; i++)
		check_page(mm, i, after);
	fmutex_unlock(&mm->lock);
}

/* ---- one step each: the call, and what the model says of it ---- */

static unsigned below(unsigned n)
{
	return (unsigned)rand() % n;
}

static void pick_range(unsigned *first, unsigned *n)
{
	*first = below(PAGES);
	*n = 1 + below(MIN(PAGES - *first, 12u));
}

static uint32_t pick_prot(void)
{
	static const uint32_t prots[] = {0, LX_PROT_READ, RW, RW, RW, LX_PROT_READ | LX_PROT_EXEC};

	return prots[below(ARRAY_SIZE(prots))];
}

static long step_mmap(struct mock_thread *mt, const char **what)
{
	bool shared = below(4) == 0 && g_objects < ARRAY_SIZE(g_contents) - 1;
	uint32_t prot = pick_prot(), flags = LX_MAP_ANONYMOUS | LX_MAP_FIXED;
	unsigned first, n;
	long r;

	*what = "mmap";
	pick_range(&first, &n);
	r = SYS(mt, mmap, addr_of(first), n * MOAT_PAGE_SIZE, prot,
		flags | (shared ? LX_MAP_SHARED : LX_MAP_PRIVATE), -1, 0);
	if (r < 0)
		return r;
	cr_assert_eq((uint64_t)r, addr_of(first));
	if (shared)
		g_objects++;
	for (unsigned i = 0; i < n; i++)
		g_model[first + i] = (struct page){.mapped = true,
						   .prot = prot,
						   .shared = shared,
						   .object = g_objects,
						   .index = i};
	return 0;
}

static long step_munmap(struct mock_thread *mt, const char **what)
{
	unsigned first, n;
	long r;

	*what = "munmap";
	pick_range(&first, &n);
	r = SYS(mt, munmap, addr_of(first), n * MOAT_PAGE_SIZE);
	if (r == 0)
		memset(&g_model[first], 0, n * sizeof(g_model[0]));
	return r;
}

static long step_mprotect(struct mock_thread *mt, const char **what)
{
	uint32_t prot = pick_prot();
	unsigned first, n, i;
	long r;

	*what = "mprotect";
	pick_range(&first, &n);
	r = SYS(mt, mprotect, addr_of(first), n * MOAT_PAGE_SIZE, prot);
	if (r && r != -ENOMEM)
		return r;
	for (i = 0; i < n && g_model[first + i].mapped; i++)
		g_model[first + i].prot = prot;
	cr_assert_eq(r, i == n ? 0 : -ENOMEM, "mprotect stops at the first hole");
	return r;
}

static long step_dontneed(struct mock_thread *mt, const char **what)
{
	unsigned first, n;
	bool hole = false;
	long r;

	*what = "madvise";
	pick_range(&first, &n);
	r = SYS(mt, madvise, addr_of(first), n * MOAT_PAGE_SIZE, 4);
	if (r && r != -ENOMEM)
		return r;
	for (unsigned i = 0; i < n; i++) {
		struct page *p = &g_model[first + i];

		hole |= !p->mapped;
		if (p->mapped && !p->shared)
			p->tag = 0;
	}
	cr_assert_eq(r, hole ? -ENOMEM : 0);
	return r;
}

static bool same_kind(unsigned a, unsigned b)
{
	const struct page *p = &g_model[a], *q = &g_model[b];

	return p->mapped && q->mapped && p->prot == q->prot && p->shared == q->shared &&
	       (!p->shared || (p->object == q->object && p->index + (b - a) == q->index));
}

/* MREMAP_FIXED, with a target that does not overlap. */
static long step_mremap(struct mock_thread *mt, const char **what)
{
	unsigned from, n, to;
	struct page moved[16];
	bool whole = true, dontunmap = below(4) == 0;
	long r;

	*what = "mremap";
	pick_range(&from, &n);
	to = below(PAGES - n + 1);
	if (to < from + n && from < to + n)
		return 0;
	if (!g_model[from].mapped)
		return 0;
	for (unsigned i = 0; i < n; i++)
		whole &= same_kind(from, from + i);
	r = SYS(mt, mremap, addr_of(from), n * MOAT_PAGE_SIZE, n * MOAT_PAGE_SIZE,
		LX_MREMAP_MAYMOVE | LX_MREMAP_FIXED | (dontunmap ? LX_MREMAP_DONTUNMAP : 0),
		addr_of(to));
	/* Pieces that are one mapping for us may be several for the host, as they may be in Linux.
	 */
	cr_assert(whole || r == -EFAULT, "mremap of more than one mapping: %ld", r);
	/* If it is the host that refuses, the target is gone already. */
	if (r < 0 && whole)
		memset(&g_model[to], 0, n * sizeof(g_model[0]));
	if (r < 0)
		return r;
	memcpy(moved, &g_model[from], n * sizeof(moved[0]));
	for (unsigned i = 0; i < n; i++) {
		if (!dontunmap)
			g_model[from + i] = (struct page){0};
		else if (!g_model[from + i].shared)
			g_model[from + i].tag = 0;
	}
	memcpy(&g_model[to], moved, n * sizeof(moved[0]));
	return 0;
}

/* Writes something where it can be written. */
static void scribble(struct mm *mm)
{
	unsigned i = below(PAGES);
	uint8_t b = (uint8_t)(1 + below(255));
	struct page *p = &g_model[i];

	if (!p->mapped || !(p->prot & LX_PROT_WRITE))
		return;
	cr_assert_eq(copy_out_mm(mm, GADDR(addr_of(i)), &b, 1), 1);
	*content(p) = b;
}

static long (*const steps[])(struct mock_thread *mt, const char **what) = {
	step_mmap, step_munmap, step_mprotect, step_dontneed, step_mremap,
};

static int model_guest(struct mock_thread *mt, void *arg UNUSED)
{
	struct mm *mm = my_mm(mt);
	const char *what = "start";
	unsigned good = 0;

	for (unsigned i = 0; i < STEPS; i++) {
		good += steps[below(ARRAY_SIZE(steps))](mt, &what) == 0;
		scribble(mm);
		check_all(mm, what);
	}
	cr_expect_gt(good, STEPS / 3);
	mm_put(mm);
	return 0;
}

Test(mm_model, random_calls)
{
	srand(3);
	cr_expect_eq(kernel_env_run(model_guest, NULL), 0);
}

/* ---- with failures ---- */

/* After a failure only this is promised: list and platform agree, and the list is sound. */
static void check_agreement(struct mm *mm, const char *after) NO_TSA
{
	fmutex_lock(&mm->lock);
	check_tree(mm);
	for (unsigned i = 0; i < PAGES; i++) {
		struct vma *v = mm_find(mm, addr_of(i));
		bool mapped = v && v->start <= addr_of(i);
		uint8_t b;

		cr_assert_eq(peek(mm, i, &b) == 0, mapped && (v->prot & LX_PROT_READ),
			     "page %u after a failed %s", i, after);
	}
	fmutex_unlock(&mm->lock);
}

static int failing_guest(struct mock_thread *mt, void *arg UNUSED)
{
	struct mm *mm = my_mm(mt);
	unsigned failed = 0;

	for (unsigned i = 0; i < STEPS / 2; i++) {
		uint64_t old = addr_of(below(PAGES)), new = addr_of(below(PAGES));
		uint64_t n = (1 + below(6)) * MOAT_PAGE_SIZE;
		const char *what = "";
		long r = 0;

		fail_set(below(2) ? FAIL_HOST : FAIL_ALLOC, 1 + below(4));
		switch (below(5)) {
		case 0:
			what = "mmap";
			r = SYS(mt, mmap, old, n, pick_prot(),
				LX_MAP_ANONYMOUS | LX_MAP_FIXED |
					(below(3) ? LX_MAP_PRIVATE : LX_MAP_SHARED),
				-1, 0);
			break;
		case 1:
			what = "munmap";
			r = SYS(mt, munmap, old, n);
			break;
		case 2:
			what = "mprotect";
			r = SYS(mt, mprotect, old, n, pick_prot());
			break;
		case 3:
			what = "mremap";
			r = SYS(mt, mremap, old, n, (1 + below(6)) * MOAT_PAGE_SIZE,
				LX_MREMAP_MAYMOVE | (below(2) ? LX_MREMAP_FIXED : 0), new);
			break;
		default:
			what = "mlock";
			r = SYS(mt, mlock, old, n);
			break;
		}
		failed += r < 0;
		fail_set(FAIL_HOST, 0);
		fail_set(FAIL_ALLOC, 0);
		/* mremap may have moved it out of the window. */
		if (r > 0 && (uint64_t)r >= BASE + PAGES * MOAT_PAGE_SIZE)
			(void)!SYS(mt, munmap, r, n);
		check_agreement(mm, what);
	}
	cr_expect_gt(failed, STEPS / 20);
	mm_put(mm);
	return 0;
}

Test(mm_model, failing_steps)
{
	srand(4);
	cr_expect_eq(kernel_env_run(failing_guest, NULL), 0);
}
