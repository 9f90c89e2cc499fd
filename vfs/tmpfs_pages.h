/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of heap memory for file contents, and the sparse tree that maps page numbers to them.
 *
 * Pool: pages come from 2 MiB chunks; a chunk all of whose pages are free goes back to the host, so
 * removing many files really frees their memory. Tree: 64 slots a node, as high as its largest
 * index needs.
 *
 * Locking: the pool has its own lock (RANK_LEAF); a tree is its owner's to lock.
 */
#ifndef MOAT_VFS_TMPFS_PAGES_H
#define MOAT_VFS_TMPFS_PAGES_H

#include "base/types.h"

void *tmpfs_page_alloc(void) MUST_USE; /* zeroed; NULL: no memory */
void tmpfs_page_free(void *page);
/* Pages in use over all file systems, for tests. */
uint64_t tmpfs_pages_in_use(void);

struct page_tree {
	void *root; /* a page at height 0, else a node */
	unsigned height;
	uint64_t count; /* pages */
};

void *page_tree_find(const struct page_tree *t, uint64_t index);
/* The slot must be empty. -ENOMEM. The page is the tree's then. */
int page_tree_add(struct page_tree *t, uint64_t index, void *page) MUST_USE;
/* Takes the page out; NULL if there is none. */
void *page_tree_remove(struct page_tree *t, uint64_t index);
/* The first page at or after *index (updated), or NULL. */
void *page_tree_next(const struct page_tree *t, uint64_t *index);
/* The first index at or after @index without a page. */
uint64_t page_tree_next_hole(const struct page_tree *t, uint64_t index);
/* Frees the pages from @first up to and without @end. Returns how many. */
uint64_t page_tree_free_range(struct page_tree *t, uint64_t first, uint64_t end);
/* Frees the nodes but not the pages (they moved to another tree). */
void page_tree_forget(struct page_tree *t);

#endif
