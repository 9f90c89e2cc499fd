/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlay: lists of lower directories. See vfs/overlay_list.h.
 *
 * Theory of operation: the lower is immutable, so that a list, once made, is right for good. Making
 * one takes some six host calls; so it stays with its directory when the directory is closed, until
 * CACHE_BYTES are in use: then the list goes that was used longest ago. Who iterates holds a
 * reference of his own.
 *
 * Locking: g_lists.lock, short, no host call under it.
 */
#include "vfs/overlay_list.h"

#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "vfs/hostfs.h"
#include "vfs/tmpfs_node.h"

#define CACHE_BYTES ((size_t)4 << 20)
/* A list that is longer is its reader's alone. */
#define CACHED_LIST_MAX (CACHE_BYTES / 8)

TAILQ_HEAD(lists, lower_list);

static struct {
	struct mutex lock;
	struct lists lru; /* [lock] the last is the one used last */
	size_t bytes;     /* [lock] */
} g_lists = {.lock = MUTEX_INIT(RANK_MISC), .lru = TAILQ_HEAD_INITIALIZER(g_lists.lru)};

static int list_add(void *arg, const char *name, size_t len, uint64_t ino, unsigned dtype)
{
	struct lower_list *l = arg;

	if (l->count == l->room) {
		size_t room = l->room ? l->room * 2 : 64;
		void *more = mem_realloc(l->entry, room * sizeof(*l->entry));

		if (!more)
			return -ENOMEM;
		l->entry = more;
		l->room = room;
	}
	if (l->text_size + len > l->text_room) {
		size_t room = MAX(l->text_room * 2, l->text_size + len + 1024);
		char *more = room <= UINT32_MAX ? mem_realloc(l->text, room) : NULL;

		if (!more)
			return -ENOMEM;
		l->text = more;
		l->text_room = room;
	}
	memcpy(l->text + l->text_size, name, len);
	l->entry[l->count++] = (struct lower_name){.ino = ino,
						   .name = (uint32_t)l->text_size,
						   .len = (uint16_t)len,
						   .dtype = (uint8_t)dtype};
	l->text_size += len;
	return 0;
}

void overlay_list_put(struct lower_list *l)
{
	if (!l || !ref_put(&l->ref))
		return;
	mem_free(l->entry);
	mem_free(l->text);
	mem_free(l);
}

static int list_make(struct inode *dir, struct lower_list **out)
{
	struct lower_list *l = mem_zalloc(sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	ref_init(&l->ref);
	r = hostfs_list(tnode_of(dir)->lower, list_add, l);
	if (r < 0) {
		overlay_list_put(l);
		return r;
	}
	*out = l;
	return 0;
}

static size_t list_bytes(const struct lower_list *l)
{
	return sizeof(*l) + l->room * sizeof(*l->entry) + l->text_room;
}

/* Takes @l out of the cache, whose reference is the caller's then. */
static void uncache_locked(struct lower_list *l)
{
	TAILQ_REMOVE(&g_lists.lru, l, lru);
	g_lists.bytes -= list_bytes(l);
	if (l->owner) /* always, but the analyser cannot know */
		l->owner->list = NULL;
	l->owner = NULL;
}

static void list_cache(struct tnode *t, struct lower_list *l)
{
	struct lists dead = TAILQ_HEAD_INITIALIZER(dead);
	struct lower_list *old;

	if (list_bytes(l) > CACHED_LIST_MAX)
		return;
	mutex_lock(&g_lists.lock);
	if (!t->list) {
		ref_get(&l->ref);
		l->owner = t;
		t->list = l;
		TAILQ_INSERT_TAIL(&g_lists.lru, l, lru);
		g_lists.bytes += list_bytes(l);
	}
	while (g_lists.bytes > CACHE_BYTES) {
		old = TAILQ_FIRST(&g_lists.lru);
		uncache_locked(old);
		TAILQ_INSERT_TAIL(&dead, old, lru);
	}
	mutex_unlock(&g_lists.lock);
	while ((old = TAILQ_FIRST(&dead)) != NULL) {
		TAILQ_REMOVE(&dead, old, lru);
		overlay_list_put(old);
	}
}

int overlay_list_get(struct inode *dir, struct lower_list **out)
{
	struct tnode *t = tnode_of(dir);
	struct lower_list *l;
	int r;

	mutex_lock(&g_lists.lock);
	l = t->list;
	if (l) {
		ref_get(&l->ref);
		TAILQ_REMOVE(&g_lists.lru, l, lru);
		TAILQ_INSERT_TAIL(&g_lists.lru, l, lru);
	}
	mutex_unlock(&g_lists.lock);
	if (l) {
		*out = l;
		return 0;
	}
	r = list_make(dir, &l);
	if (r < 0)
		return r;
	list_cache(t, l);
	*out = l;
	return 0;
}

void overlay_list_forget(struct tnode *t)
{
	struct lower_list *l;

	mutex_lock(&g_lists.lock);
	l = t->list;
	if (l)
		uncache_locked(l);
	mutex_unlock(&g_lists.lock);
	overlay_list_put(l);
}
