/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on the wall around a grant, one by one, each of which succeeds where there is no wall.
 *
 *   attack --list         name, class and needs of each case, a line each
 *   attack NAME           one attack
 *   attack --ally NAME    its ally, who is not in the sandbox and does as he likes in the tree
 *   attack --scene NAME   what must be there before (run on the host, by the runner)
 *
 * Theory of operation: $CASE is a directory of the runner's with
 *
 *   work/       granted for reading and writing: the attacker is in there
 *   ro/         granted for reading
 *   workshop/   not granted, nor is anything else: the name has work's as its beginning
 *   out/
 *
 * with a secret in workshop/secret and out/secret. An attack has succeeded if the secret is in its
 * output, or if anything but the contents of work/ has changed afterwards (the runner looks), or if
 * it exits with HARM. It says what it tries. The names are the same inside and outside.
 */
#include "attack.h"

char g_case[PATH_MAX];

/* A path in the tree. */
const char *in(const char *fmt, ...)
{
	static char buf[16][PATH_MAX];
	static unsigned next;
	char *b = buf[next++ % 16];
	va_list ap;
	int n = snprintf(b, PATH_MAX, "%s/", g_case);

	va_start(ap, fmt);
	vsnprintf(b + n, PATH_MAX - (size_t)n, fmt, ap);
	va_end(ap);
	return b;
}

void tried(const char *fmt, ...)
{
	va_list ap;
	int e = errno;

	printf("  tried ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	errno = e;
}

/* Shows what @fd leads to. */
bool show(int fd, const char *what)
{
	char buf[256];
	ssize_t n;

	if (fd < 0) {
		tried("%s: %s", what, strerror(errno));
		return false;
	}
	n = pread(fd, buf, sizeof(buf) - 1, 0);
	if (n < 0)
		n = read(fd, buf, sizeof(buf) - 1);
	tried("%s: %.*s", what, n > 0 ? (int)n : 0, buf);
	close(fd);
	return n > 0;
}

bool show_path(const char *path)
{
	return show(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), path);
}

void put_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		printf("  cannot write %s: %s\n", path, strerror(errno));
	fchmod(fd, mode);
	close(fd);
}

/* How many times a race is run. */
unsigned rounds(void)
{
	const char *n = getenv("ROUNDS");

	return n ? (unsigned)atoi(n) : 300;
}

/* Another round? Where there are few processors the other side of the race needs them, too. */
bool again(unsigned i, unsigned count)
{
	if (i % 8 == 7)
		usleep(100);
	return i < count;
}

extern const struct attack g_escapes[], g_leaks[], g_answers[], g_deputies[], g_processes[];
static const struct attack *const g_all[] = {g_escapes, g_leaks, g_answers, g_deputies, g_processes};

static const struct attack *find(const char *name)
{
	for (size_t i = 0; i < sizeof(g_all) / sizeof(g_all[0]); i++)
		for (const struct attack *a = g_all[i]; a->name; a++)
			if (strcmp(a->name, name) == 0)
				return a;
	fprintf(stderr, "no attack %s\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	const char *dir = getenv("CASE");

	setvbuf(stdout, NULL, _IONBF, 0);
	signal(SIGPIPE, SIG_IGN);
	umask(0);
	snprintf(g_case, sizeof(g_case), "%s", dir ? dir : "/nonexistent");
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < sizeof(g_all) / sizeof(g_all[0]); i++)
			for (const struct attack *a = g_all[i]; a->name; a++)
				printf("%s %s %s\n", a->name, a->class, a->flags ? a->flags : "-");
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "--ally") == 0) {
		const struct attack *a = find(argv[2]);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (a->ally)
			a->ally();
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "--scene") == 0) {
		const struct attack *a = find(argv[2]);

		if (a->scene)
			a->scene();
		return 0;
	}
	if (argc != 2) {
		fprintf(stderr, "usage: attack --list | [--scene | --ally] NAME\n");
		return 2;
	}
	/* Nowhere else than where the runner has made a tree. */
	if (!dir || (access(in("out/secret"), F_OK) != 0 && !getenv("BOXED"))) {
		fprintf(stderr, "runs only from tests/run-hostile.sh\n");
		return 2;
	}
	if (chdir(in("work")) != 0)
		return 2;
	return find(argv[1])->run();
}
