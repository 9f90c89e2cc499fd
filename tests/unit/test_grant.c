/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sentry/grant.h: what is frozen is a copy, is what was drafted, and stays so.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "sentry/grant.h"

static struct grant_path g_paths[2];
static char *g_env[] = {(char *)"A=1", (char *)"B=", NULL};
static const char *g_devices[] = {"null", "tty"};
static struct grant_egress g_egress[1];

static struct grant draft_make(void)
{
	struct grant g = {
		.name = "test",
		.paths = g_paths,
		.path_count = 2,
		.env = g_env,
		.env_count = 2,
		.devices = g_devices,
		.device_count = 2,
		.egress = g_egress,
		.egress_count = 1,
		.cwd = "/work",
		.hostname = "h",
		.uid = 1000,
		.gid = 100,
		.cpus = 2,
		.seed = 5,
	};

	g_paths[0] = (struct grant_path){.host = "/a",
					 .target = "/work",
					 .access = GRANT_WRITE,
					 .fd = 9,
					 .origin = {"file", 3, 7}};
	g_paths[1] = (struct grant_path){.target = "/work/.git", .access = GRANT_HIDDEN, .fd = -1};
	g_egress[0] = (struct grant_egress){.rule = "example.org:443", .origin = {"file", 9, 1}};
	for (unsigned i = 0; i < GRANT_LIMIT_COUNT; i++)
		g.limits[i] = GRANT_NO_LIMIT;
	g.limits[GRANT_LIMIT_timers] = 7;
	g.limit_origin[GRANT_LIMIT_timers] = (struct grant_origin){"limits", 1, 2};
	return g;
}

Test(grant, freeze)
{
	struct grant draft = draft_make();
	struct err e;
	uint8_t zero[GRANT_HASH_SIZE] = {0};

	cr_assert_null(g_grant);
	cr_assert_eq(grant_limit(GRANT_LIMIT_timers), GRANT_NO_LIMIT);
	cr_assert_eq(grant_freeze(&draft, &e), 0, "%s", e.text);
	/* Nothing of the draft's is left in it. */
	memset(g_paths, 0xff, sizeof(g_paths));
	memset(g_egress, 0xff, sizeof(g_egress));
	memset(&draft, 0xff, sizeof(draft));
	cr_assert_str_eq(g_grant->name, "test");
	cr_assert_null(g_grant->root);
	cr_assert_eq(g_grant->path_count, 2);
	cr_assert_str_eq(g_grant->paths[0].host, "/a");
	cr_assert_str_eq(g_grant->paths[0].target, "/work");
	cr_assert_str_eq(g_grant->paths[0].origin.file, "file");
	cr_assert_eq(g_grant->paths[0].origin.column, 7);
	cr_assert_eq(g_grant->paths[0].fd, 9);
	cr_assert_null(g_grant->paths[1].host);
	cr_assert_null(g_grant->paths[1].origin.file);
	cr_assert_str_eq(g_grant->env[1], "B=");
	cr_assert_null(g_grant->env[2]);
	cr_assert_str_eq(g_grant->devices[1], "tty");
	cr_assert_str_eq(g_grant->egress[0].rule, "example.org:443");
	cr_assert_str_eq(g_grant->cwd, "/work");
	cr_assert_eq(grant_limit(GRANT_LIMIT_timers), 7);
	cr_assert_str_eq(g_grant->limit_origin[GRANT_LIMIT_timers].file, "limits");
	cr_assert(memcmp(g_grant->hash, zero, sizeof(zero)) != 0);
	draft = draft_make();
	cr_assert_eq(grant_freeze(&draft, &e), -EBUSY, "a second grant");
}

/* Each field that says what is allowed changes the hash; others do not. */
Test(grant, hash)
{
	uint8_t first[GRANT_HASH_SIZE], now[GRANT_HASH_SIZE];
	struct grant g = draft_make();

	grant_hash(&g, first);
#define CHANGES(expr)                                                         \
	do {                                                                  \
		g = draft_make();                                             \
		expr;                                                         \
		grant_hash(&g, now);                                          \
		cr_assert(memcmp(first, now, sizeof(now)) != 0, "%s", #expr); \
	} while (0)
#define KEEPS(expr)                                                           \
	do {                                                                  \
		g = draft_make();                                             \
		expr;                                                         \
		grant_hash(&g, now);                                          \
		cr_assert(memcmp(first, now, sizeof(now)) == 0, "%s", #expr); \
	} while (0)
	CHANGES(g.strict = true);
	CHANGES(g.root = "");
	CHANGES(g_paths[0].host = "/b");
	CHANGES(g_paths[0].target = "/wor");
	CHANGES(g_paths[0].access = GRANT_READ);
	CHANGES(g_paths[0].exec = true);
	CHANGES(g_paths[0].optional = true);
	CHANGES(g.path_count = 1);
	CHANGES(g.env_count = 1);
	CHANGES(g.device_count = 1);
	CHANGES(g.egress_count = 0);
	CHANGES(g.cwd = "/");
	CHANGES(g.hostname = "i");
	CHANGES(g.uid = 0);
	CHANGES(g.gid = 0);
	CHANGES(g.cpus = 3);
	CHANGES(g.clock = CLOCK_KIND_VIRTUAL);
	CHANGES(g.clock_arg_ns = -1);
	CHANGES(g.seeded = true);
	for (unsigned i = 0; i < GRANT_LIMIT_COUNT; i++)
		CHANGES(g.limits[i] = 1);
	KEEPS(g.name = "other");
	KEEPS(g_paths[0].fd = 3);
	KEEPS(g_paths[0].origin.line = 99);
	KEEPS(g_egress[0].origin.line = 99);
	KEEPS(g.seed = 6);
	g = draft_make();
	g.seeded = true;
	grant_hash(&g, first);
	CHANGES((g.seeded = true, g.seed = 6));
}

static void faulted(int sig)
{
	(void)sig;
	_exit(77);
}

static void freeze(void)
{
	struct grant draft = draft_make();
	struct err e;

	/* A handler, because sanitizers have one, too. */
	signal(SIGSEGV, faulted);

	cr_assert_eq(grant_freeze(&draft, &e), 0, "%s", e.text);
}

Test(grant, write_to_it, .exit_code = 77)
{
	freeze();
	((struct grant *)(uintptr_t)g_grant)->uid = 0;
}

Test(grant, write_to_a_path, .exit_code = 77)
{
	freeze();
	g_grant->paths[0].access = GRANT_WRITE;
}

Test(grant, write_to_a_string, .exit_code = 77)
{
	freeze();
	g_grant->env[0][0] = 'X';
}

Test(grant, write_to_the_pointer, .exit_code = 77)
{
	static const struct grant wider;

	freeze();
	*(const struct grant *volatile *)&g_grant = &wider;
}

/* What the host's mseal is for: no call of ours opens those pages again. */
Test(grant, sealed)
{
	const struct grant *const volatile *const variable = &g_grant;
	void *const page = (void *)((uintptr_t)variable & ~(uintptr_t)(MOAT_PAGE_SIZE - 1));
	void *pages[2];

	if (syscall(462 /* mseal */, NULL, 0ul, 0ul) != 0 && errno == ENOSYS) {
		fputs("skip: this host has no mseal\n", stderr);
		return;
	}
	freeze();
	pages[0] = (void *)((uintptr_t)g_grant & ~(uintptr_t)(MOAT_PAGE_SIZE - 1));
	pages[1] = page;
	for (unsigned i = 0; i < 2; i++) {
		void *const p = pages[i];

		cr_assert_eq(mprotect(p, MOAT_PAGE_SIZE, PROT_READ | PROT_WRITE), -1);
		cr_assert_eq(errno, EPERM);
		cr_assert_eq(munmap(p, MOAT_PAGE_SIZE), -1);
		cr_assert_eq(errno, EPERM);
		cr_assert_eq(mremap(p, MOAT_PAGE_SIZE, 2 * MOAT_PAGE_SIZE, MREMAP_MAYMOVE),
			     MAP_FAILED);
		cr_assert_eq(errno, EPERM);
		cr_assert_eq(mmap(p, MOAT_PAGE_SIZE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			     MAP_FAILED);
		cr_assert_eq(errno, EPERM);
		cr_assert_eq(madvise(p, MOAT_PAGE_SIZE, MADV_DONTNEED), -1);
		cr_assert_eq(errno, EPERM);
	}
	cr_assert_eq(g_grant->uid, 1000);
}
