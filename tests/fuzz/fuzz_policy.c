/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: runtime/policy.h on arbitrary bytes. An error has one line and a place; a policy
 *that is good has one hash, and freezing it could not go wrong.
 *
 *	make m=fuzz fuzz && build/fuzz/fuzz/fuzz_policy tests/fuzz/corpus/policy
 */
#include <string.h>
#include "base/err.h"
#include "runtime/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_paths(const struct grant *g)
{
	for (uint32_t i = 0; i < g->path_count; i++) {
		const struct grant_path *p = &g->paths[i];

		BUG_ON(p->target[0] != '/' || !p->target[1]);
		BUG_ON(strstr(p->target, "/../") || strstr(p->target, "//"));
		BUG_ON((p->access == GRANT_HIDDEN) != (p->host == NULL));
		BUG_ON(p->host && (p->host[0] != '/' || !p->host[1]));
		for (uint32_t k = 0; k < i; k++)
			BUG_ON(strcmp(g->paths[k].target, p->target) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct draft d;
	uint8_t first[GRANT_HASH_SIZE], second[GRANT_HASH_SIZE];
	struct err e = {{0}};
	int r;

	draft_init(&d);
	r = policy_parse("fuzz", (const char *)data, size, &d, &e);
	if (r == 0)
		r = draft_finish(&d, &e);
	if (r) {
		BUG_ON(!e.text[0] || strchr(e.text, '\n') || strchr(e.text, '\033'));
	} else {
		check_paths(&d.g);
		for (unsigned i = 0; i < GRANT_LIMIT_COUNT; i++)
			BUG_ON(d.g.limits[i] == 0);
		grant_hash(&d.g, first);
		grant_hash(&d.g, second);
		BUG_ON(memcmp(first, second, sizeof(first)) != 0);
	}
	draft_fini(&d);
	return 0;
}
