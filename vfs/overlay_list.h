/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names in a lower directory, as an overlay lists them.
 */
#ifndef MOAT_VFS_OVERLAY_LIST_H
#define MOAT_VFS_OVERLAY_LIST_H

#include "base/alloc.h"
#include "base/queue.h"
#include "base/types.h"

struct inode;
struct tnode;

struct lower_list {
	struct lower_name {
		uint64_t ino;
		uint32_t name; /* offset in text */
		uint16_t len;
		uint8_t dtype;
	} * entry;
	size_t count, room;
	char *text;
	size_t text_size, text_room;
	/* overlay_list.c's own. */
	struct ref ref;
	struct tnode *owner; /* NULL: not in the cache */
	TAILQ_ENTRY(lower_list) lru;
};

/* The names in the lower of overlay directory @dir, in its order. *out: a reference; nobody changes
 * it. */
int overlay_list_get(struct inode *dir, struct lower_list **out) MUST_USE;
void overlay_list_put(struct lower_list *l); /* NULL: nothing */
/* @t is being freed. */
void overlay_list_forget(struct tnode *t);

#endif
