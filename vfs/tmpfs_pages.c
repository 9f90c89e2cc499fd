/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of heap memory for file contents: the pool and the tree. See tmpfs_pages.h.
 *
 * Theory of operation, pool: a chunk is 2 MiB, aligned to its size, so that a page finds its chunk
 * by masking. Page 0 of the chunk holds its header. Chunks with free pages are on a list, the
 * fullest-used first being of no concern; one wholly free chunk is kept against thrashing at the
 * border, with some of its memory: who makes and removes one small file after the other has the
 * same pages again, and the host makes none. The lowest free page is given out first, so that the
 * pages of one file tend to be neighbours and a copy to or from user memory takes several at once.
 */
#include "vfs/tmpfs_pages.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/sanitizer.h"
#include "vfs/host_calls.h"

#define CHUNK_SIZE ((size_t)2 << 20)
#define CHUNK_PAGES (CHUNK_SIZE / MOAT_PAGE_SIZE)
/* Pages, with the header, as many as a word of chunk.free has bits. */
#define SPARE_KEEPS 64u

struct chunk {
	LIST_ENTRY(chunk) link;          /* in g_pool.partial, if it has a free page */
	unsigned used;                   /* pages, without the header */
	unsigned fresh;                  /* pages from here on were never given out: still zero */
	unsigned free_count;             /* bits in free */
	uint64_t free[CHUNK_PAGES / 64]; /* pages before fresh that were given back */
};
_Static_assert(sizeof(struct chunk) <= 4096, "the header is one page");

static struct {
	struct mutex lock;
	LIST_HEAD(, chunk) partial;
	struct chunk *spare; /* wholly free, not on the list */
	uint64_t in_use;
	struct san_kept kept;
} g_pool = {.lock = MUTEX_INIT(RANK_LEAF)};

/* A 2 MiB block at a multiple of 2 MiB: map twice as much and cut. */
static struct chunk *chunk_new(void)
{
	char *p = host_map_anon(2 * CHUNK_SIZE);

	if (!p)
		return NULL;
	size_t head = (CHUNK_SIZE - ((uintptr_t)p & (CHUNK_SIZE - 1))) & (CHUNK_SIZE - 1);

	if (head)
		host_unmap(p, head);
	if (CHUNK_SIZE - head)
		host_unmap(p + head + CHUNK_SIZE, CHUNK_SIZE - head);
	struct chunk *k = (struct chunk *)(void *)(p + head);

	k->fresh = 1;
	return k;
}

static unsigned lowest_free(const struct chunk *k)
{
	unsigned w = 0;

	while (!k->free[w])
		w++;
	return w * 64 + (unsigned)__builtin_ctzll(k->free[w]);
}

void *tmpfs_page_alloc(void)
{
	bool dirty = false;
	unsigned n;

	if (fail_now(FAIL_ALLOC))
		return NULL;
	mutex_lock(&g_pool.lock);
	struct chunk *k = LIST_FIRST(&g_pool.partial);

	if (!k) {
		k = g_pool.spare;
		g_pool.spare = NULL;
		if (!k) {
			k = chunk_new();
			if (!k) {
				mutex_unlock(&g_pool.lock);
				return NULL;
			}
		}
		LIST_INSERT_HEAD(&g_pool.partial, k, link);
	}
	if (k->free_count) {
		n = lowest_free(k);
		k->free[n / 64] &= ~((uint64_t)1 << n % 64);
		k->free_count--;
		dirty = true;
	} else {
		n = k->fresh++;
	}
	if (++k->used == CHUNK_PAGES - 1)
		LIST_REMOVE(k, link);
	g_pool.in_use++;
	mutex_unlock(&g_pool.lock);

	void *page = (char *)k + (size_t)n * MOAT_PAGE_SIZE;

	san_show(page, MOAT_PAGE_SIZE);
	if (dirty)
		memset(page, 0, MOAT_PAGE_SIZE);
	return page;
}

/* @k is wholly free. What others may need more goes back to the host. */
static void spare_keep(struct chunk *k)
{
	g_pool.spare = k;
	if (k->fresh <= SPARE_KEEPS)
		return;
	host_drop_pages((char *)k + SPARE_KEEPS * MOAT_PAGE_SIZE,
			CHUNK_SIZE - SPARE_KEEPS * MOAT_PAGE_SIZE);
	memset(k->free, 0, sizeof(k->free));
	k->free[0] = ~UINT64_C(1); /* all but the header */
	k->free_count = SPARE_KEEPS - 1;
	k->fresh = SPARE_KEEPS;
}

/* Back into its chunk; returns the chunk if that is to go. */
static struct chunk *page_put_locked(void *page)
{
	struct chunk *k = (struct chunk *)((uintptr_t)page & ~(uintptr_t)(CHUNK_SIZE - 1));
	unsigned n = (unsigned)(((uintptr_t)page & (CHUNK_SIZE - 1)) / MOAT_PAGE_SIZE);
	struct chunk *gone = NULL;

	if (k->used == CHUNK_PAGES - 1)
		LIST_INSERT_HEAD(&g_pool.partial, k, link);
	k->free[n / 64] |= (uint64_t)1 << n % 64;
	k->free_count++;
	if (--k->used == 0) {
		LIST_REMOVE(k, link);
		if (g_pool.spare)
			gone = k;
		else
			spare_keep(k);
	}
	return gone;
}

void tmpfs_page_free(void *page)
{
	struct chunk *gone = NULL;

	mutex_lock(&g_pool.lock);
	g_pool.in_use--;
	san_hide(page, MOAT_PAGE_SIZE);
	page = san_keep(&g_pool.kept, page);
	if (page)
		gone = page_put_locked(page);
	mutex_unlock(&g_pool.lock);
	if (gone) {
		san_show(gone, CHUNK_SIZE);
		host_unmap(gone, CHUNK_SIZE);
	}
}

uint64_t tmpfs_pages_in_use(void)
{
	mutex_lock(&g_pool.lock);
	uint64_t n = g_pool.in_use;

	mutex_unlock(&g_pool.lock);
	return n;
}

/* ---- the tree ---- */

#define TREE_BITS 6
#define TREE_SLOTS (1u << TREE_BITS)

struct tree_node {
	void *slot[TREE_SLOTS];
	unsigned used;
};

/* The number of indices that a subtree of height @h covers. */
static uint64_t tree_span(unsigned h)
{
	return h * TREE_BITS >= 64 ? UINT64_MAX : (uint64_t)1 << (h * TREE_BITS);
}

static bool tree_covers(const struct page_tree *t, uint64_t index)
{
	return t->root && (t->height * TREE_BITS >= 64 || index < tree_span(t->height));
}

static unsigned slot_of(uint64_t index, unsigned h)
{
	return (unsigned)(index >> ((h - 1) * TREE_BITS)) & (TREE_SLOTS - 1);
}

void *page_tree_find(const struct page_tree *t, uint64_t index)
{
	if (!tree_covers(t, index))
		return NULL;
	void *p = t->root;

	for (unsigned h = t->height; h && p; h--)
		p = ((struct tree_node *)p)->slot[slot_of(index, h)];
	return p;
}

int page_tree_add(struct page_tree *t, uint64_t index, void *page)
{
	if (!t->root) {
		/* Without any page: just high enough. Nodes on the way are made below. */
		t->height = 0;
		while (!(t->height * TREE_BITS >= 64 || index < tree_span(t->height)))
			t->height++;
	}
	while (t->root && !tree_covers(t, index)) {
		struct tree_node *n = mem_zalloc(sizeof(*n));

		if (!n)
			return -ENOMEM;
		n->slot[0] = t->root;
		n->used = 1;
		t->root = n;
		t->height++;
	}
	void **where = &t->root;
	struct tree_node *parent = NULL;

	for (unsigned h = t->height; h; h--) {
		if (!*where) {
			struct tree_node *n = mem_zalloc(sizeof(*n));

			if (!n) {
				/* Empty nodes may stay behind; only an empty root would be wrong.
				 */
				struct tree_node *r = t->root;

				if (r && t->count == 0)
					page_tree_forget(t);
				return -ENOMEM;
			}
			*where = n;
			if (parent)
				parent->used++;
		}
		parent = *where;
		where = &parent->slot[slot_of(index, h)];
	}
	*where = page;
	if (parent)
		parent->used++;
	t->count++;
	return 0;
}

/* Visits the subtree of height @h that begins at @base; frees pages within [first, end). Returns
 * the subtree, NULL if nothing is left of it. Recursion is at most 11 deep. */
static void *free_below(void *p, unsigned h, uint64_t base, uint64_t first, uint64_t end,
			uint64_t *freed)
{
	if (h == 0) {
		tmpfs_page_free(p);
		(*freed)++;
		return NULL;
	}
	struct tree_node *n = p;
	uint64_t step = tree_span(h - 1);

	for (unsigned s = 0; s < TREE_SLOTS; s++) {
		uint64_t from = base + s * step;

		if (!n->slot[s] || from >= end || from + (step - 1) < first)
			continue;
		n->slot[s] = free_below(n->slot[s], h - 1, from, first, end, freed);
		if (!n->slot[s])
			n->used--;
	}
	if (n->used)
		return n;
	mem_free(n);
	return NULL;
}

uint64_t page_tree_free_range(struct page_tree *t, uint64_t first, uint64_t end)
{
	uint64_t freed = 0;

	if (!t->root || first >= end || (t->height == 0 && first > 0))
		return 0;
	t->root = free_below(t->root, t->height, 0, first, end, &freed);
	t->count -= freed;
	return freed;
}

void *page_tree_remove(struct page_tree *t, uint64_t index)
{
	struct tree_node *way[12];
	void *page = page_tree_find(t, index);

	if (!page)
		return NULL;
	void *p = t->root;

	for (unsigned h = t->height; h; h--) {
		way[h] = p;
		p = way[h]->slot[slot_of(index, h)];
	}
	unsigned h = 1;

	for (; h <= t->height; h++) {
		way[h]->slot[slot_of(index, h)] = NULL;
		if (--way[h]->used)
			break;
		mem_free(way[h]);
	}
	if (h > t->height)
		t->root = NULL;
	t->count--;
	return page;
}

static void *next_below(void *p, unsigned h, uint64_t base, uint64_t *index)
{
	if (h == 0) {
		*index = base;
		return p;
	}
	struct tree_node *n = p;
	uint64_t step = tree_span(h - 1);
	unsigned s = *index > base ? slot_of(*index, h) : 0;

	for (; s < TREE_SLOTS; s++) {
		if (!n->slot[s])
			continue;
		void *page = next_below(n->slot[s], h - 1, base + s * step, index);

		if (page)
			return page;
	}
	return NULL;
}

void *page_tree_next(const struct page_tree *t, uint64_t *index)
{
	return tree_covers(t, *index) ? next_below(t->root, t->height, 0, index) : NULL;
}

uint64_t page_tree_next_hole(const struct page_tree *t, uint64_t index)
{
	while (page_tree_find(t, index))
		index++;
	return index;
}

static void forget_below(void *p, unsigned h)
{
	struct tree_node *n = p;

	if (h == 0)
		return;
	for (unsigned s = 0; s < TREE_SLOTS; s++)
		if (n->slot[s])
			forget_below(n->slot[s], h - 1);
	mem_free(n);
}

void page_tree_forget(struct page_tree *t)
{
	if (t->root)
		forget_below(t->root, t->height);
	*t = (struct page_tree){0};
}
