/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `moat policy`.
 */
#include "runtime/policy.h"
#include "runtime/run.h"

#include "base/meter.h"

#include <stdio.h>
#include <string.h>

static struct draft g_draft;

/* A file, or the name of a preset. */
static int load(const char *what, struct err *e)
{
	draft_init(&g_draft);
	return policy_preset(what) ? policy_load_preset(what, &g_draft, e)
				   : policy_load(what, &g_draft, e);
}

static int complain(const struct err *e)
{
	fprintf(stderr, "moat policy: %s\n", e->text);
	return EXIT_USAGE;
}

static void print_hash(const struct grant *g)
{
	uint8_t hash[GRANT_HASH_SIZE];

	grant_hash(g, hash);
	for (unsigned i = 0; i < sizeof(hash); i++)
		printf("%02x", hash[i]);
}

int policy_check(const char *path, struct err *e)
{
	int r;

	draft_init(&g_draft);
	r = policy_load(path, &g_draft, e);
	if (r == 0)
		r = draft_finish(&g_draft, e);
	draft_fini(&g_draft);
	return r;
}

static int check_main(int argc, char **argv)
{
	struct err e = {{0}};
	int status = 0;

	if (argc < 2) {
		fputs("moat policy: check: a file is missing: moat policy check FILE\n", stderr);
		return EXIT_USAGE;
	}
	for (int i = 1; i < argc; i++) {
		if (load(argv[i], &e) || draft_finish(&g_draft, &e)) {
			status = complain(&e);
		} else {
			printf("%s: good; grant ", argv[i]);
			print_hash(&g_draft.g);
			putchar('\n');
			if (draft_check_built(&g_draft, &e))
				printf("%s: but it cannot run yet: %s\n", argv[i], e.text);
			/* In the order of the files, beside what is said of the bad ones. */
			fflush(stdout);
		}
		draft_fini(&g_draft);
	}
	return status;
}

static int show_main(int argc, char **argv)
{
	const char *text = argc == 2 ? policy_preset(argv[1]) : NULL;

	if (!text) {
		fprintf(stderr, "moat policy: show: %s: there are the presets",
			argc == 2 ? argv[1] : "name one preset");
		for (unsigned i = 0; policy_preset_name(i); i++)
			fprintf(stderr, "%s %s", i ? "," : "", policy_preset_name(i));
		fputc('\n', stderr);
		return EXIT_USAGE;
	}
	fputs(text, stdout);
	return 0;
}

static int explain_main(int argc, char **argv)
{
	struct err e = {{0}};

	if (argc < 5) {
		fputs("moat policy: explain: too little is said: moat policy explain FILE -- open "
		      "PATH "
		      "[read|write] | exec PATH | connect HOST:PORT\n",
		      stderr);
		return EXIT_USAGE;
	}
	if (load(argv[1], &e) || draft_finish(&g_draft, &e))
		return complain(&e);
	return policy_explain(&g_draft, argc - 2, argv + 2);
}

static int help_main(int argc UNUSED, char **argv UNUSED)
{
	puts("usage:\n"
	     "  moat policy check FILE…\n"
	     "  moat policy show PRESET\n"
	     "  moat policy explain FILE|PRESET -- open PATH [read|write] | exec PATH | connect "
	     "HOST:PORT\n"
	     "  moat policy learn -o FILE [OPTION of moat run…] -- PROG [ARG…]\n"
	     "\nThe manual: man moat-policy.");
	return 0;
}

int policy_main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*fn)(int argc, char **argv);
	} verbs[] = {
		{"check", check_main}, {"show", show_main}, {"explain", explain_main},
		{"learn", learn_main}, {"help", help_main}, {"--help", help_main},
	};

	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i].name, argv[1]) == 0)
			return verbs[i].fn(argc - 1, argv + 1);
	fprintf(stderr,
		"moat policy: %s: it is check, show, explain or learn; `moat policy help' says "
		"more\n",
		argc > 1 ? argv[1] : "no verb is given");
	return EXIT_USAGE;
}
