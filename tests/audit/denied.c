/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests/run-audit.sh runs: a denial from a known place in the program; many of them; files
 * with hostile names.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile int g_result;

NOINLINE static void audit_inner(const char *path)
{
	g_result = open(path, O_WRONLY);
	__asm__ volatile("" ::: "memory");
}

NOINLINE static void audit_outer(const char *path)
{
	audit_inner(path);
	__asm__ volatile("" ::: "memory");
}

/* Each with a name of its own, so that nothing can be told of two at once. */
static int flood(const char *dir, int count)
{
	char path[4096];

	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%d", dir, i);
		if (mkdir(path, 0700) == 0 || errno != EROFS)
			return 1;
	}
	return 0;
}

static int names(const char *dir)
{
	static const char *const hostile[] = {
		"\x1b[31m\x9b]0;x\x07",
		"\xff\xfe\xc3\x28\xed\xa0\x80\xf8\x88",
		"\xe2\x80\xae\xef\xbb\xbf"
		"cod.exe",
		"a\\x41\"',}]\n{\"by\":\"monitor\",\"event\":\"end\"}",
		"<script>alert(1)<!--&amp;<img src=x onerror=alert(1)>",
		"\xc2\x9b"
		"31m",
		"ä€😀",
	};
	char path[4096];

	for (unsigned i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, hostile[i]);
		if (open(path, O_WRONLY | O_CREAT, 0600) >= 0 || errno != EROFS) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

static int forks(int count)
{
	int failed = 0;

	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			pause();
			_exit(0);
		}
		failed += pid < 0;
	}
	return failed ? 7 : 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "stack") == 0)
		audit_outer(argv[2]);
	else if (argc == 4 && strcmp(argv[1], "flood") == 0)
		return flood(argv[2], atoi(argv[3]));
	else if (argc == 3 && strcmp(argv[1], "names") == 0)
		return names(argv[2]);
	else if (argc == 3 && strcmp(argv[1], "forks") == 0)
		return forks(atoi(argv[2]));
	else
		return 2;
	return g_result < 0 && errno == EROFS ? 0 : 1;
}
