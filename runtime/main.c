/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moat's commands.
 */
#include "runtime/anew.h"
#include "runtime/changes.h"
#include "runtime/policy.h"
#include "runtime/report.h"
#include "runtime/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "runtime/wall.h"

#define MOAT_VERSION "0.1.0"

static int run_main(int argc, char **argv)
{
	static struct run_config cfg;

	run_parse(argc, argv, &cfg);
	return monitor_run(&cfg);
}

static int version_main(int argc UNUSED, char **argv UNUSED)
{
	puts("moat " MOAT_VERSION);
	return 0;
}

static int help_main(int argc, char **argv);

static const struct command {
	const char *name;
	int (*fn)(int argc, char **argv);
	const char *summary;
} g_commands[] = {
	{"run", run_main, "run a program in a sandbox: moat run [OPTION…] -- PROG [ARG…]"},
	{"diff", diff_main,
	 "list what an archive of --save changes: moat diff [--root DIR] FILE.tar"},
	{"policy", policy_main,
	 "check, show, explain and learn what a policy grants: moat policy help"},
	{"report", report_main, "make a page of a log of --audit: moat report LOG -o FILE.html"},
	{"doctor", doctor_main, "say what this host can run, and what it lacks"},
	{"version", version_main, "print the version"},
	{"help", help_main, "print this list"},
};

static int help_main(int argc UNUSED, char **argv UNUSED)
{
	puts("usage: moat COMMAND [ARG…]\n\nCommands:");
	for (size_t i = 0; i < ARRAY_SIZE(g_commands); i++)
		printf("  %-8s  %s\n", g_commands[i].name, g_commands[i].summary);
	puts("\n`moat run --help` lists the options. The manual: man moat.");
	return 0;
}

/* The status of a command, unless its answer could not be written. */
static int told(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "moat: standard output: %s; make room, or name another file\n",
		strerror(errno));
	return EXIT_SENTRY;
}

int main(int argc, char **argv)
{
	static char help[] = "--help";

	wall_arguments(argc, argv);
	anew_without(argv);
	if (argc == 3 && strcmp(argv[1], "help") == 0) {
		argv[1] = argv[2];
		argv[2] = help;
	}
	if (argc < 2) {
		fprintf(stderr, "moat: no command given; `moat help` lists them, `moat run -- "
				"PROG` runs a program\n");
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < ARRAY_SIZE(g_commands); i++) {
		if (strcmp(argv[1], g_commands[i].name) != 0)
			continue;
		if (argc == 3 && i > 0 && strcmp(argv[2], "--help") == 0 &&
		    strcmp(argv[1], "policy") != 0) {
			printf("moat %s: %s\nThe manual: man moat.\n", argv[1],
			       g_commands[i].summary);
			return told(0);
		}
		/* Only these have arguments. */
		if (argc > 2 && strcmp(g_commands[i].name, "run") != 0 &&
		    strcmp(g_commands[i].name, "diff") != 0 &&
		    strcmp(g_commands[i].name, "policy") != 0 &&
		    strcmp(g_commands[i].name, "report") != 0) {
			fprintf(stderr,
				"moat %s: '%s': it takes no arguments; `moat help` says more\n",
				argv[1], argv[2]);
			return EXIT_USAGE;
		}

		const int status = told(g_commands[i].fn(argc - 1, argv + 1));

		monitor_die(status);
		return status;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return told(help_main(0, NULL));
	if (strcmp(argv[1], "--version") == 0)
		return told(version_main(0, NULL));
	fprintf(stderr, "moat: '%s' is no command; `moat help` lists them\n", argv[1]);
	return EXIT_USAGE;
}
