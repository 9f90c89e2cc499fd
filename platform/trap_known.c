/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of the call sites of files: who maps one need not learn them again.
 *
 * Theory of operation. A program that is executed finds its C library as the file has it: each of
 * its sites would have to trap often before it is rewritten, and most programs end before that. So
 * a site that was rewritten in a private mapping of a file is noted here by the file's key and the
 * place in the file, with the text that it was judged by. In another address space it is rewritten
 * after few traps (TR_KNOWN_HOT), if its text is, byte for byte, what was judged. Not all that are
 * known at once: most of what is executed uses few of them.
 *
 * Trust. That a syscall instruction is executed at an address was proved by the process that the
 * site was learnt from, and a hostile one can jump into the middle of another instruction. So what
 * is learnt counts only for those who could change each other's memory anyway (struct
 * pf_text.trust); to them it does no more than that.
 *
 * Locking: g_known.lock (leaf).
 */
#include <string.h>
#include "base/hash.h"
#include "platform/trap.h"
#include "platform/trap_site.h"

/* Files, and the sites of one: libraries that many programs share. Beyond that nothing is learnt.
 */
#define FILES_MAX 256u
#define SITES_MAX 64u

struct known_file {
	uint64_t key, trust;
	struct tr_known *sites; /* only appended to */
	unsigned count, room;
	struct known_file *next; /* of the same key */
};

static struct {
	struct mutex lock;
	struct htable files; /* [lock] by key: the first of a chain */
	unsigned count;      /* [lock] of files */
	_Atomic bool any;
} g_known = {.lock = MUTEX_INIT(RANK_LEAF)};

static void file_free(struct known_file *f)
{
	mem_free(f->sites);
	mem_free(f);
}

void tr_known_start(void)
{
	htable_init_sure(&g_known.files);
}

void tr_known_stop(void)
{
	struct known_file *f, *next;
	size_t pos = 0;

	while ((f = htable_next(&g_known.files, &pos)) != NULL) {
		for (; f; f = next) {
			next = f->next;
			file_free(f);
		}
	}
	htable_fini(&g_known.files);
	g_known.count = 0;
	atomic_store(&g_known.any, false);
}

static bool key_eq(const void *entry, const void *key)
{
	return ((const struct known_file *)entry)->key == *(const uint64_t *)key;
}

static struct known_file *find_locked(uint64_t key, uint64_t trust)
{
	struct known_file *f = htable_find(&g_known.files, hash_u64(key), key_eq, &key);

	while (f && f->trust != trust)
		f = f->next;
	return f;
}

/* NULL: no memory, or too many. */
static struct known_file *get_locked(const struct pf_text *text)
{
	struct known_file *f = find_locked(text->file_key, text->trust), *first;

	if (f || g_known.count == FILES_MAX)
		return f;
	f = mem_zalloc(sizeof(*f));
	if (!f)
		return NULL;
	f->key = text->file_key;
	f->trust = text->trust;
	first = htable_find(&g_known.files, hash_u64(f->key), key_eq, &f->key);
	if (first) {
		f->next = first->next;
		first->next = f;
	} else if (htable_insert(&g_known.files, hash_u64(f->key), f) < 0) {
		mem_free(f);
		return NULL;
	}
	g_known.count++;
	return f;
}

bool tr_known_any(void)
{
	return atomic_load_explicit(&g_known.any, memory_order_relaxed);
}

void tr_known_add(const struct pf_text *text, const struct tr_known *site)
{
	struct known_file *f;

	if (text->file_key == 0 || text->trust == 0)
		return;
	mutex_lock(&g_known.lock);
	f = get_locked(text);
	if (f && f->count == f->room && f->room < SITES_MAX) {
		const unsigned room = f->room ? 2 * f->room : 8;
		struct tr_known *sites = mem_realloc(f->sites, room * sizeof(*sites));

		if (sites) {
			f->sites = sites;
			f->room = room;
		}
	}
	for (unsigned i = 0; f && i < f->count; i++) {
		/* Learnt from another, meanwhile. */
		if (f->sites[i].offset == site->offset)
			f = NULL;
	}
	if (f && f->count < f->room) {
		f->sites[f->count++] = *site;
		atomic_store_explicit(&g_known.any, true, memory_order_relaxed);
	}
	mutex_unlock(&g_known.lock);
}

bool tr_known_find(const struct pf_text *text, uint64_t call, struct tr_known *out)
{
	const uint64_t offset = text->offset + (call - text->low);
	struct known_file *f;
	bool found = false;

	if (text->file_key == 0 || text->trust == 0)
		return false;
	mutex_lock(&g_known.lock);
	f = find_locked(text->file_key, text->trust);
	for (unsigned i = 0; f && i < f->count && !found; i++) {
		found = f->sites[i].offset == offset;
		if (found)
			*out = f->sites[i];
	}
	mutex_unlock(&g_known.lock);
	return found;
}

void tr_known_forget(uint64_t key)
{
	struct known_file *f, *next;

	if (!tr_known_any() || key == 0)
		return;
	mutex_lock(&g_known.lock);
	f = htable_find(&g_known.files, hash_u64(key), key_eq, &key);
	if (f)
		(void)htable_remove(&g_known.files, hash_u64(key), f);
	for (; f; f = next) {
		next = f->next;
		g_known.count--;
		file_free(f);
	}
	mutex_unlock(&g_known.lock);
}
