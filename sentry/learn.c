/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of paths that a run uses. See sentry/learn.h.
 */
#include "sentry/learn.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/meter.h"
#include "sentry/task.h"
#include "vfs/mount.h"
#include "vfs/dcache.h"
#include "vfs/hostfs.h"
#include "vfs/inode.h"

#include <string.h>

/* More names than any policy has rules; what is beyond is said. */
#define USES_MAX ((size_t)1 << 20)

struct use {
	uint64_t hash;
	unsigned how;    /* 0: a denial */
	const char *why; /* of a denial */
	char *path;
};

bool g_learning;

static struct {
	struct mutex lock;
	struct use *uses;  /* [lock] */
	size_t count;      /* [lock] */
	uint32_t *slots;   /* [lock] index + 1, by hash; 0: free */
	size_t slot_count; /* [lock] a power of two, at least twice count */
	bool lost;         /* [lock] */
} g_learn = {.lock = MUTEX_INIT(RANK_LEAF)};

void learn_start(void)
{
	g_learning = g_vfs_learning = true;
}

/* Room for another. */
static bool grow(void) REQUIRES(g_learn.lock)
{
	size_t n = MAX(2 * g_learn.slot_count, (size_t)4096);
	struct use *uses;
	uint32_t *slots;

	if (g_learn.count >= USES_MAX)
		return false;
	if (2 * (g_learn.count + 1) <= g_learn.slot_count)
		return true;
	uses = mem_realloc(g_learn.uses, n / 2 * sizeof(*uses));
	if (!uses)
		return false;
	g_learn.uses = uses;
	slots = mem_calloc(n, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < g_learn.count; i++) {
		size_t at = uses[i].hash & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = (uint32_t)i + 1;
	}
	mem_free(g_learn.slots);
	g_learn.slots = slots;
	g_learn.slot_count = n;
	return true;
}

static void note(const char *path, size_t size, unsigned how, const char *why)
{
	const uint64_t hash = hash_bytes(path, size, why ? hash_bytes(why, strlen(why), 1) : 0);
	struct use *u = NULL;
	size_t at;

	mutex_lock(&g_learn.lock);
	if (!grow()) {
		g_learn.lost = true;
		mutex_unlock(&g_learn.lock);
		return;
	}
	at = hash & (g_learn.slot_count - 1);
	for (; g_learn.slots[at]; at = (at + 1) & (g_learn.slot_count - 1)) {
		u = &g_learn.uses[g_learn.slots[at] - 1];
		if (u->hash == hash && u->why == why && strlen(u->path) == size &&
		    memcmp(u->path, path, size) == 0)
			break;
		u = NULL;
	}
	if (!u) {
		char *copy = mem_zalloc(size + 1);

		if (copy) {
			memcpy(copy, path, size);
			u = &g_learn.uses[g_learn.count++];
			*u = (struct use){.hash = hash, .why = why, .path = copy};
			g_learn.slots[at] = (uint32_t)g_learn.count;
		}
	}
	if (u)
		u->how |= how;
	else
		g_learn.lost = true;
	mutex_unlock(&g_learn.lock);
}

void learn_used(const struct path *p, unsigned how)
{
	struct inode *i = dentry_inode(p->dentry);
	const struct super *s = p->dentry->super;
	char *path;
	ssize_t n;

	/* Of ours only what stands in /dev can be granted or not. */
	if (!current_task() || !p->mnt || !i ||
	    (s->type != &g_hostfs_type && hostfs_is_pseudo_magic(s->magic)))
		return;
	path = mem_zalloc(LX_PATH_MAX);
	n = path ? path_text(p, NULL, path, LX_PATH_MAX) : -1;
	if (n > 0 && (s->type == &g_hostfs_type || strncmp(path, "/dev/", 5) == 0) &&
	    !path_unlinked(p)) {
		const uint32_t mode = inode_mode(i);

		note(path, strnlen(path, (size_t)n),
		     how | (LX_S_ISDIR(mode) ? LEARN_DIRECTORY : 0) |
			     (LX_S_ISLNK(mode) ? LEARN_LINK : 0),
		     NULL);
	}
	mem_free(path);
}

void learn_denied(const char *why, const char *path)
{
	note(path, strlen(path), 0, why);
}

void learn_write(FILE *f)
{
	mutex_lock(&g_learn.lock);
	for (size_t i = 0; i < g_learn.count; i++) {
		const struct use *u = &g_learn.uses[i];

		if (u->why)
			fprintf(f, "d %s %s%c", u->why, u->path, 0);
		else
			fprintf(f, "u %x %s%c", u->how, u->path, 0);
	}
	for (unsigned m = 0; m < METER_COUNT; m++)
		fprintf(f, "m %s %llu%c", meter_name((enum meter)m),
			(unsigned long long)atomic_load_explicit(&g_meters[m].peak,
								 memory_order_relaxed),
			0);
	if (!g_learn.lost)
		fprintf(f, ".%c", 0);
	mutex_unlock(&g_learn.lock);
}
