/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials. See vfs/cred.h.
 *
 * Locking: none. A cred is written only between cred_dup and the moment it is shared.
 */
#include <stdlib.h>
#include <string.h>
#include "vfs/cred.h"

static struct cred_groups *groups_get(struct cred_groups *g)
{
	ref_get(&g->ref);
	return g;
}

static void groups_put(struct cred_groups *g)
{
	if (g && ref_put(&g->ref))
		mem_free(g);
}

struct cred_groups *cred_groups_new(uint32_t count)
{
	if (count > LX_NGROUPS_MAX)
		return NULL;

	struct cred_groups *g = mem_zalloc(sizeof(*g) + count * sizeof(g->gid[0]));

	if (!g)
		return NULL;
	ref_init(&g->ref);
	g->count = count;
	return g;
}

struct cred *cred_new(uint32_t uid, uint32_t gid, uint64_t caps)
{
	struct cred *c = mem_zalloc(sizeof(*c));

	if (!c)
		return NULL;
	c->groups = cred_groups_new(0);
	if (!c->groups) {
		mem_free(c);
		return NULL;
	}
	ref_init(&c->ref);
	c->uid = c->euid = c->suid = c->fsuid = uid;
	c->gid = c->egid = c->sgid = c->fsgid = gid;
	c->cap_bset = caps & LX_CAP_ALL;
	if (uid == 0)
		c->cap_permitted = c->cap_effective = c->cap_bset;
	return c;
}

struct cred *cred_dup(const struct cred *c)
{
	struct cred *n = mem_zalloc(sizeof(*n));

	if (!n)
		return NULL;
	/* Field by field what is not the count: others count on @c at this moment. */
	memcpy((char *)n + offsetof(struct cred, uid), (const char *)c + offsetof(struct cred, uid),
	       sizeof(*n) - offsetof(struct cred, uid));
	ref_init(&n->ref);
	groups_get(n->groups);
	return n;
}

struct cred *cred_get(struct cred *c)
{
	ref_get(&c->ref);
	return c;
}

void cred_put(struct cred *c)
{
	if (!c || !ref_put(&c->ref))
		return;
	groups_put(c->groups);
	mem_free(c);
}

bool cred_capable(const struct cred *c, int cap)
{
	if (cap < 0 || cap > LX_CAP_LAST)
		return false;
	return (c->cap_effective >> cap) & 1;
}

static bool groups_have(const struct cred_groups *g, uint32_t gid)
{
	uint32_t low = 0, high = g->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (g->gid[mid] == gid)
			return true;
		if (g->gid[mid] < gid)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}

bool cred_in_group(const struct cred *c, uint32_t gid)
{
	return c->fsgid == gid || groups_have(c->groups, gid);
}

bool cred_in_egroup(const struct cred *c, uint32_t gid)
{
	return c->egid == gid || groups_have(c->groups, gid);
}

static int gid_compare(const void *a, const void *b)
{
	uint32_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

void cred_set_groups(struct cred *c, struct cred_groups *g)
{
	/* One that others hold already is sorted already; sorting it again writes nothing new, but
	 * writes. */
	if (ref_read(&g->ref) == 1)
		qsort(g->gid, g->count, sizeof(g->gid[0]), gid_compare);
	groups_put(c->groups);
	c->groups = g;
}
