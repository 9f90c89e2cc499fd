/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test runner of the stand-in for Criterion: each test in a process of its own, made by
 * starting this program again, so that nothing is forked after threads were started. Output ends in
 * Criterion's form.
 *
 *   unit [--filter=SUITE/NAME]   runs them all, or those that match the pattern
 *   unit --run SUITE/NAME        runs one in this process
 */
#include <fnmatch.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/wait.h>
#include "criterion/criterion.h"

#define EXIT_SKIPPED 77

extern char **environ;

static struct plain_test *g_tests;
static struct plain_test **g_tail = &g_tests;
static bool g_failed;

void plain_register(struct plain_test *t)
{
	*g_tail = t;
	g_tail = &t->next;
}

void plain_failed(const char *file, int line, const char *what, bool fatal, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s:%d: %s %s\n", file, line, what, text);
	__atomic_store_n(&g_failed, true, __ATOMIC_RELAXED);
	if (fatal)
		_exit(1);
}

void plain_skip(void)
{
	_exit(EXIT_SKIPPED);
}

static struct plain_data plain_suite(const char *suite)
{
	for (struct plain_test *t = g_tests; t; t = t->next) {
		if (!t->fn && strcmp(t->suite, suite) == 0)
			return t->data;
	}
	return (struct plain_data){0};
}

static int plain_run(const struct plain_test *t)
{
	struct plain_data suite = plain_suite(t->suite);
	void (*init)(void) = t->data.init ? t->data.init : suite.init;
	void (*fini)(void) = t->data.fini ? t->data.fini : suite.fini;

	if (init)
		init();
	t->fn();
	if (fini)
		fini();
	return __atomic_load_n(&g_failed, __ATOMIC_RELAXED);
}

/* The wait status of the test's process, -1 if there was none. */
static int plain_spawn(char *name)
{
	char program[] = "unit", run[] = "--run";
	char *argv[] = {program, run, name, NULL};
	pid_t pid;
	int status;

	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		;
	return status;
}

int main(int argc, char **argv)
{
	const char *filter = "*";
	unsigned tested = 0, passing = 0, failing = 0, crashing = 0;

	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--filter=", 9) == 0)
			filter = argv[i] + 9;
	}
	for (struct plain_test *t = g_tests; t; t = t->next) {
		char name[256];

		if (!t->fn)
			continue;
		snprintf(name, sizeof(name), "%s/%s", t->suite, t->name);
		if (argc == 3 && strcmp(argv[1], "--run") == 0) {
			if (strcmp(argv[2], name) == 0)
				return plain_run(t);
			continue;
		}
		if (t->data.disabled || fnmatch(filter, name, 0) != 0)
			continue;

		int status = plain_spawn(name);

		tested++;
		if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
			continue;
		} else if (WIFSIGNALED(status) && WTERMSIG(status) == t->data.signal) {
			passing++;
		} else if (WIFEXITED(status) && !t->data.signal &&
			   WEXITSTATUS(status) == t->data.exit_code) {
			passing++;
		} else if (WIFEXITED(status)) {
			failing++;
			fprintf(stderr, "[FAIL] %s: exit status %d\n", name, WEXITSTATUS(status));
		} else {
			crashing++;
			fprintf(stderr, "[FAIL] %s: signal %d\n", name, WTERMSIG(status));
		}
	}
	printf("[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u\n", tested,
	       passing, failing, crashing);
	return failing + crashing != 0;
}
