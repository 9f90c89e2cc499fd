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

#define JOBS 2

static struct job {
	pid_t pid; /* 0: free */
	const struct plain_test *test;
} g_jobs[JOBS];
static unsigned g_running;
static unsigned g_tested, g_passing, g_failing, g_crashing;

static void plain_report(const struct plain_test *t, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED)
		return;
	if (WIFSIGNALED(status) && WTERMSIG(status) == t->data.signal) {
		g_passing++;
	} else if (WIFEXITED(status) && !t->data.signal &&
		   WEXITSTATUS(status) == t->data.exit_code) {
		g_passing++;
	} else if (WIFEXITED(status)) {
		g_failing++;
		fprintf(stderr, "[FAIL] %s/%s: exit status %d\n", t->suite, t->name,
			WEXITSTATUS(status));
	} else {
		g_crashing++;
		fprintf(stderr, "[FAIL] %s/%s: signal %d\n", t->suite, t->name, WTERMSIG(status));
	}
}

static void plain_wait_one(void)
{
	int status;
	pid_t pid = wait(&status);

	for (unsigned i = 0; i < JOBS; i++) {
		if (pid <= 0 || g_jobs[i].pid != pid)
			continue;
		plain_report(g_jobs[i].test, status);
		g_jobs[i].pid = 0;
		g_running--;
	}
}

static void plain_spawn(const struct plain_test *t, char *name)
{
	char program[] = "unit", run[] = "--run";
	char *argv[] = {program, run, name, NULL};
	struct job *job = g_jobs;

	if (g_running == JOBS)
		plain_wait_one();
	while (job->pid)
		job++;
	job->test = t;
	g_tested++;
	if (posix_spawn(&job->pid, "/proc/self/exe", NULL, NULL, argv, environ) == 0) {
		g_running++;
	} else {
		job->pid = 0;
		plain_report(t, SIGKILL);
	}
}

int main(int argc, char **argv)
{
	const char *filter = "*";

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
		if (!t->data.disabled && fnmatch(filter, name, 0) == 0)
			plain_spawn(t, name);
	}
	while (g_running > 0)
		plain_wait_one();
	printf("[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u\n",
	       g_tested, g_passing, g_failing, g_crashing);
	return g_failing + g_crashing != 0;
}
