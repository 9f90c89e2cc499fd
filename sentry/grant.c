/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezing the grant.
 *
 * Theory of operation: a copier walks the draft twice, once to count the bytes and once to place
 * them in one mapping of their own; then the mapping becomes read-only and is sealed, so that not
 * even the sentry's own code can map, unmap, move or write it any more (mseal; before Linux 6.10 it
 * is read-only alone). The variable g_grant lies in a page of its own that gets the same treatment:
 * who could change the pointer would need no write to the grant.
 *
 * The hash is over tagged fields with their sizes, so that no two grants have one form. What a
 * grant is called and where its rules were written is no part of it, nor are descriptors: the same
 * authority has the same hash.
 */
#include "sentry/grant.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/hostcall.h"

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

static struct {
	const struct grant *grant;
	char rest[MOAT_PAGE_SIZE - sizeof(void *)];
} g_grant_page __attribute__((aligned(MOAT_PAGE_SIZE), used));
_Static_assert(sizeof(g_grant_page) == MOAT_PAGE_SIZE, "nothing else lies in that page");

extern const struct grant *g_grant __attribute__((alias("g_grant_page")));

/* ---- the hash ---- */

static void digest_bytes(struct sha256_ctx *h, const void *p, size_t size)
{
	sha256_update(h, size, p);
}

static void digest_u64(struct sha256_ctx *h, uint64_t v)
{
	uint8_t b[8];

	for (unsigned i = 0; i < 8; i++)
		b[i] = (uint8_t)(v >> (8 * i));
	digest_bytes(h, b, sizeof(b));
}

/* NULL is not the empty string. */
static void digest_text(struct sha256_ctx *h, const char *s)
{
	digest_u64(h, s ? strlen(s) + 1 : 0);
	if (s)
		digest_bytes(h, s, strlen(s));
}

void grant_hash(const struct grant *g, uint8_t out[GRANT_HASH_SIZE])
{
	struct sha256_ctx h;

	sha256_init(&h);
	digest_text(&h, "moat grant 1");
	digest_u64(&h, g->strict);
	digest_text(&h, g->root);
	digest_u64(&h, g->path_count);
	for (uint32_t i = 0; i < g->path_count; i++) {
		const struct grant_path *p = &g->paths[i];

		digest_text(&h, p->host);
		digest_text(&h, p->target);
		digest_u64(&h, p->access);
		digest_u64(&h, p->exec);
		digest_u64(&h, p->optional);
	}
	digest_u64(&h, g->env_count);
	for (uint32_t i = 0; i < g->env_count; i++)
		digest_text(&h, g->env[i]);
	digest_u64(&h, g->device_count);
	for (uint32_t i = 0; i < g->device_count; i++)
		digest_text(&h, g->devices[i]);
	digest_u64(&h, g->egress_count);
	for (uint32_t i = 0; i < g->egress_count; i++)
		digest_text(&h, g->egress[i].rule);
	digest_text(&h, g->cwd);
	digest_text(&h, g->hostname);
	digest_u64(&h, g->uid);
	digest_u64(&h, g->gid);
	digest_u64(&h, g->cpus);
	digest_u64(&h, GRANT_LIMIT_COUNT);
	for (unsigned i = 0; i < GRANT_LIMIT_COUNT; i++)
		digest_u64(&h, g->limits[i]);
	digest_u64(&h, g->clock);
	digest_u64(&h, (uint64_t)g->clock_arg_ns);
	digest_u64(&h, g->seeded);
	digest_u64(&h, g->seeded ? g->seed : 0);
	sha256_digest(&h, GRANT_HASH_SIZE, out);
}

/* ---- the copy ---- */

struct copier {
	char *base; /* NULL: only counts */
	size_t used;
};

/* Room for @size bytes, with @p's content (NULL: zeros, as fresh pages are); NULL while counting.
 */
static void *copy_bytes(struct copier *c, const void *p, size_t size)
{
	const size_t at = (c->used + 15) & ~(size_t)15;

	c->used = at + size;
	if (!c->base)
		return NULL;
	if (p && size)
		memcpy(c->base + at, p, size);
	return c->base + at;
}

static const char *copy_text(struct copier *c, const char *s)
{
	return s ? copy_bytes(c, s, strlen(s) + 1) : NULL;
}

static void copy_origin(struct copier *c, const struct grant_origin *from, struct grant_origin *to)
{
	const char *file = copy_text(c, from->file);

	if (to)
		to->file = file;
}

static void copy_paths(struct copier *c, const struct grant *draft, struct grant *g)
{
	struct grant_path *paths =
		copy_bytes(c, draft->paths, draft->path_count * sizeof(draft->paths[0]));

	for (uint32_t i = 0; i < draft->path_count; i++) {
		const struct grant_path *from = &draft->paths[i];
		const char *host = copy_text(c, from->host), *target = copy_text(c, from->target);

		copy_origin(c, &from->origin, paths ? &paths[i].origin : NULL);
		if (paths) {
			paths[i].host = host;
			paths[i].target = target;
		}
	}
	if (g)
		g->paths = paths;
}

static void copy_egress(struct copier *c, const struct grant *draft, struct grant *g)
{
	struct grant_egress *rules =
		copy_bytes(c, draft->egress, draft->egress_count * sizeof(draft->egress[0]));

	for (uint32_t i = 0; i < draft->egress_count; i++) {
		const char *rule = copy_text(c, draft->egress[i].rule);

		copy_origin(c, &draft->egress[i].origin, rules ? &rules[i].origin : NULL);
		if (rules)
			rules[i].rule = rule;
	}
	if (g)
		g->egress = rules;
}

/* @count strings; in the copy a NULL follows. */
static char **copy_texts(struct copier *c, const char *const *from, uint32_t count)
{
	char **to = copy_bytes(c, NULL, (count + 1) * sizeof(*to));

	for (uint32_t i = 0; i < count; i++) {
		const char *s = copy_text(c, from[i]);

		if (to)
			to[i] = (char *)(uintptr_t)s;
	}
	return to;
}

static void copy_hidden(struct copier *c, const struct grant *draft, struct grant *g)
{
	struct hostfs_hidden *names =
		copy_bytes(c, draft->hidden, draft->hidden_count * sizeof(draft->hidden[0]));
	struct hostfs_id *files = copy_bytes(
		c, draft->hidden_files, draft->hidden_file_count * sizeof(draft->hidden_files[0]));
	struct hostfs_id *pins =
		copy_bytes(c, draft->pins, draft->pin_count * sizeof(draft->pins[0]));

	for (uint32_t i = 0; i < draft->hidden_count; i++) {
		const char *name = copy_text(c, draft->hidden[i].name);

		if (names)
			names[i].name = name;
	}
	const char **masks = (const char **)copy_texts(c, draft->masks, draft->mask_count);

	if (!g)
		return;
	g->masks = masks;
	g->hidden = names;
	g->hidden_files = files;
	g->pins = pins;
}

static struct grant *copy_grant(struct copier *c, const struct grant *draft)
{
	struct grant *g = copy_bytes(c, draft, sizeof(*draft));
	const char *name = copy_text(c, draft->name), *root = copy_text(c, draft->root);
	const char *cwd = copy_text(c, draft->cwd), *hostname = copy_text(c, draft->hostname);
	char **env = copy_texts(c, (const char *const *)draft->env, draft->env_count);
	char **devices = copy_texts(c, draft->devices, draft->device_count);

	copy_paths(c, draft, g);
	copy_hidden(c, draft, g);
	copy_egress(c, draft, g);
	for (unsigned i = 0; i < GRANT_LIMIT_COUNT; i++)
		copy_origin(c, &draft->limit_origin[i], g ? &g->limit_origin[i] : NULL);
	if (!g)
		return NULL;
	g->name = name;
	g->root = root;
	g->cwd = cwd;
	g->hostname = hostname;
	g->env = env;
	g->devices = (const char **)devices;
	return g;
}

static bool g_sealed;

/* Read-only from here on, for good. Where mseal is not to be had (before Linux 6.10, or a filter
 * above us) it is read-only all the same. */
static int seal(void *p, size_t size)
{
	if (HOST(mprotect_grant, mprotect(p, size, PROT_READ)) != 0)
		return -errno;
	g_sealed = HOST(mseal_grant, syscall(SYS_mseal, p, size, 0ul)) == 0;
	return 0;
}

bool grant_is_sealed(void)
{
	return g_sealed;
}

int grant_freeze(const struct grant *draft, struct err *e)
{
	struct copier c = {NULL, 0};
	size_t size;
	struct grant *g;
	int r;

	if (g_grant_page.grant)
		return err_set(e, EBUSY, "the grant is frozen already");
	(void)copy_grant(&c, draft);
	size = (c.used + MOAT_PAGE_SIZE - 1) & ~(size_t)(MOAT_PAGE_SIZE - 1);
	c.base = HOST(mmap_grant,
		      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	if (c.base == MAP_FAILED)
		return err_set(e, errno, "no memory for the grant: %s", err_text(errno));
	c.used = 0;
	g = copy_grant(&c, draft);
	grant_hash(g, g->hash);
	r = seal(c.base, size);
	if (r == 0) {
		g_grant_page.grant = g;
		r = seal(&g_grant_page, sizeof(g_grant_page));
	}
	return r ? err_set(e, -r, "the grant cannot be made read-only: %s", err_text(-r)) : 0;
}
