/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the caller's environment says to the C library is not said to moat's own processes.
 *
 * Theory of operation: the C library and its dynamic loader look at the environment before main(),
 * once: GLIBC_TUNABLES and MALLOC_ change which host calls malloc makes, of which the sentry's
 * filter knows only the usual ones; LD_PRELOAD and LD_AUDIT bring code along; and of GLIBC_TUNABLES
 * the loader leaves a copy elsewhere. So moat executes itself once more, if there is such a
 * variable, with its name put behind a prefix, which main() then takes off again: --env, policies
 * and learning find what the caller has set. LD_LIBRARY_PATH stays, as our own libraries may be
 * there.
 *
 * References: ld.so(8), mallopt(3); glibc's manual, "Tunables".
 */
#include "runtime/anew.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include "base/err.h"
#include "base/hostcall.h"

#define PREFIX "MOAT_CALLER_"

static bool starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static bool is_for_library(const char *var)
{
	return starts(var, "GLIBC_TUNABLES=") || starts(var, "MALLOC_") ||
	       (starts(var, "LD_") && !starts(var, "LD_LIBRARY_PATH="));
}

static bool is_put_away(const char *var)
{
	return starts(var, PREFIX) && is_for_library(var + strlen(PREFIX));
}

static void execute_anew(char **argv, size_t count)
{
	const char *self = (const char *)getauxval(AT_EXECFN);
	char **env = calloc(count + 1, sizeof(*env));
	size_t i;

	for (i = 0; env && i < count; i++) {
		env[i] = environ[i];
		if (is_for_library(environ[i]) && asprintf(&env[i], PREFIX "%s", environ[i]) < 0)
			break;
	}
	if (env && i == count) {
		if (self)
			HOST(execve_anew, execve(self, argv, env));
		/* The name may have been that of a descriptor (fexecve). */
		HOST(execve_anew, execve("/proc/self/exe", argv, env));
	}
	fprintf(stderr,
		"moat: warning: cannot start anew without what the environment says to the C "
		"library: %s; unset GLIBC_TUNABLES, MALLOC_* and LD_*\n",
		err_text(errno));
	for (size_t k = 0; k < i; k++) {
		if (env[k] != environ[k])
			free(env[k]);
	}
	free(env);
}

void anew_without(char **argv)
{
	bool is_said = false, was_said = false;
	size_t count = 0;

	for (; environ && environ[count]; count++) {
		is_said |= is_for_library(environ[count]);
		was_said |= is_put_away(environ[count]);
	}
	/* At most once, whatever the loader makes of it. */
	if (is_said && !was_said)
		execute_anew(argv, count);
	for (size_t i = 0; i < count; i++) {
		if (is_put_away(environ[i]))
			environ[i] += strlen(PREFIX);
	}
}
